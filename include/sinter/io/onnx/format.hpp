// What an ONNX file holds, as data: models, graphs, nodes, attributes, tensors. Must not know what an operator does.
#pragma once

#include <sinter/io/onnx/wire.hpp>
#include <sinter/tensor/dim.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io {

/// What a model says of an input or an output.
struct OnnxValueInfo {
  std::string name{};
  DType dtype = DType::f32;
  bool has_shape = false;
  std::vector<std::int64_t> extents{};  // -1: one that calls give
  std::vector<std::string> symbols{};   // the names of such extents; "" for those without
  /// "x: f32[batch, 3]".
  std::string text() const;
};

namespace onnx_detail {

/// The numbers by which ONNX knows dtypes, or 0.
int code_of(DType dtype);
std::optional<DType> dtype_of_code(std::int64_t code);
std::string code_name(std::int64_t code);

/// A tensor of the file. Few numbers are also there as such: shapes, axes and bounds are made of them.
struct FileTensor {
  std::string name{};
  Tensor value{};
  std::optional<std::vector<std::int64_t>> integers{};
  std::optional<std::vector<double>> reals{};
};

struct FileGraph;

struct FileAttribute {
  enum class Kind : std::uint8_t { none, real, integer, text, tensor, graph, reals, integers, texts };
  std::string name{};
  Kind kind = Kind::none;
  double real = 0;
  std::int64_t integer = 0;
  std::string text{};
  std::shared_ptr<const FileTensor> tensor{};
  std::shared_ptr<const FileGraph> graph{};
  std::vector<double> reals{};
  std::vector<std::int64_t> integers{};
  std::vector<std::string> texts{};
  std::string reference{};  // in a function: the attribute of its call that it stands for
};

struct FileNode {
  std::string op{}, domain{}, overload{}, name{};  // domain: "" is ONNX's own
  std::vector<std::string> inputs{}, outputs{};
  std::vector<FileAttribute> attributes{};
  /// "Conv 'layer1'", for errors.
  std::string text() const;
};

struct FileGraph {
  std::string name{};
  std::vector<FileNode> nodes{};
  std::vector<FileTensor> initializers{};
  std::vector<OnnxValueInfo> inputs{}, outputs{};
};

/// A function of the model: nodes that a node of its name stands for.
struct FileFunction {
  std::string name{}, domain{}, overload{};
  std::vector<std::string> inputs{}, outputs{};
  std::vector<FileNode> nodes{};
  std::vector<FileAttribute> defaults{};
  std::int64_t opset = 0;
};

struct FileModel {
  std::string path{}, producer{};
  std::int64_t opset = 0;  // of ai.onnx
  std::map<std::string, std::string> metadata{};
  FileGraph graph{};
  std::vector<FileFunction> functions{};
};

FileModel read_model(const std::string& path, Location where);
/// A TensorProto in a file of its own, as ONNX's test data are.
FileTensor read_tensor(const std::string& path, Location where);

}  // namespace onnx_detail
}  // namespace io
SINTER_NAMESPACE_END
