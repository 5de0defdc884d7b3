// Tensors and the bytes that files hold: what a part of a mapped file is as a Tensor, and a Tensor as bytes in a row.
#pragma once

#include <sinter/io/file.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io {

/// Tensors by name.
using TensorMap = std::map<std::string, Tensor>;

namespace io_detail {
/// A file that is read, and who reads it: what errors need.
struct Source {
  std::shared_ptr<const MappedFile> file;
  std::string_view function;
  Location where;
  [[noreturn]] void fail(std::uint64_t offset, std::string_view what, std::string_view fix = {}) const;
  /// As text; `bytes` must be in the file.
  std::string_view text(std::uint64_t offset, std::uint64_t bytes) const;
  std::uint64_t size() const;
};
/// A little-endian number.
std::uint64_t read_number(std::string_view bytes, std::size_t offset, int width);
void append_number(std::string& to, std::uint64_t value, int width);

/// Bytes of so many elements; fails where they are no number of bytes, or the rank is beyond what Tensors have.
std::uint64_t bytes_of(const Source& source, std::uint64_t offset, DType dtype, const std::vector<std::int64_t>& shape);
/// The Tensor that lies at `offset`, row-major and in this machine's byte order. It shares the mapped file where its
/// elements are aligned, and is a copy elsewhere. Goes to the default device.
Tensor tensor_at(const Source& source, std::uint64_t offset, DType dtype, const std::vector<std::int64_t>& shape);
/// A Tensor of its own memory with these bytes.
Tensor copied_tensor(const Source& source, std::string_view bytes, DType dtype, const std::vector<std::int64_t>& shape);

/// A Tensor in host memory, row-major.
struct HostBytes {
  Ref<TensorImpl> value;
  const void* data() const;
  std::uint64_t size() const;
  std::vector<std::int64_t> shape() const;
};
HostBytes host_bytes(const Tensor& x, std::string_view function, Location where);
/// "[2, 3]" or, for tuples of Python, "(2, 3,)".
std::string shape_text(const std::vector<std::int64_t>& shape, bool is_tuple);
}  // namespace io_detail

}  // namespace io
SINTER_NAMESPACE_END
