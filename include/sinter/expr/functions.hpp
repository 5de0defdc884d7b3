// The functions users call: here elementwise ones, reductions, views, joins and parts; by inclusion also the others.
// Elementwise ones give an Expr; everything else gives a Tensor and is defined in the .ipp. Names and argument order
// follow PyTorch and NumPy. Every function checks shapes and dtypes when it is called and blames the caller's line.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/adaptive_pool.hpp>
#include <sinter/expr/attention.hpp>
#include <sinter/expr/by_name.hpp>
#include <sinter/expr/convolution.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/cumulative.hpp>
#include <sinter/expr/distributions.hpp>
#include <sinter/expr/dropout.hpp>
#include <sinter/expr/einsum.hpp>
#include <sinter/expr/elementwise.hpp>
#include <sinter/expr/embedding.hpp>
#include <sinter/expr/equality.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/found.hpp>
#include <sinter/expr/handles.hpp>
#include <sinter/expr/indexing.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/linalg.hpp>
#include <sinter/expr/losses.hpp>
#include <sinter/expr/matrices.hpp>
#include <sinter/expr/normalisation.hpp>
#include <sinter/expr/order.hpp>
#include <sinter/expr/padding.hpp>
#include <sinter/expr/parts.hpp>
#include <sinter/expr/products.hpp>
#include <sinter/expr/resample.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/special.hpp>
#include <sinter/expr/statistics.hpp>
#include <sinter/expr/windows.hpp>
#include <sinter/tensor/tensor.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {
/// A condition that is one bool, known or not.
template <class T>
concept Outcome = std::same_as<std::remove_cvref_t<T>, bool> || std::same_as<std::remove_cvref_t<T>, Predicate>;
}  // namespace expr_detail

#define SINTER_UNARY_FUNCTION(function, Op)                                \
  template <TensorLike A>                                                  \
  auto function(A&& x, Location where = std::source_location::current()) { \
    return tensor_detail::make_expr<ops::Op>(where, std::forward<A>(x));   \
  }
#define SINTER_BINARY_FUNCTION(function, Op)                                                 \
  template <TensorOperand A, TensorOperand B>                                                \
    requires(TensorLike<A> || TensorLike<B>)                                                 \
  auto function(A&& a, B&& b, Location where = std::source_location::current()) {            \
    return tensor_detail::make_expr<ops::Op>(where, std::forward<A>(a), std::forward<B>(b)); \
  }

// Elementwise, any shape. Integers become f32 where the result is not integral.
SINTER_UNARY_FUNCTION(exp, Exp)
SINTER_UNARY_FUNCTION(log, Log)
SINTER_UNARY_FUNCTION(sqrt, Sqrt)
SINTER_UNARY_FUNCTION(rsqrt, Rsqrt)
SINTER_UNARY_FUNCTION(sin, Sin)
SINTER_UNARY_FUNCTION(cos, Cos)
SINTER_UNARY_FUNCTION(tanh, Tanh)
SINTER_UNARY_FUNCTION(erf, Erf)
SINTER_UNARY_FUNCTION(sigmoid, Sigmoid)
SINTER_UNARY_FUNCTION(relu, Relu)
SINTER_UNARY_FUNCTION(gelu, Gelu)
SINTER_UNARY_FUNCTION(silu, Silu)
SINTER_UNARY_FUNCTION(abs, Abs)
SINTER_UNARY_FUNCTION(sign, Sign)
SINTER_UNARY_FUNCTION(floor, Floor)
SINTER_UNARY_FUNCTION(ceil, Ceil)
SINTER_UNARY_FUNCTION(round, Round)
SINTER_UNARY_FUNCTION(trunc, Trunc)
SINTER_UNARY_FUNCTION(square, Square)
SINTER_UNARY_FUNCTION(reciprocal, Reciprocal)
SINTER_UNARY_FUNCTION(stop_gradient, StopGradient)
SINTER_BINARY_FUNCTION(pow, Pow)
SINTER_BINARY_FUNCTION(floor_divide, FloorDivide)
SINTER_BINARY_FUNCTION(maximum, Maximum)
SINTER_BINARY_FUNCTION(minimum, Minimum)

/// Elementwise choice: `condition ? a : b`. The condition is bool.
template <class C, TensorOperand A, TensorOperand B>
  requires(TensorLike<C> || (expr_detail::Outcome<C> && (TensorLike<A> || TensorLike<B>)))
auto where(C&& condition, A&& a, B&& b, Location at = std::source_location::current()) {
  return tensor_detail::make_expr<ops::Where>(at, std::forward<C>(condition), std::forward<A>(a), std::forward<B>(b));
}
/// Values limited to [low, high]. Between numbers the derivative at a bound is 0; a bound that is a tensor shares it
/// with x.
template <TensorOperand A, TensorOperand L, TensorOperand H>
  requires(TensorLike<A> || TensorLike<L> || TensorLike<H>)
auto clamp(A&& x, L&& low, H&& high, Location at = std::source_location::current()) {
  using Op = std::conditional_t<ScalarLike<L> && ScalarLike<H>, ops::ClampToNumbers, ops::Clamp>;
  return tensor_detail::make_expr<Op>(at, std::forward<A>(x), std::forward<L>(low), std::forward<H>(high));
}
#undef SINTER_UNARY_FUNCTION
#undef SINTER_BINARY_FUNCTION

// Reductions over `axes` (none given: all).
Tensor sum(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor prod(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor mean(const In& x, Axes axes = {}, Keep keep = Keep::no);
/// Population variance.
Tensor var(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor amax(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor amin(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor any(const In& x, Axes axes = {}, Keep keep = Keep::no);
/// Position (i64) of the largest element; the first of equals, NaN counts as largest. Over several axes, or all, it
/// counts through them, the last one fastest.
Tensor argmax(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor argmin(const In& x, Axes axes = {}, Keep keep = Keep::no);

/// `all` is the slice token of x(all, 0) and the reduction all(x).
struct All {
  Tensor operator()(const In& x, Axes axes = {}, Keep keep = Keep::no) const;
};
inline constexpr All all{};

// Views: no data move where strides allow.
Tensor reshape(const In& x, const Shape& shape);  // one extent may be -1
Tensor permute(const In& x, Axes order);
Tensor transpose(const In& x, int a, int b);
Tensor expand(const In& x, const Shape& shape);  // -1 keeps an extent
Tensor unsqueeze(const In& x, Axes axes);        // as they are numbered in the result
Tensor squeeze(const In& x, Axes axes = {});     // none given: all of extent 1
Tensor flatten(const In& x, int first = 0, int last = -1);

// Joins and parts.
Tensor concat(std::span<const Tensor> parts, int axis = 0, Location where = std::source_location::current());
Tensor concat(std::initializer_list<Tensor> parts, int axis = 0, Location where = std::source_location::current());
Tensor stack(std::span<const Tensor> parts, int axis = 0, Location where = std::source_location::current());
Tensor stack(std::initializer_list<Tensor> parts, int axis = 0, Location where = std::source_location::current());
std::vector<Tensor> split(const In& x, int parts, int axis);
template <std::size_t N>
std::array<Tensor, N> split(const In& x, int axis) {
  std::vector<Tensor> parts = split(x, static_cast<int>(N), axis);
  std::array<Tensor, N> out;
  for (std::size_t i = 0; i < N; ++i) out[i] = parts[i];
  return out;
}

template <class Self>
Dim TensorMethods<Self>::size(int axis, Location where) const {
  const Shape extents = shape();
  return extents[normalise_axis(axis, extents.rank(), "size", where)];
}
template <class Self>
Shape TensorMethods<Self>::shape() const {
  return In(static_cast<const Self&>(*this)).leaf.value->type.shape;
}
template <class Self>
DType TensorMethods<Self>::dtype() const {
  return In(static_cast<const Self&>(*this)).leaf.value->type.dtype;
}
template <class Self>
Device TensorMethods<Self>::device() const {
  return In(static_cast<const Self&>(*this)).leaf.value->type.device;
}
template <class Self>
int TensorMethods<Self>::rank() const {
  return In(static_cast<const Self&>(*this)).leaf.value->type.shape.rank();
}
template <class Self>
Dim TensorMethods<Self>::numel() const {
  return shape().numel();
}
template <class Self>
Tensor TensorMethods<Self>::sum(Axes axes, Keep keep, Location where) const {
  return sinter::sum(In(static_cast<const Self&>(*this), where), axes, keep);
}
template <class Self>
Tensor TensorMethods<Self>::mean(Axes axes, Keep keep, Location where) const {
  return sinter::mean(In(static_cast<const Self&>(*this), where), axes, keep);
}
template <class Self>
Tensor TensorMethods<Self>::t(Location where) const {
  return transpose(In(static_cast<const Self&>(*this), where), -2, -1);
}
template <class Self>
Tensor TensorMethods<Self>::reshape(const Shape& shape, Location where) const {
  return sinter::reshape(In(static_cast<const Self&>(*this), where), shape);
}
template <class Self>
Tensor TensorMethods<Self>::to(DType dtype, Location where) const {
  return cast(In(static_cast<const Self&>(*this), where), dtype);
}
template <class Self>
Tensor TensorMethods<Self>::to(Device device, Location where) const {
  return to_device(In(static_cast<const Self&>(*this), where), device);
}
template <class Self>
Tensor TensorMethods<Self>::operator()(const Index& i0, const Index& i1, const Index& i2, const Index& i3,
                                       const Index& i4, const Index& i5, const Index& i6, const Index& i7) const {
  return tensor_detail::part_of(In(static_cast<const Self&>(*this), i0.where),
                                {&i0, &i1, &i2, &i3, &i4, &i5, &i6, &i7});
}

SINTER_NAMESPACE_END
