// aot_function, partitions, registered back ends under a gradient, and gradients of compiled functions.
#include "compiled_gradient_cases.hpp"

#include <sinter/graphs.hpp>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

using namespace sinter;
using namespace sinter_test::gradient_cases;

namespace {

/// A compiler that notes what it was given.
struct Noted {
  std::vector<std::string> graphs;
  std::vector<std::size_t> examples;
  int runs = 0;
  jit::BackendFunction function() {
    return [this](const Graph& graph, std::span<const Tensor> given) -> jit::GraphFunction {
      graphs.push_back(graph.text());
      examples.push_back(given.size());
      CHECK(given.size() == graph.inputs().size());
      return [this, run = jit::compile_graph(graph)](std::span<const Tensor> inputs) {
        ++runs;
        return run(inputs);
      };
    };
  }
};

}  // namespace

TEST_CASE("aot_function: compilers for both graphs") {
  const Batch batch;
  Net reference, net;
  jit::requires_grad(reference);
  jit::requires_grad(net);
  loss_of(reference, batch.x, batch.y).backward();
  const auto expected = grads_of(reference);
  Noted forward, backward;
  auto f = jit::aot_function(loss_of, {.forward = forward.function(), .backward = backward.function()});
  for (int i = 1; i < 4; ++i) {
    jit::zero_grad(net);
    Tensor loss = f(net, batch.x, batch.y);
    CHECK(item<float>(loss) == Approx(item<float>(loss_of(reference, batch.x, batch.y))));
    CHECK(backward.graphs.size() == (i == 1 ? 0U : 1U));  // made when it is first asked for
    loss.backward();
    CHECK(near_all(grads_of(net), expected, 2e-6));
    CHECK(forward.runs == i);
    CHECK(backward.runs == i);
  }
  CHECK(forward.graphs.size() == 1);
  CHECK(backward.graphs.size() == 1);
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().eager_calls == 0);
  {
    jit::NoGradGuard no_grad;  // the graph without what is saved
    CHECK(item<float>(f(net, batch.x, batch.y)) == Approx(item<float>(loss_of(reference, batch.x, batch.y))));
  }
  CHECK(forward.graphs.size() == 2);
  CHECK(forward.graphs[0] != forward.graphs[1]);
}

TEST_CASE("aot_function: one of the graphs alone, lazy losses, several results, sizes") {
  Variable w(vec({2, 3}), "w");
  w.requires_grad();
  Noted noted;
  auto body = [&](Tensor x) { return std::pair(Tensor(tanh(w * x)), Tensor(sum(x))); };
  auto half = jit::aot_function(body, {.backward = noted.function()});
  auto other = jit::aot_function(body, {.forward = noted.function(), .options = {.dynamic = jit::Dynamic::always}});
  for (int i = 0; i < 2; ++i)
    for (float scale : {0.25f, 0.5f}) {
      w.zero_grad();
      sum(half(vec({scale, 1})).first * 3).backward();
      const auto found = doubles(w.grad());
      CHECK(near_relative(
          found, {3 * scale * (1 - std::pow(std::tanh(2.0 * scale), 2)), 3 * (1 - std::pow(std::tanh(3.0), 2))}, 2e-6));
      w.zero_grad();
      sum(other(vec({scale, 1})).first * 3).backward();
      CHECK(near_relative(doubles(w.grad()), found, 1e-6));
    }
  CHECK(noted.graphs.size() == 2);
  auto sized = jit::aot_function(
      [](const Variable& v, Tensor x) { return sum(v * v * sum(x)); },
      {.forward = noted.function(), .backward = noted.function(), .options = {.dynamic = jit::Dynamic::always}});
  for (int n : {2, 4, 3}) {
    w.zero_grad();
    sized(w, ones({n})).backward();
    CHECK(floats(w.grad()) == std::vector<float>{4.f * static_cast<float>(n), 6.f * static_cast<float>(n)});
  }
  CHECK(noted.graphs.size() == 4);
  // Second derivatives go through the graphs.
  w.zero_grad();
  sized(w, ones({2})).backward({.creates_graph = true});
  Tensor slope = sum(w.grad());
  w.zero_grad();
  slope.backward();
  CHECK(floats(w.grad()) == std::vector<float>{4, 4});
}

TEST_CASE("aot_function: its compilers come before the back end of the options, and serve gradients") {
  static Noted registered;
  jit::register_backend("noted_beside_aot", registered.function());
  Noted forward, backward;
  Variable w(vec({2, 3}), "w");
  w.requires_grad();
  auto body = [&](Tensor x) { return sum(w * w * x); };
  for (const bool is_forward : {true, false}) {
    registered.graphs.clear();
    auto f =
        is_forward
            ? jit::aot_function(body, {.forward = forward.function(), .options = {.backend = "noted_beside_aot"}})
            : jit::aot_function(body, {.backward = backward.function(), .options = {.backend = "noted_beside_aot"}});
    w.zero_grad();
    f(vec({1, 2})).backward();
    CHECK(floats(w.grad()) == std::vector<float>{4, 12});
    CHECK(forward.graphs.size() == 1);
    CHECK(backward.graphs.size() == (is_forward ? 0U : 1U));
    CHECK(registered.graphs.size() == 1);  // the other half
  }
  auto cubes = jit::aot_function([](Tensor x) { return sum(x * x * x); }, {.forward = forward.function()});
  CHECK(floats(jit::grad(cubes)(vec({1, 2}))) == std::vector<float>{3, 12});
  CHECK(forward.graphs.size() == 2);
  auto reads = jit::aot_function([](Tensor x) { return item(sum(x)) > 0 ? Tensor(x * 2) : x; },
                                 {.forward = forward.function(), .options = {.backend = "noted_beside_aot"}});
  CHECK(has(message_of<TraceError>([&] { reads(vec({1, 1})); }), "AotOptions::forward takes whole graphs"));
}

TEST_CASE("aot_function: what is refused") {
  Variable w(vec({2, 3}), "w");
  w.requires_grad();
  const jit::BackendFunction empty = [](const Graph&, std::span<const Tensor>) { return jit::GraphFunction(); };
  auto body = [&](Tensor x) { return sum(w * x); };
  CHECK(has(message_of<UserError>([&] { jit::aot_function(body, {.forward = empty})(vec({1, 1})); }),
            "AotOptions::forward returned an empty function"));
  auto no_backward = jit::aot_function(body, {.backward = empty});
  Tensor loss = no_backward(vec({1, 1}));
  CHECK(has(message_of<UserError>([&] { loss.backward(); }), "empty function for the backward graph"));
  auto wrong = jit::aot_function(body, {.backward = [](const Graph&, std::span<const Tensor>) -> jit::GraphFunction {
                                   return [](std::span<const Tensor>) { return std::vector<Tensor>{ones({5})}; };
                                 }});
  Tensor value = wrong(vec({1, 1}));
  CHECK(has(message_of<UserError>([&] { value.backward(); }), "the back end gave f32[5] for output 0"));
  CHECK(floats(w.grad()) == std::vector<float>{0, 0});
  auto thrower = jit::aot_function(body, {.backward = [](const Graph&, std::span<const Tensor>) -> jit::GraphFunction {
                                     throw std::runtime_error("not this graph");
                                   }});
  Tensor refused = thrower(vec({1, 1}));
  CHECK_THROWS_AS(refused.backward(), std::runtime_error);
  CHECK(has(message_of<UserError>(
                [&] { jit::aot_function(body, {.forward = empty, .options = {.mode = jit::Mode::reduce_overhead}}); }),
            "contradicts AotOptions::forward"));
  Noted noted;
  auto reads = jit::aot_function([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(sum(w * x)) : Tensor(sum(w)); },
                                 {.forward = noted.function()});
  CHECK(has(message_of<TraceError>([&] { reads(vec({1, 1})); }), "AotOptions::forward takes whole graphs"));
  auto compiled = jit::aot_function([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(sum(w * x)) : Tensor(sum(w)); },
                                    {.backward = noted.function()});  // a backward graph for each path
  w.zero_grad();
  compiled(vec({1, 1})).backward();
  compiled(vec({-1, 0})).backward();
  compiled(vec({2, 2})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{4, 4});
  CHECK(noted.graphs.size() == 2);
}

TEST_CASE("partition: what is saved and what is computed again") {
  const Batch batch;
  Net net;
  auto f = jit::compile(loss_of);
  CHECK(has(message_of<UserError>([&] { f.partition(net, batch.x, batch.y); }), "no gradient is wanted"));
  jit::requires_grad(net);
  const jit::Partition p = f.partition(net, batch.x, batch.y);
  CHECK(p.results == 1);
  CHECK(p.given == std::vector<std::size_t>{0});
  CHECK(p.gradients.size() == 4);
  CHECK(p.backward.outputs().size() == 4);
  CHECK(p.backward.inputs().size() == p.operands.size() + p.saved.size() + p.given.size());
  REQUIRE(!p.saved.empty());
  std::int64_t bytes = 0;
  for (const jit::Partition::Saved& value : p.saved) {
    CHECK(value.type.text() == p.forward.type(p.forward.outputs()[value.output]).text());
    bytes += value.output >= p.results ? value.bytes : 0;
  }
  CHECK(p.saved_bytes() == bytes);
  CHECK(f.stats().saved_bytes == bytes);
  CHECK(f.stats().backward_bytes == 0);
  f(net, batch.x, batch.y).backward();
  CHECK(f.stats().backward_bytes > 0);
  CHECK(has(p.text(), "saved: f32[5, 8]"));
  CHECK(has(f.explain(net, batch.x, batch.y).text(), std::to_string(bytes) + " bytes beside its results"));
  // The two halves give what the function and its gradient give.
  std::vector<Tensor> inputs{net.first.w, net.first.b, net.second.w, net.second.b, batch.x, batch.y};
  const std::vector<Tensor> made = jit::compile_graph(p.forward)(inputs);
  std::vector<Tensor> given;
  for (std::size_t i : p.operands) given.push_back(inputs[i]);
  for (const jit::Partition::Saved& value : p.saved) given.push_back(made[value.output]);
  given.push_back(full({}, 1));
  const std::vector<Tensor> gradients = jit::compile_graph(p.backward)(given);
  jit::zero_grad(net);
  loss_of(net, batch.x, batch.y).backward();
  const auto expected = grads_of(net);
  for (std::size_t i = 0; i < 4; ++i) CHECK(near_relative(doubles(gradients[i]), expected[p.gradients[i]], 2e-6));
  // Cheap elementwise work is done again rather than kept.
  Variable w(ones({1000}));
  w.requires_grad();
  auto cheap = jit::compile([&](Tensor x) { return sum(square(w * x + 1)); });
  const jit::Partition again = cheap.partition(ones({1000}));
  CHECK(again.saved_bytes() == 0);
  CHECK(!again.repeated.empty());
  CHECK(has(again.text(), "computed again: f32[1000]"));
  auto reads = jit::compile([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(sum(w * x)) : Tensor(sum(w)); });
  CHECK(has(message_of<UserError>([&] { reads.partition(ones({1000})); }), "each path through it has a partition"));
}

TEST_CASE("registered back ends: forward and backward under a gradient") {
  static Noted noted;
  jit::register_backend("noted_gradient", noted.function());
  Variable w(vec({2, 3}), "w"), count(full({}, 0));
  w.requires_grad();
  auto f = jit::compile(
      [&](Tensor x) {
        count.set(count + 1);
        return std::tuple(Tensor(sum(w * w * x)), argmax(x), Tensor(w * x));
      },
      {.backend = "noted_gradient"});
  for (int i = 1; i < 4; ++i) {
    w.zero_grad();
    auto [loss, largest, scaled] = f(vec({1, 2}));
    w -= 1;
    (loss + sum(scaled)).backward();
    w += 1;
    CHECK(floats(w.grad()) == std::vector<float>{5, 14});
    CHECK(item<std::int64_t>(largest) == 1);
    CHECK(item<float>(count) == static_cast<float>(i));
  }
  CHECK(f.stats().eager_calls == 0);
  CHECK(noted.graphs.size() == 2);
  std::vector<float> memory(1), scaled(2);
  std::vector<std::int64_t> largest(1);
  f.into(borrow_mut(memory.data(), {}), borrow_mut(largest.data(), {}), borrow_mut(scaled.data(), {2}))(vec({1, 2}));
  CHECK(memory[0] == 22);
  CHECK(scaled == std::vector<float>{2, 6});
}

TEST_CASE("grad of a compiled function: compiled once, kept with the function") {
  int traces = 0;
  auto f = jit::compile([&](Tensor x) {
    ++traces;
    return sum(x * x * x);
  });
  CHECK(item<float>(f(vec({1, 2}))) == 9);
  CHECK(traces == 1);
  for (int i = 0; i < 6; ++i) {
    CHECK(floats(jit::grad(f)(vec({1, 2}))) == std::vector<float>{3, 12});
    auto [value, gradient] = jit::value_and_grad(f)(vec({1, 2}));
    CHECK(item<float>(value) == 9);
    CHECK(floats(gradient) == std::vector<float>{3, 12});
  }
  // One trace to compile and those of the purity check (calls 2, 4, 8): grad and value_and_grad are one function.
  CHECK(traces <= 1 + 1 + 4);
  const int before = traces;
  CHECK(item<float>(f(vec({1, 2}))) == 9);
  CHECK(f.stats().compiles == 1);
  CHECK(traces <= before + 1);
  CHECK(floats(jit::grad(f)(vec({1, 2, 3}))) == std::vector<float>{3, 12, 27});  // guards are checked
  CHECK(floats(jit::compile(jit::grad(f))(vec({1, 2}))) == std::vector<float>{3, 12});
  CHECK(floats(jit::grad([&](Tensor x) { return sum(jit::grad(f)(x)); })(vec({1, 2}))) == std::vector<float>{6, 12});
  CHECK(has(message_of<ShapeError>([&] {
              auto twice = jit::compile([](Tensor x) { return x * 2; });
              jit::grad(twice)(vec({1, 2}));
            }),
            "grad: the function returned f32[2]"));
  f.reset();
  CHECK(floats(jit::grad(f)(vec({1, 2}))) == std::vector<float>{3, 12});
}

TEST_CASE("grad of a compiled function: parameters of listed kinds, equal in bits to the compiled gradient") {
  const Batch batch;
  Net net;
  auto f = jit::compile(loss_of);
  auto whole = jit::compile([](const Net& n, Tensor x, Tensor y) {
    auto [loss, grads] = jit::value_and_grad(loss_of)(n, x, y);
    std::vector<Tensor> listed;
    for (const Variable& v : n.parameters()) listed.push_back(grads[v]);
    return std::pair(loss, listed);
  });
  for (int i = 0; i < 3; ++i) {
    auto [loss, grads] = jit::value_and_grad(f)(net, batch.x, batch.y);
    auto [expected_loss, expected] = whole(net, batch.x, batch.y);
    CHECK(floats(loss) == floats(expected_loss));
    for (std::size_t k = 0; k < expected.size(); ++k) CHECK(floats(grads[net.parameters()[k]]) == floats(expected[k]));
    for (const Variable& v : net.parameters()) v -= 0.1 * grads[v];
  }
  auto several = jit::compile([](Tensor x, Scalar s, Tensor y) { return std::pair(Tensor(sum(x * s * y)), x + y); });
  const auto [value, by] = jit::value_and_grad<0, 2>(several)(vec({1, 2}), 3.0, vec({4, 5}));
  CHECK(item<float>(value.first) == 42);
  CHECK(floats(value.second) == std::vector<float>{5, 7});
  CHECK(floats(std::get<0>(by)) == std::vector<float>{12, 15});
  CHECK(floats(std::get<1>(by)) == std::vector<float>{3, 6});
  CHECK(item<float>(jit::grad<1>(several)(vec({1, 2}), 3.0, vec({4, 5}))) == 14);
  auto list = jit::grad(several, {2, 0})(vec({1, 2}), 3.0, vec({4, 5}));
  CHECK(floats(list[0]) == std::vector<float>{3, 6});
  CHECK(floats(list[1]) == std::vector<float>{12, 15});
  auto reads = jit::compile([](Tensor x) { return item(sum(x)) > 3 ? Tensor(sum(x * x)) : Tensor(sum(x)); });
  for (int i = 0; i < 2; ++i) {
    CHECK(floats(jit::grad(reads)(vec({4, 1}))) == std::vector<float>{8, 2});
    CHECK(floats(jit::grad(reads)(vec({1, 1}))) == std::vector<float>{1, 1});
  }
  // On the tape, and of a function that assigns.
  Variable w(vec({2, 3})), seen(vec({0, 0}));
  w.requires_grad();
  auto assigns = jit::compile([&](Tensor x) {
    seen.set(seen + x);
    return sum(x * x * x);
  });
  sum(jit::grad(assigns)(w * 1)).backward();
  CHECK(floats(w.grad()) == std::vector<float>{12, 18});
  CHECK(floats(seen) == std::vector<float>{2, 3});
}
