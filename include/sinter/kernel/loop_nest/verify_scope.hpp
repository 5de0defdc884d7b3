// What the verifier of loop nests knows at a place of one. For verify.ipp.
#pragma once

#include <sinter/base/small_vector.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

/// Of a value: `part` is the value of one block of a fold, `before` of a scan what the blocks before one gave.
enum class NestKnown : std::uint8_t { no, yes, part, before };

/// Of a buffer.
struct NestKept {
  bool is_there = false, lacks_last = false;  // lacks_last: the last block did not keep it
  int stage = 0;
  AxisMask points = 0, blocks = 0;
  NestKnown known = NestKnown::no;
};

/// What ends with an iteration.
struct NestScope {
  SmallVector<NestKnown, 256> known;
  SmallVector<bool, 256> checked;              // gathers
  AxisMask points = 0, blocks = 0, tasks = 0;  // axes walked point by point; by blocks; by task loops in either way
  NestLevel level = NestLevel::kernel;
  bool has_vector = false, is_single = false;
  bool has_barrier = false, is_in_lanes = false;  // on a GPU: since the last load; inside a loop over lanes
  bool lacks_last = false, is_before = false;     // in blocks but for the last; in those before a block
};

}  // namespace kernel_detail

SINTER_NAMESPACE_END
