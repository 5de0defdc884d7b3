// Which form takes a kernel, and what is declined.
#pragma once

#include <sinter/backend/cuda/source.hpp>

#include <sinter/backend/cuda/source_writer.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda {

SINTER_DECL std::optional<CudaCode> make_code(const Kernel& kernel, const Schedule&, const BoundGeometry& geometry, const DeviceFacts& device,
                                              Alignment alignment, std::string* why_declined) {
  verify(kernel);
  if (kernel.accesses.size() > 200) {
    if (why_declined != nullptr) *why_declined = "cuda: more than 200 accesses do not fit into a kernel's parameter";
    return std::nullopt;
  }
  for (int a = 0; a < kernel.rank(); ++a)
    if (!kernel.is_reduced(a) && geometry.extent[static_cast<std::size_t>(a)] == 0) return CudaCode{};
  const cuda_detail::Nest nest = cuda_detail::make_nest(kernel, geometry);
  cuda_detail::Writer writer(nest, device, alignment);
  if (kernel.kind == KernelKind::contraction && cuda_detail::write_product(writer)) return writer.finish();
  if (nest.reduced.empty()) cuda_detail::write_pointwise(writer);
  else cuda_detail::write_reduction(writer);
  return writer.finish();
}

}  // namespace cuda
SINTER_NAMESPACE_END
