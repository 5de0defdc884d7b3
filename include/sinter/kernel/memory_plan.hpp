// Memory plan: in which order the kernels of a graph run and where each value lies. Intermediates share one arena by
// liveness; a kernel may write over an operand that it is the last to read, point by point. Sizes stay symbolic: slots
// get their offsets when a plan is bound to extents. Knows lowered kernels, no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/lowering.hpp>

#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

enum class BufferKind : std::uint8_t { none, input, constant, output, arena, number };

/// Where an operand's memory is: number of the graph input, constant, graph output, arena slot or symbolic number.
struct BufferRef {
  BufferKind kind = BufferKind::none;
  std::int32_t index = -1;
  friend bool operator==(const BufferRef&, const BufferRef&) = default;
};

/// A piece of the arena, in use from step `first` to step `last`, both included.
struct ArenaSlot {
  Dim bytes;
  std::int32_t first = 0, last = 0;
};

/// Steps `first` to `end - 1`.
struct StepRange {
  std::int32_t first = 0, end = 0;
};

struct MemoryPlan {
  std::vector<std::int32_t> order;      // groups, as they run
  std::vector<BufferRef> buffer_of;     // per fusion node
  std::vector<std::int32_t> constants;  // fusion nodes, by number of the constant
  std::vector<ArenaSlot> slots;
  std::vector<StepRange> groups;    // steps that may run at the same time, two or more in each
  std::vector<std::int32_t> donor;  // per output: the input whose buffer it may take over, or -1
};

/// Which steps are put side by side (MemoryPlan::groups): none, those for which it pays at the sizes of the hints, or
/// those of these that have equal code.
enum class StepGrouping : std::uint8_t { none, where_it_pays, equal_code };

/// Grouping may make the arena larger than it is without by this share, or by `free_growth` bytes where all its sizes
/// are known.
inline constexpr std::int64_t growth_share = 8, free_growth = 64 << 10;

/// `kernels` has one entry per group (an empty one for groups that the host runs); `hints`: one per symbol.
MemoryPlan plan_memory(const FusionGraph& nodes, const Fusion& fusion, std::span<const LoweredKernel> kernels,
                       std::span<const std::uint8_t> may_donate, StepGrouping grouping = StepGrouping::none,
                       std::span<const std::int64_t> hints = {});

/// Whether the kernel of a group may meet an index that is out of range. False only where each of its indices comes
/// from an operation that says so (ops::Take::in_range).
bool may_fail(const FusionGraph& nodes, const FusionGroup& group, const Kernel& kernel);

inline constexpr std::int64_t arena_alignment = 64;
/// Offsets of slots of the given sizes such that slots alive together never overlap (first fit); returns the arena's
/// size.
std::int64_t place_slots(std::span<const ArenaSlot> slots, std::span<const std::int64_t> bytes,
                         std::vector<std::int64_t>& offsets);

SINTER_NAMESPACE_END
