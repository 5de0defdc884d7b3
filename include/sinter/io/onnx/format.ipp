// From bytes to models. The numbers of fields are those of onnx.proto3.
#pragma once

#include <sinter/io/onnx/format.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/tensor/half.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {

SINTER_DECL std::string OnnxValueInfo::text() const {
  std::string out = name + ": " + std::string(sinter::name(dtype)) + (has_shape ? "[" : "");
  for (std::size_t i = 0; i < extents.size(); ++i)
    out.append(i > 0 ? ", " : "")
        .append(extents[i] >= 0      ? std::to_string(extents[i])
                : symbols[i].empty() ? "?"
                                     : symbols[i]);
  return has_shape ? out + "]" : out + " of any shape";
}

namespace onnx_detail {

SINTER_DECL int code_of(DType dtype) { return std::max<int>(row(dtype).onnx, 0); }
SINTER_DECL std::optional<DType> dtype_of_code(std::int64_t code) {
  for (const DTypeRow& known : dtype_rows)
    if (known.onnx == code && code > 0) return known.dtype;
  return {};
}
SINTER_DECL std::string code_name(std::int64_t code) {
  if (const auto dtype = dtype_of_code(code)) return std::string(name(*dtype));
  constexpr std::array<std::string_view, 25> names{
      "no dtype", "", "", "", "", "",           "", "",           "string", "",   "",       "",      "",
      "",         "", "", "", "", "f8e4m3fnuz", "", "f8e5m2fnuz", "u4",     "i4", "f4e2m1", "f8e8m0"};
  return code >= 0 && code < static_cast<std::int64_t>(names.size()) ? std::string(names[as_index(code)])
                                                                     : "dtype " + std::to_string(code);
}

SINTER_DECL std::string FileNode::text() const {
  const std::string full = domain.empty() || domain == "ai.onnx" ? op : domain + "." + op;
  return name.empty() ? outputs.empty() ? full : full + " that gives '" + outputs[0] + "'" : full + " '" + name + "'";
}

/// Numbers that shapes, axes and the like may be made of are no more than these.
inline constexpr std::uint64_t most_known_numbers = 4096;
inline constexpr int deepest_graph = 32;

template <class Stored>
std::vector<double> reals_of(std::string_view bytes) {
  std::vector<double> numbers;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Stored)) {
    const std::uint64_t bits = io_detail::read_number(bytes, at, sizeof(Stored));
    if constexpr (sizeof(Stored) == 8) numbers.push_back(std::bit_cast<double>(bits));
    else if constexpr (sizeof(Stored) == 4)
      numbers.push_back(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
    else
      numbers.push_back(
          static_cast<double>(static_cast<float>(std::bit_cast<Stored>(static_cast<std::uint16_t>(bits)))));
  }
  return numbers;
}

inline void note_numbers(FileTensor& tensor, DType dtype, std::string_view bytes) {
  const auto size = as_index(size_of(dtype));
  if (bytes.size() / size > most_known_numbers) return;
  if (dtype == DType::f32) tensor.reals = reals_of<float>(bytes);
  else if (dtype == DType::f64) tensor.reals = reals_of<double>(bytes);
  else if (dtype == DType::f16) tensor.reals = reals_of<float16>(bytes);
  else if (dtype == DType::bf16) tensor.reals = reals_of<bfloat16>(bytes);
  if (!is_integer(dtype) && dtype != DType::bool_) return;
  tensor.integers.emplace();
  for (std::size_t at = 0; at < bytes.size(); at += size)
    tensor.integers->push_back(tensor_detail::wrapped(
        static_cast<std::int64_t>(io_detail::read_number(bytes, at, static_cast<int>(size))), dtype));
}

class ModelReader {
 public:
  explicit ModelReader(const io_detail::Source& source) : source_(source) {}
  ByteRange whole() const { return {0, source_.size()}; }

  FileModel model() {
    FileModel out;
    out.path = source_.file->path();
    bool has_graph = false;
    WireReader in(source_, whole());
    while (in.next()) switch (in.field()) {
        case 2: out.producer = in.text(); break;
        case 7:
          out.graph = graph(in.range(), 0);
          has_graph = true;
          break;
        case 8: opset(in.range(), out.opset); break;
        case 14: entry(in.range(), out.metadata); break;
        case 25: out.functions.push_back(function(in.range())); break;
        default: break;
      }
    if (!has_graph) in.fail("there is no graph");
    return out;
  }

  FileTensor tensor(ByteRange range) {
    FileTensor out;
    TensorParts parts;
    WireReader in(source_, range);
    while (in.next()) switch (in.field()) {
        case 1: in.each_integer([&](std::int64_t extent) { parts.shape.push_back(extent); }); break;
        case 2: parts.code = in.integer(); break;
        case 4: in.each_float([&](float x) { append(parts, std::bit_cast<std::uint32_t>(x), 4); }); break;
        case 5: in.each_integer([&](std::int64_t x) { append(parts, static_cast<std::uint64_t>(x), 0); }); break;
        case 7:
        case 11: in.each_integer([&](std::int64_t x) { append(parts, static_cast<std::uint64_t>(x), 0); }); break;
        case 8: out.name = in.text(); break;
        case 9: parts.raw = in.range(); break;
        case 10: in.each_double([&](double x) { append(parts, std::bit_cast<std::uint64_t>(x), 8); }); break;
        case 13: entry(in.range(), parts.external); break;
        case 14: parts.is_external = in.integer() == 1; break;
        default: break;
      }
    const auto dtype = dtype_of_code(parts.code);
    if (!dtype) in.fail("tensor '" + out.name + "' is of " + code_name(parts.code) + ", which Tensors do not have");
    fill(out, *dtype, parts, range.begin);
    return out;
  }

 private:
  struct TensorParts {
    std::int64_t code = 0;
    std::vector<std::int64_t> shape{};
    std::optional<ByteRange> raw{};
    std::vector<std::uint64_t> listed{};  // bits of each element
    bool is_external = false;
    std::map<std::string, std::string> external{};
  };
  static void append(TensorParts& parts, std::uint64_t bits, int) { parts.listed.push_back(bits); }

  void fill(FileTensor& out, DType dtype, const TensorParts& parts, std::uint64_t at) {
    const std::uint64_t bytes = io_detail::bytes_of(source_, at, dtype, parts.shape);
    const auto wrong_size = [&](std::uint64_t size) {
      source_.fail(at, "tensor '" + out.name + "' has " + std::to_string(size) + " bytes, its shape asks for " +
                           std::to_string(bytes));
    };
    if (parts.is_external) return fill_from_file(out, dtype, parts, at, bytes);
    if (parts.raw) {
      if (parts.raw->size() != bytes) wrong_size(parts.raw->size());
      out.value = io_detail::tensor_at(source_, parts.raw->begin, dtype, parts.shape);
      return note_numbers(out, dtype, source_.text(parts.raw->begin, bytes));
    }
    // Complex numbers are listed part by part; everything else has an entry for each element.
    const int width = static_cast<int>(size_of(real_part_of(dtype)));
    if (parts.listed.size() != bytes / static_cast<std::uint64_t>(width))
      wrong_size(parts.listed.size() * static_cast<std::uint64_t>(width));
    std::string data;
    for (const std::uint64_t bits : parts.listed) io_detail::append_number(data, bits, width);
    out.value = io_detail::copied_tensor(source_, data, dtype, parts.shape);
    note_numbers(out, dtype, data);
  }

  /// Data beside the model: in a file of the same folder, or below it.
  void fill_from_file(FileTensor& out, DType dtype, const TensorParts& parts, std::uint64_t at, std::uint64_t bytes) {
    const auto entry_of = [&](const char* key) {
      const auto found = parts.external.find(key);
      return found == parts.external.end() ? std::string() : found->second;
    };
    const auto number_of = [&](const char* key, std::uint64_t otherwise) {
      const std::string text = entry_of(key);
      std::uint64_t number = otherwise;
      const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), number);
      const bool is_number = status == std::errc() && stop == text.data() + text.size();
      if (!is_number && !text.empty()) source_.fail(at, std::string(key) + " is '" + text + "'");
      return number;
    };
    const std::string location = entry_of("location");
    const bool leaves =
        location.empty() || location.front() == '/' || ("/" + location + "/").find("/../") != std::string::npos;
    if (leaves)
      source_.fail(at, "tensor '" + out.name + "' lies in '" + location + "', outside of the model's folder",
                   "move its data beside the model");
    const std::string& path = source_.file->path();
    const auto slash = path.find_last_of('/');
    const std::string from = slash == std::string::npos ? location : path.substr(0, slash + 1) + location;
    auto& file = files_[from];
    if (file == nullptr) file = MappedFile::open(from, source_.function, source_.where);
    const io_detail::Source data{file, source_.function, source_.where};
    const std::uint64_t offset = number_of("offset", 0);
    if (number_of("length", bytes) != bytes)
      source_.fail(at, "tensor '" + out.name + "' has " + entry_of("length") + " bytes, its shape asks for " +
                           std::to_string(bytes));
    out.value = io_detail::tensor_at(data, offset, dtype, parts.shape);
    note_numbers(out, dtype, data.text(offset, bytes));
  }

  void opset(ByteRange range, std::int64_t& version) {
    std::string domain;
    std::int64_t stated = 0;
    WireReader in(source_, range);
    while (in.next())
      if (in.field() == 1) domain = in.text();
      else if (in.field() == 2) stated = in.integer();
    if (domain.empty() || domain == "ai.onnx") version = stated;
  }
  void entry(ByteRange range, std::map<std::string, std::string>& to) {
    std::string key, value;
    WireReader in(source_, range);
    while (in.next())
      if (in.field() == 1) key = in.text();
      else if (in.field() == 2) value = in.text();
    to[key] = value;
  }

  FileGraph graph(ByteRange range, int level) {
    FileGraph out;
    WireReader in(source_, range);
    if (level > deepest_graph) in.fail("graphs within graphs, more than " + std::to_string(deepest_graph) + " deep");
    while (in.next()) switch (in.field()) {
        case 1: out.nodes.push_back(node(in.range(), level)); break;
        case 2: out.name = in.text(); break;
        case 5: out.initializers.push_back(tensor(in.range())); break;
        case 11: out.inputs.push_back(value_info(in.range())); break;
        case 12: out.outputs.push_back(value_info(in.range())); break;
        case 15: in.fail("a sparse initializer: there are no sparse Tensors"); break;
        default: break;
      }
    return out;
  }

  /// ONNX's own has two names.
  static std::string standard_domain(std::string name) { return name == "ai.onnx" ? std::string() : name; }
  FileFunction function(ByteRange range) {
    FileFunction out;
    WireReader in(source_, range);
    while (in.next()) switch (in.field()) {
        case 1: out.name = in.text(); break;
        case 4: out.inputs.push_back(in.text()); break;
        case 5: out.outputs.push_back(in.text()); break;
        case 7: out.nodes.push_back(node(in.range(), 0)); break;
        case 9: opset(in.range(), out.opset); break;
        case 10: out.domain = standard_domain(in.text()); break;
        case 11: out.defaults.push_back(attribute(in.range(), 0)); break;
        case 13: out.overload = in.text(); break;
        default: break;
      }
    return out;
  }

  FileNode node(ByteRange range, int level) {
    FileNode out;
    WireReader in(source_, range);
    while (in.next()) switch (in.field()) {
        case 1: out.inputs.push_back(in.text()); break;
        case 2: out.outputs.push_back(in.text()); break;
        case 3: out.name = in.text(); break;
        case 4: out.op = in.text(); break;
        case 5: out.attributes.push_back(attribute(in.range(), level)); break;
        case 7: out.domain = standard_domain(in.text()); break;
        case 8: out.overload = in.text(); break;
        default: break;
      }
    return out;
  }

  FileAttribute attribute(ByteRange range, int level) {
    using Kind = FileAttribute::Kind;
    FileAttribute out;
    WireReader in(source_, range);
    while (in.next()) switch (in.field()) {
        case 1: out.name = in.text(); break;
        case 2: out.kind = Kind::real, out.real = static_cast<double>(in.real()); break;
        case 3: out.kind = Kind::integer, out.integer = in.integer(); break;
        case 4: out.kind = Kind::text, out.text = in.text(); break;
        case 5: out.kind = Kind::tensor, out.tensor = std::make_shared<const FileTensor>(tensor(in.range())); break;
        case 6:
          out.kind = Kind::graph, out.graph = std::make_shared<const FileGraph>(graph(in.range(), level + 1));
          break;
        case 7:
          out.kind = Kind::reals, in.each_float([&](float x) { out.reals.push_back(static_cast<double>(x)); });
          break;
        case 8: out.kind = Kind::integers, in.each_integer([&](std::int64_t x) { out.integers.push_back(x); }); break;
        case 9: out.kind = Kind::texts, out.texts.push_back(in.text()); break;
        case 20: kind_of(out, in.integer()); break;
        case 21: out.reference = in.text(); break;
        default: break;
      }
    return out;
  }
  /// Fields at their defaults are not written: the kind that is stated counts.
  static void kind_of(FileAttribute& out, std::int64_t code) {
    using Kind = FileAttribute::Kind;
    constexpr std::array<Kind, 9> kinds{Kind::none,  Kind::real,  Kind::integer,  Kind::text, Kind::tensor,
                                        Kind::graph, Kind::reals, Kind::integers, Kind::texts};
    if (code > 0 && code < 9) out.kind = kinds[as_index(code)];
  }

  OnnxValueInfo value_info(ByteRange range) {
    OnnxValueInfo out;
    WireReader in(source_, range);
    while (in.next())
      if (in.field() == 1) out.name = in.text();
      else if (in.field() == 2) type(in.range(), out);
    return out;
  }
  void type(ByteRange range, OnnxValueInfo& out) {
    WireReader in(source_, range);
    while (in.next()) {
      if (in.field() > 9 || in.field() == 6) continue;  // the denotation
      if (in.field() != 1)
        in.fail("'" + out.name + "' is a sequence, a map or an optional value: Tensors alone are read");
      WireReader tensor_type(source_, in.range());
      while (tensor_type.next())
        if (tensor_type.field() == 1) {
          const auto dtype = dtype_of_code(tensor_type.integer());
          if (!dtype)
            in.fail("'" + out.name + "' is of " + code_name(tensor_type.integer()) + ", which Tensors do not have");
          out.dtype = *dtype;
        } else if (tensor_type.field() == 2) {
          shape(tensor_type.range(), out);
        }
    }
  }
  void shape(ByteRange range, OnnxValueInfo& out) {
    out.has_shape = true;
    WireReader in(source_, range);
    while (in.next()) {
      if (in.field() != 1) continue;
      std::int64_t extent = -1;
      std::string symbol;
      WireReader dim(source_, in.range());
      while (dim.next())
        if (dim.field() == 1) extent = dim.integer();
        else if (dim.field() == 2) symbol = dim.text();
      if (extent < -1) dim.fail("an extent of '" + out.name + "' is " + std::to_string(extent));
      out.extents.push_back(extent);
      out.symbols.push_back(std::move(symbol));
    }
    if (out.extents.size() > as_index(max_rank))
      in.fail("'" + out.name + "' has " + std::to_string(out.extents.size()) + " axes; Tensors have 8 at most");
  }

  const io_detail::Source& source_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

SINTER_DECL FileModel read_model(const std::string& path, Location where) {
  const io_detail::Source source{MappedFile::open(path, "load_onnx", where), "load_onnx", where};
  return ModelReader(source).model();
}
SINTER_DECL FileTensor read_tensor(const std::string& path, Location where) {
  const io_detail::Source source{MappedFile::open(path, "load_onnx", where), "load_onnx", where};
  ModelReader reader(source);
  return reader.tensor(reader.whole());
}

}  // namespace onnx_detail
}  // namespace io
SINTER_NAMESPACE_END
