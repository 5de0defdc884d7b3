// The minifier: a graph that fails (does not compile, gives wrong results, crashes, hangs) becomes the smallest one
// found that still does, as a program to paste. Must not know functions; bisect.hpp takes graphs from them.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/backends.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// compile: an exception. accuracy: results differ from those of plain loops. crash, hang: each try is a process of its
/// own, which ends by a signal, or does not end in time.
enum class Failure : std::uint8_t { compile, accuracy, crash, hang };
std::string_view name(Failure failure);

struct MinifyOptions {
  Failure failure = Failure::accuracy;
  std::string backend = {};     // whose results are looked at; "": the best there is
  double tolerance = 0;         // of results, relative to the largest element; 0: what the dtype allows
  double timeout_seconds = 10;  // of one try that may hang
  double budget_seconds = 60;   // of all tries
};

/// A graph and values for its inputs.
struct GraphCase {
  Graph graph;
  std::vector<Tensor> inputs;
  std::int64_t operations() const;  // inputs, constants and literals aside
};

struct Minified {
  GraphCase smallest;
  std::string failure;  // what is wrong with it; "": the graph that was given does not fail
  std::string backend;
  std::int64_t tries = 0;
  double seconds = 0;
  bool fails() const { return !failure.empty(); }
  /// A whole program: the graph, its inputs, and both results.
  std::string program() const;
};

/// What fails of a graph with these inputs; "": nothing.
using FailureTest = std::function<std::string(const Graph& graph, std::span<const Tensor> inputs)>;

Minified minify(const Graph& graph, std::span<const Tensor> inputs, const MinifyOptions& options = {});
/// The same for a test of one's own.
Minified minify(const Graph& graph, std::span<const Tensor> inputs, const FailureTest& fails,
                double budget_seconds = 60);
/// A program that runs the graph on the inputs by this back end and by plain loops.
std::string pasteable_program(const GraphCase& shown, std::string_view backend, std::string_view what);
/// Some values for the inputs of a graph: symbols have their hints as extents.
std::vector<Tensor> example_inputs(const Graph& graph);

namespace jit_detail {
/// How far `found` is from `wanted` at most, relative to the largest element of `wanted` (where all are 0, as it
/// is); infinite where one is a NaN or an infinity and the other is not, or types differ.
double distance(const Tensor& found, const Tensor& wanted);
double tolerance_of(DType dtype);
/// Results of the graph under this back end. "eager": plain loops, one operation after another.
std::vector<Tensor> results_of(const Graph& graph, std::span<const Tensor> inputs, std::string_view backend);
/// Those of a graph as it is, but for composites, by plain loops.
std::vector<Tensor> results_of_plain(const Graph& graph, std::span<const Tensor> inputs);
/// The value now, which nothing changes later.
Tensor copy_of_value(const Tensor& x);
/// The first output that differs by more than is allowed: "output 1 differs by 0.5", or "".
std::string difference_of(std::span<const Tensor> found, std::span<const Tensor> wanted, double tolerance);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
