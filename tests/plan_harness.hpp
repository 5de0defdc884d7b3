// Runs graphs given as text through fusion, lowering and a plan on a list of back ends, and compares with the oracle of
// graph_evaluator.hpp. Shared by tests of fusion, plans and back ends.
#pragma once

#include "graph_evaluator.hpp"

#include <sinter/backend/reference/reference.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#endif
#include <sinter/graph/parse.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/runtime/executor.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sinter_test {

using namespace sinter;

inline Backend* reference() {
  static Backend* backend = make_reference_backend().release();
  return backend;
}

/// The reference back end under another name, for tests that change what it says of itself. Each has a key of its own:
/// what one declined, of which the process keeps a note, another may take.
struct OtherBackend : Backend {
  OtherBackend() {
    static std::atomic<int> made{0};
    key_ = "other " + std::to_string(made++);
  }
  std::string_view name() const override { return "other"; }
  std::string cache_key() const override { return key_; }
  Limits limits() const override { return reference()->limits(); }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                            std::string* why_declined) override {
    return reference()->compile(kernel, schedule, why_declined);
  }

 private:
  std::string key_;
};

/// The reference back end, whose products take what computes their operands in.
struct PrologueBackend final : OtherBackend {
  Limits limits() const override {
    Limits limits = reference()->limits();
    limits.prologue_operations = 10'000'000;
    return limits;
  }
};

/// What plans are tested on: the reference back end, with and without prologues, and each other with the reference back
/// end after it.
inline std::vector<std::vector<Backend*>> backend_lists() {
  static PrologueBackend prologues;
  std::vector<std::vector<Backend*>> lists{{reference()}, {&prologues}};
#ifndef SINTER_NO_X86
  static Backend* x86 = make_x86_backend().release();
  lists.push_back({x86, reference()});
#endif
  return lists;
}

/// Decomposed, simplified: what a plan is built from.
inline Graph prepared(std::string_view text) { return run_pipeline(parse_graph(text)); }

inline PlanOptions fused(std::vector<Backend*> backends = {reference()}) {
  PlanOptions options;
  options.backends = std::move(backends);
  return options;
}
inline PlanOptions op_by_op(std::vector<Backend*> backends = {reference()}) {
  PlanOptions options = fused(std::move(backends));
  options.fuse = false;
  return options;
}

/// "row contraction pointwise host ...": the kinds of a plan's kernels in order.
inline std::string kinds(const Plan& plan) {
  constexpr const char* names[] = {"pointwise", "row", "column", "contraction", "scatter"};
  std::string text;
  for (const PlanStep& step : plan.steps())
    text += (text.empty() ? "" : " ") + std::string(step.host ? "host" : names[static_cast<int>(step.kernel.kind)]);
  return text;
}

inline Ref<TensorImpl> to_value(const oracle::Array& array) {
  const Type type{array.dtype, Device::cpu(), Shape(std::span<const std::int64_t>(array.extents))};
  auto value =
      TensorImpl::make_ready(type, Storage::allocate(static_cast<std::size_t>(array.size() * size_of(array.dtype))));
  visit_dtype(array.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::size_t i = 0; i < array.data.size(); ++i)
      static_cast<T*>(value->data())[i] = static_cast<T>(array.data[i]);
  });
  return value;
}

/// Any strides.
inline oracle::Array to_array(const TensorImpl& value) {
  oracle::Array array;
  array.dtype = value.type.dtype;
  for (Dim extent : value.type.shape) array.extents.push_back(extent.value());
  array = oracle::Array::zeros(array.dtype, array.extents);
  std::size_t flat = 0;
  oracle::for_each_index(array.extents, [&](const oracle::Extents& index) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index.size(); ++i) at += index[i] * value.strides[i];
    visit_dtype(array.dtype, [&](auto tag) {
      array.data[flat++] = static_cast<oracle::Number>(static_cast<const decltype(tag)*>(value.data())[at]);
    });
  });
  return array;
}

/// Values between -2 and 2; integers 0 to 3 (so that they serve as indices).
inline std::vector<oracle::Array> random_inputs(const Graph& graph, std::span<const std::int64_t> symbols = {},
                                                unsigned seed = 7) {
  std::mt19937 random(seed);
  std::vector<oracle::Array> inputs;
  for (Value v : graph.inputs()) {
    const Type& type = graph.type(v);
    oracle::Extents extents;
    for (Dim extent : type.shape) extents.push_back(extent.evaluate(symbols));
    oracle::Array array = oracle::Array::zeros(type.dtype, extents);
    for (auto& x : array.data) {
      const double unit = std::uniform_real_distribution<double>(-2, 2)(random);
      x = type.dtype == DType::f32 ? static_cast<float>(unit) : is_floating(type.dtype) ? unit : std::floor(unit + 2);
      if (type.dtype == DType::bool_) x = unit > 0;
    }
    inputs.push_back(std::move(array));
  }
  return inputs;
}

/// Empty if equal up to `tolerance` relative to 1 + |value|; else the first difference.
inline std::string difference(const oracle::Array& found, const oracle::Array& wanted, double tolerance) {
  if (found.dtype != wanted.dtype || found.extents != wanted.extents) return "another type";
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    const oracle::Number a = found.data[i], b = wanted.data[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b || std::abs(a - b) <= tolerance * (1 + std::abs(b))) continue;
    return "element " + std::to_string(i) + ": " + std::to_string(a) + ", should be " + std::to_string(b);
  }
  return "";
}

/// Does output `j` depend on rounding itself by a tenth of the tolerance or more, as where a comparison sees a tie only
/// after rounding, or where many rounds of a loop blow it up? Then a difference in it says nothing.
inline bool is_at_a_jump(const Graph& graph, const std::vector<oracle::Array>& inputs, const oracle::Array& wanted,
                         std::size_t j, double tolerance) {
  const auto differs = [&](const std::vector<oracle::Array>& outputs) {
    return !difference(outputs[j], wanted, tolerance / 10).empty();
  };
  return differs(oracle::evaluate_rounded(graph, inputs)) || differs(oracle::evaluate_nudged(graph, inputs)) ||
         differs(oracle::evaluate_ties(graph, inputs, oracle::NearTies::equal)) ||
         differs(oracle::evaluate_ties(graph, inputs, oracle::NearTies::the_other_way));
}

inline double tolerance_of(DType dtype) { return dtype == DType::f32 ? 2e-5 : dtype == DType::f64 ? 1e-11 : 0; }

/// The same value on another device, its memory copied whole.
inline Ref<TensorImpl> moved(const TensorImpl& value, Device device) {
  const Device from = value.type.device;
  Type type = value.type;
  type.device = device;
  const std::size_t bytes = value.storage->bytes();
  Ref<Storage> storage = Storage::allocate(bytes, device);
  if (bytes > 0)
    device_memory(from == Device::cpu() ? device : from, "test")
        .copy(storage->data(), device, value.storage->data(), from, bytes);
  return TensorImpl::make_ready(type, std::move(storage), value.offset, &value.strides);
}

/// Runs a plan whose inputs are on its device.
inline std::vector<oracle::Array> run(const Plan& plan, const std::vector<oracle::Array>& inputs) {
  std::vector<Ref<TensorImpl>> values;
  for (const auto& input : inputs) {
    values.push_back(to_value(input));
    if (plan.device() != Device::cpu()) values.back() = moved(*values.back(), plan.device());
  }
  std::vector<oracle::Array> outputs;
  for (const auto& output : execute(plan, values))
    outputs.push_back(to_array(output->type.device == Device::cpu() ? *output : *moved(*output, Device::cpu())));
  return outputs;
}

/// The first difference between a run of the plan and the oracle.
inline std::string first_difference(const Plan& plan, const Graph& graph, const std::vector<oracle::Array>& inputs) {
  const auto found = run(plan, inputs), wanted = oracle::evaluate(graph, inputs);
  for (std::size_t j = 0; j < wanted.size(); ++j) {
    const std::string text = difference(found[j], wanted[j], tolerance_of(wanted[j].dtype));
    if (!text.empty()) return "output " + std::to_string(j) + ", " + text;
  }
  return "";
}

}  // namespace sinter_test
