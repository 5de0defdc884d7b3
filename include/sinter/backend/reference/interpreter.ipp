// Blocks, loads, stores and the three methods to run a kernel: parallel lanes, reduced lanes, matrix product.
#pragma once

#include <sinter/backend/reference/interpreter.hpp>

#include <sinter/backend/reference/product.hpp>
#include <sinter/base/address.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <array>
#include <bit>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

// A row shorter than this does not fill a block; then rows side by side do.
inline constexpr std::int64_t long_row = 48;

SINTER_DECL Interpreter::Interpreter(std::shared_ptr<const Program> program, const BoundGeometry& geometry)
    : program_(std::move(program)), geometry_(geometry) {
  const Kernel& kernel = program_->kernel;
  ensure(geometry.accesses.size() == kernel.accesses.size(), "geometry: not one entry per access");
  for (int a = 0; a < kernel.rank(); ++a) ensure(geometry.extent[as_index(a)] >= 0, "geometry: negative extent");
  const AxisMask indexed = program_->facts.indexed;
  product_ = make_product(*program_, geometry);
  const Simplify simplify = product_ ? Simplify::no : Simplify::yes;
  Space parallel = make_space(kernel, geometry, AxisRole::parallel, indexed, simplify);
  Space reduced = make_space(kernel, geometry, AxisRole::reduced, indexed, simplify);
  const bool rows_are_long = reduced.points >= long_row || reduced.points > parallel.points;
  const bool few_columns = parallel.points < 16 && reduced.points > parallel.points;
  reduced_lanes_ = !product_ && (kernel.is_reduced(kernel.rank() - 1) ? rows_are_long : few_columns);
  lanes_ = reduced_lanes_ ? reduced : parallel;
  loop_ = reduced_lanes_ ? std::move(parallel) : std::move(reduced);
  loop_offset_.resize(kernel.accesses.size());
  allocate_values();
  fill_immediates();
  make_folds();
}

SINTER_DECL Interpreter::~Interpreter() = default;

SINTER_DECL void Interpreter::allocate_values() {
  const Kernel& kernel = program_->kernel;
  constexpr std::int64_t sum_bytes = accumulator_bytes * block_size;
  std::int64_t bytes = 0;
  for (const Inst& inst : kernel.body)
    bytes += size_of(inst.dtype) * block_size + (is_reduction(inst.prim) || is_scan(inst.prim) ? sum_bytes : 0);
  memory_ = std::make_unique<std::byte[]>(as_index(bytes));
  std::byte* next = memory_.get();
  for (const Inst& inst : kernel.body) {
    value_.push_back(next);
    next += size_of(inst.dtype) * block_size;
    const bool has_sums = is_reduction(inst.prim) || is_scan(inst.prim);
    sums_.push_back(has_sums ? next : nullptr);
    if (has_sums) next += sum_bytes;
  }
}

SINTER_DECL void Interpreter::fill_immediates() {
  const std::vector<Inst>& body = program_->kernel.body;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].prim != Prim::immediate) continue;
    visit_computed(body[i].dtype, [&](auto tag) {
      using T = Stored<decltype(tag)>;
      T value;
      if constexpr (Floating<T>) value = static_cast<T>(body[i].number());
      else value = narrow<T>(body[i].bits);
      std::fill_n(static_cast<T*>(value_[i]), block_size, value);
    });
  }
}

SINTER_DECL void Interpreter::run(void* const* operands) {
  operands_ = operands;
  index_out_of_range_ = false;
  const std::int64_t outer_points = reduced_lanes_ ? loop_.points : lanes_.points;
  if (outer_points == 0) return;
  loop_position_ = {};
  set_loop_offsets();
  if (product_) run_product();
  else if (reduced_lanes_) run_with_reduced_lanes();
  else if (program_->kernel.kind == KernelKind::scatter) run_scatter();
  else run_with_parallel_lanes();
  if (index_out_of_range_) throw GatherError(bad_index_, bad_extent_);
}

/// Row-major, as the lanes are; nothing is written before all indices are known to be good.
SINTER_DECL void Interpreter::run_scatter() {
  only_checks_ = true;
  run_with_parallel_lanes();
  only_checks_ = false;
  if (!index_out_of_range_) run_with_parallel_lanes();
}

// ---- the three methods --------------------------------------------------------------------------------------------

SINTER_DECL void Interpreter::run_with_parallel_lanes() {
  Position at{};
  for (std::int64_t first = 0; first < lanes_.points; first += block_size) {
    const Block block{at, std::min(block_size, lanes_.points - first)};
    for (const Pass& pass : program_->passes) {
      const bool is_last = &pass == &program_->passes.back();
      evaluate(pass.outer, block);
      if (pass.reductions.empty() && !(is_last && !program_->inner_stores.empty())) continue;
      start_reductions(pass, block.count);
      for (std::int64_t step = 0; step < loop_.points; ++step) {
        evaluate(pass.inner, block);
        feed_reductions(pass, block.count);
        if (is_last) store(program_->inner_stores, block);
        loop_.advance(loop_position_, 1);
        set_loop_offsets();
      }
      loop_position_ = {};
      set_loop_offsets();
    }
    store(program_->outer_stores, block);
    for (std::int64_t left = block.count; left > 0;) {
      const std::int64_t length = std::min(left, lanes_.run_length(at));
      lanes_.advance(at, length);
      left -= length;
    }
  }
}

SINTER_DECL void Interpreter::run_with_reduced_lanes() {
  const Block outer{{}, 1};
  for (std::int64_t step = 0; step < loop_.points; ++step) {
    for (const Pass& pass : program_->passes) {
      const bool is_last = &pass == &program_->passes.back();
      evaluate(pass.outer, outer);
      spread(pass.outer);
      if (pass.reductions.empty() && !(is_last && !program_->inner_stores.empty())) continue;
      start_reductions(pass, 1);
      Position at{};
      for (std::int64_t first = 0; first < lanes_.points; first += block_size) {
        const Block block{at, std::min(block_size, lanes_.points - first)};
        evaluate(pass.inner, block);
        feed_reductions(pass, block.count);
        if (is_last) store(program_->inner_stores, block);
        for (std::int64_t left = block.count; left > 0;) {
          const std::int64_t length = std::min(left, lanes_.run_length(at));
          lanes_.advance(at, length);
          left -= length;
        }
      }
    }
    store(program_->outer_stores, outer);
    loop_.advance(loop_position_, 1);
    set_loop_offsets();
  }
}

SINTER_DECL void Interpreter::run_product() {
  const std::int64_t rows = lanes_.extent[as_index(lanes_.rank - 2)], columns = lanes_.inner_extent();
  const std::int64_t batches = lanes_.points / (rows * columns);
  Position batch{};
  for (std::int64_t step = 0; step < batches; ++step) {
    for (std::int64_t row = 0; row < rows; row += product_rows)
      for (std::int64_t column = 0; column < columns; column += product_columns)
        run_product_rows(batch, row, column, std::min(product_rows, rows - row),
                         std::min(product_columns, columns - column));
    for (int d = lanes_.rank - 3; d >= 0; --d) {
      if (++batch[as_index(d)] < lanes_.extent[as_index(d)]) break;
      batch[as_index(d)] = 0;
    }
  }
}

SINTER_DECL void Interpreter::run_product_rows(const Position& batch, std::int64_t row, std::int64_t column,
                                               std::int64_t rows, std::int64_t columns) {
  Block block{batch, columns};
  std::int64_t& block_row = block.start[as_index(lanes_.rank - 2)];
  block_row = row;
  block.start[as_index(lanes_.rank - 1)] = column;
  const auto base = [&](std::uint16_t access) {
    const Operand& operand = program_->kernel.operands[program_->kernel.accesses[access].operand];
    const std::int64_t elements = loop_offset_[access] + lanes_.offset(access, block.start);
    return static_cast<const char*>(operands_[program_->kernel.accesses[access].operand]) +
           elements * size_of(operand.dtype);
  };
  product_->compute(base(product_->left_access()), base(product_->right_access()), rows, columns);
  const Pass& product_pass = program_->passes[0];
  for (std::int64_t i = 0; i < rows; ++i) {
    block_row = row + i;
    evaluate(product_pass.outer, block);
    product_->copy_row(i, columns, sums_[product_pass.reductions[0]]);
    evaluate(program_->passes[1].outer, block);
    store(program_->outer_stores, block);
  }
}

// ---- instructions -------------------------------------------------------------------------------------------------

SINTER_DECL void Interpreter::evaluate(std::span<const InstId> list, const Block& block) {
  for (InstId id : list) evaluate_one(id, block);
}

SINTER_DECL void Interpreter::evaluate_one(InstId id, const Block& block) {
  const Inst& inst = program_->kernel.body[id];
  if (VectorFunction map = program_->steps[id].map) {
    const void* in[3];
    for (int k = 0; k < arity(inst.prim); ++k) in[k] = value_[inst.args[as_index(k)]];
    map(value_[id], in, block.count);
  } else if (is_scan(inst.prim)) {
    const Step& step = program_->steps[id];
    (reduced_lanes_ ? step.scan_all : step.scan_lanes)(sums_[id], value_[inst.args[0]], value_[id], block.count);
  } else if (inst.prim == Prim::load) {
    load(id, block);
  } else if (inst.prim == Prim::gather) {
    gather(id, block);
  } else if (inst.prim == Prim::guarded_load) {
    guarded_load(id, block);
  } else if (inst.prim == Prim::index) {
    read_index(id, block);
  } else {
    finish_reduction(id, block.count);
  }
}

template <class Visit>
void Interpreter::for_each_run(std::uint16_t access, const Block& block, Visit&& visit) const {
  const Kernel& kernel = program_->kernel;
  const std::uint16_t operand = kernel.accesses[access].operand;
  char* const base = static_cast<char*>(operands_[operand]);
  const std::int64_t size = size_of(kernel.operands[operand].dtype);
  const std::int64_t stride = lanes_.stride[access][as_index(lanes_.rank - 1)];
  Position at = block.start;
  for (std::int64_t lane = 0; lane < block.count;) {
    const std::int64_t length = std::min(block.count - lane, lanes_.run_length(at));
    visit(lane, length, displaced(base, (loop_offset_[access] + lanes_.offset(access, at)) * size), stride);
    lanes_.advance(at, length);
    lane += length;
  }
}

SINTER_DECL void Interpreter::load(InstId id, const Block& block) {
  const Inst& inst = program_->kernel.body[id];
  visit_dtype(dtype_in_memory(inst.access), [&](auto tag) {
    using E = Stored<decltype(tag)>;
    using T = Stored<tensor_detail::Computed<decltype(tag)>>;
    T* out = static_cast<T*>(value_[id]);
    for_each_run(inst.access, block,
                 [&](std::int64_t lane, std::int64_t length, const char* base, std::int64_t stride) {
                   const E* from = reinterpret_cast<const E*>(base);
                   if (stride == 0) std::fill_n(out + lane, length, static_cast<T>(*from));
                   else if (std::is_same_v<E, T> && stride == 1)
                     std::memcpy(out + lane, from, as_index(length) * sizeof(T));
                   else
                     for (std::int64_t i = 0; i < length; ++i) out[lane + i] = static_cast<T>(from[i * stride]);
                 });
  });
}

SINTER_DECL void Interpreter::gather(InstId id, const Block& block) {
  const Inst& inst = program_->kernel.body[id];
  const InstId index = inst.args[0];
  const auto& numbers = geometry_.accesses[inst.access];
  const auto read = [&](auto element, auto* out, const auto* indices) {
    using E = decltype(element);
    using T = std::remove_pointer_t<decltype(out)>;
    for_each_run(inst.access, block,
                 [&](std::int64_t lane, std::int64_t length, const char* base, std::int64_t stride) {
                   const E* from = reinterpret_cast<const E*>(base);
                   for (std::int64_t i = 0; i < length; ++i) {
                     const std::int64_t at = indices[lane + i];
                     const bool is_valid = at >= 0 && at < numbers.gather_extent;
                     out[lane + i] = is_valid ? static_cast<T>(from[i * stride + at * numbers.gather_stride]) : T{};
                     if (!is_valid) note_bad_index(at, numbers.gather_extent);
                   }
                 });
  };
  visit_dtype(dtype_in_memory(inst.access), [&](auto tag) {
    const Stored<decltype(tag)> element{};
    auto* out = static_cast<Stored<tensor_detail::Computed<decltype(tag)>>*>(value_[id]);
    if (program_->kernel.body[index].dtype == DType::i32)
      read(element, out, static_cast<const std::int32_t*>(value_[index]));
    else read(element, out, static_cast<const std::int64_t*>(value_[index]));
  });
}

SINTER_DECL void Interpreter::guarded_load(InstId id, const Block& block) {
  const Inst& inst = program_->kernel.body[id];
  const auto* holds = static_cast<const Stored<bool>*>(value_[inst.args[0]]);
  visit_dtype(dtype_in_memory(inst.access), [&](auto tag) {
    using E = Stored<decltype(tag)>;
    using T = Stored<tensor_detail::Computed<decltype(tag)>>;
    T* out = static_cast<T*>(value_[id]);
    const T* fill = static_cast<const T*>(value_[inst.args[1]]);
    for_each_run(inst.access, block,
                 [&](std::int64_t lane, std::int64_t length, const char* base, std::int64_t stride) {
                   const E* from = reinterpret_cast<const E*>(base);
                   for (std::int64_t i = 0; i < length; ++i)
                     out[lane + i] = holds[lane + i] ? static_cast<T>(from[i * stride]) : fill[lane + i];
                 });
  });
}

SINTER_DECL void Interpreter::read_index(InstId id, const Block& block) {
  auto* out = static_cast<std::int64_t*>(value_[id]);
  const int axis = static_cast<int>(program_->kernel.body[id].bits);
  const int d = lanes_.find(axis);
  if (d < 0) {
    std::fill_n(out, block.count, loop_position_[as_index(loop_.find(axis))]);
    return;
  }
  Position at = block.start;
  for (std::int64_t lane = 0; lane < block.count;) {
    const std::int64_t length = std::min(block.count - lane, lanes_.run_length(at));
    const std::int64_t first = at[as_index(d)], step = d == lanes_.rank - 1;
    for (std::int64_t i = 0; i < length; ++i) out[lane + i] = first + i * step;
    lanes_.advance(at, length);
    lane += length;
  }
}

SINTER_DECL void Interpreter::start_reductions(const Pass& pass, std::int64_t count) {
  for (InstId id : pass.reductions) {
    if (folds_[id].lanes != nullptr) folds_[id].lanes->start(), folds_[id].is_put_together = false;
    visit_computed(program_->kernel.body[id].dtype, [&](auto tag) {
      using T = Stored<decltype(tag)>;
      std::fill_n(static_cast<Accumulator<T>*>(sums_[id]), count, neutral<T>(program_->kernel.body[id].prim));
    });
  }
  for (InstId id : pass.inner) {
    const Inst& inst = program_->kernel.body[id];
    if (!is_scan(inst.prim)) continue;
    visit_computed(inst.dtype, [&](auto tag) {
      using T = Stored<decltype(tag)>;
      std::fill_n(static_cast<Accumulator<T>*>(sums_[id]), count, neutral<T>(reduction_of(inst.prim)));
    });
  }
}

SINTER_DECL void Interpreter::feed_reductions(const Pass& pass, std::int64_t count) {
  for (InstId id : pass.reductions) {
    const Inst& inst = program_->kernel.body[id];
    if (inst.prim == Prim::fold) {
      feed_fold(id, count);
      continue;
    }
    const Step& step = program_->steps[id];
    const void* second = inst.prim == Prim::contract ? value_[inst.args[1]] : nullptr;
    (reduced_lanes_ ? step.reduce_all : step.reduce_lanes)(sums_[id], value_[inst.args[0]], second, count);
  }
}

// Folds with state, in wide cells: a state for each lane of a block; where all lanes are one row's, put together by
// halves at the end.

SINTER_DECL void Interpreter::make_folds() {
  const Kernel& kernel = program_->kernel;
  folds_.resize(kernel.body.size());
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const Inst& inst = kernel.body[i];
    if (inst.prim != Prim::fold || !program_->facts.values[i].is_live || holder(static_cast<InstId>(i)) != i) continue;
    const ScalarFold& fold = kernel.folds[inst.access];
    folds_[i].lanes = std::make_unique<kernel_detail::FoldLanes<true>>(fold, block_size);
    folds_[i].arguments.resize(fold.arguments.size());
    for (auto& argument : folds_[i].arguments) argument.resize(as_index(block_size));
  }
}

/// The first live result of the same fold over the same values.
SINTER_DECL InstId Interpreter::holder(InstId id) const {
  const Kernel& kernel = program_->kernel;
  for (InstId other = 0; other < id; ++other)
    if (program_->facts.values[other].is_live && shares_state(kernel.body[other], kernel.body[id])) return other;
  return id;
}

SINTER_DECL void Interpreter::feed_fold(InstId id, std::int64_t count) {
  FoldRun& run = folds_[id];
  if (run.lanes == nullptr) return;
  const Inst& inst = program_->kernel.body[id];
  std::array<const void*, max_fold_arguments> arguments{};
  for (std::size_t k = 0; k < run.arguments.size(); ++k) {
    const DType dtype = program_->kernel.body[inst.args[k]].dtype;
    kernel_detail::cell_memory<true>(dtype).load(run.arguments[k].data(),
                                                 static_cast<const std::byte*>(value_[inst.args[k]]), 1, count);
    arguments[k] = run.arguments[k].data();
  }
  run.lanes->step(0, count, arguments);
}

SINTER_DECL void Interpreter::finish_fold(InstId id, std::int64_t count) {
  const Inst& inst = program_->kernel.body[id];
  FoldRun& run = folds_[holder(id)];
  if (reduced_lanes_ && !run.is_put_together) run.lanes->merge_halves();
  run.is_put_together = true;
  std::vector<kernel_detail::CellRoom> cells(as_index(count));
  run.lanes->result(as_index(inst.bits), cells.data(), count);
  kernel_detail::cell_memory<true>(inst.dtype).store(cells.data(), static_cast<std::byte*>(value_[id]), 1, count);
}

SINTER_DECL void Interpreter::finish_reduction(InstId id, std::int64_t count) {
  if (program_->kernel.body[id].prim == Prim::fold) return finish_fold(id, count);
  visit_computed(program_->kernel.body[id].dtype, [&](auto tag) {
    using T = Stored<decltype(tag)>;
    const auto* sums = static_cast<const Accumulator<T>*>(sums_[id]);
    T* out = static_cast<T*>(value_[id]);
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert<T>(sums[i]);
  });
}

SINTER_DECL void Interpreter::note_bad_index(std::int64_t index, std::int64_t extent) {
  if (index_out_of_range_) return;
  index_out_of_range_ = true;
  bad_index_ = index;
  bad_extent_ = extent;
}

SINTER_DECL void Interpreter::update(const Store& store, const Block& block) {
  const auto& numbers = geometry_.accesses[store.access];
  const auto write = [&](auto element, const auto* from, const auto* indices) {
    using E = decltype(element);
    using T = std::remove_cvref_t<decltype(*from)>;
    for_each_run(store.access, block, [&](std::int64_t lane, std::int64_t length, char* base, std::int64_t stride) {
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t at = indices[lane + i];
        if (at < 0 || at >= numbers.gather_extent) note_bad_index(at, numbers.gather_extent);
        else if (!only_checks_) {
          E& to = reinterpret_cast<E*>(base)[i * stride + at * numbers.gather_stride];
          using C = std::conditional_t<std::is_same_v<E, std::uint64_t>, E, T>;  // extrema of u64 are not those of i64
          to = static_cast<E>(
              scalar_meaning::combined(store.combine, static_cast<C>(to), static_cast<C>(from[lane + i])));
        }
      }
    });
  };
  const Inst& index = program_->kernel.body[store.index];
  visit_dtype(dtype_in_memory(store.access), [&](auto tag) {
    const Stored<decltype(tag)> element{};
    const auto* from = static_cast<const Stored<tensor_detail::Computed<decltype(tag)>>*>(value_[store.value]);
    if (index.dtype == DType::i32) write(element, from, static_cast<const std::int32_t*>(value_[store.index]));
    else write(element, from, static_cast<const std::int64_t*>(value_[store.index]));
  });
}

SINTER_DECL void Interpreter::store(const std::vector<Store>& stores, const Block& block) {
  for (const Store& store : stores) {
    if (store.index != no_inst) {
      update(store, block);
      continue;
    }
    visit_dtype(dtype_in_memory(store.access), [&](auto tag) {
      using E = Stored<decltype(tag)>;
      using T = Stored<tensor_detail::Computed<decltype(tag)>>;
      const T* from = static_cast<const T*>(value_[store.value]);
      for_each_run(store.access, block, [&](std::int64_t lane, std::int64_t length, char* base, std::int64_t stride) {
        E* to = reinterpret_cast<E*>(base);
        if (std::is_same_v<E, T> && stride == 1) std::memcpy(to, from + lane, as_index(length) * sizeof(T));
        else
          for (std::int64_t i = 0; i < length; ++i) to[i * stride] = static_cast<E>(from[lane + i]);
      });
    });
  }
}

/// Copies lane 0 of what was computed once per row to all lanes, for the instructions inside the row.
SINTER_DECL void Interpreter::spread(const std::vector<InstId>& list) {
  const std::int64_t count = std::min(block_size, lanes_.points);
  for (InstId id : list) {
    visit_computed(program_->kernel.body[id].dtype, [&](auto tag) {
      auto* values = static_cast<Stored<decltype(tag)>*>(value_[id]);
      std::fill_n(values, count, Stored<decltype(tag)>(values[0]));
    });
  }
}

SINTER_DECL void Interpreter::set_loop_offsets() {
  for (std::size_t i = 0; i < loop_offset_.size(); ++i)
    loop_offset_[i] = geometry_.accesses[i].offset + loop_.offset(i, loop_position_);
}

}  // namespace reference_detail
SINTER_NAMESPACE_END
