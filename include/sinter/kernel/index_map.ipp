// Splitting of axes, digits, and reshapes of index maps.
#pragma once

#include <sinter/kernel/index_map.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

SINTER_DECL std::optional<Dim> exact_quotient(Dim whole, Dim part) {
  if (is_number(part, 1)) return whole;
  if (identical(whole, part)) return Dim(1);
  if (whole.is_static() && part.is_static()) {
    if (part.value() == 0 || whole.value() % part.value() != 0) return std::nullopt;
    return Dim(whole.value() / part.value());
  }
  if (whole.is_static() || is_number(part, 0)) return std::nullopt;
  const Dim quotient = whole / part;
  if (!identical(quotient * part, whole)) return std::nullopt;
  return quotient;
}

SINTER_DECL Dim extent_product(const Shape& shape, int begin, int end) {
  Dim product = 1;
  for (int i = begin; i < end; ++i) product *= shape[i];
  return product;
}

SINTER_DECL SmallVector<Dim, max_rank> dense_dim_strides(const Shape& shape) {
  SmallVector<Dim, max_rank> strides(as_index(shape.rank()));
  Dim step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[as_index(i)] = step;
    if (i > 0 && !is_number(shape[i], 0))
      step *= shape[i];  // as in memory: without elements, too, each axis has a stride
  }
  return strides;
}

SINTER_DECL int Space::add(Dim extent, bool is_reduced) {
  axes.push_back({.extent = extent, .is_reduced = is_reduced});
  return size() - 1;
}

SINTER_DECL void Space::split(int axis, Dim outer, Dim inner) {
  const bool is_reduced = (*this)[axis].is_reduced;
  const int first = add(outer, is_reduced), second = add(inner, is_reduced);
  (*this)[axis].outer = static_cast<std::int16_t>(first);
  (*this)[axis].inner = static_cast<std::int16_t>(second);
}

SINTER_DECL int Space::leaf_count() const {
  int count = 0;
  for (const SpaceAxis& axis : axes) count += axis.is_leaf();
  return count;
}

SINTER_DECL AxisIndex AxisIndex::of(int axis) {
  AxisIndex index;
  index.terms.push_back({Dim(1), axis});
  return index;
}

SINTER_DECL AxisIndex AxisIndex::unknown() {
  AxisIndex index;
  index.is_known = false;
  return index;
}

SINTER_DECL bool IndexMap::is_known() const {
  for (int i = 0; i < rank; ++i)
    if (!(*this)[i].is_known) return false;
  return true;
}

SINTER_DECL IndexMap fresh_map(Space& space, const Shape& shape) {
  IndexMap map;
  for (Dim extent : shape) map.push_back(is_number(extent, 1) ? AxisIndex{} : AxisIndex::of(space.add(extent)));
  return map;
}

namespace kernel_detail {
inline void append_leaves(const Space& space, int axis, Dim factor, AxisIndex& out) {
  const SpaceAxis& node = space[axis];
  if (!node.is_leaf()) {
    append_leaves(space, node.outer, factor * space[node.inner].extent, out);
    append_leaves(space, node.inner, factor, out);
    return;
  }
  for (IndexTerm& term : out.terms) {
    if (term.axis == axis) {
      term.factor += factor;
      return;
    }
  }
  out.terms.push_back({factor, axis});
}

/// One axis that is not split, or none: what most indices are.
inline bool is_over_leaves(const Space& space, const AxisIndex& index) {
  return index.terms.empty() || (index.terms.size() == 1 && space[index.terms[0].axis].is_leaf());
}
}  // namespace kernel_detail

SINTER_DECL AxisIndex expand_leaves(const Space& space, const AxisIndex& index) {
  if (kernel_detail::is_over_leaves(space, index)) return index;
  AxisIndex out;
  out.offset = index.offset;
  out.is_known = index.is_known;
  for (const IndexTerm& term : index.terms) kernel_detail::append_leaves(space, term.axis, term.factor, out);
  std::sort(out.terms.begin(), out.terms.end(), [](const IndexTerm& a, const IndexTerm& b) { return a.axis < b.axis; });
  return out;
}

SINTER_DECL bool equal_index(const Space& space, const AxisIndex& a, const AxisIndex& b) {
  if (!identical(a.offset, b.offset)) return false;
  const AxisIndex left = expand_leaves(space, a), right = expand_leaves(space, b);
  return std::equal(
      left.terms.begin(), left.terms.end(), right.terms.begin(), right.terms.end(),
      [](const IndexTerm& x, const IndexTerm& y) { return x.axis == y.axis && identical(x.factor, y.factor); });
}

SINTER_DECL bool equal_map(const Space& space, const IndexMap& a, const IndexMap& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (!equal_index(space, a[i], b[i])) return false;
  return true;
}

SINTER_DECL void add_scaled(AxisIndex& sum, const AxisIndex& index, Dim factor) {
  sum.offset += index.offset * factor;
  for (const IndexTerm& term : index.terms) {
    auto* found =
        std::find_if(sum.terms.begin(), sum.terms.end(), [&](const IndexTerm& t) { return t.axis == term.axis; });
    if (found != sum.terms.end()) found->factor += term.factor * factor;
    else sum.terms.push_back({term.factor * factor, term.axis});
  }
}

SINTER_DECL std::optional<SmallVector<std::int32_t, 4>> digits_of(const Space& space, const AxisIndex& index,
                                                                  Dim extent) {
  if (!index.is_known || !is_number(index.offset, 0)) return std::nullopt;
  const AxisIndex leaves = expand_leaves(space, index);
  SmallVector<std::int32_t, 4> digits;
  Dim place = 1;
  while (digits.size() < leaves.terms.size()) {
    const auto* found = std::find_if(leaves.terms.begin(), leaves.terms.end(),
                                     [&](const IndexTerm& t) { return identical(t.factor, place); });
    if (found == leaves.terms.end()) return std::nullopt;
    digits.push_back(found->axis);
    place *= space[found->axis].extent;
  }
  if (!identical(place, extent)) return std::nullopt;
  std::reverse(digits.begin(), digits.end());
  return digits;
}

SINTER_DECL bool enumerates(const Space& space, const IndexMap& map, const Shape& shape) {
  std::uint64_t seen = 0;
  for (int i = 0; i < map.rank; ++i) {
    if (is_number(shape[i], 1)) continue;
    const auto digits = digits_of(space, map[i], shape[i]);
    if (!digits) return false;
    for (std::int32_t digit : *digits) {
      if ((seen >> digit & 1) != 0) return false;
      seen |= std::uint64_t{1} << digit;
    }
  }
  return true;
}

SINTER_DECL std::uint64_t leaves_of(const Space& space, const IndexMap& map) {
  std::uint64_t mask = 0;
  const auto add = [&](const AxisIndex& index) {
    for (const IndexTerm& term : index.terms)
      if (!is_number(term.factor, 0)) mask |= std::uint64_t{1} << term.axis;
  };
  for (int i = 0; i < map.rank; ++i) {
    if (kernel_detail::is_over_leaves(space, map[i])) add(map[i]);
    else add(expand_leaves(space, map[i]));
  }
  return mask;
}

SINTER_DECL SmallVector<ShapeSegment, max_rank> align_shapes(const Shape& a, const Shape& b) {
  SmallVector<ShapeSegment, max_rank> segments;
  int a_end = a.rank(), b_end = b.rank();
  while (a_end > 0 || b_end > 0) {
    int i = a_end, j = b_end;
    Dim a_product = 1, b_product = 1;
    const auto grow_a = [&] {
      if (i > 0) a_product *= a[--i];
      else return false;
      return true;
    };
    const auto grow_b = [&] {
      if (j > 0) b_product *= b[--j];
      else return false;
      return true;
    };
    if (!grow_a()) grow_b();
    else grow_b();
    while (!identical(a_product, b_product)) {
      const bool a_is_smaller = a_product.is_static() && b_product.is_static()
                                    ? a_product.value() < b_product.value()
                                    : exact_quotient(b_product, a_product).has_value();
      if (a_is_smaller ? grow_a() || grow_b() : grow_b() || grow_a()) continue;
      break;  // the products cannot be told equal (zero extents, unrelated symbols): one piece holds all that is left
    }
    // Extents of 1 further out belong to the piece too: they have no place of their own.
    while (i > 0 && is_number(a[i - 1], 1)) --i;
    while (j > 0 && is_number(b[j - 1], 1)) --j;
    segments.push_back({i, a_end, j, b_end});
    a_end = i;
    b_end = j;
  }
  return segments;
}

namespace kernel_detail {
/// Cuts the list of digits (outermost first) into axes of the wanted extents, splitting digits where needed.
inline bool regroup_digits(Space& space, SmallVector<std::int32_t, 8> digits, const Shape& wanted, int begin, int end,
                           IndexMap& out) {
  for (int i = end - 1; i >= begin; --i) {
    out[i] = {};
    Dim left = wanted[i], place = 1;
    while (!is_number(left, 1)) {
      if (digits.empty()) return false;
      const int digit = digits.back();
      const Dim extent = space[digit].extent;
      if (auto rest = exact_quotient(left, extent)) {
        out[i].terms.push_back({place, digit});
        place *= extent;
        left = *rest;
        digits.pop_back();
      } else if (auto outer = exact_quotient(extent, left)) {
        space.split(digit, *outer, left);
        digits.back() = space[digit].outer;
        digits.push_back(space[digit].inner);
      } else {
        return false;
      }
    }
  }
  return digits.empty();
}

inline bool is_empty(const Shape& shape) {
  for (int i = 0; i < shape.rank(); ++i)
    if (is_number(shape[i], 0)) return true;
  return false;
}

inline bool reshape_segment(Space& space, const ShapeSegment& s, const Shape& given_shape, const IndexMap& given,
                            const Shape& wanted, IndexMap& out) {
  int wide = -1, wide_count = 0;
  for (int j = s.b_begin; j < s.b_end; ++j) {
    out[j] = {};
    if (!is_number(wanted[j], 1)) {
      wide = j;
      ++wide_count;
    }
  }
  if (wide_count == 0) return true;
  int given_wide = -1, given_count = 0;
  for (int i = s.a_begin; i < s.a_end; ++i)
    if (!is_number(given_shape[i], 1)) given_wide = i, ++given_count;
  if (wide_count == 1 && given_count == 1) {
    out[wide] = given[given_wide];  // known or not
    return true;
  }
  if (wide_count == 1) {
    Dim place = 1;
    for (int i = s.a_end - 1; i >= s.a_begin; --i) {
      if (is_number(given_shape[i], 1)) continue;
      if (!given[i].is_known) return false;
      add_scaled(out[wide], given[i], place);
      place *= given_shape[i];
    }
    return identical(place, wanted[wide]);
  }
  SmallVector<std::int32_t, 8> digits;
  for (int i = s.a_begin; i < s.a_end; ++i) {
    if (is_number(given_shape[i], 1)) continue;
    const auto own = digits_of(space, given[i], given_shape[i]);
    if (!own) return false;
    for (std::int32_t digit : *own) digits.push_back(digit);
  }
  return regroup_digits(space, digits, wanted, s.b_begin, s.b_end, out);
}
}  // namespace kernel_detail

SINTER_DECL std::optional<IndexMap> reshape_map(Space& space, const Shape& given_shape, const IndexMap& given,
                                                const Shape& wanted) {
  IndexMap out;
  out.rank = wanted.rank();
  for (const ShapeSegment& segment : align_shapes(given_shape, wanted)) {
    if (segment.a_end - segment.a_begin == 1 && segment.b_end - segment.b_begin == 1)
      out[segment.b_begin] = given[segment.a_begin];
    else if (!kernel_detail::reshape_segment(space, segment, given_shape, given, wanted, out)) {
      // Nothing is read of no elements: any place will do.
      if (!kernel_detail::is_empty(wanted)) return std::nullopt;
      for (int j = segment.b_begin; j < segment.b_end; ++j) out[j] = {};
    }
  }
  return out;
}

SINTER_NAMESPACE_END
