// Guards, Variables and C++ types against entries, newest first.
#pragma once

#include <sinter/jit/call/lookup.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/guard_text.hpp>
#include <sinter/jit/call/making.hpp>
#include <sinter/jit/call/marks.hpp>
#include <sinter/jit/call/quick_call.hpp>
#include <sinter/jit/trace/trace_tree.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
SINTER_DECL void remember_sizes(const Entry& entry, EntryThread& thread, std::span<const ArgLeaf> args,
                                const SmallVector<std::int64_t, 8>& symbols) {
  if (thread.sizes == nullptr) {
    thread.sizes = std::make_unique<SizeMemo>();
    thread.sizes->guards.leaves = entry.guards.leaves;
    thread.sizes->guards.has_variables = entry.guards.has_variables;
  }
  thread.sizes->symbols = symbols;
  for (std::size_t i = 0; i < args.size(); ++i) {
    LeafSpec& spec = thread.sizes->guards.leaves[i];
    if (args[i].type == nullptr) continue;
    spec.is_sized = true;
    for (std::size_t axis = 0; axis < spec.rank; ++axis) {
      spec.extents[axis] = args[i].type->shape.begin()[axis];
      spec.strides[axis] = (*args[i].strides)[axis];
      spec.stride_dims[axis] = Dim(spec.strides[axis]);
    }
  }
}
/// As entry.guards.holds(), quicker where this thread's last calls had the same sizes.
inline bool guards_hold(const Entry& entry, std::span<const ArgLeaf> args, SmallVector<std::int64_t, 8>& symbols) {
  if (entry.guards.symbols.empty()) return entry.guards.holds(args, symbols);
  EntryThread* thread = entry.threads.get();
  if (thread != nullptr && SINTER_LIKELY(thread->sizes != nullptr) &&
      SINTER_LIKELY(thread->sizes->guards.holds(args, symbols))) {
    symbols = thread->sizes->symbols;
    return true;
  }
  if (!entry.guards.holds(args, symbols)) return false;
  if (thread == nullptr) return true;
  if (thread->last_symbols == symbols) remember_sizes(entry, *thread, args, symbols);
  else thread->last_symbols = symbols;
  return true;
}
}  // namespace jit_detail

namespace jit_detail {

/// Whether the arguments' Variables, in order, are these.
inline bool are_slots(std::span<const ArgLeaf> args, std::span<const VariableSlot* const> slots) {
  std::size_t at = 0;
  for (const ArgLeaf& leaf : args) {
    if (leaf.slot == nullptr) continue;
    if (at == slots.size() || slots[at] != leaf.slot) return false;
    ++at;
  }
  return at == slots.size();
}
inline bool is_argument(const VariableSlot* slot, std::span<const ArgLeaf> args) {
  return std::any_of(args.begin(), args.end(), [&](const ArgLeaf& leaf) { return leaf.slot == slot; });
}
/// Whether the code was seen to be the same for other Variables in these places. Of a function that reads values nobody
/// knows what it does on paths that were not traced for these.
inline bool takes_slots(const Entry& entry, std::span<const ArgLeaf> args) {
  std::size_t at = 0;
  for (const ArgLeaf& leaf : args) {
    if (leaf.slot == nullptr) continue;
    if (entry.traced_slots[at] != leaf.slot && !entry.takes_any_slot[at].load(std::memory_order_acquire)) return false;
    ++at;
  }
  return true;
}
inline bool may_take_others(const Entry& entry) {
  return entry.tree == nullptr && entry.serves.load(std::memory_order_acquire) == Entry::Serves::unknown;
}
/// Notes that a trace with these Variables gave the same code.
inline void take_slots(const Entry& entry, std::span<const ArgLeaf> args) {
  std::size_t at = 0;
  bool takes_all = true;
  for (const ArgLeaf& leaf : args) {
    if (leaf.slot == nullptr) continue;
    if (entry.traced_slots[at] != leaf.slot) entry.takes_any_slot[at].store(true, std::memory_order_release);
    takes_all &= entry.takes_any_slot[at].load(std::memory_order_acquire);
    ++at;
  }
  if (takes_all) entry.serves.store(Entry::Serves::all_variables, std::memory_order_release);
}

/// Whether the entry serves these Variables. A captured one that is an argument, too, is one place to the function and
/// two to the entry. `unverified` becomes the entry where only another trace can tell.
inline bool serves(const Entry& entry, std::span<const ArgLeaf> args, const Entry** unverified) {
  const Entry::Serves serves = entry.serves.load(std::memory_order_acquire);
  if (entry.traced_slots.empty() || (serves == Entry::Serves::all_variables && entry.held.captured.empty()))
    return true;
  EntryThread* thread = entry.threads.get();
  if (thread != nullptr && !thread->slots.empty() && SINTER_LIKELY(are_slots(args, thread->slots))) return true;
  for (const auto& slot : entry.held.captured)
    if (is_argument(slot->here(), args)) return false;
  if (serves != Entry::Serves::all_variables && !takes_slots(entry, args)) {
    if (may_take_others(entry) && unverified != nullptr && *unverified == nullptr) *unverified = &entry;
    return false;
  }
  if (thread == nullptr) return true;
  thread->slots.clear();
  thread->slots.reserve(entry.traced_slots.size());
  for (const ArgLeaf& leaf : args)
    if (leaf.slot != nullptr) thread->slots.push_back(leaf.slot);
  return true;
}

inline bool same_slots(std::span<const std::shared_ptr<VariableSlot>> a,
                       std::span<const std::shared_ptr<VariableSlot>> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return is_same_role(*x, *y); });
}
inline bool same_assignments(std::span<const Assignment> a, std::span<const Assignment> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Assignment& x, const Assignment& y) {
    return x.leaf == y.leaf && (!x.slot || is_same_role(*x.slot, *y.slot));
  });
}
/// Whether two entries, made for different Variables as arguments, are the same code: then no Variable was captured as
/// well.
inline bool is_same_code(const Entry& a, const Entry& b) {
  return b.tree == nullptr && same_slots(a.held.captured, b.held.captured) &&
         same_assignments(a.end.assignments, b.end.assignments) && may_be_retrace(a.traced, b.traced);
}

}  // namespace jit_detail

SINTER_DECL const Entry* FunctionState::find(const ArgList& args, SmallVector<std::int64_t, 8>& symbols,
                                             const Entry** unverified) const {
  const std::uint8_t precision = tensor_detail::matmul_precision_bit.load(std::memory_order_relaxed);
  for (const Entry* entry = newest_.load(std::memory_order_acquire); entry != nullptr; entry = entry->next) {
    if (SINTER_UNLIKELY(entry->types != args.types)) continue;
    if (SINTER_UNLIKELY((entry->precisions & precision) == 0)) continue;
    if (const std::uint32_t used = entry->context_used.load(std::memory_order_acquire); SINTER_UNLIKELY(used != 0)) {
      if (!entry->serves_context()) continue;
      call_context().used |= used;  // so does a trace that calls it
    }
    if (!jit_detail::guards_hold(*entry, args.leaves(), symbols)) continue;
    bool fits = true, reaches_tape = args.reaches_tape() || entry->tape.is_checked() || entry->gives_tape() ||
                                     entry->drops_tape.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < entry->held.captured.size(); ++i) {
      const VariableSlot& slot = *entry->held.captured[i]->here();
      const TensorImpl& value = *slot.peek(args.reading());
      fits &= identical(value.type, entry->captured_types[i]);
      reaches_tape |= slot.gradient() != nullptr || value.tape.load(std::memory_order_relaxed) != TapeState::none;
    }
    if (SINTER_UNLIKELY(reaches_tape) && fits) fits = jit_detail::tape_fits(*entry, args);
    if (fits && entry->guards.has_variables) fits = jit_detail::serves(*entry, args.leaves(), unverified);
    if (fits) return entry;
  }
  return nullptr;
}

SINTER_DECL const Entry* FunctionState::entry_for(const ArgList& args, const TraceFunction& trace,
                                                  SmallVector<std::int64_t, 8>& symbols) {
  const Entry* entry = find(args, symbols);
  return SINTER_LIKELY(entry != nullptr) ? entry : make_entry(args, trace, symbols);
}

SINTER_DECL void FunctionState::check_uncompiled() const {
  if (is_frozen() && on_miss_.load(std::memory_order_relaxed) == OnMiss::throws)
    throw RecompileError("compile", "this call would run uncompiled, and the function is frozen", where_,
                         "freeze(jit::OnMiss::runs_uncompiled) allows it; a function that calls a disabled one is "
                         "compiled where no gradient is wanted (jit::NoGradGuard)");
}
SINTER_DECL void FunctionState::count_miss(const ArgList& args) {
  frozen_misses_.fetch_add(1, std::memory_order_relaxed);
  if (on_miss_.load(std::memory_order_relaxed) == OnMiss::runs_uncompiled) return;
  const std::optional<Guard> broken = closest_broken(args);
  throw RecompileError(
      "compile",
      "no compiled version fits this call, and the function is frozen: " +
          (broken ? failure_text(*broken) : std::string("it was not warmed up for arguments of these C++ types")),
      where_, "call unfreeze(), warm_up(args...) with such arguments, and freeze() again");
}

SINTER_DECL void FunctionState::keep_places_apart(const Entry& made, const ArgList& args) const {
  if (!is_tape_on() || made.tree == nullptr) return;
  for (const Entry* entry = newest_of(args.types); entry != nullptr; entry = entry->next) {
    if (entry->types != args.types) continue;
    if (args.has_places && entry->gives_tape()) made.drops_tape = true;
    if (!args.has_places && entry->drops_tape.load()) made.has_taped_path = true;
  }
}

SINTER_DECL const Entry* FunctionState::make_entry(const ArgList& args, const TraceFunction& trace,
                                                   SmallVector<std::int64_t, 8>& symbols) {
  std::unique_ptr<Entry> made;  // destroyed after the lock: it holds objects of the user
  const runtime_detail::CodeCounting counting;
  const Entry* unverified = nullptr;
  if (const Entry* entry = find(args, symbols, &unverified)) return entry;
  if (is_frozen()) {
    count_miss(args);
    return nullptr;
  }
  if (unverified != nullptr) {
    made = compile(args, trace, unverified->guards.specs());
    if (jit_detail::is_same_code(*unverified, *made)) jit_detail::take_slots(*unverified, args.leaves());
    else unverified->serves.store(Entry::Serves::traced_variables, std::memory_order_release);
    if (const Entry* entry = find(args, symbols)) return entry;
  }
  Decision decision = decide(args, symbols);
  if (decision.fitting != nullptr) return decision.fitting;
  if (!decision.note.empty()) sinter::note("recompiles", decision.note);
  if (decision.is_recompile && has_timeline())
    timeline::instant("recompile", "recompile", JsonFields().add("why", decision.note).add("line", where_.text()));
  if (!decision.warning.empty()) warn("recompiles", decision.warning);
  if (!decision.compiles) return nullptr;
  try {
    if (made == nullptr) made = compile(args, trace, std::move(decision.specs));
  } catch (...) {
    std::scoped_lock lock(mutex_);
    recompiles_ -= decision.is_recompile;
    throw;
  }
  made->guards.prepare();
  made->results = made->end.results - made->end.saved;
  made->is_tree = made->tree != nullptr || made->runs_plain();
  made->is_quick = !made->runs_ahead && jit_detail::is_quick(*made);
  const Entry* entry = made.get();
  {
    const ForkSection whole;  // a child must not find a version that nobody is going to make code for
    std::unique_lock lock(mutex_);
    if (const Entry* other = find(args, symbols);
        other != nullptr && (args.finished == nullptr || other->tree != nullptr)) {
      recompiles_ -= decision.is_recompile;
      return other;
    }
    keep_places_apart(*made, args);
    made->next = newest_.load(std::memory_order_acquire);
    ++compiles_;
    count_code(counting);
    compile_ms_ += made->trace_ms + made->passes_ms + made->codegen_ms;
    entries_.push_back(std::move(made));
    newest_.store(entry, std::memory_order_release);
    lock.unlock();
    submit(*entry);
  }
  jit_detail::log_entry(*entry, where_);
  // Found as any later call finds it, so that what the thread keeps is there.
  const Entry* found = find(args, symbols);
  if (SINTER_LIKELY(found == entry)) return entry;
  if (found != nullptr && entry->runs_ahead) return found;  // its code is there already
  ensure(entry->guards.holds(args.leaves(), symbols), "a new entry does not fit the arguments it was made for");
  return entry;
}

SINTER_DECL const Entry* FunctionState::newest_of(const void* types) const {
  const Entry* entry = newest_.load(std::memory_order_acquire);
  while (entry != nullptr && entry->types != types) entry = entry->next;
  return entry;
}

namespace jit_detail {
inline constexpr std::string_view places_reason =
    "a gradient is wanted of results, and of none that goes into given memory";
inline std::string ranks_text(std::uint64_t key) {
  const auto count = static_cast<std::uint32_t>(key);
  if (count == 0) return "one rank alone";
  return std::to_string(count) + (count == 1 ? " rank" : " ranks") +
         (key >> 32 != 0 ? " that exchange memory of devices" : "");
}
/// Which key of the context differs: the number of ranks before what there are of each.
inline std::optional<Guard> broken_context(const Entry& entry) {
  if (entry.serves_context()) return {};
  const std::uint32_t used = entry.context_used.load(std::memory_order_acquire);
  const auto now_and_then = [&](ContextKey key) -> std::optional<std::pair<std::uint64_t, std::uint64_t>> {
    const auto i = static_cast<std::size_t>(key);
    const std::uint64_t then = entry.context.keys[i], now = call_context().keys[i];
    if ((used >> i & 1) == 0 || then == now) return {};
    return std::pair{now, then};
  };
  Guard guard{GuardKind::ranks, -1, -1};
  if (const auto ranks = now_and_then(ContextKey::ranks)) {
    guard.expected = ranks_text(ranks->second);
    guard.got = ranks_text(ranks->first);
    guard.reason = "number of ranks: expected " + guard.expected + ", got " + guard.got;
  } else if (const auto rank = now_and_then(ContextKey::rank)) {
    const auto text = [](std::uint64_t key) { return std::to_string(key == 0 ? 0 : key - 1); };
    guard.expected = text(rank->second);
    guard.got = text(rank->first);
    guard.reason = "the function asks which rank it runs on: expected " + guard.expected + ", got " + guard.got;
  } else {
    guard.reason = "the function uses axes of a mesh, and runs on another mesh now";
  }
  return guard;
}
/// What the entry asks for besides its guards, and these arguments, which the guards take, do not have.
inline std::optional<Guard> broken_beside_guards(const Entry& entry, const ArgList& list) {
  const std::span<const ArgLeaf> args = list.leaves();
  ReadSection& reading = list.reading();
  for (const auto& slot : entry.held.captured)
    if (is_argument(slot->here(), args))
      return Guard{GuardKind::alias, -1, -1, "a Variable that the function captured is an argument of this call, too"};
  for (std::size_t i = 0; i < entry.held.captured.size(); ++i)
    if (const Type& now = entry.held.captured[i]->here()->peek(reading)->type; !identical(now, entry.captured_types[i]))
      return Guard{GuardKind::dtype,
                   -1,
                   -1,
                   "a captured Variable has another dtype or shape now",
                   "",
                   entry.captured_types[i].text(),
                   now.text()};
  if (!hooks_hold(entry.tape.hooks))
    return Guard{GuardKind::gradient, -1, -1,
                 "a hook was registered or removed of a gradient that the function computes itself"};
  if (!tape_fits(entry, list))
    return Guard{
        GuardKind::gradient, -1, -1,
        is_tape_on() && (list.has_places ? entry.gives_tape() : entry.drops_tape.load()) ? std::string(places_reason)
        : entry.tape.is_needed ? "a gradient was wanted by what the function uses, and now by less or by other things"
                               : "a gradient is wanted by what the function uses, and was by nothing"};
  if (entry.tree != nullptr && entry.guards.has_variables && !are_slots(args, entry.traced_slots))
    return Guard{GuardKind::alias, -1, -1,
                 "other Variables are arguments, and the function reads values: it may have captured one of them"};
  if (entry.serves.load() == Entry::Serves::traced_variables && entry.guards.has_variables && !takes_slots(entry, args))
    return Guard{GuardKind::alias, -1, -1,
                 "a Variable that the function captured was an argument, too, and is none of this call"};
  return broken_context(entry);
}
}  // namespace jit_detail

SINTER_DECL std::optional<Guard> FunctionState::closest_broken(const ArgList& args) const {
  std::optional<Guard> closest;
  std::size_t fewest = 0;
  for (const Entry* entry = newest_of(args.types); entry != nullptr; entry = entry->next) {
    if (entry->types != args.types) continue;
    std::vector<Guard> broken = entry->guards.broken(args.leaves());
    if (const MatmulPrecision now = matmul_precision(); (entry->precisions & precision_bit(now)) == 0)
      broken.push_back(broken_precision(entry->precision, now));
    if (broken.empty())
      if (auto other = jit_detail::broken_beside_guards(*entry, args)) broken.push_back(*std::move(other));
    if (broken.empty())
      broken.push_back(
          {GuardKind::alias, -1, -1, "other Variables are arguments than those that the function was traced with"});
    if (closest && broken.size() >= fewest) continue;
    fewest = broken.size();
    closest = std::move(broken.front());
  }
  return closest;
}

SINTER_DECL std::string FunctionState::all_broken_text(const ArgList& args) const {
  std::string text;
  int version = 0;
  for (const Entry* entry = newest_of(args.types); entry != nullptr; entry = entry->next, ++version) {
    if (entry->types != args.types) continue;
    text += "\n  of version " + std::to_string(version) + " (0: the newest):";
    for (const Guard& guard : entry->guards.broken(args.leaves())) text += "\n    " + failure_text(guard);
  }
  return text;
}

SINTER_DECL bool FunctionState::is_first_of_its_sizes(const ArgList& list) const {
  std::span<const ArgLeaf> args = list.leaves();
  const auto fits = [&](const LeafSpec& spec, const ArgLeaf& arg) {
    for (std::size_t axis = 0; axis < spec.rank; ++axis) {
      const std::int64_t extent = arg.type->shape.begin()[axis].value();
      if (extent < 2 ? !identical(spec.extents[axis], Dim(extent)) : spec.extents[axis].is_static()) return false;
    }
    return true;
  };
  for (const Entry* entry = newest_of(list.types); entry != nullptr; entry = entry->next) {
    bool has_sizes = entry->types == list.types && entry->guards.leaves.size() == args.size();
    for (std::size_t i = 0; has_sizes && i < args.size(); ++i)
      has_sizes = args[i].type == nullptr || fits(entry->guards.leaves[i], args[i]);
    if (has_sizes) return false;
  }
  return true;
}

SINTER_DECL bool FunctionState::is_first_of_its_places(const ArgList& args) const {
  Symbols symbols;
  for (const Entry* entry = newest_of(args.types); entry != nullptr; entry = entry->next)
    if (entry->types == args.types && (args.has_places ? entry->drops_tape.load() : entry->gives_tape()) &&
        entry->guards.holds(args.leaves(), symbols))
      return false;
  return true;
}

SINTER_DECL FunctionState::Decision FunctionState::decide(const ArgList& args, Symbols& symbols) {
  std::scoped_lock lock(mutex_);
  Decision decision;
  decision.fitting =
      find(args, symbols);  // versions are published under this lock: no guard of one that fits is called broken
  if (decision.fitting != nullptr) return decision;
  decision.compiles = may_compile(args, decision);
  if (decision.compiles) decision.specs = choose_specs(args);
  return decision;
}

SINTER_DECL bool FunctionState::may_compile(const ArgList& args, Decision& decision) {
  std::optional<Guard> broken = closest_broken(args);
  if (broken && broken->reason == jit_detail::places_reason && is_first_of_its_places(args)) broken.reset();
  if (saved_ != nullptr && saved_specs(args)) broken.reset();  // it was compiled before: by who saved it
  if (serves_ == Serves::expression) return compiles_ - 1 < options_.recompile_limit;
  // A first version is no recompile; nor is that for extents of 0 or 1 where all others are symbols from the start.
  const bool is_first = !broken || (options_.dynamic == Dynamic::always &&
                                    (broken->kind == GuardKind::extent || broken->kind == GuardKind::range) &&
                                    is_first_of_its_sizes(args));
  const std::string reason = !broken ? "nothing is compiled for it yet" : failure_text(*broken);
  switch (current_stance()) {
    case Stance::fail_on_recompile:
      if (is_first) break;
      throw RecompileError("compile",
                           "no compiled version fits this call, and the stance is fail_on_recompile: " + reason, where_,
                           remedy(broken->kind));
    case Stance::force_eager:
    case Stance::eager_on_recompile: return false;
    case Stance::eager_then_compile:
      if (!broken && !misses_.has_seen()) {
        misses_.remember(args.leaves());
        return false;
      }
      break;
    case Stance::default_: break;
  }
  if (!broken) return true;
  if (is_logged("recompiles") || has_timeline()) decision.note = where_.text() + ": " + reason;
  if (is_logged("recompiles", LogLevel::debug)) decision.note += all_broken_text(args);
  misses_.add(*broken);
  decision.is_recompile = recompiles_ < options_.recompile_limit;
  recompiles_ += decision.is_recompile;
  if (!decision.is_recompile && misses_.report_once())
    decision.warning = where_.text() + ": " + misses_.text(options_.recompile_limit);
  return decision.is_recompile;
}

SINTER_DECL GuardSet FunctionState::choose_specs(const ArgList& list) const {
  if (saved_ != nullptr)
    if (std::optional<GuardSet> saved = saved_specs(list)) return *std::move(saved);
  std::span<const ArgLeaf> args = list.leaves();
  std::vector<std::uint32_t> symbolic(args.size(), options_.dynamic == Dynamic::always ? 0xFFFFu : 0u);
  if (options_.dynamic == Dynamic::automatic) {
    misses_.mark_changed(args, symbolic);
    for (const Entry* entry = newest_of(list.types); entry != nullptr; entry = entry->next)
      if (entry->types == list.types) mark_changed(entry->guards.leaves, args, symbolic);
  }
  return specs_of(args, symbolic);
}

}  // namespace jit
SINTER_NAMESPACE_END
