// From the graph of a version to the code that its calls run: passes, plan, and how inputs are given. Needs nothing of
// the call that the version was traced in, so that another thread can do it. Knows no entries and no traces.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/runtime/plan.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// How the code of a version is made, besides its graph.
struct CodeChoices {
  std::string backend;
  Mode mode = Mode::default_;
  FusionChoices fuse = {};
  bool allow_fallback = false;
  MatmulPrecision precision = MatmulPrecision::f32;
  std::int64_t memory_budget = 0;
  double tune_seconds = 0;
  Location where{};

  static CodeChoices of(const Options& options, MatmulPrecision precision, Location where) {
    return {options.backend.name(), options.mode, fusion_choices(options),
            options.allow_fallback, precision,    options.memory_budget,
            options.tune_seconds,   where};
  }
  /// Operation by operation, within any memory.
  CodeChoices uncompiled() const;
  /// With what is fastest when it is measured.
  CodeChoices tuned() const {
    CodeChoices measured = *this;
    measured.mode = Mode::max_autotune_no_cudagraphs;
    return measured;
  }
  PlanOptions plan_options_for(const Graph& optimised, std::vector<InputLayout> layouts, const Graph& traced,
                               std::vector<std::uint8_t> may_donate, bool own_outputs) const;
};

struct CodeInput {
  Graph graph;  // with what the guards proved about its sizes
  std::vector<InputLayout> layouts;
  std::vector<std::uint8_t> is_number;  // per input: a C++ number of the caller
  std::vector<std::uint8_t> may_donate;
  bool own_outputs = false;
  std::vector<Ref<TensorImpl>> values{};  // of the inputs, to tune with; none: made up
};
struct VersionCode {
  Graph optimised;
  std::shared_ptr<const Plan> plan;
  std::vector<std::uint8_t> is_narrowed;  // inputs that the plan takes as f32
  double passes_ms = 0, codegen_ms = 0;
};
VersionCode make_code(const CodeInput& input, const CodeChoices& choices);

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
