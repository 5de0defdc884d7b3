// Tape style: Variables that require gradients, loss.backward(), .grad(). There is no tape beside the program: what was
// recorded is it. Values computed from such a Variable keep their pending node, and with it what it was computed from,
// until backward() has used it, evaluated or not. A Variable's gradient is a slot of its own, so that nothing here
// forms a cycle; inside compile() it is read and written back as any Variable is.
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/graph/tracing.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// While it lives, what this thread computes is not put on the tape, and inside functions that are traced (compiled,
/// given to jit::grad and its like, bodies of regions and of control flow) is a constant of their gradients.
class NoGradGuard {
 public:
  NoGradGuard() : before_(std::exchange(is_tape_on(), false)) { ++no_grad_depth(); }
  ~NoGradGuard() {
    is_tape_on() = before_;
    --no_grad_depth();
  }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool before_;
};

/// A hook on gradients: gets what one backward() found for a Variable, gives what is to be added instead.
using GradientFunction = std::function<Tensor(const Tensor& gradient)>;

/// A registered hook; it stays when this is gone. See Variable::register_hook.
class GradientHook {
 public:
  GradientHook(std::shared_ptr<VariableSlot> variable, std::uint64_t number)
      : variable_(std::move(variable)), number_(number) {}
  /// From now on it is called no more.
  void remove();

 private:
  std::shared_ptr<VariableSlot> variable_;
  std::uint64_t number_;
};

/// The same value, of which no gradient flows on: off the tape, and a constant of transforms.
Tensor detach(const In& x);

/// As loss.backward().
void backward(const In& loss, BackwardOptions options = {});

namespace autodiff_detail {
void require_gradients(tree::View model, bool is_required);
void zero_gradients(tree::View model);
std::uint64_t add_hook(const Variable& x, GradientFunction hook, Location where);
void remove_hook(VariableSlot& variable, std::uint64_t number);
/// Where a value on the tape was written, as far as that is known.
Location recorded_at(const TensorImpl& value);
/// Stands for the hooks that the gradient in this slot goes through now; 0: none.
std::uint64_t hooks_revision(const VariableSlot& gradient);
}  // namespace autodiff_detail

/// For all floating Variables in a model: a struct or container of them.
template <class Model>
void requires_grad(const Model& model, bool is_required = true) {
  autodiff_detail::require_gradients(tree::view_of(model), is_required);
}
/// For all that require a gradient.
template <class Model>
void zero_grad(const Model& model) {
  autodiff_detail::zero_gradients(tree::view_of(model));
}

inline void GradientHook::remove() { autodiff_detail::remove_hook(*variable_, number_); }

}  // namespace jit

template <class F>
jit::GradientHook Variable::register_hook(F hook, Location where) const {
  jit::GradientFunction function;
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const Tensor&>>) {
    function = [hook = std::move(hook)](const Tensor& gradient) mutable {
      hook(gradient);
      return gradient;
    };
  } else {
    function = [hook = std::move(hook)](const Tensor& gradient) mutable { return Tensor(hook(gradient)); };
  }
  return {slot(), jit::autodiff_detail::add_hook(*this, std::move(function), where)};
}

template <class Self>
void TensorMethods<Self>::backward(BackwardOptions options, Location where) const {
  jit::backward(In(static_cast<const Self&>(*this), where), options);
}

SINTER_NAMESPACE_END
