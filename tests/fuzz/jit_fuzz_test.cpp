// Fuzzing of compiled functions: random programs as users' functions, compiled whole, as a region that is called twice,
// and cut by reads with both outcomes, all compared with the oracle.
#include "../catch.hpp"
#include "../plan_harness.hpp"
#include "fuzz_loop.hpp"
#include "random_program.hpp"

#include <sinter/expr/capture.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

using oracle::Array;
using Arrays = std::vector<Array>;
using Tensors = std::vector<Tensor>;

Tensors replayed(const Graph& graph, const Tensors& inputs) {
  std::vector<Ref<TensorImpl>> values;
  for (const Tensor& x : inputs) values.push_back(x.impl());
  Tensors outputs;
  for (auto& value : replay(graph, values)) outputs.emplace_back(std::move(value));
  return outputs;
}

std::string disagreement(const Tensors& found, const Arrays& wanted, bool is_reversed, const std::string& way) {
  if (found.size() != wanted.size()) return way + ": " + std::to_string(found.size()) + " results";
  for (std::size_t j = 0; j < wanted.size(); ++j) {
    const Array& want = wanted[is_reversed ? wanted.size() - 1 - j : j];
    const double tolerance = want.dtype == DType::f32 ? 2e-3 : want.dtype == DType::f64 ? 1e-9 : 0;
    eval(found[j]);
    if (const std::string text = difference(to_array(*found[j].impl()), want, tolerance); !text.empty())
      return way + ", output " + std::to_string(j) + ": " + text;
  }
  return "";
}

/// A number that says something of a value, to branch on.
Tensor measure(const Tensor& x) { return sum(x.to(DType::f64)); }
double measure(const Array& x) {
  long double total = 0;
  for (long double v : x.data) total += v;
  return static_cast<double>(total);
}

/// Compiled whole, and twice as one region.
std::string region_disagreement(const Graph& graph, const Tensors& inputs, const Arrays& wanted) {
  auto whole = jit::compile([&graph](const Tensors& x) { return replayed(graph, x); });
  auto block = jit::region([&graph](const Tensors& x) { return replayed(graph, x); });
  auto twice = jit::compile([&](const Tensors& x) { return std::pair{block(x), block(x)}; });
  for (int call = 0; call < 2; ++call) {
    if (std::string text = disagreement(whole(inputs), wanted, false, "compiled"); !text.empty()) return text;
    const auto [first, second] = twice(inputs);
    if (std::string text = disagreement(first, wanted, false, "first call of a region"); !text.empty()) return text;
    if (std::string text = disagreement(second, wanted, false, "second call of a region"); !text.empty()) return text;
  }
  return "";
}

/// Cut by two reads; the results come reversed where the first says no, and where the second does, once more.
std::string tree_disagreement(const Graph& graph, const Tensors& inputs, const Arrays& wanted) {
  const double first = measure(wanted.front()), second = measure(wanted.back());
  if (!std::isfinite(first) || !std::isfinite(second)) return "";
  auto f = jit::compile([&graph](const Tensors& x, Scalar a, Scalar b) {
    Tensors y = replayed(graph, x);
    if (!(item(measure(y.front())) > a)) std::reverse(y.begin(), y.end());
    Tensors z = replayed(graph, x);  // work after the cut
    bool is_reversed = true;
    if (item(measure(z.back())) > b) is_reversed = false;
    if (is_reversed) std::reverse(y.begin(), y.end());
    return y;
  });
  const double margin_first = 1 + std::abs(first), margin_second = 1 + std::abs(second);
  for (int round = 0; round < 2; ++round)
    for (int path = 0; path < 4; ++path) {
      const bool yes_first = (path & 1) != 0, yes_second = (path & 2) != 0;
      const Tensors found = f(inputs, first + (yes_first ? -margin_first : margin_first),
                              second + (yes_second ? -margin_second : margin_second));
      if (std::string text = disagreement(found, wanted, yes_first != yes_second, "path " + std::to_string(path));
          !text.empty())
        return text;
    }
  if (f.stats().retraces > 3) return "retraced " + std::to_string(f.stats().retraces) + " times for four paths";
  return "";
}

/// A region that reads a value: called twice, once with either outcome.
std::string reading_region_disagreement(const Graph& graph, const Tensors& inputs, const Arrays& wanted) {
  const double level = measure(wanted.front()), margin = 1 + std::abs(level);
  if (!std::isfinite(level)) return "";
  auto block = jit::region([&graph](const Tensors& x, Scalar limit) {
    Tensors y = replayed(graph, x);
    if (!(item(measure(y.front())) > limit)) std::reverse(y.begin(), y.end());
    return y;
  });
  auto twice = jit::compile([&](const Tensors& x, Scalar a, Scalar b) {
    const Tensors first = block(x, a);
    return std::pair{first, block(x, b)};
  });
  for (const double side : {margin, -margin}) {
    const auto [first, second] = twice(inputs, level + side, level - side);
    if (std::string text = disagreement(first, wanted, side > 0, "a region that reads"); !text.empty()) return text;
    if (std::string text = disagreement(second, wanted, side < 0, "a region that reads, again"); !text.empty())
      return text;
  }
  return "";
}

/// Whether gradient `i` of the sum of all floating outputs (of f64) hinges on rounding: a tie that the last bit
/// decides.
bool is_gradient_at_a_jump(const Graph& graph, const Tensors& inputs, const Array& wanted, std::size_t i) {
  GraphBuilder builder(graph);
  std::vector<Value> operands;
  std::vector<std::int32_t> positions;
  Arrays arrays;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    operands.push_back(builder.input(graph.type(graph.inputs()[k])));
    positions.push_back(static_cast<std::int32_t>(k));
    arrays.push_back(to_array(*inputs[k].impl()));
  }
  Value total =
      builder.add(op_info<ops::Full>, std::initializer_list<Value>{}, {.dtype = DType::f64, .has_dtype = true});
  for (Value out : builder.inline_graph(graph, operands)) {
    const Type type = builder.type(out);
    if (!is_floating(type.dtype)) continue;
    Attrs axes;
    for (int a = 0; a < type.shape.rank(); ++a) axes.axes.push_back(a);
    total =
        builder.add(op_info<ops::Add>, {total, axes.axes.empty() ? out : builder.add(op_info<ops::Sum>, {out}, axes)});
  }
  const Graph gradients = differentiate(builder.finish({&total, 1}), positions);
  return is_at_a_jump(gradients, arrays, wanted, 1 + i, 1e-6);
}

/// The gradient through a region of symbolic extents, against that of the function itself. Of f64 alone, so that
/// rounding does not matter.
std::string gradient_disagreement(const Graph& graph, const Tensors& inputs) {
  const auto total = [](const Tensors& ys) {
    Tensor sum_of_all = full({}, 0, {.dtype = DType::f64});
    for (const Tensor& y : ys)
      if (is_floating(y.dtype())) sum_of_all = sum_of_all + sum(y);
    return sum_of_all;
  };
  if (inputs.front().dtype() != DType::f64) return "";
  Tensors wanted;
  try {
    wanted = jit::grad([&](const Tensors& x) { return total(replayed(graph, x)); })(inputs);
  } catch (const UserError&) {  // a loop of unknown length, or nothing that is floating
    return "";
  }
  Arrays arrays;
  for (const Tensor& gradient : wanted) {
    eval(gradient);
    arrays.push_back(to_array(*gradient.impl()));
  }
  auto block = jit::region([&graph](const Tensors& x) { return replayed(graph, x); });
  auto marked =
      jit::compile(jit::grad([&](const Tensors& x) { return total(block(x)); }), {.dynamic = jit::Dynamic::always});
  const Tensors found = marked(inputs);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (const std::string text = difference(to_array(*found[i].impl()), arrays[i], 1e-6);
        !text.empty() && !is_gradient_at_a_jump(graph, inputs, arrays[i], i))
      return "gradient " + std::to_string(i) + " through a region: " + text;
  return "";
}

bool check_seed(std::uint64_t seed) {
  const Graph graph = ProgramGenerator(seed).generate();
  if (!graph.symbols().empty()) return false;  // its attributes name symbols of its own
  std::string what;
  try {
    const Arrays arrays = random_inputs(graph);
    Tensors inputs;
    for (const Array& array : arrays) inputs.emplace_back(to_value(array));
    const Arrays wanted = oracle::evaluate(graph, arrays);
    what = region_disagreement(graph, inputs, wanted);
    if (what.empty()) what = reading_region_disagreement(graph, inputs, wanted);
    if (what.empty()) what = gradient_disagreement(graph, inputs);
    if (what.empty()) what = tree_disagreement(graph, inputs, wanted);
  } catch (const std::exception& error) { what = error.what(); }
  if (!what.empty()) FAIL("seed " << seed << ": " << what << "\n" << graph.text());
  return true;
}

}  // namespace

TEST_CASE("random programs agree compiled, as regions, and cut by reads") {
  int programs = 0;
  fuzz_loop(1, [&](std::uint64_t seed) { programs += check_seed(seed); });
  std::printf("%d programs agree\n", programs);
  CHECK((programs > 0 || only_seed()));
}
