// A Kalman filter for a thousand targets at once, whose noise is not known: it is what makes the measurements most
// likely. The filter is one compiled function; its gradient goes through every factorisation.
#include <sinter/sinter.hpp>

#include <cstdio>
#include <utility>

using namespace sinter;

namespace {

constexpr int targets = 1000, steps = 12;
const TensorOptions numbers{.dtype = DType::f64};

/// States are (x, y, speed along x, speed along y).
Tensor transition() { return eye(4, numbers) + eye(4, 4, 2, numbers); }
/// Places are measured.
Tensor observation() { return eye(2, 4, 0, numbers); }

/// Places over time, f64 [steps, targets, 2], and what is measured: speeds change by 0.3 a step, measurements are off
/// by 2.
std::pair<Tensor, Tensor> make_tracks() {
  Tensor places = zeros({targets, 2}, numbers), speeds = randn({targets, 2}, numbers);
  std::vector<Tensor> track;
  for (int i = 0; i < steps; ++i) {
    speeds = speeds + 0.3 * randn({targets, 2}, numbers);
    places = places + speeds;
    track.push_back(places);
  }
  const Tensor all_places = stack(track, 0);
  return {all_places, all_places + 2 * randn({steps, targets, 2}, numbers)};
}

struct Filtered {
  Tensor states;      // f64 [targets, 4], after the last measurement
  Tensor likelihood;  // log, per measurement
};

/// `scales`: logarithms of the standard deviations of process and measurement.
Filtered filter(const Tensor& measured, const Tensor& scales) {
  const Tensor variances = exp(2 * scales), f = transition(), h = observation(), one = eye(4, numbers);
  const Tensor process = variances(0) * diag(tensor({0.0, 0.0, 1.0, 1.0})), noise = variances(1) * eye(2, numbers);
  Tensor state = zeros({targets, 4}, numbers), covariance = one, total = zeros({}, numbers);
  for (int i = 0; i < steps; ++i) {
    state = matmul(state, f.t());
    covariance = matmul(matmul(f, covariance), f.t()) + process;
    const Tensor surprise = measured(i) - matmul(state, h.t());
    const Tensor factor = linalg::cholesky(matmul(matmul(h, covariance), h.t()) + noise);
    const Tensor gain = linalg::cholesky_solve(matmul(h, covariance), factor);  // transposed
    const Tensor whitened = linalg::solve_triangular(factor, surprise.t());
    total = total - mean(sum(square(whitened), 0)) / 2 - sum(log(linalg::diagonal(factor)));
    state = state + matmul(surprise, gain);
    covariance = matmul(one - matmul(gain.t(), h), covariance);
  }
  return {state, total / steps};
}

double root_mean_square(const Tensor& x) { return item<double>(sqrt(mean(square(x)))); }

}  // namespace

int main() {
  const auto [places, measured] = make_tracks();
  const auto climb = jit::compile([](Tensor data, Tensor scales) {
    const auto loss = [&](Tensor s) { return -filter(data, s).likelihood; };
    auto [value, slope] = jit::value_and_grad(loss)(scales);
    return std::pair(value, Tensor(scales - 0.3 * slope));
  });
  Tensor scales = zeros({2}, numbers);
  for (int i = 0; i <= 200; ++i) {
    auto [loss, next] = climb(measured, scales);
    if (i % 50 == 0) {
      const Tensor deviations = exp(scales);
      std::printf("%3d  loss %.3f  process %.2f  measurement %.2f\n", i, item<double>(loss),
                  item<double>(deviations(0)), item<double>(deviations(1)));
    }
    scales = next;
  }
  const Tensor last = places(steps - 1), found = filter(measured, scales).states(all, slice(0, 2));
  std::printf("last places are off by %.2f, measured ones by %.2f\n", root_mean_square(found - last),
              root_mean_square(measured(steps - 1) - last));
}
