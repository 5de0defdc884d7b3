// See the header.
#pragma once

#include <sinter/runtime/executor.hpp>

#include <sinter/base/index.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL SmallVector<std::int64_t, 8> symbol_values(const Plan& plan, std::span<const Ref<TensorImpl>> inputs) {
  SmallVector<std::int64_t, 8> values;
  for (const SymbolInfo& symbol : plan.symbols()) {
    // A symbol without a place is not used by the graph any more.
    const bool has_place = symbol.input >= 0 && as_index(symbol.input) < inputs.size();
    values.push_back(has_place ? inputs[as_index(symbol.input)]->type.shape[symbol.axis].value() : symbol.hint);
  }
  return values;
}

namespace runtime_detail {
inline Type bound_type(const Type& type, std::span<const std::int64_t> symbols) {
  Type bound = type;
  for (int i = 0; i < type.shape.rank(); ++i) bound.shape.set(i, Dim(type.shape[i].evaluate(symbols)));
  return bound;
}

/// A value that views another one's memory.
inline Ref<TensorImpl> view_of(const Type& type, const TensorImpl& base, const PlanOutput& output,
                               std::span<const std::int64_t> symbols) {
  Strides strides{};
  for (std::size_t i = 0; i < output.strides.size(); ++i) strides[i] = output.strides[i].evaluate(symbols);
  return TensorImpl::make_ready(type, base.storage, base.offset + output.offset.evaluate(symbols), &strides);
}
}  // namespace runtime_detail

SINTER_DECL std::vector<Ref<TensorImpl>> execute(const Plan& plan, std::span<const Ref<TensorImpl>> inputs,
                                                 std::span<const std::uint8_t> is_donated) {
  ensure(inputs.size() == plan.inputs().size(), "plan: wrong number of inputs");
  return execute(plan, symbol_values(plan, inputs), inputs, is_donated);
}

SINTER_DECL std::vector<Ref<TensorImpl>> execute(const Plan& plan, const SmallVector<std::int64_t, 8>& symbols,
                                                 std::span<const Ref<TensorImpl>> inputs,
                                                 std::span<const std::uint8_t> is_donated) {
  ensure(inputs.size() == plan.inputs().size(), "plan: wrong number of inputs");
  SmallVector<void*, 16> input_pointers, output_pointers;
  for (const auto& input : inputs) input_pointers.push_back(input->data());
  std::vector<Ref<TensorImpl>> results;
  for (std::size_t j = 0; j < plan.outputs().size(); ++j) {
    const PlanOutput& output = plan.outputs()[j];
    const auto source = as_index(output.index);
    const Type type = runtime_detail::bound_type(output.type, symbols);
    output_pointers.push_back(nullptr);
    if (output.source == BufferKind::input) {
      results.push_back(runtime_detail::view_of(type, *inputs[source], output, symbols));
    } else if (output.source == BufferKind::constant) {
      results.push_back(runtime_detail::view_of(type, *plan.constants()[source], output, symbols));
    } else if (source != j) {
      results.push_back(results[source]);
    } else {
      const auto donor = as_index(output.donor);
      const bool takes_over = output.donor >= 0 && donor < is_donated.size() && is_donated[donor] != 0 &&
                              inputs[donor]->use_count() == 1 && inputs[donor]->storage->use_count() == 1 &&
                              inputs[donor]->storage->is_ours();
      if (takes_over) results.push_back(TensorImpl::make_ready(type, inputs[donor]->storage, inputs[donor]->offset));
      else
        results.push_back(TensorImpl::make_ready(
            type,
            Storage::allocate(as_index(type.shape.numel().value() * size_of(type.dtype)), type.device, output.maker)));
      output_pointers.back() = results.back()->data();
    }
  }
  plan.acquire_frame(symbols)->run(input_pointers, output_pointers);
  return results;
}

SINTER_NAMESPACE_END
