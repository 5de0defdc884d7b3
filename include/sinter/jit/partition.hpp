// Partition: how a compiled function whose results have gradients was cut in two, as data: the graph of the forward
// part, that of the backward part, and what passes between them. Knows no plans.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/graph/graph.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A minimum cut decides what the forward part keeps and what the backward part computes again: whichever moves less
/// memory. See Compiled::partition().
struct Partition {
  /// A value that lives from the call to backward().
  struct Saved {
    std::size_t output = 0;  // of `forward`; below `results`: kept as a result anyway
    std::string op{};        // that gave it
    Type type{};
    std::int64_t bytes = 0;  // at the sizes that the function was traced with
    Location where{};
  };
  /// An operation of the forward part that the backward part runs once more.
  struct Repeated {
    std::string op{};
    Type type{};
    Location where{};
  };
  /// Inputs: those of the function, then captured Variables. Outputs: the results, other saved values, and what
  /// Variables are assigned.
  Graph forward{};
  /// Inputs: inputs of `forward` (`operands`), saved values, and gradients of results (`given`). Outputs: gradients of
  /// inputs of `forward` (`gradients`).
  Graph backward{};
  std::size_t results = 0;
  std::vector<Saved> saved{};
  std::vector<Repeated> repeated{};
  std::vector<std::size_t> operands{}, given{}, gradients{};

  /// What all saved values hold that are no results.
  std::int64_t saved_bytes() const;
  /// One line for each saved value and each repeated operation, then both graphs.
  std::string text() const;
};

}  // namespace jit
SINTER_NAMESPACE_END
