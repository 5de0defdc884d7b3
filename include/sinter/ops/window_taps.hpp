// Elements of overlapping windows added up where they came from, read window by window. Knows windows along
// axes side by side; not what gives their elements.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// What sum_windows(x) of `target`, whose windows begin `low` before it (where that has axes), is, if each element of x
/// follows from one value per window and from its place in it, as in gradients of pooling: each element of the target
/// reads the values of the few windows that hold it, and computes what they have for it. An empty Val where x is made
/// otherwise or windows hold an element too often.
Val sum_of_taps(Val x, const Shape& target, const Shape& low, const IntVector& axes, const IntVector& sizes,
                const IntVector& strides);
/// What sum_windows(x) of `target` is, of any x.
Val sum_windows_along(Val x, const Shape& target, const IntVector& axes, const IntVector& sizes,
                      const IntVector& strides);

}  // namespace ops_detail
SINTER_NAMESPACE_END
