// Operands and the call of a node.
#pragma once

#include <sinter/io/onnx/node_call.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/by_name.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/io/onnx/elementwise.hpp>
#include <sinter/io/onnx/indexing.hpp>
#include <sinter/io/onnx/layers.hpp>
#include <sinter/io/onnx/resample.hpp>
#include <sinter/io/onnx/sequence.hpp>
#include <sinter/io/onnx/shapes.hpp>
#include <sinter/io/onnx/windows.hpp>
#include <sinter/jit/trace/trace.hpp>

#include <algorithm>
#include <array>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

SINTER_DECL bool are_small(const std::vector<Dim>& integers) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return std::all_of(integers.begin(), integers.end(),
                     [](Dim dim) { return !dim.is_static() || (dim.value() >= -most - 1 && dim.value() <= most); });
}
SINTER_DECL Operand Operand::of_integers(std::vector<Dim> integers, bool is_scalar, DType dtype) {
  Operand out;
  out.integers_ = std::move(integers);
  out.is_scalar_ = is_scalar;
  out.dtype_ = dtype;
  return out;
}
/// Of other dtypes, and of great numbers, the Tensor alone behaves as the dtype does.
SINTER_DECL Operand Operand::of_file(const FileTensor& tensor) {
  Operand out(tensor.value);
  out.is_scalar_ = tensor.value.rank() == 0;
  out.dtype_ = tensor.value.dtype();
  if (tensor.value.rank() > 1) return out;
  out.reals_ = tensor.reals;
  if (!tensor.integers) return out;
  std::vector<Dim> numbers;
  for (const std::int64_t number : *tensor.integers) numbers.push_back(Dim(number));
  const bool is_counted = out.dtype_ == DType::i64 || out.dtype_ == DType::i32 || out.dtype_ == DType::bool_;
  (is_counted && are_small(numbers) ? out.integers_ : out.bounds_) = std::move(numbers);
  return out;
}

SINTER_DECL Operand Operand::with_bounds(Tensor value, std::vector<Dim> bounds) {
  Operand out(std::move(value));
  out.is_scalar_ = out.tensor_->rank() == 0;
  out.dtype_ = out.tensor_->dtype();
  out.bounds_ = std::move(bounds);
  return out;
}

SINTER_DECL Shape Operand::shape() const {
  if (tensor_) return tensor_->shape();
  return is_scalar_ ? Shape() : Shape{Dim(integers_->size())};
}
/// Kept only where no symbol is in it: a Tensor of one trace is of no use in another.
SINTER_DECL const Tensor& Operand::tensor(Location where) const {
  if (tensor_) return *tensor_;
  const Shape shape = is_scalar_ ? Shape() : Shape{Dim(integers_->size())};
  Tensor made;
  if (std::all_of(integers_->begin(), integers_->end(), [](Dim dim) { return dim.is_static(); })) {
    std::vector<std::int64_t> numbers;
    for (const Dim dim : *integers_) numbers.push_back(dim.value());
    made = adopt(std::move(numbers), shape, where);
  } else {
    std::vector<Tensor> parts;
    for (const Dim dim : *integers_) parts.push_back(Tensor(Scalar(dim)).to(DType::i64, where));
    made = is_scalar_ ? parts[0] : stack(parts, 0, where);
  }
  tensor_ = dtype_ == DType::i64 ? made : made.to(dtype_, where);
  return *tensor_;
}

/// The elements now. In a trace each is a guard on its value.
template <class T>
std::vector<T> read(const NodeCall& call, const Tensor& x) {
  if (!jit::is_compiling()) return to_vector<T>(call.in(x));
  constexpr std::int64_t most_guards = 64;
  const auto count = static_cast<std::int64_t>(x.numel());
  if (count > most_guards)
    call.fail(std::to_string(count) + " values are read to compile it", "make them constants of the model");
  const Tensor list = reshape(call.in(x), Shape{Dim(count)});
  std::vector<T> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(item<T>(call.in(reshape(call.in(list(slice(i, i + 1))), {}))));
  return out;
}

SINTER_DECL const Operand& NodeCall::operand(std::size_t i) const {
  if (!has(i)) fail("operand " + std::to_string(i) + " is missing");
  return operands_[i];
}
SINTER_DECL std::vector<Dim> NodeCall::dims(std::size_t i) const {
  const Operand& from = operand(i);
  if (from.rank() > 1) fail("operand " + std::to_string(i) + " is " + from.shape().text() + ", no list of integers");
  if (const std::vector<Dim>* known = from.bounds()) return *known;
  std::vector<Dim> dims;
  for (const std::int64_t number : read<std::int64_t>(*this, x(i).to(DType::i64, where()))) dims.push_back(Dim(number));
  return dims;
}
/// Symbolic ones are read: then the call is for these sizes alone.
SINTER_DECL std::vector<std::int64_t> NodeCall::integers(std::size_t i) const {
  std::vector<std::int64_t> out;
  for (const Dim dim : dims(i)) out.push_back(static_cast<std::int64_t>(dim));
  return out;
}
SINTER_DECL std::vector<double> NodeCall::reals(std::size_t i) const {
  const Operand& from = operand(i);
  if (const std::vector<double>* known = from.reals()) return *known;
  if (from.bounds() == nullptr) return read<double>(*this, x(i).to(DType::f64, where()));
  std::vector<double> out;
  for (const std::int64_t number : integers(i)) out.push_back(static_cast<double>(number));
  return out;
}
SINTER_DECL Dim NodeCall::dim(std::size_t i) const {
  const std::vector<Dim> list = dims(i);
  if (list.size() != 1)
    fail("operand " + std::to_string(i) + " has " + std::to_string(list.size()) + " elements, not 1");
  return list[0];
}
SINTER_DECL double NodeCall::real(std::size_t i) const {
  const std::vector<double> list = reals(i);
  if (list.size() != 1)
    fail("operand " + std::to_string(i) + " has " + std::to_string(list.size()) + " elements, not 1");
  return list[0];
}
SINTER_DECL std::int64_t NodeCall::integer(std::size_t i) const {
  const std::vector<std::int64_t> list = integers(i);
  if (list.size() != 1)
    fail("operand " + std::to_string(i) + " has " + std::to_string(list.size()) + " elements, not 1");
  return list[0];
}

SINTER_DECL const FileAttribute* NodeCall::find(std::string_view name) const {
  for (const FileAttribute& attribute : attributes_)
    if (attribute.name == name) return &attribute;
  return nullptr;
}
SINTER_DECL const FileAttribute* NodeCall::find(std::string_view name, FileAttribute::Kind kind) const {
  const FileAttribute* found = find(name);
  if (found != nullptr && found->kind != kind) fail("attribute '" + std::string(name) + "' is of another kind");
  return found;
}
SINTER_DECL std::int64_t NodeCall::integer(std::string_view name, std::int64_t otherwise) const {
  const FileAttribute* found = find(name, FileAttribute::Kind::integer);
  return found == nullptr ? otherwise : found->integer;
}
SINTER_DECL double NodeCall::real(std::string_view name, double otherwise) const {
  const FileAttribute* found = find(name, FileAttribute::Kind::real);
  return found == nullptr ? otherwise : found->real;
}
SINTER_DECL std::string NodeCall::text(std::string_view name, std::string_view otherwise) const {
  const FileAttribute* found = find(name, FileAttribute::Kind::text);
  return found == nullptr ? std::string(otherwise) : found->text;
}
SINTER_DECL std::vector<std::int64_t> NodeCall::integers(std::string_view name) const {
  const FileAttribute* found = find(name, FileAttribute::Kind::integers);
  return found == nullptr ? std::vector<std::int64_t>() : found->integers;
}
SINTER_DECL std::vector<double> NodeCall::reals(std::string_view name) const {
  const FileAttribute* found = find(name, FileAttribute::Kind::reals);
  return found == nullptr ? std::vector<double>() : found->reals;
}
SINTER_DECL std::vector<std::string> NodeCall::texts(std::string_view name) const {
  const FileAttribute* found = find(name, FileAttribute::Kind::texts);
  return found == nullptr ? std::vector<std::string>() : found->texts;
}
SINTER_DECL const FileTensor* NodeCall::tensor(std::string_view name) const {
  const FileAttribute* found = find(name, FileAttribute::Kind::tensor);
  return found == nullptr ? nullptr : found->tensor.get();
}
SINTER_DECL const FileGraph& NodeCall::graph(std::string_view name) const {
  const FileAttribute* found = find(name, FileAttribute::Kind::graph);
  if (found == nullptr || found->graph == nullptr) fail("there is no graph '" + std::string(name) + "'");
  return *found->graph;
}
SINTER_DECL DType NodeCall::dtype(std::string_view name, DType otherwise) const {
  const std::int64_t code = integer(name, 0);
  if (code == 0) return otherwise;
  if (const auto dtype = dtype_of_code(code)) return *dtype;
  fail("the result is of " + code_name(code) + ", which Tensors do not have");
}

SINTER_DECL std::optional<std::vector<std::int64_t>> NodeCall::integers(std::string_view name, std::size_t i) const {
  if (has(i)) return integers(i);
  if (has_attribute(name)) return integers(name);
  return {};
}
SINTER_DECL int NodeCall::axis(std::int64_t given, int rank) const {
  if (given < -rank || given >= rank)
    throw IndexError("load_onnx",
                     around_.path + ": " + node_.text() + ": axis " + std::to_string(given) + " of a tensor of rank " +
                         std::to_string(rank),
                     where());
  return static_cast<int>(given < 0 ? given + rank : given);
}
SINTER_DECL std::vector<int> NodeCall::axes(const std::vector<std::int64_t>& given, int rank) const {
  std::vector<int> out;
  for (const std::int64_t number : given) out.push_back(axis(number, rank));
  return out;
}

SINTER_DECL Tensor NodeCall::make(std::string_view name, std::initializer_list<In> inputs,
                                  std::string_view attributes) const {
  return call(name, inputs, attributes, where())[0];
}

SINTER_DECL void NodeCall::fail(const std::string& what, std::string_view fix) const {
  throw UserError("load_onnx", around_.path + ": " + node_.text() + ": " + what, where(), fix);
}

SINTER_DECL Tensor less_zero_point(const NodeCall& call, std::size_t x, std::size_t zero_point, int axis) {
  const Tensor wide = call.x(x).to(DType::i32, call.where());
  if (!call.has(zero_point)) return wide;
  Tensor zero = call.x(zero_point).to(DType::i32, call.where());
  if (zero.rank() == 1 && wide.rank() > 1) {
    Shape along;
    for (int i = 0; i < wide.rank(); ++i) along.push_back(i == axis ? zero.shape()[0] : Dim(1));
    zero = reshape(call.in(zero), along);
  }
  return call.make("sub", {call.in(wide), call.in(zero)});
}
SINTER_DECL OperatorFunction find_operator(std::string_view name) {
  for (const auto operators : {elementwise_operators(), reduction_operators(), shape_operators(), indexing_operators(),
                               layer_operators(), window_operators(), resample_operators(), sequence_operators()})
    for (const Operator& known : operators)
      if (known.name == name) return known.run;
  return nullptr;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
