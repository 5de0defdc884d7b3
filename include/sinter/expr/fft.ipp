// From users' operands to transforms of pairs: lengths by slices and zeros, axes to their places, scales by norm.
#pragma once

#include <sinter/expr/fft.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/fft.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace fft {
namespace detail {

using expr_detail::Term;
enum class Direction : bool { forward, inverse };

inline void require_transformable(const Term& x, std::string_view op) {
  const DType dtype = x.dtype();
  if (dtype == DType::f32 || dtype == DType::f64 || is_complex(dtype)) return;
  throw DTypeError(op, "x is " + std::string(name(dtype)) + ", it must be f32, f64, c64 or c128", x.where,
                   "cast it: x.to(DType::f32)");
}
/// Spectra are complex: their pairs take one axis of those that a tensor may have.
inline void require_room_for_pairs(const Term& x, std::string_view op) {
  if (is_complex(x.dtype()) || x.rank() < max_rank) return;
  throw ShapeError(
      op, "x is " + x.shape().text() + ", and complex tensors have at most " + std::to_string(max_rank - 1) + " axes",
      x.where, "join axes that are not transformed: reshape(x, shape)");
}
inline Term real_numbers(const In& x, std::string_view op, std::string_view instead) {
  const Term t = expr_detail::floating(x);
  require_transformable(t, op);
  if (is_complex(t.dtype()))
    throw DTypeError(op, "x is " + std::string(name(t.dtype())) + ", it must be real", x.where,
                     "use " + std::string(instead) + ", or real(x)");
  require_room_for_pairs(t, op);
  return t;
}
/// As pairs: the axes keep their places from the front.
inline Term pairs_of(const In& x, std::string_view op) {
  const Term t = expr_detail::floating(x);
  require_transformable(t, op);
  require_room_for_pairs(t, op);
  if (is_complex(t.dtype())) return {view_as_real(t), x.where};
  return {stack({t.value, zeros_like(t)}, t.rank(), x.where), x.where};
}
inline Tensor from_pairs(const Term& pairs) { return view_as_complex(pairs); }
inline int axis_of(int axis, int rank, std::string_view op, Location where) {
  if (rank == 0) throw ShapeError(op, "x is (), at least one axis is required", where, "give it one: reshape(x, {1})");
  return normalise_axis(axis, rank, op, where);
}
inline void require_length(Dim n, std::string_view op, Location where) {
  if (n.is_static() && n.value() < 1)
    throw ShapeError(op, "a transform of " + n.text() + " numbers is asked for", where,
                     "n, and each axis that is transformed, must be at least 1");
}
/// The axis cut or padded with zeros at its end.
inline Term resized(const Term& x, int axis, Dim n) {
  const Shape shape = x.shape();
  const Dim extent = shape[axis];
  if (identical(extent, n)) return x;
  if (expr_detail::is_at_most(n, extent)) return {expr_detail::part_of(x, axis, 0, n, x.where), x.where};
  Shape low, high;
  for (int i = 0; i < shape.rank(); ++i) {
    low.push_back(0);
    high.push_back(i == axis ? n - extent : Dim(0));
  }
  Attrs attrs;
  attrs.set(ops::Pad::low, low);
  attrs.set(ops::Pad::high, high);
  return {expr_detail::record<ops::Pad>({Leaf(x.value.impl())}, std::move(attrs), x.where), x.where};
}

inline FourierScale scale_of(Norm norm, Direction direction) {
  if (norm == Norm::ortho) return FourierScale::root;
  const bool is_scaled = (norm == Norm::forward) == (direction == Direction::forward);
  return is_scaled ? FourierScale::full : FourierScale::none;
}
inline FourierSign sign_of(Direction direction) {
  return direction == Direction::forward ? FourierSign::minus : FourierSign::plus;
}
inline Attrs attrs_of(FourierSign sign, FourierScale scale) {
  Attrs attrs;
  attrs.set(ops_detail::fourier_sign, sign);
  attrs.set(ops_detail::fourier_scale, scale);
  return attrs;
}
inline Term complex_transform(const Term& pairs, const IntVector& axes, Norm norm, Direction direction) {
  if (axes.empty()) return pairs;
  Attrs attrs = attrs_of(sign_of(direction), scale_of(norm, direction));
  attrs.axes = axes;
  return {expr_detail::record<ops::Fourier>({Leaf(pairs.value.impl())}, std::move(attrs), pairs.where), pairs.where};
}
/// An axis of real numbers to pairs of a half spectrum.
inline Term real_transform(const Term& x, int axis, FourierSign sign, FourierScale scale) {
  const int last = x.rank() - 1;
  const Term rows = axis == last ? x : Term(movedim(x, axis, last), x.where);
  const Term pairs(expr_detail::record<ops::FourierOfReal>({Leaf(rows.value.impl())}, attrs_of(sign, scale), x.where),
                   x.where);
  return axis == last ? pairs : Term(movedim(pairs, last, axis), x.where);
}
/// Pairs of a half spectrum of n / 2 + 1 numbers to n real numbers.
inline Term transform_to_real(const Term& pairs, int axis, Dim n, FourierSign sign, FourierScale scale) {
  const int last = pairs.rank() - 2;
  const Term rows = axis == last ? pairs : Term(movedim(pairs, axis, last), pairs.where);
  Attrs attrs = attrs_of(sign, scale);
  attrs.set(ops_detail::is_half_doubled, true);
  attrs.set(ops::FourierToReal::length, n);
  const Term x(expr_detail::record<ops::FourierToReal>({Leaf(rows.value.impl())}, std::move(attrs), pairs.where),
               pairs.where);
  return axis == last ? x : Term(movedim(x, last, axis), pairs.where);
}

// ---- along one axis

inline Tensor along_one(const In& x, const Options& options, Direction direction, std::string_view op) {
  const Term pairs = pairs_of(x, op);
  const int axis = axis_of(options.dim, pairs.rank() - 1, op, x.where);
  const Dim n = options.n.value_or(pairs.shape()[axis]);
  require_length(n, op, x.where);
  return from_pairs(complex_transform(resized(pairs, axis, n), {axis}, options.norm, direction));
}
inline Tensor real_along_one(const In& x, const Options& options, Direction direction, std::string_view op) {
  const Term t = real_numbers(x, op, direction == Direction::forward ? "fft::fft" : "fft::ifft");
  const int axis = axis_of(options.dim, t.rank(), op, x.where);
  const Dim n = options.n.value_or(t.shape()[axis]);
  require_length(n, op, x.where);
  return from_pairs(real_transform(resized(t, axis, n), axis, sign_of(direction), scale_of(options.norm, direction)));
}
inline Term half_to_real(const Term& pairs, int axis, std::optional<Dim> wanted, Norm norm, Direction direction,
                         std::string_view op) {
  const Dim n = wanted.value_or((pairs.shape()[axis] - Dim(1)) * Dim(2));
  require_length(n, op, pairs.where);
  return transform_to_real(resized(pairs, axis, n / Dim(2) + Dim(1)), axis, n, sign_of(direction),
                           scale_of(norm, direction));
}
inline Tensor to_real_along_one(const In& x, const Options& options, Direction direction, std::string_view op) {
  const Term pairs = pairs_of(x, op);
  const int axis = axis_of(options.dim, pairs.rank() - 1, op, x.where);
  return half_to_real(pairs, axis, options.n, options.norm, direction, op);
}

// ---- along several axes

/// Axes in the order given, and the lengths that are asked for.
struct Lengths {
  IntVector axes;
  std::vector<std::optional<Dim>> n;
};
inline Lengths lengths_of(const ManyOptions& options, int rank, int count, std::string_view op, Location where) {
  Lengths out;
  const int given = options.s.rank();
  if (!options.dim.empty()) {
    for (const std::int64_t axis : options.dim.list())
      out.axes.push_back(axis_of(static_cast<int>(axis), rank, op, where));
  } else {
    const int wanted = count > 0 ? count : given > 0 ? given : rank;
    if (wanted > rank || (rank == 0 && count != 0))
      throw ShapeError(op, "x has " + std::to_string(rank) + " axes, " + std::to_string(wanted) + " are transformed",
                       where);
    for (int i = rank - wanted; i < rank; ++i) out.axes.push_back(i);
  }
  if (given > 0 && given != static_cast<int>(out.axes.size()))
    throw ShapeError(op, std::to_string(given) + " lengths for " + std::to_string(out.axes.size()) + " axes", where,
                     "give one length for each axis of dim");
  IntVector sorted = out.axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw IndexError(op, "an axis is named twice", where);
  for (int i = 0; i < static_cast<int>(out.axes.size()); ++i) {
    const bool is_given = given > 0 && !(options.s[i].is_static() && options.s[i].value() == -1);
    out.n.push_back(is_given ? std::optional(options.s[i]) : std::nullopt);
  }
  return out;
}
inline Term all_resized(Term x, const Lengths& lengths, std::size_t count, std::string_view op) {
  for (std::size_t i = 0; i < count; ++i) {
    const int axis = static_cast<int>(lengths.axes[i]);
    const Dim n = lengths.n[i].value_or(x.shape()[axis]);
    require_length(n, op, x.where);
    x = resized(x, axis, n);
  }
  return x;
}
inline IntVector without_last(IntVector axes) {
  axes.pop_back();
  return axes;
}
inline void require_axes(const Lengths& lengths, std::string_view op, Location where) {
  if (lengths.axes.empty())
    throw ShapeError(op, "no axis is transformed", where, "x needs at least one axis: reshape(x, {1})");
}

inline Tensor along_many(const In& x, const ManyOptions& options, int count, Direction direction, std::string_view op) {
  const Term pairs = pairs_of(x, op);
  const Lengths lengths = lengths_of(options, pairs.rank() - 1, count, op, x.where);
  return from_pairs(
      complex_transform(all_resized(pairs, lengths, lengths.axes.size(), op), lengths.axes, options.norm, direction));
}
inline Tensor real_along_many(const In& x, const ManyOptions& options, int count, Direction direction,
                              std::string_view op) {
  const Term t = real_numbers(x, op, direction == Direction::forward ? "fft::fftn" : "fft::ifftn");
  const Lengths lengths = lengths_of(options, t.rank(), count, op, x.where);
  require_axes(lengths, op, x.where);
  const Term half =
      real_transform(all_resized(t, lengths, lengths.axes.size(), op), static_cast<int>(lengths.axes.back()),
                     sign_of(direction), scale_of(options.norm, direction));
  return from_pairs(complex_transform(half, without_last(lengths.axes), options.norm, direction));
}
inline Tensor to_real_along_many(const In& x, const ManyOptions& options, int count, Direction direction,
                                 std::string_view op) {
  const Term pairs = pairs_of(x, op);
  const Lengths lengths = lengths_of(options, pairs.rank() - 1, count, op, x.where);
  require_axes(lengths, op, x.where);
  const Term rest = complex_transform(all_resized(pairs, lengths, lengths.axes.size() - 1, op),
                                      without_last(lengths.axes), options.norm, direction);
  return half_to_real(rest, static_cast<int>(lengths.axes.back()), lengths.n.back(), options.norm, direction, op);
}

/// Along each axis the elements from the cut on, and then those before it.
template <class Cut>
Tensor turned(const In& x, Axes dim, std::string_view op, const Cut& cut) {
  const Term given(x);
  const int rank = given.rank();
  const bool has_parts = is_complex(given.dtype());
  Term t = has_parts ? Term(view_as_real(given), x.where) : given;
  for (const std::int64_t axis : expr_detail::reduced_axes(dim, rank, op, x.where)) {
    const int at = static_cast<int>(axis);
    const Dim extent = t.shape()[at], middle = cut(extent);
    if (extent.is_static() && (extent.value() < 2)) continue;
    t = {concat({expr_detail::part_of(t, at, middle, extent, x.where), expr_detail::part_of(t, at, 0, middle, x.where)},
                at, x.where),
         x.where};
  }
  return has_parts ? from_pairs(t) : t.value;
}
/// 0, 1, ... `count` of them, from the place `negative` on less n; divided by n d.
inline Tensor frequencies(std::int64_t n, std::int64_t count, std::int64_t negative, double d, TensorOptions options,
                          std::string_view op, Location where) {
  constexpr std::int64_t most = std::int64_t{1} << 32;
  if (n < 1 || n > most)
    throw UserError(op, "n is " + std::to_string(n) + ", it must be from 1 to " + std::to_string(most), where);
  const DType dtype = options.dtype_or(DType::f32);
  if (dtype != DType::f32 && dtype != DType::f64)
    throw DTypeError(op, "the dtype is " + std::string(name(dtype)) + ", it must be f32 or f64", where);
  std::vector<double> values;
  for (std::int64_t k = 0; k < count; ++k)
    values.push_back(static_cast<double>(k < negative ? k : k - n) / (static_cast<double>(n) * d));
  const Tensor on_host = cast(In(copy_of(values), where), dtype);
  return to_device(In(on_host, where), options.device);
}

}  // namespace detail

using detail::Direction;

SINTER_DECL Tensor fft(const In& x, Options options) {
  return detail::along_one(x, options, Direction::forward, "fft::fft");
}
SINTER_DECL Tensor ifft(const In& x, Options options) {
  return detail::along_one(x, options, Direction::inverse, "fft::ifft");
}
SINTER_DECL Tensor fft2(const In& x, ManyOptions options) {
  return detail::along_many(x, options, 2, Direction::forward, "fft::fft2");
}
SINTER_DECL Tensor ifft2(const In& x, ManyOptions options) {
  return detail::along_many(x, options, 2, Direction::inverse, "fft::ifft2");
}
SINTER_DECL Tensor fftn(const In& x, ManyOptions options) {
  return detail::along_many(x, options, 0, Direction::forward, "fft::fftn");
}
SINTER_DECL Tensor ifftn(const In& x, ManyOptions options) {
  return detail::along_many(x, options, 0, Direction::inverse, "fft::ifftn");
}
SINTER_DECL Tensor rfft(const In& x, Options options) {
  return detail::real_along_one(x, options, Direction::forward, "fft::rfft");
}
SINTER_DECL Tensor irfft(const In& x, Options options) {
  return detail::to_real_along_one(x, options, Direction::inverse, "fft::irfft");
}
SINTER_DECL Tensor rfft2(const In& x, ManyOptions options) {
  return detail::real_along_many(x, options, 2, Direction::forward, "fft::rfft2");
}
SINTER_DECL Tensor irfft2(const In& x, ManyOptions options) {
  return detail::to_real_along_many(x, options, 2, Direction::inverse, "fft::irfft2");
}
SINTER_DECL Tensor rfftn(const In& x, ManyOptions options) {
  return detail::real_along_many(x, options, 0, Direction::forward, "fft::rfftn");
}
SINTER_DECL Tensor irfftn(const In& x, ManyOptions options) {
  return detail::to_real_along_many(x, options, 0, Direction::inverse, "fft::irfftn");
}
SINTER_DECL Tensor hfft(const In& x, Options options) {
  return detail::to_real_along_one(x, options, Direction::forward, "fft::hfft");
}
SINTER_DECL Tensor ihfft(const In& x, Options options) {
  return detail::real_along_one(x, options, Direction::inverse, "fft::ihfft");
}
SINTER_DECL Tensor hfft2(const In& x, ManyOptions options) {
  return detail::to_real_along_many(x, options, 2, Direction::forward, "fft::hfft2");
}
SINTER_DECL Tensor ihfft2(const In& x, ManyOptions options) {
  return detail::real_along_many(x, options, 2, Direction::inverse, "fft::ihfft2");
}
SINTER_DECL Tensor hfftn(const In& x, ManyOptions options) {
  return detail::to_real_along_many(x, options, 0, Direction::forward, "fft::hfftn");
}
SINTER_DECL Tensor ihfftn(const In& x, ManyOptions options) {
  return detail::real_along_many(x, options, 0, Direction::inverse, "fft::ihfftn");
}

SINTER_DECL Tensor fftshift(const In& x, Axes dim) {
  return detail::turned(x, dim, "fft::fftshift", [](Dim n) { return n - n / Dim(2); });
}
SINTER_DECL Tensor ifftshift(const In& x, Axes dim) {
  return detail::turned(x, dim, "fft::ifftshift", [](Dim n) { return n / Dim(2); });
}
SINTER_DECL Tensor fftfreq(Dim n, double d, TensorOptions options, Location where) {
  const auto count = static_cast<std::int64_t>(n);
  return detail::frequencies(count, count, (count + 1) / 2, d, options, "fft::fftfreq", where);
}
SINTER_DECL Tensor rfftfreq(Dim n, double d, TensorOptions options, Location where) {
  const auto count = static_cast<std::int64_t>(n);
  return detail::frequencies(count, count / 2 + 1, count, d, options, "fft::rfftfreq", where);
}

}  // namespace fft
SINTER_NAMESPACE_END
