// Checks, and what each of them is made of.
#pragma once

#include <sinter/expr/shapes.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

// ---- axes

SINTER_DECL DimList::DimList(std::initializer_list<Dim> dims) : dims_(dims) {}
SINTER_DECL DimList::DimList(const Shape& shape) : dims_(shape.begin(), shape.end()) {}
SINTER_DECL DimList::DimList(std::span<const Dim> dims) : dims_(dims.begin(), dims.end()) {}
SINTER_DECL DimList::DimList(const DimList& other) = default;
SINTER_DECL DimList::~DimList() = default;
SINTER_DECL std::span<const Dim> DimList::list() const { return dims_; }
SINTER_DECL void DimList::add(Dim dim) { dims_.push_back(dim); }

SINTER_DECL Tensor ravel(const In& x) { return flatten(x); }

SINTER_DECL Tensor unflatten(const In& x, int axis, const Shape& shape) {
  const Tensor whole(x.tensor());
  const Shape from = whole.shape();
  axis = normalise_axis(axis, from.rank(), "unflatten", x.where);
  int open = -1;
  Dim known = 1;
  bool fits = shape.rank() > 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool is_open = shape[i].is_static() && shape[i].value() == -1;
    fits &= !is_open || open < 0;
    if (is_open) open = i;
    else known = known * shape[i];
  }
  Shape parts = shape;
  if (open >= 0 && fits && !(known.is_static() && known.value() == 0)) parts.set(open, from[axis] / known);
  Dim product = 1;
  for (Dim part : parts.dims()) product = product * part;
  if (!fits || !(product == from[axis]))
    throw ShapeError("unflatten",
                     "axis " + std::to_string(axis) + " of " + from.text() + " has extent " + from[axis].text() +
                         ", which is not that of " + shape.text(),
                     x.where, "the product of the new extents must be the axis' extent; one of them may be -1");
  Shape out;
  for (int i = 0; i < from.rank(); ++i) {
    if (i != axis) out.push_back(from[i], x.where);
    for (int k = 0; i == axis && k < parts.rank(); ++k) out.push_back(parts[k], x.where);
  }
  return reshape(In(whole, x.where), out);
}

SINTER_DECL Tensor movedim(const In& x, Axes from, Axes to) {
  const Tensor whole(x.tensor());
  const int rank = whole.rank();
  if (from.list().size() != to.list().size())
    throw IndexError(
        "movedim",
        std::to_string(from.list().size()) + " axes are moved to " + std::to_string(to.list().size()) + " places",
        x.where, "name one place for each axis");
  std::vector<int> source(as_index(rank), -1);  // by place
  std::vector<std::uint8_t> is_moved(as_index(rank), 0);
  for (std::size_t i = 0; i < from.list().size(); ++i) {
    const int axis = normalise_axis(static_cast<int>(from.list()[i]), rank, "movedim", x.where);
    const int place = normalise_axis(static_cast<int>(to.list()[i]), rank, "movedim", x.where);
    if (is_moved[as_index(axis)] != 0 || source[as_index(place)] >= 0)
      throw IndexError("movedim", "an axis or a place is named twice", x.where);
    is_moved[as_index(axis)] = 1;
    source[as_index(place)] = axis;
  }
  int next = 0;
  for (int& axis : source) {
    if (axis >= 0) continue;
    while (is_moved[as_index(next)] != 0) ++next;
    axis = next++;
  }
  return permute(In(whole, x.where), Axes(source));
}

SINTER_DECL Tensor swapaxes(const In& x, int a, int b) { return transpose(x, a, b); }
SINTER_DECL Tensor swapdims(const In& x, int a, int b) { return transpose(x, a, b); }
SINTER_DECL Tensor moveaxis(const In& x, Axes from, Axes to) { return movedim(x, from, to); }
SINTER_DECL Tensor reshape_as(const In& x, const In& other) { return reshape(x, other.tensor()->type.shape); }

SINTER_DECL Tensor atleast_1d(const In& x) {
  const Tensor whole(x.tensor());
  return whole.rank() == 0 ? reshape(In(whole, x.where), Shape{1}) : whole;
}
SINTER_DECL Tensor atleast_2d(const In& x) {
  const Tensor whole = atleast_1d(x);
  return whole.rank() == 1 ? unsqueeze(In(whole, x.where), 0) : whole;
}
SINTER_DECL Tensor atleast_3d(const In& x) {
  const Tensor whole = atleast_2d(x);
  return whole.rank() == 2 ? unsqueeze(In(whole, x.where), 2) : whole;
}

// ---- broadcasting

SINTER_DECL Tensor broadcast_to(const In& x, const Shape& shape) { return expand(x, shape); }
SINTER_DECL Tensor expand_as(const In& x, const In& other) { return expand(x, other.tensor()->type.shape); }
SINTER_DECL std::vector<Tensor> broadcast_tensors(std::span<const Tensor> parts, Location where) {
  Shape shape;
  for (const Tensor& part : parts) shape = broadcast(shape, part.shape(), "broadcast_tensors", where);
  std::vector<Tensor> out;
  for (const Tensor& part : parts) out.push_back(expand(In(part, where), shape));
  return out;
}
SINTER_DECL std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> parts, Location where) {
  return broadcast_tensors(std::span<const Tensor>(parts.begin(), parts.size()), where);
}

// ---- parts

SINTER_DECL Tensor narrow(const In& x, int axis, Dim start, Dim length) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "narrow", x.where);
  const Dim extent = whole.shape()[axis];
  if (!expr_detail::is_at_most(0, start)) start = extent + start;
  if (!expr_detail::is_at_most(0, start) || !expr_detail::is_at_most(0, length) ||
      !expr_detail::is_at_most(start + length, extent))
    throw IndexError("narrow",
                     length.text() + " elements from " + start.text() + " on do not lie in axis " +
                         std::to_string(axis) + " of " + whole.shape().text(),
                     x.where);
  return expr_detail::part_of(whole, axis, start, start + length, x.where);
}

SINTER_DECL Tensor unfold(const In& x, int axis, std::int64_t size, std::int64_t step) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "unfold", x.where);
  if (size < 1 || step < 1 || !expr_detail::is_at_most(size, whole.shape()[axis]))
    throw ShapeError("unfold",
                     "parts of " + std::to_string(size) + " elements, each " + std::to_string(step) +
                         " after the one before, of axis " + std::to_string(axis) + " of " + whole.shape().text(),
                     x.where, "both must be at least 1, and a part must fit");
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes.push_back(axis);
  attrs.set(ops::Windows::sizes, IntVector{size});
  attrs.set(ops::Windows::strides, IntVector{step});
  return expr_detail::record<ops::Windows>({Leaf(whole.impl())}, std::move(shared), x.where);
}
SINTER_DECL Tensor sum_to_size(const In& x, const Shape& shape) {
  const Tensor whole(x.tensor());
  const Shape from = whole.shape();
  const int added = from.rank() - shape.rank();
  if (added < 0 || !(broadcast(from, shape, "sum_to_size", x.where) == from))
    throw ShapeError("sum_to_size", "x is " + from.text() + ", the shape is " + shape.text(), x.where,
                     "the shape must broadcast to that of x");
  std::vector<int> axes;
  for (int i = 0; i < from.rank(); ++i)
    if (i < added || !(shape[i - added] == from[i])) axes.push_back(i);
  return axes.empty() ? whole : reshape(In(sum(In(whole, x.where), axes), x.where), shape);
}

SINTER_DECL Tensor select(const In& x, int axis, Dim position) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "select", x.where);
  std::vector<Index> positions(as_index(axis) + 1, Index(all, x.where));
  positions.back() = Index(position, x.where);
  return index(In(whole, x.where), positions);
}

namespace expr_detail {
/// The diagonal of the last two axes, by a view of the matrix as a row where its width is known.
inline Tensor last_diagonal(const Tensor& x, int offset, Location where) {
  const Shape shape = x.shape();
  const Dim rows = shape[-2], columns = shape[-1];
  const std::int64_t below = offset < 0 ? -std::int64_t{offset} : 0, beside = offset > 0 ? offset : 0;
  const bool is_outside = !is_at_most(below + 1, rows) || !is_at_most(beside + 1, columns);
  Dim count = 0;
  if (!is_outside) {
    const Dim high = rows - Dim(below), wide = columns - Dim(beside);
    count = is_at_most(high, wide) ? high : wide;
  }
  Shape flat = shape;
  flat.erase(flat.rank() - 1);
  const int last = flat.rank() - 1;
  flat.set(last, rows * columns);
  const Tensor row = reshape(In(x, where), flat);
  if (is_outside) return part_of(row, last, 0, 0, where);
  const Dim first = columns * Dim(below) + Dim(beside);
  if (!columns.is_static()) {
    const Tensor along = arange(count, {.dtype = DType::i64, .device = x.device()}, where);
    return take(In(row, where), In(Tensor(along * (columns + Dim(1)) + first), where), last);
  }
  const std::int64_t step = columns.value() + 1;
  std::vector<Index> positions(as_index(last) + 1, Index(all));
  positions.back() = Index(Slice{first, first + (count - Dim(1)) * Dim(step) + Dim(1), step}, where);
  return index(In(row, where), positions);
}

/// Axes a and b of `x` as the last two, in this order.
inline Tensor with_plane_last(const In& x, int a, int b, std::string_view op) {
  const Tensor whole(x.tensor());
  const int rank = whole.rank();
  if (rank < 2)
    throw ShapeError(op, "x is " + whole.shape().text() + ", two axes are required", x.where,
                     rank == 1 ? "diag(x) makes a matrix of a vector" : "");
  a = normalise_axis(a, rank, op, x.where);
  b = normalise_axis(b, rank, op, x.where);
  if (a == b) throw IndexError(op, "axis " + std::to_string(a) + " is named twice", x.where);
  return movedim(In(whole, x.where), {a, b}, {-2, -1});
}
}  // namespace expr_detail

SINTER_DECL Tensor diagonal(const In& x, int offset, int a, int b) {
  return expr_detail::last_diagonal(expr_detail::with_plane_last(x, a, b, "diagonal"), offset, x.where);
}

SINTER_DECL Tensor as_strided(const In& x, const Shape& shape, DimList strides, Dim offset) {
  const Tensor whole(x.tensor());
  const std::span<const Dim> steps = strides.list();
  if (steps.size() != as_index(shape.rank()))
    throw ShapeError("as_strided", std::to_string(steps.size()) + " strides for the shape " + shape.text(), x.where,
                     "name one stride for each axis");
  const Dim count = whole.shape().numel(x.where);
  Dim least = offset, most = offset;
  bool is_empty = false, is_known = true;
  Tensor position = full({}, Scalar(offset), {.dtype = DType::i64, .device = whole.device()}, x.where);
  for (int i = 0; i < shape.rank(); ++i) {
    const Dim step = steps[as_index(i)], reach = (shape[i] - Dim(1)) * step;
    is_empty |= ops_detail::is_zero(shape[i]);
    is_known &= step.is_static();
    (step.is_static() && step.value() < 0 ? least : most) += reach;
    Shape column;
    for (int k = 0; k < shape.rank(); ++k) column.push_back(k == i ? shape[i] : Dim(1));
    const Tensor along = arange(shape[i], {.dtype = DType::i64, .device = whole.device()}, x.where);
    position = position + reshape(In(Tensor(along * step), x.where), column);
  }
  const bool is_within = expr_detail::is_at_most(0, least) && expr_detail::is_at_most(most + Dim(1), count);
  if (!is_empty && is_known && !is_within)
    throw IndexError("as_strided",
                     "elements " + least.text() + " to " + most.text() + " are read, x has " + count.text(), x.where,
                     "strides count elements of x in row-major order");
  return take(In(flatten(In(whole, x.where)), x.where), In(position, x.where), 0);
}

// ---- order

SINTER_DECL Tensor flip(const In& x, Axes axes) {
  Ref<TensorImpl> value = x.tensor();
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes = expr_detail::reduced_axes(axes, value->type.shape.rank(), "flip", x.where);
  if (attrs.axes.empty()) return Tensor(std::move(value));
  return expr_detail::record<ops::Flip>({Leaf(std::move(value))}, std::move(shared), x.where);
}
SINTER_DECL Tensor fliplr(const In& x) { return flip(x, 1); }
SINTER_DECL Tensor flipud(const In& x) { return flip(x, 0); }

SINTER_DECL Tensor rot90(const In& x, int times, Axes plane) {
  const Tensor whole(x.tensor());
  const In at(whole, x.where);
  if (plane.list().size() != 2)
    throw IndexError("rot90", std::to_string(plane.list().size()) + " axes are named, 2 are required", x.where);
  const int a = normalise_axis(static_cast<int>(plane.list()[0]), whole.rank(), "rot90", x.where);
  const int b = normalise_axis(static_cast<int>(plane.list()[1]), whole.rank(), "rot90", x.where);
  if (a == b) throw IndexError("rot90", "axis " + std::to_string(a) + " is named twice", x.where);
  switch (times & 3) {
    case 1: return transpose(In(flip(at, b), x.where), a, b);
    case 2: return flip(at, {a, b});
    case 3: return flip(In(transpose(at, a, b), x.where), b);
    default: return whole;
  }
}

// ---- copies side by side

namespace expr_detail {
inline void check_counts(std::span<const Dim> counts, std::string_view op, Location where) {
  for (Dim count : counts)
    if (!is_at_most(0, count)) throw ShapeError(op, "the count " + count.text() + " is negative", where);
}

/// `x` with `inner` elements after position `outer` of its row-major order repeated `count` times, in `shape`.
inline Tensor repeat_runs(const Tensor& x, Dim outer, Dim count, Dim inner, const Shape& shape, Location where) {
  const Tensor runs = reshape(In(x, where), Shape{outer, 1, inner});
  return reshape(In(expand(In(runs, where), Shape{outer, count, inner}), where), shape);
}

/// One count for each axis: all at once by an axis of extent 1 before each repeated one; where the rank has no room for
/// these, axis by axis.
inline Tensor repeat_axes(const Tensor& x, std::span<const Dim> counts, Location where) {
  const Shape from = x.shape();
  Shape lifted, stretched, out;
  std::size_t added = 0;
  for (Dim count : counts)
    if (!ops_detail::is_one(count)) ++added;
  if (added == 0) return x;
  if (as_index(from.rank()) + added < as_index(max_rank)) {
    for (int i = 0; i < from.rank(); ++i) {
      const Dim count = counts[as_index(i)];
      if (!ops_detail::is_one(count)) {
        lifted.push_back(1);
        stretched.push_back(count);
      }
      lifted.push_back(from[i]);
      stretched.push_back(from[i]);
      out.push_back(from[i] * count);
    }
    return reshape(In(expand(In(reshape(In(x, where), lifted), where), stretched), where), out);
  }
  Tensor result = x;
  for (int i = 0; i < from.rank(); ++i) {
    if (ops_detail::is_one(counts[as_index(i)])) continue;
    const Shape shape = result.shape();
    Dim outer = 1, inner = 1;
    for (int k = 0; k < shape.rank(); ++k) (k < i ? outer : inner) *= shape[k];
    Shape wide = shape;
    wide.set(i, shape[i] * counts[as_index(i)]);
    result = repeat_runs(result, outer, counts[as_index(i)], inner, wide, where);
  }
  return result;
}

/// With axes in front until the rank is `rank`.
inline Tensor with_leading_axes(const Tensor& x, std::size_t rank, Location where) {
  if (as_index(x.rank()) >= rank) return x;
  const Shape own = x.shape();
  Shape shape;
  for (std::size_t i = as_index(x.rank()); i < rank; ++i) shape.push_back(1, where);
  for (Dim extent : own) shape.push_back(extent, where);
  return reshape(In(x, where), shape);
}
}  // namespace expr_detail

SINTER_DECL Tensor repeat(const In& x, DimList counts) {
  const Tensor whole(x.tensor());
  if (counts.list().size() < as_index(whole.rank()))
    throw ShapeError("repeat", std::to_string(counts.list().size()) + " counts for x of shape " + whole.shape().text(),
                     x.where, "name one count for each axis, or use tile(x, counts)");
  return tile(In(whole, x.where), std::move(counts));
}
SINTER_DECL Tensor tile(const In& x, DimList counts) {
  const Tensor whole(x.tensor());
  expr_detail::check_counts(counts.list(), "tile", x.where);
  std::vector<Dim> all_counts;
  for (std::size_t i = counts.list().size(); i < as_index(whole.rank()); ++i) all_counts.push_back(1);
  all_counts.insert(all_counts.end(), counts.list().begin(), counts.list().end());
  return expr_detail::repeat_axes(expr_detail::with_leading_axes(whole, all_counts.size(), x.where), all_counts,
                                  x.where);
}
SINTER_DECL Tensor repeat_interleave(const In& x, Dim count, int axis) {
  const Tensor whole(x.tensor());
  Shape shape = whole.shape();
  axis = normalise_axis(axis, shape.rank(), "repeat_interleave", x.where);
  expr_detail::check_counts({&count, 1}, "repeat_interleave", x.where);
  Dim outer = 1, inner = 1;
  for (int i = 0; i < shape.rank(); ++i) (i <= axis ? outer : inner) *= shape[i];
  shape.set(axis, shape[axis] * count);
  return expr_detail::repeat_runs(whole, outer, count, inner, shape, x.where);
}
SINTER_DECL Tensor repeat_interleave(const In& x, Dim count) {
  return repeat_interleave(In(flatten(x), x.where), count, 0);
}

SINTER_NAMESPACE_END
