// Derivative and batching of copies between devices.
#pragma once

#include <sinter/ops/to.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Val to(Val x, Device device) {
  return {x.builder, x.builder->add(op_info<ops::To>, {x.value}, Attrs{.device = device}, x.where), x.where};
}

namespace ops {
SINTER_DECL ValList To::vjp(const VjpArgs& a) { return {to(a.dout, a.in[0].type().device)}; }
SINTER_DECL Batched To::batch(const BatchArgs& a) { return {to(a.in[0], a.attrs.device), a.is_batched(0)}; }
}  // namespace ops

SINTER_NAMESPACE_END
