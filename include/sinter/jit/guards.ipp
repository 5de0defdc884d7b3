// Comparing arguments with specs, quickly and then in words.
#pragma once

#include <sinter/jit/guards.hpp>

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
    case GuardKind::relation: return "relation";
    case GuardKind::fixed_value: return "value";
    case GuardKind::number_kind: return "number kind";
    case GuardKind::alias: return "alias";
  }
  __builtin_unreachable();
}

SINTER_DECL bool is_dense(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    std::int64_t extent = shape[i].value();
    if (extent == 0) return true;
    if (extent != 1 && strides[static_cast<std::size_t>(i)] != step) return false;
    step *= extent;
  }
  return true;
}

namespace jit_detail {
inline bool layout_fits(const LeafSpec& spec, const ArgLeaf& arg) {
  if (spec.is_dense) return is_dense(arg.type->shape, *arg.strides);
  for (std::size_t i = 0; i < spec.rank; ++i)
    if ((*arg.strides)[i] != spec.strides[i]) return false;
  return true;
}
/// Same extents and same strides as in the trace: what most calls are, and quicker to see than that a layout is dense.
inline bool is_as_traced(const LeafSpec& spec, const Type& type, const Strides& strides) {
  bool is_same = true;
  for (std::size_t i = 0; i < spec.rank; ++i) is_same &= identical(spec.extents[i], type.shape.begin()[i]) & (spec.strides[i] == strides[i]);
  return is_same;
}
inline bool leaf_fits(const LeafSpec& spec, const ArgLeaf& arg) {
  if (spec.kind != arg.kind) return false;
  if (spec.kind == LeafKind::fixed) return spec.fixed == arg.integer;
  if (spec.kind == LeafKind::scalar) return spec.number_kind == arg.number_kind;
  const Type& type = *arg.type;
  if (type.dtype != spec.dtype || !(type.device == spec.device) || type.shape.rank() != spec.rank) return false;
  if (SINTER_LIKELY(is_as_traced(spec, type, *arg.strides))) return true;
  for (int i = 0; i < spec.rank; ++i) {
    Dim expected = spec.extents[static_cast<std::size_t>(i)], actual = type.shape.begin()[i];
    if (!identical(expected, actual) && (expected.is_static() || actual.value() < 2)) return false;
  }
  return layout_fits(spec, arg);
}
/// The first leaf before `leaf` that is the same Variable, or -1.
inline std::int16_t earlier_alias(std::span<const ArgLeaf> args, std::size_t leaf) {
  for (std::size_t i = 0; i < leaf; ++i)
    if (args[i].slot == args[leaf].slot) return static_cast<std::int16_t>(i);
  return -1;
}
/// Variables are the same ones, and different ones, as in the trace. Slots that fall on a bit of their own are new.
inline bool aliases_fit(std::span<const LeafSpec> specs, std::span<const ArgLeaf> args) {
  std::array<std::uint64_t, 16> seen{};
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (specs[i].kind != LeafKind::variable) continue;
    std::uint64_t place = (reinterpret_cast<std::uintptr_t>(args[i].slot) >> 4) * 0x9E3779B97F4A7C15ULL >> 54;
    std::uint64_t& word = seen[place / 64];
    bool may_be_known = (word >> (place % 64) & 1) != 0;
    word |= std::uint64_t{1} << (place % 64);
    if ((may_be_known ? earlier_alias(args, i) : std::int16_t{-1}) != specs[i].same_slot_as) return false;
  }
  return true;
}
inline bool relation_holds(const DimGuard& guard, std::span<const std::int64_t> symbols) {
  std::int64_t a = guard.lhs.evaluate(symbols), b = guard.rhs.evaluate(symbols);
  return (guard.relation == DimRelation::less ? a < b : a == b) == guard.outcome;
}
inline std::string leaf_name(std::size_t leaf) { return "argument leaf " + std::to_string(leaf); }
}  // namespace jit_detail

SINTER_DECL bool GuardSet::holds(std::span<const ArgLeaf> args, SmallVector<std::int64_t, 8>& symbol_values) const {
  if (args.size() != leaves.size()) return false;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (!jit_detail::leaf_fits(leaves[i], args[i])) return false;
  if (has_variables && !jit_detail::aliases_fit(leaves, args)) return false;
  symbol_values.clear();
  for (SymbolSource source : symbols)
    symbol_values.push_back(args[static_cast<std::size_t>(source.leaf)].type->shape.begin()[source.axis].value());
  for (const DimGuard& guard : dims)
    if (!jit_detail::relation_holds(guard, symbol_values)) return false;
  return true;
}

namespace jit_detail {
inline std::optional<Guard> broken_leaf(const LeafSpec& spec, std::span<const ArgLeaf> args, std::size_t i) {
  const ArgLeaf& arg = args[i];
  auto broken = [&](GuardKind kind, const std::string& what) { return Guard{kind, static_cast<int>(i), -1, what + " of " + leaf_name(i)}; };
  auto expected_got = [](std::string expected, std::string got) { return ": expected " + std::move(expected) + ", got " + std::move(got); };
  if (spec.kind != arg.kind) return broken(GuardKind::structure, "kind");
  if (spec.kind == LeafKind::fixed) {
    if (spec.fixed == arg.integer) return {};
    return Guard{GuardKind::fixed_value, static_cast<int>(i), -1, "static value or container size of " + leaf_name(i) + expected_got(std::to_string(spec.fixed), std::to_string(arg.integer))};
  }
  if (spec.kind == LeafKind::scalar) {
    if (spec.number_kind == arg.number_kind) return {};
    return broken(GuardKind::number_kind, "integer or floating number");
  }
  const Type& type = *arg.type;
  if (type.dtype != spec.dtype) {
    Guard guard = broken(GuardKind::dtype, "dtype");
    guard.reason += expected_got(std::string(sinter::name(spec.dtype)), std::string(sinter::name(type.dtype)));
    return guard;
  }
  if (!(type.device == spec.device)) return broken(GuardKind::device, "device");
  if (type.shape.rank() != spec.rank) {
    Guard guard = broken(GuardKind::rank, "rank");
    guard.reason += expected_got(std::to_string(spec.rank), std::to_string(type.shape.rank()));
    return guard;
  }
  for (int axis = 0; axis < spec.rank; ++axis) {
    Dim expected = spec.extents[static_cast<std::size_t>(axis)], actual = type.shape[axis];
    if (identical(expected, actual) || (!expected.is_static() && actual.value() >= 2)) continue;
    Guard guard = broken(GuardKind::extent, "extent of axis " + std::to_string(axis));
    guard.axis = axis;
    guard.reason += expected_got(expected.is_static() ? expected.text() : expected.text() + " >= 2", actual.text());
    return guard;
  }
  if (spec.kind == LeafKind::variable && spec.same_slot_as != earlier_alias(args, i)) {
    Guard guard = broken(GuardKind::alias, "Variable");
    guard.reason += spec.same_slot_as < 0 ? " is the same as an earlier one now" : " is no longer the same as leaf " + std::to_string(spec.same_slot_as);
    return guard;
  }
  if (!layout_fits(spec, arg)) return broken(GuardKind::layout, "layout (strides)");
  return {};
}
}  // namespace jit_detail

SINTER_DECL std::optional<Guard> GuardSet::first_broken(std::span<const ArgLeaf> args) const {
  if (args.size() != leaves.size())
    return Guard{GuardKind::structure, -1, -1, "number of leaves: expected " + std::to_string(leaves.size()) + ", got " + std::to_string(args.size())};
  for (std::size_t i = 0; i < args.size(); ++i)
    if (auto broken = jit_detail::broken_leaf(leaves[i], args, i)) return broken;
  SmallVector<std::int64_t, 8> values;
  for (SymbolSource source : symbols) values.push_back(args[static_cast<std::size_t>(source.leaf)].type->shape[source.axis].value());
  for (const DimGuard& guard : dims) {
    if (jit_detail::relation_holds(guard, values)) continue;
    const char* sign = guard.relation == DimRelation::less ? (guard.outcome ? " < " : " >= ") : (guard.outcome ? " == " : " != ");
    return Guard{GuardKind::relation, -1, -1, "relation " + guard.lhs.text() + sign + guard.rhs.text() + " no longer holds"};
  }
  return {};
}

SINTER_DECL std::string GuardSet::text() const {
  std::string text;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const LeafSpec& spec = leaves[i];
    text += "  leaf " + std::to_string(i) + ": ";
    if (spec.kind == LeafKind::fixed) text += "static value " + std::to_string(spec.fixed);
    else if (spec.kind == LeafKind::scalar) text += spec.number_kind == DTypeClass::floating ? "run-time floating number" : "run-time integer";
    else {
      Shape shape;
      for (std::size_t axis = 0; axis < spec.rank; ++axis) shape.push_back(spec.extents[axis]);
      text += Type{spec.dtype, spec.device, shape}.text() + (spec.is_dense ? " dense" : " strided");
      if (spec.kind == LeafKind::variable) text += " (Variable, read at each call)";
    }
    text += "\n";
  }
  for (const DimGuard& guard : dims)
    text += "  " + guard.lhs.text() + (guard.relation == DimRelation::less ? (guard.outcome ? " < " : " >= ") : (guard.outcome ? " == " : " != ")) + guard.rhs.text() + "\n";
  return text;
}

SINTER_DECL LeafSpec spec_of(std::span<const ArgLeaf> args, std::size_t leaf, std::uint32_t symbolic, SymbolId& next_symbol) {
  const ArgLeaf& arg = args[leaf];
  LeafSpec spec;
  spec.kind = arg.kind;
  if (arg.kind == LeafKind::fixed) spec.fixed = arg.integer;
  if (arg.kind == LeafKind::scalar) spec.number_kind = arg.number_kind;
  if (arg.kind != LeafKind::tensor && arg.kind != LeafKind::variable) return spec;
  spec.dtype = arg.type->dtype;
  spec.device = arg.type->device;
  spec.rank = static_cast<std::uint8_t>(arg.type->shape.rank());
  spec.is_dense = is_dense(arg.type->shape, *arg.strides);
  spec.strides = *arg.strides;
  for (int axis = 0; axis < spec.rank; ++axis) {
    Dim extent = arg.type->shape[axis];
    bool becomes_symbol = (symbolic >> axis & 1) != 0 && extent.value() >= 2 && spec.is_dense;
    spec.extents[static_cast<std::size_t>(axis)] = becomes_symbol ? Dim::symbol(next_symbol++) : extent;
  }
  if (arg.slot != nullptr) spec.same_slot_as = jit_detail::earlier_alias(args, leaf);
  return spec;
}

}  // namespace jit
SINTER_NAMESPACE_END
