// What is seen of work on a device: tracks of its queues in the timeline, and lines of the instruction log.
#include "catch.hpp"
#include "checks.hpp"
#include "fake_device.hpp"

#include <sinter/base/timeline.hpp>
#include <sinter/debug.hpp>
#include <sinter/io/json.hpp>
#include <sinter/runtime/device_track.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

using namespace sinter;
using io::io_detail::Json;
using sinter_test::fake_device;

namespace {
struct File {
  std::string path;
  explicit File(const std::string& name)
      : path((std::filesystem::temp_directory_path() / (std::to_string(::getpid()) + name)).string()) {}
  ~File() { std::filesystem::remove(path); }
};
struct Span {
  std::string category, name, track;
  double begin = 0, duration = 0;
};
/// Spans, with the names of their tracks.
std::vector<Span> spans_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const Json file = io::io_detail::parse_json(text.str());
  const auto field = [](const Json& json, const char* name) {
    const Json* found = json.find(name);
    return found == nullptr ? std::string() : found->text;
  };
  std::map<std::string, std::string> tracks;
  for (const auto& [none, json] : file.parts)
    if (field(json, "name") == "thread_name") tracks[field(json, "tid")] = field(*json.find("args"), "name");
  std::vector<Span> spans;
  for (const auto& [none, json] : file.parts)
    if (field(json, "ph") == "X")
      spans.push_back({field(json, "cat"), field(json, "name"), tracks[field(json, "tid")],
                       std::stod(field(json, "ts")), std::stod(field(json, "dur"))});
  return spans;
}
const Span* find(const std::vector<Span>& spans, const std::string& category, const std::string& track) {
  for (const Span& span : spans)
    if (span.category == category && has(span.track, track)) return &span;
  return nullptr;
}
}  // namespace

TEST_CASE("timeline: kernels of a device have tracks of their queues") {
  fake_device();
  const Device first = Device::cuda(0), second = Device::cuda(1);
  const auto body = [](Tensor x) { return tanh(x) * 2 + 1; };
  auto f = jit::compile(body);
  const Tensor x = ones({50}, {.device = first}), y = ones({60}, {.device = second});
  eval(x);
  eval(y);
  f(x), f(y);
  const File file("queues.json");
  jit::start_trace(file.path);
  const Tensor a = f(x), b = f(y);
  jit::stop_trace();  // waits for what runs
  const std::vector<Span> spans = spans_of(file.path);
  const Span *launch = find(spans, "launch", "thread"), *kernel = find(spans, "kernel", "cuda:0 stream 1");
  REQUIRE(launch != nullptr);
  REQUIRE(kernel != nullptr);
  CHECK(kernel->name == launch->name);
  CHECK(kernel->begin >= launch->begin);
  CHECK(find(spans, "kernel", "cuda:1 stream 1") != nullptr);
  CHECK(find(spans, "launch", "cuda:") == nullptr);
  CHECK(to_vector<float>(a.to(Device::cpu()))[0] == to_vector<float>(body(ones({1}, {.device = Device::cpu()})))[0]);
  // A near miss: the host has no such track, and a second recording names its tracks again.
  const File other("host.json");
  jit::start_trace(other.path);
  f(ones({50}, {.device = Device::cpu()}));
  jit::stop_trace();
  CHECK(find(spans_of(other.path), "kernel", "cuda:") == nullptr);
  jit::start_trace(other.path);
  const Tensor c = f(x);
  jit::stop_trace();
  const std::vector<Span> later = spans_of(other.path);
  REQUIRE(find(later, "kernel", "cuda:0 stream 1") != nullptr);
  REQUIRE(find(later, "launch", "thread") != nullptr);
  CHECK(find(later, "kernel", "cuda:0 stream 1")->begin >= find(later, "launch", "thread")->begin);
}

TEST_CASE("timeline: one clock for all recordings") {
  const File file("clock.json");
  std::int64_t before = timeline_now();
  for (int recording = 0; recording < 2; ++recording) {
    jit::start_trace(file.path);
    const std::int64_t begin = timeline_now();
    CHECK(begin >= before);
    timeline::complete("test", "span", begin, begin + 1000, {});
    jit::stop_trace();
    const std::vector<Span> spans = spans_of(file.path);
    const Span* span = find(spans, "test", "");
    REQUIRE(span != nullptr);
    CHECK(span->begin < 60e6);  // microseconds from the beginning of this recording
    before = timeline_now();
  }
}

TEST_CASE("timeline: a launch that throws hands back its mark of the queue, and has no span") {
  auto& device = fake_device();
  const File file("thrown.json");
  jit::start_trace(file.path);
  const int marks = device.marks;
  try {
    runtime_detail::TrackedLaunch launch(device, Device::cuda(0));
    CHECK(device.marks == marks + 1);
    runtime_detail::TrackedLaunch moved = std::move(launch);
    launch = runtime_detail::TrackedLaunch();
    throw UserError("test", "the launch fails", {});
  } catch (const UserError&) {}
  runtime_detail::TrackedLaunch finished(device, Device::cuda(0));  // a near miss
  finished.finish("finished", {});
  jit::stop_trace();
  CHECK(device.marks == marks);
  const std::vector<Span> spans = spans_of(file.path);
  CHECK(find(spans, "kernel", "without an end") == nullptr);
  REQUIRE(find(spans, "kernel", "cuda:0 stream 1") != nullptr);
  CHECK(find(spans, "kernel", "cuda:0 stream 1")->name == "finished");
}

TEST_CASE("timeline: tracks of queues where a file cannot be written, and where a kernel fails") {
  auto& device = fake_device();
  const Device gpu = Device::cuda(0);
  auto f = jit::compile([](Tensor x, Tensor i) { return take(x, i, 0) * 2; });
  const Tensor x = ones({4}, {.device = gpu}), good = tensor<std::int64_t>({1, 2}).to(gpu),
               bad = tensor<std::int64_t>({1, 9}).to(gpu);
  eval(x);
  f(x, good);
  const int marks = device.marks;
  CHECK_THROWS_AS(jit::start_trace("/nowhere/at/all.json"), UserError);
  f(x, good);
  CHECK(device.marks == marks);  // no queue is marked for a timeline that is not there
  const File file("failing.json");
  jit::start_trace(file.path);
  const auto fails = [&] { to_vector<float>(f(x, bad).to(Device::cpu())); };
  CHECK_THROWS_AS(fails(), IndexError);
  const Tensor y = f(x, good);
  jit::stop_trace();
  CHECK(to_vector<float>(y.to(Device::cpu())) == std::vector<float>{2, 2});
  CHECK(device.marks == marks);
  REQUIRE(find(spans_of(file.path), "kernel", "cuda:0 stream 1") != nullptr);  // that of the call that is right
}

TEST_CASE("timeline: launches that are enqueued as one are one span of the queue") {
  fake_device();
  auto f = jit::compile([](Tensor x) { return sum(exp(x), 0) + amax(x * 2, 0); },
                        {.mode = jit::Mode::reduce_overhead, .fuse = false});
  const Tensor x = ones({8, 4}, {.device = Device::cuda(0)});
  eval(x);
  f(x);
  const File file("group.json");
  jit::start_trace(file.path);
  const Tensor y = f(x);
  jit::stop_trace();
  const std::vector<Span> spans = spans_of(file.path);
  const Span* kernel = find(spans, "kernel", "cuda:0 stream 1");
  REQUIRE(kernel != nullptr);
  CHECK(kernel->name == "launches as one");
}

TEST_CASE("instruction log: a device waits for each kernel, and the line names it") {
  fake_device();
  auto f = jit::compile([](Tensor x) { return tanh(x) * 2; });
  const Tensor x = ones({50}, {.device = Device::cuda(0)});
  eval(x);
  f(x);
  const File file("device.log");
  jit::instruction_log(file.path);
  f(x);
  jit::stop_instruction_log();
  const std::vector<jit::Instruction> read = jit::read_instruction_log(file.path);
  REQUIRE(read.size() == 1);
  CHECK(read[0].device == "cuda:0");
  CHECK(read[0].backend == "fake");
  CHECK(has(read[0].text, "tanh"));
  CHECK(jit::replay(read[0]).skipped.empty());  // on the device
}
