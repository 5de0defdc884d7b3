// Contractions on the x86 back end. Products are compared bit for bit with std::fma in the order that a Kernel
// promises; so ISA, tile, packing and threads cannot change a result unnoticed.
#include "../catch.hpp"
#include "guarded_buffer.hpp"
#include "sums_in_order.hpp"

#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/base/threads.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

using namespace sinter;
using namespace sinter::x86;

namespace {

enum class Epilogue {
  none,
  bias_relu,
  gelu,
  two_stores,
  residual_in_place,
  updates,
  indexed_updates,
  indices,
  transposed_store,
  strided_store
};
constexpr int updated = 4;  // results of an epilogue that reads and writes as an optimiser does

/// A product of [batch, m, k] and [batch, k, n], how its operands lie, and what follows it.
struct Problem {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;
  std::int64_t a_gap = 0, b_gap = 0;    // elements between rows that are not part of the matrix
  std::int64_t a_step = 1, b_step = 1;  // distance of neighbours in a row
  bool b_shared = false;
  Epilogue epilogue = Epilogue::none;
};

struct Layout {
  std::int64_t batch, row, column, size;
};
Layout layout(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t gap,
              std::int64_t step) {
  if (transposed) {
    Layout l = layout(batch, columns, rows, false, gap, step);
    return {l.batch, l.column, l.row, l.size};
  }
  const std::int64_t row = columns * step + gap;
  return {rows * row, row, step, batch * rows * row + 16};
}

template <class T>
struct Case {
  Problem p;
  Kernel kernel;
  BoundGeometry geometry;
  std::vector<std::vector<T>> data;  // one per operand

  explicit Case(const Problem& problem) : p(problem) {
    kernel.kind = KernelKind::contraction;
    for (int axis = 0; axis < 3; ++axis) kernel.axes.push_back(AxisRole::parallel);
    kernel.axes.push_back(AxisRole::reduced);
    geometry.extent[0] = p.batch;
    geometry.extent[1] = p.m;
    geometry.extent[2] = p.n;
    geometry.extent[3] = p.k;
    const DType dtype = dtype_of<T>();
    ScalarBuilder s;
    const Layout a = layout(p.batch, p.m, p.k, p.a_transposed, p.a_gap, p.a_step);
    const Layout b = layout(p.batch, p.k, p.n, p.b_transposed, p.b_gap, p.b_step);
    const ScalarValue x = s.load(add(a, {a.batch, a.row, 0, a.column}, false), dtype);
    const ScalarValue y = s.load(add(b, {p.b_shared ? 0 : b.batch, 0, b.column, b.row}, false), dtype);
    add_epilogue(s, s.contract(x, y));
    kernel.body = s.take();
    verify(kernel);
    fill();
  }

  std::uint16_t access(std::size_t operand, std::array<std::int64_t, 4> stride) {
    Access access{.operand = static_cast<std::uint16_t>(operand), .stride = {}};
    auto& numbers = geometry.accesses.emplace_back();
    for (std::size_t i = 0; i < 4; ++i) {
      numbers.stride[i] = stride[i];
      access.stride[i] = stride[i] == 0 ? StrideClass::zero : stride[i] == 1 ? StrideClass::unit : StrideClass::any;
    }
    kernel.accesses.push_back(access);
    return static_cast<std::uint16_t>(kernel.accesses.size() - 1);
  }
  std::uint16_t add(const Layout& l, std::array<std::int64_t, 4> stride, bool written) {
    kernel.operands.push_back({dtype_of<T>(), written});
    data.emplace_back(static_cast<std::size_t>(l.size));
    return access(data.size() - 1, stride);
  }
  void store(ScalarValue value, bool transposed = false, std::int64_t step = 1) {
    const Layout c = layout(p.batch, p.m, p.n, transposed, 3, step);
    kernel.stores.push_back({add(c, {c.batch, c.row, c.column, 0}, true), value.id});
  }
  void add_epilogue(ScalarBuilder& s, ScalarValue sum) {
    auto bias = [&] { return s.load(add({0, 0, 1, p.n + 1}, {0, 0, 1, 0}, false), dtype_of<T>()); };
    switch (p.epilogue) {
      case Epilogue::none: store(sum); break;
      case Epilogue::transposed_store: store(sum, true); break;
      case Epilogue::strided_store: store(sum, false, 2); break;
      case Epilogue::bias_relu: store(s.max(s.add(sum, bias()), s.imm(0, sum))); break;
      case Epilogue::gelu: {
        ScalarValue z = s.add(sum, bias());
        store(s.mul(s.mul(z, s.imm(0.5, z)), s.add(s.erf(s.mul(z, s.imm(0.70710678118654752, z))), s.imm(1, z))));
        break;
      }
      case Epilogue::two_stores:
        store(sum);
        store(s.mul(sum, sum), true);
        break;
      case Epilogue::residual_in_place: {
        store(sum);
        const std::uint16_t out = kernel.stores.back().access;
        kernel.stores.back().value = s.add(s.load(out, dtype_of<T>()), sum).id;
        break;
      }
      case Epilogue::updates:
      case Epilogue::indexed_updates:  // no register holds positions
        for (int i = 0; i < updated; ++i) {
          store(sum);
          const std::uint16_t out = kernel.stores.back().access;
          ScalarValue value = s.add(s.load(out, dtype_of<T>()), sum);
          if (p.epilogue == Epilogue::indexed_updates) value = s.add(value, s.convert(s.index(2), dtype_of<T>()));
          kernel.stores.back().value = value.id;
        }
        break;
      case Epilogue::indices: {
        // sum + 100000 * batch + 1000 * m + n
        ScalarValue at = s.add(s.add(s.mul(s.index(1), s.imm_int(1000, DType::i64)), s.index(2)),
                               s.mul(s.index(0), s.imm_int(100000, DType::i64)));
        store(s.add(sum, s.convert(at, dtype_of<T>())));
        break;
      }
    }
  }
  void fill() {
    std::mt19937 random(static_cast<unsigned>(p.m * 1000003 + p.n * 1009 + p.k * 31 + p.batch));
    std::uniform_real_distribution<double> values(-1, 1);
    for (auto& operand : data)
      for (T& v : operand) v = static_cast<T>(values(random));
  }

  std::int64_t at(std::size_t access, std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t k) const {
    const auto& s = geometry.accesses[access].stride;
    return b * s[0] + i * s[1] + j * s[2] + k * s[3];
  }

  /// Operands after the kernel, by the book.
  std::vector<std::vector<T>> expected() const {
    std::vector<std::vector<T>> out = data;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          const auto operand = [&](std::size_t access) {
            return
                [&, access](std::int64_t k) { return data[access][static_cast<std::size_t>(at(access, b, i, j, k))]; };
          };
          finish(out, b, i, j, sinter_test::product_in_order<T>(p.k, operand(0), operand(1)));
        }
    return out;
  }
  void finish(std::vector<std::vector<T>>& out, std::int64_t b, std::int64_t i, std::int64_t j, T sum) const {
    auto put = [&](std::size_t store, T value) {
      const std::uint16_t access = kernel.stores[store].access;
      out[kernel.accesses[access].operand][static_cast<std::size_t>(at(access, b, i, j, 0))] = value;
    };
    auto biased = [&] { return sum + data[2][static_cast<std::size_t>(j)]; };
    switch (p.epilogue) {
      case Epilogue::none:
      case Epilogue::transposed_store:
      case Epilogue::strided_store: put(0, sum); break;
      case Epilogue::bias_relu: put(0, std::max(biased(), T(0))); break;
      case Epilogue::gelu:
        put(0, static_cast<T>(0.5 * biased() * (1 + std::erf(biased() * 0.70710678118654752))));
        break;
      case Epilogue::two_stores: put(0, sum), put(1, sum * sum); break;
      case Epilogue::residual_in_place: put(0, data[2][static_cast<std::size_t>(at(2, b, i, j, 0))] + sum); break;
      case Epilogue::updates:
      case Epilogue::indexed_updates:
        for (std::size_t store = 0; store < updated; ++store) {
          const T old = data[2 + store][static_cast<std::size_t>(at(2 + store, b, i, j, 0))];
          put(store, p.epilogue == Epilogue::updates ? old + sum : old + sum + static_cast<T>(j));
        }
        break;
      case Epilogue::indices: put(0, sum + static_cast<T>(i * 1000 + j + b * 100000)); break;
    }
  }

  /// Operands after the kernel has run.
  std::vector<std::vector<T>> run(Isa isa, const Schedule& schedule = {}) const {
    std::string why;
    std::shared_ptr<const Executable> executable = make_contraction_executable(kernel, schedule, isa, &why);
    INFO(why);
    REQUIRE(executable != nullptr);
    std::unique_ptr<Launch> launch = executable->bind(geometry);
    std::vector<std::vector<T>> out;
    for (const auto guards : {sinter_test::GuardPages::at_start, sinter_test::GuardPages::at_end}) {
      out = data;  // a Launch runs any number of times
      sinter_test::run_guarded(*launch, kernel, geometry, out, guards);
    }
    return out;
  }
};

template <class T>
bool same_bits(const std::vector<std::vector<T>>& a, const std::vector<std::vector<T>>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(T)) != 0) return false;
  return a.size() == b.size();
}
template <class T>
double largest_error(const std::vector<std::vector<T>>& a, const std::vector<std::vector<T>>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j)
      worst = std::max(worst, std::abs(static_cast<double>(a[i][j]) - static_cast<double>(b[i][j])));
  return worst;
}

std::string text(const Problem& p) {
  return "batch " + std::to_string(p.batch) + " m " + std::to_string(p.m) + " n " + std::to_string(p.n) + " k " +
         std::to_string(p.k) + " a_t " + std::to_string(p.a_transposed) + " b_t " + std::to_string(p.b_transposed) +
         " gaps " + std::to_string(p.a_gap) + "," + std::to_string(p.b_gap) + " steps " + std::to_string(p.a_step) +
         "," + std::to_string(p.b_step) + " epilogue " + std::to_string(static_cast<int>(p.epilogue));
}

template <class T>
void check_exact(const Problem& p, const Schedule& schedule = {}) {
  const Case<T> c(p);
  const auto wanted = c.expected();
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!host_has(isa)) continue;
    INFO(text(p) << (isa == Isa::avx2 ? " avx2 " : " avx512 ") << schedule.text() << " " << name(dtype_of<T>()));
    CHECK(same_bits(c.run(isa, schedule), wanted));
  }
}

struct ThreadCount {
  int before = thread_count();
  explicit ThreadCount(int count) { set_thread_count(count); }
  ~ThreadCount() { set_thread_count(before); }
};

const std::int64_t sizes[] = {0, 1, 2, 5, 13, 31, 64, 100, 257};
}  // namespace

TEST_CASE("products of all small sizes are exact", "[x86][contraction]") {
  for (std::int64_t m : {0, 1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 16, 29, 31})
    for (std::int64_t n : {0, 1, 2, 5, 7, 8, 13, 16, 17, 31, 32, 33, 48, 65})
      for (std::int64_t k : {0, 1, 3, 4, 9}) {
        check_exact<float>({.m = m, .n = n, .k = k});
        check_exact<double>({.m = m, .n = n, .k = k});
      }
}

TEST_CASE("products in every layout are exact", "[x86][contraction]") {
  std::mt19937 random(7);
  auto pick = [&] { return sizes[random() % std::size(sizes)]; };
  for (int layout = 0; layout < 64; ++layout)
    for (int round = 0; round < 3; ++round) {
      Problem p{.batch = static_cast<std::int64_t>(random() % 3 + 1), .m = pick(), .n = pick(), .k = pick()};
      p.a_transposed = layout & 1;
      p.b_transposed = layout & 2;
      p.a_gap = layout & 4 ? 5 : 0;
      p.b_gap = layout & 8 ? 3 : 0;
      p.a_step = layout & 16 ? 2 : 1;
      p.b_step = layout & 32 ? 3 : 1;
      p.b_shared = round == 1;
      check_exact<float>(p);
      check_exact<double>(p);
    }
}

TEST_CASE("large products: packed, threaded, by any tile", "[x86][contraction]") {
  ThreadCount count(2);
  check_exact<float>({.m = 257, .n = 1100, .k = 1000});
  check_exact<double>({.m = 100, .n = 257, .k = 513, .b_transposed = true});
  check_exact<float>({.m = 600, .n = 130, .k = 100, .a_transposed = true});
  check_exact<float>({.batch = 33, .m = 31, .n = 64, .k = 64, .b_transposed = true});
  for (std::uint16_t rows : {1, 3, 6, 14})
    for (std::uint16_t columns : {16, 32, 64, 256})
      check_exact<float>({.m = 64, .n = 100, .k = 31}, {{.action = ScheduleAction::tile_rows, .number = rows},
                                                        {.action = ScheduleAction::tile_columns, .number = columns}});
}

TEST_CASE("sums of blocks of k are added in order, whatever computes them", "[x86][contraction]") {
  for (std::int64_t k : {255, 256, 257, 511, 512, 513, 767, 1024, 1025, 2047}) {
    for (bool a_transposed : {false, true})
      for (Epilogue epilogue : {Epilogue::none, Epilogue::bias_relu, Epilogue::indices}) {
        check_exact<float>({.m = 17, .n = 37, .k = k, .a_transposed = a_transposed, .epilogue = epilogue});
        check_exact<double>({.batch = 2, .m = 3, .n = 18, .k = k, .b_transposed = a_transposed, .epilogue = epilogue});
      }
    // Products with a vector, and of two.
    for (bool b_transposed : {false, true}) {
      check_exact<float>({.m = 1, .n = 300, .k = k, .b_transposed = b_transposed});
      check_exact<double>({.m = 1, .n = 300, .k = k, .b_transposed = b_transposed});
    }
    check_exact<float>({.batch = 2, .m = 37, .n = 1, .k = k, .epilogue = Epilogue::bias_relu});
    check_exact<double>({.m = 37, .n = 1, .k = k, .b_step = 2});
    check_exact<float>({.batch = 3, .m = 1, .n = 1, .k = k});
    check_exact<double>({.m = 1, .n = 1, .k = k, .epilogue = Epilogue::bias_relu});
    check_exact<float>({.m = 1, .n = 1, .k = k, .b_step = 3});
  }
}

TEST_CASE("very long sums are added up in groups", "[x86][contraction]") {
  for (std::int64_t k : {8191, 8192, 8193, 16384, 16640, 24577}) {
    check_exact<float>({.m = 15, .n = 3, .k = k, .a_transposed = true});
    check_exact<double>({.batch = 2, .m = 2, .n = 17, .k = k, .b_transposed = true, .epilogue = Epilogue::bias_relu});
    check_exact<float>({.m = 3, .n = 5, .k = k, .epilogue = Epilogue::strided_store});
    check_exact<float>({.m = 1, .n = 70, .k = k});
    check_exact<double>({.m = 1, .n = 3, .k = k});
    check_exact<float>({.m = 1, .n = 3, .k = k, .b_transposed = true});
    check_exact<double>({.m = 3, .n = 1, .k = k});
    check_exact<float>({.m = 1, .n = 1, .k = k});
    check_exact<double>({.m = 1, .n = 1, .k = k});
  }
}

TEST_CASE("long sums go on from run to run", "[x86][contraction]") {
  for (bool a_transposed : {false, true})
    for (bool b_transposed : {false, true})
      for (Epilogue epilogue : {Epilogue::none, Epilogue::bias_relu, Epilogue::transposed_store}) {
        check_exact<float>({.m = 31,
                            .n = 45,
                            .k = 5000,
                            .a_transposed = a_transposed,
                            .b_transposed = b_transposed,
                            .a_gap = 300,
                            .epilogue = epilogue});
        check_exact<double>({.m = 5,
                             .n = 19,
                             .k = 2049,
                             .a_transposed = a_transposed,
                             .b_transposed = b_transposed,
                             .a_gap = 300,
                             .epilogue = epilogue});
      }
}

TEST_CASE("any number of threads gives the same bits", "[x86][contraction]") {
  for (Epilogue epilogue : {Epilogue::none, Epilogue::gelu}) {
    const Case<float> c({.batch = 2, .m = 257, .n = 257, .k = 100, .epilogue = epilogue});
    for (Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!host_has(isa)) continue;
      std::vector<std::vector<float>> alone, together;
      {
        ThreadCount count(1);
        alone = c.run(isa);
      }
      {
        ThreadCount count(2);
        together = c.run(isa);
      }
      CHECK(same_bits(alone, together));
    }
  }
}

TEST_CASE("a row by a large matrix is divided among threads, with the same bits", "[x86][contraction]") {
  const Case<float> c({.m = 1, .n = 770, .k = 1200});
  std::vector<std::vector<float>> alone;
  for (int threads : {1, 2, 3, 16}) {
    const ThreadCount count(threads);
    const auto parts = split_contraction(c.kernel, {}, Isa::avx2, nullptr);
    REQUIRE(parts);
    const ContractionPlan plan =
        plan_contraction(c.kernel, *parts, c.geometry, Packing::by_cost, Isa::avx2, thread_count());
    CHECK(plan.method == ProductMethod::add_rows);
    CHECK(plan.panels == (threads == 16 ? 7 : threads));  // no part is narrower than 128 columns
    const auto result = c.run(Isa::avx2);
    if (threads == 1) alone = result;
    CHECK(same_bits(alone, result));
  }
}

TEST_CASE("what comes next is asked for while tiles multiply", "[x86][contraction]") {
  for (int threads : {1, 3}) {
    const ThreadCount count(threads);
    check_exact<float>({.batch = 2, .m = 61, .n = 100, .k = 260, .b_gap = 400});
    check_exact<double>({.m = 61, .n = 70, .k = 131, .b_shared = true});
    check_exact<float>({.m = 60, .n = 1024, .k = 700});
    check_exact<double>({.m = 57, .n = 1030, .k = 350, .a_transposed = true, .b_gap = 1018});
    for (Epilogue epilogue : {Epilogue::bias_relu, Epilogue::updates, Epilogue::indexed_updates}) {
      check_exact<float>({.m = 75, .n = 150, .k = 130, .a_transposed = true, .epilogue = epilogue});
      check_exact<double>({.m = 100, .n = 35, .k = 515, .epilogue = epilogue});
    }
  }
  check_exact<float>({.m = 53, .n = 1024, .k = 2100, .epilogue = Epilogue::indices});  // runs of k inside a task
}

TEST_CASE("what a product prepares while it multiplies", "[x86][contraction]") {
  if (!host_has(Isa::avx512)) return;
  const auto plan_of = [](const Problem& p) {
    const Case<float> c(p);
    const auto parts = split_contraction(c.kernel, {}, Isa::avx512, nullptr);
    REQUIRE(parts);
    return plan_contraction(c.kernel, *parts, c.geometry, Packing::by_cost, Isa::avx512, 1);
  };
  CHECK(plan_of({.m = 128, .n = 768, .k = 768}).prepares_next);
  CHECK_FALSE(plan_of({.batch = 256, .m = 16, .n = 16, .k = 16}).prepares_next);
  CHECK_FALSE(plan_of({.m = 1, .n = 768, .k = 768}).prepares_next);
  CHECK_FALSE(plan_of({.m = 128, .n = 768, .k = 768, .b_transposed = true}).prepares_next);  // packed
  CHECK_FALSE(plan_of({.m = 1024, .n = 512, .k = 512}).prepares_next);  // read so often that the first time is little
  // Results that are read and written are walked in longer parts of each row.
  const Problem weights{.m = 384, .n = 1536, .k = 128, .a_transposed = true};
  CHECK(plan_of(weights).width == 32);
  Problem update = weights;
  update.epilogue = Epilogue::updates;
  CHECK(plan_of(update).width == 64);
  CHECK(plan_of(update).streams_results);
}

TEST_CASE("epilogues", "[x86][contraction]") {
  const Problem shapes[] = {{.m = 1, .n = 1, .k = 0},
                            {.m = 1, .n = 300, .k = 31},
                            {.m = 13, .n = 100, .k = 64},
                            {.batch = 3, .m = 100, .n = 31, .k = 5},
                            {.m = 257, .n = 64, .k = 13, .b_transposed = true},
                            {.m = 5, .n = 1, .k = 100},
                            {.m = 64, .n = 257, .k = 0},
                            {.m = 0, .n = 5, .k = 5},
                            {.batch = 2, .m = 600, .n = 65, .k = 31}};
  for (Problem p : shapes)
    for (Epilogue epilogue : {Epilogue::bias_relu, Epilogue::two_stores, Epilogue::residual_in_place, Epilogue::indices,
                              Epilogue::transposed_store, Epilogue::strided_store}) {
      p.epilogue = epilogue;
      check_exact<float>(p);
      check_exact<double>(p);
    }
}

TEST_CASE("gelu after a product: right, and the same on both instruction sets", "[x86][contraction]") {
  for (const Problem& p : {Problem{.m = 64, .n = 257, .k = 100, .epilogue = Epilogue::gelu},
                           Problem{.m = 2, .n = 31, .k = 5, .epilogue = Epilogue::gelu}}) {
    const Case<float> single(p);
    const Case<double> twice(p);
    CHECK(largest_error(single.run(Isa::avx2), single.expected()) < 1e-5);
    CHECK(largest_error(twice.run(Isa::avx2), twice.expected()) < 1e-13);
    if (!host_has(Isa::avx512)) continue;
    CHECK(same_bits(single.run(Isa::avx2), single.run(Isa::avx512)));
    CHECK(same_bits(twice.run(Isa::avx2), twice.run(Isa::avx512)));
  }
}

TEST_CASE("a gather in the epilogue: values, and an index out of range", "[x86][contraction]") {
  // out[i][j] = sum + table[indices[j]]
  const std::int64_t m = 40, n = 37, k = 12;
  Kernel kernel;
  kernel.kind = KernelKind::contraction;
  kernel.axes = {AxisRole::parallel, AxisRole::parallel, AxisRole::reduced};
  kernel.operands = {
      {DType::f32, false}, {DType::f32, false}, {DType::i64, false}, {DType::f32, false}, {DType::f32, true}};
  constexpr auto zero = StrideClass::zero, unit = StrideClass::unit, any = StrideClass::any;
  kernel.accesses = {{0, {any, zero, unit}},
                     {1, {zero, unit, any}},
                     {2, {zero, unit, zero}},
                     {3, {zero, zero, zero}},
                     {4, {any, unit, zero}}};
  ScalarBuilder s;
  const ScalarValue sum = s.contract(s.load(0, DType::f32), s.load(1, DType::f32));
  kernel.stores = {{4, s.add(sum, s.gather(3, DType::f32, s.load(2, DType::i64))).id}};
  kernel.body = s.take();
  verify(kernel);
  BoundGeometry geometry;
  geometry.extent = {m, n, k};
  geometry.accesses.resize(5);
  geometry.accesses[0].stride = {k, 0, 1}, geometry.accesses[1].stride = {0, 1, n},
  geometry.accesses[2].stride = {0, 1, 0};
  geometry.accesses[3].gather_extent = 5, geometry.accesses[3].gather_stride = 1,
  geometry.accesses[4].stride = {n, 1, 0};
  std::vector<float> a(m * k, 0.5f), b(k * n, 2.0f), table{10, 20, 30, 40, 50}, out(m * n);
  std::vector<std::int64_t> indices(n);
  for (std::size_t j = 0; j < indices.size(); ++j) indices[j] = static_cast<std::int64_t>(j % 5);
  void* operands[] = {a.data(), b.data(), indices.data(), table.data(), out.data()};
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!host_has(isa)) continue;
    std::string why;
    auto executable = make_contraction_executable(kernel, {}, isa, &why);
    INFO(why);
    REQUIRE(executable != nullptr);
    auto launch = executable->bind(geometry);
    launch->run(operands);
    bool is_right = true;
    for (std::size_t i = 0; i < out.size(); ++i)
      is_right = is_right && out[i] == 12 + table[static_cast<std::size_t>(indices[i % n])];
    CHECK(is_right);
    indices[36] = 5;
    CHECK_THROWS_AS(launch->run(operands), IndexError);
    indices[36] = 1;
    launch->run(operands);
    CHECK(out.back() == 32);
  }
}

TEST_CASE("what is no product of two loads is declined, with the reason", "[x86][contraction]") {
  Case<float> c({.m = 4, .n = 4, .k = 4});
  ScalarBuilder s;
  const ScalarValue a = s.load(0, DType::f32), b = s.load(1, DType::f32);
  c.kernel.stores[0].value = s.contract(s.mul(a, a), b).id;
  c.kernel.body = s.take();
  verify(c.kernel);
  std::string why;
  CHECK(make_contraction_executable(c.kernel, {}, Isa::avx2, &why) == nullptr);
  CHECK(why.find("operand") != std::string::npos);
}

TEST_CASE("NaN and infinity go through products", "[x86][contraction]") {
  Case<float> c({.m = 7, .n = 9, .k = 5});
  c.data[0][3] = INFINITY;
  c.data[1][4] = NAN;
  const auto wanted = c.expected();
  const auto got = c.run(Isa::avx2);
  for (std::size_t i = 0; i < wanted[2].size(); ++i)
    CHECK((wanted[2][i] == got[2][i] || (std::isnan(wanted[2][i]) && std::isnan(got[2][i]))));
}

TEST_CASE("the back end names itself, its choices and its reasons", "[x86][backend]") {
  X86Backend none(std::nullopt), avx2(Isa::avx2);
  Case<float> c({.m = 31, .n = 31, .k = 31});
  std::string why;
  CHECK(none.compile(c.kernel, {}, &why) == nullptr);
  CHECK(why.find("AVX2") != std::string::npos);
  CHECK(avx2.name() == "x86");
  CHECK(avx2.cache_key() != X86Backend(Isa::avx512).cache_key());
  std::vector<Schedule> choices = avx2.schedules(c.kernel);
  REQUIRE(!choices.empty());
  for (const Schedule& schedule : choices) {
    std::vector<std::vector<float>> out = c.data;
    void* operands[] = {out[0].data(), out[1].data(), out[2].data()};
    avx2.compile(c.kernel, schedule)->bind(c.geometry)->run(operands);
    CHECK(same_bits(out, c.expected()));
  }
  CHECK(avx2.compile(c.kernel, {{.action = ScheduleAction::keep, .number = 1}}, &why) == nullptr);
  CHECK(why == "x86 contraction: step keep(1): nothing of a product");
  Kernel integers = c.kernel;
  for (auto& operand : integers.operands) operand.dtype = DType::i32;
  for (auto& inst : integers.body) inst.dtype = DType::i32;
  CHECK(avx2.compile(integers, {}, &why) == nullptr);
  CHECK(why.find("i32") != std::string::npos);
  CHECK(why_not_taken(avx2.limits(), integers) == "it has no products of i32");
}

TEST_CASE("SINTER_ISA lowers the instruction set", "[x86][backend]") {
  const char* before = std::getenv("SINTER_ISA");
  const std::string saved = before != nullptr ? before : "";
  setenv("SINTER_ISA", "avx2", 1);
  CHECK(detect_isa() != Isa::avx512);
  setenv("SINTER_ISA", "sse9", 1);
  CHECK_THROWS_AS(detect_isa(), UserError);
  if (before != nullptr) setenv("SINTER_ISA", saved.c_str(), 1);
  else unsetenv("SINTER_ISA");
}
#endif
