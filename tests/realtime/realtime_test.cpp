// The real-time contract: a call of a frozen function for which its thread has warmed up neither allocates nor frees,
// takes no lock, waits for nobody and makes no system call, from the first call on. Each kind of function runs on a new
// thread, whose caches are empty. Sanitizers bring an allocator of their own and are left alone.
#include "../catch.hpp"

#include <Eigen/Dense>

#include <sinter/sinter.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "contract.hpp"  // last: it defines functions that other headers declare

#ifdef SINTER_TEST_COUNTS

using namespace sinter_test;

// ---- the hooks count ------------------------------------------------------------------------------------------------

TEST_CASE("real time: the hook of the allocator counts") {
  void* volatile block = nullptr;  // an optimiser may leave out a pair of new and delete
  const auto counts = [&](auto&& take) { return hooks::counts_in(take); };
  CHECK(counts([&] { block = new int(1), delete static_cast<int*>(block); }).allocations == 1);
  CHECK(counts([&] { block = new int(1), delete static_cast<int*>(block); }).frees == 1);
  CHECK(counts([&] {
          block = std::malloc(10);
          block = std::realloc(block, 1000);
          std::free(block);
        }).allocations == 2);
  CHECK(counts([&] { block = std::calloc(2, 10), std::free(block); }).allocations == 1);
  CHECK(counts([&] { block = std::aligned_alloc(64, 128), std::free(block); }).allocations == 1);
  CHECK(counts([&] {
          void* aligned = nullptr;
          CHECK(posix_memalign(&aligned, 64, 128) == 0);
          std::free(aligned);
        }).allocations >= 1);
  CHECK(counts([&] {
          block = new std::function<void()>([a = std::array<int, 20>()] { static_cast<void>(a); }),
          delete static_cast<std::function<void()>*>(block);
        }).allocations == 2);
  check_nothing(counts([] { std::free(nullptr); }));
}

TEST_CASE("real time: the hooks of locks and waits count") {
  std::mutex mutex;
  std::shared_mutex shared;
  pthread_spinlock_t spin;
  REQUIRE(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
  CHECK(hooks::counts_in([&] { mutex.lock(), mutex.unlock(); }).locks == 1);
  CHECK(hooks::counts_in([&] { static_cast<void>(mutex.try_lock()), mutex.unlock(); }).locks == 1);
  CHECK(hooks::counts_in([&] { shared.lock(), shared.unlock(); }).locks == 1);
  CHECK(hooks::counts_in([&] { shared.lock_shared(), shared.unlock_shared(); }).locks == 1);
  CHECK(hooks::counts_in([&] { pthread_spin_lock(&spin), pthread_spin_unlock(&spin); }).locks == 1);
  pthread_once_t once = PTHREAD_ONCE_INIT;
  CHECK(hooks::counts_in([&] { pthread_once(&once, [] {}); }).locks == 1);

  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
  sem_t semaphore;
  REQUIRE(sem_init(&semaphore, 0, 0) == 0);
  CHECK(hooks::counts_in([&] { pthread_cond_signal(&condition), pthread_cond_broadcast(&condition); }).waits == 2);
  pthread_mutex_lock(&guard);
  const timespec past{};
  CHECK(hooks::counts_in([&] { pthread_cond_timedwait(&condition, &guard, &past); }).waits == 1);
  pthread_mutex_unlock(&guard);
  CHECK(hooks::counts_in([&] { sem_post(&semaphore), sem_wait(&semaphore); }).waits == 2);
  std::int32_t word = 0;
  constexpr int wake = 1;  // FUTEX_WAKE
  CHECK(hooks::counts_in([&] { syscall(SYS_futex, &word, wake, 1, nullptr, nullptr, 0); }).waits == 1);
  check_nothing(hooks::counts_in([] {}));
}

TEST_CASE("real time: the tracer counts system calls") {
  if (!may_trace()) SINTER_SKIP("this system lets no process trace its child");
  CHECK(hooks::system_calls_in([] {}) == 0);
  CHECK(hooks::system_calls_in([] { syscall(SYS_getpid); }) == 1);
  CHECK(hooks::system_calls_in([] {
          for (int i = 0; i < 10; ++i) syscall(SYS_sched_yield);
        }) == 10);
  void* volatile block = nullptr;
  std::string numbers;
  CHECK(hooks::system_calls_in([&] { block = std::malloc(std::size_t{1} << 28); }, &numbers) >= 1);
  CHECK(numbers.find(std::to_string(SYS_mmap)) != std::string::npos);
  CHECK(hooks::system_calls_in([] { std::thread([] {}).join(); }) >= 1);
  CHECK(hooks::system_calls_in([] { throw std::runtime_error("no"); }) == hooks::failed);
}

TEST_CASE("real time: calls outside of the contract are seen") {
  const Tensor x = ready(ones({16})), large = ready(ones({400, 400}));
  auto f = jit::compile([](Tensor a) { return a * 2; });
  f(x);
  f.freeze();
  const Asked cold = asked_by([&] { return [=] { f(x); }; });  // on a thread that has not warmed up
  CHECK(cold.first.allocations > 0);
  CHECK(cold.first.locks > 0);
  check_nothing(cold.rest);
  const Asked compiles = asked_by([&] { return [=] { jit::compile([](Tensor a) { return a + 1; })(x); }; });
  CHECK(compiles.rest.allocations > 1500);

  const int before = thread_count();
  set_thread_count(4);
  auto g = jit::compile([](Tensor a) { return sort(a, 1).values; });  // split on every back end
  g.warm_up(large);
  const auto call = [&] { g(large); };
  if (may_trace()) CHECK(hooks::system_calls_in(call) > 0);  // workers are woken
  g.freeze();
  if (may_trace()) CHECK(hooks::system_calls_in(call) == 0);
  set_thread_count(before);
}

// ---- kinds of calls -------------------------------------------------------------------------------------------------

TEST_CASE("real time: results of one's own, donated arguments, places") {
  for (const jit::Mode mode : {jit::Mode::default_, jit::Mode::reduce_overhead}) {
    auto f = jit::compile([](Tensor a, Tensor b, Scalar s) { return a * b + s; }, {.mode = mode});
    const Tensor x = ready(ones({16})), y = ready(ones({16}));
    std::array<float, 16> named_once{};
    const auto warm = [&] {
      f.unfreeze();
      f.warm_up(x, y, 2.f);
      f.freeze();
    };
    check_contract("dropped", [&] { return warm(), [=] { f(x, y, 2.f); }; });
    check_contract("kept until the next",
                   [&] { return warm(), [=, kept = Tensor()]() mutable { kept = f(x, y, 2.f); }; });
    check_contract("donated", [&] {
      warm();
      return [=, u = ready(ones({16}))]() mutable { u = f(std::move(u), y, 2.f); };
    });
    check_contract("into", [&] {
      warm();
      return [=, out = std::array<float, 16>()]() mutable { f.into(borrow_mut(out.data(), {16}))(x, y, 2.f); };
    });
    check_contract("into places that were named once", [&] {
      warm();
      return [run = f.into(borrow_mut(named_once.data(), {16})), x, y] { run(x, y, 2.f); };
    });
    check_contract("lent", [&] {
      warm();
      return [=, in = std::array<float, 16>(), out = std::array<float, 16>()]() mutable {
        f.into(borrow_mut(out.data(), {16}))(borrow(in.data(), {16}), y, 2.f);
      };
    });
    CHECK(named_once[15] == 3);
  }
}

TEST_CASE("real time: Eigen objects in and out") {
  auto f = jit::compile([](Tensor a) { return matmul(a, a) + a.t(); });
  auto pair = jit::compile([](Tensor a) { return std::pair{matmul(a, a), sum(a, 0)}; });
  const jit::Function<Tensor(Tensor)> named = f;
  using RowMajor = Eigen::Matrix<double, 4, 4, Eigen::RowMajor>;
  const Eigen::Matrix4d a = Eigen::Matrix4d::Random();
  f.warm_up(a);
  f.warm_up(RowMajor(a));
  pair.warm_up(a);
  f.freeze();
  pair.freeze();
  const auto warm = [&] {
    f.warm_up(a);
    f.warm_up(RowMajor(a));
    pair.warm_up(a);
  };
  check_contract("column-major", [&] { return warm(), [=, b = Eigen::Matrix4d()]() mutable { f.into(b)(a); }; });
  check_contract("row-major", [&] {
    warm();
    return [=, row = RowMajor(a), b = RowMajor()]() mutable { f.into(b)(row); };
  });
  check_contract("a block", [&] {
    warm();
    return [=, large = Eigen::MatrixXd(Eigen::MatrixXd::Zero(9, 9))]() mutable {
      auto block = large.block(2, 3, 4, 4);
      f.into(block)(a);
    };
  });
  check_contract("two, one of them a vector", [&] {
    warm();
    return [=, b = Eigen::Matrix4d(), v = Eigen::Vector4d()]() mutable { pair.into(b, v)(a); };
  });
  check_contract("through jit::Function", [&] {
    warm();
    return [=, b = Eigen::Matrix4d()]() mutable { named.into(b)(a); };
  });
  Eigen::Matrix4d b;
  f.into(b)(a);
  CHECK(b.isApprox(a * a + a.transpose()));
}

TEST_CASE("real time: structs, Scalars, many results") {
  struct State {
    Tensor position, velocity;
    Scalar time;
  };
  auto step = jit::compile([](State s, Scalar dt, int sign) {
    return State{s.position + dt * s.velocity, s.velocity - dt * sign * s.position, s.time + dt};
  });
  const State start{ready(ones({3})), ready(ones({3})), 0.};
  step(start, 0.01, 1);
  step.freeze();
  check_contract("a struct", [&] {
    step.warm_up(start, 0.01, 1);
    return [=, s = start]() mutable { s = step(s, 0.01, 1); };
  });
  auto many = jit::compile([](Tensor x) {
    std::array<Tensor, 20> parts;
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = x * static_cast<float>(i);
    return parts;
  });
  const Tensor x = ready(ones({5}));
  many(x);
  many.freeze();
  check_contract("twenty results", [&] {
    many.warm_up(x);
    return [=] { many(x); };
  });
  auto weighted = jit::compile([](const std::vector<Tensor>& list, const std::vector<Scalar>& factors) {
    Tensor total = list[0] * factors[0];
    for (std::size_t i = 1; i < list.size(); ++i) total += list[i] * factors[i];
    return total;
  });
  const std::vector<Tensor> list(40, x);
  const std::vector<Scalar> factors(40, Scalar(2.));
  weighted(list, factors);
  weighted.freeze();
  check_contract("eighty arguments", [&] {
    weighted.warm_up(list, factors);
    return [=] { weighted(list, factors); };
  });
}

TEST_CASE("real time: Variables, captured and as arguments; random numbers") {
  const Tensor g = ready(ones({64}));
  check_contract("captured, in place", [&] {
    Variable w(ones({64})), m(zeros({64}));
    eval(w);
    eval(m);
    auto step = jit::compile([=](Tensor d, Scalar rate) {
      m = 0.9f * m + d;
      w -= rate * m;
    });
    step.warm_up(g, 0.5f);
    step.freeze();
    return [=] { step(g, 0.5f); };
  });
  check_contract("captured, results besides, into Eigen", [&] {
    Variable w(ones({2, 2}));
    eval(w);
    auto step = jit::compile([=](Tensor d) {
      w += d;
      return matmul(w, d);
    });
    const Eigen::Matrix2f d = Eigen::Matrix2f::Identity();
    step.warm_up(d);
    step.freeze();
    return [=, out = Eigen::Matrix2f()]() mutable { step.into(out)(d); };
  });
  check_contract("as arguments", [&] {
    std::vector<Variable> many;
    for (int i = 0; i < 40; ++i) many.emplace_back(ready(full({64}, i)));
    auto step = jit::compile([](const std::vector<Variable>& v, Tensor d, Scalar rate) {
      for (const Variable& one : v) one -= rate * d;
    });
    step.warm_up(many, g, 0.1f);
    step.freeze();
    return [=] { step(many, g, 0.1f); };
  });
  check_contract("random numbers", [&] {
    auto noisy = jit::compile([](Tensor x) { return x + rand({64}); });
    noisy.warm_up(g);
    noisy.freeze();
    return [=] { noisy(g); };
  });
}

TEST_CASE("real time: Variables that require a gradient, which places do not give") {
  const Tensor x = ready(ones({16}));
  for (const bool is_guarded : {false, true}) {
    INFO(is_guarded);
    Variable w(ones({16}));
    eval(w);
    w.requires_grad();
    auto f = jit::compile([=](Tensor a) { return exp(w * a); });
    auto reads = jit::compile([=](Tensor a) { return item(sum(a)) > 0 ? Tensor(w * a) : Tensor(w - a); });
    auto given = jit::compile([](const Variable& v, Tensor a) { return tanh(v * a); });
    const auto contract = [&](const char* name, const auto& function, const auto&... arguments) {
      check_contract(name, [&] {
        auto guard = is_guarded ? std::make_unique<jit::NoGradGuard>() : nullptr;
        function.unfreeze();
        function.warm_up(arguments...);
        function.freeze();
        return [=, out = std::array<float, 16>()]() mutable {
          const auto call = [&] { function.into(borrow_mut(out.data(), {16}))(arguments...); };
          if (!is_guarded) return call();
          const jit::NoGradGuard no_grad;
          call();
        };
      });
    };
    contract("captured", f, x);
    contract("of a function that reads values", reads, x);
    contract("as an argument", given, w, x);
  }
}

TEST_CASE("real time: custom ops") {
  using View = jit::ArrayView<double>;
  auto twice = jit::custom_op<double>({.name = "real_time_twice",
                                       .shape = [](auto in) { return in[0]; },
                                       .cpu =
                                           [](auto in, View out) {
                                             for (std::int64_t i = 0; i < out.numel; ++i)
                                               out.data[i] = 2 * in[0].data[i];
                                           }});
  auto read_sensor = jit::custom_op<double, 2>({.name = "real_time_sensor",
                                                .shape = [](auto in) { return std::array{in[0], in[0]}; },
                                                .cpu =
                                                    [](auto in, auto out) {
                                                      for (std::int64_t i = 0; i < out[0].numel; ++i) {
                                                        out[0].data[i] += 1;
                                                        out[1].data[i] = in[0].data[i];
                                                      }
                                                    },
                                                .pure = false});
  const Tensor x = ready(full({5}, 1, {.dtype = DType::f64}));
  auto f = jit::compile([=](Tensor a) {
    auto [count, same] = read_sensor(a);
    return twice(a + 1) * 2 + count * 0 + same;
  });
  f(x);
  f.freeze();
  check_contract("custom ops", [&] {
    f.warm_up(x);
    return [=] { f(x); };
  });
}

TEST_CASE("real time: control flow, branches that no call took before included") {
  auto branch = jit::compile([](Tensor a) {
    return jit::cond(sum(a) > 3, [](Tensor u) { return matmul(u, u); }, [](Tensor u) { return sin(u) + sum(u, 0); }, a);
  });
  auto loops = jit::compile([](Tensor a, Tensor xs, Tensor which) {
    const Tensor y = jit::fori_loop(
        0, 10,
        [](Scalar k, Tensor t) {
          return jit::cond(sum(t) > 3, [](Tensor u) { return u * 0.5f; }, [&](Tensor u) { return u + k; }, t);
        },
        a);
    auto [z, ys] = jit::scan([](Tensor c, Tensor e) { return std::tuple{tanh(c) * e, sum(c)}; }, y, xs);
    auto [t, n] = jit::while_loop([](Tensor u, Tensor k) { return (k < 10) & (sum(u) < 1e6f); },
                                  [](Tensor c, Tensor k) { return std::tuple{sin(c), k + 1}; }, z, zeros({}));
    const Tensor chosen = jit::switch_(which,
                                       std::tuple{[](Tensor u) { return u + 1; }, [](Tensor u) { return sum(u) + u; },
                                                  [](Tensor u) { return exp(u); }},
                                       t);
    return sum(chosen) + sum(ys) + n;
  });
  const Tensor x = ready(ones({16})), xs = ready(ones({20, 16})), up = ready(ones({4, 4})), down = ready(-ones({4, 4}));
  const std::array<Tensor, 3> which{ready(full({}, 0, {.dtype = DType::i64})),
                                    ready(full({}, 1, {.dtype = DType::i64})),
                                    ready(full({}, 2, {.dtype = DType::i64}))};
  branch(up);
  branch.freeze();
  loops(x, xs, which[0]);
  loops.freeze();
  const auto warm = [&] {
    branch.warm_up(up);
    loops.warm_up(x, xs, which[0]);
  };
  check_contract("cond", [&] { return warm(), [=] { branch(up); }; });
  check_contract("cond, the other branch", [&] { return warm(), [=] { branch(down); }; });
  check_contract("cond, into Eigen", [&] {
    warm();
    return [=, out = Eigen::Matrix4f(), i = 0]() mutable { branch.into(out)(i++ % 2 == 0 ? up : down); };
  });
  check_contract("loops and switches", [&] {
    warm();
    return [=, i = std::size_t{0}]() mutable { loops(x, xs, which[i++ % 3]); };
  });
  check_contract("loops, into", [&] {
    warm();
    return [=, out = 0.f]() mutable { loops.into(borrow_mut(&out, {}))(x, xs, which[0]); };
  });
}

TEST_CASE("real time: functions that read values") {
  Variable count(zeros({}));
  eval(count);
  auto f = jit::compile([=](Tensor a, Scalar limit) {
    const Tensor s = matmul(a, a);
    count += 1;
    if (item(sum(s)) > limit) {
      if (item(sum(a)) > 0) return std::pair{Tensor(s + a), Tensor(s * 2)};
      return std::pair{s, Tensor(s * 3)};
    }
    return std::pair{Tensor(s - 1),
                     jit::cond(sum(a) > 0, [](Tensor u) { return u + 1; }, [](Tensor u) { return -u; }, s)};
  });
  const std::array<Tensor, 2> x{ready(ones({4, 4})), ready(-ones({4, 4}))};
  const std::array<double, 2> limit{0, 1e6};
  const auto warm = [&] {
    f.unfreeze();
    for (const Tensor& a : x)
      for (const double l : limit) f.warm_up(a, l);
    f.freeze();
  };
  check_contract("one path", [&] { return warm(), [=] { f(x[0], limit[0]); }; });
  check_contract("all paths in turn", [&] {
    warm();
    return [=, i = std::size_t{0}]() mutable { f(x[i % 2], limit[i / 2 % 2]), ++i; };
  });
  check_contract("into Eigen", [&] {
    warm();
    return [=, i = std::size_t{0}, out = std::array<Eigen::Matrix4f, 2>()]() mutable {
      f.into(out[0], out[1])(x[i % 2], limit[i / 2 % 2]), ++i;
    };
  });
  check_contract("kept until the next", [&] {
    warm();
    return [=, kept = std::pair<Tensor, Tensor>()]() mutable { kept = f(x[1], limit[0]); };
  });
  CHECK(f.stats().frozen_misses == 0);

  auto many = jit::compile([](Tensor a) {
    std::array<Tensor, 30> parts;
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = matmul(a, a * static_cast<float>(i));
    Tensor total = zeros({2, 2});
    for (const Tensor& one : parts)
      if (item(sum(one)) >= 0) total += one;
    std::array<Tensor, 12> results;
    for (std::size_t i = 0; i < results.size(); ++i) results[i] = total + parts[i];
    return results;
  });
  const Tensor small = ready(ones({2, 2}));
  check_contract("thirty reads, twelve results", [&] {
    many.unfreeze();
    many.warm_up(small);
    many.freeze();
    return [=] { many(small); };
  });
}

TEST_CASE("real time: sizes that change, decompositions, order, work that would be split") {
  auto dynamic = jit::compile([](Tensor x) { return softmax(x, 1) + sum(x); }, {.dynamic = jit::Dynamic::always});
  const Tensor a = ready(ones({3, 20})), b = ready(ones({5, 40}));
  check_contract("two sizes", [&] {
    dynamic.unfreeze();
    dynamic.warm_up(a);
    dynamic.warm_up(b);
    dynamic.freeze();
    return [=] { dynamic(a), dynamic(b); };
  });
  auto solve = jit::compile([](Tensor m, Tensor v) {
    const Tensor spd = matmul(m, m.t()) + 3 * eye(4);
    return std::tuple{linalg::solve(spd, v), linalg::cholesky(spd), linalg::inv(spd), linalg::det(spd)};
  });
  const Tensor m = ready(ones({4, 4})), v = ready(ones({4}));
  check_contract("linear systems", [&] {
    solve.unfreeze();
    solve.warm_up(m, v);
    solve.freeze();
    return [=] { solve(m, v); };
  });
  auto order = jit::compile([](Tensor x) {
    const Tensor wide = x.to(DType::f64);
    return std::tuple{sort(x, 1).values,      topk(x, 3).values,     median(x),
                      quantile(wide, 0.3, 0), sort(wide, 1).indices, searchsorted(sort(x, 1).values, x)};
  });
  check_contract("order", [&] {
    order.unfreeze();
    order.warm_up(b);
    order.freeze();
    return [=] { order(b); };
  });
  const int before = thread_count();
  set_thread_count(4);
  auto large = jit::compile([](Tensor x) { return sum(matmul(x, x) * exp(x), 0); });
  auto image = jit::compile([](Tensor x) { return conv2d(x, ones({2, 1, 3, 3})); });
  const Tensor wide = ready(rand({120, 120})), picture = ready(rand({1, 1, 60, 60}));
  check_contract("large", [&] {
    large.unfreeze();
    image.unfreeze();
    large.warm_up(wide);
    image.warm_up(picture);
    large.freeze();
    image.freeze();
    return [=] { large(wide), image(picture); };
  });
  set_thread_count(before);
}

TEST_CASE("real time: several threads at once, which share the function, its arguments and a Variable") {
  constexpr std::size_t threads = 4;
  const Variable gain(ready(full({16}, 3)));
  const Tensor x = ready(ones({16}));
  auto f = jit::compile([gain](Tensor a) -> Tensor {
    if (item(sum(a)) > 0) return a * gain.value();
    return a;
  });
  f(x);
  f.freeze();
  std::array<hooks::Counts, threads> counts;
  std::array<float, threads> last{};
  std::atomic<std::size_t> is_warm{0};
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      std::array<float, 16> out{};
      f.warm_up(x);
      for (++is_warm; is_warm < threads;) std::this_thread::yield();
      counts[t] = hooks::counts_in([&] {
        for (int i = 0; i < 2000; ++i) {
          f(x);
          f.into(borrow_mut(out.data(), {16}))(x);
        }
      });
      last[t] = out[15];
    });
  for (std::thread& thread : running) thread.join();
  for (std::size_t t = 0; t < threads; ++t) {
    check_nothing(counts[t]);
    CHECK(last[t] == 3);
  }
}

TEST_CASE("real time: a miss leaves the contract as it was") {
  auto f = jit::compile([](Tensor x) { return x * 2; });
  const Tensor x = ready(ones({4})), other = ready(ones({5}));
  f(x);
  f.freeze();
  check_contract("after a miss that threw", [&] {
    f.warm_up(x);
    try {
      f(other);
    } catch (const RecompileError&) {}
    return [=] { f(x); };
  });
  f.freeze(jit::OnMiss::runs_uncompiled);
  check_contract("after one that ran uncompiled", [&] {
    f.warm_up(x);
    eval(f(other));
    return [=] { f(x); };
  });
  CHECK(f.stats().frozen_misses == 2);
  CHECK(f.stats().eager_calls == 1);
  CHECK(f.stats().compiles == 1);
}

#else
TEST_CASE("real time: the contract") {
  SINTER_SKIP("the allocator of a sanitizer or another C library cannot be counted");
}

#endif
