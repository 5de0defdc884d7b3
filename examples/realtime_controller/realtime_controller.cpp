// A controller at 10 kHz: a pole stands upright on a cart, though only the cart's place and the pole's angle are
// measured, with noise. A Kalman filter and state feedback are one compiled function, which is warmed up and frozen
// before the loop starts: from then on its calls allocate nothing, lock nothing and ask the system for nothing. The
// loop times each call, and beside it nothing at all and the same step written by hand with Eigen.
//   realtime_controller [--real-time]    locks the memory of the process and gives the thread a real-time priority
#include <sinter/sinter.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/mman.h>

using namespace sinter;

namespace {

using Clock = std::chrono::steady_clock;
using Mat4 = Eigen::Matrix4d;
using Vec4 = Eigen::Vector4d;  // place, speed, angle, angular speed: m, m/s, rad, rad/s
using Vec2 = Eigen::Vector2d;  // place and angle as measured

constexpr double dt = 1e-4, limit = 15;  // s, N
constexpr int steps = 15'000;

// ---- the plant ------------------------------------------------------------------------------------------------------

constexpr double cart = 1, pole = 0.2, length = 0.5, gravity = 9.81;  // kg, kg, m, m/s^2

Vec4 moved(const Vec4& x, double force) {
  const double s = std::sin(x[2]), c = std::cos(x[2]), mass = cart + pole * s * s;
  const double push = (force + pole * s * (length * x[3] * x[3] - gravity * c)) / mass;
  return x + dt * Vec4(x[1], push, x[3], (gravity * s - push * c) / length);
}

/// Linear around the upright pole: x' = a x + b force, measured = c x.
struct Model {
  Mat4 a = Mat4::Identity();
  Vec4 b{0, dt / cart, 0, -dt / (cart * length)};
  Eigen::Matrix<double, 2, 4> c = Eigen::Matrix<double, 2, 4>::Zero();
  Model() {
    a(0, 1) = a(2, 3) = dt;
    a(1, 2) = -dt * pole * gravity / cart;
    a(3, 2) = dt * (cart + pole) * gravity / (cart * length);
    c(0, 0) = c(1, 2) = 1;
  }
};

/// The gain that is best in the long run: the Riccati equation, step by step.
template <int Inputs>
Eigen::Matrix<double, Inputs, 4> best_gain(const Mat4& a, const Eigen::Matrix<double, 4, Inputs>& b, const Mat4& q,
                                           const Eigen::Matrix<double, Inputs, Inputs>& r) {
  Mat4 p = q;
  Eigen::Matrix<double, Inputs, 4> k;
  for (int i = 0; i < 60'000; ++i) {
    k = (r + b.transpose() * p * b).inverse() * b.transpose() * p * a;
    p = q + a.transpose() * p * (a - b * k);
  }
  return k;
}

// ---- the controller -------------------------------------------------------------------------------------------------

struct Gains {
  Vec4 feedback;
  Eigen::Matrix<double, 4, 2> filter;
};
Gains gains_for(const Model& m) {
  const Mat4 disturbance = Vec4(1e-12, 1e-7, 1e-12, 1e-7).asDiagonal();
  return {best_gain<1>(m.a, m.b, Vec4(10, 1, 50, 1).asDiagonal(), Eigen::Matrix<double, 1, 1>(0.1)).transpose(),
          best_gain<2>(m.a.transpose(), m.c.transpose(), disturbance, Vec2(1e-6, 1e-6).asDiagonal()).transpose()};
}

/// What the controller knows after a step.
struct Estimate {
  Vec4 state = Vec4::Zero();
  double force = 0;  // N
};
Estimate by_hand(const Model& m, const Gains& gains, const Estimate& now, const Vec2& measured) {
  Estimate next;
  const Vec4 predicted = m.a * now.state + m.b * now.force;
  next.state = predicted + gains.filter * (measured - m.c * predicted);
  next.force = std::clamp(-gains.feedback.dot(next.state), -limit, limit);
  return next;
}
/// The same, compiled. What it captures are constants of its code.
auto compiled(const Model& m, const Gains& gains) {
  return jit::compile([a = copy_of(m.a), b = copy_of(m.b), c = copy_of(m.c), feedback = copy_of(gains.feedback),
                       filter = copy_of(gains.filter)](Tensor state, Scalar force, Tensor measured) {
    const Tensor predicted = matmul(a, state) + b * force;
    const Tensor next = predicted + matmul(filter, measured - matmul(c, predicted));
    return std::pair{next, clamp(-matmul(feedback, next), -limit, limit)};
  });
}

// ---- latencies ------------------------------------------------------------------------------------------------------

struct Latencies {
  std::vector<double> nanoseconds;
  Latencies() { nanoseconds.reserve(steps); }
  template <class F>
  void time(const F& run) {
    const Clock::time_point start = Clock::now();
    run();
    nanoseconds.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  long long between(double low, double high) const {
    return std::count_if(nanoseconds.begin(), nanoseconds.end(), [&](double x) { return low <= x && x < high; });
  }
  void print(const char* name) {
    std::sort(nanoseconds.begin(), nanoseconds.end());
    std::printf("%-15s", name);
    for (const double share : {0.5, 0.9, 0.99, 0.999, 0.9999, 1.0})
      std::printf(" %8.0f", nanoseconds[static_cast<std::size_t>(share * (steps - 1))]);
    std::printf("\n");
  }
};

void print(Latencies& empty, Latencies& eigen, Latencies& sinter) {
  std::printf("calls that took         empty    Eigen   Sinter\n");
  for (double low = 0, high = 64; low < 65'536; low = high, high *= 4) {
    const double end = high <= 65'536 ? high : 1e18;
    std::printf("from %6.0f ns up    %8lld %8lld %8lld\n", low, empty.between(low, end), eigen.between(low, end),
                sinter.between(low, end));
  }
  std::printf("nanoseconds          p50      p90      p99    p99.9   p99.99    worst\n");
  empty.print("empty");
  eigen.print("Eigen by hand");
  sinter.print("Sinter");
}

/// The user's part of the contract. Both want rights that a process may not have.
void become_real_time() {
  const bool is_locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
  sched_param priority{};
  priority.sched_priority = 50;
  const bool is_first = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
  std::printf("memory locked: %s; priority: %s\n", is_locked ? "yes" : "no", is_first ? "real-time" : "as others");
}

}  // namespace

int main(int count, char** arguments) {
  const Model model;
  const Gains gains = gains_for(model);
  const auto step = compiled(model, gains);
  Estimate now, next;
  Vec2 measured = Vec2::Zero();
  step.warm_up(now.state, now.force, measured);
  step.freeze();
  if (count > 1 && std::string_view(arguments[1]) == "--real-time") become_real_time();

  std::mt19937 engine(7);
  std::normal_distribution<double> noise(0, 1e-3);
  Vec4 plant(0, 0, 0.1, 0);
  Latencies empty, eigen, sinter;
  Estimate hand;
  double difference = 0;
  Clock::time_point wake = Clock::now();
  for (int i = 0; i < steps; ++i) {
    std::this_thread::sleep_until(wake += std::chrono::microseconds(100));
    measured = model.c * plant + Vec2(noise(engine), noise(engine));
    empty.time([] {});
    eigen.time([&] { hand = by_hand(model, gains, now, measured); });
    sinter.time([&] { step.into(next.state, borrow_mut(&next.force, {}))(now.state, now.force, measured); });
    difference = std::max(difference, (next.state - hand.state).norm() + std::abs(next.force - hand.force));
    std::swap(now, next);
    plant = moved(plant, now.force);
  }

  const bool stands = std::abs(plant[2]) < 0.05, agrees = difference < 1e-9;
  std::printf("after %.1f s the pole stands: %s\n", steps * dt, stands ? "yes" : "NO");
  std::printf("as Eigen by hand: %s; compiled %lld time, misses %lld\n", agrees ? "yes" : "NO",
              static_cast<long long>(step.stats().compiles), static_cast<long long>(step.stats().frozen_misses));
  print(empty, eigen, sinter);
  return stands && agrees ? 0 : 1;
}
