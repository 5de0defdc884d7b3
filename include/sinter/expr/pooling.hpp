// Pooling over one, two or three axes with padding, stride and dilation, of [n, c, ...] or of one example, [c, ...].
// Recorded as padding, sliding windows and a reduction of each window.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/order.hpp>
#include <sinter/tensor/tensor.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>

SINTER_NAMESPACE_BEGIN

/// A number for each of N axes: one for all of them, or N.
template <int N>
struct NumberPerAxis {
  std::array<std::int64_t, as_index(N)> values{};

  template <std::convertible_to<std::int64_t>... Numbers>
    requires(sizeof...(Numbers) == 1 || sizeof...(Numbers) == as_index(N))
  constexpr NumberPerAxis(Numbers... numbers) {  // NOLINT: a number stands for all axes
    const std::array<std::int64_t, sizeof...(Numbers)> given{static_cast<std::int64_t>(numbers)...};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = given[given.size() == 1 ? 0 : i];
  }
  constexpr std::int64_t operator[](int i) const { return values[as_index(i)]; }
};

template <int N>
struct MaxPoolOptions {
  NumberPerAxis<N> size = 0;      // of the window: required
  NumberPerAxis<N> stride = 0;    // 0: the size
  NumberPerAxis<N> padding = 0;   // at both ends, at most half of the size; never the largest element of a window
  NumberPerAxis<N> dilation = 1;  // distance of a window's elements
  bool ceil_mode = false;         // a last window may reach beyond the end
};

template <int N>
struct AvgPoolOptions {
  NumberPerAxis<N> size = 0;            // of the window: required
  NumberPerAxis<N> stride = 0;          // 0: the size
  NumberPerAxis<N> padding = 0;         // zeros at both ends, at most half of the size
  bool ceil_mode = false;               // a last window may reach beyond the end
  bool count_include_pad = true;        // padding counts in the mean
  Optional<std::int64_t> divisor = {};  // of each sum, in place of the number of elements; not 0
};

template <int N>
struct LpPoolOptions {
  NumberPerAxis<N> size = 0;    // of the window: required
  NumberPerAxis<N> stride = 0;  // 0: the size
  bool ceil_mode = false;       // a last window may reach beyond the end: less is added up there
};

template <int N>
struct MaxUnpoolOptions {
  NumberPerAxis<N> size = 0;     // of the windows that were pooled: required
  NumberPerAxis<N> stride = 0;   // 0: the size
  NumberPerAxis<N> padding = 0;  // at both ends
  Shape extents = {};            // of the result's last axes; else (n - 1) * stride - 2 * padding + size
};

template <int N>
struct FractionalMaxPoolOptions {
  NumberPerAxis<N> size = 0;    // of the window: required
  NumberPerAxis<N> extent = 0;  // of the result: required
};

/// The largest element of each window; x [n, c, ...]. The first of equal elements gets the gradient, and where NaN is
/// among them, the last NaN.
Tensor max_pool1d(const In& x, MaxPoolOptions<1> options);
Tensor max_pool2d(const In& x, MaxPoolOptions<2> options);
Tensor max_pool3d(const In& x, MaxPoolOptions<3> options);
/// The same, and where each of them is (i64), counted through the axes after (n, c), as in PyTorch; the first of equal
/// elements, and of NaN.
Ordered max_pool1d_with_indices(const In& x, MaxPoolOptions<1> options);
Ordered max_pool2d_with_indices(const In& x, MaxPoolOptions<2> options);
Ordered max_pool3d_with_indices(const In& x, MaxPoolOptions<3> options);
/// Zeros, and x [n, c, ...] at the places `indices` of each plane: what max_pool_with_indices kept. Of several for a
/// place the last one is taken. A place outside of the plane: IndexError when it runs.
Tensor max_unpool1d(const In& x, const In& indices, MaxUnpoolOptions<1> options);
Tensor max_unpool2d(const In& x, const In& indices, MaxUnpoolOptions<2> options);
Tensor max_unpool3d(const In& x, const In& indices, MaxUnpoolOptions<3> options);
/// (sum of x^p)^(1/p) of each window; x [n, c, ...], p > 0. Where the sum is 0, so is the derivative.
Tensor lp_pool1d(const In& x, double p, LpPoolOptions<1> options);
Tensor lp_pool2d(const In& x, double p, LpPoolOptions<2> options);
Tensor lp_pool3d(const In& x, double p, LpPoolOptions<3> options);
/// The largest element of each of so many windows that lie at uneven distances (Graham 2014). `samples` [n, c, axes] in
/// [0, 1) say where, drawn by rand() where there are none.
Tensor fractional_max_pool2d(const In& x, FractionalMaxPoolOptions<2> options,
                             const std::optional<Tensor>& samples = {});
Tensor fractional_max_pool3d(const In& x, FractionalMaxPoolOptions<3> options,
                             const std::optional<Tensor>& samples = {});
/// The mean of each window; x [n, c, ...].
Tensor avg_pool1d(const In& x, AvgPoolOptions<1> options);
Tensor avg_pool2d(const In& x, AvgPoolOptions<2> options);
Tensor avg_pool3d(const In& x, AvgPoolOptions<3> options);

SINTER_NAMESPACE_END
