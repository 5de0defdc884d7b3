// The order of pairs, and one pair as a matrix product. Knows nothing of equations.
#pragma once

#include <sinter/expr/contract.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

inline bool holds(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
template <class F>
std::vector<int> labels_where(const std::vector<int>& labels, F&& is_wanted) {
  std::vector<int> out;
  std::copy_if(labels.begin(), labels.end(), std::back_inserter(out), is_wanted);
  return out;
}
inline std::vector<int> joined_labels(std::initializer_list<std::vector<int>> lists) {
  std::vector<int> out;
  for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}
inline Dim extent_of(const Labelled& x, int label) {
  const auto at = std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin();
  return x.value.shape()[static_cast<int>(at)];
}
inline Dim product_of(const Labelled& x, const std::vector<int>& labels) {
  Dim product = 1;
  for (int label : labels) product = product * extent_of(x, label);
  return product;
}

/// x with its axes in this order.
inline Tensor ordered(const Labelled& x, const std::vector<int>& labels, Location where) {
  std::vector<int> order;
  for (int label : labels)
    order.push_back(static_cast<int>(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin()));
  return permute(In(x.value, where), Axes(order));
}

/// Labels that nobody needs are summed over.
inline Labelled summed(const Labelled& x, const std::vector<int>& kept, Location where) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < x.labels.size(); ++i)
    if (!holds(kept, x.labels[i])) axes.push_back(static_cast<int>(i));
  if (axes.empty()) return x;
  const Tensor total = sum(In(x.value, where), Axes(axes));
  return {cast(In(total, where), x.value.dtype()),
          labels_where(x.labels, [&](int label) { return holds(kept, label); })};
}

/// x with an axis for each of `labels`, of extent 1 for those that it has not.
inline Tensor stretched(const Labelled& x, const std::vector<int>& labels, Location where) {
  const std::vector<int> own = labels_where(labels, [&](int label) { return holds(x.labels, label); });
  Shape shape;
  for (int label : labels) shape.push_back(holds(x.labels, label) ? extent_of(x, label) : Dim(1), where);
  return reshape(In(ordered(x, own, where), where), shape);
}

/// Elementwise, and summed over what is not kept: products without rows and columns of their own.
inline Labelled multiplied(const Labelled& a, const Labelled& b, const std::vector<int>& kept, Location where) {
  const std::vector<int> contracted =
      labels_where(a.labels, [&](int label) { return holds(b.labels, label) && !holds(kept, label); });
  const std::vector<int> all_labels = joined_labels({kept, contracted});
  const Tensor product = stretched(a, all_labels, where) * stretched(b, all_labels, where);
  return summed({product, all_labels}, kept, where);
}

/// One pair. `kept` are the labels of the result, as far as possible in this order.
inline Labelled contract_pair(Labelled a, Labelled b, const std::vector<int>& kept, Location where) {
  auto of_b = [&](int label) { return holds(b.labels, label); };
  auto is_kept = [&](int label) { return holds(kept, label); };
  const std::vector<int> inner = labels_where(a.labels, [&](int l) { return of_b(l) && !is_kept(l); });
  std::vector<int> rows = labels_where(a.labels, [&](int l) { return !of_b(l); });
  std::vector<int> columns = labels_where(b.labels, [&](int l) { return !holds(a.labels, l); });
  if (inner.empty() || (rows.empty() && columns.empty())) return multiplied(a, b, kept, where);
  auto place = [&](const std::vector<int>& labels) {
    return labels.empty() ? kept.end() : std::find(kept.begin(), kept.end(), labels[0]);
  };
  if (place(columns) < place(rows)) {  // the result's own order needs no copy
    std::swap(a, b);
    std::swap(rows, columns);
  }
  const std::vector<int> batch = labels_where(kept, [&](int l) { return holds(a.labels, l) && of_b(l); });
  Shape shape_a, shape_b, shape_out;
  const bool is_merged = batch.size() + 2 > as_index(max_rank);
  if (is_merged) {
    shape_a.push_back(product_of(a, batch));
    shape_b.push_back(product_of(b, batch));
  }
  for (int label : batch) {
    if (!is_merged) {
      shape_a.push_back(extent_of(a, label));
      shape_b.push_back(extent_of(b, label));
    }
    shape_out.push_back(extent_of(a, label), where);
  }
  for (Dim extent : {product_of(a, rows), product_of(a, inner)}) shape_a.push_back(extent);
  for (Dim extent : {product_of(b, inner), product_of(b, columns)}) shape_b.push_back(extent);
  for (int label : rows) shape_out.push_back(extent_of(a, label), where);
  for (int label : columns) shape_out.push_back(extent_of(b, label), where);
  // Which of (rows, inner) and (inner, rows) is a view: that in which the operand's axes stand. A product takes either.
  const bool inner_first_a = !rows.empty() && !holds(inner, a.labels.back());
  const bool inner_last_b = !columns.empty() && holds(inner, b.labels.back());
  auto matrix = [&](const Labelled& x, const Shape& shape, const std::vector<int>& first,
                    const std::vector<int>& second, bool is_exchanged) {
    if (!is_exchanged) return reshape(In(ordered(x, joined_labels({batch, first, second}), where), where), shape);
    Shape other = shape;
    other.set(shape.rank() - 2, shape[-1]);
    other.set(shape.rank() - 1, shape[-2]);
    const Tensor turned = reshape(In(ordered(x, joined_labels({batch, second, first}), where), where), other);
    return transpose(In(turned, where), -2, -1);
  };
  const Tensor left = matrix(a, shape_a, rows, inner, inner_first_a);
  const Tensor right = matrix(b, shape_b, inner, columns, inner_last_b);
  const Tensor product = matmul(In(left, where), In(right, where));
  return {reshape(In(product, where), shape_out), joined_labels({batch, rows, columns})};
}

/// Which pairs are multiplied first. Extents that are not known count as 64.
class ContractionOrder {
 public:
  ContractionOrder(const std::vector<Labelled>& operands, const std::vector<int>& output) : output_(output) {
    for (const Labelled& operand : operands) {
      labels_.push_back(operand.labels);
      for (std::size_t i = 0; i < operand.labels.size(); ++i)
        extents_[operand.labels[i]] = static_cast<double>(operand.value.shape()[static_cast<int>(i)].estimate({}, 64));
    }
  }

  /// Labels of the product of the operands in `mask`: those that others or the output need.
  std::vector<int> kept(std::uint64_t mask) const {
    std::vector<int> inside, outside = output_;
    for (std::size_t i = 0; i < labels_.size(); ++i)
      for (int label : labels_[i]) (mask >> i & 1 ? inside : outside).push_back(label);
    std::sort(inside.begin(), inside.end());
    inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
    return labels_where(inside, [&](int label) { return holds(outside, label); });
  }
  double size(std::uint64_t mask) const {
    double product = 1;
    for (int label : kept(mask)) product *= extents_.at(label);
    return product;
  }
  /// Multiplications of two products that are there; infinite where the result has more axes than a tensor may.
  double cost(std::uint64_t a, std::uint64_t b) const {
    if (kept(a | b).size() > as_index(max_rank)) return std::numeric_limits<double>::infinity();
    std::vector<int> labels = kept(a);
    for (int label : kept(b))
      if (!holds(labels, label)) labels.push_back(label);
    double product = 1;
    for (int label : labels) product *= extents_.at(label);
    return product;
  }

  /// Pairs of masks, in the order in which they are multiplied.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs() const {
    return labels_.size() <= exact_up_to ? best_pairs() : greedy_pairs();
  }

 private:
  static constexpr std::size_t exact_up_to = 8;

  /// Dynamic programming over subsets (Selinger et al. 1979, as in opt_einsum).
  std::vector<std::pair<std::uint64_t, std::uint64_t>> best_pairs() const {
    const std::size_t count = labels_.size(), subsets = std::size_t{1} << count;
    std::vector<double> least(subsets, std::numeric_limits<double>::infinity());
    std::vector<std::uint64_t> part(subsets, 0);
    for (std::size_t i = 0; i < count; ++i) least[std::size_t{1} << i] = 0;
    for (std::uint64_t mask = 1; mask < subsets; ++mask)
      for (std::uint64_t a = (mask - 1) & mask; a > (mask ^ a); a = (a - 1) & mask) {
        const double total = least[a] + least[mask ^ a] + cost(a, mask ^ a);
        if (total < least[mask] || part[mask] == 0) {
          least[mask] = total;
          part[mask] = a;
        }
      }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
    std::vector<std::uint64_t> open{subsets - 1};
    while (!open.empty()) {
      const std::uint64_t mask = open.back();
      open.pop_back();
      if ((mask & (mask - 1)) == 0) continue;
      out.emplace_back(part[mask], mask ^ part[mask]);
      open.push_back(part[mask]);
      open.push_back(mask ^ part[mask]);
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  /// Always the pair whose product is smallest beside its operands.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> greedy_pairs() const {
    std::vector<std::uint64_t> open;
    for (std::size_t i = 0; i < labels_.size(); ++i) open.push_back(std::uint64_t{1} << i);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
    while (open.size() > 1) {
      std::size_t best_a = 0, best_b = 1;
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t a = 0; a < open.size(); ++a)
        for (std::size_t b = a + 1; b < open.size(); ++b) {
          const double gain = cost(open[a], open[b]) == std::numeric_limits<double>::infinity()
                                  ? best
                                  : size(open[a] | open[b]) - size(open[a]) - size(open[b]);
          if (!(gain < best)) continue;
          best = gain;
          best_a = a;
          best_b = b;
        }
      out.emplace_back(open[best_a], open[best_b]);
      open[best_a] |= open[best_b];
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(best_b));
    }
    return out;
  }

  std::vector<std::vector<int>> labels_;
  std::vector<int> output_;
  std::map<int, double> extents_;
};

SINTER_DECL Tensor contract(std::vector<Labelled> operands, const std::vector<int>& output, Location where) {
  const ContractionOrder order(operands, output);
  std::map<std::uint64_t, Labelled> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::uint64_t mask = std::uint64_t{1} << i;
    values[mask] = summed(operands[i], order.kept(mask), where);
  }
  for (auto [a, b] : order.pairs()) {
    std::vector<int> kept = order.kept(a | b);
    if (std::is_permutation(kept.begin(), kept.end(), output.begin(), output.end())) kept = output;
    values[a | b] = contract_pair(values[a], values[b], kept, where);
  }
  const std::uint64_t everything = (~std::uint64_t{0}) >> (64 - operands.size());
  return ordered(values[everything], output, where);
}

}  // namespace expr_detail
SINTER_NAMESPACE_END
