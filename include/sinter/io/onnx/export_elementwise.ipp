// Operations on elements, and reductions, as operators of ONNX.
#pragma once

#include <sinter/io/onnx/export_elementwise.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/op_info.hpp>
#include <sinter/io/onnx/format.hpp>

#include <array>
#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

struct SameName {
  std::string_view ours, theirs;
};
/// One operator each; operands have the dtype of the result.
inline constexpr SameName same_names[] = {
    {"abs", "Abs"},   {"acos", "Acos"},   {"acosh", "Acosh"},       {"add", "Add"},
    {"asin", "Asin"}, {"asinh", "Asinh"}, {"atan", "Atan"},         {"atanh", "Atanh"},
    {"ceil", "Ceil"}, {"cos", "Cos"},     {"cosh", "Cosh"},         {"div", "Div"},
    {"erf", "Erf"},   {"exp", "Exp"},     {"floor", "Floor"},       {"hardswish", "HardSwish"},
    {"log", "Log"},   {"maximum", "Max"}, {"minimum", "Min"},       {"mish", "Mish"},
    {"mul", "Mul"},   {"neg", "Neg"},     {"pow", "Pow"},           {"reciprocal", "Reciprocal"},
    {"relu", "Relu"}, {"round", "Round"}, {"sigmoid", "Sigmoid"},   {"sign", "Sign"},
    {"sin", "Sin"},   {"sinh", "Sinh"},   {"softplus", "Softplus"}, {"softsign", "Softsign"},
    {"sqrt", "Sqrt"}, {"sub", "Sub"},     {"tan", "Tan"},           {"tanh", "Tanh"},
};

SINTER_DECL std::vector<std::string> write_same(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  std::string_view theirs;
  for (const SameName& known : same_names)
    if (known.ours == node.op()) theirs = known.theirs;
  if (dtype == DType::bool_) {  // of bools ONNX has no arithmetic
    const bool is_and = theirs == "Mul" || theirs == "Min";
    if (!is_and && theirs != "Add" && theirs != "Max") node.fail("of bools");
    theirs = is_and ? "And" : "Or";
  }
  Names operands;
  for (std::size_t i = 0; i < node.count(); ++i) operands.push_back(node.as(i, dtype));
  const bool is_unsigned = is_integer(dtype) && !row(dtype).is_signed;
  if (is_integer(dtype) && (theirs == "Ceil" || theirs == "Floor" || theirs == "Round")) return operands;
  if (is_unsigned && theirs == "Relu") return operands;
  if (is_unsigned && theirs == "Neg") return {node.make("Sub", {node.number(0), operands[0]})};
  return {node.make_of(dtype, theirs, std::move(operands))};
}

SINTER_DECL bool is_same_operator(std::string_view op) {
  for (const SameName& known : same_names)
    if (known.ours == op) return true;
  return false;
}

inline Names write_comparison(const NodeExport& node) {
  const DType common = promote(node.type(0).dtype, node.type(1).dtype);
  const std::string a = node.as(0, common), b = node.as(1, common);
  const std::string_view op = node.op();
  if (op == "ne") return {node.make("Not", {node.make("Equal", {a, b})})};
  return {node.make_of(common,
                       op == "eq"   ? "Equal"
                       : op == "lt" ? "Less"
                       : op == "le" ? "LessOrEqual"
                       : op == "gt" ? "Greater"
                                    : "GreaterOrEqual",
                       {a, b})};
}
inline Names write_logical(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  const std::string prefix = dtype == DType::bool_ ? "" : "Bitwise";
  const std::string_view op = node.op();
  if (op == "not") return {node.make(prefix + "Not", {node.x()})};
  const std::string name = op == "and" ? "And" : op == "or" ? "Or" : "Xor";
  return {node.make(prefix + name, {node.as(0, dtype), node.as(1, dtype)})};
}
inline Names write_where(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  return {node.make("Where", {node.x(0), node.as(1, dtype), node.as(2, dtype)})};
}
inline Names write_clamp(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  return {node.make("Min", {node.make("Max", {node.as(0, dtype), node.as(1, dtype)}), node.as(2, dtype)})};
}
inline Names write_cast(const NodeExport& node) { return {node.as(0, node.result().dtype)}; }
inline Names write_identity(const NodeExport& node) { return {node.x()}; }

/// Of floating numbers, from the remainder with the sign of the dividend.
inline std::string floored_rest(const NodeExport& node, const std::string& a, const std::string& b) {
  const std::string zero = node.number(0), rest = node.make("Mod", {a, b}, {{"fmod", 1}});
  const std::string differ = node.make("Xor", {node.make("Less", {rest, zero}), node.make("Less", {b, zero})});
  const std::string is_rest = node.make("Not", {node.make("Equal", {rest, zero})});
  return node.make("Where", {node.make("And", {is_rest, differ}), node.make("Add", {rest, b}), rest});
}
/// The remainder with the sign of the divisor; of floating numbers ONNX has the other one alone.
inline Names write_remainder(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  const std::string a = node.as(0, dtype), b = node.as(1, dtype);
  if (node.op() == "fmod") return {node.make("Mod", {a, b}, {{"fmod", 1}})};
  if (!is_floating(dtype)) return {node.make("Mod", {a, b}, {{"fmod", 0}})};
  return {floored_rest(node, a, b)};
}
inline Names write_floor_divide(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  const std::string a = node.as(0, dtype), b = node.as(1, dtype);
  if (is_floating(dtype)) {
    const std::string quotient = node.make("Div", {a, b});
    const std::string whole = node.make("Div", {node.make("Sub", {a, floored_rest(node, a, b)}), b});
    return {
        node.make("Where", {node.make("Equal", {b, node.number(0)}), quotient, node.make_of(dtype, "Round", {whole})})};
  }
  return {node.make("Div", {node.make("Sub", {a, node.make("Mod", {a, b}, {{"fmod", 0}})}), b})};
}
inline Names write_shift(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  if (row(dtype).is_signed) node.fail("of signed integers");
  return {node.make("BitShift", {node.as(0, dtype), node.as(1, dtype)},
                    {{"direction", node.op() == "left_shift" ? "LEFT" : "RIGHT"}})};
}

/// Formulas, in the dtype of the result.
inline Names write_formula(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  const std::string_view op = node.op();
  const std::string x = node.as(0, dtype);
  const auto number = [&](double value) { return node.number(value); };
  const auto mul = [&](const std::string& a, const std::string& b) { return node.make("Mul", {a, b}); };
  const auto add = [&](const std::string& a, const std::string& b) { return node.make("Add", {a, b}); };
  if (op == "square") return {mul(x, x)};
  if (op == "rsqrt") return {node.make("Reciprocal", {node.make("Sqrt", {x})})};
  if (op == "exp2") return {node.make("Pow", {number(2), x})};
  if (op == "log2") return {mul(node.make("Log", {x}), number(std::numbers::log2e))};
  if (op == "log10") return {mul(node.make("Log", {x}), number(std::numbers::log10e))};
  if (op == "silu") return {mul(x, node.make("Sigmoid", {x}))};
  if (op == "logsigmoid") return {node.make("Neg", {node.make_of(dtype, "Softplus", {node.make("Neg", {x})})})};
  if (op == "tanhshrink") return {node.make("Sub", {x, node.make("Tanh", {x})})};
  if (op == "hardsigmoid") return {node.make_of(dtype, "HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}})};
  if (op == "trunc")
    return {is_floating(dtype) ? mul(node.make("Sign", {x}), node.make("Floor", {node.make("Abs", {x})})) : x};
  if (op == "lerp") return {add(x, mul(node.as(2, dtype), node.make("Sub", {node.as(1, dtype), x})))};
  if (op == "gelu") {
    const std::string erf = node.make("Erf", {mul(x, number(std::numbers::sqrt2 / 2))});
    return {mul(mul(x, number(0.5)), add(erf, number(1)))};
  }
  // gelu_tanh
  const std::string cube = mul(mul(x, x), x);
  const std::string inner =
      mul(add(x, mul(cube, number(0.044715))), number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi));
  return {mul(mul(x, number(0.5)), add(node.make("Tanh", {inner}), number(1)))};
}
inline Names write_leaky_relu(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  return {node.make("PRelu", {node.as(0, dtype), node.as(1, dtype)})};
}
/// x, or alpha (e^(beta x) - 1) below 0.
inline Names write_elu(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  const std::string x = node.as(0, dtype), zero = node.number(0);
  const std::string below = node.make("Mul", {node.as(2, dtype), node.make("Min", {x, zero})});
  const std::string curve =
      node.make("Mul", {node.as(1, dtype), node.make("Sub", {node.make("Exp", {below}), node.number(1)})});
  return {node.make("Where", {node.make("Greater", {x, zero}), x, curve})};
}
inline Names write_kind(const NodeExport& node) {
  const std::string_view op = node.op();
  if (!is_floating(node.type().dtype)) node.fail("of integers");
  if (op == "isnan") return {node.make("IsNaN", {node.x()})};
  const auto is_inf = [&](std::vector<OutAttribute> attributes = {}) {
    return node.make_of(node.type().dtype, "IsInf", {node.x()}, std::move(attributes));
  };
  if (op == "isinf") return {is_inf()};
  if (op == "isposinf") return {is_inf({{"detect_negative", 0}})};
  if (op == "isneginf") return {is_inf({{"detect_positive", 0}})};
  return {node.make("Not", {node.make("Or", {node.make("IsNaN", {node.x()}), is_inf()})})};
}

SINTER_DECL std::span<const Exporter> elementwise_exporters() {
  static constexpr Exporter table[] = {
      {"eq", write_comparison},
      {"ne", write_comparison},
      {"lt", write_comparison},
      {"le", write_comparison},
      {"gt", write_comparison},
      {"ge", write_comparison},
      {"and", write_logical},
      {"or", write_logical},
      {"xor", write_logical},
      {"not", write_logical},
      {"where", write_where},
      {"clamp", write_clamp},
      {"clamp_to_numbers", write_clamp},
      {"cast", write_cast},
      {"narrow", write_cast},
      {"stop_gradient", write_identity},
      {"barrier", write_identity},
      {"to", write_identity},
      {"rem", write_remainder},
      {"fmod", write_remainder},
      {"floor_divide", write_floor_divide},
      {"left_shift", write_shift},
      {"right_shift", write_shift},
      {"square", write_formula},
      {"rsqrt", write_formula},
      {"exp2", write_formula},
      {"log2", write_formula},
      {"log10", write_formula},
      {"silu", write_formula},
      {"logsigmoid", write_formula},
      {"tanhshrink", write_formula},
      {"hardsigmoid", write_formula},
      {"trunc", write_formula},
      {"lerp", write_formula},
      {"gelu", write_formula},
      {"gelu_tanh", write_formula},
      {"leaky_relu", write_leaky_relu},
      {"elu", write_elu},
      {"isnan", write_kind},
      {"isinf", write_kind},
      {"isposinf", write_kind},
      {"isneginf", write_kind},
      {"isfinite", write_kind},
  };
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
