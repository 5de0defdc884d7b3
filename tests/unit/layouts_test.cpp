// What objects of users' types are taken apart into, for compiled functions and derivatives: kinds of members and how
// they lie in the object.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

Tensor two(float value) { return full({2}, value); }
float first(const Tensor& x) { return floats(x)[0]; }

struct Row {
  Tensor a, b, c;
};
struct Tree {
  Tensor value;
  std::vector<Tree> children;
};
/// Named in another order than they lie.
class Swapped {
 public:
  Swapped(Tensor x, Tensor y) : x_(std::move(x)), y_(std::move(y)) {}
  const Tensor& x() const { return x_; }
  const Tensor& y() const { return y_; }
  SINTER_FIELDS(y_, x_)

 private:
  Tensor x_, y_;
};
class Wide {
 public:
  Tensor a = two(1), b = two(2), c = two(3), d = two(4), e = two(5), f = two(6), g = two(7), h = two(8), i = two(9);
  Tensor j = two(10), k = two(11), l = two(12), m = two(13), n = two(14), o = two(15), p = two(16), q = two(17);
  Wide() = default;
  SINTER_FIELDS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
};
enum class Mode : std::int8_t { down = -1, up = 1 };
struct Numbers {
  std::int8_t small = -3;
  std::uint16_t medium = 60000;
  bool is_on = true;
  Mode mode = Mode::down;
  std::uint64_t large = 5;
};

std::int64_t compiles(const auto& f) { return f.stats().compiles; }

}  // namespace

TEST_CASE("layouts: rows of Tensors, alone, in vectors and as results") {
  auto f = jit::compile([](const std::vector<Row>& rows, Tensor x) {
    std::vector<Row> out;
    for (const Row& row : rows) out.push_back({x + row.a, x + row.b, x + row.c});
    return out;
  });
  std::vector<Row> rows{{two(1), two(2), two(3)}, {two(4), two(5), two(6)}};
  for (float x : {10.0f, 20.0f}) {
    const std::vector<Row> out = f(rows, two(x));
    CHECK(first(out[0].a) == x + 1);
    CHECK(first(out[1].a) == x + 4);
    CHECK(first(out[1].c) == x + 6);
  }
  CHECK(compiles(f) == 1);
  CHECK_THAT(f.explain(rows, two(1)).text(), Catch::Contains("argument 0[1].field2: f32[2] dense"));

  auto g = jit::compile([](Row row) { return std::pair(row.a + row.b, row); });
  const auto [total, same] = g(Row{two(1), two(2), two(3)});
  CHECK(first(total) == 3);
  CHECK(first(same.c) == 3);
}

TEST_CASE("layouts: a type that holds itself") {
  auto f = jit::compile([](const Tree& tree) {
    Tensor total = tree.value;
    for (const Tree& child : tree.children) total = total + child.value * 2;
    return Tree{total, {Tree{total * 10, {}}}};
  });
  const Tree out = f(Tree{two(1), {{two(2), {}}, {two(3), {}}}});
  CHECK(first(out.value) == 11);
  CHECK(first(out.children.at(0).value) == 110);
}

TEST_CASE("layouts: named members, in their order and in any number") {
  auto f = jit::compile([](const Swapped& s) { return Swapped(s.x() * 2, s.y() * 3); });
  const Swapped out = f(Swapped(two(1), two(10)));
  CHECK(first(out.x()) == 2);
  CHECK(first(out.y()) == 30);

  auto g = jit::compile([](const Wide& w) {
    Wide out = w;
    out.q = w.a + w.q;
    return out;
  });
  const Wide wide = g(Wide());
  CHECK(first(wide.q) == 18);
  CHECK(first(wide.p) == 16);

  auto gradient = jit::grad([](const Swapped& s) { return sum(s.x() * s.x() * s.y()); })(Swapped(two(3), two(5)));
  CHECK(first(gradient.x()) == 30);
  CHECK(first(gradient.y()) == 9);
}

TEST_CASE("layouts: static numbers of every size") {
  auto f = jit::compile([](const Numbers& n, Tensor x) {
    return x * static_cast<int>(n.small) + static_cast<int>(n.medium) + (n.mode == Mode::up ? 1 : 0) +
           static_cast<int>(n.large) * (n.is_on ? 1 : 0);
  });
  Numbers numbers;
  const auto result = [&] { return first(f(numbers, two(1))); };
  CHECK(result() == -3 + 60000 + 5);
  numbers.small = 3;
  CHECK(result() == 3 + 60000 + 5);
  numbers.medium = 7;
  CHECK(result() == 3 + 7 + 5);
  numbers.mode = Mode::up;
  CHECK(result() == 3 + 7 + 1 + 5);
  numbers.large = 6;
  CHECK(result() == 3 + 7 + 1 + 6);
  numbers.is_on = false;
  CHECK(result() == 3 + 7 + 1);
  CHECK(compiles(f) == 6);
  CHECK_THAT(f.explain(Numbers(), two(1)).text(), Catch::Contains("argument 0.field0: static value -3"));
}

TEST_CASE("layouts: numbers that are run-time inputs, of every type") {
  auto f = jit::compile([](Tensor x, Scalar s) { return x * s; });
  CHECK(first(f(two(2), 0.5f)) == 1);
  CHECK(first(f(two(2), 0.25)) == 0.5f);
  CHECK(first(f(two(2), 0.125L)) == 0.25f);
  CHECK(compiles(f) == 1);
  CHECK(first(f(two(2), std::int8_t{-2})) == -4);
  CHECK(first(f(two(2), std::uint16_t{60000})) == 120000);
  CHECK(first(f(two(2), std::uint64_t{3})) == 6);
  CHECK(compiles(f) == 2);
  CHECK(first(f(two(2), true)) == 2);
  CHECK_THROWS_AS(f(two(2), ~std::uint64_t{0}), UserError);
}

TEST_CASE("layouts: containers in each other, and what they hold nothing of") {
  using Table = std::map<std::string, std::optional<Row>>;
  auto f = jit::compile([](const Table& table, const std::array<Tensor, 2>& pair) {
    Table out = table;
    for (auto& [name, row] : out)
      if (row) row->b = row->a + pair[1];
    return std::tuple(out, std::string("done"), pair[0] * 2);
  });
  const Table table{{"x", Row{two(1), two(2), two(3)}}, {"y", std::nullopt}};
  for (float value : {5.0f, 6.0f}) {
    const auto [out, text, twice] = f(table, std::array{two(4), two(value)});
    CHECK(first(out.at("x")->b) == 1 + value);
    CHECK(first(out.at("x")->c) == 3);
    CHECK(!out.at("y").has_value());
    CHECK(text == "done");
    CHECK(first(twice) == 8);
  }
  CHECK(compiles(f) == 1);
}

TEST_CASE("layouts: a result whose member is const takes no values") {
  struct Fixed {
    const Tensor value;
  };
  auto f = jit::compile([](Tensor x) { return Fixed{x * 2}; });
  CHECK_THROWS_WITH(f(two(1)), Catch::Contains("const"));
}
