// Steps that the host runs between kernels: several results, sub-graphs, effects in order.
#include "catch.hpp"

#include <sinter/graph/parse.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/sinter.hpp>

#include <string>
#include <vector>

using namespace sinter;

namespace {

std::vector<std::string>& effect_log() {
  static std::vector<std::string> log;
  return log;
}

/// {2 * x, sum of x}, by the host.
struct DoubleAndSum {
  static constexpr OpInfo info{.name = "test_double_and_sum", .arity = 1, .kind = OpKind::structured};
  static void infer(const InferArgs& args, TypeList& out) {
    out.push_back(args.in[0]);
    out.push_back({args.in[0].dtype, args.in[0].device, {}});
  }
  static void run_on_host(HostCall& call) {
    float sum = 0;
    for (std::int64_t i = 0; i < call.in[0].numel; ++i) {
      const float x = call.in[0].as<float>()[i];
      call.out[0].as<float>()[i] = 2 * x;
      sum += x;
    }
    call.out[1].as<float>()[0] = sum;
  }
  static ValList vjp(const VjpArgs& a) {
    Val gradient = a.douts[0] ? a.douts[0] * 2 : Val{};
    if (a.douts[1]) gradient = gradient ? gradient + a.douts[1] : a.douts[1];
    return {gradient};
  }
};

/// Runs its sub-graph on x, several times.
struct Repeat {
  static constexpr OpInfo info{.name = "test_repeat", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<std::int64_t> times{"times", 0};
  static constexpr std::string_view bodies = "body";
  static constexpr auto attributes = attribute_list(times);
  static Type infer(const InferArgs& args) { return args.in[0]; }
  static void run_on_host(HostCall& call) {
    void* buffers[2] = {call.out[0].data, call.scratch(0, call.out[0].bytes())};
    void* from = call.in[0].data;
    for (std::int64_t i = call.attrs[times]; i-- > 0;) {
      void* to = buffers[i % 2];
      call.run_body(0, {&from, 1}, {&to, 1});
      from = to;
    }
  }
};

struct Note {
  static constexpr OpInfo info{.name = "test_note", .arity = 2, .kind = OpKind::effect};
  static constexpr OpAttr<std::string> text{"text", 0};
  static constexpr auto attributes = attribute_list(text);
  static void infer(const InferArgs&, TypeList& out) { out.push_back(token_type()); }
  static void run_on_host(HostCall& call) {
    effect_log().push_back(call.attrs[text] + std::to_string(static_cast<int>(*call.in[0].as<float>())));
  }
};

Tensor numbers(int count) { return arange(count).to(DType::f32); }

std::pair<Tensor, Tensor> double_and_sum(const Tensor& x) {
  std::vector<Leaf> leaves{Leaf(x.impl())};
  auto results = record_results(op_info<DoubleAndSum>, leaves, {}, {});
  return {Tensor(results[0]), Tensor(results[1])};
}

void note_value(const Tensor& x, std::string text) {
  std::vector<Leaf> leaves{Leaf(x.impl())};
  Attrs attrs;
  attrs.set(Note::text, text);
  record_effect(op_info<Note>, leaves, std::move(attrs), {});
}

Tensor repeat(const Tensor& x, std::shared_ptr<const Graph> body, int times) {
  Attrs attrs;
  attrs.set(Repeat::times, times);
  attrs.bodies.push_back(std::move(body));
  return Tensor(record_op(op_info<Repeat>, {Leaf(x.impl())}, std::move(attrs), {}));
}

}  // namespace

TEST_CASE("host steps: an op with two results, lazily and compiled, with kernels around it") {
  auto f = [](Tensor x) {
    auto [doubled, total] = double_and_sum(x + 1);
    return doubled * total;
  };
  Tensor x = numbers(4);
  const std::vector<float> expected{20, 40, 60, 80};
  CHECK(to_vector<float>(f(x)) == expected);
  auto compiled = jit::compile(f);
  CHECK(to_vector<float>(compiled(x)) == expected);
  CHECK(to_vector<float>(compiled(x)) == expected);
}

TEST_CASE("host steps: operands that are views are made dense, one unused result is no harm") {
  auto compiled = jit::compile([](Tensor x) {
    return std::tuple{double_and_sum(transpose(x, 0, 1)).first, double_and_sum(x(slice(1, 3))).second};
  });
  Tensor x = reshape(numbers(6), {3, 2});
  auto [doubled, total] = compiled(x);
  CHECK(to_vector<float>(doubled) == std::vector<float>{0, 4, 8, 2, 6, 10});
  CHECK(item<float>(total) == 14);
}

TEST_CASE("host steps: several results have gradients, together and alone") {
  auto loss = [](Tensor x) {
    auto [doubled, total] = double_and_sum(x);
    return sum(doubled * doubled) + 3 * total;
  };
  CHECK(to_vector<float>(jit::grad(loss)(numbers(3))) == std::vector<float>{3, 11, 19});
  CHECK(to_vector<float>(jit::grad([](Tensor x) { return double_and_sum(x).second; })(numbers(2))) ==
        std::vector<float>{1, 1});
  CHECK(to_vector<float>(jit::compile(jit::grad(loss))(numbers(3))) == std::vector<float>{3, 11, 19});
}

TEST_CASE("host steps: a sub-graph runs as a plan of its own, several times") {
  auto body = std::make_shared<const Graph>(
      parse_graph("graph(%0: f32[4]) { %1: f32[4] = gelu(%0) %2: f32[4] = add(%1, 1) return %2 }"));
  auto f = jit::compile([&](Tensor x) { return repeat(x * 2, body, 3) - 1; });
  Tensor x = randn({4}), expected = x * 2;
  for (int i = 0; i < 3; ++i) expected = gelu(expected) + 1;
  expected = expected - 1;
  auto got = to_vector<float>(f(x)), want = to_vector<float>(expected);
  for (std::size_t i = 0; i < 4; ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-5));
}

TEST_CASE("host steps: effects run in order, once per call, and are not removed") {
  effect_log().clear();
  auto f = jit::compile([](Tensor x) {
    note_value(sum(x), "a");
    Tensor y = x * 2;
    note_value(sum(y), "b");
    note_value(sum(x), "a");
    return y;
  });
  f(numbers(3));
  CHECK(effect_log() == std::vector<std::string>{"a3", "b6", "a3"});
  f(numbers(4));
  CHECK(effect_log() == std::vector<std::string>{"a3", "b6", "a3", "a6", "b12", "a6"});
}

TEST_CASE("host steps: effects inside grad and outside any trace") {
  effect_log().clear();
  note_value(full({}, 5), "lazy");
  CHECK(effect_log() == std::vector<std::string>{"lazy5"});
  auto f = jit::compile([](Tensor x) {
    note_value(sum(x), "before");
    Tensor g = jit::grad([](Tensor y) {
      note_value(sum(y), "inside");
      return sum(y * y);
    })(x);
    note_value(sum(g), "after");
    return g;
  });
  effect_log().clear();
  CHECK(to_vector<float>(f(numbers(3))) == std::vector<float>{0, 2, 4});
  CHECK(effect_log() == std::vector<std::string>{"before3", "inside3", "after6"});
}

TEST_CASE("host steps: effects around reads run in order, once, on every path") {
  auto f = jit::compile([](Tensor x) {
    note_value(x, "a");
    Tensor y = x * 2;
    if (item(sum(y)) > 0) {
      note_value(y, "b");
      if (item(sum(x)) > 10) note_value(x, "c");
    }
    note_value(x, "d");
    return Tensor(y + 1);
  });
  auto log_of = [&](float v) {
    effect_log().clear();
    CHECK(item<float>(f(full({}, v))) == 2 * v + 1);
    return effect_log();
  };
  for (int round = 0; round < 3; ++round) {  // a first call, one that checks the path, and one that follows it
    CHECK(log_of(1) == std::vector<std::string>{"a1", "b2", "d1"});
    CHECK(log_of(-1) == std::vector<std::string>{"a-1", "d-1"});
    CHECK(log_of(20) == std::vector<std::string>{"a20", "b40", "c20", "d20"});
  }
  CHECK(f.stats().segments == 5);
  auto bounded = jit::compile(
      [](Tensor x) {
        while (item(sum(x)) > 1) {
          note_value(x, "iteration");
          x = x - 1;
        }
        return x;
      },
      {.max_breaks = 2});
  for (int round = 0; round < 3; ++round) {
    effect_log().clear();
    CHECK(item<float>(bounded(full({}, 4.f))) == 1);
    CHECK(effect_log() == std::vector<std::string>{"iteration4", "iteration3", "iteration2"});
  }
}
