// The loops of attention beside its products: kernels like any other, compiled once a process.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_attention_detail {

/// What is done to scores: nothing, a mask is added, or those that it does not name are hidden. In the last two the
/// mask may be the same for all keys.
enum class MaskKind : std::uint8_t { none, added, added_to_row, seen, row_is_seen };

/// A loop over rows with the numbers that do not change; its operands are given at each run, in the order of the
/// kernel's accesses.
struct BoundLoop {
  std::shared_ptr<const LoopCode> code;
  LoopArgs args;
  std::size_t accesses = 0;
};

/// Runs a loop over `rows` rows with its operands where they are now. `columns` (0: as bound) of each row; `scratch` is
/// what the code asked for at the columns it was bound to.
void run_loop(const BoundLoop& loop, std::int64_t rows, std::initializer_list<void*> operands, std::int64_t columns,
              std::byte* scratch, LoopArgs::Status& status);

/// One step of keys for some queries: scores become weights in place, and the greatest score and the sum of weights
/// take them in; `shrink` is what the sums of the steps before are to be scaled by.
/// Accesses: scores, greatest, sum, scale, the mask if there is one; written: scores, greatest, sum, shrink.
BoundLoop softmax_loop(DType dtype, Isa isa, MaskKind mask, std::int64_t score_stride, std::int64_t mask_stride);
/// values[row] *= factor[row]. Accesses: values, factor; written: values.
BoundLoop scale_loop(DType dtype, Isa isa, std::int64_t columns);
/// One segment takes in a later one, the numbers of each row. Accesses: greatest, sum, later greatest, later sum;
/// written: greatest, sum, and the factors of both.
BoundLoop join_loop(DType dtype, Isa isa);
/// values[row] = values[row] * factor[row] + later[row] * later_factor[row]. Accesses: values, factor, later,
/// later_factor; written: values.
BoundLoop add_loop(DType dtype, Isa isa, std::int64_t columns);
/// out[row] = values[row] / sum[row], or zeros where the sum is 0 and `gives_zeros`. Accesses: values, sum; written:
/// out.
BoundLoop divide_loop(DType dtype, Isa isa, std::int64_t columns, bool gives_zeros);

/// Scores of rows become weights in place, not yet divided by their sum. Accesses: scores, scale, the mask if there is
/// one; written: scores, and the sum's inverse, 0 where the sum is 0. At most `columns` of a row.
BoundLoop weights_loop(DType dtype, Isa isa, MaskKind mask, std::int64_t columns, std::int64_t score_stride,
                       std::int64_t mask_stride);
/// out[row] = sum over columns of a * b. Accesses: a, b; written: out.
BoundLoop dot_loop(DType dtype, Isa isa, std::int64_t columns);
/// weight = undivided * inverse, and dscore = weight * (dweight - dot) * scale. Accesses: undivided (rows score_stride
/// apart), dweight (in place of which dscore comes), inverse, dot, scale; written: weight, dscore (tile_stride).
BoundLoop score_gradient_loop(DType dtype, Isa isa, std::int64_t columns, std::int64_t score_stride,
                              std::int64_t tile_stride);

}  // namespace x86_attention_detail
}  // namespace x86
SINTER_NAMESPACE_END
