// The rule of 21 points, its error, and the loop over intervals.
#pragma once

#include <sinter/solvers/quad.hpp>

#include <sinter/autodiff/vmap.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/control/control.hpp>
#include <sinter/solvers/common.hpp>

#include <cmath>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace solvers::quad_detail {

using namespace detail;

// Positive nodes in descending order, and 0; weights of Kronrod's rule of 21 points, and of Gauss's of 10, which has
// every second node.
inline constexpr double nodes[] = {0.995657163025808080735527280689003,
                                   0.973906528517171720077964012084452,
                                   0.930157491355708226001207180059508,
                                   0.865063366688984510732096688423493,
                                   0.780817726586416897063717578345042,
                                   0.679409568299024406234327365114874,
                                   0.562757134668604683339000099272694,
                                   0.433395394129247190799265943165784,
                                   0.294392862701460198131126603103866,
                                   0.148874338981631210884826001129720,
                                   0.0};
inline constexpr double kronrod_weights[] = {
    0.011694638867371874278064396062192, 0.032558162307964727478818972459390, 0.054755896574351996031381300244580,
    0.075039674810919952767043140916190, 0.093125454583697605535065465083366, 0.109387158802297641899210590325805,
    0.123491976262065851077958109585166, 0.134709217311473325928054001771707, 0.142775938577060080797094273138717,
    0.147739104901338491374841515972068, 0.149445554002916905664936468389821};
inline constexpr double gauss_weights[] = {0.066671344308688137593568809893332, 0.149451349150580593145863396957670,
                                           0.219086362515982043995534934228163, 0.269266719309996355091226921569469,
                                           0.295524224714752870173815619188769};

/// A list for all points, from that of the first half and the middle.
template <class Half>
Tensor of_points(const Tensor& like, const Half& half) {
  std::vector<double> all_of_them;
  for (int i = 0; i < points; ++i) all_of_them.push_back(half(i <= 10 ? i : 20 - i, i <= 10 ? -1 : 1));
  return cast(copy_of(all_of_them), like.dtype()).to(like.device());
}
inline Tensor node_list(const Tensor& like) {
  return of_points(like, [](int i, int sign) { return sign * nodes[i]; });
}
inline Tensor kronrod_list(const Tensor& like) {
  return of_points(like, [](int i, int) { return kronrod_weights[i]; });
}
inline Tensor gauss_list(const Tensor& like) {
  return of_points(like, [](int i, int) { return i % 2 == 1 ? gauss_weights[i / 2] : 0.; });
}

enum class Range : std::uint8_t { finite, to_infinity, from_infinity, infinite };
struct Integrand {
  Function f;
  Range range{};
  double rtol = 0, atol = 0;
  std::int64_t max_intervals = 0;
  Location where{};
};
struct QuadArguments {
  Tensor a, b;
  Tensors captured;
};

/// A factor for each point, broadcast against what f gives for it.
inline Tensor times_each(const Tensor& values, const Tensor& factors) {
  std::vector<Dim> extents{factors.size(0)};
  for (int i = 1; i < values.rank(); ++i) extents.emplace_back(1);
  return values * reshape(factors, Shape(extents));
}
/// The integrand over u in [0, 1], to which the range is mapped.
inline Tensor over_unit(const Integrand& q, const QuadArguments& args, const Tensor& u) {
  switch (q.range) {
    case Range::finite:
      return times_each(q.f(args.a + (args.b - args.a) * u, args.captured), expand(args.b - args.a, u.shape()));
    case Range::to_infinity: return times_each(q.f(args.a + u / (1 - u), args.captured), 1 / square(1 - u));
    case Range::from_infinity: return times_each(q.f(args.b - u / (1 - u), args.captured), 1 / square(1 - u));
    case Range::infinite: {
      const Tensor v = 2 * u - 1, rest = (1 - v) * (1 + v);
      return times_each(q.f(v / rest, args.captured), 2 * (1 + v * v) / square(rest));
    }
  }
  return {};
}

struct Panel {
  Tensor value, error;
};
/// The rule on [left, left + width], with QUADPACK's estimate of its error.
inline Panel panel_of(const Integrand& q, const QuadArguments& args, const Tensor& left, const Tensor& width) {
  const Tensor g = over_unit(q, args, left + width * (0.5 * (node_list(args.a) + 1)));
  const Tensor kronrod = kronrod_list(args.a), half = 0.5 * width;
  const Tensor sum_of_all = sum(times_each(g, kronrod), 0), by_gauss = sum(times_each(g, gauss_list(args.a)), 0);
  const Tensor spread = half * sum(times_each(abs(g - 0.5 * unsqueeze(sum_of_all, 0)), kronrod), 0);
  const Tensor difference = abs(half * (sum_of_all - by_gauss));
  const Tensor share = minimum(1, pow(200 * safe_quotient(difference, spread), 1.5));
  return {half * sum_of_all, largest_of(where(spread == 0, difference, spread * share))};
}

/// Intervals of [0, 1]; those that are not used have width 0.
struct QuadState {
  Tensor left, width, value, error, iterations;
};
inline Tensor total_of(const QuadState& s) { return sum(s.value, 0); }
inline Tensor tolerance_of(const Integrand& q, const QuadState& s) {
  return maximum(largest_of(total_of(s)) * q.rtol, q.atol);
}
inline QuadState halved(const Integrand& q, const QuadArguments& args, const QuadState& s) {
  const Tensor worst = argmax(s.error), half = 0.5 * s.width(worst), left = s.left(worst), free = s.iterations + 1;
  const Panel first = panel_of(q, args, left, half), second = panel_of(q, args, left + half, half);
  QuadState next = s;
  next.width.at(worst) = half;
  next.value.at(worst) = first.value;
  next.error.at(worst) = first.error;
  next.left.at(free) = left + half;
  next.width.at(free) = half;
  next.value.at(free) = second.value;
  next.error.at(free) = second.error;
  next.iterations = free;
  return next;
}
/// What the derivative needs besides the result.
struct QuadResult {
  Quadrature found;
  Tensor left, width;
};
inline QuadResult run(const Integrand& q, const QuadArguments& args) {
  const TensorOptions like{.dtype = args.a.dtype(), .device = args.a.device()};
  const Panel whole = panel_of(q, args, zeros({}, like), ones({}, like));
  std::vector<Dim> extents{Dim(q.max_intervals)};
  const Shape shape = whole.value.shape();
  for (Dim extent : shape.dims()) extents.push_back(extent);
  const Tensor none = zeros({q.max_intervals}, like);
  QuadState start{none, none, zeros(Shape(extents), like), none, zero_count(args.a)};
  start.width.at(0) = 1;
  start.value.at(0) = whole.value;
  start.error.at(0) = whole.error;
  auto goes_on = [&](const QuadState& s) {
    return logical_and(sum(s.error) > tolerance_of(q, s), s.iterations + 1 < q.max_intervals);
  };
  const QuadState end =
      jit::while_loop(goes_on, [&](const QuadState& s) { return halved(q, args, s); }, start, q.where);
  const Tensor error = sum(end.error);
  return {{total_of(end), error, error <= tolerance_of(q, end), end.iterations}, end.left, end.width};
}

/// The rule on given intervals, as a function of bounds and captured values.
inline Tensor value_on(const Integrand& q, const QuadArguments& args, const Tensor& left, const Tensor& width) {
  // Intervals that are not used compute the first one again, where f is known to be finite, and count nothing.
  const Tensor is_used = width > 0, from = where(is_used, left, left(0)), size = where(is_used, width, width(0));
  const Tensor steps = 0.5 * (node_list(args.a) + 1), kronrod = kronrod_list(args.a);
  const Tensor sums = jit::vmap([&](const Tensor& l, const Tensor& w) {
    return sum(times_each(over_unit(q, args, l + w * steps), kronrod), 0);
  })(from, size);
  return sum(times_each(sums, 0.5 * width), 0);
}

inline Quadrature solve_with_rule(const Integrand& q, const QuadArguments& args) {
  auto backward = [q](const QuadArguments& given, const QuadResult& result, const QuadResult& gradient) {
    auto value = [&](const QuadArguments& x) { return value_on(q, x, result.left, result.width); };
    return jit::vjp(value, given).second(gradient.found.value);
  };
  return jit::custom_vjp([q](const QuadArguments& given) { return run(q, given); }, backward, q.where)(args).found;
}

// ---- what is given

inline bool is_infinite(const In& x) {
  return !x.leaf.value && x.leaf.kind == DTypeClass::floating && is_infinite_number(x.leaf.number);
}
/// A bound as a scalar of the common dtype; infinite ones are 0 and not read.
inline Tensor bound_of(const In& x, DType dtype, Device device) {
  if (is_infinite(x)) return zeros({}, {.dtype = dtype, .device = device}, x.where);
  return scalar_of("quad", "a bound", x, dtype, device);
}
inline DType common_dtype(const In& a, const In& b, const QuadOptions& options) {
  if (a.leaf.value && b.leaf.value)
    return promote(Tensor(a.tensor()).dtype(), Tensor(b.tensor()).dtype(), "quad", a.where);
  if (a.leaf.value) return Tensor(a.tensor()).dtype();
  return b.leaf.value ? Tensor(b.tensor()).dtype() : options.dtype;
}
inline Device common_device(const In& a, const In& b) {
  if (a.leaf.value) return Tensor(a.tensor()).device();
  return b.leaf.value ? Tensor(b.tensor()).device() : default_device();
}

SINTER_DECL Tensor example_points(const In& a, const In& b, const QuadOptions& options) {
  const DType dtype = common_dtype(a, b, options);
  if (dtype != DType::f32 && dtype != DType::f64)
    throw DTypeError("quad", "bounds are " + std::string(name(dtype)) + ", they must be f32 or f64", a.where,
                     is_complex(dtype) ? "integrate along a real parameter" : "convert them: a.to(DType::f64)");
  return zeros({points}, {.dtype = dtype, .device = common_device(a, b)}, a.where);
}

SINTER_DECL Quadrature quad(const jit::Closure& f, const In& a, const In& b, const QuadOptions& options) {
  const DType dtype = common_dtype(a, b, options);
  const Type& made = f.result_type();
  if (made.dtype != dtype || made.shape.rank() < 1 || !(made.shape[0] == Dim(points)))
    throw ShapeError("quad", "the function gives " + made.text() + " for " + std::string(name(dtype)) + "[21]", a.where,
                     "it must give a number, or a tensor, for each point: its shape begins with 21");
  if (options.max_intervals < 1)
    throw UserError("quad", "max_intervals is " + std::to_string(options.max_intervals), a.where, "1 at least");
  const bool is_open_below = is_infinite(a), is_open_above = is_infinite(b);
  if ((is_open_below && a.leaf.number > 0) || (is_open_above && b.leaf.number < 0))
    throw UserError("quad", "the lower bound is infinity, or the upper one minus infinity", a.where,
                    "exchange the bounds and the sign");
  const Range range = is_open_below   ? is_open_above ? Range::infinite : Range::from_infinity
                      : is_open_above ? Range::to_infinity
                                      : Range::finite;
  const double tolerance = dtype == DType::f64 ? 1.5e-8 : 1e-5;
  const Integrand q{
      f, range, options.rtol.value_or(tolerance), options.atol.value_or(tolerance), options.max_intervals, a.where};
  const Device device = common_device(a, b);
  return solve_with_rule(q, {bound_of(a, dtype, device), bound_of(b, dtype, device), f.captured()});
}

}  // namespace solvers::quad_detail
SINTER_NAMESPACE_END
