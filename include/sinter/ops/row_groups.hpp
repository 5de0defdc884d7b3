// The rows of a tensor along one axis, and a walk over them in which each row is one task with memory of its own: many
// rows are shared out among threads, and of few long ones each gets all threads. Only .ipp files include it.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/host_call.hpp>
#include <sinter/ops/order_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// `outer` * `stride` rows of `length` elements, which stand `stride` apart.
struct RowAxis {
  std::int64_t outer = 1, length = 1, stride = 1;

  /// Along attrs.axes[0] of a dense tensor of this shape.
  RowAxis(const HostCall& call, const Shape& shape) {
    const auto given = static_cast<int>(call.attrs.axes[0]);
    const int axis = given < 0 ? given + shape.rank() : given;
    for (int i = 0; i < axis; ++i) outer *= shape[i].value();
    length = shape[axis].value();
    for (int i = axis + 1; i < shape.rank(); ++i) stride *= shape[i].value();
    check(call);
  }
  /// Rows of the last axis.
  RowAxis(const HostCall& call, std::int64_t rows, std::int64_t elements) : outer(rows), length(elements) {
    check(call);
  }
  /// Of a row's first element.
  std::int64_t offset_of(std::int64_t row) const { return row / stride * stride * length + row % stride; }
  /// Where the row begins in a tensor whose rows have another length.
  template <class Place>
  std::int64_t place_in(const Place& place, std::int64_t other_length) const {
    return place.row / stride * stride * other_length + place.row % stride;
  }

 private:
  void check(const HostCall& call) const {
    if (length < max_packed_row) return;
    throw ShapeError("order", "a row has " + std::to_string(length) + " elements", call.where,
                     "at most 2^32 - 1 are possible");
  }
};

struct RowPlace {
  std::int64_t row, offset;  // offset: of its first element
  RowThreads threads;        // which it may use
  void* memory;
};

/// How rows are shared out, and the memory of those that run at the same time.
struct RowShares {
  std::int64_t rows = 0, parts = 0;
  std::size_t piece = 0;  // bytes of memory for each part
  bool is_split = false;  // a row is shared by all threads

  RowShares(const RowAxis& axis, std::size_t bytes) : rows(axis.outer * axis.stride), piece((bytes + 63) / 64 * 64) {
    is_split = axis.length >= shared_row_length && rows < 2 * thread_count();
    parts = is_split ? 1 : std::min<std::int64_t>(rows, std::int64_t{4} * thread_count());
  }
  char* memory(HostCall& call) const { return static_cast<char*>(call.scratch(0, piece * as_index(parts))); }
};
/// Asks for the memory that for_each_row will ask for.
inline void prepare_rows(HostCall& call, const RowAxis& axis, std::size_t bytes) {
  if (axis.outer * axis.stride > 0 && axis.length > 0) RowShares(axis, bytes).memory(call);
}

/// Calls run(place) for each row. `bytes` of memory for each row that runs at the same time.
template <class F>
void for_each_row(HostCall& call, const RowAxis& axis, std::size_t bytes, double nanoseconds, F&& run) {
  const RowShares shares(axis, bytes);
  const std::int64_t rows = shares.rows, parts = shares.parts;
  if (rows == 0 || axis.length == 0) return;
  char* const memory = shares.memory(call);
  const auto run_part = [&](std::int64_t part) {
    for (std::int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row)
      run(RowPlace{row, axis.offset_of(row), shares.is_split ? RowThreads::all : RowThreads::one,
                   memory + shares.piece * as_index(part)});
  };
  parallel_for(parts, nanoseconds * static_cast<double>(rows) / static_cast<double>(parts),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t part = first; part < last; ++part) run_part(part);
               });
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
