// From a graph to a model: what ONNX has no operator for is decomposed, regions are written out, and the rest is
// written node by node.
#pragma once

#include <sinter/io/onnx/export.hpp>

#include <sinter/base/index.hpp>
#include <sinter/io/onnx/export_node.hpp>
#include <sinter/io/onnx/format.hpp>
#include <sinter/jit/saved/saved_function.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/decompose.hpp>

#include <map>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

class GraphExport {
 public:
  explicit GraphExport(ModelWriter& writer) : writer_(writer) {}

  /// The names of the graph's outputs; `inputs` are those of its inputs.
  std::vector<std::string> write(const Graph& traced, const std::vector<std::string>& inputs) {
    const Decompose decompose{[](const Graph&, const Node& node) { return find_exporter(node) != nullptr; },
                              Decompose::Symbols::unsolved};
    const Graph graph = Dce{}(decompose(traced));
    std::vector<std::vector<std::string>> names(graph.nodes().size());
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) names[as_index(graph.inputs()[i].node)] = {inputs[i]};
    for (std::size_t id = 0; id < graph.nodes().size(); ++id)
      if (names[id].empty()) names[id] = write_node(graph, graph.nodes()[id], names);
    std::vector<std::string> out;
    for (const Value output : graph.outputs()) out.push_back(names[as_index(output.node)][as_index(output.result)]);
    return out;
  }

 private:
  std::vector<std::string> write_node(const Graph& graph, const Node& node,
                                      const std::vector<std::vector<std::string>>& names) {
    std::vector<std::string> operands;
    for (const Value input : node.inputs) operands.push_back(names[as_index(input.node)][as_index(input.result)]);
    if (node.op->is_call) return write(*node.attrs.bodies[0], operands);
    const NodeExport each(writer_, graph, node, std::move(operands));
    for (const Type& type : node.types)
      if (code_of(type.dtype) == 0 || is_complex(type.dtype)) each.fail("of complex numbers");
    const ExportFunction function = find_exporter(node);
    if (function == nullptr) each.fail({});
    return function(each);
  }
  ModelWriter& writer_;
};

inline std::string name_at(const std::vector<std::string>& given, std::size_t i, const char* otherwise) {
  return i < given.size() ? given[i] : otherwise + std::to_string(i);
}
inline void check_names(const std::vector<std::string>& given, std::size_t count, const char* what, Location where) {
  if (given.empty() || given.size() == count) return;
  throw UserError("export_onnx",
                  "there are names for " + std::to_string(given.size()) + " " + what + ", of " + std::to_string(count),
                  where, "give all their names, or none");
}

/// What stands for an input of the graph: a name of the model's input, or a weight.
struct ExportedInput {
  std::size_t leaf = 0;
  std::optional<Tensor> weight{};
  std::string name{};
};
inline void export_graph(const Graph& graph, const std::vector<ExportedInput>& inputs, std::size_t leaves,
                         std::size_t results, const jit::OnnxFile& file) {
  check_names(file.inputs, leaves, "inputs", file.where);
  check_names(file.outputs, results, "outputs", file.where);
  ModelWriter writer(graph);
  std::vector<std::string> outputs, names;
  for (std::size_t i = 0; i < results; ++i) {
    outputs.push_back(name_at(file.outputs, i, "output"));
    if (writer.unique(outputs.back()) != outputs.back())
      throw UserError("export_onnx", "two values are called '" + outputs.back() + "'", file.where,
                      "give each its own name");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].weight) continue;
    const std::string name = name_at(file.inputs, inputs[i].leaf, "input");
    if (writer.unique(name) != name)
      throw UserError("export_onnx", "two values are called '" + name + "'", file.where, "give each its own name");
    writer.set_input(i, name, true);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].weight) writer.set_input(i, writer.weight(*inputs[i].weight, inputs[i].name), false);
  for (std::size_t i = 0; i < inputs.size(); ++i) names.push_back(writer.input(i));
  const std::vector<std::string> values = GraphExport(writer).write(graph, names);
  for (std::size_t i = 0; i < results; ++i) writer.set_output(outputs[i], values[i], graph.type(graph.outputs()[i]));
  writer.write(file.path, file.external_data, file.where);
}

}  // namespace io::onnx_detail

namespace jit {

SINTER_DECL void onnx_detail::export_function(const FunctionState& function, const OnnxFile& file) {
  jit_detail::Snapshot snapshot(file.where);
  snapshot.add("main", function);
  const SavedBundle bundle = snapshot.finish();
  const SavedVersion& version = bundle.functions.at(0).versions.at(0);
  const SavedStep& step = version.steps.at(0);
  for (const SavedVariable& variable : bundle.variables)
    if (variable.role != VariableSlot::PerThreadRole::none)
      throw UserError("export_onnx", "the function draws random numbers", file.where,
                      "export it without, for inference");
  if (!step.assignments.empty())
    throw UserError("export_onnx", "the function assigns to a Variable, and models have no state", file.where,
                    "return the new value, and export a function that does");
  for (const SavedPart& part : step.shape)
    if (part.kind != SavedPart::Kind::value)
      throw UserError("export_onnx", "the function returns a number or an extent besides Tensors", file.where,
                      "return Tensors alone");
  std::vector<io::onnx_detail::ExportedInput> inputs;
  for (const SavedStep::Input& input : step.inputs) {
    if (input.from == SavedStep::Input::From::leaf) {
      inputs.push_back({.leaf = as_index(input.index)});
      continue;
    }
    const SavedVariable& variable = bundle.variables.at(as_index(input.index));
    inputs.push_back({.weight = Tensor(variable.slot->value()), .name = variable.name});
  }
  io::onnx_detail::export_graph(step.graph, inputs, version.guards.leaves.size(), step.results, file);
}

SINTER_DECL void export_onnx(const Graph& graph, const OnnxFile& file) {
  std::vector<io::onnx_detail::ExportedInput> inputs(graph.inputs().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].leaf = i;
  io::onnx_detail::export_graph(graph, inputs, inputs.size(), graph.outputs().size(), file);
}
SINTER_DECL void export_onnx(const Graph& graph, const std::string& path, Location where) {
  export_onnx(graph, OnnxFile{.path = path, .where = where});
}

}  // namespace jit
SINTER_NAMESPACE_END
