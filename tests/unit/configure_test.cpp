// Scopes, configuration files, the lists of modes and options, back ends as callables, and the forms of the log.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"

#include <sinter/graphs.hpp>
#include <sinter/jit/config/configuration.hpp>
#include <sinter/regions.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

using namespace sinter;

namespace {
/// Collects the lines of the log while it lives.
struct Log {
  std::function<void(std::string_view, std::string_view)> before = Context::get().sink;
  std::string logs = Context::get().logs;
  std::vector<std::string> lines;
  explicit Log(std::string topics = {}) {
    set_logs(std::move(topics));
    Context::get().sink = [this](std::string_view topic, std::string_view line) {
      lines.push_back(std::string(topic) + ": " + std::string(line));
    };
  }
  ~Log() {
    Context::get().sink = before;
    Context::get().logs = logs;
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }
};

/// A file in a folder of its own.
struct File {
  std::filesystem::path folder, path;
  explicit File(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "sinter_config_XXXXXX").string();
    folder = mkdtemp(name.data());
    path = folder / "config.yaml";
    write(text);
  }
  ~File() { std::filesystem::remove_all(folder); }
  void write(const std::string& text) const { std::ofstream(path) << text; }
};

/// Undoes what configure() did.
struct Configured {
  std::string logs = Context::get().logs;
  ~Configured() {
    jit::reset_configuration();
    Context::get().logs = logs;
    set_log_format(LogFormat::text);
    set_log_limit(0);
  }
};

}  // namespace

TEST_CASE("scope: functions have its settings, and their own afterwards") {
  auto f = jit::compile([](Tensor x) { return exp(x) * 2 + 1; });
  const Tensor x = ones({3});
  const std::vector<float> wanted = floats(f(x));
  CHECK(f.stats().kernels == 1);
  CHECK(jit::current_scope().empty());
  {
    auto scope = jit::scope("forward", {.fuse = false});
    CHECK(jit::current_scope() == "forward");
    CHECK(floats(f(x)) == wanted);
    CHECK(f.stats().kernels == 3);
    CHECK(f.stats().compiles == 1);
    f(x);
    CHECK(f.stats().calls == 2);
    {
      auto inner = jit::scope("layer", {.backend = "reference"});
      CHECK(inner.path() == "forward/layer");
      CHECK_FALSE(*inner.settings().fuse);
      CHECK(floats(f(x)) == wanted);
      CHECK(has(f.explain(x).text(), "[reference]"));
      CHECK(f.stats().kernels == 3);
    }
    auto plain = jit::scope("plain", {.compile = false});
    CHECK(jit::current_stance() == jit::Stance::force_eager);
    CHECK(floats(f(x)) == wanted);
    {
      auto again = jit::scope("again", {.compile = true});
      CHECK(jit::current_stance() == jit::Stance::default_);
    }
    CHECK(jit::current_stance() == jit::Stance::force_eager);
  }
  CHECK(jit::current_scope().empty());
  CHECK(jit::current_stance() == jit::Stance::default_);
  CHECK(floats(f(x)) == wanted);
  CHECK(f.stats().kernels == 1);
  CHECK(f.stats().compiles == 1);
  {
    auto scope = jit::scope("forward", {.fuse = false});  // the version that was made for these settings
    CHECK(f.stats().calls == 2);
    f.reset();
  }
}

TEST_CASE("scope: guards around scopes stay, and a scope may name a back end for noop") {
  {
    const jit::StanceGuard eager(jit::Stance::force_eager);
    auto again = jit::scope("again", {.compile = true});
    CHECK(jit::current_stance() == jit::Stance::force_eager);
    auto off = jit::scope("off", {.compile = false});
    auto deeper = jit::scope("deeper");
    auto on = jit::scope("on", {.compile = true});
    CHECK(jit::current_stance() == jit::Stance::force_eager);
  }
  const jit::StanceGuard fail(jit::Stance::fail_on_recompile);
  {
    auto off = jit::scope("off", {.compile = false});
    auto deeper = jit::scope("deeper", {.fuse = false});
    auto on = jit::scope("on", {.compile = true});
    CHECK(jit::current_stance() == jit::Stance::fail_on_recompile);
  }
  auto f = jit::compile([](Tensor x) { return exp(x) + 1; }, {.backend = "noop"});
  CHECK(floats(f(zeros({2}))) == std::vector<float>{2, 2});
  CHECK(f.stats().compiles == 0);
  {
    auto scope = jit::scope("s", {.backend = "reference"});
    CHECK(floats(f(zeros({2}))) == std::vector<float>{2, 2});
    CHECK(f.stats().compiles == 1);
  }
  CHECK(floats(f(zeros({2}))) == std::vector<float>{2, 2});
}

TEST_CASE("scope: results of every kind, places, gradients, structs") {
  struct Two {
    Tensor sum, product;
  };
  auto f = jit::compile([](Tensor a, Tensor b) { return Two{a + b, a * b}; });
  auto g = jit::compile([](Tensor a) { return sum(a * a); });
  const Tensor a = full({4}, 3.f), b = full({4}, 2.f);
  for (int round = 0; round < 2; ++round) {
    auto scope = jit::scope("two", {.backend = "aot_eager", .dynamic = jit::Dynamic::always});
    const Two two = f(a, b);
    CHECK(floats(two.sum) == std::vector<float>(4, 5));
    CHECK(floats(two.product) == std::vector<float>(4, 6));
    std::array<float, 4> sums{}, products{};
    f.into(borrow_mut(sums, {4}), borrow_mut(products, {4}))(a, b);
    CHECK(sums[3] == 5);
    CHECK(products[0] == 6);
    CHECK(floats(jit::grad(g)(a)) == std::vector<float>(4, 6));
    Variable w(full({4}, 3.f));
    w.requires_grad();
    Tensor loss = g(w);
    loss.backward();
    CHECK(floats(w.grad()) == std::vector<float>(4, 6));
  }
  for (std::int64_t n : {0, 1, 5})
    CHECK(floats(f(full({n}, 3.f), full({n}, 2.f)).sum) == std::vector<float>(static_cast<std::size_t>(n), 5));
}

TEST_CASE("scope: belongs to its thread, ends with an exception, is part of a trace") {
  auto f = jit::compile([](Tensor x) { return x + 1; });
  try {
    auto scope = jit::scope("fails", {.compile = false, .threads = 1});
    std::thread([] { CHECK(jit::current_scope().empty()); }).join();
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {}
  CHECK(jit::current_scope().empty());
  CHECK(jit::current_stance() == jit::Stance::default_);
  auto outer = jit::compile([&](Tensor x) {
    auto scope = jit::scope("inside", {.backend = "reference"});
    return f(x) * 2;  // becomes part of the outer graph
  });
  CHECK(floats(outer(ones({2}))) == std::vector<float>(2, 4));
  CHECK(outer.stats().kernels == 1);
  f(ones({2}));
  f.freeze();
  {
    auto scope = jit::scope("frozen", {.backend = "reference"});  // compiles nothing more
    CHECK(floats(f(ones({2}))) == std::vector<float>(2, 2));
    CHECK_FALSE(has(f.explain(ones({2})).text(), "[reference]"));
  }
}

TEST_CASE("scope: threads") {
  const int before = thread_count();
  set_thread_count(4);
  const auto threads_used = [] {
    std::mutex mutex;
    std::set<std::thread::id> used;
    parallel_for(64, 1e6, [&](std::int64_t, std::int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::scoped_lock lock(mutex);
      used.insert(std::this_thread::get_id());
    });
    return used.size();
  };
  {
    auto one = jit::scope("one", {.threads = 1});
    CHECK(threads_used() == 1);
    auto inner = jit::scope("inner", {.fuse = true});
    CHECK(threads_used() == 1);
  }
  CHECK(threads_used() > 1);
  set_thread_count(before);
}

TEST_CASE("scope: boundaries are blocks") {
  const auto work = [](Tensor x) { return tanh(x) + 1; };
  const Tensor x = full({4}, 0.5f);
  auto open = jit::scoped("block", work), shut = jit::scoped("block", work, {.boundary = true});
  auto f = jit::compile([=](Tensor a) { return exp(open(a * 2)) * 3; });
  auto g = jit::compile([=](Tensor a) { return exp(shut(a * 2)) * 3; });
  CHECK(near(doubles(f(x)), doubles(g(x)), 1e-6));
  CHECK(f.stats().kernels == 1);
  CHECK(g.stats().region_calls == 1);
  CHECK(g.stats().kernels == 3);
  CHECK(near(doubles(shut(x)), doubles(work(x)), 1e-6));
}

TEST_CASE("scope: values that mean nothing are errors") {
  CHECK(has(message_of<UserError>([] { auto s = jit::scope("a/b"); }),
            "scope: 'a/b' is no name of a scope [configure_test.cpp:"));
  CHECK(has(message_of<UserError>([] { auto s = jit::scope("a", {.threads = 0}); }), "threads is 0"));
  CHECK(has(message_of<UserError>([] { auto s = jit::scope("a", {.memory_budget = -1}); }), "memory_budget is -1"));
  const std::string text = message_of<UserError>([] { auto s = jit::scope("a", {.backend = "referense"}); });
  CHECK(has(text, "there is no back end 'referense'"));
  CHECK(has(text, "did you mean 'reference'?"));
  CHECK(jit::current_scope().empty());
}

TEST_CASE("configure: files set options, scopes, functions and the log") {
  if (!jit::reads_configuration_files()) {
    CHECK(has(message_of<UserError>([] { jit::configure_from("hot: 3"); }), "apt-get install libyaml-cpp-dev"));
    SINTER_SKIP("built without yaml-cpp");
  }
  const Configured undo;
  const Tensor x = ones({3});
  jit::configure_from(R"(
logs: [guards, "graphs:debug"]
options: {fuse: false}
scopes:
  train/*: {backend: reference}
  eval: {compile: false}
functions:
  "configure_test.cpp:*": {recompile_limit: 3, dynamic: never}
)");
  CHECK(is_logged("guards"));
  CHECK(is_logged("graphs", LogLevel::debug));
  Context::get().logs = undo.logs;
  auto f = jit::compile([](Tensor a) { return exp(a) * 2 + 1; });
  f(x);
  CHECK(f.stats().kernels == 3);
  auto fused = jit::compile([](Tensor a) { return exp(a) * 2 + 1; }, {.backend = "aot_eager"});  // its own word
  fused(x);
  CHECK(has(fused.explain(x).text(), "[reference]"));
  for (std::int64_t n = 4; n < 12; ++n) f(ones({n}));
  CHECK(f.stats().recompiles == 3);
  {
    auto train = jit::scope("train");
    CHECK_FALSE(jit::current_settings().backend);
    auto layer = jit::scope("layer3", {.backend = "x86"});  // the file has the last word
    CHECK(*jit::current_settings().backend == "reference");
  }
  {
    auto scope = jit::scope("eval");
    CHECK(jit::current_stance() == jit::Stance::force_eager);
  }
  jit::reset_configuration();
  auto again = jit::compile([](Tensor a) { return exp(a) * 2 + 1; });
  again(x);
  CHECK(again.stats().kernels == 1);
}

TEST_CASE("configure: a fault is named with line and column, and changes nothing") {
  if (!jit::reads_configuration_files()) SINTER_SKIP("built without yaml-cpp");
  const Configured undo;
  struct Row {
    const char *yaml, *what, *fix;
  };
  const Row rows[] = {
      {"scopes:\n  forward: {backnd: x86}\n", "the text:2:13 'backnd' is nothing that a list of settings may have",
       "did you mean 'backend'?"},
      {"scope:\n  forward: {}\n", "the text:1:1 'scope' is nothing that the file may have", "did you mean 'scopes'?"},
      {"options:\n  mode: reduce-overhed\n", "the text:2:9 'reduce-overhed' is none of default, reduce-overhead",
       "mode: what to optimise for"},
      {"options: {fuse: maybe}\n", "the text:1:17 'maybe' is neither true nor false", "fuse:"},
      {"options: {recompile_limit: -2}\n", "'-2' is no whole number from 0 on", "recompile_limit:"},
      {"options: {backend: inductr}\n", "'inductr' is no back end", "did you mean 'inductor'?"},
      {"options: {threads: 2}\n", "has threads or boundary, which scopes have", "scopes:"},
      {"functions: {a: {threads: 2}}\n", "has threads or boundary, which scopes have", "scopes:"},
      {"regions: {a: {boundary: true}}\n", "has threads or boundary, which scopes have", "scopes:"},
      {"logs: guards, kernel\n", "the text:1:7 'kernel' is no topic of the log", "did you mean 'kernels'?"},
      {"logs: graphs:loud\n", "'loud' is no level of the log", "levels: off, warning, info, debug"},
      {"hot: soon\n", "'soon' is no whole number from 0 on, which hot takes", ""},
      {"hot: 3\nhot: 4\n", "the text:2:1 'hot' stands there twice", "leave one"},
      {"scopes: [a, b]\n", "the text:1:9 is 'scopes', which takes names with values", "name: value"},
      {"scopes: {a: {fuse: [1]}}\n", "'fuse' takes one value", ""},
      {"options: {fuse: true\n", "is no YAML", ""},
  };
  for (const Row& row : rows) {
    const std::string text = message_of<UserError>([&] { jit::configure_from(row.yaml); });
    INFO(row.yaml << text);
    CHECK(has(text, "sinter::UserError: configure: "));
    CHECK(has(text, row.what));
    CHECK(has(text, row.fix));
    CHECK(has(text, "[configure_test.cpp:"));
  }
  CHECK(has(message_of<UserError>([] { jit::configure("/nowhere/config.yaml"); }),
            "the file '/nowhere/config.yaml' cannot be read"));
  auto f = jit::compile([](Tensor a) { return exp(a) * 2 + 1; });
  f(ones({3}));
  CHECK(f.stats().kernels == 1);
  jit::configure_from("");  // nothing is said
}

TEST_CASE("configure: a watched file is read again, and a fault in it keeps the settings") {
  if (!jit::reads_configuration_files()) SINTER_SKIP("built without yaml-cpp");
  const Configured undo;
  const File file("scopes: {s: {fuse: false}}\n");
  jit::configure(file.path.string(), {.watch = jit::Watch::yes});
  const auto fuses = [] {
    auto scope = jit::scope("s");
    return jit::current_settings().fuse.value_or(true);
  };
  CHECK_FALSE(fuses());
  Log log("config");
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  file.write("scopes: {s: {fuse: maybe}}   # a fault\n");
  CHECK_FALSE(fuses());
  CHECK(has(log.text(), "the settings stay as they were"));
  CHECK(has(log.text(), "'maybe' is neither true nor false"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  file.write("logs: all:off\nhot: 77\nscopes: {s: {fuse: true}}\n");
  const std::int64_t hot = Context::get().hot;
  CHECK(fuses());
  CHECK(Context::get().hot == hot);  // other threads may be reading it
  CHECK(Context::get().logs == "config");
  CHECK(has(log.text(), "was read again"));
}

TEST_CASE("settings as a file gives them to this process", "[.config]") {
  try {
    auto f = jit::compile([](Tensor a) { return exp(a) * 2 + 1; });
    f(ones({3}));
    std::printf("kernels=%d\n", static_cast<int>(f.stats().kernels));
  } catch (const UserError& error) { std::printf("%s\n", error.what()); }
}

TEST_CASE("settings as a file gives them to threads that start together", "[.config_threads]") {
  std::vector<std::thread> threads;
  std::atomic<int> ready{0}, with_settings{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      ++ready;
      while (ready < 8) {}
      is_logged("graphs");
      auto scope = jit::scope("s");
      with_settings += jit::current_settings().fuse.has_value();
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("with_settings=%d\n", with_settings.load());
}

TEST_CASE("configure: SINTER_CONFIG is read at first use") {
  if (!jit::reads_configuration_files()) SINTER_SKIP("built without yaml-cpp");
  const File scopes("scopes: {s: {fuse: false}}\n");
  CHECK(has(under("SINTER_CONFIG='" + scopes.path.string() + "'", "[.config_threads]"), "with_settings=8"));
  const File logs("logs: [guards]\nscopes: {s: {fuse: false}}\n");  // set while other threads log
  CHECK(has(under("SINTER_CONFIG='" + logs.path.string() + "'", "[.config_threads]"), "with_settings=8"));
  CHECK(has(under("SINTER_CONFIG='" + logs.path.string() + "'", "[.config]"), "[sinter:guards]"));
  const File file("options: {fuse: false}\n");
  CHECK(has(under("SINTER_CONFIG='" + file.path.string() + "'", "[.config]"), "kernels=3"));
  file.write("options: {fuze: false}\n");
  const std::string text = under("SINTER_CONFIG='" + file.path.string() + "'", "[.config]");
  CHECK(has(text, file.path.string() + ":1:11 'fuze' is nothing that a list of settings may have"));
  CHECK(has(under("SINTER_CONFIG=/nowhere.yaml", "[.config]"), "the file '/nowhere.yaml' cannot be read"));
  CHECK(has(under("SINTER_CONFIG=", "[.config]"), "kernels=1"));
}

TEST_CASE("configure: the schema in docs is the one of the code") {
  std::ifstream file(std::string(SINTER_SOURCE_DIR) + "/docs/config.schema.json");
  std::ostringstream text;
  text << file.rdbuf();
  CHECK(text.str() == jit::configuration_schema());
}

TEST_CASE("patterns") {
  using jit::jit_detail::fits_pattern;
  CHECK(fits_pattern("train.cpp:41", "train.cpp:*"));
  CHECK(fits_pattern("a/b/c", "*/c"));
  CHECK(fits_pattern("a/b/c", "a*c"));
  CHECK(fits_pattern("abc", "a?c"));
  CHECK(fits_pattern("", "*"));
  CHECK(fits_pattern("aXbXc", "*X*X*"));
  CHECK_FALSE(fits_pattern("abc", "a?"));
  CHECK_FALSE(fits_pattern("abc", "b*"));
  CHECK_FALSE(fits_pattern("abc", ""));
  CHECK_FALSE(fits_pattern("ab", "a*c"));
}

TEST_CASE("lists of modes and options") {
  const std::vector<std::string> modes = jit::list_modes();
  CHECK(modes[0] == "default");
  CHECK(modes[1] == "reduce-overhead");
  for (const std::string& each : modes) CHECK(name(jit::mode_named(each)) == each);
  const std::string text = message_of<UserError>([] { jit::mode_named("reduce-overhed"); });
  CHECK(has(text, "there is no mode 'reduce-overhed' [configure_test.cpp:"));
  CHECK(has(text, "did you mean 'reduce-overhead'?"));
  const auto options = jit::list_options(jit::Mode::reduce_overhead);
  const auto value_of = [&](std::string_view wanted) {
    for (const jit::OptionInfo& option : options)
      if (option.name == wanted) return option.default_value;
    return std::string("?");
  };
  CHECK(value_of("mode") == "reduce-overhead");
  CHECK(value_of("recompile_limit") == "8");
  CHECK(value_of("fuse") == "true");
  for (const jit::OptionInfo& option : options) CHECK_FALSE(option.says.empty());
}

TEST_CASE("back ends: callables, and torch.compile's names") {
  int graphs = 0;
  const auto counting = [&](const Graph& graph, std::span<const Tensor>) {
    ++graphs;
    return jit::compile_graph(graph);
  };
  auto f = jit::compile([](Tensor x) { return exp(x) + 1; }, {.backend = counting});
  const Tensor x = zeros({3});
  CHECK(floats(f(x)) == std::vector<float>(3, 2));
  f(x);
  CHECK(graphs == 1);
  Variable w(zeros({3}));
  w.requires_grad();
  Tensor loss = sum(f(w));
  loss.backward();
  CHECK(floats(w.grad()) == std::vector<float>(3, 1));
  CHECK(graphs == 3);  // forward with what is saved, and backward
  for (const char* backend : {"inductor", "cudagraphs", "aot_eager_decomp_partition"})
    CHECK(floats(jit::compile([](Tensor a) { return exp(a) + 1; }, {.backend = backend})(x)) ==
          std::vector<float>(3, 2));
  CHECK(has(message_of<UserError>([&] {
              jit::compile([](Tensor a) { return a; }, {.mode = jit::Mode::reduce_overhead, .backend = counting});
            }),
            "Mode::reduce_overhead contradicts the back end 'Options::backend'"));
  const auto empty = [](const Graph&, std::span<const Tensor>) { return jit::GraphFunction(); };
  CHECK(has(message_of<UserError>([&] { jit::compile([](Tensor a) { return a + 1; }, {.backend = empty})(x); }),
            "back end 'Options::backend' returned an empty function"));
}

TEST_CASE("disable: what it calls may be compiled all the same") {
  auto inner = jit::compile([](Tensor x) { return exp(x) + 1; });
  auto off = jit::disable([&](Tensor x) { return inner(x); });
  auto on = jit::disable([&](Tensor x) { return inner(x); }, {.recursive = false});
  const Tensor x = zeros({3});
  CHECK(floats(off(x)) == std::vector<float>(3, 2));
  CHECK(inner.stats().compiles == 0);
  CHECK(floats(on(x)) == std::vector<float>(3, 2));
  CHECK(inner.stats().compiles == 1);
  auto f = jit::compile([&](Tensor a) { return on(a) * 2; });
  CHECK(floats(f(x)) == std::vector<float>(3, 4));
  CHECK(inner.stats().calls == 2);
}

namespace {
template <class T>
concept Watchable = requires(T&& object) { jit::watch(std::forward<T>(object)); };
}  // namespace
TEST_CASE("watch: a C++ value is a guard") {
  static_assert(Watchable<int&> && Watchable<const int&> && !Watchable<int> && !Watchable<const int>);
  int mode = 2;
  auto f = jit::compile([&](Tensor x) { return jit::watch(mode) == 2 ? Tensor(x * 2) : Tensor(x + 5); });
  const Tensor x = full({2}, 3.f);
  CHECK(floats(f(x)) == std::vector<float>(2, 6));
  mode = 7;
  CHECK(floats(f(x)) == std::vector<float>(2, 8));
  mode = 2;
  CHECK(floats(f(x)) == std::vector<float>(2, 6));
  CHECK(f.stats().compiles == 1);  // one tree with two paths
  CHECK(jit::watch(mode) == 2);
}

TEST_CASE("log: levels") {
  const Log restore;
  set_logs("graphs:debug, recompiles, cuda:off");
  CHECK(is_logged("graphs"));
  CHECK(is_logged("graphs", LogLevel::debug));
  CHECK(is_logged("recompiles"));
  CHECK_FALSE(is_logged("recompiles", LogLevel::debug));
  CHECK(is_logged("recompiles", LogLevel::warning));
  CHECK_FALSE(is_logged("guards"));
  CHECK(is_logged("guards", LogLevel::warning));
  CHECK_FALSE(is_logged("cuda", LogLevel::warning));
  set_logs("all, graphs:off");
  CHECK(is_logged("guards"));
  CHECK_FALSE(is_logged("graphs"));
  CHECK(has(message_of<UserError>([] { set_logs("recompile"); }), "did you mean 'recompiles'?"));
  CHECK(Context::get().logs == "all, graphs:off");
}

TEST_CASE("log: debug says more") {
  Log log("graphs:debug, recompiles:debug");
  auto f = jit::compile([](Tensor x, int n) { return exp(x) * n; });
  f(ones({3}), 1);
  f(ones({3}), 2);
  f(ones({3, 3}), 3);
  CHECK(has(log.text(), "graphs: after canonicalise"));
  CHECK(has(log.text(), "of version 0 (0: the newest):"));
  CHECK(has(log.text(), "of version 1 (0: the newest):"));
}

TEST_CASE("log: limits count what they leave out") {
  Log log("guards");
  set_log_limit(2);
  for (int i = 0; i < 5; ++i) note("guards", "line " + std::to_string(i));
  note("recompiles", "not asked for");
  CHECK(log.lines.size() == 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  note("guards", "later");
  CHECK(log.text() ==
        "guards: line 0\nguards: line 1\nguards: 3 lines of this topic were left out: SINTER_LOGS_LIMIT\nguards: "
        "later\n");
  set_log_limit(0);
}

TEST_CASE("log: records") {
  const std::string record = log_record("graphs", "a \"b\"\n\tc\\");
  CHECK(has(record, "{\"time\":"));
  CHECK(has(record, "\"level\":\"info\",\"topic\":\"graphs\",\"thread\":"));
  CHECK(has(record, "\"line\":\"a \\\"b\\\"\\n\\u0009c\\\\\"}"));
}

TEST_CASE("a function that is logged", "[.logged]") {
  auto f = jit::compile([](Tensor a) { return exp(a) * 2; });
  f(ones({3}));
  warn("recompiles", "a warning");
}

TEST_CASE("log: SINTER_LOGS=help, and JSON") {
  const std::string help = under("SINTER_LOGS=help", "[.logged]");
  for (const LogTopic& topic : list_log_topics()) {
    CHECK(has(help, "  " + std::string(topic.name) + ": "));
    CHECK_FALSE(topic.says.empty());
  }
  const std::string json = under("SINTER_LOGS=guards SINTER_LOGS_FORMAT=json", "[.logged]");
  CHECK(has(json, "\"level\":\"info\",\"topic\":\"guards\""));
  CHECK(has(json, "\"level\":\"warning\",\"topic\":\"recompiles\""));
  CHECK(has(under("SINTER_LOGS_FORMAT=jso", "[.logged]"), "did you mean 'json'?"));
}

TEST_CASE("nearest names") {
  CHECK(nearest_name("backnd", {"backend", "mode"}) == "backend");
  CHECK(nearest_name("thread", {"threads", "mode"}) == "threads");
  CHECK(nearest_name("xyz", {"backend", "mode"}).empty());
  CHECK(nearest_name("", {"backend", "mode"}).empty());
}
