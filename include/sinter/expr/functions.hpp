// The functions users call. Elementwise ones give an Expr; everything else gives a Tensor and is defined in the .ipp.
// Names and argument order follow PyTorch and NumPy. Every function checks shapes and dtypes when it is called and
// names the caller's line in errors.
#pragma once

#include <sinter/expr/equality.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

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
template <TensorLike C, TensorOperand A, TensorOperand B>
auto where(C&& condition, A&& a, B&& b, Location at = std::source_location::current()) {
  return tensor_detail::make_expr<ops::Where>(at, std::forward<C>(condition), std::forward<A>(a), std::forward<B>(b));
}
/// Values limited to [low, high]. Between numbers the derivative at a bound is 0; a bound that is a tensor shares it
/// with x.
template <TensorLike A, TensorOperand L, TensorOperand H>
auto clamp(A&& x, L&& low, H&& high, Location at = std::source_location::current()) {
  using Op = std::conditional_t<ScalarLike<L> && ScalarLike<H>, ops::ClampToNumbers, ops::Clamp>;
  return tensor_detail::make_expr<Op>(at, std::forward<A>(x), std::forward<L>(low), std::forward<H>(high));
}
#undef SINTER_UNARY_FUNCTION
#undef SINTER_BINARY_FUNCTION

// Numbers at run time.
Scalar exp(const Scalar& x);
Scalar log(const Scalar& x);
Scalar sqrt(const Scalar& x);

// Reductions over `axes` (none given: all).
Tensor sum(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor prod(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor mean(const In& x, Axes axes = {}, Keep keep = Keep::no);
/// Population variance.
Tensor var(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor amax(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor amin(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor any(const In& x, Axes axes = {}, Keep keep = Keep::no);
/// Index (i64) of the largest element along `axis`; the first of equals, NaN counts as largest.
Tensor argmax(const In& x, int axis, Keep keep = Keep::no);
Tensor argmin(const In& x, int axis, Keep keep = Keep::no);
Tensor logsumexp(const In& x, int axis, Keep keep = Keep::no);

/// `all` is the slice token of x(all, 0) and the reduction all(x).
struct All {
  Tensor operator()(const In& x, Axes axes = {}, Keep keep = Keep::no) const;
};
inline constexpr All all{};

// Views: no data move where strides allow.
Tensor reshape(const In& x, const Shape& shape);  // one extent may be -1
Tensor permute(const In& x, Axes order);
Tensor transpose(const In& x, int a, int b);
Tensor expand(const In& x, const Shape& shape);
Tensor unsqueeze(const In& x, int axis);
Tensor squeeze(const In& x, int axis);
Tensor flatten(const In& x, int first = 0, int last = -1);
Tensor index(const In& x, std::span<const Index> positions);
/// `base` with the part at `positions` replaced by `value` (broadcast to that part).
Tensor update(const In& base, std::span<const Index> positions, const In& value);

// Joins and parts.
Tensor concat(std::span<const Tensor> parts, int axis, Location where = std::source_location::current());
Tensor concat(std::initializer_list<Tensor> parts, int axis, Location where = std::source_location::current());
Tensor stack(std::span<const Tensor> parts, int axis, Location where = std::source_location::current());
Tensor stack(std::initializer_list<Tensor> parts, int axis, Location where = std::source_location::current());
std::vector<Tensor> split(const In& x, int parts, int axis);
template <std::size_t N>
std::array<Tensor, N> split(const In& x, int axis) {
  std::vector<Tensor> parts = split(x, static_cast<int>(N), axis);
  std::array<Tensor, N> out;
  for (std::size_t i = 0; i < N; ++i) out[i] = parts[i];
  return out;
}
/// Padding per axis {low, high}.
Tensor pad(const In& x, std::initializer_list<std::pair<int, int>> widths, double value = 0);
Tensor pad(const In& x, std::span<const std::pair<int, int>> widths, double value = 0);
Tensor roll(const In& x, std::int64_t shift, int axis);

// Products, gathers, layers.
/// Matrix product; batch axes broadcast; rank-1 operands are vectors, as in NumPy.
Tensor matmul(const In& a, const In& b);
/// The slices of `x` along `axis` at `indices` (i32 or i64, any shape). Out of range: IndexError when it runs.
Tensor take(const In& x, const In& indices, int axis = 0);
/// Rows of `table` [n, d] at `indices`.
Tensor embedding(const In& indices, const In& table);
Tensor one_hot(const In& indices, Dim classes, DType dtype = DType::f32);
Tensor softmax(const In& x, int axis);
Tensor log_softmax(const In& x, int axis);
struct LayerNormOptions {
  double eps = 1e-5;
};
/// Normalises over the last axes, whose extents are `shape`, then scales and shifts by `weight` and `bias` of that
/// shape.
Tensor layer_norm(const In& x, const Shape& shape, const In& weight, const In& bias, LayerNormOptions options = {});
/// What becomes of the losses of single rows.
enum class LossReduction : std::uint8_t { mean, sum, none };
struct CrossEntropyOptions {
  std::optional<Tensor> weight = {};  // [c]: of each class; the mean is divided by the sum of the targets' weights
  std::int64_t ignore_index = -100;   // rows with this target do not count
  double label_smoothing = 0;         // in [0, 1]: so much of the target is spread over all classes
  LossReduction reduction = LossReduction::mean;  // of no row that counts: NaN
};
/// -log softmax(logits)[target] of each row; logits [n, c], target [n] (i32 or i64). A target that is neither a class
/// nor ignored: IndexError when it runs.
Tensor cross_entropy(const In& logits, const In& target, CrossEntropyOptions options = {});
Tensor mse_loss(const In& prediction, const In& target);
struct Conv2dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};
/// x [n, c, h, w], weight [o, c, kh, kw] to [n, o, h', w'].
Tensor conv2d(const In& x, const In& weight, Conv2dOptions options = {});
Tensor max_pool2d(const In& x, std::int64_t size, std::int64_t stride = 0);  // stride 0: the size
Tensor avg_pool2d(const In& x, std::int64_t size, std::int64_t stride = 0);
/// Which keys a query sees in causal attention. `true` is for as many queries as keys: query i sees keys up to i.
/// Otherwise say how they are aligned: from_start, also up to key i, or to_end, so that the last query sees all keys,
/// as with a cache of keys.
class Causal {
 public:
  enum Alignment : std::uint8_t { no, equal_lengths, from_start, to_end };
  constexpr Causal(Alignment alignment) : alignment_(alignment) {}
  constexpr Causal(bool is_causal) : alignment_(is_causal ? equal_lengths : no) {}
  constexpr Alignment alignment() const { return alignment_; }

 private:
  Alignment alignment_;
};
struct AttentionOptions {
  Causal causal = false;
  std::optional<Tensor> mask =
      {};  // broadcasts to [batch..., l, s]. bool: true is seen. Of q's dtype: added to the scores
};
/// softmax(q k^T / sqrt(d)) v; q [batch..., l, d], k [batch..., s, d], v [batch..., s, f]. A query that sees no key
/// gets zeros.
Tensor scaled_dot_product_attention(const In& q, const In& k, const In& v, AttentionOptions options = {});
Tensor cast(const In& x, DType dtype);

// Tensors from nothing.
Tensor zeros(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());
Tensor ones(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());
Tensor full(const Shape& shape, const Scalar& value, TensorOptions options = {},
            Location where = std::source_location::current());
Tensor zeros_like(const In& x);
Tensor ones_like(const In& x);
/// start, start + step, ... below stop (above it where step is negative). All three may be symbolic extents.
Tensor arange(Dim start, Dim stop, Dim step = 1, TensorOptions options = {.dtype = DType::i64},
              Location where = std::source_location::current());
Tensor arange(Dim count, TensorOptions options = {.dtype = DType::i64},
              Location where = std::source_location::current());
Tensor linspace(double start, double stop, Dim count, TensorOptions options = {},
                Location where = std::source_location::current());
Tensor eye(Dim n, TensorOptions options = {}, Location where = std::source_location::current());

/// Source of random numbers: a key and a counter, each a Variable, so that compiled functions advance it too.
struct Generator {
  explicit Generator(std::int64_t seed);
  Variable key, counter;
  /// The generator of this thread, which compiled functions that it calls use, too, whoever compiled them. Until
  /// manual_seed the first thread that draws has seed 0, and each further one another.
  static Generator& current();
};
void manual_seed(std::int64_t seed);
/// Uniform in [0, 1).
Tensor rand(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());
/// Standard normal.
Tensor randn(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());

/// Runs whatever these values need.
void eval(const In& x);
void eval(std::initializer_list<std::reference_wrapper<const Tensor>> values,
          Location where = std::source_location::current());
void eval(std::span<const Tensor> values, Location where = std::source_location::current());

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
Tensor to_device(const In& x, Device device);
/// Where tensors are made from now on, in all threads, unless they name a device. Throws DeviceError if it cannot be
/// used.
void set_default_device(Device device, Location where = std::source_location::current());
template <class Self>
Tensor TensorMethods<Self>::to(Device device, Location where) const {
  return to_device(In(static_cast<const Self&>(*this), where), device);
}
template <class Self>
Tensor TensorMethods<Self>::operator()(const Index& i0, const Index& i1, const Index& i2, const Index& i3,
                                       const Index& i4, const Index& i5, const Index& i6, const Index& i7) const {
  return index(In(static_cast<const Self&>(*this), i0.where), IndexList{&i0, &i1, &i2, &i3, &i4, &i5, &i6, &i7}.list);
}

SINTER_NAMESPACE_END
