// Fuzzing of the text form: mutated texts either parse or throw a UserError, and what parses is a valid graph that
// prints, parses back and goes through the pipeline.
#include "../catch.hpp"
#include "fuzz_loop.hpp"

#include <sinter/graph/hash.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/pending_node.hpp>  // the definitions that TensorImpl is completed by
#include <sinter/graph/verify.hpp>
#include <sinter/passes/pipeline.hpp>

#include <cstdio>
#include <random>
#include <string>

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::string_view texts[] = {
    "graph(%0: f32[4, s0], %1: f32[4]) {\n  %2: f32[4, s0] = exp(%0)\n  %3: f32[4] = sum(%2) {axes=[1]}\n  return "
    "%3\n}\n",
    "graph(%x: f32[2, 3, 4]) { symbol s1 {hint=3, min=2, max=9} return permute(permute(%x) {axes=[1, 2, 0]}) {axes=[2, "
    "0, 1]} }",
    "graph(%x: f64[4*s0 - floordiv(s1, 2) + 1], %y: bool[]) { return where(%y, mul(%x, 2.5), neg(%x)), cast(%x) "
    "{dtype=i64} }",
    "graph(%x: i32[6, 6]) { return slice(slice(%x) {shape=[0, 1], limits=[6, 5], steps=[1, 2]}) {shape=[1, 0], "
    "limits=[4, 2], steps=[1, 1]}, add(%x, 3) }",
    "graph(%x: f32[8, 3], %w: f32[3, 5], %t: i64[8]) { %h = relu(matmul(%x, %w)); return cross_entropy(%h, %t), "
    "softmax(%h) {axes=[1]} }",
    "graph(%x: f32[4, 10], %g: f32[10]) { return layer_norm(%x, %g, %g) {axes=[1], value=1e-5}, amax(%x) {axes=[0], "
    "keepdim} }",
    "graph(%x: f32[2, 3, 8, 8], %w: f32[4, 3, 3, 3]) { return conv2d(%x, %w) {steps=[1, 1, 1, 1]}, max_pool2d(%x) "
    "{steps=[2, 2, 2, 2]} }",
    "graph(%x: f32[5, 4], %i: i64[3]) { return take(%x, %i) {axes=[0]}, concat(%x, %x) {axes=[1]}, pad(%x) {shape=[1, "
    "0], limits=[0, 2]} }",
    "graph(%k: i64[], %n: i64[]) { return random_uniform(%k, %n) {shape=[3, 4], dtype=f32}, random_normal(%k, %n) "
    "{shape=[6], dtype=f64} }",
    "graph(%x: f32[3]) { %c: f32[3] = constant {data=[1, -2.5, nan]}; %u = update_slice(%x, %c) {shape=[0], "
    "steps=[1]}; return reshape(%u) {shape=[3, 1]}, pow(%c, 2) }",
    "graph(%i: i64[7]) { return one_hot(%i) {shape=[5], dtype=f32}, scatter_add(%i, cast(%i) {dtype=f32}) {shape=[9], "
    "axes=[0]}, argmax(%i) {axes=[0]} }",
    "graph(%x: f32[9]) { return windows(%x) {axes=[0], steps=[3, 2]}, iota {shape=[4, 3], axes=[1], dtype=i64}, "
    "expand(%x) {shape=[2, 9]}, mean(%x) {axes=[0]} }",
};

constexpr std::string_view words[] = {
    "graph",
    "return",
    "%x",
    "%0",
    "%1",
    "f32",
    "i64",
    "bool",
    "f64",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    "=",
    ":",
    ";",
    "-",
    "*",
    "+",
    ".",
    "\"",
    "#",
    "s0",
    "s1",
    "s4095",
    "floordiv(",
    "mod(",
    "axes=[0]",
    "axes=[-1]",
    "axes=[7]",
    "shape=[2, 3]",
    "shape=[s0]",
    "limits=[1]",
    "steps=[0]",
    "steps=[-1, 2]",
    "value=nan",
    "integer=-1",
    "dtype=bool",
    "keepdim",
    "text=\"t\"",
    "data=[1, 2]",
    "0",
    "1",
    "-1",
    "2",
    "8",
    "281474976710656",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "-0",
    "1e400",
    "inf",
    "nan",
    "add",
    "sum",
    "reshape",
    "matmul",
    "slice",
    "constant",
    "full",
    "input",
    "where",
    "concat",
    "symbol s0 {min=0}",
    "graph() { return }",
};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string text() {
    std::string text(texts[below(std::size(texts))]);
    const std::size_t steps = 1 + below(below(6) + 1);
    for (std::size_t i = 0; i < steps; ++i) mutate(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  /// A stretch of the text: one character, a few, or a word.
  std::pair<std::size_t, std::size_t> stretch(const std::string& text) {
    const std::size_t begin = below(text.size() + 1);
    return {begin, std::min(text.size() - begin, below(2) ? below(3) : below(20))};
  }
  void mutate(std::string& text) {
    const auto [begin, size] = stretch(text);
    switch (below(8)) {
      case 0: text.erase(begin, size); break;
      case 1: text.insert(begin, words[below(std::size(words))]); break;
      case 2: text.replace(begin, size, words[below(std::size(words))]); break;
      case 3: {
        const auto [from, count] = stretch(text);
        text.insert(begin, text.substr(from, count));
        break;
      }
      case 4:
        if (begin < text.size()) text[begin] = static_cast<char>(below(256));
        break;
      default: {  // another digit: what most often still parses
        const std::size_t digit = text.find_first_of("0123456789", begin);
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + below(10));
        break;
      }
    }
  }

  std::mt19937_64 random_;
};

/// True when the text parsed. Anything but success or a UserError escapes.
bool survives(const std::string& text) {
  Graph graph;
  try {
    graph = parse_graph(text);
  } catch (const UserError&) { return false; }
  verify(graph);
  const Graph again = parse_graph(graph.text());
  if (!structurally_equal(graph, again)) throw std::runtime_error("prints as another graph:\n" + graph.text());
  PipelineOptions options;
  options.checks = true;
  run_pipeline(graph, options);
  return true;
}

/// Whether it parsed; fails the test with the seed.
bool run_seed(std::uint64_t seed) {
  const std::string text = Mutator(seed).text();
  try {
    return survives(text);
  } catch (const std::exception& error) { FAIL("SINTER_FUZZ_SEED=" << seed << "\n" << text << "\n" << error.what()); }
  return false;
}

/// One node of each op that has attributes.
constexpr std::string_view nodes[] = {
    "softmax(%x) {axes=[1]}",
    "log_softmax(%x) {axes=[0]}",
    "logsumexp(%x) {axes=[1]}",
    "layer_norm(%x, %v, %v) {axes=[1], value=1e-5}",
    "mean(%x) {axes=[0]}",
    "var(%x) {axes=[1]}",
    "any(%b) {axes=[0]}",
    "all(%b) {axes=[1]}",
    "argmax(%x) {axes=[1]}",
    "argmin(%x) {axes=[0]}",
    "sum(%x) {axes=[0, 1]}",
    "prod(%x) {axes=[1]}",
    "amax(%x) {axes=[1], keepdim}",
    "amin(%x) {axes=[0]}",
    "extent(%x) {shape=[3]}",
    "element_count(%x) {axes=[0], dtype=f32}",
    "cast(%x) {dtype=i32}",
    "reshape(%x) {shape=[4, 3]}",
    "permute(%x) {axes=[1, 0]}",
    "expand(%v) {shape=[3, 4]}",
    "slice(%x) {shape=[0, 1], limits=[2, 4], steps=[1, 2]}",
    "windows(%x) {axes=[1], steps=[2, 1]}",
    "update_slice(%x, %x) {shape=[0, 0], steps=[1, 1]}",
    "pad(%x) {shape=[1, 0], limits=[0, 2]}",
    "concat(%x, %x) {axes=[1]}",
    "take(%x, %i) {axes=[0]}",
    "scatter_add(%i, %x) {shape=[9, 4], axes=[0]}",
    "one_hot(%i) {shape=[5], dtype=f32}",
    "full {shape=[3], value=2, dtype=f32}",
    "iota {shape=[4, 3], axes=[1], dtype=i64}",
    "empty {shape=[3], dtype=f32}",
    "random_bits(%n, %n) {shape=[3], integer=0}",
    "random_uniform(%n, %n) {shape=[3, 4], dtype=f32}",
    "random_normal(%n, %n) {shape=[6], dtype=f64}",
    "conv2d(%p, %w) {steps=[1, 1, 1, 1]}",
    "max_pool2d(%p) {steps=[2, 2, 2, 2]}",
    "avg_pool2d(%p) {steps=[3, 2, 1, 2]}",
    "scaled_dot_product_attention(%q, %q, %q) {value=0.5}",
    "cross_entropy(%x, %i)",
    "mse_loss(%x, %v)",
    "matmul(%x, %y)",
    "add(%x, %v)",
    "where(%b, %x, %v)",
    "to(%x) {device=cpu}",
    "region(%v) {text=\"b\"} graph(%0: f32[4]) { return exp(%0) }",
    "switch(%n, %v) {text=\"b\"} graph(%0: f32[4]) { return exp(%0) } graph(%0: f32[4]) { return neg(%0) }",
    "while_loop(%v, %v) {integer=1} graph(%0: f32[4], %1: f32[4]) { return lt(sum(%0) {axes=[0]}, 3) } graph(%0: "
    "f32[4], %1: f32[4]) { return add(%0, %1), lt(sum(%0) {axes=[0]}, 3) }",
    "scan(%v, %x) {axes=[0], shape=[3], steps=[1, 1, 0]} graph(%0: f32[4], %1: f32[4]) { return add(%0, %1), exp(%1) }",
};
constexpr std::string_view wrong_attributes[] = {
    "axes=[]",
    "axes=[0]",
    "axes=[1]",
    "axes=[-1]",
    "axes=[-2]",
    "axes=[7]",
    "axes=[0, 0]",
    "axes=[1, 3]",
    "axes=[1, 0]",
    "axes=[0, 1, 2, 3, 0]",
    "axes=[9223372036854775807]",
    "axes=[-9223372036854775808]",
    "shape=[]",
    "shape=[0]",
    "shape=[-1]",
    "shape=[12]",
    "shape=[s0]",
    "shape=[floordiv(s0, 3)]",
    "shape=[2, 6]",
    "shape=[0, 0]",
    "shape=[1, 1]",
    "shape=[-1, 4]",
    "shape=[1, 2, 3, 4, 5]",
    "shape=[281474976710656, 4]",
    "limits=[]",
    "limits=[1]",
    "limits=[0, 0]",
    "limits=[-1, -1]",
    "limits=[3, 4]",
    "limits=[9, 9]",
    "steps=[]",
    "steps=[1]",
    "steps=[0, 0]",
    "steps=[1, 1]",
    "steps=[2, 2]",
    "steps=[-1, 1]",
    "steps=[1, 1, 1, 1]",
    "steps=[0, 1, 1, 1]",
    "steps=[1, 1, 0, 0]",
    "steps=[2, 2, -1, 0]",
    "steps=[9, 9, 9, 9]",
    "steps=[281474976710656, 1]",
    "steps=[1, 1, 281474976710656, 1]",
    "value=nan",
    "value=-1",
    "value=inf",
    "integer=-1",
    "integer=9223372036854775807",
    "dtype=bool",
    "dtype=i64",
    "dtype=f64",
    "dtype=f32",
    "keepdim",
    "text=\"t\"",
};
/// The node with one attribute replaced, or added.
std::string with_attribute(std::string_view node, std::string_view attribute) {
  std::string text(node);
  const std::string_view field = attribute.substr(0, attribute.find('='));
  const std::size_t open = text.find('{');
  if (open == std::string::npos) return text + " {" + std::string(attribute) + "}";
  if (const std::size_t at = text.find(std::string(field) + "=", open); at != std::string::npos) {
    const std::size_t list = text.find('[', at), comma = text.find_first_of(",}", at);
    const std::size_t end = list < comma ? text.find(']', list) + 1 : comma;
    return text.replace(at, end - at, attribute);
  }
  return text.insert(open + 1, std::string(attribute) + ", ");
}

}  // namespace

TEST_CASE("every attribute of every op is refused where it stands or understood by the passes", "[graph]") {
  int refused = 0, understood = 0;
  for (std::string_view node : nodes) {
    const auto in_graph = [&](const std::string& made) {
      return "graph(%x: f32[3, 4], %y: f32[4, 2], %v: f32[4], %b: bool[3, 4], %i: i64[3], %n: i64[], %p: f32[1, 2, 5, "
             "5], %w: f32[3, 2, 2, 2], %q: f32[2, 3, 4], %s: f32[s0]) { return " +
             made + " }";
    };
    INFO(node);
    CHECK(survives(in_graph(std::string(node))));
    for (std::string_view attribute : wrong_attributes) {
      const std::string text = in_graph(with_attribute(node, attribute));
      try {
        (survives(text) ? understood : refused) += 1;
      } catch (const std::exception& error) { FAIL_CHECK(text << "\n" << error.what()); }
    }
  }
  CHECK(refused > 300);
  CHECK(understood > 300);
}

TEST_CASE("mutated graph texts are refused or understood", "[fuzz][graph]") {
  for (std::string_view text : texts) {
    INFO(text);
    CHECK(survives(std::string(text)));
  }
  int parsed = 0;
  const std::uint64_t made = fuzz_loop(1, [&](std::uint64_t seed) { parsed += run_seed(seed); });
  std::printf("parse fuzz: %d of %d texts parsed\n", parsed, static_cast<int>(made));
  CHECK((parsed > 0 || only_seed()));
}
