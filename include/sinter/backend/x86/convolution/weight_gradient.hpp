// Gradients by their weights of convolutions whose groups have several channels.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// `numbers` are those of the convolution. Operands: x, the gradient of the result, and that of the weight, whose
/// elements are sums over all positions of all images in the order of products.
std::unique_ptr<Launch> make_weight_gradient_launch(const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
