// Derivatives of calls (regions): the body is differentiated once, however often it is called. The forward body gives
// what the backward body needs as further results; a minimum cut decides which values are computed again instead. Knows
// no op but calls.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct CallDerivative {
  std::shared_ptr<const Graph> forward;  // the body's outputs, and more after them
  std::vector<std::uint32_t> saved;      // outputs of `forward` that `backward` needs
  /// Inputs: the call's operands named by `operands`, then the saved values, then the gradients of the results that
  /// have one. Outputs: gradients of the operands named by `gradients`.
  std::shared_ptr<const Graph> backward;  // null: nothing depends on the wanted operands
  std::vector<std::uint32_t> operands, gradients;
};

/// `wanted`: operands whose gradients are needed. `given`: results that have one.
CallDerivative differentiate_call_body(const Graph& body, std::span<const std::uint8_t> wanted,
                                       std::span<const std::uint8_t> given);
/// As that, of a whole program whose symbols are solved: what has a derivative of its own keeps it, and effects stay in
/// `forward`.
CallDerivative differentiate_program(const Graph& program, std::span<const std::uint8_t> wanted,
                                     std::span<const std::uint8_t> given);

SINTER_NAMESPACE_END
