// Plans on this build's back ends, and the run of one guarded call.
#pragma once

#include <sinter/jit/execute.hpp>

#include <sinter/expr/host.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/custom_run.hpp>
#include <sinter/jit/function.hpp>
#include <sinter/runtime/stages.hpp>

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL InputLayout layout_of(const TensorImpl& value) {
  if (value.is_dense()) return {};
  InputLayout layout;
  for (int i = 0; i < value.type.shape.rank(); ++i) layout.emplace_back(value.strides[static_cast<std::size_t>(i)]);
  return layout;
}

SINTER_DECL PlanOptions plan_options(const Graph& optimised, std::string_view backend, std::vector<InputLayout> layouts, bool fuse, const Graph& traced, MatmulPrecision precision,
                                     std::vector<std::uint8_t> may_donate, bool own_outputs) {
  PlanOptions options;
  for (Value output : traced.outputs()) options.output_devices.push_back(traced.type(output).device);
  const Device device = first_device_of(optimised, options.output_devices);
  options.backends = backends_for(backend, device);
  if (device != Device::cpu()) options.host_backends = host_backends();
  options.precision = precision;
  options.allow_fallback = Context::get().allows_fallback;
  options.find_backends = [backend = std::string(backend)](Device wanted) { return backends_for(backend, wanted); };
  options.fuse = fuse;
  options.own_outputs = own_outputs;
  options.input_strides = std::move(layouts);
  options.may_donate = std::move(may_donate);
  return options;
}

SINTER_DECL std::shared_ptr<const Plan> make_plan(const Graph& optimised, std::string_view backend, std::vector<InputLayout> layouts, bool fuse, const Graph& traced, MatmulPrecision precision,
                                                  std::vector<std::uint8_t> may_donate, bool own_outputs) {
  return build_plan(optimised, plan_options(optimised, backend, std::move(layouts), fuse, traced, precision, std::move(may_donate), own_outputs));
}

namespace jit_detail {

/// Writes the addresses of what a call reads into its places. Values that had to be laid out anew end up in `owned`.
inline void place_inputs(const Entry& entry, const ArgList& args, CallPlaces& places, std::vector<Ref<TensorImpl>>& owned) {
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const Entry::Input& input = entry.inputs[i];
    auto index = static_cast<std::size_t>(input.index);
    TensorImpl* value = nullptr;
    if (input.source == Entry::Input::Source::captured) {
      value = entry.captured[index]->here()->peek(args.reading());
      if (SINTER_UNLIKELY(!value->is_ready() || !value->is_dense())) {
        owned.push_back(dense_value(In(Tensor(Ref<TensorImpl>::share(value)), Location()), "compiled call"));
        value = owned.back().get();
      }
      places.inputs[i] = value->data();
    } else if (const ArgLeaf& leaf = args.leaves()[index]; leaf.kind != LeafKind::scalar) {
      value = leaf.impl;
      places.inputs[i] = leaf.data;
    } else if (input.as_float) {
      places.numbers[i] = static_cast<float>(leaf.number);
      places.inputs[i] = &places.numbers[i];
    } else {
      places.inputs[i] = const_cast<std::int64_t*>(&leaf.integer);
    }
    places.values[i] = value;
  }
}

inline Type bound_type(const Type& type, std::span<const std::int64_t> symbols) {
  if (symbols.empty() || type.shape.is_static()) return type;
  Type bound{type.dtype, type.device, {}};
  for (Dim dim : type.shape.dims()) bound.shape.push_back(dim.evaluate(symbols));
  return bound;
}

SINTER_DECL bool overlaps(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

/// Bytes from the first to behind the last element.
SINTER_DECL std::size_t extent_bytes(const Type& type, const Strides& strides) {
  std::int64_t last = 0;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (type.shape[i].value() == 0) return 0;
    last += (type.shape[i].value() - 1) * strides[static_cast<std::size_t>(i)];
  }
  return static_cast<std::size_t>((last + 1) * size_of(type.dtype));
}

/// Places of results must not lie in what the call reads besides its arguments: captured Variables and constants.
inline void check_against_captured(const Entry& entry, const ArgList& args, const BorrowedMut& target, std::size_t bytes, std::size_t result, Location where) {
  const auto check = [&](const TensorImpl& value, const char* what) {
    if (value.is_ready() && overlaps(target.data, bytes, value.data(), extent_bytes(value.type, value.strides)))
      throw UserError("into", "the place of result " + std::to_string(result) + " overlaps a captured " + what, where, "give the result memory of its own");
  };
  for (const auto& slot : entry.captured) check(*slot->here()->peek(args.reading()), "Variable");
  for (const Ref<TensorImpl>& constant : entry.plan->constants()) check(*constant, "Tensor");
}

inline void check_targets(const Entry& entry, const ArgList& list, std::span<const std::int64_t> symbols, Targets targets, Location where) {
  std::span<const ArgLeaf> args = list.leaves();
  if (targets.size() != entry.results)
    throw UserError("into", std::to_string(targets.size()) + " places for " + std::to_string(entry.results) + " results", where);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Type type = bound_type(entry.plan->outputs()[i].type, symbols);
    const BorrowedMut& target = targets[i];
    if (target.type.device != type.device)
      throw DeviceError("into", "result " + std::to_string(i) + " is on " + type.device.text() + ", its place on " + target.type.device.text(), where);
    if (target.type.dtype != type.dtype)
      throw DTypeError("into", "result " + std::to_string(i) + " has dtype " + std::string(sinter::name(type.dtype)) + ", its place " + std::string(sinter::name(target.type.dtype)), where);
    if (!identical(target.type.shape, type.shape))
      throw ShapeError("into", "result " + std::to_string(i) + " has shape " + type.shape.text() + ", its place " + target.type.shape.text(), where);
    std::size_t bytes = extent_bytes(target.type, target.strides);
    for (const ArgLeaf& arg : args)
      if (arg.data != nullptr && overlaps(target.data, bytes, arg.data, extent_bytes(*arg.type, *arg.strides)))
        throw UserError("into", "the place of result " + std::to_string(i) + " overlaps an argument", where, "give the result memory of its own");
    check_against_captured(entry, list, target, bytes, i, where);
    for (std::size_t j = 0; j < i; ++j)
      if (overlaps(target.data, bytes, targets[j].data, extent_bytes(targets[j].type, targets[j].strides)))
        throw UserError("into", "the places of results " + std::to_string(j) + " and " + std::to_string(i) + " overlap", where);
  }
}

/// The value of an output that is a view of an input or constant; data of others are copied.
SINTER_DECL Ref<TensorImpl> view_of(const PlanOutput& output, const Type& type, std::span<const std::int64_t> symbols, TensorImpl* source, void* data) {
  Strides strides{};
  for (std::size_t i = 0; i < output.strides.size(); ++i) strides[i] = output.strides[i].evaluate(symbols);
  std::int64_t offset = output.offset.evaluate(symbols);
  if (source != nullptr) return TensorImpl::make_ready(type, source->storage, source->offset + offset, &strides);
  return expr_detail::copy_strided(type, static_cast<const char*>(data) + offset * size_of(type.dtype), strides).impl();
}

}  // namespace jit_detail

namespace jit_detail {
SINTER_DECL BorrowedMut as_target(Tensor& x, Location where) {
  eval(In(x, where));
  const Ref<TensorImpl>& value = x.impl();
  if (value->use_count() != 1 || value->storage->use_count() != 1 || !value->storage->is_ours() || !value->is_dense())
    throw UserError("into", "the tensor shares its memory with another handle or a pending statement, or is a view", where, "give a tensor that nobody else holds");
  return {value->type, value->strides, value->data()};
}
}  // namespace jit_detail

namespace jit_detail {

SINTER_DECL void count_run(const Entry& entry, EntryThread* thread) {
  if (SINTER_LIKELY(thread != nullptr)) thread->runs.store(thread->runs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  else entry.other_runs.fetch_add(1, std::memory_order_relaxed);
}

/// Nobody but the holder of `value` can see its memory.
inline bool is_sole(const TensorImpl& value, std::uint32_t counts) {
  return value.use_count() == counts && value.storage->use_count() == 1 && value.storage->is_ours();
}

SINTER_DECL Ref<TensorImpl> fresh_result(const FrameOutput& bound) {
  return TensorImpl::make_ready(bound.type, Storage::allocate(bound.bytes, bound.type.device), 0, &bound.strides);
}
/// Memory for a result: one of those kept that nobody else holds any more, or fresh memory, which is kept if there is room.
inline Ref<TensorImpl> kept_result(ResultRing& ring, const FrameOutput& bound) {
  std::size_t spare = ResultRing::capacity;
  for (std::size_t i = 0; i < ResultRing::capacity; ++i) {
    const Ref<TensorImpl>& kept = ring.values[i];
    if (!kept) {
      spare = i;
    } else if (is_sole(*kept, 1)) {
      if (SINTER_LIKELY(identical(kept->type, bound.type))) return kept;
      spare = i;   // of another size
    }
  }
  Ref<TensorImpl> made = fresh_result(bound);
  if (spare < ResultRing::capacity) ring.values[spare] = made;
  return made;
}
inline Ref<TensorImpl> result_memory(EntryThread* thread, Mode mode, std::size_t i, const FrameOutput& bound) {
  if (mode != Mode::reduce_overhead || thread == nullptr) return fresh_result(bound);
  if (SINTER_UNLIKELY(thread->rings.size() <= i)) thread->rings.resize(i + 1);
  return kept_result(thread->rings[i], bound);
}

/// The outputs of a call that does more than fill fresh memory: Variables, places of the caller, donated memory, views.
/// choose() does everything that can fail; after the run nothing does but copies to the caller's places.
class CallOutputs {
 public:
  CallOutputs(const Entry& entry, const ArgList& args, Frame& frame, EntryThread* thread, Mode mode, Ref<TensorImpl>* results, Targets targets)
      : entry_(entry), args_(args), frame_(frame), thread_(thread), mode_(mode), results_(results), targets_(targets), outputs_(entry.plan->outputs()) {
    if (thread_ != nullptr && thread_->scratch) scratch_ = std::move(thread_->scratch);   // a nested call finds none
    else scratch_ = std::make_unique<CallScratch>(outputs_.size(), entry_.inputs.size());
    scratch_->assigned.resize(outputs_.size() - entry_.results);
    scratch_->claim_of.assign(entry_.inputs.size(), -1);
  }
  ~CallOutputs() {
    scratch_->clear();
    if (thread_ != nullptr) thread_->scratch = std::move(scratch_);
  }
  CallOutputs(const CallOutputs&) = delete;
  CallOutputs& operator=(const CallOutputs&) = delete;

  void choose(std::span<const std::int64_t> symbols) {
    if (targets_.empty() && !frame_.has_host_steps()) claim_variables();
    CallPlaces& places = frame_.places();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      places.outputs[i] = nullptr;
      if (!is_own_buffer(i)) continue;
      if (i < targets_.size() && outputs_[i].outlives_failure && is_dense(targets_[i].type.shape, targets_[i].strides)) {
        places.outputs[i] = targets_[i].data;
        continue;
      }
      if (!take_over(i)) value_at(i) = i < entry_.results ? result_memory(thread_, mode_, i, frame_.outputs()[i]) : fresh_result(frame_.outputs()[i]);
      places.outputs[i] = value_at(i)->data();
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (!is_own_buffer(i)) make_view(i, symbols);
  }

  void copy_to_places() {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const auto index = static_cast<std::size_t>(outputs_[i].index);
      if (outputs_[i].source == BufferKind::output && index != i && !value_at(i))
        value_at(i) = expr_detail::copy_strided(targets_[index].type, targets_[index].data, targets_[index].strides).impl();
      if (value_at(i)) copy_to(targets_[i], In(Tensor(value_at(i)), Location()));
    }
  }

  /// Arguments given up become empty, Variables get their values.
  void commit() noexcept {
    for (Tensor* handle : scratch_->given) *handle = Tensor();
    args_.reading().end();
    for (std::size_t i = 0; i < entry_.assignments.size(); ++i) {
      Ref<TensorImpl>& value = scratch_->assigned[i];
      if (const int claim = held_claim(entry_.assignments[i].input); claim >= 0) {
        scratch_->claims.publish(static_cast<std::size_t>(claim), std::move(value));
        continue;
      }
      scratch_->slots.push_back(slot_of(i));
      scratch_->values.push_back(value.detach());
    }
    scratch_->claims.clear();
    set_slots(scratch_->slots, scratch_->values);
  }

 private:
  Ref<TensorImpl>& value_at(std::size_t i) { return i < entry_.results ? results_[i] : scratch_->assigned[i - entry_.results]; }
  bool is_own_buffer(std::size_t i) const { return outputs_[i].source == BufferKind::output && outputs_[i].index == static_cast<std::int32_t>(i); }
  VariableSlot* slot_of(std::size_t assignment) const {
    const Entry::Assignment& a = entry_.assignments[assignment];
    return a.leaf >= 0 ? args_.leaves()[static_cast<std::size_t>(a.leaf)].slot : entry_.captured[static_cast<std::size_t>(a.captured)]->here();
  }
  /// The Variable behind an input, or null.
  VariableSlot* slot_of_input(std::size_t i) const {
    const Entry::Input& input = entry_.inputs[i];
    auto index = static_cast<std::size_t>(input.index);
    return input.source == Entry::Input::Source::captured ? entry_.captured[index]->here() : args_.leaves()[index].slot;
  }
  /// The claim on the Variable behind an input, or -1.
  int held_claim(std::int32_t input) const {
    const int claim = input >= 0 ? scratch_->claim_of[static_cast<std::size_t>(input)] : -1;
    return claim >= 0 && scratch_->claims.holds(static_cast<std::size_t>(claim)) ? claim : -1;
  }
  /// Lent memory may lie inside a value of ours.
  bool is_lent(const TensorImpl& value) const {
    for (const ArgLeaf& leaf : args_.leaves())
      if (leaf.impl == nullptr && leaf.data != nullptr && overlaps(value.storage->data(), value.storage->bytes(), leaf.data, extent_bytes(*leaf.type, *leaf.strides))) return true;
    return false;
  }

  void claim_variables() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (!is_own_buffer(i) || outputs_[i].donor < 0) continue;
      const auto donor = static_cast<std::size_t>(outputs_[i].donor);
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
    const auto donor = static_cast<std::size_t>(outputs_[i].donor);
    TensorImpl* value = frame_.places().values[donor];
    if (value == nullptr || value->type.dtype != outputs_[i].type.dtype) return false;
    if (scratch_->claim_of[donor] >= 0) {
      const int claim = held_claim(outputs_[i].donor);
      if (claim < 0 || value != scratch_->claims.value(static_cast<std::size_t>(claim)) || is_lent(*value)) return false;
    } else {
      Tensor* handle = args_.given_up(value);
      if (handle == nullptr || !is_sole(*value, 1) || !value->is_dense() || is_lent(*value)) return false;
      scratch_->given.push_back(handle);
    }
    const FrameOutput& bound = frame_.outputs()[i];
    value_at(i) = TensorImpl::make_ready(bound.type, value->storage, value->offset, &bound.strides);
    return true;
  }

  void make_view(std::size_t i, std::span<const std::int64_t> symbols) {
    const PlanOutput& output = outputs_[i];
    auto index = static_cast<std::size_t>(output.index);
    const CallPlaces& places = frame_.places();
    if (output.source == BufferKind::output) {
      value_at(i) = value_at(index);
    } else if (output.source == BufferKind::input) {
      value_at(i) = view_of(output, frame_.outputs()[i].type, symbols, places.values[index], places.inputs[index]);
    } else {
      const Ref<TensorImpl>& constant = entry_.plan->constants()[index];
      value_at(i) = view_of(output, frame_.outputs()[i].type, symbols, constant.get(), constant->data());
    }
  }

  const Entry& entry_;
  const ArgList& args_;
  Frame& frame_;
  EntryThread* thread_;
  Mode mode_;
  Ref<TensorImpl>* results_;
  Targets targets_;
  std::span<const PlanOutput> outputs_;
  std::unique_ptr<CallScratch> scratch_;
};

}  // namespace jit_detail

SINTER_DECL void FunctionState::run(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols, Ref<TensorImpl>* results, Targets targets) {
  EntryThread* thread = entry.threads.get();
  jit_detail::count_run(entry, thread);
  if (SINTER_UNLIKELY(entry.plan == nullptr)) return jit_detail::run_custom(entry, args.leaves(), symbols, results, targets, where_);
  if (!targets.empty()) jit_detail::check_targets(entry, args, symbols, targets, where_);
  const FrameLease frame = entry.plan->acquire_frame(symbols);
  CallPlaces& places = frame->places();
  std::vector<Ref<TensorImpl>> owned;
  jit_detail::place_inputs(entry, args, places, owned);
  if (SINTER_LIKELY(targets.empty() && entry.assignments.empty() && !args.gives_up() && frame->has_only_fresh_outputs())) {
    std::span<const FrameOutput> outputs = frame->outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      results[i] = jit_detail::result_memory(thread, options_.mode, i, outputs[i]);
      places.outputs[i] = results[i]->data();
    }
    return frame->run(places.inputs, places.outputs);
  }
  jit_detail::CallOutputs outputs(entry, args, *frame, thread, options_.mode, results, targets);
  outputs.choose(symbols);
  frame->run(places.inputs, places.outputs);
  outputs.copy_to_places();
  outputs.commit();
}

SINTER_DECL void FunctionState::warm_up(const Entry& entry, const ArgList& args, const TraceFunction& trace, std::span<const std::int64_t> symbols) {
  if (EntryThread* own = entry.threads.get(); own != nullptr && !symbols.empty()) jit_detail::remember_sizes(entry, *own, args.leaves(), SmallVector<std::int64_t, 8>(symbols));
  if (entry.tree != nullptr) return warm_up_tree(entry, args, trace, symbols);
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t due = entry.next_check.load(std::memory_order_relaxed);
  if (due != never && entry.next_check.compare_exchange_strong(due, never)) check_purity(entry, args, trace, due);
  args.reading().begin();
  EntryThread* thread = entry.threads.get();
  if (entry.plan == nullptr) return;
  const FrameLease frame = entry.plan->acquire_frame(symbols);
  // Two of each result, as where the last one still lives while the next is made. Written to, so that pages are there.
  std::vector<Ref<TensorImpl>> memory;
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < frame->outputs().size(); ++i) {
      const FrameOutput& bound = frame->outputs()[i];
      memory.push_back(i < entry.results ? jit_detail::result_memory(thread, options_.mode, i, bound) : jit_detail::fresh_result(bound));
      if (bound.type.device == Device::cpu()) std::memset(memory.back()->data(), 0, bound.bytes);
    }
  if (thread != nullptr && !thread->scratch) thread->scratch = std::make_unique<CallScratch>(entry.plan->outputs().size(), entry.inputs.size());
}

}  // namespace jit
SINTER_NAMESPACE_END
