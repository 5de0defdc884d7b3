// Loop nests of CUDA kernels: their text, and what the verifier refuses of nests that were changed by hand.
#ifdef SINTER_CUDA
#include "../catch.hpp"

#include "../generated_blocks.hpp"
#include "../gpu_nest_backend.hpp"
#include "../nest_edits.hpp"
#include "../plan_harness.hpp"

#include <functional>
#include <memory>
#include <string>

using namespace sinter_test;

namespace {

/// Of the first kernel of a graph, on an H100.
std::unique_ptr<GpuNest> nest_of(std::string_view graph) {
  static GpuNestBackend nests(InterpretMode::exact);
  const auto plan = build_plan(prepared(graph), fused({&nests, reference()}));
  const auto& step = plan->steps().front();
  return std::make_unique<GpuNest>(step.kernel, bind(step.geometry, {}));
}

constexpr const char* softmax_graph = "graph(%x: f32[4096, 1000]) { return softmax(%x) {axes=[1]} }";
constexpr const char* long_graph = "graph(%x: f32[64, 400004]) { return softmax(%x) {axes=[1]} }";
constexpr const char* cluster_graph = "graph(%x: f32[64, 40004]) { return softmax(%x) {axes=[1]} }";
constexpr const char* full_graph = "graph(%x: f32[1000, 1000]) { return sum(%x) {axes=[0, 1]} }";
constexpr const char* column_graph = "graph(%x: f32[64, 100]) { return sum(%x) {axes=[0]} }";
constexpr const char* pointwise_graph = "graph(%x: f32[64, 100], %y: f32[100]) { return tanh(add(%x, %y)) }";

std::string error_of(const LoopNest& nest) {
  try {
    verify(nest);
  } catch (const InternalError& error) { return error.what(); }
  return "accepted";
}

Loop& loop_over_lanes(LoopNest& nest) {
  for (Loop& loop : nest.loops)
    if (loop.mode == LoopMode::lanes) return loop;
  throw std::logic_error("no loop over lanes");
}

struct Mutation {
  const char* name;
  const char* graph;
  std::function<void(LoopNest&)> change;
  const char* complaint;
};
const Mutation mutations[] = {
    {"no barrier", column_graph, [](LoopNest& n) { drop(n, NestNodeKind::barrier); }, "other lanes may still read"},
    {"a barrier for too few", column_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::barrier)].count = 0; },
     "a group of more than a warp meets"},
    {"a barrier in a loop over lanes", column_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::barrier, 0, nth(n, NestNodeKind::step)); },
     "not all threads of a group come to"},
    {"no keep", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::keep); }, "fetches what was not kept before"},
    {"no keep in shared memory", long_graph, [](LoopNest& n) { drop(n, NestNodeKind::keep); },
     "fetches what was not kept before"},
    {"a register in a long loop", softmax_graph, [](LoopNest& n) { loop_over_lanes(n).range = LoopRange::whole; },
     "a register in a loop of several steps"},
    {"a tile", softmax_graph, [](LoopNest& n) { n.buffers[0].space = BufferSpace::tile; },
     "memory that the machine does not have"},
    {"a part of a register", softmax_graph, [](LoopNest& n) { n.buffers[0].points = 8; },
     "a part of what cannot be loaded again"},
    {"tasks", softmax_graph, [](LoopNest& n) { n.loops[0].mode = LoopMode::task; }, "a loop of another machine"},
    {"other lanes", softmax_graph, [](LoopNest& n) { loop_over_lanes(n).lanes = 16; }, "other lanes than those"},
    {"three lanes", softmax_graph, [](LoopNest& n) { loop_over_lanes(n).lanes = 3; }, "no power of two"},
    {"longer vectors", softmax_graph, [](LoopNest& n) { loop_over_lanes(n).step = 8; }, "not those of the nest"},
    {"lanes along the grid's axis", softmax_graph, [](LoopNest& n) { loop_over_lanes(n).axes = 1; }, "walked already"},
    {"the row in the grid", softmax_graph, [](LoopNest& n) { n.loops[0].axes = 2; }, "a reduced axis in the grid"},
    {"longer blocks", pointwise_graph,
     [](LoopNest& n) {
       for (Loop& loop : n.loops)
         if (loop.range == LoopRange::blocks) loop.step *= 2;
     },
     "blocks that are not one vector"},
    {"a cluster of small blocks", cluster_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::stage)].count = 512; },
     "a group of more than a block"},
    {"a cluster for columns", column_graph, [](LoopNest& n) { n.loops[0].lanes = 2048; },
     "a group of more than a block"},
    {"no rescaling", long_graph, [](LoopNest& n) { drop(n, NestNodeKind::rescale); }, "a value that is not there yet"},
    {"rescaled twice", long_graph, [](LoopNest& n) { repeat(n, NestNodeKind::rescale); }, "no sum of an online fold"},
    {"online without an exponential", full_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::fold)].part = FoldPart::online; }, "no sum of exponentials"},
    {"pieces taken for the whole", full_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::fold, 1)].part = FoldPart::whole; },
     "does not walk the whole axis"},
    {"no second launch", full_graph, [](LoopNest& n) { drop(n, NestNodeKind::stage, 1); }, "a store is missing"},
    {"no step", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::step); }, "not one step at each point"},
};

}  // namespace

TEST_CASE("GPU nest: the verifier refuses what threads may not do") {
  for (const Mutation& mutation : mutations) {
    DYNAMIC_SECTION(mutation.name) {
      const auto gpu = nest_of(mutation.graph);
      CHECK(error_of(gpu->nest) == "accepted");
      mutation.change(gpu->nest);
      CHECK_THAT(error_of(gpu->nest), Catch::Contains(mutation.complaint));
    }
  }
}

TEST_CASE("GPU nest: the interpreter refuses a nest that was made for other numbers") {
  const auto gpu = nest_of(softmax_graph);
  std::vector<float> x(2 * 5000, 1), y(x.size());
  void* const operands[] = {x.data(), y.data()};
  BoundGeometry geometry = gpu->bound.geometry;
  geometry.extent = {2, 5000};
  geometry.accesses = {{.stride = {5000, 1}}, {.stride = {5000, 1}}};
  CHECK_THROWS_WITH(interpret(gpu->nest, VariantKind::whole, geometry, operands, InterpretMode::exact),
                    Catch::Contains("more than one step"));
}

TEST_CASE("GPU nest: docs/design/loop_nest.md shows what the code prints") {
  const auto softmax = nest_of(softmax_graph), sum = nest_of(full_graph), online = nest_of(long_graph);
  const std::string all = text(online->nest);
  check_blocks(
      "docs/design/loop_nest.md",
      {{"GPU nest of a softmax", text(softmax->nest)},
       {"GPU nest of a long softmax",
        all.substr(all.find("      fold"), all.find("      for a1", all.find("rescale")) - all.find("      fold"))},
       {"GPU nest of a sum", text(sum->nest)}});
}
#endif
