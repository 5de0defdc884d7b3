// The sizes of rows that peers in processes of their own repeat, and the rows' names, which must be the same there.
#pragma once

#include "comparison.hpp"

#include <cstdint>
#include <string>

namespace bench {

/// C [m, n] = A [m, k] B [k, n], `batch` times.
struct Product {
  std::int64_t m, n, k, batch = 1;

  std::string text() const { return batch == 1 ? shape_text({m, n, k}) : shape_text({batch, m, n, k}); }
  double flops() const { return 2.0 * static_cast<double>(batch * m * n * k); }
};
inline constexpr Product products[] = {{64, 64, 64},       {128, 128, 128}, {512, 512, 512},
                                       {1024, 1024, 1024}, {128, 768, 768}, {128, 3072, 768},
                                       {128, 768, 3072},   {1, 768, 3072},  {32, 256, 784}};
/// Those that are measured on two threads, too.
inline constexpr Product shared_products[] = {{512, 512, 512},  {1024, 1024, 1024}, {2048, 2048, 2048}, {128, 768, 768},
                                              {128, 768, 3072}, {128, 3072, 768},   {1, 768, 3072}};
inline constexpr Product batched_products[] = {{128, 128, 64, 12}, {128, 64, 128, 12}, {16, 16, 16, 256}};

/// Images [n, c, h, w], weights [o, c, size, size], padded so that the result is as large as the image.
struct Convolution {
  std::int64_t n, c, h, w, o, size;

  std::int64_t padding() const { return size / 2; }
  std::int64_t patch() const { return c * size * size; }
  std::string text() const { return shape_text({n, c, h, w}) + "," + shape_text({o, c, size, size}); }
  double flops() const { return 2.0 * static_cast<double>(n * o * h * w * patch()); }
};
inline constexpr Convolution convolutions[] = {{32, 64, 56, 56, 64, 3},  {1, 3, 32, 32, 16, 3},
                                               {8, 256, 14, 14, 256, 1}, {8, 256, 14, 14, 256, 3},
                                               {8, 512, 7, 7, 512, 3},   {8, 64, 56, 56, 256, 1}};
inline constexpr Convolution shared_convolutions[] = {{8, 256, 56, 56, 64, 1}, {8, 64, 56, 56, 256, 1}};

/// Queries, keys and values [batch, heads, tokens, width].
struct Attention {
  std::int64_t batch, heads, tokens, width;
  bool is_causal;

  std::string text() const { return shape_text({batch, heads, tokens, width}); }
  /// Of the two products; half of it where half of the scores is masked.
  double flops() const {
    return (is_causal ? 2.0 : 4.0) * static_cast<double>(batch * heads * tokens * tokens * width);
  }
};
inline constexpr Attention attentions[] = {{1, 12, 256, 64, true}, {1, 12, 256, 64, false}, {1, 12, 1024, 64, true}};

struct Rows {
  std::int64_t count, length;

  std::string text() const { return shape_text({count, length}); }
  std::int64_t elements() const { return count * length; }
};
inline constexpr Rows row_sizes[] = {{64, 1024}, {4096, 4096}};

/// Sums of a cube over every subset of its axes: bit i of `axes` stands for axis i.
inline constexpr std::int64_t cube = 256;
inline std::string axes_text(int axes) {
  std::string text;
  for (int axis = 0; axis < 3; ++axis) {
    if ((axes & (1 << axis)) == 0) continue;
    if (!text.empty()) text += ',';
    text += std::to_string(axis);
  }
  return text;
}
inline std::string sum_name(int axes) {
  return "sum over {" + axes_text(axes) + "}/" + shape_text({cube, cube, cube}) + "/f32";
}

}  // namespace bench
