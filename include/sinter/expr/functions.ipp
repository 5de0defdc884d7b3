// Reductions, views, joins and parts: normalises axes and broadcasting, fills Attrs, and leaves shape rules to the ops.
#pragma once

#include <sinter/expr/functions.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/ops/scalar_meaning.hpp>

SINTER_NAMESPACE_BEGIN

// ---- reductions

namespace expr_detail {
/// What sums and products are made of: bool and integers as i64, which holds more of them; u64 stays.
inline In counted(const In& x) {
  const Ref<TensorImpl> value = x.tensor();
  const bool is_kept = is_differentiable(value->type.dtype) || value->type.dtype == DType::u64;
  return In(is_kept ? Tensor(value) : cast(In(Tensor(value), x.where), DType::i64), x.where);
}
/// A mean or variance. That of integers is computed in f64, which holds them, and given as f32.
template <class Op>
Tensor statistic(const In& x, Axes axes, Keep keep) {
  const Tensor given(x.tensor());
  if (is_differentiable(given.dtype())) return reduce<Op>(In(given, x.where), axes, keep);
  return cast(In(reduce<Op>(In(cast(In(given, x.where), DType::f64), x.where), axes, keep), x.where), DType::f32);
}
}  // namespace expr_detail
SINTER_DECL Tensor sum(const In& x, Axes axes, Keep keep) {
  return expr_detail::reduce<ops::Sum>(expr_detail::counted(x), axes, keep);
}
SINTER_DECL Tensor prod(const In& x, Axes axes, Keep keep) {
  return expr_detail::reduce<ops::Prod>(expr_detail::counted(x), axes, keep);
}
SINTER_DECL Tensor mean(const In& x, Axes axes, Keep keep) { return expr_detail::statistic<ops::Mean>(x, axes, keep); }
SINTER_DECL Tensor var(const In& x, Axes axes, Keep keep) { return expr_detail::statistic<ops::Var>(x, axes, keep); }
SINTER_DECL Tensor amax(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Amax>(x, axes, keep); }
SINTER_DECL Tensor amin(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Amin>(x, axes, keep); }
SINTER_DECL Tensor any(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Any>(x, axes, keep); }
SINTER_DECL Tensor All::operator()(const In& x, Axes axes, Keep keep) const {
  return expr_detail::reduce<ops::All>(x, axes, keep);
}
SINTER_DECL Tensor argmax(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Argmax>(x, axes, keep); }
SINTER_DECL Tensor argmin(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Argmin>(x, axes, keep); }

// ---- views

SINTER_DECL Tensor reshape(const In& x, const Shape& shape) {
  Ref<TensorImpl> value = x.tensor();
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.shape = shape;
  int open = -1;
  Dim known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i].is_static() && shape[i].value() == -1) {
      if (open >= 0) throw ShapeError("reshape", "more than one extent of " + shape.text() + " is -1", x.where);
      open = i;
    } else {
      known = known * shape[i];
    }
  }
  if (open >= 0) {
    if (known.is_static() && known.value() == 0)
      throw ShapeError("reshape", "-1 in " + shape.text() + " has no single answer", x.where);
    const Dim elements = value->type.shape.numel(x.where);
    if (elements.is_static() && known.is_static() && elements.value() % known.value() != 0)
      throw ShapeError("reshape",
                       value->type.shape.text() + " has " + elements.text() + " elements, the extents of " +
                           shape.text() + " but -1 multiply to " + known.text(),
                       x.where, "-1 stands for a whole number: their product must divide the elements");
    attrs.shape.set(open, elements / known);
  }
  if (identical(attrs.shape, value->type.shape)) return Tensor(value);
  return expr_detail::record<ops::Reshape>({Leaf(std::move(value))}, std::move(shared), x.where);
}

SINTER_DECL Tensor permute(const In& x, Axes order) {
  Ref<TensorImpl> value = x.tensor();
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  bool is_identity = true;
  for (std::int64_t axis : order.list()) {
    attrs.axes.push_back(normalise_axis(static_cast<int>(axis), value->type.shape.rank(), "permute", x.where));
    is_identity &= attrs.axes.back() == static_cast<std::int64_t>(attrs.axes.size()) - 1;
  }
  if (is_identity && static_cast<int>(attrs.axes.size()) == value->type.shape.rank()) return Tensor(value);
  return expr_detail::record<ops::Permute>({Leaf(std::move(value))}, std::move(shared), x.where);
}

SINTER_DECL Tensor transpose(const In& x, int a, int b) {
  Ref<TensorImpl> value = x.tensor();
  int rank = value->type.shape.rank();
  a = normalise_axis(a, rank, "transpose", x.where);
  b = normalise_axis(b, rank, "transpose", x.where);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  for (int i = 0; i < rank; ++i) attrs.axes.push_back(i == a ? b : i == b ? a : i);
  if (a == b) return Tensor(value);
  return expr_detail::record<ops::Permute>({Leaf(std::move(value))}, std::move(shared), x.where);
}

SINTER_DECL Tensor expand(const In& x, const Shape& shape) {
  Ref<TensorImpl> value = x.tensor();
  const Shape& from = value->type.shape;
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.shape = shape;
  for (int i = 1; i <= std::min(shape.rank(), from.rank()); ++i)
    if (shape[-i].is_static() && shape[-i].value() == -1) attrs.shape.set(shape.rank() - i, from[-i]);
  if (identical(attrs.shape, from)) return Tensor(value);
  return expr_detail::record<ops::Expand>({Leaf(std::move(value))}, std::move(shared), x.where);
}

SINTER_DECL Tensor unsqueeze(const In& x, Axes axes) {
  const Ref<TensorImpl> value = x.tensor();
  const Shape& from = value->type.shape;
  const int rank = from.rank() + static_cast<int>(axes.list().size());
  if (rank > max_rank)
    throw ShapeError("unsqueeze", from.text() + " has no room for " + std::to_string(axes.list().size()) + " axes",
                     x.where, "rank is limited to " + std::to_string(max_rank));
  if (axes.empty()) return Tensor(value);
  const IntVector added = expr_detail::reduced_axes(axes, rank, "unsqueeze", x.where);
  Shape shape = from;
  for (std::int64_t axis : added) shape.insert(static_cast<int>(axis), 1);
  return reshape(In(Tensor(value), x.where), shape);
}
SINTER_DECL Tensor squeeze(const In& x, Axes axes) {
  const Ref<TensorImpl> value = x.tensor();
  const Shape& from = value->type.shape;
  const IntVector named = expr_detail::reduced_axes(axes, from.rank(), "squeeze", x.where);
  Shape shape = from;
  for (std::size_t i = named.size(); i-- > 0;) {
    const int axis = static_cast<int>(named[i]);
    const bool may_be_one = from[axis].is_static() || from[axis].as_symbol() < 0 || !axes.empty();
    if (may_be_one && from[axis] == Dim(1)) shape.erase(axis);
    else if (!axes.empty())
      throw ShapeError(
          "squeeze",
          "axis " + std::to_string(axis) + " of " + from.text() + " has extent " + from[axis].text() + ", not 1",
          x.where);
  }
  return reshape(In(Tensor(value), x.where), shape);
}
SINTER_DECL Tensor flatten(const In& x, int first, int last) {
  const Shape shape = x.tensor()->type.shape;
  if (shape.rank() == 0) return reshape(x, Shape{1});
  first = normalise_axis(first, shape.rank(), "flatten", x.where);
  last = normalise_axis(last, shape.rank(), "flatten", x.where);
  if (first > last)
    throw IndexError(
        "flatten",
        "the first axis is " + std::to_string(first) + ", the last one " + std::to_string(last) + " of " + shape.text(),
        x.where, "the last one must not stand before the first");
  Shape out;
  Dim merged = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < first || i > last) out.push_back(shape[i]);
    else merged = merged * shape[i];
    if (i == last) out.push_back(merged);
  }
  return reshape(x, out);
}

// ---- joins and parts

SINTER_DECL Tensor concat(std::span<const Tensor> parts, int axis, Location where) {
  if (parts.empty()) throw ShapeError("concat", "no tensors were given", where);
  DType dtype = parts[0].dtype();
  for (const Tensor& part : parts) dtype = promote(dtype, part.dtype(), "concat", where);
  std::vector<Leaf> leaves;
  for (const Tensor& part : parts) leaves.emplace_back(cast(In(part, where), dtype).impl());
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes.push_back(normalise_axis(axis, parts[0].rank(), "concat", where));
  if (parts.size() == 1) return parts[0];
  return Tensor(record_shared(op_info<ops::Concat>, leaves, std::move(shared), where));
}
SINTER_DECL Tensor concat(std::initializer_list<Tensor> parts, int axis, Location where) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis, where);
}
SINTER_DECL Tensor stack(std::span<const Tensor> parts, int axis, Location where) {
  std::vector<Tensor> lifted;
  if (parts.empty()) throw ShapeError("stack", "no tensors were given", where);
  for (std::size_t k = 1; k < parts.size(); ++k)
    if (!(parts[k].shape() == parts[0].shape()))
      throw ShapeError("stack",
                       "operand 0 is " + parts[0].shape().text() + ", operand " + std::to_string(k) + " is " +
                           parts[k].shape().text(),
                       where, "all must have one shape; concat joins along an axis that they have");
  for (const Tensor& part : parts) lifted.push_back(unsqueeze(In(part, where), axis));
  return concat(lifted, axis, where);
}
SINTER_DECL Tensor stack(std::initializer_list<Tensor> parts, int axis, Location where) {
  return stack(std::span<const Tensor>(parts.begin(), parts.size()), axis, where);
}
SINTER_DECL std::vector<Tensor> split(const In& x, int parts, int axis) {
  Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "split", x.where);
  Dim extent = whole.shape()[axis];
  if (parts <= 0) throw ShapeError("split", std::to_string(parts) + " parts", x.where);
  if (!(extent % Dim(parts) == Dim(0)))
    throw ShapeError(
        "split",
        "extent " + extent.text() + " of axis " + std::to_string(axis) + " is no multiple of " + std::to_string(parts),
        x.where);
  std::vector<Tensor> out;
  std::vector<Index> positions(as_index(axis) + 1, Index(all));
  for (int i = 0; i < parts; ++i) {
    positions.back() = Index(Slice{extent / Dim(parts) * Dim(i), extent / Dim(parts) * Dim(i + 1), 1});
    out.push_back(index(In(whole, x.where), positions));
  }
  return out;
}

SINTER_NAMESPACE_END
