// Dim: an extent that is a number or an integer expression over symbols. Expressions are polynomials in canonical form
// (atoms: symbols, floor divisions, remainders) and interned, so that identical() is a comparison of one word.
// Knows nothing of traces: questions about a symbol's value go to the SymbolScope of the thread.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/hash.hpp>

#include <compare>
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

using SymbolId = std::uint32_t;
class Dim;
namespace tensor_detail {
struct DimNode;
}

/// What was asked of symbolic dims while tracing; becomes a guard.
enum class DimRelation : std::uint8_t { equal, less, value };

/// Answers questions about symbols from this call's extents and notes each answer as a guard. Set by the tracer.
class SymbolScope {
 public:
  virtual ~SymbolScope() = default;
  virtual std::int64_t value_of(SymbolId symbol) const = 0;
  /// `lhs relation rhs` was asked and `outcome` told (for `value`: lhs was read as the integer rhs).
  virtual void note(DimRelation relation, Dim lhs, Dim rhs, bool outcome) = 0;

  static SymbolScope*& current() noexcept;
};

namespace tensor_detail {
/// Numbers beyond any extent, as bounds that mean "to the end", stay beyond.
template <std::integral I>
constexpr std::int64_t within_bounds(I value) {
  if constexpr (sizeof(I) < sizeof(std::int64_t)) return static_cast<std::int64_t>(value);
  constexpr std::int64_t most = (std::int64_t{1} << 62) - 1;
  if (std::cmp_greater(value, most)) return most;
  return std::cmp_less(value, -most) ? -most : static_cast<std::int64_t>(value);
}
}  // namespace tensor_detail

/// An extent: integer or symbolic. Eight bytes, trivially copyable.
class Dim {
 public:
  constexpr Dim() = default;
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  constexpr Dim(I value) : bits_(tensor_detail::within_bounds(value) * 2) {}

  static Dim symbol(SymbolId id);

  constexpr bool is_static() const { return (bits_ & 1) == 0; }
  /// The number; of a symbolic Dim this reads the symbol and so becomes a guard on the exact value.
  constexpr std::int64_t value() const { return is_static() ? bits_ / 2 : read(); }
  template <class N>
    requires((std::integral<N> && !std::same_as<N, bool>) || std::floating_point<N>)
  explicit operator N() const {
    return static_cast<N>(value());
  }

  /// Same expression, without asking about values.
  friend constexpr bool identical(Dim a, Dim b) { return a.bits_ == b.bits_; }

  friend Dim operator+(Dim a, Dim b) { return a.is_static() && b.is_static() ? Dim(a.value() + b.value()) : add(a, b); }
  friend Dim operator-(Dim a, Dim b) { return a + b * Dim(-1); }
  friend Dim operator*(Dim a, Dim b) {
    return a.is_static() && b.is_static() ? Dim(a.value() * b.value()) : multiply(a, b);
  }
  /// Floor division and the matching remainder.
  friend Dim operator/(Dim a, Dim b) { return floor_divide(a, b); }
  friend Dim operator%(Dim a, Dim b) { return remainder(a, b); }
  Dim& operator+=(Dim b) { return *this = *this + b; }
  Dim& operator-=(Dim b) { return *this = *this - b; }
  Dim& operator*=(Dim b) { return *this = *this * b; }

  /// Comparisons of symbolic dims are answered for this call and become guards; outside a trace they compare structure.
  friend bool operator==(Dim a, Dim b) {
    return a.bits_ == b.bits_ || (!(a.is_static() && b.is_static()) && ask_equal(a, b));
  }
  friend std::strong_ordering operator<=>(Dim a, Dim b) {
    return a.is_static() && b.is_static() ? a.value() <=> b.value() : ask_order(a, b);
  }
  /// They are defined by themselves and not through <=>, which asks more: "not less" must not become the guard "equal"
  /// where the two are equal now.
  friend bool operator<(Dim a, Dim b) {
    return a.is_static() && b.is_static() ? a.value() < b.value() : ask_less(a, b);
  }
  friend bool operator>(Dim a, Dim b) { return b < a; }
  friend bool operator<=(Dim a, Dim b) { return !(b < a); }
  friend bool operator>=(Dim a, Dim b) { return !(a < b); }

  /// The number under the given symbol values (indexed by SymbolId).
  std::int64_t evaluate(std::span<const std::int64_t> symbols) const {
    return is_static() ? value() : evaluate_symbolic(symbols, nullptr);
  }
  /// As evaluate, but symbols without a value count as `otherwise`: for weighing costs, never for extents.
  std::int64_t estimate(std::span<const std::int64_t> symbols, std::int64_t otherwise) const {
    return is_static() ? value() : evaluate_symbolic(symbols, &otherwise);
  }
  /// Replaces symbols: `replacement[id]` for each id below its size.
  Dim substitute(std::span<const Dim> replacement) const;
  /// If this is exactly one symbol, its id; else -1.
  std::int64_t as_symbol() const;
  /// Appends the ids of the symbols in it (with repeats) to `out`.
  void collect_symbols(std::vector<SymbolId>& out) const;
  /// Appends (symbol, k) for each floor division or remainder of exactly one symbol by a number k.
  void collect_divisors(std::vector<std::pair<SymbolId, std::int64_t>>& out) const;
  /// "128", "s0", "4*s0 + s1 + 2", "floordiv(s0, 2)".
  std::string text() const;
  Hash128 hash() const;

 private:
  friend struct tensor_detail::DimNode;
  static Dim add(Dim a, Dim b);
  static Dim multiply(Dim a, Dim b);
  static Dim floor_divide(Dim a, Dim b);
  static Dim remainder(Dim a, Dim b);
  static bool ask_equal(Dim a, Dim b);
  static std::strong_ordering ask_order(Dim a, Dim b);
  static bool ask_less(Dim a, Dim b);
  std::int64_t read() const;
  std::int64_t evaluate_symbolic(std::span<const std::int64_t> symbols, const std::int64_t* otherwise) const;
  const tensor_detail::DimNode* node() const { return reinterpret_cast<const tensor_detail::DimNode*>(bits_ - 1); }
  static Dim from_node(const tensor_detail::DimNode* node);

  std::int64_t bits_ = 0;  // value * 2, or address of an interned node + 1
};
static_assert(sizeof(Dim) == 8);

std::ostream& operator<<(std::ostream& out, Dim dim);

SINTER_NAMESPACE_END
