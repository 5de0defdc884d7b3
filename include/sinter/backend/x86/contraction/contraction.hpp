// Contractions: a driver over batches, row blocks and column panels that calls the micro-kernels; short epilogues run
// in their registers, others as a pointwise kernel over each finished tile while it is in L1. Knows Kernels and
// Geometries; must not know graphs.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// A contraction kernel as an Executable. Null where declined; `why_declined` (if given) then says why. f32 and f64,
/// both operands plain loads.
/// Schedule: tile_rows and tile_columns bound the register tile, which else follows from the extents.
std::shared_ptr<const Executable> make_contraction_executable(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                              std::string* why_declined = nullptr);
/// Bytes that may be written behind a panel.
inline constexpr std::size_t panel_slack = 64;
/// A part of B that a product asks its owner for: rows k to k_end of columns [column, column + columns), `width` of
/// them side by side in each row of `to`; those beyond `columns` are read and not used.
struct PanelRequest {
  std::byte* to;
  const std::byte* from;  // B's operand, at the batch's beginning
  std::int64_t column, columns, width, k, k_end;
};
/// Makes panels of a B that is not in memory. Called by many threads at once.
class PanelSource {
 public:
  /// Once, before all else: B's columns, how many of them a panel has, and its most rows.
  virtual void bind(std::int64_t columns, std::int64_t width, std::int64_t rows) = 0;
  /// As Launch::prepare.
  virtual void prepare() const = 0;
  virtual void make_panel(const PanelRequest& request) const = 0;

 protected:
  ~PanelSource() = default;
};
/// A plain contraction whose B is made by `source`, which outlives the launch. The sums have the order of all products.
std::unique_ptr<Launch> make_product_launch(const Kernel& kernel, const BoundGeometry& geometry, PanelSource& source,
                                            Isa isa);
/// The same of a kernel with an epilogue. Null where unfinished sums would have to wait for it in memory: the epilogue
/// is better done by itself.
std::unique_ptr<Launch> make_followed_product_launch(const Kernel& kernel, const BoundGeometry& geometry,
                                                     PanelSource& source, Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
