// Rows of tools/bench --tuned: a function in Mode::max_autotune beside the default one, in turns. Each finished row is
// one line of a file, and rows that the file has are not measured again, so that a run that was cut short goes on.
#pragma once

#include "comparison.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// A number of the environment, or another where it has none.
inline double number_of(const char* variable, double otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtod(text, nullptr);
}
/// BENCH_TUNED_SECONDS: what each version may be measured for; 0: what the library says.
inline double tuned_seconds() { return number_of("BENCH_TUNED_SECONDS", 0); }
inline sinter::jit::Options tuned_options(sinter::jit::Options options = {}) {
  options.mode = sinter::jit::Mode::max_autotune;
  options.tune_seconds = tuned_seconds();
  return options;
}

/// BENCH_TUNED: the file. BENCH_TUNED_SESSION: a word that its lines begin with, for rows are measured once in each.
class TunedFile {
 public:
  static TunedFile& get() {
    static TunedFile file;
    return file;
  }
  void begin(const std::string& row) const { append(start_of(row) + R"("begins":true})"); }
  /// What one set of turns took, seconds of the default and of the tuned function.
  using Turns = std::vector<std::pair<double, double>>;
  void add(const std::string& row, const std::string& device, double seconds, const std::vector<Turns>& sets,
           const std::vector<std::string>& log) const {
    std::string line = start_of(row) + R"("device":)" + quoted(device) + R"(,"tune_seconds":)" + digits(seconds);
    line += R"(,"sets":[)";
    for (const Turns& turns : sets) {
      line += &turns == sets.data() ? "[" : ",[";
      for (const auto& [standard, tuned] : turns)
        line += (line.back() == '[' ? "[" : ",[") + digits(standard) + "," + digits(tuned) + "]";
      line += "]";
    }
    line += R"(],"log":[)";
    for (const std::string& each : log) line += (line.back() == '[' ? "" : ",") + quoted(each);
    append(line + "]}");
  }
  void fail(const std::string& row, const std::string& why) const {
    append(start_of(row) + R"("failed":)" + quoted(why) + "}");
  }
  /// Rows that were begun are not begun again: what ended the program would end it once more.
  bool has(const std::string& row) const {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);)
      if (line.starts_with(start_of(row))) return true;
    return false;
  }
  /// Whether a row may still be begun (BENCH_TUNED_UNTIL, in seconds of the epoch).
  static bool has_time() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count() < number_of("BENCH_TUNED_UNTIL", 1e18);
  }

 private:
  TunedFile() {
    if (const char* const path = std::getenv("BENCH_TUNED")) path_ = path;
    if (const char* const word = std::getenv("BENCH_TUNED_SESSION")) session_ = word;
  }
  std::string start_of(const std::string& row) const {
    return R"({"session":)" + quoted(session_) + R"(,"row":)" + quoted(row) + ",";
  }
  static std::string digits(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
  }
  static std::string quoted(const std::string& text) {
    std::string quoted = "\"";
    for (const char letter : text) {
      if (letter == '"' || letter == '\\') quoted += '\\';
      quoted += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
    return quoted + "\"";
  }
  void append(const std::string& line) const { std::ofstream(path_, std::ios::app) << line << std::endl; }
  std::string path_{}, session_{};
};

/// What SINTER_LOGS=autotune says while it lives.
class TuningLog {
 public:
  TuningLog() {
    sinter::Context& context = sinter::Context::get();
    std::swap(context.sink, sink_);
    std::swap(context.logs, logs_);
    context.logs = "autotune";
    context.sink = [this](std::string_view, std::string_view line) { lines.emplace_back(line); };
  }
  ~TuningLog() {
    sinter::Context& context = sinter::Context::get();
    context.sink = sink_;
    context.logs = logs_;
  }
  TuningLog(const TuningLog&) = delete;
  TuningLog& operator=(const TuningLog&) = delete;
  std::vector<std::string> lines;

 private:
  std::function<void(std::string_view, std::string_view)> sink_{};
  std::string logs_{};
};

/// The two functions of a row as calls, whether their results are the same, and the seconds of so many calls of one.
struct TunedRow {
  std::string device = "cpu";
  std::function<void()> standard{}, tuned{};
  std::function<bool()> have_same_results{};
  std::function<double(const std::function<void()>&, std::int64_t)> seconds_of{};
};

/// Nine turns of one, the other twice, and the one again: what runs after itself finds other caches than what runs
/// after another. So many calls that one lasts 2 ms in a turn.
inline TunedFile::Turns turns_of(const TunedRow& row) {
  constexpr double slice = 2e-3;
  constexpr int turns = 9;
  const double once = std::min(row.seconds_of(row.standard, 3), row.seconds_of(row.standard, 3)) / 3;
  const auto calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(slice / 2 / std::max(once, 1e-9)), 1, 100'000);
  row.seconds_of(row.tuned, calls);
  TunedFile::Turns found;
  for (int turn = 0; turn < turns; ++turn) {
    double seconds[2] = {};
    for (const int which : {0, 1, 1, 0})
      seconds[which] += row.seconds_of(which == 0 ? row.standard : row.tuned, calls) / static_cast<double>(2 * calls);
    found.emplace_back(seconds[0], seconds[1]);
  }
  return found;
}
inline double median_ratio(const TunedFile::Turns& turns) {
  std::vector<double> ratios;
  for (const auto& [standard, tuned] : turns) ratios.push_back(standard / tuned);
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  return ratios[ratios.size() / 2];
}

/// `make` compiles the functions, which are called, and so tuned, when results are compared. A row in which tuned is
/// not faster has its turns twice more, for what is noise does not come again.
template <class Make>
void run_tuned_row(benchmark::State& state, const std::string& name, Make make) {
  const TunedFile& file = TunedFile::get();
  if (file.has(name)) return state.SkipWithError("the file has this row");
  if (!TunedFile::has_time()) return state.SkipWithError("no time is left (--seconds)");
  file.begin(name);
  const auto fail = [&](const std::string& why) {
    file.fail(name, why);
    has_wrong_result = true;
    state.SkipWithError(why.c_str());
  };
  try {
    sinter::jit::reset();
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::string> lines;
    TunedRow row;
    {
      TuningLog log;
      row = make();
      if (!row.have_same_results()) return fail("the tuned function has other results");
      lines = log.lines;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<TunedFile::Turns> sets{turns_of(row)};
    while (sets.size() < 3 && median_ratio(sets.back()) < 1) sets.push_back(turns_of(row));
    while (state.KeepRunning()) state.SetIterationTime(sets.back().front().second);
    state.counters["ratio"] = median_ratio(sets.back());
    file.add(name, row.device, seconds, sets, lines);
  } catch (const std::exception& error) { fail(error.what()); }
}

}  // namespace bench
