// MatmulPrecision from Options and the default of the process to the Kernels of a plan; what is guarded, what is
// shared.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <sinter/base/context.hpp>
#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/runtime/kernel_cache.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;

namespace {

/// Restores the default of the process.
struct DefaultPrecision {
  explicit DefaultPrecision(MatmulPrecision precision) : before(matmul_precision()) { set_matmul_precision(precision); }
  ~DefaultPrecision() { set_matmul_precision(before); }
  MatmulPrecision before;
};
bool contains(const std::string& text, std::string_view part) { return occurrences(text, part) > 0; }

constexpr std::string_view in_tf32 = "kernel contraction in tf32 ", in_f32 = "kernel contraction axes";

Tensor filled(Shape shape) {
  const std::int64_t n = shape.numel().value();
  return reshape(sin(cast(arange(n), DType::f32) * 0.7f), shape);
}
}  // namespace

TEST_CASE("precision: the option reaches the kernels of a plan") {
  const auto layer = [](Tensor x, Tensor w) { return gelu(matmul(x, w)) + sum(x); };
  const Tensor x = filled({8, 16}), w = filled({16, 12});
  CHECK(contains(jit::compile(layer).explain(x, w).text(),
                 in_f32));  // the reference back end's listing says it once more
  const std::string text = jit::compile(layer, {.matmul_precision = MatmulPrecision::tf32}).explain(x, w).text();
  CHECK(contains(text, in_tf32));
  CHECK_FALSE(contains(text, in_f32));
  CHECK(contains(text, "products of f32 matrices in tf32, by Options::matmul_precision"));
  CHECK_FALSE(contains(text, "kernel row in"));  // only products are concerned
  CHECK(contains(jit::compile(layer, {.matmul_precision = MatmulPrecision::tf32x3}).explain(x, w).text(),
                 "kernel contraction in tf32x3 axes"));
  for (const char* backend : {"x86", "reference", "eager", "aot_eager"}) {
    const auto names = jit::list_backends();
    if (std::find(names.begin(), names.end(), backend) == names.end()) continue;
    if (default_device() != Device::cpu() && std::string_view(backend).find("eager") == std::string_view::npos)
      continue;  // of the host
    INFO(backend);
    CHECK(contains(
        jit::compile(layer, {.backend = backend, .matmul_precision = MatmulPrecision::tf32}).explain(x, w).text(),
        in_tf32));
  }
}

TEST_CASE("precision: other dtypes and functions without products are not concerned") {
  const auto product = [](Tensor x, Tensor w) { return matmul(x, w); };
  const Tensor x = ones({4, 4}, {.dtype = DType::f64});
  const std::string text = jit::compile(product, {.matmul_precision = MatmulPrecision::tf32}).explain(x, x).text();
  CHECK(contains(text, in_f32));
  CHECK_FALSE(contains(text, "tf32"));

  auto pointwise = jit::compile([](Tensor a) { return sum(exp(a), 0); });
  auto in_f64 = jit::compile(product);
  pointwise(x);
  in_f64(x, x);
  DefaultPrecision precision(MatmulPrecision::tf32);
  pointwise(x);
  in_f64(x, x);
  CHECK(pointwise.stats().compiles == 1);
  CHECK(in_f64.stats().compiles == 1);
}

TEST_CASE("precision: the default of the process is guarded, and the log says so") {
  CHECK(matmul_precision() == MatmulPrecision::f32);
  const auto product = [](Tensor x, Tensor w) { return matmul(x, w); };
  auto free = jit::compile(product), own = jit::compile(product, {.matmul_precision = MatmulPrecision::f32});
  const Tensor x = filled({4, 4});
  free(x, x);
  own(x, x);
  {
    DefaultPrecision precision(MatmulPrecision::tf32);
    LogCapture log("recompiles");
    free(x, x);
    own(x, x);
    const std::string text = log.take();
    CHECK(contains(text, "guard 'precision' failed: matmul_precision() of the process: expected f32, got tf32"));
    CHECK(occurrences(text, "\n") == 1);
    CHECK(contains(free.explain(x, x).text(), "products of f32 matrices in tf32, the default of the process"));
    CHECK(contains(free.explain(x, x).text(), in_tf32));
    CHECK(contains(own.explain(x, x).text(), in_f32));
    jit::StanceGuard stance(jit::Stance::fail_on_recompile);
    free(x, x);
    set_matmul_precision(MatmulPrecision::tf32x3);
    CHECK_THROWS_WITH(free(x, x),
                      Catch::Contains("guard 'precision' failed") && Catch::Contains("Options::matmul_precision"));
    own(x, x);
  }
  free(x, x);  // the first version still serves
  CHECK(free.stats().compiles == 2);
  CHECK(own.stats().compiles == 1);
  CHECK(contains(free.explain(x, x).text(), in_f32));
}

TEST_CASE("precision: a jit::Function, Variables and changing sizes keep the option") {
  Variable w(filled({4, 4}));
  auto step = jit::compile(
      [=](Tensor x) {
        w -= matmul(x, w) * 0.1f;
        return matmul(x, w);
      },
      {.matmul_precision = MatmulPrecision::tf32x3});
  jit::Function<Tensor(Tensor)> function = step;
  function(filled({4, 4}));
  const std::string text = step.explain(filled({4, 4})).text();
  CHECK(occurrences(text, "kernel contraction in tf32x3") >= 2);
  CHECK_FALSE(contains(text, in_f32));
  auto free = jit::compile([](Tensor x, Tensor v) { return matmul(x, v); });
  for (std::int64_t rows : {3, 5, 7}) free(filled({rows, 4}), filled({4, 4}));
  DefaultPrecision precision(MatmulPrecision::tf32);
  for (std::int64_t rows : {3, 5, 7}) free(filled({rows, 4}), filled({4, 4}));
  CHECK(free.stats().compiles == 3);  // with rows as a number, as a symbol, and that again in tf32
}

TEST_CASE("precision: gradients, regions and loop bodies are computed as their plan is") {
  const jit::Options options{.matmul_precision = MatmulPrecision::tf32};
  const Tensor x = filled({4, 4}), w = filled({4, 4});
  const auto check = [&](const std::string& text, std::size_t products) {
    CHECK(occurrences(text, in_tf32) >= products);
    CHECK_FALSE(contains(text, in_f32));
  };
  check(jit::compile(jit::grad([](Tensor v, Tensor a) { return sum(square(matmul(a, v))); }), options)
            .explain(w, x)
            .text(),
        2);
  auto block = jit::region([](Tensor a, Tensor b) { return tanh(matmul(a, b)); });
  check(jit::compile([=](Tensor a, Tensor b) { return block(block(a, b), b); }, options).explain(x, w).text(), 1);
  check(jit::compile(
            [](Tensor a, Tensor b) {
              return jit::fori_loop(0, 3, [=](Scalar, Tensor v) { return tanh(matmul(v, b)); }, a);
            },
            options)
            .explain(x, w)
            .text(),
        1);
  check(jit::compile(
            [](Tensor a, Tensor b) { return jit::cond(sum(a) > 0, [=] { return matmul(a, b); }, [=] { return a; }); },
            options)
            .explain(x, w)
            .text(),
        1);

  auto loop = jit::compile(
      [](Tensor a, Tensor b) { return jit::fori_loop(0, 3, [=](Scalar, Tensor v) { return tanh(matmul(v, b)); }, a); });
  loop(x, w);
  DefaultPrecision precision(MatmulPrecision::tf32);  // products in bodies alone count, too
  loop(x, w);
  CHECK(loop.stats().compiles == 2);
}

TEST_CASE("precision: parts of a plan on several devices") {
  if (default_device() == Device::cpu()) SINTER_SKIP("no GPU");
  auto f = jit::compile([](Tensor x) {
    return matmul(matmul(x, x).to(Device::cpu()), ones({4, 4}, {.device = Device::cpu()})).to(default_device()) + x;
  });
  const Tensor x = filled({4, 4});
  f(x);
  f(x);
  DefaultPrecision precision(MatmulPrecision::tf32);
  f(x);
  CHECK(f.stats().compiles == 2);
  CHECK(occurrences(f.explain(x).text(), in_tf32) >= 2);
  CHECK_FALSE(contains(f.explain(x).text(), in_f32));
}

TEST_CASE("precision: functions that read values") {
  const auto reading = [](Tensor a, Tensor b) { return item(sum(matmul(a, b))) > 0 ? matmul(b, a) : a - b; };
  const Tensor x = ones({4, 4});
  auto own = jit::compile(reading, {.matmul_precision = MatmulPrecision::tf32}), free = jit::compile(reading);
  CHECK(contains(own.explain(x, x).text(), "products of f32 matrices in tf32, by Options::matmul_precision"));
  for (int i = 0; i < 3; ++i) {
    own(x, x);
    free(x, x);
    free(-x, x);
  }
  CHECK(free.stats().compiles == 1);
  DefaultPrecision precision(MatmulPrecision::tf32x3);
  free(x, x);
  free(-x, x);
  own(x, x);
  CHECK(free.stats().compiles == 2);
  CHECK(own.stats().compiles == 1);
  CHECK(contains(free.explain(x, x).text(), "in tf32x3, the default of the process"));
}

TEST_CASE("precision: lazy evaluation takes the default, and its plans are not mixed up") {
  jit::clear_lazy_cache();
  const Tensor x = filled({5, 7}), w = filled({7, 3});
  eval({x, w});
  const auto graphs_of = [&](auto&& record) {
    const std::int64_t before = jit::lazy_stats().graphs;
    for (int i = 0; i < 2; ++i) eval(record());
    return jit::lazy_stats().graphs - before;
  };
  const auto product = [&] { return matmul(x, w); };
  const auto pointwise = [&] { return Tensor(exp(x) + 1.f); };
  CHECK(graphs_of(product) == 1);
  CHECK(graphs_of(pointwise) == 1);
  DefaultPrecision precision(MatmulPrecision::tf32);
  clear_kernel_cache();
  CHECK(graphs_of(product) == 1);  // a plan of its own,
  CHECK(kernel_cache_stats().entries == 1);
  CHECK(graphs_of(pointwise) == 0);  // shared: no product in it
  set_matmul_precision(MatmulPrecision::f32);
  CHECK(graphs_of(product) == 0);
}

TEST_CASE("precision: equal kernels are shared, and products of another precision are not") {
  clear_kernel_cache();
  const auto both = [](Tensor a, Tensor b) { return std::tuple(matmul(a, b), softmax(a, 1)); };
  const Tensor x = filled({6, 6});
  eval(x);
  clear_kernel_cache();
  auto full = jit::compile(both), quick = jit::compile(both, {.matmul_precision = MatmulPrecision::tf32});
  full(x, x);
  const std::int64_t kernels = kernel_cache_stats().entries;
  quick(x, x);
  CHECK(kernel_cache_stats().entries == kernels + 1);
  jit::compile(both, {.fullgraph = true, .matmul_precision = MatmulPrecision::tf32})(x, x);
  CHECK(kernel_cache_stats().entries == kernels + 1);
}

TEST_CASE("precision: the CPU computes in full whatever is allowed") {
  if (default_device() != Device::cpu()) SINTER_SKIP("tensors are made on the GPU");
  const auto layer = [](Tensor a, Tensor b) { return tanh(matmul(a, b) + 0.5f); };
  const Tensor a = filled({67, 129}), b = filled({129, 45});
  const std::vector<float> wanted = to_vector<float>(jit::compile(layer)(a, b));
  for (const char* backend : {"", "reference"}) {
    const std::vector<float> full = to_vector<float>(jit::compile(layer, {.backend = backend})(a, b));
    for (MatmulPrecision precision : {MatmulPrecision::tf32x3, MatmulPrecision::tf32})
      CHECK(to_vector<float>(jit::compile(layer, {.backend = backend, .matmul_precision = precision})(a, b)) == full);
  }
  DefaultPrecision precision(MatmulPrecision::tf32);
  CHECK(to_vector<float>(jit::compile(layer)(a, b)) == wanted);
}

TEST_CASE("precision: values and back ends that are none are errors") {
  const auto product = [](Tensor a) { return matmul(a, a); };
  const auto wrong = static_cast<MatmulPrecision>(3);
  CHECK_THROWS_WITH(set_matmul_precision(wrong),
                    Catch::Contains("set_matmul_precision") && Catch::Contains("value 3, which is no MatmulPrecision"));
  CHECK(matmul_precision() == MatmulPrecision::f32);
  CHECK_THROWS_WITH(jit::compile(product, {.matmul_precision = wrong}), Catch::Contains("which is no MatmulPrecision"));
  CHECK_THROWS_WITH(jit::compile(product, {.backend = "noop", .matmul_precision = MatmulPrecision::tf32}),
                    Catch::Contains("matmul_precision contradicts the back end 'noop'"));
}

TEST_CASE("precision: a registered back end is compiled again under another default") {
  static int compiled = 0;
  jit::register_backend("precision_test", [](const Graph& graph, std::span<const Tensor>) {
    ++compiled;
    return jit::compile_graph(graph);
  });
  auto f = jit::compile([](Tensor a) { return matmul(a, a); }, {.backend = "precision_test"});
  const Tensor x = filled({4, 4});
  f(x);
  f(x);
  CHECK(compiled == 1);
  DefaultPrecision precision(MatmulPrecision::tf32);
  f(x);
  f(x);
  CHECK(compiled == 2);
}

TEST_CASE("precision: the default changes while threads call") {
  auto f = jit::compile([](Tensor a) { return matmul(a, a); });
  const Tensor x = filled({4, 4});
  const std::vector<float> wanted = to_vector<float>(f(x));
  DefaultPrecision precision(MatmulPrecision::tf32);
  std::thread setter([] {
    for (int i = 0; i < 300; ++i) set_matmul_precision(static_cast<MatmulPrecision>(i % 3));
  });
  for (int i = 0; i < 300; ++i)
    if (to_vector<float>(f(x)) != wanted) FAIL("another result");
  setter.join();
  CHECK(f.stats().compiles <= 3);
}
