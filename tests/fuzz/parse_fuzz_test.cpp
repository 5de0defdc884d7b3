// Fuzzing of the text form: mutated texts either parse or throw a UserError, and what parses is a valid graph that
// prints, parses back and goes through the pipeline.
#include "../catch.hpp"
#include "fuzz_loop.hpp"

#include <sinter/graph/hash.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/pending_node.hpp>  // the definitions that TensorImpl is completed by
#include <sinter/graph/verify.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/pipeline.hpp>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

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
    "graph(%x: i32[6, 6]) { return slice(slice(%x) {starts=[0, 1], ends=[6, 5], steps=[1, 2]}) {starts=[1, 0], "
    "ends=[4, 2], steps=[1, 1]}, add(%x, 3) }",
    "graph(%x: f32[8, 3], %w: f32[3, 5], %t: i64[8]) { %h = relu(matmul(%x, %w)); return cross_entropy(%h, %t), "
    "softmax(%h) {axes=[1]} }",
    "graph(%x: f32[4, 10], %g: f32[10]) { return layer_norm(%x, %g, %g) {axes=[1], eps=1e-5}, amax(%x) {axes=[0], "
    "keepdim} }",
    "graph(%x: f32[2, 3, 8, 8], %w: f32[4, 3, 3, 3]) { return conv2d(%x, %w) {stride=[1, 1], padding=[1, 1]}, "
    "max_pool2d(%x) "
    "{window=[2, 2], stride=[2, 2]} }",
    "graph(%x: f32[5, 4], %i: i64[3]) { return take(%x, %i) {axes=[0]}, concat(%x, %x) {axes=[1]}, pad(%x) {low=[1, "
    "0], high=[0, 2]} }",
    "graph(%k: i64[], %n: i64[]) { return random_uniform(%k, %n) {shape=[3, 4], dtype=f32}, random_normal(%k, %n) "
    "{shape=[6], dtype=f64} }",
    "graph(%x: f32[3]) { %c: f32[3] = constant {data=[1, -2.5, nan]}; %u = update_slice(%x, %c) {starts=[0], "
    "steps=[1]}; return reshape(%u) {shape=[3, 1]}, pow(%c, 2) }",
    "graph(%i: i64[7]) { return one_hot(%i) {classes=5, dtype=f32}, scatter_add(%i, cast(%i) {dtype=f32}) {shape=[9], "
    "axes=[0]}, argmax(%i) {axes=[0]} }",
    "graph(%x: f32[9]) { return windows(%x) {axes=[0], sizes=[3], strides=[2]}, iota {shape=[4, 3], axes=[1], "
    "dtype=i64}, "
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
    "ends=[1]",
    "steps=[0]",
    "stride=[-1, 2]",
    "value=nan",
    "integer=-1",
    "carries=2",
    "causal=to_end",
    "dtype=bool",
    "keepdim",
    "name=\"t\"",
    "body=",
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
    "layer_norm(%x, %v, %v) {axes=[1], eps=1e-5}",
    "mean(%x) {axes=[0]}",
    "var(%x) {axes=[1]}",
    "any(%b) {axes=[0]}",
    "all(%b) {axes=[1]}",
    "argmax(%x) {axes=[1]}",
    "frexp_exponent(%x) {dtype=i32}",
    "bitcast(%x) {dtype=i32}",
    "polygamma(%x) {order=2}",
    "argmin(%x) {axes=[0]}",
    "sum(%x) {axes=[0, 1]}",
    "prod(%x) {axes=[1]}",
    "amax(%x) {axes=[1]}",
    "amin(%x) {axes=[0]}",
    "extent(%x) {extent=3}",
    "element_count(%x) {axes=[0], dtype=f32}",
    "cast(%x) {dtype=i32}",
    "narrow(%x) {dtype=bf16}",
    "reshape(%x) {shape=[4, 3]}",
    "permute(%x) {axes=[1, 0]}",
    "expand(%v) {shape=[3, 4]}",
    "slice(%x) {starts=[0, 1], ends=[2, 4], steps=[1, 2]}",
    "windows(%x) {axes=[1], sizes=[2], strides=[1]}",
    "update_slice(%x, %x) {starts=[0, 0], steps=[1, 1]}",
    "pad(%x) {low=[1, 0], high=[0, 2]}",
    "concat(%x, %x) {axes=[1]}",
    "flip(%x) {axes=[0, 1]}",
    "take(%x, %i) {axes=[0]}",
    "scatter(%x, %i, %x) {axes=[0], combine=max}",
    "scatter_add(%i, %x) {shape=[9, 4], axes=[0]}",
    "scatter(%x, %i, %x) {axes=[0], shared=0, inner=0, combine=max}",
    "cumsum(%x) {axes=[1]}",
    "cumprod(%x) {axes=[0]}",
    "cummax(%x) {axes=[1]}",
    "cummin(%x) {axes=[0]}",
    "sort(%x) {axes=[1], part=values}",
    "topk(%x) {count=2, axes=[1], part=values}",
    "order_statistic(%x) {axes=[1], rank=2, part=values}",
    "searchsorted(%v, %x)",
    "nonzero(%x) {size=3}",
    "unique(%x) {size=3}",
    "bessel(%d) {function=k0}",
    "window_max(%p) {axes=[2, 3]}",
    "window_sum(%p) {axes=[2, 3]}",
    "window_argmax(%p) {axes=[2, 3]}",
    "one_hot(%i) {classes=5, dtype=f32}",
    "full {shape=[3], value=2, dtype=f32}",
    "iota {shape=[4, 3], axes=[1], dtype=i64}",
    "empty {shape=[3], dtype=f32}",
    "random_bits(%n, %n) {shape=[3]}",
    "random_uniform(%n, %n) {shape=[3, 4], dtype=f32}",
    "random_normal(%n, %n) {shape=[6], dtype=f64}",
    "conv2d(%p, %w) {stride=[1, 1], padding=[1, 1]}",
    "convolution(%p, %w) {stride=[1, 1], dilation=[1, 1], low=[1, 1], high=[0, 1], groups=1}",
    "convolution_weight_gradient(%p, %g) {shape=[2, 2, 3, 3], stride=[1, 1], dilation=[1, 1], low=[1, 1], high=[1, 1], "
    "groups=1}",
    "convolution_gradient(%p, %p) {shape=[2, 2, 3, 3], by=weight, stride=[1, 1], dilation=[1, 1], low=[1, 1], high=[1, "
    "1], groups=1}",
    "ctc_loss(%q, %l, %i, %i) {blank=0}",
    "ctc_gradient(%q, %l, %i, %i) {blank=0}",
    "incomplete_gamma(%d, %d)",
    "gamma_sample(%d, %d)",
    "sum_windows(%y) {axes=[0], shape=[12], sizes=[2], strides=[3]}",
    "max_pool2d(%p) {window=[2, 2], stride=[2, 2]}",
    "avg_pool2d(%p) {window=[3, 2], stride=[1, 2]}",
    "scaled_dot_product_attention(%q, %q, %q) {scale=0.5}",
    "scaled_dot_product_attention_gradient(%q, %q, %q, %q, %q) {scale=0.5}",
    "cross_entropy(%x, %i)",
    "mse_loss(%x, %v)",
    "matmul(%x, %y)",
    "add(%x, %v)",
    "where(%b, %x, %v)",
    "cholesky(%p) {use=factor}",
    "fourier(%y) {axes=[0], sign=plus, scale=root}",
    "fourier_of_real(%p) {sign=plus, scale=full}",
    "fourier_to_real(%w) {sign=plus, scale=full, length=2}",
    "lu_factor(%p) {use=solve, steps=5}",
    "lu_permutation(%k) {rows=3}",
    "triangular_solve(%p, %p)",
    "qr(%p) {mode=complete, steps=5}",
    "svd(%x) {vectors=full, steps=3}",
    "eigh(%p)",
    "complex_svd(%w) {steps=2}",
    "complex_lu(%w) {use=factor, steps=2}",
    "complex_qr(%w) {steps=2}",
    "solve(%p, %p) {use=inv}",
    "small_solve(%p, %p) {use=solve}",
    "scaled_matmul_rows(%e, %e, %t, %t) {dtype=bf16}",
    "quantized_matmul(%x, %m, %h, %z) {group=2}",
    "fake_quantize(%x, %v, %v) {low=1, high=3}",
    "pinv(%x, %t, %t) {steps=3}",
    "to(%x) {device=cpu}",
    "region(%v) {name=\"b\"} graph(%0: f32[4]) { return exp(%0) }",
    "switch(%n, %v) graph(%0: f32[4]) { return exp(%0) } graph(%0: f32[4]) { return neg(%0) }",
    "while_loop(%v, %v) {carries=1} graph(%0: f32[4], %1: f32[4]) { return lt(sum(%0) {axes=[0]}, 3) } graph(%0: "
    "f32[4], %1: f32[4]) { return add(%0, %1), lt(sum(%0) {axes=[0]}, 3) }",
    "custom_derivative(%v, %v) {results=1, parameters=1, differentiated=[0]} gradient=graph(%0: f32[4], %1: f32[4], "
    "%2: f32[4]) { return %2 }",
    "scan(%v, %x) {saved=[0], length=3, carries=1, scanned=1} body=graph(%0: f32[4], %1: f32[4]) { return add(%0, %1), "
    "exp(%1) }",
};
/// Values for an attribute of one kind: those that some op takes, those that few take, and those of another kind.
std::vector<std::string_view> values_of(AttrKind kind) {
  switch (kind) {
    case AttrKind::axes:
    case AttrKind::list:
      return {"[]",
              "[0]",
              "[1]",
              "[2]",
              "[3]",
              "[-1]",
              "[-2]",
              "[7]",
              "[0, 0]",
              "[1, 1]",
              "[2, 2]",
              "[1, 3]",
              "[1, 0]",
              "[0, 1]",
              "[-1, 1]",
              "[9, 9]",
              "[0, 1, 2, 3, 0]",
              "[281474976710656, 1]",
              "[1, 281474976710656]",
              "[9223372036854775807]",
              "[-9223372036854775808]",
              "3",
              "[1.5]"};
    case AttrKind::shape:
    case AttrKind::extents:
      return {"[]",
              "[0]",
              "[-1]",
              "[12]",
              "[s0]",
              "[floordiv(s0, 3)]",
              "[2, 6]",
              "[0, 0]",
              "[1, 1]",
              "[1, 0]",
              "[3, 4]",
              "[9, 9]",
              "[2, 2, 3, 3]",
              "[-1, 4]",
              "[1, 2, 3, 4, 5]",
              "[281474976710656, 4]",
              "4"};
    case AttrKind::extent: return {"0", "1", "-1", "3", "12", "s0", "floordiv(s0, 3)", "281474976710656", "[3]"};
    case AttrKind::integer:
    case AttrKind::number:
      return {"0", "1", "2", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "1.5", "[1]"};
    case AttrKind::value:
    case AttrKind::real: return {"0", "0.5", "-0", "-1", "inf", "nan", "1e400", "\"1\""};
    case AttrKind::dtype: return {"bool", "i32", "i64", "f32", "f64", "f31", "1"};
    case AttrKind::device: return {"cpu", "tpu", "0"};
    case AttrKind::keep_dims:
    case AttrKind::flag: return {"", "=1"};
    case AttrKind::text: return {"\"t\"", "t"};
    case AttrKind::choice: return {"sideways", "0"};  // besides those that it has
    case AttrKind::data: break;
  }
  return {};
}

/// `axes=[1]` for each value that the attribute might be given.
std::vector<std::string> settings_of(const AttrInfo& info) {
  std::vector<std::string> out;
  const bool is_flag = info.kind == AttrKind::keep_dims || info.kind == AttrKind::flag;
  for (std::string_view value : values_of(info.kind))
    out.push_back(std::string(info.name) + (is_flag ? "" : "=") + std::string(value));
  for (std::int64_t i = 0; i < info.choice_count(); ++i)
    out.push_back(std::string(info.name) + "=" + std::string(info.choice_name(i)));
  return out;
}

/// The node with one attribute replaced, or added.
std::string with_attribute(std::string_view node, std::string_view name, const std::string& setting) {
  std::string text(node);
  const std::size_t close = text.find(')'), open = text.find('{'), body = text.find("graph(");
  if (open == std::string::npos || open > body)
    return text.insert(close == std::string::npos ? text.size() : close + 1, " {" + setting + "}");
  for (std::string_view before : {"{", " "}) {
    const std::size_t at = text.find(std::string(before) + std::string(name) + "=", open);
    if (at >= body) continue;
    const std::size_t list = text.find('[', at), comma = text.find_first_of(",}", at), from = at + before.size();
    const std::size_t end = list < comma ? text.find(']', list) + 1 : comma;
    return text.replace(from, end - from, setting);
  }
  return text.insert(open + 1, setting + ", ");
}

std::string in_graph(const std::string& made) {
  return "graph(%x: f32[3, 4], %y: f32[4, 2], %v: f32[4], %b: bool[3, 4], %i: i64[3], %n: i64[], %p: f32[1, 2, 5, 5], "
         "%w: f32[3, 2, 2, 2], %q: f32[2, 3, 4], %s: f32[s0], %k: i32[3], %t: f32[], %d: f64[3], "
         "%g: f32[2, 1, 5, 5], %l: i64[3, 2], %m: i8[2, 4], %h: f32[2, 2], "
         "%z: i8[2, 2], %e: f8e4m3[3, 4]) { return " +
         made + " }";
}

const OpInfo& op_of(std::string_view node) {
  const OpInfo* op = find_op(node.substr(0, node.find_first_of("( ")));
  REQUIRE(op != nullptr);
  return *op;
}

}  // namespace

TEST_CASE("every attribute of every op is refused where it stands or understood by the passes", "[graph]") {
  int refused = 0, understood = 0;
  for (std::string_view node : nodes) {
    INFO(node);
    CHECK(survives(in_graph(std::string(node))));
    for (const AttrInfo& info : op_of(node).attributes) {
      int taken = 0;
      for (const std::string& setting : settings_of(info)) {
        const std::string text = in_graph(with_attribute(node, info.name, setting));
        try {
          taken += survives(text);
          ++refused;
        } catch (const std::exception& error) { FAIL_CHECK(text << "\n" << error.what()); }
      }
      INFO(info.name);
      CHECK(taken > 0);
      refused -= taken;
      understood += taken;
    }
  }
  std::printf("attributes: %d refused, %d understood\n", refused, understood);
  CHECK(refused > 300);
  CHECK(understood > 150);
}

TEST_CASE("every op that has attributes is in the table, and no op takes what another one has", "[graph]") {
  for (const OpInfo* op : all_ops()) {
    // Effects are the same as their twins; a derivative that nobody can compute goes through no pipeline.
    if (op->attributes.empty() || op->kind == OpKind::leaf || op->kind == OpKind::effect || op->refuse != nullptr)
      continue;
    INFO(op->name);
    CHECK(std::any_of(std::begin(nodes), std::end(nodes), [&](std::string_view node) { return &op_of(node) == op; }));
  }
  for (std::string_view node : nodes) {
    const OpInfo& op = op_of(node);
    for (const OpInfo* other : all_ops())
      for (const AttrInfo& info : other->attributes) {
        if (op.find_attribute(info.name) != nullptr || info.kind == AttrKind::data) continue;
        INFO(node << ": " << info.name);
        CHECK_THROWS_WITH(parse_graph(in_graph(with_attribute(node, info.name, settings_of(info)[0]))),
                          Catch::Contains(std::string(op.name) + " has no attribute '" + std::string(info.name) + "'"));
        break;
      }
  }
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
