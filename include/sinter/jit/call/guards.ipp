// Comparing arguments with specs, quickly.
#pragma once

#include <sinter/jit/call/guards.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/sort_few.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL bool is_dense(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    std::int64_t extent = shape[i].value();
    if (extent == 0) return true;
    if (extent != 1 && strides[as_index(i)] != step) return false;
    step *= extent;
  }
  return true;
}

namespace jit_detail {
/// Strides that are numbers; those with symbols wait until the symbols are known. A strided spec takes no dense tensor:
/// its kernels are slower, and the dense version may only come later.
inline bool layout_fits(const LeafSpec& spec, const ArgLeaf& arg) {
  const bool is_dense_now = is_dense(arg.type->shape, *arg.strides);
  if (spec.is_dense || is_dense_now) return spec.is_dense == is_dense_now;
  for (std::size_t i = 0; i < spec.rank; ++i)
    if (spec.stride_dims[i].is_static() && (*arg.strides)[i] != spec.stride_dims[i].value() &&
        arg.type->shape.begin()[i].value() != 1)
      return false;
  return true;
}
inline bool strides_fit(const LeafSpec& spec, const ArgLeaf& arg, std::span<const std::int64_t> symbols) {
  for (std::size_t i = 0; i < spec.rank; ++i)
    if (!spec.stride_dims[i].is_static() && (*arg.strides)[i] != spec.stride_dims[i].evaluate(symbols)) return false;
  return true;
}
inline bool all_strides_fit(std::span<const LeafSpec> specs, std::span<const ArgLeaf> args,
                            std::span<const std::int64_t> symbols) {
  for (std::size_t i = 0; i < args.size(); ++i)
    if (!specs[i].is_dense && !strides_fit(specs[i], args[i], symbols)) return false;
  return true;
}
/// Same extents and same strides as in the trace: what most calls are, and quicker to see than that a layout is dense.
inline bool is_as_traced(const LeafSpec& spec, const Type& type, const Strides& strides) {
  int is_same = 1;  // without branches
  for (std::size_t i = 0; i < spec.rank; ++i)
    is_same &= int{identical(spec.extents[i], type.shape.begin()[i])} & int{spec.strides[i] == strides[i]};
  return is_same != 0;
}
/// A dense tensor whose extents are those that numbers ask for; false also says that it is not so simple (extents 0 and
/// 1).
inline bool is_dense_of_size(const LeafSpec& spec, const Type& type, const Strides& strides) {
  int fits = spec.is_dense;
  std::int64_t step = 1;
  for (std::size_t i = spec.rank; i-- > 0;) {
    const Dim expected = spec.extents[i], extent = type.shape.begin()[i];
    fits &= (int{!expected.is_static()} | int{identical(expected, extent)}) & int{strides[i] == step};
    step *= extent.value();
  }
  return fits != 0;
}
inline bool is_type_as_traced(const LeafSpec& spec, const Type& type) {
  return type.dtype == spec.dtype && type.device == spec.device && type.shape.rank() == spec.rank;
}
inline bool leaf_fits(const LeafSpec& spec, const ArgLeaf& arg) {
  if (spec.kind != arg.kind) return false;
  if (spec.kind == LeafKind::fixed) return spec.fixed == arg.integer;
  if (spec.kind == LeafKind::scalar) return spec.number_kind == arg.number_kind;
  const Type& type = *arg.type;
  if (!is_type_as_traced(spec, type)) return false;
  if (SINTER_LIKELY(spec.is_sized ? is_as_traced(spec, type, *arg.strides)
                                  : is_dense_of_size(spec, type, *arg.strides)))
    return true;
  for (int i = 0; i < spec.rank; ++i) {
    Dim expected = spec.extents[as_index(i)];
    if (expected.is_static() && !identical(expected, type.shape.begin()[i])) return false;
  }
  return layout_fits(spec, arg);
}
/// The first leaf before `leaf` that is the same Variable, or -1.
inline std::int32_t earlier_alias(std::span<const ArgLeaf> args, std::size_t leaf) {
  for (std::size_t i = 0; i < leaf; ++i)
    if (args[i].slot == args[leaf].slot) return static_cast<std::int32_t>(i);
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
    if ((may_be_known ? earlier_alias(args, i) : std::int32_t{-1}) != specs[i].same_slot_as) return false;
  }
  return true;
}
inline bool relation_holds(const DimGuard& guard, std::span<const std::int64_t> symbols) {
  if (guard.left >= 0) return symbols[as_index(guard.left)] == symbols[as_index(guard.right)];
  std::int64_t a = guard.lhs.evaluate(symbols), b = guard.rhs.evaluate(symbols);
  return (guard.relation == DimRelation::less ? a < b : a == b) == guard.outcome;
}
inline bool is_in_range(const SymbolSource& source, std::int64_t value) {
  return value >= source.least() && value <= source.max && (source.divisor == 1 || value % source.divisor == 0);
}
/// Whether a strided spec has strides that symbols decide.
inline bool has_symbolic_strides(const LeafSpec& spec) {
  return !spec.is_dense && std::any_of(spec.stride_dims.begin(), spec.stride_dims.begin() + spec.rank,
                                       [](Dim d) { return !d.is_static(); });
}
}  // namespace jit_detail

SINTER_DECL bool GuardSet::holds(std::span<const ArgLeaf> args, SmallVector<std::int64_t, 8>& symbol_values) const {
  if (args.size() != leaves.size()) return false;
  bool has_strided = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!jit_detail::leaf_fits(leaves[i], args[i])) return false;
    has_strided |= !leaves[i].is_dense;
  }
  if (has_variables && !jit_detail::aliases_fit(leaves, args)) return false;
  symbol_values.clear();
  if (symbols.empty()) return !has_strided || jit_detail::all_strides_fit(leaves, args, {});
  symbol_values.resize(symbols.size());
  std::int64_t* values = symbol_values.data();
  int fits = 1;  // without branches
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const SymbolSource& source = symbols[i];
    const std::int64_t value = values[i] = value_of(source, args);
    const std::size_t equal = source.equal_to >= 0 ? as_index(source.equal_to) : i;
    fits &= int{value >= source.min} & int{value <= source.max} & int{value == values[equal]};
  }
  if (fits == 0) return false;
  if (has_divisors)
    for (std::size_t i = 0; i < symbols.size(); ++i)
      if (!jit_detail::is_in_range(symbols[i], values[i])) return false;
  if (has_other_relations)
    for (const DimGuard& guard : dims)
      if (!jit_detail::relation_holds(guard, symbol_values)) return false;
  if (has_strided && !jit_detail::all_strides_fit(leaves, args, symbol_values)) return false;
  if (has_divisors)
    for (std::size_t i = 0; i < symbols.size(); ++i) symbol_values[i] /= symbols[i].divisor;
  return true;
}

SINTER_DECL void GuardSet::prepare() {
  has_other_relations = false;
  for (const DimGuard& guard : dims) {
    const auto [first, second] = std::minmax(guard.left, guard.right);
    const bool is_known = first >= 0 && first != second && symbols[as_index(second)].equal_to < 0;
    if (is_known) symbols[as_index(second)].equal_to = static_cast<std::int32_t>(first);
    else has_other_relations = true;
  }
}

SINTER_DECL GuardSet GuardSet::specs() const {
  GuardSet specs;
  specs.leaves = leaves;
  specs.symbols = symbols;
  for (SymbolSource& source : specs.symbols) {
    source.divisor = 1;
    source.equal_to = -1;
  }
  specs.has_variables = has_variables;
  return specs;
}

namespace jit_detail {
/// Strides of a strided tensor, innermost first: a number if it is 0 or 1, else what the extents inside it make, else
/// (where asked for) a symbol, else a number.
inline void choose_strides(LeafSpec& spec, std::int32_t leaf, const ArgLeaf& arg, std::uint32_t symbolic,
                           std::vector<SymbolSource>& symbols) {
  std::array<std::size_t, max_rank> order{};
  for (std::size_t i = 0; i < spec.rank; ++i) order[i] = spec.rank - 1 - i;
  sort_few(order.begin(), order.begin() + spec.rank,
           [&](std::size_t a, std::size_t b) { return spec.strides[a] < spec.strides[b]; });
  std::int64_t step = 1;
  Dim step_dim = 1;
  for (std::size_t k = 0; k < spec.rank; ++k) {
    const std::size_t axis = order[k];
    const std::int64_t stride = spec.strides[axis], extent = arg.type->shape.begin()[axis].value();
    spec.stride_dims[axis] = stride;
    if (stride == 0 || extent == 1) continue;
    if (stride == step) {
      spec.stride_dims[axis] = step_dim;
    } else if ((symbolic >> (max_rank + axis) & 1) != 0 && stride >= 2) {
      spec.stride_dims[axis] = Dim::symbol(static_cast<SymbolId>(symbols.size()));
      symbols.push_back({leaf, static_cast<std::int8_t>(axis), true});
    }
    step = stride * extent;
    step_dim = spec.stride_dims[axis] * spec.extents[axis];
  }
}

inline LeafSpec spec_of(std::span<const ArgLeaf> args, std::size_t leaf, std::uint32_t symbolic,
                        std::vector<SymbolSource>& symbols) {
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
  const AxisMarks* marks = arg.impl != nullptr ? arg.impl->marks() : nullptr;
  for (std::size_t axis = 0; axis < spec.rank; ++axis) {
    const Dim extent = arg.type->shape.begin()[axis];
    const AxisMarks::Mark mark = marks != nullptr ? marks->axes[axis] : AxisMarks::Mark{};
    bool becomes_symbol =
        mark.kind == AxisMarks::Kind::none ? (symbolic >> axis & 1) != 0 : mark.kind == AxisMarks::Kind::dynamic;
    spec.extents[axis] = extent;
    if (!becomes_symbol || extent.value() < 2) continue;
    spec.is_sized = false;
    spec.extents[axis] = Dim::symbol(static_cast<SymbolId>(symbols.size()));
    symbols.push_back({static_cast<std::int32_t>(leaf), static_cast<std::int8_t>(axis)});
    if (mark.kind == AxisMarks::Kind::dynamic) {
      symbols.back().min = std::max<std::int64_t>(2, mark.min);
      symbols.back().max = mark.max;
    }
  }
  if (!spec.is_dense) choose_strides(spec, static_cast<std::int32_t>(leaf), arg, symbolic, symbols);
  if (arg.slot != nullptr) spec.same_slot_as = earlier_alias(args, leaf);
  return spec;
}
}  // namespace jit_detail

SINTER_DECL GuardSet specs_of(std::span<const ArgLeaf> args, std::span<const std::uint32_t> symbolic) {
  GuardSet specs;
  for (std::size_t i = 0; i < args.size(); ++i) {
    specs.leaves.push_back(jit_detail::spec_of(args, i, symbolic.empty() ? 0 : symbolic[i], specs.symbols));
    specs.has_variables |= args[i].kind == LeafKind::variable;
  }
  return specs;
}

SINTER_DECL void mark_changed(std::span<const LeafSpec> specs, std::span<const ArgLeaf> args,
                              std::span<std::uint32_t> symbolic) {
  if (specs.size() != args.size()) return;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (specs[i].kind != args[i].kind) return;
    if (args[i].type != nullptr &&
        (specs[i].dtype != args[i].type->dtype || specs[i].rank != args[i].type->shape.rank()))
      return;
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].type == nullptr) continue;
    const bool are_strided = !specs[i].is_dense && !is_dense(args[i].type->shape, *args[i].strides);
    for (std::size_t axis = 0; axis < specs[i].rank; ++axis) {
      if (!identical(specs[i].extents[axis], args[i].type->shape.begin()[axis])) symbolic[i] |= 1u << axis;
      if (are_strided && !identical(specs[i].stride_dims[axis], Dim((*args[i].strides)[axis])))
        symbolic[i] |= 1u << (max_rank + axis);
    }
  }
}

}  // namespace jit
SINTER_NAMESPACE_END
