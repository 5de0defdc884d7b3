// Binding, running, and the idle frames of plans.
#pragma once

#include <sinter/runtime/frame.hpp>

#include <algorithm>
#include <utility>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// Rounding to nearest, subnormals kept, exceptions masked, whatever the caller's thread is set to; restored at the end.
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

/// Idle frames beyond the second one are kept only if their arenas are no larger.
inline constexpr std::size_t small_arena = std::size_t{1} << 20;
}  // namespace runtime_detail

SINTER_DECL Frame::Frame(const Plan& plan, std::span<const std::int64_t> symbols) : symbols_(symbols.begin(), symbols.end()), plan_(&plan) {
  for (Dim number : plan.numbers()) numbers_.push_back(number.evaluate(symbols));
  std::vector<std::int64_t> bytes;
  for (const ArenaSlot& slot : plan.slots()) bytes.push_back(std::max<std::int64_t>(0, slot.bytes.evaluate(symbols)));   // negative: refused below
  const std::int64_t total = place_slots(plan.slots(), bytes, slot_offsets_);
  if (total > 0) arena_ = Storage::allocate(static_cast<std::size_t>(total));
  for (const PlanStep& step : plan.steps()) bind_step(step);
  const std::size_t inputs = plan.inputs().size();
  places_ = {std::vector<void*>(inputs), std::vector<TensorImpl*>(inputs), std::vector<float>(inputs), std::vector<void*>(plan.outputs().size())};
  for (const PlanOutput& output : plan.outputs()) {
    FrameOutput bound;
    bound.type = {output.type.dtype, output.type.device, {}};
    for (Dim dim : output.type.shape.dims()) bound.type.shape.push_back(dim.evaluate(symbols));
    bound.strides = dense_strides(bound.type.shape);
    bound.bytes = static_cast<std::size_t>(bound.type.shape.numel().value() * size_of(bound.type.dtype));
    has_only_fresh_outputs_ &= output.source == BufferKind::output && output.index == static_cast<std::int32_t>(outputs_.size());
    outputs_.push_back(bound);
  }
}

SINTER_DECL void Frame::bind_step(const PlanStep& step) {
  if (step.host) {
    has_host_steps_ = true;
    launches_.push_back(bind_host_op(*step.host, symbols_));
  } else {
    const BoundGeometry geometry = sinter::bind(step.geometry, symbols_);
    for (int a = 0; a < step.kernel.rank(); ++a)
      if (geometry.extent[static_cast<std::size_t>(a)] < 0)
        throw ShapeError(step.name, "an intermediate value has the negative extent " + std::to_string(geometry.extent[static_cast<std::size_t>(a)]) + " for the sizes of this call",
                         step.where.empty() ? Location() : step.where.front());
    for (int a = 0; a < step.kernel.rank(); ++a)   // nothing to compute
      if (!step.kernel.is_reduced(a) && geometry.extent[static_cast<std::size_t>(a)] == 0) return;
    launches_.push_back(step.executable->bind(geometry));
  }
  steps_.push_back({launches_.back().get(), static_cast<std::uint32_t>(pointers_.size()), step.is_plain_copy});
  for (const BufferRef& operand : step.operands) {
    const auto place = static_cast<std::uint32_t>(pointers_.size()), source = static_cast<std::uint32_t>(operand.index);
    void* pointer = nullptr;
    switch (operand.kind) {
      case BufferKind::input: input_patches_.push_back({place, source}); break;
      case BufferKind::output: output_patches_.push_back({place, source}); break;
      case BufferKind::constant: pointer = plan_->constants()[source]->data(); break;
      case BufferKind::arena: pointer = arena_ ? static_cast<char*>(arena_->data()) + slot_offsets_[source] : nullptr; break;
      case BufferKind::number: pointer = &numbers_[source]; break;
      case BufferKind::none: throw InternalError("plan: an operand without memory");
    }
    pointers_.push_back(pointer);
  }
}

SINTER_DECL void Frame::run(std::span<void* const> inputs, std::span<void* const> outputs) {
  for (const Patch& patch : input_patches_) pointers_[patch.place] = inputs[patch.source];
  for (const Patch& patch : output_patches_) pointers_[patch.place] = outputs[patch.source];
  const runtime_detail::FloatingEnvironment environment;
  for (const Step& step : steps_) {
    void* const* operands = pointers_.data() + step.first_operand;
    if (step.skips_same_memory && operands[0] == operands[1]) continue;
    step.launch->run(operands);
  }
}

SINTER_DECL IdleFrames::~IdleFrames() {
  for (Frame* frame : frames) delete frame;
}

SINTER_DECL FrameLease Plan::acquire_frame(std::span<const std::int64_t> symbols) const {
  if (IdleFrames* idle = idle_.get(); SINTER_LIKELY(idle != nullptr)) {
    for (Frame*& place : idle->frames)
      if (place != nullptr && SINTER_LIKELY(place->is_bound_to(symbols))) return {std::exchange(place, nullptr), FrameReturn{this}};
  }
  return {new Frame(*this, symbols), FrameReturn{this}};
}

SINTER_DECL void Plan::release(Frame* frame) const noexcept {
  IdleFrames* idle = thread_slot() >= 0 ? idle_.at(thread_slot()) : nullptr;
  if (SINTER_LIKELY(idle != nullptr)) {
    for (std::size_t i = 0; i < IdleFrames::capacity && frame != nullptr; ++i) {
      if (i >= 2 && frame->arena_bytes() > runtime_detail::small_arena) break;
      frame = std::exchange(idle->frames[i], frame);   // what was there moves one place on
    }
  }
  delete frame;
}

SINTER_DECL void FrameReturn::operator()(Frame* frame) const noexcept {
  if (frame != nullptr) plan->release(frame);
}

SINTER_NAMESPACE_END
