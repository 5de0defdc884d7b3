// Parts as slices, stacks as concats.
#pragma once

#include <sinter/expr/parts.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>

#include <numeric>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {
/// The parts of these extents, from the first element on.
inline std::vector<Tensor> parts_of(const Tensor& x, std::span<const Dim> sizes, int axis, Location where) {
  std::vector<Tensor> out;
  Dim start = 0;
  for (Dim size : sizes) {
    out.push_back(part_of(x, axis, start, start + size, where));
    start += size;
  }
  return out;
}
inline std::span<const Tensor> list_of(std::initializer_list<Tensor> parts) { return {parts.begin(), parts.size()}; }
}  // namespace expr_detail

SINTER_DECL std::vector<Tensor> chunk(const In& x, int chunks, int axis) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "chunk", x.where);
  if (chunks <= 0) throw ShapeError("chunk", std::to_string(chunks) + " chunks", x.where);
  const Dim extent = whole.shape()[axis], size = (extent + Dim(chunks - 1)) / Dim(chunks);
  std::vector<Dim> sizes;
  Dim rest = extent;
  for (int i = 0; i < chunks; ++i) {
    const bool is_last = !expr_detail::is_at_most(size + Dim(1), rest);
    sizes.push_back(is_last ? rest : size);
    rest = rest - sizes.back();
    if (is_last && !ops_detail::is_zero(size)) break;
  }
  return expr_detail::parts_of(whole, sizes, axis, x.where);
}

SINTER_DECL std::vector<Tensor> split_with_sizes(const In& x, DimList sizes, int axis) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "split_with_sizes", x.where);
  Dim total = 0;
  std::string text;
  for (Dim size : sizes.list()) {
    if (!expr_detail::is_at_most(0, size))
      throw ShapeError("split_with_sizes", "the size " + size.text() + " is negative", x.where);
    total += size;
    text += (text.empty() ? "" : " + ") + size.text();
  }
  if (!(total == whole.shape()[axis]))
    throw ShapeError("split_with_sizes",
                     "the sizes are " + (text.empty() ? "none" : text + " = " + total.text()) + ", axis " +
                         std::to_string(axis) + " of " + whole.shape().text() + " has extent " +
                         whole.shape()[axis].text(),
                     x.where, "their sum must be the extent; narrow(x, axis, start, length) takes one part");
  return expr_detail::parts_of(whole, sizes.list(), axis, x.where);
}

SINTER_DECL std::vector<Tensor> expr_detail::near_equal_parts(const In& x, int parts, int axis) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "tensor_split", x.where);
  if (parts <= 0) throw ShapeError("tensor_split", std::to_string(parts) + " parts", x.where);
  const Dim extent = whole.shape()[axis];
  const auto longer = static_cast<std::int64_t>(extent % Dim(parts));  // of a symbolic extent: a guard
  std::vector<Dim> sizes;
  for (int i = 0; i < parts; ++i) sizes.push_back(extent / Dim(parts) + Dim(i < longer ? 1 : 0));
  return expr_detail::parts_of(whole, sizes, axis, x.where);
}
SINTER_DECL std::vector<Tensor> tensor_split(const In& x, std::initializer_list<Dim> positions, int axis) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "tensor_split", x.where);
  std::vector<Tensor> out;
  Dim start = 0;
  for (Dim position : positions) {
    out.push_back(expr_detail::part_of(whole, axis, start, position, x.where));
    start = position;
  }
  out.push_back(expr_detail::part_of(whole, axis, start, whole.shape()[axis], x.where));
  return out;
}

SINTER_DECL std::vector<Tensor> unstack(const In& x, int axis) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "unstack", x.where);
  const auto count = static_cast<std::int64_t>(whole.shape()[axis]);  // of a symbolic extent: a guard
  std::vector<Tensor> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(select(In(whole, x.where), axis, i));
  return out;
}
SINTER_DECL std::vector<Tensor> unbind(const In& x, int axis) { return unstack(x, axis); }

namespace expr_detail {
/// The axis that hsplit (1), vsplit (0), dsplit (2) cuts.
inline int cut_axis(const In& x, int axis, std::string_view op) {
  const Shape shape = x.tensor()->type.shape;
  const int least = axis == 1 ? 1 : axis == 0 ? 2 : 3;
  if (shape.rank() < least)
    throw ShapeError(op, "x is " + shape.text(), x.where, "its rank must be at least " + std::to_string(least));
  return axis == 1 && shape.rank() == 1 ? 0 : axis;
}
}  // namespace expr_detail
SINTER_DECL std::vector<Tensor> expr_detail::equal_columns(const In& x, int parts) {
  return split(x, parts, expr_detail::cut_axis(x, 1, "hsplit"));
}
SINTER_DECL std::vector<Tensor> hsplit(const In& x, std::initializer_list<Dim> positions) {
  return tensor_split(x, positions, expr_detail::cut_axis(x, 1, "hsplit"));
}
SINTER_DECL std::vector<Tensor> expr_detail::equal_rows(const In& x, int parts) {
  return split(x, parts, expr_detail::cut_axis(x, 0, "vsplit"));
}
SINTER_DECL std::vector<Tensor> vsplit(const In& x, std::initializer_list<Dim> positions) {
  return tensor_split(x, positions, expr_detail::cut_axis(x, 0, "vsplit"));
}
SINTER_DECL std::vector<Tensor> expr_detail::equal_layers(const In& x, int parts) {
  return split(x, parts, expr_detail::cut_axis(x, 2, "dsplit"));
}
SINTER_DECL std::vector<Tensor> dsplit(const In& x, std::initializer_list<Dim> positions) {
  return tensor_split(x, positions, expr_detail::cut_axis(x, 2, "dsplit"));
}
SINTER_DECL Tensor cartesian_prod(std::span<const Tensor> vectors, Location where) {
  std::vector<Tensor> columns = meshgrid(vectors, GridIndexing::ij, where);
  if (columns.size() == 1) return columns[0];
  for (Tensor& column : columns) column = flatten(In(column, where));
  return stack(columns, 1, where);
}
SINTER_DECL Tensor cartesian_prod(std::initializer_list<Tensor> vectors, Location where) {
  return cartesian_prod(expr_detail::list_of(vectors), where);
}

namespace expr_detail {
/// Positions of all choices, one after the other: the last position that can move goes on, those after it follow it.
inline std::vector<std::int64_t> choices(std::int64_t extent, std::int64_t count, std::int64_t least_step) {
  std::vector<std::int64_t> row, out;
  for (std::int64_t i = 0; i < count; ++i) row.push_back(i * least_step);
  if (extent <= 0 || row.empty() || row.back() >= extent) return out;
  for (;;) {
    out.insert(out.end(), row.begin(), row.end());
    std::int64_t at = count - 1;
    while (at >= 0 && row[as_index(at)] == extent - 1 - (count - 1 - at) * least_step) --at;
    if (at < 0) return out;
    const std::int64_t moved = row[as_index(at)] + 1;
    for (std::int64_t i = at; i < count; ++i) row[as_index(i)] = moved + (i - at) * least_step;
  }
}
}  // namespace expr_detail

SINTER_DECL Tensor combinations(const In& x, int count, CombinationsOptions options) {
  const Tensor vector(x.tensor());
  if (vector.rank() != 1 || count < 1)
    throw ShapeError("combinations", std::to_string(count) + " elements of " + vector.shape().text(), x.where,
                     "it takes one or more elements of a vector");
  const auto extent = static_cast<std::int64_t>(vector.shape()[0]);
  const auto positions = expr_detail::choices(extent, count, options.with_replacement ? 0 : 1);
  const Dim rows = positions.size() / static_cast<std::size_t>(count);
  if (positions.empty()) return reshape(narrow(In(vector, x.where), 0, 0, 0), {0, count});
  return take(In(vector, x.where), In(copy_of(positions, {rows, count}), x.where), 0);
}

// ---- joins

SINTER_DECL Tensor cat(std::span<const Tensor> parts, int axis, Location where) { return concat(parts, axis, where); }
SINTER_DECL Tensor cat(std::initializer_list<Tensor> parts, int axis, Location where) {
  return concat(parts, axis, where);
}

namespace expr_detail {
template <class F>
std::vector<Tensor> each_of(std::span<const Tensor> parts, F&& change) {
  std::vector<Tensor> out;
  for (const Tensor& part : parts) out.push_back(change(part));
  return out;
}
}  // namespace expr_detail

SINTER_DECL Tensor hstack(std::span<const Tensor> parts, Location where) {
  const auto lifted = expr_detail::each_of(parts, [&](const Tensor& part) { return atleast_1d(In(part, where)); });
  return concat(lifted, !lifted.empty() && lifted[0].rank() == 1 ? 0 : 1, where);
}
SINTER_DECL Tensor vstack(std::span<const Tensor> parts, Location where) {
  return concat(expr_detail::each_of(parts, [&](const Tensor& part) { return atleast_2d(In(part, where)); }), 0, where);
}
SINTER_DECL Tensor dstack(std::span<const Tensor> parts, Location where) {
  return concat(expr_detail::each_of(parts, [&](const Tensor& part) { return atleast_3d(In(part, where)); }), 2, where);
}
SINTER_DECL Tensor column_stack(std::span<const Tensor> parts, Location where) {
  const auto columns = expr_detail::each_of(
      parts, [&](const Tensor& part) { return part.rank() < 2 ? reshape(In(part, where), Shape{-1, 1}) : part; });
  return concat(columns, 1, where);
}
SINTER_DECL Tensor hstack(std::initializer_list<Tensor> parts, Location where) {
  return hstack(expr_detail::list_of(parts), where);
}
SINTER_DECL Tensor vstack(std::initializer_list<Tensor> parts, Location where) {
  return vstack(expr_detail::list_of(parts), where);
}
SINTER_DECL Tensor dstack(std::initializer_list<Tensor> parts, Location where) {
  return dstack(expr_detail::list_of(parts), where);
}
SINTER_DECL Tensor column_stack(std::initializer_list<Tensor> parts, Location where) {
  return column_stack(expr_detail::list_of(parts), where);
}

// ---- grids and blocks

SINTER_DECL std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, GridIndexing indexing, Location where) {
  const auto count = static_cast<int>(vectors.size());
  const bool is_exchanged = indexing == GridIndexing::xy && count > 1;
  auto axis_of = [&](int vector) { return is_exchanged && vector < 2 ? 1 - vector : vector; };
  Shape grid;
  for (int i = 0; i < count; ++i) {
    const Shape shape = vectors[as_index(axis_of(i))].shape();
    if (shape.rank() > 1)
      throw ShapeError("meshgrid", "operand " + std::to_string(axis_of(i)) + " is " + shape.text(), where,
                       "vectors are required; ravel(x) makes one");
    grid.push_back(shape.rank() == 0 ? Dim(1) : shape[0], where);
  }
  std::vector<Tensor> out;
  for (int i = 0; i < count; ++i) {
    Shape column;
    for (int k = 0; k < count; ++k) column.push_back(k == axis_of(i) ? grid[k] : Dim(1));
    out.push_back(expand(In(reshape(In(vectors[as_index(i)], where), column), where), grid));
  }
  return out;
}
SINTER_DECL std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, GridIndexing indexing, Location where) {
  return meshgrid(expr_detail::list_of(vectors), indexing, where);
}

SINTER_DECL Tensor block_diag(std::span<const Tensor> blocks, Location where) {
  if (blocks.empty()) throw ShapeError("block_diag", "no tensors were given", where);
  const auto matrices = expr_detail::each_of(blocks, [&](const Tensor& block) {
    if (block.rank() > 2)
      throw ShapeError("block_diag", "a block is " + block.shape().text() + "; at most two axes are possible", where);
    return atleast_2d(In(block, where));
  });
  Dim width = 0;
  DType dtype = matrices[0].dtype();
  for (const Tensor& matrix : matrices) {
    width += matrix.shape()[1];
    dtype = promote(dtype, matrix.dtype(), "block_diag", where);
  }
  std::vector<Tensor> rows;
  Dim left = 0;
  for (const Tensor& matrix : matrices) {
    const Dim height = matrix.shape()[0], right = width - left - matrix.shape()[1];
    const TensorOptions options{.dtype = dtype, .device = matrix.device()};
    rows.push_back(
        concat({zeros({height, left}, options, where), matrix, zeros({height, right}, options, where)}, 1, where));
    left += matrix.shape()[1];
  }
  return concat(rows, 0, where);
}
SINTER_DECL Tensor block_diag(std::initializer_list<Tensor> blocks, Location where) {
  return block_diag(expr_detail::list_of(blocks), where);
}

SINTER_NAMESPACE_END
