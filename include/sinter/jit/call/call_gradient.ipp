// The derivative of an entry, and its rule on the tape.
#pragma once

#include <sinter/jit/call/call_gradient.hpp>

#include <sinter/autodiff/tape.hpp>
#include <sinter/autodiff/tape_session.hpp>
#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/background.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/effects/custom_run.hpp>
#include <sinter/jit/tune/plan_tuner.hpp>
#include <sinter/ops/compiled_call.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/keep_or_recompute.hpp>
#include <sinter/runtime/executor.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

// ---- guards ---------------------------------------------------------------------------------------------------------

SINTER_DECL bool is_on_tape(const TensorImpl& value) {
  return value.tape.load(std::memory_order_relaxed) != TapeState::none && is_differentiable(value.type.dtype);
}
SINTER_DECL bool is_on_tape(const VariableSlot& slot) {
  ReadSection reading;
  return slot.gradient() != nullptr || is_on_tape(*slot.peek(reading));
}
SINTER_DECL bool is_on_tape(const ArgLeaf& leaf) {
  if (leaf.slot != nullptr && leaf.slot->gradient() != nullptr) return true;
  return leaf.impl != nullptr && is_on_tape(*leaf.impl);
}

SINTER_DECL bool hooks_hold(std::span<const HookGuard> hooks) {
  return std::all_of(hooks.begin(), hooks.end(), [](const HookGuard& guard) {
    return autodiff_detail::hooks_revision(*guard.gradient) == guard.revision;
  });
}

SINTER_DECL TapeGuard tape_guard_of(std::span<const ArgLeaf> args,
                                    std::span<const std::shared_ptr<VariableSlot>> captured) {
  TapeGuard guard;
  const bool is_on = is_tape_on();
  for (const ArgLeaf& leaf : args) guard.leaves.push_back(is_on && is_on_tape(leaf));
  for (const auto& slot : captured) guard.captured.push_back(is_on && is_on_tape(*slot->here()));
  const auto is_set = [](std::uint8_t flag) { return flag != 0; };
  guard.is_needed = std::any_of(guard.leaves.begin(), guard.leaves.end(), is_set) ||
                    std::any_of(guard.captured.begin(), guard.captured.end(), is_set);
  return guard;
}

SINTER_DECL bool tape_fits(const Entry& entry, const ArgList& args) {
  const TapeGuard& guard = entry.tape;
  const bool is_on = is_tape_on();
  if ((is_on && guard.serves_off) || !hooks_hold(guard.hooks)) return false;
  if (is_on && (args.has_places ? entry.gives_tape() : entry.drops_tape.load(std::memory_order_relaxed))) return false;
  for (std::size_t i = 0; i < args.leaves().size(); ++i)
    if ((is_on && is_on_tape(args.leaves()[i])) != (guard.is_needed && guard.leaves[i] != 0)) return false;
  for (std::size_t i = 0; i < entry.held.captured.size(); ++i) {
    const bool is_wanted = is_on && is_on_tape(*entry.held.captured[i]->here());
    if (is_wanted != (guard.is_needed && guard.captured[i] != 0)) return false;
  }
  return true;
}

// ---- the derivative of an entry -------------------------------------------------------------------------------------

/// The same graph with other outputs, in which symbols are those of other inputs.
inline Graph with_outputs(const Graph& graph, std::span<const Value> outputs) {
  GraphBuilder builder(graph);
  for (const Node& node : graph.nodes()) builder.copy(node, node.inputs);  // ids stay
  return builder.finish(outputs);
}

SINTER_DECL std::shared_ptr<const CallGradient> make_gradient(Graph program, std::span<const std::uint8_t> wanted,
                                                              std::vector<std::uint8_t> on_tape, PlanChoices choices) {
  auto gradient =
      std::make_shared<const CallGradient>(std::move(program), wanted, std::move(on_tape), std::move(choices));
  return gradient->is_empty() ? nullptr : gradient;
}

SINTER_DECL CallGradient::CallGradient(Graph program, std::span<const std::uint8_t> wanted,
                                       std::vector<std::uint8_t> on_tape, PlanChoices choices)
    : program_(std::move(program)),
      wanted_(wanted.begin(), wanted.end()),
      on_tape_(std::move(on_tape)),
      choices_(std::move(choices)) {
  std::vector<std::uint8_t> given = on_tape_;
  given.resize(program_.outputs().size());  // of what Variables become there is no gradient
  try {
    derivative_ = differentiate_program(program_, wanted, given);
  } catch (const Error&) {
    derivative_ = {};
    failure_ = std::current_exception();
  }
  forward_ = std::make_shared<const Graph>(program_);
  if (derivative_.backward) put_saved_before_assigned();
}

SINTER_DECL CallGradient::CallGradient(Graph program, std::span<const std::uint8_t> wanted,
                                       std::vector<std::uint8_t> on_tape, PlanChoices choices,
                                       std::span<const Value> stops)
    : wanted_(wanted.begin(), wanted.end()), on_tape_(std::move(on_tape)), choices_(std::move(choices)) {
  try {
    derivative_ = differentiate_path(program, wanted, on_tape_, stops);
  } catch (const Error&) {
    derivative_ = {};
    failure_ = std::current_exception();
  }
  forward_ = derivative_.backward ? derivative_.forward : std::make_shared<const Graph>(program);
  saved_count_ = forward_->outputs().size() - on_tape_.size();
  program_ = with_stops(program, stops);
}

SINTER_DECL Graph with_stops(const Graph& graph, std::span<const Value> stops) {
  if (stops.empty()) return graph;
  GraphBuilder builder(graph);
  std::vector<Values> moved(graph.nodes().size());  // by node, per result
  const auto now = [&](Value v) { return moved[as_index(v.node)][as_index(v.result)]; };
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    Values operands;
    for (Value v : node.inputs) operands.push_back(now(v));
    const Value made = builder.copy(node, operands);
    for (std::size_t r = 0; r < node.types.size(); ++r) {
      const Value old{static_cast<std::int32_t>(id), static_cast<std::int32_t>(r)};
      Value result{made.node, old.result};
      if (std::find(stops.begin(), stops.end(), old) != stops.end())
        result =
            builder.add_typed(op_info<ops::StopGradient>, {&result, 1}, {}, TypeList(1, node.types[r]), node.where);
      moved[id].push_back(result);
    }
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(now(v));
  return builder.finish(outputs);
}

SINTER_DECL void CallGradient::put_saved_before_assigned() {
  const Graph& whole = *derivative_.forward;
  const std::size_t results = on_tape_.size(), given = program_.outputs().size();
  std::vector<Value> outputs(whole.outputs().begin(), whole.outputs().begin() + static_cast<std::ptrdiff_t>(results));
  for (std::uint32_t& saved : derivative_.saved) {
    if (saved < results) continue;
    outputs.push_back(whole.outputs()[saved]);
    saved = static_cast<std::uint32_t>(outputs.size() - 1);
  }
  saved_count_ = outputs.size() - results;
  for (std::size_t i = results; i < given; ++i) outputs.push_back(whole.outputs()[i]);
  forward_ = std::make_shared<const Graph>(with_outputs(whole, outputs));
  derivative_.forward = nullptr;
}

SINTER_DECL CallGradient::Code CallGradient::code_by(const std::string& backend) const {
  const Graph& graph = *derivative_.backward;
  Code made;
  Graph optimised = run_passes_for(backend, graph, choices_.precision);
  std::vector<std::uint8_t> is_number;
  made.takes_float.resize(graph.inputs().size());
  for (std::uint32_t i : derivative_.operands) is_number.push_back(choices_.is_number[i]);
  is_number.resize(graph.inputs().size());
  if (backend != "eager") optimised = narrow_numbers(optimised, is_number, made.takes_float);
  PlanOptions options =
      plan_options(optimised, backend, {}, is_unfused_backend(backend) ? FusionChoices(false) : choices_.fuse, graph,
                   choices_.precision);
  options.as_one = choices_.as_one;
  options.allow_fallback |= choices_.allow_fallback;
  made.plan = choices_.is_tuned ? tuned_plan(optimised, options, {choices_.tune_seconds, choices_.where})
                                : build_plan(optimised, options);
  return made;
}

SINTER_DECL const CallGradient::Code& CallGradient::publish(Code made) const {
  auto owned = std::make_unique<const Code>(std::move(made));
  std::scoped_lock lock(mutex_);
  published_.store(owned.get(), std::memory_order_release);
  return *codes_.emplace_back(std::move(owned));
}

SINTER_DECL const CallGradient::Code& CallGradient::code() const {
  if (const Code* known = published_.load(std::memory_order_acquire)) {
    if (SINTER_UNLIKELY(choices_.in_background) && background_ != nullptr) background_->check();
    return *known;
  }
  Code made = code_by(choices_.in_background ? "eager" : choices_.backend);
  auto owned = std::make_unique<const Code>(std::move(made));
  {
    std::scoped_lock lock(mutex_);
    if (const Code* known = published_.load(std::memory_order_acquire)) return *known;
    if (choices_.in_background) background_ = std::make_shared<BackgroundState>();
    published_.store(owned.get(), std::memory_order_release);
    codes_.push_back(std::move(owned));
  }
  if (choices_.in_background) make_in_background();
  return *published_.load(std::memory_order_acquire);
}

SINTER_DECL void CallGradient::make_in_background() const {
  struct Job final : base_detail::BackgroundJob {
    std::weak_ptr<const CallGradient> gradient;
    BackgroundWork work;
    std::shared_ptr<const Graph> graph;
    void run() noexcept override {
      jit_detail::make_in_background(work, *graph, [this] {
        if (gradient.expired()) return;
        const std::shared_ptr<const CallGradient> alive = gradient.lock();
        if (alive != nullptr) alive->publish(alive->code_by(alive->choices_.backend));
      });
    }
  };
  std::shared_ptr<Job> job;
  try {
    job = std::make_shared<Job>();
    job->gradient = weak_from_this();
    job->work.state = background_;
    job->work.choices.backend = choices_.backend;
    job->work.choices.where = choices_.where;
    job->work.suppresses_errors = choices_.suppresses_errors;
    job->graph = derivative_.backward;
    background_->submit(std::move(job));
  } catch (...) {
    background_->leave_uncompiled("out of memory");
    background_->finish_one();
    throw;
  }
}

SINTER_DECL Type CallGradient::result_type(std::size_t result, std::span<const std::int64_t> symbols) const {
  Type type = program_.type(program_.outputs()[result]);
  for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape.set(axis, Dim(type.shape[axis].evaluate(symbols)));
  return type;
}

SINTER_DECL const GraphFunction& CallGradient::function(std::span<const Tensor> inputs) const {
  std::shared_ptr<const GraphFunction> known;
  {
    std::scoped_lock lock(mutex_);
    if (function_ != nullptr) return *function_;
  }
  known = std::make_shared<const GraphFunction>(choices_.compile(*derivative_.backward, inputs));
  if (!*known)
    throw UserError("backward", "the back end returned an empty function for the backward graph", {},
                    "throw an exception to refuse a graph");
  std::scoped_lock lock(mutex_);
  if (function_ == nullptr) function_ = std::move(known);
  return *function_;
}

SINTER_DECL Partition CallGradient::partition() const {
  if (failure_) std::rethrow_exception(failure_);
  Partition out;
  out.forward = *forward_;
  out.backward = *derivative_.backward;
  out.results = on_tape_.size();
  for (std::uint32_t output : derivative_.saved) {
    const Value v = forward_->outputs()[output];
    const Node& node = forward_->node(v);
    out.saved.push_back({output, std::string(node.op->name), forward_->type(v), bytes_of(*forward_, v), node.where});
  }
  for (const CallDerivative::Repeated& node : derivative_.repeated)
    out.repeated.push_back({std::string(node.op), node.type, node.where});
  out.operands.assign(derivative_.operands.begin(), derivative_.operands.end());
  out.gradients.assign(derivative_.gradients.begin(), derivative_.gradients.end());
  for (std::size_t r = 0; r < on_tape_.size(); ++r)
    if (on_tape_[r] != 0) out.given.push_back(r);
  return out;
}

SINTER_DECL std::int64_t CallGradient::saved_bytes() const {
  std::int64_t bytes = 0;
  for (std::uint32_t output : derivative_.saved)
    if (output >= on_tape_.size()) bytes += bytes_of(*forward_, forward_->outputs()[output]);
  return bytes;
}
SINTER_DECL std::int64_t CallGradient::backward_bytes() const {
  const Code* made = published_.load(std::memory_order_acquire);
  return made != nullptr ? made->plan->held_bytes() : 0;
}

SINTER_DECL std::shared_ptr<const Plan> CallGradient::compiled_plan() const {
  const Code* made = published_.load(std::memory_order_acquire);
  return made != nullptr ? made->plan : nullptr;
}
SINTER_DECL std::string CallGradient::text() const {
  if (failure_) return "gradient: none, which the first backward() says\n";
  const Code* code = published_.load(std::memory_order_acquire);
  const Plan* made = code != nullptr ? code->plan.get() : nullptr;
  return "gradient: a call keeps " + std::to_string(derivative_.saved.size()) + " values, " +
         std::to_string(saved_bytes()) + " bytes beside its results, for\n" + derivative_.backward->text() + "\n" +
         (made != nullptr ? "plan of the gradient, which holds " + std::to_string(made->held_bytes()) +
                                " bytes between its kernels:\n" + made->text() + "\n"
                          : std::string());
}

}  // namespace jit::jit_detail

namespace jit {
SINTER_DECL std::int64_t Partition::saved_bytes() const {
  std::int64_t bytes = 0;
  for (const Saved& value : saved)
    if (value.output >= results) bytes += value.bytes;
  return bytes;
}
SINTER_DECL std::string Partition::text() const {
  const auto at = [](Location where) { return where.text().empty() ? std::string() : " at " + where.text(); };
  std::string text;
  for (const Saved& value : saved)
    text += (value.output < results ? "result " + std::to_string(value.output) + ": " : "saved: ") + value.type.text() +
            ", of " + value.op + at(value.where) + "\n";
  for (const Repeated& node : repeated)
    text += "computed again: " + node.type.text() + ", " + node.op + at(node.where) + "\n";
  return text + "forward: " + forward.text() + "\nbackward: " + backward.text() + "\n";
}
}  // namespace jit

namespace jit::jit_detail {

// ---- the rule -------------------------------------------------------------------------------------------------------

/// The derivative of one call: the code, and the sizes it ran with.
class CallGradientRule final : public CallRule {
 public:
  CallGradientRule(std::shared_ptr<const CallGradient> code, std::span<const std::int64_t> symbols)
      : code_(std::move(code)) {
    for (std::int64_t value : symbols) symbols_.push_back(value);
  }
  ValList vjp(const VjpArgs& args) const override;
  std::vector<Gradient> run(std::span<const Ref<TensorImpl>> operands, std::span<const Ref<TensorImpl>> douts,
                            Location where) const override;
  std::shared_ptr<const Graph> forward() const override;

 private:
  /// At the sizes of the call.
  Graph instance_of(const Graph& graph) const {
    std::vector<Dim> sizes;
    for (std::int64_t value : symbols_) sizes.emplace_back(value);
    return substitute_symbols(graph, sizes, {}).with_symbols({});
  }
  /// What the backward code takes: operands and saved values, then gradients of the results; zeros where there is none.
  std::vector<Val> operands(const VjpArgs& args) const;
  /// Of these inputs of the backward code.
  std::vector<Ref<TensorImpl>> execute_on(std::vector<Ref<TensorImpl>> inputs, Location where) const;
  /// As that, by what PlanChoices::compile gave.
  std::vector<Ref<TensorImpl>> custom_values(std::span<const Ref<TensorImpl>> inputs, Location where) const;
  std::vector<Value> computed(autodiff_detail::TapeSession& session, std::span<const Val> operands,
                              Location where) const;

  std::shared_ptr<const CallGradient> code_;
  SmallVector<std::int64_t, 8> symbols_;
};

SINTER_DECL std::shared_ptr<const Graph> CallGradientRule::forward() const {
  const Graph& program = code_->program_;
  const Graph results = with_outputs(program, program.outputs().first(code_->results()));
  return std::make_shared<const Graph>(instance_of(Dce{.drops_effects = true}(results)));
}

SINTER_DECL std::vector<Val> CallGradientRule::operands(const VjpArgs& args) const {
  const auto inputs = as_index(args.attrs[ops::CompiledCall::inputs]);
  const CallDerivative& derivative = code_->derivative_;
  std::vector<Val> operands;
  for (std::uint32_t i : derivative.operands) operands.push_back(args.in[i]);
  for (std::size_t i = 0; i < derivative.saved.size(); ++i) operands.push_back(args.in[inputs + i]);
  for (std::size_t r = 0; r < code_->results(); ++r) {
    if (!code_->is_on_tape(r)) continue;
    operands.push_back(args.douts[r] ? args.douts[r] : full_like(args.outs[r], 0));
  }
  return operands;
}

SINTER_DECL std::vector<Ref<TensorImpl>> CallGradientRule::execute_on(std::vector<Ref<TensorImpl>> inputs,
                                                                      Location where) const {
  if (code_->choices_.compile) return custom_values(inputs, where);
  const CallGradient::Code& code = code_->code();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_narrowed = code.takes_float[i] != 0;
    if (!is_narrowed && inputs[i]->is_ready() && inputs[i]->is_dense()) continue;
    Tensor input(inputs[i]);
    if (is_narrowed) input = cast(input, DType::f32);
    inputs[i] = dense_value(In(input, where), "backward");
  }
  return execute(*code.plan, symbols_, inputs);
}

SINTER_DECL std::vector<Ref<TensorImpl>> CallGradientRule::custom_values(std::span<const Ref<TensorImpl>> inputs,
                                                                         Location where) const {
  std::vector<Tensor> given;
  for (const auto& input : inputs) given.emplace_back(input);
  NoGradGuard no_grad;
  std::vector<Tensor> outputs = code_->function(given)(given);
  const Graph& graph = *code_->derivative_.backward;
  std::vector<Type> wanted;
  for (Value v : graph.outputs()) wanted.push_back(graph.type(v));
  check_custom_outputs(outputs, wanted, symbols_, "backward", where);
  std::vector<Ref<TensorImpl>> values;
  for (Tensor& output : outputs) values.push_back(std::move(output).take());
  return values;
}

SINTER_DECL std::vector<CallRule::Gradient> CallGradientRule::run(std::span<const Ref<TensorImpl>> operands,
                                                                  std::span<const Ref<TensorImpl>> douts,
                                                                  Location where) const {
  if (code_->failure_) std::rethrow_exception(code_->failure_);
  const CallDerivative& derivative = code_->derivative_;
  const std::size_t inputs = code_->program_.inputs().size();
  std::vector<Ref<TensorImpl>> given;
  for (std::uint32_t i : derivative.operands) given.push_back(operands[i]);
  for (std::size_t i = 0; i < derivative.saved.size(); ++i) given.push_back(operands[inputs + i]);
  for (std::size_t r = 0; r < code_->results(); ++r) {
    if (!code_->is_on_tape(r)) continue;
    const Type type = code_->result_type(r, symbols_);
    given.push_back(douts[r] ? douts[r] : full(type.shape, 0, {.dtype = type.dtype, .device = type.device}).impl());
  }
  const std::vector<Ref<TensorImpl>> values = execute_on(std::move(given), where);
  std::vector<Gradient> gradients;
  for (std::size_t i = 0; i < values.size(); ++i) gradients.push_back({derivative.gradients[i], values[i]});
  return gradients;
}

SINTER_DECL std::vector<Value> CallGradientRule::computed(autodiff_detail::TapeSession& session,
                                                          std::span<const Val> operands, Location where) const {
  std::vector<Value> wanted;
  for (const Val& operand : operands) wanted.push_back(operand.value);
  std::vector<Value> gradients;
  for (Ref<TensorImpl>& gradient : execute_on(session.values(wanted), where))
    gradients.push_back(session.add(std::move(gradient), where));
  return gradients;
}

SINTER_DECL ValList CallGradientRule::vjp(const VjpArgs& args) const {
  if (code_->failure_) std::rethrow_exception(code_->failure_);
  GraphBuilder& builder = *args.in[0].builder;
  const std::vector<Val> given = operands(args);
  std::vector<Value> gradients;
  if (auto* session = autodiff_detail::TapeSession::of(builder)) {
    gradients = computed(*session, given, args.where);
  } else {
    std::vector<Value> values;
    for (const Val& operand : given) values.push_back(operand.value);
    Attrs attrs;
    attrs.bodies.push_back(std::make_shared<const Graph>(instance_of(*code_->derivative_.backward)));
    const Value call = builder.add(op_info<ops::Region>, values, std::move(attrs), args.where);
    for (std::size_t i = 0; i < code_->derivative_.gradients.size(); ++i)
      gradients.push_back({call.node, static_cast<std::int32_t>(i)});
  }
  ValList out;
  for (std::size_t i = 0; i < args.in.size(); ++i) out.push_back(Val{});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    out[code_->derivative_.gradients[i]] = Val{&builder, gradients[i], args.where};
  return out;
}

SINTER_DECL SharedAttrs TapeAttrs::of(const std::shared_ptr<const CallGradient>& gradient,
                                      std::span<const std::int64_t> symbols) {
  std::scoped_lock lock(mutex_);
  if (is_made_ && std::equal(symbols_.begin(), symbols_.end(), symbols.begin(), symbols.end())) return attrs_;
  const Graph& program = gradient->program_;
  Attrs attrs;
  attrs.set(ops::CompiledCall::inputs, static_cast<std::int64_t>(program.inputs().size()));
  for (std::size_t r = 0; r < gradient->results(); ++r) { attrs.types.push_back(gradient->result_type(r, symbols)); }
  attrs.payload = std::make_shared<const CallGradientRule>(gradient, symbols);
  attrs_ = std::move(attrs);
  symbols_.clear();
  for (std::int64_t value : symbols) symbols_.push_back(value);
  is_made_ = true;
  return attrs_;
}

// ---- a call on the tape ---------------------------------------------------------------------------------------------

/// A number among the arguments as a value.
inline Ref<TensorImpl> value_of_number(const ArgLeaf& leaf) {
  const DType dtype = leaf.number_kind == DTypeClass::floating  ? DType::f64
                      : leaf.number_kind == DTypeClass::integer ? DType::i64
                                                                : DType::bool_;
  Ref<Storage> storage = Storage::allocate(sizeof(std::int64_t));
  std::memcpy(storage->data(), &leaf.integer, sizeof(std::int64_t));
  return TensorImpl::make_ready({dtype, Device::cpu(), {}}, std::move(storage));
}

/// What the tape holds of a Variable that the code reads: a leaf of its own, or just the value.
inline Ref<TensorImpl> variable_on_tape(VariableSlot& slot, TensorImpl* value, bool is_wanted) {
  Ref<TensorImpl> held = Ref<TensorImpl>::share(value);
  if (is_wanted) return slot.gradient() != nullptr ? tape_leaf(held, slot.shared_from_this()) : held;
  return value->tape.load(std::memory_order_relaxed) == TapeState::none ? held : record_alias(held);
}

inline Ref<TensorImpl> input_on_tape(const PlanInput& input, TensorImpl* value, const ArgList& args, bool is_wanted) {
  switch (input.source) {
    case PlanInput::Source::leaf: break;
    case PlanInput::Source::captured: return variable_on_tape(*input.slot->here(), value, is_wanted);
    case PlanInput::Source::carried:
    case PlanInput::Source::eager: return Ref<TensorImpl>::share(value);
  }
  const ArgLeaf& leaf = args.leaves()[as_index(input.index)];
  if (leaf.slot != nullptr) return variable_on_tape(*leaf.slot, leaf.impl, is_wanted);
  if (leaf.kind == LeafKind::scalar) return value_of_number(leaf);
  if (leaf.impl == nullptr) return expr_detail::copy_strided(*leaf.type, leaf.data, *leaf.strides).impl();
  return Ref<TensorImpl>::share(leaf.impl);
}

SINTER_DECL std::vector<Leaf> inputs_on_tape(const CallGradient& gradient, std::span<const PlanInput> inputs,
                                             std::span<TensorImpl* const> values, const ArgList& args) {
  std::vector<Leaf> leaves;
  leaves.reserve(inputs.size() + gradient.saved().size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    leaves.emplace_back(input_on_tape(inputs[i], values[i], args, gradient.is_wanted(i)));
  return leaves;
}

SINTER_DECL TapedCall::TapedCall(const CallGradient& gradient, SharedAttrs attrs, std::vector<Leaf> inputs,
                                 Location where)
    : gradient_(gradient), inputs_(inputs.size()) {
  inputs.resize(inputs_ + gradient.saved().size());
  node_ = PendingNode::make(inputs);
  node_->op = &op_info<ops::CompiledCall>;
  node_->attrs = std::move(attrs);
  node_->where = where;
  node_->results = static_cast<std::uint16_t>(gradient.results());
  for (std::size_t r = 0; r < gradient.results(); ++r) {
    made_.emplace_back();
    if (gradient.is_on_tape(r)) made_.back() = TensorImpl::make(node_->attrs->types[r]);
  }
}

SINTER_DECL void TapedCall::deliver(std::span<Ref<TensorImpl>> values, Ref<TensorImpl>* results) noexcept {
  for (std::size_t i = 0; i < gradient_.saved().size(); ++i)
    node_->leaves()[inputs_ + i].value = values[gradient_.saved()[i]];
  for (std::size_t r = 0; r < made_.size(); ++r) {
    if (!made_[r]) {
      results[r] = std::move(values[r]);
      continue;
    }
    TensorImpl& made = *made_[r];
    made.storage = values[r]->storage;
    made.offset = values[r]->offset;
    made.strides = values[r]->strides;
    made.result = static_cast<std::uint16_t>(r);
    made.tape.store(TapeState::node, std::memory_order_relaxed);
    made.pending_node = Ref<PendingNode>(node_).detach();
    results[r] = std::move(made_[r]);
  }
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
