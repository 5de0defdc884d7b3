// The header of .npy is the text of a Python dict; it is read by a grammar of its three entries.
#pragma once

#include <sinter/io/npy.hpp>

#include <sinter/io/zip.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/functions.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {
namespace io_detail {

inline constexpr std::string_view npy_magic = "\x93NUMPY";
inline constexpr std::uint64_t npy_alignment = 64;

struct NpyHeader {
  DType dtype = DType::f32;
  bool is_big_endian = false, is_fortran = false;
  std::vector<std::int64_t> shape{};
};

class NpyHeaderReader {
 public:
  NpyHeaderReader(const Source& source, std::uint64_t offset, std::string_view text)
      : source_(source), offset_(offset), text_(text) {}

  NpyHeader read() {
    NpyHeader header;
    unsigned entries = 0;  // a bit for each
    expect('{');
    while (!take('}')) {
      const std::string_view key = read_string();
      expect(':');
      const unsigned bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (bit == 0 || (entries & bit) != 0) fail("an unknown entry '" + std::string(key) + "', or one again");
      if (bit == 1) read_descr(header);
      else if (bit == 2) header.is_fortran = read_bool();
      else header.shape = read_shape();
      entries |= bit;
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (entries != 7 || at_ != text_.size()) fail("the header does not hold descr, fortran_order and shape");
    return header;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const { source_.fail(offset_ + at_, what); }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("'") + c + "' is missing");
  }
  std::string_view read_string() {
    expect('\'');
    const auto end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail("a string without an end");
    const std::string_view out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }
  void read_descr(NpyHeader& header) {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') fail("records with fields are no Tensors");
    const std::string_view text = read_string();
    if (!text.empty()) {
      header.is_big_endian = text.front() == '>';
      for (const DTypeRow& known : dtype_rows)
        if (!known.numpy.empty() && known.numpy == text.substr(1) &&
            std::string_view("<>|=").find(text.front()) != std::string_view::npos) {
          header.dtype = known.dtype;
          return;
        }
    }
    source_.fail(offset_ + at_, "dtype '" + std::string(text) + "', which Tensors do not have",
                 "convert it in NumPy: x.astype('int64') or another");
  }
  bool read_bool() {
    skip_blanks();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return word == "True";
      }
    fail("neither True nor False");
  }
  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    expect('(');
    while (!take(')')) {
      skip_blanks();
      std::int64_t extent = 0;
      const auto [stop, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (status != std::errc()) fail("no extent");
      at_ = as_index(stop - text_.data());
      shape.push_back(extent);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  const Source& source_;
  std::uint64_t offset_;
  std::string_view text_;
  std::size_t at_ = 0;
};

/// The elements with their bytes reversed.
inline Tensor swapped(const Source& source, std::uint64_t offset, const NpyHeader& header,
                      const std::vector<std::int64_t>& shape) {
  const std::string_view from = source.text(offset, bytes_of(source, offset, header.dtype, shape));
  std::string to(from);
  const auto width = as_index(size_of(real_part_of(header.dtype)));
  for (std::size_t i = 0; i < to.size(); i += width) std::reverse(to.data() + i, to.data() + i + width);
  return copied_tensor(source, to, header.dtype, shape);
}

/// The array of `bytes` bytes at `offset`.
inline Tensor read_npy(const Source& source, std::uint64_t offset, std::uint64_t bytes) {
  const std::string_view text = source.text(offset, bytes);
  if (text.size() < 10 || text.substr(0, npy_magic.size()) != npy_magic)
    source.fail(offset, "no array of NumPy begins here");
  const int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) source.fail(offset + 6, "version " + std::to_string(version) + " of .npy");
  const int width = version == 1 ? 2 : 4;
  const std::uint64_t begin = 8 + static_cast<std::uint64_t>(width);
  if (text.size() < begin) source.fail(offset, "the header is cut short");
  const std::uint64_t size = read_number(text, 8, width);
  if (size > text.size() - begin) source.fail(offset + 8, "a header of " + std::to_string(size) + " bytes");
  NpyHeader header = NpyHeaderReader(source, offset + begin, text.substr(begin, size)).read();
  if (header.is_fortran) std::reverse(header.shape.begin(), header.shape.end());
  const std::uint64_t data = offset + begin + size, needed = bytes_of(source, data, header.dtype, header.shape);
  if (needed != text.size() - begin - size)
    source.fail(data, "the header asks for " + std::to_string(needed) + " bytes of data, here are " +
                          std::to_string(text.size() - begin - size));
  const bool is_swapped = header.is_big_endian && size_of(header.dtype) > 1;
  const Tensor x = is_swapped && needed != 0 ? swapped(source, data, header, header.shape)
                                             : tensor_at(source, data, header.dtype, header.shape);
  if (!header.is_fortran || header.shape.size() < 2) return x;
  std::vector<int> order;
  for (int axis = static_cast<int>(header.shape.size()) - 1; axis >= 0; --axis) order.push_back(axis);
  return permute(In(x, source.where), order);
}

/// What stands before the data; a whole number of `npy_alignment` bytes.
inline std::string npy_header(const HostBytes& x, std::string_view function, Location where) {
  const std::string_view code = row(x.value->type.dtype).numpy;
  if (code.empty())
    throw DTypeError(function, "NumPy has no " + std::string(name(x.value->type.dtype)), where,
                     "cast it with .to(DType::f32), or write .safetensors");
  std::string text = std::string("{'descr': '") + (code.back() == '1' ? '|' : '<') + std::string(code) +
                     "', 'fortran_order': False, 'shape': " + shape_text(x.shape(), true) + ", }";
  const std::size_t before = npy_magic.size() + 4;
  text.append(npy_alignment - (before + text.size() + 1) % npy_alignment, ' ').append(1, '\n');
  std::string out(npy_magic);
  out.append("\x01\x00", 2);
  append_number(out, text.size(), 2);
  return out + text;
}
}  // namespace io_detail

SINTER_DECL Tensor load_npy(const std::string& path, Location where) {
  const io_detail::Source source{MappedFile::open(path, "load_npy", where), "load_npy", where};
  return io_detail::read_npy(source, 0, source.size());
}

SINTER_DECL void save_npy(const std::string& path, const Tensor& x, Location where) {
  const io_detail::HostBytes bytes = io_detail::host_bytes(x, "save_npy", where);
  AtomicFile file(path, "save_npy", where);
  file.write(io_detail::npy_header(bytes, "save_npy", where));
  file.write(bytes.data(), static_cast<std::size_t>(bytes.size()));
  file.commit();
}

SINTER_DECL TensorMap load_npz(const std::string& path, Location where) {
  const io_detail::Source source{MappedFile::open(path, "load_npz", where), "load_npz", where};
  TensorMap out;
  for (const io_detail::ZipEntry& entry : io_detail::read_zip(source)) {
    if (entry.is_compressed)
      source.fail(entry.offset, "\"" + entry.name + "\" is compressed",
                  "save it with numpy.savez, not numpy.savez_compressed");
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (!out.emplace(name, io_detail::read_npy(source, entry.offset, entry.bytes)).second)
      source.fail(entry.offset, "\"" + name + "\" stands twice");
  }
  return out;
}

SINTER_DECL void save_npz(const std::string& path, const TensorMap& tensors, Location where) {
  AtomicFile file(path, "save_npz", where);
  io_detail::ZipWriter zip(file);
  for (const auto& [name, x] : tensors) {
    if (name.empty() || name.size() > 60000)
      throw IoError("save_npz", path, "a name of " + std::to_string(name.size()) + " bytes", where,
                    "names have 1 to 60000 bytes");
    const io_detail::HostBytes bytes = io_detail::host_bytes(x, "save_npz", where);
    zip.add(name + ".npy", io_detail::npy_header(bytes, "save_npz", where),
            {static_cast<const char*>(bytes.data()), static_cast<std::size_t>(bytes.size())});
  }
  zip.finish();
  file.commit();
}

}  // namespace io
SINTER_NAMESPACE_END
