// Lines of complex numbers in memory: which of them are transformed side by side, and how long ones are cut into rows
// and columns. Knows a machine (fft_steps.hpp) by its functions alone.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/fft_plan.hpp>
#include <sinter/ops/fft_steps.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

/// Two buffers of lanes for this thread, kept.
struct LaneBuffers {
  Ref<Storage> memory;
  template <class P>
  std::pair<P*, P*> pair(std::int64_t numbers) {
    const std::size_t bytes = 2 * as_index(numbers) * sizeof(P);
    if (!memory || memory->bytes() < bytes) memory = Storage::allocate(bytes);
    auto* first = static_cast<P*>(memory->data());
    return {first, first + numbers};
  }
};
inline LaneBuffers& lane_buffers() {
  return thread_object([] { return new LaneBuffers; });
}
/// Nanoseconds of one transform: what decides whether threads are worth it.
inline double estimated_nanoseconds(std::int64_t length) {
  const auto n = static_cast<double>(length);
  return 20 + 0.25 * n * (4 + std::log2(n));
}
template <class T>
Ref<Storage> room_for(std::int64_t complex_numbers) {
  return Storage::allocate(2 * as_index(complex_numbers) * sizeof(T));
}

template <class T>
struct Ends {
  Parts parts = Parts::as_they_are;
  T scale = 1;
};

/// Complex lines along the middle one of the axes (outer, length, inner).
struct Block {
  std::int64_t outer = 1, length = 1, inner = 1;
  std::int64_t lines() const { return outer * inner; }
};

/// Rows are transformed one by one in vectors along them up to this length; longer ones where there are many of them,
/// since threads share no such row.
inline constexpr std::int64_t longest_in_row = 16384, longest_in_many_rows = 65536, many_rows = 8;
/// The same on all machines, whose vectors may be too wide or narrower: otherwise bits of long rows would depend on it.
template <class T>
bool is_in_row(std::int64_t rows, std::int64_t length) {
  return length % (128 / static_cast<std::int64_t>(sizeof(T))) == 0 &&
         length <= (rows >= many_rows ? longest_in_many_rows : longest_in_row);
}

template <class Machine, class T>
class Transformer {
  using L = typename Machine::L;
  using P = Pair<L>;
  static constexpr std::int64_t lanes = L::count, sizeof_number = 2 * static_cast<std::int64_t>(sizeof(T));

 public:
  /// `out` may be `in`.
  static void run(const T* in, T* out, const Block& block, Ends<T> ends) {
    if (block.lines() == 0) return;
    if (block.length > longest_side_by_side || (block.inner == 1 && is_cut(block.lines(), block.length)))
      return run_one_by_one(in, out, block, ends);
    run_side_by_side(in, out, block, ends);
  }
  /// Null: rows of this length are not transformed one by one in vectors of this width.
  static std::shared_ptr<const LinePlan<T>> plan_in_row(std::int64_t rows, std::int64_t length) {
    if (length % (4 * lanes) != 0 || !is_in_row<T>(rows, length) || !has_row_tables<T>(length)) return nullptr;
    return line_plan<T>(length);
  }
  /// False: there is no such plan.
  static bool run_in_rows(const T* in, T* out, const Block& block, Ends<T> ends) {
    const auto plan = block.inner == 1 ? plan_in_row(block.outer, block.length) : nullptr;
    if (!plan) return false;
    const int re = ends.parts == Parts::exchanged ? 1 : 0;
    parallel_for(block.outer, estimated_nanoseconds(block.length), [&](std::int64_t begin, std::int64_t end) {
      const auto [a, b] = lane_buffers().pair<P>(block.length / lanes);
      for (std::int64_t at = 2 * begin * block.length; at < 2 * end * block.length; at += 2 * block.length)
        Machine::row(*plan, {in + at, out + at, re, ends.scale}, a, b);
    });
    return true;
  }
  /// Whole groups of rows of a length that is known there; gives how many rows that were.
  template <ShortKind kind>
  static std::int64_t run_short(ShortRows<T> g) {
    parallel_for(g.rows / lanes, estimated_nanoseconds(g.length) * static_cast<double>(lanes),
                 [&](std::int64_t begin, std::int64_t end) {
                   ShortRows<T> part = g;
                   part.begin = begin;
                   part.end = end;
                   Machine::template short_rows<kind>(part);
                 });
    return g.rows / lanes * lanes;
  }
  static void run_side_by_side(const T* in, T* out, const Block& block, Ends<T> ends) {
    const auto plan = line_plan<T>(block.length);
    if (block.inner == 1 && block.outer >= lanes && has_row_stages<L>(*plan)) {
      run_row_groups(in, out, block, ends, *plan);
      const std::int64_t done = block.outer / lanes * lanes, numbers = 2 * done * block.length;
      if (done < block.outer)
        run_side_by_side(in + numbers, out + numbers, {block.outer - done, block.length, 1}, ends);
      return;
    }
    // Groups of columns end where the columns do; columns fewer than lanes, and rows, make groups across.
    const bool are_columns = block.inner >= lanes;
    const std::int64_t line_set = are_columns ? block.inner : block.lines();
    const std::int64_t groups = (line_set + lanes - 1) / lanes, sets = are_columns ? block.outer : 1;
    const double cost = estimated_nanoseconds(block.length) * static_cast<double>(lanes);
    parallel_for(groups * sets, cost, [&](std::int64_t begin, std::int64_t end) {
      const auto [a, b] = lane_buffers().pair<P>(plan->room);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i / groups * line_set + i % groups * lanes;
        const int used = static_cast<int>(std::min(lanes, line_set - i % groups * lanes));
        Machine::load(a, lines_of(in, block, first, used, ends.parts), block.length);
        if (block.inner == 1) {
          const std::int64_t next = first + lanes, next_end = std::min(next + lanes, block.outer);
          fetch_rows<Use::reading>(in, 2 * block.length, next, next_end);
          fetch_rows<Use::writing>(out, 2 * block.length, next, next_end);
        }
        Machine::store(lines_of(out, block, first, used, ends.parts), Machine::transform(*plan, a, b), block.length,
                       ends.scale);
      }
    });
  }
  /// Are rows this few cut into rows and columns of their own, so that lanes are used?
  static bool is_cut(std::int64_t rows, std::int64_t length) {
    if (length > longest_side_by_side) return true;
    // Lengths that may go along a row have the same bits beside any others.
    constexpr std::int64_t unit = 128 / static_cast<std::int64_t>(sizeof(T));
    if (length % unit == 0 && length < 8 * unit) return false;
    return rows * 2 <= lanes && length >= 4 * lanes && middle_divisor(length) * 2 >= lanes;
  }
  /// One after the other: by Bluestein's convolution, or as rows and columns of their own.
  static void run_one_by_one(const T* in, T* out, const Block& block, Ends<T> ends) {
    if (block.inner == 1) {
      for (std::int64_t i = 0; i < block.outer; ++i)
        run_row(in + 2 * i * block.length, out + 2 * i * block.length, block.length, ends);
      return;
    }
    const Ref<Storage> memory = room_for<T>(block.length);
    T* row = static_cast<T*>(memory->data());
    for (std::int64_t line = 0; line < block.lines(); ++line) {
      const std::int64_t at = 2 * (line / block.inner * block.length * block.inner + line % block.inner);
      copy_every(in + at, 2 * block.inner, row, 2, block.length);
      run_row(row, row, block.length, ends);
      copy_every(row, 2, out + at, 2 * block.inner, block.length);
    }
  }
  /// Lines `first` to first + used of a block, from `data` on.
  template <class Number>
  static Lines<L, Number*> lines_of(Number* data, const Block& block, std::int64_t first, int used, Parts parts) {
    Lines<L, Number*> lines;
    lines.step = 2 * block.inner;
    lines.used = used;
    lines.parts = parts;
    lines.side = block.inner == 1 ? Side::rows : block.inner >= lanes ? Side::columns : Side::apart;
    if (lines.side == Side::apart) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        const std::int64_t line = first + (lane < used ? lane : 0);
        lines.at[lane] = data + 2 * (line / block.inner * block.length * block.inner + line % block.inner);
      }
      return lines;
    }
    // One division for all: rows, or columns of one matrix.
    const std::int64_t step = block.inner == 1 ? 2 * block.length : 2;
    Number* const begin = block.inner == 1
                              ? data + first * step
                              : data + 2 * (first / block.inner * block.length * block.inner + first % block.inner);
    if (used == lanes && block.length >= Pieces<L>::numbers) {  // the others follow from the first two
      lines.at[0] = begin;
      lines.at[1] = begin + step;
      return lines;
    }
    for (std::int64_t lane = 0; lane < lanes; ++lane) lines.at[lane] = begin + (lane < used ? lane : 0) * step;
    return lines;
  }

 private:
  /// Whole groups of rows.
  static void run_row_groups(const T* in, T* out, const Block& block, Ends<T> ends, const LinePlan<T>& plan) {
    const double cost = estimated_nanoseconds(block.length) * static_cast<double>(lanes);
    parallel_for(block.outer / lanes, cost, [&](std::int64_t begin, std::int64_t end) {
      const auto [a, b] = lane_buffers().pair<P>(plan.room);
      Machine::rows(
          plan, {in, out, block.length, begin, end, block.outer, ends.parts == Parts::exchanged ? 1 : 0, ends.scale}, a,
          b);
    });
  }
  static void copy_every(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      for (int part = 0; part < 2; ++part) to[i * to_step + part] = from[i * from_step + part];
  }

  static void run_row(const T* in, T* out, std::int64_t length, Ends<T> ends) {
    const auto plan = row_plan<T>(length, static_cast<int>(lanes));
    plan->rows == 1 ? run_chirp_row(*plan, in, out, ends) : run_cut_row(*plan, in, out, ends);
  }

  /// With j = columns j1 + j2 and k = k1 + rows k2: columns are transformed, multiplied by e^(-2 pi i k1 j2 / length),
  /// and then rows, which are written as columns.
  static void run_cut_row(const RowPlan<T>& plan, const T* in, T* out, Ends<T> ends) {
    const std::int64_t rows = plan.rows, columns = plan.columns;
    // Rows of whole pages would meet in few sets of the first cache.
    const std::int64_t row_step = columns > longest_side_by_side ? columns : columns + 64 / sizeof_number;
    const Ref<Storage> memory = room_for<T>(rows * row_step);
    T* middle = static_cast<T*>(memory->data());
    const auto column_plan = line_plan<T>(rows);
    const double cost = static_cast<double>(lanes);
    parallel_for(tasks_of(columns), cost * estimated_nanoseconds(rows), [&](std::int64_t i, std::int64_t end) {
      if (end == tasks_of(columns)) end = (columns + lanes - 1) / lanes;
      const auto [a, b] = lane_buffers().pair<P>(column_plan->room);
      for (; i < end; ++i) {
        const std::int64_t first = first_of_group(i, columns, lanes);
        const int used = static_cast<int>(std::min(lanes, columns - first));
        Machine::load(a, columns_of(in, columns, first, used, ends.parts), rows);
        P* done = Machine::transform(*column_plan, a, b);
        Machine::twiddle(done, rows, plan.twiddles.data() + i * rows * 2 * lanes);
        Machine::store(columns_of(middle, row_step, first, used, Parts::as_they_are), done, rows, T(1));
      }
    });
    if (columns > longest_side_by_side) {
      const Ref<Storage> more = room_for<T>(plan.length);
      T* done = static_cast<T*>(more->data());
      run(middle, done, {rows, columns, 1}, {});
      return store_transposed(done, out, rows, columns, ends);
    }
    const auto rest_plan = line_plan<T>(columns);
    const Block as_rows{rows, row_step, 1};
    parallel_for(tasks_of(rows), cost * estimated_nanoseconds(columns), [&](std::int64_t i, std::int64_t end) {
      if (end == tasks_of(rows)) end = (rows + lanes - 1) / lanes;
      const auto [a, b] = lane_buffers().pair<P>(rest_plan->room);
      for (; i < end; ++i) {
        const std::int64_t first = first_of_group(i, rows, lanes);
        const int used = static_cast<int>(std::min(lanes, rows - first));
        Machine::load(a, lines_of<const T>(middle, as_rows, first, used, Parts::as_they_are), columns);
        Machine::store(columns_of(out, rows, first, used, ends.parts), Machine::transform(*rest_plan, a, b), columns,
                       ends.scale);
      }
    });
  }
  /// Groups of columns, the last two as one task: they share columns (first_of_group), and both write these.
  static std::int64_t tasks_of(std::int64_t columns) { return std::max<std::int64_t>(1, columns / lanes); }
  /// Columns `first` to first + used of a matrix of so many columns.
  template <class Number>
  static Lines<L, Number*> columns_of(Number* data, std::int64_t columns, std::int64_t first, int used, Parts parts) {
    Lines<L, Number*> lines;
    lines.step = 2 * columns;
    lines.used = used;
    lines.parts = parts;
    lines.side = Side::columns;
    for (std::int64_t lane = 0; lane < lanes; ++lane) lines.at[lane] = data + 2 * (first + (lane < used ? lane : 0));
    return lines;
  }
  static void store_transposed(const T* from, T* to, std::int64_t rows, std::int64_t columns, Ends<T> ends) {
    const int re = ends.parts == Parts::exchanged ? 1 : 0;
    parallel_for(columns, static_cast<double>(rows) * 2, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = begin; column < end; ++column) {
          const T* number = from + 2 * (row * columns + column);
          T* place = to + 2 * (column * rows + row);
          place[0] = number[re] * ends.scale;
          place[1] = number[1 - re] * ends.scale;
        }
    });
  }

  /// As run_chirp, of one row.
  static void run_chirp_row(const RowPlan<T>& plan, const T* in, T* out, Ends<T> ends) {
    const auto inner = static_cast<std::int64_t>(plan.spectrum.size() / 2);
    const Ref<Storage> memory = room_for<T>(2 * inner);
    T *x = static_cast<T*>(memory->data()), *y = x + 2 * inner;
    const int re = ends.parts == Parts::exchanged ? 1 : 0;
    const auto multiply = [](const T* a, const T* w, T* to, int to_re, T sign, T scale) {
      const T real = a[0] * w[0] - sign * a[1] * w[1], imaginary = a[0] * w[1] + sign * a[1] * w[0];
      to[to_re] = real * scale;
      to[1 - to_re] = imaginary * scale;
    };
    for (std::int64_t j = 0; j < plan.length; ++j) {
      const T number[2] = {in[2 * j + re], in[2 * j + 1 - re]};
      multiply(number, plan.chirp.data() + 2 * j, x + 2 * j, 0, T(1), T(1));
    }
    std::fill(x + 2 * plan.length, x + 2 * inner, T(0));
    run(x, y, {1, inner, 1}, {});
    for (std::int64_t j = 0; j < inner; ++j) {
      multiply(y + 2 * j, plan.spectrum.data() + 2 * j, x + 2 * j, 0, T(1), T(1));
      x[2 * j + 1] = -x[2 * j + 1];
    }
    run(x, y, {1, inner, 1}, {});
    for (std::int64_t j = 0; j < plan.length; ++j)
      multiply(y + 2 * j, plan.chirp.data() + 2 * j, out + 2 * j, re, T(-1), ends.scale);
  }
};

}  // namespace fft_detail
SINTER_NAMESPACE_END
