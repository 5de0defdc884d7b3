// Scatters: every combiner, dtype and way in which index and table lie to each other, on every back end, against the
// oracle; indices that repeat; threads, which leave the bits as they are; indices out of range, which change nothing.
#include "../catch.hpp"

#include "../checks.hpp"
#include "../fuzz/fuzz_loop.hpp"
#include "../plan_harness.hpp"
#include "../sample.hpp"

#include <sinter/base/threads.hpp>
#include <sinter/kernel/gather_error.hpp>

#include <random>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

constexpr const char* combiners[] = {"none", "add", "mul", "min", "max"};

std::string text_of(const std::vector<std::int64_t>& extents) {
  std::string text = "[";
  for (std::size_t i = 0; i < extents.size(); ++i) text += (i ? ", " : "") + std::to_string(extents[i]);
  return text + "]";
}

/// A graph with one scatter, and what surrounds it.
struct ScatterCase {
  std::vector<std::int64_t> table, index, value;
  int axis = 0, shared = 0, inner = 0;
  std::string combine = "add", dtype = "f32", index_dtype = "i64";
  std::string base = "%b", at = "%i", with = "%v";  // what it combines

  std::string text() const {
    return "graph(%b: " + dtype + text_of(table) + ", %i: " + index_dtype + text_of(index) + ", %v: " + dtype +
           text_of(value) + ") { return scatter(" + base + ", " + at + ", " + with + ") {axes=[" +
           std::to_string(axis) + "], shared=" + std::to_string(shared) + ", inner=" + std::to_string(inner) +
           ", combine=" + combine + "} }";
  }
};

ScatterCase random_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto number = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  ScatterCase c;
  const int rank = number(1, 4);
  c.axis = number(0, rank - 1);
  for (int i = 0; i < rank; ++i) c.table.push_back(i == c.axis ? number(4, 9) : number(1, 4) == 1 ? 19 : number(1, 5));
  c.shared = number(0, c.axis);
  c.inner = number(0, 1) == 1 ? rank - 1 - c.axis : 0;
  const int own = number(0, 2);
  for (int i = 0; i < c.shared; ++i) c.index.push_back(c.table[static_cast<std::size_t>(i)]);
  for (int i = 0; i < own; ++i) c.index.push_back(number(0, 12) == 0 ? 0 : number(1, 3) == 1 ? 37 : number(1, 6));
  for (int i = rank - c.inner; i < rank; ++i) c.index.push_back(c.table[static_cast<std::size_t>(i)]);
  for (int i = 0; i < c.axis; ++i) c.value.push_back(c.table[static_cast<std::size_t>(i)]);
  for (int i = 0; i < own; ++i) c.value.push_back(c.index[static_cast<std::size_t>(c.shared + i)]);
  for (int i = c.axis + 1; i < rank; ++i) c.value.push_back(c.table[static_cast<std::size_t>(i)]);
  constexpr const char* dtypes[] = {"f32", "f64", "i32", "i64", "bool"};
  c.dtype = dtypes[number(0, 4)];
  c.index_dtype = number(0, 1) == 1 ? "i32" : "i64";
  c.combine = combiners[number(0, 4)];
  if (number(0, 3) == 0) c.at = "sub(3, %i)";
  if (c.dtype != "bool") {
    if (number(0, 3) == 0) c.with = "mul(%v, 3)";
    if (number(0, 3) == 0) c.base = "neg(%b)";
  }
  // Many factors must not leave the range of f32 on the way.
  if (c.combine == "mul" && c.dtype[0] == 'f') c.with = "add(mul(%v, 0.01), 1)";
  return c;
}

/// The plan's own values of a large scatter.
std::vector<oracle::Array> results(const std::string& text, std::span<const oracle::Array> inputs, Backend* backend) {
  const Graph graph = parse_graph(text);
  const auto plan = build_plan(run_pipeline(graph), fused({backend, reference()}));
  CHECK(plan->steps().back().backend == backend->name());
  return run(*plan, std::vector<oracle::Array>(inputs.begin(), inputs.end()));
}

struct ThreadCount {
  explicit ThreadCount(int count) : before(thread_count()) { set_thread_count(count); }
  ~ThreadCount() { set_thread_count(before); }
  int before;
};

}  // namespace

TEST_CASE("scatters of all sorts agree with the oracle") {
  int number = 0;
  fuzz_loop(770000, [&](std::uint64_t seed) {
    const ScatterCase c = random_case(seed);
    const Graph graph = parse_graph(c.text());
    INFO("seed " << seed << ": " << c.text());
    const auto inputs = random_inputs(graph, {}, static_cast<unsigned>(seed));
    for (const auto& backends : backend_lists()) {
      const auto plan = build_plan(run_pipeline(graph), ++number % 3 == 0 ? op_by_op(backends) : fused(backends));
      INFO(plan->text());
      REQUIRE(kinds(*plan).find("scatter") != std::string::npos);
      REQUIRE(kinds(*plan).find("host") == std::string::npos);
      REQUIRE(first_difference(*plan, graph, inputs) == "");
    }
  });
}

TEST_CASE("what computes index and value is one kernel with the scatter") {
  const Graph graph = parse_graph(
      "graph(%b: f32[9], %x: f32[s0], %w: f32[s0]) { return scatter(%b, cast(mul(%x, %x)) {dtype=i32}, mul(%w, "
      "exp(%x))) "
      "{axes=[0], combine=add} }");
  for (const auto& backends : backend_lists()) {
    const auto plan = build_plan(run_pipeline(graph), fused(backends));
    CHECK(kinds(*plan) == "pointwise scatter");  // a copy of the base, which its caller keeps
    for (const std::int64_t extent : {0, 1, 17, 5000})
      CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{extent})) == "");
  }
}

#ifndef SINTER_NO_X86
TEST_CASE("threads do not enter the bits of a scatter") {
  static Backend* const x86 = make_x86_backend().release();
  struct Large {
    const char* title;
    std::vector<std::int64_t> table, index, value;
    int axis, shared, inner;
  };
  const Large cases[] = {{"rows", {300, 256}, {4000}, {4000, 256}, 0, 0, 0},
                         {"elements", {256}, {300000}, {300000}, 0, 0, 0},
                         {"columns", {50, 200}, {3000, 200}, {3000, 200}, 0, 0, 1},
                         {"batches", {40, 64}, {40, 9000}, {40, 9000}, 1, 1, 0},
                         {"two axes", {64}, {700, 300}, {700, 300}, 0, 0, 0}};
  std::size_t row = 0;
  for (const Large& large : cases)
    for (const char* dtype : {"f32", "i32", "f64", "i64", "bool"})
      for (const char* combine : combiners) {
        if (!is_in_sample(row++)) continue;
        ScatterCase c{.table = large.table, .index = large.index, .value = large.value};
        c.axis = large.axis, c.shared = large.shared, c.inner = large.inner;
        c.dtype = dtype, c.combine = combine,
        c.at = "rem(%i, " + std::to_string(large.table[static_cast<std::size_t>(large.axis)]) + ")";
        const Graph graph = parse_graph(c.text());
        auto inputs = random_inputs(graph);
        std::mt19937 random(5);
        for (auto& x : inputs[1].data) x = static_cast<oracle::Number>(random() % 100000);
        for (auto& x : inputs[2].data)
          if (std::string(combine) == "mul" && is_floating(inputs[2].dtype)) x = x < 0 ? -1 : 1;
        INFO(large.title << " " << c.text());
        const auto wanted = results(c.text(), inputs, reference());
        for (const int threads : {1, 2, 5, 16}) {
          const ThreadCount scope(threads);
          CHECK(difference(results(c.text(), inputs, x86)[0], wanted[0], 0) == "");
        }
      }
}
#endif

#ifndef SINTER_NO_X86
namespace {

/// Indices that count from the end where they are negative, as Python's do.
std::string wrapped(std::int64_t extent) {
  const std::string sum = "add(%i, " + std::to_string(extent) + ")";
  return "where(and(lt(%i, 0), le(0, " + sum + ")), " + sum + ", %i)";
}
/// Indices from -extent to extent - 1: at random, or in `runs` of some length as sorted ones are.
void fill_indices(oracle::Array& index, std::int64_t extent, bool runs) {
  std::mt19937_64 random(11);
  for (std::size_t i = 0; i < index.data.size(); ++i) {
    const bool repeats = runs && i > 0 && random() % 40 != 0;
    index.data[i] = repeats ? index.data[i - 1]
                            : static_cast<oracle::Number>(static_cast<std::int64_t>(random() % (2 * extent)) - extent);
  }
}

}  // namespace

TEST_CASE("indices from the end, long runs of one index, rows of a few columns, one value for all: as the oracle") {
  static Backend* const x86 = make_x86_backend().release();
  struct Sizes {
    std::vector<std::int64_t> table, index, value;
  };
  const Sizes all_sizes[] = {{{70}, {5000}, {5000}},       {{3}, {77}, {77}},          {{70, 1}, {300}, {300, 1}},
                             {{70, 3}, {2500}, {2500, 3}}, {{70, 7}, {300}, {300, 7}}, {{70, 8}, {300}, {300, 8}},
                             {{70}, {100, 30}, {100, 30}}};
  int number = 0;
  for (const Sizes& sizes : all_sizes)
    for (const char* dtype : {"f32", "i32", "f64", "i64", "bool"})
      for (const char* combine : combiners) {
        ++number;
        ScatterCase c{.table = sizes.table, .index = sizes.index, .value = sizes.value};
        c.dtype = dtype, c.combine = combine, c.index_dtype = number % 2 == 0 ? "i32" : "i64";
        c.at = wrapped(sizes.table[0]);
        if (number % 3 == 0 && c.dtype != "bool") c.with = "add(mul(%v, 0), 1)";
        const Graph graph = parse_graph(c.text());
        auto inputs = random_inputs(graph);
        for (auto& x : inputs[2].data)
          if (std::string(combine) == "mul" && is_floating(inputs[2].dtype)) x = x < 0 ? -1 : 1;
        for (const bool runs : {false, true}) {
          fill_indices(inputs[1], sizes.table[0], runs);
          INFO(c.text() << (runs ? " in runs" : " at random"));
          const auto wanted = results(c.text(), inputs, reference());
          for (const int threads : {1, 3}) {
            const ThreadCount scope(threads);
            CHECK(difference(results(c.text(), inputs, x86)[0], wanted[0], 0) == "");
          }
        }
      }
}

TEST_CASE("an index below the first one is reported as it was given") {
  const auto add =
      jit::compile([](Tensor t, Tensor i, Tensor v) { return scatter_add(t, 0, i, v); }, {.backend = "x86"});
  for (const std::int64_t bad : {std::int64_t{-6}, std::int64_t{5}}) {
    std::vector<std::int64_t> at(100, -1);
    at[70] = bad;
    Tensor target = tensor({1.f, 2.f, 3.f, 4.f, 5.f});
    const std::string text = "index " + std::to_string(bad);
    CHECK_THROWS_WITH(eval(add(target, copy_of(at), copy_of(std::vector<float>(100, 1)))), Catch::Contains(text));
    CHECK(item<float>(target(4)) == 5);
  }
}
#endif

TEST_CASE("an index out of range is an error before anything in place changes") {
  struct Sizes {
    std::vector<std::int64_t> table, index, value;
  };
  const Sizes all_sizes[] = {{{6, 3}, {5}, {5, 3}}, {{70}, {90000}, {90000}}, {{70, 300}, {4000}, {4000, 300}}};
  for (const auto& backends : backend_lists())
    for (const Sizes& sizes : all_sizes)
      for (const char* combine : combiners)
        for (const std::int64_t bad : {std::int64_t{-1}, sizes.table[0], std::int64_t{1} << 40}) {
          ScatterCase c{.table = sizes.table, .index = sizes.index, .value = sizes.value};
          c.combine = combine;
          const Graph graph = parse_graph(c.text());
          auto inputs = random_inputs(graph);
          inputs[1].data.back() = static_cast<oracle::Number>(bad);
          const auto plan = build_plan(run_pipeline(graph), fused(backends));
          const PlanStep& step = plan->steps().back();
          std::vector<Ref<TensorImpl>> values;
          for (const auto& input : inputs) values.push_back(to_value(input));
          const BoundGeometry geometry = sinter::bind(step.geometry, {});
          std::vector<void*> operands;  // the base is the operand that is written
          for (std::size_t i = 0; i < step.kernel.operands.size(); ++i) {
            const bool is_index = step.kernel.operands[i].dtype == DType::i64;
            operands.push_back(values[step.kernel.operands[i].written ? 0 : is_index ? 1 : 2]->data());
          }
          INFO(c.text() << " at " << bad);
          CHECK_THROWS_AS(step.executable->bind(geometry)->run(operands.data()), GatherError);
          CHECK(difference(to_array(*values[0]), inputs[0], 0) == "");
        }
}
