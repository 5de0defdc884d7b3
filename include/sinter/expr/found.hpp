// Functions whose results have as many elements as are found: nonzero, masked_select, unique, and what indexing by
// masks is made of. Outside a trace the data say how many, so x is evaluated. A traced function has to state a `size`:
// the first so many are given, and `fill` where there are fewer. Names follow PyTorch and NumPy, sizes JAX.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <optional>

SINTER_NAMESPACE_BEGIN

struct FoundOptions {
  Optional<Dim> size{};  // of the results; not given: as many as are found
  Scalar fill{0};        // stands where there are fewer
};

/// The indices of the elements that are not 0, in row-major order: i64 [number, rank of x]. NaN is not 0.
/// torch.nonzero.
Tensor nonzero(const In& x, FoundOptions options = {});
/// The same, as NumPy and PyTorch also call it.
Tensor argwhere(const In& x, FoundOptions options = {});
/// The same counted through all elements: i64 [number]. numpy.flatnonzero.
Tensor flatnonzero(const In& x, FoundOptions options = {});
/// The elements of x where `mask` (bool) holds, in row-major order: [number]. They broadcast against each other.
/// x[mask] of a mask of x's shape.
Tensor masked_select(const In& x, const In& mask, FoundOptions options = {});

struct UniqueOptions {
  bool sorted = true;    // ascending; false: in the order in which they are there first
  Optional<int> axis{};  // of which slices are compared, element by element; not given: elements are
  Optional<Dim> size{};  // of values and counts
  Scalar fill{0};        // among the values where there are fewer
};
struct Unique {
  Tensor values;   // [number]; slices: x's shape, with the number of distinct ones along the axis
  Tensor inverse;  // of x's shape, i64: the place of each element among the values; of slices: a list
  Tensor counts;   // [number], i64: how often each is there; 0 where there are no more
};
/// The distinct elements of x: `auto [values, inverse, counts] = unique(x);`. No NaN equals another one. Slices ascend
/// by their first element that differs.
Unique unique(const In& x, UniqueOptions options = {});
/// The same where only neighbours (in row-major order) that are equal count as one; `sorted` means nothing.
Unique unique_consecutive(const In& x, UniqueOptions options = {});

namespace expr_detail {
Tensor repeat_slices(const In& x, const Tensor& counts, int axis, FoundOptions options);
}  // namespace expr_detail
/// The slices of x along `axis`, each as often in a row as `counts` (i32 or i64) says: a list with one count for each
/// slice, or one for all. With a stated size, a negative count is as 0. numpy.repeat, torch.repeat_interleave.
template <std::integral I>
Tensor repeat_interleave(const In& x, const Tensor& counts, I axis, FoundOptions options = {}) {
  return expr_detail::repeat_slices(x, counts, static_cast<int>(axis), options);
}
/// The same of all elements in row-major order.
Tensor repeat_interleave(const In& x, const Tensor& counts, FoundOptions options = {});

namespace expr_detail {
/// Is it a mask, and how many axes does a position of x(...) cover?
bool is_mask(const Index& position);
int axes_covered(const Index& position);
/// Are there masks among the positions of an index?
bool has_mask(std::span<const Index> positions);
/// A tensor, and positions in it, in which each mask is a list of positions along the axes that it covers, joined.
struct UnmaskedIndex {
  Tensor x;
  std::vector<Index> positions;
};
UnmaskedIndex without_masks(const In& x, std::span<const Index> positions, std::string_view op);
/// The one mask among the positions, with axes of 1 for all axes after it, where everything else is taken whole.
std::optional<Tensor> only_mask(const Shape& shape, std::span<const Index> positions, Location where);
}  // namespace expr_detail

SINTER_NAMESPACE_END
