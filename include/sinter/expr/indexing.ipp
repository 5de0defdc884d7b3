// Regions, gathers, and the updates behind assignments to slots.
#pragma once

#include <sinter/expr/indexing.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>

#include <span>
#include <string>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Index::Index(const Scalar& s, Location at) : where(at) {
  const Leaf& leaf = s.leaf();
  if (leaf.value) {
    kind = Kind::gather;
    indices = leaf.value;
  } else if (leaf.kind == DTypeClass::integer) {
    kind = Kind::position;
    position = Dim(leaf.integer);
  } else {
    const bool is_bool = leaf.kind == DTypeClass::boolean;
    throw DTypeError("index",
                     is_bool ? "the index is a bool" : "the index " + std::to_string(leaf.number) + " is floating", at,
                     "an index is a whole number");
  }
}
SINTER_DECL Index::Index(const Variable& v, Location at) : kind(Kind::gather), indices(v.value().impl()), where(at) {}

SINTER_DECL IndexList::IndexList(std::initializer_list<const Index*> given) {
  for (const Index* index : given)
    if (index->kind != Index::Kind::none) list.push_back(*index);
}

SINTER_DECL SlotRef::SlotRef(Tensor& target, std::vector<Index> index) : target_(target), index_(std::move(index)) {}

SINTER_DECL SlotRef Tensor::at(const Index& i0, const Index& i1, const Index& i2, const Index& i3, const Index& i4,
                               const Index& i5, const Index& i6, const Index& i7) & {
  return SlotRef(*this, IndexList{&i0, &i1, &i2, &i3, &i4, &i5, &i6, &i7}.list);
}

namespace expr_detail {

/// A slice bound against an extent: negative counts from the end, beyond is clipped.
inline Dim resolve_bound(Dim bound, Dim extent) {
  if (bound.is_static() && bound.value() == 0) return bound;
  if (identical(bound, extent) || (bound.is_static() && bound.value() == (std::int64_t{1} << 60))) return extent;
  if (is_at_most(0, bound)) return is_at_most(bound, extent) ? bound : extent;
  return is_at_most(0, extent + bound) ? extent + bound : Dim(0);
}

/// The one index of a position: negative counts from the end, beyond is an error.
inline Dim resolve_position(Dim position, const Shape& shape, int axis, std::string_view op, Location where) {
  const Dim extent = shape[axis], start = is_at_most(0, position) ? position : extent + position;
  if (!is_at_most(0, start) || !is_at_most(start + Dim(1), extent))
    throw IndexError(
        op, "index " + position.text() + " is out of range for axis " + std::to_string(axis) + " of " + shape.text(),
        where);
  return start;
}

/// A basic index (no gathers) against a shape: the sliced region, and which axes it drops.
struct Region {
  Shape starts, limits;
  IntVector steps;
  SmallVector<std::uint8_t, max_rank> dropped;
  Shape kept(const Shape& whole) const {
    Shape shape;
    for (int i = 0; i < whole.rank(); ++i)
      if (!dropped[as_index(i)]) shape.push_back(extent(i));
    return shape;
  }
  Dim extent(int axis) const {
    Dim span = limits[axis] - starts[axis];
    std::int64_t step = steps[as_index(axis)];
    return step == 1 ? span : (span + Dim(step - 1)) / Dim(step);
  }
  Shape full() const {
    Shape shape;
    for (int i = 0; i < starts.rank(); ++i) shape.push_back(extent(i));
    return shape;
  }
};

inline Region region_of(const Shape& shape, std::span<const Index> positions, std::string_view op, Location where) {
  if (static_cast<int>(positions.size()) > shape.rank())
    throw IndexError(op, std::to_string(positions.size()) + " positions for a tensor of shape " + shape.text(), where,
                     "at most " + std::to_string(shape.rank()) + " are possible");
  Region region;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    Dim extent = shape[axis], start = 0, limit = extent;
    std::int64_t step = 1;
    bool drops = false;
    if (axis < static_cast<int>(positions.size())) {
      const Index& position = positions[as_index(axis)];
      if (position.kind == Index::Kind::slice) {
        step = position.part.step;
        if (step <= 0)
          throw IndexError(
              op, "slice step " + std::to_string(step) + " of axis " + std::to_string(axis) + " must be positive",
              where);
        start = resolve_bound(position.part.start, extent);
        limit = resolve_bound(position.part.stop, extent);
        if (!identical(start, Dim(0)) && !is_at_most(start, limit)) limit = start;
      } else if (position.kind == Index::Kind::position) {
        start = resolve_position(position.position, shape, axis, op, where);
        limit = start + Dim(1);
        drops = true;
      }
    }
    region.starts.push_back(start);
    region.limits.push_back(limit);
    region.steps.push_back(step);
    region.dropped.push_back(drops ? 1 : 0);
  }
  return region;
}

/// Indices that were computed, with negative ones counted from the end; what is out of range stays what it was, for the
/// error.
inline Tensor counted_from_start(const Ref<TensorImpl>& indices, Dim extent, Location where) {
  const Tensor given(indices);
  if (!is_integer(given.dtype())) return given;  // refused by take
  const Tensor from_end = cast(In(Tensor(given + extent), where), given.dtype());
  return sinter::where((given < 0) & (from_end >= 0), from_end, given, where);
}

}  // namespace expr_detail

SINTER_DECL Tensor index(const In& x, std::span<const Index> positions) {
  Ref<TensorImpl> value = x.tensor();
  expr_detail::Region region = expr_detail::region_of(value->type.shape, positions, "index", x.where);
  Shape kept = region.kept(value->type.shape);
  Tensor part(value);
  if (!identical(region.full(), value->type.shape)) {
    SharedAttrs shared;
    Attrs& attrs = shared.edit();
    attrs.set(ops::Slice::starts, region.starts);
    attrs.set(ops::Slice::ends, region.limits);
    attrs.set(ops::Slice::steps, region.steps);
    part = expr_detail::record<ops::Slice>({Leaf(std::move(value))}, std::move(shared), x.where);
  }
  part = reshape(In(part, x.where), kept);
  int axis = 0;  // gathers, one after the other, on what is left
  for (std::size_t i = 0; i < region.dropped.size(); ++i) {
    if (region.dropped[i]) continue;
    if (i < positions.size() && positions[i].kind == Index::Kind::gather) {
      const Tensor indices = expr_detail::counted_from_start(positions[i].indices, part.shape()[axis], x.where);
      part = take(In(part, x.where), In(indices, x.where), axis);
      axis += positions[i].indices->type.shape.rank();
    } else {
      ++axis;
    }
  }
  return part;
}

namespace expr_detail {
/// What is assigned; a number of the host where it can be stretched over a part of `target`, which may be on another
/// device.
inline Tensor number_beside(const In& value, const TensorImpl& target) {
  const Device device = target.type.device;
  if (value.leaf.value) {
    const Type& type = value.leaf.value->type;
    Tensor given(value.leaf.value);
    return type.device == Device::cpu() && device != Device::cpu() && type.shape.rank() == 0
               ? to_device(In(given, value.where), device)
               : given;
  }
  Attrs attrs{.has_dtype = true, .device = device};
  const double number =
      value.leaf.kind == DTypeClass::floating ? value.leaf.number : static_cast<double>(value.leaf.integer);
  if (is_floating(target.type.dtype)) {
    attrs.dtype = target.type.dtype;
    attrs.value = number;
  } else if (value.leaf.kind == DTypeClass::floating) {
    attrs.dtype = DType::f32;
    attrs.value = number;
  } else
    attrs.dtype = value.leaf.kind == DTypeClass::boolean ? DType::bool_ : DType::i64,
    attrs.integer = value.leaf.integer;
  return Tensor(record_op(op_info<ops::Full>, {}, std::move(attrs), value.where));
}
/// An index along one axis that is known only when the assignment runs.
struct ComputedIndex {
  int axis;
  Ref<TensorImpl> index;
};
/// Takes the indices that are known only at run time out of `positions`: all of their axes stands there then.
inline std::vector<ComputedIndex> take_computed(std::vector<Index>& positions, Location where) {
  std::vector<ComputedIndex> out;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i].kind != Index::Kind::gather) continue;
    if (positions[i].indices->type.shape.rank() > 0)
      throw IndexError("at",
                       "assignment through an index tensor of shape " + positions[i].indices->type.shape.text() +
                           " is not supported",
                       where, "use slices, positions, and single indices (Scalars and tensors of shape ())");
    out.push_back({static_cast<int>(i), positions[i].indices});
    positions[i] = Index(all, where);
  }
  return out;
}
/// `part`, which has the extent 1 along the axes of `computed`, where those axes are at their indices; `before`
/// elsewhere.
inline Tensor at_computed(const Tensor& part, const Tensor& before, std::span<const ComputedIndex> computed,
                          Location where) {
  Tensor is_place;
  for (const ComputedIndex& c : computed) {
    const Dim extent = before.shape()[c.axis];
    const Tensor positions = arange(extent, {.dtype = DType::i64, .device = before.device()}, where);
    // Read from the positions, so that an index out of range is the error that it is elsewhere.
    const Tensor place = take(In(positions, where), In(counted_from_start(c.index, extent, where), where), 0);
    Shape along;
    for (int i = 0; i < before.rank(); ++i) along.push_back(i == c.axis ? extent : Dim(1));
    const Tensor here = reshape(In(Tensor(tensor_detail::make_expr<ops::Eq>(where, positions, place)), where), along);
    is_place = &c == computed.data() ? here : Tensor(is_place & here);
  }
  return sinter::where(is_place, part, before, where);
}
}  // namespace expr_detail

SINTER_DECL Tensor update(const In& base, std::span<const Index> given, const In& value) {
  std::vector<Index> positions(given.begin(), given.end());
  const std::vector<expr_detail::ComputedIndex> computed = expr_detail::take_computed(positions, value.where);
  Ref<TensorImpl> target = base.tensor();
  expr_detail::Region region = expr_detail::region_of(target->type.shape, positions, "at", value.where);
  Tensor part = cast(In(expr_detail::number_beside(value, *target), value.where), target->type.dtype);
  Shape place = region.full();  // with 1 along the axes that a single index has
  for (const auto& c : computed) {
    region.dropped[as_index(c.axis)] = 1;
    place.set(c.axis, 1);
  }
  Shape kept = region.kept(target->type.shape);
  if (part.rank() > kept.rank())
    throw ShapeError("at", "the value has shape " + part.shape().text() + ", the place " + kept.text(), value.where);
  part = reshape(In(expand(In(part, value.where), kept), value.where), place);
  if (!computed.empty()) {
    const Tensor before = reshape(In(index(In(Tensor(target), value.where), positions), value.where), region.full());
    part = expr_detail::at_computed(part, before, computed, value.where);
  }
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::UpdateSlice::starts, region.starts);
  attrs.set(ops::UpdateSlice::steps, region.steps);
  return expr_detail::record<ops::UpdateSlice>({Leaf(std::move(target)), Leaf(part.impl())}, std::move(shared),
                                               value.where);
}

SINTER_DECL void SlotRef::operator=(const In& value) && { target_ = update(target_, index_, value); }
SINTER_DECL void SlotRef::operator+=(const In& value) && {
  target_ = update(target_, index_,
                   In(expr_detail::compound<ops::Add>(index(In(target_, value.where), index_), value), value.where));
}
SINTER_DECL void SlotRef::operator-=(const In& value) && {
  target_ = update(target_, index_,
                   In(expr_detail::compound<ops::Sub>(index(In(target_, value.where), index_), value), value.where));
}
SINTER_DECL void SlotRef::operator*=(const In& value) && {
  target_ = update(target_, index_,
                   In(expr_detail::compound<ops::Mul>(index(In(target_, value.where), index_), value), value.where));
}
SINTER_DECL void SlotRef::operator/=(const In& value) && {
  target_ = update(target_, index_,
                   In(expr_detail::compound<ops::Div>(index(In(target_, value.where), index_), value), value.where));
}

SINTER_NAMESPACE_END
