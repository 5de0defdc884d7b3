// A graph for all sizes is made by inferring types again from inputs with symbols. Shapes in attributes may have been
// inferred from operands when the statement was recorded (x.reshape({-1}), x[1:]) or given as numbers by the user;
// nobody can tell. So an expression is guessed from two sizes, and every graph that comes is compared with what the
// expressions give for it: a wrong guess costs another graph, never a wrong result.
#pragma once

#include <sinter/jit/lazy/lazy_extents.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/sort_few.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/instance.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL bool LazyGraph::takes(const LazyGraph& other, SmallVector<std::int64_t, 8>& values) const {
  values.clear();
  if (graph.inputs().size() != other.graph.inputs().size()) return false;
  for (const SymbolSource& source : symbols) {
    const auto input = as_index(source.leaf), axis = as_index(source.axis);
    const Shape& shape = other.graph.type(other.graph.inputs()[input]).shape;
    if (axis >= as_index(shape.rank())) return false;
    if (source.is_stride && other.layouts[input].empty()) return false;
    values.push_back((source.is_stride ? other.layouts[input][axis] : shape.begin()[axis]).value());
    if (values.back() < source.least()) return false;
  }
  if (!is_instance(graph, other.graph, values)) return false;
  const auto same_layout = [&](const InputLayout& a, const InputLayout& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](Dim x, Dim y) { return x.evaluate(values) == y.value(); });
  };
  if (!std::equal(layouts.begin(), layouts.end(), other.layouts.begin(), other.layouts.end(), same_layout))
    return false;
  return std::all_of(questions.begin(), questions.end(), [&](const DimGuard& question) {
    const std::int64_t a = question.lhs.evaluate(values), b = question.rhs.evaluate(values);
    return (question.relation == DimRelation::less ? a < b : a == b) == question.outcome;
  });
}

namespace jit_detail {

class Generaliser : public SymbolScope {
 public:
  Generaliser(const LazyGraph& known, const LazyGraph& now) : known_(known), now_(now) {
    for (const SymbolInfo& symbol : known.graph.symbols()) before_.push_back(symbol.hint);
  }

  std::optional<LazyGraph> run() {
    for (std::size_t i = 0; i < now_.layouts.size(); ++i)
      if (known_.layouts[i].size() != now_.layouts[i].size()) return {};
    choose_symbols();
    choose_strides();
    if (made_.symbols.empty()) return {};
    struct Restore {
      SymbolScope* outer;
      ~Restore() { SymbolScope::current() = outer; }
    } restore{std::exchange(SymbolScope::current(), this)};
    try {
      infer();
    } catch (const Error&) {
      return {};  // an operation that takes no symbols: a graph for each size
    }
    if (!solve()) return {};
    return std::move(made_);
  }

 private:
  /// Extents that are the same expression in `known` and the same number now.
  struct Class {
    Dim known;
    std::int64_t before, now;  // the numbers of the two sizes
    Dim dim;
  };

  std::int64_t value_of(SymbolId symbol) const override { return values_[symbol]; }
  void note(DimRelation relation, Dim lhs, Dim rhs, bool outcome) override {
    for (const DimGuard& known : made_.questions)
      if (known.relation == relation && identical(known.lhs, lhs) && identical(known.rhs, rhs)) return;
    made_.questions.push_back({relation, lhs, rhs, outcome});
  }

  std::int64_t before(Dim known) const { return known.evaluate(before_); }
  Dim new_symbol(Dim known, std::int64_t now, SymbolSource source) {
    const Dim symbol = Dim::symbol(static_cast<SymbolId>(made_.symbols.size()));
    made_.symbols.push_back(source);
    values_.push_back(now);
    classes_.push_back({known, before(known), now, symbol});
    return symbol;
  }
  /// The class of an extent or a stride of an input; null if it stays a number.
  const Class* class_of(Dim known, std::int64_t now) const {
    const auto found = std::find_if(classes_.begin(), classes_.end(),
                                    [&](const Class& c) { return identical(c.known, known) && c.now == now; });
    return found != classes_.end() ? &*found : nullptr;
  }
  static bool stays_number(Dim known, std::int64_t now) {
    return now < 2 || (known.is_static() && (known.value() == now || known.value() < 2));
  }

  void choose_symbols() {
    for (std::size_t i = 0; i < now_.graph.inputs().size(); ++i) {
      const Shape& known = known_.graph.type(known_.graph.inputs()[i]).shape;
      const Shape& now = now_.graph.type(now_.graph.inputs()[i]).shape;
      for (int axis = 0; axis < now.rank(); ++axis) {
        if (stays_number(known[axis], now[axis].value()) || class_of(known[axis], now[axis].value()) != nullptr)
          continue;
        new_symbol(known[axis], now[axis].value(), {static_cast<std::int32_t>(i), static_cast<std::int8_t>(axis)});
      }
    }
    find_replacements();
  }
  /// What the symbols of `known` have become, where they stay one symbol each.
  void find_replacements() {
    for (SymbolId id = 0; id < before_.size(); ++id) {
      std::optional<Dim> replacement;
      for (const Class& c : classes_)
        if (identical(c.known, Dim::symbol(id))) replacement = replacement ? Dim(0) : c.dim;
      replacements_.push_back(replacement.value_or(Dim(0)));
    }
  }
  std::optional<Dim> replaced(Dim known, std::int64_t now) const {
    std::vector<SymbolId> used;
    known.collect_symbols(used);
    for (SymbolId id : used)
      if (replacements_[id].is_static()) return {};
    const Dim dim = known.substitute(replacements_);
    if (dim.evaluate(values_) != now) return {};
    return dim;
  }

  /// What an extent is, given its expression in `known` and its number now.
  Dim dim_for(Dim known, std::int64_t now) const {
    if (known.is_static() && known.value() == now) return now;
    if (const Class* found = class_of(known, now)) return found->dim;
    if (!known.is_static())
      if (const std::optional<Dim> dim = replaced(known, now)) return *dim;
    return guessed(before(known), now);
  }
  /// An expression that has given `p` and gives `q`: a class, a multiple or a product of classes, or one next to a
  /// class.
  Dim guessed(std::int64_t p, std::int64_t q) const {
    const auto ratio = [p, q](std::int64_t a, std::int64_t b) -> std::int64_t {
      return a > 0 && b > 0 && p % a == 0 && q % b == 0 && p / a == q / b ? p / a : 0;
    };
    for (const Class& c : classes_)
      if (c.before == p && c.now == q) return c.dim;
    const Class* nearest = nullptr;
    for (const Class& c : classes_)
      if (p - c.before == q - c.now && (nearest == nullptr || std::abs(q - c.now) < std::abs(q - nearest->now)))
        nearest = &c;
    if (nearest != nullptr && p != q) return nearest->dim + Dim(q - nearest->now);
    for (const Class& c : classes_)
      if (const std::int64_t k = ratio(c.before, c.now); k > 0) return c.dim * Dim(k);
    for (const Class& c : classes_)
      for (const Class& d : classes_)
        if (const std::int64_t k = ratio(c.before * d.before, c.now * d.now); k > 0) return c.dim * d.dim * Dim(k);
    return q;
  }
  Shape shape_for(const Shape& known, const Shape& now) const {
    Shape shape = now;
    for (int axis = 0; axis < now.rank(); ++axis) shape.set(axis, dim_for(known[axis], now[axis].value()));
    return shape;
  }

  /// Strides that follow from the extents inside them are expressions, others that differ are symbols.
  void choose_strides() {
    made_.layouts = now_.layouts;
    for (std::size_t i = 0; i < made_.layouts.size(); ++i) {
      const InputLayout &known = known_.layouts[i], &now = now_.layouts[i];
      const Shape& extents = now_.graph.type(now_.graph.inputs()[i]).shape;
      const Shape& known_extents = known_.graph.type(known_.graph.inputs()[i]).shape;
      std::vector<std::size_t> order(now.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      sort_few(order.begin(), order.end(),
               [&](std::size_t a, std::size_t b) { return now[a].value() < now[b].value(); });
      std::int64_t step = 1, known_step = 1;
      Dim step_dim = 1;
      for (const std::size_t axis : order) {
        const std::int64_t stride = now[axis].value(), known_stride = before(known[axis]);
        Dim& made = made_.layouts[i][axis];
        if (stride == step && known_stride == known_step) made = step_dim;
        else if (stays_number(known[axis], stride)) made = stride;
        else if (const Class* found = class_of(known[axis], stride)) made = found->dim;
        else
          made = new_symbol(known[axis], stride, {static_cast<std::int32_t>(i), static_cast<std::int8_t>(axis), true});
        const int a = static_cast<int>(axis);
        step = stride * extents[a].value();
        known_step = known_stride * before(known_extents[a]);
        step_dim = made * dim_for(known_extents[a], extents[a].value());
      }
    }
  }

  void infer() {
    GraphBuilder builder;
    builder.reserve(now_.graph.nodes().size());
    for (std::size_t i = 0; i < made_.symbols.size(); ++i) {
      const SymbolSource& source = made_.symbols[i];
      SymbolInfo info;
      info.hint = values_[i];
      // no shape has a stride
      if (!source.is_stride) {
        info.input = source.leaf;
        info.axis = source.axis;
      }
      builder.symbols().push_back(info);
    }
    for (std::size_t id = 0; id < now_.graph.nodes().size(); ++id) {
      const Node &node = now_.graph.nodes()[id], &known = known_.graph.nodes()[id];
      if (node.op == &op_info<ops::Input>) {
        Node input = node;
        input.types[0].shape = shape_for(known.types[0].shape, node.types[0].shape);
        builder.copy(input, {});
      } else if (node.op->kind == OpKind::leaf) {
        builder.copy(node, node.inputs);
      } else {
        keep_small_matrices(builder, node);
        builder.add_shared(*node.op, node.inputs, attrs_for(known, node), node.where);
      }
    }
    made_.graph = builder.finish(now_.graph.outputs());
  }
  /// Systems of few rows are solved side by side in vectors, by code for that number of rows; many of them, whatever
  /// their number, take a fraction of the time that systems of any number of rows do. So the rows stay what they are.
  void keep_small_matrices(const GraphBuilder& builder, const Node& node) const {
    constexpr std::int64_t most_rows = 8;
    if (!node.op->has_row_counts) return;
    for (const Value input : node.inputs) {
      const Shape &now = now_.graph.type(input).shape, &made = builder.type(input).shape;
      if (now_.graph.type(node.inputs[0]).shape[-1].value() > most_rows) return;
      for (int axis = now.rank() - 2; axis < now.rank(); ++axis) static_cast<void>(made[axis] == now[axis]);  // asks
    }
  }
  SharedAttrs attrs_for(const Node& known, const Node& node) const {
    SmallVector<const Shape*, 4> before;
    for_each_shape(known.attrs, [&](const Shape& shape) { before.push_back(&shape); });
    std::vector<Type> types = node.attrs.types;
    bool is_same = true;
    std::size_t place = 0;
    for_each_shape(node.attrs, [&](const Shape& shape) {
      is_same = is_same && identical(shape_for(*before[place++], shape), shape);
    });
    for (std::size_t i = 0; i < types.size(); ++i) {
      types[i].shape = shape_for(known.attrs.types[i].shape, types[i].shape);
      is_same = is_same && identical(types[i], node.attrs.types[i]);
    }
    if (is_same) return node.shared_attrs();
    Attrs attrs = node.attrs;
    place = 0;
    for_each_shape(attrs, [&](Shape& shape) { shape = shape_for(*before[place++], shape); });
    attrs.types = std::move(types);
    return attrs;
  }

  /// Puts in what the answers say about the symbols. False if nothing is left of them, or if this size is not among
  /// those that the graph stands for.
  bool solve() {
    GuardSet guards;
    guards.symbols = made_.symbols;
    guards.dims = made_.questions;
    const std::vector<Dim> solution = solve_symbols(guards, {}, Divide::no);
    if (std::all_of(solution.begin(), solution.end(), [](Dim dim) { return dim.is_static(); })) return false;
    made_.graph = substitute_symbols(made_.graph, solution, made_.symbols);
    for (InputLayout& layout : made_.layouts)
      for (Dim& stride : layout) stride = stride.substitute(solution);
    SmallVector<std::int64_t, 8> values;
    return made_.takes(now_, values);
  }

  const LazyGraph &known_, &now_;
  std::vector<std::int64_t> before_, values_;
  std::vector<Class> classes_;
  std::vector<Dim> replacements_;
  LazyGraph made_;
};

}  // namespace jit_detail

SINTER_DECL std::optional<LazyGraph> generalised(const LazyGraph& known, const LazyGraph& now) {
  return jit_detail::Generaliser(known, now).run();
}

}  // namespace jit
SINTER_NAMESPACE_END
