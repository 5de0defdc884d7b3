// Plans on this build's back ends, and the run of one guarded call.
#pragma once

#include <sinter/jit/execute.hpp>

#include <sinter/expr/host.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/custom_run.hpp>
#include <sinter/jit/function.hpp>

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

SINTER_DECL std::shared_ptr<const Plan> make_plan(const Graph& optimised, std::string_view backend, std::vector<InputLayout> layouts, bool fuse) {
  PlanOptions options;
  options.backends = backends_for(backend);
  options.fuse = fuse;
  options.input_strides = std::move(layouts);
  return build_plan(optimised, options);
}

namespace jit_detail {

/// What a call reads, kept alive until it ends.
class CallInputs {
 public:
  CallInputs(const Entry& entry, std::span<const ArgLeaf> args) : entry_(entry), args_(args) {
    for (const Entry::Input& input : entry.inputs) {
      auto index = static_cast<std::size_t>(input.index);
      switch (input.source) {
        case Entry::Input::Source::leaf: pointers_.push_back(input.as_float ? narrowed(args[index]) : pointer_to(args[index])); break;
        case Entry::Input::Source::captured: pointers_.push_back(captured(*entry.captured[index])->data()); break;
      }
    }
  }
  ~CallInputs() {
    for (TensorImpl* value : captured_) value->release();
  }
  CallInputs(const CallInputs&) = delete;
  CallInputs& operator=(const CallInputs&) = delete;

  std::span<void* const> pointers() const { return pointers_; }
  /// The value behind input `i`, or null for numbers and lent memory.
  TensorImpl* value(std::size_t i) const {
    const Entry::Input& input = entry_.inputs[i];
    auto index = static_cast<std::size_t>(input.index);
    return input.source == Entry::Input::Source::leaf ? args_[index].impl : captured_[index];
  }

 private:
  static void* pointer_to(const ArgLeaf& leaf) { return leaf.kind == LeafKind::scalar ? const_cast<std::int64_t*>(&leaf.integer) : leaf.data; }
  void* narrowed(const ArgLeaf& leaf) {
    if (float_count_ == few_floats_.size()) {
      if (many_floats_.empty()) many_floats_.reserve(entry_.inputs.size());   // addresses stay
      return &many_floats_.emplace_back(static_cast<float>(leaf.number));
    }
    few_floats_[float_count_] = static_cast<float>(leaf.number);
    return &few_floats_[float_count_++];
  }
  /// Captured Variables are met in their order, so that captured_[i] is the value of the i-th.
  TensorImpl* captured(VariableSlot& slot) {
    Ref<TensorImpl> value;
    {
      std::scoped_lock lock(slot.mutex);
      value = slot.value;
    }
    if (!value->is_ready() || !value->is_dense()) value = dense_value(In(Tensor(value), Location()), "compiled call");
    captured_.push_back(value.get());
    return value.detach();
  }
  const Entry& entry_;
  std::span<const ArgLeaf> args_;
  SmallVector<void*, 16> pointers_;
  SmallVector<TensorImpl*, 4> captured_;
  std::array<float, 16> few_floats_;
  std::size_t float_count_ = 0;
  std::vector<float> many_floats_;
};

inline Type bound_type(const Type& type, std::span<const std::int64_t> symbols) {
  if (symbols.empty() || type.shape.is_static()) return type;
  Type bound{type.dtype, type.device, {}};
  for (Dim dim : type.shape.dims()) bound.shape.push_back(dim.evaluate(symbols));
  return bound;
}

inline bool overlaps(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

/// Bytes from the first to behind the last element.
inline std::size_t extent_bytes(const Type& type, const Strides& strides) {
  std::int64_t last = 0;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (type.shape[i].value() == 0) return 0;
    last += (type.shape[i].value() - 1) * strides[static_cast<std::size_t>(i)];
  }
  return static_cast<std::size_t>((last + 1) * size_of(type.dtype));
}

inline void check_targets(const Entry& entry, std::span<const ArgLeaf> args, std::span<const std::int64_t> symbols, Targets targets, Location where) {
  if (targets.size() != entry.results)
    throw UserError("into", std::to_string(targets.size()) + " places for " + std::to_string(entry.results) + " results", where);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Type type = bound_type(entry.plan->outputs()[i].type, symbols);
    const BorrowedMut& target = targets[i];
    if (target.type.dtype != type.dtype)
      throw DTypeError("into", "result " + std::to_string(i) + " has dtype " + std::string(sinter::name(type.dtype)) + ", its place " + std::string(sinter::name(target.type.dtype)), where);
    if (!identical(target.type.shape, type.shape))
      throw ShapeError("into", "result " + std::to_string(i) + " has shape " + type.shape.text() + ", its place " + target.type.shape.text(), where);
    std::size_t bytes = extent_bytes(target.type, target.strides);
    for (const ArgLeaf& arg : args)
      if (arg.data != nullptr && overlaps(target.data, bytes, arg.data, extent_bytes(*arg.type, *arg.strides)))
        throw UserError("into", "the place of result " + std::to_string(i) + " overlaps an argument", where, "give the result memory of its own");
    for (std::size_t j = 0; j < i; ++j)
      if (overlaps(target.data, bytes, targets[j].data, extent_bytes(targets[j].type, targets[j].strides)))
        throw UserError("into", "the places of results " + std::to_string(j) + " and " + std::to_string(i) + " overlap", where);
  }
}

/// The value of an output that is a view of an input or constant; data of others are copied.
inline Ref<TensorImpl> view_of(const PlanOutput& output, const Type& type, std::span<const std::int64_t> symbols, TensorImpl* source, void* data) {
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
inline void count_run(const Entry& entry) {
  if (EntryThread* thread = entry.threads.get(); SINTER_LIKELY(thread != nullptr))
    thread->runs.store(thread->runs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  else
    entry.other_runs.fetch_add(1, std::memory_order_relaxed);
}
inline Ref<TensorImpl> fresh_output(const FrameOutput& bound) { return TensorImpl::make_ready(bound.type, Storage::allocate(bound.bytes), 0, &bound.strides); }
}  // namespace jit_detail

SINTER_DECL void FunctionState::run(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols, Ref<TensorImpl>* results, Targets targets) {
  jit_detail::count_run(entry);
  if (SINTER_UNLIKELY(entry.plan == nullptr)) return jit_detail::run_custom(entry, args.leaves(), symbols, results, targets, where_);
  if (!targets.empty()) jit_detail::check_targets(entry, args.leaves(), symbols, targets, where_);
  jit_detail::CallInputs inputs(entry, args.leaves());
  const Plan& plan = *entry.plan;
  const FrameLease frame = plan.acquire_frame(symbols);
  SmallVector<void*, 8> pointers;
  if (SINTER_LIKELY(targets.empty() && entry.assignments.empty() && frame->has_only_fresh_outputs())) {
    for (const FrameOutput& bound : frame->outputs()) {
      *results = jit_detail::fresh_output(bound);
      pointers.push_back((*results++)->storage->data());
    }
    return frame->run(inputs.pointers(), pointers);
  }
  std::span<const PlanOutput> outputs = plan.outputs();
  std::size_t assigned = outputs.size() - entry.results;
  std::array<Ref<TensorImpl>, 8> few;
  std::vector<Ref<TensorImpl>> many(assigned > few.size() ? assigned : 0);
  Ref<TensorImpl>* assigned_values = many.empty() ? few.data() : many.data();
  auto value_at = [&](std::size_t i) -> Ref<TensorImpl>& { return i < entry.results ? results[i] : assigned_values[i - entry.results]; };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    pointers.push_back(nullptr);
    if (outputs[i].source != BufferKind::output || outputs[i].index != static_cast<std::int32_t>(i)) continue;
    if (i < targets.size() && is_dense(targets[i].type.shape, targets[i].strides)) {
      pointers[i] = targets[i].data;
      continue;
    }
    value_at(i) = jit_detail::fresh_output(frame->outputs()[i]);
    pointers[i] = value_at(i)->storage->data();
  }
  frame->run(inputs.pointers(), pointers);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const PlanOutput& output = outputs[i];
    auto index = static_cast<std::size_t>(output.index);
    if (output.source == BufferKind::output && index != i) {
      if (value_at(index)) value_at(i) = value_at(index);
      else value_at(i) = expr_detail::copy_strided(targets[index].type, targets[index].data, targets[index].strides).impl();
    } else if (output.source == BufferKind::input) {
      value_at(i) = jit_detail::view_of(output, frame->outputs()[i].type, symbols, inputs.value(index), inputs.pointers()[index]);
    } else if (output.source == BufferKind::constant) {
      const Ref<TensorImpl>& constant = plan.constants()[index];
      value_at(i) = jit_detail::view_of(output, frame->outputs()[i].type, symbols, constant.get(), constant->data());
    }
    if (i < targets.size() && value_at(i)) copy_to(targets[i], In(Tensor(value_at(i)), Location()));
  }
  for (std::size_t i = 0; i < assigned; ++i) {
    const Entry::Assignment& assignment = entry.assignments[i];
    VariableSlot* slot = assignment.leaf >= 0 ? args.leaves()[static_cast<std::size_t>(assignment.leaf)].slot
                                              : entry.captured[static_cast<std::size_t>(assignment.captured)].get();
    Ref<TensorImpl> old;   // freed outside the lock
    std::scoped_lock lock(slot->mutex);
    old = std::exchange(slot->value, std::move(assigned_values[i]));
  }
}

}  // namespace jit
SINTER_NAMESPACE_END
