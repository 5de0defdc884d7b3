// Bisection: which step of compiling a function makes a wrong result. Passes are run one after the other, fusion groups
// one by one, each against plain loops; what is wrong is shrunk (minify.hpp).
#pragma once

#include <sinter/jit/compile.hpp>
#include <sinter/jit/debug/minify.hpp>

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Where results first differ.
enum class FaultStep : std::uint8_t { none, pass, fusion, code, unknown };
std::string_view name(FaultStep step);

struct BisectOptions {
  std::string backend = {};    // "": the best there is
  double tolerance = 0;        // relative to the largest element; 0: what the dtype allows
  double budget_seconds = 60;  // of shrinking
};

struct Bisection {
  FaultStep step = FaultStep::none;
  std::string culprit;          // the pass, or the kernel: "simplify", "fused_mul_add_tanh"
  std::string backend;          // that made the code, of a fault of code generation
  std::string schedule;         // of the kernel: which schedules are wrong, and which are not
  std::string kernel;           // its text
  std::vector<Location> where;  // the lines that it comes from
  double difference = 0;        // relative to the largest element
  Minified smallest;            // the graph, shrunk
  /// All of it in words, with the program to paste.
  std::string text() const;
  friend std::ostream& operator<<(std::ostream& out, const Bisection& found) { return out << found.text(); }
};

Bisection bisect_graph(const Graph& graph, std::span<const Tensor> inputs, const BisectOptions& options = {});

namespace jit_detail {
/// Takes the graphs that a function is compiled to, and their inputs.
struct GraphCatcher {
  std::shared_ptr<std::vector<GraphCase>> caught = std::make_shared<std::vector<GraphCase>>();
  GraphFunction operator()(const Graph& graph, std::span<const Tensor> inputs) const;
};
template <class F>
const F& function_of(const F& f) {
  return f;
}
template <class F>
const F& function_of(const Compiled<F>& f) {
  return f.function();
}
Bisection bisect_cases(const std::vector<GraphCase>& cases, const BisectOptions& options);
}  // namespace jit_detail

/// Compiles the function, or that of a compiled one, for these arguments, and finds the first step whose result differs
/// from that of plain loops. The function runs once; it must not read values.
template <class F, class... A>
Bisection bisect(const BisectOptions& options, const F& f, const A&... args) {
  const jit_detail::GraphCatcher catcher;
  compile(jit_detail::function_of(f), {.backend = catcher, .dynamic = Dynamic::never})(args...);
  return jit_detail::bisect_cases(*catcher.caught, options);
}
template <class F, class... A>
  requires(!std::is_same_v<F, BisectOptions>)
Bisection bisect(const F& f, const A&... args) {
  return bisect(BisectOptions(), f, args...);
}

}  // namespace jit
SINTER_NAMESPACE_END
