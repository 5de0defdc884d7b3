// eval(expression): a whole expression, run at once through the slot of its type. No graph is built on the way: the
// leaves' specs are compared with those of the plans that this type already has. Numbers are inputs, so changing one
// compiles nothing.
#pragma once

#include <sinter/expr/creation.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/graph/tracing.hpp>

#include <atomic>
#include <span>

SINTER_NAMESPACE_BEGIN

namespace jit {
class FunctionState;
}
namespace jit::jit_detail {

/// The compiled versions of one expression type; null until the first evaluation.
template <class E>
inline constinit std::atomic<FunctionState*> slot_of{nullptr};
Tensor run_expression(std::atomic<FunctionState*>& slot, const ExprStructure& structure, std::span<Leaf> leaves,
                      Location where);

}  // namespace jit::jit_detail

/// The value of a temporary expression, computed now: `Tensor y = eval(gelu(a * x) + b);`.
template <class Op, class... A>
Tensor eval(Expr<Op, A...>&& expression) {
  using E = Expr<Op, A...>;
  if (current_trace() != nullptr || expression.is_recorded()) {
    Tensor value(std::move(expression));
    if (current_trace() == nullptr) eval(In(value, expression.where()));
    return value;
  }
  return jit::jit_detail::run_expression(jit::jit_detail::slot_of<E>, E::structure(), expression.leaves(),
                                         expression.where());
}

SINTER_NAMESPACE_END
