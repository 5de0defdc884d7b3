// The MLP training step of the demo, compiled, against the same step written by hand with Eigen.
#include "../examples/digits/eigen_mlp.cpp"
#include "../examples/digits/models.hpp"
#include "compiled.hpp"

#include <array>
#include <string>
#include <vector>

using namespace sinter;
using benchmark::State;

namespace {

/// One digit network and the same in Eigen, from the same weights.
void training_step_row(State& state, int workers) {
  constexpr int batch = 64;
  set_thread_count(workers);
  jit::reset();
  Mlp net;
  const Tensor x = rand({batch, 64});
  std::vector<std::int64_t> labels(batch);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 10);
  const Tensor y = copy_of(labels);
  eval(x);
  EigenMlp peer(64, 128, 10, to_vector<float>(net.w1).data(), to_vector<float>(net.w2).data());
  auto step =
      jit::compile([](const Mlp& n, Tensor in, Tensor target, Scalar lr) { return training_step(n, in, target, lr); });
  std::array<float, 10> ours{}, theirs{};
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ours[i] = item<float>(step(net, x, y, 0.1));
    theirs[i] = peer.step(x.data<float>().data(), labels.data(), batch, 0.1f);
  }
  const double compile_ms = step.stats().compile_ms;
  if (!bench::agree(state, ours, theirs, 1e-4)) return;
  bench::alternate(
      state, "Eigen", [&] { benchmark::DoNotOptimize(step(net, x, y, 0.01)); },
      [&] { benchmark::DoNotOptimize(peer.step(x.data<float>().data(), labels.data(), batch, 0.01f)); });
  state.counters["compile_ms"] = compile_ms;
}

}  // namespace

int main(int argc, char** argv) {
  for (int workers : {1, 2})
    bench::add("MLP training step/64x64x128x10/f32/workers:" + std::to_string(workers), [workers](State& state) {
      training_step_row(state, workers);
    })->Unit(benchmark::kMicrosecond);
  return bench::run(argc, argv);
}
