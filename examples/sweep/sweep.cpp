// A simulation swept over a parameter, divided over worker processes: a pendulum with friction, for 12 strengths of the
// drive. Each worker takes the next strength when it is done; one that dies costs no more than what it had.
#include <sinter/dist.hpp>

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
using namespace sinter;

namespace {
/// The largest angle in 400 steps, of 64 pendulums with frequencies from 0.5 to 1.5.
Tensor swing(const Tensor& strength) {
  static const auto run = jit::compile([](Tensor drive) {
    const Tensor omega = 0.5f + arange(64, {.dtype = DType::f32}) / 63;
    const Tensor rest = zeros({64});
    auto [angle, speed, largest] = jit::fori_loop(
        0, 400,
        [&](Scalar i, std::tuple<Tensor, Tensor, Tensor> state) {
          auto [x, v, top] = state;
          const Tensor time = Tensor(i) * 0.05f;
          v = v + 0.05f * (drive * cos(omega * time) - sin(x) - 0.2f * v);
          x = x + 0.05f * v;
          return std::tuple(x, v, Tensor(maximum(top, abs(x))));
        },
        std::tuple(rest, rest, rest));
    return amax(largest);
  });
  return run(strength);
}
}  // namespace

int main() {
  std::vector<float> strengths;
  for (int i = 0; i < 12; ++i) strengths.push_back(0.1f + 0.08f * static_cast<float>(i));
  const std::string died = "/tmp/sinter_sweep_" + std::to_string(getpid());
  const auto angles = dist::map_shards(
      strengths,
      [&](float strength) {
        if (strength > 0.5f && strength < 0.55f && access(died.c_str(), F_OK) != 0) {  // once, so that we see it
          std::fclose(std::fopen(died.c_str(), "w"));
          std::raise(SIGKILL);
        }
        return item<float>(swing(full({}, strength)));
      },
      {.workers = 3, .kind = dist::WorkerKind::processes});
  std::remove(died.c_str());
  for (std::size_t i = 0; i < angles.size(); ++i)
    std::printf("drive %.2f: largest angle %.3f\n", strengths[i], angles[i]);
}
