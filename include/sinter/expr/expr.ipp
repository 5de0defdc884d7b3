// What a named expression remembers of its recordings.
#pragma once

#include <sinter/expr/expr.hpp>

#include <sinter/base/config.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {

struct RecordedValue::Other {
  Ref<TensorImpl> value;
  Other* next;
};

SINTER_DECL Ref<TensorImpl> RecordedValue::usable_of_traces() const noexcept {
  TensorImpl* known = get();
  if (is_usable_here(*known)) return Ref<TensorImpl>::share(known);
  for (const Other* other = __atomic_load_n(&others_, __ATOMIC_ACQUIRE); other != nullptr; other = other->next)
    if (is_usable_here(*other->value)) return other->value;
  return {};
}

SINTER_DECL Ref<TensorImpl> RecordedValue::keep(Ref<TensorImpl> value) const {
  TensorImpl* known = nullptr;
  if (__atomic_compare_exchange_n(&value_, &known, value.get(), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    value->retain();
    return value;
  }
  if (is_usable_here(*known)) return Ref<TensorImpl>::share(known);
  auto* other = new Other{value, __atomic_load_n(&others_, __ATOMIC_ACQUIRE)};
  while (!__atomic_compare_exchange_n(&others_, &other->next, other, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
  return value;
}

SINTER_DECL void RecordedValue::release() noexcept {
  value_->release();
  while (others_ != nullptr) delete std::exchange(others_, others_->next);
}

}  // namespace expr_detail

SINTER_NAMESPACE_END
