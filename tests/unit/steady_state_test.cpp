// A warm call allocates nothing: every call of the system's allocator on this thread is counted. Sanitizers bring an
// allocator of their own and are left alone.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <cstdint>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SINTER_TEST_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SINTER_TEST_SANITIZED
#endif

using namespace sinter;

#if defined(__GLIBC__) && !defined(SINTER_TEST_SANITIZED)

namespace {
thread_local std::int64_t allocations = 0;

template <class F>
std::int64_t allocations_in(F&& run) {
  std::int64_t before = allocations;
  run();
  return allocations - before;
}
}  // namespace

// operator new ends here as well.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void* malloc(std::size_t bytes) { return ++allocations, __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return ++allocations, __libc_calloc(count, bytes); }
void* realloc(void* block, std::size_t bytes) { return ++allocations, __libc_realloc(block, bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return ++allocations, __libc_memalign(alignment, bytes); }
void* memalign(std::size_t alignment, std::size_t bytes) { return ++allocations, __libc_memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  ++allocations;
  *block = __libc_memalign(alignment, bytes);
  return *block != nullptr ? 0 : 12;   // ENOMEM
}
}

TEST_CASE("steady state: the counter counts") {
  // Through a volatile pointer: an optimiser may leave out a pair of new and delete.
  void* volatile block = nullptr;
  CHECK(allocations_in([&] { block = new int(1), delete static_cast<int*>(block); }) == 1);
  CHECK(allocations_in([&] { block = std::malloc(10), std::free(block); }) == 1);
  CHECK(allocations_in([&] { block = std::aligned_alloc(64, 128), std::free(block); }) == 1);
  CHECK(allocations_in([&] {
          std::vector<float> v(100);
          block = v.data();
        }) == 1);
  CHECK(allocations_in([] {}) == 0);
}

TEST_CASE("steady state: a guarded call of three small tensors allocates nothing") {
  auto f = jit::compile([](Tensor x, Tensor y, Tensor z) { return x * y + z; });
  Tensor x = ones({16}), y = ones({16}), z = ones({16});
  for (int i = 0; i < 10; ++i) f(x, y, z);
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) f(x, y, z);
        }) == 0);
  Tensor kept = f(x, y, z);
  for (int i = 0; i < 3; ++i) kept = f(kept, y, z);   // two results live at a time
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) kept = f(kept, y, z);
        }) == 0);
}

TEST_CASE("steady state: numbers, Variables, several results, places, changed sizes") {
  Tensor x = ones({4, 8}), w = ones({8, 3});
  auto scaled = jit::compile([](Tensor a, Tensor b, Scalar s, Scalar t) { return std::pair{relu(matmul(a, b)) * s, sum(a) + t}; });
  Variable p(ones({8, 3}));
  auto step = jit::compile([](const Variable& v, Tensor g, Scalar rate) { v -= rate * g; });
  auto softmaxed = jit::compile([](Tensor a) { return softmax(a, 1); });
  float out[12];
  auto dynamic = jit::compile([](Tensor a) { return a + 1; }, {.dynamic = jit::Dynamic::always});
  Tensor a = ones({5}), b = ones({9});
  eval({x, w, a, b});
  auto round = [&](int i) {
    scaled(x, w, 0.5 + i, 2.5f);
    step(p, w, 0.01 * i);
    softmaxed(x);
    dynamic(a);
  };
  for (int i = 0; i < 10; ++i) round(i);
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) round(i);
        }) == 0);
  float total[1];
  auto into = [&] { scaled.into(borrow_mut(out, {4, 3}), borrow_mut(total, {}))(x, w, 0.5, 1.0); };
  for (int i = 0; i < 5; ++i) into();
  CHECK(allocations_in(into) == 0);
  CHECK(total[0] == 33);
  for (int i = 0; i < 10; ++i) dynamic(a), dynamic(b);   // two sizes in turn
  CHECK(allocations_in([&] {
          for (int i = 0; i < 20; ++i) dynamic(a), dynamic(b);
        }) == 0);
}

TEST_CASE("steady state: recording reuses its memory") {
  Tensor x = ones({4});
  eval(x);
  for (int i = 0; i < 10; ++i) Tensor y = x * 2 + 1;
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) Tensor y = x * 2 + 1;
        }) == 0);
}

#else

TEST_CASE("steady state: a guarded call of three small tensors allocates nothing") {
  SINTER_SKIP("the allocator of a sanitizer or another C library cannot be counted");
}

#endif
