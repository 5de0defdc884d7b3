// A control loop around Eigen objects: the law is written once, kept in a member, and called every millisecond with the
// caller's own matrices and vectors. Nothing is copied in, and the result is written where it belongs.
#include <sinter/sinter.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <cstdio>

using namespace sinter;

namespace {

using Vec3 = Eigen::Matrix<double, 3, 1>;
using Mat3 = Eigen::Matrix<double, 3, 3>;

/// Computed torque with limits: torque = clamp(inertia * (kp * error - kd * rate), -limit, limit).
class Controller {
 public:
  Controller(const Mat3& inertia, double limit) : inertia_(inertia), limit_(limit) {}

  void step(const Vec3& error, const Vec3& rate, Vec3& torque) const {
    law_.into(torque)(error, rate, inertia_, kp_, kd_, limit_);
  }
  jit::Stats stats() const { return law_.stats(); }

  Vec3 by_hand(const Vec3& error, const Vec3& rate) const {
    return (inertia_ * (kp_ * error - kd_ * rate)).cwiseMax(-limit_).cwiseMin(limit_);
  }

 private:
  Mat3 inertia_;
  double kp_ = 25, kd_ = 10, limit_;
  jit::Function<Tensor(Tensor, Tensor, Tensor, Scalar, Scalar, Scalar)> law_ =
      jit::compile([](Tensor error, Tensor rate, Tensor inertia, Scalar kp, Scalar kd, Scalar limit) {
        return clamp(matmul(inertia, kp * error - kd * rate), -limit, limit);
      });
};

}  // namespace

int main() {
  Mat3 inertia;
  inertia << 2.0, 0.3, 0.0, 0.3, 1.5, 0.1, 0.0, 0.1, 0.8;
  const Mat3 inverse = inertia.inverse();
  const Controller controller(inertia, 20.0);
  const Vec3 target(0.5, -0.25, 1.0);
  Vec3 position = Vec3::Zero(), velocity = Vec3::Zero(), torque = Vec3::Zero();

  const double dt = 1e-3;
  double worst = 0;
  std::printf("   t  position                 torque\n");
  for (int i = 0; i <= 2500; ++i) {
    const Vec3 error = target - position;
    controller.step(error, velocity, torque);
    worst = std::max(worst, (torque - controller.by_hand(error, velocity)).norm());
    if (i % 500 == 0)
      std::printf("%4.1f  %7.4f %7.4f %7.4f  %7.3f %7.3f %7.3f\n", i * dt, position[0], position[1], position[2],
                  torque[0], torque[1], torque[2]);
    velocity += dt * (inverse * torque);
    position += dt * velocity;
  }
  std::printf("compiled %lld time; as Eigen by hand: %s\n", static_cast<long long>(controller.stats().compiles),
              worst < 1e-12 ? "yes" : "NO");
  return worst < 1e-12 && (position - target).norm() < 1e-2 ? 0 : 1;
}
