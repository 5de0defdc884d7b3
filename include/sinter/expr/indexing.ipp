// Regions, gathers, and the updates behind assignments to slots.
#pragma once

#include <sinter/expr/indexing.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/found.hpp>
#include <sinter/expr/gather_scatter_records.hpp>
#include <sinter/expr/new_axes.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/shapes.hpp>

#include <algorithm>
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

/// Of up to eight positions, those that were given.
inline std::vector<Index> given_positions(std::initializer_list<const Index*> positions) {
  std::vector<Index> given;
  for (const Index* position : positions)
    if (position->kind != Index::Kind::none) given.push_back(*position);
  return given;
}
SINTER_DECL Tensor tensor_detail::part_of(const In& x, std::initializer_list<const Index*> positions) {
  return index(x, given_positions(positions));
}

SINTER_DECL SlotRef::SlotRef(Tensor& target, std::vector<Index> index) : tensor_(&target), index_(std::move(index)) {}
SINTER_DECL SlotRef::SlotRef(const Variable& target, std::vector<Index> index)
    : variable_(&target), index_(std::move(index)) {}
SINTER_DECL Tensor SlotRef::now() const { return variable_ != nullptr ? variable_->value() : *tensor_; }
SINTER_DECL void SlotRef::become(Tensor value, Location where) const {
  if (variable_ != nullptr) variable_->set(In(std::move(value), where));
  else *tensor_ = std::move(value);
}

SINTER_DECL SlotRef Tensor::at(const Index& i0, const Index& i1, const Index& i2, const Index& i3, const Index& i4,
                               const Index& i5, const Index& i6, const Index& i7) & {
  return SlotRef(*this, expr_detail::places_of(rank(), given_positions({&i0, &i1, &i2, &i3, &i4, &i5, &i6, &i7})));
}
SINTER_DECL SlotRef Variable::at(const Index& i0, const Index& i1, const Index& i2, const Index& i3, const Index& i4,
                                 const Index& i5, const Index& i6, const Index& i7) const {
  return SlotRef(*this, expr_detail::places_of(rank(), given_positions({&i0, &i1, &i2, &i3, &i4, &i5, &i6, &i7})));
}

namespace expr_detail {

/// A slice bound against an extent: negative counts from the end, beyond is clipped.
inline Dim resolve_bound(Dim bound, Dim extent) {
  if (bound.is_static() && bound.value() == 0) return bound;
  if (identical(bound, extent)) return extent;
  if (is_at_most(0, bound)) return is_at_most(bound, extent) ? bound : extent;
  return is_at_most(0, extent + bound) ? extent + bound : Dim(0);
}
/// How many elements there are up to a bound of a slice that runs backwards, this one included.
inline Dim resolve_bound_backwards(Dim bound, Dim extent) {
  if (is_at_most(0, bound)) return is_at_most(bound + Dim(1), extent) ? bound + Dim(1) : extent;
  const Dim count = extent + bound + Dim(1);
  return is_at_most(0, count) ? count : Dim(0);
}

/// The elements of a slice in ascending order.
struct AscendingSlice {
  Dim start = 0, limit;
  std::int64_t step = 1;
};
inline AscendingSlice ascending(const Slice& slice, Dim extent) {
  constexpr std::int64_t most = std::int64_t{1} << 60;  // beyond any extent
  AscendingSlice out{.limit = extent, .step = std::min(slice.step, most)};
  if (slice.step > 0) {
    if (slice.start) out.start = resolve_bound(*slice.start, extent);
    if (slice.stop) out.limit = resolve_bound(*slice.stop, extent);
    if (!identical(out.start, Dim(0)) && !is_at_most(out.start, out.limit)) out.limit = out.start;
    return out;
  }
  out.step = -std::max(slice.step, -most);
  if (slice.start) out.limit = resolve_bound_backwards(*slice.start, extent);
  if (slice.stop) out.start = resolve_bound_backwards(*slice.stop, extent);
  if (!identical(out.start, Dim(0)) && !is_at_most(out.start, out.limit)) out.start = out.limit;
  if (out.step == 1 || is_at_most(out.limit, out.start)) return out;
  const Dim count = (out.limit - out.start + Dim(out.step - 1)) / Dim(out.step);
  out.start = out.limit - Dim(1) - (count - Dim(1)) * Dim(out.step);
  return out;
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

/// A basic index (no gathers) against a shape: the sliced region, along which axes it runs backwards, and which ones it
/// drops.
struct Region {
  Shape starts, limits;
  IntVector steps, backwards;
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
    const Dim extent = shape[axis];
    AscendingSlice part{.limit = extent};
    bool drops = false;
    if (axis < static_cast<int>(positions.size())) {
      const Index& position = positions[as_index(axis)];
      if (position.kind == Index::Kind::slice) {
        if (position.part.step == 0)
          throw IndexError(op, "the slice step of axis " + std::to_string(axis) + " is 0", where,
                           "a positive step runs forwards, a negative one backwards");
        part = ascending(position.part, extent);
        if (position.part.step < 0) region.backwards.push_back(axis);
      } else if (position.kind == Index::Kind::position) {
        part.start = resolve_position(position.position, shape, axis, op, where);
        part.limit = part.start + Dim(1);
        drops = true;
      }
    }
    region.starts.push_back(part.start);
    region.limits.push_back(part.limit);
    region.steps.push_back(part.step);
    region.dropped.push_back(drops ? 1 : 0);
  }
  return region;
}

/// What is read in a region in ascending order, in its own order, and the other way around.
inline Tensor turned(const Tensor& part, const Region& region, Location where) {
  return region.backwards.empty() ? part : flip(In(part, where), Axes(region.backwards));
}

/// The axes from the first to the last index tensor of `positions`, counted in what is left once the region is cut out.
struct Gathers {
  int axis = 0;
  std::vector<AxisEntry> entries;
  bool is_none() const { return entries.empty(); }
};
inline Gathers gathers_of(const Region& region, std::span<const Index> positions) {
  Gathers out;
  int axis = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (region.dropped[i]) continue;
    const bool is_gather = positions[i].kind == Index::Kind::gather;
    if (is_gather && out.is_none()) out.axis = axis;
    if (is_gather) out.entries.push_back({.is_all = false, .index = Tensor(positions[i].indices)});
    else if (!out.is_none()) out.entries.push_back({.is_all = true, .index = {}});
    ++axis;
  }
  while (!out.is_none() && out.entries.back().is_all) out.entries.pop_back();
  return out;
}

}  // namespace expr_detail

SINTER_DECL Tensor index(const In& x, std::span<const Index> positions) {
  if (expr_detail::has_other_axes(positions)) {
    const In given(Tensor(x.tensor()), x.where);
    const expr_detail::OwnAxes own = expr_detail::own_axes(given.leaf.value->type.shape.rank(), positions, "index");
    const Tensor part = index(given, own.positions);
    return own.new_axes.empty() ? part : unsqueeze(In(part, x.where), Axes(own.new_axes));
  }
  if (expr_detail::has_mask(positions)) {
    const expr_detail::UnmaskedIndex plain = expr_detail::without_masks(x, positions, "index");
    return index(In(plain.x, x.where), plain.positions);
  }
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
  part = reshape(In(expr_detail::turned(part, region, x.where), x.where), kept);
  const expr_detail::Gathers gathers = expr_detail::gathers_of(region, positions);
  if (gathers.is_none()) return part;
  if (std::none_of(gathers.entries.begin(), gathers.entries.end(),
                   [](const auto& entry) { return entry.has_axes(); })) {
    int axis = gathers.axis;  // single indices: one after the other, each drops its axis
    for (const expr_detail::AxisEntry& entry : gathers.entries) {
      if (entry.is_all) {
        ++axis;
        continue;
      }
      const Tensor at = expr_detail::counted_from_start(entry.index.impl(), part.shape()[axis], x.where);
      part = take(In(part, x.where), In(at, x.where), axis);
    }
    return part;
  }
  const expr_detail::JoinedIndex joined =
      expr_detail::join_entries(part.shape(), gathers.axis, gathers.entries, "index", x.where);
  part = reshape(In(part, x.where), joined.joined(part.shape()));
  return take(In(part, x.where), In(joined.index, x.where), joined.axis);
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
  if (is_differentiable(target.type.dtype)) {
    attrs.dtype = target.type.dtype;
    attrs.value = is_f8(attrs.dtype) ? tensor_detail::rounded(number, attrs.dtype) : number;
  } else if (value.leaf.kind == DTypeClass::floating) {
    attrs.dtype = DType::f32;
    attrs.value = number;
  } else
    attrs.dtype = value.leaf.kind == DTypeClass::boolean ? DType::bool_ : DType::i64,
    attrs.integer = value.leaf.integer;
  return Tensor(record_op(op_info<ops::Full>, {}, std::move(attrs), value.where));
}
/// A value as large as the place that it is written to, which it broadcasts to.
inline Tensor fitted_to(const Tensor& value, const Shape& place, Location where) {
  const int added = place.rank() - value.rank();
  bool fits = added >= 0;
  for (int i = 0; fits && i < value.rank(); ++i)
    fits = identical(value.shape()[i], Dim(1)) || value.shape()[i] == place[i + added] ||
           stretches(value.shape()[i], place[i + added]);
  if (!fits)
    throw ShapeError("at", "the value has shape " + value.shape().text() + ", the place " + place.text(), where,
                     "the value broadcasts: aligned at the right, each of its extents must be 1 or equal the place's");
  return expand(In(value, where), place);
}
/// `part` of a tensor with the elements that the gathers name combined with `value`, which broadcasts to them.
inline Tensor scatter_into(const Tensor& part, const Gathers& gathers, const Tensor& value, Combine combine,
                           Location where) {
  const JoinedIndex joined = join_entries(part.shape(), gathers.axis, gathers.entries, "at", where);
  const Shape whole = part.shape();
  Shape shape;
  for (int i = 0; i < joined.axis; ++i) shape.push_back(whole[i]);
  for (Dim extent : joined.index.shape()) shape.push_back(extent);
  for (int i = joined.axis + joined.count; i < whole.rank(); ++i) shape.push_back(whole[i]);
  const Tensor table = reshape(In(part, where), joined.joined(whole)), wide = fitted_to(value, shape, where);
  return reshape(In(record_scatter(table, joined.index, wide, {.axis = joined.axis}, combine, where), where), whole);
}

inline Tensor combine_at(const In& base, std::span<const Index> positions, const In& value, Combine combine);
/// `combine_at` where there are masks among the positions. A number is chosen where a single mask holds, so that nobody
/// has to know where that is.
inline Tensor combine_at_masks(const In& base, std::span<const Index> positions, const In& value, Combine combine) {
  const Tensor target(base.tensor());
  const bool is_number = !value.leaf.value || value.leaf.value->type.shape.rank() == 0;
  if (const auto mask =
          is_number && combine == Combine::none ? only_mask(target.shape(), positions, value.where) : std::nullopt) {
    const Tensor number = cast(In(number_beside(value, *target.impl()), value.where), target.dtype());
    return where(*mask, number, target, value.where);
  }
  const UnmaskedIndex plain = without_masks(In(target, value.where), positions, "at");
  return reshape(In(combine_at(In(plain.x, value.where), plain.positions, value, combine), value.where),
                 target.shape());
}

/// `base` with the part at `positions` combined with `value`: without index tensors, replaced by it.
inline Tensor combine_at(const In& base, std::span<const Index> positions, const In& value, Combine combine) {
  if (has_mask(positions)) return combine_at_masks(base, positions, value, combine);
  Ref<TensorImpl> target = base.tensor();
  const Shape whole = target->type.shape;
  const Region region = region_of(whole, positions, "at", value.where);
  Tensor part = cast(In(number_beside(value, *target), value.where), target->type.dtype);
  const Shape kept = region.kept(whole);
  const Gathers gathers = gathers_of(region, positions);
  if (!gathers.is_none()) {
    std::vector<Index> basic(positions.begin(), positions.end());
    for (Index& position : basic)
      if (position.kind == Index::Kind::gather) position = Index(all, value.where);
    const bool is_whole = identical(kept, whole) && region.backwards.empty();
    const Tensor before = is_whole ? Tensor(target) : index(In(Tensor(target), value.where), basic);
    part = scatter_into(before, gathers, part, combine, value.where);
    if (is_whole) return part;
  }
  part = reshape(In(fitted_to(part, kept, value.where), value.where), region.full());
  part = turned(part, region, value.where);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::UpdateSlice::starts, region.starts);
  attrs.set(ops::UpdateSlice::steps, region.steps);
  return record<ops::UpdateSlice>({Leaf(std::move(target)), Leaf(part.impl())}, std::move(shared), value.where);
}

inline bool has_gather(std::span<const Index> positions) {
  return std::any_of(positions.begin(), positions.end(),
                     [](const Index& position) { return position.kind == Index::Kind::gather; });
}
}  // namespace expr_detail

SINTER_DECL Tensor update(const In& base, std::span<const Index> positions, const In& value) {
  if (!expr_detail::has_other_axes(positions)) return expr_detail::combine_at(base, positions, value, Combine::none);
  const In given(Tensor(base.tensor()), base.where);
  const std::vector<Index> own =
      expr_detail::places_of(given.leaf.value->type.shape.rank(), {positions.begin(), positions.end()});
  return expr_detail::combine_at(given, own, value, Combine::none);
}

namespace expr_detail {
/// The same where whole numbers are combined with fractions, which are cut off in the end: not before, and not of
/// elements that stay, which the wider dtype may not hold.
inline Tensor combine_fractions_at(const Tensor& base, std::span<const Index> positions, const In& value,
                                   Combine combine) {
  const DType dtype = value.leaf.value ? promote(base.dtype(), value.leaf.value->type.dtype) : DType::f32;
  const Tensor wide = cast(In(base, value.where), dtype),
               nowhere = cast(In(zeros_like(base), value.where), DType::bool_);
  const Tensor changed = combine_at(In(wide, value.where), positions, value, combine);
  const Tensor is_named = combine_at(In(nowhere, value.where), positions, In(true, value.where), Combine::none);
  return where(is_named, cast(In(changed, value.where), base.dtype()), base, value.where);
}
inline bool is_fraction(const In& value) {
  return value.leaf.value ? is_floating(value.leaf.value->type.dtype) : value.leaf.kind == DTypeClass::floating;
}

/// The same of a number and a single mask, which is chosen where the mask holds: nobody has to know where that is.
template <class Op>
std::optional<Tensor> compound_at_mask(const Tensor& base, std::span<const Index> positions, const In& value) {
  const bool is_number = !value.leaf.value || value.leaf.value->type.shape.rank() == 0;
  const auto mask = is_number ? only_mask(base.shape(), positions, value.where) : std::nullopt;
  if (!mask) return std::nullopt;
  const Tensor number = number_beside(value, *base.impl());
  return where(*mask, compound<Op>(base, In(number, value.where)), base, value.where);
}

/// base.at(positions) op= value; where index tensors name an element several times, all values come in (`combine`).
template <class Op>
Tensor compound_at(const Tensor& base, std::span<const Index> positions, const In& value, Combine combine) {
  if (auto changed = compound_at_mask<Op>(base, positions, value)) return std::move(*changed);
  if (combine != Combine::none && has_gather(positions)) {
    const bool cuts = !is_differentiable(base.dtype()) && is_fraction(value);
    return cuts ? combine_fractions_at(base, positions, value, combine)
                : combine_at(In(base, value.where), positions, value, combine);
  }
  const Tensor now = index(In(base, value.where), positions);
  return update(In(base, value.where), positions, In(compound<Op>(now, value), value.where));
}
}  // namespace expr_detail

SINTER_DECL void SlotRef::operator=(const In& value) && {
  become(update(In(now(), value.where), index_, value), value.where);
}
SINTER_DECL void SlotRef::operator+=(const In& value) && {
  become(expr_detail::compound_at<ops::Add>(now(), index_, value, Combine::add), value.where);
}
SINTER_DECL void SlotRef::operator-=(const In& value) && {
  if (!expr_detail::has_gather(index_))
    return become(expr_detail::compound_at<ops::Sub>(now(), index_, value, Combine::none), value.where);
  if (auto changed = expr_detail::compound_at_mask<ops::Sub>(now(), index_, value))
    return become(std::move(*changed), value.where);
  // Bytes have no negative numbers: the dtype of the place may have them.
  const Tensor given(value.tensor());
  const DType dtype = now().dtype();
  const bool is_whole = !is_differentiable(given.dtype()) && dtype != DType::bool_;
  const Tensor number = is_whole ? Tensor(cast(In(given, value.where), dtype)) : given;
  const Tensor negated(tensor_detail::make_expr<ops::Neg>(value.where, number));
  become(expr_detail::compound_at<ops::Add>(now(), index_, In(negated, value.where), Combine::add), value.where);
}
SINTER_DECL void SlotRef::operator*=(const In& value) && {
  become(expr_detail::compound_at<ops::Mul>(now(), index_, value, Combine::mul), value.where);
}
SINTER_DECL void SlotRef::operator/=(const In& value) && {
  become(expr_detail::compound_at<ops::Div>(now(), index_, value, Combine::none), value.where);
}
SINTER_DECL void SlotRef::maximum(const In& value) && {
  become(expr_detail::compound_at<ops::Maximum>(now(), index_, value, Combine::max), value.where);
}
SINTER_DECL void SlotRef::minimum(const In& value) && {
  become(expr_detail::compound_at<ops::Minimum>(now(), index_, value, Combine::min), value.where);
}

SINTER_NAMESPACE_END
