// Jobs that make code, and how it comes into its place.
#pragma once

#include <sinter/jit/call/background.hpp>

#include <sinter/base/json_text.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/making.hpp>
#include <sinter/jit/call/quick_call.hpp>
#include <sinter/jit/debug/failures.hpp>
#include <sinter/jit/trace/trace_tree.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

SINTER_NAMESPACE_BEGIN
namespace jit {
namespace jit_detail {

// ---- the state of a version -----------------------------------------------------------------------------------------

SINTER_DECL void BackgroundState::throw_failure() const {
  std::exception_ptr error;
  {
    std::scoped_lock lock(mutex_);
    error = error_;
  }
  std::rethrow_exception(std::move(error));
}
SINTER_DECL void BackgroundState::wait() const {
  while (!is_done() && base_detail::wait_for_background(last_job_.load(std::memory_order_acquire)))
    if (!is_done()) std::this_thread::sleep_for(std::chrono::microseconds(50));  // another thread submits it just now
  check();
}
SINTER_DECL void BackgroundState::submit(std::shared_ptr<base_detail::BackgroundJob> job) {
  const std::int64_t number = base_detail::run_in_background(std::move(job));
  std::int64_t last = last_job_.load(std::memory_order_relaxed);
  while (last < number && !last_job_.compare_exchange_weak(last, number, std::memory_order_acq_rel)) {}
}
SINTER_DECL void BackgroundState::fail(std::exception_ptr error) noexcept {
  std::scoped_lock lock(mutex_);
  if (error_ != nullptr) return;  // the first one is thrown
  error_ = std::move(error);
  has_failed_.store(true, std::memory_order_release);
}
SINTER_DECL void BackgroundState::leave_uncompiled(std::string reason) {
  std::scoped_lock lock(mutex_);
  reason_ = std::move(reason);
  is_left_.store(true, std::memory_order_relaxed);
}
SINTER_DECL void BackgroundState::note_swap(std::int64_t calls, double ms) {
  std::scoped_lock lock(mutex_);
  if (calls_before_ < 0) calls_before_ = calls;
  ms_ += ms;
}
SINTER_DECL void BackgroundState::note_tuned(double ms) {
  std::scoped_lock lock(mutex_);
  tuned_ms_ = ms;
}
SINTER_DECL std::string BackgroundState::text(std::int64_t calls) const {
  std::scoped_lock lock(mutex_);
  if (has_failed_.load()) return "background: making the code failed, which calls throw\n";
  if (!reason_.empty())
    return (calls_before_ < 0
                ? "background: making the code failed, so this version runs operation by operation: "
                : "background: making some of the code failed, so that part runs operation by operation: ") +
           reason_ + "\n";
  if (calls_before_ < 0)
    return "background: running uncompiled, operation by operation, while another thread makes the code; calls so "
           "far: " +
           std::to_string(calls) + "\n";
  char ms[32];
  std::snprintf(ms, sizeof ms, "%.3f", ms_);
  return "background: swapped at call " + std::to_string(calls_before_ + 1) + " of this version, by code made in " +
         ms + " ms by another thread\n" + (tuned_ms_ < 0 ? "" : "background: tuned code has taken its place since\n") +
         (is_done() ? "" : "background: new segments run uncompiled, while another thread makes their code\n");
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

namespace background_detail {
/// Tells about what was made, or was not: what the user's log sink throws there is no error of the code.
template <class F>
void tell(const F& how) noexcept {
  try {
    how();
  } catch (...) {  // there is no call here that could throw it
  }
}

/// Runs `make`; what it throws goes to the state. Without memory the version runs on as it is.
inline void try_to_make(const BackgroundWork& work, const Graph& graph, const std::function<void()>& make) noexcept {
  const CodeChoices& choices = work.choices;
  const auto leave = [&](const char* why, const auto& text) {
    work.state->leave_uncompiled(why);
    tell([&] {
      if (is_logged("errors", LogLevel::warning)) warn("errors", text());
    });
  };
  const auto no_memory = [&] { return choices.where.text() + ": no memory to make code with in the background"; };
  try {
    TimelineSpan span("compile", "compile in the background");
    if (span.is_on()) span.add_line(choices.where);
    try {
      make();
    } catch (const OutOfMemory& error) { leave(error.what(), no_memory); } catch (const std::bad_alloc&) {
      leave("out of memory", no_memory);
    } catch (const Error& error) {
      tell([&] { minify_failure(graph, choices.backend, error.what(), choices.where); });
      if (!work.suppresses_errors) throw;
      leave(error.what(), [&] { return suppressed_text(graph, choices.backend, error.what(), choices.where); });
    }
  } catch (...) { work.state->fail(std::current_exception()); }
}

/// Queues the job of announced code. Where that fails the version runs on as it is.
template <class Job, class... Args>
void queue(const std::shared_ptr<BackgroundState>& state, Args&&... args) {
  try {
    state->submit(std::make_shared<Job>(std::forward<Args>(args)...));
  } catch (...) {
    state->leave_uncompiled("out of memory");
    state->finish_one();
    throw;
  }
}
}  // namespace background_detail

SINTER_DECL void make_in_background(const BackgroundWork& work, const Graph& graph,
                                    const std::function<void()>& make) noexcept {
  background_detail::try_to_make(work, graph, make);
  work.state->finish_one();
}

/// The swap of `calls` calls' version, for the log and the timeline.
inline void report_swap(const BackgroundWork& work, std::int64_t calls, double ms) {
  if (has_timeline())
    timeline::instant(
        "compile", "swapped",
        JsonFields().add("line", work.choices.where.text()).add("call", static_cast<long long>(calls + 1)));
  if (is_logged("background"))
    note("background", work.choices.where.text() + ": swapped at call " + std::to_string(calls + 1) +
                           " of this version, by code made in " + std::to_string(ms) + " ms");
}

/// The code of a version once more, measured. Where that fails, what has been put in place stays. A forked child drops
/// it: its parent measures, and the winners are in the store.
class TuneJob final : public base_detail::BackgroundJob {
 public:
  TuneJob(std::weak_ptr<FunctionState> function, BackgroundWork work, CodeInput input)
      : function_(std::move(function)), work_(std::move(work)), input_(std::move(input)) {}
  void run() noexcept override {
    if (::getpid() != process_ || base_detail::is_background_stopping.load(std::memory_order_relaxed)) return;
    background_detail::tell([this] {
      try {
        tune();
      } catch (const std::exception& error) {
        if (is_logged("background", LogLevel::warning))
          warn("background", work_.choices.where.text() + ": not tuned, for that failed: " + error.what());
      }
    });
  }

 private:
  void tune() {
    if (function_.expired()) return;
    TimelineSpan span("compile", "tune in the background");
    const runtime_detail::CodeCounting counting;
    const VersionCode code = make_code(input_, work_.choices.tuned());
    const std::shared_ptr<FunctionState> function = function_.lock();
    if (function == nullptr) return;
    const std::int64_t calls = function->swap_in_tuned(*work_.state, code, counting.so_far());
    if (calls < 0) return;
    work_.state->note_tuned(code.passes_ms + code.codegen_ms);
    report_swap(work_, calls, code.passes_ms + code.codegen_ms);
  }

  std::weak_ptr<FunctionState> function_;
  BackgroundWork work_;
  CodeInput input_;
  ::pid_t process_ = ::getpid();
};

class EntryJob final : public base_detail::BackgroundJob {
 public:
  EntryJob(std::weak_ptr<FunctionState> function, const Entry& entry, BackgroundWork work)
      : function_(std::move(function)), entry_(&entry), work_(std::move(work)), input_(work_.state->take_input()) {}
  void run() noexcept override {
    make_in_background(work_, input_.graph, [this] {
      if (function_.expired()) return;
      const runtime_detail::CodeCounting counting;
      const VersionCode code = make_code(input_, work_.choices);
      const std::shared_ptr<FunctionState> function = function_.lock();
      if (function == nullptr) return;
      const std::int64_t calls = function->swap_in(entry_, *work_.state, code, counting.so_far());
      if (calls < 0) return;
      work_.state->note_swap(calls, code.passes_ms + code.codegen_ms);
      background_detail::tell([&] { report_swap(work_, calls, code.passes_ms + code.codegen_ms); });
      is_swapped_ = true;
    });
    if (is_swapped_ && work_.choices.tune_seconds > 0)
      background_detail::tell(
          [&] { base_detail::run_in_background(std::make_shared<TuneJob>(function_, work_, input_)); });
  }

 private:
  std::weak_ptr<FunctionState> function_;
  bool is_swapped_ = false;
  const Entry* entry_;  // of the function, as long as that lives and is not reset
  BackgroundWork work_;
  CodeInput input_;
};

class SegmentsJob final : public base_detail::BackgroundJob {
 public:
  SegmentsJob(std::weak_ptr<FunctionState> function, const Entry& entry, BackgroundWork work,
              std::vector<std::shared_ptr<const SegmentCode>> segments)
      : function_(std::move(function)), entry_(&entry), work_(std::move(work)), segments_(std::move(segments)) {}
  /// Each segment for itself: an error names its graph, and the others get their code.
  void run() noexcept override {
    SegmentSwaps swaps;
    const runtime_detail::CodeCounting counting;
    Stopwatch watch;
    for (const auto& segment : segments_)
      background_detail::try_to_make(work_, segment->key, [&] {
        if (!function_.expired()) swaps.emplace(segment.get(), compiled_segment(*segment, work_.choices));
      });
    make_in_background(work_, segments_.front()->key, [&] {
      const double ms = watch.lap_ms();
      const std::shared_ptr<FunctionState> function = function_.lock();
      if (function == nullptr || swaps.empty()) return;
      const std::int64_t calls = function->swap_in(entry_, *work_.state, swaps, ms, counting.so_far());
      if (calls < 0) return;
      work_.state->note_swap(calls, ms);
      background_detail::tell([&] { report_swap(work_, calls, ms); });
    });
  }

 private:
  std::weak_ptr<FunctionState> function_;
  const Entry* entry_;
  BackgroundWork work_;
  std::vector<std::shared_ptr<const SegmentCode>> segments_;
};

SINTER_DECL void submit_entry(std::weak_ptr<FunctionState> function, const Entry& entry, BackgroundWork work) {
  const std::shared_ptr<BackgroundState> state = work.state;
  background_detail::queue<EntryJob>(state, std::move(function), entry, std::move(work));
}
SINTER_DECL void submit_segments(std::weak_ptr<FunctionState> function, const Entry& entry, BackgroundWork work,
                                 std::vector<std::shared_ptr<const SegmentCode>> segments) {
  const std::shared_ptr<BackgroundState> state = work.state;
  if (segments.empty()) return state->finish_one();
  background_detail::queue<SegmentsJob>(state, std::move(function), entry, std::move(work), std::move(segments));
}

/// The same version with other code.
inline std::unique_ptr<Entry> with_code(const Entry& entry, const VersionCode& code) {
  auto made = std::make_unique<Entry>();
  made->result_shape = entry.result_shape;
  made->results = entry.results;
  made->is_tree = entry.is_tree;
  made->guards = entry.guards;
  made->end = entry.end;
  made->end.plan = code.plan;
  for (std::size_t i = 0; i < made->end.inputs.size(); ++i) made->end.inputs[i].as_float = code.is_narrowed[i] != 0;
  made->held = entry.held;
  made->captured_types = entry.captured_types;
  made->types = entry.types;
  made->call_types = entry.call_types;
  made->tape = entry.tape;
  made->gradient = entry.gradient;
  made->is_plain = entry.is_plain.load();
  made->has_taped_path = entry.has_taped_path.load();
  made->drops_tape = entry.drops_tape.load();
  made->traced = entry.traced;
  made->specialised = entry.specialised;
  made->optimised = code.optimised;
  made->precision = entry.precision;
  made->precisions = entry.precisions;
  made->trace_ms = entry.trace_ms;
  made->passes_ms = code.passes_ms;
  made->codegen_ms = code.codegen_ms;
  made->traced_slots = entry.traced_slots;
  made->takes_any_slot = std::vector<std::atomic<bool>>(entry.takes_any_slot.size());
  for (std::size_t i = 0; i < made->takes_any_slot.size(); ++i)
    made->takes_any_slot[i] = entry.takes_any_slot[i].load();
  made->serves = entry.serves.load();
  made->background = entry.background;
  made->context = entry.context;
  made->context_used.store(entry.context_used.load(std::memory_order_acquire), std::memory_order_relaxed);
  return made;
}
}  // namespace jit_detail

SINTER_DECL bool FunctionState::owns(const Entry* entry, const jit_detail::BackgroundState& state) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& own) { return own.get() == entry && own->background.get() == &state; });
}

SINTER_DECL void FunctionState::publish_code(const Entry& entry, const jit_detail::VersionCode& code,
                                             runtime_detail::CodeCount made) {
  std::unique_ptr<Entry> compiled = jit_detail::with_code(entry, code);
  compiled->backend = options_.backend.name();
  guard_precision(*compiled);  // operation by operation there may be no product that it matters to
  compiled->is_quick = jit_detail::is_quick(*compiled);
  const Entry* newest = newest_.load(std::memory_order_acquire);
  compiled->next = newest == &entry ? entry.next : newest;
  compile_ms_ += code.passes_ms + code.codegen_ms;
  code_.generated += made.generated;
  code_.loaded += made.loaded;
  ++swaps_;
  const Entry* published = compiled.get();
  entries_.push_back(std::move(compiled));
  newest_.store(published, std::memory_order_release);
}

SINTER_DECL std::int64_t FunctionState::swap_in_tuned(const jit_detail::BackgroundState& state,
                                                      const jit_detail::VersionCode& code,
                                                      runtime_detail::CodeCount made) {
  std::scoped_lock lock(mutex_);
  const Entry* compiled = nullptr;
  std::int64_t swapped = 0;
  for (const auto& own : entries_)
    if (own->background.get() == &state && !own->runs_ahead) {
      compiled = own.get();
      ++swapped;
    }
  if (swapped != 1) return -1;  // reset() has dropped it, or a child that was forked meanwhile does it again
  publish_code(*compiled, code, made);
  return compiled->runs();
}

SINTER_DECL std::int64_t FunctionState::swap_in(const Entry* replaced, const jit_detail::BackgroundState& state,
                                                const jit_detail::VersionCode& code, runtime_detail::CodeCount made) {
  std::scoped_lock lock(mutex_);
  if (!owns(replaced, state)) return -1;  // reset() has dropped it
  // A child that was forked at the end of a job does it again.
  if (std::any_of(entries_.begin(), entries_.end(),
                  [&](const auto& own) { return own->background.get() == &state && !own->runs_ahead; }))
    return -1;
  publish_code(*replaced, code, made);
  return replaced->runs();
}

SINTER_DECL std::int64_t FunctionState::swap_in(const Entry* grown, const jit_detail::BackgroundState& state,
                                                const SegmentSwaps& swaps, double ms, runtime_detail::CodeCount made) {
  std::scoped_lock lock(mutex_);
  if (!owns(grown, state)) return -1;
  grown->tree->swap(swaps);
  compile_ms_ += ms;
  code_.generated += made.generated;
  code_.loaded += made.loaded;
  ++swaps_;
  return grown->runs();
}

SINTER_DECL jit_detail::BackgroundWork FunctionState::background_work(const Entry& entry) const {
  return {entry.background, jit_detail::CodeChoices::of(options_, entry.precision, where_), suppresses_errors()};
}

SINTER_DECL void FunctionState::wait_for_code() const {
  std::vector<std::shared_ptr<jit_detail::BackgroundState>> states;
  {
    std::scoped_lock lock(mutex_);
    for (const auto& entry : entries_)
      if (entry->background != nullptr) states.push_back(entry->background);
  }
  for (const auto& state : states) state->wait();
}

}  // namespace jit
SINTER_NAMESPACE_END
