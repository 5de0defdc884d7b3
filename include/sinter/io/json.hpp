// The JSON that headers of files are written in: a strict reader with bounds on depth, and text of strings. Must not
// know files.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

/// A value. Numbers are kept as they are written.
struct Json {
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  std::string text{};  // of a number or a string; "true" or "false"
  struct Part;
  std::vector<Part> parts;  // of an array (without names) or an object

  /// The member of that name, or null.
  const Json* find(std::string_view name) const;
  /// Is it a whole number from 0 to 2^63 - 1? Gives it in `value`.
  bool read_whole(std::int64_t& value) const;
};
struct Json::Part {
  std::string name{};
  Json value{};
};

/// What is wrong with a text, and where.
struct JsonError {
  std::size_t offset = 0;
  std::string what{};
};

/// Reads the whole text: RFC 8259, names once in an object, at most 32 levels. Throws JsonError.
Json parse_json(std::string_view text);
/// The string with its quotes.
std::string json_string(std::string_view text);

}  // namespace io::io_detail
SINTER_NAMESPACE_END
