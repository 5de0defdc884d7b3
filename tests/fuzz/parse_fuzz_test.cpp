// Fuzzing of the text form: mutated texts either parse or throw a UserError, and what parses is a valid graph that prints,
// parses back and goes through the pipeline.
#include "../catch.hpp"
#include "fuzz_loop.hpp"

#include <sinter/graph/record.hpp>   // the definitions that TensorImpl is completed by
#include <sinter/passes/pipeline.hpp>

#include <cstdio>
#include <random>
#include <string>

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::string_view texts[] = {
    "graph(%0: f32[4, s0], %1: f32[4]) {\n  %2: f32[4, s0] = exp(%0)\n  %3: f32[4] = sum(%2) {axes=[1]}\n  return %3\n}\n",
    "graph(%x: f32[2, 3, 4]) { symbol s1 {hint=3, min=2, max=9} return permute(permute(%x) {axes=[1, 2, 0]}) {axes=[2, 0, 1]} }",
    "graph(%x: f64[4*s0 - floordiv(s1, 2) + 1], %y: bool[]) { return where(%y, mul(%x, 2.5), neg(%x)), cast(%x) {dtype=i64} }",
    "graph(%x: i32[6, 6]) { return slice(slice(%x) {shape=[0, 1], limits=[6, 5], steps=[1, 2]}) {shape=[1, 0], limits=[4, 2], steps=[1, 1]}, add(%x, 3) }",
    "graph(%x: f32[8, 3], %w: f32[3, 5], %t: i64[8]) { %h = relu(matmul(%x, %w)); return cross_entropy(%h, %t), softmax(%h) {axes=[1]} }",
    "graph(%x: f32[4, 10], %g: f32[10]) { return layer_norm(%x, %g, %g) {axes=[1], value=1e-5}, amax(%x) {axes=[0], keepdim} }",
    "graph(%x: f32[2, 3, 8, 8], %w: f32[4, 3, 3, 3]) { return conv2d(%x, %w) {steps=[1, 1, 1, 1]}, max_pool2d(%x) {steps=[2, 2, 2, 2]} }",
    "graph(%x: f32[5, 4], %i: i64[3]) { return take(%x, %i) {axes=[0]}, concat(%x, %x) {axes=[1]}, pad(%x) {shape=[1, 0], limits=[0, 2]} }",
    "graph(%k: i64[], %n: i64[]) { return random_uniform(%k, %n) {shape=[3, 4], dtype=f32}, random_normal(%k, %n) {shape=[6], dtype=f64} }",
    "graph(%x: f32[3]) { %c: f32[3] = constant {data=[1, -2.5, nan]}; %u = update_slice(%x, %c) {shape=[0], steps=[1]}; return reshape(%u) {shape=[3, 1]}, pow(%c, 2) }",
    "graph(%i: i64[7]) { return one_hot(%i) {shape=[5], dtype=f32}, scatter_add(%i, cast(%i) {dtype=f32}) {shape=[9], axes=[0]}, argmax(%i) {axes=[0]} }",
    "graph(%x: f32[9]) { return windows(%x) {axes=[0], steps=[3, 2]}, iota {shape=[4, 3], axes=[1], dtype=i64}, expand(%x) {shape=[2, 9]}, mean(%x) {axes=[0]} }",
};

constexpr std::string_view words[] = {
    "graph", "return", "%x", "%0", "%1", "f32", "i64", "bool", "f64", "[", "]", "(", ")", "{", "}", ",", "=", ":", ";", "-", "*", "+", ".", "\"", "#",
    "s0", "s1", "s4095", "floordiv(", "mod(", "axes=[0]", "axes=[-1]", "axes=[7]", "shape=[2, 3]", "shape=[s0]", "limits=[1]", "steps=[0]", "steps=[-1, 2]",
    "value=nan", "integer=-1", "dtype=bool", "keepdim", "text=\"t\"", "data=[1, 2]", "0", "1", "-1", "2", "8", "281474976710656", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "-0", "1e400", "inf",
    "nan", "add", "sum", "reshape", "matmul", "slice", "constant", "full", "input", "where", "concat", "symbol s0 {min=0}", "graph() { return }",
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
      default: {   // another digit: what most often still parses
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
  } catch (const UserError&) {
    return false;
  }
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
  } catch (const std::exception& error) {
    FAIL("SINTER_FUZZ_SEED=" << seed << "\n" << text << "\n" << error.what());
  }
  return false;
}

}  // namespace

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
