// The oracles of the op tests against numbers known from elsewhere, and their tables' form.
#include "../catch.hpp"

#include "../conformance/op_oracles.hpp"

#include <set>
#include <string>

using namespace sinter_test::oracle;

namespace {

template <typename Rows>
auto find(const Rows& rows, std::string_view name) {
  for (const auto& row : rows)
    if (row.name == name) return row.oracle;
  FAIL("no oracle named " << std::string(name));
  return rows[0].oracle;
}

}  // namespace

TEST_CASE("oracles: elementwise values", "[oracle]") {
  // Abramowitz and Stegun, tables 7.1 and 26.1.
  CHECK(find(unary_rows, "erf")(0.5) == Approx(0.5204998778).epsilon(1e-9));
  CHECK(find(unary_rows, "gelu")(1) == Approx(0.8413447461).epsilon(1e-9));
  CHECK(find(unary_rows, "gelu")(-3) == Approx(-3 * 0.0013498980).epsilon(1e-7));
  CHECK(find(unary_rows, "sigmoid")(0) == 0.5);
  CHECK(find(unary_rows, "round")(2.5) == 2);
  CHECK(find(unary_rows, "round")(-1.5) == -2);
  CHECK(find(unary_rows, "round")(0.49999999999999994) == 0);
  CHECK(std::isnan(find(unary_rows, "relu")(not_a_number)));
  // NumPy's documentation of mod.
  CHECK(find(binary_rows, "rem")(5, 3) == 2);
  CHECK(find(binary_rows, "rem")(-5, 3) == 1);
  CHECK(find(binary_rows, "rem")(5, -3) == -1);
  CHECK(find(binary_rows, "rem")(-5, -3) == -2);
  CHECK(std::isnan(find(binary_rows, "maximum")(1, not_a_number)));
  CHECK(std::isnan(find(binary_rows, "minimum")(not_a_number, 1)));
  CHECK(find(ternary_rows, "where")(0, 1, 2) == 2);
}

TEST_CASE("oracles: reductions and rows", "[oracle]") {
  const Numbers x{1, -4, 2, 2};
  CHECK(find(reduction_rows, "sum")(x) == 1);
  CHECK(find(reduction_rows, "mean")(x) == 0.25);
  CHECK(find(reduction_rows, "prod")(x) == -16);
  CHECK(find(reduction_rows, "amax")(x) == 2);
  CHECK(find(reduction_rows, "amin")(x) == -4);
  CHECK(find(reduction_rows, "argmax")(x) == 2);
  CHECK(find(reduction_rows, "argmax")(Numbers{1, not_a_number, 3, not_a_number}) == 1);
  CHECK(find(reduction_rows, "all")(Numbers{1, 0}) == 0);
  CHECK(find(reduction_rows, "any")(Numbers{0, 1}) == 1);
  for (const ReductionRow& row : reduction_rows)  // what the table says of no elements is what the loop gives
    if (!std::isnan(row.empty)) CHECK(row.oracle(Numbers{}) == row.empty);
  const Numbers p = softmax(Numbers{1000, 1000, 1000 + std::log(2.0)});
  CHECK(p[0] == Approx(0.25));
  CHECK(p[2] == Approx(0.5));
  CHECK(log_softmax(Numbers{0, 0})[1] == Approx(-std::numbers::ln2));
  const Numbers normalised = layer_norm(Numbers{1, 3, 5, 5}, Numbers{2, 2}, Numbers{0, 1}, 0.0);
  CHECK(normalised[0] == -2);
  CHECK(normalised[1] == 3);
  CHECK(std::isnan(normalised[2]));
  CHECK(cross_entropy(Numbers{0, 0, 5, 5, 5, 5}, {0}) == Approx(std::log(2 * std::exp(-5.0) + 4) + 5));
  CHECK(cross_entropy(Numbers{0, 0, 9, 9}, {0, 1}) == Approx(std::numbers::ln2));
  CHECK(mse_loss(Numbers{1, 2}, Numbers{3, 2}) == 2);
}

TEST_CASE("oracles: shapes", "[oracle]") {
  CHECK(broadcast_shape({2, 1}, {3}) == Extents{2, 3});
  CHECK(broadcast_shape({0}, {4, 1}) == Extents{4, 0});
  CHECK(broadcast({1, 2}, {2, 1}, {2, 3}) == Numbers{1, 1, 1, 2, 2, 2});
  CHECK(broadcast({1, 2, 3}, {3}, {2, 3}) == Numbers{1, 2, 3, 1, 2, 3});
  const Numbers x{0, 1, 2, 3, 4, 5};
  CHECK(reduced_elements(x, {2, 3}, {0}) == std::vector<Numbers>{{0, 3}, {1, 4}, {2, 5}});
  CHECK(reduced_elements(x, {2, 3}, {1}) == std::vector<Numbers>{{0, 1, 2}, {3, 4, 5}});
  CHECK(reduced_elements(x, {2, 3}, {0, 1}) == std::vector<Numbers>{x});
  CHECK(reduced_elements({}, {2, 0}, {1}) == std::vector<Numbers>{{}, {}});
  CHECK(along_rows(softmax, {7, 8}, 1) == Numbers{1, 1});
}

TEST_CASE("oracles: errors in ulps", "[oracle]") {
  CHECK(error_in_ulps(1.0f, 1.0) == 0);
  CHECK(error_in_ulps(std::nextafter(1.0f, 2.0f), 1.0) == 1);
  CHECK(error_in_ulps(1e-9f, 0.0, 1.0) < 0.01);
  CHECK(error_in_ulps(std::numeric_limits<float>::infinity(), 1e300) == 0);
  CHECK(error_in_ulps(1.0f, not_a_number) == infinite);
  CHECK(error_in_ulps(static_cast<float>(not_a_number), not_a_number) == 0);
}

TEST_CASE("oracles: every row once, with a domain", "[oracle]") {
  std::set<std::string> names;
  auto see = [&](std::string_view name, Domain domain) {
    CHECK(names.insert(std::string(name)).second);
    CHECK(domain.lo < domain.hi);
  };
  for (const UnaryRow& row : unary_rows) see(row.name, row.domain);
  for (const BinaryRow& row : binary_rows) see(row.name, row.a);
  for (const TernaryRow& row : ternary_rows) see(row.name, row.a);
  for (const ReductionRow& row : reduction_rows) see(row.name, row.domain);
  for (const RowRow& row : row_rows) see(row.name, row.domain);
}
