// Trace: a function being recorded on this thread, and the stack of those. Which values belong to it and what it is
// told of Variables, effects and numbers that are read. Knows values and their types; no statements.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/graph/eager_call.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/tensor/impl.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN

struct VariableSlot;  // tensor/tensor.hpp

namespace graph_detail {
inline Trace*& innermost_trace() noexcept {
  static thread_local constinit Trace* trace = nullptr;
  return trace;
}
}  // namespace graph_detail

/// A function being traced on this thread. Traces nest (grad inside compile); the innermost records.
class Trace {
 public:
  explicit Trace(std::string_view name);
  virtual ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  std::uint64_t id() const { return id_; }
  Trace* outer() const { return outer_; }
  std::string_view name() const { return name_; }
  /// A Variable was given a new value while this trace records; `slot` is its identity. See jit.
  virtual void note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) = 0;
  /// A Variable is read: its value so far in this trace, or null to read the slot itself.
  virtual Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>& slot) = 0;
  /// Token of the effect that was recorded last, or null. A capture that is to hold the effects names it as a root.
  const Ref<TensorImpl>& last_effect() const { return last_effect_; }
  void set_last_effect(Ref<TensorImpl> token) { last_effect_ = std::move(token); }
  /// A place where a layer above keeps what belongs to this trace; made at first use.
  std::shared_ptr<void>& attachment(std::pair<const void*, const void*> key) { return attachments_[key]; }
  /// The function needs the number in `value`, a value of this trace with one element, now: its bits, in its own dtype.
  /// The default refuses.
  virtual std::uint64_t read_value(const Ref<TensorImpl>& value, std::string_view op, Location where);
  /// The function needs the number in a value of an enclosing trace.
  virtual void note_outer_read() {}
  /// A backward() inside the function asked which hooks the gradient in this slot goes through (hooks_revision()). The
  /// default tells the enclosing trace.
  virtual void note_hooks(const std::shared_ptr<VariableSlot>& gradient, std::uint64_t revision);
  /// A NoGradGuard lives that was opened inside the traced function: no gradient flows through what is recorded now.
  bool stops_gradients() const { return no_grad_depth() > no_grad_depth_; }
  /// The function calls another one that no trace sees into, on `operands`: what it gave, as values of this trace.
  /// The default refuses.
  virtual EagerResults call_eagerly(const std::shared_ptr<const EagerCall>& call,
                                    std::span<const Ref<TensorImpl>> operands);
  /// A new input of the trace.
  Ref<TensorImpl> placeholder(const Type& type);

  /// The statement whose types are being worked out: who asks about Dims. Without an op: the function itself.
  struct Statement {
    std::string_view op{};
    Location where{};
  } statement;

  static Trace* current() noexcept;
  /// The active trace with this id on this thread, or null.
  static Trace* find(std::uint64_t id) noexcept;

 private:
  std::uint64_t id_;
  Trace* outer_;
  std::string_view name_;
  int no_grad_depth_;  // when the trace was opened
  Ref<TensorImpl> last_effect_;
  std::map<std::pair<const void*, const void*>, std::shared_ptr<void>> attachments_;
};

/// While it lives, this thread records into `trace`, which encloses the present one; null: into none.
class RecordingInto {
 public:
  explicit RecordingInto(Trace* trace) noexcept;
  ~RecordingInto();
  RecordingInto(const RecordingInto&) = delete;
  RecordingInto& operator=(const RecordingInto&) = delete;

 private:
  Trace* inner_;
  SymbolScope* scope_;
};

SINTER_NAMESPACE_END
