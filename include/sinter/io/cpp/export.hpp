// Functions as C++ headers: export_cpp() traces a function and writes its machine code, its weights and a plain
// function that runs them, for programs that have nothing of Sinter.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/io/onnx/export.hpp>
#include <sinter/jit/compile.hpp>

#include <concepts>
#include <source_location>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Where a header goes, and the names in it. A path alone does: export_cpp(f, "model.hpp", x).
struct CppFile {
  std::string path;
  std::string name = "model";             // of the function, and the beginning of all other names
  std::vector<std::string> inputs = {};   // parameters for Tensors and Scalars among the arguments; none: input0, ...
  std::vector<std::string> outputs = {};  // none: output0, output1, ...
  std::string isa = {};  // "avx2" or "avx512": the processors that it is for; "": as this one, or as SINTER_ISA says
  Location where = std::source_location::current();
};

namespace cpp_detail {
void export_function(const FunctionState& function, const CppFile& file);
/// A path, with the place it was written.
class CppPath {
 public:
  template <class S>
    requires std::convertible_to<const S&, std::string>
  CppPath(const S& path, Location where = std::source_location::current()) : file_{.path = path, .where = where} {}
  const CppFile& file() const { return file_; }

 private:
  CppFile file_;
};
}  // namespace cpp_detail

/// Traces `f`, a function or what compile() gave, for arguments of just these shapes, and writes a header (C++11, GCC
/// and Clang on x86-64) with the function `name`, which computes the same on one thread. Captured Tensors and Variables
/// are in it with their values now. The file is replaced as a whole. Throws UserError for an operation that the library
/// computes by functions of its own (FFTs, linear algebra, callbacks, ...), with its line, for a function that reads
/// values, assigns to Variables or draws random numbers, and IoError.
template <class F, class... A>
void export_cpp(const F& f, const CppFile& file, const A&... args) {
  const auto traced = compile(onnx_detail::function_in(f), {.dynamic = Dynamic::never, .fullgraph = true}, file.where);
  traced.warm_up(args...);
  cpp_detail::export_function(*jit_detail::StateAccess::of(traced), file);
}
template <class F, class... A>
  requires(!std::same_as<F, Graph>)
void export_cpp(const F& f, const cpp_detail::CppPath& path, const A&... args) {
  export_cpp(f, path.file(), args...);
}
/// A graph as it is: what lower() gives, or parse_graph() reads. Symbolic extents are what their hints say.
void export_cpp(const Graph& graph, const CppFile& file);
void export_cpp(const Graph& graph, const std::string& path, Location where = std::source_location::current());

}  // namespace jit
SINTER_NAMESPACE_END
