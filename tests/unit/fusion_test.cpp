// Fusion and lowering: which kernels a graph becomes, and near misses that must stay apart.
#include "../catch.hpp"
#include "../plan_harness.hpp"

#include <sinter/autodiff/reverse.hpp>
#include <sinter/kernel/kernel_simplify.hpp>

using namespace sinter_test;

namespace {

std::string kinds_of(std::string_view text) { return kinds(*build_plan(prepared(text), fused())); }

/// The step that writes output `j`.
const PlanStep& writer_of(const Plan& plan, int j) {
  for (const PlanStep& step : plan.steps())
    for (std::size_t i = 0; i < step.operands.size(); ++i)
      if (step.operands[i] == BufferRef{BufferKind::output, j} && step.kernel.operands[i].written) return step;
  throw std::logic_error("nobody writes the output");
}

Graph gradient(std::string_view text, std::vector<std::int32_t> wrt) {
  return run_pipeline(differentiate(parse_graph(text), wrt));
}

/// The training step of the MLP that the targets name: loss and four updated parameters.
Graph mlp_step() {
  const Graph forward = parse_graph(
      "graph(%x: f32[128, 784], %t: i64[128], %w1: f32[784, 256], %b1: f32[256], %w2: f32[256, 10], %b2: f32[10], %lr: "
      "f32[]) {"
      " %h = relu(add(matmul(%x, %w1), %b1)) return cross_entropy(add(matmul(%h, %w2), %b2), %t) }");
  const std::int32_t wrt[] = {2, 3, 4, 5};
  const Graph both = differentiate(forward, wrt);
  GraphBuilder builder(both);
  std::vector<Value> inputs;
  for (Value v : both.inputs()) inputs.push_back(builder.input(both.type(v)));
  const auto values = builder.inline_graph(both, inputs);
  std::vector<Value> outputs{values[0]};
  for (std::size_t i = 0; i < 4; ++i)
    outputs.push_back(
        builder.add(*find_op("sub"), {inputs[2 + i], builder.add(*find_op("mul"), {inputs[6], values[1 + i]})}));
  return run_pipeline(builder.finish(outputs));
}

}  // namespace

TEST_CASE("what becomes one kernel", "[fusion]") {
  struct Row {
    const char* name;
    const char* text;
    const char* kinds;
  };
  const Row rows[] = {
      {"chain", "graph(%x: f32[64, 64], %y: f32[64]) { return tanh(mul(add(%x, %y), %x)) }", "pointwise"},
      {"softmax", "graph(%x: f32[64, 100]) { return softmax(%x) {axes=[1]} }", "row"},
      {"layer_norm",
       "graph(%x: f32[64, 100], %w: f32[100], %b: f32[100]) { return layer_norm(%x, %w, %b) {axes=[1], eps=1e-5} }",
       "row"},
      {"residual and layer_norm",
       "graph(%x: f32[64, 100], %r: f32[64, 100], %w: f32[100], %b: f32[100]) { %h = add(%x, %r) return layer_norm(%h, "
       "%w, %b) {axes=[1], eps=1e-5}, %h }",
       "row"},
      {"loss of each row", "graph(%x: f32[64, 100], %t: i64[64]) { return cross_entropy(%x, %t) }",
       "row row row"},  // the targets that count, the rows, their sum
      {"linear and gelu",
       "graph(%x: f32[64, 32], %w: f32[32, 48], %b: f32[48]) { return gelu(add(matmul(%x, %w), %b)) }", "contraction"},
      {"linear, gelu, residual, both stored",
       "graph(%x: f32[64, 32], %w: f32[32, 32], %b: f32[32]) { %m = add(matmul(%x, %w), %b) return add(gelu(%m), %x), "
       "%m }",
       "contraction"},
      {"linear and softmax", "graph(%x: f32[64, 32], %w: f32[32, 48]) { return softmax(matmul(%x, %w)) {axes=[1]} }",
       "contraction row"},
      {"weights shared by a batch",
       "graph(%x: f32[4, 64, 32], %w: f32[32, 48]) { return matmul(%x, expand(%w) {shape=[4, 32, 48]}) }",
       "contraction"},
      {"heads are written in place",
       "graph(%x: f32[12, 12], %w: f32[12, 12]) { return permute(reshape(matmul(%x, %w)) {shape=[2, 6, 3, 4]}) "
       "{axes=[0, 2, 1, 3]} }",
       "contraction"},
      {"column sum of a stored value",
       "graph(%x: f32[64, 32], %g: f32[64, 32]) { %d = mul(%g, exp(%x)) return %d, sum(%d) {axes=[0]} }", "column"},
      {"two sums of one value", "graph(%x: f32[64, 32]) { return sum(%x) {axes=[0]}, sum(mul(%x, %x)) {axes=[0]} }",
       "column"},
      {"siblings", "graph(%x: f32[64, 32]) { return exp(%x), tanh(%x) }", "pointwise"},
      {"transposed sibling", "graph(%x: f32[64, 32]) { return exp(%x), tanh(permute(%x) {axes=[1, 0]}) }", "pointwise"},
      {"update of a weight",
       "graph(%w: f32[32, 48], %x: f32[64, 32], %g: f32[64, 48], %lr: f32[]) { return sub(%w, mul(%lr, "
       "matmul(permute(%x) {axes=[1, 0]}, %g))) }",
       "contraction"},
      {"momentum",
       "graph(%w: f32[32, 48], %v: f32[32, 48], %x: f32[64, 32], %g: f32[64, 48]) {"
       " %n = add(mul(%v, 0.9), matmul(permute(%x) {axes=[1, 0]}, %g)) return %n, sub(%w, mul(%n, 0.1)) }",
       "contraction"},
      {"stencil of a padded value",
       "graph(%x: f32[64, 64]) { %p = pad(%x) {low=[1, 1], high=[1, 1]} return add(add(%x, slice(%p) {starts=[0, 1], "
       "ends=[64, 65], steps=[1, 1]}), slice(%p) {starts=[1, 2], ends=[65, 66], steps=[1, 1]}) }",
       "pointwise"},
      {"roll that is read",
       "graph(%x: f32[64]) { %r = concat(slice(%x) {starts=[63], ends=[64], steps=[1]}, slice(%x) {starts=[0], "
       "ends=[63], steps=[1]}) {axes=[0]} return sub(%x, %r) }",
       "pointwise"},
      {"roll of what is computed",
       "graph(%x: f32[64]) { %e = exp(%x) %r = concat(slice(%e) {starts=[63], ends=[64], steps=[1]}, slice(%e) "
       "{starts=[0], ends=[63], steps=[1]}) {axes=[0]} return sub(%e, %r) }",
       "pointwise pointwise"},
      {"padded value that is returned, too",
       "graph(%x: f32[64]) { %p = pad(%x) {low=[1], high=[1]} return %p, exp(%p) }", "pointwise pointwise pointwise"},
      {"padded value that a product reads",
       "graph(%x: f32[62, 64], %w: f32[64, 8]) { return matmul(pad(%x) {low=[1, 0], high=[1, 0]}, %w) }",
       "pointwise pointwise contraction"},
      {"sum of what is computed from a padded value",
       "graph(%x: f32[64]) { return sum(exp(pad(%x) {low=[1], high=[1]})) {axes=[0]} }", "pointwise row"},
      {"concat", "graph(%x: f32[64, 3], %y: f32[64, 5]) { return concat(exp(%x), exp(%y)) {axes=[1]} }",
       "pointwise pointwise"},
      {"convolution by its patches",
       "graph(%x: f32[2, 3, 8, 8], %w: f32[4, 3, 3, 3], %b: f32[4, 1, 1]) { return relu(add(conv2d(%x, %w) {stride=[1, "
       "1], padding=[0, 0]}, %b)) }",
       "pointwise contraction"},
      {"gathered rows",
       "graph(%x: f32[100, 32], %i: i64[8], %p: f32[8, 32]) { return mul(add(take(%x, %i) {axes=[0]}, %p), 2) }",
       "pointwise"},
      {"what stands before and after a scan",
       "graph(%x: f32[64, 100], %y: f32[100]) { return mul(cumsum(exp(%x)) {axes=[1]}, %y), tanh(%x) }", "row"},
      {"scans of a scan, and beside it",
       "graph(%x: f32[64, 100]) { %s = cumsum(%x) {axes=[1]} return cummax(%s) {axes=[1]}, cummin(%x) {axes=[1]} }",
       "row"},
      {"a scan down columns", "graph(%x: f32[64, 100]) { return mul(cumsum(%x) {axes=[0]}, 2) }", "column"},
      {"scans from both ends", "graph(%x: f32[64, 100]) { return cumsum(cumsum(%x) {axes=[1]}) {axes=[1], reversed} }",
       "row row"},
      {"scans along two axes", "graph(%x: f32[64, 100]) { return cumsum(cumsum(%x) {axes=[1]}) {axes=[0]} }",
       "row column"},
      {"a sum of a scan", "graph(%x: f32[64, 100]) { return sum(cumsum(%x) {axes=[1]}) {axes=[1]} }", "row row"},
      {"a scan of a split axis",
       "graph(%x: f32[64, 100]) { return mul(reshape(cumsum(%x) {axes=[1]}) {shape=[64, 10, 10]}, 2) }",
       "row pointwise"},
      {"nothing", "graph(%x: f32[64, 32]) { return permute(%x) {axes=[1, 0]} }", ""},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      INFO(build_plan(prepared(row.text), fused())->text());
      CHECK(kinds_of(row.text) == row.kinds);
    }
  }
}

TEST_CASE("what stays apart", "[fusion]") {
  struct Row {
    const char* name;
    const char* text;
    const char* kinds;
  };
  const Row rows[] = {
      {"two products", "graph(%x: f32[64, 64]) { return matmul(matmul(%x, %x), %x) }", "contraction contraction"},
      {"a producer of a product", "graph(%x: f32[64, 64], %y: f32[64, 64]) { return matmul(exp(%x), %y) }",
       "pointwise contraction"},
      {"a row sum and a column sum", "graph(%x: f32[64, 32]) { return sum(%x) {axes=[0]}, sum(%x) {axes=[1]} }",
       "column row"},
      {"a sum and what it scales, too large for a row",
       "graph(%x: f32[1000, 1000]) { return div(%x, sum(%x) {axes=[0, 1]}) }", "row pointwise"},
      {"columns are not walked twice", "graph(%x: f32[640, 320]) { return div(%x, sum(%x) {axes=[0]}) }",
       "column pointwise"},
      {"an expensive value that is repeated along rows",
       "graph(%x: f32[64, 32], %y: f32[32]) { return mul(%x, erf(%y)) }", "pointwise pointwise"},
      {"unrelated shapes", "graph(%x: f32[64, 32], %y: f32[63, 32]) { return exp(%x), exp(%y) }",
       "pointwise pointwise"},
      {"a value and its own transpose",
       "graph(%x: f32[64, 64], %y: f32[64, 64]) { %m = matmul(%x, %y) return add(%m, permute(%m) {axes=[1, 0]}) }",
       "contraction pointwise"},
      {"what the sum of a plane scales, a row of it long",
       "graph(%x: f32[8, 5, 32], %y: f32[8, 32]) { return mul(%y, expand(reshape(sum(%x) {axes=[1, 2]}) {shape=[8, "
       "1]}) {shape=[8, 32]}) }",
       "row pointwise"},
      {"part of a product",
       "graph(%x: f32[64, 64], %y: f32[64, 64]) { return exp(slice(matmul(%x, %y)) {starts=[0, 0], ends=[8, 64], "
       "steps=[1, 1]}) }",
       "contraction pointwise"},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      INFO(build_plan(prepared(row.text), fused())->text());
      CHECK(kinds_of(row.text) == row.kinds);
    }
  }
}

TEST_CASE("op by op, each node is a kernel", "[fusion]") {
  const Graph graph = prepared(
      "graph(%x: f32[64, 32], %w: f32[32, 48], %b: f32[48]) { return softmax(tanh(add(matmul(%x, %w), %b))) {axes=[1]} "
      "}");
  const auto plan = build_plan(graph, op_by_op());
  std::size_t computed = 0;
  for (const Node& node : graph.nodes())
    computed += node.op->kind != OpKind::leaf && node.op->kind != OpKind::view && node.op->name != "full";
  CHECK(plan->kernel_count() == computed);
}

TEST_CASE("a training step of an MLP is ten kernels", "[fusion]") {
  PlanOptions options = fused();
  options.may_donate = {0, 0, 1, 1, 1, 1, 0};
  const auto plan = build_plan(mlp_step(), options);
  INFO(plan->text());
  // Two layers; the targets that count; the loss with its gradient; its mean; the gradient of the hidden layer; four
  // updates.
  CHECK(plan->kernel_count() == 10);
  std::size_t contractions = 0, rows = 0, columns = 0;
  for (const PlanStep& step : plan->steps()) {
    contractions += step.kernel.kind == KernelKind::contraction;
    rows += step.kernel.kind == KernelKind::row;
    columns += step.kernel.kind == KernelKind::column;
  }
  CHECK(contractions == 5);
  CHECK(rows == 3);
  CHECK(columns == 2);
  for (int j = 1; j < 5; ++j) {
    CHECK(plan->outputs()[static_cast<std::size_t>(j)].donor == j + 1);
    CHECK(writer_of(*plan, j).kernel.kind == (j % 2 == 1 ? KernelKind::contraction : KernelKind::column));
  }
}

TEST_CASE("gradients of rows stay in the row", "[fusion]") {
  // dx of softmax in one kernel.
  const Graph softmax = gradient(
      "graph(%x: f32[64, 100], %y: f32[64, 100]) { return sum(mul(softmax(%x) {axes=[1]}, %y)) {axes=[0, 1]} }", {0});
  const auto plan = build_plan(softmax, fused());
  INFO(plan->text());
  CHECK(writer_of(*plan, 1).kernel.kind == KernelKind::row);
  CHECK(plan->kernel_count() <= 3);

  const Graph norm = gradient(
      "graph(%x: f32[64, 100], %w: f32[100], %b: f32[100], %y: f32[64, 100]) { return sum(mul(layer_norm(%x, %w, %b) "
      "{axes=[1], eps=1e-5}, %y)) {axes=[0, 1]} }",
      {0, 1, 2});
  const auto norm_plan = build_plan(norm, fused());
  INFO(norm_plan->text());
  CHECK(writer_of(*norm_plan, 1).kernel.kind == KernelKind::row);
  CHECK(writer_of(*norm_plan, 2).kernel.kind == KernelKind::column);
  CHECK(writer_of(*norm_plan, 3).kernel.kind == KernelKind::column);
  CHECK(norm_plan->kernel_count() == 4);
}

TEST_CASE("cheap values are computed again instead of stored", "[fusion]") {
  // The mask of relu is found again from its result, in the kernel that needs it.
  const Graph graph = gradient(
      "graph(%x: f32[64, 32], %w: f32[32, 48], %v: f32[48, 8]) { return sum(matmul(relu(matmul(%x, %w)), %v)) "
      "{axes=[0, 1]} }",
      {1});
  const auto plan = build_plan(graph, fused());
  INFO(plan->text());
  for (const PlanStep& step : plan->steps())
    for (const Operand& operand : step.kernel.operands) CHECK(operand.dtype != DType::bool_);
}

TEST_CASE("what computes an operand goes into the product's kernel", "[fusion]") {
  PrologueBackend backend;
  struct Row {
    const char* name;
    const char* text;
    const char* kinds;
  };
  const Row rows[] = {
      {"relu, scale, shift",
       "graph(%x: f32[64, 32], %s: f32[32], %b: f32[32], %w: f32[32, 48]) { return matmul(add(mul(relu(%x), %s), %b), "
       "%w) }",
       "contraction"},
      {"a mask of bool",
       "graph(%x: f32[64, 32], %m: bool[64, 32], %w: f32[32, 48]) { return matmul(mul(%x, cast(%m) {dtype=f32}), %w) }",
       "contraction"},
      {"both operands",
       "graph(%x: i32[64, 32], %w: f64[32, 48]) { return matmul(cast(%x) {dtype=f32}, cast(%w) {dtype=f32}) }",
       "contraction"},
      {"a transposed gradient",
       "graph(%x: f32[64, 32], %g: f32[64, 48], %h: f32[64, 48]) { return matmul(permute(%x) {axes=[1, 0]}, mul(%g, "
       "cast(gt(%h, 0)) {dtype=f32})) }",
       "contraction"},
      {"through a reshape",
       "graph(%x: f32[s0, 4, 32], %w: f32[32, 48]) { return matmul(reshape(relu(%x)) {shape=[4*s0, 32]}, %w) }",
       "contraction"},
      {"of two products",
       "graph(%x: f32[64, 32], %w: f32[32, 48], %v: f32[32, 8]) { %h = relu(%x) return matmul(%h, %w), matmul(%h, %v) "
       "}",
       "contraction contraction"},
      {"before and after one product",
       "graph(%x: f32[64, 32], %w: f32[32, 32]) { %h = relu(%x) return add(matmul(%h, %w), %h) }", "contraction"},
      {"exp, each element once", "graph(%x: f32[64, 32], %w: f32[32, 8]) { return matmul(exp(%x), %w) }",
       "contraction"},
      // Near misses.
      {"exp, in several tiles", "graph(%x: f32[64, 32], %w: f32[32, 48]) { return matmul(exp(%x), %w) }",
       "pointwise contraction"},
      {"a result as well", "graph(%x: f32[64, 32], %w: f32[32, 48]) { %h = relu(%x) return matmul(%h, %w), %h }",
       "pointwise contraction"},
      {"a large product", "graph(%x: f32[512, 512], %w: f32[512, 512]) { return matmul(relu(%x), %w) }",
       "pointwise contraction"},
      {"an operand of a row's reduction",
       "graph(%x: f32[64, 32], %w: f32[32, 48]) { return matmul(softmax(%x) {axes=[1]}, %w) }", "row contraction"},
      {"gathered rows",
       "graph(%t: f32[99, 32], %i: i64[64], %w: f32[32, 48]) { return matmul(relu(take(%t, %i) {axes=[0]}), %w) }",
       "pointwise contraction"},
      {"rows that do not stay one axis",
       "graph(%x: f32[16, 4, 32], %p: f32[4, 32], %w: f32[32, 48]) { return matmul(reshape(add(%x, %p)) {shape=[64, "
       "32]}, %w) }",
       "pointwise contraction"},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const Graph graph = parse_graph(row.text);
      const auto plan = build_plan(run_pipeline(graph), fused({&backend}));
      INFO(plan->text());
      CHECK(kinds(*plan) == row.kinds);
      const auto inputs = random_inputs(graph, std::vector<std::int64_t>{5});
      CHECK(first_difference(*plan, graph, inputs) == "");
      // Nowhere else is anything different, and op by op nothing is fused.
      CHECK(kinds(*build_plan(run_pipeline(graph), op_by_op({&backend}))) ==
            kinds(*build_plan(run_pipeline(graph), op_by_op())));
    }
  }
}

TEST_CASE("limits of the back end cut kernels", "[fusion]") {
  struct Small : OtherBackend {
    Limits limits() const override { return {.max_operands = 4, .max_body = 10, .max_reduced_axes = 1}; }
  } small;
  const Graph graph = prepared(
      "graph(%a: f32[99], %b: f32[99], %c: f32[99], %d: f32[99], %e: f32[99]) { return exp(add(%e, exp(add(%d, "
      "exp(add(%c, exp(add(%a, %b)))))))) }");
  const auto plan = build_plan(graph, fused({&small}));
  CHECK(plan->kernel_count() > 1);
  for (const PlanStep& step : plan->steps()) {
    CHECK(step.kernel.operands.size() <= 4);
    CHECK(step.kernel.body.size() <= 10);
  }
  CHECK(build_plan(graph, fused())->kernel_count() == 1);
}

TEST_CASE("kernels are cut around what the first back end lacks", "[fusion]") {
  struct Row {
    const char* name;
    Limits limits;
    const char* text;
    const char* takers;  // of the kernels in order
  };
  EnumSet<Prim> no_exp = EnumSet<Prim>::all();
  no_exp.remove(Prim::exp);
  const Row rows[] = {
      {"all of it", {}, "graph(%x: f32[64, 64]) { return exp(softmax(tanh(%x)) {axes=[1]}) }", "other row"},
      {"a reduction is for the next",
       {.kinds = {KernelKind::pointwise}},
       "graph(%x: f32[64, 64]) { return mul(tanh(add(%x, 1)), sum(%x) {axes=[1], keepdim}) }",
       "reference row, other pointwise"},
      {"what the next would compute goes into a reduction of the first",
       {.kinds = {KernelKind::row, KernelKind::column}},
       "graph(%x: f32[64, 64]) { return sum(tanh(add(%x, 1))) {axes=[1]} }",
       "other row"},
      {"near miss: the next does not take over what is for the first",
       {.kinds = {KernelKind::pointwise}},
       "graph(%x: f32[64, 64]) { return sum(tanh(add(%x, 1))) {axes=[1]} }",
       "other pointwise, reference row"},
      {"a primitive in the middle of a chain",
       {.primitives = no_exp},
       "graph(%x: f32[64, 64]) { return tanh(tanh(exp(tanh(tanh(%x))))) }",
       "other pointwise, reference pointwise, other pointwise"},
      {"a primitive in an epilogue",
       {.primitives = no_exp},
       "graph(%x: f32[64, 64], %y: f32[64, 64]) { return exp(tanh(matmul(%x, %y))) }",
       "other contraction, reference pointwise"},
      {"a scalar that would be computed by its readers is stored",
       {.primitives = no_exp},
       "graph(%x: f32[64, 64], %s: f32[]) { return tanh(mul(%x, exp(%s))) }",
       "reference pointwise, other pointwise"},
      {"a dtype",
       {.dtypes = {DType::f32}},
       "graph(%x: f32[64, 64]) { return tanh(cast(tanh(cast(tanh(%x)) {dtype=f64})) {dtype=f32}) }",
       "other pointwise, reference pointwise, other pointwise"},
      {"products of integers",
       {.product_dtypes = {DType::f32}},
       "graph(%x: i32[64, 64], %y: i32[64, 64]) { return add(matmul(%x, %y), 1) }",
       "reference contraction, other pointwise"},
      {"products of floats",
       {.product_dtypes = {DType::f32}},
       "graph(%x: f32[64, 64], %y: f32[64, 64]) { return add(matmul(%x, %y), 1) }",
       "other contraction"},
  };
  struct Lacking final : OtherBackend {
    Limits own;
    Limits limits() const override { return own; }
  } lacking;
  for (const Row& row : rows) {
    lacking.own = row.limits;
    const Graph graph = prepared(row.text);
    const auto plan = build_plan(graph, fused({&lacking, reference()}));
    INFO(row.name << "\n" << plan->text());
    std::string takers;
    for (const PlanStep& step : plan->steps())
      takers += (takers.empty() ? "" : ", ") + step.backend + " " + std::string(name(step.kernel.kind));
    CHECK(takers == row.takers);
    CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
  }
}

TEST_CASE("views of one operand are one pointer, but an access each", "[fusion]") {
  struct Narrow : OtherBackend {
    Limits limits() const override { return {.max_accesses = 8}; }
  } narrow;
  const auto stencil = [](int views) {
    std::string text = "graph(%x: f32[s0]) { %y0 = slice(%x) {starts=[0], ends=[10], steps=[1]}";
    for (int i = 1; i < views; ++i)
      text += "; %v" + std::to_string(i) + " = slice(%x) {starts=[" + std::to_string(i) + "], ends=[" +
              std::to_string(10 + i) + "], steps=[1]}; %y" + std::to_string(i) + " = add(%y" + std::to_string(i - 1) +
              ", %v" + std::to_string(i) + ")";
    return prepared(text + "; return %y" + std::to_string(views - 1) + " }");
  };
  CHECK(build_plan(stencil(7), fused({&narrow}))->kernel_count() == 1);  // and one that is written
  for (int views : {8, 30}) {
    const auto plan = build_plan(stencil(views), fused({&narrow}));
    CHECK(plan->kernel_count() > 1);
    for (const PlanStep& step : plan->steps()) CHECK(step.kernel.accesses.size() <= 8);
  }
}

TEST_CASE("a table's length counts among what is read of it", "[fusion]") {
  struct Narrow : OtherBackend {
    Limits limits() const override { return {.max_accesses = 8}; }
  } narrow;
  std::string text = "graph(%x: f32[40], %i: i64[10]) { %y0 = take(%x, %i) {axes=[0]}";
  for (int i = 1; i < 12; ++i) {
    const std::string n = std::to_string(i);
    text += "; %v" + n + " = slice(%x) {starts=[0], ends=[" + std::to_string(40 - i) + "], steps=[1]}; %t" + n +
            " = take(%v" + n + ", %i) {axes=[0]}; %y" + n + " = add(%y" + std::to_string(i - 1) + ", %t" + n + ")";
  }
  const auto plan = build_plan(prepared(text + "; return %y11 }"), fused({&narrow}));
  INFO(plan->text());
  CHECK(plan->kernel_count() > 1);
  for (const PlanStep& step : plan->steps()) CHECK(step.kernel.accesses.size() <= 8);
}

#ifndef SINTER_NO_X86
TEST_CASE("an update at positions that are data has as many accesses as another kernel of x86", "[fusion]") {
  const std::unique_ptr<Backend> x86 = make_x86_backend();
  // With the positions and what is changed, 47 and 48.
  for (const int views : {45, 46}) {
    std::string text = "graph(%x: f32[400], %i: i64[300]) { %y0 = slice(%x) {starts=[0], ends=[300], steps=[1]}";
    for (int i = 1; i < views; ++i) {
      const std::string n = std::to_string(i);
      text += "; %v" + n + " = slice(%x) {starts=[" + n + "], ends=[" + std::to_string(300 + i) + "], steps=[1]}; %y" +
              n + " = add(%y" + std::to_string(i - 1) + ", %v" + n + ")";
    }
    text += "; %s = scatter_add(%i, %y" + std::to_string(views - 1) + ") {axes=[0], shape=[50]}; return %s }";
    const Graph graph = prepared(text);
    const auto plan = build_plan(graph, fused({x86.get(), reference()}));
    INFO(plan->text());
    std::size_t most = 0;
    for (const PlanStep& step : plan->steps()) {
      CHECK(step.backend == "x86");
      if (step.kernel.kind == KernelKind::scatter) most = step.kernel.accesses.size();
    }
    CHECK(most == static_cast<std::size_t>(views + 2));
    CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
  }
}
#endif

TEST_CASE("axes: unit strides last, neighbours merged", "[fusion]") {
  const auto kernel_of = [](std::string_view text) { return build_plan(prepared(text), fused())->steps()[0]; };
  // Dense values of any rank are one axis.
  CHECK(kernel_of("graph(%x: f32[4, 5, 6], %y: f32[4, 5, 6]) { return add(%x, %y) }").kernel.rank() == 1);
  CHECK(kernel_of("graph(%x: f32[4, 5, s0]) { return exp(%x) }").kernel.rank() == 1);
  // A broadcast row keeps two.
  CHECK(kernel_of("graph(%x: f32[4, 5, 6], %y: f32[6]) { return add(%x, %y) }").kernel.rank() == 2);
  // Extents of 1 vanish.
  CHECK(kernel_of("graph(%x: f32[4, 1, 6]) { return sum(%x) {axes=[1, 2]} }").kernel.rank() == 2);
  // The batch of a product with shared weights becomes rows.
  CHECK(kernel_of("graph(%x: f32[4, 5, 6], %w: f32[6, 7]) { return matmul(%x, expand(%w) {shape=[4, 6, 7]}) }")
            .kernel.rank() == 3);
  // A transposed sum is a column sum.
  const PlanStep column = kernel_of("graph(%x: f32[40, 50]) { return sum(permute(%x) {axes=[1, 0]}) {axes=[1]} }");
  CHECK(column.kernel.kind == KernelKind::column);
  CHECK(column.kernel.accesses[0].stride[1] == StrideClass::unit);
  // A product whose result is stored transposed exchanges rows and columns.
  const PlanStep product =
      kernel_of("graph(%a: f32[9, 5], %b: f32[5, 7]) { return permute(matmul(%a, %b)) {axes=[1, 0]} }");
  CHECK(product.geometry.extent[0].value() == 7);
  CHECK(product.geometry.extent[1].value() == 9);
}

TEST_CASE("multiply and add contract once, and only where the product has no other use", "[fusion]") {
  const auto count = [](std::string_view text, Prim prim) {
    int found = 0;
    const auto plan = build_plan(prepared(text), fused());
    for (const PlanStep& step : plan->steps())
      for (const Inst& inst : step.kernel.body) found += inst.prim == prim;
    return found;
  };
  CHECK(count("graph(%a: f32[9], %b: f32[9], %c: f32[9]) { return add(mul(%a, %b), %c) }", Prim::fma) == 1);
  CHECK(count("graph(%a: f32[9], %b: f32[9], %c: f32[9]) { return add(%c, mul(%a, %b)) }", Prim::fma) == 1);
  CHECK(count("graph(%a: f32[9], %b: f32[9], %c: f32[9]) { return add(mul(%a, %b), %c) }", Prim::mul) == 0);
  CHECK(count("graph(%a: f32[9], %b: f32[9], %c: f32[9]) { %m = mul(%a, %b) return add(%m, %c), %m }", Prim::fma) == 0);
  CHECK(count("graph(%a: i64[9], %b: i64[9], %c: i64[9]) { return add(mul(%a, %b), %c) }", Prim::fma) == 0);
}

TEST_CASE("the order of steps: who reads a donated input runs before who overwrites it", "[fusion]") {
  const Graph graph =
      prepared("graph(%w: f32[16, 16], %g: f32[16, 16]) { %u = sub(%w, %g) %m = matmul(%w, %g) return %u, %m }");
  PlanOptions options = fused();
  options.may_donate = {1, 0};
  const auto plan = build_plan(graph, options);
  REQUIRE(plan->outputs()[0].donor == 0);
  CHECK(&writer_of(*plan, 0) == &plan->steps().back());
  // A reader that needs the update itself makes taking over impossible.
  const Graph circle =
      prepared("graph(%w: f32[16, 16], %g: f32[16, 16]) { %u = exp(sub(%w, %g)) return %u, matmul(%u, %w) }");
  CHECK(build_plan(circle, options)->outputs()[0].donor == -1);
}

namespace {
/// Sums of so many shifted parts of a vector, each of them doubled before where `is_computed`.
Graph shifted_sums(int parts, bool is_computed) {
  std::string text = "graph(%x: f32[700]) { %y = " + std::string(is_computed ? "neg(%x)"
                                                                             : "slice(%x) {starts=[0], "
                                                                               "ends=[700], steps=[1]}");
  text += " %s0 = slice(%y) {starts=[0], ends=[300], steps=[1]}";
  for (int i = 1; i < parts; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    text += " %p" + n + " = slice(%y) {starts=[" + n + "], ends=[" + std::to_string(300 + i) + "], steps=[1]}";
    text += " %s" + n + " = add(%s" + before + ", %p" + n + ")";
  }
  return parse_graph(text + " return %s" + std::to_string(parts - 1) + " }");
}
std::size_t most_accesses(const Plan& plan) {
  std::size_t most = 0;
  for (const PlanStep& step : plan.steps()) most = std::max(most, step.kernel.accesses.size());
  return most;
}
}  // namespace

TEST_CASE("a kernel has no more accesses than its back end takes, and as many as that", "[fusion]") {
  const auto limit = static_cast<std::size_t>(reference()->limits().max_accesses);
  REQUIRE(limit == 256);
  // One is written: the last part that fits is the one before.
  for (const bool is_computed : {false, true}) {
    const auto fits = build_plan(shifted_sums(90, is_computed), fused());
    INFO(fits->text());
    CHECK(fits->steps().size() <= 2);
    CHECK(most_accesses(*fits) == 91);
    CHECK(first_difference(*fits, shifted_sums(90, is_computed), random_inputs(shifted_sums(90, is_computed))) == "");
  }
  const auto exact = build_plan(shifted_sums(255, false), fused()),
             more = build_plan(shifted_sums(256, false), fused());
  CHECK(exact->steps().size() == 1);
  CHECK(most_accesses(*exact) == limit);
  CHECK(more->steps().size() == 2);
  CHECK(most_accesses(*more) <= limit);
}

TEST_CASE("the same view of two views is two accesses, two views of the same place are one", "[fusion]") {
  const auto plan = build_plan(
      parse_graph(
          "graph(%x: f32[400]) { %y = neg(%x) %a = slice(%y) {starts=[0], ends=[300], steps=[1]} %b = slice(%y) "
          "{starts=[7], ends=[307], steps=[1]} %c = slice(%x) {starts=[2], ends=[305], steps=[1]} %d = slice(%c) "
          "{starts=[5], ends=[303], steps=[1]} %e = slice(%x) {starts=[7], ends=[305], steps=[1]} "
          "return mul(%a, %b), add(%d, %e) }"),
      fused());
  INFO(plan->text());
  CHECK(plan->steps().size() == 2);
  for (const PlanStep& step : plan->steps()) CHECK(step.kernel.accesses.size() <= 3);
}

TEST_CASE("a product that its epilogue does not need leaves a pointwise kernel", "[fusion]") {
  for (const std::string graph_text :
       {"graph(%x: f64[4, 5], %y: f64[5, 3]) { %m = matmul(%x, %y) %i = cast(%m) {dtype=i32} return isfinite(%i) }",
        "graph(%x: i32[4, 5], %y: i32[5, 3]) { %m = matmul(%x, %y) %t = permute(%m) {axes=[1, 0]} return isnan(%t) }",
        "graph(%x: f32[7, 4, 1, 1], %y: f32[7, 4, 1, 1]) { %n = neg(%x) %m = matmul(%n, %y) %i = cast(%m) {dtype=i64} "
        "%f = isfinite(%i) %w = where(%f, %x, %y) return %w }"}) {
    const Graph graph = parse_graph(graph_text);
    for (const auto& plan : {build_plan(graph, fused()), build_plan(graph, op_by_op())}) {
      INFO(plan->text());
      CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
    }
  }
}

TEST_CASE("fusion: two prologues of a product, of which one would cut the axis that it sums over") {
  // Both read the axis of 8 as 4 by 2; the first merges again, the second has gaps.
  PrologueBackend prologues;
  for (const char* text :
       {"graph(%w: f64[4, 2, 3], %a: f32[s0, 4]) {\n  %h = reshape(cast(%w) {dtype=f32}) {shape=[8, 3]}\n"
        "  %l = reshape(abs(slice(%a) {starts=[0, 0], ends=[4, 2], steps=[1, 1]})) {shape=[1, 8]}\n"
        "  return matmul(%l, %h)\n}",
        "graph(%w: f64[4, 2, 3], %a: f32[s0, 4]) {\n"
        "  %l = reshape(abs(slice(%a) {starts=[0, 0], ends=[4, 2], steps=[1, 1]})) {shape=[1, 8]}\n"
        "  %h = reshape(cast(%w) {dtype=f32}) {shape=[8, 3]}\n  return matmul(%l, %h)\n}"}) {
    INFO(text);
    const Graph graph = parse_graph(text);
    const auto plan = build_plan(run_pipeline(graph), fused({&prologues}));
    CHECK(kinds(*plan) == "pointwise contraction");
    CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{5})) == "");
  }
}
