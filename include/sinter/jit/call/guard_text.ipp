// Finding what is broken, kind by kind, and the words for it.
#pragma once

#include <sinter/jit/call/guard_text.hpp>

#include <sinter/base/index.hpp>
#include <sinter/jit/call/guards.ipp>  // the comparisons

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL std::string_view name(GuardKind kind) {
  switch (kind) {
    case GuardKind::structure: return "structure";
    case GuardKind::dtype: return "dtype";
    case GuardKind::device: return "device";
    case GuardKind::rank: return "rank";
    case GuardKind::layout: return "layout";
    case GuardKind::extent: return "extent";
    case GuardKind::range: return "range";
    case GuardKind::relation: return "relation";
    case GuardKind::divisibility: return "divisibility";
    case GuardKind::fixed_value: return "value";
    case GuardKind::number_kind: return "number kind";
    case GuardKind::alias: return "alias";
    case GuardKind::predicate: return "predicate";
    case GuardKind::precision: return "precision";
    case GuardKind::gradient: return "gradient";
    case GuardKind::ranks: return "ranks";
  }
  __builtin_unreachable();
}

namespace jit_detail {
inline std::string leaf_name(const GuardSet& guards, std::size_t leaf) {
  return leaf < guards.names.size() ? guards.names.text(leaf) : "argument leaf " + std::to_string(leaf);
}
inline std::string expected_got(const std::string& expected, const std::string& got) {
  return ": expected " + expected + ", got " + got;
}
inline std::string strides_text(const Dim* strides, std::size_t rank) {
  return Shape(std::span<const Dim>(strides, rank)).text();
}
inline std::string strides_text(const Strides& strides, std::size_t rank) {
  return Shape(std::span<const std::int64_t>(strides.data(), rank)).text();
}
inline std::string_view kind_text(LeafKind kind) {
  switch (kind) {
    case LeafKind::tensor: return "a tensor";
    case LeafKind::scalar: return "a number";
    case LeafKind::fixed: return "a static value";
    case LeafKind::variable: return "a Variable";
  }
  __builtin_unreachable();
}
/// "s0 < s1", as it was answered.
inline std::string relation(const DimGuard& guard) {
  const std::string sign =
      guard.relation == DimRelation::less ? (guard.outcome ? " < " : " >= ") : (guard.outcome ? " == " : " != ");
  return guard.lhs.text() + sign + guard.rhs.text();
}
SINTER_DECL std::string relation_text(const DimGuard& guard) {
  std::string text = relation(guard);
  if (!guard.op.empty()) text += ", as " + std::string(guard.op) + " needs it";
  else text += ", which the function asked";
  return guard.where.file != nullptr ? text + " [" + guard.where.text() + "]" : text;
}
SINTER_DECL std::string source_text(const GuardSet& guards, const SymbolSource& source) {
  return (source.is_stride ? "stride of axis " : "extent of axis ") + std::to_string(source.axis) + " of " +
         leaf_name(guards, as_index(source.leaf));
}
inline std::string range_text(const SymbolSource& source) {
  if (source.max >= std::int64_t{1} << 60) return "at least " + std::to_string(source.least());
  return std::to_string(source.least()) + " to " + std::to_string(source.max);
}
SINTER_DECL std::string mentioned_symbols(const GuardSet& guards, const DimGuard& guard,
                                          std::span<const std::int64_t> values) {
  std::vector<SymbolId> used;
  guard.lhs.collect_symbols(used);
  guard.rhs.collect_symbols(used);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::string text;
  for (SymbolId id : used) {
    text += (text.empty() ? "" : ", ") + ("s" + std::to_string(id));
    if (!values.empty()) text += " = " + std::to_string(values[id]);
    text += ": " + source_text(guards, guards.symbols[id]);
  }
  return text;
}

/// "extent of axis 0 of argument 1: expected 4, got 5".
inline Guard mismatch(GuardKind kind, int leaf, int axis, const std::string& what, std::string argument,
                      std::string expected, std::string got) {
  std::string reason = what + expected_got(expected, got);
  return {kind, leaf, axis, std::move(reason), std::move(argument), std::move(expected), std::move(got)};
}

inline void find_broken_extents(const GuardSet& guards, const ArgLeaf& arg, std::size_t i, std::vector<Guard>& broken) {
  const LeafSpec& spec = guards.leaves[i];
  const std::string leaf = leaf_name(guards, i);
  for (int axis = 0; axis < spec.rank; ++axis) {
    const Dim expected = spec.extents[as_index(axis)], actual = arg.type->shape[axis];
    if (!expected.is_static() || identical(expected, actual)) continue;
    broken.push_back(mismatch(GuardKind::extent, static_cast<int>(i), axis,
                              "extent of axis " + std::to_string(axis) + " of " + leaf, leaf, expected.text(),
                              actual.text()));
  }
}

inline void find_broken_tensor(const GuardSet& guards, std::span<const ArgLeaf> args, std::size_t i,
                               std::vector<Guard>& broken) {
  const LeafSpec& spec = guards.leaves[i];
  const ArgLeaf& arg = args[i];
  const Type& type = *arg.type;
  const std::string leaf = leaf_name(guards, i);
  const int position = static_cast<int>(i);
  if (type.dtype != spec.dtype)
    broken.push_back(mismatch(GuardKind::dtype, position, -1, "dtype of " + leaf, leaf,
                              std::string(sinter::name(spec.dtype)), std::string(sinter::name(type.dtype))));
  if (!(type.device == spec.device))
    broken.push_back(
        mismatch(GuardKind::device, position, -1, "device of " + leaf, leaf, spec.device.text(), type.device.text()));
  if (type.shape.rank() != spec.rank)
    return broken.push_back(mismatch(GuardKind::rank, position, -1, "rank of " + leaf, leaf, std::to_string(spec.rank),
                                     std::to_string(type.shape.rank())));
  const std::size_t before = broken.size();
  find_broken_extents(guards, arg, i, broken);
  if (spec.kind == LeafKind::variable && spec.same_slot_as != earlier_alias(args, i)) {
    const bool is_shared_now = spec.same_slot_as < 0;
    const std::string other = is_shared_now ? "an earlier one" : leaf_name(guards, as_index(spec.same_slot_as));
    const std::string what =
        is_shared_now ? " is the same Variable as an earlier one now" : " is no longer the same Variable as " + other;
    broken.push_back({GuardKind::alias, position, -1, leaf + what, leaf,
                      is_shared_now ? "a Variable of its own" : "the same Variable as " + other,
                      is_shared_now ? "the same Variable as " + other : "another Variable"});
  }
  // Strides follow from extents: those that differ have been said.
  if (broken.size() != before || layout_fits(spec, arg) || is_as_traced(spec, type, *arg.strides)) return;
  const bool is_dense_now = is_dense(type.shape, *arg.strides);
  broken.push_back(
      mismatch(GuardKind::layout, position, -1, "layout of " + leaf, leaf,
               spec.is_dense ? "dense (row-major)" : "strides " + strides_text(spec.stride_dims.data(), spec.rank),
               is_dense_now ? "dense" : "strides " + strides_text(*arg.strides, spec.rank)));
}

inline void find_broken_leaf(const GuardSet& guards, std::span<const ArgLeaf> args, std::size_t i,
                             std::vector<Guard>& broken) {
  const LeafSpec& spec = guards.leaves[i];
  const ArgLeaf& arg = args[i];
  const std::string leaf = leaf_name(guards, i);
  const int position = static_cast<int>(i);
  if (spec.kind != arg.kind)
    return broken.push_back(mismatch(GuardKind::structure, position, -1, leaf, leaf, std::string(kind_text(spec.kind)),
                                     std::string(kind_text(arg.kind))));
  if (spec.kind == LeafKind::fixed) {
    if (spec.fixed == arg.integer) return;
    const bool is_structure = guards.names.is_structure(i);
    return broken.push_back(mismatch(is_structure ? GuardKind::structure : GuardKind::fixed_value, position, -1,
                                     is_structure ? leaf : "value of " + leaf, leaf, std::to_string(spec.fixed),
                                     std::to_string(arg.integer)));
  }
  if (spec.kind == LeafKind::scalar) {
    if (spec.number_kind == arg.number_kind) return;
    auto text = [](DTypeClass kind) {
      return std::string(kind == DTypeClass::floating ? "a floating number" : "an integer");
    };
    return broken.push_back(
        mismatch(GuardKind::number_kind, position, -1, leaf, leaf, text(spec.number_kind), text(arg.number_kind)));
  }
  find_broken_tensor(guards, args, i, broken);
}

inline void find_broken_symbol(const GuardSet& guards, const SymbolSource& source, std::int64_t value,
                               std::vector<Guard>& broken) {
  if (is_in_range(source, value)) return;
  const bool is_divisible = value % source.divisor == 0;
  const std::string expected = is_divisible ? range_text(source) : "a multiple of " + std::to_string(source.divisor);
  broken.push_back(mismatch(is_divisible ? GuardKind::range : GuardKind::divisibility, source.leaf, source.axis,
                            source_text(guards, source), leaf_name(guards, as_index(source.leaf)), expected,
                            std::to_string(value)));
}

/// What the symbols are in these arguments, whose ranks fit, decides these guards.
inline void find_broken_relations(const GuardSet& guards, std::span<const ArgLeaf> args, std::vector<Guard>& broken) {
  SmallVector<std::int64_t, 8> values;
  const std::size_t before = broken.size();
  for (const SymbolSource& source : guards.symbols) {
    values.push_back(value_of(source, args));
    find_broken_symbol(guards, source, values.back(), broken);
  }
  if (broken.size() != before) return;
  for (const DimGuard& guard : guards.dims)
    if (!relation_holds(guard, values)) {
      const std::string symbols = mentioned_symbols(guards, guard, values);
      broken.push_back({GuardKind::relation, -1, -1,
                        "relation " + relation_text(guard) + ", no longer holds (" + symbols + ")", "", relation(guard),
                        symbols});
    }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const LeafSpec& spec = guards.leaves[i];
    if (spec.is_dense || strides_fit(spec, args[i], values)) continue;
    const std::string leaf = leaf_name(guards, i);
    broken.push_back(mismatch(GuardKind::layout, static_cast<int>(i), -1, "layout of " + leaf, leaf,
                              "strides " + strides_text(spec.stride_dims.data(), spec.rank),
                              "strides " + strides_text(*args[i].strides, spec.rank)));
  }
}

inline bool ranks_fit(std::span<const LeafSpec> specs, std::span<const ArgLeaf> args) {
  for (std::size_t i = 0; i < args.size(); ++i)
    if (specs[i].kind != args[i].kind || (args[i].type != nullptr && args[i].type->shape.rank() != specs[i].rank))
      return false;
  return true;
}
}  // namespace jit_detail

SINTER_DECL Guard broken_precision(MatmulPrecision expected, MatmulPrecision got) {
  return jit_detail::mismatch(GuardKind::precision, -1, -1, "matmul_precision() of the process", "",
                              std::string(sinter::name(expected)), std::string(sinter::name(got)));
}

SINTER_DECL std::vector<Guard> GuardSet::broken(std::span<const ArgLeaf> args) const {
  std::vector<Guard> broken;
  const std::size_t common = std::min(args.size(), leaves.size());
  for (std::size_t i = 0; i < common; ++i) {
    const bool is_structure = names.is_structure(i);
    if (args.size() != leaves.size() && !is_structure) continue;  // a size that differs explains all that follows
    jit_detail::find_broken_leaf(*this, args, i, broken);
  }
  if (args.size() != leaves.size()) {
    if (broken.empty())
      broken.push_back(jit_detail::mismatch(GuardKind::structure, -1, -1, "number of leaves", "",
                                            std::to_string(leaves.size()), std::to_string(args.size())));
    return broken;
  }
  if (jit_detail::ranks_fit(leaves, args)) jit_detail::find_broken_relations(*this, args, broken);
  return broken;
}

SINTER_DECL std::string GuardSet::text() const {
  std::string text;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const LeafSpec& spec = leaves[i];
    text += "  " + jit_detail::leaf_name(*this, i) + ": ";
    if (spec.kind == LeafKind::fixed) text += "static value " + std::to_string(spec.fixed);
    else if (spec.kind == LeafKind::scalar)
      text += spec.number_kind == DTypeClass::floating  ? "run-time floating number"
              : spec.number_kind == DTypeClass::integer ? "run-time integer"
                                                        : "run-time bool";
    else {
      Shape shape;
      for (std::size_t axis = 0; axis < spec.rank; ++axis) shape.push_back(spec.extents[axis]);
      text += Type{spec.dtype, spec.device, shape}.text();
      text += spec.is_dense ? " dense" : " strides " + jit_detail::strides_text(spec.stride_dims.data(), spec.rank);
      if (spec.kind == LeafKind::variable) text += " (Variable, read at each call)";
    }
    text += "\n";
  }
  for (std::size_t id = 0; id < symbols.size(); ++id) {
    text += "  s" + std::to_string(id) + ": " + jit_detail::source_text(*this, symbols[id]) + ", " +
            jit_detail::range_text(symbols[id]);
    text += symbols[id].divisor == 1 ? "\n" : ", a multiple of " + std::to_string(symbols[id].divisor) + "\n";
  }
  for (const DimGuard& guard : dims) text += "  " + jit_detail::relation_text(guard) + "\n";
  return text;
}

}  // namespace jit
SINTER_NAMESPACE_END
