// See the header. CallOutputs is the heart: it decides for each output of the last plan where it is written.
#pragma once

#include <sinter/jit/call/delivery.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

inline bool overlaps(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

/// Bytes from the start of the first element to the end of the last.
inline std::size_t extent_bytes(const Type& type, const Strides& strides) {
  std::int64_t last = 0;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (type.shape[i].value() == 0) return 0;
    last += (type.shape[i].value() - 1) * strides[as_index(i)];
  }
  return as_index((last + 1) * size_of(type.dtype));
}

namespace delivery {
SINTER_NOINLINE inline void refuse_type(const Type& result, const Type& place, std::size_t i, Location where) {
  const std::string name = "result " + std::to_string(i);
  if (place.device != result.device)
    throw DeviceError("into", name + " is on " + result.device.text() + ", its place on " + place.device.text(), where);
  if (place.dtype != result.dtype)
    throw DTypeError("into",
                     name + " has dtype " + std::string(sinter::name(result.dtype)) + ", its place " +
                         std::string(sinter::name(place.dtype)),
                     where);
  throw ShapeError("into", name + " has shape " + result.shape.text() + ", its place " + place.shape.text(), where);
}

inline void refuse_overlap(std::size_t i, const std::string& what, Location where) {
  throw UserError("into", "the place of result " + std::to_string(i) + " overlaps " + what, where,
                  "give the result memory of its own");
}
inline bool lies_over(const BorrowedMut& place, std::size_t bytes, const TensorImpl& value) {
  return value.is_ready() && overlaps(place.data, bytes, value.data(), extent_bytes(value.type, value.strides));
}
}  // namespace delivery

/// Throws unless there is a place for each of `count` results, of its type, that overlaps no other place, no argument,
/// and nothing that the function holds.
template <class TypeOf>
void check_targets(Targets targets, std::size_t count, TypeOf&& type_of, const ArgList& args, const HeldValues& held,
                   Location where) {
  if (targets.size() != count)
    throw UserError("into", std::to_string(targets.size()) + " places for " + std::to_string(count) + " results",
                    where);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const BorrowedMut& place = targets[i];
    if (const Type& type = type_of(i); SINTER_UNLIKELY(!identical(place.type, type)))
      delivery::refuse_type(type, place.type, i, where);
    const std::size_t bytes = extent_bytes(place.type, place.strides);
    const auto end = reinterpret_cast<std::uintptr_t>(place.data) + bytes;
    for (const ArgLeaf& arg : args.leaves())  // most need no look at how long they are
      if (arg.data != nullptr && reinterpret_cast<std::uintptr_t>(arg.data) < end &&
          overlaps(place.data, bytes, arg.data, extent_bytes(*arg.type, *arg.strides)))
        delivery::refuse_overlap(i, "an argument", where);
    for (const auto& slot : held.captured)
      if (delivery::lies_over(place, bytes, *slot->here()->peek(args.reading())))
        delivery::refuse_overlap(i, "a captured Variable", where);
    for (const Ref<TensorImpl>& constant : held.constants)
      if (delivery::lies_over(place, bytes, *constant)) delivery::refuse_overlap(i, "a captured Tensor", where);
    for (std::size_t j = 0; j < i; ++j)
      if (overlaps(place.data, bytes, targets[j].data, extent_bytes(targets[j].type, targets[j].strides)))
        throw UserError("into", "the places of results " + std::to_string(j) + " and " + std::to_string(i) + " overlap",
                        where);
  }
}

SINTER_DECL void add_constants(const Graph& graph, std::vector<Ref<TensorImpl>>& constants) {
  for (const Node& node : graph.nodes()) {
    const Ref<TensorImpl>& constant = node.attrs.constant;
    if (constant && std::find(constants.begin(), constants.end(), constant) == constants.end())
      constants.push_back(constant);
    for (const auto& body : node.attrs.bodies) add_constants(*body, constants);
  }
}

/// The value of an output that is a view of an input or constant; data of others are copied.
inline Ref<TensorImpl> view_of(const PlanOutput& output, const Type& type, std::span<const std::int64_t> symbols,
                               TensorImpl* source, void* data) {
  Strides strides{};
  for (std::size_t i = 0; i < output.strides.size(); ++i) strides[i] = output.strides[i].evaluate(symbols);
  std::int64_t offset = output.offset.evaluate(symbols);
  if (source != nullptr) return TensorImpl::make_ready(type, source->storage, source->offset + offset, &strides);
  return expr_detail::copy_strided(type, static_cast<const char*>(data) + offset * size_of(type.dtype), strides).impl();
}

/// Nobody but the holder of `value` can see its memory.
inline bool is_sole(const TensorImpl& value, std::uint32_t counts) {
  return value.use_count() == counts && value.storage->use_count() == 1 && value.storage->is_ours();
}

inline Ref<TensorImpl> fresh_value(const FrameOutput& bound) {
  return TensorImpl::make_ready(bound.type, Storage::allocate(bound.bytes, bound.type.device, bound.maker), 0,
                                &bound.strides);
}
/// Memory for a result: one of those kept that nobody else holds any more, or fresh memory, which is kept if there is
/// room.
inline Ref<TensorImpl> kept_result(ResultRing& ring, const FrameOutput& bound) {
  std::size_t spare = ResultRing::capacity;
  for (std::size_t i = 0; i < ResultRing::capacity; ++i) {
    const Ref<TensorImpl>& kept = ring.values[i];
    if (!kept) {
      spare = i;
    } else if (is_sole(*kept, 1)) {
      if (SINTER_LIKELY(identical(kept->type, bound.type))) return kept;
      spare = i;  // of another size
    }
  }
  Ref<TensorImpl> made = fresh_value(bound);
  if (spare < ResultRing::capacity) ring.values[spare] = made;
  return made;
}
SINTER_DECL Ref<TensorImpl> fresh_result(const FrameOutput& bound) { return fresh_value(bound); }
SINTER_NOINLINE inline Ref<TensorImpl> ring_memory(EntryThread& thread, std::size_t i, const FrameOutput& bound) {
  if (SINTER_UNLIKELY(thread.rings.size() <= i)) thread.rings.resize(i + 1);
  return kept_result(thread.rings[i], bound);
}
/// Memory for result `i`: in Mode::reduce_overhead that of an earlier call, if nobody holds it any more.
inline Ref<TensorImpl> memory_for(EntryThread* thread, Mode mode, std::size_t i, const FrameOutput& bound) {
  return mode != Mode::reduce_overhead || thread == nullptr ? fresh_value(bound) : ring_memory(*thread, i, bound);
}
SINTER_DECL Ref<TensorImpl> result_memory(EntryThread* thread, Mode mode, std::size_t i, const FrameOutput& bound) {
  return memory_for(thread, mode, i, bound);
}

/// The outputs of the last plan of a call: fresh memory, kept or donated memory, places of the caller, views.
/// choose() does everything that can fail; after the run nothing does but copies to the caller's places.
class CallOutputs {
 public:
  CallOutputs(const EndingCall& call, Ref<TensorImpl>* results, Targets targets)
      : call_(call), results_(results), targets_(targets), outputs_(call.end.plan->outputs()) {
    if (call_.thread != nullptr && call_.thread->scratch)
      scratch_ = std::move(call_.thread->scratch);  // a nested call finds none
    else scratch_ = std::make_unique<CallScratch>(outputs_.size(), call_.end.inputs.size());
    scratch_->assigned.resize(outputs_.size() - call_.end.results);
    scratch_->claim_of.assign(call_.end.inputs.size(), -1);
  }
  ~CallOutputs() {
    scratch_->clear();
    if (call_.thread != nullptr) call_.thread->scratch = std::move(scratch_);
  }
  CallOutputs(const CallOutputs&) = delete;
  CallOutputs& operator=(const CallOutputs&) = delete;

  void choose() {
    check_places();
    if (targets_.empty() && !call_.frame.calls_out()) claim_variables();
    CallPlaces& places = call_.frame.places();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      places.outputs[i] = nullptr;
      if (!is_own_buffer(i)) continue;
      if (i < targets_.size() && outputs_[i].outlives_failure &&
          is_dense(targets_[i].type.shape, targets_[i].strides) && !is_assigned(i)) {
        places.outputs[i] = targets_[i].data;
        continue;
      }
      if (!take_over(i)) value_at(i) = memory_for(i);
      places.outputs[i] = value_at(i)->data();
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (!is_own_buffer(i)) make_view(i);
  }

  void copy_to_places() {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const auto index = as_index(outputs_[i].index);
      if (outputs_[i].source == BufferKind::output && index != i && !value_at(i))
        value_at(i) =
            expr_detail::copy_strided(targets_[index].type, targets_[index].data, targets_[index].strides).impl();
      if (value_at(i)) copy_to(targets_[i], In(Tensor(value_at(i)), Location()));
    }
  }

  /// Donated arguments become empty, Variables get their values.
  void commit() noexcept {
    for (Tensor* handle : scratch_->donated) *handle = Tensor();
    call_.args.reading().end();
    for (std::size_t i = 0; i < call_.end.assignments.size(); ++i) {
      Ref<TensorImpl>& value = scratch_->assigned[i];
      if (const int claim = held_claim(call_.end.assignments[i].input); claim >= 0) {
        scratch_->claims.publish(as_index(claim), std::move(value));
        continue;
      }
      scratch_->slots.push_back(slot_of(i));
      scratch_->values.push_back(value.detach());
    }
    scratch_->claims.clear();
    set_slots(scratch_->slots, scratch_->values);
  }

 private:
  void check_places() const {
    if (targets_.empty()) return;
    const auto type_of = [this](std::size_t i) -> const Type& { return call_.frame.outputs()[i].type; };
    check_targets(targets_, call_.end.results - call_.end.saved, type_of, call_.args, call_.held, call_.where);
  }
  /// A result that is copied to its place afterwards leaves its memory to the next call.
  Ref<TensorImpl> memory_for(std::size_t i) {
    const FrameOutput& bound = call_.frame.outputs()[i];
    if (i >= call_.end.results) return fresh_value(bound);
    return jit_detail::memory_for(call_.thread, targets_.empty() ? call_.mode : Mode::reduce_overhead, i, bound);
  }
  Ref<TensorImpl>& value_at(std::size_t i) {
    return i < call_.end.results ? results_[i] : scratch_->assigned[i - call_.end.results];
  }
  bool is_own_buffer(std::size_t i) const {
    return outputs_[i].source == BufferKind::output && outputs_[i].index == static_cast<std::int32_t>(i);
  }
  /// Does a Variable get the value of result `i`, too? It keeps no memory of the caller.
  bool is_assigned(std::size_t i) const {
    for (std::size_t j = call_.end.results; j < outputs_.size(); ++j)
      if (outputs_[j].source == BufferKind::output && outputs_[j].index == static_cast<std::int32_t>(i)) return true;
    return false;
  }
  VariableSlot* slot_of(std::size_t assignment) const {
    const Assignment& a = call_.end.assignments[assignment];
    return a.leaf >= 0 ? call_.args.leaves()[as_index(a.leaf)].slot : a.slot->here();
  }
  /// The Variable that an input reads, or null.
  VariableSlot* slot_of_input(std::size_t i) const {
    const PlanInput& input = call_.end.inputs[i];
    switch (input.source) {
      case PlanInput::Source::leaf: return call_.args.leaves()[as_index(input.index)].slot;
      case PlanInput::Source::captured: return input.slot->here();
      case PlanInput::Source::carried:
      case PlanInput::Source::eager: return nullptr;
    }
    __builtin_unreachable();
  }
  /// The claim on the Variable that an input reads, or -1.
  int held_claim(std::int32_t input) const {
    const int claim = input >= 0 ? scratch_->claim_of[as_index(input)] : -1;
    return claim >= 0 && scratch_->claims.holds(as_index(claim)) ? claim : -1;
  }
  /// Lent memory may lie inside a value of ours.
  bool is_lent(const TensorImpl& value) const {
    for (const ArgLeaf& leaf : call_.args.leaves())
      if (leaf.impl == nullptr && leaf.data != nullptr &&
          overlaps(value.storage->data(), value.storage->bytes(), leaf.data, extent_bytes(*leaf.type, *leaf.strides)))
        return true;
    return false;
  }

  void claim_variables() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (!is_own_buffer(i) || outputs_[i].donor < 0) continue;
      const auto donor = as_index(outputs_[i].donor);
      VariableSlot* slot = slot_of_input(donor);
      if (slot == nullptr) continue;
      scratch_->claim_of[donor] = static_cast<int>(scratch_->claims.size());
      scratch_->claims.add(*slot);
    }
    scratch_->claims.confirm();
  }

  /// Gives output i the memory of its donor, if nobody else can see that.
  bool take_over(std::size_t i) {
    if (outputs_[i].donor < 0 || !targets_.empty()) return false;
    const auto donor = as_index(outputs_[i].donor);
    TensorImpl* value = call_.frame.places().values[donor];
    if (value == nullptr || value->type.dtype != outputs_[i].type.dtype) return false;
    if (scratch_->claim_of[donor] >= 0) {
      const int claim = held_claim(outputs_[i].donor);
      if (claim < 0 || value != scratch_->claims.value(as_index(claim)) || is_lent(*value)) return false;
    } else if (call_.end.inputs[donor].source == PlanInput::Source::carried) {
      const Ref<TensorImpl>& made = call_.carried[as_index(call_.end.inputs[donor].index)];
      if (made.get() != value || !is_sole(*value, 1) || !value->is_dense()) return false;
    } else {
      Tensor* handle = call_.args.donated(value);
      if (handle == nullptr || !is_sole(*value, 1) || !value->is_dense() || is_lent(*value)) return false;
      scratch_->donated.push_back(handle);
    }
    const FrameOutput& bound = call_.frame.outputs()[i];
    value_at(i) = TensorImpl::make_ready(bound.type, value->storage, value->offset, &bound.strides);
    return true;
  }

  void make_view(std::size_t i) {
    const PlanOutput& output = outputs_[i];
    auto index = as_index(output.index);
    const CallPlaces& places = call_.frame.places();
    const Type& type = call_.frame.outputs()[i].type;
    if (output.source == BufferKind::output) {
      value_at(i) = value_at(index);
    } else if (output.source == BufferKind::input) {
      value_at(i) = view_of(output, type, call_.symbols, places.values[index], places.inputs[index]);
    } else {
      const Ref<TensorImpl>& constant = call_.end.plan->constants()[index];
      value_at(i) = view_of(output, type, call_.symbols, constant.get(), constant->data());
    }
  }

  const EndingCall& call_;
  Ref<TensorImpl>* results_;
  Targets targets_;
  std::span<const PlanOutput> outputs_;
  std::unique_ptr<CallScratch> scratch_;
};

/// A call with Variables, places of the caller, donated memory, or results that are views.
SINTER_NOINLINE inline void end_with_care(const EndingCall& call, Ref<TensorImpl>* results, Targets targets) {
  CallOutputs outputs(call, results, targets);
  outputs.choose();
  const CallPlaces& places = call.frame.places();
  call.frame.run(places.inputs, places.outputs);
  outputs.copy_to_places();
  outputs.commit();
}

/// Whether each result is made in its place, and nothing else is delivered.
inline bool goes_straight(const EndingCall& call, Targets targets) {
  if (targets.empty() || targets.size() != call.end.results || !call.end.assignments.empty() || call.end.saved != 0 ||
      !call.frame.has_only_fresh_outputs())
    return false;
  const std::span<const PlanOutput> outputs = call.end.plan->outputs();
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (!outputs[i].outlives_failure || !is_dense(targets[i].type.shape, targets[i].strides)) return false;
  return true;
}
SINTER_NOINLINE inline void run_straight(const EndingCall& call, Targets targets) {
  const std::span<const FrameOutput> outputs = call.frame.outputs();
  const auto type_of = [&](std::size_t i) -> const Type& { return outputs[i].type; };
  check_targets(targets, call.end.results, type_of, call.args, call.held, call.where);
  CallPlaces& places = call.frame.places();
  for (std::size_t i = 0; i < targets.size(); ++i) places.outputs[i] = targets[i].data;
  call.frame.run(places.inputs, places.outputs);
}

/// Runs the plan into memory that is fresh or kept. The frame's places hold the inputs.
SINTER_ALWAYS_INLINE void run_fresh(EntryThread* thread, Mode mode, Frame& frame, Ref<TensorImpl>* results) {
  CallPlaces& places = frame.places();
  void** place = places.outputs.data();
  std::size_t i = 0;
  for (const FrameOutput& output : frame.outputs()) {
    *results = memory_for(thread, mode, i++, output);
    *place++ = (*results++)->data();
  }
  frame.run(places.inputs, places.outputs);
}

/// Runs the plan into memory that is fresh, kept, donated, or the caller's, and gives Variables their values.
inline void run_end(const EndingCall& call, Ref<TensorImpl>* results, Targets targets) {
  if (goes_straight(call, targets)) return run_straight(call, targets);
  if (SINTER_UNLIKELY(!targets.empty() || !call.end.assignments.empty() || call.args.has_donations() ||
                      !call.frame.has_only_fresh_outputs()))
    return end_with_care(call, results, targets);
  run_fresh(call.thread, call.mode, call.frame, results);
}

SINTER_DECL void deliver(FinishedCall& call, const ResultPlace& place, Targets targets, const ArgList& args,
                         const HeldValues& held, Location where) {
  if (!targets.empty()) {
    const auto type_of = [&](std::size_t i) -> const Type& { return call.results[i]->type; };
    check_targets(targets, call.results.size(), type_of, args, held, where);
  }
  std::vector<VariableSlot*> slots;
  std::vector<TensorImpl*> values;
  slots.reserve(call.assigned.size());
  values.reserve(call.assigned.size());
  Ref<TensorImpl>* out = place.make(call.results.size());
  for (std::size_t i = 0; i < targets.size(); ++i) copy_to(targets[i], In(Tensor(call.results[i]), where));
  std::move(call.results.begin(), call.results.end(), out);
  args.reading().end();
  for (auto& [slot, value] : call.assigned) {
    slots.push_back(slot.get());
    values.push_back(value.detach());
  }
  set_slots(slots, values);
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
