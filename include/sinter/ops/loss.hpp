// Losses: scalars to minimise.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// cross_entropy(logits [n, c], target [n], weight [c]?): of each row logsumexp(row) - row[target], times the weight of
/// the target. The class is found by comparing the column's number with the target, so that forward and gradient are
/// one pass over the row. Rows whose target is `ignore_index` do not count; another target that is no class is an
/// IndexError when the rows are computed. The weights are constants to derivatives.
struct CrossEntropy {
  static constexpr OpInfo info{.name = "cross_entropy", .arity = -1, .kind = OpKind::composite};
  /// Of the rows' losses: the mean over the rows that count, weighted; the sum; or each row's.
  enum class Reduction : std::uint8_t { mean, sum, none };
  static constexpr OpAttr<Reduction> reduction{"reduction", 0, "mean sum none"};
  static constexpr OpAttr<std::int64_t> ignore_index{"ignore_index", 1, -100};
  static constexpr OpAttr<double> label_smoothing{"label_smoothing", 2};
  static constexpr auto attributes = attribute_list(reduction, ignore_index, label_smoothing);
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
