// Nests of scatters: what holds of the loops around an update, so that each value is combined once, and those that
// collide in order. For verify.ipp.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>
#include <sinter/kernel/loop_nest/text.hpp>
#include <sinter/kernel/loop_nest/verify_records.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// The axes along which updates of one element may collide.
inline AxisMask colliding_axes(const Kernel& kernel) {
  AxisMask axes = 0;
  for (int a = 0; a < kernel.rank(); ++a)
    if (kernel.accesses[kernel.stores[0].access].stride[as_index(a)] == StrideClass::zero) axes |= axis_bit(a);
  return axes;
}

class UpdateVerifier {
 public:
  explicit UpdateVerifier(const LoopNest& nest)
      : nest_(nest),
        k_(*nest.kernel),
        facts_(facts_of(k_)),
        store_(k_.stores[0]),
        colliding_(colliding_axes(k_)),
        indexed_(facts_.values[store_.index].axes) {}

  void run() {
    if (nest_.nodes.empty() || nest_.nodes[0].end != nest_.nodes.size()) throw_bad_nest("the nest", "not one variant");
    for (const Inst& inst : k_.body)
      if (reads_memory(inst.prim) && k_.accesses[inst.access].operand == k_.accesses[store_.access].operand)
        throw_bad_nest("the nest", "reads an operand that it updates");
    nest_.for_each_child(0, [&](std::size_t place) { stage(place); });
    if (done_ != all_places) throw_bad_nest("the nest", "an update is missing");
  }

 private:
  static constexpr int at_short = 1, at_long = 2, all_places = at_short | at_long;
  /// What ends with an iteration.
  struct Scope {
    SmallVector<bool, 256> known;
    AxisMask walked = 0;
    int places = 0, lanes = 1;  // 0: in no loop over places; threads that share one
    std::int64_t most = 0;      // points of a short list
    bool in_grid = true, in_blocks = false, in_lanes = false, in_order = false, from_list = false;
  };

  void require(bool holds, std::size_t place, const char* what) const {
    if (!holds) throw_bad_nest("node " + std::to_string(place) + " (" + node_title(nest_, place) + ")", what);
  }
  bool is_known(InstId id) const { return k_.body[id].prim == Prim::immediate || at_.known[id]; }

  /// What a launch finds out, later ones know.
  void stage(std::size_t place) {
    at_ = {};
    at_.known.resize(k_.body.size());
    threads_ = nest_.nodes[place].count;
    has_checked_ = has_listed_ = false;
    nest_.for_each_child(place, [&](std::size_t child) { node(child); });
    is_checked_ |= has_checked_;
    has_lists_ |= has_listed_;
  }
  void node(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    switch (n.kind) {
      case NestNodeKind::loop: return loop(place);
      case NestNodeKind::call: return call(place);
      case NestNodeKind::compute:
        require(LoopNest::time_of(n) == ComputeTime::in_turn, place, "ahead of nothing");
        for (const InstId id : nest_.ids_of(n)) compute(place, id);
        return;
      case NestNodeKind::update: return update(place);
      case NestNodeKind::check_index: return check(place);
      default: require(false, place, "no part of an update");
    }
  }
  void call(std::size_t place) {
    const Call& c = nest_.calls[nest_.nodes[place].first];
    require(c.k == colliding_ && nest_.loop_of(nest_.nodes[place + 1]).axes == (indexed_ | colliding_) && !has_checked_,
            place, "lists of other points");
    loop(place + 1);
    require(has_checked_, place, "lists by indices that are not checked");
    has_listed_ = true;
  }

  void loop(std::size_t place) {
    const Loop& l = nest_.loop_of(nest_.nodes[place]);
    const Scope outside = at_;
    require(l.tail == (l.range == LoopRange::block ? LoopTail::mask : LoopTail::none), place, "another tail");
    if (is_over_places(l)) enter_places(place, l);
    else if (l.mode == LoopMode::grid) enter_grid(place, l);
    else enter_lanes(place, l);
    nest_.for_each_child(place, [&](std::size_t child) { node(child); });
    at_ = outside;
  }
  void enter_places(std::size_t place, const Loop& l) {
    const bool has_limit = l.range != LoopRange::places;
    require(l.mode == LoopMode::grid && l.axes == 0 && l.copies == 1 && at_.in_grid && at_.places == 0, place,
            "places that are not shared out by the grid");
    require(at_.walked == (indexed_ & ~colliding_) && !at_.in_blocks, place, "not inside what the index varies along");
    require(has_lists_ || !has_limit, place, "there are no lists");
    require((l.lanes == 1 || l.lanes == 32) && threads_ % l.lanes == 0, place, "neither threads nor warps");
    at_.places = l.range == LoopRange::short_places  ? at_short
                 : l.range == LoopRange::long_places ? at_long
                                                     : all_places;
    at_.lanes = l.lanes;
    at_.most = has_limit ? l.step : 0;
  }
  void enter_grid(std::size_t place, const Loop& l) {
    require(at_.in_grid && !at_.in_blocks && l.lanes == 1, place, "the grid is not outermost");
    require((l.axes & at_.walked) == 0, place, "an axis that is walked already");
    if (l.range == LoopRange::blocks) {
      require(at_.lanes > 1, place, "blocks that no lanes share out");
      at_.in_blocks = true;
      blocks_ = l;
      return;
    }
    require(l.range == LoopRange::whole && l.step == 1, place, "a range of lanes");
    at_.walked |= l.axes;
  }
  void enter_lanes(std::size_t place, const Loop& l) {
    require(l.mode == LoopMode::lanes && (l.axes & at_.walked) == 0 && !at_.in_order, place, "walked already");
    at_.in_grid = false;
    at_.walked |= l.axes;
    if (l.range == LoopRange::block) {
      require(at_.in_blocks && !at_.in_lanes && l.axes == blocks_.axes && l.lanes == at_.lanes &&
                  l.lanes * l.copies == blocks_.step && l.step == 1,
              place, "not the block that its lanes have");
      at_.in_lanes = true;
      return;
    }
    require(l.axes == colliding_ && l.lanes == 1 && l.copies == 1 && l.step == 1, place, "not in order");
    require(l.range == LoopRange::whole || (l.range == LoopRange::listed && has_lists_ && at_.places != 0), place,
            "there are no lists");
    at_.in_order = true;
    at_.from_list = l.range == LoopRange::listed;
  }

  void compute(std::size_t place, InstId id) {
    const Inst& inst = k_.body[id];
    require(inst.prim != Prim::immediate && inst.prim != Prim::gather && !at_.known[id], place, "needs no computing");
    require((facts_.values[id].axes & ~at_.walked) == 0, place,
            "outside a loop over an axis that a value varies along");
    for (int a = 0; a < arity(inst.prim); ++a)
      require(is_known(inst.args[as_index(a)]), place, "uses a value that is not there yet");
    at_.known[id] = true;
  }
  void check(std::size_t place) {
    require(at_.in_grid && !at_.in_blocks && at_.places == 0 && is_known(store_.index), place, "no index of a grid");
    require(!has_checked_ && !is_checked_, place, "checked twice");
    has_checked_ = true;
  }
  void update(std::size_t place) {
    const bool is_atomic = nest_.nodes[place].axis == static_cast<std::uint16_t>(UpdateOrder::atomic);
    require(is_checked_, place, "not all indices are checked before it");
    require(is_known(store_.value) && (is_known(store_.index) || at_.from_list), place,
            "a value that is not there yet");
    require(at_.walked == static_cast<AxisMask>((1u << k_.rank()) - 1), place, "not at each point");
    require(at_.lanes == 1 || at_.in_lanes, place, "done by several threads");
    const bool is_exact =
        store_.combine != Combine::none && store_.combine != Combine::mul && !is_floating(k_.body[store_.value].dtype);
    if (is_atomic) require(is_exact && at_.places == 0 && !at_.in_order, place, "any order leaves any bits");
    else require(at_.in_order, place, "points that collide are not in order");
    const int places = at_.places == 0 ? all_places : at_.places;
    require((done_ & places) == 0 && (most_ == 0 || most_ == at_.most), place, "done twice");
    done_ |= places;
    most_ = at_.most;
  }

  const LoopNest& nest_;
  const Kernel& k_;
  const KernelFacts facts_;
  const Store& store_;
  const AxisMask colliding_, indexed_;
  Scope at_;
  Loop blocks_;  // around the loop over lanes
  int threads_ = 0, done_ = 0;
  std::int64_t most_ = 0;
  bool is_checked_ = false, has_lists_ = false;    // by stages before
  bool has_checked_ = false, has_listed_ = false;  // by this one
};

}  // namespace kernel_detail
SINTER_NAMESPACE_END
