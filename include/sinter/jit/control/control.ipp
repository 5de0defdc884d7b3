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

SINTER_DECL Device device_of_carries(std::span<const Ref<TensorImpl>> carries) {
  for (const auto& value : carries)
    if (value->type.device != Device::cpu() || value->type.shape.rank() > 0) return value->type.device;
  return default_device();
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
