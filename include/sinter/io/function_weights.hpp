// Weights of compiled functions, in their file or in one of safetensors. The file is not trusted.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/io/function_bytes.hpp>
#include <sinter/io/function_reader.hpp>
#include <sinter/io/safetensors.hpp>
#include <sinter/io/tensors.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

/// The weights of a file: the table, and what it says as values, made when they are asked for.
class WeightReader {
 public:
  WeightReader(Source source, std::uint64_t begin, std::uint64_t size, ReadChoices choices)
      : source_(std::move(source)), begin_(begin), size_(size), choices_(std::move(choices)) {}

  void read_table(ByteReader& from, std::string stored) {
    file_ = std::move(stored);
    for (std::size_t left = from.count(); left > 0; --left) {
      Weight& weight = weights_.emplace_back();
      weight.type = from.type();
      if (!weight.type.shape.is_static()) from.fail("a weight whose extents are symbols");
      weight.reference = std::string(from.text());
      if (!weight.reference.empty() && file_.empty()) from.fail("a weight of another file, and none is named");
      if (weight.reference.empty()) read_place(from, weight);
    }
  }
  std::size_t size() const { return weights_.size(); }
  const Type& type(std::int32_t i) const { return weights_[as_index(i)].type; }

  const Ref<TensorImpl>& value(std::int32_t i) {
    Weight& weight = weights_[as_index(i)];
    if (weight.value.get() == nullptr)
      weight.value = weight.reference.empty() ? here(weight) : elsewhere(weight.type, weight.reference);
    return weight.value;
  }
  /// Of a Variable: what has its name in the file that the caller chose, wherever it was when it was saved.
  Ref<TensorImpl> value_of(const std::string& variable, std::int32_t i) {
    if (choices_.weights.empty() || !others().contains(variable)) return value(i);
    return elsewhere(type(i), variable);
  }
  /// A file that was chosen and has nothing is a mistake.
  void check_chosen() {
    if (choices_.weights.empty()) return;
    static_cast<void>(others());
    if (!uses_other_)
      throw IoError("load", source_.file->path(),
                    "no weight of " + choices_.weights + " has the name of one of its own", source_.where,
                    "name weights as FunctionFile::variables() does, or set them with io::load_state_dict and renames");
  }

 private:
  struct Weight {
    Type type;
    Strides strides{};
    std::uint64_t place = 0, bytes = 0, sum = 0;
    std::string reference;
    Ref<TensorImpl> value;
  };

  void read_place(ByteReader& from, Weight& weight) {
    const Shape& shape = weight.type.shape;
    constexpr auto most = std::uint64_t{1} << 60;
    std::uint64_t last = 0, elements = 1;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const std::int64_t stride = from.integer(), extent = shape[axis].value();
      if (stride < 0 || stride > std::int64_t{1} << 60) from.fail("a stride of " + std::to_string(stride));
      weight.strides[as_index(axis)] = stride;
      const auto count = static_cast<std::uint64_t>(extent), step = static_cast<std::uint64_t>(stride);
      if (extent != 0 && elements > most / count) from.fail("a weight of more than 2^60 elements");
      elements *= count;
      if (extent < 2 || step == 0) continue;
      if (count - 1 > (most - last) / step) from.fail("a weight of more than 2^60 elements");
      last += (count - 1) * step;
    }
    weight.place = from.number();
    weight.sum = from.word();
    weight.bytes = elements == 0 ? 0 : (last + 1) * static_cast<std::uint64_t>(size_of(weight.type.dtype));
    if (weight.place % weight_alignment != 0) from.fail("a weight at place " + std::to_string(weight.place));
    if (weight.place > size_ || weight.bytes > size_ - weight.place)
      from.fail("a weight of " + std::to_string(weight.bytes) + " bytes at place " + std::to_string(weight.place) +
                ", of " + std::to_string(size_) + " bytes of weights");
    // What is broadcast takes no more memory than it has: values of a graph must be as large as their shape.
  }

  Ref<TensorImpl> here(const Weight& weight) const {
    const std::string_view data = source_.text(begin_ + weight.place, weight.bytes);
    if (choices_.checks_weights && checksum(std::as_bytes(std::span(data.data(), data.size()))) != weight.sum)
      source_.fail(begin_ + weight.place, "the checksum of a weight does not fit",
                   "the file is damaged: save it again");
    if (weight.type.dtype == DType::bool_)
      for (std::size_t i = 0; i < data.size(); ++i)
        if (static_cast<unsigned char>(data[i]) > 1)
          source_.fail(begin_ + weight.place + i, "a bool that is neither 0 nor 1");
    const Type on_host{weight.type.dtype, Device::cpu(), weight.type.shape};
    Ref<Storage> storage = weight.bytes == 0 ? Storage::allocate(0)
                                             : Storage::wrap(const_cast<char*>(data.data()), data.size(), source_.file);
    return on_device(TensorImpl::make_ready(on_host, std::move(storage), 0, &weight.strides), weight.type.device);
  }
  Ref<TensorImpl> on_device(Ref<TensorImpl> value, Device device) const {
    if (device == Device::cpu()) return value;
    Ref<TensorImpl> moved = Tensor(std::move(value)).to(device, source_.where).impl();
    TensorImpl* raw = moved.get();
    evaluate({&raw, 1}, "load", source_.where);
    return moved;
  }
  const TensorMap& others() {
    if (others_) return *others_;
    const std::string& path = source_.file->path();
    if (choices_.weights.empty() && file_.find('/') != std::string::npos)
      throw IoError("load", path, "its weights are in a file of another folder, " + file_, source_.where,
                    "name it, if it is to be trusted: jit::load<...>(path, {.weights = ...}); without that weights are "
                    "taken from the same folder only");
    other_ = choices_.weights.empty() ? path.substr(0, path.find_last_of('/') + 1) + file_ : choices_.weights;
    others_ = load_safetensors(other_, source_.where);
    return *others_;
  }
  Ref<TensorImpl> elsewhere(const Type& type, const std::string& name) {
    const auto found = others().find(name);
    const std::string& path = source_.file->path();
    if (found == others().end())
      throw IoError("load", path, "the weight '" + name + "' is not in " + other_, source_.where,
                    "name the right file: jit::load<...>(path, {.weights = ...})");
    Ref<TensorImpl> value = host_value(In(found->second, source_.where), "load");
    if (value->type.dtype != type.dtype || !identical(value->type.shape, type.shape))
      throw IoError("load", path,
                    "the weight '" + name + "' of " + other_ + " is " + value->type.text() + ", and was " +
                        type.text() + " when the function was saved",
                    source_.where, "give it the dtype and shape that the function was compiled for");
    uses_other_ = true;
    return on_device(std::move(value), type.device);
  }

  Source source_;
  std::uint64_t begin_, size_;
  ReadChoices choices_;
  std::string file_;
  std::vector<Weight> weights_;
  std::string other_;  // the path of
  std::optional<TensorMap> others_;
  bool uses_other_ = false;
};

}  // namespace io::io_detail
SINTER_NAMESPACE_END
