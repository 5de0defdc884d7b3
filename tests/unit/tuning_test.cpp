// Mode::max_autotune: schedules chosen by measuring, the store of winners, and files of them.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"
#include "../tuning_folder.hpp"

#include <sinter/base/context.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/log.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/tuning.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

using namespace sinter;
using sinter_test::TuningFolder;

namespace {

/// The reference back end with schedules that are slower than others by their number of milliseconds, and one that is
/// wrong.
struct Timed final : Backend {
  Backend& plain = *jit::host_backends().back();
  int version = 0;
  std::uint16_t fastest = 1, slowest = 1;  // among "unroll" 1, 2 and 4; the default is as slow as 4
  bool has_wrong = false;
  int fast_binds = 1 << 30;            // how often code of the fastest is bound before it is as slow as others
  int microseconds_of_a_sequence = 0;  // not 0: what a kernel of two instructions takes; of n, n times n / 4 as much
  std::atomic<int> launches{0};

  struct Slow final : Launch {
    std::unique_ptr<Launch> inner;
    std::chrono::microseconds delay{};
    std::atomic<int>* count = nullptr;
    void run(void* const* operands) override {
      inner->run(operands);
      ++*count;
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < delay) {}
    }
  };
  struct Code final : Executable {
    std::shared_ptr<const Executable> inner;
    std::chrono::microseconds delay{};
    std::atomic<int>* count = nullptr;
    int fast_binds = 1 << 30;
    mutable std::atomic<int> binds{0};
    std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
      auto launch = std::make_unique<Slow>();
      launch->inner = inner->bind(geometry);
      launch->delay = ++binds > fast_binds ? std::chrono::microseconds(250) : delay;
      launch->count = count;
      return launch;
    }
  };
  std::string_view name() const override { return "timed"; }
  std::string cache_key() const override { return "timed " + std::to_string(version); }
  Limits limits() const override { return plain.limits(); }
  std::vector<Schedule> schedules(const Kernel&) const override {
    std::vector<Schedule> all{Schedule{}};
    for (std::uint16_t copies : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{4}})
      all.push_back({{.action = ScheduleAction::unroll, .number = copies}});
    return all;
  }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule, std::string* why) override {
    const std::uint16_t copies = schedule.find(ScheduleAction::unroll).value_or(0);
    Kernel other = kernel;
    if (has_wrong && copies == fastest)
      for (Inst& inst : other.body)
        if (inst.prim == Prim::tanh) inst.prim = Prim::sin;
    auto code = std::make_shared<Code>();
    code->inner = plain.compile(other, {}, why);
    code->delay = std::chrono::microseconds(copies == fastest ? 50 : 250);
    if (copies == fastest) code->fast_binds = fast_binds;
    if (microseconds_of_a_sequence > 0) {
      const auto size = static_cast<int>(kernel.body.size());
      code->delay = std::chrono::microseconds(microseconds_of_a_sequence * size * size / 4);
    }
    code->count = &launches;
    return code;
  }
};
Timed& timed() {
  static Timed* const backend = [] {
    auto made = std::make_unique<Timed>();
    Timed* const place = made.get();
    jit::register_kernel_backend(std::move(made));
    return place;
  }();
  return *backend;
}
jit::Options tuned(double seconds = 0) {
  return {.mode = jit::Mode::max_autotune, .backend = "timed", .tune_seconds = seconds};
}
std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("tuning: the fastest schedule wins, and is kept for other processes") {
  const TuningFolder store;
  timed().version = 1;
  timed().fastest = 2;
  const auto body = [](Tensor x) { return tanh(x) * 2; };
  auto f = jit::compile(body, tuned());
  const Tensor x = ones({8});
  CHECK(near(doubles(f(x)), doubles(tanh(x) * 2), 1e-6));
  TuningStats stats = tuning_stats();
  CHECK(stats.measured == 1);
  CHECK(stats.gained == 1);
  CHECK(stats.rejected == 0);
  CHECK(has(runtime_detail::tuning_text(), "pointwise 4r 1 1; "));
  CHECK(has(runtime_detail::tuning_text(), " = unroll(2); "));

  runtime_detail::reopen_tuning();  // as another process: found, not measured
  jit::reset();
  const int before = timed().launches;
  auto again = jit::compile(body, tuned());
  again(x);
  CHECK(timed().launches == before + 1);
  stats = tuning_stats();
  CHECK(stats.found == 1);
  CHECK(stats.measured == 0);
  again(ones({9}));  // of the same class
  CHECK(tuning_stats().measured == 0);
  again(ones({4096}));
  CHECK(tuning_stats().measured <= 1);

  namespace fs = std::filesystem;
  const fs::path folder = fs::path(store.folder.path) / "tuning";
  REQUIRE(fs::is_directory(folder));
  CHECK((fs::status(folder).permissions() & fs::perms::all) == fs::perms::owner_all);
}

TEST_CASE("tuning: the default wins ties, and schedules that give other bits never win") {
  const TuningFolder store;
  timed().version = 2;
  timed().fastest = 99;  // all alike
  const Tensor x = full({8}, 0.5);
  const auto body = [](Tensor a) { return tanh(a) * 3; };
  jit::compile(body, tuned())(x);
  CHECK(tuning_stats().measured == 1);
  CHECK(tuning_stats().gained == 0);
  CHECK(has(runtime_detail::tuning_text(), " = default; "));

  runtime_detail::reopen_tuning();
  timed().version = 3;
  timed().fastest = 4;
  timed().has_wrong = true;
  auto f = jit::compile(body, tuned());
  CHECK(near(doubles(f(x)), doubles(tanh(x) * 3), 1e-6));
  timed().has_wrong = false;
  CHECK(tuning_stats().rejected == 1);
  CHECK(tuning_stats().gained == 0);
  CHECK_FALSE(has(runtime_detail::tuning_text(), "unroll(4)"));
}

TEST_CASE("tuning: what wins once, but not a second time later, loses to the default") {
  const TuningFolder store;
  timed().version = 21;
  timed().fastest = 2;
  timed().fast_binds = 3;  // two comparisons of bits, and the measurement
  LogCapture log("autotune");
  const auto body = [](Tensor x) { return tanh(x) * 5; };
  const Tensor x = ones({8});
  auto f = jit::compile(body, tuned(30));
  CHECK(near(doubles(f(x)), doubles(tanh(x) * 5), 1e-6));
  timed().fast_binds = 1 << 30;
  const std::string lines = log.take();
  INFO(lines);
  CHECK(has(lines, "default, for unroll(2) did not win a second time: "));
  CHECK(tuning_stats().measured == 1);
  CHECK(tuning_stats().gained == 0);
  CHECK(has(runtime_detail::tuning_text(), " = default; "));
  CHECK_FALSE(has(runtime_detail::tuning_text(), "unroll(2)"));
}

TEST_CASE("tuning: two cuts that win are tried together") {
  timed().fastest = 99;  // all schedules alike
  const auto body = [](Tensor x, Tensor y) {
    return std::pair(sum(abs(sqrt(abs(x) + 1)), 1), sum(abs(sqrt(abs(y) + 2)), 1));
  };
  const Tensor x = randn({64, 100}), y = randn({40, 120});
  const auto [a, b] = jit::compile(body)(x, y);
  // These are times of the clock: where the machine is busy in the wrong moment no cut gains alone, or not a second
  // time.
  const auto line_of_plans = [&](int version) {
    const TuningFolder store;
    jit::reset();
    timed().version = version;
    timed().microseconds_of_a_sequence = 40;
    LogCapture log("autotune");
    auto f = jit::compile(body, tuned(60));  // it takes less
    const auto [c, d] = f(x, y);
    timed().microseconds_of_a_sequence = 0;
    CHECK(near(doubles(c), doubles(a), 1e-6));
    CHECK(near(doubles(d), doubles(b), 1e-6));
    const std::string lines = log.take();
    const std::size_t plans = lines.find("the cut into kernels: ");
    return plans == std::string::npos ? lines : lines.substr(plans);
  };
  std::string line;
  const auto has_two_cuts = [&] { return line.find("cut(") != line.rfind("cut(") && has(line, ") cut("); };
  for (int version = 2200; version < 2212 && !has_two_cuts(); ++version) line = line_of_plans(version);
  INFO(line);
  CHECK(has_two_cuts());
}

TEST_CASE("tuning: where the time does not suffice the default runs, and nothing is kept") {
  const TuningFolder store;
  timed().version = 4;
  timed().fastest = 1;
  auto f = jit::compile([](Tensor x) { return tanh(x) + 4; }, tuned(1e-6));
  f(ones({8}));
  CHECK(tuning_stats().unfinished == 1);
  CHECK(tuning_stats().measured == 0);
  CHECK(runtime_detail::tuning_text().find(" = ") == std::string::npos);
}

TEST_CASE("tuning: every kind of kernel gives the default's bits on this machine") {
  const TuningFolder store;
  const auto same = [](const auto& body, const auto&... arguments) {
    auto standard = jit::compile(body);
    auto chosen = jit::compile(body, {.mode = jit::Mode::max_autotune_no_cudagraphs, .tune_seconds = 0.3});
    const Tensor a = standard(arguments...), b = chosen(arguments...);
    CHECK(floats(a) == floats(b));
  };
  const Tensor x = randn({60, 70}), y = randn({70, 50});
  same([](Tensor a) { return exp(a) * 2 + tanh(a); }, x);
  same([](Tensor a) { return softmax(a, 1); }, x);
  same([](Tensor a) { return sum(a, 0); }, x);
  same([](Tensor a) { return sum(a); }, x);
  same([](Tensor a, Tensor b) { return relu(matmul(a, b)); }, x, y);
  same([](Tensor a) { return softmax(transpose(a, 0, 1), 0) + 1; }, x);
  same([](Tensor a) { return take(a, copy_of(std::vector<std::int64_t>{3, 1, 59}), 0) * 2; }, x);
  same([](Tensor a) { return cast(a * 3, DType::i32) + 1; }, x);
  same([](Tensor a) { return sum(exp(cast(a, DType::bf16)), 1); }, x);
  same([](Tensor a) { return cumsum(a, 1) * 2; }, x);
  same([](Tensor a) { return a * 2; }, zeros({0, 3}));
  same([](Tensor a) { return item(sum(a)) > 1e9 ? Tensor(a) : Tensor(exp(a) + 1); }, x);
  const TuningStats stats = tuning_stats();
  INFO("measured " << stats.measured << ", gained " << stats.gained << ", rejected " << stats.rejected);
  CHECK(stats.rejected == 0);  // schedules never change bits on a CPU
  CHECK((stats.measured > 5 || jit::list_backends()[0] != "x86"));
}

TEST_CASE("tuning: gradients are tuned, forward and backward") {
  const TuningFolder store;
  timed().version = 5;
  timed().fastest = 1;
  Variable w(ones({6}));
  w.requires_grad();
  auto loss = jit::compile([&](Tensor x) { return sum(tanh(w * x)); }, tuned());
  loss(ones({6})).backward();
  CHECK(tuning_stats().measured >= 2);
  CHECK(near(doubles(w.grad()), std::vector<double>(6, 0.4199743416), 1e-6));
}

TEST_CASE("tuning: the cut into kernels is measured, kept, and found by others") {
  const TuningFolder store;
  const auto body = [](Tensor x) {
    const Tensor a = x * 2 + 1;
    return sum(a, 0) + sum(sum(a, 1));
  };
  const Tensor x = randn({300, 200});
  const jit::Options options{.mode = jit::Mode::max_autotune, .tune_seconds = 30};  // it takes less
  jit::reset();
  auto standard = jit::compile(body);
  auto f = jit::compile(body, options);
  CHECK(floats(f(x)) == floats(standard(x)));
  CHECK(tuning_stats().plans_measured == 1);
  CHECK(tuning_stats().plans_found == 0);
  CHECK(has(runtime_detail::tuning_text(), "; plan of "));
  const std::string path = store.folder.path + "/plans.tuning";
  jit::export_tuning(path);

  const TuningFolder elsewhere;
  jit::import_tuning(path);
  jit::reset();
  CHECK(floats(jit::compile(body, options)(x)) == floats(standard(x)));
  CHECK(tuning_stats().plans_measured == 0);
  CHECK(tuning_stats().plans_found == 1);
  CHECK(tuning_stats().measured == 0);

  jit::compile(body, {.mode = jit::Mode::max_autotune, .fuse = false})(x);  // nothing to cut
  CHECK(tuning_stats().plans_measured == 0);
}

TEST_CASE("tuning: a cut that is measured on zeros has the default's bits on other values") {
  const TuningFolder store;
  const auto same = [](const auto& body, DType dtype) {
    const Tensor x = cast(randn({200, 300}), dtype), y = cast(randn({200, 300}), dtype);
    jit::reset();
    auto standard = jit::compile(body);
    auto f = jit::compile(body, {.mode = jit::Mode::max_autotune, .tune_seconds = 2});
    f(cast(zeros({200, 300}), dtype), cast(zeros({200, 300}), dtype));
    CHECK(floats(cast(f(x, y), DType::f32)) == floats(cast(standard(x, y), DType::f32)));
  };
  const auto both_sums = [](Tensor x, Tensor y) {
    const Tensor a = x * 3 + 1;
    return sum(a, 0) + sum(sum(a, 1)) * y;
  };
  same(both_sums, DType::f32);
  same(both_sums, DType::bf16);
  same([](Tensor x, Tensor y) { return x * y + softmax(x, 1); }, DType::f32);
}

TEST_CASE("tuning: a stored cut that would change bits is not followed") {
  const TuningFolder store;
  const auto body = [](Tensor x) {
    const Tensor a = x * 3 + 1;
    return sum(a, 0) + sum(sum(a, 1));
  };
  const Tensor x = randn({300, 200});
  const jit::Options options{.mode = jit::Mode::max_autotune, .tune_seconds = 30};
  jit::reset();
  const std::vector<float> expected = floats(jit::compile(body)(x));
  jit::compile(body, options)(x);
  std::string text = runtime_detail::tuning_text();
  const std::size_t plan = text.find("; plan of ");
  if (plan == std::string::npos) SINTER_SKIP("no cut was measured");
  const std::size_t begin = text.find(" = ", plan) + 3, end = text.find(';', begin);
  for (const char* winner : {"store(2)", "store(3)", "cut(2)", "cut(60000)", "recompute(0)", "unroll(4)"}) {
    INFO(winner);
    std::string lines = text.substr(0, begin) + winner + text.substr(end);
    lines.resize(lines.rfind("checksum "));
    const Hash128 sum = Hasher{}.add(std::string_view(lines)).finish();
    char hex[40];
    std::snprintf(hex, sizeof hex, "%016llx%016llx", static_cast<unsigned long long>(sum.high),
                  static_cast<unsigned long long>(sum.low));
    const TuningFolder elsewhere;
    const std::string path = elsewhere.folder.path + "/other.tuning";
    std::ofstream(path, std::ios::binary) << lines << "checksum " << hex << "\n";
    jit::import_tuning(path);
    jit::reset();
    CHECK(floats(jit::compile(body, options)(x)) == expected);
  }
}

TEST_CASE("tuning: no cut holds more memory than the budget") {
  const TuningFolder store;
  const auto body = [](Tensor x) {
    const Tensor a = tanh(x * 2 + 1);
    return sum(a, 0) + sum(sum(a, 1));
  };
  const Tensor x = randn({300, 200});
  jit::reset();
  auto standard = jit::compile(body);
  standard(x);
  const std::int64_t budget = standard.stats().peak_bytes;
  if (budget == 0) SINTER_SKIP("the plan holds nothing");
  auto f = jit::compile(body, {.mode = jit::Mode::max_autotune, .memory_budget = budget, .tune_seconds = 2});
  f(x);
  CHECK(f.stats().peak_bytes <= budget);
}

TEST_CASE("tuning: loops that may never end on made-up values are not run on such") {
  const TuningFolder store;
  jit::reset();
  auto f = jit::compile(
      [](Tensor x) {
        const Tensor a = jit::while_loop([](Tensor y) { return sum(y) < 10; }, [](Tensor y) { return y * 2; }, x);
        return sum(a * 2 + 1, 0) + sum(sum(tanh(x), 1));
      },
      {.mode = jit::Mode::background, .tune_seconds = 2});
  const Tensor x = ones({64, 64});
  f(x);
  jit::wait_for_background();
  CHECK(f.stats().background_pending == 0);
}

TEST_CASE("tuning: functions of the user and effects are not run again to measure plans") {
  const TuningFolder store;
  int calls = 0;
  auto f = jit::compile(
      [&](Tensor x) {
        const Tensor a = exp(x * 2) + 1;
        jit::callback([&calls](const Tensor&) { ++calls; }, a);
        return sum(a, 0) + sum(sum(a, 1));
      },
      {.mode = jit::Mode::max_autotune, .tune_seconds = 0.3});
  f(ones({300, 200}));
  CHECK(calls == 1);
  CHECK(tuning_stats().plans_measured == 0);
}

TEST_CASE("tuning: kernels are measured on the operands of the call, which stay as they are") {
  const TuningFolder store;
  timed().version = 8;
  timed().fastest = 1;
  std::vector<std::string> lines;
  set_logs("autotune");
  struct Sink {
    decltype(Context::get().sink) before;
    ~Sink() { Context::get().sink = before; }
  };
  const Tensor x = randn({8});
  const std::vector<float> values = floats(x);
  {
    const Sink sink{
        std::exchange(Context::get().sink, [&](std::string_view, std::string_view line) { lines.emplace_back(line); })};
    jit::compile([](Tensor a) { return tanh(a) * 8; }, tuned())(x);
  }
  set_logs("");
  CHECK(floats(x) == values);
  CHECK(tuning_stats().measured == 1);
  CHECK(
      std::any_of(lines.begin(), lines.end(), [](const std::string& l) { return has(l, "; on the call's operands"); }));
}

TEST_CASE("tuning: in the background, once there is code: it is swapped twice, and no call waits") {
  const TuningFolder store;
  timed().version = 9;
  timed().fastest = 2;
  jit::reset();
  auto f = jit::compile([](Tensor x) { return tanh(x) * 9; },
                        {.mode = jit::Mode::background, .backend = "timed", .tune_seconds = 5});
  const Tensor x = ones({8});
  f(x);
  jit::wait_for_background();
  CHECK(near(doubles(f(x)), doubles(tanh(x) * 9), 1e-6));
  const jit::Stats stats = f.stats();
  CHECK(stats.background_swaps == 2);
  CHECK(stats.background_calls <= 1);  // none where the code was there first
  CHECK(stats.background_pending == 0);
  CHECK(tuning_stats().measured == 1);
  CHECK(tuning_stats().gained == 1);
  CHECK(has(runtime_detail::tuning_text(), " = unroll(2); "));
  CHECK(has(f.explain(x).text(), "background: swapped at call"));
  CHECK(has(f.explain(x).text(), "background: tuned code has taken its place"));
}

TEST_CASE("tuning: files of schedules") {
  const TuningFolder store;
  timed().version = 6;
  timed().fastest = 2;
  const auto body = [](Tensor x) { return tanh(x) * 6; };
  jit::compile(body, tuned())(ones({8}));
  const std::string path = store.folder.path + "/program.tuning";
  CHECK(jit::export_tuning(path) == 1);
  CHECK(has(text_of(path), "sinter tuning 1\n"));

  const TuningFolder elsewhere;
  CHECK(jit::import_tuning(path) == 1);
  jit::reset();
  const int before = timed().launches;
  jit::compile(body, tuned())(ones({8}));
  CHECK(timed().launches == before + 1);
  CHECK(tuning_stats().found == 1);

  const auto imported = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return message_of<UserError>([&] { jit::import_tuning(path); });
  };
  const std::string whole = text_of(path);
  CHECK(has(imported("sinter tuning 12\n"), "is no file of schedules"));
  const auto with_sum = [](const std::string& text) {
    const Hash128 sum = Hasher{}.add(std::string_view(text)).finish();
    char hex[40];
    std::snprintf(hex, sizeof hex, "%016llx%016llx", static_cast<unsigned long long>(sum.high),
                  static_cast<unsigned long long>(sum.low));
    return text + "checksum " + hex + "\n";
  };
  CHECK(has(imported(with_sum("sinter tuning 1\nkernel = unroll(2)")), "is damaged or cut short"));  // no end of line
  CHECK(has(imported(with_sum("sinter tuning 1\nkernel = nonsense\n")), "has a line without a schedule"));
  CHECK(has(imported("something else\n"), "is no file of schedules: it does not begin with 'sinter tuning 1'"));
  CHECK(has(imported(whole.substr(0, whole.size() - 9)), "is damaged or cut short"));
  std::string changed = whole;
  changed.replace(changed.find("unroll(2)"), 9, "unroll(4)");
  CHECK(has(imported(changed), "is damaged or cut short"));
  CHECK(has(message_of<UserError>([] { jit::import_tuning("/nowhere/a.tuning"); }), "cannot be read: No such file"));
  CHECK(has(message_of<UserError>([] { jit::export_tuning("/nowhere/a.tuning"); }), "cannot be written: No such file"));
  CHECK(has(message_of<UserError>([&] { jit::import_tuning(store.folder.path); }), "cannot be read: it is a folder"));
  jit::export_tuning(path);  // over what was there, and leaves nothing beside it
  CHECK(text_of(path) == whole);
  CHECK_FALSE(std::filesystem::exists(path + ".new." + std::to_string(::getpid())));
  CHECK_THROWS_AS(jit::export_tuning(store.folder.path), UserError);
  CHECK(blame_of([] { jit::import_tuning("/nowhere/a.tuning"); }) == blame("import_tuning"));
}

TEST_CASE("tuning: files of functions keep the seconds and the schedules") {
  const Folder files, other, elsewhere;
  const auto body = [](Tensor x) { return tanh(x) * 5; };
  const Tensor x = ones({8});
  {
    const TuningFolder store;
    timed().version = 7;
    timed().fastest = 2;
    auto f = jit::compile(body, tuned(0.75));
    f(x);
    REQUIRE(tuning_stats().measured == 1);
    CHECK(has(runtime_detail::tuning_text(), "unroll(2); "));
    CHECK(has(runtime_detail::tuning_text(), " bytes, "));
    jit::save(f, files / "f");
    TuningFolder::use(other.path);  // a process that knows nothing
    CHECK(!has(runtime_detail::tuning_text(), "unroll(2)"));
    auto g = jit::load<Tensor(Tensor)>(files / "f");
    CHECK(near(doubles(g(x)), doubles(tanh(x) * 5), 1e-6));
    CHECK(tuning_stats().measured == 0);
    CHECK(tuning_stats().found == 1);
    jit::save(g, files / "again");
    CHECK(has(text_of(files / "again"), "unroll(2); "));
    jit::save({{"f", f}, {"g", g}}, files / "two");  // once in a file, and found whichever is loaded
    const std::string two = text_of(files / "two");
    CHECK(two.find("unroll(2); ") == two.rfind("unroll(2); "));

    TuningFolder::use(elsewhere.path);
    jit::reset();
    timed().fastest = 4;
    jit::compile(body, tuned())(x);
    CHECK(has(runtime_detail::tuning_text(), "unroll(4); "));
    CHECK_THROWS_AS((jit::load<Tensor(Tensor, Tensor)>(files / "f")), UserError);
    auto loaded = jit::load<Tensor(Tensor)>(files / "f");  // what this process has found itself stays
    CHECK(has(runtime_detail::tuning_text(), "unroll(4); "));
    CHECK(!has(runtime_detail::tuning_text(), "unroll(2); "));
  }
}

TEST_CASE("tuning: what the environment asks for", "[.][child]") {
  auto f = jit::compile([](Tensor x) { return softmax(x, 1); });
  f(ones({64, 100}));
  std::printf("measured %lld\n", static_cast<long long>(tuning_stats().measured + tuning_stats().found));
}

TEST_CASE("tuning: SINTER_TUNE turns the mode on for a whole program") {
  const Folder folder;
  const std::string file = folder.path + "/a.tuning", cache = "SINTER_CACHE_DIR=" + folder.path;
  const std::string child = "tuning: what the environment asks for";
  if (jit::list_backends()[0] != "x86" || has(under(cache + " SINTER_TUNE=1", child), "measured 0"))
    SINTER_SKIP("no back end with schedules");
  CHECK(has(under(cache, child), "measured 0"));
  CHECK_FALSE(has(under(cache + " SINTER_TUNE=1 SINTER_TUNE_EXPORT=" + file, child), "measured 0"));
  CHECK(has(text_of(file), "; row "));
  CHECK(has(text_of(file), "; plan of "));
  CHECK(has(under(cache + " SINTER_TUNE=soon", child), "'soon' is no number of seconds"));
}
