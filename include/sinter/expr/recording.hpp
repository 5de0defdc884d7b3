// What the definitions of user-facing functions share: from normalised arguments to pending nodes. Only .ipp files
// include it.
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {

template <class Op>
Tensor record(std::initializer_list<Leaf> leaves, SharedAttrs attrs, Location where) {
  return Tensor(record_shared(op_info<Op>, leaves, std::move(attrs), where));
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
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes = reduced_axes(axes, value->type.shape.rank(), Op::info.name, x.where);
  attrs.keepdim = keep == Keep::yes;
  constexpr bool keeps_numbers = Op::info.reduction != 0 && !requires { &Op::fold; };
  if (attrs.axes.empty()) return keeps_numbers ? Tensor(value) : record<Op>({Leaf(value)}, std::move(shared), x.where);
  return record<Op>({Leaf(std::move(value))}, std::move(shared), x.where);
}

template <class Op>
Tensor along_axis(const In& x, int axis, Keep keep = Keep::no) {
  Ref<TensorImpl> value = x.tensor();
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes.push_back(normalise_axis(axis, value->type.shape.rank(), Op::info.name, x.where));
  attrs.keepdim = keep == Keep::yes;
  return record<Op>({Leaf(std::move(value))}, std::move(shared), x.where);
}

/// Floating as it is, and so complex.
inline Ref<TensorImpl> as_floating(Ref<TensorImpl> value, Location where) {
  if (is_differentiable(value->type.dtype)) return value;
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.dtype = DType::f32;
  attrs.has_dtype = true;
  return record_shared(op_info<ops::Cast>, {Leaf(std::move(value))}, std::move(shared), where);
}

/// The dtype of two operands whose own are x and y; a whole number of C++ beside u64 becomes u64.
inline DType promote_beside(const In& a, DType x, const In& b, DType y, std::string_view op) {
  const auto is_whole = [](const In& given) { return !given.leaf.value && given.leaf.kind == DTypeClass::integer; };
  if (x == DType::u64 && is_whole(b)) return x;
  if (y == DType::u64 && is_whole(a)) return y;
  return promote(x, y, op, a.where);
}

/// a <= b. Of symbolic extents it asks in a way that makes "yes" a guard on their order, not on their being equal.
inline bool is_at_most(Dim a, Dim b) {
  const Dim gap = b - a;
  return gap.is_static() ? gap.value() >= 0 : a < b + Dim(1);
}

/// attrs.value (floating) or attrs.integer: every element of what is filled with the number `value`. One that an
/// integer dtype cannot hold is refused; fractions are cut off.
inline void fill_with(Attrs& attrs, const Scalar& value, DType dtype, std::string_view op, Location where) {
  const Leaf& leaf = value.leaf();
  if (is_differentiable(dtype)) {
    attrs.value = leaf.kind == DTypeClass::floating ? leaf.number : static_cast<double>(leaf.integer);
    if (is_f8(dtype)) attrs.value = tensor_detail::rounded(attrs.value, dtype);  // they are never computed in f32
    return;
  }
  if (dtype == DType::bool_) {
    attrs.integer = leaf.kind == DTypeClass::floating ? leaf.number != 0 : leaf.integer != 0;
    return;
  }
  if (dtype == DType::u64 && leaf.kind == DTypeClass::floating && leaf.number >= 0x1p63 && leaf.number < 0x1p64) {
    attrs.integer = static_cast<std::int64_t>(static_cast<std::uint64_t>(leaf.number));
    return;
  }
  bool fits = leaf.kind != DTypeClass::floating || (leaf.number >= -0x1p63 && leaf.number < 0x1p63);
  const std::int64_t number = leaf.kind != DTypeClass::floating ? leaf.integer
                              : fits                            ? static_cast<std::int64_t>(leaf.number)
                                                                : 0;
  fits = fits && number >= tensor_detail::lowest(dtype) && number <= tensor_detail::greatest(dtype);
  if (!fits)
    throw UserError(
        op,
        "the value " +
            (leaf.kind == DTypeClass::floating ? std::to_string(leaf.number) : std::to_string(leaf.integer)) +
            " does not fit " + std::string(name(dtype)),
        where);
  attrs.integer = number;
}

/// Of functions that would else be refused by the name of another one.
[[noreturn]] inline void refuse_order(std::string_view op, Location where) {
  throw DTypeError(op, "complex numbers have no order", where, "compare abs(z), real(z) or imag(z)");
}

/// A device on which something is made: it must be usable now, not when the value is computed.
inline Device checked_device(Device device, std::string_view op, Location where) {
  if (SINTER_UNLIKELY(device.kind != DeviceKind::cpu)) device_memory(device, op, where);
  return device;
}

/// Elements `start` to before `stop` along one axis, as x(..., slice(start, stop)).
inline Tensor part_of(const Tensor& x, int axis, Dim start, Dim stop, Location where) {
  std::vector<Index> positions(as_index(axis) + 1, Index(sinter::all, where));
  positions.back() = Index(Slice{start, stop, 1}, where);
  return index(In(x, where), positions);
}

/// `x op= y` keeps the dtype of x.
template <class Op>
Tensor compound(const Tensor& x, const In& y) {
  Ref<TensorImpl> value = record_op(op_info<Op>, {Leaf(x.impl()), y.leaf}, {}, y.where);
  return value->type.dtype == x.dtype() ? Tensor(std::move(value))
                                        : cast(In(Tensor(std::move(value)), y.where), x.dtype());
}

}  // namespace expr_detail

SINTER_NAMESPACE_END
