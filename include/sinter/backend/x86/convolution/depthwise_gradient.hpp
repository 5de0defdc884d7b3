// Gradients by their weights of convolutions whose groups have one channel.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// `numbers` are those of the convolution, whose borders are small. Operands: x, the gradient of the result, and that
/// of the weight. Each element of this is a sum over all positions of all images: in lanes of a vector over some lines,
/// then in double; the lanes at last.
std::unique_ptr<Launch> make_depthwise_weight_gradient_launch(
    const x86_convolution_detail::ConvolutionNumbers& numbers);

}  // namespace x86
SINTER_NAMESPACE_END
