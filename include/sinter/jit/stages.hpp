// The stages of a compilation as values: what lower() of a compiled function gives. Graphs before and after the passes,
// kernels with their schedules, code and costs; each has a text. Knows nothing of calls.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/jit/cost.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A Tensor of this shape without memory, for lower() and warm_up(), which look at types alone. Its value is zeros,
/// made when somebody reads them.
inline Tensor spec(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current()) {
  return zeros(shape, options, where);
}
inline Tensor spec(const Shape& shape, DType dtype, Location where = std::source_location::current()) {
  return zeros(shape, {.dtype = dtype}, where);
}

/// A pass, and the graph that it left.
struct PassStage {
  std::string name{};
  Graph graph{};
};

/// A step of the plan: a kernel, or what the host does by a function of its own.
struct KernelStage {
  std::string name{};     // "fused_mul_add_tanh"
  std::string backend{};  // that took it
  std::string text{};     // of the kernel; empty for what is none
  std::vector<std::string>
      schedules{};        // that the back end has for it, the one in use first; "default" is its own choice
  std::string code{};     // its machine code, or source
  std::int64_t runs = 0;  // in one call: the kernels of a region run once for each call of that
  Cost cost{};            // of one run
};

/// What a call compiles to. Holds no arguments.
class Stages {
 public:
  /// As traced.
  const Graph& graph() const { return graph_; }
  /// After each pass that had something to do, in order; the last one is what is compiled.
  std::vector<PassStage> passes() const;
  /// In the order in which they run.
  std::vector<KernelStage> kernels() const;
  /// A line for each kernel: its schedules.
  std::string schedules() const;
  /// The code of all kernels.
  std::string code() const;
  /// Of one call.
  Cost cost() const;
  /// All of that.
  std::string text() const;

 private:
  friend class FunctionState;
  struct Parts;
  Graph graph_;
  std::shared_ptr<const Parts> parts_;
};

/// Stages, and the arguments they are for. `C` is what jit::compile() gave.
template <class C, class... A>
class Lowering : public Stages {
 public:
  Lowering(Stages stages, C function, const A&... args)
      : Stages(std::move(stages)), function_(std::move(function)), args_(args...) {}

  /// The function, with nothing left to do at its first call with arguments like these.
  C compile() const {
    std::apply([&](const A&... args) { function_.warm_up(args...); }, args_);
    return function_;
  }

 private:
  C function_;
  std::tuple<A...> args_;
};

}  // namespace jit
SINTER_NAMESPACE_END
