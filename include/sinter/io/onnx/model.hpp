// ONNX models that run here: load_onnx() reads one, and calling it records its operators, as a function of Tensors
// does.
#pragma once

#include <sinter/io/onnx/format.hpp>
#include <sinter/io/tensors.hpp>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io {

/// A model from an ONNX file. Copies share it, and calls may come from any thread. It is a function of Tensors like any
/// other: lazy when called, and traced inside jit::compile, where its weights are constants.
class OnnxModel {
 public:
  const std::vector<OnnxValueInfo>& inputs() const;
  const std::vector<OnnxValueInfo>& outputs() const;
  /// The version of ONNX's operators that the model is written in.
  std::int64_t opset() const;
  /// The initializers, by name.
  const TensorMap& weights() const;
  const std::map<std::string, std::string>& metadata() const;
  /// Inputs, outputs, and the number of nodes of each operator.
  std::string text() const;

  /// The outputs for these inputs, in the order of the model. An input's dtype, rank and stated extents must be its
  /// own (DTypeError, ShapeError), and extents of one name equal.
  std::vector<Tensor> operator()(std::span<const Tensor> inputs,
                                 Location where = std::source_location::current()) const;
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs,
                                 Location where = std::source_location::current()) const;
  /// The same by name. Inputs that the model has a value for may be left out.
  TensorMap operator()(const TensorMap& inputs, Location where = std::source_location::current()) const;

 private:
  friend OnnxModel load_onnx(const std::string& path, Location where);
  struct State;
  explicit OnnxModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// Reads a model, version 7 of the operators or newer. Weights share the mapped file. Throws IoError for a file that is
/// damaged or no model, and UserError with all operators of the model that there are none for here.
OnnxModel load_onnx(const std::string& path, Location where = std::source_location::current());
/// Is there an operator of ONNX by that name?
bool has_onnx_operator(std::string_view name);

}  // namespace io
SINTER_NAMESPACE_END
