// Products of bf16 on the x86 back end, by AVX512-BF16 and by AMX. Layouts are tested with small integers, whose sums
// are exact in any order; rounding against doubles with its bound; and that one element's bits depend on its row and
// column alone.
#include "../plan_harness.hpp"
#include "guarded_buffer.hpp"

#include "../catch.hpp"

#ifndef SINTER_NO_X86
#include <sinter/sinter.hpp>

#ifdef __linux__
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

using namespace sinter;
using namespace sinter::x86;

namespace {

/// Those of this machine, chosen or not.
std::vector<ProductUnit> units() {
  std::vector<ProductUnit> found;
  for (ProductUnit unit : {ProductUnit::avx512_bf16, ProductUnit::amx})
    if (x86::host_has(unit)) found.push_back(unit);
  return found;
}

struct ThreadCountGuard {
  const int before = thread_count();
  ThreadCountGuard() = default;
  ThreadCountGuard(const ThreadCountGuard&) = delete;
  ThreadCountGuard& operator=(const ThreadCountGuard&) = delete;
  ~ThreadCountGuard() { set_thread_count(before); }
};
struct IsaVariableGuard {
  std::optional<std::string> before;
  IsaVariableGuard() {
    if (const char* text = std::getenv("SINTER_ISA")) before = text;
  }
  IsaVariableGuard(const IsaVariableGuard&) = delete;
  IsaVariableGuard& operator=(const IsaVariableGuard&) = delete;
  ~IsaVariableGuard() {
    if (before) setenv("SINTER_ISA", before->c_str(), 1);
    else unsetenv("SINTER_ISA");
  }
};

enum class Ending { f32, bf16, bf16_transposed, bias_relu, residual_in_place, two_stores };

struct Problem {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;
  std::int64_t gap = 0, step = 1;  // elements between rows, and from neighbour to neighbour
  bool a_shared = false, b_shared = false;
  Ending ending = Ending::f32;
};

/// [rows, columns] with `gap` NaNs behind each row, or the transpose of such a matrix.
struct Layout {
  std::int64_t batch, row, column, size;
};
Layout layout(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool transposed, const Problem& p) {
  if (transposed) {
    const Layout l = layout(batch, columns, rows, false, p);
    return {l.batch, l.column, l.row, l.size};
  }
  const std::int64_t row = columns * p.step + p.gap;
  return {rows * row, row, p.step, batch * rows * row};
}

struct Case {
  Problem p;
  Kernel kernel;
  BoundGeometry geometry;
  std::vector<bfloat16> a, b;
  std::vector<float> bias, f32_out;
  std::vector<bfloat16> out, second;
  Layout la, lb, lc;
  bool is_transposed;

  explicit Case(const Problem& problem) : p(problem), is_transposed(p.ending == Ending::bf16_transposed) {
    kernel.kind = KernelKind::contraction;
    for (int axis = 0; axis < 3; ++axis) kernel.axes.push_back(AxisRole::parallel);
    kernel.axes.push_back(AxisRole::reduced);
    geometry.extent[0] = p.batch;
    geometry.extent[1] = p.m;
    geometry.extent[2] = p.n;
    geometry.extent[3] = p.k;
    la = layout(p.a_shared ? 1 : p.batch, p.m, p.k, p.a_transposed, p);
    lb = layout(p.b_shared ? 1 : p.batch, p.k, p.n, p.b_transposed, p);
    lc = layout(p.batch, p.m, p.n, is_transposed, Problem{});
    a.assign(static_cast<std::size_t>(la.size), bfloat16(std::nanf("")));
    b.assign(static_cast<std::size_t>(lb.size), bfloat16(std::nanf("")));
    bias.assign(static_cast<std::size_t>(p.n), 0.5F);
    out.assign(static_cast<std::size_t>(lc.size), bfloat16(2.F));
    second.assign(out.size(), bfloat16(0.F));
    f32_out.assign(out.size(), 0.F);
    ScalarBuilder s;
    const ScalarValue x =
        s.load(access(DType::bf16, {p.a_shared ? 0 : la.batch, la.row, 0, la.column}, false), DType::bf16);
    const ScalarValue y =
        s.load(access(DType::bf16, {p.b_shared ? 0 : lb.batch, 0, lb.column, lb.row}, false), DType::bf16);
    finish(s, s.contract(x, y));
    kernel.body = s.take();
    verify(kernel);
  }
  std::uint16_t access(DType dtype, std::array<std::int64_t, 4> stride, bool written) {
    kernel.operands.push_back({dtype, written});
    Access access{.operand = static_cast<std::uint16_t>(kernel.operands.size() - 1), .stride = {}};
    auto& numbers = geometry.accesses.emplace_back();
    for (std::size_t i = 0; i < 4; ++i) {
      numbers.stride[i] = stride[i];
      access.stride[i] = stride[i] == 0 ? StrideClass::zero : stride[i] == 1 ? StrideClass::unit : StrideClass::any;
    }
    kernel.accesses.push_back(access);
    return static_cast<std::uint16_t>(kernel.accesses.size() - 1);
  }
  void finish(ScalarBuilder& s, ScalarValue sum) {
    const std::array<std::int64_t, 4> c = {lc.batch, lc.row, lc.column, 0};
    switch (p.ending) {
      case Ending::f32: kernel.stores.push_back({access(DType::f32, c, true), sum.id}); break;
      case Ending::bf16:
      case Ending::bf16_transposed: kernel.stores.push_back({access(DType::bf16, c, true), sum.id}); break;
      case Ending::bias_relu: {
        const ScalarValue bias_value = s.load(access(DType::f32, {0, 0, 1, 0}, false), DType::f32);
        const ScalarValue value = s.max(s.add(sum, bias_value), s.imm(0, sum));
        kernel.stores.push_back({access(DType::bf16, c, true), value.id});
        break;
      }
      case Ending::residual_in_place: {
        const std::uint16_t to = access(DType::bf16, c, true);
        kernel.stores.push_back({to, s.add(s.load(to, DType::bf16), sum).id});
        break;
      }
      case Ending::two_stores:
        kernel.stores.push_back({access(DType::bf16, c, true), sum.id});
        kernel.stores.push_back({access(DType::bf16, c, true), s.neg(sum).id});
        break;
    }
  }

  bfloat16& a_at(std::int64_t e, std::int64_t i, std::int64_t k) {
    return a[static_cast<std::size_t>((p.a_shared ? 0 : e * la.batch) + i * la.row + k * la.column)];
  }
  bfloat16& b_at(std::int64_t e, std::int64_t k, std::int64_t j) {
    return b[static_cast<std::size_t>((p.b_shared ? 0 : e * lb.batch) + k * lb.row + j * lb.column)];
  }
  std::size_t c_at(std::int64_t e, std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(e * lc.batch + i * lc.row + j * lc.column);
  }
  template <class Draw>
  void fill(Draw&& draw) {
    for (std::int64_t e = 0; e < p.batch; ++e) {
      if (e == 0 || !p.a_shared)
        for (std::int64_t i = 0; i < p.m; ++i)
          for (std::int64_t k = 0; k < p.k; ++k) a_at(e, i, k) = bfloat16(draw());
      if (e == 0 || !p.b_shared)
        for (std::int64_t k = 0; k < p.k; ++k)
          for (std::int64_t j = 0; j < p.n; ++j) b_at(e, k, j) = bfloat16(draw());
    }
  }
  void fill_integers() {
    std::mt19937 random(static_cast<unsigned>(p.m * 1009 + p.n * 31 + p.k));
    fill([&] { return static_cast<float>(static_cast<int>(random() % 9) - 4); });
  }
  void fill_reals() {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> values(-1, 1);
    fill([&] { return values(random); });
  }

  void run(ProductUnit unit) {
    X86Backend backend(Isa::avx512, unit);
    std::string why;
    const auto executable = backend.compile(kernel, {}, &why);
    INFO(why);
    REQUIRE(executable != nullptr);
    const std::unique_ptr<Launch> launch = executable->bind(geometry);
    launch->prepare();
    sinter_test::GuardedOperands operands(sinter_test::GuardPages::at_end);
    auto add = [&, number = std::size_t{0}](auto& values) mutable {
      const auto reached = static_cast<std::size_t>(sinter_test::elements_reached(kernel, geometry, number++));
      operands.add(std::span(values).first(std::min(reached, values.size())));
    };
    add(a);
    add(b);
    if (p.ending == Ending::bias_relu) add(bias);
    if (p.ending == Ending::f32) add(f32_out);
    else add(out);
    if (p.ending == Ending::two_stores) add(second);
    operands.run(*launch);
    if (p.ending != Ending::residual_in_place) operands.run(*launch);  // a Launch runs any number of times
  }
  double sum(std::int64_t e, std::int64_t i, std::int64_t j) {
    double total = 0;
    for (std::int64_t k = 0; k < p.k; ++k)
      total += static_cast<double>(static_cast<float>(a_at(e, i, k))) * static_cast<float>(b_at(e, k, j));
    return total;
  }
  double magnitude(std::int64_t e, std::int64_t i, std::int64_t j) {
    double total = 0;
    for (std::int64_t k = 0; k < p.k; ++k)
      total += std::abs(static_cast<double>(static_cast<float>(a_at(e, i, k))) * static_cast<float>(b_at(e, k, j)));
    return total;
  }
  /// Sums are exact: what is stored is known to the bit.
  std::int64_t wrong() {
    std::int64_t count = 0;
    for (std::int64_t e = 0; e < p.batch; ++e)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          const auto exact = static_cast<float>(sum(e, i, j));
          const std::size_t at = c_at(e, i, j);
          float wanted = exact;
          if (p.ending == Ending::bias_relu) wanted = std::max(exact + 0.5F, 0.F);
          if (p.ending == Ending::residual_in_place) wanted = exact + 2.F;
          if (p.ending == Ending::f32) count += f32_out[at] != wanted;
          else count += static_cast<float>(out[at]) != static_cast<float>(bfloat16(wanted));
          if (p.ending == Ending::two_stores)
            count += static_cast<float>(second[at]) != static_cast<float>(bfloat16(-exact));
        }
    return count;
  }
};

std::string text_of(const Problem& p) {
  return std::to_string(p.batch) + "x" + std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) +
         (p.a_transposed ? " a^T" : "") + (p.b_transposed ? " b^T" : "") + " step " + std::to_string(p.step) + " gap " +
         std::to_string(p.gap) + " store " + std::to_string(static_cast<int>(p.ending));
}
void check_exact(const Problem& p) {
  for (ProductUnit unit : units()) {
    Case c(p);
    c.fill_integers();
    c.run(unit);
    INFO(text_of(p) << " unit " << static_cast<int>(unit));
    CHECK(c.wrong() == 0);
  }
}
constexpr const char* no_unit = "this processor multiplies no bf16";

}  // namespace

TEST_CASE("products of bf16 of all small and odd sizes are exact", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  for (std::int64_t m : {1, 2, 15, 16, 17, 31, 33, 70})
    for (std::int64_t n : {1, 2, 15, 16, 17, 32, 33, 65})
      for (std::int64_t k : {0, 1, 2, 3, 31, 32, 33, 64, 95}) check_exact({.m = m, .n = n, .k = k, .gap = 3});
}

TEST_CASE("products of bf16 take any layout", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  for (bool a : {false, true})
    for (bool b : {false, true})
      for (std::int64_t step : {1, 2})
        for (std::int64_t k : {1, 5, 32, 47, 130})
          for (std::int64_t m : {1, 3, 9, 34})
            for (std::int64_t n : {1, 5, 12, 40})
              check_exact({.m = m, .n = n, .k = k, .a_transposed = a, .b_transposed = b, .gap = 1, .step = step});
}

TEST_CASE("products of bf16 in batches, with either operand shared", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  for (bool a : {false, true})
    for (bool b : {false, true})
      for (bool transposed : {false, true})
        check_exact({.batch = 3,
                     .m = 37,
                     .n = 35,
                     .k = 41,
                     .a_transposed = transposed,
                     .b_transposed = transposed,
                     .a_shared = a,
                     .b_shared = b});
  check_exact({.batch = 0, .m = 4, .n = 4, .k = 4});
  check_exact({.batch = 2, .m = 0, .n = 4, .k = 4});
  check_exact({.batch = 2, .m = 4, .n = 0, .k = 4});
  check_exact({.batch = 2, .m = 300, .n = 33, .k = 70, .b_transposed = true});  // several blocks of rows
  check_exact({.m = 600, .n = 40, .k = 64, .a_transposed = true});
}

TEST_CASE("what follows a product of bf16 gets its sums in f32", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  for (Ending ending :
       {Ending::bf16, Ending::bf16_transposed, Ending::bias_relu, Ending::residual_in_place, Ending::two_stores})
    for (std::int64_t k : {7, 64, 333})
      for (std::int64_t n : {1, 17, 50}) check_exact({.batch = 2, .m = 39, .n = n, .k = k, .ending = ending});
}

TEST_CASE("long sums of bf16 keep their digits", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  check_exact({.m = 5, .n = 20, .k = 4096});
  check_exact({.m = 5, .n = 20, .k = 4097});
  check_exact({.m = 35, .n = 3, .k = 12300, .b_transposed = true});
  for (bool transposed : {false, true})  // several blocks of rows, packed parts of k
    for (std::int64_t k : {4095, 8192, 8209})
      check_exact({.m = 70, .n = 33, .k = k, .a_transposed = transposed, .b_transposed = transposed, .step = 2});
  for (ProductUnit unit : units()) {
    Case c({.m = 2, .n = 2, .k = 1 << 18});
    c.fill([] { return 0.1F; });
    c.run(unit);
    const double exact = c.sum(0, 1, 1);
    CHECK(std::abs(c.f32_out[c.c_at(0, 1, 1)] - exact) < 3e-4 * exact);
  }
}

TEST_CASE("sums of bf16 stay within their bound", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  for (ProductUnit unit : units())
    for (std::int64_t k : {33, 768, 5000}) {
      Case c({.m = 21, .n = 37, .k = k});
      c.fill_reals();
      c.run(unit);
      double worst = 0;  // in units of 2^-24 of the sum of magnitudes
      for (std::int64_t i = 0; i < c.p.m; ++i)
        for (std::int64_t j = 0; j < c.p.n; ++j)
          worst =
              std::max(worst, std::abs(c.f32_out[c.c_at(0, i, j)] - c.sum(0, i, j)) * 0x1p24 / c.magnitude(0, i, j));
      INFO("unit " << static_cast<int>(unit) << ", k " << k);
      CHECK(worst < 4 * std::sqrt(static_cast<double>(k)));
    }
}

TEST_CASE("an element's bits depend on its row and column alone", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  const ThreadCountGuard guard;
  for (ProductUnit unit : units()) {
    Case whole({.batch = 2, .m = 530, .n = 70, .k = 4500});
    whole.fill_reals();
    set_thread_count(1);
    whole.run(unit);
    const std::vector<float> wanted = whole.f32_out;
    set_thread_count(3);
    whole.run(unit);
    CHECK(std::memcmp(wanted.data(), whole.f32_out.data(), wanted.size() * sizeof(float)) == 0);
    for (const Problem& p : {Problem{.m = 1, .n = 70, .k = 4500}, Problem{.m = 7, .n = 1, .k = 4500},
                             Problem{.m = 45, .n = 19, .k = 4500, .a_transposed = true, .b_transposed = true},
                             Problem{.m = 33, .n = 33, .k = 4500, .gap = 5, .step = 2}}) {
      Case part(p);
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t k = 0; k < p.k; ++k) part.a_at(0, i, k) = whole.a_at(1, i, k);
      for (std::int64_t k = 0; k < p.k; ++k)
        for (std::int64_t j = 0; j < p.n; ++j) part.b_at(0, k, j) = whole.b_at(1, k, j);
      part.run(unit);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j)
          wrong += std::memcmp(&part.f32_out[part.c_at(0, i, j)], &wanted[whole.c_at(1, i, j)], sizeof(float)) != 0;
      INFO(text_of(p) << " unit " << static_cast<int>(unit));
      CHECK(wrong == 0);
    }
  }
}

/// The first rows of `whole` by its B in another layout.
void check_first_rows(Case& whole, ProductUnit unit, Problem p) {
  p.n = whole.p.n;
  p.k = whole.p.k;
  Case part(p);
  for (std::int64_t k = 0; k < p.k; ++k) {
    for (std::int64_t i = 0; i < p.m; ++i) part.a_at(0, i, k) = whole.a_at(0, i, k);
    for (std::int64_t j = 0; j < p.n; ++j) part.b_at(0, k, j) = whole.b_at(0, k, j);
  }
  part.run(unit);
  INFO(text_of(p) << " unit " << static_cast<int>(unit));
  CHECK(std::memcmp(part.f32_out.data(), whole.f32_out.data(), part.f32_out.size() * sizeof(float)) == 0);
}

TEST_CASE("few rows of bf16 have the bits of many", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  for (ProductUnit unit : units())
    for (std::int64_t k : {31, 150, 4225})
      for (std::int64_t n : {20, 1100}) {
        if (n * k > 1000000) continue;
        Case whole({.m = 20, .n = n, .k = k});
        std::mt19937 random(5);  // subnormal numbers, and products that are, among them
        whole.fill([&] {
          const float mantissa = 1 + static_cast<float>(random() % 128) / 128;
          return std::ldexp(random() % 2 == 0 ? mantissa : -mantissa, static_cast<int>(random() % 90) - 131);
        });
        whole.run(unit);
        for (std::int64_t m = 1; m <= 5; ++m)
          for (bool transposed : {false, true})
            check_first_rows(whole, unit, {.m = m, .a_transposed = m == 3, .b_transposed = transposed, .gap = m});
      }
}

TEST_CASE("products of bf16 with many panels", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  const ThreadCountGuard guard;
  for (int threads : {1, 3}) {
    set_thread_count(threads);
    for (std::int64_t k : {32, 75})
      for (bool transposed : {false, true})
        for (Ending ending : {Ending::f32, Ending::bf16, Ending::bias_relu})
          check_exact({.m = 41, .n = 421, .k = k, .b_transposed = transposed, .gap = 1, .ending = ending});
    check_exact({.batch = 2, .m = 270, .n = 400, .k = 33, .ending = Ending::bf16});
    check_exact({.batch = 2, .m = 2, .n = 1300, .k = 40, .ending = Ending::bias_relu});
    check_exact({.batch = 2, .m = 1, .n = 1100, .k = 40, .b_transposed = true, .ending = Ending::bf16_transposed});
  }
}

TEST_CASE("special numbers in products of bf16", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  const float inf = std::numeric_limits<float>::infinity();
  for (ProductUnit unit : units()) {
    Case c({.m = 18, .n = 20, .k = 37});
    c.fill([] { return 1.F; });
    c.a_at(0, 1, 36) = bfloat16(std::nanf(""));  // in the part of k that is filled up
    c.a_at(0, 2, 3) = bfloat16(inf);
    c.a_at(0, 3, 3) = bfloat16(inf);
    c.a_at(0, 3, 30) = bfloat16(-inf);
    c.b_at(0, 5, 19) = bfloat16(-inf);
    for (std::int64_t k = 0; k < 37; ++k) c.a_at(0, 17, k) = bfloat16(k == 4 ? 0x1p-130F : 0.F);  // a subnormal
    c.run(unit);
    const auto at = [&](std::int64_t i, std::int64_t j) { return c.f32_out[c.c_at(0, i, j)]; };
    CHECK(at(0, 0) == 37);
    CHECK(std::isnan(at(1, 0)));
    CHECK(at(2, 7) == inf);
    CHECK(std::isnan(at(3, 7)));
    CHECK(at(0, 19) == -inf);
    CHECK(std::isnan(at(2, 19)));
    CHECK(std::isnan(at(17, 19)));  // 0 * -inf
    CHECK(at(17, 0) == 0);          // docs/numerics.md: counts as 0 here
  }
}

TEST_CASE("SINTER_ISA names what multiplies bf16", "[x86][narrow]") {
  const IsaVariableGuard guard;
  setenv("SINTER_ISA", "avx2", 1);
  CHECK(detect_product_unit() == ProductUnit::fma);
  unsetenv("SINTER_ISA");
  const std::optional<Isa> isa = detect_isa();
  const ProductUnit chosen = detect_product_unit();
  CHECK((chosen == ProductUnit::fma || isa == Isa::avx512));
  CHECK(x86::host_has(chosen));
  CHECK((chosen == ProductUnit::amx) == x86::host_has(ProductUnit::amx));
  if (isa == Isa::avx512) {
    setenv("SINTER_ISA", "avx512", 1);
    CHECK(detect_product_unit() == ProductUnit::fma);
  }
  constexpr std::pair<const char*, ProductUnit> rows[] = {{"avx512_bf16", ProductUnit::avx512_bf16},
                                                          {"amx", ProductUnit::amx}};
  for (const auto& [name, unit] : rows) {
    setenv("SINTER_ISA", name, 1);
    if (x86::host_has(unit)) {
      CHECK(detect_product_unit() == unit);
      CHECK(detect_isa() == Isa::avx512);
    } else {
      CHECK_THROWS_AS(detect_product_unit(), UserError);
      // What the message says to use is there.
      try {
        detect_product_unit();
      } catch (const UserError& error) {
        const std::string text = error.what();
        for (const char* lower : {"avx512_bf16", "avx512", "avx2"})
          if (text.find("use " + std::string(lower) + ",") != std::string::npos) {
            setenv("SINTER_ISA", lower, 1);
            CHECK_NOTHROW(detect_product_unit());
          }
      }
    }
  }
  setenv("SINTER_ISA", "amx2", 1);
  CHECK_THROWS_WITH(detect_product_unit(), Catch::Contains("avx2, avx512, avx512_bf16 or amx"));
}

TEST_CASE("without AVX-512 nothing multiplies bf16", "[x86][narrow]") {
  const X86Backend backend(Isa::avx2, ProductUnit::amx);
  CHECK(backend.product_unit() == ProductUnit::fma);
  CHECK(backend.limits().narrow_products.is_empty());
  CHECK(backend.cache_key() == "x86-avx2");
}

#ifdef __linux__
TEST_CASE("tiles are asked for at the first product that needs them", "[x86][narrow]") {
  if (!x86::host_has(ProductUnit::amx)) SINTER_SKIP("this processor has no AMX, or its system gives no tiles");
  // In a process of its own: permission lasts. Without tiles small alternative signal stacks are good.
  const auto outcome_of = [](auto&& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const auto permission = [] {
    std::uint64_t mask = 0;
    return syscall(SYS_arch_prctl, 0x1022L, &mask) == 0 && (mask >> 18 & 1) != 0;  // ARCH_GET_XCOMP_PERM
  };
  if (permission()) SINTER_SKIP("this process has tiles already");
  CHECK(outcome_of([&] {
          const IsaVariableGuard guard;
          unsetenv("SINTER_ISA");
          const std::unique_ptr<Backend> backend = make_x86_backend();
          if (backend->limits().narrow_products.is_empty()) return 1;
          return permission() ? 2 : 0;
        }) == 0);
  CHECK(outcome_of([&] {
          Case c({.m = 18, .n = 20, .k = 37});
          c.fill_integers();
          c.run(ProductUnit::amx);
          return !permission() ? 1 : c.wrong() != 0 ? 2 : 0;
        }) == 0);
  // Refused: the system gives no tiles while a signal stack has no room for them.
  CHECK(outcome_of([&] {
          static char memory[8192];
          stack_t stack{};
          stack.ss_sp = memory;
          stack.ss_size = sizeof memory;
          if (sigaltstack(&stack, nullptr) != 0) return 3;
          Case c({.m = 18, .n = 20, .k = 37});
          c.fill_integers();
          X86Backend backend(Isa::avx512, ProductUnit::amx);
          const std::string listing = backend.compile(c.kernel, {}, nullptr)->listing();
          if (listing.find("vdpbf16ps), since the system refuses tiles to this process") == std::string::npos) return 1;
          c.run(ProductUnit::amx);
          return c.wrong() != 0 ? 2 : 0;
        }) == 0);
}
#endif

TEST_CASE("plans give products of bf16 their operands as they are", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  for (ProductUnit unit : units()) {
    X86Backend x86(Isa::avx512, unit);
    PlanOptions options;
    options.backends = {&x86, sinter_test::reference()};
    const auto text = [&](std::string_view graph) { return build_plan(sinter_test::prepared(graph), options)->text(); };
    const auto count = [](const std::string& all, std::string_view part) {
      std::int64_t found = 0;
      for (std::size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++found;
      return found;
    };
    const std::string plain = text("graph(%0: bf16[5, 7], %1: bf16[7, 9]) {\n  %2 = matmul(%0, %1)\n  return %2\n}");
    INFO(plain);
    CHECK(count(plain, "kernel ") == 1);
    CHECK(count(plain, "p0: bf16, p1: bf16, out p2: bf16") == 1);
    CHECK(count(plain, "[x86]") == 1);
    // Not where the program asks for products of f32.
    const std::string wide = text(
        "graph(%0: bf16[5, 7], %1: bf16[7, 9]) {\n  %2 = cast(%0) {dtype=f32}\n  %3 = cast(%1) {dtype=f32}\n"
        "  %4 = matmul(%2, %3)\n  return %4\n}");
    CHECK(count(wide, "p0: f32, p1: f32, out p2: f32") == 1);
    // Nor with f16.
    const std::string half = text("graph(%0: f16[5, 7], %1: f16[7, 9]) {\n  %2 = matmul(%0, %1)\n  return %2\n}");
    CHECK(count(half, "p0: f32, p1: f32, out p2: f16") == 1);
  }
}

TEST_CASE("compiled functions of bf16 products agree with plain loops", "[x86][narrow]") {
  if (units().empty()) SINTER_SKIP(no_unit);
  const auto noise = [](const Shape& shape, float scale) {
    return sin(arange(shape.numel().value(), {.dtype = DType::f32}) * scale).reshape(shape).to(DType::bf16);
  };
  const Tensor x = noise({4, 9, 37}, 0.7F), w = noise({37, 21}, 1.3F), v = noise({11, 21}, 2.1F);
  const auto layers = [](Tensor a, Tensor b, Tensor c) { return matmul(gelu(matmul(a, b)), c.t()); };
  const auto loss = [layers](Tensor a, Tensor b, Tensor c) { return sum(square(layers(a, b, c).to(DType::f32))); };
  // What lies between the products is rounded to bf16 here, and is not there.
  const auto check = [](const Tensor& found, const Tensor& wanted) {
    const double largest = item<float>(amax(abs(wanted.to(DType::f32))));
    const auto agreement = allclose(found.to(DType::f32), wanted.to(DType::f32), {.atol = 0.03 * largest});
    INFO(agreement.text() << ", the largest is " << largest);
    CHECK(agreement.text() == "agree");
  };
  check(jit::compile(layers)(x, w, v), jit::compile(layers, {.backend = "reference"})(x, w, v));
  check(jit::compile(jit::vmap(layers, {0, jit::no_axis, jit::no_axis}))(x, w, v), layers(x, w, v));
  const auto gradients = jit::compile(jit::grad<0, 1, 2>(loss));
  const auto wanted = jit::compile(jit::grad<0, 1, 2>(loss), {.backend = "reference"})(x, w, v);
  const auto [by_x, by_w, by_v] = gradients(x, w, v);
  check(by_x, std::get<0>(wanted));
  check(by_w, std::get<1>(wanted));
  check(by_v, std::get<2>(wanted));
  const auto loss_of_regions = [layers](Tensor a, Tensor b, Tensor c) {
    return sum(square(jit::region(layers)(a, b, c).to(DType::f32)));
  };
  const auto [region_x, region_w, region_v] = jit::compile(jit::grad<0, 1, 2>(loss_of_regions))(x, w, v);
  check(region_x, std::get<0>(wanted));
  check(region_w, std::get<1>(wanted));
  check(region_v, std::get<2>(wanted));
}
#endif
