// Kernels that follow a convolution which the x86 back end computes whole: they run on its results while those are in
// the cache, or in the product's registers, with the bits that they have as a pass of their own.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../plan_harness.hpp"
#include "../sample.hpp"
#include "x86_whole_cases.hpp"

#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/runtime/following_steps.hpp>
#include <sinter/runtime/watch.hpp>

#include <sinter/sinter.hpp>

#ifndef SINTER_NO_X86
#include <functional>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {

struct Layer {
  const char* name;
  DType dtype;
  Shape x, weight;
  std::int64_t stride = 1, dilation = 1, groups = 1;
  std::int64_t padding = 1;
  Shape image = {};  // of a gradient by it, which x is then the gradient of the result for

  Attrs attrs() const {
    Attrs made;
    const std::size_t axes = as_index(x.rank() - 2);
    Shape border;
    for (std::size_t i = 0; i < axes; ++i) border.push_back(padding);
    made.set(ops::ConvolutionAttributes::stride, IntVector(axes, stride));
    made.set(ops::ConvolutionAttributes::dilation, IntVector(axes, dilation));
    made.set(ops::ConvolutionAttributes::low, border);
    made.set(ops::ConvolutionAttributes::high, border);
    made.set(ops::ConvolutionAttributes::groups, groups);
    return made;
  }
};

const std::vector<Layer>& layers() {
  using enum DType;
  static const std::vector<Layer> all{
      {"depthwise, several channels at once", f32, {8, 70, 7, 7}, {70, 1, 3, 3}, 1, 1, 70},
      {"depthwise, two outputs of each channel, stride 2", f32, {3, 5, 29, 30}, {10, 1, 3, 3}, 2, 1, 5},
      {"depthwise of f64, a large image", f64, {2, 3, 61, 57}, {3, 1, 5, 5}, 1, 1, 3, 2},
      {"depthwise of signals", f32, {4, 6, 131}, {6, 1, 5}, 1, 2, 6, 4},
      {"windows of 3 x 3", f32, {2, 12, 36, 40}, {20, 12, 3, 3}},
      {"few outputs", f32, {2, 3, 19, 23}, {3, 3, 3, 3}},
      {"few outputs in lanes", f32, {2, 12, 19, 150}, {16, 12, 3, 3}},
      {"few outputs of groups in lanes, volumes", f32, {2, 8, 5, 6, 33}, {54, 4, 3, 3, 3}, 1, 1, 2},
      {"panels of outputs in lanes", f64, {2, 12, 28, 28}, {32, 12, 3, 3}},
      {"groups, dilated", f32, {2, 12, 15, 14}, {18, 4, 3, 3}, 1, 2, 3, 2},
      {"small images together, with groups", f32, {23, 120, 7, 7}, {12, 60, 3, 3}, 1, 1, 2},
      {"small images of f64 together", f64, {3, 130, 5, 5}, {5, 130, 3, 3}},
      {"sums in several runs", f32, {1, 250, 11, 12}, {9, 250, 3, 3}},
      {"sums in several groups", f32, {2, 1030, 6, 6}, {17, 1030, 3, 3}},
      {"volumes", f32, {2, 3, 5, 6, 7}, {4, 3, 2, 3, 3}},
      {"single elements of every second line", f32, {2, 40, 16, 18}, {24, 40, 1, 1}, 2, 1, 1, 0},
      {"signals, every third", f32, {2, 5, 200}, {33, 5, 7}, 3, 1, 1, 3},
      {"a gradient by images", f32, {2, 12, 14, 15}, {12, 7, 3, 3}, 1, 1, 1, 1, {2, 7, 14, 15}},
      {"a gradient by small images together", f32, {5, 130, 7, 7}, {130, 12, 3, 3}, 1, 1, 1, 1, {5, 12, 7, 7}},
      {"a gradient by images, stride 2", f32, {3, 12, 14, 15}, {12, 7, 4, 4}, 2, 1, 1, 1, {3, 7, 28, 30}},
      {"a depthwise gradient by images, stride 2", f64, {3, 6, 9, 9}, {6, 1, 3, 3}, 2, 1, 6, 1, {3, 6, 17, 18}},
  };
  return all;
}

Val relu(Val x) { return maximum(x, full_like(x, 0)); }

struct Tail {
  const char* name;
  std::function<std::vector<Val>(Val y, Val bias, Val residual)> make;
};
/// `bias` is a number for each channel, `residual` has the extents of y.
const std::vector<Tail>& tails() {
  static const std::vector<Tail> all{
      {"relu", [](Val y, Val, Val) { return std::vector{relu(y)}; }},
      {"bias, relu", [](Val y, Val bias, Val) { return std::vector{relu(y + bias)}; }},
      {"scale, shift, residual",
       [](Val y, Val bias, Val residual) { return std::vector{relu(y * (bias * bias) + bias + residual)}; }},
      {"transcendental", [](Val y, Val bias, Val) { return std::vector{sigmoid(y + bias) * exp(-abs(y))}; }},
      {"two results, one narrow",
       [](Val y, Val bias, Val residual) { return std::vector{cast(y + bias, DType::bf16), y * residual}; }},
      {"the sum twice", [](Val y, Val, Val) { return std::vector{y * y + y}; }},
  };
  return all;
}

Graph graph_of(const Layer& layer, const Tail& tail) {
  GraphBuilder builder;
  const auto input = [&](const Shape& shape) {
    return Val{&builder, builder.input({layer.dtype, Device::cpu(), shape}), {}};
  };
  const Val x = input(layer.x), weight = input(layer.weight);
  Attrs attrs = layer.attrs();
  attrs.shape = layer.image;
  if (layer.image.rank() != 0) attrs.set(ops::ConvolutionGradient::by, ops::ConvolutionOperand::image);
  const Val y = layer.image.rank() != 0 ? apply(op_info<ops::ConvolutionGradient>, {x, weight}, attrs)
                                        : apply(op_info<ops::Convolution>, {x, weight}, layer.attrs());
  Shape channels{y.shape()[1]};
  for (int i = 2; i < y.shape().rank(); ++i) channels.push_back(1);
  std::vector<Value> outputs;
  for (const Val& out : tail.make(y, input(channels), input(y.shape()))) outputs.push_back(out.value);
  return builder.finish(outputs);
}

/// Do the first two steps become one launch? No two buffers share memory here.
bool becomes_one(const Plan& plan) {
  if (plan.steps().size() < 2 || !plan.steps()[0].host) return false;
  const std::unique_ptr<Launch> launch = bind_host_op(*plan.steps()[0].host, {});
  const auto use_of = [](const BufferRef& operand, bool is_written) {
    return MemoryUse{static_cast<std::uint32_t>(operand.kind) * 1000 + static_cast<std::uint32_t>(operand.index), 0, 1,
                     is_written};
  };
  return runtime_detail::followed_launch(plan, 0, *launch, {}, use_of) != nullptr;
}

/// Everything else being equal, nothing follows.
PlanOptions apart(PlanOptions options) {
  options.epilogues = false;
  return options;
}

}  // namespace

TEST_CASE("what follows a convolution runs with it, bit by bit as by itself") {
  std::size_t i = 0;
  for (const Layer& layer : layers())
    for (const Tail& tail : tails()) {
      if (!is_in_sample(i++)) continue;
      const Graph graph = graph_of(layer, tail);
      const auto inputs = random_inputs(graph);
      for (const x86::Isa isa : isas_in_use()) {
        INFO(layer.name << "; " << tail.name << "; " << (isa == x86::Isa::avx2 ? "avx2" : "avx512"));
        x86::X86Backend backend(isa);
        const auto plan = build_plan(graph, fused({&backend, reference()})),
                   alone = build_plan(graph, apart(fused({&backend, reference()})));
        CHECK(kinds(*plan) == "host pointwise");
        CHECK(becomes_one(*plan));
        CHECK_FALSE(becomes_one(*alone));
        const auto found = run(*plan, inputs), wanted = run(*alone, inputs);
        REQUIRE(found.size() == wanted.size());
        for (std::size_t k = 0; k < found.size(); ++k) CHECK(found[k].data == wanted[k].data);
      }
    }
}

TEST_CASE("what follows a convolution does not depend on the number of threads") {
  for (const Layer& layer : layers()) {
    INFO(layer.name);
    check_bits_of_threads(graph_of(layer, tails()[2]));
  }
}

TEST_CASE("what reads a convolution's result otherwise, or beside others, stays apart") {
  const Layer depthwise = layers()[0], windows = layers()[4];
  const Tail kept[] = {
      {"a result of its own", [](Val y, Val bias, Val) { return std::vector{relu(y + bias), y}; }},
      {"read again", [](Val y, Val bias, Val) { return std::vector{relu(y + bias), sum(y, {0})}; }},
      {"other places", [](Val y, Val, Val) { return std::vector{permute(y, {0, 1, 3, 2}) * 2.0}; }},
      {"a place", [](Val y, Val, Val) { return std::vector{y + iota(y, y.shape(), 3, y.dtype())}; }},
  };
  for (const Layer& layer : {depthwise, windows})
    for (const Tail& tail : kept) {
      INFO(layer.name << "; " << tail.name);
      const Graph graph = graph_of(layer, tail);
      const auto inputs = random_inputs(graph);
      x86::X86Backend backend(isas_in_use().front());
      const auto plan = build_plan(graph, fused({&backend, reference()}));
      CHECK_FALSE(becomes_one(*plan));
      const auto found = run(*plan, inputs),
                 wanted = run(*build_plan(graph, apart(fused({&backend, reference()}))), inputs);
      for (std::size_t k = 0; k < found.size(); ++k) CHECK(found[k].data == wanted[k].data);
    }
}

/// The plan gives what follows the memory of images that are not read any more.
TEST_CASE("convolutions in a row, with their images added to their results") {
  for (const bool is_depthwise : {true, false}) {
    GraphBuilder builder;
    const std::int64_t channels = 12;
    Val x{&builder, builder.input({DType::f32, Device::cpu(), {3, channels, 14, 13}}), {}};
    const Val weight{
        &builder, builder.input({DType::f32, Device::cpu(), {channels, is_depthwise ? 1 : channels, 3, 3}}), {}};
    Layer layer = layers()[0];
    layer.groups = is_depthwise ? channels : 1;
    layer.x = x.shape();
    for (int i = 0; i < 4; ++i) x = sigmoid(apply(op_info<ops::Convolution>, {x, weight}, layer.attrs()) + x) * 0.5 + x;
    const Graph graph = builder.finish(std::span(&x.value, 1));
    const auto inputs = random_inputs(graph);
    x86::X86Backend backend(isas_in_use().front());
    const auto found = run(*build_plan(graph, fused({&backend, reference()})), inputs),
               wanted = run(*build_plan(graph, apart(fused({&backend, reference()}))), inputs);
    CHECK(found[0].data == wanted[0].data);
    CHECK(difference(found[0], oracle::evaluate(graph, inputs)[0], 1e-5) == "");
  }
}

/// One of two results gets the memory of the convolution's image, which nobody reads any more.
TEST_CASE("what follows a convolution does not write over the image") {
  for (const bool is_depthwise : {true, false}) {
    GraphBuilder builder;
    const std::int64_t channels = 12;
    const Val x{&builder, builder.input({DType::f32, Device::cpu(), {3, channels, 14, 13}}), {}};
    const Val weight{
        &builder, builder.input({DType::f32, Device::cpu(), {channels, is_depthwise ? 1 : channels, 3, 3}}), {}};
    Layer layer = layers()[0];
    layer.groups = is_depthwise ? channels : 1;
    layer.x = x.shape();
    const auto convolved = [&](Val image) { return apply(op_info<ops::Convolution>, {image, weight}, layer.attrs()); };
    const Val y = convolved(sigmoid(x)), first = relu(y), second = y * y;
    const Val out = convolved(first) + convolved(second);
    const Graph graph = builder.finish(std::span(&out.value, 1));
    const auto inputs = random_inputs(graph);
    x86::X86Backend backend(isas_in_use().front());
    const auto found = run(*build_plan(graph, fused({&backend, reference()})), inputs),
               wanted = run(*build_plan(graph, apart(fused({&backend, reference()}))), inputs);
    CHECK(found[0].data == wanted[0].data);
  }
}

/// Who watches sees both steps, and the results are the same.
TEST_CASE("a convolution and what follows it are watched as two steps") {
  struct Count final : StepListener {
    void begin(const PlanStep&) override { ++begun; }
    void end(const PlanStep&, Device, const StepCost&, std::int64_t) override {}
    int begun = 0;
  };
  const Graph graph = graph_of(layers()[0], tails()[1]);
  const auto inputs = random_inputs(graph);
  x86::X86Backend backend(isas_in_use().front());
  const auto plan = build_plan(graph, fused({&backend, reference()}));
  CHECK(becomes_one(*plan));
  const auto wanted = run(*plan, inputs);
  Count count;
  const ListenToSteps listen(count);
  CHECK(run(*plan, inputs)[0].data == wanted[0].data);
  CHECK(count.begun == 2);
}
#endif
