// Machine code in files of functions: used only where the loading program trusts the file, and build and instruction
// set fit; damaged code is an error, and code that is not trusted is not looked at.
#include "../files_and_errors.hpp"
#include "catch.hpp"
#include "run_again.hpp"
#include "temporary_folder.hpp"

#include <sinter/io/function_bytes.hpp>
#include <sinter/runtime/program_code.hpp>
#include <sinter/sinter.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/machine/code_memory.hpp>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

using namespace sinter;

namespace {

std::uint64_t sum_of(std::string_view bytes) {
  return io::io_detail::checksum(std::as_bytes(std::span(bytes.data(), bytes.size())));
}
std::uint64_t word_at(const std::string& file, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(file[at + i]);
  return value;
}
void put_word(std::string& file, std::size_t at, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) file[at + i] = static_cast<char>(value >> (8 * i));
}
std::size_t code_begin(const std::string& file) {
  return static_cast<std::size_t>(word_at(file, 32) + word_at(file, 40));
}
/// With the checksums that what is in it asks for.
std::string repaired(std::string file) {
  const std::size_t begin = code_begin(file);
  if (file.size() >= begin + 8) put_word(file, begin, sum_of(std::string_view(file).substr(begin + 8)));
  put_word(file, 48, file.size() - begin);
  put_word(file, 56, sum_of(std::string_view(file).substr(0, 56)));
  return file;
}

/// A network with a product, an epilogue in registers, one as a loop, a row kernel and a region.
void save_model(const std::string& path, bool code) {
  manual_seed(3);
  const Tensor w = randn({16, 16}), v = randn({16, 5});
  auto f = jit::compile([&](Tensor x) {
    for (int i = 0; i < 3; ++i) x = relu(matmul(x, w) + 1.f);
    return softmax(tanh(matmul(x, v)), -1);
  });
  Tensor x = randn({6, 16});
  jit::mark_dynamic(x, 0);
  f.warm_up(x);
  jit::save(f, path, {.code = code});
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
/// What a child is told by its parent.
const char* given(const char* name) { return std::getenv(name); }
std::string quoted(const std::string& text) { return "'" + text + "'"; }

}  // namespace

/// Run by the tests below, in a process that has no cache and has compiled nothing.
TEST_CASE("child: loads a model and says what was generated", "[.][child]") {
  const char* const path = given("TEST_MODEL_FILE");
  if (path == nullptr) return;
  const bool trusts = given("TEST_TRUSTS_CODE") != nullptr;
  auto f = jit::load<Tensor(Tensor)>(path, {.trust_code = trusts});
  const Tensor x = full({6, 16}, 0.25f);
  to_vector<float>(x);  // whose kernel is none of the model's
  const runtime_detail::CodeCounting counting;
  const Tensor y = f(x);
  const auto made = counting.so_far();
  std::printf("generated %d loaded %d bits %016llx\n", made.generated > 0, made.loaded > 0,
              static_cast<unsigned long long>(sum_of({static_cast<const char*>(dense_value(In(y), "test")->data()),
                                                      static_cast<std::size_t>(6 * 5 * 4)})));
}

TEST_CASE("saved code: a process that trusts the file generates nothing, with the same bits") {
  if (!has_code) SINTER_SKIP("no x86 back end");
  const Folder folder;
  save_model(folder / "f", true);
  save_model(folder / "plain", false);
  CHECK(read_file(folder / "f").size() > read_file(folder / "plain").size() + 1000);
  CHECK(word_at(read_file(folder / "plain"), 48) == 0);
  const auto child = [&](const std::string& file, const std::string& more) {
    const std::string said = under("SINTER_CACHE_DIR=off TEST_MODEL_FILE=" + quoted(folder / file) + " " + more,
                                   "child: loads a model and says what was generated");
    const std::size_t at = said.find("generated ");
    return at == std::string::npos ? said : said.substr(at, said.find('\n', at) - at);
  };
  const std::string trusted = child("f", "TEST_TRUSTS_CODE=1"), compiled = child("plain", "");
  CHECK_CONTAINS(trusted, "generated 0 loaded 1");
  CHECK_CONTAINS(compiled, "generated 1 loaded 0");
  const std::string bits = compiled.substr(compiled.find("bits"));
  CHECK_CONTAINS(trusted, bits);
  CHECK(child("f", "") == compiled);  // not trusted: as if it were not there
  CHECK(child("plain", "TEST_TRUSTS_CODE=1") == compiled);
  CHECK(child("f", "TEST_TRUSTS_CODE=1 SINTER_CHECK=1") == compiled);
  // Another build's, and another processor's.
  std::string other = read_file(folder / "f");
  const std::size_t version = code_begin(other) + 16;
  other[version] = static_cast<char>(other[version] ^ 1);
  write_file(folder / "other", repaired(other));
  CHECK(child("other", "TEST_TRUSTS_CODE=1") == compiled);
  CHECK_CONTAINS(
      under("SINTER_CACHE_DIR=off SINTER_LOGS=cache TEST_TRUSTS_CODE=1 TEST_MODEL_FILE=" + quoted(folder / "plain"),
            "child: loads a model and says what was generated"),
      "it has no code");
  if (has_avx512()) CHECK_CONTAINS(child("f", "TEST_TRUSTS_CODE=1 SINTER_ISA=avx2"), "generated 1 loaded 0 " + bits);
}

TEST_CASE("saved code: damage is an error where the code is trusted, and not seen where it is not") {
  if (!has_code) SINTER_SKIP("no x86 back end");
  const Folder folder;
  save_model(folder / "f", true);
  const std::string whole = read_file(folder / "f");
  const std::size_t begin = code_begin(whole);
  const auto load = [&](const std::string& bytes, bool trusts) {
    write_file(folder / "damaged", bytes);
    return jit::load<Tensor(Tensor)>(folder / "damaged", {.trust_code = trusts});
  };
  for (std::size_t at = begin; at < whole.size(); at += 1 + (whole.size() - begin) / 50) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    CHECK_CONTAINS(error_of<IoError>([&] { load(changed, true); }), "the checksum of the code does not fit");
    CHECK_NOTHROW(load(changed, false));
  }
  // Cut short: by the file's end, and by what the head says.
  CHECK_CONTAINS(error_of<IoError>([&] { load(whole.substr(0, whole.size() - 9), true); }), "damaged");
  for (const std::size_t size : {begin + 4, begin + 8, begin + 20, begin + 100, whole.size() - 3})
    CHECK_THROWS_AS(load(repaired(whole.substr(0, size)), true), IoError);
  // Lengths and counts beyond what is there.
  const std::size_t build = static_cast<std::size_t>(word_at(whole, begin + 8)), count = begin + 16 + build;
  for (const std::size_t at : {begin + 8, count, count + 8})
    for (const std::uint64_t value : {~std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{1} << 63}) {
      std::string changed = whole;
      put_word(changed, at, value);
      CHECK_CONTAINS(error_of<IoError>([&] { load(repaired(changed), true); }), "code that is cut short");
      CHECK_NOTHROW(load(repaired(changed), false));
    }
  CHECK_CONTAINS(error_of<IoError>([&] { load(repaired(whole + "more"), true); }),
                 "more than the code that was announced");
  CHECK_NOTHROW(load(whole, true));
}

namespace {
struct Layer {
  Tensor qkv, out, up, down, gain, bias;
};
constexpr std::int64_t width = 64, tokens = 16;

std::vector<Layer> six_layers() {
  manual_seed(5);
  const auto weight = [](std::int64_t in, std::int64_t out) {
    return eval(randn({in, out}) / std::sqrt(static_cast<float>(in)));
  };
  std::vector<Layer> layers;
  for (int i = 0; i < 6; ++i)
    layers.push_back({weight(width, 3 * width), weight(width, width), weight(width, 4 * width),
                      weight(4 * width, width), ones({width}), zeros({width})});
  return layers;
}
Tensor transformer(Tensor x, const std::vector<Layer>& layers) {
  const auto heads = [](const Tensor& t) { return transpose(reshape(t, {1, tokens, 4, width / 4}), 1, 2); };
  for (const Layer& p : layers) {
    auto [q, k, v] = split<3>(matmul(layer_norm(x, {width}, p.gain, p.bias), p.qkv), -1);
    const Tensor attended = scaled_dot_product_attention(heads(q), heads(k), heads(v), {.causal = true});
    const Tensor h = x + matmul(reshape(transpose(attended, 1, 2), {1, tokens, width}), p.out);
    x = h + matmul(gelu(matmul(layer_norm(h, {width}, p.gain, p.bias), p.up)), p.down);
  }
  return x;
}
double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}
}  // namespace

TEST_CASE("child: answers a request", "[.][child]") {
  const char* const path = given("TEST_MODEL_FILE");
  if (path == nullptr) return;
  const std::string how = given("TEST_HOW");
  const Tensor x = full({1, tokens, width}, 0.5f);
  eval(x + 0.f);  // what every program does once
  const std::vector<Layer> layers = how == "traced" ? six_layers() : std::vector<Layer>();
  const auto answer = [](auto& f, const Tensor& request) { return to_vector<float>(f(request))[0]; };
  const auto start = std::chrono::steady_clock::now();
  float first = 0;
  double until_first = 0;
  if (how == "traced") {
    auto f = jit::compile([&](const Tensor& request) { return transformer(request, layers); });
    first = answer(f, x);
    until_first = milliseconds_since(start);
    std::printf("answered after %.3f ms, %d pieces of code generated\n", until_first,
                static_cast<int>(f.stats().code_generated));
  } else {
    auto f = jit::load<Tensor(Tensor)>(path, {.check_weights = false, .trust_code = how == "trusted"});
    first = answer(f, x);
    until_first = milliseconds_since(start);
    std::printf("answered after %.3f ms, %d pieces of code generated\n", until_first,
                static_cast<int>(f.stats().code_generated));
  }
  CHECK(std::isfinite(first));
}

/// Prints the figures of docs/code_cache.md: `sinter_unit_tests "[second_start]"`.
TEST_CASE("second start: the times until a process answers its first request", "[.][second_start]") {
  const Folder folder;
  const std::vector<Layer> layers = six_layers();
  auto f = jit::compile([&](const Tensor& request) { return transformer(request, layers); });
  f(full({1, tokens, width}, 0.5f));
  jit::save(f, folder / "f", {.code = has_code});
  for (const auto& [how, cache] :
       {std::pair("traced", "off"), {"traced", "on"}, {"loaded", "on"}, {"trusted", "off"}}) {
    const bool is_cached = std::string(cache) == "on";
    const std::string settings = "SINTER_CACHE_MB=64 SINTER_CACHE_DIR=" + (is_cached ? folder / "cache" : "off") +
                                 " TEST_MODEL_FILE=" + quoted(folder / "f") + " TEST_HOW=" + how;
    double least = 1e9;
    std::string line;
    for (int run = 0; run < 30; ++run) {
      const std::string said = under(settings, "child: answers a request");
      const std::size_t at = said.find("answered after ");
      REQUIRE(at != std::string::npos);
      const double now = std::atof(said.c_str() + at + 15);
      if (run > 0 && now < least) {
        least = now;
        line = said.substr(at, said.find('\n', at) - at);
      }
    }
    std::printf("%s, cache %s: %s\n", how, cache, line.c_str());
  }
}

TEST_CASE("saved code: that of attention is saved, too") {
  if (!has_code) SINTER_SKIP("no x86 back end");
  const Folder folder;
  const std::vector<Layer> layers = six_layers();
  auto f = jit::compile([&](const Tensor& request) { return transformer(request, layers); });
  f(full({1, tokens, width}, 0.5f));
  jit::save(f, folder / "f", {.code = true});
  CHECK_CONTAINS(under("SINTER_CACHE_DIR=off TEST_HOW=trusted TEST_MODEL_FILE=" + quoted(folder / "f"),
                       "child: answers a request"),
                 " 0 pieces of code generated");
}

TEST_CASE("saved code: what is made in the background is waited for") {
  if (!has_code) SINTER_SKIP("no x86 back end");
  const Folder folder;
  auto f = jit::compile([](Tensor x) { return softmax(tanh(matmul(x, x)), -1); }, {.mode = jit::Mode::background});
  f(randn({17, 17}));
  jit::save(f, folder / "f", {.code = true});
  CHECK(word_at(read_file(folder / "f"), 48) > 500);
}

#ifndef SINTER_NO_X86
TEST_CASE("saved code: saving it again takes no memory for code") {
  const Folder folder;
  const std::vector<Layer> layers = six_layers();
  auto f = jit::compile([&](const Tensor& request) { return transformer(request, layers); });
  f(full({1, tokens, width}, 0.5f));
  jit::save(f, folder / "f", {.code = true});
  const auto blocks = x86::code_memory_stats().live_blocks;
  for (int i = 0; i < 3; ++i) jit::save(f, folder / "f", {.code = true});
  CHECK(x86::code_memory_stats().live_blocks == blocks);
}
#endif
