// Finding the version that takes the arguments, and recording it.
#pragma once

#include <sinter/jit/saved/replay.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/eager_call.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/guard_text.hpp>
#include <sinter/jit/call/leaf_names.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/saved/saved_function.hpp>
#include <sinter/ops/join.hpp>
#include <sinter/ops/view.hpp>

#include <algorithm>
#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL std::optional<GuardSet> FunctionState::saved_specs(const ArgList& args) const {
  Symbols symbols;
  for (const SavedVersion& version : saved_->function.versions)
    if (version.guards.holds(args.leaves(), symbols)) return version.guards.specs();
  return {};
}

namespace jit_detail {

SINTER_DECL std::shared_ptr<VariableSlot> slot_now(const SavedVariable& variable) {
  using Role = VariableSlot::PerThreadRole;
  if (variable.role == Role::none) return variable.slot;
  const Generator& generator = Generator::current();
  return (variable.role == Role::random_key ? generator.key : generator.counter).slot();
}

/// A Variable as Variable::value() reads it.
inline Ref<TensorImpl> read_slot_now(const std::shared_ptr<VariableSlot>& slot) {
  Trace* trace = Trace::current();
  if (trace == nullptr) EagerSection::check_read(*slot);
  Ref<TensorImpl> value = trace != nullptr ? trace->read_variable(slot) : slot->value();
  return slot->gradient() != nullptr ? tape_leaf(value, slot) : value;
}
inline void assign_slot_now(const std::shared_ptr<VariableSlot>& slot, Ref<TensorImpl> value) {
  if (Trace* trace = Trace::current()) return trace->note_assignment(slot, value);
  EagerSection::check_assign(*slot);
  slot->set(value_to_store(*slot, std::move(value)));
}

/// What an extent is in this call, without asking: that would become a guard.
inline std::int64_t number_now(Dim extent) {
  if (extent.is_static()) return extent.value();
  const SymbolScope* scope = SymbolScope::current();
  if (scope == nullptr) throw TraceError("load", "an extent is a symbol, and no function is being traced");
  std::vector<SymbolId> used;
  extent.collect_symbols(used);
  std::vector<std::int64_t> values;
  for (SymbolId id : used) {
    if (values.size() <= id) values.resize(std::size_t{id} + 1);
    values[id] = scope->value_of(id);
  }
  return extent.evaluate(values);
}

/// The arguments of a call of a saved function, as leaves.
class SavedArguments final : public tree::Reader {
 public:
  explicit SavedArguments(std::span<const tree::View> arguments) {
    for (const tree::View& argument : arguments) argument.read(*this);
    types_.reserve(values.size());
    strides_.reserve(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ArgLeaf& leaf = leaves_[i];
      if (leaf.kind != LeafKind::tensor && leaf.kind != LeafKind::variable) continue;
      Type type = values[i]->type;
      for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape.set(axis, number_now(type.shape[axis]));
      strides_.push_back(dense_strides(type.shape));
      types_.push_back(std::move(type));
      leaf.type = &types_.back();
      leaf.strides = &strides_.back();
    }
  }
  void tensor(const Tensor& x) override { add(LeafKind::tensor, x.impl()); }
  void variable(const Variable& x) override {
    add(LeafKind::variable, x.value().impl()).slot = x.slot().get();
    slots.back() = x.slot();
  }
  void scalar(const Scalar& x) override {
    const Leaf& number = x.leaf();
    ArgLeaf& leaf = add(LeafKind::scalar, number.value ? number.value : value_of(number));
    leaf.number_kind = row(values.back()->type.dtype).kind;
  }
  void fixed(std::int64_t value) override { add(LeafKind::fixed, {}).integer = value; }

  std::span<const ArgLeaf> leaves() const { return leaves_; }
  std::vector<Ref<TensorImpl>> values;  // null: a fixed leaf
  std::vector<std::shared_ptr<VariableSlot>> slots;

 private:
  ArgLeaf& add(LeafKind kind, Ref<TensorImpl> value) {
    values.push_back(std::move(value));
    slots.emplace_back();
    ArgLeaf& leaf = leaves_.emplace_back();
    leaf.kind = kind;
    return leaf;
  }
  /// A number as compiled functions take it.
  static Ref<TensorImpl> value_of(const Leaf& number) {
    const DType dtype = number.kind == DTypeClass::floating  ? DType::f64
                        : number.kind == DTypeClass::integer ? DType::i64
                                                             : DType::bool_;
    Ref<Storage> storage = Storage::allocate(sizeof(std::int64_t));
    std::memcpy(storage->data(), &number.integer, sizeof(std::int64_t));
    Ref<TensorImpl> value = TensorImpl::make_ready({dtype, Device::cpu(), {}}, std::move(storage));
    value->is_weak = true;
    return value;
  }
  std::vector<ArgLeaf> leaves_;
  std::vector<Type> types_;
  std::vector<Strides> strides_;
};

/// Makes what a saved version relied on a question of the trace that records now.
struct AskGuards {
  std::span<const Dim> now;  // the symbols of the version

  [[noreturn]] static void fail(const std::string& reason, Location where) {
    throw RecompileError("load", "the saved function does not take this call: " + reason, where,
                         "save it after calls with such arguments");
  }
  static void equal(Dim a, Dim b, Location where) {
    if (!(a == b)) fail(a.text() + " is not " + b.text(), where);
  }
  void extents(const GuardSet& guards, const SavedArguments& arguments, Location where) const {
    for (std::size_t i = 0; i < guards.leaves.size(); ++i) {
      const LeafSpec& spec = guards.leaves[i];
      if (spec.kind != LeafKind::tensor && spec.kind != LeafKind::variable) continue;
      const Shape& shape = arguments.values[i]->type.shape;
      for (int axis = 0; axis < spec.rank; ++axis)
        if (!shape[axis].is_static()) equal(shape[axis], spec.extents[as_index(axis)].substitute(now), where);
    }
    for (std::size_t i = 0; i < guards.symbols.size(); ++i) {
      const SymbolSource& source = guards.symbols[i];
      if (now[i].is_static() || source.is_stride) continue;
      if (source.min > 2 && now[i] < Dim(source.min)) fail(now[i].text() + " is too small", where);
      if (source.max < std::int64_t{1} << 60 && Dim(source.max) < now[i]) fail(now[i].text() + " is too large", where);
      if (source.divisor > 1) equal(now[i] % Dim(source.divisor), 0, where);
    }
  }
  /// As the traced function asked them, in their order.
  void relations(std::span<const DimGuard> dims) const {
    Trace* const trace = Trace::current();
    for (const DimGuard& guard : dims) {
      if (trace != nullptr) trace->statement = {guard.op, guard.where};
      const Dim a = guard.lhs.substitute(now), b = guard.rhs.substitute(now);
      const bool holds = guard.relation == DimRelation::less    ? a < b
                         : guard.relation == DimRelation::value ? static_cast<std::int64_t>(a) == number_now(b)
                                                                : a == b;
      if (trace != nullptr) trace->statement = {};
      if (holds != guard.outcome) fail("relation " + relation_text(guard) + ", does not hold", guard.where);
    }
  }
};

/// Nodes of sub-graphs are not recorded again, so that their types are checked here, as far as symbols decide them:
/// kernels go by them, and the file is not trusted.
inline void check_bodies(const Graph& graph, bool is_body = false) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.attrs.bodies) check_bodies(*body, true);
    if (!is_body || node.op->kind == OpKind::leaf) continue;
    SmallVector<Type, 4> in;
    for (Value v : node.inputs) in.push_back(graph.type(v));
    const TypeList found = graph_detail::infer_types(*node.op, {in.data(), in.size()}, node.attrs, node.where);
    bool fits = found.size() == node.types.size();
    for (std::size_t r = 0; fits && r < found.size(); ++r) {
      const Shape &a = found[r].shape, &b = node.types[r].shape;
      fits = found[r].dtype == node.types[r].dtype && a.rank() == b.rank();
      for (int axis = 0; fits && axis < a.rank(); ++axis) fits = number_now(a[axis]) == number_now(b[axis]);
    }
    if (!fits)
      throw UserError("load",
                      "a sub-graph of the saved function has a " + std::string(node.op->name) +
                          " whose result is not of the type that its operands make",
                      node.where, "the file is damaged: save it again");
  }
}

/// Recording a slice asks whether it lies within its operand, and the rule of the node does not where extents are
/// symbols: asked again here, since the file is not trusted.
inline void check_bounds(const Graph& graph) {
  const auto require = [](const Node& node, bool holds) {
    if (!holds)
      throw UserError("load", "the saved function has a " + std::string(node.op->name) + " beyond its operand",
                      node.where, "the file is damaged: save it again");
  };
  const Dim zero(0), one(1);
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.attrs.bodies) check_bounds(*body);
    const bool is_slice = node.op == &op_info<ops::Slice>;
    if (!is_slice && node.op != &op_info<ops::UpdateSlice>) continue;
    const Shape& whole = graph.type(node.inputs[0]).shape;
    const Shape& starts = is_slice ? node.attrs[ops::Slice::starts] : node.attrs[ops::UpdateSlice::starts];
    const IntVector& steps = is_slice ? node.attrs[ops::Slice::steps] : node.attrs[ops::UpdateSlice::steps];
    const Shape& part = is_slice ? node.attrs[ops::Slice::ends] : graph.type(node.inputs[1]).shape;
    const auto rank = as_index(whole.rank());
    require(node, as_index(starts.rank()) == rank && as_index(part.rank()) == rank && steps.size() == rank);
    for (int axis = 0; axis < whole.rank(); ++axis) {
      const Dim start = starts[axis];
      require(node, steps[as_index(axis)] > 0 && zero <= start);
      if (is_slice) require(node, start <= part[axis] && part[axis] <= whole[axis]);
      else if (!(part[axis] == zero))
        require(node, start + (part[axis] - one) * Dim(steps[as_index(axis)]) < whole[axis]);
    }
  }
}

/// One call of a saved function.
class SavedCall {
 public:
  SavedCall(const SavedProgram& program, std::span<const tree::View> arguments)
      : program_(program), arguments_(arguments) {
    name_leaves(names_, arguments);
    version_ = find_version();
    for (const SymbolSource& source : version_->guards.symbols)
      symbols_.push_back(source.is_stride ? Dim(value_of(source, arguments_.leaves()))
                                          : arguments_.values[as_index(source.leaf)]->type.shape[source.axis]);
  }

  void run(std::vector<Ref<TensorImpl>>& results, std::vector<SavedPart>& parts) {
    const AskGuards ask{symbols_};
    ask.extents(version_->guards, arguments_, program_.function.where);
    if (version_->steps.size() == 1) ask.relations(version_->guards.dims);
    const SavedStep* step = &version_->steps.front();
    while (true) {
      ask.relations(step->dims);
      std::vector<Ref<TensorImpl>> values = record(*step);
      if (step->is_end) return finish(*step, std::move(values), results, parts);
      for (std::size_t i = 0; i < step->places.size(); ++i) carried_[step->places[i]] = values[i + 1];
      step = next_step(*step, read_bits(values[0], step->op, step->where));
    }
  }

 private:
  /// A rule of an op that the file breaks is no bug of this program.
  std::vector<Ref<TensorImpl>> record(const SavedStep& step) {
    try {
      const Graph graph = substitute_symbols(step.graph, symbols_, {});
      check_bodies(graph);
      check_bounds(graph);
      return replay(graph, inputs_of(step));
    } catch (const InternalError& error) {
      throw UserError("load", "the saved function breaks a rule: " + std::string(error.what()), program_.function.where,
                      "the file is damaged: save it again");
    }
  }

  const SavedVersion* find_version() const {
    std::optional<Guard> closest;
    std::size_t fewest = 0;
    for (const SavedVersion& version : program_.function.versions) {
      if (version.guards.leaves.size() != arguments_.leaves().size() && closest) continue;
      GuardSet guards = version.guards;
      guards.names = names_;
      std::vector<Guard> broken;
      if (guards.leaves.size() != arguments_.leaves().size())
        broken.push_back({GuardKind::structure, -1, -1, "containers among the arguments have other sizes"});
      else broken = guards.broken(arguments_.leaves());
      // The graph does not depend on strides: code for others is compiled from it.
      std::erase_if(broken, [](const Guard& guard) { return guard.kind == GuardKind::layout; });
      if (broken.empty()) return &version;
      if (closest && broken.size() >= fewest) continue;
      fewest = broken.size();
      closest = std::move(broken.front());
    }
    throw RecompileError("load",
                         "no saved version of '" + program_.function.name +
                             "' takes this call: " + (closest ? failure_text(*closest) : std::string("it has none")),
                         program_.function.where,
                         "save the function after calls with such arguments, or with the extent marked dynamic "
                         "(jit::mark_dynamic, Dynamic::always)");
  }

  std::vector<Ref<TensorImpl>> inputs_of(const SavedStep& step) {
    std::vector<Ref<TensorImpl>> inputs;
    for (const SavedStep::Input& input : step.inputs) {
      switch (input.from) {
        case SavedStep::Input::From::leaf: inputs.push_back(arguments_.values[as_index(input.index)]); break;
        case SavedStep::Input::From::variable:
          inputs.push_back(read_slot_now(slot_now((*program_.variables)[as_index(input.index)])));
          break;
        case SavedStep::Input::From::carried: inputs.push_back(carried_.at(input.index)); break;
      }
      check_input(step, inputs.size() - 1, *inputs.back());
    }
    return inputs;
  }
  /// Variables may have been set to values of another type, and numbers are of three dtypes.
  void check_input(const SavedStep& step, std::size_t i, const TensorImpl& value) const {
    Type wanted = step.graph.type(step.graph.inputs()[i]);
    wanted.shape = wanted.shape.substitute(symbols_);
    bool fits = wanted.dtype == value.type.dtype && wanted.device == value.type.device &&
                wanted.shape.rank() == value.type.shape.rank();
    for (int axis = 0; fits && axis < wanted.shape.rank(); ++axis)
      fits = number_now(wanted.shape[axis]) == number_now(value.type.shape[axis]);
    if (fits) return;
    const SavedStep::Input& input = step.inputs[i];
    const std::string what = input.from == SavedStep::Input::From::variable
                                 ? "the Variable '" + (*program_.variables)[as_index(input.index)].name + "'"
                                 : std::string("an argument");
    throw RecompileError(
        "load", what + " is " + value.type.text() + ", and was " + wanted.text() + " when the function was saved",
        program_.function.where, "give it a value of that type");
  }

  bool holds(const SavedStep& step) const {
    return std::all_of(step.dims.begin(), step.dims.end(), [&](const DimGuard& guard) {
      const std::int64_t a = number_now(guard.lhs.substitute(symbols_)), b = number_now(guard.rhs.substitute(symbols_));
      return (guard.relation == DimRelation::less ? a < b : a == b) == guard.outcome;
    });
  }
  const SavedStep* next_step(const SavedStep& step, std::uint64_t outcome) const {
    for (const SavedStep::Child& child : step.children) {
      const SavedStep& next = version_->steps[as_index(child.step)];
      if (child.outcome == outcome && holds(next)) return &next;
    }
    const std::int64_t most = program_.function.options.max_values;
    const bool is_full = static_cast<std::int64_t>(step.children.size()) >= most;
    throw RecompileError(
        "load",
        "guard 'predicate' failed: the value that " + step.op + " reads" +
            (step.where.file != nullptr ? " at " + step.where.text() : "") +
            " takes the function to a branch that had not run when it was saved" +
            (is_full ? ", or was one more than the " + std::to_string(most) + " that are compiled" : ""),
        step.where,
        is_full ? "compile it with a larger Options::max_values before it is saved, or use jit::cond"
                : "save the function after calls that take each branch, or use jit::cond");
  }

  void finish(const SavedStep& step, std::vector<Ref<TensorImpl>> values, std::vector<Ref<TensorImpl>>& results,
              std::vector<SavedPart>& parts) {
    for (std::size_t i = 0; i < step.assignments.size(); ++i) {
      const SavedStep::Assignment& to = step.assignments[i];
      const std::shared_ptr<VariableSlot> slot =
          to.leaf >= 0 ? arguments_.slots[as_index(to.leaf)] : slot_now((*program_.variables)[as_index(to.variable)]);
      const Type &wanted = slot->value()->type, &given = values[step.results + i]->type;
      bool fits = wanted.dtype == given.dtype && wanted.shape.rank() == given.shape.rank();
      for (int axis = 0; fits && axis < wanted.shape.rank(); ++axis)
        fits = number_now(wanted.shape[axis]) == number_now(given.shape[axis]);
      if (!fits)
        throw RecompileError("load", "the function sets a Variable of " + wanted.text() + " to " + given.text(),
                             program_.function.where, "give the Variable a value of the type that it was saved with");
      assign_slot_now(slot, values[step.results + i]);
    }
    values.resize(step.results);
    results = std::move(values);
    parts = step.shape;
    for (SavedPart& part : parts)
      if (part.kind == SavedPart::Kind::extent) part.extent = part.extent.substitute(symbols_);
  }

  const SavedProgram& program_;
  SavedArguments arguments_;
  LeafNames names_;
  const SavedVersion* version_ = nullptr;
  std::vector<Dim> symbols_;  // those of the version, in this call
  std::map<std::int32_t, Ref<TensorImpl>> carried_;
};

SINTER_DECL SavedResult::SavedResult(const SavedProgram& program, std::vector<tree::View> arguments) {
  SavedCall(program, arguments).run(values_, parts_);
}
SINTER_DECL SavedResult::~SavedResult() = default;

// The parts were compared with the signature when the function was loaded, so that these cannot run out.
SINTER_DECL const SavedPart& SavedResult::next() {
  ensure(next_part_ < parts_.size(), "the saved result has fewer parts than its type");
  return parts_[next_part_++];
}
SINTER_DECL Tensor SavedResult::tensor() {
  next();
  ensure(next_value_ < values_.size(), "the saved result has fewer values than its type");
  return Tensor(std::move(values_[next_value_++]));
}
SINTER_DECL Scalar SavedResult::scalar() { return item(In(tensor(), Location())); }
SINTER_DECL Dim SavedResult::extent() { return next().extent; }
SINTER_DECL std::int64_t SavedResult::fixed() { return next().number; }
SINTER_DECL std::size_t SavedResult::size() {
  const std::int64_t count = next().number;
  ensure(count >= 0 && as_index(count) <= parts_.size(), "the saved result has fewer parts than it says");
  return as_index(count);
}

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
