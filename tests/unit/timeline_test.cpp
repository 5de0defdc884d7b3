// The timeline that SINTER_TRACE and jit::start_trace record, what a kernel costs, and jit::profile. Files are read
// back by the strict JSON reader of io.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"

#include <sinter/io/json.hpp>
#include <sinter/runtime/watch.hpp>
#include <sinter/sinter.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace sinter;
using io::io_detail::Json;

namespace {

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
/// A file that is gone at the end.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name)
      : path((std::filesystem::temp_directory_path() / (std::to_string(getpid()) + name)).string()) {}
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::string path;
};

struct Event {
  std::string phase, category, name, thread;
  double begin = 0, duration = 0;
  Json args{};
  std::string arg(const std::string& field) const {
    const Json* found = args.find(field);
    return found == nullptr ? "no " + field : found->text;
  }
};
std::vector<Event> events_of(const std::string& path) {
  const Json file = io::io_detail::parse_json(text_of_file(path));
  REQUIRE(file.kind == Json::Kind::array);
  std::vector<Event> events;
  for (const auto& [none, json] : file.parts) {
    const auto field = [&json = json](const char* name) {
      const Json* found = json.find(name);
      return found == nullptr ? std::string() : found->text;
    };
    Event event{field("ph"), field("cat"), field("name"), field("tid")};
    if (const std::string at = field("ts"); !at.empty()) event.begin = std::stod(at);
    if (const std::string of = field("dur"); !of.empty()) event.duration = std::stod(of);
    if (const Json* args = json.find("args")) event.args = *args;
    CHECK(!event.phase.empty());
    CHECK(!event.thread.empty());
    events.push_back(std::move(event));
  }
  return events;
}
const Event* find_event(const std::vector<Event>& events, const std::string& category, const std::string& name = "") {
  for (const Event& event : events)
    if (event.category == category && (name.empty() || has(event.name, name))) return &event;
  return nullptr;
}

/// What the kernels of a function cost.
template <class F, class... A>
std::vector<StepCost> costs_of(F&& f, const A&... args) {
  struct Costs final : StepListener {
    std::vector<StepCost> costs;
    void begin(const PlanStep&) override {}
    void end(const PlanStep&, Device, const StepCost& cost, std::int64_t) override { costs.push_back(cost); }
  } listener;
  auto compiled = jit::compile(f);
  compiled(args...);
  const ListenToSteps listening(listener);
  compiled(args...);
  return std::move(listener.costs);
}

}  // namespace

TEST_CASE("timeline: traces, passes, compiles, calls, kernels, recompiles, breaks, memory and marks") {
  const TemporaryFile file("timeline.json");
  jit::start_trace(file.path);
  auto f = jit::compile([](Tensor x, Tensor y) { return tanh(x) * y + 1; }, {.dynamic = jit::Dynamic::never});
  const std::string line = "timeline_test.cpp:" + std::to_string(__LINE__ - 1);
  {
    const auto mark = jit::annotate("a step");
    f(ones({300, 400}), ones({300, 400}));
  }
  f(ones({3, 4}), ones({3, 4}));
  auto reads = jit::compile([](Tensor x) { return item(sum(x)) > 0 ? Tensor(x + 1) : Tensor(x - 1); });
  reads(ones({4}));
  const float lazy = item<float>(sum(ones({5}) * 2));
  jit::stop_trace();
  CHECK(lazy == 10);
  const std::vector<Event> events = events_of(file.path);
  for (const char* category :
       {"trace", "pass", "compile", "call", "kernel", "recompile", "break", "memory", "lazy", "user"}) {
    INFO(category);
    CHECK(find_event(events, category) != nullptr);
  }
  const Event* kernel = find_event(events, "kernel", "tanh");
  REQUIRE(kernel != nullptr);
  CHECK(kernel->phase == "X");
  CHECK(kernel->arg("bytes") == std::to_string(3 * 4 * 300 * 400));
  CHECK(kernel->arg("flops") == std::to_string(3 * 300 * 400));
  CHECK(kernel->arg("kernel") == "pointwise");
  CHECK(kernel->arg("device") == "cpu");
  CHECK(has(kernel->arg("line"), line));
  const Event* mark = find_event(events, "user", "a step");
  REQUIRE(mark != nullptr);
  CHECK(mark->thread == kernel->thread);
  CHECK(mark->begin <= kernel->begin);  // and around it
  CHECK(kernel->begin + kernel->duration <= mark->begin + mark->duration);
  CHECK(has(find_event(events, "recompile")->arg("why"), "guard 'extent' failed"));
  CHECK(has(find_event(events, "break")->arg("why"), "reads an outcome"));
  CHECK(find_event(events, "call")->arg("line") == line);
  const Event* allocation = find_event(events, "memory", "allocate");
  REQUIRE(allocation != nullptr);
  CHECK(allocation->arg("bytes") == std::to_string(4 * 300 * 400));
  CHECK(find_event(events, "", "thread_name") != nullptr);
}

TEST_CASE("timeline: the chunks of a kernel on several threads, with arrows from it") {
  const int threads = thread_count();
  set_thread_count(4);
  const TemporaryFile file("chunks.json");
  jit::start_trace(file.path);
  auto f = jit::compile([](Tensor x) { return exp(x) + tanh(x) * sin(x); });
  const Tensor x = ones({2000, 1000});
  std::set<std::string> used;
  for (int i = 0; i < 200 && used.size() < 2; ++i) {
    f(x);
    jit::write_trace();  // complete, and the recording goes on
    for (const Event& event : events_of(file.path))
      if (event.category == "chunk") used.insert(event.thread);
  }
  jit::stop_trace();
  set_thread_count(threads);
  const std::vector<Event> events = events_of(file.path);
  CHECK(find_event(events, "chunk", "fused") != nullptr);
  if (used.size() < 2) SINTER_SKIP("no second thread came to work in 200 calls");
  int from = 0, to = 0;
  for (const Event& event : events)
    if (event.category == "arrow") ++(event.phase == "s" ? from : to);
  CHECK(from > 0);
  CHECK(from == to);
}

TEST_CASE("timeline: names are escaped, and threads write side by side into a file that is always complete") {
  const TemporaryFile file("escaped.json");
  jit::start_trace(file.path);
  { const auto mark = jit::annotate("a \"quoted\" \\ line\nwith \x01 and \xff and <\xc3\xa9>"); }
  std::shared_mutex is_read;  // a file that grows between two reads of it is torn for its reader, and no fault
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&is_read, t] {
      for (int i = 0; i < 2000; ++i) {
        const std::shared_lock lock(is_read);
        const auto mark = jit::annotate("thread " + std::to_string(t));
      }
    });
  for (int i = 0; i < 20; ++i) {
    jit::write_trace();
    const std::unique_lock lock(is_read);
    CHECK_NOTHROW(io::io_detail::parse_json(text_of_file(file.path)));
  }
  for (std::thread& thread : threads) thread.join();
  jit::stop_trace();
  const std::vector<Event> events = events_of(file.path);
  CHECK(find_event(events, "user", "a \"quoted\" \\ line\nwith \x01 and ? and <\xc3\xa9>") != nullptr);
  int marks = 0;
  for (const Event& event : events) marks += event.category == "user" && has(event.name, "thread ");
  CHECK(marks == 8000);
}

TEST_CASE("timeline: an exception ends the spans that it leaves, and the kernel is marked") {
  const TemporaryFile file("failed.json");
  auto f = jit::compile([](Tensor x, Tensor i) { return take(x, i, 0) * 2; });
  f(ones({4}), copy_of(std::vector<std::int64_t>{1, 2}));
  jit::start_trace(file.path);
  CHECK_THROWS_AS(f(ones({4}), copy_of(std::vector<std::int64_t>{1, 9})), IndexError);
  CHECK(floats(f(ones({4}), copy_of(std::vector<std::int64_t>{1, 3}))) == std::vector<float>{2, 2});
  jit::stop_trace();
  const std::vector<Event> events = events_of(file.path);
  std::vector<std::string> failed;
  for (const Event& event : events)
    if (event.category == "kernel" && has(event.name, "take")) failed.push_back(event.arg("failed"));
  CHECK(failed == std::vector<std::string>{"true", "no failed"});
}

TEST_CASE("timeline: a near miss: nothing is recorded, and what is asked for then says so") {
  CHECK_FALSE(has_timeline());
  CHECK_FALSE(is_watched());
  { const auto mark = jit::annotate("nobody sees it"); }
  jit::stop_trace();
  CHECK(blame_of([] { jit::write_trace(); }) == blame("write_trace"));
  CHECK(has(message_of([] { jit::write_trace(); }), "no timeline is being recorded"));
  const std::string nowhere = message_of([] { jit::start_trace("/nowhere/at/all.json"); });
  CHECK(has(nowhere, "start_trace: the file '/nowhere/at/all.json' cannot be written: No such file or directory"));
  CHECK_FALSE(has_timeline());
  const TemporaryFile file("twice.json");
  jit::start_trace(file.path);
  CHECK(has(message_of([&] { jit::start_trace(file.path + "2"); }), "already being recorded into '" + file.path + "'"));
  jit::stop_trace();
  CHECK_FALSE(std::filesystem::exists(file.path + "2"));
}

TEST_CASE("timeline: a forked child has a file of its own") {
  const TemporaryFile file("fork.json");
  jit::start_trace(file.path);
  { const auto mark = jit::annotate("before"); }
  const pid_t child = fork();
  if (child == 0) {
    { const auto mark = jit::annotate("in the child"); }
    jit::write_trace();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  { const auto mark = jit::annotate("after"); }
  jit::stop_trace();
  CHECK(status == 0);
  const std::vector<Event> ours = events_of(file.path);
  CHECK(find_event(ours, "user", "before") != nullptr);
  CHECK(find_event(ours, "user", "after") != nullptr);
  CHECK(find_event(ours, "user", "in the child") == nullptr);
  const std::string other = file.path.substr(0, file.path.size() - 5) + "." + std::to_string(child) + ".json";
  const std::vector<Event> theirs = events_of(other);
  CHECK(find_event(theirs, "user", "in the child") != nullptr);
  CHECK(find_event(theirs, "user", "before") == nullptr);
  std::filesystem::remove(other);
}

TEST_CASE("a process with a timeline", "[.timeline]") {
  try {
    auto f = jit::compile([](Tensor x) { return exp(x) * 2; });
    f(ones({8}));
    std::printf("ran\n");
  } catch (const UserError& error) { std::printf("%s\n", error.what()); }
}
TEST_CASE("timeline: SINTER_TRACE and SINTER_NVTX") {
  const TemporaryFile file("environment.json");
  CHECK(has(under("SINTER_TRACE=" + file.path, "[.timeline]"), "ran"));
  const std::vector<Event> events = events_of(file.path);  // written at exit
  CHECK(find_event(events, "kernel", "exp") != nullptr);
  // Ranks of a launcher have files of their own.
  const TemporaryFile rank("environment.1.json");
  CHECK(has(under("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 SINTER_TRACE=" + file.path, "[.timeline]"), "ran"));
  CHECK(find_event(events_of(file.path.substr(0, file.path.size() - 5) + ".1.json"), "kernel", "exp") != nullptr);
  CHECK(has(under("SINTER_TRACE=/nowhere/x.json", "[.timeline]"),
            "SINTER_TRACE: the file '/nowhere/x.json' cannot be written"));
  CHECK(has(under("SINTER_NVTX=/nowhere/nvtx.so", "[.timeline]"), "SINTER_NVTX: '/nowhere/nvtx.so' cannot be opened"));
}

TEST_CASE("timeline: SINTER_NVTX tells a library of every range") {
  const TemporaryFile source("ranges.cpp"), library("ranges.so");
  std::ofstream(source.path) << R"(#include <cstdio>
extern "C" int nvtxRangePushA(const char* name) { return std::printf("push %s\n", name); }
extern "C" int nvtxRangePop() { return std::printf("pop\n"); }
)";
  const std::string make = "c++ -shared -fPIC -o " + library.path + " " + source.path + " 2>&1";
  if (std::system(make.c_str()) != 0) SINTER_SKIP("no compiler for the library that stands for NVTX");
  const std::string told = under("SINTER_NVTX=" + library.path, "[.timeline]");
  const auto count = [&](const std::string& what) {
    int found = 0;
    for (std::size_t at = told.find(what); at != std::string::npos; at = told.find(what, at + 1)) ++found;
    return found;
  };
  INFO(told);
  CHECK(has(told, "push fused_exp_mul"));
  CHECK(count("push ") == count("pop\n"));
  CHECK_FALSE(has(under("SINTER_NVTX=0", "[.timeline]"), "push"));  // a near miss
}

TEST_CASE("costs of kernels: bytes once, operations once") {
  const auto same = [](const std::vector<StepCost>& got, std::vector<std::pair<std::int64_t, std::int64_t>> want) {
    std::vector<std::pair<std::int64_t, std::int64_t>> have;
    for (const StepCost& cost : got) have.emplace_back(cost.bytes, cost.flops);
    CHECK(have == want);
  };
  const std::int64_t m = 32, k = 64, n = 48;
  same(costs_of([](Tensor a, Tensor b) { return matmul(a, b); }, ones({m, k}), ones({k, n})),
       {{4 * (m * k + k * n + m * n), 2 * m * k * n}});
  same(costs_of([](Tensor a) { return sum(a, 1); }, ones({m, k})), {{4 * (m * k + m), m * k}});
  same(costs_of([](Tensor a, Tensor b) { return a + b; }, ones({m, k}), ones({k})), {{4 * (2 * m * k + k), m * k}});
  same(costs_of([](Tensor a) { return exp(a); }, ones({m}, {.dtype = DType::f64})), {{8 * 2 * m, m}});
  // views of one operand count as the largest of them
  same(costs_of([](Tensor a) { return a(slice(0, 30)) + a(slice(1, 31)); }, ones({32})), {{4 * (30 + 30), 30}});
  // integers have no floating-point operations
  same(costs_of([](Tensor a) { return a + a; }, ones({m}, {.dtype = DType::i32})), {{4 * 2 * m, 0}});
  // what is taken by indices: each once, and the indices
  same(costs_of([](Tensor a, Tensor i) { return take(a, i, 0); }, ones({100}),
                copy_of(std::vector<std::int64_t>{5, 5, 7})),
       {{4 * 3 + 8 * 3 + 4 * 3, 0}});
  CHECK(costs_of([](Tensor a) { return a + 1; }, ones({0, 4})).empty());
}

TEST_CASE("profile: the planted slow kernel is first, with its line, its bytes and its operations") {
  auto f = jit::compile([](Tensor x, Tensor w) {
    Tensor fast = sum(x, 1);
    Tensor slow = matmul(w, w);  // by far
    return std::tuple(fast, slow);
  });
  const std::string line = "timeline_test.cpp:" + std::to_string(__LINE__ - 3);
  const Tensor x = ones({20, 30}), w = ones({200, 200});
  const jit::Profile profile = jit::profile({.seconds = 0.1}, f, x, w);
  INFO(profile.text());
  REQUIRE(profile.rows.size() == 2);
  const jit::ProfileRow& slow = profile.rows[0];
  CHECK(slow.kind == "contraction");
  CHECK(slow.lines == line);
  CHECK(slow.runs == 1);
  CHECK(slow.flops == 2 * 200 * 200 * 200);
  CHECK(slow.bytes == 4 * 2 * 200 * 200);  // w is read once
  CHECK(slow.nanoseconds > profile.rows[1].nanoseconds);
  CHECK(slow.gigaflops() == Approx(static_cast<double>(slow.flops) / slow.nanoseconds));
  CHECK(slow.share_of_limit > 0);
  CHECK(profile.calls >= 3);
  CHECK(profile.call_nanoseconds > 0);
  REQUIRE(profile.limits.size() == 1);
  CHECK(profile.limits[0].gigaflops_f32 > 0);
  CHECK(profile.limits[0].streams.size() == 5);
  std::ostringstream text;
  text << profile;
  CHECK(has(text.str(), "us a call"));
  CHECK(has(text.str(), " from " + line));
  CHECK(text.str().find("matmul") < text.str().find("sum"));
  // Counters of the processor, or the reason why the system gives none.
  if (profile.counters.empty()) CHECK(slow.instructions_per_cycle >= 0);  // 0: others had the counters meanwhile
  else CHECK(profile.counters.starts_with("no counters: "));
  CHECK_FALSE(is_watched());
}

TEST_CASE("profile: loops show their kernels, functions that are not compiled too, and bad options are refused") {
  auto loop = jit::compile(
      [](Tensor x) { return jit::fori_loop(0, 5, [](Scalar, Tensor y) { return Tensor(tanh(y) * 0.5f); }, x); });
  const jit::ProfileOptions quick{.seconds = 0.01, .limits = false, .counters = false};
  const jit::Profile looped = jit::profile(quick, loop, ones({64}));
  INFO(looped.text());
  std::int64_t inner = 0;
  double sum_of_rows = 0;
  for (const jit::ProfileRow& row : looped.rows) {
    sum_of_rows += row.nanoseconds;
    if (has(row.name, "tanh")) inner = row.runs;
    CHECK(row.share_of_limit == 0);
  }
  CHECK(inner == 5);
  CHECK(looped.kernel_nanoseconds == Approx(sum_of_rows));
  CHECK(looped.limits.empty());
  const jit::Profile lazy = jit::profile(quick, [](const Tensor& x) { return Tensor(exp(x) + 1); }, ones({64}));
  CHECK_FALSE(lazy.rows.empty());
  CHECK(has(message_of([&] { jit::profile({.seconds = 0}, loop, ones({64})); }), "profile: seconds is 0.0"));
  CHECK(has(message_of([&] { jit::profile({.max_calls = 0}, loop, ones({64})); }), "max_calls 0"));
  auto fails = jit::compile([](Tensor a, Tensor i) { return take(a, i, 0); });
  CHECK_THROWS_AS(jit::profile(quick, fails, ones({4}), copy_of(std::vector<std::int64_t>{9})), IndexError);
  CHECK_FALSE(is_watched());
}
