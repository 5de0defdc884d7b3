// The gradient of a convolution of one channel in each group, by its weight: products of the image's lines, laid out as
// for the convolution, with those of the result's gradient, added up for all taps at once.
#pragma once

#include <sinter/backend/x86/convolution/depthwise_gradient.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/convolution/depthwise.ipp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// Some lines of a gradient, and what the first tap sees of the image from them.
template <class Number>
struct GradientLines {
  const Number* from;
  std::int64_t from_step;  // from one line to the next, elements
  const Number* gradient;  // its lines follow each other
  std::int64_t count, lines;
};

/// Adds the lines' products to the sums of `taps` taps, a vector of lanes of each. Lanes behind a line's end see
/// nothing: what is there may be infinite.
template <class Lanes, std::size_t taps>
__attribute__((target("avx2,fma"))) inline void add_products(const GradientLines<typename Lanes::Number>& seen,
                                                             const std::int64_t* offsets,
                                                             typename Lanes::Number* sums) {
  constexpr auto lanes = static_cast<std::int64_t>(Lanes::count);
  typename Lanes::Vector sum[taps];
#pragma GCC unroll 12
  for (std::size_t tap = 0; tap < taps; ++tap) sum[tap] = Lanes::load(sums + tap * Lanes::count);
  const auto *from = seen.from, *gradient = seen.gradient;
  for (std::int64_t line = 0; line < seen.lines; ++line, from += seen.from_step, gradient += seen.count) {
    std::int64_t i = 0;
    for (; i + lanes <= seen.count; i += lanes) {
      const auto factor = Lanes::load(gradient + i);
#pragma GCC unroll 12
      for (std::size_t tap = 0; tap < taps; ++tap) sum[tap] = Lanes::fma(factor, from + offsets[tap] + i, sum[tap]);
    }
    if (i == seen.count) continue;
    const auto factor = Lanes::load_some(gradient + i, seen.count - i);
#pragma GCC unroll 12
    for (std::size_t tap = 0; tap < taps; ++tap)
      sum[tap] = Lanes::fma(factor, Lanes::load_some(from + offsets[tap] + i, seen.count - i), sum[tap]);
  }
#pragma GCC unroll 12
  for (std::size_t tap = 0; tap < taps; ++tap) Lanes::store(sums + tap * Lanes::count, sum[tap]);
}

/// The same of lines of less than a vector. Lanes behind a line's end are not used: they may hold anything.
template <class Lanes, std::size_t taps>
__attribute__((target("avx2,fma"))) inline void add_short_products(const GradientLines<typename Lanes::Number>& seen,
                                                                   const std::int64_t* offsets,
                                                                   typename Lanes::Number* sums) {
  typename Lanes::Vector sum[taps];
#pragma GCC unroll 12
  for (std::size_t tap = 0; tap < taps; ++tap) sum[tap] = Lanes::load(sums + tap * Lanes::count);
  const auto *from = seen.from, *gradient = seen.gradient;
  for (std::int64_t line = 0; line < seen.lines; ++line, from += seen.from_step, gradient += seen.count) {
    const auto factor = Lanes::load_some(gradient, seen.count);
#pragma GCC unroll 12
    for (std::size_t tap = 0; tap < taps; ++tap) sum[tap] = Lanes::fma(factor, from + offsets[tap], sum[tap]);
  }
#pragma GCC unroll 12
  for (std::size_t tap = 0; tap < taps; ++tap)
    Lanes::store(sums + tap * Lanes::count, Lanes::first(sum[tap], seen.count));
}

/// Of any number of taps: nine at a time are in registers.
template <class Lanes>
void add_products_of_all(const GradientLines<typename Lanes::Number>& seen, std::span<const std::int64_t> offsets,
                         typename Lanes::Number* sums) {
  constexpr std::size_t at_once = 9;
  const bool is_short = seen.count < static_cast<std::int64_t>(Lanes::count);
  std::size_t tap = 0;
  for (; tap + at_once <= offsets.size(); tap += at_once)
    (is_short ? add_short_products<Lanes, at_once> : add_products<Lanes, at_once>)(seen, offsets.data() + tap,
                                                                                   sums + tap * Lanes::count);
  for (; tap + 3 <= offsets.size(); tap += 3)
    add_products<Lanes, 3>(seen, offsets.data() + tap, sums + tap * Lanes::count);
  for (; tap < offsets.size(); ++tap) add_products<Lanes, 1>(seen, offsets.data() + tap, sums + tap * Lanes::count);
}

template <class Lanes>
class DepthwiseWeightGradientLaunch final : public Launch {
  using Number = typename Lanes::Number;

 public:
  explicit DepthwiseWeightGradientLaunch(const DepthwisePlan& plan) : plan_(plan) {}

  void run(void* const* operands) override {
    const ConvolutionNumbers& n = plan_.n;
    const std::int64_t positions = ConvolutionNumbers::product(n.positions), taps = ConvolutionNumbers::product(n.taps);
    const double cost =
        static_cast<double>(n.images) * (0.03 * static_cast<double>(positions * taps * n.outputs) +
                                         0.1 * static_cast<double>(ConvolutionNumbers::product(n.extent)));
    if (positions == 0) return write_zeros(static_cast<Number*>(operands[2]));
    parallel_for(n.groups, cost, [&](std::int64_t begin, std::int64_t end) {
      const Range range{operands, reserve(), begin, (end - begin) * n.images};
      std::memset(range.room.lines, 0, as_index(copies() * plan_.elements()) * sizeof(Number));  // borders stay so
      if (copies() > 1 && range.images > 0) lay_out_image(range, 0);
      for (std::int64_t group = begin; group < end; ++group) run_group(range, group);
    });
  }
  void prepare() override { reserve(); }

 private:
  /// One thread's: an image, sums of some lines, and sums of those.
  struct Room {
    double* totals;
    Number *sums, *lines;
  };
  /// A thread's groups, from `first` on, with as many images together.
  struct Range {
    void* const* operands;
    Room room;
    std::int64_t first, images;
  };
  /// As in a convolution.
  std::int64_t copies() const { return plan_.elements() <= 4096 ? 2 : 1; }

  /// Vectors that are added up before they go to the totals.
  static constexpr std::int64_t vectors_of_sum = 256;

  std::size_t sums() const { return as_index(plan_.n.outputs) * plan_.offsets.size() * Lanes::count; }
  Room reserve() const {
    using x86_contraction_detail::AlignedBytes;
    AlignedBytes& memory = thread_object([] { return new AlignedBytes; });
    memory.reserve(sums() * (sizeof(double) + sizeof(Number)) + as_index(copies() * plan_.elements()) * sizeof(Number));
    auto* const totals = reinterpret_cast<double*>(memory.data());
    auto* const own = reinterpret_cast<Number*>(totals + sums());
    return {totals, own, own + sums()};
  }

  Number* lines_of(const Range& range, std::int64_t image) const {
    return range.room.lines + image % copies() * plan_.elements();
  }
  /// Image `image` of those of all groups of the thread, one group after the other.
  void lay_out_image(const Range& range, std::int64_t image) const {
    const ConvolutionNumbers& n = plan_.n;
    const std::int64_t group = range.first + image / n.images, number = image % n.images * n.groups + group;
    const auto* const x = static_cast<const Number*>(range.operands[0]);
    lay_out<Lanes>(plan_, x + number * ConvolutionNumbers::product(n.extent), lines_of(range, image));
  }
  void run_group(const Range& range, std::int64_t group) const {
    const ConvolutionNumbers& n = plan_.n;
    const std::int64_t results = n.outputs * ConvolutionNumbers::product(n.positions);
    const auto* const gradient = static_cast<const Number*>(range.operands[1]);
    std::fill_n(range.room.totals, sums(), 0.0);
    std::fill_n(range.room.sums, sums(), Number(0));
    std::int64_t vectors = 0;
    for (std::int64_t i = 0; i < n.images; ++i) {
      const std::int64_t image = (group - range.first) * n.images + i;
      if (const std::int64_t next = image + copies() - 1; next < range.images) lay_out_image(range, next);
      add_image(range.room, lines_of(range, image), gradient + (i * n.groups + group) * results, vectors);
    }
    add_to_totals(range.room, vectors);
    write(range.room, static_cast<Number*>(range.operands[2]) + group * n.outputs * std::ssize(plan_.offsets));
  }

  void add_image(const Room& room, const Number* image, const Number* gradient, std::int64_t& vectors) const {
    const ConvolutionNumbers& n = plan_.n;
    const std::int64_t count = n.positions[most_axes - 1], positions = ConvolutionNumbers::product(n.positions);
    constexpr auto lanes = static_cast<std::int64_t>(Lanes::count);
    constexpr std::int64_t most = vectors_of_sum * lanes;  // of a line that are added up at once
    const std::int64_t in_line = (std::min(count, most) + lanes - 1) / lanes,
                       at_once = count > most ? 1 : std::max<std::int64_t>(vectors_of_sum / in_line, 1),
                       step = n.stride[1] * plan_.line;
    for (std::int64_t z = 0; z < n.positions[0]; ++z)
      for (std::int64_t y = 0; y < n.positions[1];) {
        const std::int64_t lines = std::min(at_once, n.positions[1] - y);
        for (std::int64_t x = 0; x < count; x += most) {
          if (vectors + lines * in_line > vectors_of_sum) add_to_totals(room, vectors);
          vectors += lines * in_line;
          GradientLines<Number> seen{image + z * n.stride[0] * plan_.lines[1] * plan_.line + y * step + x, step,
                                     gradient + (z * n.positions[1] + y) * count + x, std::min(most, count - x), lines};
          for (std::int64_t output = 0; output < n.outputs; ++output, seen.gradient += positions)
            add_products_of_all<Lanes>(seen, plan_.offsets,
                                       room.sums + as_index(output) * plan_.offsets.size() * Lanes::count);
        }
        y += lines;
      }
  }
  __attribute__((target("avx2,fma"))) void add_to_totals(const Room& room, std::int64_t& vectors) const {
    const std::size_t all = sums();
    for (std::size_t i = 0; i < all; i += Lanes::count) Lanes::move_to(room.totals + i, room.sums + i);
    vectors = 0;
  }
  void write_zeros(Number* out) const {
    std::fill_n(out, as_index(plan_.n.groups * plan_.n.outputs) * plan_.offsets.size(), Number(0));
  }
  __attribute__((target("avx2,fma"))) void write(const Room& room, Number* out) const {
    const std::size_t elements = as_index(plan_.n.outputs) * plan_.offsets.size();
    for (std::size_t i = 0; i < elements; ++i)
      out[i] = static_cast<Number>(Lanes::sum_of(room.totals + i * Lanes::count));
  }

  const DepthwisePlan plan_;
};

}  // namespace x86_convolution_detail

SINTER_DECL std::unique_ptr<Launch> make_depthwise_weight_gradient_launch(
    const x86_convolution_detail::ConvolutionNumbers& numbers) {
  using namespace x86_convolution_detail;
  const DepthwisePlan plan(numbers);
  if (numbers.dtype == DType::f64) return std::make_unique<DepthwiseWeightGradientLaunch<DoubleLanes>>(plan);
  return std::make_unique<DepthwiseWeightGradientLaunch<FloatLanes>>(plan);
}

}  // namespace x86
SINTER_NAMESPACE_END
