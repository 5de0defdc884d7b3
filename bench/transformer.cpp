// A transformer of six layers as GPT-2 has them, 384 features and 128 tokens: forward, and a training step with AdamW.
// Its peers are frameworks (tools/bench --peers torch,jax), which have rows of the same names; transformer/compare.py
// has all of them take turns.
#include "compiled.hpp"
#include "transformer/model.hpp"

#include <string>
#include <vector>

using namespace sinter;
using benchmark::State;

namespace {

using namespace bench::transformer;

Tensor logits_of_small(const Gpt& model, const Tensor& tokens) { return logits_of(small, model, tokens); }

void forward_row(State& state, int workers) {
  set_thread_count(workers);
  jit::reset();
  const Gpt model = make_gpt(small);
  const Tensor tokens = make_text(small).first;
  const jit::NoGradGuard guard;
  auto forward = jit::compile(logits_of_small);
  const Tensor ours = forward(model, tokens), one_by_one = logits_of_small(model, tokens);
  eval({ours, one_by_one});
  if (!bench::agree(state, ours.data<float>(), one_by_one.data<float>(), 1e-4)) return;
  bench::time_alone(state, [&] { eval(forward(model, tokens)); });
  state.counters["compile_ms"] = forward.stats().compile_ms;
}

void training_row(State& state, int workers) {
  set_thread_count(workers);
  jit::reset();
  const Gpt model = make_gpt(small);
  const AdamW optimiser(model);
  const auto [tokens, next] = make_text(small);
  auto step = training_step(small, model, optimiser);
  const Tensor expected = cross_entropy(logits_of_small(model, tokens), next);
  const std::vector<float> before = to_vector<float>(expected);
  float number = 1;
  if (!bench::agree(state, to_vector<float>(step(tokens, next, number)), before, 1e-4)) return;
  bench::time_alone(state, [&] { eval(step(tokens, next, ++number)); });
  state.counters["compile_ms"] = step.stats().compile_ms;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string shape = "/" + bench::shape_text({small.layers, small.context, small.features}) + "/f32/workers:";
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
