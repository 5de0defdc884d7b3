// Convolutions whose groups have one channel: each output is a sum over the taps of its channel's image.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Operands: x, weight, result. Sums are fma in the order of the taps, on every ISA, which is that of a kernel that
/// follows. Null where an image with its borders is many times as large as without.
std::unique_ptr<Launch> make_depthwise_launch(const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
