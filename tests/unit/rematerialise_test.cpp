// Keeping or computing again: the minimum cut, the pass as text, the order of steps, and the memory budget of
// compile().
#include "pass_checks.hpp"

#include <sinter/passes/minimum_cut.hpp>
#include <sinter/passes/rematerialise.hpp>
#include <sinter/sinter.hpp>

#include <string>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {

std::vector<float> floats(const Tensor& x) { return to_vector<float>(x); }

/// Layers of one width: found as blocks. With a width for each layer none is found.
std::vector<Tensor> weights_of(int layers, std::int64_t first, std::int64_t step) {
  manual_seed(11);
  std::vector<Tensor> weights;
  for (int i = 0; i < layers; ++i) weights.push_back(randn({first + i * step, first + (i + 1) * step}) * 0.2f);
  for (const Tensor& w : weights) eval(w);
  return weights;
}
Tensor batch_of(std::int64_t rows, std::int64_t columns) {
  manual_seed(12);
  Tensor x = randn({rows, columns});
  eval(x);
  return x;
}

template <class Layer>
auto training(Layer layer) {
  return [layer](Tensor x, const std::vector<Tensor>& weights) {
    return jit::value_and_grad<1>([layer](Tensor h, const std::vector<Tensor>& ws) {
      for (const Tensor& w : ws) h = layer(h, w);
      return mean(h * h);
    })(x, weights);
  };
}
const auto rectified = [](Tensor h, Tensor w) { return Tensor(relu(matmul(h, w))); };
const auto smooth = [](Tensor h, Tensor w) { return Tensor(tanh(matmul(h, w))); };

/// Loss and gradients under a budget are those without, bit for bit; gives the peaks.
template <class F>
std::pair<std::int64_t, std::int64_t> peaks_under(double share, const F& f, const Tensor& x,
                                                  const std::vector<Tensor>& weights) {
  auto plain = jit::compile(f);
  auto [loss, gradients] = plain(x, weights);
  const std::int64_t peak = plain.stats().peak_bytes;
  auto tight = jit::compile(f, {.memory_budget = static_cast<std::int64_t>(share * static_cast<double>(peak))});
  for (int call = 0; call < 2; ++call) {
    auto [loss_again, gradients_again] = tight(x, weights);
    CHECK(floats(loss) == floats(loss_again));
    REQUIRE(gradients.size() == gradients_again.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) CHECK(floats(gradients[i]) == floats(gradients_again[i]));
  }
  return {peak, tight.stats().peak_bytes};
}

}  // namespace

TEST_CASE("minimum cut: the smallest of several, and the one nearest to the sink", "[passes]") {
  FlowNetwork network;
  const auto a = network.add_vertex(), b = network.add_vertex(), c = network.add_vertex();
  network.add_edge(FlowNetwork::source, a, 5);
  network.add_edge(FlowNetwork::source, b, 7);
  network.add_edge(a, c, FlowNetwork::unlimited);
  network.add_edge(b, c, 2);
  network.add_edge(c, FlowNetwork::sink, 7);
  CHECK(network.cut() == 7);
  CHECK_FALSE(network.is_sink_side(a));
  CHECK_FALSE(network.is_sink_side(c));  // the edge after c is as small as the two before it
  FlowNetwork endless;
  endless.add_edge(FlowNetwork::source, FlowNetwork::sink, FlowNetwork::unlimited);
  CHECK(endless.cut() == FlowNetwork::unlimited);
  FlowNetwork crossed;  // the first path must be taken back in part
  const auto p = crossed.add_vertex(), q = crossed.add_vertex();
  crossed.add_edge(FlowNetwork::source, p, 1);
  crossed.add_edge(FlowNetwork::source, q, 1);
  crossed.add_edge(p, q, 1);
  crossed.add_edge(p, FlowNetwork::sink, 1);
  crossed.add_edge(q, FlowNetwork::sink, 1);
  CHECK(crossed.cut() == 2);
}

TEST_CASE("rematerialise: what is cheap comes again behind a barrier", "[passes]") {
  const char* in = "%x: f32[64, 8], %w: f32[8, 8]";
  // exp(x) is held while most is held, and wanted long after; its copy waits for what is computed right before it is
  // wanted.
  const Graph made = Rematerialise{.price = 1 << 10}(
      parse_graph(graph_text(in,
                             "%e = exp(%x); %p = matmul(%e, %w); %q = exp(%p); %r = matmul(%q, %w); %s = matmul(%r, "
                             "%w); %t = exp(%s); return add(matmul(%t, %w), %e)")));
  INFO(made.text());
  CHECK_NOTHROW(verify(made));
  check_equal(made, parse_graph(graph_text(in,
                                           "%e = exp(%x); %p = matmul(%e, %w); %q = exp(%p); %r = matmul(%q, %w); %s = "
                                           "matmul(%r, %w); %t = exp(%s); %u = matmul(%t, %w);"
                                           "%f = slice(%u) {starts=[0, 0], ends=[1, 1], steps=[1, 1]}; return add(%u, "
                                           "exp(barrier(%x, reshape(%f) {shape=[]})))")));
}

TEST_CASE("rematerialise leaves what must not or need not run again", "[passes]") {
  const char* in = "%x: f32[64, 8], %w: f32[8, 8]";
  const char* rest =
      "%p = matmul(%e, %w); %q = exp(%p); %r = matmul(%q, %w); %s = matmul(%r, %w); return add(matmul(%s, %w), %e)";
  const auto program = [&](const char* value) { return std::string(value) + rest; };
  // At no price nothing runs twice.
  expect_unchanged(Rematerialise{.price = 0}, in, program("%e = exp(%x); "));
  // A product stays, unless it is asked for.
  expect_unchanged(Rematerialise{.price = 1 << 20}, in, program("%e = matmul(%x, %w); "));
  const Graph again = Rematerialise{.price = 1 << 20, .products = Products::recomputed}(
      parse_graph(graph_text(in, program("%e = matmul(%x, %w); "))));
  CHECK_NOTHROW(verify(again));
  CHECK(again.nodes().size() == parse_graph(graph_text(in, program("%e = matmul(%x, %w); "))).nodes().size() + 1);
  // A product with a reader besides the sum does not contract with it: taking that reader away would change the bits.
  expect_unchanged(Rematerialise{.price = 1 << 20}, in,
                   program("%e = mul(%x, %x); %a = add(%e, %x); %b = matmul(%a, %w); "));
  // Values of the host and effects are not repeated.
  expect_unchanged(Rematerialise{.price = 1 << 20}, "%x: f32[64, 8], %w: f32[8, 8], %i: i64[64]",
                   program("%e = scatter_add(%i, %x) {shape=[64, 8], axes=[0]}; "));
  expect_unchanged(Rematerialise{.price = 1 << 20}, in, "return exp(%x), matmul(%x, %w)");
}

TEST_CASE("random numbers that come again are the same", "[passes]") {
  const char* in = "%k: i64[], %n: i64[], %x: f32[64, 8], %w: f32[8, 64], %v: f32[64, 8]";
  const char* text =
      "%b = cast(random_bits(%k, %n) {shape=[64, 8]}) {dtype=f32}; %p = matmul(mul(%x, %b), %w); %q = exp(%p); %r = "
      "matmul(%q, %v);"
      "%s = matmul(%r, %w); return add(matmul(%s, %v), %b)";
  const Graph made = Rematerialise{.price = 1 << 20}(parse_graph(graph_text(in, text)));
  INFO(made.text());
  CHECK_NOTHROW(verify(made));
  int draws = 0;
  for (const Node& node : made.nodes()) {
    if (node.op != &op_info<ops::RandomBits>) continue;
    ++draws;
    CHECK(node.inputs[0] == made.inputs()[0]);
    CHECK(node.inputs[1] == made.inputs()[1]);
  }
  CHECK(draws == 2);
}

TEST_CASE("memory budget: a deep network holds less, with the same bits") {
  const Tensor x = batch_of(64, 16);
  for (double share : {0.7, 0.45}) {
    const auto [peak, tight] = peaks_under(share, training(rectified), x, weights_of(14, 16, 2));
    INFO(share << " of " << peak << ": " << tight);
    CHECK(tight > 0);
    CHECK(tight <= static_cast<std::int64_t>(share * static_cast<double>(peak)));
  }
  const auto [peak, tight] = peaks_under(0.6, training(smooth), x, weights_of(14, 16, 2));
  CHECK(static_cast<double>(tight) <= 0.6 * static_cast<double>(peak));
}

TEST_CASE("memory budget: blocks that are found, and marked ones") {
  const Tensor x = batch_of(128, 32);
  const auto weights = weights_of(12, 32, 0);
  const auto [peak, tight] = peaks_under(0.6, training(rectified), x, weights);
  CHECK(static_cast<double>(tight) <= 0.6 * static_cast<double>(peak));
  const auto block = jit::region([](Tensor h, Tensor w) { return Tensor(tanh(matmul(h, w))); });
  const auto [marked, less] = peaks_under(0.7, training(block), x, weights);
  CHECK(static_cast<double>(less) <= 0.7 * static_cast<double>(marked));
}

TEST_CASE("memory budget: Variables, random numbers, checkpoint, vmap, changing extents") {
  const auto weights = weights_of(10, 16, 2);
  std::vector<Variable> slots;
  for (const Tensor& w : weights) slots.emplace_back(w);
  const auto step = [&](Tensor x) {
    auto loss = [&](const std::vector<Variable>& ws) {
      Tensor h = x;
      for (const Variable& w : ws) {
        Tensor mask = cast(rand({h.size(0), h.size(1)}) > 0.25, DType::f32);
        h = tanh(matmul(h * mask, w));
      }
      return mean(h * h);
    };
    auto [value, gradients] = jit::value_and_grad(loss)(slots);
    for (const Variable& slot : slots) slot -= gradients[slot] * 0.1f;
    return value;
  };
  const auto run = [&](jit::Options options, std::int64_t* peak) {
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i].set(weights[i]);
    manual_seed(3);
    auto f = jit::compile(step, options);
    std::vector<float> values;
    for (std::int64_t rows : {64, 64, 48, 80}) values.push_back(item<float>(f(batch_of(rows, 16))));
    for (const Variable& slot : slots)
      for (float w : floats(slot)) values.push_back(w);
    *peak = f.stats().peak_bytes;
    return values;
  };
  std::int64_t plain_peak = 0, peak = 0;
  const auto plain = run({}, &plain_peak);
  const std::int64_t budget = plain_peak * 3 / 4;
  CHECK(run({.memory_budget = budget}, &peak) == plain);
  CHECK(peak <= budget);

  const auto saved = [](Tensor h, Tensor w) { return Tensor(jit::checkpoint(smooth)(h, w)); };
  const auto [before, after] = peaks_under(0.9, training(saved), batch_of(64, 16), weights);
  CHECK(static_cast<double>(after) <= 0.9 * static_cast<double>(before));
  const auto each = [](Tensor xs, const std::vector<Tensor>& ws) {
    auto one = [ws](Tensor x) {
      return jit::grad([ws](Tensor h) {
        for (const Tensor& w : ws) h = tanh(matmul(h, w));
        return sum(h);
      })(x);
    };
    return std::pair{sum(xs), std::vector<Tensor>{jit::vmap(one)(xs)}};
  };
  const auto [many, fewer] = peaks_under(0.75, each, reshape(batch_of(256, 16), {8, 32, 16}), weights);
  CHECK(static_cast<double>(fewer) <= 0.75 * static_cast<double>(many));
}

TEST_CASE("memory budget: what cannot be met says what can") {
  const Tensor x = batch_of(64, 16);
  const auto weights = weights_of(6, 16, 2);
  auto f = jit::compile(training(smooth), {.memory_budget = 1000});
  CHECK_THROWS_WITH(f(x, weights), Catch::Contains("memory_budget is 1000 bytes") && Catch::Contains("not less than") &&
                                       Catch::Contains("give at least"));
  CHECK_THROWS_WITH(jit::compile(training(smooth), {.memory_budget = -1}), Catch::Contains("memory_budget is -1"));
  CHECK_THROWS_WITH(jit::compile(training(smooth), {.backend = "noop", .memory_budget = 1 << 20}),
                    Catch::Contains("contradicts the back end 'noop'"));
  // A budget that is met anyway changes nothing, but that nothing is grouped.
  auto plain = jit::compile(training(smooth), {.horizontal_fusion = false}),
       ample = jit::compile(training(smooth), {.memory_budget = 1 << 30});
  plain(x, weights);
  ample(x, weights);
  CHECK(ample.stats().peak_bytes == plain.stats().peak_bytes);
  CHECK(ample.stats().kernels == plain.stats().kernels);
}

TEST_CASE("gradients of weights run as soon as they free what was kept for them") {
  const auto weights = weights_of(16, 32, 1);
  auto f = jit::compile(training(rectified));
  f(batch_of(64, 32), weights);
  // All activations, one gradient of them, and little more; not all gradients of activations too.
  std::int64_t activations = 0;
  for (const Tensor& w : weights) activations += 64 * w.size(1).value() * 4;
  INFO(f.stats().peak_bytes << " for " << activations);
  CHECK(f.stats().peak_bytes <= activations * 5 / 4);
}

TEST_CASE("memory budget: each piece of a function that reads values") {
  const auto weights = weights_of(12, 16, 2);
  const Tensor x = batch_of(64, 16);
  const auto f = [](Tensor in, const std::vector<Tensor>& ws) {
    auto [loss, gradients] = training(smooth)(in, ws);
    if (item(loss) > 100) return std::pair{loss, std::vector<Tensor>{gradients[0]}};
    return std::pair{Tensor(loss * 2), gradients};
  };
  auto plain = jit::compile(f), tight = jit::compile(f, {.memory_budget = 70000});
  auto [loss, gradients] = plain(x, weights);
  auto [loss_again, gradients_again] = tight(x, weights);
  CHECK(floats(loss) == floats(loss_again));
  REQUIRE(gradients.size() == gradients_again.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) CHECK(floats(gradients[i]) == floats(gradients_again[i]));
  auto impossible = jit::compile(f, {.memory_budget = 1000});
  CHECK_THROWS_WITH(impossible(x, weights), Catch::Contains("memory_budget is 1000 bytes"));
}

TEST_CASE("rematerialise: bodies whose symbols the graph does not list are weighed as well") {
  const Graph body = parse_graph("graph(%x: f32[s0, s1]) { return tanh(%x), sum(%x) {axes=[0]} }").with_symbols({});
  for (const Node& node : body.nodes()) {
    if (node.op->kind == OpKind::leaf) continue;
    CHECK(recompute_cost(body, node, Products::kept) > 0);
    CHECK(recompute_cost(body, node, Products::kept) < cost_unlimited);
  }
  CHECK(bytes_of(body, body.outputs()[0]) == Graph::unknown_extent * Graph::unknown_extent * 4);
}
