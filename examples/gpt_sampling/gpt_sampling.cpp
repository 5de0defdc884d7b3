// A small GPT that is trained on a text, and then continues it character by character. Sampling keeps the keys and
// values of what was read in a cache, which a compiled step updates in place at a position that is a run-time number:
// one prefill for the prompt, then one call for each character. The text it must learn repeats itself.
#include <sinter/sinter.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

using namespace sinter;

namespace {

constexpr int features = 32, heads = 4, layers = 2, context = 64;
const std::string text = "the quick brown fox jumps over the lazy dog. ";
const std::string letters = "abcdefghijklmnopqrstuvwxyz .";

Tensor encode(const std::string& characters) {
  std::vector<std::int64_t> tokens;
  for (char c : characters) tokens.push_back(static_cast<std::int64_t>(letters.find(c)));
  return copy_of(tokens, {tokens.size()});
}

struct Block {
  Tensor norm_1, qkv, out, norm_2, up, down;
};
struct Model {
  Tensor embedding;
  std::vector<Block> blocks;
  Tensor norm;
};

Model make_model() {
  const auto matrix = [](int rows, int columns) { return randn({rows, columns}) / std::sqrt(rows); };
  Model model{0.1 * randn({static_cast<int>(letters.size()), features}), {}, ones({features})};
  for (int i = 0; i < layers; ++i)
    model.blocks.push_back({ones({features}), matrix(features, 3 * features), matrix(features, features),
                            ones({features}), matrix(features, 4 * features), matrix(4 * features, features)});
  return model;
}

/// Keys and values of all positions: [layers, heads, context, features / heads], zeros where nothing was read yet.
struct Cache {
  Variable keys{zeros({layers, heads, context, features / heads})};
  Variable values{zeros({layers, heads, context, features / heads})};
};

/// Heads of a layer: queries, keys and values [heads, tokens, features / heads], turned by their positions.
std::tuple<Tensor, Tensor, Tensor> project(const Block& block, const Tensor& x, const Scalar& first) {
  const auto of_heads = [](const Tensor& y) { return transpose(unflatten(y, 1, {heads, features / heads}), 0, 1); };
  auto [q, k, v] = split<3>(matmul(rms_norm(x, {features}, {.weight = block.norm_1}), block.qkv), 1);
  const RotaryOptions positions{.offset = first};
  return {rotary_embedding(of_heads(q), positions), rotary_embedding(of_heads(k), positions), of_heads(v)};
}
Tensor finish(const Block& block, const Tensor& x, const Tensor& attended) {
  Tensor y = x + matmul(flatten(transpose(attended, 0, 1), 1), block.out);
  return y + matmul(gelu(matmul(rms_norm(y, {features}, {.weight = block.norm_2}), block.up)), block.down);
}
Tensor logits_of(const Model& model, const Tensor& x) {
  return matmul(rms_norm(x, {features}, {.weight = model.norm}), model.embedding.t());
}

/// Logits [tokens, letters] of a whole text, without a cache.
Tensor forward(const Model& model, Tensor tokens) {
  Tensor x = embedding(tokens, model.embedding);
  for (const Block& block : model.blocks) {
    auto [q, k, v] = project(block, x, 0);
    x = finish(block, x, scaled_dot_product_attention(q, k, v, {.causal = true}));
  }
  return logits_of(model, x);
}

/// The same of the tokens from position `first` on, where the cache has those before; it gets these. Each query sees
/// the keys up to its own position: what stands after it in the cache counts for nothing.
Tensor forward(const Model& model, const Cache& cache, Tensor tokens, Scalar first) {
  Tensor x = embedding(tokens, model.embedding);
  Tensor own = first + unsqueeze(arange(tokens.size(0)), 1);
  Tensor seen = arange(context) <= own;
  for (int i = 0; i < layers; ++i) {
    const Block& block = model.blocks[static_cast<std::size_t>(i)];
    auto [q, k, v] = project(block, x, first);
    cache.keys = dynamic_update_slice(cache.keys, unsqueeze(k, 0), {i, 0, first, 0});
    cache.values = dynamic_update_slice(cache.values, unsqueeze(v, 0), {i, 0, first, 0});
    x = finish(block, x, scaled_dot_product_attention(q, cache.keys(i), cache.values(i), {.mask = seen}));
  }
  return logits_of(model, x);
}

/// Draws the next token; a low temperature takes the likeliest ones.
Tensor sample(const Tensor& logits, const Scalar& temperature) {
  return multinomial(softmax(logits(-1, all) / temperature, -1), 1);
}

Model train(Model model) {
  std::string repeated;
  while (repeated.size() < context + text.size()) repeated += text;
  const Tensor all_tokens = encode(repeated);
  auto loss = [](const Model& m, Tensor tokens) {
    return cross_entropy(forward(m, tokens(slice(0, -1))), tokens(slice(1)));
  };
  auto gradient = jit::compile(jit::value_and_grad(loss));
  // Adam with all parameters as one vector.
  auto update = jit::compile([](Tensor w, Tensor g, Tensor mean, Tensor square_mean, Scalar step) {
    mean = 0.9 * mean + 0.1 * g;
    square_mean = 0.99 * square_mean + 0.01 * square(g);
    Tensor unbiased = sqrt(square_mean / (1 - exp(step * std::log(0.99))));
    Tensor direction = mean / (1 - exp(step * std::log(0.9))) / (unbiased + 1e-8);
    return std::tuple(w - 0.01 * direction, mean, square_mean);
  });
  Tensor weights = jit::flatten(model), mean = zeros_like(weights), square_mean = zeros_like(weights);
  for (int step = 1; step <= 150; ++step) {
    const int start = step * 7 % static_cast<int>(text.size());
    auto [value, slopes] = gradient(model, all_tokens(slice(start, start + context)));
    std::tie(weights, mean, square_mean) = update(weights, jit::flatten(slopes), mean, square_mean, step);
    model = jit::unflatten(model, weights);
    if (step == 150) std::printf("loss after 150 steps: %s 0.2\n", item<float>(value) < 0.2f ? "below" : "above");
  }
  return model;
}

}  // namespace

int main() {
  manual_seed(13);
  const Model model = train(make_model());

  // One compiled function reads the prompt and every character after it: as many tokens as it is given. What it writes
  // into the Variables of the cache is written in their memory.
  auto step = jit::compile([](const Model& m, const Cache& cache, Tensor tokens, Scalar first, Scalar temperature) {
    return sample(forward(m, cache, tokens, first), temperature);
  });
  const Cache cache;
  std::string said = "the quick ";
  Tensor next = step(model, cache, encode(said), 0, 0.2);
  const auto begin = std::chrono::steady_clock::now();
  const int read = static_cast<int>(said.size());
  for (int position = read; position < context; ++position) {
    said += letters[static_cast<std::size_t>(item<std::int64_t>(next))];
    next = step(model, cache, next, position, 0.2);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%s\n", said.c_str());
  std::printf("%.0f tokens per second\n", (context - read) / seconds.count());

  // What the cache gives for each character by itself is what a whole text gives.
  auto read_one = jit::compile(
      [](const Model& m, const Cache& c, Tensor tokens, Scalar first) { return forward(m, c, tokens, first); });
  const Tensor tokens = encode(said);
  const Cache again;
  std::vector<Tensor> rows;
  for (int i = 0; i < context; ++i) rows.push_back(read_one(model, again, tokens(slice(i, i + 1)), i));
  const Agreement agreement = allclose(concat(rows, 0), forward(model, tokens), {.rtol = 1e-3, .atol = 1e-3});
  std::printf("as without a cache: %s; the step was compiled %d times\n", agreement ? "yes" : agreement.text().c_str(),
              static_cast<int>(step.stats().compiles));
  return agreement ? 0 : 1;
}
