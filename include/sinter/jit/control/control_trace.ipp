// Traces of bodies become sub-graphs; what they captured becomes operands, the same for all bodies of a node.
#pragma once

#include <sinter/jit/control/control_trace.hpp>

#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <memory>

SINTER_NAMESPACE_BEGIN
namespace jit::control_detail {

/// The trace of one body. Variables that it only reads are operands of the node.
class BodyTrace : public Trace {
 public:
  BodyTrace(std::string_view op, Location where, AssignedVariables& assigned)
      : Trace(op), where_(where), assigned_(assigned) {}
  /// Stands for `value`, or for a slice of it along its first axis.
  Ref<TensorImpl> parameter(const Ref<TensorImpl>& value, bool is_slice);
  /// Placeholders for the Variables known to be assigned, at this place among the parameters.
  void add_variables();
  /// The traced body; the new values of Variables come after the first `before` results.
  TracedBody finish(BodyValues results, std::size_t before) const;
  /// The traced condition of a loop, which must not assign Variables.
  TracedBody finish_condition(const In& outcome) const;

  void note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) override;
  Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>& slot) override;
  /// Throws: a body is one graph.
  std::uint64_t read_value(const Ref<TensorImpl>& value, std::string_view op, Location where) override;

 private:
  Location where_;
  AssignedVariables& assigned_;
  std::vector<Ref<TensorImpl>> parameters_, latest_;  // latest_: by Variable
};

SINTER_DECL Ref<TensorImpl> scalar_value(const Scalar& x) {
  const Leaf& leaf = x.leaf();
  if (leaf.value) return leaf.value;
  const DType dtype = leaf.kind == DTypeClass::floating  ? DType::f64
                      : leaf.kind == DTypeClass::integer ? DType::i64
                                                         : DType::bool_;
  Ref<Storage> storage = Storage::allocate(sizeof(double));
  if (dtype == DType::f64) *static_cast<double*>(storage->data()) = leaf.number;
  else if (dtype == DType::i64) *static_cast<std::int64_t*>(storage->data()) = leaf.integer;
  else *static_cast<bool*>(storage->data()) = leaf.integer != 0;
  Ref<TensorImpl> value = TensorImpl::make_ready({dtype, Device::cpu(), {}}, std::move(storage));
  value->is_weak = true;
  return value;
}

SINTER_DECL Ref<TensorImpl> BodyTrace::parameter(const Ref<TensorImpl>& value, bool is_slice) {
  Type type = value->type;
  if (is_slice) type.shape.erase(0);
  parameters_.push_back(placeholder(type));
  parameters_.back()->is_weak = value->is_weak && !is_slice;
  return parameters_.back();
}

inline Ref<TensorImpl> read_outside(const std::shared_ptr<VariableSlot>& slot, Trace* trace) {
  if (trace != nullptr)
    if (Ref<TensorImpl> value = trace->read_variable(slot)) return value;
  return slot->value();
}

SINTER_DECL OpenBody::OpenBody(std::string_view op, Location where, AssignedVariables& assigned)
    : trace_(new BodyTrace(op, where, assigned)) {}
SINTER_DECL OpenBody::~OpenBody() { delete trace_; }
SINTER_DECL void OpenBody::add_variables() { trace_->add_variables(); }
SINTER_DECL TracedBody OpenBody::finish(BodyValues results, std::size_t before) const {
  return trace_->finish(std::move(results), before);
}
SINTER_DECL TracedBody OpenBody::finish_condition(const In& outcome) const { return trace_->finish_condition(outcome); }

SINTER_DECL TracedBodies::TracedBodies() = default;
SINTER_DECL TracedBodies::TracedBodies(TracedBodies&&) noexcept = default;
SINTER_DECL TracedBodies::~TracedBodies() = default;
SINTER_DECL void TracedBodies::clear() { list_.clear(); }
SINTER_DECL void TracedBodies::add(TracedBody body) { list_.push_back(std::move(body)); }

SINTER_DECL void OpenBody::insert_placeholders(tree::Part part, bool is_slice) {
  struct PlaceholderInserter final : tree::Editor {
    PlaceholderInserter(BodyTrace& open, bool of_slice) : trace(open), is_slice(of_slice) {}
    BodyTrace& trace;
    bool is_slice;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { x = Tensor(trace.parameter(x.impl(), is_slice)); }
    void scalar(Scalar& x) override { x = Scalar(trace.parameter(scalar_value(x), is_slice)); }
    void variable(const Variable&) override {}
  } replace(*trace_, is_slice);
  part.edit(replace);
}

SINTER_DECL BodyValues values_of_leaves(tree::View value) {
  struct Flatten final : tree::Reader {
    BodyValues out;
    void tensor(const Tensor& x) override { out.values.push_back(x.impl()); }
    void scalar(const Scalar& x) override { out.values.push_back(scalar_value(x)); }
    void variable(const Variable&) override { out.fixed.push_back(0); }  // stays what it is
    void fixed(std::int64_t x) override { out.fixed.push_back(x); }
  } flatten;
  value.read(flatten);
  return std::move(flatten.out);
}

SINTER_DECL void fill_leaves(tree::Part part, const Ref<TensorImpl>*& values) {
  struct Fill final : tree::Editor {
    explicit Fill(const Ref<TensorImpl>*& first) : next(first) {}
    const Ref<TensorImpl>*& next;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { x = Tensor(*next++); }
    void scalar(Scalar& x) override {
      (*next)->is_weak = true;
      x = Scalar(*next++);
    }
    void variable(const Variable&) override {}
  } fill(values);
  part.edit(fill);
}

SINTER_DECL std::vector<Ref<TensorImpl>> AssignedVariables::values() const {
  std::vector<Ref<TensorImpl>> values;
  for (const auto& slot : slots) values.push_back(read_outside(slot, Trace::current()));
  return values;
}

SINTER_DECL void AssignedVariables::assign(std::span<const Ref<TensorImpl>> values) const {
  for (std::size_t i = 0; i < slots.size(); ++i) autodiff_detail::assign_outside(slots[i], values[i]);
}

SINTER_DECL void BodyTrace::add_variables() {
  for (const auto& slot : assigned_.slots) latest_.push_back(parameter(read_outside(slot, outer()), false));
}

SINTER_DECL TracedBody BodyTrace::finish(BodyValues results, std::size_t before) const {
  results.values.insert(results.values.begin() + static_cast<std::ptrdiff_t>(before), latest_.begin(), latest_.end());
  return {id(), parameters_, std::move(results), last_effect()};
}

SINTER_DECL TracedBody BodyTrace::finish_condition(const In& outcome) const {
  BodyValues results;
  results.values.push_back(condition_value(name(), outcome, where_));
  bool assigns = assigned_.slots.size() > latest_.size();
  for (std::size_t i = 0; i < latest_.size(); ++i)
    assigns = assigns || latest_[i] != parameters_[parameters_.size() - latest_.size() + i];
  if (assigns)
    throw TraceError(name(), "the condition assigns a Variable", where_,
                     "assign it in the body; random numbers draw from a Variable and belong there too");
  return {id(), parameters_, std::move(results), last_effect()};
}

SINTER_DECL void BodyTrace::note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) {
  for (std::size_t i = 0; i < latest_.size(); ++i) {
    if (assigned_.slots[i] != slot) continue;
    latest_[i] = value;
    return;
  }
  if (std::find(assigned_.slots.begin(), assigned_.slots.end(), slot) == assigned_.slots.end())
    assigned_.slots.push_back(slot);
}

SINTER_DECL Ref<TensorImpl> BodyTrace::read_variable(const std::shared_ptr<VariableSlot>& slot) {
  for (std::size_t i = 0; i < latest_.size(); ++i)
    if (assigned_.slots[i] == slot) return latest_[i];
  return read_outside(slot, outer());
}

SINTER_DECL std::uint64_t BodyTrace::read_value(const Ref<TensorImpl>&, std::string_view op, Location where) {
  throw TraceError(
      op, "a value is read inside a body of " + std::string(name()) + ", which is traced as one graph", where,
      "choose with jit::cond or where(condition, a, b), loop with jit::while_loop, or read it outside of the body");
}

/// Sub-graphs of traced bodies, with what they use from outside.
struct CapturedBodies {
  std::vector<std::shared_ptr<const Graph>> graphs;
  std::vector<Ref<TensorImpl>> captures;
  bool has_effects = false;
};

/// Bodies take their parameters and then the captures of all of them.
inline CapturedBodies capture_bodies(std::span<const TracedBody> bodies) {
  CapturedBodies out;
  auto options_of = [](const TracedBody& body) {
    return CaptureOptions{
        .trace = body.trace, .ready = ReadyLeaf::input, .last_effect = body.last_effect, .stops_gradients = true};
  };
  for (const TracedBody& body : bodies) {
    const Capture first = capture(body.results.values, body.parameters, options_of(body));
    for (std::size_t i = body.parameters.size(); i < first.inputs.size(); ++i)
      if (std::find(out.captures.begin(), out.captures.end(), first.inputs[i]) == out.captures.end())
        out.captures.push_back(first.inputs[i]);
    out.has_effects |= static_cast<bool>(body.last_effect);
  }
  for (const TracedBody& body : bodies) {
    std::vector<Ref<TensorImpl>> known = body.parameters;
    known.insert(known.end(), out.captures.begin(), out.captures.end());
    out.graphs.push_back(std::make_shared<const Graph>(capture(body.results.values, known, options_of(body)).finish()));
  }
  return out;
}

struct NodeKinds {
  const OpInfo& plain;
  const OpInfo& with_effects;
};

/// Records the node. Outside a trace its results are made together, or each would run the loop again.
inline std::vector<Ref<TensorImpl>> record_node(const NodeKinds& kinds, const CapturedBodies& bodies,
                                                std::span<const Ref<TensorImpl>> operands, Attrs attrs,
                                                std::size_t results, Location where) {
  std::vector<Leaf> leaves;
  for (const auto& value : operands) leaves.emplace_back(value);
  for (const auto& value : bodies.captures) leaves.emplace_back(value);
  const OpInfo& op = bodies.has_effects ? kinds.with_effects : kinds.plain;
  std::vector<Ref<TensorImpl>> values = bodies.has_effects ? record_effect(op, leaves, std::move(attrs), where)
                                                           : record_results(op, leaves, std::move(attrs), where);
  values.resize(results);
  if (Trace::current() == nullptr && results > 1) {
    std::vector<TensorImpl*> raw;
    for (const auto& value : values) raw.push_back(value.get());
    evaluate(raw, op.name, where);
  }
  return values;
}

/// A weak number takes the dtype of what it stands beside, if that is of its kind.
inline Ref<TensorImpl> as_type_of(const Ref<TensorImpl>& value, const Type& wanted) {
  if (!value->is_weak || value->type.dtype == wanted.dtype || row(value->type.dtype).kind > row(wanted.dtype).kind)
    return value;
  return cast(In(Tensor(value), Location()), wanted.dtype).impl();
}

inline std::string type_fix(const Type& wanted, const Type& given) {
  if (given.dtype != wanted.dtype) return "cast it: x.to(DType::" + std::string(sinter::name(wanted.dtype)) + ")";
  return given.shape.rank() == wanted.shape.rank() ? "pad or slice it to " + wanted.shape.text()
                                                   : "reshape or reduce it to " + wanted.shape.text();
}

/// Throws unless the result has the type of the carry that it replaces.
inline void check_carry(std::string_view op, std::size_t number, const Type& carry, const Ref<TensorImpl>& given,
                        Location where) {
  const Type& type = given->type;
  const bool same_shape = type.shape == carry.shape;
  if (type.dtype == carry.dtype && same_shape) return;
  const std::string what = "carry " + std::to_string(number) + " changes its type: it starts as " + carry.text() +
                           ", and the body gives " + type.text();
  std::string fix = type_fix(carry, type);
  if (type.dtype != carry.dtype && carry.shape.rank() == 0 && is_floating(type.dtype))
    fix += ", or start with a floating number (0.0)";
  if (!same_shape) throw ShapeError(op, what, line_of(*given, where), fix);
  throw DTypeError(op, what, line_of(*given, where), fix);
}

/// The carries among the results of a body, brought to the types that they started with.
inline void settle_carries(std::string_view op, TracedBody& body, const BodyValues& init, Location where) {
  for (std::size_t i = 0; i < init.values.size(); ++i) {
    body.results.values[i] = as_type_of(body.results.values[i], init.values[i]->type);
    check_carry(op, i, init.values[i]->type, body.results.values[i], where);
  }
}

inline void check_fixed(std::string_view op, const std::vector<std::int64_t>& given,
                        const std::vector<std::int64_t>& wanted, std::string_view what, Location where) {
  if (given != wanted)
    throw UserError(op,
                    std::string(what) + " in their static parts: the sizes of containers, or integers inside a struct",
                    where, "make what changes a Scalar or a Tensor, and keep containers at one size");
}

inline void add_variables(BodyValues& init, const AssignedVariables& assigned) {
  const std::vector<Ref<TensorImpl>> variables = assigned.values();
  init.values.insert(init.values.end(), variables.begin(), variables.end());
}

SINTER_DECL void check_carry_structure(std::string_view op, const BodyValues& given, const BodyValues& init,
                                       Location where) {
  check_fixed(op, given.fixed, init.fixed, "the carries before and after an iteration differ", where);
  if (given.values.size() != init.values.size())
    throw UserError(op,
                    "the body gives " + std::to_string(given.values.size()) + " values for " +
                        std::to_string(init.values.size()) + " carries",
                    where, "give the new value of each carry, in the structure of the first ones");
}

SINTER_DECL Ref<TensorImpl> condition_value(std::string_view op, const In& condition, Location where) {
  const Ref<TensorImpl> value =
      condition.leaf.value
          ? condition.leaf.value
          : scalar_value(Scalar(condition.leaf.kind == DTypeClass::floating ? condition.leaf.number != 0
                                                                            : condition.leaf.integer != 0));
  const Type& type = value->type;
  const Location line = line_of(*value, where);
  if (type.shape.rank() != 0)
    throw ShapeError(op, "the condition is " + type.text() + "; one bool of shape () is required", line,
                     "say which elements decide: all(condition) or any(condition)");
  if (type.dtype != DType::bool_)
    throw DTypeError(op, "the condition is " + type.text() + "; a bool is required", line,
                     "compare it, for instance with > 0");
  return value;
}

SINTER_DECL std::vector<Ref<TensorImpl>> record_switch(std::string_view op, const In& index,
                                                       const TracedBodies& branches, const BodyValues& args,
                                                       const AssignedVariables& assigned) {
  const Location where = index.where;
  Ref<TensorImpl> chosen;
  if (op == "cond") {
    chosen = condition_value(op, index, where);
  } else {
    chosen = index.leaf.value ? index.leaf.value : scalar_value(Scalar(index.leaf.integer));
    if (index.leaf.value == nullptr && index.leaf.kind == DTypeClass::floating)
      throw DTypeError(op, "the index is a floating number; an integer is required", where);
    if (chosen->type.shape.rank() != 0)
      throw ShapeError(op, "the index is " + chosen->type.text() + "; one integer of shape () is required", where);
    if (is_floating(chosen->type.dtype))
      throw DTypeError(op, "the index is " + chosen->type.text() + "; an integer is required", where,
                       "cast it: index.to(DType::i64)");
  }
  const std::vector<TracedBody>& list = branches.list();
  const BodyValues& first = list[0].results;
  for (std::size_t b = 1; b < list.size(); ++b) {
    const BodyValues& other = list[b].results;
    check_fixed(op, other.fixed, first.fixed, "the results of the branches differ", where);
    ensure(other.values.size() == first.values.size(), "switch: branches of one structure give as many values");
    for (std::size_t r = 0; r < first.values.size(); ++r) {
      const Type &a = first.values[r]->type, &type = other.values[r]->type;
      if (a.dtype == type.dtype && a.shape == type.shape) continue;
      const bool is_cond = op == "cond";  // its bodies are {else, then}
      const std::string what = "result " + std::to_string(r) + " is " + (is_cond ? type.text() : a.text()) + " from " +
                               (is_cond ? "the first branch" : "branch 0") + ", and " +
                               (is_cond ? a.text() : type.text()) + " from " +
                               (is_cond ? "the second" : "branch " + std::to_string(b));
      const Location line = line_of(*other.values[r], where);
      if (a.dtype != type.dtype) throw DTypeError(op, what, line, "branches give the same types; " + type_fix(a, type));
      throw ShapeError(op, what, line, "branches give the same types; " + type_fix(a, type));
    }
  }
  const CapturedBodies bodies = capture_bodies(list);
  std::vector<Ref<TensorImpl>> operands{chosen};
  operands.insert(operands.end(), args.values.begin(), args.values.end());
  const std::vector<Ref<TensorImpl>> variables = assigned.values();
  operands.insert(operands.end(), variables.begin(), variables.end());
  Attrs attrs;
  attrs.bodies = bodies.graphs;
  std::vector<Ref<TensorImpl>> results = record_node({op_info<ops::Switch>, op_info<ops::SwitchWithEffects>}, bodies,
                                                     operands, std::move(attrs), first.values.size(), where);
  assigned.assign(std::span(results).last(variables.size()));
  return results;
}

SINTER_DECL std::vector<Ref<TensorImpl>> record_while(Location where, TracedBody condition, TracedBody body,
                                                      BodyValues init, const AssignedVariables& assigned) {
  constexpr std::string_view op = "while_loop";
  add_variables(init, assigned);
  check_carry_structure(op, body.results, init, where);
  const std::size_t carries = init.values.size();
  settle_carries(op, body, init, where);
  if (carries == 0)
    throw UserError(op, "there is no carry, so the condition could never change", where,
                    "pass what the loop changes as initial values");
  const TracedBody both[] = {std::move(condition), std::move(body)};
  CapturedBodies bodies = capture_bodies(both);
  // An iteration gives the condition for the next one as well: one plan per iteration instead of two.
  GraphBuilder iteration;
  std::vector<Value> operands;
  for (Value v : bodies.graphs[1]->inputs()) operands.push_back(iteration.input(bodies.graphs[1]->type(v)));
  std::vector<Value> outputs = iteration.inline_graph(*bodies.graphs[1], operands);
  std::copy(outputs.begin(), outputs.end(), operands.begin());
  outputs.push_back(iteration.inline_graph(*bodies.graphs[0], operands)[0]);
  bodies.graphs[1] = std::make_shared<const Graph>(iteration.finish(outputs));
  Attrs attrs;
  attrs.set(ops::WhileLoop::carries, static_cast<std::int64_t>(carries));
  attrs.bodies = bodies.graphs;
  std::vector<Ref<TensorImpl>> results = record_node({op_info<ops::WhileLoop>, op_info<ops::WhileLoopWithEffects>},
                                                     bodies, init.values, std::move(attrs), carries, where);
  assigned.assign(std::span(results).last(assigned.slots.size()));
  return results;
}

SINTER_DECL std::vector<Ref<TensorImpl>> record_scan(std::string_view op, Location where, TracedBody body,
                                                     BodyValues init, const BodyValues& xs, const ScanSpec& scan,
                                                     const AssignedVariables& assigned) {
  const std::size_t own_carries = init.values.size();
  add_variables(init, assigned);
  settle_carries(op, body, init, where);
  const std::size_t results = body.results.values.size();
  const CapturedBodies bodies = capture_bodies({&body, 1});
  std::vector<Ref<TensorImpl>> operands = init.values;
  operands.insert(operands.end(), xs.values.begin(), xs.values.end());
  Attrs attrs;
  attrs.set(ops::Scan::length, scan.length);
  attrs.set(ops::Scan::carries, static_cast<std::int64_t>(init.values.size()));
  attrs.set(ops::Scan::scanned, static_cast<std::int64_t>(xs.values.size()));
  attrs.set(ops::Scan::is_reversed, scan.is_reversed);
  attrs.bodies = bodies.graphs;
  IntVector saved;
  for (std::size_t c = 0; c < init.values.size(); ++c)  // for a derivative; goes where there is none
    if (init.values[c]->type.shape.rank() < max_rank) saved.push_back(static_cast<std::int64_t>(c));
  if (!bodies.has_effects || Trace::current() != nullptr) attrs.set(ops::Scan::saved, saved);
  std::vector<Ref<TensorImpl>> values = record_node({op_info<ops::Scan>, op_info<ops::ScanWithEffects>}, bodies,
                                                    operands, std::move(attrs), results, where);
  const auto variables = values.begin() + static_cast<std::ptrdiff_t>(own_carries),
             end = variables + static_cast<std::ptrdiff_t>(assigned.slots.size());
  assigned.assign(std::vector<Ref<TensorImpl>>(variables, end));
  values.erase(variables, end);
  return values;
}

SINTER_DECL Dim scan_length(std::span<const Ref<TensorImpl>> xs, std::int64_t given, Location where) {
  constexpr std::string_view op = "scan";
  if (given < 0 && given != -1)
    throw UserError(op, "the length is " + std::to_string(given), where, "a number of iterations is not negative");
  if (xs.empty() && given < 0)
    throw UserError(op, "xs holds no tensor, so the number of iterations is not known", where,
                    "give it: scan(f, init, std::tuple{}, {.length = n})");
  Dim length = given;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Type& type = xs[i]->type;
    if (type.shape.rank() == 0)
      throw ShapeError(op, "xs " + std::to_string(i) + " is " + type.text() + ", which has no axis to go along", where,
                       "capture what does not change from iteration to iteration");
    if (i == 0 && given < 0) length = type.shape[0];
    else if (!(type.shape[0] == length))
      throw ShapeError(
          op, "xs " + std::to_string(i) + " is " + type.text() + ", but " + length.text() + " iterations are made",
          where, "all xs have the same extent in axis 0");
  }
  return length;
}

SINTER_DECL Dim trip_count(Dim lower, Dim upper, Location where) {
  const Dim count = upper - lower;
  if (count.is_static() && count.value() < 0)
    throw UserError("fori_loop", "the trip count is negative: from " + lower.text() + " up to " + upper.text(), where,
                    "exchange the bounds, and count down inside the body");
  return count;
}

}  // namespace jit::control_detail
SINTER_NAMESPACE_END
