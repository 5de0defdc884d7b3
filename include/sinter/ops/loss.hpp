// Losses: scalars to minimise.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// cross_entropy(logits [n, c], target [n]): mean over n of logsumexp(row) - row[target]. The class is found by comparing
/// the column's number with the target, so that forward and gradient are one pass over the row without a gather. A target
/// that is no class picks nothing, and its row counts with logsumexp(row) - max(row).
struct CrossEntropy {
  static constexpr OpInfo info{.name = "cross_entropy", .arity = 2, .kind = OpKind::composite};
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
