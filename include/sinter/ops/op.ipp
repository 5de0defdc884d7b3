// What describe<Op>() puts around the functions of ops, once for all of them.
#pragma once

#include <sinter/ops/op.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

SINTER_DECL void add_type(TypeList& types, Type type) { types.push_back(std::move(type)); }

SINTER_DECL void add_gradients(ValList& grads, std::span<const Val> more) {
  for (const Val& gradient : more) grads.push_back(gradient);
}

SINTER_DECL void add_batched(BatchedList& results, const Batched& result) { results.push_back(result); }

SINTER_DECL void add_batched_elementwise(const BatchArgs& args, BatchedList& results) {
  results.push_back(batch_elementwise(args));
}

SINTER_DECL void add_batched_along_axes(const BatchArgs& args, BatchedList& results) {
  results.push_back(batch_along_axes(args));
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
