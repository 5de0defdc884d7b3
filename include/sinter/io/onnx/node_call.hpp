// What operators of a model are given and give: operands, of which integers that shapes are made of are known while
// graphs are recorded; and the call of one node. Included by .ipp files alone.
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/io/onnx/format.hpp>

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

/// A value between nodes: a Tensor, or a number or a list of integers that are known now (extents, of which some may be
/// symbolic), which become a Tensor where somebody needs one.
class Operand {
 public:
  Operand() = default;  // one that is left out
  Operand(Tensor value) : tensor_(std::move(value)) {}
  template <class E>
    requires(std::convertible_to<E, Tensor> && !std::same_as<std::remove_cvref_t<E>, Tensor> &&
             !std::same_as<std::remove_cvref_t<E>, Operand>)
  Operand(E&& expression) : tensor_(Tensor(std::forward<E>(expression))) {}
  /// Of i64 or i32, or truth values. Numbers beyond 2^31 are known as bounds alone, so these become a Tensor.
  static Operand of_integers(std::vector<Dim> integers, bool is_scalar, DType dtype = DType::i64);
  static Operand of_file(const FileTensor& tensor);
  /// A value of which the numbers are known as bounds.
  static Operand with_bounds(Tensor value, std::vector<Dim> bounds);

  bool is_there() const { return tensor_.has_value() || integers_.has_value(); }
  const Tensor& tensor(Location where) const;
  DType dtype() const { return tensor_ ? tensor_->dtype() : dtype_; }
  Shape shape() const;
  int rank() const { return tensor_ ? tensor_->rank() : is_scalar_ ? 0 : 1; }
  /// What is known now, of rank 0 or 1; null: nothing is.
  const std::vector<Dim>* integers() const { return integers_ ? &*integers_ : nullptr; }
  /// The same with numbers of any size, each as far as a Dim goes: bounds, of which more is not asked.
  const std::vector<Dim>* bounds() const { return integers_ ? &*integers_ : bounds_ ? &*bounds_ : nullptr; }
  const std::vector<double>* reals() const { return reals_ ? &*reals_ : nullptr; }

 private:
  mutable std::optional<Tensor> tensor_{};
  std::optional<std::vector<Dim>> integers_{}, bounds_{};
  std::optional<std::vector<double>> reals_{};
  bool is_scalar_ = false;
  DType dtype_ = DType::i64;
};
using Operands = std::vector<Operand>;

/// Are all of them numbers of 32 bits, or symbolic? Then sums and products of two are what i64 has.
bool are_small(const std::vector<Dim>& integers);

/// Runs a graph that belongs to a node (the branch of an If) with what it sees from outside.
using RunGraph = std::function<Operands(const FileGraph& graph, const Operands& inputs)>;

/// One node, when it is its turn. Whatever is not as the operator wants it is a UserError that names the node.
class NodeCall {
 public:
  struct Surroundings {
    std::int64_t opset = 0;
    const std::string& path;
    Location where;
    RunGraph run;
  };
  NodeCall(const FileNode& node, std::vector<FileAttribute> attributes, Operands operands, const Surroundings& around)
      : node_(node), attributes_(std::move(attributes)), operands_(std::move(operands)), around_(around) {}

  std::string_view op() const { return node_.op; }
  std::int64_t opset() const { return around_.opset; }
  Location where() const { return around_.where; }
  std::size_t outputs() const { return node_.outputs.size(); }
  /// Does anybody want output `i`?
  bool wants(std::size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  Operands run(const FileGraph& graph, const Operands& inputs = {}) const { return around_.run(graph, inputs); }

  std::size_t count() const { return operands_.size(); }
  bool has(std::size_t i) const { return i < operands_.size() && operands_[i].is_there(); }
  const Operand& operand(std::size_t i) const;
  Tensor x(std::size_t i) const { return operand(i).tensor(where()); }
  std::optional<Tensor> optional(std::size_t i) const { return has(i) ? std::optional(x(i)) : std::nullopt; }
  /// The integers of an operand of rank 0 or 1: known ones, or those of its value, which is computed now. Of numbers
  /// beyond 2^62 the nearest Dims.
  std::vector<Dim> dims(std::size_t i) const;
  std::vector<std::int64_t> integers(std::size_t i) const;
  std::vector<double> reals(std::size_t i) const;
  /// The only one.
  Dim dim(std::size_t i) const;
  double real(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;

  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  bool flag(std::string_view name, bool otherwise = false) const { return integer(name, otherwise ? 1 : 0) != 0; }
  double real(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  const FileTensor* tensor(std::string_view name) const;
  const FileGraph& graph(std::string_view name) const;
  DType dtype(std::string_view name, DType otherwise) const;

  /// A list that old versions have as an attribute and new ones as operand `i`; none where neither is there.
  std::optional<std::vector<std::int64_t>> integers(std::string_view name, std::size_t i) const;
  /// Negative axes resolved; `rank` is that of the tensor it counts through.
  int axis(std::int64_t given, int rank) const;
  std::vector<int> axes(const std::vector<std::int64_t>& given, int rank) const;

  /// A value by an operation's name, with the line of the user's call.
  Tensor make(std::string_view name, std::initializer_list<In> inputs, std::string_view attributes = {}) const;
  In in(Tensor value) const { return In(std::move(value), where()); }
  In in(double number) const { return In(number, where()); }

  [[noreturn]] void fail(const std::string& what, std::string_view fix = {}) const;

 private:
  const FileAttribute* find(std::string_view name, FileAttribute::Kind kind) const;
  const FileAttribute* find(std::string_view name) const;

  const FileNode& node_;
  std::vector<FileAttribute> attributes_;
  Operands operands_;
  const Surroundings& around_;
};

/// Integers less their zero points, in i32. A list of zero points is along `axis`.
Tensor less_zero_point(const NodeCall& call, std::size_t x, std::size_t zero_point, int axis);

using OperatorFunction = Operands (*)(const NodeCall& call);
struct Operator {
  std::string_view name;
  OperatorFunction run;
};
/// The function of an operator, or null.
OperatorFunction find_operator(std::string_view name);

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
