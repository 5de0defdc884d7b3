// The adjoint of overlapping windows whose elements follow from one value per window and from the place: each element
// of the image reads the windows that hold it.
#include "../catch.hpp"

#include "../plan_harness.hpp"

#include <sinter/passes/decompose.hpp>

#include <string>
#include <vector>

using namespace sinter_test;

namespace {

struct Row {
  std::int64_t size[2], stride[2], extent[2];
  bool is_read = true;  // window by window
  std::int64_t windows(int i) const { return (extent[i] - size[i]) / stride[i] + 1; }
};

std::string list(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

/// What the windows have: the value of each where the place is the one that was chosen, or everywhere.
enum class Given : std::uint8_t { everywhere, at_a_place };

std::string graph_text(const Row& row, Given given, const std::string& dtype, bool has_more_axes) {
  const std::int64_t h = row.windows(0), w = row.windows(1);
  const std::vector<std::int64_t> lead{2, 3};
  const auto shape = [&](std::vector<std::int64_t> at, std::vector<std::int64_t> sizes) {
    std::vector<std::int64_t> all = lead;
    all.insert(all.end(), at.begin(), at.end());
    if (has_more_axes) all.push_back(5);
    all.insert(all.end(), sizes.begin(), sizes.end());
    return list(all);
  };
  const std::string ones = shape({h, w}, {1, 1}), seen = shape({h, w}, {row.size[0], row.size[1]}),
                    per_window = shape({h, w}, {}), axis = has_more_axes ? "5" : "4",
                    last_axis = has_more_axes ? "6" : "5";
  std::string text = "graph(%d: " + dtype + per_window + ", %c: f32" + per_window +
                     ") {\n%e = expand(reshape(%d) {shape=" + ones + "}) {shape=" + seen + "}\n";
  if (given == Given::at_a_place)
    text += "%p = expand(reshape(%c) {shape=" + ones + "}) {shape=" + seen + "}\n%i: f32" + seen + " = iota {axes=[" +
            axis + "], shape=" + seen + ", dtype=f32}\n%j: f32" + seen + " = iota {axes=[" + last_axis +
            "], shape=" + seen + ", dtype=f32}\n%z: " + dtype + "[] = full {shape=[], dtype=" + dtype +
            "}\n%y = where(eq(add(mul(%i, " + std::to_string(row.size[1]) + "), %j), %p), %e, %z)\n";
  return text + "return sum_windows(" + (given == Given::at_a_place ? "%y" : "%e") +
         ") {axes=[2, 3], shape=" + shape({row.extent[0], row.extent[1]}, {}) +
         ", sizes=" + list({row.size[0], row.size[1]}) + ", strides=" + list({row.stride[0], row.stride[1]}) + "} }";
}

/// Window after window.
oracle::Array expected(const Row& row, Given given, const oracle::Array& value, const oracle::Array& chosen,
                       std::int64_t more) {
  oracle::Array sum = oracle::Array::zeros(value.dtype, value.extents);
  sum.extents[2] = row.extent[0], sum.extents[3] = row.extent[1];
  sum = oracle::Array::zeros(value.dtype, sum.extents);
  const std::int64_t h = row.windows(0), w = row.windows(1);
  for (std::int64_t lead = 0; lead < 6; ++lead)
    for (std::int64_t p = 0; p < h; ++p)
      for (std::int64_t q = 0; q < w; ++q)
        for (std::int64_t m = 0; m < more; ++m) {
          const auto at = static_cast<std::size_t>(((lead * h + p) * w + q) * more + m);
          for (std::int64_t i = 0; i < row.size[0]; ++i)
            for (std::int64_t j = 0; j < row.size[1]; ++j) {
              if (given == Given::at_a_place && static_cast<std::int64_t>(chosen.data[at]) != i * row.size[1] + j)
                continue;
              const std::int64_t to_h = p * row.stride[0] + i, to_w = q * row.stride[1] + j;
              sum.data[static_cast<std::size_t>(((lead * row.extent[0] + to_h) * row.extent[1] + to_w) * more + m)] +=
                  value.data[at];
            }
        }
  return sum;
}

bool has_op(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes())
    if (node.op->name == name) return true;
  return false;
}

// Windows that overlap by one or more, along one axis or both, with gaps along the other, with a rest at the end; of a
// size that the stride divides; touching and too many at once, which are summed up as before.
const Row rows[] = {{{3, 3}, {2, 2}, {13, 11}},      {{3, 2}, {2, 1}, {9, 7}},       {{5, 3}, {2, 1}, {12, 8}},
                    {{3, 2}, {1, 3}, {8, 13}},       {{4, 4}, {2, 2}, {11, 10}},     {{3, 3}, {2, 2}, {3, 3}},
                    {{2, 2}, {2, 2}, {8, 9}, false}, {{5, 5}, {1, 1}, {9, 9}, false}};

}  // namespace

TEST_CASE("sums of windows that have one value each read it where an element lies in the window") {
  for (const Row& row : rows)
    for (const Given given : {Given::everywhere, Given::at_a_place})
      for (const bool has_more_axes : {false, true})
        for (const std::string dtype : {"f32", "f64"}) {
          const std::string text = graph_text(row, given, dtype, has_more_axes);
          INFO(text);
          const Graph graph = parse_graph(text), decomposed = run_pipeline(graph);
          CHECK(has_op(decomposed, "take") == row.is_read);
          auto inputs = random_inputs(graph);
          for (std::size_t i = 0; i < inputs[1].data.size(); ++i)
            inputs[1].data[i] =
                static_cast<oracle::Number>(i * 7 % static_cast<std::size_t>(row.size[0] * row.size[1]));
          const oracle::Array wanted = expected(row, given, inputs[0], inputs[1], has_more_axes ? 5 : 1);
          for (const auto& backends : backend_lists()) {
            const auto plan = build_plan(decomposed, fused(backends));
            if (row.is_read) CHECK(plan->kernel_count() <= 2);  // nine windows and places are two
            CHECK(difference(run(*plan, inputs)[0], wanted, tolerance_of(wanted.dtype)) == "");
          }
        }
}

TEST_CASE("sums of windows of any elements read no windows one by one") {
  const std::string text =
      "graph(%x: f32[2, 6, 5, 3, 3]) { return sum_windows(%x) {axes=[1, 2], shape=[2, 13, 11], sizes=[3, 3], "
      "strides=[2, 2]} }";
  const Graph graph = parse_graph(text);
  CHECK_FALSE(has_op(run_pipeline(graph), "take"));
  for (const auto& backends : backend_lists())
    CHECK(first_difference(*build_plan(run_pipeline(graph), fused(backends)), graph, random_inputs(graph)) == "");
}
