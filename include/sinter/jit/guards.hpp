// Guards: what a compiled entry relies on, as typed records compared against the arguments of a call. The fast check is a
// plain walk over specs held by value; when it fails, first_broken() says which guard and why.
#pragma once

#include <sinter/jit/arguments.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

enum class GuardKind : std::uint8_t { structure, dtype, device, rank, layout, extent, relation, fixed_value, number_kind, alias };
std::string_view name(GuardKind kind);

/// One broken expectation, in words.
struct Guard {
  GuardKind kind;
  int leaf = -1;          // argument leaf, in flattening order; -1: a captured Variable or a relation
  int axis = -1;          // of that leaf; -1: not about one axis
  std::string reason;     // "extent of axis 0 of argument leaf 1: expected 32, got 48"
};

/// What is expected of one leaf.
struct LeafSpec {
  LeafKind kind = LeafKind::tensor;
  DType dtype = DType::f32;
  Device device;
  std::uint8_t rank = 0;
  bool is_dense = true;
  DTypeClass number_kind = DTypeClass::floating;
  std::int16_t same_slot_as = -1;                  // variables: an earlier leaf with the same slot
  std::int64_t fixed = 0;
  std::array<Dim, max_rank> extents{};             // number: exact; symbol: anything from 2 up
  Strides strides{};                               // of strided tensors: exact
};

/// A relation between symbols that the trace asked about.
struct DimGuard {
  DimRelation relation;
  Dim lhs, rhs;
  bool outcome;
};

/// Where a symbol's value is found.
struct SymbolSource {
  std::int16_t leaf = 0;
  std::int16_t axis = 0;
};

struct GuardSet {
  std::vector<LeafSpec> leaves;
  std::vector<DimGuard> dims;
  std::vector<SymbolSource> symbols;
  bool has_variables = false;   // among the leaves

  /// True when the arguments fit; `symbol_values` then has the value of every symbol.
  bool holds(std::span<const ArgLeaf> args, SmallVector<std::int64_t, 8>& symbol_values) const;
  /// The first thing that does not fit, or nothing.
  std::optional<Guard> first_broken(std::span<const ArgLeaf> args) const;
  /// One line per guard, for explain().
  std::string text() const;
};

/// The spec that fits exactly this leaf; axes in `symbolic` (a bit mask) get the symbols from `next_symbol` on.
LeafSpec spec_of(std::span<const ArgLeaf> args, std::size_t leaf, std::uint32_t symbolic, SymbolId& next_symbol);
bool is_dense(const Shape& shape, const Strides& strides);

}  // namespace jit
SINTER_NAMESPACE_END

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/jit/guards.ipp>
#endif
