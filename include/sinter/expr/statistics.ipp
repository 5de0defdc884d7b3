// Formulas of statistics, and comparisons that read values.
#pragma once

#include <sinter/expr/statistics.hpp>

#include <sinter/base/number_kind.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/elementwise.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>

#include <cmath>
#include <cstdio>
#include <ostream>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// The square root, with the derivative 0 at 0.
inline Term safe_sqrt(const Term& x) {
  const Term is_zero = x == 0.0;
  return where_of(is_zero, 0.0, apply<ops::Sqrt>(where_of(is_zero, 1.0, x)));
}
inline Term safe_power(const Term& x, double p) {
  const Term is_zero = x == 0.0;
  return where_of(is_zero, 0.0, apply<ops::Pow>(where_of(is_zero, 1.0, x), p));
}
inline void require_real(const Term& x, std::string_view op) {
  if (!is_complex(x.dtype())) return;
  throw DTypeError(op, "x is " + x.value.impl()->type.text() + ", a real tensor is required", x.where,
                   "apply it to real(z) and imag(z), or to abs(z)");
}
inline Term norm_of(const Term& x, const Axes& axes, double p, Keep keep) {
  if (is_complex(x.dtype())) return norm_of(absolute(x), axes, p, keep);
  if (const Term wide = wide_for_squares(x); wide.dtype() != x.dtype())
    return {cast(norm_of(wide, axes, p, keep), x.dtype()), x.where};
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (p == infinity) return {amax(absolute(x), axes, keep), x.where};
  if (p == -infinity) return {amin(absolute(x), axes, keep), x.where};
  if (p == 0) return sum_of(where_of(x != 0.0, Term(ones_like(x), x.where), 0.0), axes, keep);
  if (p == 1) return sum_of(absolute(x), axes, keep);
  if (p == 2) return safe_sqrt(sum_of(squared(x), axes, keep));
  return safe_power(sum_of(safe_power(absolute(x), p), axes, keep), 1 / p);
}

}  // namespace expr_detail

SINTER_DECL Tensor var(const In& x, Axes axes, VarOptions options) {
  using expr_detail::Term;
  const Term given(x);
  const Term t = is_differentiable(given.dtype()) ? given : Term(cast(given, DType::f64), x.where);
  Attrs attrs;
  attrs.axes = expr_detail::reduced_axes(axes, t.rank(), "var", x.where);
  attrs.keepdim = options.keep == Keep::yes;
  attrs.set(ops::Var::correction, options.correction);
  const Tensor result(record_op(op_info<ops::Var>, {expr_detail::leaf_of(t)}, std::move(attrs), x.where));
  return is_differentiable(given.dtype()) ? result : cast(In(result, x.where), DType::f32);
}
SINTER_DECL Tensor stddev(const In& x, Axes axes, VarOptions options) {
  const expr_detail::Term given(x), wide = expr_detail::wide_for_squares(given);
  if (wide.dtype() != given.dtype()) return cast(In(stddev(wide, axes, options), x.where), given.dtype());
  return expr_detail::safe_sqrt(expr_detail::Term(var(x, axes, options), x.where));
}

SINTER_DECL Tensor norm(const In& x, Axes axes, NormOptions options) {
  const expr_detail::Term t = expr_detail::floating(x);
  return expr_detail::norm_of(is_complex(t.dtype()) ? expr_detail::absolute(t) : t, axes, options.p, options.keep);
}

SINTER_DECL Tensor nansum(const In& x, Axes axes, Keep keep) {
  const expr_detail::Term t(x);
  expr_detail::require_real(t, "nansum");
  return is_floating(t.dtype()) ? sum(where_of(t != t, 0.0, t), axes, keep) : sum(t, axes, keep);
}
SINTER_DECL Tensor nanmean(const In& x, Axes axes, Keep keep) {
  const expr_detail::Term t(x);
  expr_detail::require_real(t, "nanmean");
  if (!is_floating(t.dtype())) return mean(t, axes, keep);
  if (const expr_detail::Term wide = expr_detail::wide_for_squares(t); wide.dtype() != t.dtype())
    return cast(In(nanmean(wide, axes, keep), x.where), t.dtype());
  const expr_detail::Term is_nan = t != t, zeros(zeros_like(t), x.where);
  return sum_of(where_of(is_nan, 0.0, t), axes, keep) / sum_of(where_of(is_nan, zeros, 1.0), axes, keep);
}
SINTER_DECL Tensor nanvar(const In& x, Axes axes, VarOptions options) {
  using expr_detail::Term;
  const Term t(x);
  expr_detail::require_real(t, "nanvar");
  if (!is_floating(t.dtype())) return var(x, axes, options);
  if (const Term wide = expr_detail::wide_for_squares(t); wide.dtype() != t.dtype())
    return cast(In(nanvar(wide, axes, options), x.where), t.dtype());
  const Term is_nan = t != t, is_number = where_of(is_nan, Term(zeros_like(t), x.where), 1.0);
  const Term centre = sum_of(where_of(is_nan, 0.0, t), axes, Keep::yes) / sum_of(is_number, axes, Keep::yes);
  const Term deviation = where_of(is_nan, 0.0, t - centre);
  const Term freedom = sum_of(is_number, axes, options.keep) - options.correction;
  return where_of(freedom <= 0.0, std::numeric_limits<double>::quiet_NaN(),
                  sum_of(squared(deviation), axes, options.keep) / freedom);
}
SINTER_DECL Tensor nanstddev(const In& x, Axes axes, VarOptions options) {
  const expr_detail::Term given(x), wide = expr_detail::wide_for_squares(given);
  if (wide.dtype() != given.dtype()) return cast(In(nanstddev(wide, axes, options), x.where), given.dtype());
  return expr_detail::safe_sqrt(expr_detail::Term(nanvar(x, axes, options), x.where));
}
namespace expr_detail {
/// What is infinite where all are NaN becomes NaN again.
inline Tensor extreme_of_numbers(const In& x, const Axes& axes, Keep keep, double worst) {
  const Term t(x);
  const bool is_max = worst < 0;
  const auto extreme = [&](const Term& of) {
    return Term(is_max ? amax(of, axes, keep) : amin(of, axes, keep), x.where);
  };
  if (!is_floating(t.dtype())) return extreme(t);
  const Term is_nan = t != t;
  const Term nothing(all(is_nan, axes, keep), x.where);
  return where_of(nothing, std::numeric_limits<double>::quiet_NaN(), extreme(where_of(is_nan, worst, t)));
}
}  // namespace expr_detail
SINTER_DECL Tensor nanmax(const In& x, Axes axes, Keep keep) {
  return expr_detail::extreme_of_numbers(x, axes, keep, -std::numeric_limits<double>::infinity());
}
SINTER_DECL Tensor nanmin(const In& x, Axes axes, Keep keep) {
  return expr_detail::extreme_of_numbers(x, axes, keep, std::numeric_limits<double>::infinity());
}

SINTER_DECL Tensor count_nonzero(const In& x, Axes axes, Keep keep) {
  // The 0 stays a number: as an i64 of rank 0 it would have no common dtype with a u64 of rank 0.
  const Leaf value(x.tensor()), zero = In(0, x.where).leaf;
  const Tensor counts(record_op(op_info<ops::Ne>, {value, zero}, {}, x.where));
  return sum(In(cast(In(counts, x.where), DType::i64), x.where), axes, keep);
}

/// The largest is a constant to derivatives, for it cancels.
SINTER_DECL Tensor logsumexp(const In& x, Axes axes, Keep keep) {
  using expr_detail::Term;
  const Term t = expr_detail::floating(x);
  if (axes.list().size() == 1)
    return expr_detail::along_axis<ops::Logsumexp>(t, static_cast<int>(axes.list()[0]), keep);
  const Shape shape = t.shape();
  bool is_empty = false;
  for (std::int64_t axis : expr_detail::reduced_axes(axes, shape.rank(), "logsumexp", x.where))
    is_empty |= ops_detail::is_shorter(shape[static_cast<int>(axis)], 1);
  if (is_empty)  // there is no largest element
    return expr_detail::apply<ops::Log>(sum_of(expr_detail::apply<ops::Exp>(t), axes, keep));
  const Term largest = expr_detail::apply<ops::StopGradient>(Term(amax(t, axes, Keep::yes), x.where));
  const Term shift = where_of(expr_detail::apply<ops::IsFinite>(largest), largest, 0.0);
  const Term total = sum_of(expr_detail::apply<ops::Exp>(t - shift), axes, Keep::yes);
  const Term result = expr_detail::apply<ops::Log>(total) + shift;
  return keep == Keep::yes ? Tensor(result) : sum(result, axes);
}

SINTER_DECL Tensor ptp(const In& x, Axes axes, Keep keep) {
  const expr_detail::Term t(x);
  if (is_complex(t.dtype())) expr_detail::refuse_order("ptp", x.where);
  return expr_detail::Term(amax(t, axes, keep), x.where) - expr_detail::Term(amin(t, axes, keep), x.where);
}

SINTER_DECL MinMax aminmax(const In& x, Axes axes, Keep keep) {
  const In given(Tensor(x.tensor()), x.where);
  if (is_complex(given)) expr_detail::refuse_order("aminmax", x.where);
  return {amin(given, axes, keep), amax(given, axes, keep)};
}
SINTER_DECL VarMean var_mean(const In& x, Axes axes, VarOptions options) {
  return {var(x, axes, options), mean(x, axes, options.keep)};
}
SINTER_DECL StdMean std_mean(const In& x, Axes axes, VarOptions options) {
  return {stddev(x, axes, options), mean(x, axes, options.keep)};
}
SINTER_DECL Tensor vector_distance(const In& a, const In& b, double p) {
  using expr_detail::floating;  // differences of bytes would wrap
  const expr_detail::Term x = floating(expr_detail::operand_beside(a, b)),
                          y = floating(expr_detail::operand_beside(b, a));
  return norm(x - y, {}, {.p = p});
}
SINTER_DECL Tensor pdist(const In& x, double p) {
  const expr_detail::Term t = expr_detail::floating(x);
  if (t.rank() != 2) throw ShapeError("pdist", "x is " + t.shape().text() + ", a matrix is required", x.where);
  const auto rows = static_cast<std::int64_t>(t.shape()[0]);  // of a symbolic extent: a guard
  const expr_detail::Term pairs(triu_indices(rows, rows, 1), x.where);
  const auto rows_at = [&](int which) {
    return expr_detail::Term(index_select(t, 0, In(select(pairs, 0, which), x.where)), x.where);
  };
  return norm(rows_at(0) - rows_at(1), 1, {.p = p});
}

SINTER_DECL Tensor average(const In& x, const In& weights, Axes axes, Keep keep) {
  using expr_detail::Term;
  const Term t = expr_detail::floating(x);
  Term w = expr_detail::floating(weights);
  if (w.rank() == 1 && t.rank() > 1 && axes.list().size() == 1) {
    const int axis = normalise_axis(static_cast<int>(axes.list()[0]), t.rank(), "average", x.where);
    Shape along;
    for (int i = axis; i < t.rank(); ++i) along.push_back(i == axis ? w.shape()[0] : Dim(1));
    w = Term(reshape(w, along), x.where);
  }
  broadcast(t.shape(), w.shape(), "average", x.where);
  const Term wide_t = expr_detail::wide_for_squares(t), wide_w = expr_detail::wide_for_squares(w);
  if (wide_t.dtype() != t.dtype() && wide_w.dtype() != w.dtype())
    return cast(In(average(wide_t, wide_w, axes, keep), x.where), t.dtype());
  const Term all_weights = w + Term(zeros_like(t), x.where);
  return sum_of(t * w, axes, keep) / sum_of(all_weights, axes, keep);
}

namespace expr_detail {
inline Term rows_of_variables(const In& x, std::string_view op) {
  const Term t = floating(x);
  if (t.rank() > 2)
    throw ShapeError(op, "x is " + t.shape().text(), x.where, "it must be (variables, observations), or one variable");
  return t.rank() == 2 ? t : Term(reshape(t, {1, -1}), x.where);
}
}  // namespace expr_detail
namespace expr_detail {
/// A weight for each observation, beside x.
inline Term observation_weights(const Term& x, const Tensor& given, std::string_view name) {
  if (given.rank() != 1 || !(given.shape()[0] == x.shape()[1]))
    throw ShapeError("cov", std::string(name) + " are " + given.shape().text() + ", x is " + x.shape().text(), x.where,
                     "one weight for each observation");
  return {cast(In(given, x.where), x.dtype()), x.where};
}
}  // namespace expr_detail
SINTER_DECL Tensor cov(const In& x, CovOptions options) {
  expr_detail::require_real(expr_detail::Term(x), "cov");
  using expr_detail::Term;
  const Term given(x), wide = expr_detail::wide_for_squares(given);
  if (wide.dtype() != given.dtype()) return cast(In(cov(wide, std::move(options)), x.where), given.dtype());
  const bool is_one = x.tensor()->type.shape.rank() < 2;
  const Term t = expr_detail::rows_of_variables(x, "cov");
  std::optional<Term> weights;
  if (options.fweights) {
    if (!is_integer(options.fweights->dtype()))
      throw DTypeError("cov", "fweights are " + std::string(name(options.fweights->dtype())), x.where,
                       "they count observations; other weights are aweights");
    weights = expr_detail::observation_weights(t, *options.fweights, "fweights");
  }
  Term freedom = expr_detail::count_of(t, {1}) - options.correction;
  if (weights) freedom = sum_of(*weights) - options.correction;
  if (options.aweights) {
    const Term importance = expr_detail::observation_weights(t, *options.aweights, "aweights");
    weights = weights ? *weights * importance : importance;
    const Term total = sum_of(*weights);
    freedom = total - sum_of(*weights * importance) / total * options.correction;
  }
  const Term centre = weights ? sum_of(t * *weights, 1, Keep::yes) / sum_of(*weights) : mean_of(t, 1, Keep::yes);
  const Term deviation = t - centre, weighted = weights ? deviation * *weights : deviation;
  const Term products(matmul(weighted, In(transpose(deviation, 0, 1), x.where)), x.where);
  const Term result = products / expr_detail::apply<ops::Maximum>(freedom, 0.0);
  return is_one ? reshape(result, {}) : Tensor(result);
}
SINTER_DECL Tensor corrcoef(const In& x) {
  expr_detail::require_real(expr_detail::Term(x), "corrcoef");
  using expr_detail::Term;
  const Term given(x), wide = expr_detail::wide_for_squares(given);
  if (wide.dtype() != given.dtype()) return cast(In(corrcoef(wide), x.where), given.dtype());
  const bool is_one = x.tensor()->type.shape.rank() < 2;
  const Term t = expr_detail::rows_of_variables(x, "corrcoef");
  const Term deviation = t - mean_of(t, 1, Keep::yes);
  const Term products(matmul(deviation, In(transpose(deviation, 0, 1), x.where)), x.where);
  const Term lengths = expr_detail::apply<ops::Sqrt>(sum_of(squared(deviation), 1, Keep::yes));
  const Term result = products / lengths / Term(transpose(lengths, 0, 1), x.where);
  const Term bounded = expr_detail::apply<ops::ClampToNumbers>(result, -1.0, 1.0);
  return is_one ? reshape(bounded, {}) : Tensor(bounded);
}

SINTER_DECL Tensor normalize(const In& x, NormalizeOptions options) {
  const expr_detail::Term t = expr_detail::floating(x);
  return t / expr_detail::at_least(expr_detail::norm_of(t, options.axis, options.p, Keep::yes), options.eps);
}
SINTER_DECL Tensor renorm(const In& x, double p, int axis, double largest) {
  using expr_detail::Term;
  const Term t = expr_detail::floating(x);
  axis = normalise_axis(axis, t.rank(), "renorm", x.where);
  std::vector<int> others;
  for (int i = 0; i < t.rank(); ++i)
    if (i != axis) others.push_back(i);
  const Term size = others.empty() ? expr_detail::absolute(t) : expr_detail::norm_of(t, others, p, Keep::yes);
  const Term is_long = largest < size;
  return t * where_of(is_long, largest / where_of(is_long, size, 1.0), 1.0);
}
SINTER_DECL Tensor cosine_similarity(const In& a, const In& b, int axis, double eps) {
  using expr_detail::Term;
  Term x = expr_detail::floating(a), y = expr_detail::floating(b);
  for (const Term* each : {&x, &y}) expr_detail::require_real(*each, "cosine_similarity");
  const Shape common = broadcast(x.shape(), y.shape(), "cosine_similarity", a.where);
  for (Term* each : {&x, &y})  // the axis counts in what they have together, and so do their lengths along it
    if (!(each->shape() == common)) *each = Term(expand(*each, common), each->where);
  const Term p = expr_detail::wide_for_squares(x), q = expr_detail::wide_for_squares(y);
  if (p.dtype() != x.dtype() && q.dtype() != y.dtype())
    return cast(In(cosine_similarity(p, q, axis, eps), a.where), x.dtype());
  const auto length = [&](const Term& t) {
    return expr_detail::at_least(expr_detail::norm_of(t, axis, 2, Keep::no), eps);
  };
  return sum_of(x * y, axis) / (length(x) * length(y));
}
SINTER_DECL Tensor pairwise_distance(const In& a, const In& b, PairwiseDistanceOptions options) {
  const expr_detail::Term x = expr_detail::floating(expr_detail::operand_beside(a, b)),
                          y = expr_detail::floating(expr_detail::operand_beside(b, a));
  broadcast(x.shape(), y.shape(), "pairwise_distance", a.where);
  return expr_detail::norm_of(x - y + options.eps, -1, options.p, options.keep);
}

// ---- comparisons ----------------------------------------------------------------------------------------------------

SINTER_DECL std::string Agreement::text() const {
  if (!problem.empty()) return problem;
  if (mismatches == 0) return "agree";
  std::string at;
  for (std::int64_t i : worst) at += (at.empty() ? "" : ", ") + std::to_string(i);
  char numbers[200];
  if (is_complex) std::snprintf(numbers, sizeof numbers, "): %.17g%+.17gj and %.17g%+.17gj", a, a_imag, b, b_imag);
  else std::snprintf(numbers, sizeof numbers, "): %.17g and %.17g", a, b);
  return std::to_string(mismatches) + " of " + std::to_string(elements) + " elements differ, most at (" + at + numbers;
}
SINTER_DECL std::ostream& operator<<(std::ostream& out, const Agreement& agreement) { return out << agreement.text(); }

namespace expr_detail {
inline Agreement agreement(const In& a, const In& b, const Tensor& agrees) {
  Agreement out;
  const Term x(a), y(b);
  const std::vector<bool> is_close = to_vector<bool>(In(agrees, a.where));
  out.is_complex = is_complex(x.dtype()) || is_complex(y.dtype());
  const auto read = [&](const Term& v) {  // of complex numbers the parts, one after the other
    if (!out.is_complex) return to_vector<double>(In(cast(v, DType::f64), v.where));
    return to_vector<double>(In(view_as_real(In(cast(v, DType::c128), v.where)), v.where));
  };
  const std::vector<double> p = read(x), q = read(y);
  const auto gap_at = [&](std::size_t i) {
    return is_nan_number(p[i]) || is_nan_number(q[i]) ? std::numeric_limits<double>::infinity()
           : p[i] == q[i]                             ? 0
                                                      : std::fabs(p[i] - q[i]);
  };
  out.elements = static_cast<std::int64_t>(is_close.size());
  std::size_t worst = 0;
  double most = -1;
  for (std::size_t i = 0; i < is_close.size(); ++i) {
    if (is_close[i]) continue;
    ++out.mismatches;
    const double gap = out.is_complex ? std::hypot(gap_at(2 * i), gap_at(2 * i + 1)) : gap_at(i);
    if (gap > most) {
      most = gap;
      worst = i;
    }
  }
  if (out.mismatches == 0) return out;
  const std::size_t at = out.is_complex ? 2 * worst : worst;
  out.a = p[at];
  out.b = q[at];
  if (out.is_complex) {
    out.a_imag = p[at + 1];
    out.b_imag = q[at + 1];
  }
  out.difference = most;
  const Shape shape = x.shape();
  out.worst.resize(as_index(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0;) {
    const auto extent = static_cast<std::size_t>(shape[axis].value());
    out.worst[as_index(axis)] = static_cast<std::int64_t>(worst % extent);
    worst /= extent;
  }
  return out;
}
inline std::string shapes_that_differ(const In& a, const In& b) {
  const Shape x = Tensor(a.tensor()).shape(), y = Tensor(b.tensor()).shape();
  return x == y ? std::string() : "shapes " + x.text() + " and " + y.text();
}
}  // namespace expr_detail

SINTER_DECL Agreement allclose(const In& a, const In& b, AllcloseOptions options) {
  Agreement out;
  out.problem = expr_detail::shapes_that_differ(a, b);
  if (!out.problem.empty()) return out;
  return expr_detail::agreement(
      a, b, isclose(a, b, {.rtol = options.rtol, .atol = options.atol, .equal_nan = options.equal_nan}));
}
SINTER_DECL Agreement array_equal(const In& a, const In& b) {
  Agreement out;
  out.problem = expr_detail::shapes_that_differ(a, b);
  if (!out.problem.empty()) return out;
  return expr_detail::agreement(a, b, expr_detail::Term(a) == expr_detail::Term(b));
}

SINTER_NAMESPACE_END
