// Random graphs of primitive ops, fused and op by op, against the oracle. Views, partial updates and reductions are
// drawn often: they are what fusion must see through. A failure prints its seed and the graph of the one output that
// differs.
#include "../catch.hpp"
#include "../plan_harness.hpp"
#include "fuzz_loop.hpp"

#include <sinter/runtime/plan_choices.hpp>

#include <cmath>
#include <cstdio>

using namespace sinter_test;

namespace {

class GraphMaker {
 public:
  explicit GraphMaker(unsigned seed) : random_(seed), has_symbol_(draw(3) == 0) {
    if (has_symbol_) {
      symbol_ = Dim::symbol(0);
      builder_.symbols().push_back({.input = 0, .axis = 0, .hint = 5});
      keep(builder_.input({DType::f64, {}, Shape{symbol_, Dim(4)}}));
    }
    for (int i = 0; i < 2; ++i) new_input(random_shape());
  }

  Graph make(int nodes) {
    for (int i = 0; i < nodes; ++i) step();
    std::vector<Value> outputs{values_.back()};
    const int more = draw(4);
    for (int i = 0; i < more; ++i) outputs.push_back(pick());
    return run_pipeline(builder_.finish(outputs));
  }

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  Value pick() {
    return values_[values_.size() - 1 -
                   static_cast<std::size_t>(draw(static_cast<int>(std::min<std::size_t>(values_.size(), 8))))];
  }
  const Shape shape(Value v) { return builder_.type(v).shape; }
  void keep(Value v) {
    std::int64_t elements = 1;
    for (Dim extent : shape(v)) elements *= extent.is_static() ? extent.value() : 5;
    if (elements <= 3000 && shape(v).rank() <= 5) values_.push_back(v);
  }
  Value op(const char* name, std::initializer_list<Value> inputs, Attrs attrs = {}) {
    return builder_.add(*find_op(name), inputs, std::move(attrs));
  }
  Dim random_extent() {
    constexpr int extents[] = {1, 2, 3, 4, 6};
    return has_symbol_ && draw(4) == 0 ? symbol_ : Dim(extents[draw(5)]);
  }
  Shape random_shape() {
    Shape shape;
    for (int rank = 1 + draw(3); rank > 0; --rank) shape.push_back(random_extent());
    return shape;
  }
  Value new_input(const Shape& shape, DType dtype = DType::f64) {
    const Value v = builder_.input({dtype, {}, shape});
    if (dtype == DType::f64) keep(v);
    return v;
  }
  bool is_one(Dim d) { return identical(d, Dim(1)); }
  bool broadcasts(const Shape& a, const Shape& b) {
    for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i)
      if (!identical(a[-i], b[-i]) && !is_one(a[-i]) && !is_one(b[-i])) return false;
    return true;
  }

  void step() {
    switch (draw(17)) {
      case 0:
      case 1:
      case 2: return unary();
      case 3:
      case 4:
      case 5:
      case 6: return binary();
      case 7:
      case 8: return reduction();
      case 9: return reshape();
      case 10: return permute();
      case 11: return expand();
      case 12: return slice();
      case 13: return product();
      case 14: return draw(3) == 0 ? arg() : draw(2) == 0 ? scan() : scatter();
      case 15: return draw(2) == 0 ? update() : draw(2) == 0 ? join() : draw(2) == 0 ? pad() : roll();
      default: return draw(3) == 0 ? windows() : draw(2) == 0 ? take() : source();
    }
  }

  void unary() {
    constexpr const char* names[] = {"tanh", "neg", "sin", "sigmoid", "relu", "square", "abs"};
    keep(op(names[draw(7)], {op("tanh", {pick()})}));
  }

  void binary() {
    constexpr const char* names[] = {"add", "mul", "sub", "maximum"};
    const Value a = pick();
    for (int attempt = 0; attempt < 6; ++attempt) {
      const Value b = pick();
      if (!broadcasts(shape(a), shape(b))) continue;
      if (draw(5) == 0) keep(op("where", {op("lt", {a, b}), b, a}));
      else keep(op(names[draw(4)], {a, b}));
      return;
    }
    keep(op(names[draw(4)], {a, new_input(shape(a))}));
  }

  void reduction() {
    const Value a = pick();
    const int rank = shape(a).rank();
    if (rank == 0) return;
    Attrs attrs;
    for (int i = 0; i < rank; ++i)
      if (draw(2) == 0) attrs.axes.push_back(i);
    if (attrs.axes.empty()) attrs.axes.push_back(draw(rank));
    attrs.keepdim = draw(2) == 0;
    keep(op("tanh", {op(draw(3) == 0 ? "amax" : "sum", {a}, attrs)}));
  }

  void reshape() {
    const Value a = pick();
    Shape to;
    const Shape from = shape(a);
    if (draw(2) == 0) {  // merge two neighbours, or add an extent of 1
      const int at = from.rank() > 1 ? draw(from.rank() - 1) : -1;
      for (int i = 0; i < from.rank(); ++i) {
        if (i == at) {
          to.push_back(from[i] * from[i + 1]);
          ++i;
        } else to.push_back(from[i]);
      }
      if (at < 0) to.insert(draw(to.rank() + 1), Dim(1));
    } else if (from.is_static()) {  // any factors
      std::int64_t left = from.numel().value();
      while (left > 1 && to.rank() < 4) {
        std::int64_t factor = to.rank() == 3 ? left : 2 + draw(5);
        if (left % factor != 0) factor = left;
        to.push_back(Dim(factor));
        left /= factor;
      }
    } else {
      return;
    }
    Attrs attrs;
    attrs.shape = to;
    keep(op("reshape", {a}, attrs));
  }

  void permute() {
    const Value a = pick();
    Attrs attrs;
    for (int i = 0; i < shape(a).rank(); ++i) attrs.axes.push_back(i);
    std::shuffle(attrs.axes.begin(), attrs.axes.end(), random_);
    keep(op("permute", {a}, attrs));
  }

  void expand() {
    const Value a = pick();
    Attrs attrs;
    if (draw(2) == 0) attrs.shape.push_back(random_extent());
    for (Dim extent : shape(a)) attrs.shape.push_back(is_one(extent) && draw(2) == 0 ? random_extent() : extent);
    if (attrs.shape.rank() <= 5) keep(op("expand", {a}, attrs));
  }

  void slice() {
    const Value a = pick();
    Shape starts, ends;
    IntVector steps;
    for (Dim extent : shape(a)) {
      if (!extent.is_static()) {
        starts.push_back(Dim(0));
        ends.push_back(extent);
        steps.push_back(1);
        continue;
      }
      const int start = draw(static_cast<int>(extent.value())),
                end = start + 1 + draw(static_cast<int>(extent.value()) - start);
      starts.push_back(Dim(start));
      ends.push_back(Dim(end));
      steps.push_back(1 + draw(2));
    }
    Attrs attrs;
    attrs.set(ops::Slice::starts, starts);
    attrs.set(ops::Slice::ends, ends);
    attrs.set(ops::Slice::steps, steps);
    keep(op("slice", {a}, attrs));
  }

  void windows() {
    const Value a = pick();
    for (int axis = 0; axis < shape(a).rank(); ++axis) {
      const Dim extent = shape(a)[axis];
      if (!extent.is_static() || extent.value() < 2) continue;
      Attrs attrs;
      attrs.axes.push_back(axis);
      attrs.set(ops::Windows::sizes, {2});
      attrs.set(ops::Windows::strides, {1 + draw(2)});
      return keep(op("windows", {a}, attrs));
    }
  }

  void product() {
    Value a = pick();
    if (shape(a).rank() < 2) return;
    const Dim inner = shape(a)[-1];
    for (int attempt = 0; attempt < 8; ++attempt) {
      Value b = pick();
      if (shape(b).rank() != shape(a).rank()) continue;
      bool fits = true;
      for (int i = 0; i < shape(a).rank() - 2; ++i) fits &= identical(shape(a)[i], shape(b)[i]);
      if (!fits) continue;
      if (identical(shape(b)[-2], inner)) return keep(op("tanh", {op("matmul", {a, b})}));
      if (identical(shape(b)[-1], inner)) {
        Attrs swap;
        for (int i = 0; i < shape(b).rank(); ++i) swap.axes.push_back(i);
        std::swap(swap.axes[swap.axes.size() - 1], swap.axes[swap.axes.size() - 2]);
        return keep(op("matmul", {a, op("permute", {b}, swap)}));
      }
    }
    Shape other = shape(a);
    other.set(other.rank() - 2, inner);
    other.set(other.rank() - 1, random_extent());
    keep(op("matmul", {a, new_input(other)}));
  }

  void update() {
    const Value base = pick(), value = pick();
    if (shape(base).rank() != shape(value).rank()) return;
    Shape starts;
    for (int i = 0; i < shape(base).rank(); ++i) {
      const Dim have = shape(base)[i], want = shape(value)[i];
      if (identical(have, want)) starts.push_back(Dim(0));
      else if (have.is_static() && want.is_static() && want.value() < have.value())
        starts.push_back(Dim(draw(static_cast<int>(have.value() - want.value()) + 1)));
      else return;
    }
    Attrs attrs;
    attrs.set(ops::UpdateSlice::starts, starts);
    attrs.set(ops::UpdateSlice::steps, IntVector(static_cast<std::size_t>(starts.rank()), 1));
    keep(op("update_slice", {base, value}, attrs));
  }

  void join() {
    const Value a = pick();
    const int rank = shape(a).rank();
    if (rank == 0) return;
    const int axis = draw(rank);
    Value b = a;
    for (int attempt = 0; attempt < 8; ++attempt) {
      const Value other = pick();
      bool fits = shape(other).rank() == rank;
      for (int i = 0; i < rank && fits; ++i) fits = i == axis || identical(shape(other)[i], shape(a)[i]);
      if (fits) b = other;
    }
    Attrs attrs;
    attrs.axes.push_back(axis);
    keep(op("concat", {a, b}, attrs));
  }

  /// Cropped to the old extents at another place half of the time, as stencils do.
  void pad() {
    const Value a = pick();
    const int rank = shape(a).rank();
    Attrs attrs;
    Shape low, high, starts, ends;
    for (int i = 0; i < rank; ++i) {
      low.push_back(Dim(draw(3)));
      high.push_back(Dim(draw(3)));
      const Dim start = draw(static_cast<int>((low[i] + high[i]).value()) + 1);
      starts.push_back(start);
      ends.push_back(start + shape(a)[i]);
    }
    attrs.value = draw(2);
    attrs.set(ops::Pad::low, low);
    attrs.set(ops::Pad::high, high);
    const Value padded = op("pad", {a}, attrs);
    if (draw(2) == 0) return keep(padded);
    Attrs part;
    part.set(ops::Slice::starts, starts);
    part.set(ops::Slice::ends, ends);
    part.set(ops::Slice::steps, IntVector(static_cast<std::size_t>(rank), 1));
    keep(op("slice", {padded}, part));
  }

  void roll() {
    const Value a = pick();
    for (int axis = 0; axis < shape(a).rank(); ++axis) {
      const Dim extent = shape(a)[axis];
      if (!extent.is_static() || extent.value() < 2) continue;
      const Dim cut = 1 + draw(static_cast<int>(extent.value()) - 1);
      const auto part = [&](Dim start, Dim end) {
        Shape starts, ends = shape(a);
        for (int i = 0; i < ends.rank(); ++i) starts.push_back(Dim(0));
        starts.set(axis, start);
        ends.set(axis, end);
        Attrs attrs;
        attrs.set(ops::Slice::starts, starts);
        attrs.set(ops::Slice::ends, ends);
        attrs.set(ops::Slice::steps, IntVector(static_cast<std::size_t>(ends.rank()), 1));
        return op("slice", {a}, attrs);
      };
      Attrs attrs;
      attrs.axes.push_back(axis);
      return keep(op("concat", {part(cut, extent), part(0, cut)}, attrs));
    }
  }

  void take() {
    const Value a = pick();
    const Shape from = shape(a);
    for (int axis = 0; axis < from.rank(); ++axis) {
      if (!from[axis].is_static() || from[axis].value() < 4) continue;  // random indices are 0 to 3
      Attrs attrs;
      attrs.axes.push_back(axis);
      const Value index = new_input(draw(2) == 0 ? Shape{random_extent()} : Shape{Dim(2), random_extent()},
                                    draw(2) == 0 ? DType::i64 : DType::i32);
      const Value taken = op("take", {a, index}, attrs);
      keep(taken);
      if (draw(2) == 0) return;
      attrs.shape = from;
      return keep(op("scatter_add", {index, taken}, attrs));
    }
  }

  void scan() {
    const Value a = pick();
    if (shape(a).rank() == 0) return;
    constexpr const char* names[] = {"cumsum", "cummax", "cummin", "cumprod"};
    Attrs attrs;
    attrs.axes.push_back(draw(shape(a).rank()));
    attrs.set(ops_detail::is_exclusive, draw(2) == 0);
    attrs.set(ops_detail::is_reversed, draw(2) == 0);
    keep(op("tanh", {op(names[draw(4)], {op("tanh", {a})}, attrs)}));
  }

  /// Of inputs alone, where rounding makes no ties, and a number that rounding does not change.
  void arg() {
    const Value a = new_input(random_shape());
    Attrs attrs, to;
    for (int axis = 0; axis < shape(a).rank(); ++axis)
      if (draw(2) == 0 || axis + 1 == shape(a).rank()) attrs.axes.push_back(axis);
    attrs.keepdim = draw(2) == 0;
    to.dtype = DType::f64;
    to.has_dtype = true;
    keep(op("cast", {op(draw(2) == 0 ? "argmax" : "argmin", {a}, attrs)}, to));
  }

  /// Many values for four places, from an index of one or two axes that was permuted as often as not.
  void scatter() {
    const Value v = pick();
    const Shape from = shape(v);
    if (from.rank() == 0) return;
    const int own = from.rank() > 1 && draw(2) == 0 ? 2 : 1;
    Shape target{Dim(4)}, places;
    for (int i = 0; i < own; ++i) places.push_back(from[own == 2 ? 1 - i : i]);
    for (int i = own; i < from.rank(); ++i) target.push_back(from[i]);
    Value index = new_input(places, draw(2) == 0 ? DType::i64 : DType::i32);
    if (draw(2) == 0)
      index = op("mul", {index, index}), index = op("minimum", {index, new_input(places, builder_.type(index).dtype)});
    if (own == 2) index = op("permute", {index}, {.axes = {1, 0}});
    Attrs attrs;
    attrs.axes.push_back(0);
    constexpr Combine combines[] = {Combine::none, Combine::add, Combine::min, Combine::max};
    attrs.set(ops::Scatter::combine, combines[draw(4)]);
    keep(op("tanh", {op("scatter", {new_input(target), index, v}, attrs)}));
  }

  void source() {
    Attrs attrs;
    attrs.shape = random_shape();
    attrs.dtype = DType::f64;
    attrs.has_dtype = true;
    attrs.value = 0.5;
    if (draw(2) == 0) return keep(op("full", {}, attrs));
    attrs.value = 0;
    attrs.axes.push_back(draw(attrs.shape.rank()));
    keep(op("iota", {}, attrs));
  }

  std::mt19937 random_;
  GraphBuilder builder_;
  std::vector<Value> values_;
  bool has_symbol_;
  Dim symbol_;
};

/// "" or what is wrong with the plan for this graph.
std::string failure(const Graph& graph, const PlanOptions& options) {
  try {
    const auto plan = build_plan(graph, options);
    for (std::int64_t symbol : {5, 2}) {
      const std::vector<std::int64_t> symbols(graph.symbols().size(), symbol);
      const auto inputs = random_inputs(graph, symbols);
      const auto found = run(*plan, inputs), wanted = oracle::evaluate(graph, inputs);
      for (std::size_t j = 0; j < wanted.size(); ++j) {
        const std::string text = difference(found[j], wanted[j], 1e-8);
        if (!text.empty()) return "output " + std::to_string(j) + ", " + text;
      }
    }
    return "";
  } catch (const std::exception& error) { return error.what(); }
}

/// The graph with one output only, if that is enough to fail.
std::string report(const Graph& graph, const PlanOptions& options) {
  for (Value output : graph.outputs()) {
    GraphBuilder builder(graph);
    std::vector<Value> inputs;
    for (Value v : graph.inputs()) inputs.push_back(builder.input(graph.type(v)));
    GraphBuilder all(graph);
    std::vector<Value> map(graph.nodes().size());
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (node.op->name == "input") {
        map[i] = inputs[static_cast<std::size_t>(node.attrs[input_position])];
        continue;
      }
      Values operands;
      for (Value v : node.inputs) operands.push_back(map[static_cast<std::size_t>(v.node)]);
      map[i] = builder.copy(node, operands);
    }
    const Value kept = map[static_cast<std::size_t>(output.node)];
    const Graph one = Dce{}(builder.finish({&kept, 1}));
    const std::string text = failure(one, options);
    if (!text.empty()) return text + "\n" + one.text();
  }
  return failure(graph, options) + "\n" + graph.text();
}

/// As tuning may cut it (runtime/plan_choices.hpp), at any nodes.
PlanOptions cut_anywhere(const Graph& graph, std::uint64_t seed) {
  PlanOptions options = fused(backend_lists()[seed % backend_lists().size()]);
  const auto node = [&](std::uint64_t salt) {
    return static_cast<std::int32_t>((seed * 2654435761 + salt * 40503) % graph.nodes().size());
  };
  for (std::uint64_t i = 0; i < 1 + seed % 3; ++i) options.cut.push_back(node(i));
  for (std::uint64_t i = 0; i < seed / 3 % 3; ++i) options.kept.push_back(node(7 + i));
  options.recompute = seed % 5 != 0;
  options.epilogues = seed % 7 != 0;
  return options;
}

/// The graph as the two branches of a switch, whose operands and results are computed with.
Graph in_branches(const Graph& graph) {
  GraphBuilder builder(graph);
  std::vector<Value> operands{builder.input({DType::i64, {}, Shape{}})}, outputs;
  const auto with_tanh = [&](Value v) {
    return builder.type(v).dtype == DType::f64 ? builder.add(*find_op("tanh"), {v}, {}) : v;
  };
  for (const Value v : graph.inputs()) operands.push_back(with_tanh(builder.input(graph.type(v))));
  Attrs attrs;
  attrs.bodies = {std::make_shared<const Graph>(graph), std::make_shared<const Graph>(graph)};
  const Value node = builder.add(*find_op("switch"), operands, std::move(attrs));
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    outputs.push_back(with_tanh({node.node, static_cast<std::int32_t>(i)}));
  return builder.finish(outputs);
}

/// "" or what differs in bits from the default's plan where the graph is cut in ways that are said to keep them.
std::string tuned_failure(const Graph& graph, std::uint64_t seed) {
  const PlanOptions options = fused(backend_lists()[seed % backend_lists().size()]);
  const std::vector<std::int64_t> symbols(graph.symbols().size(), 5);
  std::vector<Ref<TensorImpl>> inputs;
  for (const oracle::Array& array : random_inputs(graph, symbols)) inputs.push_back(to_value(array));
  try {
    const auto standard = build_plan(graph, options);
    const auto expected = execute(*standard, inputs);
    std::vector<Schedule> schedules{*parse_schedule("epilogues(0)"), *parse_schedule("recompute(0)")};
    for (std::uint64_t i = 0; i < 8; ++i) {
      const auto node = static_cast<std::uint16_t>((seed * 2654435761 + i * 40503) % graph.nodes().size());
      schedules.push_back({{.action = i % 2 == 0 ? ScheduleAction::cut : ScheduleAction::store, .number = node}});
    }
    for (std::size_t i = 0; i < 12; ++i) {  // two and three at once
      Schedule both = schedules[(seed + i) % schedules.size()];
      for (std::size_t j = 0; j < 1 + i % 2; ++j)
        for (const ScheduleStep& step : schedules[(seed / 10 + 3 * i + 5 * j) % schedules.size()].steps())
          if (std::count(both.steps().begin(), both.steps().end(), step) == 0) both = both.with(step);
      schedules.push_back(both);
    }
    for (const Schedule& schedule : schedules) {
      if (!keeps_bits(graph, options, schedule)) continue;
      PlanOptions other = options;
      if (!follow(other, schedule)) return schedule.text() + " is not followed";
      const auto plan = build_plan(graph, other);
      if (!have_equal_backends(*plan, *standard)) continue;
      const auto found = execute(*plan, inputs);
      for (std::size_t j = 0; j < found.size(); ++j) {
        const oracle::Array a = to_array(*found[j]), b = to_array(*expected[j]);
        for (std::size_t i = 0; i < a.data.size(); ++i)
          if (a.data[i] != b.data[i] && !(std::isnan(a.data[i]) && std::isnan(b.data[i])))
            return schedule.text() + " changes element " + std::to_string(i) + " of output " + std::to_string(j);
      }
    }
    return "";
  } catch (const std::exception& error) { return error.what(); }
}

}  // namespace

TEST_CASE("random graphs, cut as tuning may, have the default's bits", "[fuzz]") {
  fuzz_loop(2, [](std::uint64_t seed) {
    Graph graph = GraphMaker(static_cast<unsigned>(seed)).make(4 + static_cast<int>(seed % 30));
    if (seed % 4 == 3 && graph.symbols().empty()) graph = in_branches(graph);
    INFO("SINTER_FUZZ_SEED=" << seed << "\n" << graph.text());
    REQUIRE(tuned_failure(graph, seed) == "");
  });
}

TEST_CASE("random graphs, fused and op by op", "[fuzz]") {
  const std::uint64_t graphs = fuzz_loop(1, [](std::uint64_t seed) {
    const Graph graph = GraphMaker(static_cast<unsigned>(seed)).make(4 + static_cast<int>(seed % 30));
    for (const PlanOptions& options :
         {fused(), fused(backend_lists()[1]), fused(backend_lists().back()), op_by_op(), cut_anywhere(graph, seed)}) {
      const std::string text = failure(graph, options);
      if (text.empty()) continue;
      INFO("SINTER_FUZZ_SEED=" << seed
                               << (!options.cut.empty() ? ", cut, "
                                   : options.fuse       ? ", fused, "
                                                        : ", op by op, ")
                               << options.backends.front()->name() << "\n"
                               << report(graph, options));
      FAIL();
    }
  });
  std::printf("%d random graphs\n", static_cast<int>(graphs));
  CHECK(graphs > 0);
}
