// Pooling to a given size, and by other norms than mean and maximum.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/order.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// The last axes of x at the extents `size`: mean (maximum) of elements floor(i n / m) to before ceil((i + 1) n / m).
Tensor adaptive_avg_pool(const In& x, const Shape& size);
Tensor adaptive_max_pool(const In& x, const Shape& size);
/// The maximum, and where it is (i64), counted through the axes of `size`, as max_unpool takes it; the first of equal
/// elements, which gets the gradient, and of NaN.
Ordered adaptive_max_pool_with_indices(const In& x, const Shape& size);
/// (sum of x^p)^(1/p) of each window of an image.
Tensor lp_pool2d(const In& x, double p, std::int64_t size, std::int64_t stride = 0);  // stride 0: the size

namespace expr_detail {
Tensor adaptive_mean_along(const Tensor& x, int axis, Dim size, Location where);
}  // namespace expr_detail

SINTER_NAMESPACE_END
