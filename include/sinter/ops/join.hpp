// Ops that put values into larger ones: update_slice, and pad and concat, which are made of it.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// update_slice(base, value): base with value from the position `starts` on, every `steps` elements.
struct UpdateSlice {
  static constexpr OpInfo info{.name = "update_slice", .arity = 2, .kind = OpKind::structured, .moves_elements = true};
  static constexpr OpAttr<Shape> starts{"starts", 0};
  static constexpr OpAttr<IntVector> steps{"steps", 0};
  static constexpr auto attributes = attribute_list(starts, steps);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// `low` elements of attrs.value before, and `high` after the operand, on each axis.
struct Pad {
  static constexpr OpInfo info{.name = "pad", .arity = 1, .kind = OpKind::composite, .moves_elements = true};
  static constexpr OpAttr<Shape> low{"low", 0}, high{"high", 1};
  static constexpr auto attributes = attribute_list(low, high, attr::value);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// The operands one after the other along attrs.axes[0].
struct Concat {
  static constexpr OpInfo info{.name = "concat", .arity = -1, .kind = OpKind::composite, .moves_elements = true};
  static constexpr auto attributes = attribute_list(attr::axes);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
