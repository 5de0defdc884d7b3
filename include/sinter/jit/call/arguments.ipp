// Arguments that are Variables, that are not computed yet, or that the caller gives up.
#pragma once

#include <sinter/jit/call/arguments.hpp>

#include <sinter/graph/record.hpp>
#include <sinter/jit/call/call_end.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL void ArgList::variable(const Variable& x) {
  VariableSlot* slot = x.slot().get();
  add_value(slot->peek(reading_), LeafKind::variable, slot);
}

SINTER_DECL Tensor* ArgList::given_up(const TensorImpl* value) const {
  int uses = 0;
  for (const ArgLeaf& leaf : leaves_) uses += leaf.impl == value;
  if (uses != 1) return nullptr;
  for (Tensor* handle : given_)
    if (handle->impl().get() == value) return handle;
  return nullptr;
}

SINTER_DECL void ArgList::make_ready(TensorImpl* impl) { evaluate({&impl, 1}, "compiled call", {}); }

}  // namespace jit
SINTER_NAMESPACE_END
