// Operands to measure with, the measurement, and keys.
#pragma once

#include <sinter/jit/tune/tuner.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/thread_limit.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/kernel/cost_constants.hpp>
#include <sinter/kernel/kernel_key.hpp>
#include <sinter/runtime/kernel_cache.hpp>
#include <sinter/runtime/tuning_store.hpp>
#include <sinter/tensor/device_memory.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {
namespace tuner_detail {

inline constexpr double default_seconds = 2;
inline constexpr double gain_wanted = 0.97;  // of the default's time
inline constexpr std::size_t most_bytes = std::size_t{2} << 30, most_device_bytes = std::size_t{6} << 30;
inline constexpr int rounds = 9, confirming_rounds = 15;
inline constexpr double shortest_sample = 30e-6;        // seconds; shorter launches are timed several at once
inline constexpr double shortest_device_sample = 1e-3;  // waiting for a device takes some microseconds

// ---- operands -------------------------------------------------------------------------------------------------------

/// Numbers from 0.25 to 1.25, with signs where those are wanted; whole numbers from 1 to 4, or zeros, which are valid
/// as indices.
enum class Fill : std::uint8_t { positive, signed_, indices };

inline void fill(std::span<std::byte> memory, DType dtype, Fill how) {
  const std::size_t period = 65521 * as_index(size_of(dtype));  // a prime: lines of no operand are all alike
  if (memory.size() > period) {
    fill(memory.first(period), dtype, how);
    for (std::size_t at = period; at < memory.size(); at += period)
      std::memcpy(memory.data() + at, memory.data(), std::min(period, memory.size() - at));
    return;
  }
  std::uint64_t state = 0x9E3779B97F4A7C15;
  const auto next = [&] { return (state = state * 6364136223846793005 + 1442695040888963407) >> 33; };
  const std::size_t size = as_index(size_of(dtype));
  for (std::size_t at = 0; at + size <= memory.size(); at += size) {
    const std::uint64_t bits = next();
    const double sign = how == Fill::signed_ && bits % 2 != 0 ? -1 : 1;
    const double number = sign * (0.25 + static_cast<double>(bits >> 8 & 0xFFFF) / 65536);
    const auto put = [&](auto value) { std::memcpy(memory.data() + at, &value, sizeof value); };
    if (dtype == DType::f32) put(static_cast<float>(number));
    else if (dtype == DType::f64) put(number);
    else if (dtype == DType::bf16)
      put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(number)) >> 16));
    else if (dtype == DType::f16)
      put(static_cast<std::uint16_t>((sign < 0 ? 0x8000u : 0u) | 0x3400u | (bits & 0x7FFu)));
    else if (how != Fill::indices && size <= 8) memory[at] = std::byte(dtype == DType::bool_ ? bits & 1 : 1 + bits % 4);
  }
}

/// Memory for what a kernel may touch, from the operand's base on. On a GPU it is there, and the host keeps none of it.
class Operands {
 public:
  Operands(const Kernel& kernel, const BoundGeometry& geometry, Device device) : kernel_(kernel), device_(device) {
    if (device_ != Device::cpu()) on_device_ = &device_memory(device_, "max_autotune");
    ranges_.resize(kernel.operands.size(), {0, 0});
    for (std::size_t a = 0; a < kernel.accesses.size(); ++a) include(geometry, a);
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      bytes_ += as_index((ranges_[i].second - ranges_[i].first) * size_of(kernel.operands[i].dtype));
  }
  std::size_t bytes() const { return bytes_; }
  void allocate(Fill how) {
    memory_.resize(ranges_.size());
    bases_.assign(ranges_.size(), nullptr);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const std::int64_t size = size_of(kernel_.operands[i].dtype);
      const std::size_t count = as_index((ranges_[i].second - ranges_[i].first) * size);
      memory_[i].assign(count + 192, std::byte{});
      // What is touched first has the alignment of an allocation, and room after it as there.
      const auto skew = reinterpret_cast<std::uintptr_t>(memory_[i].data()) % 64;
      std::byte* const address = memory_[i].data() + (skew == 0 ? 0 : 64 - skew);
      fill({address, count}, kernel_.operands[i].dtype, how);
      bases_[i] = address - ranges_[i].first * size;
    }
    if (on_device_ == nullptr) return;
    places_.clear();
    host_ = bases_;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      places_.push_back(Storage::allocate(bytes_of(i) + 192, device_));
      on_device_->copy(places_[i]->data(), device_, first_of(i), Device::cpu(), bytes_of(i));
      bases_[i] = static_cast<std::byte*>(places_[i]->data()) - ranges_[i].first * size_of(kernel_.operands[i].dtype);
    }
    memory_.clear();  // a copy to a device returns when the source has been read
    host_.clear();
  }
  void* const* bases() const { return bases_.data(); }
  /// Waits for what was enqueued.
  void wait() const {
    if (on_device_ != nullptr) on_device_->synchronise(device_);
  }
  bool is_on_host() const { return on_device_ == nullptr; }
  bool has_same_results(const Operands& other) const {
    if (on_device_ != nullptr) {
      for (std::size_t i = 0; i < ranges_.size(); ++i) {
        std::vector<std::byte> own(bytes_of(i)), others(bytes_of(i));
        on_device_->copy(own.data(), Device::cpu(), places_[i]->data(), device_, own.size());
        on_device_->copy(others.data(), Device::cpu(), other.places_[i]->data(), device_, others.size());
        if (own != others) return false;
      }
      return true;
    }
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const std::int64_t size = size_of(kernel_.operands[i].dtype);
      const std::int64_t first = ranges_[i].first * size, count = ranges_[i].second * size - first;
      if (count > 0 && std::memcmp(static_cast<std::byte*>(bases_[i]) + first,
                                   static_cast<std::byte*>(other.bases_[i]) + first, as_index(count)) != 0)
        return false;
    }
    return true;
  }

 private:
  std::size_t bytes_of(std::size_t i) const {
    return as_index((ranges_[i].second - ranges_[i].first) * size_of(kernel_.operands[i].dtype));
  }
  const std::byte* first_of(std::size_t i) const {
    return static_cast<std::byte*>(host_[i]) + ranges_[i].first * size_of(kernel_.operands[i].dtype);
  }
  void include(const BoundGeometry& geometry, std::size_t a) {
    const BoundGeometry::AccessNumbers& access = geometry.accesses[a];
    std::int64_t low = access.offset, high = access.offset;
    const auto stretch = [&](std::int64_t extent, std::int64_t stride) {
      (stride < 0 ? low : high) += (extent - 1) * stride;
    };
    for (int axis = 0; axis < kernel_.rank(); ++axis)
      stretch(geometry.extent[as_index(axis)], access.stride[as_index(axis)]);
    if (access.gather_extent > 0) stretch(access.gather_extent, access.gather_stride);
    auto& [first, end] = ranges_[kernel_.accesses[a].operand];
    first = first == end ? low : std::min(first, low);
    end = std::max(end, high + 1);
  }
  const Kernel& kernel_;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;  // elements from the operand's base
  std::size_t bytes_ = 0;
  Device device_;
  DeviceMemory* on_device_ = nullptr;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Ref<Storage>> places_;  // on the device
  std::vector<void*> bases_, host_;
};

// ---- one measurement at a time --------------------------------------------------------------------------------------

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

// ---- keys -----------------------------------------------------------------------------------------------------------

/// Extents by their size in powers of two, and whether whole vectors fit; strides as 0, 1 and others.
inline std::string class_of(const Kernel& kernel, const BoundGeometry& geometry) {
  std::string text;
  for (int axis = 0; axis < kernel.rank(); ++axis) {
    const std::int64_t extent = geometry.extent[as_index(axis)];
    text += (text.empty() ? "" : "x") + std::to_string(std::bit_width(static_cast<std::uint64_t>(extent)));
    if (extent % 16 != 0) text += "r";
  }
  for (const auto& access : geometry.accesses) {
    text += " ";
    for (int axis = 0; axis < kernel.rank(); ++axis) {
      const std::int64_t stride = access.stride[as_index(axis)];
      text += stride == 0 ? "0" : stride == 1 ? "1" : "n";
    }
  }
  return text;
}
/// Three fields (tools/fit_costs). A device's is no matter of the host, nor of its number among devices: its back end
/// says what it is.
inline std::string machine_of(const Backend& backend) {
  std::string key = backend.cache_key();
  if (backend.device() != Device::cpu()) {
    const std::string device = backend.device().text() + " ";
    return std::string(backend.name()) + "; " + (key.starts_with(device) ? key.substr(device.size()) : key);
  }
  const int limit = base_detail::thread_limit();  // of this thread's scopes
  const int threads = limit > 0 ? std::min(limit, thread_count()) : thread_count();
  static const auto& processor = process_object([] { return new std::string(runtime_detail::processor_text()); });
  return processor + "; " + std::string(backend.name()) + " " + key + "; threads " + std::to_string(threads);
}
inline std::string key_of(const Backend& backend, const Kernel& kernel, const BoundGeometry& geometry) {
  const Hash128 hash = Hasher{}.add(std::string_view(KeyWriter().add(kernel).bytes())).finish();
  char hex[40];
  std::snprintf(hex, sizeof hex, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return SINTER_VERSION_STRING "; " + machine_of(backend) + "; " + std::string(name(kernel.kind)) + " " +
         class_of(kernel, geometry) + "; " + hex;
}

}  // namespace tuner_detail

SINTER_DECL Tuner::Tuner(double seconds, std::vector<std::int64_t> sizes, Location where)
    : sizes_(std::move(sizes)), where_(where), seconds_(seconds > 0 ? seconds : tuner_detail::default_seconds) {}
SINTER_DECL Tuner::~Tuner() {
  if (has_measured_) runtime_detail::write_tuning();
}

SINTER_DECL void Tuner::report(const Kernel& kernel, const std::string& text) const {
  if (is_logged("autotune"))
    note("autotune", where_.text() + ": " + std::string(name(kernel.kind)) + " kernel of " +
                         std::to_string(kernel.body.size()) + " instructions: " + text);
}

SINTER_DECL Schedule Tuner::choose(Backend& backend, const Kernel& kernel, const SymbolicGeometry& geometry) {
  const std::vector<Schedule> schedules = backend.schedules(kernel);
  if (schedules.size() < 2) return {};
  const BoundGeometry bound = sinter::bind(geometry, sizes_);
  for (int axis = 0; axis < kernel.rank(); ++axis)
    if (bound.extent[as_index(axis)] < 1) return {};
  const std::string key = tuner_detail::key_of(backend, kernel, bound);
  if (const std::optional<std::string> known = runtime_detail::find_tuning(key)) {
    const std::string_view text = runtime_detail::schedule_in(*known);
    const std::optional<Schedule> schedule = parse_schedule(text);
    if (schedule && std::find(schedules.begin(), schedules.end(), *schedule) != schedules.end()) {
      runtime_detail::count_tuning({.found = 1});
      report(kernel, std::string(text) + ", which was measured before");
      return *schedule;
    }
  }
  try {
    return measure(backend, kernel, bound, key, schedules);
  } catch (const Error& error) {
    return leave_default(kernel, 0, "it cannot be measured: " + std::string(error.what()));
  } catch (const std::bad_alloc&) { return leave_default(kernel, 0, "there is no memory to measure it with"); }
}

namespace tuner_detail {
/// Seconds of one launch, of as many that the clock is fine enough.
inline double time_of(Launch& launch, const Operands& operands, int launches) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) launch.run(operands.bases());
  operands.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / launches;
}
/// What the default leaves in memory for one kind of operands, and whether others leave the same there.
class Expected {
 public:
  Expected(Launch& standard, const Kernel& kernel, const BoundGeometry& geometry, Device device, Fill how)
      : expected_(kernel, geometry, device), actual_(kernel, geometry, device), how_(how) {
    expected_.allocate(how);
    standard.run(expected_.bases());
  }
  bool is_given_by(Launch& launch) {
    actual_.allocate(how_);
    launch.run(actual_.bases());
    return actual_.has_same_results(expected_);
  }

 private:
  Operands expected_, actual_;
  Fill how_;
};
}  // namespace tuner_detail

namespace tuner_detail {
/// Who is timed, the default first, and who gave other bits.
struct Field {
  std::vector<Candidate> candidates;
  std::string rejected;
  std::int64_t rejections = 0;
};
/// Those that `may_go_on` leaves time for.
template <class F>
Field candidates_of(Backend& backend, const Kernel& kernel, const BoundGeometry& geometry,
                    const std::vector<Schedule>& schedules, Fill fill, const F& may_go_on) {
  Field field;
  std::vector<std::unique_ptr<Expected>> expected;
  const Fill other = fill == Fill::indices ? Fill::indices : Fill::signed_;
  for (const Schedule& schedule : schedules) {
    if (!may_go_on()) break;
    const auto code = compiled_kernel(backend, kernel, schedule);
    if (code == nullptr) continue;
    Candidate candidate{schedule, code->bind(geometry)};
    if (field.candidates.empty()) {
      for (const Fill how : {fill, other})
        if (expected.empty() || other != fill)
          expected.push_back(std::make_unique<Expected>(*candidate.launch, kernel, geometry, backend.device(), how));
    } else if (!std::all_of(expected.begin(), expected.end(),
                            [&](const auto& each) { return each->is_given_by(*candidate.launch); })) {
      field.rejected += (field.rejected.empty() ? "" : ", ") + schedule.text();
      ++field.rejections;
      continue;
    }
    field.candidates.push_back(std::move(candidate));
  }
  return field;
}

/// As many launches that the clock is fine enough for them.
inline int launches_in_a_sample(Launch& launch, const Operands& operands) {
  const double once = std::min(time_of(launch, operands, 1), time_of(launch, operands, 1));
  const double shortest = operands.is_on_host() ? shortest_sample : shortest_device_sample;
  return static_cast<int>(std::clamp(shortest / std::max(once, 1e-9), 1.0, 1000.0));
}

/// The default, unless another is faster by what is wanted, which may be luck: then both are timed once more, alone.
inline Candidate& winner_of(std::vector<Candidate>& candidates, Candidate& fastest, const Operands& operands,
                            int launches) {
  Candidate& standard = candidates.front();
  const auto gains = [&] { return fastest.time() < standard.time() * gain_wanted; };
  if (!gains()) return standard;
  fastest.times.clear();
  standard.times.clear();
  for (int i = 0; i < confirming_rounds; ++i) {
    standard.times.push_back(time_of(*standard.launch, operands, launches));
    fastest.times.push_back(time_of(*fastest.launch, operands, launches));
  }
  return gains() ? fastest : standard;
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

SINTER_DECL Schedule Tuner::leave_default(const Kernel& kernel, std::int64_t rejections, const std::string& why) const {
  runtime_detail::count_tuning({.rejected = rejections, .unfinished = 1});
  report(kernel, "default, for " + why);
  return {};
}

SINTER_DECL Schedule Tuner::measure(Backend& backend, const Kernel& kernel, const BoundGeometry& geometry,
                                    const std::string& key, const std::vector<Schedule>& schedules) {
  using namespace tuner_detail;
  Operands operands(kernel, geometry, backend.device());
  // There are five copies: two kinds, each of the default and of who is compared, and what is timed.
  if (operands.bytes() > (operands.is_on_host() ? most_bytes : most_device_bytes) / 5)
    return leave_default(
        kernel, 0,
        "five copies of its operands are larger than " + std::string(operands.is_on_host() ? "2" : "6") + " GiB");
  if (spent_ >= seconds_) return leave_default(kernel, 0, "no time is left (Options::tune_seconds)");
  const TimelineSpan span("compile", "measure schedules");
  const Measuring alone;
  if (!alone.has_begun())
    return leave_default(kernel, 0, "another thread measures, and this one holds what fork() waits for");
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const double limit = std::max((seconds_ - spent_) / 2, seconds_ / 20);  // of this kernel, for there may be others
  const auto may_go_on = [&] { return elapsed() < limit; };
  const Fill fill = checks_indices(kernel) || kernel.kind == KernelKind::scatter ? Fill::indices : Fill::positive;
  Field field = candidates_of(backend, kernel, geometry, schedules, fill, may_go_on);
  int launches = 1, done = 0;
  if (!field.candidates.empty()) {
    operands.allocate(fill);
    launches = launches_in_a_sample(*field.candidates[0].launch, operands);
    for (; done < rounds && may_go_on(); ++done)
      for (std::size_t i = 0; i < field.candidates.size(); ++i) {
        Candidate& candidate = field.candidates[(i + as_index(done)) % field.candidates.size()];
        candidate.times.push_back(time_of(*candidate.launch, operands, launches));
      }
  }
  if (done < 3) {
    spent_ += elapsed();
    return leave_default(kernel, field.rejections, "the time did not suffice (Options::tune_seconds)");
  }
  Candidate& fastest = *std::min_element(field.candidates.begin(), field.candidates.end(),
                                         [](const Candidate& a, const Candidate& b) { return a.time() < b.time(); });
  const Candidate& winner = winner_of(field.candidates, fastest, operands, launches);
  spent_ += elapsed();
  has_measured_ = true;
  const KernelCost cost = cost_of(kernel, geometry);
  runtime_detail::keep_tuning(key, winner.schedule.text() + "; " + digits(winner.time(), 4) + " s, " +
                                       digits(cost.bytes_read + cost.bytes_written, 6) + " bytes, " +
                                       digits(cost.flops, 6) + " flops, " + digits(cost.special, 6) + " special");
  runtime_detail::count_tuning(
      {.measured = 1, .gained = &winner != field.candidates.data(), .rejected = field.rejections});
  char seconds[64];
  std::snprintf(seconds, sizeof seconds, "; %.2f of %.2f s", spent_, seconds_);
  const std::string model = backend.device() == Device::cpu()
                                ? "; the cost model says " + microseconds(expected_seconds(cost, cpu_costs))
                                : std::string();
  report(kernel, result_text(field, winner, fastest) + model + seconds);
  return winner.schedule;
}

SINTER_DECL void tune(PlanOptions& options, const Graph& graph, double seconds, Location where) {
  std::vector<std::int64_t> sizes;
  for (const SymbolInfo& symbol : graph.symbols()) sizes.push_back(symbol.hint);
  const auto tuner = std::make_shared<Tuner>(seconds, std::move(sizes), where);
  options.choose_schedule = [tuner](Backend& backend, const Kernel& kernel, const SymbolicGeometry& geometry) {
    return tuner->choose(backend, kernel, geometry);
  };
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
