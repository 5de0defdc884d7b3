// Binding an epilogue.
#pragma once

#include <sinter/backend/x86/contraction/bound_epilogue.hpp>

#include <sinter/backend/x86/nest/loop.ipp>
#include <sinter/base/index.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

SINTER_DECL BoundEpilogue bind_epilogue(const Kernel& kernel, const ContractionParts& parts,
                                        const ContractionPlan& plan, const BoundGeometry& geometry,
                                        std::shared_ptr<const LoopCode> code) {
  const Kernel& e = parts.epilogue;
  BoundEpilogue bound{std::move(code), {}, {}};
  BoundGeometry numbers;
  numbers.extent = geometry.extent;
  numbers.extent[as_index(e.rank())] = 0;
  for (std::size_t i = 0; i < parts.sum; ++i) {
    numbers.accesses.push_back(geometry.accesses[parts.access_of[i]]);
    numbers.accesses.back().stride[as_index(e.rank())] = 0;
  }
  auto& sum = numbers.accesses.emplace_back();
  sum.stride[as_index(e.rank() - 2)] = plan.width;
  sum.stride[as_index(e.rank() - 1)] = 1;
  fill_loop_args(bound.args, e, numbers, e.rank() - 2);
  for (std::size_t i = 0; i < parts.sum; ++i) {
    auto& base = bound.bases.emplace_back();
    base.operand = e.accesses[i].operand;
    base.offset = offset_bytes(e, numbers, i);
    const std::int64_t element = size_of(kernel.operands[base.operand].dtype);
    for (std::size_t axis = 0; axis < as_index(plan.batch_axes); ++axis)
      base.batch_stride[axis] = numbers.accesses[i].stride[axis] * element;
  }
  return bound;
}

}  // namespace x86_contraction_detail
}  // namespace x86
SINTER_NAMESPACE_END
