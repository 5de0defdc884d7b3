// For some columns, which are positions of all images, and for each run of outputs: what windows see of the gradient is
// laid out in panels, and tiles of some channels by a panel add up the run. A run has whole blocks of every part's
// sums, so that these are in the order of products.
#pragma once

#include <sinter/backend/x86/convolution/unpacked_gradient.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/backend/x86/contraction/vector.hpp>
#include <sinter/backend/x86/convolution/convolution.ipp>
#include <sinter/backend/x86/convolution/image_gradient.hpp>
#include <sinter/backend/x86/convolution/image_parts.hpp>
#include <sinter/backend/x86/convolution/window_tile.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/kernel.hpp>

#include <algorithm>
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

class UnpackedGradientLaunch final : public FollowableLaunch {
  using AlignedBytes = x86_contraction_detail::AlignedBytes;

 public:
  static bool is_worth(const ConvolutionNumbers& n) {
    constexpr std::int64_t most_positions = 1024, most_bytes = std::numeric_limits<std::int32_t>::max() / 64;
    const std::int64_t taps = ConvolutionNumbers::product(n.taps), bytes = n.channels * n.outputs * taps * n.element(),
                       positions = n.images * ConvolutionNumbers::product(n.positions);
    return n.groups == 1 && positions > 0 && positions <= most_positions && ConvolutionNumbers::product(n.extent) > 0 &&
           taps * n.element() <= most_bytes && bytes > x86_contraction_detail::l2_bytes() / 2;
  }

  UnpackedGradientLaunch(const ConvolutionNumbers& numbers, Isa isa)
      : n_(numbers), isa_(isa), taps_(ConvolutionNumbers::product(n_.taps)) {
    for (ImagePart& part : image_parts(n_))
      if (part.positions() > 0) add_part(std::move(part));
    choose_columns();
    for (const auto& part : parts_) part->windows.bind(part->columns, width_, most_outputs * std::ssize(part->taps));
    reserve();
  }

  void run(void* const* operands) override {
    Run run{operands, reserve(), 0, 0, 0};
    for (; run.panel < most_panels_; run.panel += at_once_)
      for (run.output = 0; run.output < n_.outputs; run.output = run.end) {
        run.end = std::min(run.output + most_outputs, n_.outputs);
        lay_out(run);
        add_up(run);
      }
  }
  void prepare() override {
    reserve();
    for (const auto& part : parts_) part->windows.prepare();
  }
  /// What follows would see channels in pieces.
  std::unique_ptr<Launch> followed_by(const FollowingKernel& next) const override {
    const std::unique_ptr<Launch> packed = make_packed_gradient_launch(n_, isa_);
    return as_followable(*packed)->followed_by(next);
  }

 private:
  static constexpr std::int64_t most_outputs = product_sum_block;  // of a run: whole blocks, however many taps

  /// The rows of a block's sums, in order.
  struct Order {
    std::vector<WindowSegment> segments;
    std::vector<std::int64_t> ends;  // of blocks
  };
  struct Part {
    Part(const ConvolutionNumbers& numbers, Isa isa) : windows(numbers, isa) {}
    std::vector<std::int64_t> taps;
    std::int64_t depth = 0, columns = 0, panels = 0;
    std::int64_t at = 0;                        // of its panels in a run's memory, elements of a column
    std::vector<std::int64_t> places;           // of columns in a channel of the first image, elements
    Order whole, rest;                          // of a run, and of the last one
    std::shared_ptr<const WindowTile> code[2];  // for one row more
    WindowColumns windows;
  };
  /// Of the thread that calls.
  struct Memory {
    std::byte *panels, *sums;
  };
  /// Some panels of each part and some outputs.
  struct Run {
    void* const* operands;
    Memory memory;
    std::int64_t panel, output, end;
  };

  void add_part(ImagePart image) {
    ConvolutionNumbers own = image.numbers(n_, n_.images);
    auto part = std::make_unique<Part>(own, isa_);
    part->taps = std::move(image.taps);
    part->depth = n_.outputs * std::ssize(part->taps);
    part->columns = n_.images * image.positions();
    find_places(image, *part);
    parts_.push_back(std::move(part));
  }
  void find_places(const ImagePart& image, Part& part) const {
    const auto& [z, y, x] = image.axes;
    for (std::int64_t number = 0; number < n_.images; ++number)
      for (std::int64_t i = 0; i < z.positions; ++i)
        for (std::int64_t k = 0; k < y.positions; ++k)
          for (std::int64_t m = 0; m < x.positions; ++m)
            part.places.push_back(number * n_.channels * channel_elements() +
                                  ((z.first + i * n_.stride[0]) * n_.extent[1] + y.first + k * n_.stride[1]) *
                                      n_.extent[2] +
                                  x.first + m * n_.stride[2]);
  }
  std::int64_t channel_elements() const { return ConvolutionNumbers::product(n_.extent); }

  /// As many panels as stay in L2 with all rows of a run, each batch of them about as large.
  void choose_columns() {
    const std::int64_t lane_count = lanes(isa_, n_.dtype);
    std::int64_t most_columns = 0;
    for (const auto& part : parts_) most_columns = std::max(most_columns, part->columns);
    vectors_ = static_cast<int>(std::min<std::int64_t>(2, (most_columns + lane_count - 1) / lane_count));
    width_ = vectors_ * lane_count;
    const std::int64_t rows = std::min(most_outputs, n_.outputs) * taps_, panel = rows * width_ * n_.element();
    const std::int64_t in_cache = std::max<std::int64_t>(x86_contraction_detail::l2_bytes() / 8 * 5 / panel, 1);
    most_panels_ = (most_columns + width_ - 1) / width_;
    const std::int64_t batches = (most_panels_ + in_cache - 1) / in_cache;
    at_once_ = (most_panels_ + batches - 1) / batches;
    const std::int64_t most = most_window_rows(isa_, vectors_);
    tiles_ = (n_.channels + most - 1) / most;
    tiles_ += tiles_ % 2;  // two threads have the same
    tiles_ = std::min(tiles_, n_.channels);
    for (const auto& part : parts_) find_code(*part);
  }
  void find_code(Part& part) {
    part.panels = (part.columns + width_ - 1) / width_;
    part.at = panel_rows_;
    panel_rows_ += std::min(most_outputs, n_.outputs) * std::ssize(part.taps);
    if (part.taps.empty()) return;
    const std::int64_t step = part.taps.size() > 1 ? part.taps[1] - part.taps[0] : 1;
    part.whole = find_order(part, std::min(most_outputs, n_.outputs), step);
    part.rest = find_order(part, (n_.outputs - 1) % most_outputs + 1, step);
    for (std::int64_t more = 0; more < 1 + (n_.channels % tiles_ != 0); ++more) {
      WindowTileShape shape{n_.dtype, isa_, vectors_, static_cast<std::int32_t>(step * n_.element()), {}};
      shape.looks_ahead = true;
      for (std::int64_t row = 0; row < n_.channels / tiles_ + more; ++row)
        shape.offsets.push_back(static_cast<std::int32_t>(row * taps_ * n_.element()));
      part.code[as_index(more)] = find_window_tile(shape);
    }
  }
  /// Successive taps `step` apart are a segment, which ends with an output and with a block.
  Order find_order(const Part& part, std::int64_t outputs, std::int64_t step) const {
    Order order;
    std::int64_t left = product_sum_block;
    for (std::int64_t output = 0; output < outputs; ++output)
      for (std::size_t tap = 0; tap < part.taps.size();) {
        std::size_t end = tap + 1;
        while (end < part.taps.size() && std::int64_t(end - tap) < left && part.taps[end] - part.taps[end - 1] == step)
          ++end;
        order.segments.push_back(
            {(output * n_.channels * taps_ + part.taps[tap]) * n_.element(), static_cast<std::int64_t>(end - tap)});
        left -= static_cast<std::int64_t>(end - tap);
        tap = end;
        if (left > 0) continue;
        order.ends.push_back(std::ssize(order.segments));
        left = product_sum_block;
      }
    if (left < product_sum_block) order.ends.push_back(std::ssize(order.segments));
    order.segments.push_back(order.segments.back());  // what the last one looks ahead to
    return order;
  }

  std::int64_t sum_elements() const { return std::ssize(parts_) * at_once_ * n_.channels * width_; }
  bool has_groups() const { return n_.outputs * taps_ > product_sum_group; }
  Memory reserve() const {
    AlignedBytes& memory = thread_object([] { return new AlignedBytes; });
    const std::int64_t panels = panel_rows_ * at_once_ * width_ * n_.element() + std::int64_t{panel_slack};
    memory.reserve(as_index(panels + sum_elements() * n_.element() * (has_groups() ? 3 : 1)));
    return {memory.data(), memory.data() + panels};
  }
  /// Where a panel of those of a run begins.
  std::byte* panel_of(const Run& run, const Part& part, std::int64_t panel) const {
    const std::int64_t rows = (run.end - run.output) * std::ssize(part.taps);
    return run.memory.panels + (part.at * at_once_ + (panel - run.panel) * rows) * width_ * n_.element();
  }

  /// Pieces of all panels.
  void lay_out(const Run& run) const {
    constexpr std::int64_t pieces = 4;
    const std::int64_t outputs = run.end - run.output, tasks = std::ssize(parts_) * at_once_ * pieces;
    const double cost = 0.25 * static_cast<double>(panel_rows_ * width_) / static_cast<double>(pieces);
    parallel_for(tasks, cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const Part& part = *parts_[as_index(task / pieces / at_once_)];
        const std::int64_t panel = run.panel + task / pieces % at_once_, taps = std::ssize(part.taps),
                           first = task % pieces * outputs / pieces, last = (task % pieces + 1) * outputs / pieces;
        if (panel >= part.panels || taps == 0 || first == last) continue;
        part.windows.make_panel({panel_of(run, part, panel) + first * taps * width_ * n_.element(),
                                 static_cast<const std::byte*>(run.operands[0]), panel * width_,
                                 std::min(width_, part.columns - panel * width_), width_, (run.output + first) * taps,
                                 (run.output + last) * taps});
      }
    });
  }

  /// A task is a tile by all panels of a part: its part of the weight is read once.
  void add_up(const Run& run) const {
    const double flops = 2.0 * static_cast<double>((run.end - run.output) * taps_ * n_.channels * at_once_ * width_);
    const std::int64_t parts = std::ssize(parts_);
    parallel_for(parts * tiles_, flops / 80 / static_cast<double>(parts * tiles_),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t task = begin; task < end; ++task) add_up_tile(run, task % parts, task / parts);
                 });
  }
  void add_up_tile(const Run& run, std::int64_t number, std::int64_t tile) const {
    const Part& part = *parts_[as_index(number)];
    const std::int64_t rows = n_.channels / tiles_, taller = n_.channels % tiles_, own = rows + (tile < taller),
                       row = tile * rows + std::min(tile, taller), element = n_.element(),
                       end = std::min(run.panel + at_once_, part.panels);
    const auto* const weight =
        static_cast<const std::byte*>(run.operands[1]) + (run.output * n_.channels + row) * taps_ * element;
    for (std::int64_t panel = run.panel; panel < end; ++panel) {
      std::byte* const sums =
          run.memory.sums + ((number * at_once_ + panel - run.panel) * n_.channels + row) * width_ * element;
      const std::byte* all = sums;
      if (part.taps.empty()) std::memset(sums, 0, as_index(own * width_ * element));
      else
        all = add_run({weight, panel_of(run, part, panel), nullptr, 0, sums, 0}, run, part, own,
                      *part.code[as_index(tile < taller)]);
      if (run.end != n_.outputs) continue;
      const std::int64_t column = panel * width_, count = std::min(width_, part.columns - column);
      if (element == 8) put<double>(run, part.places.data() + column, row, own, count, all);
      else put<float>(run, part.places.data() + column, row, own, count, all);
    }
  }
  /// The blocks of a run. Returns the sums of all groups of blocks so far.
  const std::byte* add_run(WindowTileArgs args, const Run& run, const Part& part, std::int64_t rows,
                           const WindowTile& tile) const {
    const Order& order = run.end == n_.outputs ? part.rest : part.whole;
    auto* const sums = static_cast<std::byte*>(args.sums);
    const std::int64_t first = run.output * std::ssize(part.taps);
    std::int64_t segment = 0, k = first;
    for (const std::int64_t end : order.ends) {
      args.segments = order.segments.data() + segment;
      args.count = end - segment;
      args.adds = k % product_sum_group != 0;
      tile(args);
      args.factors = static_cast<const std::byte*>(args.factors) + product_sum_block * width_ * n_.element();
      segment = end;
      k = std::min(k + product_sum_block, part.depth);
      if (part.depth > product_sum_group && (k % product_sum_group == 0 || k == part.depth))
        add_to_totals(part, sums, rows * width_, k);
    }
    return part.depth > product_sum_group ? sums + sum_elements() * n_.element() : sums;
  }
  void add_to_totals(const Part& part, std::byte* sums, std::int64_t count, std::int64_t k) const {
    std::byte *const totals = sums + sum_elements() * n_.element(), *const lost =
                                                                        totals + sum_elements() * n_.element();
    if (k <= product_sum_group) std::memcpy(totals, sums, as_index(count * n_.element()));
    else add_group({n_.dtype, totals, sums, lost, count, k, part.depth});
  }
  template <class Number>
  void put(const Run& run, const std::int64_t* places, std::int64_t row, std::int64_t rows, std::int64_t count,
           const std::byte* sums) const {
    auto* out = static_cast<Number*>(run.operands[2]) + row * channel_elements();
    const auto* from = reinterpret_cast<const Number*>(sums);
    for (std::int64_t i = 0; i < rows; ++i, out += channel_elements(), from += width_)
      for (std::int64_t column = 0; column < count; ++column) out[places[column]] = from[column];
  }

  const ConvolutionNumbers n_;
  const Isa isa_;
  const std::int64_t taps_;
  std::vector<std::unique_ptr<Part>> parts_;
  int vectors_ = 1;
  std::int64_t width_ = 0, most_panels_ = 0, at_once_ = 0;  // columns of a panel; panels of a part, and of a run
  std::int64_t tiles_ = 0, panel_rows_ = 0;                 // of all parts in a run
};

}  // namespace x86_convolution_detail

SINTER_DECL std::unique_ptr<Launch> make_unpacked_gradient_launch(
    const x86_convolution_detail::ConvolutionNumbers& numbers, Isa isa) {
  using namespace x86_convolution_detail;
  if (!UnpackedGradientLaunch::is_worth(numbers)) return nullptr;
  return std::make_unique<UnpackedGradientLaunch>(numbers, isa);
}

}  // namespace x86
SINTER_NAMESPACE_END
