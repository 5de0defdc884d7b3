// Models as bytes. The numbers of fields are those of onnx.proto3.
#pragma once

#include <sinter/io/onnx/export_writer.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/io/file.hpp>
#include <sinter/io/onnx/format.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

inline constexpr std::int64_t written_opset = 18, written_ir = 8;
/// What a message may hold is less than 2^31 bytes.
inline constexpr std::uint64_t most_inside = std::uint64_t{1} << 30;
inline constexpr std::size_t least_outside = 1024, outside_alignment = 64;

SINTER_DECL OutAttribute::OutAttribute(std::string_view name, std::int64_t value) {
  bytes.text(1, name);
  bytes.integer(3, value);
  bytes.integer(20, 2);
}
SINTER_DECL OutAttribute::OutAttribute(std::string_view name, double value) {
  bytes.text(1, name);
  bytes.real(2, static_cast<float>(value));
  bytes.integer(20, 1);
}
SINTER_DECL OutAttribute::OutAttribute(std::string_view name, std::string_view value) {
  bytes.text(1, name);
  bytes.text(4, value);
  bytes.integer(20, 3);
}
SINTER_DECL OutAttribute::OutAttribute(std::string_view name, std::span<const std::int64_t> values) {
  bytes.text(1, name);
  for (const std::int64_t value : values) bytes.integer(8, value);
  bytes.integer(20, 7);
}

SINTER_DECL std::string_view OutTensor::data() const {
  if (!bytes.empty() || std::count(shape.begin(), shape.end(), 0) > 0) return bytes;
  const io_detail::HostBytes host = io_detail::host_bytes(held, "export_onnx", {});
  return {static_cast<const char*>(host.data()), static_cast<std::size_t>(host.size())};
}

SINTER_DECL std::string ModelWriter::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !names_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
  return name;
}
SINTER_DECL std::vector<std::string> ModelWriter::nodes(std::string_view op, std::vector<std::string> inputs,
                                                        std::size_t outputs, std::vector<OutAttribute> attributes) {
  OutNode& made =
      nodes_.emplace_back(std::string(op), std::move(inputs), std::vector<std::string>(), std::move(attributes));
  for (std::size_t i = 0; i < outputs; ++i) made.outputs.push_back(unique("v" + std::to_string(made_++)));
  return made.outputs;
}

SINTER_DECL std::string ModelWriter::of_bytes(DType dtype, std::vector<std::int64_t> shape, std::string bytes) {
  std::string key(1, static_cast<char>(dtype));
  for (const std::int64_t extent : shape) io_detail::append_number(key, static_cast<std::uint64_t>(extent), 8);
  const auto [at, is_new] = known_.emplace(key + "|" + bytes, std::string());
  if (!is_new) return at->second;
  at->second = unique("c" + std::to_string(tensors_.size()));
  tensors_.push_back({at->second, dtype, std::move(shape), std::move(bytes)});
  return at->second;
}
SINTER_DECL std::string ModelWriter::integers(std::span<const std::int64_t> values) {
  std::string bytes;
  for (const std::int64_t value : values) io_detail::append_number(bytes, static_cast<std::uint64_t>(value), 8);
  return of_bytes(DType::i64, {static_cast<std::int64_t>(values.size())}, std::move(bytes));
}
SINTER_DECL std::string ModelWriter::whole_number(std::int64_t value, DType dtype) {
  if (is_floating(dtype)) return number(static_cast<double>(value), dtype);
  std::string bytes;
  io_detail::append_number(bytes, static_cast<std::uint64_t>(value), static_cast<int>(size_of(dtype)));
  return of_bytes(dtype, {}, std::move(bytes));
}
SINTER_DECL std::string ModelWriter::number(double value, DType dtype) {
  if (!is_floating(dtype)) return whole_number(static_cast<std::int64_t>(value), dtype);
  const Tensor scalar = full({}, Scalar(value), {.dtype = dtype, .device = Device::cpu()}, {});
  const io_detail::HostBytes host = io_detail::host_bytes(scalar, "export_onnx", {});
  return of_bytes(dtype, {}, std::string(static_cast<const char*>(host.data()), static_cast<std::size_t>(host.size())));
}
SINTER_DECL std::string ModelWriter::bools(const std::vector<bool>& values, const std::vector<std::int64_t>& shape) {
  std::string bytes;
  for (const bool value : values) bytes.push_back(value ? 1 : 0);
  return of_bytes(DType::bool_, shape, std::move(bytes));
}
SINTER_DECL std::string ModelWriter::weight(const Tensor& value, std::string name) {
  OutTensor made;
  made.name = unique(name.empty() ? "weight" + std::to_string(tensors_.size()) : name);
  made.dtype = value.dtype();
  for (const Dim extent : value.shape()) made.shape.push_back(extent.value());
  made.held = value;
  tensors_.push_back(std::move(made));
  return tensors_.back().name;
}
SINTER_DECL std::string ModelWriter::cast(const std::string& value, DType from, DType to) {
  return from == to ? value : node("Cast", {value}, {{"to", code_of(to)}});
}

// ---- extents: their text is a sum of products of numbers, symbols, quotients and remainders

inline bool skip(std::string_view& rest, std::string_view token) {
  if (!rest.starts_with(token)) return false;
  rest.remove_prefix(token.size());
  return true;
}
inline std::int64_t take_number(std::string_view& rest) {
  std::int64_t value = 0;
  const auto [stop, status] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  ensure(status == std::errc(), "an extent has a number here");
  rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
  return value;
}
SINTER_DECL std::string ModelWriter::dim_factor(std::string_view& rest) {
  const bool is_quotient = skip(rest, "floordiv(");
  if (is_quotient || skip(rest, "mod(")) {
    const std::string a = dim_text(rest);
    ensure(skip(rest, ", "), "a quotient has two operands");
    const std::string b = dim_text(rest);
    ensure(skip(rest, ")"), "a quotient ends");
    return node(is_quotient ? "Div" : "Mod", {a, b});
  }
  if (!skip(rest, "s")) return integers({take_number(rest)});
  const auto symbol = as_index(take_number(rest));
  const SymbolInfo& info = graph_.symbols().at(symbol);
  ensure(info.input >= 0, "a symbol is an extent of an input");
  const std::string shape = node("Shape", {inputs_[as_index(info.input)]});
  return node("Gather", {shape, integers({info.axis})}, {{"axis", 0}});
}
SINTER_DECL std::string ModelWriter::dim_term(std::string_view& rest) {
  std::string value = dim_factor(rest);
  while (skip(rest, "*")) value = node("Mul", {value, dim_factor(rest)});
  return value;
}
SINTER_DECL std::string ModelWriter::dim_text(std::string_view& rest) {
  std::string value;
  if (skip(rest, "-")) value = node("Neg", {dim_term(rest)});
  else value = dim_term(rest);
  while (true)
    if (skip(rest, " + ")) value = node("Add", {value, dim_term(rest)});
    else if (skip(rest, " - ")) value = node("Sub", {value, dim_term(rest)});
    else return value;
}
SINTER_DECL std::string ModelWriter::extent(Dim dim) {
  if (dim.is_static()) return integers({dim.value()});
  const std::string text = dim.text();
  const auto found = known_.find("extent " + text);
  if (found != known_.end()) return found->second;
  std::string_view rest = text;
  std::string made = dim_text(rest);
  known_.emplace("extent " + text, made);
  return made;
}
SINTER_DECL std::string ModelWriter::extents(std::span<const Dim> dims) {
  std::vector<std::int64_t> numbers;
  for (const Dim dim : dims)
    if (dim.is_static()) numbers.push_back(dim.value());
  if (numbers.size() == dims.size()) return integers(numbers);
  std::vector<std::string> parts;
  for (const Dim dim : dims) parts.push_back(extent(dim));
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", 0}});
}

// ---- the file

SINTER_DECL void ModelWriter::set_input(std::size_t position, std::string name, bool is_given) {
  if (inputs_.size() <= position) inputs_.resize(position + 1);
  inputs_[position] = name;
  if (is_given) given_.push_back({std::move(name), graph_.type(graph_.inputs()[position])});
}
/// An output of its own: a value may be an input, a constant, or several outputs.
SINTER_DECL void ModelWriter::set_output(const std::string& name, const std::string& value, const Type& type) {
  nodes_.push_back({"Identity", {value}, {name}, {}});
  outputs_.push_back({name, type});
}

SINTER_DECL void ModelWriter::drop_unused() {
  std::set<std::string> used;
  for (const OutValue& output : outputs_) used.insert(output.name);
  std::vector<OutNode> kept;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(),
                     [&](const std::string& name) { return used.contains(name); }))
      continue;
    used.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  nodes_.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(tensors_, [&](const OutTensor& tensor) { return !used.contains(tensor.name); });
}

SINTER_DECL WireWriter ModelWriter::value_info(const OutValue& value) const {
  WireWriter shape;
  for (const Dim extent : value.type.shape) {
    WireWriter dim;
    if (extent.is_static()) dim.integer(1, extent.value());
    else dim.text(2, extent.text());
    shape.message(1, dim);
  }
  WireWriter tensor_type, type, out;
  tensor_type.integer(1, code_of(value.type.dtype));
  tensor_type.message(2, shape);
  type.message(1, tensor_type);
  out.text(1, value.name);
  out.message(2, type);
  return out;
}
SINTER_DECL WireWriter ModelWriter::tensor(const OutTensor& tensor) const {
  WireWriter out;
  for (const std::int64_t extent : tensor.shape) out.integer(1, extent);
  out.integer(2, code_of(tensor.dtype));
  out.text(8, tensor.name);
  return out;
}
SINTER_DECL WireWriter ModelWriter::node_bytes(const OutNode& node) const {
  WireWriter out;
  for (const std::string& input : node.inputs) out.text(1, input);
  for (const std::string& output : node.outputs) out.text(2, output);
  out.text(4, node.op);
  for (const OutAttribute& attribute : node.attributes) out.message(5, attribute.bytes);
  return out;
}

inline WireWriter entry_bytes(std::string_view key, std::string_view value) {
  WireWriter out;
  out.text(1, key);
  out.text(2, value);
  return out;
}

SINTER_DECL void ModelWriter::write(const std::string& path, bool is_external, Location where) {
  drop_unused();
  std::uint64_t all = 0;
  for (const OutTensor& tensor : tensors_) all += tensor.data().size();
  is_external |= all > most_inside;
  const std::string data_path = path + ".data";
  const auto slash = data_path.find_last_of('/');
  const std::string data_name = slash == std::string::npos ? data_path : data_path.substr(slash + 1);

  WireWriter graph;
  for (const OutNode& node : nodes_) graph.message(1, node_bytes(node));
  graph.text(2, "main");
  std::optional<AtomicFile> beside;
  for (const OutTensor& each : tensors_) {
    WireWriter bytes = tensor(each);
    const std::string_view data = each.data();
    if (is_external && data.size() >= least_outside) {
      if (!beside) beside.emplace(data_path, "export_onnx", where);
      beside->write(std::string((outside_alignment - beside->written() % outside_alignment) % outside_alignment, '\0'));
      bytes.message(13, entry_bytes("location", data_name));
      bytes.message(13, entry_bytes("offset", std::to_string(beside->written())));
      bytes.message(13, entry_bytes("length", std::to_string(data.size())));
      bytes.integer(14, 1);
      beside->write(data);
    } else {
      bytes.text(9, data);
    }
    graph.message(5, bytes);
  }
  for (const OutValue& input : given_) graph.message(11, value_info(input));
  for (const OutValue& output : outputs_) graph.message(12, value_info(output));

  WireWriter opset, model;
  opset.text(1, "");
  opset.integer(2, written_opset);
  model.integer(1, written_ir);
  model.text(2, "sinter");
  model.text(3, SINTER_VERSION_STRING);
  model.message(7, graph);
  model.message(8, opset);
  AtomicFile file(path, "export_onnx", where);
  file.write(model.bytes());
  if (beside) beside->commit();  // first: a model without its data is of no use
  file.commit();
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
