// An archive of one pickle and a file for each storage.
#pragma once

#include <sinter/io/pytorch.hpp>

#include <sinter/io/pickle.hpp>
#include <sinter/io/zip.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {
namespace io_detail {

class TorchReader {
 public:
  explicit TorchReader(const Source& source) : source_(source) {
    constexpr std::string_view pickle = "/data.pkl";
    for (ZipEntry& entry : read_zip(source)) {
      if (entry.is_compressed) source.fail(entry.offset, "\"" + entry.name + "\" is compressed");
      if (entry.name.ends_with(pickle)) folder_ = entry.name.substr(0, entry.name.size() - pickle.size());
      std::string name = entry.name;
      entries_.insert_or_assign(std::move(name), std::move(entry));
    }
    const ZipEntry& data = entry(folder_ + std::string(pickle));
    pickle_at_ = data.offset;
    if (const auto order = entries_.find(folder_ + "/byteorder");
        order != entries_.end() && source.text(order->second.offset, order->second.bytes) != "little")
      source.fail(order->second.offset, "the data are big-endian", "save it on another machine");
    pickle_ = read_pickle(source, data.offset, data.bytes);
  }

  TensorMap read() {
    collect(*pickle_.root, {}, 0);
    return std::move(tensors_);
  }

 private:
  using Kind = PickleItem::Kind;
  static constexpr int most_levels = 64, most_visits = 1 << 22;
  static constexpr std::uint64_t largest_expanded = std::uint64_t{1} << 28;  // bytes of a view larger than its storage

  [[noreturn]] void fail(std::string_view what) const { source_.fail(pickle_at_, what); }
  const ZipEntry& entry(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end())
      source_.fail(0, "the archive holds no \"" + name + "\"", "only files of torch.save are read here");
    return found->second;
  }

  void collect(const PickleItem& item, const std::string& name, int level) {
    if (level == most_levels || ++visits_ == most_visits) fail("the containers are nested without an end");
    const auto below = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
    if (item.kind == Kind::call) {
      if (!tensors_.emplace(name, tensor_of(item, 0)).second) fail("two tensors have the name \"" + name + "\"");
    } else if (item.kind == Kind::list) {
      for (std::size_t i = 0; i < item.parts.size(); ++i) collect(*item.parts[i], below(std::to_string(i)), level + 1);
    } else if (item.kind == Kind::dict) {
      for (std::size_t i = 0; i < item.parts.size(); i += 2) {
        const PickleItem& key = *item.parts[i];
        if (key.kind != Kind::text && key.kind != Kind::integer) fail("a key of a dict is neither text nor a number");
        collect(*item.parts[i + 1], below(key.kind == Kind::text ? key.text : std::to_string(key.integer)), level + 1);
      }
    } else if (item.kind == Kind::global || item.kind == Kind::persistent) {
      fail("\"" + name + "\" is " + (item.kind == Kind::global ? item.text : std::string("a storage")) + ", no tensor");
    }
  }

  const PickleItem& argument(const PickleItem& arguments, std::size_t i, Kind kind) const {
    if (i >= arguments.parts.size() || arguments.parts[i]->kind != kind) fail("a tensor with wrong arguments");
    return *arguments.parts[i];
  }
  std::vector<std::int64_t> integers(const PickleItem& list) const {
    std::vector<std::int64_t> out;
    for (std::size_t i = 0; i < list.parts.size(); ++i) {
      out.push_back(argument(list, i, Kind::integer).integer);
      if (out.back() < 0) fail("a negative extent or stride");
    }
    return out;
  }
  /// _rebuild_tensor_v2(storage, offset, shape, strides, ...); _rebuild_tensor_v3 the same, with a dtype as argument 6;
  /// _rebuild_parameter(tensor, ...).
  Tensor tensor_of(const PickleItem& call, int level) const {
    const PickleItem& arguments = *call.parts[1];
    if (level == most_levels) fail("parameters of parameters without an end");
    if (call.parts[0]->text.ends_with("_rebuild_parameter"))
      return tensor_of(argument(arguments, 0, Kind::call), level + 1);
    const PickleItem& id = argument(argument(arguments, 0, Kind::persistent), 0, Kind::list);
    if (argument(id, 0, Kind::text).text != "storage") fail("a persistent object that is no storage");
    const bool names_dtype = call.parts[0]->text.ends_with("_rebuild_tensor_v3");
    const DType dtype = names_dtype ? dtype_of(argument(arguments, 6, Kind::global).text, without_storage)
                                    : dtype_of(argument(id, 1, Kind::global).text, of_storage);
    const ZipEntry& data = entry(folder_ + "/data/" + argument(id, 2, Kind::text).text);
    const auto first = static_cast<std::uint64_t>(argument(arguments, 1, Kind::integer).integer);
    return view(data, dtype, first, integers(argument(arguments, 2, Kind::list)),
                integers(argument(arguments, 3, Kind::list)));
  }
  static std::string_view of_storage(const DTypeRow& known) { return known.torch_storage; }
  /// PyTorch names the dtype itself where there is no storage of it, and writes no complex numbers so.
  static std::string_view without_storage(const DTypeRow& known) {
    return known.torch_storage.empty() && !is_complex(known.dtype) ? known.torch : std::string_view();
  }
  /// The dtype that is called so: "torch HalfStorage", "torch uint16".
  DType dtype_of(std::string_view global, std::string_view (*name_of)(const DTypeRow&)) const {
    constexpr std::string_view prefix = "torch ";
    for (const DTypeRow& known : dtype_rows)
      if (global.starts_with(prefix) && !name_of(known).empty() && name_of(known) == global.substr(prefix.size()))
        return known.dtype;
    fail("a storage of " + std::string(global) + ", which Tensors do not have");
  }

  Tensor view(const ZipEntry& data, DType dtype, std::uint64_t first, const std::vector<std::int64_t>& shape,
              const std::vector<std::int64_t>& strides) const {
    const auto width = static_cast<std::uint64_t>(size_of(dtype)), available = data.bytes / width;
    const std::uint64_t count = bytes_of(source_, data.offset, dtype, shape) / width;
    if (strides.size() != shape.size()) fail("a tensor with more strides than axes, or fewer");
    if (count == 0) return tensor_at(source_, data.offset, dtype, shape);
    if (count > std::max(available, largest_expanded / width) || first >= available)
      source_.fail(data.offset, "a tensor of " + std::to_string(count) + " elements from element " +
                                    std::to_string(first) + " on of " + std::to_string(available));
    std::uint64_t last = first, dense = 1;
    bool is_dense = true;
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (shape[i] == 1) continue;
      const auto stride = static_cast<std::uint64_t>(strides[i]), steps = static_cast<std::uint64_t>(shape[i] - 1);
      if (stride > (available - 1 - last) / steps) source_.fail(data.offset, "a tensor reaches beyond its storage");
      last += stride * steps;
      is_dense = is_dense && stride == dense;
      dense *= static_cast<std::uint64_t>(shape[i]);
    }
    if (is_dense) return tensor_at(source_, data.offset + first * width, dtype, shape);
    copied_ += count * width;  // one view may be named again and again
    if (copied_ > largest_expanded + 4 * source_.size()) fail("views of more than four times the file");
    return gathered(data, dtype, first, count, shape, strides);
  }
  /// A copy, row-major. All of its elements lie in the storage.
  Tensor gathered(const ZipEntry& data, DType dtype, std::uint64_t first, std::uint64_t count,
                  const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) const {
    const std::string_view from = source_.text(data.offset, data.bytes);
    const auto width = static_cast<std::size_t>(size_of(dtype));
    std::string to;
    to.reserve(static_cast<std::size_t>(count) * width);
    std::vector<std::int64_t> place(shape.size(), 0);
    std::int64_t at = static_cast<std::int64_t>(first);
    for (std::uint64_t i = 0; i < count; ++i) {
      to.append(from.substr(as_index(at) * width, width));
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        if (shape[axis] == 1) continue;
        at += strides[axis];
        if (++place[axis] < shape[axis]) break;
        at -= strides[axis] * shape[axis];
        place[axis] = 0;
      }
    }
    if (dtype == DType::bool_)
      for (const char value : to)
        if (static_cast<unsigned char>(value) > 1) source_.fail(data.offset, "a bool that is neither 0 nor 1");
    return copied_tensor(source_, to, dtype, shape);
  }

  const Source& source_;
  std::map<std::string, ZipEntry> entries_;
  std::string folder_;
  std::uint64_t pickle_at_ = 0;
  Pickle pickle_;
  TensorMap tensors_;
  int visits_ = 0;
  mutable std::uint64_t copied_ = 0;
};

}  // namespace io_detail

SINTER_DECL TensorMap load_pytorch(const std::string& path, Location where) {
  const io_detail::Source source{MappedFile::open(path, "load_pytorch", where), "load_pytorch", where};
  return io_detail::TorchReader(source).read();
}

}  // namespace io
SINTER_NAMESPACE_END
