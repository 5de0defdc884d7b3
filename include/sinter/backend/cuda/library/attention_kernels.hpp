// Attention without its scores: blocks of queries walk over the keys, tile by tile. Texts and what a launch passes
// them; knows no driver.
#pragma once

#include <sinter/backend/cuda/library/library_kernels.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// What is done to scores: nothing, those that a mask does not name are hidden, or the mask is added.
enum class AttentionMask : std::uint8_t { none, seen, added };

/// q [batches, queries, features], k [batches / sharers, keys, features], v [batches / sharers, keys, value_features].
struct AttentionProblem {
  DType dtype = DType::f32;
  bool allows_tf32 = false;  // products of f32 on tensor cores
  std::int64_t batches = 1, queries = 1, keys = 1;
  std::int64_t sharers = 1;  // batches of queries, one after the other, that see the same keys
  int features = 64, value_features = 64;
  AttentionMask mask = AttentionMask::none;
  bool is_causal = false, gives_zeros = false;
  std::int64_t ahead = 0;  // causal: query i sees keys up to i + ahead
  /// The forward pass leaves the level of each query (AttentionArguments::levels), and the gradients' read it.
  bool keeps_levels = false;
  double scale = 1;
  static constexpr int most_features = 256;
  static constexpr std::size_t mask_axes = 6;  // of the batch
  /// Numbers of a query: the level, and where a mask is added the rest.
  int levels() const { return mask == AttentionMask::added ? 2 : 1; }
};

/// The parameter of all kernels; their texts declare the same.
struct AttentionArguments {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *mask = nullptr;
  void* out = nullptr;
  float* parts = nullptr;  // of pieces of the keys: sums of values, the base of exponents, the sum of weights
  const void *dout = nullptr, *result = nullptr;     // gradients
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;  // the same
  float* stats = nullptr;                            // the same: of each query, two or three numbers
  float* levels = nullptr;  // weights are 2^(score - level), or e^(score - level) 2^-rest where a mask is added
  std::array<std::int64_t, AttentionProblem::mask_axes> mask_stride{};  // elements; of the last batch axis first
  std::int64_t mask_row = 0;
  std::array<std::int32_t, AttentionProblem::mask_axes> mask_extent{};
  std::int32_t mask_key = 0;
  std::int32_t batches = 1, queries = 1, keys = 1, tiles = 1, pieces = 1, piece = 0, ahead = 0, sharers = 1;
  float scale = 1;  // of exponents of 2
  float plain_scale = 1;
};

/// The tiles of a problem on a device, chosen by extents alone. A query's result depends on its own row, the keys'
/// tiles and, for few queries, on pieces of the keys, which are merged in order; on no tile of queries.
class AttentionPlan {
 public:
  /// `capability`: 90 for sm_90.
  AttentionPlan(const AttentionProblem& problem, int capability, int multiprocessors, std::size_t shared_bytes);
  /// Does a tile fit into shared memory?
  bool is_open() const { return is_open_; }
  /// Entry 0 walks over the keys; entry 1, where there are pieces, merges them.
  LibrarySource source() const;
  /// All but the addresses and the mask's strides.
  AttentionArguments arguments() const;
  std::int64_t blocks() const {
    return (is_few_ ? problem_.batches / problem_.sharers : problem_.batches) * tiles() * pieces_;
  }
  int threads() const { return (warps_ + (by_groups_ ? 4 : 0)) * 32; }
  std::size_t shared_bytes() const;
  std::int64_t pieces() const { return pieces_; }
  std::size_t parts_bytes() const;
  /// Of f32 in full precision by products of parts of bf16 (attention_parts_kernels.hpp).
  bool is_in_parts() const { return by_groups_ && problem_.dtype == DType::f32; }
  bool is_on_tensor_cores() const { return problem_.dtype != DType::f32 || problem_.allows_tf32; }

 private:
  int element() const { return problem_.dtype == DType::f32 ? 4 : 2; }
  int row_step() const { return is_on_tensor_cores() ? 32 : 128; }
  int block_queries() const {
    return is_few_ ? 8 : warps_ * row_blocks_ * (is_on_tensor_cores() || by_groups_ ? 16 : 4);
  }
  std::int64_t tiles() const {
    const std::int64_t rows = is_few_ ? problem_.queries * problem_.sharers : problem_.queries;
    return (rows + block_queries() - 1) / block_queries();
  }
  int stages() const { return problem_.dtype == DType::f32 ? 1 : 2; }  // by groups alone
  int padded(int features) const;  // bytes of a row in shared memory, without what is between rows
  void choose_tile(int multiprocessors, std::size_t shared_bytes);

  AttentionProblem problem_;
  int capability_;
  bool is_open_ = false, by_groups_ = false;  // products of four warps at once (wgmma)
  bool is_few_ = false;                       // few queries: rows of a tile are those of all batches with these keys
  int warps_ = 4, row_blocks_ = 2, block_keys_ = 64;
  std::int64_t pieces_ = 1, piece_ = 0;
};

}  // namespace cuda
SINTER_NAMESPACE_END
