// The instruction log: what is written of eager, lazy and compiled operations, reading it, and running it again.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"

#include <sinter/debug.hpp>
#include <sinter/graphs.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace sinter;

namespace {
/// A file that is gone at the end.
struct LogFile {
  std::string path;
  explicit LogFile(const std::string& name)
      : path((std::filesystem::temp_directory_path() / (std::to_string(::getpid()) + name)).string()) {}
  ~LogFile() { std::filesystem::remove(path); }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  std::vector<jit::Instruction> read() const { return jit::read_instruction_log(path); }
};
/// What is logged while f runs.
template <class F>
std::vector<jit::Instruction> instructions_of(F&& f) {
  const LogFile file("instructions.log");
  jit::instruction_log(file.path);
  try {
    f();
  } catch (...) {
    jit::stop_instruction_log();
    throw;
  }
  jit::stop_instruction_log();
  return file.read();
}
std::set<std::string> kernels_of(const std::vector<jit::Instruction>& list) {
  std::set<std::string> names;
  for (const jit::Instruction& each : list) names.insert(each.kernel);
  return names;
}
std::string failure_of(const std::string& line) {
  return message_of<UserError>([&] { jit::parse_instruction(line, "a.log", 7); });
}
}  // namespace

TEST_CASE("instruction log: a compiled kernel with its members, sizes, lines, scope, and time") {
  auto f = jit::compile([](Tensor x, Tensor y) { return tanh(x) * y + sum(y); });
  const int line = __LINE__ - 1;
  const Tensor x = ones({3, 4}), y = full({3, 4}, 2.f), z = ones({5, 4});
  eval(z);
  f(x, y);
  const std::vector<jit::Instruction> list = instructions_of([&] {
    auto train = jit::scope("train");
    auto step = jit::scope("step");
    f(x, y);
    f(z, z);  // extents that change
  });
  REQUIRE(list.size() >= 2);
  std::set<std::string> ops;
  for (const jit::Instruction& each : list) {
    INFO(each.text);
    CHECK(each.device == "cpu");
    CHECK(each.scope == "train/step");
    CHECK(has(each.lines, "instruction_log_test.cpp:" + std::to_string(line)));
    CHECK(each.nanoseconds > 0);
    CHECK(each.thread > 0);
    CHECK(!each.has_failed);
    const Graph graph = parse_graph(each.text);
    CHECK(graph.symbols().empty());
    CHECK_FALSE(has(each.text, "s0"));
    for (const Node& node : graph.nodes()) ops.insert(std::string(node.op->name));
  }
  CHECK(ops.contains("tanh"));
  CHECK(ops.contains("sum"));
  CHECK(has(list.front().text, "f32[3, 4]"));
  CHECK(has(list.back().text, "f32[5, 4]"));
  CHECK(list.front().graph != list.back().graph);
  for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i].time >= list[i - 1].time);
}

TEST_CASE("instruction log: lazy operations one by one, eager ones at once, views that are read") {
  const Tensor x = copy_of(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const std::vector<jit::Instruction> lazy = instructions_of([&] { eval(sqrt(exp(x.t()) + 1.5)); });
  std::string text;
  for (const jit::Instruction& each : lazy) text += each.text + "\n";
  INFO(text);
  for (const char* op : {"exp", "add", "sqrt"}) CHECK(has(text, op));
  CHECK(has(text, "f32[3, 2]"));
  const std::vector<jit::Instruction> made = instructions_of([] { eval(ones({2, 5})); });
  REQUIRE(made.size() == 1);
  CHECK(made[0].text == "graph() { %0: f32[2, 5] = full {shape=[2, 5], value=1, dtype=f32}; return %0; }");
  CHECK(instructions_of([] {}).empty());
  CHECK(instructions_of([&] { static_cast<void>(x.t()); }).empty());  // a view moves nothing
}

TEST_CASE("instruction log: operations that fail, of several threads, in loops, with functions of the program") {
  auto f = jit::compile([](Tensor x, Tensor i) { return x(i) * 2; });
  const Tensor x = ones({4}), wrong = tensor({7});
  std::vector<jit::Instruction> list =
      instructions_of([&] { CHECK_THROWS_AS(to_vector<float>(f(x, wrong)), IndexError); });
  CHECK(std::any_of(list.begin(), list.end(), [](const jit::Instruction& each) { return each.has_failed; }));
  auto g = jit::compile([](Tensor a) { return exp(a) + 1; });
  g(x);
  list = instructions_of([&] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) g(x);
      });
    for (std::thread& thread : threads) thread.join();
  });
  CHECK(list.size() == 200);
  std::set<std::int64_t> threads;
  for (const jit::Instruction& each : list) threads.insert(each.thread);
  CHECK(threads.size() == 4);
  auto loop = jit::compile([](Tensor a) { return jit::fori_loop(0, 3, [](auto, Tensor v) { return sin(v); }, a); });
  loop(x);
  list = instructions_of([&] { loop(x); });
  int control = 0, sines = 0;
  for (const jit::Instruction& each : list) {
    control += each.kind == "control";
    sines += each.kind != "control" && has(each.text, "= sin(");
    if (each.kind == "control") CHECK(jit::replay(each).skipped == "its steps have lines of their own");
  }
  CHECK(control >= 1);
  CHECK(sines == 3);
  auto own = jit::custom_op({.name = "logged_op",
                             .shape = [](auto in) { return in[0]; },
                             .cpu = [](auto in, auto out) { std::copy(in[0].begin(), in[0].end(), out.data); }});
  list = instructions_of([&] { eval(own(x)); });
  REQUIRE(list.size() == 1);
  CHECK(has(list[0].text, "logged_op"));
  CHECK(jit::replay(list[0]).skipped == "it calls a function of the program");
}

TEST_CASE("instruction log: what was logged runs again, as the same kernel") {
  const std::vector<jit::Instruction> list = instructions_of([] {
    auto f = jit::compile([](Tensor x, Tensor w, Tensor i) {
      const Tensor h = tanh(matmul(x, w) + 1);
      return std::tuple(softmax(h, 1), sum(x.t()(i) * 2, 1), sort(h, 1).values,
                        linalg::cholesky(matmul(w.t(), w) + eye(6)));
    });
    f(rand({5, 6}), rand({6, 6}), tensor({0, 3, 5, 1}));
    eval(rand({3}) + 1);
  });
  int ran = 0;
  for (const jit::Instruction& each : list) {
    const jit::Replayed again = jit::replay(each, {.repeat = 2});
    INFO(each.kernel + ": " + again.skipped + "\n" + each.text);
    if (!again.skipped.empty()) continue;
    ++ran;
    CHECK(again.nanoseconds > 0);
    CHECK(again.kernels >= 1);
  }
  CHECK(ran >= 8);
  CHECK(std::any_of(list.begin(), list.end(),
                    [](const auto& each) { return has(each.text, "cholesky") && jit::replay(each).skipped.empty(); }));
  // Strided operands keep their strides.
  const Tensor x = rand({6, 4});
  auto g = jit::compile([](Tensor a) { return exp(a) * 2; });
  g(x.t());
  const std::vector<jit::Instruction> strided = instructions_of([&] { g(x.t()); });
  REQUIRE(strided.size() == 1);
  CHECK(strided[0].strides == std::vector<std::vector<std::int64_t>>{{1, 4}});
  CHECK(jit::replay(strided[0]).skipped.empty());
  CHECK(jit::replay(strided[0], {.repeat = 1, .backend = "reference"}).kernels == 1);
  CHECK(has(message_of<UserError>([&] { jit::replay(strided[0], {.repeat = 0}); }), "repeat is 0"));
  CHECK(has(message_of<UserError>([&] { jit::replay(strided[0], {.backend = "nothing"}); }), "there is no back end"));
}

TEST_CASE("instruction log: lines as they are written") {
  const jit::Instruction read = jit::parse_instruction(
      R"(time=12 took=345 thread=9 graph=2 step=1 device=cpu backend=x86 kind=pointwise kernel="a \"b\"")"
      R"( lines="m.cpp:3")"
      R"( strides=[[1, 4], []] scope="train/s" failed graph(%0: f32[2]) { %1: f32[2] = exp(%0); return %1; })");
  CHECK(read.time == 12);
  CHECK(read.nanoseconds == 345);
  CHECK(read.graph == 2);
  CHECK(read.kernel == "a \"b\"");
  CHECK(read.strides == std::vector<std::vector<std::int64_t>>{{1, 4}, {}});
  CHECK(read.has_failed);
  CHECK(read.scope == "train/s");
  CHECK(parse_graph(read.text).nodes().size() == 2);
  CHECK(jit::parse_instruction("time=1 kernel=k").text.empty());
  CHECK(jit::replay(jit::parse_instruction("time=1 kernel=k")).skipped == "the log has no graph of it");

  CHECK(
      has(failure_of("hello"), "read_instruction_log: a.log:7: this is no instruction: 'hello' is followed by no '='"));
  CHECK(has(failure_of("time=x kernel=k"), "'x' is no number of time"));
  CHECK(has(failure_of("time=-1 kernel=k"), "'-1' is no number of time"));
  CHECK(has(failure_of("time=1 kernel=\"k"), "the text of kernel has no end"));
  CHECK(has(failure_of("time=1 colour=red kernel=k"), "'colour' is no field of an instruction"));
  CHECK(has(failure_of("kernel=k"), "it has no time"));
  CHECK(has(failure_of("time=1"), "it has no kernel"));
  CHECK(has(failure_of("time=1 kernel=k strides=[[1"), "',' is missing in a list"));
  CHECK(has(failure_of("time=1 kernel=k strides=1"), "'[' is missing in a list"));
}

TEST_CASE("instruction log: bad files, and one log at a time") {
  CHECK(has(message_of<UserError>([] { jit::instruction_log("/nowhere/a.log"); }),
            "instruction_log: the file '/nowhere/a.log' cannot be written"));
  CHECK(has(message_of<UserError>([] { jit::read_instruction_log("/nowhere/a.log"); }), "cannot be read"));
  const LogFile file("bad.log");
  std::ofstream(file.path) << "# a comment\n\ntime=1 kernel=k graph(%0: f32[2]) { %1 = nonsense(%0); return %1; }\n";
  const std::string text = message_of<UserError>([&] { file.read(); });
  CHECK(has(text, file.path + ":3: "));
  CHECK(has(text, "nonsense"));
  jit::instruction_log(file.path);
  CHECK(has(message_of<UserError>([&] { jit::instruction_log(file.path); }), "instructions are already being logged"));
  jit::stop_instruction_log();
  jit::stop_instruction_log();  // nothing happens
  CHECK(file.read().empty());
}

TEST_CASE("instruction log: a last line that was cut is left out, another one is a fault; versions") {
  const LogFile file("cut.log");
  const std::string whole = "time=1 took=2 kernel=k graph(%0: f32[2]) { %1: f32[2] = exp(%0); return %1; }\n";
  std::ofstream(file.path) << whole << whole.substr(0, whole.size() - 12);
  CHECK(file.read().size() == 1);
  std::ofstream(file.path) << whole << whole.substr(0, 9);
  CHECK(file.read().size() == 1);
  std::ofstream(file.path) << whole << whole.substr(0, whole.size() - 1);  // a near miss: only its end is missing
  CHECK(file.read().size() == 2);
  std::ofstream(file.path) << whole.substr(0, whole.size() - 12) << "\n" << whole;
  CHECK(has(message_of<UserError>([&] { file.read(); }), file.path + ":1: "));
  std::ofstream(file.path) << "# instructions of Sinter, version 2\n" << whole;
  CHECK(has(message_of<UserError>([&] { file.read(); }), ":1: this is a log of version 2, and version 1 is read here"));
}

TEST_CASE("instruction log: times, and numbers of graphs, while timelines begin and from log to log") {
  const LogFile trace("times.json"), other("times_2.json");
  auto f = jit::compile([](Tensor x) { return exp(x) + 1; });
  auto g = jit::compile([](Tensor x) { return tanh(x) + 2; });
  const Tensor x = ones({4});
  const std::vector<jit::Instruction> list = instructions_of([&] {
    for (const LogFile* each : {&trace, &other}) {
      f(x);
      jit::start_trace(each->path);
      f(x);
      jit::stop_trace();
    }
    f(x);
  });
  REQUIRE(list.size() >= 5);
  for (std::size_t i = 0; i < list.size(); ++i) {
    CHECK(list[i].nanoseconds < 60'000'000'000);
    CHECK(list[i].time < 600'000'000'000);
    if (i > 0) CHECK(list[i].time > list[i - 1].time);
  }
  for (int log = 0; log < 2; ++log) {
    const std::vector<jit::Instruction> both = instructions_of([&] { g(x), f(x), g(x); });
    REQUIRE(both.size() == 3);
    CHECK(both[0].graph == 0);
    CHECK(both[1].graph == 1);
    CHECK(both[2].graph == 0);
  }
}

TEST_CASE("instruction log: strides that are not of the graph, and inputs that are too large") {
  const auto skipped = [](const std::string& strides, const std::string& type) {
    return jit::replay(jit::parse_instruction("time=1 kernel=k device=cpu" + strides + " graph(%0: " + type +
                                              ") { %1: " + type + " = exp(%0); return %1; }"))
        .skipped;
  };
  CHECK(skipped(" strides=[[1, 2]]", "f32[2, 3]").empty());  // a near miss: these are
  CHECK(skipped(" strides=[[]]", "f32[2, 3]").empty());
  CHECK(has(skipped(" strides=[[1]]", "f32[2, 3]"), "input 0 are no layout"));
  CHECK(has(skipped(" strides=[[1, 2, 3]]", "f32[2, 3]"), "input 0 are no layout"));
  CHECK(has(skipped(" strides=[[1, 2], [1]]", "f32[2, 3]"), "its strides are of 2 inputs, and it has 1"));
  CHECK(has(skipped(" strides=[[9223372036854775807, 1]]", "f32[2, 3]"), "input 0 are no layout"));
  CHECK(has(skipped(" strides=[[4611686018427387904, 1]]", "f32[3, 2]"), "input 0 are no layout"));
  CHECK(has(skipped(" strides=[[4611686018427387904, 1]]", "f32[2, 3]"), "input 0 reaches over"));
  CHECK(has(skipped("", "f32[1000000, 1000000]"), "input 0 reaches over 1000000000000 elements"));
}

TEST_CASE("instruction log: indices are in the range of every operation that reads by them") {
  for (const char* sizes : {"%0: f32[7], %1: f32[9]", "%0: f32[9], %1: f32[7]", "%0: f32[3], %1: f32[7]"}) {
    const std::string text =
        "time=1 kernel=k device=cpu graph(" + std::string(sizes) +
        ", %2: i64[64]) { %3: f32[64] = take(%0, %2) {axes=[0]}; %4: f32[64] = take(%1, %2) {axes=[0]}; "
        "%5: f32[64] = add(%3, %4); return %5; }";
    CHECK(jit::replay(jit::parse_instruction(text)).skipped == "");
  }
}

TEST_CASE("a process whose instructions are logged", "[.instructions]") {
  auto f = jit::compile([](Tensor x) { return exp(x) * 2; });
  f(ones({7}));
}
TEST_CASE("one that begins a second log", "[.second_log]") {
  std::printf("%s\n", message_of<UserError>([] { jit::instruction_log("second.log"); }).c_str());
}
TEST_CASE("one that is killed", "[.killed]") {
  auto f = jit::compile([](Tensor x) { return exp(x) * 2; });
  f(ones({7}));
  std::raise(SIGKILL);
}

TEST_CASE("instruction log: SINTER_INSTRUCTION_LOG, crashes, eager operations") {
  const LogFile file("process.log");
  under("SINTER_INSTRUCTION_LOG=" + file.path, "[.instructions]");
  CHECK(kernels_of(file.read()).contains("fused_exp_mul"));
  under("SINTER_INSTRUCTION_LOG=" + file.path, "[.killed]");
  CHECK(kernels_of(file.read()).contains("fused_exp_mul"));  // though the process was killed
  under("SINTER_EAGER=1 SINTER_DISABLE=1 SINTER_INSTRUCTION_LOG=" + file.path, "[.instructions]");
  const std::vector<jit::Instruction> eager = file.read();
  CHECK(eager.size() >= 2);
  for (const jit::Instruction& each : eager) CHECK(parse_graph(each.text).outputs().size() == 1);
  CHECK(has(under("SINTER_INSTRUCTION_LOG=" + file.path, "[.second_log]"), "instructions are already being logged"));
  CHECK(has(under("SINTER_INSTRUCTION_LOG=/nowhere/a.log", "[.instructions]"), "SINTER_INSTRUCTION_LOG: the file"));
}

TEST_CASE("instruction log: a forked child has a file of its own") {
  const LogFile file("forked.log");
  auto f = jit::compile([](Tensor x) { return x + 1; });
  const Tensor x = ones({3});
  f(x);
  jit::instruction_log(file.path);
  f(x);
  const ::pid_t child = ::fork();
  if (child == 0) {
    f(x);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  jit::stop_instruction_log();
  CHECK(status == 0);
  std::string own = file.path;
  own.insert(own.rfind('.'), "." + std::to_string(child));
  CHECK(file.read().size() == 1);
  CHECK(jit::read_instruction_log(own).size() == 1);
  std::filesystem::remove(own);
}
