// Measures calls: in turn whole ones that nobody watches and ones whose steps are timed, then ones whose instructions
// are counted. Medians throughout: a machine that does other things besides slows a few calls, not the middle one.
#pragma once

#include <sinter/jit/observe/profile.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/jit/compile.hpp>
#include <sinter/jit/observe/counters.hpp>
#include <sinter/runtime/watch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
using ProfileClock = std::chrono::steady_clock;
inline double nanoseconds_since(ProfileClock::time_point start) {
  return std::chrono::duration<double, std::nano>(ProfileClock::now() - start).count();
}
inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Adds up the steps of each call, those with the same kernel, back end and lines as one.
class StepTimes final : public StepListener {
 public:
  struct Row {
    ProfileRow row;
    std::int64_t runs = 0;      // all calls together
    double in_call = 0;         // nanoseconds of this call so far
    std::vector<double> calls;  // nanoseconds of each call
    std::uint64_t cycles = 0, instructions = 0;
    DType computed = DType::f32;
  };
  explicit StepTimes(const ThreadCounters* counters) : counters_(counters) {}

  bool needs_steps_alone() const override { return counters_ != nullptr; }
  void begin(const PlanStep&) override { open_.push_back({0, counters_ != nullptr ? counters_->read() : Counts{}}); }
  void end(const PlanStep& step, Device device, const StepCost& cost, std::int64_t nanoseconds) override {
    const Counts now = counters_ != nullptr ? counters_->read() : Counts{};
    const Open own = open_.back();
    open_.pop_back();
    if (!open_.empty()) open_.back().inside += static_cast<double>(nanoseconds);
    Row& row = row_of(step, device);
    ++row.runs;
    row.row.bytes += cost.bytes;
    row.row.flops += cost.flops;
    row.in_call += std::max(0.0, static_cast<double>(nanoseconds) - own.inside);
    row.cycles += now.cycles - own.start.cycles;
    row.instructions += now.instructions - own.start.instructions;
  }
  void end_call() {
    ++calls_;
    for (auto& [key, row] : rows_) row.calls.push_back(std::exchange(row.in_call, 0));
  }
  std::map<std::string, Row>& rows() { return rows_; }
  std::int64_t calls() const { return calls_; }

 private:
  struct Open {
    double inside;  // nanoseconds of the steps inside it
    Counts start;
  };
  Row& row_of(const PlanStep& step, Device device) {
    ProfileRow row;
    row.name = step.name;
    row.kind = step.host ? "host" : name(step.kernel.kind);
    row.backend = step.backend;
    row.device = device;
    row.lines = lines_of(step);
    Row& known = rows_[row.name + "\n" + row.backend + "\n" + device.text() + "\n" + row.lines];
    if (known.runs > 0) return known;
    known.row = std::move(row);
    for (const Operand& operand : step.kernel.operands)
      if (operand.dtype == DType::f64) known.computed = DType::f64;
    return known;
  }
  const ThreadCounters* counters_;
  std::vector<Open> open_;
  std::map<std::string, Row> rows_;
  std::int64_t calls_ = 0;
};

/// The shortest time of a call's kernels, of a few.
template <class Call>
double shortest_kernel(int calls, Call&& call) {
  double shortest = 0;
  for (int i = 0; i < calls; ++i) {
    StepTimes times(nullptr);
    {
      const ListenToSteps listening(times);
      call();
    }
    times.end_call();
    double all = 0;
    for (auto& [key, row] : times.rows()) all += row.calls.back();
    if (i == 0 || all < shortest) shortest = all;
  }
  return shortest;
}

inline double stream_speed(Device device, std::int64_t bytes) {
  const std::int64_t count = bytes / (3 * 4);
  const Tensor a = ones({count}, {.dtype = DType::f32, .device = device}),
               b = ones({count}, {.dtype = DType::f32, .device = device});
  const auto add = compile([](Tensor x, Tensor y) { return x + y; });
  const int calls = bytes > (8 << 20) ? 8 : 60;
  add(a, b);
  const double spent = shortest_kernel(calls, [&] { add(a, b); });
  return spent > 0 ? static_cast<double>(count) * 12 / spent : 0;
}
/// Of products that are done within a time slice, and of larger ones, which keep more threads busy: the best.
inline double product_speed(Device device, DType dtype) {
  const auto product = compile([](Tensor x, Tensor y) { return matmul(x, y); });
  double best = 0;
  for (const std::int64_t n : {std::int64_t{384}, std::int64_t{device == Device::cpu() ? 1024 : 4096}}) {
    const TensorOptions options{.dtype = dtype, .device = device};
    const Tensor a = ones({n, n}, options), b = ones({n, n}, options);
    product(a, b);
    const double spent = shortest_kernel(n < 1000 ? 30 : 4, [&] { product(a, b); });
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    if (spent > 0) best = std::max(best, flops / spent);
  }
  return best;
}
inline MachineLimits measured_limits(Device device) {
  MachineLimits limits;
  limits.device = device;
  constexpr std::int64_t kilobyte = 1024;
  for (const std::int64_t size : {24 * kilobyte, 192 * kilobyte, 1536 * kilobyte, 12288 * kilobyte, 98304 * kilobyte})
    limits.streams.push_back({size, stream_speed(device, size)});
  limits.gigaflops_f32 = product_speed(device, DType::f32);
  limits.gigaflops_f64 = product_speed(device, DType::f64);
  return limits;
}

inline void add_share_of_limit(ProfileRow& row, const MachineLimits& limits, DType computed) {
  const double stream = limits.gigabytes_per_second(row.bytes / std::max<std::int64_t>(1, row.runs));
  const double flops = computed == DType::f64 ? limits.gigaflops_f64 : limits.gigaflops_f32;
  const double moving = stream > 0 ? static_cast<double>(row.bytes) / stream : 0;
  const double computing = flops > 0 ? static_cast<double>(row.flops) / flops : 0;
  row.is_memory_bound = moving >= computing;
  if (row.nanoseconds > 0 && row.kind != "host") row.share_of_limit = std::max(moving, computing) / row.nanoseconds;
}

inline Profile profile_of(StepTimes& times) {
  Profile profile;
  profile.calls = times.calls();
  for (auto& [key, timed] : times.rows()) {
    ProfileRow row = std::move(timed.row);
    row.runs = std::max<std::int64_t>(1, timed.runs / std::max<std::int64_t>(1, times.calls()));
    row.bytes /= std::max<std::int64_t>(1, times.calls());
    row.flops /= std::max<std::int64_t>(1, times.calls());
    row.nanoseconds = median_of(timed.calls);
    profile.kernel_nanoseconds += row.nanoseconds;
    profile.rows.push_back(std::move(row));
  }
  return profile;
}

/// Calls it until the time is spent; at least three times.
template <class Call>
void call_for(double seconds, std::int64_t most, Call&& call) {
  const auto start = ProfileClock::now();
  for (std::int64_t i = 0; i < most && (i < 3 || nanoseconds_since(start) < seconds * 1e9); ++i) call();
}

SINTER_DECL void finish(const Tensor& result) { eval(result); }

/// Instructions of the calling thread, in calls of their own: reading the counters takes longer than a small kernel.
inline void count_instructions(Profile& profile, void (*call)(const void* object), const void* object,
                               const ProfileOptions& options) {
  const ThreadCounters counters;
  profile.counters = counters.why_not();
  if (!counters.is_on()) return;
  StepTimes counted(&counters);
  call_for(options.seconds / 6, options.max_calls, [&] {
    const ListenToSteps listening(counted);
    call(object);
  });
  for (auto& [key, row] : counted.rows())
    for (ProfileRow& known : profile.rows)
      if (known.name == row.row.name && known.lines == row.row.lines && row.cycles > 0)
        known.instructions_per_cycle = static_cast<double>(row.instructions) / static_cast<double>(row.cycles);
}

inline void add_limits(Profile& profile, const std::map<std::string, DType>& computed) {
  for (ProfileRow& row : profile.rows) {
    const MachineLimits& limits = machine_limits(row.device);
    const auto dtype = computed.find(row.name + row.lines);
    add_share_of_limit(row, limits, dtype == computed.end() ? DType::f32 : dtype->second);
    const auto is_known = [&](const MachineLimits& known) { return known.device == limits.device; };
    if (std::none_of(profile.limits.begin(), profile.limits.end(), is_known)) profile.limits.push_back(limits);
  }
}

SINTER_DECL Profile profile_calls(void (*call)(const void* object), const void* object, const ProfileOptions& options) {
  if (!(options.seconds > 0) || options.max_calls < 1)
    throw UserError(
        "profile",
        "seconds is " + std::to_string(options.seconds) + " and max_calls " + std::to_string(options.max_calls), {},
        "give a time above 0 and at least one call");
#ifdef SINTER_NO_TIMELINE
  throw UserError("profile", "this program was built with SINTER_NO_TIMELINE", {}, "build it without");
#endif
  for (int i = 0; i < 2; ++i) call(object);  // compiles, and checks what first calls check
  std::vector<double> whole;
  StepTimes times(nullptr);
  call_for(options.seconds, options.max_calls, [&] {  // one after the other, so that both see the same machine
    const auto start = ProfileClock::now();
    call(object);
    whole.push_back(nanoseconds_since(start));
    {
      const ListenToSteps listening(times);
      call(object);
    }
    times.end_call();
  });
  std::map<std::string, DType> computed;
  for (auto& [key, row] : times.rows()) computed[row.row.name + row.row.lines] = row.computed;
  Profile profile = profile_of(times);
  profile.call_nanoseconds = median_of(std::move(whole));
  if (options.counters) count_instructions(profile, call, object, options);
  if (options.limits) add_limits(profile, computed);
  std::sort(profile.rows.begin(), profile.rows.end(),
            [](const ProfileRow& a, const ProfileRow& b) { return a.nanoseconds > b.nanoseconds; });
  return profile;
}

}  // namespace jit_detail

SINTER_DECL double MachineLimits::gigabytes_per_second(std::int64_t bytes) const {
  for (const Stream& stream : streams)
    if (bytes <= stream.bytes) return stream.gigabytes_per_second;
  return streams.empty() ? 0 : streams.back().gigabytes_per_second;
}

SINTER_DECL const MachineLimits& machine_limits(Device device) {
  struct Known {
    ForkSafeMutex mutex;
    std::map<std::string, std::unique_ptr<const MachineLimits>> limits;
  };
  Known& known = process_object<Known>();
  const std::string name = device.text();
  {
    const std::scoped_lock lock(known.mutex);
    if (const auto found = known.limits.find(name); found != known.limits.end()) return *found->second;
  }
  auto measured = std::make_unique<const MachineLimits>(jit_detail::measured_limits(device));
  const std::scoped_lock lock(known.mutex);
  return *known.limits.try_emplace(name, std::move(measured)).first->second;
}

SINTER_DECL std::string Profile::text() const {
  char line[256];
  std::snprintf(line, sizeof line, "%.3f us a call; %.3f us in %zu kernels, of %lld calls\n", call_nanoseconds / 1000,
                kernel_nanoseconds / 1000, rows.size(), static_cast<long long>(calls));
  std::string text = line;
  const bool has_counters =
      std::any_of(rows.begin(), rows.end(), [](const ProfileRow& row) { return row.instructions_per_cycle > 0; });
  text += "   us/call  of all  runs     GB/s  GFLOP/s  of the limit  ";
  text += has_counters ? " IPC  kernel\n" : "kernel\n";
  for (const ProfileRow& row : rows) {
    std::snprintf(line, sizeof line, "%10.3f  %4.0f %%  %4lld  %7.2f  %7.2f  ", row.nanoseconds / 1000,
                  kernel_nanoseconds > 0 ? 100 * row.nanoseconds / kernel_nanoseconds : 0,
                  static_cast<long long>(row.runs), row.gigabytes_per_second(), row.gigaflops());
    text += line;
    if (row.share_of_limit > 0)
      std::snprintf(line, sizeof line, "%3.0f %% %-7s  ", 100 * row.share_of_limit,
                    row.is_memory_bound ? "memory" : "compute");
    else std::snprintf(line, sizeof line, "%12s  ", "-");
    text += line;
    if (has_counters) {
      std::snprintf(line, sizeof line, "%4.1f  ", row.instructions_per_cycle);
      text += line;
    }
    text += row.name + " [" + row.backend + (row.device == Device::cpu() ? "" : " on " + row.device.text()) + "]";
    text += (row.lines.empty() ? "" : " from " + row.lines) + "\n";
  }
  return counters.empty() ? text : text + counters + "\n";
}
SINTER_DECL std::ostream& operator<<(std::ostream& out, const Profile& profile) { return out << profile.text(); }

}  // namespace jit
SINTER_NAMESPACE_END
