// The parts of quantised products: integers out of bytes, groups with their scales, and the gradients.
#pragma once

#include <sinter/ops/quantized.hpp>

#include <sinter/ops/registry.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// The weight of a quantised product.
struct QuantizedOperand {
  Val values, scales, zero_points;
  bool has_four_bits;
  std::int64_t group;
  Dim k;
};
inline QuantizedOperand quantized_operand(std::span<const Val> in, const Attrs& attrs) {
  using Op = ops::QuantizedMatmul;
  return {in[1], in[2], in[3], attrs[Op::bits] == WeightBits::four, attrs[Op::group], in[0].shape()[1]};
}
inline Val rounded(Val x) { return apply(op_info<ops::Round>, {x}); }

/// Computed in: a weight is not rounded to the 16 bits of x.
inline Val widened(Val x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }

/// value - zero point, in groups: [n, groups, group]. An integer dtype, or a floating one: both are exact.
inline Val centred_groups(const QuantizedOperand& w, DType dtype) {
  const Shape scales = w.scales.shape();
  const Shape in_groups{scales[0], scales[1], Dim(w.group)};
  Val values = w.values;
  if (w.has_four_bits) {
    const Shape bytes = values.shape();
    const Val wide = expand(reshape(cast(values, DType::i32), {bytes[0], bytes[1], 1}), {bytes[0], bytes[1], 2});
    const Val shift = iota(values, {2}, 0, DType::i32) * 4;
    values = logical_and(apply(op_info<ops::RightShift>, {wide, shift}), integer_number(wide, 15));
  }
  const Val groups = cast(reshape(values, in_groups), dtype);
  if (!is_zero(w.zero_points.shape()[1]))
    return groups - cast(reshape(w.zero_points, {scales[0], scales[1], 1}), dtype);
  return w.has_four_bits ? groups - 8 : groups;
}
/// [n, k].
inline Val dequantized_rows(const QuantizedOperand& w, DType dtype) {
  const Shape scales = w.scales.shape();
  const Val groups = centred_groups(w, dtype) * cast(reshape(w.scales, {scales[0], scales[1], 1}), dtype);
  return slice_axis(reshape(groups, {scales[0], scales[1] * Dim(w.group)}), 1, 0, w.k);
}
/// The product of rows that are rounded to i8, each by its own scale: integers in each group, then the scales.
inline Val dynamic_product(Val x, const QuantizedOperand& w) {
  const Shape scales = w.scales.shape();
  const Dim m = x.shape()[0], n = scales[0], groups = scales[1], padded = groups * Dim(w.group);
  const Val largest = amax(abs(x), {1}, ReducedAxes::kept), step = largest / 127;
  const Val safe = where(gt(step, 0), step, 1);
  // A group's sum is at most group * 127 * 255: beyond 2^15 elements i32 would wrap.
  const DType exact = w.group > (1 << 15) ? DType::i64 : DType::i32;
  const Val q = cast(maximum(minimum(rounded(x / safe), number(x, 127)), number(x, -127)), exact);
  const Val filled = pad(q, {0, 0}, {Dim(0), padded - w.k}, 0);
  const Val left = permute(reshape(filled, {m, groups, Dim(w.group)}), {1, 0, 2});  // [groups, m, group]
  const Val right = permute(centred_groups(w, exact), {1, 2, 0});                   // [groups, group, n]
  const Val sums = cast(matmul(left, right), x.dtype());                            // [groups, m, n]
  const Val scaled = sums * cast(reshape(permute(w.scales, {1, 0}), {groups, 1, n}), x.dtype());
  // An integer holds no NaN and no infinity: rows that have one are NaN, as in the kernels.
  const Val is_finite = lt(largest, std::numeric_limits<double>::infinity());
  return where(is_finite, sum(scaled, {0}) * safe, std::numeric_limits<double>::quiet_NaN());
}

/// Two matrices of as many columns: the result's shape, which has a row for each row of both.
inline Shape product_of_rows(const InferArgs& args) {
  require_rank(args, 0, 2);
  require_rank(args, 1, 2);
  const Shape &a = args.in[0].shape, &b = args.in[1].shape;
  if (!(a[1] == b[1]))
    throw ShapeError(args.op, operands_text(args), args.where, "rows of both must be as long as each other");
  return {a[0], b[0]};
}
/// Of all examples at once where b is shared: rows of all are rows of one product.
inline Batched batched_rows(const BatchArgs& a) {
  for (std::size_t i = 1; i < a.in.size(); ++i)
    if (a.is_batched(i)) return {};
  const Shape rows = a.in[0].shape();
  SmallVector<Val, 4> in;
  for (const Val& value : a.in) in.push_back(value);
  in[0] = reshape(in[0], {rows[0] * rows[1], rows[2]});
  const Val out = apply(a.op, {in.data(), in.size()}, a.attrs);
  return reshape(out, {rows[0], rows[1], out.shape()[1]});
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type IntegerMatmul::infer(const InferArgs& args) {
  for (std::size_t i = 0; i < 2; ++i)
    if (args.in[i].dtype != DType::i8 && args.in[i].dtype != DType::u8)
      throw DTypeError(
          args.op, ops_detail::operands_text(args), args.where,
          "both must be i8 or u8; of wider integers take matmul(cast(a, DType::i32), cast(b, DType::i32))");
  return {DType::i32, args.in[0].device, ops_detail::product_of_rows(args)};
}
SINTER_DECL Val IntegerMatmul::decompose(const DecomposeArgs& args) {
  return matmul(cast(args.in[0], DType::i32), transpose(cast(args.in[1], DType::i32)));
}
SINTER_DECL Batched IntegerMatmul::batch(const BatchArgs& a) { return ops_detail::batched_rows(a); }

SINTER_DECL Type ScaledMatmul::infer(const InferArgs& args) {
  const DType result = args.attrs.dtype;
  for (std::size_t i = 0; i < 4; ++i)
    if (i < 2 ? !is_f8(args.in[i].dtype) : args.in[i].dtype != DType::f32)
      throw DTypeError(args.op, ops_detail::operands_text(args), args.where,
                       "matrices are f8e4m3 or f8e5m2, scales are f32: cast(x / scale, DType::f8e4m3)");
  if (result != DType::f32 && result != DType::f16 && result != DType::bf16)
    throw DTypeError(args.op, "the result is to be " + std::string(name(result)), args.where, "it is f32, f16 or bf16");
  const Shape product = ops_detail::product_of_rows(args), &scale_a = args.in[2].shape, &scale_b = args.in[3].shape;
  const bool are_numbers = scale_a.rank() == 0 && scale_b.rank() == 0;
  if (!are_numbers && !(scale_a == Shape{product[0], Dim(1)} && scale_b == Shape{Dim(1), product[1]}))
    throw ShapeError(args.op, ops_detail::operands_text(args), args.where,
                     "scales are both numbers, or [rows, 1] and [1, columns]");
  return {result, args.in[0].device, product};
}
SINTER_DECL Val ScaledMatmul::decompose(const DecomposeArgs& args) {
  const auto in_f32 = [&] { return matmul(cast(args.in[0], DType::f32), transpose(cast(args.in[1], DType::f32))); };
  if (args.in[2].shape().rank() == 0) return cast(in_f32() * (args.in[2] * args.in[3]), args.attrs.dtype);
  Attrs attrs = args.attrs;
  attrs.dtype = DType::f32;
  // A back end may have the product without such scales. Of operands that were widened on the way none has.
  const bool are_f8 = is_f8(args.in[0].dtype()) && is_f8(args.in[1].dtype());
  const Val one = number(args.in[2], 1),
            product = are_f8 ? apply(op_info<ScaledMatmul>, {args.in[0], args.in[1], one, one}, attrs) : in_f32();
  return cast(product * args.in[2] * args.in[3], args.attrs.dtype);
}
SINTER_DECL ValList ScaledMatmul::vjp(const VjpArgs& a) {
  const Val by_product = cast(a.dout, DType::f32), x = cast(a.in[0], DType::f32), y = cast(a.in[1], DType::f32);
  const Val scale = a.in[2] * a.in[3];
  ValList grads{Val{}, Val{}, Val{}, Val{}};
  const bool has_one_scale = scale.shape().rank() == 0;
  const Val scaled = has_one_scale ? by_product : by_product * scale;
  const auto finished = [&](const Val& grad) { return has_one_scale ? grad * scale : grad; };
  if (a.needs(0)) grads[0] = finished(matmul(scaled, y));
  if (a.needs(1)) grads[1] = finished(matmul(transpose(scaled), x));
  if (a.needs(2) || a.needs(3)) {
    const Val by_scales = by_product * matmul(x, transpose(y));
    const bool are_numbers = a.in[2].shape().rank() == 0;
    const auto by = [&](const Val& other, int axis) {
      return are_numbers ? sum(by_scales, {0, 1}) * other : sum(by_scales * other, {axis}, ReducedAxes::kept);
    };
    if (a.needs(2)) grads[2] = by(a.in[3], 1);
    if (a.needs(3)) grads[3] = by(a.in[2], 0);
  }
  return grads;
}
SINTER_DECL Batched ScaledMatmul::batch(const BatchArgs& a) {
  const bool has_vectors = a.in[2].shape().rank() > (a.is_batched(2) ? 1 : 0);
  return has_vectors ? Batched{} : ops_detail::batched_rows(a);  // scales of rows go through the decomposition
}

SINTER_DECL Type QuantizedMatmul::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  ops_detail::require_floating(args, 2);
  for (std::size_t i = 0; i < 4; ++i) ops_detail::require_rank(args, i, 2);
  const Type &x = args.in[0], &values = args.in[1], &scales = args.in[2], &zero_points = args.in[3];
  const bool has_four_bits = args.attrs[bits] == WeightBits::four;
  const std::int64_t size = args.attrs[group];
  const DType stored = has_four_bits ? DType::u8 : DType::i8;
  if (size < 1 || size > ops_detail::most_window_number || (has_four_bits && size % 2 != 0))
    throw UserError(args.op, "the group is " + std::to_string(size), args.where,
                    "a group is from 1 to 2^30, and of 4 bits even");
  if (values.dtype != stored || zero_points.dtype != stored)
    throw DTypeError(args.op, ops_detail::operands_text(args), args.where,
                     "values and zero points are " + std::string(name(stored)));
  const Dim padded = scales.shape[1] * Dim(size), row = values.shape[1] * Dim(has_four_bits ? 2 : 1);
  const bool fits = values.shape[0] == scales.shape[0] && row == padded && zero_points.shape[0] == scales.shape[0] &&
                    (ops_detail::is_zero(zero_points.shape[1]) || zero_points.shape[1] == scales.shape[1]) &&
                    !(padded < x.shape[1]);
  if (!fits)
    throw ShapeError(args.op, ops_detail::operands_text(args) + ", groups are of " + std::to_string(size), args.where,
                     "make the weight by quantize_weight; it must have as many rows as x has columns");
  return ops_detail::with_shape(args, {x.shape[0], scales.shape[0]});
}
SINTER_DECL Val QuantizedMatmul::decompose(const DecomposeArgs& args) {
  const ops_detail::QuantizedOperand w = ops_detail::quantized_operand(args.in, args.attrs);
  const Val x = args.in[0];
  if (args.attrs[activations] == ActivationUse::dynamic_i8) return ops_detail::dynamic_product(x, w);
  return matmul(x, transpose(ops_detail::dequantized_rows(w, x.dtype())));
}
/// To x through the dequantised weight, also where x is rounded (straight through), and to the scales.
SINTER_DECL ValList QuantizedMatmul::vjp(const VjpArgs& a) {
  const ops_detail::QuantizedOperand w = ops_detail::quantized_operand(a.in, a.attrs);
  const Val x = ops_detail::widened(a.in[0]), dout = ops_detail::widened(a.dout);
  Val by_x, by_scales;
  if (a.needs(0)) by_x = cast(matmul(dout, ops_detail::dequantized_rows(w, x.dtype())), a.in[0].dtype());
  if (a.needs(2)) {
    const Shape scales = w.scales.shape();
    const Dim padded = scales[1] * Dim(w.group);
    const Val by_weight = pad(matmul(transpose(dout), x), {0, 0}, {Dim(0), padded - w.k}, 0);
    const Val in_groups = reshape(by_weight, {scales[0], scales[1], Dim(w.group)});
    by_scales = cast(sum(in_groups * ops_detail::centred_groups(w, x.dtype()), {2}), w.scales.dtype());
  }
  return {by_x, Val{}, by_scales, Val{}};
}
/// Rows of all examples are rows of one product; weights for each example go through the decomposition.
SINTER_DECL Batched QuantizedMatmul::batch(const BatchArgs& a) {
  if (a.is_batched(1) || a.is_batched(2) || a.is_batched(3)) return {};
  const Shape x = a.in[0].shape();
  const Val rows = reshape(a.in[0], {x[0] * x[1], x[2]});
  const Val out = apply(a.op, {rows, a.in[1], a.in[2], a.in[3]}, a.attrs);
  return reshape(out, {x[0], x[1], out.shape()[1]});
}

SINTER_DECL Type FakeQuantize::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  ops_detail::require_same_dtype(args, 0, 1);
  ops_detail::require_same_dtype(args, 0, 2);
  if (args.attrs[low] >= args.attrs[high])
    throw UserError(args.op,
                    "the integers are " + std::to_string(args.attrs[low]) + " to " + std::to_string(args.attrs[high]),
                    args.where, "the least must be below the greatest");
  Shape shape = args.in[0].shape;
  for (std::size_t i = 1; i < 3; ++i) shape = broadcast(shape, args.in[i].shape, args.op, args.where);
  if (!(shape == args.in[0].shape))
    throw ShapeError(args.op, ops_detail::operands_text(args), args.where, "scale and zero point broadcast to x");
  return args.in[0];
}
SINTER_DECL Val FakeQuantize::decompose(const DecomposeArgs& args) {
  const Val x = args.in[0], scale = args.in[1], zero_point = args.in[2];
  const Val q = ops_detail::rounded(x / scale) + zero_point;
  const Val least = number(x, static_cast<double>(args.attrs[low])),
            greatest = number(x, static_cast<double>(args.attrs[high]));
  return (minimum(maximum(q, least), greatest) - zero_point) * scale;
}
SINTER_DECL ValList FakeQuantize::vjp(const VjpArgs& a) {
  const Val x = a.in[0], scale = a.in[1], zero_point = a.in[2];
  const double least = static_cast<double>(a.attrs[low]), greatest = static_cast<double>(a.attrs[high]);
  const Val steps = x / scale, q = ops_detail::rounded(steps) + zero_point;
  const Val is_below = lt(q, least), is_above = gt(q, greatest), is_limited = logical_or(is_below, is_above);
  Val by_scale, by_zero_point;
  if (a.needs(1)) {
    const Val limit = where(is_below, number(x, least), number(x, greatest)) - zero_point;
    by_scale = a.dout * where(is_limited, limit, ops_detail::rounded(steps) - steps);
  }
  if (a.needs(2)) by_zero_point = where(is_limited, -a.dout * scale, 0);
  return {where(is_limited, 0, a.dout), by_scale, by_zero_point};
}

}  // namespace ops
SINTER_NAMESPACE_END
