// The driver. A task is one column panel of one block of rows of one batch; panels run fastest, so that successive
// tasks share their rows of A, which stay in L2. A task's sums lie in scratch of its thread, where the epilogue takes
// them from L1. Few rows are multiplied by B as it lies, without panels.
//
// The order of an element's sum: blocks of narrow_sum_block along k, inside them one chain over what the unit adds at
// once, and the blocks' sums added in order.
#pragma once

#include <sinter/backend/x86/contraction/narrow.hpp>

#include <sinter/backend/x86/contraction/contraction.ipp>
#include <sinter/backend/x86/contraction/narrow_plan.ipp>
#include <sinter/backend/x86/contraction/narrow_rows.hpp>
#include <sinter/backend/x86/contraction/narrow_tile.hpp>
#include <sinter/backend/x86/contraction/plan.ipp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_narrow_detail {

using x86_contraction_detail::AlignedBytes;
using x86_contraction_detail::bind_epilogue;
using x86_contraction_detail::BoundEpilogue;
using x86_contraction_detail::EpilogueCode;

/// Per thread: sums, those of the blocks before, packed parts, and what the epilogue's code needs. However long k is,
/// it holds one block of it.
struct NarrowScratch {
  AlignedBytes sums, totals, panel, pairs, tails, tiles, wide, loop;
  std::int64_t first_packed = 0, end_packed = 0;  // panels of B
  LoopArgs args;
  LoopArgs::Status status;
};
inline NarrowScratch& narrow_scratch() {
  return thread_object([] { return new NarrowScratch; });
}

class NarrowLaunch final : public Launch {
 public:
  NarrowLaunch(const Kernel& kernel, const ContractionParts& parts, const NarrowPlan& plan,
               const BoundGeometry& geometry, ProductUnit unit, std::shared_ptr<const LoopCode> code)
      : plan_(plan), unit_(unit) {
    if (plan_.shape.batches == 0) return;
    a_operand_ = kernel.accesses[parts.a].operand;
    b_operand_ = kernel.accesses[parts.b].operand;
    ensure(code != nullptr, "contraction: no epilogue");
    epilogue_ = bind_epilogue(kernel, parts, plan_.shape, geometry, std::move(code));
    bind_rounded_store(kernel, geometry);
    if (plan_.packs_a)
      packed_a_.reserve(as_index((plan_.a_is_shared ? 1 : plan_.batches_per_pass) * plan_.batch_bytes_of_a()));
    if (!plan_.packs_b_per_task)
      packed_b_.reserve(as_index((plan_.shape.b_is_shared ? 1 : plan_.batches_per_pass) * plan_.batch_bytes_of_b()));
  }

  void run(void* const* operands) override {
    const ContractionPlan& s = plan_.shape;
    Pass pass{operands, 0, 0};
    const bool packs_a = plan_.packs_a && s.k != 0, packs_b = !plan_.packs_b_per_task && s.k != 0;
    for (; pass.first_batch < s.batches; pass.first_batch += plan_.batches_per_pass) {
      pass.batches = std::min(plan_.batches_per_pass, s.batches - pass.first_batch);
      if (packs_a && (pass.first_batch == 0 || !plan_.a_is_shared)) pack_a(pass);
      if (packs_b && (pass.first_batch == 0 || !s.b_is_shared)) pack_b(pass);
      const double cost = plan_.nanoseconds_per_task +
                          epilogue_.code->nanoseconds_per_element() * static_cast<double>(plan_.block_rows * s.width);
      parallel_for(pass.batches * plan_.blocks * s.panels, cost,
                   [&](std::int64_t begin, std::int64_t end) { run_range(pass, begin, end); });
    }
    if (has_bad_index_.exchange(false, std::memory_order_relaxed))
      throw GatherError(bad_index_.load(std::memory_order_relaxed), bad_extent_.load(std::memory_order_relaxed));
  }
  void prepare() override {
    if (plan_.shape.batches == 0) return;
    reserve(narrow_scratch());
    if (unit_ == ProductUnit::amx) touch_tiles();
  }

 private:
  struct Pass {
    void* const* operands;
    std::int64_t first_batch, batches;
  };
  /// Whether rounding is all that follows, into adjacent columns.
  void bind_rounded_store(const Kernel& kernel, const BoundGeometry& geometry) {
    const Store& store = kernel.stores[0];
    if (kernel.stores.size() != 1 || kernel.body[store.value].prim != Prim::contract ||
        dtype_in_memory(kernel, store.access) != DType::bf16)
      return;
    c_operand_ = kernel.accesses[store.access].operand;
    plan_.shape.c = view_of(kernel, geometry, store.access, plan_.shape.batch_axes, plan_.shape.batch_axes + 1);
    only_rounds_ = plan_.shape.c.column_stride == element_bytes || plan_.shape.n == 1;
  }
  struct Task {
    const Pass& pass;
    const BatchIndex& index;
    std::int64_t batch, block, panel, end_panel;  // the batch counts from the pass's first
    NarrowScratch& scratch;
    bool has_tiles = false;  // rows of A lie as tiles in scratch
  };

  const std::byte* matrix(const Pass& pass, std::uint16_t operand, const MatrixView& view,
                          const BatchIndex& index) const {
    return static_cast<const std::byte*>(pass.operands[operand]) + view.offset +
           plan_.shape.batch_offset(view.batch_stride, index);
  }
  std::int64_t rows_of_block(std::int64_t block) const {
    return std::min(plan_.block_rows, plan_.shape.m - block * plan_.block_rows);
  }

  void pack_a(const Pass& pass) {
    const ContractionPlan& s = plan_.shape;
    const std::int64_t batches = plan_.a_is_shared ? 1 : pass.batches;
    const double cost = 0.3 * static_cast<double>(plan_.block_rows * s.k);
    parallel_for(batches * plan_.blocks, cost, [&](std::int64_t begin, std::int64_t end) {
      NarrowScratch& scratch = narrow_scratch();
      reserve(scratch);
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t batch = task / plan_.blocks, block = task % plan_.blocks, row = block * plan_.block_rows;
        const std::byte* const a = matrix(pass, a_operand_, s.a, plan_.shape.batch_index(pass.first_batch + batch));
        pack_rows(packed_a_.data() + batch * plan_.batch_bytes_of_a() + row * plan_.a_stride, plan_.a_stride,
                  {a + row * s.a.row_stride, rows_of_block(block), s.k, s.a.row_stride, s.a.column_stride},
                  scratch.pairs.data());
      }
    });
  }
  void pack_b(const Pass& pass) {
    const ContractionPlan& s = plan_.shape;
    const std::int64_t batches = s.b_is_shared ? 1 : pass.batches;
    const double cost = 0.15 * static_cast<double>(panels_at_once * s.width * s.k);
    const std::int64_t groups = (s.panels + panels_at_once - 1) / panels_at_once;
    parallel_for(batches * groups, cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t batch = task / groups, panel = task % groups * panels_at_once;
        pack_panels_of_b(pass, plan_.shape.batch_index(pass.first_batch + batch), {panel, panels_at_once}, {0, s.k},
                         packed_b_.data() + (batch * s.panels + panel) * plan_.panel_bytes());
      }
    });
  }
  struct Part {
    std::int64_t first, count;
  };
  /// Rows of B, of some panels or what there is of them. Several panels have all rows.
  void pack_panels_of_b(const Pass& pass, const BatchIndex& index, Part panels, Part rows, std::byte* to) const {
    const ContractionPlan& s = plan_.shape;
    const std::int64_t column = panels.first * s.width, columns = std::min(panels.count * s.width, s.n - column);
    pack_pairs(to, {matrix(pass, b_operand_, s.b, index) + rows.first * s.b.row_stride + column * s.b.column_stride,
                    rows.count, columns, s.b.row_stride, s.b.column_stride});
  }

  void run_range(const Pass& pass, std::int64_t begin, std::int64_t end) {
    NarrowScratch& scratch = narrow_scratch();
    reserve(scratch);
    epilogue_.begin(scratch, scratch.sums.data(), narrow_width);
    if (plan_.is_direct) run_direct_range(pass, begin, end, scratch);
    else run_panels(pass, begin, end, scratch);
    if (scratch.status.access != 0) {
      bad_index_.store(scratch.status.index, std::memory_order_relaxed);
      bad_extent_.store(scratch.args.pointer[scratch.status.access - 1].gather_extent, std::memory_order_relaxed);
      has_bad_index_.store(true, std::memory_order_relaxed);
    }
  }
  void run_panels(const Pass& pass, std::int64_t begin, std::int64_t end, NarrowScratch& scratch) const {
    const std::int64_t panels = plan_.shape.panels;
    std::int64_t last = -1;
    bool has_tiles = false;
    BatchIndex index{};
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t rows = task / panels, batch = rows / plan_.blocks;
      const std::int64_t panel = task % panels, end_panel = std::min(panels, panel + end - task);
      Task one{pass, index, batch, rows % plan_.blocks, panel, end_panel, scratch, has_tiles};
      if (rows != last) {
        index = plan_.shape.batch_index(pass.first_batch + batch);
        has_tiles = one.has_tiles = end_panel - panel >= least_panels_of_tiles && lies_as_tiles();
        prepare_rows(one);
        last = rows;
      }
      run_task(one);
    }
  }

  // ---- few rows

  void run_direct_range(const Pass& pass, std::int64_t begin, std::int64_t end, NarrowScratch& scratch) const {
    const std::int64_t panels = plan_.shape.panels;
    for (std::int64_t task = begin, count = 0; task < end; task += count) {
      const std::int64_t batch = task / panels, panel = task % panels;
      count = std::min({end - task, panels - panel, direct_panels});
      const BatchIndex index = plan_.shape.batch_index(pass.first_batch + batch);
      run_direct({pass, index, batch, 0, panel, panel + count, scratch});
    }
  }
  /// Panels from the task's first to its end.
  void run_direct(const Task& task) const {
    const ContractionPlan& s = plan_.shape;
    const std::int64_t wide_k = plan_.steps * narrow_step, column = task.panel * narrow_width;
    auto* const a = reinterpret_cast<float*>(task.scratch.wide.data());
    widen_rows(a, wide_k, matrix(task.pass, a_operand_, s.a, task.index));
    float *const sums = a + s.m * wide_k, *const totals = sums + s.m * direct_panels * narrow_width;
    const std::int64_t stride = (task.end_panel - task.panel) * narrow_width;
    x86_narrow_rows_detail::DirectBlock block{
        .a = a,
        .a_stride = wide_k,
        .b = matrix(task.pass, b_operand_, s.b, task.index) + column * s.b.column_stride,
        .b_stride = plan_.is_direct_by_columns ? s.b.column_stride : s.b.row_stride,
        .depth = 0,
        .columns = std::min(s.n - column, stride),
        .sums = sums,
        .sums_stride = stride};
    for (std::int64_t at = 0; at < s.k; at += block.depth) {
      block.depth = std::min(narrow_sum_block, s.k - at);
      std::fill_n(sums, s.m * stride, 0.F);
      x86_narrow_rows_detail::add_direct(block, s.m, plan_.is_direct_by_columns);
      for (std::int64_t i = 0; i < s.m * stride && s.k > narrow_sum_block; ++i)
        totals[i] = at == 0 ? sums[i] : totals[i] + sums[i];
      block.a += block.depth;
      block.b += block.depth * s.b.row_stride;
    }
    store_direct(task, s.k > narrow_sum_block ? totals : sums, stride);
  }
  void widen_rows(float* to, std::int64_t to_stride, const std::byte* a) const {
    const ContractionPlan& s = plan_.shape;
    for (std::int64_t row = 0; row < s.m; ++row, to += to_stride) {
      for (std::int64_t k = 0; k < s.k; ++k) {
        bfloat16 x;
        std::memcpy(&x, a + row * s.a.row_stride + k * s.a.column_stride, sizeof x);
        to[k] = static_cast<float>(x);
      }
      std::fill(to + s.k, to + to_stride, 0.F);
    }
  }
  void store_direct(const Task& all, const float* sums, std::int64_t stride) const {
    auto* const to = reinterpret_cast<float*>(all.scratch.sums.data());
    for (std::int64_t panel = all.panel; panel < all.end_panel; ++panel, sums += narrow_width) {
      for (std::int64_t row = 0; row < plan_.shape.m; ++row) {
        const float* const from = sums + row * stride;
        if (plan_.is_direct_by_columns) std::copy_n(from, narrow_width, to + row * narrow_width);
        else x86_narrow_rows_detail::join_line(to + row * narrow_width, from);
      }
      store({all.pass, all.index, all.batch, 0, panel, panel + 1, all.scratch}, 0, plan_.shape.m);
    }
  }

  // ---- panels

  /// First row of the block, as products read it.
  const std::byte* rows_of_a(const Task& task) const {
    const std::int64_t row = task.block * plan_.block_rows;
    if (plan_.packs_a)
      return packed_a_.data() + (plan_.a_is_shared ? 0 : task.batch) * plan_.batch_bytes_of_a() + row * plan_.a_stride;
    return matrix(task.pass, a_operand_, plan_.shape.a, task.index) + row * plan_.a_stride;
  }
  struct PanelPart {
    const std::byte* at;
    std::int64_t strip_bytes;
  };
  /// `count` rows of the task's panel, from `first` on, as products read them.
  PanelPart panel_of_b(const Task& task, std::int64_t first, std::int64_t count) const {
    if (plan_.packs_b_per_task) {
      NarrowScratch& scratch = task.scratch;
      const bool is_packed = task.panel >= scratch.first_packed && task.panel < scratch.end_packed;
      if (!is_packed || count < plan_.shape.k) {
        const std::int64_t panels = std::min(plan_.panels_per_pack(), task.end_panel - task.panel);
        pack_panels_of_b(task.pass, task.index, {task.panel, panels}, {first, count}, scratch.panel.data());
        scratch.first_packed = task.panel;
        scratch.end_packed = task.panel + panels;
      }
      const std::int64_t strip_bytes = (count + narrow_step - 1) / narrow_step * narrow_step_bytes;
      return {scratch.panel.data() + (task.panel - scratch.first_packed) * plan_.panel_bytes(), strip_bytes};
    }
    const std::int64_t number = (plan_.shape.b_is_shared ? 0 : task.batch) * plan_.shape.panels + task.panel;
    return {packed_b_.data() + number * plan_.panel_bytes() + first / narrow_step * narrow_step_bytes,
            plan_.strip_bytes()};
  }

  /// Whether tiles of A may be made: by one walk over its rows.
  bool lies_as_tiles() const {
    return unit_ == ProductUnit::amx && !plan_.packs_a && plan_.shape.k != 0 && plan_.shape.k <= narrow_sum_block;
  }
  /// What tasks of the same rows of A have in common.
  void prepare_rows(const Task& task) const {
    task.scratch.end_packed = 0;
    if (plan_.shape.k == 0) return;
    const std::int64_t rows = rows_of_block(task.block), whole = plan_.whole_k(), k = plan_.shape.k;
    const std::byte* const a = rows_of_a(task);
    if (task.has_tiles) {
      pack_tiles(task.scratch.tiles.data(), {a, rows, k, plan_.a_stride, element_bytes});
    } else if (plan_.has_tail()) {
      pack_tails(task.scratch.tails.data(),
                 {a + whole * element_bytes, rows, k - whole, plan_.a_stride, element_bytes});
    }
  }
  void run_task(const Task& task) const {
    const std::int64_t rows = rows_of_block(task.block);
    const std::byte* const a = plan_.shape.k != 0 ? rows_of_a(task) : nullptr;
    for (std::int64_t row = 0; row < rows; row += rows_at_once) {
      const std::int64_t count = std::min(rows_at_once, rows - row);
      if (plan_.shape.k != 0) multiply(task, a, row, count);
      else std::memset(task.scratch.sums.data(), 0, as_index(count * narrow_width) * sizeof(float));
      store(task, row, count);
    }
  }
  /// Rows of the task, from `row` on, into scratch.
  void multiply(const Task& task, const std::byte* a, std::int64_t row, std::int64_t rows) const {
    auto* const sums = reinterpret_cast<float*>(task.scratch.sums.data());
    auto* const totals = reinterpret_cast<float*>(task.scratch.totals.data());
    const std::int64_t whole = plan_.whole_k(), k = plan_.shape.k;
    for (std::int64_t at = 0, end = 0; at < k; at = end) {
      end = std::min(at + narrow_sum_block, k);
      const bool is_last = end == k;
      const PanelPart b = panel_of_b(task, at, end - at);
      NarrowBlock block{.a = a + row * plan_.a_stride + at * element_bytes,
                        .a_stride = plan_.a_stride,
                        .a_tail = nullptr,
                        .b = b.at,
                        .b_strip = b.strip_bytes,
                        .sums = sums,
                        .rows = rows,
                        .columns = plan_.shape.columns_of(task.panel),
                        .steps = ((is_last ? whole : end) - at) / narrow_step};
      if (task.has_tiles) read_tiles(block, task, row);
      else if (is_last && plan_.has_tail())
        block.a_tail = task.scratch.tails.data() + row * narrow_step * element_bytes;
      if (only_rounds_ && is_last) {
        block.c = rounded_rows(task, row);
        block.c_stride = plan_.shape.c.row_stride;
      }
      multiply_narrow(block, unit_);
      if (k > narrow_sum_block)
        add_block(sums, totals, rows, block.columns,
                  at == 0   ? SumBlock::first
                  : is_last ? SumBlock::last
                            : SumBlock::inner);
    }
  }
  /// A has one block along k, whose tiles hold its last columns, too.
  void read_tiles(NarrowBlock& block, const Task& task, std::int64_t row) const {
    constexpr std::int64_t tile_row_bytes = narrow_step * element_bytes;
    block.a_stride = tile_row_bytes;
    block.a_step = 16 * tile_row_bytes;
    block.a_tile = plan_.steps * block.a_step;
    block.a = task.scratch.tiles.data() + row / 16 * block.a_tile;
    block.steps = plan_.steps;
  }
  std::byte* rounded_rows(const Task& task, std::int64_t row) const {
    const MatrixView& c = plan_.shape.c;
    return static_cast<std::byte*>(task.pass.operands[c_operand_]) + c.offset +
           plan_.shape.batch_offset(c.batch_stride, task.index) + (task.block * plan_.block_rows + row) * c.row_stride +
           task.panel * narrow_width * element_bytes;
  }
  void store(const Task& task, std::int64_t row, std::int64_t rows) const {
    if (!only_rounds_)
      return epilogue_.run(task.scratch.args, plan_.shape, task.pass.operands, task.index, task.panel,
                           task.block * plan_.block_rows + row, rows);
    store_rounded(rounded_rows(task, row), plan_.shape.c.row_stride,
                  reinterpret_cast<const float*>(task.scratch.sums.data()), rows, plan_.shape.columns_of(task.panel));
  }
  /// One of several blocks of k.
  enum class SumBlock : std::uint8_t { first, inner, last };
  /// `which` is finished. After the last one `sums` has the whole. The other columns of `sums` hold anything.
  static void add_block(float* sums, float* totals, std::int64_t rows, std::int64_t columns, SumBlock which) {
    float* const to = which == SumBlock::last ? sums : totals;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = row * narrow_width;
      if (which == SumBlock::first) std::copy_n(sums + at, columns, totals + at);
      else
        for (std::int64_t i = at; i < at + columns; ++i) to[i] = totals[i] + sums[i];
    }
  }

  void reserve(NarrowScratch& scratch) const {
    const auto sum_bytes = as_index(std::min(plan_.block_rows, rows_at_once) * narrow_width) * sizeof(float);
    scratch.sums.reserve(sum_bytes);
    if (plan_.shape.k > narrow_sum_block) scratch.totals.reserve(sum_bytes);
    constexpr std::int64_t most_panel_bytes = narrow_sum_block * narrow_width * element_bytes;
    if (plan_.is_direct)
      scratch.wide.reserve(as_index(plan_.shape.m * (plan_.steps * narrow_step + 2 * direct_panels * narrow_width)) *
                           sizeof(float));
    else if (plan_.packs_b_per_task)
      scratch.panel.reserve(as_index(std::min(plan_.panels_per_pack() * plan_.panel_bytes(), most_panel_bytes)));
    if (lies_as_tiles() && !plan_.is_direct && plan_.shape.panels >= least_panels_of_tiles)
      scratch.tiles.reserve(as_index(plan_.tile_bytes_of_a()));
    if (plan_.packs_a) scratch.pairs.reserve(as_index(pack_rows_bytes));
    if (plan_.has_tail()) scratch.tails.reserve(as_index(plan_.block_rows * narrow_step * element_bytes));
    scratch.loop.reserve(epilogue_.code->scratch_bytes(narrow_width));
  }
  NarrowPlan plan_;
  const ProductUnit unit_;
  std::uint16_t a_operand_ = 0, b_operand_ = 0, c_operand_ = 0;
  bool only_rounds_ = false;
  BoundEpilogue epilogue_;
  AlignedBytes packed_a_, packed_b_;
  std::atomic<bool> has_bad_index_{false};
  std::atomic<std::int64_t> bad_index_{0}, bad_extent_{0};
};

class NarrowExecutable final : public Executable {
 public:
  NarrowExecutable(const Kernel& kernel, ProductUnit wanted, ContractionParts parts,
                   std::unique_ptr<EpilogueCode> epilogue)
      : kernel_(kernel),
        lacks_tiles_(wanted == ProductUnit::amx && !request_tiles()),
        unit_(lacks_tiles_ ? ProductUnit::avx512_bf16 : wanted),
        parts_(std::move(parts)),
        epilogue_(std::move(epilogue)) {}

  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
    const NarrowPlan plan = plan_narrow(kernel_, parts_, geometry, unit_, thread_count());
    const IndexWidth width = x86_contraction_detail::index_width(kernel_, geometry);
    return std::make_unique<NarrowLaunch>(kernel_, parts_, plan, geometry, unit_, epilogue_->loop(width));
  }
  std::size_t code_bytes() const override { return epilogue_->code_bytes(); }
  std::string listing() const override {
    return std::string("; product of bf16 by ") +
           (unit_ == ProductUnit::amx ? "tiles of AMX (tdpbf16ps)" : "AVX512-BF16 (vdpbf16ps)") +
           (lacks_tiles_ ? ", since the system refuses tiles to this process" : "") +
           ", added up in f32\n; epilogue\n" + epilogue_->loop(IndexWidth::narrow_if_possible)->listing();
  }

 private:
  const Kernel kernel_;
  const bool lacks_tiles_;
  const ProductUnit unit_;
  const ContractionParts parts_;
  const std::unique_ptr<EpilogueCode> epilogue_;
};

}  // namespace x86_narrow_detail

SINTER_DECL bool is_narrow_product(const Kernel& kernel) {
  if (kernel.kind != KernelKind::contraction) return false;
  const auto is_of_bf16 = [&](InstId id) {
    const Inst& inst = kernel.body[id];
    return inst.prim == Prim::load && dtype_in_memory(kernel, inst.access) == DType::bf16;
  };
  return std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Inst& inst) {
    return inst.prim == Prim::contract && is_of_bf16(inst.args[0]) && is_of_bf16(inst.args[1]);
  });
}

SINTER_DECL std::shared_ptr<const Executable> make_narrow_executable(const Kernel& kernel, const Schedule& schedule,
                                                                     ProductUnit unit, std::string* why_declined) {
  using namespace x86_narrow_detail;
  const auto decline = [&](std::string_view reason) {
    x86_contraction_detail::decline(why_declined, reason);
    return nullptr;
  };
  if (unit == ProductUnit::fma) return decline("no unit that multiplies bf16");
  if (!schedule.steps().empty())
    return decline("step " + schedule.steps()[0].text() + ": nothing of a product of bf16");
  std::optional<ContractionParts> parts =
      split_contraction(kernel, {}, Isa::avx512, why_declined, ProductOperands::bf16);
  if (!parts) return nullptr;
  auto epilogue = std::make_unique<EpilogueCode>(*parts, Isa::avx512);
  if (epilogue->loop(IndexWidth::narrow_if_possible, why_declined) == nullptr) return nullptr;
  return std::make_shared<NarrowExecutable>(kernel, unit, std::move(*parts), std::move(epilogue));
}

}  // namespace x86
SINTER_NAMESPACE_END
