// Reductions, statistics and norms, sums along an axis, and what combines the slices of an axis, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

VarOptions var_options(const Args& a) { return {.correction = a.at.number("correction"), .keep = a.at.keep()}; }
CumulativeOptions direction(const Args& a) {
  return {.exclusive = a.at.is("exclusive"), .reverse = a.at.is("reverse")};
}

NamedFunctions reduction_functions() {
  return {
      {"sum", [](const Args& a) -> Tensor { return sum(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"prod", [](const Args& a) -> Tensor { return prod(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"prod with zeros", [](const Args& a) -> Tensor { return prod(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"mean", [](const Args& a) -> Tensor { return mean(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"amax", [](const Args& a) -> Tensor { return amax(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"amin", [](const Args& a) -> Tensor { return amin(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"any", [](const Args& a) -> Tensor { return any(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"all", [](const Args& a) -> Tensor { return all(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"argmax", [](const Args& a) -> Tensor { return argmax(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"argmin", [](const Args& a) -> Tensor { return argmin(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"var", [](const Args& a) -> Tensor { return var(a[0], a.at.axes("axes"), var_options(a)); }},
      {"stddev", [](const Args& a) -> Tensor { return stddev(a[0], a.at.axes("axes"), var_options(a)); }},
      {"stddev corrected", [](const Args& a) -> Tensor { return stddev(a[0], a.at.axes("axes"), var_options(a)); }},
      {"var_mean",
       [](const Args& a) -> Tensors {
         const VarMean both = var_mean(a[0], a.at.axes("axes"), var_options(a));
         return {both.var, both.mean};
       }},
      {"std_mean",
       [](const Args& a) -> Tensors {
         const StdMean both = std_mean(a[0], a.at.axes("axes"), var_options(a));
         return {both.stddev, both.mean};
       }},
      {"norm",
       [](const Args& a) -> Tensor {
         return norm(a[0], a.at.axes("axes"), {.p = a.at.number("p"), .keep = a.at.keep()});
       }},
      {"nansum", [](const Args& a) -> Tensor { return nansum(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"nanmean", [](const Args& a) -> Tensor { return nanmean(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"nanvar", [](const Args& a) -> Tensor { return nanvar(a[0], a.at.axes("axes"), var_options(a)); }},
      {"nanstddev", [](const Args& a) -> Tensor { return nanstddev(a[0], a.at.axes("axes"), var_options(a)); }},
      {"nanmax", [](const Args& a) -> Tensor { return nanmax(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"nanmin", [](const Args& a) -> Tensor { return nanmin(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"count_nonzero", [](const Args& a) -> Tensor { return count_nonzero(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"logsumexp", [](const Args& a) -> Tensor { return logsumexp(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"ptp", [](const Args& a) -> Tensor { return ptp(a[0], a.at.axes("axes"), a.at.keep()); }},
      {"aminmax",
       [](const Args& a) -> Tensors {
         const MinMax both = aminmax(a[0], a.at.axes("axes"), a.at.keep());
         return {both.min, both.max};
       }},
  };
}

NamedFunctions statistics_functions() {
  return {
      {"average", [](const Args& a) -> Tensor { return average(a[0], a[1], a.at.axes("axes"), a.at.keep()); }},
      {"vector_distance", [](const Args& a) -> Tensor { return vector_distance(a[0], a[1], a.at.number("p")); }},
      {"pdist", [](const Args& a) -> Tensor { return pdist(a[0], a.at.number("p")); }},
      {"cdist", [](const Args& a) -> Tensor { return cdist(a[0], a[1], a.at.number("p")); }},
      {"cov", [](const Args& a) -> Tensor { return cov(a[0], a.at.number("correction")); }},
      {"cov of weights",
       [](const Args& a) -> Tensor {
         return cov(a[0], {.correction = a.at.number("correction"), .fweights = a[1], .aweights = a[2]});
       }},
      {"corrcoef", [](const Args& a) -> Tensor { return corrcoef(a[0]); }},
      {"normalize",
       [](const Args& a) -> Tensor {
         return normalize(a[0], {.p = a.at.number("p"), .axis = a.at.axis("axis"), .eps = a.at.number("eps")});
       }},
      {"cosine_similarity",
       [](const Args& a) -> Tensor { return cosine_similarity(a[0], a[1], a.at.axis("axis"), a.at.number("eps")); }},
      {"renorm",
       [](const Args& a) -> Tensor {
         return renorm(a[0], a.at.number("p"), a.at.axis("axis"), a.at.number("largest"));
       }},
      {"pairwise_distance",
       [](const Args& a) -> Tensor {
         return pairwise_distance(a[0], a[1], {.p = a.at.number("p"), .eps = a.at.number("eps"), .keep = a.at.keep()});
       }},
  };
}

NamedFunctions cumulative_functions() {
  return {
      {"cumsum", [](const Args& a) -> Tensor { return cumsum(a[0], a.at.axis("axis"), direction(a)); }},
      {"cumprod", [](const Args& a) -> Tensor { return cumprod(a[0], a.at.axis("axis"), direction(a)); }},
      {"cumprod with zeros", [](const Args& a) -> Tensor { return cumprod(a[0], a.at.axis("axis"), direction(a)); }},
      {"cummax", [](const Args& a) -> Tensor { return cummax(a[0], a.at.axis("axis"), direction(a)); }},
      {"cummin", [](const Args& a) -> Tensor { return cummin(a[0], a.at.axis("axis"), direction(a)); }},
      {"cummax_with_indices",
       [](const Args& a) -> Tensors {
         const Ordered both = cummax_with_indices(a[0], a.at.axis("axis"));
         return {both.values, both.indices};
       }},
      {"cummin_with_indices",
       [](const Args& a) -> Tensors {
         const Ordered both = cummin_with_indices(a[0], a.at.axis("axis"));
         return {both.values, both.indices};
       }},
      {"logcumsumexp", [](const Args& a) -> Tensor { return logcumsumexp(a[0], a.at.axis("axis")); }},
      {"diff", [](const Args& a) -> Tensor { return diff(a[0], a.at.axis("axis"), a.at.axis("times")); }},
      {"diff with ends",
       [](const Args& a) -> Tensor {
         return diff(a[0], {.axis = a.at.axis("axis"), .times = a.at.axis("times"), .prepend = a[1], .append = a[2]});
       }},
      {"gradients",
       [](const Args& a) -> Tensors { return gradients(a[0], a.at.axes("axes"), a.at.numbers("spacings")); }},
      {"gradient at", [](const Args& a) -> Tensor { return gradient(a[0], a[1], a.at.axis("axis")); }},
      {"gradient", [](const Args& a) -> Tensor { return gradient(a[0], a.at.number("spacing"), a.at.axis("axis")); }},
      {"trapezoid", [](const Args& a) -> Tensor { return trapezoid(a[0], a.at.number("dx"), a.at.axis("axis")); }},
      {"trapezoid at", [](const Args& a) -> Tensor { return trapezoid(a[0], a[1], a.at.axis("axis")); }},
      {"cumulative_trapezoid",
       [](const Args& a) -> Tensor { return cumulative_trapezoid(a[0], a.at.number("dx"), a.at.axis("axis")); }},
      {"cumulative_trapezoid at",
       [](const Args& a) -> Tensor { return cumulative_trapezoid(a[0], a[1], a.at.axis("axis")); }},
  };
}

Tensors both(const Histogram& found) { return {found.counts, found.edges}; }
/// Options of a histogram, with the input `weights` (none: 0).
HistogramOptions options_of(const Args& a, std::size_t weights = 0) {
  HistogramOptions options{.density = a.at.is("density")};
  if (a.at.has("low")) options.range = {a.at.number("low"), a.at.number("high")};
  if (weights > 0) options.weights = a[weights];
  return options;
}

NamedFunctions segment_functions() {
  return {
      {"segment_sum", [](const Args& a) -> Tensor { return segment_sum(a[0], a[1], a.at.whole("segments")); }},
      {"segment_mean", [](const Args& a) -> Tensor { return segment_mean(a[0], a[1], a.at.whole("segments")); }},
      {"segment_max", [](const Args& a) -> Tensor { return segment_max(a[0], a[1], a.at.whole("segments")); }},
      {"segment_min", [](const Args& a) -> Tensor { return segment_min(a[0], a[1], a.at.whole("segments")); }},
      {"bincount", [](const Args& a) -> Tensor { return bincount(a[0], a.at.whole("bins")); }},
      {"bincount with weights", [](const Args& a) -> Tensor { return bincount(a[0], a.at.whole("bins"), a[1]); }},
      {"histogram",
       [](const Args& a) -> Tensor {
         return histogram(a[0], a.at.whole("bins"), a.at.number("low"), a.at.number("high"));
       }},
      {"histogram by range",
       [](const Args& a) -> Tensors { return both(histogram(a[0], a.at.whole("bins"), options_of(a))); }},
      {"histogram of the elements' range",
       [](const Args& a) -> Tensors { return both(histogram(a[0], a.at.whole("bins"), options_of(a))); }},
      {"histogram with weights",
       [](const Args& a) -> Tensors { return both(histogram(a[0], a.at.whole("bins"), options_of(a, 1))); }},
      {"histogram of edges", [](const Args& a) -> Tensors { return both(histogram(a[0], a[1], options_of(a))); }},
      {"histogram of edges with weights",
       [](const Args& a) -> Tensors { return both(histogram(a[0], a[1], options_of(a, 2))); }},
      {"histogramdd",
       [](const Args& a) -> Tensor {
         const std::vector<double> r = a.at.numbers("ranges");
         return histogramdd(a[0], a.at.shape("bins"), {{r[0], r[1]}, {r[2], r[3]}});
       }},
  };
}

}  // namespace

NamedFunctions reductions_functions() {
  return joined({reduction_functions(), statistics_functions(), cumulative_functions(), segment_functions()});
}

}  // namespace sinter_test
