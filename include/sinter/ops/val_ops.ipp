// The algebra of Vals.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/complex.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/scalar_meaning.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Operands as an elementwise op wants them: of one dtype, floating where the op's rule says so.
inline void unify_dtypes(const OpInfo& op, ValList& operands) {
  const std::size_t first = op.dtypes == DTypeRule::select ? 1 : 0;
  if (op.dtypes == DTypeRule::attribute || op.dtypes == DTypeRule::first || operands.size() <= first) return;
  DType dtype = operands[first].dtype();
  for (const Val& v : operands)
    if (&v != &operands[0] || first == 0) dtype = promote(dtype, v.dtype());
  if (op.dtypes == DTypeRule::floating && !is_floating(dtype)) dtype = DType::f32;
  for (std::size_t i = first; i < operands.size(); ++i) operands[i] = cast(operands[i], dtype);
}

inline Val make(Val context, const OpInfo& op, Attrs attrs) {
  return {context.builder, context.builder->add(op, std::span<const Value>{}, std::move(attrs), context.where),
          context.where};
}

inline Val reduce(const OpInfo& op, Val x, const IntVector& axes, ReducedAxes reduced) {
  if (axes.empty()) return x;
  if (is_complex(x.dtype()) && &op == &op_info<ops::Sum>)
    return complex(sum(real(x), axes, reduced), sum(imag(x), axes, reduced));
  return apply(op, {x}, Attrs{.axes = axes, .keepdim = reduced == ReducedAxes::kept});
}

}  // namespace ops_detail

SINTER_DECL Val apply(const OpInfo& op, std::span<const Val> in, Attrs attrs) {
  ensure(!in.empty(), "apply: an operand is required");
  ValList operands(in.begin(), in.end());
  if (op.kind == OpKind::elementwise) ops_detail::unify_dtypes(op, operands);
  Values values;
  for (const Val& v : operands) {
    ensure(v.builder == in[0].builder && v.builder != nullptr, "operands of different graphs");
    values.push_back(v.value);
  }
  return {in[0].builder, in[0].builder->add(op, std::span<const Value>(values), std::move(attrs), in[0].where),
          in[0].where};
}

SINTER_DECL Val full(Val context, const Shape& shape, DType dtype, double value) {
  if (is_complex(dtype)) {
    const DType part = real_part_of(dtype);
    return complex(full(context, shape, part, value), full(context, shape, part, 0));
  }
  Attrs attrs{.shape = shape, .dtype = dtype, .has_dtype = true, .device = context.type().device};
  if (is_floating(dtype)) attrs.value = value;
  else attrs.integer = scalar_meaning::integer_of(value, dtype);
  return ops_detail::make(context, op_info<ops::Full>, std::move(attrs));
}
SINTER_DECL Val number(Val like, double value) { return full(like, {}, like.dtype(), value); }
SINTER_DECL Val integer_number(Val like, std::int64_t value) {
  return ops_detail::make(
      like, op_info<ops::Full>,
      Attrs{.integer = value, .dtype = like.dtype(), .has_dtype = true, .device = like.type().device});
}
SINTER_DECL Val full_like(Val like, double value) { return full(like, like.shape(), like.dtype(), value); }
SINTER_DECL Val iota(Val context, const Shape& shape, int axis, DType dtype) {
  return ops_detail::make(
      context, op_info<ops::Iota>,
      Attrs{.axes = {axis}, .shape = shape, .dtype = dtype, .has_dtype = true, .device = context.type().device});
}

SINTER_DECL Val operator+(Val a, Val b) {
  if (is_complex(a.dtype()) || is_complex(b.dtype())) return complex(real(a) + real(b), imag(a) + imag(b));
  return apply(op_info<ops::Add>, {a, b});
}
SINTER_DECL Val operator-(Val a, Val b) { return apply(op_info<ops::Sub>, {a, b}); }
SINTER_DECL Val operator*(Val a, Val b) { return apply(op_info<ops::Mul>, {a, b}); }
SINTER_DECL Val operator/(Val a, Val b) { return apply(op_info<ops::Div>, {a, b}); }
SINTER_DECL Val operator-(Val a) { return apply(op_info<ops::Neg>, {a}); }

SINTER_DECL Val eq(Val a, Val b) { return apply(op_info<ops::Eq>, {a, b}); }
SINTER_DECL Val ne(Val a, Val b) { return apply(op_info<ops::Ne>, {a, b}); }
SINTER_DECL Val lt(Val a, Val b) { return apply(op_info<ops::Lt>, {a, b}); }
SINTER_DECL Val le(Val a, Val b) { return apply(op_info<ops::Le>, {a, b}); }
SINTER_DECL Val gt(Val a, Val b) { return apply(op_info<ops::Gt>, {a, b}); }
SINTER_DECL Val ge(Val a, Val b) { return apply(op_info<ops::Ge>, {a, b}); }
SINTER_DECL Val logical_and(Val a, Val b) { return apply(op_info<ops::And>, {a, b}); }
SINTER_DECL Val logical_or(Val a, Val b) { return apply(op_info<ops::Or>, {a, b}); }
SINTER_DECL Val logical_not(Val a) { return apply(op_info<ops::Not>, {a}); }
SINTER_DECL Val is_nan(Val a) { return ne(a, a); }

SINTER_DECL Val where(Val condition, Val a, Val b) {
  if (is_complex(a.dtype()) || is_complex(b.dtype()))
    return complex(where(condition, real(a), real(b)), where(condition, imag(a), imag(b)));
  return apply(op_info<ops::Where>, {condition, a, b});
}
SINTER_DECL Val maximum(Val a, Val b) { return apply(op_info<ops::Maximum>, {a, b}); }
SINTER_DECL Val minimum(Val a, Val b) { return apply(op_info<ops::Minimum>, {a, b}); }
SINTER_DECL Val pow(Val a, Val b) { return apply(op_info<ops::Pow>, {a, b}); }
SINTER_DECL Val floor_divide(Val a, Val b) { return apply(op_info<ops::FloorDivide>, {a, b}); }

SINTER_DECL Val exp(Val x) { return apply(op_info<ops::Exp>, {x}); }
SINTER_DECL Val log(Val x) { return apply(op_info<ops::Log>, {x}); }
SINTER_DECL Val sqrt(Val x) { return apply(op_info<ops::Sqrt>, {x}); }
SINTER_DECL Val rsqrt(Val x) { return apply(op_info<ops::Rsqrt>, {x}); }
SINTER_DECL Val sin(Val x) { return apply(op_info<ops::Sin>, {x}); }
SINTER_DECL Val cos(Val x) { return apply(op_info<ops::Cos>, {x}); }
SINTER_DECL Val erf(Val x) { return apply(op_info<ops::Erf>, {x}); }
SINTER_DECL Val abs(Val x) { return apply(op_info<ops::Abs>, {x}); }
SINTER_DECL Val sign(Val x) { return apply(op_info<ops::Sign>, {x}); }
SINTER_DECL Val square(Val x) { return apply(op_info<ops::Square>, {x}); }
SINTER_DECL Val reciprocal(Val x) { return apply(op_info<ops::Reciprocal>, {x}); }
SINTER_DECL Val sigmoid(Val x) { return apply(op_info<ops::Sigmoid>, {x}); }
SINTER_DECL Val cast(Val x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (is_complex(dtype)) return complex(cast(real(x), real_part_of(dtype)), cast(imag(x), real_part_of(dtype)));
  if (is_complex(x.dtype())) return cast(real(x), dtype);
  return apply(op_info<ops::Cast>, {x}, Attrs{.dtype = dtype, .has_dtype = true});
}

SINTER_DECL Val sum(Val x, const IntVector& axes, ReducedAxes reduced) {
  return ops_detail::reduce(op_info<ops::Sum>, x, axes, reduced);
}
SINTER_DECL Val prod(Val x, const IntVector& axes, ReducedAxes reduced) {
  return ops_detail::reduce(op_info<ops::Prod>, x, axes, reduced);
}
SINTER_DECL Val amax(Val x, const IntVector& axes, ReducedAxes reduced) {
  return ops_detail::reduce(op_info<ops::Amax>, x, axes, reduced);
}
SINTER_DECL Val amin(Val x, const IntVector& axes, ReducedAxes reduced) {
  return ops_detail::reduce(op_info<ops::Amin>, x, axes, reduced);
}
SINTER_DECL Val mean(Val x, const IntVector& axes, ReducedAxes reduced) {
  return sum(x, axes, reduced) / element_count(x, axes, x.dtype());
}

SINTER_DECL IntVector all_axes(Val x) {
  IntVector axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

SINTER_DECL Val element_count(Val x, const IntVector& axes, DType dtype) {
  const Shape shape = x.shape();
  Dim count = 1;
  for (std::int64_t axis : axes) count *= shape[static_cast<int>(axis)];
  if (count.is_static()) return full(x, {}, dtype, static_cast<double>(count.value()));
  return apply(op_info<ops::ElementCount>, {x}, Attrs{.axes = axes, .dtype = dtype, .has_dtype = true});
}

SINTER_DECL Val unreduce(Val reduced, const IntVector& axes, const Shape& shape) {
  Shape kept_axes = shape;
  for (std::int64_t axis : axes) kept_axes.set(static_cast<int>(axis < 0 ? axis + shape.rank() : axis), 1);
  return expand(reshape(reduced, kept_axes), shape);
}

SINTER_DECL Val sum_to_shape(Val x, const Shape& shape) {
  const Shape from = x.shape();
  if (identical(from, shape)) return x;
  const int added = from.rank() - shape.rank();
  if (added < 0) return x;  // narrower than `shape`: nothing to sum
  IntVector stretched;
  for (int i = 0; i < from.rank(); ++i)
    if (i < added || stretches(shape[i - added], from[i])) stretched.push_back(i);
  return expand(reshape(sum(x, stretched),
                        [&] {
                          // What the sum left, with 1 for each stretched axis of `shape`; elsewhere x may still be
                          // narrower than `shape`.
                          Shape left;
                          for (int i = 0; i < shape.rank(); ++i) {
                            const bool is_one = ops_detail::is_one(shape[i]) || stretches(shape[i], from[i + added]);
                            left.push_back(is_one ? Dim(1) : from[i + added]);
                          }
                          return left;
                        }()),
                shape);
}

SINTER_DECL Val reshape(Val x, const Shape& shape) {
  return identical(x.shape(), shape) ? x : apply(op_info<ops::Reshape>, {x}, Attrs{.shape = shape});
}
SINTER_DECL Val permute(Val x, const IntVector& axes) {
  bool is_identity = true;
  for (std::size_t i = 0; i < axes.size(); ++i) is_identity = is_identity && axes[i] == static_cast<std::int64_t>(i);
  return is_identity ? x : apply(op_info<ops::Permute>, {x}, Attrs{.axes = axes});
}
SINTER_DECL Val transpose(Val x) {
  IntVector axes = all_axes(x);
  ensure(axes.size() >= 2, "transpose: rank 2 or more is required");
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return permute(x, axes);
}
SINTER_DECL Val expand(Val x, const Shape& shape) {
  return identical(x.shape(), shape) ? x : apply(op_info<ops::Expand>, {x}, Attrs{.shape = shape});
}
SINTER_DECL Val slice(Val x, const Shape& starts, const Shape& ends, const IntVector& steps) {
  const Shape shape = x.shape();
  bool is_whole = identical(ends, shape);
  for (int i = 0; i < shape.rank(); ++i)
    is_whole = is_whole && ops_detail::is_zero(starts[i]) && steps[as_index(i)] == 1;
  return is_whole ? x
                  : apply(op_info<ops::Slice>, {x},
                          Attrs{}
                              .with(ops::Slice::starts, starts)
                              .with(ops::Slice::ends, ends)
                              .with(ops::Slice::steps, steps));
}
SINTER_DECL Val slice_axis(Val x, int axis, Dim start, Dim end) {
  Shape ends = x.shape(), starts = ops_detail::zero_starts(ends.rank());
  starts.set(axis, start);
  ends.set(axis, end);
  return slice(x, starts, ends, IntVector(as_index(ends.rank()), 1));
}
SINTER_DECL Val windows(Val x, const IntVector& axes, const IntVector& sizes, const IntVector& strides) {
  return apply(op_info<ops::Windows>, {x},
               Attrs{.axes = axes}.with(ops::Windows::sizes, sizes).with(ops::Windows::strides, strides));
}
SINTER_DECL Val pad(Val x, const Shape& low, const Shape& high, double value) {
  bool is_nothing = true;
  for (int i = 0; i < low.rank(); ++i)
    is_nothing = is_nothing && ops_detail::is_zero(low[i]) && ops_detail::is_zero(high[i]);
  return is_nothing
             ? x
             : apply(op_info<ops::Pad>, {x}, Attrs{.value = value}.with(ops::Pad::low, low).with(ops::Pad::high, high));
}
SINTER_DECL Val update_slice(Val base, Val value, const Shape& starts, const IntVector& steps) {
  bool covers = identical(base.shape(), value.shape());
  for (int i = 0; i < starts.rank(); ++i) covers = covers && ops_detail::is_zero(starts[i]) && steps[as_index(i)] == 1;
  if (!covers && is_complex(base.dtype()))
    return complex(update_slice(real(base), real(value), starts, steps),
                   update_slice(imag(base), imag(value), starts, steps));
  return covers ? value
                : apply(op_info<ops::UpdateSlice>, {base, value},
                        Attrs{}.with(ops::UpdateSlice::starts, starts).with(ops::UpdateSlice::steps, steps));
}
SINTER_DECL Val place(Val value, const Shape& shape, const Shape& starts, const IntVector& steps) {
  return update_slice(full(value, shape, value.dtype(), 0), value, starts, steps);
}

SINTER_DECL Val matmul(Val a, Val b) { return apply(op_info<ops::Matmul>, {a, b}); }
SINTER_DECL Val take(Val x, Val index, int axis) {
  return apply(op_info<ops::Take>, {x, index}, Attrs{.axes = {axis}});
}
SINTER_DECL Val scatter_add(Val index, Val value, const Shape& shape, int axis) {
  return apply(op_info<ops::ScatterAdd>, {index, value}, Attrs{.axes = {axis}, .shape = shape});
}
SINTER_DECL Val softmax(Val x, int axis) { return apply(op_info<ops::Softmax>, {x}, Attrs{.axes = {axis}}); }
SINTER_DECL Val softmax_or_zeros(Val x, int axis) {
  return apply(op_info<ops::Softmax>, {x},
               Attrs{.axes = {axis}}.with(ops::Softmax::empty_rows, ops::Softmax::EmptyRows::zeros));
}
SINTER_DECL Val logsumexp(Val x, int axis) { return apply(op_info<ops::Logsumexp>, {x}, Attrs{.axes = {axis}}); }

SINTER_NAMESPACE_END
