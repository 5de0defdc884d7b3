// An image's lines (along the last axis) are laid out with their borders, above and below, too, and apart by the
// remainder of the stride: what a tap sees from successive positions is then adjacent, and as far from the first
// position of any line, whatever stride and dilation are.
#pragma once

#include <sinter/backend/x86/convolution/depthwise.hpp>
#include <sinter/backend/x86/convolution/following.hpp>

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
#include <optional>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// Elements of a line of the image, a stride apart, and where in a laid out line they are adjacent.
struct LinePiece {
  std::int64_t to, from, count;
};

struct DepthwisePlan {
  explicit DepthwisePlan(const ConvolutionNumbers& numbers) : n(numbers) {
    constexpr std::int64_t vector = 8, alignment = 16;  // a line may be read, and zeroed, a vector beyond its end
    const std::size_t last = most_axes - 1;
    const std::int64_t step = n.stride[last];
    used = (n.taps[last] - 1) * n.dilation[last] / step + n.positions[last];
    part = (used + vector + alignment - 1) / alignment * alignment;
    line = part * step;
    for (std::int64_t rest = 0; rest < step; ++rest) {
      const std::int64_t low = n.low[last] - rest, first = std::max<std::int64_t>((low + step - 1) / step, 0),
                         end = std::min((n.extent[last] + low + step - 1) / step, used);
      if (first < end) pieces.push_back({rest * part + first, first * step - low, end - first});
    }
    for (std::size_t axis = 0; axis < last; ++axis)
      lines[axis] = std::max<std::int64_t>(
          (n.positions[axis] - 1) * n.stride[axis] + (n.taps[axis] - 1) * n.dilation[axis] + 1, 1);
    for (std::int64_t z = 0; z < n.taps[0]; ++z)
      for (std::int64_t y = 0; y < n.taps[1]; ++y)
        for (std::int64_t x = 0; x < n.taps[2]; ++x) {
          const std::int64_t seen = x * n.dilation[last];
          offsets.push_back((z * n.dilation[0] * lines[1] + y * n.dilation[1]) * line + seen % step * part +
                            seen / step);
        }
  }
  std::int64_t elements() const { return lines[0] * lines[1] * line; }

  ConvolutionNumbers n;
  std::int64_t used = 0, part = 0, line = 0;  // elements of the positions of one remainder, with room, and of all
  std::array<std::int64_t, most_axes - 1> lines{1, 1};
  std::vector<LinePiece> pieces;
  std::vector<std::int64_t> offsets;  // of each tap, elements from where the first tap is
};

/// At least so many elements are laid out; before a plan is made, whose numbers may be too large for its integers.
inline double least_elements(const ConvolutionNumbers& n) {
  double elements = 1;
  for (std::size_t axis = 0; axis < most_axes; ++axis) {
    const double step = static_cast<double>(n.stride[axis]),
                 taps = static_cast<double>(n.taps[axis] - 1) * static_cast<double>(n.dilation[axis]);
    elements *= std::max(static_cast<double>(n.positions[axis] - 1) * step + taps + 1, 1.0);
  }
  return elements;
}

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
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector load(const float* from) {
    return _mm256_loadu_ps(from);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector fma(Vector a, Vector b, Vector c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline void store(float* to, Vector x) {
    _mm256_storeu_ps(to, x);
  }
  /// The first `used` of them, and zeros.
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector load_some(const float* from,
                                                                                    std::int64_t used) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<std::int32_t>(used)), lane));
  }
  /// The first `used` lanes, and zeros.
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector first(Vector x, std::int64_t used) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<std::int32_t>(used)), lane);
    return _mm256_and_ps(x, _mm256_castsi256_ps(mask));
  }
  /// Adds all lanes to totals, and leaves zeros.
  __attribute__((target("avx2,fma"), always_inline)) static inline void move_to(double* totals, float* sums) {
    for (std::size_t i = 0; i < count; i += 4)
      _mm256_storeu_pd(totals + i, _mm256_add_pd(_mm256_loadu_pd(totals + i), _mm256_cvtps_pd(_mm_loadu_ps(sums + i))));
    store(sums, zero());
  }
  /// Of all lanes, in halves.
  __attribute__((target("avx2,fma"), always_inline)) static inline double sum_of(const double* totals) {
    const __m256d four = _mm256_add_pd(_mm256_loadu_pd(totals), _mm256_loadu_pd(totals + 4));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
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
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector load(const double* from) {
    return _mm256_loadu_pd(from);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector fma(Vector a, Vector b, Vector c) {
    return _mm256_fmadd_pd(a, b, c);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline void store(double* to, Vector x) {
    _mm256_storeu_pd(to, x);
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector load_some(const double* from,
                                                                                    std::int64_t used) {
    const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
    return _mm256_maskload_pd(from, _mm256_cmpgt_epi64(_mm256_set1_epi64x(used), lane));
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline Vector first(Vector x, std::int64_t used) {
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(used), _mm256_setr_epi64x(0, 1, 2, 3));
    return _mm256_and_pd(x, _mm256_castsi256_pd(mask));
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline void move_to(double* totals, double* sums) {
    _mm256_storeu_pd(totals, _mm256_add_pd(_mm256_loadu_pd(totals), _mm256_loadu_pd(sums)));
    store(sums, zero());
  }
  __attribute__((target("avx2,fma"), always_inline)) static inline double sum_of(const double* totals) {
    const __m256d four = _mm256_loadu_pd(totals);
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};

/// The lines of a thread's channel.
inline std::vector<std::byte>& depthwise_lines() {
  return thread_object([] { return new std::vector<std::byte>; });
}

/// Some vectors of results in some successive lines.
template <class Number>
struct DepthwiseTile {
  const Number* from;      // what the first tap sees from the first position
  std::int64_t from_step;  // from one line to the next, elements
  std::span<const std::int64_t> offsets;
  const Number* weight;
  Number* out;
  std::int64_t out_step;
  Number* end;  // of the results: nothing is written from here on
};

/// A vector may be written over the beginning of the next line.
template <class Lanes, std::size_t lines, std::size_t vectors>
__attribute__((target("avx2,fma"))) inline void add_taps(const DepthwiseTile<typename Lanes::Number>& tile) {
  using Number = typename Lanes::Number;
  typename Lanes::Vector sum[lines * vectors];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < lines * vectors; ++i) sum[i] = Lanes::zero();
  for (std::size_t tap = 0; tap < tile.offsets.size(); ++tap) {
    const auto factor = Lanes::broadcast(tile.weight[tap]);
    const Number* from = tile.from + tile.offsets[tap];
#pragma GCC unroll 8
    for (std::size_t line = 0; line < lines; ++line, from += tile.from_step)
#pragma GCC unroll 2
      for (std::size_t i = 0; i < vectors; ++i)
        sum[line * vectors + i] = Lanes::fma(factor, from + i * Lanes::count, sum[line * vectors + i]);
  }
  Number* out = tile.out;
#pragma GCC unroll 8
  for (std::size_t line = 0; line < lines; ++line, out += tile.out_step)
#pragma GCC unroll 2
    for (std::size_t i = 0; i < vectors; ++i) {
      Number* to = out + i * Lanes::count;
      if (tile.end - to >= static_cast<std::ptrdiff_t>(Lanes::count)) {
        Lanes::store(to, sum[line * vectors + i]);
        continue;
      }
      Number last[Lanes::count];
      Lanes::store(last, sum[line * vectors + i]);
      std::memcpy(to, last, as_index(tile.end - to) * sizeof(Number));
    }
}

/// `count` results of each of some lines. What a line writes beyond its end comes before what belongs there: the last
/// vectors of all lines first.
template <class Lanes, std::size_t lines>
inline void add_lines(DepthwiseTile<typename Lanes::Number> tile, std::int64_t count) {
  constexpr auto one = static_cast<std::int64_t>(Lanes::count);
  const auto* const from = tile.from;
  auto* const out = tile.out;
  std::int64_t at = (count + one - 1) / one * one;
  const auto move_back = [&](std::int64_t by) {
    at -= by;
    tile.from = from + at;
    tile.out = out + at;
  };
  if (at / one % 2 == 1) {
    move_back(one);
    add_taps<Lanes, lines, 1>(tile);
  }
  while (at > 0) {
    move_back(2 * one);
    add_taps<Lanes, lines, 2>(tile);
  }
}

/// A vector of each of up to eight lines, all that they have.
template <class Lanes>
inline void add_short_lines(const DepthwiseTile<typename Lanes::Number>& tile, std::int64_t lines) {
  switch (lines) {
    case 1: return add_taps<Lanes, 1, 1>(tile);
    case 2: return add_taps<Lanes, 2, 1>(tile);
    case 3: return add_taps<Lanes, 3, 1>(tile);
    case 4: return add_taps<Lanes, 4, 1>(tile);
    case 5: return add_taps<Lanes, 5, 1>(tile);
    case 6: return add_taps<Lanes, 6, 1>(tile);
    case 7: return add_taps<Lanes, 7, 1>(tile);
    default: return add_taps<Lanes, 8, 1>(tile);
  }
}

/// `count` elements, and zeros up to a vector behind them.
template <class Lanes>
__attribute__((target("avx2,fma"))) inline void copy_line(typename Lanes::Number* to,
                                                          const typename Lanes::Number* from, std::int64_t count) {
  constexpr auto one = static_cast<std::int64_t>(Lanes::count);
  for (; count >= one; count -= one, to += one, from += one) Lanes::store(to, Lanes::load(from));
  if (count > 0) Lanes::store(to, Lanes::load_some(from, count));
}
/// The same of every second element.
__attribute__((target("avx2,fma"))) inline void copy_every_second(float* to, const float* from, std::int64_t count) {
  for (; count > 0; count -= 8, to += 8, from += 16) {
    const std::int64_t seen = 2 * count - 1;
    const __m256 even =
        _mm256_shuffle_ps(FloatLanes::load_some(from, seen), FloatLanes::load_some(from + 8, seen - 8), 0x88);
    _mm256_storeu_pd(reinterpret_cast<double*>(to), _mm256_permute4x64_pd(_mm256_castps_pd(even), 0xD8));
  }
}

template <class Lanes>
__attribute__((target("avx2,fma"))) inline void lay_out_line(const DepthwisePlan& plan,
                                                             const typename Lanes::Number* from,
                                                             typename Lanes::Number* line) {
  using Number = typename Lanes::Number;
  const std::int64_t step = plan.n.stride[most_axes - 1];
  for (const LinePiece& piece : plan.pieces) {
    Number* to = line + piece.to;
    const Number* seen = from + piece.from;
    if (step == 1) {
      copy_line<Lanes>(to, seen, piece.count);
      continue;
    }
    if constexpr (std::same_as<Number, float>) {
      if (step == 2) {
        copy_every_second(to, seen, piece.count);
        continue;
      }
    }
    for (std::int64_t i = 0; i < piece.count; ++i) to[i] = seen[i * step];
  }
}
/// The lines of a channel's image, between borders that are zeros already.
template <class Lanes>
__attribute__((target("avx2,fma"))) inline void lay_out(const DepthwisePlan& plan, const typename Lanes::Number* image,
                                                        typename Lanes::Number* lines) {
  const ConvolutionNumbers& n = plan.n;
  if (n.stride[most_axes - 1] == 1 && plan.pieces.size() == 1) {
    const LinePiece& piece = plan.pieces[0];
    for (std::int64_t z = 0; z < n.extent[0] && z + n.low[0] < plan.lines[0]; ++z) {
      const auto* from = image + z * n.extent[1] * n.extent[most_axes - 1] + piece.from;
      auto* to = lines + ((z + n.low[0]) * plan.lines[1] + n.low[1]) * plan.line + piece.to;
      const std::int64_t end = std::min(n.extent[1], plan.lines[1] - n.low[1]);
      for (std::int64_t y = 0; y < end; ++y, from += n.extent[most_axes - 1], to += plan.line)
        copy_line<Lanes>(to, from, piece.count);
    }
    return;
  }
  for (std::int64_t z = 0; z < n.extent[0] && z + n.low[0] < plan.lines[0]; ++z)
    for (std::int64_t y = 0; y < n.extent[1] && y + n.low[1] < plan.lines[1]; ++y)
      lay_out_line<Lanes>(plan, image + (z * n.extent[1] + y) * n.extent[most_axes - 1],
                          lines + ((z + n.low[0]) * plan.lines[1] + y + n.low[1]) * plan.line);
}

template <class Lanes>
class DepthwiseLaunch final : public FollowableLaunch {
  using Number = typename Lanes::Number;

 public:
  DepthwiseLaunch(const DepthwisePlan& plan, Isa isa, std::shared_ptr<const FollowingLoop> following = nullptr)
      : plan_(plan), isa_(isa), following_(std::move(following)) {}

  void run(void* const* operands) override {
    const ConvolutionNumbers& n = plan_.n;
    const std::int64_t positions = ConvolutionNumbers::product(n.positions), taps = ConvolutionNumbers::product(n.taps);
    if (positions == 0) return;
    double cost = 0.02 * static_cast<double>(positions * taps * n.outputs) +
                  0.1 * static_cast<double>(ConvolutionNumbers::product(n.extent));
    if (following_ != nullptr)
      cost += following_->nanoseconds_per_element() * static_cast<double>(positions * n.outputs);
    parallel_for(n.images * n.groups, cost, [&](std::int64_t begin, std::int64_t end) {
      const Range range{operands, reserve(), end};
      std::memset(range.lines, 0, as_index(copies() * plan_.elements()) * sizeof(Number));  // borders stay so
      if (copies() > 1) lay_out_group(range, begin);
      if (following_ != nullptr) return run_followed(range, begin);
      auto* const out = static_cast<Number*>(operands[2]);
      for (std::int64_t i = begin; i < end; ++i) run_group(range, i, out + i * n.outputs * positions);
    });
  }

  void prepare() override { reserve(); }

  std::unique_ptr<Launch> followed_by(const FollowingKernel& next) const override {
    const ConvolutionNumbers& n = plan_.n;
    const ResultExtents extents{n.images, n.groups * n.outputs, ConvolutionNumbers::product(n.positions), n.dtype};
    const std::optional<Following> following = Following::find(next, extents);
    if (!following) return nullptr;
    std::shared_ptr<const FollowingLoop> loop = FollowingLoop::make(*following, isa_);
    return loop != nullptr ? std::make_unique<DepthwiseLaunch>(plan_, isa_, std::move(loop)) : nullptr;
  }

 private:
  static constexpr std::size_t last = most_axes - 1;

  /// Groups of images, up to `end`, of one thread.
  struct Range {
    void* const* operands;
    Number* lines;
    std::int64_t end;
  };
  /// Small images are laid out while the one before is convolved: what has just been written in vectors is not read yet
  /// as parts of two of them.
  std::int64_t copies() const { return plan_.elements() <= 4096 ? 2 : 1; }

  Number* reserve() const {
    std::vector<std::byte>& lines = depthwise_lines();
    const std::int64_t results = following_ != nullptr ? groups_at_once() * result_elements() : 0;
    const std::size_t bytes = as_index(copies() * plan_.elements() + results) * sizeof(Number);
    if (lines.size() < bytes) lines.resize(bytes);
    return reinterpret_cast<Number*>(lines.data());
  }

  /// Of a group.
  std::int64_t result_elements() const { return plan_.n.outputs * ConvolutionNumbers::product(plan_.n.positions); }
  /// Results of so many stay in the cache until the kernel that follows takes them.
  std::int64_t groups_at_once() const {
    constexpr std::int64_t most_bytes = 8 << 10;
    return std::clamp<std::int64_t>(most_bytes / plan_.n.element() / result_elements(), 1, plan_.n.groups);
  }

  Number* lines_of(const Range& range, std::int64_t number) const {
    return range.lines + number % copies() * plan_.elements();
  }
  void lay_out_group(const Range& range, std::int64_t number) const {
    const auto* const x = static_cast<const Number*>(range.operands[0]);
    lay_out<Lanes>(plan_, x + number * ConvolutionNumbers::product(plan_.n.extent), lines_of(range, number));
  }
  /// Group `number` of those of all images.
  void run_group(const Range& range, std::int64_t number, Number* out) const {
    const ConvolutionNumbers& n = plan_.n;
    if (const std::int64_t next = number + copies() - 1; next < range.end) lay_out_group(range, next);
    const auto* const weights = static_cast<const Number*>(range.operands[1]);
    add_channel(lines_of(range, number), weights + number % n.groups * n.outputs * ConvolutionNumbers::product(n.taps),
                out);
  }
  void run_followed(const Range& range, std::int64_t begin) const {
    const ConvolutionNumbers& n = plan_.n;
    Number* const results = range.lines + copies() * plan_.elements();
    const std::int64_t channel_bytes = ConvolutionNumbers::product(n.positions) * n.element();
    FollowingRun follow(*following_, range.operands + 3);
    for (std::int64_t i = begin; i < range.end;) {
      const std::int64_t first = i % n.groups, count = std::min({groups_at_once(), n.groups - first, range.end - i});
      for (std::int64_t k = 0; k < count; ++k) run_group(range, i + k, results + k * result_elements());
      follow({i / n.groups, first * n.outputs, count * n.outputs, results, channel_bytes});
      i += count;
    }
  }

  void add_channel(const Number* lines, const Number* weight, Number* out) const {
    const ConvolutionNumbers& n = plan_.n;
    const std::int64_t count = n.positions[last], step = n.stride[1] * plan_.line;
    const bool is_short = count <= static_cast<std::int64_t>(Lanes::count);
    Number* const end = out + n.outputs * ConvolutionNumbers::product(n.positions);
    for (std::int64_t output = 0; output < n.outputs; ++output, weight += plan_.offsets.size())
      for (std::int64_t z = 0; z < n.positions[0]; ++z) {
        const Number* from = lines + z * n.stride[0] * plan_.lines[1] * plan_.line;
        for (std::int64_t y = 0; y < n.positions[1];) {
          const DepthwiseTile<Number> tile{from, step, plan_.offsets, weight, out, count, end};
          const std::int64_t left = n.positions[1] - y;
          const std::int64_t rows = is_short ? std::min<std::int64_t>(left, 8) : left >= 4 ? 4 : left >= 2 ? 2 : 1;
          if (is_short) add_short_lines<Lanes>(tile, rows);
          else if (rows == 4) add_lines<Lanes, 4>(tile, count);
          else if (rows == 2) add_lines<Lanes, 2>(tile, count);
          else add_lines<Lanes, 1>(tile, count);
          y += rows;
          from += rows * step;
          out += rows * count;
        }
      }
  }

  const DepthwisePlan plan_;
  const Isa isa_;  // of what follows
  const std::shared_ptr<const FollowingLoop> following_;
};

/// Nothing where an image with its borders is many times as large as without.
inline std::optional<DepthwisePlan> depthwise_plan(const ConvolutionNumbers& numbers) {
  constexpr std::int64_t few_elements = 1 << 16, most_times = 4;
  if (std::any_of(numbers.low.begin(), numbers.low.end(), [](std::int64_t low) { return low < 0; }))
    return std::nullopt;
  const std::int64_t most_elements = few_elements + most_times * ConvolutionNumbers::product(numbers.extent);
  if (least_elements(numbers) > static_cast<double>(most_elements)) return std::nullopt;
  DepthwisePlan plan(numbers);
  if (plan.elements() > most_elements) return std::nullopt;
  return plan;
}

}  // namespace x86_convolution_detail

SINTER_DECL std::unique_ptr<Launch> make_depthwise_launch(const x86_convolution_detail::ConvolutionNumbers& numbers,
                                                          Isa isa) {
  using namespace x86_convolution_detail;
  const std::optional<DepthwisePlan> plan = depthwise_plan(numbers);
  if (!plan) return nullptr;
  if (numbers.dtype == DType::f64) return std::make_unique<DepthwiseLaunch<DoubleLanes>>(*plan, isa);
  return std::make_unique<DepthwiseLaunch<FloatLanes>>(*plan, isa);
}

}  // namespace x86
SINTER_NAMESPACE_END
