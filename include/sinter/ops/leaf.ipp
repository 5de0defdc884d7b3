// Shape rules of generated values.
#pragma once

#include <sinter/ops/leaf.hpp>

SINTER_NAMESPACE_BEGIN
namespace graph_detail {
SINTER_DECL const OpInfo& input_op() { return op_info<ops::Input>; }
SINTER_DECL const OpInfo& constant_op() { return op_info<ops::Constant>; }
}  // namespace graph_detail

namespace ops {

SINTER_DECL Type Iota::infer(const InferArgs& args) {
  if (args.attrs.axes.size() != 1)
    throw IndexError(args.op, "one axis is required, not " + std::to_string(args.attrs.axes.size()), args.where);
  ops_detail::checked_axis(args, args.attrs.axes[0], args.attrs.shape.rank());
  if (args.attrs.dtype == DType::bool_) throw DTypeError(args.op, "indices do not fit bool", args.where);
  return ops_detail::with_shape(args, args.attrs.shape, args.attrs.dtype);
}

}  // namespace ops
SINTER_NAMESPACE_END
