// CallJournal: what a call that runs uncompiled does to Variables and which values it reads, so that it can be
// undone when it fails and its results can be kept apart from what it read, as compiled calls do. One chain for each
// thread. Knows nothing of calls.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/tensor/impl.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct VariableSlot;

/// While it lives, old values of Variables that this thread assigns are kept; unless keep() is called, they are put
/// back.
class [[nodiscard]] CallJournal {
 public:
  enum class Reads : std::uint8_t { ignored, noted };
  explicit CallJournal(Reads reads) noexcept;
  ~CallJournal();
  CallJournal(const CallJournal&) = delete;
  CallJournal& operator=(const CallJournal&) = delete;

  /// This thread's innermost one, or null.
  static CallJournal* current() noexcept;

  /// The Variable had this value until now. Journals around this one note it, too.
  void note_assigned(VariableSlot& slot, const Ref<TensorImpl>& old) noexcept;
  /// A ready value is an operand of something that runs.
  void note_read(const Ref<TensorImpl>& value);
  /// Values read so far, where reads are noted.
  std::span<const Ref<TensorImpl>> reads() const { return read_; }
  /// The call has succeeded.
  void keep() noexcept;

 private:
  Reads reads_;
  std::vector<std::pair<std::shared_ptr<VariableSlot>, Ref<TensorImpl>>> assigned_;
  std::vector<Ref<TensorImpl>> read_;
  CallJournal* outer_;
};

SINTER_NAMESPACE_END
