// What the typed half of compiled functions calls; most of it is passed on to FunctionState.
#pragma once

#include <sinter/jit/call.hpp>

#include <sinter/base/context.hpp>
#include <sinter/graph/record.hpp>
#include <sinter/jit/function.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

SINTER_DECL PlainCall::PlainCall(FunctionState& function) : journal_(CallJournal::Reads::ignored) { function.count_plain_call(); }

SINTER_DECL PlainCallInto::PlainCallInto(FunctionState& function)
    : function_(function), eager_(Stance::force_eager), journal_(CallJournal::Reads::noted) { function.count_plain_call(); }

SINTER_DECL std::shared_ptr<const void> share(void* object, void (*destroy)(void* object)) { return std::shared_ptr<void>(object, destroy); }

SINTER_DECL std::shared_ptr<FunctionState> make_function(Options options, Location where) {
  return std::make_shared<FunctionState>(std::move(options), where);
}
SINTER_DECL Location where_of(const FunctionState& function) { return function.where(); }
SINTER_DECL bool runs_plain(const FunctionState& function) { return function.runs_plain(); }
SINTER_DECL CallKind kind_of_call(const FunctionState& function) {
  if (SINTER_UNLIKELY(current_trace() != nullptr)) return CallKind::in_trace;
  return SINTER_UNLIKELY(function.runs_plain()) ? CallKind::plain : CallKind::compiled;
}
SINTER_DECL void warm_up(FunctionState& function, const CompiledEntry& entry, const ArgList& args, const TraceFunction& trace, std::span<const std::int64_t> symbols) {
  function.warm_up(static_cast<const Entry&>(entry), args, trace, symbols);
}
SINTER_DECL Stats stats_of(const FunctionState& function) { return function.stats(); }
SINTER_DECL void reset(FunctionState& function) { function.reset(); }

SINTER_DECL ResultValues::ResultValues(std::size_t count) : many_(count > few_.size() ? count : 0) {}
SINTER_DECL ResultValues::~ResultValues() = default;

SINTER_DECL void run(FunctionState& function, const CompiledEntry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
                     const TraceFunction& trace, Ref<TensorImpl>* results) {
  const auto& known = static_cast<const Entry&>(entry);
  if (SINTER_UNLIKELY(entry.is_tree)) function.run_tree(known, args, symbols, trace, {results, nullptr});
  else function.run(known, args, symbols, trace, results);
}

SINTER_DECL const void* run_any(FunctionState& function, const CompiledEntry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
                                const TraceFunction& trace, ResultValues& values) {
  const auto& known = static_cast<const Entry&>(entry);
  if (SINTER_LIKELY(!entry.is_tree)) {
    function.run(known, args, symbols, trace, values.data());
    return entry.result_shape.get();
  }
  TreeResult done = function.run_tree(known, args, symbols, trace, {nullptr, &values.many_});
  values.owner_ = std::move(done.owner);
  return done.shape;
}

SINTER_DECL void run_into(FunctionState& function, const CompiledEntry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
                          const TraceFunction& trace, Targets targets) {
  const auto& known = static_cast<const Entry&>(entry);
  ResultValues values(entry.results);
  if (SINTER_LIKELY(!entry.is_tree)) return function.run(known, args, symbols, trace, values.data(), targets);
  std::vector<Ref<TensorImpl>> list;
  function.run_tree(known, args, symbols, trace, {nullptr, &list}, targets);
}

SINTER_DECL void stand_in(FunctionTrace& trace, std::span<const TracedArgument> arguments) {
  struct StandIn final : tree::Editor {
    explicit StandIn(FunctionTrace& open) : trace(open) {}
    FunctionTrace& trace;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { x = Tensor(trace.next_leaf()); }
    void scalar(Scalar& x) override { x = Scalar(trace.next_leaf()); }
    void variable(const Variable&) override { trace.skip_leaf(); }
    void fixed(std::int64_t) override { trace.skip_leaf(); }
    void tensor(const Tensor&) override { trace.skip_leaf(); }   // keys of maps
    void scalar(const Scalar&) override { trace.skip_leaf(); }
  } replace(trace);
  name_leaves(trace.guards().names, arguments);
  for (const TracedArgument& argument : arguments) argument.value.edit(replace);
}

SINTER_DECL TracedResult result_of_trace(std::shared_ptr<const void> value, tree::View view) {
  struct Collect final : tree::Reader {
    std::vector<Ref<TensorImpl>> values;
    void tensor(const Tensor& x) override { values.push_back(x.impl()); }
    void scalar(const Scalar& x) override { values.push_back(In(x).tensor()); }
    void variable(const Variable& x) override { values.push_back(x.value().impl()); }
    void dim(const Dim&) override {}
  } collect;
  view.read(collect);
  return {std::move(collect.values), std::move(value)};
}

SINTER_DECL void fill_result(tree::Part result, Ref<TensorImpl>* values, std::span<const std::int64_t> symbols) {
  struct Fill final : tree::Editor {
    Fill(Ref<TensorImpl>* first, std::span<const std::int64_t> numbers) : next(first), symbols(numbers) {}
    Ref<TensorImpl>* next;
    std::span<const std::int64_t> symbols;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { x = Tensor(std::move(*next++)); }
    void scalar(Scalar& x) override { x = item(In(Tensor(std::move(*next++)), Location())); }
    void variable(const Variable&) override { ++next; }
    void dim(Dim& x) override { x = Dim(x.evaluate(symbols)); }
    void dim(const Dim&) override {}   // keys of maps
  } fill(values, symbols);
  result.edit(fill);
}

SINTER_DECL void give_up_tensors(tree::Part argument, ArgList& list) {
  struct GiveUp final : tree::Editor {
    explicit GiveUp(ArgList& taker) : list(taker) {}
    ArgList& list;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { list.give_up(x); }
    void scalar(Scalar&) override {}
    void variable(const Variable&) override {}
    void dim(Dim&) override {}
    void dim(const Dim&) override {}
  } give(list);
  argument.edit(give);
}

SINTER_DECL void PlainCallInto::deliver(tree::View result, Targets targets, const ArgList& args) {
  function_.deliver_uncompiled(std::move(result_of_trace(nullptr, result).values), targets, args, journal_);
  journal_.keep();
}

}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
