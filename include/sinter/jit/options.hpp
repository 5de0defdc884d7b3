// Options of compile(), and its statistics.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/tensor/precision.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// What to optimise for. `reduce_overhead` keeps memory for results between calls; `background` lets calls run
/// uncompiled while another thread makes their code; `max_autotune` measures schedules (docs/tuning.md),
/// `max_autotune_no_cudagraphs` does without launches as one on a GPU.
enum class Mode : std::uint8_t { default_, reduce_overhead, background, max_autotune, max_autotune_no_cudagraphs };
/// Whether schedules are measured in this mode.
constexpr bool is_tuned(Mode mode) { return mode == Mode::max_autotune || mode == Mode::max_autotune_no_cudagraphs; }
/// When an extent becomes symbolic: after it changed, from the start, or never.
enum class Dynamic : std::uint8_t { automatic, always, never };

/// Whether the CPU may run what a device's back end declines. Context::allows_fallback permits it everywhere.
enum class Fallback : std::uint8_t { refused, allowed };

/// A back end: its name, or a callable that takes whole graphs, as one that register_backend() gives a name.
class BackendChoice {
 public:
  BackendChoice() = default;
  BackendChoice(const char* name) : name_(name) {}
  BackendChoice(std::string_view name) : name_(name) {}
  BackendChoice(std::string name) : name_(std::move(name)) {}
  template <class F>
    requires(std::is_invocable_r_v<GraphFunction, F&, const Graph&, std::span<const Tensor>>)
  BackendChoice(F compile)
      : name_("Options::backend"), compile_(std::make_shared<const BackendFunction>(std::move(compile))) {}

  const std::string& name() const { return name_; }
  /// Null: a back end that has a name.
  const BackendFunction* function() const { return compile_.get(); }
  friend bool operator==(const BackendChoice& a, std::string_view name) { return a.name_ == name; }

 private:
  std::string name_{};
  std::shared_ptr<const BackendFunction> compile_{};
};

struct Options {
  Mode mode = Mode::default_;
  BackendChoice backend = {};  // "": the best there is; see jit::list_backends() and docs/debugging.md
  Dynamic dynamic = Dynamic::automatic;
  bool fullgraph = false;            // reading a value while tracing is an error
  bool fuse = true;                  // false: one kernel per operation, to find out where a wrong result arises
  std::int64_t recompile_limit = 8;  // compiled versions beyond the first; then the stance decides (stance.hpp)
  std::int64_t max_breaks = 256;     // segments of a function that reads values; after them calls go on lazily
  std::int64_t max_values = 16;      // compiled continuations of one read of an exact value
  std::int64_t memory_budget = 0;    // bytes that a plan may hold between its kernels (Stats::peak_bytes); 0: any
  Optional<MatmulPrecision> matmul_precision =
      {};  // what products of f32 may be computed in; unset: the default of the process
  bool allow_fallback =
      false;  // what the back end of a device declines runs on the CPU, and the log says so; else it is an error
  bool suppress_errors = false;  // where passes or code generation fail, run operation by operation, and say so
  double tune_seconds = 0;       // that Mode::max_autotune may measure for each version; 0: 2 seconds
  Optional<bool> horizontal_fusion = {};  // independent kernels run as one launch; unset: as `fuse`
  Optional<bool> epilogue_fusion = {};    // products take in what is computed from their results; unset: as `fuse`
};

/// What a call of a frozen function does that no compiled version fits.
enum class OnMiss : std::uint8_t { throws, runs_uncompiled };

/// What a compiled version relies on.
enum class GuardKind : std::uint8_t {
  structure,
  dtype,
  device,
  rank,
  layout,
  extent,
  range,
  relation,
  divisibility,
  fixed_value,
  number_kind,
  alias,
  predicate,
  precision,
  gradient,
  ranks
};
std::string_view name(GuardKind kind);

/// Why calls fitted no compiled version: the guard that they broke of the version that came closest.
struct RecompileReason {
  GuardKind guard = GuardKind::structure;
  std::string argument{};         // "argument 1.weight"; empty: a captured Variable, a relation, or the process
  int axis = -1;                  // of that argument; -1: not about one axis
  std::string expected{}, got{};  // "32", "48"
  std::string text{};             // "guard 'extent' failed: extent of axis 0 of argument 1.weight: expected 32, got 48"
  std::string remedy{};           // what the caller can do so that it does not fail again
  std::int64_t count = 1;         // calls that broke it in just this way
};

/// Figures of one compiled function.
struct Stats {
  std::int64_t calls = 0;
  std::int64_t compiles = 0;  // traces that became plans, the first included
  std::int64_t recompiles = 0;
  std::int64_t kernels = 0;       // of the newest plan: its steps; a call of a region is one
  std::int64_t regions = 0;       // of the newest plan: blocks that are compiled once ...
  std::int64_t region_calls = 0;  // ... and how often they are called, nested ones included
  std::int64_t graph_breaks = 0;  // places of the trace trees where a value is read
  std::int64_t segments = 0;      // compiled parts of those trees
  std::int64_t retraces = 0;      // paths that were added to a tree by later calls
  std::int64_t lazy_calls = 0;    // calls that went on lazily because of Options::max_breaks or max_values
  std::int64_t peak_bytes =
      // what the newest plan holds between its kernels, at the sizes it was traced with; of a tree: its largest segment
      0;
  double compile_ms = 0;           // all compiles together: trace, passes, code generation
  std::int64_t eager_calls = 0;    // calls that ran the function uncompiled: stance, back end noop, recompile limit
  std::int64_t frozen_misses = 0;  // calls that no version fitted while the function was frozen
  std::vector<RecompileReason> recompile_reasons{};  // oldest first; those of calls past the limit, too; at most 256
  /// Of the newest plan, where its results have gradients, at the sizes it was traced with: what a call leaves for
  /// backward() beside its results, and what the backward plan holds between its kernels, once it is compiled. Of a
  /// trace tree: of the path that has most.
  std::int64_t saved_bytes = 0, backward_bytes = 0;
  /// Pieces of machine code that its compiles generated, and those that they took from disk (docs/code_cache.md). What
  /// another function has compiled is neither; products' code is made, or found, when sizes are first called with.
  std::int64_t code_generated = 0, code_loaded = 0;
  /// In Mode::background: calls that ran operation by operation, versions whose code is still being made, and how often
  /// code from another thread took the place of what ran.
  std::int64_t background_calls = 0, background_pending = 0, background_swaps = 0;
  /// Of the newest plan: its kernels, where those that run as one launch count once (docs/observing.md).
  std::int64_t launches = 0;
};

}  // namespace jit
SINTER_NAMESPACE_END
