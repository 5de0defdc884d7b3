// Connectionist temporal classification (Graves et al. 2006): the loss of a sequence of labels that is not aligned with
// the steps that predict it. The host runs it, each sequence by itself, in f64.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// In place of a target that there is none of: an IndexError where a sequence has it among its labels.
inline constexpr std::int64_t no_ctc_target = -(std::int64_t{1} << 62);

/// The class that stands for no label, and whether a sequence that does not fit counts as nothing.
struct CtcAttributes {
  static constexpr OpAttr<std::int64_t> blank{"blank", 0};
  static constexpr OpAttr<bool> zero_infinity{"zero_infinity", 1};
  static constexpr auto attributes = attribute_list(blank, zero_infinity);
};

/// ctc_loss(log_probabilities [t, n, c], targets [n, s], steps [n], labels [n]): of each sequence minus the logarithm
/// of the probability of its first labels[i] targets in its first steps[i] steps; the integers are i64. Infinite where
/// they do not fit, or 0 (`zero_infinity`).
struct CtcLoss : CtcAttributes {
  static constexpr OpInfo info{.name = "ctc_loss", .arity = 4, .kind = OpKind::structured, .is_cheap = false};
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// The derivatives of the losses by the logarithms, [t, n, c]: minus the probability, given the labels, that a step is
/// in each class. Of an infinite loss NaN, or 0 (`zero_infinity`).
struct CtcGradient : CtcAttributes {
  static constexpr OpInfo info{
      .name = "ctc_gradient", .arity = 4, .kind = OpKind::structured, .is_cheap = false, .has_gradient = false};
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
