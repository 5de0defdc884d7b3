// Who writes which operation.
#pragma once

#include <sinter/io/onnx/export_node.hpp>

#include <sinter/base/index.hpp>
#include <sinter/io/onnx/export_elementwise.hpp>
#include <sinter/io/onnx/export_structure.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

SINTER_DECL std::vector<std::int64_t> NodeExport::static_extents(const Shape& shape) const {
  std::vector<std::int64_t> out;
  for (const Dim extent : shape) {
    if (!extent.is_static()) fail("with the extent " + extent.text() + " that is not known");
    out.push_back(extent.value());
  }
  return out;
}
/// What version 18 of an operator takes in place of a dtype that it does not.
inline DType taken_dtype(std::string_view op, DType dtype) {
  static constexpr std::string_view without_bf16[] = {
      "Acos",  "Acosh", "Asin", "Asinh",       "Atan",      "Atanh",   "AveragePool", "Conv",
      "Cos",   "Cosh",  "Det",  "HardSigmoid", "HardSwish", "MaxPool", "Mish",        "OneHot",
      "Round", "Sin",   "Sinh", "Softplus",    "Softsign",  "Tan",     "TopK"};
  static constexpr std::string_view of_wide_integers[] = {
      "CumSum", "MatMul", "Pow", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceLogSumExp"};
  const auto is_in = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), op) != names.end();
  };
  const bool is_16 = dtype == DType::i16 || dtype == DType::u16;
  if (dtype == DType::bf16 && is_in(without_bf16)) return DType::f32;
  if (op == "IsInf" && dtype != DType::f64) return DType::f32;
  if (is_integer(dtype) && size_of(dtype) < 4 && is_in(of_wide_integers)) return DType::i64;
  if (dtype == DType::u32 && op == "Pow") return DType::i64;
  if (is_16 && (op == "ReduceMax" || op == "ReduceMin")) return DType::i32;
  if (dtype == DType::bool_ && (op.starts_with("Less") || op.starts_with("Greater") || op.starts_with("Arg")))
    return DType::u8;
  return dtype;
}
SINTER_DECL std::string NodeExport::make_of(DType dtype, std::string_view op, std::vector<std::string> inputs,
                                            std::vector<OutAttribute> attributes, std::size_t typed) const {
  const DType taken = taken_dtype(op, dtype);
  for (std::size_t i = 0; i < std::min(typed, inputs.size()); ++i) inputs[i] = writer_.cast(inputs[i], dtype, taken);
  const bool is_of_dtype =
      op != "IsInf" && !op.starts_with("Less") && !op.starts_with("Greater") && !op.starts_with("Arg");
  const std::string made = writer_.node(op, std::move(inputs), std::move(attributes));
  return is_of_dtype ? writer_.cast(made, taken, dtype) : made;
}
SINTER_DECL void NodeExport::fail(std::string_view why) const {
  throw UserError(
      "export_onnx",
      "'" + std::string(op()) + "'" + (why.empty() ? "" : " ") + std::string(why) + " has no counterpart in ONNX",
      node_.where, "leave it out of the function that is exported, or write it with other operations");
}

SINTER_DECL ExportFunction find_exporter(const Node& node) {
  const std::string_view name = node.op->name;
  if (name == "softmax" && node.attrs[ops::Softmax::empty_rows] != ops::Softmax::EmptyRows::nan) return nullptr;
  // LayerNormalization computes in f32.
  if (name == "layer_norm" && (node.attrs.axes.empty() || node.types[0].dtype == DType::f64)) return nullptr;
  if (is_same_operator(name)) return write_same;
  for (const auto table : {elementwise_exporters(), structure_exporters()})
    for (const Exporter& known : table)
      if (known.op == name) return known.write;
  return nullptr;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
