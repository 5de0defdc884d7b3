// The numbers of a call of attention, and of that of its gradients.
#pragma once

#include <sinter/backend/x86/attention/kernels.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_attention_detail {

/// Extents as in ops/attention.hpp; strides in elements.
struct AttentionNumbers {
  DType dtype = DType::f32;
  std::vector<std::int64_t> batch_extent, mask_batch_stride;
  std::int64_t batches = 1, queries = 0, keys = 0, features = 0, value_features = 0;
  bool is_causal = false, gives_zeros = false;
  std::int64_t ahead = 0;  // causal: query i sees keys up to i + ahead
  double scale = 1;
  MaskKind mask = MaskKind::none;
  std::int64_t mask_row_stride = 0;
  std::int64_t mask_element = 0;  // bytes; 0: the mask is the same for all keys

  std::int64_t element() const { return size_of(dtype); }
  /// How many of the first keys query `i` may see.
  std::int64_t visible(std::int64_t i) const {
    return is_causal ? std::clamp<std::int64_t>(i + ahead + 1, 0, keys) : keys;
  }
  std::int64_t mask_offset(std::int64_t batch) const {
    std::int64_t offset = 0;
    for (std::size_t axis = batch_extent.size(); axis-- > 0;) {
      offset += batch % batch_extent[axis] * mask_batch_stride[axis];
      batch /= batch_extent[axis];
    }
    return offset;
  }
  /// The mask from row `first` of a batch on.
  const char* mask_rows(const char* all, std::int64_t batch, std::int64_t first) const {
    const std::int64_t size = mask == MaskKind::seen || mask == MaskKind::row_is_seen ? 1 : element();
    return all + (mask_offset(batch) + first * mask_row_stride) * size;
  }
};

inline void take_mask(AttentionNumbers& n, const Type& mask, int rank) {
  // Row-major without gaps; an axis of one, or one that is not there, does not move.
  const Shape& shape = mask.shape;
  std::vector<std::int64_t> strides(as_index(rank), 0);
  std::int64_t stride = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    const std::int64_t extent = shape[axis].value();
    if (extent != 1) strides[as_index(rank - shape.rank() + axis)] = stride;
    stride *= extent;
  }
  const auto last = as_index(rank - 1);
  const bool moves_by_key = strides[last] != 0;
  if (mask.dtype == DType::bool_) n.mask = moves_by_key ? MaskKind::seen : MaskKind::row_is_seen;
  else n.mask = moves_by_key ? MaskKind::added : MaskKind::added_to_row;
  n.mask_element = moves_by_key ? size_of(mask.dtype) : 0;
  n.mask_row_stride = strides[last - 1];
  n.mask_batch_stride.assign(strides.begin(), strides.end() - 2);
}

inline AttentionNumbers numbers_of(const Attrs& attrs, std::span<const Type> types) {
  using Op = ops::ScaledDotProductAttention;
  const Shape &q = types[0].shape, &k = types[1].shape, &v = types[2].shape;
  AttentionNumbers n;
  n.dtype = types[0].dtype;
  n.queries = q[-2].value();
  n.keys = k[-2].value();
  n.features = q[-1].value();
  n.value_features = v[-1].value();
  for (int axis = 0; axis + 2 < q.rank(); ++axis) {
    n.batch_extent.push_back(q[axis].value());
    n.batches *= q[axis].value();
  }
  n.mask_batch_stride.resize(n.batch_extent.size());
  n.is_causal = attrs[Op::causal] != Op::Causal::no;
  if (attrs[Op::causal] == Op::Causal::to_end) n.ahead = n.keys - n.queries;
  n.scale = attrs[Op::scale];
  if (n.scale == 0) n.scale = 1 / std::sqrt(static_cast<double>(n.features));
  const bool has_mask = types.size() == 5;
  if (has_mask) take_mask(n, types[3], q.rank());
  n.gives_zeros = Op::gives_zeros(attrs, has_mask);
  return n;
}

/// Scores of keys that come after a query, of rows from query `first` on that are `stride` elements apart, of `count`
/// keys from `key` on.
inline void hide_scores(const AttentionNumbers& n, std::byte* scores, std::int64_t stride, std::int64_t first,
                        std::int64_t rows, std::int64_t key, std::int64_t count) {
  if (!n.is_causal) return;
  const double hidden = std::copysign(std::numeric_limits<double>::infinity(), -n.scale);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t seen = std::clamp<std::int64_t>(n.visible(first + i) - key, 0, count);
    const auto fill = [&](auto value) {
      auto* const row = reinterpret_cast<decltype(value)*>(scores) + i * stride;
      std::fill(row + seen, row + count, value);
    };
    if (n.dtype == DType::f64) fill(hidden);
    else fill(static_cast<float>(hidden));
  }
}

/// What scores are multiplied by, in their dtype: a scale that rounds to zero would make hidden scores NaN.
inline float score_scale_f32(double scale) {
  return std::copysign(std::max(std::abs(static_cast<float>(scale)), std::numeric_limits<float>::denorm_min()),
                       static_cast<float>(scale));
}

}  // namespace x86_attention_detail
}  // namespace x86
SINTER_NAMESPACE_END
