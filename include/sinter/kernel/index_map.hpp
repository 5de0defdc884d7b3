// Index maps: how the elements of values are addressed by the axes of a fusion group. A Space is the group's set of
// axes; an axis can be split in two, so that a reshape on the way becomes a choice of digits instead of a division.
// An IndexMap gives, for each axis of a value, an affine function of the space's axes. Knows shapes, no graphs.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/tensor/shape.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// `whole / part` if that is exact for all values of the symbols.
std::optional<Dim> exact_quotient(Dim whole, Dim part);
inline bool is_number(Dim dim, std::int64_t number) { return dim.is_static() && dim.value() == number; }
/// Product of dims[begin, end).
Dim extent_product(const Shape& shape, int begin, int end);
/// Row-major strides of a dense value, symbolic.
SmallVector<Dim, max_rank> dense_dim_strides(const Shape& shape);

/// One axis of a Space. Split: index = index(outer) * extent(inner) + index(inner).
struct SpaceAxis {
  Dim extent;
  bool is_reduced = false;
  std::int16_t outer = -1, inner = -1;
  bool is_leaf() const { return outer < 0; }
};

/// The axes of a group. Numbers of axes stay valid when an axis is split.
struct Space {
  SmallVector<SpaceAxis, 12> axes;

  int add(Dim extent, bool is_reduced = false);
  void split(int axis, Dim outer, Dim inner);
  const SpaceAxis& operator[](int axis) const { return axes[as_index(axis)]; }
  SpaceAxis& operator[](int axis) { return axes[as_index(axis)]; }
  int size() const { return static_cast<int>(axes.size()); }
  int leaf_count() const;
};

struct IndexTerm {
  Dim factor;
  std::int32_t axis = 0;
};

/// offset + sum of factor * index(axis). No terms: a constant.
struct AxisIndex {
  Dim offset;
  SmallVector<IndexTerm, 2> terms;
  bool is_known = true;

  static AxisIndex of(int axis);
  static AxisIndex unknown();
};

/// One AxisIndex per axis of a value.
struct IndexMap {
  std::array<AxisIndex, max_rank> axis;
  int rank = 0;

  IndexMap() = default;
  IndexMap(const IndexMap& other) { *this = other; }
  /// Only the axes in use: maps are copied a lot.
  IndexMap& operator=(const IndexMap& other) {
    rank = other.rank;
    for (int i = 0; i < rank; ++i) (*this)[i] = other[i];
    return *this;
  }
  AxisIndex& operator[](int i) { return axis[as_index(i)]; }
  const AxisIndex& operator[](int i) const { return axis[as_index(i)]; }
  void push_back(const AxisIndex& index) { axis[as_index(rank++)] = index; }
  bool is_known() const;
};

/// New axes in `space`, one per axis of `shape` (none for extent 1).
IndexMap fresh_map(Space& space, const Shape& shape);
/// The same index over leaves, sorted by axis.
AxisIndex expand_leaves(const Space& space, const AxisIndex& index);
bool equal_index(const Space& space, const AxisIndex& a, const AxisIndex& b);
bool equal_map(const Space& space, const IndexMap& a, const IndexMap& b);
/// Adds factor * index to `sum`.
void add_scaled(AxisIndex& sum, const AxisIndex& index, Dim factor);
/// The leaves whose digits, outermost first, make up the index of an axis of that extent; nothing if it is not such a
/// plain enumeration (a slice, a window, a diagonal).
std::optional<SmallVector<std::int32_t, 4>> digits_of(const Space& space, const AxisIndex& index, Dim extent);
/// Does each element of a value of that shape have exactly one place among the axes that the map uses? (Not so on a
/// diagonal, in a slice or in a broadcast.)
bool enumerates(const Space& space, const IndexMap& map, const Shape& shape);
/// The index, in a value of shape `wanted`, of the element at the same row-major place as `given` in `given_shape`.
/// May split axes of the space.
std::optional<IndexMap> reshape_map(Space& space, const Shape& given_shape, const IndexMap& given, const Shape& wanted);
/// Bit mask of the leaves that the map varies over.
std::uint64_t leaves_of(const Space& space, const IndexMap& map);

/// A maximal aligned piece of two shapes with equal numbers of elements: products of a[a_begin, a_end) and
/// b[b_begin, b_end) agree.
struct ShapeSegment {
  int a_begin, a_end, b_begin, b_end;
};
/// Pieces from the innermost outwards; extents of 1 lie in some piece or other.
SmallVector<ShapeSegment, max_rank> align_shapes(const Shape& a, const Shape& b);

SINTER_NAMESPACE_END
