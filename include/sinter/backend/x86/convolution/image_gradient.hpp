// Gradients of convolutions by their images, which transposed convolutions are: convolutions of the result's gradient.
// Where the stride is s, every s-th element of the image sees its own part of the kernel's taps: those elements are the
// result of a convolution of stride 1 with these taps, so that no zeros are multiplied.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// `numbers` are those of the convolution. Operands: the gradient of its result, the weight, the gradient of its image.
/// With stride 1 and more than one channel in a group the sums have the order of the decomposition; with a stride a sum
/// leaves out the zeros that this one has.
std::unique_ptr<Launch> make_image_gradient_launch(const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa);
/// The same, for any numbers, by weights that are put in order first.
std::unique_ptr<Launch> make_packed_gradient_launch(const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
