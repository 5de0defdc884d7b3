// Algebra on Vals: each function adds a node to the Val's builder, so that derivatives and decompositions read like the
// formulas in a book. Operands of different dtypes are promoted, numbers become scalars of the other operand's dtype,
// and what changes nothing (a reshape to the same shape, ...) adds no node. Definitions are in val_ops.ipp, which
// ops/registry.hpp includes after all ops: they need the ops, whose rules need these declarations.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/op.hpp>

SINTER_NAMESPACE_BEGIN

/// What a reduction leaves of the axes that it reduces: nothing, or an extent of 1.
enum class ReducedAxes : bool { dropped, kept };

/// Adds a node of `op`; elementwise operands are cast to the dtype that the op's rule asks for.
Val apply(const OpInfo& op, std::span<const Val> in, Attrs attrs = {});
inline Val apply(const OpInfo& op, std::initializer_list<Val> in, Attrs attrs = {}) {
  return apply(op, std::span<const Val>(in.begin(), in.size()), std::move(attrs));
}

// Values without operands, in the builder and with the line of `context`.
Val full(Val context, const Shape& shape, DType dtype, double value);
/// A scalar of `like`'s dtype.
Val number(Val like, double value);
/// The same of an integer dtype, exactly.
Val integer_number(Val like, std::int64_t value);
Val full_like(Val like, double value);
Val iota(Val context, const Shape& shape, int axis, DType dtype);

Val operator+(Val a, Val b);
Val operator-(Val a, Val b);
Val operator*(Val a, Val b);
Val operator/(Val a, Val b);
Val operator-(Val a);
inline Val operator+(Val a, double b) { return a + number(a, b); }
inline Val operator-(Val a, double b) { return a - number(a, b); }
inline Val operator*(Val a, double b) { return a * number(a, b); }
inline Val operator/(Val a, double b) { return a / number(a, b); }
inline Val operator+(double a, Val b) { return number(b, a) + b; }
inline Val operator-(double a, Val b) { return number(b, a) - b; }
inline Val operator*(double a, Val b) { return number(b, a) * b; }
inline Val operator/(double a, Val b) { return number(b, a) / b; }

Val eq(Val a, Val b);
Val ne(Val a, Val b);
Val lt(Val a, Val b);
Val le(Val a, Val b);
Val gt(Val a, Val b);
Val ge(Val a, Val b);
inline Val eq(Val a, double b) { return eq(a, number(a, b)); }
inline Val ne(Val a, double b) { return ne(a, number(a, b)); }
inline Val lt(Val a, double b) { return lt(a, number(a, b)); }
inline Val le(Val a, double b) { return le(a, number(a, b)); }
inline Val gt(Val a, double b) { return gt(a, number(a, b)); }
inline Val ge(Val a, double b) { return ge(a, number(a, b)); }
/// Logical on bool, bitwise on integers.
Val logical_and(Val a, Val b);
Val logical_or(Val a, Val b);
Val logical_not(Val a);
Val is_nan(Val a);

Val where(Val condition, Val a, Val b);
inline Val where(Val condition, Val a, double b) { return where(condition, a, number(a, b)); }
inline Val where(Val condition, double a, Val b) { return where(condition, number(b, a), b); }
Val maximum(Val a, Val b);
Val minimum(Val a, Val b);
Val pow(Val a, Val b);
Val floor_divide(Val a, Val b);

Val exp(Val x);
Val log(Val x);
Val sqrt(Val x);
Val rsqrt(Val x);
Val sin(Val x);
Val cos(Val x);
Val erf(Val x);
Val abs(Val x);
Val sign(Val x);
Val square(Val x);
Val reciprocal(Val x);
Val sigmoid(Val x);
Val cast(Val x, DType dtype);

Val sum(Val x, const IntVector& axes, ReducedAxes reduced = ReducedAxes::dropped);
Val prod(Val x, const IntVector& axes, ReducedAxes reduced = ReducedAxes::dropped);
Val amax(Val x, const IntVector& axes, ReducedAxes reduced = ReducedAxes::dropped);
Val amin(Val x, const IntVector& axes, ReducedAxes reduced = ReducedAxes::dropped);
Val mean(Val x, const IntVector& axes, ReducedAxes reduced = ReducedAxes::dropped);
/// Every axis of `x`.
IntVector all_axes(Val x);
/// Product of the extents of `axes` of `x`, as a scalar of `dtype`.
Val element_count(Val x, const IntVector& axes, DType dtype);
/// Undoes the loss of `axes`: puts 1 in their place, then stretches to `shape`.
Val unreduce(Val reduced, const IntVector& axes, const Shape& shape);
/// Sums over the axes along which broadcasting stretched `shape` to x's shape; an x that is narrower stretches if its
/// rank is that of `shape`.
Val sum_to_shape(Val x, const Shape& shape);

Val reshape(Val x, const Shape& shape);
Val permute(Val x, const IntVector& axes);
/// Exchanges the last two axes.
Val transpose(Val x);
Val expand(Val x, const Shape& shape);
Val slice(Val x, const Shape& starts, const Shape& ends, const IntVector& steps);
/// x[..., start:end, ...] along one axis.
Val slice_axis(Val x, int axis, Dim start, Dim end);
/// Sliding windows along `axes`; `sizes_and_strides` holds size and stride of each.
Val windows(Val x, const IntVector& axes, const IntVector& sizes, const IntVector& strides);
Val pad(Val x, const Shape& low, const Shape& high, double value);
Val update_slice(Val base, Val value, const Shape& starts, const IntVector& steps);
/// Zeros of `shape` with `value` at `starts`, every `steps` elements.
Val place(Val value, const Shape& shape, const Shape& starts, const IntVector& steps);

Val matmul(Val a, Val b);
Val take(Val x, Val index, int axis);
Val scatter_add(Val index, Val value, const Shape& shape, int axis);

Val softmax(Val x, int axis);
/// As softmax, but zeros where a row is -inf alone.
Val softmax_or_zeros(Val x, int axis);
Val logsumexp(Val x, int axis);

namespace ops {
inline constexpr ReducedAxes kept = ReducedAxes::kept;
}

SINTER_NAMESPACE_END
