// What most tests ask of values and errors.
#pragma once

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

inline std::vector<float> floats(const sinter::In& x) { return sinter::to_vector<float>(x); }
inline std::vector<double> doubles(const sinter::In& x) {
  return sinter::to_vector<double>(sinter::cast(x, sinter::DType::f64));
}

/// The message of the error that `run` throws.
template <class E = sinter::Error, class F>
std::string message_of(F&& run) {
  try {
    run();
  } catch (const E& error) { return error.what(); }
  return "nothing of this type was thrown";
}

/// The operation that the error of `run` names, and its line: "matmul", expr_test.cpp:12. Empty if no error of this
/// type comes.
struct Blame {
  std::string op, place;
  friend bool operator==(const Blame&, const Blame&) = default;
};
template <class E = sinter::UserError, class F>
Blame blame_of(F&& run) {
  try {
    run();
  } catch (const E& error) { return {std::string(error.op()), error.where().text()}; }
  return {};
}
/// What an error at this line names.
inline Blame blame(std::string op, sinter::Location where = sinter::Location::current()) {
  return {std::move(op), where.text()};
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
inline std::size_t occurrences(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Equal to a relative tolerance, and an absolute one around zero.
inline bool near(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 1e-9) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])))) return false;
  return true;
}

/// Equal to a tolerance relative to the largest of the expected elements, `b`.
inline bool near_relative(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  double largest = 0;
  for (double element : b) largest = std::abs(element) > largest ? std::abs(element) : largest;
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * largest)) return false;
  return true;
}

/// Collects log lines of some topics while it lives.
class LogCapture {
 public:
  explicit LogCapture(const std::string& topics)
      : logs_(sinter::Context::get().logs), sink_(sinter::Context::get().sink) {
    sinter::Context::get().logs = topics;
    sinter::Context::get().sink = [this](std::string_view topic, std::string_view line) {
      text_ += std::string(topic) + ": " + std::string(line) + "\n";
    };
  }
  ~LogCapture() {
    sinter::Context::get().logs = logs_;
    sinter::Context::get().sink = sink_;
  }
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_, logs_;
  std::function<void(std::string_view, std::string_view)> sink_;
};
