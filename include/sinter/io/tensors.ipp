// Bytes to Tensors and back.
#pragma once

#include <sinter/io/tensors.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

static_assert(std::endian::native == std::endian::little, "sinter: files hold little-endian numbers");

SINTER_DECL void Source::fail(std::uint64_t offset, std::string_view what, std::string_view fix) const {
  throw IoError(function, file->path(), "byte " + std::to_string(offset) + ": " + std::string(what), where, fix);
}

SINTER_DECL std::uint64_t Source::size() const { return file->bytes().size(); }
SINTER_DECL std::string_view Source::text(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > size() || bytes > size() - offset)
    fail(offset, std::to_string(bytes) + " bytes are needed here, the file has " + std::to_string(size()),
         "the file is cut short or damaged: get it again");
  return {reinterpret_cast<const char*>(file->bytes().data()) + offset, static_cast<std::size_t>(bytes)};
}

SINTER_DECL std::uint64_t read_number(std::string_view bytes, std::size_t offset, int width) {
  std::uint64_t value = 0;
  for (int i = width - 1; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[offset + as_index(i)]);
  return value;
}

SINTER_DECL void append_number(std::string& to, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) to.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

SINTER_DECL std::uint64_t bytes_of(const Source& source, std::uint64_t offset, DType dtype,
                                   const std::vector<std::int64_t>& shape) {
  if (shape.size() > as_index(max_rank))
    source.fail(offset, "a tensor of rank " + std::to_string(shape.size()), "Tensors have 8 axes at most");
  constexpr auto most = std::uint64_t{1} << 60;
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(dtype));
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) source.fail(offset, "an extent is " + std::to_string(extent));
    if (extent == 0) is_empty = true;
    else if (bytes > most / static_cast<std::uint64_t>(extent)) source.fail(offset, "a tensor of more than 2^60 bytes");
    else bytes *= static_cast<std::uint64_t>(extent);
  }
  return is_empty ? 0 : bytes;
}

inline Tensor shared_tensor(const Source& source, std::shared_ptr<const void> owner, const void* first, DType dtype,
                            const std::vector<std::int64_t>& extents) {
  const Shape shape(extents);
  if (shape.numel().value() == 0) return zeros(shape, {.dtype = dtype}, source.where);
  const Tensor here = from_blob(std::move(owner), first, shape, dtype, source.where);
  return default_device() == Device::cpu() ? here : here.to(default_device(), source.where);
}

SINTER_DECL Tensor tensor_at(const Source& source, std::uint64_t offset, DType dtype,
                             const std::vector<std::int64_t>& shape) {
  const std::uint64_t bytes = bytes_of(source, offset, dtype, shape);
  const std::string_view data = source.text(offset, bytes);
  if (dtype == DType::bool_)
    for (std::size_t i = 0; i < data.size(); ++i)
      if (static_cast<unsigned char>(data[i]) > 1) source.fail(offset + i, "a bool that is neither 0 nor 1");
  if (reinterpret_cast<std::uintptr_t>(data.data()) % as_index(size_of(dtype)) != 0)
    return copied_tensor(source, data, dtype, shape);
  return shared_tensor(source, source.file, data.data(), dtype, shape);
}

SINTER_DECL Tensor copied_tensor(const Source& source, std::string_view bytes, DType dtype,
                                 const std::vector<std::int64_t>& shape) {
  auto memory = std::make_shared<std::vector<std::max_align_t>>(bytes.size() / sizeof(std::max_align_t) + 1);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(memory->data()));
  const void* first = memory->data();
  return shared_tensor(source, std::move(memory), first, dtype, shape);
}

SINTER_DECL const void* HostBytes::data() const { return value->data(); }
SINTER_DECL std::uint64_t HostBytes::size() const {
  return static_cast<std::uint64_t>(value->type.shape.numel().value() * size_of(value->type.dtype));
}
SINTER_DECL std::vector<std::int64_t> HostBytes::shape() const {
  std::vector<std::int64_t> extents;
  for (const Dim& extent : value->type.shape) extents.push_back(extent.value());
  return extents;
}
SINTER_DECL HostBytes host_bytes(const Tensor& x, std::string_view function, Location where) {
  return {host_value(In(x, where), function)};
}

SINTER_DECL std::string shape_text(const std::vector<std::int64_t>& shape, bool is_tuple) {
  std::string text(1, is_tuple ? '(' : '[');
  for (std::size_t i = 0; i < shape.size(); ++i) text.append(i == 0 ? "" : ", ").append(std::to_string(shape[i]));
  if (is_tuple && shape.size() == 1) text += ',';
  return text + (is_tuple ? ')' : ']');
}

}  // namespace io::io_detail
SINTER_NAMESPACE_END
