// The loop generator's front: compiles pointwise, row and column kernels into machine code over one outer axis, and
// the argument block that this code reads. Contractions use it for their epilogue.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>
#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace x86 {

enum class Isa : std::uint8_t { avx2, avx512 };

inline constexpr int max_accesses = 48;

/// What generated code reads. Strides in bytes. Plain data: drivers copy it per task and shift `base`.
struct LoopArgs {
  struct Pointer {
    char* base = nullptr;             // element (outer 0, reduced 0, column 0) of this task
    std::int64_t outer_stride = 0;    // per step of the outer (row) axis, the one begin/end count
    std::int64_t reduced_stride = 0;  // column kernels, or the outer of two reduced axes
    std::int64_t column_stride = 0;   // along the vector axis
    std::int64_t gather_stride = 0;
    std::int64_t gather_extent = 0;
  };
  std::int64_t columns = 0;           // extent of the vector axis for this task
  std::int64_t reduced = 1;           // extent of the axis that reduced_stride walks
  std::int64_t column_origin = 0;     // value of the `index` primitive at column 0 of this task
  std::int64_t outer_origin[max_axes] = {};  // value of `index` for the other axes at outer 0
  void* scratch = nullptr;            // task-local memory, LoopCode::scratch_bytes(columns)
  std::int64_t* status = nullptr;     // set to 1 by a gather index out of range
  Pointer pointer[max_accesses];      // one per access of the kernel
};
/// Runs outer steps [begin, end).
using LoopFunction = void (*)(const LoopArgs*, std::int64_t begin, std::int64_t end);

}  // namespace x86
SINTER_NAMESPACE_END
