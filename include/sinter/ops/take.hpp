// Reading and changing elements at computed positions along one axis.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/scalar.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// take(x, index): the elements of x at index (i32 or i64) along attrs.axes[0]; the axis is replaced by the index's
/// axes. The first `shared` axes, before that axis, and the last `inner` ones, after it, x and index have in common:
/// each row has indices of its own.
struct Take {
  static constexpr OpInfo info{.name = "take", .arity = 2, .kind = OpKind::structured, .moves_elements = true};
  static constexpr OpAttr<std::int64_t> shared{"shared", 0}, inner{"inner", 1};
  static constexpr OpAttr<bool> in_range{"in_range", 3};  // no index is out of range, whatever the operands are
  static constexpr auto attributes = attribute_list(attr::axes, shared, inner, in_range);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// scatter(base, index, value): base, with the elements at index along attrs.axes[0] combined with those of value, in
/// row-major order; `value` has the shape of take(base, index) with the same attributes. An index out of range is an
/// IndexError before anything changes.
struct Scatter {
  static constexpr OpInfo info{.name = "scatter", .arity = 3, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<std::int64_t> shared{"shared", 0}, inner{"inner", 1};
  static constexpr OpAttr<Combine> combine{"combine", 2, "none add mul min max"};
  static constexpr OpAttr<bool> in_range{"in_range", 3};  // as of Take
  static constexpr auto attributes = attribute_list(attr::axes, shared, inner, combine, in_range);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// scatter_add(index, value): zeros of attrs.shape, with value added at index along attrs.axes[0]. The transpose of
/// take.
struct ScatterAdd {
  static constexpr OpInfo info{.name = "scatter_add", .arity = 2, .kind = OpKind::structured, .is_cheap = false};
  static constexpr auto attributes = attribute_list(attr::axes, attr::shape);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// 1 at each index, 0 elsewhere, along a new last axis of `classes`; attrs.dtype. Run with an index that
/// is no class it throws IndexError.
struct OneHot {
  static constexpr OpInfo info{.name = "one_hot", .arity = 1, .kind = OpKind::composite, .has_gradient = false};
  static constexpr OpAttr<Dim> classes{"classes", 0};
  static constexpr auto attributes = attribute_list(classes, attr::dtype);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops

namespace ops_detail {
/// `values`, the integers that `index` holds, too, where it is not replaced by some valid one: when they are computed,
/// an index outside [0, extent) is an IndexError.
Val checked_index(Val values, Val index, Dim extent);
}  // namespace ops_detail
SINTER_NAMESPACE_END
