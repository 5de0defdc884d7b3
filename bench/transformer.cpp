// A transformer of six layers as GPT-2 has them, 384 features and 128 tokens: forward, and a training step with AdamW.
// Its peers are frameworks (tools/bench --peers torch,jax), which have rows of the same names.
#include "compiled.hpp"

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

using namespace sinter;
using benchmark::State;

namespace {

constexpr int layers = 6, features = 384, heads = 12, vocabulary = 8192, context = 128;

struct Block {
  Variable norm_1, shift_1, qkv, qkv_bias, out, out_bias, norm_2, shift_2, up, up_bias, down, down_bias;
  SINTER_FIELDS(norm_1, shift_1, qkv, qkv_bias, out, out_bias, norm_2, shift_2, up, up_bias, down, down_bias)
};
struct Gpt {
  Variable tokens, positions;
  std::vector<Block> blocks;
  Variable norm, shift;
  SINTER_FIELDS(tokens, positions, blocks, norm, shift)
};

Gpt make_gpt() {
  manual_seed(1);
  const auto normal = [](int rows, int columns) { return Variable(randn({rows, columns}) * 0.02); };
  const auto vector = [](int length, double value) { return Variable(full({length}, value)); };
  constexpr int d = features;
  Gpt model{normal(vocabulary, d), normal(context, d), {}, vector(d, 1), vector(d, 0)};
  for (int i = 0; i < layers; ++i)
    model.blocks.push_back({vector(d, 1), vector(d, 0), normal(d, 3 * d), vector(3 * d, 0), normal(d, d), vector(d, 0),
                            vector(d, 1), vector(d, 0), normal(d, 4 * d), vector(4 * d, 0), normal(4 * d, d),
                            vector(d, 0)});
  jit::requires_grad(model);
  return model;
}

Tensor logits_of(const Gpt& model, const Tensor& tokens) {
  constexpr int d = features;
  const auto of_heads = [](const Tensor& y) { return transpose(reshape(y, {context, heads, d / heads}), 0, 1); };
  Tensor x = embedding(tokens, model.tokens) + model.positions;
  for (const Block& block : model.blocks) {
    const Tensor normalised = layer_norm(x, {d}, block.norm_1, block.shift_1);
    auto [q, k, v] = split<3>(matmul(normalised, block.qkv) + block.qkv_bias, 1);
    const Tensor attended = scaled_dot_product_attention(of_heads(q), of_heads(k), of_heads(v), {.causal = true});
    x = x + matmul(reshape(transpose(attended, 0, 1), {context, d}), block.out) + block.out_bias;
    const Tensor hidden = matmul(layer_norm(x, {d}, block.norm_2, block.shift_2), block.up) + block.up_bias;
    x = x + matmul(gelu_tanh(hidden), block.down) + block.down_bias;
  }
  return matmul(layer_norm(x, {d}, model.norm, model.shift), transpose(model.tokens, 0, 1));
}

/// As PyTorch's AdamW (Loshchilov and Hutter 2019).
class AdamW {
 public:
  explicit AdamW(const Gpt& model) : parameters_(jit::parameters(model)) {
    for (const jit::Parameter& parameter : parameters_) {
      means_.emplace_back(zeros_like(parameter.variable.value()));
      squares_.emplace_back(zeros_like(parameter.variable.value()));
    }
  }
  void step(const Scalar& number) const {
    const jit::NoGradGuard guard;
    const Scalar size = rate / (1 - exp(number * std::log(0.9))), root = sqrt(1 - exp(number * std::log(0.999)));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Variable& w = parameters_[i].variable;
      const Tensor g = w.grad();
      means_[i] = 0.9f * means_[i] + 0.1f * g;
      squares_[i] = 0.999f * squares_[i] + 0.001f * square(g);
      w = w * (1 - rate * 0.01f) - size * means_[i] / (sqrt(squares_[i]) / root + 1e-8f);
    }
  }

 private:
  static constexpr float rate = 1e-4f;
  std::vector<jit::Parameter> parameters_;
  std::vector<Variable> means_, squares_;
};

/// Numbers without a pattern: what is read, and what comes after each.
std::pair<Tensor, Tensor> make_text() {
  std::vector<std::int64_t> words;
  std::uint32_t state = 12345;
  for (int i = 0; i <= context; ++i) {
    state = state * 1664525u + 1013904223u;
    words.push_back((state >> 8) % vocabulary);
  }
  const Tensor text = copy_of(words, {context + 1}), read = text(slice(0, context)) + 0, next = text(slice(1, {})) + 0;
  eval({read, next});
  return {read, next};
}

void forward_row(State& state, int workers) {
  set_thread_count(workers);
  jit::reset();
  const Gpt model = make_gpt();
  const Tensor tokens = make_text().first;
  const jit::NoGradGuard guard;
  auto forward = jit::compile(logits_of);
  const Tensor ours = forward(model, tokens), one_by_one = logits_of(model, tokens);
  eval({ours, one_by_one});
  if (!bench::agree(state, ours.data<float>(), one_by_one.data<float>(), 1e-4)) return;
  bench::time_alone(state, [&] { eval(forward(model, tokens)); });
  state.counters["compile_ms"] = forward.stats().compile_ms;
}

void training_row(State& state, int workers) {
  set_thread_count(workers);
  jit::reset();
  const Gpt model = make_gpt();
  const AdamW optimiser(model);
  const auto [tokens, next] = make_text();
  auto step = jit::compile([&](Tensor read, Tensor wanted, Scalar number) {
    jit::zero_grad(model);
    Tensor loss = cross_entropy(logits_of(model, read), wanted);
    loss.backward();
    optimiser.step(number);
    return jit::detach(loss);
  });
  const Tensor expected = cross_entropy(logits_of(model, tokens), next);
  const std::vector<float> before = to_vector<float>(expected);
  float number = 1;
  if (!bench::agree(state, to_vector<float>(step(tokens, next, number)), before, 1e-4)) return;
  bench::time_alone(state, [&] { eval(step(tokens, next, ++number)); });
  state.counters["compile_ms"] = step.stats().compile_ms;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string shape = "/" + bench::shape_text({layers, context, features}) + "/f32/workers:";
  for (int workers : {1, 2}) {
    bench::add("transformer forward" + shape + std::to_string(workers), [workers](State& state) {
      forward_row(state, workers);
    })->Unit(benchmark::kMillisecond);
    bench::add("transformer training step" + shape + std::to_string(workers), [workers](State& state) {
      training_row(state, workers);
    })->Unit(benchmark::kMillisecond);
  }
  return bench::run(argc, argv);
}
