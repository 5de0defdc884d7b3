// Derivatives that the user decides on: checkpoint (compute again instead of keeping) and custom_vjp (a rule of one's
// own). Both record the function as it is, and after it a node that says where gradients go instead.
#pragma once

#include <sinter/autodiff/transforms.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace autodiff_detail {

/// Records the call and its derivative, which computes everything again from the operands.
std::vector<Ref<TensorImpl>> checkpoint_call(OpenTrace trace, std::span<const Ref<TensorImpl>> results, Location where);
/// Records the call alone.
std::vector<Ref<TensorImpl>> custom_forward(OpenTrace trace, std::span<const Ref<TensorImpl>> results, Location where);
/// `rule` has as parameters those of the function, the results and their gradients, and made `gradients` of the former.
std::vector<Ref<TensorImpl>> custom_call(OpenTrace rule, std::size_t parameters,
                                         std::span<const Ref<TensorImpl>> results,
                                         std::vector<Ref<TensorImpl>> gradients, Location where);

template <class F>
struct Checkpoint {
  using TakesArgumentsOf = F;
  F f;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    parameters_t<F, A...> originals{held_argument(args)...};  // before the trace: expressions among them belong outside
    OpenTrace trace("checkpoint");
    const auto result = trace_call(*trace, f, std::index_sequence_for<A...>{}, std::move(originals));
    return with_values(result, checkpoint_call(std::move(trace), values_of(result), where));
  }
};

template <class F, class Rule>
struct CustomVjp {
  using TakesArgumentsOf = F;
  F f;
  Rule rule;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    static_assert(!tree::has_variables<parameters_t<F, A...>>(),
                  "sinter: custom_vjp takes no Variables; pass variable.value()");
    const parameters_t<F, A...> originals{held_argument(args)...};
    OpenTrace forward("custom_vjp");
    const auto traced = trace_call(*forward, f, std::index_sequence_for<A...>{}, originals);
    const auto result = with_values(traced, custom_forward(std::move(forward), values_of(traced), where));
    OpenTrace backward("custom_vjp");
    auto parameters = originals;
    auto value = result, gradient = result;
    insert_placeholders(*backward, tree::part_of(parameters));
    const std::size_t count = placeholders_of(*backward);
    insert_placeholders(*backward, tree::part_of(value));
    insert_placeholders(*backward, tree::part_of(gradient));
    const auto given =
        call_held(rule, std::tuple_cat(std::move(parameters), std::tuple(std::move(value), std::move(gradient))));
    std::vector<Ref<TensorImpl>> gradients = directions_in(tree::view_of(given));
    return with_values(result, custom_call(std::move(backward), count, values_of(result), std::move(gradients), where));
  }
};

}  // namespace autodiff_detail

/// A function that gives what f gives, but keeps nothing for the backward pass: there f is computed again from its
/// arguments and from what it captured. Saves memory for time. f must have no effects such as jit::print.
template <class F>
auto checkpoint(F f, Location where = std::source_location::current()) {
  return autodiff_detail::Checkpoint<F>{std::move(f), where};
}

/// A function that gives what f gives, with a derivative of its own: backward(args..., result, gradient of the result)
/// gives the gradients of the arguments, in their types: that of the only one, or a tuple. What f captures is a
/// constant.
template <class F, class Backward>
auto custom_vjp(F f, Backward backward, Location where = std::source_location::current()) {
  return autodiff_detail::CustomVjp<F, Backward>{std::move(f), std::move(backward), where};
}

}  // namespace jit
SINTER_NAMESPACE_END
