// The vector math functions as machine code: on every instruction set the same bits as the same formulas give over
// plain numbers, whose accuracy tests/unit/x86_math_test.cpp measures.
#include "../catch.hpp"

#ifndef SINTER_NO_X86
#include "../unit/plain_math_builder.hpp"

#include <sinter/backend/x86/math/math.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/runtime/backend.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

using namespace sinter;
using sinter_test::PlainMathBuilder;

namespace {

struct Row {
  Prim prim;
  x86::Vec (*expand)(x86::MathBuilder&, x86::Vec, x86::Vec);
};
constexpr Row rows[] = {
    {Prim::exp, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_exp(b, x); }},
    {Prim::log, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_log(b, x); }},
    {Prim::sin, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_sin(b, x); }},
    {Prim::cos, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_cos(b, x); }},
    {Prim::tanh, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_tanh(b, x); }},
    {Prim::erf, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_erf(b, x); }},
    {Prim::gelu, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_gelu(b, x); }},
    {Prim::gelu_slope, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_gelu_slope(b, x); }},
    {Prim::gauss, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_gauss(b, x); }},
    {Prim::rsqrt, [](x86::MathBuilder& b, x86::Vec x, x86::Vec) { return x86::expand_rsqrt(b, x); }},
    {Prim::pow, [](x86::MathBuilder& b, x86::Vec x, x86::Vec y) { return x86::expand_pow(b, x, y); }},
};

/// out[i] = prim(x[i], y[i]) through the loop generator.
template <class T>
std::vector<T> run_machine(Prim prim, x86::Isa isa, std::vector<T> x, std::vector<T> y) {
  constexpr DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  Kernel kernel;
  kernel.kind = KernelKind::pointwise;
  kernel.axes.push_back(AxisRole::parallel);
  BoundGeometry geometry;
  geometry.extent[0] = static_cast<std::int64_t>(x.size());
  for (std::uint16_t i = 0; i < 3; ++i) {
    Access access;
    access.operand = i;
    access.stride[0] = StrideClass::unit;
    kernel.operands.push_back({dtype, i == 2});
    kernel.accesses.push_back(access);
    BoundGeometry::AccessNumbers numbers;
    numbers.stride[0] = 1;
    geometry.accesses.push_back(numbers);
  }
  ScalarBuilder s;
  const ScalarValue a = s.load(0, dtype), b = s.load(1, dtype);
  kernel.stores.push_back({2, (arity(prim) == 1 ? s.unary(prim, a) : s.binary(prim, a, b)).id});
  kernel.body = s.body();
  verify(kernel);
  std::string why;
  const auto executable = x86::make_loop_executable(kernel, {}, isa, &why);
  INFO(why);
  REQUIRE(executable != nullptr);
  std::vector<T> out(x.size());
  void* operands[] = {x.data(), y.data(), out.data()};
  executable->bind(geometry)->run(operands);
  return out;
}

/// Half of the numbers over all bit patterns, half of moderate size, and the corners.
template <class T>
std::vector<T> samples(std::uint64_t seed, std::size_t count) {
  using Bits = typename PlainMathBuilder<T>::Bits;
  using Limits = std::numeric_limits<T>;
  const T corners[] = {T(0),
                       -T(0),
                       T(1),
                       T(-1),
                       T(2),
                       T(-3),
                       T(0.5),
                       Limits::infinity(),
                       -Limits::infinity(),
                       Limits::quiet_NaN(),
                       Limits::denorm_min(),
                       -Limits::denorm_min(),
                       Limits::max(),
                       -Limits::max(),
                       Limits::min()};
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random();
    if (i % 2 == 0) values[i] = std::bit_cast<T>(static_cast<Bits>(bits));
    else values[i] = static_cast<T>((static_cast<double>(bits >> 11) * 0x1p-52 - 1) * (i % 4 == 1 ? 3 : 800));
    if (i % 16 == 15) values[i] = corners[bits % std::size(corners)];
  }
  return values;
}

template <class T>
void check_same_bits(const Row& row, x86::Isa isa) {
  using Bits = typename PlainMathBuilder<T>::Bits;
  const std::size_t count = 40 * PlainMathBuilder<T>::lanes;
  const std::vector<T> x = samples<T>(1, count), y = samples<T>(2, count);
  const std::vector<T> machine = run_machine<T>(row.prim, isa, x, y);
  PlainMathBuilder<T> plain;
  std::size_t different = 0, example = 0;
  for (std::size_t at = 0; at < count; at += plain.lanes) {
    plain.reset();
    const x86::Vec a = plain.input(std::span(x).subspan(at, plain.lanes)),
                   b = plain.input(std::span(y).subspan(at, plain.lanes));
    const auto& expected = plain.value(row.expand(plain, a, b));
    for (std::size_t i = 0; i < plain.lanes; ++i) {
      if (std::isnan(machine[at + i]) && std::isnan(expected[i])) continue;
      if (std::bit_cast<Bits>(machine[at + i]) == std::bit_cast<Bits>(expected[i])) continue;
      ++different;
      example = at + i;
    }
  }
  INFO(name(row.prim) << (sizeof(T) == 4 ? " f32" : " f64") << " on isa " << static_cast<int>(isa) << ": " << different
                      << " differ, as at x = " << std::hexfloat << x[example] << ", y = " << y[example] << ": "
                      << machine[example]);
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("x86 math: machine code gives the bits of the formulas", "[x86][math]") {
  for (x86::Isa isa : {x86::Isa::avx2, x86::Isa::avx512}) {
    if (!x86::host_has(isa)) continue;
    for (const Row& row : rows) {
      check_same_bits<float>(row, isa);
      check_same_bits<double>(row, isa);
    }
  }
}

#endif
