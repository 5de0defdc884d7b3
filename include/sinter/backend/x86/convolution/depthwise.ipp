// An image's lines (along the last axis) are laid out with their borders, and apart by the remainder of the stride: what
// a tap sees from successive positions is then adjacent, whatever stride and dilation are.
#pragma once

#include <sinter/backend/x86/convolution/depthwise.hpp>

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
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// A tap of a position in the first column: where its element is, behind its line's beginning.
struct TapPlace {
  std::array<std::int64_t, most_axes - 1> line{};  // taps of the axes in front, times the dilation
  std::int64_t offset = 0;                         // elements
};

struct DepthwisePlan {
  explicit DepthwisePlan(const ConvolutionNumbers& numbers) : n(numbers) {
    constexpr std::int64_t vector = 32;  // elements that a line may be read beyond its end
    const std::size_t last = most_axes - 1;
    const std::int64_t step = n.stride[last], reach = (n.taps[last] - 1) * n.dilation[last];
    part = (reach / step + n.positions[last] + vector - 1) / 16 * 16 + 16;
    line = part * step;
    for (std::int64_t z = 0; z < n.taps[0]; ++z)
      for (std::int64_t y = 0; y < n.taps[1]; ++y)
        for (std::int64_t x = 0; x < n.taps[2]; ++x) {
          const std::int64_t seen = x * n.dilation[last];
          taps.push_back({{z * n.dilation[0], y * n.dilation[1]}, seen % step * part + seen / step});
        }
  }
  ConvolutionNumbers n;
  std::int64_t part = 0, line = 0;  // elements of the positions of one remainder, and of all
  std::vector<TapPlace> taps;
};

struct FloatLanes {
  using Number = float;
  using Vector = __m256;
  static constexpr std::size_t count = 8;
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector broadcast(float x) {
    return _mm256_set1_ps(x);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector zero() { return _mm256_setzero_ps(); }
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector fma(Vector a, const float* b, Vector c) {
    return _mm256_fmadd_ps(a, _mm256_loadu_ps(b), c);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline void store(float* to, Vector x) {
    _mm256_storeu_ps(to, x);
  }
};
struct DoubleLanes {
  using Number = double;
  using Vector = __m256d;
  static constexpr std::size_t count = 4;
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector broadcast(double x) {
    return _mm256_set1_pd(x);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector zero() { return _mm256_setzero_pd(); }
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector fma(Vector a, const double* b, Vector c) {
    return _mm256_fmadd_pd(a, _mm256_loadu_pd(b), c);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline void store(double* to, Vector x) {
    _mm256_storeu_pd(to, x);
  }
};

/// What one thread has at hand.
struct DepthwiseScratch {
  std::vector<std::byte> lines;
  std::vector<const std::byte*> seen;  // by each tap from the first position of a line
};
inline DepthwiseScratch& depthwise_scratch() {
  return thread_object([] { return new DepthwiseScratch; });
}

/// `vectors` vectors of results from `at` on.
template <class Lanes, std::size_t vectors>
__attribute__((target("avx2,fma"))) inline void add_taps(std::span<const std::byte* const> seen,
                                                         const typename Lanes::Number* weight, std::int64_t at,
                                                         typename Lanes::Number* out) {
  using Number = typename Lanes::Number;
  typename Lanes::Vector sum[vectors];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < vectors; ++i) sum[i] = Lanes::zero();
  for (std::size_t tap = 0; tap < seen.size(); ++tap) {
    const auto factor = Lanes::broadcast(weight[tap]);
    const Number* from = reinterpret_cast<const Number*>(seen[tap]) + at;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < vectors; ++i) sum[i] = Lanes::fma(factor, from + i * Lanes::count, sum[i]);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < vectors; ++i) Lanes::store(out + i * Lanes::count, sum[i]);
}

/// to[i] = from[i * step] for i < count.
template <class Number>
inline void copy_every(Number* to, const Number* from, std::int64_t count, std::int64_t step) {
  if (step == 1) {
    std::memcpy(to, from, as_index(count) * sizeof(Number));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}
SINTER_AVX2 inline void copy_every_second(float* to, const float* from, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 < count; i += 8) {  // reads 16, the last of them before from[2 * count - 2]
    const __m256 even = _mm256_shuffle_ps(_mm256_loadu_ps(from + 2 * i), _mm256_loadu_ps(from + 2 * i + 8), 0x88);
    _mm256_storeu_pd(reinterpret_cast<double*>(to + i), _mm256_permute4x64_pd(_mm256_castps_pd(even), 0xD8));
  }
  for (; i < count; ++i) to[i] = from[2 * i];
}

template <class Lanes>
class DepthwiseLaunch final : public Launch {
  using Number = typename Lanes::Number;

 public:
  explicit DepthwiseLaunch(const ConvolutionNumbers& numbers) : plan_(numbers) {}

  void run(void* const* operands) override {
    const ConvolutionNumbers& n = plan_.n;
    const std::int64_t positions = ConvolutionNumbers::product(n.positions), taps = ConvolutionNumbers::product(n.taps);
    if (positions == 0) return;
    const double cost = 0.05 * static_cast<double>(positions * taps * n.outputs) +
                        0.3 * static_cast<double>(ConvolutionNumbers::product(n.extent));
    parallel_for(n.images * n.groups, cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        run_channel(static_cast<const Number*>(operands[0]) + i * ConvolutionNumbers::product(n.extent),
                    static_cast<const Number*>(operands[1]) + i % n.groups * n.outputs * taps,
                    static_cast<Number*>(operands[2]) + i * n.outputs * positions);
    });
  }

  void prepare() override { reserve(depthwise_scratch()); }

 private:
  static constexpr std::size_t last = most_axes - 1;

  void reserve(DepthwiseScratch& scratch) const {
    const std::int64_t lines = plan_.n.extent[0] * plan_.n.extent[1] + 1;
    const std::size_t bytes = as_index(lines * plan_.line) * sizeof(Number);
    if (scratch.lines.size() < bytes) scratch.lines.resize(bytes);
    if (scratch.seen.size() < plan_.taps.size()) scratch.seen.resize(plan_.taps.size());
  }

  /// All lines of an image, and one of zeros behind them.
  Number* lay_out(const Number* image, DepthwiseScratch& scratch) const {
    const ConvolutionNumbers& n = plan_.n;
    const std::int64_t lines = n.extent[0] * n.extent[1], step = n.stride[last], low = n.low[last],
                       extent = n.extent[last];
    auto* const all = reinterpret_cast<Number*>(scratch.lines.data());
    std::memset(all, 0, as_index((lines + 1) * plan_.line) * sizeof(Number));
    for (std::int64_t line = 0; line < lines; ++line, image += extent)
      for (std::int64_t rest = 0; rest < step; ++rest) {
        // Element number `at` of the part is element at * step + rest - low of the line.
        const std::int64_t first = std::max<std::int64_t>((low - rest + step - 1) / step, 0),
                           end = std::min((extent + low - rest + step - 1) / step, plan_.part);
        Number* part = all + line * plan_.line + rest * plan_.part;
        if (first >= end) continue;
        const Number* from = image + first * step + rest - low;
        if constexpr (std::same_as<Number, float>) {
          if (step == 2) {
            copy_every_second(part + first, from, end - first);
            continue;
          }
        }
        copy_every(part + first, from, end - first, step);
      }
    return all;
  }

  void run_channel(const Number* image, const Number* weight, Number* out) const {
    const ConvolutionNumbers& n = plan_.n;
    DepthwiseScratch& scratch = depthwise_scratch();
    reserve(scratch);
    const Number* all = lay_out(image, scratch);
    const Number* const zeros = all + n.extent[0] * n.extent[1] * plan_.line;
    for (std::int64_t output = 0; output < n.outputs; ++output, weight += plan_.taps.size())
      for (std::int64_t z = 0; z < n.positions[0]; ++z)
        for (std::int64_t y = 0; y < n.positions[1]; ++y, out += n.positions[last]) {
          for (std::size_t tap = 0; tap < plan_.taps.size(); ++tap) {
            const TapPlace& place = plan_.taps[tap];
            const std::int64_t a = z * n.stride[0] + place.line[0] - n.low[0],
                               b = y * n.stride[1] + place.line[1] - n.low[1];
            const bool is_inside = a >= 0 && a < n.extent[0] && b >= 0 && b < n.extent[1];
            const Number* line = is_inside ? all + (a * n.extent[1] + b) * plan_.line : zeros;
            scratch.seen[tap] = reinterpret_cast<const std::byte*>(line + place.offset);
          }
          run_line(scratch, weight, out);
        }
  }

  void run_line(const DepthwiseScratch& scratch, const Number* weight, Number* out) const {
    constexpr auto one = static_cast<std::int64_t>(Lanes::count), wide = 4 * one;
    const std::span<const std::byte* const> seen(scratch.seen.data(), plan_.taps.size());
    const std::int64_t count = plan_.n.positions[last];
    std::int64_t at = 0;
    for (; at + wide <= count; at += wide) add_taps<Lanes, 4>(seen, weight, at, out + at);
    for (; at + one <= count; at += one) add_taps<Lanes, 1>(seen, weight, at, out + at);
    if (at == count) return;
    Number tail[Lanes::count];
    add_taps<Lanes, 1>(seen, weight, at, tail);
    std::memcpy(out + at, tail, as_index(count - at) * sizeof(Number));
  }

  const DepthwisePlan plan_;
};

}  // namespace x86_convolution_detail

SINTER_DECL std::unique_ptr<Launch> make_depthwise_launch(const x86_convolution_detail::ConvolutionNumbers& numbers) {
  using namespace x86_convolution_detail;
  if (numbers.dtype == DType::f64) return std::make_unique<DepthwiseLaunch<DoubleLanes>>(numbers);
  return std::make_unique<DepthwiseLaunch<FloatLanes>>(numbers);
}

}  // namespace x86
SINTER_NAMESPACE_END
