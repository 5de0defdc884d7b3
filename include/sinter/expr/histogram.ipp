// A histogram is a bincount of the parts in which elements lie; what lies in none goes to one more part.
#pragma once

#include <sinter/expr/histogram.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/cumulative.hpp>
#include <sinter/expr/elementwise.hpp>
#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/order.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/term.hpp>

#include <limits>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

inline Term extent_as(Dim extent, DType dtype, Location where) { return {cast(In(extent, where), dtype), where}; }

/// Along one axis: the part of each element of a list, whether it lies in one, and the edges of the parts.
struct Parts {
  Term part, is_inside, edges;
  Dim count;
};

/// Parts of equal width; `low` and `high` are numbers or terms. Rounding must not give a part that is not there.
template <class Number>
Parts equal_parts(const Term& list, Dim count, const Number& low, const Number& high) {
  const DType dtype = list.dtype();
  const Term parts = extent_as(count, dtype, list.where);
  const Term place = apply<ops::Floor>((list - low) * (parts / (high - low)));
  const Term last = extent_as(count - Dim(1), DType::i64, list.where);
  const Term part = apply<ops::Minimum>(Term(cast(place, DType::i64), list.where), last);
  const Term numbers(arange(count + Dim(1), {.dtype = dtype, .device = list.value.device()}, list.where), list.where);
  const Term edges = where_of(numbers == parts, high, low + numbers * ((high - low) / parts));
  const Term first = extent_as(0, DType::i64, list.where);
  return {apply<ops::Maximum>(part, first), both(low <= list, list <= high), edges, count};
}
/// From the least to the largest element.
inline Parts parts_of_data(const Term& list, Dim count) {
  if (is_at_most(list.shape()[0], 0)) return equal_parts(list, count, 0.0, 1.0);
  const Term least(amin(list), list.where), most(amax(list), list.where);
  const Term margin = where_of(least == most, Term(full_like(least, 0.5), list.where), 0.0);
  const Term low = least - margin, high = most + margin;
  Parts out = equal_parts(list, count, low, high);
  out.is_inside = both(out.is_inside, apply<ops::IsFinite>(high - low));
  return out;
}
inline Parts parts_of_range(const Term& list, Dim count, std::pair<double, double> range, std::string_view op) {
  if (!(range.first < range.second))
    throw UserError(op, "low is " + std::to_string(range.first) + ", high is " + std::to_string(range.second),
                    list.where, "low must be below high");
  return equal_parts(list, count, range.first, range.second);
}
inline Parts parts_between(const Term& given, const Tensor& edges, std::string_view op) {
  if (edges.rank() != 1 || is_at_most(edges.shape()[0], 1))
    throw ShapeError(op, "the edges are " + edges.shape().text(), given.where, "a list of two or more is required");
  const DType dtype = promote(given.dtype(), edges.dtype(), op, given.where);
  const Term list(cast(given, dtype), given.where), bounds(cast(In(edges, given.where), dtype), given.where);
  const Dim count = edges.shape()[0] - Dim(1);
  const Term before(searchsorted(bounds, list, {.right = true, .sorter = {}}), given.where);
  const Term part = before - extent_as(1, DType::i64, given.where);
  const Term last = extent_as(count - Dim(1), DType::i64, given.where);
  const Term low(select(bounds, 0, 0), given.where), high(select(bounds, 0, count), given.where);
  return {apply<ops::Minimum>(part, last), both(low <= list, list <= high), bounds, count};
}

/// The sum of the weights in each of `parts`, or how many elements are there.
inline Term counted_parts(const Parts& parts, const std::optional<Tensor>& weights, std::string_view op) {
  const Location where = parts.part.where;
  const Shape shape = parts.part.shape();
  if (weights && !(weights->shape() == shape))
    throw ShapeError(op, "the weights are " + weights->shape().text() + " for " + shape.text() + " elements", where,
                     "one weight for each");
  const Term none = extent_as(parts.count, DType::i64, where);
  const Term part = where_of(parts.is_inside, parts.part, none);
  const Dim with_none = parts.count + Dim(1);
  const Tensor counts = weights ? bincount(part, with_none, In(*weights, where)) : bincount(part, with_none);
  return {narrow(In(counts, where), 0, 0, parts.count), where};
}
inline Term divided_by_widths(const Term& counts, const Term& edges, int axis) {
  Shape along(IntVector(as_index(counts.rank()), 1));
  along.set(axis, counts.shape()[axis]);
  return counts / Term(reshape(In(diff(edges), edges.where), along), edges.where);
}
inline Term as_fractions(const Term& counts, DType dtype) {
  const Term numbers = is_floating(counts.dtype()) ? counts : Term(cast(counts, dtype), counts.where);
  return numbers / sum_of(numbers);
}
inline DType density_dtype(const Term& edges) { return is_floating(edges.dtype()) ? edges.dtype() : DType::f32; }

inline Histogram histogram_of(const Parts& parts, const Shape& shape, const HistogramOptions& options, Location where) {
  std::optional<Tensor> weights;
  if (options.weights) {
    if (!(options.weights->shape() == shape))
      throw ShapeError("histogram", "the weights are " + options.weights->shape().text() + ", x is " + shape.text(),
                       where, "one weight for each element");
    weights = reshape(In(*options.weights, where), parts.part.shape());
  }
  const Term counts = counted_parts(parts, weights, "histogram");
  if (!options.density) return {counts, parts.edges};
  return {divided_by_widths(as_fractions(counts, density_dtype(parts.edges)), parts.edges, 0), parts.edges};
}
inline Term flat_list(const Term& x) { return {reshape(x, Shape{x.shape().numel()}), x.where}; }

/// Parts along several axes as parts of a grid.
inline Histogramdd histogram_of_grid(const std::vector<Parts>& axes, const HistogramddOptions& options,
                                     Location where) {
  Shape shape;
  Parts cell = axes[0];
  for (std::size_t i = 0; i < axes.size(); ++i) {
    shape.push_back(axes[i].count);
    if (i == 0) continue;
    cell.part = cell.part * extent_as(axes[i].count, DType::i64, where) + axes[i].part;
    cell.is_inside = both(cell.is_inside, axes[i].is_inside);
  }
  cell.count = shape.numel();
  Term counts(reshape(counted_parts(cell, options.weights, "histogramdd"), shape), where);
  Histogramdd out;
  if (options.density) counts = as_fractions(counts, density_dtype(axes[0].edges));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (options.density) counts = divided_by_widths(counts, axes[i].edges, static_cast<int>(i));
    out.edges.push_back(axes[i].edges);
  }
  out.counts = counts;
  return out;
}
inline Histogramdd histogram_of_columns(const In& x, const Shape& bins,
                                        std::span<const std::pair<double, double>> ranges,
                                        const HistogramddOptions& options) {
  const Term rows = floating(x);
  const auto columns = as_index(bins.rank());
  if (rows.rank() != 2 || bins.rank() == 0 || !(rows.shape()[1] == Dim(bins.rank())) ||
      (!ranges.empty() && ranges.size() != columns))
    throw ShapeError("histogramdd",
                     "x is " + rows.shape().text() + ", with bins " + bins.text() + " and " +
                         std::to_string(ranges.size()) + " ranges",
                     x.where, "x must be (n, d), with d numbers of bins and d ranges");
  std::vector<Parts> axes;
  for (int i = 0; i < bins.rank(); ++i) {
    const Term column(select(rows, 1, i), x.where);
    axes.push_back(ranges.empty() ? parts_of_data(column, bins[i])
                                  : parts_of_range(column, bins[i], ranges[as_index(i)], "histogramdd"));
  }
  return histogram_of_grid(axes, options, x.where);
}

}  // namespace expr_detail

SINTER_DECL Tensor histogram(const In& x, Dim bins, double low, double high) {
  return histogram(x, bins, {.range = std::pair(low, high), .weights = {}}).counts;
}
SINTER_DECL Histogram histogram(const In& x, Dim bins, HistogramOptions options) {
  const expr_detail::Term given = expr_detail::floating(x), list = expr_detail::flat_list(given);
  return expr_detail::histogram_of(options.range ? expr_detail::parts_of_range(list, bins, *options.range, "histogram")
                                                 : expr_detail::parts_of_data(list, bins),
                                   given.shape(), options, x.where);
}
SINTER_DECL Histogram histogram(const In& x, const Tensor& edges, HistogramOptions options) {
  if (options.range) throw UserError("histogram", "a range is given beside edges", x.where, "leave it out");
  const expr_detail::Term given(x);
  return expr_detail::histogram_of(expr_detail::parts_between(expr_detail::flat_list(given), edges, "histogram"),
                                   given.shape(), options, x.where);
}

SINTER_DECL Histogramdd histogramdd(const In& x, const Shape& bins, HistogramddOptions options) {
  return expr_detail::histogram_of_columns(x, bins, options.ranges, options);
}
SINTER_DECL Histogramdd histogramdd(const In& x, std::span<const Tensor> edges, HistogramddOptions options) {
  using expr_detail::Term;
  if (!options.ranges.empty())
    throw UserError("histogramdd", "ranges are given beside edges", x.where, "leave them out");
  const Term rows(x);
  if (rows.rank() != 2 || edges.empty() || !(rows.shape()[1] == Dim(static_cast<std::int64_t>(edges.size()))))
    throw ShapeError("histogramdd",
                     "x is " + rows.shape().text() + ", with " + std::to_string(edges.size()) + " lists of edges",
                     x.where, "x must be (n, d), with d lists");
  std::vector<expr_detail::Parts> axes;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Term column(select(rows, 1, static_cast<std::int64_t>(i)), x.where);
    axes.push_back(expr_detail::parts_between(column, edges[i], "histogramdd"));
  }
  return expr_detail::histogram_of_grid(axes, options, x.where);
}
SINTER_DECL Histogramdd histogramdd(const In& x, std::initializer_list<Tensor> edges, HistogramddOptions options) {
  return histogramdd(x, std::span<const Tensor>(edges.begin(), edges.size()), std::move(options));
}

SINTER_NAMESPACE_END
