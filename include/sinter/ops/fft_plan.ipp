// Tables are computed in double from angles in the first eighth of the circle, and rounded once.
#pragma once

#include <sinter/ops/fft_plan.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_host.hpp>
#include <sinter/ops/fft_radices.hpp>
#include <sinter/ops/fft_row_stages.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

struct Root {
  double re = 1, im = 0;
};
/// e^(-2 pi i k / n) for 0 <= k < n.
inline Root root_of(std::int64_t k, std::int64_t n) {
  // 8 k = octant n + rest
  const std::int64_t octant = 8 * k / n, rest = 8 * k % n;
  const bool is_odd = octant % 2 != 0;
  const double angle = 0.78539816339744830962 * static_cast<double>(is_odd ? n - rest : rest) / static_cast<double>(n);
  const double c = std::cos(angle), s = std::sin(angle);
  const double x = octant % 4 == 0 || octant % 4 == 3 ? c : s, y = octant % 4 == 0 || octant % 4 == 3 ? s : c;
  const bool is_left = octant >= 2 && octant < 6, is_below = octant >= 4;
  return {is_left ? -x : x, is_below ? y : -y};
}
template <class T>
void add_root(std::vector<T>& to, std::int64_t k, std::int64_t n) {
  const Root root = root_of(k, n);
  to.push_back(static_cast<T>(root.re));
  to.push_back(static_cast<T>(root.im));
}
/// About what a stage takes for each number: passing it, its factor, and the arithmetic of the radix.
inline double cost_of_stage(int radix) {
  constexpr double passing = 11;
  constexpr double arithmetic[largest_known_radix + 1] = {0,  0,  2, 5.3, 4, 9.6, 7.3, 14, 9.5,
                                                          13, 12, 0, 12,  0, 0,   18,  16};
  return passing + (is_known_radix(radix) ? arithmetic[radix] : 3 * radix);
}
struct Radices {
  std::vector<int> list;
  double cost = 1e300;
};
/// The radices of least cost whose product is `length`, none larger than `largest` or `excluded`, in falling order.
inline Radices cheapest_radices(std::int64_t length, int largest, int excluded) {
  if (length == 1) return {{}, 0};
  Radices best;
  for (int radix = static_cast<int>(std::min<std::int64_t>(largest, length)); radix > 1; --radix) {
    if (length % radix != 0 || radix == excluded) continue;
    if (!is_known_radix(radix) && first_factor(radix) != 1) continue;
    Radices rest = cheapest_radices(length / radix, radix, excluded);
    if (rest.cost + cost_of_stage(radix) >= best.cost) continue;
    best.cost = rest.cost + cost_of_stage(radix);
    best.list = std::move(rest.list);
    best.list.insert(best.list.begin(), radix);
  }
  return best;
}
/// Whether a transform may go along one row: its first two stages have radix 4 (fft_in_row.hpp). Shorter lengths are
/// only where the widest vectors can.
template <class T>
bool begins_along_row(std::int64_t length) {
  constexpr std::int64_t lanes_of_two = 128 / static_cast<std::int64_t>(sizeof(T));
  return length % (2 * lanes_of_two) == 0 || (length % lanes_of_two == 0 && length >= 8 * lanes_of_two);
}
/// The radices of a length in the order of stages; empty where a prime factor is too large. Ends and begins by those
/// that also write and read rows, if there are any: along one row, 8, 4 and 2.
template <class T>
std::vector<int> radices_of(std::int64_t length) {
  if (length == 8) return {4, 2};
  if (length == 16) return {4, 4};
  const bool is_along_row = begins_along_row<T>(length);
  // Along a row 16 would be the last one, which then writes no rows.
  std::vector<int> radices =
      cheapest_radices(is_along_row ? length / 16 : length, largest_radix, is_along_row ? 16 : 0).list;
  if (radices.empty()) return {};
  std::reverse(radices.begin(), radices.end());  // growing
  const auto is_end = [&](int radix) {
    return is_along_row ? radix == 2 || radix == 4 || radix == 8 : is_last_to_rows(radix);
  };
  if (const auto last = std::find_if(radices.rbegin(), radices.rend(), is_end); last != radices.rend())
    std::rotate(std::prev(last.base()), last.base(), radices.end());
  if (is_along_row) radices.insert(radices.begin(), 2, 4);
  else if (const auto first = std::find_if(radices.begin(), std::prev(radices.end()), is_first_from_rows);
           first != std::prev(radices.end()))
    std::rotate(radices.begin(), first, std::next(first));
  return radices;
}

template <class T>
void add_stages(LinePlan<T>& plan) {
  std::int64_t rest = plan.length, stride = 1;
  for (const int radix : radices_of<T>(plan.length)) {
    StageTable stage{radix, rest / radix, stride, plan.tables.size(), 0};
    for (std::int64_t p = 0; p < stage.parts; ++p)
      for (std::int64_t j = 1; j < radix; ++j) add_root(plan.tables, p * j % rest, rest);
    stage.roots = plan.tables.size();
    if (!is_known_radix(radix))
      for (int k = 0; k < radix; ++k) {
        const Root root = root_of(k, radix);
        plan.tables.push_back(static_cast<T>(root.re));
        plan.tables.push_back(static_cast<T>(-root.im));
      }
    plan.stages.push_back(stage);
    rest = stage.parts;
    stride *= radix;
  }
}

/// Radices 4 and 4 and at least one more; every factor is one that stages know.
template <class T>
bool has_row_tables(std::int64_t length) {
  if (length <= 16 || !begins_along_row<T>(length)) return false;
  for (std::int64_t factor = 2; factor <= largest_radix; ++factor)
    while (length % factor == 0) length /= factor;
  return length == 1;
}

/// Factor j of place v in a quarter of the first stage is e^(-2 pi i v j / n); in the second one four places share it.
template <class T>
void add_row_tables(LinePlan<T>& plan) {
  const std::int64_t quarter = plan.length / 4;
  plan.row_tables.resize(as_index(12 * quarter));
  T* to = plan.row_tables.data();
  for (const std::int64_t stride : {1, 4})
    for (std::int64_t j = 1; j < 4; ++j, to += 2 * quarter)
      for (std::int64_t v = 0; v < quarter; ++v) {
        const std::int64_t rest = plan.length / stride;
        const Root root = root_of(v / stride * j % rest, rest);
        to[v] = static_cast<T>(root.re);
        to[quarter + v] = static_cast<T>(root.im);
      }
}

// ---- the cache

class Tables {
 public:
  template <class Plan, class Make>
  std::shared_ptr<const Plan> get(int kind, std::int64_t length, const Make& make) {
    const std::pair<int, std::int64_t> key(kind, length);
    {
      std::scoped_lock lock(mutex_);
      if (const auto found = places_.find(key); found != places_.end()) {
        entries_.splice(entries_.begin(), entries_, found->second);
        return std::static_pointer_cast<const Plan>(found->second->plan);
      }
    }
    std::shared_ptr<const Plan> made = make();  // takes others from here
    std::list<Entry> dropped;                   // freed after the lock
    std::scoped_lock lock(mutex_);
    if (places_.contains(key)) return made;
    entries_.push_front({key, made, made->bytes()});
    places_[key] = entries_.begin();
    bytes_ += made->bytes();
    while (entries_.size() > most_entries || (bytes_ > most_bytes && entries_.size() > 1)) {
      bytes_ -= entries_.back().bytes;
      places_.erase(entries_.back().key);
      dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
    }
    return made;
  }
  std::size_t size() {
    std::scoped_lock lock(mutex_);
    return entries_.size();
  }

 private:
  static constexpr std::size_t most_entries = 64, most_bytes = std::size_t{256} << 20;
  struct Entry {
    std::pair<int, std::int64_t> key;
    std::shared_ptr<const void> plan;
    std::size_t bytes = 0;
  };
  ForkSafeMutex mutex_;
  std::list<Entry> entries_;  // the last one used stands first
  std::map<std::pair<int, std::int64_t>, std::list<Entry>::iterator> places_;
  std::size_t bytes_ = 0;
};
inline Tables& all_tables() { return process_object<Tables>(); }
template <class T>
int kind_of(int table) {
  return 2 * table + (std::is_same_v<T, double> ? 1 : 0);
}
SINTER_DECL std::size_t cached_plans() { return all_tables().size(); }

// ---- plans

SINTER_DECL std::int64_t middle_divisor(std::int64_t length) {
  auto divisor = static_cast<std::int64_t>(std::sqrt(static_cast<double>(length)));
  while (divisor > 1 && length % divisor != 0) --divisor;
  return std::max<std::int64_t>(divisor, 1);
}
/// About what a transform of 2^twos 3^threes 5^fives numbers takes, in stages of radix 4.
inline double cost_of(std::int64_t length, int twos, int threes, int fives) {
  return static_cast<double>(length) * (twos / 2 + 0.75 * (twos % 2) + threes + 1.5 * fives);
}
SINTER_DECL std::int64_t smooth_length(std::int64_t least) {
  std::int64_t best = 1;
  int twos_of_best = 0;
  for (; best < least; ++twos_of_best) best *= 2;
  double least_cost = cost_of(best, twos_of_best, 0, 0);
  const std::int64_t most = best;
  int fives = 0;
  for (std::int64_t of_fives = 1; of_fives < most; of_fives *= 5, ++fives) {
    int threes = 0;
    for (std::int64_t candidate = of_fives; candidate < most; candidate *= 3, ++threes) {
      std::int64_t length = candidate;
      int twos = 0;
      for (; length < least; ++twos) length *= 2;
      if (const double cost = cost_of(length, twos, threes, fives); cost < least_cost) {
        least_cost = cost;
        best = length;
      }
    }
  }
  return best;
}

/// The chirp, and the numbers of its convolution in their order, divided by the length of that.
template <class T>
void add_chirp(std::vector<T>& chirp, std::vector<double>& kernel, std::int64_t length, std::int64_t inner) {
  kernel.assign(as_index(2 * inner), 0);
  const double scale = 1 / static_cast<double>(inner);
  std::int64_t square = 0;  // of k, modulo 2 length
  for (std::int64_t k = 0; k < length; square = (square + 2 * k + 1) % (2 * length), ++k) {
    const Root root = root_of(square, 2 * length);  // e^(-pi i k^2 / length)
    chirp.push_back(static_cast<T>(root.re));
    chirp.push_back(static_cast<T>(root.im));
    for (const std::int64_t at : {k, (inner - k) % inner}) {
      kernel[as_index(2 * at)] = root.re * scale;
      kernel[as_index(2 * at + 1)] = -root.im * scale;
    }
  }
}

template <class T>
std::vector<T> spectrum_of(std::vector<double> kernel) {
  transform_in_double(kernel);
  return std::vector<T>(kernel.begin(), kernel.end());
}
template <>
inline std::vector<float> spectrum_of(std::vector<double> kernel) {
  transform_in_double(kernel);
  std::vector<float> out;
  out.reserve(kernel.size());
  for (const double x : kernel) out.push_back(static_cast<float>(x));
  return out;
}

template <class T>
std::shared_ptr<const LinePlan<T>> line_plan(std::int64_t length) {
  return all_tables().get<LinePlan<T>>(kind_of<T>(0), length, [&] {
    auto plan = std::make_shared<LinePlan<T>>();
    plan->length = plan->room = length;
    if (length == 1) return plan;
    add_stages(*plan);
    if (has_row_tables<T>(length)) add_row_tables(*plan);
    if (!plan->stages.empty()) return plan;
    const std::int64_t inner = smooth_length(2 * length - 1);
    std::vector<double> kernel;
    plan->inner = line_plan<T>(inner);
    plan->room = inner;
    add_chirp(plan->chirp, kernel, length, inner);
    plan->spectrum = spectrum_of<T>(std::move(kernel));
    return plan;
  });
}

template <class T>
std::shared_ptr<const RowPlan<T>> row_plan(std::int64_t length, int lanes) {
  return all_tables().get<RowPlan<T>>(kind_of<T>(1 + 2 * lanes), length, [&] {
    auto plan = std::make_shared<RowPlan<T>>();
    plan->length = length;
    plan->rows = middle_divisor(length);
    plan->columns = length / plan->rows;
    if (plan->rows == 1) {
      std::vector<double> kernel;
      add_chirp(plan->chirp, kernel, length, smooth_length(2 * length - 1));
      plan->spectrum = spectrum_of<T>(std::move(kernel));
      return plan;
    }
    const std::int64_t groups = (plan->columns + lanes - 1) / lanes;
    plan->twiddles.resize(as_index(groups * plan->rows * 2 * lanes));
    T* to = plan->twiddles.data();
    for (std::int64_t group = 0; group < groups; ++group)
      for (std::int64_t row = 0; row < plan->rows; ++row, to += 2 * lanes)
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
          const std::int64_t column = first_of_group(group, plan->columns, lanes) + lane;
          const Root root = column < plan->columns ? root_of(row * column % length, length) : Root{};
          to[lane] = static_cast<T>(root.re);
          to[lanes + lane] = static_cast<T>(root.im);
        }
    return plan;
  });
}

template <class T>
std::shared_ptr<const RealTable<T>> real_table(std::int64_t length) {
  return all_tables().get<RealTable<T>>(kind_of<T>(2), length, [&] {
    auto table = std::make_shared<RealTable<T>>();
    for (std::int64_t k = 0; 4 * k <= length; ++k) add_root(table->roots, k, length);
    return table;
  });
}

}  // namespace fft_detail
SINTER_NAMESPACE_END
