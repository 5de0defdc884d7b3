// What happens where compiling fails: SINTER_SUPPRESS_ERRORS and SINTER_MINIFY. Asked by whoever compiles; must not
// know functions or their arguments.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/tensor/tensor.hpp>

#include <span>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// SINTER_SUPPRESS_ERRORS is on.
bool suppresses_all_errors();
/// What the log says of a graph that did not compile, with a program that shows it.
std::string suppressed_text(const Graph& graph, std::string_view backend, std::string_view error, Location where);

/// A back end that gives what this one, called `name` in the log, gives; where that throws or gives nothing, plain
/// loops and a warning. Memory that is exhausted stays an error.
BackendFunction suppressing(BackendFunction backend, std::string name, Location where);

/// With SINTER_MINIFY=compile: shrinks the graph, which this back end did not compile, and says where the program is.
void minify_failure(const Graph& graph, std::string_view backend, std::string_view error, Location where);
/// SINTER_MINIFY=accuracy.
bool minifies_wrong_results();
/// Compares what this back end computes of the inputs with plain loops, and shrinks the graph where they differ.
void minify_if_wrong(const Graph& graph, std::string_view backend, std::span<const Tensor> inputs, Location where);

/// While one lives, a file holds the graph that is being compiled, with SINTER_MINIFY=compile: should the program crash
/// or hang meanwhile, tools/minify shrinks what the file holds.
class CompilingNote {
 public:
  CompilingNote(const Graph& graph, std::string_view backend);
  ~CompilingNote();
  CompilingNote(const CompilingNote&) = delete;
  CompilingNote& operator=(const CompilingNote&) = delete;

 private:
  std::string path_{};
};

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
