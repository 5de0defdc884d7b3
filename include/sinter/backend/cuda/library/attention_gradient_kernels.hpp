// Gradients of attention: texts and what their launches pass them; knows no driver.
#pragma once

#include <sinter/backend/cuda/library/attention_kernels.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// The gradients by q, k and v: launches over tiles of queries, which leave what they learn of each query in `stats`,
/// and one over tiles of keys. On tensor cores, but of f32 where TF32 is not allowed on the ordinary units, unless
/// products of parts are for it and the forward pass has left the levels.
class AttentionGradientPlan {
 public:
  /// What a launch computes: what the others want to know of each query; dq, and that, where no launch did before; dk
  /// and dv.
  enum class Part : std::uint8_t { levels, queries, keys };
  struct Tile {
    Part part = Part::queries;
    int row_blocks = 1, step = 64;  // of each warp; rows at a time of what it walks over
    int groups = 0, stages = 2;     // of four warps with 64 rows, by `wgmma`; 0: four warps by `mma`, or
    int block_rows = 16;            // of a row block; 4 on the ordinary units, where two warps have the same rows
    int together = 1;               // by `wgmma`: steps between which products are in flight
    bool is_in_parts = false;       // by `wgmma`, of f32: two groups have the same rows, and a stage each
    int threads() const { return groups > 0 ? (groups + 1) * 128 : block_rows == 4 ? 256 : 128; }
    int rows() const { return is_in_parts ? 64 : groups > 0 ? groups * 64 : row_blocks * block_rows * 4; }
  };
  /// `capability`: 90 for sm_90.
  AttentionGradientPlan(const AttentionProblem& problem, int capability, std::size_t shared_bytes);
  bool is_open() const { return is_open_; }
  /// In the order of the launches.
  std::span<const Tile> tiles() const { return {tiles_.data(), count_}; }
  std::size_t shared_bytes(const Tile& tile) const;
  /// One entry. The tile is one of tiles().
  LibrarySource source(const Tile& tile) const;
  AttentionArguments arguments(const Tile& tile) const;
  std::int64_t blocks(const Tile& tile) const { return problem_.batches * arguments(tile).tiles; }
  std::size_t stats_bytes() const {
    return static_cast<std::size_t>(problem_.batches * problem_.queries) *
           (problem_.mask == AttentionMask::added ? 4 : 2) * sizeof(float);
  }

 private:
  int element() const { return problem_.dtype == DType::f32 ? 4 : 2; }
  bool is_plain() const { return problem_.dtype == DType::f32 && !problem_.allows_tf32; }
  int row_step() const { return is_plain() ? 128 : 32; }  // rows in shared memory are multiples of it
  AttentionProblem problem_;
  int capability_;
  std::array<Tile, 3> tiles_{};
  std::size_t count_ = 0;
  bool is_open_ = false;
};

}  // namespace cuda
SINTER_NAMESPACE_END
