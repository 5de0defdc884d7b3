// Random programs for fuzzing: graphs of up to 50 operations, and their transforms. Tests of several kinds share them.
#pragma once

#include <sinter/autodiff/forward.hpp>
#include <sinter/autodiff/reverse.hpp>
#include <sinter/autodiff/vectorise.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>

#include <random>
#include <vector>

namespace sinter_test {

using namespace sinter;

/// Makes one random program. Values stay within a few units (bounds are tracked, and what grows is squashed), so that
/// rounding differences stay small and every difference is a bug. Comparisons look at inputs only: their outcome is
/// exact.
class ProgramGenerator {
 public:
  explicit ProgramGenerator(std::uint64_t seed) : random_(seed), may_be_empty_(seed % 8 == 3) {}

  enum class Transformed : std::uint8_t { no, perhaps };
  Graph generate(Transformed transformed = Transformed::perhaps) {
    dtype_ = chance(0.4) ? DType::f32 : DType::f64;
    Dim rows = extent(), columns = extent(), inner = extent();
    if (chance(0.3)) rows = Dim::symbol(0), builder_.symbols().push_back({.input = 0, .axis = 0, .hint = 5});
    for (const Shape& shape :
         {Shape{rows, columns}, Shape{rows, columns}, Shape{columns}, Shape{columns, inner}, Shape{inner, columns}}) {
      add(builder_.input({dtype_, Device::cpu(), shape}), 2);
      inputs_.push_back(values_.back());
    }
    int steps = 4 + pick(46);
    for (int i = 0; i < steps; ++i) step();
    std::vector<Value> outputs{values_.back().value};
    for (int i = pick(3); i > 0; --i) outputs.push_back(any().value);
    const Known loss = values_.back();
    IntVector axes;
    for (int a = 0; a < shape_of(loss).rank(); ++a) axes.push_back(a);
    if (transformed == Transformed::no || !chance(0.6)) return Dce{}(builder_.finish(outputs));
    if (chance(0.6)) {
      if (!axes.empty()) outputs[0] = builder_.add(op_info<ops::Mean>, {loss.value}, {.axes = axes});
      return Dce{}(maybe_mapped(differentiate(builder_.finish(outputs), std::vector<std::int32_t>{0, 2}, 0), 0.3));
    }
    const Graph forward = builder_.finish(outputs);
    return Dce{}(maybe_mapped(chance(0.4) ? jvp_graph(forward, 2, outputs.size()) : forward, 0.7));
  }

  /// `graph` for `examples` examples, in which the inputs that `mask` names differ. All outputs have the batch.
  static Graph mapped(const Graph& graph, std::uint32_t mask, int examples) {
    GraphBuilder builder(graph);
    std::vector<Batched> inputs;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      Type type = graph.type(graph.inputs()[i]);
      const bool is_batched = (mask >> i & 1) != 0;
      if (is_batched) type.shape.insert(0, examples);
      inputs.push_back(Batched(Val{&builder, builder.input(type), {}}, is_batched));
    }
    for (SymbolInfo& symbol : builder.symbols()) symbol.axis += (mask >> symbol.input & 1) != 0 ? 1 : 0;
    std::vector<Value> outputs;
    for (const Batched& out : vectorise(builder, graph, inputs, examples)) {
      Shape shape = out.value.shape();
      if (!out.is_batched) shape.insert(0, examples);
      outputs.push_back(expand(out.value, shape).value);
    }
    return Dce{}(builder.finish(outputs));
  }

 private:
  Graph maybe_mapped(const Graph& graph, double probability) {
    if (!chance(probability)) return graph;
    for (const Node& node : graph.nodes())
      for (const Type& type : node.types)
        if (type.shape.rank() > 5) return graph;  // windows of a batch need room
    const auto all = (1u << graph.inputs().size()) - 1;
    const unsigned mask = chance(0.5) ? all : 1u + static_cast<unsigned>(pick(static_cast<int>(all)));
    return mapped(graph, mask, 1 + pick(4));
  }
  struct Known {
    Value value;
    double bound;
  };

  int pick(int n) { return n <= 0 ? 0 : static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  Dim extent() {
    constexpr int extents[] = {1, 2, 3, 5, 8, 16, 17, 33, 70};
    const int chosen = extents[pick(9)];
    return Dim(may_be_empty_ && chance(0.3) ? 0 : chosen);
  }
  Shape shape_of(const Known& v) { return builder_.type(v.value).shape; }
  Known any() {
    return values_[static_cast<std::size_t>(chance(0.5) ? static_cast<int>(values_.size()) - 1 -
                                                              pick(std::min<int>(4, static_cast<int>(values_.size())))
                                                        : pick(static_cast<int>(values_.size())))];
  }
  void add(Value v, double bound) {
    if (bound > 6) v = builder_.add(op_info<ops::Tanh>, {v}), bound = 1;
    values_.push_back({v, bound});
  }
  /// Some value that broadcasts with `a`, perhaps itself.
  Known partner(const Known& a) {
    std::vector<Known> fitting;
    for (const Known& b : values_)
      if (broadcasts(shape_of(a), shape_of(b))) fitting.push_back(b);
    return fitting[static_cast<std::size_t>(pick(static_cast<int>(fitting.size())))];
  }
  static bool broadcasts(const Shape& a, const Shape& b) {
    if (a.rank() > 4 || b.rank() > 4) return false;
    for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i)
      if (!identical(a[-i], b[-i]) && !identical(a[-i], Dim(1)) && !identical(b[-i], Dim(1))) return false;
    return true;
  }
  int some_axis(const Known& v) { return pick(shape_of(v).rank()); }

  void step() {
    Known a = any();
    switch (pick(19)) {
      case 0:
      case 1:
      case 2: return unary(a);
      case 3:
      case 4:
      case 5: return binary(a);
      case 6: return choose(a);
      case 7:
      case 8: return reduce(a);
      case 9: return normalise(a);
      case 10:
      case 11: return product(a);
      case 12: return permute(a);
      case 13: return cut(a);
      case 14: return join(a);
      case 15: return branch(a);
      case 16: return repeat(a);
      case 17: return scan(a);
      default: return take_rows(a);
    }
  }
  /// A body of a few operations: new values of a's type from a value of that type and captured ones, within 1.
  struct Body {
    GraphBuilder builder;
    std::vector<Value> inputs;
    Value value(std::size_t i) const { return inputs[i]; }
  };
  Body body_of(std::span<const Type> types) {
    Body body{GraphBuilder(builder_.graph()), {}};
    for (const Type& type : types) body.inputs.push_back(body.builder.input(type));
    return body;
  }
  Value small_step(Body& body, Value x, Value y) {
    const OpInfo* unary[] = {&op_info<ops::Tanh>, &op_info<ops::Sin>, &op_info<ops::Cos>, &op_info<ops::Neg>,
                             &op_info<ops::Sigmoid>};
    const OpInfo* binary[] = {&op_info<ops::Add>, &op_info<ops::Sub>, &op_info<ops::Mul>};
    const Value mixed = body.builder.add(*binary[pick(3)], {body.builder.add(*unary[pick(5)], {x}), y});
    return body.builder.add(op_info<ops::Tanh>, {chance(0.5) ? mixed : body.builder.add(*binary[pick(3)], {mixed, x})});
  }
  std::shared_ptr<const Graph> finished(Body& body, std::initializer_list<Value> outputs) {
    return std::make_shared<const Graph>(body.builder.finish(std::vector<Value>(outputs)));
  }
  Value integer(GraphBuilder& builder, std::int64_t value) {
    return builder.add(op_info<ops::Full>, std::initializer_list<Value>{},
                       {.integer = value, .dtype = DType::i64, .has_dtype = true});
  }
  void branch(const Known& a) {
    const Type type = builder_.type(a.value);
    Attrs attrs;
    const int branches = 1 + pick(3);
    for (int b = 0; b < branches; ++b) {
      const Type types[] = {type, type};
      Body body = body_of(types);
      attrs.bodies.push_back(finished(body, {small_step(body, body.value(0), body.value(1))}));
    }
    Known other = any();
    if (!identical(builder_.type(other.value), type)) other = a;
    const Value index = integer(builder_, pick(5) - 1);
    add(builder_.add(op_info<ops::Switch>, {index, a.value, other.value}, std::move(attrs)), 1);
  }
  /// A while_loop that counts: there is no gradient in reverse mode, so what goes through it is cut off.
  void repeat(const Known& a) {
    const Type type = builder_.type(a.value), counter{DType::i64, Device::cpu(), {}};
    const Type types[] = {type, counter, type};
    Body condition = body_of(types), body = body_of(types);
    const int iterations = pick(5);
    auto goes_on = [&](Body& in, Value count) {
      return in.builder.add(op_info<ops::Lt>, {count, integer(in.builder, iterations)});
    };
    Attrs attrs;
    attrs.set(ops::WhileLoop::carries, 2);
    attrs.bodies.push_back(finished(condition, {goes_on(condition, condition.value(1))}));
    const Value next = small_step(body, body.value(0), body.value(2)),
                count = body.builder.add(op_info<ops::Add>, {body.value(1), integer(body.builder, 1)});
    attrs.bodies.push_back(finished(body, {next, count, goes_on(body, count)}));
    const Value start = builder_.add(op_info<ops::StopGradient>, {a.value});
    add(builder_.add(op_info<ops::WhileLoop>, {start, integer(builder_, 0), start}, std::move(attrs)),
        std::max(1.0, a.bound));
  }
  /// Along the first axis, with a carry of one slice, a captured slice, and outputs.
  void scan(const Known& a) {
    const Type type = builder_.type(a.value);
    if (type.shape.rank() == 0 || identical(type.shape[0], Dim(0))) return unary(a);
    Type slice = type;
    slice.shape.erase(0);
    const Type types[] = {slice, slice, slice};
    Body body = body_of(types);
    const Value carry = small_step(body, body.value(0), body.value(1)), y = small_step(body, body.value(2), carry);
    Attrs attrs;
    attrs.set(ops::Scan::length, type.shape[0]);
    attrs.set(ops::Scan::carries, 1);
    attrs.set(ops::Scan::scanned, 1);
    attrs.set(ops::Scan::is_reversed, pick(2) != 0);
    attrs.set(ops::Scan::saved, {0});
    attrs.bodies.push_back(finished(body, {carry, y}));
    const Value start = builder_.add(op_info<ops::Amax>, {a.value}, {.axes = {0}}),
                captured = builder_.add(op_info<ops::Mean>, {a.value}, {.axes = {0}});
    const Value node = builder_.add(op_info<ops::Scan>, {start, a.value, captured}, std::move(attrs));
    add(node, std::max(1.0, a.bound));
    add({node.node, 1}, 1);
  }
  void unary(const Known& a) {
    struct Row {
      const OpInfo* op;
      double bound;
    };
    const Row rows[] = {{&op_info<ops::Tanh>, 1},       {&op_info<ops::Sigmoid>, 1},
                        {&op_info<ops::Sin>, 1},        {&op_info<ops::Cos>, 1},
                        {&op_info<ops::Erf>, 1},        {&op_info<ops::Neg>, a.bound},
                        {&op_info<ops::Abs>, a.bound},  {&op_info<ops::Relu>, a.bound},
                        {&op_info<ops::Gelu>, a.bound}, {&op_info<ops::Square>, a.bound * a.bound},
                        {&op_info<ops::Silu>, a.bound}};
    const Row& row = rows[pick(std::size(rows))];
    if (a.bound <= 2 && chance(0.2)) return add(builder_.add(op_info<ops::Exp>, {a.value}), 7.4);
    add(builder_.add(*row.op, {a.value}), row.bound);
  }
  void binary(const Known& a) {
    Known b = partner(a);
    switch (pick(5)) {
      case 0: return add(builder_.add(op_info<ops::Add>, {a.value, b.value}), a.bound + b.bound);
      case 1: return add(builder_.add(op_info<ops::Sub>, {a.value, b.value}), a.bound + b.bound);
      case 2: return add(builder_.add(op_info<ops::Mul>, {a.value, b.value}), a.bound * b.bound);
      case 3: return add(builder_.add(op_info<ops::Maximum>, {a.value, b.value}), std::max(a.bound, b.bound));
      default: {  // a divisor of at least 1
        Value square = builder_.add(op_info<ops::Square>, {b.value});
        Value one = builder_.add(op_info<ops::Full>, std::initializer_list<Value>{},
                                 {.value = 1, .dtype = dtype_, .has_dtype = true});
        return add(builder_.add(op_info<ops::Div>, {a.value, builder_.add(op_info<ops::Add>, {square, one})}), a.bound);
      }
    }
  }
  void choose(const Known& a) {
    const Known& x = inputs_[static_cast<std::size_t>(pick(static_cast<int>(inputs_.size())))];
    Known b = partner(a);
    Shape both = broadcast(shape_of(a), shape_of(b), "fuzz");
    if (!broadcasts(both, shape_of(x))) return unary(a);
    Value zero = builder_.add(op_info<ops::Full>, std::initializer_list<Value>{}, {.dtype = dtype_, .has_dtype = true});
    Value mask = builder_.add(op_info<ops::Lt>, {zero, x.value});
    add(builder_.add(op_info<ops::Where>, {mask, a.value, b.value}), std::max(a.bound, b.bound));
  }
  void reduce(const Known& a) {
    if (shape_of(a).rank() == 0) return unary(a);
    IntVector axes{some_axis(a)};
    if (int second = some_axis(a); second > axes[0] && chance(0.3)) axes.push_back(second);
    Attrs attrs{.axes = axes, .keepdim = chance(0.6)};
    for (int axis : axes)  // no mean, no largest element
      if (identical(shape_of(a)[axis], Dim(0))) return add(builder_.add(op_info<ops::Sum>, {a.value}, attrs), 1);
    if (chance(0.6)) add(builder_.add(op_info<ops::Mean>, {a.value}, attrs), a.bound);
    else add(builder_.add(chance(0.5) ? op_info<ops::Amax> : op_info<ops::Amin>, {a.value}, attrs), a.bound);
  }
  void normalise(const Known& a) {
    if (shape_of(a).rank() == 0) return unary(a);
    Attrs attrs{.axes = {some_axis(a)}};
    add(builder_.add(op_info<ops::Softmax>, {a.value}, attrs), 1);
  }
  void product(const Known& a) {
    Shape shape = shape_of(a);
    if (shape.rank() != 2) return unary(a);
    for (const Known& b : values_) {
      Shape other = shape_of(b);
      if (other.rank() != 2 || !identical(shape[1], other[0]) || chance(0.3)) continue;
      return add(builder_.add(op_info<ops::Tanh>, {builder_.add(op_info<ops::Matmul>, {a.value, b.value})}), 1);
    }
    unary(a);
  }
  void permute(const Known& a) {
    int rank = shape_of(a).rank();
    if (rank < 2) return unary(a);
    Attrs attrs;
    for (int i = 0; i < rank; ++i) attrs.axes.push_back((i + 1) % rank);
    add(builder_.add(op_info<ops::Permute>, {a.value}, attrs), a.bound);
  }
  void cut(const Known& a) {
    Shape shape = shape_of(a);
    if (shape.rank() == 0 || !shape.is_static()) return unary(a);
    Shape starts, ends;
    IntVector steps;
    for (int i = 0; i < shape.rank(); ++i) {
      std::int64_t n = shape[i].value(), start = pick(static_cast<int>(n));
      starts.push_back(start);
      ends.push_back(n);
      steps.push_back(1 + pick(2));
    }
    Attrs attrs;
    attrs.set(ops::Slice::starts, starts);
    attrs.set(ops::Slice::ends, ends);
    attrs.set(ops::Slice::steps, steps);
    add(builder_.add(op_info<ops::Slice>, {a.value}, attrs), a.bound);
  }
  void join(const Known& a) {
    Shape shape = shape_of(a);
    if (shape.rank() == 0 || shape.rank() > 3) return unary(a);
    for (const Known& b : values_)
      if (identical(shape_of(b), shape))
        return add(builder_.add(op_info<ops::Concat>, {a.value, b.value}, {.axes = {some_axis(a)}}),
                   std::max(a.bound, b.bound));
  }
  void take_rows(const Known& a) {
    Shape shape = shape_of(a);
    if (shape.rank() == 0 || !shape[0].is_static() || shape[0].value() == 0) return unary(a);
    Value positions = builder_.add(op_info<ops::Iota>, std::initializer_list<Value>{},
                                   {.axes = {0},
                                    .shape = Shape{Dim(1 + pick(static_cast<int>(shape[0].value())))},
                                    .dtype = DType::i64,
                                    .has_dtype = true});
    add(builder_.add(op_info<ops::Take>, {a.value, positions}, {.axes = {0}}), a.bound);
  }

  std::mt19937_64 random_;
  bool may_be_empty_;  // one program of eight has extents of 0
  GraphBuilder builder_;
  DType dtype_ = DType::f32;
  std::vector<Known> values_, inputs_;
};

}  // namespace sinter_test
