// Checks, the shapes in which scales broadcast, and formulas; products are recorded as their op.
#pragma once

#include <sinter/expr/quantization.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/quantized.hpp>

#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace quantization_detail {
using expr_detail::Term;

/// The least and the greatest integer.
struct IntegerRange {
  std::int64_t low, high;
};
inline IntegerRange range_of(DType dtype, int bits, std::string_view op, Location where) {
  if (is_floating(dtype) || dtype == DType::bool_ || size_of(dtype) > 4 || dtype == DType::u32)
    throw DTypeError(op, "the dtype is " + std::string(name(dtype)), where, "use i8, u8, i16, u16 or i32");
  const int all_bits = static_cast<int>(8 * size_of(dtype));
  if (bits == 0) bits = all_bits;
  if (bits < 2 || bits > all_bits)
    throw UserError(op, "bits are " + std::to_string(bits), where,
                    "2 to " + std::to_string(all_bits) + ", or 0 for all that " + std::string(name(dtype)) + " has");
  const std::int64_t count = std::int64_t{1} << bits;
  return tensor_detail::lowest(dtype) < 0 ? IntegerRange{-count / 2, count / 2 - 1} : IntegerRange{0, count - 1};
}

/// How parameters lie along x.
struct Placement {
  std::string_view op;
  std::optional<int> axis{};  // normalised
  std::int64_t group = 0;     // 0: none
};
inline Placement placement_of(const Term& x, std::optional<int> axis, std::int64_t group, std::string_view op) {
  Placement at{op, axis, group};
  if (axis) at.axis = normalise_axis(*axis, x.rank(), op, x.where);
  if (group < 0 || (group > 0 && !axis))
    throw UserError(op, "the group is " + std::to_string(group) + (axis ? "" : ", without an axis"), x.where,
                    "a group is positive, and lies along an axis: {.axis = 1, .group = 64}");
  if (group > 0 && !(x.shape()[*at.axis] % Dim(group) == Dim(0)))
    throw ShapeError(op,
                     "x is " + x.shape().text() + ", groups of " + std::to_string(group) +
                         " are asked for along axis " + std::to_string(*at.axis),
                     x.where, "the extent must be a multiple of the group; pad(x, ...)");
  return at;
}
/// The axis of x in two: groups, and what is in one.
inline Shape in_groups(const Shape& shape, const Placement& at) {
  if (at.group == 0) return shape;
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != *at.axis) out.push_back(shape[i]);
    else
      for (const Dim part : {shape[i] / Dim(at.group), Dim(at.group)}) out.push_back(part);
  }
  return out;
}
inline Term grouped(const Term& x, const Placement& at) {
  return at.group == 0 ? x : Term(reshape(x, in_groups(x.shape(), at)), x.where);
}
inline Term ungrouped(const Term& x, const Shape& shape, const Placement& at) {
  return at.group == 0 ? x : Term(reshape(x, shape), x.where);
}
/// A scale or zero point as it broadcasts over the groups of x.
inline Term spread(const Term& parameter, const Shape& x, const Placement& at, std::string_view what) {
  if (!at.axis && parameter.rank() == 0) return parameter;
  Shape wanted, placed;
  if (at.axis && at.group == 0) {
    wanted = {x[*at.axis]};
    for (int i = 0; i < x.rank(); ++i) placed.push_back(i == *at.axis ? x[i] : Dim(1));
  } else if (at.axis) {
    wanted = x;
    wanted.set(*at.axis, x[*at.axis] / Dim(at.group));
    for (int i = 0; i < x.rank(); ++i) {
      placed.push_back(wanted[i]);
      if (i == *at.axis) placed.push_back(1);
    }
  }
  if (at.axis && parameter.rank() == 0) return parameter;  // one for all
  if (!(parameter.shape() == wanted))
    throw ShapeError(at.op, "x is " + x.text() + ", " + std::string(what) + " is " + parameter.shape().text(),
                     parameter.where,
                     at.axis ? "it must be " + wanted.text() : "it must be a scalar, or an axis be named: {.axis = 0}");
  return {reshape(parameter, placed), parameter.where};
}
inline Term floating_scale(const In& scale, std::string_view op) {
  const Term out(scale);
  if (!is_floating(out.dtype()))
    throw DTypeError(op, "the scale is " + std::string(name(out.dtype())), scale.where, "a scale is floating");
  return out;
}
inline Term as(const Term& x, DType dtype) { return {cast(x, dtype), x.where}; }
inline Term rounded(const Term& x) { return expr_detail::apply<ops::Round>(x); }
inline Term limited(const Term& x, IntegerRange range) {
  return expr_detail::apply<ops::ClampToNumbers>(x, static_cast<double>(range.low), static_cast<double>(range.high));
}
inline Term floating_operand(const In& x, std::string_view op) {
  const Term out(x);
  if (is_floating(out.dtype())) return out;
  throw DTypeError(op, "x is " + out.value.impl()->type.text(), x.where, "it must be floating: cast(x, DType::f32)");
}

/// The least and the largest element of each group, where asked for without the outermost ones; of no elements 0.
struct Extremes {
  Term low, high;
};
inline Extremes extremes_of(const Term& x, const Placement& at, double part) {
  const Term parts = grouped(x, at);
  std::vector<std::int64_t> axes;
  for (int i = 0; i < parts.rank(); ++i)
    if (!at.axis || i != (at.group > 0 ? *at.axis + 1 : *at.axis)) {
      if (at.group == 0) axes.push_back(i);
    }
  if (at.group > 0) axes.push_back(*at.axis + 1);
  if (axes.empty()) return {parts, parts};
  const Axes over(axes);
  if (part < 1) {
    const Term wide = parts.dtype() == DType::f64 ? parts : as(parts, DType::f32);
    return {as({quantile(wide, 1 - part, over), x.where}, x.dtype()),
            as({quantile(wide, part, over), x.where}, x.dtype())};
  }
  return {{amin(parts, over), x.where}, {amax(parts, over), x.where}};
}
/// A scale, 1 where there is nothing to scale. NaN stays.
inline Term or_one(const Term& scale) {
  return expr_detail::where_of(expr_detail::apply<ops::Eq>(scale, 0.0), 1.0, scale);
}

/// A number beside i32.
inline Term integer(const Term& like, std::int64_t value) {
  return {full({}, value, {.dtype = DType::i32, .device = like.value.device()}, like.where), like.where};
}
inline Term packed_in_pairs(const Term& q) {
  const Shape shape = q.shape();
  Shape pairs = shape;
  pairs.set(shape.rank() - 1, shape[-1] / Dim(2));
  pairs.push_back(2);
  const Term wide = as({reshape(q, pairs), q.where}, DType::i32);
  const int last = shape.rank();
  const auto half = [&](int which) {
    const Tensor one = expr_detail::part_of(wide.value, last, which, which + 1, q.where);
    return expr_detail::apply<ops::And>(Term(squeeze(In(one, q.where), last), q.where), integer(wide, 15));
  };
  return as(half(0) + half(1) * integer(wide, 16), DType::u8);
}

inline void require_weight(const QuantizedWeight& w, std::string_view op, Location where) {
  const auto text = [](const Tensor& x) { return x.impl()->type.text(); };
  if ((w.bits != 4 && w.bits != 8) || w.group < 1 || w.k < 0 || w.values.rank() != 2 || w.scales.rank() != 2 ||
      w.zero_points.rank() != 2)
    throw UserError(op,
                    "the weight has values " + text(w.values) + ", scales " + text(w.scales) + ", zero points " +
                        text(w.zero_points) + ", " + std::to_string(w.bits) + " bits, groups of " +
                        std::to_string(w.group),
                    where, "make it by quantize_weight or quantized_weight");
}

}  // namespace quantization_detail

SINTER_DECL Tensor quantize(const In& x, const In& scale, const In& zero_point, QuantizeOptions options) {
  using namespace quantization_detail;
  constexpr std::string_view op = "quantize";
  const Term value = floating_operand(x, op);
  const IntegerRange range = range_of(options.dtype, options.bits, op, x.where);
  const Placement at = placement_of(value, options.axis, options.group, op);
  const DType wide = promote(value.dtype(), DType::f32);
  const Term s = as(spread(floating_scale(scale, op), value.shape(), at, "scale"), wide);
  const Term z = as(spread(Term(zero_point), value.shape(), at, "zero_point"), wide);
  const Term q = limited(rounded(as(grouped(value, at), wide) / s) + z, range);
  return ungrouped(as(q, options.dtype), value.shape(), at);
}
SINTER_DECL Tensor dequantize(const In& q, const In& scale, const In& zero_point, DequantizeOptions options) {
  using namespace quantization_detail;
  constexpr std::string_view op = "dequantize";
  const Term value(q), s = floating_scale(scale, op);
  if (is_floating(value.dtype()))
    throw DTypeError(op, "q is " + value.value.impl()->type.text(), q.where, "quantised numbers are integers");
  const Placement at = placement_of(value, options.axis, options.group, op);
  const DType wide = promote(s.dtype(), DType::f32);
  const Term step = as(spread(s, value.shape(), at, "scale"), wide);
  const Term z = as(spread(Term(zero_point), value.shape(), at, "zero_point"), wide);
  const Term out = (as(grouped(value, at), wide) - z) * step;
  return ungrouped(as(out, s.dtype()), value.shape(), at);
}

SINTER_DECL Tensor fake_quantize(const In& x, const In& scale, const In& zero_point, FakeQuantizeOptions options) {
  using namespace quantization_detail;
  constexpr std::string_view op = "fake_quantize";
  const Term value = floating_operand(x, op);
  const Placement at = placement_of(value, options.axis, 0, op);
  const Term s = as(spread(Term(scale), value.shape(), at, "scale"), value.dtype());
  const Term z = as(spread(Term(zero_point), value.shape(), at, "zero_point"), value.dtype());
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::FakeQuantize::low, options.quant_min);
  attrs.set(ops::FakeQuantize::high, options.quant_max);
  return expr_detail::record<ops::FakeQuantize>({Leaf(value.value.impl()), Leaf(s.value.impl()), Leaf(z.value.impl())},
                                                std::move(shared), x.where);
}

SINTER_DECL QuantizationParameters choose_quantization(const In& x, ChooseOptions options) {
  using namespace quantization_detail;
  constexpr std::string_view op = "choose_quantization";
  const Term given = floating_operand(x, op);
  const Term value = as(given, promote(given.dtype(), DType::f32));  // f16 has no room for a range of 1e5, or of 2^16
  const IntegerRange range = range_of(options.dtype, options.bits, op, x.where);
  const Placement at = placement_of(value, options.axis, options.group, op);
  if (!(options.quantile > 0.5 && options.quantile <= 1))
    throw UserError(op, "the quantile is " + std::to_string(options.quantile), x.where, "above 0.5, and at most 1");
  if (value.shape().numel() == Dim(0))
    throw ShapeError(op, "x is " + value.shape().text() + ": it has no elements", x.where);
  const Extremes seen = extremes_of(value, at, options.quantile);
  const double low = static_cast<double>(range.low), high = static_cast<double>(range.high);
  const bool is_signed = range.low < 0;
  if (options.scheme == QuantizationScheme::symmetric) {
    const Term largest =
        expr_detail::apply<ops::Maximum>(expr_detail::absolute(seen.low), expr_detail::absolute(seen.high));
    const double levels = (high - low - 1) / 2, middle = is_signed ? 0 : (high + 1) / 2;
    const Term scale = or_one(as(largest / levels, given.dtype()));
    const Term zero(full(scale.shape(), middle, {.dtype = DType::i32, .device = value.value.device()}, x.where),
                    x.where);
    return {scale, zero};
  }
  const Term least = expr_detail::apply<ops::Minimum>(seen.low, 0.0),
             most = expr_detail::apply<ops::Maximum>(seen.high, 0.0);
  const Term scale = or_one(as((most - least) / (high - low), given.dtype()));
  const Term zero = limited(low - rounded(least / as(scale, value.dtype())), range);
  return {scale, as(zero, DType::i32)};
}

SINTER_DECL Tensor pack_int4(const In& q) {
  const expr_detail::Term value(q);
  if (value.dtype() != DType::i8 && value.dtype() != DType::u8)
    throw DTypeError("pack_int4", "q is " + value.value.impl()->type.text(), q.where, "i8 or u8 is required");
  if (value.rank() == 0 || !(value.shape()[-1] % Dim(2) == Dim(0)))
    throw ShapeError("pack_int4", "q is " + value.shape().text(), q.where, "the last axis must be even");
  return quantization_detail::packed_in_pairs(value);
}
SINTER_DECL Tensor unpack_int4(const In& packed, DType dtype) {
  using namespace quantization_detail;
  const Term value(packed);
  if (value.dtype() != DType::u8 || value.rank() == 0)
    throw DTypeError("unpack_int4", "the operand is " + value.value.impl()->type.text(), packed.where,
                     "u8 of one axis at least is required");
  if (dtype != DType::i8 && dtype != DType::u8)
    throw DTypeError("unpack_int4", "the dtype is " + std::string(name(dtype)), packed.where, "use i8 or u8");
  const Term bytes = as(value, DType::i32);
  const Term low = expr_detail::apply<ops::And>(bytes, integer(bytes, 15)),
             high = expr_detail::apply<ops::RightShift>(bytes, integer(bytes, 4));
  Term both(stack({low.value, high.value}, value.rank(), packed.where), packed.where);
  Shape shape = value.shape();
  shape.set(shape.rank() - 1, shape[-1] * Dim(2));
  both = {reshape(both, shape), packed.where};
  if (dtype == DType::i8) both = both - expr_detail::apply<ops::And>(both, integer(both, 8)) * integer(both, 2);
  return as(both, dtype);
}

SINTER_DECL QuantizedWeight quantize_weight(const In& w, QuantizeWeightOptions options) {
  using namespace quantization_detail;
  constexpr std::string_view op = "quantize_weight";
  Term value = floating_operand(w, op);
  if (value.rank() != 2) throw ShapeError(op, "w is " + value.shape().text() + ", a matrix is required", w.where);
  if (options.bits != 4 && options.bits != 8)
    throw UserError(op, "bits are " + std::to_string(options.bits), w.where, "4 or 8");
  if (!is_floating(options.scale_dtype))
    throw DTypeError(op, "scale_dtype is " + std::string(name(options.scale_dtype)), w.where, "a scale is floating");
  if (!options.transposed) value = {transpose(value, 0, 1), w.where};
  const auto k = static_cast<std::int64_t>(value.shape()[1]);
  constexpr std::int64_t step = 32;  // of the kernels
  std::int64_t group = options.group == 0 ? std::max(step, (k + step - 1) / step * step) : options.group;
  if (group < 1 || (options.bits == 4 && group % 2 != 0))
    throw UserError(op, "the group is " + std::to_string(group), w.where, "it is positive, and of 4 bits even");
  const std::int64_t padded = (k + group - 1) / group * group;
  if (padded > k) value = {pad(value, {{0, 0}, {0, static_cast<int>(padded - k)}}), w.where};
  const bool is_affine = options.scheme == QuantizationScheme::affine;
  const DType stored = options.bits == 4 ? DType::u8 : DType::i8;
  const QuantizeOptions how{.dtype = stored, .axis = 1, .group = group, .bits = options.bits};
  const Shape scales{value.shape()[0], Dim(padded / group)};
  QuantizedWeight out{.values = {}, .scales = {}, .zero_points = {}, .bits = options.bits, .group = group, .k = k};
  const TensorOptions narrow{.dtype = stored, .device = value.value.device()};
  if (value.shape().numel() == Dim(0)) {
    out.values = zeros({value.shape()[0], Dim(options.bits == 4 ? padded / 2 : padded)}, narrow, w.where);
    out.scales = ones(scales, {.dtype = options.scale_dtype, .device = narrow.device}, w.where);
    out.zero_points = zeros({value.shape()[0], 0}, narrow, w.where);
    return out;
  }
  const QuantizationParameters chosen = choose_quantization(
      value, {.dtype = stored, .axis = 1, .group = group, .bits = options.bits, .scheme = options.scheme});
  // Rounded to the scale that is kept.
  const Term scale = as({chosen.scale, w.where}, options.scale_dtype);
  const Term q(quantize(value, as(scale, DType::f32), In(chosen.zero_point, w.where), how), w.where);
  out.values = options.bits == 4 ? Tensor(packed_in_pairs(q)) : Tensor(q);
  out.scales = scale;
  out.zero_points =
      is_affine ? Tensor(as({chosen.zero_point, w.where}, stored)) : zeros({value.shape()[0], 0}, narrow, w.where);
  return out;
}

SINTER_DECL QuantizedWeight quantized_weight(const In& q, const In& scales, std::optional<Tensor> zero_points,
                                             int bits) {
  using namespace quantization_detail;
  constexpr std::string_view op = "quantized_weight";
  const Term values(q), s = floating_scale(scales, op);
  const DType stored = bits == 4 ? DType::u8 : DType::i8;
  if (bits != 4 && bits != 8) throw UserError(op, "bits are " + std::to_string(bits), q.where, "4 or 8");
  if (values.dtype() != stored)
    throw DTypeError(op, "q is " + values.value.impl()->type.text(), q.where,
                     std::string(name(stored)) + " is required for " + std::to_string(bits) + " bits");
  const bool fits = values.rank() == 2 && s.rank() == 2 && values.shape()[0] == s.shape()[0] && Dim(0) < s.shape()[1] &&
                    values.shape()[1] % s.shape()[1] == Dim(0) && (!zero_points || zero_points->shape() == s.shape());
  if (!fits)
    throw ShapeError(op,
                     "q is " + values.shape().text() + ", scales are " + s.shape().text() +
                         (zero_points ? ", zero points are " + zero_points->shape().text() : ""),
                     q.where, "q is (n, k), scales (and zero points) are (n, groups), and k a multiple of the groups");
  const auto k = static_cast<std::int64_t>(values.shape()[1]);
  const std::int64_t group = k / static_cast<std::int64_t>(s.shape()[1]);
  if (bits == 4 && group % 2 != 0)
    throw UserError(op, "the group is " + std::to_string(group), q.where, "groups of 4 bits are even");
  const TensorOptions narrow{.dtype = stored, .device = values.value.device()};
  return {.values = bits == 4 ? Tensor(packed_in_pairs(values)) : Tensor(values),
          .scales = s,
          .zero_points =
              zero_points ? cast(In(*zero_points, q.where), stored) : zeros({values.shape()[0], 0}, narrow, q.where),
          .bits = bits,
          .group = group,
          .k = k};
}

SINTER_DECL Tensor dequantize(const QuantizedWeight& w, Location where) {
  using namespace quantization_detail;
  require_weight(w, "dequantize", where);
  const Term values(w.bits == 4 ? unpack_int4(In(w.values, where)) : w.values, where);
  const Term scales(w.scales, where);
  const bool is_symmetric = w.zero_points.shape()[1] == Dim(0) && !(w.scales.shape()[1] == Dim(0));
  const Term zero =
      is_symmetric
          ? Term(full({}, w.bits == 4 ? 8 : 0, {.dtype = DType::i32, .device = w.values.device()}, where), where)
          : Term(w.zero_points, where);
  const Tensor rows = dequantize(values, scales, zero, {.axis = 1, .group = w.group});
  return transpose(In(expr_detail::part_of(rows, 1, 0, w.k, where), where), 0, 1);
}

namespace quantization_detail {
/// Few rows of f16 or bf16 are read as they lie by a kernel of GPUs. Elsewhere products are of wider numbers.
inline bool is_read_as_it_lies(const Tensor& x, const Dim& rows, const QuantizedWeight& w) {
  constexpr std::int64_t most_rows = 8, least_group = 32;
  const bool is_taken = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  return is_taken && x.device().kind == DeviceKind::cuda && rows.is_static() && rows.value() <= most_rows &&
         w.group % least_group == 0 && w.scales.shape()[1] * Dim(w.group) == Dim(w.k);
}
}  // namespace quantization_detail

SINTER_DECL Tensor quantized_matmul(const In& x, const QuantizedWeight& w, QuantizedMatmulOptions options) {
  using namespace quantization_detail;
  constexpr std::string_view op = "quantized_matmul";
  const Term value = floating_operand(x, op);
  require_weight(w, op, x.where);
  if (value.rank() == 0 || !(value.shape()[-1] == Dim(w.k)))
    throw ShapeError(op,
                     "x is " + value.shape().text() + ", the weight is (" + std::to_string(w.k) + ", " +
                         w.values.shape()[0].text() + ")",
                     x.where, "the last axis of x must be as long as the weight's first");
  Shape result = value.shape();
  result.set(result.rank() - 1, w.values.shape()[0]);
  Dim rows = 1;
  for (int i = 0; i + 1 < value.rank(); ++i) rows *= value.shape()[i];
  const bool stays = value.dtype() == DType::f64 ||
                     (options.activations != Activations::dynamic_i8 && is_read_as_it_lies(value.value, rows, w));
  const Term flat(reshape(as(value, stays ? value.dtype() : DType::f32), {rows, Dim(w.k)}), x.where);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::QuantizedMatmul::bits, w.bits == 4 ? WeightBits::four : WeightBits::eight);
  attrs.set(ops::QuantizedMatmul::group, w.group);
  attrs.set(ops::QuantizedMatmul::activations, options.activations == Activations::dynamic_i8 && w.k > 0
                                                   ? ActivationUse::dynamic_i8
                                                   : ActivationUse::as_is);
  const Tensor out = expr_detail::record<ops::QuantizedMatmul>(
      {Leaf(flat.value.impl()), Leaf(w.values.impl()), Leaf(w.scales.impl()), Leaf(w.zero_points.impl())},
      std::move(shared), x.where);
  return as({reshape(In(out, x.where), result), x.where}, value.dtype());
}

namespace quantization_detail {
/// a [..., k] as rows, b [k, n] by its columns, and the shape of the product.
struct RowsByColumns {
  Tensor rows, columns;
  Shape result;
};
inline RowsByColumns rows_by_columns(const Term& a, const Term& b, std::string_view op, Location where) {
  if (a.rank() == 0 || b.rank() != 2 || !(a.shape()[-1] == b.shape()[0]))
    throw ShapeError(op, "a is " + a.value.impl()->type.text() + ", b is " + b.value.impl()->type.text(), where,
                     "b is a matrix with as many rows as the last axis of a has elements");
  Dim rows = 1;
  for (int i = 0; i + 1 < a.rank(); ++i) rows *= a.shape()[i];
  Shape result = a.shape();
  result.set(result.rank() - 1, b.shape()[1]);
  return {reshape(In(a.value, where), {rows, b.shape()[0]}), transpose(In(b.value, where), 0, 1), result};
}
}  // namespace quantization_detail

SINTER_DECL Tensor integer_matmul(const In& a, const In& b) {
  using namespace quantization_detail;
  const RowsByColumns product = rows_by_columns(Term(a), Term(b), "integer_matmul", a.where);
  const Tensor out = expr_detail::record<ops::IntegerMatmul>({Leaf(product.rows.impl()), Leaf(product.columns.impl())},
                                                             SharedAttrs(), a.where);
  return reshape(In(out, a.where), product.result);
}

SINTER_DECL Tensor scaled_matmul(const In& a, const In& b, const In& scale_a, const In& scale_b,
                                 ScaledMatmulOptions options) {
  using namespace quantization_detail;
  constexpr std::string_view op = "scaled_matmul";
  const Term left(a), right(b);
  const RowsByColumns product = rows_by_columns(left, right, op, a.where);
  const auto scale_of = [op](const In& scale) {
    const Term out = as(floating_scale(scale, op), DType::f32);
    bool is_number = true;
    for (int i = 0; i < out.rank(); ++i)
      is_number = is_number && out.shape()[i].is_static() && out.shape()[i].value() == 1;
    return is_number ? Term(reshape(out, Shape()), scale.where) : out;
  };
  const Term by_rows = scale_of(scale_a), by_columns = scale_of(scale_b);
  const bool are_numbers = by_rows.rank() == 0 && by_columns.rank() == 0;
  const auto require_axis = [&](const Term& scale, std::string_view which, int axis) {
    if (scale.rank() == 0) return;
    Shape wanted = product.result;
    for (int i = 0; i < wanted.rank(); ++i)
      if (axis == -1 ? i == wanted.rank() - 1 : i < wanted.rank() - 1) wanted.set(i, Dim(1));
    const bool is_row = axis != -1 && scale.rank() == 1 && scale.shape()[0] == product.result[-1];
    if (!is_row && !(scale.shape() == wanted) && !(axis != -1 && scale.shape() == Shape{Dim(1), product.result[-1]}))
      throw ShapeError(op, std::string(which) + " is " + scale.shape().text() + ", the result " + product.result.text(),
                       scale.where, "a scale is a number, or has the shape " + wanted.text());
  };
  require_axis(by_rows, "scale_a", -1);
  require_axis(by_columns, "scale_b", 0);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.dtype = options.dtype;
  attrs.has_dtype = true;
  // Of all rows and columns where one has them: a number of the host becomes one of the device.
  const auto spread = [&](const Term& scale, const Shape& shape) {
    const Shape ones{Dim(1), Dim(1)};
    const bool is_number = scale.rank() == 0;
    const Term one(full({}, 1, {.device = left.value.device()}, a.where), a.where);
    const Term placed = is_number ? one * scale : scale;
    const Term two_axes(reshape(In(placed.value, scale.where), is_number ? ones : shape), scale.where);
    return Term(expand(In(two_axes.value, scale.where), shape), scale.where);
  };
  const Term first = are_numbers ? by_rows : spread(by_rows, {product.rows.shape()[0], Dim(1)}),
             second = are_numbers ? by_columns : spread(by_columns, {Dim(1), product.columns.shape()[0]});
  const Tensor out = expr_detail::record<ops::ScaledMatmul>(
      {Leaf(product.rows.impl()), Leaf(product.columns.impl()), Leaf(first.value.impl()), Leaf(second.value.impl())},
      std::move(shared), a.where);
  return reshape(In(out, a.where), product.result);
}

SINTER_NAMESPACE_END
