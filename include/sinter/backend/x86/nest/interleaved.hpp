// Accesses whose elements alternate in memory: the coordinates of points, the columns of a narrow matrix, the parts of
// complex numbers. What lies between the first and the last element of a step is moved in whole vectors, and lanes are
// put in their places between registers. Found when a kernel meets its numbers. Knows kernels and strides; the
// instructions are LoopBody's.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Elements from one point to the next, at most.
inline constexpr std::int64_t most_interleaved = 16;

struct Interleaved {
  /// One operand's elements at places 0 to `span` - 1 behind the lowest, `pitch` apart from point to point; all of them
  /// are there, or only the accesses' own may be touched.
  struct Group {
    std::uint16_t lowest = 0;  // the access whose element lies first
    std::uint8_t pitch = 0, span = 0;
    std::uint16_t places = 0;  // of accesses, a bit each
    bool is_stored = false;
    friend bool operator==(const Group&, const Group&) = default;
    bool is_full() const { return places == (1u << pitch) - 1; }
  };
  struct Member {
    std::int16_t group = -1;
    std::uint8_t place = 0;
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Group> groups;
  std::vector<Member> members;  // of each access; empty: there are no groups
  friend bool operator==(const Interleaved&, const Interleaved&) = default;

  bool is_empty() const { return groups.empty(); }
  bool has(std::size_t access) const { return access < members.size() && members[access].group >= 0; }
  const Group& group_of(std::size_t access) const { return groups[as_index(members[access].group)]; }
};

/// AVX-512 moves any of a point's elements, AVX2 all of them or none.
Interleaved find_interleaved(const Kernel& kernel, const BoundGeometry& geometry, Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
