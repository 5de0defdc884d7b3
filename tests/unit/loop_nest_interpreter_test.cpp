// What loop nests compute: graphs of all kinds of kernels at odd sizes on the interpreter, in exact mode equal bit by
// bit to the code of the x86 back end where primitives are exactly rounded, and near an oracle that knows no kernels.
#include "../catch.hpp"

#include "../conformance/sums_in_order.hpp"
#include "../nest_backend.hpp"
#include "../plan_harness.hpp"

#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#endif
#include <sinter/kernel/gather_error.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

using namespace sinter_test;

namespace {

/// Graphs over an open extent N (and M = N + 1).
constexpr const char* graphs[] = {
    // pointwise
    "graph(%x: f32[3, N], %y: f32[N]) { return mul(add(%x, %y), sub(%x, 0.5)) }",
    "graph(%x: f32[N, 3], %y: f32[N, 1]) { return div(%x, add(square(%y), 0.1)), sqrt(abs(%x)) }",
    "graph(%x: f32[3, N], %y: f32[N, 3]) { return add(%x, permute(%y) {axes=[1, 0]}) }",
    "graph(%x: f32[3, N], %y: f32[N, 3]) { return maximum(permute(%x) {axes=[1, 0]}, %y), gt(%y, 0.25) }",
    "graph(%x: f64[N], %i: i32[N], %b: bool[N]) { return where(%b, %x, cast(%i) {dtype=f64}), cast(%x) {dtype=i32} }",
    "graph(%x: i64[N], %y: i32[N]) { return floor_divide(%x, 3), rem(mul(%y, %y), 5), and(ge(%x, 1), lt(%y, 2)) }",
    "graph(%x: f32[2, N]) { return add(%x, iota {axes=[1], shape=[2, N], dtype=f32}), floor(mul(%x, 3)), "
    "rem(%x, 0.7) }",
    "graph(%x: f32[4, N], %i: i64[3]) { return mul(take(%x, %i) {axes=[0]}, 2) }",
    "graph(%x: f32[4, 5], %i: i32[N]) { return neg(take(%x, %i) {axes=[0]}) }",
    "graph(%x: f32[4, N], %i: i64[2]) { return take(%x, %i) {axes=[0]}, sum(take(%x, %i) {axes=[0]}) {axes=[1]} }",
    "graph(%x: f32[M], %y: f32[N]) { return update_slice(%x, mul(%y, %y)) {starts=[1], steps=[1]} }",
    "graph(%x: f32[M, 2], %y: f32[N, 2]) { return exp(slice(%x) {starts=[1, 0], ends=[M, 2], steps=[1, 1]}), "
    "gelu(%y) }",
    // rows
    "graph(%x: f32[3, N]) { return sum(%x) {axes=[1]}, amax(%x) {axes=[1]} }",
    "graph(%x: f64[3, N], %y: f64[N]) { return sum(mul(%x, %y)) {axes=[1], keepdim}, amin(%x) {axes=[1], keepdim} }",
    "graph(%x: f32[3, N]) { return div(%x, add(sum(square(%x)) {axes=[1], keepdim}, 1)) }",
    "graph(%x: f32[5, N]) { return softmax(%x) {axes=[1]} }",
    "graph(%x: f32[3, N], %w: f32[N], %b: f32[N]) { return layer_norm(%x, %w, %b) {axes=[1], eps=1e-5} }",
    "graph(%x: f32[3, N]) { return var(%x) {axes=[1]} }",
    "graph(%x: f32[N]) { return sum(%x) {axes=[0]} }",
    "graph(%x: f64[N], %y: f64[N]) { return sum(mul(%x, %y)) {axes=[0]} }",
    "graph(%x: i32[3, N], %b: bool[3, N]) { return sum(%x) {axes=[1]}, all(%b) {axes=[1]}, any(%b) {axes=[1]} }",
    "graph(%x: f32[3, N]) { return argmax(%x) {axes=[1]} }",
    "graph(%x: f32[4, 3, N], %y: f32[N]) { return sum(mul(%x, %y)) {axes=[0, 2]} }",
    "graph(%x: f32[N, 3, 5], %y: f32[5]) { return sum(mul(%x, %y)) {axes=[0, 2]} }",
    "graph(%x: f32[N, 3]) { return sum(permute(%x) {axes=[1, 0]}) {axes=[1]} }",
    // columns
    "graph(%x: f32[3, N]) { return sum(%x) {axes=[0]}, amax(%x) {axes=[0]} }",
    "graph(%x: f32[N, 3]) { return sum(%x) {axes=[0]} }",
    "graph(%x: f64[N, 5]) { return sub(%x, mean(%x) {axes=[0], keepdim}) }",
    "graph(%x: f32[5, 3, N], %y: f32[3, 1]) { return sum(mul(%x, %y)) {axes=[0, 1]} }",
    "graph(%x: f32[2, N, 3, 5], %y: f32[3, 1]) { return sum(mul(%x, %y)) {axes=[0, 2]} }",
    "graph(%x: i64[N, 3], %b: bool[N, 3]) { return prod(%x) {axes=[0]}, any(%b) {axes=[0]} }",
    // products
    "graph(%x: f32[5, N], %w: f32[N, 7], %b: f32[7]) { return maximum(add(matmul(%x, %w), %b), 0) }",
    "graph(%x: f64[N, 3], %w: f64[5, 3]) { return matmul(%x, permute(%w) {axes=[1, 0]}) }",
    "graph(%x: f32[2, 3, 4], %w: f32[2, 4, N]) { return permute(matmul(%x, %w)) {axes=[0, 2, 1]} }",
    "graph(%x: f32[3, 1, N], %w: f32[3, N, 18], %y: f32[3, 1, 18]) { return mul(sub(%y, matmul(%x, %w)), 0.5) }",
    "graph(%x: f32[4, N], %w: f32[N, 18], %i: i64[18]) { return maximum(maximum(matmul(%x, %w), 1), cast(%i) "
    "{dtype=f32}) }",
    "graph(%x: f32[N, 2], %w: f32[2, 19]) { return add(matmul(%x, %w), iota {axes=[1], shape=[N, 19], dtype=f32}) }",
    // scans
    "graph(%x: f32[3, N]) { return cumsum(abs(%x)) {axes=[1]}, cummax(%x) {axes=[1]} }",
    "graph(%x: f32[3, N]) { return cumsum(square(%x)) {axes=[1], exclusive}, cummin(%x) {axes=[1], exclusive} }",
    "graph(%x: f64[3, N], %y: f64[N]) { return mul(cumsum(abs(add(%x, %y))) {axes=[1]}, %y) }",
    "graph(%x: f64[2, N]) { return cumsum(abs(%x)) {axes=[1], exclusive}, cummax(%x) {axes=[1], exclusive} }",
    "graph(%x: f32[3, N]) { return cumsum(abs(%x)) {axes=[1], reversed}, cummin(%x) {axes=[1], exclusive, reversed} }",
    "graph(%x: f32[3, N]) { return cumprod(sign(%x)) {axes=[1]}, cumprod(sign(%x)) {axes=[1], exclusive} }",
    "graph(%x: i32[3, N]) { return cumsum(%x) {axes=[1]}, cummax(%x) {axes=[1]}, cumprod(%x) {axes=[1], exclusive} }",
    "graph(%x: i64[3, N]) { return cumsum(%x) {axes=[1]}, cummin(%x) {axes=[1]}, cumprod(%x) {axes=[1]} }",
    "graph(%x: f32[3, N], %i: i64[3, N]) { return cumsum(abs(%x)) {axes=[1]}, cumsum(%i) {axes=[1]}, "
    "cumsum(abs(cast(%x) {dtype=f64})) {axes=[1], exclusive} }",
    "graph(%x: f32[N, 19]) { return cumsum(abs(%x)) {axes=[0]}, cummax(%x) {axes=[0], exclusive} }",
    "graph(%x: f32[N, 3], %y: f32[N, 1]) { return mul(cumsum(abs(%x)) {axes=[0]}, cumsum(abs(%y)) {axes=[0]}) }",
    "graph(%x: f64[2, N, 5]) { return cumsum(abs(%x)) {axes=[1], exclusive, reversed}, cummin(%x) {axes=[1], reversed} "
    "}",
    "graph(%x: i64[N, 3]) { return cumsum(%x) {axes=[0], reversed}, cumprod(%x) {axes=[0], exclusive, reversed} }",
    "graph(%x: f32[N]) { return cumsum(cumsum(abs(%x)) {axes=[0]}) {axes=[0], exclusive} }",
    "graph(%x: f32[N]) { return add(cumsum(abs(%x)) {axes=[0], reversed}, iota {axes=[0], shape=[N], dtype=f32}) }",
    "graph(%x: f32[N, 4]) { return cumsum(permute(%x) {axes=[1, 0]}) {axes=[1]} }",
    "graph(%x: f32[N]) { return cumsum(expand(reshape(%x) {shape=[N, 1]}) {shape=[N, 4]}) {axes=[1]} }",
};

std::string with_size(std::string_view graph, std::int64_t n) {
  std::string text;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const bool is_letter = graph[i] == 'N' || graph[i] == 'M';
    if (is_letter) text += std::to_string(n + (graph[i] == 'M'));
    else text += graph[i];
  }
  return text;
}

bool is_exact(const Plan& plan) {
  return std::all_of(plan.steps().begin(), plan.steps().end(),
                     [](const PlanStep& step) { return !step.host && is_exactly_rounded(step.kernel); });
}

/// NaNs are alike; zeros have signs.
bool same_bits(const oracle::Array& a, const oracle::Array& b) {
  return a.extents == b.extents && std::equal(a.data.begin(), a.data.end(), b.data.begin(), [](auto x, auto y) {
           return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
         });
}

struct Checked {
  int exact = 0, near = 0;
};

/// All interpreters, and the code for `isas`, on one graph.
void check_graph(const std::string& text, Checked& checked, bool asks_oracle) {
  INFO(text);
  const Graph graph = prepared(text);
  const auto inputs = random_inputs(graph);
  std::vector<std::unique_ptr<Backend>> backends;
  for (const int bytes : {64, 32})
    backends.push_back(std::make_unique<NestBackend>(InterpretMode::exact, plain_machine(bytes)));
  backends.push_back(std::make_unique<NestBackend>(InterpretMode::exact, plain_machine(),
                                                   Schedule{{.action = ScheduleAction::unroll, .number = 1}}));
#ifndef SINTER_NO_X86
  for (const x86::Isa isa : {x86::Isa::avx2, x86::Isa::avx512})
    if (x86::host_has(isa)) backends.push_back(std::make_unique<x86::X86Backend>(isa));
#endif
  backends.push_back(std::make_unique<NestBackend>(InterpretMode::wide));
  std::vector<oracle::Array> first;
  for (const auto& backend : backends) {
    INFO(backend->cache_key());
    const auto plan = build_plan(graph, fused({backend.get(), reference()}));
    for (const PlanStep& step : plan->steps()) REQUIRE((step.host || step.backend == backend->name()));
    const auto found = run(*plan, inputs);
    if (first.empty()) first = found;
    const bool is_wide = backend == backends.back();
    (is_exact(*plan) && !is_wide ? checked.exact : checked.near) += 1;
    for (std::size_t j = 0; j < found.size(); ++j) {
      if (is_exact(*plan) && !is_wide) CHECK(same_bits(found[j], first[j]));
      else CHECK(difference(found[j], first[j], tolerance_of(found[j].dtype)).empty());
    }
  }
  if (!asks_oracle) return;
  const auto wanted = oracle::evaluate(graph, inputs);
  for (std::size_t j = 0; j < wanted.size(); ++j)
    CHECK(difference(first[j], wanted[j], tolerance_of(wanted[j].dtype)).empty());
}

}  // namespace

TEST_CASE("interpreted nests: small and odd sizes, against generated code and the oracle") {
  Checked checked;
  for (const char* graph : graphs)
    for (const std::int64_t n : {1, 3, 7, 8, 9, 15, 16, 17, 33, 130}) check_graph(with_size(graph, n), checked, true);
  CHECK(checked.exact > 500);
  CHECK(checked.near > 300);
}

TEST_CASE("interpreted nests: products of one and of many groups of k, by tiles of any length") {
  for (const std::int64_t k : {1, 255, 256, 257, 8192, 8193, 20000})
    for (const char* steps : {"default", "tile_rows(1) tile_columns(3)", "tile_rows(2) tile_columns(16) pack(1)"}) {
      INFO(k << ", " << steps);
      const std::string text = "graph(%x: f32[3, " + std::to_string(k) + "], %w: f32[" + std::to_string(k) +
                               ", 5], %b: f32[3, 1]) { return sub(matmul(%x, %w), %b) }";
      const Graph graph = prepared(text);
      const auto inputs = random_inputs(graph);
      NestBackend exact(InterpretMode::exact, plain_machine(), *parse_schedule(steps));
      const auto plan = build_plan(graph, fused({&exact, reference()}));
      REQUIRE(plan->steps().size() == 1);
      REQUIRE(plan->steps().front().kernel.kind == KernelKind::contraction);
      const auto found = run(*plan, inputs);
      for (std::int64_t i = 0; i < 15; ++i) {
        std::vector<float> a, b;
        for (std::int64_t j = 0; j < k; ++j) {
          a.push_back(static_cast<float>(inputs[0].data[static_cast<std::size_t>(i / 5 * k + j)]));
          b.push_back(static_cast<float>(inputs[1].data[static_cast<std::size_t>(j * 5 + i % 5)]));
        }
        const float sum = product_in_order<float>(
            k, [&](std::int64_t at) { return a[static_cast<std::size_t>(at)]; },
            [&](std::int64_t at) { return b[static_cast<std::size_t>(at)]; });
        CHECK(static_cast<float>(found[0].data[static_cast<std::size_t>(i)]) ==
              sum - static_cast<float>(inputs[2].data[static_cast<std::size_t>(i / 5)]));
      }
    }
}

TEST_CASE("interpreted nests: no elements") {
  Checked checked;
  for (const char* graph : graphs) {
    const std::string_view text = graph;
    const bool needs_elements = text.find("amax") < text.size() || text.find("amin") < text.size() ||
                                text.find("argmax") < text.size() || text.find("mean") < text.size() ||
                                text.find("var") < text.size();
    if (!needs_elements) check_graph(with_size(graph, 0), checked, true);
  }
}

TEST_CASE("interpreted nests: sizes around the blocks of reductions, against generated code") {
  Checked checked;
  for (const char* graph : graphs)
    for (const std::int64_t n : {63, 64, 65, 128, 4095, 4096, 4097, 8193})
      check_graph(with_size(graph, n), checked, false);
}

TEST_CASE("interpreted nests: rows long enough for their blocks to be tasks") {
  Checked checked;
  for (const char* graph : graphs) {
    if (std::string_view(graph).find("axes=[0]} }") == std::string_view::npos) continue;
    for (const std::int64_t n : {8 * row_sum_block, std::int64_t{300001}})
      check_graph(with_size(graph, n), checked, false);
  }
}

TEST_CASE("interpreted nests: an index out of range is an error of the kernel") {
  static NestBackend nests(InterpretMode::exact);
  for (const char* text : {"graph(%x: f32[4, 20], %i: i64[3]) { return neg(take(%x, %i) {axes=[0]}) }",
                           "graph(%x: f32[4], %i: i32[30]) { return neg(take(%x, %i) {axes=[0]}) }"}) {
    const Kernel kernel = build_plan(prepared(text), fused({&nests, reference()}))->steps().front().kernel;
    std::string found;
    BoundGeometry geometry;
    geometry.extent.fill(2);
    for (const Access& access : kernel.accesses) {
      auto& numbers = geometry.accesses.emplace_back();
      for (std::size_t a = 0; a < numbers.stride.size(); ++a) numbers.stride[a] = access.stride[a] == StrideClass::unit;
      numbers.gather_extent = 4;
    }
    std::vector<std::int64_t> index(16, 0x0000000700000007);  // 7 as i32; more as i64
    std::vector<double> data(16);
    std::vector<void*> operands;
    for (const Operand& operand : kernel.operands)
      operands.push_back(is_integer(operand.dtype) ? static_cast<void*>(index.data()) : data.data());
    CHECK_THROWS_AS(interpret(*nest_of(kernel), VariantKind::whole, geometry, operands, InterpretMode::exact),
                    GatherError);
  }
}

TEST_CASE("interpreted nests: wide mode rounds only what it stores") {
  static NestBackend nests(InterpretMode::exact);
  const Kernel kernel =
      build_plan(prepared("graph(%x: f32[3]) { return sub(add(%x, 1e8), 1e8) }"), fused({&nests, reference()}))
          ->steps()
          .front()
          .kernel;
  BoundGeometry geometry;
  geometry.extent[0] = 3;
  geometry.accesses.resize(kernel.accesses.size());
  for (auto& numbers : geometry.accesses) numbers.stride[0] = 1;
  std::vector<float> x{0.25f, -3, 7}, y(3);
  void* const operands[] = {x.data(), y.data()};
  interpret(*nest_of(kernel), VariantKind::whole, geometry, operands, InterpretMode::wide);
  CHECK(y == x);
  interpret(*nest_of(kernel), VariantKind::whole, geometry, operands, InterpretMode::exact);
  CHECK(y == std::vector<float>{0, 0, 8});
}

#ifndef SINTER_NO_X86
TEST_CASE("generated loops: a long row whose reduction nothing asks for is not cut into blocks") {
  if (!x86::host_has(x86::Isa::avx2)) SINTER_SKIP("this machine lacks the instruction set");
  Kernel kernel;
  kernel.kind = KernelKind::row;
  kernel.axes = {AxisRole::reduced};
  kernel.operands = {{DType::f32, true}};
  kernel.accesses = {{.operand = 0, .stride = {}}};
  ScalarBuilder s;
  const ScalarValue one = s.imm(1, DType::f32);
  s.reduce(Prim::reduce_add, one);
  kernel.body = s.take();
  kernel.stores = {{0, one.id}};
  verify(kernel);
  BoundGeometry geometry;
  geometry.extent[0] = 100'000'000;
  geometry.accesses.resize(1);
  float result = 0;
  void* const operands[] = {&result};
  x86::make_loop_executable(kernel, {}, x86::Isa::avx2)->bind(geometry)->run(operands);
  CHECK(result == 1);
}
#endif
