// Control flow that stays in the graph: switch (and cond, a switch over a bool), while_loop and scan. A node carries
// its branches or its step as sub-graphs; the host runs them as plans of their own, inside one step of the plan. Each
// op has a second version for bodies with effects, whose last operand and last result are tokens. Must not know how
// bodies were traced.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/control_batch.hpp>
#include <sinter/ops/control_bodies.hpp>
#include <sinter/ops/control_gradient.hpp>
#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

void infer_switch(const InferArgs& args, TypeList& out, Tokens tokens);
void run_switch(HostCall& call, Tokens tokens);
void prepare_switch(HostCall& call, Tokens tokens);
void prune_switch(const PruneArgs& args, Tokens tokens);

void infer_while(const InferArgs& args, TypeList& out, Tokens tokens);
void run_while(HostCall& call, Tokens tokens);
void prepare_while(HostCall& call, Tokens tokens);
void prune_while(const PruneArgs& args, Tokens tokens);

/// How many first operands of each body come from the iteration before, so that it may write over them: those of loops
/// without effects, which might keep them.
std::size_t carries_of(const Node& node);

void infer_scan(const InferArgs& args, TypeList& out, Tokens tokens);
void run_scan(HostCall& call, Tokens tokens);
void prepare_scan(HostCall& call, Tokens tokens);
void prune_scan(const PruneArgs& args, Tokens tokens);

}  // namespace ops_detail

namespace ops {

/// switch(index, args...): runs attrs.bodies[index] on args. An index outside the branches is clamped; a bool picks
/// body 0 (false) or 1. All bodies take the same operands and give the same types.
template <ops_detail::Tokens tokens>
struct BasicSwitch {
  static constexpr std::string_view bodies = "branch";
  static constexpr bool has_effects = tokens == ops_detail::Tokens::one;
  static constexpr OpInfo info{.name = has_effects ? "switch_with_effects" : "switch",
                               .arity = -1,
                               .kind = has_effects ? OpKind::effect : OpKind::structured,
                               .is_cheap = false};
  static void infer(const InferArgs& args, TypeList& out) { ops_detail::infer_switch(args, out, tokens); }
  static void run_on_host(HostCall& call) { ops_detail::run_switch(call, tokens); }
  static void prepare_on_host(HostCall& call) { ops_detail::prepare_switch(call, tokens); }
  static ValList vjp(const VjpArgs& a) { return ops_detail::differentiate_switch(a, tokens); }
  static void prune(const PruneArgs& args) { ops_detail::prune_switch(args, tokens); }
  static void batch(const BatchArgs& args, BatchedList& results) { ops_detail::batch_switch(args, results); }
};
using Switch = BasicSwitch<ops_detail::Tokens::none>;
using SwitchWithEffects = BasicSwitch<ops_detail::Tokens::one>;

/// while_loop(carries..., captures...): the first sub-graph gives the condition for the first iteration, the second the
/// new carries and the condition for the next iteration. Results: the carries at the end. Its derivative is one
/// of forward mode alone.
template <ops_detail::Tokens tokens>
struct BasicWhileLoop : WhileAttributes {
  static constexpr bool has_effects = tokens == ops_detail::Tokens::one;
  static constexpr OpInfo info{.name = has_effects ? "while_loop_with_effects" : "while_loop",
                               .arity = -1,
                               .kind = has_effects ? OpKind::effect : OpKind::structured,
                               .is_cheap = false};
  static void infer(const InferArgs& args, TypeList& out) { ops_detail::infer_while(args, out, tokens); }
  static void run_on_host(HostCall& call) { ops_detail::run_while(call, tokens); }
  static void prepare_on_host(HostCall& call) { ops_detail::prepare_while(call, tokens); }
  static ValList vjp(const VjpArgs& a) { return ops_detail::differentiate_while(a, tokens); }
  static void prune(const PruneArgs& args) { ops_detail::prune_while(args, tokens); }
  static void batch(const BatchArgs& args, BatchedList& results) { ops_detail::batch_while(args, results); }
};
using WhileLoop = BasicWhileLoop<ops_detail::Tokens::none>;
using WhileLoopWithEffects = BasicWhileLoop<ops_detail::Tokens::one>;

/// scan(carries..., xs..., captures...): `length` iterations of the body, which takes the carries, one slice of each of
/// the xs, of which `scanned` says the number, and the captures, and gives the new carries and one slice of each of the
/// ys. Results: the carries at the end, the stacked ys, and for each number in `saved` that carry as it was before each
/// iteration, stacked (what the derivative needs).
template <ops_detail::Tokens tokens>
struct BasicScan : ScanAttributes {
  static constexpr bool has_effects = tokens == ops_detail::Tokens::one;
  static constexpr OpInfo info{.name = has_effects ? "scan_with_effects" : "scan",
                               .arity = -1,
                               .kind = has_effects ? OpKind::effect : OpKind::structured,
                               .is_cheap = false};
  static void infer(const InferArgs& args, TypeList& out) { ops_detail::infer_scan(args, out, tokens); }
  static void run_on_host(HostCall& call) { ops_detail::run_scan(call, tokens); }
  static void prepare_on_host(HostCall& call) { ops_detail::prepare_scan(call, tokens); }
  static ValList vjp(const VjpArgs& a) { return ops_detail::differentiate_scan(a, tokens); }
  static void prune(const PruneArgs& args) { ops_detail::prune_scan(args, tokens); }
  static void batch(const BatchArgs& args, BatchedList& results) { ops_detail::batch_scan(args, results); }
};
using Scan = BasicScan<ops_detail::Tokens::none>;
using ScanWithEffects = BasicScan<ops_detail::Tokens::one>;

}  // namespace ops
SINTER_NAMESPACE_END
