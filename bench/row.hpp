// One measured figure, as tools/bench collects it: a line of JSON on standard output. Knows nothing of what is measured.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace bench {

inline constexpr double absent = std::nan("");

/// A figure of ours, beside a peer measured in the same run and the limit it cannot or must not pass. `limit` is a physical
/// limit (peak, copy bandwidth) or a target, in `unit`. A unit with a '/' in it is a rate, where more is better.
struct Row {
  std::string name = {}, shape = {}, dtype = {};
  std::string device = "cpu";
  int threads = 1;
  double ours = absent;
  std::string unit = {};
  std::string peer = {};
  double peer_value = absent;
  double limit = absent;
  double compile_ms = absent;
};

inline std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// Prints the row. The ratio is above 1 where we are better than the peer.
inline void print(const Row& row) {
  const bool is_rate = row.unit.find('/') != std::string::npos;
  const double ratio = is_rate ? row.ours / row.peer_value : row.peer_value / row.ours;
  std::printf("{\"name\": %s, \"shape\": %s, \"dtype\": %s, \"device\": %s, \"threads\": %d, ", quoted(row.name).c_str(),
              quoted(row.shape).c_str(), quoted(row.dtype).c_str(), quoted(row.device).c_str(), row.threads);
  std::printf("\"ours\": %s, \"unit\": %s, \"peer\": %s, \"peer_value\": %s, \"ratio\": %s, ", number(row.ours).c_str(),
              quoted(row.unit).c_str(), row.peer.empty() ? "null" : quoted(row.peer).c_str(), number(row.peer_value).c_str(),
              number(ratio).c_str());
  std::printf("\"limit\": %s, \"share_of_limit\": %s, \"compile_ms\": %s}\n", number(row.limit).c_str(),
              number(row.ours / row.limit).c_str(), number(row.compile_ms).c_str());
  std::fflush(stdout);
}

}  // namespace bench
