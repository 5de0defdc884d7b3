// Arguments that are Variables, that are not computed yet, or that the caller donates.
#pragma once

#include <sinter/jit/call/arguments.hpp>

#include <sinter/graph/pending_node.hpp>
#include <sinter/jit/call/call_end.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL void ArgList::variable(const Variable& x) {
  VariableSlot* slot = x.slot().get();
  add_value(slot->peek(reading_), LeafKind::variable, slot);
  reaches_tape_ |= slot->gradient() != nullptr;
}

SINTER_DECL Tensor* ArgList::donated(const TensorImpl* value) const {
  int uses = 0;
  for (const ArgLeaf& leaf : leaves_) uses += leaf.impl == value;
  if (uses != 1) return nullptr;
  for (Tensor* handle : donated_)
    if (handle->impl().get() == value) return handle;
  return nullptr;
}

SINTER_DECL void ArgList::make_ready(TensorImpl* impl) { evaluate({&impl, 1}, "compiled call", {}); }

}  // namespace jit
SINTER_NAMESPACE_END
