// What finds faults: the first NaN, hot paths, errors that are suppressed, the minifier and the bisection.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/debug.hpp>
#include <sinter/graphs.hpp>
#include <sinter/passes/planted.hpp>

#include <array>
#include <chrono>
#include <complex>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

using namespace sinter;

namespace {
/// The log while it lives.
struct Log {
  std::function<void(std::string_view, std::string_view)> before = Context::get().sink;
  std::string logs = Context::get().logs, text;
  explicit Log(std::string topics = {}) {
    set_logs(std::move(topics));
    Context::get().sink = [this](std::string_view topic, std::string_view line) {
      text.append(topic).append(": ").append(line).append("\n");
    };
  }
  ~Log() {
    Context::get().sink = before;
    Context::get().logs = logs;
  }
};

/// A pass that breaks one rule: the sine of a sum becomes its cosine.
Graph break_sine(const Graph& graph, const PipelineOptions&) {
  GraphBuilder builder(graph);
  for (const Node& node : graph.nodes()) {
    const bool is_broken = node.op == &op_info<ops::Sin> && graph.node(node.inputs[0]).op == &op_info<ops::Add>;
    if (is_broken) builder.add(op_info<ops::Cos>, node.inputs);
    else builder.copy(node, node.inputs);
  }
  return builder.finish(std::vector<Value>(graph.outputs().begin(), graph.outputs().end()));
}
/// A pass that fails for graphs with a hyperbolic tangent.
Graph fail_for_tanh(const Graph& graph, const PipelineOptions&) {
  for (const Node& node : graph.nodes())
    if (node.op == &op_info<ops::Tanh>) throw InternalError("the planted pass takes no tanh");
  return graph;
}
/// One that crashes, and one that hangs.
Graph crash_for_tanh(const Graph& graph, const PipelineOptions&) {
  for (const Node& node : graph.nodes())
    if (node.op == &op_info<ops::Tanh>) std::raise(SIGKILL);
  return graph;
}
Graph hang_for_tanh(const Graph& graph, const PipelineOptions&) {
  for (const Node& node : graph.nodes())
    for (volatile bool goes_on = node.op == &op_info<ops::Tanh>; goes_on;) {}
  return graph;
}
struct Planted {
  PipelinePass pass;
  explicit Planted(Graph (*run)(const Graph&, const PipelineOptions&)) : pass{"planted", run, "a test", true} {
    jit::reset();
    passes_detail::planted_pass = &pass;
  }
  ~Planted() {
    passes_detail::planted_pass = nullptr;
    jit::reset();
  }
};

Tensor long_function(const Tensor& x, const Tensor& w) {
  Tensor y = softmax(matmul(x, w), 1) * 2 + x;
  for (int i = 0; i < 4; ++i) y = gelu(y * 0.5 + 0.25) - x;
  Tensor z = sin(y * 2 + x);  // the sine of a sum
  for (int i = 0; i < 4; ++i) z = sigmoid(z * z + 1) * x;
  return sum(z * w, {1}) + 1;
}
Tensor noise(const Shape& shape) {
  std::vector<float> elements(static_cast<std::size_t>(shape.numel().value()));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i * 29 % 83) / 41 - 1;
  return copy_of(elements, shape);
}
}  // namespace

TEST_CASE("debug_nans: names the operation and the line of the first NaN") {
  const Tensor x = tensor({4.f, 0.f, -1.f});
  {
    auto nans = jit::debug_nans();
    const Location at = Location::current();
    Tensor y = sqrt(x) * 2 + 1;
    const std::string text = message_of<jit::NanError>([&] { to_vector<float>(y); });
    INFO(text);
    CHECK(has(text,
              "sinter::NanError: sqrt: gives the first NaN, in element (2) of f32[3]; of f32[3] with -1.000000 there "
              "[finding_faults_test.cpp:" +
                  std::to_string(at.line + 1) + "]"));
    CHECK(message_of<jit::NanError>([&] { to_vector<float>(y); }) == text);  // again
    auto f = jit::compile([](Tensor a) { return log(a) - log(a); });
    CHECK(has(message_of<jit::NanError>([&] { to_vector<float>(f(x)); }), "NanError: log:"));
    CHECK(has(message_of<jit::NanError>([&] { to_vector<float>(f(zeros({2}))); }), "NanError: sub:"));  // inf - inf
    CHECK(f.stats().compiles == 0);
    CHECK(floats(where(x >= 0, sqrt(x), 0)) == std::vector<float>{2, 0, 0});  // no result shows it
    CHECK(floats(f(ones({0}))).empty());
  }
  CHECK(std::isnan(floats(sqrt(x))[2]));
}

TEST_CASE("debug_nans: infinities on request, data that are given, gradients, integers") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  {
    auto nans = jit::debug_nans();
    CHECK(floats(1 / zeros({1}))[0] == std::numeric_limits<float>::infinity());
    const Tensor given = tensor({1.f, nan});
    CHECK(has(message_of<jit::NanError>([&] { to_vector<float>(given + 1); }),
              "a value that is given has NaN, in element (1) of f32[2]"));
    CHECK(to_vector<std::int64_t>(arange(3) * 2) == std::vector<std::int64_t>{0, 2, 4});
    Variable w(zeros({2}));
    w.requires_grad();
    Tensor loss = sum(sqrt(w * w));  // its slope at 0 is 0 / 0
    loss.backward();
    CHECK(has(message_of<jit::NanError>([&] { to_vector<float>(w.grad()); }), "gives the first NaN"));
  }
  {
    auto infs = jit::debug_nans({.nans = false, .infs = true});
    CHECK(has(message_of<jit::NanError>([] { to_vector<float>(1 / zeros({1, 2})); }),
              "gives the first infinity, in element (0, 0) of f32[1, 2]"));
    CHECK(std::isnan(floats(sqrt(-ones({1})))[0]));
  }
}

TEST_CASE("debug_nans: values behind where() that are kept, the origin of what is read, complex numbers") {
  const Tensor x = tensor({4.f, -1.f});
  auto nans = jit::debug_nans();
  const Tensor kept = sqrt(x);
  CHECK(floats(where(x > 0, kept, 0)) == std::vector<float>{2, 0});
  CHECK(has(message_of<jit::NanError>([&] { to_vector<float>(kept); }), "NanError: sqrt:"));  // now it is read
  const Tensor masked = where(x > 0, sqrt(x), 1);
  CHECK(has(message_of<jit::NanError>([&] { to_vector<float>((masked - masked) / (masked - masked)); }),
            "NanError: div: gives the first NaN, in element (0) of f32[2]"));
  const Tensor z = view_as_complex(ones({3, 2}));
  const Tensor broken = (z - z) / (z - z);
  CHECK(has(message_of<jit::NanError>([&] { eval(broken); }), "div: gives the first NaN, in element (0) of f32[3]"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor given = tensor({std::complex<float>(1, 0), std::complex<float>(2, nan)}), twice = given * 2;
  CHECK(
      has(message_of<jit::NanError>([&] { eval(twice); }), "a value that is given has NaN, in element (1) of c64[2]"));
  CHECK(floats(view_as_real(z + z)) == std::vector<float>(6, 2));
  auto infs = jit::debug_nans({.nans = false, .infs = true});
  const Tensor mask = where(x > 0, 0, -std::numeric_limits<float>::infinity());
  CHECK(floats(softmax(mask + x, 0)) == std::vector<float>{1, 0});  // the infinities of masks are no result
}

TEST_CASE("debug_nans: a whole expression that eval() is given") {
  const Tensor x = tensor({4.f, 1.f});
  for (int i = 0; i < 3; ++i) CHECK(std::isnan(floats(eval(sqrt(-x)))[0]));  // its slot is compiled
  {
    auto nans = jit::debug_nans();
    const int line = __LINE__ + 1;
    const std::string text = message_of<jit::NanError>([&] { eval(sqrt(-x)); });
    CHECK(has(text, "sqrt: gives the first NaN, in element (0) of f32[2]"));
    CHECK(has(text, "finding_faults_test.cpp:" + std::to_string(line)));
    CHECK(floats(eval(sqrt(x))) == std::vector<float>{2, 1});  // a near miss
    CHECK(floats(eval(sqrt(-x * 0))).size() == 2);
  }
  CHECK(std::isnan(floats(eval(sqrt(-x)))[0]));
}

TEST_CASE("debug_nans: looking for nothing is refused, and leaves nothing behind") {
  const Tensor x = tensor({-1.f});
  const int line = __LINE__ + 1;
  const std::string text = message_of<UserError>([] { auto none = jit::debug_nans({.nans = false, .infs = false}); });
  CHECK(has(text, "debug_nans: neither NaN nor infinities are looked for [finding_faults_test.cpp:" +
                      std::to_string(line) + "]"));
  auto f = jit::compile([](Tensor a) { return sqrt(a); });
  CHECK(std::isnan(floats(f(x))[0]));
  CHECK(f.stats().compiles == 1);  // nor do functions run uncompiled from now on
  auto nans = jit::debug_nans();
  CHECK_THROWS_AS((jit::debug_nans({.nans = false, .infs = false})), UserError);
  CHECK_THROWS_AS(to_vector<float>(f(x)), jit::NanError);  // the one that lives still looks
}

TEST_CASE("hot paths: what came again, and what fusing gained") {
  jit::reset();
  Log log("hot_paths");
  const Tensor x = noise({1000}), y = noise({1000});
  const auto step = [&] { return Tensor(tanh(x * y + 1) * sigmoid(x) - y); };
  for (int i = 0; i < 30; ++i) eval(step());
  const auto paths = jit::hot_paths();
  REQUIRE(paths.size() == 1);
  const jit::HotPath& path = paths[0];
  CHECK(has(path.name, "tanh"));
  CHECK(path.hash.size() == 16);
  CHECK(path.executions == 30);
  CHECK(path.threshold == Context::get().hot);
  CHECK(path.is_fused);
  CHECK(path.compile_ms > 0);
  CHECK(path.before_ms > 0);
  CHECK(path.after_ms > 0);
  CHECK(path.speed_up() > 0);
  CHECK(occurrences(log.text, "hot_paths: " + path.name + " (" + path.hash + "): fused after 10 executions in ") == 1);
  CHECK(has(jit::hot_paths_text(), path.hash));

  jit::reset();
  jit::forbid_hot_path(path.hash);
  for (int i = 0; i < 30; ++i) eval(step());
  CHECK_FALSE(jit::hot_paths()[0].is_fused);
  jit::release_hot_path(path.hash);
  eval(step());
  CHECK(jit::hot_paths()[0].is_fused);

  jit::reset();
  jit::force_hot_path(path.name);
  eval(step());
  CHECK(jit::hot_paths()[0].is_fused);
  CHECK(jit::hot_paths()[0].speed_up() == 0);  // never ran op by op
  jit::release_hot_path(path.name);
  jit::reset();
  jit::force_hot_path("no_path_has_this_name");  // a near miss: it waits for one that has
  eval(step());
  CHECK_FALSE(jit::hot_paths()[0].is_fused);
  jit::release_hot_path("no_path_has_this_name");
  jit::reset();
}

TEST_CASE("hot paths: what no path can be called is refused, and nothing is chosen") {
  jit::reset();
  const int line = __LINE__ + 1;
  const std::string empty = message_of<UserError>([] { jit::force_hot_path(""); });
  CHECK(has(empty, "force_hot_path: '' is no hash and no name of a lazy graph [finding_faults_test.cpp:" +
                       std::to_string(line) + "]"));
  CHECK(has(empty, "give a hash or a name that jit::hot_paths() shows"));
  CHECK(has(message_of<UserError>([] { jit::forbid_hot_path("mul add"); }), "forbid_hot_path: 'mul add' is no hash"));
  CHECK(has(message_of<UserError>([] { jit::release_hot_path("mul_add\n"); }), "release_hot_path: 'mul_add\n' is no"));
  eval(Tensor(tanh(noise({100})) * 2));
  const auto paths = jit::hot_paths();
  REQUIRE_FALSE(paths.empty());
  CHECK_FALSE(paths[0].is_fused);
  jit::release_hot_path(paths[0].name);  // one that nobody chose: nothing happens
  CHECK_FALSE(jit::hot_paths()[0].is_fused);
  jit::reset();
  CHECK(jit::hot_paths().empty());
}

TEST_CASE("suppress_errors: a failing compilation runs operation by operation, and says so once") {
  const Planted planted(fail_for_tanh);
  const Tensor x = tensor({0.5f, 2.f});
  auto fails = jit::compile([](Tensor a) { return tanh(a) + 1; });
  CHECK(has(message_of<InternalError>([&] { fails(x); }), "the planted pass takes no tanh"));
  Log log;
  auto f = jit::compile([](Tensor a) { return tanh(a) + 1; }, {.suppress_errors = true});
  for (int i = 0; i < 3; ++i) CHECK(near(doubles(f(x)), {1 + std::tanh(0.5), 1 + std::tanh(2.0)}, 1e-6));
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().calls == 3);
  CHECK(occurrences(log.text, "errors: finding_faults_test.cpp:") == 1);
  CHECK(has(log.text, "compiling failed, so this version runs operation by operation"));
  CHECK(has(log.text, "parse_graph(R\"graph(graph(%0: f32[2]"));
  auto g = jit::compile([](Tensor a, Tensor b) { return matmul(a, b); }, {.suppress_errors = true});
  CHECK(has(message_of<ShapeError>([&] { g(ones({2, 3}), ones({2, 3})); }), "ShapeError"));  // the caller's mistake
}

TEST_CASE("suppress_errors: back ends that are functions, forward and backward") {
  const auto refuses = [](const Graph&, std::span<const Tensor>) -> jit::GraphFunction {
    throw std::runtime_error("not today");
  };
  const auto gives_nothing = [](const Graph&, std::span<const Tensor>) { return jit::GraphFunction(); };
  const Tensor x = tensor({0.5f, 2.f});
  auto fails = jit::compile([](Tensor a) { return tanh(a) + 1; }, {.backend = refuses});
  CHECK_THROWS_WITH(fails(x), "not today");
  Log log;
  auto f = jit::compile([](Tensor a) { return tanh(a) + 1; }, {.backend = refuses, .suppress_errors = true});
  for (int i = 0; i < 3; ++i) CHECK(near(doubles(f(x)), {1 + std::tanh(0.5), 1 + std::tanh(2.0)}, 1e-6));
  CHECK(near(doubles(f(ones({3}))), std::vector<double>(3, 1 + std::tanh(1.0)), 1e-6));
  CHECK(occurrences(log.text,
                    "the back end 'Options::backend' failed, so this version runs operation by operation: not "
                    "today\nthe graph:\ngraph(%0") == 2);  // once for each version
  auto g = jit::compile([](Tensor a) { return tanh(a); }, {.backend = gives_nothing, .suppress_errors = true});
  CHECK(near(doubles(g(x)), {std::tanh(0.5), std::tanh(2.0)}, 1e-6));
  CHECK(has(log.text, "it returned an empty function"));
  {
    auto scope = jit::scope("quiet", {.suppress_errors = true});
    CHECK(near(doubles(fails(x)), {1 + std::tanh(0.5), 1 + std::tanh(2.0)}, 1e-6));
  }
  CHECK_THROWS_WITH(fails(x), "not today");
  // The backward graph is refused alone.
  const auto takes_first = [calls = std::make_shared<int>(0)](const Graph& graph, std::span<const Tensor>) {
    if (++*calls > 1) throw std::runtime_error("no backward");
    return jit::compile_graph(graph);
  };
  Variable w(ones({2}));
  w.requires_grad();
  auto trained =
      jit::compile([w](Tensor a) { return sum(w * w * a); }, {.backend = takes_first, .suppress_errors = true});
  Tensor loss = trained(x);
  loss.backward();
  CHECK(near(doubles(w.grad()), {1, 4}, 1e-6));
  CHECK(has(log.text, "no backward"));
  // What the function that it gave throws later is no failure to compile.
  const auto breaks = [](const Graph&, std::span<const Tensor>) -> jit::GraphFunction {
    return [](std::span<const Tensor>) -> std::vector<Tensor> { throw std::runtime_error("in the call"); };
  };
  auto late = jit::compile([](Tensor a) { return a + 1; }, {.backend = breaks, .suppress_errors = true});
  CHECK_THROWS_WITH(late(x), "in the call");
}

TEST_CASE("minify: a graph that does not compile becomes one operation") {
  const Planted planted(fail_for_tanh);
  const Graph graph = parse_graph(R"(graph(%0: f32[4, 4], %1: f32[4]) {
    %2 = mul(%0, %1); %3 = exp(%2); %4 = tanh(%3); %5 = add(%4, %1); %6 = sum(%5) {axes=[0]}; %7 = sin(%0)
    return %6, %7 })");
  const auto inputs = jit::example_inputs(graph);
  const jit::Minified found = jit::minify(graph, inputs, {.failure = jit::Failure::compile});
  INFO(found.program());
  CHECK(found.fails());
  CHECK(has(found.failure, "takes no tanh"));
  CHECK(found.smallest.operations() == 1);
  CHECK(found.smallest.inputs.size() == 1);
  CHECK(has(found.program(), "tanh(%0)"));
  CHECK(has(found.program(), "int main()"));
  const Graph fine = parse_graph("graph(%0: f32[4]) { %1 = exp(%0); return %1 }");
  const jit::Minified none = jit::minify(fine, jit::example_inputs(fine), {.failure = jit::Failure::compile});
  CHECK_FALSE(none.fails());
  CHECK(has(message_of<UserError>([&] { jit::minify(fine, {}); }), "0 values for the 1 inputs of the graph"));
}

TEST_CASE("minify: complex inputs, results that are small, integers that doubles do not tell apart") {
  const Planted planted(fail_for_tanh);
  const Graph graph = parse_graph("graph(%0: c64[3], %1: f32[4]) { %2 = real(%0); %3 = tanh(%1); return %2, %3 }");
  std::vector<Tensor> inputs = jit::example_inputs(graph);
  CHECK(inputs[0].dtype() == DType::c64);
  CHECK(has(jit::pasteable_program({graph, inputs}, "", ""), "view_as_complex(pattern({3, 2}, DType::f32))"));
  inputs[0] = view_as_complex(tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).reshape({3, 2}));
  CHECK(has(jit::pasteable_program({graph, inputs}, "", ""),
            "view_as_complex(copy_of(std::vector<double>{1, 2, 3, 4, 5, 6}, {3, 2}).to(DType::f32)));"));
  CHECK(jit::minify(graph, inputs, {.failure = jit::Failure::compile}).smallest.operations() == 1);
  using jit::jit_detail::distance;
  CHECK(distance(inputs[0], inputs[0]) == 0);
  CHECK(distance(inputs[0] * 1.5, inputs[0]) == 0.5);
  CHECK(std::abs(distance(tensor({2e-12f}), tensor({1e-12f})) - 1) < 1e-6);
  CHECK(distance(tensor({1e-12f}), zeros({1})) < 1e-11);
  const std::int64_t large = std::int64_t{1} << 60;
  CHECK(distance(tensor({large + 1}), tensor({large})) > 0);
  CHECK(distance(tensor({large}), tensor({large})) == 0);
}

TEST_CASE("minify: crashes and hangs are found in processes of their own") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  SINTER_SKIP("sanitizers do not like fork()");
#endif
  const Graph graph = parse_graph("graph(%0: f32[4]) { %1 = exp(%0); %2 = tanh(%1); %3 = sin(%2); return %3 }");
  const auto inputs = jit::example_inputs(graph);
  for (const Tensor& x : inputs) eval(x);
  {
    const Planted planted(crash_for_tanh);
    const jit::Minified found = jit::minify(graph, inputs, {.failure = jit::Failure::crash});
    CHECK(has(found.failure, "ends by signal 9"));
    CHECK(found.smallest.operations() == 1);
  }
  const Planted planted(hang_for_tanh);
  const jit::Minified found =
      jit::minify(graph, inputs, {.failure = jit::Failure::hang, .timeout_seconds = 0.3, .budget_seconds = 6});
  CHECK(has(found.failure, "does not end within"));
  CHECK(found.smallest.operations() <= 2);
}

TEST_CASE("bisect: a planted miscompile is named and shrunk") {
  const auto start = std::chrono::steady_clock::now();
  const Planted planted(break_sine);
  const Tensor x = noise({6, 6}), w = noise({6, 6});
  const jit::Bisection found = jit::bisect(long_function, x, w);
  INFO(found.text());
  CHECK(found.step == jit::FaultStep::pass);
  CHECK(found.culprit == "planted");
  CHECK(found.difference > 2e-4);
  CHECK(found.smallest.fails());
  CHECK(found.smallest.smallest.operations() < 10);
  CHECK(has(found.text(), "first after the pass 'planted'"));
  CHECK(has(found.text(), "sin("));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("bisect: nothing is wrong; compiled functions; gradients") {
  const Tensor x = noise({6, 6}), w = noise({6, 6});
  auto f = jit::compile(long_function);
  const jit::Bisection found = jit::bisect(f, x, w);
  CHECK(found.step == jit::FaultStep::none);
  CHECK(found.text() == "every step agrees with plain loops\n");
  CHECK(f.stats().compiles == 0);
  CHECK(jit::bisect({.tolerance = 1e-3}, jit::grad([](Tensor a) { return sum(tanh(a) * a); }), x).step ==
        jit::FaultStep::none);
  CHECK(has(message_of<UserError>([&] { jit::bisect({.backend = "nobody"}, f, x, w); }), "no back end 'nobody'"));
  CHECK_THROWS_AS(jit::bisect([](Tensor a) { return item<float>(sum(a)) > 0 ? Tensor(a * 2) : a; }, x), TraceError);
}

namespace {
/// The reference back end, wrong for kernels with a tanh under all schedules but the second.
struct Spoilt final : Backend {
  Backend& plain = *jit::host_backends().back();
  std::string_view name() const override { return "spoilt"; }
  std::string cache_key() const override { return "spoilt"; }
  Limits limits() const override { return plain.limits(); }
  std::vector<Schedule> schedules(const Kernel&) const override {
    return {Schedule{}, Schedule{{.action = ScheduleAction::unroll, .number = 2}}};
  }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule, std::string* why) override {
    Kernel other = kernel;
    if (schedule.empty())
      for (Inst& inst : other.body)
        if (inst.prim == Prim::tanh) inst.prim = Prim::sin;
    return plain.compile(other, Schedule{}, why);
  }
};
}  // namespace

TEST_CASE("bisect: names the kernel, the back end and the schedules of wrong code") {
  static const bool is_registered = (jit::register_kernel_backend(std::make_unique<Spoilt>()), true);
  REQUIRE(is_registered);
  const Tensor x = noise({6, 6}), w = noise({6, 6});
  const Location at = Location::current();
  const auto f = [](Tensor a, Tensor b) { return tanh(matmul(exp(a), b) * 0.1) + sum(a); };
  const jit::Bisection found = jit::bisect({.backend = "spoilt"}, f, x, w);
  INFO(found.text());
  CHECK(found.step == jit::FaultStep::code);
  CHECK(found.backend == "spoilt");
  CHECK(has(found.culprit, "tanh"));
  CHECK(has(found.kernel, "tanh"));
  CHECK(has(found.schedule, "the default is wrong, unroll(2) is right"));
  CHECK(found.smallest.smallest.operations() == 1);
  CHECK(has(found.text(), "from finding_faults_test.cpp:" + std::to_string(at.line + 1)));
}

namespace {
void run_under(Graph (*planted_pass)(const Graph&, const PipelineOptions&)) {
  const Planted planted(planted_pass);
  auto f = jit::compile([](Tensor a) { return sum(exp(tanh(a) * 2) + sin(a + a * a)); });
  try {
    f(noise({8}));
  } catch (const Error& error) { std::printf("%s\n", error.what()); }
}
}  // namespace
TEST_CASE("a function that does not compile", "[.minify_failing]") { run_under(fail_for_tanh); }
TEST_CASE("a function that is wrong", "[.minify_wrong]") { run_under(break_sine); }

TEST_CASE("SINTER_MINIFY writes a program that shows the failure") {
  std::string name = (std::filesystem::temp_directory_path() / "sinter_minify_XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(name.data());
  const auto run = [&](const std::string& settings, const std::string& test) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::FILE* pipe =
        popen(("env SINTER_MINIFY_DIR='" + folder.string() + "' " + settings + " '" + program + "' '" + test + "' 2>&1")
                  .c_str(),
              "r");
    std::string text;
    std::array<char, 256> line{};
    while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) text += line.data();
    pclose(pipe);
    return text;
  };
  const std::string failing = run("SINTER_MINIFY=compile", "[.minify_failing]");
  CHECK(has(failing, "[sinter:errors] finding_faults_test.cpp:"));
  CHECK(has(failing, "shrunk to 1 operations in "));
  std::string written;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    if (entry.path().extension() == ".cpp") written = text.str();
    CHECK(entry.path().extension() == ".cpp");  // the note of what is being compiled is gone
  }
  CHECK(has(written, "tanh(%0)"));
  const std::string wrong = run("SINTER_MINIFY=accuracy", "[.minify_wrong]");
  CHECK(has(wrong, "the result differs from that of plain loops: output 0 differs by"));
  CHECK(has(wrong, "sin("));
  CHECK(has(run("SINTER_MINIFY=acuracy", "[.minify_failing]"), "'acuracy' is nothing to look for"));
  std::filesystem::remove_all(folder);
}
