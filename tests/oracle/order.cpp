// Order along an axis, and elements at positions that are data, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

Tensors both(const Ordered& ordered) { return {ordered.values, ordered.indices}; }

QuantileOptions quantile_options(const Args& a) {
  const std::string how = a.at.word("interpolation");
  using Q = QuantileInterpolation;
  return {.interpolation = how == "linear"    ? Q::linear
                           : how == "lower"   ? Q::lower
                           : how == "higher"  ? Q::higher
                           : how == "nearest" ? Q::nearest
                                              : Q::midpoint,
          .keep = a.at.keep()};
}

ScatterReduction reduction(const Args& a) {
  const std::string how = a.at.word("reduction");
  using R = ScatterReduction;
  return how == "sum" ? R::sum : how == "prod" ? R::prod : how == "mean" ? R::mean : how == "amax" ? R::amax : R::amin;
}

Tensor scattered(const Args& a) {
  return scatter_reduce(a[0], a.at.axis("axis"), a[1], a[2], reduction(a), {.include_self = a.at.is("include_self")});
}
Tensor reduced_at(const Args& a) {
  return index_reduce(a[0], a.at.axis("axis"), a[1], a[2], reduction(a), {.include_self = a.at.is("include_self")});
}

std::vector<Index> starts(const Args& a) {
  std::vector<Index> positions;
  for (const std::int64_t start : a.at.list("starts")) positions.emplace_back(start);
  return positions;
}

NamedFunctions order_functions_along_axes() {
  return {
      {"sort",
       [](const Args& a) -> Tensors {
         return both(sort(a[0], a.at.axis("axis"), {.descending = a.at.is("descending")}));
       }},
      {"argsort",
       [](const Args& a) -> Tensor { return argsort(a[0], a.at.axis("axis"), {.descending = a.at.is("descending")}); }},
      {"msort", [](const Args& a) -> Tensor { return msort(a[0]); }},
      {"topk",
       [](const Args& a) -> Tensors {
         return both(topk(a[0], a.at.whole("count"), a.at.axis("axis"), {.largest = a.at.is("largest")}));
       }},
      {"kthvalue",
       [](const Args& a) -> Tensors { return both(kthvalue(a[0], a.at.whole("k"), a.at.axis("axis"), a.at.keep())); }},
      {"kthvalue of more",
       [](const Args& a) -> Tensors { return both(kthvalue(a[0], a.at.whole("k"), a.at.axis("axis"), a.at.keep())); }},
      {"median", [](const Args& a) -> Tensors { return both(median(a[0], a.at.axis("axis"), a.at.keep())); }},
      {"nanmedian", [](const Args& a) -> Tensors { return both(nanmedian(a[0], a.at.axis("axis"), a.at.keep())); }},
      {"median of axes", [](const Args& a) -> Tensor { return median(a[0], Axes(a.at.axes("axes")), a.at.keep()); }},
      {"searchsorted by a sorter",
       [](const Args& a) -> Tensor {
         return searchsorted(a[0], a[1], {.right = a.at.is("right"), .sorter = argsort(a[0])});
       }},
      {"median of all", [](const Args& a) -> Tensor { return median(a[0]); }},
      {"nanmedian of all", [](const Args& a) -> Tensor { return nanmedian(a[0]); }},
      {"mode", [](const Args& a) -> Tensors { return both(mode(a[0], a.at.axis("axis"), a.at.keep())); }},
      {"quantile",
       [](const Args& a) -> Tensor { return quantile(a[0], a[1], a.at.axes("axes"), quantile_options(a)); }},
      {"nanquantile",
       [](const Args& a) -> Tensor { return nanquantile(a[0], a[1], a.at.axes("axes"), quantile_options(a)); }},
      {"searchsorted", [](const Args& a) -> Tensor { return searchsorted(a[0], a[1], {.right = a.at.is("right")}); }},
      {"bucketize", [](const Args& a) -> Tensor { return bucketize(a[0], a[1], {.right = a.at.is("right")}); }},
      {"isin", [](const Args& a) -> Tensor { return isin(a[0], a[1], {.invert = a.at.is("invert")}); }},
  };
}

NamedFunctions indexing_functions() {
  return {
      {"take", [](const Args& a) -> Tensor { return take(a[0], a[1], a.at.axis("axis")); }},
      {"index_select", [](const Args& a) -> Tensor { return index_select(a[0], a.at.axis("axis"), a[1]); }},
      {"take_along_axis", [](const Args& a) -> Tensor { return take_along_axis(a[0], a[1], a.at.axis("axis")); }},
      {"put_along_axis", [](const Args& a) -> Tensor { return put_along_axis(a[0], a[1], a[2], a.at.axis("axis")); }},
      {"scatter", [](const Args& a) -> Tensor { return scatter(a[0], a.at.axis("axis"), a[1], a[2]); }},
      {"scatter_add", [](const Args& a) -> Tensor { return scatter_add(a[0], a.at.axis("axis"), a[1], a[2]); }},
      {"scatter_reduce sum", scattered},
      {"scatter_reduce prod", scattered},
      {"scatter_reduce mean", scattered},
      {"scatter_reduce amax", scattered},
      {"scatter_reduce amin", scattered},
      {"index_reduce prod", reduced_at},
      {"index_reduce mean", reduced_at},
      {"index_reduce amax", reduced_at},
      {"index_reduce amin", reduced_at},
      {"index_add",
       [](const Args& a) -> Tensor { return index_add(a[0], a.at.axis("axis"), a[1], a[2], a.at.whole("alpha")); }},
      {"index_copy", [](const Args& a) -> Tensor { return index_copy(a[0], a.at.axis("axis"), a[1], a[2]); }},
      {"index_fill",
       [](const Args& a) -> Tensor { return index_fill(a[0], a.at.axis("axis"), a[1], a.at.whole("value")); }},
      {"index_put",
       [](const Args& a) -> Tensor {
         return index_put(a[0], {a[1], a[2]}, a[3], {.accumulate = a.at.is("accumulate")});
       }},
      {"put", [](const Args& a) -> Tensor { return put(a[0], a[1], a[2], {.accumulate = a.at.is("accumulate")}); }},
      {"masked_fill", [](const Args& a) -> Tensor { return masked_fill(a[0], a[1], a.at.whole("value")); }},
      {"masked_scatter", [](const Args& a) -> Tensor { return masked_scatter(a[0], a[1], a[2]); }},
      {"unravel_index", [](const Args& a) -> Tensors { return unravel_index(a[0], a.at.shape("shape")); }},
      {"dynamic_slice", [](const Args& a) -> Tensor { return dynamic_slice(a[0], starts(a), a.at.shape("sizes")); }},
      {"dynamic_update_slice", [](const Args& a) -> Tensor { return dynamic_update_slice(a[0], a[1], starts(a)); }},
  };
}

/// Those whose results have as many elements as are found: traced functions are told how many.
NamedFunctions finding_functions() {
  return {
      {"masked_select", [](const Args& a) -> Tensor { return masked_select(a[0], a[1], {.size = a.size}); }},
      {"nonzero", [](const Args& a) -> Tensor { return nonzero(a[0], {.size = a.size}); }},
      {"argwhere", [](const Args& a) -> Tensor { return argwhere(a[0], {.size = a.size}); }},
      {"flatnonzero", [](const Args& a) -> Tensor { return flatnonzero(a[0], {.size = a.size}); }},
      {"unique",
       [](const Args& a) -> Tensors {
         const Unique found = unique(a[0], {.size = a.size});
         return {found.values, found.inverse, found.counts};
       }},
      {"unique along an axis",  // the counts come first: their extent is what a traced function is told
       [](const Args& a) -> Tensors {
         const Unique found = unique(a[0], {.axis = a.at.axis("axis"), .size = a.size});
         return {found.counts, found.inverse, found.values};
       }},
      {"unique_consecutive along an axis",
       [](const Args& a) -> Tensors {
         const Unique found = unique_consecutive(a[0], {.axis = a.at.axis("axis"), .size = a.size});
         return {found.counts, found.inverse, found.values};
       }},
      {"unique_consecutive",
       [](const Args& a) -> Tensors {
         const Unique found = unique_consecutive(a[0], {.size = a.size});
         return {found.values, found.inverse, found.counts};
       }},
  };
}

}  // namespace

NamedFunctions order_functions() {
  return joined({order_functions_along_axes(), indexing_functions(), finding_functions()});
}

}  // namespace sinter_test
