// Blocks against inaccessible pages: what lies past one stops who touches it, in a process of its own.
#include "catch.hpp"
#include "checks.hpp"
#include "run_again.hpp"

#include <sinter/tensor/guarded_memory.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>

using namespace sinter;
using tensor_detail::GuardPages;

namespace {
/// Whether a process that does this lives to its end.
bool survives(const std::function<void()>& does) {
  std::fflush(nullptr);  // or the child writes it, too
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::fclose(stderr);  // a sanitizer, or the test framework, would report what is expected
    std::fclose(stdout);
    does();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
void read_at(const void* data, std::ptrdiff_t place) {
  static_cast<void>(static_cast<const volatile char*>(data)[place]);
}
void write_at(void* data, std::ptrdiff_t place) { static_cast<volatile char*>(data)[place] = 1; }
}  // namespace

TEST_CASE("guarded memory: a block is writable, and what lies before or after it is not accessible") {
  for (const std::size_t bytes : {1, 12, 4095, 4096, 4097, 70000})
    for (const GuardPages guards : {GuardPages::at_start, GuardPages::at_end}) {
      INFO(bytes << " bytes, " << (guards == GuardPages::at_end ? "end" : "start"));
      void* const block = tensor_detail::guarded_block(bytes, guards);
      REQUIRE(block != nullptr);
      const auto* const first = static_cast<const unsigned char*>(block);
      for (std::size_t i = 0; i < bytes; ++i) REQUIRE(first[i] == 0xFF);
      std::memset(block, 0, bytes);
      const std::ptrdiff_t outside = guards == GuardPages::at_end ? static_cast<std::ptrdiff_t>(bytes) : -1;
      CHECK(survives([&] { read_at(block, guards == GuardPages::at_end ? outside - 1 : 0); }));
      CHECK_FALSE(survives([&] { read_at(block, outside); }));
      CHECK_FALSE(survives([&] { write_at(block, outside); }));
      tensor_detail::free_guarded_block(block, bytes, guards);
      CHECK_FALSE(survives([&] { read_at(block, 0); }));
    }
  for (const GuardPages guards : {GuardPages::at_start, GuardPages::at_end}) {  // no byte may be touched
    void* const empty = tensor_detail::guarded_block(0, guards);
    REQUIRE(empty != nullptr);
    CHECK_FALSE(survives([&] { read_at(empty, 0); }));
    CHECK_FALSE(survives([&] { read_at(empty, -1); }));
    tensor_detail::free_guarded_block(empty, 0, guards);
  }
}

TEST_CASE("guarded memory: pieces of a block lie against pages of none") {
  const std::vector<std::int64_t> bytes{12, 0, 4096, 5000};
  for (const GuardPages guards : {GuardPages::at_start, GuardPages::at_end}) {
    std::vector<std::int64_t> offsets;
    const auto all = static_cast<std::size_t>(tensor_detail::place_guarded_pieces(bytes, guards, offsets));
    REQUIRE(offsets.size() == bytes.size());
    void* const block = tensor_detail::guarded_block(all, guards);
    REQUIRE(block != nullptr);
    tensor_detail::guard_pieces(block, bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      INFO("piece " << i << ", " << (guards == GuardPages::at_end ? "end" : "start"));
      char* const piece = static_cast<char*>(block) + offsets[i];
      std::memset(piece, 0, static_cast<std::size_t>(bytes[i]));
      CHECK_FALSE(survives([&] { read_at(piece, guards == GuardPages::at_end ? bytes[i] : -1); }));
    }
    tensor_detail::free_guarded_block(block, all, guards);
  }
}

TEST_CASE("tensors as SINTER_GUARD_PAGES has them", "[.guarded_tensors]") {
  try {
    const std::int64_t before = memory_stats().in_use;
    {
      const Tensor x = arange(7).to(DType::f32);
      eval(x);
      auto f = jit::compile([](Tensor a) { return exp(a * 0) + a; });
      std::printf("values %d\n", to_vector<float>(f(x)) == std::vector<float>{1, 2, 3, 4, 5, 6, 7});
      auto steps = jit::compile([](Tensor a) { return sum(softmax(matmul(a, a), 1) * sum(a)) + 0 * a; });
      eval(ones({5, 5}));
      const Tensor many = steps(ones({5, 5}));
      std::printf("steps %d\n", std::abs(item<float>(many(slice(0, 1), slice(0, 1))) - 125) < 1e-3);
      const auto storage = Storage::allocate(28);
      float first = 0;
      std::memcpy(&first, storage->data(), sizeof first);
      std::printf("new blocks are NaN %d\n", std::isnan(first));
      std::printf("end %d\n", !survives([&] { read_at(storage->data(), 28); }));
      std::printf("start %d\n", !survives([&] { read_at(storage->data(), -1); }));
      std::printf("counted %d\n", memory_stats().in_use - before >= 28);
      const void* freed = Storage::allocate(28)->data();
      std::printf("freed %d\n", !survives([&] { read_at(freed, 0); }));
    }
    jit::reset();
    set_memory_limit(1000);
    try {
      Storage::allocate(100000);
    } catch (const OutOfMemory&) { std::printf("limited\n"); }
  } catch (const UserError& error) { std::printf("%s\n", error.what()); }
}

TEST_CASE("guarded memory: the variable puts every tensor against a page") {
  const auto says = [](const std::string& setting) { return under(setting, "[.guarded_tensors]"); };
  const std::string at_end = says("SINTER_GUARD_PAGES=end"), at_start = says("SINTER_GUARD_PAGES=start");
  for (const std::string& text : {at_end, at_start}) {
    INFO(text);
    for (const char* line : {"values 1", "steps 1", "new blocks are NaN 1", "counted 1", "freed 1", "limited"}) {
      INFO(line);
      CHECK(has(text, line));
    }
  }
  CHECK(has(at_end, "end 1\nstart 0"));
  CHECK(has(at_start, "end 0\nstart 1"));
  for (const char* off : {"SINTER_GUARD_PAGES=", "SINTER_GUARD_PAGES=0"}) CHECK(has(says(off), "end 0\nstart 0"));
  CHECK(has(says("SINTER_GUARD_PAGES=middle"),
            "sinter::UserError: SINTER_GUARD_PAGES: 'middle' is neither start nor end"));
}
