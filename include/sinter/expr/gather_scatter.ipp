// Shapes and checks of each function; most are one scatter or take, with what prepares its index.
#pragma once

#include <sinter/expr/gather_scatter.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/gather_scatter_records.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/indexing.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/ops/join.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

inline GatherAxes along_axis_of(int axis, int rank) { return {.axis = axis, .shared = axis, .inner = rank - 1 - axis}; }

/// Operands of take_along_axis: table and index with the same extents but along the axis.
struct AlongAxis {
  Tensor table, index;
  int axis = 0;
};
inline AlongAxis broadcast_along(const In& x, const In& indices, int axis, std::string_view op) {
  AlongAxis out{Tensor(x.tensor()), Tensor(indices.tensor()), axis};
  const Shape table = out.table.shape(), index = out.index.shape();
  if (table.rank() != index.rank() || table.rank() == 0)
    throw ShapeError(op, "x is " + table.text() + ", the indices are " + index.text(), x.where,
                     "both need the same rank, 1 or more; reshape the indices");
  out.axis = normalise_axis(axis, table.rank(), op, x.where);
  Shape others_of_table = table, others_of_index = index;
  others_of_table.set(out.axis, 1);
  others_of_index.set(out.axis, 1);
  Shape common = broadcast(others_of_table, others_of_index, op, x.where);
  common.set(out.axis, table[out.axis]);
  out.table = expand(In(out.table, x.where), common);
  common.set(out.axis, index[out.axis]);
  out.index = counted_from_start(expand(In(out.index, x.where), common).impl(), table[out.axis], x.where);
  return out;
}

/// The first elements of `x` along each axis, as many as `shape` has; `x` itself where it has no more.
inline Tensor first_elements(const Tensor& x, const Shape& shape, std::string_view op, Location where) {
  std::vector<Index> positions;
  bool is_whole = true;
  for (int i = 0; i < shape.rank(); ++i) {
    is_whole = is_whole && identical(x.shape()[i], shape[i]);
    if (!identical(x.shape()[i], shape[i]) && !is_at_most(shape[i], x.shape()[i]))
      throw ShapeError(op, "the index is " + shape.text() + ", which is larger than " + x.shape().text(), where);
    positions.emplace_back(Slice{Dim(0), shape[i], 1}, where);
  }
  return is_whole ? x : index(In(x, where), positions);
}

/// A number joins operands on any device.
inline Tensor beside(const Tensor& base, const Tensor& value) {
  const bool is_elsewhere = value.rank() == 0 && value.device() == Device::cpu() && base.device() != Device::cpu();
  return is_elsewhere ? value.to(base.device()) : value;
}

/// Values that go to places of `base`. A number has the dtype of wide ones: as f32 it would lose digits.
inline Tensor values_for(const Tensor& base, const In& values) {
  const bool is_wide = base.dtype() == DType::f64 || base.dtype() == DType::c128;
  return is_wide && !values.leaf.value ? cast(values, base.dtype()) : Tensor(values.tensor());
}

inline Tensor scatter_along(const In& x, int axis, const In& index, const In& src, Combine combine,
                            std::string_view op) {
  const Location where = x.where;
  const Tensor base(x.tensor()), at(index.tensor()), given = beside(base, values_for(base, src));
  const int rank = base.rank();
  if (at.rank() != rank || rank == 0 || (given.rank() != rank && given.rank() != 0))
    throw ShapeError(
        op, "x is " + base.shape().text() + ", the index " + at.shape().text() + ", src " + given.shape().text(), where,
        "all need the same rank, 1 or more");
  axis = normalise_axis(axis, rank, op, where);
  Shape part_shape = at.shape();
  part_shape.set(axis, base.shape()[axis]);
  const Tensor value =
      given.rank() == 0 ? expand(In(given, where), at.shape()) : first_elements(given, at.shape(), op, where);
  const Tensor part = first_elements(base, part_shape, op, where);
  const Tensor changed = record_scatter(part, counted_from_start(at.impl(), base.shape()[axis], where), value,
                                        along_axis_of(axis, rank), combine, where);
  if (identical(part.shape(), base.shape())) return changed;
  std::vector<Index> positions;
  for (int i = 0; i < rank; ++i) positions.emplace_back(Slice{Dim(0), part_shape[i], 1}, where);
  return update(In(base, where), positions, In(changed, where));
}

/// A list of indices along one axis.
inline Tensor scatter_list(const In& x, int axis, const In& indices, const In& source, Combine combine,
                           std::string_view op) {
  const Location where = x.where;
  const Tensor base(x.tensor()), list(indices.tensor()), given = beside(base, values_for(base, source));
  axis = normalise_axis(axis, base.rank(), op, where);
  if (list.rank() > 1) throw ShapeError(op, "the indices are " + list.shape().text(), where, "a list is required");
  const Tensor at = reshape(In(list, where), Shape{list.shape().numel()});
  Shape shape = base.shape();
  shape.set(axis, at.shape()[0]);
  return record_scatter(base, counted_from_start(at.impl(), base.shape()[axis], where), expand(In(given, where), shape),
                        {.axis = axis}, combine, where);
}

/// What changes nothing when it is combined.
inline Scalar neutral(Combine combine, DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool is_min = combine == Combine::min;
  if (combine == Combine::mul) return 1;
  if (combine != Combine::min && combine != Combine::max) return 0;
  if (is_floating(dtype)) return is_min ? infinity : -infinity;
  if (dtype == DType::bool_) return is_min;
  return is_min ? tensor_detail::greatest(dtype) : tensor_detail::lowest(dtype);
}
inline Tensor neutral_like(const Tensor& x, const Shape& shape, Combine combine, Location where) {
  if (x.dtype() == DType::u64 && combine == Combine::min)  // no C++ number of a call is as large
    return Tensor(bitwise_not(zeros(shape, {.dtype = x.dtype(), .device = x.device()}, where), where));
  return full(shape, neutral(combine, x.dtype()), {.dtype = x.dtype(), .device = x.device()}, where);
}

inline Tensor divided(const Tensor& sum, const Tensor& count, Location where) {
  const Tensor divisor = cast(In(count, where), sum.dtype());
  return is_floating(sum.dtype()) ? Tensor(sum / divisor) : Tensor(floor_divide(sum, divisor));
}

inline void require_numbers(const Tensor& x, std::string_view op, std::string_view name, Location where) {
  if (x.dtype() != DType::i32 && x.dtype() != DType::i64)
    throw DTypeError(op, std::string(name) + " must be i32 or i64, not " + x.impl()->type.text(), where,
                     "cast it to an integer dtype first: cast(x, DType::i64)");
}

/// Whole numbers that are counted: of a byte there are few, so narrow ones count, too (as indices they stay errors).
inline Tensor counted(const In& x, std::string_view op) {
  const Tensor given(x.tensor());
  if (is_integer(given.dtype()) && given.dtype() != DType::i32) return cast(In(given, x.where), DType::i64);
  require_numbers(given, op, "x", x.where);
  return given;
}

inline Tensor reduce_segments(const In& x, const In& ids, Dim segments, Combine combine, std::string_view op) {
  const Tensor values(x.tensor()), at(ids.tensor());
  require_numbers(at, op, "ids", x.where);
  if (values.rank() == 0 || at.rank() != 1 || !(values.shape()[0] == at.shape()[0]))
    throw ShapeError(op, "x is " + values.shape().text() + ", ids are " + at.shape().text(), x.where,
                     "ids are a list, with one number for each slice of x along its first axis");
  Shape shape = values.shape();
  shape.set(0, segments);
  return record_scatter(neutral_like(values, shape, combine, x.where), at, values, {}, combine, x.where);
}

}  // namespace expr_detail

SINTER_DECL Tensor take_along_axis(const In& x, const In& indices, int axis) {
  const expr_detail::AlongAxis along = expr_detail::broadcast_along(x, indices, axis, "take_along_axis");
  return expr_detail::record_take(along.table, along.index, expr_detail::along_axis_of(along.axis, along.table.rank()),
                                  x.where);
}
SINTER_DECL Tensor put_along_axis(const In& x, const In& indices, const In& values, int axis) {
  const expr_detail::AlongAxis along = expr_detail::broadcast_along(x, indices, axis, "put_along_axis");
  const Tensor value = expand(In(expr_detail::values_for(along.table, values), x.where), along.index.shape());
  return expr_detail::record_scatter(along.table, along.index, value,
                                     expr_detail::along_axis_of(along.axis, along.table.rank()), Combine::none,
                                     x.where);
}
SINTER_DECL Tensor index_select(const In& x, int axis, const In& indices) {
  const Tensor table(x.tensor()), list(indices.tensor());
  axis = normalise_axis(axis, table.rank(), "index_select", x.where);
  if (list.rank() > 1)
    throw ShapeError("index_select", "the indices are " + list.shape().text(), x.where,
                     "a list is required; take has indices of any shape");
  const Tensor at = reshape(In(list, x.where), Shape{list.shape().numel()});
  return take(In(table, x.where), In(expr_detail::counted_from_start(at.impl(), table.shape()[axis], x.where), x.where),
              axis);
}

SINTER_DECL Tensor scatter(const In& x, int axis, const In& index, const In& src) {
  return expr_detail::scatter_along(x, axis, index, src, Combine::none, "scatter");
}
SINTER_DECL Tensor scatter_add(const In& x, int axis, const In& index, const In& src) {
  return expr_detail::scatter_along(x, axis, index, src, Combine::add, "scatter_add");
}
SINTER_DECL Tensor scatter_reduce(const In& x, int axis, const In& index, const In& src, ScatterReduction reduction,
                                  ScatterReduceOptions options) {
  constexpr Combine combiners[] = {Combine::add, Combine::mul, Combine::add, Combine::max, Combine::min};
  if (reduction > ScatterReduction::amin)
    throw UserError(
        "scatter_reduce",
        "reduction has the value " + std::to_string(static_cast<int>(reduction)) + ", which is no ScatterReduction",
        x.where);
  const Combine combine = combiners[as_index(reduction)];
  const auto scattered = [&](const Tensor& base, const In& values, Combine by) {
    return expr_detail::scatter_along(In(base, x.where), axis, index, values, by, "scatter_reduce");
  };
  Tensor base(x.tensor());
  if (reduction == ScatterReduction::mean && base.dtype() == DType::f16) {
    const Tensor wide = cast(In(base, x.where), DType::f32);
    return cast(In(scatter_reduce(In(wide, x.where), axis, index, src, reduction, options), x.where), DType::f16);
  }
  if (!options.include_self)
    base = scattered(base, In(Tensor(expr_detail::neutral_like(base, {}, combine, x.where)), x.where), Combine::none);
  const Tensor out = scattered(base, src, combine);
  if (reduction != ScatterReduction::mean) return out;
  const TensorOptions counts{.dtype = DType::i64, .device = base.device()};
  Tensor count = ones(base.shape(), counts, x.where);
  if (!options.include_self) count = scattered(count, In(zeros({}, counts, x.where), x.where), Combine::none);
  return expr_detail::divided(out, scattered(count, In(ones({}, counts, x.where), x.where), Combine::add), x.where);
}

SINTER_DECL Tensor index_add(const In& x, int axis, const In& indices, const In& source, const Scalar& alpha) {
  const bool is_one = alpha.is_number() && alpha.number() == 1;
  const Tensor given(source.tensor());
  // Bytes do not hold their multiples, x does; x need not hold what becomes smaller.
  const DType to = x.leaf.value ? x.leaf.value->type.dtype : given.dtype();
  const bool is_whole = !is_differentiable(given.dtype()) && to != DType::bool_ && can_promote(to, given.dtype());
  const Tensor values = is_one || !is_whole ? given : Tensor(cast(In(given, x.where), promote(to, given.dtype())));
  const Tensor scaled = is_one ? values : Tensor(values * alpha);
  return expr_detail::scatter_list(x, axis, indices, In(scaled, x.where), Combine::add, "index_add");
}
SINTER_DECL Tensor index_copy(const In& x, int axis, const In& indices, const In& source) {
  return expr_detail::scatter_list(x, axis, indices, source, Combine::none, "index_copy");
}
SINTER_DECL Tensor index_fill(const In& x, int axis, const In& indices, const In& value) {
  return expr_detail::scatter_list(x, axis, indices, value, Combine::none, "index_fill");
}
SINTER_DECL Tensor index_put(const In& x, std::span<const Tensor> indices, const In& values, IndexPutOptions options) {
  const Tensor base(x.tensor());
  if (indices.empty() || static_cast<int>(indices.size()) > base.rank())
    throw IndexError("index_put",
                     std::to_string(indices.size()) + " index tensors for a tensor of shape " + base.shape().text(),
                     x.where);
  const expr_detail::JoinedIndex joined = expr_detail::join_indices(base.shape(), 0, indices, "index_put", x.where);
  Shape shape = joined.index.shape();
  for (int i = joined.count; i < base.rank(); ++i) shape.push_back(base.shape()[i]);
  const Tensor table = reshape(In(base, x.where), joined.joined(base.shape()));
  const Tensor value = expand(In(expr_detail::beside(base, expr_detail::values_for(base, values)), x.where), shape);
  const Combine combine = options.accumulate ? Combine::add : Combine::none;
  return reshape(In(expr_detail::record_scatter(table, joined.index, value, {}, combine, x.where), x.where),
                 base.shape());
}
SINTER_DECL Tensor index_put(const In& x, std::initializer_list<Tensor> indices, const In& values,
                             IndexPutOptions options) {
  return index_put(x, std::span<const Tensor>(indices.begin(), indices.size()), values, options);
}
SINTER_DECL Tensor put(const In& x, const In& indices, const In& values, IndexPutOptions options) {
  const Tensor given(x.tensor());
  const Tensor flat = reshape(In(given, x.where), Shape{given.shape().numel()});
  return reshape(In(index_put(In(flat, x.where), {Tensor(indices.tensor())}, values, options), x.where), given.shape());
}
SINTER_DECL Tensor index_reduce(const In& x, int axis, const In& indices, const In& source, ScatterReduction reduction,
                                ScatterReduceOptions options) {
  const Tensor given(x.tensor()), list(indices.tensor()), slices(source.tensor());
  axis = normalise_axis(axis, given.rank(), "index_reduce", x.where);
  if (list.rank() != 1 || slices.rank() != given.rank() || !(list.shape()[0] == slices.shape()[axis]))
    throw ShapeError("index_reduce",
                     "x is " + given.shape().text() + ", the indices are " + list.shape().text() + ", source is " +
                         slices.shape().text(),
                     x.where, "give one index for each slice of source along axis " + std::to_string(axis));
  Shape along;
  for (int i = 0; i < given.rank(); ++i) along.push_back(i == axis ? list.shape()[0] : Dim(1));
  const Tensor wide = expand(In(reshape(In(list, x.where), along), x.where), slices.shape());
  return scatter_reduce(In(given, x.where), axis, In(wide, x.where), In(slices, x.where), reduction, options);
}
/// What is true for the k-th time takes element k - 1.
SINTER_DECL Tensor masked_scatter(const In& x, const In& mask, const In& source) {
  const Tensor given(x.tensor()), chosen(mask.tensor()), elements(source.tensor());
  if (chosen.dtype() != DType::bool_)
    throw DTypeError("masked_scatter", "the mask is " + std::string(name(chosen.dtype())), x.where,
                     "compare first: mask != 0");
  const Tensor wide = expand(In(chosen, x.where), given.shape());
  const Tensor count = cumsum(In(reshape(In(wide, x.where), Shape{given.shape().numel()}), x.where), 0);
  const Tensor at = reshape(In(Tensor(maximum(Tensor(count - 1), 0, x.where)), x.where), given.shape());
  const Tensor list = cast(In(reshape(In(elements, x.where), Shape{elements.shape().numel()}), x.where), given.dtype());
  return where(wide, take(In(list, x.where), In(at, x.where), 0), given, x.where);
}
SINTER_DECL std::vector<Tensor> unravel_index(const In& positions, const Shape& shape) {
  std::vector<Tensor> out(as_index(shape.rank()));
  Tensor rest(positions.tensor());
  for (int axis = shape.rank(); axis-- > 0;) {
    const Tensor extent = cast(In(shape[axis], positions.where), rest.dtype());
    out[as_index(axis)] = axis == 0 ? rest : Tensor(remainder(rest, extent, positions.where));
    if (axis > 0) rest = floor_divide(rest, extent, positions.where);
  }
  return out;
}
SINTER_DECL Tensor masked_fill(const In& x, const In& mask, const In& value) {
  const Tensor given(x.tensor());
  const Tensor number = cast(value, given.dtype());
  return where(Tensor(mask.tensor()), number, given, x.where);
}

SINTER_DECL Tensor segment_sum(const In& x, const In& ids, Dim segments) {
  return expr_detail::reduce_segments(x, ids, segments, Combine::add, "segment_sum");
}
SINTER_DECL Tensor segment_mean(const In& x, const In& ids, Dim segments) {
  const Tensor given(x.tensor());
  if (given.dtype() == DType::f16)  // a sum may be beyond its range, where the mean is not
    return cast(In(segment_mean(In(cast(In(given, x.where), DType::f32), x.where), ids, segments), x.where),
                DType::f16);
  const Tensor sums = expr_detail::reduce_segments(x, ids, segments, Combine::add, "segment_mean");
  Shape column{segments};
  for (int i = 1; i < sums.rank(); ++i) column.push_back(1);
  return expr_detail::divided(sums, reshape(In(bincount(ids, segments), x.where), column), x.where);
}
SINTER_DECL Tensor segment_min(const In& x, const In& ids, Dim segments) {
  return expr_detail::reduce_segments(x, ids, segments, Combine::min, "segment_min");
}
SINTER_DECL Tensor segment_max(const In& x, const In& ids, Dim segments) {
  return expr_detail::reduce_segments(x, ids, segments, Combine::max, "segment_max");
}

SINTER_DECL Tensor expr_detail::occurrences(const In& x, Dim bins) {
  const Tensor given(x.tensor());
  return bincount(x, bins,
                  In(full(given.shape(), 1, {.dtype = DType::i64, .device = given.device()}, x.where), x.where));
}
SINTER_DECL Tensor bincount(const In& x, Dim bins, const In& weights) {
  const Tensor given = expr_detail::counted(x, "bincount"), weight(weights.tensor());
  if (!(given.shape() == weight.shape()))
    throw ShapeError("bincount", "x is " + given.shape().text() + ", the weights are " + weight.shape().text(),
                     x.where);
  const Shape flat{given.shape().numel()};
  const Tensor counts = zeros(Shape{bins}, {.dtype = weight.dtype(), .device = given.device()}, x.where);
  return expr_detail::record_scatter(counts, reshape(In(given, x.where), flat), reshape(In(weight, x.where), flat), {},
                                     Combine::add, x.where);
}
namespace expr_detail {
/// One more than the largest of these numbers, and at least `least`; 1 where all are negative, for the error.
inline Dim counted_numbers(const Tensor& numbers, Dim least, Location where) {
  if (numbers.impl()->trace != 0)
    throw TraceError("bincount", "the largest number is data, and the function is traced", where,
                     "state how many numbers are counted: bincount(x, bins)");
  if (is_at_most(numbers.numel(), 0)) return least;
  const auto largest = item<std::int64_t>(In(amax(cast(In(numbers, where), DType::i64)), where));
  if (largest >= std::int64_t{1} << 40)
    throw UserError("bincount", "the largest number is " + std::to_string(largest), where,
                    "count them with unique(x), or state how many numbers are counted: bincount(x, bins)");
  const Dim most(std::max<std::int64_t>(largest, 0) + 1);
  return is_at_most(least, most) ? most : least;
}
}  // namespace expr_detail
SINTER_DECL Tensor bincount(const In& x, BincountOptions options) {
  const Tensor given = expr_detail::counted(x, "bincount");
  const Dim bins = expr_detail::counted_numbers(given, options.minlength, x.where);
  const In numbers(given, x.where);
  return options.weights ? bincount(numbers, bins, In(*options.weights, x.where)) : bincount(numbers, bins);
}

namespace expr_detail {
/// Where a part of shape `sizes` begins: for each axis that it does not fill, a start that lies inside.
struct PartIndex {
  int axis = 0, count = 0;  // the axes between the first and the last such one
  Tensor index;             // of these axes joined; i64, of their extents in `sizes`
};

/// What the index of a part is: starts are moved to where the part fits, so that none is out of range.
inline PartIndex part_index(const Shape& whole, std::span<const Index> starts, const Shape& sizes, std::string_view op,
                            Location where, Device device) {
  if (static_cast<int>(starts.size()) != whole.rank() || sizes.rank() != whole.rank())
    throw ShapeError(
        op,
        "x is " + whole.text() + ", the part " + sizes.text() + ", with " + std::to_string(starts.size()) + " starts",
        where, "one start and one size for each axis");
  int first = whole.rank(), last = -1;
  for (int i = 0; i < whole.rank(); ++i) {
    if (identical(whole[i], sizes[i])) continue;
    if (!is_at_most(sizes[i], whole[i]))
      throw ShapeError(op, "a part of " + sizes.text() + " does not fit " + whole.text(), where);
    first = std::min(first, i);
    last = i;
  }
  PartIndex out;
  out.axis = first;
  out.count = last - first + 1;
  const TensorOptions options{.dtype = DType::i64, .device = device};
  for (int i = first; i <= last; ++i) {
    Tensor at = arange(sizes[i], options, where);
    if (!identical(whole[i], sizes[i])) {
      const Index& start = starts[as_index(i)];
      if (start.kind != Index::Kind::position && start.kind != Index::Kind::gather)
        throw IndexError(op, "start " + std::to_string(i) + " is a slice", where, "starts are whole numbers");
      const Tensor given =
          start.kind == Index::Kind::position ? Tensor(In(start.position, where).tensor()) : Tensor(start.indices);
      if (given.rank() != 0 || !is_integer(given.dtype()))
        throw IndexError(
            op, "start " + std::to_string(i) + " is " + std::string(name(given.dtype())) + given.shape().text(), where,
            "a start is one whole number");
      const Tensor room = Tensor(In(whole[i] - sizes[i], where).tensor());
      // From 2^63 on u64 would be negative as i64.
      const Tensor near = given.dtype() == DType::u64
                              ? Tensor(minimum(given, Tensor(cast(In(room, where), DType::u64)), where))
                              : given;
      const Tensor inside = minimum(maximum(cast(In(near, where), DType::i64), 0), room);
      at = at + inside;
    }
    Shape column;
    for (int k = first; k <= last; ++k) column.push_back(k == i ? sizes[i] : Dim(1));
    const Tensor spread = reshape(In(at, where), column);
    out.index = i == first ? spread : Tensor(out.index * whole[i] + spread);
  }
  return out;
}
inline JoinedIndex joined_axes(const PartIndex& part) {
  return {.index = part.index, .axis = part.axis, .count = part.count};
}
}  // namespace expr_detail

SINTER_DECL Tensor dynamic_slice(const In& x, std::span<const Index> starts, const Shape& sizes) {
  const Tensor table(x.tensor());
  const auto part = expr_detail::part_index(table.shape(), starts, sizes, "dynamic_slice", x.where, table.device());
  if (part.count <= 0) return table;
  const Shape joined = expr_detail::joined_axes(part).joined(table.shape());
  return expr_detail::record_take(reshape(In(table, x.where), joined), part.index,
                                  {.axis = part.axis, .in_range = true}, x.where);
}
SINTER_DECL Tensor dynamic_slice(const In& x, std::initializer_list<Index> starts, const Shape& sizes) {
  return dynamic_slice(x, std::span<const Index>(starts.begin(), starts.size()), sizes);
}
namespace expr_detail {
/// Where a part begins, moved inside; nothing where that is not known when it is recorded.
inline std::optional<Shape> known_starts(const Shape& whole, std::span<const Index> starts, const Shape& sizes) {
  Shape known;
  if (static_cast<int>(starts.size()) != whole.rank() || sizes.rank() != whole.rank()) return std::nullopt;
  for (int i = 0; i < whole.rank(); ++i) {
    const Index& start = starts[as_index(i)];
    if (identical(whole[i], sizes[i])) {
      known.push_back(0);
      continue;
    }
    const bool is_known = start.kind == Index::Kind::position && start.position.is_static() && whole[i].is_static() &&
                          sizes[i].is_static() && sizes[i].value() <= whole[i].value();
    if (!is_known) return std::nullopt;
    known.push_back(std::clamp<std::int64_t>(start.position.value(), 0, whole[i].value() - sizes[i].value()));
  }
  return known;
}
}  // namespace expr_detail

SINTER_DECL Tensor dynamic_update_slice(const In& x, const In& update, std::span<const Index> starts) {
  const Tensor table(x.tensor()), value(update.tensor());
  if (const auto known = expr_detail::known_starts(table.shape(), starts, value.shape())) {
    if (identical(table.shape(), value.shape())) return cast(In(value, x.where), table.dtype());
    const Tensor part = cast(In(value, x.where), table.dtype());
    Attrs attrs;
    attrs.set(ops::UpdateSlice::starts, *known);
    attrs.set(ops::UpdateSlice::steps, IntVector(as_index(table.rank()), 1));
    return expr_detail::record<ops::UpdateSlice>({Leaf(table.impl()), Leaf(part.impl())}, std::move(attrs), x.where);
  }
  const auto part =
      expr_detail::part_index(table.shape(), starts, value.shape(), "dynamic_update_slice", x.where, table.device());
  if (part.count <= 0) return cast(In(value, x.where), table.dtype());
  const Shape joined = expr_detail::joined_axes(part).joined(table.shape());
  const Tensor changed = expr_detail::record_scatter(reshape(In(table, x.where), joined), part.index, value,
                                                     {.axis = part.axis, .in_range = true}, Combine::none, x.where);
  return reshape(In(changed, x.where), table.shape());
}
SINTER_DECL Tensor dynamic_update_slice(const In& x, const In& update, std::initializer_list<Index> starts) {
  return dynamic_update_slice(x, update, std::span<const Index>(starts.begin(), starts.size()));
}

SINTER_NAMESPACE_END
