// Loop nests of CUDA kernels: their text, and what the verifier refuses of nests that were changed by hand.
#ifdef SINTER_CUDA
#include "../catch.hpp"

#include "../generated_blocks.hpp"
#include "../gpu_nest_backend.hpp"
#include "../nest_edits.hpp"
#include "../plan_harness.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>

using namespace sinter_test;

namespace {

/// Of the last kernel of a graph, on an H100.
std::unique_ptr<GpuNest> nest_of(std::string_view graph) {
  static GpuNestBackend nests(InterpretMode::exact);
  const auto plan = build_plan(prepared(graph), fused({&nests, reference()}));
  const auto& step = plan->steps().back();
  return std::make_unique<GpuNest>(step.kernel, bind(step.geometry, {}));
}

constexpr const char* softmax_graph = "graph(%x: f32[4096, 1000]) { return softmax(%x) {axes=[1]} }";
constexpr const char* long_graph = "graph(%x: f32[64, 400004]) { return softmax(%x) {axes=[1]} }";
constexpr const char* cluster_graph = "graph(%x: f32[64, 40004]) { return softmax(%x) {axes=[1]} }";
constexpr const char* full_graph = "graph(%x: f32[1000, 1000]) { return sum(%x) {axes=[0, 1]} }";
constexpr const char* column_graph = "graph(%x: f32[64, 100]) { return sum(%x) {axes=[0]} }";
constexpr const char* scan_graph = "graph(%x: f32[4096, 1000]) { return mul(cumsum(abs(%x)) {axes=[1]}, abs(%x)) }";
constexpr const char* cut_scan_graph = "graph(%x: f32[3, 100000]) { return cumsum(%x) {axes=[1]} }";
constexpr const char* scan_of_scan_graph =
    "graph(%x: f32[500, 700]) { return cumsum(cumsum(abs(%x)) {axes=[1]}) {axes=[1]} }";
constexpr const char* product_graph =
    "graph(%x: f32[64, 784], %w: f32[784, 96], %b: f32[96]) { return maximum(add(matmul(%x, %w), %b), 0) }";
constexpr const char* short_product_graph =
    "graph(%x: f32[1000, 24], %w: f32[24, 768]) { return matmul(relu(%x), %w) }";
constexpr const char* transpose_graph =
    "graph(%x: f32[64, 100], %y: f32[100, 64]) { return mul(permute(%x) {axes=[1, 0]}, %y) }";
constexpr const char* scatter_graph =
    "graph(%i: i64[1000], %v: f32[1000, 200]) { return scatter_add(%i, %v) {axes=[0], shape=[50, 200]} }";
constexpr const char* list_graph =
    "graph(%i: i64[1000000], %v: f32[1000000]) { return scatter_add(%i, %v) {axes=[0], shape=[2000000]} }";
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

Loop& loop_of_range(LoopNest& nest, LoopMode mode, LoopRange range) {
  for (Loop& loop : nest.loops)
    if (loop.mode == mode && loop.range == range) return loop;
  throw std::logic_error("no such loop");
}

/// The place of the first loop with this range.
std::size_t place_of(const LoopNest& nest, LoopRange range) {
  for (std::size_t place = 0; place < nest.nodes.size(); ++place)
    if (nest.nodes[place].kind == NestNodeKind::loop && nest.loop_of(nest.nodes[place]).range == range) return place;
  throw std::logic_error("no loop with this range");
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
    {"a cluster of small blocks", cluster_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::stage)].count = 256; },
     "a group of more than a block"},
    {"a cluster for columns", column_graph, [](LoopNest& n) { n.loops[0].lanes = 2048; },
     "a group of more than a block"},
    {"a team for columns", column_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::stage)].axis = 4; },
     "a team of blocks that shares no row"},
    {"a team of small groups", softmax_graph,
     [](LoopNest& n) {
       n.nodes[nth(n, NestNodeKind::stage)].count *= 2;
       n.nodes[nth(n, NestNodeKind::stage)].axis = 4;
     },
     "a team of blocks that shares no row"},
    {"no rescaling", long_graph, [](LoopNest& n) { drop(n, NestNodeKind::rescale); }, "a value that is not there yet"},
    {"rescaled twice", long_graph, [](LoopNest& n) { repeat(n, NestNodeKind::rescale); }, "no sum of an online fold"},
    {"online without an exponential", full_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::fold)].part = FoldPart::online; }, "no sum of exponentials"},
    {"pieces taken for the whole", full_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::fold, 1)].part = FoldPart::whole; },
     "does not walk the whole axis"},
    {"no second launch", full_graph, [](LoopNest& n) { drop(n, NestNodeKind::stage, 1); }, "a store is missing"},
    {"no step", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::step); }, "not one step at each point"},
    {"no call", short_product_graph, [](LoopNest& n) { open_up(n, nth(n, NestNodeKind::call)); },
     "a loop of another machine"},
    {"no tiles", short_product_graph, [](LoopNest& n) { open_up(n, place_of(n, LoopRange::tiles)); },
     "a block outside a loop over blocks"},
    {"tiles of k", short_product_graph, [](LoopNest& n) { n.loops[0].axes = n.calls[0].k; },
     "tiles of an axis that is no row or column"},
    {"whole rows in a tile", short_product_graph,
     [](LoopNest& n) { n.loops[n.nodes[place_of(n, LoopRange::tile)].first].range = LoopRange::whole; },
     "a loop of another machine"},
    {"operands in each other's place", short_product_graph, [](LoopNest& n) { std::swap(n.calls[0].a, n.calls[0].b); },
     "in each other's place"},
    {"results while tiles are read", short_product_graph, [](LoopNest& n) { drop(n, NestNodeKind::barrier); },
     "other lanes may still read"},
    {"pieces that are not kept", product_graph, [](LoopNest& n) { drop(n, NestNodeKind::keep); },
     "its sums are not made"},
    {"no launch that adds pieces", product_graph, [](LoopNest& n) { drop(n, NestNodeKind::stage, 1); },
     "a store is missing"},
    {"pieces that are the whole", product_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::fold)].part = FoldPart::whole; }, "does not walk the whole axis"},
    {"an epilogue before its sums", product_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::compute, 1, nth(n, NestNodeKind::fold, 1)); },
     "uses a value that is not there yet"},
    {"a product in the place of a transpose", transpose_graph, [](LoopNest& n) { n.calls[0].kind = CallKind::gemm; },
     "a call of what is no product"},
    {"a transpose of what lies in order", transpose_graph, [](LoopNest& n) { std::swap(n.ids[0], n.ids[1]); },
     "has no neighbours along rows"},
};

const Mutation scan_mutations[] = {
    {"no step", cut_scan_graph, [](LoopNest& n) { drop(n, NestNodeKind::step, 2); }, "computes again what is there"},
    {"no totals", cut_scan_graph, [](LoopNest& n) { drop(n, NestNodeKind::fold); }, "a value that is not there yet"},
    {"a block from nothing", cut_scan_graph, [](LoopNest& n) { drop(n, NestNodeKind::fold, 1); },
     "does not begin where the blocks before end"},
    {"a row after blocks", cut_scan_graph,
     [](LoopNest& n) {
       n.nodes[nth(n, NestNodeKind::fold, 2)].part = FoldPart::blocks;
       n.nodes[nth(n, NestNodeKind::fold, 1)].part = FoldPart::scan;
     },
     "its loop does not walk the whole axis"},
    {"totals of all blocks", cut_scan_graph,
     [](LoopNest& n) { loop_of_range(n, LoopMode::lanes, LoopRange::blocks_before).range = LoopRange::blocks; },
     "its loop does not walk the blocks before one"},
    {"the last block is left out", cut_scan_graph,
     [](LoopNest& n) { loop_of_range(n, LoopMode::grid, LoopRange::blocks).range = LoopRange::blocks_but_last; },
     "not once at each of its points"},
    {"blocks of another length", cut_scan_graph,
     [](LoopNest& n) { loop_of_range(n, LoopMode::grid, LoopRange::blocks).step *= 2; }, "pieces of another length"},
    {"what came before for a value", cut_scan_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::store, 0, nth(n, NestNodeKind::fold, 2)); },
     "stores a value that is not there yet"},
    {"more threads than lanes", scan_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::stage)].count *= 2; },
     "a scan by some of a block's threads"},
    {"a value of one step", scan_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::compute)].axis = 0; },
     "where all enter the scan together"},
    {"two steps", scan_graph, [](LoopNest& n) { repeat(n, NestNodeKind::step); },
     "takes in a value that is not there yet"},
    {"a value that is gone", scan_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::compute, 1)].count = 1; },
     "stores a value that is not there yet"},
    {"a step that does not come", scan_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::compute, 1)].axis = 2; },
     "a value for a step that does not come"},
    {"a step of no scan", pointwise_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::compute)].axis = 2; },
     "for a step of no scan over lanes"},
    {"a scan of tiles that waits for another", scan_of_scan_graph, [](LoopNest& n) { loop_over_lanes(n).copies = 2; },
     "several steps side by side enter one scan of several"},
};

void check_mutations(std::span<const Mutation> list) {
  for (const Mutation& mutation : list) {
    DYNAMIC_SECTION(mutation.name) {
      const auto gpu = nest_of(mutation.graph);
      CHECK(error_of(gpu->nest) == "accepted");
      mutation.change(gpu->nest);
      CHECK_THAT(error_of(gpu->nest), Catch::Contains(mutation.complaint));
    }
  }
}

const Mutation scatter_mutations[] = {
    {"no check", scatter_graph, [](LoopNest& n) { drop(n, NestNodeKind::check_index); },
     "not all indices are checked before it"},
    {"two checks", scatter_graph, [](LoopNest& n) { repeat(n, NestNodeKind::check_index); }, "checked twice"},
    {"a check in the same launch", scatter_graph,
     [](LoopNest& n) {
       drop(n, NestNodeKind::stage);
       insert(n, nth(n, NestNodeKind::update), {.kind = NestNodeKind::check_index});
     },
     "no index of a grid"},
    {"any order", scatter_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::update)].axis = 1; },
     "any order leaves any bits"},
    {"threads that collide", scatter_graph,
     [](LoopNest& n) { loop_of_range(n, LoopMode::lanes, LoopRange::whole).mode = LoopMode::grid; },
     "the grid is not outermost"},
    {"places in order", scatter_graph,
     [](LoopNest& n) { loop_of_range(n, LoopMode::grid, LoopRange::places).mode = LoopMode::lanes; },
     "not shared out by the grid"},
    {"fewer lanes", scatter_graph, [](LoopNest& n) { loop_of_range(n, LoopMode::lanes, LoopRange::block).lanes = 16; },
     "not the block that its lanes have"},
    {"all lanes for each element", scatter_graph,
     [](LoopNest& n) {
       Loop& loop = loop_of_range(n, LoopMode::grid, LoopRange::blocks);
       loop.range = LoopRange::whole;
       loop.step = 1;
       open_up(n, nth(n, NestNodeKind::loop, 3));
     },
     "done by several threads"},
    {"no index", scatter_graph, [](LoopNest& n) { drop(n, NestNodeKind::compute); }, "no index of a grid"},
    {"no value", scatter_graph, [](LoopNest& n) { drop(n, NestNodeKind::compute, 1); },
     "a value that is not there yet"},
    {"no update", scatter_graph, [](LoopNest& n) { drop(n, NestNodeKind::update); }, "an update is missing"},
    {"two updates", scatter_graph, [](LoopNest& n) { repeat(n, NestNodeKind::update); }, "done twice"},
    {"a store", scatter_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::update)].kind = NestNodeKind::store; },
     "no part of an update"},
    {"an update of another kernel", softmax_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::store)].kind = NestNodeKind::update; }, "out of range"},
    {"no lists", list_graph, [](LoopNest& n) { drop(n, NestNodeKind::stage); }, "there are no lists"},
    {"lists of other points", list_graph, [](LoopNest& n) { n.calls[0].k = 0; }, "lists of other points"},
    {"short lists alone", list_graph, [](LoopNest& n) { drop(n, NestNodeKind::stage, 2); }, "an update is missing"},
    {"long lists twice", list_graph,
     [](LoopNest& n) { loop_of_range(n, LoopMode::grid, LoopRange::short_places).range = LoopRange::long_places; },
     "done twice"},
    {"lists of a length that both have", list_graph,
     [](LoopNest& n) { loop_of_range(n, LoopMode::grid, LoopRange::long_places).step = 8; }, "done twice"},
};

}  // namespace

TEST_CASE("GPU nest: the verifier refuses what threads may not do") { check_mutations(mutations); }
TEST_CASE("GPU nest: the verifier refuses scans that threads may not do") { check_mutations(scan_mutations); }
TEST_CASE("GPU nest: the verifier refuses updates that threads may not do") { check_mutations(scatter_mutations); }

TEST_CASE("GPU nest: shared memory keeps what a later walk reads") {
  CHECK_THAT(text(nest_of(long_graph)->nest), Catch::Contains("in shared"));
  // Its two walks are one.
  const std::string once = text(nest_of("graph(%x: f32[64, 400004]) { return logsumexp(%x) {axes=[1]} }")->nest);
  CHECK_THAT(once, Catch::Contains(" online: "));
  CHECK_THAT(once, !Catch::Contains("in shared"));
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
  const auto softmax = nest_of(softmax_graph), sum = nest_of(full_graph), online = nest_of(long_graph),
             scan = nest_of(scan_graph), cut = nest_of(cut_scan_graph), scatter = nest_of(scatter_graph),
             lists = nest_of(list_graph), product = nest_of(product_graph), across = nest_of(transpose_graph);
  const std::string all = text(online->nest);
  check_blocks(
      "docs/design/loop_nest.md",
      {{"GPU nest of a softmax", text(softmax->nest)},
       {"GPU nest of a long softmax",
        all.substr(all.find("      fold"), all.find("      for a1", all.find("rescale")) - all.find("      fold"))},
       {"GPU nest of a sum", text(sum->nest)},
       {"GPU nest of a scan", text(scan->nest)},
       {"GPU nest of a scan in pieces", text(cut->nest)},
       {"GPU nest of a scatter", text(scatter->nest)},
       {"GPU nest of a scatter by lists", text(lists->nest)},
       {"GPU nest of a product", text(product->nest)},
       {"GPU nest of a transpose", text(across->nest)}});
}
#endif
