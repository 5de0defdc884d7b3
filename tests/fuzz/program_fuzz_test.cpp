// Differential fuzzing with random programs: graphs of up to 50 operations, some transformed (gradient, forward
// mode, vmap), some with symbolic extents, run fused and op by op on every back end of this machine (built with
// SINTER_TEST_ON_DEVICE: on the default device), and compared with the oracle. A failure shrinks itself and prints a
// program to paste.
#include "../catch.hpp"
#include "../plan_harness.hpp"
#include "fuzz_loop.hpp"
#include "random_program.hpp"

#include <sinter/jit/backends.hpp>
#include <sinter/runtime/device_split.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#endif

#include <cstdio>
#include <functional>

using namespace sinter_test;

namespace {

struct Way {
  std::string name;
  PlanOptions options;
};

#ifdef SINTER_TEST_ON_DEVICE  // tests/gpu, tests/fake: default tensors are made on a device, if there is one
std::vector<Way> ways() {
  if (default_device() == Device::cpu()) return {};
  const std::vector<Backend*> backends = jit::backends_for("", default_device());
  std::vector<Way> list{{default_device().text() + " fused", fused(backends)},
                        {default_device().text() + " op by op", op_by_op(backends)}};
  for (std::size_t i : {0, 1}) {
    list.push_back({list[i].name + " as one", list[i].options});
    list.back().options.as_one = true;
  }
  return list;
}
#else
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
#endif

/// A plan whose inputs and outputs are on the device of its back ends.
std::shared_ptr<const Plan> plan_of(const Graph& graph, const Way& way) {
  Graph prepared = run_pipeline(graph);
  const Device device = way.options.backends.front()->device();
  if (device == Device::cpu()) return build_plan(prepared, way.options);
  PlanOptions options = way.options;
  options.host_backends = {reference()};
  options.output_devices.assign(graph.outputs().size(), device);
  return build_plan(with_inputs_on(prepared, device), options);
}

double program_tolerance(DType dtype) { return dtype == DType::f32 ? 2e-3 : dtype == DType::f64 ? 1e-9 : 0; }

/// The first disagreement with the oracle, or "".
std::string disagreement(const Graph& graph, const Way& way) {
  try {
    std::vector<std::vector<std::int64_t>> symbol_values{{5}};
    if (!graph.symbols().empty()) symbol_values.push_back({18});
    auto plan = plan_of(graph, way);
    for (const auto& symbols : symbol_values) {
      auto inputs = random_inputs(graph, symbols);
      auto wanted = oracle::evaluate(graph, inputs), found = run(*plan, inputs);
      for (std::size_t j = 0; j < wanted.size(); ++j)
        if (std::string text = difference(found[j], wanted[j], program_tolerance(wanted[j].dtype));
            !text.empty() && !is_at_a_jump(graph, inputs, wanted[j], j, program_tolerance(wanted[j].dtype)))
          return "output " + std::to_string(j) + ", " + text;
    }
  } catch (const Error& error) { return error.what(); }
  return "";
}

/// `graph` with node `id` replaced by one of its operands (or with another output list).
Graph rebuilt(const Graph& graph, std::int32_t id, Value by, std::vector<Value> outputs) {
  GraphBuilder builder(graph);
  std::vector<Value> made(graph.nodes().size());
  auto now = [&](Value v) {
    return Value{made[static_cast<std::size_t>(v.node)].node, made[static_cast<std::size_t>(v.node)].result + v.result};
  };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (static_cast<std::int32_t>(i) == id) {
      made[i] = now(by);
      continue;
    }
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(now(v));
    made[i] = builder.copy(node, inputs);
  }
  for (Value& v : outputs) v = now(v);
  return Dce{}(builder.finish(outputs));
}

Graph shrink(Graph graph, const Way& way) {
  auto try_smaller = [&](const Graph& candidate) {
    if (candidate.nodes().size() >= graph.nodes().size() && candidate.outputs().size() >= graph.outputs().size())
      return false;
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
        if (!progress && identical(graph.type(operand), graph.node(id).types[0]))
          progress = try_smaller(rebuilt(graph, id, operand, {graph.outputs().begin(), graph.outputs().end()}));
  }
  return graph;
}

std::string pasteable(const Graph& graph, const Way& way) {
  return "TEST_CASE(\"shrunk program\") {   // " + way.name + "\n  Graph graph = parse_graph(R\"(" + graph.text() +
         ")\");\n  auto plan = build_plan(run_pipeline(graph), fused());\n  CHECK(first_difference(*plan, graph, "
         "random_inputs(graph, std::vector<std::int64_t>{5})) == \"\");\n}\n";
}

void check_seed(std::uint64_t seed) {
  Graph graph = ProgramGenerator(seed).generate();
  for (const Way& way : ways()) {
    std::string what = disagreement(graph, way);
    if (what.empty()) continue;
    Graph small = shrink(graph, way);
    FAIL("seed " << seed << ", " << way.name << ": " << what << "\nshrunk: " << disagreement(small, way) << "\n"
                 << pasteable(small, way));
  }
}

}  // namespace

TEST_CASE("random programs agree with the oracle on every back end") {
  if (ways().empty()) SINTER_SKIP("no GPU");
  const std::uint64_t programs = fuzz_loop(1, check_seed);
  std::printf("%llu programs agree\n", static_cast<unsigned long long>(programs));
  CHECK(programs > 0);
}

#ifndef SINTER_TEST_ON_DEVICE
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
#endif
