// The driver of turned products. A is laid out once, before all tasks, and stays in L2; a task goes through the rows of
// its part of B^T, asks for those of the next one meanwhile, and turns its sums back for the result or the epilogue.
#pragma once

#include <sinter/backend/x86/contraction/turned.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/bound_epilogue.ipp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/contraction/plan.ipp>
#include <sinter/backend/x86/contraction/tile_scratch.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

/// The shape of a turned product's tiles and tasks; rows are C's columns.
inline void set_turned_tiles(ContractionPlan& t, Isa isa, int threads) {
  constexpr std::int64_t task_rows = 48;  // three lines of a row of C; a multiple of all tiles' rows, as half of it is
  const std::int64_t lane_count = lanes(isa, t.dtype);
  const std::int64_t wanted = isa == Isa::avx512 && rows_share_sets(t) ? 3 : 2;
  const auto vectors = static_cast<int>(std::min<std::int64_t>(wanted, (t.n + lane_count - 1) / lane_count));
  const int most = most_rows(isa, vectors);
  for (const int rows : {12, 8, 6, 4, 3}) {
    if (rows > most) continue;
    t.tile_rows = rows;
    break;
  }
  t.width = vectors * lane_count;
  t.panels = (t.n + t.width - 1) / t.width;
  t.tail_columns = t.n - (t.panels - 1) * t.width;
  const bool has_many = t.batches * t.m >= 4 * threads * task_rows;
  t.tiles_per_block = (has_many ? task_rows : task_rows / 2) / t.tile_rows;
  t.blocks = (t.m + t.tiles_per_block * t.tile_rows - 1) / (t.tiles_per_block * t.tile_rows);
}

SINTER_DECL std::optional<TurnedPlan> plan_turned(const ContractionParts& parts, const ContractionPlan& plan, Isa isa,
                                                  int threads) {
  constexpr std::int64_t least_rows = 24, most_rows = 512, most_pack_bytes = 64 << 20;
  const bool is_asked = parts.tile_rows != 0 || parts.tile_columns != 0;
  const bool is_transposed = plan.b.row_stride == plan.element && plan.b.column_stride != plan.element;
  if (parts.b_is_made || is_asked || !is_transposed || plan.is_swapped || plan.streams_results || plan.tiles == 0 ||
      plan.method != ProductMethod::tiles || plan.k == 0 || plan.k > product_sum_group || plan.m < least_rows ||
      plan.m > most_rows || plan.m * (plan.k + plan.n) > plan.n * plan.k)
    return std::nullopt;
  TurnedPlan r{plan, plan, 0, false};
  ContractionPlan& t = r.tiles;
  swap_orientation(t);
  t.packs_b = true;
  t.walk = AWalk::unit_k;
  t.prefetches_a = t.prefetches_b = false;
  t.b_is_shared = std::all_of(t.b.batch_stride.begin(), t.b.batch_stride.begin() + t.batch_axes,
                              [](std::int64_t s) { return s == 0; });
  set_turned_tiles(t, isa, threads);
  t.pack_bytes = (t.b_is_shared ? 1 : t.batches) * t.panels * t.panel_bytes();
  if (t.panels * t.panel_bytes() > l2_bytes() / 2 || t.pack_bytes > most_pack_bytes) return std::nullopt;
  t.nanoseconds_per_task =
      plan.nanoseconds_per_task * static_cast<double>(plan.panels * plan.blocks) / static_cast<double>(t.blocks);
  r.row_bytes = t.panels * t.width * t.element + 64;  // rows a power of two apart would share few sets of the cache
  r.is_contiguous = t.a.row_stride == t.k * t.element;
  r.result.width = t.tiles_per_block * t.tile_rows;
  r.result.panels = t.blocks;
  r.result.tail_columns = plan.n - (t.blocks - 1) * r.result.width;
  return r;
}

class TurnedLaunch final : public Launch {
 public:
  TurnedLaunch(const Kernel& kernel, const ContractionParts& parts, const TurnedPlan& plan,
               const BoundGeometry& geometry, Isa isa, EpilogueCode* code)
      : plan_(plan) {
    a_operand_ = kernel.accesses[parts.b].operand;
    b_operand_ = kernel.accesses[parts.a].operand;
    if (plan_.result.is_direct) {
      c_operand_ = kernel.accesses[parts.store].operand;
    } else {
      std::shared_ptr<const LoopCode> loop = code->loop(index_width(kernel, geometry));
      ensure(loop != nullptr, "contraction: an epilogue that runs in registers but not as a loop");
      epilogue_ = bind_epilogue(kernel, parts, plan_.result, geometry, std::move(loop));
    }
    find_functions(isa);
  }

  void run(void* const* operands) override {
    TileScratch& scratch = tile_scratch();
    reserve(scratch);
    pack(operands, scratch.shared);
    parallel_for(plan_.tasks(), task_cost(), [&](std::int64_t begin, std::int64_t end) { run_tasks(begin, end); });
    end_tasks();
  }
  void prepare() override {
    reserve(tile_scratch());
    tile_scratch().shared.reserve(as_index(plan_.tiles.pack_bytes));
  }
  /// Beside others of its kind, each has its own A.
  LaunchWork work() override {
    packed_.reserve(as_index(plan_.tiles.pack_bytes));
    return {plan_.tasks(), task_cost() * static_cast<double>(plan_.tasks())};
  }
  void begin_tasks(void* const* operands) override { pack(operands, packed_); }
  void run_tasks(std::int64_t begin, std::int64_t end) override {
    const ContractionPlan& t = plan_.tiles;
    TileScratch& scratch = tile_scratch();
    reserve(scratch);
    if (!plan_.result.is_direct) epilogue_.begin(scratch, scratch.panel.data(), plan_.result.width);
    MicroArgs args;
    args.totals = scratch.totals;
    args.a_row_stride = t.a.row_stride;
    args.a_k_stride = t.a.column_stride;
    args.b_k_stride = t.width * t.element;
    args.c_row_stride = plan_.row_bytes;
    args.set_mask(t.dtype, static_cast<int>(t.tail_columns % lanes_));
    for (std::int64_t task = begin; task < end; ++task) run_task(scratch, args, task);
    if (plan_.result.is_direct || scratch.status.access == 0) return;
    bad_index_.store(scratch.status.index, std::memory_order_relaxed);
    bad_extent_.store(scratch.args.pointer[scratch.status.access - 1].gather_extent, std::memory_order_relaxed);
    has_bad_index_.store(true, std::memory_order_relaxed);
  }
  void end_tasks() override {
    if (has_bad_index_.exchange(false, std::memory_order_relaxed))
      throw GatherError(bad_index_.load(std::memory_order_relaxed), bad_extent_.load(std::memory_order_relaxed));
  }

 private:
  void find_functions(Isa isa) {
    const ContractionPlan& t = plan_.tiles;
    lanes_ = lanes(isa, t.dtype);
    const std::int64_t rest = t.m % t.tile_rows;
    std::array<MicroShape, 4> shapes;
    std::array<MicroFunction, 4> found{};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const bool is_rest = rest != 0 && (i / 2 == 1 || t.m < t.tile_rows);
      const std::int64_t columns = i % 2 == 1 || t.panels == 1 ? t.tail_columns : t.width;
      shapes[i] = {.dtype = t.dtype,
                   .isa = isa,
                   .rows = static_cast<std::uint8_t>(is_rest ? rest : t.tile_rows),
                   .vectors = static_cast<std::uint8_t>((columns + lanes_ - 1) / lanes_),
                   .is_masked = columns % lanes_ != 0,
                   .walk = AWalk::unit_k,
                   .sum = t.k > product_sum_block ? MicroSum::blocks : MicroSum::one_block,
                   .prefetches_next = plan_.is_contiguous};
      line_bytes_[i % 2] = shapes[i].vectors * lanes_ * t.element;
    }
    find_micro_kernels(shapes, found);
    for (std::size_t i = 0; i < found.size(); ++i) functions_[i / 2][i % 2] = found[i];
  }

  const char* operand(std::uint16_t at, const MatrixView& view, const BatchIndex& index) const {
    return static_cast<const char*>(operands_[at]) + view.offset + plan_.tiles.batch_offset(view.batch_stride, index);
  }
  std::byte* panel_of_b(std::int64_t batch, std::int64_t panel) const {
    return b_ + ((plan_.tiles.b_is_shared ? 0 : batch) * plan_.tiles.panels + panel) * plan_.tiles.panel_bytes();
  }
  void pack(void* const* operands, AlignedBytes& to) {
    const ContractionPlan& t = plan_.tiles;
    to.reserve(as_index(t.pack_bytes));
    operands_ = operands;
    b_ = to.data();
    const std::int64_t copies = t.b_is_shared ? 1 : t.batches;
    parallel_for(copies * t.panels, 0.25 * static_cast<double>(t.width * t.k),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t panel = begin; panel < end; ++panel) pack_b(panel / t.panels, panel % t.panels);
                 });
  }
  void pack_b(std::int64_t batch, std::int64_t panel) const {
    const ContractionPlan& t = plan_.tiles;
    const auto* from = reinterpret_cast<const std::byte*>(operand(b_operand_, t.b, t.batch_index(batch)));
    pack_panel(panel_of_b(batch, panel), from + panel * t.width * t.b.column_stride, t.k, t.columns_of(panel), t.width,
               t.b.row_stride, t.b.column_stride, t.element);
  }

  std::int64_t task_rows() const { return plan_.result.width; }
  void reserve(TileScratch& scratch) const {
    scratch.tile.reserve(as_index(task_rows() * plan_.row_bytes));
    if (plan_.result.is_direct) return;
    scratch.panel.reserve(as_index(plan_.result.m * plan_.result.width * plan_.result.element));
    scratch.loop.reserve(epilogue_.code->scratch_bytes(plan_.result.width));
  }

  void run_task(TileScratch& scratch, MicroArgs& args, std::int64_t task) const {
    const ContractionPlan& t = plan_.tiles;
    const std::int64_t batch = task / t.blocks, block = task % t.blocks, row = block * task_rows(),
                       rows = std::min(task_rows(), t.m - row);
    const BatchIndex index = t.batch_index(batch);
    const char* const a = operand(a_operand_, t.a, index);
    Ahead ahead(*this, task);
    for (std::int64_t first = 0; first < rows; first += t.tile_rows) {
      const bool is_rest = rows - first < t.tile_rows;
      for (std::int64_t panel = 0; panel < t.panels; ++panel) {
        const bool is_last = panel == t.panels - 1;
        args.a = a + (row + first) * t.a.row_stride;
        args.b = reinterpret_cast<const char*>(panel_of_b(batch, panel));
        args.c = reinterpret_cast<char*>(scratch.tile.data()) + first * plan_.row_bytes + panel * t.width * t.element;
        args.k = t.k;
        args.tiles = 1;
        ahead.take(args, line_bytes_[is_last]);
        functions_[is_rest][is_last](&args);
      }
    }
    finish(scratch, index, block, rows);
  }
  void finish(TileScratch& scratch, const BatchIndex& index, std::int64_t block, std::int64_t columns) const {
    const ContractionPlan& r = plan_.result;
    const std::byte* const sums = scratch.tile.data();
    if (!r.is_direct) {
      transpose_elements(scratch.panel.data(), sums, r.m, columns, r.width * r.element, plan_.row_bytes, r.element);
      return epilogue_.run(scratch.args, r, operands_, index, block, 0, r.m);
    }
    char* const c = static_cast<char*>(operands_[c_operand_]) + r.c.offset + r.batch_offset(r.c.batch_stride, index) +
                    block * r.width * r.element;
    transpose_elements(reinterpret_cast<std::byte*>(c), sums, r.m, columns, r.c.row_stride, plan_.row_bytes, r.element);
  }

  /// Has tiles ask for the rows of B^T that the thread mostly reads next, a share with each tile.
  class Ahead {
   public:
    Ahead(const TurnedLaunch& owner, std::int64_t task) : k_(owner.plan_.tiles.k) {
      const ContractionPlan& t = owner.plan_.tiles;
      if (!owner.plan_.is_contiguous || task + 1 == owner.plan_.tasks()) return;
      const std::int64_t block = (task + 1) % t.blocks, row = block * owner.task_rows();
      next_ = owner.operand(owner.a_operand_, t.a, t.batch_index((task + 1) / t.blocks)) + row * t.a.row_stride;
      left_ = std::min(owner.task_rows(), t.m - row) * t.a.row_stride;
    }
    void take(MicroArgs& args, std::int64_t line_bytes) {
      args.next = left_ > 0 ? next_ : args.b;
      args.next_row_stride = left_ > 0 ? line_bytes : 0;
      next_ += k_ / steps_per_row_ahead * args.next_row_stride;
      left_ -= k_ / steps_per_row_ahead * line_bytes;
    }

   private:
    const char* next_ = nullptr;
    std::int64_t k_, left_ = 0;
  };

  double task_cost() const {
    const double epilogue = plan_.result.is_direct ? 0.3 : 0.3 + epilogue_.code->nanoseconds_per_element();
    return plan_.tiles.nanoseconds_per_task + epilogue * static_cast<double>(task_rows() * plan_.result.m);
  }

  const TurnedPlan plan_;
  std::uint16_t a_operand_ = 0, b_operand_ = 0, c_operand_ = 0;
  std::int64_t lanes_ = 1;
  MicroFunction functions_[2][2] = {};        // [fewer rows][last panel]
  std::array<std::int64_t, 2> line_bytes_{};  // that they ask for at once
  BoundEpilogue epilogue_;
  AlignedBytes packed_;
  void* const* operands_ = nullptr;  // of the run that goes on, and its packed A
  std::byte* b_ = nullptr;
  std::atomic<bool> has_bad_index_{false};
  std::atomic<std::int64_t> bad_index_{0}, bad_extent_{0};
};

SINTER_DECL std::unique_ptr<Launch> make_turned_launch(const Kernel& kernel, const ContractionParts& parts,
                                                       const TurnedPlan& plan, const BoundGeometry& geometry, Isa isa,
                                                       EpilogueCode* code) {
  return std::make_unique<TurnedLaunch>(kernel, parts, plan, geometry, isa, code);
}

}  // namespace x86_contraction_detail
}  // namespace x86
SINTER_NAMESPACE_END
