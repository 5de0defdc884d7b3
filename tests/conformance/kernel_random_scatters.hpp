// Random kernels that scatter: which axes collide, which the index varies along, and where in the table its places lie;
// all combiners, of few and of many places.
#pragma once

#include "kernel_random.hpp"

namespace sinter_test {

/// `most_points`: of the axes together.
inline KernelCase random_scatter(std::uint64_t seed, std::int64_t most_points = 3000) {
  Random random(seed ^ 0x5CA77E6);
  KernelCase result;
  result.seed = seed;
  Kernel& kernel = result.kernel;
  BoundGeometry& geometry = result.geometry;
  kernel.kind = KernelKind::scatter;
  const auto rank = static_cast<std::size_t>(random.integer(1, 4));
  std::int64_t left = most_points;
  for (std::size_t a = 0; a < rank; ++a) {
    kernel.axes.push_back(AxisRole::parallel);
    geometry.extent[a] = std::min(left, random.integer(1, random.chance(20) ? most_points : 12));
    left /= geometry.extent[a];
  }
  const std::int64_t places = random.integer(1, random.chance(40) ? most_points : 9);

  /// An access over some axes, the last one innermost; the gathered axis, if there is one, lies somewhere among them.
  const auto add_access = [&](DType dtype, bool is_written, const std::vector<bool>& varies, std::int64_t gathered) {
    BoundGeometry::AccessNumbers numbers;
    Access access{.operand = static_cast<std::uint16_t>(kernel.operands.size())};
    const std::int64_t gathered_after = random.integer(0, static_cast<std::int64_t>(rank));
    std::int64_t stride = 1;
    for (std::size_t a = rank + 1; a-- > 0;) {
      if (gathered > 0 && static_cast<std::int64_t>(a) == gathered_after) {
        numbers.gather_stride = stride;
        stride *= gathered;
      }
      if (a == 0 || !varies[a - 1]) continue;
      numbers.stride[a - 1] = stride;
      access.stride[a - 1] = stride == 1 ? StrideClass::unit : StrideClass::any;
      stride *= geometry.extent[a - 1];
    }
    numbers.gather_extent = gathered;
    geometry.accesses.push_back(numbers);
    kernel.accesses.push_back(access);
    kernel.operands.push_back({dtype, is_written});
    result.data.push_back({-8, 8});
    return static_cast<std::uint16_t>(kernel.accesses.size() - 1);
  };
  const auto some = [&](int percent) {
    std::vector<bool> axes(rank);
    for (std::size_t a = 0; a < rank; ++a) axes[a] = random.chance(percent);
    return axes;
  };
  const DType dtype = random.pick(std::vector{DType::f32, DType::f32, DType::f64, DType::i32, DType::i64}),
              index_dtype = random.chance(50) ? DType::i32 : DType::i64;
  const std::uint16_t index = add_access(index_dtype, false, some(60), 0);
  result.data[0] = {0, static_cast<double>(places - 1), true};
  const std::uint16_t value = add_access(dtype, false, some(85), 0);
  kernel.body = {{.prim = Prim::load, .dtype = index_dtype, .access = index},
                 {.prim = Prim::load, .dtype = dtype, .access = value}};
  const Combine combine =
      random.pick(std::vector{Combine::none, Combine::add, Combine::add, Combine::mul, Combine::min, Combine::max});
  if (combine == Combine::mul && is_floating(dtype)) result.data[1] = {0.9, 1.1};
  if (random.chance(40)) kernel.body.push_back({.prim = Prim::neg, .dtype = dtype, .args = {1, no_inst, no_inst}});
  if (random.chance(30))
    kernel.body.push_back(
        {.prim = Prim::max, .dtype = dtype, .args = {static_cast<InstId>(kernel.body.size() - 1), 1, no_inst}});
  const std::uint16_t target = add_access(dtype, true, some(50), places);
  kernel.stores = {
      {.access = target, .value = static_cast<InstId>(kernel.body.size() - 1), .index = 0, .combine = combine}};
  return result;
}

}  // namespace sinter_test
