// Bounds of loops.
#pragma once

#include <sinter/jit/control/control.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace control_detail {
inline void require_integer_bound(const Type& type, Location where) {
  if (type.shape.rank() != 0)
    throw ShapeError("fori_loop", "a bound is " + type.text() + "; one integer of shape () is required", where);
  if (is_floating(type.dtype) || type.dtype == DType::bool_)
    throw DTypeError("fori_loop", "a bound is " + type.text() + "; an integer is required", where,
                     "cast it: x.to(DType::i64)");
}

/// Where the iterations of a loop are counted. Numbers on the host join work anywhere.
inline Device device_of_carries(std::span<const Ref<TensorImpl>> carries) {
  for (const auto& value : carries)
    if (value->type.device != Device::cpu() || value->type.shape.rank() > 0) return value->type.device;
  return default_device();
}

SINTER_DECL Tensor loop_numbers(const LoopBound& lower, const LoopBound& upper, const BodyValues& carries,
                                Location where) {
  const Tensor numbers = arange(trip_count(lower.dim(), upper.dim(), where),
                                {.dtype = DType::i64, .device = device_of_carries(carries.values)}, where);
  if (identical(lower.dim(), Dim(0))) return numbers;
  return tensor_detail::make_expr<ops::Add>(where, numbers, Tensor(Scalar(lower.dim())));
}
SINTER_DECL Scalar loop_number(const Tensor& number) {
  number.impl()->is_weak = true;
  return Scalar(number.impl());
}
SINTER_DECL Tensor plus(const Tensor& number, std::int64_t step, Location where) {
  return tensor_detail::make_expr<ops::Add>(where, number, step);
}
SINTER_DECL Tensor is_before(const Tensor& number, const Tensor& end, Location where) {
  return tensor_detail::make_expr<ops::Lt>(where, number, end);
}
}  // namespace control_detail

SINTER_DECL LoopBound::LoopBound(const Scalar& value, Location where) {
  const Leaf& leaf = value.leaf();
  if (!leaf.value && leaf.kind == DTypeClass::integer) {
    dim_ = leaf.integer;
    return;
  }
  value_ = control_detail::scalar_value(value);
  control_detail::require_integer_bound(value_->type, where);
}

SINTER_DECL LoopBound::LoopBound(const Tensor& value, Location where) : value_(value.impl()) {
  control_detail::require_integer_bound(value_->type, where);
}

SINTER_DECL Tensor LoopBound::tensor() const {
  if (!value_) return full({}, Scalar(dim_), {.dtype = DType::i64}, Location());
  return cast(In(Tensor(value_), Location()), DType::i64);
}

}  // namespace jit
SINTER_NAMESPACE_END
