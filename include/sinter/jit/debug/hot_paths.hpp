// Which lazy graphs come again, and what fusing them gained. The figures are the evaluator's (lazy.ipp).
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A lazy graph that was evaluated.
struct HotPath {
  std::string hash;                    // 16 hexadecimal digits: of operations, dtypes and extents
  std::string name;                    // its operations in order, at most twelve: "mul_add_tanh"
  std::int64_t executions = 0;         // op by op and fused
  std::int64_t threshold = 0;          // of executions, after which it is fused
  bool is_fused = false;               // it runs as fused code by now
  bool is_dynamic = false;             // one plan for many sizes: then the two times are of different sizes
  double compile_ms = 0;               // passes, fusion and code of its last plan
  double before_ms = 0, after_ms = 0;  // shortest execution op by op, and fused; 0: not measured
  /// How many times as fast it became; 0: not known.
  double speed_up() const { return before_ms > 0 && after_ms > 0 ? before_ms / after_ms : 0; }
};

/// Those that are kept, the most executed first.
std::vector<HotPath> hot_paths();
/// As a table.
std::string hot_paths_text();
/// A graph with this hash or name is fused at its next evaluation, however few there were; is never fused from now on
/// (one that is fused by now stays so); or is fused when it is hot.
/// Both hold for graphs to come as well. What can be neither a hash nor a name is a UserError.
void force_hot_path(std::string_view hash_or_name, Location where = std::source_location::current());
void forbid_hot_path(std::string_view hash_or_name, Location where = std::source_location::current());
void release_hot_path(std::string_view hash_or_name, Location where = std::source_location::current());

}  // namespace jit
SINTER_NAMESPACE_END
