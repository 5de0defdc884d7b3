// KernelCase: a kernel with extents, strides and operand data, and what is known of each value that it computes (range,
// error bound, exactness). The facts say which instructions may be put into a random body so that every back end must
// give the same result, and how close results have to be.
#pragma once

#include <sinter/kernel/kernel.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace sinter_test {
using namespace sinter;

/// A small generator with the same numbers everywhere (splitmix64, Steele, Lea and Flood, OOPSLA 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// A number of [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  double real(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(int percent) { return integer(1, 100) <= percent; }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(items.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

/// The numbers that an operand holds before the run.
struct DataRange {
  double low = 0, high = 1;
  bool integral = false;  // whole numbers only
  bool special = false;   // some NaN and infinities among them
  int memory_of = -1;     // a written operand that lies in the memory of an earlier one, as the memory plan arranges it
};

/// The points at which a guarded access may be read: of each axis [low, high). Memory holds no others.
struct GuardBox {
  std::array<std::int64_t, max_axes> low{}, high{};
};

struct KernelCase {
  std::uint64_t seed = 0;
  Kernel kernel;
  BoundGeometry geometry;
  std::vector<DataRange> data;                  // one per operand
  std::vector<std::optional<GuardBox>> guards;  // of accesses, as far as there are any
  bool has_wide_oracle = false;  // one of those compared computes floats in wider types, and rounds what it stores

  std::int64_t points(AxisRole role) const {
    std::int64_t points = 1;
    for (int a = 0; a < kernel.rank(); ++a)
      if (kernel.axes[static_cast<std::size_t>(a)] == role) points *= geometry.extent[static_cast<std::size_t>(a)];
    return points;
  }
};

/// What holds for a value at every point. `error` bounds the difference between two right implementations.
struct Facts {
  double low = 0, high = 0;
  double error = 0;
  bool integral = false;  // whole numbers (floats)
  bool special = false;   // NaN or infinity may occur
  bool signless = false;  // the sign of a zero is not determined

  bool is_exact() const { return error == 0; }
  double magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }
  /// Smallest magnitude; 0 if the range holds 0.
  double distance_to_zero() const { return low > 0 ? low : high < 0 ? -high : 0; }
};

inline double half_ulp(DType dtype) { return dtype == DType::f32 ? 0x1p-24 : 0x1p-53; }
/// Whole numbers below it are exact in the dtype, sums of them too.
inline double whole_limit(DType dtype) { return dtype == DType::f32 ? 0x1p24 : 0x1p53; }

class FactJudge {
 public:
  FactJudge(const KernelCase& test_case, const std::vector<Facts>& known) : case_(test_case), known_(known) {}

  /// Facts of an instruction, or nothing if two right back ends may disagree about it (a branch on an inexact number, a
  /// pole inside the range, an overflow).
  std::optional<Facts> judge(const Inst& inst) const {
    switch (inst.prim) {
      case Prim::immediate:
        return Facts{
            .low = inst.number(), .high = inst.number(), .integral = inst.number() == std::floor(inst.number())};
      case Prim::load: return loaded(inst);
      case Prim::gather: return gathered(inst);
      case Prim::guarded_load: return either(*loaded(inst), arg(inst, 1));
      case Prim::index:
        return Facts{.low = 0,
                     .high = static_cast<double>(std::max<std::int64_t>(case_.geometry.extent[inst.bits] - 1, 0))};
      case Prim::random_bits: return Facts{.low = 0, .high = 0x1p32 - 1};
      case Prim::select: return selected(inst);
      case Prim::convert: return converted(inst);
      case Prim::reduce_add:
      case Prim::reduce_mul:
      case Prim::reduce_min:
      case Prim::reduce_max:
      case Prim::contract: return reduced(inst);
      case Prim::scan_add:
      case Prim::scan_mul:
      case Prim::scan_min:
      case Prim::scan_max: return scanned(inst);
      case Prim::fold: return folded(inst);
      default: break;
    }
    const DType dtype = case_.kernel.body[inst.args[0]].dtype;
    if (is_comparison(inst.prim)) return compared(inst);
    return is_floating(dtype) ? on_floats(inst, dtype) : on_integers(inst, dtype);
  }

 private:
  const Facts& arg(const Inst& inst, std::size_t k) const { return known_[inst.args[k]]; }

  std::optional<Facts> loaded(const Inst& inst) const {
    const DataRange& range = case_.data[case_.kernel.accesses[inst.access].operand];
    return Facts{.low = range.low, .high = range.high, .integral = range.integral, .special = range.special};
  }
  std::optional<Facts> gathered(const Inst& inst) const {
    const Facts& index = arg(inst, 0);
    const auto extent = static_cast<double>(case_.geometry.accesses[inst.access].gather_extent);
    if (index.low < 0 || index.high > extent - 1) return {};
    return loaded(inst);
  }
  std::optional<Facts> compared(const Inst& inst) const {
    if (!arg(inst, 0).is_exact() || !arg(inst, 1).is_exact()) return {};
    return Facts{.low = 0, .high = 1};
  }
  std::optional<Facts> selected(const Inst& inst) const { return either(arg(inst, 1), arg(inst, 2)); }
  static std::optional<Facts> either(const Facts& a, const Facts& b) {
    return Facts{.low = std::min(a.low, b.low),
                 .high = std::max(a.high, b.high),
                 .error = std::max(a.error, b.error),
                 .integral = a.integral && b.integral,
                 .special = a.special || b.special,
                 .signless = a.signless || b.signless};
  }

  std::optional<Facts> converted(const Inst& inst) const {
    const DType from = case_.kernel.body[inst.args[0]].dtype, to = inst.dtype;
    Facts x = arg(inst, 0);
    if (to == DType::bool_) return x.is_exact() ? std::optional(Facts{.low = 0, .high = 1}) : std::nullopt;
    if (is_floating(from) && !is_floating(to)) {
      if (!x.is_exact() || x.special || x.magnitude() > 1e9) return {};  // out of range is each back end's own affair
      return Facts{.low = std::trunc(x.low), .high = std::trunc(x.high)};
    }
    if (!is_floating(to)) return wrapped(x.low, x.high, to);
    if (!is_floating(from)) x.integral = x.magnitude() < whole_limit(to);
    return finished(x, to);
  }

  std::optional<Facts> reduced(const Inst& inst) const {
    const std::int64_t count = case_.points(AxisRole::reduced);
    const auto n = static_cast<double>(count);
    Facts x = arg(inst, 0);
    if (inst.prim == Prim::contract) {
      const auto product = on_pair(Prim::mul, x, arg(inst, 1), inst.dtype);
      if (!product) return {};
      x = *product;
    }
    const bool is_min_max = inst.prim == Prim::reduce_min || inst.prim == Prim::reduce_max;
    if (is_min_max) {
      if (count == 0) return {};  // the neutral element is outside every range
      x.signless = true;
      return x;
    }
    if (inst.dtype == DType::bool_) return wrapped(0, 1, inst.dtype);
    if (!is_floating(inst.dtype)) {
      if (inst.prim == Prim::reduce_mul) return wrapped(-1e30, 1e30, inst.dtype);
      return wrapped(std::min(0.0, n * x.low), std::max(0.0, n * x.high), inst.dtype);
    }
    if (inst.prim == Prim::reduce_mul) {
      if (x.low <= 0 || n * std::max(std::fabs(std::log(x.low)), std::fabs(std::log(x.high))) > 4) return {};
      Facts y{
          .low = std::min(1.0, std::pow(x.low, n)), .high = std::max(1.0, std::pow(x.high, n)), .special = x.special};
      y.error = y.high * (n * x.error / x.low + (n + 2) * half_ulp(inst.dtype));
      return finished(y, inst.dtype);
    }
    Facts y{.low = std::min(0.0, n * x.low),
            .high = std::max(0.0, n * x.high),
            .integral = x.integral,
            .special = x.special,
            .signless = true};
    // Whole numbers add up exactly in any order; for others the worst case counts (few different values round alike).
    const bool adds_exactly =
        x.integral && x.is_exact() && n * x.magnitude() < whole_limit(inst.dtype) && factors_are_exact(inst);
    if (!adds_exactly)
      y.integral = false,
      y.error = n * x.error + (sum_depth(inst.dtype) * half_ulp(inst.dtype) + product_error(inst)) * n * x.magnitude();
    return finished(y, inst.dtype);
  }

  /// What a reduction has over any part of the axis.
  std::optional<Facts> scanned(Inst inst) const {
    inst.prim = reduction_of(inst.prim);
    std::optional<Facts> y = reduced(inst);
    const auto n = static_cast<double>(case_.points(AxisRole::reduced));
    if (y && is_floating(inst.dtype)) y->error *= 1 + n / 32;  // in order along columns, and by warps
    return y;
  }

  /// One of the ready folds; of exact values, as their order decides.
  std::optional<Facts> folded(const Inst& inst) const {
    const std::int64_t count = case_.points(AxisRole::reduced);
    const auto n = static_cast<double>(count);
    const ScalarFold& fold = case_.kernel.folds[inst.access];
    const DType dtype = fold.arguments[0];
    const Facts x = arg(inst, 0);
    if (count == 0 || !x.is_exact()) return {};
    if (fold == argmax_fold(dtype) || fold == argmin_fold(dtype)) return inst.bits == 0 ? arg(inst, 1) : x;
    if (fold == min_max_fold(dtype)) return x;
    const double unit = half_ulp(dtype), size = x.magnitude();
    if (x.special || size > 100) return {};
    Facts y{.low = x.low, .high = x.high, .signless = true};
    if (fold == moments_fold(dtype)) {
      if (inst.bits == 0) return Facts{.low = 0, .high = n, .integral = true};
      y.error = 8 * (n + 8) * unit * size;
      if (inst.bits == 2)
        y = {.low = 0, .high = n * 4 * size * size, .error = 4 * size * n * y.error, .signless = true};
      return finished(y, inst.dtype);
    }
    if (x.magnitude() > 20) return {};
    const double relative = 16 * (n + 8) * unit * (1 + size);
    if (fold == log_sum_exp_fold(dtype)) {
      if (inst.bits == 1) return x;
      if (inst.bits == 2) y = {.low = 0, .high = n, .error = n * relative};
      else y.high += std::log(n), y.error = relative * (1 + size);
      return finished(y, inst.dtype);
    }
    const Facts& weighted = arg(inst, 1);
    if (!weighted.is_exact() || weighted.special || weighted.magnitude() > 100) return {};
    if (inst.bits == 1) y.high += std::log(n), y.error = relative * (1 + size);
    else y = {.low = weighted.low, .high = weighted.high, .error = relative * (1 + weighted.magnitude())};
    return finished(y, inst.dtype);
  }

  /// Whole numbers of at most 11 bits are the same in TF32.
  bool factors_are_exact(const Inst& inst) const {
    return inst.prim != Prim::contract || case_.kernel.precision == MatmulPrecision::f32 ||
           std::max(arg(inst, 0).magnitude(), arg(inst, 1).magnitude()) <= 2048;
  }
  /// Of a product of two operands in less than their precision, relative; with what adding towards zero costs more.
  double product_error(const Inst& inst) const {
    if (inst.prim != Prim::contract || case_.kernel.precision == MatmulPrecision::f32) return 0;
    return (case_.kernel.precision == MatmulPrecision::tf32 ? 0x1.01p-10 : 0x1p-20) +
           2 * sum_depth(inst.dtype) * half_ulp(inst.dtype);
  }

  /// Additions that an element goes through at most: in the order that kernel.hpp fixes, or in one that a GPU prefers.
  double sum_depth(DType dtype) const {
    double depth = 2;
    for (int a = 0; a < case_.kernel.rank(); ++a) {
      if (!case_.kernel.is_reduced(a)) continue;
      const auto n = static_cast<double>(case_.geometry.extent[static_cast<std::size_t>(a)]);
      const bool is_vector_axis = a + 1 == case_.kernel.rank();
      if (case_.kernel.kind == KernelKind::contraction) depth += n;
      else depth += std::min(n, 4096.0) / (is_vector_axis ? (dtype == DType::f32 ? 64 : 32) : 1) + std::log2(n + 1) + 6;
    }
    return depth;
  }

  std::optional<Facts> on_floats(const Inst& inst, DType dtype) const {
    const Facts& x = arg(inst, 0);
    if (arity(inst.prim) == 2) return on_pair(inst.prim, x, arg(inst, 1), dtype);
    if (inst.prim == Prim::fma) {
      const auto product = on_pair(Prim::mul, x, arg(inst, 1), dtype);
      return product ? on_pair(Prim::add, *product, arg(inst, 2), dtype) : product;
    }
    Facts y = x;
    switch (inst.prim) {
      case Prim::neg: y.low = -x.high, y.high = -x.low; break;
      case Prim::abs: y.low = x.distance_to_zero(), y.high = x.magnitude(); break;
      case Prim::floor:
      case Prim::ceil:
      case Prim::round:
      case Prim::trunc:
        if (!x.is_exact()) return {};
        y.low = std::floor(x.low);
        y.high = std::ceil(x.high);
        y.integral = true;
        y.signless = true;
        break;
      case Prim::sqrt:
        if (x.low < (x.is_exact() ? 0 : 0.01)) return {};
        y.low = std::sqrt(x.low);
        y.high = std::sqrt(x.high);
        y.integral = false;
        if (!x.is_exact()) y.error = x.error / y.low;
        break;
      default: return function(inst.prim, x, dtype);
    }
    return finished(y, dtype);
  }

  /// The functions that back ends compute each their own way: within a few ulp.
  std::optional<Facts> function(Prim prim, const Facts& x, DType dtype) const {
    Facts y{.special = x.special, .signless = x.signless};
    double slope = 1;
    if (prim == Prim::rsqrt) {
      if (x.low < 0.05) return {};
      y.low = 1 / std::sqrt(x.high);
      y.high = 1 / std::sqrt(x.low);
      slope = y.high / x.low;
    } else if (prim == Prim::exp) {
      if (x.magnitude() > 8) return {};
      y.low = std::exp(x.low);
      y.high = std::exp(x.high);
      slope = y.high;
    } else if (prim == Prim::log) {
      if (x.low < 0.05) return {};
      y.low = std::log(x.low);
      y.high = std::log(x.high);
      slope = 1 / x.low;
    } else if (prim == Prim::sin || prim == Prim::cos) {
      if (x.magnitude() > 100) return {};
      y.low = -1;
      y.high = 1;
    } else if (prim == Prim::tanh || prim == Prim::erf) {
      y.low = std::max(-1.0, std::min(x.low * 1.2, 0.0)), y.high = std::min(1.0, std::max(x.high * 1.2, 0.0)),
      slope = 1.2;
    } else {
      return {};
    }
    y.error = slope * x.error + 8 * half_ulp(dtype) * std::max(y.magnitude(), 1e-30);
    return finished(y, dtype);
  }

  std::optional<Facts> on_pair(Prim prim, const Facts& a, const Facts& b, DType dtype) const {
    if (!is_floating(dtype)) return on_integer_pair(prim, a, b, dtype);
    Facts y{.error = a.error + b.error,
            .integral = a.integral && b.integral,
            .special = a.special || b.special,
            .signless = a.signless || b.signless};
    const double products[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    switch (prim) {
      case Prim::add: y.low = a.low + b.low, y.high = a.high + b.high; break;
      case Prim::sub: y.low = a.low - b.high, y.high = a.high - b.low; break;
      case Prim::mul:
        y.low = *std::min_element(products, products + 4);
        y.high = *std::max_element(products, products + 4);
        y.error = a.magnitude() * b.error + b.magnitude() * a.error + a.error * b.error;
        break;
      case Prim::div: {
        const double least = b.distance_to_zero();
        if (least < 0.05 || b.error > least / 2 || b.signless) return {};
        y.high = a.magnitude() / least;
        y.low = -y.high;
        y.integral = false;
        y.error = (a.error + y.high * b.error) / (least - b.error);
        break;
      }
      case Prim::rem:
        if (!a.is_exact() || !b.is_exact() || b.signless) return {};  // exact, as fmod is
        y.low = -b.magnitude();
        y.high = b.magnitude();
        y.signless = true;
        y.special |= b.distance_to_zero() == 0;
        break;
      case Prim::min:
        y.low = std::min(a.low, b.low), y.high = std::min(a.high, b.high), y.error = std::max(a.error, b.error),
        y.signless = true;
        break;
      case Prim::max:
        y.low = std::max(a.low, b.low), y.high = std::max(a.high, b.high), y.error = std::max(a.error, b.error),
        y.signless = true;
        break;
      case Prim::pow:
        if (a.low < 0.05 || a.high > 20 || b.magnitude() > 4 || a.signless || b.signless) return {};
        y.low = 0, y.high = std::exp(b.magnitude() * std::max(std::fabs(std::log(a.low)), std::fabs(std::log(a.high)))),
        y.integral = false;
        y.error = y.high * (b.magnitude() * a.error / a.low + 3 * b.error + 64 * half_ulp(dtype));
        break;
      default: return {};
    }
    return finished(y, dtype);
  }

  std::optional<Facts> on_integers(const Inst& inst, DType dtype) const {
    const Facts& x = arg(inst, 0);
    if (arity(inst.prim) == 2) return on_integer_pair(inst.prim, x, arg(inst, 1), dtype);
    if (inst.prim == Prim::not_)
      return dtype == DType::bool_ ? wrapped(0, 1, dtype) : wrapped(-x.high - 1, -x.low - 1, dtype);
    if (dtype == DType::bool_) return wrapped(0, 1, dtype);
    if (inst.prim == Prim::fma) {
      const auto product = on_integer_pair(Prim::mul, x, arg(inst, 1), dtype);
      return on_integer_pair(Prim::add, *product, arg(inst, 2), dtype);
    }
    if (inst.prim == Prim::neg) return wrapped(-x.high, -x.low, dtype);
    if (inst.prim == Prim::abs) return wrapped(x.distance_to_zero(), x.magnitude(), dtype);
    return {};
  }

  std::optional<Facts> on_integer_pair(Prim prim, const Facts& a, const Facts& b, DType dtype) const {
    if (dtype == DType::bool_) return wrapped(0, 1, dtype);
    const double products[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    const double most = std::max(a.magnitude(), b.magnitude());
    switch (prim) {
      case Prim::add: return wrapped(a.low + b.low, a.high + b.high, dtype);
      case Prim::sub: return wrapped(a.low - b.high, a.high - b.low, dtype);
      case Prim::mul:
        return wrapped(*std::min_element(products, products + 4), *std::max_element(products, products + 4), dtype);
      case Prim::div:
      case Prim::rem: return wrapped(-most, most, dtype);  // by zero: 0; the lowest number by -1 wraps
      case Prim::min: return wrapped(std::min(a.low, b.low), std::min(a.high, b.high), dtype);
      case Prim::max: return wrapped(std::max(a.low, b.low), std::max(a.high, b.high), dtype);
      case Prim::and_:
      case Prim::or_:
      case Prim::xor_: {
        const double power = std::exp2(std::ceil(std::log2(most + 1)));  // results fit into as many bits
        return wrapped(a.low < 0 || b.low < 0 ? -power : 0, power, dtype);
      }
      default: return {};
    }
  }

  /// Integers: what may not fit wraps around and may be any number of the dtype.
  static std::optional<Facts> wrapped(double low, double high, DType dtype) {
    const double limit = dtype == DType::i32 ? 0x1p31 : 0x1p63;
    const double safe = dtype == DType::i32 ? limit - 1 : 0x1p62;  // doubles near 2^63 are coarse
    if (low < -safe || high > safe) return Facts{.low = -limit, .high = limit};
    return Facts{.low = low, .high = high};
  }

  /// Floats: adds the rounding of an inexact result and refuses what has grown too large or too inexact to say
  /// anything.
  std::optional<Facts> finished(Facts y, DType dtype) const {
    if (y.error > 0 || (case_.has_wide_oracle && !y.integral)) {
      y.error += 2 * half_ulp(dtype) * y.magnitude();
      y.integral = false;
    }
    if (y.integral && y.magnitude() >= whole_limit(dtype)) y.integral = false;
    const bool is_tame = y.magnitude() < 1e6 && y.error <= 2e-3 * std::max(1.0, y.magnitude());
    return is_tame ? std::optional(y) : std::nullopt;
  }

  const KernelCase& case_;
  const std::vector<Facts>& known_;
};

/// Facts of the whole body; empty if some instruction is refused.
inline std::optional<std::vector<Facts>> judge_body(const KernelCase& test_case) {
  std::vector<Facts> facts;
  for (const Inst& inst : test_case.kernel.body) {
    const auto fact = FactJudge(test_case, facts).judge(inst);
    if (!fact) return {};
    facts.push_back(*fact);
  }
  return facts;
}

}  // namespace sinter_test
