// Files of safetensors (https://github.com/huggingface/safetensors, "Format"): read as mapped memory, written
// atomically, in one file or in several with an index.
#pragma once

#include <sinter/io/tensors.hpp>

SINTER_NAMESPACE_BEGIN
namespace io {

/// What a file holds.
struct SafeTensors {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads a .safetensors file, or all files that a .safetensors.index.json names. The Tensors share the mapped file: no
/// copy is made, and pages are read when they are used. Every offset is checked before. Throws IoError.
SafeTensors read_safetensors(const std::string& path, Location where = std::source_location::current());
/// The Tensors alone.
TensorMap load_safetensors(const std::string& path, Location where = std::source_location::current());

/// Writes one file. A reader finds the old file or the new one, whatever happens.
void save_safetensors(const std::string& path, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata = {},
                      Location where = std::source_location::current());

struct ShardOptions {
  std::uint64_t max_bytes = std::uint64_t{5} << 30;  // of the Tensors in a file; a larger Tensor has one of its own
  std::map<std::string, std::string> metadata{};
};
/// Writes `stem`-00001-of-00003.safetensors and so on, and last `stem`.safetensors.index.json, whose path is given. A
/// single save is atomic file by file: give each a stem of its own to keep the old one readable meanwhile.
std::string save_safetensors_sharded(const std::string& stem, const TensorMap& tensors,
                                     const ShardOptions& options = {},
                                     Location where = std::source_location::current());

}  // namespace io
SINTER_NAMESPACE_END
