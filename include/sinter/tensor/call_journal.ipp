// See the header.
#pragma once

#include <sinter/tensor/call_journal.hpp>

#include <sinter/tensor/slot.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {
inline CallJournal*& innermost_journal() noexcept {
  static thread_local constinit CallJournal* journal = nullptr;
  return journal;
}
}  // namespace tensor_detail

SINTER_DECL CallJournal::CallJournal(Reads reads) noexcept
    : reads_(reads), outer_(std::exchange(tensor_detail::innermost_journal(), this)) {}

SINTER_DECL CallJournal::~CallJournal() {
  tensor_detail::innermost_journal() = outer_;
  for (auto& [slot, old] : assigned_) slot->set(std::move(old));
}

SINTER_DECL void CallJournal::keep() noexcept { assigned_.clear(); }

SINTER_DECL CallJournal* CallJournal::current() noexcept { return tensor_detail::innermost_journal(); }

SINTER_DECL void CallJournal::note_assigned(VariableSlot& slot, const Ref<TensorImpl>& old) noexcept {
  for (CallJournal* journal = this; journal != nullptr; journal = journal->outer_) {
    const auto is_known = [&](const auto& item) { return item.first.get() == &slot; };
    if (std::any_of(journal->assigned_.begin(), journal->assigned_.end(), is_known)) continue;
    try {
      journal->assigned_.emplace_back(slot.shared_from_this(), old);
    } catch (...) {  // no memory even for this: the Variable keeps its new value
    }
  }
}

SINTER_DECL void CallJournal::note_read(const Ref<TensorImpl>& value) {
  for (CallJournal* journal = this; journal != nullptr; journal = journal->outer_) {
    if (journal->reads_ == Reads::noted) journal->read_.push_back(value);
  }
}

SINTER_NAMESPACE_END
