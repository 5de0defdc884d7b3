// Many rows that were rounded to bytes by a weight of 8 or 4 bits, on tiles of AMX: sums of each group are exact, and
// are scaled and added up in the order of k, with the bits that few rows get. Knows no operation and no launch.
#pragma once

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_quantized_detail {

struct PackedWeight;

/// Rows of x in the order of steps, `stride` bytes apart; of each its scale, and the sums of its groups.
struct RoundedRows {
  const std::int8_t* x;
  const float* scale;
  const std::int32_t* group_sum;
};

/// The extents are known, and groups are whole steps of 64 elements.
class TiledProduct {
 public:
  TiledProduct(const PackedWeight& weight, std::int64_t m, bool keeps_panels);
  /// Makes what this thread needs.
  void prepare() const;
  void run(const PackedWeight& weight, const RoundedRows& rows, float* out);

 private:
  std::int64_t panel_bytes() const;
  std::int64_t scratch_bytes() const;
  void make_panel(std::byte* to, std::byte* scratch, const PackedWeight& weight, std::int64_t panel) const;
  void multiply_panel(const std::byte* panel, std::int64_t number, std::int64_t row_begin, std::int64_t row_end,
                      const RoundedRows& rows, float* out) const;

  std::int64_t m_, n_, depth_, groups_, group_;
  bool keeps_panels_, has_panels_ = false;
  x86_contraction_detail::AlignedBytes tiles_, panels_;
};

}  // namespace x86_quantized_detail
}  // namespace x86
SINTER_NAMESPACE_END
