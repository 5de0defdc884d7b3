// The pass that prepares attention for kernels: which gradients get the levels of the forward pass, and which keys are
// read where they are.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/graph/builder.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/attention_kernels.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

using namespace sinter;

namespace {
using Attention = ops::ScaledDotProductAttention;
using Gradient = ops::ScaledDotProductAttentionGradient;

bool is_attention(const OpInfo* op) {
  return op == &op_info<Attention> || op == &op_info<Gradient> || op == &op_info<ops::AttentionWithLevels> ||
         op == &op_info<ops::AttentionGradientWithLevels>;
}
bool keep_all(const Graph&, const Node& node) { return is_attention(node.op); }
Graph prepared(const Graph& graph, std::function<bool(const Graph&, const Node&)> keep = keep_all) {
  const Graph after = AttentionForKernels{std::move(keep)}(graph);
  verify(after);
  return after;
}
const Node* find(const Graph& graph, const OpInfo& op) {
  const auto found =
      std::find_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& n) { return n.op == &op; });
  return found == graph.nodes().end() ? nullptr : &*found;
}

/// Attention and its packed gradients, with what a test changes of the usual.
struct Written {
  Device device = Device::cuda(0);
  DType mask = DType::f64;  // none
  bool is_grouped = false;
  bool stretches_values = true;  // else they are given for all heads
  double gradient_scale = 0.5;   // of both, usually
  bool has_gradient = true;
  Gradient::Packing packing = Gradient::Packing::whole;
  Shape mask_shape{8, 8};
  std::int64_t slice_offset = 0;  // else no slice is a gradient

  Graph graph() const {
    GraphBuilder b;
    const auto input = [&](const Shape& shape, DType dtype = DType::f16) { return b.input({dtype, device, shape}); };
    const Shape all{2, 3, 4, 8, 16}, one{2, 3, 1, 8, 16};
    const Value q = input(all), dout = input(all);
    Value k = input(is_grouped ? one : all), v = input(is_grouped && stretches_values ? one : all);
    if (is_grouped) k = b.add(op_info<ops::Expand>, {k}, Attrs{.shape = all});
    if (is_grouped && stretches_values) v = b.add(op_info<ops::Expand>, {v}, Attrs{.shape = all});
    std::vector<Value> operands{q, k, v};
    if (mask != DType::f64) operands.push_back(input(mask_shape, mask));
    const Value out = b.add(op_info<Attention>, operands, Attrs{}.with(Attention::scale, 0.5));
    if (!has_gradient) return b.finish(std::vector<Value>{out});
    operands.insert(operands.begin() + 3, {out, dout});
    Attrs attrs = Attrs{}.with(Attention::scale, gradient_scale);
    attrs.set(Gradient::packing, packing);
    const Value packed = b.add(op_info<Gradient>, operands, std::move(attrs));
    if (packing != Gradient::Packing::whole) return b.finish(std::vector<Value>{out, packed});
    std::vector<Value> outputs{out};
    const std::int64_t count = 2 * 3 * 4 * 8 * 16;
    for (std::int64_t i = 0; i < 3; ++i) {
      Attrs part;
      part.set(ops::Slice::starts, Shape{i * count + slice_offset});
      part.set(ops::Slice::ends, Shape{(i + 1) * count + slice_offset - (i == 2 ? slice_offset : 0)});
      part.set(ops::Slice::steps, IntVector{1});
      const Value slice = b.add(op_info<ops::Slice>, {packed}, std::move(part));
      outputs.push_back(slice_offset == 0 ? b.add(op_info<ops::Reshape>, {slice}, Attrs{.shape = all}) : slice);
    }
    return b.finish(outputs);
  }
};
}  // namespace

TEST_CASE("attention with its gradients in the graph leaves them the levels of its queries") {
  for (const DType mask : {DType::f64, DType::bool_, DType::f16}) {
    INFO(name(mask));
    const Graph before = Written{.mask = mask}.graph(), after = prepared(before);
    const Node *const forward = find(after, op_info<ops::AttentionWithLevels>),
                      *const gradient = find(after, op_info<ops::AttentionGradientWithLevels>);
    REQUIRE(forward != nullptr);
    REQUIRE(gradient != nullptr);
    CHECK(find(after, op_info<Attention>) == nullptr);
    CHECK(find(after, op_info<Gradient>) == nullptr);
    CHECK(forward->types[0].shape == Shape{2, 3, 4, 8, 16});
    CHECK(forward->types[1].shape == Shape{2, 3, 4, 8, mask == DType::f16 ? 2 : 1});
    CHECK(forward->types[1].dtype == DType::f32);
    CHECK(forward->attrs[Attention::scale] == 0.5);
    CHECK(gradient->inputs[3] == Value{gradient->inputs[5].node, 0});
    CHECK(gradient->types.size() == 3);
    CHECK(gradient->inputs[5].result == 1);
    CHECK(gradient->inputs.size() == (mask == DType::f64 ? 6U : 7U));
    CHECK(find(after, op_info<ops::Slice>) == nullptr);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(after.type(after.outputs()[i]).text() == before.type(before.outputs()[i]).text());
    for (std::int32_t i = 0; i < 3; ++i) CHECK(after.outputs()[as_index(i + 1)] == Value{after.outputs()[1].node, i});
  }
}

TEST_CASE("attention reads keys and values of groups of heads in place") {
  for (const bool has_gradient : {false, true}) {
    const Graph before = Written{.is_grouped = true, .has_gradient = has_gradient}.graph(), after = prepared(before);
    CHECK(find(after, op_info<ops::Expand>) == nullptr);
    const Node* const forward = find(after, op_info<ops::AttentionWithLevels>);
    REQUIRE(forward != nullptr);
    CHECK(after.type(forward->inputs[1]).shape == Shape{2, 3, 8, 16});
    CHECK(forward->types[0].shape == Shape{2, 12, 8, 16});
    for (std::size_t i = 0; i < after.outputs().size(); ++i)  // gradients by keys are still those of every head
      CHECK(after.type(after.outputs()[i]).text() == before.type(before.outputs()[i]).text());
  }
}

TEST_CASE("a mask for each head keeps heads of a group apart") {
  for (const Shape& mask : {Shape{8, 8}, Shape{2, 1, 1, 8, 8}, Shape{3, 1, 8, 8}, Shape{4, 8, 8}}) {
    INFO(mask.text());
    const Graph after = prepared(Written{.mask = DType::f16, .is_grouped = true, .mask_shape = mask}.graph());
    const Node* const forward = find(after, op_info<ops::AttentionWithLevels>);
    REQUIRE(forward != nullptr);
    const bool is_for_all = mask.rank() == 2 || mask.rank() == 5;
    CHECK(forward->types[0].shape == (is_for_all ? Shape{2, 12, 8, 16} : Shape{2, 3, 4, 8, 16}));
    CHECK(after.type(forward->inputs[1]).shape == (is_for_all ? Shape{2, 3, 8, 16} : Shape{2, 3, 1, 8, 16}));
    if (mask.rank() == 5) CHECK(after.type(forward->inputs[3]).shape == Shape{2, 1, 8, 8});
  }
}

TEST_CASE("after all passes attention of grouped heads has the operands and the result of the user") {
  GraphBuilder b;
  const auto input = [&](const Shape& shape) { return b.input({DType::f16, Device::cuda(0), shape}); };
  const auto reshape = [&](Value v, const Shape& shape) {
    return b.add(op_info<ops::Reshape>, {v}, Attrs{.shape = shape});
  };
  const Shape whole{2, 8, 100, 64}, grouped{2, 2, 4, 100, 64};
  const Value q = input(whole), k = input({2, 2, 100, 64}), dout = input(whole);
  const Value stretched = b.add(op_info<ops::Expand>, {reshape(k, {2, 2, 1, 100, 64})}, Attrs{.shape = grouped});
  const Value lifted = reshape(q, grouped);
  const Value out = b.add(op_info<Attention>, {lifted, stretched, stretched});
  const Value packed = b.add(op_info<Gradient>, {lifted, stretched, stretched, out, reshape(dout, grouped)}, Attrs{});
  Attrs part;
  part.set(ops::Slice::starts, Shape{0});
  part.set(ops::Slice::ends, Shape{2 * 8 * 100 * 64});
  part.set(ops::Slice::steps, IntVector{1});
  const Value dq = reshape(b.add(op_info<ops::Slice>, {packed}, std::move(part)), grouped);
  PipelineOptions options;
  options.keep = keep_all;
  options.checks = true;
  const Graph after = run_pipeline(b.finish(std::vector<Value>{reshape(out, whole), reshape(dq, whole)}), options);
  INFO(after.text());
  CHECK(after.nodes().size() == 5);  // three inputs, the attention and its gradients
  CHECK(after.node(after.outputs()[0]).op == &op_info<ops::AttentionWithLevels>);
  CHECK(after.node(after.outputs()[1]).op == &op_info<ops::AttentionGradientWithLevels>);
}

TEST_CASE("attention stays as it is where that would not do") {
  const auto is_unchanged = [](const Graph& graph, const std::function<bool(const Graph&, const Node&)>& keep) {
    return prepared(graph, keep).text() == graph.text();
  };
  CHECK(is_unchanged(Written{.has_gradient = false}.graph(), keep_all));  // nobody wants levels
  CHECK(is_unchanged(Written{.device = Device::cpu()}.graph(), keep_all));
  CHECK(is_unchanged(Written{.gradient_scale = 0.25}.graph(), keep_all));  // of another attention
  CHECK(is_unchanged(Written{.packing = Gradient::Packing::batch}.graph(), keep_all));
  CHECK(is_unchanged(Written{.slice_offset = 1}.graph(), keep_all));
  CHECK(is_unchanged(Written{.is_grouped = true, .stretches_values = false, .has_gradient = false}.graph(), keep_all));
  CHECK(is_unchanged(Written{}.graph(), [](const Graph&, const Node&) { return false; }));
  CHECK(is_unchanged(Written{.is_grouped = true}.graph(), [](const Graph&, const Node& node) {  // a back end without it
    return node.op == &op_info<Attention> || node.op == &op_info<Gradient>;
  }));
}
