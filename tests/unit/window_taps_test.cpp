// The adjoint of overlapping windows whose elements follow from one value per window and from the place: each element
// of the image reads the windows that hold it.
#include "../catch.hpp"

#include "../plan_harness.hpp"

#include <sinter/graph/builder.hpp>
#include <sinter/ops/window_taps.hpp>
#include <sinter/passes/decompose.hpp>
#include <sinter/sinter.hpp>

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

/// `border`: so much of what windows are of is left out, before the image along both axes and after it along the first.
std::string graph_text(const Row& row, Given given, const std::string& dtype, bool has_more_axes,
                       std::int64_t border = 0) {
  const std::int64_t h = row.windows(0), w = row.windows(1);
  const std::vector<std::int64_t> lead{2, 3};
  const auto shape = [&](std::vector<std::int64_t> at, std::vector<std::int64_t> sizes, std::int64_t others = 1) {
    std::vector<std::int64_t> all{lead[0] * others, lead[1] * others};
    all.insert(all.end(), at.begin(), at.end());
    if (has_more_axes) all.push_back(5 * others);
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
         ") {axes=[2, 3], shape=" + shape({row.extent[0] - 2 * border, row.extent[1] - border}, {}) +
         ", sizes=" + list({row.size[0], row.size[1]}) + ", strides=" + list({row.stride[0], row.stride[1]}) +
         ", low=" + shape({border, border}, {}, 0) + ", high=" + shape({border, 0}, {}, 0) + "} }";
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

/// Without the border.
oracle::Array cropped(const oracle::Array& whole, std::int64_t border) {
  oracle::Extents extents = whole.extents;
  extents[2] -= 2 * border, extents[3] -= border;
  oracle::Array part = oracle::Array::zeros(whole.dtype, extents);
  std::size_t flat = 0;
  oracle::for_each_index(extents, [&](const oracle::Extents& index) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index.size(); ++i)
      at = at * whole.extents[i] + index[i] + (i == 2 || i == 3 ? border : 0);
    part.data[flat++] = whole.data[static_cast<std::size_t>(at)];
  });
  return part;
}

/// The graph, decomposed as one of a GPU is; its last node is a sum of windows.
Graph by_taps(const Graph& graph) {
  GraphBuilder builder(graph);
  std::vector<Value> moved;
  Value sum;
  for (const Node& node : graph.nodes()) {
    Values inputs;
    for (const Value v : node.inputs) inputs.push_back(moved[static_cast<std::size_t>(v.node)]);
    using Op = ops::SumWindows;
    if (node.op == &op_info<Op>)
      if (const Val made =
              ops_detail::sum_of_taps(Val{&builder, inputs[0], node.where}, node.attrs.shape, node.attrs[Op::low],
                                      node.attrs.axes, node.attrs[Op::sizes], node.attrs[Op::strides])) {
        moved.push_back(sum = made.value);
        continue;
      }
    moved.push_back(sum = builder.copy(node, inputs));
  }
  const Value outputs[] = {sum};
  return run_pipeline(builder.finish(outputs));
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
        for (const std::int64_t border : {0, 1}) {
          const std::string text = graph_text(row, given, border == 0 ? "f32" : "f64", has_more_axes, border);
          INFO(text);
          const Graph graph = parse_graph(text), decomposed = by_taps(graph);
          CHECK(has_op(decomposed, "take") == row.is_read);
          auto inputs = random_inputs(graph);
          for (std::size_t i = 0; i < inputs[1].data.size(); ++i)
            inputs[1].data[i] =
                static_cast<oracle::Number>(i * 7 % static_cast<std::size_t>(row.size[0] * row.size[1]));
          const oracle::Array wanted =
              cropped(expected(row, given, inputs[0], inputs[1], has_more_axes ? 5 : 1), border);
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
  CHECK_FALSE(has_op(by_taps(graph), "take"));
  for (const auto& backends : backend_lists())
    CHECK(first_difference(*build_plan(by_taps(graph), fused(backends)), graph, random_inputs(graph)) == "");
}

TEST_CASE("what windows share along other axes is stretched, not read window by window") {
  const std::string tail =
      " return sum_windows(%e) {axes=[2, 3], shape=[2, 3, 13, 11], sizes=[3, 3], strides=[2, 2]} }";
  for (const char* const shape : {"[1, 1, 6, 5, 1, 1]", "[1, 3, 6, 5, 1, 1]", "[2, 3, 6, 5, 1, 1]"}) {
    const Graph graph =
        parse_graph("graph(%d: f32" + std::string(shape) + ") { %e = expand(%d) {shape=[2, 3, 6, 5, 3, 3]}" + tail);
    INFO(shape);
    for (const auto& backends : backend_lists())
      CHECK(first_difference(*build_plan(by_taps(graph), fused(backends)), graph, random_inputs(graph)) == "");
  }
}

TEST_CASE("gradients of padded pooling are those of plain loops, and have gradients") {
  const Shape shape{2, 3, 9, 14};
  const Tensor x = Tensor(sin(reshape(arange(2 * 3 * 9 * 14, {.dtype = DType::f64}) * 1.7, shape)));
  const auto x_of = to_vector<double>(x);
  // Windows of 3, stride 2, of the image padded by 1.
  for (const bool is_mean : {false, true}) {
    const auto pooled = [=](const Tensor& t) {
      return is_mean ? avg_pool2d(t, {.size = 3, .stride = 2, .padding = 1})
                     : max_pool2d(t, {.size = 3, .stride = 2, .padding = 1});
    };
    std::vector<double> gradient(x_of.size(), 0);
    for (std::size_t image = 0; image < 6; ++image)
      for (int p = 0; p < 5; ++p)
        for (int q = 0; q < 7; ++q) {
          double sum = 0, largest = -INFINITY;
          std::vector<std::size_t> seen;
          std::size_t best = 0;
          for (int h = std::max(2 * p - 1, 0); h < std::min(2 * p + 2, 9); ++h)
            for (int w = std::max(2 * q - 1, 0); w < std::min(2 * q + 2, 14); ++w) {
              seen.push_back((image * 9 + static_cast<std::size_t>(h)) * 14 + static_cast<std::size_t>(w));
              sum += x_of[seen.back()];
              if (x_of[seen.back()] > largest) largest = x_of[seen.back()], best = seen.back();
            }
          if (!is_mean) gradient[best] += 2 * largest;
          for (const std::size_t at : seen)
            if (is_mean) gradient[at] += 2 * (sum / 9) / 9;
        }
    const auto squares = [=](Tensor t) { return sum(square(pooled(t))); };
    const auto found = to_vector<double>(jit::grad(squares)(x));
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(gradient[i]).margin(1e-12));
    // The sum of squares is of degree 2 nearly everywhere: half of its second derivative along x is itself.
    const Tensor along = jit::grad([=](Tensor t) { return sum(jit::grad(squares)(t) * x); })(x);
    CHECK(item<double>(Tensor(sum(along * x))) / 2 == Approx(item<double>(squares(x))));
  }
}
