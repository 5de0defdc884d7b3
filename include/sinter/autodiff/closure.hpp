// Functions of Tensors as values: traced once, with what they use from outside as further arguments. What solvers of
// equations are made of: a rule of differentiation can name everything that a solution depends on. Knows no solver.
#pragma once

#include <sinter/autodiff/trace.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace autodiff_detail {
struct ClosureGraph;
/// Ends the trace of a function whose parameters are placeholders.
std::shared_ptr<const ClosureGraph> end_closure(OpenTrace trace, const Tensor& result, std::string_view op,
                                                Location where);
/// A placeholder for `like`. Throws DTypeError unless it is floating.
Tensor closure_parameter(TransformTrace& trace, const Tensor& like, std::string_view op, Location where);
}  // namespace autodiff_detail

/// A function of floating Tensors that gives one Tensor, and the values that it was found to use besides them.
class Closure {
 public:
  explicit Closure(std::shared_ptr<const autodiff_detail::ClosureGraph> graph) : graph_(std::move(graph)) {}
  /// What the function uses from outside: captured Tensors, Variables as they are now, constants that hold data.
  const std::vector<Tensor>& captured() const;
  /// The function, recorded again, with other values in the place of those that it captured.
  Tensor operator()(std::span<const Tensor> args, std::span<const Tensor> captured) const;
  Tensor operator()(const Tensor& x, std::span<const Tensor> captured) const;
  /// Of the arguments that it was traced with.
  const Type& result_type() const;

 private:
  std::shared_ptr<const autodiff_detail::ClosureGraph> graph_;
};

/// f as a Closure, traced on placeholders like these. f must assign no Variable, draw no random numbers and have no
/// effects, for it may run any number of times. `op` names the caller in errors.
template <class F, std::same_as<Tensor>... T>
Closure closure_convert(std::string_view op, Location where, const F& f, const T&... like) {
  static_assert(std::is_invocable_v<const F&, const T&...>,
                "sinter: the function given to a solver does not take its arguments: it has Tensors as parameters");
  using namespace autodiff_detail;
  OpenTrace trace("closure_convert");
  const std::tuple<T...> parameters{closure_parameter(*trace, like, op, where)...};  // braces: in order
  const auto result = call_held(f, parameters);
  static_assert(std::same_as<std::remove_cvref_t<decltype(result)>, Tensor>,
                "sinter: the function given to a solver returns one Tensor");
  return Closure(end_closure(std::move(trace), result, op, where));
}

}  // namespace jit
SINTER_NAMESPACE_END
