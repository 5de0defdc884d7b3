// What is in a model: its Variables with their names, all of its values as one vector, and the norm of its gradients. A
// model is any struct, class with SINTER_FIELDS, or container of them.
#pragma once

#include <sinter/autodiff/tape.hpp>
#include <sinter/expr/tree.hpp>

#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A Variable of a model and the path to it: "layers[0].w". Aliases the model's.
struct Parameter {
  std::string name;
  Variable variable;
};

namespace autodiff_detail {
std::vector<Parameter> parameters_of(tree::View model);
Tensor flat_values(tree::View object, Location where);
void fill_from_flat(tree::Part object, const In& vector);
Tensor clip_gradients(tree::View model, double max_norm, Location where);
}  // namespace autodiff_detail

/// The Variables of a model in the order of its members, each once. Fields have their names where SINTER_FIELDS gives
/// them, and numbers elsewhere.
template <class Model>
std::vector<Parameter> parameters(const Model& model) {
  return autodiff_detail::parameters_of(tree::view_of(model));
}

/// All Tensors and Variables of an object, row-major, one after the other in the order of its members. They must be of
/// one dtype.
template <class T>
Tensor flatten(const T& object, Location where = std::source_location::current()) {
  return autodiff_detail::flat_values(tree::view_of(object), where);
}
/// What flatten() took apart: an object like `like`, whose Tensors are the parts of the vector.
template <class T>
T unflatten(T like, const In& vector) {
  static_assert(!tree::has_variables<T>(), "sinter: unflatten makes Tensors; assign Variables from them");
  autodiff_detail::fill_from_flat(tree::part_of(like), vector);
  return like;
}

/// Scales the gradients of a model's Variables so that the norm of all of them together is at most `max_norm`; gives
/// the norm before.
template <class Model>
Tensor clip_grad_norm(const Model& model, double max_norm, Location where = std::source_location::current()) {
  return autodiff_detail::clip_gradients(tree::view_of(model), max_norm, where);
}

}  // namespace jit
SINTER_NAMESPACE_END
