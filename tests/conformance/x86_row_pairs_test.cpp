// Two rows side by side, and stores past the caches in row kernels: the same bits as row by row.
#include "../catch.hpp"

#ifndef SINTER_NO_X86
#include "x86_loop_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

/// What a row kernel does with the loads of its operands: the value of each element, or of each row.
struct Case {
  const char* name;
  DType in, out;
  bool is_of_rows;    // one result for each row
  bool uses_weights;  // a number for each column
  std::function<ScalarValue(ScalarBuilder&, ScalarValue x, ScalarValue weight)> build;
};

ScalarValue softmax(ScalarBuilder& s, ScalarValue x, ScalarValue) {
  const ScalarValue e = s.exp(s.sub(x, s.reduce(Prim::reduce_max, x)));
  return s.div(e, s.reduce(Prim::reduce_add, e));
}
ScalarValue layer_norm(ScalarBuilder& s, ScalarValue x, ScalarValue weight) {
  const ScalarValue scale = s.imm(1 / 256.0, DType::f32);
  const ScalarValue centred = s.sub(x, s.mul(s.reduce(Prim::reduce_add, x), scale));
  const ScalarValue variance = s.mul(s.reduce(Prim::reduce_add, s.mul(centred, centred)), scale);
  return s.fma(s.mul(centred, s.rsqrt(s.add(variance, s.imm(1e-5, DType::f32)))), weight, weight);
}
ScalarValue extent_of(ScalarBuilder& s, ScalarValue x, ScalarValue) {
  return s.sub(s.reduce(Prim::reduce_max, x), s.reduce(Prim::reduce_min, x));
}
ScalarValue numbered(ScalarBuilder& s, ScalarValue x, ScalarValue weight) {
  const ScalarValue place = s.convert(s.add(s.index(0), s.index(1)), DType::f32);
  return s.fma(s.reduce(Prim::reduce_add, s.mul(x, weight)), place, x);
}
ScalarValue sum_and_share(ScalarBuilder& s, ScalarValue x, ScalarValue) {
  return s.sub(x, s.reduce(Prim::reduce_add, x));
}

ScalarValue is_largest(ScalarBuilder& s, ScalarValue x, ScalarValue) { return s.eq(x, s.reduce(Prim::reduce_max, x)); }

const std::vector<Case>& cases() {
  static const std::vector<Case> rows = {
      {"softmax", DType::f32, DType::f32, false, false, softmax},
      {"softmax in bf16", DType::bf16, DType::bf16, false, false, softmax},
      {"layer_norm", DType::f32, DType::f32, false, true, layer_norm},
      {"largest less least", DType::f32, DType::f32, true, false, extent_of},
      {"of f64", DType::f64, DType::f64, true, false, extent_of},
      {"places", DType::f32, DType::f32, false, true, numbered},
      {"is largest", DType::f32, DType::bool_, false, false, is_largest},
      {"i32", DType::i32, DType::i32, false, false, sum_and_share},
      {"i64", DType::i64, DType::i64, false, false, sum_and_share},
  };
  return rows;
}

/// The kernel of a case; its operands are the matrix, a row of weights and the result.
Maker make(const Case& c, std::int64_t rows, std::int64_t columns) {
  Maker m(KernelKind::row, {{parallel, rows}, {reduced, columns}});
  const auto x = m.operand(c.in, 3), weight = m.operand(DType::f32, 2),
             out = m.operand(c.out, c.is_of_rows ? 1 : 3, true);
  const ScalarValue in = m.s.load(x, c.in == DType::bf16 ? DType::f32 : c.in);
  m.store(out, c.build(m.s, in, c.uses_weights ? m.load(weight) : ScalarValue{}));
  m.finish();
  return m;
}

Buffer filled(DType dtype, std::int64_t n) {
  Buffer b(dtype, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto u = static_cast<std::uint64_t>(i);
    const auto small = static_cast<float>(static_cast<double>((u * 2654435761u) % 1000003) / 100000.0 - 5);
    if (dtype == DType::f32) b.as<float>()[i] = small;
    if (dtype == DType::f64) b.as<double>()[i] = small;
    if (dtype == DType::i32) b.as<std::int32_t>()[i] = static_cast<std::int32_t>(u * 2654435761u);
    if (dtype == DType::i64) b.as<std::int64_t>()[i] = static_cast<std::int64_t>(u * 0x9E3779B97F4A7C15ull);
    if (dtype == DType::bf16) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &small, sizeof bits);
      b.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(bits >> 16);
    }
  }
  return b;
}

x86::LoopArgs arguments(const Maker& m, const std::vector<void*>& operands, void* scratch, const x86::LoopCode& code) {
  x86::LoopArgs args;
  x86::fill_loop_args(args, m.kernel, m.geometry, 0);
  args.scratch = scratch;
  args.scratch_stride = code.scratch_stride(args.columns);
  for (std::size_t i = 0; i < operands.size(); ++i) args.pointer[i].base = static_cast<char*>(operands[i]);
  return args;
}

}  // namespace

TEST_CASE("x86 row pairs: the bits of one row after the other", "[x86]") {
  if (!x86::host_has(x86::Isa::avx512)) SINTER_SKIP("AVX-512 is missing");
  for (const Case& c : cases())
    for (const std::int64_t rows : {1, 2, 7})
      for (const std::int64_t columns : {1, 15, 64, 65, 1000, 4096, 5003, 12289}) {
        INFO(c.name << ", " << rows << " rows of " << columns);
        const Maker m = make(c, rows, columns);
        const auto code = x86::compile_loop(m.kernel, {}, x86::Isa::avx512);
        REQUIRE(code != nullptr);
        REQUIRE(code->pairs() != nullptr);
        REQUIRE(code->pairs() != code->function());
        Buffer x = filled(c.in, rows * columns), weight = filled(DType::f32, columns);
        const std::int64_t results = c.is_of_rows ? rows : rows * columns;
        Buffer one(c.out, results), two(c.out, results);
        std::vector<std::byte> memory(2 * code->scratch_bytes(columns) + 64);
        void* scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
        for (Buffer* to : {&one, &two}) {
          const x86::LoopArgs args =
              arguments(m, {x.bytes.data(), weight.bytes.data(), to->bytes.data()}, scratch, *code);
          (to == &one ? code->function() : code->pairs())(&args, 0, rows);
          REQUIRE(to->guard_holds());
        }
        REQUIRE(one == two);
      }
}

TEST_CASE("x86 row pairs: more operands than registers", "[x86]") {
  if (!x86::host_has(x86::Isa::avx512)) SINTER_SKIP("AVX-512 is missing");
  constexpr std::int64_t rows = 5, columns = 1003;
  constexpr std::size_t inputs = 6;
  Maker m(KernelKind::row, {{parallel, rows}, {reduced, columns}});
  std::vector<std::uint16_t> in;
  for (std::size_t i = 0; i < inputs; ++i) in.push_back(m.operand(DType::f32, i == 3 ? 1 : 3));
  const auto out = m.operand(DType::f32, 3, true), sums = m.operand(DType::f32, 1, true);
  std::vector<ScalarValue> x;
  for (const std::uint16_t i : in) x.push_back(m.load(i));
  const ScalarValue e = m.s.exp(m.s.sub(x[0], m.s.reduce(Prim::reduce_max, x[0])));
  const ScalarValue sum = m.s.reduce(Prim::reduce_add, m.s.mul(e, x[1]));
  m.store(out, m.s.fma(m.s.div(m.s.mul(e, x[2]), sum), x[4], m.s.mul(x[3], x[5])));
  m.store(sums, m.s.add(sum, x[3]));
  m.finish();
  const auto code = x86::compile_loop(m.kernel, {}, x86::Isa::avx512);
  REQUIRE(code != nullptr);
  REQUIRE(code->pairs() != nullptr);
  std::vector<Buffer> buffers(inputs, filled(DType::f32, rows * columns));
  for (std::size_t i = 0; i < inputs; ++i)
    for (std::int64_t n = 0; n < rows * columns; ++n) buffers[i].as<float>()[n] += static_cast<float>(i);
  std::vector<std::byte> memory(2 * code->scratch_bytes(columns) + 64);
  void* scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  std::vector<Buffer> results;
  for (const x86::LoopFunction function : {code->function(), code->pairs()}) {
    Buffer matrix(DType::f32, rows * columns), column(DType::f32, rows);
    std::vector<void*> operands;
    for (Buffer& b : buffers) operands.push_back(b.bytes.data());
    operands.insert(operands.end(), {matrix.bytes.data(), column.bytes.data()});
    const x86::LoopArgs args = arguments(m, operands, scratch, *code);
    function(&args, 0, rows);
    REQUIRE(matrix.guard_holds());
    REQUIRE(column.guard_holds());
    results.insert(results.end(), {matrix, column});
  }
  REQUIRE(results[0] == results[2]);
  REQUIRE(results[1] == results[3]);
}

TEST_CASE("x86 row pairs: a NaN stays in its row", "[x86]") {
  if (!x86::host_has(x86::Isa::avx512)) SINTER_SKIP("AVX-512 is missing");
  constexpr std::int64_t rows = 64, columns = 1024;  // enough for the driver to take pairs
  const Case& c = cases()[3];
  const Maker m = make(c, rows, columns);
  const auto launch = x86::make_loop_executable(m.kernel, {}, x86::Isa::avx512)->bind(m.geometry);
  Buffer x = filled(c.in, rows * columns), weight = filled(DType::f32, columns), out(c.out, rows);
  void* operands[] = {x.bytes.data(), weight.bytes.data(), out.bytes.data()};
  for (const std::int64_t row : {0, 1, 62, 63}) {
    float& place = x.as<float>()[row * columns + 17 * row % columns];
    const float kept = place;
    place = std::numeric_limits<float>::quiet_NaN();
    launch->run(operands);
    for (std::int64_t r = 0; r < rows; ++r) REQUIRE(std::isnan(out.as<float>()[r]) == (r == row));
    place = kept;
  }
}

TEST_CASE("x86 row pairs: results larger than the caches, aligned and not", "[x86]") {
  for (const x86::Isa isa : isas())
    for (const std::int64_t columns : {4096, 4100})  // the rows of the second are not at multiples of 64 bytes
      for (const std::size_t which : {std::size_t{0}, std::size_t{2}}) {
        const std::int64_t rows = 1601, part = 2;
        const Case& c = cases()[which];
        INFO(c.name << ", columns " << columns);
        Buffer x = filled(c.in, rows * columns), weight = filled(DType::f32, columns);
        std::vector<float> out(static_cast<std::size_t>(rows * columns) + 32, -1.f), few(2 * 4100);
        float* aligned = out.data() + (64 - reinterpret_cast<std::uintptr_t>(out.data()) % 64) % 64 / sizeof(float);
        const Maker whole = make(c, rows, columns), small = make(c, part, columns);
        const auto launch = x86::make_loop_executable(whole.kernel, {}, isa)->bind(whole.geometry),
                   little = x86::make_loop_executable(small.kernel, {}, isa)->bind(small.geometry);
        for (float* to : {aligned, aligned + 1}) {
          void* operands[] = {x.bytes.data(), weight.bytes.data(), to};
          launch->run(operands);
          REQUIRE(to[rows * columns] == -1);
          for (const std::int64_t row : {std::int64_t{0}, std::int64_t{777}, rows - part}) {
            void* here[] = {x.as<float>() + row * columns, weight.bytes.data(), few.data()};
            little->run(here);
            const auto bytes = static_cast<std::size_t>(part * columns) * sizeof(float);
            REQUIRE(std::memcmp(to + row * columns, few.data(), bytes) == 0);
          }
        }
      }
}

TEST_CASE("x86 rows: what a later pass reads again is kept where the result goes, in place too", "[x86]") {
  struct Kept {
    const char* name;
    bool is_in_result, uses_weights;
    std::function<ScalarValue(ScalarBuilder&, ScalarValue x, ScalarValue weight)> build;
  };
  const Kept kept[] = {
      {"softmax", true, false, [](ScalarBuilder& s, ScalarValue x, ScalarValue) { return softmax(s, x, {}); }},
      {"softmax, weighted", false, true,
       [](ScalarBuilder& s, ScalarValue x, ScalarValue weight) { return s.mul(softmax(s, x, {}), weight); }},
      {"softmax, less its operand", false, false,
       [](ScalarBuilder& s, ScalarValue x, ScalarValue) { return s.sub(softmax(s, x, {}), x); }},
  };
  for (const x86::Isa isa : isas())
    for (const Kept& row : kept)
      for (const std::int64_t columns : {1, 15, 64, 1000, 4100}) {
        INFO(row.name << ", rows of " << columns);
        const std::int64_t rows = 5;
        const Case c{row.name, DType::f32, DType::f32, false, row.uses_weights, row.build};
        const Maker m = make(c, rows, columns);
        const auto code = x86::compile_loop(m.kernel, {}, isa);
        REQUIRE(code != nullptr);
        const Buffer x = filled(c.in, rows * columns);
        Buffer weight = filled(DType::f32, columns);
        std::vector<std::byte> memory(2 * code->scratch_bytes(columns) + 64);
        std::byte* scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
        const auto run = [&](x86::LoopFunction function, Buffer& from, Buffer& to) {
          std::fill(memory.begin(), memory.end(), std::byte{0x5a});
          const x86::LoopArgs args =
              arguments(m, {from.bytes.data(), weight.bytes.data(), to.bytes.data()}, scratch, *code);
          function(&args, 0, rows);
          REQUIRE(to.guard_holds());
          return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0x5a}; });
        };
        Buffer in = x, apart(c.out, rows * columns);
        REQUIRE(run(code->function(), in, apart) == row.is_in_result);
        REQUIRE(in == x);
        std::vector<x86::LoopFunction> functions{code->function()};
        if (code->pairs() != nullptr) functions.push_back(code->pairs());
        for (const x86::LoopFunction function : functions) {
          Buffer place = x;
          run(function, place, place);
          REQUIRE(place == apart);
        }
      }
}

#endif
