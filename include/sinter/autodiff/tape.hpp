// Tape style: Variables that require gradients, loss.backward(), .grad(). There is no tape beside the program: what was
// recorded is it. Values computed from such a Variable keep their pending node, and with it what it was computed from,
// until backward() has used it, evaluated or not. A Variable's gradient is a slot of its own, so that nothing here
// forms a cycle; inside compile() it is read and written back as any Variable is.
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/graph/tracing.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// While it lives, what this thread computes is not put on the tape.
class NoGradGuard {
 public:
  NoGradGuard() : before_(is_tape_on()) { is_tape_on() = false; }
  ~NoGradGuard() { is_tape_on() = before_; }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool before_;
};

/// As loss.backward().
void backward(const In& loss, BackwardOptions options = {});

namespace autodiff_detail {
void require_gradients(tree::View model);
void zero_gradients(tree::View model);
}  // namespace autodiff_detail

/// For all floating Variables in a model: a struct or container of them.
template <class Model>
void requires_grad(const Model& model) {
  autodiff_detail::require_gradients(tree::view_of(model));
}
template <class Model>
void zero_grad(const Model& model) {
  autodiff_detail::zero_gradients(tree::view_of(model));
}

}  // namespace jit

template <class Self>
void TensorMethods<Self>::backward(BackwardOptions options, Location where) const {
  jit::backward(In(static_cast<const Self&>(*this), where), options);
}

SINTER_NAMESPACE_END
