// Calls of compiled functions, without types: what the typed half (compile.hpp) hands over is taken apart here, an
// entry is found or made for it and run, or the plain function where nothing compiled may run.
#pragma once

#include <sinter/jit/call/call.hpp>

#include <sinter/base/block_pool.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/serial_section.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/expr/tree_walk.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/jit/call/background.hpp>
#include <sinter/jit/call/execute.ipp>  // run_now
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/leaf_names.hpp>
#include <sinter/jit/call/quick_call.ipp>  // call_quickly
#include <sinter/jit/call/stance.hpp>
#include <sinter/jit/config/configuration.hpp>
#include <sinter/jit/config/scope.hpp>
#include <sinter/jit/config/settings.hpp>
#include <sinter/jit/trace/trace.hpp>
#include <sinter/jit/tune/tuner.hpp>
#include <sinter/tensor/call_journal.hpp>

#include <memory>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

SINTER_DECL std::shared_ptr<const void> share(void* object, void (*destroy)(void* object)) {
  return std::shared_ptr<void>(object, destroy);
}

/// The version of the function that the settings of this thread's scopes ask for; null: the function itself.
SINTER_NOINLINE SINTER_COLD inline std::shared_ptr<FunctionState> function_of_scope(FunctionState& function) {
  if (!mode_of_thread().is_scoped() || function.is_frozen() || graph_detail::innermost_trace() != nullptr)
    return nullptr;
  return function.in_scope(*settings_of_thread());
}
/// Sets whether calls of this thread look for scopes, while it lives.
class LooksForScopes {
 public:
  explicit LooksForScopes(bool is_on) noexcept : before_(mode_of_thread().is_scoped()) {
    mode_of_thread().set_scoped(is_on);
  }
  ~LooksForScopes() { mode_of_thread().set_scoped(before_); }
  LooksForScopes(const LooksForScopes&) = delete;
  LooksForScopes& operator=(const LooksForScopes&) = delete;

 private:
  bool before_;
};
/// use(the call, of the function that these scopes ask for), which looks for no further one.
template <class Use>
SINTER_NOINLINE SINTER_COLD auto in_this_scope(const CallRequest& call, const Use& use) {
  const std::shared_ptr<FunctionState> scoped = function_of_scope(call.function);
  const LooksForScopes found(false);
  return use(scoped == nullptr ? call : CallRequest{*scoped, call.types, call.callee, call.invoke, call.objects});
}

SINTER_DECL std::shared_ptr<FunctionState> make_function(Options options, Location where) {
  options = configured(std::move(options), where);
  tune_by_environment(options);
  return std::make_shared<FunctionState>(std::move(options), where);
}
SINTER_DECL std::shared_ptr<FunctionState> make_function(Options options, BackendFunction forward,
                                                         BackendFunction backward, Location where) {
  if (forward && (options.mode != Mode::default_ || options.memory_budget > 0 || options.matmul_precision))
    throw UserError("aot_function",
                    "mode " + std::string(name(options.mode)) +
                        ", memory_budget or matmul_precision contradicts AotOptions::forward, which "
                        "makes its own results",
                    where, "leave the option out, or leave forward empty");
  return std::make_shared<FunctionState>(std::move(options), where, FunctionState::Serves::function,
                                         Compilers{std::move(forward), std::move(backward)});
}
SINTER_DECL std::shared_ptr<const void> derived(FunctionState& function, const void* key,
                                                const std::vector<std::int64_t>& numbers,
                                                const std::function<std::shared_ptr<const void>()>& make) {
  return function.derived(key, numbers, make);
}
SINTER_DECL std::shared_ptr<FunctionState> another(const FunctionState& function) { return function.another(); }
SINTER_DECL Location where_of(const FunctionState& function) { return function.where(); }
SINTER_DECL Stats stats_of(const FunctionState& function) {
  const auto scoped = function_of_scope(const_cast<FunctionState&>(function));
  return scoped != nullptr ? scoped->stats() : function.stats();
}
SINTER_DECL void reset(FunctionState& function) { function.reset(); }
SINTER_DECL void freeze(FunctionState& function, OnMiss miss) { function.freeze(miss); }
SINTER_DECL void unfreeze(FunctionState& function) { function.unfreeze(); }
SINTER_DECL bool is_frozen(const FunctionState& function) { return function.is_frozen(); }
SINTER_DECL Tensor owned_copy(const Lent& x) { return x.is_memory ? copy_of(x.memory) : x.value; }

SINTER_DECL Ref<TensorImpl>* make_values(std::size_t count) {
  auto* values = static_cast<Ref<TensorImpl>*>(allocate_pooled(count * sizeof(Ref<TensorImpl>)));
  std::uninitialized_default_construct_n(values, count);
  return values;
}
SINTER_DECL void release_values(Ref<TensorImpl>* values, std::size_t count) noexcept {
  std::destroy_n(values, count);
  release_pooled(values, count * sizeof(Ref<TensorImpl>));
}

// ---- arguments ------------------------------------------------------------------------------------------------------

/// Adds the leaves of an argument to a list.
struct AddLeaves : tree::detail::WithoutPath {
  AddLeaves(ArgList& to, bool donates) : list(to), is_donated(donates) {}
  ArgList& list;
  bool is_donated;
  SINTER_ALWAYS_INLINE void tensor(Tensor& x, bool is_const) {
    if (SINTER_UNLIKELY(is_donated && !is_const)) list.donate(x);
    list.tensor(x);
  }
  void scalar(const Scalar& x, bool) { list.scalar(x); }
  void variable(const Variable& x) { list.variable(x); }
  void dim(const Dim& x, bool) { list.fixed(static_cast<std::int64_t>(x)); }
  void fixed(std::int64_t value) { list.fixed(value); }
  void structure(const char*, std::int64_t value) { list.fixed(value); }
};

inline Leaf integer_in(const void* object, const ArgumentType& type) {
  if (type.is_boolean) return Leaf::of_number(*static_cast<const bool*>(object));
  if (type.size == sizeof(std::uint64_t) && !type.is_signed)
    return Leaf::of_number(static_cast<std::uint64_t>(tree::detail::number_of_bytes<std::uint64_t>(object)));
  tree::Layout layout;
  layout.is_signed = type.is_signed;
  layout.size = type.size;
  return Leaf::of_number(tree::detail::number_at(object, layout));
}
inline void add_number(const void* object, const ArgumentType& type, ArgList& list) {
  if (!type.is_floating) list.number(integer_in(object, type));
  else if (type.size == sizeof(float)) list.floating(*static_cast<const float*>(object));
  else if (type.size == sizeof(double)) list.floating(*static_cast<const double*>(object));
  else list.floating(static_cast<double>(*static_cast<const long double*>(object)));
}

inline void add_argument(const void* object, const ArgumentType& type, ArgList& list) {
  switch (type.kind) {
    case ArgumentType::Kind::tensor:
    case ArgumentType::Kind::tree: {
      AddLeaves add(list, type.is_donated);
      return tree::detail::walk(const_cast<void*>(object), *type.layout, add);
    }
    case ArgumentType::Kind::number: return add_number(object, type, list);
    case ArgumentType::Kind::borrowed: return list.borrowed(*static_cast<const Borrowed*>(object));
    case ArgumentType::Kind::lent: {
      const auto& lent = *static_cast<const Lent*>(object);
      return lent.is_memory ? list.borrowed(lent.memory) : list.tensor(lent.value);
    }
  }
}
/// Takes the arguments apart.
SINTER_ALWAYS_INLINE void add_arguments(const CallRequest& call, ArgList& list) {
  const CallTypes& types = call.types;
  list.types = types.tag;
  list.call_types = &types;
  for (std::uint32_t i = 0; i < types.count; ++i) {
    const ArgumentType& type = types.arguments[i];
    if (SINTER_LIKELY(type.kind == ArgumentType::Kind::tensor && !type.is_donated))
      list.tensor(*static_cast<const Tensor*>(call.objects[i]));
    else add_argument(call.objects[i], type, list);
  }
}

// ---- tracing --------------------------------------------------------------------------------------------------------

SINTER_DECL void put_placeholders(FunctionTrace& trace, const CallRequest& call, void* const* copies) {
  struct PutPlaceholders final : tree::Editor {
    explicit PutPlaceholders(FunctionTrace& open) : trace(open) {}
    FunctionTrace& trace;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { x = Tensor(trace.next_leaf()); }
    void scalar(Scalar& x) override { x = Scalar(trace.next_leaf()); }
    void variable(const Variable&) override { trace.skip_leaf(); }
    void fixed(std::int64_t) override { trace.skip_leaf(); }
    void tensor(const Tensor&) override { trace.skip_leaf(); }  // keys of maps
    void scalar(const Scalar&) override { trace.skip_leaf(); }
  } put(trace);
  std::vector<tree::View> arguments;
  for (std::uint32_t i = 0; i < call.types.count; ++i)
    arguments.push_back({call.objects[i], call.types.arguments[i].layout});
  name_leaves(trace.guards().names, arguments);
  for (std::uint32_t i = 0; i < call.types.count; ++i) tree::Part{copies[i], call.types.arguments[i].traced}.edit(put);
}

/// The values of a result, in order.
inline std::vector<Ref<TensorImpl>> values_of_result(tree::View result) {
  struct Collect final : tree::Reader {
    std::vector<Ref<TensorImpl>> values;
    void tensor(const Tensor& x) override { values.push_back(x.impl()); }
    void scalar(const Scalar& x) override { values.push_back(In(x).tensor()); }
    void variable(const Variable& x) override { values.push_back(x.value().impl()); }
    void dim(const Dim&) override {}
  } collect;
  result.read(collect);
  return std::move(collect.values);
}

/// Calls the function on copies of the arguments, with placeholders in them if there is a trace.
inline std::shared_ptr<void> result_of_function(const CallRequest& call, FunctionTrace* trace) {
  return {call.types.call_on_copies(call, trace), call.types.destroy_result};
}
/// Leaves only the static parts: then copies of a traced result count no references.
inline void drop_values(tree::Part result, Location where) {
  struct Drop final : tree::Editor {
    explicit Drop(Location at) : where(at) {}
    Location where;
    using Editor::dim;
    void tensor(Tensor& x) override { x = Tensor(); }
    void scalar(Scalar& x) override { x = Scalar(); }
    void variable(const Variable&) override {}
    void dim(Dim&) override {}
    void dim(const Dim&) override {}
    void tensor(const Tensor&) override { refuse(); }
    void scalar(const Scalar&) override { refuse(); }
    [[noreturn]] void refuse() const {
      throw UserError("compile", "the result has a const member, which takes no value when the compiled code has run",
                      where, "declare the member without const");
    }
  } drop(where);
  result.edit(drop);
}
inline TraceFunction tracer(const CallRequest& call) {
  return {const_cast<CallRequest*>(&call), [](void* object, FunctionTrace& trace) {
            const TimelineSpan span("trace", "trace");
            const auto& traced = *static_cast<const CallRequest*>(object);
            const std::shared_ptr<void> result = result_of_function(traced, &trace);
            std::vector<Ref<TensorImpl>> values = values_of_result({result.get(), traced.types.result});
            drop_values({result.get(), traced.types.result}, traced.function.where());
            return TracedResult{std::move(values), result};
          }};
}

// ---- calls that run the plain function ------------------------------------------------------------------------------

inline bool runs_plain(const FunctionState& function) { return function.runs_plain(mode_of_thread()); }
/// Whether a call is part of a trace that encloses it, or must not use compiled code.
inline bool is_uncompiled(const FunctionState& function) {
  return graph_detail::innermost_trace() != nullptr || runs_plain(function);
}

/// The function's own result. Outside a trace Variables are as before unless the function returns.
SINTER_NOINLINE SINTER_COLD inline std::shared_ptr<const void> uncompiled_result(const CallRequest& call) {
  if (graph_detail::innermost_trace() != nullptr) return result_of_function(call, nullptr);
  const LooksForScopes again(settings_of_thread() != nullptr && !settings_of_thread()->key().empty());
  CallJournal journal(CallJournal::Reads::ignored);
  call.function.count_plain_call();
  std::shared_ptr<const void> result = result_of_function(call, nullptr);
  journal.keep();
  return result;
}
SINTER_NOINLINE SINTER_COLD inline void uncompiled_tensors(const CallRequest& call, Ref<TensorImpl>* results) {
  const std::shared_ptr<const void> result = uncompiled_result(call);
  for (Ref<TensorImpl>& value : values_of_result({result.get(), call.types.result})) *results++ = std::move(value);
}
/// Compiled functions that the function calls run uncompiled, too, so that all it reads is seen.
SINTER_NOINLINE SINTER_COLD inline void uncompiled_into(const CallRequest& call, Targets targets, const ArgList& args) {
  StanceGuard eager(Stance::force_eager);
  CallJournal journal(CallJournal::Reads::noted);
  call.function.count_plain_call();
  const std::shared_ptr<const void> result = result_of_function(call, nullptr);
  call.function.deliver_uncompiled(values_of_result({result.get(), call.types.result}), targets, args, journal);
  journal.keep();
}

// ---- calls ----------------------------------------------------------------------------------------------------------

inline void name_call(TimelineSpan& span, const CallRequest& call) {
  if (span.is_on()) span.fields().add("line", call.function.where().text());
}

/// A call whose span is open already.
inline bool& has_call_span() noexcept {
  static thread_local constinit bool has_span = false;
  return has_span;
}
SINTER_NOINLINE SINTER_COLD inline void call_on_timeline(const CallRequest& call, Ref<TensorImpl>* results) {
  TimelineSpan span("call", "call");
  name_call(span, call);
  has_call_span() = true;
  call_for_tensors(call, results);
}

/// A call in a trace, of a function that runs uncompiled, or in a scope.
SINTER_NOINLINE SINTER_COLD inline void special_tensors(const CallRequest& given, Ref<TensorImpl>* results) {
  const ThreadMode mode = mode_of_thread();  // a scope may name a back end for a function that has "noop"
  const bool is_plain = mode.is_scoped() ? mode.is_eager() : runs_plain(given.function);
  if (graph_detail::innermost_trace() != nullptr || is_plain) return uncompiled_tensors(given, results);
  in_this_scope(given, [&](const CallRequest& call) { call_for_tensors(call, results); });
}

SINTER_DECL void call_for_tensors(const CallRequest& call, Ref<TensorImpl>* results) {
  if (SINTER_UNLIKELY(graph_detail::innermost_trace() != nullptr || call.function.is_special(mode_of_thread())))
    return special_tensors(call, results);
  if (SINTER_UNLIKELY(has_timeline()) && !std::exchange(has_call_span(), false)) return call_on_timeline(call, results);
  if (SINTER_LIKELY(call_quickly(call, results))) return;
  FunctionState& function = call.function;
  const SerialSection alone(function.is_frozen());
  ArgList args;
  add_arguments(call, args);
  Symbols symbols;
  const TraceFunction trace = tracer(call);
  const Entry* entry = function.entry_for(args, trace, symbols);
  if (SINTER_UNLIKELY(entry == nullptr)) return uncompiled_tensors(call, results);
  if (SINTER_LIKELY(!entry->is_tree)) {
    function.run_now(*entry, args, symbols, trace, results, {});
  } else if (entry->runs_plain()) {
    function.check_uncompiled();
    uncompiled_tensors(call, results);
  } else if (function.run_tree(*entry, args, symbols, trace, {results, nullptr}).runs_plain) {
    uncompiled_tensors(call, results);
  }
}

SINTER_DECL void call_into(const CallRequest& call, Targets targets) {
  if (SINTER_UNLIKELY(mode_of_thread().is_scoped()))
    return in_this_scope(call, [&](const CallRequest& here) { call_into(here, targets); });
  TimelineSpan span("call", "call");
  name_call(span, call);
  FunctionState& function = call.function;
  ArgList args;
  args.has_places = true;
  add_arguments(call, args);
  if (SINTER_UNLIKELY(runs_plain(function))) return uncompiled_into(call, targets, args);
  const SerialSection alone(function.is_frozen());
  Symbols symbols;
  const TraceFunction trace = tracer(call);
  const Entry* entry = function.entry_for(args, trace, symbols);
  if (SINTER_UNLIKELY(entry == nullptr || entry->runs_plain())) {
    function.check_uncompiled();
    return uncompiled_into(call, targets, args);
  }
  ResultTable results;
  if (SINTER_UNLIKELY(entry->is_tree)) {
    if (function.run_tree(*entry, args, symbols, trace, {nullptr, &results}, targets).runs_plain)
      uncompiled_into(call, targets, args);
    return;
  }
  function.run(*entry, args, symbols, trace, results.make(entry->results), targets);
}

SINTER_DECL OpenCall::OpenCall(const CallRequest& call) : call_(call) {
  FunctionState* found = &call.function;
  if (SINTER_UNLIKELY(mode_of_thread().is_scoped()))
    if (std::shared_ptr<FunctionState> scoped = function_of_scope(call.function)) {
      found = scoped.get();
      owner_ = std::move(scoped);
    }
  FunctionState& function = *found;
  TimelineSpan span("call", "call");
  name_call(span, call);
  const Entry* entry = nullptr;
  const TraceFunction trace = tracer(call);
  const SerialSection alone(function.is_frozen() && graph_detail::innermost_trace() == nullptr);
  if (SINTER_LIKELY(!is_uncompiled(function))) {
    add_arguments(call, args_);
    entry = function.entry_for(args_, trace, symbols_);
  }
  if (SINTER_UNLIKELY(entry == nullptr || entry->runs_plain())) {
    if (entry != nullptr) function.check_uncompiled();
    owner_ = uncompiled_result(call);
    shape_ = owner_.get();
  } else if (SINTER_UNLIKELY(entry->is_tree)) {
    TreeResult done = function.run_tree(*entry, args_, symbols_, trace, {nullptr, &results_});
    if (done.runs_plain) done.owner = uncompiled_result(call);
    else values_ = results_.data();
    shape_ = done.runs_plain ? done.owner.get() : done.shape;
    if (done.owner != nullptr) owner_ = std::move(done.owner);
  } else {
    values_ = results_.make(entry->results);
    function.run_now(*entry, args_, symbols_, trace, values_, {});
    shape_ = entry->result_shape.get();
  }
}
SINTER_DECL OpenCall::~OpenCall() = default;

/// Puts the values of a call, and the extents of its symbols, into a copy of the traced result.
struct FillLeaves : tree::detail::WithoutPath {
  FillLeaves(Ref<TensorImpl>* first, std::span<const std::int64_t> of_symbols) : values(first), symbols(of_symbols) {}
  Ref<TensorImpl>* values;
  std::span<const std::int64_t> symbols;
  SINTER_ALWAYS_INLINE void tensor(Tensor& x, bool is_const) {
    Ref<TensorImpl>& value = *values++;
    if (SINTER_LIKELY(!is_const)) x = Tensor(std::move(value));
  }
  void scalar(Scalar& x, bool is_const) {
    Ref<TensorImpl>& value = *values++;
    if (SINTER_LIKELY(!is_const)) x = item(In(Tensor(std::move(value)), Location()));
  }
  void variable(const Variable&) { ++values; }
  void dim(Dim& x, bool is_const) {
    if (!is_const) x = Dim(x.evaluate(symbols));
  }
  void fixed(std::int64_t) {}
  void structure(const char*, std::int64_t) {}
};
SINTER_DECL void OpenCall::fill(void* copy) {
  if (SINTER_UNLIKELY(values_ == nullptr)) return;  // it is filled, or nothing is to be
  FillLeaves fill(values_, symbols_);
  tree::detail::walk(copy, *call_.types.result, fill);
}

inline void warm_up_here(const CallRequest& call) {
  if (runs_plain(call.function)) return;
  prepare_pools();
  ArgList args;
  add_arguments(call, args);
  const TraceFunction trace = tracer(call);
  const bool is_frozen = call.function.is_frozen();
  bool has_any = false;
  for (const bool has_places : {false, true}) {  // with places another version runs where a gradient is wanted
    args.has_places = has_places;
    Symbols symbols;
    const Entry* entry =
        is_frozen ? call.function.compiled_for(args, symbols) : call.function.entry_for(args, trace, symbols);
    if (entry != nullptr && entry->background != nullptr && !is_frozen) {
      if (entry->tree != nullptr) call.function.warm_up(*entry, args, trace, symbols);
      entry->background->wait();
      entry = call.function.entry_for(args, trace, symbols);
    }
    if (entry != nullptr && !entry->runs_plain()) call.function.warm_up(*entry, args, trace, symbols);
    if (entry != nullptr && !is_frozen && !entry->serves_context()) {  // the path asks for another rank
      entry = call.function.entry_for(args, trace, symbols);
      if (entry != nullptr && !entry->runs_plain()) call.function.warm_up(*entry, args, trace, symbols);
    }
    if (entry != nullptr && !entry->gives_tape()) return;
    has_any |= entry != nullptr;
  }
  if (has_any || !is_frozen) return;
  args.has_places = false;
  Symbols symbols;
  call.function.entry_for(args, trace, symbols);  // a miss, which says what fits not
}
/// The entry of a call that is to be shown.
inline const Entry& shown_entry(const CallRequest& call, const ArgList& args, Symbols& symbols, const char* what) {
  const Entry* entry = runs_plain(call.function) ? nullptr : call.function.entry_for(args, tracer(call), symbols);
  if (entry != nullptr && entry->background != nullptr) {
    entry->background->wait();
    entry = call.function.entry_for(args, tracer(call), symbols);
  }
  if (entry == nullptr || entry->runs_plain())
    throw UserError(what, "this call runs the function uncompiled", call.function.where(),
                    "explain() of the same arguments says why");
  return *entry;
}
inline Stages lower_here(const CallRequest& call) {
  ArgList args;
  add_arguments(call, args);
  Symbols symbols;
  const Entry& entry = shown_entry(call, args, symbols, "lower");
  if (entry.tree != nullptr)
    throw UserError("lower", "the function reads values: each path through it is compiled when a call takes it",
                    call.function.where(),
                    "explain() shows the paths taken so far; choose with where() or jit::cond instead");
  return call.function.stages(entry, symbols);
}
inline Partition partition_here(const CallRequest& call) {
  ArgList args;
  add_arguments(call, args);
  Symbols symbols;
  const Location where = call.function.where();
  const Entry* entry = &shown_entry(call, args, symbols, "partition");
  if (entry->tree != nullptr)
    throw UserError("partition", "the function reads values: each path through it has a partition of its own", where,
                    "stats() has the bytes that the path with most keeps; choose with where() or jit::cond instead");
  if (entry->gradient == nullptr)
    throw UserError("partition", "no gradient is wanted of this call", where,
                    "call requires_grad() of the Variables that it uses, and leave the scope of a jit::NoGradGuard");
  return entry->gradient->partition();
}
inline Explanation explain_here(const CallRequest& call) {
  if (runs_plain(call.function)) return explanation_of(nullptr, {}, call.function.where());
  ArgList args;
  add_arguments(call, args);
  Symbols symbols;
  const Entry* entry = call.function.entry_for(args, tracer(call), symbols);
  return explanation_of(entry != nullptr && entry->runs_plain() ? nullptr : entry, symbols, call.function.where());
}

SINTER_DECL void warm_up(const CallRequest& call) { in_this_scope(call, warm_up_here); }
SINTER_DECL Stages lower(const CallRequest& call) { return in_this_scope(call, lower_here); }
SINTER_DECL Partition partition(const CallRequest& call) { return in_this_scope(call, partition_here); }
SINTER_DECL Explanation explain(const CallRequest& call) { return in_this_scope(call, explain_here); }

}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
