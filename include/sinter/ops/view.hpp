// Views: other arrangements of the same elements, which move no data where strides allow.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// The same elements in row-major order, as attrs.shape.
struct Reshape {
  static constexpr OpInfo info{.name = "reshape", .arity = 1, .kind = OpKind::view, .takes_complex = true};
  static constexpr auto attributes = attribute_list(attr::shape);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a) { return {reshape(a.dout, a.in[0].shape())}; }
  static Batched batch(const BatchArgs& a);
};

/// Result axis i is operand axis attrs.axes[i].
struct Permute {
  static constexpr OpInfo info{.name = "permute", .arity = 1, .kind = OpKind::view, .takes_complex = true};
  static constexpr auto attributes = attribute_list(attr::axes);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// Extents of 1 stretch to attrs.shape, to which the operand's shape is right-aligned.
struct Expand {
  static constexpr OpInfo info{.name = "expand", .arity = 1, .kind = OpKind::view, .takes_complex = true};
  static constexpr auto attributes = attribute_list(attr::shape);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a) { return {sum_to_shape(a.dout, a.in[0].shape())}; }
  static Batched batch(const BatchArgs& a);
};

/// Elements from `starts` to before `ends`, every `steps`, on each axis.
struct Slice {
  static constexpr OpInfo info{.name = "slice", .arity = 1, .kind = OpKind::view, .takes_complex = true};
  static constexpr OpAttr<Shape> starts{"starts", 0}, ends{"ends", 1};
  static constexpr OpAttr<IntVector> steps{"steps", 0};
  static constexpr auto attributes = attribute_list(starts, ends, steps);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a) { return {place(a.dout, a.in[0].shape(), a.attrs[starts], a.attrs[steps])}; }
  static Batched batch(const BatchArgs& a);
};

/// Sliding windows: axis attrs.axes[i] keeps (n - sizes[i]) / strides[i] + 1 positions, and an axis of that size is
/// appended for each.
struct Windows {
  static constexpr OpInfo info{.name = "windows", .arity = 1, .kind = OpKind::view};
  static constexpr OpAttr<IntVector> sizes{"sizes", 0}, strides{"strides", 1};
  static constexpr auto attributes = attribute_list(attr::axes, sizes, strides);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
