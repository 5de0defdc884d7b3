// Records the ops that order, and the formulas of what is made of them.
#pragma once

#include <sinter/expr/order.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/cumulative.hpp>
#include <sinter/expr/elementwise.hpp>
#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/statistics.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/order.hpp>

#include <cmath>
#include <limits>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// x with the axis that is meant. A number is one element along the axis 0 or -1.
struct RowsOf {
  Tensor x;
  int axis;
  bool is_number;

  RowsOf(const In& given, int named, std::string_view op) : x(given.tensor()), is_number(x.rank() == 0) {
    if (is_number) x = reshape(given, Shape{1});
    axis = normalise_axis(named, x.rank(), op, given.where);
  }
};

template <class Op>
Ordered record_ordered(const RowsOf& rows, Attrs attrs, Location where) {
  attrs.axes = {rows.axis};
  Leaf leaves[] = {Leaf(rows.x.impl())};
  const std::vector<Ref<TensorImpl>> results = record_results(op_info<Op>, leaves, std::move(attrs), where);
  return {Tensor(results[0]), Tensor(results[1])};
}
inline Ordered as_number(const Ordered& one, Location where) {
  return {reshape(In(one.values, where), Shape{}), reshape(In(one.indices, where), Shape{})};
}

/// Of an axis without elements, where there are no rows either: nothing, which hangs on x.
inline Ordered of_no_rows(const In& x, int axis, Keep keep) {
  const Tensor none = sum(x, axis, keep);
  return {cast(In(none, x.where), Term(x).dtype()), cast(In(none, x.where), DType::i64)};
}
inline bool has_no_rows(const Shape& shape, const IntVector& along) {
  for (int i = 0; i < shape.rank(); ++i)
    if (std::find(along.begin(), along.end(), i) == along.end() && is_at_most(shape[i], 0)) return true;
  return false;
}

inline Ordered statistic(const In& x, int axis, Keep keep, ops::OrderStatisticKind kind, std::string_view op,
                         Dim rank = 0) {
  const RowsOf rows(x, axis, op);
  const bool is_empty = is_at_most(rows.x.shape()[rows.axis], 0);
  if (is_empty && has_no_rows(rows.x.shape(), {rows.axis})) return of_no_rows(x, rows.axis, keep);
  Attrs attrs;
  attrs.keepdim = keep == Keep::yes && !rows.is_number;
  attrs.set(ops::OrderStatistic::kind, kind);
  attrs.set(ops::OrderStatistic::rank, rank);
  if (is_empty)
    throw ShapeError(op, "axis " + std::to_string(rows.axis) + " of " + rows.x.shape().text() + " has no elements",
                     x.where);
  return record_ordered<ops::OrderStatistic>(rows, std::move(attrs), x.where);
}
inline Tensor flat(const In& x) { return reshape(x, Shape{Tensor(x.tensor()).shape().numel()}); }
/// The median of all elements; of none it is NaN, as their mean is.
inline Tensor median_of_all(const In& x, ops::OrderStatisticKind kind, std::string_view op) {
  const Term row(flat(x), x.where);
  if (is_floating(row.dtype()) && is_at_most(row.shape()[0], 0))
    return sum(x) + std::numeric_limits<double>::quiet_NaN();
  return statistic(In(row.value, x.where), 0, Keep::no, kind, op).values;
}

/// x with `axes` (none: all) joined as the last one.
struct JoinedRows {
  Tensor x;
  Shape kept;        // x's shape with 1 for those axes
  IntVector joined;  // them

  JoinedRows(const Term& given, const Axes& axes, std::string_view op)
      : joined(reduced_axes(axes, given.rank(), op, given.where)) {
    IntVector order;
    kept = given.shape();
    Shape rows;
    Dim length = 1;
    for (int i = 0; i < given.rank(); ++i) {
      if (is_joined(i)) continue;
      order.push_back(i);
      rows.push_back(kept[i]);
    }
    for (std::int64_t axis : joined) {
      length = length * kept[static_cast<int>(axis)];
      kept.set(static_cast<int>(axis), 1);
      order.push_back(axis);
    }
    rows.push_back(length);
    x = reshape(In(permute(given, Axes(order)), given.where), rows);
    if (is_at_most(length, 0) && !has_no_rows(given.shape(), joined))
      throw ShapeError(op, "x is " + given.shape().text() + " and has no elements along the axes", given.where);
  }
  bool is_joined(int axis) const { return std::find(joined.begin(), joined.end(), axis) != joined.end(); }
  /// `shape` with the axes of what there is one of for each row.
  void append_to(Shape& shape, Keep keep, Location where) const {
    for (int i = 0; i < kept.rank(); ++i)
      if (keep == Keep::yes || !is_joined(i)) shape.push_back(kept[i], where);
  }
};

inline Tensor median_over(const In& x, const Axes& axes, Keep keep, ops::OrderStatisticKind kind, std::string_view op) {
  const JoinedRows rows(Term(x), axes, op);
  Shape shape;
  rows.append_to(shape, keep, x.where);
  return reshape(In(statistic(In(rows.x, x.where), -1, Keep::no, kind, op).values, x.where), shape);
}

inline Term at_place(const Term& sorted, const Term& place) {
  return {take_along_axis(sorted, In(cast(place, DType::i64), sorted.where), -1), sorted.where};
}
inline Term between(const Term& below, const Term& above, const Term& weight) {
  const Term line = below + weight * (above - below);
  return where_of(either(weight == 0.0, apply<ops::IsInf>(below)), below, line);
}

/// Elements of sorted rows [..., n] at `places` [..., q], which are not whole numbers.
inline Term read_between(const Term& sorted, const Term& places, QuantileInterpolation interpolation) {
  using enum QuantileInterpolation;
  const auto as_element = [&](const Term& x) { return Term(cast(x, sorted.dtype()), x.where); };
  const Term lower_place = apply<ops::Floor>(places), upper_place = apply<ops::Ceil>(places);
  switch (interpolation) {
    case lower: return at_place(sorted, lower_place);
    case higher: return at_place(sorted, upper_place);
    case nearest: return at_place(sorted, apply<ops::Round>(places));
    case midpoint:
    case linear: break;
  }
  const Term below = at_place(sorted, lower_place), above = at_place(sorted, upper_place);
  if (interpolation == midpoint)
    return between(below, above, where_of(lower_place == upper_place, 0.0, Term(full_like(below, 0.5), below.where)));
  return between(below, above, as_element(places - lower_place));
}

/// Numbers are doubles; tensors are computed with as they are, or as x is.
inline Term quantile_levels(const In& q, const Term& x) {
  if (q.leaf.value) return floating(q);
  const double number = q.leaf.kind == DTypeClass::floating ? q.leaf.number : static_cast<double>(q.leaf.integer);
  return {full(Shape{}, number, {.dtype = DType::f64, .device = x.value.device()}, x.where), x.where};
}

enum class Nans : bool { kept, ignored };
inline Tensor quantile(const In& given, const In& q, const Axes& axes, QuantileOptions options, Nans nans,
                       std::string_view op) {
  if (options.interpolation > QuantileInterpolation::midpoint)
    throw UserError(op, "the interpolation has no such value", given.where);
  const Term x = floating(given);
  const JoinedRows rows(x, axes, op);
  const Term levels = quantile_levels(q, x);
  if (levels.rank() > 1)
    throw ShapeError(op, "q is " + levels.shape().text(), given.where, "a number or a list is required");
  const Term sorted(sort(In(rows.x, given.where), -1).values, given.where);
  Shape each(IntVector(as_index(sorted.rank()), 1));
  each.set(sorted.rank() - 1, levels.shape().numel());
  const DType dtype = promote(levels.dtype(), q.leaf.value ? x.dtype() : DType::f64, op, given.where);
  const Term level(cast(In(reshape(levels, each), given.where), dtype), given.where);
  const Term is_nan = apply<ops::IsNan>(sorted);
  const int last_axis = sorted.rank() - 1;
  Term numbers = count_of(Term(cast(sorted, dtype), given.where), {last_axis});
  if (nans == Nans::ignored)
    numbers = at_least(numbers - sum_of(Term(cast(is_nan, dtype), given.where), last_axis, Keep::yes), 1);
  // Beyond [0, 1] there is nothing: NaN.
  const Term last = numbers - 1.0, place = level * last;
  const Term is_inside = both(apply_number_first<ops::Le>(0.0, level), level <= 1.0);
  const Term inside = where_of(is_inside, place, 0.0);
  Shape places = sorted.shape();
  places.set(last_axis, levels.shape().numel());
  Term out = read_between(sorted, Term(expand(inside, places), given.where), options.interpolation);
  out = where_of(is_inside, out, std::numeric_limits<double>::quiet_NaN());
  if (nans == Nans::kept) {
    const Term has_nan(any(is_nan, last_axis, Keep::yes), given.where);
    out = where_of(has_nan, std::numeric_limits<double>::quiet_NaN(), out);
  }
  Shape shape;
  if (levels.rank() == 1) shape.push_back(levels.shape()[0]);
  rows.append_to(shape, options.keep, given.where);
  return reshape(In(movedim(out, -1, 0), given.where), shape);
}

inline void require_count(Dim count, Dim extent, std::int64_t least, std::string_view op, Location where) {
  if (!is_at_most(least, count) || !is_at_most(count, extent))
    throw ShapeError(op, "k is " + count.text() + ", the axis has " + extent.text() + " elements", where,
                     "k must be from " + std::to_string(least) + " to that");
}

}  // namespace expr_detail

SINTER_DECL Ordered sort(const In& x, int axis, SortOptions options) {
  const expr_detail::RowsOf rows(x, axis, "sort");
  Attrs attrs;
  attrs.set(ops::Sort::descending, options.descending);
  const Ordered result = expr_detail::record_ordered<ops::Sort>(rows, std::move(attrs), x.where);
  return rows.is_number ? expr_detail::as_number(result, x.where) : result;
}
SINTER_DECL Tensor argsort(const In& x, int axis, SortOptions options) { return sort(x, axis, options).indices; }
SINTER_DECL Tensor msort(const In& x) { return sort(x, 0).values; }

SINTER_DECL Ordered topk(const In& x, Dim count, int axis, TopkOptions options) {
  const expr_detail::RowsOf rows(x, axis, "topk");
  expr_detail::require_count(count, rows.x.shape()[rows.axis], 0, "topk", x.where);
  Attrs attrs;
  attrs.set(ops::Topk::count, count);
  attrs.set(ops::Topk::smallest, !options.largest);
  attrs.set(ops::Topk::in_place, !options.sorted);
  const Ordered result = expr_detail::record_ordered<ops::Topk>(rows, std::move(attrs), x.where);
  return rows.is_number && identical(count, Dim(1)) ? expr_detail::as_number(result, x.where) : result;
}
SINTER_DECL Ordered kthvalue(const In& x, Dim k, int axis, Keep keep) {
  const expr_detail::RowsOf rows(x, axis, "kthvalue");
  expr_detail::require_count(k, rows.x.shape()[rows.axis], 1, "kthvalue", x.where);
  return expr_detail::statistic(x, axis, keep, ops::OrderStatisticKind::rank, "kthvalue", k - Dim(1));
}
SINTER_DECL Ordered expr_detail::median_along(const In& x, int axis, Keep keep) {
  return expr_detail::statistic(x, axis, keep, ops::OrderStatisticKind::median, "median");
}
SINTER_DECL Tensor median(const In& x) {
  return expr_detail::median_of_all(x, ops::OrderStatisticKind::median, "median");
}
SINTER_DECL Tensor median(const In& x, Axes axes, Keep keep) {
  return expr_detail::median_over(x, axes, keep, ops::OrderStatisticKind::median, "median");
}
SINTER_DECL Ordered expr_detail::nanmedian_along(const In& x, int axis, Keep keep) {
  return expr_detail::statistic(x, axis, keep, ops::OrderStatisticKind::nanmedian, "nanmedian");
}
SINTER_DECL Tensor nanmedian(const In& x) {
  return expr_detail::median_of_all(x, ops::OrderStatisticKind::nanmedian, "nanmedian");
}
SINTER_DECL Tensor nanmedian(const In& x, Axes axes, Keep keep) {
  return expr_detail::median_over(x, axes, keep, ops::OrderStatisticKind::nanmedian, "nanmedian");
}
SINTER_DECL Ordered mode(const In& x, int axis, Keep keep) {
  return expr_detail::statistic(x, axis, keep, ops::OrderStatisticKind::mode, "mode");
}

namespace expr_detail {
/// Where the extreme so far is x itself, its position counts; the last of those so far is the place.
inline Ordered with_places(const In& x, const Tensor& extremes, int axis) {
  const Term given(x), so_far(extremes, x.where);
  const int at = normalise_axis(axis, given.rank(), "cummax_with_indices", x.where);
  Shape along;
  for (int i = 0; i < given.rank(); ++i) along.push_back(i == at ? given.shape()[i] : Dim(1));
  const Tensor positions = arange(given.shape()[at], {.dtype = DType::i64, .device = given.value.device()}, x.where);
  const Term is_extreme = either(given == so_far, given != given);
  const Term place = where_of(is_extreme, Term(reshape(In(positions, x.where), along), x.where), Term(In(0, x.where)));
  return {extremes, cummax(place, at)};
}
}  // namespace expr_detail
SINTER_DECL Ordered cummax_with_indices(const In& x, int axis) {
  const In given(Tensor(x.tensor()), x.where);
  return expr_detail::with_places(given, cummax(given, axis), axis);
}
SINTER_DECL Ordered cummin_with_indices(const In& x, int axis) {
  const In given(Tensor(x.tensor()), x.where);
  return expr_detail::with_places(given, cummin(given, axis), axis);
}

SINTER_DECL Tensor quantile(const In& x, const In& q, Axes axes, QuantileOptions options) {
  return expr_detail::quantile(x, q, axes, options, expr_detail::Nans::kept, "quantile");
}
SINTER_DECL Tensor nanquantile(const In& x, const In& q, Axes axes, QuantileOptions options) {
  return expr_detail::quantile(x, q, axes, options, expr_detail::Nans::ignored, "nanquantile");
}

SINTER_DECL Tensor searchsorted(const In& sorted, const In& x, SearchOptions options) {
  Tensor row(sorted.tensor()), numbers(x.tensor());
  if (options.sorter) {
    if (!(options.sorter->shape() == row.shape()))
      throw ShapeError("searchsorted",
                       "the sorter is " + options.sorter->shape().text() + ", the numbers are " + row.shape().text(),
                       sorted.where, "it has a position for each of them: argsort(sorted)");
    row = take_along_axis(In(row, sorted.where), In(*options.sorter, sorted.where), -1);
  }
  const DType dtype = promote(row.dtype(), x.leaf.value ? numbers.dtype() : promote_weak(row.dtype(), x.leaf.kind),
                              "searchsorted", sorted.where);
  row = cast(In(row, sorted.where), dtype);
  numbers = cast(In(numbers, sorted.where), dtype);
  SharedAttrs shared;
  shared.edit().set(ops::Searchsorted::right, options.right);
  return expr_detail::record<ops::Searchsorted>({Leaf(row.impl()), Leaf(numbers.impl())}, std::move(shared),
                                                sorted.where);
}
SINTER_DECL Tensor bucketize(const In& x, const In& boundaries, SearchOptions options) {
  const Tensor row(boundaries.tensor());
  if (row.rank() != 1)
    throw ShapeError("bucketize", "the boundaries are " + row.shape().text(), x.where,
                     "one row is required; searchsorted has several");
  if (is_complex(row.dtype()) || is_complex(x)) expr_detail::refuse_order("bucketize", x.where);
  return searchsorted(In(row, x.where), x, options);
}

/// Few numbers are compared with each element; of many the one is looked at that would be there.
SINTER_DECL Tensor isin(const In& x, const In& test, IsinOptions options) {
  using expr_detail::Term;
  constexpr std::int64_t few = 16;
  Term given(x);
  Term list(expr_detail::flat(In(Tensor(test.tensor()), x.where)), x.where);
  const DType dtype = expr_detail::promote_beside(x, given.dtype(), test, list.dtype(), "isin");
  given = Term(cast(given, dtype), x.where);
  list = Term(cast(list, dtype), x.where);
  const Dim count = list.shape()[0];
  Tensor found;
  if (count.is_static() && count.value() <= few) {
    found = any(Term(unsqueeze(given, -1), x.where) == list, -1);
  } else {
    const Term sorted(sort(list).values, x.where);
    const Term place(searchsorted(sorted, given), x.where);
    const Term last = Term(cast(In(count - Dim(1), x.where), DType::i64), x.where);
    const Term candidate(take(sorted, expr_detail::apply<ops::Minimum>(place, last), 0), x.where);
    found = candidate == given;
  }
  return options.invert ? Tensor(expr_detail::apply<ops::Not>(Term(found, x.where))) : found;
}

SINTER_NAMESPACE_END
