// Sizes that data or the user say, and what is made of the positions that are found.
#pragma once

#include <sinter/expr/found.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/cumulative.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/order.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/statistics.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/found.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Throws where nobody can say how many are found.
inline void require_size(const Tensor& x, std::string_view op, std::string_view call, Location where) {
  if (x.impl()->trace == 0) return;
  throw TraceError(op, "how many elements are found is data, and the function is traced", where,
                   "state how many there may be: " + std::string(call));
}

/// Positions of what is not 0 among all elements; -1 where there are no more.
inline Term found_positions(const Term& x, const std::optional<Dim>& size, std::string_view op, std::string_view call) {
  if (!size) require_size(x.value, op, call, x.where);
  if (size && !is_at_most(0, *size)) throw ShapeError(op, "the size is " + size->text(), x.where);
  const Dim count = size ? *size : Dim(item<std::int64_t>(In(count_nonzero(x), x.where)));
  SharedAttrs shared;
  shared.edit().set(ops::Nonzero::size, count);
  const Tensor flat = reshape(x, Shape{x.shape().numel()});
  return {record<ops::Nonzero>({Leaf(flat.impl())}, std::move(shared), x.where), x.where};
}
/// A number of x's dtype, beside it.
inline Term number_for(const Term& x, const Scalar& number) {
  if (number.is_number())
    return {full(Shape{}, number, {.dtype = x.dtype(), .device = x.value.device()}, x.where), x.where};
  const Tensor given(In(number, x.where).tensor());
  return {cast(In(given, x.where), x.dtype()), x.where};
}
inline Term whole_number(Dim number, Location where) { return {cast(In(number, where), DType::i64), where}; }
/// `fill` where there are no more positions.
inline Tensor filled(const Term& values, const Term& positions, const FoundOptions& options) {
  if (!options.size) return values;
  return where_of(positions < whole_number(0, values.where), number_for(values, options.fill), values);
}
/// Elements of a list at these positions; anything at those below 0.
inline Term taken(const Term& list, const Term& positions) {
  const Dim count = list.shape()[0];
  if (count.is_static() && count.value() == 0)
    return {zeros(positions.shape(), {.dtype = list.dtype(), .device = list.value.device()}, list.where), list.where};
  return {take(list, apply<ops::Maximum>(positions, whole_number(0, list.where)), 0), list.where};
}

/// Where distinct elements of rows are for the first time, the number of the one that each equals, and counts.
struct Distinct {
  Term first, inverse, counts;
};
inline Distinct distinct(const Term& rows, Dim size, ops::UniqueOrder order) {
  Attrs attrs;
  attrs.set(ops::Unique::size, size);
  attrs.set(ops::Unique::order, order);
  Leaf leaves[] = {leaf_of(rows)};
  const auto results = record_results(op_info<ops::Unique>, leaves, std::move(attrs), rows.where);
  const auto result = [&](std::size_t i) { return Term(Tensor(results[i]), rows.where); };
  return {result(0), result(1), result(2)};
}
/// The same of a list, as many as are found or stated.
inline Distinct distinct_of_list(const Term& list, const std::optional<Dim>& size, ops::UniqueOrder order) {
  Distinct out = distinct(list, size ? *size : list.shape()[0], order);
  if (size) return out;
  eval({out.first.value, out.inverse.value, out.counts.value}, list.where);
  const Dim found(item<std::int64_t>(In(count_nonzero(out.counts), list.where)));
  out.first = Term(narrow(out.first, 0, 0, found), list.where);
  out.counts = Term(narrow(out.counts, 0, 0, found), list.where);
  return out;
}

/// Numbers that compare as the columns [m, n] of x do, element by element from the first row on: i64 [n]. Rows are
/// ranked, and two neighbours' ranks are one number, until one row is left.
inline Term ranks_of_columns(const Term& x) {
  const Dim columns = x.shape()[1];
  auto rows = static_cast<std::int64_t>(x.shape()[0]);  // of a symbolic extent: a guard
  const auto ranked = [&](const Term& numbers) {
    return distinct(numbers, columns, ops::UniqueOrder::ascending).inverse;
  };
  if (rows == 0) return {zeros(Shape{columns}, {.dtype = DType::i64, .device = x.value.device()}, x.where), x.where};
  Term ranks = ranked(x);
  for (; rows > 1; rows = (rows + 1) / 2) {
    const std::int64_t pairs = rows / 2;
    const Term pair(reshape(In(narrow(ranks, 0, 0, 2 * pairs), x.where), Shape{pairs, 2, columns}), x.where);
    const auto member = [&](int which) { return Term(select(pair, 1, which), x.where); };
    const Term joined = ranked(member(0) * whole_number(columns, x.where) + member(1));
    ranks = rows % 2 == 0 ? joined : Term(concat({joined.value, narrow(ranks, 0, rows - 1, 1)}, 0, x.where), x.where);
  }
  return {reshape(ranks, Shape{columns}), x.where};
}

inline Unique unique_slices(const Term& x, const UniqueOptions& options, ops::UniqueOrder order, std::string_view op) {
  const int axis = normalise_axis(*options.axis, x.rank(), op, x.where);
  const Dim count = x.shape()[axis];
  Dim others = 1;
  for (int i = 0; i < x.rank(); ++i) others *= i == axis ? Dim(1) : x.shape()[i];
  const Term slices(movedim(x, axis, -1), x.where);
  const Term ranks = ranks_of_columns(Term(reshape(slices, Shape{others, count}), x.where));
  const auto [first, inverse, counts] = distinct_of_list(ranks, options.size, order);
  Shape shape = x.shape(), along(IntVector(as_index(x.rank()), 1));
  shape.set(axis, first.shape()[0]);
  along.set(axis, first.shape()[0]);
  Term values(zeros(shape, {.dtype = x.dtype(), .device = x.value.device()}, x.where), x.where);
  if (!is_at_most(count, 0))
    values = Term(take(x, apply<ops::Maximum>(first, whole_number(0, x.where)), axis), x.where);
  const FoundOptions found{.size = options.size, .fill = options.fill};
  return {filled(values, Term(reshape(first, along), x.where), found), inverse, counts};
}

inline Unique unique_of(const In& given, const UniqueOptions& options, ops::UniqueOrder order, std::string_view op) {
  const Term x(given);
  const std::string call = std::string(op) + "(x, {.size = n})";
  if (!options.size) require_size(x.value, op, call, given.where);
  if (options.size && !is_at_most(0, *options.size))
    throw ShapeError(op, "the size is " + options.size->text(), given.where);
  if (options.axis) return unique_slices(x, options, order, op);
  const Term flat(reshape(given, Shape{x.shape().numel()}), given.where);
  const auto [first, inverse, counts] = distinct_of_list(flat, options.size, order);
  return {filled(taken(flat, first), first, {.size = options.size, .fill = options.fill}), reshape(inverse, x.shape()),
          counts};
}

// ---- masks as indices -----------------------------------------------------------------------------------------------

SINTER_DECL bool is_mask(const Index& position) {
  return position.kind == Index::Kind::gather && position.indices->type.dtype == DType::bool_;
}
SINTER_DECL bool has_mask(std::span<const Index> positions) {
  return std::any_of(positions.begin(), positions.end(), is_mask);
}
SINTER_DECL int axes_covered(const Index& position) {
  return is_mask(position) ? position.indices->type.shape.rank() : 1;
}

/// That a mask has the extents of the axes that it covers.
inline void check_mask(const Shape& shape, int axis, const Shape& mask, std::string_view op, Location where) {
  bool fits = mask.rank() > 0 && axis + mask.rank() <= shape.rank();
  for (int i = 0; fits && i < mask.rank(); ++i) fits = mask[i] == shape[axis + i];
  if (!fits)
    throw ShapeError(
        op, "a mask is " + mask.text() + " for the axes from " + std::to_string(axis) + " on of " + shape.text(), where,
        "it has the extents of the axes that it covers");
}

SINTER_DECL UnmaskedIndex without_masks(const In& x, std::span<const Index> positions, std::string_view op) {
  const Term given(x);
  const Shape shape = given.shape();
  UnmaskedIndex out;
  Shape joined;
  int axis = 0;
  for (const Index& position : positions) {
    out.positions.push_back(position);
    const int covered = axes_covered(position);
    Dim extent = 1;
    if (is_mask(position)) {
      const Term mask(Tensor(position.indices), x.where);
      check_mask(shape, axis, mask.shape(), op, x.where);
      const Term found = found_positions(mask, {}, op, "masked_select(x, mask, {.size = n}), or where(mask, a, b)");
      out.positions.back() = Index(found.value, x.where);
    }
    if (axis + covered > shape.rank())
      throw IndexError(op, std::to_string(positions.size()) + " positions for a tensor of shape " + shape.text(),
                       x.where, "masks cover as many axes as they have");
    for (int i = 0; i < covered; ++i) extent *= shape[axis + i];
    joined.push_back(extent);
    axis += covered;
  }
  for (; axis < shape.rank(); ++axis) joined.push_back(shape[axis]);
  out.x = reshape(x, joined);
  return out;
}

SINTER_DECL std::optional<Tensor> only_mask(const Shape& shape, std::span<const Index> positions, Location where) {
  std::optional<Tensor> mask;
  int axis = 0, at = 0;
  for (const Index& position : positions) {
    if (is_mask(position) && !mask) {
      mask = Tensor(position.indices);
      at = axis;
    } else if (position.kind != Index::Kind::all) {
      return {};
    }
    axis += axes_covered(position);
  }
  if (!mask) return {};
  check_mask(shape, at, mask->shape(), "at", where);
  Shape wide = mask->shape();
  for (int i = at + mask->rank(); i < shape.rank(); ++i) wide.push_back(1);
  return reshape(In(*mask, where), wide);
}

}  // namespace expr_detail

SINTER_DECL Tensor flatnonzero(const In& x, FoundOptions options) {
  using namespace expr_detail;
  const Term positions = found_positions(Term(x), options.size, "flatnonzero", "flatnonzero(x, {.size = n})");
  return filled(positions, positions, options);
}
/// Positions taken apart, the last axis first.
SINTER_DECL Tensor nonzero(const In& x, FoundOptions options) {
  using namespace expr_detail;
  const Term given(x), positions = found_positions(given, options.size, "nonzero", "nonzero(x, {.size = n})");
  const Shape shape = given.shape();
  if (shape.rank() == 0)
    return zeros(Shape{positions.shape()[0], 0}, {.dtype = DType::i64, .device = given.value.device()}, x.where);
  std::vector<Tensor> columns(as_index(shape.rank()));
  Term rest = positions;
  for (int axis = shape.rank(); axis-- > 0;) {
    const Term extent = whole_number(shape[axis], x.where);
    const Term quotient = apply<ops::FloorDivide>(rest, extent);
    columns[as_index(axis)] = filled(axis == 0 ? rest : rest - quotient * extent, positions, options);
    rest = quotient;
  }
  return stack(columns, 1, x.where);
}
SINTER_DECL Tensor argwhere(const In& x, FoundOptions options) { return nonzero(x, options); }
SINTER_DECL Tensor masked_select(const In& x, const In& mask, FoundOptions options) {
  using namespace expr_detail;
  const Term given(x), chosen(Term(mask).value, x.where);
  if (chosen.dtype() != DType::bool_)
    throw DTypeError("masked_select", "the mask is " + std::string(name(chosen.dtype())), x.where,
                     "compare first: mask != 0");
  const Shape shape = broadcast(given.shape(), chosen.shape(), "masked_select", x.where);
  const Term wide(expand(chosen, shape), x.where);
  const Term positions = found_positions(wide, options.size, "masked_select", "masked_select(x, mask, {.size = n})");
  const Term list(reshape(In(expand(given, shape), x.where), Shape{shape.numel()}), x.where);
  return filled(taken(list, positions), positions, options);
}

SINTER_DECL Unique unique(const In& x, UniqueOptions options) {
  return expr_detail::unique_of(x, options, options.sorted ? ops::UniqueOrder::ascending : ops::UniqueOrder::as_found,
                                "unique");
}
SINTER_DECL Unique unique_consecutive(const In& x, UniqueOptions options) {
  return expr_detail::unique_of(x, options, ops::UniqueOrder::neighbours, "unique_consecutive");
}

namespace expr_detail {
/// A count for each of `extent` slices, i64; outside of traces none is negative.
inline Term slice_counts(const Tensor& given, Dim extent, const FoundOptions& options, Location where) {
  constexpr std::string_view op = "repeat_interleave";
  if (given.dtype() != DType::i32 && given.dtype() != DType::i64)
    throw DTypeError(op, "the counts are " + std::string(name(given.dtype())), where, "i32 or i64 is required");
  const bool is_one = given.rank() == 0 || (given.rank() == 1 && stretches(given.shape()[0], extent));
  if (!is_one && (given.rank() != 1 || !(given.shape()[0] == extent)))
    throw ShapeError(op, "the counts are " + given.shape().text() + " for " + extent.text() + " slices", where,
                     "one for each, or one for all");
  const Term counts(cast(In(expand(In(given, where), Shape{extent}), where), DType::i64), where);
  if (!options.size) {
    require_size(given, op, "repeat_interleave(x, counts, axis, {.size = n})", where);
    const bool has_some = !is_at_most(extent, 0);
    const std::int64_t least = has_some ? item<std::int64_t>(In(amin(counts), where)) : 0;
    if (least < 0) throw ShapeError(op, "the count " + std::to_string(least) + " is negative", where);
  }
  return apply<ops::Maximum>(counts, whole_number(0, where));
}
}  // namespace expr_detail
/// The slice of a place is how many of them end at it or before.
SINTER_DECL Tensor expr_detail::repeat_slices(const In& x, const Tensor& counts, int axis, FoundOptions options) {
  using namespace expr_detail;
  const Term given(x);
  axis = normalise_axis(axis, given.rank(), "repeat_interleave", x.where);
  const Dim extent = given.shape()[axis];
  if (options.size && !is_at_most(0, *options.size))
    throw ShapeError("repeat_interleave", "the size is " + options.size->text(), x.where);
  const Term each = slice_counts(counts, extent, options, x.where);
  const Dim size = options.size ? *options.size : Dim(item<std::int64_t>(In(sum(each), x.where)));
  Shape shape = given.shape(), along(IntVector(as_index(given.rank()), 1));
  shape.set(axis, size);
  along.set(axis, size);
  if (is_at_most(extent, 0)) return expand(number_for(given, options.fill), shape);
  const Term ends(cumsum(each, 0), x.where);
  const Term places(arange(size, {.dtype = DType::i64, .device = given.value.device()}, x.where), x.where);
  const Term slice_of(searchsorted(ends, places, {.right = true, .sorter = {}}), x.where);
  const Term last = whole_number(extent - Dim(1), x.where);
  const Term values(take(x, apply<ops::Minimum>(slice_of, last), axis), x.where);
  if (!options.size) return values;
  return where_of(Term(reshape(slice_of <= last, along), x.where), values, number_for(given, options.fill));
}
SINTER_DECL Tensor repeat_interleave(const In& x, const Tensor& counts, FoundOptions options) {
  return repeat_interleave(In(flatten(x), x.where), counts, 0, options);
}

SINTER_NAMESPACE_END
