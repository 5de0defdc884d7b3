// The numbers of a convolution, whatever its number of axes.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

inline constexpr std::size_t most_axes = 3;

/// The numbers of a convolution, its axes right-aligned: those in front have one position and one tap.
struct ConvolutionNumbers {
  std::int64_t images = 1, groups = 1, channels = 1, outputs = 1;  // of a group
  std::array<std::int64_t, most_axes> extent{1, 1, 1}, positions{1, 1, 1}, taps{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, low{0, 0, 0};
  DType dtype = DType::f32;

  std::int64_t element() const { return size_of(dtype); }
  static std::int64_t product(const std::array<std::int64_t, most_axes>& numbers) {
    return numbers[0] * numbers[1] * numbers[2];
  }
  std::int64_t depth() const { return channels * product(taps); }
};

}  // namespace x86_convolution_detail
}  // namespace x86
SINTER_NAMESPACE_END
