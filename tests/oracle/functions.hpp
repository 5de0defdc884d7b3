// The functions that the stored cases are of: by name, as calls with inputs and attributes.
#pragma once

#include "cases.hpp"

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace sinter_test {

using Tensors = std::vector<Tensor>;

/// What a case gives a function.
struct Args {
  const Tensors& inputs;
  const Attributes& at;
  std::optional<Dim> size;  // how many elements are found, for a traced function
  const Tensor& operator[](std::size_t i) const { return inputs.at(i); }
  bool has(std::size_t i) const { return i < inputs.size(); }
};

/// A function of one result, or of several.
struct NamedFunction {
  NamedFunction(std::string_view name_, Tensor (*call_)(const Args&)) : name(name_), one(call_) {}
  NamedFunction(std::string_view name_, Tensors (*call_)(const Args&)) : name(name_), several(call_) {}
  Tensors operator()(const Args& args) const { return one != nullptr ? Tensors{one(args)} : several(args); }
  std::string_view name;
  Tensor (*one)(const Args&) = nullptr;
  Tensors (*several)(const Args&) = nullptr;
};
using NamedFunctions = std::vector<NamedFunction>;

/// Several lists as one.
NamedFunctions joined(std::initializer_list<NamedFunctions> lists);

NamedFunctions elementwise_functions();
NamedFunctions reductions_functions();
NamedFunctions order_functions();
NamedFunctions shapes_functions();
NamedFunctions linalg_functions();
NamedFunctions conditioned_functions();  // some of those of linalg, of matrices that are hard
NamedFunctions layers_functions();
NamedFunctions losses_functions();
NamedFunctions special_functions();
NamedFunctions complex_functions();
NamedFunctions matrices_functions();  // beside those of linalg and of complex numbers
NamedFunctions quantization_functions();
NamedFunctions signal_functions();
NamedFunctions creation_functions();  // also among those of shapes

}  // namespace sinter_test
