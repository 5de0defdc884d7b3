// Products of f16 and bf16. Passes make them of f32 (matmul(cast(a), cast(b)), narrowed); where a back end multiplies
// the narrow numbers themselves (Limits::narrow_products) the product reads them, and the casts are left out.
//
// The order of a sum in such a kernel is its back end's, not that of Kernel: units that multiply narrow numbers add
// several products at once. docs/numerics.md says what each does.
#pragma once

#include <sinter/kernel/fusion_node.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/matmul.hpp>
#include <sinter/ops/unary.hpp>

SINTER_NAMESPACE_BEGIN

/// Only products whose digits nobody asks for in f32: a program that casts its operands itself gets products of f32.
SINTER_DECL void FusionGraph::find_rounded(const std::vector<bool>& live, std::span<const std::int32_t> uses) {
  rounded_to_.assign(uses.size(), DType::f32);
  std::vector<std::int32_t> roundings(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Node& node = graph_->nodes()[i];
    if (!live[i] || node.op != &op_info<ops::Narrow> || !options_.narrow_products.has(node.types[0].dtype)) continue;
    const auto product = as_index(node.inputs[0].node);
    if (graph_->nodes()[product].op != &op_info<ops::Matmul>) continue;
    if (++roundings[product] == uses[product]) rounded_to_[product] = node.types[0].dtype;
  }
}

/// The value of dtype `narrow` that `node` is, cast to f32; -1: it is none.
SINTER_DECL int FusionGraph::before_widening(int node, DType narrow) {
  const FusionNode& it = (*this)[node];
  if (it.dtype != DType::f32) return -1;
  if (it.kind == NodeKind::map && graph_node(node)->op == &op_info<ops::Cast>)
    return (*this)[it.inputs[0]].dtype == narrow ? it.inputs[0] : -1;
  if (!is_view(it.kind)) return -1;
  const int input = before_widening(it.inputs[0], narrow);
  if (input < 0) return -1;
  const int clone = clone_view(node, input);
  (*this)[clone].dtype = narrow;
  return clone;
}

SINTER_DECL void FusionGraph::read_narrow_operands(FusionNode& product) {
  const DType narrow = rounded_to_[as_index(product.graph_node)];
  if (narrow == DType::f32) return;
  const int a = before_widening(product.inputs[0], narrow), b = before_widening(product.inputs[1], narrow);
  if (a < 0 || b < 0) return;
  product.inputs[0] = a;
  product.inputs[1] = b;
  has_unused_widenings_ = true;
}

/// Casts that only products read are in no kernel.
SINTER_DECL void FusionGraph::drop_unused_widenings() {
  for (int node = size(); node-- > 0;) {
    FusionNode& it = (*this)[node];
    const bool is_widening = it.kind == NodeKind::map && graph_node(node)->op == &op_info<ops::Cast>;
    if (it.uses != 0 || it.is_in_memory || !(is_widening || is_view(it.kind))) continue;
    if (is_widening) it.is_inlined = true;
    --(*this)[it.inputs[0]].uses;
  }
}

SINTER_NAMESPACE_END
