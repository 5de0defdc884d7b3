// The MLP training step of the demo, compiled, against the same step written by hand with Eigen.
#include "../examples/digits/eigen_mlp.cpp"
#include "../examples/digits/models.hpp"
#include "measure.hpp"
#include "row.hpp"

using namespace sinter;

int main() {
  constexpr int batch = 64;
  Mlp net;
  Tensor x = rand({batch, 64});
  std::vector<std::int64_t> labels(batch);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 10);
  Tensor y = copy_of(labels);
  EigenMlp peer(64, 128, 10, to_vector<float>(net.w1).data(), to_vector<float>(net.w2).data());
  auto step = jit::compile([](const Mlp& n, Tensor in, Tensor target, Scalar lr) { return training_step(n, in, target, lr); });
  std::vector<float> ours, theirs;
  for (int i = 0; i < 10; ++i) {
    ours.push_back(item<float>(step(net, x, y, 0.1)));
    theirs.push_back(peer.step(x.data<float>().data(), labels.data(), batch, 0.1f));
  }
  bench::require_close(ours, theirs, 1e-4, "training step");
  for (int threads : {1, 2}) {
    set_thread_count(threads);
    bench::Pair t = bench::compare([&] { bench::keep(step(net, x, y, 0.01)); }, [&] { bench::keep(peer.step(x.data<float>().data(), labels.data(), batch, 0.01f)); });
    bench::print({.name = "MLP training step", .shape = "64x64x128x10", .dtype = "f32", .threads = threads, .ours = t.ours * 1e6, .unit = "us", .peer = "Eigen",
                  .peer_value = t.peer * 1e6, .compile_ms = step.stats().compile_ms});
  }
}
