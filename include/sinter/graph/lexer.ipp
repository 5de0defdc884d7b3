// Reading words and numbers.
#pragma once

#include <sinter/graph/lexer.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <charconv>
#include <limits>
#include <system_error>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

SINTER_DECL bool Lexer::accept(char mark) {
  if (peek() != mark) return false;
  ++at_;
  skip_blank();
  return true;
}

SINTER_DECL void Lexer::expect(char mark) {
  if (!accept(mark)) fail(std::string("expected '") + mark + "'");
}

SINTER_DECL std::string_view Lexer::peek_word() const {
  std::size_t end = at_;
  while (end < text_.size() && is_name_part(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

SINTER_DECL std::string_view Lexer::word(const char* what) {
  const std::string_view found = peek_word();
  if (found.empty()) fail(std::string("expected ") + what);
  advance(found.size());
  return found;
}

SINTER_DECL bool Lexer::accept_word(std::string_view name) {
  if (peek_word() != name) return false;
  advance(name.size());
  return true;
}

SINTER_DECL bool Lexer::is_integer(std::int64_t& value) const {
  return std::from_chars(text_.data() + at_, text_.data() + text_.size(), value).ec != std::errc::result_out_of_range;
}

SINTER_DECL std::int64_t Lexer::integer(std::int64_t limit) {
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

SINTER_DECL double Lexer::real() {
  double value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) fail("the number is out of range");
  if (error != std::errc()) fail("expected a number");
  advance(as_index(end - begin));
  return value;
}

SINTER_DECL bool Lexer::number_is_real() const {
  for (std::size_t i = at_ + (peek() == '-'); i < text_.size(); ++i) {
    if (is_digit(text_[i])) continue;
    return text_[i] == '.' || is_name_start(text_[i]);  // 1.5, 1e3, inf, nan
  }
  return false;
}

SINTER_DECL std::string Lexer::string() {
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

SINTER_DECL void Lexer::fail_at(std::size_t position, const std::string& what) const {
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

SINTER_DECL void Lexer::advance(std::size_t count) {
  at_ += count;
  skip_blank();
}

SINTER_DECL void Lexer::skip_blank() {
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

}  // namespace graph_detail

SINTER_NAMESPACE_END
