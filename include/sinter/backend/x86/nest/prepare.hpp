// What the loop generator decides before it writes code: at which level of the loop nest each instruction is computed,
// how many passes over the reduced axes there are, what each pass needs, and what is kept from one pass to the next.
// Knows kernels, not instructions.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/kernel/kernel.hpp>

#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Levels of the nest, outermost first. Pointwise: kernel, outer, column. Row: kernel, outer, near (the outer of two
/// reduced axes), column (the innermost reduced axis). Column: kernel, outer, column (a block of columns), far (the
/// outer of two reduced axes), near (the inner one).
enum class Level : std::uint8_t { kernel, outer, column, far, near };

struct InstPlan {
  Level level = Level::kernel;
  bool is_vector = false;  // varies along the vector axis
  std::uint8_t depth = 0;  // reductions on the way from the loads
  std::int8_t stash = -1;  // row kernels: number of the scratch row that keeps it
  std::uint8_t first_pass = 0xFF;
  std::uint16_t cost = 0;  // of computing it from loads
};

struct PassPlan {
  std::vector<InstId> needed;      // instructions computed inside the pass's loops, in order
  std::vector<InstId> reductions;  // finished by this pass
  bool stores = false;             // the stores along reduced axes happen here
};

struct LoopPlan {
  const Kernel* kernel = nullptr;
  Isa isa = Isa::avx512;
  int lanes = 16;
  int unroll = 2;  // pointwise loops, map passes, column blocks
  int column_axis = 0, near_axis = -1, far_axis = -1;
  bool is_row = false, is_column = false;
  bool needs_count = false;  // some access works element by element in tails
  /// The only 8-byte values are indices and numbers that they are compared with: all of them are kept as i32, for axes
  /// shorter than 2^31. A number beyond i32 is clamped, which no comparison with an index can tell.
  bool narrow_index = false;
  std::vector<InstPlan> insts;
  std::vector<PassPlan> passes;    // pointwise: one, with stores
  std::vector<char> used_outside;  // instructions above the innermost level that something needs
  int depths = 0;                  // greatest reduction depth
  int stashes = 0;
  std::vector<std::uint16_t> inner_stores, outer_stores;  // indices into Kernel::stores
  /// Row kernels that can be cut into blocks and finished later.
  bool splits() const { return is_row && near_axis < 0 && passes.size() == 1 && !passes[0].stores; }
  /// Row kernels that have a variant for rows of at most `lanes` elements.
  bool has_short_rows() const;
};

enum class IndexWidth : std::uint8_t { wide, narrow_if_possible };

/// Nothing where the generator declines, with the reason in `why`.
std::optional<LoopPlan> plan_loop(const Kernel& kernel, const Schedule& schedule, Isa isa, IndexWidth width,
                                  std::string& why);

}  // namespace x86
SINTER_NAMESPACE_END
