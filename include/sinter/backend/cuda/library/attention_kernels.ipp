// Attention's tiles and texts. A text knows tiles, features and what is done to scores; extents are numbers.
#pragma once

#include <sinter/backend/cuda/library/attention_kernels.hpp>

#include <sinter/backend/cuda/library/attention_few_text.hpp>
#include <sinter/backend/cuda/library/attention_hopper_kernels.hpp>
#include <sinter/backend/cuda/library/attention_parts_kernels.hpp>
#include <sinter/backend/cuda/library/attention_plain_texts.hpp>
#include <sinter/backend/cuda/library/attention_texts.hpp>
#include <sinter/backend/cuda/library/quantized_kernels.ipp>
#include <sinter/backend/cuda/source/scalar.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

inline std::string element_text(DType dtype) {
  return dtype == DType::f16 ? "Half" : dtype == DType::bf16 ? "Brain" : "float";
}

inline std::string define_number(const char* name, int value) {
  return library_detail::define_text(name, std::to_string(value));
}
inline int padded_bytes(int bytes, int step) { return (bytes + step - 1) / step * step; }

/// What a text knows of the problem; rows in shared memory are multiples of `row_step` bytes.
inline std::string problem_text(const AttentionProblem& p, int row_step) {
  const bool is_plain = p.scale > 0 && p.mask != AttentionMask::added;
  const int element = p.dtype == DType::f32 ? 4 : 2;
  return library_detail::define_text("X", element_text(p.dtype)) +
         library_detail::define_text("M", p.mask == AttentionMask::added ? "X" : "unsigned char") +
         define_number("E", element) + define_number("D", p.features) + define_number("F", p.value_features) +
         define_number("DP", padded_bytes(p.features * element, row_step)) +
         define_number("FP", padded_bytes(p.value_features * element, row_step)) +
         define_number("MASK", static_cast<int>(p.mask)) + define_number("CAUSAL", p.is_causal ? 1 : 0) +
         define_number("ZEROS", p.gives_zeros ? 1 : 0) + define_number("KEEPS_LEVELS", p.keeps_levels ? 1 : 0) +
         define_number("PLAIN", is_plain ? 1 : 0) + define_number("IS_BRAIN", p.dtype == DType::f16 ? 0 : 1) +
         "struct __align__(16) Sixteen { unsigned words[4]; };\ntypedef long long i64;\n";
}

inline AttentionArguments arguments_of(const AttentionProblem& p) {
  AttentionArguments a;
  a.mask_extent.fill(1);
  a.batches = static_cast<std::int32_t>(p.batches);
  a.queries = static_cast<std::int32_t>(p.queries);
  a.keys = static_cast<std::int32_t>(p.keys);
  a.ahead = static_cast<std::int32_t>(p.ahead);
  a.sharers = static_cast<std::int32_t>(p.sharers);
  // A scale that rounds to zero would make hidden scores NaN.
  constexpr double log2_e = 1.4426950408889634, least = double{std::numeric_limits<float>::min()};
  a.plain_scale = static_cast<float>(p.scale);
  a.scale = static_cast<float>(std::copysign(std::max(std::abs(p.scale * log2_e), least), p.scale));
  return a;
}

/// Products of four warps at once: of sm_90 alone. Extents of the batch do not enter: the two texts differ in the last
/// digits. Of f32 in full precision by products of parts.
inline bool is_for_groups(const AttentionProblem& p, int capability) {
  const auto is_whole = [](int features) { return features == 64 || features == 128; };
  return capability == 90 && !(p.dtype == DType::f32 && p.allows_tf32) && p.queries > 64 && is_whole(p.features) &&
         is_whole(p.value_features);
}

/// Queries so few that keys and values are read at the rate of memory.
constexpr std::int64_t few_queries = 16;
inline bool is_for_few(const AttentionProblem& p) {
  return p.dtype != DType::f32 && p.queries <= few_queries && p.features % 32 == 0 && p.features <= 128 &&
         p.value_features % 64 == 0 && p.value_features <= 128;
}

/// Of a block: so many groups compute, and one more fetches and leaves most of its registers to them. Numbers that are
/// copied whole pass through none of those, numbers that are split into parts do (for two groups).
enum class Fetched : std::uint8_t { whole, parts };
inline std::string groups_text(int groups, int stages, Fetched fetched) {
  const bool splits = fetched == Fetched::parts;
  const int given = splits ? 72 : groups == 2 ? 40 : groups == 3 ? 32 : 24;
  const int taken = splits ? 216 : groups == 2 ? 232 : groups == 3 ? 160 : 112;
  return define_number("GROUPS", groups) + define_number("STAGES", stages) + define_number("GIVEN", given) +
         define_number("TAKEN", taken);
}

}  // namespace attention_detail

SINTER_DECL AttentionPlan::AttentionPlan(const AttentionProblem& problem, int capability, int multiprocessors,
                                         std::size_t shared_bytes)
    : problem_(problem), capability_(capability) {
  choose_tile(multiprocessors, shared_bytes);
  is_open_ = this->shared_bytes() <= shared_bytes;
}

SINTER_DECL int AttentionPlan::padded(int features) const {
  // Whole steps of an instruction; on the ordinary units, for values, what 8 threads read.
  return attention_detail::padded_bytes(features * element(), row_step());
}

SINTER_DECL std::size_t AttentionPlan::shared_bytes() const {
  const int depth = padded(problem_.features) + 16, values = padded(problem_.value_features) + 16;
  if (by_groups_) {
    constexpr int for_alignment = 1024, for_barriers = 32;
    const int bytes = is_in_parts() ? 6 : 2;  // of an element
    return as_index(block_queries() * problem_.features * bytes +
                    stages() * (block_keys_ * (problem_.features + problem_.value_features) * bytes + for_barriers) +
                    for_alignment);
  }
  if (is_few_) return as_index(warps_ * block_queries() * (problem_.value_features + 2)) * sizeof(float);
  if (!is_on_tensor_cores())
    return as_index((block_queries() + block_keys_) * depth + block_keys_ * values +
                    block_queries() * (block_keys_ * 4 + 32));
  return as_index(block_queries() * std::max(depth, values) + 2 * block_keys_ * (depth + values));
}

SINTER_DECL std::size_t AttentionPlan::parts_bytes() const {
  if (pieces_ == 1) return 0;
  const std::int64_t columns = padded(problem_.value_features) / element() + 2;
  return as_index(problem_.batches * pieces_ * problem_.queries * columns) * sizeof(float);
}

/// Registers bound the rows of a warp: its sums take a register for each feature and 8 rows.
SINTER_DECL void AttentionPlan::choose_tile(int multiprocessors, std::size_t shared_bytes) {
  using attention_detail::few_queries;
  const int most = std::max(problem_.features, problem_.value_features);
  const bool is_masked = problem_.mask != AttentionMask::none;
  if (!is_on_tensor_cores()) {
    if (attention_detail::is_for_groups(problem_, capability_)) {
      by_groups_ = true;
      row_blocks_ = 1;
      warps_ = 8;
      block_keys_ = most > 64 || is_masked ? 64 : 128;
      if (this->shared_bytes() <= shared_bytes) return;
      by_groups_ = false;
      warps_ = 4;
    }
    const bool has_many =
        most <= 128 && problem_.queries > 128 && problem_.batches * problem_.queries > 256 * multiprocessors;
    row_blocks_ = problem_.queries <= few_queries ? 1 : problem_.queries > 64 && (most <= 64 || has_many) ? 8 : 4;
    block_keys_ = most <= 64 ? 64 : 32;
    if (most > 64 && row_blocks_ == 8) warps_ = 8;  // one block fills a processor
    // Rows first: the tile of keys alone shows in the digits.
    if (warps_ == 8 && this->shared_bytes() > shared_bytes) warps_ = 4;
    while (row_blocks_ > 1 && this->shared_bytes() > shared_bytes) row_blocks_ /= 2;
    while (block_keys_ > 16 && this->shared_bytes() > shared_bytes) block_keys_ /= 2;
    return;
  }
  if (attention_detail::is_for_groups(problem_, capability_)) {
    // As measured on an H200; a mask takes registers, and where queries are few, or blocks, they share less.
    by_groups_ = true;
    row_blocks_ = 1;
    warps_ = most > 64 || is_masked ? 8 : 16;
    block_keys_ = most > 64 ? (is_masked ? 96 : 128) : is_masked ? 128 : 64;
    if (problem_.queries <= 128 || problem_.batches * tiles() < multiprocessors) warps_ = 8;
    if (this->shared_bytes() <= shared_bytes) return;
    by_groups_ = false;
    warps_ = 4;
    block_keys_ = 64;
  }
  const bool is_wide = most > (element() == 2 ? 128 : 64);
  row_blocks_ = is_wide || problem_.queries <= 64 ? 1 : 2;
  is_few_ = attention_detail::is_for_few(problem_);
  if (problem_.queries <= few_queries) {
    constexpr std::int64_t least_piece = 512, most_pieces = 64;
    warps_ = is_few_ ? 4 : 1;
    piece_ = std::max(least_piece, (problem_.keys + most_pieces * 64 - 1) / (most_pieces * 64) * 64);
    pieces_ = std::max<std::int64_t>(1, (problem_.keys + piece_ - 1) / piece_);
  }
  if (is_few_) return;
  // Whatever the batch, the tile of keys, which shows in the digits, is that of the larger tiles of queries.
  while (block_keys_ > 16 && this->shared_bytes() > shared_bytes) block_keys_ /= 2;
  if (problem_.batches * tiles() < multiprocessors) row_blocks_ = 1;  // too few blocks for the device: smaller ones
  while (row_blocks_ > 1 && this->shared_bytes() > shared_bytes) row_blocks_ /= 2;
  while (warps_ > 1 && this->shared_bytes() > shared_bytes) warps_ /= 2;
}

SINTER_DECL LibrarySource AttentionPlan::source() const {
  using namespace attention_detail;
  std::string text = problem_text(problem_, row_step()) + define_number("WARPS", threads() / 32) +
                     define_number("BM", block_queries()) + define_number("BN", block_keys_) +
                     define_number("SPLIT", pieces_ > 1 ? 1 : 0);
  if (by_groups_) {
    text += groups_text(warps_ / 4, stages(), is_in_parts() ? Fetched::parts : Fetched::whole);
  } else if (is_on_tensor_cores())
    text += define_number("MT", row_blocks_) + define_number("KEEPS_QUERIES", padded(problem_.features) <= 128 ? 1 : 0);
  else text += define_number("R", row_blocks_);
  text += common_text;
  if (by_groups_) {
    const DType operands = is_in_parts() ? DType::bf16 : problem_.dtype;
    text += group_text;
    for (const GroupProduct kind : {GroupProduct::first, GroupProduct::more})
      text += group_product(block_keys_, kind, operands);
    text += group_product(problem_.value_features, GroupProduct::kept, operands);
    if (is_in_parts()) text += group_product(problem_.value_features, GroupProduct::kept_first, operands);
    text += group_common_text;
    text += soften_text;
    if (is_in_parts()) text += parts_common_text;
    text += is_in_parts() ? parts_text : hopper_text;
  } else {
    if (is_few_) text += define_number("BLOCKS", 3);
    text += is_on_tensor_cores() ? fragment_text : plain_common_text;
    text += is_few_ ? few_text : is_on_tensor_cores() ? tensor_text : plain_text;
    if (pieces_ > 1) text += merge_text;
  }
  LibrarySource source{cuda_source_detail::helpers(text, capability_) + std::string(machine_text) + text,
                       {"attention"}};
  if (pieces_ > 1) source.entries.emplace_back("merge");
  return source;
}

SINTER_DECL AttentionArguments AttentionPlan::arguments() const {
  AttentionArguments a = attention_detail::arguments_of(problem_);
  a.tiles = static_cast<std::int32_t>(tiles());
  a.pieces = static_cast<std::int32_t>(pieces_);
  a.piece = static_cast<std::int32_t>(piece_);
  return a;
}

}  // namespace cuda
SINTER_NAMESPACE_END
