// Tracing again, and the comparison.
#pragma once

#include <sinter/jit/call/purity.hpp>

#include <sinter/base/context.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/making.hpp>
#include <sinter/jit/trace/trace.hpp>

#include <algorithm>
#include <chrono>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
/// The first node in which two traces of one function differ, in words.
inline std::string first_difference(const Graph& before, const Graph& now, Location& where) {
  std::size_t n = std::min(before.nodes().size(), now.nodes().size());
  for (std::size_t i = 0; i < n; ++i) {
    const Node &a = before.nodes()[i], &b = now.nodes()[i];
    if (a.inputs == b.inputs && may_be_retrace(a, b)) continue;
    where = b.where;
    // A changed number is a node of its own; name the operation that uses it.
    for (std::size_t user = i + 1; user < now.nodes().size() && b.inputs.empty(); ++user) {
      const Node& candidate = now.nodes()[user];
      for (Value v : candidate.inputs)
        if (v.node == static_cast<std::int32_t>(i)) return std::string(candidate.op->name);
    }
    return std::string(b.op->name);
  }
  return "the number of operations";
}

inline constexpr std::int64_t never_again = std::numeric_limits<std::int64_t>::max();

SINTER_DECL std::int64_t next_purity_check(std::int64_t due) {
  if (due >= 1023 && !Context::get().checks) return never_again;
  return 2 * due + 1;
}
}  // namespace jit_detail

SINTER_DECL void FunctionState::check_purity(const Entry& entry, EntryThread& thread, const ArgList& args,
                                             const TraceFunction& trace) {
  const std::int64_t due = thread.next_check;
  // Expressions capture nothing.
  thread.next_check =
      serves_ == Serves::expression || saved_ != nullptr ? jit_detail::never_again : jit_detail::next_purity_check(due);
  if (serves_ == Serves::expression || saved_ != nullptr || is_frozen()) return;  // a file does not change
  // A trace of more than a millisecond is repeated only where that is at most a hundredth of the time since the first.
  constexpr double long_trace_ms = 1, share = 0.01;
  const auto now = std::chrono::steady_clock::now();
  const double age_ms = std::chrono::duration<double, std::milli>(now - entry.made).count();
  if (due > 1 && entry.trace_ms > long_trace_ms && thread.checking_ms + entry.trace_ms > share * age_ms) return;
  struct Again {  // a check that fails or throws is due again at once: wrong values must not go unnoticed
    EntryThread& thread;
    std::int64_t due;
    std::chrono::steady_clock::time_point begin;
    bool has_passed = false;
    ~Again() {
      if (!has_passed) thread.next_check = due;
      thread.checking_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    }
  } again{thread, due, now};
  ReadPolicy policy;
  policy.beyond = ReadPolicy::Beyond::differs;
  FunctionTrace recorder("compile", args.leaves(), entry.guards.specs(), std::move(policy));
  const jit_detail::TracedGraph traced = jit_detail::traced_graph(recorder, trace(recorder), where_);
  Location where = where_;
  if (!may_be_retrace(entry.traced, traced.graph)) {
    const std::string op = jit_detail::first_difference(entry.traced, traced.graph, where);
    throw TraceError("compile", "captured value changed at " + op, where, jit_detail::purity_fix);
  }
  const auto is_same = [](const auto& a, const auto& b) { return is_same_role(*a, *b); };
  if (!std::equal(traced.captured.begin(), traced.captured.end(), entry.held.captured.begin(),
                  entry.held.captured.end(), is_same))
    throw TraceError("compile", "the function uses another Variable than when it was traced", where_,
                     "a captured Variable is known by its identity: pass it as an argument, or give the same one a new "
                     "value with set");
  again.has_passed = true;
}

}  // namespace jit
SINTER_NAMESPACE_END
