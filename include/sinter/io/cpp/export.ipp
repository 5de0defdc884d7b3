// From a traced function to a header.
#pragma once

#include <sinter/io/cpp/export.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/io/cpp/header_writer.hpp>
#include <sinter/io/file.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/saved/saved_function.hpp>
#include <sinter/tensor/precision.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::cpp_detail {

/// Words that C++ keeps for itself, macros that compilers define without underscores, and names of the function's body.
inline constexpr std::string_view taken_words =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const "
    "constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern "
    "false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or "
    "or_eq private protected public register reinterpret_cast return short signed sizeof static static_assert "
    "static_cast std struct switch template this thread_local throw true try typedef typeid typename union unsigned "
    "using virtual void volatile wchar_t while xor xor_eq char8_t concept consteval constinit co_await co_return "
    "co_yield requires NULL errno linux unix arena ";
/// What follows the function's name in names of the header.
inline constexpr std::string_view name_endings[] = {"_ok",           "_wrong_processor", "_out_of_memory",
                                                    "_bad_argument", "_bad_index",       "_status",
                                                    "_status_text",  "_arena_bytes",     "_detail"};

inline bool is_identifier(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool is_reserved = name.size() > 1 && name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z';
  return !name.empty() && is_letter(name[0]) && !is_reserved && name.find("__") == std::string::npos &&
         !name.starts_with("sinter_") &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); }) &&
         taken_words.find(" " + name + " ") == std::string_view::npos;
}

/// The names of parameters, all of them different and words of C++.
inline std::vector<std::string> parameter_names(const std::vector<std::string>& given, std::size_t count,
                                                const char* what, const jit::CppFile& file,
                                                std::vector<std::string>& taken) {
  if (!given.empty() && given.size() != count)
    throw UserError(
        "export_cpp",
        "there are names for " + std::to_string(given.size()) + " " + what + "s, of " + std::to_string(count),
        file.where, "give all their names, or none");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = given.empty() ? what + std::to_string(i) : given[i];
    const bool is_of_header = name.starts_with(file.name) &&
                              std::find(std::begin(name_endings), std::end(name_endings),
                                        std::string_view(name).substr(file.name.size())) != std::end(name_endings);
    if (is_of_header)
      throw UserError("export_cpp", "'" + name + "' is a name of the header's own", file.where, "choose another");
    if (!is_identifier(name))
      throw UserError("export_cpp", "'" + name + "' is no name that a parameter can have", file.where,
                      "use letters, digits and _, no word of C++, and not sinter_ at the beginning");
    if (std::find(taken.begin(), taken.end(), name) != taken.end())
      throw UserError("export_cpp", "two values are called '" + name + "'", file.where, "give each its own name");
    taken.push_back(name);
    names.push_back(std::move(name));
  }
  return names;
}

inline void check_devices(const Graph& graph, const jit::CppFile& file) {
  for (const Node& node : graph.nodes())
    for (const Type& type : node.types)
      if (type.device != Device::cpu())
        throw UserError("export_cpp", "the function computes on " + type.device.text(),
                        node.where.line == 0 ? file.where : node.where,
                        "export it for the CPU: its arguments, Variables and captured Tensors are to be there");
}

/// What stands for an input of the graph: the parameter of that number, or a weight.
struct ExportedInput {
  std::size_t parameter = 0;
  Ref<TensorImpl> weight{};
};

inline void write_header(const Graph& graph, MatmulPrecision precision, const std::vector<ExportedInput>& inputs,
                         std::size_t parameters, const jit::CppFile& file) {
  check_devices(graph, file);
  if (!is_identifier(file.name) || file.name == "main" || file.name[0] == '_')
    throw UserError("export_cpp", "'" + file.name + "' is no name that a function can have", file.where,
                    "use letters, digits and _, no word of C++, and neither _ nor sinter_ at the beginning");
  if (!file.isa.empty() && file.isa != "avx2" && file.isa != "avx512")
    throw UserError("export_cpp", "unknown instruction set \"" + file.isa + "\"", file.where,
                    "use avx2 or avx512, or leave it empty for this processor's");
  std::vector<std::string> taken{file.name};
  HeaderText text{.name = file.name,
                  .isa = file.isa,
                  .inputs = {},
                  .parameters = parameter_names(file.inputs, parameters, "input", file, taken),
                  .outputs = parameter_names(file.outputs, graph.outputs().size(), "output", file, taken),
                  .where = file.where};
  for (const ExportedInput& input : inputs)
    text.inputs.push_back({input.weight ? std::string() : text.parameters[input.parameter], input.weight.get()});
  const std::string header = header_text(graph, precision, text);
  AtomicFile out(file.path, "export_cpp", file.where);
  out.write(header);
  out.commit();
}

/// Without what is saved for a gradient, which stands behind the results.
inline Graph first_outputs(const Graph& graph, std::size_t count) {
  GraphBuilder builder(graph);
  builder.reserve(graph.nodes().size());
  for (const Node& node : graph.nodes()) builder.copy(node, {node.inputs.begin(), node.inputs.end()});
  return builder.finish(graph.outputs().first(count));
}

/// A Variable, captured or an argument, is a weight of its value now.
inline ExportedInput variable_input(const VariableSlot& slot, const jit::CppFile& file) {
  if (slot.role != VariableSlot::PerThreadRole::none)
    throw UserError("export_cpp", "the function draws random numbers", file.where,
                    "give it the numbers as an argument, or export it without, for inference");
  return {.weight = dense_value(In(Tensor(slot.value()), file.where), "export_cpp")};
}

}  // namespace io::cpp_detail

namespace jit {

SINTER_DECL void cpp_detail::export_function(const FunctionState& function, const CppFile& file) {
  const Entry* entry = function.newest();
  if (entry == nullptr || entry->call_types == nullptr || entry->tree != nullptr || entry->is_plain.load())
    throw UserError(
        "export_cpp", "no graph was traced of the function", file.where,
        "is compilation off (SINTER_DISABLE, a stance), or is a gradient wanted through a disabled function?");
  if (!jit_detail::holds_values_alone(*entry->call_types->result))
    throw UserError("export_cpp", "the function returns a number, text or an extent besides Tensors", file.where,
                    "return Tensors alone, several in a tuple, a container or a struct");
  io::cpp_detail::check_devices(entry->specialised, file);
  std::size_t parameters = 0, variables = 0;
  std::vector<io::cpp_detail::ExportedInput> of_leaf, inputs;
  for (const LeafSpec& leaf : entry->guards.leaves) {
    io::cpp_detail::ExportedInput& made = of_leaf.emplace_back();
    if (leaf.kind == LeafKind::variable) made = io::cpp_detail::variable_input(*entry->traced_slots[variables++], file);
    else if (leaf.kind != LeafKind::fixed) made.parameter = parameters++;
  }
  for (const PlanInput& input : entry->end.inputs)
    inputs.push_back(input.source == PlanInput::Source::leaf ? of_leaf.at(as_index(input.index))
                                                             : io::cpp_detail::variable_input(*input.slot, file));
  if (!entry->end.assignments.empty())
    throw UserError("export_cpp", "the function assigns to a Variable, and the header's has no state", file.where,
                    "return the new value, and export a function that does");
  const Graph graph = io::cpp_detail::first_outputs(entry->specialised, entry->end.results - entry->end.saved);
  io::cpp_detail::write_header(graph, entry->precision, inputs, parameters, file);
}

SINTER_DECL void export_cpp(const Graph& graph, const CppFile& file) {
  std::vector<io::cpp_detail::ExportedInput> inputs(graph.inputs().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].parameter = i;
  io::cpp_detail::write_header(graph, matmul_precision(), inputs, inputs.size(), file);
}
SINTER_DECL void export_cpp(const Graph& graph, const std::string& path, Location where) {
  export_cpp(graph, CppFile{.path = path, .where = where});
}

}  // namespace jit
SINTER_NAMESPACE_END
