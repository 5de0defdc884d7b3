// Equations on a periodic domain by spectra: Korteweg-de Vries, u_t + u u_x + u_xxx = 0, whose waves (solitons) pass
// through each other unchanged, in steps of a compiled function; and Poisson's equation with a gradient through it.
#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdio>
#include <numbers>

using namespace sinter;

namespace {

constexpr int points = 192;
constexpr double length = 60, time_step = 0.002;
const TensorOptions f64{.dtype = DType::f64};

/// Heights 3 a^2 travel with speed a^2.
Tensor soliton(const Tensor& x, double a, double centre) { return 3 * a * a / square(cosh(0.5 * a * (x - centre))); }

/// What one step multiplies spectra by. A struct of Tensors is an argument like any other.
struct Factors {
  Tensor half;      // e^(i k^3 dt / 2): the linear part u_xxx, exactly
  Tensor gradient;  // -i k dt / 2: minus half the derivative, for u u_x = (u^2 / 2)_x
};
Factors factors() {
  const Tensor k = 2 * std::numbers::pi * fft::rfftfreq(points, length / points, {.dtype = DType::f64});
  const Tensor none = 0 * k;
  return {polar(none + 1, pow(k, 3) * (time_step / 2)), complex(none, -time_step / 2 * k)};
}

/// Runge and Kutta's step of order 4 for the spectrum in a frame that moves with the linear part (Trefethen 2000, p27).
Tensor step(Tensor v, const Factors& with) {
  const Tensor e = with.half;
  const auto slope = [&](const Tensor& spectrum) {
    return Tensor(with.gradient * fft::rfft(square(fft::irfft(spectrum, {.n = points}))));
  };
  const Tensor a = slope(v);
  const Tensor b = slope(e * (v + a / 2));
  const Tensor c = slope(e * v + b / 2);
  const Tensor d = slope(e * e * v + e * c);
  return e * e * v + (e * e * a + 2 * e * (b + c) + d) / 6;
}

void print_wave(const char* title, const Tensor& u) {
  std::printf("%-8s", title);
  for (int i = 0; i < points; i += 4) {
    const double height = item<double>(u(i));
    std::printf("%c", height > 9 ? '#' : height > 5 ? '+' : height > 1.5 ? '-' : '.');
  }
  std::printf("\n");
}

void waves() {
  const Tensor x = arange(points, f64) * (length / points);
  const Tensor start = soliton(x, 2, 12) + soliton(x, 1, 24);
  const Factors with = factors();
  auto advance = jit::compile([](Tensor v, const Factors& f) { return step(v, f); });
  Tensor v = fft::rfft(start), alone = fft::rfft(soliton(x, 2, 12));
  print_wave("t = 0", start);
  for (int seconds = 1; seconds <= 8; ++seconds) {
    for (int i = 0; i < 500; ++i) v = advance(v, with);
    if (seconds % 4 == 0) print_wave(seconds == 4 ? "t = 4" : "t = 8", fft::irfft(v));
  }
  for (int i = 0; i < 2000; ++i) alone = advance(alone, with);
  const double error = item<double>(amax(abs(fft::irfft(alone) - soliton(x, 2, 12 + 4 * 4))));
  const double lost = item<double>(sum(fft::irfft(v)) - sum(start)) * length / points;
  std::printf("one wave alone after 4 s: off by less than 1e-3: %s\n", error < 1e-3 ? "yes" : "no");
  std::printf("water lost by both in 8 s: less than 1e-9: %s\n", std::abs(lost) < 1e-9 ? "yes" : "no");
}

/// u with u_xx + u_yy = f and mean 0, on [0, 2 pi)^2.
Tensor poisson(const Tensor& f) {
  const std::int64_t n = f.size(0).value();
  const Tensor k = fft::fftfreq(n, 1.0 / static_cast<double>(n), {.dtype = DType::f64});
  const Tensor half = fft::rfftfreq(n, 1.0 / static_cast<double>(n), {.dtype = DType::f64});
  const Tensor squares = square(unsqueeze(k, 1)) + square(half);
  return fft::irfft2(fft::rfft2(f) * where(squares == 0, 0.0, -1 / squares), {.s = {n, n}});
}

void potential() {
  const int n = 32;
  const Tensor at = arange(n, f64) * (2 * std::numbers::pi / n);
  const Tensor x = unsqueeze(at, 1), y = unsqueeze(at, 0);
  const Tensor expected = sin(3 * x) * cos(2 * y), f = -13 * expected;
  auto solve = jit::compile(poisson);
  std::printf("Poisson's equation: largest error below 1e-12: %s\n",
              item<double>(amax(abs(solve(f) - expected))) < 1e-12 ? "yes" : "no");
  // The map from f to u is its own adjoint, so the gradient of <u, w> by f is the u of w.
  const Tensor w = cos(x) * sin(y);
  const Tensor gradient = jit::compile(jit::grad([&](Tensor t) { return sum(poisson(t) * w); }))(f);
  std::printf("and its gradient: %s\n", allclose(gradient, -w / 2, {.atol = 1e-12}) ? "yes" : "no");
}

}  // namespace

int main() {
  waves();
  potential();
}
