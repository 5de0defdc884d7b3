// compile(): when it compiles again and when not, what arguments and results may be, what is frozen and what is read
// again, results into given memory, and that errors leave everything usable.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }
std::vector<float> floats(const In& x) { return to_vector<float>(x); }

template <class E>
std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing of this type was thrown";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Collects log lines of some topics while it lives.
class LogCapture {
 public:
  explicit LogCapture(const std::string& topics) : logs_(Context::get().logs), sink_(Context::get().sink) {
    Context::get().logs = topics;
    Context::get().sink = [this](std::string_view topic, std::string_view line) { text_ += std::string(topic) + ": " + std::string(line) + "\n"; };
  }
  ~LogCapture() {
    Context::get().logs = logs_;
    Context::get().sink = sink_;
  }
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_, logs_;
  std::function<void(std::string_view, std::string_view)> sink_;
};

enum class Colour { red, green };

struct Layer {
  Tensor weight, bias;
};
struct Model {
  std::vector<Layer> layers;
  Scalar scale;
  int depth = 0;
};
class Hidden {
 public:
  Hidden(Tensor w, Tensor b) : w_(std::move(w)), b_(std::move(b)) {}
  Tensor apply(const Tensor& x) const { return x * w_ + b_; }
  SINTER_FIELDS(w_, b_)

 private:
  Tensor w_, b_;
};
struct Answer {
  Tensor value;
  int count = 0;
  std::string name;
};

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
  f(ones({5, 4}), ones({5, 4}));   // another axis
  CHECK(f.stats().compiles == 3);
  for (int n : {2, 9}) f(ones({n, n + 1}), ones({n, n + 1}));
  CHECK(f.stats().compiles == 3);
  f(ones({1, 3}), ones({1, 3}));   // 1 broadcasts, so it is a case of its own
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
    return std::tuple{sum(centred * centred), transpose(h, 0, 1), reshape(h, {-1}), concat({x, x}, 0), x(slice(1), 0), x(-1)};
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
  CHECK(item<float>(mean_of(ones({9}))) == 1);   // reading the number specialises, and stays right
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
  CHECK(floats(f(vec({1}), 2))[0] == 6);   // an integer is another kind of number
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

TEST_CASE("jit: structs, containers and tuples as arguments") {
  auto f = jit::compile([](const Model& m, Tensor x) {
    for (const Layer& layer : m.layers) x = matmul(x, layer.weight) + layer.bias;
    return x * m.scale + m.depth;
  });
  auto layer = [](float w) { return Layer{full({2, 2}, w), full({2}, 1)}; };
  Model model{{layer(1), layer(2)}, 0.5, 3};
  CHECK(floats(f(model, ones({1, 2}))) == std::vector<float>{0.5f * (3 * 2 * 2 + 1) + 3, 9.5f});
  model.scale = 0.25;
  model.layers[0].bias = full({2}, 2);
  CHECK(floats(f(model, ones({1, 2})))[0] == 0.25f * 17 + 3);
  CHECK(f.stats().compiles == 1);
  model.layers.push_back(layer(1));
  CHECK(floats(f(model, ones({1, 2})))[0] == 0.25f * 35 + 3);
  model.depth = 4;
  CHECK(floats(f(model, ones({1, 2})))[0] == 0.25f * 35 + 4);
  CHECK(f.stats().compiles == 3);

  auto hidden = jit::compile([](const Hidden& h, Tensor x) { return h.apply(x); });
  CHECK(floats(hidden(Hidden(vec({2}), vec({1})), vec({3}))) == std::vector<float>{7});
  CHECK(floats(hidden(Hidden(vec({3}), vec({1})), vec({3}))) == std::vector<float>{10});
  CHECK(hidden.stats().compiles == 1);

  using Tuple = std::tuple<Tensor, int, Scalar>;
  auto tuple = jit::compile([](const Tuple& t) { return std::get<0>(t) * std::get<1>(t) + Tensor(std::get<2>(t)); });
  CHECK(floats(tuple(Tuple{vec({1}), 2, 0.5})) == std::vector<float>{2.5f});
  auto array = jit::compile([](const std::array<Tensor, 2>& a) { return a[0] - a[1]; });
  CHECK(floats(array(std::array{vec({5}), vec({2})})) == std::vector<float>{3});
  auto map = jit::compile([](const std::map<std::string, Tensor>& m) {
    Tensor total;
    for (const auto& [key, value] : m) total = total + value * static_cast<int>(key.size());
    return total;
  });
  CHECK(floats(map(std::map<std::string, Tensor>{{"a", vec({1})}, {"bcd", vec({10})}})) == std::vector<float>{31});
  CHECK(floats(map(std::map<std::string, Tensor>{{"ab", vec({1})}, {"bcd", vec({10})}})) == std::vector<float>{32});
  CHECK(map.stats().compiles == 2);
  auto optional = jit::compile([](Tensor x, const std::optional<Tensor>& bias) { return bias ? Tensor(x + *bias) : x * 1; });
  CHECK(floats(optional(vec({1}), std::optional<Tensor>(vec({2})))) == std::vector<float>{3});
  CHECK(floats(optional(vec({1}), std::optional<Tensor>())) == std::vector<float>{1});
  CHECK(optional.stats().compiles == 2);
}

TEST_CASE("jit: results of all kinds") {
  auto f = jit::compile([](Tensor x, int n) {
    return std::tuple{x + 1, n * 2, Answer{x * 2, n + 1, "two"}, std::vector<Tensor>{x, x * 3}, std::map<int, Tensor>{{7, x * 7}}, std::pair{x - 1, true}};
  });
  for (int round = 0; round < 3; ++round) {
    auto x = vec({static_cast<float>(round)});
    auto [a, n, answer, list, map, pair] = f(x, 5);
    float v = static_cast<float>(round);
    CHECK(floats(a) == std::vector<float>{v + 1});
    CHECK(n == 10);
    CHECK(floats(answer.value) == std::vector<float>{v * 2});
    CHECK(answer.count == 6);
    CHECK(answer.name == "two");
    REQUIRE(list.size() == 2);
    CHECK(floats(list[0]) == std::vector<float>{v});
    CHECK(floats(list[1]) == std::vector<float>{v * 3});
    CHECK(floats(map.at(7)) == std::vector<float>{v * 7});
    CHECK(floats(pair.first) == std::vector<float>{v - 1});
    CHECK(pair.second);
  }
  CHECK(f.stats().compiles == 1);
  auto number = jit::compile([](Tensor x) { return static_cast<int>(x.size(0)) * 2; });
  CHECK(number(ones({3})) == 6);
  CHECK(number(ones({4})) == 8);
  CHECK(number(ones({3})) == 6);
  auto nothing = jit::compile([](Tensor x) { static_cast<void>(x + 1); });
  nothing(ones({3}));
  auto array = jit::compile([](Tensor x) { return std::array<Tensor, 2>{x, x + x}; });
  CHECK(floats(array(vec({2}))[1]) == std::vector<float>{4});
  auto hidden = jit::compile([](Tensor x) { return Hidden(x * 2, x * 3); });
  CHECK(floats(hidden(vec({1})).apply(vec({10}))) == std::vector<float>{23});
  auto expressions = jit::compile([](Tensor x) { return std::pair{x + 1, x * x}; });
  CHECK(floats(expressions(vec({3})).second) == std::vector<float>{9});
  auto same_size = jit::compile([](Tensor x) { return zeros_like(x); });
  for (int n : {2, 3, 4}) CHECK(same_size(ones({n})).shape() == Shape{n});
}

TEST_CASE("jit: arguments returned, views, the same value twice, constants") {
  auto f = jit::compile([](Tensor x, Tensor unused) {
    static_cast<void>(unused);
    Tensor y = x * 2;
    return std::tuple{x, x(0), transpose(x, 0, 1), y, y, y(all, 1), ones({2}), full({}, 3), tensor({1.f, 2.f})};
  });
  for (int round = 0; round < 3; ++round) {
    Tensor x = reshape(arange(6), {2, 3}).to(DType::f32) + round;
    auto [same, row, turned, y, again, column, one, three, constant] = f(x, zeros({1}));
    float r = static_cast<float>(round);
    CHECK(floats(same) == floats(x));
    CHECK(floats(row) == std::vector<float>{r, r + 1, r + 2});
    CHECK(floats(turned) == std::vector<float>{r, r + 3, r + 1, r + 4, r + 2, r + 5});
    CHECK(floats(again) == floats(y));
    CHECK(floats(column) == std::vector<float>{2 * r + 2, 2 * r + 8});
    CHECK(floats(one) == std::vector<float>{1, 1});
    CHECK(item<float>(three) == 3);
    CHECK(floats(constant) == std::vector<float>{1, 2});
    // What comes back belongs to the caller.
    one += 1;
    y.at(0, 0) = 99;
    CHECK(floats(one) == std::vector<float>{2, 2});
  }
  CHECK(f.stats().compiles == 1);
  auto identity = jit::compile([](Tensor x) { return x; });
  Tensor x = vec({1, 2});
  CHECK(floats(identity(x)) == std::vector<float>{1, 2});
  CHECK(floats(identity(x + 1)) == std::vector<float>{2, 3});   // an expression as an argument
  auto none = jit::compile([] { return full({2}, 4) + arange(2); });
  CHECK(floats(none()) == std::vector<float>{4, 5});
  CHECK(floats(none()) == std::vector<float>{4, 5});
  CHECK(floats(none()) == std::vector<float>{4, 5});
  CHECK(none.stats().compiles == 1);
  auto scalar_back = jit::compile([](Scalar s, Tensor t) { return std::pair{s, t * s}; });
  CHECK(scalar_back(2.5, vec({2})).first.number() == 2.5);
  CHECK(scalar_back(3.5, vec({2})).first.number() == 3.5);
}

TEST_CASE("jit: strided, sliced, broadcast and empty arguments") {
  auto f = jit::compile([](Tensor x, Tensor y) { return std::pair{x * 2 + y, sum(x, 0)}; });
  Tensor base = reshape(arange(24), {4, 6}).to(DType::f32);
  eval(base);
  auto check = [&](const Tensor& x, const Tensor& y) {
    eval({x, y});
    auto [a, b] = f(x, y);
    CHECK(floats(a) == floats(x * 2 + y));
    CHECK(floats(b) == floats(sum(x, 0)));
  };
  check(base, base + 1);
  check(transpose(base, 0, 1), ones({6, 4}));
  check(base(all, slice(0, 6, 2)), ones({4, 3}));
  check(base(slice(1, 3), slice(2, 5)), ones({2, 3}));
  check(base(slice(0, 4, 3)), base(slice(0, 2)));
  check(expand(base(0), {3, 6}), ones({3, 6}));
  check(expand(base(all, slice(0, 1)), {4, 5}), ones({1, 5}));
  check(zeros({0, 3}), zeros({0, 3}));
  check(zeros({3, 0}), zeros({3, 0}));
  Tensor nothing = jit::compile([](Tensor x) { return concat({x, x + 1}, 0); })(zeros({0}));
  CHECK(nothing.shape() == Shape{0});
  CHECK(item<float>(jit::compile([](Tensor x) { return sum(x); })(zeros({0, 4}))) == 0);
}

TEST_CASE("jit: captured tensors are frozen, Variables are read again") {
  Tensor bias = vec({10});
  auto f = jit::compile([bias](Tensor x) { return x + bias; });
  CHECK(floats(f(vec({1}))) == std::vector<float>{11});
  bias = vec({100});   // another handle now
  CHECK(floats(f(vec({1}))) == std::vector<float>{11});
  Variable w(vec({2}), "w");
  auto g = jit::compile([w](Tensor x) { return x * w; });
  CHECK(floats(g(vec({3}))) == std::vector<float>{6});
  w.set(vec({5}));
  CHECK(floats(g(vec({3}))) == std::vector<float>{15});
  w.set(w + 1);   // a pending value
  CHECK(floats(g(vec({3}))) == std::vector<float>{18});
  CHECK(g.stats().compiles == 1);
  Tensor pending = vec({1}) * 7;
  auto h = jit::compile([pending](Tensor x) { return x + pending; });
  CHECK(floats(h(vec({1}))) == std::vector<float>{8});
  CHECK(floats(h(vec({2}))) == std::vector<float>{9});
  Tensor table = reshape(arange(6), {2, 3}).to(DType::f32);
  eval(table);
  Tensor column = table(all, 1);
  eval(column);   // strided
  auto k = jit::compile([column](Tensor x) { return x + column; });
  for (int i = 0; i < 3; ++i) CHECK(floats(k(vec({0, 10}))) == std::vector<float>{1, 14});
  Variable turned(table);
  auto read = jit::compile([turned](Tensor x) { return x + turned; });
  CHECK(floats(read(ones({2, 3})))[1] == 2);
  turned.set(transpose(reshape(arange(6), {3, 2}).to(DType::f32), 0, 1));
  CHECK(floats(read(ones({2, 3})))[1] == 3);   // another layout of the same type
  CHECK(read.stats().compiles == 1);
}

TEST_CASE("jit: Variables as arguments, assigned inside") {
  Variable w(vec({1, 2})), v(vec({0, 0}));
  auto step = jit::compile([](const Variable& p, const Variable& momentum, Tensor gradient, Scalar rate) {
    momentum = momentum * 0.5 + gradient;
    p -= rate * momentum;
    return sum(p);
  });
  std::vector<float> pw{1, 2}, pv{0, 0};
  for (int i = 0; i < 5; ++i) {
    Tensor total = step(w, v, vec({1, -1}), 0.5);
    float gradient[] = {1, -1}, sum_now = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      pv[k] = pv[k] * 0.5f + gradient[k];
      pw[k] -= 0.5f * pv[k];
      sum_now += pw[k];
    }
    CHECK(item<float>(total) == Approx(sum_now));
    CHECK(floats(w)[0] == Approx(pw[0]));
    CHECK(floats(w)[1] == Approx(pw[1]));
    CHECK(floats(v)[1] == Approx(pv[1]));
  }
  CHECK(step.stats().compiles == 1);
  Variable other(vec({5, 5})), momentum(vec({0, 0}));
  step(other, momentum, vec({0, 0}), 0.5);   // other Variables, same code
  CHECK(step.stats().compiles == 1);
  CHECK(floats(other) == std::vector<float>{5, 5});
  step(w, w, vec({0, 0}), 0.5);   // aliasing ones are a case of their own
  CHECK(step.stats().compiles == 2);
  Variable counter(full({}, 0));
  auto tick = jit::compile([counter] { counter += 1; });
  for (int i = 0; i < 4; ++i) tick();
  CHECK(item<float>(counter) == 4);
  Variable a(vec({1})), b(vec({2}));
  auto swap = jit::compile([a, b] {
    Tensor old = a;
    a = b.value();
    b = old;
  });
  swap();
  CHECK(floats(a) == std::vector<float>{2});
  CHECK(floats(b) == std::vector<float>{1});
  swap();
  swap();
  CHECK(floats(a) == std::vector<float>{2});
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
  CHECK_THROWS_AS(f(vec({1})), TraceError);   // and it does not fall silent
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
  CHECK(f.stats().compiles == 1);   // copies share the compiled code
}

TEST_CASE("jit: explain") {
  auto f = jit::compile([](Tensor x, Tensor w, Scalar s) { return relu(matmul(x, w)) * s; });
  std::string text = f.explain(ones({8, 4}), ones({4, 2}), 0.5).text();
  for (const char* part : {"guards:", "f32[8, 4] dense", "run-time floating number", "traced graph:", "matmul", "optimised graph:", "plan:", "compile time:"}) {
    INFO(part);
    CHECK(has(text, part));
  }
  CHECK(f.stats().calls == 0);
  f(ones({9, 4}), ones({4, 2}), 0.5);
  CHECK(has(f.explain(ones({9, 4}), ones({4, 2}), 0.5).text(), "s0 = 9 in this call"));
}

TEST_CASE("jit: into given memory") {
  auto f = jit::compile([](Tensor x) { return std::tuple{x * 2, sum(x), x}; });
  Tensor x = vec({1, 2, 3}), y = zeros({3}), s = zeros({}), same = zeros({3});
  void* memory = (eval(y), y.impl()->data());
  for (int i = 0; i < 3; ++i) {
    f.into(y, s, same)(x + i);
    float v = static_cast<float>(i);
    CHECK(floats(y) == std::vector<float>{2 + 2 * v, 4 + 2 * v, 6 + 2 * v});
    CHECK(item<float>(s) == 6 + 3 * v);
    CHECK(floats(same)[0] == 1 + v);
  }
  CHECK(y.impl()->data() == memory);
  float raw[3], one[1], third[3];
  f.into(borrow_mut(raw, {3}), borrow_mut(one, {}), borrow_mut(third, {3}))(x);
  CHECK(raw[2] == 6);
  CHECK(one[0] == 6);
  CHECK(third[1] == 2);
  std::vector<float> strided_memory(6);
  BorrowedMut strided{{DType::f32, Device::cpu(), {3}}, {2}, strided_memory.data()};
  f.into(strided, borrow_mut(one, {}), borrow_mut(third, {3}))(x);
  CHECK(strided_memory == std::vector<float>{2, 0, 4, 0, 6, 0});

  // Errors, before anything is written.
  raw[0] = -1;
  CHECK(has(message_of<UserError>([&] { f.into(borrow_mut(raw, {3}))(x); }), "1 places for 3 results"));
  CHECK(has(message_of<ShapeError>([&] { f.into(borrow_mut(raw, {2}), borrow_mut(one, {}), borrow_mut(third, {3}))(x); }),
            "result 0 has shape (3,), its place (2,)"));
  double wrong[3];
  CHECK(has(message_of<DTypeError>([&] { f.into(borrow_mut(wrong, {3}), borrow_mut(one, {}), borrow_mut(third, {3}))(x); }),
            "result 0 has dtype f32, its place f64"));
  CHECK(has(message_of<UserError>([&] { f.into(borrow_mut(raw, {3}), borrow_mut(one, {}), borrow_mut(raw, {3}))(x); }), "overlap"));
  CHECK(has(message_of<UserError>([&] { f.into(borrow_mut(raw, {3}), borrow_mut(one, {}), borrow_mut(third, {3}))(borrow(raw, {3})); }),
            "the place of result 0 overlaps an argument"));
  CHECK(raw[0] == -1);
  Tensor shared = zeros({3}), other = shared;
  CHECK(has(message_of<UserError>([&] { f.into(shared, s, same)(x); }), "shares its memory"));
  other = Tensor();
  CHECK_NOTHROW(f.into(shared, s, same)(x));
  Tensor read_later = shared * 1;   // a pending statement reads it
  CHECK_THROWS_AS(f.into(shared, s, same)(x), UserError);
  CHECK(floats(read_later) == std::vector<float>{2, 4, 6});
  Tensor base = reshape(arange(6), {2, 3}).to(DType::f32);
  eval(base);
  Tensor view = base(0);
  CHECK_THROWS_AS(f.into(view, s, same)(x), UserError);
  CHECK(floats(base) == std::vector<float>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("jit: Function, a type to name") {
  using Law = jit::Function<Tensor(Tensor, Scalar)>;
  Law empty;
  CHECK_FALSE(static_cast<bool>(empty));
  CHECK(has(message_of<UserError>([&] { empty(vec({1}), 2.0); }), "the function is empty"));
  auto compiled = jit::compile([](Tensor x, Scalar s) { return x * s; });
  Law law = compiled;
  CHECK(floats(law(vec({3}), 2.0)) == std::vector<float>{6});
  CHECK(floats(law(vec({3}) + 1, 2.5f)) == std::vector<float>{10});
  CHECK(compiled.stats().compiles == 1);
  Law copy = law;
  float out[1], in[1] = {7};
  copy.into(borrow_mut(out, {1}))(borrow(in, {1}), 3.0);
  CHECK(out[0] == 21);
  Tensor target = zeros({1});
  copy.into(target)(vec({2}), 3.0);
  CHECK(floats(target) == std::vector<float>{6});
  law = jit::compile([](Tensor x, Scalar s) { return x + s; });
  CHECK(floats(law(vec({3}), 2.0)) == std::vector<float>{5});
  jit::Function<std::pair<Tensor, Tensor>(Tensor)> two = jit::compile([](Tensor x) { return std::pair{x + 1, x + 2}; });
  CHECK(floats(two(vec({1})).second) == std::vector<float>{3});
  jit::Function<Tensor(Tensor, int)> fixed = jit::compile([](Tensor x, int k) { return x * k; });
  CHECK(floats(fixed(vec({2}), 4)) == std::vector<float>{8});
}

TEST_CASE("jit: concurrent first calls compile once") {
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
  CHECK(traces == 2);   // the trace, and the check at the second call
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
  CHECK(has(message_of<ShapeError>([&] { shapes(ones({2, 3}), ones({2, 3})); }), "[jit_test.cpp:"));
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
  CHECK(has(text, "to_vector: a value is read while its function is traced [jit_test.cpp:" + std::to_string(line) + "]"));
  CHECK(has(text, "where(condition, a, b)"));
  CHECK_FALSE(jit::is_compiling());
  for (auto read : {std::function<void(Tensor)>([](Tensor x) { to_vector<float>(x); }), std::function<void(Tensor)>([](Tensor x) { to_string(x); }),
                    std::function<void(Tensor)>([](Tensor x) { x.data<float>(); }), std::function<void(Tensor)>([](Tensor x) { eval(x); })}) {
    auto g = jit::compile([&](Tensor x) {
      read(x);
      return x;
    });
    CHECK(has(message_of<TraceError>([&] { g(vec({1})); }), "[jit_test.cpp:"));
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
  CHECK(leaked.shape() == Shape{1});   // what is known may be asked
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
  CHECK(inner.stats().compiles == 0);   // it became part of the other
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
  CHECK(has(message_of<UserError>([] { jit::compile([](Tensor x) { return x; }, {.backend = "tpu"}); }), "there is no back end 'tpu' [jit_test.cpp:"));
  CHECK(jit::list_backends().size() >= 4);
  Tensor x = reshape(arange(12), {3, 4}).to(DType::f32);
  auto body = [](Tensor t) { return softmax(exp(t / 10) + matmul(t, transpose(t, 0, 1))(all, slice(0, 1)), 1); };
  std::vector<float> want = floats(jit::compile(body)(x));
  for (const std::string& backend : jit::list_backends())
    for (bool fuse : {true, false}) {
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
