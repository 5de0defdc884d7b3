// The format: 8 bytes length of the header, the header (JSON), the data without holes.
#pragma once

#include <sinter/io/safetensors.hpp>

#include <sinter/io/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {
namespace io_detail {

inline constexpr std::uint64_t largest_header = 100'000'000;  // the format's own bound
inline constexpr std::uint64_t length_bytes = 8;

/// Where a Tensor lies in the data.
struct Entry {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;
};

inline Json parse_header(const Source& source, std::uint64_t offset, std::uint64_t bytes) {
  try {
    return parse_json(source.text(offset, bytes));
  } catch (const JsonError& error) { source.fail(offset + error.offset, "the JSON is damaged: " + error.what); }
}

inline DType read_dtype(const Source& source, const std::string& name, const Json* dtype) {
  if (dtype == nullptr || dtype->kind != Json::Kind::string) source.fail(length_bytes, "\"" + name + "\" has no dtype");
  for (const DTypeRow& known : dtype_rows)
    if (!known.safetensors.empty() && known.safetensors == dtype->text) return known.dtype;
  source.fail(length_bytes, "\"" + name + "\" is of dtype " + dtype->text + ", which Tensors do not have",
              "write it in another dtype");
}

inline std::vector<std::int64_t> read_list(const Source& source, const std::string& name, const Json& object,
                                           std::string_view member) {
  std::vector<std::int64_t> list;
  const Json* array = object.find(member);
  bool holds = array != nullptr && array->kind == Json::Kind::array;
  if (holds)
    for (const Json::Part& part : array->parts) holds = part.value.read_whole(list.emplace_back()) && holds;
  if (!holds) source.fail(length_bytes, "\"" + name + "\": " + std::string(member) + " is no list of whole numbers");
  return list;
}

inline Entry read_entry(const Source& source, const std::string& name, const Json& object) {
  Entry entry{name, read_dtype(source, name, object.find("dtype")), read_list(source, name, object, "shape"), 0, 0};
  const std::vector<std::int64_t> offsets = read_list(source, name, object, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    source.fail(length_bytes, "\"" + name + "\": data_offsets are not a begin and an end");
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  if (const std::uint64_t bytes = bytes_of(source, length_bytes, entry.dtype, entry.shape);
      bytes != entry.end - entry.begin)
    source.fail(length_bytes, "\"" + name + "\" has " + std::to_string(bytes) + " bytes, its data_offsets span " +
                                  std::to_string(entry.end - entry.begin));
  return entry;
}

/// The data must be covered once, without holes.
inline void check_cover(const Source& source, std::vector<Entry> entries, std::uint64_t data) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t reached = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != reached)
      source.fail(
          data + std::min(entry.begin, reached),
          "\"" + entry.name + (entry.begin < reached ? "\" overlaps another tensor" : "\" stands behind a hole"));
    reached = entry.end;
  }
  if (reached != source.size() - data)
    source.fail(source.size(), "the header names " + std::to_string(reached) + " bytes of data, the file has " +
                                   std::to_string(source.size() - data));
}

inline void read_metadata(const Source& source, const Json& object, std::map<std::string, std::string>& to) {
  if (object.kind != Json::Kind::object) source.fail(length_bytes, "__metadata__ is no object");
  for (const auto& [key, value] : object.parts) {
    if (value.kind != Json::Kind::string) source.fail(length_bytes, "__metadata__: \"" + key + "\" is no string");
    to[key] = value.text;
  }
}

inline void read_one_file(const std::string& path, Location where, SafeTensors& to) {
  const Source source{MappedFile::open(path, "load_safetensors", where), "load_safetensors", where};
  const std::uint64_t header = read_number(source.text(0, length_bytes), 0, 8);
  if (header > largest_header)
    source.fail(0, "a header of " + std::to_string(header) + " bytes", "this is no .safetensors file, or damaged");
  const Json json = parse_header(source, length_bytes, header);
  if (json.kind != Json::Kind::object) source.fail(length_bytes, "the header is no object");
  std::vector<Entry> entries;
  for (const auto& [name, value] : json.parts) {
    if (name == "__metadata__") read_metadata(source, value, to.metadata);
    else entries.push_back(read_entry(source, name, value));
  }
  const std::uint64_t data = length_bytes + header;
  check_cover(source, entries, data);
  for (const Entry& entry : entries)
    to.tensors.emplace(entry.name, tensor_at(source, data + entry.begin, entry.dtype, entry.shape));
}

inline void read_index(const std::string& path, Location where, SafeTensors& to) {
  const Source source{MappedFile::open(path, "load_safetensors", where), "load_safetensors", where};
  if (source.size() > largest_header) source.fail(0, "an index of " + std::to_string(source.size()) + " bytes");
  const Json json = parse_header(source, 0, source.size());
  const Json* map = json.find("weight_map");
  if (map == nullptr || map->kind != Json::Kind::object) source.fail(0, "the index has no weight_map");
  std::map<std::string, std::vector<std::string>> names_of_file;
  for (const auto& [name, file] : map->parts) {
    if (file.kind != Json::Kind::string || file.text.empty() || file.text.find('/') != std::string::npos)
      source.fail(0, "\"" + name + "\" names no file beside the index");
    names_of_file[file.text].push_back(name);
  }
  for (const auto& [file, names] : names_of_file) {
    SafeTensors part;
    read_one_file(folder_of(path) + "/" + file, where, part);
    for (const std::string& name : names)
      if (part.tensors.find(name) == part.tensors.end()) source.fail(0, "\"" + name + "\" is not in " + file);
    to.metadata.merge(part.metadata);
    to.tensors.merge(part.tensors);
    if (!part.tensors.empty())
      source.fail(0, "\"" + part.tensors.begin()->first + "\" stands in " + file + " and in another file as well");
  }
}

inline void write_one_file(const std::string& path, const std::vector<std::pair<std::string, HostBytes>>& tensors,
                           const std::map<std::string, std::string>& metadata, Location where) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) header += json_string(key) + ":" + json_string(value) + ",";
    header.back() = '}';
    header += ',';
  }
  std::uint64_t offset = 0;
  for (const auto& [name, bytes] : tensors) {
    const std::uint64_t end = offset + bytes.size();
    header += json_string(name) + ":{\"dtype\":\"" + std::string(row(bytes.value->type.dtype).safetensors) +
              "\",\"shape\":" + shape_text(bytes.shape(), false) + ",\"data_offsets\":[" + std::to_string(offset) +
              "," + std::to_string(end) + "]},";
    offset = end;
  }
  if (header.back() == ',') header.pop_back();
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  AtomicFile file(path, "save_safetensors", where);
  std::string length;
  append_number(length, header.size(), static_cast<int>(length_bytes));
  file.write(length);
  file.write(header);
  for (const auto& [name, bytes] : tensors) file.write(bytes.data(), static_cast<std::size_t>(bytes.size()));
  file.commit();
}

/// Of larger elements first, so that all of them are aligned.
inline std::vector<std::pair<std::string, HostBytes>> in_order(const TensorMap& tensors, const std::string& path,
                                                               Location where) {
  std::vector<std::pair<std::string, HostBytes>> out;
  for (const std::int64_t width : {8, 4, 2, 1})
    for (const auto& [name, x] : tensors) {
      if (name == "__metadata__")
        throw IoError("save_safetensors", path, "a Tensor has the name __metadata__, which the format keeps", where,
                      "give it another name");
      if (row(x.dtype()).safetensors.empty())
        throw DTypeError(
            "save_safetensors",
            "\"" + name + "\" is " + std::string(sinter::name(x.dtype())) + ", for which the format has no dtype",
            where,
            is_complex(x.dtype()) ? "cast it with .to(DType::c64), or write .npz" : "cast it with .to(DType::f32)");
      if (size_of(x.dtype()) == width) out.emplace_back(name, host_bytes(x, "save_safetensors", where));
    }
  return out;
}

inline std::string shard_path(const std::string& stem, std::size_t number, std::size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05zu-of-%05zu.safetensors", number, count);
  return stem + text;
}
}  // namespace io_detail

SINTER_DECL SafeTensors read_safetensors(const std::string& path, Location where) {
  SafeTensors out;
  if (std::string_view(path).ends_with(".json")) io_detail::read_index(path, where, out);
  else io_detail::read_one_file(path, where, out);
  return out;
}

SINTER_DECL TensorMap load_safetensors(const std::string& path, Location where) {
  return read_safetensors(path, where).tensors;
}

SINTER_DECL void save_safetensors(const std::string& path, const TensorMap& tensors,
                                  const std::map<std::string, std::string>& metadata, Location where) {
  io_detail::write_one_file(path, io_detail::in_order(tensors, path, where), metadata, where);
}

SINTER_DECL std::string save_safetensors_sharded(const std::string& stem, const TensorMap& tensors,
                                                 const ShardOptions& options, Location where) {
  using Shard = std::vector<std::pair<std::string, io_detail::HostBytes>>;
  std::vector<Shard> shards(1);
  std::uint64_t total = 0, in_shard = 0;
  for (auto& entry : io_detail::in_order(tensors, stem, where)) {
    const std::uint64_t bytes = entry.second.size();
    if (!shards.back().empty() && bytes > options.max_bytes - std::min(in_shard, options.max_bytes)) {
      shards.emplace_back();
      in_shard = 0;
    }
    in_shard += bytes;
    total += bytes;
    shards.back().push_back(std::move(entry));
  }
  std::string map;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string path = io_detail::shard_path(stem, i + 1, shards.size());
    io_detail::write_one_file(path, shards[i], options.metadata, where);
    const std::string file = io_detail::json_string(path.substr(path.find_last_of('/') + 1));
    for (const auto& entry : shards[i])
      map += (map.empty() ? "\n    " : ",\n    ") + io_detail::json_string(entry.first) + ": " + file;
  }
  const std::string path = stem + ".safetensors.index.json";
  AtomicFile index(path, "save_safetensors", where);
  index.write("{\n  \"metadata\": {\"total_size\": " + std::to_string(total) + "},\n  \"weight_map\": {" + map +
              "\n  }\n}\n");
  index.commit();
  return path;
}

}  // namespace io
SINTER_NAMESPACE_END
