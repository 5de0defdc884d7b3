// Rules that hold for whole kinds of ops, and the alignment that they share.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/leaf.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

SINTER_DECL Val with_batch(const BatchArgs& args, std::size_t operand) {
  const Val x = args.in[operand];
  if (args.is_batched(operand)) return x;
  const Shape shape = batched_shape(args.size, x.shape());
  const Node& node = x.builder->node(x.value);
  // Uninitialised memory must not be read, and what is nothing but one number needs no stretching.
  if (node.op != &op_info<ops::Empty> && node.op != &op_info<ops::Full>) return expand(x, shape);
  const OpInfo& op = *node.op;
  Attrs attrs = node.attrs;
  attrs.shape = shape;
  return {x.builder, x.builder->add(op, std::span<const Value>{}, std::move(attrs), x.where), x.where};
}

SINTER_DECL Val with_rank(Val x, int rank) {
  const Shape shape = x.shape();
  Shape aligned{shape[0]};
  for (int i = shape.rank(); i < rank; ++i) aligned.push_back(1);
  for (int i = 1; i < shape.rank(); ++i) aligned.push_back(shape[i]);
  return reshape(x, aligned);
}

SINTER_DECL Val move_axis(Val x, int from, int to) {
  IntVector order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != from) order.push_back(i);
  order.insert(as_index(to), from);
  return permute(x, order);
}

SINTER_DECL Batched batch_elementwise(const BatchArgs& args) {
  int rank = 0;  // of the widest operand, for one example
  for (std::size_t i = 0; i < args.in.size(); ++i)
    rank = std::max(rank, args.in[i].rank() - (args.is_batched(i) ? 1 : 0));
  ValList operands;
  for (std::size_t i = 0; i < args.in.size(); ++i)
    operands.push_back(args.is_batched(i) ? with_rank(args.in[i], rank + 1) : args.in[i]);
  return apply(args.op, operands, args.attrs);
}

SINTER_DECL Batched batch_along_axes(const BatchArgs& args) {
  Attrs attrs = args.attrs;
  attrs.axes = axes_past_batch(attrs.axes, args.in[0].rank());
  return apply(args.op, args.in, std::move(attrs));
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
