// Lexer: reads the words of the text form of graphs: names, numbers, marks, strings, with line and column for errors.
// `#` starts a comment. Knows nothing of graphs. Every fault of the text is a UserError.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
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

  bool accept(char mark);
  void expect(char mark);

  static bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

  /// The name or number-like label ahead, without taking it; "" if there is none.
  std::string_view peek_word() const;
  /// Takes it. `what` says in the error what was expected.
  std::string_view word(const char* what);
  bool accept_word(std::string_view name);

  /// Reads nothing; whether the whole number ahead is an i64.
  bool is_integer(std::int64_t& value) const;
  std::int64_t integer(std::int64_t limit);
  double real();
  /// Whether the number ahead is written as a floating one.
  bool number_is_real() const;
  std::string string();

  std::size_t position() const { return at_; }
  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(std::size_t position, const std::string& what) const;

 private:
  void advance(std::size_t count);
  void skip_blank();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace graph_detail

SINTER_NAMESPACE_END
