// Guards in words: the first broken one with what was expected and what came, and the list for explain().
#pragma once

#include <sinter/jit/call.hpp>
#include <sinter/jit/guards.hpp>

#include <sinter/jit/guards.ipp>

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
  }
  __builtin_unreachable();
}

namespace jit_detail {
/// Names the leaves of the arguments, in the order in which ArgList has them.
struct NameVisitor final : tree::Reader {
  explicit NameVisitor(LeafNames& list) : names(list) {}
  LeafNames& names;
  std::int32_t at = -1;

  void enter(tree::Step step) {
    names.parts_.push_back({at, std::move(step)});
    at = static_cast<std::int32_t>(names.parts_.size()) - 1;
  }
  bool knows_path() const override { return true; }
  void enter_part(tree::Step::Kind kind, std::uint32_t index, std::string_view fields) override { enter({kind, index, fields, {}}); }
  void enter_key(std::string key) override { enter({tree::Step::Kind::key, 0, {}, std::move(key)}); }
  void leave_part() override { at = names.parts_[static_cast<std::size_t>(at)].whole; }
  void tensor(const Tensor&) override { leaf(); }
  void scalar(const Scalar&) override { leaf(); }
  void variable(const Variable&) override { leaf(); }
  void fixed(std::int64_t) override { leaf(); }
  void dim(const Dim&) override { leaf(); }
  void structure(const char* what, std::int64_t) override { names.leaves_.push_back({at, what}); }
  void leaf() { names.leaves_.push_back({at, nullptr}); }
};

SINTER_DECL void name_leaves(LeafNames& names, std::span<const TracedArgument> arguments) {
  NameVisitor visitor(names);
  for (std::uint32_t position = 0; position < arguments.size(); ++position) {
    visitor.enter({tree::Step::Kind::argument, position, {}, {}});
    if (arguments[position].names.visit == nullptr) visitor.leaf();
    else arguments[position].names.read(visitor);
    visitor.leave_part();
  }
}
}  // namespace jit_detail

SINTER_DECL std::string LeafNames::text(std::size_t leaf) const {
  std::string text;
  for (std::int32_t part = leaves_[leaf].part; part >= 0; part = parts_[static_cast<std::size_t>(part)].whole)
    text = parts_[static_cast<std::size_t>(part)].step.text() + text;
  return leaves_[leaf].structure != nullptr ? leaves_[leaf].structure + (" of " + text) : text;
}

namespace jit_detail {
inline std::string leaf_name(const GuardSet& guards, std::size_t leaf) {
  return leaf < guards.names.size() ? guards.names.text(leaf) : "argument leaf " + std::to_string(leaf);
}
inline std::string expected_got(const std::string& expected, const std::string& got) { return ": expected " + expected + ", got " + got; }
inline std::string strides_text(const Dim* strides, std::size_t rank) { return Shape(std::span<const Dim>(strides, rank)).text(); }
inline std::string strides_text(const Strides& strides, std::size_t rank) { return Shape(std::span<const std::int64_t>(strides.data(), rank)).text(); }
inline std::string_view kind_text(LeafKind kind) {
  switch (kind) {
    case LeafKind::tensor: return "a tensor";
    case LeafKind::scalar: return "a number";
    case LeafKind::fixed: return "a static value";
    case LeafKind::variable: return "a Variable";
  }
  __builtin_unreachable();
}
inline std::string sign_of(const DimGuard& guard) {
  return guard.relation == DimRelation::less ? (guard.outcome ? " < " : " >= ") : (guard.outcome ? " == " : " != ");
}
inline std::string relation_text(const DimGuard& guard) {
  std::string text = guard.lhs.text() + sign_of(guard) + guard.rhs.text();
  if (!guard.op.empty()) text += ", as " + std::string(guard.op) + " needs it";
  else text += ", which the function asked";
  return guard.where.file != nullptr ? text + " [" + guard.where.text() + "]" : text;
}
/// "extent of axis 0 of argument 1", "stride of ...".
inline std::string source_text(const GuardSet& guards, const SymbolSource& source) {
  return (source.is_stride ? "stride of axis " : "extent of axis ") + std::to_string(source.axis) + " of " + leaf_name(guards, static_cast<std::size_t>(source.leaf));
}
inline std::string range_text(const SymbolSource& source) {
  if (source.max >= std::int64_t{1} << 60) return "at least " + std::to_string(source.least());
  return std::to_string(source.least()) + " to " + std::to_string(source.max);
}
/// "s0 = 5 (extent of axis 0 of argument 1)" for each symbol that the guard mentions.
inline std::string mentioned_symbols(const GuardSet& guards, const DimGuard& guard, std::span<const std::int64_t> values) {
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

inline std::optional<Guard> broken_tensor(const GuardSet& guards, std::span<const ArgLeaf> args, std::size_t i) {
  const LeafSpec& spec = guards.leaves[i];
  const ArgLeaf& arg = args[i];
  const Type& type = *arg.type;
  const std::string leaf = leaf_name(guards, i);
  const int position = static_cast<int>(i);
  if (type.dtype != spec.dtype)
    return Guard{GuardKind::dtype, position, -1, "dtype of " + leaf + expected_got(std::string(sinter::name(spec.dtype)), std::string(sinter::name(type.dtype)))};
  if (!(type.device == spec.device)) return Guard{GuardKind::device, position, -1, "device of " + leaf + expected_got(spec.device.text(), type.device.text())};
  if (type.shape.rank() != spec.rank)
    return Guard{GuardKind::rank, position, -1, "rank of " + leaf + expected_got(std::to_string(spec.rank), std::to_string(type.shape.rank()))};
  for (int axis = 0; axis < spec.rank; ++axis) {
    Dim expected = spec.extents[static_cast<std::size_t>(axis)], actual = type.shape[axis];
    if (expected.is_static() && !identical(expected, actual))
      return Guard{GuardKind::extent, position, axis, "extent of axis " + std::to_string(axis) + " of " + leaf + expected_got(expected.text(), actual.text())};
  }
  if (spec.kind == LeafKind::variable && spec.same_slot_as != earlier_alias(args, i)) {
    std::string what = spec.same_slot_as < 0 ? " is the same Variable as an earlier one now" : " is no longer the same Variable as " + leaf_name(guards, static_cast<std::size_t>(spec.same_slot_as));
    return Guard{GuardKind::alias, position, -1, leaf + what};
  }
  if (!layout_fits(spec, arg) && !is_as_traced(spec, type, *arg.strides)) {
    const std::string expected = spec.is_dense ? "dense (row-major)" : "strides " + strides_text(spec.stride_dims.data(), spec.rank);
    const bool is_dense_now = is_dense(type.shape, *arg.strides);
    return Guard{GuardKind::layout, position, -1, "layout of " + leaf + expected_got(expected, is_dense_now ? "dense" : "strides " + strides_text(*arg.strides, spec.rank))};
  }
  return {};
}

inline std::optional<Guard> broken_leaf(const GuardSet& guards, std::span<const ArgLeaf> args, std::size_t i) {
  const LeafSpec& spec = guards.leaves[i];
  const ArgLeaf& arg = args[i];
  const std::string leaf = leaf_name(guards, i);
  const int position = static_cast<int>(i);
  if (spec.kind != arg.kind) return Guard{GuardKind::structure, position, -1, leaf + expected_got(std::string(kind_text(spec.kind)), std::string(kind_text(arg.kind)))};
  if (spec.kind == LeafKind::fixed) {
    if (spec.fixed == arg.integer) return {};
    const bool is_structure = guards.names.is_structure(i);
    return Guard{is_structure ? GuardKind::structure : GuardKind::fixed_value, position, -1,
                 (is_structure ? leaf : "value of " + leaf) + expected_got(std::to_string(spec.fixed), std::to_string(arg.integer))};
  }
  if (spec.kind == LeafKind::scalar) {
    if (spec.number_kind == arg.number_kind) return {};
    auto text = [](DTypeClass kind) { return std::string(kind == DTypeClass::floating ? "a floating number" : "an integer"); };
    return Guard{GuardKind::number_kind, position, -1, leaf + expected_got(text(spec.number_kind), text(arg.number_kind))};
  }
  return broken_tensor(guards, args, i);
}

inline std::optional<Guard> broken_symbol(const GuardSet& guards, const SymbolSource& source, std::int64_t value) {
  if (is_in_range(source, value)) return {};
  const bool is_divisible = value % source.divisor == 0;
  const std::string expected = is_divisible ? range_text(source) : "a multiple of " + std::to_string(source.divisor);
  return Guard{is_divisible ? GuardKind::range : GuardKind::divisibility, source.leaf, source.axis, source_text(guards, source) + expected_got(expected, std::to_string(value))};
}
}  // namespace jit_detail

SINTER_DECL Guard broken_precision(MatmulPrecision expected, MatmulPrecision got) {
  return {GuardKind::precision, -1, -1, "matmul_precision() of the process" + jit_detail::expected_got(std::string(sinter::name(expected)), std::string(sinter::name(got)))};
}

SINTER_DECL std::optional<Guard> GuardSet::first_broken(std::span<const ArgLeaf> args) const {
  const std::size_t common = std::min(args.size(), leaves.size());
  for (std::size_t i = 0; i < common; ++i) {
    const bool is_structure = names.is_structure(i);
    if (args.size() != leaves.size() && !is_structure) continue;   // a size that differs explains all that follows
    if (auto broken = jit_detail::broken_leaf(*this, args, i)) return broken;
  }
  if (args.size() != leaves.size())
    return Guard{GuardKind::structure, -1, -1, "number of leaves" + jit_detail::expected_got(std::to_string(leaves.size()), std::to_string(args.size()))};
  SmallVector<std::int64_t, 8> values;
  for (const SymbolSource& source : symbols) {
    values.push_back(value_of(source, args));
    if (auto broken = jit_detail::broken_symbol(*this, source, values.back())) return broken;
  }
  for (const DimGuard& guard : dims)
    if (!jit_detail::relation_holds(guard, values))
      return Guard{GuardKind::relation, -1, -1, "relation " + jit_detail::relation_text(guard) + ", no longer holds (" + jit_detail::mentioned_symbols(*this, guard, values) + ")"};
  for (std::size_t i = 0; i < args.size(); ++i)
    if (!leaves[i].is_dense && !jit_detail::strides_fit(leaves[i], args[i], values))
      return Guard{GuardKind::layout, static_cast<int>(i), -1,
                   "layout of " + jit_detail::leaf_name(*this, i) + jit_detail::expected_got("strides " + jit_detail::strides_text(leaves[i].stride_dims.data(), leaves[i].rank),
                                                                                           "strides " + jit_detail::strides_text(*args[i].strides, leaves[i].rank))};
  return {};
}

SINTER_DECL std::string GuardSet::text() const {
  std::string text;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const LeafSpec& spec = leaves[i];
    text += "  " + jit_detail::leaf_name(*this, i) + ": ";
    if (spec.kind == LeafKind::fixed) text += "static value " + std::to_string(spec.fixed);
    else if (spec.kind == LeafKind::scalar) text += spec.number_kind == DTypeClass::floating ? "run-time floating number" : spec.number_kind == DTypeClass::integer ? "run-time integer" : "run-time bool";
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
    text += "  s" + std::to_string(id) + ": " + jit_detail::source_text(*this, symbols[id]) + ", " + jit_detail::range_text(symbols[id]);
    text += symbols[id].divisor == 1 ? "\n" : ", a multiple of " + std::to_string(symbols[id].divisor) + "\n";
  }
  for (const DimGuard& guard : dims) text += "  " + jit_detail::relation_text(guard) + "\n";
  return text;
}

}  // namespace jit
SINTER_NAMESPACE_END
