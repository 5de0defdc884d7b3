// CallEnd: what ends a call of a compiled function: the plan that makes its results, where the inputs of that plan come
// from, and what Variables become. A function that reads no value has one, a trace tree has one for each path. Plain
// data; delivery is in delivery.hpp.
#pragma once

#include <sinter/base/ref.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/call/call.hpp>
#include <sinter/jit/call/value_table.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/slot.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
class Plan;
namespace jit {
class CallCount;
struct PathTape;

/// Where an input of a plan comes from.
struct PlanInput {
  enum class Source : std::uint8_t {
    leaf,      // of the arguments: number `index`
    captured,  // the Variable of `slot`
    carried,   // what an earlier segment of the path made, in place `index`
    eager,     // result `result` of the eager function called at cut `index`
  };
  Source source = Source::leaf;
  bool as_float = false;  // a number that the plan takes as f32
  std::int32_t index = -1;
  std::int32_t result = -1;
  std::shared_ptr<VariableSlot> slot{};
};

/// A Variable that a call gives a new value.
struct Assignment {
  std::int32_t leaf = -1;                // an argument, or
  std::shared_ptr<VariableSlot> slot{};  // captured
  std::int32_t input = -1;               // of the plan: its old value; -1: the plan does not read it
};

struct CallEnd {
  std::shared_ptr<const Plan> plan;
  std::vector<PlanInput> inputs;        // of the plan, in order
  std::vector<Assignment> assignments;  // outputs of the plan after the results
  std::size_t results = 0;
  std::size_t saved = 0;  // among them, after those of the function: what its derivative needs
};

/// What a function holds besides its arguments. Results must not be written over it.
struct HeldValues {
  std::vector<Ref<TensorImpl>> constants;               // captured Tensors
  std::vector<std::shared_ptr<VariableSlot>> captured;  // captured Variables
};

/// Values of a call of which only the delivery is left.
struct FinishedCall {
  std::vector<Ref<TensorImpl>> results;
  std::vector<std::pair<std::shared_ptr<VariableSlot>, Ref<TensorImpl>>> assigned;
  std::shared_ptr<const void> shape;
  HeldValues held;                           // by the function, on this path
  std::shared_ptr<const CallCount> taken{};  // of a function that reads values: to be told when the call has ended
  // Of such a function, where results are on the tape:
  std::shared_ptr<const PathTape> tape{};
  std::vector<Ref<TensorImpl>> tape_inputs{}, saved{};  // values of the path's inputs, and what the derivative needs
};

/// Where the values of a call go: a place for each, or a table that takes what there is.
struct ResultPlace {
  Ref<TensorImpl>* fixed = nullptr;
  jit_detail::ResultTable* table = nullptr;
  Ref<TensorImpl>* make(std::size_t count) const { return table == nullptr ? fixed : table->make(count); }
};

}  // namespace jit
SINTER_NAMESPACE_END
