// Plans in which scans, reductions with state, guarded loads and scatters meet, against the oracle: on every back end,
// fused and op by op.
#include "../catch.hpp"
#ifdef SINTER_CUDA
#include "../emulated_cuda.hpp"
#endif
#include "../plan_harness.hpp"

#include <cstring>
#include <string>

using namespace sinter_test;

namespace {

constexpr const char* graphs[] = {
    // Duplicate places: the last in the order of the index wins, whatever order its producer has.
    "graph(%b: f32[4, 5], %i: i64[6, 7], %v: f32[6, 7, 5]) { return scatter(%b, permute(add(permute(%i) {axes=[1, 0]}, "
    "0)) {axes=[1, 0]}, %v) {axes=[0], shared=0, inner=0, combine=none} }",
    "graph(%b: f32[4], %i: i64[6, 7], %v: f32[7, 6]) { return scatter(%b, rem(mul(%i, 3), 4), permute(exp(%v)) "
    "{axes=[1, 0]}) {axes=[0], shared=0, inner=0, combine=none} }",
    "graph(%b: f32[4], %i: i64[7, 6], %v: f32[6, 7]) { %p = permute(rem(mul(%i, 3), 4)) {axes=[1, 0]} return "
    "scatter(%b, %p, exp(%v)) {axes=[0], shared=0, inner=0, combine=none} }",
    "graph(%b: f32[4], %i: i64[7, 6], %v: f32[42]) { %p = reshape(permute(rem(mul(%i, 3), 4)) {axes=[1, 0]}) "
    "{shape=[42]} return scatter(%b, %p, exp(%v)) {axes=[0], shared=0, inner=0, combine=none} }",
    // Patches read by all that is not element by element.
    "graph(%x: f32[6, s0]) { %p = mul(pad(%x) {low=[0, 2], high=[0, 3]}, 2) return cumsum(%p) {axes=[1]}, "
    "cummax(%p) {axes=[1], reversed}, %p }",
    "graph(%x: f32[6, s0]) { %p = pad(exp(%x)) {low=[0, 2], high=[0, 3]} return cumsum(%p) {axes=[1], reversed, "
    "exclusive}, argmax(%p) {axes=[1]}, argmin(mul(%p, %p)) {axes=[0, 1]} }",
    "graph(%x: f32[6, s0], %w: f32[8, 5]) { %p = tanh(pad(%x) {low=[1, 0], high=[1, 0]}) return "
    "matmul(permute(%p) {axes=[1, 0]}, %w), tanh(pad(matmul(permute(%p) {axes=[1, 0]}, %w)) {low=[1, 1], high=[0, 0]}) "
    "}",
    "graph(%b: f32[4, 9], %i: i64[5], %x: f32[5, 7]) { %p = pad(%i) {low=[1], high=[2]} %v = pad(mul(%x, 2)) {low=[1, "
    "1], high=[2, 1], value=3} return scatter(%b, %p, mul(%v, 2)) {axes=[0], combine=add}, add(%p, 1) }",
    "graph(%x: f32[9, 4], %i: i64[s0]) { %p = pad(%i) {low=[1], high=[2], value=1} return take(%x, add(%p, %p)) "
    "{axes=[0]}, mul(take(pad(%x) {low=[1, 0], high=[0, 0]}, %i) {axes=[0]}, 2) }",
    "graph(%x: f32[9, s0]) { %c = cumsum(%x) {axes=[1]} return add(pad(%c) {low=[0, 1], high=[0, 0]}, 1), "
    "add(concat(%c, %c) {axes=[1]}, 1), cumsum(add(concat(%c, neg(%c)) {axes=[1]}, 1)) {axes=[1]} }",
    // Reversed axes beside positions, gathers, windows and narrow operands.
    "graph(%x: f32[5, s0]) { %i = div(iota {axes=[1], shape=[5, s0], dtype=f32}, 64) return cumsum(mul(%x, %i)) "
    "{axes=[1], "
    "reversed}, add(cumsum(%x) {axes=[1], reversed}, %i) }",
    "graph(%x: f32[s0, 5]) { %i = div(iota {axes=[0], shape=[s0, 5], dtype=f32}, 64) return cumsum(mul(%x, %i)) "
    "{axes=[0], "
    "reversed}, add(cummin(%x) {axes=[0], reversed, exclusive}, %i) }",
    "graph(%x: f32[5, 9], %i: i32[s0]) { return cumsum(take(%x, %i) {axes=[1]}) {axes=[1], reversed}, "
    "cummax(take(%x, %i) {axes=[1]}) {axes=[1]} }",
    "graph(%x: f32[9, 5], %i: i64[s0]) { %t = take(%x, %i) {axes=[0]} return cumprod(tanh(%t)) {axes=[0], reversed}, "
    "add(cumsum(%t) {axes=[1], reversed}, take(%x, add(%i, 1)) {axes=[0]}) }",
    "graph(%k: i64[], %c: i64[], %x: f32[6, s0]) { %r = cast(rem(random_bits(%k, %c) {shape=[6, s0]}, 7)) {dtype=f32} "
    "return cumsum(add(%x, %r)) {axes=[1], reversed}, add(cumsum(%x) {axes=[1], reversed}, %r) }",
    "graph(%x: bool[5, s0], %y: i32[5, s0]) { return cumsum(cast(%x) {dtype=i32}) {axes=[1], reversed}, "
    "not(%x), cumsum(add(cast(%x) {dtype=i32}, %y)) {axes=[1], reversed, exclusive} }",
    "graph(%x: f32[5, s0]) { %s = cumsum(%x) {axes=[1], reversed} return cast(gt(%s, 1)) {dtype=i32}, gt(%s, 0) }",
    "graph(%x: f64[20]) { return cumsum(windows(%x) {axes=[0], sizes=[5], strides=[3]}) {axes=[1], reversed}, "
    "cumsum(slice(%x) {starts=[1], ends=[20], steps=[3]}) {axes=[0], reversed} }",
    "graph(%x: f32[6, 4]) { return cumsum(reshape(permute(exp(%x)) {axes=[1, 0]}) {shape=[24]}) {axes=[0], reversed}, "
    "cumsum(expand(slice(exp(%x)) {starts=[0, 0], ends=[6, 1], steps=[1, 1]}) {shape=[6, 9]}) {axes=[1]} }",
    "graph(%x: f32[6, s0]) { %c = cumsum(%x) {axes=[1]} %d = cumsum(%x) {axes=[1], reversed} return sub(add(%c, %d), "
    "%x), argmax(%c) {axes=[1]}, argmax(mul(%d, %x)) {axes=[0]}, sum(%d) {axes=[0, 1]} }",
    "graph(%x: f32[6, s0]) { %c = cumsum(sub(%x, amax(%x) {axes=[1], keepdim})) {axes=[1]} return div(%c, sum(%c) "
    "{axes=[1], keepdim}), argmax(%x) {axes=[1]}, cummax(%x) {axes=[0]} }",
    "graph(%x: f32[3, 4, s0]) { %c = cumsum(%x) {axes=[1]} return cumsum(%c) {axes=[2]}, cumsum(%c) {axes=[1], "
    "reversed}, argmax(%c) {axes=[0, 2]}, argmin(%c) {axes=[1]} }",
    // Scans of one element and of nothing.
    "graph(%x: f32[5, 1]) { return cumsum(exp(%x)) {axes=[1]}, cumsum(%x) {axes=[1], exclusive}, cummax(%x) {axes=[1], "
    "exclusive, reversed} }",
    "graph(%x: f32[0, 5], %y: f32[5, 0]) { return cumsum(exp(%x)) {axes=[1]}, cumsum(%x) {axes=[0]}, cumsum(%y) "
    "{axes=[1], reversed}, argmax(%x) {axes=[1]}, pad(%y) {low=[0, 1], high=[0, 1], value=2} }",
    "graph(%b: f32[4, 5], %i: i64[0], %v: f32[0, 5], %e: f32[0, 5], %j: i64[0]) { return scatter(%b, %i, %v) "
    "{axes=[0], combine=max}, add(scatter(%b, %i, exp(%v)) {axes=[0], combine=none}, 1), scatter_add(%i, %v) "
    "{shape=[4, 5], axes=[0]}, scatter(%e, %j, %v) {axes=[0], combine=add} }",
    "graph(%x: f32[0]) { return concat(%x, exp(%x)) {axes=[0]}, add(pad(%x) {low=[0], high=[0]}, 1), add(pad(%x) "
    "{low=[3], high=[40], value=2}, 1) }",
    // Scatters beside all others.
    "graph(%b: f32[4, 9], %i: i64[s0], %x: f32[s0, 9]) { %c = cumsum(%x) {axes=[1]} return scatter(%b, %i, %c) "
    "{axes=[0], combine=max}, scatter(%b, rem(argmax(%c) {axes=[1]}, 4), %c) {axes=[0], combine=none}, %b }",
    "graph(%b: f32[9, 9], %x: f32[s0, 9]) { %a = argmax(%x) {axes=[1]} return scatter(%b, %a, mul(%x, 2)) {axes=[0], "
    "combine=add}, take(%b, %a) {axes=[1]} }",
    "graph(%b: f32[4, 9], %i: i64[s0], %x: f32[s0, 9]) { %s = scatter(exp(%b), %i, %x) {axes=[0], combine=add} return "
    "cumsum(%s) {axes=[0]}, mul(pad(%s) {low=[1, 0], high=[0, 0]}, 2), argmax(%s) {axes=[0, 1]}, "
    "matmul(%s, permute(%s) {axes=[1, 0]}) }",
    "graph(%b: f32[4, 9], %i: i64[s0], %x: f32[s0, 9]) { %e = exp(%b) return add(scatter(%e, %i, take(%e, %i) "
    "{axes=[0]}) {axes=[0], combine=add}, %e) }",
    "graph(%b: f32[4, 9], %i: i64[s0], %x: f32[s0, 9]) { %e = exp(%b) return scatter(%e, %i, take(%e, %i) "
    "{axes=[0]}) {axes=[0], combine=add} }",
    "graph(%b: f32[6, 9], %i: i64[s0], %x: f32[s0, 9]) { %e = update_slice(exp(%b), slice(%b) {starts=[0, 0], ends=[2, "
    "9], steps=[1, 1]}) {starts=[3, 0], steps=[1, 1]} return scatter(%e, %i, %x) {axes=[0], combine=min}, neg(%e) }",
    "graph(%b: f32[4], %i: i64[s0], %j: i64[9]) { %k = take(%j, %i) {axes=[0]} return scatter(%b, %k, cast(add(%k, "
    "%i)) {dtype=f32}) {axes=[0], combine=add}, scatter(%b, rem(cumsum(%i) {axes=[0]}, 4), cast(%i) {dtype=f32}) "
    "{axes=[0], combine=none} }",
    "graph(%b: f32[3, 4], %i: i64[3, s0], %x: f32[3, s0]) { return scatter(%b, %i, exp(%x)) {axes=[1], shared=1, "
    "inner=0, combine=none}, scatter(%b, sub(3, %i), cumsum(%x) {axes=[1], reversed}) {axes=[1], shared=1, inner=0, "
    "combine=add} }",
    // Patches whose parts are reductions or scans, with several reduced axes.
    "graph(%x: f32[6, s0]) { %m = sum(%x) {axes=[1]} return add(pad(%m) {low=[1], high=[1]}, 1), "
    "add(concat(%m, exp(%m)) {axes=[0]}, 1), var(pad(%x) {low=[1, 1], high=[1, 1]}) {axes=[0, 1]}, "
    "logsumexp(pad(%x) {low=[1, 1], high=[1, 1]}) {axes=[1]} }",
    "graph(%x: f64[4, 3, s0]) { return var(permute(%x) {axes=[2, 0, 1]}) {axes=[0, 2]}, logsumexp(%x) {axes=[2]}, "
    "argmax(permute(%x) {axes=[2, 0, 1]}) {axes=[0, 2]}, argmin(permute(%x) {axes=[2, 0, 1]}) {axes=[0, 1, 2]} }",
    "graph(%x: f32[8, s0]) { %u = update_slice(%x, full {shape=[2, 1], value=4, dtype=f32}) {starts=[3, 1], steps=[1, "
    "1]} return mul(%u, %x), mul(amax(%u) {axes=[1], keepdim}, %u) }",
    "graph(%x: i64[s0]) { %p = pad(%x) {low=[2], high=[1], value=1} return add(%p, iota {axes=[0], shape=[s0 + 3], "
    "dtype=i64}), cumsum(%p) {axes=[0], reversed} }",
    "graph(%x: bool[s0], %y: bool[3]) { %p = concat(%x, %y, not(%x)) {axes=[0]} return not(%p), cast(%p) {dtype=f32} }",
};

std::vector<std::vector<Backend*>> all_backends() {
  auto lists = backend_lists();
#ifndef SINTER_NO_X86
  static Backend* avx2 = std::make_unique<x86::X86Backend>(x86::Isa::avx2).release();
  lists.push_back({avx2, reference()});
#endif
  return lists;
}

void check(const Graph& graph, const PlanOptions& options, const std::string& text) {
  INFO(text << "\n" << options.backends[0]->cache_key() << (options.fuse ? " fused" : " op by op"));
  std::string found;
  try {
    const auto plan = build_plan(graph, options);
    for (std::int64_t extent : {5, 2, 1, 70, 0}) {
      if (graph.symbols().empty() && extent != 5) continue;
      if (extent == 0 && text.find("arg") != std::string::npos) continue;
      if (extent == 0 && text.find("amax") != std::string::npos) continue;
      const std::vector<std::int64_t> symbols(graph.symbols().size(), extent);
      const auto inputs = random_inputs(graph, symbols);
      for (int again = 0; again < 2 && found.empty(); ++again) {
        found = first_difference(*plan, graph, inputs);
        if (!found.empty()) found += " (extent " + std::to_string(extent) + ")\n" + plan->text();
      }
    }
  } catch (const std::exception& error) { found = error.what(); }
  CHECK(found == "");
}

}  // namespace

TEST_CASE("scans, reductions with state, guarded loads and scatters meet", "[plan]") {
  for (const char* text : graphs) {
    INFO(text);
    const Graph graph = prepared(text);
    for (const auto& backends : all_backends()) {
      check(graph, fused(backends), text);
      check(graph, op_by_op(backends), text);
    }
  }
}

TEST_CASE("the last pass over rows may write where they lie", "[plan]") {
  for (const char* const what :
       {"return matmul(softmax(%a) {axes=[1]}, %w)", "return matmul(softmax(%a) {axes=[0]}, %w)",
        "%m = sum(%a) {axes=[1], keepdim} return matmul(tanh(div(%a, %m)), %w)"})
    for (const char* const extents : {"7, 5000", "300, 33", "1, 70000", "33, 1"}) {
      const std::string rows(extents, std::strchr(extents, ',')), columns(std::strchr(extents, ',') + 2);
      INFO(what << ", " << extents);
      const Graph graph = prepared("graph(%x: f32[" + rows + ", 3], %v: f32[3, " + columns + "], %w: f32[" + columns +
                                   ", 2]) { %a = matmul(%x, %v) " + what + " }");
      const auto plan = build_plan(graph, fused());
      const bool is_one_kernel = std::strstr(what, "axes=[1]") != nullptr && rows != "1" && columns != "1";
      if (is_one_kernel) CHECK(plan->slots().size() == 1);
      CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
    }
  // Of two results one is still to be read when the other is written.
  const Graph graph = prepared(
      "graph(%x: f32[300, 3], %v: f32[3, 33], %w: f32[33, 2]) { %a = matmul(%x, %v) %s = softmax(%a) {axes=[1]} "
      "%m = amax(%a) {axes=[1], keepdim} %y = matmul(%s, %w) return matmul(mul(%a, %m), %w), %y }");
  const auto plan = build_plan(graph, fused());
  CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
}

#ifdef SINTER_CUDA
TEST_CASE("scatters in the order of their index in emulated CUDA C", "[plan]") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  for (std::size_t i = 0; i < 4; ++i) {
    EmulatedCuda emulated;
    check(prepared(graphs[i]), fused({&emulated}), graphs[i]);
  }
}
#endif
