// Shapes of what is found, and the walks that find it.
#pragma once

#include <sinter/ops/found.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/order_rows.hpp>
#include <sinter/ops/row_groups.hpp>

#include <algorithm>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// The first operand's shape with `size` elements along the last axis.
inline Shape found_shape(const InferArgs& args, const OpAttr<Dim>& size) {
  Shape shape = args.in[0].shape;
  if (shape.rank() == 0) throw ShapeError(args.op, "x is a number", args.where, "it needs an axis: reshape(x, {1})");
  ensure(args.attrs.has(size), "found: the size is required");
  if (args.attrs[size].is_static() && args.attrs[size].value() < 0)
    throw ShapeError(args.op, "the size is " + args.attrs[size].text(), args.where, "at least 0 is required");
  shape.set(shape.rank() - 1, args.attrs[size]);
  return shape;
}
inline RowAxis last_axis_rows(const HostCall& call) {
  const Shape& shape = call.in[0].shape;
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i].value();
  return RowAxis(call, rows, shape[-1].value());
}

/// Positions of what is not 0 in [begin, end), from `place` on; where the next one would stand.
template <class T>
std::int64_t write_nonzero(const T* row, std::int64_t begin, std::int64_t end, std::int64_t* out, std::int64_t place,
                           std::int64_t last) {
  for (std::int64_t i = begin; i < end && place < last; ++i) {
    out[place] = i;
    place += row[i] != T{};
  }
  return place;
}
/// Blocks count what they have, so that each knows where it writes.
template <class T>
void find_nonzero(const T* row, const RowBlocks& blocks, std::int64_t* out, std::int64_t size) {
  std::vector<std::int64_t> places(as_index(blocks.count) + 1, 0);
  blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    places[as_index(block) + 1] = end - begin - std::count(row + begin, row + end, T{});
  });
  for (std::size_t block = 1; block < places.size(); ++block)
    places[block] = std::min(places[block] + places[block - 1], size);
  blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    write_nonzero(row, begin, end, out, places[as_index(block)], places[as_index(block) + 1]);
  });
  std::fill(out + places.back(), out + size, -1);
}

template <class T>
void run_nonzero(HostCall& call) {
  const RowAxis axis = last_axis_rows(call);
  const std::int64_t size = call.value_of(call.attrs[ops::Nonzero::size]);
  auto* out = call.out[0].as<std::int64_t>();
  if (axis.length == 0) std::fill_n(out, call.out[0].numel, -1);
  for_each_row(call, axis, 0, static_cast<double>(axis.length), [&](const RowPlace& place) {
    const T* row = call.in[0].as<T>() + place.offset;
    find_nonzero(row, blocks_of(axis.length, place.threads), out + place.row * size, size);
  });
}

/// Results of one row of unique().
struct UniqueRow {
  std::int64_t *first, *inverse, *counts, size;
  std::int64_t found = 0;

  void begin(std::int64_t position) {
    if (found < size) {
      first[found] = position;
      counts[found] = 0;
    }
    ++found;
  }
  void add(std::int64_t position) {
    inverse[position] = found - 1;
    if (found <= size) ++counts[found - 1];
  }
  void finish() {
    for (std::int64_t i = found; i < size; ++i) {
      first[i] = -1;
      counts[i] = 0;
    }
  }
};

template <class T>
void find_neighbours(const RowView<T>& row, UniqueRow& out) {
  for (std::int64_t i = 0; i < row.length; ++i) {
    if (i == 0 || !(row.at(i) == row.at(i - 1))) out.begin(i);
    out.add(i);
  }
}
/// Calls run(begin, end) for each run of equals among sorted entries.
template <class T, class F>
void for_each_run(const RowView<T>& row, const Packed* sorted, F&& run) {
  for (std::int64_t begin = 0, end = 1; begin < row.length; begin = end++) {
    const T value = row.at(position_of(sorted[begin]));
    while (end < row.length && row.at(position_of(sorted[end])) == value) ++end;
    run(begin, end);
  }
}
template <class T>
void find_unique(const RowView<T>& row, const Packed* sorted, ops::UniqueOrder order, UniqueRow& out) {
  if (order == ops::UniqueOrder::ascending)
    return for_each_run(row, sorted, [&](std::int64_t begin, std::int64_t end) {
      out.begin(position_of(sorted[begin]));
      for (std::int64_t i = begin; i < end; ++i) out.add(position_of(sorted[i]));
    });
  struct Run {
    std::int64_t position, begin, end;  // position: of the first element
  };
  std::vector<Run> runs;
  for_each_run(row, sorted,
               [&](std::int64_t begin, std::int64_t end) { runs.push_back({position_of(sorted[begin]), begin, end}); });
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.position < b.position; });
  for (const Run& run : runs) {
    out.begin(run.position);
    for (std::int64_t i = run.begin; i < run.end; ++i) out.add(position_of(sorted[i]));
  }
}

template <class T>
void run_unique(HostCall& call) {
  const RowAxis axis = last_axis_rows(call);
  const std::int64_t size = call.value_of(call.attrs[ops::Unique::size]);
  const ops::UniqueOrder order = call.attrs[ops::Unique::order];
  auto *first = call.out[0].as<std::int64_t>(), *inverse = call.out[1].as<std::int64_t>(),
       *counts = call.out[2].as<std::int64_t>();
  if (axis.length == 0) {
    std::fill_n(first, call.out[0].numel, -1);
    std::fill_n(counts, call.out[2].numel, 0);
  }
  const bool sorts = order != ops::UniqueOrder::neighbours;
  const std::size_t bytes = sorts ? as_index(2 * axis.length) * sizeof(Packed) : 0;
  for_each_row(call, axis, bytes, 10.0 * static_cast<double>(axis.length) + 20, [&](const RowPlace& place) {
    const RowView<T> row{call.in[0].as<T>() + place.offset, axis.length, 1};
    UniqueRow out{first + place.row * size, inverse + place.offset, counts + place.row * size, size};
    auto* entries = static_cast<Packed*>(place.memory);
    if (sorts) find_unique(row, sort_row(row, entries, entries + axis.length, place.threads), order, out);
    else find_neighbours(row, out);
    out.finish();
  });
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Nonzero::infer(const InferArgs& args) {
  return ops_detail::with_shape(args, ops_detail::found_shape(args, size), DType::i64);
}
SINTER_DECL void Nonzero::run_on_host(HostCall& call) {
  visit_dtype(call.in[0].dtype, [&](auto tag) { ops_detail::run_nonzero<decltype(tag)>(call); });
}
/// Rows are independent: a batch is more of them.
SINTER_DECL Batched Nonzero::batch(const BatchArgs& a) { return apply(a.op, a.in, a.attrs); }

SINTER_DECL void Unique::infer(const InferArgs& args, TypeList& out) {
  const Shape shape = ops_detail::found_shape(args, size);
  out.push_back(ops_detail::with_shape(args, shape, DType::i64));
  out.push_back(ops_detail::with_shape(args, args.in[0].shape, DType::i64));
  out.push_back(ops_detail::with_shape(args, shape, DType::i64));
}
SINTER_DECL void Unique::run_on_host(HostCall& call) {
  visit_dtype(call.in[0].dtype, [&](auto tag) { ops_detail::run_unique<decltype(tag)>(call); });
}
SINTER_DECL void Unique::batch(const BatchArgs& a, BatchedList& results) {
  const Val first = apply(a.op, a.in, a.attrs);
  for (std::int32_t r = 0; r < 3; ++r) results.push_back(Val{first.builder, Value{first.value.node, r}, first.where});
}

}  // namespace ops
SINTER_NAMESPACE_END
