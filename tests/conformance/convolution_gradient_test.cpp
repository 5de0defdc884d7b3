// Gradients of convolutions that the x86 back end computes whole: values of what they are made of; bits of it where no
// zeros are left out; and none of what windows do not see.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../plan_harness.hpp"
#include "../sample.hpp"
#include "x86_whole_cases.hpp"

#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/decompose.hpp>

#include <sinter/sinter.hpp>

#ifndef SINTER_NO_X86
#include <limits>
#include <random>

using namespace sinter;
using namespace sinter_test;

namespace {

using By = ops::ConvolutionOperand;

/// A gradient of a random convolution of one to three axes.
struct Problem {
  DType dtype = DType::f32;
  Shape x, weight, dout, low, high;
  IntVector stride, dilation;
  std::int64_t groups = 1;

  Problem(std::mt19937& random, bool is_depthwise) {
    const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    const int axes = draw(1, 3);
    groups = is_depthwise ? draw(2, 9) : draw(0, 2) == 0 ? draw(2, 4) : 1;
    const int channels = is_depthwise ? 1 : draw(0, 9) == 0 ? draw(40, 70) : draw(1, 6);
    const int outputs = is_depthwise ? draw(1, 2) : draw(1, 20);
    dtype = draw(0, 3) == 0 ? DType::f64 : DType::f32;
    x = {draw(1, 3), channels * groups};
    weight = {outputs * groups, channels};
    dout = {x[0], outputs * groups};
    for (int i = 0; i < axes; ++i) {
      const std::int64_t taps = draw(1, 5), apart = draw(1, 3), front = draw(0, 4), back = draw(0, 4),
                         step = draw(1, 4);
      const std::int64_t reach = (taps - 1) * apart + 1;
      const std::int64_t extent =
          std::max<std::int64_t>(1, reach - front - back) + draw(0, i + 1 == axes ? 30 / axes : 4);
      x.push_back(extent);
      weight.push_back(taps);
      low.push_back(front);
      high.push_back(back);
      stride.push_back(step);
      dilation.push_back(apart);
      dout.push_back((extent + front + back - reach) / step + 1);
    }
  }

  Graph gradient(By by) const {
    GraphBuilder builder;
    Attrs attrs;
    attrs.set(ops::ConvolutionAttributes::stride, stride);
    attrs.set(ops::ConvolutionAttributes::dilation, dilation);
    attrs.set(ops::ConvolutionAttributes::low, low);
    attrs.set(ops::ConvolutionAttributes::high, high);
    attrs.set(ops::ConvolutionAttributes::groups, groups);
    const auto input = [&](const Shape& shape) {
      return Val{&builder, builder.input({dtype, Device::cpu(), shape}), {}};
    };
    const Val first = input(by == By::image ? dout : x), second = input(by == By::image ? weight : dout);
    attrs.shape = by == By::image ? x : weight;
    attrs.set(ops::ConvolutionGradient::by, by);
    const Val out = apply(op_info<ops::ConvolutionGradient>, {first, second}, std::move(attrs));
    return builder.finish(std::span(&out.value, 1));
  }
  bool has_stride() const {
    return std::any_of(stride.begin(), stride.end(), [](std::int64_t step) { return step > 1; });
  }
  /// Windows of one element.
  bool has_single_elements() const {
    for (int axis = 2; axis < weight.rank(); ++axis)
      if (weight[axis] != Dim(1)) return false;
    return true;
  }
};

/// Is it one step of the back end's?
bool is_whole(const Plan& plan) { return kinds(plan) == "host" && plan.steps()[0].backend == "x86"; }

void check_gradient(const Graph& graph, x86::X86Backend& backend, bool has_same_bits) {
  const auto inputs = random_inputs(graph);
  const auto whole = build_plan(graph, fused({&backend, reference()})),
             apart = build_plan(Decompose{}(graph), fused({&backend, reference()}));
  INFO(graph.text() << whole->text());
  const auto found = run(*whole, inputs), wanted = run(*apart, inputs);
  REQUIRE(found[0].extents == wanted[0].extents);
  if (has_same_bits) CHECK(found[0].data == wanted[0].data);
  CHECK(difference(found[0], oracle::evaluate(graph, inputs)[0], 10 * tolerance_of(found[0].dtype)) == "");
}

/// An image of two axes, windows in the middle of borders.
Problem images(std::int64_t count, std::int64_t channels, std::int64_t size, std::int64_t outputs,
               std::int64_t window) {
  std::mt19937 random(1);
  Problem problem(random, false);
  problem.dtype = DType::f32;
  problem.groups = 1;
  problem.x = {count, channels, size, size};
  problem.weight = {outputs, channels, window, window};
  problem.dout = {count, outputs, size, size};
  problem.low = problem.high = {window / 2, window / 2};
  problem.stride = problem.dilation = {1, 1};
  return problem;
}

/// Of sums that are long for the oracle: the bits of what it is made of; or, where zeros are left out, values.
void check_parts(const Graph& graph, x86::X86Backend& backend, bool has_same_bits) {
  const auto inputs = random_inputs(graph);
  const auto whole = build_plan(graph, fused({&backend, reference()})),
             apart = build_plan(Decompose{}(graph), fused({&backend, reference()}));
  INFO(graph.text() << whole->text());
  CHECK(is_whole(*whole));
  const auto found = run(*whole, inputs), wanted = run(*apart, inputs);
  REQUIRE(found[0].extents == wanted[0].extents);
  if (has_same_bits) CHECK(found[0].data == wanted[0].data);
  else CHECK(difference(found[0], wanted[0], 10 * tolerance_of(found[0].dtype)) == "");
}

}  // namespace

TEST_CASE("gradients of convolutions by images have the values of what they are made of") {
  std::mt19937 random(11);
  std::size_t whole = 0, all = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    const Problem problem(random, i % 3 == 0);
    const Graph graph = problem.gradient(By::image);
    const bool is_run = is_in_sample(i);
    for (const x86::Isa isa : isas_in_use()) {
      x86::X86Backend backend(isa);
      const bool is_made = is_whole(*build_plan(graph, fused({&backend, reference()})));
      whole += is_made;
      ++all;
      const bool is_depthwise = problem.groups > 1 && problem.weight[0] == Dim(problem.groups);
      if (is_run) check_gradient(graph, backend, is_made && !problem.has_stride() && !is_depthwise);
    }
  }
  CHECK(2 * whole > all);
}

TEST_CASE("gradients of convolutions by weights have the bits of products") {
  std::mt19937 random(14);
  for (std::size_t i = 0; i < 30; ++i) {
    Problem problem(random, false);
    if (i % 3 == 0) {  // outputs in one and two vectors and parts of them
      const std::int64_t outputs = std::uniform_int_distribution<int>(8, 70)(random);
      problem.weight.set(0, outputs * problem.groups);
      problem.dout.set(1, outputs * problem.groups);
    }
    const bool is_depthwise = problem.groups > 1 && problem.weight[1] == Dim(1);  // which has an order of its own
    if (!is_in_sample(i) || is_depthwise) continue;
    for (const x86::Isa isa : isas_in_use()) {
      x86::X86Backend backend(isa);
      const Graph graph = problem.gradient(By::weight);
      const bool may_be_product = problem.has_stride() && problem.has_single_elements();
      CHECK((is_whole(*build_plan(graph, fused({&backend, reference()}))) || may_be_product));
      check_gradient(graph, backend, true);
    }
  }
}

TEST_CASE("gradients by weights where an axis has one window of one element") {
  Problem problem = images(3, 2, 2, 8, 1);
  const auto check = [&](const Shape& x, const Shape& window, const Shape& low, const Shape& high,
                         const IntVector& stride) {
    problem.x = {2, 3}, problem.weight = {8, 3}, problem.dout = {2, 8};
    problem.low = low, problem.high = high, problem.stride = stride;
    problem.dilation = {};
    for (std::size_t axis = 0; axis < stride.size(); ++axis) problem.dilation.push_back(1);
    for (int axis = 0; axis < x.rank(); ++axis) {
      problem.x.push_back(x[axis]);
      problem.weight.push_back(window[axis]);
      const std::int64_t room = x[axis].value() + low[axis].value() + high[axis].value() - window[axis].value();
      problem.dout.push_back(room / stride[static_cast<std::size_t>(axis)] + 1);
    }
    for (const x86::Isa isa : isas_in_use()) {
      x86::X86Backend backend(isa);
      check_gradient(problem.gradient(By::weight), backend, true);
    }
  };
  check({2, 9}, {1, 3}, {1, 0}, {1, 0}, {4, 1});  // which sees the border alone
  check({2, 9}, {1, 3}, {0, 1}, {0, 1}, {4, 1});
  check({2, 6, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {4, 1, 1});
  check({3, 2, 9}, {3, 1, 3}, {1, 1, 0}, {1, 1, 0}, {1, 4, 1});
  check({0, 9}, {1, 3}, {0, 0}, {1, 0}, {1, 1});  // of an image without elements
}

TEST_CASE("long sums of gradients by weights, and those of single elements, have the bits of products") {
  const Problem problems[] = {images(3, 2, 61, 18, 3),   // 11163 positions: groups of blocks
                              images(3, 40, 17, 33, 3),  // several runs of a group
                              images(2, 19, 23, 40, 1), images(2, 40, 23, 19, 1), images(1, 20, 7, 24, 3)};
  for (const Problem& problem : problems)
    for (const x86::Isa isa : isas_in_use()) {
      x86::X86Backend backend(isa);
      check_parts(problem.gradient(By::weight), backend, true);
    }
  check_bits_of_threads(images(2, 10, 17, 33, 3).gradient(By::weight));
}

TEST_CASE("gradients by weights of few sums, block by block, have the bits of products") {
  Problem strided = images(2, 3, 61, 32, 3);
  strided.dout = {2, 32, 31, 31};
  strided.stride = {2, 2};
  Problem of_f64 = images(2, 3, 41, 9, 3), inside = images(5, 3, 23, 20, 3);
  of_f64.dtype = DType::f64;
  inside.low = inside.high = {0, 0};
  inside.dout = {5, 20, 21, 21};
  const Problem problems[] = {strided, of_f64, inside, images(23, 3, 30, 17, 3),  // 81 blocks: groups, two rounds
                              images(3, 5, 29, 16, 5)};                           // several tiles
  for (const Problem& problem : problems) {
    for (const x86::Isa isa : isas_in_use()) {
      x86::X86Backend backend(isa);
      check_parts(problem.gradient(By::weight), backend, true);
    }
  }
  check_bits_of_threads(problems[0].gradient(By::weight));
}

TEST_CASE("gradients by images of large weights, which stay where they lie, have the bits of products") {
  Problem strided = images(2, 200, 5, 150, 3), apart = images(1, 200, 9, 170, 3), of_f64 = images(2, 130, 7, 120, 3);
  strided.x = {2, 200, 9, 9};
  strided.stride = {2, 2};
  apart.dilation = {2, 1};
  apart.low = apart.high = {2, 1};
  of_f64.dtype = DType::f64;
  Problem some_unseen = images(2, 200, 5, 340, 2);  // every third line is seen by no window
  some_unseen.x = {2, 200, 14, 14};
  some_unseen.low = some_unseen.high = {0, 0};
  some_unseen.stride = {3, 3};
  for (const x86::Isa isa : isas_in_use()) {
    x86::X86Backend backend(isa);
    for (const std::int64_t count : {1, 3, 17})  // of 425 positions some at a time
      check_parts(images(count, 200, 5, 150, 3).gradient(By::image), backend, true);
    check_parts(images(2, 33, 6, 1000, 3).gradient(By::image), backend, true);  // 9000 terms: groups of blocks
    for (const Problem* problem : {&apart, &of_f64}) check_parts(problem->gradient(By::image), backend, true);
    for (const Problem* problem : {&strided, &some_unseen}) check_parts(problem->gradient(By::image), backend, false);
  }
  check_bits_of_threads(images(3, 200, 5, 150, 3).gradient(By::image));
  check_bits_of_threads(strided.gradient(By::image));
}

TEST_CASE("gradients of convolutions of one channel in each group by their weights") {
  std::mt19937 random(12);
  for (std::size_t i = 0; i < 16; ++i) {
    const Problem problem(random, true);
    if (!is_in_sample(i)) continue;
    for (const x86::Isa isa : isas_in_use()) {
      x86::X86Backend backend(isa);
      const Graph graph = problem.gradient(By::weight);
      CHECK(is_whole(*build_plan(graph, fused({&backend, reference()}))));
      check_gradient(graph, backend, false);
    }
  }
}

TEST_CASE("long sums of gradients by weights of one channel are added up in double") {
  std::mt19937 random(1);
  Problem problem(random, true);
  problem.dtype = DType::f32;
  problem.groups = 2;
  problem.x = {9, 2, 50, 61};
  problem.weight = {2, 1, 3, 3};
  problem.dout = {9, 2, 50, 61};
  problem.low = problem.high = {1, 1};
  problem.stride = problem.dilation = {1, 1};
  const Graph graph = problem.gradient(By::weight);
  auto inputs = random_inputs(graph);
  for (auto& number : inputs[0].data) number = static_cast<float>(number * 0.1 + 1);
  for (auto& number : inputs[1].data) number = static_cast<float>(number * 0.1 + 1);
  x86::X86Backend backend(isas_in_use().front());
  const auto found = run(*build_plan(graph, fused({&backend, reference()})), inputs);
  CHECK(difference(found[0], oracle::evaluate(graph, inputs)[0], 5e-7) == "");
}

TEST_CASE("gradients by weights of one channel add up long lines in double, too") {
  std::mt19937 random(1);
  Problem problem(random, true);
  problem.dtype = DType::f32;
  problem.groups = 2;
  constexpr std::int64_t line = 300'000;
  problem.x = {1, 2, line};
  problem.weight = {2, 1, 3};
  problem.dout = {1, 2, line};
  problem.low = problem.high = {1};
  problem.stride = problem.dilation = {1};
  const Graph graph = problem.gradient(By::weight);
  auto inputs = random_inputs(graph);
  for (auto& number : inputs[0].data) number = 0.1f;
  for (auto& number : inputs[1].data) number = 1;
  for (const x86::Isa isa : isas_in_use()) {
    x86::X86Backend backend(isa);
    const auto found = run(*build_plan(graph, fused({&backend, reference()})), inputs);
    const double all = 0.1f * static_cast<double>(line), inside = 0.1f * static_cast<double>(line - 1);
    for (std::size_t i = 0; i < found[0].data.size(); ++i)
      CHECK(found[0].data[i] == Approx(i % 3 == 1 ? all : inside).epsilon(1e-5));
  }
}

TEST_CASE("gradients of no images are empty, or zeros") {
  std::mt19937 random(1);
  for (const std::int64_t groups : {1, 3})
    for (const By by : {By::image, By::weight}) {
      Problem problem(random, false);
      problem.dtype = DType::f32;
      problem.groups = groups;
      problem.x = {0, 3, 5, 5};
      problem.weight = {6, 3 / groups, 3, 3};
      problem.dout = {0, 6, 3, 3};
      problem.low = problem.high = {0, 0};
      problem.stride = problem.dilation = {1, 1};
      const Graph graph = problem.gradient(by);
      const auto inputs = random_inputs(graph);
      for (const x86::Isa isa : isas_in_use()) {
        x86::X86Backend backend(isa);
        const auto found = run(*build_plan(graph, fused({&backend, reference()})), inputs);
        CHECK(found[0].data.size() == (by == By::image ? 0 : static_cast<std::size_t>(6 * 3 / groups * 9)));
        for (const double number : found[0].data) CHECK(number == 0);
      }
    }
}

TEST_CASE("what no window sees does not reach gradients") {
  std::mt19937 random(1);
  Problem problem(random, true);
  problem.dtype = DType::f32;
  problem.groups = 3;
  problem.x = {2, 3, 9, 22};  // a line and a column are left over by stride 2
  problem.weight = {3, 1, 2, 2};
  problem.low = problem.high = {0, 0};
  problem.dilation = {1, 1};
  problem.stride = {2, 3};
  problem.dout = {2, 3, 4, 7};
  const Graph graph = problem.gradient(By::weight);
  auto inputs = random_inputs(graph);
  for (std::size_t i = 0; i < inputs[0].data.size(); ++i)
    if (i / 22 % 9 == 8 || i % 22 >= 20 || i % 22 % 3 == 2) inputs[0].data[i] = std::numeric_limits<double>::infinity();
  x86::X86Backend backend(isas_in_use().front());
  const auto found = run(*build_plan(graph, fused({&backend, reference()})), inputs);
  for (const auto number : found[0].data) CHECK(std::isfinite(static_cast<double>(number)));
  // By the image, what no tap reaches from any position has the gradient 0, whatever the weight.
  const Graph by_image = problem.gradient(By::image);
  auto others = random_inputs(by_image);
  for (auto& number : others[1].data) number = std::numeric_limits<double>::infinity();
  const auto zeros = run(*build_plan(by_image, fused({&backend, reference()})), others);
  for (std::size_t i = 0; i < zeros[0].data.size(); ++i)
    if (i % 22 % 3 == 2) CHECK(zeros[0].data[i] == 0);
}

TEST_CASE("gradients of convolutions do not depend on the number of threads") {
  std::mt19937 random(13);
  for (int i = 0; i < 4; ++i) {
    const Problem problem(random, i % 2 == 0);
    for (const By by : {By::image, By::weight}) check_bits_of_threads(problem.gradient(by));
  }
}
#endif
