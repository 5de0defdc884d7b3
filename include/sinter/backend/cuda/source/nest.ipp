// Dropping and merging of axes; facts of the body.
#pragma once

#include <sinter/backend/cuda/source/nest.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// The kernel's axes that stay: an axis of one point has index 0 wherever it is read. One reduced axis always stays
/// where there is a reduction.
inline AxisList kept_axes(const Kernel& kernel, const BoundGeometry& geometry) {
  AxisList kept;
  bool has_reduced = false;
  for (int a = 0; a < kernel.rank(); ++a)
    if (geometry.extent[as_index(a)] != 1) kept.push_back(a), has_reduced |= kernel.is_reduced(a);
  if (!has_reduced)
    for (int a = kernel.rank(); a-- > 0;)
      if (kernel.is_reduced(a)) {
        kept.push_back(a);
        break;
      }
  return kept;
}

SINTER_DECL Nest make_nest(const Kernel& kernel, const BoundGeometry& geometry) {
  const AxisMask indexed = indexed_axes(kernel);
  Nest nest;
  nest.kernel = kernel;
  nest.kernel.axes.clear();
  nest.geometry = geometry;
  std::array<int, max_axes> new_axis;
  new_axis.fill(-1);
  int last[2] = {-1, -1};  // of each role: the new axis, and the old one that it ends in
  int last_old[2] = {-1, -1};
  for (int a : kept_axes(kernel, geometry)) {
    const int role = kernel.is_reduced(a);
    const std::int64_t extent = geometry.extent[as_index(a)];
    const bool joins = last[role] >= 0 && ((indexed >> a | indexed >> last_old[role]) & 1) == 0 && last_old[role] < a &&
                       runs_on(kernel, geometry, last_old[role], a, extent);
    const int axis = joins ? last[role] : static_cast<int>(nest.kernel.axes.size());
    const auto at = as_index(axis);
    if (!joins) {
      nest.kernel.axes.push_back(kernel.axes[as_index(a)]);
      (role ? nest.reduced : nest.parallel).push_back(axis);
    }
    nest.geometry.extent[at] = joins ? nest.geometry.extent[at] * extent : extent;
    for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
      const std::int64_t stride = stride_of(kernel, geometry, i, a);
      nest.geometry.accesses[i].stride[at] = stride;
      nest.kernel.accesses[i].stride[at] = stride == 0   ? StrideClass::zero
                                           : stride == 1 ? StrideClass::unit
                                                         : StrideClass::any;
    }
    new_axis[as_index(a)] = axis;
    last[role] = axis;
    last_old[role] = a;
  }
  for (Access& access : nest.kernel.accesses)
    for (std::size_t a = nest.kernel.axes.size(); a < max_axes; ++a) access.stride[a] = StrideClass::zero;
  for (Inst& inst : nest.kernel.body) {
    if (inst.prim != Prim::index) continue;
    const int axis = new_axis[inst.bits];
    if (axis < 0) inst = {.prim = Prim::immediate, .dtype = DType::i64};
    else inst.bits = static_cast<std::uint64_t>(axis);
  }
  nest.facts = facts_of(nest.kernel);
  for (const std::uint16_t s : nest.facts.inner_stores) nest.inner_stores.push_back(nest.kernel.stores[s]);
  for (const std::uint16_t s : nest.facts.outer_stores) nest.outer_stores.push_back(nest.kernel.stores[s]);
  return nest;
}

SINTER_DECL std::vector<std::uint16_t> Nest::used_accesses() const {
  std::vector<std::uint16_t> used;
  for (std::size_t i = 0; i < kernel.body.size(); ++i)
    if (is_live(i) && reads_memory(kernel.body[i].prim)) used.push_back(kernel.body[i].access);
  for (const Store& store : kernel.stores) used.push_back(store.access);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

SINTER_DECL Nest::KeptWalks Nest::kept_walks() const {
  KeptWalks walks;
  const std::size_t count = kernel.body.size();
  walks.is_kept.assign(count, false);
  std::vector<int> first(count, -1), last(count, -1);
  for (int pass = 0; pass <= depths(); ++pass) {
    std::vector<InstId>& fresh = walks.fresh.emplace_back();
    if (!is_full_walk(pass)) continue;
    std::vector<bool> needed(count);
    for (InstId reduction : reductions_of(pass))
      for (int k = 0; k < arity(inst(reduction).prim); ++k) needed[inst(reduction).args[as_index(k)]] = true;
    if (pass == depths())
      for (const Store& store : inner_stores) needed[store.value] = true;
    for (std::size_t i = count; i-- > 0;) {
      if (!needed[i] || !is_inner(i)) continue;
      last[i] = pass;
      if (first[i] >= 0) continue;  // made by an earlier walk
      first[i] = pass;
      fresh.push_back(static_cast<InstId>(i));
      for (int k = 0; k < arity(kernel.body[i].prim); ++k) needed[kernel.body[i].args[as_index(k)]] = true;
    }
    std::reverse(fresh.begin(), fresh.end());
  }
  for (std::size_t i = 0; i < count; ++i) walks.is_kept[i] = last[i] > first[i];
  for (int pass = 0; pass <= depths(); ++pass) {
    int words = 0, shared_words = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_held = first[i] >= 0 && first[i] < pass && last[i] >= pass,
                 is_loaded = first[i] == pass && kernel.body[i].prim == Prim::load;
      const int own = size_of(kernel.body[i].dtype) == 8 ? 2 : 1;
      if (is_held || is_loaded) words += own;
      if (!is_held && is_loaded && is_shared_by_rows(static_cast<InstId>(i))) shared_words += own;
    }
    walks.words = std::max(walks.words, words);
    walks.own_words = std::max(walks.own_words, words - shared_words);
  }
  return walks;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
