// Binding a step whose kernel may be a product: which GEMM algorithm computes it, by measurement, by what was measured
// before, by rule or by force.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/device/ready_list.hpp>
#include <sinter/backend/cuda/product/choice.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <optional>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Those of this process; a device's are known by its kind.
ProductChoices& product_choices();

/// The launch list of a step. `choice` receives what was chosen and why, where there was something to choose.
ReadyList bind_product(Gpu& gpu, const Kernel& kernel, const StepBinding& binding,
                       std::optional<ProductChoice>& choice);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
