// Fallbacks and reproductions of compilations that fail.
#pragma once

#include <sinter/jit/debug/failures.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/log.hpp>
#include <sinter/jit/debug/minify.hpp>

#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

namespace failures_detail {
inline std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}
/// SINTER_MINIFY: "compile", "accuracy", or "".
inline const std::string& wanted() {
  static const std::string text = [] {
    std::string value = environment("SINTER_MINIFY");
    if (!value.empty() && value != "compile" && value != "accuracy" && value != "0")
      throw UserError("SINTER_MINIFY", "'" + value + "' is nothing to look for", {}, "use compile or accuracy");
    return value == "0" ? std::string() : value;
  }();
  return text;
}
/// "FOLDER/sinter_PID_N.ending", in SINTER_MINIFY_DIR or the folder that the program runs in.
inline std::string next_path(std::string_view ending) {
  static std::atomic<int> count{0};
  const std::string folder = environment("SINTER_MINIFY_DIR");
  return (folder.empty() ? std::string(".") : folder) + "/sinter_" + std::to_string(::getpid()) + "_" +
         std::to_string(count.fetch_add(1)) + std::string(ending);
}
/// While a graph is shrunk, its own tries compile too.
inline bool& is_minifying() noexcept {
  static thread_local constinit bool is = false;
  return is;
}

inline bool has_effects(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return node.op->kind == OpKind::effect || std::any_of(node.attrs.bodies.begin(), node.attrs.bodies.end(),
                                                          [](const auto& body) { return has_effects(*body); });
  });
}

inline void write_smallest(const Graph& graph, std::span<const Tensor> inputs, const MinifyOptions& options,
                           std::string_view what, Location where) {
  struct Flag {
    Flag() { is_minifying() = true; }
    ~Flag() { is_minifying() = false; }
  } flag;
  const Minified found = minify(graph, inputs, options);
  if (!found.fails()) {
    warn("errors", where.text() + ": " + std::string(what) + "; it does not fail again by itself");
    return;
  }
  const std::string path = next_path(".cpp");
  std::ofstream(path) << found.program();
  warn("errors", where.text() + ": " + std::string(what) + "\nshrunk to " +
                     std::to_string(found.smallest.operations()) + " operations in " + std::to_string(found.tries) +
                     " tries, " + path + ":\n" + found.program());
}
}  // namespace failures_detail

SINTER_DECL bool suppresses_all_errors() {
  static const bool is_on = [] {
    const std::string text = failures_detail::environment("SINTER_SUPPRESS_ERRORS");
    return !text.empty() && text != "0";
  }();
  return is_on;
}

SINTER_DECL std::string suppressed_text(const Graph& graph, std::string_view backend, std::string_view error,
                                        Location where) {
  return where.text() + ": compiling failed, so this version runs operation by operation: " + std::string(error) +
         "\na program that shows it:\n" + pasteable_program({graph, example_inputs(graph)}, backend, error);
}

SINTER_DECL BackendFunction suppressing(BackendFunction backend, std::string name, Location where) {
  return [backend = std::move(backend), name = std::move(name), where](const Graph& graph,
                                                                       std::span<const Tensor> inputs) {
    std::string error = "it returned an empty function";
    try {
      if (GraphFunction made = backend(graph, inputs)) return made;
    } catch (const OutOfMemory&) { throw; } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& refusal) { error = refusal.what(); }
    warn("errors", where.text() + ": the " + name + " failed, so this version runs operation by operation: " +
                       error + "\nthe graph:\n" + graph.text());
    return compile_graph(graph, "eager");
  };
}

SINTER_DECL void minify_failure(const Graph& graph, std::string_view backend, std::string_view error, Location where) {
  if (failures_detail::wanted() != "compile" || failures_detail::is_minifying()) return;
  failures_detail::write_smallest(graph, example_inputs(graph),
                                  {.failure = Failure::compile, .backend = std::string(backend)},
                                  "compiling failed: " + std::string(error), where);
}

SINTER_DECL bool minifies_wrong_results() {
  return failures_detail::wanted() == "accuracy" && !failures_detail::is_minifying();
}

SINTER_DECL void minify_if_wrong(const Graph& graph, std::string_view backend, std::span<const Tensor> inputs,
                                 Location where) {
  if (failures_detail::has_effects(graph)) {
    warn("errors", where.text() + ": SINTER_MINIFY=accuracy runs no graph with effects a second time: not compared");
    return;
  }
  const MinifyOptions options{.backend = std::string(backend)};
  const std::string wrong =
      difference_of(results_of(graph, inputs, backend), results_of(graph, inputs, "eager"), options.tolerance);
  if (!wrong.empty())
    failures_detail::write_smallest(graph, inputs, options, "the result differs from that of plain loops: " + wrong,
                                    where);
}

SINTER_DECL CompilingNote::CompilingNote(const Graph& graph, std::string_view backend) {
  if (failures_detail::wanted() != "compile" || failures_detail::is_minifying()) return;
  path_ = failures_detail::next_path(".graph");
  std::ofstream(path_) << "# back end: " << backend << "\n" << graph.text() << "\n";
}
SINTER_DECL CompilingNote::~CompilingNote() {
  if (!path_.empty()) std::remove(path_.c_str());
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
