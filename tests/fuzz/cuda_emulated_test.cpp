// What generated CUDA C computes, without a GPU: texts run on the processor (emulated_cuda.hpp) and compared with the
// oracle and the reference back end. A text takes the compiler about a second; where time is short, a part of each list
// is taken (sample.hpp).
#ifdef SINTER_CUDA
#include "../catch.hpp"

#include "../conformance/kernel_compare.hpp"
#include "../emulated_cuda.hpp"
#include "../plan_harness.hpp"
#include "../sample.hpp"
#include "fuzz_loop.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

using namespace sinter_test;

namespace {
constexpr const char* graphs[] = {
    "graph(%x: f32[s0, 40]) { return argmax(%x) {axes=[1]}, argmin(mul(%x, %x)) {axes=[0]} }",
    "graph(%x: f32[s0, 70000]) { return argmax(%x) {axes=[0, 1]}, argmin(%x) {axes=[1]} }",
    "graph(%x: f32[s0, 40004]) { return softmax(%x) {axes=[1]} }",      // online, vectors
    "graph(%x: f64[s0, 20003]) { return log_softmax(%x) {axes=[1]} }",  // online, single elements
    "graph(%x: f32[s0, 70000], %w: f32[70000], %b: f32[70000]) { return layer_norm(%x, %w, %b) {axes=[1], eps=1e-05} "
    "}",  // most of a row in shared memory
    "graph(%x: f32[s0, 16100], %r: f32[s0, 16100], %w: f32[16100], %b: f32[16100]) { return layer_norm(add(%x, %r), "
    "%w, %b) {axes=[1], eps=1e-05} }",  // weights are loaded when they are used
    "graph(%x: f32[s0, 36000], %r: f32[s0, 36000]) { return softmax(mul(%x, %r)) {axes=[1]} }",
    "graph(%x: f64[s0, 30001]) { return softmax(%x) {axes=[1]} }",
    "graph(%x: f32[s0, 1024]) { return softmax(%x) {axes=[1]} }",
    "graph(%x: f32[s0, 1024]) { return sum(%x) {axes=[0]} }",
    "graph(%x: f32[s0, 10011]) { return sum(%x) {axes=[0, 1]} }",
    "graph(%x: f32[s0, 256], %w: f32[256, 512], %b: f32[512]) { return gelu(add(matmul(%x, %w), %b)) }",
    "graph(%x: f32[s0, 255], %w: f32[255, 130]) { return matmul(%x, %w) }",
    // teams, and pieces
    "graph(%x: f32[s0, 784], %w: f32[784, 44], %b: f32[44]) { return tanh(add(matmul(%x, %w), %b)) }",
    "graph(%x: f64[s0, 300], %w: f64[300, 33]) { return matmul(%x, %w) }",
    "graph(%x: f32[s0, 10], %w: f32[70, 10]) { return matmul(%x, permute(%w) {axes=[1, 0]}) }",
    "graph(%x: f64[s0, 64], %w: f64[128, 64]) { return matmul(%x, permute(%w) {axes=[1, 0]}) }",
    "graph(%x: f32[s0, 1000], %w: f32[1000], %b: f32[1000]) { return layer_norm(%x, %w, %b) {axes=[1], eps=1e-05} }",
};
/// Scans: rows in tiles, short rows, columns.
constexpr const char* scans[] = {
    "graph(%x: f32[s0, 1500], %w: f32[1500]) { return mul(cumsum(abs(%x)) {axes=[1]}, %w), cummax(%x) {axes=[1], "
    "exclusive} }",
    "graph(%x: f64[s0, 100]) { return cumsum(abs(%x)) {axes=[1], exclusive, reversed}, cummin(%x) {axes=[1], reversed} "
    "}",
    "graph(%x: i32[s0, 7]) { return cumsum(%x) {axes=[1]}, cumprod(cast(%x) {dtype=i64}) {axes=[1], exclusive} }",
    "graph(%x: f32[s0, 300], %y: f32[s0, 1]) { return cumsum(abs(%x)) {axes=[0], exclusive}, add(cummax(%x) "
    "{axes=[0]}, "
    "%y), cumsum(abs(%y)) {axes=[0]} }",
    "graph(%x: f32[s0, 700]) { return cumsum(cumsum(abs(%x)) {axes=[1], exclusive}) {axes=[1], exclusive} }",
    // Few and long: in pieces, the last of them shorter; columns as rows are; a scan of a scan in one piece.
    "graph(%x: f32[s0, 20001]) { return mul(cumsum(abs(%x)) {axes=[1]}, %x), cummax(%x) {axes=[1], exclusive} }",
    "graph(%x: i64[9000, s0], %y: f64[9000, s0]) { return cumsum(%x) {axes=[0], reversed}, cumsum(abs(%y)) {axes=[0], "
    "exclusive} }",
    "graph(%x: f32[s0, 8192], %y: f32[s0, 9100]) { return cumprod(add(mul(%x, 0.001), 1)) {axes=[1], reversed}, "
    "cummin(%y) {axes=[1], exclusive} }",
    "graph(%x: f64[s0, 9000]) { return cumsum(cumsum(abs(%x)) {axes=[1]}) {axes=[1]} }",
    // Columns in pieces and strips, where there are 40 of them; in one piece; with two scans.
    "graph(%x: f32[700, s0], %y: f32[1, s0]) { return mul(cumsum(abs(add(%x, %y))) {axes=[0], exclusive}, %y) }",
    "graph(%x: f64[1000, s0]) { return cumprod(add(mul(%x, 0.001), 1)) {axes=[0], reversed} }",
    "graph(%x: i64[2, 300, s0]) { return cummax(%x) {axes=[1], exclusive, reversed} }",
    "graph(%x: f32[600, s0]) { return cumsum(abs(%x)) {axes=[0]}, cummin(%x) {axes=[0]} }",
};
/// Operands and results in narrow memory: elementwise, rows, columns, scans, products, gathers.
constexpr const char* narrow_memory[] = {
    "graph(%x: u8[s0, 300], %y: bf16[300]) { return cast(mul(cast(%x) {dtype=f32}, cast(%y) {dtype=f32})) {dtype=u8} }",
    "graph(%x: f16[s0, 301], %y: f16[s0, 1]) { return add(mul(%x, 3), %y), amax(%x) {axes=[1]} }",
    "graph(%x: bf16[s0, 1000]) { return softmax(%x) {axes=[1]} }",
    "graph(%x: i8[s0, 77], %y: i8[77]) { return add(%x, %y), mul(%x, %y), amin(%x) {axes=[0]} }",
    "graph(%x: u16[s0, 40], %y: i16[s0, 40], %z: u32[40]) { return neg(%x), maximum(%y, 3), mul(%z, %z) }",
    "graph(%x: f16[s0, 64], %w: f16[64, 96], %b: f16[96]) { return relu(add(matmul(%x, %w), %b)) }",
    // Odd extents: elements one by one.
    "graph(%x: f16[s0, 45], %w: f16[45, 7]) { return matmul(%x, %w) }",
    "graph(%x: bf16[s0, 33], %w: bf16[9, 33]) { return matmul(relu(%x), permute(%w) {axes=[1, 0]}) }",
    "graph(%x: u8[s0, 33], %w: i16[33, 9]) { return matmul(cast(%x) {dtype=f32}, cast(%w) {dtype=f32}) }",
    "graph(%x: f16[40, s0]) { return permute(add(%x, 1)) {axes=[1, 0]} }",
    "graph(%x: u64[s0, 40], %y: u64[40]) { return maximum(%x, %y), floor_divide(%x, %y), rem(neg(%x), %y), lt(%x, %y), "
    "cast(%x) {dtype=f32}, amin(sub(%x, %y)) {axes=[1]} }",
    "graph(%x: f8e4m3[s0, 41], %y: f32[s0, 41]) { return cast(%x) {dtype=f32}, cast(%y) {dtype=f8e5m2}, cast(mul(%y, "
    "100)) {dtype=f8e4m3} }",
    "graph(%x: f8e5m2[s0, 64], %y: f64[s0, 64]) { return cast(%x) {dtype=bf16}, cast(%y) {dtype=u64} }",
    "graph(%x: u64[s0, 300]) { return cumsum(%x) {axes=[1]}, cummax(sub(0, %x)) {axes=[1]}, sum(%x) {axes=[0]}, "
    "argmax(neg(%x)) {axes=[1]} }",
    "graph(%x: u64[s0, 33], %y: u64[s0, 33], %i: i64[5]) { return take(%x, clamp(%i, 0, 32)) {axes=[1]}, "
    "where(ge(sub(%x, %y), %y), right_shift(neg(%x), 3), pow(%y, 3)) }",
    "graph(%x: f8e4m3[s0, 40]) { return flip(%x) {axes=[1]}, concat(%x, %x) {axes=[1]} }",
};
/// Operands that are computed on the way into the product: each is one kernel (two where the reduced axis is cut).
constexpr const char* prologues[] = {
    "graph(%x: f32[s0, 64], %s: f32[64], %b: f32[64], %w: f32[64, 96]) { return matmul(add(mul(relu(%x), "
    "%s), %b), %w) }",  // 0 * x + b outside the tile
    "graph(%x: f32[s0, 63], %s: f32[s0, 1], %b: f32[63], %w: f32[63, 45]) { return matmul(add(mul(%x, %s), "
    "%b), %w) }",  // odd extents, scale of a row
    "graph(%x: f32[s0, 64], %m: bool[s0, 64], %w: f32[64, 96]) { return matmul(mul(%x, cast(%m) "
    "{dtype=f32}), %w) }",
    "graph(%x: i32[s0, 64], %w: f32[64, 96]) { return matmul(cast(%x) {dtype=f32}, %w) }",
    "graph(%x: f64[s0, 64], %w: bool[64, 95]) { return matmul(cast(%x) {dtype=f32}, cast(%w) {dtype=f32}) "
    "}",  // both operands, 8-byte loads
    "graph(%x: f32[s0, 64], %w: f64[64, 96]) { return matmul(cast(%x) {dtype=f64}, add(%w, 1)) }",
    "graph(%x: f32[300, s0], %g: f32[300, 40], %h: f32[300, 40]) { return matmul(permute(%x) {axes=[1, "
    "0]}, mul(%g, cast(gt(%h, 0)) {dtype=f32})) }",  // backward; cut
    "graph(%x: f32[64, s0], %c: f32[s0], %w: f32[96, 64]) { return matmul(permute(sub(%x, %c)) {axes=[1, "
    "0]}, permute(div(%w, 3)) {axes=[1, 0]}) }",  // both transposed
    "graph(%x: f32[s0, 64], %y: f32[64, s0], %w: f32[64, 96]) { return matmul(add(%x, permute(%y) "
    "{axes=[1, 0]}), %w) }",  // loads of two orientations
    "graph(%x: f32[s0, 5, 12], %p: f32[5, 12], %w: f32[12, 96]) { return matmul(reshape(relu(%x)) "
    "{shape=[5*s0, 12]}, %w) }",  // through a reshape
    "graph(%q: f32[3, s0, 64], %k: f32[3, s0, 64]) { return matmul(mul(%q, 0.125), permute(%k) {axes=[0, "
    "2, 1]}) }",  // batches
    "graph(%x: f32[s0, 64], %w: f32[64, 24]) { return matmul(mul(%x, sin(cast(iota {axes=[1], shape=[s0, "
    "64], dtype=i32}) {dtype=f32})), %w) }",
    // before and after the product
    "graph(%x: f32[s0, 64], %w: f32[64, 64]) { %h = relu(%x) return gelu(add(matmul(%h, %w), %h)) }",
    "graph(%x: f32[s0, 64], %w: f32[64, 3]) { return matmul(exp(%x), %w) }",  // no tile: rows
};
}  // namespace

TEST_CASE("emulated CUDA C with prologues agrees with the oracle") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  std::size_t row = 0;
  for (const char* text : prologues) {
    const std::size_t number = row++;
    if (!is_in_sample(number)) continue;
    for (const int multiprocessors : {132, 2}) {
      if (multiprocessors == 2 && number % 3 != 0) continue;  // larger tiles for some
      EmulatedCuda emulated(multiprocessors);
      const Graph graph = parse_graph(text);
      const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
      INFO(text << " for " << multiprocessors << " processors\n" << plan->text());
      CHECK(kinds(*plan) == "contraction");
      CHECK(plan->steps()[0].name != "matmul");  // says what else it does
      for (const std::int64_t rows : {8, 33, 130}) {
        const auto inputs = random_inputs(graph, std::vector<std::int64_t>{rows});
        CHECK(first_difference(*plan, graph, inputs) == "");
        if (multiprocessors == 2) continue;
        // An operand has the bits that it would have in memory.
        EmulatedCuda apart(multiprocessors);
        apart.prologue_operations = 0;
        const auto stored = build_plan(run_pipeline(graph), fused({&apart}));
        CHECK(stored->kernel_count() > 1);
        CHECK(difference(run(*plan, inputs)[0], run(*stored, inputs)[0], 0) == "");
      }
    }
  }
}

TEST_CASE("emulated CUDA C agrees with the oracle") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  std::size_t row = 0;
  for (const char* text : graphs) {
    const std::size_t number = row++;
    if (!is_in_sample(number)) continue;
    for (const int multiprocessors : {132, 2}) {
      if (multiprocessors == 2 && number % 3 != 0) continue;
      EmulatedCuda emulated(multiprocessors);
      const Graph graph = parse_graph(text);
      const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
      INFO(text << " for " << multiprocessors << " processors");
      for (const std::int64_t rows : {3, 70})
        CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{rows})) == "");
    }
  }
}

TEST_CASE("emulated CUDA C of rows that a cluster of blocks shares agrees with the oracle") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  std::size_t number = 0;
  for (const char* text : {
           "graph(%x: f32[s0, 40004]) { return softmax(%x) {axes=[1]} }",
           "graph(%x: f64[s0, 33001]) { return log_softmax(%x) {axes=[1]} }",
           "graph(%x: f32[s0, 34000], %w: f32[34000], %b: f32[34000]) { return layer_norm(%x, %w, %b) {axes=[1], "
           "eps=1e-05} }",
           "graph(%x: f32[s0, 33001], %y: f32[s0, 33001]) { return mul(%y, sub(%x, sum(mul(%x, %y)) {axes=[1], "
           "keepdim})), amax(%x) {axes=[1]} }",
           "graph(%x: i32[s0, 40000]) { return sub(%x, amin(%x) {axes=[1], keepdim}), argmax(%x) {axes=[1]} }",
           "graph(%x: f32[s0, 300004]) { return softmax(%x) {axes=[1]} }",
           "graph(%x: f32[s0, 100004]) { return softmax(%x) {axes=[1]} }",  // two clusters of 512 threads a block
       }) {
    if (!is_in_sample(number++)) continue;
    EmulatedCuda emulated(number == 7 ? 2 : 132);
    const Graph graph = parse_graph(text);
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
    INFO(text << plan->text());
    CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{2})) == "");
  }
}

TEST_CASE("emulated CUDA C of rows that pass through teams of blocks agrees with the oracle") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  std::size_t number = 0;
  for (const char* text : {
           "graph(%x: f32[s0, 8004], %y: f32[s0, 8004]) { return softmax(mul(%x, %y)) {axes=[1]} }",
           "graph(%x: f32[s0, 8001], %y: f32[s0, 8001]) { return logsumexp(sub(%x, %y)) {axes=[1]} }",
           "graph(%x: f32[s0, 8004], %y: f32[s0, 8004], %w: f32[8004], %b: f32[8004]) { return layer_norm(add(%x, %y), "
           "%w, %b) {axes=[1], eps=1e-05} }",
           "graph(%x: f32[s0, 8004], %y: f32[s0, 8004]) { return mul(%y, sub(%x, sum(mul(%x, %y)) {axes=[1], "
           "keepdim})), amax(%x) {axes=[1]} }",
           "graph(%x: i32[s0, 8004], %y: i32[s0, 8004]) { return sub(mul(%x, %y), amin(mul(%x, %y)) {axes=[1], "
           "keepdim}) }",
           "graph(%x: f32[s0, 8004], %y: f32[s0, 8004]) { return sub(%x, sum(%y) {axes=[1], keepdim}) }",
           "graph(%x: f32[s0, 40, 200], %y: f32[s0, 40, 200]) { return sub(%x, mean(mul(%x, %y)) {axes=[1, 2], "
           "keepdim}) }",
       }) {
    if (!is_in_sample(number++)) continue;
    EmulatedCuda emulated(2);
    const Graph graph = parse_graph(text);
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
    INFO(text << plan->text());
    for (const std::int64_t rows : {33, 50}) {
      CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{rows})) == "");
      const std::int64_t symbols[] = {rows};
      cuda::Target target;
      target.multiprocessors = 2;
      const PlanStep& step = plan->steps().back();
      CHECK(cuda::generate(step.kernel, {}, target)->bind(bind(step.geometry, symbols), 0).launches.size() == 2);
    }
  }
}

TEST_CASE("emulated CUDA C of narrow memory agrees with the reference back end") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  std::size_t row = 0;
  for (const char* text : narrow_memory) {
    if (!is_in_sample(row++)) continue;
    EmulatedCuda emulated;
    const Graph graph = parse_graph(text);
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated})),
               right = build_plan(run_pipeline(graph), fused());
    INFO(text << plan->text());
    for (const std::int64_t rows : {3, 70}) {
      const auto inputs = random_inputs(graph, std::vector<std::int64_t>{rows});
      const auto found = run(*plan, inputs), wanted = run(*right, inputs);
      for (std::size_t i = 0; i < wanted.size(); ++i)  // sums of floats may round to the other neighbour
        CHECK(difference(found[i], wanted[i], is_floating(wanted[i].dtype) ? 0.01 : 0) == "");
    }
  }
}

TEST_CASE("emulated CUDA C of scans agrees with the oracle") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  EmulatedCuda emulated;
  for (const char* text : scans) {
    const Graph graph = parse_graph(text);
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
    INFO(text);
    CHECK(plan->kernel_count() <= 2);
    for (const std::int64_t rows : {3, 40})
      CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{rows})) == "");
  }
}

TEST_CASE("emulated CUDA C of scatters agrees with the oracle") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  std::size_t row = 0;
  for (const char* dtype : {"f32", "i32", "i64", "bool"})
    for (const char* combine : {"none", "add", "mul", "min", "max"})
      for (const bool is_along : {false, true}) {
        if (!is_in_sample(row++)) continue;
        const std::string type = dtype, index = is_along ? "[7, 5, 3]" : "[7, 5]";
        const std::string text =
            "graph(%b: " + type + "[7, 9, 3], %i: i64" + index + ", %v: " + type +
            "[7, 5, 3]) { return scatter(%b, sub(3, %i), %v) {axes=[1], shared=1, inner=" + (is_along ? "1" : "0") +
            ", combine=" + combine + "} }";
        const Graph graph = parse_graph(text);
        EmulatedCuda emulated;
        const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
        INFO(text << plan->text());
        CHECK(kinds(*plan).find("scatter") != std::string::npos);
        CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
      }
  const Graph rows = parse_graph(
      "graph(%i: i32[400], %v: f32[400, 200]) { return scatter_add(%i, mul(%v, 3)) {axes=[0], shape=[5, 200]} }");
  EmulatedCuda emulated;
  CHECK(first_difference(*build_plan(run_pipeline(rows), fused({&emulated})), rows, random_inputs(rows)) == "");
  // By lists: values that no sort takes. Values sorted, into lists and into bins of several places: short and long
  // lists, two bins alone, tiles of one place, numbers of 8 bytes, old contents, a combination that shows the order.
  // Positions sorted, in one pass and in two: lists of rows.
  for (const char* text :
       {"graph(%v: f32[24000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
        "  return scatter_add(rem(mul(%1, 7919), 501), %v) {axes=[0], shape=[501]}\n}",
        "graph(%v: f32[24000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
        "  return scatter_add(rem(mul(mul(%1, %1), 7919), 13), %v) {axes=[0], shape=[2000]}\n}",
        "graph(%v: f32[90000]) {\n  %1: i64[90000] = iota {axes=[0], shape=[90000], dtype=i64}\n"
        "  return scatter_add(rem(mul(mul(%1, %1), 7), 1201), %v) {axes=[0], shape=[3001]}\n}",
        "graph(%v: f32[9000, 33]) {\n  %1: i64[9000] = iota {axes=[0], shape=[9000], dtype=i64}\n"
        "  return scatter_add(rem(mul(%1, 7919), 40), %v) {axes=[0], shape=[40, 33]}\n}",
        "graph(%v: f32[24000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
        "  return scatter_add(rem(mul(%1, 7919), 8000), %v) {axes=[0], shape=[8000]}\n}",
        "graph(%v: f32[24000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
        "  return scatter_add(mul(rem(%1, 7), 1000), %v) {axes=[0], shape=[8000]}\n}",
        "graph(%v: f32[24000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
        "  return scatter_add(mul(rem(mul(%1, 7919), 600), 13), %v) {axes=[0], shape=[8000]}\n}",
        "graph(%v: bool[24000], %b: bool[8000]) {\n"
        "  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
        "  return scatter(%b, rem(mul(%1, 7919), 6007), %v) {axes=[0], combine=none}\n}",
        "graph(%v: f32[30000]) {\n  %1: i64[30000] = iota {axes=[0], shape=[30000], dtype=i64}\n"
        "  return scatter_add(mul(rem(%1, 3), 100001), %v) {axes=[0], shape=[300000]}\n}",
        "graph(%v: f64[20000], %b: f64[70000]) {\n"
        "  %1: i64[20000] = iota {axes=[0], shape=[20000], dtype=i64}\n"
        "  return scatter(%b, rem(mul(%1, 7919), 6007), %v) {axes=[0], combine=mul}\n}",
        "graph(%v: i64[20000], %b: i64[5000]) {\n"
        "  %1: i64[20000] = iota {axes=[0], shape=[20000], dtype=i64}\n"
        "  return scatter(%b, rem(mul(%1, 7919), 4999), mul(%v, 3)) {axes=[0], combine=none}\n}",
        "graph(%v: f32[3, 9000], %i: i64[3, 9000], %b: f32[3, 5000]) {\n"
        "  %1: i64[9000] = iota {axes=[0], shape=[9000], dtype=i64}\n"
        "  return scatter(%b, add(%i, rem(mul(%1, 7919), 4900)), %v) {axes=[1], shared=1, combine=min}\n}",
        "graph(%v: f32[6000, 130]) {\n  %1: i64[6000] = iota {axes=[0], shape=[6000], dtype=i64}\n"
        "  return scatter_add(rem(mul(%1, 7919), 9000), %v) {axes=[0], shape=[9000, 130]}\n}"}) {
    const Graph graph = parse_graph(text);
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
    INFO(text << plan->text());
    CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
  }
}

TEST_CASE("emulated CUDA C of scatters into f16 and bf16 has the bits of the reference back end") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  for (const char* text :  // by places, sorted into lists and into bins, rows
       {"graph(%i: i64[3000], %v: f16[3000]) { return scatter_add(%i, %v) {axes=[0], shape=[4]} }",
        "graph(%v: bf16[24000], %b: bf16[40]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
        "  return scatter(%b, rem(mul(%1, 7919), 40), %v) {axes=[0], combine=add}\n}",
        "graph(%v: bf16[24000], %b: bf16[8000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
        "  return scatter(%b, rem(mul(%1, 7919), 700), %v) {axes=[0], combine=mul}\n}",
        "graph(%v: f16[9000, 33]) {\n  %1: i64[9000] = iota {axes=[0], shape=[9000], dtype=i64}\n"
        "  return scatter_add(rem(mul(%1, 7919), 40), %v) {axes=[0], shape=[40, 33]}\n}"}) {
    EmulatedCuda emulated;
    const Graph graph = parse_graph(text);
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated})),
               wanted = build_plan(run_pipeline(graph), fused());
    INFO(text << plan->text());
    const auto inputs = random_inputs(graph);
    CHECK(difference(run(*plan, inputs)[0], run(*wanted, inputs)[0], 0) == "");
  }
}

TEST_CASE("emulated CUDA C reads windows of a padded value where it lies, place by place") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  struct Row {
    const char* windows;
    std::size_t kernels;
  };
  const std::string padded =
      "graph(%x: f32[2, 3, 9, 14]) { %p = pad(%x) {low=[0, 0, 1, 1], high=[0, 0, 1, 2], value=-2}\n return ";
  for (const Row& row :
       {Row{"window_max(windows(%p) {axes=[2, 3], sizes=[3, 3], strides=[2, 2]}) {axes=[4, 5]} }", 1},
        Row{"window_max(windows(%p) {axes=[2, 3], sizes=[2, 4], strides=[1, 3]}) {axes=[4, 5]} }", 1},
        Row{"window_sum(windows(%p) {axes=[2, 3], sizes=[3, 3], strides=[2, 2]}) {axes=[4, 5]} }", 1},
        Row{"window_argmax(windows(%p) {axes=[2, 3], sizes=[3, 3], strides=[2, 2]}) {axes=[4, 5]} }", 1},
        Row{"exp(windows(%p) {axes=[3], sizes=[3], strides=[3]}) }", 1},
        Row{"exp(windows(%p) {axes=[3], sizes=[3], strides=[1]}) }", 3},  // all places of windows that overlap
        Row{"window_max(windows(%p) {axes=[3], sizes=[17], strides=[1]}) {axes=[4]} }", 3}}) {
    EmulatedCuda emulated;
    const Graph graph = parse_graph(padded + row.windows);
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
    INFO(row.windows << plan->text());
    CHECK(plan->kernel_count() == row.kernels);
    CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
  }
}

TEST_CASE("emulated CUDA C reads padded windows of f16 and bf16 where they lie, with the bits of the reference") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  for (const char* dtype : {"f16", "bf16"})
    for (const char* op : {"window_max", "window_sum", "window_argmax"}) {
      const Graph graph =
          parse_graph(std::string("graph(%x: ") + dtype +
                      "[2, 3, 9, 14]) { %p = pad(%x) {low=[0, 0, 1, 1], high=[0, 0, 1, 2], value=-2}\n return " + op +
                      "(windows(%p) {axes=[2, 3], sizes=[3, 3], strides=[2, 2]}) {axes=[4, 5]} }");
      EmulatedCuda emulated;
      const auto plan = build_plan(run_pipeline(graph), fused({&emulated})),
                 wanted = build_plan(run_pipeline(graph), fused());
      INFO(dtype << " " << op << plan->text());
      CHECK(plan->kernel_count() == 1);
      CHECK(plan->text().find("guarded_load p0") != std::string::npos);
      const auto inputs = random_inputs(graph);
      CHECK(difference(run(*plan, inputs)[0], run(*wanted, inputs)[0], 0) == "");
    }
}

TEST_CASE("emulated CUDA C: infinities and NaN in rows that are read online, or that a cluster shares") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  struct Row {
    const char* op;
    std::size_t length;
    int multiprocessors;  // 2: a block has a row to itself
  };
  for (const Row& row : {Row{"softmax", 40004, 2}, Row{"log_softmax", 40004, 2}, Row{"logsumexp", 40004, 2},
                         Row{"softmax", 40004, 132}, Row{"softmax", 300004, 132}, Row{"log_softmax", 300004, 132}}) {
    EmulatedCuda emulated(row.multiprocessors);
    const std::size_t n = row.length;
    const Graph graph =
        parse_graph("graph(%x: f32[5, " + std::to_string(n) + "]) { return " + row.op + "(%x) {axes=[1]} }");
    auto inputs = random_inputs(graph);
    auto& x = inputs[0].data;
    for (std::size_t i = 0; i < n; ++i) {
      if (i % 5 == 0) x[i] = -infinity;
      x[n + i] = -infinity;
      if (i < n / 2 || i > n / 2 + 40) x[4 * n + i] = -infinity;
    }
    x[2 * n + 5] = infinity;
    x[3 * n + 70] = std::numeric_limits<double>::quiet_NaN();
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated})),
               wanted = build_plan(run_pipeline(graph), fused());
    INFO(row.op << " of " << n);
    CHECK(difference(run(*plan, inputs)[0], run(*wanted, inputs)[0], 2e-5) == "");
  }
}

TEST_CASE("emulated CUDA C of random kernels that fold with a state") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  int found = 0;
  for (std::uint64_t seed = 910000; found < 24; ++seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    const auto& body = test_case.kernel.body;
    if (std::none_of(body.begin(), body.end(), [](const Inst& inst) { return inst.prim == Prim::fold; })) continue;
    EmulatedCuda emulated(seed % 3 == 0 ? 2 : 132);
    const Outcome outcome = compare(*reference(), emulated, test_case, Closeness::within_error);
    INFO("seed " << seed << "\n" << describe(test_case) << outcome.reason << outcome.difference);
    CHECK((!outcome.is_declined && static_cast<bool>(outcome)));
    ++found;
  }
}

TEST_CASE("emulated CUDA C of random kernels agrees with the reference back end") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  int agreed = 0;
  fuzz_loop(900000, [&](std::uint64_t seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    EmulatedCuda emulated(seed % 3 == 0 ? 2 : 132);
    const Outcome outcome = compare(*reference(), emulated, test_case, Closeness::within_error);
    INFO("seed " << seed << "\n" << describe(test_case) << outcome.difference);
    REQUIRE((outcome.is_declined || static_cast<bool>(outcome)));
    ++agreed;
  });
  std::printf("%d texts agree\n", agreed);
}
#endif
