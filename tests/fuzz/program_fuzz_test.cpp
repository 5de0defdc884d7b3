// Differential fuzzing with random programs: graphs of up to 50 operations, some with their gradient, some with symbolic
// extents, run fused on every back end of this machine and op by op on the reference back end, and compared with the
// oracle. A failure shrinks itself and prints a program to paste. SINTER_FUZZ_SECONDS sets the time (default 5),
// SINTER_FUZZ_SEED runs exactly one seed.
#include "../catch.hpp"
#include "../plan_harness.hpp"

#include <sinter/autodiff/reverse.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#endif

#include <chrono>
#include <cstdlib>
#include <functional>

using namespace sinter_test;

namespace {

/// Makes one random program. Values stay within a few units (bounds are tracked, and what grows is squashed), so that
/// rounding differences stay small and every difference is a bug. Comparisons look at inputs only: their outcome is exact.
class ProgramGenerator {
 public:
  explicit ProgramGenerator(std::uint64_t seed) : random_(seed) {}

  Graph generate() {
    dtype_ = chance(0.4) ? DType::f32 : DType::f64;
    Dim rows = extent(), columns = extent(), inner = extent();
    if (chance(0.3)) rows = Dim::symbol(0), builder_.symbols().push_back({.input = 0, .axis = 0, .hint = 5});
    for (const Shape& shape : {Shape{rows, columns}, Shape{rows, columns}, Shape{columns}, Shape{columns, inner}, Shape{inner, columns}}) {
      add(builder_.input({dtype_, Device::cpu(), shape}), 2);
      inputs_.push_back(values_.back());
    }
    int steps = 4 + pick(46);
    for (int i = 0; i < steps; ++i) step();
    std::vector<Value> outputs{values_.back().value};
    for (int i = pick(3); i > 0; --i) outputs.push_back(any().value);
    if (!chance(0.35)) return Dce{}(builder_.finish(outputs));
    Known loss = values_.back();
    IntVector axes;
    for (int a = 0; a < shape_of(loss).rank(); ++a) axes.push_back(a);
    if (!axes.empty()) outputs[0] = builder_.add(op_info<ops::Mean>, {loss.value}, {.axes = axes});
    Graph forward = builder_.finish(outputs);
    return Dce{}(differentiate(forward, std::vector<std::int32_t>{0, 2}, 0));
  }

 private:
  struct Known {
    Value value;
    double bound;
  };

  int pick(int n) { return n <= 0 ? 0 : static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  Dim extent() {
    constexpr int extents[] = {1, 2, 3, 5, 8, 16, 17, 33, 70};
    return Dim(extents[pick(9)]);
  }
  Shape shape_of(const Known& v) { return builder_.type(v.value).shape; }
  Known any() { return values_[static_cast<std::size_t>(chance(0.5) ? static_cast<int>(values_.size()) - 1 - pick(std::min<int>(4, static_cast<int>(values_.size()))) : pick(static_cast<int>(values_.size())))]; }
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
    switch (pick(16)) {
      case 0: case 1: case 2: return unary(a);
      case 3: case 4: case 5: return binary(a);
      case 6: return choose(a);
      case 7: case 8: return reduce(a);
      case 9: return normalise(a);
      case 10: case 11: return product(a);
      case 12: return permute(a);
      case 13: return cut(a);
      case 14: return join(a);
      default: return take_rows(a);
    }
  }
  void unary(const Known& a) {
    struct Row {
      const OpInfo* op;
      double bound;
    };
    const Row rows[] = {{&op_info<ops::Tanh>, 1}, {&op_info<ops::Sigmoid>, 1}, {&op_info<ops::Sin>, 1}, {&op_info<ops::Cos>, 1}, {&op_info<ops::Erf>, 1},
                        {&op_info<ops::Neg>, a.bound}, {&op_info<ops::Abs>, a.bound}, {&op_info<ops::Relu>, a.bound}, {&op_info<ops::Gelu>, a.bound},
                        {&op_info<ops::Square>, a.bound * a.bound}, {&op_info<ops::Silu>, a.bound}};
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
      default: {   // a divisor of at least 1
        Value square = builder_.add(op_info<ops::Square>, {b.value});
        Value one = builder_.add(op_info<ops::Full>, std::initializer_list<Value>{}, {.value = 1, .dtype = dtype_, .has_dtype = true});
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
    Attrs attrs;
    for (int i = 0; i < shape.rank(); ++i) {
      std::int64_t n = shape[i].value(), start = pick(static_cast<int>(n));
      attrs.shape.push_back(start), attrs.limits.push_back(n), attrs.steps.push_back(1 + pick(2));
    }
    add(builder_.add(op_info<ops::Slice>, {a.value}, attrs), a.bound);
  }
  void join(const Known& a) {
    Shape shape = shape_of(a);
    if (shape.rank() == 0 || shape.rank() > 3) return unary(a);
    for (const Known& b : values_)
      if (identical(shape_of(b), shape)) return add(builder_.add(op_info<ops::Concat>, {a.value, b.value}, {.axes = {some_axis(a)}}), std::max(a.bound, b.bound));
  }
  void take_rows(const Known& a) {
    Shape shape = shape_of(a);
    if (shape.rank() == 0 || !shape[0].is_static()) return unary(a);
    Value positions = builder_.add(op_info<ops::Iota>, std::initializer_list<Value>{}, {.axes = {0}, .shape = Shape{Dim(1 + pick(static_cast<int>(shape[0].value())))}, .dtype = DType::i64, .has_dtype = true});
    add(builder_.add(op_info<ops::Take>, {a.value, positions}, {.axes = {0}}), a.bound);
  }

  std::mt19937_64 random_;
  GraphBuilder builder_;
  DType dtype_ = DType::f32;
  std::vector<Known> values_, inputs_;
};

struct Way {
  std::string name;
  PlanOptions options;
};

std::vector<Way> ways() {
  std::vector<Way> list{{"reference op by op", op_by_op()}, {"reference fused", fused()}};
#ifndef SINTER_NO_X86
  for (x86::Isa isa : {x86::Isa::avx2, x86::Isa::avx512}) {
    static std::map<int, std::unique_ptr<Backend>> backends;
    auto& backend = backends[static_cast<int>(isa)];
    if (!backend) backend = std::make_unique<x86::X86Backend>(isa);
    list.push_back({backend->cache_key() + " fused", fused({backend.get(), reference()})});
    list.push_back({backend->cache_key() + " op by op", op_by_op({backend.get(), reference()})});
  }
#endif
  return list;
}

double program_tolerance(DType dtype) { return dtype == DType::f32 ? 2e-3 : dtype == DType::f64 ? 1e-9 : 0; }

/// The first disagreement with the oracle, or "".
std::string disagreement(const Graph& graph, const Way& way) {
  try {
    std::vector<std::vector<std::int64_t>> symbol_values{{5}};
    if (!graph.symbols().empty()) symbol_values.push_back({18});
    auto plan = build_plan(run_pipeline(graph), way.options);
    for (const auto& symbols : symbol_values) {
      auto inputs = random_inputs(graph, symbols);
      auto wanted = oracle::evaluate(graph, inputs), found = run(*plan, inputs);
      for (std::size_t j = 0; j < wanted.size(); ++j)
        if (std::string text = difference(found[j], wanted[j], program_tolerance(wanted[j].dtype)); !text.empty()) return "output " + std::to_string(j) + ", " + text;
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// `graph` with node `id` replaced by one of its operands (or with another output list).
Graph rebuilt(const Graph& graph, std::int32_t id, Value by, std::vector<Value> outputs) {
  GraphBuilder builder(graph);
  std::vector<Value> made(graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (static_cast<std::int32_t>(i) == id) {
      made[i] = made[static_cast<std::size_t>(by.node)];
      continue;
    }
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(made[static_cast<std::size_t>(v.node)]);
    made[i] = builder.copy(node, inputs);
  }
  for (Value& v : outputs) v = made[static_cast<std::size_t>(v.node)];
  return Dce{}(builder.finish(outputs));
}

Graph shrink(Graph graph, const Way& way) {
  auto try_smaller = [&](const Graph& candidate) {
    if (candidate.nodes().size() >= graph.nodes().size() && candidate.outputs().size() >= graph.outputs().size()) return false;
    if (disagreement(candidate, way).empty()) return false;
    graph = candidate;
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t i = 0; i < graph.outputs().size() && !progress; ++i)
      if (graph.outputs().size() > 1) progress = try_smaller(rebuilt(graph, -1, {}, {graph.outputs()[i]}));
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph.nodes().size()) && !progress; ++id)
      if (!graph.node(id).inputs.empty()) progress = try_smaller(rebuilt(graph, -1, {}, {Value{id, 0}}));
    for (std::int32_t id = static_cast<std::int32_t>(graph.nodes().size()) - 1; id >= 0 && !progress; --id)
      for (Value operand : graph.node(id).inputs)
        if (!progress && identical(graph.type(operand), graph.node(id).types[0])) progress = try_smaller(rebuilt(graph, id, operand, {graph.outputs().begin(), graph.outputs().end()}));
  }
  return graph;
}

std::string pasteable(const Graph& graph, const Way& way) {
  return "TEST_CASE(\"shrunk program\") {   // " + way.name + "\n  Graph graph = parse_graph(R\"(" + graph.text() +
         ")\");\n  auto plan = build_plan(run_pipeline(graph), fused());\n  CHECK(first_difference(*plan, graph, random_inputs(graph, std::vector<std::int64_t>{5})) == \"\");\n}\n";
}

void check_seed(std::uint64_t seed) {
  Graph graph = ProgramGenerator(seed).generate();
  for (const Way& way : ways()) {
    std::string what = disagreement(graph, way);
    if (what.empty()) continue;
    Graph small = shrink(graph, way);
    FAIL("seed " << seed << ", " << way.name << ": " << what << "\nshrunk: " << disagreement(small, way) << "\n" << pasteable(small, way));
  }
}

}  // namespace

TEST_CASE("random programs agree with the oracle on every back end") {
  if (const char* seed = std::getenv("SINTER_FUZZ_SEED")) {
    check_seed(std::strtoull(seed, nullptr, 0));
    SUCCEED();
    return;
  }
  const char* seconds = std::getenv("SINTER_FUZZ_SECONDS");
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 5);
  std::uint64_t seed = 1;
  for (; std::chrono::steady_clock::now() < end; ++seed) check_seed(seed);
  std::printf("%llu programs agree\n", static_cast<unsigned long long>(seed - 1));
  CHECK(seed > 1);
}

TEST_CASE("a wrong result is found and shrinks to the operation that is wrong") {
  // The reference back end with its results spoilt whenever a kernel has a tanh.
  struct Spoilt : OtherBackend {
    std::vector<Schedule> schedules(const Kernel& kernel, std::string* why) const override {
      for (const Inst& inst : kernel.body)
        if (inst.prim == Prim::tanh) throw InternalError("spoilt");
      return OtherBackend::schedules(kernel, why);
    }
  } spoilt;
  Way way{"spoilt", fused({&spoilt})};
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    Graph graph = ProgramGenerator(seed).generate();
    if (disagreement(graph, way).empty()) continue;
    Graph small = shrink(graph, way);
    INFO(small.text());
    CHECK(small.text().find("tanh") != std::string::npos);
    CHECK(small.nodes().size() <= 8);
    return;
  }
  FAIL("no program had a tanh");
}
