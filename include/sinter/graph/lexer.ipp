// Reads the words of the text form: names, numbers, marks, strings, with line and column for errors. `#` starts a
// comment. Knows nothing of graphs. Every fault of the text is a UserError.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { skip_blank(); }

  bool at_end() const { return at_ >= text_.size(); }
  /// The next character, or 0 at the end.
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  bool accept(char mark) {
    if (peek() != mark) return false;
    ++at_;
    skip_blank();
    return true;
  }
  void expect(char mark) {
    if (!accept(mark)) fail(std::string("expected '") + mark + "'");
  }

  static bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

  /// The name or number-like label ahead, without taking it; "" if there is none.
  std::string_view peek_word() const {
    std::size_t end = at_;
    while (end < text_.size() && is_name_part(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  std::string_view word(const char* what) {
    const std::string_view found = peek_word();
    if (found.empty()) fail(std::string("expected ") + what);
    advance(found.size());
    return found;
  }
  bool accept_word(std::string_view name) {
    if (peek_word() != name) return false;
    advance(name.size());
    return true;
  }

  /// Reads nothing; whether the whole number ahead is an i64.
  bool is_integer(std::int64_t& value) const {
    return std::from_chars(text_.data() + at_, text_.data() + text_.size(), value).ec != std::errc::result_out_of_range;
  }
  std::int64_t integer(std::int64_t limit) {
    std::int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    const std::int64_t lowest =
        limit == std::numeric_limits<std::int64_t>::max() ? std::numeric_limits<std::int64_t>::min() : -limit;
    if (error == std::errc::result_out_of_range || (error == std::errc() && (value > limit || value < lowest)))
      fail("the number is out of range");
    if (error != std::errc()) fail("expected a whole number");
    advance(as_index(end - begin));
    return value;
  }
  double real() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("the number is out of range");
    if (error != std::errc()) fail("expected a number");
    advance(as_index(end - begin));
    return value;
  }
  /// Whether the number ahead is written as a floating one.
  bool number_is_real() const {
    for (std::size_t i = at_ + (peek() == '-'); i < text_.size(); ++i) {
      if (is_digit(text_[i])) continue;
      return text_[i] == '.' || is_name_start(text_[i]);  // 1.5, 1e3, inf, nan
    }
    return false;
  }
  std::string string() {
    if (peek() != '"') fail("expected a string in quotes");
    std::string out;
    for (++at_; !at_end() && text_[at_] != '"'; ++at_) {
      char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) c = text_[++at_] == 'n' ? '\n' : text_[at_];
      out += c;
    }
    if (at_end()) fail("the string has no end");
    advance(1);
    return out;
  }

  std::size_t position() const { return at_; }
  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(std::size_t position, const std::string& what) const {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < position && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    throw UserError("parse_graph", "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
  }

 private:
  void advance(std::size_t count) {
    at_ += count;
    skip_blank();
  }
  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace graph_detail

SINTER_NAMESPACE_END
