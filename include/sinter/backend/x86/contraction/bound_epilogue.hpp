// Epilogues as a driver holds them: their code, in registers or as a loop over scratch, and the numbers that go with
// it once extents are known. Knows kernels and plans; must not know tasks.
#pragma once

#include <sinter/backend/x86/contraction/epilogue.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/loop_nest/builder.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

/// The epilogue bound to extents.
struct BoundEpilogue {
  std::shared_ptr<const LoopCode> code;
  LoopArgs args;  // but for bases
  struct Base {
    std::uint16_t operand = 0;
    std::int64_t offset = 0;
    std::array<std::int64_t, max_axes> batch_stride{};
  };
  std::vector<Base> bases;  // all accesses but the sum, which is the last
  std::size_t args_bytes() const {
    return offsetof(LoopArgs, pointer) + (bases.size() + 1) * sizeof(LoopArgs::Pointer);
  }
  /// For one thread, whose sums lie at `sums` in rows of `width`.
  template <class Scratch>
  void begin(Scratch& scratch, std::byte* sums, std::int64_t width) const {
    std::memcpy(static_cast<void*>(&scratch.args), &args, args_bytes());
    scratch.args.scratch = scratch.loop.data();
    scratch.args.scratch_stride = code->scratch_stride(width);
    scratch.args.status = &scratch.status;
    scratch.status = {};
    scratch.args.pointer[bases.size()].base = reinterpret_cast<char*>(sums);
  }
  /// Over `rows` rows of a panel, from `row` on, by `function`, which is the code's or one of its others.
  void run(LoopArgs& loop, const ContractionPlan& plan, void* const* operands, const BatchIndex& index,
           std::int64_t panel, std::int64_t row, std::int64_t rows, LoopFunction function) const {
    const auto m_axis = as_index(plan.batch_axes), n_axis = m_axis + 1;
    const std::int64_t column = panel * plan.width;
    loop.columns = plan.columns_of(panel);
    for (std::size_t axis = 0; axis < m_axis; ++axis) loop.index_origin[axis] = index[axis];
    loop.index_origin[m_axis] = row;
    loop.index_origin[n_axis] = column;
    for (std::size_t i = 0; i < bases.size(); ++i)
      loop.pointer[i].base = static_cast<char*>(operands[bases[i].operand]) + bases[i].offset +
                             plan.batch_offset(bases[i].batch_stride, index) + row * loop.pointer[i].outer_stride +
                             column * loop.pointer[i].column_stride;
    function(&loop, 0, rows);
  }
  void run(LoopArgs& loop, const ContractionPlan& plan, void* const* operands, const BatchIndex& index,
           std::int64_t panel, std::int64_t row, std::int64_t rows) const {
    run(loop, plan, operands, index, panel, row, rows, code->function());
  }
};

/// The numbers of a product's epilogue, whose rows and columns are those of the product; its sums lie in rows of the
/// plan's width.
BoundEpilogue bind_epilogue(const Kernel& kernel, const ContractionParts& parts, const ContractionPlan& plan,
                            const BoundGeometry& geometry, std::shared_ptr<const LoopCode> code);

/// An epilogue's code: in registers where that can be (else that is null), and as a loop over scratch, which waits
/// until extents ask for it where the other will mostly do.
class EpilogueCode {
 public:
  EpilogueCode(const ContractionParts& parts, Isa isa) : kernel_(parts.epilogue), isa_(isa) {
    if (std::optional<TileBody> tile_body = make_tile_body(kernel_, parts.sum, parts.dtype))
      body_ = std::make_unique<BodyMicroKernels>(std::move(*tile_body));
  }
  const std::unique_ptr<BodyMicroKernels>& registers() const { return body_; }
  /// Null where declined. With i32 indices where there are some and the extents allow it: twice as many to a vector.
  const std::shared_ptr<const LoopCode>& loop(IndexWidth width, std::string* why_declined = nullptr) {
    const std::lock_guard lock(mutex_);
    if (loop_ == nullptr) loop_ = compile_loop(kernel_, {}, isa_, IndexWidth::narrow_if_possible, why_declined);
    if (width == IndexWidth::narrow_if_possible || loop_ == nullptr || !loop_->has_narrow_index()) return loop_;
    if (wide_loop_ == nullptr) wide_loop_ = compile_loop(kernel_, {}, isa_);
    return wide_loop_;
  }
  std::size_t code_bytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = body_ != nullptr ? body_->code_bytes() : 0;
    for (const auto* loop : {&loop_, &wide_loop_})
      if (*loop != nullptr) bytes += (*loop)->code_bytes();
    return bytes;
  }

 private:
  const Kernel kernel_;
  const Isa isa_;
  std::unique_ptr<BodyMicroKernels> body_;
  mutable ForkSafeMutex mutex_;
  std::shared_ptr<const LoopCode> loop_, wide_loop_;
};

inline IndexWidth index_width(const Kernel& kernel, const BoundGeometry& geometry) {
  const auto* const begin = geometry.extent.data();
  const bool fits = std::all_of(begin, begin + kernel.rank(),
                                [](std::int64_t extent) { return extent <= std::numeric_limits<std::int32_t>::max(); });
  return fits ? IndexWidth::narrow_if_possible : IndexWidth::wide;
}

}  // namespace x86_contraction_detail
}  // namespace x86
SINTER_NAMESPACE_END
