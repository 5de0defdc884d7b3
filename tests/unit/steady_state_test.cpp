// A warm call allocates nothing and takes no lock: every call of the system's allocator and of pthread's mutexes on
// this thread is counted. Sanitizers bring an allocator of their own and are left alone.
#include "../catch.hpp"
#include "../sanitized.hpp"

#include <Eigen/Dense>

#include <sinter/sinter.hpp>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include <dlfcn.h>
#include <pthread.h>

using namespace sinter;

#if defined(__GLIBC__) && !defined(SINTER_TEST_SANITIZED)

namespace {
thread_local std::int64_t allocations = 0, locks = 0;

template <class F>
std::int64_t allocations_in(F&& run) {
  std::int64_t before = allocations;
  run();
  return allocations - before;
}
template <class F>
std::int64_t locks_in(F&& run) {
  std::int64_t before = locks;
  run();
  return locks - before;
}
template <class F>
F* next_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
}  // namespace

extern "C" {
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* real = next_function<int(pthread_mutex_t*)>("pthread_mutex_lock");
  return ++locks, real(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  static auto* real = next_function<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  return ++locks, real(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static auto* real = next_function<int(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  return ++locks, real(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  static auto* real = next_function<int(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  return ++locks, real(lock);
}
}

// operator new ends here as well.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void* malloc(std::size_t bytes) { return ++allocations, __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return ++allocations, __libc_calloc(count, bytes); }
void* realloc(void* block, std::size_t bytes) { return ++allocations, __libc_realloc(block, bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return ++allocations, __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) { return ++allocations, __libc_memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  ++allocations;
  *block = __libc_memalign(alignment, bytes);
  return *block != nullptr ? 0 : 12;  // ENOMEM
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

/// Calls after which purity is not checked any more.
constexpr int past_checks = 1025;

TEST_CASE("steady state: a guarded call of three small tensors allocates nothing") {
  auto f = jit::compile([](Tensor x, Tensor y, Tensor z) { return x * y + z; });
  Tensor x = ones({16}), y = ones({16}), z = ones({16});
  for (int i = 0; i < past_checks; ++i) f(x, y, z);
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) f(x, y, z);
        }) == 0);
  Tensor kept = f(x, y, z);
  for (int i = 0; i < 3; ++i) kept = f(kept, y, z);  // two results live at a time
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) kept = f(kept, y, z);
        }) == 0);
}

TEST_CASE("steady state: numbers, Variables, several results, places, changed sizes") {
  Tensor x = ones({4, 8}), w = ones({8, 3});
  auto scaled = jit::compile(
      [](Tensor a, Tensor b, Scalar s, Scalar t) { return std::pair{relu(matmul(a, b)) * s, sum(a) + t}; });
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
  for (int i = 0; i < past_checks; ++i) round(i);
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) round(i);
        }) == 0);
  float total[1];
  auto into = [&] { scaled.into(borrow_mut(out, {4, 3}), borrow_mut(total, {}))(x, w, 0.5, 1.0); };
  for (int i = 0; i < 5; ++i) into();
  CHECK(allocations_in(into) == 0);
  CHECK(total[0] == 33);
  // two sizes in turn
  for (int i = 0; i < 10; ++i) {
    dynamic(a);
    dynamic(b);
  }
  CHECK(allocations_in([&] {
          for (int i = 0; i < 20; ++i) {
            dynamic(a);
            dynamic(b);
          }
        }) == 0);
}

TEST_CASE("steady state: kernels that run as one launch") {
  const int threads = thread_count();
  set_thread_count(2);
  auto f = jit::compile([](Tensor a, Tensor b) { return std::pair{cumsum(a, 1), sum(b, 1)}; });
  const Tensor a = ones({300, 200}), b = ones({200, 300});
  eval({a, b});
  for (int i = 0; i < past_checks; ++i) f(a, b);
  CHECK(f.stats().launches == 1);
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) f(a, b);
        }) == 0);
  set_thread_count(threads);
}

TEST_CASE("steady state: the lock counter counts") {
  std::mutex mutex;
  std::shared_mutex shared;
  CHECK(locks_in([&] { mutex.lock(), mutex.unlock(); }) == 1);
  CHECK(locks_in([&] { shared.lock_shared(), shared.unlock_shared(); }) == 1);
  CHECK(locks_in([] {}) == 0);
}

namespace {
/// Calls of `run` neither allocate nor lock, compile nothing, and first do so right away.
template <class F>
void check_real_time(F&& run) {
  std::int64_t calls_allocate = 0, calls_lock = 0;
  calls_lock = locks_in([&] {
    calls_allocate = allocations_in([&] {
      for (int i = 0; i < 20; ++i) run();
    });
  });
  CHECK(calls_allocate == 0);
  CHECK(calls_lock == 0);
}
}  // namespace

TEST_CASE("real time: from the first call after warm_up nothing is allocated, locked or compiled") {
  for (jit::Mode mode : {jit::Mode::default_, jit::Mode::reduce_overhead}) {
    auto f = jit::compile([](Tensor x, Tensor y, Tensor z) { return x * y + z; }, {.mode = mode});
    Tensor x = ones({16}), y = ones({16}), z = ones({16});
    eval(x);
    eval(y);
    eval(z);
    f.warm_up(x, y, z);
    jit::StanceGuard real_time{jit::Stance::fail_on_recompile};
    check_real_time([&] { f(x, y, z); });
    CHECK(f.stats().compiles == 1);
    Tensor w = ones({17});
    eval(w);
    CHECK_THROWS_AS(f(w, w, w), RecompileError);  // the stated choice of what a miss does
  }
}

TEST_CASE("real time: two sizes of a dynamic function") {
  for (jit::Mode mode : {jit::Mode::default_, jit::Mode::reduce_overhead}) {
    auto f =
        jit::compile([](Tensor x) { return softmax(x, 1) + sum(x); }, {.mode = mode, .dynamic = jit::Dynamic::always});
    Tensor a = ones({3, 20}), b = ones({5, 40});
    eval(a);
    eval(b);
    f.warm_up(a);
    f.warm_up(b);
    check_real_time([&] { f(a), f(b); });
    CHECK(f.stats().compiles == 1);
  }
}

TEST_CASE("real time: Variables in place, donated arguments, places, many arguments") {
  Variable w(ones({64})), m(zeros({64}));
  eval(w);
  eval(m);
  auto step = jit::compile([=](Tensor g, Scalar rate) { m = 0.9f * m + g, w -= rate * m; });
  Tensor g = ones({64});
  eval(g);
  step.warm_up(g, 0.5f);
  check_real_time([&] { step(g, 0.5f); });

  auto move = jit::compile([](Tensor u, Scalar a) { return u * a; });
  Tensor u = ones({64});
  eval(u);
  move.warm_up(u, 1.f);
  check_real_time([&] { u = move(std::move(u), 1.f); });

  auto pair = jit::compile([](Tensor x) { return std::pair{x + 1, sum(x)}; });
  float out[64], total[1];
  pair.warm_up(g);
  check_real_time([&] { pair.into(borrow_mut(out, {64}), borrow_mut(total, {}))(g); });

  std::vector<Variable> many;
  std::vector<Tensor> gradients(40, g);
  for (int i = 0; i < 40; ++i) many.emplace_back(ones({64}) * static_cast<float>(i)), eval(many.back());
  auto sgd = jit::compile([](const std::vector<Variable>& v, const std::vector<Tensor>& d, Scalar rate) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] -= rate * d[i];
  });
  sgd.warm_up(many, gradients, 0.1f);
  check_real_time([&] { sgd(many, gradients, 0.1f); });
}

TEST_CASE("real time: another thread warms up for itself") {
  auto f = jit::compile([](Tensor x) { return tanh(x) * 2; }, {.mode = jit::Mode::reduce_overhead});
  Tensor x = ones({32});
  eval(x);
  f.warm_up(x);
  std::thread([&] {
    f.warm_up(x);
    Tensor held;
    check_real_time([&] { held = f(x); });
  }).join();
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("steady state: recording reuses its memory") {
  Tensor x = ones({4});
  eval(x);
  for (int i = 0; i < 10; ++i) Tensor y = x * 2 + 1;
  CHECK(allocations_in([&] {
          for (int i = 0; i < 100; ++i) Tensor y = x * 2 + 1;
        }) == 0);
}

TEST_CASE("steady state: loops of any length allocate nothing") {
  auto f = jit::compile([](Tensor x, Tensor xs) {
    Tensor y = jit::fori_loop(
        0, 10000,
        [](Scalar k, Tensor t) {
          return jit::cond(sum(t) > 3, [](Tensor u) { return u * 0.5f; }, [&](Tensor u) { return u + k; }, t);
        },
        x);
    auto [z, ys] = jit::scan([](Tensor c, Tensor e) { return std::tuple{tanh(c) * e, sum(c)}; }, y, xs);
    auto [t, n] = jit::while_loop([](Tensor, Tensor k) { return k < 1000; },
                                  [](Tensor c, Tensor k) { return std::tuple{sin(c), k + 1}; }, z, zeros({}));
    return sum(t) + sum(ys) + n;
  });
  Tensor x = ones({16}), xs = ones({100, 16});
  f.warm_up(x, xs);
  for (int i = 0; i < 5; ++i) f(x, xs);
  CHECK(allocations_in([&] {
          for (int i = 0; i < 3; ++i) f(x, xs);
        }) == 0);
}

TEST_CASE("steady state: a cache and a loop that write at run-time places allocate nothing") {
  const Variable cache(zeros({64, 16}));
  eval(cache);
  auto step = jit::compile([=](Tensor row, Scalar at) { cache = dynamic_update_slice(cache, row, {at, 0}); });
  Tensor row = ones({1, 16});
  eval(row);
  step.warm_up(row, 1);
  for (int i = 0; i < 5; ++i) step(row, i);
  CHECK(allocations_in([&] {
          for (int i = 0; i < 20; ++i) step(row, i);
        }) == 0);

  auto fill = jit::compile([](Tensor u, Tensor y) {
    return jit::fori_loop(
        0, 1000,
        [&](Scalar k, Tensor t) {
          t.at(k) = y + k;
          return t;
        },
        u);
  });
  Tensor u = zeros({1000, 16}), y = ones({16});
  eval(u);
  eval(y);
  fill.warm_up(u, y);
  for (int i = 0; i < 5; ++i) u = fill(std::move(u), y);
  CHECK(allocations_in([&] { u = fill(std::move(u), y); }) == 0);
}

TEST_CASE("steady state: results into Eigen objects and strided places") {
  auto f = jit::compile([](Tensor a) { return a * 2 + a.t(); });
  auto pair =
      jit::compile([](Tensor a) { return std::pair{matmul(a, a), sum(a, 0)}; }, {.mode = jit::Mode::reduce_overhead});
  Eigen::Matrix4d a = Eigen::Matrix4d::Random(), b, c;
  Eigen::Matrix<double, 4, 4, Eigen::RowMajor> row;
  Eigen::MatrixXd large = Eigen::MatrixXd::Zero(9, 9);
  Eigen::Vector4d v;
  auto block = large.block(2, 3, 4, 4);
  Eigen::Map<Eigen::Matrix<double, 4, 4, Eigen::RowMajor>, 0, Eigen::OuterStride<>> rows(large.data(), 4, 4,
                                                                                         Eigen::OuterStride<>(9));
  jit::Function<Tensor(Tensor)> g = f;
  auto all_of_them = [&] {
    f.into(b)(a);
    f.into(row)(a);
    f.into(rows)(row);
    f.into(block)(a);
    pair.into(c, v)(a);
    g.into(b)(a);
  };
  for (int i = 0; i < past_checks; ++i) all_of_them();
  CHECK(allocations_in([&] {
          for (int i = 0; i < 20; ++i) all_of_them();
        }) == 0);
  CHECK(b.isApprox(2 * a + a.transpose()));
  CHECK(row.isApprox(b));
  CHECK(block.isApprox(b));
  CHECK(c.isApprox(a * a));
}

TEST_CASE("steady state: custom ops of many operands and results") {
  using View = jit::ArrayView<double>;
  auto total = jit::custom_op<double>({.name = "total_of_many",
                                       .shape = [](auto in) { return in[0]; },
                                       .cpu =
                                           [](auto in, View out) {
                                             for (std::int64_t i = 0; i < out.numel; ++i) {
                                               out.data[i] = 0;
                                               for (const auto& operand : in) out.data[i] += operand.data[i];
                                             }
                                           }});
  auto spread = jit::custom_op<double, 8>(
      {.name = "spread_eightfold",
       .shape = [](auto in) { return std::array{in[0], in[0], in[0], in[0], in[0], in[0], in[0], in[0]}; },
       .cpu =
           [](auto in, auto out) {
             for (std::size_t r = 0; r < 8; ++r)
               for (std::int64_t i = 0; i < out[r].numel; ++i) out[r].data[i] = in[0].data[i] * static_cast<double>(r);
           }});
  auto f = jit::compile([=](Tensor x) {
    const Tensor five = total(x, x, x, x, x);
    auto parts = spread(five);
    const std::vector<Tensor> many(20, parts[1]);
    return total(many) + parts[7];
  });
  Tensor x = full({5}, 1, {.dtype = DType::f64});
  eval(x);
  Tensor y = f(x);
  for (int i = 0; i < past_checks; ++i) y = f(x);  // two results live at a time
  CHECK(allocations_in([&] {
          for (int i = 0; i < 20; ++i) y = f(x);
        }) == 0);
  CHECK(item<double>(sum(y)) == 5 * (5 * 20 + 5 * 7));
}

#else

TEST_CASE("steady state: a guarded call of three small tensors allocates nothing") {
  SINTER_SKIP("the allocator of a sanitizer or another C library cannot be counted");
}

#endif
