// Writes the nodes of a nest in pre-order: what is opened is closed, and takes in what is added between. Decides
// nothing.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

class NestWriter {
 protected:
  explicit NestWriter(const Kernel& kernel) { nest_.kernel = &kernel; }

  std::size_t open(NestNode node) {
    nest_.nodes.push_back(node);
    return nest_.nodes.size() - 1;
  }
  void close(std::size_t place) { nest_.nodes[place].end = static_cast<std::uint32_t>(nest_.nodes.size()); }
  void add(NestNode node) { close(open(node)); }
  /// Ends all that is open from this node on.
  void close_from(std::size_t place) {
    for (std::size_t i = place; i < nest_.nodes.size(); ++i)
      if (nest_.nodes[i].end == 0) close(i);
  }

  std::size_t open_variant(VariantKind kind) {
    nest_.variants.push_back(kind);
    return open({.kind = NestNodeKind::variant, .first = static_cast<std::uint16_t>(nest_.variants.size() - 1)});
  }
  std::size_t open_stage(int threads = 0) {
    return open({.kind = NestNodeKind::stage, .count = static_cast<std::uint16_t>(threads)});
  }
  std::size_t open_loop(const Loop& loop) {
    nest_.loops.push_back(loop);
    return open({.kind = NestNodeKind::loop, .first = static_cast<std::uint16_t>(nest_.loops.size() - 1)});
  }
  std::size_t open_vector(int copies, LoopRange range = LoopRange::whole) {
    return open_loop({.axes = axis_bit(nest_.vector_axis),
                      .mode = LoopMode::vector,
                      .tail = LoopTail::mask,
                      .range = range,
                      .copies = static_cast<std::uint8_t>(copies),
                      .step = nest_.lanes});
  }

  /// A node of ids: `take(id)` says which of the list it has. Nothing where it has none.
  template <class Take>
  void add_ids(NestNodeKind kind, std::span<const InstId> list, Take&& take) {
    const std::size_t first = nest_.ids.size();
    for (const InstId id : list)
      if (take(id)) nest_.ids.push_back(id);
    add_ids_since(kind, first);
  }
  void add_ids_since(NestNodeKind kind, std::size_t first) {
    if (nest_.ids.size() == first) return;
    add({.kind = kind,
         .first = static_cast<std::uint16_t>(first),
         .count = static_cast<std::uint16_t>(nest_.ids.size() - first)});
  }
  /// Those of a list that `take` says, with a step for each scan among them.
  template <class Take>
  void add_computes(std::span<const InstId> list, Take&& take) {
    std::size_t first = nest_.ids.size();
    for (const InstId id : list) {
      if (!take(id)) continue;
      if (is_scan(nest_.kernel->body[id].prim)) {
        add_ids_since(NestNodeKind::compute, first);
        first = add_step_of(id);
      } else {
        nest_.ids.push_back(id);
      }
    }
    add_ids_since(NestNodeKind::compute, first);
  }
  /// Gives the place of the next id.
  std::size_t add_step_of(InstId scan) {
    const std::size_t first = nest_.ids.size();
    nest_.ids.push_back(scan);
    add_ids_since(NestNodeKind::step, first);
    return nest_.ids.size();
  }
  void add_stores(const StoreList& stores) {
    for (const std::uint16_t s : stores) add({.kind = NestNodeKind::store, .first = s});
  }
  void add_check(InstId gather) { add({.kind = NestNodeKind::check, .first = gather}); }

  LoopNest nest_;
};

}  // namespace kernel_detail
SINTER_NAMESPACE_END
