// Data parallel training: the same source on 1, 2 and 4 ranks, with the same losses. Ranks are threads here; started as
// `tools/launch -n 4 build/default/examples/data_parallel` they are processes, and the program trains once, on those.
// Then the same network as a function of whole tensors, divided over meshes: the batch, and the hidden axis.
#include <sinter/dist.hpp>

#include <cstdio>
#include <vector>
using namespace sinter;

namespace {
struct Net {
  Variable w1, b1, w2, b2;
  SINTER_FIELDS(w1, b1, w2, b2)
  Tensor operator()(const Tensor& x) const { return matmul(tanh(matmul(x, w1) + b1), w2) + b2; }
};

Net make_net() {
  const TensorOptions f64{.dtype = DType::f64};
  const auto wave = [&](const Shape& shape, double scale) {
    return reshape(scale * sin(arange(shape.numel(), f64) * 1.7), shape);
  };
  Net net{Variable(wave({2, 16}, 1)), Variable(zeros({16}, f64)), Variable(wave({16, 1}, 0.5)),
          Variable(zeros({1}, f64))};
  jit::requires_grad(net);
  return net;
}

/// 100 points of z = x y, in batches of 32: the last one has 4.
std::vector<double> train(dist::World world) {
  const Tensor x = reshape(sin(arange(200, {.dtype = DType::f64}) * 2.3), {100, 2});
  const Tensor z = x(all, slice(0, 1)) * x(all, slice(1, 2));
  const Net net = make_net();
  const auto parallel = dist::data_parallel(net);  // checks that all ranks start alike
  const auto step = jit::compile([&](Tensor batch, Tensor target, Scalar count) {
    jit::zero_grad(net);
    Tensor loss = parallel.backward(mean(square(net(batch) - target)), count);  // gradients and loss of the whole batch
    parallel.clip_grad_norm(1.0);
    for (const jit::Parameter& p : parallel.parameters()) p.variable -= 0.2 * p.variable.grad();
    return loss;
  });
  std::vector<double> losses;
  for (int epoch = 0; epoch < 60; ++epoch) {
    double sum = 0;
    for (int begin = 0; begin < 100; begin += 32) {
      const int size = std::min(32, 100 - begin);
      const int from = begin + size * world.rank() / world.size(),
                to = begin + size * (world.rank() + 1) / world.size();
      sum += size * item<double>(step(x(slice(from, to)), z(slice(from, to)), static_cast<double>(to - from)));
    }
    if (epoch % 20 == 0 || epoch == 59) losses.push_back(sum / 100);
  }
  return losses;
}

void train_and_print(dist::World world) {
  const std::vector<double> losses = train(world);
  if (world.rank() != 0) return;
  std::printf("%d rank%s: losses", world.size(), world.size() == 1 ? " " : "s");
  for (const double loss : losses) std::printf(" %.8f", loss);
  std::printf("\n");
}

struct Weights {
  Tensor w1, w2;
};

/// 96 points in one batch, the weights divided over "model" and the batch over "data".
void train_on_mesh(const dist::Mesh& mesh) {
  const Net net = make_net();
  const auto loss = [&](const Weights& w, Tensor x, Tensor z) {
    return mean(square(matmul(tanh(matmul(x, w.w1) + net.b1.value()), w.w2) - z));
  };
  const dist::Layout w1{{1, "model"}}, w2{{0, "model"}}, batch{{0, "data"}};
  const auto step = dist::partition(
      [&](Weights w, Tensor x, Tensor z) {
        auto [value, gradient] = jit::value_and_grad<0>(loss)(w, x, z);
        return std::tuple(value, Tensor(w.w1 - 0.2 * gradient.w1), Tensor(w.w2 - 0.2 * gradient.w2));
      },
      mesh, {.inputs = {w1, w2, batch, batch}, .outputs = {{}, w1, w2}});
  dist::run({.engine = dist::EngineKind::threads, .mesh = mesh}, [&](dist::World world) {
    const Tensor x = reshape(sin(arange(192, {.dtype = DType::f64}) * 2.3), {96, 2});
    const Tensor z = x(all, slice(0, 1)) * x(all, slice(1, 2));
    const Tensor own_x = dist::shard(x, {0, "data"}), own_z = dist::shard(z, {0, "data"});
    Weights own{dist::shard(net.w1.value(), {1, "model"}), dist::shard(net.w2.value(), {0, "model"})};
    const auto compiled = jit::compile(step);
    std::vector<double> losses;
    for (int i = 0; i <= 100; ++i) {
      auto [value, next1, next2] = compiled(own, own_x, own_z);
      own = {next1, next2};
      if (i % 50 == 0) losses.push_back(item<double>(value));
    }
    if (world.rank() != 0) return;
    std::printf("mesh %s: losses", mesh.text().c_str());
    for (const double value : losses) std::printf(" %.8f", value);
    std::printf("\n");
  });
}
}  // namespace

int main() {
  if (dist::launched().size > 1) {
    dist::run(train_and_print);
    return 0;
  }
  for (const int ranks : {1, 2, 4}) dist::run(ranks, train_and_print);
  for (const auto& [data, model] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)})
    train_on_mesh(dist::Mesh({{"data", data}, {"model", model}}));
}
