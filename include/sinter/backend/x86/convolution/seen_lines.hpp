// Where the elements lie that windows see from some positions of an image: in the image itself, or in a copy of some of
// its lines with their borders of zeros. What a tap sees is then as far from what the first one sees at any position.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>
#include <sinter/backend/x86/convolution/window_tile.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// Successive positions of one image, and the part of the image along the outer axis that is seen from them.
struct SeenPart {
  std::int64_t image = 0, position = 0, count = 0;
  std::int64_t first = 0, end = 0;  // along the outer axis, counted from the border on
  std::int64_t at = 0;              // of `first` in a channel, elements
};

class SeenLines {
 public:
  explicit SeenLines(const ConvolutionNumbers& numbers) : n_(numbers) {
    // Axes of which the first element is seen, and nothing else.
    while (outer_ + 1 < most_axes && n_.positions[outer_] == 1 && n_.taps[outer_] == 1 && n_.low[outer_] == 0 &&
           n_.extent[outer_] > 0)
      ++outer_;
    for (std::size_t axis = 0; axis < most_axes; ++axis) {
      reach_[axis] = (n_.taps[axis] - 1) * n_.dilation[axis] + 1;
      seen_[axis] = (n_.positions[axis] - 1) * n_.stride[axis] + reach_[axis];
      lies_in_image_ &= n_.low[axis] == 0 && seen_[axis] <= n_.extent[axis];
    }
    const auto& extent = lies_in_image_ ? n_.extent : seen_;
    block_ = {extent[1] * extent[2], extent[2], 1};
    for (std::size_t axis = outer_ + 1; axis < most_axes; ++axis) inner_ *= n_.positions[axis];
  }

  /// No copy is made.
  bool lies_in_image() const { return lies_in_image_; }
  /// Positions for each one along the outer axis.
  std::int64_t inner_positions() const { return inner_; }
  /// Elements from a channel to the next one, in the image.
  std::int64_t image_channel() const { return ConvolutionNumbers::product(n_.extent); }
  /// Elements of the copy of a channel that `count` positions see, at most.
  std::int64_t most_elements(std::int64_t count) const {
    const std::int64_t positions = ConvolutionNumbers::product(n_.positions), images = count / positions + 2,
                       lines = std::min((count + inner_ - 1) / inner_ + images, images * n_.positions[outer_]);
    return (lines * n_.stride[outer_] + images * reach_[outer_]) * block_[outer_];
  }
  std::int64_t tap_offset(std::int64_t tap) const {
    const std::int64_t x = tap % n_.taps[2], y = tap / n_.taps[2] % n_.taps[1], z = tap / n_.taps[2] / n_.taps[1];
    return z * n_.dilation[0] * block_[0] + y * n_.dilation[1] * block_[1] + x * n_.dilation[2];
  }

  /// Of the positions from `first` to `end`, which go through all images. Returns the elements of a channel's copy.
  std::int64_t find_parts(std::int64_t first, std::int64_t end, std::vector<SeenPart>& parts) const {
    const std::int64_t positions = ConvolutionNumbers::product(n_.positions);
    parts.clear();
    std::int64_t elements = 0;
    while (first < end) {
      SeenPart part{first / positions, first % positions, 0, 0, 0, elements};
      part.count = std::min(positions - part.position, end - first);
      part.first = part.position / inner_ * n_.stride[outer_];
      part.end = (part.position + part.count - 1) / inner_ * n_.stride[outer_] + reach_[outer_];
      if (lies_in_image_)
        part.at = part.image * n_.groups * n_.channels * image_channel() + part.first * block_[outer_];
      else elements += (part.end - part.first) * block_[outer_];
      first += part.count;
      parts.push_back(part);
    }
    return elements;
  }

  /// Where the first tap is seen from a position of the part's image, elements.
  std::int64_t seen_from(const SeenPart& part, std::int64_t position) const {
    const std::int64_t x = position % n_.positions[2], y = position / n_.positions[2] % n_.positions[1],
                       z = position / n_.positions[2] / n_.positions[1];
    return part.at - part.first * block_[outer_] + z * n_.stride[0] * block_[0] + y * n_.stride[1] * block_[1] +
           x * n_.stride[2];
  }

  /// Rows of positions of those parts. Blocks of `block` positions end with a segment; `ends` has their number up to
  /// each block's end.
  void find_segments(const std::vector<SeenPart>& parts, std::int64_t block, std::vector<WindowSegment>& segments,
                     std::vector<std::int64_t>& ends) const {
    segments.clear();
    ends.clear();
    std::int64_t left = block;
    for (const SeenPart& part : parts)
      for (std::int64_t i = 0; i < part.count;) {
        const std::int64_t at = part.position + i, x = at % n_.positions[2];
        const std::int64_t count = std::min({n_.positions[2] - x, part.count - i, left}), from = seen_from(part, at);
        segments.push_back({from * n_.element(), count});
        i += count;
        left -= count;
        if (left > 0) continue;
        ends.push_back(std::ssize(segments));
        left = block;
      }
    if (left < block) ends.push_back(std::ssize(segments));
  }

  /// The part of a channel with its borders. `image` is the channel's beginning.
  template <class Number>
  void copy(const SeenPart& part, const Number* image, Number* to) const {
    if (outer_ == 2) return copy_line(image, to, part.first, part.end);
    const std::int64_t lines = outer_ == 0 ? seen_[1] : 1;
    for (std::int64_t i = part.first; i < part.end; ++i)
      for (std::int64_t k = 0; k < lines; ++k, to += seen_[2]) {
        const std::int64_t z = outer_ == 0 ? i - n_.low[0] : 0, y = (outer_ == 0 ? k : i) - n_.low[1];
        const bool is_inside = z >= 0 && z < n_.extent[0] && y >= 0 && y < n_.extent[1];
        if (is_inside) copy_line(image + (z * n_.extent[1] + y) * n_.extent[2], to, 0, seen_[2]);
        else std::memset(to, 0, as_index(seen_[2]) * sizeof(Number));
      }
  }

 private:
  /// Elements [first, end) of a line with its borders.
  template <class Number>
  void copy_line(const Number* line, Number* to, std::int64_t first, std::int64_t end) const {
    const std::int64_t low = n_.low[2], begin = std::clamp(low, first, end),
                       stop = std::clamp(low + n_.extent[2], begin, end);
    std::memset(to, 0, as_index(begin - first) * sizeof(Number));
    if (begin < stop) std::memcpy(to + begin - first, line + begin - low, as_index(stop - begin) * sizeof(Number));
    std::memset(to + stop - first, 0, as_index(end - stop) * sizeof(Number));
  }

  const ConvolutionNumbers n_;
  std::size_t outer_ = 0;                        // the first axis that has several positions or taps
  std::array<std::int64_t, most_axes> reach_{};  // of a window
  std::array<std::int64_t, most_axes> seen_{};   // by all windows
  std::array<std::int64_t, most_axes> block_{};  // elements from one to the next along each axis
  std::int64_t inner_ = 1;                       // positions for each along the outer axis
  bool lies_in_image_ = true;
};

}  // namespace x86_convolution_detail
}  // namespace x86
SINTER_NAMESPACE_END
