// Functions written for other programs, in the format that the ending of a file's name says.
#pragma once

#include <sinter/export_cpp.hpp>
#include <sinter/graphs.hpp>
#include <sinter/io/file.hpp>
#include <sinter/onnx.hpp>

#include <cstdint>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace export_detail {
enum class Format : std::uint8_t { onnx, cpp, graph };
inline Format format_of(std::string_view path, Location where) {
  const auto ends_in = [path](std::string_view ending) {
    return path.size() > ending.size() && path.ends_with(ending);
  };
  if (ends_in(".onnx")) return Format::onnx;
  if (ends_in(".hpp") || ends_in(".h")) return Format::cpp;
  if (ends_in(".graph") || ends_in(".txt")) return Format::graph;
  throw UserError(
      "export_function", "the ending of '" + std::string(path) + "' names no format", where,
      "end it in .onnx, in .hpp or .h (a C++ header), or in .graph or .txt (text that parse_graph() reads)");
}
}  // namespace export_detail

/// Traces `f`, a function or what compile() gave, for arguments like these, and writes what it computes: "model.onnx"
/// by export_onnx(), "model.hpp" and "model.h" by export_cpp(), "model.graph" and "model.txt" as the text of the graph.
/// The file is replaced as a whole. Throws UserError for another ending, what those throw, and IoError.
template <class F, class... A>
void export_function(const F& f, const cpp_detail::CppPath& path, const A&... args) {
  const CppFile& file = path.file();
  switch (export_detail::format_of(file.path, file.where)) {
    case export_detail::Format::onnx: export_onnx(f, OnnxFile{.path = file.path, .where = file.where}, args...); return;
    case export_detail::Format::cpp: export_cpp(f, file, args...); return;
    case export_detail::Format::graph: break;
  }
  const auto traced = compile(onnx_detail::function_in(f), {.fullgraph = true}, file.where);
  const std::string text = traced.lower(args...).graph().text();
  io::AtomicFile out(file.path, "export_function", file.where);
  out.write(text);
  out.commit();
}

}  // namespace jit
SINTER_NAMESPACE_END
