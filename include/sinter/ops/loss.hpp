// Losses: scalars to minimise.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// cross_entropy(logits [n, c], target [n], weight [c]?): of each row logsumexp(row) - row[target], times the weight of
/// the target. The class is found by comparing the column's number with the target, so that forward and gradient are
/// one pass over the row. Rows whose target is attrs.integer - 100 do not count (so that 0 stands for the usual -100);
/// another target that is no class is an IndexError when the rows are computed. attrs.value is the label smoothing.
/// attrs.steps: empty, the mean over the rows that count, weighted; {1}, the sum; {2}, each row's. The weights are
/// constants to derivatives.
struct CrossEntropy {
  static constexpr OpInfo info{.name = "cross_entropy", .arity = -1, .kind = OpKind::composite};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
};

/// Mean of (a - b)^2 over all elements.
struct MseLoss {
  static constexpr OpInfo info{.name = "mse_loss", .arity = 2, .kind = OpKind::composite};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
};

}  // namespace ops
SINTER_NAMESPACE_END
