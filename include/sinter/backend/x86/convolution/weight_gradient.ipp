// The sums of the weight's gradient, outputs in lanes: the result's gradient is laid out by vectors of outputs, a run
// of positions at a time, and multiplied with elements of the image where they lie. Blocks of positions end where those
// of products do, whatever the runs.
#pragma once

#include <sinter/backend/x86/convolution/weight_gradient.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/backend/x86/contraction/vector.hpp>
#include <sinter/backend/x86/convolution/convolution.ipp>
#include <sinter/backend/x86/convolution/seen_lines.hpp>
#include <sinter/backend/x86/convolution/window_tile.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/kernel.hpp>

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

/// Some successive columns (channel, tap) of the gradient: all taps of some channels, or some taps of one.
struct WeightTile {
  std::int64_t channel = 0, tap = 0, rows = 0;
  std::shared_ptr<const WindowTile> code;
};
/// Outputs of a group in as many vectors, and the tiles for these.
struct OutputPanel {
  std::int64_t first = 0, used = 0;
  std::size_t kind = 0;
};
struct PanelKind {
  std::int64_t vectors = 0;
  std::vector<WeightTile> tiles;
};

/// What vectors have side by side.
enum class InLanes : std::uint8_t { outputs, channels };

class WeightGradientTiles final : public Launch {
  using AlignedBytes = x86_contraction_detail::AlignedBytes;
  static constexpr std::array<std::int64_t, most_axes> ones{1, 1, 1}, no_border{0, 0, 0};
  static constexpr std::int64_t blocks_together = 64;

 public:
  /// Whether outputs fill vectors, and places are near enough for the code.
  static bool is_worth(const ConvolutionNumbers& n, Isa isa) {
    constexpr std::int64_t most_bytes = std::numeric_limits<std::int32_t>::max() / 4;
    constexpr std::int64_t few_positions = 64;  // the product's panels are small, and its sums lie as they are wanted
    const SeenLines seen(n);
    const std::int64_t farthest = seen.tap_offset(ConvolutionNumbers::product(n.taps) - 1) + 4 * n.stride[2];
    if (n.images == 1 && ConvolutionNumbers::product(n.positions) <= few_positions) return false;
    return 2 * n.outputs >= lanes(tile_isa(n, isa), n.dtype) && farthest * n.element() < most_bytes;
  }

  /// Of single elements with channels in lanes: the convolution of the gradient by the image.
  static ConvolutionNumbers swapped(ConvolutionNumbers n) {
    std::swap(n.channels, n.outputs);
    return n;
  }
  static bool is_better_swapped(const ConvolutionNumbers& n) {
    return ConvolutionNumbers::product(n.taps) == 1 && n.channels < n.outputs && n.stride == ones &&
           n.low == no_border && n.extent == n.positions;
  }

  WeightGradientTiles(const ConvolutionNumbers& numbers, Isa isa, InLanes in_lanes)
      : in_lanes_(in_lanes),
        n_(in_lanes == InLanes::channels ? swapped(numbers) : numbers),
        isa_(tile_isa(n_, isa)),
        taps_(ConvolutionNumbers::product(n_.taps)),
        all_(n_.images * ConvolutionNumbers::product(n_.positions)),
        seen_(n_) {
    const std::int64_t lane_count = lanes(isa_, n_.dtype), vectors = (n_.outputs + lane_count - 1) / lane_count;
    panel_lanes_ = vectors * lane_count;
    choose_run();
    for (std::int64_t vector = 0; vector < vectors; vector += 2) {
      const std::int64_t own = std::min<std::int64_t>(2, vectors - vector), first = vector * lane_count;
      if (kinds_.empty() || kinds_.back().vectors != own) kinds_.push_back({own, make_tiles(static_cast<int>(own))});
      panels_.push_back({first, std::min(own * lane_count, n_.outputs - first), kinds_.size() - 1});
      tasks_.push_back(tasks_.back() + std::ssize(kinds_.back().tiles));
    }
    reserve();
    reserve_lists(now_);
  }

  void run(void* const* operands) override {
    if (all_ == 0) {
      std::memset(operands[2], 0, as_index(n_.groups * n_.outputs * columns() * n_.element()));
      return;
    }
    const bool has_outputs = in_lanes_ == InLanes::outputs;
    Run& run = now_;
    run.image = operands[has_outputs ? 0 : 1];
    run.gradient = operands[has_outputs ? 1 : 0];
    run.result = operands[2];
    run.memory = reserve();
    run.k = 0;
    if (by_blocks_) return run_by_blocks(run);
    while (run.k < all_) {
      run.end = std::min({run.k + run_, (run.k / product_sum_group + 1) * product_sum_group, all_});
      seen_.find_parts(run.k, run.end, run.parts);
      seen_.find_segments(run.parts, product_sum_block, run.segments, run.ends);
      lay_out(run);
      const double flops = 2.0 * static_cast<double>((run.end - run.k) * panel_lanes_ * columns() * n_.groups),
                   tasks = static_cast<double>(n_.groups * tasks_.back());
      parallel_for(n_.groups * tasks_.back(), flops / tasks / 80, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) add_up(run, task);
      });
      run.k = run.end;
    }
  }
  void prepare() override { reserve(); }

 private:
  /// Few outputs leave half of a wide vector to zeros.
  static Isa tile_isa(const ConvolutionNumbers& n, Isa isa) {
    return n.outputs <= lanes(Isa::avx2, n.dtype) ? Isa::avx2 : isa;
  }

  /// Of the thread that calls.
  struct Memory {
    std::byte *gradient, *image, *sums;
  };
  /// A run of positions of all images, inside of a group of blocks.
  struct Run {
    const void *image = nullptr, *gradient = nullptr;
    void* result = nullptr;
    Memory memory{};
    std::int64_t k = 0, end = 0;
    std::vector<SeenPart> parts;
    std::vector<WindowSegment> segments;
    std::vector<std::int64_t> ends;
  };

  std::int64_t columns() const { return n_.channels * taps_; }
  /// From a channel to the next one, elements.
  std::int64_t channel_step() const { return seen_.lies_in_image() ? seen_.image_channel() : copied_; }

  /// As many blocks as leave a panel in L2, and what is laid out small.
  void choose_run() {
    constexpr std::int64_t most_elements = 1 << 20;
    if (choose_blocks()) return;
    const std::int64_t lane_count = lanes(isa_, n_.dtype), outputs = n_.groups * panel_lanes_;
    const std::int64_t in_cache = x86_contraction_detail::l2_bytes() / 4 / (2 * lane_count * n_.element());
    run_ = std::min({product_sum_group, in_cache, most_elements / outputs});
    run_ = std::max(run_ / product_sum_block * product_sum_block, product_sum_block);
    if (seen_.lies_in_image() || all_ == 0) return;
    while (run_ > product_sum_block && n_.groups * n_.channels * seen_.most_elements(run_) > most_elements)
      run_ = std::max(run_ / 2 / product_sum_block * product_sum_block, product_sum_block);
    copied_ = seen_.most_elements(std::min(run_, all_));
  }

  /// Few sums of many positions: a block of these is a task, so that what it lays out stays in L1, and threads wait for
  /// each other once for many blocks. False where they are not so.
  bool choose_blocks() {
    constexpr std::int64_t few_sums = 4096, least_blocks = 8, most_copied = 1 << 14;
    if (padded_elements() > few_sums || all_ < least_blocks * product_sum_block) return false;
    const std::int64_t copied = seen_.lies_in_image() ? 0 : seen_.most_elements(product_sum_block);
    if (n_.groups * n_.channels * copied > most_copied) return false;
    by_blocks_ = true;
    run_ = product_sum_block;
    copied_ = copied;
    return true;
  }

  std::vector<WeightTile> make_tiles(int vectors) const {
    constexpr std::int64_t most_bytes = std::numeric_limits<std::int32_t>::max() / 2;
    const std::int64_t most = most_window_rows(isa_, vectors), chunks = (taps_ + most - 1) / most,
                       near = std::max<std::int64_t>(most_bytes / (channel_step() * n_.element() + 1), 1),
                       together = std::clamp<std::int64_t>(most / taps_, 1, near);
    if (near >= n_.channels)
      if (std::vector<WeightTile> few = make_few_tiles(vectors); !few.empty()) return few;
    std::vector<WeightTile> tiles;
    for (std::int64_t channel = 0; channel < n_.channels; channel += together)
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const std::int64_t first = chunk * taps_ / chunks, end = (chunk + 1) * taps_ / chunks;
        WeightTile tile{channel, first, (end - first) * std::min(together, n_.channels - channel), nullptr};
        const bool is_known = std::ssize(tiles) >= chunks && tiles[tiles.size() - as_index(chunks)].rows == tile.rows;
        tile.code = is_known ? tiles[tiles.size() - as_index(chunks)].code : find_code(tile, vectors, end - first);
        tiles.push_back(std::move(tile));
      }
    return tiles;
  }
  /// Few columns in an even number of parts, so that two threads have the same: three channels of 3x3 are 14 and 13
  /// columns rather than three times nine. Nothing where they are many.
  std::vector<WeightTile> make_few_tiles(int vectors) const {
    constexpr std::int64_t most_tiles = 4;
    const std::int64_t most = most_window_rows(isa_, vectors), parts = ((columns() + most - 1) / most + 1) / 2 * 2;
    std::vector<WeightTile> tiles;
    if (parts > most_tiles || columns() < 2 * parts) return tiles;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = part * columns() / parts, end = (part + 1) * columns() / parts;
      tiles.push_back({first / taps_, first % taps_, end - first, nullptr});
      tiles.back().code = find_code(tiles.back(), vectors, taps_);
    }
    return tiles;
  }
  /// For the rows of a tile, which are `in_channel` successive taps of each channel, counted from the tile's first tap
  /// or, where these are all, from the channel's.
  std::shared_ptr<const WindowTile> find_code(const WeightTile& tile, int vectors, std::int64_t in_channel) const {
    WindowTileShape shape{n_.dtype, isa_, vectors, static_cast<std::int32_t>(n_.stride[2] * n_.element()), {}};
    const std::int64_t begin = in_channel == taps_ ? 0 : tile.tap, from = tile.tap - begin;
    for (std::int64_t row = from; row < from + tile.rows; ++row) {
      const std::int64_t tap = begin + row % in_channel, offset = row / in_channel * channel_step() +
                                                                  seen_.tap_offset(tap) - seen_.tap_offset(tile.tap);
      shape.offsets.push_back(static_cast<std::int32_t>(offset * n_.element()));
    }
    return find_window_tile(shape);
  }

  /// Nothing is allocated while it runs.
  void reserve_lists(Run& run) const {
    const std::int64_t count = std::min(run_, all_), positions = ConvolutionNumbers::product(n_.positions);
    if (count == 0) return;
    const std::int64_t parts = count / positions + 2, blocks = count / product_sum_block + 1;
    run.parts.reserve(as_index(parts));
    run.segments.reserve(as_index(count / n_.positions[2] + 2 * parts + blocks));
    run.ends.reserve(as_index(blocks));
  }
  bool has_runs() const { return run_ < all_; }
  std::int64_t padded_elements() const { return n_.groups * panel_lanes_ * columns(); }
  std::int64_t aligned_bytes(std::int64_t elements) const {
    constexpr std::int64_t line = 64;
    return (elements * n_.element() + line - 1) / line * line;
  }
  Memory reserve() const {
    AlignedBytes& memory = thread_object([] { return new AlignedBytes; });
    const std::int64_t sums = aligned_bytes(padded_elements()), blocks = blocks_together * padded_elements();
    if (by_blocks_) {
      memory.reserve(as_index(3 * sums + aligned_bytes(blocks)));
      return {nullptr, nullptr, memory.data()};
    }
    const std::int64_t copies = !has_runs()                ? 0
                                : all_ > product_sum_group ? 3
                                                           : 1,
                       gradient = aligned_bytes(n_.groups * panel_lanes_ * std::min(run_, all_)),
                       image = aligned_bytes(n_.groups * n_.channels * copied_) + 64;
    memory.reserve(as_index(gradient + image + copies * sums));
    return {memory.data(), memory.data() + gradient, memory.data() + gradient + image};
  }

  /// Panels of the gradient, few of them in pieces, and the image with its borders.
  void lay_out(const Run& run) const {
    constexpr std::int64_t few_panels = 8, least_piece = 256;
    const std::int64_t panels = n_.groups * std::ssize(panels_), count = run.end - run.k,
                       pieces = panels >= few_panels ? 1 : std::clamp<std::int64_t>(count / least_piece, 1, few_panels),
                       channels = seen_.lies_in_image() ? 0 : n_.groups * n_.channels,
                       tasks = panels * pieces + channels;
    const double elements = static_cast<double>(n_.groups * panel_lanes_ * count + 2 * channels * copied_);
    parallel_for(tasks, 0.3 * elements / static_cast<double>(tasks), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task)
        if (task < panels * pieces)
          lay_out_panel(run, task / pieces, task % pieces * count / pieces, (task % pieces + 1) * count / pieces);
        else if (n_.dtype == DType::f64) copy_channel<double>(run, task - panels * pieces);
        else copy_channel<float>(run, task - panels * pieces);
    });
  }
  std::byte* gradient_of(const Run& run, std::int64_t group, const OutputPanel& panel) const {
    return run.memory.gradient + (group * panel_lanes_ + panel.first) * (run.end - run.k) * n_.element();
  }
  std::int64_t width_of(const OutputPanel& panel) const { return kinds_[panel.kind].vectors * lanes(isa_, n_.dtype); }
  /// Positions [first, end) of the run.
  void lay_out_panel(const Run& run, std::int64_t panel_of_all, std::int64_t first, std::int64_t end) const {
    const std::int64_t group = panel_of_all / std::ssize(panels_);
    const OutputPanel& panel = panels_[as_index(panel_of_all % std::ssize(panels_))];
    const std::int64_t element = n_.element(), width = width_of(panel),
                       positions = ConvolutionNumbers::product(n_.positions);
    std::byte* const to = gradient_of(run, group, panel);
    const auto* const gradient = static_cast<const std::byte*>(run.gradient);
    std::int64_t at = 0;  // of the part in the run
    for (const SeenPart& part : run.parts) {
      const std::int64_t row = (part.image * n_.groups + group) * n_.outputs + panel.first, begin = std::max(first, at),
                         stop = std::min(end, at + part.count);
      if (begin < stop)
        pack_panel(to + begin * width * element, gradient + (row * positions + part.position + begin - at) * element,
                   stop - begin, panel.used, width, element, positions * element, element);
      at += part.count;
    }
  }
  template <class Number>
  void copy_channel(const Run& run, std::int64_t channel) const {
    auto* const to = reinterpret_cast<Number*>(run.memory.image) + channel * copied_;
    const auto* const x = static_cast<const Number*>(run.image);
    for (const SeenPart& part : run.parts)
      seen_.copy(part, x + (part.image * n_.groups * n_.channels + channel) * seen_.image_channel(), to + part.at);
  }

  /// A tile of a panel of a group.
  struct Task {
    std::int64_t group, first_sum;  // of those of all groups, elements
    const OutputPanel& panel;
    const WeightTile& tile;
  };
  Task task_of(std::int64_t number) const {
    const std::int64_t group = number / tasks_.back(), in_group = number % tasks_.back();
    const auto at = std::upper_bound(tasks_.begin(), tasks_.end(), in_group) - tasks_.begin() - 1;
    const OutputPanel& panel = panels_[as_index(at)];
    const WeightTile& tile = kinds_[panel.kind].tiles[as_index(in_group - tasks_[as_index(at)])];
    return {group, (group * panel_lanes_ + panel.first) * columns() + column_of(tile) * width_of(panel), panel, tile};
  }
  std::int64_t column_of(const WeightTile& tile) const { return tile.channel * taps_ + tile.tap; }
  WindowTileArgs arguments(const Run& run, const Task& task, std::byte* sums) const {
    const auto* const image = seen_.lies_in_image() ? static_cast<const std::byte*>(run.image) : run.memory.image;
    const std::int64_t seen_at =
        (task.group * n_.channels + task.tile.channel) * channel_step() + seen_.tap_offset(task.tile.tap);
    return {image + seen_at * n_.element(), gradient_of(run, task.group, task.panel), run.segments.data(), 0, sums, 0};
  }
  void add_up(const Run& run, std::int64_t number) const {
    const Task task = task_of(number);
    const std::int64_t element = n_.element(), width = width_of(task.panel);
    alignas(64) std::byte own[64 * 32];
    std::byte* const sums = has_runs() ? run.memory.sums + task.first_sum * element : own;
    WindowTileArgs args = arguments(run, task, sums);
    std::int64_t segment = 0, block = 0;
    for (const std::int64_t end : run.ends) {
      args.segments = run.segments.data() + segment;
      args.count = end - segment;
      args.adds = (run.k + block * product_sum_block) % product_sum_group != 0;
      (*task.tile.code)(args);
      args.factors = static_cast<const std::byte*>(args.factors) + product_sum_block * width * element;
      segment = end;
      ++block;
    }
    if (run.end != all_ && run.end % product_sum_group != 0) return;
    const std::byte* result = sums;
    if (all_ > product_sum_group) result = add_to_totals(run.end, sums, task.tile.rows * width);
    if (run.end == all_) write(run, task, result);
  }
  void write(const Run& run, const Task& task, const std::byte* result) const {
    const std::int64_t element = n_.element(), width = width_of(task.panel), column = column_of(task.tile);
    auto* const results = static_cast<std::byte*>(run.result) + task.group * n_.outputs * columns() * element;
    if (in_lanes_ == InLanes::channels) {
      for (std::int64_t row = 0; row < task.tile.rows; ++row)
        std::memcpy(results + ((column + row) * n_.outputs + task.panel.first) * element,
                    result + row * width * element, as_index(task.panel.used * element));
      return;
    }
    std::byte* const out = results + (task.panel.first * columns() + column) * element;
    transpose_elements(out, result, task.panel.used, task.tile.rows, columns() * element, width * element, element);
  }

  /// Some blocks at a time, whose sums are then added in order.
  void run_by_blocks(Run& run) const {
    const std::int64_t blocks = (all_ + product_sum_block - 1) / product_sum_block, all = padded_elements(),
                       bytes = all * n_.element();
    std::byte *const sums = run.memory.sums, *const blocks_sums = sums + 3 * aligned_bytes(all);
    const double cost = 2.0 * static_cast<double>(product_sum_block * all) / 60;
    for (std::int64_t first = 0; first < blocks; first += blocks_together) {
      const std::int64_t count = std::min(blocks_together, blocks - first);
      parallel_for(count, cost, [&](std::int64_t begin, std::int64_t end) {
        Run& own = block_run(run);
        for (std::int64_t i = begin; i < end; ++i) add_up_block(own, first + i, blocks_sums + i * bytes);
      });
      constexpr std::int64_t piece = 64;
      parallel_for((all + piece - 1) / piece, 0.1 * static_cast<double>(piece * count),
                   [&](std::int64_t begin, std::int64_t end) {
                     const std::int64_t at = begin * piece, elements = std::min(end * piece, all) - at;
                     for (std::int64_t i = 0; i < count; ++i)
                       add_block(first + i, sums + at * n_.element(), blocks_sums + i * bytes + at * n_.element(),
                                 elements);
                   });
    }
    const std::byte* const result = all_ > product_sum_group ? sums + aligned_bytes(all) : sums;
    for (std::int64_t i = 0; i < n_.groups * tasks_.back(); ++i) {
      const Task task = task_of(i);
      write(run, task, result + task.first_sum * n_.element());
    }
  }
  /// Of the thread that calls: its own memory, and what is common to all threads.
  Run& block_run(const Run& run) const {
    struct Own {
      Run run;
      AlignedBytes memory;
    };
    Own& own = thread_object([] { return new Own; });
    reserve_lists(own.run);
    const std::int64_t gradient = aligned_bytes(n_.groups * panel_lanes_ * run_);
    own.memory.reserve(as_index(gradient + aligned_bytes(n_.groups * n_.channels * copied_) + 64));
    own.run.image = run.image;
    own.run.gradient = run.gradient;
    own.run.memory = {own.memory.data(), own.memory.data() + gradient, nullptr};
    return own.run;
  }
  void add_up_block(Run& run, std::int64_t block, std::byte* sums) const {
    run.k = block * product_sum_block;
    run.end = std::min(run.k + product_sum_block, all_);
    seen_.find_parts(run.k, run.end, run.parts);
    seen_.find_segments(run.parts, product_sum_block, run.segments, run.ends);
    for (std::int64_t panel = 0; panel < n_.groups * std::ssize(panels_); ++panel)
      lay_out_panel(run, panel, 0, run.end - run.k);
    for (std::int64_t channel = 0; !seen_.lies_in_image() && channel < n_.groups * n_.channels; ++channel)
      if (n_.dtype == DType::f64) copy_channel<double>(run, channel);
      else copy_channel<float>(run, channel);
    for (std::int64_t i = 0; i < n_.groups * tasks_.back(); ++i) {
      const Task task = task_of(i);
      WindowTileArgs args = arguments(run, task, sums + task.first_sum * n_.element());
      args.count = std::ssize(run.segments);
      (*task.tile.code)(args);
    }
  }
  /// To the sums of its group; at the group's end these go to the totals.
  void add_block(std::int64_t block, std::byte* sums, const std::byte* own, std::int64_t count) const {
    const std::int64_t end = std::min((block + 1) * product_sum_block, all_);
    if (block * product_sum_block % product_sum_group == 0) std::memcpy(sums, own, as_index(count * n_.element()));
    else if (n_.dtype == DType::f64) add_elements<double>(sums, own, count);
    else add_elements<float>(sums, own, count);
    if (all_ > product_sum_group && (end == all_ || end % product_sum_group == 0)) add_to_totals(end, sums, count);
  }
  template <class Number>
  static void add_elements(std::byte* to, const std::byte* from, std::int64_t count) {
    auto* const sums = reinterpret_cast<Number*>(to);
    const auto* const own = reinterpret_cast<const Number*>(from);
    for (std::int64_t i = 0; i < count; ++i) sums[i] += own[i];
  }

  /// Sums of a group of blocks go to those of the groups before.
  const std::byte* add_to_totals(std::int64_t end, std::byte* sums, std::int64_t count) const {
    const std::int64_t all = aligned_bytes(padded_elements());
    std::byte *const totals = sums + all, *const lost = totals + all;
    if (end <= product_sum_group) std::memcpy(totals, sums, as_index(count * n_.element()));
    else add_group({n_.dtype, totals, sums, lost, count, end, all_});
    return totals;
  }

  const InLanes in_lanes_;
  const ConvolutionNumbers n_;  // with the lanes' channels as outputs
  const Isa isa_;
  const std::int64_t taps_, all_;  // positions of all images
  const SeenLines seen_;
  bool by_blocks_ = false;
  std::int64_t run_ = 0, copied_ = 0, panel_lanes_ = 0;  // positions; elements of a channel's copy; of a group
  std::vector<PanelKind> kinds_;
  std::vector<OutputPanel> panels_;
  std::vector<std::int64_t> tasks_{0};  // of a group, in front of each panel
  Run now_;
};

/// Few outputs or positions: the product that ConvolutionWeightGradient is, of the gradient with its channels in front.
class WeightGradientProduct final : public Launch {
  using AlignedBytes = x86_contraction_detail::AlignedBytes;

 public:
  WeightGradientProduct(const ConvolutionNumbers& numbers, Isa isa) : n_(numbers), product_(numbers, isa) { reserve(); }
  void run(void* const* operands) override {
    void* const places[] = {operands[0], n_.images > 1 ? reserve() : operands[1], operands[2]};
    if (n_.images > 1) put_channels_first(static_cast<const std::byte*>(operands[1]), reserve());
    product_.run(places);
  }
  void prepare() override {
    reserve();
    product_.prepare();
  }

 private:
  std::int64_t row_bytes() const { return ConvolutionNumbers::product(n_.positions) * n_.element(); }
  std::byte* reserve() const {
    AlignedBytes& memory = thread_object([] { return new AlignedBytes; });
    if (n_.images > 1) memory.reserve(as_index(n_.images * n_.groups * n_.outputs * row_bytes()));
    return memory.data();
  }
  void put_channels_first(const std::byte* gradient, std::byte* to) const {
    const std::int64_t channels = n_.groups * n_.outputs, bytes = row_bytes();
    parallel_for(
        n_.images * channels, 10 + 0.1 * static_cast<double>(bytes), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            std::memcpy(to + (i % channels * n_.images + i / channels) * bytes, gradient + i * bytes, as_index(bytes));
        });
  }

  const ConvolutionNumbers n_;
  WeightGradientLaunch product_;
};

}  // namespace x86_convolution_detail

SINTER_DECL std::unique_ptr<Launch> make_weight_gradient_launch(
    const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa) {
  using namespace x86_convolution_detail;
  using Tiles = WeightGradientTiles;
  if (Tiles::is_better_swapped(numbers) && Tiles::is_worth(Tiles::swapped(numbers), isa))
    return std::make_unique<Tiles>(numbers, isa, InLanes::channels);
  if (Tiles::is_worth(numbers, isa)) return std::make_unique<Tiles>(numbers, isa, InLanes::outputs);
  return std::make_unique<WeightGradientProduct>(numbers, isa);
}

}  // namespace x86
SINTER_NAMESPACE_END
