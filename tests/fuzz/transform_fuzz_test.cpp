// Fuzzing of transforms: random programs through vmap against a loop over the examples, forward against reverse mode,
// and the halves of a vjp against the whole, all evaluated by the oracle.
#include "../catch.hpp"
#include "../plan_harness.hpp"
#include "fuzz_loop.hpp"
#include "random_program.hpp"

#include <sinter/graph/verify.hpp>

#include <cstdio>

using namespace sinter_test;

namespace {

constexpr int examples = 3;
using oracle::Array;
using Arrays = std::vector<Array>;

Array example_of(const Array& batch, int example) {
  Array one{batch.dtype, {batch.extents.begin() + 1, batch.extents.end()}, {}};
  const std::int64_t size = one.size();
  one.data.assign(batch.data.begin() + example * size, batch.data.begin() + (example + 1) * size);
  return one;
}

/// The first example in which the mapped graph differs from the graph, or "".
std::string vmap_difference(const Graph& graph, std::uint32_t mask) {
  const Graph mapped = ProgramGenerator::mapped(graph, mask, examples);
  verify(mapped);
  const Arrays inputs = random_inputs(mapped, std::vector<std::int64_t>{5});
  const Arrays found = oracle::evaluate(mapped, inputs);
  for (int e = 0; e < examples; ++e) {
    Arrays own;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      own.push_back((mask >> i & 1) != 0 ? example_of(inputs[i], e) : inputs[i]);
    const Arrays wanted = oracle::evaluate(graph, own);
    for (std::size_t j = 0; j < wanted.size(); ++j)
      if (const std::string text = difference(example_of(found[j], e), wanted[j], 1e-6); !text.empty())
        return "example " + std::to_string(e) + ", output " + std::to_string(j) + ": " + text;
  }
  return "";
}

long double dot(const Array& a, const Array& b) {
  long double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

/// The largest number anywhere in the graph: sums that cancel are right up to a rounding of it.
long double largest_value(const Graph& graph, const Arrays& inputs) {
  GraphBuilder builder(graph);
  std::vector<Value> values;
  for (const Node& node : graph.nodes()) {
    const Value made = builder.copy(node, node.inputs);
    for (std::size_t r = 0; r < node.types.size(); ++r)
      if (is_floating(node.types[r].dtype)) values.push_back({made.node, static_cast<std::int32_t>(r)});
  }
  long double largest = 0;
  for (const Array& array : oracle::evaluate(builder.finish(values), inputs))
    for (long double x : array.data) largest = std::max(largest, std::abs(x));
  return largest;
}

/// w . (J t) against (J' w) . t, with J t in forward mode and J' w by the halves of a vjp.
std::string derivative_difference(const Graph& graph) {
  const std::size_t parameters = graph.inputs().size(), results = graph.outputs().size();
  const std::vector<std::int64_t> symbols{5};
  const Graph jvp = jvp_graph(graph, parameters, results);
  verify(jvp);
  const Arrays inputs = random_inputs(jvp, symbols);
  const Arrays tangents = oracle::evaluate(jvp, inputs);
  const ForwardBackward halves = split_vjp(graph, parameters, results);
  verify(halves.forward);
  verify(halves.backward);
  const Arrays forward =
      oracle::evaluate(halves.forward, {inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(parameters)});
  Arrays backward_inputs(forward.begin() + static_cast<std::ptrdiff_t>(results), forward.end());
  long double forward_mode = 0, reverse_mode = 0, scale = 1;
  for (std::size_t i = 0; i < results; ++i) {
    Array weights = tangents[results + i];  // as good as any
    for (std::size_t k = 0; k < weights.data.size(); ++k) weights.data[k] = 1 + 0.1L * static_cast<long double>(k % 7);
    forward_mode += dot(weights, tangents[results + i]);
    for (long double x : tangents[results + i].data) scale += std::abs(x);
    backward_inputs.push_back(weights);
  }
  Graph backward = halves.backward;
  if (!backward.symbols().empty()) {  // the rows are where the saved values and gradients have them
    GraphBuilder builder(backward);
    builder.symbols().clear();
    for (std::size_t i = 0; i < backward.inputs().size() && builder.symbols().empty(); ++i)
      for (int axis = 0; axis < backward.type(backward.inputs()[i]).shape.rank(); ++axis)
        if (backward.type(backward.inputs()[i]).shape[axis].as_symbol() == 0 && builder.symbols().empty())
          builder.symbols().push_back({.input = static_cast<std::int32_t>(i), .axis = axis, .hint = 5});
    if (builder.symbols().empty()) return "";
    for (const Node& node : backward.nodes()) builder.copy(node, node.inputs);
    backward = builder.finish(std::vector<Value>(backward.outputs().begin(), backward.outputs().end()));
  }
  const Arrays gradients = oracle::evaluate(backward, backward_inputs);
  for (std::size_t i = 0; i < parameters; ++i) reverse_mode += dot(gradients[i], inputs[parameters + i]);
  const long double apart = std::abs(forward_mode - reverse_mode);
  if (apart <= 1e-6L * scale) return "";
  // A recurrence may make derivatives grow by many orders of magnitude on the way to a small sum.
  if (apart <= 1e-17L * static_cast<long double>(graph.nodes().size()) *
                   std::max(largest_value(jvp, inputs), largest_value(backward, backward_inputs)))
    return "";
  return "forward mode gives " + std::to_string(static_cast<double>(forward_mode)) + ", reverse mode " +
         std::to_string(static_cast<double>(reverse_mode));
}

void check_seed(std::uint64_t seed) {
  const Graph graph = ProgramGenerator(seed).generate(ProgramGenerator::Transformed::no);
  std::string what;
  try {
    const auto all = (1u << graph.inputs().size()) - 1;
    const auto mask = static_cast<std::uint32_t>(1 + seed * 7 % all);
    what = vmap_difference(graph, mask);
    if (what.empty() && graph.nodes().size() < 45) what = derivative_difference(graph);
  } catch (const std::exception& error) { what = error.what(); }
  if (!what.empty()) FAIL("seed " << seed << ": " << what << "\n" << graph.text());
}

}  // namespace

TEST_CASE("transforms of random programs agree with loops and with each other") {
  const std::uint64_t programs = fuzz_loop(1, check_seed);
  std::printf("%llu programs agree\n", static_cast<unsigned long long>(programs));
  CHECK(programs > 0);
}
