// The pass, and the rules of scalar algebra.
#pragma once

#include <sinter/passes/simplify.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/canonicalise.hpp>
#include <sinter/passes/evaluate.hpp>
#include <sinter/passes/fold.hpp>
#include <sinter/passes/simplify_structure.hpp>

#include <cmath>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace rewrite {
namespace detail {

// Conditions

inline bool floating(const Match& m) { return is_floating(m.type(m[x]).dtype); }
inline bool integer(const Match& m) { return is_integer(m.type(m[x]).dtype); }
inline bool boolean(const Match& m) { return m.type(m[x]).dtype == DType::bool_; }
inline bool not_boolean(const Match& m) { return !boolean(m); }
inline bool not_floating(const Match& m) { return !floating(m); }

/// The literal is a power of two whose reciprocal is exact and normal, so that multiplying by it rounds as dividing
/// does.
inline bool has_exact_reciprocal(const Match& m) {
  const Literal literal = m.literal(c);
  if (!is_floating(literal.dtype) || literal.real == 0 || !is_finite_number(literal.real)) return false;
  int exponent = 0;
  if (std::fabs(std::frexp(literal.real, &exponent)) != 0.5) return false;
  const int limit = -std::ilogb(row(literal.dtype).smallest());
  return exponent - 1 >= -limit && exponent - 1 <= limit;
}

// Replacements that compute with a literal

inline Value literal_value(Match& m, const OpInfo& op, std::span<const Literal> operands) {
  const auto result = evaluate(op, operands, {}, operands[0].dtype);  // of operands of one dtype, which it keeps
  return result ? m.add(op_info<ops::Full>, {}, full_attrs(*result, Shape())) : Value{};
}
inline Value times_reciprocal(Match& m) {
  const Value reciprocal = literal_value(m, op_info<ops::Reciprocal>, std::array{m.literal(c)});
  return reciprocal ? m.add(op_info<ops::Mul>, {m[x], reciprocal}) : Value{};
}
inline Value times_negated(Match& m) {
  const Value negated = literal_value(m, op_info<ops::Neg>, std::array{m.literal(c)});
  return negated ? m.add(op_info<ops::Mul>, {m[x], negated}) : Value{};
}
/// (x op c) op d = x op (c op d).
template <class Op>
Value join_literals(Match& m) {
  const Value joined = literal_value(m, op_info<Op>, std::array{m.literal(c), m.literal(d)});
  return joined ? m.add(op_info<Op>, {m[x], joined}) : Value{};
}

inline constexpr Pattern infinity = number(std::numeric_limits<double>::infinity()),
                         minus_infinity = number(-std::numeric_limits<double>::infinity());

// Literals stand at the right of commutative ops: the canonical rules see to it.
inline constexpr Rule sum_rules[] = {
    {"add-zero", call<ops::Add>(x, zero), x, not_floating},  // -0 + 0 is 0
    {"add-minus-zero", call<ops::Add>(x, minus_zero), x},
    {"add-neg", call<ops::Add>(x, call<ops::Neg>(y)), call<ops::Sub>(x, y)},
    {"neg-add", call<ops::Add>(call<ops::Neg>(x), y), call<ops::Sub>(y, x)},
    {"add-add-literals", call<ops::Add>(call<ops::Add>(x, c), d), join_literals<ops::Add>,
     integer},                                                 // rounds otherwise
    {"sub-itself", call<ops::Sub>(x, x), zero, not_floating},  // infinity - infinity is NaN
    {"sub-neg", call<ops::Sub>(x, call<ops::Neg>(y)), call<ops::Add>(x, y)},
    {"minus-zero-sub", call<ops::Sub>(minus_zero, x), call<ops::Neg>(x), floating},
    {"zero-sub", call<ops::Sub>(zero, x), call<ops::Neg>(x), integer},  // 0 - 0 is 0, not -0
    {"neg-neg", call<ops::Neg>(call<ops::Neg>(x)), x},
    {"neg-sub", call<ops::Neg>(call<ops::Sub>(x, y)), call<ops::Sub>(y, x), integer},  // x - x is 0, never -0
    {"neg-mul-literal", call<ops::Neg>(call<ops::Mul>(x, c)), times_negated},
};

inline constexpr Rule product_rules[] = {
    {"mul-one", call<ops::Mul>(x, one), x},
    {"mul-zero", call<ops::Mul>(x, zero), zero, not_floating},  // NaN * 0 is NaN, -1 * 0 is -0
    {"mul-neg-neg", call<ops::Mul>(call<ops::Neg>(x), call<ops::Neg>(y)), call<ops::Mul>(x, y)},
    {"mul-neg-literal", call<ops::Mul>(call<ops::Neg>(x), c), times_negated},
    {"mul-mul-literals", call<ops::Mul>(call<ops::Mul>(x, c), d), join_literals<ops::Mul>,
     integer},  // rounds otherwise
    {"div-one", call<ops::Div>(x, one), x},
    {"div-power-of-two", call<ops::Div>(x, c), times_reciprocal, has_exact_reciprocal},
    {"div-neg-neg", call<ops::Div>(call<ops::Neg>(x), call<ops::Neg>(y)), call<ops::Div>(x, y)},
    {"pow-zero", call<ops::Pow>(x, zero), one, not_boolean},  // 1 also for NaN, as IEEE 754 has it
    {"pow-one", call<ops::Pow>(x, one), x},
    {"pow-two", call<ops::Pow>(x, two), call<ops::Mul>(x, x), not_boolean},
    {"pow-three", call<ops::Pow>(x, number(3)), call<ops::Mul>(call<ops::Mul>(x, x), x), not_boolean},
    {"pow-minus-one", call<ops::Pow>(x, minus_one), call<ops::Reciprocal>(x), floating},
};

template <class Op>
inline constexpr Rule idempotent_rule[] = {{"twice-is-once", call<Op>(call<Op>(x)), call<Op>(x)}};
template <class Op>
inline constexpr Rule rounding_rules[] = {
    {"rounding-twice", call<Op>(call<Op>(x)), call<Op>(x)},
    {"rounding-integers", call<Op>(x), x, not_floating},
};

inline constexpr Rule choice_rules[] = {
    {"abs-neg", call<ops::Abs>(call<ops::Neg>(x)), call<ops::Abs>(x)},
    {"maximum-itself", call<ops::Maximum>(x, x), x},
    {"minimum-itself", call<ops::Minimum>(x, x), x},
    {"maximum-lowest", call<ops::Maximum>(x, minus_infinity), x},
    {"minimum-highest", call<ops::Minimum>(x, infinity), x},
    {"where-same", call<ops::Where>(x, y, y), y},
    {"where-true", call<ops::Where>(one, x, y), x},
    {"where-false", call<ops::Where>(zero, x, y), y},
    {"where-not", call<ops::Where>(call<ops::Not>(x), y, z), call<ops::Where>(x, z, y)},
};

inline constexpr Rule logic_rules[] = {
    {"eq-itself", call<ops::Eq>(x, x), one, not_floating},  // NaN is not equal to itself
    {"ne-itself", call<ops::Ne>(x, x), zero, not_floating},
    {"lt-itself", call<ops::Lt>(x, x), zero},
    {"le-itself", call<ops::Le>(x, x), one, not_floating},
    {"not-not", call<ops::Not>(call<ops::Not>(x)), x},
    {"not-eq", call<ops::Not>(call<ops::Eq>(x, y)), call<ops::Ne>(x, y)},
    {"not-ne", call<ops::Not>(call<ops::Ne>(x, y)), call<ops::Eq>(x, y)},
    {"not-lt", call<ops::Not>(call<ops::Lt>(x, y)), call<ops::Le>(y, x),
     not_floating},  // NaN is neither less nor not less
    {"not-le", call<ops::Not>(call<ops::Le>(x, y)), call<ops::Lt>(y, x), not_floating},
    {"and-itself", call<ops::And>(x, x), x},
    {"and-true", call<ops::And>(x, one), x, boolean},
    {"and-all-bits", call<ops::And>(x, minus_one), x, integer},
    {"and-zero", call<ops::And>(x, zero), zero},
    {"or-itself", call<ops::Or>(x, x), x},
    {"or-true", call<ops::Or>(x, one), one, boolean},
    {"or-zero", call<ops::Or>(x, zero), x},
    {"xor-itself", call<ops::Xor>(x, x), zero},
    {"xor-true", call<ops::Xor>(x, one), call<ops::Not>(x), boolean},
    {"xor-zero", call<ops::Xor>(x, zero), x},
};

/// The operand in the shape of the result.
inline Value stretched_operand(Match& m) {
  const Shape shape = m.type().shape;
  return identical(m.type(m[x]).shape, shape) ? m[x] : m.add(op_info<ops::Expand>, {m[x]}, Attrs{.shape = shape});
}

inline constexpr Rule dropped_rules[] = {
    {"stop-gradient", call<ops::StopGradient>(x), x},
    {"select-gradient", call<ops::SelectGradient>(y, x), stretched_operand},
};

}  // namespace detail

SINTER_DECL void add_algebra_rules(RuleSet& rules) {
  using namespace detail;
  rules.add(dropped_rules).add(sum_rules).add(product_rules).add(choice_rules).add(logic_rules);
  rules.add(idempotent_rule<ops::Abs>).add(idempotent_rule<ops::Relu>).add(idempotent_rule<ops::Sign>);
  rules.add(rounding_rules<ops::Floor>)
      .add(rounding_rules<ops::Ceil>)
      .add(rounding_rules<ops::Round>)
      .add(rounding_rules<ops::Trunc>);
}

}  // namespace rewrite

SINTER_DECL Graph Simplify::operator()(const Graph& graph) const {
  const rewrite::RuleSet& rules = process_object([] {
    auto* set = new rewrite::RuleSet;
    rewrite::add_canonical_rules(*set);
    rewrite::add_folding_rules(*set);
    rewrite::add_algebra_rules(*set);
    rewrite::add_structure_rules(*set);
    return set;
  });
  return rewrite::Rewriter(rules, graph).run();
}

SINTER_NAMESPACE_END
