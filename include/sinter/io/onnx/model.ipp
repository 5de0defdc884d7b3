// Runs the nodes of a model in their order, which ONNX asks to be that of their use.
#pragma once

#include <sinter/io/onnx/model.hpp>

#include <sinter/base/index.hpp>
#include <sinter/io/onnx/node_call.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {

struct OnnxModel::State {
  onnx_detail::FileModel file;
  std::vector<OnnxValueInfo> inputs;  // without those that are initializers
  TensorMap weights;
};

namespace onnx_detail {

inline constexpr int deepest_call = 64;
/// Functions that call each other twice, 64 deep, would be 2^64 nodes.
inline constexpr std::int64_t most_nodes = 1 << 20;

inline bool is_standard(const std::string& domain) { return domain.empty(); }
inline const FileFunction* function_of(const FileModel& model, const FileNode& node) {
  for (const FileFunction& function : model.functions)
    if (function.name == node.op && function.domain == node.domain && function.overload == node.overload)
      return &function;
  return nullptr;
}

/// The values of a graph, and of those it is in.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  const Operand* find(const std::string& name) const {
    const auto found = values_.find(name);
    return found != values_.end() ? &found->second : outer_ != nullptr ? outer_->find(name) : nullptr;
  }
  void set(const std::string& name, Operand value) { values_.insert_or_assign(name, std::move(value)); }

 private:
  const Scope* outer_;
  std::map<std::string, Operand> values_;
};

class ModelRun {
 public:
  ModelRun(const FileModel& model, Location where) : model_(model), where_(where) {}

  /// `given`: the attributes of the function's call that the graph is in.
  Operands run_graph(const FileGraph& graph, Scope& scope, const std::vector<FileAttribute>& given, std::int64_t opset,
                     int level) {
    for (const FileTensor& tensor : graph.initializers)
      if (scope.find(tensor.name) == nullptr || level > 0) scope.set(tensor.name, Operand::of_file(tensor));
    run_nodes(graph.nodes, scope, given, opset, level);
    Operands out;
    for (const OnnxValueInfo& output : graph.outputs) out.push_back(value(scope, output.name, "the graph's outputs"));
    return out;
  }

 private:
  Operand value(const Scope& scope, const std::string& name, const std::string& user) const {
    if (const Operand* found = scope.find(name)) return *found;
    throw UserError("load_onnx", model_.path + ": " + user + ": there is no value '" + name + "' yet", where_,
                    "nodes stand in the order in which they run: get the file again");
  }

  void run_nodes(const std::vector<FileNode>& nodes, Scope& scope, const std::vector<FileAttribute>& given,
                 std::int64_t opset, int level) {
    if (level > deepest_call)
      throw UserError("load_onnx", model_.path + ": functions call each other without end", where_);
    for (const FileNode& node : nodes) {
      if (++nodes_ > most_nodes)
        throw UserError("load_onnx", model_.path + ": a call runs more than " + std::to_string(most_nodes) + " nodes",
                        where_);
      Operands operands;
      for (const std::string& name : node.inputs)
        operands.push_back(name.empty() ? Operand() : value(scope, name, node.text()));
      Operands results = run_node(node, given, std::move(operands), scope, opset, level);
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        if (i >= results.size() || !results[i].is_there())
          throw UserError("load_onnx", model_.path + ": " + node.text() + ": there is no output " + std::to_string(i),
                          where_);
        scope.set(node.outputs[i], std::move(results[i]));
      }
    }
  }
  /// Within a function attributes may stand for those of the call.
  static std::vector<FileAttribute> bound(const FileNode& node, const std::vector<FileAttribute>& given) {
    std::vector<FileAttribute> out;
    for (const FileAttribute& attribute : node.attributes) {
      if (attribute.reference.empty()) {
        out.push_back(attribute);
        continue;
      }
      for (const FileAttribute& argument : given)
        if (argument.name == attribute.reference) {
          out.push_back(argument);
          out.back().name = attribute.name;
        }
    }
    return out;
  }

  Operands run_node(const FileNode& node, const std::vector<FileAttribute>& given, Operands operands, Scope& scope,
                    std::int64_t opset, int level) {
    std::vector<FileAttribute> attributes = bound(node, given);
    if (const FileFunction* function = function_of(model_, node)) {
      Scope inner;
      for (std::size_t i = 0; i < function->inputs.size(); ++i)
        inner.set(function->inputs[i], i < operands.size() ? operands[i] : Operand());
      for (const FileAttribute& otherwise : function->defaults)
        if (std::none_of(attributes.begin(), attributes.end(), [&](const auto& a) { return a.name == otherwise.name; }))
          attributes.push_back(otherwise);
      run_nodes(function->nodes, inner, attributes, function->opset == 0 ? opset : function->opset, level + 1);
      Operands out;
      for (const std::string& name : function->outputs) out.push_back(value(inner, name, node.text()));
      return out;
    }
    const NodeCall::Surroundings around{opset, model_.path, where_,
                                        [&](const FileGraph& graph, const Operands& inputs) {
                                          Scope inner(&scope);
                                          for (std::size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i)
                                            inner.set(graph.inputs[i].name, inputs[i]);
                                          return run_graph(graph, inner, given, opset, level + 1);
                                        }};
    const NodeCall call(node, std::move(attributes), std::move(operands), around);
    const OperatorFunction run = is_standard(node.domain) ? find_operator(node.op) : nullptr;
    if (run == nullptr) call.fail("there is no such operator here");
    try {
      return run(call);
    } catch (const ShapeError& error) { fail_in(node, error); } catch (const DTypeError& error) {
      fail_in(node, error);
    } catch (const IndexError& error) { fail_in(node, error); }
  }
  /// The same error with the node in front, once.
  template <class E>
  [[noreturn]] void fail_in(const FileNode& node, const E& error) const {
    std::string text(error.op().data());
    if (text.find(model_.path + ": ") != std::string::npos) throw error;
    const std::string fix(error.fix()), place = " [" + error.where().text() + "]";
    text.resize(text.size() - fix.size());
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
    if (error.where().file != nullptr && text.ends_with(place)) text.resize(text.size() - place.size());
    throw E("load_onnx", model_.path + ": " + node.text() + ": " + text, where_, fix);
  }

  const FileModel& model_;
  Location where_;
  std::int64_t nodes_ = 0;
};

inline void collect_missing(const FileModel& model, const std::vector<FileNode>& nodes,
                            std::set<std::string>& missing) {
  for (const FileNode& node : nodes) {
    for (const FileAttribute& attribute : node.attributes)
      if (attribute.graph != nullptr) collect_missing(model, attribute.graph->nodes, missing);
    if (function_of(model, node) == nullptr && (!is_standard(node.domain) || find_operator(node.op) == nullptr))
      missing.insert(is_standard(node.domain) ? node.op : node.domain + "." + node.op);
  }
}
inline void check_operators(const FileModel& model, Location where) {
  std::set<std::string> missing;
  collect_missing(model, model.graph.nodes, missing);
  for (const FileFunction& function : model.functions) collect_missing(model, function.nodes, missing);
  constexpr std::int64_t oldest = 7;
  if (missing.empty() && model.opset < oldest)
    throw UserError("load_onnx", model.path + ": version " + std::to_string(model.opset) + " of the operators", where,
                    "convert it to version 7 or newer: onnx.version_converter");
  if (missing.empty()) return;
  std::string names;
  for (const std::string& name : missing) names += (names.empty() ? "" : ", ") + name;
  throw UserError("load_onnx", model.path + ": there are no operators " + names, where,
                  "docs/onnx.md lists those that are read");
}

/// Is `input` what the model says of it? `extents` has those of names that were seen.
inline void check_input(const OnnxValueInfo& wanted, const Tensor& input, std::map<std::string, Dim>& extents,
                        Location where) {
  const std::string name = "input '" + wanted.name + "'";
  if (input.dtype() != wanted.dtype)
    throw DTypeError(
        "OnnxModel",
        name + " is " + std::string(sinter::name(input.dtype())) + ", not " + std::string(sinter::name(wanted.dtype)),
        where, "cast(x, DType::" + std::string(sinter::name(wanted.dtype)) + ")");
  if (!wanted.has_shape) return;
  const Shape shape = input.shape();
  bool fits = shape.rank() == static_cast<int>(wanted.extents.size());
  for (int i = 0; fits && i < shape.rank(); ++i) {
    const std::int64_t extent = wanted.extents[as_index(i)];
    const std::string& symbol = wanted.symbols[as_index(i)];
    if (extent >= 0) fits = shape[i] == Dim(extent);
    else if (!symbol.empty()) fits = extents.emplace(symbol, shape[i]).first->second == shape[i];
  }
  if (!fits) throw ShapeError("OnnxModel", name + " is " + shape.text() + "; the model has " + wanted.text(), where);
}

}  // namespace onnx_detail

SINTER_DECL const std::vector<OnnxValueInfo>& OnnxModel::inputs() const { return state_->inputs; }
SINTER_DECL const std::vector<OnnxValueInfo>& OnnxModel::outputs() const { return state_->file.graph.outputs; }
SINTER_DECL std::int64_t OnnxModel::opset() const { return state_->file.opset; }
SINTER_DECL const TensorMap& OnnxModel::weights() const { return state_->weights; }
SINTER_DECL const std::map<std::string, std::string>& OnnxModel::metadata() const { return state_->file.metadata; }
SINTER_DECL std::string OnnxModel::text() const {
  std::string out = "opset " + std::to_string(opset()) + "\n";
  for (const OnnxValueInfo& input : inputs()) out += "input " + input.text() + "\n";
  for (const OnnxValueInfo& output : outputs()) out += "output " + output.text() + "\n";
  std::map<std::string, int> counts;
  for (const onnx_detail::FileNode& node : state_->file.graph.nodes) ++counts[node.op];
  for (const auto& [op, count] : counts) out += std::to_string(count) + " " + op + "\n";
  return out;
}

SINTER_DECL std::vector<Tensor> OnnxModel::operator()(std::span<const Tensor> inputs, Location where) const {
  if (inputs.size() != state_->inputs.size())
    throw UserError("OnnxModel",
                    "there are " + std::to_string(inputs.size()) + " inputs, the model has " +
                        std::to_string(state_->inputs.size()),
                    where);
  TensorMap named;
  for (std::size_t i = 0; i < inputs.size(); ++i) named.emplace(state_->inputs[i].name, inputs[i]);
  TensorMap found = (*this)(named, where);
  std::vector<Tensor> out;
  for (const OnnxValueInfo& output : outputs()) out.push_back(found.at(output.name));
  return out;
}
SINTER_DECL std::vector<Tensor> OnnxModel::operator()(std::initializer_list<Tensor> inputs, Location where) const {
  return (*this)(std::span<const Tensor>(inputs.begin(), inputs.size()), where);
}

SINTER_DECL TensorMap OnnxModel::operator()(const TensorMap& inputs, Location where) const {
  using namespace onnx_detail;
  Scope scope;
  std::map<std::string, Dim> extents;
  for (const auto& [name, tensor] : inputs) {
    const auto& known = state_->file.graph.inputs;
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const OnnxValueInfo& info) { return info.name == name; });
    if (found == known.end())
      throw UserError("OnnxModel", "the model has no input '" + name + "'", where, "see inputs()");
    check_input(*found, tensor, extents, where);
    scope.set(name, Operand(tensor));
  }
  for (const OnnxValueInfo& input : state_->inputs)
    if (!inputs.contains(input.name))
      throw UserError("OnnxModel", "input '" + input.name + "' is missing", where, "see inputs()");
  const Operands results =
      ModelRun(state_->file, where).run_graph(state_->file.graph, scope, {}, state_->file.opset, 0);
  TensorMap out;
  for (std::size_t i = 0; i < results.size(); ++i) out.insert_or_assign(outputs()[i].name, results[i].tensor(where));
  return out;
}

SINTER_DECL OnnxModel load_onnx(const std::string& path, Location where) {
  auto state = std::make_shared<OnnxModel::State>();
  state->file = onnx_detail::read_model(path, where);
  onnx_detail::check_operators(state->file, where);
  for (const onnx_detail::FileTensor& tensor : state->file.graph.initializers)
    state->weights.insert_or_assign(tensor.name, tensor.value);
  for (const OnnxValueInfo& input : state->file.graph.inputs)
    if (!state->weights.contains(input.name)) state->inputs.push_back(input);
  return OnnxModel(std::move(state));
}
SINTER_DECL bool has_onnx_operator(std::string_view name) { return onnx_detail::find_operator(name) != nullptr; }

}  // namespace io
SINTER_NAMESPACE_END
