// std::mdspan in and out, where the standard library has it (libc++ 17, libstdc++ 15, C++23): spans are lent and copied
// as Eigen's objects are, and a Tensor's elements are seen as a span. Without std::mdspan this header declares nothing.
#pragma once

#include <sinter/expr/host.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/tensor/tensor.hpp>

#if __has_include(<mdspan>)
#include <mdspan>
#endif

#ifdef __cpp_lib_mdspan

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

namespace io_detail {

template <class M>
inline constexpr bool is_mdspan = false;
template <class T, class E, class L>
inline constexpr bool is_mdspan<std::mdspan<T, E, L, std::default_accessor<T>>> = true;

}  // namespace io_detail

/// A std::mdspan over elements that have a dtype, by plain pointers, with a stride for each axis: layout_right,
/// layout_left, layout_stride, and layouts of others that are strided. Static and dynamic extents, up to max_rank.
template <class M>
concept HostMdspan =
    io_detail::is_mdspan<std::remove_cv_t<M>> && Element<typename M::value_type> && M::is_always_strided();

namespace io_detail {

/// The span as memory of a dtype, a shape and strides.
template <class Lent, HostMdspan M>
Lent lent_mdspan(const M& m) {
  static_assert(M::rank() <= static_cast<std::size_t>(max_rank), "sinter: tensors have up to 8 axes");
  Lent lent{{dtype_of<typename M::value_type>(), Device::cpu(), {}}, {}, m.data_handle()};
  if constexpr (M::rank() > 0)  // some layouts of no axes have no stride()
    for (std::size_t axis = 0; axis < M::rank(); ++axis) {
      lent.type.shape.push_back(static_cast<std::int64_t>(m.extent(axis)));
      lent.strides[axis] = static_cast<std::int64_t>(m.stride(axis));
    }
  return lent;
}

/// Throws the ShapeError of extents that a span of this type cannot have.
template <class Extents>
void require_extents(const Shape& shape, Location where) {
  std::string wanted;
  bool fits = static_cast<std::size_t>(shape.rank()) == Extents::rank();
  for (std::size_t axis = 0; axis < Extents::rank(); ++axis) {
    const std::size_t extent = Extents::static_extent(axis);
    const bool is_open = extent == std::dynamic_extent;
    wanted += (axis == 0 ? "" : ", ") + (is_open ? std::string("any") : std::to_string(extent));
    if (!fits) continue;
    const std::int64_t has = shape[static_cast<int>(axis)].value();
    // As its index_type, an extent that is too large would become another one.
    fits = (is_open || static_cast<std::size_t>(has) == extent) &&
           static_cast<std::uint64_t>(has) <=
               static_cast<std::uint64_t>(std::numeric_limits<typename Extents::index_type>::max());
  }
  if (!fits)
    throw ShapeError("mdspan_of", "x is " + shape.text() + ", the extents of the span are (" + wanted + ")", where,
                     "name extents that fit, or std::dextents of the rank of x");
}

/// The value of x, evaluated, which must be of this dtype and in host memory.
inline const TensorImpl& value_in_host_memory(const Tensor& x, DType dtype, Location where) {
  TensorImpl* value = x.impl().get();
  evaluate({&value, 1}, "mdspan_of", where);
  if (value->type.device != Device::cpu())
    throw DeviceError("mdspan_of", "the elements are on " + value->type.device.text() + ", not in host memory", where,
                      "take x.to(Device::cpu()) first");
  if (value->type.dtype != dtype)
    throw DTypeError("mdspan_of",
                     "x is " + value->type.text() + ", the elements of the span are " + std::string(name(dtype)), where,
                     "name the C++ type of its dtype, or cast it: x.to(DType::" + std::string(name(dtype)) + ")");
  return *value;
}

/// Can a layout_stride, which has positive strides and each element once, see this memory? Axes of one index take part
/// with whatever stride fits.
inline bool has_unique_strides(const TensorImpl& value) {
  std::array<bool, static_cast<std::size_t>(max_rank)> is_seen{};
  const int rank = value.type.shape.rank();
  std::int64_t reach = 1;  // the elements that axes seen so far spread over
  for (int i = 0; i < rank; ++i) {
    int next = -1;
    for (int axis = 0; axis < rank; ++axis) {
      const auto k = static_cast<std::size_t>(axis);
      if (!is_seen[k] && (next < 0 || value.strides[k] < value.strides[static_cast<std::size_t>(next)])) next = axis;
    }
    const auto k = static_cast<std::size_t>(next);
    is_seen[k] = true;
    const std::int64_t extent = value.type.shape[next].value();
    if (extent == 1) continue;
    if (value.strides[k] < reach) return false;
    reach = value.strides[k] * extent;
  }
  return true;
}

/// The strides with which a layout_stride sees the memory: any positive one where an axis has one index.
inline Strides positive_strides(const TensorImpl& value) {
  Strides strides = value.strides;
  for (int axis = 0; axis < value.type.shape.rank(); ++axis)
    if (value.type.shape[axis] == Dim(1)) strides[static_cast<std::size_t>(axis)] = 1;
  return strides;
}

/// Those that the span of x has; of an empty Tensor, which may have none, those of one index for each such axis.
inline Strides span_strides(const TensorImpl& value, bool is_empty) {
  if (!is_empty) return positive_strides(value);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Strides strides{};
  std::int64_t dense = 1;
  for (int axis = value.type.shape.rank(); axis-- > 0;) {
    strides[static_cast<std::size_t>(axis)] = dense;
    const std::int64_t extent = std::max<std::int64_t>(value.type.shape[axis].value(), 1);
    dense = dense > most / extent ? most : dense * extent;
  }
  return strides;
}

/// Throws the ShapeError of a span whose strides, or the distance to its last element, its index_type cannot count.
template <class IndexType>
void require_countable(const TensorImpl& value, const Strides& strides, bool is_empty, Location where) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<IndexType>::max());
  std::uint64_t needed = is_empty ? 0 : 1;
  std::uint64_t largest = 0;
  for (int axis = 0; axis < value.type.shape.rank(); ++axis) {
    const auto stride = static_cast<std::uint64_t>(strides[static_cast<std::size_t>(axis)]);
    largest = std::max(largest, stride);
    if (!is_empty) needed += (static_cast<std::uint64_t>(value.type.shape[axis].value()) - 1) * stride;
  }
  if (std::max(largest, needed) > most)
    throw ShapeError(
        "mdspan_of",
        "x is " + value.type.text() + ", whose elements and strides reach to " +
            std::to_string(std::max(largest, needed)) + "; the index_type of the span counts to " +
            std::to_string(most),
        where, "name a wider one, as in std::dextents<std::int64_t, " + std::to_string(value.type.shape.rank()) + ">");
}

/// Strides of the layout whose first axis is the innermost one; so far as elements are told apart by them.
inline bool is_column_major(const TensorImpl& value) {
  std::int64_t stride = 1;
  for (int axis = 0; axis < value.type.shape.rank(); ++axis) {
    const std::int64_t extent = value.type.shape[axis].value();
    if (extent != 1 && value.strides[static_cast<std::size_t>(axis)] != stride) return false;
    stride *= extent;
  }
  return true;
}

[[noreturn]] inline void refuse_layout_left(const TensorImpl& value, Location where) {
  std::string strides;
  for (int axis = 0; axis < value.type.shape.rank(); ++axis)
    strides += (axis == 0 ? "" : ", ") + std::to_string(value.strides[static_cast<std::size_t>(axis)]);
  throw UserError("mdspan_of",
                  "x is " + value.type.text() + " with strides (" + strides + "), and no layout_left has these", where,
                  "take std::layout_stride, which sees any order of axes, or std::layout_right");
}

}  // namespace io_detail

/// Lends the elements of the span for one call, as borrow(matrix) does those of an Eigen object: `f(borrow(m))`. No
/// copy. They must stay valid and unchanged during the call.
template <HostMdspan M>
Borrowed borrow(const M& m) {
  return io_detail::lent_mdspan<Borrowed>(m);
}

/// Lends the span's memory to receive a result of its shape and dtype: `f.into(borrow_mut(m))(x)`, or
/// `copy_to(borrow_mut(m), x)`. A span of const elements does not compile.
template <class M>
  requires HostMdspan<std::remove_cvref_t<M>>
BorrowedMut borrow_mut(M&& m) {
  static_assert(!std::is_const_v<typename std::remove_cvref_t<M>::element_type>,
                "sinter: results cannot go into const memory");
  static_assert(std::remove_cvref_t<M>::is_always_unique(), "sinter: two positions of the span may be one element");
  return io_detail::lent_mdspan<BorrowedMut>(m);
}

/// A Tensor with a copy of the span's elements.
template <HostMdspan M>
Tensor copy_of(const M& m) {
  return copy_of(borrow(m));
}

/// The elements of x as a span of const T: `mdspan_of<float, std::dextents<int, 2>>(x)`, or `mdspan_of<float, 2>(x)`.
/// Evaluates x. The span has the strides of x where its layout can, so there is no copy; where it cannot (layout_right
/// of a Tensor that is not row-major; strides of 0 or below), it sees a row-major copy, which x keeps. It is valid
/// while x or a copy of the handle has this value, and in any thread.
/// Throws DTypeError (T is not the C++ type of x's dtype), ShapeError (another rank, a static extent that differs, more
/// elements than index_type counts), DeviceError (x is on a GPU), UserError (layout_left of a Tensor that is not
/// column-major).
template <Element T, class Extents, class Layout = std::layout_stride>
  requires(Extents::rank() <= static_cast<std::size_t>(max_rank))
std::mdspan<const T, Extents, Layout> mdspan_of(const Tensor& x, Location where = std::source_location::current()) {
  static_assert(std::is_same_v<Layout, std::layout_stride> || std::is_same_v<Layout, std::layout_right> ||
                    std::is_same_v<Layout, std::layout_left>,
                "sinter: layouts are std::layout_stride, std::layout_right and std::layout_left");
  using Span = std::mdspan<const T, Extents, Layout>;
  const TensorImpl& own = io_detail::value_in_host_memory(x, dtype_of<T>(), where);
  io_detail::require_extents<Extents>(x.shape(), where);
  const TensorImpl* value = &own;
  const bool is_empty = x.shape().numel() == Dim(0);
  if constexpr (std::is_same_v<Layout, std::layout_left>) {
    if (!is_empty && !io_detail::is_column_major(own)) io_detail::refuse_layout_left(own, where);
  } else {
    const bool is_seen = std::is_same_v<Layout, std::layout_stride> && (is_empty || io_detail::has_unique_strides(own));
    if (!is_seen) value = &expr_detail::readable_value(x, dtype_of<T>(), where);
  }
  using IndexType = typename Extents::index_type;
  const Strides known = io_detail::span_strides(*value, is_empty);
  io_detail::require_countable<IndexType>(*value, known, is_empty, where);
  std::array<IndexType, Extents::rank()> extents{}, strides{};
  for (std::size_t axis = 0; axis < Extents::rank(); ++axis) {
    extents[axis] = static_cast<IndexType>(x.shape()[static_cast<int>(axis)].value());
    strides[axis] = static_cast<IndexType>(known[axis]);
  }
  const auto* first = static_cast<const T*>(value->data());
  if constexpr (std::is_same_v<Layout, std::layout_stride>)
    return Span(first, typename Span::mapping_type(Extents(extents), strides));
  else return Span(first, typename Span::mapping_type(Extents(extents)));
}
/// Of a temporary the span would dangle: name the Tensor.
template <Element T, class Extents, class Layout = std::layout_stride>
void mdspan_of(Tensor&& x, Location where = std::source_location::current()) = delete;

/// The same of dynamic extents.
template <Element T, std::size_t rank, class Layout = std::layout_stride>
std::mdspan<const T, std::dextents<std::int64_t, rank>, Layout> mdspan_of(
    const Tensor& x, Location where = std::source_location::current()) {
  return mdspan_of<T, std::dextents<std::int64_t, rank>, Layout>(x, where);
}
template <Element T, std::size_t rank, class Layout = std::layout_stride>
void mdspan_of(Tensor&& x, Location where = std::source_location::current()) = delete;

SINTER_NAMESPACE_END

#endif
