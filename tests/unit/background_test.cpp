// Mode::background: calls run uncompiled until another thread has made their code.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../temporary_folder.hpp"

#include <sinter/base/background.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/sinter.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace sinter;

namespace {

/// The reference back end, which compiles nothing while its gate is closed, and fails on request.
struct Gated final : Backend {
  Backend& plain = *jit::host_backends().back();
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = true, fails = false, lacks_memory = false;
  std::optional<Prim> fails_with;  // that instruction
  int version = 0;                 // so that each test has kernels of its own
  std::atomic<int> compiled{0};

  void set_open(bool open) {
    const std::scoped_lock lock(mutex);
    is_open = open;
    changed.notify_all();
  }
  std::string_view name() const override { return "gated"; }
  std::string cache_key() const override { return "gated " + std::to_string(version); }
  Limits limits() const override { return plain.limits(); }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule, std::string* why) override {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return is_open; });
    ++compiled;
    if (fails) throw InternalError("the gate fell");
    for (const Inst& inst : kernel.body)
      if (inst.prim == fails_with) throw InternalError("the gate fell");
    if (lacks_memory) throw OutOfMemory("gated", 1, "none for code");
    return plain.compile(kernel, schedule, why);
  }
};
/// Dies after what the library does at exit, and before leaks are looked for: a child does not own what its parent's
/// process-wide objects hold.
struct AtEnd {
  const int* status = nullptr;
  ~AtEnd() {
    if (status != nullptr) ::_exit(*status);
  }
};
AtEnd at_end;

Gated& gated() {
  static Gated* const backend = [] {
    auto made = std::make_unique<Gated>();
    Gated* const place = made.get();
    jit::register_kernel_backend(std::move(made));
    return place;
  }();
  return *backend;
}
/// Closed, and with kernels that were not seen yet, while it lives.
struct ClosedGate {
  explicit ClosedGate(bool fails = false) {
    ++gated().version;
    gated().fails = fails;
    gated().set_open(false);
  }
  void open() { gated().set_open(true); }
  ~ClosedGate() {
    open();
    base_detail::wait_for_background();
    gated().fails = false;
  }
};
jit::Options in_background(jit::Options options = {}) {
  options.mode = jit::Mode::background;
  options.backend = gated().name();
  return options;
}
Tensor vec(std::vector<float> values) { return copy_of(values); }

}  // namespace

TEST_CASE("background: calls run uncompiled until the code is there, and none of them waits") {
  ClosedGate gate;
  int traces = 0;
  auto f = jit::compile(
      [&](Tensor x, Scalar s) {
        ++traces;
        return exp(x * 0) * s + sum(x);
      },
      in_background());
  const Tensor x = vec({1, 2, 3});
  const int compiled = gated().compiled;
  for (int i = 1; i <= 3; ++i) CHECK(floats(f(x, i)) == std::vector<float>(3, 6 + static_cast<float>(i)));
  CHECK(gated().compiled == compiled);
  jit::Stats stats = f.stats();
  CHECK(stats.compiles == 1);
  CHECK(stats.background_calls == 3);
  CHECK(stats.background_pending == 1);
  CHECK(stats.background_swaps == 0);
  CHECK(has(f.explain(x, 1).text(), "background: running uncompiled, operation by operation, while another thread"));
  CHECK(has(f.explain(x, 1).text(), "calls so far: 3"));

  gate.open();
  f.warm_up(x, 1);
  CHECK(gated().compiled > compiled);
  stats = f.stats();
  CHECK(stats.compiles == 1);
  CHECK(stats.background_pending == 0);
  CHECK(stats.background_swaps == 1);
  CHECK(floats(f(x, 4)) == std::vector<float>(3, 10));
  CHECK(f.stats().background_calls == 3);
  CHECK(f.stats().calls == 4);
  const std::string text = f.explain(x, 1).text();
  CHECK(has(text, "background: swapped at call 4 of this version, by code made in "));
  CHECK(has(text, "fused"));
}

TEST_CASE("background: new shapes, symbols, strided and empty arguments") {
  auto f = jit::compile([](Tensor x) { return softmax(x * 2, 1) + 1; }, in_background());
  const auto right = [](const Tensor& x) { return floats(softmax(x * 2, 1) + 1); };
  for (int round = 0; round < 2; ++round)
    for (const auto& [rows, columns] : {std::pair{2, 3}, {4, 5}, {1, 7}, {0, 3}}) {
      ClosedGate gate;
      const Tensor x = rand({rows, columns});
      CHECK(near(doubles(f(x)), doubles(copy_of(right(x))), 1e-6));
      const Tensor turned = transpose(rand({columns, rows}), 0, 1);
      CHECK(near(doubles(f(turned)), doubles(copy_of(right(turned))), 1e-6));
      gate.open();
      f.warm_up(x);
      f.warm_up(turned);
      CHECK(near(doubles(f(x)), doubles(copy_of(right(x))), 1e-6));
      CHECK(near(doubles(f(turned)), doubles(copy_of(right(turned))), 1e-6));
    }
  CHECK(f.stats().background_pending == 0);
  CHECK(f.stats().background_swaps == f.stats().compiles);
}

TEST_CASE("background: an error of the compilation is thrown by the calls after it, unless it is suppressed") {
  ClosedGate gate(true);
  const auto body = [](Tensor x) { return tanh(x) + 1; };
  auto f = jit::compile(body, in_background());
  auto forgiving = jit::compile(body, in_background({.suppress_errors = true}));
  const Tensor x = vec({0, 0});
  CHECK(floats(f(x)) == std::vector<float>{1, 1});
  CHECK(floats(forgiving(x)) == std::vector<float>{1, 1});
  gate.open();
  CHECK(has(message_of([&] { f.warm_up(x); }), "the gate fell"));
  CHECK(has(message_of([&] { f(x); }), "the gate fell"));
  CHECK(has(f.explain(x).text(), "background: making the code failed, which calls throw"));
  CHECK_NOTHROW(forgiving.warm_up(x));
  CHECK(floats(forgiving(x)) == std::vector<float>{1, 1});
  CHECK(has(forgiving.explain(x).text(), "so this version runs operation by operation: "));
  CHECK(forgiving.stats().background_swaps == 0);
  gated().fails = false;
  f.reset();  // and it is compiled anew
  ++gated().version;
  CHECK(floats(f(x)) == std::vector<float>{1, 1});
  CHECK_NOTHROW(f.warm_up(x));
  CHECK(f.stats().background_swaps == 1);
}

TEST_CASE("background: errors of the function itself come with the first call") {
  auto f = jit::compile([](Tensor x) { return matmul(x, x); }, in_background());
  CHECK(has(message_of<ShapeError>([&] { f(ones({2, 3})); }), "matmul"));
  CHECK(f.stats().compiles == 0);
}

TEST_CASE("background: gradients, forward and backward swapped by themselves") {
  ClosedGate gate;
  Variable w(vec({1, 2, 3}));
  w.requires_grad();
  auto loss = jit::compile([&](Tensor x) { return sum(exp(w * 0) * w * w * x); }, in_background());
  const Tensor x = vec({1, 1, 2});
  const auto gradient = [&] {
    w.zero_grad();
    loss(x).backward();
    return floats(w.grad());
  };
  const std::vector<float> right{2, 4, 12};
  CHECK(gradient() == right);
  CHECK(gradient() == right);
  gate.open();
  loss.warm_up(x);
  base_detail::wait_for_background();
  CHECK(gradient() == right);
  CHECK(loss.stats().background_swaps == 2);  // warm_up() makes the version for results in given memory, too

  auto step =
      jit::compile([](Tensor a) { return jit::grad([](Tensor b) { return sum(b * b * b); })(a); }, in_background());
  CHECK(floats(step(vec({1, 2}))) == std::vector<float>{3, 12});
  step.warm_up(vec({1, 2}));
  CHECK(floats(step(vec({1, 2}))) == std::vector<float>{3, 12});
}

TEST_CASE("background: functions that read values grow paths uncompiled, too") {
  ClosedGate gate;
  auto f = jit::compile(
      [](Tensor x) {
        Tensor y = x * 2;
        if (item(sum(y)) > 0) return Tensor(exp(y * 0) + y);
        return Tensor(y - 1);
      },
      in_background());
  const Tensor positive = vec({1, 2}), negative = vec({-1, -2});
  CHECK(floats(f(positive)) == std::vector<float>{3, 5});
  CHECK(floats(f(negative)) == std::vector<float>{-3, -5});
  CHECK(floats(f(positive)) == std::vector<float>{3, 5});
  CHECK(f.stats().background_swaps == 0);
  CHECK(f.stats().background_calls == 3);
  CHECK(f.stats().background_pending == 1);
  CHECK(has(f.explain(positive).text(), "background: running uncompiled"));
  gate.open();
  f.warm_up(positive);
  f.warm_up(negative);
  CHECK(f.stats().background_swaps >= 1);
  CHECK(f.stats().background_pending == 0);
  CHECK(f.stats().launches > 0);
  CHECK(f.stats().launches <= f.stats().kernels);
  CHECK(f.stats().segments == 3);
  CHECK(floats(f(positive)) == std::vector<float>{3, 5});
  CHECK(floats(f(negative)) == std::vector<float>{-3, -5});
  CHECK(has(f.explain(positive).text(), "background: swapped at call "));
  CHECK(has(f.explain(positive).text(), "[gated]"));
}

TEST_CASE("background: without memory for code, and with a log that throws, versions go on") {
  const Tensor x = vec({0, 0});
  {
    ClosedGate gate;
    gated().lacks_memory = true;
    auto f = jit::compile([](Tensor a) { return tanh(a) + 1; }, in_background());
    f(x);
    gate.open();
    CHECK_NOTHROW(f.warm_up(x));
    CHECK(floats(f(x)) == std::vector<float>{1, 1});
    CHECK(has(f.explain(x).text(), "so this version runs operation by operation: "));
    gated().lacks_memory = false;
  }
  ClosedGate gate;
  const auto before = Context::get().sink;
  auto f = jit::compile([](Tensor a) { return tanh(a) + 2; }, in_background());
  f(x);
  set_logs("background");
  Context::get().sink = [](std::string_view, std::string_view) { throw std::runtime_error("the disk is full"); };
  gate.open();
  base_detail::wait_for_background();
  Context::get().sink = before;
  set_logs("");
  CHECK_NOTHROW(f.warm_up(x));
  CHECK(floats(f(x)) == std::vector<float>{2, 2});
  CHECK(f.stats().background_swaps == 1);
}

TEST_CASE("background: one segment without code leaves the others theirs") {
  ClosedGate gate;
  auto f = jit::compile(
      [](Tensor x) {
        const Tensor y = exp(x * 0) + x;
        return item(sum(y)) > 0 ? Tensor(tanh(y * 0) + y) : Tensor(y - 1);
      },
      in_background({.suppress_errors = true}));
  const Tensor x = vec({1, 2});
  CHECK(floats(f(x)) == std::vector<float>{2, 3});
  gated().fails_with = Prim::tanh;
  gate.open();
  CHECK_NOTHROW(f.warm_up(x));
  gated().fails_with.reset();
  CHECK(floats(f(x)) == std::vector<float>{2, 3});
  const std::string text = f.explain(x).text();
  CHECK(has(text, "background: making some of the code failed, so that part runs operation by operation: "));
  CHECK(has(text, "[gated]"));
}

TEST_CASE("background: the version that is swapped in asks for the precision of its products") {
  auto f = jit::compile([](Tensor x) { return matmul(x, x); }, {.mode = jit::Mode::background});
  const Tensor x = rand({64, 64});
  f(x);
  f.warm_up(x);
  CHECK(f.stats().compiles == 1);
  const MatmulPrecision before = matmul_precision();
  set_matmul_precision(MatmulPrecision::tf32);
  f(x);
  set_matmul_precision(before);
  auto plain = jit::compile([](Tensor a) { return matmul(a, a); });
  plain(x);
  set_matmul_precision(MatmulPrecision::tf32);
  plain(x);
  set_matmul_precision(before);
  CHECK(f.stats().compiles == plain.stats().compiles);
}

TEST_CASE("background: Variables are assigned once for each call, results go into given memory") {
  ClosedGate gate;
  Variable w(vec({1, 2}));
  auto step = jit::compile(
      [&](Tensor x) {
        w -= x;
        return sum(w.value());
      },
      in_background());
  const Tensor x = vec({1, 1});
  CHECK(item<float>(step(x)) == 1);
  CHECK(item<float>(step(x)) == -1);
  std::vector<float> out(1);
  auto twice = jit::compile([](Tensor a) { return a * 2; }, in_background());
  twice.into(borrow_mut(out.data(), {1}))(vec({4}));
  CHECK(out[0] == 8);
  gate.open();
  step.warm_up(x);
  twice.warm_up(vec({4}));
  CHECK(item<float>(step(x)) == -3);
  twice.into(borrow_mut(out.data(), {1}))(vec({5}));
  CHECK(out[0] == 10);
  CHECK(floats(w.value()) == std::vector<float>{-2, -1});
}

TEST_CASE("background: freeze and lower wait for the code; scopes can ask for the mode") {
  auto f = jit::compile([](Tensor x) { return tanh(x) * 2; }, in_background());
  const Tensor x = vec({0, 0});
  ++gated().version;
  f(x);
  f.freeze();
  CHECK(f.stats().background_swaps == 1);
  CHECK(floats(f(x)) == std::vector<float>{0, 0});
  auto g = jit::compile([](Tensor a) { return tanh(a) * 3; }, in_background());
  CHECK(has(g.lower(x).schedules(), "[gated]"));
  auto plain = jit::compile([](Tensor a) { return a + 1; });
  const jit::Scope scope("beside", {.mode = jit::Mode::background});
  plain(x);
  plain.warm_up(x);
  CHECK(plain.stats().background_swaps == 1);
}

TEST_CASE("background: functions from files keep the mode") {
  const Folder folder;
  const Tensor x = vec({0, 0});
  auto f = jit::compile([](Tensor a) { return tanh(a) * 2 + 1; }, {.mode = jit::Mode::background});
  f(x);
  jit::save(f, folder / "f.sinter");
  auto g = jit::load<Tensor(Tensor)>(folder / "f.sinter");
  CHECK(floats(g(x)) == std::vector<float>{1, 1});
  g.warm_up(x);
  CHECK(g.stats().background_swaps >= 1);
  CHECK(floats(g(x)) == std::vector<float>{1, 1});
}

TEST_CASE("background: functions and versions may go while their code is made") {
  const Tensor x = vec({1, 2});
  {
    ClosedGate gate;
    auto f = jit::compile([](Tensor a) { return exp(a); }, in_background());
    f(x);
  }
  {
    ClosedGate gate;
    auto f = jit::compile([](Tensor a) { return exp(a * 0); }, in_background());
    f(x);
    f.reset();
    gate.open();
    base_detail::wait_for_background();
    CHECK(f.stats().background_swaps == 0);
    CHECK(floats(f(x)) == std::vector<float>{1, 1});
    f.warm_up(x);
    CHECK(f.stats().background_swaps == 1);
  }
}

TEST_CASE("background: calls of several threads see one version or the other") {
  for (int round = 0; round < 5; ++round) {
    ClosedGate gate;
    auto f = jit::compile([](Tensor a) { return sum(exp(a * 0) + a); }, in_background());
    auto reads =
        jit::compile([](Tensor a) { return item(sum(a)) > 100 ? Tensor(a) : Tensor(sum(a * 1)); }, in_background());
    const Tensor x = vec({1, 2, 3});
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 60; ++i) wrong += item<float>(f(x)) != 9 || item<float>(reads(x)) != 6;
      });
    gate.open();
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    f.warm_up(x);
    reads.warm_up(x);
    CHECK(f.stats().calls == 180);
    CHECK(f.stats().background_pending == 0);
  }
}

TEST_CASE("background: a process may fork and end while code is made", "[exit]") {
#ifdef __SANITIZE_THREAD__
  SINTER_SKIP("the thread sanitizer of GCC 12 ends children that begin a thread where their parent had one");
#endif
  const Tensor x = vec({1, 2});
  const auto status_of = [](const std::function<bool()>& child) {
    std::fflush(nullptr);
    const pid_t id = fork();
    if (id == 0) {
      at_end.status = new int(child() ? 0 : 3);
      std::exit(*at_end.status);
    }
    int status = 0;
    waitpid(id, &status, 0);
    return status;
  };
  {  // calls alone have the parent's jobs done, without warm_up()
    struct Blocks final : base_detail::BackgroundJob {
      std::atomic<bool> is_open{false};
      void run() noexcept override {
        while (!is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    const auto blocks = std::make_shared<Blocks>();
    base_detail::run_in_background(blocks);
    auto f = jit::compile([](Tensor a) { return exp(a * 0) + 3; }, {.mode = jit::Mode::background});
    f(x);
    const int status = status_of([&] {
      blocks->is_open = true;
      for (int i = 0; i < 1000 && f.stats().background_swaps == 0; ++i) {
        f(x);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      return f.stats().background_swaps == 1;
    });
    CHECK(status == 0);
    blocks->is_open = true;
    f.warm_up(x);
  }
  auto plain = jit::compile([](Tensor a) { return exp(a * 0) + 1; }, {.mode = jit::Mode::background});
  plain(x);
  CHECK(status_of([&] {  // what the parent had asked for, and new functions
          plain.warm_up(x);
          auto other = jit::compile([](Tensor a) { return a * 3; }, {.mode = jit::Mode::background});
          other(x);
          other.warm_up(x);
          return plain.stats().background_swaps == 1 && other.stats().background_swaps == 1 &&
                 item<float>(sum(plain(x))) == 4 && item<float>(sum(other(x))) == 9;
        }) == 0);
  CHECK(status_of([&] {  // ends with jobs that wait
          for (int i = 0; i < 20; ++i) {
            auto* made =
                new auto(jit::compile([i](Tensor a) { return softmax(a * i, 0); }, {.mode = jit::Mode::background}));
            (*made)(x);
          }
          return true;
        }) == 0);
}

TEST_CASE("background: options that contradict the mode") {
  const auto body = [](Tensor x) { return x; };
  const auto message = [&](jit::Options options) {
    return message_of<UserError>([&] { jit::compile(body, std::move(options)); });
  };
  CHECK(has(message({.mode = jit::Mode::background, .backend = "eager"}),
            "Mode::background contradicts the back end 'eager', which runs operation by operation"));
  CHECK(has(message({.mode = jit::Mode::background, .backend = "noop"}), "which makes its own results"));
  CHECK(has(message({.mode = jit::Mode::max_autotune, .backend = "aot_eager"}), "whose kernels have one schedule"));
  CHECK(has(message({.mode = jit::Mode::reduce_overhead, .tune_seconds = 1}),
            "tune_seconds contradicts Mode::reduce_overhead, which measures nothing"));
  CHECK(has(message({.mode = jit::Mode::max_autotune, .tune_seconds = -1}), "tune_seconds is -1"));
  CHECK(has(message({.mode = static_cast<jit::Mode>(9)}), "which is no Mode"));
  CHECK(jit::list_modes() == std::vector<std::string>{"default", "reduce-overhead", "background", "max-autotune",
                                                      "max-autotune-no-cudagraphs"});
  CHECK(jit::mode_named("max-autotune") == jit::Mode::max_autotune);
  for (const jit::OptionInfo& option : jit::list_options(jit::Mode::max_autotune))
    if (option.name == "tune_seconds") CHECK(option.default_value == "2");
}
