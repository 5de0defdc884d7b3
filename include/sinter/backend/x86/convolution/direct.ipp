// Outputs in lanes: the weight is laid out by vectors of them, and multiplied with what some positions of a row see of
// the image, where it lies, or of a copy of some of its lines with their borders.
#pragma once

#include <sinter/backend/x86/convolution/direct.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/convolution/following.hpp>
#include <sinter/backend/x86/convolution/seen_lines.hpp>
#include <sinter/backend/x86/convolution/window_tile.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/kernel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

class DirectLaunch final : public FollowableLaunch {
  using AlignedBytes = x86_contraction_detail::AlignedBytes;

 public:
  /// Outputs fill vectors, rows have enough positions, and what these see is near enough for the code. With fewer taps
  /// a window that is laid out costs less.
  static bool is_worth(const ConvolutionNumbers& n, Isa isa) {
    constexpr std::int64_t most_bytes = std::numeric_limits<std::int32_t>::max() / 4, least_positions = 12,
                           least_taps = 9, least_depth = 64;
    const std::int64_t reach = 32 * n.stride[2] + 4 * n.dilation[2];
    return ConvolutionNumbers::product(n.taps) >= least_taps && n.depth() >= least_depth &&
           n.depth() <= product_sum_group && n.positions[2] >= least_positions && n.positions[0] * n.positions[1] > 1 &&
           n.images > 0 && reach * n.element() < most_bytes && (has_few_outputs(n, isa) || fills_tiles(n, isa)) &&
           has_small_copies(n);
  }

  DirectLaunch(const ConvolutionNumbers& numbers, Isa isa, std::shared_ptr<const FollowingLoop> following = nullptr)
      : n_(numbers), isa_(isa), rows_(n_.positions[0] * n_.positions[1]), seen_(n_), following_(std::move(following)) {
    const std::int64_t lane_count = lanes(isa_, n_.dtype);
    vectors_ = std::min<std::int64_t>((n_.outputs + lane_count - 1) / lane_count, 2);
    width_ = vectors_ * lane_count;
    panels_ = (n_.outputs + width_ - 1) / width_;
    choose_run();
    make_tiles();
    find_segments();
    reserve();
  }

  void run(void* const* operands) override {
    const Memory memory = reserve();
    const auto* const weight = static_cast<const std::byte*>(operands[1]);
    parallel_for(n_.groups * panels_, 0.3 * static_cast<double>(width_ * n_.depth()),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t panel = begin; panel < end; ++panel) lay_out_weight(panel, weight, memory.weight);
                 });
    Run run{operands, memory, 0, 0};
    for (; run.row < n_.images * rows_; run.row = run.end) {
      run.end = std::min(run.row + run_rows_, n_.images * rows_);
      seen_.find_parts(run.row * n_.positions[2], run.end * n_.positions[2], parts_);
      if (!seen_.lies_in_image()) copy(run);
      const std::int64_t tasks = (run.end - run.row) * n_.groups * panels_ * chunks_;
      const double flops = 2.0 * static_cast<double>(n_.positions[2] * width_ * n_.depth());
      parallel_for(tasks, flops / 80 / static_cast<double>(chunks_),
                   [&](std::int64_t begin, std::int64_t end) { add_up(run, begin, end); });
    }
  }
  void prepare() override { reserve(); }
  std::unique_ptr<Launch> followed_by(const FollowingKernel& next) const override {
    const std::optional<Following> following =
        Following::find(next, {n_.images, n_.groups * n_.outputs, rows_ * n_.positions[2], n_.dtype});
    if (!following) return nullptr;
    std::shared_ptr<const FollowingLoop> loop = FollowingLoop::make(*following, isa_);
    return loop != nullptr ? std::make_unique<DirectLaunch>(n_, isa_, std::move(loop)) : nullptr;
  }

 private:
  static constexpr std::int64_t most_in_chunk = 64;  // positions
  static constexpr std::int64_t most_tile_bytes = 64 * 32;

  /// Of the thread that calls.
  struct Memory {
    std::byte *weight, *image;
  };
  /// Some rows of positions, of all images.
  struct Run {
    void* const* operands;
    Memory memory;
    std::int64_t row, end;
  };

  static bool has_few_outputs(const ConvolutionNumbers& n, Isa isa) {
    return n.outputs <= 2 * lanes(Isa::avx512, n.dtype) && 4 * n.outputs >= 3 * lanes(isa, n.dtype);
  }
  /// Whether all panels of outputs and tiles of positions are whole or nearly so, a panel's weights are no larger than
  /// what is read beside them from L2, and positions so many that it does not count how long these are laid out.
  static bool fills_tiles(const ConvolutionNumbers& n, Isa isa) {
    constexpr std::int64_t enough_positions = 512, most_weight_bytes = 80 << 10;
    const std::int64_t most = most_window_rows(isa, 2), tiles = (n.positions[2] + most - 1) / most,
                       width = 2 * lanes(isa, n.dtype);
    return isa == Isa::avx512 && n.outputs > 0 && n.outputs % width == 0 &&
           n.depth() * width * n.element() <= most_weight_bytes && 14 * n.positions[2] >= 13 * tiles * most &&
           n.images * ConvolutionNumbers::product(n.positions) >= enough_positions;
  }

  static constexpr std::int64_t most_copied = 1 << 19;  // elements
  /// Whether what the positions of one step along the outer axis see is little.
  static bool has_small_copies(const ConvolutionNumbers& n) {
    const SeenLines seen(n);
    return seen.lies_in_image() || n.groups * n.channels * seen.most_elements(seen.inner_positions()) <= most_copied;
  }

  void lay_out_weight(std::int64_t panel, const std::byte* weight, std::byte* to) const {
    const std::int64_t group = panel / panels_, output = panel % panels_ * width_;
    pack_panel(to + panel * panel_bytes(), weight + (group * n_.outputs + output) * n_.depth() * n_.element(),
               n_.depth(), std::min(width_, n_.outputs - output), width_, n_.element(), n_.depth() * n_.element(),
               n_.element());
  }
  std::int64_t panel_bytes() const { return n_.depth() * width_ * n_.element(); }
  std::int64_t channel_step() const { return seen_.lies_in_image() ? seen_.image_channel() : copied_; }

  /// As many rows as see a part of the image that may be copied.
  void choose_run() {
    run_rows_ = n_.images * rows_;
    if (seen_.lies_in_image()) return;
    const std::int64_t inner = seen_.inner_positions();
    std::int64_t steps = run_rows_ * n_.positions[2] / inner;
    while (steps > 1 && n_.groups * n_.channels * seen_.most_elements(steps * inner) > most_copied)
      steps = (steps + 1) / 2;
    run_rows_ = steps * inner / n_.positions[2];
    copied_ = seen_.most_elements(steps * inner);
  }
  /// A row of positions in tiles as even as can be: those of `in_tile_` positions, and before them some of one more.
  void make_tiles() {
    const std::int64_t count = n_.positions[2], most = most_window_rows(isa_, static_cast<int>(vectors_));
    tiles_ = (count + most - 1) / most;
    in_tile_ = count / tiles_;
    taller_ = count - in_tile_ * tiles_;
    in_chunk_ = most_in_chunk / (in_tile_ + (taller_ != 0));
    chunks_ = (tiles_ + in_chunk_ - 1) / in_chunk_;
    for (const std::int64_t more : {0, 1}) {
      if (more == 1 && taller_ == 0) break;
      WindowTileShape shape{.dtype = n_.dtype,
                            .isa = isa_,
                            .vectors = static_cast<std::int32_t>(vectors_),
                            .step = static_cast<std::int32_t>(n_.dilation[2] * n_.element()),
                            .offsets = {},
                            .together = static_cast<std::int32_t>(std::min<std::int64_t>(n_.taps[2], 8))};
      for (std::int64_t row = 0; row < in_tile_ + more; ++row)
        shape.offsets.push_back(static_cast<std::int32_t>(row * n_.stride[2] * n_.element()));
      code_[as_index(more)] = find_window_tile(shape);
    }
  }
  /// The taps of each line that a window sees, channel by channel.
  void find_segments() {
    std::int64_t left = product_sum_block;
    for (std::int64_t channel = 0; channel < n_.channels; ++channel)
      for (std::int64_t tap = 0; tap < ConvolutionNumbers::product(n_.taps);) {
        const std::int64_t count = std::min(n_.taps[2] - tap % n_.taps[2], left);
        segments_.push_back({(channel * channel_step() + seen_.tap_offset(tap)) * n_.element(), count});
        tap += count;
        left -= count;
        if (left > 0) continue;
        ends_.push_back(std::ssize(segments_));
        left = product_sum_block;
      }
    if (left < product_sum_block) ends_.push_back(std::ssize(segments_));
    parts_.reserve(as_index(run_rows_ / rows_ + 2));
  }
  Memory reserve() const {
    AlignedBytes& memory = thread_object([] { return new AlignedBytes; });
    const std::int64_t weight = (n_.groups * panels_ * panel_bytes() + 63) / 64 * 64;
    memory.reserve(as_index(weight + n_.groups * n_.channels * copied_ * n_.element() + 64));
    return {memory.data(), memory.data() + weight};
  }

  void copy(const Run& run) const {
    const auto copy_all = [&]<class Number>(const Number* x) {
      auto* const to = reinterpret_cast<Number*>(run.memory.image);
      parallel_for(n_.groups * n_.channels, 0.3 * static_cast<double>(copied_),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t channel = begin; channel < end; ++channel)
                       for (const SeenPart& part : parts_)
                         seen_.copy(part, x + (part.image * n_.groups * n_.channels + channel) * seen_.image_channel(),
                                    to + channel * copied_ + part.at);
                   });
    };
    if (n_.dtype == DType::f64) copy_all(static_cast<const double*>(run.operands[0]));
    else copy_all(static_cast<const float*>(run.operands[0]));
  }

  /// Tasks are chunks of the rows of each panel of outputs: its weights stay in L2.
  void add_up(const Run& run, std::int64_t begin, std::int64_t end) const {
    std::optional<FollowingRun> follow;
    if (following_ != nullptr) follow.emplace(*following_, run.operands + 3);
    const std::int64_t rows = run.end - run.row;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t first = task % chunks_ * in_chunk_;
      const Chunk chunk{task / chunks_ / rows, run.row + task / chunks_ % rows, first,
                        std::min(first + in_chunk_, tiles_)};
      add_up_chunk(run, chunk, follow ? &*follow : nullptr);
    }
  }
  /// Tiles of a row of a panel of those of all groups.
  struct Chunk {
    std::int64_t panel, row, first_tile, end_tile;
  };
  std::int64_t first_of(std::int64_t tile) const { return tile * in_tile_ + std::min(tile, taller_); }
  void add_up_chunk(const Run& run, const Chunk& chunk, FollowingRun* follow) const {
    const std::int64_t element = n_.element(), positions = rows_ * n_.positions[2], image = chunk.row / rows_,
                       in_image = chunk.row % rows_ * n_.positions[2], first = first_of(chunk.first_tile),
                       count = first_of(chunk.end_tile) - first, group = chunk.panel / panels_,
                       output = chunk.panel % panels_ * width_, outputs = std::min(width_, n_.outputs - output),
                       channel = group * n_.outputs + output;
    const std::byte* const seen = seen_by(run, group, image, in_image);
    alignas(64) std::byte sums[most_tile_bytes], own[2 * most_in_chunk * 64];
    std::byte* to = own;
    std::int64_t stride = count * element;
    if (follow == nullptr) {
      stride = positions * element;
      to = static_cast<std::byte*>(run.operands[2]) + (image * n_.groups * n_.outputs + channel) * stride +
           (in_image + first) * element;
    }
    for (std::int64_t tile = chunk.first_tile; tile < chunk.end_tile; ++tile) {
      const std::int64_t at = first_of(tile), next = first_of(tile + 1);
      add_up_tile(
          {seen + at * n_.stride[2] * element, run.memory.weight + chunk.panel * panel_bytes(), nullptr, 0, sums, 0},
          *code_[as_index(tile < taller_)]);
      transpose_elements(to + (at - first) * element, sums, outputs, next - at, stride, width_ * element, element);
    }
    if (follow != nullptr) (*follow)({image, channel, outputs, own, stride, in_image + first, count});
  }
  /// What the first tap of a group's first channel sees from a position of an image.
  const std::byte* seen_by(const Run& run, std::int64_t group, std::int64_t image, std::int64_t position) const {
    const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const SeenPart& each) {
      return each.image == image && position < each.position + each.count;
    });
    const auto* const x = seen_.lies_in_image() ? static_cast<const std::byte*>(run.operands[0]) : run.memory.image;
    return x + (group * n_.channels * channel_step() + seen_.seen_from(*part, position)) * n_.element();
  }
  /// Block by block.
  void add_up_tile(WindowTileArgs args, const WindowTile& tile) const {
    std::int64_t segment = 0;
    for (const std::int64_t end : ends_) {
      args.segments = segments_.data() + segment;
      args.count = end - segment;
      args.adds = segment != 0;
      tile(args);
      args.factors = static_cast<const std::byte*>(args.factors) + product_sum_block * width_ * n_.element();
      segment = end;
    }
  }

  const ConvolutionNumbers n_;
  const Isa isa_;
  const std::int64_t rows_;  // of an image's positions
  const SeenLines seen_;
  const std::shared_ptr<const FollowingLoop> following_;
  std::int64_t vectors_ = 1, width_ = 0, panels_ = 0;  // of a panel of outputs; panels of a group
  std::int64_t run_rows_ = 0, copied_ = 0;             // rows of a run; elements of a channel's copy
  std::int64_t tiles_ = 0, in_tile_ = 0, taller_ = 0;  // of a row
  std::int64_t chunks_ = 0, in_chunk_ = 0;             // of a row, and tiles of one
  std::shared_ptr<const WindowTile> code_[2];          // for one position more
  std::vector<WindowSegment> segments_;
  std::vector<std::int64_t> ends_;  // of blocks
  std::vector<SeenPart> parts_;     // of the run that goes on
};

}  // namespace x86_convolution_detail

SINTER_DECL std::unique_ptr<Launch> make_direct_launch(const x86_convolution_detail::ConvolutionNumbers& numbers,
                                                       Isa isa) {
  using namespace x86_convolution_detail;
  return DirectLaunch::is_worth(numbers, isa) ? std::make_unique<DirectLaunch>(numbers, isa) : nullptr;
}

}  // namespace x86
SINTER_NAMESPACE_END
