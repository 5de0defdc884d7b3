// Histograms: how many elements lie in each part of a range, of equal parts or between edges, along one axis or in a
// grid. Names follow NumPy and PyTorch.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// How many elements lie in each of `bins` parts of [low, high], which are of equal width; the last one includes
/// `high`. Elements outside, and NaN, do not count. i64 [bins]. numpy.histogram's counts, torch.histc.
Tensor histogram(const In& x, Dim bins, double low, double high);

struct HistogramOptions {
  Optional<std::pair<double, double>> range{};  // not given: from the least to the largest element
  Optional<Tensor> weights{};                   // of x's shape: what each element counts
  bool density = false;                         // counts divided by their sum and the widths: the integral is 1
};
struct Histogram {
  Tensor counts;  // [bins]; i64, of the weights' dtype, or floating
  Tensor edges;   // [bins + 1]
};
/// The same with weights, of a range that may be that of the elements: 0.5 more at both ends where all are equal,
/// [0, 1] of none; nothing counts where it is not finite. numpy.histogram, torch.histogram.
Histogram histogram(const In& x, Dim bins, HistogramOptions options = {});
/// The same between `edges`, a list that ascends: from each up to before the next one, the last part includes both.
Histogram histogram(const In& x, const Tensor& edges, HistogramOptions options = {});

struct HistogramddOptions {
  std::vector<std::pair<double, double>> ranges{};  // for each column; not given: from its least to its largest element
  Optional<Tensor> weights{};                       // [n]
  bool density = false;
};
struct Histogramdd {
  Tensor counts;
  std::vector<Tensor> edges;  // for each column
};
/// Rows of `x` [n, d] counted by where they lie in a grid: bins[i] parts of equal width of ranges[i].
/// numpy.histogramdd, torch.histogramdd.
Histogramdd histogramdd(const In& x, const Shape& bins, HistogramddOptions options = {});
/// The counts alone, i64 of shape bins.
template <std::size_t count>
Tensor histogramdd(const In& x, const Shape& bins, const std::pair<double, double> (&ranges)[count]) {
  return histogramdd(x, bins, HistogramddOptions{.ranges = {ranges, ranges + count}, .weights = {}}).counts;
}
/// The same between edges, a list for each column.
Histogramdd histogramdd(const In& x, std::span<const Tensor> edges, HistogramddOptions options = {});
Histogramdd histogramdd(const In& x, std::initializer_list<Tensor> edges, HistogramddOptions options = {});

SINTER_NAMESPACE_END
