// Text inside JSON: what the timeline, the pages and the logs of this library write for other programs to read. Knows
// strings only.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
/// Bytes of the UTF-8 sequence that `text` begins with, or 0 where it begins with none.
inline std::size_t utf8_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  if (length < 3) return length;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_no_character = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return is_overlong || is_no_character ? 0 : length;
}
}  // namespace base_detail

/// Appends the string in quotes. Bytes that are no UTF-8 become question marks, and '<' an escape, so that the text may
/// also stand in a <script> element.
inline void append_json(std::string& to, std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  to += '"';
  while (!text.empty()) {
    const char c = text[0];
    const auto code = static_cast<unsigned char>(c);
    std::size_t length = 1;
    if (c == '"' || c == '\\') to.append({'\\', c});
    else if (c == '\n') to += "\\n";
    else if (code < 0x20 || code == 0x7F || c == '<') to.append("\\u00").append({digits[code >> 4], digits[code & 15]});
    else if ((length = base_detail::utf8_length(text)) > 0) to.append(text.substr(0, length));
    else to += '?', length = 1;
    text.remove_prefix(length);
  }
  to += '"';
}

/// The fields of a JSON object, as they are added.
class JsonFields {
 public:
  JsonFields& add(std::string_view name, std::string_view value) {
    begin(name);
    append_json(text_, value);
    return *this;
  }
  JsonFields& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  JsonFields& add(std::string_view name, long long value) { return raw(name, std::to_string(value)); }
  JsonFields& add(std::string_view name, long value) { return add(name, static_cast<long long>(value)); }
  JsonFields& add(std::string_view name, int value) { return add(name, static_cast<long long>(value)); }
  JsonFields& add(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  /// `value` is JSON.
  JsonFields& raw(std::string_view name, std::string_view value) {
    begin(name);
    text_ += value;
    return *this;
  }
  bool empty() const { return text_.empty(); }
  std::string object() const { return "{" + text_ + "}"; }

 private:
  void begin(std::string_view name) {
    if (!text_.empty()) text_ += ',';
    append_json(text_, name);
    text_ += ':';
  }
  std::string text_;
};

SINTER_NAMESPACE_END
