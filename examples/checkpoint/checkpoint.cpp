// Training that stops and goes on: a compiled step with momentum and noise, interrupted after each few steps, ends with
// the same bits as a run in one go.
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

using namespace sinter;

namespace {

struct Training {
  Variable weight{zeros({4})}, momentum{zeros({4})};
  SINTER_FIELDS(weight, momentum)
};

constexpr std::int64_t last_step = 100;

/// Trains from where the newest checkpoint stands, for `most` steps at most, and gives the weight.
std::vector<float> train(const std::string& folder, std::int64_t most) {
  Training training;
  manual_seed(1);
  std::int64_t step = 0;
  if (const auto found = io::load_checkpoint(folder, training)) step = found->step;
  std::cout << "from step " << step << "\n";

  auto update = jit::compile([&] {
    const Tensor x = randn({32, 4});
    const Tensor y = matmul(x, tensor({1.f, -2.f, 3.f, -4.f}));
    auto loss = [&](const Tensor& w) { return mean(square(matmul(x, w) - y)); };
    training.momentum = 0.9f * training.momentum + jit::grad(loss)(training.weight.value());
    training.weight -= 0.01f * training.momentum;
  });
  for (const std::int64_t stop = std::min(last_step, step + most); step < stop;) {
    update();
    if (++step % 10 == 0) io::save_checkpoint(folder, step, training, {.keep = 2});
  }
  return to_vector<float>(training.weight.value());
}

}  // namespace

int main() {
  const auto folder = std::filesystem::path("checkpoint_example");
  std::filesystem::remove_all(folder);
  const std::vector<float> at_once = train((folder / "at_once").string(), last_step);
  std::vector<float> in_parts;
  for (int run = 0; run < 3; ++run) in_parts = train((folder / "in_parts").string(), 35);  // the last steps are lost
  in_parts = train((folder / "in_parts").string(), last_step);
  std::cout << "same bits: " << (at_once == in_parts ? "yes" : "no") << "\ncheckpoints:";
  for (const std::int64_t step : io::list_checkpoints((folder / "in_parts").string())) std::cout << " " << step;
  std::cout << "\n";
  std::filesystem::remove_all(folder);
}
