// Derivatives of calls (regions): the body is differentiated once, however often it is called. The forward body gives
// what the backward body needs as further results; a minimum cut decides which values are computed again instead. Knows
// no op but calls.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct CallDerivative {
  std::shared_ptr<const Graph> forward;  // the body's outputs, and more after them
  std::vector<std::uint32_t> saved;      // outputs of `forward` that `backward` needs
  /// Inputs: the call's operands named by `operands`, then the saved values, then the gradients of the results that
  /// have one. Outputs: gradients of the operands named by `gradients`.
  std::shared_ptr<const Graph> backward;  // null: nothing depends on the wanted operands
  std::vector<std::uint32_t> operands, gradients;
  /// Of the forward part, computed once more in `backward`.
  struct Repeated {
    std::string_view op;
    Type type;  // of its first result
    Location where;
  };
  std::vector<Repeated> repeated;
};

/// `wanted`: operands whose gradients are needed. `given`: results that have one.
CallDerivative differentiate_call_body(const Graph& body, std::span<const std::uint8_t> wanted,
                                       std::span<const std::uint8_t> given);
/// As that, of a whole program whose symbols are solved: what has a derivative of its own keeps it, and effects stay in
/// `forward`.
CallDerivative differentiate_program(const Graph& program, std::span<const std::uint8_t> wanted,
                                     std::span<const std::uint8_t> given);
/// As that, of the path of a program that reads values: the nodes of `forward` are those of `path`, with their ids, and
/// more after them. No gradient flows through `stops`.
CallDerivative differentiate_path(const Graph& path, std::span<const std::uint8_t> wanted,
                                  std::span<const std::uint8_t> given, std::span<const Value> stops);

namespace reverse_detail {
/// A scalar that is known only when `value` is, for a barrier.
Val backward_token(Val value, DType dtype);
}  // namespace reverse_detail

SINTER_NAMESPACE_END
