// One walk that keeps for each complex value its parts, its pair, or the value itself, and makes one from another where
// it is asked for, once.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/complex.hpp>

#include <algorithm>
#include <array>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace passes_detail {

inline bool has_complex_value(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return std::any_of(node.types.begin(), node.types.end(), [](const Type& type) { return is_complex(type.dtype); });
  });
}

class ComplexWalk {
 public:
  explicit ComplexWalk(const Graph& graph) : graph_(graph), builder_(graph), known_(graph.nodes().size()) {}

  Graph run() {
    builder_.reserve(2 * graph_.nodes().size());
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) rewrite(static_cast<std::int32_t>(id));
    std::vector<Value> outputs;
    for (Value v : graph_.outputs()) outputs.push_back(whole(v));
    return builder_.finish(outputs);
  }

 private:
  /// What there is of a value of the old graph: of one that is not complex, only `value`.
  struct Known {
    Value value, pair, re, im;
  };
  Known& known(Value v) { return known_[as_index(v.node)][as_index(v.result)]; }
  Val val(Value v, Location where) { return {&builder_, v, where}; }
  Location where_of(Value v) const { return graph_.node(v).where; }

  /// In memory: real and imaginary part along a last axis of 2.
  Value pair(Value v) {
    Known& it = known(v);
    if (it.pair) return it.pair;
    const Location where = where_of(v);
    if (!it.re) return it.pair = view_as_real(val(it.value, where)).value;
    const Val re = val(it.re, where), im = val(it.im, where);
    Shape column = re.shape(), whole = column;
    column.push_back(1);
    whole.push_back(2);
    const Val empty{
        &builder_,
        builder_.add(op_info<ops::Empty>, {},
                     Attrs{.shape = whole, .dtype = re.dtype(), .has_dtype = true, .device = re.type().device}, where),
        where};
    const IntVector steps(as_index(whole.rank()), 1);
    Shape starts = ops_detail::zero_starts(whole.rank());
    const Val first = update_slice(empty, reshape(re, column), starts, steps);
    starts.set(whole.rank() - 1, 1);
    return it.pair = update_slice(first, reshape(im, column), starts, steps).value;
  }
  /// The value of the new graph that stands for `v`.
  Value whole(Value v) {
    if (!known(v).value) known(v).value = view_as_complex(val(pair(v), where_of(v))).value;
    return known(v).value;
  }
  Value part(Value v, int number) {
    if (!known(v).re) {
      const Val both = val(pair(v), where_of(v));
      const Shape shape = graph_.type(v).shape;
      const int axis = shape.rank();
      known(v).re = reshape(slice_axis(both, axis, 0, 1), shape).value;
      known(v).im = reshape(slice_axis(both, axis, 1, 2), shape).value;
    }
    return number == 0 ? known(v).re : known(v).im;
  }

  void rewrite(std::int32_t id) {
    const Node& node = graph_.node(id);
    known_[as_index(id)].resize(node.types.size());
    Known& result = known_[as_index(id)][0];
    if (node.op == &op_info<ops::Complex>) {
      result.re = known(node.inputs[0]).value;
      result.im = known(node.inputs[1]).value;
    } else if (node.op == &op_info<ops::Real> || node.op == &op_info<ops::Imag>) {
      result.value = part(node.inputs[0], node.op == &op_info<ops::Imag>);
    } else if (node.op == &op_info<ops::ViewAsReal>) {
      result.value = pair(node.inputs[0]);
    } else if (node.op == &op_info<ops::ViewAsComplex>) {
      result.pair = known(node.inputs[0]).value;
    } else if (node.op->kind == OpKind::view && is_complex(node.types[0].dtype)) {
      rewrite_view(node, result);
    } else if (node.op == &op_info<ops::Barrier>) {
      rewrite_barrier(node, result);
    } else {
      Values operands;
      for (Value v : node.inputs) operands.push_back(whole(v));
      const std::int32_t copied = builder_.copy(node, operands).node;
      for (std::size_t r = 0; r < node.types.size(); ++r)
        known_[as_index(id)][r].value = {copied, static_cast<std::int32_t>(r)};
    }
  }

  /// Its operands are what is passed on, and a number that is waited for.
  void rewrite_barrier(const Node& node, Known& result) {
    const bool is_pair = is_complex(node.types[0].dtype);
    const Value token = node.inputs[1], x = is_pair ? pair(node.inputs[0]) : known(node.inputs[0]).value;
    const Value waited_for = is_complex(graph_.type(token).dtype) ? part(token, 0) : known(token).value;
    (is_pair ? result.pair : result.value) = builder_.add(*node.op, {x, waited_for}, node.attrs, node.where);
  }

  /// Of parts, where there are parts; a view of memory stays one, of pairs.
  void rewrite_view(const Node& node, Known& result) {
    const Value from = node.inputs[0];
    if (known(from).re && !known(from).pair && !known(from).value) {
      const auto view_of = [&](Value v) { return builder_.add(*node.op, {v}, node.attrs, node.where); };
      result.re = view_of(known(from).re);
      result.im = view_of(known(from).im);
      return;
    }
    Attrs attrs = node.attrs;
    const int rank = graph_.type(from).shape.rank();
    if (node.op == &op_info<ops::Permute>) {
      for (std::int64_t& axis : attrs.axes) axis = axis < 0 ? axis + rank : axis;
      attrs.axes.push_back(rank);
    } else if (node.op == &op_info<ops::Slice>) {
      Shape starts = attrs[ops::Slice::starts], ends = attrs[ops::Slice::ends];
      IntVector steps = attrs[ops::Slice::steps];
      starts.push_back(0);
      ends.push_back(2);
      steps.push_back(1);
      attrs.set(ops::Slice::starts, starts);
      attrs.set(ops::Slice::ends, ends);
      attrs.set(ops::Slice::steps, steps);
    } else {
      ensure(node.op == &op_info<ops::Reshape> || node.op == &op_info<ops::Expand>, "a view of complex numbers");
      attrs.shape.push_back(2);
    }
    result.pair = builder_.add(*node.op, {pair(from)}, std::move(attrs), node.where);
  }

  const Graph& graph_;
  GraphBuilder builder_;
  std::vector<std::vector<Known>> known_;
};

}  // namespace passes_detail

SINTER_DECL Graph ComplexToPairs::operator()(const Graph& graph) const {
  if (!passes_detail::has_complex_value(graph)) return graph;
  return passes_detail::ComplexWalk(graph).run();
}

SINTER_NAMESPACE_END
