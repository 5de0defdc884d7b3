// A task is a chunk of queries of one batch. It lays its keys and values out for products once and goes through its
// queries block by block: the scores of a block with all its keys stay in cache, and nothing else of that size exists.
// The gradients by keys and values of a batch's first chunk add up in the result; those of later chunks are added to
// it.
#pragma once

#include <sinter/backend/x86/attention/gradient.hpp>

#include <sinter/backend/x86/attention/kernels.ipp>
#include <sinter/backend/x86/attention/numbers.hpp>
#include <sinter/backend/x86/attention/tile_product.hpp>
#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_attention_detail {

/// Of a thread.
struct GradientScratch {
  AlignedBytes keys, values, scores, weights, dscores, row_numbers, key_sums, loop;
  alignas(64) std::byte totals[max_tile_bytes];
  LoopArgs::Status status;
};
inline GradientScratch& gradient_scratch() {
  return thread_object([] { return new GradientScratch; });
}

class AttentionGradientLaunch final : public Launch {
 public:
  AttentionGradientLaunch(AttentionNumbers numbers, bool is_by_batch, Isa isa)
      : n_(std::move(numbers)), is_by_batch_(is_by_batch), scale_f32_(static_cast<float>(n_.scale)) {
    score_scale_f32_ = score_scale_f32(n_.scale);
    plan_blocks();
    const DType t = n_.dtype;
    scores_ = TileProduct(t, isa, n_.queries, n_.keys, 0, n_.features, MicroSum::one_block);
    dweights_ = TileProduct(t, isa, n_.queries, n_.keys, 0, n_.value_features, MicroSum::one_block);
    first_dq_ = TileProduct(t, isa, n_.queries, n_.features, 0, gradient_step, MicroSum::one_block);
    dq_ = TileProduct(t, isa, n_.queries, n_.features, 0, gradient_step, MicroSum::more_blocks);
    dk_ = TileProduct(t, isa, n_.keys, n_.features, 0, block_rows_, MicroSum::more_blocks, AWalk::unit_row);
    dv_ = TileProduct(t, isa, n_.keys, n_.value_features, 0, block_rows_, MicroSum::more_blocks, AWalk::unit_row);
    softmax_ = weights_loop(t, isa, n_.mask, n_.keys, score_stride_, n_.mask_row_stride);
    dot_ = dot_loop(t, isa, n_.value_features);
    score_gradient_ = score_gradient_loop(t, isa, gradient_step, score_stride_, tile_stride);
    const auto products =
        static_cast<double>(std::min(chunk_rows_, n_.queries) * n_.keys * (3 * n_.features + 2 * n_.value_features));
    task_nanoseconds_ = 0.02 * products * (isa == Isa::avx512 ? 1 : 2) * (n_.is_causal ? 0.5 : 1);
    prepare();
  }

  void run(void* const* operands) override {
    const bool has_mask = n_.mask != MaskKind::none;
    const auto in = [&](std::size_t i) { return static_cast<const char*>(operands[i]); };
    const Operands at{in(0),
                      in(1),
                      in(2),
                      in(3),
                      in(4),
                      has_mask ? in(5) : nullptr,
                      static_cast<std::byte*>(operands[has_mask ? 6 : 5])};
    if (!splits_batches_) {
      parallel_for(n_.batches, task_nanoseconds_ * static_cast<double>(chunks_),
                   [&](std::int64_t begin, std::int64_t end) {
                     reserve(gradient_scratch());
                     for (std::int64_t batch = begin; batch < end; ++batch) run_batch(at, batch);
                   });
      return;
    }
    parallel_for(n_.batches * chunks_, task_nanoseconds_, [&](std::int64_t begin, std::int64_t end) {
      reserve(gradient_scratch());
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t batch = task / chunks_, chunk = task % chunks_;
        run_chunk(at, batch, chunk, chunk == 0 ? result(at, batch) : of_chunk(batch, chunk));
      }
    });
    const double bytes = static_cast<double>(chunks_ * key_sum_bytes());
    parallel_for(n_.batches, 0.1 * bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t batch = begin; batch < end; ++batch)
        for (std::int64_t chunk = 1; chunk < chunks_; ++chunk)
          add_sums(result(at, batch), of_chunk(batch, chunk), chunk);
    });
  }
  void prepare() override { reserve(gradient_scratch()); }

 private:
  struct Operands {
    const char *q, *k, *v, *out, *dout, *mask;
    std::byte* result;
  };
  /// Gradients by keys and values, [s, e] and [s, f].
  struct KeySums {
    std::byte *dk, *dv;
  };
  /// Queries [first, first + rows) of a batch. `seen`: the first keys, among which are all that they see, a multiple of
  /// a tile's rows or all of them; `computed`: the same in whole panels.
  struct Block {
    std::int64_t batch, first, rows, seen, computed;
  };
  static constexpr std::int64_t tile_stride = gradient_step + 16;  // rows do not share a set of L1

  void plan_blocks() {
    const std::int64_t element = n_.element(), tile = TileProduct::tile_rows;
    block_rows_ = std::clamp(gradient_score_bytes / std::max<std::int64_t>(n_.keys * element, 1) / tile * tile,
                             gradient_least_rows, gradient_most_rows);
    const std::int64_t rows = std::max(gradient_chunk, (n_.queries + gradient_most_chunks - 1) / gradient_most_chunks);
    chunk_rows_ = (rows + block_rows_ - 1) / block_rows_ * block_rows_;
    chunks_ = std::max<std::int64_t>((n_.queries + chunk_rows_ - 1) / chunk_rows_, 1);
    score_stride_ = (n_.keys + 15) / 16 * 16 + 16;
    const std::int64_t threads = thread_count();
    splits_batches_ = threads > 1 && chunks_ > 1 && n_.batches < 2 * threads;
    if (splits_batches_) shared_.reserve(as_index(n_.batches * (chunks_ - 1) * key_sum_bytes()));
  }

  std::int64_t row_bytes() const { return n_.features * n_.element(); }
  std::int64_t value_row_bytes() const { return n_.value_features * n_.element(); }
  std::int64_t key_sum_bytes() const { return n_.keys * (row_bytes() + value_row_bytes()); }
  std::int64_t number_bytes() const { return block_rows_ * n_.element(); }
  std::int64_t panel_columns() const { return (n_.keys + scores_.width() - 1) / scores_.width() * scores_.width(); }

  void reserve(GradientScratch& scratch) const {
    const std::int64_t element = n_.element();
    scratch.keys.reserve(as_index(panel_columns() * row_bytes()) + panel_slack);
    scratch.values.reserve(as_index(panel_columns() * value_row_bytes()) + panel_slack);
    scratch.scores.reserve(as_index(block_rows_ * score_stride_ * element));
    scratch.weights.reserve(as_index(block_rows_ * tile_stride * element));
    scratch.dscores.reserve(as_index(block_rows_ * tile_stride * element));
    scratch.row_numbers.reserve(as_index(2 * number_bytes()));
    if (chunks_ > 1 && !splits_batches_) scratch.key_sums.reserve(as_index(key_sum_bytes()));
    std::size_t loop = 0;
    for (const BoundLoop* each : {&softmax_, &dot_, &score_gradient_})
      loop = std::max(loop, each->code->scratch_bytes(each->args.columns));
    scratch.loop.reserve(loop + 64);
  }

  /// Where the gradients of a batch start: by q, by k and by v.
  std::byte* dq_of(const Operands& at, std::int64_t batch) const {
    const std::int64_t q_bytes = n_.queries * row_bytes();
    return at.result + batch * (is_by_batch_ ? q_bytes + key_sum_bytes() : q_bytes);
  }
  KeySums result(const Operands& at, std::int64_t batch) const {
    const std::int64_t q_bytes = n_.queries * row_bytes(), k_bytes = n_.keys * row_bytes();
    if (is_by_batch_) {
      std::byte* const dk = dq_of(at, batch) + q_bytes;
      return {dk, dk + k_bytes};
    }
    std::byte* const all_dk = at.result + n_.batches * q_bytes;
    return {all_dk + batch * k_bytes, all_dk + n_.batches * k_bytes + batch * n_.keys * value_row_bytes()};
  }
  KeySums sums_at(std::byte* from) const { return {from, from + n_.keys * row_bytes()}; }
  KeySums of_chunk(std::int64_t batch, std::int64_t chunk) const {
    return sums_at(shared_.data() + (batch * (chunks_ - 1) + chunk - 1) * key_sum_bytes());
  }

  void run_batch(const Operands& at, std::int64_t batch) const {
    run_chunk(at, batch, 0, result(at, batch));
    for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) {
      const KeySums sums = sums_at(gradient_scratch().key_sums.data());
      run_chunk(at, batch, chunk, sums);
      add_sums(result(at, batch), sums, chunk);
    }
  }
  /// How many of the first keys a chunk's queries see.
  std::int64_t seen_by_chunk(std::int64_t chunk) const {
    return n_.visible(std::min((chunk + 1) * chunk_rows_, n_.queries) - 1);
  }
  void add_sums(const KeySums& to, const KeySums& from, std::int64_t chunk) const {
    const std::int64_t seen = seen_by_chunk(chunk);
    const auto add = [&](auto number) {
      using Number = decltype(number);
      const auto add_rows = [](std::byte* sums, const std::byte* more, std::int64_t count) {
        auto* const sum = reinterpret_cast<Number*>(sums);
        const auto* const value = reinterpret_cast<const Number*>(more);
        for (std::int64_t i = 0; i < count; ++i) sum[i] += value[i];
      };
      add_rows(to.dk, from.dk, seen * n_.features);
      add_rows(to.dv, from.dv, seen * n_.value_features);
    };
    if (n_.dtype == DType::f64) add(double{});
    else add(float{});
  }

  void run_chunk(const Operands& at, std::int64_t batch, std::int64_t chunk, const KeySums& sums) const {
    std::memset(sums.dk, 0, as_index(n_.keys * row_bytes()));
    std::memset(sums.dv, 0, as_index(n_.keys * value_row_bytes()));
    const std::int64_t begin = chunk * chunk_rows_, end = std::min(begin + chunk_rows_, n_.queries);
    if (begin >= end) return;
    lay_out(at, batch, block_of(batch, end - 1, 1).computed);
    for (std::int64_t first = begin; first < end; first += block_rows_) {
      const Block block = block_of(batch, first, std::min(block_rows_, end - first));
      if (block.seen == 0) std::memset(dq_of(at, batch) + first * row_bytes(), 0, as_index(block.rows * row_bytes()));
      else run_block(at, block, sums);
    }
  }
  Block block_of(std::int64_t batch, std::int64_t first, std::int64_t rows) const {
    const std::int64_t tile = TileProduct::tile_rows, width = scores_.width(),
                       seen = std::min((n_.visible(first + rows - 1) + tile - 1) / tile * tile, n_.keys);
    return {batch, first, rows, seen, std::min((seen + width - 1) / width * width, n_.keys)};
  }
  /// The first `count` keys and values, across: panels of columns for the products with them.
  void lay_out(const Operands& at, std::int64_t batch, std::int64_t count) const {
    const std::int64_t element = n_.element(), width = scores_.width();
    const auto lay = [&](std::byte* to, const char* from, std::int64_t row) {
      const auto* const start = reinterpret_cast<const std::byte*>(from) + batch * n_.keys * row;
      for (std::int64_t first = 0; first < count; first += width, to += width * row)
        pack_panel(to, start + first * row, row / element, std::min(width, count - first), width, element, row,
                   element);
    };
    lay(gradient_scratch().keys.data(), at.k, row_bytes());
    lay(gradient_scratch().values.data(), at.v, value_row_bytes());
  }

  void run_block(const Operands& at, const Block& block, const KeySums& sums) const {
    const std::int64_t element = n_.element(), row = row_bytes(), value_row = value_row_bytes(),
                       query = block.batch * n_.queries + block.first;
    GradientScratch& scratch = gradient_scratch();
    std::byte *const inverse = scratch.row_numbers.data(), *const dot = inverse + number_bytes();
    compute_weights(at, block, inverse);
    std::memset(dot, 0, as_index(number_bytes()));
    const auto across = [&](const char* rows) { return const_cast<char*>(rows) + query * value_row; };  // it only reads
    run(dot_, block.rows, {across(at.out), across(at.dout), dot});
    for (std::int64_t key = 0; key < block.seen; key += gradient_step) {
      const std::int64_t count = std::min(gradient_step, block.seen - key);
      product(dweights_, {at.dout + query * value_row, value_row, 0}, block.rows,
              {text(scratch.values) + key * value_row, dweights_.width() * element, dweights_.width() * value_row},
              n_.value_features, text(scratch.dscores), tile_stride * element,
              std::min(gradient_step, block.computed - key));
      void* const scale =
          n_.dtype == DType::f64 ? static_cast<void*>(const_cast<double*>(&n_.scale)) : const_cast<float*>(&scale_f32_);
      run(score_gradient_, block.rows,
          {text(scratch.scores) + key * element, scratch.dscores.data(), inverse, dot, scale, scratch.weights.data(),
           scratch.dscores.data()},
          count);
      product(key == 0 ? first_dq_ : dq_, {text(scratch.dscores), tile_stride * element, 0}, block.rows,
              {at.k + (block.batch * n_.keys + key) * row, row, dq_.width() * element}, count,
              reinterpret_cast<char*>(dq_of(at, block.batch)) + block.first * row, row, n_.features);
      product(dk_, {text(scratch.dscores), element, tile_stride * element}, count,
              {at.q + query * row, row, dk_.width() * element}, block.rows,
              reinterpret_cast<char*>(sums.dk) + key * row, row, n_.features);
      product(dv_, {text(scratch.weights), element, tile_stride * element}, count,
              {at.dout + query * value_row, value_row, dv_.width() * element}, block.rows,
              reinterpret_cast<char*>(sums.dv) + key * value_row, value_row, n_.value_features);
    }
  }
  /// Scores of a block become weights that are not yet divided by their sums.
  void compute_weights(const Operands& at, const Block& block, std::byte* inverse) const {
    const std::int64_t element = n_.element(), row = row_bytes();
    GradientScratch& scratch = gradient_scratch();
    product(scores_, {at.q + (block.batch * n_.queries + block.first) * row, row, 0}, block.rows,
            {text(scratch.keys), scores_.width() * element, scores_.width() * row}, n_.features, text(scratch.scores),
            score_stride_ * element, block.computed);
    hide_scores(n_, scratch.scores.data(), score_stride_, block.first, block.rows, 0, block.computed);
    void* const scores = scratch.scores.data();
    void* const scale = n_.dtype == DType::f64 ? static_cast<void*>(const_cast<double*>(&n_.scale))
                                               : const_cast<float*>(&score_scale_f32_);
    if (n_.mask == MaskKind::none) return run(softmax_, block.rows, {scores, scale, scores, inverse}, block.computed);
    run(softmax_, block.rows,
        {scores, scale, const_cast<char*>(n_.mask_rows(at.mask, block.batch, block.first)), scores, inverse},
        block.computed);
  }

  struct Left {
    const char* at;
    std::int64_t row_stride, k_stride;
  };
  struct Right {
    const char* at;
    std::int64_t k_stride, panel_bytes;
  };
  static void product(const TileProduct& tiles, const Left& a, std::int64_t rows, const Right& b, std::int64_t k,
                      char* c, std::int64_t c_row_stride, std::int64_t columns) {
    MicroArgs args;
    args.a = a.at;
    args.b = b.at;
    args.c = c;
    args.a_row_stride = a.row_stride;
    args.a_k_stride = a.k_stride;
    args.b_k_stride = b.k_stride;
    args.c_row_stride = c_row_stride;
    args.k = k;
    args.totals = gradient_scratch().totals;
    tiles.run(args, rows, columns, b.panel_bytes);
  }
  static char* text(const AlignedBytes& bytes) { return reinterpret_cast<char*>(bytes.data()); }
  static void run(const BoundLoop& loop, std::int64_t rows, std::initializer_list<void*> operands,
                  std::int64_t columns = 0) {
    GradientScratch& scratch = gradient_scratch();
    run_loop(loop, rows, operands, columns, scratch.loop.data(), scratch.status);
  }

  const AttentionNumbers n_;
  const bool is_by_batch_;
  const float scale_f32_;
  float score_scale_f32_ = 1;  // never 0
  BoundLoop softmax_, dot_, score_gradient_;
  TileProduct scores_, dweights_, first_dq_, dq_, dk_, dv_;
  std::int64_t block_rows_ = 1, chunk_rows_ = 1, chunks_ = 1, score_stride_ = 0;
  bool splits_batches_ = false;
  double task_nanoseconds_ = 0;
  AlignedBytes shared_;  // sums of all chunks but the first, where they are computed side by side
};

template <Isa isa>
std::unique_ptr<Launch> launch_attention_gradient(const Attrs& attrs, std::span<const Type> types) {
  std::vector<Type> forward(types.begin(), types.begin() + 3);  // of the operation whose gradients these are
  if (types.size() == 7) forward.push_back(types[5]);
  forward.push_back(types[3]);
  using Op = ops::ScaledDotProductAttentionGradient;
  return std::make_unique<AttentionGradientLaunch>(numbers_of(attrs, forward), attrs[Op::packing] == Op::Packing::batch,
                                                   isa);
}

}  // namespace x86_attention_detail

SINTER_DECL Intrinsic attention_gradient_intrinsic(const Graph&, const Node& node, Isa isa) {
  if (node.op != &op_info<ops::ScaledDotProductAttentionGradient>) return nullptr;
  if (node.types[0].dtype != DType::f32 && node.types[0].dtype != DType::f64) return nullptr;
  // A query that sees nothing makes all gradients NaN then, also of keys that are left out here.
  if (node.attrs[ops::ScaledDotProductAttention::empty_rows] == ops::ScaledDotProductAttention::EmptyRows::nan)
    return nullptr;
  return isa == Isa::avx512 ? x86_attention_detail::launch_attention_gradient<Isa::avx512>
                            : x86_attention_detail::launch_attention_gradient<Isa::avx2>;
}

}  // namespace x86
SINTER_NAMESPACE_END
