// Canonical polynomials over atoms, interned for the life of the process. A node is a sorted list of terms
// (coefficient times a sorted product of atoms); equal expressions are therefore the same node.
#pragma once

#include <sinter/tensor/dim.hpp>

#include <sinter/base/fork.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <tuple>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {

enum class AtomKind : std::uint8_t { symbol, floor_divide, remainder };

/// An indivisible factor. `order` is its place in the intern table: a name for keys of that table, never an order that
/// anyone sees (it depends on what the process did before).
struct DimAtom {
  AtomKind kind;
  SymbolId symbol;
  Dim a, b;
  std::uint32_t order;
};

struct DimTerm {
  std::int64_t coefficient;
  std::vector<const DimAtom*> factors;
};

struct DimNode {
  std::vector<DimTerm> terms;
  Hash128 hash;
  static const DimNode& of(Dim symbolic) { return *symbolic.node(); }
};

/// Order by structure, so that text and hash are the same in every process.
inline std::strong_ordering compare_atoms(const DimAtom& x, const DimAtom& y);

inline std::strong_ordering compare_factors(const std::vector<const DimAtom*>& x,
                                            const std::vector<const DimAtom*>& y) {
  if (x.size() != y.size()) return y.size() <=> x.size();  // longer products first
  for (std::size_t i = 0; i < x.size(); ++i)
    if (auto order = compare_atoms(*x[i], *y[i]); order != 0) return order;
  return std::strong_ordering::equal;
}

inline std::strong_ordering compare_dims(Dim x, Dim y) {
  if (identical(x, y)) return std::strong_ordering::equal;
  if (x.is_static() || y.is_static())
    return x.is_static() && y.is_static() ? x.value() <=> y.value() : y.is_static() <=> x.is_static();
  const auto &p = DimNode::of(x).terms, &q = DimNode::of(y).terms;
  for (std::size_t i = 0; i < p.size() && i < q.size(); ++i) {
    if (auto order = compare_factors(p[i].factors, q[i].factors); order != 0) return order;
    if (p[i].coefficient != q[i].coefficient) return p[i].coefficient <=> q[i].coefficient;
  }
  return p.size() <=> q.size();
}

inline std::strong_ordering compare_atoms(const DimAtom& x, const DimAtom& y) {
  if (&x == &y) return std::strong_ordering::equal;  // interned
  if (x.kind != y.kind) return x.kind <=> y.kind;
  if (x.kind == AtomKind::symbol) return x.symbol <=> y.symbol;
  auto order = compare_dims(x.a, y.a);
  return order != 0 ? order : compare_dims(x.b, y.b);
}

inline bool factors_less(const std::vector<const DimAtom*>& a, const std::vector<const DimAtom*>& b) {
  return compare_factors(a, b) < 0;
}

/// The process-wide intern table. Never destroyed: Dims live in objects of static storage too.
struct DimTable {
  ForkSafeMutex mutex;
  std::map<std::tuple<int, std::uint64_t, std::uint64_t>, std::unique_ptr<DimAtom>> atoms;
  std::map<std::vector<std::pair<std::int64_t, std::vector<std::uint32_t>>>, std::unique_ptr<DimNode>> nodes;
  static DimTable& instance() { return process_object<DimTable>(); }
};

inline Hash128 atom_hash(const DimAtom& atom) {
  Hasher h;
  h.add(static_cast<std::uint64_t>(atom.kind));
  return atom.kind == AtomKind::symbol ? h.add(std::uint64_t{atom.symbol}).finish()
                                       : h.add(atom.a.hash()).add(atom.b.hash()).finish();
}

inline const DimAtom* intern_atom(AtomKind kind, SymbolId symbol, Dim a, Dim b) {
  DimTable& table = DimTable::instance();
  std::scoped_lock lock(table.mutex);
  auto key = kind == AtomKind::symbol
                 ? std::tuple{0, std::uint64_t{symbol}, std::uint64_t{0}}
                 : std::tuple{static_cast<int>(kind), std::bit_cast<std::uint64_t>(a), std::bit_cast<std::uint64_t>(b)};
  auto& slot = table.atoms[key];
  if (!slot)
    slot = std::make_unique<DimAtom>(DimAtom{kind, symbol, a, b, static_cast<std::uint32_t>(table.atoms.size())});
  return slot.get();
}

/// Sorts, merges equal products and drops zero terms.
inline void normalise(std::vector<DimTerm>& terms) {
  std::sort(terms.begin(), terms.end(),
            [](const DimTerm& a, const DimTerm& b) { return factors_less(a.factors, b.factors); });
  std::vector<DimTerm> merged;
  for (DimTerm& term : terms) {
    if (!merged.empty() && merged.back().factors == term.factors) merged.back().coefficient += term.coefficient;
    else merged.push_back(std::move(term));
  }
  std::erase_if(merged, [](const DimTerm& t) { return t.coefficient == 0; });
  terms = std::move(merged);
}

inline const DimNode* intern_node(std::vector<DimTerm> terms) {
  std::vector<std::pair<std::int64_t, std::vector<std::uint32_t>>> key;
  Hasher h;
  for (const DimTerm& term : terms) {
    std::vector<std::uint32_t> orders;
    h.add(static_cast<std::uint64_t>(term.coefficient)).add(term.factors.size());
    for (auto* atom : term.factors) {
      orders.push_back(atom->order);
      h.add(atom_hash(*atom));
    }
    key.emplace_back(term.coefficient, std::move(orders));
  }
  DimTable& table = DimTable::instance();
  std::scoped_lock lock(table.mutex);
  auto& slot = table.nodes[std::move(key)];
  if (!slot) slot = std::make_unique<DimNode>(DimNode{std::move(terms), h.finish()});
  return slot.get();
}

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) throw ShapeError("Dim", "division of " + std::to_string(a) + " by zero");
  std::int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

/// Symbols beyond those given have the value `*otherwise`; without one, that is a mistake of the library.
inline std::int64_t evaluate_atom(const DimAtom& atom, std::span<const std::int64_t> symbols,
                                  const std::int64_t* otherwise) {
  if (atom.kind == AtomKind::symbol) {
    if (atom.symbol < symbols.size()) return symbols[atom.symbol];
    ensure(otherwise != nullptr, "a symbol has no value here");
    return *otherwise;
  }
  const auto value_of = [&](Dim dim) {
    return otherwise == nullptr ? dim.evaluate(symbols) : dim.estimate(symbols, *otherwise);
  };
  const std::int64_t a = value_of(atom.a), b = value_of(atom.b);
  if (otherwise != nullptr && b == 0) return 0;  // an estimate refuses nothing
  const std::int64_t quotient = floor_div(a, b);
  return atom.kind == AtomKind::floor_divide ? quotient : a - quotient * b;
}

inline std::string atom_text(const DimAtom& atom) {
  switch (atom.kind) {
    case AtomKind::symbol: return "s" + std::to_string(atom.symbol);
    case AtomKind::floor_divide: return "floordiv(" + atom.a.text() + ", " + atom.b.text() + ")";
    case AtomKind::remainder: return "mod(" + atom.a.text() + ", " + atom.b.text() + ")";
  }
  __builtin_unreachable();
}

inline Dim from_terms(std::vector<DimTerm> terms, Dim (*wrap)(const DimNode*)) {
  normalise(terms);
  if (terms.empty()) return Dim(0);
  if (terms.size() == 1 && terms[0].factors.empty()) return Dim(terms[0].coefficient);
  return wrap(intern_node(std::move(terms)));
}

}  // namespace tensor_detail

SINTER_DECL SymbolScope*& SymbolScope::current() noexcept {
  static thread_local SymbolScope* scope = nullptr;
  return scope;
}

SINTER_DECL Dim Dim::from_node(const tensor_detail::DimNode* node) {
  Dim dim;
  dim.bits_ = reinterpret_cast<std::int64_t>(node) + 1;
  return dim;
}

SINTER_DECL Dim Dim::symbol(SymbolId id) {
  using namespace tensor_detail;
  return from_node(intern_node({DimTerm{1, {intern_atom(AtomKind::symbol, id, {}, {})}}}));
}

namespace tensor_detail {
inline std::vector<DimTerm> terms_of(Dim dim, const DimNode* node) {
  if (!dim.is_static()) return node->terms;
  if (dim.value() == 0) return {};
  return {DimTerm{dim.value(), {}}};
}
}  // namespace tensor_detail

SINTER_DECL Dim Dim::add(Dim a, Dim b) {
  auto terms = tensor_detail::terms_of(a, a.is_static() ? nullptr : a.node());
  for (auto& term : tensor_detail::terms_of(b, b.is_static() ? nullptr : b.node())) terms.push_back(std::move(term));
  return tensor_detail::from_terms(std::move(terms), &Dim::from_node);
}

SINTER_DECL Dim Dim::multiply(Dim a, Dim b) {
  using namespace tensor_detail;
  std::vector<DimTerm> product;
  for (const auto& x : terms_of(a, a.is_static() ? nullptr : a.node())) {
    for (const auto& y : terms_of(b, b.is_static() ? nullptr : b.node())) {
      DimTerm term{x.coefficient * y.coefficient, x.factors};
      term.factors.insert(term.factors.end(), y.factors.begin(), y.factors.end());
      std::sort(term.factors.begin(), term.factors.end(), [](auto* p, auto* q) { return compare_atoms(*p, *q) < 0; });
      product.push_back(std::move(term));
    }
  }
  return from_terms(std::move(product), &Dim::from_node);
}

namespace tensor_detail {
/// a / b when b divides every term of a exactly (numbers, or a single-term product of atoms).
inline bool divide_exactly(const std::vector<DimTerm>& a, const std::vector<DimTerm>& b, std::vector<DimTerm>& out) {
  if (b.size() != 1) return false;
  for (const DimTerm& term : a) {
    if (term.coefficient % b[0].coefficient != 0) return false;
    DimTerm quotient{term.coefficient / b[0].coefficient, term.factors};
    for (auto* factor : b[0].factors) {
      auto found = std::find(quotient.factors.begin(), quotient.factors.end(), factor);
      if (found == quotient.factors.end()) return false;
      quotient.factors.erase(found);
    }
    out.push_back(std::move(quotient));
  }
  return true;
}
}  // namespace tensor_detail

SINTER_DECL Dim Dim::floor_divide(Dim a, Dim b) {
  using namespace tensor_detail;
  if (a.is_static() && b.is_static()) return Dim(floor_div(a.value(), b.value()));
  if (identical(a, b)) return Dim(1);
  if (b.is_static() && b.value() == 0) throw ShapeError("Dim", "division of " + a.text() + " by zero");
  std::vector<DimTerm> quotient;
  if (divide_exactly(terms_of(a, a.is_static() ? nullptr : a.node()), terms_of(b, b.is_static() ? nullptr : b.node()),
                     quotient))
    return from_terms(std::move(quotient), &Dim::from_node);
  return from_node(intern_node({DimTerm{1, {intern_atom(AtomKind::floor_divide, 0, a, b)}}}));
}

SINTER_DECL Dim Dim::remainder(Dim a, Dim b) {
  using namespace tensor_detail;
  if (a.is_static() && b.is_static()) return Dim(a.value() - floor_div(a.value(), b.value()) * b.value());
  if (identical(a, b)) return Dim(0);
  std::vector<DimTerm> quotient;
  if (divide_exactly(terms_of(a, a.is_static() ? nullptr : a.node()), terms_of(b, b.is_static() ? nullptr : b.node()),
                     quotient))
    return Dim(0);
  return from_node(intern_node({DimTerm{1, {intern_atom(AtomKind::remainder, 0, a, b)}}}));
}

namespace tensor_detail {
inline std::int64_t value_in_scope(Dim dim, const SymbolScope& scope) {
  std::vector<SymbolId> used;
  dim.collect_symbols(used);
  std::vector<std::int64_t> values(used.empty() ? 0 : *std::max_element(used.begin(), used.end()) + 1);
  for (SymbolId id : used) values[id] = scope.value_of(id);
  return dim.evaluate(values);
}
}  // namespace tensor_detail

SINTER_DECL bool Dim::ask_equal(Dim a, Dim b) {
  SymbolScope* scope = SymbolScope::current();
  if (scope == nullptr) return identical(a, b);
  bool outcome = tensor_detail::value_in_scope(a, *scope) == tensor_detail::value_in_scope(b, *scope);
  scope->note(DimRelation::equal, a, b, outcome);
  return outcome;
}

SINTER_DECL std::strong_ordering Dim::ask_order(Dim a, Dim b) {
  if (identical(a, b)) return std::strong_ordering::equal;
  SymbolScope* scope = SymbolScope::current();
  if (scope == nullptr)
    throw TraceError("Dim",
                     "the order of " + a.text() + " and " + b.text() + " is unknown outside the trace they belong to");
  auto order = tensor_detail::value_in_scope(a, *scope) <=> tensor_detail::value_in_scope(b, *scope);
  if (order == 0) scope->note(DimRelation::equal, a, b, true);
  else scope->note(DimRelation::less, order < 0 ? a : b, order < 0 ? b : a, true);
  return order;
}

SINTER_DECL bool Dim::ask_less(Dim a, Dim b) {
  if (const Dim gap = b - a; gap.is_static()) return gap.value() > 0;
  SymbolScope* scope = SymbolScope::current();
  if (scope == nullptr)
    throw TraceError("Dim",
                     "the order of " + a.text() + " and " + b.text() + " is unknown outside the trace they belong to");
  const bool outcome = tensor_detail::value_in_scope(a, *scope) < tensor_detail::value_in_scope(b, *scope);
  scope->note(DimRelation::less, a, b, outcome);
  return outcome;
}

SINTER_DECL std::int64_t Dim::read() const {
  SymbolScope* scope = SymbolScope::current();
  if (scope == nullptr)
    throw TraceError("Dim", "the symbolic extent " + text() + " has no value outside the trace it belongs to");
  std::int64_t number = tensor_detail::value_in_scope(*this, *scope);
  scope->note(DimRelation::value, *this, Dim(number), true);
  return number;
}

SINTER_DECL std::int64_t Dim::evaluate_symbolic(std::span<const std::int64_t> symbols,
                                                const std::int64_t* otherwise) const {
  std::int64_t sum = 0;
  for (const auto& term : node()->terms) {
    std::int64_t product = term.coefficient;
    for (auto* atom : term.factors) product *= tensor_detail::evaluate_atom(*atom, symbols, otherwise);
    sum += product;
  }
  return sum;
}

SINTER_DECL Dim Dim::substitute(std::span<const Dim> replacement) const {
  using namespace tensor_detail;
  if (is_static()) return *this;
  Dim sum = 0;
  for (const auto& term : node()->terms) {
    Dim product = term.coefficient;
    for (auto* atom : term.factors) {
      switch (atom->kind) {
        case AtomKind::symbol:
          product *= atom->symbol < replacement.size() ? replacement[atom->symbol] : Dim::symbol(atom->symbol);
          break;
        case AtomKind::floor_divide:
          product *= atom->a.substitute(replacement) / atom->b.substitute(replacement);
          break;
        case AtomKind::remainder: product *= atom->a.substitute(replacement) % atom->b.substitute(replacement); break;
      }
    }
    sum += product;
  }
  return sum;
}

SINTER_DECL std::int64_t Dim::as_symbol() const {
  if (is_static()) return -1;
  const auto& terms = node()->terms;
  if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].factors.size() != 1) return -1;
  const auto* atom = terms[0].factors[0];
  return atom->kind == tensor_detail::AtomKind::symbol ? std::int64_t{atom->symbol} : -1;
}

SINTER_DECL void Dim::collect_symbols(std::vector<SymbolId>& out) const {
  if (is_static()) return;
  for (const auto& term : node()->terms) {
    for (auto* atom : term.factors) {
      if (atom->kind == tensor_detail::AtomKind::symbol) out.push_back(atom->symbol);
      else {
        atom->a.collect_symbols(out);
        atom->b.collect_symbols(out);
      }
    }
  }
}

SINTER_DECL void Dim::collect_divisors(std::vector<std::pair<SymbolId, std::int64_t>>& out) const {
  if (is_static()) return;
  for (const auto& term : node()->terms) {
    for (auto* atom : term.factors) {
      if (atom->kind == tensor_detail::AtomKind::symbol) continue;
      if (atom->a.as_symbol() >= 0 && atom->b.is_static())
        out.emplace_back(static_cast<SymbolId>(atom->a.as_symbol()), atom->b.value());
      atom->a.collect_divisors(out);
      atom->b.collect_divisors(out);
    }
  }
}

SINTER_DECL std::string Dim::text() const {
  if (is_static()) return std::to_string(value());
  std::string text;
  for (const auto& term : node()->terms) {
    std::int64_t c = term.coefficient;
    if (!text.empty()) text += c < 0 ? " - " : " + ";
    else if (c < 0) text += "-";
    c = c < 0 ? -c : c;
    if (c != 1 || term.factors.empty()) text += std::to_string(c) + (term.factors.empty() ? "" : "*");
    for (std::size_t i = 0; i < term.factors.size(); ++i)
      text += (i ? "*" : "") + tensor_detail::atom_text(*term.factors[i]);
  }
  return text;
}

SINTER_DECL Hash128 Dim::hash() const {
  return is_static() ? Hasher{}.add(static_cast<std::uint64_t>(value())).finish() : node()->hash;
}

SINTER_DECL std::ostream& operator<<(std::ostream& out, Dim dim) { return out << dim.text(); }

SINTER_NAMESPACE_END
