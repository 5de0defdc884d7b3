// Operations on complex tensors, as real operations on their parts: a table with a rule for each op that has a meaning
// for them. An op without one is refused, so that none takes a complex tensor for a real one. Elementary functions are
// in expr/complex_functions.hpp.
#pragma once

#include <sinter/expr/complex.hpp>

#include <sinter/expr/complex_functions.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/complex.hpp>
#include <sinter/ops/cumulative.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace complex_detail {

/// What a rule is given.
struct Call {
  const OpInfo& op;
  std::span<Leaf> leaves;
  const SharedAttrs& attrs;
  Location where;

  In in(std::size_t i) const {
    In out(0, where);
    out.leaf = leaves[i];
    return out;
  }
  /// The dtype that operands from number `first` on have together.
  DType dtype(std::size_t first = 0) const {
    std::vector<DType> dtypes;
    std::vector<PromotionRank> ranks;
    for (const Leaf& leaf : leaves.subspan(first)) {
      const TensorImpl* value = leaf.value.get();
      dtypes.push_back(value != nullptr ? value->type.dtype : dtype_of_number(leaf));
      ranks.push_back(
          promotion_rank(value == nullptr || value->is_weak, value == nullptr ? 0 : value->type.shape.rank()));
    }
    return elementwise_dtype(op_info<ops::Add>, dtypes, ranks, {}, where);
  }
  static DType dtype_of_number(const Leaf& leaf) {
    return leaf.kind == DTypeClass::floating  ? DType::f64
           : leaf.kind == DTypeClass::integer ? DType::i64
                                              : DType::bool_;
  }
  /// Operand `i` as a number whose parts have the dtype of those of `as`.
  Number number(std::size_t i, DType as) const { return Number::of(in(i), real_part_of(as)); }
  Term refuse(std::string_view what, std::string_view fix) const {
    throw DTypeError(op.name, std::string(what), where, std::string(fix));
  }
  /// A condition or index is no number with parts.
  void require_real(std::size_t i, std::string_view what, std::string_view wanted, std::string_view fix) const {
    const TensorImpl* value = leaves[i].value.get();
    if (value != nullptr && sinter::is_complex(value->type.dtype))
      refuse("the " + std::string(what) + " is " + value->type.text() + ", it must be " + std::string(wanted), fix);
  }
  void require_real_index(std::size_t i) const {
    require_real(i, "index", "an integer", "cast a part: real(z).to(DType::i64)");
  }
  Term record(const OpInfo& other, std::initializer_list<Leaf> operands) const {
    return {Tensor(record_shared(other, operands, attrs, where)), where};
  }
};
using Result = Ref<TensorImpl>;
using Rule = Result (*)(const Call& call);

inline Result result_of(const Number& number) { return number.tensor().impl(); }

template <Number (*function)(const Number&)>
Result unary(const Call& call) {
  return result_of(function(call.number(0, call.dtype())));
}
template <Number (*function)(const Number&, const Number&)>
Result binary(const Call& call) {
  const DType dtype = call.dtype();
  return result_of(function(call.number(0, dtype), call.number(1, dtype)));
}
template <Term (*function)(const Number&)>
Result to_real(const Call& call) {
  return function(call.number(0, call.dtype())).value.impl();
}

/// The op on the real parts and on the imaginary parts, of all operands from number `first` on.
template <std::size_t first>
Result by_parts(const Call& call) {
  for (std::size_t i = 0; i < first; ++i) call.require_real_index(i);
  const DType dtype = call.dtype(first);
  std::vector<Leaf> re, im;
  for (std::size_t i = 0; i < call.leaves.size(); ++i) {
    if (i < first) {
      re.push_back(call.leaves[i]);
      im.push_back(call.leaves[i]);
      continue;
    }
    const Number number = call.number(i, dtype);
    re.push_back(leaf_of(number.re));
    im.push_back(leaf_of(number.imaginary()));
  }
  return Number{Term(Tensor(record_shared(call.op, re, call.attrs, call.where)), call.where),
                Term(Tensor(record_shared(call.op, im, call.attrs, call.where)), call.where)}
      .tensor()
      .impl();
}

/// What is padded with: a real number.
inline Result pad(const Call& call) {
  const Number z = call.number(0, call.dtype());
  Attrs zero = *call.attrs;
  zero.value = 0;
  return Number{call.record(call.op, {leaf_of(z.re)}),
                Term(Tensor(record_op(call.op, {leaf_of(z.imaginary())}, std::move(zero), call.where)), call.where)}
      .tensor()
      .impl();
}

inline Result take(const Call& call) {
  call.require_real_index(1);
  const Number z = call.number(0, call.leaves[0].value->type.dtype);
  return Number{call.record(call.op, {leaf_of(z.re), call.leaves[1]}),
                call.record(call.op, {leaf_of(z.imaginary()), call.leaves[1]})}
      .tensor()
      .impl();
}

/// Base and value are complex, the index between them is not.
inline Result scatter(const Call& call) {
  call.require_real_index(1);
  const Combine combine = (*call.attrs)[ops::Scatter::combine];
  if (combine != Combine::none && combine != Combine::add)
    call.refuse("complex numbers are put at positions or added there", "do the rest on real(z) and imag(z)");
  const DType dtype =
      promote(call.leaves[0].value->type.dtype, call.leaves[2].value->type.dtype, "scatter", call.where);
  const Number base = call.number(0, dtype), value = call.number(2, dtype);
  return Number{call.record(call.op, {leaf_of(base.re), call.leaves[1], leaf_of(value.re)}),
                call.record(call.op, {leaf_of(base.imaginary()), call.leaves[1], leaf_of(value.imaginary())})}
      .tensor()
      .impl();
}

/// A product of matrices is one real product: rows of pairs, as they are in memory, by a matrix that has for each
/// number c + di of b the rows (c, d) and (-d, c). Where one operand is real, its rows or columns are not doubled.
inline Result matmul_rule(const Call& call) {
  const DType dtype = call.dtype();
  const Tensor a(call.leaves[0].value), b(call.leaves[1].value);
  const Number x = call.number(0, dtype), y = call.number(1, dtype);
  const auto product = [&](const Term& left, const Term& right) {
    return call.record(call.op, {leaf_of(left), leaf_of(right)});
  };
  if (!y.im) return Number{product(x.re, y.re), product(*x.im, y.re)}.tensor().impl();
  const Location at = call.where;
  const int rank = b.rank();
  const auto paired = [&](const Tensor& re, const Tensor& im) {  // columns: re, im, re, im
    Shape shape = re.shape();
    shape.set(rank - 1, shape[-1] * Dim(2));
    return reshape(In(stack({re, im}, rank, at), at), shape);
  };
  Tensor rows, columns = paired(y.re.value, y.im->value);
  if (x.im) {
    Shape shape = a.shape(), doubled = columns.shape();
    shape.set(rank - 1, shape[-1] * Dim(2));
    rows = reshape(In(view_as_real(In(cast(In(a, at), dtype), at)), at), shape);
    doubled.set(rank - 2, doubled[-2] * Dim(2));
    columns = reshape(In(stack({columns, paired(-*y.im, y.re.value)}, rank - 1, at), at), doubled);
  } else {
    rows = x.re.value;
  }
  const Term pairs = product(Term(rows, at), Term(columns, at));
  Shape shape = pairs.shape();
  shape.set(rank - 1, b.shape()[-1]);
  shape.push_back(2, at);
  return view_as_complex(In(reshape(In(pairs), shape), at)).impl();
}

/// Products of halves, and of halves of these.
inline Result prod(const Call& call) {
  const Tensor z(call.leaves[0].value);
  const IntVector& axes = call.attrs->axes;
  IntVector order;
  Dim count = 1;
  Shape kept, left;
  for (int i = 0; i < z.rank(); ++i) {
    const bool is_reduced = std::find(axes.begin(), axes.end(), std::int64_t{i}) != axes.end();
    if (!is_reduced) {
      order.push_back(i);
      left.push_back(z.shape()[i]);
    }
    if (!is_reduced || call.attrs->keepdim) kept.push_back(is_reduced ? Dim(1) : z.shape()[i]);
    if (is_reduced) count = count * z.shape()[i];
  }
  for (std::int64_t axis : axes) order.push_back(axis);
  std::int64_t n = count.value();  // a guard where it is symbolic: the number of steps follows from it
  const int last = left.rank();
  Shape flat = left;
  flat.push_back(n);
  if (n == 0) return ones(kept, {.dtype = z.dtype(), .device = z.device()}, call.where).impl();
  Tensor rest =
      reshape(In(permute(In(z, call.where), Axes(std::vector<int>(order.begin(), order.end()))), call.where), flat);
  for (; n > 1; n = (n + 1) / 2) {
    const std::int64_t half = n / 2;
    Tensor next = expr_detail::part_of(rest, last, 0, half, call.where) *
                  expr_detail::part_of(rest, last, half, 2 * half, call.where);
    if (n % 2 != 0) next = concat({next, expr_detail::part_of(rest, last, n - 1, n, call.where)}, last, call.where);
    rest = next;
  }
  return reshape(In(rest, call.where), kept).impl();
}

/// Products of twice as many elements at each step (Hillis and Steele 1986).
inline Result cumulative_product(const Call& call) {
  const int axis = static_cast<int>(call.attrs->axes[0]);
  Tensor z(call.leaves[0].value);
  const Dim count = z.shape()[axis];
  const bool is_reversed = (*call.attrs)[ops_detail::is_reversed];
  const std::int64_t n = count.value();
  const auto part = [&](std::int64_t start, std::int64_t stop) {
    return expr_detail::part_of(z, axis, start, stop, call.where);
  };
  if ((*call.attrs)[ops_detail::is_exclusive] && n > 0) {  // each element becomes the one before it; a one comes in
    std::vector<std::pair<int, int>> widths(as_index(z.rank()));
    widths[as_index(axis)] = is_reversed ? std::pair(-1, 1) : std::pair(1, -1);
    z = sinter::pad(In(z, call.where), widths, 1);
  }
  for (std::int64_t step = 1; step < n;
       step *= 2) {  // what has nothing before it stays: times 1 + 0i an infinity is NaN
    const Tensor product = part(step, n) * part(0, n - step), kept = is_reversed ? part(n - step, n) : part(0, step);
    z = is_reversed ? concat({product, kept}, axis, call.where) : concat({kept, product}, axis, call.where);
  }
  return z.impl();
}

/// That of the parts added: real.
inline Result variance(const Call& call) {
  const Number z = call.number(0, call.dtype());
  return (call.record(call.op, {leaf_of(z.re)}) + call.record(call.op, {leaf_of(z.imaginary())})).value.impl();
}
inline Result count(const Call& call) {
  Attrs attrs = *call.attrs;
  attrs.dtype = real_part_of(attrs.dtype);
  const Number z = call.number(0, call.leaves[0].value->type.dtype);
  return record_op(call.op, {leaf_of(z.re)}, std::move(attrs), call.where);
}
/// any and all: of what is not zero.
inline Result of_conditions(const Call& call) {
  return call.record(call.op, {leaf_of(not_equal(call.number(0, call.dtype()), Number::zero(call.where)))})
      .value.impl();
}

inline Result cast_rule(const Call& call) {
  const DType to = call.attrs->dtype;
  if (!is_complex(to))
    call.refuse("a complex tensor would lose its imaginary part as " + std::string(name(to)),
                "take a part: real(z).to(DType::" + std::string(name(to)) + ")");
  return result_of(call.number(0, to));
}
/// Without operands.
inline Result full_rule(const Call& call) {
  Attrs re = *call.attrs;
  re.dtype = real_part_of(re.dtype);
  const Term part(Tensor(record_op(call.op, {}, std::move(re), call.where)), call.where);
  return Number{part, {}}.tensor().impl();
}
inline Result where_rule(const Call& call) {
  call.require_real(0, "condition", "bool", "compare it: where(z != 0, a, b)");
  const DType dtype = call.dtype(1);
  const Number a = call.number(1, dtype), b = call.number(2, dtype);
  const Term condition(call.in(0));
  return Number{where_of(condition, a.re, b.re), where_of(condition, a.imaginary(), b.imaginary())}.tensor().impl();
}
inline Result lerp(const Call& call) {
  const DType dtype = call.dtype();
  const Number a = call.number(0, dtype);
  return result_of(add(a, multiply(call.number(2, dtype), subtract(call.number(1, dtype), a))));
}
inline Result power_rule(const Call& call) {
  const DType dtype = call.dtype();
  const Number z = call.number(0, dtype);
  const Leaf& exponent = call.leaves[1];
  if (!exponent.value) {
    const double n = exponent.kind == DTypeClass::floating ? exponent.number : static_cast<double>(exponent.integer);
    if (n == 0.5) return result_of(square_root(z));
    if (n == std::trunc(n) && std::abs(n) <= most_multiplied)
      return result_of(whole_power(z, static_cast<int>(n), call.where));
  }
  return result_of(power(z, call.number(1, dtype)));
}
inline Result sign_rule(const Call& call) {
  return call.refuse("complex numbers have no sign", "sgn(z) is z / abs(z)").value.impl();
}
inline Result no_order(const Call& call) {
  return call.refuse("complex numbers have no order", "compare abs(z), real(z) or imag(z)").value.impl();
}

struct RuleRow {
  std::string_view op;
  Rule rule;
};
inline constexpr RuleRow rules[] = {
    {op_name<ops::Add>, binary<add>},
    {op_name<ops::Sub>, binary<subtract>},
    {op_name<ops::Mul>, binary<multiply>},
    {op_name<ops::Div>, binary<divide>},
    {op_name<ops::Pow>, power_rule},
    {op_name<ops::Lerp>, lerp},
    {op_name<ops::Neg>, unary<negative>},
    {op_name<ops::Square>, unary<squared>},
    {op_name<ops::Reciprocal>, unary<inverse>},
    {op_name<ops::Sqrt>, unary<square_root>},
    {op_name<ops::Rsqrt>, unary<inverse_root>},
    {op_name<ops::Exp>, unary<exponential>},
    {op_name<ops::Exp2>, unary<exponential_of_two>},
    {op_name<ops::Expm1>, unary<exponential_less_one>},
    {op_name<ops::Log>, unary<logarithm>},
    {op_name<ops::Log1p>, unary<logarithm_of_one_more>},
    {op_name<ops::Log2>, unary<logarithm_of_two>},
    {op_name<ops::Log10>, unary<logarithm_of_ten>},
    {op_name<ops::Sin>, unary<sine>},
    {op_name<ops::Cos>, unary<cosine>},
    {op_name<ops::Tan>, unary<tangent>},
    {op_name<ops::Sinh>, unary<hyperbolic_sine>},
    {op_name<ops::Cosh>, unary<hyperbolic_cosine>},
    {op_name<ops::Tanh>, unary<hyperbolic_tangent>},
    {op_name<ops::Asin>, unary<arc_sine>},
    {op_name<ops::Acos>, unary<arc_cosine>},
    {op_name<ops::Atan>, unary<arc_tangent>},
    {op_name<ops::Asinh>, unary<area_sine>},
    {op_name<ops::Acosh>, unary<area_cosine>},
    {op_name<ops::Atanh>, unary<area_tangent>},
    {op_name<ops::Sigmoid>, unary<logistic>},
    {op_name<ops::Sinc>, unary<cardinal_sine>},
    {op_name<ops::StopGradient>, by_parts<0>},
    {op_name<ops::Cast>, cast_rule},
    {op_name<ops::Where>, where_rule},
    {op_name<ops::Abs>, to_real<absolute_value>},
    {op_name<ops::IsNan>, to_real<is_nan>},
    {op_name<ops::IsInf>, to_real<is_infinite>},
    {op_name<ops::IsFinite>, to_real<is_finite>},
    {op_name<ops::Eq>,
     [](const Call& c) { return equal(c.number(0, c.dtype()), c.number(1, c.dtype())).value.impl(); }},
    {op_name<ops::Ne>,
     [](const Call& c) { return not_equal(c.number(0, c.dtype()), c.number(1, c.dtype())).value.impl(); }},
    {op_name<ops::Sign>, sign_rule},
    {op_name<ops::Lt>, no_order},
    {op_name<ops::Le>, no_order},
    {op_name<ops::Gt>, no_order},
    {op_name<ops::Ge>, no_order},
    {op_name<ops::Maximum>, no_order},
    {op_name<ops::Minimum>, no_order},
    {op_name<ops::Clamp>, no_order},
    {op_name<ops::ClampToNumbers>, no_order},
    {op_name<ops::Amax>, no_order},
    {op_name<ops::Amin>, no_order},
    {op_name<ops::Argmax>, no_order},
    {op_name<ops::Argmin>, no_order},
    {op_name<ops::Cummax>, no_order},
    {op_name<ops::Cummin>, no_order},
    {op_name<ops::Sort>, no_order},
    {op_name<ops::Topk>, no_order},
    {op_name<ops::OrderStatistic>, no_order},
    {op_name<ops::Searchsorted>, no_order},
    {op_name<ops::Sum>, by_parts<0>},
    {op_name<ops::Mean>, by_parts<0>},
    {op_name<ops::Cumsum>, by_parts<0>},
    {op_name<ops::Cumprod>, cumulative_product},
    {op_name<ops::Prod>, prod},
    {op_name<ops::Var>, variance},
    {op_name<ops::ElementCount>, count},
    {op_name<ops::Any>, of_conditions},
    {op_name<ops::All>, of_conditions},
    {op_name<ops::Windows>, by_parts<0>},
    {op_name<ops::Concat>, by_parts<0>},
    {op_name<ops::Flip>, by_parts<0>},
    {op_name<ops::UpdateSlice>, by_parts<0>},
    {op_name<ops::Pad>, pad},
    {op_name<ops::Take>, take},
    {op_name<ops::Scatter>, scatter},
    {op_name<ops::ScatterAdd>, by_parts<1>},
    {op_name<ops::Full>, full_rule},
    {op_name<ops::Matmul>, matmul_rule},
};

inline std::string operands_of(std::span<const Leaf> leaves, const Attrs& attrs) {
  std::string text;
  for (const Leaf& leaf : leaves)
    if (leaf.value) text += (text.empty() ? "" : ", ") + leaf.value->type.text();
  return text.empty() ? "dtype " + std::string(name(attrs.dtype)) : text;
}

}  // namespace complex_detail

SINTER_DECL Ref<TensorImpl> record_complex(const OpInfo& op, std::span<Leaf> leaves, const SharedAttrs& attrs,
                                           Location where) {
  for (const complex_detail::RuleRow& row : complex_detail::rules)
    if (row.op == op.name) return row.rule(complex_detail::Call{op, leaves, attrs, where});
  throw DTypeError(op.name,
                   "there is no such operation on complex numbers: " + complex_detail::operands_of(leaves, *attrs),
                   where, "apply it to real(z) and imag(z), or to abs(z)");
}

namespace tensor_detail {
SINTER_DECL Leaf complex_number(double re, double im, Location where) {
  const auto part = [&](double x) {
    return Leaf(record_op(op_info<ops::Full>, {}, Attrs{.value = x, .dtype = DType::f64, .has_dtype = true}, where));
  };
  Ref<TensorImpl> value = record_op(op_info<ops::Complex>, {part(re), part(im)}, {}, where);
  value->is_weak = true;
  return Leaf(std::move(value));
}
}  // namespace tensor_detail

SINTER_DECL Tensor complex(const In& re, const In& im) {
  const Tensor a(re.tensor()), b(im.tensor());
  for (const Tensor* x : {&a, &b})
    if (is_complex(x->dtype()))
      throw DTypeError("complex", "a part is " + x->impl()->type.text() + ", it must be real", re.where,
                       "take it apart: real(z), imag(z)");
  const DType part = real_part_of(complex_of(promote(a.dtype(), b.dtype(), "complex", re.where)));
  const Shape shape = broadcast(a.shape(), b.shape(), "complex", re.where);
  const auto part_of = [&](const Tensor& x) {
    return Leaf(expand(In(cast(In(x, re.where), part), re.where), shape).impl());
  };
  return Tensor(record_op(op_info<ops::Complex>, {part_of(a), part_of(b)}, {}, re.where));
}
SINTER_DECL Tensor polar(const In& abs, const In& angle) {
  const expr_detail::Term size = expr_detail::floating(abs), turn = expr_detail::floating(angle);
  return complex(In(size * expr_detail::apply<ops::Cos>(turn)), In(size * expr_detail::apply<ops::Sin>(turn)));
}

SINTER_DECL bool is_complex(const In& x) { return x.leaf.value && is_complex(x.leaf.value->type.dtype); }
SINTER_DECL Tensor real(const In& z) {
  const Ref<TensorImpl> value = z.tensor();
  return is_complex(value->type.dtype) ? expr_detail::record<ops::Real>({Leaf(value)}, {}, z.where) : Tensor(value);
}
SINTER_DECL Tensor imag(const In& z) { return expr_detail::record<ops::Imag>({Leaf(z.tensor())}, {}, z.where); }
SINTER_DECL Tensor conj(const In& z) {
  if (!is_complex(z)) return Tensor(z.tensor());
  const complex_detail::Number number = complex_detail::Number::of(z);
  return complex_detail::Number{number.re, -number.imaginary()}.tensor();
}
SINTER_DECL Tensor angle(const In& z) {
  if (is_complex(z)) return complex_detail::angle_of(complex_detail::Number::of(z));
  const expr_detail::Term x = expr_detail::floating(z);
  const expr_detail::Term turn = where_of(x < 0.0, std::numbers::pi, expr_detail::Term(zeros_like(In(x)), z.where));
  return where_of(x != x, x, turn);
}
SINTER_DECL Tensor view_as_real(const In& z) {
  return expr_detail::record<ops::ViewAsReal>({Leaf(z.tensor())}, {}, z.where);
}
SINTER_DECL Tensor view_as_complex(const In& pairs) {
  return expr_detail::record<ops::ViewAsComplex>({Leaf(pairs.tensor())}, {}, pairs.where);
}

SINTER_NAMESPACE_END
