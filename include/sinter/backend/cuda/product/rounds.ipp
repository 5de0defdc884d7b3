// Rounds until one candidate is left or all have had theirs.
#pragma once

#include <sinter/backend/cuda/product/rounds.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/timeline.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

class Rounds {
 public:
  Rounds(std::size_t count, const CandidateTimer& time) : time_(time), found_(count), middle_(count, not_timed) {}

  std::vector<double> run() {
    constexpr int most_rounds = 7, long_rounds = 4;
    constexpr auto budget = std::chrono::milliseconds(100);
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < most_rounds; ++round) {
      const double best = least();
      const bool is_long = round > 0 && best > long_microseconds;
      if (is_long && round >= long_rounds) break;
      const auto& behind = is_long ? long_behind : short_behind;
      const double limit = round == 0 ? best : best * behind[std::min(as_index(round) - 1, behind.size() - 1)];
      const auto is_in = [&](std::size_t i) { return round == 0 || (middle_[i] > 0 && middle_[i] <= limit); };
      std::size_t left = 0;
      for (std::size_t i = 0; i < middle_.size(); ++i) left += is_in(i) ? 1 : 0;
      if (round > 0 && left < 2) break;
      for (std::size_t i = 0; i < middle_.size(); ++i)
        if (is_in(i) && (round < 2 || std::chrono::steady_clock::now() - start < budget)) take_turn(i, round, is_long);
    }
    return middle_;
  }

 private:
  static constexpr double not_timed = -1, long_microseconds = 500;
  /// How many times as slow as the best a candidate may be after each round. One long run tells more than a short one.
  static constexpr std::array<double, 3> short_behind{1.4, 1.2, 1.1}, long_behind{1.2, 1.06, 1.03};

  double least() const {
    double best = std::numeric_limits<double>::infinity();
    for (const double m : middle_)
      if (m > 0) best = std::min(best, m);
    return best;
  }
  void take_turn(std::size_t i, int round, bool is_long) {
    constexpr int most_times = 20, long_times = 3;
    constexpr double round_microseconds = 200;
    try {
      if (round == 0) {  // code is loaded, caches are filled
        const TimelineSpan span("load", "run a candidate for the first time");
        time_(i, 1);
      }
      const int short_times = std::clamp(static_cast<int>(round_microseconds / middle_[i]), 1, most_times);
      const double now = time_(i, round == 0 ? 1 : is_long ? long_times : short_times);
      std::vector<double>& found = found_[i];
      if (round == 1) found.clear();  // the first was alone, to see how many are needed
      found.push_back(now);
      std::vector<double> sorted = found;
      const auto half = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
      std::nth_element(sorted.begin(), half, sorted.end());
      middle_[i] = std::max(*half, 1e-3);
    } catch (const std::exception&) {
      middle_[i] = not_timed;
      found_[i].clear();
    }
  }

  const CandidateTimer& time_;
  std::vector<std::vector<double>> found_;
  std::vector<double> middle_;
};

SINTER_DECL std::vector<double> medians_of_rounds(std::size_t count, const CandidateTimer& time) {
  return Rounds(count, time).run();
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
