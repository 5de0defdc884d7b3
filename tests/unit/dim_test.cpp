// Dim: canonical form, text, evaluation, substitution, floor division, and what is asked of a SymbolScope.
#include "../catch.hpp"

#include <sinter/tensor/dim.hpp>

#include <map>
#include <sstream>
#include <thread>
#include <vector>

using namespace sinter;

namespace {

const Dim a = Dim::symbol(0), b = Dim::symbol(1), c = Dim::symbol(2);

/// Answers from fixed values and writes down what was asked.
class Notes final : public SymbolScope {
 public:
  explicit Notes(std::vector<std::int64_t> values) : values_(std::move(values)), outer_(current()) { current() = this; }
  ~Notes() override { current() = outer_; }
  std::int64_t value_of(SymbolId symbol) const override { return values_.at(symbol); }
  void note(DimRelation relation, Dim lhs, Dim rhs, bool outcome) override {
    constexpr const char* signs[] = {" == ", " < ", " is "};
    text += lhs.text() + signs[static_cast<int>(relation)] + rhs.text() + (outcome ? "; " : " fails; ");
  }
  std::string text;

 private:
  std::vector<std::int64_t> values_;
  SymbolScope* outer_;
};

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return {};
}

}  // namespace

TEST_CASE("dim: numbers compute at once") {
  constexpr Dim three = 3;
  STATIC_REQUIRE(three.is_static());
  STATIC_REQUIRE(three.value() == 3);
  CHECK((Dim(7) + 5 == 12 && Dim(7) - 9 == -2 && Dim(-7) * 3 == -21));
  CHECK((Dim(7) / 2 == 3 && Dim(-7) / 2 == -4 && Dim(7) / -2 == -4 && Dim(-7) % 2 == 1 && Dim(7) % -2 == -1));
  CHECK(Dim(2) < Dim(3));
  CHECK(static_cast<int>(Dim(5)) == 5);
  CHECK(Dim(5).as_symbol() == -1);
  CHECK(Dim(std::int64_t{1} << 40).value() == std::int64_t{1} << 40);
  CHECK(error_of([] { static_cast<void>(Dim(1) / Dim(0)); }) == "sinter::ShapeError: Dim: division of 1 by zero");
}

TEST_CASE("dim: equal expressions are one node") {
  CHECK(identical(Dim::symbol(0), a));
  CHECK(identical(a + b, b + a));
  CHECK(identical(a * b * 2, b * 2 * a));
  CHECK(identical((a + b) * c, a * c + b * c));
  CHECK(identical(a + a, 2 * a));
  CHECK(identical(a + b - b, a));
  CHECK(identical((a + 1) * (a - 1), a * a - 1));
  CHECK_FALSE(identical(a + b, a * b));
  CHECK_FALSE(identical(a, b));
}

TEST_CASE("dim: expressions without symbols are static again") {
  CHECK(((a - a).is_static() && (a - a).value() == 0));
  CHECK(((a + 3 - a).is_static() && (a + 3 - a).value() == 3));
  CHECK((a * 0).is_static());
}

TEST_CASE("dim: text") {
  CHECK(Dim(128).text() == "128");
  CHECK(a.text() == "s0");
  CHECK((4 * a + b + 2).text() == "4*s0 + s1 + 2");
  CHECK((a * b - 3).text() == "s0*s1 - 3");
  CHECK((0 - a).text() == "-s0");
  CHECK((a / 2 + b % 3).text() == "floordiv(s0, 2) + mod(s1, 3)");
  CHECK((b % 3 + a / 2 + 1 + c + a).text() == "s0 + s2 + floordiv(s0, 2) + mod(s1, 3) + 1");
  std::ostringstream out;
  out << a + 1;
  CHECK(out.str() == "s0 + 1");
}

TEST_CASE("dim: the order of terms does not depend on which symbol was made first") {
  const Dim late = Dim::symbol(901), early = Dim::symbol(900);
  CHECK((late * early + late + early).text() == "s900*s901 + s900 + s901");
  CHECK((late / 2 + early / 3 + early / 2).text() == "floordiv(s900, 2) + floordiv(s900, 3) + floordiv(s901, 2)");
}

TEST_CASE("dim: exact divisions leave no floor division") {
  CHECK(identical(6 * a / 3, 2 * a));
  CHECK(identical((4 * a + 8 * b) / 4, a + 2 * b));
  CHECK(identical(a * b / b, a));
  CHECK(identical(6 * a * b / (2 * b), 3 * a));
  CHECK(identical(a / a, Dim(1)));
  CHECK(identical(4 * a % 2, Dim(0)));
  CHECK(identical(a % a, Dim(0)));
  CHECK(identical(a / 1, a));
  CHECK((3 * a / 2).text() == "floordiv(3*s0, 2)");
  CHECK((a / b).text() == "floordiv(s0, s1)");
  CHECK(error_of([] { static_cast<void>(a / 0); }) == "sinter::ShapeError: Dim: division of s0 by zero");
}

TEST_CASE("dim: evaluation follows floor division") {
  const std::vector<std::int64_t> values{7, 3, -5};
  CHECK((4 * a + b + 2).evaluate(values) == 33);
  CHECK((a * a * b - c).evaluate(values) == 152);
  CHECK((a / b).evaluate(values) == 2);
  CHECK((c / b).evaluate(values) == -2);
  CHECK((c % b).evaluate(values) == 1);
  CHECK(((a + 1) / 2 * 2 + (a + 1) % 2).evaluate(values) == 8);
  CHECK(Dim(9).evaluate({}) == 9);
  CHECK_THROWS_AS((a / (b - 3)).evaluate(values), ShapeError);
}

TEST_CASE("dim: substitution") {
  const std::vector<Dim> replacement{2 * b, 5};
  CHECK(identical((a + b + c).substitute(replacement), 2 * b + 5 + c));
  CHECK(identical((a / 2).substitute(replacement), b));
  CHECK(identical((a % b).substitute(std::vector<Dim>{7, 4}), Dim(3)));
  CHECK(identical((a * a).substitute(std::vector<Dim>{b + 1}), b * b + 2 * b + 1));
  CHECK(identical(Dim(4).substitute(replacement), Dim(4)));
  CHECK(identical(a.substitute({}), a));
}

TEST_CASE("dim: symbols in it, hashes") {
  CHECK(a.as_symbol() == 0);
  CHECK(c.as_symbol() == 2);
  CHECK((2 * a).as_symbol() == -1);
  CHECK((a / 2).as_symbol() == -1);
  std::vector<SymbolId> used;
  (a * b + c / a + 1).collect_symbols(used);
  std::sort(used.begin(), used.end());
  CHECK(used == std::vector<SymbolId>{0, 0, 1, 2});
  CHECK((a + b).hash() == (b + a).hash());
  CHECK_FALSE((a + b).hash() == (a * b).hash());
  CHECK_FALSE(Dim(3).hash() == Dim(4).hash());
  CHECK_FALSE((a / 2).hash() == (a % 2).hash());
}

TEST_CASE("dim: outside a trace structure is compared and values are unknown") {
  CHECK(a == a);
  CHECK_FALSE(a == b);
  CHECK_FALSE(a == 4);
  CHECK(2 * a == a + a);
  CHECK(error_of([] { static_cast<void>(a < b); }) ==
        "sinter::TraceError: Dim: the order of s0 and s1 is unknown outside the trace they belong to");
  CHECK(error_of([] { static_cast<void>(static_cast<int>(a + 1)); }) ==
        "sinter::TraceError: Dim: the symbolic extent s0 + 1 has no value outside the trace it belongs to");
}

TEST_CASE("dim: inside a trace every question that a symbol decides is noted with its answer") {
  Notes notes({8, 8, 3});
  CHECK(a == b);
  CHECK_FALSE(a == c);
  CHECK(c < a);
  CHECK(a > 4);
  CHECK(a >= b);
  CHECK(static_cast<std::int64_t>(2 * c + 1) == 7);
  CHECK(static_cast<double>(c) == 3.0);
  CHECK((a + c).value() == 11);
  CHECK(notes.text ==
        "s0 == s1; s0 == s2 fails; s2 < s0; 4 < s0; s0 < s1 fails; 2*s2 + 1 is 7; s2 is 3; s0 + s2 is 11; ");
}

TEST_CASE("dim: a symbolic one has no value outside the trace it belongs to") {
  CHECK_THROWS_AS(a.value(), TraceError);
  CHECK_THROWS_AS(static_cast<int>(a), TraceError);
  CHECK(Dim(7).value() == 7);
  CHECK(static_cast<std::size_t>(Dim(7)) + static_cast<unsigned>(Dim(7)) == 14);  // to each type of numbers
  CHECK(static_cast<long long>(Dim(-7)) == -7);
  CHECK(static_cast<long double>(Dim(7)) == 7);
}

TEST_CASE("dim: questions that structure decides are not noted") {
  Notes notes({8, 8, 3});
  CHECK(a + b == b + a);
  CHECK(Dim(3) < Dim(4));
  CHECK(a <= a);
  CHECK(a - a == 0);
  CHECK(notes.text.empty());
}

TEST_CASE("dim: a scope belongs to its thread, nodes to the process") {
  Notes notes({8, 9, 3});
  bool unknown = false, same = false;
  std::thread other([&] {
    unknown = SymbolScope::current() == nullptr;
    same = identical(Dim::symbol(0) * Dim::symbol(1) + 17, a * b + 17);
  });
  other.join();
  CHECK(unknown);
  CHECK(same);
}

TEST_CASE("dim: an estimate takes symbols without a value to be what is said, a value must know them") {
  const std::vector<std::int64_t> known{8};
  CHECK((a * 2 + 1).estimate(known, 64) == 17);
  CHECK((a + b).estimate(known, 64) == 72);
  CHECK((a % (b - 64)).estimate(known, 64) == 0);  // nothing is refused
  CHECK(Dim(5).estimate({}, 64) == 5);
  CHECK((a + 1).evaluate(known) == 9);
  CHECK_THROWS_AS((a + b).evaluate(known), InternalError);
}
