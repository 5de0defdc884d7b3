// Integer products on the x86 back end, by each of its units.
#include "../plan_harness.hpp"
#include "guarded_buffer.hpp"

#include "../catch.hpp"

#ifndef SINTER_NO_X86
#include <sinter/ops/quantized.hpp>
#include <sinter/runtime/lasting_operands.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

using namespace sinter;
using namespace sinter::x86;

namespace {

/// integer_matmul_rows by one unit, against plain sums modulo 2^32.
void check_integers(Isa isa, ProductUnit unit) {
  Node node;
  node.op = &op_info<ops::IntegerMatmul>;
  const Intrinsic make = X86Backend(isa, unit).intrinsic(Graph(), node, MatmulPrecision::f32);
  REQUIRE(make != nullptr);
  std::mt19937 random(7);
  for (const bool is_a_signed : {true, false})
    for (const bool is_b_signed : {true, false})
      for (const auto& [m, n, k] :
           {std::tuple{1, 1, 1}, std::tuple{9, 33, 63}, std::tuple{33, 35, 64}, std::tuple{300, 40, 70},
            std::tuple{260, 3, 1040}, std::tuple{5, 520, 70}, std::tuple{2, 3, 0}, std::tuple{0, 3, 4},
            std::tuple{1, 37, 300}, std::tuple{2, 4, 64}, std::tuple{3, 9, 130}, std::tuple{4, 6, 15},
            std::tuple{4, 33, 257}}) {
        INFO(m << " x " << n << " x " << k << ", signed: " << is_a_signed << " and " << is_b_signed);
        const std::vector<Type> types{{is_a_signed ? DType::i8 : DType::u8, {}, {m, k}},
                                      {is_b_signed ? DType::i8 : DType::u8, {}, {n, k}},
                                      {DType::i32, {}, {m, n}}};
        const auto size = [](int rows, int columns) { return static_cast<std::size_t>(rows * columns); };
        std::vector<std::uint8_t> a(size(m, k)), b(size(n, k));
        for (auto* bytes : {&a, &b})
          for (std::uint8_t& byte : *bytes) byte = static_cast<std::uint8_t>(random() >> 8);
        std::vector<std::int32_t> found(size(m, n), 77), wanted;
        const auto number = [](std::uint8_t byte, bool is_signed) {
          return is_signed ? std::int64_t{static_cast<std::int8_t>(byte)} : std::int64_t{byte};
        };
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j) {
            std::int64_t sum = 0;
            for (int l = 0; l < k; ++l)
              sum += number(a[size(i, k) + size(l, 1)], is_a_signed) * number(b[size(j, k) + size(l, 1)], is_b_signed);
            wanted.push_back(static_cast<std::int32_t>(sum));
          }
        const std::unique_ptr<Launch> launch = make(Attrs(), types);
        launch->prepare();
        sinter_test::GuardedOperands operands(sinter_test::GuardPages::at_end);
        operands.add(std::span(a));
        operands.add(std::span(b));
        operands.add(std::span(found));
        operands.run(*launch);
        CHECK(found == wanted);
        operands.run(*launch);  // on memory that is there
        CHECK(found == wanted);
        const std::unique_ptr<Launch> keeping = make(Attrs().with(lasting_operands, 2), types);
        keeping->prepare();
        for (int run = 0; run < 2; ++run) {
          std::fill(found.begin(), found.end(), 77);
          operands.run(*keeping);
          CHECK(found == wanted);
        }
      }
}

}  // namespace

TEST_CASE("integer products by AVX2", "[x86][narrow]") {
  if (!x86::host_has(Isa::avx2)) SINTER_SKIP("this processor has no AVX2");
  check_integers(Isa::avx2, ProductUnit::fma);
}
TEST_CASE("integer products by AVX512, with VNNI where it is", "[x86][narrow]") {
  if (!x86::host_has(Isa::avx512)) SINTER_SKIP("this processor has no AVX512");
  check_integers(Isa::avx512, ProductUnit::fma);
}
TEST_CASE("integer products by AMX", "[x86][narrow]") {
  if (!x86::host_has(Isa::avx512) || !x86::host_has(ProductUnit::amx)) SINTER_SKIP("this processor has no AMX");
  check_integers(Isa::avx512, ProductUnit::amx);
}
#endif
