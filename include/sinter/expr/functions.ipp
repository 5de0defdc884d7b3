// Reductions, views, joins and parts: normalises axes and broadcasting, fills Attrs, and leaves shape rules to the ops.
#pragma once

#include <sinter/expr/functions.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/ops/scalar_meaning.hpp>

SINTER_NAMESPACE_BEGIN

// ---- reductions

namespace expr_detail {
/// What sums and products are made of: bool and i32 as i64, which holds more of them.
inline In counted(const In& x) {
  const Ref<TensorImpl> value = x.tensor();
  return In(is_floating(value->type.dtype) ? Tensor(value) : cast(In(Tensor(value), x.where), DType::i64), x.where);
}
/// A mean or variance. That of integers is computed in f64, which holds them, and given as f32.
template <class Op>
Tensor statistic(const In& x, Axes axes, Keep keep) {
  const Tensor given(x.tensor());
  if (is_floating(given.dtype())) return reduce<Op>(In(given, x.where), axes, keep);
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
SINTER_DECL Tensor argmax(const In& x, int axis, Keep keep) {
  return expr_detail::along_axis<ops::Argmax>(x, axis, keep);
}
SINTER_DECL Tensor argmin(const In& x, int axis, Keep keep) {
  return expr_detail::along_axis<ops::Argmin>(x, axis, keep);
}
SINTER_DECL Tensor logsumexp(const In& x, int axis, Keep keep) {
  return expr_detail::along_axis<ops::Logsumexp>(x, axis, keep);
}

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
    attrs.shape.set(open, value->type.shape.numel(x.where) / known);
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
  if (identical(shape, value->type.shape)) return Tensor(value);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.shape = shape;
  return expr_detail::record<ops::Expand>({Leaf(std::move(value))}, std::move(shared), x.where);
}

SINTER_DECL Tensor unsqueeze(const In& x, int axis) {
  Shape shape = x.tensor()->type.shape;
  axis = normalise_axis(axis, shape.rank() + 1, "unsqueeze", x.where);
  shape.insert(axis, 1);
  return reshape(x, shape);
}
SINTER_DECL Tensor squeeze(const In& x, int axis) {
  Shape shape = x.tensor()->type.shape;
  axis = normalise_axis(axis, shape.rank(), "squeeze", x.where);
  if (!(shape[axis] == Dim(1)))
    throw ShapeError(
        "squeeze",
        "axis " + std::to_string(axis) + " of " + shape.text() + " has extent " + shape[axis].text() + ", not 1",
        x.where);
  shape.erase(axis);
  return reshape(x, shape);
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
  for (const Tensor& part : parts) dtype = promote(dtype, part.dtype());
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
SINTER_DECL Tensor pad(const In& x, std::initializer_list<std::pair<int, int>> widths, double value) {
  return pad(x, std::span<const std::pair<int, int>>(widths.begin(), widths.size()), value);
}
SINTER_DECL Tensor pad(const In& x, std::span<const std::pair<int, int>> widths, double value) {
  Ref<TensorImpl> input = x.tensor();
  if (static_cast<int>(widths.size()) != input->type.shape.rank())
    throw ShapeError("pad", std::to_string(widths.size()) + " widths for shape " + input->type.shape.text(), x.where,
                     "give one {low, high} per axis");
  Shape below, above;
  for (auto [low, high] : widths) {
    if (low < 0 || high < 0)
      throw ShapeError("pad", "widths must not be negative", x.where, "slice to make a tensor smaller");
    below.push_back(low);
    above.push_back(high);
  }
  Attrs element;
  expr_detail::fill_with(element, Scalar(value), input->type.dtype, "pad", x.where);
  Attrs attrs{.value = input->type.dtype == DType::bool_ ? static_cast<double>(element.integer) : value};
  attrs.set(ops::Pad::low, below);
  attrs.set(ops::Pad::high, above);
  return expr_detail::record<ops::Pad>({Leaf(std::move(input))}, std::move(attrs), x.where);
}
SINTER_DECL Tensor roll(const In& x, std::int64_t shift, int axis) {
  Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "roll", x.where);
  Dim extent = whole.shape()[axis];
  if (extent.is_static())
    shift = extent.value() == 0 ? 0 : ((shift % extent.value()) + extent.value()) % extent.value();
  if (shift == 0) return whole;
  if (extent.as_symbol() < 0 && !extent.is_static() && extent == Dim(0))
    return whole;  // asked for: a symbol alone is never 0
  const bool is_within = expr_detail::is_at_most(shift > 0 ? shift : -shift, extent);
  Dim cut = !is_within ? Dim(-shift) % extent : shift > 0 ? extent - Dim(shift) : Dim(-shift);
  std::vector<Index> head(as_index(axis) + 1, Index(all)), tail = head;
  head.back() = Index(Slice{0, cut, 1});
  tail.back() = Index(Slice{cut, extent, 1});
  return concat({index(In(whole, x.where), tail), index(In(whole, x.where), head)}, axis, x.where);
}

SINTER_NAMESPACE_END
