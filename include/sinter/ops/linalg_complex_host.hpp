// How matrices of complex numbers lie in memory: pairs of real numbers, row-major. What is made of them is in
// linalg_complex_host.ipp.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/host_call.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace linalg_complex_detail {

/// Extents of matrices of pairs, and how many there are.
struct ComplexMatrices {
  explicit ComplexMatrices(const HostView& view) : rows(view.shape[-3].value()), columns(view.shape[-2].value()) {
    for (int i = 0; i + 3 < view.shape.rank(); ++i) count *= view.shape[i].value();
  }
  std::int64_t rows, columns, count = 1;
  std::int64_t size() const { return 2 * rows * columns; }  // real numbers
};

}  // namespace linalg_complex_detail
SINTER_NAMESPACE_END
