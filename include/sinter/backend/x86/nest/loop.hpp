// The loop generator's front: compiles pointwise, row and column kernels into machine code over one outer axis, and
// the argument block that this code reads. Contractions use it for their epilogue. How the remaining axes and the
// threads are walked is the driver's business (driver.ipp).
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/backend/x86/nest/interleaved.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN
enum class IndexWidth : std::uint8_t;  // kernel/loop_nest/builder.hpp
class Executable;

namespace x86 {

inline constexpr int max_accesses = 48;

/// What generated code reads. Strides in bytes. Plain data: drivers copy it per task and shift `base`.
struct LoopArgs {
  struct Pointer {
    char* base = nullptr;             // element (outer 0, reduced 0, column 0) of this task
    std::int64_t outer_stride = 0;    // per step of the outer (row) axis, the one begin/end count
    std::int64_t reduced_stride = 0;  // column kernels: the innermost reduced axis; row kernels: the outer of two
    std::int64_t far_stride = 0;      // column kernels: the outer of two reduced axes
    std::int64_t column_stride = 0;   // along the vector axis
    std::int64_t gather_stride = 0;
    std::int64_t gather_extent = 0;
  };
  std::int64_t columns = 0;  // extent of the vector axis for this task
  std::int64_t reduced = 1;  // extent of the axis that reduced_stride walks
  std::int64_t far = 1;      // extent of the axis that far_stride walks
  // Value of the `index` primitive of a parallel axis: index_origin[axis] + outer * index_step[axis]
  // (+ column, for the vector axis). The outer axis has step 1, the others 0.
  std::int64_t index_origin[max_axes] = {};
  std::int64_t index_step[max_axes] = {};
  void* scratch = nullptr;          // task-local memory, LoopCode::scratch_bytes(columns), 64-byte aligned
  std::int64_t scratch_stride = 0;  // LoopCode::scratch_stride(columns)
  struct Status {
    std::int64_t access = 0;  // one more than the access of a gather whose index was out of range; 0: none was
    std::int64_t index = 0;   // that index
  };
  Status* status = nullptr;
  Pointer pointer[max_accesses];  // one per access of the kernel
};
/// Runs outer steps [begin, end).
using LoopFunction = void (*)(const LoopArgs*, std::int64_t begin, std::int64_t end);

/// Machine code of one kernel. Immutable.
class LoopCode {
 public:
  virtual ~LoopCode() = default;
  LoopFunction function() const { return function_; }
  /// Row kernels with one reduction depth and no store along the row also have: blocks [begin, end) of the single row
  /// at args.pointer[].base, block values to `scratch` (8 bytes each, block-major, one per reduction or number of a
  /// fold's state) ...
  LoopFunction blocks() const { return blocks_; }
  /// ... and from those block values (`reduced` of them) the rest of outer step `begin`. Null where there is none.
  LoopFunction finish() const { return finish_; }
  /// The whole, with stores past the caches, made when first asked for. Every stored pointer must be a multiple of 64,
  /// as must its outer stride. Null for kernels that are neither pointwise nor of rows.
  virtual LoopFunction streaming() const = 0;
  /// Pointwise kernels: the whole, with those results stored past the caches that are made of the last access alone,
  /// and are no update of another array. `results` says which those are, a bit for each access; their pointers must be
  /// as streaming() wants them. Null where there are none.
  virtual LoopFunction streaming_new(std::uint64_t& results) const = 0;
  /// Row kernels: the whole with two rows side by side, made when first asked for, and the same with stores past the
  /// caches. They take twice the scratch. Null where there is none.
  virtual LoopFunction pairs() const = 0;
  virtual LoopFunction streaming_pairs() const = 0;
  /// Row kernels: the whole for rows of 1 to `short_columns` elements, made when first asked for. Null where there is
  /// none.
  virtual LoopFunction short_rows() const = 0;
  int short_columns() const { return short_columns_; }
  /// Indices are i32: every axis that the `index` primitive reads must be shorter than 2^31.
  bool has_narrow_index() const { return has_narrow_index_; }
  int reductions() const { return reductions_; }
  std::int64_t scratch_stride(std::int64_t columns) const { return (columns * 8 + 127) / 64 * 64; }
  std::size_t scratch_bytes(std::int64_t columns) const { return as_index(tiles_ * scratch_stride(columns)); }
  std::size_t code_bytes() const { return code_bytes_; }
  /// A guess at the time one element takes in cache, for the cost model of threads.
  double nanoseconds_per_element() const { return nanoseconds_per_element_; }
  virtual std::string listing() const = 0;

 protected:
  LoopFunction function_ = nullptr, blocks_ = nullptr, finish_ = nullptr;
  int reductions_ = 0, tiles_ = 0, short_columns_ = 0;
  bool has_narrow_index_ = false;
  std::size_t code_bytes_ = 0;
  double nanoseconds_per_element_ = 0.1;
};

/// Whether results go past the caches, where their addresses allow it: by their size, never or always.
enum class Streaming : std::uint8_t { by_size, never, always };
inline constexpr double streamed_bytes = 24e6;  // larger than the caches
/// What a schedule says about it.
Streaming streaming_of(const Schedule& schedule);

/// Null where the generator declines; `why_declined` (if given) then says why. Contractions are always declined. Narrow
/// indices are for extents that fit i32: see LoopCode::has_narrow_index().
std::shared_ptr<const LoopCode> compile_loop(const Kernel& kernel, const Schedule& schedule, Isa isa, IndexWidth width,
                                             std::string* why_declined = nullptr);
/// Code for accesses that alternate in memory as `interleaved` says. Null where the generator declines.
std::shared_ptr<const LoopCode> compile_interleaved(const Kernel& kernel, const Interleaved& interleaved,
                                                    const Schedule& schedule, Isa isa, IndexWidth width);
/// With indices of 64 bits.
std::shared_ptr<const LoopCode> compile_loop(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                             std::string* why_declined = nullptr);

/// Fills everything but `base`, `scratch` and `status` for `outer_axis` as the outer axis (-1: none, one outer step).
/// base[i] is then operand address + offset_bytes(kernel, geometry, i), moved along the axes that the caller walks.
void fill_loop_args(LoopArgs& args, const Kernel& kernel, const BoundGeometry& geometry, int outer_axis);
std::int64_t offset_bytes(const Kernel& kernel, const BoundGeometry& geometry, std::size_t access);

/// The whole kernel as an Executable: code, driver over all axes, threads. Null where declined.
std::shared_ptr<const Executable> make_loop_executable(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                       std::string* why_declined = nullptr);

}  // namespace x86
SINTER_NAMESPACE_END
