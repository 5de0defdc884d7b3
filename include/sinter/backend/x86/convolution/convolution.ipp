// What a tap of the kernel sees from successive positions are runs of an image's rows, the same in every channel: found
// once for a panel.
#pragma once

#include <sinter/backend/x86/convolution/convolution.hpp>

#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/convolution/depthwise.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/ops/conv.hpp>
#include <sinter/ops/convolution.hpp>

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// `out` has the positions in its last axes.
inline ConvolutionNumbers numbers_of(const Attrs& attrs, const Type& x, const Shape& weight, const Shape& out,
                                     bool is_conv2d) {
  using Any = ops::ConvolutionAttributes;
  ConvolutionNumbers n;
  n.dtype = x.dtype;
  n.groups = is_conv2d ? 1 : attrs[Any::groups];
  n.images = x.shape[0].value();
  n.channels = weight[1].value();
  n.outputs = weight[0].value() / n.groups;
  const int axes = x.shape.rank() - 2;
  for (int axis = 0; axis < axes; ++axis) {
    const std::size_t from = as_index(axis), to = most_axes - as_index(axes) + from;
    n.extent[to] = x.shape[2 + axis].value();
    n.positions[to] = out[2 + axis].value();
    n.taps[to] = weight[2 + axis].value();
    const std::int64_t stride = is_conv2d ? attrs[ops::Conv2d::stride][from] : attrs[Any::stride][from];
    n.stride[to] = n.positions[to] > 1 ? stride : 1;  // it may reach beyond the image where nothing follows
    n.dilation[to] = is_conv2d ? 1 : attrs[Any::dilation][from];
    n.low[to] = is_conv2d ? attrs[ops::Conv2d::padding][from] : attrs[Any::low][axis].value();
  }
  return n;
}

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
  /// At most so many runs for `count` positions.
  std::int64_t most_runs(std::int64_t count) const { return 3 * (count / n_.positions[last] + 2) * taps(); }

  /// Room for those of `count` positions.
  void reserve(TapRuns& found, std::int64_t count) const {
    found.runs.reserve(as_index(most_runs(count) + taps()));
    found.begin.reserve(as_index(taps() + 1));
  }
  /// For the positions from `first` on, row by row; zeros behind them fill up to `width`.
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
    else if (n_.element() == 4) copy_words<float>(to, channel + run.from, run.bytes, step);
    else copy_words<double>(to, channel + run.from, run.bytes, step);
  }

  void find_runs_of_tap(std::int64_t first, std::int64_t count, const Place& tap, std::vector<Run>& runs) const {
    Place position = {first / (n_.positions[1] * n_.positions[2]), first / n_.positions[2] % n_.positions[1],
                      first % n_.positions[2]};
    for (std::int64_t at = 0; at < count;) {
      const std::int64_t in_row = std::min(n_.positions[last] - position[last], count - at);
      add_row(position, tap, at, in_row, runs);
      at += in_row;
      position[2] = 0;
      if (++position[1] < n_.positions[1]) continue;
      position[1] = 0;
      ++position[0];
    }
  }

  /// The element that a tap sees from a position; outside of the image there are zeros.
  std::int64_t seen(const Place& position, const Place& tap, std::size_t axis) const {
    return position[axis] * n_.stride[axis] + tap[axis] * n_.dilation[axis] - n_.low[axis];
  }

  void add_row(const Place& position, const Place& tap, std::int64_t at, std::int64_t count,
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
    add({(row * extent + first + before * step) * n_.element(), 0, 0, false}, at + before, inside - before, runs);
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

/// The windows of an image as columns: B[(channel, tap), position].
class WindowColumns final : public PanelSource {
 public:
  explicit WindowColumns(const ConvolutionNumbers& numbers) : windows_(numbers) {}

  /// Panels are the same in every image, and are kept where they do not take much room.
  void bind(std::int64_t columns, std::int64_t width, std::int64_t) override {
    constexpr std::int64_t most_kept_runs = 1 << 16;
    const std::int64_t panels = (columns + width - 1) / width;
    width_ = width;
    if (panels * windows_.most_runs(width) > most_kept_runs) return;
    kept_.resize(as_index(panels));
    for (std::int64_t panel = 0; panel < panels; ++panel)
      windows_.find_runs(panel * width, std::min(width, columns - panel * width), width, kept_[as_index(panel)]);
  }
  void prepare() const override {
    if (kept_.empty()) windows_.reserve(tap_runs(), width_);
  }

  void make_panel(const PanelRequest& request) const override {
    if (!kept_.empty()) return copy(request, kept_[as_index(request.column / request.width)]);
    TapRuns& found = tap_runs();
    windows_.find_runs(request.column, request.columns, request.width, found);
    copy(request, found);
  }

 private:
  void copy(const PanelRequest& request, const TapRuns& panel) const {
    const std::int64_t taps = windows_.taps(), row = request.width * windows_.numbers().element();
    const std::byte* channel = request.from + request.k / taps * windows_.channel_bytes();
    std::int64_t tap = request.k % taps;
    std::byte* to = request.to;
    for (std::int64_t k = request.k; k < request.k_end; ++k, to += row) {
      windows_.copy(to, channel, panel, tap);
      if (++tap < taps) continue;
      tap = 0;
      channel += windows_.channel_bytes();
    }
  }

  const Windows windows_;
  std::int64_t width_ = 0;
  std::vector<TapRuns> kept_;
};

/// The windows of all images as rows: B[(image, position), (channel, tap)]. A column lies in memory by runs, so columns
/// are laid out one after the other and then transposed.
class WindowRows final : public PanelSource {
 public:
  explicit WindowRows(const ConvolutionNumbers& numbers) : windows_(numbers) {}
  /// The runs of a whole image are kept where they do not take much room.
  void bind(std::int64_t, std::int64_t width, std::int64_t rows) override {
    constexpr std::int64_t most_kept_runs = 1 << 16, most_bytes = std::numeric_limits<std::int32_t>::max();  // of a Run
    width_ = width;
    rows_ = rows;
    const std::int64_t positions = windows_.positions();
    if (windows_.most_runs(positions) <= most_kept_runs && positions <= most_bytes / windows_.numbers().element())
      windows_.find_runs(0, positions, positions, kept_);
  }
  void prepare() const override {
    if (kept_.begin.empty()) windows_.reserve(tap_runs(), rows_);
    reserve_columns(width_ * stride_of(rows_));
  }

  void make_panel(const PanelRequest& request) const override {
    const std::int64_t element = windows_.numbers().element(), rows = request.k_end - request.k,
                       stride = stride_of(rows),
                       image = windows_.numbers().groups * windows_.numbers().channels * windows_.channel_bytes();
    std::byte* const columns = reserve_columns(request.columns * stride);
    for (std::int64_t k = request.k; k < request.k_end;) {
      const std::int64_t first = k % windows_.positions(),
                         count = std::min(windows_.positions() - first, request.k_end - k);
      copy_image(request, columns + (k - request.k) * element, stride, request.from + k / windows_.positions() * image,
                 first, count);
      k += count;
    }
    pack_panel(request.to, columns, rows, request.columns, request.width, element, stride, element);
  }

 private:
  /// What all columns of a panel have of `count` positions of an image, from `first` on.
  void copy_image(const PanelRequest& request, std::byte* to, std::int64_t stride, const std::byte* image,
                  std::int64_t first, std::int64_t count) const {
    const std::int64_t taps = windows_.taps();
    const bool is_kept = !kept_.begin.empty();
    TapRuns& found = tap_runs();
    if (!is_kept) windows_.find_runs(first, count, count, found);
    for (std::int64_t at = request.column; at < request.column + request.columns; ++at, to += stride) {
      const std::byte* channel = image + at / taps * windows_.channel_bytes();
      if (is_kept) windows_.copy_some(to, channel, kept_, at % taps, first, count);
      else windows_.copy(to, channel, found, at % taps);
    }
  }

  /// From one column to the next, bytes: a copy may write a vector behind its end.
  std::int64_t stride_of(std::int64_t rows) const { return (rows * windows_.numbers().element() + 32 + 63) / 64 * 64; }
  static std::byte* reserve_columns(std::int64_t bytes) {
    std::vector<std::byte>& columns = thread_object([] { return new std::vector<std::byte>; });
    if (std::ssize(columns) < bytes) columns.resize(as_index(bytes));
    return columns.data();
  }

  const Windows windows_;
  std::int64_t width_ = 0, rows_ = 0;
  TapRuns kept_;
};

/// A product for each index of its batch axes, which come first; then output, column and k.
inline Kernel product_kernel(DType dtype, std::size_t batch_axes, bool a_is_shared) {
  using enum StrideClass;
  Kernel kernel;
  kernel.kind = KernelKind::contraction;
  kernel.operands = {{dtype, false}, {dtype, false}, {dtype, true}};
  kernel.accesses.resize(3);
  for (std::size_t i = 0; i < batch_axes; ++i) {
    kernel.axes.push_back(AxisRole::parallel);
    for (Access& access : kernel.accesses) access.stride[i] = any;
  }
  if (a_is_shared) kernel.accesses[0].stride[0] = zero;
  const std::size_t m = batch_axes;
  for (AxisRole role : {AxisRole::parallel, AxisRole::parallel, AxisRole::reduced}) kernel.axes.push_back(role);
  const StrideClass strides[3][3] = {{any, zero, unit}, {zero, unit, any}, {any, unit, zero}};
  Inst load{.prim = Prim::load, .dtype = dtype};
  for (std::size_t i = 0; i < 3; ++i) {
    Access& access = kernel.accesses[i];
    access.operand = static_cast<std::uint16_t>(i);
    for (std::size_t axis = 0; axis < 3; ++axis) access.stride[m + axis] = strides[i][axis];
    load.access = static_cast<std::uint16_t>(i);
    if (i < 2) kernel.body.push_back(load);
  }
  kernel.body.push_back({.prim = Prim::contract, .dtype = dtype, .args = {0, 1, no_inst}});
  kernel.stores = {{.access = 2, .value = 2}};
  return kernel;
}

/// One product for each image and group: the weight by the image's windows.
class ConvolutionLaunch final : public Launch {
 public:
  ConvolutionLaunch(const ConvolutionNumbers& numbers, Isa isa)
      : columns_(numbers),
        product_(make_product_launch(product_kernel(numbers.dtype, 2, true), geometry(numbers), columns_, isa)) {}
  void run(void* const* operands) override {
    void* const places[] = {operands[1], operands[0], operands[2]};
    product_->run(places);
  }
  void prepare() override { product_->prepare(); }

 private:
  static BoundGeometry geometry(const ConvolutionNumbers& n) {
    const std::int64_t positions = ConvolutionNumbers::product(n.positions), depth = n.depth(),
                       image = n.channels * ConvolutionNumbers::product(n.extent);
    BoundGeometry geometry;
    geometry.extent = {n.images, n.groups, n.outputs, positions, depth};
    geometry.accesses.resize(3);
    geometry.accesses[0].stride = {0, n.outputs * depth, depth, 0, 1};
    geometry.accesses[1].stride = {n.groups * image, image, 0, 1, 1};  // positions and k are the source's
    geometry.accesses[2].stride = {n.groups * n.outputs * positions, n.outputs * positions, positions, 1, 0};
    return geometry;
  }
  WindowColumns columns_;
  std::unique_ptr<Launch> product_;
};

/// One product for each group: the result's gradient, channels in front, by the windows of all images.
class WeightGradientLaunch final : public Launch {
 public:
  WeightGradientLaunch(const ConvolutionNumbers& numbers, Isa isa)
      : rows_(numbers),
        product_(make_product_launch(product_kernel(numbers.dtype, 1, false), geometry(numbers), rows_, isa)) {}
  void run(void* const* operands) override {
    void* const places[] = {operands[1], operands[0], operands[2]};
    product_->run(places);
  }
  void prepare() override { product_->prepare(); }

 private:
  static BoundGeometry geometry(const ConvolutionNumbers& n) {
    const std::int64_t positions = n.images * ConvolutionNumbers::product(n.positions), columns = n.depth(),
                       image = n.channels * ConvolutionNumbers::product(n.extent);
    BoundGeometry geometry;
    geometry.extent = {n.groups, n.outputs, columns, positions};
    geometry.accesses.resize(3);
    geometry.accesses[0].stride = {n.outputs * positions, positions, 0, 1};
    geometry.accesses[1].stride = {image, 0, 1, 1};  // columns and k are the source's
    geometry.accesses[2].stride = {n.outputs * columns, columns, 1, 0};
    return geometry;
  }
  WindowRows rows_;
  std::unique_ptr<Launch> product_;
};

template <Isa isa>
std::unique_ptr<Launch> launch_conv2d(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<ConvolutionLaunch>(numbers_of(attrs, types[0], types[1].shape, types[2].shape, true), isa);
}
template <Isa isa>
std::unique_ptr<Launch> launch_convolution(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<ConvolutionLaunch>(numbers_of(attrs, types[0], types[1].shape, types[2].shape, false), isa);
}
inline std::unique_ptr<Launch> launch_depthwise(const Attrs& attrs, std::span<const Type> types) {
  return make_depthwise_launch(numbers_of(attrs, types[0], types[1].shape, types[2].shape, false));
}
template <Isa isa>
std::unique_ptr<Launch> launch_weight_gradient(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<WeightGradientLaunch>(numbers_of(attrs, types[0], types[2].shape, types[1].shape, false),
                                                isa);
}
/// A channel's lines are laid out by the remainder of the stride: each has its borders.
inline bool takes_much_memory(const Node& node) {
  constexpr std::int64_t most_parts = 16;
  return node.attrs[ops::Convolution::stride].back() > most_parts && !ops_detail::is_one(node.types[0].shape[-1]);
}
template <Isa isa>
Intrinsic intrinsic_of(const Graph& graph, const Node& node) {
  if (node.op == &op_info<ops::ConvolutionWeightGradient>) return launch_weight_gradient<isa>;
  const bool is_conv2d = node.op == &op_info<ops::Conv2d>;
  if (!is_conv2d && node.op != &op_info<ops::Convolution>) return nullptr;
  const Shape& weight = graph.type(node.inputs[1]).shape;
  if (is_conv2d) return ops_detail::sees_single_elements(weight, node.attrs) ? nullptr : launch_conv2d<isa>;
  const std::int64_t groups = node.attrs[ops::Convolution::groups];
  if (groups > 1 && ops_detail::is_one(weight[1]) && !takes_much_memory(node)) return launch_depthwise;
  return groups > 1 && weight[0] == Dim(groups) ? nullptr : launch_convolution<isa>;
}

}  // namespace x86_convolution_detail

SINTER_DECL Intrinsic convolution_intrinsic(const Graph& graph, const Node& node, Isa isa) {
  if (node.types.empty() || (node.types[0].dtype != DType::f32 && node.types[0].dtype != DType::f64)) return nullptr;
  return isa == Isa::avx512 ? x86_convolution_detail::intrinsic_of<Isa::avx512>(graph, node)
                            : x86_convolution_detail::intrinsic_of<Isa::avx2>(graph, node);
}

}  // namespace x86
SINTER_NAMESPACE_END
