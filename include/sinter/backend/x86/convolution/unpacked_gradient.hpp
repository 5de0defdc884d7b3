// Gradients of convolutions by their images where a large weight meets few positions: elements of the weight are
// broadcast from where they lie, since putting them in order would take as long as the sums.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// As make_image_gradient_launch, with the same sums. Null where that does not pay.
std::unique_ptr<Launch> make_unpacked_gradient_launch(const x86_convolution_detail::ConvolutionNumbers& numbers,
                                                      Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
