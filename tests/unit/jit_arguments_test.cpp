// Arguments and results of compiled functions: structs and containers, views and layouts, Variables, results into given
// memory, and a type to name.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

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
  auto optional =
      jit::compile([](Tensor x, const std::optional<Tensor>& bias) { return bias ? Tensor(x + *bias) : x * 1; });
  CHECK(floats(optional(vec({1}), std::optional<Tensor>(vec({2})))) == std::vector<float>{3});
  CHECK(floats(optional(vec({1}), std::optional<Tensor>())) == std::vector<float>{1});
  CHECK(optional.stats().compiles == 2);
}

TEST_CASE("jit: results of all kinds") {
  auto f = jit::compile([](Tensor x, int n) {
    return std::tuple{x + 1,
                      n * 2,
                      Answer{x * 2, n + 1, "two"},
                      std::vector<Tensor>{x, x * 3},
                      std::map<int, Tensor>{{7, x * 7}},
                      std::pair{x - 1, true}};
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
  CHECK(floats(identity(x + 1)) == std::vector<float>{2, 3});  // an expression as an argument
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
  step(other, momentum, vec({0, 0}), 0.5);  // other Variables, same code
  CHECK(step.stats().compiles == 1);
  CHECK(floats(other) == std::vector<float>{5, 5});
  step(w, w, vec({0, 0}), 0.5);  // aliasing ones are a case of their own
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
  CHECK(
      has(message_of<ShapeError>([&] { f.into(borrow_mut(raw, {2}), borrow_mut(one, {}), borrow_mut(third, {3}))(x); }),
          "result 0 has shape (3,), its place (2,)"));
  double wrong[3];
  CHECK(has(
      message_of<DTypeError>([&] { f.into(borrow_mut(wrong, {3}), borrow_mut(one, {}), borrow_mut(third, {3}))(x); }),
      "result 0 has dtype f32, its place f64"));
  CHECK(has(message_of<UserError>([&] { f.into(borrow_mut(raw, {3}), borrow_mut(one, {}), borrow_mut(raw, {3}))(x); }),
            "overlap"));
  CHECK(has(message_of<UserError>(
                [&] { f.into(borrow_mut(raw, {3}), borrow_mut(one, {}), borrow_mut(third, {3}))(borrow(raw, {3})); }),
            "the place of result 0 overlaps an argument"));
  CHECK(raw[0] == -1);
  Tensor shared = zeros({3}), other = shared;
  CHECK(has(message_of<UserError>([&] { f.into(shared, s, same)(x); }), "shares its memory"));
  other = Tensor();
  CHECK_NOTHROW(f.into(shared, s, same)(x));
  Tensor read_later = shared * 1;  // a pending statement reads it
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
