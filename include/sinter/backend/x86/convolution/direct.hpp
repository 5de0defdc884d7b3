// Convolutions of few outputs, which do not repay windows that are laid out.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Operands: x, the weight, the result. The sums have the order of products. Null where that does not pay.
std::unique_ptr<Launch> make_direct_launch(const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
