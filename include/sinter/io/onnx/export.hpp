// Graphs as ONNX files: export_onnx() traces a function and writes what it computes, version 18 of the operators.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/compile.hpp>

#include <concepts>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Where a model goes, and what its values are called. A path alone does: export_onnx(f, "model.onnx", x).
struct OnnxFile {
  std::string path;
  std::vector<std::string> inputs{};  // names of the Tensors and Scalars among the arguments; none: input0, input1, ...
  std::vector<std::string> outputs{};  // none: output0, output1, ...
  /// Weights in a file beside the model, PATH.data. Those of more than 1 GiB together always are.
  bool external_data = false;
  Dynamic dynamic = Dynamic::automatic;  // always: every extent is one that calls give
  Location where = std::source_location::current();
};

namespace onnx_detail {
void export_function(const FunctionState& function, const OnnxFile& file);
/// A path, with the place it was written.
class OnnxPath {
 public:
  template <class S>
    requires std::convertible_to<const S&, std::string>
  OnnxPath(const S& path, Location where = std::source_location::current()) : file_{.path = path, .where = where} {}
  const OnnxFile& file() const { return file_; }

 private:
  OnnxFile file_;
};
template <class F>
const F& function_in(const F& function) {
  return function;
}
template <class F>
const F& function_in(const Compiled<F>& compiled) {
  return compiled.function();
}
}  // namespace onnx_detail

/// Traces `f`, a function or what compile() gave, for arguments like these, and writes the model. Extents that
/// mark_dynamic() named are the model's, by name (s0, s1, ...); captured Tensors and Variables are its initializers.
/// The file is replaced as a whole. Throws UserError for an operation that ONNX has no operators for, with its line,
/// for a function that reads values or assigns to Variables, and IoError.
template <class F, class... A>
void export_onnx(const F& f, const OnnxFile& file, const A&... args) {
  const auto traced = compile(onnx_detail::function_in(f), {.dynamic = file.dynamic, .fullgraph = true}, file.where);
  traced.warm_up(args...);
  onnx_detail::export_function(*jit_detail::StateAccess::of(traced), file);
}
template <class F, class... A>
  requires(!std::same_as<F, Graph>)
void export_onnx(const F& f, const onnx_detail::OnnxPath& path, const A&... args) {
  export_onnx(f, path.file(), args...);
}
/// A graph as it is: what lower() gives, parse_graph() reads, or a back end was handed.
void export_onnx(const Graph& graph, const OnnxFile& file);
void export_onnx(const Graph& graph, const std::string& path, Location where = std::source_location::current());

}  // namespace jit
SINTER_NAMESPACE_END
