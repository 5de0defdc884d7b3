// The ellipsis written out, and where new axes stand in the result.
#pragma once

#include <sinter/expr/new_axes.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/found.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

inline bool is_other_axis(const Index& position) {
  return position.kind == Index::Kind::new_axis || position.kind == Index::Kind::left_over;
}
SINTER_DECL bool has_other_axes(std::span<const Index> positions) {
  return std::any_of(positions.begin(), positions.end(), is_other_axis);
}

/// How many axes of x the positions speak of; a mask covers as many as it has.
inline int covered_axes(std::span<const Index> positions) {
  int covered = 0;
  for (const Index& position : positions)
    if (!is_other_axis(position)) covered += axes_covered(position);
  return covered;
}

inline std::vector<Index> without_ellipsis(int rank, std::span<const Index> positions, std::string_view op) {
  const int left_over = std::max(rank - covered_axes(positions), 0);
  std::vector<Index> out;
  bool found = false;
  for (const Index& position : positions) {
    if (position.kind != Index::Kind::left_over) {
      out.push_back(position);
      continue;
    }
    if (std::exchange(found, true))
      throw IndexError(op, "there are two ellipses", position.where, "one stands for all axes that are left over");
    Index whole;
    whole.kind = Index::Kind::all;
    whole.where = position.where;
    out.insert(out.end(), as_index(left_over), whole);
  }
  return out;
}

/// Axes of the result that each position gives. Index tensors give one group, where the first of them stands.
class ResultAxes {
 public:
  explicit ResultAxes(std::span<const Index> positions) {
    for (const Index& position : positions)
      if (position.kind == Index::Kind::gather) {
        ++gathers_left_;
        // the places that a mask finds are one list
        gathered_ = std::max(gathered_, is_mask(position) ? 1 : position.indices->type.shape.rank());
      }
  }
  int count() const { return count_; }
  bool is_between_gathers() const { return gathered_ > 0 && is_begun_ && gathers_left_ > 0; }
  void add(const Index& position) {
    if (position.kind == Index::Kind::position) return;
    if (position.kind != Index::Kind::gather) {
      ++count_;
      return;
    }
    if (!std::exchange(is_begun_, true)) count_ += gathered_;
    --gathers_left_;
  }

 private:
  int count_ = 0, gathered_ = 0, gathers_left_ = 0;
  bool is_begun_ = false;
};

SINTER_DECL OwnAxes own_axes(int rank, std::span<const Index> positions, std::string_view op) {
  OwnAxes out;
  const std::vector<Index> plain = without_ellipsis(rank, positions, op);
  ResultAxes axes(plain);
  for (const Index& position : plain) {
    if (position.kind == Index::Kind::new_axis) {
      if (axes.is_between_gathers())
        throw IndexError(op, "a new axis stands between index tensors", position.where,
                         "unsqueeze the result: where their axes go then is a rule that nobody remembers");
      out.new_axes.push_back(axes.count());
    } else {
      out.positions.push_back(position);
    }
    axes.add(position);
  }
  return out;
}

SINTER_DECL std::vector<Index> places_of(int rank, std::vector<Index> positions) {
  if (!has_other_axes(positions)) return positions;
  OwnAxes own = own_axes(rank, positions, "at");
  if (!own.new_axes.empty())
    throw IndexError("at", "a new axis is no place that can be assigned to", positions.front().where,
                     "leave `newaxis` out, and give the value the shape of the place");
  return std::move(own.positions);
}

}  // namespace expr_detail
SINTER_NAMESPACE_END
