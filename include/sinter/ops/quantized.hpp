// Quantised numbers: products with weights of small integers, of integers of 8 bits and of floats of 8 bits, and
// rounding to such numbers in training. All are composites: back ends that have such a product compute it whole, for
// all others it is a product of widened numbers.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// What the left operand of a quantised product is multiplied as.
enum class ActivationUse : std::uint8_t {
  as_is,       // floating
  dynamic_i8,  // each row rounded to i8 by its own scale, products added up exactly
};

enum class WeightBits : std::uint8_t { eight, four };

namespace ops {

/// quantized_matmul(x [m, k], values, scales [n, groups], zero points), m rows by n columns. Row j of `values` is
/// column j of the weight, of groups * `group` elements, those behind k unused: i8 [n, ..], or (`bits` are four) u8 of
/// two elements each, the first in the low half. The weight is scale * (value - zero point). Zero points are [n,
/// groups] of the values' dtype, or [n, 0]: 0, or 8 of 4 bits.
struct QuantizedMatmul {
  static constexpr OpInfo info{.name = "quantized_matmul", .arity = 4, .kind = OpKind::composite};
  static constexpr OpAttr<WeightBits> bits{"bits", 0, "eight four"};
  static constexpr OpAttr<std::int64_t> group{"group", 1};
  static constexpr OpAttr<ActivationUse> activations{"activations", 2, "as_is dynamic_i8"};
  static constexpr auto attributes = attribute_list(bits, group, activations);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// integer_matmul_rows(a [m, k], b [n, k]) of i8 or u8: element [i, j] is the sum of a[i, :] * b[j, :] in i32, exact
/// and modulo 2^32.
struct IntegerMatmul {
  static constexpr OpInfo info{
      .name = "integer_matmul_rows", .arity = 2, .kind = OpKind::composite, .is_cheap = false, .has_gradient = false};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a);
};

/// scaled_matmul_rows(a [m, k], b [n, k], scale_a [] or [m, 1], scale_b [] or [1, n]): a times the transposed b of f8,
/// in f32, by both scales, which are f32, and both numbers or neither; rounded once to attrs.dtype, which is f32, f16
/// or bf16.
struct ScaledMatmul {
  static constexpr OpInfo info{
      .name = "scaled_matmul_rows", .arity = 4, .kind = OpKind::composite, .is_cheap = false, .takes_f8 = true};
  static constexpr auto attributes = attribute_list(attr::dtype);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// (q - zero point) * scale with q = round(x / scale) + zero point, limited to [low, high]. Scale and zero point
/// broadcast to x. The gradient goes straight through the rounding; where q is limited it goes to scale and zero point
/// (Esser et al. 2020, learned step size quantization; Jain et al. 2020).
struct FakeQuantize {
  static constexpr OpInfo info{.name = "fake_quantize", .arity = 3, .kind = OpKind::composite};
  static constexpr OpAttr<std::int64_t> low{"low", 0}, high{"high", 1};
  static constexpr auto attributes = attribute_list(low, high);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
