// Prices European calls and their Greeks. The price is written once, in f64; the Greeks are its derivatives, taken by
// grad, and everything is one compiled function. Each number is checked against the closed form.
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

using namespace sinter;

namespace {

Tensor normal_cdf(const Tensor& x) { return 0.5 * (1 + erf(x * (1 / std::numbers::sqrt2))); }

/// Black and Scholes, 1973: value of a call with spot s, strike k, time t in years, volatility v, at the rate r.
Tensor call_price(const Tensor& s, const Tensor& k, const Tensor& t, const Tensor& v, const Scalar& r) {
  Tensor deviation = v * sqrt(t);
  Tensor d1 = (log(s / k) + (r + 0.5 * v * v) * t) / deviation;
  return s * normal_cdf(d1) - k * exp(-r * t) * normal_cdf(d1 - deviation);
}

struct Greeks {
  Tensor price, delta, gamma, vega, theta;
};

/// Options do not depend on each other, so the gradient of the sum of prices holds each one's derivative.
Greeks value(Tensor s, Tensor k, Tensor t, Tensor v, Scalar r) {
  auto total = [&](const Tensor& spot, const Tensor& time, const Tensor& volatility) {
    return sum(call_price(spot, k, time, volatility, r));
  };
  auto [delta, decay, vega] = jit::grad<0, 1, 2>(total)(s, t, v);
  auto total_delta = [&](const Tensor& spot) {
    return sum(jit::grad([&](const Tensor& inner) { return total(inner, t, v); })(spot));
  };
  return {call_price(s, k, t, v, r), delta, jit::grad(total_delta)(s), vega, -decay};
}

/// The closed forms, in the order of Greeks.
std::vector<double> closed_form(double s, double k, double t, double v, double r) {
  auto cdf = [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  double deviation = v * std::sqrt(t), d1 = (std::log(s / k) + (r + 0.5 * v * v) * t) / deviation, d2 = d1 - deviation;
  double density = std::exp(-0.5 * d1 * d1) / std::sqrt(2 * std::numbers::pi), discounted = k * std::exp(-r * t);
  return {s * cdf(d1) - discounted * cdf(d2), cdf(d1), density / (s * deviation), s * density * std::sqrt(t),
          -s * density * v / (2 * std::sqrt(t)) - r * discounted * cdf(d2)};
}

}  // namespace

int main() {
  const double rate = 0.03;
  std::vector<double> spots, strikes, times, volatilities;
  for (double strike : {80.0, 100.0, 120.0})
    for (double time : {0.25, 1.0})
      spots.push_back(100), strikes.push_back(strike), times.push_back(time), volatilities.push_back(0.2 + 0.05 * time);

  auto greeks = jit::compile(value);
  Greeks g = greeks(copy_of(spots), copy_of(strikes), copy_of(times), copy_of(volatilities), rate);

  const std::vector<std::vector<double>> columns{to_vector<double>(g.price), to_vector<double>(g.delta),
                                                 to_vector<double>(g.gamma), to_vector<double>(g.vega),
                                                 to_vector<double>(g.theta)};
  double worst = 0;
  std::printf("strike  years   vol     price    delta    gamma     vega    theta\n");
  for (std::size_t i = 0; i < spots.size(); ++i) {
    std::printf("%6.0f %6.2f %5.2f", strikes[i], times[i], volatilities[i]);
    const std::vector<double> want = closed_form(spots[i], strikes[i], times[i], volatilities[i], rate);
    for (std::size_t column = 0; column < columns.size(); ++column) {
      double got = columns[column][i];
      std::printf(column == 0 ? " %9.4f" : " %8.4f", got);
      worst = std::max(worst, std::abs(got - want[column]) / (1 + std::abs(want[column])));
    }
    std::printf("\n");
  }
  const bool is_right = worst < 1e-10;
  std::printf("%s\n", is_right ? "all agree with the closed form to 1e-10" : "they DIFFER from the closed form");
  return is_right ? 0 : 1;
}
