// EagerCall: a call of a C++ function that no trace sees into (jit::disable). The trace is cut there: the function runs
// on values at each call, and what it gives are inputs of what follows. Also EagerSection: the Variables of the
// compiled call in whose middle such a function runs. Knows nothing of the function's type, nor of trees.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/base/type_key.hpp>
#include <sinter/tensor/dim.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct VariableSlot;

/// What one run of such a function gave.
struct EagerResults {
  std::vector<Ref<TensorImpl>>
      values;  // tensors and numbers known at run time: ready and row-major, or placeholders of a trace
  std::vector<std::int64_t> fixed;     // C++ values and sizes in it, by their bits
  std::shared_ptr<const void> object;  // the result as it was returned
  bool is_opaque = false;              // it cannot be taken apart: compared as a whole
  bool is_on_tape = false;             // a value was computed from a Variable that requires a gradient
};

/// A function with its arguments, of which the operands are known only at run time.
class EagerCall {
 public:
  EagerCall(Location called_at, Location made_at) : where(called_at), disabled_at(made_at) {}
  virtual ~EagerCall() = default;
  EagerCall(const EagerCall&) = delete;
  EagerCall& operator=(const EagerCall&) = delete;

  /// Calls the function, outside of all traces. `symbols`: their values in this call.
  virtual EagerResults run(std::span<const Ref<TensorImpl>> operands, std::span<const std::int64_t> symbols) const = 0;
  /// Of the object itself.
  virtual TypeKey type() const = 0;
  /// Whether `other` calls the same function with the same arguments besides the operands.
  virtual bool is_same(const EagerCall& other) const = 0;
  /// Opaque results.
  virtual bool is_same_result(const void* a, const void* b) const = 0;

  const Location where;        // of the call
  const Location disabled_at;  // of the function
};

/// What the results of a call must be like for the code after it: types whose extents may be symbolic, and C++ values.
struct EagerArrival {
  std::vector<Type> types;
  std::vector<std::uint8_t> is_weak;
  std::vector<std::int64_t> fixed;
  std::shared_ptr<const void> object;  // of an opaque result

  /// Describes `given`; an extent that is that of one of `known` in this call is taken to be it in all calls.
  static EagerArrival of(const EagerResults& given, std::span<const Dim> known, std::span<const std::int64_t> symbols);
  bool fits(const EagerCall& call, const EagerResults& given, std::span<const std::int64_t> symbols) const;
};

/// While it lives, a function runs on this thread in the middle of a compiled call. What the call assigns to Variables
/// is written after it, and what it reads was read before: the function must neither read the ones nor assign the
/// others.
class [[nodiscard]] EagerSection {
 public:
  struct Use {
    const VariableSlot* slot = nullptr;
    bool is_assigned = false;  // else only read
  };
  EagerSection(std::span<const Use> uses, const EagerCall& call) noexcept;
  ~EagerSection();
  EagerSection(const EagerSection&) = delete;
  EagerSection& operator=(const EagerSection&) = delete;

  /// Throws TraceError where one is open that forbids it.
  static void check_read(const VariableSlot& slot);
  static void check_assign(const VariableSlot& slot);

 private:
  std::span<const Use> uses_;
  const EagerCall& call_;
  const EagerSection* outer_;
};

SINTER_NAMESPACE_END
