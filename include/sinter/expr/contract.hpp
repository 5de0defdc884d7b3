// Products of tensors whose axes have labels: what einsum and tensordot lower to. Only .ipp files include it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// A tensor whose axes have labels, each at most once.
struct Labelled {
  Tensor value;
  std::vector<int> labels;
};
/// The operands multiplied in the order of fewest operations, with `output` as labels of the result; all other labels
/// are summed over. Equal labels have equal extents. At most 60 operands.
Tensor contract(std::vector<Labelled> operands, const std::vector<int>& output, Location where);

}  // namespace expr_detail
SINTER_NAMESPACE_END
