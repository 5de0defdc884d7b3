// See the header. All that a call does in call.ipp and execute.ipp and that could matter here is either asked once, of
// the entry, or asked again of each call; the tests run both ways (quick_call_test.cpp).
#pragma once

#include <sinter/jit/call/quick_call.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/serial_section.hpp>
#include <sinter/jit/call/call_section.hpp>
#include <sinter/jit/call/delivery.ipp>  // run_fresh
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/guards.ipp>  // is_type_as_traced

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL bool is_quick(const Entry& entry) {
  const CallEnd& end = entry.end;
  if (entry.is_tree || entry.gives_tape() || entry.drops_tape || entry.tape.is_checked() || end.plan == nullptr ||
      !entry.guards.symbols.empty() || !entry.held.captured.empty() || !end.assignments.empty() || end.saved != 0 ||
      entry.context_used.load() != 0)
    return false;
  const Plan& plan = *end.plan;
  if (plan.backend() != nullptr || plan.parts() != nullptr) return false;
  for (const PlanStep& step : plan.steps())  // what runs on the host may call
    if (step.host || step.runs_on_host) return false;
  for (std::size_t i = 0; i < plan.outputs().size(); ++i)
    if (plan.outputs()[i].source != BufferKind::output || as_index(plan.outputs()[i].index) != i) return false;
  const auto is_tensor = [](const LeafSpec& spec) { return spec.kind == LeafKind::tensor && spec.is_sized; };
  const auto is_leaf = [](const PlanInput& input) { return input.source == PlanInput::Source::leaf; };
  return std::all_of(entry.guards.leaves.begin(), entry.guards.leaves.end(), is_tensor) &&
         std::all_of(end.inputs.begin(), end.inputs.end(), is_leaf);
}

inline const TensorImpl& argument(const CallRequest& call, std::size_t i) {
  return *static_cast<const Tensor*>(call.objects[i])->impl();
}
/// Computed, not on the tape, and of the type and layout of the trace.
inline bool is_as_traced(const LeafSpec& spec, const TensorImpl& value) {
  return value.is_ready() && value.tape.load(std::memory_order_relaxed) == TapeState::none &&
         is_type_as_traced(spec, value.type) && is_as_traced(spec, value.type, value.strides);
}
inline bool serves_quickly(const Entry& entry, const CallRequest& call) {
  const std::uint8_t precision = tensor_detail::matmul_precision_bit.load(std::memory_order_relaxed);
  if (!entry.is_quick || entry.types != call.types.tag || (entry.precisions & precision) == 0) return false;
  const LeafSpec* spec = entry.guards.leaves.data();
  for (std::uint32_t i = 0, count = call.types.count; i < count; ++i, ++spec)
    if (SINTER_UNLIKELY(!is_as_traced(*spec, argument(call, i)))) return false;
  return true;
}

/// A frame of a plan without symbols, which any idle one is; given back at the end.
class QuickFrame {
 public:
  QuickFrame(const Plan& plan, EntryThread& thread) {
    if (SINTER_UNLIKELY(thread.idle == nullptr)) thread.idle = plan.idle_frames();
    idle_ = thread.idle;
    frame_ = idle_ == nullptr ? nullptr : std::exchange(idle_->frames[0], nullptr);
    if (SINTER_UNLIKELY(frame_ == nullptr)) frame_ = plan.acquire_frame({}).release();
  }
  ~QuickFrame() {
    if (SINTER_LIKELY(idle_ != nullptr && idle_->frames[0] == nullptr)) idle_->frames[0] = frame_;
    else FrameReturn{idle_}(frame_);
  }
  QuickFrame(const QuickFrame&) = delete;
  QuickFrame& operator=(const QuickFrame&) = delete;
  Frame& operator*() const { return *frame_; }

 private:
  IdleFrames* idle_;
  Frame* frame_;
};

inline void run_quickly(const CallEnd& end, Frame& frame, const CallRequest& call, EntryThread& thread,
                        Ref<TensorImpl>* results) {
  void** place = frame.places().inputs.data();
  for (const PlanInput& input : end.inputs) *place++ = argument(call, as_index(input.index)).data();
  run_fresh(&thread, call.function.mode(), frame, results);
}

/// Runs the newest entry if the call may go the short way and the entry serves it. False: nothing has happened.
SINTER_ALWAYS_INLINE bool call_quickly(const CallRequest& call, Ref<TensorImpl>* results) {
  if (!call.types.is_plain) return false;
  const CallSection section;
  const Entry* entry = call.function.newest();
  if (SINTER_UNLIKELY(entry == nullptr) || !serves_quickly(*entry, call)) return false;
  EntryThread* thread = entry->threads.get();
  if (SINTER_UNLIKELY(thread == nullptr || thread->is_check_due())) return false;
  const SerialSection alone(call.function.is_frozen());
  const QuickFrame frame(*entry->end.plan, *thread);
  thread->count();
  run_quickly(entry->end, *frame, call, *thread, results);
  return true;
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
