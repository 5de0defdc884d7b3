// A recursive reader of JSON.
#pragma once

#include <sinter/io/json.hpp>

#include <charconv>
#include <cstdio>
#include <set>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

SINTER_DECL const Json* Json::find(std::string_view name) const {
  if (kind != Kind::object) return nullptr;
  for (const auto& [key, value] : parts)
    if (key == name) return &value;
  return nullptr;
}

SINTER_DECL bool Json::read_whole(std::int64_t& value) const {
  if (kind != Kind::number) return false;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  return status == std::errc() && stop == end && value >= 0;
}

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  Json read() {
    Json value = read_value(0);
    skip_blanks();
    if (at_ != text_.size()) fail("text after the end");
    return value;
  }

 private:
  static constexpr int most_levels = 32;

  [[noreturn]] void fail(std::string what) const { throw JsonError{at_, std::move(what)}; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    skip_blanks();
    if (!take(c)) fail(std::string("'") + c + "' is missing");
  }
  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  Json read_value(int level) {
    if (level == most_levels) fail("more than 32 levels");
    skip_blanks();
    switch (peek()) {
      case '{': return read_object(level);
      case '[': return read_array(level);
      case '"': return {Json::Kind::string, read_string(), {}};
      case 't': return read_word("true", Json::Kind::boolean);
      case 'f': return read_word("false", Json::Kind::boolean);
      case 'n': return read_word("null", Json::Kind::null);
      default: return read_digits();
    }
  }
  Json read_word(std::string_view word, Json::Kind kind) {
    if (text_.substr(at_, word.size()) != word) fail("not a value");
    at_ += word.size();
    return {kind, std::string(word), {}};
  }
  Json read_digits() {
    const std::size_t begin = at_;
    take('-');
    if (!take('0') && skip_digits() == 0) fail("not a value");
    if (take('.') && skip_digits() == 0) fail("digits are missing");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (skip_digits() == 0) fail("digits are missing");
    }
    return {Json::Kind::number, std::string(text_.substr(begin, at_ - begin)), {}};
  }
  std::size_t skip_digits() {
    const std::size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ - begin;
  }
  Json read_array(int level) {
    Json array{Json::Kind::array, {}, {}};
    expect('[');
    skip_blanks();
    if (take(']')) return array;
    do array.parts.push_back({{}, read_value(level + 1)});
    while (continues());
    expect(']');
    return array;
  }
  Json read_object(int level) {
    Json object{Json::Kind::object, {}, {}};
    std::set<std::string> names;
    expect('{');
    skip_blanks();
    if (take('}')) return object;
    do {
      skip_blanks();
      std::string name = read_string();
      if (!names.insert(name).second) fail("the name \"" + name + "\" stands twice");
      expect(':');
      Json value = read_value(level + 1);
      object.parts.push_back({std::move(name), std::move(value)});
    } while (continues());
    expect('}');
    return object;
  }
  bool continues() {
    skip_blanks();
    return take(',');
  }

  std::string read_string() {
    std::string out;
    if (!take('"')) fail("a string is missing");
    for (;;) {
      if (at_ == text_.size()) fail("a string without an end");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c == '\\') read_escape(out);
      else out += c;
    }
  }
  void read_escape(std::string& out) {
    constexpr std::string_view escapes = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (const auto place = escapes.find(c); at_ < text_.size() && place != std::string_view::npos) {
      out += meanings[place];
      ++at_;
    } else if (take('u')) {
      append_utf8(out, read_code_point());
    } else {
      fail("an unknown escape");
    }
  }
  std::uint32_t read_code_point() {
    const std::uint32_t first = read_hex();
    if (first < 0xd800 || first > 0xdfff) return first;
    if (first > 0xdbff || !take('\\') || !take('u')) fail("half of a surrogate pair");
    const std::uint32_t second = read_hex();
    if (second < 0xdc00 || second > 0xdfff) fail("half of a surrogate pair");
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }
  std::uint32_t read_hex() {
    std::uint32_t value = 0;
    if (text_.size() - at_ < 4) fail("four hexadecimal digits are missing");
    const char* begin = text_.data() + at_;
    const auto [stop, status] = std::from_chars(begin, begin + 4, value, 16);
    if (status != std::errc() || stop != begin + 4) fail("four hexadecimal digits are missing");
    at_ += 4;
    return value;
  }
  static void append_utf8(std::string& out, std::uint32_t code) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | code >> 12);
      tail(6);
      tail(0);
    } else {
      out += static_cast<char>(0xf0 | code >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

SINTER_DECL Json parse_json(std::string_view text) { return JsonReader(text).read(); }

SINTER_DECL std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.append(1, '\\').append(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace io::io_detail
SINTER_NAMESPACE_END
