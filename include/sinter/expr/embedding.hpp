// Linear maps and tables: linear, embeddings with a padding row, and bags of them.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// x weight^T + bias: x [..., in], weight [out, in], bias [out].
Tensor linear(const In& x, const In& weight);
Tensor linear(const In& x, const In& weight, const In& bias);

struct EmbeddingOptions {
  Optional<std::int64_t> padding_idx = {};  // the row of the table that gets no gradient; negative: from the end
  Optional<double> max_norm = {};           // rows that are longer are scaled down to it; the table stays as it is
  double norm_type = 2;                     // the order of that norm
};
/// Rows of `table` [n, d] at `indices`.
Tensor embedding(const In& indices, const In& table, EmbeddingOptions options = {});

enum class BagMode : std::uint8_t { sum, mean, max };
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  Optional<Tensor> offsets = {};            // (bags): where in a list of indices each bag begins, ascending from 0
  bool include_last_offset = false;         // one more offset says where the last bag ends
  Optional<Tensor> weights = {};            // of each index, as `indices`; for sums
  Optional<std::int64_t> padding_idx = {};  // indices that do not count
  Optional<double> max_norm = {};           // as in EmbeddingOptions
  double norm_type = 2;
};
/// Sum, mean or maximum of the rows of each bag: table [n, d], indices [bags, length], or a list of them, [length], and
/// offsets (i32 or i64), to [bags, d]. A bag in which none counts gives 0. A first offset that is not 0: IndexError
/// when it runs.
Tensor embedding_bag(const In& indices, const In& table, EmbeddingBagOptions options = {});

SINTER_NAMESPACE_END
