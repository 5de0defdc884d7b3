// Elementwise comparisons, whose result is bool, and the choice by a condition.
#pragma once

#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

struct Eq {
  static constexpr OpInfo info{.name = "eq", .arity = 2, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.eq(a, b); }
};
struct Ne {
  static constexpr OpInfo info{.name = "ne", .arity = 2, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.ne(a, b); }
};
struct Lt {
  static constexpr OpInfo info{.name = "lt", .arity = 2, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.lt(a, b); }
};
struct Le {
  static constexpr OpInfo info{.name = "le", .arity = 2, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.le(a, b); }
};
struct Gt {
  static constexpr OpInfo info{.name = "gt", .arity = 2, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.lt(b, a); }
};
struct Ge {
  static constexpr OpInfo info{.name = "ge", .arity = 2, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.le(b, a); }
};

/// where(condition, a, b): a where the condition holds, else b.
struct Where {
  static constexpr OpInfo info{.name = "where", .arity = 3, .dtypes = DTypeRule::select};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue condition, ScalarValue a, ScalarValue b) {
    return s.select(condition, a, b);
  }
  static ValList vjp(const VjpArgs& a) {
    return {Val{}, a.needs(1) ? ::sinter::where(a.in[0], a.dout, 0) : Val{},
            a.needs(2) ? ::sinter::where(a.in[0], 0, a.dout) : Val{}};
  }
};

/// x itself, stretched to the condition's shape; the gradient is passed on where that holds, and dropped elsewhere,
/// whatever it is.
struct SelectGradient {
  static constexpr OpInfo info{.name = "select_gradient", .arity = 2, .dtypes = DTypeRule::select};
  static ScalarValue lower(ScalarBuilder&, ScalarValue, ScalarValue x) { return x; }
  static ValList vjp(const VjpArgs& a) { return {Val{}, ::sinter::where(a.in[0], a.dout, 0)}; }
};

}  // namespace ops
SINTER_NAMESPACE_END
