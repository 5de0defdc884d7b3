// Values whose derivative is given instead of derived, and the barrier behind which a derivative computes values again.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// custom_derivative(results..., x..., captured...): the results, as they are. Their gradients go to x, of which there
/// are `parameters`, and not to what the results were computed from: the sub-graph takes x, results, gradients of the
/// results and captured values, and gives the gradients of x[differentiated[i]] in order. Means nothing once all
/// derivatives have been taken; a pass drops it then.
struct CustomDerivative {
  static constexpr OpInfo info{
      .name = "custom_derivative", .arity = -1, .kind = OpKind::structured, .takes_complex = true};
  static constexpr OpAttr<std::int64_t> results{"results", 0}, parameters{"parameters", 1};
  static constexpr OpAttr<IntVector> differentiated{"differentiated", 0};
  static constexpr auto attributes = attribute_list(results, parameters, differentiated);
  static constexpr std::string_view bodies = "gradient";
  static void infer(const InferArgs& args, TypeList& out);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& a, BatchedList& out);
};

/// barrier(x, token) = x, not before the token (a scalar) is known, and not the same value as x: what is computed of it
/// is computed anew.
struct Barrier {
  static constexpr OpInfo info{.name = "barrier", .arity = 2, .dtypes = DTypeRule::first, .takes_complex = true};
  static ScalarValue lower(ScalarBuilder&, ScalarValue x, ScalarValue) { return x; }
  static ValList vjp(const VjpArgs& a) { return {a.dout, Val{}}; }
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
