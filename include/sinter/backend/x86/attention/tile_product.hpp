// Small products whose operands are in cache: micro-kernels over the tiles of one block of rows.
#pragma once

#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_attention_detail {

/// C = A B or, with MicroSum::more_blocks, C += A B. A's rows are adjacent in k or, with AWalk::unit_row, its columns
/// in the rows. B and C have adjacent columns, `width()` of them in a panel.
class TileProduct {
 public:
  static constexpr int tile_rows = 6;

  TileProduct() = default;
  /// For blocks of rows that end where `rows` end or at a multiple of tile_rows, of `columns` or `other_columns`
  /// columns; `k` is the most that is added up at once.
  TileProduct(DType dtype, Isa isa, std::int64_t rows, std::int64_t columns, std::int64_t other_columns, std::int64_t k,
              MicroSum sum, AWalk walk = AWalk::unit_k)
      : dtype_(dtype), lanes_(lanes(isa, dtype)), vectors_(isa == Isa::avx512 ? 4 : 2) {
    if (sum == MicroSum::one_block && k > product_sum_block) sum = MicroSum::blocks;
    const std::array<std::int64_t, tails> tail{columns % width(), other_columns % width()};
    std::array<MicroShape, 2 * (1 + tails)> shapes;
    std::array<MicroFunction, 2 * (1 + tails)> found{};
    const auto rest = static_cast<int>(rows % tile_rows);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const bool is_rest = i % 2 == 1 && rest != 0;
      // What does not occur has the shape of what does, so that nothing unused is emitted.
      const std::int64_t in_panel = i / 2 > 0 && tail[i / 2 - 1] != 0 ? tail[i / 2 - 1]
                                    : columns >= width()              ? width()
                                                                      : columns;
      shapes[i] = {.dtype = dtype,
                   .isa = isa,
                   .rows = static_cast<std::uint8_t>(is_rest || rows < tile_rows ? rest : tile_rows),
                   .vectors = static_cast<std::uint8_t>((in_panel + lanes_ - 1) / lanes_),
                   .is_masked = in_panel % lanes_ != 0,
                   .walk = walk,
                   .sum = sum};
      columns_[i / 2] = in_panel;
    }
    if (columns == 0 || rows == 0) return;
    find_micro_kernels(shapes, found);
    for (std::size_t i = 0; i < found.size(); ++i) functions_[i % 2][i / 2] = found[i];
  }

  /// Columns of a full panel.
  std::int64_t width() const { return vectors_ * lanes_; }

  /// `columns` of `rows` rows, the first of which args.a and args.c point to; successive panels of B are `panel_bytes`
  /// apart.
  void run(const MicroArgs& args, std::int64_t rows, std::int64_t columns, std::int64_t panel_bytes) const {
    std::int64_t panel = 0;
    for (std::int64_t column = 0; column < columns; column += width(), ++panel) {
      const std::int64_t in_panel = std::min(width(), columns - column);
      const auto kind = as_index(std::find(columns_.begin(), columns_.end(), in_panel) - columns_.begin());
      MicroArgs each = args;
      each.b += panel * panel_bytes;
      each.c += column * size_of(dtype_);
      if (in_panel % lanes_ != 0) each.set_mask(dtype_, static_cast<int>(in_panel % lanes_));
      each.tiles = rows / tile_rows;
      if (each.tiles != 0) functions_[0][kind](&each);
      each.tiles = 1;
      if (rows % tile_rows != 0) functions_[1][kind](&each);
    }
  }

 private:
  static constexpr std::size_t tails = 2;
  DType dtype_ = DType::f32;
  std::int64_t lanes_ = 1;
  int vectors_ = 1;
  std::array<std::int64_t, 1 + tails> columns_{};  // of a panel of each kind
  std::array<std::array<MicroFunction, 1 + tails>, 2> functions_{};
};

}  // namespace x86_attention_detail
}  // namespace x86
SINTER_NAMESPACE_END
