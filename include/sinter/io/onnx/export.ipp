// From a graph to a model: what ONNX has no operator for is decomposed, regions are written out, and the rest is
// written node by node.
#pragma once

#include <sinter/io/onnx/export.hpp>

#include <sinter/base/index.hpp>
#include <sinter/io/onnx/export_node.hpp>
#include <sinter/io/onnx/format.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/guard_text.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/saved/saved_function.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/decompose.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
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
    for (const Value input : node.inputs) require_written(each, graph.type(input).dtype);
    for (const Type& type : node.types) require_written(each, type.dtype);
    const ExportFunction function = find_exporter(node);
    if (function == nullptr) each.fail({});
    return function(each);
  }
  /// Operators of the written version do not take f8 at all, and many of them no u64.
  static void require_written(const NodeExport& each, DType dtype) {
    if (code_of(dtype) == 0 || is_complex(dtype) || is_f8(dtype) || dtype == DType::u64)
      each.fail("of " + std::string(name(dtype)));
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

/// A Variable, captured or an argument, is a weight of its value now.
inline ExportedInput variable_input(const VariableSlot& slot, const jit::OnnxFile& file) {
  if (slot.role != VariableSlot::PerThreadRole::none)
    throw UserError("export_onnx", "the function draws random numbers", file.where, "export it without, for inference");
  return {.weight = Tensor(slot.value()), .name = slot.name};
}

// ---- what the trace relied on

/// Does the answer that the trace went by hold for all extents? A difference that is linear is decided at its corners;
/// of others many extents are tried.
inline bool holds_everywhere(const jit::DimGuard& guard, const jit::GuardSet& guards, std::span<const Dim> solution) {
  const Dim a = guard.lhs.substitute(solution), b = guard.rhs.substitute(solution);
  std::vector<SymbolId> used;
  a.collect_symbols(used);
  b.collect_symbols(used);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  const auto is_as_traced = [&](std::span<const std::int64_t> values) {
    const std::int64_t x = a.evaluate(values), y = b.evaluate(values);
    return (guard.relation == DimRelation::less ? x < y : x == y) == guard.outcome;
  };
  std::vector<std::int64_t> values(guards.symbols.size(), 2);
  constexpr std::int64_t far = 1 << 18;
  const auto least = [&](SymbolId id) { return guards.symbols[id].least(); };
  const auto most = [&](SymbolId id) { return std::max(least(id), std::min(guards.symbols[id].max, least(id) + far)); };
  if (used.size() <= 1) {
    for (std::int64_t i = 0; used.empty() ? i == 0 : least(used[0]) + i <= most(used[0]); i += i < 4096 ? 1 : 4095) {
      if (!used.empty()) values[used[0]] = least(used[0]) + i;
      if (!is_as_traced(values)) return false;
    }
    return true;
  }
  std::minstd_rand random(1);
  for (int round = 0; round < 4096; ++round) {
    for (const SymbolId id : used) {
      const std::int64_t reach = most(id) - least(id);
      const std::int64_t span = std::min<std::int64_t>(reach, std::int64_t{1} << (random() % 19));
      const auto step = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(span + 1));
      values[id] = random() % 8 == 0 ? most(id) : least(id) + step;
    }
    if (!is_as_traced(values)) return false;
  }
  return true;
}
/// A reshape that fits multiples alone fails for other extents in the model, too.
inline bool is_divided_by_reshape(const Graph& graph, SymbolId symbol) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.attrs.bodies)
      if (is_divided_by_reshape(*body, symbol)) return true;
    if (node.op != &op_info<ops::Reshape>) continue;
    std::vector<SymbolId> used;
    (graph.type(node.inputs[0]).shape.numel() - node.types[0].shape.numel()).collect_symbols(used);
    if (std::find(used.begin(), used.end(), symbol) != used.end()) return true;
  }
  return false;
}
/// The graph with equal extents made one. What else the trace was told of extents no model can hold.
inline Graph solved_graph(const Graph& traced, jit::GuardSet guards, Location where) {
  const auto refuse = [&](const std::string& what) {
    throw UserError("export_onnx", "the model would hold only where " + what, where,
                    "mark_static() fixes an extent, mark_dynamic() with a range bounds it; or take the question out");
  };
  for (std::size_t i = 0; i < guards.symbols.size(); ++i) {
    jit::SymbolSource& symbol = guards.symbols[i];
    if (symbol.divisor == 1) continue;
    if (!is_divided_by_reshape(traced, static_cast<SymbolId>(i)))
      refuse("s" + std::to_string(i) + " is a multiple of " + std::to_string(symbol.divisor) + " (" +
             jit::jit_detail::source_text(guards, symbol) + ")");
    symbol.divisor = 1;
  }
  const std::vector<Dim> solution = jit::solve_symbols(guards, {}, jit::Divide::no);
  for (const jit::DimGuard& guard : guards.dims) {
    if (guard.op == "reshape" && guard.relation == DimRelation::equal && guard.outcome)
      continue;  // the model's asks, too
    if (!holds_everywhere(guard, guards, solution))
      refuse(jit::jit_detail::relation_text(guard) + " (" + jit::jit_detail::mentioned_symbols(guards, guard, {}) +
             ")");
  }
  return jit::substitute_symbols(jit::share_symbols(traced), solution, guards.symbols);
}

}  // namespace io::onnx_detail

namespace jit {

SINTER_DECL void onnx_detail::export_function(const FunctionState& function, const OnnxFile& file) {
  const Entry* entry = function.newest();
  if (entry == nullptr || entry->call_types == nullptr || entry->tree != nullptr || entry->is_plain.load())
    throw UserError(
        "export_onnx", "no graph was traced of the function", file.where,
        "is compilation off (SINTER_DISABLE, a stance), or is a gradient wanted through a disabled function?");
  if (!jit_detail::holds_values_alone(*entry->call_types->result))
    throw UserError("export_onnx", "the function returns a number, text or an extent besides Tensors", file.where,
                    "return Tensors alone, several in a tuple, a container or a struct");
  std::size_t given = 0, variables = 0;
  std::vector<io::onnx_detail::ExportedInput> of_leaf, inputs;
  for (const LeafSpec& leaf : entry->guards.leaves) {
    io::onnx_detail::ExportedInput& made = of_leaf.emplace_back();
    if (leaf.kind == LeafKind::variable)
      made = io::onnx_detail::variable_input(*entry->traced_slots[variables++], file);
    else if (leaf.kind != LeafKind::fixed) made.leaf = given++;
  }
  for (const PlanInput& input : entry->end.inputs)
    inputs.push_back(input.source == PlanInput::Source::leaf ? of_leaf.at(as_index(input.index))
                                                             : io::onnx_detail::variable_input(*input.slot, file));
  if (!entry->end.assignments.empty())
    throw UserError("export_onnx", "the function assigns to a Variable, and models have no state", file.where,
                    "return the new value, and export a function that does");
  const Graph graph = io::onnx_detail::solved_graph(entry->traced, entry->guards, file.where);
  io::onnx_detail::export_graph(graph, inputs, given, entry->end.results - entry->end.saved, file);
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
