// The gradients of each kind's bodies.
#pragma once

#include <sinter/ops/control_gradient.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/control.hpp>
#include <sinter/ops/control_bodies.hpp>

#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// A sub-graph under construction that holds the forward body and then its gradient.
struct GradientBody {
  GradientBody(const Graph& body, Location at) : builder(body), where(at) {}
  Value input(const Type& type) { return builder.input(type, {}, where); }
  Val val(Value v) { return {&builder, v, where}; }
  Val zeros(Value like) {
    const Type type = builder.type(like);
    return full(val(like), type.shape, type.dtype, 0);
  }
  GraphBuilder builder;
  Location where;
};

inline bool is_floating_operand(const VjpArgs& a, std::size_t i) { return is_differentiable(a.in[i].dtype()); }

/// The node's results as Vals.
inline std::vector<Val> results_of(const VjpArgs& a, Value node) {
  std::vector<Val> results;
  const std::size_t count = a.in[0].builder->node(node).types.size();
  for (std::size_t r = 0; r < count; ++r)
    results.push_back({a.in[0].builder, {node.node, static_cast<std::int32_t>(r)}, a.where});
  return results;
}

// ---- switch: the same index chooses among the gradients of the branches

SINTER_DECL ValList differentiate_switch(const VjpArgs& a, Tokens tokens) {
  ensure(a.backward != nullptr, "switch: its derivative needs that of graphs");
  const std::size_t operands = a.in.size() - as_index(tokens);
  std::vector<std::size_t> wanted, given;  // operands with a gradient, results whose gradient is known
  for (std::size_t i = 1; i < operands; ++i)
    if (a.needs(i) && is_floating_operand(a, i)) wanted.push_back(i);
  for (std::size_t r = 0; r < a.douts.size(); ++r)
    if (a.douts[r]) given.push_back(r);
  Attrs attrs;
  for (const auto& forward : a.attrs.bodies) {
    GradientBody body(*forward, a.where);
    std::vector<Value> args, gradients, outputs, wrt;
    for (Value v : forward->inputs()) args.push_back(body.input(forward->type(v)));
    for (std::size_t r : given) gradients.push_back(body.input(a.douts[r].type()));
    const std::vector<Value> results = body.builder.inline_graph(without_effects(*forward), args);
    for (std::size_t r : given) outputs.push_back(results[r]);
    for (std::size_t i : wanted) wrt.push_back(args[i - 1]);
    std::vector<Value> found = a.backward(body.builder, outputs, gradients, wrt);
    for (std::size_t k = 0; k < wrt.size(); ++k)
      if (!found[k]) found[k] = body.zeros(wrt[k]).value;
    attrs.bodies.push_back(std::make_shared<const Graph>(body.builder.finish(found)));
  }
  Values inputs;
  for (std::size_t i = 0; i < operands; ++i) inputs.push_back(a.in[i].value);
  for (std::size_t r : given) inputs.push_back(a.douts[r].value);
  ValList grads;
  for (std::size_t i = 0; i < a.in.size(); ++i) grads.push_back(Val{});
  if (wanted.empty() || given.empty()) return grads;
  const std::vector<Val> results =
      results_of(a, a.in[0].builder->add(op_info<ops::Switch>, inputs, std::move(attrs), a.where));
  for (std::size_t k = 0; k < wanted.size(); ++k) grads[wanted[k]] = results[k];
  return grads;
}

// ---- while_loop: in forward mode only

/// Numbers of the floating carries.
inline std::vector<std::size_t> floating_carries(const Graph& iteration, std::size_t carries) {
  std::vector<std::size_t> floating;
  for (std::size_t c = 0; c < carries; ++c)
    if (is_differentiable(iteration.type(iteration.inputs()[c]).dtype)) floating.push_back(c);
  return floating;
}

SINTER_DECL ValList differentiate_while(const VjpArgs& a, Tokens tokens) {
  const std::size_t operands = a.in.size() - as_index(tokens), carries = as_index(a.attrs[ops::WhileLoop::carries]);
  Attrs attrs = a.attrs;
  for (auto& body : attrs.bodies) body = std::make_shared<const Graph>(without_effects(*body));
  IntVector wanted;
  Values inputs;
  for (std::size_t i = 0; i < operands; ++i) {
    inputs.push_back(a.in[i].value);
    if (a.needs(i) && is_floating_operand(a, i)) wanted.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t c : floating_carries(*attrs.bodies[1], carries))
    inputs.push_back(a.douts[c] ? a.douts[c].value : full(a.in[c], a.in[c].shape(), a.in[c].dtype(), 0).value);
  attrs.set(ops::WhileGradient::wanted, wanted);
  const std::vector<Val> results =
      results_of(a, a.in[0].builder->add(op_info<ops::WhileGradient>, inputs, std::move(attrs), a.where));
  ValList grads;
  for (std::size_t i = 0; i < a.in.size(); ++i) grads.push_back(Val{});
  for (std::size_t k = 0; k < wanted.size(); ++k) grads[as_index(wanted[k])] = results[k];
  return grads;
}

/// An iteration of the loop that carries tangents: carries, their tangents, captures, tangents of captures -> the new
/// carries, their tangents, the condition. `moving` are the operands with tangents.
inline Graph tangent_iteration(const VjpArgs& a, std::size_t carries, std::span<const std::size_t> floating,
                               std::span<const std::size_t> captured) {
  const Graph& forward = *a.attrs.bodies[1];
  GradientBody body(forward, a.where);
  auto input = [&](std::size_t i) { return body.input(forward.type(forward.inputs()[i])); };
  std::vector<Value> args(forward.inputs().size()), wrt, tangents, probes, results;
  for (std::size_t c = 0; c < carries; ++c) args[c] = input(c);
  for (std::size_t c : floating) {
    wrt.push_back(args[c]);
    tangents.push_back(input(c));
  }
  for (std::size_t i = carries; i < args.size(); ++i) args[i] = input(i);
  for (std::size_t i : captured) {
    wrt.push_back(args[i]);
    tangents.push_back(input(i));
  }
  const std::vector<Value> outputs = body.builder.inline_graph(forward, args);
  for (std::size_t c : floating) {
    results.push_back(outputs[c]);
    probes.push_back(body.zeros(outputs[c]).value);  // gradients are linear in these, whatever they are
  }
  std::vector<Value> gradients, along;
  const std::vector<Value> found = a.backward(body.builder, results, probes, wrt);
  for (std::size_t k = 0; k < found.size(); ++k)
    if (found[k]) gradients.push_back(found[k]), along.push_back(tangents[k]);
  const std::vector<Value> moved = a.backward(body.builder, gradients, along, probes);
  std::vector<Value> all(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(carries));
  for (std::size_t k = 0; k < moved.size(); ++k) all.push_back(moved[k] ? moved[k] : body.zeros(results[k]).value);
  all.push_back(outputs[carries]);
  const Graph whole = body.builder.finish(all);
  return *cut_body(whole, std::vector<bool>(all.size(), true), std::vector<bool>(whole.inputs().size(), true));
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL void WhileGradient::infer(const InferArgs& args, TypeList& out) {
  ensure(args.attrs.bodies.size() == 2 && !args.attrs[wanted].empty(),
         "while_loop_gradient: a loop and what its gradient is of are required");
  for (std::int64_t i : args.attrs[wanted]) {
    ensure(i >= 0 && as_index(i) < args.in.size(), "while_loop_gradient: a gradient is of an operand");
    out.push_back(args.in[as_index(i)]);
  }
}

SINTER_DECL void WhileGradient::refuse(Location where) {
  throw UserError(
      "while_loop",
      "it has no gradient in reverse mode: how many iterations it makes is known only when it runs, and each "
      "would have to be kept",
      where,
      "use jit::fori_loop with fixed bounds, or jit::scan; iterations that are not needed can keep the carry "
      "with where(...)");
}

SINTER_DECL ValList WhileGradient::vjp(const VjpArgs& a) {
  const auto loop_carries = as_index(a.attrs[ops::WhileLoop::carries]);
  const std::size_t operands = a.attrs.bodies[1]->inputs().size();
  for (std::size_t i = 0; i < operands && i < 31; ++i)
    if (a.needs(i)) refuse(a.where);  // only its linear operands can be asked for
  const std::vector<std::size_t> floating = ops_detail::floating_carries(*a.attrs.bodies[1], loop_carries);
  std::vector<std::size_t> captured;  // with tangents
  std::vector<Val> tangent_of(operands);
  for (std::size_t k = 0; k < a.attrs[wanted].size(); ++k) {
    const auto i = as_index(a.attrs[wanted][k]);
    if (!a.douts[k]) continue;
    tangent_of[i] = a.douts[k];
    if (i >= loop_carries) captured.push_back(i);
  }
  Values inputs;
  for (std::size_t c = 0; c < loop_carries; ++c) inputs.push_back(a.in[c].value);
  for (std::size_t c : floating)
    inputs.push_back(tangent_of[c] ? tangent_of[c].value : full(a.in[c], a.in[c].shape(), a.in[c].dtype(), 0).value);
  for (std::size_t i = loop_carries; i < operands; ++i) inputs.push_back(a.in[i].value);
  for (std::size_t i : captured) inputs.push_back(tangent_of[i].value);
  Attrs attrs;
  attrs.set(WhileLoop::carries, static_cast<std::int64_t>(loop_carries + floating.size()));
  const Graph iteration = ops_detail::tangent_iteration(a, loop_carries, floating, captured);
  ops_detail::GradientBody first(iteration, a.where);  // the condition does not look at tangents
  std::vector<Value> args;
  for (Value v : iteration.inputs()) args.push_back(first.input(iteration.type(v)));
  std::vector<Value> own(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(loop_carries));
  const auto captures = args.begin() + static_cast<std::ptrdiff_t>(loop_carries + floating.size());
  own.insert(own.end(), captures, captures + static_cast<std::ptrdiff_t>(operands - loop_carries));
  const std::vector<Value> condition = first.builder.inline_graph(*a.attrs.bodies[0], own);
  attrs.bodies = {std::make_shared<const Graph>(first.builder.finish(condition)),
                  std::make_shared<const Graph>(iteration)};
  const std::vector<Val> results =
      ops_detail::results_of(a, a.in[0].builder->add(op_info<WhileLoop>, inputs, std::move(attrs), a.where));
  ValList grads;
  for (std::size_t i = 0; i < operands; ++i) grads.push_back(Val{});
  for (std::size_t k = 0; k < floating.size(); ++k) grads.push_back(results[loop_carries + k]);
  return grads;
}

}  // namespace ops

namespace ops_detail {

// ---- scan: a scan over the same slices in the opposite order

/// Which values of a scan take part in its derivative, and where they stand in the gradient's scan.
struct ScanGradient {
  ScanGradient(const VjpArgs& a, Tokens tokens) : at(a.attrs, a.in.size() - as_index(tokens)) {
    for (std::size_t i = 0; i < at.operands; ++i) {
      if (!is_floating_operand(a, i)) continue;
      if (i < at.carries) carries.push_back(i);
      else if (a.needs(i)) (i < at.carries + at.xs ? xs : captures).push_back(i);
    }
    for (std::size_t y = at.carries; y < at.carries + at.ys; ++y)
      if (a.douts[y]) ys.push_back(y);
    for (std::size_t s = 0; s < a.attrs[ops::Scan::saved].size(); ++s)
      if (a.douts[at.carries + at.ys + s]) saved.push_back(at.carries + at.ys + s);
  }
  /// The carry whose values result `r` has.
  std::size_t carry_of(const VjpArgs& a, std::size_t r) const {
    return as_index(a.attrs[ops::Scan::saved][r - at.carries - at.ys]);
  }

  ScanLayout at;
  std::vector<std::size_t> carries, xs, captures;  // operands with gradients
  std::vector<std::size_t> ys, saved;              // results whose gradients are known
};

/// Takes the gradients of the carries after the iteration and those of the captures so far, then slices: all carries
/// before the iteration, the xs, the gradients of ys and saved carries; then the captures. Gives the gradients of the
/// carries before the iteration and of the captures, and slices of those of the xs.
inline Graph scan_gradient_body(const VjpArgs& a, const ScanGradient& part) {
  const ScanLayout& at = part.at;
  const Graph& forward = *a.attrs.bodies[0];
  GradientBody body(forward, a.where);
  auto type_of = [&](std::size_t i) { return forward.type(forward.inputs()[i]); };
  std::vector<Value> dcarries, sums, args, dys, dsaved;
  for (std::size_t c : part.carries) dcarries.push_back(body.input(type_of(c)));
  for (std::size_t i : part.captures) sums.push_back(body.input(type_of(i)));
  for (std::size_t i = 0; i < at.carries + at.xs; ++i) args.push_back(body.input(type_of(i)));
  for (std::size_t y : part.ys) dys.push_back(body.input(forward.type(forward.outputs()[y])));
  for (std::size_t s : part.saved) dsaved.push_back(body.input(type_of(part.carry_of(a, s))));
  for (std::size_t i = at.carries + at.xs; i < at.operands; ++i) args.push_back(body.input(type_of(i)));

  const std::vector<Value> results = body.builder.inline_graph(without_effects(forward), args);
  std::vector<Value> outputs, gradients = dcarries, wrt;
  for (std::size_t c : part.carries) outputs.push_back(results[c]);
  for (std::size_t y : part.ys) outputs.push_back(results[y]);
  gradients.insert(gradients.end(), dys.begin(), dys.end());
  for (const auto* list : {&part.carries, &part.captures, &part.xs})
    for (std::size_t i : *list) wrt.push_back(args[i]);
  std::vector<Value> found = a.backward(body.builder, outputs, gradients, wrt);

  std::size_t k = 0;
  for (std::size_t c : part.carries) {
    Val gradient = found[k] ? body.val(found[k]) : Val{};
    for (std::size_t s = 0; s < part.saved.size(); ++s)
      if (part.carry_of(a, part.saved[s]) == c)
        gradient = gradient ? gradient + body.val(dsaved[s]) : body.val(dsaved[s]);
    found[k] = gradient ? gradient.value : body.zeros(wrt[k]).value;
    ++k;
  }
  for (Value sum : sums) {
    found[k] = found[k] ? (body.val(sum) + body.val(found[k])).value : sum;
    ++k;
  }
  for (; k < found.size(); ++k)
    if (!found[k]) found[k] = body.zeros(wrt[k]).value;
  return body.builder.finish(found);
}

/// 0, 1, ..., count - 1.
inline IntVector first_numbers(std::size_t count) {
  IntVector numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(static_cast<std::int64_t>(i));
  return numbers;
}

/// All carries before each iteration: results of the forward scan, or of another one that keeps them.
inline std::vector<Val> saved_carries(const VjpArgs& a, const ScanLayout& at) {
  std::vector<Val> saved(at.carries);
  for (std::size_t s = 0; s < a.attrs[ops::Scan::saved].size(); ++s)
    saved[as_index(a.attrs[ops::Scan::saved][s])] = a.outs[at.carries + at.ys + s];
  bool has_all = true;
  for (const Val& value : saved) has_all = has_all && value;
  if (has_all) return saved;
  Attrs attrs = a.attrs;
  attrs.bodies[0] = std::make_shared<const Graph>(without_effects(*attrs.bodies[0]));
  attrs.set(ops::Scan::saved, first_numbers(at.carries));
  Values inputs;
  for (std::size_t i = 0; i < at.operands; ++i) inputs.push_back(a.in[i].value);
  const std::vector<Val> results =
      results_of(a, a.in[0].builder->add(op_info<ops::Scan>, inputs, std::move(attrs), a.where));
  return {results.end() - static_cast<std::ptrdiff_t>(at.carries), results.end()};
}

SINTER_DECL ValList differentiate_scan(const VjpArgs& a, Tokens tokens) {
  ensure(a.backward != nullptr, "scan: its derivative needs that of graphs");
  const ScanGradient part(a, tokens);
  const ScanLayout& at = part.at;
  auto zeros = [&](std::size_t i) { return full(a.in[i], a.in[i].shape(), a.in[i].dtype(), 0).value; };
  Values inputs;
  for (std::size_t c : part.carries) inputs.push_back(a.douts[c] ? a.douts[c].value : zeros(c));
  for (std::size_t i : part.captures) inputs.push_back(zeros(i));
  const std::size_t carries = inputs.size();
  for (const Val& value : saved_carries(a, at)) inputs.push_back(value.value);
  for (std::size_t i = at.carries; i < at.carries + at.xs; ++i) inputs.push_back(a.in[i].value);
  for (const auto* list : {&part.ys, &part.saved})
    for (std::size_t r : *list) inputs.push_back(a.douts[r].value);
  const std::size_t xs = inputs.size() - carries;
  for (std::size_t i = at.carries + at.xs; i < at.operands; ++i) inputs.push_back(a.in[i].value);

  Attrs attrs;
  attrs.set(ops::Scan::length, a.attrs[ops::Scan::length]);
  attrs.set(ops::Scan::carries, static_cast<std::int64_t>(carries));
  attrs.set(ops::Scan::scanned, static_cast<std::int64_t>(xs));
  attrs.set(ops::Scan::is_reversed, !at.is_reversed);
  attrs.set(ops::Scan::saved, first_numbers(carries));
  attrs.bodies.push_back(std::make_shared<const Graph>(scan_gradient_body(a, part)));
  const std::vector<Val> results =
      results_of(a, a.in[0].builder->add(op_info<ops::Scan>, inputs, std::move(attrs), a.where));

  ValList grads;
  for (std::size_t i = 0; i < a.in.size(); ++i) grads.push_back(Val{});
  std::size_t r = 0;
  for (const auto* list : {&part.carries, &part.captures, &part.xs})
    for (std::size_t i : *list) grads[i] = results[r++];
  return grads;
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
