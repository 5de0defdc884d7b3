// What users' files need of recording: the structure of expressions, whether this thread traces, and guards that say
// how. Knows operations by the addresses of their OpInfos alone.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/leaf.hpp>

#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN

struct OpInfo;
class SymbolScope;
class Trace;  // graph/trace.hpp

/// One step of an expression in postfix order: push leaf number `leaf` (op null), or apply `op` to the top `arity`
/// values.
struct ExprStep {
  const OpInfo* op = nullptr;
  std::uint8_t arity = 0;
  std::uint16_t leaf = 0;
};

/// The structure of an expression's type: constexpr data, one object per type.
struct ExprStructure {
  std::span<const ExprStep> steps;
  std::uint16_t leaves = 0;
};
/// Whether every operation maps floats of one type to that type (no comparison, cast, ...).
bool keeps_float_type(const ExprStructure& structure) noexcept;
/// Records an expression statement as one block. Leaves are moved from.
Ref<TensorImpl> record_expression(const ExprStructure& structure, std::span<Leaf> leaves, Location where);

/// The trace that this thread records into, or null.
Trace* current_trace() noexcept;
/// Whether this thread puts what it records on the tape.
bool& is_tape_on() noexcept;
/// How many NoGradGuards live on this thread.
int& no_grad_depth() noexcept;

namespace graph_detail {
bool is_traced_value_usable(const TensorImpl& value) noexcept;
}
/// May a value be an operand here: it is known, belongs to no trace, or to one that this thread is recording?
inline bool is_usable_here(const TensorImpl& value) noexcept {
  return SINTER_LIKELY(value.trace == 0) || graph_detail::is_traced_value_usable(value);
}

/// While it lives, nothing on this thread is recorded into a trace: what runs is not part of the traced function.
class [[nodiscard]] TracePause {
 public:
  TracePause() noexcept;
  ~TracePause();
  TracePause(const TracePause&) = delete;
  TracePause& operator=(const TracePause&) = delete;

 private:
  Trace* trace_;
  SymbolScope* scope_;
};

/// While it lives, values of a trace may not be read on this thread: the code must go into the graph whole.
class [[nodiscard]] WholeGraph {
 public:
  WholeGraph() noexcept;
  ~WholeGraph();
  WholeGraph(const WholeGraph&) = delete;
  WholeGraph& operator=(const WholeGraph&) = delete;
  static bool is_required() noexcept;
};

SINTER_NAMESPACE_END
