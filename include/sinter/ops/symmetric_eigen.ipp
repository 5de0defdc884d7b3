// Numbers are scaled by a power of two first, so that no square overflows. The three diagonals are worked on in double.
#pragma once

#include <sinter/ops/symmetric_eigen.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/processor.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/symmetric_lanes.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

template <class T>
SymmetricMachine<T> symmetric_machine_here() {
#ifndef SINTER_NO_X86
  if (base_detail::has_avx512()) return symmetric_machine<T, Avx512Symmetric>();
  if (base_detail::has_avx2()) return symmetric_machine<T, Avx2Symmetric>();
#endif
  return symmetric_machine<T, PlainSymmetric>();
}

/// Elements that begin at a line of the cache, all 0.
template <class T>
class ZeroedNumbers {
 public:
  explicit ZeroedNumbers(std::int64_t count) : memory_(Storage::allocate(as_index(count) * sizeof(T))) {
    std::fill_n(data(), count, T(0));
  }
  T* data() const { return static_cast<T*>(memory_->data()); }

 private:
  Ref<Storage> memory_;
};

/// Beside numbers of size 1, which the largest one is scaled to: what rounding errors leave of a matrix of low rank
/// gets smaller with each step, down to where numbers lose their digits.
template <class T>
inline constexpr double negligible_square = [] {
  constexpr double square = std::numeric_limits<T>::epsilon() * double{std::numeric_limits<T>::epsilon()};
  return square * square;
}();

/// Diagonal and the one beside it.
struct ThreeDiagonals {
  std::vector<double> d, e;  // e[i] stands between i and i + 1
};

// ---- to three diagonals

template <class T>
class Tridiagonalisation {
 public:
  Tridiagonalisation(const T* from, std::int64_t n, T scale)
      : n_(n),
        blocks_((n + block - 1) / block),
        // Rows a page apart would compete for the same lines of the cache.
        stride_(blocks_ * block + block),
        a_(blocks_ * block * stride_),
        reflectors_(n * stride_),
        scales_(as_index(n), T(0)),
        machine_(symmetric_machine_here<T>()) {
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        const T x = from[i * n + j] * scale;
        a_.data()[i * stride_ + j] = x;
        if (i / block == j / block) a_.data()[j * stride_ + i] = x;
      }
  }

  ThreeDiagonals run() {
    ThreeDiagonals out{std::vector<double>(as_index(n_)), std::vector<double>(as_index(n_), 0.0)};
    const ZeroedNumbers<T> room(3 * stride_);
    const T* v = room.data() + 2 * stride_;  // of the step before; zeros
    T *w = room.data(), *product = w + stride_;
    for (std::int64_t k = 0; k < n_; ++k) {
      const T* row = a_.data() + k * stride_;
      out.d[as_index(k)] = row[k] - 2 * v[k] * w[k];
      if (k + 1 == n_) break;
      T* next = reflectors_.data() + k * stride_;
      out.e[as_index(k)] = make_reflector(k, v, w, next);
      if (k + 2 == n_) {
        out.d[as_index(k + 1)] = row[stride_ + k + 1] - 2 * v[k + 1] * w[k + 1];
        break;
      }
      machine_.update({a_.data(), stride_, (k + 1) / block, blocks_, v, w, next, product});
      const T scale = scales_[as_index(k)];
      double dot = 0;
      for (std::int64_t i = k + 1; i < n_; ++i) dot += static_cast<double>(product[i] * next[i]);
      const T half = scale * scale * static_cast<T>(dot) / 2;
      for (std::int64_t i = k + 1; i < n_; ++i) product[i] = scale * product[i] - half * next[i];
      std::fill_n(product, k + 1, T(0));
      std::swap(w, product);
      v = next;
    }
    return out;
  }

  /// The transpose of the orthogonal factor, in panels.
  void write_factor(T* panels) const {
    constexpr std::int64_t rows = SymmetricLanes<T, 64>::rows;
    const double cost = 4 * static_cast<double>(n_) * static_cast<double>(n_) * rows / 8;
    parallel_for((n_ + rows - 1) / rows, cost, [&](std::int64_t group, std::int64_t end) {
      const ZeroedNumbers<T> room(rows * stride_);
      T* x = room.data();
      for (; group < end; ++group) {
        const std::int64_t first = group * rows, used = std::min(rows, n_ - first);
        std::fill_n(x, rows * stride_, T(0));
        for (std::int64_t i = 0; i < used; ++i) x[i * stride_ + first + i] = 1;
        for (std::int64_t k = std::min(first + used - 1, n_ - 2); k-- > 0;)
          machine_.reflect(x, stride_, reflectors_.data() + k * stride_, scales_[as_index(k)], (k + 1) / block * block,
                           blocks_ * block);
        constexpr std::int64_t wide = panel_columns<T>;
        for (std::int64_t i = 0; i < used; ++i)
          for (std::int64_t column = 0; column < n_; column += wide)
            std::copy_n(x + i * stride_ + column, std::min(wide, blocks_ * block - column),
                        panels + (column / wide * n_ + first + i) * wide);
      }
    });
  }

 private:
  static constexpr std::int64_t block = symmetric_block<T>;

  /// Of column k, from which the step before is still to be subtracted; gives what stays beside the diagonal.
  double make_reflector(std::int64_t k, const T* v, const T* w, T* to) {
    double squares = 0;
    for (std::int64_t i = k + 1; i < n_; ++i) {
      const T x = a_.data()[i * stride_ + k] - v[i] * w[k] - w[i] * v[k];
      to[i] = x;
      if (i > k + 1) squares += static_cast<double>(x) * static_cast<double>(x);
    }
    const double first = to[k + 1];
    if (squares < negligible_square<T>) {
      std::fill_n(to + k + 1, n_ - k - 1, T(0));
      return first;
    }
    const double size = std::sqrt(first * first + squares), kept = first > 0 ? -size : size;
    const T scale = static_cast<T>(1 / (first - kept));
    to[k + 1] = 1;
    for (std::int64_t i = k + 2; i < n_; ++i) to[i] *= scale;
    scales_[as_index(k)] = static_cast<T>((kept - first) / kept);
    return kept;
  }

  std::int64_t n_, blocks_, stride_;
  ZeroedNumbers<T> a_, reflectors_;  // row k of the latter: that of step k
  std::vector<T> scales_;
  SymmetricMachine<T> machine_;
};

// ---- from three diagonals to one

/// The eigenvectors by rows, in panels of columns, and rotations that they still wait for.
template <class T>
class TurnedRows {
 public:
  TurnedRows(T* panels, std::int64_t n) : panels_(panels), n_(n), machine_(symmetric_machine_here<T>()) {}

  /// A sweep begins; at most `length` rotations follow.
  void begin_sweep(std::int64_t start, int step, std::int64_t length) {
    if (panels_ == nullptr) return;
    if (rotations_.size() > most_waiting) apply();
    const bool continues = !groups_.empty() && groups_.back().start == start && groups_.back().step == step &&
                           groups_.back().sweeps < RotationGroup<T>::most_sweeps && length <= groups_.back().length &&
                           2 * length >= groups_.back().length && length >= RotationGroup<T>::most_sweeps;
    if (!continues) groups_.push_back({start, length, step, 0, rotations_.size()});
    RotationGroup<T>& group = groups_.back();
    ++group.sweeps;
    const std::size_t at = rotations_.size();
    rotations_.resize(at + as_index(2 * group.length));
    for (std::int64_t i = length; i < group.length; ++i) rotations_[at + as_index(2 * i)] = T(1);  // leave rows alone
    next_ = rotations_.data() + at;
  }
  void add(double c, double s) {
    if (panels_ == nullptr) return;
    *next_++ = static_cast<T>(c);
    *next_++ = static_cast<T>(s);
  }
  void apply() {
    if (panels_ == nullptr) return;
    constexpr std::int64_t wide = panel_columns<T>;
    const double cost = static_cast<double>(rotations_.size());
    parallel_for((n_ + wide - 1) / wide, cost, [&](std::int64_t panel, std::int64_t end) {
      for (; panel < end; ++panel)
        machine_.rotate_panel(panels_ + panel * n_ * wide, groups_.data(), groups_.size(), rotations_.data());
    });
    groups_.clear();
    rotations_.clear();
  }

 private:
  static constexpr std::size_t most_waiting = std::size_t{1} << 17;
  T* panels_;
  std::int64_t n_;
  SymmetricMachine<T> machine_;
  std::vector<RotationGroup<T>> groups_;
  std::vector<T> rotations_;
  T* next_ = nullptr;
};

/// Rows [first, last] of three diagonals that nothing ties to others. Counts rows from whichever end has the smaller
/// numbers: small eigenvalues are found first, and keep their digits.
template <class T>
class QlIteration {
 public:
  QlIteration(ThreeDiagonals& of, TurnedRows<T>& rows, std::int64_t first, std::int64_t last)
      : first_(first),
        last_(last),
        is_reversed_(std::abs(of.d[as_index(last)]) < std::abs(of.d[as_index(first)])),
        d_(of.d.data()),
        e_(of.e.data()),
        rows_(rows) {}

  bool run() {
    if (is_reversed_) reverse();
    bool has_ended = true;
    std::int64_t sweeps_left = 30 * (last_ - first_ + 1);
    for (std::int64_t l = first_; l <= last_ && has_ended; ++l)
      for (std::int64_t m = end_of_block(l); m != l; m = end_of_block(l)) {
        if (sweeps_left-- == 0) {
          has_ended = false;
          break;
        }
        sweep(l, m);
      }
    if (is_reversed_) reverse();
    return has_ended;
  }
  static bool is_negligible(const double* d, const double* e, std::int64_t i) {
    constexpr double epsilon = std::numeric_limits<T>::epsilon();
    return e[i] * e[i] <= epsilon * epsilon * std::abs(d[i]) * std::abs(d[i + 1]) + negligible_square<T>;
  }

 private:
  void reverse() {
    std::reverse(d_ + first_, d_ + last_ + 1);
    std::reverse(e_ + first_, e_ + last_);
  }
  std::int64_t end_of_block(std::int64_t l) {
    for (std::int64_t m = l; m < last_; ++m)
      if (is_negligible(d_, e_, m)) {
        e_[m] = 0;
        return m;
      }
    return last_;
  }
  /// The rotation that takes (g, f) to (size, 0).
  static double turn_away(double f, double g, double& c, double& s) {
    constexpr double least_square = 1e-280, scale = 0x1p500;  // below, squares lose digits
    const bool is_tiny = f * f + g * g < least_square;
    if (is_tiny) {
      f *= scale;
      g *= scale;
    }
    const double size = std::sqrt(f * f + g * g);
    c = size == 0 ? 1 : g / size;
    s = size == 0 ? 0 : f / size;
    return is_tiny ? size / scale : size;
  }
  /// From row m up to row l, shifted by the eigenvalue of the two rows at l that is closer to d[l].
  void sweep(std::int64_t l, std::int64_t m) {
    const double half = (d_[l + 1] - d_[l]) / (2 * e_[l]), root = std::sqrt(half * half + 1);
    double g = d_[m] - d_[l] + e_[l] / (half + std::copysign(root, half)), s = 1, c = 1, moved = 0;
    rows_.begin_sweep(is_reversed_ ? first_ + last_ - m : m, is_reversed_ ? 1 : -1, m - l);
    for (std::int64_t i = m; i-- > l;) {
      const double b = c * e_[i], size = turn_away(s * e_[i], g, c, s);
      if (i + 1 != m) e_[i + 1] = size;
      const double lower = d_[i + 1] - moved, turned = (d_[i] - lower) * s + 2 * c * b;
      moved = s * turned;
      d_[i + 1] = lower + moved;
      g = c * turned - b;
      rows_.add(c, s);
    }
    d_[l] -= moved;
    e_[l] = g;
  }

  std::int64_t first_, last_;
  bool is_reversed_;
  double *d_, *e_;
  TurnedRows<T>& rows_;
};

template <class T>
bool diagonalise(ThreeDiagonals& of, TurnedRows<T>& rows) {
  const auto n = static_cast<std::int64_t>(of.d.size());
  for (std::int64_t first = 0; first < n;) {
    std::int64_t last = first;
    while (last + 1 < n && !QlIteration<T>::is_negligible(of.d.data(), of.e.data(), last)) ++last;
    if (last + 1 < n) of.e[as_index(last)] = 0;
    if (last > first && !QlIteration<T>(of, rows, first, last).run()) return false;
    first = last + 1;
  }
  rows.apply();
  return true;
}

/// Row order[j] of the panels becomes column j.
template <class T>
void write_columns(const T* panels, const std::vector<std::int64_t>& order, T* to) {
  constexpr std::int64_t wide = panel_columns<T>, together = symmetric_block<T>;
  const auto n = static_cast<std::int64_t>(order.size());
  parallel_for((n + wide - 1) / wide, static_cast<double>(n * wide), [&](std::int64_t panel, std::int64_t end) {
    for (; panel < end; ++panel) {
      const std::int64_t columns = std::min(wide, n - panel * wide);
      for (std::int64_t j = 0; j < n; j += together)
        for (std::int64_t column = 0; column < columns; ++column)
          for (std::int64_t i = j; i < std::min(j + together, n); ++i)
            to[(panel * wide + column) * n + i] = panels[(panel * n + order[as_index(i)]) * wide + column];
    }
  });
}

template <class T>
bool symmetric_eigen(const T* a, std::int64_t n, T* values, T* vectors) {
  T largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) largest = std::max(largest, std::abs(a[i * n + j]));
  int exponent = 0;
  std::frexp(largest, &exponent);
  exponent = std::clamp(exponent, std::numeric_limits<T>::min_exponent + 2, std::numeric_limits<T>::max_exponent - 1);
  Tridiagonalisation<T> reduced(a, n, std::ldexp(T(1), -exponent));
  ThreeDiagonals diagonals = reduced.run();
  constexpr std::int64_t wide = panel_columns<T>;
  const ZeroedNumbers<T> panels(vectors == nullptr ? 0 : (n + wide - 1) / wide * wide * n);
  if (vectors != nullptr) reduced.write_factor(panels.data());
  TurnedRows<T> rows(vectors == nullptr ? nullptr : panels.data(), n);
  const bool has_ended = diagonalise(diagonals, rows);
  std::vector<std::int64_t> order(as_index(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const double x = diagonals.d[as_index(i)], y = diagonals.d[as_index(j)];
    return x < y || (x == y && i < j);
  });
  for (std::int64_t i = 0; i < n; ++i)
    values[i] = static_cast<T>(std::ldexp(diagonals.d[as_index(order[as_index(i)])], exponent));
  if (vectors != nullptr) write_columns(panels.data(), order, vectors);
  return has_ended;
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
