// What a row of an op table buys: the value against the row's own oracle, strided inputs, dynamic extents, empty
// tensors, gradients in both modes and vmap, on every back end. Rows state the op as users call it, the oracle over
// plain arrays of double, and the inputs. Knows only the public API.
#pragma once

#include "../catch.hpp"
#include "../sample.hpp"
#include "op_oracles.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sinter_test {

using namespace sinter;
using oracle::Domain;
using oracle::Extents;
using oracle::Numbers;
using oracle::Tolerance;

/// A dense row-major value as oracles see it. `scale` is, per element, what rounding errors are proportional to where
/// that is more than the element itself (empty: the elements).
struct Array {
  DType dtype = DType::f32;
  Extents extents;
  Numbers data;
  Numbers scale = {};
};
using Arrays = std::vector<Array>;
using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;
using Oracle = std::function<Array(const Arrays&)>;

/// Extents that a row leaves open; static runs give them `default_n`, dynamic ones several values (m is always n + 3).
inline constexpr std::int64_t n = -1, m = -2;
inline constexpr std::int64_t default_n = 6;
inline constexpr std::int64_t dynamic_sizes[] = {5, 12, 3, 67, 130};

/// How values are spread over the domain: anyhow, or for gradients away from kinks at multiples of 1/2 and from each
/// other.
struct Spec {
  Extents extents;
  DType dtype = DType::f32;
  Domain domain{-2, 2};
};

enum class Derivative : std::uint8_t { none, piecewise, first, second };
enum class Empty : std::uint8_t { untested, works, fails };  // at n = 0

/// Which layouts of the inputs are tried. Not the expanded where errors of equal numbers, which all go one way, are not
/// what the tolerance is for.
enum class Strided : std::uint8_t { all, distinct, none };

struct Row {
  std::string name;
  Function run;
  Oracle want;
  std::vector<Spec> inputs;
  Tolerance tolerance = oracle::exact;
  Derivative derivative = Derivative::none;  // checked where the inputs are f64
  Empty empty = Empty::works;
  Strided strided = Strided::all;
};

// ---- inputs ---------------------------------------------------------------------------------------------------------

/// Uniform in [0, 1), the same everywhere (splitmix64, Steele, Lea and Flood 2014).
inline double unit_value(std::uint64_t seed, std::uint64_t position) {
  std::uint64_t z = (seed + 1) * 0x9E3779B97F4A7C15ULL + position * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/// The number as the dtype holds it.
inline double rounded_to(DType dtype, double x, Domain domain) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(static_cast<float>(x));
    case DType::f64: return x;
    case DType::f16: return static_cast<double>(float16(static_cast<float>(x)));
    case DType::bf16: return static_cast<double>(bfloat16(static_cast<float>(x)));
    case DType::bool_: return x > (domain.lo + domain.hi) / 2 ? 1 : 0;
    default: {
      const double least = std::max(std::ceil(domain.lo), static_cast<double>(tensor_detail::lowest(dtype)));
      return std::min(std::max(std::floor(x), least), domain.hi);
    }
  }
}

/// The number as an element: integers wrap.
template <class T>
T as_element(double x) {
  if constexpr (std::is_integral_v<T>) {
    if (x >= 0x1p63)
      return sizeof(T) == 8 && x < static_cast<double>(std::numeric_limits<T>::max()) ? static_cast<T>(x)
                                                                                      : std::numeric_limits<T>::max();
    return static_cast<T>(static_cast<std::int64_t>(x));
  } else if constexpr (sizeof(T) <= 2) return T(static_cast<float>(x));
  else return static_cast<T>(x);
}

/// The integers beside i32 and i64.
inline constexpr DType more_integers[] = {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::u64};
inline constexpr DType halves[] = {DType::f16, DType::bf16};

inline Extents with_sizes(Extents extents, std::int64_t size) {
  for (auto& extent : extents) extent = extent == n ? size : extent == m ? size + 3 : extent;
  return extents;
}

inline Arrays make_inputs(const std::vector<Spec>& specs, std::int64_t size, std::uint64_t seed = 0) {
  Arrays arrays;
  for (std::size_t k = 0; k < specs.size(); ++k) {
    Array array{specs[k].dtype, with_sizes(specs[k].extents, size), {}};
    const Domain domain = specs[k].domain;
    for (std::int64_t i = 0; i < oracle::count(array.extents); ++i)
      array.data.push_back(rounded_to(
          array.dtype, domain.lo + (domain.hi - domain.lo) * unit_value(k + 31 * seed, static_cast<std::uint64_t>(i)),
          domain));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

/// Inputs where differences are right: within [-3, 3], no two equal, none on a kink; operands differ too.
inline Arrays smooth_inputs(const Row& row) {
  Arrays arrays = make_inputs(row.inputs, default_n);
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    if (!is_floating(arrays[k].dtype)) continue;
    double lo = std::max(row.inputs[k].domain.lo, -3.0), hi = std::min(row.inputs[k].domain.hi, 3.0);
    if (row.inputs[k].domain.lo > 0) lo = std::max(lo, 0.3);
    for (std::size_t i = 0; i < arrays[k].data.size(); ++i) {
      double x = lo + (hi - lo) * unit_value(k + 17, i);
      if (row.derivative == Derivative::piecewise)
        x = std::floor(2 * x) / 2 + 0.17 + 0.13 * static_cast<double>(k) + 1e-3 * static_cast<double>(i % 50);
      arrays[k].data[i] = x;
    }
  }
  return arrays;
}

inline Tensor dense_tensor(const Array& array) {
  return visit_dtype(array.dtype, [&](auto tag) {
    using T = decltype(tag);
    auto values = std::make_unique<T[]>(array.data.size() + 1);
    for (std::size_t i = 0; i < array.data.size(); ++i) values[i] = as_element<T>(array.data[i]);
    return copy_of(std::span<const T>(values.get(), array.data.size()), Shape(array.extents));
  });
}

enum class Placement : std::uint8_t { dense, transposed, stepped, expanded };
inline constexpr std::pair<Placement, const char*> strided_placements[] = {{Placement::transposed, "transposed"},
                                                                           {Placement::stepped, "sliced with steps"},
                                                                           {Placement::expanded, "expanded"}};

/// The axis that `expanded` repeats: the first with more than one index, or -1.
inline int repeated_axis(const Extents& extents) {
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (extents[axis] > 1) return static_cast<int>(axis);
  return -1;
}

/// `array` seen through another order of its axes, in row-major order there: element `at` of the result is element
/// source(at) of the array.
template <class F>
Array gathered(const Array& array, Extents extents, F&& source) {
  Array result{array.dtype, std::move(extents), {}};
  for (std::int64_t i = 0; i < oracle::count(result.extents); ++i) {
    const Extents from = source(oracle::coordinates(i, result.extents));
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < from.size(); ++axis) index = index * array.extents[axis] + from[axis];
    result.data.push_back(array.data[static_cast<std::size_t>(index)]);
  }
  return result;
}

/// `expanded` repeats the first index of an axis, so the array changes; other placements hold it as it is.
inline Array fit_placement(const Array& array, Placement placement) {
  const int axis = repeated_axis(array.extents);
  if (placement != Placement::expanded || axis < 0) return array;
  return gathered(array, array.extents, [&](Extents at) {
    at[static_cast<std::size_t>(axis)] = 0;
    return at;
  });
}

/// A tensor with the array's elements whose memory is laid out as told; ready, and not dense wherever the shape allows.
inline Tensor laid_out(const Array& array, Placement placement) {
  const Extents& extents = array.extents;
  Tensor result;
  if (placement == Placement::transposed && extents.size() > 1) {
    const Array reversed = gathered(array, Extents(extents.rbegin(), extents.rend()), [](Extents at) {
      std::reverse(at.begin(), at.end());
      return at;
    });
    result = dense_tensor(reversed);
    for (int axis = 0; 2 * axis < result.rank() - 1; ++axis) result = transpose(result, axis, -1 - axis);
  } else if (placement == Placement::stepped && !extents.empty()) {
    Array wide{array.dtype, extents, {}};
    for (auto& extent : wide.extents) extent = 2 * extent + 1;
    wide.data.assign(static_cast<std::size_t>(oracle::count(wide.extents)),
                     is_floating(array.dtype) ? oracle::not_a_number : 1);
    for (std::int64_t i = 0; i < oracle::count(extents); ++i) {
      std::int64_t index = 0;
      const Extents at = oracle::coordinates(i, extents);
      for (std::size_t axis = 0; axis < at.size(); ++axis) index = index * wide.extents[axis] + 2 * at[axis] + 1;
      wide.data[static_cast<std::size_t>(index)] = array.data[static_cast<std::size_t>(i)];
    }
    const std::vector<Index> positions(extents.size(), Index(slice(1, Dim(std::int64_t{1} << 60), 2)));
    result = index(dense_tensor(wide), positions);
  } else if (const int axis = repeated_axis(extents); placement == Placement::expanded && axis >= 0) {
    Extents narrow = extents;
    narrow[static_cast<std::size_t>(axis)] = 1;
    result = expand(dense_tensor(gathered(array, narrow, [](Extents at) { return at; })), Shape(extents));
  } else {
    result = dense_tensor(array);
  }
  eval(result);
  return result;
}

inline Inputs tensors(const Arrays& arrays, Placement placement = Placement::dense) {
  Inputs inputs;
  for (const Array& array : arrays) inputs.push_back(laid_out(array, placement));
  return inputs;
}

// ---- back ends ------------------------------------------------------------------------------------------------------

/// A way to run. `backend` null: not compiled, evaluated lazily.
struct Mode {
  const char* name;
  const char* backend;
  bool fuse;
  jit::Options options(jit::Dynamic dynamic = jit::Dynamic::automatic) const {
    return {.backend = backend == nullptr ? "" : backend, .dynamic = dynamic, .fuse = fuse};
  }
};

/// Those of this build. The ISA of x86 is the process's (SINTER_ISA).
inline const std::vector<Mode>& modes() {
#ifdef SINTER_TEST_ON_GPU  // tests/gpu: tensors are made on the GPU (on_gpu_test.cpp)
  static const std::vector<Mode> list =
      cuda::is_available()
          ? std::vector<Mode>{{"cuda", "", true}, {"cuda, not fused", "", false}, {"cuda, lazy", nullptr, false}}
          : std::vector<Mode>{};
#else
  static const std::vector<Mode> list = [] {
    const auto names = jit::list_backends();
    std::vector<Mode> found;
    for (const Mode& mode : {Mode{"x86", "x86", true}, Mode{"x86, not fused", "x86", false},
                             Mode{"reference", "reference", true}, Mode{"lazy", nullptr, false}})
      if (mode.backend == nullptr || std::find(names.begin(), names.end(), mode.backend) != names.end())
        found.push_back(mode);
    return found;
  }();
#endif
  return list;
}

inline auto compiled(const Function& run, const Mode& mode, jit::Dynamic dynamic = jit::Dynamic::automatic) {
  return jit::compile([run](const Inputs& in) { return run(in); }, mode.options(dynamic));
}
inline Tensor run_in(const Mode& mode, const Function& run, const Inputs& in) {
  return mode.backend == nullptr ? run(in) : compiled(run, mode)(in);
}

// ---- comparing ------------------------------------------------------------------------------------------------------

/// Empty, or how `got` differs first from `want`.
inline std::string difference(const Tensor& got, const Array& want, Tolerance tolerance) {
  if (got.dtype() != want.dtype)
    return "dtype " + std::string(name(got.dtype())) + ", should be " + std::string(name(want.dtype));
  if (!(got.shape() == Shape(want.extents)))
    return "shape " + got.shape().text() + ", should be " + Shape(want.extents).text();
  return visit_dtype(want.dtype, [&](auto tag) -> std::string {
    using T = decltype(tag);
    const Tensor here = got.to(Device::cpu());
    const std::span<const T> values = here.data<T>();
    for (std::size_t i = 0; i < want.data.size(); ++i) {
      double error = 0, allowed = 0;
      if constexpr (!FloatingElement<T>) error = values[i] == as_element<T>(want.data[i]) ? 0 : oracle::infinite;
      else {
        // What is computed in f32 and rounded once is off by half a unit at most, and a little.
        allowed = sizeof(T) <= 2 ? 0.5 + (tolerance.f32 + 1) / 64 : sizeof(T) == 4 ? tolerance.f32 : tolerance.f64;
#ifdef SINTER_TEST_ON_GPU
        allowed *= 2;  // CUDA's own functions have wider bounds; exact stays exact
#endif
        error = oracle::error_in_ulps(values[i], want.data[i],
                                      std::max(tolerance.floor, want.scale.empty() ? 0.0 : want.scale[i]));
      }
      if (!(error <= allowed))
        return "element " + std::to_string(i) + " is " + std::to_string(static_cast<double>(values[i])) +
               ", should be " + Catch::Detail::stringify(want.data[i]) + " (" + std::to_string(error) + " ulp, " +
               std::to_string(allowed) + " allowed)";
    }
    return "";
  });
}

/// The same for a call that may throw.
template <class F>
std::string difference_of(F&& call, const Array& want, Tolerance tolerance) {
  try {
    return difference(call(), want, tolerance);
  } catch (const std::exception& e) { return std::string("threw ") + e.what(); }
}

// ---- what a row buys ------------------------------------------------------------------------------------------------

inline void check_value(const Row& row, const Arrays& arrays, Placement placement, const char* what) {
  const Inputs in = tensors(arrays, placement);
  const Array want = row.want(arrays);
  for (const Mode& mode : modes()) {
    INFO(row.name << ", " << what << ", " << mode.name);
    CHECK(difference_of([&] { return run_in(mode, row.run, in); }, want, row.tolerance) == "");
  }
}

inline void check_placements(const Row& row, const Arrays& arrays) {
  for (auto [placement, what] : strided_placements) {
    if (row.strided == Strided::none || (row.strided == Strided::distinct && placement == Placement::expanded))
      continue;
    Arrays fitted;
    for (const Array& array : arrays) fitted.push_back(fit_placement(array, placement));
    check_value(row, fitted, placement, what);
  }
}

/// One compiled function for all sizes: static code first, then code for any size.
inline void check_dynamic(const Row& row) {
  for (const Mode& mode : modes()) {
    if (mode.backend == nullptr) continue;
    const auto function = compiled(row.run, mode);
    for (std::int64_t size : dynamic_sizes) {
      INFO(row.name << ", n = " << size << " of a dynamic extent, " << mode.name);
      const Arrays arrays = make_inputs(row.inputs, size);
      CHECK(difference_of([&] { return function(tensors(arrays)); }, row.want(arrays), row.tolerance) == "");
    }
    INFO(row.name << ", " << mode.name);
    CHECK(function.stats().compiles <= 2);
  }
}

/// Every extent symbolic from the start, the closed ones too.
inline void check_all_symbolic(const Row& row) {
  for (const Mode& mode : modes()) {
    if (mode.backend == nullptr) continue;
    const auto function = compiled(row.run, mode, jit::Dynamic::always);
    for (std::int64_t size : {4, 17}) {
      INFO(row.name << ", n = " << size << " of symbolic extents, " << mode.name);
      const Arrays arrays = make_inputs(row.inputs, size);
      CHECK(difference_of([&] { return function(tensors(arrays)); }, row.want(arrays), row.tolerance) == "");
    }
  }
}

inline void check_empty(const Row& row) {
  const Arrays arrays = make_inputs(row.inputs, 0);
  if (row.empty == Empty::works) check_value(row, arrays, Placement::dense, "n = 0");
  if (row.empty != Empty::fails) return;
  for (const Mode& mode : modes()) {
    INFO(row.name << ", n = 0, " << mode.name);
    CHECK_THROWS_AS(eval(run_in(mode, row.run, tensors(arrays))), UserError);
  }
}

/// sum(f(in) * weights): a loss in which every element of the result counts differently.
inline Array weights_for(const Array& result) {
  Array weights{DType::f64, result.extents, {}};
  for (std::size_t i = 0; i < result.data.size(); ++i) weights.data.push_back(0.5 + unit_value(99, i));
  return weights;
}
inline double oracle_loss(const Row& row, const Arrays& arrays, const Array& weights) {
  const Array result = row.want(arrays);
  long double total = 0;
  for (std::size_t i = 0; i < result.data.size(); ++i)
    total += static_cast<long double>(result.data[i]) * weights.data[i];
  return static_cast<double>(total);
}

/// d loss / d element by central differences of the oracle.
inline double oracle_slope(const Row& row, Arrays& arrays, const Array& weights, std::size_t operand,
                           std::size_t element, double step) {
  double& x = arrays[operand].data[element];
  const double middle = x;
  x = middle + step;
  const double above = oracle_loss(row, arrays, weights);
  x = middle - step;
  const double below = oracle_loss(row, arrays, weights);
  x = middle;
  return (above - below) / (2 * step);
}

inline Inputs gradient(const Row& row, const Inputs& in, const Tensor& weights) {
  return jit::grad([&](const Inputs& x) { return sum(row.run(x) * weights); })(in);
}
/// Gradient of sum over all elements of (gradient * direction).
inline Inputs second_gradient(const Row& row, const Inputs& in, const Tensor& weights, const Inputs& direction) {
  return jit::grad([&](const Inputs& x) {
    const Inputs first = gradient(row, x, weights);
    Tensor total = full({}, 0, {.dtype = DType::f64});
    for (std::size_t k = 0; k < first.size(); ++k)
      if (is_floating(first[k].dtype())) total = total + sum(first[k] * direction[k]);
    return total;
  })(in);
}

/// Differences have errors of about step^2 and 1e-16 / step^order.
inline std::string gradient_difference(const Tensor& got, const Array& want, double tolerance) {
  if (!(got.shape() == Shape(want.extents)))
    return "shape " + got.shape().text() + ", should be " + Shape(want.extents).text();
  const std::vector<double> values = to_vector<double>(got);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!(std::abs(values[i] - want.data[i]) <= tolerance * (1 + std::abs(want.data[i]))))
      return "element " + std::to_string(i) + " is " + Catch::Detail::stringify(values[i]) + ", should be " +
             Catch::Detail::stringify(want.data[i]);
  return "";
}

using GradientFunction = std::function<Inputs(const Inputs& in, const Tensor& weights, const Inputs& direction)>;
inline void check_gradients(const Row& row, const char* what, const GradientFunction& function, const Inputs& in,
                            const Tensor& weights, const Inputs& direction, const Arrays& want, double tolerance) {
  for (const Mode& mode : modes()) {
    Inputs got;
    INFO(row.name << ", " << what << ", " << mode.name);
    try {
      if (mode.backend == nullptr) got = function(in, weights, direction);
      else
        got = jit::compile([function](const Inputs& x, Tensor w, const Inputs& d) { return function(x, w, d); },
                           mode.options())(in, weights, direction);
      for (std::size_t k = 0; k < want.size(); ++k) {
        if (!is_floating(want[k].dtype)) continue;
        INFO("by operand " << k);
        CHECK(gradient_difference(got[k], want[k], tolerance) == "");
      }
    } catch (const std::exception& e) { FAIL_CHECK("threw " << e.what()); }
  }
}

/// The derivative of sum(f(in) * weights) along `along`, in forward mode.
inline void check_forward_mode(const Row& row, const Inputs& in, const Tensor& weights, const Inputs& along,
                               double want) {
  INFO(row.name << ", forward mode");
  try {
    auto loss = [&](const Inputs& x) { return sum(row.run(x) * weights); };
    CHECK(gradient_difference(jit::jvp(loss, in, along).second, {DType::f64, {}, {want}}, 1e-6) == "");
  } catch (const std::exception& e) { FAIL_CHECK("threw " << e.what()); }
}

inline void check_derivatives(const Row& row) {
  Arrays arrays = smooth_inputs(row), first, second, along;
  const Array weights = weights_for(row.want(arrays));
  for (const Array& array : arrays) {
    along.push_back({array.dtype, array.extents, {}});
    for (std::size_t i = 0; i < array.data.size(); ++i)
      along.back().data.push_back(is_floating(array.dtype) ? unit_value(7, i) - 0.3 : 0);
    first.push_back({array.dtype, array.extents, {}}), second.push_back(first.back());
  }
  const Inputs in = tensors(arrays), direction = tensors(along);
  auto slope = [&](std::size_t k, std::size_t i, double step) {
    return oracle_slope(row, arrays, weights, k, i, step);
  };
  auto move = [&](double by) {
    for (std::size_t k = 0; k < arrays.size(); ++k)
      for (std::size_t i = 0; i < arrays[k].data.size(); ++i) arrays[k].data[i] += by * along[k].data[i];
  };
  constexpr double step = 3e-4;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    if (!is_floating(arrays[k].dtype)) continue;
    for (std::size_t i = 0; i < arrays[k].data.size(); ++i) {
      first[k].data.push_back(slope(k, i, 1e-5));
      if (row.derivative != Derivative::second) continue;
      const Arrays before = arrays;
      move(step);
      const double above = slope(k, i, step);
      move(-2 * step);
      second[k].data.push_back((above - slope(k, i, step)) / (2 * step));
      arrays = before;
    }
  }
  const Tensor w = dense_tensor(weights);
  double slope_along = 0;
  for (std::size_t k = 0; k < arrays.size(); ++k)
    for (std::size_t i = 0; i < first[k].data.size(); ++i) slope_along += first[k].data[i] * along[k].data[i];
  check_forward_mode(row, in, w, direction, slope_along);
  check_gradients(
      row, "gradient", [&row](const Inputs& x, const Tensor& v, const Inputs&) { return gradient(row, x, v); }, in, w,
      direction, first, 1e-6);
  if (row.derivative == Derivative::second)
    check_gradients(
        row, "second gradient",
        [&row](const Inputs& x, const Tensor& v, const Inputs& d) { return second_gradient(row, x, v, d); }, in, w,
        direction, second, 1e-4);
}

/// vmap over three examples, of which only the inputs that `mask` names differ.
inline void check_mapped(const Row& row, std::uint32_t mask, const char* what) {
  constexpr int examples = 3;
  const Arrays common = make_inputs(row.inputs, default_n);
  std::vector<Arrays> arrays(examples, common);
  for (std::size_t e = 0; e < examples; ++e) {
    const Arrays own = make_inputs(row.inputs, default_n, e);
    for (std::size_t k = 0; k < own.size(); ++k)
      if ((mask >> k & 1) != 0) arrays[e][k] = own[k];
  }
  Inputs mapped, shared;
  for (std::size_t k = 0; k < common.size(); ++k) {
    std::vector<Tensor> each;
    for (const Arrays& example : arrays) each.push_back(dense_tensor(example[k]));
    ((mask >> k & 1) != 0 ? mapped : shared).push_back((mask >> k & 1) != 0 ? stack(each, 0) : each[0]);
  }
  auto run = [&](const Inputs& own, const Inputs& others) {
    Inputs in;
    for (std::size_t k = 0, a = 0, b = 0; k < common.size(); ++k)
      in.push_back((mask >> k & 1) != 0 ? own[a++] : others[b++]);
    return row.run(in);
  };
  INFO(row.name << ", vmap over " << what);
  try {
    const Tensor got = jit::vmap(run, {0, jit::no_axis})(mapped, shared);
    for (int e = 0; e < examples; ++e) {
      INFO("example " << e);
      std::vector<Index> at(static_cast<std::size_t>(got.rank()), Index(all));
      at[0] = Index(e);
      CHECK(difference(index(got, at), row.want(arrays[static_cast<std::size_t>(e)]), row.tolerance) == "");
    }
  } catch (const std::exception& e) { FAIL_CHECK("threw " << e.what()); }
}

inline void check_vmap(const Row& row) {
  for (const Spec& spec : row.inputs)
    if (spec.extents.size() >= static_cast<std::size_t>(max_rank)) return;  // no room for the batch
  const auto count = static_cast<unsigned>(row.inputs.size());
  check_mapped(row, (1u << count) - 1, "all");
  if (count < 2) return;
  check_mapped(row, 1, "the first");
  check_mapped(row, 1u << (count - 1), "the last");
}

inline bool is_open(const Row& row) {
  return std::any_of(row.inputs.begin(), row.inputs.end(), [](const Spec& spec) {
    return std::any_of(spec.extents.begin(), spec.extents.end(),
                       [](std::int64_t extent) { return extent == n || extent == m; });
  });
}

inline void check_row(const Row& row) {
  const Arrays arrays = make_inputs(row.inputs, default_n);
  check_value(row, arrays, Placement::dense, "dense");
  check_placements(row, arrays);
  if (!row.inputs.empty()) check_vmap(row);
  if (is_open(row)) {
    check_dynamic(row);
    check_all_symbolic(row);
    check_empty(row);
  }
  if (row.derivative != Derivative::none) check_derivatives(row);
}

inline void check_rows(const std::vector<Row>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (is_in_sample(i)) check_row(rows[i]);
}

}  // namespace sinter_test
