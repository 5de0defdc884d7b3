// The shape, then one forward walk over the passes.
#pragma once

#include <sinter/backend/cuda/source/gpu_nest.hpp>

#include <sinter/backend/cuda/source/row_stream.hpp>
#include <sinter/backend/cuda/source/scatter_nest.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/verify.hpp>
#include <sinter/kernel/loop_nest/writer.hpp>

#include <algorithm>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class GpuNestBuilder : private kernel_detail::NestWriter {
 public:
  GpuNestBuilder(const BoundKernel& bound, const GpuNestOptions& options)
      : NestWriter(bound.kernel), b_(bound), options_(options) {
    nest_.is_on_gpu = true;
    nest_.nodes.reserve(48);
    nest_.ids.reserve(bound.kernel.body.size() * 3 + 16);
  }

  LoopNest run() {
    if (b_.kernel.has_scan()) build_scan();
    else if (b_.reduced.empty()) build_pointwise();
    else build_reduction();
    if (SINTER_UNLIKELY(Context::get().checks)) verify(nest_);
    return std::move(nest_);
  }

 private:
  std::size_t body_size() const { return b_.kernel.body.size(); }
  void set_vector(int axis, int width) {
    nest_.vector_axis = std::max(axis, 0);
    nest_.lanes = width;
    for (std::size_t i = 0; i < body_size(); ++i) {
      const bool is_vector = axis >= 0 && b_.varies(static_cast<InstId>(i), axis);
      nest_.places.push_back({is_vector ? NestLevel::column : NestLevel::outer, is_vector});
    }
  }
  /// Nothing where no instruction is one that `take` says.
  template <class Take>
  void add_body(Take&& take, ComputeTime when = ComputeTime::in_turn) {
    const std::size_t first = nest_.ids.size();
    for (std::size_t i = 0; i < body_size(); ++i) {
      const auto id = static_cast<InstId>(i);
      if (b_.is_live(i) && b_.inst(id).prim != Prim::immediate && take(id)) nest_.ids.push_back(id);
    }
    add_list_since(first, when);
  }
  void add_list_since(std::size_t first, ComputeTime when = ComputeTime::in_turn) {
    if (nest_.ids.size() == first) return;
    add({.kind = NestNodeKind::compute,
         .first = static_cast<std::uint16_t>(first),
         .count = static_cast<std::uint16_t>(nest_.ids.size() - first),
         .axis = static_cast<std::uint16_t>(when)});
  }
  std::uint16_t add_buffer(const Buffer& buffer) {
    nest_.buffers.push_back(buffer);
    return static_cast<std::uint16_t>(nest_.buffers.size() - 1);
  }

  /// The items of the grid: points of the parallel axes, or vectors of those along the last. `lanes` threads share one.
  void open_items(int width, int copies, int lanes) {
    AxisMask axes = mask_of(b_.parallel);
    Loop items{.copies = static_cast<std::uint8_t>(copies), .lanes = static_cast<std::uint16_t>(lanes)};
    if (width > 1) {
      items.axes = axis_bit(b_.parallel.back());
      items.range = LoopRange::blocks;
      items.step = width;
      axes &= static_cast<AxisMask>(~items.axes);
      if (axes != 0) open_grid({.axes = axes});
    } else {
      items.axes = axes;
    }
    open_grid(items);
  }
  void open_grid(Loop loop) {
    loop.mode = LoopMode::grid;
    open_loop(loop);
  }
  /// The points of one item, where those are several.
  std::size_t open_item_vector(LoopTail tail) {
    return open_loop({.axes = axis_bit(nest_.vector_axis),
                      .mode = LoopMode::vector,
                      .tail = tail,
                      .range = LoopRange::block,
                      .step = nest_.lanes});
  }

  // ---- elementwise

  void build_pointwise() {
    const int axis = b_.parallel.empty() ? -1 : b_.parallel.back();
    const int width = reads_mostly_apart(axis) ? 1 : best_width(b_, options_, axis, b_.parallel.size() == 1);
    const std::int64_t extent = axis < 0 ? 1 : b_.extent(axis),
                       items = axis < 0 ? 1 : b_.points(b_.parallel) / extent * quotient_up(extent, width);
    set_vector(axis, width);
    const std::size_t variant = open_variant(VariantKind::whole);
    const PointwiseLaunch launch = choose_launch(items);
    open_stage(launch.threads);
    open_items(width, launch.copies, 1);
    const auto is_load = [&](InstId id) { return b_.inst(id).prim == Prim::load; };
    if (width > 1) {
      add_body([&](InstId id) { return is_load(id) && !nest_.places[id].is_vector; }, ComputeTime::ahead);
      add_body([&](InstId id) { return !is_load(id) && !nest_.places[id].is_vector; });
      open_item_vector(extent % width == 0 ? LoopTail::none : LoopTail::mask);
    }
    const auto is_inside = [&](InstId id) { return width == 1 || nest_.places[id].is_vector; };
    add_body([&](InstId id) { return is_load(id) && is_inside(id); }, ComputeTime::ahead);
    add_body([&](InstId id) { return !is_load(id) && is_inside(id); });
    for (std::uint16_t s = 0; s < b_.kernel.stores.size(); ++s) add({.kind = NestNodeKind::store, .first = s});
    close_from(variant);
  }
  /// Of many loads whose elements lie apart (places of windows) a warp reads fewest sectors at once where neighbouring
  /// threads take neighbouring elements.
  bool reads_mostly_apart(int axis) const {
    constexpr int many = 4;
    if (axis < 0) return false;
    const auto used = b_.used_accesses();
    return std::count_if(used.begin(), used.end(), [&](std::uint16_t access) {
             return b_.stride_class(access, axis) > StrideClass::unit;
           }) > many;
  }
  struct PointwiseLaunch {
    int copies = 1, threads = 256;
  };
  /// Enough bytes in flight for one processor, without leaving others idle.
  PointwiseLaunch choose_launch(std::int64_t items) const {
    if (options_.is_grouped) return {};  // what was measured for one size would keep it from being merged with others
    int loads = 0;
    for (std::size_t i = 0; i < body_size(); ++i)
      loads += b_.is_live(i) && b_.kernel.body[i].prim == Prim::load && nest_.places[i].is_vector;
    const std::int64_t processors = options_.device.multiprocessors, enough = processors * 2048 * 4;
    const int copies = loads <= 2 && items >= enough * 4 ? (loads <= 1 ? 4 : 2) : 1;
    const int threads = items < processors * 1024 ? 128 : 256;
    return {options_.schedule.find(ScheduleAction::unroll).value_or(static_cast<std::uint16_t>(copies)),
            options_.schedule.find(ScheduleAction::block).value_or(static_cast<std::uint16_t>(threads))};
  }

  // ---- reductions

  void build_reduction() {
    walks_ = kept_walks(b_);
    shape_ = choose_reduction(b_, options_, walks_);
    set_vector(shape_.vector_axis, shape_.width);
    if (shape_.is_resident) needs_ = std::move(walks_.fresh);
    for (int pass = 0; pass <= b_.depths() && !shape_.is_resident; ++pass) {
      const InstList inner = inner_of(b_.kernel, b_.facts, pass);
      needs_.emplace_back(inner.begin(), inner.end());
    }
    if (shape_.team > 1) {
      find_streamed();
    } else if (!shape_.is_column && !shape_.is_resident && shape_.splits == 1) {
      find_online();
      find_shared();
    }
    const std::size_t variant = open_variant(VariantKind::whole), stage = open_stage(shape_.threads());
    if (shape_.team > 1) nest_.nodes[stage].axis = static_cast<std::uint16_t>(shape_.team);
    build_walks();
    close_from(variant + 1);
    if (shape_.splits > 1) build_finish();
    close(variant);
  }

  void build_walks() {
    open_items(shape_.is_column ? shape_.width : 1, 1, shape_.lanes);
    if (shape_.splits > 1) open_grid({.axes = mask_of(b_.reduced), .range = LoopRange::blocks, .step = shape_.chunk});
    add_outer(0, [&](InstId id) { return !is_in_vector(id); });
    if (shape_.is_column && shape_.width > 1) {
      open_item_vector(LoopTail::none);
      add_outer(0, [&](InstId id) { return is_in_vector(id); });
    }
    for (int pass = 0; pass <= b_.depths(); ++pass) {
      if (pass > 0) add_outer(pass, [](InstId) { return true; });
      if (pass == 1 && online_ != no_inst) add({.kind = NestNodeKind::rescale, .first = online_});
      else if (b_.facts.walks(pass)) build_walk(pass);
      if (shape_.splits > 1) return keep_pieces();
    }
    // Other lanes may still read what is overwritten.
    add_outer_stores(shape_.is_column || shape_.lanes > 32);
  }
  bool is_in_vector(InstId id) const { return shape_.is_column && shape_.width > 1 && nest_.places[id].is_vector; }

  /// What is computed once for each row or column before pass `pass`.
  template <class Take>
  void add_outer(int pass, Take&& take) {
    add_body([&](InstId id) {
      return !b_.is_inner(id) && !is_reduction(b_.inst(id).prim) && b_.depth(id) == pass && take(id);
    });
  }
  void add_outer_stores(bool for_block) {
    if (b_.facts.outer_stores.empty()) return;
    add({.kind = NestNodeKind::barrier, .count = static_cast<std::uint16_t>(for_block)});
    add_stores(b_.facts.outer_stores);
  }

  // ---- what one walk leaves for the next

  /// Of rows that are read again: the first walk finds the sum of exponentials, too.
  void find_online() {
    if (b_.depths() < 2) return;
    const InstList sums = reductions_of(b_.kernel, b_.facts, 1);
    if (sums.size() != 1) return;
    InstList both = reductions_of(b_.kernel, b_.facts, 0);
    both.push_back(sums[0]);
    const OnlineSum online = online_sum(b_.kernel, both);
    if (online.sum != no_inst && !b_.is_inner(online.shift) && b_.depth(online.shift) == 1) online_ = online.sum;
  }

  /// Rows that are longer than registers: their start stays in shared memory, the first walk puts it there. It is worth
  /// it where at least half of a row fits, since its block has the processor to itself; in a cluster, which has whole
  /// processors anyway, an eighth. Threads of a cluster have registers left for some tiles, too: the first ones.
  void find_shared() {
    if (shape_.threads() * shape_.clusters_of_processor() != most_block_lanes) return;
    InstList loads;
    std::int64_t tile_bytes = 0;
    for (const InstId id : needs_[0]) {
      if (b_.inst(id).prim != Prim::load || !nest_.places[id].is_vector || b_.is_shared_by_rows(id)) continue;
      if (!is_read_again(id)) continue;
      loads.push_back(id);
      tile_bytes += shape_.tile() / shape_.cluster * size_of(b_.inst(id).dtype);
    }
    if (loads.empty()) return;
    const std::int64_t tiles = quotient_up(shape_.length, shape_.tile()),
                       in_shared = std::min(tiles, tiles_in_shared(shape_, options_.device, tile_bytes)),
                       kept = std::min(tiles, in_shared + most_tiles_in_registers(shape_, tile_bytes));
    if (in_shared * (shape_.cluster > 1 ? 8 : 2) < tiles) return;
    for (const InstId id : loads)
      nest_.buffers.push_back({id, mask_of(b_.reduced), BufferSpace::shared, kept * shape_.tile()});
    shared_ = loads.size();
  }
  /// Of rows that pass through teams of blocks: shared memory keeps what later walks need.
  void find_streamed() {
    const RowStream stream = row_stream(b_, walks_);
    needs_.clear();
    for (int pass = 0; pass <= b_.depths(); ++pass) needs_.push_back(needed_in_walk(b_, stream, pass));
    for (const auto* list : {&stream.late, &stream.values})
      for (const InstId id : *list) nest_.buffers.push_back({id, mask_of(b_.reduced), BufferSpace::shared});
    shared_ = nest_.buffers.size();
  }

  bool is_read_again(InstId id) const {
    for (std::size_t pass = 1; pass < needs_.size(); ++pass)
      if (b_.facts.walks(static_cast<int>(pass)) && !(pass == 1 && online_ != no_inst) &&
          std::find(needs_[pass].begin(), needs_[pass].end(), id) != needs_[pass].end())
        return true;
    return false;
  }
  std::span<const Buffer> shared() const { return {nest_.buffers.begin(), shared_}; }

  // ---- walks

  void build_walk(int pass) {
    InstList reductions = reductions_of(b_.kernel, b_.facts, pass);
    const bool is_online = pass == 0 && online_ != no_inst;
    const std::size_t first = nest_.ids.size();
    for (const InstId id : reductions) nest_.ids.push_back(id);
    if (is_online) nest_.ids.push_back(online_);
    const FoldPart part = shape_.splits > 1 ? FoldPart::blocks : is_online ? FoldPart::online : FoldPart::whole;
    const std::size_t outermost = nest_.nodes.size();
    if (!reductions.empty()) open_fold(part, first);
    open_lanes({.range = shape_.is_resident  ? LoopRange::single
                         : shape_.splits > 1 ? LoopRange::block
                                             : LoopRange::whole,
                .copies = static_cast<std::uint8_t>(shape_.steps),
                .lanes = static_cast<std::uint16_t>(shape_.lanes),
                .step = shape_.is_column ? 1 : shape_.width});
    add_loads(pass);
    add_values(pass);
    if (is_online) reductions.push_back(online_);
    add_steps(reductions);
    if (pass == b_.depths()) add_stores(b_.facts.inner_stores);
    close_from(outermost);
  }
  void open_fold(FoldPart part, std::size_t first_id) {
    open({.kind = NestNodeKind::fold,
          .part = part,
          .first = static_cast<std::uint16_t>(first_id),
          .count = static_cast<std::uint16_t>(nest_.ids.size() - first_id),
          .axis = static_cast<std::uint16_t>(b_.reduced.back())});
  }
  void open_lanes(Loop loop) {
    loop.axes = mask_of(b_.reduced);
    loop.mode = LoopMode::lanes;
    loop.tail = shape_.is_exact && loop.range != LoopRange::blocks ? LoopTail::none : LoopTail::mask;
    open_loop(loop);
  }
  void add_steps(const InstList& reductions) {
    add_ids(NestNodeKind::step, {reductions.begin(), reductions.end()}, [](InstId) { return true; });
  }

  bool is_early_load(InstId id) const {
    return b_.inst(id).prim == Prim::load && !(shape_.loads_late && b_.is_shared_by_rows(id) && !walks_.is_kept(id));
  }
  /// What earlier walks left, and what all steps of a tile load before its first value is computed.
  void add_loads(int pass) {
    const bool has_shared = pass > 0 && shared_ > 0;
    const auto needs = [&](InstId id) {
      const auto& list = needs_[as_index(pass)];
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    for (std::uint16_t b = 0; has_shared && b < shared_; ++b)
      if (needs(nest_.buffers[b].value)) add({.kind = NestNodeKind::fetch, .first = b});
    if (shape_.is_resident && pass > 0) add_fetches(pass);
    const std::size_t first = nest_.ids.size();
    for (const InstId id : needs_[as_index(pass)])
      if (is_early_load(id) && !(has_shared && is_shared(id))) nest_.ids.push_back(id);
    add_list_since(first, ComputeTime::ahead);
    for (std::uint16_t b = 0; pass == 0 && b < shared_; ++b)
      if (b_.inst(nest_.buffers[b].value).prim == Prim::load) add({.kind = NestNodeKind::keep, .first = b});
  }
  bool is_shared(InstId id) const {
    return std::any_of(shared().begin(), shared().end(), [&](const Buffer& buffer) { return buffer.value == id; });
  }
  /// Of a resident row, in the order of the body.
  void add_fetches(int pass) {
    SmallVector<bool, 256> is_used(body_size());
    const auto use = [&](const Inst& inst) {
      for (int k = 0; k < arity(inst.prim); ++k) is_used[inst.args[as_index(k)]] = true;
    };
    for (const InstId id : needs_[as_index(pass)]) use(b_.inst(id));
    for (const InstId id : reductions_of(b_.kernel, b_.facts, pass)) use(b_.inst(id));
    if (pass == b_.depths())
      for (const std::uint16_t s : b_.facts.inner_stores) is_used[b_.kernel.stores[s].value] = true;
    for (std::uint16_t b = 0; b < nest_.buffers.size(); ++b)
      if (is_used[nest_.buffers[b].value]) add({.kind = NestNodeKind::fetch, .first = b});
  }
  void add_values(int pass) {
    const std::size_t first = nest_.ids.size();
    for (const InstId id : needs_[as_index(pass)])
      if (!is_early_load(id) && !(pass > 0 && is_shared(id))) nest_.ids.push_back(id);
    add_list_since(first);
    for (std::uint16_t b = 0; pass == 0 && b < shared_; ++b)
      if (b_.inst(nest_.buffers[b].value).prim != Prim::load) add({.kind = NestNodeKind::keep, .first = b});
    if (!shape_.is_resident) return;
    for (const InstId id : needs_[as_index(pass)])
      if (walks_.is_kept(id))
        add({.kind = NestNodeKind::keep, .first = add_buffer({id, mask_of(b_.reduced), BufferSpace::reg})});
  }

  // ---- pieces

  void keep_pieces() {
    const InstList reductions = reductions_of(b_.kernel, b_.facts, 0);
    for (std::size_t i = 0; i < reductions.size(); ++i)
      if (nest_.holder({reductions.begin(), reductions.end()}, i) == reductions[i])
        add({.kind = NestNodeKind::keep,
             .first = add_buffer({reductions[i], static_cast<AxisMask>(mask_of(b_.parallel) | mask_of(b_.reduced)),
                                  BufferSpace::workspace})});
  }
  /// A second launch puts the pieces together: one thread for each result, or a warp where results are few.
  void build_finish() {
    constexpr int threads = 128;
    const InstList reductions = reductions_of(b_.kernel, b_.facts, 0);
    const int lanes = b_.points(b_.parallel) < 8192 ? 32 : 1;
    const std::size_t stage = open_stage(threads);
    open_items(1, 1, lanes);
    add_outer(0, [](InstId) { return true; });
    const std::size_t fold = nest_.nodes.size(), first = nest_.ids.size();
    for (const InstId id : reductions) nest_.ids.push_back(id);
    open_fold(FoldPart::finish, first);
    open_lanes({.range = LoopRange::blocks,
                .copies = static_cast<std::uint8_t>(shape_.splits > lanes * 2 ? 8 : 2),
                .lanes = static_cast<std::uint16_t>(lanes),
                .step = shape_.chunk});
    for (std::uint16_t b = 0; b < nest_.buffers.size(); ++b) add({.kind = NestNodeKind::fetch, .first = b});
    add_steps(reductions);
    close_from(fold);
    add_outer(1, [](InstId) { return true; });
    add_outer_stores(false);
    close_from(stage);
  }

  // ---- scans

  void build_scan() {
    scan_ = choose_scan(b_, options_.device);
    scans_ = scans_of(b_);
    set_vector(b_.reduced.back(), 1);
    const std::size_t variant = open_variant(VariantKind::whole);
    if (scan_.pieces > 1) build_totals();
    open_scan_stage(LoopRange::blocks);
    if (scan_.pieces > 1) build_before();
    build_scan_walk();
    if (scan_.lanes == 1) add_stores(b_.facts.outer_stores);
    else add_outer_stores(true);
    close_from(variant);
  }
  /// `pieces`: which of them, where rows are cut.
  std::size_t open_scan_stage(LoopRange pieces) {
    const std::size_t stage = open_stage(scan_.lanes == 1 ? 128 : scan_.lanes);
    open_items(1, 1, scan_.lanes);
    if (scan_.pieces > 1) open_grid({.axes = mask_of(b_.reduced), .range = pieces, .step = scan_.chunk});
    add_outer(0, [](InstId) { return true; });
    return stage;
  }
  /// A fold over the lanes of a row that takes in scans.
  std::size_t open_scan_fold(FoldPart part, LoopRange range, int steps, LoopTail tail, std::int64_t step = 1) {
    const std::size_t fold = nest_.nodes.size(), first = nest_.ids.size();
    for (const InstId id : scans_) nest_.ids.push_back(id);
    if (!scans_.empty()) open_fold(part, first);
    open_loop({.axes = mask_of(b_.reduced),
               .mode = LoopMode::lanes,
               .tail = tail,
               .range = range,
               .copies = static_cast<std::uint8_t>(steps),
               .lanes = static_cast<std::uint16_t>(scan_.lanes),
               .step = step});
    return fold;
  }
  /// What makes up `values`, at a point of the row; scans are there.
  void add_needed(const InstList& values, ComputeTime when) {
    const std::size_t first = nest_.ids.size();
    const auto is_needed = b_.under({values.data(), values.size()});
    for (const InstId id : inner_of(b_.kernel, b_.facts, 0))
      if (is_needed[id] && !is_scan(b_.inst(id).prim)) nest_.ids.push_back(id);
    add_list_since(first, when);
  }
  InstList scanned() const {
    InstList list;
    for (const InstId id : scans_) list.push_back(b_.inst(id).args[0]);
    return list;
  }
  /// A first launch leaves what each piece but the last makes, which all are whole tiles.
  void build_totals() {
    const std::size_t stage = open_scan_stage(LoopRange::blocks_but_last);
    const std::size_t fold = open_scan_fold(FoldPart::blocks, LoopRange::block, scan_.steps, LoopTail::none);
    add_needed(scanned(), ComputeTime::in_turn);
    add_steps(scans_);
    close_from(fold);
    for (const InstId id : scans_)
      add({.kind = NestNodeKind::keep,
           .first = add_buffer(
               {id, static_cast<AxisMask>(mask_of(b_.parallel) | mask_of(b_.reduced)), BufferSpace::workspace})});
    close_from(stage);
  }
  /// In the second one a piece begins with those before it.
  void build_before() {
    const std::size_t fold = open_scan_fold(FoldPart::before, LoopRange::blocks_before, 1, LoopTail::mask, scan_.chunk);
    for (std::uint16_t b = 0; b < nest_.buffers.size(); ++b) add({.kind = NestNodeKind::fetch, .first = b});
    add_steps(scans_);
    close_from(fold);
  }
  /// A tile is scanned together: what is scanned is computed for it, and then all that is stored. Else value by value.
  void build_scan_walk() {
    const std::size_t fold = open_scan_fold(FoldPart::scan, scan_.pieces > 1 ? LoopRange::block : LoopRange::whole,
                                            scan_.steps, scan_.lanes == 1 ? LoopTail::none : LoopTail::mask);
    if (scan_.is_together) {
      add_needed(scanned(), ComputeTime::for_step);
      add_steps(scans_);
      InstList stored;
      for (const std::uint16_t s : b_.facts.inner_stores) stored.push_back(b_.kernel.stores[s].value);
      add_needed(stored, ComputeTime::in_turn);
    } else {
      const InstList inner = inner_of(b_.kernel, b_.facts, 0);
      add_computes({inner.begin(), inner.end()}, [](InstId) { return true; });
    }
    add_stores(b_.facts.inner_stores);
    close_from(fold);
  }

  const BoundKernel& b_;
  const GpuNestOptions options_;
  ScanShape scan_;
  InstList scans_;
  KeptWalks walks_;
  ThreadShape shape_;
  std::vector<std::vector<InstId>> needs_;  // what each pass computes at a point
  InstId online_ = no_inst;                 // the sum of exponentials that the first walk finds
  std::size_t shared_ = 0;                  // buffers in shared memory, the first of all
};

SINTER_DECL LoopNest build_gpu_nest(const BoundKernel& bound, const GpuNestOptions& options) {
  if (bound.kernel.kind == KernelKind::scatter) return build_scatter_nest(bound);
  return GpuNestBuilder(bound, options).run();
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
