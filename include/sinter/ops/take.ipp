// Shape rules, derivatives and batching of take, scatter and scatter_add, decomposition of one_hot.
#pragma once

#include <sinter/ops/batch.hpp>
#include <sinter/ops/take.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// How index and table of a take or scatter lie to each other.
struct TakeAxes {
  int axis = 0, shared = 0, inner = 0;
};
template <class Op>
TakeAxes take_axes(const Attrs& attrs, int rank, std::string_view op, Location where) {
  if (attrs.axes.size() != 1)
    throw IndexError(op, "one axis is required, not " + std::to_string(attrs.axes.size()), where);
  return {normalise_axis(static_cast<int>(attrs.axes[0]), rank, op, where), static_cast<int>(attrs[Op::shared]),
          static_cast<int>(attrs[Op::inner])};
}
template <class Op>
Attrs attrs_of(const TakeAxes& axes) {
  return Attrs{.axes = {axes.axis}}.with(Op::shared, axes.shared).with(Op::inner, axes.inner);
}

/// `table` with the axis replaced by the axes of `index` between those that they share.
inline Shape taken_shape(const InferArgs& args, const Shape& table, const Shape& index, const TakeAxes& axes) {
  bool fits = axes.shared >= 0 && axes.shared <= axes.axis && axes.inner >= 0 &&
              axes.shared + axes.inner <= index.rank() &&
              (axes.inner == 0 || axes.inner == table.rank() - 1 - axes.axis);
  for (int i = 0; fits && i < axes.shared; ++i) fits = table[i] == index[i];
  for (int i = 1; fits && i <= axes.inner; ++i) fits = table[table.rank() - i] == index[index.rank() - i];
  if (!fits)
    throw ShapeError(args.op, "x is " + table.text() + ", index is " + index.text(), args.where,
                     "the first " + std::to_string(axes.shared) + " and the last " + std::to_string(axes.inner) +
                         " axes must be the same and stand before and after axis " + std::to_string(axes.axis));
  Shape out;
  for (int i = 0; i < axes.axis; ++i) out.push_back(table[i], args.where);
  for (int i = axes.shared; i < index.rank(); ++i) out.push_back(index[i], args.where);
  for (int i = axes.axis + 1; axes.inner == 0 && i < table.rank(); ++i) out.push_back(table[i], args.where);
  return out;
}

inline Val scatter_at(Val base, Val index, Val value, const TakeAxes& axes, Combine combine) {
  return apply(op_info<ops::Scatter>, {base, index, value},
               attrs_of<ops::Scatter>(axes).with(ops::Scatter::combine, combine));
}
inline Val take_at(Val x, Val index, const TakeAxes& axes) {
  return apply(op_info<ops::Take>, {x, index}, attrs_of<ops::Take>(axes));
}
inline Val zeros_for(Val value, const Shape& shape) { return full(value, shape, value.dtype(), 0); }

/// A gather whose steps along the checked axis have length 0: it reads `values` themselves.
SINTER_DECL Val checked_index(Val values, Val index, Dim extent) {
  const Dim count = values.shape().numel();
  const Val table = expand(reshape(values, {count, 1}), {count, extent});
  const Val checked =
      apply(op_info<ops::Take>, {table, reshape(index, {count})}, Attrs{.axes = {1}}.with(ops::Take::shared, 1));
  return reshape(checked, values.shape());
}

/// Of the factors of a place the product is formed without the first two zeros. Divided by a factor it is that one's
/// slope; of the first zero it is the slope itself. The zeros that are among a slope's factors are multiplied to it:
/// they are 0, and make second derivatives hold.
inline ValList scattered_product_vjp(const VjpArgs& a, const TakeAxes& axes) {
  const Val base = a.in[0], value = a.in[2];
  const auto taken = [&](Val x) { return take_at(x, a.in[1], axes); };
  const auto scattered = [&](Val into, Val values, Combine combine) {
    return scatter_at(into, a.in[1], values, axes, combine);
  };
  constexpr double beyond = 0x1p62;  // the numbers of the elements are below it, and the base's is -1
  const auto number_of = [&](Val like, double number) { return full(like, like.shape(), DType::i64, number); };
  const Val numbers = reshape(iota(value, {value.shape().numel()}, 0, DType::i64), value.shape());
  const Val base_is_zero = eq(base, 0), is_zero = eq(value, 0), none = number_of(value, beyond);
  const Val first = scattered(where(base_is_zero, number_of(base, -1), number_of(base, beyond)),
                              where(is_zero, numbers, none), Combine::min);
  const Val is_first = logical_and(is_zero, eq(numbers, taken(first)));
  const Val is_later = logical_and(is_zero, gt(numbers, taken(first)));
  const Val second = scattered(number_of(base, beyond), where(is_later, numbers, none), Combine::min);
  const Val is_second = logical_and(is_later, eq(numbers, taken(second)));
  const Val has_zero = lt(first, beyond), has_two = lt(second, beyond);
  const Val at_first = scattered(where(base_is_zero, base, 0), where(is_first, value, 0), Combine::add);
  const Val at_second = scattered(full_like(base, 0), where(is_second, value, 0), Combine::add);
  const Val share =
      a.dout * scattered(where(base_is_zero, 1, base), where(logical_or(is_first, is_second), 1, value), Combine::mul);
  const auto times = [](Val zero, Val slope) {  // 0, also where the slope has overflown
    return where(lt(abs(slope), std::numeric_limits<double>::infinity()), zero * slope, full_like(slope, 0));
  };
  const Val of_first = where(has_two, times(at_second, share), share), of_second = times(at_first, share);
  const auto of_other = [&](Val factor, Val each_share, Val zero, Val is_one, Val is_two) {
    const Val slope = each_share / factor;
    return where(is_two, full_like(slope, 0), where(is_one, times(zero, slope), slope));
  };
  const Val by_base =
      where(base_is_zero, of_first, of_other(where(base_is_zero, 1, base), share, at_first, has_zero, has_two));
  const Val by_other = of_other(where(is_zero, 1, value), taken(share), taken(at_first), lt(taken(first), beyond),
                                lt(taken(second), beyond));
  const Val by_zero = where(is_first, taken(of_first), where(is_second, taken(of_second), full_like(value, 0)));
  return {by_base, Val{}, where(is_zero, by_zero, by_other)};
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Take::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 1);
  const int axis = ops_detail::first_axis(args);
  const ops_detail::TakeAxes axes{axis, static_cast<int>(args.attrs[shared]), static_cast<int>(args.attrs[inner])};
  return ops_detail::with_shape(args, ops_detail::taken_shape(args, args.in[0].shape, args.in[1].shape, axes));
}
SINTER_DECL ValList Take::vjp(const VjpArgs& a) {
  const Shape shape = a.in[0].shape();
  const auto axes = ops_detail::take_axes<Take>(a.attrs, shape.rank(), "take", a.where);
  if (axes.shared == 0 && axes.inner == 0) return {scatter_add(a.in[1], a.dout, shape, axes.axis), Val{}};
  return {ops_detail::scatter_at(ops_detail::zeros_for(a.dout, shape), a.in[1], a.dout, axes, Combine::add), Val{}};
}

SINTER_DECL Type Scatter::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 1);
  const int axis = ops_detail::first_axis(args);
  if (args.in[0].dtype != args.in[2].dtype)
    throw DTypeError(args.op,
                     "the values are " + std::string(name(args.in[2].dtype)) + ", what they change is " +
                         std::string(name(args.in[0].dtype)),
                     args.where);
  const ops_detail::TakeAxes axes{axis, static_cast<int>(args.attrs[shared]), static_cast<int>(args.attrs[inner])};
  const Shape expected = ops_detail::taken_shape(args, args.in[0].shape, args.in[1].shape, axes);
  if (!(expected == args.in[2].shape))
    throw ShapeError(args.op, "index is " + args.in[1].shape.text() + ", value is " + args.in[2].shape.text(),
                     args.where,
                     "into a tensor of " + args.in[0].shape.text() + " the value must be " + expected.text());
  return ops_detail::with_shape(args, args.in[0].shape);
}

SINTER_DECL ValList Scatter::vjp(const VjpArgs& a) {
  const Val base = a.in[0], index = a.in[1], value = a.in[2], dout = a.dout;
  const auto axes = ops_detail::take_axes<Scatter>(a.attrs, base.rank(), "scatter", a.where);
  const auto taken = [&](Val x) { return ops_detail::take_at(x, index, axes); };
  const auto scattered = [&](Val into, Val values, Combine combine) {
    return ops_detail::scatter_at(into, index, values, axes, combine);
  };
  switch (a.attrs[combine]) {
    case Combine::add: return {dout, Val{}, taken(dout)};
    case Combine::none: {  // of the values for one place the last one is there
      const Shape shape = value.shape();
      const Val number = reshape(iota(value, {shape.numel()}, 0, DType::i64), shape);
      const Val last = scattered(full(base, base.shape(), DType::i64, 0), number, Combine::none);
      return {scattered(dout, full(value, shape, value.dtype(), 0), Combine::none), Val{},
              where(eq(taken(last), number), taken(dout), 0)};
    }
    case Combine::mul: return ops_detail::scattered_product_vjp(a, axes);
    case Combine::min:
    case Combine::max: {  // shared out evenly among all that are the least
      const Val is_base = cast(eq(base, a.out), dout.dtype()), is_value = cast(eq(value, taken(a.out)), dout.dtype());
      const Val share = dout / scattered(is_base, is_value, Combine::add);
      return {share * is_base, Val{}, taken(share) * is_value};
    }
  }
  __builtin_unreachable();
}

SINTER_DECL Type ScatterAdd::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 0);
  if (args.attrs.axes.size() != 1)
    throw IndexError(args.op, "one axis is required, not " + std::to_string(args.attrs.axes.size()), args.where);
  const int axis = ops_detail::checked_axis(args, args.attrs.axes[0], args.attrs.shape.rank());
  const Shape expected = ops_detail::taken_shape(args, args.attrs.shape, args.in[0].shape, {.axis = axis});
  if (!(expected == args.in[1].shape))
    throw ShapeError(args.op, "index is " + args.in[0].shape.text() + ", value is " + args.in[1].shape.text(),
                     args.where,
                     "for a result of " + args.attrs.shape.text() + " the value must be " + expected.text());
  return ops_detail::with_shape(args, args.attrs.shape, args.in[1].dtype);
}
SINTER_DECL ValList ScatterAdd::vjp(const VjpArgs& a) {
  return {Val{}, take(a.dout, a.in[0], static_cast<int>(a.attrs.axes[0]))};
}

SINTER_DECL Type OneHot::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 0);
  ensure(args.attrs.has(classes), "one_hot: the number of classes is required");
  Shape out = args.in[0].shape;
  out.push_back(args.attrs[classes], args.where);
  return ops_detail::with_shape(args, out, args.attrs.dtype);
}
SINTER_DECL Val OneHot::decompose(const DecomposeArgs& args) {
  const Val index = ops_detail::checked_index(args.in[0], args.in[0], args.attrs[classes]);
  Shape column = index.shape(), whole = index.shape();
  column.push_back(1);
  whole.push_back(args.attrs[classes]);
  return cast(eq(reshape(index, column), iota(index, whole, whole.rank() - 1, index.dtype())), args.attrs.dtype);
}

SINTER_DECL Batched Take::batch(const BatchArgs& a) {
  const int rank = a.in[0].rank() - (a.is_batched(0) ? 1 : 0);
  const auto axes = ops_detail::take_axes<Take>(a.attrs, rank, "take", a.where);
  if (axes.shared == 0 && axes.inner == 0) {
    if (!a.is_batched(1)) return take(a.in[0], a.in[1], axes.axis + 1);
    if (!a.is_batched(0)) return ops_detail::move_axis(take(a.in[0], a.in[1], axes.axis), axes.axis, 0);
  }
  return ops_detail::take_at(ops_detail::with_batch(a, 0), ops_detail::with_batch(a, 1),
                             {axes.axis + 1, axes.shared + 1, axes.inner});
}

SINTER_DECL Batched Scatter::batch(const BatchArgs& a) {
  const int rank = a.in[0].rank() - (a.is_batched(0) ? 1 : 0);
  const auto axes = ops_detail::take_axes<Scatter>(a.attrs, rank, "scatter", a.where);
  const Val base = ops_detail::with_batch(a, 0), value = ops_detail::with_batch(a, 2);
  if (axes.shared == 0 && axes.inner == 0 && !a.is_batched(1))
    return ops_detail::scatter_at(base, a.in[1], value, {axes.axis + 1, 0, 0}, a.attrs[combine]);
  return ops_detail::scatter_at(base, ops_detail::with_batch(a, 1), value, {axes.axis + 1, axes.shared + 1, axes.inner},
                                a.attrs[combine]);
}

SINTER_DECL Batched ScatterAdd::batch(const BatchArgs& a) {
  const int axis = normalise_axis(static_cast<int>(a.attrs.axes[0]), a.attrs.shape.rank(), "scatter_add", a.where);
  const Val value = ops_detail::with_batch(a, 1);
  const Shape shape = ops_detail::batched_shape(a.size, a.attrs.shape);
  if (!a.is_batched(0)) return scatter_add(a.in[0], value, shape, axis + 1);
  return ops_detail::scatter_at(ops_detail::zeros_for(value, shape), a.in[0], value, {axis + 1, 1, 0}, Combine::add);
}

SINTER_DECL Batched OneHot::batch(const BatchArgs& a) { return apply(a.op, a.in, a.attrs); }

}  // namespace ops
SINTER_NAMESPACE_END
