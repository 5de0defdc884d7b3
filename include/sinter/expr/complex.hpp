// Complex numbers: how they are made of real ones and taken apart. All other functions take complex tensors as they
// take real ones, or say why not. Names and results follow PyTorch.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <source_location>

SINTER_NAMESPACE_BEGIN

/// re + i im, broadcast: c64 of f32, c128 of f64.
Tensor complex(const In& re, const In& im);
/// abs * (cos(angle) + i sin(angle)).
Tensor polar(const In& abs, const In& angle);

/// The real part; of a real tensor the tensor itself.
Tensor real(const In& z);
/// The imaginary part of a complex tensor.
Tensor imag(const In& z);
/// The complex conjugate; of a real tensor the tensor itself.
Tensor conj(const In& z);
/// The angle in (-pi, pi]; of real numbers 0 or pi.
Tensor angle(const In& z);
/// c64 (...) as f32 (..., 2): real and imaginary parts. In compiled functions a view; lazily it may be a copy.
Tensor view_as_real(const In& z);
/// f32 (..., 2) as c64 (...). In compiled functions a view where the two are neighbours in memory, else a copy.
Tensor view_as_complex(const In& pairs);
/// Is the dtype c64 or c128?
bool is_complex(const In& x);

namespace expr_detail {
/// Every element is re + i im, of a complex dtype.
Tensor full_of_parts(const Shape& shape, double re, double im, TensorOptions options, Location where);
}  // namespace expr_detail

/// Every element is `value`. The dtype is that of the value unless `options` names a complex one.
template <ComplexNumber C>
Tensor full(const Shape& shape, const C& value, TensorOptions options = {},
            Location where = std::source_location::current()) {
  const DType dtype = options.dtype_or(dtype_of<C>());
  options.dtype = is_complex(dtype) ? dtype : complex_of(dtype);
  return expr_detail::full_of_parts(shape, static_cast<double>(value.real()), static_cast<double>(value.imag()),
                                    options, where);
}

SINTER_NAMESPACE_END
