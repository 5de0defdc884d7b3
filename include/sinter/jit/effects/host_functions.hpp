// How nodes with functions of the user are recorded, differentiated and batched: what effects and custom ops share.
#pragma once

#include <sinter/jit/effects/custom_op.hpp>
#include <sinter/ops/host_function.hpp>

#include <functional>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::custom_detail {

/// Records it in the trace, or runs it now (effects) or later (the others).
std::vector<Ref<TensorImpl>> record_host_function(const OpInfo& op, std::span<Leaf> operands, Attrs attrs,
                                                  Location where);
/// Gradients by a function of Tensors, traced into the graph of the forward node.
ValList traced_vjp(const VjpArgs& args, const std::string& name,
                   const std::function<std::vector<Tensor>(std::span<const Tensor> in, std::span<const Tensor> out,
                                                           std::span<const Tensor> dout)>& vjp);

/// Batching rule of functions that know one example: they are run for each.
void batch_by_example(const BatchArgs& args, BatchedList& results);

}  // namespace jit::custom_detail
SINTER_NAMESPACE_END
