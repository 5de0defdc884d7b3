// The elements of an image that see the same taps of a kernel: where the stride is s, every s-th one along an axis. A
// gradient by the image is a convolution of stride 1 for each of these parts.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// Along one axis: the elements `first`, `first + stride`, ... of the image, and the taps that reach them.
struct AxisPart {
  std::int64_t first = 0, positions = 0, dilation = 1, low = 0;
  std::vector<std::int64_t> taps;  // in the order in which they are added up: the last one first
};
inline AxisPart axis_part(const ConvolutionNumbers& n, std::size_t axis, std::int64_t first) {
  const std::int64_t stride = n.stride[axis], dilation = n.dilation[axis];
  AxisPart part{first, (n.extent[axis] - first + stride - 1) / stride, dilation / std::gcd(stride, dilation), 0, {}};
  for (std::int64_t tap = 0; tap < n.taps[axis]; ++tap)
    if ((first + n.low[axis] - tap * dilation) % stride == 0) part.taps.push_back(tap);
  std::reverse(part.taps.begin(), part.taps.end());
  if (!part.taps.empty()) part.low = -(first + n.low[axis] - part.taps.front() * dilation) / stride;
  return part;
}

/// Elements of the image that see the same taps.
struct ImagePart {
  std::array<AxisPart, most_axes> axes;
  std::vector<std::int64_t> taps;  // numbers of those in the kernel
  std::int64_t weights_at = 0;     // elements, in front of it
  std::int64_t result_at = 0;      // elements, of those of a channel
  std::unique_ptr<Launch> launch;  // null: none reaches them

  std::int64_t positions() const { return axes[0].positions * axes[1].positions * axes[2].positions; }
  ConvolutionNumbers numbers(const ConvolutionNumbers& n, std::int64_t images) const {
    ConvolutionNumbers own = n;
    own.images = images;
    std::swap(own.channels, own.outputs);
    own.extent = n.positions;
    own.stride = {1, 1, 1};
    for (std::size_t axis = 0; axis < most_axes; ++axis) {
      own.positions[axis] = axes[axis].positions;
      own.taps[axis] = std::ssize(axes[axis].taps);
      own.dilation[axis] = axes[axis].dilation;
      own.low[axis] = axes[axis].low;
    }
    return own;
  }
};

inline std::vector<ImagePart> image_parts(const ConvolutionNumbers& n) {
  std::vector<ImagePart> parts;
  std::int64_t weights = 0, results = 0;
  for (std::int64_t z = 0; z < std::min(n.stride[0], n.extent[0]); ++z)
    for (std::int64_t y = 0; y < std::min(n.stride[1], n.extent[1]); ++y)
      for (std::int64_t x = 0; x < std::min(n.stride[2], n.extent[2]); ++x) {
        ImagePart part{{axis_part(n, 0, z), axis_part(n, 1, y), axis_part(n, 2, x)}, {}, weights, results, nullptr};
        for (const std::int64_t i : part.axes[0].taps)
          for (const std::int64_t k : part.axes[1].taps)
            for (const std::int64_t m : part.axes[2].taps) part.taps.push_back((i * n.taps[1] + k) * n.taps[2] + m);
        weights += std::ssize(part.taps) * n.groups * n.channels * n.outputs;
        results += part.positions();
        parts.push_back(std::move(part));
      }
  return parts;
}

}  // namespace x86_convolution_detail
}  // namespace x86
SINTER_NAMESPACE_END
