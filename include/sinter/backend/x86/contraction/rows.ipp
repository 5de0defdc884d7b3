// The driver of whole rows. B is packed once and stays in L2, chunk by chunk; a task packs its few rows of A, adds up
// all tiles of a chunk's rows into scratch, and then runs the epilogue over them. While tiles multiply, they ask for
// what the epilogue will read.
#pragma once

#include <sinter/backend/x86/contraction/rows.hpp>

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
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

/// Tiles narrower than an epilogue over scratch has them: a row of A meets all of B's columns, which come from L2.
inline constexpr int row_tile_vectors = 2;

SINTER_DECL std::optional<RowPlan> plan_rows(const ContractionParts& parts, const ContractionPlan& plan, Isa isa,
                                             int threads) {
  constexpr std::int64_t least_row_bytes = 1024, most_sum_bytes = 96 << 10, most_pack_bytes = 64 << 20;
  const bool is_asked = parts.tile_rows != 0 || parts.tile_columns != 0;
  if (!plan.streams_results || plan.is_direct || is_asked || plan.tiles == 0 || plan.method != ProductMethod::tiles ||
      plan.k == 0 || plan.k_run < plan.k || plan.n * plan.element < least_row_bytes)
    return std::nullopt;
  RowPlan r{plan, plan, 0, 0};
  ContractionPlan& p = r.tiles;
  p.packs_b = true;
  p.walk = AWalk::unit_row;
  p.prefetches_a = p.prefetches_b = false;
  set_tiles(p, most_rows(isa, row_tile_vectors), row_tile_vectors * lanes(isa, p.dtype));
  const std::int64_t in_cache = std::max<std::int64_t>(1, l2_bytes() / 2 / p.panel_bytes());
  const std::int64_t chunks = (p.panels + in_cache - 1) / in_cache;
  r.panels = (p.panels + chunks - 1) / chunks;
  r.chunks.width = r.panels * p.width;
  r.chunks.panels = (p.panels + r.panels - 1) / r.panels;
  r.chunks.tail_columns = p.n - (r.chunks.panels - 1) * r.chunks.width;
  if (r.chunks.panels > 1 && r.chunks.width * p.element < least_row_bytes) return std::nullopt;
  r.row_bytes = r.chunks.width * p.element + 64;  // rows a power of two apart would share few sets of the cache
  p.tiles_per_block = std::clamp<std::int64_t>(most_sum_bytes / ((p.tile_rows + 1) * r.row_bytes), 1, 4);
  while (p.tiles_per_block > 1 && p.tiles / p.tiles_per_block * r.chunks.panels * p.batches < 4 * threads)
    --p.tiles_per_block;
  p.blocks = (p.tiles + p.tiles_per_block - 1) / p.tiles_per_block;
  p.nanoseconds_per_task = plan.nanoseconds_per_task * static_cast<double>(plan.panels * plan.blocks) /
                           static_cast<double>(r.chunks.panels * p.blocks);
  p.pack_bytes = (p.b_is_shared ? 1 : p.batches) * p.panels * p.panel_bytes();
  if (p.pack_bytes > most_pack_bytes) return std::nullopt;  // a thread keeps this memory
  return r;
}

class RowLaunch final : public Launch {
 public:
  RowLaunch(const Kernel& kernel, const ContractionParts& parts, const RowPlan& plan, const BoundGeometry& geometry,
            Isa isa, EpilogueCode& code)
      : plan_(plan) {
    a_operand_ = kernel.accesses[parts.a].operand;
    b_operand_ = kernel.accesses[parts.b].operand;
    ContractionPlan in_scratch = plan_.chunks;
    in_scratch.width = plan_.row_bytes / plan_.tiles.element;
    std::shared_ptr<const LoopCode> loop = code.loop(index_width(kernel, geometry));
    ensure(loop != nullptr, "contraction: an epilogue that runs in registers but not as a loop");
    epilogue_ = bind_epilogue(kernel, parts, in_scratch, geometry, std::move(loop));
    find_functions(isa);
    find_streams(parts);
    find_new_results();
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
  /// Beside others of its kind, each has its own B.
  LaunchWork work() override {
    packed_.reserve(as_index(plan_.tiles.pack_bytes));
    return {plan_.tasks(), task_cost() * static_cast<double>(plan_.tasks())};
  }
  void begin_tasks(void* const* operands) override { pack(operands, packed_); }
  void run_tasks(std::int64_t begin, std::int64_t end) override {
    const ContractionPlan& p = plan_.tiles;
    TileScratch& scratch = tile_scratch();
    reserve(scratch);
    epilogue_.begin(scratch, scratch.tile.data(), plan_.chunks.width);
    MicroArgs args;
    args.totals = scratch.totals;
    args.a_row_stride = p.element;
    args.b_k_stride = p.width * p.element;
    args.c_row_stride = plan_.row_bytes;
    args.set_mask(p.dtype, static_cast<int>(p.tail_columns % lanes_));
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t block = task % p.blocks, chunk = task / p.blocks % plan_.chunks.panels;
      run_task(scratch, args, task / p.blocks / plan_.chunks.panels, chunk, block);
    }
    if (scratch.status.access == 0) return;
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
    const ContractionPlan& p = plan_.tiles;
    lanes_ = lanes(isa, p.dtype);
    std::array<MicroShape, 4> shapes;
    std::array<MicroFunction, 4> found{};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const bool is_taller = i / 2 == 1 && p.taller_tiles != 0;
      const std::int64_t columns = i % 2 == 1 || p.panels == 1 ? p.tail_columns : p.width;
      shapes[i] = {.dtype = p.dtype,
                   .isa = isa,
                   .rows = static_cast<std::uint8_t>(p.tile_rows + is_taller),
                   .vectors = static_cast<std::uint8_t>((columns + lanes_ - 1) / lanes_),
                   .is_masked = columns % lanes_ != 0,
                   .walk = AWalk::unit_row,
                   .sum = p.k > product_sum_block ? MicroSum::blocks : MicroSum::one_block,
                   .prefetches_next = true};
    }
    find_micro_kernels(shapes, found);
    for (std::size_t i = 0; i < found.size(); ++i) functions_[i / 2][i % 2] = found[i];
  }
  /// What the epilogue walks row by row.
  void find_streams(const ContractionParts& parts) {
    const auto m = as_index(parts.epilogue.rank() - 2), n = m + 1;
    for (std::size_t i = 0; i < parts.sum; ++i) {
      const auto& stride = parts.epilogue.accesses[i].stride;
      const bool is_read = std::none_of(parts.epilogue.stores.begin(), parts.epilogue.stores.end(),
                                        [&](const Store& s) { return s.access == i; });
      if (is_read && stride[m] != StrideClass::zero && stride[n] == StrideClass::unit) streams_.push_back(i);
    }
  }

  /// A large result that updates no array, as the gradient that is kept beside an update, is stored past the caches: it
  /// would be fetched in order to be written, and put out of them what is read.
  void find_new_results() {
    constexpr std::int64_t least_bytes = 1 << 20;
    const ContractionPlan& p = plan_.tiles;
    std::uint64_t results = 0;
    if (p.batches * p.m * p.n * p.element < least_bytes) return;
    streaming_ = epilogue_.code->streaming_new(results);
    for (std::size_t i = 0; i < epilogue_.bases.size(); ++i) {
      if ((results >> i & 1) == 0) continue;
      const LoopArgs::Pointer& pointer = epilogue_.args.pointer[i];
      const auto& batch_stride = epilogue_.bases[i].batch_stride;
      const bool is_aligned =
          pointer.column_stride == p.element && pointer.outer_stride % 64 == 0 &&
          std::all_of(batch_stride.begin(), batch_stride.end(), [](std::int64_t s) { return s % 64 == 0; });
      if (!is_aligned) streaming_ = nullptr;
      new_results_.push_back(i);
    }
  }
  bool passes_caches() const {
    return streaming_ != nullptr && std::all_of(new_results_.begin(), new_results_.end(), [&](std::size_t i) {
             const BoundEpilogue::Base& base = epilogue_.bases[i];
             return (reinterpret_cast<std::uintptr_t>(operands_[base.operand]) + as_index(base.offset)) % 64 == 0;
           });
  }

  const char* operand(std::uint16_t at, const MatrixView& view, const BatchIndex& index) const {
    return static_cast<const char*>(operands_[at]) + view.offset + plan_.tiles.batch_offset(view.batch_stride, index);
  }
  std::byte* panel_of_b(std::int64_t batch, std::int64_t panel) const {
    return b_ + ((plan_.tiles.b_is_shared ? 0 : batch) * plan_.tiles.panels + panel) * plan_.tiles.panel_bytes();
  }
  void pack(void* const* operands, AlignedBytes& to) {
    const ContractionPlan& p = plan_.tiles;
    to.reserve(as_index(p.pack_bytes));
    operands_ = operands;
    b_ = to.data();
    function_ = passes_caches() ? streaming_ : epilogue_.code->function();
    const std::int64_t copies = p.b_is_shared ? 1 : p.batches;
    parallel_for(copies * p.panels, 0.25 * static_cast<double>(p.width * p.k),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t panel = begin; panel < end; ++panel) pack_b(panel / p.panels, panel % p.panels);
                 });
  }
  void pack_b(std::int64_t batch, std::int64_t panel) const {
    const ContractionPlan& p = plan_.tiles;
    const auto* from = reinterpret_cast<const std::byte*>(operand(b_operand_, p.b, p.batch_index(batch)));
    pack_panel(panel_of_b(batch, panel), from + panel * p.width * p.b.column_stride, p.k, p.columns_of(panel), p.width,
               p.b.row_stride, p.b.column_stride, p.element);
  }

  /// Rows of a block's A side by side, in whole vectors.
  std::int64_t packed_rows() const { return (sum_rows() + lanes_ - 1) / lanes_ * lanes_; }
  std::int64_t sum_rows() const { return plan_.tiles.tiles_per_block * (plan_.tiles.tile_rows + 1); }
  void reserve(TileScratch& scratch) const {
    scratch.panel.reserve(as_index(packed_rows() * plan_.tiles.k * plan_.tiles.element) + panel_slack);
    scratch.tile.reserve(as_index(sum_rows() * plan_.row_bytes));
    scratch.loop.reserve(epilogue_.code->scratch_bytes(plan_.chunks.width));
  }

  void run_task(TileScratch& scratch, MicroArgs& args, std::int64_t batch, std::int64_t chunk,
                std::int64_t block) const {
    const ContractionPlan& p = plan_.tiles;
    const BatchIndex index = p.batch_index(batch);
    const std::int64_t first = block * p.tiles_per_block, last = std::min(first + p.tiles_per_block, p.tiles),
                       row = p.first_row(first), rows = p.first_row(last) - row;
    const auto* a = reinterpret_cast<const std::byte*>(operand(a_operand_, p.a, index)) + row * p.a.row_stride;
    pack_panel(scratch.panel.data(), a, p.k, rows, packed_rows(), p.a.column_stride, p.a.row_stride, p.element);
    args.a_k_stride = packed_rows() * p.element;
    Ahead ahead(*this, index, chunk, row, rows);
    for (std::int64_t i = 0; i < plan_.panels_of(chunk); ++i) {
      const std::int64_t panel = chunk * plan_.panels + i;
      args.a = reinterpret_cast<const char*>(scratch.panel.data());
      args.b = reinterpret_cast<const char*>(panel_of_b(batch, panel));
      args.c = reinterpret_cast<char*>(scratch.tile.data()) + i * p.width * p.element;
      args.k = p.k;
      for (std::int64_t tile = first; tile < last; ++tile) {
        args.tiles = 1;
        ahead.take(args);
        functions_[tile < p.taller_tiles][panel == p.panels - 1](&args);
      }
    }
    epilogue_.run(scratch.args, plan_.chunks, operands_, index, chunk, row, rows, function_);
  }

  /// Has tiles ask for the rows that the epilogue will read, a share with each tile.
  class Ahead {
   public:
    Ahead(const RowLaunch& owner, const BatchIndex& index, std::int64_t chunk, std::int64_t row, std::int64_t rows)
        : owner_(owner), index_(index), chunk_(chunk), row_(row), rows_(rows) {
      const ContractionPlan& p = owner.plan_.tiles;
      line_bytes_ = p.width * p.element;
      share_ = p.k / steps_per_row_ahead * line_bytes_;
      row_bytes_ = owner.plan_.chunks.columns_of(chunk) * p.element;
    }
    void take(MicroArgs& args) {
      if (share_ == 0 || owner_.streams_.empty() || at_ >= rows_ * row_bytes_) {
        args.next = args.b;
        args.next_row_stride = 0;
        return;
      }
      args.next = address(owner_.streams_[stream_]);
      args.next_row_stride = line_bytes_;
      if (++stream_ < owner_.streams_.size()) return;
      stream_ = 0;
      at_ += share_;
    }

   private:
    const char* address(std::size_t stream) const {
      const BoundEpilogue::Base& base = owner_.epilogue_.bases[stream];
      const LoopArgs::Pointer& pointer = owner_.epilogue_.args.pointer[stream];
      return static_cast<const char*>(owner_.operands_[base.operand]) + base.offset +
             owner_.plan_.tiles.batch_offset(base.batch_stride, index_) +
             (row_ + at_ / row_bytes_) * pointer.outer_stride +
             chunk_ * owner_.plan_.chunks.width * pointer.column_stride + at_ % row_bytes_;
    }
    const RowLaunch& owner_;
    const BatchIndex& index_;
    const std::int64_t chunk_, row_, rows_;
    std::int64_t line_bytes_ = 0, share_ = 0, row_bytes_ = 0, at_ = 0;  // at_: behind the first row, rows adjacent
    std::size_t stream_ = 0;
  };

  double task_cost() const {
    return plan_.tiles.nanoseconds_per_task + epilogue_.code->nanoseconds_per_element() *
                                                  static_cast<double>(plan_.tiles.m * plan_.tiles.n) /
                                                  static_cast<double>(plan_.tiles.blocks * plan_.chunks.panels);
  }

  const RowPlan plan_;
  std::uint16_t a_operand_ = 0, b_operand_ = 0;
  std::int64_t lanes_ = 1;
  MicroFunction functions_[2][2] = {};  // [one row more][last panel]
  std::vector<std::size_t> streams_;    // accesses of the epilogue
  std::vector<std::size_t> new_results_;
  LoopFunction streaming_ = nullptr;  // the epilogue's code that stores these past the caches
  LoopFunction function_ = nullptr;   // which one the run that goes on takes
  BoundEpilogue epilogue_;
  AlignedBytes packed_;
  void* const* operands_ = nullptr;  // of the run that goes on, and its packed B
  std::byte* b_ = nullptr;
  std::atomic<bool> has_bad_index_{false};
  std::atomic<std::int64_t> bad_index_{0}, bad_extent_{0};
};

SINTER_DECL std::unique_ptr<Launch> make_row_launch(const Kernel& kernel, const ContractionParts& parts,
                                                    const RowPlan& plan, const BoundGeometry& geometry, Isa isa,
                                                    EpilogueCode& code) {
  return std::make_unique<RowLaunch>(kernel, parts, plan, geometry, isa, code);
}

}  // namespace x86_contraction_detail
}  // namespace x86
SINTER_NAMESPACE_END
