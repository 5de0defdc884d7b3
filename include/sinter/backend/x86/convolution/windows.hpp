// What a tap of the kernel sees from successive positions are runs of an image's rows, the same in every channel: found
// once for a panel. Knows nothing of products.
#pragma once

#include <sinter/backend/x86/convolution/numbers.hpp>

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#ifndef SINTER_NO_X86
#include <immintrin.h>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// What one tap sees from some positions, a part of it: zeros, or elements of one row of the image.
struct Run {
  std::int64_t from = 0;   // bytes from the channel's beginning
  std::int32_t to = 0;     // bytes from where the first position's element is put
  std::int32_t bytes = 0;  // there
  bool is_zero = false;
};
/// Of successive positions: the runs of each tap, one after the other.
struct TapRuns {
  std::vector<Run> runs;
  std::vector<std::uint32_t> begin;  // of each tap, and the end
};
inline TapRuns& tap_runs() {
  return thread_object([] { return new TapRuns; });
}

// What is behind a run may be overwritten, up to a vector: a later run, or the next row, is put there.
SINTER_AVX2 inline void copy_run(std::byte* to, const std::byte* from, std::int32_t bytes) {
  constexpr std::int32_t vector = 32;
  for (; bytes >= vector; bytes -= vector, to += vector, from += vector)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  if (bytes == 0) return;
  const __m256i lane = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(bytes), lane);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_maskload_epi32(reinterpret_cast<const int*>(from), mask));
}
/// The same of every second element of f32.
SINTER_AVX2 inline void copy_every_second_of_run(std::byte* to, const std::byte* from, std::int32_t bytes) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (std::int32_t count = bytes / 4; count > 0; count -= 8, to += 32, from += 64) {
    const std::int32_t seen = 2 * count - 1;
    const auto* const elements = reinterpret_cast<const float*>(from);
    const __m256 low = _mm256_maskload_ps(elements, _mm256_cmpgt_epi32(_mm256_set1_epi32(seen), lane)),
                 high = _mm256_maskload_ps(elements + 8, _mm256_cmpgt_epi32(_mm256_set1_epi32(seen - 8), lane));
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
    _mm256_storeu_pd(reinterpret_cast<double*>(to), _mm256_permute4x64_pd(even, 0xD8));
  }
}
SINTER_AVX2 inline void zero_run(std::byte* to, std::int32_t bytes) {
  constexpr std::int32_t vector = 32;
  for (; bytes > 0; bytes -= vector, to += vector)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_setzero_si256());
}
template <class Word>
inline void copy_words(std::byte* to, const std::byte* from, std::int32_t bytes, std::int64_t step) {
  for (std::int32_t at = 0; at < bytes; at += static_cast<std::int32_t>(sizeof(Word)), from += step)
    std::memcpy(to + at, from, sizeof(Word));
}

/// An image as taps see it.
class Windows {
  using Place = std::array<std::int64_t, most_axes>;
  static constexpr std::size_t last = most_axes - 1;

 public:
  explicit Windows(const ConvolutionNumbers& numbers) : n_(numbers) {}
  const ConvolutionNumbers& numbers() const { return n_; }
  std::int64_t taps() const { return ConvolutionNumbers::product(n_.taps); }
  std::int64_t positions() const { return ConvolutionNumbers::product(n_.positions); }
  std::int64_t channel_bytes() const { return ConvolutionNumbers::product(n_.extent) * n_.element(); }
  /// From one image to the next, with all groups of channels.
  std::int64_t image_bytes() const { return n_.groups * n_.channels * channel_bytes(); }
  /// At most so many runs for `count` positions.
  std::int64_t most_runs(std::int64_t count) const {
    return 3 * (count / std::max<std::int64_t>(1, n_.positions[last]) + 2) * taps();
  }

  /// Room for those of `count` positions.
  void reserve(TapRuns& found, std::int64_t count) const {
    found.runs.reserve(as_index(most_runs(count) + taps()));
    found.begin.reserve(as_index(taps() + 1));
  }
  /// For the positions from `first` on, row by row and image by image; zeros behind them fill up to `width`.
  void find_runs(std::int64_t first, std::int64_t count, std::int64_t width, TapRuns& found) const {
    found.runs.clear();
    found.begin.clear();
    Place tap{};
    for (tap[0] = 0; tap[0] < n_.taps[0]; ++tap[0])
      for (tap[1] = 0; tap[1] < n_.taps[1]; ++tap[1])
        for (tap[2] = 0; tap[2] < n_.taps[2]; ++tap[2]) {
          found.begin.push_back(static_cast<std::uint32_t>(found.runs.size()));
          find_runs_of_tap(first, count, tap, found.runs);
          add({0, 0, 0, true}, count, width - count, found.runs);
        }
    found.begin.push_back(static_cast<std::uint32_t>(found.runs.size()));
  }

  /// What a tap sees in a channel.
  void copy(std::byte* to, const std::byte* channel, const TapRuns& found, std::int64_t tap) const {
    const Run* const end = found.runs.data() + found.begin[as_index(tap) + 1];
    for (const Run* run = found.runs.data() + found.begin[as_index(tap)]; run != end; ++run)
      copy(to + run->to, channel, *run);
  }
  /// The same from `count` of the positions that were asked for, `first` and those behind it.
  void copy_some(std::byte* to, const std::byte* channel, const TapRuns& found, std::int64_t tap, std::int64_t first,
                 std::int64_t count) const {
    const std::int64_t begin = first * n_.element(), end = (first + count) * n_.element();
    const Run* const last_run = found.runs.data() + found.begin[as_index(tap) + 1];
    const Run* run = std::partition_point(found.runs.data() + found.begin[as_index(tap)], last_run,
                                          [&](const Run& each) { return each.to + each.bytes <= begin; });
    for (; run != last_run && run->to < end; ++run) {
      const std::int64_t skipped = std::max<std::int64_t>(begin - run->to, 0);
      Run part = *run;
      part.from += skipped * n_.stride[last];
      part.bytes = static_cast<std::int32_t>(std::min<std::int64_t>(end, run->to + run->bytes) - run->to - skipped);
      copy(to + run->to + skipped - begin, channel, part);
    }
  }

 private:
  void copy(std::byte* to, const std::byte* channel, const Run& run) const {
    const std::int64_t step = n_.stride[last] * n_.element();
    if (run.is_zero) zero_run(to, run.bytes);
    else if (step == n_.element()) copy_run(to, channel + run.from, run.bytes);
    else if (step == 2 * n_.element() && n_.element() == 4) copy_every_second_of_run(to, channel + run.from, run.bytes);
    else if (n_.element() == 4) copy_words<float>(to, channel + run.from, run.bytes, step);
    else copy_words<double>(to, channel + run.from, run.bytes, step);
  }

  void find_runs_of_tap(std::int64_t first, std::int64_t count, const Place& tap, std::vector<Run>& runs) const {
    if (positions() == 0) return;  // and count is 0
    const std::int64_t in_image = first % positions();
    std::int64_t image = first / positions() * image_bytes();
    Place position = {in_image / (n_.positions[1] * n_.positions[2]), in_image / n_.positions[2] % n_.positions[1],
                      in_image % n_.positions[2]};
    for (std::int64_t at = 0; at < count;) {
      const std::int64_t in_row = std::min(n_.positions[last] - position[last], count - at);
      add_row(image, position, tap, at, in_row, runs);
      at += in_row;
      position[2] = 0;
      if (++position[1] < n_.positions[1]) continue;
      position[1] = 0;
      if (++position[0] < n_.positions[0]) continue;
      position[0] = 0;
      image += image_bytes();
    }
  }

  /// The element that a tap sees from a position; outside of the image there are zeros.
  std::int64_t seen(const Place& position, const Place& tap, std::size_t axis) const {
    return position[axis] * n_.stride[axis] + tap[axis] * n_.dilation[axis] - n_.low[axis];
  }

  /// `image` is where the image begins, bytes.
  void add_row(std::int64_t image, const Place& position, const Place& tap, std::int64_t at, std::int64_t count,
               std::vector<Run>& runs) const {
    std::int64_t row = 0;
    for (std::size_t axis = 0; axis < last; ++axis) {
      const std::int64_t element = seen(position, tap, axis);
      if (element < 0 || element >= n_.extent[axis]) return add({0, 0, 0, true}, at, count, runs);
      row = row * n_.extent[axis] + element;
    }
    const std::int64_t first = seen(position, tap, last), step = n_.stride[last], extent = n_.extent[last];
    const std::int64_t before = std::clamp<std::int64_t>((step - 1 - first) / step, 0, count);
    const std::int64_t inside = std::clamp<std::int64_t>((extent - first + step - 1) / step, before, count);
    add({0, 0, 0, true}, at, before, runs);
    add({image + (row * extent + first + before * step) * n_.element(), 0, 0, false}, at + before, inside - before,
        runs);
    add({0, 0, 0, true}, at + inside, count - inside, runs);
  }

  void add(Run run, std::int64_t at, std::int64_t count, std::vector<Run>& runs) const {
    if (count <= 0) return;
    run.to = static_cast<std::int32_t>(at * n_.element());
    run.bytes = static_cast<std::int32_t>(count * n_.element());
    runs.push_back(run);
  }

  const ConvolutionNumbers n_;
};

}  // namespace x86_convolution_detail
}  // namespace x86
SINTER_NAMESPACE_END
#endif
