// RecogniseAttention: attention that is written out becomes the operation, which a back end may compute whole.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

/// matmul(softmax(scores, -1), v), where scores are matmul(q, k^T), times numbers, plus a mask or with -inf where one
/// says so, in any order that means the same, becomes scaled_dot_product_attention(q, k, v, mask). Only where nobody
/// else reads the scores or the weights, which then exist nowhere: in gradients they are read again.
struct RecogniseAttention {
  std::string_view name() const { return "recognise attention"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
