// What outlining may take for equal blocks: with its calls replaced by their bodies again, a graph is the one it was.
#include "../checks.hpp"
#include "catch.hpp"

#include <sinter/autodiff/call.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/passes/outline.hpp>
#include <sinter/sinter.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace sinter;

namespace {

int outlined_calls(const std::string& text) {
  INFO(text);
  const Graph graph = parse_graph(text), outlined = Outline{}(graph);
  INFO(outlined.text());
  CHECK_NOTHROW(verify(outlined));
  CHECK(structurally_equal(inline_calls(outlined), graph));
  int calls = 0;
  for (const Node& node : outlined.nodes()) calls += node.op->is_call;
  return calls;
}

/// Blocks that repeat with few exceptions. Operands are made so many statements ago, or are one of the first values,
/// which all blocks share; before the first value there are inputs, those of sums with another extent.
class RepeatingProgram {
 public:
  explicit RepeatingProgram(unsigned seed) : random_(seed) {
    const int period = 5 + draw(5), repeats = 3 + draw(5);
    for (int i = draw(3); i > 0; --i) add(statement(2));
    std::vector<Statement> block;
    for (int i = 0; i < period; ++i) block.push_back(statement(period + 2));
    for (int k = 0; k < repeats; ++k)
      for (const Statement& s : block) add(s);
  }
  std::string text() const {
    return "graph(%x: f32[9, 4], %w: f32[4, 4]) {\n" + text_ + "return %" + std::to_string(count_ - 1) + " }";
  }

 private:
  struct Operand {
    bool is_shared = false;
    int at = 0;
  };
  struct Statement {
    int kind = 0;
    Operand a, b;
  };
  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  Operand operand(int reach) {
    return draw(6) == 0 ? Operand{true, draw(reach)} : Operand{false, draw(3) == 0 ? 1 + draw(reach) : 1};
  }
  Statement statement(int reach) { return {draw(5), operand(reach), operand(reach)}; }
  std::string name(const Operand& operand, const char* input) const {
    const int at = operand.is_shared ? operand.at : count_ - operand.at;
    return at < 0 || at >= count_ ? input : "%" + std::to_string(at);
  }
  void add(const Statement& s) {
    const std::string a = name(s.a, "%w"), b = name(s.b, "%w"), made = "%" + std::to_string(count_);
    if (s.kind == 0)
      text_ += "%s" + std::to_string(count_) + ": f32[1, 4] = sum(" + name(s.a, "%x") + ") {axes=[0], keepdim}\n";
    text_ += made + ": f32[4, 4] = ";
    switch (s.kind) {
      case 0: text_ += "expand(%s" + std::to_string(count_) + ") {shape=[4, 4]}\n"; break;
      case 1: text_ += "matmul(" + a + ", " + b + ")\n"; break;
      case 2: text_ += "add(" + a + ", " + b + ")\n"; break;
      default: text_ += (s.kind == 3 ? "tanh(" : "exp(") + a + ")\n"; break;
    }
    ++count_;
  }

  std::mt19937 random_;
  std::string text_;
  int count_ = 0;
};

}  // namespace

TEST_CASE("outline: a first block whose operand has another extent stays outside", "[region]") {
  for (const std::string extent : {"9", "2"}) {
    const std::string type = "f32[" + extent + ", 4]";
    std::string text = "graph(%x: " + type + ", %w: f32[4, 4]) { %h0: " + type + " = tanh(%x)\n";
    for (int i = 0; i < 8; ++i) {
      const std::string from = std::to_string(i), to = std::to_string(i + 1);
      text += "%s" + to + ": f32[1, 4] = sum(%h" + from + ") {axes=[0], keepdim} %e" + to + ": f32[4, 4] = expand(%s" +
              to + ") {shape=[4, 4]} %h" + to + ": f32[4, 4] = tanh(mul(add(matmul(%w, %e" + to + "), 1), 0.5))\n";
    }
    CHECK(outlined_calls(text + "return %h8 }") >= 6);
  }
}

TEST_CASE("outline: what all blocks take from the first is not each block's own", "[region]") {
  std::string text = "graph(%x: f32[4, 4], %w: f32[4, 4]) { %h0: f32[4, 4] = tanh(%x)\n";
  for (int i = 0; i < 8; ++i) {
    const std::string from = std::to_string(i), to = std::to_string(i + 1);
    text += "%m" + from + ": f32[4, 4] = matmul(%h" + from + ", %w) %h" + to + ": f32[4, 4] = tanh(exp(mul(add(pow(%m" +
            from + ", %m0), 1), 0.5)))\n";
  }
  CHECK(outlined_calls(text + "return %h8 }") >= 6);
}

TEST_CASE("outline: calls of what was found are the graph again", "[region]") {
  int with_calls = 0;
  for (unsigned seed = 0; seed < 400; ++seed) with_calls += outlined_calls(RepeatingProgram(seed).text()) > 0;
  CHECK(with_calls > 100);
}

TEST_CASE("regions: elements are compared with their maximum by the body that computes both", "[region]") {
  const Graph body = parse_graph(
      "graph(%x: f64[8, 3]) { %y: f64[8, 3] = tanh(%x) %h: f64[8, 3] = add(mul(%y, %y), 0.25) "
      "%m: f64[1, 3] = amax(%h) {axes=[0], keepdim} return sin(sub(%h, %m)) }");
  const std::uint8_t all[] = {1};
  const CallDerivative halves = differentiate_call_body(body, all, all);
  const auto comparisons = [](const Graph& graph) {
    int count = 0;
    for (const Node& node : graph.nodes())
      count += node.op->name == "eq" && is_floating(graph.type(node.inputs[0]).dtype);
    return count;
  };
  // The gradient of the maximum goes to the elements that equal it. In the gradient's body, y * y is rounded by itself.
  CHECK(comparisons(*halves.forward) == 2);  // with the maximum, and of their count with 0
  CHECK(comparisons(*halves.backward) == 0);
}

TEST_CASE("outline: three equal blocks of one product each", "[region]") {
  struct Layer {
    Tensor w, b;
  };
  std::vector<Layer> layers;
  for (int i = 0; i < 3; ++i) layers.push_back({randn({16, 16}) * 0.1f, randn({16})});
  const Tensor x = randn({8, 16});
  const auto found = [&](auto layer, std::int64_t calls) {
    const auto body = [=](Tensor y, const std::vector<Layer>& of) {
      for (const Layer& l : of) y = layer(y, l);
      return y;
    };
    auto f = jit::compile(body);
    const std::vector<float> got = floats(f(x, layers)), want = floats(body(x, layers));
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-5));
    CHECK(floats(f(x, layers)) == got);
    CHECK(f.stats().region_calls == calls);
    CHECK(f.stats().regions == (calls > 0 ? 1 : 0));
    CHECK(f.stats().kernels == 3);  // as many as without regions
    auto g = jit::compile([=](Tensor y, const std::vector<Layer>& of) {
      return jit::grad([&](Tensor z) { return sum(square(body(z, of))); })(y);
    });
    const std::vector<float> slope = floats(g(x, layers));
    const float step = 1e-2f;
    const auto loss = [&](float by) { return item<float>(sum(square(body(x + full({8, 16}, by), layers)))); };
    double total = 0;
    for (float s : slope) total += static_cast<double>(s);
    CHECK(total == Approx((loss(step) - loss(-step)) / (2 * step)).epsilon(0.03).margin(0.05));
  };
  found([](Tensor y, const Layer& l) { return Tensor(tanh(matmul(y, l.w) + l.b)); }, 3);
  found([](Tensor y, const Layer& l) { return Tensor(relu(matmul(y, l.w))); },
        3);  // one leaf of each pair is not used
  found([](Tensor y, const Layer& l) { return Tensor(y + gelu(matmul(y, l.w) + l.b)); }, 3);
  found([](Tensor y, const Layer& l) { return matmul(y, l.w); }, 0);  // nothing to share
  auto products = jit::compile([](Tensor y, const std::vector<Layer>& of) {
    for (int i = 0; i < 12; ++i) y = matmul(y, of[static_cast<std::size_t>(i % 3)].w);
    return y;
  });
  products(x, layers);
  CHECK(products.stats().regions == 0);
}
