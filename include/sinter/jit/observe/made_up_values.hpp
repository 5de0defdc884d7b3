// Inputs on which a logged instruction runs again: of its types and strides, and such that its operations can take
// them. Knows graphs; nothing of logs.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::instructions_detail {

/// Whether operand 1 of the operation chooses elements of operand 0, and how many there are at least to choose from.
inline std::optional<std::int64_t> range_of_indices(const Graph& graph, const Node& node) {
  const bool chooses = node.op->name == "take" || node.op->name == "scatter" || node.op->name == "scatter_add";
  if (!chooses || node.inputs.empty()) return std::nullopt;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Shape& shape : {graph.type(node.inputs[0]).shape, node.types[0].shape})
    for (Dim extent : shape.dims()) least = std::min(least, extent.value());
  return least;
}

/// Elements from the first to the last one; none: they cannot be counted, or the strides are not those of the type.
inline std::optional<std::int64_t> extent_in_memory(const Type& type, const std::vector<std::int64_t>& strides) {
  const auto axes = as_index(type.shape.rank());
  if (!strides.empty() && strides.size() != axes) return std::nullopt;
  std::int64_t last = 0, numel = 1;
  bool fits = true;
  for (std::size_t i = 0; i < axes; ++i) {
    const Dim dim = type.shape[static_cast<int>(i)];
    if (!dim.is_static() || dim.value() < 0) return std::nullopt;
    fits = fits && !__builtin_mul_overflow(numel, dim.value(), &numel);
    std::int64_t span = 0;
    if (strides.empty() || dim.value() == 0) continue;
    fits = fits && !__builtin_mul_overflow(dim.value() - 1, strides[i], &span) &&
           !__builtin_add_overflow(last, span, &last);
  }
  if (!fits || last == std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return strides.empty() ? numel : last + 1;
}
/// Why no values are made up for the inputs; "": they are.
inline std::string obstacle_in_layout(const Graph& graph, const std::vector<std::vector<std::int64_t>>& strides) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 30;  // each is a double first
  if (!strides.empty() && strides.size() != graph.inputs().size())
    return "its strides are of " + std::to_string(strides.size()) + " inputs, and it has " +
           std::to_string(graph.inputs().size());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const auto extent =
        extent_in_memory(graph.type(graph.inputs()[i]), strides.empty() ? std::vector<std::int64_t>() : strides[i]);
    if (!extent) return "the strides or extents of its input " + std::to_string(i) + " are no layout in memory";
    if (*extent > most_elements)
      return "its input " + std::to_string(i) + " reaches over " + std::to_string(*extent) + " elements";
  }
  return {};
}

/// Made up, the same for the same seed.
class SomeValues {
 public:
  /// `definite`: square matrices are symmetric, and their eigenvalues positive, for those that factor them.
  SomeValues(std::uint64_t seed, bool definite)
      : state_(seed * 2654435761u + 88172645463325252u), makes_definite_(definite) {}
  /// With these strides; none: row-major without gaps.
  Tensor of(const Type& type, const std::vector<std::int64_t>& strides, std::int64_t range) {
    const std::int64_t extent = extent_in_memory(type, strides).value();
    std::vector<double> elements(as_index(extent));
    for (double& element : elements) element = next(type.dtype, range);
    if (strides.empty()) make_definite(elements, type);
    Tensor values = copy_of(elements, {extent});
    values = values.to(real_part_of(type.dtype)).to(type.dtype).to(type.device);
    if (strides.empty()) return reshape(values, type.shape);
    Strides places{};
    std::copy(strides.begin(), strides.end(), places.begin());
    eval(values);
    const Ref<TensorImpl>& base = values.impl();
    return Tensor(TensorImpl::make_ready(type, base->storage, base->offset, &places));
  }

 private:
  double next(DType dtype, std::int64_t range) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    const double uniform = static_cast<double>(state_ >> 11) * 0x1p-53;
    if (is_floating(dtype) || is_complex(dtype)) return 0.25 + uniform;
    if (dtype == DType::bool_) return uniform < 0.5 ? 0 : 1;
    return static_cast<double>(
        static_cast<std::int64_t>(uniform * static_cast<double>(std::max<std::int64_t>(range, 1))));
  }
  void make_definite(std::vector<double>& elements, const Type& type) const {
    const int rank = type.shape.rank();
    if (!makes_definite_ || rank < 2 || !is_floating(type.dtype)) return;
    const std::size_t n = as_index(type.shape[rank - 1].value());
    if (as_index(type.shape[rank - 2].value()) != n) return;
    for (std::size_t first = 0; first < elements.size(); first += n * n)
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) elements[first + j * n + i] = elements[first + i * n + j];
        elements[first + i * n + i] += 1.25 * static_cast<double>(n);
      }
  }
  std::uint64_t state_;
  bool makes_definite_;
};

}  // namespace jit::instructions_detail
SINTER_NAMESPACE_END
