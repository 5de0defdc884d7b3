// Every rewrite rule: a case that fires and a near miss; and each case evaluated over NaN, infinities, both zeros and
// other numbers, where before and after must agree to the bit.
#include "../graph_evaluator.hpp"
#include "pass_checks.hpp"

#include <sinter/passes/fold.hpp>
#include <sinter/passes/simplify.hpp>
#include <sinter/passes/simplify_structure.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {

/// `before` becomes `after` by `rule`; `near` stays as it is.
struct RuleRow {
  const char* rule;
  const char* inputs;
  const char* before;
  const char* after;
  const char* near_inputs;
  const char* near;
};

constexpr const char* f = "%x: f32[3], %y: f32[3]";
constexpr const char* i = "%x: i32[3], %y: i32[3]";
constexpr const char* b = "%x: bool[3], %y: bool[3]";
constexpr const char* choice = "%x: bool[3], %y: f32[3], %z: f32[3]";

constexpr RuleRow canonical_rows[] = {
    {"gt-as-lt", f, "gt(%x, %y)", "lt(%y, %x)", f, "lt(%x, %y)"},
    {"ge-as-le", f, "ge(%x, %y)", "le(%y, %x)", f, "le(%x, %y)"},
    {"sub-literal", f, "sub(%x, 3)", "add(%x, -3)", f, "sub(3, %x)"},
    {"sub-literal", i, "sub(%x, 3)", "add(%x, -3)", i, "sub(%x, %y)"},
    {"square", f, "square(%x)", "mul(%x, %x)", f, "mul(%x, %y)"},
    {"one-over", f, "div(1, %x)", "reciprocal(%x)", f, "div(2, %x)"},
    {"times-minus-one", f, "mul(%x, -1)", "neg(%x)", f, "mul(%x, -2)"},
    {"cast-to-itself", f, "cast(%x) {dtype=f32}", "%x", f, "cast(%x) {dtype=f64}"},
    {"reshape-to-itself", "%x: f32[3, 4]", "reshape(%x) {shape=[3, 4]}", "%x", "%x: f32[3, 4]",
     "reshape(%x) {shape=[4, 3]}"},
    {"expand-to-itself", "%x: f32[3, s0]", "expand(%x) {shape=[3, s0]}", "%x", "%x: f32[3, s0]",
     "expand(%x) {shape=[1, 3, s0]}"},
    {"permute-nothing", "%x: f32[3, 4]", "permute(%x) {axes=[0, 1]}", "%x", "%x: f32[3, 3]",
     "permute(%x) {axes=[1, 0]}"},
    {"slice-everything", "%x: f32[s0]", "slice(%x) {starts=[0], ends=[s0], steps=[1]}", "%x", "%x: f32[5]",
     "slice(%x) {starts=[0], ends=[5], steps=[2]}"},
    {"literal-right", f, "add(2, %x)", "add(%x, 2)", f, "sub(2, %x)"},
    {"implicit-broadcast", "%x: f32[3, 4], %y: f32[4]", "add(%x, expand(%y) {shape=[3, 4]})", "add(%x, %y)",
     "%x: f32[1], %y: f32[4]", "add(%x, expand(%y) {shape=[3, 4]})"},
    {"implicit-broadcast", f, "add(%x, full {shape=[3], value=2, dtype=f32})", "add(%x, 2)", "%x: f32[], %y: f32[]",
     "add(%x, full {shape=[3], value=2, dtype=f32})"},
};

constexpr RuleRow folding_rows[] = {
    {"fold-empty", "%x: f32[2, 0]", "softmax(permute(exp(%x)) {axes=[1, 0]}) {axes=[0]}",
     "full {shape=[0, 2], dtype=f32}", "%x: f32[2, 1]", "permute(exp(%x)) {axes=[1, 0]}"},
    {"fold-empty", "%x: f32[2, 0], %y: f32[0, 3]", "matmul(%x, %y)", "full {shape=[2, 3], dtype=f32}",
     "%x: f32[2, 1], %y: f32[1, 3]", "matmul(%x, %y)"},
    {"fold-elementwise", f, "add(%x, exp(full {dtype=f32}))", "add(%x, 1)", f, "add(%x, exp(%y))"},
    {"fold-view", f, "add(%x, reshape(full {shape=[1, 3], value=2, dtype=f32}) {shape=[3]})", "add(%x, 2)", f,
     "matmul(reshape(%x) {shape=[1, 3]}, reshape(%y) {shape=[3, 1]})"},
    {"fold-reduction", f, "add(%x, sum(full {shape=[7], dtype=f32}) {axes=[0]})", "add(%x, 0)", f,
     "add(%x, sum(full {shape=[7], value=0.1, dtype=f32}) {axes=[0]})"},
    {"fold-reduction", "%x: f32[s0]", "amax(full {shape=[s0], value=3, dtype=f32}) {axes=[0]}",
     "full {value=3, dtype=f32}", "%x: f32[s0]", "amax(full {shape=[s0 - 2], value=3, dtype=f32}) {axes=[0]}"},
    {"fold-constant", f, "%k: f32[] = constant {data=[2.5]}; return add(%x, %k)", "add(%x, 2.5)", f,
     "%k: f32[3] = constant {data=[2.5, 1, 2]}; return add(%x, %k)"},
};

constexpr RuleRow sum_rows[] = {
    {"add-zero", i, "add(%x, 0)", "%x", f, "add(%x, 0.0)"},
    {"add-minus-zero", f, "add(%x, -0.0)", "%x", f, "add(%x, 0.0)"},
    {"add-neg", f, "add(%x, neg(%y))", "sub(%x, %y)", f, "add(%x, exp(%y))"},
    {"neg-add", f, "add(neg(%x), %y)", "sub(%y, %x)", f, "sub(neg(%x), %y)"},
    {"add-add-literals", i, "add(add(%x, 2), 3)", "add(%x, 5)", f, "add(add(%x, 2), 3)"},
    {"sub-itself", i, "sub(%x, %x)", "full {shape=[3], dtype=i32}", f, "sub(%x, %x)"},
    {"sub-neg", f, "sub(%x, neg(%y))", "add(%x, %y)", f, "sub(neg(%x), %y)"},
    {"minus-zero-sub", f, "sub(-0.0, %x)", "neg(%x)", f, "sub(0.0, %x)"},
    {"zero-sub", i, "sub(0, %x)", "neg(%x)", i, "sub(1, %x)"},
    {"neg-neg", f, "neg(neg(%x))", "%x", f, "neg(abs(%x))"},
    {"neg-sub", i, "neg(sub(%x, %y))", "sub(%y, %x)", f, "neg(sub(%x, %y))"},
    {"neg-mul-literal", f, "neg(mul(%x, 3))", "mul(%x, -3)", f, "neg(mul(%x, %y))"},
};

constexpr RuleRow product_rows[] = {
    {"mul-one", f, "mul(%x, 1)", "%x", f, "mul(%x, 2)"},
    {"mul-one", "%x: f32[3]", "mul(%x, full {shape=[2, 1], value=1, dtype=f32})", "expand(%x) {shape=[2, 3]}",
     "%x: f32[3]", "mul(%x, full {shape=[2, 1], value=2, dtype=f32})"},
    {"mul-zero", i, "mul(%x, 0)", "full {shape=[3], dtype=i32}", f, "mul(%x, 0)"},
    {"mul-neg-neg", f, "mul(neg(%x), neg(%y))", "mul(%x, %y)", f, "mul(neg(%x), %y)"},
    {"mul-neg-literal", f, "mul(neg(%x), 3)", "mul(%x, -3)", f, "mul(neg(%x), %y)"},
    {"mul-mul-literals", i, "mul(mul(%x, 2), 3)", "mul(%x, 6)", f, "mul(mul(%x, 2), 3)"},
    {"div-one", f, "div(%x, 1)", "%x", f, "div(%x, 3)"},
    {"div-power-of-two", f, "div(%x, 4)", "mul(%x, 0.25)", f, "div(%x, 1e-39)"},
    {"div-power-of-two", f, "div(%x, -0.5)", "mul(%x, -2)", f, "div(%x, 10)"},
    {"div-neg-neg", f, "div(neg(%x), neg(%y))", "div(%x, %y)", f, "div(neg(%x), %y)"},
    {"pow-zero", f, "pow(%x, 0)", "full {shape=[3], value=1, dtype=f32}", f, "pow(0, %x)"},
    {"pow-one", f, "pow(%x, 1)", "%x", f, "pow(1, %x)"},
    {"pow-two", f, "pow(%x, 2)", "mul(%x, %x)", f, "pow(%x, 2.5)"},
    {"pow-three", f, "pow(%x, 3)", "mul(mul(%x, %x), %x)", f, "pow(%x, 4)"},
    {"pow-minus-one", f, "pow(%x, -1)", "reciprocal(%x)", i, "pow(%x, -1)"},
};

constexpr RuleRow choice_rows[] = {
    {"twice-is-once", f, "relu(relu(%x))", "relu(%x)", f, "relu(abs(%x))"},
    {"twice-is-once", f, "abs(abs(%x))", "abs(%x)", f, "abs(sign(%x))"},
    {"rounding-twice", f, "floor(floor(%x))", "floor(%x)", f, "floor(exp(%x))"},
    {"rounding-integers", i, "trunc(%x)", "%x", f, "trunc(%x)"},
    {"abs-neg", f, "abs(neg(%x))", "abs(%x)", f, "abs(exp(%x))"},
    {"maximum-itself", f, "maximum(%x, %x)", "%x", f, "maximum(%x, %y)"},
    {"minimum-itself", f, "minimum(%x, %x)", "%x", f, "minimum(%x, %y)"},
    {"maximum-lowest", f, "maximum(%x, -inf)", "%x", f, "maximum(%x, inf)"},
    {"minimum-highest", f, "minimum(%x, inf)", "%x", f, "minimum(%x, -inf)"},
    {"where-same", choice, "where(%x, %y, %y)", "%y", choice, "where(%x, %y, %z)"},
    {"where-same", "%x: bool[2, 1], %y: f32[3]", "where(%x, %y, %y)", "expand(%y) {shape=[2, 3]}", choice,
     "where(%x, %z, %y)"},
    {"where-true", f, "where(full {dtype=bool, integer=1}, %x, %y)", "%x", choice, "where(%x, %y, 1)"},
    {"where-false", f, "where(full {dtype=bool}, %x, %y)", "%y", choice, "where(%x, 0, %y)"},
    {"where-not", choice, "where(not(%x), %y, %z)", "where(%x, %z, %y)", choice, "where(%x, neg(%z), %y)"},
};

constexpr RuleRow logic_rows[] = {
    {"eq-itself", i, "eq(%x, %x)", "full {shape=[3], dtype=bool, integer=1}", f, "eq(%x, %x)"},
    {"ne-itself", i, "ne(%x, %x)", "full {shape=[3], dtype=bool}", f, "ne(%x, %x)"},
    {"lt-itself", f, "lt(%x, %x)", "full {shape=[3], dtype=bool}", f, "lt(%x, %y)"},
    {"le-itself", i, "le(%x, %x)", "full {shape=[3], dtype=bool, integer=1}", f, "le(%x, %x)"},
    {"not-not", b, "not(not(%x))", "%x", b, "not(and(%x, %y))"},
    {"not-eq", f, "not(eq(%x, %y))", "ne(%x, %y)", i, "eq(not(%x), %y)"},
    {"not-ne", f, "not(ne(%x, %y))", "eq(%x, %y)", i, "ne(not(%x), %y)"},
    {"not-lt", i, "not(lt(%x, %y))", "le(%y, %x)", f, "not(lt(%x, %y))"},
    {"not-le", i, "not(le(%x, %y))", "lt(%y, %x)", f, "not(le(%x, %y))"},
    {"and-itself", i, "and(%x, %x)", "%x", i, "and(%x, %y)"},
    {"and-true", b, "and(%x, full {dtype=bool, integer=1})", "%x", i, "and(%x, 1)"},
    {"and-all-bits", i, "and(%x, -1)", "%x", i, "and(%x, 2)"},
    {"and-zero", i, "and(%x, 0)", "full {shape=[3], dtype=i32}", i, "and(%x, 2)"},
    {"or-itself", i, "or(%x, %x)", "%x", i, "or(%x, %y)"},
    {"or-true", b, "or(%x, full {dtype=bool, integer=1})", "full {shape=[3], dtype=bool, integer=1}", i, "or(%x, 1)"},
    {"or-zero", i, "or(%x, 0)", "%x", i, "or(%x, 1)"},
    {"xor-itself", i, "xor(%x, %x)", "full {shape=[3], dtype=i32}", i, "xor(%x, %y)"},
    {"xor-true", b, "xor(%x, full {dtype=bool, integer=1})", "not(%x)", i, "xor(%x, 1)"},
    {"xor-zero", i, "xor(%x, 0)", "%x", i, "xor(%x, 1)"},
    {"stop-gradient", f, "stop_gradient(%x)", "%x", f, "neg(%x)"},
    {"select-gradient", f, "select_gradient(gt(%x, 0), %x)", "%x", f, "where(lt(%x, %y), %x, %y)"},
};

constexpr const char* m = "%x: f32[3, 4, 5]";
constexpr RuleRow structure_rows[] = {
    {"cast-cast", i, "cast(cast(%x) {dtype=i64}) {dtype=f32}", "cast(%x) {dtype=f32}", i,
     "cast(cast(%x) {dtype=f32}) {dtype=f64}"},
    {"cast-cast", f, "cast(cast(%x) {dtype=f64}) {dtype=f32}", "%x", f, "cast(cast(%x) {dtype=i32}) {dtype=f32}"},
    // Products read the inner one: tests/conformance/narrow_products_test.cpp.
    {"cast-cast", "%x: i8[3]", "cast(cast(%x) {dtype=i32}) {dtype=f32}", "cast(%x) {dtype=f32}", "%x: i8[3]",
     "cast(cast(%x) {dtype=bf16}) {dtype=f32}"},
    // Where the last dtype does not hold the first one both stay: tests/conformance/dtypes_test.cpp.
    {"cast-cast", i, "cast(cast(%x) {dtype=f64}) {dtype=i64}", "cast(%x) {dtype=i64}", i,
     "cast(cast(%x) {dtype=f32}) {dtype=i64}"},
    {"cast-after-take", "%x: u8[4, 3], %i: i64[2]", "take(permute(cast(%x) {dtype=f32}) {axes=[1, 0]}, %i) {axes=[1]}",
     "cast(take(permute(%x) {axes=[1, 0]}, %i) {axes=[1]}) {dtype=f32}", "%x: i32[4, 3], %i: i64[2]",
     "take(cast(%x) {dtype=f32}, %i) {axes=[0]}"},
    {"take-take", "%x: f32[4, 3, 2], %i: i64[4], %j: i64[5]",
     "take(take(%x, %i) {axes=[0], in_range}, %j) {axes=[1], in_range}",
     "take(reshape(%x) {shape=[12, 2]}, add(mul(reshape(%i) {shape=[4, 1]}, 3), %j)) {axes=[0], in_range}",
     "%x: f32[4, 3, 2], %i: i64[4], %j: i64[5]", "take(take(%x, %i) {axes=[0], in_range}, %j) {axes=[1]}"},
    {"reshape-reshape", m, "reshape(reshape(%x) {shape=[60]}) {shape=[12, 5]}", "reshape(%x) {shape=[12, 5]}", m,
     "reshape(permute(%x) {axes=[1, 0, 2]}) {shape=[60]}"},
    {"expand-expand", "%x: f32[3, 1]", "expand(expand(%x) {shape=[3, 4]}) {shape=[2, 3, 4]}",
     "expand(%x) {shape=[2, 3, 4]}", "%x: f32[3, 1]", "reshape(expand(%x) {shape=[3, 4]}) {shape=[12]}"},
    {"permute-permute", m, "permute(permute(%x) {axes=[1, 2, 0]}) {axes=[0, 2, 1]}", "permute(%x) {axes=[1, 0, 2]}", m,
     "permute(neg(permute(%x) {axes=[1, 2, 0]})) {axes=[0, 2, 1]}"},
    {"permute-permute", m, "permute(permute(%x) {axes=[1, 2, 0]}) {axes=[2, 0, 1]}", "%x", m,
     "permute(%x) {axes=[2, 0, 1]}"},
    {"slice-slice", "%x: f32[20]",
     "slice(slice(%x) {starts=[1], ends=[20], steps=[2]}) {starts=[1], ends=[10], steps=[3]}",
     "slice(%x) {starts=[3], ends=[20], steps=[6]}", "%x: f32[s0]",
     "slice(slice(%x) {starts=[1], ends=[s0], steps=[1]}) {starts=[0], ends=[s0 - 1], steps=[3]}"},
    {"slice-slice", "%x: f32[s0]",
     "slice(slice(%x) {starts=[1], ends=[s0], steps=[1]}) {starts=[2], ends=[s0 - 1], steps=[1]}",
     "slice(%x) {starts=[3], ends=[s0], steps=[1]}", "%x: f32[s0]",
     "slice(slice(%x) {starts=[1], ends=[s0], steps=[2]}) {starts=[0], ends=[floordiv(s0, 2) - 1], steps=[1]}"},
    {"update-everything", f, "update_slice(%x, %y) {starts=[0], steps=[1]}", "%y", "%x: f32[3], %y: f32[2]",
     "update_slice(%x, %y) {starts=[0], steps=[1]}"},
    {"reduce-unit-axes", "%x: f32[3, 1]", "amax(%x) {axes=[1]}", "reshape(%x) {shape=[3]}", "%x: f32[3, s0]",
     "amax(%x) {axes=[1]}"},
    {"reduce-unit-axes", "%x: f32[3, 1]", "sum(%x) {axes=[1]}", "add(reshape(%x) {shape=[3]}, 0)", "%x: f32[3, 2]",
     "sum(%x) {axes=[1]}"},
    {"reduce-unit-axes", "%x: i64[3, 1]", "sum(%x) {axes=[1], keepdim}", "%x", "%x: i64[3, 2]",
     "sum(%x) {axes=[1], keepdim}"},
    {"reduce-unit-axes", "%x: f32[1, 3, 1, 4]", "prod(%x) {axes=[0, 2, 3]}",
     "prod(reshape(%x) {shape=[3, 4]}) {axes=[1]}", "%x: f32[1, 3, 1, 4]", "prod(%x) {axes=[1, 3], keepdim}"},
    {"reduce-unit-axes", "%x: f32[1, 3, 4]", "amin(%x) {axes=[0, 2], keepdim}", "amin(%x) {axes=[2], keepdim}",
     "%x: f32[1, 3, 4]", "amin(%x) {axes=[1], keepdim}"},
    {"reduce-twice", m, "sum(sum(%x) {axes=[1]}) {axes=[1]}", "sum(%x) {axes=[1, 2]}", m,
     "sum(amax(%x) {axes=[1]}) {axes=[1]}"},
    {"reduce-twice", m, "sum(sum(%x) {axes=[0], keepdim}) {axes=[2], keepdim}", "sum(%x) {axes=[0, 2], keepdim}", m,
     "sum(neg(sum(%x) {axes=[1], keepdim})) {axes=[2]}"},
};

template <class Pass, std::size_t N>
void check_rows(const Pass& pass, const RuleRow (&rows)[N]) {
  for (const RuleRow& row : rows) {
    INFO(row.rule);
    expect_pass(pass, row.inputs, row.before, row.after);
    INFO("near miss: " << row.near);
    expect_unchanged(pass, row.near_inputs, row.near);
  }
}

// Soundness: before and after on every pair of awkward numbers

std::size_t compared_numbers = 0;

/// The oracle gives an element of its own to each node that computes one from each of others.
bool is_by_element(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const bool is_leaf = node.op == &op_info<ops::Input> || node.op == &op_info<ops::Full>;
    if (!is_leaf && node.op->kind != OpKind::elementwise && node.op->kind != OpKind::view) return false;
  }
  return true;
}

std::vector<oracle::Number> awkward_numbers(DType dtype) {
  if (dtype == DType::bool_) return {0, 1};
  if (!is_floating(dtype)) {
    const std::int64_t lowest = std::numeric_limits<std::int32_t>::min();
    std::vector<oracle::Number> out;
    for (std::int64_t value : std::initializer_list<std::int64_t>{0, 1, -1, 7, -8, -1 - lowest, lowest})
      out.push_back(static_cast<oracle::Number>(value));
    return out;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  return {0.0f,   -0.0f,  1.0f,    -1.0f,       0.1f,     -2.5f,     3e38f,
          -3e38f, 1e-40f, -1e-45f, 16777217.0f, infinity, -infinity, std::nanf("")};
}

/// An input of this type with `number` everywhere; symbols are 6.
oracle::Array filled(const Type& type, oracle::Number number) {
  oracle::Extents extents;
  for (Dim dim : type.shape.dims()) extents.push_back(dim.is_static() ? dim.value() : 6);
  oracle::Array out = oracle::Array::zeros(type.dtype, std::move(extents));
  std::fill(out.data.begin(), out.data.end(), number);
  return out;
}

bool same_number(oracle::Number a, oracle::Number b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return std::signbit(a) == std::signbit(b);
  return std::fabs(a - b) <= tolerance * std::fabs(a);
}

/// Before and after, computed by the oracle, which knows neither the rules nor how constants are folded.
void check_soundness(const RuleRow& row) {
  const Graph before = parse_graph(graph_text(row.inputs, row.before)), after = Simplify{}(before);
  if (!is_by_element(before) || !is_by_element(after)) return;
  std::vector<std::vector<oracle::Number>> choices;
  for (Value v : before.inputs()) choices.push_back(awkward_numbers(before.type(v).dtype));
  std::vector<std::size_t> at(choices.size());
  const double tolerance = std::string_view(row.rule).substr(0, 4) == "pow-" ? 3e-7 : 0;
  while (true) {
    std::vector<oracle::Array> inputs;
    for (std::size_t k = 0; k < at.size(); ++k)
      inputs.push_back(filled(before.type(before.inputs()[k]), choices[k][at[k]]));
    const oracle::Array a = oracle::evaluate_rounded(before, inputs)[0], z = oracle::evaluate_rounded(after, inputs)[0];
    REQUIRE(a.dtype == z.dtype);
    REQUIRE(a.extents == z.extents);
    INFO(row.rule << ": " << row.before << " is " << static_cast<double>(a.data.at(0)) << ", simplified "
                  << static_cast<double>(z.data.at(0)));
    CHECK(same_number(a.data[0], z.data[0], tolerance));
    ++compared_numbers;
    std::size_t k = 0;
    while (k < at.size() && ++at[k] == choices[k].size()) at[k++] = 0;
    if (k == at.size()) return;
  }
}

template <std::size_t N>
void note_names(std::set<std::string_view>& names, const RuleRow (&rows)[N]) {
  for (const RuleRow& row : rows) names.insert(row.rule);
}

}  // namespace

TEST_CASE("canonical rules fire, and stop at their near misses", "[passes]") {
  check_rows(Canonicalise{}, canonical_rows);
}
TEST_CASE("folding rules fire, and stop at their near misses", "[passes]") {
  for (const RuleRow& row : folding_rows) {
    INFO(row.rule);
    const Graph folded = Fold{}(parse_graph(graph_text(row.inputs, row.before)));
    CHECK_NOTHROW(verify(folded));
    // Fold leaves filled tensors as they are; canonical form makes them scalars.
    check_equal(Canonicalise{}(folded), Canonicalise{}(parse_graph(graph_text(row.inputs, row.after))));
    expect_unchanged(Fold{}, row.near_inputs, row.near);
  }
}
TEST_CASE("rules of sums fire, and stop at their near misses", "[passes]") { check_rows(Simplify{}, sum_rows); }
TEST_CASE("rules of products fire, and stop at their near misses", "[passes]") { check_rows(Simplify{}, product_rows); }
TEST_CASE("rules of choices fire, and stop at their near misses", "[passes]") { check_rows(Simplify{}, choice_rows); }
TEST_CASE("rules of logic fire, and stop at their near misses", "[passes]") { check_rows(Simplify{}, logic_rows); }
TEST_CASE("rules of structure fire, and stop at their near misses", "[passes]") {
  check_rows(Simplify{}, structure_rows);
}

TEST_CASE("every rule has a row", "[passes]") {
  std::set<std::string_view> covered;
  note_names(covered, canonical_rows), note_names(covered, folding_rows), note_names(covered, sum_rows),
      note_names(covered, product_rows);
  note_names(covered, choice_rows);
  note_names(covered, logic_rows);
  note_names(covered, structure_rows);
  rewrite::RuleSet rules;
  rewrite::add_canonical_rules(rules);
  rewrite::add_folding_rules(rules);
  rewrite::add_algebra_rules(rules);
  rewrite::add_structure_rules(rules);
  for (std::string_view name : rules.names()) {
    INFO(name);
    CHECK(covered.count(name) == 1);
  }
}

TEST_CASE("rules hold for NaN, infinities and both zeros", "[passes]") {
  for (const RuleRow& row : canonical_rows) check_soundness(row);
  for (const RuleRow& row : sum_rows) check_soundness(row);
  for (const RuleRow& row : product_rows) check_soundness(row);
  for (const RuleRow& row : choice_rows) check_soundness(row);
  for (const RuleRow& row : logic_rows) check_soundness(row);
  for (const RuleRow& row : structure_rows) check_soundness(row);
  for (const RuleRow& row : folding_rows) check_soundness(row);
  CHECK(compared_numbers > 5000);
}
