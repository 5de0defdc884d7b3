// Shapes, derivatives and batching of ops that order, and the walks over rows in which the host runs them.
#pragma once

#include <sinter/ops/order.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/leaf.hpp>
#include <sinter/ops/order_rows.hpp>
#include <sinter/ops/row_groups.hpp>
#include <sinter/ops/take.hpp>
#include <sinter/ops/value_rows.hpp>

#include <algorithm>
#include <cmath>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

// ---- what these ops share -------------------------------------------------------------------------------------------

/// Values of x's dtype and their positions, both of `shape`.
inline void infer_ordered(const InferArgs& args, const Shape& shape, ops::OrderedPart part, TypeList& out) {
  if (part != ops::OrderedPart::indices) out.push_back(with_shape(args, shape));
  if (part != ops::OrderedPart::values) out.push_back(with_shape(args, shape, DType::i64));
}
inline void prune_ordered(const PruneArgs& args, const OpAttr<ops::OrderedPart>& part) {
  if (args.node.types.size() != 2 || (args.used[0] != 0 && args.used[1] != 0)) return;
  const std::size_t kept = args.used[0] != 0 ? 0 : 1;
  args.node.edit_attrs(
      [&](Attrs& attrs) { attrs.set(part, kept == 0 ? ops::OrderedPart::values : ops::OrderedPart::indices); });
  args.node.types = TypeList{args.node.types[kept]};
  args.kept_results.push_back(static_cast<std::int32_t>(kept));
}
/// All results of a node that has just been added: its first one is given.
inline void push_results(Val first, std::size_t count, BatchedList& results) {
  for (std::size_t r = 0; r < count; ++r) {
    Val result = first;
    result.value.result = static_cast<std::int32_t>(r);
    results.push_back(result);
  }
}
inline void batch_ordered(const BatchArgs& a, const OpAttr<ops::OrderedPart>& part, BatchedList& results) {
  push_results(batch_along_axes(a).value, a.attrs[part] == ops::OrderedPart::both ? 2 : 1, results);
}

/// The gradient goes to where the values came from.
inline ValList ordered_vjp(const VjpArgs& a, const OpAttr<ops::OrderedPart>& part, ReducedAxes reduced) {
  const bool has_values = a.attrs[part] != ops::OrderedPart::indices;
  if (!has_values || !a.dout) return {Val{}};
  const Val x = a.in[0];
  const int axis = normalise_axis(static_cast<int>(a.attrs.axes[0]), x.rank(), "order", a.where);
  Val indices;
  if (a.attrs[part] == ops::OrderedPart::both) indices = a.outs[1];
  else {
    Attrs attrs = a.attrs;
    attrs.set(part, ops::OrderedPart::indices);
    indices = apply(*a.out.builder->node(a.out.value).op, {x}, std::move(attrs));
  }
  Val gradient = a.dout;
  if (reduced == ReducedAxes::dropped) {
    Shape kept_shape = x.shape();
    kept_shape.set(axis, 1);
    indices = reshape(indices, kept_shape);
    gradient = reshape(gradient, kept_shape);
  }
  const Val zeros = full(gradient, x.shape(), gradient.dtype(), 0);
  return {apply(op_info<ops::Scatter>, {zeros, indices, gradient},
                Attrs{.axes = {axis}}
                    .with(ops::Scatter::shared, axis)
                    .with(ops::Scatter::inner, x.rank() - 1 - axis)
                    .with(ops::Scatter::combine, Combine::add))};
}

/// Where the results of a row go: `stride` elements from one to the next; null where nobody reads them.
template <class T>
struct RowResults {
  T* values;
  std::int64_t* indices;
  std::int64_t stride;

  RowResults(const HostCall& call, ops::OrderedPart part, std::int64_t offset, std::int64_t step)
      : values(part == ops::OrderedPart::indices ? nullptr : call.out[0].as<T>() + offset),
        indices(part == ops::OrderedPart::values ? nullptr : call.out.back().template as<std::int64_t>() + offset),
        stride(step) {}
  void put(std::int64_t at, const RowView<T>& row, std::int64_t position) const {
    if (values != nullptr) values[at * stride] = row.at(position);
    if (indices != nullptr) indices[at * stride] = position;
  }
};

// ---- sort -----------------------------------------------------------------------------------------------------------

inline double sorting_nanoseconds(std::int64_t length) { return 8.0 * static_cast<double>(length) + 20; }

inline std::size_t sort_bytes(const RowAxis& axis) { return as_index(2 * axis.length) * sizeof(Packed); }
#ifndef SINTER_NO_X86
inline constexpr std::int64_t longest_lane_row = 8192, longest_lane_column = 65536, fewest_lane_rows = 3;  // measured
/// Whether rows are sorted in the lanes of vectors. Those that stand beside each other are there already.
inline bool has_lane_rows(const RowAxis& axis) {
  return axis.length <= (axis.stride < 8 ? longest_lane_row : longest_lane_column) &&
         axis.outer * axis.stride >= fewest_lane_rows && has_lanes();
}

/// The memory of groups of rows that are sorted in lanes: of each group that runs at the same time keys, and `more`
/// bytes.
template <class T>
struct LaneShares {
  using Rows = LaneRows<T>;
  std::int64_t rows, groups, parts;
  std::size_t keys, piece;
  LaneShares(const RowAxis& axis, std::size_t more)
      : rows(axis.outer * axis.stride),
        groups((rows + Rows::count - 1) / Rows::count),
        parts(std::min<std::int64_t>(groups, std::int64_t{4} * thread_count())),
        keys(as_index(Rows::padded(axis.length)) * sizeof(typename Rows::Vector)),
        piece(keys + (more + 63) / 64 * 64) {}
  char* memory(HostCall& call) const {
    auto* start = static_cast<char*>(call.scratch(0, piece * as_index(parts) + 64));
    return start + (64 - reinterpret_cast<std::uintptr_t>(start) % 64) % 64;
  }
};

/// Asks for the memory that for_each_lane_group will ask for.
template <class T>
void prepare_lane_groups(HostCall& call, const RowAxis& axis, std::size_t more) {
  if constexpr (has_value_keys<T>)
    if (has_lane_rows(axis) && axis.length > 0) LaneShares<T>(axis, more).memory(call);
}

/// Sorts rows in lanes. Calls use(rows, keys, tied, first, used, more) for each group: the first row's number, how many
/// rows there are, a bit for each that has ties, and so many bytes of memory as `more` says.
template <class T, class F>
void for_each_lane_group(HostCall& call, const RowAxis& axis, Direction direction, std::size_t more, F&& use) {
  using Rows = LaneRows<T>;
  if (axis.length == 0) return;
  const LaneShares<T> shares(axis, more);
  const std::int64_t rows = shares.rows, groups = shares.groups, parts = shares.parts;
  char* const memory = shares.memory(call);
  const auto run_group = [&](std::int64_t group, typename Rows::Vector* keys) {
    const std::int64_t first = group * Rows::count, used = std::min<std::int64_t>(Rows::count, rows - first);
    Rows view{{}, axis.length, axis.stride, false, direction};
    for (int lane = 0; lane < Rows::count; ++lane)
      view.rows[lane] = call.in[0].as<T>() + axis.offset_of(first + std::min<std::int64_t>(lane, used - 1));
    view.are_adjacent = used == Rows::count && axis.stride > 1 && first % axis.stride + Rows::count <= axis.stride;
    const unsigned tied = view.load(keys);
    LaneSort<ValueKey<T>>::sort(keys, Rows::padded(axis.length));
    use(view, keys, tied, first, static_cast<int>(used), reinterpret_cast<char*>(keys) + shares.keys);
  };
  const double nanoseconds = 2.0 * Rows::count * static_cast<double>(axis.length) + 100;
  parallel_for(parts, nanoseconds * static_cast<double>(groups) / static_cast<double>(parts),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t part = begin; part < end; ++part)
                   for (std::int64_t group = groups * part / parts; group < groups * (part + 1) / parts; ++group)
                     run_group(group, reinterpret_cast<typename Rows::Vector*>(memory + shares.piece * as_index(part)));
               });
}
template <class T>
void sort_lane_rows(HostCall& call, const RowAxis& axis, Direction direction) {
  for_each_lane_group<T>(call, axis, direction, 0,
                         [&](const LaneRows<T>& rows, const typename LaneRows<T>::Vector* keys, unsigned tied,
                             std::int64_t first, int used, void*) {
                           T* results[as_index(LaneRows<T>::count)] = {};
                           for (int lane = 0; lane < used; ++lane)
                             results[lane] = call.out[0].as<T>() + axis.offset_of(first + lane);
                           rows.store(keys, results, used);
                           for (int lane = 0; lane < used; ++lane)
                             if ((tied >> lane & 1u) != 0)
                               restore_ties(rows.rows[lane], results[lane], axis.length, axis.stride);
                         });
}
#endif

/// Sorts values alone, if that is quicker than by way of positions.
template <class T>
bool sort_values(HostCall& call, const RowAxis& axis, Direction direction) {
#ifndef SINTER_NO_X86
  if (has_lane_rows(axis)) {
    sort_lane_rows<T>(call, axis, direction);
    return true;
  }
#endif
  if (sizeof(T) != 4 || axis.length <= comparison_length) return false;
  if constexpr (sizeof(T) == 4) {
    const std::size_t half = (as_index(axis.length) * sizeof(std::uint32_t) + 63) / 64 * 64;
    for_each_row(call, axis, 2 * half, sorting_nanoseconds(axis.length), [&](const RowPlace& place) {
      auto* keys = static_cast<std::uint32_t*>(place.memory);
      const RowView<T> row{call.in[0].as<T>() + place.offset, axis.length, axis.stride, direction};
      sort_long_row(row, call.out[0].as<T>() + place.offset, keys, keys + half / sizeof(std::uint32_t), place.threads);
    });
  }
  return true;
}

template <class T>
void run_sort(HostCall& call) {
  const RowAxis axis(call, call.in[0].shape);
  const Direction direction = call.attrs[ops::Sort::descending] ? Direction::descending : Direction::ascending;
  const auto part = call.attrs[ops::Sort::part];
  if constexpr (has_value_keys<T>)
    if (part == ops::OrderedPart::values && sort_values<T>(call, axis, direction)) return;
  for_each_row(call, axis, sort_bytes(axis), sorting_nanoseconds(axis.length), [&](const RowPlace& place) {
    auto* entries = static_cast<Packed*>(place.memory);
    const RowView<T> row{call.in[0].as<T>() + place.offset, axis.length, axis.stride, direction};
    const Packed* sorted = sort_row(row, entries, entries + axis.length, place.threads);
    const RowResults<T> results(call, part, place.offset, axis.stride);
    blocks_of(axis.length, place.threads).for_each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) results.put(i, row, position_of(sorted[i]));
    });
  });
}

// ---- topk -----------------------------------------------------------------------------------------------------------

template <class T>
std::size_t topk_bytes(const RowAxis& axis, std::int64_t count) {
  return as_index(std::max(selection_room(axis.length, count, axis.stride), count)) * sizeof(RowEntry<T>);
}

template <class T>
void run_topk(HostCall& call) {
  const RowAxis axis(call, call.in[0].shape);
  const std::int64_t count = call.value_of(call.attrs[ops::Topk::count]);
  if (count > axis.length)
    throw ShapeError("topk", std::to_string(count) + " elements of " + std::to_string(axis.length) + " are asked for",
                     call.where);
  const Direction direction = call.attrs[ops::Topk::smallest] ? Direction::ascending : Direction::descending;
  const auto part = call.attrs[ops::Topk::part];
  const bool in_place = call.attrs[ops::Topk::in_place];
  const double nanoseconds = 0.5 * static_cast<double>(axis.length) + 20;
  for_each_row(call, axis, topk_bytes<T>(axis, count), nanoseconds, [&](const RowPlace& place) {
    auto* entries = static_cast<RowEntry<T>*>(place.memory);
    const RowView<T> row{call.in[0].as<T>() + place.offset, axis.length, axis.stride, direction};
    select_first(row, count, entries);
    if (in_place)
      std::sort(entries, entries + count,
                [](const RowEntry<T>& a, const RowEntry<T>& b) { return position_of(a) < position_of(b); });
    const RowResults<T> results(call, part, axis.place_in(place, count), axis.stride);
    for (std::int64_t i = 0; i < count; ++i) results.put(i, row, position_of(entries[i]));
  });
}

// ---- order_statistic ------------------------------------------------------------------------------------------------

/// The position of element number `rank` of the order.
template <class T>
std::int64_t position_of_rank(const RowView<T>& row, std::int64_t rank, RowEntry<T>* entries) {
  for (std::int64_t i = 0; i < row.length; ++i) entries[i] = entry_of(row.key(i), i);
  std::nth_element(entries, entries + rank, entries + row.length);
  return position_of(entries[rank]);
}

/// Of the runs of equal elements the longest, of these the first: the position of its last element.
template <class T>
std::int64_t position_of_mode(const RowView<T>& row, void* memory) {
  auto* entries = static_cast<Packed*>(memory);
  const Packed* sorted = sort_row(row, entries, entries + row.length, RowThreads::one);
  std::int64_t longest = 0, position = 0;
  for (std::int64_t begin = 0, end = 1; begin < row.length; begin = end++) {
    const auto key = row.key(position_of(sorted[begin]));
    while (end < row.length && row.key(position_of(sorted[end])) == key) ++end;
    if (end - begin <= longest) continue;
    longest = end - begin;
    position = position_of(sorted[end - 1]);
  }
  return position;
}

template <class T>
std::int64_t position_of_statistic(const RowView<T>& row, ops::OrderStatisticKind kind, std::int64_t rank,
                                   void* memory) {
  using Kind = ops::OrderStatisticKind;
  if (kind == Kind::mode) return position_of_mode(row, memory);
  if (kind == Kind::median || kind == Kind::nanmedian) {
    std::int64_t numbers = 0, first_nan = row.length;
    for (std::int64_t i = row.length; i-- > 0;) {
      const bool is_number = !is_not_a_number(row.at(i));
      numbers += is_number;
      if (!is_number) first_nan = i;
    }
    if (numbers == 0 || (kind == Kind::median && numbers < row.length)) return first_nan;
    rank = (numbers - 1) / 2;
  }
  return position_of_rank(row, rank, static_cast<RowEntry<T>*>(memory));
}

/// The value of a median, or of a rank, of a sorted row; `at(i)` is its element i.
template <class At>
auto value_of_statistic(At&& at, std::int64_t length, ops::OrderStatisticKind kind, std::int64_t rank) {
  using Kind = ops::OrderStatisticKind;
  if (kind == Kind::rank) return at(rank);
  std::int64_t numbers = length;
  while (numbers > 0 && is_not_a_number(at(numbers - 1))) --numbers;
  return at(numbers == 0 || (kind == Kind::median && numbers < length) ? length - 1 : (numbers - 1) / 2);
}
/// Values alone, if that is quicker than by way of positions.
template <class T>
bool find_values(HostCall& call, const RowAxis& axis, ops::OrderStatisticKind kind, std::int64_t rank) {
  if (kind == ops::OrderStatisticKind::mode) return false;
  T* out = call.out[0].as<T>();
  const auto of_tied = [&](const T* first, void* memory) {
    const RowView<T> row{first, axis.length, axis.stride};
    return row.at(position_of_statistic(row, kind, rank, memory));
  };
#ifndef SINTER_NO_X86
  if (has_lane_rows(axis)) {
    using Rows = LaneRows<T>;
    const auto use = [&](const Rows& rows, const typename Rows::Vector* keys, unsigned tied, std::int64_t first,
                         int used, void* entries) {
      for (int lane = 0; lane < used; ++lane)
        if ((tied >> lane & 1u) == 0)
          out[first + lane] =
              value_of_statistic([&](std::int64_t i) { return rows.element(keys, i, lane); }, axis.length, kind, rank);
      for (int lane = 0; lane < used; ++lane)
        if ((tied >> lane & 1u) != 0) out[first + lane] = of_tied(rows.rows[lane], entries);
    };
    for_each_lane_group<T>(call, axis, Direction::ascending, as_index(axis.length) * sizeof(RowEntry<T>), use);
    return true;
  }
#endif
  if (sizeof(T) != 4 || axis.length <= comparison_length) return false;
  if constexpr (sizeof(T) == 4)
    for_each_row(call, axis, as_index(axis.length) * sizeof(RowEntry<T>), 3.0 * static_cast<double>(axis.length) + 20,
                 [&](const RowPlace& place) {
                   const RowView<T> row{call.in[0].as<T>() + place.offset, axis.length, axis.stride};
                   T& result = out[axis.place_in(place, 1)];
                   if (row_has_ties(row)) result = of_tied(row.first, place.memory);
                   else
                     result = element_of_rank(row, kind == ops::OrderStatisticKind::rank ? rank : (axis.length - 1) / 2,
                                              static_cast<std::uint32_t*>(place.memory));
                 });
  return true;
}

template <class T>
std::size_t order_statistic_bytes(const RowAxis& axis) {
  return as_index(axis.length) * std::max(sizeof(RowEntry<T>), 2 * sizeof(Packed));
}

template <class T>
void run_order_statistic(HostCall& call) {
  using Op = ops::OrderStatistic;
  const RowAxis axis(call, call.in[0].shape);
  const auto kind = call.attrs[Op::kind];
  const std::int64_t rank = kind == ops::OrderStatisticKind::rank ? call.value_of(call.attrs[Op::rank]) : 0;
  if (axis.outer * axis.stride > 0 && rank >= axis.length)
    throw ShapeError("order_statistic",
                     "element " + std::to_string(rank) + " of " + std::to_string(axis.length) + " is asked for",
                     call.where);
  const auto part = call.attrs[Op::part];
  if constexpr (has_value_keys<T>)
    if (part == ops::OrderedPart::values && find_values<T>(call, axis, kind, rank)) return;
  const double nanoseconds = 4.0 * static_cast<double>(axis.length) + 20;
  for_each_row(call, axis, order_statistic_bytes<T>(axis), nanoseconds, [&](const RowPlace& place) {
    const RowView<T> row{call.in[0].as<T>() + place.offset, axis.length, axis.stride};
    const RowResults<T> results(call, part, axis.place_in(place, 1), 1);
    results.put(0, row, position_of_statistic(row, kind, rank, place.memory));
  });
}

// ---- searchsorted ---------------------------------------------------------------------------------------------------

/// How many elements of a row come before each of `count` numbers: all searches take the same steps, without branches,
/// and do not wait for each other.
template <class T, bool or_equal, std::size_t count>
void count_before(const T* sorted, std::int64_t length, const T* x, std::int64_t* out) {
  KeyOf<T> key[count];
  std::int64_t first[count] = {};
  for (std::size_t j = 0; j < count; ++j) key[j] = order_key(x[j]);
  const auto is_before = [&](std::int64_t place, std::size_t j) {
    const auto other = order_key(sorted[place]);
    return or_equal ? other <= key[j] : other < key[j];
  };
  for (; length > 1; length -= length / 2)
    for (std::size_t j = 0; j < count; ++j) first[j] += is_before(first[j] + length / 2 - 1, j) ? length / 2 : 0;
  for (std::size_t j = 0; j < count; ++j) out[j] = first[j] + (length == 1 && is_before(first[j], j) ? 1 : 0);
}
template <class T, bool or_equal>
void count_before(const T* sorted, std::int64_t length, const T* x, std::int64_t numbers, std::int64_t* out) {
  constexpr std::int64_t together = 8;
  std::int64_t i = 0;
  for (; i + together <= numbers; i += together) count_before<T, or_equal, 8>(sorted, length, x + i, out + i);
  for (; i < numbers; ++i) count_before<T, or_equal, 1>(sorted, length, x + i, out + i);
}

template <class T>
void run_searchsorted(HostCall& call) {
  const Shape& shape = call.in[0].shape;
  const std::int64_t length = shape[-1].value(), numbers = call.in[1].numel;
  const bool is_one_row = shape.rank() == 1, or_equal = call.attrs[ops::Searchsorted::right];
  const std::int64_t per_row = is_one_row || numbers == 0 ? numbers : call.in[1].shape[-1].value();
  const T *rows = call.in[0].as<T>(), *x = call.in[1].as<T>();
  auto* out = call.out[0].as<std::int64_t>();
  const double each = per_row < 8 ? 3.0 : 1.0;  // numbers of one row are searched for together
  const double nanoseconds = each * (std::log2(static_cast<double>(length) + 2) + 1);
  parallel_for(numbers, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {  // those of one row
      const std::int64_t row = begin / per_row, stop = std::min(end, (row + 1) * per_row);
      const T* sorted = rows + (is_one_row ? 0 : row * length);
      if (or_equal) count_before<T, true>(sorted, length, x + begin, stop - begin, out + begin);
      else count_before<T, false>(sorted, length, x + begin, stop - begin, out + begin);
      begin = stop;
    }
  });
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL void Sort::infer(const InferArgs& args, TypeList& out) {
  ops_detail::first_axis(args);
  ops_detail::infer_ordered(args, args.in[0].shape, args.attrs[part], out);
}
SINTER_DECL void Sort::run_on_host(HostCall& call) {
  visit_dtype(call.in[0].dtype, [&](auto tag) { ops_detail::run_sort<decltype(tag)>(call); });
}
SINTER_DECL void Sort::prepare_on_host(HostCall& call) {
  const ops_detail::RowAxis axis(call, call.in[0].shape);
  ops_detail::prepare_rows(call, axis, ops_detail::sort_bytes(axis));
#ifndef SINTER_NO_X86
  visit_dtype(call.in[0].dtype, [&](auto tag) { ops_detail::prepare_lane_groups<decltype(tag)>(call, axis, 0); });
#endif
}
SINTER_DECL ValList Sort::vjp(const VjpArgs& a) { return ops_detail::ordered_vjp(a, part, kept); }
SINTER_DECL void Sort::batch(const BatchArgs& a, BatchedList& results) { ops_detail::batch_ordered(a, part, results); }
SINTER_DECL void Sort::prune(const PruneArgs& args) { ops_detail::prune_ordered(args, part); }

SINTER_DECL void Topk::infer(const InferArgs& args, TypeList& out) {
  const int axis = ops_detail::first_axis(args);
  ensure(args.attrs.has(count), "topk: the number of elements is required");
  const Dim wanted = args.attrs[count];
  Shape shape = args.in[0].shape;
  if (wanted.is_static() && (wanted.value() < 0 || ops_detail::is_shorter(shape[axis], wanted.value())))
    throw ShapeError(args.op, wanted.text() + " elements along axis " + std::to_string(axis) + " of " + shape.text(),
                     args.where, "at least 0 and at most all of them are possible");
  shape.set(axis, wanted);
  ops_detail::infer_ordered(args, shape, args.attrs[part], out);
}
SINTER_DECL void Topk::run_on_host(HostCall& call) {
  visit_dtype(call.in[0].dtype, [&](auto tag) { ops_detail::run_topk<decltype(tag)>(call); });
}
SINTER_DECL void Topk::prepare_on_host(HostCall& call) {
  const ops_detail::RowAxis axis(call, call.in[0].shape);
  const std::int64_t wanted = std::min(call.value_of(call.attrs[count]), axis.length);  // run_on_host refuses more
  visit_dtype(call.in[0].dtype, [&](auto tag) {
    ops_detail::prepare_rows(call, axis, ops_detail::topk_bytes<decltype(tag)>(axis, wanted));
  });
}
SINTER_DECL ValList Topk::vjp(const VjpArgs& a) { return ops_detail::ordered_vjp(a, part, kept); }
SINTER_DECL void Topk::batch(const BatchArgs& a, BatchedList& results) { ops_detail::batch_ordered(a, part, results); }
SINTER_DECL void Topk::prune(const PruneArgs& args) { ops_detail::prune_ordered(args, part); }

SINTER_DECL void OrderStatistic::infer(const InferArgs& args, TypeList& out) {
  const int axis = ops_detail::first_axis(args);
  const Shape& shape = args.in[0].shape;
  ops_detail::require_nonempty(args, shape);
  if (args.attrs[kind] == OrderStatisticKind::rank) {
    const Dim wanted = args.attrs[rank];
    if (wanted.is_static() && (wanted.value() < 0 || ops_detail::is_shorter(shape[axis], wanted.value() + 1)))
      throw ShapeError(args.op,
                       "element " + wanted.text() + " along axis " + std::to_string(axis) + " of " + shape.text(),
                       args.where, "they are counted from 0");
  }
  ops_detail::infer_ordered(args, ops_detail::reduced_shape(args, shape), args.attrs[part], out);
}
SINTER_DECL void OrderStatistic::run_on_host(HostCall& call) {
  visit_dtype(call.in[0].dtype, [&](auto tag) { ops_detail::run_order_statistic<decltype(tag)>(call); });
}
SINTER_DECL void OrderStatistic::prepare_on_host(HostCall& call) {
  const ops_detail::RowAxis axis(call, call.in[0].shape);
  visit_dtype(call.in[0].dtype, [&](auto tag) {
    using T = decltype(tag);
    ops_detail::prepare_rows(call, axis, ops_detail::order_statistic_bytes<T>(axis));
#ifndef SINTER_NO_X86
    ops_detail::prepare_lane_groups<T>(call, axis, as_index(axis.length) * sizeof(ops_detail::RowEntry<T>));
#endif
  });
}
SINTER_DECL ValList OrderStatistic::vjp(const VjpArgs& a) {
  return ops_detail::ordered_vjp(a, part, ReducedAxes::dropped);
}
SINTER_DECL void OrderStatistic::batch(const BatchArgs& a, BatchedList& results) {
  ops_detail::batch_ordered(a, part, results);
}
SINTER_DECL void OrderStatistic::prune(const PruneArgs& args) { ops_detail::prune_ordered(args, part); }

SINTER_DECL Type Searchsorted::infer(const InferArgs& args) {
  ops_detail::require_same_dtype(args);
  const Shape &sorted = args.in[0].shape, &x = args.in[1].shape;
  bool fits = sorted.rank() == 1 || (sorted.rank() > 1 && sorted.rank() == x.rank());
  for (int i = 0; fits && sorted.rank() > 1 && i + 1 < sorted.rank(); ++i) fits = sorted[i] == x[i];
  if (!fits)
    throw ShapeError(args.op, "the sorted numbers are " + sorted.text() + ", x is " + x.text(), args.where,
                     "they are one row, or have a row for each row of x: all axes but the last are the same");
  return ops_detail::with_shape(args, x, DType::i64);
}
SINTER_DECL void Searchsorted::run_on_host(HostCall& call) {
  visit_dtype(call.in[0].dtype, [&](auto tag) { ops_detail::run_searchsorted<decltype(tag)>(call); });
}
/// Examples become rows: each has numbers of its own, which are one row of them.
SINTER_DECL Batched Searchsorted::batch(const BatchArgs& a) {
  const bool has_one_row = a.in[0].rank() - (a.is_batched(0) ? 1 : 0) == 1;
  if (has_one_row && !a.is_batched(0)) return apply(a.op, a.in, a.attrs);
  const Val sorted = ops_detail::with_batch(a, 0), x = ops_detail::with_batch(a, 1);
  if (!has_one_row) return apply(a.op, {sorted, x}, a.attrs);
  Shape rows{x.shape()[0], 1};
  for (int i = 1; i < x.rank(); ++i) rows.set(1, rows[1] * x.shape()[i]);
  return reshape(apply(a.op, {sorted, reshape(x, rows)}, a.attrs), x.shape());
}

}  // namespace ops
SINTER_NAMESPACE_END
