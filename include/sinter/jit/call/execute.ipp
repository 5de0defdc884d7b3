// Plans on this build's back ends, and the run of one guarded call.
#pragma once

#include <sinter/jit/call/execute.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/background.hpp>
#include <sinter/jit/call/delivery.ipp>  // run_end
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/lookup.hpp>
#include <sinter/jit/effects/custom_run.hpp>
#include <sinter/runtime/graph_devices.hpp>

#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL InputLayout layout_of(const TensorImpl& value) {
  if (value.is_dense()) return {};
  InputLayout layout;
  for (int i = 0; i < value.type.shape.rank(); ++i) layout.emplace_back(value.strides[as_index(i)]);
  return layout;
}

SINTER_DECL FusionChoices fusion_choices(const Options& options) {
  FusionChoices choices(options.fuse && !jit_detail::is_unfused_backend(options.backend.name()));
  if (choices.fuse) {
    // Groups hold memory together: under a budget only who asks for them has them.
    choices.horizontal = options.horizontal_fusion.value_or(options.memory_budget == 0);
    choices.epilogues = options.epilogue_fusion.value_or(true);
  }
  return choices;
}

SINTER_DECL PlanOptions plan_options(const Graph& optimised, std::string_view backend, std::vector<InputLayout> layouts,
                                     FusionChoices fuse, const Graph& traced, MatmulPrecision precision,
                                     std::vector<std::uint8_t> may_donate, bool own_outputs) {
  PlanOptions options;
  for (Value output : traced.outputs()) options.output_devices.push_back(traced.type(output).device);
  const Device device = first_device_of(optimised, options.output_devices);
  options.backends = backends_for(backend, device);
  if (device != Device::cpu()) options.host_backends = host_backends();
  options.precision = precision;
  options.allow_fallback = Context::get().allows_fallback;
  options.find_backends = [backend = std::string(backend)](Device wanted) { return backends_for(backend, wanted); };
  options.set(fuse);
  options.own_outputs = own_outputs;
  options.input_strides = std::move(layouts);
  options.may_donate = std::move(may_donate);
  return options;
}

SINTER_DECL std::shared_ptr<const Plan> make_plan(const Graph& optimised, std::string_view backend,
                                                  std::vector<InputLayout> layouts, FusionChoices fuse,
                                                  const Graph& traced, MatmulPrecision precision,
                                                  std::vector<std::uint8_t> may_donate, bool own_outputs) {
  return build_plan(optimised, plan_options(optimised, backend, std::move(layouts), fuse, traced, precision,
                                            std::move(may_donate), own_outputs));
}

namespace jit_detail {

inline void place_leaf(const ArgLeaf& leaf, const PlanInput& input, std::size_t i, CallPlaces& places) {
  places.values[i] = leaf.kind == LeafKind::scalar ? nullptr : leaf.impl;
  if (leaf.kind != LeafKind::scalar) {
    places.inputs[i] = leaf.data;
  } else if (input.as_float) {
    places.numbers[i] = static_cast<float>(leaf.number);
    places.inputs[i] = &places.numbers[i];
  } else {
    places.inputs[i] = const_cast<std::int64_t*>(&leaf.integer);
  }
}

SINTER_DECL void place_argument(const ArgLeaf& leaf, const PlanInput& input, std::size_t i, CallPlaces& places) {
  place_leaf(leaf, input, i, places);
}

/// Values that a call had to lay out anew; most have none.
using LaidOut = std::unique_ptr<std::vector<Ref<TensorImpl>>>;
/// Writes the address of a Variable's value into its place. A value that had to be laid out anew ends up in `owned`.
inline void place_variable(const PlanInput& input, std::size_t i, const ArgList& args, CallPlaces& places,
                           LaidOut& owned) {
  TensorImpl* value = input.slot->here()->peek(args.reading());
  if (SINTER_UNLIKELY(!value->is_ready() || !value->is_dense())) {
    if (owned == nullptr) owned = std::make_unique<std::vector<Ref<TensorImpl>>>();
    owned->push_back(dense_value(In(Tensor(Ref<TensorImpl>::share(value)), Location()), "compiled call"));
    value = owned->back().get();
  }
  places.inputs[i] = value->data();
  places.values[i] = value;
}
/// Writes the addresses of what a call reads into its places.
inline void place_inputs(const CallEnd& end, const ArgList& args, CallPlaces& places, LaidOut& owned) {
  const ArgLeaf* const leaves = args.leaves().data();
  const PlanInput* const inputs = end.inputs.data();
  void** const addresses = places.inputs.data();
  TensorImpl** const values = places.values.data();
  for (std::size_t i = 0, count = end.inputs.size(); i < count; ++i) {
    const PlanInput& input = inputs[i];
    if (SINTER_UNLIKELY(input.source != PlanInput::Source::leaf)) {
      place_variable(input, i, args, places, owned);
      continue;
    }
    const ArgLeaf& leaf = leaves[as_index(input.index)];
    if (SINTER_UNLIKELY(leaf.kind == LeafKind::scalar)) {
      place_leaf(leaf, input, i, places);
      continue;
    }
    addresses[i] = leaf.data;
    values[i] = leaf.impl;
  }
}

}  // namespace jit_detail

namespace jit_detail {
SINTER_DECL BorrowedMut as_target(Tensor& x, Location where) {
  eval(In(x, where));
  const Ref<TensorImpl>& value = x.impl();
  if (value->use_count() != 1 || value->storage->use_count() != 1 || !value->storage->is_ours() || !value->is_dense())
    throw UserError("into", "the tensor shares its memory with another handle or a pending statement, or is a view",
                    where, "give a tensor that nobody else holds");
  return {value->type, value->strides, value->data()};
}
}  // namespace jit_detail

SINTER_ALWAYS_INLINE void FunctionState::run_now(const Entry& entry, const ArgList& args,
                                                 std::span<const std::int64_t> symbols, const TraceFunction& trace,
                                                 Ref<TensorImpl>* results, Targets targets) {
  EntryThread* thread = entry.threads.get();
  count_run(entry, thread, args, trace);
  if (SINTER_UNLIKELY(entry.runs_ahead)) entry.background->check();
  if (SINTER_UNLIKELY(entry.end.plan == nullptr))
    return jit_detail::run_custom(entry, args, symbols, results, targets, where_);
  if (SINTER_UNLIKELY(entry.gradient != nullptr)) return run_on_tape(entry, args, symbols, results);
  const FrameLease frame = entry.end.plan->acquire_frame(symbols);
  jit_detail::LaidOut owned;
  jit_detail::place_inputs(entry.end, args, frame->places(), owned);
  jit_detail::run_end({entry.end, entry.held, args, *frame, symbols, thread, options_.mode, where_}, results, targets);
}

SINTER_DECL void FunctionState::run_on_tape(const Entry& entry, const ArgList& args,
                                            std::span<const std::int64_t> symbols, Ref<TensorImpl>* results) const {
  const CallEnd& end = entry.end;
  const FrameLease frame = end.plan->acquire_frame(symbols);
  jit_detail::LaidOut owned;
  std::vector<Ref<TensorImpl>> values(end.results);
  jit_detail::place_inputs(end, args, frame->places(), owned);
  const jit_detail::EndingCall call{end, entry.held, args, *frame, symbols, entry.threads.get(), options_.mode, where_};
  jit_detail::TapedCall taped(*entry.gradient, entry.tape_attrs.of(entry.gradient, symbols),
                              jit_detail::inputs_on_tape(*entry.gradient, end.inputs, frame->places().values, args),
                              where_);
  jit_detail::run_end(call, values.data(), {});
  taped.deliver(values, results);
}

SINTER_DECL void FunctionState::run(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
                                    const TraceFunction& trace, Ref<TensorImpl>* results, Targets targets) {
  run_now(entry, args, symbols, trace, results, targets);
}

SINTER_DECL void FunctionState::deliver_uncompiled(std::vector<Ref<TensorImpl>> values, Targets targets,
                                                   const ArgList& args, const CallJournal& journal) const {
  FinishedCall call;
  call.results = std::move(values);
  for (const auto& value : call.results)  // one that is ready was captured, or stands for what was read
    if (value->is_ready()) call.held.constants.push_back(value);
  std::vector<TensorImpl*> pending;
  for (const auto& value : call.results)
    if (!value->is_ready()) pending.push_back(value.get());
  if (!pending.empty()) evaluate(pending, "into", where_);
  call.held.constants.insert(call.held.constants.end(), journal.reads().begin(), journal.reads().end());
  jit_detail::ResultTable delivered;
  jit_detail::deliver(call, {nullptr, &delivered}, targets, args, call.held, where_);
}

namespace jit_detail {
SINTER_DECL void prepare_end(const CallEnd& end, Frame& frame, EntryThread* thread, Mode mode) {
  frame.prepare();
  // Two of each result, as where the last one still lives while the next is made. Written to, so that pages are there.
  std::vector<Ref<TensorImpl>> memory;
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < frame.outputs().size(); ++i) {
      const FrameOutput& bound = frame.outputs()[i];
      memory.push_back(i < end.results ? result_memory(thread, mode, i, bound) : fresh_result(bound));
      if (bound.type.device == Device::cpu()) std::memset(memory.back()->data(), 0, bound.bytes);
    }
  if (thread == nullptr) return;
  if (thread->rings.size() < end.results) thread->rings.resize(end.results);  // for results copied to strided places
  if (thread->scratch) thread->scratch->reserve(frame.outputs().size(), end.inputs.size());
  else thread->scratch = std::make_unique<CallScratch>(frame.outputs().size(), end.inputs.size());
}
}  // namespace jit_detail

SINTER_DECL void FunctionState::warm_up(const Entry& entry, const ArgList& args, const TraceFunction& trace,
                                        std::span<const std::int64_t> symbols) {
  if (EntryThread* own = entry.threads.get(); own != nullptr && !symbols.empty())
    jit_detail::remember_sizes(entry, *own, args.leaves(), SmallVector<std::int64_t, 8>(symbols));
  if (entry.tree != nullptr) return warm_up_tree(entry, args, trace, symbols);
  EntryThread* thread = entry.threads.get();
  if (thread != nullptr) {
    if (thread->next_check == 1) check_purity(entry, *thread, args, trace);
    thread->next_check = std::numeric_limits<std::int64_t>::max();
  }
  args.reading().begin();
  if (entry.end.plan == nullptr) return;
  const FrameLease frame = entry.end.plan->acquire_frame(symbols);
  jit_detail::prepare_end(entry.end, *frame, thread, options_.mode);
}

}  // namespace jit
SINTER_NAMESPACE_END
