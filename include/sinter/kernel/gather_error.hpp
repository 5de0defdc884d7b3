// What a kernel throws that meets an index out of range, whoever runs it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN

/// An index out of range that a kernel met. A frame, which knows the operation and its line, makes it an IndexError of
/// theirs.
class GatherError : public IndexError {
 public:
  GatherError(std::int64_t wanted, std::int64_t size)
      : IndexError("gather", text_of(wanted, size)), index(wanted), extent(size) {}
  static std::string text_of(std::int64_t wanted, std::int64_t size) {
    return "index " + std::to_string(wanted) + " is out of range for an axis of extent " + std::to_string(size);
  }
  std::int64_t index, extent;
};

SINTER_NAMESPACE_END
