// Products of f16 and bf16 of a back end that multiplies these as they are (Limits::narrow_products), on any machine:
// which products fusion gives their narrow operands, and that results stay right. Small integers: sums are exact.
#include "../catch.hpp"
#include "../plan_harness.hpp"

#include <sinter/autodiff/call.hpp>
#include <sinter/ops/matmul.hpp>

#include <array>
#include <random>

using namespace sinter_test;

namespace {

struct NarrowProducts final : OtherBackend {
  Limits limits() const override {
    Limits limits = reference()->limits();
    limits.narrow_products = {DType::bf16, DType::f16};
    return limits;
  }
};

struct NarrowRow {
  const char* name;
  int narrow;  // products that read narrow numbers
  const char* text;
};
constexpr NarrowRow narrow_rows[] = {
    {"bf16", 1, "graph(%x: bf16[5, 7], %y: bf16[7, 9]) { return matmul(%x, %y) }"},
    {"f16", 1, "graph(%x: f16[5, 7], %y: f16[7, 9]) { return matmul(%x, %y) }"},
    {"an epilogue", 1, "graph(%x: bf16[5, 7], %y: bf16[7, 9], %b: bf16[9]) { return relu(add(matmul(%x, %y), %b)) }"},
    {"one after the other", 2,
     "graph(%x: bf16[5, 3], %y: bf16[3, 4], %z: bf16[4, 6]) { return matmul(matmul(%x, %y), %z) }"},
    {"views before the product", 1,
     "graph(%x: bf16[7, 5], %y: bf16[63]) {"
     " return matmul(permute(%x) {axes=[1, 0]}, reshape(%y) {shape=[7, 9]}) }"},
    {"views between cast and product", 1,
     "graph(%x: bf16[7, 5], %y: bf16[63]) {"
     " %a = permute(cast(%x) {dtype=f32}) {axes=[1, 0]}"
     " %b = reshape(cast(%y) {dtype=f32}) {shape=[7, 9]}"
     " return narrow(matmul(%a, %b)) {dtype=bf16} }"},
    {"a cast that is an output, too", 1,
     "graph(%x: bf16[5, 7], %y: bf16[7, 9]) {"
     " %a = cast(%x) {dtype=f32}"
     " return narrow(matmul(%a, cast(%y) {dtype=f32})) {dtype=bf16}, %a }"},
    {"a cast that others read", 1,
     "graph(%x: bf16[5, 7], %y: bf16[7, 9]) {"
     " %a = cast(%x) {dtype=f32}"
     " return narrow(matmul(%a, cast(%y) {dtype=f32})) {dtype=bf16}, sum(%a) {axes=[1]} }"},
    {"an operand of whole numbers", 1,
     "graph(%x: bf16[5, 7], %y: i8[7, 9]) { return matmul(%x, cast(%y) {dtype=bf16}) }"},
    {"a product that is read as f32, too", 0,
     "graph(%x: bf16[5, 7], %y: bf16[7, 9]) {"
     " %m = matmul(cast(%x) {dtype=f32}, cast(%y) {dtype=f32})"
     " return narrow(%m) {dtype=bf16}, sum(%m) {axes=[1]} }"},
    {"a product of f32", 0,
     "graph(%x: bf16[5, 7], %y: bf16[7, 9]) { return matmul(cast(%x) {dtype=f32}, cast(%y) {dtype=f32}) }"},
    {"one narrow operand", 0,
     "graph(%x: bf16[5, 7], %y: f32[7, 9]) { return narrow(matmul(cast(%x) {dtype=f32}, %y)) {dtype=bf16} }"},
    {"operands of two dtypes", 0,
     "graph(%x: bf16[5, 7], %y: f16[7, 9]) {"
     " return narrow(matmul(cast(%x) {dtype=f32}, cast(%y) {dtype=f32})) {dtype=bf16} }"},
};

int narrow_products_of(const Plan& plan) {
  int count = 0;
  for (const PlanStep& step : plan.steps()) {
    if (step.host || step.kernel.kind != KernelKind::contraction) continue;
    const Kernel& kernel = step.kernel;
    const auto is_narrow_load = [&](InstId id) {
      const Inst& inst = kernel.body[id];
      return inst.prim == Prim::load && is_half(dtype_in_memory(kernel, inst.access));
    };
    for (const Inst& inst : kernel.body)
      count += inst.prim == Prim::contract && is_narrow_load(inst.args[0]) && is_narrow_load(inst.args[1]);
  }
  return count;
}

std::vector<oracle::Array> whole_inputs(const Graph& graph) {
  std::vector<oracle::Array> inputs = random_inputs(graph);
  std::mt19937 random(5);
  for (oracle::Array& input : inputs)
    for (auto& x : input.data) x = static_cast<int>(random() % 5) - 2;
  return inputs;
}

int products_in(const Graph& graph, DType dtype) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op == &op_info<ops::Matmul> && node.types[0].dtype == dtype;
  return count;
}

}  // namespace

TEST_CASE("products read narrow operands where nobody asks for f32", "[plan][narrow]") {
  NarrowProducts backend;
  for (const NarrowRow& row : narrow_rows)
    for (bool fuses : {true, false}) {
      const Graph graph = prepared(row.text);
      const auto plan = build_plan(graph, fuses ? fused({&backend}) : op_by_op({&backend}));
      INFO(row.name << (fuses ? ", fused\n" : ", op by op\n") << plan->text());
      CHECK(narrow_products_of(*plan) == row.narrow);
      const auto inputs = whole_inputs(graph), found = run(*plan, inputs),
                 wanted = run(*build_plan(graph, op_by_op()), inputs);
      REQUIRE(found.size() == wanted.size());
      for (std::size_t j = 0; j < wanted.size(); ++j) CHECK(difference(found[j], wanted[j], 0) == "");
    }
}

TEST_CASE("gradients of narrow products inside regions are narrow products", "[autodiff][narrow]") {
  const Graph body = parse_graph("graph(%x: bf16[5, 7], %y: bf16[7, 9]) { return gelu(matmul(%x, %y)) }");
  const std::array<std::uint8_t, 2> wanted = {1, 1};
  const std::array<std::uint8_t, 1> given = {1};
  const CallDerivative derivative = differentiate_call_body(body, wanted, given);
  REQUIRE(derivative.backward != nullptr);
  INFO(derivative.backward->text());
  CHECK(products_in(*derivative.forward, DType::bf16) == 1);
  CHECK(products_in(*derivative.forward, DType::f32) == 0);
  CHECK(products_in(*derivative.backward, DType::bf16) == 2);
  CHECK(products_in(*derivative.backward, DType::f32) == 0);
}
