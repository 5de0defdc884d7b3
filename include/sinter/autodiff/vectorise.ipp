// The walk. A composite without a rule is decomposed on the side, for one example, and its parts are walked in its
// place.
#pragma once

#include <sinter/autodiff/vectorise.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/outline.hpp>

SINTER_NAMESPACE_BEGIN
namespace vectorise_detail {

class Vectoriser {
 public:
  Vectoriser(GraphBuilder& builder, Dim size) : builder_(builder), size_(size) {}

  std::vector<Batched> run(const Graph& graph, std::span<const Batched> inputs) {
    std::vector<BatchedList> made(graph.nodes().size());
    auto value_of = [&](Value v) { return made[as_index(v.node)][as_index(v.result)]; };
    for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
      const Node& node = graph.nodes()[id];
      if (node.op == &op_info<ops::Input>) {
        made[id].push_back(inputs[as_index(node.attrs[input_position])]);
        continue;
      }
      ValList operands;
      SmallVector<std::uint8_t, 8> batched;
      bool depends = node.op->is_random;
      for (Value v : node.inputs) {
        const Batched in = value_of(v);
        operands.push_back(Val{&builder_, in.value.value, node.where});
        batched.push_back(in.is_batched);
        depends = depends || in.is_batched;
      }
      if (depends) made[id] = batch_node(graph, node, operands, batched);
      else made[id] = copy_node(node, operands);
    }
    std::vector<Batched> outputs;
    for (Value v : graph.outputs()) outputs.push_back(value_of(v));
    return outputs;
  }

 private:
  BatchedList copy_node(const Node& node, const ValList& operands) {
    Values inputs;
    for (const Val& v : operands) inputs.push_back(v.value);
    const Value copied = builder_.copy(node, inputs);
    BatchedList results;
    for (std::size_t r = 0; r < node.types.size(); ++r)
      results.push_back(Batched(Val{&builder_, Value{copied.node, static_cast<std::int32_t>(r)}, node.where}, false));
    return results;
  }

  BatchedList batch_node(const Graph& graph, const Node& node, const ValList& operands,
                         std::span<const std::uint8_t> batched) {
    BatchedList results;
    if (node.op->batch != nullptr) {
      node.op->batch(BatchArgs{*node.op, operands, batched, size_, node.attrs, node.where, &vectorise}, results);
      if (results[0].value) return results;
    }
    if (node.op->decompose == nullptr)
      throw UserError("vmap", "there is no batching rule for " + std::string(node.op->name), node.where,
                      "call it outside of the mapped function, or pass what it needs unbatched (jit::no_axis)");
    GraphBuilder one;  // the decomposition for one example
    ValList inputs;
    std::vector<Batched> states;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      inputs.push_back(Val{&one, one.input(graph.type(node.inputs[i]), {}, node.where), node.where});
      states.push_back(Batched(operands[i], batched[i] != 0));
    }
    const Value result = node.op->decompose(DecomposeArgs{inputs, node.attrs, node.where}).value;
    results.clear();
    for (const Batched& output : run(one.finish({&result, 1}), states)) results.push_back(output);
    return results;
  }

  GraphBuilder& builder_;
  Dim size_;
};

}  // namespace vectorise_detail

SINTER_DECL std::vector<Batched> vectorise(GraphBuilder& builder, const Graph& traced, std::span<const Batched> inputs,
                                           Dim size) {
  const Graph graph = inline_calls(traced);
  ensure(inputs.size() == graph.inputs().size(), "a vectorised graph needs all its inputs");
  return vectorise_detail::Vectoriser(builder, size).run(graph, inputs);
}

SINTER_NAMESPACE_END
