// Several tensors from one and one from several: unequal parts, stacks, grids, and matrices of blocks.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <initializer_list>
#include <source_location>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// At most `chunks` parts of one extent, but that the last may be shorter.
std::vector<Tensor> chunk(const In& x, int chunks, int axis = 0);
/// Parts of these extents, which together are the axis.
std::vector<Tensor> split_with_sizes(const In& x, DimList sizes, int axis = 0);
namespace expr_detail {
std::vector<Tensor> near_equal_parts(const In& x, int parts, int axis);
std::vector<Tensor> equal_columns(const In& x, int parts);
std::vector<Tensor> equal_rows(const In& x, int parts);
std::vector<Tensor> equal_layers(const In& x, int parts);
}  // namespace expr_detail
/// `parts` parts whose extents differ by at most 1, the longer ones first.
template <std::integral I>
std::vector<Tensor> tensor_split(const In& x, I parts, int axis = 0) {
  return expr_detail::near_equal_parts(x, static_cast<int>(parts), axis);
}
/// The parts before, between and after these positions; negative ones count from the end.
std::vector<Tensor> tensor_split(const In& x, std::initializer_list<Dim> positions, int axis = 0);
/// Each index of the axis, which is dropped.
std::vector<Tensor> unstack(const In& x, int axis = 0);
std::vector<Tensor> unbind(const In& x, int axis = 0);
// tensor_split along axis 1 (axis 0 of a vector), 0 and 2; number of parts or positions. The parts must be equal.
template <std::integral I>
std::vector<Tensor> hsplit(const In& x, I parts) {
  return expr_detail::equal_columns(x, static_cast<int>(parts));
}
std::vector<Tensor> hsplit(const In& x, std::initializer_list<Dim> positions);
template <std::integral I>
std::vector<Tensor> vsplit(const In& x, I parts) {
  return expr_detail::equal_rows(x, static_cast<int>(parts));
}
std::vector<Tensor> vsplit(const In& x, std::initializer_list<Dim> positions);
template <std::integral I>
std::vector<Tensor> dsplit(const In& x, I parts) {
  return expr_detail::equal_layers(x, static_cast<int>(parts));
}
std::vector<Tensor> dsplit(const In& x, std::initializer_list<Dim> positions);

// Joined along axis 1 (axis 0 of vectors), along axis 0 of matrices, along axis 2, and with vectors as columns.
Tensor hstack(std::span<const Tensor> parts, Location where = std::source_location::current());
Tensor hstack(std::initializer_list<Tensor> parts, Location where = std::source_location::current());
Tensor vstack(std::span<const Tensor> parts, Location where = std::source_location::current());
Tensor vstack(std::initializer_list<Tensor> parts, Location where = std::source_location::current());
Tensor dstack(std::span<const Tensor> parts, Location where = std::source_location::current());
Tensor dstack(std::initializer_list<Tensor> parts, Location where = std::source_location::current());
Tensor column_stack(std::span<const Tensor> parts, Location where = std::source_location::current());
Tensor column_stack(std::initializer_list<Tensor> parts, Location where = std::source_location::current());

/// concat, as PyTorch calls it.
Tensor cat(std::span<const Tensor> parts, int axis = 0, Location where = std::source_location::current());
Tensor cat(std::initializer_list<Tensor> parts, int axis = 0, Location where = std::source_location::current());

/// Which axis the first of the vectors runs along: the first, or the second as in plots.
enum class GridIndexing : std::uint8_t { ij, xy };
/// Coordinates of the grid that the vectors span: as many tensors as vectors, each of the grid's shape.
std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, GridIndexing indexing = GridIndexing::ij,
                             Location where = std::source_location::current());
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, GridIndexing indexing = GridIndexing::ij,
                             Location where = std::source_location::current());

/// Rows [number, vectors] of all choices of one element of each vector, the last one fastest; of one vector itself.
Tensor cartesian_prod(std::span<const Tensor> vectors, Location where = std::source_location::current());
Tensor cartesian_prod(std::initializer_list<Tensor> vectors, Location where = std::source_location::current());

struct CombinationsOptions {
  bool with_replacement = false;  // elements may be chosen again
};
/// Rows [number, count] of all choices of `count` elements of a vector, in its order. Its extent is guarded by value.
Tensor combinations(const In& x, int count = 2, CombinationsOptions options = {});

/// The matrices along the diagonal of a larger one, zeros elsewhere; vectors are rows.
Tensor block_diag(std::span<const Tensor> blocks, Location where = std::source_location::current());
Tensor block_diag(std::initializer_list<Tensor> blocks, Location where = std::source_location::current());

SINTER_NAMESPACE_END
