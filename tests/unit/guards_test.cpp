// Guards: what each kind says when it breaks, marks, layouts, relations between sizes, and how often it compiles.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <map>
#include <optional>
#include <random>
#include <string>

using namespace sinter;

namespace {

bool contains(const std::string& text, const std::string& part) {
  INFO("text: " << text);
  INFO("part: " << part);
  bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}
/// Why the call would compile again.
template <class Call>
std::string why(const Call& call) {
  jit::StanceGuard guard(jit::Stance::fail_on_recompile);
  return message_of<RecompileError>([&] { call(); });
}
Tensor ready(const In& x) {
  Tensor value(x.tensor());
  eval(value);
  return value;
}
Tensor grid(int rows, int columns) { return ready(reshape(arange(rows * columns), {rows, columns}).to(DType::f32)); }

struct Layer {
  Tensor weight, bias;
};
class Net {
 public:
  Net(Tensor w, int depth, std::vector<Layer> layers) : w_(std::move(w)), depth_(depth), layers_(std::move(layers)) {}
  Tensor apply(const Tensor& x) const { return x * w_ + depth_ + layers_.back().bias; }
  SINTER_FIELDS(w_, depth_, layers_)

 private:
  Tensor w_;
  int depth_;
  std::vector<Layer> layers_;
};

}  // namespace

TEST_CASE("guards: each kind says which argument, what it expected and what it got") {
  auto f = jit::compile([](Tensor x, int k, Scalar s) { return x * k * s; });
  Tensor x = grid(2, 3);
  f(x, 4, 0.5);
  contains(why([&] { f(x.to(DType::f64), 4, 0.5); }),
           "guard 'dtype' failed: dtype of argument 0: expected f32, got f64");
  contains(why([&] { f(x(0), 4, 0.5); }), "guard 'rank' failed: rank of argument 0: expected 2, got 1");
  contains(why([&] { f(grid(2, 5), 4, 0.5); }),
           "guard 'extent' failed: extent of axis 1 of argument 0: expected 3, got 5");
  contains(why([&] { f(transpose(grid(3, 2), 0, 1), 4, 0.5); }),
           "guard 'layout' failed: layout of argument 0: expected dense (row-major), got strides (1, 2)");
  contains(why([&] { f(x, 5, 0.5); }), "guard 'value' failed: value of argument 1: expected 4, got 5");
  contains(why([&] { f(x, 4, 2); }),
           "guard 'number kind' failed: argument 2: expected a floating number, got an integer");

  auto g = jit::compile([](const Variable& a, const Variable& b) { return a + b; });
  Variable v(ones({2})), w(ones({2}));
  g(v, w);
  contains(why([&] { g(v, v); }), "guard 'alias' failed: argument 1 is the same Variable as an earlier one now");
  auto twice = jit::compile([](const Variable& a, const Variable& b) { return a + b; });
  twice(v, v);
  contains(why([&] { twice(v, w); }), "argument 1 is no longer the same Variable as argument 0");
}

TEST_CASE("guards: fields and items have names") {
  auto f = jit::compile([](Tensor x, const Net& net) { return net.apply(x); });
  auto layer = [](int n) { return Layer{ones({n}), ones({n})}; };
  f(ones({3}), Net(ones({3}), 2, {layer(3), layer(3)}));
  contains(why([&] { f(ones({3}), Net(ones({3}), 5, {layer(3), layer(3)})); }),
           "value of argument 1.depth_: expected 2, got 5");
  contains(why([&] { f(ones({3}), Net(ones({1}), 2, {layer(3), layer(3)})); }),
           "extent of axis 0 of argument 1.w_: expected 3, got 1");
  contains(why([&] { f(ones({3}), Net(ones({3}), 2, {layer(3), layer(1)})); }),
           "extent of axis 0 of argument 1.layers_[1].field0: expected 3, got 1");
  contains(why([&] { f(ones({3}), Net(ones({3}), 2, {layer(3)})); }),
           "guard 'structure' failed: size of argument 1.layers_: expected 2, got 1");
  using Map = std::map<std::string, Tensor>;
  auto m = jit::compile([](const Map& map) { return map.begin()->second * 2; });
  m(Map{{"a", ones({2})}, {"bc", ones({2})}});
  contains(why([&] { m(Map{{"a", ones({2})}, {"bc", ones({3})}}); }),
           "extent of axis 0 of argument 0[\"bc\"]: expected 2, got 3");
  contains(why([&] { m(Map{{"a", ones({2})}, {"bd", ones({2})}}); }),
           "value of argument 0 key [\"bc\"]: expected 99, got 100");
  contains(why([&] { m(Map{{"a", ones({2})}}); }), "guard 'structure' failed: size of argument 0: expected 2, got 1");
  auto o = jit::compile([](Tensor x, const std::optional<Tensor>& b) { return b ? Tensor(x + *b) : x; });
  o(ones({2}), std::optional<Tensor>());
  contains(why([&] { o(ones({2}), std::optional<Tensor>(ones({2}))); }),
           "guard 'structure' failed: presence of argument 1: expected 0, got 1");
  contains(f.explain(ones({3}), Net(ones({3}), 2, {layer(3), layer(3)})).text(),
           "  argument 1.layers_[0].field1: f32[3] dense");
}

TEST_CASE("guards: questions about sizes are told with who asked") {
  auto f = jit::compile(
      [](Tensor x, Tensor y) {
        Tensor z = x + y;
        return x.size(0) > 10 ? z * 2 : z;
      },
      {.dynamic = jit::Dynamic::always});
  const int line = __LINE__ - 4;
  f(ones({4}), ones({4}));
  std::string text = why([&] { f(ones({20}), ones({20})); });
  contains(text, "guard 'relation' failed");
  contains(text, "which the function asked");
  contains(text, "s0 = 20: extent of axis 0 of argument 0");
  contains(f.explain(ones({4}), ones({4})).text(), "as add needs it [guards_test.cpp:" + std::to_string(line) + "]");
}

TEST_CASE("marks: a dynamic axis is a symbol from the start, within its range") {
  auto f = jit::compile([](Tensor x) { return x * 2; });
  Tensor x = grid(4, 3);
  Tensor before = x;
  jit::mark_dynamic(x, 0, {2, 64});
  CHECK(floats(x) == floats(before));
  f(x);
  for (int n : {2, 9, 64}) CHECK(floats(f(grid(n, 3)))[1] == 2);
  CHECK(f.stats().compiles == 1);
  contains(why([&] { f(grid(65, 3)); }),
           "guard 'range' failed: extent of axis 0 of argument 0: expected 2 to 64, got 65");
  contains(why([&] { f(grid(4, 5)); }), "extent of axis 1 of argument 0: expected 3, got 5");
  f(grid(65, 3));
  for (int n : {66, 1000, 3}) f(grid(n, 3));
  CHECK(f.stats().compiles == 2);
  auto g = jit::compile([](Tensor t) { return t + 1; });  // the unmarked handle has no mark
  g(before);
  contains(g.explain(before).text(), "f32[4, 3]");
  jit::mark_dynamic(x, -1);
  auto h = jit::compile([](Tensor t) { return t + 1; }, {.dynamic = jit::Dynamic::never});  // marks win over options
  h(x);
  for (int n : {5, 7}) h(grid(n, n));
  CHECK(h.stats().compiles == 1);
}

TEST_CASE("marks: a static axis stays a number") {
  auto f = jit::compile([](Tensor x) { return x * 2; });
  for (int n : {3, 4, 5, 6}) {
    Tensor x = grid(n, 2);
    jit::mark_static(x, 0);
    CHECK(floats(f(x))[1] == 2);
  }
  CHECK(f.stats().compiles == 4);
  Tensor x = grid(7, 2);
  jit::mark_static(x, 0);
  jit::mark_dynamic(x, 0);  // the later mark counts
  f(x);
  f(grid(8, 2));
  CHECK(f.stats().compiles == 5);
}

TEST_CASE("marks: what is wrong with one is said with its line") {
  Tensor x = grid(4, 3);
  contains(message_of<IndexError>([&] { jit::mark_dynamic(x, 2); }),
           "mark_dynamic: axis 2 is out of range for rank 2 [guards_test.cpp:");
  contains(message_of<UserError>([&] { jit::mark_dynamic(x, 0, {8, 16}); }),
           "axis 0 of (4, 3) is outside the range 8 to 16 [guards_test.cpp:");
  contains(message_of<UserError>([&] { jit::mark_dynamic(x, 0, {5, 4}); }), "leaves nothing to vary");
  contains(message_of<UserError>([&] { jit::mark_dynamic(x, 0, {0, 1}); }), "leaves nothing to vary");
  contains(message_of<IndexError>([&] { jit::mark_static(x, -3); }), "mark_static: axis -3");
  auto inside = jit::compile([](Tensor t) {
    jit::mark_dynamic(t, 0);
    return t;
  });
  contains(message_of<TraceError>([&] { inside(x); }), "a traced tensor cannot be marked");

  jit::mark_dynamic(x, 1);
  const int mark_line = __LINE__ - 1;
  auto fixed = jit::compile([](Tensor t) { return t + ones({3}); });
  const int add_line = __LINE__ - 1;
  std::string text = message_of<UserError>([&] { fixed(x); });
  contains(text,
           "mark_dynamic: the extent of axis 1 of argument 0 is marked dynamic, but the function needs it to be 3");
  contains(text, "as add needs it [guards_test.cpp:" + std::to_string(add_line) + "]");
  contains(text, "[guards_test.cpp:" + std::to_string(mark_line) + "]");
  CHECK(fixed.stats().compiles == 0);
  auto reads = jit::compile([](Tensor t) { return t * static_cast<int>(t.size(1)); });
  contains(message_of<UserError>([&] { reads(x); }), "which the function asked");
  CHECK(floats(reads(grid(4, 3)))[1] == 3);  // unmarked it is fine
}

TEST_CASE("layouts: transposed tensors of every size, one dynamic version") {
  auto f = jit::compile([](Tensor x, Tensor y) { return tanh(x) + y * 2; });
  auto expect = [&](int n, int m) {
    Tensor x = transpose(grid(m, n), 0, 1), y = transpose(grid(m, n), 0, 1);
    eval(x);
    eval(y);
    REQUIRE_FALSE(x.impl()->is_dense());
    std::vector<float> got = floats(f(x, y)), want = floats(y);
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(std::tanh(want[i]) + 2 * want[i]));
  };
  expect(3, 4);
  CHECK(f.stats().compiles == 1);
  expect(5, 4);
  expect(5, 7);
  std::int64_t settled = f.stats().compiles;
  CHECK(settled <= 3);
  for (int n : {2, 6, 9})
    for (int m : {3, 8}) expect(n, m);
  CHECK(f.stats().compiles == settled);
  f(grid(3, 4), grid(3, 4));  // dense is another class
  CHECK(f.stats().compiles == settled + 1);
}

TEST_CASE("layouts: slices of every size and origin, one dynamic version") {
  auto f = jit::compile([](Tensor x) { return x * 2 + sum(x, 1, keepdim); });
  auto expect = [&](int rows, int columns, int from, int to) {
    Tensor x = ready(grid(rows, columns)(all, slice(from, to)));
    REQUIRE_FALSE(x.impl()->is_dense());
    std::vector<float> got = floats(f(x)), values = floats(x);
    const int width = to - from;
    for (int i = 0; i < rows; ++i) {
      float total = 0;
      for (int j = 0; j < width; ++j) total += values[static_cast<std::size_t>(i * width + j)];
      for (int j = 0; j < width; ++j)
        CHECK(got[static_cast<std::size_t>(i * width + j)] ==
              Approx(values[static_cast<std::size_t>(i * width + j)] * 2 + total));
    }
  };
  expect(4, 8, 1, 5);
  expect(4, 9, 2, 6);  // the stride alone has changed
  CHECK(f.stats().compiles == 2);
  expect(5, 10, 2, 9);
  std::int64_t settled = f.stats().compiles;
  CHECK(settled <= 3);
  for (int columns : {11, 12, 64}) expect(6, columns, 1, columns - 2);
  CHECK(f.stats().compiles == settled);
  contains(f.explain(ready(grid(6, 11)(all, slice(1, 5)))).text(), "stride of axis 0 of argument 0, at least 2");
  auto always = jit::compile([](Tensor x) { return x + 1; }, {.dynamic = jit::Dynamic::always});
  for (int k : {3, 4, 5}) always(ready(grid(k, 2 * k)(all, slice(0, k))));
  for (int k : {3, 4, 5}) always(transpose(grid(k, k + 2), 0, 1));
  CHECK(always.stats().compiles == 2);
}

TEST_CASE("layouts: products, rank 3, broadcast strides, and Eigen-like column-major memory") {
  auto f = jit::compile([](Tensor a, Tensor b) { return matmul(a, b); });
  for (int n : {3, 4, 5, 6}) {
    Tensor base = grid(n + 1, n), b = grid(n + 1, 3);
    Tensor a = ready(transpose(base, 0, 1));
    CHECK(floats(f(a, b)) == floats(matmul(ready(a * 1), b)));
  }
  CHECK(f.stats().compiles == 2);
  auto g = jit::compile([](Tensor x) { return x * 2 + 1; });
  for (int n : {4, 5, 6, 7}) {
    Tensor cube = ready(reshape(arange(n * n * n), {n, n, n}).to(DType::f32));
    Tensor part = ready(cube(slice(1, n - 1), all, slice(0, n - 1)));
    std::vector<float> got = floats(g(part)), want = floats(part);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == want[i] * 2 + 1);
  }
  CHECK(g.stats().compiles == 2);
  auto h = jit::compile([](Tensor x) { return x * 2; });
  for (int n : {3, 4, 5})
    CHECK(floats(h(ready(expand(grid(1, 4)(0), {n, 4})))).size() == static_cast<std::size_t>(4 * n));
  CHECK(h.stats().compiles == 2);
}

TEST_CASE("layouts: random views of random sizes agree with the function itself, in a bounded number of versions") {
  const auto seed = static_cast<unsigned>(std::random_device{}());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  auto pick = [&](int from, int to) {
    return static_cast<int>(from + random() % static_cast<unsigned>(to - from + 1));
  };
  auto f =
      jit::compile([](Tensor x, Tensor y) { return std::pair{x * 2 + sum(y, 2, keepdim), transpose(y, 0, 2) + 1}; },
                   {.recompile_limit = 200});
  auto view = [&](int a, int b, int c, int order, bool sliced) {
    static constexpr int permutations[3][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};
    const int* to = permutations[order];
    const int extents[3] = {a, b, c};
    int base[3], pad = sliced ? 2 : 0;
    for (int i = 0; i < 3; ++i) base[to[i]] = extents[i] + (i == 2 ? pad : 0);
    Tensor whole = ready(reshape(arange(base[0] * base[1] * base[2]), {base[0], base[1], base[2]}).to(DType::f32));
    Tensor turned = permute(whole, {to[0], to[1], to[2]});
    return ready(sliced ? turned(all, all, slice(1, 1 + c)) : turned);
  };
  for (int i = 0; i < 60; ++i) {
    const int a = pick(1, 5), b = pick(1, 5), c = pick(1, 5);
    Tensor x = view(a, b, c, pick(0, 2), pick(0, 1) == 1), y = view(a, b, c, pick(0, 2), pick(0, 1) == 1);
    REQUIRE(x.shape() == Shape{a, b, c});
    auto [first, second] = f(x, y);
    jit::StanceGuard eager(jit::Stance::force_eager);
    auto [want_first, want_second] = f(x, y);
    CHECK(floats(first) == floats(want_first));
    CHECK(floats(second) == floats(want_second));
  }
  CHECK(f.stats().compiles < 60);
}

TEST_CASE("relations: equal, sum and multiple") {
  auto sum_of = jit::compile([](Tensor x, Tensor y, Tensor z) { return concat({x, y}, 0) * z; },
                             {.dynamic = jit::Dynamic::always});
  for (auto [a, b] : {std::pair{3, 4}, {2, 9}, {5, 5}})
    CHECK(floats(sum_of(ones({a}), ones({b}), full({a + b}, 3))) ==
          std::vector<float>(static_cast<std::size_t>(a + b), 3));
  CHECK(sum_of.stats().compiles == 1);
  CHECK_THROWS_AS(sum_of(ones({3}), ones({4}), ones({8})), ShapeError);

  auto halves = jit::compile(
      [](Tensor x) {
        Dim half = x.size(0) / 2;
        return x(slice(0, half)) + x(slice(half, half * 2));
      },
      {.dynamic = jit::Dynamic::always});
  for (int n : {8, 10, 12}) CHECK(halves(ones({n})).shape() == Shape{n / 2});

  auto grouped =
      jit::compile([](Tensor x) { return sum(reshape(x, {x.size(0) / 4, 4}), 1); }, {.dynamic = jit::Dynamic::always});
  for (int n : {8, 12, 40}) CHECK(floats(grouped(ones({n}))) == std::vector<float>(static_cast<std::size_t>(n / 4), 4));
  CHECK(grouped.stats().compiles == 1);
  contains(grouped.explain(ones({12})).text(), "a multiple of 4");
  contains(grouped.explain(ones({12})).text(), "s0 = 12 in this call; 3 times 4");
  contains(why([&] { grouped(ones({10})); }),
           "guard 'divisibility' failed: extent of axis 0 of argument 0: expected a multiple of 4, got 10");
  CHECK_THROWS_AS(grouped(ones({10})), ShapeError);
  CHECK(floats(grouped(ones({4}))) == std::vector<float>{4});  // one group: a version of its own
  CHECK(floats(grouped(ones({16}))) == std::vector<float>(4, 4));
  std::int64_t settled = grouped.stats().compiles;
  grouped(ones({4}));
  grouped(ones({44}));
  CHECK(grouped.stats().compiles == settled);

  auto branch = jit::compile(
      [](Tensor x) {
        if (x.size(0) % 3 == 0) return sum(reshape(x, {-1, 3}), 0);
        return x;
      },
      {.dynamic = jit::Dynamic::always});
  for (int n : {6, 9, 30}) CHECK(branch(ones({n})).shape() == Shape{3});
  CHECK(branch.stats().compiles == 1);
  CHECK(branch(ones({7})).shape() == Shape{7});
  CHECK(branch(ones({8})).shape() == Shape{8});
  CHECK(branch(ones({9})).shape() == Shape{3});
  CHECK(branch.stats().compiles == 2);
}

TEST_CASE("relations: an order that is asked where two sizes are equal does not fix them") {
  auto f = jit::compile([](Tensor x) { return x.size(0) < 8 ? Tensor(x + 1) : Tensor(x * 2); });
  const auto call = [&](int rows) {
    Tensor x = grid(rows, 2);
    jit::mark_dynamic(x, 0);
    return item<float>(f(x)(0, 1));
  };
  CHECK(call(8) == 2);
  CHECK(call(9) == 2);
  CHECK(call(40) == 2);
  CHECK(f.stats().compiles == 1);
  CHECK(call(7) == 2);  // 1 + 1, and the other side
  CHECK(call(3) == 2);
  CHECK(f.stats().compiles == 2);
  auto turn = jit::compile([](Tensor x) { return roll(x, 3, 0); });
  for (int rows : {2, 3, 5}) {
    Tensor x = ready(arange(rows));
    jit::mark_dynamic(x, 0);
    CHECK(to_vector<std::int64_t>(turn(x)) == to_vector<std::int64_t>(roll(x, 3, 0)));
  }
}

TEST_CASE("extents 0 and 1 are right in every mode, and bounded") {
  for (jit::Dynamic mode : {jit::Dynamic::automatic, jit::Dynamic::always, jit::Dynamic::never}) {
    auto f = jit::compile([](Tensor x, Tensor y) { return sum(x + y, 0); }, {.dynamic = mode, .recompile_limit = 40});
    for (int round = 0; round < 2; ++round)
      for (int n : {0, 1, 2, 3, 1, 0, 5})
        for (int m : {1, n}) {
          INFO(static_cast<int>(mode) << " " << n << " " << m);
          std::vector<float> got = floats(f(full({n, 2}, 1), full({m, 2}, 2)));
          CHECK(got == std::vector<float>(2, 3.0f * static_cast<float>(n)));
        }
    CHECK(f.stats().compiles <= (mode == jit::Dynamic::never ? 9 : 8));
  }
  auto marked = jit::compile([](Tensor x) { return x * 2; });
  for (int n : {1, 0, 4, 5, 1, 6, 0}) {
    Tensor x = ready(ones({n, 2}));
    jit::mark_dynamic(x, 0);
    CHECK(floats(marked(x)).size() == static_cast<std::size_t>(2 * n));
  }
  CHECK(marked.stats().compiles == 3);
}

TEST_CASE("after one recompile for a changed extent nothing compiles for it again") {
  auto f = jit::compile([](Tensor x, Tensor w, Tensor b) { return softmax(relu(matmul(x, w) + b), 1); });
  f(grid(4, 8), grid(8, 3), ones({3}));
  f(grid(6, 8), grid(8, 3), ones({3}));
  CHECK(f.stats().recompiles == 1);
  for (int n = 2; n < 40; n += 3) f(grid(n, 8), grid(8, 3), ones({3}));
  CHECK(f.stats().recompiles == 1);
  f(grid(4, 8), grid(8, 5), ones({5}));
  CHECK(f.stats().recompiles == 2);
  for (int k = 2; k < 20; k += 3) f(grid(k + 1, 8), grid(8, k), ones({k}));
  CHECK(f.stats().recompiles == 2);
}

TEST_CASE("purity: what is captured by reference and changes is found") {
  auto drifts = [](auto& f, const Tensor& x) { return message_of<TraceError>([&] { f(x); }); };
  Tensor x = ones({2});
  std::vector<Tensor> list{ones({2})};
  auto over_list = jit::compile([&list](Tensor t) {
    for (const Tensor& item : list) t = t + item;
    return t;
  });
  over_list(x);
  list.push_back(ones({2}));
  contains(drifts(over_list, x), "captured value changed at");
  std::map<std::string, int> options{{"power", 2}};
  auto with_map = jit::compile([&options](Tensor t) { return t * options.at("power"); });
  with_map(x);
  options["power"] = 3;
  contains(drifts(with_map, x), "captured value changed at mul [guards_test.cpp:");
  Variable a(ones({2})), b(full({2}, 5));
  Variable* which = &a;
  auto through = jit::compile([&which](Tensor t) { return t + *which; });
  CHECK(floats(through(x))[0] == 2);
  which = &b;
  contains(drifts(through, x), "another Variable");
  which = &a;
  a.set(full({2}, 7));
  CHECK(floats(through(x))[0] == 8);  // a new value of the same Variable is read
  auto assigns = jit::compile([&which](Tensor t) {
    *which = t * 2;
    return t;
  });
  assigns(x);
  which = &b;
  contains(drifts(assigns, x), "another Variable");
  CHECK(floats(b)[0] == 5);
  bool flag = false;
  auto flagged = jit::compile([&flag](Tensor t) { return flag ? exp(t) : Tensor(tanh(t)); });
  flagged(x);
  flag = true;
  contains(drifts(flagged, x), "captured value changed at exp [guards_test.cpp:");
  DType type = DType::f32;
  auto cast = jit::compile([&type](Tensor t) { return t.to(type) + 1; });
  cast(x);
  type = DType::f64;
  contains(drifts(cast, x), "captured value changed at");
}

TEST_CASE("purity: what looks like drift and is none") {
  Tensor x = ones({4});
  auto noise = jit::compile([](Tensor t) { return t + randn({4}) * 0 + rand({4}) * 0; });
  for (int i = 0; i < 3; ++i) CHECK(floats(noise(x)) == std::vector<float>(4, 1));
  Tensor bias = ones({4});
  auto f = jit::compile([&bias](Tensor t) { return t + bias; });
  f(x);
  bias = ones({4});  // another tensor, equal in content
  CHECK(floats(f(x)) == std::vector<float>(4, 2));
  auto strided = jit::compile([](Tensor t) { return t * 2; }, {.dynamic = jit::Dynamic::always});
  Tensor part = ready(grid(4, 8)(all, slice(0, 4)));
  for (int i = 0; i < 3; ++i) strided(part);
  auto grouped =
      jit::compile([](Tensor t) { return sum(reshape(t, {t.size(0) / 4, 4}), 1); }, {.dynamic = jit::Dynamic::always});
  for (int i = 0; i < 3; ++i) grouped(ones({8}));
  CHECK(grouped.stats().compiles == 1);
}
