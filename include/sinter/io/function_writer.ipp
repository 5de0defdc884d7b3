// Writing compiled functions.
#pragma once

#include <sinter/io/function_writer.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/io/file.ipp>  // folder_of
#include <sinter/io/function_bytes.hpp>
#include <sinter/io/safetensors.hpp>
#include <sinter/io/tensors.hpp>
#include <sinter/jit/effects/named_functions.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

/// Values that a file holds, each once. Strides are kept where the memory between the elements is little.
class WeightWriter {
 public:
  explicit WeightWriter(Location where) : where_(where) {}

  std::size_t add(const Ref<TensorImpl>& value) {
    const Key key{value->storage.get(), value->offset, value->strides, value->type.text()};
    const auto [at, is_new] = known_.emplace(key, weights_.size());
    return is_new ? add_new(value) : at->second;
  }
  /// The value of a Variable. Those that share memory now may get values of their own: nobody else refers to it.
  std::size_t add_variable(const Ref<TensorImpl>& value, const std::string& name) {
    variables_.emplace(weights_.size(), name);
    return add_new(value);
  }

  /// Refers to what an existing file holds, by bytes: a Variable to what has its name, anything else to the only one
  /// with these bits. Values that are all the same (ones, zeros) are too common to tell where they are from.
  void refer_to(const TensorMap& tensors) {
    std::map<std::string, std::vector<std::size_t>> guesses;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      Weight& weight = weights_[i];
      if (!may_refer(weight)) continue;
      if (const auto own = variables_.find(i); own != variables_.end() && tensors.contains(own->second)) {
        if (is_same(weight, tensors.at(own->second))) weight.reference = own->second;
        continue;
      }
      if (is_uniform(weight)) continue;
      std::size_t found = 0;
      for (const auto& [name, tensor] : tensors)
        if (!is_variable(name) && is_same(weight, tensor) && ++found == 1) weight.reference = name;
      if (found == 1) guesses[weight.reference].push_back(i);
      else weight.reference.clear();
    }
    for (const auto& [name, by] : guesses)  // of two Variables with these bits nobody knows which one it is
      if (by.size() > 1 && std::any_of(by.begin(), by.end(), [&](std::size_t i) { return variables_.contains(i); }))
        for (const std::size_t i : by) weights_[i].reference.clear();
  }
  /// Gives each a name in a file that is to be written, and what goes there.
  TensorMap refer_to_new() {
    TensorMap out;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (!may_refer(weights_[i])) continue;
      const auto own = variables_.find(i);
      std::string name = own != variables_.end() ? own->second : "constant." + std::to_string(i);
      while (own == variables_.end() && is_variable(name)) name += "_";
      ensure(out.emplace(name, Tensor(weights_[i].value)).second, "two weights have one name");
      weights_[i].reference = std::move(name);
    }
    return out;
  }

  /// The table; places are counted from the begin of the weights.
  void write_table(ByteWriter& to) {
    to.count(weights_.size());
    for (Weight& weight : weights_) {
      to.type(weight.type);
      to.text(weight.reference);
      if (!weight.reference.empty()) continue;
      for (int axis = 0; axis < weight.type.shape.rank(); ++axis) to.integer(weight.strides[as_index(axis)]);
      weight.place = size_;
      to.number(weight.place);
      to.word(checksum({static_cast<const std::byte*>(weight.first()), weight.bytes()}));
      size_ = (size_ + weight.bytes() + weight_alignment - 1) / weight_alignment * weight_alignment;
    }
  }
  std::uint64_t size() const { return size_; }
  void write(AtomicFile& file, std::uint64_t begin) const {
    static constexpr std::array<char, weight_alignment> zeros{};
    const auto pad_to = [&](std::uint64_t place) {
      while (file.written() < place)
        file.write(zeros.data(),
                   static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), place - file.written())));
    };
    for (const Weight& weight : weights_) {
      if (!weight.reference.empty()) continue;
      pad_to(begin + weight.place);
      file.write(weight.first(), weight.bytes());
    }
    pad_to(begin + size_);
  }

 private:
  struct Weight {
    Ref<TensorImpl> held, value;  // as given, and in host memory
    Type type;
    Strides strides{};
    std::int64_t elements = 0;
    std::uint64_t place = 0;
    std::string reference;
    const void* first() const { return elements == 0 ? nullptr : value->data(); }
    std::size_t bytes() const { return as_index(elements * size_of(type.dtype)); }
  };
  using Key = std::tuple<const Storage*, std::int64_t, Strides, std::string>;

  std::size_t add_new(const Ref<TensorImpl>& value) {
    Weight weight;
    weight.held = value;
    weight.type = value->type;
    weight.strides = dense_strides(value->type.shape);
    weight.value = value;
    const std::int64_t span = span_of(*value);
    if (value->type.device == Device::cpu() && !value->is_dense() && span >= 0 &&
        span <= 2 * value->type.shape.numel().value()) {
      weight.strides = value->strides;
      weight.elements = span;
    } else {
      weight.value = host_value(In(Tensor(value), where_), "save");
      weight.elements = value->type.shape.numel().value();
    }
    weights_.push_back(std::move(weight));
    return weights_.size() - 1;
  }
  bool is_variable(const std::string& name) const {
    return std::any_of(variables_.begin(), variables_.end(), [&](const auto& item) { return item.second == name; });
  }
  bool is_same(const Weight& weight, const Tensor& tensor) const {
    const Ref<TensorImpl> other = host_value(In(tensor, where_), "save");
    return other->type.dtype == weight.type.dtype && identical(other->type.shape, weight.type.shape) &&
           std::memcmp(other->data(), weight.value->data(), weight.bytes()) == 0;
  }
  static bool is_uniform(const Weight& weight) {
    const auto* const bytes = static_cast<const char*>(weight.value->data());
    const auto size = as_index(size_of(weight.type.dtype));
    return std::memcmp(bytes, bytes + size, weight.bytes() - size) == 0;
  }
  /// Small constants are part of the program, and stay in the file.
  static bool may_refer(const Weight& weight) {
    return weight.elements >= 16 && weight.elements == weight.type.shape.numel().value() &&
           weight.strides == dense_strides(weight.type.shape);
  }
  /// Elements from the first to the last in memory; -1: strides below zero.
  static std::int64_t span_of(const TensorImpl& value) {
    std::int64_t last = 0;
    for (int axis = 0; axis < value.type.shape.rank(); ++axis) {
      if (value.strides[as_index(axis)] < 0) return -1;
      if (value.type.shape[axis].value() == 0) return 0;
      last += (value.type.shape[axis].value() - 1) * value.strides[as_index(axis)];
    }
    return last + 1;
  }

  Location where_;
  std::vector<Weight> weights_;
  std::map<Key, std::size_t> known_;
  std::map<std::size_t, std::string> variables_;  // of weights that a Variable holds alone: its name
  std::uint64_t size_ = 0;
};

class FunctionWriter {
 public:
  FunctionWriter(ByteWriter& to, WeightWriter& weights) : to_(to), weights_(weights) {}

  void function(const jit::SavedFunction& function) {
    to_.text(function.name);
    to_.where(function.where);
    options(function.options);
    if (is_tuned(function.options.mode)) {
      to_.integer(static_cast<std::int64_t>(function.options.tune_seconds * 1e6));
      to_.text(function.tuning);
    }
    to_.count(function.versions.size());
    for (const jit::SavedVersion& version : function.versions) {
      to_.text(version.signature);
      guards(version.guards);
      to_.count(version.steps.size());
      for (const jit::SavedStep& step : version.steps) this->step(step);
    }
  }

 private:
  void options(const jit::Options& options) {
    to_.byte(static_cast<std::uint8_t>(static_cast<int>(options.mode) + (is_tuned(options.mode) ? has_tuning : 0)));
    to_.text(options.backend.name());
    to_.byte(static_cast<std::uint8_t>(options.dynamic));
    to_.byte(options.fullgraph ? 1 : 0);
    const auto digit = [](std::optional<bool> choice) { return !choice ? 0 : *choice ? 2 : 1; };
    const int fusion =
        (options.fuse ? 1 : 0) + 2 * digit(options.horizontal_fusion) + 6 * digit(options.epilogue_fusion);
    to_.byte(static_cast<std::uint8_t>(fusion));
    for (const std::int64_t number :
         {options.recompile_limit, options.max_breaks, options.max_values, options.memory_budget})
      to_.integer(number);
    to_.byte(options.matmul_precision ? 1 : 0);
    if (options.matmul_precision) to_.byte(static_cast<std::uint8_t>(*options.matmul_precision));
    to_.byte(options.allow_fallback ? 1 : 0);
    to_.byte(options.suppress_errors ? 1 : 0);
  }

  void guards(const jit::GuardSet& guards) {
    to_.count(guards.symbols.size());
    for (const jit::SymbolSource& source : guards.symbols) {
      to_.number(as_index(source.leaf));
      to_.byte(static_cast<std::uint8_t>(source.axis));
      to_.byte(source.is_stride ? 1 : 0);
      to_.integer(source.min);
      to_.integer(source.max);
      to_.integer(source.divisor);
    }
    to_.count(guards.leaves.size());
    for (const jit::LeafSpec& leaf : guards.leaves) this->leaf(leaf);
    dims(guards.dims);
  }
  void leaf(const jit::LeafSpec& leaf) {
    to_.byte(static_cast<std::uint8_t>(leaf.kind));
    if (leaf.kind == jit::LeafKind::fixed) return to_.integer(leaf.fixed);
    if (leaf.kind == jit::LeafKind::scalar) return to_.byte(static_cast<std::uint8_t>(leaf.number_kind));
    to_.type({leaf.dtype, leaf.device, Shape(std::span<const Dim>(leaf.extents.data(), leaf.rank))});
    to_.byte(leaf.is_dense ? 1 : 0);
    for (std::size_t axis = 0; axis < leaf.rank; ++axis) {
      to_.integer(leaf.strides[axis]);
      if (!leaf.is_dense) to_.dim(leaf.stride_dims[axis]);
    }
    to_.number(static_cast<std::uint64_t>(leaf.same_slot_as + 1));
  }
  void dims(const std::vector<jit::DimGuard>& dims) {
    to_.count(dims.size());
    for (const jit::DimGuard& guard : dims) {
      to_.byte(static_cast<std::uint8_t>(guard.relation));
      to_.dim(guard.lhs);
      to_.dim(guard.rhs);
      to_.byte(guard.outcome ? 1 : 0);
      to_.text(guard.op);
      to_.where(guard.where);
    }
  }

  void step(const jit::SavedStep& step) {
    graphs(step.graph);
    to_.count(step.inputs.size());
    for (const jit::SavedStep::Input& input : step.inputs) {
      to_.byte(static_cast<std::uint8_t>(input.from));
      to_.number(as_index(input.index));
    }
    dims(step.dims);
    to_.byte(step.is_end ? 1 : 0);
    if (step.is_end) return end(step);
    to_.count(step.places.size());
    for (const std::int32_t place : step.places) to_.number(as_index(place));
    to_.text(step.op);
    to_.where(step.where);
    to_.count(step.children.size());
    for (const jit::SavedStep::Child& child : step.children) {
      to_.word(child.outcome);
      to_.number(as_index(child.step));
    }
  }
  void end(const jit::SavedStep& step) {
    to_.count(step.results);
    to_.count(step.assignments.size());
    for (const jit::SavedStep::Assignment& assignment : step.assignments) {
      to_.number(static_cast<std::uint64_t>(assignment.leaf + 1));
      to_.number(static_cast<std::uint64_t>(assignment.variable + 1));
    }
    to_.count(step.shape.size());
    for (const jit::SavedPart& part : step.shape) {
      to_.byte(static_cast<std::uint8_t>(part.kind));
      if (part.kind == jit::SavedPart::Kind::fixed) to_.integer(part.number);
      if (part.kind == jit::SavedPart::Kind::extent) to_.dim(part.extent);
    }
  }

  /// The graph after its sub-graphs, each of which comes once, after its own.
  void graphs(const Graph& graph) {
    std::vector<const Graph*> order;
    list_bodies(graph, order);
    to_.count(order.size());
    std::map<const Graph*, std::size_t> number;
    for (const Graph* body : order) {
      one_graph(*body, number);
      number.emplace(body, number.size());
    }
    one_graph(graph, number);
  }
  static void list_bodies(const Graph& graph, std::vector<const Graph*>& order) {
    for (const Node& node : graph.nodes())
      for (const auto& body : node.attrs.bodies) {
        if (std::find(order.begin(), order.end(), body.get()) != order.end()) continue;
        list_bodies(*body, order);
        order.push_back(body.get());
      }
  }
  void one_graph(const Graph& graph, const std::map<const Graph*, std::size_t>& bodies) {
    to_.count(graph.nodes().size());
    for (const Node& node : graph.nodes()) this->node(node, bodies);
    values(graph.outputs());
  }
  void values(std::span<const Value> values) {
    to_.count(values.size());
    for (const Value& value : values) {
      to_.number(as_index(value.node));
      to_.number(as_index(value.result));
    }
  }
  void node(const Node& node, const std::map<const Graph*, std::size_t>& bodies) {
    to_.text(node.op->name);
    to_.where(node.where);
    if (node.op == &graph_detail::constant_op()) return to_.count(weights_.add(node.attrs.constant));
    if (node.op == &graph_detail::input_op()) {
      to_.type(node.types[0]);
      to_.text(node.attrs[input_name]);
      return;
    }
    values({node.inputs.data(), node.inputs.size()});
    to_.count(node.types.size());
    for (const Type& type : node.types) to_.type(type);
    attributes(*node.op, node.attrs);
    to_.count(node.attrs.types.size());
    for (const Type& type : node.attrs.types) to_.type(type);
    to_.text(node.attrs.payload ? jit::jit_detail::payload_name(*node.attrs.payload) : std::string());
    to_.count(node.attrs.bodies.size());
    for (const auto& body : node.attrs.bodies) to_.count(bodies.at(body.get()));
  }

  /// Those that the op declares and that are set, by name.
  void attributes(const OpInfo& op, const Attrs& attrs) {
    std::vector<const AttrInfo*> set;
    for (const AttrInfo& info : op.attributes)
      if (is_set(attrs, info)) set.push_back(&info);
    to_.count(set.size());
    for (const AttrInfo* info : set) {
      to_.text(info->name);
      attribute(attrs, *info);
    }
  }
  static bool is_set(const Attrs& attrs, const AttrInfo& info) {
    switch (info.kind) {
      case AttrKind::axes: return !attrs.axes.empty();
      case AttrKind::shape: return attrs.shape.rank() != 0;
      case AttrKind::value: return std::bit_cast<std::uint64_t>(attrs.value) != 0;
      case AttrKind::integer: return attrs.integer != 0;
      case AttrKind::dtype: return attrs.has_dtype;
      case AttrKind::device: return attrs.device != Device::cpu();
      case AttrKind::keep_dims: return attrs.keepdim;
      case AttrKind::data: return attrs.constant.get() != nullptr;
      case AttrKind::number:
      case AttrKind::real:
      case AttrKind::flag:
      case AttrKind::choice: return attrs.own.numbers[info.place] != 0;
      case AttrKind::list: return !attrs.own.lists[info.place].empty();
      case AttrKind::extents:
      case AttrKind::extent: return attrs.own.shapes[info.place].rank() != 0;
      case AttrKind::text: return !attrs.own.text.empty();
    }
    return false;
  }
  void integers(const IntVector& list) {
    to_.count(list.size());
    for (const std::int64_t item : list) to_.integer(item);
  }
  void attribute(const Attrs& attrs, const AttrInfo& info) {
    const std::int64_t bits =
        info.place < graph_detail::own_numbers ? attrs.own.numbers[info.place] ^ info.fallback : 0;
    switch (info.kind) {
      case AttrKind::axes: return integers(attrs.axes);
      case AttrKind::shape: return to_.shape(attrs.shape);
      case AttrKind::value: return to_.word(std::bit_cast<std::uint64_t>(attrs.value));
      case AttrKind::integer: return to_.integer(attrs.integer);
      case AttrKind::dtype: return to_.text(name(attrs.dtype));
      case AttrKind::device:
        to_.byte(static_cast<std::uint8_t>(attrs.device.kind));
        return to_.byte(attrs.device.index);
      case AttrKind::keep_dims: return;
      case AttrKind::data: return to_.count(weights_.add(attrs.constant));
      case AttrKind::number: return to_.integer(bits);
      case AttrKind::real: return to_.word(static_cast<std::uint64_t>(bits));
      case AttrKind::flag: return;
      case AttrKind::choice: return to_.text(info.choice_name(bits));
      case AttrKind::list: return integers(attrs.own.lists[info.place]);
      case AttrKind::extents:
      case AttrKind::extent: return to_.shape(attrs.own.shapes[info.place]);
      case AttrKind::text: return to_.text(attrs.own.text);
    }
  }

  ByteWriter& to_;
  WeightWriter& weights_;
};

/// The path without links, of a file that may not be there yet.
inline std::string whole_path(const std::string& path) {
  const auto real = [](const std::string& of) {
    const std::unique_ptr<char, void (*)(void*)> whole(::realpath(of.c_str(), nullptr), &std::free);
    return whole ? std::string(whole.get()) : std::string();
  };
  if (std::string whole = real(path); !whole.empty()) return whole;
  const std::string folder = real(folder_of(path));
  return (folder.empty() ? folder_of(path) : folder) + "/" + path.substr(path.find_last_of('/') + 1);
}

/// How a file names another: the bare name in the same folder, by which it is found, else the whole path, for people.
inline std::string reference_to(const std::string& weights, const std::string& path) {
  if (whole_path(folder_of(weights)) == whole_path(folder_of(path)))
    return weights.substr(weights.find_last_of('/') + 1);
  return whole_path(weights);
}

/// The part behind the weights: a checksum, the build that the code is of, then each key with its code.
inline std::string code_part(std::span<const runtime_detail::CodeEntry> code) {
  std::string part;
  if (code.empty()) return part;
  const auto put = [&](std::string_view text) {
    append_number(part, text.size(), 8);
    part += text;
  };
  put(runtime_detail::program_version());
  append_number(part, code.size(), 8);
  for (const runtime_detail::CodeEntry& entry : code) {
    put(entry.key);
    put(entry.value);
  }
  std::string sum;
  append_number(sum, checksum(std::as_bytes(std::span(part.data(), part.size()))), 8);
  return sum + part;
}

SINTER_DECL void write_functions(const jit::SavedBundle& bundle, const std::string& path, const WriteChoices& choices,
                                 Location where) {
  const std::string& weights = choices.weights;
  if (!weights.empty() && whole_path(weights) == whole_path(path))
    throw UserError("save", "the function and its weights are to be one file, " + path, where,
                    "name another file in SaveOptions::weights, or none: then they are in the file of the function");
  WeightWriter values(where);
  ByteWriter to;
  std::vector<std::size_t> held;
  for (const jit::SavedVariable& variable : bundle.variables) {
    held.push_back(0);
    if (variable.role != VariableSlot::PerThreadRole::none) continue;
    Ref<TensorImpl> value = variable.slot->value();
    TensorImpl* raw = value.get();
    evaluate({&raw, 1}, "save", where);
    held.back() = weights.empty() ? values.add(value) : values.add_variable(value, variable.name);
  }
  {  // a first time, to find the constants: the table of weights stands before those who use it
    ByteWriter nowhere;
    for (const jit::SavedFunction& function : bundle.functions) FunctionWriter(nowhere, values).function(function);
  }
  if (!weights.empty()) {
    const bool is_there = ::access(weights.c_str(), F_OK) == 0;
    if (is_there) values.refer_to(load_safetensors(weights, where));
    else save_safetensors(weights, values.refer_to_new(), {}, where);
  }
  to.text(SINTER_VERSION_STRING);
  to.text(weights.empty() ? weights : reference_to(weights, path));
  values.write_table(to);
  to.count(bundle.variables.size());
  for (std::size_t i = 0; i < bundle.variables.size(); ++i) {
    const jit::SavedVariable& variable = bundle.variables[i];
    to.text(variable.name);
    to.byte(static_cast<std::uint8_t>(variable.role));
    to.byte(variable.requires_grad ? 1 : 0);
    to.number(static_cast<std::uint64_t>(variable.gradient_of + 1));
    if (variable.role == VariableSlot::PerThreadRole::none) to.count(held[i]);
  }
  to.count(bundle.functions.size());
  for (const jit::SavedFunction& function : bundle.functions) FunctionWriter(to, values).function(function);
  const std::string program = to.finish();
  const std::uint64_t begin =
      (function_head + program.size() + weight_alignment - 1) / weight_alignment * weight_alignment;
  std::string head(function_magic);
  append_number(head, function_format, 8);
  append_number(head, program.size(), 8);
  append_number(head, checksum(std::as_bytes(std::span(program.data(), program.size()))), 8);
  append_number(head, begin, 8);
  append_number(head, values.size(), 8);
  const std::string code = code_part(choices.code);
  append_number(head, code.size(), 8);
  append_number(head, checksum(std::as_bytes(std::span(head.data(), head.size()))), 8);
  AtomicFile file(path, "save", where);
  file.write(head);
  file.write(program);
  values.write(file, begin);
  file.write(code);
  file.commit();
}

}  // namespace io::io_detail
SINTER_NAMESPACE_END
