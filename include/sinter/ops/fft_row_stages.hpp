// Groups of whole rows, as many as a vector has lanes, with the first stage of their transforms on the way in and, of
// radix 2 and 4, the last one on the way out: numbers pass memory twice less. Knows a machine (fft_steps.hpp) by its
// functions alone.
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
  return !plan.inner && plan.stages.size() >= 2 && plan.stages[0].radix == 4 &&
         plan.length % (4 * Pieces<L>::numbers) == 0;
}

/// The stage of radix 4 whose stride is 1, from rows that begin `step` numbers apart.
template <class L>
SINTER_ALWAYS_INLINE void run_first_radix4(const typename L::Number* row, std::int64_t step, int re, Pair<L>* y,
                                           const typename L::Number* twiddles) {
  using Turn = Pieces<L>;
  const std::int64_t quarter = step / 8;
  for (std::int64_t p = 0; p < quarter; p += Turn::numbers) {
    typename L::Vector x[4][as_index(Turn::size)];
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < 4; ++k) {
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < Turn::size; ++i)
        Turn::gather(x[k][i], row + i * step + 2 * (p + k * quarter), Turn::size * step);
      Turn::turn(x[k]);
    }
#pragma GCC unroll 2
    for (std::int64_t i = 0; i < Turn::numbers; ++i) {
      Pair<L> z[4];
#pragma GCC unroll 4
      for (std::int64_t k = 0; k < 4; ++k) {
        z[k].re = re == 0 ? x[k][2 * i] : x[k][2 * i + 1];
        z[k].im = re == 0 ? x[k][2 * i + 1] : x[k][2 * i];
      }
      butterfly4<false>(z, twiddles + 6 * (p + i));
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < 4; ++j) y[4 * (p + i) + j] = z[j];
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
    typename L::Vector out[as_index(radix)][as_index(Turn::size)];
#pragma GCC unroll 2
    for (std::int64_t i = 0; i < Turn::numbers; ++i) {
      Pair<L> z[4];
#pragma GCC unroll 4
      for (std::int64_t k = 0; k < radix; ++k) z[k] = x[q + i + k * stride];
      if constexpr (radix == 4) {
        butterfly4<true>(z, static_cast<const typename L::Number*>(nullptr));
      } else {
        const Pair<L> sum = z[0] + z[1];
        z[1] = z[0] - z[1];
        z[0] = sum;
      }
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < radix; ++j) {
        out[j][2 * i] = (re == 0 ? z[j].re : z[j].im) * scale;
        out[j][2 * i + 1] = (re == 0 ? z[j].im : z[j].re) * scale;
      }
    }
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < radix; ++j) {
      Turn::turn(out[j]);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < Turn::size; ++i)
        Turn::scatter(out[j][i], row + i * step + 2 * (q + j * stride), Turn::size * step);
    }
  }
}

/// A length that is known here is part of addresses: those of sixteen rows have no room in registers.
template <class Machine, std::int64_t known_length, int re, class L, class T>
SINTER_ALWAYS_INLINE void run_row_groups_of(const LinePlan<T>& plan, const RowGroups<T>& g, Pair<L>* a, Pair<L>* b) {
  const std::int64_t length = known_length != 0 ? known_length : g.length, step = 2 * length;
  const std::size_t last = plan.stages.size() - 1;
  const bool ends_in_4 = plan.stages[last].radix == 4 && length % (4 * Pieces<L>::numbers) == 0;
  const bool ends_in_2 = plan.stages[last].radix == 2;
  for (std::int64_t group = g.begin; group < g.end; ++group) {
    const std::int64_t first = group * L::count, next = std::min(first + 2 * L::count, g.rows);
    fetch_rows<Use::reading>(g.in, step, first + L::count, next);
    fetch_rows<Use::writing>(g.out, step, first + L::count, next);
    run_first_radix4<L>(g.in + first * step, step, re, a, plan.tables.data() + plan.stages[0].twiddles);
    T* const out = g.out + first * step;
    if (ends_in_4 || ends_in_2) {
      const Pair<L>* x = last == 1 ? a : Machine::stages(plan, 1, last, 1, a, b);
      ends_in_4 ? run_last_to_rows<4, L>(out, step, re, x, g.scale) : run_last_to_rows<2, L>(out, step, re, x, g.scale);
    } else {
      store_rows_by<2 * known_length, L>(out, step, Machine::stages(plan, 1, last + 1, 1, a, b), length, re, g.scale);
    }
  }
}
template <class Machine, int re, class L, class T>
SINTER_ALWAYS_INLINE void run_row_groups_with(const LinePlan<T>& plan, const RowGroups<T>& g, Pair<L>* a, Pair<L>* b) {
  if constexpr (L::count * sizeof(T) == 64 && re == 0) {
    switch (g.length) {
      case 8: return run_row_groups_of<Machine, 8, re>(plan, g, a, b);
      case 16: return run_row_groups_of<Machine, 16, re>(plan, g, a, b);
      case 32: return run_row_groups_of<Machine, 32, re>(plan, g, a, b);
      case 64: return run_row_groups_of<Machine, 64, re>(plan, g, a, b);
      case 128: return run_row_groups_of<Machine, 128, re>(plan, g, a, b);
      case 256: return run_row_groups_of<Machine, 256, re>(plan, g, a, b);
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
