// One node of a graph while ONNX operators are written for it. Included by .ipp files alone.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/io/onnx/export_writer.hpp>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

class NodeExport {
 public:
  NodeExport(ModelWriter& writer, const Graph& graph, const Node& node, std::vector<std::string> operands)
      : writer_(writer), graph_(graph), node_(node), operands_(std::move(operands)) {}

  ModelWriter& to() const { return writer_; }
  const Node& node() const { return node_; }
  const Graph& graph() const { return graph_; }
  const Attrs& attrs() const { return node_.attrs; }
  std::string_view op() const { return node_.op->name; }
  std::size_t count() const { return operands_.size(); }
  const std::string& x(std::size_t i = 0) const { return operands_[i]; }
  const Type& type(std::size_t i = 0) const { return graph_.type(node_.inputs[i]); }
  const Type& result(std::size_t i = 0) const { return node_.types[i]; }
  int rank(std::size_t i = 0) const { return type(i).shape.rank(); }
  /// Operand `i` as another dtype.
  std::string as(std::size_t i, DType dtype) const { return writer_.cast(operands_[i], type(i).dtype, dtype); }
  std::string number(double value) const { return writer_.number(value, result().dtype); }
  std::string make(std::string_view op, std::vector<std::string> inputs,
                   std::vector<OutAttribute> attributes = {}) const {
    return writer_.node(op, std::move(inputs), std::move(attributes));
  }
  /// The same where the first `typed` inputs and the result are of `dtype`, with casts around where version 18 of the
  /// operator does not take it.
  std::string make_of(DType dtype, std::string_view op, std::vector<std::string> inputs,
                      std::vector<OutAttribute> attributes = {}, std::size_t typed = 8) const;
  std::vector<std::int64_t> static_extents(const Shape& shape) const;
  [[noreturn]] void fail(std::string_view why) const;

 private:
  ModelWriter& writer_;
  const Graph& graph_;
  const Node& node_;
  std::vector<std::string> operands_;
};

using Names = std::vector<std::string>;
/// What stands for each result of the node.
using ExportFunction = Names (*)(const NodeExport& node);
struct Exporter {
  std::string_view op;
  ExportFunction write;
};
/// Null: the operation is decomposed, or cannot be written.
ExportFunction find_exporter(const Node& node);

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
