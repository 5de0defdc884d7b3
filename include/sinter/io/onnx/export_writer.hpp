// A model while it is written: nodes and initializers by name, and extents as values. Included by .ipp files alone.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/io/onnx/wire.hpp>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

/// An attribute of a node that is written.
struct OutAttribute {
  OutAttribute(std::string_view name, std::int64_t value);
  OutAttribute(std::string_view name, int value) : OutAttribute(name, std::int64_t{value}) {}
  OutAttribute(std::string_view name, double value);
  OutAttribute(std::string_view name, std::string_view value);
  OutAttribute(std::string_view name, const char* value) : OutAttribute(name, std::string_view(value)) {}
  OutAttribute(std::string_view name, std::span<const std::int64_t> values);
  WireWriter bytes;
};
struct OutNode {
  std::string op;
  std::vector<std::string> inputs, outputs;
  std::vector<OutAttribute> attributes;
};
struct OutTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::string bytes;  // or
  Tensor held{};      // the bytes of this one
  std::string_view data() const;
};
struct OutValue {
  std::string name;
  Type type;
};

class ModelWriter {
 public:
  explicit ModelWriter(const Graph& graph) : graph_(graph) {}

  /// Adds a node and gives its outputs, or the only one.
  std::vector<std::string> nodes(std::string_view op, std::vector<std::string> inputs, std::size_t outputs,
                                 std::vector<OutAttribute> attributes = {});
  std::string node(std::string_view op, std::vector<std::string> inputs, std::vector<OutAttribute> attributes = {}) {
    return nodes(op, std::move(inputs), 1, std::move(attributes))[0];
  }
  /// Constants, each of which is written once.
  std::string integers(std::span<const std::int64_t> values);
  std::string integers(std::initializer_list<std::int64_t> values) {
    return integers(std::span<const std::int64_t>(values.begin(), values.size()));
  }
  std::string number(double value, DType dtype);
  std::string whole_number(std::int64_t value, DType dtype);
  std::string bools(const std::vector<bool>& values, const std::vector<std::int64_t>& shape);
  std::string weight(const Tensor& value, std::string name = {});
  std::string cast(const std::string& value, DType from, DType to);

  /// Extents as a list of integers, and one as a list of one.
  std::string extents(std::span<const Dim> dims);
  std::string extent(Dim dim);

  /// What windows were taken of, for those who take their maximum or their sum.
  void note_windows(const std::string& windows, const std::string& operand) { windows_.emplace(windows, operand); }
  std::string operand_of(const std::string& windows) const { return windows_.at(windows); }

  std::string unique(const std::string& wanted);
  /// The model's inputs, and what stands for each.
  void set_input(std::size_t position, std::string name, bool is_given);
  const std::string& input(std::size_t position) const { return inputs_[position]; }
  void set_output(const std::string& name, const std::string& value, const Type& type);

  /// Writes everything that an output needs.
  void write(const std::string& path, bool is_external, Location where);

 private:
  std::string of_bytes(DType dtype, std::vector<std::int64_t> shape, std::string bytes);
  std::string dim_text(std::string_view& rest);
  std::string dim_term(std::string_view& rest);
  std::string dim_factor(std::string_view& rest);
  void drop_unused();
  WireWriter value_info(const OutValue& value) const;
  WireWriter tensor(const OutTensor& tensor) const;
  WireWriter node_bytes(const OutNode& node) const;

  const Graph& graph_;
  std::vector<OutNode> nodes_;
  std::vector<OutTensor> tensors_;
  std::vector<OutValue> given_, outputs_;
  std::vector<std::string> inputs_;
  std::map<std::string, std::string> known_;  // constants and extents
  std::map<std::string, std::string> windows_;
  std::set<std::string> names_;
  std::size_t made_ = 0;
};

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
