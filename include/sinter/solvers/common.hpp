// What the solvers share: functions whose captured values are arguments, their derivatives, norms, and the types of
// arguments. Included by .ipp files alone.
#pragma once

#include <sinter/autodiff/closure.hpp>
#include <sinter/autodiff/custom.hpp>
#include <sinter/autodiff/transforms.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace solvers::detail {

using Tensors = std::vector<Tensor>;
/// A function of one Tensor and of the values that it uses besides.
using Function = std::function<Tensor(const Tensor& x, std::span<const Tensor> captured)>;

/// How many derivatives of a solution can be taken: each is a solve of its own, whose rule is traced with it.
inline constexpr int derivative_orders = 3;

inline Tensor flat(const Tensor& x) { return x.rank() == 1 ? x : reshape(x, {x.numel()}); }
inline Tensor dot_of(const Tensor& a, const Tensor& b) { return sum(a * b); }
inline Tensor norm_of(const Tensor& x) { return sqrt(sum(square(x))); }
/// The largest magnitude; 0 of no elements, NaN if there is one.
inline Tensor largest_of(const Tensor& x) { return x.numel() == Dim(0) ? Tensor(sum(x)) : amax(abs(x)); }
/// a / b, and 0 where b is 0.
inline Tensor safe_quotient(const Tensor& a, const Tensor& b) { return where(b == 0, 0, a / where(b == 0, 1, b)); }
inline Tensor zero_count(const Tensor& like) { return zeros({}, {.dtype = DType::i64, .device = like.device()}); }
inline Tensors zeros_of(std::span<const Tensor> list) {
  Tensors out;
  for (const Tensor& x : list) out.push_back(zeros_like(x));
  return out;
}
inline bool has_floating(std::span<const Tensor> list) {
  for (const Tensor& x : list)
    if (is_floating(x.dtype())) return true;
  return false;
}

/// Transposed matrix of derivatives by x, times a vector of the result's shape.
inline Tensor pulled_back(const Function& f, const Tensor& x, std::span<const Tensor> captured, const Tensor& vector) {
  return jit::vjp([&](const Tensor& v) { return f(v, captured); }, x).second(vector);
}
/// The same by the captured values.
inline Tensors pulled_back_to_captured(const Function& f, const Tensor& x, std::span<const Tensor> captured,
                                       const Tensor& vector) {
  Tensors values(captured.begin(), captured.end());
  if (!has_floating(captured)) return values;
  return jit::vjp([&](const Tensors& c) { return f(x, c); }, values).second(vector);
}

/// A scalar argument; C++ numbers in full, however narrow the dtype is that they get beside nothing else.
inline Tensor scalar_of(std::string_view op, std::string_view what, const In& x, DType dtype, Device device) {
  if (!x.leaf.value) {
    const bool is_whole = x.leaf.kind != DTypeClass::floating;
    const double number = is_whole ? static_cast<double>(x.leaf.integer) : x.leaf.number;
    return full({}, number, {.dtype = dtype, .device = device}, x.where);
  }
  const Tensor t(x.tensor());
  if (t.rank() != 0)
    throw ShapeError(op, std::string(what) + " is " + t.impl()->type.text(), x.where,
                     "it must be a scalar; use vmap for many");
  return cast(In(t, x.where), dtype).to(device);
}
inline void require_real(std::string_view op, std::string_view what, const Tensor& x, Location where) {
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64)
    throw DTypeError(op, std::string(what) + " is " + x.impl()->type.text() + ", it must be f32 or f64", where,
                     is_complex(x.dtype()) ? "work on its parts: view_as_real(x)" : "convert it: x.to(DType::f64)");
}
/// A function that maps x to values of the same type.
inline void require_endomorphism(std::string_view op, const jit::Closure& f, const Tensor& x, Location where) {
  const Type &given = x.impl()->type, &made = f.result_type();
  if (!(made.shape == given.shape) || made.dtype != given.dtype)
    throw ShapeError(op, "the function gives " + made.text() + " for " + given.text(), where,
                     "it must give the shape and dtype of its argument");
}

}  // namespace solvers::detail
SINTER_NAMESPACE_END
