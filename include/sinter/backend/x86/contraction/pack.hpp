// Packing of B into column panels: `width` columns side by side for every k, so that a micro-kernel reads them in
// order; and sums turned back. Knows addresses and strides only.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// to[k * width + column] = from[k * k_stride + column * column_stride] for column < columns <= width; zeros beyond.
/// Strides in bytes; `element` is 4 or 8. Needs AVX2; unit strides in either direction are fast.
void pack_panel(std::byte* to, const std::byte* from, std::int64_t k_extent, std::int64_t columns, std::int64_t width,
                std::int64_t k_stride, std::int64_t column_stride, std::int64_t element);
/// to[row * to_stride + column * element] = from[row * element + column * from_stride], in bytes. Needs AVX2.
void transpose_elements(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t columns,
                        std::int64_t to_stride, std::int64_t from_stride, std::int64_t element);

}  // namespace x86
SINTER_NAMESPACE_END
