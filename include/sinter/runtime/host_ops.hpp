// Host steps: steps of a plan that no kernel expresses. They run the op's own `run_on_host`, which may run sub-graphs
// as plans of their own. They look like launches to a frame.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/host_call.hpp>
#include <sinter/kernel/fusion_node.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

class Plan;

struct HostOp {
  std::string_view name;  // the op's
  void (*run)(HostCall& call) = nullptr;
  Intrinsic intrinsic = nullptr;              // then it has no `run`
  void (*prepare)(HostCall& call) = nullptr;  // or null
  SharedAttrs attrs;
  Location where;
  std::size_t inputs = 0;    // the operands are these, then the results
  bool is_call = false;      // runs its one body on the operands, and does nothing else
  bool is_effect = false;    // the last input and the last result are tokens: they order, and hold nothing
  std::vector<Type> types;   // of all operands
  std::vector<Dim> offsets;  // of the inputs, in elements
  std::vector<std::shared_ptr<const Plan>> bodies;  // of attrs.bodies; outputs in memory of their own
};

/// What the fusion node does, with the layouts of its operands. Bodies and an intrinsic are the caller's to add.
HostOp make_host_op(const FusionGraph& nodes, int node);
/// run() throws whatever the op throws.
std::unique_ptr<Launch> bind_host_op(const HostOp& op, std::span<const std::int64_t> symbols);
/// By what a back end has for it on its own device. Null: it has nothing.
std::unique_ptr<Launch> bind_backend_op(const HostOp& op, std::span<const std::int64_t> symbols, Backend& backend,
                                        const StepContext& step);

SINTER_NAMESPACE_END
