// Operations by their names at run time, for importers, bindings and tools. What functions do before they record (axes
// counted from the end, numbers that become tensors, options) is not done here: these are the operations that graphs
// show.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// An attribute of an operation, as graphs write it: `axes=[0, 1]`, `eps=1e-05`, `reduction=mean`, or its name alone.
struct OpAttribute {
  std::string_view name;
  std::string value;  // what its value looks like: "a list of whole numbers: [0, 1]"
};
/// What an operation takes and gives.
struct OpSignature {
  std::string_view name;
  std::string_view kind;   // elementwise, reduction, view, structured, composite
  std::string_view dtype;  // of the result, where one rule says it for all operands; else empty
  int inputs = 0;          // -1: any number
  std::vector<OpAttribute> attributes;
  bool is_differentiable = false;

  /// "softmax(x) {axes}", and the like.
  std::string text() const;
};
/// Every operation that call() takes, by name.
std::vector<OpSignature> list_ops();

/// The results of an operation: call("softmax", {x}, "axes=[1]")[0]. Attributes are those of list_ops(), with commas
/// between them. Eager or traced as any function is. UserError for a name, a number of inputs or an attribute that
/// there is not, with what there is; shapes and dtypes are checked as in graphs.
std::vector<Tensor> call(std::string_view op, std::span<const In> inputs, std::string_view attributes = {},
                         Location where = std::source_location::current());
std::vector<Tensor> call(std::string_view op, std::initializer_list<In> inputs, std::string_view attributes = {},
                         Location where = std::source_location::current());

SINTER_NAMESPACE_END
