// Loop nests: their text, and what the verifier refuses of nests that were changed by hand.
#include "../catch.hpp"

#include "../generated_blocks.hpp"
#include "../nest_backend.hpp"
#include "../nest_edits.hpp"
#include "../plan_harness.hpp"

#ifndef SINTER_NO_X86
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#endif
#include <sinter/kernel/loop_nest/product.hpp>

#include <functional>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

/// The first kernel of a graph.
Kernel kernel_of(std::string_view graph) {
  static NestBackend nests(InterpretMode::exact);
  return build_plan(prepared(graph), fused({&nests, reference()}))->steps().front().kernel;
}

constexpr const char* pointwise_graph = "graph(%x: f32[64, 100]) { return neg(%x) }";
constexpr const char* transposed_graph =
    "graph(%x: f32[64, 100], %y: f32[100, 64]) { return add(%x, permute(%y) {axes=[1, 0]}) }";
constexpr const char* softmax_graph = "graph(%x: f32[64, 100]) { return softmax(%x) {axes=[1]} }";
constexpr const char* column_graph = "graph(%x: f32[64, 100]) { return sum(%x) {axes=[0]} }";
constexpr const char* argmax_graph = "graph(%x: f32[64, 100]) { return argmax(%x) {axes=[1]} }";
constexpr const char* full_graph = "graph(%x: f32[64, 100]) { return sum(%x) {axes=[0, 1]} }";
constexpr const char* near_graph = "graph(%x: f32[4, 5, 6], %y: f32[6]) { return sum(mul(%x, %y)) {axes=[0, 2]} }";
constexpr const char* far_graph = "graph(%x: f32[4, 5, 6, 7], %y: f32[6, 1]) { return sum(mul(%x, %y)) {axes=[0, 2]} }";
constexpr const char* product_graph =
    "graph(%x: f32[64, 300], %w: f32[300, 100], %b: f32[100]) { return maximum(add(matmul(%x, %w), %b), 0) }";
constexpr const char* batches_graph =
    "graph(%x: f64[3, 8, 30], %w: f64[3, 30, 9], %y: f64[3, 8, 1]) { return mul(matmul(%x, %w), %y) }";
constexpr const char* take_graph = "graph(%x: f32[100, 32], %i: i64[8]) { return neg(take(%x, %i) {axes=[0]}) }";

}  // namespace

TEST_CASE("loop nest: the text of a softmax") {
  const Kernel kernel = kernel_of(softmax_graph);
  CHECK(text(*nest_of(kernel)) == R"(nest of a row kernel, vectors of 16 along a1
  %5 = f32 immediate 1
variant whole
  stage
    for a0 as tasks
      fold %1 over a1: 256 bytes of lanes, blocks of 4096 in pairs
        for a1 in vectors of 16, 4 side by side, tail masked
          %0 = f32 load p0[n1]
          step %1 = f32 reduce_max %0
      fold %4 over a1: 256 bytes of lanes, blocks of 4096 in pairs
        for a1 in vectors of 16, 4 side by side, tail masked
          %0 = f32 load p0[n1]
          %2 = f32 sub %0, %1
          %3 = f32 exp %2
          keep %3 in tile b0[a1]
          step %4 = f32 reduce_add %3
      %6 = f32 div %5, %4
      for a1 in vectors of 16, 2 side by side, tail masked
        fetch %3 from tile b0[a1]
        %7 = f32 mul %3, %6
        store p1[n1], %7
variant short_rows
  stage
    for a0 as tasks, 4 side by side, the rest one by one
      fold %1 over a1: 256 bytes of lanes, blocks of 4096 in pairs
        for a1 in one vector of 16, tail masked
          %0 = f32 load p0[n1]
          keep %0 in register b1[a1]
          step %1 = f32 reduce_max %0
      fold %4 over a1: 256 bytes of lanes, blocks of 4096 in pairs
        for a1 in one vector of 16, tail masked
          fetch %0 from register b1[a1]
          %2 = f32 sub %0, %1
          %3 = f32 exp %2
          keep %3 in register b2[a1]
          step %4 = f32 reduce_add %3
      %6 = f32 div %5, %4
      for a1 in one vector of 16, tail masked
        fetch %3 from register b2[a1]
        %7 = f32 mul %3, %6
        store p1[n1], %7
)");
}

TEST_CASE("loop nest: the text of a column sum") {
  const Kernel kernel = kernel_of(column_graph);
  CHECK(text(*nest_of(kernel, plain_machine(32))) == R"(nest of a column kernel, vectors of 8 along a1
variant whole
  stage
    once as a task
      for a1 in vectors of 8, 4 side by side, tail masked
        fold %1 over a0: two lanes, blocks of 64 in order, float sums compensated
          for a0, 8 side by side, the rest one by one
            %0 = f32 load p0[n1]
            step %1 = f32 reduce_add %0
        store p1[01], %1
)");
}

TEST_CASE("loop nest: the text of a full sum, whose blocks may be tasks") {
  const Kernel kernel = kernel_of(full_graph);
  const LoopNest nest = *nest_of(kernel);
  const std::string all = text(nest);
  CHECK(all.substr(all.find("variant split")) == R"(variant split
  stage
    once as a task
      for a0 in blocks of 4096 as tasks
        fold one block of %1 over a0: 256 bytes of lanes
          for a0 of the block in vectors of 16, 4 side by side, tail masked
            %0 = f32 load p0[1]
            step %1 = f32 reduce_add %0
        keep %1 in workspace b0[a0]
  stage
    once as a task
      fold %1 over a0 from its blocks, in pairs
        for a0 in blocks of 4096
          fetch %1 from workspace b0[a0]
          step %1
      store p1[0], %1
)");
}

TEST_CASE("loop nest: the text of a product with an epilogue") {
  const Kernel kernel = kernel_of(product_graph);
  const Schedule schedule = *parse_schedule("tile_rows(6) tile_columns(64) pack(1)");
  CHECK(text(*nest_of(kernel, plain_machine(), schedule)) == R"(nest of a contraction kernel, vectors of 16 along a1
  %5 = f32 immediate 0
variant whole
  stage
    for a0 in tiles of 6 as tasks
      for a1 in tiles of 64 as tasks
        call gemm for %2: rows a0, columns a1, sums along a2
          for a0 of the tile
            for a1 of the tile in vectors of 16, tail masked
              fold %2 over a2: by fma, blocks of 256, groups of 8192, compensated
                for a2
                  %0 = f32 load p0[n01]
                  %1 = f32 load p1[01n]
                  step %2 = f32 contract %0, %1
              %3 = f32 load p2[010]
              %4 = f32 add %2, %3
              %6 = f32 max %4, %5
              store p3[n10], %6
variant packed
  stage
    for a1 in tiles of 64 as tasks
      for a1 of the tile in vectors of 16, tail masked
        for a2
          %1 = f32 load p1[01n]
          keep %1 in workspace b0[a1, a2], which lasts from run to run
  stage
    for a0 in tiles of 6 as tasks
      for a1 in tiles of 64 as tasks
        call gemm for %2: rows a0, columns a1, sums along a2
          for a0 of the tile
            for a1 of the tile in vectors of 16, tail masked
              fold %2 over a2: by fma, blocks of 256, groups of 8192, compensated
                for a2
                  fetch %1 from workspace b0[a1, a2]
                  %0 = f32 load p0[n01]
                  step %2 = f32 contract %0, %1
              %3 = f32 load p2[010]
              %4 = f32 add %2, %3
              %6 = f32 max %4, %5
              store p3[n10], %6
)");
}

TEST_CASE("loop nest: the text of a product of batches, whose operand is computed") {
  Kernel kernel = kernel_of(batches_graph);
  kernel.body.insert(kernel.body.begin() + 2, {.prim = Prim::abs, .dtype = DType::f64, .args = {1, no_inst, no_inst}});
  for (std::size_t i = 3; i < kernel.body.size(); ++i)
    for (InstId& id : kernel.body[i].args)
      if (id != no_inst && id >= 1) ++id;
  for (Store& store : kernel.stores) ++store.value;
  verify(kernel);
  const LoopNest nest = *nest_of(kernel);
  CHECK_NOTHROW(verify(nest));
  const std::string all = text(nest);
  CHECK(all.substr(all.find("variant packed")) == R"(variant packed
  stage
    for a0 as tasks
      for a2 in tiles as tasks
        for a2 of the tile in vectors of 8, tail masked
          for a3
            %1 = f64 load p1[n01n]
            %2 = f64 abs %1
            keep %2 in workspace b0[a0, a2, a3]
  stage
    for a0 as tasks
      for a1 in tiles as tasks
        for a2 in tiles as tasks
          call gemm for %3: rows a1, columns a2, sums along a3
            for a1 of the tile
              %4 = f64 load p2[n100]
              for a2 of the tile in vectors of 8, tail masked
                fold %3 over a3: by fma, blocks of 256, groups of 8192, compensated
                  for a3
                    fetch %2 from workspace b0[a0, a2, a3]
                    %0 = f64 load p0[nn01]
                    step %3 = f64 contract %0, %2
                %5 = f64 mul %3, %4
                store p3[nn10], %5
)");
}

TEST_CASE("loop nest: a product that no store asks for has no sums") {
  Kernel kernel = kernel_of(product_graph);
  kernel.body.push_back({.prim = Prim::immediate, .dtype = DType::f32});
  kernel.stores[0].value = static_cast<InstId>(kernel.body.size() - 1);
  verify(kernel);
  const LoopNest nest = *nest_of(kernel);
  CHECK(!nest.has(VariantKind::packed));
  CHECK_NOTHROW(verify(nest));
}

TEST_CASE("loop nest: where many elements lie apart a step has one vector") {
  std::string operands, body = "%x0";
  for (int i = 0; i < 9; ++i) {
    operands += (i == 0 ? "%x" : ", %x") + std::to_string(i) + ": f32[64, 100]";
    if (i > 0) body = "maximum(" + body + ", %x" + std::to_string(i) + ")";
  }
  Kernel kernel = kernel_of("graph(" + operands + ") { return " + body + " }");
  CHECK(text(*nest_of(kernel)).find("vectors of 16, 2 side by side") != std::string::npos);
  const auto put_apart = [&](int loads) {
    Kernel apart = kernel;
    for (const Inst& inst : kernel.body)
      if (inst.prim == Prim::load && loads-- > 0)
        apart.accesses[inst.access].stride[as_index(kernel.rank() - 1)] = StrideClass::any;
    return text(*nest_of(apart));
  };
  CHECK(put_apart(1).find("2 side by side") != std::string::npos);
  CHECK(put_apart(9).find("side by side") == std::string::npos);
}

TEST_CASE("loop nest: what no nest of a product expresses is named") {
  const Kernel kernel = kernel_of(product_graph);
  const auto why_not = [](const Kernel& changed) {
    std::string why;
    CHECK(!build_nest(changed, {}, plain_machine(), IndexWidth::wide, why).has_value());
    return why;
  };
  const auto contract = std::find_if(kernel.body.begin(), kernel.body.end(),
                                     [](const Inst& inst) { return inst.prim == Prim::contract; });
  Kernel along_both = kernel;
  along_both.accesses[kernel.body[contract->args[0]].access].stride[1] = StrideClass::any;
  CHECK(why_not(along_both) == "an operand varies over both m and n");
  Kernel along_k = kernel;
  for (const Inst& inst : kernel.body)
    if (inst.prim == Prim::load && &inst > &*contract) along_k.accesses[inst.access].stride[2] = StrideClass::any;
  CHECK(why_not(along_k) == "the epilogue varies along k");
}

TEST_CASE("loop nest: a reduction that nothing asks for has no blocks to split") {
  Kernel kernel = kernel_of(full_graph);
  kernel.body.push_back({.prim = Prim::immediate, .dtype = DType::f32});
  kernel.stores[0].value = static_cast<InstId>(kernel.body.size() - 1);
  verify(kernel);
  const LoopNest nest = *nest_of(kernel);
  CHECK(!nest.has(VariantKind::split));
  CHECK_NOTHROW(verify(nest));
}

namespace {

Loop& loop(LoopNest& nest, int n) { return nest.loops[nest.nodes[nth(nest, NestNodeKind::loop, n)].first]; }

std::string error_of(const LoopNest& nest) {
  try {
    verify(nest);
  } catch (const InternalError& error) { return error.what(); }
  return "accepted";
}

struct Mutation {
  const char* name;
  const char* graph;
  std::function<void(LoopNest&)> change;
  const char* complaint;
};

const Mutation record_mutations[] = {
    {"an end beyond the parent's", softmax_graph, [](LoopNest& n) { ++n.nodes[nth(n, NestNodeKind::step)].end; },
     "it ends after what it stands in"},
    {"an end that is no place", softmax_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::step)].end = 0; },
     "its end is no place after it"},
    {"an id beyond the body", softmax_graph, [](LoopNest& n) { n.ids[0] = 99; }, "a number is out of range"},
    {"a store beyond the kernel's", softmax_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::store)].first = 7; },
     "a number is out of range"},
    {"a buffer of no value", softmax_graph, [](LoopNest& n) { n.buffers[0].value = 99; }, "a buffer of no value"},
    {"a stage in a loop", softmax_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::step)].kind = NestNodeKind::stage; },
     "it stands in a node of the wrong kind"},
    {"a fold without its loop", softmax_graph,
     [](LoopNest& n) { insert(n, nth(n, NestNodeKind::fold) + 1, n.nodes[nth(n, NestNodeKind::store)]); },
     "a fold has one loop and nothing else"},
    {"lanes that are no power of two", softmax_graph, [](LoopNest& n) { n.lanes = 12; }, "lanes are no power of two"},
    {"a check of what is no gather", take_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::check)].first = 0; },
     "a number is out of range"},
};

const Mutation value_mutations[] = {
    {"no keep", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::keep); }, "fetches what was not kept before"},
    {"no keep in a register", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::keep, 1); },
     "fetches what was not kept before"},
    {"no fetch", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::fetch); },
     "uses a value that is not there yet"},
    {"a fetch before the loop", softmax_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::fetch, 0, nth(n, NestNodeKind::loop, 3)); }, "other axes than"},
    {"a fetch before its keep", softmax_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::fetch, 0, nth(n, NestNodeKind::step)); },
     "fetches what was not kept before"},
    {"no computing", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::compute); },
     "a value that is not there yet"},
    {"a step before its value", softmax_graph, [](LoopNest& n) { swap_with_next(n, NestNodeKind::compute); },
     "takes in a value that is not there yet"},
    {"computed twice", softmax_graph, [](LoopNest& n) { repeat(n, NestNodeKind::compute); }, "computes again"},
    {"a number of the row inside it", softmax_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::compute, 2, nth(n, NestNodeKind::compute, 3)); },
     "not at the value's place"},
    {"a vector outside its loop", softmax_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::compute, 0, nth(n, NestNodeKind::fold)); },
     "outside a loop over an axis"},
    {"kept twice", softmax_graph, [](LoopNest& n) { repeat(n, NestNodeKind::keep); }, "keeps again"},
    {"a tile for a workspace", full_graph, [](LoopNest& n) { n.buffers[0].space = BufferSpace::tile; }, "other axes"},
    {"a workspace for a tile", softmax_graph, [](LoopNest& n) { n.buffers[0].space = BufferSpace::workspace; },
     "other axes"},
    {"a register in a long loop", softmax_graph, [](LoopNest& n) { n.buffers[0].space = BufferSpace::reg; },
     "a register in a loop of several steps"},
    {"an index after its use", take_graph,
     [](LoopNest& n) {
       insert(n, nth(n, NestNodeKind::compute, 1) + 1, n.nodes[nth(n, NestNodeKind::check)]),
           drop(n, NestNodeKind::check);
     },
     "an index that is not checked"},
};

const Mutation loop_mutations[] = {
    {"an axis that is not reduced", softmax_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::fold)].axis = 0; },
     "folds an axis that is not reduced"},
    {"an axis that is walked", softmax_graph, [](LoopNest& n) { loop(n, 3).axes = 1; }, "walked already"},
    {"two axes in one loop", transposed_graph,
     [](LoopNest& n) {
       loop(n, 0).axes = 0;
       loop(n, 1).axes = 3;
     },
     "not one axis"},
    {"longer vectors", softmax_graph, [](LoopNest& n) { loop(n, 1).step = 32; }, "not those of the nest"},
    {"no masked tail", softmax_graph, [](LoopNest& n) { loop(n, 1).tail = LoopTail::none; }, "without a masked tail"},
    {"one step of any row", softmax_graph, [](LoopNest& n) { loop(n, 1).range = LoopRange::single; },
     "several steps side by side where one is all"},
    {"several steps of a short row", softmax_graph, [](LoopNest& n) { n.loops[5].range = LoopRange::whole; },
     "one step where rows may be longer, or several where they are not"},
    {"a masked tail without vectors", column_graph, [](LoopNest& n) { loop(n, 2).tail = LoopTail::mask; },
     "a mask without vectors"},
    {"rows in order", pointwise_graph, [](LoopNest& n) { loop(n, 0) = {.axes = 1}; }, "whose points are not tasks"},
    {"tasks inside", near_graph, [](LoopNest& n) { loop(n, 1).mode = LoopMode::task; }, "tasks are not outermost"},
    {"tasks over a reduced axis", near_graph, [](LoopNest& n) { loop(n, 0).axes |= 2; }, "tasks over a reduced axis"},
    {"other blocks", full_graph,
     [](LoopNest& n) {
       for (Loop& l : n.loops)
         if (l.range == LoopRange::blocks) l.step = 64;
     },
     "steps that its range does not have"},
    {"a block that is all", full_graph,
     [](LoopNest& n) {
       for (Loop& l : n.loops)
         if (l.range == LoopRange::block) l.range = LoopRange::whole;
     },
     "does not walk one block"},
    {"folds in the wrong order", far_graph,
     [](LoopNest& n) {
       std::swap(n.nodes[nth(n, NestNodeKind::fold)].axis, n.nodes[nth(n, NestNodeKind::fold, 1)].axis);
       std::swap(loop(n, 2).axes, loop(n, 3).axes);
     },
     "inner axes are folded first"},
    {"a fold missing", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::fold, 1); }, "not there yet"},
    {"no step", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::step); }, "not one step at each point"},
    {"two steps", softmax_graph, [](LoopNest& n) { repeat(n, NestNodeKind::step); }, "not one step at each point"},
    {"a step of another fold", softmax_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::step)].first = n.nodes[nth(n, NestNodeKind::step, 1)].first; },
     "not in a fold of these reductions"},
    {"blocks taken for the whole", full_graph,
     [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::fold, 2)].part = FoldPart::whole; },
     "does not walk the whole axis"},
    {"no second stage", full_graph, [](LoopNest& n) { drop(n, NestNodeKind::stage, 3); }, "a store is missing"},
};

const Mutation product_mutations[] = {
    {"no call", product_graph, [](LoopNest& n) { n.calls.resize(0); }, "not one call for a product"},
    {"a call of what is no product", product_graph, [](LoopNest& n) { n.calls[0].value = n.calls[0].a; },
     "a call of what is no product"},
    {"an operand of its own", product_graph, [](LoopNest& n) { n.calls[0].a = n.calls[0].b; },
     "a call of what is no product"},
    {"rows for columns", product_graph, [](LoopNest& n) { std::swap(n.calls[0].m, n.calls[0].n); },
     "a call of what is no product"},
    {"a call beyond the nest's", product_graph, [](LoopNest& n) { n.nodes[nth(n, NestNodeKind::call)].first = 1; },
     "a number is out of range"},
    {"a call with two children", product_graph,
     [](LoopNest& n) { insert(n, nth(n, NestNodeKind::call) + 1, n.nodes[nth(n, NestNodeKind::store)]); },
     "a call has one loop and nothing else"},
    {"sums without a call", product_graph, [](LoopNest& n) { open_up(n, nth(n, NestNodeKind::call)); },
     "a parallel axis whose points are not tasks"},
    {"a call in a call", product_graph,
     [](LoopNest& n) {
       const std::size_t inner = nth(n, NestNodeKind::fold);
       n.nodes[inner].kind = NestNodeKind::call;
       n.nodes[inner].first = 0;
     },
     "a call inside of loops that are not tasks"},
    {"no sums", product_graph, [](LoopNest& n) { drop(n, NestNodeKind::fold); }, "uses a value that is not there yet"},
    {"no sums of one operand", product_graph,
     [](LoopNest& n) { n.ids[n.nodes[nth(n, NestNodeKind::compute)].first] = 1; }, "computes again what is there"},
    {"rows as a whole", product_graph, [](LoopNest& n) { loop(n, 2).range = LoopRange::whole; },
     "its loop does not walk the rows of a tile"},
    {"columns as rows", product_graph, [](LoopNest& n) { loop(n, 2).axes = 2; },
     "its loop does not walk the rows of a tile"},
    {"tiles of sums", product_graph, [](LoopNest& n) { loop(n, 0).axes = 4; }, "tiles of an axis that is no row"},
    {"tiles in order", product_graph, [](LoopNest& n) { loop(n, 0).mode = LoopMode::serial; },
     "tiles that are not tasks"},
    {"tasks in a tile", product_graph,
     [](LoopNest& n) { loop(n, 6) = {.axes = 2, .mode = LoopMode::task, .range = LoopRange::tile}; },
     "points of a tile that are tasks"},
    {"a tile of no tiles", product_graph, [](LoopNest& n) { loop(n, 1) = {.axes = 2, .mode = LoopMode::task}; },
     "an axis that is walked already"},
    {"tiles of a row kernel", softmax_graph, [](LoopNest& n) { loop(n, 0).range = LoopRange::tiles; },
     "tiles of an axis that is no row"},
    {"an epilogue before the sums", product_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::compute, 1, nth(n, NestNodeKind::fold)); },
     "uses a value that is not there yet"},
    {"an epilogue at each k", product_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::compute, 1, nth(n, NestNodeKind::step)); }, "not at the value's place"},
    {"an epilogue after its store", product_graph, [](LoopNest& n) { swap_with_next(n, NestNodeKind::compute, 1); },
     "stores a value that is not there yet"},
    {"a panel that is not kept", product_graph, [](LoopNest& n) { drop(n, NestNodeKind::keep); },
     "fetches what was not kept before"},
    {"a panel of one k", product_graph, [](LoopNest& n) { n.buffers[0].axes &= 3; },
     "other axes than those of the loops around it"},
    {"a panel in a tile", product_graph, [](LoopNest& n) { n.buffers[0].space = BufferSpace::tile; },
     "fetches what was not kept before"},
    {"operands in each other's place", product_graph, [](LoopNest& n) { std::swap(n.calls[0].a, n.calls[0].b); },
     "stand in each other's place"},
    {"tiles that run backwards", product_graph, [](LoopNest& n) { n.loops[0].step = -5; }, "without an axis or a step"},
    {"a panel for a product", product_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::fetch, 0, nth(n, NestNodeKind::store, 1)); },
     "takes in a value that is not there yet"},
};

const Mutation store_mutations[] = {
    {"no store", softmax_graph, [](LoopNest& n) { drop(n, NestNodeKind::store); }, "a store is missing"},
    {"two stores", softmax_graph, [](LoopNest& n) { repeat(n, NestNodeKind::store); }, "stores twice"},
    {"a store inside the sum", full_graph,
     [](LoopNest& n) { move_to(n, NestNodeKind::store, 0, nth(n, NestNodeKind::compute)); },
     "a value that is not there yet"},
    {"no variant for all sizes", full_graph, [](LoopNest& n) { drop(n, NestNodeKind::variant); },
     "no variant that always"},
    {"a variant twice", full_graph, [](LoopNest& n) { n.variants[1] = VariantKind::whole; }, "another variant"},
};

void check_mutations(std::span<const Mutation> mutations) {
  for (const Mutation& mutation : mutations) {
    DYNAMIC_SECTION(mutation.name) {
      const Kernel kernel = kernel_of(mutation.graph);
      LoopNest nest = *nest_of(kernel);
      CHECK(error_of(nest) == "accepted");
      mutation.change(nest);
      CHECK_THAT(error_of(nest), Catch::Contains(mutation.complaint));
    }
  }
}

}  // namespace

TEST_CASE("loop nest: the verifier refuses bad records") { check_mutations(record_mutations); }
TEST_CASE("loop nest: the verifier refuses values that are not there") { check_mutations(value_mutations); }
TEST_CASE("loop nest: the verifier refuses loops and folds in the wrong place") { check_mutations(loop_mutations); }
TEST_CASE("loop nest: the verifier refuses products that are no calls") { check_mutations(product_mutations); }
TEST_CASE("loop nest: the verifier refuses stores that are missing or twice") { check_mutations(store_mutations); }

TEST_CASE("loop nest: the verifier names the node") {
  const Kernel kernel = kernel_of(softmax_graph);
  LoopNest nest = *nest_of(kernel);
  drop(nest, NestNodeKind::keep);
  CHECK_THAT(error_of(nest), Catch::Contains("(fetch %3 from tile b0[a1]): fetches what was not kept before"));
}

TEST_CASE("loop nest: an operand that is read and written meets itself at the same point only") {
  Kernel kernel = kernel_of(pointwise_graph);
  kernel.accesses[1].operand = 0;
  kernel.operands[0].written = true;
  CHECK(error_of(*nest_of(kernel)) == "accepted");
  kernel.accesses[0].stride[0] = StrideClass::zero;
  CHECK_THAT(error_of(*nest_of(kernel)), Catch::Contains("at other points than those that it is written at"));
}

TEST_CASE("loop nest: the interpreter refuses what the verifier would have") {
  const Kernel kernel = kernel_of(softmax_graph);
  BoundGeometry geometry;
  geometry.extent = {2, 5};
  geometry.accesses = {{.stride = {5, 1}}, {.stride = {5, 1}}};
  std::vector<float> x(10, 1), y(10);
  void* const operands[] = {x.data(), y.data()};
  const auto error_after = [&](const std::function<void(LoopNest&)>& change, VariantKind kind) -> std::string {
    LoopNest nest = *nest_of(kernel);
    change(nest);
    try {
      interpret(nest, kind, geometry, operands, InterpretMode::exact);
    } catch (const InternalError& error) { return error.what(); }
    return "";
  };
  CHECK(error_after([](LoopNest&) {}, VariantKind::whole).empty());
  CHECK_THAT(error_after([](LoopNest& n) { drop(n, NestNodeKind::keep); }, VariantKind::whole),
             Catch::Contains("(fetch %3 from tile b0[a1]): fetches from a buffer what was not kept there"));
  CHECK_THAT(error_after([](LoopNest& n) { drop(n, NestNodeKind::compute); }, VariantKind::whole),
             Catch::Contains("reads a value that was not written on the way to it"));
  CHECK_THAT(error_after([](LoopNest& n) { repeat(n, NestNodeKind::step); }, VariantKind::whole),
             Catch::Contains("takes in points out of order"));
  geometry.extent[1] = 17;
  CHECK_THAT(error_after([](LoopNest&) {}, VariantKind::short_rows), Catch::Contains("no such variant"));
}

#ifndef SINTER_NO_X86
namespace {

/// The loops of a listing that end with a jump to their one label, in order.
std::vector<std::string> vector_loops(const std::string& listing) {
  std::vector<std::string> loops;
  std::string loop, label;
  std::stringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(':')) {
      label = line.substr(0, line.size() - 1);
      loop.clear();
    }
    loop += line + "\n";
    if (!label.empty() && line == "short jl " + label) loops.push_back(loop);
  }
  return loops;
}
std::string code_of(const Kernel& kernel) { return x86::make_loop_executable(kernel, {}, x86::Isa::avx512)->listing(); }

}  // namespace
#endif

TEST_CASE("loop nest: docs/design/loop_nest.md shows what the code prints") {
  const Kernel softmax = kernel_of(softmax_graph), sum = kernel_of(full_graph);
  const Kernel scan = kernel_of("graph(%x: f32[5, 100]) { return mul(cumsum(abs(%x)) {axes=[1]}, 2) }");
  const Kernel argmax = kernel_of(argmax_graph), product = kernel_of(product_graph);
  const Schedule tiles = *parse_schedule("tile_rows(6) tile_columns(64) pack(1)");
  const std::string nest_of_sum = text(*nest_of(sum)), nest_of_argmax = text(*nest_of(argmax));
  const Kernel epilogue = epilogue_of(*nest_of(product)).kernel;
  std::map<std::string, std::string> blocks = {
      {"kernel of a softmax", softmax.text()},
      {"nest of a softmax", text(*nest_of(softmax))},
      {"kernel of an argmax", argmax.text()},
      {"first nest of an argmax", nest_of_argmax.substr(0, nest_of_argmax.find("variant short"))},
      {"kernel of a product", product.text()},
      {"schedule of a product", tiles.text() + "\n"},
      {"nest of a product", text(*nest_of(product, plain_machine(), tiles))},
      {"nest of a product's epilogue", text(*nest_of(epilogue))},
      {"kernel of a sum", sum.text()},
      {"kernel of a scan", scan.text()},
      {"nest of a scan", text(*nest_of(scan))},
      {"split nest of a sum", nest_of_sum.substr(nest_of_sum.find("variant split"))}};
#ifndef SINTER_NO_X86
  blocks["code of a softmax"] = vector_loops(code_of(softmax)).back();
  blocks["code of a sum"] = vector_loops(code_of(sum)).front();
  blocks["code of a product's epilogue"] = vector_loops(code_of(epilogue)).front();
#endif
  check_blocks("docs/design/loop_nest.md", blocks);
}
