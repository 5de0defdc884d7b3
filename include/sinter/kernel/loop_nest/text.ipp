// Nests as text.
#pragma once

#include <sinter/kernel/loop_nest/text.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

class NestText {
 public:
  explicit NestText(const LoopNest& nest) : nest_(nest), k_(*nest.kernel) {}
  std::string title_of(std::size_t place) const { return title(nest_.nodes[place]); }

  std::string run() {
    constexpr const char* kinds[] = {"pointwise", "row", "column", "contraction", "scatter"};
    text_ = std::string("nest of a ") + kinds[as_index(k_.kind)] + (nest_.is_on_gpu ? " kernel on a GPU" : " kernel") +
            ", vectors of " + std::to_string(nest_.lanes) + " along a" + std::to_string(nest_.vector_axis) +
            (nest_.narrow_index ? ", indices are i32\n" : "\n");
    for (std::size_t i = 0; i < k_.body.size(); ++i)
      if (k_.body[i].prim == Prim::immediate) line(1, definition(static_cast<InstId>(i)));
    for (std::size_t place = 0; place < nest_.nodes.size(); place = nest_.nodes[place].end) write(place, 0);
    return std::move(text_);
  }

 private:
  void line(int depth, std::string_view text) {
    text_.append(as_index(2 * depth), ' ');
    text_ += text;
    text_ += '\n';
  }
  void write(std::size_t place, int depth) {
    const NestNode& node = nest_.nodes[place];
    constexpr const char* times[] = {"", "ahead ", "for the step "};
    if (node.kind == NestNodeKind::fold) part_ = node.part;
    if (node.kind == NestNodeKind::stage) has_team_ = node.axis > 1;
    if (node.kind == NestNodeKind::compute)
      for (const InstId id : nest_.ids_of(node)) line(depth, times[node.axis] + definition(id));
    else if (node.kind == NestNodeKind::step && part_ != FoldPart::finish && part_ != FoldPart::before)
      for (const InstId id : nest_.ids_of(node)) line(depth, "step " + definition(id) + online_text(node, id));
    else line(depth, title(node));
    nest_.for_each_child(place, [&](std::size_t child) { write(child, depth + 1); });
  }

  static std::string value(InstId id) { return "%" + std::to_string(id); }
  std::string definition(InstId id) const { return value(id) + " = " + inst_text(k_, k_.body[id]); }
  /// What the sum of an online fold takes in is not the value that the body names.
  std::string online_text(const NestNode& step, InstId id) const {
    if (part_ != FoldPart::online || id != nest_.ids_of(step).back()) return {};
    return ", by " + value(online_sum(k_, nest_.ids_of(step)).value);
  }
  std::string values(const NestNode& node) const {
    std::string list;
    for (const InstId id : nest_.ids_of(node)) list += (list.empty() ? "" : ", ") + value(id);
    return list;
  }
  static std::string axes(AxisMask mask) {
    std::string list;
    for (int a = 0; a < max_axes; ++a)
      if ((mask >> a & 1) != 0) list += (list.empty() ? "a" : ", a") + std::to_string(a);
    return list.empty() ? "no axis" : list;
  }
  std::string buffer(const NestNode& node) const {
    constexpr const char* spaces[] = {"workspace", "tile", "register", "shared"};
    const Buffer& b = nest_.buffer_of(node);
    return std::string(spaces[as_index(b.space)]) + " b" + std::to_string(node.first) + "[" + axes(b.axes) + "]" +
           (b.lasts && node.kind == NestNodeKind::keep ? ", which lasts from run to run" : "") +
           (b.points != 0 ? ", the first " + std::to_string(b.points) + " points" : std::string());
  }

  std::string title(const NestNode& node) const {
    constexpr const char* variants[] = {"whole", "short_rows", "split", "packed"};
    switch (node.kind) {
      case NestNodeKind::variant: return std::string("variant ") + variants[as_index(nest_.variants[node.first])];
      case NestNodeKind::stage:
        return node.count == 0 ? "stage"
                               : "stage in blocks of " + std::to_string(node.count) + " threads" +
                                     (node.axis > 1 ? ", teams of " + std::to_string(node.axis) + " blocks" : "");
      case NestNodeKind::loop: return loop(nest_.loop_of(node));
      case NestNodeKind::fold: return fold(node);
      case NestNodeKind::call: return call(nest_.calls[node.first]);
      case NestNodeKind::step: return "step " + values(node);
      case NestNodeKind::compute: return "compute " + values(node);
      case NestNodeKind::check: return "check index " + value(k_.body[node.first].args[0]) + " of " + value(node.first);
      case NestNodeKind::keep: return "keep " + value(nest_.buffer_of(node).value) + " in " + buffer(node);
      case NestNodeKind::fetch: return "fetch " + value(nest_.buffer_of(node).value) + " from " + buffer(node);
      case NestNodeKind::store: return store_text(k_, k_.stores[node.first]);
      case NestNodeKind::barrier: return node.count != 0 ? "barrier of the block" : "barrier of the warp";
      case NestNodeKind::rescale: return "rescale " + value(node.first);
      case NestNodeKind::update:
        return store_text(k_, k_.stores[node.first]) + (node.axis == 0 ? ", in order" : ", in any order");
      case NestNodeKind::check_index: return "check index " + value(k_.stores[node.first].index) + " of the update";
    }
    __builtin_unreachable();
  }

  static std::string call(const Call& c) {
    if (c.kind == CallKind::lists || c.kind == CallKind::sort)
      return (c.kind == CallKind::sort ? "call sort: points of " : "call lists: points of ") + axes(c.k) +
             " by place " + value(c.value);
    const std::string tile = ": rows " + axes(c.m) + ", columns " + axes(c.n);
    if (c.kind == CallKind::transpose) return "call transpose" + tile;
    return "call gemm for " + value(c.value) + tile + ", sums along " + axes(c.k);
  }

  std::string loop(const Loop& loop) const {
    const std::string step = std::to_string(loop.step);
    std::string line = is_over_places(loop) ? "for the places" : loop.axes == 0 ? "once" : "for " + axes(loop.axes);
    switch (loop.range) {
      case LoopRange::whole: break;
      case LoopRange::single:
        line += loop.mode == LoopMode::lanes ? " in one tile" : " in one vector of " + step;
        break;
      case LoopRange::block: line += " of the block"; break;
      case LoopRange::blocks: line += " in blocks of " + step; break;
      case LoopRange::blocks_but_last: line += " in blocks of " + step + " but for the last"; break;
      case LoopRange::blocks_before: line += " in the blocks of " + step + " before"; break;
      case LoopRange::tiles: line += " in tiles" + (loop.step == 0 ? "" : " of " + step); break;
      case LoopRange::tile: line += " of the tile"; break;
      case LoopRange::places: break;
      case LoopRange::short_places: line += " of at most " + step; break;
      case LoopRange::long_places: line += " of more than " + step; break;
      case LoopRange::listed: line += " of the place's list"; break;
    }
    if (loop.mode == LoopMode::vector && loop.range != LoopRange::single) line += " in vectors of " + step;
    if (loop.mode == LoopMode::task) line += loop.axes == 0 ? " as a task" : " as tasks";
    if (loop.mode == LoopMode::grid) line += " in the grid";
    if (loop.mode == LoopMode::grid && loop.lanes > 1) line += ", " + std::to_string(loop.lanes) + " threads for each";
    const bool is_scatter = nest_.kernel->kind == KernelKind::scatter;
    if (loop.mode == LoopMode::lanes && loop.lanes > 1) line += " over " + std::to_string(loop.lanes) + " lanes";
    if (loop.mode == LoopMode::lanes && loop.lanes == 1 && is_scatter) line += " by one thread";
    if (loop.mode == LoopMode::lanes && !is_over_blocks(loop) && loop.step > 1) line += " in vectors of " + step;
    if (loop.copies > 1) line += ", " + std::to_string(loop.copies) + " side by side";
    if (loop.tail == LoopTail::mask) line += ", tail masked";
    if (loop.tail == LoopTail::stepwise && loop.copies > 1) line += ", the rest one by one";
    return line;
  }

  std::string vector_lanes(const NestNode& node) const {
    const auto ids = nest_.ids_of(node);
    const auto folds = std::count_if(ids.begin(), ids.end(), [&](InstId id) { return k_.body[id].prim == Prim::fold; });
    const std::string with_state = std::to_string(fold_lanes) + " lanes";
    if (folds == node.count) return with_state;
    return "256 bytes of lanes" + (folds != 0 ? " (" + with_state + " of what has states)" : std::string());
  }

  std::string order_of_gemm(const NestNode& fold, const Loop& loop) const {
    if (fold.part != FoldPart::finish && nest_.calls[0].order == CallOrder::own) return "in an order of its own";
    return loop.lanes == 1 ? "in order" : "lanes in order";
  }
  /// The order of threads, which the schedule gives.
  std::string fold_over_lanes(const NestNode& node) const {
    const Loop& loop = nest_.loop_of((&node)[1]);  // a fold's loop follows it
    const std::string over = values(node) + " over " + axes(loop.axes);
    const bool is_row = (loop.axes >> nest_.vector_axis & 1) != 0 || node.part == FoldPart::finish;
    const std::string by_fma = node.part == FoldPart::finish ? "" : "by fma, ";
    const std::string lanes = nest_.has_gemm()              ? by_fma + order_of_gemm(node, loop)
                              : loop.lanes == 1             ? "in order"
                              : loop.lanes <= 32 || !is_row ? "lanes in halves"
                              : k_.has_scan()               ? "lanes of a warp in halves, warps in order"
                              : has_team_ ? "lanes of a warp in halves, then warps of a block, then every 32nd block "
                                            "in order, and these in halves"
                              : loop.lanes <= most_block_lanes
                                  ? "lanes of a warp in halves, then warps"
                                  : "lanes of a warp in halves, then warps of a block, then blocks";
    switch (node.part) {
      case FoldPart::blocks: return "fold one block of " + over + ": " + lanes;
      case FoldPart::finish: return "fold " + over + " from its blocks: " + lanes;
      case FoldPart::online: return "fold " + over + " online: " + lanes;
      case FoldPart::before: return "fold " + over + " from the blocks before: " + lanes;
      case FoldPart::scan: return "scan " + over + scan_over_lanes(node, loop);
      case FoldPart::whole: break;
    }
    return "fold " + over + ": " + lanes;
  }
  std::string scan_over_lanes(const NestNode& node, const Loop& loop) const {
    if (loop.lanes == 1)
      return has_float_sum(node, Prim::scan_add) ? ": in order, float sums compensated" : ": in order";
    return std::string(loop.range == LoopRange::block ? " after the blocks before" : "") +
           ": 32 neighbours in a tree, trees of a warp in order, warps in order";
  }
  bool has_float_sum(const NestNode& node, Prim sum) const {
    const auto ids = nest_.ids_of(node);
    return std::any_of(ids.begin(), ids.end(),
                       [&](InstId id) { return k_.body[id].prim == sum && is_floating(k_.body[id].dtype); });
  }
  /// Which order it is follows from the axis: kernel.hpp.
  std::string fold(const NestNode& node) const {
    if (nest_.is_on_gpu) return fold_over_lanes(node);
    const std::string over = values(node) + " over a" + std::to_string(node.axis);
    if (node.part == FoldPart::scan) return scan(over, node);
    if (k_.kind == KernelKind::contraction) return "fold " + over + ": by fma, " + k_.order(node.axis).text();
    if (node.part == FoldPart::blocks) return "fold one block of " + over + ": " + vector_lanes(node);
    if (node.part == FoldPart::finish) return "fold " + over + " from its blocks, in pairs";
    if (node.axis == nest_.vector_axis)
      return "fold " + over + ": " + vector_lanes(node) + ", blocks of " + std::to_string(row_sum_block) + " in pairs";
    const auto ids = nest_.ids_of(node);
    const bool is_compensated = has_float_sum(node, Prim::reduce_add);
    const auto has_state = [&](InstId id) { return k_.body[id].prim == Prim::fold; };
    const bool all = std::all_of(ids.begin(), ids.end(), has_state),
               any = std::any_of(ids.begin(), ids.end(), has_state);
    const std::string lanes = all ? "one lane" : any ? "two lanes (one of what has states)" : "two lanes";
    return "fold " + over + ": " + lanes + ", blocks of " + std::to_string(column_sum_block) + " in order" +
           (is_compensated ? ", float sums compensated" : "");
  }

  std::string scan(const std::string& over, const NestNode& node) const {
    const bool is_vector_axis = node.axis == nest_.vector_axis;
    std::string line = "scan " + over + (is_vector_axis ? ": trees of 64 bytes" : ": one by one");
    const auto ids = nest_.ids_of(node);
    if (std::none_of(ids.begin(), ids.end(),
                     [&](InstId id) { return scan_has_blocks(k_.body[id].prim, k_.body[id].dtype); }))
      return line;
    return line + ", blocks of " + std::to_string(is_vector_axis ? row_sum_block : column_sum_block) + " in order";
  }

  const LoopNest& nest_;
  const Kernel& k_;
  std::string text_;
  FoldPart part_ = FoldPart::whole;  // of the fold around this place
  bool has_team_ = false;            // the stage: blocks share rows
};

SINTER_DECL std::string node_title(const LoopNest& nest, std::size_t place) { return NestText(nest).title_of(place); }

}  // namespace kernel_detail

SINTER_DECL std::string text(const LoopNest& nest) { return kernel_detail::NestText(nest).run(); }

SINTER_NAMESPACE_END
