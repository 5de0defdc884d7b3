// The driver. A task is one column panel of one block of rows of one batch; panels run fastest, so that successive
// tasks share their part of A. Nothing is allocated while it runs: packed B belongs to the Launch, tile scratch to the
// thread; where tasks are whole rows (rows.ipp), packed B to the thread that calls.
#pragma once

#include <sinter/backend/x86/contraction/contraction.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/bound_epilogue.ipp>
#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/backend/x86/contraction/rows.hpp>
#include <sinter/backend/x86/contraction/tile_scratch.hpp>
#include <sinter/backend/x86/contraction/turned.hpp>
#include <sinter/backend/x86/contraction/vector.hpp>
#include <sinter/backend/x86/nest/prepare.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/loop_nest/builder.hpp>
#include <sinter/kernel/loop_nest/text.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

class ContractionLaunch final : public Launch {
 public:
  /// `source` (null: B is an operand in memory) makes panels of B out of what begins at b_operand's address.
  ContractionLaunch(const Kernel& kernel, const ContractionParts& parts, const ContractionPlan& plan,
                    const BoundGeometry& geometry, Isa isa, EpilogueCode* code, const PanelSource* source = nullptr,
                    bool keeps_packed = false)
      : plan_(plan), source_(source), keeps_packed_(keeps_packed) {
    if (plan_.tiles == 0) return;
    a_operand_ = kernel.accesses[parts.a].operand;
    b_operand_ = kernel.accesses[parts.b].operand;
    if (plan_.is_swapped) std::swap(a_operand_, b_operand_);
    if (plan_.is_direct) c_operand_ = kernel.accesses[parts.store].operand;
    else if (!bind_body(kernel, parts, geometry, isa, code->registers().get()))
      bind_loop(kernel, parts, geometry, code->loop(index_width(kernel, geometry)));
    packed_.reserve(as_index(plan_.pack_bytes));
    if (plan_.is_direct && keeps_groups()) groups_.reserve(2 * group_bytes());
    if (plan_.method == ProductMethod::tiles && !is_in_registers_) find_functions(isa, nullptr);
  }

  void run(void* const* operands) override {
    if (plan_.tiles == 0) return;
    Pass pass{operands, 0, 0, 0, plan_.k};
    for (; pass.first_batch < plan_.batches; pass.first_batch += plan_.batches_per_pack) {
      pass.batches = std::min(plan_.batches_per_pack, plan_.batches - pass.first_batch);
      if (plan_.packs_b && !plan_.packs_per_task) pack_if_needed(pass);
      // Into the output, runs of k go outermost, so that successive panels find their part of A in L2. With an epilogue
      // they stay inside a task: unfinished sums have no other place than its scratch.
      pass.k = 0;
      do {
        pass.k_end = plan_.is_direct && !plan_.keeps_runs_in_task ? plan_.end_of_run(pass.k) : plan_.k;
        const double share = plan_.k == 0 ? 1 : static_cast<double>(pass.k_end - pass.k) / static_cast<double>(plan_.k);
        parallel_for(pass.batches * plan_.blocks * plan_.panels, task_cost() * share,
                     [&](std::int64_t begin, std::int64_t end) { run_tasks(pass, begin, end); });
        pass.k = pass.k_end;
      } while (pass.k < plan_.k);
    }
    throw_bad_index();
  }
  void prepare() override {
    if (plan_.tiles == 0) return;
    reserve(tile_scratch());
    if (source_ != nullptr) source_->prepare();
  }
  LaunchWork work() override {
    const std::int64_t tasks = plan_.batches * plan_.blocks * plan_.panels;
    if (plan_.tiles == 0 || source_ != nullptr || tasks == 0) return {};
    const bool is_one_pass = plan_.batches_per_pack >= plan_.batches &&
                             (!plan_.is_direct || plan_.keeps_runs_in_task || plan_.end_of_run(0) >= plan_.k);
    const double nanoseconds = task_cost() * static_cast<double>(tasks);
    if (is_one_pass) return {tasks, nanoseconds};
    return {};
  }
  void begin_tasks(void* const* operands) override {
    group_pass_ = {operands, 0, plan_.batches, 0, plan_.k};
    if (plan_.packs_b && !plan_.packs_per_task) pack_if_needed(group_pass_);
  }
  void run_tasks(std::int64_t begin, std::int64_t end) override { run_tasks(group_pass_, begin, end); }
  void end_tasks() override { throw_bad_index(); }

 private:
  /// The batches whose B is packed together, and the run of k.
  struct Pass {
    void* const* operands;
    std::int64_t first_batch, batches, k, k_end;
  };

  void throw_bad_index() {
    if (has_bad_index_.exchange(false, std::memory_order_relaxed))
      throw GatherError(bad_index_.load(std::memory_order_relaxed), bad_extent_.load(std::memory_order_relaxed));
  }

  /// Whether the epilogue can run in registers, where no run of k leaves sums unfinished; if so, binds it.
  bool bind_body(const Kernel& kernel, const ContractionParts& parts, const BoundGeometry& geometry, Isa isa,
                 BodyMicroKernels* body) {
    if (body == nullptr || plan_.method != ProductMethod::tiles || plan_.k_run < plan_.k || !find_functions(isa, body))
      return false;
    for (const TileBody::Slot& slot : body->body().slots) {
      const Access& access = parts.epilogue.accesses[slot.access];
      slots_.push_back({access.operand, view_of(kernel, geometry, parts.access_of[slot.access], plan_.batch_axes,
                                                plan_.batch_axes + 1)});
    }
    is_in_registers_ = true;
    return true;
  }
  void bind_loop(const Kernel& kernel, const ContractionParts& parts, const BoundGeometry& geometry,
                 std::shared_ptr<const LoopCode> code) {
    ensure(code != nullptr, "contraction: an epilogue that runs in registers but not as a loop");
    epilogue_ = bind_epilogue(kernel, parts, plan_, geometry, std::move(code));
  }
  /// False where the body needs more registers than the tile leaves.
  bool find_functions(Isa isa, BodyMicroKernels* body) {
    std::array<MicroShape, 8> shapes;
    std::array<MicroFunction, 8> found{};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const bool goes_on = i / 4 == 1 && plan_.k_run < plan_.k;
      const MicroSum sum = goes_on                       ? MicroSum::more_blocks
                           : plan_.k > product_sum_block ? MicroSum::blocks
                                                         : MicroSum::one_block;
      shapes[i] = shape_of(isa, sum, i / 2 % 2 == 1, i % 2 == 1);
    }
    if (body == nullptr) find_micro_kernels(shapes, found);
    else if (!body->find(shapes, found)) return false;
    for (std::size_t i = 0; i < found.size(); ++i) functions_[i / 4][i / 2 % 2][i % 2] = found[i];
    tail_lanes_ = static_cast<int>(plan_.tail_columns % lanes(isa, plan_.dtype));
    return true;
  }
  /// What does not occur has the shape of what does, so that nothing unused is emitted.
  MicroShape shape_of(Isa isa, MicroSum sum, bool is_taller, bool is_tail) const {
    const int lane_count = lanes(isa, plan_.dtype);
    const bool has_row_more = is_taller && plan_.taller_tiles != 0;
    const std::int64_t columns = is_tail || plan_.panels == 1 ? plan_.tail_columns : plan_.width;
    return {.dtype = plan_.dtype,
            .isa = isa,
            .rows = static_cast<std::uint8_t>(plan_.tile_rows + has_row_more),
            .vectors = static_cast<std::uint8_t>((columns + lane_count - 1) / lane_count),
            .is_masked = columns % lane_count != 0,
            .walk = plan_.walk,
            .sum = sum,
            .prefetches_a = plan_.prefetches_a,
            .prefetches_b = plan_.prefetches_b,
            .prefetches_next = plan_.prepares_next};
  }

  double task_cost() const {
    double cost = plan_.nanoseconds_per_task + (plan_.packs_per_task ? pack_cost() : 0);
    if (has_scratch_epilogue())
      cost += epilogue_.code->nanoseconds_per_element() * static_cast<double>(plan_.m * plan_.n) /
              static_cast<double>(plan_.blocks * plan_.panels);
    return cost;
  }

  bool has_scratch_epilogue() const { return !plan_.is_direct && !is_in_registers_; }

  /// A constant stays packed.
  void pack_if_needed(const Pass& pass) {
    if (is_packed_) return;
    pack_all(pass);
    is_packed_ = keeps_packed_;
  }
  void pack_all(const Pass& pass) {
    constexpr std::int64_t made_at_once = 1024;  // of k
    const std::int64_t batches = plan_.b_is_shared ? 1 : pass.batches,
                       step = source_ != nullptr ? std::min(made_at_once, plan_.k) : plan_.k,
                       steps = step == 0 ? 1 : (plan_.k + step - 1) / step;
    const double cost = pack_cost() / static_cast<double>(steps);
    parallel_for(batches * plan_.panels * steps, cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t panel = task / steps, k = task % steps * step;
        const BatchIndex index = plan_.batch_index(pass.first_batch + panel / plan_.panels);
        pack_one(pass, index, panel % plan_.panels,
                 packed_.data() + panel * plan_.panel_bytes() + k * plan_.width * plan_.element, k,
                 std::min(k + step, plan_.k));
      }
    });
  }
  void pack_one(const Pass& pass, const BatchIndex& index, std::int64_t panel, std::byte* to, std::int64_t k,
                std::int64_t k_end) const {
    const auto* b = reinterpret_cast<const std::byte*>(b_of(pass, index));
    if (source_ != nullptr)
      return source_->make_panel({to, b, panel * plan_.width, plan_.columns_of(panel), plan_.width, k, k_end});
    pack_panel(to, b + panel * plan_.width * plan_.b.column_stride + k * plan_.b.row_stride, k_end - k,
               plan_.columns_of(panel), plan_.width, plan_.b.row_stride, plan_.b.column_stride, plan_.element);
  }
  double pack_cost() const { return 0.25 * static_cast<double>(plan_.width * plan_.k); }

  void run_tasks(const Pass& pass, std::int64_t begin, std::int64_t end) {
    TileScratch& scratch = tile_scratch();
    reserve(scratch);
    if (has_scratch_epilogue()) epilogue_.begin(scratch, scratch.tile.data(), plan_.width);
    MicroArgs args;
    args.totals = scratch.totals;
    for (std::size_t i = 0; i < slots_.size(); ++i) args.slot[i].row_stride = slots_[i].view.row_stride;
    args.a_row_stride = plan_.a.row_stride;
    args.a_k_stride = plan_.a.column_stride;
    args.b_k_stride = plan_.packs_b ? plan_.width * plan_.element : plan_.b.row_stride;
    args.c_row_stride = plan_.is_direct ? plan_.c.row_stride : plan_.width * plan_.element;
    args.set_mask(plan_.dtype, tail_lanes_);
    std::int64_t batch = -1;
    BatchIndex index{};
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t panel = task % plan_.panels, block = task / plan_.panels % plan_.blocks;
      if (task / (plan_.panels * plan_.blocks) != batch) {
        batch = task / (plan_.panels * plan_.blocks);
        index = plan_.batch_index(pass.first_batch + batch);
        args.a = static_cast<const char*>(pass.operands[a_operand_]) + plan_.a.offset +
                 plan_.batch_offset(plan_.a.batch_stride, index);
      }
      run_block({pass, index, batch, block, panel, scratch, task}, args);
    }
    if (has_scratch_epilogue() && scratch.status.access != 0) {
      bad_index_.store(scratch.status.index, std::memory_order_relaxed);
      bad_extent_.store(scratch.args.pointer[scratch.status.access - 1].gather_extent, std::memory_order_relaxed);
      has_bad_index_.store(true, std::memory_order_relaxed);
    }
  }

  /// One task: where it is, and what its thread has for it.
  struct Task {
    const Pass& pass;
    const BatchIndex& index;
    std::int64_t batch, block, panel;
    TileScratch& scratch;
    std::int64_t number;  // its thread mostly goes on with the next one
  };

  /// The part of B that its thread reads after rows up to `k_end` of the task's panel, or else another; null: none.
  const char* part_after(const Task& task, std::int64_t k_end) const {
    const bool is_in_task = k_end < task.pass.k_end;
    const std::int64_t next = task.number + !is_in_task;
    if (next == task.pass.batches * plan_.blocks * plan_.panels) return nullptr;
    const std::int64_t batch = next / (plan_.panels * plan_.blocks);
    const BatchIndex index = batch == task.batch ? task.index : plan_.batch_index(task.pass.first_batch + batch);
    return b_of(task.pass, index) + next % plan_.panels * plan_.width * plan_.b.column_stride +
           (is_in_task ? k_end : task.pass.k) * plan_.b.row_stride;
  }
  /// Has tiles from `tile` on ask for the part of B that comes next, so that it is in L2 when its turn comes: the first
  /// ones of the task do, a row with every few steps. Returns the tile up to which they do, or do not.
  std::int64_t ask_for_next(const Task& task, MicroArgs& args, std::int64_t tile, std::int64_t end,
                            std::int64_t k_end) const {
    const std::int64_t begin = task.block * plan_.tiles_per_block, asking = begin + steps_per_row_ahead;
    const char* const part = tile < asking ? part_after(task, k_end) : nullptr;
    args.next = part == nullptr ? args.b : part + (tile - begin) * (args.k / steps_per_row_ahead) * plan_.b.row_stride;
    args.next_row_stride = part == nullptr ? 0 : plan_.b.row_stride;
    return tile < asking ? std::min(end, asking) : end;
  }

  /// All tiles of the task, a few at a time when an epilogue follows them. `args.a` is the batch's first row.
  void run_block(const Task& task, MicroArgs& args) const {
    const std::int64_t begin = task.block * plan_.tiles_per_block,
                       end = std::min(begin + plan_.tiles_per_block, plan_.tiles);
    if (is_in_registers_) {
      args.b = panel_of_b(task, 0, plan_.k);
      for (std::size_t i = 0; i < slots_.size(); ++i) {
        const MatrixView& view = slots_[i].view;
        args.slot[i].at = static_cast<char*>(task.pass.operands[slots_[i].operand]) + view.offset +
                          plan_.batch_offset(view.batch_stride, task.index) + plan_.first_row(begin) * view.row_stride +
                          task.panel * plan_.width * view.column_stride;
      }
      return run_tiles(task, args, begin, end, 0, plan_.k, nullptr);
    }
    const std::int64_t step = plan_.is_direct ? plan_.tiles_per_block : plan_.tiles_per_epilogue;
    for (std::int64_t first = begin; first < end; first += step) {
      const std::int64_t last = std::min(first + step, end);
      char* c = plan_.is_direct ? output_panel(task) + plan_.first_row(first) * plan_.c.row_stride
                                : reinterpret_cast<char*>(task.scratch.tile.data());
      std::int64_t k = task.pass.k;
      do {
        const std::int64_t k_end = plan_.end_of_run(k);
        // Some tiles at a time and runs of k never both occur: a panel is packed once.
        if (first == begin || plan_.k_run < plan_.k) args.b = panel_of_b(task, k, k_end);
        if (k < product_sum_group) run_tiles(task, args, first, last, k, k_end, c);
        else run_later_group(task, args, first, last, k, k_end, c);
        k = k_end;
      } while (k < task.pass.k_end);
      if (plan_.is_direct) continue;
      const std::int64_t row = plan_.first_row(first);
      epilogue_.run(task.scratch.args, plan_, task.pass.operands, task.index, task.panel, row,
                    plan_.first_row(last) - row);
    }
  }

  /// Bytes between rows of sums in memory of our own.
  std::size_t row_bytes() const { return as_index(plan_.width * plan_.element); }
  /// Whether sums of groups of k wait apart from those of the groups before. Products with a vector see to that
  /// themselves.
  bool keeps_groups() const { return plan_.method == ProductMethod::tiles && plan_.k > product_sum_group; }

  std::size_t group_bytes() const { return as_index(plan_.batches_per_pack * plan_.panels * plan_.m) * row_bytes(); }

  /// A run of any group but the first: its sums wait apart until the group is whole, and are then added to those at
  /// `c`.
  void run_later_group(const Task& task, MicroArgs args, std::int64_t first, std::int64_t last, std::int64_t k,
                       std::int64_t k_end, char* c) const {
    const std::int64_t row = plan_.first_row(first), rows = plan_.first_row(last) - row, c_stride = args.c_row_stride;
    const auto row_of_all = as_index((task.batch * plan_.panels + task.panel) * plan_.m + row);
    std::byte* sums =
        plan_.is_direct ? groups_.data() + row_of_all * row_bytes() : task.scratch.tile.data() + tile_bytes();
    std::byte* lost = sums + (plan_.is_direct ? group_bytes() : tile_bytes());
    args.c_row_stride = static_cast<std::int64_t>(row_bytes());
    run_tiles(task, args, first, last, k, k_end, reinterpret_cast<char*>(sums));
    if (k_end % product_sum_group != 0 && k_end != plan_.k) return;
    for (std::int64_t i = 0; i < rows; ++i) {
      add_group({plan_.dtype, c, sums, lost, plan_.columns_of(task.panel), k_end, plan_.k});
      c += c_stride;
      sums += row_bytes();
      lost += row_bytes();
    }
  }

  const char* b_of(const Pass& pass, const BatchIndex& index) const {
    return static_cast<const char*>(pass.operands[b_operand_]) + plan_.b.offset +
           plan_.batch_offset(plan_.b.batch_stride, index);
  }
  /// B's panel from `k` on, packed if it must be.
  const char* panel_of_b(const Task& task, std::int64_t k, std::int64_t k_end) const {
    if (plan_.packs_per_task) {
      pack_one(task.pass, task.index, task.panel, task.scratch.panel.data(), k, k_end);
      return reinterpret_cast<const char*>(task.scratch.panel.data());
    }
    if (plan_.packs_b)
      return reinterpret_cast<const char*>(packed_.data()) +
             ((plan_.b_is_shared ? 0 : task.batch) * plan_.panels + task.panel) * plan_.panel_bytes() +
             k * plan_.width * plan_.element;
    return b_of(task.pass, task.index) + task.panel * plan_.width * plan_.b.column_stride + k * plan_.b.row_stride;
  }
  char* output_panel(const Task& task) const {
    return static_cast<char*>(task.pass.operands[c_operand_]) + plan_.c.offset +
           plan_.batch_offset(plan_.c.batch_stride, task.index) + task.panel * plan_.width * plan_.element;
  }

  /// Sums k to k_end into tiles [first, last), of which the first is at `c`.
  void run_tiles(const Task& task, MicroArgs args, std::int64_t first, std::int64_t last, std::int64_t k,
                 std::int64_t k_end, char* c) const {
    args.a += k * plan_.a.column_stride + plan_.first_row(first) * plan_.a.row_stride;
    args.c = c;
    args.k = k_end - k;
    if (plan_.method == ProductMethod::tiles) {
      const auto& functions = functions_[k % product_sum_group != 0];
      const std::size_t is_last = task.panel == plan_.panels - 1;
      for (std::int64_t tile = first, stop = 0; tile < last; tile = stop) {
        const bool is_taller = tile < plan_.taller_tiles;
        stop = is_taller ? std::min(last, plan_.taller_tiles) : last;
        if (plan_.prepares_next) stop = ask_for_next(task, args, tile, stop, k_end);
        args.tiles = stop - tile;
        functions[is_taller][is_last](&args);
      }
      return;
    }
    for (std::int64_t tile = first; tile < last; ++tile) {
      const std::int64_t rows = plan_.first_row(tile + 1) - plan_.first_row(tile);
      switch (plan_.method) {
        case ProductMethod::tiles: break;
        case ProductMethod::dots_of_a:
          dot_rows({plan_.dtype, args.a, rows, args.a_row_stride, args.k, args.b, args.b_k_stride, args.c,
                    args.c_row_stride});
          break;
        case ProductMethod::dots_of_b:
          dot_rows({plan_.dtype, args.b, plan_.columns_of(task.panel), plan_.b.column_stride, args.k, args.a,
                    args.a_k_stride, args.c, plan_.element});
          break;
        case ProductMethod::add_rows:
          add_rows({plan_.dtype, args.b, plan_.columns_of(task.panel), args.b_k_stride, args.k, args.a, args.a_k_stride,
                    args.c});
          break;
      }
      args.a += rows * args.a_row_stride;
      args.c += rows * args.c_row_stride;
    }
  }

  /// The sums that an epilogue takes at once.
  std::size_t tile_bytes() const { return as_index(plan_.tiles_per_epilogue * (plan_.tile_rows + 1)) * row_bytes(); }
  void reserve(TileScratch& scratch) const {
    if (plan_.packs_per_task) scratch.panel.reserve(as_index(plan_.width * plan_.k_run * plan_.element) + panel_slack);
    if (!has_scratch_epilogue()) return;
    scratch.tile.reserve(tile_bytes() * (keeps_groups() ? 3 : 1));
    scratch.loop.reserve(epilogue_.code->scratch_bytes(plan_.width));
  }
  const ContractionPlan plan_;
  const PanelSource* const source_;
  const bool keeps_packed_;
  bool is_packed_ = false;
  std::uint16_t a_operand_ = 0, b_operand_ = 0, c_operand_ = 0;
  int tail_lanes_ = 0;
  MicroFunction functions_[2][2][2] = {};  // [goes on in a group][one row more][last panel]
  struct BoundSlot {
    std::uint16_t operand;
    MatrixView view;
  };
  std::vector<BoundSlot> slots_;  // with an epilogue in registers
  bool is_in_registers_ = false;
  BoundEpilogue epilogue_;  // else
  AlignedBytes packed_, groups_;
  Pass group_pass_{};  // between begin_tasks() and end_tasks()
  std::atomic<bool> has_bad_index_{false};
  std::atomic<std::int64_t> bad_index_{0}, bad_extent_{0};
};

class ContractionExecutable final : public Executable {
 public:
  ContractionExecutable(const Kernel& kernel, const Schedule& schedule, Isa isa, ContractionParts parts,
                        std::unique_ptr<EpilogueCode> epilogue)
      : kernel_(kernel), schedule_(schedule), isa_(isa), parts_(std::move(parts)), epilogue_(std::move(epilogue)) {}

  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override { return bind(geometry, StepContext{}); }
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry, const StepContext& step) const override {
    ContractionPlan plan = plan_contraction(kernel_, parts_, geometry, Packing::by_cost, isa_, thread_count());
    const std::uint16_t b = kernel_.accesses[plan.is_swapped ? parts_.a : parts_.b].operand;
    bool is_kept = parts_.keeps_packed && step.constant_operands.has(b);
    if (is_kept) {
      ContractionPlan packed = plan_contraction(kernel_, parts_, geometry, Packing::always, isa_, thread_count());
      is_kept = pack_once(packed);
      if (is_kept) plan = packed;
    }
    if (epilogue_ != nullptr && !is_kept)
      if (const std::optional<RowPlan> rows = plan_rows(parts_, plan, isa_, thread_count()))
        return make_row_launch(kernel_, parts_, *rows, geometry, isa_, *epilogue_);
    if (!is_kept)
      if (const std::optional<TurnedPlan> turned = plan_turned(parts_, plan, isa_, thread_count()))
        return make_turned_launch(kernel_, parts_, *turned, geometry, isa_, epilogue_.get());
    return std::make_unique<ContractionLaunch>(kernel_, parts_, plan, geometry, isa_, epilogue_.get(), nullptr,
                                               is_kept);
  }
  std::size_t code_bytes() const override { return epilogue_ != nullptr ? epilogue_->code_bytes() : 0; }
  std::string listing() const override {
    std::string listing, why;
    if (const auto nest = build_nest(kernel_, schedule_, machine_of(isa_), IndexWidth::wide, why))
      listing = x86_detail::as_comment(text(*nest));
    listing += "; product: micro-kernels shared by all contractions, chosen by extents\n";
    if (epilogue_ == nullptr) return listing;
    if (epilogue_->registers() != nullptr)
      listing += "; epilogue: in registers, at the end of the micro-kernels\n; where these do not serve\n";
    return listing + "; epilogue\n" + epilogue_->loop(IndexWidth::narrow_if_possible)->listing();
  }

 private:
  const Kernel kernel_;
  const Schedule schedule_;
  const Isa isa_;
  const ContractionParts parts_;
  const std::unique_ptr<EpilogueCode> epilogue_;
};

/// A kernel whose B is made, taken apart, and its epilogue's code.
struct FollowedCode {
  Kernel kernel;
  Isa isa;
  ContractionParts parts;
  std::unique_ptr<EpilogueCode> epilogue;
};
/// Of the kernels that were asked for last. Null: declined.
inline std::shared_ptr<const FollowedCode> followed_code(const Kernel& kernel, Isa isa) {
  struct Cache {
    ForkSafeMutex mutex;
    std::vector<std::shared_ptr<const FollowedCode>> known;
  };
  constexpr std::size_t most_known = 64;
  Cache& cache = process_object([] { return new Cache; });
  const std::lock_guard lock(cache.mutex);
  for (const auto& each : cache.known)
    if (each->isa == isa && each->kernel == kernel) return each;
  std::optional<ContractionParts> parts = split_contraction(kernel, {}, isa, nullptr);
  if (!parts || parts->is_plain || !parts->needs_epilogue) return nullptr;
  parts->b_is_made = true;
  auto epilogue = std::make_unique<EpilogueCode>(*parts, isa);
  if (epilogue->loop(IndexWidth::narrow_if_possible) == nullptr) return nullptr;
  if (cache.known.size() == most_known) cache.known.erase(cache.known.begin());
  cache.known.push_back(
      std::make_shared<const FollowedCode>(FollowedCode{kernel, isa, std::move(*parts), std::move(epilogue)}));
  return cache.known.back();
}

/// Holds the code.
class FollowedProductLaunch final : public Launch {
 public:
  FollowedProductLaunch(std::shared_ptr<const FollowedCode> code, const ContractionPlan& plan,
                        const BoundGeometry& geometry, const PanelSource& source)
      : code_(std::move(code)),
        launch_(code_->kernel, code_->parts, plan, geometry, code_->isa, code_->epilogue.get(), &source) {}
  void run(void* const* operands) override { launch_.run(operands); }
  void prepare() override { launch_.prepare(); }

 private:
  const std::shared_ptr<const FollowedCode> code_;
  ContractionLaunch launch_;
};

}  // namespace x86_contraction_detail

SINTER_DECL std::unique_ptr<Launch> make_followed_product_launch(const Kernel& kernel, const BoundGeometry& geometry,
                                                                 PanelSource& source, Isa isa) {
  using namespace x86_contraction_detail;
  std::shared_ptr<const FollowedCode> code = followed_code(kernel, isa);
  if (code == nullptr) return nullptr;
  const ContractionPlan plan = plan_contraction(kernel, code->parts, geometry, Packing::by_cost, isa, thread_count());
  if (plan.tiles == 0 || (plan.k_run < plan.k && !plan.keeps_runs_in_task)) return nullptr;
  source.bind(plan.n, plan.width, plan.k_run);
  return std::make_unique<FollowedProductLaunch>(std::move(code), plan, geometry, source);
}

SINTER_DECL std::unique_ptr<Launch> make_product_launch(const Kernel& kernel, const BoundGeometry& geometry,
                                                        PanelSource& source, Isa isa) {
  using namespace x86_contraction_detail;
  std::optional<ContractionParts> parts = split_contraction(kernel, {}, isa, nullptr);
  ensure(parts && parts->is_plain && !parts->needs_epilogue, "product: not a plain one");
  parts->b_is_made = true;
  const ContractionPlan plan = plan_contraction(kernel, *parts, geometry, Packing::by_cost, isa, thread_count());
  if (plan.tiles != 0) source.bind(plan.n, plan.width, plan.k_run);
  return std::make_unique<ContractionLaunch>(kernel, *parts, plan, geometry, isa, nullptr, &source);
}

SINTER_DECL std::shared_ptr<const Executable> make_contraction_executable(const Kernel& kernel,
                                                                          const Schedule& schedule, Isa isa,
                                                                          std::string* why_declined) {
  using namespace x86_contraction_detail;
  std::optional<ContractionParts> parts = split_contraction(kernel, schedule, isa, why_declined);
  if (!parts) return nullptr;
  std::unique_ptr<EpilogueCode> epilogue;
  if (parts->needs_epilogue) {
    epilogue = std::make_unique<EpilogueCode>(*parts, isa);
    if (epilogue->registers() == nullptr && epilogue->loop(IndexWidth::narrow_if_possible, why_declined) == nullptr)
      return nullptr;
  }
  return std::make_shared<ContractionExecutable>(kernel, schedule, isa, std::move(*parts), std::move(epilogue));
}

}  // namespace x86
SINTER_NAMESPACE_END
