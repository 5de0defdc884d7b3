// The parts of the image's gradient, the taps of each, and how the parts come together.
#pragma once

#include <sinter/backend/x86/convolution/image_gradient.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/backend/x86/convolution/convolution.ipp>
#include <sinter/backend/x86/convolution/depthwise.hpp>
#include <sinter/backend/x86/convolution/following.hpp>
#include <sinter/backend/x86/convolution/image_parts.hpp>
#include <sinter/backend/x86/convolution/unpacked_gradient.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// As convolutions of any kind are made here.
inline std::unique_ptr<Launch> make_part_launch(const ConvolutionNumbers& n, Isa isa) {
  if (n.groups > 1 && n.channels == 1)
    if (std::unique_ptr<Launch> launch = make_depthwise_launch(n, isa)) return launch;
  return make_convolution_launch(n, isa);
}

/// to[i * 2] and to[i * 2 + 1] are elements of both: as many of the first as `firsts`, and the same or one less of the
/// second.
SINTER_AVX2 inline void interleave(float* to, const float* first, const float* second, std::int64_t firsts,
                                   std::int64_t seconds) {
  std::int64_t i = 0;
  for (; i + 8 <= seconds; i += 8) {
    const __m256 a = _mm256_loadu_ps(first + i), b = _mm256_loadu_ps(second + i);
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    _mm256_storeu_ps(to + 2 * i, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 2 * i + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  for (; i < firsts; ++i) {
    to[2 * i] = first[i];
    if (i < seconds) to[2 * i + 1] = second[i];
  }
}

/// The last element first: all taps of a kernel are so where the stride is 1.
inline void copy_backwards(double* to, const double* from, std::int64_t count) {
  std::reverse_copy(from, from + count, to);
}
SINTER_AVX2 inline void copy_backwards(float* to, const float* from, std::int64_t count) {
  const __m256i backwards = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_permutevar8x32_ps(_mm256_loadu_ps(from + count - 8 - i), backwards));
  for (; i < count; ++i) to[i] = from[count - 1 - i];
}

template <class Number>
class ImageGradientLaunch final : public FollowableLaunch {
  using AlignedBytes = x86_contraction_detail::AlignedBytes;

 public:
  ImageGradientLaunch(const ConvolutionNumbers& numbers, Isa isa) : n_(numbers), isa_(isa), parts_(image_parts(n_)) {
    together_ = images_together();
    for (const ImagePart& part : parts_) weights_ += std::ssize(part.taps);
    weights_ *= n_.groups * n_.channels * n_.outputs;
    for (ImagePart& part : parts_)
      if (!part.taps.empty() && n_.images > 0)
        part.launch = make_part_launch(part.numbers(n_, is_whole() ? n_.images : together_), isa);
    reserve();
  }

  void run(void* const* operands) override {
    if (n_.images == 0) return;
    Number* const memory = reserve();
    pack(static_cast<const Number*>(operands[1]), memory);
    if (is_whole()) return run_whole(operands, memory);
    const std::int64_t image = n_.groups * n_.outputs * ConvolutionNumbers::product(n_.positions),
                       channels = n_.groups * n_.channels;
    for (std::int64_t first = 0; first < n_.images; first += together_) {
      for (const ImagePart& part : parts_) {
        Number* const results = memory + weights_ + part.result_at * channels * together_;
        if (part.launch == nullptr) {
          std::memset(results, 0, as_index(part.positions() * channels * together_) * sizeof(Number));
          continue;
        }
        const auto* const gradient = static_cast<const Number*>(operands[0]) + first * image;
        void* const places[] = {const_cast<Number*>(gradient), memory + part.weights_at, results};
        part.launch->run(places);
      }
      put_together(operands, memory + weights_, first);
    }
  }
  void prepare() override {
    reserve();
    if (following_ != nullptr) reserve_channel();
    for (const ImagePart& part : parts_)
      if (part.launch != nullptr) part.launch->prepare();
  }

  std::unique_ptr<Launch> followed_by(const FollowingKernel& next) const override {
    if (n_.images == 0) return nullptr;
    auto both = std::make_unique<ImageGradientLaunch>(n_, isa_);
    both->following_operands_ = next.kernel.operands.size();
    if (is_whole()) {
      FollowableLaunch* const own = as_followable(*both->parts_[0].launch);
      std::unique_ptr<Launch> followed = own != nullptr ? own->followed_by(next) : nullptr;
      if (followed == nullptr) return nullptr;
      both->parts_[0].launch = std::move(followed);
      return both;
    }
    const std::optional<Following> following =
        Following::find(next, {n_.images, n_.groups * n_.channels, ConvolutionNumbers::product(n_.extent), n_.dtype});
    if (following) both->following_ = FollowingLoop::make(*following, isa_);
    return both->following_ != nullptr ? std::move(both) : nullptr;
  }

 private:
  static constexpr std::size_t last = most_axes - 1;
  static constexpr std::int64_t block = 32;  // of channels, and of outputs, whose weights are packed together

  bool is_whole() const { return parts_.size() == 1 && !parts_[0].taps.empty(); }
  /// As many images as the parts of stay in a cache; of those of all, no image is left over.
  std::int64_t images_together() const {
    constexpr std::int64_t most_elements = 1 << 20;
    const std::int64_t elements =
        std::max<std::int64_t>(n_.groups * n_.channels * ConvolutionNumbers::product(n_.extent), 1);
    std::int64_t together = std::clamp<std::int64_t>(most_elements / elements, 1, std::max<std::int64_t>(n_.images, 1));
    while (together > 1 && n_.images % together != 0) --together;
    return together;
  }
  /// The weights of the parts, then their results. Of the thread that calls.
  Number* reserve() const {
    AlignedBytes& memory = thread_object([] { return new AlignedBytes; });
    const std::int64_t results =
        is_whole() ? 0 : together_ * n_.groups * n_.channels * ConvolutionNumbers::product(n_.extent);
    memory.reserve(as_index(weights_ + results) * sizeof(Number));
    return reinterpret_cast<Number*>(memory.data());
  }
  /// A channel of an image, of the thread that puts it together for what follows.
  Number* reserve_channel() const {
    AlignedBytes& memory = thread_object([] { return new AlignedBytes; });
    memory.reserve(as_index(ConvolutionNumbers::product(n_.extent)) * sizeof(Number));
    return reinterpret_cast<Number*>(memory.data());
  }
  void run_whole(void* const* operands, Number* weights) {
    std::array<void*, 3 + max_accesses> places;
    places[0] = operands[0];
    places[1] = weights;
    std::copy_n(operands + 2, 1 + following_operands_, places.begin() + 2);
    parts_[0].launch->run(places.data());
  }

  /// [group, channel, output, tap] of each part from [group, output, channel, tap], a block of channels and outputs at
  /// a time: lines of the cache that are read for one channel serve the next one.
  void pack(const Number* weight, Number* to) const {
    const std::int64_t channel_blocks = (n_.channels + block - 1) / block,
                       output_blocks = (n_.outputs + block - 1) / block;
    const double cost = static_cast<double>(block * block * ConvolutionNumbers::product(n_.taps));
    parallel_for(n_.groups * output_blocks * channel_blocks, cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t group = task / (channel_blocks * output_blocks),
                           output = task / channel_blocks % output_blocks, channel = task % channel_blocks;
        for (const ImagePart& part : parts_) pack_block(part, weight, to, group, output * block, channel * block);
      }
    });
  }
  void pack_block(const ImagePart& part, const Number* weight, Number* to, std::int64_t group, std::int64_t output,
                  std::int64_t channel) const {
    const std::int64_t taps = ConvolutionNumbers::product(n_.taps), own = std::ssize(part.taps),
                       outputs = std::min(block, n_.outputs - output), end = std::min(channel + block, n_.channels);
    for (; channel < end; ++channel) {
      const Number* from = weight + ((group * n_.outputs + output) * n_.channels + channel) * taps;
      Number* row = to + part.weights_at + ((group * n_.channels + channel) * n_.outputs + output) * own;
      for (std::int64_t i = 0; i < outputs; ++i, from += n_.channels * taps, row += own)
        if (own == taps) copy_backwards(row, from, own);
        else
          for (std::int64_t k = 0; k < own; ++k) row[k] = from[part.taps[as_index(k)]];
    }
  }

  /// What parts have of the images from `first` on, as images.
  void put_together(void* const* operands, const Number* results, std::int64_t first) const {
    const std::int64_t channels = n_.groups * n_.channels, elements = ConvolutionNumbers::product(n_.extent);
    double cost = 10 + 0.5 * static_cast<double>(elements);
    if (following_ != nullptr) cost += following_->nanoseconds_per_element() * static_cast<double>(elements);
    parallel_for(together_ * channels, cost, [&](std::int64_t begin, std::int64_t end) {
      if (following_ == nullptr) {
        Number* const out = static_cast<Number*>(operands[2]) + first * channels * elements;
        for (std::int64_t i = begin; i < end; ++i) put_channel(results, i, out + i * elements);
        return;
      }
      Number* const channel = reserve_channel();
      FollowingRun follow(*following_, operands + 3);
      for (std::int64_t i = begin; i < end; ++i) {
        put_channel(results, i, channel);
        follow({first + i / channels, i % channels, 1, channel, elements * n_.element()});
      }
    });
  }
  /// Channel `number` of those of all images.
  void put_channel(const Number* results, std::int64_t number, Number* out) const {
    const std::int64_t all = together_ * n_.groups * n_.channels;
    const std::int64_t in_row = std::min(n_.stride[last], n_.extent[last]);  // parts of a row are neighbours
    for (std::size_t p = 0; p < parts_.size(); p += as_index(in_row)) {
      const auto& [z, y, x] = parts_[p].axes;
      for (std::int64_t i = 0; i < z.positions; ++i)
        for (std::int64_t k = 0; k < y.positions; ++k) {
          const std::int64_t line = (z.first + i * n_.stride[0]) * n_.extent[1] + y.first + k * n_.stride[1],
                             row = i * y.positions + k;
          put_row(std::span(parts_).subspan(p, as_index(in_row)), results, all, number, row,
                  out + line * n_.extent[last]);
        }
    }
  }
  void put_row(std::span<const ImagePart> parts, const Number* results, std::int64_t all, std::int64_t number,
               std::int64_t row, Number* out) const {
    const auto source = [&](const ImagePart& part) {
      return results + part.result_at * all + number * part.positions() + row * part.axes[last].positions;
    };
    if constexpr (std::same_as<Number, float>)
      if (parts.size() == 2 && n_.stride[last] == 2)
        return interleave(out, source(parts[0]), source(parts[1]), parts[0].axes[last].positions,
                          parts[1].axes[last].positions);
    for (const ImagePart& part : parts) {
      const Number* const from = source(part);
      for (std::int64_t i = 0; i < part.axes[last].positions; ++i)
        out[part.axes[last].first + i * n_.stride[last]] = from[i];
    }
  }

  const ConvolutionNumbers n_;
  const Isa isa_;
  std::vector<ImagePart> parts_;
  std::int64_t weights_ = 0, together_ = 1;  // elements; images
  std::size_t following_operands_ = 0;
  std::shared_ptr<const FollowingLoop> following_;
};

}  // namespace x86_convolution_detail

SINTER_DECL std::unique_ptr<Launch> make_packed_gradient_launch(
    const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa) {
  using namespace x86_convolution_detail;
  if (numbers.dtype == DType::f64) return std::make_unique<ImageGradientLaunch<double>>(numbers, isa);
  return std::make_unique<ImageGradientLaunch<float>>(numbers, isa);
}
SINTER_DECL std::unique_ptr<Launch> make_image_gradient_launch(
    const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa) {
  if (std::unique_ptr<Launch> launch = make_unpacked_gradient_launch(numbers, isa)) return launch;
  return make_packed_gradient_launch(numbers, isa);
}

}  // namespace x86
SINTER_NAMESPACE_END
