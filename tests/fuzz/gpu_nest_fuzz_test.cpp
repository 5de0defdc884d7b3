// Loop nests of CUDA kernels, run by the interpreter on the host: random kernels against the reference back end, chosen
// ones against the oracle, and both against the CUDA C that is written from them.
#ifdef SINTER_CUDA
#include "../catch.hpp"

#include "../conformance/kernel_compare.hpp"
#include "../conformance/kernel_random_scans.hpp"
#include "../conformance/kernel_random_scatters.hpp"
#include "../emulated_cuda.hpp"
#include "../gpu_nest_backend.hpp"
#include "../nest_backend.hpp"
#include "../nest_changes.hpp"
#include "../plan_harness.hpp"
#include "../sample.hpp"
#include "fuzz_loop.hpp"

#include <cstdio>

using namespace sinter_test;

namespace {
KernelCase random_case(std::uint64_t seed) {
  if (seed % 5 == 0) return ScanGenerator(seed).generate();
  return seed % 5 == 1 ? random_scatter(seed) : KernelGenerator(seed).generate();
}

void must_agree(Backend& right, Backend& tested, const KernelCase& test_case, std::uint64_t seed) {
  const auto differs = [&](const KernelCase& smaller) {
    const Outcome outcome = compare(right, tested, smaller, Closeness::within_error);
    return !outcome.is_declined && !outcome;
  };
  if (!differs(test_case)) return;
  const KernelCase small = Shrinker(differs).shrink(test_case);
  const GpuNest gpu(small.kernel, small.geometry);
  FAIL("seed " << seed << ", " << right.cache_key() << " and " << tested.cache_key() << ": "
               << compare(right, tested, small, Closeness::within_error).difference << "\n"
               << describe(small) << text(gpu.nest));
}
}  // namespace

TEST_CASE("random nests of a GPU: the interpreter against the reference back end") {
  const auto reference = make_reference_backend();
  int compared = 0;
  fuzz_loop(4'000'000, [&](std::uint64_t seed) {
    KernelCase test_case = random_case(seed);
    const std::vector<Schedule> schedules = cuda::generator_schedules(test_case.kernel);
    const Schedule& schedule = schedules[seed % schedules.size()];
    const int multiprocessors = seed % 2 == 0 ? 2 : 132;  // 2: small sizes are run as large ones are
    GpuNestBackend exact(InterpretMode::exact, multiprocessors, schedule);
    GpuNestBackend wide(InterpretMode::wide, multiprocessors, schedule);
    must_agree(*reference, exact, test_case, seed);
    test_case.has_wide_oracle = true;
    must_agree(wide, exact, test_case, seed);
    ++compared;
  });
  std::printf("%d kernels compared\n", compared);
  CHECK(compared > 0);
}

namespace {
/// Threads are shared out otherwise, or one of the changes that any nest may have.
void change_threads_at_random(LoopNest& nest, Random& random) {
  Loop& loop =
      nest.loops[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(nest.loops.size()) - 1))];
  if (random.chance(10)) loop.lanes = static_cast<std::uint16_t>(1 << random.integer(0, 6));
  else if (random.chance(10)) loop.copies = static_cast<std::uint8_t>(random.integer(1, 8));
  else change_at_random(nest, random);
}
/// Extents are no part of a nest: that it was made for others, the interpreter finds.
bool is_of_other_numbers(const std::string& error) {
  return error.find("more than one step") != std::string::npos || error.find("is not full") != std::string::npos;
}
/// Empty: a changed nest computes what it did before, but for the order of its sums.
std::string difference_of(const KernelCase& test_case, const GpuNest& gpu, const LoopNest& changed) {
  OperandMemory right = make_operands(test_case), found = make_operands(test_case);
  interpret(gpu.nest, VariantKind::whole, gpu.bound.geometry, right.base, InterpretMode::exact);
  try {
    interpret(changed, VariantKind::whole, gpu.bound.geometry, found.base, InterpretMode::exact);
  } catch (const InternalError& error) { return is_of_other_numbers(error.what()) ? "" : error.what(); }
  return first_difference(test_case, right, found, *judge_body(test_case), Closeness::within_error);
}
}  // namespace

TEST_CASE("random nests of a GPU: what the verifier accepts of changed nests is right") {
  int changed = 0, accepted = 0;
  fuzz_loop(5'000'000, [&](std::uint64_t seed) {
    const KernelCase test_case = random_case(seed);
    const std::int64_t items = test_case.points(AxisRole::parallel);
    if (items == 0 || items * test_case.points(AxisRole::reduced) > 3000) return;
    const GpuNest gpu(test_case.kernel, test_case.geometry, {}, seed % 2 == 0 ? 132 : 2);
    if (gpu.bound.kernel.rank() == 0) return;  // no axis to change
    const std::string before = text(gpu.nest);
    Random random(seed);
    for (int i = 0; i < 40; ++i, ++changed) {
      LoopNest other = gpu.nest;
      change_threads_at_random(other, random);
      if (!is_accepted(other) || text(other) == before) continue;
      ++accepted;
      const std::string error = difference_of(test_case, gpu, other);
      if (!error.empty())
        FAIL("seed " << seed << ", change " << i << ": " << error << "\n"
                     << describe(test_case) << before << "changed:\n"
                     << text(other));
    }
  });
  std::printf("%d changed nests, %d of them changed harmlessly\n", changed, accepted);
}

TEST_CASE("nests of a GPU: the interpreter against the oracle") {
  struct Row {
    const char *graph, *has;  // what the nest of one kernel has
  };
  constexpr Row rows[] = {
      {"graph(%x: f32[s0, 300004]) { return softmax(%x) {axes=[1]} }", " online: "},
      {"graph(%x: f64[s0, 200003]) { return log_softmax(%x) {axes=[1]} }", "rescale"},
      {"graph(%x: f32[s0, 40004]) { return softmax(%x) {axes=[1]} }", "in one tile over 4096 lanes"},
      {"graph(%x: f32[20, 100004]) { return softmax(%x) {axes=[1]} }", "stage in blocks of 512 threads"},
      {"graph(%x: f32[s0, 200000], %r: f32[s0, 200000]) { return softmax(mul(%x, %r)) {axes=[1]} }",
       "from shared b1[a1], the first"},
      {"graph(%x: f32[s0, 16100], %r: f32[s0, 16100], %w: f32[16100], %b: f32[16100]) { return layer_norm(add(%x, %r), "
       "%w, %b) {axes=[1], eps=1e-05} }",
       "from register"},
      {"graph(%x: f32[s0, 1024]) { return softmax(%x) {axes=[1]} }", "in one tile over 256 lanes"},
      {"graph(%x: f32[s0, 1024]) { return sum(%x) {axes=[0]} }", "of the block in vectors of 4"},
      {"graph(%x: f32[s0, 100011]) { return sum(%x) {axes=[0, 1]} }", "from its blocks"},
      {"graph(%x: f32[s0, 70000]) { return argmax(%x) {axes=[0, 1]}, argmin(%x) {axes=[1]} }", "f0.0"},
      {"graph(%x: f32[s0, 20001]) { return mul(cumsum(abs(%x)) {axes=[1]}, %x), cummax(%x) {axes=[1], exclusive} }",
       "after the blocks before"},
      {"graph(%x: i64[9000, s0], %y: f64[9000, s0]) { return cumsum(%x) {axes=[0], reversed}, cumsum(abs(%y)) "
       "{axes=[0], exclusive} }",
       "but for the last"},
      {"graph(%x: f32[300, s0]) { return cumsum(abs(%x)) {axes=[0], exclusive} }", "in order, float sums compensated"},
      {"graph(%x: f64[s0, 900]) { return cumsum(cumsum(abs(%x)) {axes=[1]}) {axes=[1], exclusive} }", "a tree"},
      {"graph(%v: f32[24000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
       "  return scatter_add(rem(mul(%1, 7919), 8000), %v) {axes=[0], shape=[1100000]}\n}",
       "of at most 16"},
      {"graph(%v: f32[24000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
       "  return scatter_add(rem(mul(%1, 7919), 8000), %v) {axes=[0], shape=[8000]}\n}",
       "for the places in the grid"},
      {"graph(%v: f32[24000]) {\n  %1: i64[24000] = iota {axes=[0], shape=[24000], dtype=i64}\n"
       "  return scatter_add(rem(mul(%1, 7919), 501), %v) {axes=[0], shape=[501]}\n}",
       "call sort"},
      {"graph(%v: f32[6000, 13]) {\n  %1: i64[6000] = iota {axes=[0], shape=[6000], dtype=i64}\n"
       "  return scatter_add(mul(rem(%1, 7), 1000), %v) {axes=[0], shape=[900000, 13]}\n}",
       "in order"},
      {"graph(%i: i32[400], %v: f32[400, 200]) { return scatter_add(%i, mul(%v, 3)) {axes=[0], shape=[5, 200]} }",
       "for the places in the grid, 32 threads for each"},
      {"graph(%i: i32[400], %v: i32[400, 20]) { return scatter_add(%i, mul(%v, 3)) {axes=[0], shape=[5, 20]} }",
       "in any order"},
      {"graph(%x: f32[s0, 1001], %y: f32[1001]) { return tanh(add(%x, %y)), mul(%x, 2) }", "ahead"},
      {"graph(%x: f32[s0, 12, 33], %w: f32[33, 130]) { return matmul(reshape(relu(%x)) {shape=[12*s0, 33]}, %w) }",
       "call gemm"},
      {"graph(%x: f64[900, s0], %w: f64[900, 31], %b: f64[31]) { return tanh(add(matmul(permute(%x) {axes=[1, 0]}, "
       "%w), %b)) }",
       "from its blocks"},
      {"graph(%x: f32[45, s0, 20]) { return add(permute(%x) {axes=[2, 1, 0]}, 1) }", "call transpose"},
  };
  for (const Row& row : rows) {
    GpuNestBackend nests(InterpretMode::exact);
    const Graph graph = parse_graph(row.graph);
    const auto plan = build_plan(run_pipeline(graph), fused({&nests}));
    INFO(row.graph);
    const std::int64_t symbols[] = {3};
    std::string texts;
    for (const auto& step : plan->steps()) texts += text(GpuNest(step.kernel, bind(step.geometry, symbols)).nest);
    CHECK_THAT(texts, Catch::Contains(row.has));
    CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{3})) == "");
  }
}

TEST_CASE("CUDA: scans along an axis without elements") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  for (const char* text : {"graph(%x: f32[5, s0]) { return cumsum(%x) {axes=[1]} }",
                           "graph(%x: f32[s0, 40]) { return cumsum(%x) {axes=[0], exclusive} }"}) {
    INFO(text);
    const Graph graph = parse_graph(text);
    EmulatedCuda emulated;
    const auto plan = build_plan(run_pipeline(graph), fused({&emulated}));
    CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{0})) == "");
  }
}

TEST_CASE("nests of a GPU: CUDA C of scans leaves the same bits") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  std::size_t row = 0;
  for (const char* text :
       {"graph(%x: f32[2, 20001]) { return mul(cumsum(abs(%x)) {axes=[1]}, %x), cumsum(%x) {axes=[1], exclusive} }",
        "graph(%x: f64[9000, 3]) { return cumsum(%x) {axes=[0], exclusive, reversed} }",
        "graph(%x: f32[200, 70]) { return cumsum(%x) {axes=[0], exclusive}, cumsum(abs(%x)) {axes=[0]} }",
        "graph(%x: f32[140, 700]) { return cumsum(cumsum(%x) {axes=[1], exclusive}) {axes=[1], exclusive} }"}) {
    if (!is_in_sample(row++)) continue;
    const Graph graph = parse_graph(text);
    const auto inputs = random_inputs(graph);
    EmulatedCuda emulated;
    GpuNestBackend nests(InterpretMode::exact);
    const auto found = run(*build_plan(run_pipeline(graph), fused({&emulated})), inputs),
               wanted = run(*build_plan(run_pipeline(graph), fused({&nests})), inputs);
    INFO(text);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(difference(found[i], wanted[i], 0) == "");
  }
}

TEST_CASE("nests of a GPU: CUDA C that is written from them leaves the same bits") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  int found = 0;
  std::size_t row = 0;
  for (std::uint64_t seed = 920000; found < 12; ++seed) {
    const KernelCase test_case = random_case(seed);
    if (!is_exactly_rounded(test_case.kernel) || test_case.kernel.kind == KernelKind::contraction) continue;
    ++found;
    if (!is_in_sample(row++)) continue;
    const int multiprocessors = seed % 2 == 0 ? 2 : 132;
    EmulatedCuda emulated(multiprocessors);
    GpuNestBackend nests(InterpretMode::exact, multiprocessors);
    const Outcome outcome = compare(nests, emulated, test_case, Closeness::same_bits);
    INFO("seed " << seed << "\n" << describe(test_case) << outcome.reason << outcome.difference);
    CHECK((!outcome.is_declined && static_cast<bool>(outcome)));
  }
}

TEST_CASE("nests of a GPU: rows that teams of blocks share have the bits of the CUDA C that is written from them") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  constexpr const char* rows[] = {
      // Of two blocks, of four, and of 66, of which a lane has several
      "graph(%x: f32[40, 8004], %y: f32[40, 8004]) { return mul(%y, sub(%x, sum(mul(%x, %y)) {axes=[1], keepdim})) }",
      "graph(%x: f32[40, 24004], %y: f32[40, 24004]) { return sub(%x, mean(mul(%y, %x)) {axes=[1], keepdim}), "
      "sum(%x) {axes=[1]} }",
      "graph(%x: f32[17, 260001], %y: f32[17, 260001]) { return sub(%x, sum(%y) {axes=[1], keepdim}) }",
  };
  const int processors[] = {2, 2, 33};
  for (std::size_t row = 0; row < 3; ++row) {
    if (!is_in_sample(row)) continue;
    EmulatedCuda emulated(processors[row]);
    GpuNestBackend nests(InterpretMode::exact, processors[row]);
    const Graph graph = parse_graph(rows[row]);
    const auto interpreted = build_plan(run_pipeline(graph), fused({&nests})),
               plan = build_plan(run_pipeline(graph), fused({&emulated}));
    INFO(rows[row]);
    const PlanStep& last = interpreted->steps().back();
    CHECK_THAT(text(GpuNest(last.kernel, bind(last.geometry, {}), {}, processors[row]).nest),
               Catch::Contains("teams of"));
    const auto inputs = random_inputs(graph);
    const auto found = run(*plan, inputs), wanted = run(*interpreted, inputs);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(difference(found[i], wanted[i], 0) == "");
  }
}

TEST_CASE("nests of a GPU: tiles of products and transposes leave the bits of the CUDA C that is written from them") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  struct Row {
    const char *graph, *has;  // what the nest has
    int multiprocessors;
  };
  constexpr Row rows[] = {
      {"graph(%x: f32[s0, 784], %w: f32[784, 44], %b: f32[44]) { return maximum(add(matmul(%x, %w), %b), 0) }",
       "over 8 lanes in vectors of 8", 132},  // teams, and pieces
      {"graph(%x: f32[s0, 300], %w: f32[300, 130]) { return matmul(relu(%x), %w) }", "in tiles of 128", 2},
      {"graph(%x: f64[2, s0, 700], %w: f64[2, 33, 700]) { return matmul(%x, permute(%w) {axes=[0, 2, 1]}) }",
       "from its blocks", 132},
      {"graph(%x: i32[s0, 45], %w: i32[45, 67], %r: i32[s0, 67]) { return sub(matmul(%x, %w), %r), matmul(%x, %w) }",
       "call gemm", 132},
      {"graph(%x: f32[50, 3, s0], %y: f32[s0, 3, 50]) { return mul(permute(%x) {axes=[2, 1, 0]}, %y) }",
       "call transpose", 132},
  };
  for (const Row& row : rows) {
    EmulatedCuda emulated(row.multiprocessors, cuda::GemmAlgorithm::fma);
    GpuNestBackend nests(InterpretMode::exact, row.multiprocessors);
    const Graph graph = parse_graph(row.graph);
    const auto interpreted = build_plan(run_pipeline(graph), fused({&nests})),
               plan = build_plan(run_pipeline(graph), fused({&emulated}));
    INFO(row.graph);
    const std::int64_t symbols[] = {70};
    const PlanStep& last = interpreted->steps().back();
    CHECK_THAT(text(GpuNest(last.kernel, bind(last.geometry, symbols), {}, row.multiprocessors).nest),
               Catch::Contains(row.has));
    const auto inputs = random_inputs(graph, std::vector<std::int64_t>{70});
    const auto found = run(*plan, inputs), wanted = run(*interpreted, inputs);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(difference(found[i], wanted[i], 0) == "");
  }
}
#endif
