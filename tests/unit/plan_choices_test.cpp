// Other cuts of a graph into kernels: which there are, what following one changes, and that none changes a bit.
#include "../catch.hpp"
#include "../plan_harness.hpp"

#include <sinter/base/threads.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/runtime/plan_choices.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cstring>

using namespace sinter_test;

namespace {

std::string texts_of(const std::vector<Schedule>& schedules) {
  std::string text;
  for (const Schedule& schedule : schedules) text += (text.empty() ? "" : ", ") + schedule.text();
  return text;
}

struct ChoiceRow {
  const char* name;
  const char* text;
  std::string_view expected;  // the kinds of steps that its schedules have, in any order
};
constexpr std::string_view any_steps = "?";  // what there is is another's matter: bits alone count
const ChoiceRow choice_rows[] = {
    {"one kernel", "graph(%x: f32[64, 100]) { return tanh(mul(%x, 2)) }", ""},
    {"softmax", "graph(%x: f32[64, 100]) { return softmax(%x) {axes=[1]} }", "cut"},
    {"a value that two kernels compute",
     "graph(%x: f32[64, 100]) { %a = add(mul(%x, 2), 1) return sum(%a) {axes=[0]}, sum(%a) {axes=[1]} }",
     "recompute store"},
    {"an epilogue", "graph(%x: f32[64, 32], %y: f32[32, 48]) { return relu(matmul(%x, %y)) }", "epilogues cut"},
    {"a product that two kernels add, as one operation with the sum",
     "graph(%x: f32[64, 100]) { %a = add(mul(%x, 3), 1) return sum(%a) {axes=[0]}, sum(%a) "
     "{axes=[1]} }",
     "recompute store"},
    {"a product that waits for a reduction",
     "graph(%x: f32[64, 100], %y: f32[64, 100]) { return add(mul(%x, %y), softmax(%x) {axes=[1]}) }", any_steps},
    {"bf16 is f32 in registers",
     "graph(%x: bf16[64, 100]) { %a = add(mul(%x, 3), 1) return sum(%a) {axes=[0]}, sum(%a) {axes=[1]} }", any_steps},
    {"bf16 behind a product",
     "graph(%x: bf16[64, 32], %y: bf16[32, 48], %z: bf16[64, 48]) { return add(matmul(%x, %y), %z) }", any_steps},
    {"what is small is not written",
     "graph(%x: f32[4, 5]) { %a = add(mul(%x, 2), 1) return sum(%a) {axes=[0]}, sum(%a) {axes=[1]} }", ""},
};

bool has_same_bits(const std::vector<Ref<TensorImpl>>& a, const std::vector<Ref<TensorImpl>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const auto bytes = static_cast<std::size_t>(x->type.shape.numel().value() * size_of(x->type.dtype));
    return x->is_dense() && y->is_dense() && std::memcmp(x->data(), y->data(), bytes) == 0;
  });
}

}  // namespace

TEST_CASE("plan choices: which cuts there are, and that each gives the same bits") {
  for (const std::vector<Backend*>& backends : backend_lists())
    for (const ChoiceRow& row : choice_rows) {
      const Graph graph = prepared(row.text);
      const PlanOptions options = fused(backends);
      const std::vector<Schedule> schedules = plan_schedules(graph, options);
      INFO(row.name << " on " << backends.front()->name() << ": " << texts_of(schedules));
      REQUIRE_FALSE(schedules.empty());
      CHECK(schedules.front().empty());
      CHECK(schedules.size() <= 12);
      if (row.expected.empty())
        for (const Schedule& schedule : schedules)
          CHECK((schedule.empty() || schedule.find(ScheduleAction::horizontal)));
      for (std::string_view left = row.expected == any_steps ? "" : row.expected; !left.empty();) {
        const std::string_view step = left.substr(0, left.find(' '));
        left.remove_prefix(std::min(left.size(), step.size() + 1));
        CHECK(texts_of(schedules).find(std::string(step) + "(") != std::string::npos);
      }
      std::vector<Ref<TensorImpl>> inputs;
      for (const oracle::Array& array : random_inputs(graph)) inputs.push_back(to_value(array));
      const auto expected = execute(*build_plan(graph, options), inputs);
      for (const Schedule& schedule : schedules) {
        INFO(schedule.text());
        PlanOptions other = options;
        REQUIRE(follow(other, schedule));
        const auto plan = build_plan(graph, other);
        if (row.expected != any_steps &&
            (schedule.find(ScheduleAction::cut) || schedule.find(ScheduleAction::epilogues)))
          CHECK(plan->steps().size() > build_plan(graph, options)->steps().size());
        CHECK(has_same_bits(execute(*plan, inputs), expected));
      }
    }
}

TEST_CASE("plan choices: back ends are equal where one computes all of both plans, whatever kernels list") {
  const Graph graph = prepared(
      "graph(%x: f32[64, 100], %w: f32[100], %b: f32[100]) { return layer_norm(%x, %w, %b) {axes=[1], eps=1e-5} }");
  const PlanOptions options = fused();
  PlanOptions other = options;
  // The first sum, whose mean is computed where it is read, then.
  for (std::size_t id = graph.nodes().size(); id-- > 0;)
    if (graph.nodes()[id].op->name == "sum") other.cut.assign(1, static_cast<std::int32_t>(id));
  const auto standard = build_plan(graph, options), cut = build_plan(graph, other);
  REQUIRE(cut->steps().size() == 1);
  CHECK(cut->steps()[0].nodes != standard->steps()[0].nodes);
  CHECK(have_equal_backends(*standard, *cut));
  CHECK(have_equal_backends(*cut, *standard));
  if (jit::list_backends()[0] != "x86") return;
  CHECK_FALSE(have_equal_backends(*standard, *build_plan(graph, fused({jit::host_backends()[0]}))));
}

TEST_CASE("plan choices: what would be rounded once more is not offered, and not followed") {
  const Graph graph =
      prepared("graph(%x: bf16[64, 100]) { %a = add(mul(%x, 3), 1) return sum(%a) {axes=[0]}, sum(%a) {axes=[1]} }");
  const Schedule rounds = *parse_schedule("recompute(0)");
  const PlanOptions options = fused();
  const std::vector<Schedule> schedules = plan_schedules(graph, options);
  CHECK(std::find(schedules.begin(), schedules.end(), rounds) == schedules.end());
  for (const Schedule& schedule : schedules) CHECK(keeps_bits(graph, options, schedule));
  CHECK_FALSE(keeps_bits(graph, options, *parse_schedule("unroll(2)")));
}

TEST_CASE("plan choices: what is cut is told, and no step of a kernel is one of a plan") {
  const Graph graph = prepared("graph(%x: f32[64, 32], %y: f32[32, 48]) { return relu(matmul(%x, %y)) }");
  PlanOptions options = fused();
  for (const Schedule& schedule : plan_schedules(graph, options))
    if (schedule.find(ScheduleAction::cut)) REQUIRE(follow(options, schedule));
  REQUIRE(options.cut.size() == 1);
  const auto plan = build_plan(graph, options);
  CHECK(kinds(*plan) == "contraction pointwise");
  const std::vector<PlanBorder> borders = borders_of(*plan);
  REQUIRE(borders.size() == 1);
  CHECK(borders[0].why == "a schedule cuts them here, for that was faster when it was measured");

  const PlanOptions before = fused();
  for (const char* text : {"unroll(2)", "threads(1)", "epilogues(1)", "recompute[a0](0)", "epilogues(0) keep(0)"}) {
    PlanOptions same = before;
    CHECK_FALSE(follow(same, *parse_schedule(text)));
    CHECK(same.epilogues);
    CHECK(same.cut.empty());
  }
  PlanOptions all = before;
  CHECK(follow(all, *parse_schedule("epilogues(0) horizontal(0) recompute(0) graphs(0) store(7) cut(9)")));
  CHECK_FALSE((all.epilogues || all.horizontal || all.recompute || all.as_one));
  CHECK(all.kept == std::vector<std::int32_t>{7});
  CHECK(all.cut == std::vector<std::int32_t>{9});
  CHECK(plan_schedules(graph, op_by_op()).size() == 1);
}

TEST_CASE("plan choices: bodies of loops are cut by their own numbers, with the same bits") {
  const auto f = jit::compile([](Tensor x, Tensor w) {
    return jit::fori_loop(
        0, 3,
        [&](Scalar, Tensor y) {
          const Tensor a = tanh(softmax(matmul(y, w) + x, 1) * 3 + 1);
          return y + sum(a, 0) + sum(a, {1}, keepdim);
        },
        x);
  });
  const Graph graph = f.lower(jit::spec({60, 60}), jit::spec({60, 60})).passes().back().graph;
  std::vector<Ref<TensorImpl>> inputs;
  for (const oracle::Array& array : random_inputs(graph)) inputs.push_back(to_value(array));
  for (const std::vector<Backend*>& backends : backend_lists()) {
    const PlanOptions options = fused(backends);
    const std::vector<Schedule> schedules = plan_schedules(graph, options);
    INFO(backends.front()->name() << ": " << texts_of(schedules));
    CHECK(texts_of(schedules).find("cut[b0](") != std::string::npos);
    CHECK(schedules.size() <= 12);
    const auto standard = build_plan(graph, options);
    const auto expected = execute(*standard, inputs);
    for (const Schedule& schedule : schedules) {
      INFO(schedule.text());
      CHECK(parse_schedule(schedule.text()) == schedule);
      CHECK(keeps_bits(graph, options, schedule));
      PlanOptions other = options;
      REQUIRE(follow(other, schedule));
      const auto plan = build_plan(graph, other);
      if (!schedule.empty()) CHECK(plan->text() != standard->text());
      CHECK(has_same_bits(execute(*plan, inputs), expected));
    }
  }
  PlanOptions options = fused();
  REQUIRE(follow(options, *parse_schedule("cut[b0](3) store[b0](4) store[b2](3) cut(3)")));
  REQUIRE(options.body_cuts.size() == 2);
  CHECK(options.body_cuts[0].body == 0);
  CHECK(options.body_cuts[0].cut == std::vector<std::int32_t>{3});
  CHECK(options.body_cuts[0].kept == std::vector<std::int32_t>{4});
  CHECK(options.body_cuts[1].body == 2);
  CHECK(options.cut == std::vector<std::int32_t>{3});
  CHECK(keeps_bits(graph, fused(), *parse_schedule("cut[b7](3)")));  // there is no such body: nothing changes
  CHECK_FALSE(parse_schedule("cut[a0](3)"));
  CHECK_FALSE(parse_schedule("unroll[b0](2)"));
}

#ifndef SINTER_NO_X86
TEST_CASE("plan choices: threads, streaming stores and kept panels give the default's bits") {
  Backend* const x86 = backend_lists().back().front();
  if (x86->cache_key() == "x86-none") SINTER_SKIP("no instruction set that x86 generates for");
  struct Threads {
    int before = thread_count();
    Threads() { set_thread_count(4); }
    ~Threads() { set_thread_count(before); }
  } const threads;
  const char* texts[] = {
      "graph(%x: f32[301, 1000]) { return tanh(mul(%x, 2)) }",
      "graph(%x: f32[256, 1024]) { return permute(mul(%x, 2)) {axes=[1, 0]} }",
      "graph(%x: f32[64, 3000]) { return sum(%x) {axes=[1]} }",
      "graph(%x: f32[64, 96], %y: f32[96, 80]) { return matmul(%x, %y) }",
      "graph(%x: f32[3, 64, 96], %y: f32[3, 80, 96]) { return relu(matmul(%x, permute(%y) {axes=[0, 2, 1]})) }",
  };
  for (const char* text : texts) {
    const Graph graph = prepared(text);
    std::vector<Ref<TensorImpl>> inputs;
    for (const oracle::Array& array : random_inputs(graph)) inputs.push_back(to_value(array));
    const auto expected = execute(*build_plan(graph, fused({x86, reference()})), inputs);
    for (const char* step : {"threads(1)", "threads(2)", "stream(0)", "stream(1)", "pack(1)", "threads(1) unroll(4)"}) {
      INFO(text << ": " << step);
      PlanOptions options = fused({x86, reference()});
      const Schedule wanted = *parse_schedule(step);
      options.choose_schedule = [&](Backend& backend, const Kernel& kernel, const SymbolicGeometry&, const auto&) {
        return backend.compile(kernel, wanted) != nullptr ? wanted : Schedule();
      };
      CHECK(has_same_bits(execute(*build_plan(graph, options), inputs), expected));
    }
  }
}

/// The last input of the graph as a constant of it.
static Graph with_constant(const Graph& graph, const Ref<TensorImpl>& value) {
  GraphBuilder builder(graph);
  std::vector<Value> map(graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op->name == "input") {
      const bool is_last = static_cast<std::size_t>(node.attrs[input_position]) + 1 == graph.inputs().size();
      map[i] = is_last ? builder.constant(value) : builder.input(node.types[0]);
      continue;
    }
    Values operands;
    for (Value v : node.inputs) operands.push_back(map[static_cast<std::size_t>(v.node)]);
    map[i] = builder.copy(node, operands);
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(map[static_cast<std::size_t>(v.node)]);
  return builder.finish(outputs);
}

TEST_CASE("plan choices: a constant stays packed from call to call, unless its memory is lent") {
  Backend* const x86 = backend_lists().back().front();
  if (x86->cache_key() == "x86-none") SINTER_SKIP("no instruction set that x86 generates for");
  const Graph plain =
      prepared("graph(%x: f32[40, 96], %y: f32[80, 96]) { return matmul(%x, permute(%y) {axes=[1, 0]}) }");
  std::vector<Ref<TensorImpl>> values;
  for (const oracle::Array& array : random_inputs(plain)) values.push_back(to_value(array));
  const Ref<TensorImpl> weight = values.back();
  values.pop_back();
  const auto changes = [&](const Ref<TensorImpl>& constant) {
    const Graph graph = with_constant(plain, constant);
    const auto standard = build_plan(graph, fused({x86, reference()}));
    PlanOptions options = fused({x86, reference()});
    const Schedule packed = *parse_schedule("pack(1)");
    options.choose_schedule = [&](Backend& backend, const Kernel& kernel, const SymbolicGeometry&, const auto&) {
      return backend.compile(kernel, packed) != nullptr ? packed : Schedule();
    };
    const auto plan = build_plan(graph, options);
    const auto expected = execute(*standard, values), first = execute(*plan, values);
    CHECK(has_same_bits(first, expected));
    auto* const element = static_cast<float*>(constant->data());
    const float before = *element;
    *element = before + 100;  // as no constant would
    const auto second = execute(*plan, values);
    *element = before;
    CHECK(has_same_bits(execute(*plan, values), expected));
    return !has_same_bits(second, expected);
  };
  CHECK_FALSE(changes(weight));
  std::vector<float> mine(static_cast<const float*>(weight->data()),
                          static_cast<const float*>(weight->data()) + 80 * 96);
  CHECK(changes(from_blob(std::shared_ptr<const void>(), mine.data(), {80, 96}, DType::f32).impl()));
}

TEST_CASE("plan choices: a constant that a product reads is packed once, others anew") {
  Backend* const x86 = backend_lists().back().front();
  if (x86->cache_key() == "x86-none") SINTER_SKIP("no instruction set that x86 generates for");
  const Graph graph =
      prepared("graph(%x: f32[40, 96], %y: f32[80, 96]) { return matmul(%x, permute(%y) {axes=[1, 0]}) }");
  const auto plan = build_plan(graph, fused({x86, reference()}));
  const PlanStep& step = plan->steps()[0];
  REQUIRE(step.kernel.kind == KernelKind::contraction);
  const BoundGeometry geometry = sinter::bind(step.geometry, std::vector<std::int64_t>{});
  std::vector<Ref<TensorImpl>> values;
  for (const oracle::Array& array : random_inputs(graph)) values.push_back(to_value(array));
  std::vector<float> results(40 * 80), expected(40 * 80);
  std::vector<void*> operands;
  std::size_t weight = 0;
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const bool is_input = step.operands[i].kind == BufferKind::input;
    operands.push_back(is_input ? values[static_cast<std::size_t>(step.operands[i].index)]->data() : results.data());
    if (is_input && step.operands[i].index == 1) weight = i;
  }
  const auto run = [&](const char* schedule, bool is_constant) {
    const auto code = x86->compile(step.kernel, *parse_schedule(schedule));
    REQUIRE(code != nullptr);
    StepContext context;
    if (is_constant) context.constant_operands.add(weight);
    const auto launch = code->bind(geometry, context);
    launch->run(operands.data());
    expected = results;
    auto* const first = static_cast<float*>(operands[weight]);
    const float before = *first;
    *first = before + 100;  // as no constant would
    launch->run(operands.data());
    *first = before;
    return results == expected;
  };
  CHECK(run("pack(1)", true));
  CHECK_FALSE(run("pack(1)", false));
  CHECK_FALSE(run("default", true));
  std::string why;
  CHECK(x86->compile(step.kernel, *parse_schedule("pack(2)"), &why) == nullptr);
  CHECK(why == "x86 contraction: step pack(2): nothing of a product");
  CHECK(x86->compile(step.kernel, *parse_schedule("threads(0)"), &why) == nullptr);
  CHECK(why == "x86: step threads(0): at least one thread runs a kernel");
}
#endif
