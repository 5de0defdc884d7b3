// Asks the payload.
#pragma once

#include <sinter/ops/compiled_call.hpp>

#include <sinter/base/error.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

SINTER_DECL void CompiledCall::infer(const InferArgs& args, TypeList& out) {
  for (const Type& type : args.attrs.types) out.push_back(type);
}

SINTER_DECL ValList CompiledCall::vjp(const VjpArgs& args) {
  const auto* rule = payload_cast<CallRule>(args.attrs.payload.get());
  ensure(rule != nullptr, "a compiled call has lost its derivative");
  return rule->vjp(args);
}

}  // namespace ops
SINTER_NAMESPACE_END
