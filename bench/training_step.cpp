// The MLP training step of the demo, compiled, against the same step written by hand with Eigen; and loss.backward()
// through a compiled loss against loss and gradients in one compiled function.
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

struct Perceptron {
  Variable w1, b1, w2, b2;
  SINTER_FIELDS(w1, b1, w2, b2)
  Perceptron(int in, int hidden, int out)
      : w1(randn({in, hidden}) * 0.1), b1(zeros({hidden})), w2(randn({hidden, out}) * 0.1), b2(zeros({out})) {}
  Tensor loss(const Tensor& x, const Tensor& y) const {
    return mean(square(matmul(tanh(matmul(x, w1) + b1), w2) + b2 - y));
  }
  std::vector<Variable> parameters() const { return {w1, b1, w2, b2}; }
};

struct Sizes {
  int batch, in, hidden, out;
};

/// `read`: the loss is a function that reads a value, so that a path of a trace tree is differentiated.
void taped_row(State& state, Sizes sizes, bool reads) {
  set_thread_count(1);
  jit::reset();
  Perceptron net(sizes.in, sizes.hidden, sizes.out);
  jit::requires_grad(net);
  const Tensor x = randn({sizes.batch, sizes.in}), y = randn({sizes.batch, sizes.out});
  eval(x);
  eval(y);
  auto loss_of = jit::compile([reads](const Perceptron& n, Tensor in, Tensor target) {
    Tensor loss = n.loss(in, target);
    if (reads && item(loss) > 1e30) return Tensor(loss * 0);
    return loss;
  });
  auto whole = jit::compile([](const Perceptron& n, Tensor in, Tensor target) {
    auto [loss, grads] = jit::value_and_grad([&](const Perceptron& m) { return m.loss(in, target); })(n);
    return std::array<Tensor, 5>{loss, grads[n.w1], grads[n.b1], grads[n.w2], grads[n.b2]};
  });
  const auto taped = [&] {
    jit::zero_grad(net);
    Tensor loss = loss_of(net, x, y);
    loss.backward();
    return loss;
  };
  const Tensor loss = taped();
  const auto expected = whole(net, x, y);
  for (std::size_t i = 0; i < 4; ++i)
    if (!bench::agree(state, to_vector<float>(net.parameters()[i].grad()), to_vector<float>(expected[i + 1]), 1e-6))
      return;
  if (!bench::agree(state, to_vector<float>(loss), to_vector<float>(expected[0]), 1e-6)) return;
  bench::alternate(
      state, "one function", [&] { benchmark::DoNotOptimize(taped()); },
      [&] { benchmark::DoNotOptimize(whole(net, x, y)); });
  state.counters["saved_bytes"] = static_cast<double>(loss_of.stats().saved_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  for (int workers : {1, 2})
    bench::add("MLP training step/64x64x128x10/f32/workers:" + std::to_string(workers), [workers](State& state) {
      training_step_row(state, workers);
    })->Unit(benchmark::kMicrosecond);
  for (const Sizes sizes : {Sizes{1, 2, 4, 1}, Sizes{64, 64, 128, 10}, Sizes{256, 256, 512, 64}})
    for (bool reads : {false, true})
      bench::add(std::string(reads ? "backward() through a path" : "backward() through a compiled loss") + "/" +
                     bench::shape_text({sizes.batch, sizes.in, sizes.hidden, sizes.out}) + "/f32",
                 [=](State& state) { taped_row(state, sizes, reads); })
          ->Unit(benchmark::kMicrosecond);
  return bench::run(argc, argv);
}
