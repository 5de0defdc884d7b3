// Gradients of attention: texts and what their launches pass them; knows no driver.
#pragma once

#include <sinter/backend/cuda/library/attention_kernels.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// The gradients by q, k and v, by two launches: over tiles of queries, which leaves what it learns of each query in
/// `stats`, and over tiles of keys. On tensor cores alone.
class AttentionGradientPlan {
 public:
  struct Tile {
    int row_blocks = 1, step = 64;  // of 16 rows, of each warp; rows at a time of what it walks over
    static constexpr int warps = 4, threads = warps * 32;
    int rows() const { return warps * row_blocks * 16; }
  };
  AttentionGradientPlan(const AttentionProblem& problem, std::size_t shared_bytes);
  bool is_open() const { return is_open_; }
  const Tile& queries() const { return queries_; }
  const Tile& keys() const { return keys_; }
  std::size_t shared_bytes(const Tile& tile) const;
  /// One entry. The tile is queries() or keys().
  LibrarySource source(const Tile& tile, int capability) const;
  AttentionArguments arguments(const Tile& tile) const;
  std::int64_t blocks(const Tile& tile) const { return problem_.batches * arguments(tile).tiles; }
  std::size_t stats_bytes() const {
    return static_cast<std::size_t>(problem_.batches * problem_.queries) *
           (problem_.mask == AttentionMask::added ? 3 : 2) * sizeof(float);
  }

 private:
  int element() const { return problem_.dtype == DType::f32 ? 4 : 2; }
  AttentionProblem problem_;
  Tile queries_, keys_;
  bool is_open_ = false;
};

}  // namespace cuda
SINTER_NAMESPACE_END
