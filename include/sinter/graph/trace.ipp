// The stack of traces, and what a trace refuses unless a layer above knows better.
#pragma once

#include <sinter/graph/trace.hpp>

#include <atomic>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Trace::Trace(std::string_view name)
    : outer_(graph_detail::innermost_trace()), name_(name), no_grad_depth_(no_grad_depth()) {
  static constinit std::atomic<std::uint64_t> next{1};
  id_ = next.fetch_add(1, std::memory_order_relaxed);
  graph_detail::innermost_trace() = this;
}
SINTER_DECL Trace::~Trace() { graph_detail::innermost_trace() = outer_; }
SINTER_DECL Trace* Trace::current() noexcept { return graph_detail::innermost_trace(); }
SINTER_DECL Trace* current_trace() noexcept { return graph_detail::innermost_trace(); }
SINTER_DECL TracePause::TracePause() noexcept
    : trace_(std::exchange(graph_detail::innermost_trace(), nullptr)),
      scope_(std::exchange(SymbolScope::current(), nullptr)) {}
SINTER_DECL TracePause::~TracePause() {
  graph_detail::innermost_trace() = trace_;
  SymbolScope::current() = scope_;
}

namespace graph_detail {
inline int& whole_graph_depth() noexcept {
  static thread_local constinit int depth = 0;
  return depth;
}
}  // namespace graph_detail
SINTER_DECL WholeGraph::WholeGraph() noexcept { ++graph_detail::whole_graph_depth(); }
SINTER_DECL WholeGraph::~WholeGraph() { --graph_detail::whole_graph_depth(); }
SINTER_DECL bool WholeGraph::is_required() noexcept { return graph_detail::whole_graph_depth() > 0; }

SINTER_DECL Trace* Trace::find(std::uint64_t id) noexcept {
  for (Trace* t = current(); t != nullptr; t = t->outer_)
    if (t->id_ == id) return t;
  return nullptr;
}
SINTER_DECL std::uint64_t Trace::read_value(const Ref<TensorImpl>&, std::string_view op, Location where) {
  throw TraceError(op, "a value is read while its function is traced", where,
                   "'" + std::string(name_) +
                       "' needs the whole function as one graph: choose with where(condition, a, b), or return the "
                       "value and read it outside");
}

SINTER_DECL void Trace::note_hooks(const std::shared_ptr<VariableSlot>& gradient, std::uint64_t revision) {
  if (outer_ != nullptr) outer_->note_hooks(gradient, revision);
}

SINTER_DECL EagerResults Trace::call_eagerly(const std::shared_ptr<const EagerCall>& call,
                                             std::span<const Ref<TensorImpl>>) {
  throw TraceError("disable",
                   "a function that is not to be traced is called inside '" + std::string(name_) +
                       "', which needs the whole function as one graph",
                   call->where, "call it outside, and pass its result in");
}

SINTER_DECL RecordingInto::RecordingInto(Trace* trace) noexcept
    : inner_(Trace::current()), scope_(SymbolScope::current()) {
  graph_detail::innermost_trace() = trace;
  if (trace == nullptr) SymbolScope::current() = nullptr;
}
SINTER_DECL RecordingInto::~RecordingInto() {
  graph_detail::innermost_trace() = inner_;
  SymbolScope::current() = scope_;
}

SINTER_DECL bool graph_detail::is_traced_value_usable(const TensorImpl& value) noexcept {
  return value.is_ready() || Trace::find(value.trace) != nullptr;
}

SINTER_DECL Ref<TensorImpl> Trace::placeholder(const Type& type) {
  Ref<TensorImpl> impl = TensorImpl::make(type);
  impl->trace = id_;
  impl->state.store(TensorState::placeholder, std::memory_order_relaxed);
  return impl;
}

SINTER_NAMESPACE_END
