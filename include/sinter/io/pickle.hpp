// Python's pickles (protocol 2, https://docs.python.org/3/library/pickletools.html), as data: containers, numbers,
// text, and calls and persistent objects that are kept as they are written. Nothing is imported or called.
#pragma once

#include <sinter/io/tensors.hpp>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

/// An object. A call has the function and the tuple of arguments as parts; a dict keys and values in turns.
struct PickleItem {
  enum class Kind : std::uint8_t { mark, other, integer, text, list, dict, global, persistent, call };
  Kind kind = Kind::other;  // other: None, a bool, a float
  std::int64_t integer = 0;
  std::string text{};  // of a global "module name"
  std::vector<const PickleItem*> parts{};
};
/// The objects of a pickle. They may refer to each other in circles.
struct Pickle {
  std::deque<PickleItem> items{};
  const PickleItem* root = nullptr;
};

/// Reads the pickle at `offset`. Throws IoError for anything but the opcodes that torch.save writes.
Pickle read_pickle(const Source& source, std::uint64_t offset, std::uint64_t bytes);

}  // namespace io::io_detail
SINTER_NAMESPACE_END
