// Quantised numbers, x = scale * (q - zero_point) with small integers q: to them and back, rounding to them in
// training, scales from what a tensor holds, and matrix products with weights of 8 or 4 bits, which are dequantised
// inside the product. Names follow torch.ao.quantization.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <optional>

SINTER_NAMESPACE_BEGIN

/// Where scales and zero points belong. Neither: both are scalars. An axis: they have an element for each index of that
/// axis. A group too: they have the shape of x, but one element for each `group` successive ones along the axis.
struct QuantizeOptions {
  DType dtype = DType::i8;  // i8, u8, i16, u16 or i32
  Optional<int> axis{};
  std::int64_t group = 0;
  int bits = 0;  // fewer than the dtype has: 4 of i8 are -8 to 7; 0: all
};
/// round(x / scale) + zero_point, halves to even, limited to the integers of the dtype.
Tensor quantize(const In& x, const In& scale, const In& zero_point, QuantizeOptions options = {});
struct DequantizeOptions {
  Optional<int> axis{};
  std::int64_t group = 0;
};
/// (q - zero_point) * scale, of the scale's dtype.
Tensor dequantize(const In& q, const In& scale, const In& zero_point, DequantizeOptions options = {});

struct FakeQuantizeOptions {
  Optional<int> axis{};
  std::int64_t quant_min = -128, quant_max = 127;
};
/// dequantize(quantize(x)), floating, with gradients: to x as if nothing were rounded, where it is not limited; to
/// scale and zero point as torch._fake_quantize_learnable_per_tensor_affine has them.
Tensor fake_quantize(const In& x, const In& scale, const In& zero_point, FakeQuantizeOptions options = {});

struct QuantizationParameters {
  Tensor scale, zero_point;  // zero_point is i32
};
enum class QuantizationScheme : std::uint8_t {
  symmetric,  // zero_point 0 (of unsigned dtypes the middle): by the largest magnitude
  affine,     // from the least to the largest element, and 0
};
struct ChooseOptions {
  DType dtype = DType::i8;
  Optional<int> axis{};
  std::int64_t group = 0;
  int bits = 0;
  QuantizationScheme scheme = QuantizationScheme::symmetric;
  double quantile = 1;  // below 1: the range leaves out this part's complement at either end
};
/// Scale and zero point for what x holds, as `quantize` takes them with the same dtype, axis, group and bits. Where all
/// is 0 the scale is 1.
QuantizationParameters choose_quantization(const In& x, ChooseOptions options = {});

/// Two integers of 4 bits along the last axis, which is even, in one u8: the first in the low half.
Tensor pack_int4(const In& q);
/// The other way: i8 from -8 to 7, or u8 from 0 to 15.
Tensor unpack_int4(const In& packed, DType dtype = DType::u8);

/// The right operand of a product, [k, n], in 8 or 4 bits. An argument or a result of compiled functions, or a constant
/// of theirs.
struct QuantizedWeight {
  Tensor values;       // column j of the weight is row j: i8 [n, k'], or u8 [n, k' / 2], k' a whole number of groups
  Tensor scales;       // [n, k' / group]; f32, f16 or bf16
  Tensor zero_points;  // of the values' dtype [n, k' / group]; [n, 0]: 0 for all, or 8 of 4 bits
  std::int64_t bits = 8;
  std::int64_t group = 1;
  std::int64_t k = 0;
  SINTER_FIELDS(values, scales, zero_points, bits, group, k)
};
struct QuantizeWeightOptions {
  int bits = 8;            // or 4
  std::int64_t group = 0;  // so many successive rows of a column share a scale; 0: all of them
  QuantizationScheme scheme = QuantizationScheme::symmetric;
  bool transposed = false;  // w is [n, k], as torch.nn.Linear has it
  DType scale_dtype = DType::f32;
};
/// Rounds a weight [k, n]. The last group may be shorter. Values of 4 symmetric bits are -8 to 7 times the scale, of 8
/// bits -127 to 127 times.
QuantizedWeight quantize_weight(const In& w, QuantizeWeightOptions options = {});
/// From integers that exist: q [n, k] i8 (or u8 with values to 15 for 4 bits), scales [n, k / group], zero points of
/// the same shape, or none.
QuantizedWeight quantized_weight(const In& q, const In& scales, std::optional<Tensor> zero_points = {}, int bits = 8);
/// The weight as [k, n], of the scales' dtype.
Tensor dequantize(const QuantizedWeight& w, Location where = std::source_location::current());

/// What x is in a product with a quantised weight: as it is, or rounded to i8, each row by its largest magnitude.
enum class Activations : std::uint8_t { as_is, dynamic_i8 };
struct QuantizedMatmulOptions {
  /// With dynamic_i8 the products of integers are added up exactly.
  Activations activations = Activations::as_is;
};
/// x [..., k] times the weight, as matmul(x, dequantize(w)) but for rounding; of x's dtype. On x86 the packed weight
/// is all that is read.
Tensor quantized_matmul(const In& x, const QuantizedWeight& w, QuantizedMatmulOptions options = {});

/// a [..., k] times b [k, n], each i8 or u8: sums of products in i32, exact (modulo 2^32), as torch._int_mm and ONNX's
/// MatMulInteger have them; matmul(a, b) of i8 is i8 and wraps. Quickest where the columns of b lie in one piece: b is
/// transpose(w, 0, 1) of a w [n, k].
Tensor integer_matmul(const In& a, const In& b);

struct ScaledMatmulOptions {
  DType dtype = DType::bf16;  // of the result: f32, f16 or bf16
};
/// a [..., k] times b [k, n], each f8e4m3 or f8e5m2, and by both scales: sums in f32, rounded once. A scale is a
/// number; or that of a has an element for each row (shape [..., 1]), that of b for each column ([1, n]). As
/// torch._scaled_mm; its tensor cores want b as transpose(w, 0, 1) of a w [n, k], and one of both f8e4m3. Gradients go
/// to a and b (in f32, which are then rounded to f8) and to the scales.
Tensor scaled_matmul(const In& a, const In& b, const In& scale_a, const In& scale_b, ScaledMatmulOptions options = {});

SINTER_NAMESPACE_END
