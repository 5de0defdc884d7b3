// Texts of requests, the arithmetic of reductions, and copies of parts of arrays.
#pragma once

#include <sinter/dist/engine.hpp>

#include <sinter/base/index.hpp>
#include <sinter/tensor/shape.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace dist {

SINTER_DECL std::string_view name(Reduce reduce) {
  static constexpr std::string_view names[] = {"sum", "mean", "prod", "maximum", "minimum"};
  return names[as_index(static_cast<int>(reduce))];
}
SINTER_DECL std::string_view name(CollectiveKind kind) {
  static constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                               "broadcast",  "reduce",         "permute",    "barrier",
                                               "axis_index", "shard",          "unshard"};
  return names[as_index(static_cast<int>(kind))];
}

SINTER_DECL std::string Request::text() const {
  std::string text(name(what.kind));
  const auto number = [](const char* label, int value) { return label + std::to_string(value); };
  switch (what.kind) {
    case CollectiveKind::all_reduce: text.append("(").append(name(what.reduce)).append(")"); break;
    case CollectiveKind::reduce:
      text.append("(").append(name(what.reduce)).append(number(", root ", what.root)).append(")");
      break;
    case CollectiveKind::reduce_scatter:
      text.append("(").append(name(what.reduce)).append(number(", axis ", what.axis)).append(")");
      break;
    case CollectiveKind::all_gather: text.append(number("(axis ", what.axis)).append(")"); break;
    case CollectiveKind::all_to_all:
      text.append(number("(axis ", what.split_axis)).append(number(" to ", what.axis)).append(")");
      break;
    case CollectiveKind::broadcast: text.append(number("(root ", what.root)).append(")"); break;
    case CollectiveKind::permute: {
      std::string pairs;
      for (const auto& [from, to] : what.pairs)
        pairs += (pairs.empty() ? "" : ", ") + std::to_string(from) + " to " + std::to_string(to);
      text.append("(").append(pairs).append(")");
      break;
    }
    default: break;
  }
  if (in != nullptr) text.append(" of ").append(Type{in->dtype, Device::cpu(), in->shape}.text());
  if (queue != nullptr) text.append(" on a GPU");
  return text.append(" over ").append(over);
}
SINTER_DECL std::string Request::text_with_line() const {
  const std::string line = where.text();
  return line.empty() ? text() : text() + " [" + line + "]";
}

SINTER_DECL bool agree(const Request& a, const Request& b) {
  const bool has_same_parts = (a.in == nullptr) == (b.in == nullptr) && (a.queue == nullptr) == (b.queue == nullptr);
  if (!(a.what == b.what) || !has_same_parts) return false;
  return a.in == nullptr || (a.in->dtype == b.in->dtype && identical(a.in->shape, b.in->shape));
}

namespace dist_detail {

SINTER_DECL std::string seconds_text(std::chrono::milliseconds time) {
  std::string text = std::to_string(static_cast<double>(time.count()) / 1000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

/// One step of a reduction, in the type that kernels compute in.
template <class T>
T combine(Reduce reduce, T a, T b) {
  switch (reduce) {
    case Reduce::maximum: return a > b || a != a ? a : b;  // NaN stays
    case Reduce::minimum: return a < b || a != a ? a : b;
    case Reduce::prod:
      if constexpr (std::is_floating_point_v<T>) return a * b;
      else return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
    default:
      if constexpr (std::is_floating_point_v<T>) return a + b;
      else return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  }
}

template <class T, Reduce reduce>
void reduce_elements(std::span<const void* const> sources, T* to, std::int64_t count) {
  // bool is computed in i32: only maximum and minimum are taken of it
  using Computed = std::conditional_t<std::same_as<T, std::uint64_t>, T, tensor_detail::Computed<T>>;
  using Acc = std::conditional_t<std::same_as<T, bool>, std::int32_t, Computed>;
  constexpr std::int64_t block = 512;
  std::array<Acc, as_index(block)> sums{};
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t size = std::min(block, count - begin);
    const T* first = static_cast<const T*>(sources[0]) + begin;
    for (std::int64_t i = 0; i < size; ++i) sums[as_index(i)] = static_cast<Acc>(first[i]);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      const T* next = static_cast<const T*>(sources[s]) + begin;
      for (std::int64_t i = 0; i < size; ++i)
        sums[as_index(i)] = combine(reduce, sums[as_index(i)], static_cast<Acc>(next[i]));
    }
    for (std::int64_t i = 0; i < size; ++i) {
      if constexpr (reduce == Reduce::mean && std::is_floating_point_v<Acc>)
        to[begin + i] = static_cast<T>(sums[as_index(i)] / static_cast<Acc>(sources.size()));
      else to[begin + i] = static_cast<T>(sums[as_index(i)]);
    }
  }
}

SINTER_DECL void reduce_in_order(Reduce reduce, DType dtype, std::span<const void* const> sources, void* to,
                                 std::int64_t count) {
  if (is_complex(dtype)) {  // sums and means of complex numbers are those of their parts
    ensure(reduce == Reduce::sum || reduce == Reduce::mean, "dist: a reduction of complex numbers is a sum or mean");
    dtype = dtype == DType::c64 ? DType::f32 : DType::f64;
    count *= 2;
  }
  visit_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    T* const out = static_cast<T*>(to);
    switch (reduce) {
      case Reduce::sum: return reduce_elements<T, Reduce::sum>(sources, out, count);
      case Reduce::mean: return reduce_elements<T, Reduce::mean>(sources, out, count);
      case Reduce::prod: return reduce_elements<T, Reduce::prod>(sources, out, count);
      case Reduce::maximum: return reduce_elements<T, Reduce::maximum>(sources, out, count);
      case Reduce::minimum: return reduce_elements<T, Reduce::minimum>(sources, out, count);
    }
  });
}

/// Bytes from one position of each axis to the next.
inline std::array<std::int64_t, 9> byte_strides(const Shape& shape, std::int64_t element_size) {
  std::array<std::int64_t, 9> strides{};
  std::int64_t stride = element_size;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[as_index(axis)] = stride;
    stride *= shape[axis].value();
  }
  return strides;
}

SINTER_DECL void copy_region(const Shape& shape, Region from, Region to, std::int64_t element_size) {
  if (shape.numel().value() == 0) return;
  const auto from_strides = byte_strides(*from.shape, element_size), to_strides = byte_strides(*to.shape, element_size);
  const auto start = [](const Region& region, const std::array<std::int64_t, 9>& strides) {
    char* data = static_cast<char*>(region.data);
    return region.shape->rank() == 0 ? data : data + region.offset * strides[as_index(region.axis)];
  };
  const char* source = start(from, from_strides);
  char* target = start(to, to_strides);
  // The last axes, as far as both arrays have them without gaps, are one piece.
  int outer = shape.rank();
  std::int64_t piece = element_size;
  while (outer > 0 && from_strides[as_index(outer - 1)] == piece && to_strides[as_index(outer - 1)] == piece)
    piece *= shape[--outer].value();
  std::array<std::int64_t, 8> position{};
  for (;;) {
    std::memcpy(target, source, as_index(piece));
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      const std::size_t a = as_index(axis);
      source += from_strides[a];
      target += to_strides[a];
      if (++position[a] < shape[axis].value()) break;
      source -= from_strides[a] * shape[axis].value();
      target -= to_strides[a] * shape[axis].value();
      position[a] = 0;
    }
    if (axis < 0) return;
  }
}

SINTER_DECL void run_alone(const Request& request, int index, int size) {
  const Collective& what = request.what;
  if (what.kind == CollectiveKind::barrier) return;
  const HostView& out = *request.out;
  if (what.kind == CollectiveKind::axis_index) {
    *out.as<std::int64_t>() = index;
    return;
  }
  if (out.numel == 0) return;
  const HostView& in = *request.in;
  const auto part_of = [&](const HostView& whole, const HostView& part) {
    return Region{whole.data, &whole.shape, what.axis, index * part.shape[what.axis].value()};
  };
  const bool is_received = what.kind != CollectiveKind::permute || !what.pairs.empty();
  if (what.kind == CollectiveKind::shard) {
    copy_region(out.shape, part_of(in, out), {out.data, &out.shape, what.axis, 0}, size_of(out.dtype));
  } else if (what.kind == CollectiveKind::unshard) {
    std::memset(out.data, 0, out.bytes());
    copy_region(in.shape, {in.data, &in.shape, what.axis, 0}, part_of(out, in), size_of(out.dtype));
  } else {
    ensure(size == 1, "dist: a group of several ranks needs an engine");
    if (is_received) std::memcpy(out.data, in.data, out.bytes());
    else std::memset(out.data, 0, out.bytes());
  }
}

}  // namespace dist_detail
}  // namespace dist
SINTER_NAMESPACE_END
