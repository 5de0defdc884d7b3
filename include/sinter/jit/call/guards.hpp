// Guards: what a compiled entry relies on, as typed entries compared against the arguments of a call. The fast check is
// a plain walk over specs held by value; when it fails, broken() says which guards and why.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/jit/call/arguments.hpp>
#include <sinter/jit/call/leaf_names.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/tensor/precision.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// One broken expectation, in words.
struct Guard {
  GuardKind kind;
  int leaf = -1;         // argument leaf, in flattening order; -1: a captured Variable or a relation
  int axis = -1;         // of that leaf; -1: not about one axis
  std::string reason{};  // "extent of axis 0 of argument 1.weight: expected 32, got 48"
  std::string argument{}, expected{}, got{};  // the parts of it; empty where it is about no argument
};

/// What is expected of one leaf. Layouts come in two classes: dense (row-major without gaps), and strided, where each
/// stride is a number, an expression over extents (a transposed matrix), or a symbol of its own (a slice).
struct LeafSpec {
  LeafKind kind = LeafKind::tensor;
  DType dtype = DType::f32;
  Device device;
  std::uint8_t rank = 0;
  bool is_dense = true;
  bool is_sized = true;  // no extent is a symbol
  DTypeClass number_kind = DTypeClass::floating;
  std::int32_t same_slot_as = -1;  // variables: an earlier leaf with the same slot
  std::int64_t fixed = 0;
  std::array<Dim, max_rank> extents{};      // number: exact; symbol: in its range
  Strides strides{};                        // as traced
  std::array<Dim, max_rank> stride_dims{};  // strided
};

/// A question about symbols that the trace asked, and the answer that it went by.
struct DimGuard {
  DimRelation relation;
  Dim lhs, rhs;
  bool outcome;
  std::string_view op{};  // the operation that asked; empty: the function itself
  Location where{};
  /// For the quick check, where both sides are symbols that must be equal: which. Set by solve_symbols().
  std::int32_t left = -1, right = -1;
};

/// Where a symbol's value is found, and what it may be.
struct SymbolSource {
  std::int32_t leaf = 0;
  std::int8_t axis = 0;
  bool is_stride = false;  // else an extent
  std::int64_t min = 2, max = std::int64_t{1} << 60;
  /// The graph's symbol is the value divided by this, without remainder.
  std::int64_t divisor = 1;
  /// An earlier symbol that it must equal, where GuardSet::prepare() has found that, or -1.
  std::int32_t equal_to = -1;
  /// Symbols stand for 2 and more.
  std::int64_t least() const { return divisor == 1 || min >= 2 * divisor ? min : 2 * divisor; }
};

struct GuardSet {
  std::vector<LeafSpec> leaves;
  std::vector<DimGuard> dims;
  std::vector<SymbolSource> symbols;
  LeafNames names;             // of the leaves
  bool has_variables = false;  // among the leaves
  bool has_divisors = false;
  bool has_other_relations = true;  // besides those that symbols know of

  /// Makes holds() quick, once the guards are complete: equal symbols are compared where they are read.
  void prepare();
  /// True when the arguments fit; `symbol_values` then has the value of every symbol, as the graph means it.
  bool holds(std::span<const ArgLeaf> args, SmallVector<std::int64_t, 8>& symbol_values) const;
  /// What does not fit, in the order of the checks, as far as it can be compared: nothing about the axes of a tensor of
  /// another rank.
  std::vector<Guard> broken(std::span<const ArgLeaf> args) const;
  /// One line per guard, for explain().
  std::string text() const;
  /// The expectations without what a trace learned: for tracing in the same way again.
  GuardSet specs() const;
};

/// The specs that fit exactly these arguments. `symbolic[leaf]`: bit `axis` makes that extent a symbol, bit 8 + axis
/// the stride of a strided tensor; an extent below 2 stays a number, a stride that follows from extents an expression.
/// Axes that the user marked go by their marks.
GuardSet specs_of(std::span<const ArgLeaf> args, std::span<const std::uint32_t> symbolic);
/// The value of a symbol in these arguments, before division.
inline std::int64_t value_of(const SymbolSource& source, std::span<const ArgLeaf> args) {
  const ArgLeaf& leaf = args[as_index(source.leaf)];
  const auto axis = as_index(source.axis);
  return source.is_stride ? (*leaf.strides)[axis] : leaf.type->shape.begin()[axis].value();
}
/// Sets the bits of specs_of() in which arguments of the same structure differ from `specs`.
void mark_changed(std::span<const LeafSpec> specs, std::span<const ArgLeaf> args, std::span<std::uint32_t> symbolic);
bool is_dense(const Shape& shape, const Strides& strides);

/// Throws UserError if a trace fixed an axis that is marked dynamic. `solution`: what the symbols turned out to be.
void check_marks(const GuardSet& guards, std::span<const ArgLeaf> args, std::span<const Dim> solution);

}  // namespace jit
SINTER_NAMESPACE_END
