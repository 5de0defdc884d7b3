// Operators of ONNX on elements, and reductions.
#pragma once

#include <sinter/io/onnx/elementwise.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/elementwise.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/statistics.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

/// ONNX's operators that are one operation here, of as many operands.
inline constexpr std::array<std::array<std::string_view, 2>, 48> same_operations{{
    {"Abs", "abs"},
    {"Acos", "acos"},
    {"Acosh", "acosh"},
    {"Asin", "asin"},
    {"Asinh", "asinh"},
    {"Atan", "atan"},
    {"Atanh", "atanh"},
    {"Ceil", "ceil"},
    {"Cos", "cos"},
    {"Cosh", "cosh"},
    {"Erf", "erf"},
    {"Exp", "exp"},
    {"Floor", "floor"},
    {"Log", "log"},
    {"Neg", "neg"},
    {"Reciprocal", "reciprocal"},
    {"Relu", "relu"},
    {"Round", "round"},
    {"Sigmoid", "sigmoid"},
    {"Sign", "sign"},
    {"Sin", "sin"},
    {"Sinh", "sinh"},
    {"Softplus", "softplus"},
    {"Softsign", "softsign"},
    {"Sqrt", "sqrt"},
    {"Tan", "tan"},
    {"Tanh", "tanh"},
    {"Mish", "mish"},
    {"HardSwish", "hardswish"},
    {"IsNaN", "isnan"},
    {"Not", "not"},
    {"BitwiseNot", "not"},
    {"Add", "add"},
    {"Sub", "sub"},
    {"Mul", "mul"},
    {"Equal", "eq"},
    {"Less", "lt"},
    {"LessOrEqual", "le"},
    {"Greater", "gt"},
    {"GreaterOrEqual", "ge"},
    {"And", "and"},
    {"Or", "or"},
    {"Xor", "xor"},
    {"BitwiseAnd", "and"},
    {"BitwiseOr", "or"},
    {"BitwiseXor", "xor"},
    {"Where", "where"},
    {"Det", "det"},
}};

inline Operands run_same(const NodeCall& call) {
  for (const auto& [theirs, ours] : same_operations) {
    if (theirs != call.op()) continue;
    if (call.count() == 1) return {call.make(ours, {call.in(call.x(0))})};
    if (call.count() == 2) return {call.make(ours, {call.in(call.x(0)), call.in(call.x(1))})};
    return {call.make(ours, {call.in(call.x(0)), call.in(call.x(1)), call.in(call.x(2))})};
  }
  call.fail("it is no operator of elements");
}

inline Dim combined(std::string_view op, Dim p, Dim q) { return op == "Add" ? p + q : op == "Sub" ? p - q : p * q; }
/// Sums and the like of extents stay known, where no number goes beyond its dtype.
inline Operands run_arithmetic(const NodeCall& call) {
  const Operand &a = call.operand(0), &b = call.operand(1);
  const bool fits =
      a.integers() != nullptr && b.integers() != nullptr && a.dtype() == b.dtype() && a.dtype() != DType::bool_ &&
      (a.integers()->size() == b.integers()->size() || a.integers()->size() == 1 || b.integers()->size() == 1);
  if (!fits) return run_same(call);
  const std::vector<Dim>&x = *a.integers(), &y = *b.integers();
  if (!are_small(x) || !are_small(y)) return run_same(call);
  std::vector<Dim> out;
  for (std::size_t i = 0; i < (x.size() == 1 ? y.size() : x.size()); ++i)
    out.push_back(combined(call.op(), x[x.size() == 1 ? 0 : i], y[y.size() == 1 ? 0 : i]));
  if (!are_small(out)) return run_same(call);
  return {Operand::of_integers(std::move(out), a.rank() == 0 && b.rank() == 0, a.dtype())};
}

/// Of integers the quotient is rounded towards 0.
inline Operands run_div(const NodeCall& call) {
  const Operand &a = call.operand(0), &b = call.operand(1);
  if (is_floating(a.dtype()) || is_complex(a.dtype()))
    return {call.make("div", {call.in(call.x(0)), call.in(call.x(1))})};
  if (a.integers() != nullptr && b.integers() != nullptr && b.integers()->size() == 1 &&
      (*b.integers())[0].is_static() && (*b.integers())[0].value() > 0) {
    std::vector<Dim> out;
    for (const Dim dim : *a.integers()) {
      if (dim.is_static()) out.push_back(Dim(dim.value() / (*b.integers())[0].value()));
      else out.push_back(dim / (*b.integers())[0]);
    }
    return {Operand::of_integers(std::move(out), a.rank() == 0 && b.rank() == 0, a.dtype())};
  }
  const Tensor x = call.x(0), y = call.x(1);
  const Tensor down = call.make("floor_divide", {call.in(x), call.in(y)});
  if (!row(x.dtype()).is_signed) return {down};
  const Tensor rest = call.make("sub", {call.in(x), call.in(call.make("mul", {call.in(down), call.in(y)}))});
  const Tensor is_whole = call.make("eq", {call.in(rest), In(0, call.where())});
  const Tensor zero = zeros_like(call.in(x));
  const Tensor is_positive = call.make("eq", {call.in(call.make("lt", {call.in(x), call.in(zero)})),
                                              call.in(call.make("lt", {call.in(y), call.in(zero)}))});
  const Tensor up = call.make("add", {call.in(down), In(1, call.where())});
  return {call.make("where",
                    {call.in(call.make("or", {call.in(is_whole), call.in(is_positive)})), call.in(down), call.in(up)})};
}

inline Operands run_pow(const NodeCall& call) {
  const Tensor x = call.x(0), y = call.x(1);
  const DType common = promote(x.dtype(), y.dtype());
  return {call.make("pow", {call.in(x.to(common, call.where())), call.in(y.to(common, call.where()))})
              .to(x.dtype(), call.where())};
}
inline Operands run_mod(const NodeCall& call) {
  return {call.make(call.flag("fmod") ? "fmod" : "rem", {call.in(call.x(0)), call.in(call.x(1))})};
}
inline Operands run_shift(const NodeCall& call) {
  const std::string direction = call.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") call.fail("direction is '" + direction + "'", "LEFT or RIGHT");
  return {call.make(direction == "LEFT" ? "left_shift" : "right_shift", {call.in(call.x(0)), call.in(call.x(1))})};
}

/// Max, Min, Sum and Mean of any number of tensors.
inline Operands run_of_many(const NodeCall& call) {
  const std::string_view by = call.op() == "Max" ? "maximum" : call.op() == "Min" ? "minimum" : "add";
  Tensor out = call.x(0);
  for (std::size_t i = 1; i < call.count(); ++i) out = call.make(by, {call.in(out), call.in(call.x(i))});
  if (call.op() == "Mean") out = call.make("div", {call.in(out), call.in(static_cast<double>(call.count()))});
  return {out};
}

/// Bounds of old versions are attributes.
inline Operands run_clip(const NodeCall& call) {
  Tensor out = call.x(0);
  const bool is_old = call.opset() < 11;
  if (is_old ? call.has_attribute("min") : call.has(1))
    out = call.make("maximum", {call.in(out), is_old ? call.in(call.real("min", 0)) : call.in(call.x(1))});
  if (is_old ? call.has_attribute("max") : call.has(2))
    out = call.make("minimum", {call.in(out), is_old ? call.in(call.real("max", 0)) : call.in(call.x(2))});
  return {out};
}

inline Operands run_prelu(const NodeCall& call) {
  const Tensor x = call.x(0), slope = call.x(1);
  return {call.make("where", {call.in(call.make("lt", {call.in(x), In(0, call.where())})),
                              call.in(call.make("mul", {call.in(x), call.in(slope)})), call.in(x)})};
}
inline Operands run_selu(const NodeCall& call) {
  const Tensor out =
      call.make("elu", {call.in(call.x(0)), call.in(call.real("alpha", 1.6732631921768188)), call.in(1)});
  return {call.make("mul", {call.in(out), call.in(call.real("gamma", 1.0507010221481323))})};
}
inline Operands run_hard_sigmoid(const NodeCall& call) {
  const Tensor line =
      call.make("add", {call.in(call.make("mul", {call.in(call.x(0)), call.in(call.real("alpha", 0.2))})),
                        call.in(call.real("beta", 0.5))});
  return {call.make("clamp_to_numbers", {call.in(line), call.in(0), call.in(1)})};
}
inline Operands run_thresholded(const NodeCall& call) {
  const Tensor x = call.x(0);
  return {call.make("where", {call.in(call.make("gt", {call.in(x), call.in(call.real("alpha", 1))})), call.in(x),
                              call.in(zeros_like(call.in(x)))})};
}
inline Operands run_shrink(const NodeCall& call) {
  const Tensor x = call.x(0);
  const double width = call.real("lambd", 0.5), bias = call.real("bias", 0);
  const Tensor low = call.make("lt", {call.in(x), call.in(-width)}),
               high = call.make("gt", {call.in(x), call.in(width)});
  const Tensor raised = call.make("add", {call.in(x), call.in(bias)}),
               lowered = call.make("sub", {call.in(x), call.in(bias)});
  const Tensor inner = call.make("where", {call.in(high), call.in(lowered), call.in(zeros_like(call.in(x)))});
  return {call.make("where", {call.in(low), call.in(raised), call.in(inner)}).to(x.dtype(), call.where())};
}
inline Operands run_swish(const NodeCall& call) {
  const Tensor x = call.x(0);
  const Tensor scaled = call.make("mul", {call.in(x), call.in(call.real("alpha", 1))});
  return {call.make("mul", {call.in(x), call.in(call.make("sigmoid", {call.in(scaled)}))})};
}
inline Operands run_gelu(const NodeCall& call) {
  const std::string approximate = call.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh") call.fail("approximate is '" + approximate + "'", "none or tanh");
  return {call.make(approximate == "tanh" ? "gelu_tanh" : "gelu", {call.in(call.x(0))})};
}
inline Operands run_is_inf(const NodeCall& call) {
  const bool negative = call.flag("detect_negative", true), positive = call.flag("detect_positive", true);
  const Tensor x = call.x(0);
  if (!negative && !positive) return {zeros(x.shape(), {.dtype = DType::bool_}, call.where())};
  return {call.make(negative && positive ? "isinf" : negative ? "isneginf" : "isposinf", {call.in(x)})};
}

inline DType required_dtype(const NodeCall& call) {
  if (!call.has_attribute("to")) call.fail("there is no attribute 'to'");
  return call.dtype("to", DType::f32);
}
inline Operands run_cast(const NodeCall& call) {
  const Operand& from = call.operand(0);
  const DType to = call.op() == "CastLike" ? call.operand(1).dtype() : required_dtype(call);
  if (is_f8(to) && (call.integer("saturate", 1) == 0) != row(to).has_infinity)
    call.fail(std::string("to ") + std::string(name(to)) + (row(to).has_infinity ? " with" : " without") +
              " saturation, which casts here do not have");
  const bool is_counted = (to == DType::i64 || to == DType::i32) && from.dtype() != DType::bool_;
  if (from.integers() != nullptr && is_counted && are_small(*from.integers()))
    return {Operand::of_integers(*from.integers(), from.rank() == 0, to)};
  return {call.x(0).to(to, call.where())};
}
inline Operands run_bit_cast(const NodeCall& call) {
  const DType to = required_dtype(call);
  const Tensor x = call.x(0).dtype() == DType::bool_ ? call.x(0).to(DType::u8, call.where()) : call.x(0);
  return {x.dtype() == to ? x : bitcast(call.in(x), to)};
}

/// Where of lists of extents, as exporters write it for shapes that stretch.
inline Operands run_where(const NodeCall& call) {
  const Operand &condition = call.operand(0), &a = call.operand(1), &b = call.operand(2);
  if (a.dtype() != b.dtype() || condition.integers() == nullptr || a.integers() == nullptr || b.integers() == nullptr ||
      condition.rank() != 1 || a.integers()->size() != condition.integers()->size() ||
      b.integers()->size() != condition.integers()->size())
    return run_same(call);
  std::vector<Dim> out;
  for (std::size_t i = 0; i < a.integers()->size(); ++i)
    out.push_back(static_cast<std::int64_t>((*condition.integers())[i]) != 0 ? (*a.integers())[i] : (*b.integers())[i]);
  return {Operand::of_integers(std::move(out), false, a.dtype())};
}
inline Operands run_equal(const NodeCall& call) {
  const Operand &a = call.operand(0), &b = call.operand(1);
  if (a.integers() == nullptr || b.integers() == nullptr || a.integers()->size() != b.integers()->size() ||
      a.rank() != b.rank())
    return run_same(call);
  std::vector<Dim> out;
  for (std::size_t i = 0; i < a.integers()->size(); ++i)
    out.push_back(Dim((*a.integers())[i] == (*b.integers())[i] ? 1 : 0));
  return {Operand::of_integers(std::move(out), a.rank() == 0, DType::bool_)};
}

SINTER_DECL std::span<const Operator> elementwise_operators() {
  static constexpr Operator table[] = {
      {"Abs", run_same},
      {"Acos", run_same},
      {"Acosh", run_same},
      {"Asin", run_same},
      {"Asinh", run_same},
      {"Atan", run_same},
      {"Atanh", run_same},
      {"Ceil", run_same},
      {"Cos", run_same},
      {"Cosh", run_same},
      {"Erf", run_same},
      {"Exp", run_same},
      {"Floor", run_same},
      {"Log", run_same},
      {"Neg", run_same},
      {"Reciprocal", run_same},
      {"Relu", run_same},
      {"Round", run_same},
      {"Sigmoid", run_same},
      {"Sign", run_same},
      {"Sin", run_same},
      {"Sinh", run_same},
      {"Softplus", run_same},
      {"Softsign", run_same},
      {"Sqrt", run_same},
      {"Tan", run_same},
      {"Tanh", run_same},
      {"Mish", run_same},
      {"HardSwish", run_same},
      {"IsNaN", run_same},
      {"Not", run_same},
      {"BitwiseNot", run_same},
      {"Less", run_same},
      {"LessOrEqual", run_same},
      {"Greater", run_same},
      {"GreaterOrEqual", run_same},
      {"And", run_same},
      {"Or", run_same},
      {"Xor", run_same},
      {"BitwiseAnd", run_same},
      {"BitwiseOr", run_same},
      {"BitwiseXor", run_same},
      {"Det", run_same},
      {"Add", run_arithmetic},
      {"Sub", run_arithmetic},
      {"Mul", run_arithmetic},
      {"Div", run_div},
      {"Pow", run_pow},
      {"Mod", run_mod},
      {"BitShift", run_shift},
      {"Max", run_of_many},
      {"Min", run_of_many},
      {"Sum", run_of_many},
      {"Mean", run_of_many},
      {"Clip", run_clip},
      {"PRelu", run_prelu},
      {"Selu", run_selu},
      {"HardSigmoid", run_hard_sigmoid},
      {"ThresholdedRelu", run_thresholded},
      {"Shrink", run_shrink},
      {"Swish", run_swish},
      {"Gelu", run_gelu},
      {"IsInf", run_is_inf},
      {"Cast", run_cast},
      {"CastLike", run_cast},
      {"BitCast", run_bit_cast},
      {"Where", run_where},
      {"Equal", run_equal},
      {"LeakyRelu",
       [](const NodeCall& call) -> Operands {
         return {call.make("leaky_relu", {call.in(call.x(0)), call.in(call.real("alpha", 0.01))})};
       }},
      {"Elu",
       [](const NodeCall& call) -> Operands {
         return {call.make("elu", {call.in(call.x(0)), call.in(call.real("alpha", 1)), call.in(1)})};
       }},
      {"Celu",
       [](const NodeCall& call) -> Operands {
         const double alpha = call.real("alpha", 1);
         return {call.make("elu", {call.in(call.x(0)), call.in(alpha), call.in(1 / alpha)})};
       }},
  };
  return table;
}

/// What a reduction is told: no axes means all, or none.
inline std::optional<std::vector<int>> reduced_axes(const NodeCall& call, int rank) {
  const auto given = call.integers("axes", 1);
  if (given && !given->empty()) return call.axes(*given, rank);
  if (call.flag("noop_with_empty_axes")) return {};
  std::vector<int> all(as_index(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

inline bool is_empty_along(const Tensor& x, const std::vector<int>& axes) {
  return std::any_of(axes.begin(), axes.end(), [&](int axis) { return identical(x.shape()[axis], Dim(0)); });
}
/// The least number of a dtype, or the greatest: the maximum of nothing.
inline Scalar extreme_of(DType dtype, bool is_least) {
  if (is_floating(dtype)) return Scalar((is_least ? -1 : 1) * std::numeric_limits<double>::infinity());
  return Scalar(is_least ? tensor_detail::lowest(dtype) : tensor_detail::greatest(dtype));
}

/// What reductions make of the elements before and after; the sum of integers stays in their dtype.
inline Operands run_reduction(const NodeCall& call) {
  Tensor x = call.x(0);
  const DType dtype = x.dtype();
  const std::string_view op = call.op();
  const auto axes = reduced_axes(call, x.rank());
  if (op == "ReduceL1") x = call.make("abs", {call.in(x)});
  if (op == "ReduceL2" || op == "ReduceSumSquare") x = call.make("square", {call.in(x)});
  Tensor out = x;
  if (axes && !axes->empty()) {
    const Keep keep = call.flag("keepdims", true) ? Keep::yes : Keep::no;
    const In in = call.in(x);
    if (is_empty_along(x, *axes) && (op == "ReduceMax" || op == "ReduceMin"))
      return {full(sum(in, *axes, keep).shape(), extreme_of(dtype, op == "ReduceMax"), {.dtype = dtype}, call.where())};
    if (op == "ReduceMax") out = dtype == DType::bool_ ? any(in, *axes, keep) : amax(in, *axes, keep);
    else if (op == "ReduceMin") out = dtype == DType::bool_ ? all(in, *axes, keep) : amin(in, *axes, keep);
    else if (op == "ReduceMean") out = mean(in, *axes, keep);
    else if (op == "ReduceProd") out = prod(in, *axes, keep);
    else if (op == "ReduceLogSumExp") out = logsumexp(in, *axes, keep);
    else out = sum(in, *axes, keep);
  }
  if (op == "ReduceLogSum") out = call.make("log", {call.in(out)});
  if (op == "ReduceL2") out = call.make("sqrt", {call.in(out)});
  return {out.to(dtype, call.where())};
}

inline Operands run_arg(const NodeCall& call) {
  const Tensor x = call.x(0);
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  const Keep keep = call.flag("keepdims", true) ? Keep::yes : Keep::no;
  const bool is_last = call.flag("select_last_index");
  const In from = call.in(is_last ? flip(call.in(x), axis) : x);
  const Tensor at = call.op() == "ArgMax" ? argmax(from, axis, keep) : argmin(from, axis, keep);
  if (!is_last) return {at};
  return {call.make("sub", {In(x.shape()[axis] - 1, call.where()), call.in(at)})};
}

SINTER_DECL std::span<const Operator> reduction_operators() {
  static constexpr Operator table[] = {
      {"ReduceMax", run_reduction},
      {"ReduceMin", run_reduction},
      {"ReduceMean", run_reduction},
      {"ReduceProd", run_reduction},
      {"ReduceSum", run_reduction},
      {"ReduceL1", run_reduction},
      {"ReduceL2", run_reduction},
      {"ReduceLogSum", run_reduction},
      {"ReduceLogSumExp", run_reduction},
      {"ReduceSumSquare", run_reduction},
      {"ArgMax", run_arg},
      {"ArgMin", run_arg},
  };
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
