// Random kernels that scatter: which axes collide, which the index varies along, and where in the table its places lie;
// all combiners, of few and of many places.
#pragma once

#include "kernel_random.hpp"

namespace sinter_test {

class ScatterGenerator {
 public:
  /// `most_points`: of the axes together.
  ScatterGenerator(std::uint64_t seed, std::int64_t most_points)
      : random_(seed ^ 0x5CA77E6), most_points_(most_points) {
    case_.seed = seed;
    case_.kernel.kind = KernelKind::scatter;
  }

  KernelCase generate() {
    choose_axes();
    const std::int64_t places = random_.integer(1, random_.chance(40) ? most_points_ : 9);
    const DType dtype = random_.pick(std::vector{DType::f32, DType::f32, DType::f64, DType::i32, DType::i64}),
                index_dtype = random_.chance(50) ? DType::i32 : DType::i64;
    const std::uint16_t index = add_access({index_dtype, false}, 60, 0);
    case_.data[0] = {0, static_cast<double>(places - 1), true};
    const std::uint16_t value = add_access({dtype, false}, 85, 0);
    std::vector<Inst>& body = case_.kernel.body;
    body = {{.prim = Prim::load, .dtype = index_dtype, .access = index},
            {.prim = Prim::load, .dtype = dtype, .access = value}};
    const Combine combine =
        random_.pick(std::vector{Combine::none, Combine::add, Combine::add, Combine::mul, Combine::min, Combine::max});
    if (combine == Combine::mul && is_floating(dtype)) case_.data[1] = {0.9, 1.1};
    const auto last = [&] { return static_cast<InstId>(body.size() - 1); };
    if (random_.chance(40)) body.push_back({.prim = Prim::neg, .dtype = dtype, .args = {1, no_inst, no_inst}});
    if (random_.chance(30)) body.push_back({.prim = Prim::max, .dtype = dtype, .args = {last(), 1, no_inst}});
    const std::uint16_t target = add_access({dtype, true}, 50, places);
    case_.kernel.stores = {{.access = target, .value = last(), .index = 0, .combine = combine}};
    return case_;
  }

 private:
  void choose_axes() {
    rank_ = static_cast<std::size_t>(random_.integer(1, 4));
    std::int64_t left = most_points_;
    for (std::size_t a = 0; a < rank_; ++a) {
      case_.kernel.axes.push_back(AxisRole::parallel);
      std::int64_t& extent = case_.geometry.extent[a];
      extent = std::min(left, random_.integer(1, random_.chance(20) ? most_points_ : 12));
      left /= extent;
    }
  }
  /// Of a new operand, over each axis with this chance, the last one innermost; the gathered axis, if there is one,
  /// lies somewhere among them.
  std::uint16_t add_access(const Operand& operand, int percent, std::int64_t gathered) {
    BoundGeometry::AccessNumbers numbers;
    Access access{.operand = static_cast<std::uint16_t>(case_.kernel.operands.size())};
    const auto gathered_before = static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(rank_)));
    std::int64_t stride = 1;
    for (std::size_t a = rank_ + 1; a-- > 0;) {
      if (gathered > 0 && a == gathered_before) {
        numbers.gather_stride = stride;
        stride *= gathered;
      }
      if (a == 0 || !random_.chance(percent)) continue;
      numbers.stride[a - 1] = stride;
      access.stride[a - 1] = stride == 1 ? StrideClass::unit : StrideClass::any;
      stride *= case_.geometry.extent[a - 1];
    }
    numbers.gather_extent = gathered;
    case_.geometry.accesses.push_back(numbers);
    case_.kernel.accesses.push_back(access);
    case_.kernel.operands.push_back(operand);
    case_.data.push_back({-8, 8});
    return access.operand;  // each has one access
  }

  Random random_;
  const std::int64_t most_points_;
  std::size_t rank_ = 0;
  KernelCase case_;
};

inline KernelCase random_scatter(std::uint64_t seed, std::int64_t most_points = 3000) {
  return ScatterGenerator(seed, most_points).generate();
}

}  // namespace sinter_test
