// Passes and plan of a version.
#pragma once

#include <sinter/jit/call/entry_code.hpp>

#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/making.hpp>  // Stopwatch
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/trace/memory_budget.hpp>
#include <sinter/jit/tune/plan_tuner.hpp>

#include <cstring>
#include <span>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL CodeChoices CodeChoices::uncompiled() const {
  CodeChoices plain = *this;
  plain.backend = "eager";
  plain.mode = Mode::default_;
  plain.memory_budget = 0;
  return plain;
}

SINTER_DECL PlanOptions CodeChoices::plan_options_for(const Graph& optimised, std::vector<InputLayout> layouts,
                                                      const Graph& traced, std::vector<std::uint8_t> may_donate,
                                                      bool own_outputs) const {
  PlanOptions options =
      plan_options(optimised, backend, std::move(layouts), is_unfused_backend(backend) ? FusionChoices(false) : fuse,
                   traced, precision, std::move(may_donate), own_outputs);
  options.as_one = mode == Mode::reduce_overhead || mode == Mode::max_autotune;
  options.allow_fallback |= allow_fallback;
  return options;
}

/// The values as the plan takes them: numbers that it wants as f32 are.
inline std::vector<Ref<TensorImpl>> narrowed_values(std::vector<Ref<TensorImpl>> values,
                                                    std::span<const std::uint8_t> is_narrowed) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_narrowed[i] == 0 || values[i]->type.shape.rank() != 0) continue;
    const bool is_double = values[i]->type.dtype == DType::f64;
    const auto number = is_double ? static_cast<float>(*static_cast<const double*>(values[i]->data()))
                                  : static_cast<float>(*static_cast<const std::int64_t*>(values[i]->data()));
    Ref<Storage> memory = Storage::allocate(sizeof number);
    std::memcpy(memory->data(), &number, sizeof number);
    values[i] = TensorImpl::make_ready({DType::f32, Device::cpu(), {}}, std::move(memory));
  }
  return values;
}

SINTER_DECL VersionCode make_code(const CodeInput& input, const CodeChoices& choices) {
  Stopwatch watch;
  VersionCode code;
  code.optimised = run_passes_for(choices.backend, input.graph, choices.precision);
  code.is_narrowed.assign(input.is_number.size(), 0);
  if (choices.backend != "eager") code.optimised = narrow_numbers(code.optimised, input.is_number, code.is_narrowed);
  code.passes_ms = watch.lap_ms();
  PlanOptions wanted =
      choices.plan_options_for(code.optimised, input.layouts, input.graph, input.may_donate, input.own_outputs);
  code.optimised = fit_memory(code.optimised, choices.memory_budget, wanted, choices.where);
  code.plan = is_tuned(choices.mode)
                  ? tuned_plan(code.optimised, wanted,
                               {choices.tune_seconds, choices.where, narrowed_values(input.values, code.is_narrowed),
                                choices.memory_budget})
                  : build_plan(code.optimised, wanted);
  code.codegen_ms = watch.lap_ms();
  return code;
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
