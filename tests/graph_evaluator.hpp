// A test oracle: evaluates a Graph node by node, one element at a time, in long double, which holds every i64 and more
// than every f64. Shares with the library only the graph, the ops' scalar bodies (`lower`) and their decompositions;
// everything else is written here anew, for reading and not for speed.
#pragma once

#include "graph_evaluator_scalars.hpp"

#include <sinter/graph/builder.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/philox.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

namespace oracle {

// Nodes

inline Extents numbers(const sinter::Shape& shape, const std::vector<std::int64_t>& symbols) {
  Extents out;
  for (sinter::Dim dim : shape.dims()) out.push_back(dim.evaluate(symbols));
  return out;
}

/// What a node's evaluation sees: its operands, its attributes with every symbol replaced, and the extents of its
/// result.
struct NodeArgs {
  std::vector<const Array*> in;
  const sinter::Attrs& attrs;
  const std::vector<std::int64_t>& symbols;
  Array out;  // zeros of the result's type, to be filled
};

inline void evaluate_elementwise(const sinter::OpInfo& op, NodeArgs& a) {
  sinter::ScalarBuilder builder;
  std::vector<sinter::ScalarValue> loads;
  for (std::size_t i = 0; i < a.in.size(); ++i)
    loads.push_back(builder.load(static_cast<std::uint16_t>(i), a.in[i]->dtype));
  const sinter::ScalarValue result = op.lower(builder, loads, a.attrs);
  if (result.dtype != a.out.dtype)
    throw std::logic_error("oracle: " + std::string(op.name) + " lowers to another dtype than it infers");
  const auto& body = builder.body();
  std::vector<Number> values(body.size()), operands(a.in.size());
  for_each_index(a.out.extents, [&](const Extents& index) {
    for (std::size_t i = 0; i < a.in.size(); ++i) operands[i] = broadcast_element(*a.in[i], index);
    for (std::size_t i = 0; i < body.size(); ++i) values[i] = run_instruction(body[i], body, values, operands);
    a.out.data[flat_index(a.out.extents, index)] = values[result.id];
  });
}

/// argmax and argmin, from what they are defined to be.
inline void evaluate_position(const sinter::OpInfo& op, NodeArgs& a) {
  const Array& x = *a.in[0];
  const bool is_least = op.name == "argmin";
  std::vector<std::int64_t> seen(a.out.data.size());
  std::vector<Number> best(a.out.data.size());
  for_each_index(x.extents, [&](const Extents& index) {
    Extents to;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const bool is_reduced =
          std::find(a.attrs.axes.begin(), a.attrs.axes.end(), static_cast<std::int64_t>(i)) != a.attrs.axes.end();
      if (!is_reduced) to.push_back(index[i]);
      else if (a.attrs.keepdim) to.push_back(0);
    }
    const std::size_t at = flat_index(a.out.extents, to);
    const Number value = x.data[flat_index(x.extents, index)];
    const std::int64_t position = seen[at]++;
    const bool is_beyond = is_least ? value < best[at] : value > best[at];
    if (position != 0 && (std::isnan(best[at]) || !(is_beyond || std::isnan(value)))) return;
    best[at] = value;
    a.out.data[at] = static_cast<Number>(position);
  });
}

inline void evaluate_reduction(const sinter::OpInfo& op, NodeArgs& a) {
  using sinter::Prim;
  if (op.fold != nullptr) return evaluate_position(op, a);
  const Array& x = *a.in[0];
  const auto prim = static_cast<Prim>(op.reduction);
  const Number infinity = std::numeric_limits<Number>::infinity();
  const Number neutral = prim == Prim::reduce_add   ? 0
                         : prim == Prim::reduce_mul ? 1
                         : prim == Prim::reduce_min ? infinity
                                                    : -infinity;
  const Prim combine = prim == Prim::reduce_add   ? Prim::add
                       : prim == Prim::reduce_mul ? Prim::mul
                       : prim == Prim::reduce_min ? Prim::min
                                                  : Prim::max;
  std::fill(a.out.data.begin(), a.out.data.end(), neutral);
  for_each_index(x.extents, [&](const Extents& index) {
    Extents to;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const bool is_reduced =
          std::find(a.attrs.axes.begin(), a.attrs.axes.end(), static_cast<std::int64_t>(i)) != a.attrs.axes.end();
      if (!is_reduced) to.push_back(index[i]);
      else if (a.attrs.keepdim) to.push_back(0);
    }
    Number& sum = a.out.data[flat_index(a.out.extents, to)];
    sum = floating_primitive(combine, sum, x.data[flat_index(x.extents, index)]);
    if (x.dtype == sinter::DType::i32)
      sum = wrapped(static_cast<std::uint64_t>(static_cast<std::int64_t>(sum)), x.dtype);
  });
}

/// Integers wrap as the dtype's. Nothing is before the first element: 0, 1, the lowest or the highest number.
inline void evaluate_scan(const sinter::OpInfo& op, NodeArgs& a) {
  using sinter::Prim;
  const auto prim = static_cast<Prim>(op.reduction);
  const bool is_real = sinter::is_floating(a.out.dtype), is_wide = a.out.dtype == sinter::DType::i64;
  const Number infinity = std::numeric_limits<Number>::infinity();
  const Number highest = is_real ? infinity : is_wide ? 9223372036854775807.0L : 2147483647.0L;
  const Number lowest = is_real ? -infinity : -highest - 1;
  const auto axis = static_cast<std::size_t>(a.attrs.axes[0]);
  const bool is_exclusive = a.attrs[sinter::ops_detail::is_exclusive];
  Extents lines = a.out.extents;
  const std::int64_t length = lines[axis];
  lines[axis] = length == 0 ? 0 : 1;
  for_each_index(lines, [&](Extents index) {
    Number sum = prim == Prim::scan_add ? 0 : prim == Prim::scan_mul ? 1 : prim == Prim::scan_min ? highest : lowest;
    for (std::int64_t i = 0; i < length; ++i) {
      index[axis] = a.attrs[sinter::ops_detail::is_reversed] ? length - 1 - i : i;
      const std::size_t at = flat_index(a.out.extents, index);
      const Prim step = prim == Prim::scan_add   ? Prim::add
                        : prim == Prim::scan_mul ? Prim::mul
                        : prim == Prim::scan_min ? Prim::min
                                                 : Prim::max;
      const Number before = sum, x = a.in[0]->data[at];
      if (is_real) sum = floating_primitive(step, before, x);
      else sum = integer_primitive(step, a.out.dtype, static_cast<std::int64_t>(before), static_cast<std::int64_t>(x));
      a.out.data[at] = is_exclusive ? before : sum;
    }
  });
}

/// Fills the result with in[0] at the index that `source` gives for each result index.
template <class F>
void evaluate_view(NodeArgs& a, F&& source) {
  for_each_index(a.out.extents, [&](const Extents& index) {
    a.out.data[flat_index(a.out.extents, index)] = a.in[0]->data[flat_index(a.in[0]->extents, source(index))];
  });
}

inline void evaluate_full(NodeArgs& a) {
  const Number value =
      sinter::is_floating(a.out.dtype) ? static_cast<Number>(a.attrs.value) : static_cast<Number>(a.attrs.integer);
  std::fill(a.out.data.begin(), a.out.data.end(), value);
}

/// NaN, so that what update_slice forgets to overwrite shows.
inline void evaluate_empty(NodeArgs& a) {
  std::fill(a.out.data.begin(), a.out.data.end(), std::numeric_limits<Number>::quiet_NaN());
}

inline void evaluate_iota(NodeArgs& a) {
  for_each_index(a.out.extents, [&](const Extents& index) {
    a.out.data[flat_index(a.out.extents, index)] =
        static_cast<Number>(index[static_cast<std::size_t>(a.attrs.axes[0])]);
  });
}

inline void evaluate_reshape(NodeArgs& a) { a.out.data = a.in[0]->data; }

inline void evaluate_permute(NodeArgs& a) {
  evaluate_view(a, [&](const Extents& index) {
    Extents from(index.size());
    for (std::size_t i = 0; i < index.size(); ++i) from[static_cast<std::size_t>(a.attrs.axes[i])] = index[i];
    return from;
  });
}

inline void evaluate_expand(NodeArgs& a) {
  for_each_index(a.out.extents, [&](const Extents& index) {
    a.out.data[flat_index(a.out.extents, index)] = broadcast_element(*a.in[0], index);
  });
}

inline void evaluate_slice(NodeArgs& a) {
  const Extents starts = numbers(a.attrs[sinter::ops::Slice::starts], a.symbols);
  evaluate_view(a, [&](const Extents& index) {
    Extents from = index;
    for (std::size_t i = 0; i < index.size(); ++i)
      from[i] = starts[i] + index[i] * a.attrs[sinter::ops::Slice::steps][i];
    return from;
  });
}

inline void evaluate_windows(NodeArgs& a) {
  const std::size_t rank = a.in[0]->extents.size();
  evaluate_view(a, [&](const Extents& index) {
    Extents from(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(rank));
    for (std::size_t i = 0; i < a.attrs.axes.size(); ++i) {
      std::int64_t& at = from[static_cast<std::size_t>(a.attrs.axes[i])];
      at = at * a.attrs[sinter::ops::Windows::strides][i] + index[rank + i];
    }
    return from;
  });
}

inline void evaluate_update_slice(NodeArgs& a) {
  a.out.data = a.in[0]->data;
  const Array& value = *a.in[1];
  const Extents starts = numbers(a.attrs[sinter::ops::UpdateSlice::starts], a.symbols);
  for_each_index(value.extents, [&](const Extents& index) {
    Extents to = index;
    for (std::size_t i = 0; i < index.size(); ++i)
      to[i] = starts[i] + index[i] * a.attrs[sinter::ops::UpdateSlice::steps][i];
    a.out.data[flat_index(a.out.extents, to)] = value.data[flat_index(value.extents, index)];
  });
}

inline void evaluate_matmul(NodeArgs& a) {
  const Array &left = *a.in[0], &right = *a.in[1];
  const std::size_t rank = left.extents.size();
  for_each_index(a.out.extents, [&](const Extents& index) {
    Number sum = 0;
    Extents l = index, r = index;
    for (std::int64_t k = 0; k < left.extents[rank - 1]; ++k) {
      l[rank - 1] = k;
      r[rank - 2] = k;
      sum += left.data[flat_index(left.extents, l)] * right.data[flat_index(right.extents, r)];
    }
    a.out.data[flat_index(a.out.extents, index)] = sum;
  });
}

/// The place in `x` that position `index` of a take along `axis` reads; the first `shared` axes are x's and the
/// positions', and so are the last `inner` ones.
inline Extents taken_index(const Extents& index, const Array& positions, std::size_t axis, std::size_t shared = 0,
                           std::size_t inner = 0) {
  const std::size_t own = positions.extents.size() - shared - inner;
  const auto begin = index.begin() + static_cast<std::ptrdiff_t>(axis);
  const auto end = begin + static_cast<std::ptrdiff_t>(own);
  Extents from(index.begin(), begin), at(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(shared));
  at.insert(at.end(), begin, end);
  at.insert(at.end(), index.end() - static_cast<std::ptrdiff_t>(inner), index.end());
  from.push_back(static_cast<std::int64_t>(positions.data[flat_index(positions.extents, at)]));
  from.insert(from.end(), end, index.end());
  return from;
}

inline void evaluate_take(NodeArgs& a) {
  evaluate_view(a, [&](const Extents& index) {
    return taken_index(index, *a.in[1], static_cast<std::size_t>(a.attrs.axes[0]),
                       static_cast<std::size_t>(a.attrs[sinter::ops::Take::shared]),
                       static_cast<std::size_t>(a.attrs[sinter::ops::Take::inner]));
  });
}

inline void evaluate_scatter_add(NodeArgs& a) {
  const Array& value = *a.in[1];
  for_each_index(value.extents, [&](const Extents& index) {
    const Extents to = taken_index(index, *a.in[0], static_cast<std::size_t>(a.attrs.axes[0]));
    a.out.data[flat_index(a.out.extents, to)] += value.data[flat_index(value.extents, index)];
  });
}

inline void evaluate_scatter(NodeArgs& a) {
  using sinter::Combine;
  const Array& value = *a.in[2];
  a.out.data = a.in[0]->data;
  for_each_index(value.extents, [&](const Extents& index) {
    const Extents at = taken_index(index, *a.in[1], static_cast<std::size_t>(a.attrs.axes[0]),
                                   static_cast<std::size_t>(a.attrs[sinter::ops::Scatter::shared]),
                                   static_cast<std::size_t>(a.attrs[sinter::ops::Scatter::inner]));
    Number& to = a.out.data[flat_index(a.out.extents, at)];
    const Number x = value.data[flat_index(value.extents, index)];
    switch (a.attrs[sinter::ops::Scatter::combine]) {
      case Combine::none: to = x; break;
      case Combine::add:
        to = a.out.dtype == sinter::DType::bool_ ? static_cast<Number>(to != 0 || x != 0) : to + x;
        break;
      case Combine::mul: to *= x; break;
      case Combine::min: to = x < to || x != x ? x : to; break;
      case Combine::max: to = x > to || x != x ? x : to; break;
    }
  });
}

inline void evaluate_random_bits(NodeArgs& a) {
  for (std::size_t i = 0; i < a.out.data.size(); ++i)
    a.out.data[i] = static_cast<Number>(sinter::philox_bits(static_cast<std::int64_t>(a.in[0]->data[0]),
                                                            static_cast<std::int64_t>(a.in[1]->data[0]),
                                                            static_cast<std::int64_t>(i)));
}

using NodeFunction = void (*)(NodeArgs&);
inline const std::map<const sinter::OpInfo*, NodeFunction>& node_functions() {
  using sinter::op_info;
  namespace ops = sinter::ops;
  static const std::map<const sinter::OpInfo*, NodeFunction> functions{
      {&op_info<ops::Full>, evaluate_full},
      {&op_info<ops::Empty>, evaluate_empty},
      {&op_info<ops::Iota>, evaluate_iota},
      {&op_info<ops::Reshape>, evaluate_reshape},
      {&op_info<ops::Permute>, evaluate_permute},
      {&op_info<ops::Expand>, evaluate_expand},
      {&op_info<ops::Slice>, evaluate_slice},
      {&op_info<ops::Windows>, evaluate_windows},
      {&op_info<ops::UpdateSlice>, evaluate_update_slice},
      {&op_info<ops::Matmul>, evaluate_matmul},
      {&op_info<ops::Take>, evaluate_take},
      {&op_info<ops::ScatterAdd>, evaluate_scatter_add},
      {&op_info<ops::Scatter>, evaluate_scatter},
      {&op_info<ops::RandomBits>, evaluate_random_bits}};
  return functions;
}

// Graphs

/// Values of the symbols, read off the extents of the inputs.
inline std::vector<std::int64_t> bind_symbols(const sinter::Graph& graph, const std::vector<Array>& inputs) {
  std::vector<std::int64_t> symbols(graph.symbols().size(), 0);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const sinter::Shape& shape = graph.type(graph.inputs()[i]).shape;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const std::int64_t symbol = shape[axis].as_symbol();
      if (symbol < 0) continue;
      if (symbols.size() <= static_cast<std::size_t>(symbol)) symbols.resize(static_cast<std::size_t>(symbol) + 1, 0);
      symbols[static_cast<std::size_t>(symbol)] = inputs[i].extents[static_cast<std::size_t>(axis)];
    }
  }
  return symbols;
}

inline Array constant_array(const sinter::TensorImpl& value) {
  Array out = Array::zeros(value.type.dtype, numbers(value.type.shape, {}));
  for_each_index(out.extents, [&](const Extents& index) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index.size(); ++i) at += index[i] * value.strides[i];
    sinter::visit_dtype(out.dtype, [&](auto zero) {
      using T = decltype(zero);
      out.data[flat_index(out.extents, index)] = static_cast<Number>(static_cast<const T*>(value.data())[at]);
    });
  });
  return out;
}

std::vector<Array> evaluate(const sinter::Graph& graph, const std::vector<Array>& inputs);

inline Array evaluate_composite(const sinter::Node& node, const std::vector<const Array*>& in) {
  sinter::GraphBuilder builder;
  std::vector<sinter::Val> operands;
  std::vector<Array> inputs;
  for (const Array* x : in) {
    sinter::Shape shape{std::span<const std::int64_t>(x->extents)};
    operands.push_back({&builder, builder.input({x->dtype, {}, shape}), {}});
    inputs.push_back(*x);
  }
  const sinter::Value out = node.op->decompose({operands, node.attrs, {}}).value;
  return evaluate(builder.finish({&out, 1}), inputs)[0];
}

inline Array evaluate_node(const sinter::Graph& graph, std::size_t id, const std::vector<Array>& values,
                           const std::vector<std::int64_t>& symbols) {
  const sinter::Node& node = graph.nodes()[id];
  NodeArgs args{{}, node.attrs, symbols, {}};
  for (sinter::Value v : node.inputs) args.in.push_back(&values[static_cast<std::size_t>(v.node)]);
  args.out = Array::zeros(node.types[0].dtype, numbers(node.types[0].shape, symbols));
  if (node.op->kind == sinter::OpKind::elementwise) {
    evaluate_elementwise(*node.op, args);
  } else if (node.op->kind == sinter::OpKind::reduction) {
    evaluate_reduction(*node.op, args);
  } else if (node.op->kind == sinter::OpKind::structured && node.op->reduction != 0) {
    evaluate_scan(*node.op, args);
  } else if (node.op->kind == sinter::OpKind::composite) {
    sinter::Node bound = node;
    bound.edit_attrs([&](sinter::Attrs& attrs) {
      sinter::for_each_shape(attrs, [&](sinter::Shape& shape) { shape = sinter::Shape(numbers(shape, symbols)); });
    });
    Array out = evaluate_composite(bound, args.in);
    if (out.extents != args.out.extents || out.dtype != args.out.dtype)
      throw std::logic_error("oracle: " + std::string(node.op->name) + " decomposes into another type than it infers");
    return out;
  } else {
    const auto found = node_functions().find(node.op);
    if (found == node_functions().end()) throw std::logic_error("oracle: no rule for " + std::string(node.op->name));
    found->second(args);
  }
  return args.out;
}

std::vector<Array> evaluate(const sinter::Graph& graph, const std::vector<Array>& inputs,
                            const std::vector<std::int64_t>& symbols);

/// The slice `i` of `x` along its first axis, and back.
inline Array slice_of(const Array& x, std::int64_t i) {
  Array slice = Array::zeros(x.dtype, {x.extents.begin() + 1, x.extents.end()});
  const auto count = static_cast<std::ptrdiff_t>(slice.data.size());
  std::copy_n(x.data.begin() + i * count, count, slice.data.begin());
  return slice;
}
inline void put_slice(Array& x, std::int64_t i, const Array& slice) {
  std::copy(slice.data.begin(), slice.data.end(), x.data.begin() + i * static_cast<std::ptrdiff_t>(slice.data.size()));
}

/// region, switch, while_loop and scan, as their definitions say.
inline std::vector<Array> evaluate_control(const sinter::Node& node, const std::vector<Array>& in,
                                           const std::vector<std::int64_t>& symbols) {
  const auto& bodies = node.attrs.bodies;
  auto run = [&](std::size_t body, const std::vector<Array>& inputs) {
    return evaluate(*bodies[body], inputs, symbols);
  };
  if (node.op == &sinter::op_info<sinter::ops::Region>) return run(0, in);
  if (node.op == &sinter::op_info<sinter::ops::Switch>) {
    const auto last = static_cast<double>(bodies.size() - 1);
    return run(static_cast<std::size_t>(std::min(std::max(static_cast<double>(in[0].data[0]), 0.0), last)),
               {in.begin() + 1, in.end()});
  }
  std::vector<Array> now = in;
  if (node.op == &sinter::op_info<sinter::ops::WhileLoop>) {
    const auto carries = static_cast<std::ptrdiff_t>(node.attrs[sinter::ops::WhileLoop::carries]);
    for (bool goes_on = run(0, now)[0].data[0] != 0; goes_on;) {
      const std::vector<Array> next = run(1, now);
      std::copy_n(next.begin(), carries, now.begin());
      goes_on = next.back().data[0] != 0;
    }
    now.resize(static_cast<std::size_t>(carries));
    return now;
  }
  using sinter::ops::Scan;
  const auto carries = static_cast<std::size_t>(node.attrs[Scan::carries]),
             xs = static_cast<std::size_t>(node.attrs[Scan::scanned]), ys = bodies[0]->outputs().size() - carries;
  const std::int64_t length = node.attrs[Scan::length].evaluate(symbols);
  const sinter::IntVector& saved = node.attrs[Scan::saved];
  std::vector<Array> stacked;
  for (std::size_t r = carries; r < node.types.size(); ++r)
    stacked.push_back(Array::zeros(node.types[r].dtype, numbers(node.types[r].shape, symbols)));
  for (std::int64_t iteration = 0; iteration < length; ++iteration) {
    const std::int64_t i = node.attrs[Scan::is_reversed] ? length - 1 - iteration : iteration;
    for (std::size_t x = carries; x < carries + xs; ++x) now[x] = slice_of(in[x], i);
    for (std::size_t s = 0; s < saved.size(); ++s)
      put_slice(stacked[ys + s], i, now[static_cast<std::size_t>(saved[s])]);
    const std::vector<Array> next = run(0, now);
    std::copy_n(next.begin(), carries, now.begin());
    for (std::size_t y = 0; y < ys; ++y) put_slice(stacked[y], i, next[carries + y]);
  }
  now.resize(carries);
  now.insert(now.end(), stacked.begin(), stacked.end());
  return now;
}

inline bool is_control(const sinter::OpInfo& op) {
  return &op == &sinter::op_info<sinter::ops::Switch> || &op == &sinter::op_info<sinter::ops::WhileLoop> ||
         &op == &sinter::op_info<sinter::ops::Scan> || &op == &sinter::op_info<sinter::ops::Region>;
}

/// Whether each node's results are rounded to their dtype, as they are where each is stored.
inline bool& rounds_every_value() {
  static thread_local bool rounds = false;
  return rounds;
}
inline void round_if_asked(Array& array) {
  if (!rounds_every_value()) return;
  for (Number& x : array.data) {
    if (array.dtype == sinter::DType::f32) x = static_cast<float>(x);
    if (array.dtype == sinter::DType::f64) x = static_cast<double>(x);
  }
}

/// Whether functions that back ends approximate are off by up to three units in the last place: by as much wherever
/// they give the same value, so that ties stay.
inline bool& nudges_functions() {
  static thread_local bool nudges = false;
  return nudges;
}
inline void nudge_if_asked(Array& array, const sinter::OpInfo& op) {
  using namespace sinter;
  const OpInfo* approximated[] = {&op_info<ops::Tanh>, &op_info<ops::Sigmoid>, &op_info<ops::Sin>,
                                  &op_info<ops::Cos>,  &op_info<ops::Erf>,     &op_info<ops::Exp>,
                                  &op_info<ops::Gelu>, &op_info<ops::Silu>,    &op_info<ops::Softmax>};
  if (!nudges_functions() || std::find(std::begin(approximated), std::end(approximated), &op) == std::end(approximated))
    return;
  const Number unit = array.dtype == DType::f32 ? 0x1p-23L : 0x1p-52L;
  for (Number& x : array.data)
    x *= 1 + unit * (static_cast<Number>(std::hash<double>{}(static_cast<double>(x)) % 7) - 3);
}

inline std::vector<Array> evaluate(const sinter::Graph& graph, const std::vector<Array>& inputs,
                                   const std::vector<std::int64_t>& symbols) {
  std::vector<Array> values;                                      // first results of nodes
  std::vector<std::vector<Array>> further(graph.nodes().size());  // of nodes with several
  auto value_of = [&](sinter::Value v) -> const Array& {
    return v.result == 0 ? values[static_cast<std::size_t>(v.node)]
                         : further[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)];
  };
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const sinter::Node& node = graph.nodes()[id];
    if (node.op == &sinter::op_info<sinter::ops::Input>) {
      values.push_back(inputs.at(static_cast<std::size_t>(node.attrs[sinter::input_position])));
    } else if (node.op == &sinter::op_info<sinter::ops::Constant>) {
      values.push_back(constant_array(*node.attrs.constant));
    } else if (is_control(*node.op)) {
      std::vector<Array> in;
      for (sinter::Value v : node.inputs) in.push_back(value_of(v));
      further[id] = evaluate_control(node, in, symbols);
      values.push_back(further[id].empty() ? Array() : further[id][0]);
    } else {
      bool plain = true;
      for (sinter::Value v : node.inputs) plain = plain && v.result == 0;
      if (plain) {
        values.push_back(evaluate_node(graph, id, values, symbols));
        round_if_asked(values.back());
        nudge_if_asked(values.back(), *node.op);
        continue;
      }
      // The rules find operands by node, which has one result for them: a graph of this node alone.
      sinter::GraphBuilder one;
      std::vector<sinter::Value> operands;
      std::vector<Array> in;
      for (sinter::Value v : node.inputs) {
        in.push_back(value_of(v));
        operands.push_back(
            one.input({in.back().dtype, {}, sinter::Shape(std::span<const std::int64_t>(in.back().extents))}));
      }
      sinter::Node copied = node;
      for (sinter::Type& type : copied.types)
        type.shape = sinter::Shape(std::span<const std::int64_t>(numbers(type.shape, symbols)));
      copied.edit_attrs([&](sinter::Attrs& attrs) {
        sinter::for_each_shape(attrs, [&](sinter::Shape& shape) { shape = sinter::Shape(numbers(shape, symbols)); });
      });
      const sinter::Value out = one.copy(copied, operands);
      values.push_back(evaluate(one.finish({&out, 1}), in, {})[0]);
    }
  }
  std::vector<Array> outputs;
  for (sinter::Value v : graph.outputs()) outputs.push_back(value_of(v));
  return outputs;
}

/// The outputs of the graph for these inputs.
inline std::vector<Array> evaluate(const sinter::Graph& graph, const std::vector<Array>& inputs) {
  return evaluate(graph, inputs, bind_symbols(graph, inputs));
}

/// As evaluate(), with every value rounded to its dtype.
inline std::vector<Array> evaluate_rounded(const sinter::Graph& graph, const std::vector<Array>& inputs) {
  rounds_every_value() = true;
  std::vector<Array> outputs = evaluate(graph, inputs);
  rounds_every_value() = false;
  return outputs;
}

/// As evaluate_rounded(), with functions that are off by a few units in the last place.
inline std::vector<Array> evaluate_nudged(const sinter::Graph& graph, const std::vector<Array>& inputs) {
  nudges_functions() = true;
  std::vector<Array> outputs = evaluate_rounded(graph, inputs);
  nudges_functions() = false;
  return outputs;
}

/// As evaluate(), with comparisons that see near ties this way.
inline std::vector<Array> evaluate_ties(const sinter::Graph& graph, const std::vector<Array>& inputs, NearTies ties) {
  near_ties() = ties;
  std::vector<Array> outputs = evaluate(graph, inputs);
  near_ties() = NearTies::as_they_are;
  return outputs;
}

}  // namespace oracle
