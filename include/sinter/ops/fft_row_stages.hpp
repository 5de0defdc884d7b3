// Groups of whole rows, as many as a vector has lanes, with the first stage of their transforms on the way in and the
// last one on the way out, where their radices are small: numbers pass memory twice less. Knows a machine
// (fft_steps.hpp) by its functions alone.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_lanes.hpp>
#include <sinter/ops/fft_pieces.hpp>
#include <sinter/ops/fft_plan.hpp>

#include <algorithm>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

/// Asks for the rows of the next group while those of this one are computed. A group of short rows is read across rows,
/// an order in which processors do not see a stream; longer rows they see. Always inlined: GCC drops calls of a
/// function that only prefetches.
enum class Use : std::uint8_t { reading, writing };
template <Use use, class T>
SINTER_ALWAYS_INLINE void fetch_rows(const T* data, std::int64_t row_numbers, std::int64_t first, std::int64_t end) {
  constexpr std::int64_t longest = 256, line = 64 / static_cast<std::int64_t>(sizeof(T));
  if (row_numbers > longest) return;
  for (std::int64_t at = first * row_numbers; at < end * row_numbers; at += line)
    __builtin_prefetch(data + at, use == Use::writing ? 1 : 0);
}

/// Rows of `length` complex numbers, one after the other; groups [begin, end) of them. `out` may be `in`.
template <class T>
struct RowGroups {
  const T* in;
  T* out;
  std::int64_t length, begin, end, rows;  // rows that are there
  int re;                                 // the place of the real part in each number
  T scale;
};

/// Whether such groups are transformed by run_row_groups.
template <class L>
bool has_row_stages(const LinePlan<typename L::Number>& plan) {
  return !plan.inner && plan.stages.size() >= 2;
}
/// Radices that have such stages below, where there are as many of them as a piece has numbers.
constexpr bool is_first_from_rows(int radix) { return radix == 4 || radix == 5 || radix == 6 || radix == 8; }
constexpr bool is_last_to_rows(int radix) {
  return is_first_from_rows(radix) || radix == 2 || radix == 10 || radix == 12;
}

/// The first stage, whose stride is 1, from rows that begin `step` numbers apart.
template <int radix, class L>
SINTER_ALWAYS_INLINE void run_first_from_rows(const typename L::Number* row, std::int64_t step, int re, Pair<L>* y,
                                              const typename L::Number* twiddles) {
  using Turn = Pieces<L>;
  const std::int64_t parts = step / (2 * radix);
  for (std::int64_t p = 0; p < parts; p += Turn::numbers) {
    if (p > parts - Turn::numbers) p = parts - Turn::numbers;  // what is left takes one of those before along
    typename L::Vector x[radix][as_index(Turn::size)];
#pragma GCC unroll 16
    for (std::int64_t k = 0; k < radix; ++k) {
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < Turn::size; ++i)
        Turn::gather(x[k][i], row + i * step + 2 * (p + k * parts), Turn::size * step);
      Turn::turn(x[k]);
    }
#pragma GCC unroll 2
    for (std::int64_t i = 0; i < Turn::numbers; ++i) {
      Pair<L> z[radix];
#pragma GCC unroll 16
      for (std::int64_t k = 0; k < radix; ++k) {
        z[k].re = re == 0 ? x[k][2 * i] : x[k][2 * i + 1];
        z[k].im = re == 0 ? x[k][2 * i + 1] : x[k][2 * i];
      }
      SmallTransform<radix, L>::run(z);
      store_twiddled(y + radix * (p + i), 1, z, twiddles + 2 * (radix - 1) * (p + i),
                     std::make_integer_sequence<int, radix - 1>());
    }
  }
}

/// The last stage, whose factors are all 1, to rows.
template <int radix, class L>
SINTER_ALWAYS_INLINE void run_last_to_rows(typename L::Number* row, std::int64_t step, int re, const Pair<L>* x,
                                           typename L::Number scale) {
  using Turn = Pieces<L>;
  const std::int64_t stride = step / (2 * radix);
  for (std::int64_t q = 0; q < stride; q += Turn::numbers) {
    if (q > stride - Turn::numbers) q = stride - Turn::numbers;
    typename L::Vector out[as_index(radix)][as_index(Turn::size)];
#pragma GCC unroll 2
    for (std::int64_t i = 0; i < Turn::numbers; ++i) {
      Pair<L> z[radix];
      load_every(z, x + q + i, stride, std::make_integer_sequence<int, radix>());
      SmallTransform<radix, L>::run(z);
#pragma GCC unroll 16
      for (std::int64_t j = 0; j < radix; ++j) {
        out[j][2 * i] = (re == 0 ? z[j].re : z[j].im) * scale;
        out[j][2 * i + 1] = (re == 0 ? z[j].im : z[j].re) * scale;
      }
    }
#pragma GCC unroll 16
    for (std::int64_t j = 0; j < radix; ++j) {
      Turn::turn(out[j]);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < Turn::size; ++i)
        Turn::scatter(out[j][i], row + i * step + 2 * (q + j * stride), Turn::size * step);
    }
  }
}

/// Reads a group and does the first stage where that is possible; gives how many stages are done.
template <int re, std::int64_t known_step, class L, class T>
SINTER_ALWAYS_INLINE std::size_t read_group(const LinePlan<T>& plan, const T* in, std::int64_t step, Pair<L>* a) {
  const T* const twiddles = plan.tables.data() + plan.stages[0].twiddles;
  if (plan.stages[0].parts >= Pieces<L>::numbers) switch (plan.stages[0].radix) {
      case 4: run_first_from_rows<4, L>(in, step, re, a, twiddles); return 1;
      case 5: run_first_from_rows<5, L>(in, step, re, a, twiddles); return 1;
      case 6: run_first_from_rows<6, L>(in, step, re, a, twiddles); return 1;
      case 8: run_first_from_rows<8, L>(in, step, re, a, twiddles); return 1;
      default: break;
    }
  load_rows_by<known_step, L>(a, in, step, step / 2, re);
  return 0;
}
/// The last stage and what writes a group, where that is possible.
template <int re, class L, class T>
SINTER_ALWAYS_INLINE void write_group(int radix, const Pair<L>* x, T* out, std::int64_t step, T scale) {
  switch (radix) {
    case 2: return run_last_to_rows<2, L>(out, step, re, x, scale);
    case 4: return run_last_to_rows<4, L>(out, step, re, x, scale);
    case 5: return run_last_to_rows<5, L>(out, step, re, x, scale);
    case 6: return run_last_to_rows<6, L>(out, step, re, x, scale);
    case 8: return run_last_to_rows<8, L>(out, step, re, x, scale);
    case 10: return run_last_to_rows<10, L>(out, step, re, x, scale);
    case 12: return run_last_to_rows<12, L>(out, step, re, x, scale);
    default: __builtin_unreachable();  // is_last_to_rows
  }
}
/// A length that is known here is part of addresses: those of sixteen rows have no room in registers.
template <class Machine, std::int64_t known_length, int re, class L, class T>
SINTER_ALWAYS_INLINE void run_row_groups_of(const LinePlan<T>& plan, const RowGroups<T>& g, Pair<L>* a, Pair<L>* b) {
  const std::int64_t length = known_length != 0 ? known_length : g.length, step = 2 * length;
  const std::size_t last = plan.stages.size() - 1;
  const int radix = plan.stages[last].radix;
  const bool is_last_joined = is_last_to_rows(radix) && plan.stages[last].stride >= Pieces<L>::numbers;
  const std::size_t end = is_last_joined ? last : last + 1;
  for (std::int64_t group = g.begin; group < g.end; ++group) {
    const std::int64_t first = group * L::count, next = std::min(first + 2 * L::count, g.rows);
    fetch_rows<Use::reading>(g.in, step, first + L::count, next);
    fetch_rows<Use::writing>(g.out, step, first + L::count, next);
    const std::size_t done = read_group<re, 2 * known_length>(plan, g.in + first * step, step, a);
    const Pair<L>* x = done < end ? Machine::stages(plan, done, end, 1, a, b) : a;
    T* const out = g.out + first * step;
    if (is_last_joined) write_group<re>(radix, x, out, step, g.scale);
    else store_rows_by<2 * known_length, L>(out, step, x, length, re, g.scale);
  }
}
template <class Machine, int re, class L, class T>
SINTER_ALWAYS_INLINE void run_row_groups_with(const LinePlan<T>& plan, const RowGroups<T>& g, Pair<L>* a, Pair<L>* b) {
  if constexpr (L::count * sizeof(T) == 64 && re == 0) {
    switch (g.length) {
      case 8: return run_row_groups_of<Machine, 8, re>(plan, g, a, b);
      case 16: return run_row_groups_of<Machine, 16, re>(plan, g, a, b);
      case 32: return run_row_groups_of<Machine, 32, re>(plan, g, a, b);
      default: break;
    }
  }
  run_row_groups_of<Machine, 0, re>(plan, g, a, b);
}
template <class Machine, class L, class T>
SINTER_ALWAYS_INLINE void run_row_groups(const LinePlan<T>& plan, const RowGroups<T>& g, Pair<L>* a, Pair<L>* b) {
  g.re == 0 ? run_row_groups_with<Machine, 0>(plan, g, a, b) : run_row_groups_with<Machine, 1>(plan, g, a, b);
}

}  // namespace fft_detail
SINTER_NAMESPACE_END
