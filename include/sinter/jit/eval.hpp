// eval(expression): a whole expression, run at once through the slot of its type. No graph is built on the way: the
// leaves' specs are compared with those of the plans that this type already has. Numbers are inputs, so changing one
// compiles nothing.
#pragma once

#include <sinter/base/fork.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/jit/function.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN

namespace jit::jit_detail {

/// The compiled versions of one expression type.
template <class E>
FunctionState& slot_of() {
  return *process_object([] {
    return new auto(std::make_shared<FunctionState>(Options{.recompile_limit = 64}, Location{}, FunctionState::Serves::expression));
  });
}
Tensor run_expression(FunctionState& slot, const ExprStructure& structure, std::span<Leaf> leaves, Location where);

}  // namespace jit::jit_detail

/// The value of a temporary expression, computed now: `Tensor y = eval(gelu(a * x) + b);`.
template <class Op, class... A>
Tensor eval(Expr<Op, A...>&& expression) {
  using E = Expr<Op, A...>;
  if (Trace::current() != nullptr || expression.is_recorded()) {
    Tensor value(std::move(expression));
    if (Trace::current() == nullptr) eval(In(value, expression.where()));
    return value;
  }
  return jit::jit_detail::run_expression(jit::jit_detail::slot_of<E>(), E::structure(), expression.leaves(), expression.where());
}

SINTER_NAMESPACE_END
