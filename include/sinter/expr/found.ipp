// Sizes that data or the user say, and what is made of the positions that are found.
#pragma once

#include <sinter/expr/found.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
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

inline Unique unique_of(const In& given, const UniqueOptions& options, ops::UniqueOrder order, std::string_view op) {
  const Term x(given);
  const std::string call = std::string(op) + "(x, {.size = n})";
  if (!options.size) require_size(x.value, op, call, given.where);
  if (options.size && !is_at_most(0, *options.size))
    throw ShapeError(op, "the size is " + options.size->text(), given.where);
  const Dim elements = x.shape().numel();
  const Term flat(reshape(given, Shape{elements}), given.where);
  Attrs attrs;
  attrs.set(ops::Unique::size, options.size ? *options.size : elements);
  attrs.set(ops::Unique::order, order);
  Leaf leaves[] = {leaf_of(flat)};
  const auto results = record_results(op_info<ops::Unique>, leaves, std::move(attrs), given.where);
  Term first = Term(Tensor(results[0]), given.where), counts = Term(Tensor(results[2]), given.where);
  const Tensor inverse = reshape(In(Tensor(results[1]), given.where), x.shape());
  if (!options.size) {
    eval({first.value, inverse, counts.value}, given.where);
    const Dim found(item<std::int64_t>(In(count_nonzero(counts), given.where)));
    first = Term(narrow(first, 0, 0, found), given.where);
    counts = Term(narrow(counts, 0, 0, found), given.where);
  }
  return {filled(taken(flat, first), first, {.size = options.size, .fill = options.fill}), inverse, counts};
}

// ---- masks as indices -----------------------------------------------------------------------------------------------

inline bool is_mask(const Index& position) {
  return position.kind == Index::Kind::gather && position.indices->type.dtype == DType::bool_;
}
SINTER_DECL bool has_mask(std::span<const Index> positions) {
  return std::any_of(positions.begin(), positions.end(), is_mask);
}
inline int axes_of(const Index& position) { return is_mask(position) ? position.indices->type.shape.rank() : 1; }

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
    const int covered = axes_of(position);
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
    axis += axes_of(position);
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

SINTER_NAMESPACE_END
