// Operators of ONNX that networks are made of, but for windows: products, normalisations, attention's softmax, losses'
// parts, quantised numbers.
#pragma once

#include <sinter/io/onnx/layers.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/einsum.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/losses.hpp>
#include <sinter/expr/matrices.hpp>
#include <sinter/expr/normalisation.hpp>
#include <sinter/expr/quantization.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/windows.hpp>

#include <algorithm>
#include <numeric>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

inline Operands run_matmul(const NodeCall& call) { return {matmul(call.in(call.x(0)), call.in(call.x(1)))}; }

/// Is there no zero point, or one that is known to be 0?
inline bool has_no_zero_point(const NodeCall& call, std::size_t i) {
  if (!call.has(i)) return true;
  const std::vector<Dim>* const known = call.operand(i).integers();
  return known != nullptr && std::all_of(known->begin(), known->end(), [](Dim x) { return identical(x, Dim(0)); });
}
inline Operands run_matmul_integer(const NodeCall& call) {
  if (has_no_zero_point(call, 2) && has_no_zero_point(call, 3) && call.operand(0).rank() > 0 &&
      call.operand(1).rank() == 2)
    return {integer_matmul(call.in(call.x(0)), call.in(call.x(1)))};
  const int rows = std::max(call.operand(0).rank() - 2, 0), columns = std::max(call.operand(1).rank() - 1, 0);
  const Tensor a = less_zero_point(call, 0, 2, rows), b = less_zero_point(call, 1, 3, columns);
  return {matmul(call.in(a), call.in(b)).to(DType::i32, call.where())};
}
inline Operands run_gemm(const NodeCall& call) {
  Tensor a = call.x(0), b = call.x(1);
  if (call.flag("transA")) a = transpose(call.in(a), 0, 1);
  if (call.flag("transB")) b = transpose(call.in(b), 0, 1);
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  Tensor out = matmul(call.in(a), call.in(b));
  if (alpha != 1) out = call.make("mul", {call.in(out), call.in(alpha)});
  if (!call.has(2)) return {out};
  Tensor c = call.x(2);
  if (beta != 1) c = call.make("mul", {call.in(c), call.in(beta)});
  return {call.make("add", {call.in(out), call.in(c)}).to(a.dtype(), call.where())};
}
inline Operands run_einsum(const NodeCall& call) {
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < call.count(); ++i) operands.push_back(call.x(i));
  std::string equation = call.text("equation", "");
  std::erase(equation, ' ');
  return {einsum(Equation(equation, call.where()), operands)};
}

/// Before version 13 all axes from `axis` on are one.
inline Operands run_softmax(const NodeCall& call) {
  const Tensor x = call.x(0);
  const bool is_old = call.opset() < 13;
  const int axis = call.axis(call.integer("axis", is_old ? 1 : -1), x.rank());
  Tensor rows = x;
  if (is_old) {
    Dim before = 1, after = 1;
    for (int i = 0; i < x.rank(); ++i) (i < axis ? before : after) *= x.shape()[i];
    rows = reshape(call.in(x), Shape{before, after});
  }
  const int along = is_old ? 1 : axis;
  if (call.op() == "Hardmax") {
    const Tensor at = argmax(call.in(rows), along, keepdim);
    Shape line;
    for (int i = 0; i < rows.rank(); ++i) line.push_back(i == along ? rows.shape()[along] : Dim(1));
    const Tensor numbers = reshape(call.in(arange(rows.shape()[along], {.dtype = DType::i64}, call.where())), line);
    rows = call.make("eq", {call.in(at), call.in(numbers)}).to(x.dtype(), call.where());
  } else {
    rows = call.op() == "Softmax" ? softmax(call.in(rows), along) : log_softmax(call.in(rows), along);
  }
  return {is_old ? reshape(call.in(rows), x.shape()) : rows};
}

/// A tensor (channels) as one that broadcasts along axis 1.
inline Tensor along_channels(const NodeCall& call, const Tensor& x, int rank) {
  Shape shape{1, x.numel()};
  while (shape.rank() < rank) shape.push_back(1);
  return reshape(call.in(x), shape);
}
inline Operands run_batch_norm(const NodeCall& call) {
  const Tensor x = call.x(0);
  const double eps = call.real("epsilon", 1e-5);
  if (!call.flag("spatial", true)) call.fail("spatial is 0: statistics for each place", "convert it to version 9");
  if (!call.flag("training_mode"))
    return {batch_norm(call.in(x), call.in(call.x(3)), call.in(call.x(4)),
                       {.weight = call.x(1), .bias = call.x(2), .eps = eps})
                .to(x.dtype(), call.where())};
  std::vector<int> axes{0};
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const Tensor centre = mean(call.in(x), axes), spread = var(call.in(x), axes);
  const Tensor out =
      batch_norm(call.in(x), call.in(centre), call.in(spread), {.weight = call.x(1), .bias = call.x(2), .eps = eps});
  const double momentum = call.real("momentum", 0.9);
  const auto moved = [&](const Tensor& old, const Tensor& now) {
    return call.make("add", {call.in(call.make("mul", {call.in(old), call.in(momentum)})),
                             call.in(call.make("mul", {call.in(now), call.in(1 - momentum)}))});
  };
  return {out, moved(call.x(3), centre), moved(call.x(4), spread)};
}
inline Operands run_instance_norm(const NodeCall& call) {
  return {
      instance_norm(call.in(call.x(0)), {.weight = call.x(1), .bias = call.x(2), .eps = call.real("epsilon", 1e-5)})};
}
/// Before version 21 scale and bias are one for each group.
inline Operands run_group_norm(const NodeCall& call) {
  const Tensor x = call.x(0);
  const std::int64_t groups = call.integer("num_groups", 1);
  if (groups < 1) call.fail("there are " + std::to_string(groups) + " groups");
  Tensor weight = call.x(1), bias = call.x(2);
  if (call.opset() < 21) {
    const Dim each = x.shape()[1] / Dim(groups);
    weight = repeat_interleave(call.in(weight), each, 0);
    bias = repeat_interleave(call.in(bias), each, 0);
  }
  return {group_norm(call.in(x), groups, {.weight = weight, .bias = bias, .eps = call.real("epsilon", 1e-5)})};
}

/// The mean and 1 / deviation over the axes from `axis` on, which LayerNormalization also gives.
inline Operands run_layer_norm(const NodeCall& call) {
  const Tensor x = call.x(0);
  const int axis = call.axis(call.integer("axis", -1), x.rank());
  const double eps = call.real("epsilon", 1e-5);
  Shape shape;
  std::vector<int> axes;
  for (int i = axis; i < x.rank(); ++i) {
    shape.push_back(x.shape()[i]);
    axes.push_back(i);
  }
  LayerNormOptions options{.weight = reshape(call.in(expand(call.in(call.x(1)), shape)), shape), .eps = eps};
  if (call.has(2)) options.bias = expand(call.in(call.x(2)), shape);
  Operands out{layer_norm(call.in(x), shape, options)};
  if (call.wants(1) || call.wants(2)) {
    out.push_back(mean(call.in(x), axes, keepdim));
    out.push_back(
        call.make("rsqrt", {call.in(call.make("add", {call.in(var(call.in(x), axes, keepdim)), call.in(eps)}))}));
  }
  return out;
}
inline Operands run_rms_norm(const NodeCall& call) {
  const Tensor x = call.x(0);
  Shape shape;
  for (int i = call.axis(call.integer("axis", -1), x.rank()); i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  const Tensor out = rms_norm(call.in(x), shape, {.eps = call.real("epsilon", 1e-5)});
  return {call.make("mul", {call.in(out), call.in(call.x(1))}).to(x.dtype(), call.where())};
}
/// ONNX's window of an even size has the further channel after its centre, local_response_norm() before.
inline Operands run_lrn(const NodeCall& call) {
  const Tensor x = call.x(0);
  const auto size = static_cast<int>(call.integer("size", 1));
  const bool is_mirrored = size % 2 == 0 && x.rank() > 1;
  const Tensor given = is_mirrored ? flip(call.in(x), 1) : x;
  const Tensor out = local_response_norm(
      call.in(given), size,
      {.alpha = call.real("alpha", 1e-4), .beta = call.real("beta", 0.75), .k = call.real("bias", 1)});
  return {is_mirrored ? flip(call.in(out), 1) : out};
}
inline Operands run_lp_norm(const NodeCall& call) {
  const Tensor x = call.x(0);
  const int axis = call.axis(call.integer("axis", -1), x.rank());
  const std::int64_t p = call.integer("p", 2);
  const Tensor length =
      p == 1 ? sum(call.in(call.make("abs", {call.in(x)})), axis, keepdim)
             : Tensor(call.make("sqrt", {call.in(sum(call.in(call.make("square", {call.in(x)})), axis, keepdim))}));
  const Tensor is_zero = call.make("eq", {call.in(length), call.in(0)});
  const Tensor divisor = call.make("where", {call.in(is_zero), call.in(ones_like(call.in(length))), call.in(length)});
  return {call.make("div", {call.in(x), call.in(divisor)})};
}
inline Operands run_mean_variance(const NodeCall& call) {
  const Tensor x = call.x(0);
  const std::vector<int> axes =
      call.has_attribute("axes") ? call.axes(call.integers("axes"), x.rank()) : std::vector<int>{0, 2, 3};
  const Tensor centred = call.make("sub", {call.in(x), call.in(mean(call.in(x), axes, keepdim))});
  const Tensor deviation = call.make("sqrt", {call.in(var(call.in(x), axes, keepdim))});
  return {call.make("div", {call.in(centred), call.in(call.make("add", {call.in(deviation), call.in(1e-9)}))})};
}

/// Inference: nothing is dropped.
inline Operands run_dropout(const NodeCall& call) {
  if (call.has(2) && call.integer(2) != 0 && (!call.has(1) || call.real(1) != 0))
    call.fail("training_mode is set", "export the model for inference");
  const Tensor x = call.x(0);
  return {x, ones(x.shape(), {.dtype = DType::bool_}, call.where())};
}

struct Quantisation {
  std::optional<int> axis{};
  std::int64_t group = 0;
};
inline Quantisation quantisation_of(const NodeCall& call, const Tensor& x, const Tensor& scale) {
  if (scale.rank() == 0 || (scale.rank() == 1 && identical(scale.shape()[0], Dim(1)))) return {};
  return {call.axis(call.integer("axis", 1), x.rank()), call.integer("block_size", 0)};
}
inline Tensor zero_point_of(const NodeCall& call, const Tensor& scale, DType otherwise) {
  return call.has(2) ? call.x(2) : zeros(scale.shape(), {.dtype = otherwise}, call.where());
}
inline Tensor one_scale(const NodeCall& call, const Tensor& x, const Quantisation& how) {
  return how.axis || x.rank() == 0 ? x : reshape(call.in(x), {});
}
inline Operands run_quantize(const NodeCall& call) {
  const Tensor x = call.x(0), scale = call.x(1);
  const Tensor zero = zero_point_of(call, scale, call.dtype("output_dtype", DType::u8));
  const Quantisation how = quantisation_of(call, x, scale);
  return {quantize(call.in(x), call.in(one_scale(call, scale, how)), call.in(one_scale(call, zero, how)),
                   {.dtype = zero.dtype(), .axis = how.axis, .group = how.group})};
}
inline Operands run_dequantize(const NodeCall& call) {
  const Tensor x = call.x(0), scale = call.x(1);
  const Quantisation how = quantisation_of(call, x, scale);
  const Tensor zero = zero_point_of(call, scale, x.dtype());
  return {dequantize(call.in(x), call.in(one_scale(call, scale, how)), call.in(one_scale(call, zero, how)),
                     {.axis = how.axis, .group = how.group})};
}
inline Operands run_dynamic_quantize(const NodeCall& call) {
  const In x = call.in(call.x(0));
  const Tensor high = call.make("maximum", {call.in(amax(x)), call.in(0)});
  const Tensor low = call.make("minimum", {call.in(amin(x)), call.in(0)});
  const Tensor scale = call.make("div", {call.in(call.make("sub", {call.in(high), call.in(low)})), call.in(255)});
  const Tensor at =
      call.make("round", {call.in(call.make("neg", {call.in(call.make("div", {call.in(low), call.in(scale)}))}))});
  const Tensor zero =
      call.make("clamp_to_numbers", {call.in(at), call.in(0), call.in(255)}).to(DType::u8, call.where());
  return {quantize(x, call.in(scale), call.in(zero), {.dtype = DType::u8}), scale, zero};
}
/// a, scale, zero point; b, scale, zero point; scale and zero point of the result.
inline Operands run_qlinear_matmul(const NodeCall& call) {
  const int rows = std::max(call.operand(0).rank() - 2, 0), columns = std::max(call.operand(3).rank() - 1, 0);
  const Tensor a = less_zero_point(call, 0, 2, rows), b = less_zero_point(call, 3, 5, columns);
  const Tensor product = matmul(call.in(a), call.in(b)).to(DType::f32, call.where());
  Tensor of_rows = call.x(1).to(DType::f32, call.where());
  if (of_rows.rank() == 1 && call.operand(0).rank() > 1) of_rows = unsqueeze(call.in(of_rows), 1);
  const Tensor scale = call.make("mul", {call.in(of_rows), call.in(call.x(4).to(DType::f32, call.where()))});
  const Tensor value = call.make("mul", {call.in(product), call.in(scale)});
  Tensor to = call.x(6).to(DType::f32, call.where()), zero = call.x(7);
  if (to.rank() > 1 || zero.rank() > 1) call.fail("the result's scales are " + to.shape().text());
  std::optional<int> axis;
  if (to.rank() == 1 && !identical(to.shape()[0], Dim(1))) {
    axis = value.rank() - 2;
    if (zero.rank() == 0) zero = expand(call.in(zero), to.shape());
  } else {
    to = reshape(call.in(to), {});
    zero = reshape(call.in(zero), {});
  }
  return {quantize(call.in(value), call.in(to), call.in(zero), {.dtype = zero.dtype(), .axis = axis})};
}

inline LossReduction loss_reduction(const NodeCall& call) {
  const std::string name = call.text("reduction", "mean");
  if (name != "mean" && name != "sum" && name != "none") call.fail("the reduction is '" + name + "'");
  return name == "mean" ? LossReduction::mean : name == "sum" ? LossReduction::sum : LossReduction::none;
}
/// Of logarithms of probabilities (n, classes, ...), or of scores, whose logarithms are an output, too.
inline Operands run_nll(const NodeCall& call) {
  const bool is_of_scores = call.op() == "SoftmaxCrossEntropyLoss";
  const Tensor rows = is_of_scores ? log_softmax(call.in(call.x(0)), 1) : call.x(0);
  const NllLossOptions options{.weight = call.optional(2),
                               .ignore_index = call.integer("ignore_index", -100),
                               .reduction = loss_reduction(call)};
  Operands out{nll_loss(call.in(rows), call.in(call.x(1).to(DType::i64, call.where())), options)};
  if (is_of_scores) out.push_back(rows);
  return out;
}
inline Operands run_window(const NodeCall& call) {
  const Dim count = call.dim(0);
  const window::Options options{.ends = call.flag("periodic", true) ? window::Ends::periodic : window::Ends::symmetric,
                                .dtype = call.dtype("output_datatype", DType::f32)};
  if (call.op() == "HannWindow") return {window::hann(count, options, call.where())};
  if (call.op() == "BlackmanWindow") return {window::blackman(count, options, call.where())};
  return {window::general_hamming(count, 25.0 / 46, options, call.where())};
}

SINTER_DECL std::span<const Operator> layer_operators() {
  static constexpr Operator table[] = {
      {"MatMul", run_matmul},
      {"MatMulInteger", run_matmul_integer},
      {"Gemm", run_gemm},
      {"Einsum", run_einsum},
      {"Softmax", run_softmax},
      {"LogSoftmax", run_softmax},
      {"Hardmax", run_softmax},
      {"BatchNormalization", run_batch_norm},
      {"InstanceNormalization", run_instance_norm},
      {"GroupNormalization", run_group_norm},
      {"LayerNormalization", run_layer_norm},
      {"RMSNormalization", run_rms_norm},
      {"LRN", run_lrn},
      {"LpNormalization", run_lp_norm},
      {"MeanVarianceNormalization", run_mean_variance},
      {"Dropout", run_dropout},
      {"QuantizeLinear", run_quantize},
      {"DequantizeLinear", run_dequantize},
      {"DynamicQuantizeLinear", run_dynamic_quantize},
      {"QLinearMatMul", run_qlinear_matmul},
      {"NegativeLogLikelihoodLoss", run_nll},
      {"SoftmaxCrossEntropyLoss", run_nll},
      {"HannWindow", run_window},
      {"HammingWindow", run_window},
      {"BlackmanWindow", run_window},
  };
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
