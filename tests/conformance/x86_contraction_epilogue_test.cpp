// Epilogues that micro-kernels run in registers: every primitive they know, on full and partial tiles, with NaN and
// infinities, output that is input, and what must go the long way instead. Compared with the body done one by one.
#include "../catch.hpp"
#include "guarded_buffer.hpp"
#include "sums_in_order.hpp"

#ifndef SINTER_NO_X86
#include <sinter/backend/x86/contraction/bound_epilogue.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/epilogue.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/backend/x86/contraction/rows.hpp>
#include <sinter/backend/x86/contraction/turned.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/loop_nest/builder.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace sinter;
using namespace sinter::x86;

namespace {

struct Shape {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;
};

/// A product and the operands an epilogue may ask for, each made when first named.
template <class T>
struct Case {
  Shape shape;
  Kernel kernel;
  BoundGeometry geometry;
  std::vector<std::vector<T>> data;
  ScalarBuilder s;
  ScalarValue sum;
  std::mt19937 random;

  explicit Case(const Shape& shape_)
      : shape(shape_), random(static_cast<unsigned>(shape.m * 131 + shape.n * 17 + shape.k)) {
    kernel.kind = KernelKind::contraction;
    kernel.axes = {AxisRole::parallel, AxisRole::parallel, AxisRole::parallel, AxisRole::reduced};
    geometry.extent = {shape.batch, shape.m, shape.n, shape.k};
    const std::int64_t m = shape.m, n = shape.n, k = shape.k;
    const ScalarValue a = load({m * k, shape.a_transposed ? 1 : k, 0, shape.a_transposed ? m : 1}, shape.batch * m * k);
    const ScalarValue b = load({0, 0, shape.b_transposed ? k : 1, shape.b_transposed ? 1 : n}, n * k);
    sum = s.contract(a, b);
  }
  DType dtype() const { return dtype_of<T>(); }

  std::uint16_t access(std::array<std::int64_t, 4> stride, std::int64_t size, bool written) {
    kernel.operands.push_back({dtype(), written});
    auto& operand = data.emplace_back(static_cast<std::size_t>(size + 8));
    std::uniform_real_distribution<double> values(-1, 1);
    for (T& v : operand) v = static_cast<T>(values(random));
    return same_operand(stride);
  }
  std::uint16_t same_operand(std::array<std::int64_t, 4> stride) {
    Access access{.operand = static_cast<std::uint16_t>(kernel.operands.size() - 1), .stride = {}};
    auto& numbers = geometry.accesses.emplace_back();
    for (std::size_t i = 0; i < 4; ++i) {
      numbers.stride[i] = stride[i];
      access.stride[i] = stride[i] == 0             ? StrideClass::zero
                         : stride[i] == 1 && i != 0 ? StrideClass::unit
                                                    : StrideClass::any;
    }
    kernel.accesses.push_back(access);
    return static_cast<std::uint16_t>(kernel.accesses.size() - 1);
  }
  ScalarValue load(std::array<std::int64_t, 4> stride, std::int64_t size) {
    return s.load(access(stride, size, false), dtype());
  }
  std::int64_t row() const { return shape.n + 3; }
  std::int64_t size() const { return shape.batch * shape.m * row(); }

  ScalarValue bias() { return load({0, 0, 1, 0}, shape.n); }
  ScalarValue column() { return load({0, 2, 0, 0}, 2 * shape.m); }
  ScalarValue scalar() { return load({0, 0, 0, 0}, 1); }
  ScalarValue residual() { return load({shape.m * row(), row(), 1, 0}, size()); }
  ScalarValue strided() { return load({0, 2 * shape.n, 2, 0}, shape.m * shape.n * 2); }
  std::uint16_t output() { return access({shape.m * row(), row(), 1, 0}, size(), true); }
  ScalarValue number(double value) { return s.imm(value, sum); }
  void store(ScalarValue value) { kernel.stores.push_back({output(), value.id}); }
  void store(std::uint16_t access, ScalarValue value) { kernel.stores.push_back({access, value.id}); }

  void finish() {
    kernel.body = s.take();
    verify(kernel);
    const T odd[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                     -std::numeric_limits<T>::infinity(), T(0), -T(0)};
    for (std::size_t i = 1; i < data.size(); ++i)  // not in A: all of a row would be lost
      if (i > 1)
        for (std::size_t j = i; j < data[i].size(); j += 7) data[i][j] = odd[(i + j / 7) % 5];
    if (!data[1].empty() && data[1].size() > 40) {
      data[1][11] = odd[0];
      data[1][23] = odd[1];
    }
  }

  T value_at(std::size_t access, const std::vector<std::vector<T>>& from, std::array<std::int64_t, 4> at) const {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) offset += geometry.accesses[access].stride[axis] * at[axis];
    return from[kernel.accesses[access].operand][static_cast<std::size_t>(offset)];
  }
  T evaluate(const Inst& inst, const std::vector<T>& values) const {
    auto arg = [&](std::size_t i) { return values[inst.args[i]]; };
    const auto extremum = [&](bool minimum) {
      const T x = arg(0), y = arg(1);
      if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<T>::quiet_NaN();
      return (minimum ? x < y : x > y) ? x : x == y && kernel.body[inst.args[1]].prim == Prim::immediate ? x : y;
    };
    switch (inst.prim) {
      case Prim::immediate: return static_cast<T>(inst.number());
      case Prim::neg: return -arg(0);
      case Prim::abs: return std::abs(arg(0));
      case Prim::sqrt: return std::sqrt(arg(0));
      case Prim::add: return arg(0) + arg(1);
      case Prim::sub: return arg(0) - arg(1);
      case Prim::mul: return arg(0) * arg(1);
      case Prim::div: return arg(0) / arg(1);
      case Prim::fma: return std::fma(arg(0), arg(1), arg(2));
      case Prim::min: return extremum(true);
      case Prim::max: return extremum(false);
      case Prim::eq: return arg(0) == arg(1);
      case Prim::ne: return arg(0) != arg(1);
      case Prim::lt: return arg(0) < arg(1);
      case Prim::le: return arg(0) <= arg(1);
      case Prim::select: return arg(0) != 0 ? arg(1) : arg(2);
      default: FAIL("the test knows no " << name(inst.prim)); return 0;
    }
  }
  std::vector<std::vector<T>> expected() const {
    std::vector<std::vector<T>> out = data;
    std::vector<T> values(kernel.body.size());
    for (std::int64_t b = 0; b < shape.batch; ++b)
      for (std::int64_t i = 0; i < shape.m; ++i)
        for (std::int64_t j = 0; j < shape.n; ++j) {
          for (std::size_t at = 0; at < values.size(); ++at) {
            const Inst& inst = kernel.body[at];
            if (inst.prim == Prim::contract) {
              const auto operand = [&](std::size_t access) {
                return [&, access](std::int64_t k) { return value_at(access, data, {b, i, j, k}); };
              };
              values[at] = sinter_test::product_in_order<T>(shape.k, operand(0), operand(1));
            } else if (inst.prim == Prim::load) {
              values[at] = inst.access < 2 ? T(0) : value_at(inst.access, data, {b, i, j, 0});
            } else {
              values[at] = evaluate(inst, values);
            }
          }
          for (const Store& store : kernel.stores) {
            const auto& stride = geometry.accesses[store.access].stride;
            out[kernel.accesses[store.access].operand]
               [static_cast<std::size_t>(b * stride[0] + i * stride[1] + j * stride[2])] = values[store.value];
          }
        }
    return out;
  }
  std::shared_ptr<const Executable> executable_for(Isa isa) const {
    std::string why;
    auto executable = make_contraction_executable(kernel, {}, isa, &why);
    INFO(why);
    REQUIRE(executable != nullptr);
    return executable;
  }
  std::vector<std::vector<T>> run(Isa isa) const {
    std::vector<std::vector<T>> out = data;
    const auto executable = executable_for(isa);
    sinter_test::run_guarded(*executable->bind(geometry), kernel, geometry, out, sinter_test::GuardPages::at_end);
    return out;
  }
  /// Operands and results are on cache lines, or one element behind.
  std::vector<std::vector<T>> run_beside_lines(Isa isa, bool is_aligned) const {
    constexpr std::size_t line = 64;
    std::vector<std::vector<T>> memory, out = data;
    std::vector<void*> operands;
    for (const auto& operand : data) {
      auto& place = memory.emplace_back(operand.size() + 2 * line);
      const std::size_t past_line = reinterpret_cast<std::uintptr_t>(place.data()) % line;
      T* const begin = place.data() + (line - past_line) / sizeof(T) + (is_aligned ? 0 : 1);
      std::copy(operand.begin(), operand.end(), begin);
      operands.push_back(begin);
    }
    const auto executable = executable_for(isa);
    executable->bind(geometry)->run(operands.data());
    for (std::size_t i = 0; i < out.size(); ++i)
      std::copy_n(static_cast<const T*>(operands[i]), out[i].size(), out[i].begin());
    return out;
  }
};

/// Bit for bit, but any NaN is as good as another.
template <class T>
bool same(const std::vector<std::vector<T>>& a, const std::vector<std::vector<T>>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j)
      if (std::memcmp(&a[i][j], &b[i][j], sizeof(T)) != 0 && !(std::isnan(a[i][j]) && std::isnan(b[i][j])))
        return false;
  return true;
}

/// What follows the product, and whether it is to run in registers.
struct Body {
  const char* name;
  bool in_registers;
  std::function<void(Case<float>&)> single;
  std::function<void(Case<double>&)> twice;
};
template <class Build>
Body body(const char* name, bool in_registers, Build build) {
  return {name, in_registers, [build](Case<float>& c) { build(c); }, [build](Case<double>& c) { build(c); }};
}

std::vector<Body> bodies() {
  return {
      body("bias and relu", true, [](auto& c) { c.store(c.s.max(c.s.add(c.sum, c.bias()), c.number(0))); }),
      body("relu, the number first", true, [](auto& c) { c.store(c.s.max(c.number(0), c.s.add(c.bias(), c.sum))); }),
      body("clamped", true,
           [](auto& c) { c.store(c.s.min(c.s.max(c.s.mul(c.sum, c.number(0.5)), c.number(-0.25)), c.number(1.25))); }),
      body("where the residual is positive", true,
           [](auto& c) { c.store(c.s.select(c.s.lt(c.number(0), c.residual()), c.sum, c.number(0))); }),
      body("step in place", true,
           [](auto& c) {
             const std::uint16_t w = c.output();
             const ScalarValue old = c.s.load(w, c.dtype());
             c.store(w, c.s.sub(old, c.s.mul(c.scalar(), c.sum)));
           }),
      body("step in place through another access", true,
           [](auto& c) {
             const std::uint16_t w = c.output(), again = c.same_operand({c.shape.m * c.row(), c.row(), 1, 0});
             c.store(w, c.s.sub(c.s.load(again, c.dtype()), c.s.mul(c.sum, c.number(0.125))));
           }),
      body("scaled rows", true, [](auto& c) { c.store(c.s.fma(c.sum, c.column(), c.bias())); }),
      body("fma that keeps its addend", true,
           [](auto& c) { c.store(c.s.mul(c.s.fma(c.bias(), c.residual(), c.sum), c.sum)); }),
      body("extrema of values", true, [](auto& c) { c.store(c.s.max(c.s.min(c.sum, c.bias()), c.sum)); }),
      body("sign, size, root", true,
           [](auto& c) { c.store(c.s.neg(c.s.div(c.s.sqrt(c.s.abs(c.sum)), c.residual()))); }),
      body("choices", true,
           [](auto& c) {
             const ScalarValue r = c.residual();
             c.store(c.s.select(c.s.le(c.sum, r), c.s.neg(c.sum), c.s.select(c.s.ne(c.bias(), c.number(0)), r, c.sum)));
           }),
      body("equal to a constant", true,
           [](auto& c) { c.store(c.s.select(c.s.eq(c.residual(), c.number(0)), c.bias(), c.sum)); }),
      body("squares", true, [](auto& c) { c.store(c.s.fma(c.sum, c.sum, c.s.mul(c.sum, c.sum))); }),
      body("two stores", true,
           [](auto& c) {
             c.store(c.sum);
             c.store(c.s.mul(c.sum, c.bias()));
           }),
      body("sums into a gap", true,
           [](auto& c) { c.store(c.s.add(c.sum, c.s.add(c.residual(), c.s.add(c.residual(), c.column())))); }),
      body("strided columns", false, [](auto& c) { c.store(c.s.add(c.sum, c.strided())); }),
      body("too many operands", false,
           [](auto& c) {
             ScalarValue total = c.sum;
             for (int i = 0; i < 8; ++i) total = c.s.add(total, c.bias());
             c.store(total);
           }),
      body("rounding", false, [](auto& c) { c.store(c.s.floor(c.sum)); }),
  };
}

template <class T>
void check(const Body& body, const Shape& shape) {
  Case<T> c(shape);
  if constexpr (sizeof(T) == 4) body.single(c);
  else body.twice(c);
  c.finish();
  const std::optional<ContractionParts> parts = split_contraction(c.kernel, {}, Isa::avx2, nullptr);
  REQUIRE(parts.has_value());
  CHECK(make_tile_body(parts->epilogue, parts->sum, parts->dtype).has_value() == body.in_registers);
  if (std::string(body.name) == "rounding") return;  // only declined
  const auto wanted = c.expected();
  INFO(body.name << " batch " << shape.batch << " m " << shape.m << " n " << shape.n << " k " << shape.k << " "
                 << name(dtype_of<T>()));
  std::vector<std::vector<T>> before;
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!host_has(isa)) continue;
    INFO((isa == Isa::avx2 ? "avx2" : "avx512"));
    const auto got = c.run(isa);
    CHECK(same(got, wanted));
    if (!before.empty()) CHECK(same(got, before));
    before = got;
  }
}

}  // namespace

TEST_CASE("epilogues in registers: every body on whole and partial tiles", "[x86][contraction][epilogue]") {
  for (const Body& body : bodies())
    for (std::int64_t m : {1, 2, 6, 13, 14, 16, 17, 29, 64})
      for (std::int64_t n : {1, 3, 8, 10, 16, 17, 31, 33, 70}) {
        check<float>(body, {.m = m, .n = n, .k = 5});
        check<double>(body, {.m = m, .n = n, .k = 5});
      }
}

TEST_CASE("epilogues in registers: batches, layouts, no k, long k, threads", "[x86][contraction][epilogue]") {
  const int before = thread_count();
  for (int threads : {1, 2}) {
    set_thread_count(threads);
    for (const Body& body : bodies()) {
      check<float>(body, {.batch = 3, .m = 31, .n = 45, .k = 0});
      check<double>(body, {.batch = 2, .m = 15, .n = 18, .k = 33, .a_transposed = true});
      check<float>(body, {.m = 64, .n = 128, .k = 10, .b_transposed = true});
      check<float>(body, {.m = 130, .n = 10, .k = 64, .a_transposed = true});
      check<float>(body, {.batch = 1, .m = 7, .n = 20, .k = 2100});
    }
  }
  set_thread_count(before);
}

namespace {

/// As AdamW's update: three arrays are read and written in place.
template <class T>
void add_update(Case<T>& c) {
  ScalarBuilder& s = c.s;
  const auto read_and_written = [&](std::uint16_t& written) {
    written = c.output();
    return s.load(c.same_operand({c.shape.m * c.row(), c.row(), 1, 0}), c.dtype());
  };
  std::uint16_t mean = 0, square = 0, weight = 0;
  const ScalarValue old_mean = read_and_written(mean), old_square = read_and_written(square),
                    old_weight = read_and_written(weight), step = c.scalar(), bias = c.bias();
  const ScalarValue new_mean = s.add(s.mul(c.number(0.9), old_mean), s.mul(c.number(0.1), c.sum)),
                    new_square = s.add(s.mul(c.number(0.999), old_square), s.mul(c.number(0.001), s.mul(c.sum, c.sum)));
  c.store(mean, new_mean);
  c.store(square, new_square);
  c.store(weight,
          s.sub(old_weight, s.div(s.mul(step, new_mean), s.add(s.sqrt(s.abs(new_square)), s.add(bias, c.number(2))))));
}

/// Whether its tasks are whole rows; then in how many chunks. With 512-bit vectors and without.
template <class T>
std::int64_t check_update(const Shape& shape) {
  Case<T> c(shape);
  add_update(c);
  c.finish();
  const auto wanted = c.expected();
  INFO("batch " << shape.batch << " m " << shape.m << " n " << shape.n << " k " << shape.k << " "
                << name(dtype_of<T>()));
  std::int64_t chunks = 0;
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!host_has(isa)) continue;
    INFO((isa == Isa::avx2 ? "avx2" : "avx512"));
    const std::optional<ContractionParts> parts = split_contraction(c.kernel, {}, isa, nullptr);
    REQUIRE(parts.has_value());
    const ContractionPlan plan = plan_contraction(c.kernel, *parts, c.geometry, Packing::by_cost, isa, thread_count());
    const auto rows = x86_contraction_detail::plan_rows(*parts, plan, isa, thread_count());
    chunks = rows ? rows->chunks.panels : 0;
    CHECK(same(c.run(isa), wanted));
  }
  return chunks;
}

}  // namespace

TEST_CASE("epilogues that walk many arrays: tasks are whole rows, with the same sums", "[x86][contraction][epilogue]") {
  const int before = thread_count();
  for (int threads : {1, 2}) {
    set_thread_count(threads);
    CHECK(check_update<float>({.m = 5, .n = 70, .k = 9}) == 0);
    CHECK(check_update<float>({.m = 1, .n = 256, .k = 1}) == 1);
    CHECK(check_update<float>({.m = 61, .n = 301, .k = 128, .a_transposed = true}) == 1);
    CHECK(check_update<float>({.batch = 3, .m = 30, .n = 257, .k = 17}) == 1);
    CHECK(check_update<float>({.m = 40, .n = 260, .k = 300, .a_transposed = true, .b_transposed = true}) == 1);
    CHECK(check_update<double>({.m = 45, .n = 131, .k = 33, .a_transposed = true}) == 1);
    CHECK(check_update<double>({.batch = 2, .m = 13, .n = 129, .k = 258, .b_transposed = true}) == 1);
    CHECK(check_update<float>({.m = 9, .n = 300, .k = 0}) == 0);
  }
  set_thread_count(before);
}

TEST_CASE("epilogues that walk many arrays: B beyond the cache goes in chunks", "[x86][contraction][epilogue]") {
  CHECK(check_update<float>({.m = 15, .n = 5000, .k = 300, .a_transposed = true}) > 1);
}

TEST_CASE("epilogues that walk many arrays: what no array is updated by goes past the caches",
          "[x86][contraction][epilogue]") {
  const int before = thread_count();
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!host_has(isa)) continue;
    INFO((isa == Isa::avx2 ? "avx2" : "avx512"));
    Case<float> c({.m = 520, .n = 509, .k = 20, .a_transposed = true});  // rows lie 512 numbers apart
    add_update(c);
    c.store(c.sum);
    c.finish();
    const auto parts = split_contraction(c.kernel, {}, isa, nullptr);
    REQUIRE(parts.has_value());
    x86_contraction_detail::EpilogueCode code(*parts, isa);
    std::uint64_t results = 0;
    CHECK(code.loop(IndexWidth::narrow_if_possible)->streaming_new(results) != nullptr);
    CHECK(results == std::uint64_t{1} << (parts->sum - 1));  // the access made last, before the sum's
    const auto wanted = c.expected();
    for (int threads : {1, 2}) {
      set_thread_count(threads);
      CHECK(same(c.run_beside_lines(isa, true), wanted));
      CHECK(same(c.run_beside_lines(isa, false), wanted));
    }
    Case<float> update_alone({.m = 520, .n = 509, .k = 20});
    add_update(update_alone);
    update_alone.finish();
    const auto parts_alone = split_contraction(update_alone.kernel, {}, isa, nullptr);
    REQUIRE(parts_alone.has_value());
    x86_contraction_detail::EpilogueCode code_alone(*parts_alone, isa);
    CHECK(code_alone.loop(IndexWidth::narrow_if_possible)->streaming_new(results) == nullptr);
  }
  set_thread_count(before);
}

namespace {

/// Whether it is computed the other way round; with what follows it, and without.
template <class T>
bool check_turned(const Shape& shape) {
  bool is_turned = true;
  const auto check_one = [&](auto&& store) {
    Case<T> c(shape);
    store(c);
    c.finish();
    const auto wanted = c.expected();
    INFO("batch " << shape.batch << " m " << shape.m << " n " << shape.n << " k " << shape.k << " "
                  << name(dtype_of<T>()));
    for (Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!host_has(isa)) continue;
      INFO((isa == Isa::avx2 ? "avx2" : "avx512"));
      const std::optional<ContractionParts> parts = split_contraction(c.kernel, {}, isa, nullptr);
      REQUIRE(parts.has_value());
      const ContractionPlan plan =
          plan_contraction(c.kernel, *parts, c.geometry, Packing::by_cost, isa, thread_count());
      is_turned = is_turned && x86_contraction_detail::plan_turned(*parts, plan, isa, thread_count()).has_value();
      CHECK(same(c.run(isa), wanted));
    }
  };
  check_one([](Case<T>& c) { c.store(c.sum); });
  check_one([](Case<T>& c) { c.store(c.s.max(c.s.add(c.sum, c.bias()), c.residual())); });
  check_one([](Case<T>& c) { c.store(c.s.add(c.sum, c.strided())); });
  check_one([](Case<T>& c) {
    c.store(c.sum);
    c.store(c.s.mul(c.sum, c.column()));
  });
  return is_turned;
}

}  // namespace

TEST_CASE("products of few rows by a transposed matrix are turned, with the same sums",
          "[x86][contraction][epilogue]") {
  const int before = thread_count();
  for (int threads : {1, 2}) {
    set_thread_count(threads);
    CHECK(check_turned<float>({.m = 24, .n = 300, .k = 96, .b_transposed = true}));
    CHECK(check_turned<float>({.m = 61, .n = 301, .k = 258, .a_transposed = true, .b_transposed = true}));
    CHECK(check_turned<float>({.batch = 3, .m = 33, .n = 200, .k = 100, .b_transposed = true}));
    CHECK(check_turned<float>({.m = 70, .n = 150, .k = 1024, .b_transposed = true}));
    CHECK(check_turned<float>({.m = 25, .n = 40, .k = 3072, .b_transposed = true}));
    CHECK(check_turned<double>({.m = 30, .n = 131, .k = 77, .b_transposed = true}));
    CHECK(check_turned<double>({.batch = 2, .m = 25, .n = 97, .k = 512, .b_transposed = true}));
    CHECK_FALSE(check_turned<float>({.m = 5, .n = 300, .k = 96, .b_transposed = true}));
    CHECK_FALSE(check_turned<float>({.m = 64, .n = 40, .k = 96, .b_transposed = true}));
    CHECK_FALSE(check_turned<float>({.m = 25, .n = 40, .k = 3072}));
  }
  set_thread_count(before);
}

TEST_CASE("one executable serves many shapes at once", "[x86][contraction][epilogue]") {
  const Body relu = bodies()[0];
  Case<float> c({.m = 64, .n = 40, .k = 9});
  relu.single(c);
  c.finish();
  const auto executable = make_contraction_executable(c.kernel, {}, host_has(Isa::avx512) ? Isa::avx512 : Isa::avx2);
  REQUIRE(executable != nullptr);
  const auto wanted = c.expected();
  const int before = thread_count();
  set_thread_count(2);
  std::vector<std::vector<float>> outputs(64);
  parallel_for(64, 1e6, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      BoundGeometry geometry = c.geometry;
      geometry.extent[1] = i + 1;  // fewer rows, the same strides
      auto launch = executable->bind(geometry);
      auto data = c.data;
      std::vector<void*> operands;
      for (auto& operand : data) operands.push_back(operand.data());
      launch->run(operands.data());
      outputs[static_cast<std::size_t>(i)] = data[3];
    }
  });
  set_thread_count(before);
  bool is_right = true;
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < wanted[3].size(); ++j) {
      const float value = j < (i + 1) * static_cast<std::size_t>(c.row()) ? wanted[3][j] : c.data[3][j];
      is_right = is_right && (outputs[i][j] == value || (std::isnan(outputs[i][j]) && std::isnan(value)));
    }
  CHECK(is_right);
  CHECK(executable->code_bytes() > 0);
}
#endif
