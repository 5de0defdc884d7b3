// From user-facing functions to records: normalises axes and broadcasting, fills Attrs, and leaves shape rules to the
// ops.
#pragma once

#include <sinter/expr/functions.hpp>

#include <sinter/expr/host.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <cmath>

SINTER_NAMESPACE_BEGIN

Ref<TensorImpl> dense_value(const In& x, std::string_view function);   // host.hpp, which may be the one that includes this

namespace expr_detail {

template <class Op>
Tensor record(std::initializer_list<Leaf> leaves, Attrs attrs, Location where) {
  return Tensor(record_op(op_info<Op>, leaves, std::move(attrs), where));
}

/// Axes resolved, ascending and distinct; an empty list becomes all axes.
inline IntVector reduced_axes(Axes axes, int rank, std::string_view op, Location where) {
  IntVector out;
  if (axes.empty())
    for (int i = 0; i < rank; ++i) out.push_back(i);
  for (std::int64_t axis : axes.list()) out.push_back(normalise_axis(static_cast<int>(axis), rank, op, where));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) throw IndexError(op, "an axis is named twice", where);
  return out;
}

template <class Op>
Tensor reduce(const In& x, Axes axes, Keep keep) {
  Ref<TensorImpl> value = x.tensor();
  Attrs attrs;
  attrs.axes = reduced_axes(axes, value->type.shape.rank(), Op::info.name, x.where);
  attrs.keepdim = keep == Keep::yes;
  if (attrs.axes.empty()) return Op::info.reduction != 0 ? Tensor(value) : record<Op>({Leaf(value)}, std::move(attrs), x.where);
  return record<Op>({Leaf(std::move(value))}, std::move(attrs), x.where);
}

template <class Op>
Tensor along_axis(const In& x, int axis, Keep keep = Keep::no) {
  Ref<TensorImpl> value = x.tensor();
  Attrs attrs;
  attrs.axes.push_back(normalise_axis(axis, value->type.shape.rank(), Op::info.name, x.where));
  attrs.keepdim = keep == Keep::yes;
  return record<Op>({Leaf(std::move(value))}, std::move(attrs), x.where);
}

inline Ref<TensorImpl> as_floating(Ref<TensorImpl> value, Location where) {
  if (is_floating(value->type.dtype)) return value;
  Attrs attrs;
  attrs.dtype = DType::f32;
  attrs.has_dtype = true;
  return record_op(op_info<ops::Cast>, {Leaf(std::move(value))}, std::move(attrs), where);
}

/// a <= b. Of symbolic extents it asks in a way that makes "yes" a guard on their order, not on their being equal.
inline bool is_at_most(Dim a, Dim b) {
  const Dim gap = b - a;
  return gap.is_static() ? gap.value() >= 0 : a < b + Dim(1);
}

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
    throw IndexError(op, "index " + position.text() + " is out of range for axis " + std::to_string(axis) + " of " + shape.text(), where);
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
      if (!dropped[static_cast<std::size_t>(i)]) shape.push_back(extent(i));
    return shape;
  }
  Dim extent(int axis) const {
    Dim span = limits[axis] - starts[axis];
    std::int64_t step = steps[static_cast<std::size_t>(axis)];
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
      const Index& position = positions[static_cast<std::size_t>(axis)];
      if (position.kind == Index::Kind::slice) {
        step = position.part.step;
        if (step <= 0) throw IndexError(op, "slice step " + std::to_string(step) + " of axis " + std::to_string(axis) + " must be positive", where);
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

inline Tensor zeros_scalar(DType dtype, double value, Location where) {
  Attrs attrs;
  attrs.dtype = dtype;
  attrs.has_dtype = true;
  attrs.value = value;
  attrs.integer = static_cast<std::int64_t>(value);
  return record<ops::Full>({}, std::move(attrs), where);
}

}  // namespace expr_detail

// ---- handles

SINTER_DECL const Ref<TensorImpl>& Tensor::zero() {
  static const Ref<TensorImpl>* value = [] {
    Ref<Storage> storage = Storage::allocate(sizeof(float));
    *static_cast<float*>(storage->data()) = 0;
    return new Ref<TensorImpl>(TensorImpl::make_ready(Type{}, std::move(storage)));
  }();
  return *value;
}

SINTER_DECL Ref<TensorImpl> In::tensor() const {
  if (leaf.value) return leaf.value;
  Attrs attrs;
  attrs.has_dtype = true;
  attrs.dtype = leaf.kind == DTypeClass::floating ? DType::f32 : leaf.kind == DTypeClass::integer ? DType::i64 : DType::bool_;
  if (leaf.kind == DTypeClass::floating) attrs.value = leaf.number;
  else attrs.integer = leaf.integer;
  return record_op(op_info<ops::Full>, {}, std::move(attrs), where);
}

SINTER_DECL Tensor::Tensor(const Variable& variable) : Tensor(variable.value()) {}
SINTER_DECL Tensor::Tensor(const Scalar& scalar) : impl_(In(scalar).tensor()) {}
SINTER_DECL Tensor::Tensor(const Predicate& predicate) : impl_(In(predicate, predicate.where()).tensor()) {}

namespace expr_detail {
/// `x op= y` keeps the dtype of x.
template <class Op>
Tensor compound(const Tensor& x, const In& y) {
  Ref<TensorImpl> value = record_op(op_info<Op>, {Leaf(x.impl()), y.leaf}, {}, y.where);
  return value->type.dtype == x.dtype() ? Tensor(std::move(value)) : cast(In(Tensor(std::move(value)), y.where), x.dtype());
}
}  // namespace expr_detail
SINTER_DECL Tensor& Tensor::operator+=(const In& other) & { return *this = expr_detail::compound<ops::Add>(*this, other); }
SINTER_DECL Tensor& Tensor::operator-=(const In& other) & { return *this = expr_detail::compound<ops::Sub>(*this, other); }
SINTER_DECL Tensor& Tensor::operator*=(const In& other) & { return *this = expr_detail::compound<ops::Mul>(*this, other); }
SINTER_DECL Tensor& Tensor::operator/=(const In& other) & { return *this = expr_detail::compound<ops::Div>(*this, other); }

SINTER_DECL void SlotRef::operator=(const In& value) && { target_ = update(target_, index_, value); }
SINTER_DECL void SlotRef::operator+=(const In& value) && {
  target_ = update(target_, index_, In(expr_detail::compound<ops::Add>(index(In(target_, value.where), index_), value), value.where));
}
SINTER_DECL void SlotRef::operator-=(const In& value) && {
  target_ = update(target_, index_, In(expr_detail::compound<ops::Sub>(index(In(target_, value.where), index_), value), value.where));
}
SINTER_DECL void SlotRef::operator*=(const In& value) && {
  target_ = update(target_, index_, In(expr_detail::compound<ops::Mul>(index(In(target_, value.where), index_), value), value.where));
}
SINTER_DECL void SlotRef::operator/=(const In& value) && {
  target_ = update(target_, index_, In(expr_detail::compound<ops::Div>(index(In(target_, value.where), index_), value), value.where));
}

SINTER_DECL Variable::Variable(const Tensor& value, std::string name) : slot_(std::make_shared<VariableSlot>(value.impl(), std::move(name))) {}
SINTER_DECL Tensor Variable::value() const {
  Trace* trace = Trace::current();
  Ref<TensorImpl> value = trace != nullptr ? trace->read_variable(slot_) : slot_->value();
  return Tensor(SINTER_UNLIKELY(slot_->gradient() != nullptr) ? tape_leaf(value, slot_) : std::move(value));
}
SINTER_DECL const Variable& Variable::set(const In& value) const {
  Ref<TensorImpl> next = value.tensor();
  Tensor old = this->value();
  if (!identical(next->type.shape, old.impl()->type.shape) && !(next->type.shape == old.impl()->type.shape))
    throw ShapeError("Variable::set", "the new value has shape " + next->type.shape.text() + ", the variable " + old.impl()->type.shape.text(), value.where,
                     "make a new Variable for another shape");
  if (next->type.dtype != old.dtype()) next = cast(In(Tensor(next), value.where), old.dtype()).impl();
  if (Trace* trace = Trace::current()) {
    trace->note_assignment(slot_, next);
    return *this;
  }
  slot_->set(std::move(next));
  return *this;
}
SINTER_DECL const Variable& Variable::operator+=(const In& value) const { return set(In(expr_detail::compound<ops::Add>(this->value(), value), value.where)); }
SINTER_DECL const Variable& Variable::operator-=(const In& value) const { return set(In(expr_detail::compound<ops::Sub>(this->value(), value), value.where)); }
SINTER_DECL const Variable& Variable::operator*=(const In& value) const { return set(In(expr_detail::compound<ops::Mul>(this->value(), value), value.where)); }
SINTER_DECL const Variable& Variable::operator/=(const In& value) const { return set(In(expr_detail::compound<ops::Div>(this->value(), value), value.where)); }

// ---- run-time numbers

namespace expr_detail {
template <class Op, class F>
Scalar scalar_binary(const Scalar& a, const Scalar& b, F&& compute) {
  if (a.is_number() && b.is_number()) {
    const Leaf &x = a.leaf(), &y = b.leaf();
    bool integral = x.kind != DTypeClass::floating && y.kind != DTypeClass::floating;
    if (integral) return Scalar(compute(x.integer, y.integer));
    auto number = [](const Leaf& l) { return l.kind == DTypeClass::floating ? l.number : static_cast<double>(l.integer); };
    return Scalar(compute(number(x), number(y)));
  }
  return Scalar(record_op(op_info<Op>, {a.leaf(), b.leaf()}, {}, {}));
}
template <class Op, class F>
Scalar scalar_unary(const Scalar& a, F&& compute) {
  if (a.is_number()) return Scalar(compute(a.leaf().kind == DTypeClass::floating ? a.leaf().number : static_cast<double>(a.leaf().integer)));
  return Scalar(record_op(op_info<Op>, {a.leaf()}, {}, {}));
}
}  // namespace expr_detail

SINTER_DECL Scalar operator+(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Add>(a, b, [](auto x, auto y) { return x + y; });
}
SINTER_DECL Scalar operator-(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Sub>(a, b, [](auto x, auto y) { return x - y; });
}
SINTER_DECL Scalar operator*(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Mul>(a, b, [](auto x, auto y) { return x * y; });
}
SINTER_DECL Scalar operator/(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Div>(a, b, [](auto x, auto y) { return static_cast<double>(x) / static_cast<double>(y); });
}
SINTER_DECL Scalar operator-(const Scalar& a) { return Scalar(0) - a; }
SINTER_DECL Scalar exp(const Scalar& x) { return expr_detail::scalar_unary<ops::Exp>(x, [](double v) { return std::exp(v); }); }
SINTER_DECL Scalar log(const Scalar& x) { return expr_detail::scalar_unary<ops::Log>(x, [](double v) { return std::log(v); }); }
SINTER_DECL Scalar sqrt(const Scalar& x) { return expr_detail::scalar_unary<ops::Sqrt>(x, [](double v) { return std::sqrt(v); }); }

namespace tensor_detail {
SINTER_DECL Predicate compare(Comparison comparison, const Scalar& a, const Scalar& b, Location where) {
  auto outcome = [&](auto x, auto y) {
    switch (comparison) {
      case Comparison::less: return x < y;
      case Comparison::greater: return x > y;
      case Comparison::less_equal: return x <= y;
      case Comparison::greater_equal: return x >= y;
      case Comparison::equal: return x == y;
      case Comparison::not_equal: return x != y;
    }
    __builtin_unreachable();
  };
  auto op = [&]() -> const OpInfo& {
    switch (comparison) {
      case Comparison::less: return op_info<ops::Lt>;
      case Comparison::greater: return op_info<ops::Gt>;
      case Comparison::less_equal: return op_info<ops::Le>;
      case Comparison::greater_equal: return op_info<ops::Ge>;
      case Comparison::equal: return op_info<ops::Eq>;
      case Comparison::not_equal: return op_info<ops::Ne>;
    }
    __builtin_unreachable();
  };
  if (!a.is_number() || !b.is_number()) return Predicate(Leaf(record_op(op(), {a.leaf(), b.leaf()}, {}, where)), where);
  const Leaf &x = a.leaf(), &y = b.leaf();
  if (x.kind != DTypeClass::floating && y.kind != DTypeClass::floating) return Predicate(Leaf::of_number(outcome(x.integer, y.integer)), where);
  auto number = [](const Leaf& l) { return l.kind == DTypeClass::floating ? l.number : static_cast<double>(l.integer); };
  return Predicate(Leaf::of_number(outcome(number(x), number(y))), where);
}
}  // namespace tensor_detail

SINTER_DECL Predicate::operator bool() const {
  return leaf_.value ? read_bits(leaf_.value, "Predicate", where_) != 0 : leaf_.integer != 0;
}
namespace expr_detail {
inline Predicate combine(const OpInfo& op, const Predicate& a, const Predicate& b, bool outcome) {
  Location where = a.where().line != 0 ? a.where() : b.where();
  if (!a.leaf().value && !b.leaf().value) return Predicate(Leaf::of_number(outcome), where);
  return Predicate(Leaf(record_op(op, {a.leaf(), b.leaf()}, {}, where)), where);
}
}  // namespace expr_detail
SINTER_DECL Predicate operator&(const Predicate& a, const Predicate& b) {
  return expr_detail::combine(op_info<ops::And>, a, b, a.leaf().integer != 0 && b.leaf().integer != 0);
}
SINTER_DECL Predicate operator|(const Predicate& a, const Predicate& b) {
  return expr_detail::combine(op_info<ops::Or>, a, b, a.leaf().integer != 0 || b.leaf().integer != 0);
}
SINTER_DECL Predicate operator!(const Predicate& a) {
  if (!a.leaf().value) return Predicate(Leaf::of_number(a.leaf().integer == 0), a.where());
  return Predicate(Leaf(record_op(op_info<ops::Not>, {a.leaf()}, {}, a.where())), a.where());
}

// ---- reductions

SINTER_DECL Tensor sum(const In& x, Axes axes, Keep keep) {
  Ref<TensorImpl> value = x.tensor();
  if (value->type.dtype == DType::bool_ || value->type.dtype == DType::i32) return expr_detail::reduce<ops::Sum>(In(cast(x, DType::i64), x.where), axes, keep);
  return expr_detail::reduce<ops::Sum>(x, axes, keep);
}
SINTER_DECL Tensor prod(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Prod>(x, axes, keep); }
SINTER_DECL Tensor mean(const In& x, Axes axes, Keep keep) {
  return expr_detail::reduce<ops::Mean>(In(Tensor(expr_detail::as_floating(x.tensor(), x.where)), x.where), axes, keep);
}
SINTER_DECL Tensor var(const In& x, Axes axes, Keep keep) {
  return expr_detail::reduce<ops::Var>(In(Tensor(expr_detail::as_floating(x.tensor(), x.where)), x.where), axes, keep);
}
SINTER_DECL Tensor amax(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Amax>(x, axes, keep); }
SINTER_DECL Tensor amin(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Amin>(x, axes, keep); }
SINTER_DECL Tensor any(const In& x, Axes axes, Keep keep) { return expr_detail::reduce<ops::Any>(x, axes, keep); }
SINTER_DECL Tensor All::operator()(const In& x, Axes axes, Keep keep) const { return expr_detail::reduce<ops::All>(x, axes, keep); }
SINTER_DECL Tensor argmax(const In& x, int axis, Keep keep) { return expr_detail::along_axis<ops::Argmax>(x, axis, keep); }
SINTER_DECL Tensor argmin(const In& x, int axis, Keep keep) { return expr_detail::along_axis<ops::Argmin>(x, axis, keep); }
SINTER_DECL Tensor logsumexp(const In& x, int axis, Keep keep) { return expr_detail::along_axis<ops::Logsumexp>(x, axis, keep); }

// ---- views

SINTER_DECL Tensor reshape(const In& x, const Shape& shape) {
  Ref<TensorImpl> value = x.tensor();
  Attrs attrs;
  attrs.shape = shape;
  int open = -1;
  Dim known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i].is_static() && shape[i].value() == -1) {
      if (open >= 0) throw ShapeError("reshape", "more than one extent of " + shape.text() + " is -1", x.where);
      open = i;
    } else {
      known = known * shape[i];
    }
  }
  if (open >= 0) {
    if (known.is_static() && known.value() == 0) throw ShapeError("reshape", "-1 in " + shape.text() + " has no single answer", x.where);
    attrs.shape.set(open, value->type.shape.numel(x.where) / known);
  }
  if (identical(attrs.shape, value->type.shape)) return Tensor(value);
  return expr_detail::record<ops::Reshape>({Leaf(std::move(value))}, std::move(attrs), x.where);
}

SINTER_DECL Tensor permute(const In& x, Axes order) {
  Ref<TensorImpl> value = x.tensor();
  Attrs attrs;
  bool is_identity = true;
  for (std::int64_t axis : order.list()) {
    attrs.axes.push_back(normalise_axis(static_cast<int>(axis), value->type.shape.rank(), "permute", x.where));
    is_identity &= attrs.axes.back() == static_cast<std::int64_t>(attrs.axes.size()) - 1;
  }
  if (is_identity && static_cast<int>(attrs.axes.size()) == value->type.shape.rank()) return Tensor(value);
  return expr_detail::record<ops::Permute>({Leaf(std::move(value))}, std::move(attrs), x.where);
}

SINTER_DECL Tensor transpose(const In& x, int a, int b) {
  Ref<TensorImpl> value = x.tensor();
  int rank = value->type.shape.rank();
  a = normalise_axis(a, rank, "transpose", x.where);
  b = normalise_axis(b, rank, "transpose", x.where);
  Attrs attrs;
  for (int i = 0; i < rank; ++i) attrs.axes.push_back(i == a ? b : i == b ? a : i);
  if (a == b) return Tensor(value);
  return expr_detail::record<ops::Permute>({Leaf(std::move(value))}, std::move(attrs), x.where);
}

SINTER_DECL Tensor expand(const In& x, const Shape& shape) {
  Ref<TensorImpl> value = x.tensor();
  if (identical(shape, value->type.shape)) return Tensor(value);
  Attrs attrs;
  attrs.shape = shape;
  return expr_detail::record<ops::Expand>({Leaf(std::move(value))}, std::move(attrs), x.where);
}

SINTER_DECL Tensor unsqueeze(const In& x, int axis) {
  Shape shape = x.tensor()->type.shape;
  axis = normalise_axis(axis, shape.rank() + 1, "unsqueeze", x.where);
  shape.insert(axis, 1);
  return reshape(x, shape);
}
SINTER_DECL Tensor squeeze(const In& x, int axis) {
  Shape shape = x.tensor()->type.shape;
  axis = normalise_axis(axis, shape.rank(), "squeeze", x.where);
  if (!(shape[axis] == Dim(1)))
    throw ShapeError("squeeze", "axis " + std::to_string(axis) + " of " + shape.text() + " has extent " + shape[axis].text() + ", not 1", x.where);
  shape.erase(axis);
  return reshape(x, shape);
}
SINTER_DECL Tensor flatten(const In& x, int first, int last) {
  const Shape shape = x.tensor()->type.shape;
  if (shape.rank() == 0) return reshape(x, Shape{1});
  first = normalise_axis(first, shape.rank(), "flatten", x.where);
  last = normalise_axis(last, shape.rank(), "flatten", x.where);
  Shape out;
  Dim merged = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < first || i > last) out.push_back(shape[i]);
    else merged = merged * shape[i];
    if (i == last) out.push_back(merged);
  }
  return reshape(x, out);
}

SINTER_DECL Tensor index(const In& x, std::span<const Index> positions) {
  Ref<TensorImpl> value = x.tensor();
  expr_detail::Region region = expr_detail::region_of(value->type.shape, positions, "index", x.where);
  Shape kept = region.kept(value->type.shape);
  Tensor part(value);
  if (!identical(region.full(), value->type.shape)) {
    Attrs attrs;
    attrs.shape = region.starts;
    attrs.limits = region.limits;
    attrs.steps = region.steps;
    part = expr_detail::record<ops::Slice>({Leaf(std::move(value))}, std::move(attrs), x.where);
  }
  part = reshape(In(part, x.where), kept);
  int axis = 0;   // gathers, one after the other, on what is left
  for (std::size_t i = 0; i < region.dropped.size(); ++i) {
    if (region.dropped[i]) continue;
    if (i < positions.size() && positions[i].kind == Index::Kind::gather) {
      part = take(In(part, x.where), In(Tensor(positions[i].indices), x.where), axis);
      axis += positions[i].indices->type.shape.rank();
    } else {
      ++axis;
    }
  }
  return part;
}

SINTER_DECL Tensor update(const In& base, std::span<const Index> positions, const In& value) {
  for (const Index& position : positions)
    if (position.kind == Index::Kind::gather)
      throw IndexError("at", "assignment through an index tensor is not supported", value.where, "use slices and positions");
  Ref<TensorImpl> target = base.tensor();
  expr_detail::Region region = expr_detail::region_of(target->type.shape, positions, "at", value.where);
  Tensor part = cast(In(Tensor(value.tensor()), value.where), target->type.dtype);
  Shape kept = region.kept(target->type.shape);
  if (part.rank() > kept.rank())
    throw ShapeError("at", "the value has shape " + part.shape().text() + ", the place " + kept.text(), value.where);
  part = reshape(In(expand(In(part, value.where), kept), value.where), region.full());
  Attrs attrs;
  attrs.shape = region.starts;
  attrs.steps = region.steps;
  return expr_detail::record<ops::UpdateSlice>({Leaf(std::move(target)), Leaf(part.impl())}, std::move(attrs), value.where);
}

// ---- putting together and taking apart

SINTER_DECL Tensor concat(std::span<const Tensor> parts, int axis, Location where) {
  if (parts.empty()) throw ShapeError("concat", "no tensors were given", where);
  DType dtype = parts[0].dtype();
  for (const Tensor& part : parts) dtype = promote(dtype, part.dtype());
  std::vector<Leaf> leaves;
  for (const Tensor& part : parts) leaves.emplace_back(cast(In(part, where), dtype).impl());
  Attrs attrs;
  attrs.axes.push_back(normalise_axis(axis, parts[0].rank(), "concat", where));
  if (parts.size() == 1) return parts[0];
  return Tensor(record_op(op_info<ops::Concat>, leaves, std::move(attrs), where));
}
SINTER_DECL Tensor concat(std::initializer_list<Tensor> parts, int axis, Location where) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis, where);
}
SINTER_DECL Tensor stack(std::span<const Tensor> parts, int axis, Location where) {
  std::vector<Tensor> lifted;
  for (const Tensor& part : parts) lifted.push_back(unsqueeze(In(part, where), axis));
  return concat(lifted, axis, where);
}
SINTER_DECL Tensor stack(std::initializer_list<Tensor> parts, int axis, Location where) {
  return stack(std::span<const Tensor>(parts.begin(), parts.size()), axis, where);
}
SINTER_DECL std::vector<Tensor> split(const In& x, int parts, int axis) {
  Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "split", x.where);
  Dim extent = whole.shape()[axis];
  if (parts <= 0) throw ShapeError("split", std::to_string(parts) + " parts", x.where);
  if (!(extent % Dim(parts) == Dim(0)))
    throw ShapeError("split", "extent " + extent.text() + " of axis " + std::to_string(axis) + " is no multiple of " + std::to_string(parts), x.where);
  std::vector<Tensor> out;
  std::vector<Index> positions(static_cast<std::size_t>(axis) + 1, Index(all));
  for (int i = 0; i < parts; ++i) {
    positions.back() = Index(Slice{extent / Dim(parts) * Dim(i), extent / Dim(parts) * Dim(i + 1), 1});
    out.push_back(index(In(whole, x.where), positions));
  }
  return out;
}
SINTER_DECL Tensor pad(const In& x, std::initializer_list<std::pair<int, int>> widths, double value) {
  Ref<TensorImpl> input = x.tensor();
  if (static_cast<int>(widths.size()) != input->type.shape.rank())
    throw ShapeError("pad", std::to_string(widths.size()) + " widths for shape " + input->type.shape.text(), x.where, "give one {low, high} per axis");
  Attrs attrs;
  for (auto [low, high] : widths) {
    if (low < 0 || high < 0) throw ShapeError("pad", "widths must not be negative", x.where, "slice to make a tensor smaller");
    attrs.shape.push_back(low), attrs.limits.push_back(high);
  }
  attrs.value = value;
  attrs.integer = static_cast<std::int64_t>(value);
  return expr_detail::record<ops::Pad>({Leaf(std::move(input))}, std::move(attrs), x.where);
}
SINTER_DECL Tensor roll(const In& x, std::int64_t shift, int axis) {
  Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "roll", x.where);
  Dim extent = whole.shape()[axis];
  if (extent.is_static()) shift = extent.value() == 0 ? 0 : ((shift % extent.value()) + extent.value()) % extent.value();
  if (shift == 0) return whole;
  const bool is_within = expr_detail::is_at_most(shift > 0 ? shift : -shift, extent);
  Dim cut = !is_within ? Dim(-shift) % extent : shift > 0 ? extent - Dim(shift) : Dim(-shift);
  std::vector<Index> head(static_cast<std::size_t>(axis) + 1, Index(all)), tail = head;
  head.back() = Index(Slice{0, cut, 1});
  tail.back() = Index(Slice{cut, extent, 1});
  return concat({index(In(whole, x.where), tail), index(In(whole, x.where), head)}, axis, x.where);
}

// ---- products, gathers, layers

SINTER_DECL Tensor matmul(const In& a, const In& b) {
  Tensor x(a.tensor()), y(b.tensor());
  Location where = a.where;
  if (x.rank() == 0 || y.rank() == 0)
    throw ShapeError("matmul", "a is " + x.shape().text() + ", b is " + y.shape().text() + "; both need at least one axis", where, "use * to scale");
  DType dtype = promote(x.dtype(), y.dtype());
  if (!is_floating(dtype)) throw DTypeError("matmul", "operands have dtype " + std::string(name(dtype)) + "; f32 or f64 is required", where, "cast with .to(DType::f32)");
  x = cast(In(x, where), dtype), y = cast(In(y, where), dtype);
  bool x_is_vector = x.rank() == 1, y_is_vector = y.rank() == 1;
  Dim inner_x = x.shape()[-1], inner_y = y_is_vector ? y.shape()[0] : y.shape()[-2];
  if (!(inner_x == inner_y)) {
    std::string fix = "a.size(" + std::to_string(x.rank() - 1) + ") = " + inner_x.text() + " must equal b.size(" +
                      std::to_string(y_is_vector ? 0 : y.rank() - 2) + ") = " + inner_y.text();
    if (!y_is_vector && identical(inner_x, y.shape()[-1])) fix += "; matmul(a, transpose(b, " + std::to_string(y.rank() - 2) + ", " + std::to_string(y.rank() - 1) + ")) would fit";
    throw ShapeError("matmul", "inner sizes differ: a is " + x.shape().text() + ", b is " + y.shape().text(), where, fix);
  }
  if (x_is_vector) x = unsqueeze(In(x, where), 0);
  if (y_is_vector) y = unsqueeze(In(y, where), 1);
  Shape batch_x, batch_y;
  for (int i = 0; i + 2 < x.rank(); ++i) batch_x.push_back(x.shape()[i]);
  for (int i = 0; i + 2 < y.rank(); ++i) batch_y.push_back(y.shape()[i]);
  Tensor out;
  if (batch_y.rank() == 0 && batch_x.rank() > 0) {   // one matrix for all: the batch is more rows
    Shape result = x.shape();
    result.set(result.rank() - 1, y.shape()[1]);
    Tensor rows = reshape(In(x, where), Shape{batch_x.numel() * x.shape()[-2], inner_x});
    out = reshape(In(expr_detail::record<ops::Matmul>({Leaf(rows.impl()), Leaf(y.impl())}, {}, where), where), result);
  } else {
    Shape batch = broadcast(batch_x, batch_y, "matmul", where), full_x = batch, full_y = batch;
    full_x.push_back(x.shape()[-2]), full_x.push_back(inner_x);
    full_y.push_back(inner_y), full_y.push_back(y.shape()[-1]);
    x = expand(In(x, where), full_x), y = expand(In(y, where), full_y);
    out = expr_detail::record<ops::Matmul>({Leaf(x.impl()), Leaf(y.impl())}, {}, where);
  }
  if (x_is_vector) out = squeeze(In(out, where), -2);
  if (y_is_vector) out = squeeze(In(out, where), -1);
  return out;
}

SINTER_DECL Tensor take(const In& x, const In& indices, int axis) {
  Ref<TensorImpl> value = x.tensor(), at = indices.tensor();
  Attrs attrs;
  attrs.axes.push_back(normalise_axis(axis, value->type.shape.rank(), "take", x.where));
  return expr_detail::record<ops::Take>({Leaf(std::move(value)), Leaf(std::move(at))}, std::move(attrs), x.where);
}
SINTER_DECL Tensor embedding(const In& indices, const In& table) { return take(table, indices, 0); }
SINTER_DECL Tensor one_hot(const In& indices, Dim classes, DType dtype) {
  Attrs attrs;
  attrs.shape.push_back(classes);
  attrs.dtype = dtype;
  attrs.has_dtype = true;
  return expr_detail::record<ops::OneHot>({Leaf(indices.tensor())}, std::move(attrs), indices.where);
}
SINTER_DECL Tensor softmax(const In& x, int axis) {
  return expr_detail::along_axis<ops::Softmax>(In(Tensor(expr_detail::as_floating(x.tensor(), x.where)), x.where), axis);
}
SINTER_DECL Tensor log_softmax(const In& x, int axis) {
  return expr_detail::along_axis<ops::LogSoftmax>(In(Tensor(expr_detail::as_floating(x.tensor(), x.where)), x.where), axis);
}
SINTER_DECL Tensor layer_norm(const In& x, const Shape& shape, const In& weight, const In& bias, LayerNormOptions options) {
  Ref<TensorImpl> value = x.tensor();
  const Shape& whole = value->type.shape;
  bool fits = shape.rank() <= whole.rank() && shape.rank() > 0;
  for (int i = 0; fits && i < shape.rank(); ++i) fits = shape[i] == whole[whole.rank() - shape.rank() + i];
  if (!fits)
    throw ShapeError("layer_norm", "x is " + whole.text() + ", its last axes do not match " + shape.text(), x.where);
  Attrs attrs;
  for (int i = whole.rank() - shape.rank(); i < whole.rank(); ++i) attrs.axes.push_back(i);
  attrs.value = options.eps;
  return expr_detail::record<ops::LayerNorm>({Leaf(std::move(value)), Leaf(weight.tensor()), Leaf(bias.tensor())}, std::move(attrs), x.where);
}
SINTER_DECL Tensor cross_entropy(const In& logits, const In& target) {
  return expr_detail::record<ops::CrossEntropy>({Leaf(logits.tensor()), Leaf(target.tensor())}, {}, logits.where);
}
SINTER_DECL Tensor mse_loss(const In& prediction, const In& target) {
  return expr_detail::record<ops::MseLoss>({Leaf(prediction.tensor()), Leaf(target.tensor())}, {}, prediction.where);
}
namespace expr_detail {
/// That a window of `size` fits symbolic axes; static ones are the op's business.
inline void require_window(const Shape& image, int axis, std::int64_t size, std::int64_t padding, std::string_view op, Location where) {
  if (image.rank() != 4 || image[axis].is_static() || is_at_most(size, image[axis] + Dim(2 * padding))) return;
  throw ShapeError(op, "a window of " + std::to_string(size) + " does not fit axis " + std::to_string(axis) + " of " + image.text(), where);
}

/// The height and width of a convolution's kernel shape the code: where they are symbolic, their values become guards.
inline Tensor with_known_window(const In& weight) {
  Tensor kernel(weight.tensor());
  Shape shape = kernel.shape();
  for (int axis = 2; axis < shape.rank(); ++axis) shape.set(axis, static_cast<std::int64_t>(shape[axis]));
  return reshape(In(kernel, weight.where), shape);
}
}  // namespace expr_detail
SINTER_DECL Tensor conv2d(const In& x, const In& weight, Conv2dOptions options) {
  if (options.stride < 1 || options.padding < 0)
    throw ShapeError("conv2d", "stride " + std::to_string(options.stride) + " must be positive and padding " + std::to_string(options.padding) + " not negative", x.where);
  const Tensor image(x.tensor()), kernel = expr_detail::with_known_window(weight);
  for (int axis = 2; axis < kernel.rank(); ++axis)
    expr_detail::require_window(image.shape(), axis, kernel.shape()[axis].value(), options.padding, "conv2d", x.where);
  Attrs attrs;
  attrs.steps = {options.stride, options.stride, options.padding, options.padding};
  return expr_detail::record<ops::Conv2d>({Leaf(image.impl()), Leaf(kernel.impl())}, std::move(attrs), x.where);
}
namespace expr_detail {
template <class Op>
Tensor pool2d(const In& x, std::int64_t size, std::int64_t stride) {
  if (stride == 0) stride = size;
  if (size < 1 || stride < 1) throw ShapeError(Op::info.name, "size and stride must be positive", x.where);
  const Tensor image(x.tensor());
  for (int axis : {2, 3}) require_window(image.shape(), axis, size, 0, Op::info.name, x.where);
  Attrs attrs;
  attrs.steps = {size, size, stride, stride};
  return record<Op>({Leaf(image.impl())}, std::move(attrs), x.where);
}
}  // namespace expr_detail
SINTER_DECL Tensor max_pool2d(const In& x, std::int64_t size, std::int64_t stride) { return expr_detail::pool2d<ops::MaxPool2d>(x, size, stride); }
SINTER_DECL Tensor avg_pool2d(const In& x, std::int64_t size, std::int64_t stride) { return expr_detail::pool2d<ops::AvgPool2d>(x, size, stride); }
SINTER_DECL Tensor scaled_dot_product_attention(const In& q, const In& k, const In& v, AttentionOptions options) {
  std::vector<Leaf> leaves{Leaf(q.tensor()), Leaf(k.tensor()), Leaf(v.tensor())};
  if (options.mask) leaves.emplace_back(options.mask->impl());
  Attrs attrs;
  attrs.keepdim = options.causal;
  return Tensor(record_op(op_info<ops::ScaledDotProductAttention>, leaves, std::move(attrs), q.where));
}
SINTER_DECL Tensor cast(const In& x, DType dtype) {
  Ref<TensorImpl> value = x.tensor();
  if (value->type.dtype == dtype && !value->is_weak) return Tensor(std::move(value));
  Attrs attrs;
  attrs.dtype = dtype;
  attrs.has_dtype = true;
  return expr_detail::record<ops::Cast>({Leaf(std::move(value))}, std::move(attrs), x.where);
}
namespace expr_detail {
/// A device on which something is made: it must be usable now, not when the value is computed.
inline Device checked_device(Device device, std::string_view op, Location where) {
  if (SINTER_UNLIKELY(device.kind != DeviceKind::cpu)) device_memory(device, op, where);
  return device;
}

/// The elements from the first to behind the last one, on another device, in the same layout.
inline Ref<TensorImpl> moved(const TensorImpl& value, Device device) {
  const Type type{value.type.dtype, device, value.type.shape};
  std::int64_t span = type.shape.numel().value() == 0 ? 0 : 1;
  for (int i = 0; span > 0 && i < type.shape.rank(); ++i) span += (type.shape[i].value() - 1) * value.strides[static_cast<std::size_t>(i)];
  const auto bytes = static_cast<std::size_t>(span * size_of(type.dtype));
  Ref<Storage> storage = Storage::allocate(bytes, device);
  const Device from = value.type.device;
  if (bytes > 0) device_memory(from.kind == DeviceKind::cpu ? device : from, "to").copy(storage->data(), device, value.data(), from, bytes);
  return TensorImpl::make_ready(type, std::move(storage), 0, &value.strides);
}
}  // namespace expr_detail

SINTER_DECL Tensor to_device(const In& x, Device device) {
  Ref<TensorImpl> value = x.tensor();
  if (value->type.device == device) return Tensor(std::move(value));
  expr_detail::checked_device(device, "to", x.where);
  if (value->trace != 0 && !value->is_ready())
    throw TraceError("to", "a tensor moves from " + value->type.device.text() + " to " + device.text() + " while its function is traced", x.where,
                     "a compiled function runs on one device: move its arguments before the call");
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, "to", x.where);
  if (value->type.device == Device::cpu()) value = dense_value(In(Tensor(std::move(value)), x.where), "to");
  return Tensor(expr_detail::moved(*value, device));
}

SINTER_DECL void set_default_device(Device device, Location where) {
  tensor_detail::store_default_device(expr_detail::checked_device(device, "set_default_device", where));
}

// ---- tensors from nothing

SINTER_DECL Tensor full(const Shape& shape, const Scalar& value, TensorOptions options, Location where) {
  expr_detail::checked_device(options.device, "full", where);
  if (!value.is_number()) {   // a run-time number joins zeros on the device
    const Tensor number = cast(In(value, where), options.dtype);
    if (options.device == Device::cpu()) return expand(In(number, where), shape);
    return expr_detail::record<ops::Add>({Leaf(zeros(shape, options, where).impl()), Leaf(number.impl())}, {}, where);
  }
  Attrs attrs;
  attrs.device = options.device;
  attrs.shape = shape;
  attrs.dtype = options.dtype;
  attrs.has_dtype = true;
  if (is_floating(options.dtype)) attrs.value = value.number();
  else attrs.integer = value.leaf().kind == DTypeClass::floating ? static_cast<std::int64_t>(value.leaf().number) : value.leaf().integer;
  return expr_detail::record<ops::Full>({}, std::move(attrs), where);
}
SINTER_DECL Tensor zeros(const Shape& shape, TensorOptions options, Location where) { return full(shape, 0, options, where); }
SINTER_DECL Tensor ones(const Shape& shape, TensorOptions options, Location where) { return full(shape, 1, options, where); }
SINTER_DECL Tensor zeros_like(const In& x) {
  Ref<TensorImpl> value = x.tensor();
  return full(value->type.shape, 0, {.dtype = value->type.dtype, .device = value->type.device}, x.where);
}
SINTER_DECL Tensor ones_like(const In& x) {
  Ref<TensorImpl> value = x.tensor();
  return full(value->type.shape, 1, {.dtype = value->type.dtype, .device = value->type.device}, x.where);
}
SINTER_DECL Tensor arange(Dim count, TensorOptions options, Location where) {
  Attrs attrs;
  attrs.device = expr_detail::checked_device(options.device, "arange", where);
  attrs.shape.push_back(count);
  attrs.axes.push_back(0);
  attrs.dtype = options.dtype;
  attrs.has_dtype = true;
  return expr_detail::record<ops::Iota>({}, std::move(attrs), where);
}
SINTER_DECL Tensor arange(std::int64_t start, std::int64_t stop, std::int64_t step, TensorOptions options, Location where) {
  if (step == 0) throw ShapeError("arange", "step is 0", where);
  std::int64_t count = std::max<std::int64_t>(0, (stop - start + step + (step > 0 ? -1 : 1)) / step);
  return cast(In(Tensor(arange(Dim(count), {.dtype = DType::i64, .device = options.device}, where) * step + start), where), options.dtype);
}
SINTER_DECL Tensor linspace(double start, double stop, Dim count, TensorOptions options, Location where) {
  Tensor position = arange(count, {.dtype = DType::f64, .device = options.device}, where);
  Tensor last = Tensor(cast(In(Scalar(count)), DType::f64)) - 1.0;
  Tensor fraction = sinter::where(last > 0.0, position / maximum(last, 1.0), 0.0);
  return cast(In(Tensor(sinter::where(fraction == 1.0, stop, start + fraction * (stop - start))), where), options.dtype);
}
SINTER_DECL Tensor eye(Dim n, TensorOptions options, Location where) {
  Tensor i = arange(n, {.dtype = DType::i64, .device = options.device}, where);
  return cast(In(Tensor(reshape(i, Shape{n, 1}) == reshape(i, Shape{1, n})), where), options.dtype);
}

namespace expr_detail {
/// A ready value of no trace: a thread's generator may be made while a function is traced.
inline Tensor ready_integer(std::int64_t value) {
  Ref<Storage> storage = Storage::allocate(sizeof value);
  *static_cast<std::int64_t*>(storage->data()) = value;
  return Tensor(TensorImpl::make_ready({DType::i64, Device::cpu(), {}}, std::move(storage)));
}
}  // namespace expr_detail

SINTER_DECL Generator::Generator(std::int64_t seed)
    : key(expr_detail::ready_integer(seed), "random key"), counter(expr_detail::ready_integer(0), "random counter") {}
SINTER_DECL Generator& Generator::current() {
  static thread_local Generator generator(0);
  return generator;
}
SINTER_DECL void manual_seed(std::int64_t seed) {
  Generator& generator = Generator::current();
  generator.key.set(expr_detail::ready_integer(seed));
  generator.counter.set(expr_detail::ready_integer(0));
}
namespace expr_detail {
template <class Op>
Tensor random(const Shape& shape, TensorOptions options, Location where) {
  if (!is_floating(options.dtype)) throw DTypeError(Op::info.name, "dtype " + std::string(name(options.dtype)) + " is not floating", where);
  Generator& generator = Generator::current();
  Tensor key = generator.key.value(), counter = generator.counter.value();
  Attrs attrs;
  attrs.shape = shape;
  attrs.dtype = options.dtype;
  attrs.has_dtype = true;
  attrs.device = checked_device(options.device, Op::info.name, where);
  Tensor out = record<Op>({Leaf(key.impl()), Leaf(counter.impl())}, std::move(attrs), where);
  // Outside a trace the counter stays a plain value: a chain of pending additions would grow for ever.
  if (Trace::current() == nullptr) sinter::eval(In(counter));
  generator.counter.set(In(Tensor(counter + 1), where));
  if (Trace::current() == nullptr) sinter::eval(In(generator.counter.value()));
  return out;
}
}  // namespace expr_detail
SINTER_DECL Tensor rand(const Shape& shape, TensorOptions options, Location where) { return expr_detail::random<ops::RandomUniform>(shape, options, where); }
SINTER_DECL Tensor randn(const Shape& shape, TensorOptions options, Location where) { return expr_detail::random<ops::RandomNormal>(shape, options, where); }

SINTER_DECL void eval(const In& x) {
  TensorImpl* raw = x.leaf.value.get();
  if (raw != nullptr) evaluate({&raw, 1}, "eval", x.where);
}
SINTER_DECL void eval(std::initializer_list<std::reference_wrapper<const Tensor>> values, Location where) {
  std::vector<TensorImpl*> raw;
  for (const Tensor& value : values) raw.push_back(value.impl().get());
  evaluate(raw, "eval", where);
}

SINTER_DECL Leaf Scalar::of_dim(Dim dim) {
  if (dim.is_static()) return Leaf::of_integer(dim.value());
  Ref<TensorImpl> value = record_op(op_info<ops::Extent>, {Leaf::of_integer(0)}, Attrs{.shape = {dim}}, Location());
  value->is_weak = true;
  return Leaf(std::move(value));
}

SINTER_NAMESPACE_END
