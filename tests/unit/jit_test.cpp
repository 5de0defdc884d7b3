// compile(): when it compiles again and when not, what is frozen and what is read again, and that errors leave
// everything usable.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/runtime/kernel_cache.hpp>
#include <sinter/sinter.hpp>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

enum class Colour { red, green };

}  // namespace

TEST_CASE("jit: static first, then dynamic, then never again") {
  auto f = jit::compile([](Tensor x, Tensor y) { return exp(x) + y * 2; });
  for (int n : {4, 4, 4}) CHECK(f(ones({n, 3}), ones({n, 3})).shape() == Shape{n, 3});
  CHECK(f.stats().compiles == 1);
  f(ones({5, 3}), ones({5, 3}));
  CHECK(f.stats().compiles == 2);
  for (int n : {6, 7, 100, 4, 33}) {
    Tensor z = f(full({n, 3}, 0), full({n, 3}, n));
    CHECK(floats(z) == std::vector<float>(static_cast<std::size_t>(n * 3), 1.0f + 2.0f * static_cast<float>(n)));
  }
  CHECK(f.stats().compiles == 2);
  f(ones({5, 4}), ones({5, 4}));  // another axis
  CHECK(f.stats().compiles == 3);
  for (int n : {2, 9}) f(ones({n, n + 1}), ones({n, n + 1}));
  CHECK(f.stats().compiles == 3);
  f(ones({1, 3}), ones({1, 3}));  // 1 broadcasts, so it is a case of its own
  f(ones({0, 3}), ones({0, 3}));
  CHECK(f.stats().compiles <= 5);
  std::int64_t settled = f.stats().compiles;
  f(ones({1, 3}), ones({1, 3}));
  f(ones({0, 3}), ones({0, 3}));
  CHECK(f.stats().compiles == settled);
}

TEST_CASE("jit: Dynamic::never and Dynamic::always") {
  auto never = jit::compile([](Tensor x) { return x + 1; }, {.dynamic = jit::Dynamic::never});
  for (int n : {2, 3, 4, 2, 3}) never(ones({n}));
  CHECK(never.stats().compiles == 3);
  auto always = jit::compile([](Tensor x) { return x + 1; }, {.dynamic = jit::Dynamic::always});
  for (int n : {2, 3, 4, 1000}) CHECK(floats(always(ones({n})))[1] == 2);
  CHECK(always.stats().compiles == 1);
}

TEST_CASE("jit: dynamic shapes through views, products and reductions") {
  auto f = jit::compile([](Tensor x, Tensor w) {
    Tensor h = relu(matmul(x, w));
    Tensor centred = h - mean(h, 1, keepdim);
    return std::tuple{sum(centred * centred), transpose(h, 0, 1), reshape(h, {-1}),
                      concat({x, x}, 0),      x(slice(1), 0),     x(-1)};
  });
  for (int n : {3, 5, 8, 17}) {
    INFO(n << " rows");
    Tensor x = reshape(arange(n * 4), {n, 4}).to(DType::f32) / 7, w = reshape(arange(8), {4, 2}).to(DType::f32) - 3;
    auto [s, t, flat, both, part, last] = f(x, w);
    Tensor h = relu(matmul(x, w)), centred = h - mean(h, 1, keepdim);
    CHECK(item<float>(s) == Approx(item<float>(sum(centred * centred))));
    CHECK(t.shape() == Shape{2, n});
    CHECK(floats(t) == floats(transpose(h, 0, 1)));
    CHECK(floats(flat) == floats(h));
    CHECK(both.shape() == Shape{2 * n, 4});
    CHECK(floats(both) == floats(concat({x, x}, 0)));
    CHECK(floats(part) == floats(x(slice(1), 0)));
    CHECK(floats(last) == floats(x(n - 1)));
  }
  CHECK(f.stats().compiles == 2);
}

TEST_CASE("jit: sizes that must agree are checked in dynamic entries too") {
  auto f = jit::compile([](Tensor x, Tensor y) { return x + y; });
  f(ones({3}), ones({3}));
  f(ones({4}), ones({4}));
  CHECK_THROWS_AS(f(ones({5}), ones({6})), ShapeError);
  CHECK(floats(f(ones({7}), ones({7}))) == std::vector<float>(7, 2));
  CHECK(floats(f(ones({7}), ones({1}))) == std::vector<float>(7, 2));
}

TEST_CASE("jit: questions about sizes become guards") {
  auto f = jit::compile([](Tensor x) {
    if (x.size(0) > 10) return x * 10;
    return x * 2;
  });
  CHECK(floats(f(ones({3})))[0] == 2);
  CHECK(floats(f(ones({4})))[0] == 2);
  CHECK(floats(f(ones({20})))[0] == 10);
  CHECK(floats(f(ones({30})))[0] == 10);
  CHECK(floats(f(ones({10})))[0] == 2);
  CHECK(floats(f(ones({11})))[0] == 10);
  CHECK(f.stats().compiles <= 4);
  auto mean_of = jit::compile([](Tensor x) { return sum(x) / static_cast<int>(x.size(0)); });
  CHECK(item<float>(mean_of(ones({3}))) == 1);
  CHECK(item<float>(mean_of(ones({5}))) == 1);
  CHECK(item<float>(mean_of(ones({9}))) == 1);  // reading the number specialises, and stays right
  auto symbolic = jit::compile([](Tensor x) { return sum(x) / x.size(0); });
  for (int n : {3, 5, 9, 12}) CHECK(item<float>(symbolic(ones({n}))) == 1);
}

TEST_CASE("jit: why it compiled again") {
  LogCapture log("recompiles");
  auto f = jit::compile([](Tensor x, int k) { return x * k; });
  f(ones({2, 3}), 1);
  CHECK(log.take().empty());
  f(ones({2, 4}), 1);
  std::string text = log.take();
  CHECK(has(text, "recompiles: jit_test.cpp:"));
  CHECK(has(text, "guard 'extent' failed: extent of axis 1 of argument 0: expected 3, got 4"));
  f(ones({2, 3}, {.dtype = DType::f64}), 1);
  CHECK(has(log.take(), "guard 'dtype' failed: dtype of argument 0: expected f32, got f64"));
  f(ones({2}, {.dtype = DType::f64}), 1);
  CHECK(has(log.take(), "guard 'rank' failed: rank of argument 0: expected 2, got 1"));
  f(ones({2}, {.dtype = DType::f64}), 7);
  CHECK(has(log.take(), "guard 'value' failed: value of argument 1: expected 1, got 7"));
  Tensor base = reshape(arange(6), {3, 2}).to(DType::f32);
  eval(base);
  Tensor strided = transpose(base, 0, 1);
  auto g = jit::compile([](Tensor x, Scalar s) { return x * s; });
  g(ones({2, 3}), 1.0);
  g(strided, 1.0);
  CHECK(has(log.take(), "guard 'layout' failed"));
  g(strided, 1);
  CHECK(has(log.take(), "guard 'number kind' failed"));
  auto h = jit::compile([](std::vector<Tensor> list) { return list.back(); });
  h(std::vector<Tensor>{ones({2})});
  h(std::vector<Tensor>{ones({2}), ones({2})});
  CHECK(has(log.take(), "guard 'structure' failed"));
}

TEST_CASE("jit: Scalars do not recompile; ints, enums and bools do") {
  auto f = jit::compile([](Tensor x, Scalar s) { return x * s + s * 2; });
  for (double s : {0.5, 1.5, -2.0, 1e10}) CHECK(floats(f(vec({1}), s))[0] == Approx(s * 3));
  for (float s : {0.25f, 4.0f}) CHECK(floats(f(vec({1}), s))[0] == Approx(s * 3));
  CHECK(f.stats().compiles == 1);
  CHECK(floats(f(vec({1}), 2))[0] == 6);  // an integer is another kind of number
  CHECK(floats(f(vec({1}), 3))[0] == 9);
  CHECK(f.stats().compiles == 2);
  CHECK(f(arange(2), 0.5).dtype() == DType::f32);
  CHECK(f(ones({1}, {.dtype = DType::f64}), 0.5f).dtype() == DType::f64);
  auto g = jit::compile([](Tensor x, int n, Colour c, bool twice) {
    Tensor y = x;
    for (int i = 0; i < n; ++i) y += 1;
    if (c == Colour::green) y *= 10;
    return twice ? Tensor(y * 2) : y;
  });
  CHECK(floats(g(vec({1}), 2, Colour::red, false)) == std::vector<float>{3});
  CHECK(floats(g(vec({5}), 2, Colour::red, false)) == std::vector<float>{7});
  CHECK(g.stats().compiles == 1);
  CHECK(floats(g(vec({1}), 3, Colour::red, false)) == std::vector<float>{4});
  CHECK(floats(g(vec({1}), 2, Colour::green, false)) == std::vector<float>{30});
  CHECK(floats(g(vec({1}), 2, Colour::red, true)) == std::vector<float>{6});
  CHECK(g.stats().compiles == 4);
  CHECK(floats(g(vec({2}), 3, Colour::red, false)) == std::vector<float>{5});
  CHECK(g.stats().compiles == 4);
  auto generic = jit::compile([](auto x, auto s) { return x * s; });
  CHECK(floats(generic(vec({2}), 3.0)) == std::vector<float>{6});
  CHECK(floats(generic(vec({2}), 4.0)) == std::vector<float>{8});
  CHECK(generic.stats().compiles == 1);
  auto number_only = jit::compile([](Scalar a, Scalar b) { return exp(a) * b - a / b; });
  CHECK(number_only(1.0, 2.0).number() == Approx(std::exp(1.0) * 2 - 0.5));
  CHECK(number_only(0.0, 4.0).number() == Approx(4));
}

TEST_CASE("jit: captured tensors are frozen, Variables are read again") {
  Tensor bias = vec({10});
  auto f = jit::compile([bias](Tensor x) { return x + bias; });
  CHECK(floats(f(vec({1}))) == std::vector<float>{11});
  bias = vec({100});  // another handle now
  CHECK(floats(f(vec({1}))) == std::vector<float>{11});
  Variable w(vec({2}), "w");
  auto g = jit::compile([w](Tensor x) { return x * w; });
  CHECK(floats(g(vec({3}))) == std::vector<float>{6});
  w.set(vec({5}));
  CHECK(floats(g(vec({3}))) == std::vector<float>{15});
  w.set(w + 1);  // a pending value
  CHECK(floats(g(vec({3}))) == std::vector<float>{18});
  CHECK(g.stats().compiles == 1);
  Tensor pending = vec({1}) * 7;
  auto h = jit::compile([pending](Tensor x) { return x + pending; });
  CHECK(floats(h(vec({1}))) == std::vector<float>{8});
  CHECK(floats(h(vec({2}))) == std::vector<float>{9});
  Tensor table = reshape(arange(6), {2, 3}).to(DType::f32);
  eval(table);
  Tensor column = table(all, 1);
  eval(column);  // strided
  auto k = jit::compile([column](Tensor x) { return x + column; });
  for (int i = 0; i < 3; ++i) CHECK(floats(k(vec({0, 10}))) == std::vector<float>{1, 14});
  Variable turned(table);
  auto read = jit::compile([turned](Tensor x) { return x + turned; });
  CHECK(floats(read(ones({2, 3})))[1] == 2);
  turned.set(transpose(reshape(arange(6), {3, 2}).to(DType::f32), 0, 1));
  CHECK(floats(read(ones({2, 3})))[1] == 3);  // another layout of the same type
  CHECK(read.stats().compiles == 1);
}

TEST_CASE("jit: a captured value that changes is found at the second call") {
  float scale = 2;
  auto f = jit::compile([&scale](Tensor x) { return x * scale; });
  CHECK(floats(f(vec({1}))) == std::vector<float>{2});
  scale = 3;
  std::string text = message_of<TraceError>([&] { f(vec({1})); });
  CHECK(has(text, "captured value changed at mul"));
  CHECK(has(text, "[jit_test.cpp:"));
  CHECK(has(text, "pass the value as an argument"));
  CHECK_THROWS_AS(f(vec({1})), TraceError);  // and it does not fall silent
  scale = 2;
  CHECK(floats(f(vec({1}))) == std::vector<float>{2});
  Tensor rebound = vec({1});
  auto g = jit::compile([&rebound](Tensor x) { return x + rebound; });
  g(vec({1}));
  rebound = vec({2});
  CHECK(has(message_of<TraceError>([&] { g(vec({1})); }), "captured value changed at"));
  int calls = 0;
  auto h = jit::compile([&calls](Tensor x) {
    for (int i = 0; i <= calls; ++i) x = x + 1;
    return x;
  });
  h(vec({1}));
  calls = 1;
  CHECK_THROWS_AS(h(vec({1})), TraceError);
}

TEST_CASE("jit: statistics") {
  auto f = jit::compile([](Tensor x) { return sum(exp(x) * 2); });
  CHECK(f.stats().calls == 0);
  CHECK(f.stats().compiles == 0);
  for (int i = 0; i < 5; ++i) f(ones({10}));
  CHECK(f.stats().calls == 5);
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().recompiles == 0);
  CHECK(f.stats().kernels == 1);
  CHECK(f.stats().compile_ms > 0);
  f(ones({11}));
  CHECK(f.stats().calls == 6);
  CHECK(f.stats().recompiles == 1);
  f.reset();
  f(ones({10}));
  CHECK(f.stats().compiles == 1);
  jit::reset();
  CHECK(f.stats().compiles == 0);
  CHECK(item<float>(f(ones({10}))) == Approx(20 * std::exp(1.0)));
  auto copy = f;
  copy(ones({10}));
  CHECK(f.stats().compiles == 1);  // copies share the compiled code
}

TEST_CASE("jit: explain") {
  auto f = jit::compile([](Tensor x, Tensor w, Scalar s) { return relu(matmul(x, w)) * s; });
  std::string text = f.explain(ones({8, 4}), ones({4, 2}), 0.5).text();
  for (const char* part : {"guards:", "f32[8, 4] dense", "run-time floating number", "traced graph:", "matmul",
                           "optimised graph:", "plan:", "compile time:"}) {
    INFO(part);
    CHECK(has(text, part));
  }
  CHECK(f.stats().calls == 0);
  f(ones({9, 4}), ones({4, 2}), 0.5);
  CHECK(has(f.explain(ones({9, 4}), ones({4, 2}), 0.5).text(), "s0 = 9 in this call"));
}

TEST_CASE("jit: of concurrent first calls one is kept, and none waits for another") {
  std::atomic<int> traces{0}, wrong{0};
  auto f = jit::compile([&traces](Tensor x) {
    ++traces;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return exp(x) * 0 + x * 2;
  });
  Tensor x = ones({1000});
  eval(x);
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        Tensor mine = full({1000}, t + i);
        std::vector<float> got = floats(f(mine));
        for (float v : got) wrong += v != static_cast<float>(2 * (t + i));
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().calls == 320);
  CHECK(traces >= 2);       // the trace, and the check at the second call
  CHECK(traces <= 16 * 5);  // each thread at most its own first one, and the checks at calls 2, 4, 8 and 16
}

TEST_CASE("jit: an exception from the function leaves everything usable") {
  bool throws = true;
  Variable w(vec({1}));
  auto f = jit::compile([&](Tensor x) {
    Tensor y = x * 2 + w;
    w = y;
    if (throws) throw std::runtime_error("from the lambda");
    return y;
  });
  CHECK(message_of<std::runtime_error>([&] { f(vec({1})); }) == "from the lambda");
  CHECK_FALSE(jit::is_compiling());
  CHECK(floats(w) == std::vector<float>{1});
  CHECK(f.stats().compiles == 0);
  CHECK(floats(vec({1}) + 1) == std::vector<float>{2});
  throws = false;
  CHECK(floats(f(vec({1}))) == std::vector<float>{3});
  CHECK(floats(w) == std::vector<float>{3});
  auto shapes = jit::compile([](Tensor a, Tensor b) { return matmul(a, b); });
  CHECK(blame_of<ShapeError>([&] { shapes(ones({2, 3}), ones({2, 3})); }).op == "matmul");
  CHECK(shapes(ones({2, 3}), ones({3, 2})).shape() == Shape{2, 2});
  auto gradient = jit::compile([&](Tensor x) {
    return jit::grad([&](Tensor y) {
      if (throws) throw std::runtime_error("deep inside");
      return sum(y * y);
    })(x);
  });
  throws = true;
  CHECK_THROWS_AS(gradient(vec({1})), std::runtime_error);
  CHECK_FALSE(jit::is_compiling());
  throws = false;
  CHECK(floats(gradient(vec({3}))) == std::vector<float>{6});
}

TEST_CASE("jit: an error while it runs changes nothing") {
  Variable w(vec({1, 2, 3}));
  auto f = jit::compile([](const Variable& v, Tensor at) {
    v += 1;
    return take(v, at);
  });
  CHECK_THROWS_AS(f(w, tensor({5})), IndexError);
  CHECK(floats(w) == std::vector<float>{1, 2, 3});
  CHECK(floats(f(w, tensor({1}))) == std::vector<float>{3});
  CHECK(floats(w) == std::vector<float>{2, 3, 4});
}

TEST_CASE("jit: reading a tensor while tracing names the line") {
  int line = 0;
  auto f = jit::compile([&](Tensor x) {
    line = __LINE__ + 1;
    if (to_vector<float>(sum(x))[0] > 0) return Tensor(x * 2);
    return x;
  });
  std::string text = message_of<TraceError>([&] { f(vec({1})); });
  CHECK(
      has(text, "to_vector: a value is read while its function is traced [jit_test.cpp:" + std::to_string(line) + "]"));
  CHECK(has(text, "where(condition, a, b)"));
  CHECK_FALSE(jit::is_compiling());
  for (auto read : {std::function<void(Tensor)>([](Tensor x) { to_vector<float>(x); }),
                    std::function<void(Tensor)>([](Tensor x) { to_string(x); }),
                    std::function<void(Tensor)>([](Tensor x) { x.data<float>(); }),
                    std::function<void(Tensor)>([](Tensor x) { eval(x); })}) {
    auto g = jit::compile([&](Tensor x) {
      read(x);
      return x;
    });
    CHECK(has(blame_of<TraceError>([&] { g(vec({1})); }).place, "jit_test.cpp:"));
  }
  // What does not depend on the trace may be read.
  Tensor outside = vec({4});
  auto fine = jit::compile([&](Tensor x) { return x * item<float>(outside); });
  CHECK(floats(fine(vec({2}))) == std::vector<float>{8});
}

TEST_CASE("jit: a traced tensor outside its trace") {
  Tensor leaked;
  auto f = jit::compile([&](Tensor x) {
    leaked = x * 2;
    return x + 1;
  });
  CHECK(floats(f(vec({1}))) == std::vector<float>{2});
  std::string text = message_of<TraceError>([&] { eval(leaked + 1); });
  CHECK(has(text, "add: a traced tensor is used outside the trace it belongs to [jit_test.cpp:"));
  CHECK(has(text, "return it from the compiled function"));
  CHECK_THROWS_AS(item<float>(leaked), TraceError);
  CHECK_THROWS_AS(f(leaked), TraceError);
  CHECK(leaked.shape() == Shape{1});  // what is known may be asked
  auto g = jit::compile([&](Tensor x) { return x + leaked; });
  CHECK_THROWS_AS(g(vec({1})), TraceError);
  leaked = Tensor();
  CHECK(floats(f(vec({5}))) == std::vector<float>{6});
}

TEST_CASE("jit: compiled functions inside compiled functions") {
  auto inner = jit::compile([](Tensor x, Scalar s) { return exp(x * s); });
  auto outer = jit::compile([inner](Tensor x, Scalar s) { return inner(x, s) + inner(x, 2.0) + inner(x * 0, s); });
  for (double s : {1.0, 0.5}) CHECK(floats(outer(vec({1}), s))[0] == Approx(std::exp(s) + std::exp(2.0) + 1));
  CHECK(outer.stats().compiles == 1);
  CHECK(outer.stats().kernels == 1);
  CHECK(inner.stats().compiles == 0);  // it became part of the other
  CHECK(floats(inner(vec({1}), 1.0))[0] == Approx(std::exp(1.0)));
  jit::Function<Tensor(Tensor, Scalar)> named = inner;
  auto third = jit::compile([named](Tensor x) { return named(x, 1.0) * 2; });
  CHECK(floats(third(vec({0}))) == std::vector<float>{2});
}

TEST_CASE("jit: SINTER_DISABLE runs the plain function") {
  Context::get().is_disabled = true;
  int runs = 0;
  auto f = jit::compile([&runs](Tensor x, Scalar s) {
    ++runs;
    return x * s + 1;
  });
  Tensor a = f(vec({2}), 3.0), b = f(vec({2}), 4.0);
  float in[1] = {5}, out[1] = {0};
  Tensor c = f(borrow(in, {1}), 2.0);
  f.into(borrow_mut(out, {1}))(vec({1}), 1.0);
  Context::get().is_disabled = false;
  CHECK(floats(a) == std::vector<float>{7});
  CHECK(floats(b) == std::vector<float>{9});
  CHECK(floats(c) == std::vector<float>{11});
  CHECK(out[0] == 2);
  CHECK(runs == 4);
  CHECK(f.stats().compiles == 0);
  CHECK(floats(f(vec({2}), 3.0)) == std::vector<float>{7});
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("jit: options") {
  CHECK(blame_of<UserError>([] { jit::compile([](Tensor x) { return x; }, {.backend = "tpu"}); }) == blame("compile"));
  CHECK(jit::list_backends().size() >= 4);
  Tensor x = reshape(arange(12), {3, 4}).to(DType::f32);
  auto body = [](Tensor t) { return softmax(exp(t / 10) + matmul(t, transpose(t, 0, 1))(all, slice(0, 1)), 1); };
  std::vector<float> want = floats(jit::compile(body)(x));
  for (const std::string& backend : jit::list_backends())
    for (bool fuse : {true, false}) {
      if (jit::jit_detail::registered_backend(backend) != nullptr) continue;  // another test's, whose locals are gone
      INFO(backend << (fuse ? "" : ", not fused"));
      std::vector<float> got = floats(jit::compile(body, {.backend = backend, .fuse = fuse})(x));
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-6));
    }
  auto warm = jit::compile([](Tensor t) { return t + 1; });
  warm.warm_up(x);
  CHECK(warm.stats().compiles == 1);
  CHECK(warm.stats().calls == 0);
  warm(x);
  CHECK(warm.stats().compiles == 1);
}

TEST_CASE("jit: code past the cache's limit is dropped, and made again when it is wanted") {
  const auto before = kernel_cache_stats();
  set_kernel_cache_limit(1);
  for (int round = 0; round < 2; ++round)
    for (float factor : {2.f, 3.f, 5.f}) {
      auto f = jit::compile([factor](Tensor x) { return Tensor(exp(x) * factor + 0.125f); });
      CHECK(floats(f(vec({0, 0}))) == std::vector<float>{factor + 0.125f, factor + 0.125f});
    }
  set_kernel_cache_limit(std::int64_t{256} << 20);
  CHECK(kernel_cache_stats().evictions > before.evictions);
}

TEST_CASE("jit: small kernels count as what they hold, which is more than their code") {
  clear_kernel_cache();
  set_kernel_cache_limit(1 << 20);
  const auto before = kernel_cache_stats();
  for (int i = 0; i < 400; ++i) {
    const float factor = 1 + static_cast<float>(i);  // a number of its own in each kernel
    auto f = jit::compile([factor](Tensor x) { return Tensor(x * factor); });
    CHECK(floats(f(vec({1, 2}))) == std::vector<float>{factor, 2 * factor});
  }
  const auto after = kernel_cache_stats();
  set_kernel_cache_limit(std::int64_t{256} << 20);
  CHECK(after.code_bytes < 1 << 20);
  CHECK(after.evictions - before.evictions > 100);
  CHECK(after.entries < 250);
}
