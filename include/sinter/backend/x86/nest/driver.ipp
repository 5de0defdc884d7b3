// The driver of generated loops: binds a kernel to extents, chooses which axis the code counts over, walks the other
// parallel axes by shifting bases, cuts work into tasks, and runs the blocks of long rows in parallel.
#pragma once

#include <sinter/backend/x86/nest/interleaved.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/backend/x86/nest/loop.ipp>
#include <sinter/backend/x86/nest/prepare.hpp>
#include <sinter/backend/x86/nest/scratch.hpp>
#include <sinter/backend/x86/nest/tiled.hpp>
#include <sinter/base/address.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/gather_error.hpp>
#include <sinter/kernel/loop_nest/binding.hpp>
#include <sinter/kernel/loop_nest/builder.hpp>
#include <sinter/kernel/loop_nest/interpreter.hpp>
#include <sinter/kernel/unrolled.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/runtime/backend.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

/// What of a kernel the launches need.
struct LoopShape {
  Kernel kernel;
  NestBinder binder;
  bool has_gather = false;

  explicit LoopShape(const Kernel& k) : kernel(k), binder(kernel) {
    for (const Inst& inst : k.body) has_gather |= inst.prim == Prim::gather;
  }
  LoopShape(const LoopShape&) = delete;  // the binder refers to the kernel
  LoopShape& operator=(const LoopShape&) = delete;
};

class LoopLaunch final : public Launch {
 public:
  LoopLaunch(std::shared_ptr<const LoopCode> code, std::shared_ptr<const LoopShape> shape,
             const BoundGeometry& geometry, Streaming streaming)
      : code_(std::move(code)), shape_(std::move(shape)), function_(code_->function()) {
    for (std::size_t i = 0; i < kernel().accesses.size(); ++i)
      sources_.push_back({kernel().accesses[i].operand, offset_bytes(kernel(), geometry, i)});
    const NestBinding binding = shape_->binder.bind(
        geometry,
        {.nanoseconds_per_element = code_->nanoseconds_per_element(), .serial_nanoseconds = serial_nanoseconds});
    is_empty_ = binding.is_empty;
    if (!is_empty_ && has_no_rows(geometry)) without_rows_ = std::make_unique<BoundGeometry>(geometry);
    if (is_empty_ || without_rows_) {
      is_empty_ = true;
      return;
    }
    take(binding, geometry);
    plan_pairs();
    scratch_bytes_ = code_->scratch_bytes(args_.columns) * (in_pairs_ ? 2 : 1);
    if (scratch_bytes_ != 0) thread_scratch(scratch_bytes_);  // run() is to allocate nothing
    args_.scratch_stride = code_->scratch_stride(args_.columns);
    if (tail_) tail_->scratch_stride = args_.scratch_stride;
    if (args_.columns >= 1 && args_.columns <= code_->short_columns()) function_ = code_->short_rows();
    plan_split();
    cached_ = function_;
    if (streaming != Streaming::never) plan_streaming(streaming == Streaming::always ? 0 : streamed_bytes);
    is_simple_ =
        rest_.empty() && !tail_ && !may_split_ && nanoseconds_ < serial_nanoseconds && streaming != Streaming::always;
  }

  void run(void* const* operands) override {
    if (SINTER_UNLIKELY(is_empty_)) return without_rows_ ? run_without_rows(operands) : void();
    place_bases(operands);
    if (SINTER_LIKELY(is_simple_)) run_whole();
    else run_parallel();
    if (SINTER_UNLIKELY(status_.access != 0)) bad_index();
  }
  /// A thread may have taken over frames that another one bound.
  void prepare() override {
    if (scratch_bytes_ != 0) thread_scratch(scratch_bytes_);
  }
  LaunchWork work() override {
    if (is_empty_) return {};
    const std::int64_t units = rest_count_ * outer_extent_;
    if (is_simple_) return {1, nanoseconds_};
    if (!may_split_) return {units + (tail_ ? 1 : 0), nanoseconds_};
    partials_.resize(as_index(units * blocks_ * code_->reductions()));
    return {units * blocks_, nanoseconds_};
  }
  void begin_tasks(void* const* operands) override {
    place_bases(operands);
    if (!is_simple_) function_ = choose_function();
    if (tail_)
      for (std::size_t i = 0; i < sources_.size(); ++i) tail_->pointer[i].base = args_.pointer[i].base;
  }
  void run_tasks(std::int64_t begin, std::int64_t end) override {
    if (is_simple_) return run_whole();
    if (!may_split_) return run_range(begin, end, rest_count_ * outer_extent_);
    while (begin < end) {
      const std::int64_t unit = begin / blocks_, first = begin % blocks_;
      const std::int64_t last = std::min(blocks_, first + (end - begin));
      const LoopArgs row = args_of_row(unit, partials_.data() + unit * blocks_ * code_->reductions());
      code_->blocks()(&row, first, last);
      begin += last - first;
    }
  }
  void end_tasks() override {
    for (std::int64_t unit = 0; may_split_ && unit < rest_count_ * outer_extent_; ++unit)
      finish_row(unit, partials_.data() + unit * blocks_ * code_->reductions());
    if (SINTER_UNLIKELY(status_.access != 0)) bad_index();
  }

 private:
  struct Source {
    std::uint16_t operand;
    std::int64_t offset;
  };
  struct RestAxis {
    int axis;
    std::int64_t extent;
    std::vector<std::int64_t> stride;  // bytes, per access
  };
  const Kernel& kernel() const { return shape_->kernel; }

  SINTER_ALWAYS_INLINE void place_bases(void* const* operands) {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      args_.pointer[i].base = displaced(static_cast<char*>(operands[sources_[i].operand]), sources_[i].offset);
  }
  SINTER_ALWAYS_INLINE void run_whole() {
    if (scratch_bytes_ != 0) args_.scratch = thread_scratch(scratch_bytes_);
    function_(&args_, 0, outer_extent_);
  }
  [[noreturn]] SINTER_NOINLINE void bad_index() {
    const LoopArgs::Status status = std::exchange(status_, {});
    throw GatherError(status.index, args_.pointer[status.access - 1].gather_extent);
  }
  bool has_no_rows(const BoundGeometry& g) const {
    return shape_->has_gather && std::any_of(kernel().body.begin(), kernel().body.end(), [&](const Inst& inst) {
             return inst.prim == Prim::gather && g.accesses[inst.access].gather_extent <= 0;
           });
  }
  /// No index into an axis of extent 0 is good, and nothing may be read there: the interpreter finds the first one.
  SINTER_NOINLINE SINTER_COLD void run_without_rows(void* const* operands) const {
    std::string why;
    const auto nest = build_nest(kernel(), Schedule{}, machine_of(Isa::avx512), IndexWidth::wide, why);
    if (!nest) throw GatherError(0, 0);
    interpret(*nest, VariantKind::whole, *without_rows_, std::span(operands, kernel().operands.size()),
              InterpretMode::exact);
  }

  void take(const NestBinding& binding, const BoundGeometry& geometry) {
    nanoseconds_ = binding.nanoseconds;
    outer_extent_ = binding.outer.extent;
    rest_count_ = binding.rest_points;
    fill_loop_args(args_, kernel(), geometry, binding.outer.axis);
    args_.columns = binding.columns;
    args_.status = &status_;
    for (const NestBinding::Axis& axis : binding.rest) {
      RestAxis& rest = rest_.emplace_back(RestAxis{axis.axis, axis.extent, {}});
      for (std::size_t i = 0; i < kernel().accesses.size(); ++i)
        rest.stride.push_back(geometry.accesses[i].stride[as_index(axis.axis)] *
                              size_of(kernel().operands[kernel().accesses[i].operand].dtype));
    }
    if (binding.chunk != 0) walk_chunks(binding);
  }

  /// The outer axis counts chunks of the vector axis.
  void walk_chunks(const NestBinding& binding) {
    args_.columns = binding.chunk;
    args_.index_step[kernel().rank() - 1] = binding.chunk;
    for (std::size_t i = 0; i < kernel().accesses.size(); ++i)
      args_.pointer[i].outer_stride = binding.chunk * args_.pointer[i].column_stride;
    if (binding.last_chunk == 0) return;
    tail_ = std::make_unique<LoopArgs>(args_);
    tail_->columns = binding.last_chunk;
  }

  void plan_split() {
    may_split_ = code_->blocks() != nullptr && args_.columns >= 8 * row_sum_block &&
                 nanoseconds_ >= serial_nanoseconds && outer_extent_ * rest_count_ < 64;
    if (!may_split_) return;
    blocks_ = (args_.columns + row_sum_block - 1) / row_sum_block;
    partials_.resize(as_index(blocks_ * code_->reductions()));
  }

  /// Rows long enough that walking them costs more than what stands between, short enough for the first cache to hold
  /// two; so much work that the code, which is made for it, is worth its time.
  void plan_pairs() {
    constexpr std::int64_t shortest = 64, longest = 8192, least_elements = 1 << 15;
    const std::int64_t elements = args_.columns * outer_extent_ * rest_count_;
    if (outer_extent_ < 2 || args_.columns < shortest || args_.columns > longest || elements < least_elements) return;
    if (LoopFunction pairs = code_->pairs()) function_ = pairs, in_pairs_ = true;
  }

  /// Output larger than the caches goes past them.
  void plan_streaming(double cache_bytes) {
    double written = 0;
    for (const Store& store : kernel().stores) {
      const LoopArgs::Pointer& p = args_.pointer[store.access];
      const std::int64_t size = size_of(kernel().operands[kernel().accesses[store.access].operand].dtype);
      bool is_aligned = p.column_stride == size && (outer_extent_ == 1 || p.outer_stride % 64 == 0) &&
                        (args_.reduced == 1 || p.reduced_stride % 64 == 0);
      for (const RestAxis& axis : rest_) is_aligned = is_aligned && axis.stride[store.access] % 64 == 0;
      if (!is_aligned) return;
      stored_.push_back(store.access);
      written += static_cast<double>(args_.columns * outer_extent_ * rest_count_ * size);
    }
    if (written > cache_bytes) streaming_ = in_pairs_ ? code_->streaming_pairs() : code_->streaming();
  }
  LoopFunction choose_function() const {
    if (streaming_ == nullptr) return cached_;
    for (std::uint16_t access : stored_)
      if (reinterpret_cast<std::uintptr_t>(args_.pointer[access].base) % 64 != 0) return cached_;
    return streaming_;
  }

  std::size_t args_bytes() const { return offsetof(LoopArgs, pointer) + sources_.size() * sizeof(LoopArgs::Pointer); }
  void copy_args(LoopArgs& to) const { std::memcpy(static_cast<void*>(&to), &args_, args_bytes()); }

  /// Shifts `args` from the kernel's bases to rest index `rest`.
  void place(LoopArgs& args, std::int64_t rest) const {
    for (std::size_t i = 0; i < sources_.size(); ++i) args.pointer[i].base = args_.pointer[i].base;
    for (std::size_t r = rest_.size(); r-- > 0;) {
      const RestAxis& axis = rest_[r];
      const std::int64_t at = rest % axis.extent;
      rest /= axis.extent;
      args.index_origin[axis.axis] = at;
      for (std::size_t i = 0; i < sources_.size(); ++i)
        args.pointer[i].base = displaced(args.pointer[i].base, at * axis.stride[i]);
    }
  }

  void run_parallel() {
    function_ = choose_function();
    const std::int64_t units = rest_count_ * outer_extent_;
    if (may_split_ && units < 2 * thread_count() && thread_count() > 1) return run_split(units);
    if (tail_)
      for (std::size_t i = 0; i < sources_.size(); ++i) tail_->pointer[i].base = args_.pointer[i].base;
    const std::int64_t tasks = units + (tail_ ? 1 : 0);
    parallel_for(tasks, nanoseconds_ / static_cast<double>(tasks),
                 [&](std::int64_t begin, std::int64_t end) { run_range(begin, end, units); });
  }

  void run_range(std::int64_t begin, std::int64_t end, std::int64_t units) {
    LoopArgs local;
    copy_args(local);
    if (scratch_bytes_ != 0) local.scratch = thread_scratch(scratch_bytes_);
    if (end > units) {
      LoopArgs last = *tail_;
      last.scratch = local.scratch;
      function_(&last, outer_extent_, outer_extent_ + 1);
      end = units;
    }
    while (begin < end) {
      const std::int64_t rest = begin / outer_extent_, first = begin % outer_extent_;
      const std::int64_t last = std::min(outer_extent_, first + (end - begin));
      if (!rest_.empty()) place(local, rest);
      function_(&local, first, last);
      begin += last - first;
    }
  }

  /// `outer_extent_` units count the outer axis of one place of the rest.
  LoopArgs args_at(std::int64_t unit, std::int64_t* partials) const {
    LoopArgs local;
    copy_args(local);
    local.scratch = partials;
    place(local, unit / outer_extent_);
    return local;
  }
  LoopArgs args_of_row(std::int64_t unit, std::int64_t* partials) const {
    LoopArgs row = args_at(unit, partials);
    const std::int64_t outer = unit % outer_extent_;
    for (std::size_t i = 0; i < sources_.size(); ++i)
      row.pointer[i].base = displaced(row.pointer[i].base, outer * row.pointer[i].outer_stride);
    for (std::size_t a = 0; a < max_axes; ++a) row.index_origin[a] += outer * row.index_step[a];
    return row;
  }
  void finish_row(std::int64_t unit, std::int64_t* partials) const {
    LoopArgs local = args_at(unit, partials);
    local.reduced = blocks_;
    code_->finish()(&local, unit % outer_extent_, unit % outer_extent_ + 1);
  }

  void run_split(std::int64_t units) {
    const double block_nanoseconds = nanoseconds_ / static_cast<double>(units * blocks_);
    for (std::int64_t unit = 0; unit < units; ++unit) {
      const LoopArgs row = args_of_row(unit, partials_.data());
      parallel_for(blocks_, block_nanoseconds,
                   [&](std::int64_t begin, std::int64_t end) { code_->blocks()(&row, begin, end); });
      finish_row(unit, partials_.data());
    }
  }

  std::shared_ptr<const LoopCode> code_;
  std::shared_ptr<const LoopShape> shape_;
  LoopFunction function_;
  std::vector<Source> sources_;
  std::vector<RestAxis> rest_;
  std::vector<std::int64_t> partials_;
  std::unique_ptr<LoopArgs> tail_;
  std::vector<std::uint16_t> stored_;
  std::unique_ptr<BoundGeometry> without_rows_;  // of a kernel that reads along an axis of extent 0
  LoopFunction cached_ = nullptr, streaming_ = nullptr;
  std::int64_t outer_extent_ = 1, rest_count_ = 1, blocks_ = 0;
  LoopArgs::Status status_;
  std::size_t scratch_bytes_ = 0;
  double nanoseconds_ = 0;
  bool is_empty_ = false, is_simple_ = false, may_split_ = false, in_pairs_ = false;
  LoopArgs args_;
};

class LoopExecutable final : public Executable {
 public:
  LoopExecutable(std::shared_ptr<const LoopCode> code, const Kernel& kernel, const Schedule& schedule, Isa isa)
      : code_(std::move(code)), shape_(std::make_shared<LoopShape>(kernel)), schedule_(schedule), isa_(isa) {
    const auto vector_axis = as_index(kernel.rank() - 1);
    lies_apart_ = std::any_of(kernel.accesses.begin(), kernel.accesses.end(),
                              [&](const Access& access) { return access.stride[vector_axis] == StrideClass::any; });
    may_unroll_ = std::all_of(schedule.steps().begin(), schedule.steps().end(), [](const ScheduleStep& step) {
      return step.action == ScheduleAction::threads || step.action == ScheduleAction::stream;
    });
  }
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
    if (auto launch = bind_interleaved(geometry)) return launch;
    if (const auto plan = plan_tiles(shape_->binder, geometry, code_->nanoseconds_per_element()))
      if (auto code = tile_code(*plan, geometry))
        return make_tiled_launch(std::move(code), shape_->kernel, *plan, geometry, streaming_of(schedule_));
    return std::make_unique<LoopLaunch>(code_for(geometry), shape_, geometry, streaming_of(schedule_));
  }
  std::size_t code_bytes() const override { return code_->code_bytes(); }
  std::string listing() const override { return code_->listing(); }

 private:
  struct TileCode {
    std::uint64_t packed = 0;
    bool has_narrow_index = false;
    std::shared_ptr<const LoopCode> code;
  };
  bool fits_narrow_index(const BoundGeometry& g) const {
    for (int a = 0; a < shape_->kernel.rank(); ++a)
      if ((shape_->binder.indexed >> a & 1) != 0 && g.extent[as_index(a)] > std::numeric_limits<std::int32_t>::max())
        return false;
    return true;
  }
  /// Where an index may not fit i32, code with 64-bit indices.
  std::shared_ptr<const LoopCode> code_for(const BoundGeometry& g) const {
    if (SINTER_LIKELY(!code_->has_narrow_index() || fits_narrow_index(g))) return code_;
    const ForkSection section;
    std::call_once(wide_once_, [this] { wide_ = compile_loop(shape_->kernel, schedule_, isa_); });
    return wide_;
  }
  /// A few points along the last axis are written out, and what alternates in memory moves in whole vectors. Null where
  /// there is neither, or little to gain.
  std::unique_ptr<Launch> bind_interleaved(const BoundGeometry& g) const {
    const auto unrolled = may_unroll_ ? unroll(g) : std::nullopt;
    if (!unrolled && !lies_apart_) return nullptr;
    const Kernel& kernel = unrolled ? unrolled->kernel : shape_->kernel;
    const BoundGeometry& geometry = unrolled ? unrolled->geometry : g;
    Interleaved interleaved = find_interleaved(kernel, geometry, isa_);
    if (!unrolled && interleaved.is_empty()) return nullptr;
    if (apart(kernel, geometry, interleaved) > (unrolled ? 1 : 0)) return nullptr;
    const InterleavedCode* known = interleaved_code(kernel, std::move(interleaved), fits_narrow_index(g));
    if (known == nullptr || known->code == nullptr) return nullptr;
    return std::make_unique<LoopLaunch>(known->code, known->shape, geometry, streaming_of(schedule_));
  }

  /// One short axis, or two, the other axes being longer; what joins the last axis is not short.
  std::optional<UnrolledKernel> unroll(const BoundGeometry& g) const {
    const Kernel& kernel = shape_->kernel;
    const std::int64_t points = g.extent[as_index(kernel.rank() - 1)];
    if (points < 2 || points > most_unrolled_points || shape_->binder.bind(g, {}).columns != points)
      return std::nullopt;
    std::optional<UnrolledKernel> once = unroll_last_axis(kernel, g, max_accesses);
    if (!once) return std::nullopt;
    const std::int64_t next = NestBinder(once->kernel).bind(once->geometry, {}).columns;
    if (next > most_unrolled_points) return once;
    if (next * points <= most_unrolled_together) {
      std::optional<UnrolledKernel> twice = unroll_last_axis(once->kernel, once->geometry, max_accesses);
      if (twice && NestBinder(twice->kernel).bind(twice->geometry, {}).columns > next) return twice;
    }
    return next >= 4 ? std::move(once) : std::nullopt;
  }

  /// Accesses that would be picked up element by element.
  static int apart(const Kernel& kernel, const BoundGeometry& g, const Interleaved& interleaved) {
    const auto vector_axis = as_index(kernel.rank() - 1);
    std::vector<char> is_gathered(kernel.accesses.size());
    for (const Inst& inst : kernel.body)
      if (inst.prim == Prim::gather) is_gathered[inst.access] = 1;
    int count = 0;
    for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
      const std::int64_t stride = g.accesses[i].stride[vector_axis];
      count += kernel.accesses[i].stride[vector_axis] >= StrideClass::any && stride != 0 && !interleaved.has(i) &&
               is_gathered[i] == 0;
    }
    return count;
  }

  struct InterleavedCode {
    Interleaved interleaved;
    bool has_narrow_index = false;
    std::shared_ptr<const LoopShape> shape;
    std::shared_ptr<const LoopCode> code;
  };
  /// The code, made when such numbers are first met; null where there have been too many kinds of them.
  const InterleavedCode* interleaved_code(const Kernel& kernel, Interleaved interleaved, bool is_narrow) const {
    constexpr std::size_t most_kinds = 16;
    const ForkSection section;
    const std::lock_guard lock(tile_mutex_);
    for (const auto& known : interleaved_codes_)
      if (known->has_narrow_index == is_narrow && known->interleaved == interleaved && known->shape->kernel == kernel)
        return known.get();
    if (interleaved_codes_.size() == most_kinds) return nullptr;
    const IndexWidth width = is_narrow ? IndexWidth::narrow_if_possible : IndexWidth::wide;
    auto code = compile_interleaved(kernel, interleaved, schedule_, isa_, width);
    interleaved_codes_.push_back(std::make_unique<InterleavedCode>(
        InterleavedCode{std::move(interleaved), is_narrow, std::make_shared<LoopShape>(kernel), std::move(code)}));
    return interleaved_codes_.back().get();
  }

  /// The code for tiles, made when these accesses are first packed.
  std::shared_ptr<const LoopCode> tile_code(const TilePlan& plan, const BoundGeometry& g) const {
    const bool is_narrow = fits_narrow_index(g);
    const ForkSection section;
    const std::lock_guard lock(tile_mutex_);
    for (const TileCode& known : tile_codes_)
      if (known.packed == plan.packed && known.has_narrow_index == is_narrow) return known.code;
    const IndexWidth width = is_narrow ? IndexWidth::narrow_if_possible : IndexWidth::wide;
    tile_codes_.push_back(
        {plan.packed, is_narrow, compile_loop(kernel_of_tile(shape_->kernel, plan), schedule_, isa_, width)});
    return tile_codes_.back().code;
  }

  std::shared_ptr<const LoopCode> code_;
  std::shared_ptr<const LoopShape> shape_;
  Schedule schedule_;
  Isa isa_;
  mutable std::once_flag wide_once_;
  mutable std::shared_ptr<const LoopCode> wide_;
  mutable std::mutex tile_mutex_;
  mutable std::vector<TileCode> tile_codes_;
  mutable std::vector<std::unique_ptr<InterleavedCode>> interleaved_codes_;
  bool lies_apart_ = false;  // an access may have other elements between its neighbours
  bool may_unroll_ = false;  // the schedule asks for nothing that is about this body
};

}  // namespace x86_detail

SINTER_DECL std::shared_ptr<const Executable> make_loop_executable(const Kernel& kernel, const Schedule& schedule,
                                                                   Isa isa, std::string* why_declined) {
  std::shared_ptr<const LoopCode> code =
      compile_loop(kernel, schedule, isa, IndexWidth::narrow_if_possible, why_declined);
  if (code == nullptr) return nullptr;
  return std::make_shared<x86_detail::LoopExecutable>(std::move(code), kernel, schedule, isa);
}

}  // namespace x86
SINTER_NAMESPACE_END
