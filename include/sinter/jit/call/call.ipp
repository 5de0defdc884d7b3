// What the typed half of compiled functions calls; most of it is passed on to FunctionState.
#pragma once

#include <sinter/jit/call/call.hpp>

#include <sinter/base/context.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/stance.ipp>  // stance_of_thread
#include <sinter/jit/trace/trace.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

SINTER_DECL PlainCall::PlainCall(FunctionState& function) : journal_(CallJournal::Reads::ignored) {
  function.count_plain_call();
}

SINTER_DECL PlainCallInto::PlainCallInto(FunctionState& function)
    : function_(function), eager_(Stance::force_eager), journal_(CallJournal::Reads::noted) {
  function.count_plain_call();
}

SINTER_DECL std::shared_ptr<const void> share(void* object, void (*destroy)(void* object)) {
  return std::shared_ptr<void>(object, destroy);
}

SINTER_DECL std::shared_ptr<FunctionState> make_function(Options options, Location where) {
  return std::make_shared<FunctionState>(std::move(options), where);
}
SINTER_DECL Location where_of(const FunctionState& function) { return function.where(); }
SINTER_DECL bool runs_plain(const FunctionState& function) { return function.runs_plain(stance_of_thread()); }
SINTER_DECL CallKind kind_of_call(const FunctionState& function) {
  if (SINTER_UNLIKELY(current_trace() != nullptr)) return CallKind::in_trace;
  return SINTER_UNLIKELY(function.runs_plain(stance_of_thread())) ? CallKind::plain : CallKind::compiled;
}
SINTER_DECL void warm_up(FunctionState& function, const CompiledEntry& entry, const ArgList& args,
                         const TraceFunction& trace, std::span<const std::int64_t> symbols) {
  function.warm_up(static_cast<const Entry&>(entry), args, trace, symbols);
}
SINTER_DECL Stats stats_of(const FunctionState& function) { return function.stats(); }
SINTER_DECL void reset(FunctionState& function) { function.reset(); }

SINTER_DECL TreeValues::TreeValues() = default;
SINTER_DECL TreeValues::~TreeValues() = default;
SINTER_DECL void run_tree(FunctionState& function, const CompiledEntry& entry, const ArgList& args,
                          std::span<const std::int64_t> symbols, const TraceFunction& trace, Targets targets,
                          TreeValues& values) {
  TreeResult done =
      function.run_tree(static_cast<const Entry&>(entry), args, symbols, trace, {nullptr, &values.values}, targets);
  values.shape = done.shape;
  values.owner = std::move(done.owner);
}

SINTER_DECL void insert_placeholders(FunctionTrace& trace, std::span<const TracedArgument> arguments) {
  struct PlaceholderInserter final : tree::Editor {
    explicit PlaceholderInserter(FunctionTrace& open) : trace(open) {}
    FunctionTrace& trace;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { x = Tensor(trace.next_leaf()); }
    void scalar(Scalar& x) override { x = Scalar(trace.next_leaf()); }
    void variable(const Variable&) override { trace.skip_leaf(); }
    void fixed(std::int64_t) override { trace.skip_leaf(); }
    void tensor(const Tensor&) override { trace.skip_leaf(); }  // keys of maps
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

SINTER_DECL void PlainCallInto::deliver(tree::View result, Targets targets, const ArgList& args) {
  function_.deliver_uncompiled(std::move(result_of_trace(nullptr, result).values), targets, args, journal_);
  journal_.keep();
}

}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
