// Plans against the oracle: each graph runs fused and op by op, with the same plan for several values of its symbols,
// and several times per frame. Then what the table cannot say: donation, aliasing, frames, the kernel cache, threads.
#include "../catch.hpp"
#include "../plan_harness.hpp"

#include <sinter/autodiff/reverse.hpp>
#include <sinter/runtime/kernel_cache.hpp>

#include <cstring>
#include <thread>

using namespace sinter_test;

namespace {

struct PlanRow {
  const char* name;
  const char* text;
};

constexpr PlanRow plan_rows[] = {
    {"chain", "graph(%x: f32[33, 7], %y: f32[7]) { return mul(tanh(add(%x, %y)), 2) }"},
    {"scalar operand", "graph(%x: f64[5, 6], %s: f64[]) { return add(mul(%x, %s), div(%s, 3)) }"},
    {"scalars only", "graph(%a: f64[], %b: f64[]) { %c = mul(add(%a, %b), 3) return %c, exp(%c) }"},
    {"softmax", "graph(%x: f32[9, 50]) { return softmax(%x) {axes=[1]} }"},
    {"softmax over the first axis", "graph(%x: f32[9, 50]) { return softmax(%x) {axes=[0]} }"},
    {"softmax over the middle", "graph(%x: f32[3, 8, 5]) { return softmax(%x) {axes=[1]} }"},
    {"log_softmax", "graph(%x: f64[s0, 50]) { return log_softmax(%x) {axes=[1]} }"},
    {"layer_norm",
     "graph(%x: f32[6, s0], %w: f32[s0], %b: f32[s0]) { return layer_norm(%x, %w, %b) {axes=[1], eps=1e-5} }"},
    {"layer_norm over two axes",
     "graph(%x: f32[6, 4, 5], %w: f32[4, 5], %b: f32[4, 5]) { return layer_norm(%x, %w, %b) {axes=[1, 2], eps=1e-5} "
     "}"},
    {"cross_entropy", "graph(%x: f32[s0, 4], %t: i64[s0]) { return cross_entropy(%x, %t) }"},
    {"linear", "graph(%x: f32[s0, 12], %w: f32[12, 20], %b: f32[20]) { return gelu(add(matmul(%x, %w), %b)) }"},
    {"column sum of a stored value", "graph(%x: f32[31, 17]) { %a = exp(%x) return %a, sum(%a) {axes=[0]} }"},
    {"row and column sums",
     "graph(%x: f32[31, 17]) { %a = mul(%x, %x) return sum(%a) {axes=[1]}, sum(%a) {axes=[0]}, sum(%a) {axes=[0, 1]} "
     "}"},
    {"middle sum",
     "graph(%x: f64[5, s0, 6]) { return sum(%x) {axes=[1]}, amax(%x) {axes=[0, 2], keepdim}, prod(%x) {axes=[0, 1]} }"},
    {"sum of a transposed value",
     "graph(%x: f32[13, 21]) { %t = permute(exp(%x)) {axes=[1, 0]} return sum(%t) {axes=[1]}, sum(%t) {axes=[0]} }"},
    {"value plus its transpose", "graph(%x: f32[8, 8]) { %e = exp(%x) return add(%e, permute(%e) {axes=[1, 0]}) }"},
    {"matrix plus transpose of a product",
     "graph(%x: f32[8, 8], %y: f32[8, 8]) { %m = matmul(%x, %y) return add(%m, permute(%m) {axes=[1, 0]}) }"},
    {"transposed product", "graph(%a: f32[9, 5], %b: f32[5, 7]) { return permute(matmul(%a, %b)) {axes=[1, 0]} }"},
    {"products of transposes",
     "graph(%a: f32[5, 9], %b: f32[7, 5]) { return matmul(permute(%a) {axes=[1, 0]}, permute(%b) {axes=[1, 0]}) }"},
    {"batched product", "graph(%a: f64[3, s0, 5], %b: f64[3, 5, 4]) { return relu(matmul(%a, %b)) }"},
    {"weights shared by a batch",
     "graph(%a: f32[3, 6, 5], %b: f32[5, 4]) { return tanh(matmul(%a, expand(%b) {shape=[3, 5, 4]})) }"},
    {"product of one row", "graph(%a: f32[1, 16], %b: f32[16, 9]) { return add(matmul(%a, %b), 1) }"},
    {"product of one column", "graph(%a: f32[7, 16], %b: f32[16, 1]) { return mul(matmul(%a, %b), %a) }"},
    {"outer product", "graph(%a: f32[7, 1], %b: f32[1, 5]) { return exp(matmul(%a, %b)) }"},
    {"product of scalars", "graph(%a: f32[1, 1], %b: f32[1, 1]) { return matmul(%a, %b) }"},
    {"integer product", "graph(%a: i64[3, 4], %b: i64[4, 5]) { return matmul(%a, %b) }"},
    {"residual after a reshape",
     "graph(%x: f32[2, 6, 8], %w: f32[8, 10], %r: f32[2, 6, 10], %b: f32[10]) {"
     " %m = matmul(reshape(%x) {shape=[12, 8]}, %w) return add(add(reshape(%m) {shape=[2, 6, 10]}, %b), %r) }"},
    {"heads",
     "graph(%x: f32[2, 6, 12], %w: f32[12, 12]) { %q = reshape(matmul(reshape(%x) {shape=[12, 12]}, %w)) {shape=[2, 6, "
     "3, 4]}"
     " %h = permute(%q) {axes=[0, 2, 1, 3]} %s = softmax(matmul(%h, permute(%h) {axes=[0, 1, 3, 2]})) {axes=[3]}"
     " %o = permute(matmul(%s, %h)) {axes=[0, 2, 1, 3]} return matmul(reshape(%o) {shape=[12, 12]}, %w) }"},
    {"attention",
     "graph(%q: f32[2, 5, 4], %k: f32[2, 7, 4], %v: f32[2, 7, 4]) { return scaled_dot_product_attention(%q, %k, %v) }"},
    {"convolution",
     "graph(%x: f32[2, 3, 7, 7], %w: f32[4, 3, 3, 3]) { return relu(conv2d(%x, %w) {stride=[1, 1], padding=[1, 1]}) }"},
    {"strided convolution",
     "graph(%x: f32[2, 3, 8, 7], %w: f32[4, 3, 2, 3]) { return conv2d(%x, %w) {stride=[2, 1], padding=[0, 0]} }"},
    {"stencil of a padded value",
     "graph(%x: f32[5, 37]) { %p = pad(%x) {low=[1, 1], high=[1, 1], value=2} "
     "return add(slice(%p) {starts=[0, 1], ends=[5, 38], steps=[1, 1]}, slice(%p) {starts=[2, 0], ends=[7, 37], "
     "steps=[1, 1]}) }"},
    {"padded value of symbolic extents", "graph(%x: f64[s0, s1]) { return mul(pad(%x) {low=[0, 3], high=[2, 0]}, 3) }"},
    {"joined integers", "graph(%x: i32[s0], %y: i32[s1]) { return neg(concat(%x, %y, %x) {axes=[0]}) }"},
    {"joined bools", "graph(%x: bool[s0, 3], %y: bool[s0, 9]) { return not(concat(%x, %y) {axes=[1]}) }"},
    {"transpose of a padded value",
     "graph(%x: f32[9, s0]) { return exp(permute(pad(%x) {low=[1, 0], high=[0, 2]}) {axes=[1, 0]}) }"},
    {"part replaced",
     "graph(%x: f32[40], %y: f32[7]) { %u = update_slice(%x, %y) {starts=[20], steps=[1]} return mul(%u, %u) }"},
    {"computed part replaced and summed",
     "graph(%x: f32[40], %y: f32[7]) { %u = update_slice(%x, exp(%y)) {starts=[0], steps=[1]} return mul(%u, %x), "
     "sum(%u) {axes=[0]} }"},
    {"stencil of a padded value that is computed",
     "graph(%x: f32[6, 40]) { %p = pad(exp(%x)) {low=[0, 1], high=[0, 1]} "
     "return add(slice(%p) {starts=[0, 0], ends=[6, 40], steps=[1, 1]}, slice(%p) {starts=[0, 2], ends=[6, 42], "
     "steps=[1, 1]}), %x }"},
    {"padded twice",
     "graph(%x: f32[6, 40]) { %p = pad(pad(%x) {low=[1, 0], high=[0, 0], value=1}) {low=[0, 2], high=[0, 0], "
     "value=-1} return add(%p, 1) }"},
    {"padded and reshaped by ones",
     "graph(%x: f32[3, 8]) { return add(reshape(pad(%x) {low=[0, 0], high=[0, 4]}) {shape=[3, 1, 12]}, 1) }"},
    {"padded and reshaped",
     "graph(%x: f32[3, 8]) { return add(reshape(pad(%x) {low=[0, 0], high=[0, 4]}) {shape=[6, 6]}, 1) }"},
    {"every other of a padded value",
     "graph(%x: f32[30]) { %p = slice(pad(%x) {low=[3], high=[3]}) {starts=[1], ends=[36], steps=[2]} return exp(%p) "
     "}"},
    {"joined single elements", "graph(%x: f32[1], %y: f32[1]) { return neg(concat(%x, %y, %x) {axes=[0]}) }"},
    {"joined values beside products and sums",
     "graph(%x: f32[4, 6], %w: f32[6, 6], %y: f32[2, 6]) { %c = concat(%y, %y) {axes=[0]} "
     "return add(matmul(%x, %w), %c), matmul(mul(%c, 2), %w), sum(mul(%c, %x)) {axes=[0, 1]} }"},
    {"max pool", "graph(%x: f32[2, 3, 8, 8]) { return max_pool2d(exp(%x)) {window=[2, 2], stride=[2, 2]} }"},
    {"overlapping windows",
     "graph(%x: f64[20]) { return sum(windows(mul(%x, %x)) {axes=[0], sizes=[5], strides=[2]}) {axes=[1]} }"},
    {"slices of a computed value",
     "graph(%x: f32[10, 6]) { %e = tanh(%x) return add(slice(%e) {starts=[0, 1], ends=[9, 6], steps=[3, 2]},"
     " slice(%e) {starts=[1, 0], ends=[10, 5], steps=[3, 2]}), slice(%e) {starts=[2, 2], ends=[5, 4], steps=[1, 1]} "
     "}"},
    {"slice of a product",
     "graph(%a: f32[10, 6], %b: f32[6, 9]) { return exp(slice(matmul(%a, %b)) {starts=[2, 0], ends=[7, 9], steps=[1, "
     "3]}) }"},
    {"reshape across axes",
     "graph(%x: f32[6, 4]) { %e = exp(%x) return mul(reshape(%e) {shape=[4, 6]}, reshape(%e) {shape=[4, 6]}) }"},
    {"unaligned reshape of a transposed value",
     "graph(%x: f32[6, 4], %y: f32[8, 3]) { return add(reshape(permute(%x) {axes=[1, 0]}) {shape=[8, 3]}, %y) }"},
    {"reshape chain",
     "graph(%x: f32[4, 6]) { return exp(reshape(permute(reshape(%x) {shape=[2, 2, 6]}) {axes=[2, 0, 1]}) {shape=[3, "
     "8]}) }"},
    {"symbolic reshape",
     "graph(%x: f32[s0, s1]) { %e = exp(%x) return sum(reshape(%e) {shape=[s0*s1]}) {axes=[0]}, reshape(%e) "
     "{shape=[s0*s1]} }"},
    {"broadcast outer sum", "graph(%x: f32[s0], %y: f32[s1]) { return add(reshape(%x) {shape=[s0, 1]}, %y) }"},
    {"expand and reduce",
     "graph(%x: f32[5]) { return sum(expand(%x) {shape=[4, 5]}) {axes=[0]}, expand(exp(%x)) {shape=[4, 5]} }"},
    {"concat",
     "graph(%x: f32[4, 3], %y: f32[4, 5], %z: f32[4, 3]) { return concat(exp(%x), neg(%y), add(%x, %z)) {axes=[1]} }"},
    {"concat of views",
     "graph(%x: f32[4, 3], %y: f32[3, 4]) { return concat(%x, permute(%y) {axes=[1, 0]}, %x) {axes=[0]} }"},
    {"concat used twice",
     "graph(%x: f32[4, 3], %y: f32[4, 3]) { %c = concat(%x, %y) {axes=[1]} return exp(%c), sum(%c) {axes=[1]}, %c }"},
    {"pad", "graph(%x: f32[4, 3]) { return pad(mul(%x, 2)) {low=[1, 0], high=[0, 2], value=1.5} }"},
    {"update of an input",
     "graph(%x: f32[5, 4], %y: f32[2, 4]) { return update_slice(%x, exp(%y)) {starts=[1, 0], steps=[2, 1]} }"},
    {"update of a computed value",
     "graph(%x: f32[5, 4], %y: f32[2, 4]) { return update_slice(exp(%x), %y) {starts=[3, 0], steps=[1, 1]} }"},
    {"update of a value that is used again",
     "graph(%x: f32[5, 4], %y: f32[2, 4]) { %e = exp(%x) %u = update_slice(%e, %y) {starts=[3, 0], steps=[1, 1]} "
     "return "
     "mul(%u, %e), %e }"},
    {"update with a part of itself",
     "graph(%x: f32[5, 4]) { %e = exp(%x) return update_slice(%e, slice(%e) {starts=[0, 0], ends=[2, 4], steps=[1, "
     "1]}) {starts=[3, 0], steps=[1, 1]} }"},
    {"update by a function of the base",
     "graph(%x: f32[4, 4]) { %e = exp(%x) return update_slice(%e, neg(%e)) {starts=[0, 0], steps=[1, 1]} }"},
    {"chain of updates",
     "graph(%x: f32[6]) { %a = update_slice(%x, full {shape=[2], value=1, dtype=f32}) {starts=[0], steps=[1]}"
     " %b = update_slice(%a, full {shape=[3], value=2, dtype=f32}) {starts=[1], steps=[2]} return %b, sum(%a) "
     "{axes=[0]} }"},
    {"update with a product",
     "graph(%x: f32[6, 5], %a: f32[3, 4], %b: f32[4, 5]) { return update_slice(%x, matmul(%a, %b)) {starts=[1, 0], "
     "steps=[2, 1]} }"},
    {"take", "graph(%x: f32[4, 6], %i: i64[3, 2]) { return exp(take(%x, %i) {axes=[0]}), take(%x, %i) {axes=[1]} }"},
    {"take of a computed table",
     "graph(%x: f32[6, 4], %i: i32[7]) { return mul(take(permute(exp(%x)) {axes=[1, 0]}, %i) {axes=[0]}, 2) }"},
    {"take by computed indices", "graph(%x: f32[9], %i: i64[s0]) { return take(%x, add(%i, %i)) {axes=[0]} }"},
    {"scatter_add",
     "graph(%i: i64[8], %v: f32[8, 5]) { return mul(scatter_add(%i, mul(%v, 3)) {shape=[4, 5], axes=[0]}, 2) }"},
    {"scatter_add in the middle",
     "graph(%i: i32[2, 3], %v: f64[5, 2, 3, 4]) { return scatter_add(%i, %v) {shape=[5, 4, 4], axes=[1]} }"},
    {"random bits",
     "graph(%k: i64[], %c: i64[]) { return random_bits(%k, %c) {shape=[5, 7]}, random_uniform(%k, %c) {shape=[40], "
     "dtype=f32} }"},
    {"random normal",
     "graph(%k: i64[], %c: i64[], %x: f32[s0, 6]) { return add(%x, random_normal(%k, add(%c, 1)) {shape=[s0, 6], "
     "dtype=f32}) }"},
    {"random bits, transposed",
     "graph(%k: i64[], %c: i64[], %x: i64[6, s0]) { return add(%x, permute(random_bits(%k, %c) {shape=[s0, 6]}) "
     "{axes=[1, 0]}) }"},
    {"argmax", "graph(%x: f32[5, 9]) { return argmax(%x) {axes=[1]}, argmax(%x) {axes=[0]} }"},
    {"argmax over several axes",
     "graph(%x: f32[3, 4, 5]) { return argmax(%x) {axes=[0, 2]}, argmin(%x) {axes=[0, 1, 2]}, "
     "argmax(permute(%x) {axes=[2, 1, 0]}) {axes=[0, 1], keepdim} }"},
    {"one_hot", "graph(%i: i64[6]) { return one_hot(%i) {classes=4, dtype=f32} }"},
    {"iota",
     "graph(%x: f32[3, s0]) { return add(%x, iota {axes=[1], shape=[3, s0], dtype=f32}), iota {axes=[0], shape=[3, "
     "s0], dtype=i64} }"},
    {"iota, flattened",
     "graph(%x: i64[12]) { return add(%x, reshape(iota {axes=[1], shape=[3, 4], dtype=i64}) {shape=[12]}) }"},
    {"several dtypes",
     "graph(%x: f32[8], %i: i32[8], %b: bool[8]) { return where(%b, %x, cast(%i) {dtype=f32}), cast(%x) {dtype=f64}, "
     "cast(%i) {dtype=bool} }"},
    {"statistics",
     "graph(%x: f64[7, 11]) { return mean(%x) {axes=[1]}, var(%x) {axes=[0]}, logsumexp(%x) {axes=[1]} }"},
    {"mean square of all", "graph(%x: f32[40, 40], %y: f32[40, 40]) { return mse_loss(%x, %y) }"},
    {"normalise by the whole", "graph(%x: f32[300, 300]) { return div(%x, sum(exp(%x)) {axes=[0, 1]}) }"},
    {"nothing to compute",
     "graph(%x: f32[3, 4]) { return %x, permute(%x) {axes=[1, 0]}, %x, slice(%x) {starts=[1, 1], ends=[3, 4], "
     "steps=[1, 2]}, expand(%x) {shape=[2, 3, 4]} }"},
    {"the same output twice",
     "graph(%x: f32[3, 4]) { %e = exp(%x) return %e, %e, reshape(%e) {shape=[12]}, permute(%e) {axes=[1, 0]} }"},
    {"literals",
     "graph(%x: f32[3]) { return full {shape=[2, 3], value=4, dtype=f64}, full {shape=[], integer=1, dtype=bool}, "
     "expand(full {value=2, dtype=f32}) {shape=[5]} }"},
    {"empty rows",
     "graph(%x: f32[0, 5]) { return exp(%x), sum(%x) {axes=[0]}, sum(%x) {axes=[1]}, sum(%x) {axes=[0, 1]} }"},
    {"empty product", "graph(%a: f32[4, 0], %b: f32[0, 3]) { return add(matmul(%a, %b), 1) }"},
    {"one part of a concat, compared, beside what the other part is made of",
     "graph(%a: f32[17, 16], %b: f32[16, 7], %s: f32[]) { %t = tanh(matmul(%a, %b)); %c = concat(mul(%t, %s), %t) "
     "{axes=[0]}; "
     "%m = cast(lt(%s, %c)) {dtype=f32}; return mul(slice(%m) {starts=[0, 0], ends=[17, 7], steps=[1, 1]}, %t) }"},
    {"one part of an updated tensor beside the update",
     "graph(%a: f32[34, 7], %b: f32[17, 7], %s: f32[17]) { %c = update_slice(exp(%a), %b) {starts=[17, 0], steps=[1, "
     "1]}; "
     "%m = neg(%c); return mul(slice(%m) {starts=[0, 0], ends=[17, 7], steps=[1, 1]}, %b) }"},
    {"empty result", "graph(%a: f32[4, 2], %b: f32[2, 0]) { return matmul(%a, %b) }"},
    {"extents of one",
     "graph(%x: f32[1, 5, 1], %y: f32[5, 1, 1]) { return sum(add(%x, %y)) {axes=[0, 2]}, amax(%x) {axes=[0], keepdim} "
     "}"},
    {"sum over extents of one", "graph(%x: f32[1, 1]) { return sum(exp(%x)) {axes=[0, 1]}, sum(%x) {axes=[1]} }"},
    {"rank eight",
     "graph(%x: f32[2, 1, 3, 2, 1, 2, 2, 3]) { return sum(permute(exp(%x)) {axes=[7, 1, 3, 2, 0, 4, 6, 5]}) {axes=[2, "
     "5]} }"},
    {"shared scale of a row",
     "graph(%x: f32[6, 9], %s: f32[6]) { %r = sqrt(abs(reshape(%s) {shape=[6, 1]})) return mul(%x, %r), sum(mul(%x, "
     "%r)) {axes=[1]} }"},
    {"two rows of one input",
     "graph(%x: f32[16, 32]) { return softmax(%x) {axes=[1]}, sum(mul(%x, %x)) {axes=[1]}, neg(%x) }"},
};

std::vector<std::vector<std::int64_t>> symbol_sets(const Graph& graph) {
  if (graph.symbols().empty()) return {{}};
  std::vector<std::vector<std::int64_t>> sets;
  for (std::int64_t first : {5, 2, 70, 5}) {
    std::vector<std::int64_t> set;
    for (std::size_t i = 0; i < graph.symbols().size(); ++i) set.push_back(first + 3 * static_cast<std::int64_t>(i));
    sets.push_back(set);
  }
  return sets;
}

void check_plan(const Graph& graph, const PlanOptions& options) {
  const auto plan = build_plan(graph, options);
  for (const auto& symbols : symbol_sets(graph)) {
    const auto inputs = random_inputs(graph, symbols);
    const std::string found = first_difference(*plan, graph, inputs);
    const std::string again = first_difference(*plan, graph, inputs);
    INFO(graph.text() << plan->text());
    CHECK(found == "");
    CHECK(again == "");
  }
}

}  // namespace

TEST_CASE("plans give what the oracle gives, fused and op by op", "[plan]") {
  for (const PlanRow& row : plan_rows) {
    DYNAMIC_SECTION(row.name) {
      const Graph graph = prepared(row.text);
      for (const auto& backends : backend_lists()) {
        check_plan(graph, fused(backends));
        check_plan(graph, op_by_op(backends));
      }
    }
  }
}

TEST_CASE("plans whose outputs own their memory", "[plan]") {
  for (const PlanRow& row : plan_rows) {
    const Graph graph = prepared(row.text);
    PlanOptions options = fused();
    options.own_outputs = true;
    const auto plan = build_plan(graph, options);
    INFO(row.name);
    for (std::size_t j = 0; j < plan->outputs().size(); ++j) {
      CHECK(plan->outputs()[j].source == BufferKind::output);
      CHECK(plan->outputs()[j].index == static_cast<std::int32_t>(j));
    }
    CHECK(first_difference(*plan, graph, random_inputs(graph, symbol_sets(graph)[0])) == "");
  }
}

TEST_CASE("plans on small limits split, and stay right", "[plan]") {
  struct Small : OtherBackend {
    Limits limits() const override { return {.max_operands = 4, .max_body = 6, .max_reduced_axes = 1}; }
  } small;
  for (const PlanRow& row : plan_rows) {
    const Graph graph = prepared(row.text);
    const auto plan = build_plan(graph, fused({&small}));
    INFO(row.name << "\n" << graph.text() << plan->text());
    CHECK(first_difference(*plan, graph, random_inputs(graph, symbol_sets(graph)[0])) == "");
  }
}

TEST_CASE("plans are cut around what a back end lacks, and stay right", "[plan]") {
  struct Lacking final : OtherBackend {
    Limits own;
    mutable int kernels = 0;
    Limits limits() const override { return own; }
    std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                              std::string* why) override {
      ++kernels;
      if (const std::string lacks = why_not_taken(own, kernel); !lacks.empty()) throw InternalError(lacks);
      return OtherBackend::compile(kernel, schedule, why);
    }
  } lacking;
  EnumSet<Prim> few = EnumSet<Prim>::all();
  for (Prim prim : {Prim::exp, Prim::tanh, Prim::convert, Prim::gather, Prim::random_bits, Prim::index})
    few.remove(prim);
  const Limits cases[] = {
      {.kinds = {KernelKind::pointwise}},
      {.kinds = {KernelKind::row}},
      {.kinds = {KernelKind::contraction, KernelKind::column}},
      {.primitives = few},
      {.dtypes = {DType::f32}},
      {.dtypes = {DType::f64, DType::i64, DType::bool_}},
      {.product_dtypes = {}},
  };
  for (const Limits& limits : cases) {
    lacking.own = limits;
    lacking.kernels = 0;
    for (const PlanRow& row : plan_rows) {
      clear_kernel_cache();
      const Graph graph = prepared(row.text);
      const auto plan = build_plan(graph, fused({&lacking, reference()}));
      INFO(row.name << "\n" << graph.text() << plan->text());
      CHECK(first_difference(*plan, graph, random_inputs(graph, symbol_sets(graph)[0])) == "");
    }
    CHECK(lacking.kernels > 0);
  }
}

TEST_CASE("a sum that several kernels compute has the same bits in each", "[plan]") {
  // The product is needed by the second kernel alone: there and in the first it must be rounded before it is added.
  const auto count = [](const Plan& plan, Prim prim) {
    int found = 0;
    for (const PlanStep& step : plan.steps())
      for (const Inst& inst : step.kernel.body) found += inst.prim == prim;
    return found;
  };
  const Graph shared = prepared(
      "graph(%x: f64[64, 64]) { %p = mul(%x, %x); %s = add(%p, 0.3); return where(eq(%s, amin(%s) {axes=[0], "
      "keepdim}), %p, 0) }");
  const Graph single = prepared(
      "graph(%x: f64[64, 64]) { %s = add(mul(%x, %x), 0.3); return where(eq(%s, amin(%s) {axes=[0], keepdim}), %x, 0) "
      "}");
  for (const auto& backends : backend_lists()) {
    const auto rounded = build_plan(shared, fused(backends)), contracted = build_plan(single, fused(backends));
    CHECK(first_difference(*rounded, shared, random_inputs(shared)) == "");
    CHECK(first_difference(*contracted, single, random_inputs(single)) == "");
    CHECK(kinds(*rounded) == "column pointwise");
    CHECK(count(*rounded, Prim::fma) == 0);
    CHECK(count(*contracted, Prim::fma) == 2);
  }
}

TEST_CASE("gradients, fused and op by op", "[plan]") {
  struct Row {
    const char* text;
    std::vector<std::int32_t> wrt;
  };
  const Row rows[] = {
      {"graph(%x: f64[s0, 7], %w: f64[7, 5], %b: f64[5]) { return sum(gelu(add(matmul(%x, %w), %b))) {axes=[0, 1]} }",
       {0, 1, 2}},
      {"graph(%x: f64[6, 9], %w: f64[9], %b: f64[9], %y: f64[6, 9]) { return sum(mul(layer_norm(%x, %w, %b) {axes=[1], "
       "eps=1e-3}, %y)) {axes=[0, 1]} }",
       {0, 1, 2}},
      {"graph(%x: f64[s0, 4], %t: i64[s0]) { return cross_entropy(%x, %t) }", {0}},
      {"graph(%x: f64[6, 9], %y: f64[6, 9]) { return sum(mul(softmax(%x) {axes=[1]}, %y)) {axes=[0, 1]} }", {0, 1}},
      {"graph(%x: f64[2, 2, 6, 6], %w: f64[3, 2, 3, 3]) { return sum(tanh(max_pool2d(conv2d(%x, %w) {stride=[1, 1], "
       "padding=[1, "
       "1]}) {window=[2, 2], stride=[2, 2]})) {axes=[0, 1, 2, 3]} }",
       {0, 1}},
      {"graph(%x: f64[4, 6], %i: i64[5]) { return sum(exp(take(%x, %i) {axes=[0]})) {axes=[0, 1]} }", {0}},
      {"graph(%q: f64[2, 5, 4], %k: f64[2, 7, 4], %v: f64[2, 7, 4]) { return sum(tanh(scaled_dot_product_attention(%q, "
       "%k, %v))) {axes=[0, 1, 2]} }",
       {0, 1, 2}},
      {"graph(%x: f64[4, 3], %y: f64[4, 5]) { return sum(tanh(concat(exp(%x), %y, %x) {axes=[1]})) {axes=[0, 1]} }",
       {0, 1}},
  };
  for (const Row& row : rows) {
    const Graph graph = run_pipeline(differentiate(parse_graph(row.text), row.wrt));
    for (const auto& backends : backend_lists()) {
      check_plan(graph, fused(backends));
      check_plan(graph, op_by_op(backends));
    }
  }
}

TEST_CASE("inputs of any layout", "[plan]") {
  const Graph graph = prepared(
      "graph(%x: f32[s0, 6], %w: f32[6, 4]) { return exp(%x), matmul(%x, %w), sum(%x) {axes=[1]}, reshape(%x) "
      "{shape=[6*s0]}, %x }");
  PlanOptions options = fused();
  options.input_strides = {{Dim(1), Dim::symbol(0)}, {}};  // column-major
  const auto plan = build_plan(graph, options);
  for (std::int64_t rows : {5, 9}) {
    const std::int64_t symbols[] = {rows};
    const auto inputs = random_inputs(graph, symbols);
    auto x = to_value(inputs[0]);
    auto columns = TensorImpl::make_ready(x->type, Storage::allocate(static_cast<std::size_t>(4 * 6 * rows)));
    columns->strides = Strides{1, rows};
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < 6; ++j)
        static_cast<float*>(columns->data())[i + j * rows] = static_cast<const float*>(x->data())[i * 6 + j];
    const Ref<TensorImpl> values[] = {columns, to_value(inputs[1])};
    const auto found = execute(*plan, values);
    const auto wanted = oracle::evaluate(graph, inputs);
    INFO(plan->text());
    for (std::size_t j = 0; j < wanted.size(); ++j) CHECK(difference(to_array(*found[j]), wanted[j], 2e-5) == "");
  }
}

TEST_CASE("an update takes over a buffer that the caller donates", "[plan]") {
  const Graph graph = prepared(
      "graph(%w: f32[8, 6], %x: f32[4, 8], %g: f32[4, 6], %lr: f32[]) {"
      " %d = matmul(permute(%x) {axes=[1, 0]}, %g) return sub(%w, mul(%lr, %d)), sum(matmul(%x, %w)) {axes=[0, 1]} }");
  PlanOptions options = fused();
  options.may_donate = {1, 0, 0, 0};
  const auto plan = build_plan(graph, options);
  INFO(plan->text());
  REQUIRE(plan->outputs()[0].donor == 0);
  const auto inputs = random_inputs(graph);
  const auto wanted = oracle::evaluate(graph, inputs);
  for (bool is_donated : {true, false}) {
    std::vector<Ref<TensorImpl>> values;
    for (const auto& input : inputs) values.push_back(to_value(input));
    const void* before = values[0]->data();
    const std::uint8_t flags[] = {is_donated, 0, 0, 0};
    const auto found = execute(*plan, values, flags);
    CHECK((found[0]->data() == before) == is_donated);
    CHECK(difference(to_array(*found[0]), wanted[0], 2e-5) == "");
    CHECK(difference(to_array(*found[1]), wanted[1], 2e-5) == "");
    if (!is_donated) CHECK(difference(to_array(*values[0]), inputs[0], 0) == "");
  }
  // A second handle keeps the buffer.
  std::vector<Ref<TensorImpl>> values;
  for (const auto& input : inputs) values.push_back(to_value(input));
  const Ref<TensorImpl> second = values[0];
  const std::uint8_t flags[] = {1, 0, 0, 0};
  const auto found = execute(*plan, values, flags);
  CHECK(found[0]->data() != second->data());
  CHECK(difference(to_array(*second), inputs[0], 0) == "");
}

TEST_CASE("an updated slice leaves the rest of a donated buffer where it is", "[plan]") {
  const Graph graph = prepared(
      "graph(%x: f32[50, 4], %y: f32[2, 4]) { return update_slice(%x, exp(%y)) {starts=[7, 0], steps=[3, 1]} }");
  PlanOptions options = fused();
  options.may_donate = {1, 1};
  const auto plan = build_plan(graph, options);
  REQUIRE(plan->outputs()[0].donor == 0);
  const auto inputs = random_inputs(graph);
  std::vector<Ref<TensorImpl>> values{to_value(inputs[0]), to_value(inputs[1])};
  const void* before = values[0]->data();
  const std::uint8_t flags[] = {1, 0};
  const auto found = execute(*plan, values, flags);
  CHECK(found[0]->data() == before);
  CHECK(difference(to_array(*found[0]), oracle::evaluate(graph, inputs)[0], 2e-5) == "");
}

TEST_CASE("nothing that can fail runs after a write to the caller's memory", "[plan]") {
  // The take may throw, so the update of %w must not go to its buffer before it.
  const Graph graph = prepared(
      "graph(%w: f32[6], %x: f32[6], %i: i64[2]) { %u = sub(%w, %x) return %u, take(mul(%x, 2), %i) {axes=[0]} }");
  PlanOptions options = fused();
  options.may_donate = {1, 0, 0};
  const auto plan = build_plan(graph, options);
  INFO(plan->text());
  int write = -1, failing = -1;
  for (std::size_t s = 0; s < plan->steps().size(); ++s) {
    for (const BufferRef& operand : plan->steps()[s].operands)
      if (operand == BufferRef{BufferKind::output, 0}) write = static_cast<int>(s);
    for (const Inst& inst : plan->steps()[s].kernel.body)
      if (inst.prim == Prim::gather) failing = static_cast<int>(s);
  }
  CHECK((plan->outputs()[0].donor < 0 || write > failing));
  auto inputs = random_inputs(graph);
  inputs[2].data = {0, 6};
  std::vector<Ref<TensorImpl>> values;
  for (const auto& input : inputs) values.push_back(to_value(input));
  const std::uint8_t flags[] = {1, 0, 0};
  CHECK_THROWS_AS(execute(*plan, values, flags), IndexError);
  CHECK(difference(to_array(*values[0]), inputs[0], 0) == "");
  inputs[2].data = {0, 5};
  CHECK(first_difference(*plan, graph, inputs) == "");  // the frame is usable again
}

TEST_CASE("outputs that are views of inputs and constants share their memory", "[plan]") {
  const Graph graph = prepared(
      "graph(%x: f32[3, 4]) { %c: f32[3] = constant {data=[1, 2, 3]} return permute(%x) {axes=[1, 0]}, %c, exp(%x) }");
  const auto plan = build_plan(graph, fused());
  CHECK(plan->kernel_count() == 1);
  const auto inputs = random_inputs(graph);
  const std::vector<Ref<TensorImpl>> values{to_value(inputs[0])};
  const auto found = execute(*plan, values);
  CHECK(found[0]->data() == values[0]->data());
  CHECK(found[0]->strides[0] == 1);
  CHECK(first_difference(*plan, graph, inputs) == "");
}

TEST_CASE("intermediates share the arena", "[plan]") {
  // A chain of products: never more than two of them are alive.
  const Graph graph = prepared(
      "graph(%x: f32[64, 64]) { %a = matmul(%x, %x) %b = matmul(%a, %a) %c = matmul(%b, %b) %d = matmul(%c, %c) return "
      "matmul(%d, %x) }");
  const auto plan = build_plan(graph, fused());
  CHECK(plan->kernel_count() == 5);
  CHECK(plan->arena_bytes({}) == 2 * 64 * 64 * 4);
}

TEST_CASE("an operand's last use gives its memory to the result", "[plan]") {
  const Graph graph =
      prepared("graph(%x: f32[100, 10]) { %a = sum(%x) {axes=[0]} %b = exp(%a) return sum(%b) {axes=[0]} }");
  const auto plan = build_plan(graph, op_by_op());
  CHECK(plan->slots().size() == 1);
  CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
}

TEST_CASE("one plan, many threads and sizes", "[plan]") {
  const Graph graph =
      prepared("graph(%x: f32[s0, 16], %w: f32[16, 8]) { return softmax(matmul(tanh(%x), %w)) {axes=[1]} }");
  const auto plan = build_plan(graph, fused());
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t rows : {3, 40, 3, 7, 9}) {
        const std::int64_t symbols[] = {rows + static_cast<std::int64_t>(t)};
        found[t] += first_difference(*plan, graph, random_inputs(graph, symbols, static_cast<unsigned>(t)));
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& text : found) CHECK(text == "");
}

TEST_CASE("a frame is used again for the same extents and allocates nothing", "[plan]") {
  const Graph graph =
      prepared("graph(%x: f32[s0, 16], %w: f32[16, 8]) { return sum(matmul(tanh(%x), %w)) {axes=[1]} }");
  const auto plan = build_plan(graph, fused());
  const std::int64_t symbols[] = {12};
  const auto address = [&](const auto& frame) { return frame.get(); };
  const Frame* first = address(plan->acquire_frame(symbols));
  CHECK(plan->acquire_frame(symbols).get() == first);
  {
    const auto held = plan->acquire_frame(symbols);
    CHECK(plan->acquire_frame(symbols).get() != held.get());
  }
  const auto inputs = random_inputs(graph, symbols);
  auto x = to_value(inputs[0]), w = to_value(inputs[1]);
  std::vector<float> out(12);
  void* const in_pointers[] = {x->data(), w->data()};
  void* const out_pointers[] = {out.data()};
  plan->acquire_frame(symbols)->run(in_pointers, out_pointers);
  const auto before = memory_stats().allocations;
  for (int i = 0; i < 10; ++i) plan->acquire_frame(symbols)->run(in_pointers, out_pointers);
  CHECK(memory_stats().allocations == before);
}

TEST_CASE("equal kernels are compiled once", "[plan]") {
  clear_kernel_cache();
  const auto before = kernel_cache_stats();
  const auto a = build_plan(prepared("graph(%x: f32[30, 40], %y: f32[30, 40]) { return exp(add(%x, %y)) }"), fused());
  const auto b = build_plan(prepared("graph(%x: f32[s0, 7], %y: f32[s0, 7]) { return exp(add(%x, %y)) }"), fused());
  const auto after = kernel_cache_stats();
  CHECK(after.misses - before.misses == 1);
  CHECK(after.hits - before.hits == 1);
  CHECK(a->steps()[0].executable == b->steps()[0].executable);
  clear_kernel_cache();
  CHECK(kernel_cache_stats().entries == 0);
  CHECK(first_difference(
            *a, prepared("graph(%x: f32[30, 40], %y: f32[30, 40]) { return exp(add(%x, %y)) }"),
            random_inputs(prepared("graph(%x: f32[30, 40], %y: f32[30, 40]) { return exp(add(%x, %y)) }"))) == "");
}

TEST_CASE("after a back end that declines comes the next, and the plan says why", "[plan]") {
  struct Picky : OtherBackend {
    std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                              std::string* why) override {
      if (kernel.kind == KernelKind::pointwise) return OtherBackend::compile(kernel, schedule, why);
      if (why != nullptr) *why = "only pointwise kernels";
      return nullptr;
    }
  } picky;
  const auto plan = build_plan(prepared("graph(%x: f32[3, 4], %w: f32[4, 5]) { return exp(exp(slice(matmul(%x, %w)) "
                                        "{starts=[0, 0], ends=[2, 2], steps=[1, 1]})) }"),
                               fused({&picky, reference()}));
  REQUIRE(plan->kernel_count() == 2);
  CHECK(plan->steps()[0].backend == "reference");
  CHECK(plan->steps()[0].declined == "other: only pointwise kernels");
  CHECK(plan->steps()[1].backend == "other");
  CHECK(plan->text().find("only pointwise kernels") != std::string::npos);
}

TEST_CASE("composites that no back end computes whole are decomposed", "[plan]") {
  const Graph graph = parse_graph("graph(%x: f32[3, 4]) { return softmax(%x) {axes=[1]} }");
  for (const auto& backends : backend_lists())
    CHECK(first_difference(*build_plan(graph, fused(backends)), graph, random_inputs(graph)) == "");
}
