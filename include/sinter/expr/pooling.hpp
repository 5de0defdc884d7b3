// Pooling over one, two or three axes with padding, stride and dilation. Recorded as padding, sliding windows and a
// reduction of each window.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/tensor/tensor.hpp>

#include <array>
#include <concepts>
#include <cstdint>

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
  NumberPerAxis<N> size = 0;      // of the window: required
  NumberPerAxis<N> stride = 0;    // 0: the size
  NumberPerAxis<N> padding = 0;   // zeros at both ends, at most half of the size
  bool ceil_mode = false;         // a last window may reach beyond the end
  bool count_include_pad = true;  // padding counts in the mean
};

/// The largest element of each window; x [n, c, ...]. The first of equal elements gets the gradient, and where NaN is
/// among them, the last NaN.
Tensor max_pool1d(const In& x, MaxPoolOptions<1> options);
Tensor max_pool2d(const In& x, MaxPoolOptions<2> options);
Tensor max_pool3d(const In& x, MaxPoolOptions<3> options);
/// The mean of each window; x [n, c, ...].
Tensor avg_pool1d(const In& x, AvgPoolOptions<1> options);
Tensor avg_pool2d(const In& x, AvgPoolOptions<2> options);
Tensor avg_pool3d(const In& x, AvgPoolOptions<3> options);

SINTER_NAMESPACE_END
