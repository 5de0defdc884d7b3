// A task is some blocks of queries of one batch. It goes through the keys a step at a time, lays the step's keys out
// for the product once for all of its blocks, and keeps of each block the sums of the segments that wait to be
// combined.
#pragma once

#include <sinter/backend/x86/attention/attention.hpp>

#include <sinter/backend/x86/attention/gradient.hpp>
#include <sinter/backend/x86/attention/kernels.ipp>
#include <sinter/backend/x86/attention/numbers.hpp>
#include <sinter/backend/x86/attention/tile_product.hpp>
#include <sinter/backend/x86/contraction/contraction.ipp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/contraction/vector.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/attention.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_attention_detail {

using x86_contraction_detail::AlignedBytes;

inline constexpr std::int64_t block_rows = 24;        // queries; a multiple of the rows of a register tile
inline constexpr std::int64_t most_task_blocks = 16;  // more would leave L2
inline constexpr std::int64_t few_queries = 2;        // for which laying out the keys does not pay

/// What is known of a block's queries after some keys: the weighted sum of values, the greatest score, the sum of the
/// weights.
struct Partial {
  std::byte *values = nullptr, *greatest = nullptr, *sum = nullptr;
};

/// Of a thread.
struct AttentionScratch {
  AlignedBytes keys, scores, partials, factors, loop;
  alignas(64) std::byte totals[max_tile_bytes];
  LoopArgs::Status status;
};
inline AttentionScratch& attention_scratch() {
  return thread_object([] { return new AttentionScratch; });
}

class AttentionLaunch final : public Launch {
 public:
  AttentionLaunch(AttentionNumbers numbers, Isa isa)
      : n_(std::move(numbers)),
        isa_(isa),
        softmax_(softmax_loop(n_.dtype, isa, n_.mask, attention_step, n_.mask_row_stride)),
        rescale_(scale_loop(n_.dtype, isa, n_.value_features)),
        divide_(divide_loop(n_.dtype, isa, n_.value_features, n_.gives_zeros)) {
    const std::int64_t tail = n_.keys % attention_step;
    scores_ = TileProduct(n_.dtype, isa, n_.queries, attention_step, tail, n_.features, MicroSum::one_block);
    first_values_ = TileProduct(n_.dtype, isa, n_.queries, n_.value_features, 0, attention_step, MicroSum::one_block);
    values_ = TileProduct(n_.dtype, isa, n_.queries, n_.value_features, 0, attention_step, MicroSum::more_blocks);
    if (segments() > 1) {
      join_ = join_loop(n_.dtype, isa);
      add_ = add_loop(n_.dtype, isa, n_.value_features);
    }
    scale_f64_ = n_.scale;
    scale_f32_ = score_scale_f32(n_.scale);
    plan_tasks();
    prepare();
  }

  void run(void* const* operands) override {
    const bool has_mask = n_.mask != MaskKind::none;
    const Operands at{static_cast<const char*>(operands[0]), static_cast<const char*>(operands[1]),
                      static_cast<const char*>(operands[2]), has_mask ? static_cast<const char*>(operands[3]) : nullptr,
                      static_cast<char*>(operands[has_mask ? 4 : 3])};
    if (n_.keys == 0) {
      std::memset(at.out, 0, as_index(n_.batches * n_.queries * n_.value_features * n_.element()));
      return;
    }
    const std::int64_t tasks = n_.batches * tasks_per_batch_;
    if (!splits_keys_) {
      parallel_for(tasks, task_nanoseconds_, [&](std::int64_t begin, std::int64_t end) {
        reserve(attention_scratch());
        for (std::int64_t task = begin; task < end; ++task) run_task(at, task);
      });
      return;
    }
    const std::int64_t segments = this->segments();
    parallel_for(
        tasks * segments, task_nanoseconds_ / static_cast<double>(segments), [&](std::int64_t begin, std::int64_t end) {
          reserve(attention_scratch());
          for (std::int64_t part = begin; part < end; ++part)
            run_segment(at, task_of(part / segments), part % segments,
                        [&](std::int64_t block) { return partial(shared_.data(), part * task_blocks_ + block); });
        });
    parallel_for(tasks, 1000.0 * static_cast<double>(segments), [&](std::int64_t begin, std::int64_t end) {
      reserve(attention_scratch());
      for (std::int64_t task = begin; task < end; ++task) combine_task(at, task);
    });
  }
  void prepare() override { reserve(attention_scratch()); }

 private:
  struct Operands {
    const char *q, *k, *v, *mask;
    char* out;
  };
  /// Queries [first, last) of a batch, in blocks.
  struct Task {
    std::int64_t batch, first, last;
    std::int64_t blocks() const { return (last - first + block_rows - 1) / block_rows; }
    std::int64_t rows(std::int64_t block) const { return std::min(block_rows, last - first - block * block_rows); }
  };

  std::int64_t blocks() const { return (n_.queries + block_rows - 1) / block_rows; }
  std::int64_t segments() const { return (n_.keys + attention_segment - 1) / attention_segment; }

  void plan_tasks() {
    const std::int64_t blocks = this->blocks(), threads = thread_count(), wanted = 4 * threads;
    task_blocks_ = std::clamp<std::int64_t>(n_.batches * blocks / wanted, 1, most_task_blocks);
    tasks_per_batch_ = (blocks + task_blocks_ - 1) / task_blocks_;
    splits_keys_ = threads > 1 && segments() > 1 && n_.batches * tasks_per_batch_ < 2 * threads;
    const auto products = static_cast<double>(std::min(task_blocks_ * block_rows, n_.queries) * n_.keys *
                                              (n_.features + n_.value_features));
    task_nanoseconds_ = 0.02 * products * (isa_ == Isa::avx512 ? 1 : 2);
    partial_bytes_ = (block_rows * n_.value_features * n_.element() + 63) / 64 * 64 + 2 * number_bytes();
    // As many segments as wait at once, and one in the making.
    levels_ = static_cast<std::int64_t>(std::bit_width(as_index(segments()))) + 1;
    if (splits_keys_)
      shared_.reserve(as_index(n_.batches * tasks_per_batch_ * segments() * task_blocks_ * partial_bytes_));
  }
  /// Of one number for each query of a block.
  std::int64_t number_bytes() const { return block_rows * n_.element(); }

  void reserve(AttentionScratch& scratch) const {
    scratch.keys.reserve(as_index(attention_step * n_.features * n_.element()) + panel_slack);
    scratch.scores.reserve(as_index(block_rows * attention_step * n_.element()));
    scratch.factors.reserve(as_index(2 * number_bytes()));
    scratch.partials.reserve(as_index((splits_keys_ ? 0 : levels_ * task_blocks_) * partial_bytes_ + 64));
    std::size_t loop = 0;
    for (const BoundLoop* each : {&softmax_, &rescale_, &divide_, &join_, &add_})
      if (each->code != nullptr) loop = std::max(loop, each->code->scratch_bytes(each->args.columns));
    scratch.loop.reserve(loop + 64);
  }
  Partial partial(std::byte* base, std::int64_t number) const {
    std::byte* const at = base + number * partial_bytes_;
    return {at, at + partial_bytes_ - 2 * number_bytes(), at + partial_bytes_ - number_bytes()};
  }
  Task task_of(std::int64_t number) const {
    const std::int64_t first = number % tasks_per_batch_ * task_blocks_ * block_rows;
    return {number / tasks_per_batch_, first, std::min(first + task_blocks_ * block_rows, n_.queries)};
  }

  /// All segments of a task, combined as they come.
  void run_task(const Operands& at, std::int64_t number) const {
    AttentionScratch& scratch = attention_scratch();
    const Task task = task_of(number);
    const std::int64_t segments = segments_of(task);
    std::int64_t waiting = 0;  // segments on the stack, the same for every block
    const auto on_stack = [&](std::int64_t level, std::int64_t block) {
      return partial(scratch.partials.data(), level * task_blocks_ + block);
    };
    for (std::int64_t segment = 0; segment < segments; ++segment) {
      run_segment(at, task, segment, [&](std::int64_t block) { return on_stack(waiting, block); });
      ++waiting;
      for (std::int64_t bits = segment; bits % 2 == 1; bits /= 2, --waiting)
        for (std::int64_t block = 0; block < task.blocks(); ++block)
          join_partials(on_stack(waiting - 2, block), on_stack(waiting - 1, block), task.rows(block));
    }
    for (; waiting > 1; --waiting)
      for (std::int64_t block = 0; block < task.blocks(); ++block)
        join_partials(on_stack(waiting - 2, block), on_stack(waiting - 1, block), task.rows(block));
    for (std::int64_t block = 0; block < task.blocks(); ++block) finish(at, task, block, on_stack(0, block));
  }
  /// The same of segments that are there already.
  void combine_task(const Operands& at, std::int64_t number) const {
    const Task task = task_of(number);
    const std::int64_t segments = segments_of(task);
    std::vector<std::int64_t> stack;
    for (std::int64_t block = 0; block < task.blocks(); ++block) {
      const auto of_segment = [&](std::int64_t segment) {
        return partial(shared_.data(), (number * this->segments() + segment) * task_blocks_ + block);
      };
      const auto join_top = [&] {
        join_partials(of_segment(stack[stack.size() - 2]), of_segment(stack.back()), task.rows(block));
        stack.pop_back();
      };
      stack.clear();
      for (std::int64_t segment = 0; segment < segments; ++segment) {
        stack.push_back(segment);
        for (std::int64_t bits = segment; bits % 2 == 1; bits /= 2) join_top();
      }
      while (stack.size() > 1) join_top();
      finish(at, task, block, of_segment(0));
    }
  }
  /// Those behind see nothing of it. At least one, so that there is something to divide.
  std::int64_t segments_of(const Task& task) const {
    return std::max<std::int64_t>((n_.visible(task.last - 1) + attention_segment - 1) / attention_segment, 1);
  }

  /// One segment of keys for all blocks of a task, each into what `partial_of` gives for it.
  template <class PartialOf>
  void run_segment(const Operands& at, const Task& task, std::int64_t segment, PartialOf&& partial_of) const {
    const std::int64_t begin = segment * attention_segment,
                       end = std::min({begin + attention_segment, n_.keys, n_.visible(task.last - 1)});
    for (std::int64_t block = 0; block < task.blocks(); ++block) begin_partial(partial_of(block));
    for (std::int64_t key = begin; key < end; key += attention_step) {
      const std::int64_t count = std::min(attention_step, n_.keys - key);
      if (n_.queries > few_queries) lay_out_keys(at, task, key, count);
      for (std::int64_t block = 0; block < task.blocks(); ++block) {
        const std::int64_t last_query = task.first + block * block_rows + task.rows(block) - 1,
                           panels = (n_.visible(last_query) - key + scores_.width() - 1) / scores_.width();
        // What nobody sees adds nothing: whole panels of it are left out.
        if (panels > 0)
          run_step(at, task, block, key, std::min(count, panels * scores_.width()), key == begin, partial_of(block));
      }
    }
  }
  void begin_partial(const Partial& partial) const {
    std::memset(partial.values, 0, as_index(partial_bytes_));
    const auto fill = [&](auto nothing) {
      for (std::int64_t i = 0; i < block_rows; ++i)
        std::memcpy(partial.greatest + i * n_.element(), &nothing, sizeof nothing);
    };
    if (n_.dtype == DType::f64) fill(-std::numeric_limits<double>::infinity());
    else fill(-std::numeric_limits<float>::infinity());
  }

  void lay_out_keys(const Operands& at, const Task& task, std::int64_t key, std::int64_t count) const {
    const std::int64_t element = n_.element(), row = n_.features * element, width = scores_.width();
    const auto* from = reinterpret_cast<const std::byte*>(at.k) + (task.batch * n_.keys + key) * row;
    std::byte* to = attention_scratch().keys.data();
    for (std::int64_t first = 0; first < count; first += width, to += width * row)
      pack_panel(to, from + first * row, n_.features, std::min(width, count - first), width, element, row, element);
  }

  /// One step of keys for one block.
  void run_step(const Operands& at, const Task& task, std::int64_t block, std::int64_t key, std::int64_t count,
                bool is_first, const Partial& into) const {
    AttentionScratch& scratch = attention_scratch();
    const std::int64_t first = task.first + block * block_rows, rows = task.rows(block), element = n_.element(),
                       row = n_.features * element;
    const char* const q = at.q + (task.batch * n_.queries + first) * row;
    std::byte* const scores = scratch.scores.data();
    if (n_.queries > few_queries) {
      MicroArgs args;
      args.a = q;
      args.b = reinterpret_cast<const char*>(scratch.keys.data());
      args.c = reinterpret_cast<char*>(scores);
      args.a_row_stride = row;
      args.b_k_stride = scores_.width() * element;
      args.c_row_stride = attention_step * element;
      args.k = n_.features;
      args.totals = scratch.totals;
      scores_.run(args, rows, count, scores_.width() * row);
    } else {
      for (std::int64_t i = 0; i < rows; ++i)
        dot_rows({n_.dtype, at.k + (task.batch * n_.keys + key) * row, count, row, n_.features, q + i * row, element,
                  reinterpret_cast<char*>(scores) + i * attention_step * element, element});
    }
    hide_scores(n_, scores, attention_step, first, rows, key, count);
    weigh(at, task, first, rows, key, count, into);
    if (!is_first) run(rescale_, rows, {into.values, scratch.factors.data(), into.values});
    add_values(at, task, rows, key, count, is_first, into);
  }
  void add_values(const Operands& at, const Task& task, std::int64_t rows, std::int64_t key, std::int64_t count,
                  bool is_first, const Partial& into) const {
    AttentionScratch& scratch = attention_scratch();
    const std::int64_t element = n_.element(), row = n_.value_features * element;
    MicroArgs args;
    args.a = reinterpret_cast<const char*>(scratch.scores.data());
    args.b = at.v + (task.batch * n_.keys + key) * row;
    args.c = reinterpret_cast<char*>(into.values);
    args.a_row_stride = attention_step * element;
    args.b_k_stride = row;
    args.c_row_stride = row;
    args.k = count;
    args.totals = scratch.totals;
    (is_first ? first_values_ : values_).run(args, rows, n_.value_features, values_.width() * element);
  }

  void weigh(const Operands& at, const Task& task, std::int64_t first, std::int64_t rows, std::int64_t key,
             std::int64_t count, const Partial& into) const {
    AttentionScratch& scratch = attention_scratch();
    void* const scores = scratch.scores.data();
    const void* const scale = n_.dtype == DType::f64 ? static_cast<const void*>(&scale_f64_) : &scale_f32_;
    void *const greatest = into.greatest, *const sum = into.sum, *const shrink = scratch.factors.data();
    void* const known_scale = const_cast<void*>(scale);  // operands of a loop are not const; it only reads this one
    if (n_.mask == MaskKind::none)
      return run(softmax_, rows, {scores, greatest, sum, known_scale, scores, greatest, sum, shrink}, count);
    const char* const mask = n_.mask_rows(at.mask, task.batch, first) + key * n_.mask_element;
    run(softmax_, rows, {scores, greatest, sum, known_scale, const_cast<char*>(mask), scores, greatest, sum, shrink},
        count);
  }

  void join_partials(const Partial& older, const Partial& later, std::int64_t rows) const {
    std::byte *const factor = attention_scratch().factors.data(), *const later_factor = factor + number_bytes();
    run(join_, 1,
        {older.greatest, older.sum, later.greatest, later.sum, older.greatest, older.sum, factor, later_factor}, rows);
    run(add_, rows, {older.values, factor, later.values, later_factor, older.values});
  }
  void finish(const Operands& at, const Task& task, std::int64_t block, const Partial& sums) const {
    char* const out =
        at.out + (task.batch * n_.queries + task.first + block * block_rows) * n_.value_features * n_.element();
    run(divide_, task.rows(block), {sums.values, sums.sum, out});
  }

  void run(const BoundLoop& loop, std::int64_t rows, std::initializer_list<void*> operands,
           std::int64_t columns = 0) const {
    AttentionScratch& scratch = attention_scratch();
    run_loop(loop, rows, operands, columns, scratch.loop.data(), scratch.status);
  }

  const AttentionNumbers n_;
  const Isa isa_;
  BoundLoop softmax_, rescale_, divide_, join_, add_;
  TileProduct scores_, first_values_, values_;
  double scale_f64_ = 1;
  float scale_f32_ = 1;
  std::int64_t task_blocks_ = 1, tasks_per_batch_ = 1, partial_bytes_ = 0, levels_ = 1;
  bool splits_keys_ = false;
  double task_nanoseconds_ = 0;
  AlignedBytes shared_;  // sums of all segments, where they are computed side by side
};

template <Isa isa>
std::unique_ptr<Launch> launch_attention(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<AttentionLaunch>(numbers_of(attrs, types), isa);
}

}  // namespace x86_attention_detail

SINTER_DECL Intrinsic attention_intrinsic(const Graph& graph, const Node& node, Isa isa) {
  if (node.op == &op_info<ops::ScaledDotProductAttentionGradient>)
    return attention_gradient_intrinsic(graph, node, isa);
  if (node.op != &op_info<ops::ScaledDotProductAttention>) return nullptr;
  if (node.types[0].dtype != DType::f32 && node.types[0].dtype != DType::f64) return nullptr;
  return isa == Isa::avx512 ? x86_attention_detail::launch_attention<Isa::avx512>
                            : x86_attention_detail::launch_attention<Isa::avx2>;
}

}  // namespace x86
SINTER_NAMESPACE_END
