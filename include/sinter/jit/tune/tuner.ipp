// Keys, what the call gives, and the measurement of a kernel.
#pragma once

#include <sinter/jit/tune/tuner.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/thread_limit.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/jit/tune/operands.hpp>
#include <sinter/jit/tune/timing.hpp>
#include <sinter/kernel/cost_constants.hpp>
#include <sinter/kernel/kernel_key.hpp>
#include <sinter/runtime/kernel_cache.hpp>
#include <sinter/runtime/tuning_store.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {
namespace tuner_detail {

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
inline std::string hex_of(std::string_view bytes) {
  const Hash128 hash = Hasher{}.add(bytes).finish();
  char hex[40];
  std::snprintf(hex, sizeof hex, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return hex;
}
/// Three fields (tools/fit_costs). A device's is no matter of the host, nor of its number among devices: its back end
/// says what it is.
inline std::string machine_of(const Backend& backend) {
  std::string key = backend.cache_key();
  if (backend.device() != Device::cpu()) {
    const std::string device = backend.device().text() + " ";
    return std::string(backend.name()) + "; " + (key.starts_with(device) ? key.substr(device.size()) : key);
  }
  static const auto& processor = process_object([] { return new std::string(runtime_detail::processor_text()); });
  return processor + "; " + std::string(backend.name()) + " " + key + "; threads " + std::to_string(threads_here());
}
inline bool has_symbols(const SymbolicGeometry& geometry) {
  return std::any_of(geometry.extent.begin(), geometry.extent.end(), [](Dim dim) { return !dim.is_static(); });
}
/// Kernels for any size may have fewer schedules, and then a key of their own.
enum class Offer : std::uint8_t { all, for_any_size };
/// `constants`: operands that are, one bit each. Products can keep those packed.
inline std::string key_of(const Backend& backend, const Kernel& kernel, const BoundGeometry& geometry,
                          std::uint64_t constants, Offer offer) {
  KeyWriter writer;
  writer.add(kernel);
  if (offer == Offer::for_any_size) writer.add(std::uint64_t{0});
  if (kernel.kind == KernelKind::contraction && constants != 0) writer.add(constants);
  return SINTER_VERSION_STRING "; " + machine_of(backend) + "; " + std::string(name(kernel.kind)) + " " +
         class_of(kernel, geometry) + "; " + hex_of(writer.bytes());
}

/// A kernel as its step runs it. `given`: the memory of operands that the call gave and the kernel only reads.
struct Subject {
  Backend& backend;
  const Kernel& kernel;
  const BoundGeometry& geometry;
  StepContext step{};
  std::vector<void*> given{};

  std::unique_ptr<Launch> bind(const Executable& code) const {
    return step.constant_operands.is_empty() ? code.bind(geometry) : code.bind(geometry, step);
  }
  Operands operands() const { return {kernel, geometry, backend.device(), given}; }
  bool has_given() const {
    return std::any_of(given.begin(), given.end(), [](const void* base) { return base != nullptr; });
  }
};

/// A kernel whose default was beaten, until that is seen a second time.
struct Claim {
  Backend& backend;
  Kernel kernel;
  BoundGeometry geometry;
  StepContext step;
  std::vector<void*> given;
  Fill fill;
  int launches;
  std::string key;
  Schedule winner;
  std::string work;  // what the kernel does, as the store has it
  std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now();
};

/// What the default leaves in memory for one kind of operands, and whether others leave the same in `operands`, which
/// several of these may use. Launches are bound anew: they may keep what they made of constants.
class Expected {
 public:
  Expected(const Subject& subject, const Executable& standard, Fill how, Operands& operands, Compared compared)
      : subject_(subject), operands_(operands), how_(how), compared_(compared), results_(results_of(standard)) {}
  bool is_given_by(const Executable& code) { return results_of(code) == results_; }

 private:
  std::vector<std::vector<std::byte>> results_of(const Executable& code) {
    operands_.allocate(how_);
    subject_.bind(code)->run(operands_.bases());
    return operands_.results(compared_);
  }
  const Subject& subject_;
  Operands& operands_;
  Fill how_;
  Compared compared_;
  std::vector<std::vector<std::byte>> results_;
};
inline constexpr int most_copies =
    3;  // of operands at a time: those that are run, and what the default gives for two kinds

/// Whether so many threads make sense for such work: one is all there is below serial_nanoseconds, and what gives each
/// of them far more is not tried (X86Backend does not follow it either, for the class of a geometry has larger ones).
inline bool is_worth_trying(int threads, const LaunchWork& work) {
  if (work.tasks <= 0) return true;
  return work.nanoseconds >= serial_nanoseconds && work.nanoseconds / threads <= 4 * serial_nanoseconds;
}

/// What bits are compared on: positive operands and such of both signs, or indices.
inline std::vector<Fill> kinds_of(Fill fill) {
  return fill == Fill::indices ? std::vector{fill} : std::vector{fill, Fill::signed_};
}
/// Of a winner whose results were compared in parts: is the rest the default's, too?
inline bool gives_all(const Subject& subject, const Schedule& winner, Fill fill) {
  const Subject made_up{subject.backend, subject.kernel, subject.geometry, subject.step};
  Operands operands = made_up.operands();
  if (winner.empty() || !operands.has_parts()) return true;
  const auto standard = compiled_kernel(subject.backend, subject.kernel),
             code = compiled_kernel(subject.backend, subject.kernel, winner);
  const std::vector<Fill> kinds = kinds_of(fill);
  return standard != nullptr && code != nullptr && std::all_of(kinds.begin(), kinds.end(), [&](Fill how) {
           return Expected(made_up, *standard, how, operands, Compared::whole).is_given_by(*code);
         });
}

/// The launch of each, where code is made by a compiler that takes a part of a second for each: several threads make
/// them, as long as there is time. Null: not yet, or never.
inline std::vector<std::unique_ptr<Launch>> bound_together(const Subject& subject,
                                                           const std::vector<Schedule>& schedules,
                                                           const Allowance& time) {
  constexpr double compile_nanoseconds = 1e7;
  std::vector<std::unique_ptr<Launch>> launches(schedules.size());
  if (!subject.backend.compiles_when_bound()) return launches;
  parallel_for(static_cast<std::int64_t>(schedules.size()), compile_nanoseconds, [&](auto begin, auto end) {
    for (auto i = as_index(begin); i < as_index(end); ++i) {
      if (i > 0 && !time.is_left(part_to_verify(subject.backend.device()))) continue;
      if (const auto code = compiled_kernel(subject.backend, subject.kernel, schedules[i]))
        launches[i] = subject.bind(*code);
    }
  });
  return launches;
}

/// Those that there is time for.
inline Field candidates_of(const Subject& subject, const std::vector<Schedule>& schedules, Fill fill,
                           const Allowance& time) {
  Field field;
  // What the call gives has few values (ones, say): bits are compared on made-up operands alone.
  const Subject made_up{subject.backend, subject.kernel, subject.geometry, subject.step};
  Operands operands = made_up.operands();
  std::vector<std::unique_ptr<Expected>> expected;
  LaunchWork work;
  std::vector<std::unique_ptr<Launch>> launches = bound_together(subject, schedules, time);
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    const Schedule& schedule = schedules[i];
    if (!time.is_left(field.candidates.empty() ? 1 : part_to_verify(subject.backend.device()))) {
      field.is_late = field.candidates.size() < 2;
      break;
    }
    const auto threads = schedule.find(ScheduleAction::threads);
    if (threads && !is_worth_trying(*threads, work)) continue;
    const auto code = compiled_kernel(subject.backend, subject.kernel, schedule);
    if (code == nullptr) continue;
    if (field.candidates.empty()) {
      for (const Fill how : kinds_of(fill))
        expected.push_back(std::make_unique<Expected>(made_up, *code, how, operands, Compared::parts));
    } else if (!std::all_of(expected.begin(), expected.end(),
                            [&](const auto& each) { return each->is_given_by(*code); })) {
      field.reject(schedule);
      continue;
    }
    Candidate candidate{schedule, launches[i] != nullptr ? std::move(launches[i]) : subject.bind(*code)};
    if (field.candidates.empty()) work = candidate.launch->work();
    field.candidates.push_back(std::move(candidate));
  }
  return field;
}

/// Of operands that are constants, each element once.
inline std::int64_t constant_bytes(const Subject& subject) {
  std::int64_t bytes = 0;
  for (std::size_t a = 0; a < subject.kernel.accesses.size(); ++a) {
    const auto operand = subject.kernel.accesses[a].operand;
    if (!subject.step.constant_operands.has(operand)) continue;
    std::int64_t elements = 1;
    for (int axis = 0; axis < subject.kernel.rank(); ++axis)
      if (subject.geometry.accesses[a].stride[as_index(axis)] != 0) elements *= subject.geometry.extent[as_index(axis)];
    bytes += elements * size_of(subject.kernel.operands[operand].dtype);
  }
  return bytes;
}
/// Takes away what would hold for sizes or memory that are not those of this measurement.
inline Offer drop_unfit(std::vector<Schedule>& schedules, const SymbolicGeometry& geometry, bool may_pack) {
  using enum ScheduleAction;
  if (!may_pack) std::erase_if(schedules, [](const Schedule& each) { return each.find(pack).has_value(); });
  if (!has_symbols(geometry)) return Offer::all;
  const auto dropped = std::erase_if(
      schedules, [](const Schedule& each) { return each.find(pack) || each.find(threads) || each.find(stream); });
  return dropped > 0 ? Offer::for_any_size : Offer::all;
}
}  // namespace tuner_detail

SINTER_DECL Tuner::Tuner(TuneRequest request, std::vector<std::int64_t> sizes)
    : request_(std::move(request)),
      sizes_(std::move(sizes)),
      seconds_(request_.seconds > 0 ? request_.seconds : tuner_detail::default_seconds) {}
SINTER_DECL Tuner::~Tuner() {
  if (has_measured_) runtime_detail::write_tuning();
}

SINTER_DECL void Tuner::report(const Kernel& kernel, const std::string& text) const {
  if (is_logged("autotune"))
    note("autotune", request_.where.text() + ": " + std::string(name(kernel.kind)) + " kernel of " +
                         std::to_string(kernel.body.size()) + " instructions: " + text);
}

/// What the call gives of the operands.
SINTER_DECL std::vector<void*> Tuner::given_to(const Backend& backend, const Kernel& kernel,
                                               std::span<const BufferRef> operands) const {
  std::vector<void*> given;
  for (std::size_t i = 0; i < operands.size() && !request_.values.empty(); ++i) {
    const auto index = as_index(operands[i].index);
    const bool is_stored = std::any_of(kernel.stores.begin(), kernel.stores.end(),
                                       [&](const Store& store) { return kernel.accesses[store.access].operand == i; });
    given.push_back(nullptr);
    if (operands[i].kind != BufferKind::input || is_stored || index >= request_.values.size()) continue;
    const TensorImpl& value = *request_.values[index];
    if (value.type.device == backend.device() && value.type.dtype == kernel.operands[i].dtype)
      given.back() = value.data();
  }
  return given;
}

SINTER_DECL Schedule Tuner::choose(Backend& backend, const Kernel& kernel, const SymbolicGeometry& geometry,
                                   std::span<const BufferRef> operands) {
  std::vector<Schedule> schedules = backend.schedules(kernel);
  const BoundGeometry bound = sinter::bind(geometry, sizes_);
  tuner_detail::Subject subject{backend, kernel, bound, {}, given_to(backend, kernel, operands)};
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].kind == BufferKind::constant) subject.step.constant_operands.add(i);
  const std::int64_t packed = packed_bytes_ + tuner_detail::constant_bytes(subject);
  const bool is_first = measures_ && !is_again_;  // later ones follow what it chose
  const tuner_detail::Offer offer = tuner_detail::drop_unfit(
      schedules, geometry,
      !subject.step.constant_operands.is_empty() && (!is_first || packed <= tuner_detail::most_packed_bytes));
  if (schedules.size() < 2) return {};
  for (int axis = 0; axis < kernel.rank(); ++axis)
    if (bound.extent[as_index(axis)] < 1) return {};
  const std::string key =
      tuner_detail::key_of(backend, kernel, bound, subject.step.constant_operands.of_kernel(), offer);
  if (const std::optional<std::string> known = runtime_detail::find_tuning(key)) {
    const std::string_view text = runtime_detail::schedule_in(*known);
    const std::optional<Schedule> schedule = parse_schedule(text);
    if (schedule && std::find(schedules.begin(), schedules.end(), *schedule) != schedules.end()) {
      if (is_first) {
        runtime_detail::count_tuning({.found = 1});
        report(kernel, std::string(text) + ", which was measured before");
      }
      if (schedule->find(ScheduleAction::pack) && is_first) packed_bytes_ = packed;
      return *schedule;
    }
  }
  if (!measures_) return {};
  try {
    Schedule winner = measure(subject, key, schedules);
    if (winner.find(ScheduleAction::pack)) packed_bytes_ = packed;
    return winner;
  } catch (const Error& error) {
    return leave_default(kernel, 0, "it cannot be measured: " + std::string(error.what()));
  } catch (const std::bad_alloc&) { return leave_default(kernel, 0, "there is no memory to measure it with"); }
}

SINTER_DECL Schedule Tuner::leave_default(const Kernel& kernel, std::int64_t rejections, const std::string& why) const {
  runtime_detail::count_tuning({.rejected = rejections, .unfinished = 1});
  report(kernel, "default, for " + why);
  return {};
}

SINTER_DECL Schedule Tuner::measure(const tuner_detail::Subject& subject, const std::string& key,
                                    const std::vector<Schedule>& schedules) {
  using namespace tuner_detail;
  const Kernel& kernel = subject.kernel;
  Operands operands = subject.operands();
  const std::size_t bytes = Subject{subject.backend, kernel, subject.geometry, subject.step}.operands().bytes();
  if (bytes > (operands.is_on_host() ? most_bytes : most_device_bytes) / most_copies)
    return leave_default(kernel, 0,
                         std::to_string(most_copies) + " copies of its operands are larger than " +
                             std::string(operands.is_on_host() ? "2" : "6") + " GiB");
  const double allowed = seconds_ - seconds_for_plans_;
  if (spent_ >= allowed) return leave_default(kernel, 0, "no time is left (Options::tune_seconds)");
  const TimelineSpan span("compile", "measure schedules");
  const Measuring alone;
  if (!alone.has_begun())
    return leave_default(kernel, 0, "another thread measures, and this one holds what fork() waits for");
  const Allowance time(std::max((allowed - spent_) / 2, seconds_ / 20));  // of this kernel, for there may be others
  const Fill fill = checks_indices(kernel) || kernel.kind == KernelKind::scatter ? Fill::indices : Fill::positive;
  Field field = candidates_of(subject, schedules, fill, time);
  int launches = 1, done = 0;
  if (!field.candidates.empty() && !field.is_late) {
    operands.allocate(fill);
    if (drop_slow(field.candidates, operands, time)) {
      launches = launches_in_a_sample(*field.candidates[0].launch, operands);
      done = time_in_turns(field.candidates, operands, launches, time);
    }
  }
  if (done < least_rounds) {
    spent_ += time.spent();
    return leave_default(kernel, field.rejections, "the time did not suffice (Options::tune_seconds)");
  }
  Candidate& fastest = fastest_of(field.candidates);
  const Candidate* chosen = &winner_of(field.candidates, fastest, operands, launches, time);
  if (!gives_all(subject, chosen->schedule, fill)) {
    field.reject(chosen->schedule);
    chosen = field.candidates.data();
  }
  const Candidate& winner = *chosen;
  spent_ += time.spent();
  has_measured_ = true;
  const KernelCost cost = cost_of(kernel, subject.geometry);
  const std::string work = digits(cost.bytes_read + cost.bytes_written, 6) + " bytes, " + digits(cost.flops, 6) +
                           " flops, " + digits(cost.special, 6) + " special";
  runtime_detail::keep_tuning(key, winner.schedule.text() + "; " + digits(winner.time(), 4) + " s, " + work);
  runtime_detail::count_tuning({.measured = 1, .rejected = field.rejections});
  if (&winner != field.candidates.data())
    claims_.push_back(std::make_unique<Claim>(Claim{subject.backend, kernel, subject.geometry, subject.step,
                                                    subject.given, fill, launches, key, winner.schedule, work}));
  const std::string model = subject.backend.device() == Device::cpu()
                                ? "; the cost model says " + microseconds(expected_seconds(cost, cpu_costs))
                                : std::string();
  report(kernel, result_text(field, winner, fastest) + (subject.has_given() ? "; on the call's operands" : "") + model +
                     progress());
  return winner.schedule;
}

/// On operands of their own: pages of memory are no merit of a schedule.
SINTER_DECL bool Tuner::confirms(const tuner_detail::Claim& claim) {
  using namespace tuner_detail;
  const Measuring alone;
  if (!alone.has_begun()) return true;  // as it was measured
  const TimelineSpan span("compile", "measure schedules");
  wait_until_later(claim.when);
  const Allowance time(std::max(seconds_ - seconds_for_plans_ - spent_, seconds_ / 20));
  const Subject subject{claim.backend, claim.kernel, claim.geometry, claim.step, claim.given};
  Operands operands = subject.operands();
  operands.allocate(claim.fill);
  const auto candidate = [&](const Schedule& schedule) {
    const auto code = compiled_kernel(claim.backend, claim.kernel, schedule);
    ensure(code != nullptr, "a schedule that was measured has no code");
    return Candidate{schedule, subject.bind(*code)};
  };
  Candidate standard = candidate({}), winner = candidate(claim.winner);
  for (Candidate* each : {&standard, &winner}) static_cast<void>(time_of(*each->launch, operands, 1));
  const bool has_won = gains(winner, standard, operands, claim.launches, time);
  spent_ += time.spent();
  if (has_won) return true;
  runtime_detail::keep_tuning(claim.key, "default; " + digits(standard.time(), 4) + " s, " + claim.work);
  report(claim.kernel, "default, for " + claim.winner.text() + " did not win a second time: " +
                           microseconds(winner.time()) + ", the default " + microseconds(standard.time()) + progress());
  return false;
}

SINTER_DECL bool Tuner::confirm() {
  bool are_winners = true;
  const auto claims = std::exchange(claims_, {});
  for (const auto& claim : claims) {
    bool has_won = true;
    try {
      has_won = confirms(*claim);
    } catch (const Error&) {  // as it was measured
    } catch (const std::bad_alloc&) {}
    runtime_detail::count_tuning({.gained = has_won ? 1 : 0});
    are_winners = are_winners && has_won;
  }
  return are_winners;
}

SINTER_DECL std::string Tuner::progress() const {
  char seconds[64];
  std::snprintf(seconds, sizeof seconds, "; %.2f of %.2f s", spent_, seconds_);
  return seconds;
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
