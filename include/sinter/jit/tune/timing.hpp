// One measurement at a time: candidates timed in turns, and who of them wins against the default.
#pragma once

#include <sinter/base/background.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/thread_limit.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/schedule.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/tensor/device.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <time.h>  // clock_gettime

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {
namespace tuner_detail {

inline constexpr double default_seconds = 2;
inline constexpr double gain_wanted = 0.97;  // of the default's time
inline constexpr std::size_t most_bytes = std::size_t{2} << 30, most_device_bytes = std::size_t{6} << 30;
inline constexpr std::int64_t most_packed_bytes = std::int64_t{1} << 28;  // of a version's constants
inline constexpr int rounds = 9, least_rounds = 3, confirming_rounds = 15;
inline constexpr double seconds_until_later = 0.05;     // between a win and the time when it must be one again
inline constexpr double shortest_sample = 30e-6;        // seconds; shorter launches are timed several at once
inline constexpr double shortest_device_sample = 1e-3;  // waiting for a device takes some microseconds

inline std::atomic<bool>& is_measuring() {
  static constinit std::atomic<bool> is{false};
  return is;
}
/// Measurements of two threads would disturb each other.
class Measuring {
 public:
  /// Waits for the other, but not inside a section: fork() waits for those, and may be what the other waits for.
  Measuring() {
    in_forked_child([] { is_measuring() = false; });
    const bool may_wait = base_detail::fork_section_depth() == 0;
    while (!(has_begun_ = !is_measuring().exchange(true)) && may_wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Measuring() {
    if (has_begun_) is_measuring() = false;
  }
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;
  bool has_begun() const { return has_begun_; }

 private:
  bool has_begun_ = false;
};

/// What may be spent on one kernel, or on plans.
class Allowance {
 public:
  explicit Allowance(double seconds) : seconds_(seconds) {}
  double spent() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  bool is_left(double part = 1) const {
    return !base_detail::is_background_stopping.load(std::memory_order_relaxed) && spent() < part * seconds_;
  }
  double seconds() const { return seconds_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double seconds_;
};
/// Until when others are compiled and compared; the rest is for timing what is there then. A device's compiler takes
/// most of the time.
inline constexpr double part_to_verify(Device device) { return device == Device::cpu() ? 1.0 / 3 : 0.75; }

struct Candidate {
  Schedule schedule;
  std::unique_ptr<Launch> launch;
  std::vector<double> times{};
  /// The median, in seconds.
  double time() const;
};

inline double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}
inline double Candidate::time() const { return median(times); }
inline std::string microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", seconds * 1e6);
  return text;
}

/// Significant ones, with a point in every locale: programs read them.
inline std::string digits(double value, int count) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, count).ptr};
}

/// Who is timed, the default first, and who gave other bits.
struct Field {
  std::vector<Candidate> candidates;
  std::string rejected;
  std::int64_t rejections = 0;
  bool is_late = false;       // there was no time to try another than the default
  bool is_too_large = false;  // two plans do not fit

  void reject(const Schedule& schedule) {
    rejected += (rejected.empty() ? "" : ", ") + schedule.text();
    ++rejections;
  }
};
/// Threads that kernels of this thread use.
inline int threads_here() {
  const int limit = base_detail::thread_limit();  // of this thread's scopes
  return limit > 0 ? std::min(limit, thread_count()) : thread_count();
}
/// Seconds of a clock. Of work that this thread does alone it is the thread's own, which what else runs on the machine
/// does not lengthen.
enum class Clock : std::uint8_t { machine, thread };
inline double seconds_by(Clock clock) {
  timespec now{};
  ::clock_gettime(clock == Clock::thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
/// Seconds of one launch, of as many that the clock is fine enough.
template <class Operands>
double time_of(Launch& launch, const Operands& operands, int launches) {
  const Clock clock = operands.is_on_host() && threads_here() == 1 ? Clock::thread : Clock::machine;
  const double start = seconds_by(clock);
  for (int i = 0; i < launches; ++i) launch.run(operands.bases());
  operands.wait();
  return (seconds_by(clock) - start) / launches;
}
/// As many launches that the clock is fine enough for them.
template <class Operands>
int launches_in_a_sample(Launch& launch, const Operands& operands) {
  const double once = std::min(time_of(launch, operands, 1), time_of(launch, operands, 1));
  const double shortest = operands.is_on_host() ? shortest_sample : shortest_device_sample;
  return static_cast<int>(std::clamp(shortest / std::max(once, 1e-9), 1.0, 1000.0));
}

/// What takes twice the default's time when it is run alone is not timed further. False: not even the default's time
/// leaves room for three rounds.
template <class Operands>
bool drop_slow(std::vector<Candidate>& candidates, const Operands& operands, const Allowance& time) {
  const auto seconds_of = [&](const Candidate& candidate) {
    return std::min(time_of(*candidate.launch, operands, 1), time_of(*candidate.launch, operands, 1));
  };
  const double once = seconds_of(candidates.front());
  if (6 * once > time.seconds()) return false;
  for (std::size_t i = 1; i < candidates.size();)
    if (time.is_left() && seconds_of(candidates[i]) > 2 * once + shortest_sample)
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i));
    else ++i;
  return true;
}

/// Whether the candidate, timed with the default alone, is faster by what is wanted: in the median, at its best, which
/// others that use the machine disturb least, and at all in three of four turns.
template <class Operands>
bool gains(Candidate& candidate, Candidate& standard, const Operands& operands, int launches, const Allowance& time) {
  candidate.times.clear();
  standard.times.clear();
  int turns = 0, wins = 0;
  for (; turns < confirming_rounds && (turns < least_rounds || time.is_left()); ++turns) {
    standard.times.push_back(time_of(*standard.launch, operands, launches));
    candidate.times.push_back(time_of(*candidate.launch, operands, launches));
    wins += candidate.times.back() < standard.times.back() ? 1 : 0;
  }
  const auto best = [](const Candidate& of) { return *std::min_element(of.times.begin(), of.times.end()); };
  return candidate.time() < standard.time() * gain_wanted && best(candidate) < best(standard) * gain_wanted &&
         4 * wins >= 3 * turns;
}

/// The default, unless another is faster by what is wanted, which may be luck: then both are timed once more, alone.
template <class Operands>
Candidate& winner_of(std::vector<Candidate>& candidates, Candidate& fastest, const Operands& operands, int launches,
                     const Allowance& time) {
  Candidate& standard = candidates.front();
  if (!(fastest.time() < standard.time() * gain_wanted)) return standard;
  return gains(fastest, standard, operands, launches, time) ? fastest : standard;
}

/// Waits until what has been measured at `then` can be measured again, at another time.
inline void wait_until_later(std::chrono::steady_clock::time_point then) {
  std::this_thread::sleep_until(then + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                           std::chrono::duration<double>(seconds_until_later)));
}

/// Times those in turns, as long as there is time. How many rounds were done.
template <class Operands>
int time_in_turns(std::span<Candidate* const> candidates, const Operands& operands, int launches,
                  const Allowance& time) {
  int done = 0;
  for (; done < rounds && time.is_left(); ++done)
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      Candidate& candidate = *candidates[(i + as_index(done)) % candidates.size()];
      candidate.times.push_back(time_of(*candidate.launch, operands, launches));
    }
  return done;
}
template <class Operands>
int time_in_turns(std::vector<Candidate>& candidates, const Operands& operands, int launches, const Allowance& time) {
  std::vector<Candidate*> all;
  for (Candidate& candidate : candidates) all.push_back(&candidate);
  return time_in_turns(std::span<Candidate* const>(all), operands, launches, time);
}

inline Candidate& fastest_of(std::vector<Candidate>& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(),
                           [](const Candidate& a, const Candidate& b) { return a.time() < b.time(); });
}

inline std::string result_text(const Field& field, const Candidate& winner, const Candidate& fastest) {
  const Candidate& standard = field.candidates.front();
  std::string text = winner.schedule.text() + ", " + microseconds(winner.time()) + ", of " +
                     std::to_string(field.candidates.size()) + " schedules; ";
  text += &winner != &standard ? "the default takes " + microseconds(standard.time())
                               : "no candidate gained 3 %: the fastest was " + fastest.schedule.text() + ", " +
                                     microseconds(fastest.time());
  return field.rejected.empty() ? text : text + "; other bits: " + field.rejected;
}

}  // namespace tuner_detail
}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
