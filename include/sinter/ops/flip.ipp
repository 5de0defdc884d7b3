// Mirrored axes as gathers by descending positions.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/flip.hpp>
#include <sinter/ops/take.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

SINTER_DECL Type Flip::infer(const InferArgs& args) {
  const Shape& shape = args.in[0].shape;
  std::uint32_t seen = 0;
  for (std::int64_t axis : args.attrs.axes) {
    const std::uint32_t bit = 1u << ops_detail::checked_axis(args, axis, shape.rank());
    if ((seen & bit) != 0) throw IndexError(args.op, "axis " + std::to_string(axis) + " is named twice", args.where);
    seen |= bit;
  }
  return args.in[0];
}

SINTER_DECL Val Flip::decompose(const DecomposeArgs& args) {
  Val x = args.in[0];
  for (std::int64_t named : args.attrs.axes) {
    const int axis = normalise_axis(static_cast<int>(named), x.rank(), "flip", args.where);
    const Dim extent = x.shape()[axis];
    if (extent.is_static() && extent.value() <= 1) continue;
    const Val last = element_count(x, {axis}, DType::i64) - 1;
    Attrs attrs;
    attrs.axes.push_back(axis);
    attrs.set(Take::in_range, true);
    x = apply(op_info<Take>, {x, last - iota(x, {extent}, 0, DType::i64)}, std::move(attrs));
  }
  return x;
}

}  // namespace ops
SINTER_NAMESPACE_END
