// Micro-kernels of contractions: machine code that adds up one register tile of C = A * B over a run of k, block by
// block, and stores it. Emitted on demand, once per process and shape, shared by every contraction. Knows nothing of
// kernels, packing or loops.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// How a micro-kernel walks A.
enum class AWalk : std::uint8_t {
  unit_k,    // elements of a row are adjacent; row stride at run time
  unit_row,  // elements of a column are adjacent (A transposed); k stride at run time
  strided,   // both at run time
};

/// Which blocks of k (product_sum_block) a micro-kernel adds up.
enum class MicroSum : std::uint8_t {
  one_block,    // k is no longer than a block
  blocks,       // the first blocks of a sum
  more_blocks,  // what is in C is the sum of the blocks before
};

/// What one micro-kernel is emitted for.
struct MicroShape {
  DType dtype = DType::f32;  // f32, f64
  Isa isa = Isa::avx2;
  std::uint8_t rows = 1;     // 1 to max_micro_rows
  std::uint8_t vectors = 1;  // vectors per row, 1 to max_micro_vectors
  bool is_masked = false;    // the last vector of a row is partly in use
  AWalk walk = AWalk::unit_k;
  MicroSum sum = MicroSum::one_block;
  bool prefetches_a =
      false;  // with AWalk::unit_row: successive k so far apart that the processor does not see the pattern
  bool prefetches_b = false;     // the same for B
  bool prefetches_next = false;  // asks for rows of MicroArgs::next on the way
  friend bool operator==(const MicroShape&, const MicroShape&) = default;
};
inline constexpr int max_micro_rows = 16;
inline constexpr int max_micro_vectors = 16;
inline constexpr int max_micro_slots = 8;
inline constexpr int steps_per_row_ahead = 4;   // of k, for which a row of MicroArgs::next is asked for
inline constexpr int max_tile_bytes = 32 * 64;  // every register an accumulator

/// Elements per vector register.
constexpr int lanes(Isa isa, DType dtype) { return static_cast<int>((isa == Isa::avx512 ? 64 : 32) / size_of(dtype)); }
/// Accumulators, one row or column of operands and two temporaries must fit the register file.
constexpr bool fits_registers(Isa isa, int rows, int vectors) {
  const int registers = isa == Isa::avx512 ? 32 : 15;  // AVX2 keeps one for the mask
  return rows >= 1 && rows <= max_micro_rows && vectors >= 1 && vectors <= max_micro_vectors &&
         rows * vectors + (rows < vectors ? rows : vectors) + 1 <= registers;
}

/// What a micro-kernel reads. Strides in bytes. It does `tiles` tiles one below the other, and leaves `a`, `c` and the
/// slots where the next would be, `tiles` zero.
struct MicroArgs {
  const char* a = nullptr;  // element (0, 0) of the tile's rows
  const char* b = nullptr;  // element (0, 0) of the tile's columns; columns are adjacent
  char* c = nullptr;        // columns are adjacent
  std::int64_t a_row_stride = 0;
  std::int64_t a_k_stride = 0;
  std::int64_t b_k_stride = 0;
  std::int64_t c_row_stride = 0;
  std::int64_t k = 0;               // 0 stores zeros
  void* totals = nullptr;           // max_tile_bytes of scratch: sums of finished blocks; not read for one block
  std::int64_t left = 0;            // used inside: k after the current block
  std::int64_t has_totals = 0;      // used inside: whether a block is finished
  const void* lane_mask = nullptr;  // AVX2: one all-ones or all-zeros element per lane of the last vector
  std::uint64_t mask_bits = 0;      // AVX-512: one bit per lane
  std::int64_t tiles = 1;
  struct Slot {
    char* at;
    std::int64_t row_stride;
  };
  Slot slot[max_micro_slots];  // operands of an epilogue in registers; `c` is then not used
  const char* next = nullptr;  // with prefetches_next: rows as wide as the tile that will be read later
  std::int64_t next_row_stride = 0;
  /// Makes the last vector's first `used` lanes take part.
  void set_mask(DType dtype, int used);
};
using MicroFunction = void (*)(MicroArgs*);

/// The functions for `shapes`, in the same order; those that do not exist yet are emitted together. Thread-safe,
/// lock-free.
void find_micro_kernels(std::span<const MicroShape> shapes, std::span<MicroFunction> functions);
/// The code of one, for programs without Sinter: it runs wherever it lies, best on a cache line.
std::vector<std::byte> micro_kernel_code(const MicroShape& shape);

}  // namespace x86
SINTER_NAMESPACE_END
