// Binding, running, and the idle frames of plans.
#pragma once

#include <sinter/runtime/frame.hpp>
#include <sinter/runtime/index_error.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/runtime/called_steps.hpp>
#include <sinter/runtime/device_ops.hpp>
#include <sinter/runtime/fallback.hpp>
#include <sinter/runtime/following_steps.hpp>
#include <sinter/runtime/iterations.hpp>
#include <sinter/runtime/partition_plan.hpp>
#include <sinter/runtime/step_binding.hpp>
#include <sinter/runtime/watch.hpp>
#include <sinter/tensor/guarded_memory.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// Rounding to nearest, subnormals kept, exceptions masked, whatever the caller's thread is set to; restored at the
/// end.
class FloatingEnvironment {
 public:
#if defined(__SSE2__)
  FloatingEnvironment() : saved_(_mm_getcsr()) {
    if (SINTER_UNLIKELY((saved_ & ~sticky) != standard)) _mm_setcsr(standard);
  }
  ~FloatingEnvironment() {
    if (SINTER_UNLIKELY((saved_ & ~sticky) != standard)) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned sticky = 0x3F, standard = 0x1F80;
  unsigned saved_;
#else
  FloatingEnvironment() {}
#endif
  FloatingEnvironment(const FloatingEnvironment&) = delete;
};

/// The first bytes of the result are the number in its dtype.
inline std::int64_t bits_of(const PlanNumber& number, std::span<const std::int64_t> symbols) {
  const std::int64_t value = number.value.evaluate(symbols);
  const auto as_float = static_cast<float>(value);
  const auto as_double = static_cast<double>(value);
  std::int64_t bits = value;
  if (number.dtype == DType::f32) std::memcpy(&bits, &as_float, sizeof as_float);
  if (number.dtype == DType::f64) std::memcpy(&bits, &as_double, sizeof as_double);
  return bits;
}

/// Idle frames beyond the second one are kept only if their arenas are no larger.
inline constexpr std::size_t small_arena = std::size_t{1} << 20;
}  // namespace runtime_detail

SINTER_DECL Frame::Frame(const Plan& plan, std::span<const std::int64_t> symbols)
    : symbols_(symbols.begin(), symbols.end()), plan_(&plan) {
  for (const PlanNumber& number : plan.numbers()) numbers_.push_back(runtime_detail::bits_of(number, symbols));
  for (const ArenaSlot& slot : plan.slots())
    slot_bytes_.push_back(std::max<std::int64_t>(0, slot.bytes.evaluate(symbols)));  // negative: refused below
  const auto guards = plan.device() == Device::cpu() ? tensor_detail::guard_pages() : tensor_detail::GuardPages::none;
  const bool is_guarded = guards != tensor_detail::GuardPages::none;  // each slot by itself
  const std::int64_t total = is_guarded ? tensor_detail::place_guarded_pieces(slot_bytes_, guards, slot_offsets_)
                                        : place_slots(plan.slots(), slot_bytes_, slot_offsets_);
  if (total > 0) arena_ = Storage::allocate(as_index(total), plan.device(), plan.arena_maker());
  if (is_guarded && arena_) tensor_detail::guard_pieces(arena_->data(), slot_bytes_);
  if (plan.device() != Device::cpu()) {
    memory_ = &device_memory(plan.device(), "plan");
    arena_queue_ = last_queue_ = memory_->current_queue(plan.device());
    host_numbers_.resize(plan.host_numbers());
    if (plan.host_part() != nullptr) {
      host_part_ = std::make_unique<Frame>(*plan.host_part(), symbols);
      calls_out_ = host_part_->calls_out();
    }
  }
  if (plan.parts() != nullptr) {
    parts_ = std::make_unique<PartitionFrame>(*plan.parts(), symbols);
    calls_out_ = true;
  }
  bind_steps();
  const std::size_t inputs = plan.inputs().size();
  places_ = {std::vector<void*>(inputs), std::vector<TensorImpl*>(inputs), std::vector<float>(inputs),
             std::vector<void*>(plan.outputs().size())};
  for (const PlanOutput& output : plan.outputs()) {
    FrameOutput bound;
    bound.type = {output.type.dtype, output.type.device, {}};
    for (Dim dim : output.type.shape.dims()) bound.type.shape.push_back(dim.evaluate(symbols));
    bound.strides = dense_strides(bound.type.shape);
    bound.bytes = as_index(bound.type.shape.numel().value() * size_of(bound.type.dtype));
    bound.maker = output.maker;
    has_only_fresh_outputs_ &=
        output.source == BufferKind::output && output.index == static_cast<std::int32_t>(outputs_.size());
    outputs_.push_back(bound);
  }
}

/// Null: nothing to compute.
SINTER_DECL std::unique_ptr<Launch> Frame::launch_of(const PlanStep& step, bool is_grouped) const {
  Backend* backend = plan_->backend();
  if (step.host) {
    if (backend == nullptr || step.host->intrinsic != nullptr)
      return bind_host_op(runtime_detail::told_of_constants(*plan_, step), symbols_);
    const StepContext context = context_of(step);
    if (std::unique_ptr<Launch> own = bind_backend_op(*step.host, symbols_, *backend, context)) return own;
    return bind_device_op(*step.host, symbols_, context, plan_->device());
  }
  return runtime_detail::bind_kernel(step, *plan_, symbols_, is_grouped);
}

SINTER_DECL void Frame::bind_steps() {
  const std::span<const PlanStep> steps = plan_->steps();
  std::vector<std::unique_ptr<Launch>> made(steps.size());
  const std::vector<std::int32_t> group_of = runtime_detail::groups_of_steps(*plan_);
  auto groups = static_cast<std::int32_t>(plan_->groups().size());
  const auto body_of = [&](const PlanStep& step) {
    return plan_->backend() == nullptr ? runtime_detail::directly_callable_body(step) : nullptr;
  };
  std::vector<const Plan*> bodies;
  std::vector<runtime_detail::CalledStep> called;
  auto bind = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = as_index(begin); i < as_index(end); ++i) {
      if (i >= steps.size()) runtime_detail::compile_ahead(called[i - steps.size()], symbols_);
      else if (body_of(steps[i]) == nullptr) made[i] = launch_of(steps[i], group_of[i] >= 0);
    }
  };
  const bool compiles = plan_->backend() != nullptr && plan_->backend()->compiles_when_bound();
  if (compiles) runtime_detail::find_called_steps(*plan_, bodies, called);
  const auto count = static_cast<std::int64_t>(steps.size() + called.size());
  constexpr double compile_nanoseconds = 1e7;
  if (compiles) parallel_for(count, compile_nanoseconds, bind);
  else bind(0, count);
  const auto launch_with_next = [&](std::size_t i) -> std::unique_ptr<Launch> {
    if (plan_->backend() != nullptr || i + 1 == steps.size() || made[i] == nullptr || made[i + 1] == nullptr)
      return nullptr;
    if (group_of[i] >= 0 || group_of[i + 1] >= 0) return nullptr;
    return runtime_detail::followed_launch(
        *plan_, i, *made[i], symbols_,
        [&](const BufferRef& operand, bool is_written) { return use_of(operand, is_written); });
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (group_of[i] >= 0 && plan_->backend() != nullptr) {
      const StepRange range = plan_->groups()[as_index(group_of[i])];
      add_group(range, made, group_of[i]);
      i = as_index(range.end) - 1;
    } else if (std::unique_ptr<Launch> both = launch_with_next(i)) {
      const auto first = static_cast<std::uint32_t>(members_.size());
      const auto first_operand = static_cast<std::uint32_t>(pointers_.size());
      for (const std::size_t member : {i, i + 1}) {
        launches_.push_back(std::move(made[member]));
        members_.push_back(
            {launches_.back().get(), static_cast<std::uint32_t>(pointers_.size()), false, &steps[member], -1});
        for (const BufferRef& operand : steps[member].operands) add_operand(operand);
      }
      launches_.push_back(std::move(both));
      steps_.push_back({launches_.back().get(), first_operand, false, &steps[i], -1, first, 2});
      ++i;
    } else if (made[i] != nullptr) {
      add_step(steps[i], std::move(made[i]), group_of[i]);
    } else if (const Plan* body = body_of(steps[i])) {
      add_called_steps(steps[i], *body, groups);
      groups += static_cast<std::int32_t>(body->groups().size());
    }
  }
  for (const PlanStep& step : steps) calls_out_ |= runtime_detail::calls_out(step);
  if (plan_->backend() == nullptr && groups > 0) make_host_segments();
  if (plan_->runs_as_one() && plan_->backend() != nullptr) make_segments();
  if (memory_ != nullptr) find_joins();
}

/// Launches that run beside the kernels follow each other on their own queue: they wait for none of their kind.
SINTER_DECL void Frame::find_joins() {
  std::vector<std::vector<MemoryUse>> uses(steps_.size());
  const auto uses_at = [&](std::size_t i) -> const std::vector<MemoryUse>& {
    if (uses[i].empty()) uses[i] = uses_of(steps_[i]);
    return uses[i];
  };
  const auto touch = [](const std::vector<MemoryUse>& a, const std::vector<MemoryUse>& b) {
    for (const MemoryUse& x : a)
      for (const MemoryUse& y : b)
        if (x.space == y.space && x.begin < y.end && y.begin < x.end && (x.is_written || y.is_written)) return true;
    return false;
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].launch->runs_beside()) continue;
    std::size_t at = i + 1;
    while (at < steps_.size() && (steps_[at].launch->runs_beside() || !touch(uses_at(i), uses_at(at)))) ++at;
    joins_.push_back({at, steps_[i].launch});
  }
  for (std::size_t i = 1; i < joins_.size(); ++i)  // few, and almost in order
    for (std::size_t k = i; k > 0 && joins_[k].step < joins_[k - 1].step; --k) std::swap(joins_[k], joins_[k - 1]);
}

SINTER_DECL void Frame::join_before(std::size_t step) {
  for (; next_join_ < joins_.size() && joins_[next_join_].step <= step; ++next_join_) joins_[next_join_].launch->join();
}

/// Of a device. Launches that its back end merges come first, then the others; the order among them does not matter.
SINTER_DECL void Frame::add_group(StepRange range, std::span<std::unique_ptr<Launch>> made, std::int32_t group) {
  std::vector<Launch*> launches;
  std::vector<std::size_t> numbers;  // of the steps
  for (auto i = as_index(range.first); i < as_index(range.end); ++i) {
    if (made[i] == nullptr || plan_->steps()[i].is_plain_copy) continue;
    launches.push_back(made[i].get());
    numbers.push_back(i);
  }
  for (MergedLaunch& merged : plan_->backend()->merge(launches)) {
    const auto first = static_cast<std::uint32_t>(members_.size());
    const auto first_operand = static_cast<std::uint32_t>(pointers_.size());
    for (const std::uint32_t member : merged.members) {
      const PlanStep& step = plan_->steps()[numbers[member]];
      launches_.push_back(std::move(made[numbers[member]]));
      members_.push_back({launches_.back().get(), static_cast<std::uint32_t>(pointers_.size()), false, &step, group});
      for (const BufferRef& operand : step.operands) add_operand(operand);
    }
    launches_.push_back(std::move(merged.launch));
    const auto count = static_cast<std::uint32_t>(merged.members.size());
    steps_.push_back({launches_.back().get(), first_operand, false, members_[first].planned, group, first, count});
  }
  for (auto i = as_index(range.first); i < as_index(range.end); ++i) {
    if (made[i] == nullptr) continue;
    const PlanStep& step = plan_->steps()[i];
    // Alone it need not have the code that suits others, too. Products do not look at that, and may be measured.
    if (!step.host && !step.runs_on_host && !step.is_plain_copy && step.kernel.kind != KernelKind::contraction)
      made[i] = launch_of(step);
    add_step(step, std::move(made[i]), group);
  }
}

/// Outputs may have the memory of their donors.
SINTER_DECL MemoryUse Frame::use_of(const BufferRef& operand, bool is_written) const {
  constexpr std::int64_t whole = std::numeric_limits<std::int64_t>::max();
  const auto index = static_cast<std::uint32_t>(operand.index),
             inputs = static_cast<std::uint32_t>(plan_->inputs().size());
  const auto outputs = static_cast<std::uint32_t>(plan_->outputs().size());
  if (operand.kind == BufferKind::input) return {index, 0, whole, is_written};
  if (operand.kind == BufferKind::arena)
    return {inputs + outputs, slot_offsets_[index], slot_offsets_[index] + slot_bytes_[index], is_written};
  ensure(operand.kind == BufferKind::output, "frame: no memory that a step writes");
  const std::size_t number = plan_->output_number(index);
  const std::int32_t donor = plan_->outputs()[number].donor;
  return {donor >= 0 ? static_cast<std::uint32_t>(donor) : inputs + static_cast<std::uint32_t>(number), 0, whole,
          is_written};
}

/// On the device. What lies on the host is read when a launch is enqueued.
SINTER_DECL void Frame::add_uses_of(const PlanStep& step, std::vector<MemoryUse>& uses) const {
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const bool is_written = step.host ? i >= step.host_inputs() : step.kernel.operands[i].written;
    const bool is_fixed = step.operands[i].kind == BufferKind::constant || is_on_host(step.operands[i]);
    if (is_written || !is_fixed) uses.push_back(use_of(step.operands[i], is_written));
  }
}

SINTER_DECL std::vector<MemoryUse> Frame::uses_of(const Step& step) const {
  std::vector<MemoryUse> uses;
  if (step.members == 0) add_uses_of(*step.planned, uses);
  for (const Step& member : std::span(members_).subspan(step.first_member, step.members))
    add_uses_of(*member.planned, uses);
  return uses;
}

/// Steps that cannot be grouped stand between groups. A group of one step is of use to a queue of iterations.
SINTER_DECL void Frame::make_segments() {
  Backend& backend = *plan_->backend();
  for (std::size_t first = 0, end = 0; first < steps_.size(); first = end) {
    const bool is_group = backend.can_group(*steps_[first].launch);
    for (end = first + 1; end < steps_.size() && backend.can_group(*steps_[end].launch) == is_group;) ++end;
    segments_.push_back({first, end, nullptr, nullptr});
    if (!is_group) continue;
    std::vector<std::vector<MemoryUse>> uses;
    for (std::size_t i = first; i < end; ++i) uses.push_back(uses_of(steps_[i]));
    std::vector<GroupedLaunch> launches;
    for (auto& after : dependences_of(uses))
      launches.push_back({steps_[first + launches.size()].launch, std::move(after)});
    segments_.back().group = backend.group(std::move(launches));
  }
  group_operands_.resize(steps_.size());
}

/// Groups whose work is worth threads stand between segments of other steps, which run one after the other.
SINTER_DECL void Frame::make_host_segments() {
  bool has_group = false;
  for (std::size_t first = 0, end = 0; first < steps_.size(); first = end) {
    for (end = first + 1; end < steps_.size() && steps_[end].group == steps_[first].group;) ++end;
    std::unique_ptr<CpuGroup> group;
    if (steps_[first].group >= 0 && end - first >= 2) {
      std::vector<Launch*> launches;
      for (std::size_t i = first; i < end; ++i) launches.push_back(steps_[i].launch);
      group = std::make_unique<CpuGroup>(std::move(launches));
      if (!group->pays()) group = nullptr;
    }
    has_group |= group != nullptr;
    CpuGroup* const on_host = group.get();
    segments_.push_back({first, end, std::move(group), on_host});
  }
  if (has_group) group_operands_.resize(steps_.size());
  else segments_.clear();
}

SINTER_DECL void Frame::add_step(const PlanStep& step, std::unique_ptr<Launch> launch, std::int32_t group) {
  launches_.push_back(std::move(launch));
  steps_.push_back(
      {launches_.back().get(), static_cast<std::uint32_t>(pointers_.size()), step.is_plain_copy, &step, group});
  for (const BufferRef& operand : step.operands) add_operand(operand);
}

SINTER_DECL void Frame::add_operand(const BufferRef& operand) {
  const auto place = static_cast<std::uint32_t>(pointers_.size()), source = static_cast<std::uint32_t>(operand.index);
  void* pointer = nullptr;
  switch (operand.kind) {
    case BufferKind::input:
      if (source < plan_->inputs().size()) input_patches_.push_back({place, source});
      else pointer = &host_numbers_[source - plan_->inputs().size()];
      break;
    case BufferKind::output:
      output_patches_.push_back({place, static_cast<std::uint32_t>(plan_->output_number(source))});
      break;
    case BufferKind::constant: pointer = plan_->constants()[source]->data(); break;
    case BufferKind::arena:
      pointer = arena_ ? static_cast<char*>(arena_->data()) + slot_offsets_[source] : nullptr;
      break;
    case BufferKind::number: pointer = &numbers_[source]; break;
    case BufferKind::none: throw InternalError("plan: an operand without memory");
  }
  pointers_.push_back(pointer);
}

SINTER_DECL void Frame::add_called_steps(const PlanStep& call, const Plan& body, std::int32_t first_group) {
  for (std::int32_t i = 0; as_index(i) < body.steps().size(); ++i) {
    const PlanStep& step = body.steps()[as_index(i)];
    std::unique_ptr<Launch> launch = runtime_detail::bind_kernel(step, body, symbols_);
    if (launch == nullptr) continue;
    std::int32_t group = -1;
    for (std::size_t g = 0; g < body.groups().size(); ++g)
      if (body.groups()[g].first <= i && i < body.groups()[g].end) group = first_group + static_cast<std::int32_t>(g);
    launches_.push_back(std::move(launch));
    steps_.push_back(
        {launches_.back().get(), static_cast<std::uint32_t>(pointers_.size()), step.is_plain_copy, &step, group});
    for (const BufferRef& operand : step.operands) {
      const auto index = as_index(operand.index);
      if (operand.kind == BufferKind::constant) pointers_.push_back(body.constants()[index]->data());
      else
        add_operand(
            call.operands[operand.kind == BufferKind::input ? index : call.host_inputs() + body.output_number(index)]);
    }
  }
}

SINTER_DECL Frame::~Frame() {
  if (memory_ != nullptr && SINTER_UNLIKELY(runtime_detail::current_iterations() != nullptr)) {
    try {
      runtime_detail::flush_iterations();  // it waits to run in this frame's memory
    } catch (...) {}                       // who synchronises is told
  }
  if (SINTER_UNLIKELY(arena_queue_ != last_queue_)) memory_->drain(plan_->device());
}

SINTER_DECL bool Frame::is_on_host(const BufferRef& operand) const {
  return runtime_detail::lies_on_host(*plan_, operand);
}
SINTER_DECL StepContext Frame::context_of(const PlanStep& step) const {
  return runtime_detail::context_of(*plan_, step);
}

SINTER_DECL void Frame::run_host_part(std::span<void* const> inputs, std::span<void* const> outputs) {
  host_pointers_.clear();
  for (std::int32_t output : plan_->host_outputs())
    host_pointers_.push_back(output >= 0 ? outputs[as_index(output)] : &host_numbers_[as_index(~output)]);
  host_part_->run(inputs, host_pointers_);
}

/// The arena belongs to one queue at a time.
SINTER_DECL void Frame::follow_queue() {
  const std::uint64_t queue = memory_->current_queue(plan_->device());
  if (SINTER_LIKELY(queue == last_queue_)) return;
  memory_->run_after(plan_->device(), last_queue_);  // launches have memory of their own, too
  last_queue_ = queue;
}

SINTER_DECL std::size_t Frame::arena_bytes() const { return parts_ ? parts_->bytes() : arena_ ? arena_->bytes() : 0; }

SINTER_ALWAYS_INLINE void Frame::run_step(const Step& step) {
  void* const* operands = pointers_.data() + step.first_operand;
  if (step.skips_same_memory && operands[0] == operands[1]) return;
  try {
    step.launch->run(operands);
  } catch (const GatherError& error) { runtime_detail::throw_index_error(*step.planned, error); }
}

SINTER_ALWAYS_INLINE void Frame::run_steps(std::size_t first, std::size_t end) {
  for (const Step& step : std::span(steps_).subspan(first, end - first)) {
    if (SINTER_UNLIKELY(next_join_ < joins_.size())) join_before(as_index(&step - steps_.data()));
    run_step(step);
  }
}

SINTER_DECL SINTER_NOINLINE SINTER_COLD void Frame::run_steps_watched(std::size_t first, std::size_t end) {
  const runtime_detail::WithoutIterations alone;
  if (costs_.empty()) {
    for (const Step& step : steps_) costs_.push_back(cost_of(*step.planned, symbols_));
    for (const Step& step : members_) member_costs_.push_back(cost_of(*step.planned, symbols_));
  }
  const auto run_watched = [&](const Step& step, const StepCost& cost) {
    const runtime_detail::WatchedStep watched(*plan_, *step.planned, symbols_, cost, memory_);
    run_step(step);
  };
  for (std::size_t i = first; i < end; ++i) {  // members by themselves, each with its time
    join_before(i);                            // waiting is not the step's own time
    const Step& step = steps_[i];
    if (step.members == 0) run_watched(step, costs_[i]);
    for (std::size_t m = step.first_member; m < step.first_member + step.members; ++m)
      run_watched(members_[m], member_costs_[m]);
  }
}

SINTER_DECL void Frame::run(std::span<void* const> inputs, std::span<void* const> outputs) {
  if (SINTER_UNLIKELY(parts_ != nullptr)) {
    const runtime_detail::WithoutIterations alone;
    return parts_->run(inputs, outputs);
  }
  if (SINTER_UNLIKELY(memory_ != nullptr)) {
    follow_queue();
    if (host_part_) run_host_part(inputs, outputs);
    if (segments_.empty()) runtime_detail::flush_iterations();
  }
  for (const Patch& patch : input_patches_) pointers_[patch.place] = inputs[patch.source];
  for (const Patch& patch : output_patches_) pointers_[patch.place] = outputs[patch.source];
  const runtime_detail::FloatingEnvironment environment;
  if (SINTER_UNLIKELY(!joins_.empty())) return run_all_and_join();
  run_all();
}

SINTER_ALWAYS_INLINE void Frame::run_all() {
  if (SINTER_UNLIKELY(!segments_.empty())) return run_segments();
  if (SINTER_UNLIKELY(is_watched())) return run_steps_watched(0, steps_.size());
  run_steps(0, steps_.size());
}

/// After a run the current queue is behind everything: the arena can be used again, and operands freed.
SINTER_DECL SINTER_NOINLINE void Frame::run_all_and_join() {
  next_join_ = 0;
  try {
    run_all();
  } catch (...) {
    next_join_ = joins_.size();
    for (const Join& join : joins_) {
      try {
        join.launch->join();
      } catch (...) {  // what went wrong first is told
      }
    }
    throw;
  }
  join_before(steps_.size());
}

SINTER_DECL void Frame::prepare() {
  if (parts_ != nullptr) parts_->prepare();
  if (host_part_ != nullptr) host_part_->prepare();
  if (arena_ && plan_->device() == Device::cpu()) {  // so that its pages are there
    if (tensor_detail::guard_pages() == tensor_detail::GuardPages::none)
      std::memset(arena_->data(), 0, arena_->bytes());
    else  // what lies between the slots may not be touched
      for (std::size_t i = 0; i < slot_bytes_.size(); ++i)
        std::memset(static_cast<char*>(arena_->data()) + slot_offsets_[i], 0, as_index(slot_bytes_[i]));
  }
  for (const std::unique_ptr<Launch>& launch : launches_) launch->prepare();
}

/// A group on the CPU.
SINTER_DECL void Frame::run_on_host(const Segment& segment) {
  const std::span<void* const* const> operands =
      std::span(group_operands_).subspan(segment.first, segment.end - segment.first);
  try {
    if (SINTER_UNLIKELY(is_watched())) run_on_host_watched(segment, operands);
    else segment.on_host->run(operands);
  } catch (const GatherError& error) {
    runtime_detail::throw_index_error(*steps_[segment.first + segment.on_host->failed()].planned, error);
  }
}

/// The time of the group is divided among its steps as their pieces took it.
SINTER_DECL SINTER_NOINLINE SINTER_COLD void Frame::run_on_host_watched(const Segment& segment,
                                                                        std::span<void* const* const> operands) {
  if (costs_.empty())
    for (const Step& step : steps_) costs_.push_back(cost_of(*step.planned, symbols_));
  std::vector<runtime_detail::GroupMember> members;
  for (std::size_t i = segment.first; i < segment.end; ++i) members.push_back({steps_[i].planned, &costs_[i]});
  runtime_detail::WatchedGroup watched(std::move(members), plan_->device());
  segment.on_host->run_watched(operands, watched.names(), watched.spent());
}

/// Control flow enqueues by its bodies alone, or flushes before it does so itself (DeviceControl); other steps come
/// after what waits, and what they call (a callback may run compiled functions) does not belong to the loop.
SINTER_DECL void Frame::run_steps_beside(IterationQueue& iterations, std::size_t first, std::size_t end) {
  for (const Step& step : std::span(steps_).subspan(first, end - first)) {
    if (SINTER_UNLIKELY(next_join_ < joins_.size())) join_before(as_index(&step - steps_.data()));
    if (step.planned->host && !step.planned->host->bodies.empty()) {
      run_step(step);
      continue;
    }
    iterations.flush();
    const runtime_detail::WithoutIterations alone;
    run_step(step);
  }
}

SINTER_DECL void Frame::run_segments() {
  if (is_watched()) {
    const StepListener* const listener = runtime_detail::step_listener();
    if (has_instruction_log() || (listener != nullptr && (memory_ != nullptr || listener->needs_steps_alone())))
      return run_steps_watched(0, steps_.size());
  }
  IterationQueue* const iterations = memory_ != nullptr ? runtime_detail::current_iterations() : nullptr;
  for (const Segment& segment : segments_) {
    const bool is_one_step = segment.end - segment.first == 1 && iterations == nullptr;
    if (segment.group == nullptr || is_one_step || (iterations != nullptr && segment.group->has_work())) {
      if (SINTER_UNLIKELY(is_watched())) run_steps_watched(segment.first, segment.end);
      else if (iterations != nullptr) run_steps_beside(*iterations, segment.first, segment.end);
      else run_steps(segment.first, segment.end);
      continue;
    }
    for (std::size_t i = segment.first; i < segment.end; ++i) {
      void* const* operands = pointers_.data() + steps_[i].first_operand;
      group_operands_[i] = steps_[i].skips_same_memory && operands[0] == operands[1] ? nullptr : operands;
    }
    if (segment.on_host != nullptr) {
      run_on_host(segment);
      continue;
    }
    if (SINTER_UNLIKELY(next_join_ < joins_.size())) join_before(segment.end - 1);
    if (SINTER_UNLIKELY(segment.group->has_work()))  // collectives of a group of ranks follow each other
      for (const Join& join : joins_) join.launch->join();
    if (iterations != nullptr) {
      iterations->add(*segment.group, std::span(group_operands_).subspan(segment.first, segment.end - segment.first));
      continue;
    }
    const TimelineSpan span("launch", "launches as one");
    runtime_detail::TrackedLaunch launch;
    if (SINTER_UNLIKELY(span.is_on())) launch = runtime_detail::TrackedLaunch(*memory_, plan_->device());
    segment.group->run(std::span(group_operands_).subspan(segment.first, segment.end - segment.first));
    if (SINTER_UNLIKELY(span.is_on())) launch.finish("launches as one", {});
  }
}

SINTER_DECL IdleFrames::~IdleFrames() {
  for (Frame* frame : frames) delete frame;
}

SINTER_DECL FrameLease Plan::acquire_frame(std::span<const std::int64_t> symbols) const {
  IdleFrames* const idle = idle_.get();
  if (SINTER_LIKELY(idle != nullptr)) {
    for (Frame*& place : idle->frames)
      if (place != nullptr && SINTER_LIKELY(place->is_bound_to(symbols)))
        return {std::exchange(place, nullptr), FrameReturn{idle}};
  }
  return {new Frame(*this, symbols), FrameReturn{idle}};
}

SINTER_DECL void FrameReturn::operator()(Frame* frame) const noexcept {
  if (SINTER_LIKELY(idle != nullptr)) {
    for (std::size_t i = 0; i < IdleFrames::capacity && frame != nullptr; ++i) {
      if (i >= 2 && frame->arena_bytes() > runtime_detail::small_arena) break;
      frame = std::exchange(idle->frames[i], frame);  // what was there moves one place on
    }
  }
  delete frame;
}

SINTER_NAMESPACE_END
