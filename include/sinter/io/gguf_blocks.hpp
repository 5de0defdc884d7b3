// The quantised types of GGUF files: how many elements and bytes a block has, and what its bytes mean. Knows nothing of
// files.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

struct GgufBlock {
  std::uint64_t code;  // of the type, in the file
  std::string_view name;
  std::size_t elements, bytes;
  void (*decode)(const unsigned char* block, float* elements);
};

/// The type with this code, or null.
const GgufBlock* find_gguf_block(std::uint64_t code);
/// The names of all of them, for errors.
std::string gguf_block_names();

}  // namespace io::io_detail
SINTER_NAMESPACE_END
