// Products whose B are the windows of images, and the launches that are made of them.
#pragma once

#include <sinter/backend/x86/convolution/convolution.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/convolution/depthwise.hpp>
#include <sinter/backend/x86/convolution/depthwise_gradient.hpp>
#include <sinter/backend/x86/convolution/direct.hpp>
#include <sinter/backend/x86/convolution/following.hpp>
#include <sinter/backend/x86/convolution/image_gradient.hpp>
#include <sinter/backend/x86/convolution/weight_gradient.hpp>
#include <sinter/backend/x86/convolution/window_vectors.hpp>
#include <sinter/backend/x86/convolution/windows.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/ops/conv.hpp>
#include <sinter/ops/convolution.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
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

/// The windows of an image as columns: B[(channel, tap), position].
class WindowColumns final : public PanelSource {
 public:
  WindowColumns(const ConvolutionNumbers& numbers, Isa isa)
      : windows_(numbers),
        lanes_(lanes(isa, numbers.dtype)),
        fill_rows_(numbers.dtype == DType::f32 ? fill_rows_function(isa, numbers.stride[most_axes - 1]) : nullptr) {}

  /// Panels are the same in every image, and are kept where they do not take much room.
  void bind(std::int64_t columns, std::int64_t width, std::int64_t) override {
    constexpr std::int64_t most_kept_runs = 1 << 16;
    const std::int64_t panels = (columns + width - 1) / width;
    width_ = width;
    if (panels * windows_.most_runs(width) > most_kept_runs) return;
    kept_.resize(as_index(panels));
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      FoundPanel& kept = kept_[as_index(panel)];
      find(panel * width, std::min(width, columns - panel * width), kept);
      if (fill_rows_ != nullptr) kept.runs = {};
    }
  }
  void prepare() const override {
    if (!kept_.empty()) return;
    FoundPanel& found = found_panel();
    windows_.reserve(found.runs, width_);
    if (fill_rows_ == nullptr) return;
    const std::int64_t vectors = windows_.taps() * (width_ / lanes_);
    found.vectors.begin.reserve(as_index(vectors + 1));
    found.vectors.pieces.reserve(as_index(windows_.most_runs(width_) + vectors));
  }

  void make_panel(const PanelRequest& request) const override {
    if (!kept_.empty()) return copy(request, kept_[as_index(request.column / request.width)]);
    FoundPanel& found = found_panel();
    find(request.column, request.columns, found);
    copy(request, found);
  }

 private:
  /// By vectors where there is a function for them.
  struct FoundPanel {
    TapRuns runs;
    PanelPieces vectors;
  };
  static FoundPanel& found_panel() {
    return thread_object([] { return new FoundPanel; });
  }
  void find(std::int64_t first, std::int64_t count, FoundPanel& found) const {
    windows_.find_runs(first, count, width_, found.runs);
    if (fill_rows_ != nullptr)
      find_pieces(found.runs, width_, lanes_, windows_.numbers().stride[most_axes - 1], found.vectors);
  }

  void copy(const PanelRequest& request, const FoundPanel& panel) const {
    const std::int64_t taps = windows_.taps(), bytes = request.width * windows_.numbers().element();
    if (fill_rows_ != nullptr) return copy_vectors(request, panel.vectors, taps, bytes);
    const std::byte* channel = request.from + request.k / taps * windows_.channel_bytes();
    std::byte* to = request.to;
    for (std::int64_t k = request.k; k < request.k_end; ++k, to += bytes) {
      if (k + 1 < request.k_end) windows_.copy(to, channel, panel.runs, k % taps);
      else copy_last(to, channel, panel.runs, k % taps, bytes);
      if ((k + 1) % taps == 0) channel += windows_.channel_bytes();
    }
  }
  /// A row is copied with up to a vector too much: of the last one that may be another thread's memory.
  void copy_last(std::byte* to, const std::byte* channel, const TapRuns& runs, std::int64_t tap,
                 std::int64_t bytes) const {
    alignas(64) std::array<std::byte, max_micro_vectors * 64 + panel_slack> row{};
    windows_.copy(row.data(), channel, runs, tap);
    std::memcpy(to, row.data(), as_index(bytes));
  }
  /// Whole channels some at a time, tap by tap; and the parts of channels at the ends of a run of k. Channels are too
  /// far apart for the processor to see a pattern: those that come next are asked for.
  void copy_vectors(const PanelRequest& request, const PanelPieces& panel, std::int64_t taps,
                    std::int64_t bytes) const {
    const std::int64_t vectors = request.width / lanes_;
    PanelRows rows{request.to,
                   taps * bytes,
                   request.from + request.k / taps * windows_.channel_bytes(),
                   windows_.channel_bytes(),
                   1,
                   panel.pieces.data(),
                   nullptr,
                   vectors,
                   0};
    for (std::int64_t k = request.k; k < request.k_end;) {
      const std::int64_t first = k % taps, left = request.k_end - k;
      const bool is_whole = first == 0 && left >= taps;
      rows.channels = is_whole ? std::min(left / taps, channels_at_once) : 1;
      rows.ahead = left >= (rows.channels + channels_at_once) * taps ? channels_at_once * rows.channel_bytes : 0;
      const std::int64_t last = is_whole ? taps : std::min(taps, first + left);
      for (std::int64_t tap = first; tap < last; ++tap) {
        rows.to = request.to + (k - request.k + tap - first) * bytes;
        rows.begin = panel.begin.data() + tap * vectors;
        fill_rows_(rows);
      }
      k += is_whole ? rows.channels * taps : last - first;
      rows.channel += rows.channels * rows.channel_bytes;
    }
  }

  static constexpr std::int64_t channels_at_once = 8;
  const Windows windows_;
  const std::int64_t lanes_;
  const FillRows fill_rows_;
  std::int64_t width_ = 0;
  std::vector<FoundPanel> kept_;
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

/// A product for each group: the weight by the windows of `images` successive images; or of one, with a batch of
/// images.
struct WindowProduct {
  WindowProduct(const ConvolutionNumbers& numbers, std::int64_t batch, std::int64_t images, Isa isa)
      : columns(numbers, isa),
        launch(make_product_launch(product_kernel(numbers.dtype, 2, true), geometry(numbers, batch, images), columns,
                                   isa)) {}
  /// With a kernel as its epilogue. Without a launch where that does not pay.
  WindowProduct(const ConvolutionNumbers& numbers, const Following& following, Isa isa) : columns(numbers, isa) {
    const FollowedProduct product(product_kernel(numbers.dtype, 2, true), geometry(numbers, numbers.images, 1),
                                  following);
    launch = make_followed_product_launch(product.kernel, product.geometry, columns, isa);
  }

  WindowColumns columns;
  std::unique_ptr<Launch> launch;

 private:
  static BoundGeometry geometry(const ConvolutionNumbers& n, std::int64_t batch, std::int64_t images) {
    const std::int64_t positions = images * ConvolutionNumbers::product(n.positions), depth = n.depth(),
                       image = n.channels * ConvolutionNumbers::product(n.extent);
    BoundGeometry geometry;
    geometry.extent = {batch, n.groups, n.outputs, positions, depth};
    geometry.accesses.resize(3);
    geometry.accesses[0].stride = {0, n.outputs * depth, depth, 0, 1};
    geometry.accesses[1].stride = {n.groups * image, image, 0, 1, 1};  // positions and k are the source's
    geometry.accesses[2].stride = {n.groups * n.outputs * positions, n.outputs * positions, positions, 1, 0};
    return geometry;
  }
};

inline ResultExtents result_extents(const ConvolutionNumbers& n) {
  return {n.images, n.groups * n.outputs, ConvolutionNumbers::product(n.positions), n.dtype};
}

/// One product for each image and group, with a kernel as its epilogue.
class FollowedConvolutionLaunch final : public Launch {
 public:
  FollowedConvolutionLaunch(const ConvolutionNumbers& numbers, const Following& following, Isa isa)
      : product_(numbers, following, isa), places_(2 + following.kernel().operands.size()) {}
  bool pays() const { return product_.launch != nullptr; }
  void run(void* const* operands) override {
    places_[0] = operands[1];
    places_[1] = operands[0];
    std::copy_n(operands + 3, places_.size() - 2, places_.begin() + 2);
    product_.launch->run(places_.data());
  }
  void prepare() override { product_.launch->prepare(); }

 private:
  WindowProduct product_;
  std::vector<void*> places_;
};

/// One product for each image and group.
class ConvolutionLaunch final : public FollowableLaunch {
 public:
  ConvolutionLaunch(const ConvolutionNumbers& numbers, Isa isa)
      : n_(numbers), isa_(isa), product_(numbers, numbers.images, 1, isa) {}
  void run(void* const* operands) override {
    void* const places[] = {operands[1], operands[0], operands[2]};
    product_.launch->run(places);
  }
  void prepare() override { product_.launch->prepare(); }
  std::unique_ptr<Launch> followed_by(const FollowingKernel& next) const override {
    const std::optional<Following> following = Following::find(next, result_extents(n_));
    if (!following) return nullptr;
    auto both = std::make_unique<FollowedConvolutionLaunch>(n_, *following, isa_);
    return both->pays() ? std::move(both) : nullptr;
  }

 private:
  const ConvolutionNumbers n_;
  const Isa isa_;
  WindowProduct product_;
};

/// Small images, several together: their positions do not fill vectors. What a product gives has the images inside of
/// the outputs, and is put in its place by rows; or goes there through the kernel that follows.
class JoinedConvolutionLaunch final : public FollowableLaunch {
 public:
  JoinedConvolutionLaunch(const ConvolutionNumbers& numbers, Isa isa,
                          std::shared_ptr<const FollowingLoop> following = nullptr)
      : n_(numbers),
        isa_(isa),
        following_(std::move(following)),
        together_(images_together(numbers)),
        product_(numbers, 1, together_, isa) {
    reserve();
    if (n_.images % together_ != 0) rest_.emplace(numbers, 1, n_.images % together_, isa);
  }
  /// Whether that is worth the copy.
  static bool is_worth(const ConvolutionNumbers& n, Isa isa) {
    constexpr double copy_in_products = 64;
    const std::int64_t positions = ConvolutionNumbers::product(n.positions), lane_count = lanes(isa, n.dtype),
                       unused = (lane_count - positions % lane_count) % lane_count;
    if (images_together(n) <= 1) return false;
    return static_cast<double>(unused * n.depth()) > copy_in_products * static_cast<double>(positions + unused);
  }

  void run(void* const* operands) override {
    const std::int64_t image = n_.groups * n_.channels * ConvolutionNumbers::product(n_.extent) * n_.element();
    const auto* x = static_cast<const std::byte*>(operands[0]);
    std::byte* const results = reserve();
    for (std::int64_t first = 0; first < n_.images; first += together_) {
      const std::int64_t images = std::min(together_, n_.images - first);
      void* const places[] = {operands[1], const_cast<std::byte*>(x + first * image), results};
      (images == together_ ? product_ : *rest_).launch->run(places);
      put_in_place(operands, results, first, images);
    }
  }
  void prepare() override {
    reserve();
    product_.launch->prepare();
    if (rest_) rest_->launch->prepare();
  }
  std::unique_ptr<Launch> followed_by(const FollowingKernel& next) const override {
    const std::optional<Following> following = Following::find(next, result_extents(n_));
    if (!following) return nullptr;
    std::shared_ptr<const FollowingLoop> loop = FollowingLoop::make(*following, isa_);
    return loop != nullptr ? std::make_unique<JoinedConvolutionLaunch>(n_, isa_, std::move(loop)) : nullptr;
  }

 private:
  static std::int64_t images_together(const ConvolutionNumbers& n) {
    constexpr std::int64_t enough_columns = 2048;
    const std::int64_t positions = std::max<std::int64_t>(ConvolutionNumbers::product(n.positions), 1);
    return std::min(n.images, (enough_columns + positions - 1) / positions);
  }
  std::int64_t row_bytes() const { return ConvolutionNumbers::product(n_.positions) * n_.element(); }
  std::int64_t result_bytes() const { return n_.groups * n_.outputs * row_bytes(); }

  /// Of the thread that calls.
  std::byte* reserve() const {
    using x86_contraction_detail::AlignedBytes;
    AlignedBytes& results = thread_object([] { return new AlignedBytes; });
    results.reserve(as_index(together_ * result_bytes()));
    return results.data();
  }

  /// `results` are [output, image, position] of the images from `first` on.
  void put_in_place(void* const* operands, const std::byte* results, std::int64_t first, std::int64_t images) const {
    const std::int64_t rows = n_.groups * n_.outputs, bytes = row_bytes();
    double cost = 10 + 0.05 * static_cast<double>(images * bytes);
    if (following_ != nullptr)
      cost += following_->nanoseconds_per_element() * static_cast<double>(images * bytes / n_.element());
    parallel_for(rows, cost, [&](std::int64_t begin, std::int64_t end) {
      const auto sums = [&](std::int64_t image) { return results + (begin * images + image) * bytes; };
      if (following_ != nullptr) {
        FollowingRun follow(*following_, operands + 3);
        for (std::int64_t image = 0; image < images; ++image)
          follow({first + image, begin, end - begin, sums(image), images * bytes});
        return;
      }
      auto* const out = static_cast<std::byte*>(operands[2]) + first * result_bytes();
      for (std::int64_t image = 0; image < images; ++image)
        for (std::int64_t row = begin; row < end; ++row)
          std::memcpy(out + (image * rows + row) * bytes, sums(image) + (row - begin) * images * bytes,
                      as_index(bytes));
    });
  }

  const ConvolutionNumbers n_;
  const Isa isa_;
  const std::shared_ptr<const FollowingLoop> following_;
  const std::int64_t together_;
  WindowProduct product_;
  std::optional<WindowProduct> rest_;
};
inline std::unique_ptr<Launch> make_convolution_launch(const ConvolutionNumbers& numbers, Isa isa) {
  if (std::unique_ptr<Launch> launch = make_direct_launch(numbers, isa)) return launch;
  if (JoinedConvolutionLaunch::is_worth(numbers, isa)) return std::make_unique<JoinedConvolutionLaunch>(numbers, isa);
  return std::make_unique<ConvolutionLaunch>(numbers, isa);
}

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
  return make_convolution_launch(numbers_of(attrs, types[0], types[1].shape, types[2].shape, true), isa);
}
template <Isa isa>
std::unique_ptr<Launch> launch_convolution(const Attrs& attrs, std::span<const Type> types) {
  return make_convolution_launch(numbers_of(attrs, types[0], types[1].shape, types[2].shape, false), isa);
}
template <Isa isa>
std::unique_ptr<Launch> launch_depthwise(const Attrs& attrs, std::span<const Type> types) {
  const ConvolutionNumbers numbers = numbers_of(attrs, types[0], types[1].shape, types[2].shape, false);
  if (std::unique_ptr<Launch> launch = make_depthwise_launch(numbers, isa)) return launch;
  return make_convolution_launch(numbers, isa);
}
template <Isa isa>
std::unique_ptr<Launch> launch_weight_gradient(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<WeightGradientLaunch>(numbers_of(attrs, types[0], types[2].shape, types[1].shape, false),
                                                isa);
}
template <Isa isa>
std::unique_ptr<Launch> launch_image_gradient(const Attrs& attrs, std::span<const Type> types) {
  return make_image_gradient_launch(numbers_of(attrs, types[2], types[1].shape, types[0].shape, false), isa);
}
template <Isa isa>
std::unique_ptr<Launch> launch_depthwise_weight_gradient(const Attrs& attrs, std::span<const Type> types) {
  return make_depthwise_weight_gradient_launch(numbers_of(attrs, types[0], types[2].shape, types[1].shape, false));
}
template <Isa isa>
std::unique_ptr<Launch> launch_weight_gradient_of_channels(const Attrs& attrs, std::span<const Type> types) {
  return make_weight_gradient_launch(numbers_of(attrs, types[0], types[2].shape, types[1].shape, false), isa);
}
/// Images with their borders are not much larger than without, whatever their extents.
inline bool has_small_borders(const Attrs& attrs) {
  using Op = ops::ConvolutionGradient;
  constexpr std::int64_t most = 16;
  bool are_small = true;
  for (int i = 0; i < attrs[Op::low].rank(); ++i) {
    are_small &= attrs[Op::stride][as_index(i)] <= most;
    for (const Dim border : {attrs[Op::low][i], attrs[Op::high][i]})
      are_small &= border.is_static() && border.value() <= most;
  }
  return are_small;
}
/// Of gradients. Those of windows of single elements are products; by images, those of several channels and one output
/// in a group have no convolution of this kind, and every remainder of the stride is a convolution of its own.
template <Isa isa>
Intrinsic gradient_intrinsic_of(const Graph& graph, const Node& node) {
  using Op = ops::ConvolutionGradient;
  constexpr std::int64_t most_parts = 64;
  const bool is_image = node.attrs[Op::by] == ops::ConvolutionOperand::image;
  const Shape& weight = is_image ? graph.type(node.inputs[1]).shape : node.types[0].shape;
  const std::int64_t groups = node.attrs[Op::groups];
  const bool is_depthwise = groups > 1 && ops_detail::is_one(weight[1]), has_one_output = weight[0] == Dim(groups);
  std::int64_t parts = 1;
  bool is_product = true;
  for (int i = 2; i < weight.rank(); ++i) is_product &= ops_detail::is_one(weight[i]);
  if (!is_image) {
    if (is_depthwise) return has_small_borders(node.attrs) ? launch_depthwise_weight_gradient<isa> : nullptr;
    const auto& strides = node.attrs[Op::stride];
    const bool has_stride = std::any_of(strides.begin(), strides.end(), [](std::int64_t step) { return step > 1; });
    if (is_product && has_stride) return nullptr;
    return has_small_borders(node.attrs) ? launch_weight_gradient_of_channels<isa> : nullptr;
  }
  if (is_depthwise && !has_one_output) return nullptr;
  for (const std::int64_t stride : node.attrs[Op::stride]) {
    if (stride > most_parts) return nullptr;
    parts *= stride;
  }
  return parts <= most_parts && !is_product ? launch_image_gradient<isa> : nullptr;
}
/// A channel's lines are laid out by the remainder of the stride: each has its borders.
inline bool takes_much_memory(const Node& node) {
  constexpr std::int64_t most_parts = 16;
  return node.attrs[ops::Convolution::stride].back() > most_parts && !ops_detail::is_one(node.types[0].shape[-1]);
}
template <Isa isa>
Intrinsic intrinsic_of(const Graph& graph, const Node& node) {
  if (node.op == &op_info<ops::ConvolutionWeightGradient>) return launch_weight_gradient<isa>;
  if (node.op == &op_info<ops::ConvolutionGradient>) return gradient_intrinsic_of<isa>(graph, node);
  const bool is_conv2d = node.op == &op_info<ops::Conv2d>;
  if (!is_conv2d && node.op != &op_info<ops::Convolution>) return nullptr;
  const Shape& weight = graph.type(node.inputs[1]).shape;
  if (is_conv2d) return ops_detail::sees_single_elements(weight, node.attrs) ? nullptr : launch_conv2d<isa>;
  const std::int64_t groups = node.attrs[ops::Convolution::groups];
  if (groups > 1 && ops_detail::is_one(weight[1]) && !takes_much_memory(node)) return launch_depthwise<isa>;
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
