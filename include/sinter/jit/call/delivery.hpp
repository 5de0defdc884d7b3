// Delivery: how the values of a call reach the caller, for calls of every kind. Everything that can fail (checks of
// places, allocation) comes before the first write to memory that others hold; Variables get their values last.
#pragma once

#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/runtime/plan.hpp>

#include <cstddef>
#include <memory>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// Adds what a traced graph and its bodies hold.
void add_constants(const Graph& graph, std::vector<Ref<TensorImpl>>& constants);

Ref<TensorImpl> fresh_result(const FrameOutput& bound);
/// Memory for result `i`: in Mode::reduce_overhead that of an earlier call, if nobody holds it any more.
Ref<TensorImpl> result_memory(EntryThread* thread, Mode mode, std::size_t i, const FrameOutput& bound);

/// Makes what calls of this thread that end so need: memory of results, frames of bodies, and room for the delivery.
void prepare_end(const CallEnd& end, Frame& frame, EntryThread* thread, Mode mode);

/// A call that is about to run its last plan.
struct EndingCall {
  const CallEnd& end;
  const HeldValues& held;
  const ArgList& args;
  Frame& frame;  // of the end's plan; its places hold the inputs
  std::span<const std::int64_t> symbols;
  EntryThread* thread;  // or null
  Mode mode;
  Location where;
  std::span<Ref<TensorImpl>> carried = {};  // what earlier segments made; nobody else needs it after this plan
};
/// Delivers values that are known already.
void deliver(FinishedCall& call, const ResultPlace& place, Targets targets, const ArgList& args, const HeldValues& held,
             Location where);

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
