// Executor: runs a plan on values. Finds the symbols in the inputs' shapes, allocates the outputs, takes over buffers
// that the caller donates. For callers that are not counting nanoseconds; compiled functions drive frames themselves.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/plan.hpp>

#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// The values of a plan's symbols, from the shapes of its inputs. Throws InternalError for a symbol no input has.
SmallVector<std::int64_t, 8> symbol_values(const Plan& plan, std::span<const Ref<TensorImpl>> inputs);

/// Runs the plan. The inputs are ready and laid out as the plan was told. `is_donated[i]`: the caller will not use input
/// i any more; its buffer is taken over where the plan can and nobody else holds it.
std::vector<Ref<TensorImpl>> execute(const Plan& plan, std::span<const Ref<TensorImpl>> inputs,
                                     std::span<const std::uint8_t> is_donated = {});
/// As that, where the caller knows the values of the symbols.
std::vector<Ref<TensorImpl>> execute(const Plan& plan, const SmallVector<std::int64_t, 8>& symbols,
                                     std::span<const Ref<TensorImpl>> inputs,
                                     std::span<const std::uint8_t> is_donated = {});

SINTER_NAMESPACE_END
