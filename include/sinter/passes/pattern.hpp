// The language of rewrites: patterns over ops, written as algebra in constexpr tables.
//   inline constexpr Rule rules[] = {
//     {"mul-one",  mul(x, one),  x},
//     {"mul-zero", mul(x, zero), zero, integer},   // NaN * 0 is NaN
//   };
// A variable stands for any value (the same one wherever it occurs), a number for a `full` of that value in any shape
// and dtype, a literal variable (c, d) for a `full` of whatever value. Operands broadcast: what replaces a value of a
// larger shape is expanded to it by the engine. Knows nothing of how rules are applied.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/op.hpp>

#include <array>
#include <cstdint>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace rewrite {

class Match;

/// A tree of at most six parts, operands before their op; the last part is the root.
struct Pattern {
  enum class Kind : std::uint8_t { variable, literal, number, op };
  struct Part {
    const OpInfo* op = nullptr;
    double number = 0;
    Kind kind = Kind::variable;
    std::uint8_t variable = 0;
    std::uint8_t operands = 0;
    std::array<std::uint8_t, 3> operand{};
  };
  std::array<Part, 6> parts{};
  std::uint8_t size = 0;

  constexpr const Part& root() const { return parts[size - 1u]; }
};

constexpr Pattern leaf(Pattern::Kind kind, int variable, double number) {
  Pattern pattern;
  pattern.parts[0].kind = kind;
  pattern.parts[0].variable = static_cast<std::uint8_t>(variable);
  pattern.parts[0].number = number;
  pattern.size = 1;
  return pattern;
}
constexpr Pattern number(double value) { return leaf(Pattern::Kind::number, 0, value); }

/// The pattern of one op. An index past the last part would not compile: patterns are constants.
template <class Op, class... P>
constexpr Pattern call(const P&... operands) {
  static_assert(Op::info.arity < 0 || sizeof...(P) == as_index(Op::info.arity),
                "the op takes another number of operands");
  Pattern pattern;
  Pattern::Part root;
  root.op = &op_info<Op>;
  root.kind = Pattern::Kind::op;
  auto append = [&](const Pattern& operand) {
    for (std::uint8_t i = 0; i < operand.size; ++i) {
      Pattern::Part part = operand.parts[i];
      for (std::uint8_t& index : part.operand) index = static_cast<std::uint8_t>(index + pattern.size);
      pattern.parts[as_index(pattern.size + i)] = part;
    }
    pattern.size = static_cast<std::uint8_t>(pattern.size + operand.size);
    root.operand[root.operands++] = static_cast<std::uint8_t>(pattern.size - 1);
  };
  (append(operands), ...);
  pattern.parts[pattern.size++] = root;
  return pattern;
}

inline constexpr Pattern x = leaf(Pattern::Kind::variable, 0, 0), y = leaf(Pattern::Kind::variable, 1, 0),
                         z = leaf(Pattern::Kind::variable, 2, 0);
inline constexpr Pattern c = leaf(Pattern::Kind::literal, 3, 0), d = leaf(Pattern::Kind::literal, 4, 0);
inline constexpr Pattern zero = number(0.0), minus_zero = number(-0.0), one = number(1.0), two = number(2.0),
                         minus_one = number(-1.0);

/// What a rule puts in place: a pattern, or the value that a function makes of the match (none: the rule does not
/// apply).
struct Replacement {
  Pattern pattern;
  Value (*build)(Match&) = nullptr;
  constexpr Replacement(const Pattern& p) : pattern(p) {}
  constexpr Replacement(Value (*f)(Match&)) : build(f) {}
};

/// One rewrite. Sound for every input, NaN, infinities and -0 included, unless its condition narrows it.
struct Rule {
  std::string_view name;
  Pattern from;
  Replacement to;
  bool (*when)(const Match&) = nullptr;
};

}  // namespace rewrite
SINTER_NAMESPACE_END
