// What our benchmarks add to Google Benchmark: results are compared before anything is timed, ours and a peer take
// turns within a repetition, and a program ends with status 1 if a result was wrong. Knows nothing of Sinter, so that
// peers in processes of their own use it too.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

namespace bench {

/// BENCH_TUNED=FILE (tools/bench --tuned): rows compare a tuned function with the default one, not with their peers.
inline bool is_for_tuned_rows() {
  const char* const file = std::getenv("BENCH_TUNED");
  return file != nullptr && *file != '\0';
}
/// Whether the row has no function that could be tuned, and is left out of such a run.
inline bool is_left_out(benchmark::State& state) {
  if (is_for_tuned_rows()) state.SkipWithError("it compares no compiled function");
  return is_for_tuned_rows();
}

/// Of the row that runs.
inline std::string& row_name() {
  static std::string name;
  return name;
}

/// Registers a row whose body gives its times itself (`alternate`, State::SetIterationTime). Names are
/// "what/shape/dtype"; the summary of tools/bench takes its columns from them.
template <class Body>
auto* add(const std::string& name, Body&& body) {
  auto named = [name, body = std::forward<Body>(body)](benchmark::State& state) mutable {
    row_name() = name;
    body(state);
  };
  auto* const row = benchmark::RegisterBenchmark(name.c_str(), std::move(named))->UseManualTime();
  return is_for_tuned_rows() ? row->Iterations(1)->Repetitions(1) : row;  // such rows have turns of their own
}

/// A row for what does not exist yet: it says so and has no figure.
inline void add_missing(const std::string& name, const std::string& what) {
  benchmark::RegisterBenchmark(
      name.c_str(), [what](benchmark::State& state) { state.SkipWithError(("no such op yet: " + what).c_str()); });
}

/// "64x1024" of {64, 1024}.
inline std::string shape_text(std::initializer_list<std::int64_t> extents) {
  std::string text;
  for (std::int64_t extent : extents) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

/// Where the results differ by more than `tolerance * (1 + |theirs|)`; empty if they agree. A NaN agrees with nothing.
inline std::string difference(std::span<const float> ours, std::span<const float> theirs, double tolerance) {
  if (ours.size() != theirs.size())
    return std::to_string(ours.size()) + " elements instead of " + std::to_string(theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double a = ours[i], b = theirs[i];
    if (std::abs(a - b) <= tolerance * (1 + std::abs(b))) continue;
    char text[120];
    std::snprintf(text, sizeof text, "element %zu is %.9g instead of %.9g", i, a, b);
    return text;
  }
  return "";
}

inline bool has_wrong_result = false;

/// Whether the results agree. Otherwise the row becomes an error, which says where they differ, and `run` fails: a body
/// that gets false returns at once, so that what is wrong is not timed.
inline bool agree(benchmark::State& state, std::span<const float> ours, std::span<const float> theirs,
                  double tolerance) {
  const std::string text = difference(ours, theirs, tolerance);
  if (text.empty()) return true;
  has_wrong_result = true;
  state.SkipWithError(("wrong result: " + text).c_str());
  return false;
}

/// Seconds of so many calls. BENCH_PROCESSOR_TIME=1: those in which this process had the processor, on a machine that
/// others use, too. Threads beside one another have it several times over: a row of several gets the wall clock's.
template <class F>
double seconds_of(F&& call, std::int64_t calls = 1) {
  static const char* const wanted = std::getenv("BENCH_PROCESSOR_TIME");
  static const bool is_processor_time = wanted != nullptr && *wanted != '\0' && *wanted != '0';
  const auto processor = [] {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const auto start = std::chrono::steady_clock::now();
  const double processor_start = is_processor_time ? processor() : 0;
  for (std::int64_t i = 0; i < calls; ++i) call();
  const double processor_seconds = is_processor_time ? processor() - processor_start : 0;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return is_processor_time ? std::min(seconds, processor_seconds) : seconds;
}

/// As many calls as last about a millisecond: few enough that other work on the machine meets ours and the peer alike,
/// enough that neither the clock nor the peer's data in the caches count.
template <class F>
std::int64_t calls_per_slice(F&& call) {
  constexpr double slice = 1e-3;
  call();
  for (std::int64_t calls = 1;; calls *= 4) {
    const double seconds = std::min({seconds_of(call, calls), seconds_of(call, calls), seconds_of(call, calls)});
    if (seconds < slice / 8) continue;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(slice / seconds * static_cast<double>(calls)));
  }
}

/// Seconds and calls of ours and of the peer within one repetition.
class Alternation {
 public:
  void add_ours(double seconds, double count) {
    ours_ += seconds;
    ours_count_ += count;
  }
  void add_peer(double seconds, double count) {
    peer_ += seconds;
    peer_count_ += count;
  }
  double ours_per_count() const { return ours_ / ours_count_; }
  /// The counters `peer_seconds`, of one call, and `ratio`: above 1, ours is faster.
  void report(benchmark::State& state, const char* peer_name) const {
    state.SetLabel(peer_name);
    state.counters["peer_seconds"] = peer_ / peer_count_;
    state.counters["ratio"] = peer_ / peer_count_ / ours_per_count();
  }

 private:
  double ours_ = 0, peer_ = 0;
  double ours_count_ = 0, peer_count_ = 0;
};

/// Times ours, alternating with the peer, a slice of about a millisecond each. A call of ours counts as `steps`
/// iterations. All iterations are one batch, so that their number is what the library asked for: it must be the same in
/// every repetition.
template <class Ours, class Peer>
void alternate(benchmark::State& state, const char* peer_name, Ours&& ours, Peer&& peer, std::int64_t steps = 1) {
  if (is_left_out(state)) return;
  const std::int64_t ours_calls = calls_per_slice(ours), peer_calls = calls_per_slice(peer),
                     iterations = state.max_iterations;
  Alternation alternation;
  while (state.KeepRunningBatch(iterations)) {
    for (std::int64_t left = (iterations + steps - 1) / steps; left > 0; left -= ours_calls) {
      const std::int64_t calls = std::min(left, ours_calls);
      alternation.add_ours(seconds_of(ours, calls), static_cast<double>(calls * steps));
      alternation.add_peer(seconds_of(peer, peer_calls), static_cast<double>(peer_calls));
    }
    state.SetIterationTime(alternation.ours_per_count() * static_cast<double>(iterations));
  }
  alternation.report(state, peer_name);
}

/// The same for callables that return the seconds they are to be charged with.
template <class Ours, class Peer>
void alternate_seconds(benchmark::State& state, const char* peer_name, Ours&& ours_seconds, Peer&& peer_seconds) {
  if (is_left_out(state)) return;
  Alternation alternation;
  while (state.KeepRunning()) {
    const double seconds = ours_seconds();
    state.SetIterationTime(seconds);
    alternation.add_ours(seconds, 1);
    alternation.add_peer(peer_seconds(), 1);
  }
  alternation.report(state, peer_name);
}

/// Times a callable that has no peer here; its first calls are not timed. A call counts as `steps` iterations.
template <class F>
void time_alone(benchmark::State& state, F&& call, std::int64_t steps = 1) {
  if (is_left_out(state)) return;
  const std::int64_t iterations = state.max_iterations, calls = (iterations + steps - 1) / steps;
  seconds_of(call, 3);
  while (state.KeepRunningBatch(iterations))
    state.SetIterationTime(seconds_of(call, calls) / static_cast<double>(calls * steps) *
                           static_cast<double>(iterations));
}

/// Floating-point operations of one iteration, shown as a rate.
inline void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}
inline void count_items(benchmark::State& state, std::int64_t items) {
  state.SetItemsProcessed(state.iterations() * items);
}
inline void count_bytes(benchmark::State& state, std::int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

/// What the row cannot or must not pass, in seconds or, for a row with a rate, in units per second.
inline void set_limit(benchmark::State& state, double limit) { state.counters["limit"] = limit; }

/// "Intel(R) Xeon(R) ..." of /proc/cpuinfo; empty where there is none.
inline std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "";
}

inline std::string compiler_name() {
#ifdef __clang__
  return __VERSION__;
#else
  return "GCC " __VERSION__;
#endif
}

/// The rest of `main`: the flags are Google Benchmark's.
inline int run(int argc, char** argv) {
  // Compilations are what rows of compile times measure; tuned rows find what earlier rounds measured.
  if (!is_for_tuned_rows()) ::setenv("SINTER_CACHE_MB", "0", 0);
  benchmark::AddCustomContext("processor", processor_name());
  benchmark::AddCustomContext("compiler", compiler_name());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return has_wrong_result ? 1 : 0;
}

}  // namespace bench
