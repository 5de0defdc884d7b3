// Elementwise functions that take as many steps as their arguments need, for which kernels have no loop: the host runs
// them. Operands are of one shape and dtype, f64 (i64 of gcd); functions convert. Numbers of random distributions are
// made of a uniform number in [0, 1) that each element is given: it starts a generator of its own, so that results do
// not depend on who runs them.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// The greatest common divisor, not negative; i64.
struct Gcd {
  static constexpr OpInfo info{.name = "gcd", .arity = 2, .kind = OpKind::structured, .is_cheap = false};
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static Batched batch(const BatchArgs& a);
};

/// Bessel functions of the first and second kind, modified ones of the second kind, and these times e^x.
enum class BesselFunction : std::uint8_t { j0, j1, y0, y1, k0, k1, k0e, k1e };
struct Bessel {
  static constexpr OpInfo info{.name = "bessel", .arity = 1, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<BesselFunction> function{"function", 0, "j0 j1 y0 y1 k0 k1 k0e k1e"};
  static constexpr auto attributes = attribute_list(function);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// The regularised incomplete gamma functions of a and x, the lower one and the upper one, and the derivative of the
/// lower one by x. There is no derivative by a.
enum class IncompleteGammaPart : std::uint8_t { lower, upper, slope };
struct IncompleteGamma {
  static constexpr OpInfo info{.name = "incomplete_gamma", .arity = 2, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<IncompleteGammaPart> part{"part", 0, "lower upper slope"};
  static constexpr auto attributes = attribute_list(part);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// How many events there are where `rate` are expected; NaN for rates below 0. Of a rate and a uniform number.
struct PoissonSample {
  static constexpr OpInfo info{.name = "poisson_sample", .arity = 2, .kind = OpKind::structured, .is_cheap = false};
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static Batched batch(const BatchArgs& a);
};

/// How many of n trials succeed, each with the probability p; NaN for n that are not whole or below 0, and for p out of
/// [0, 1]. Of n, p and a uniform number.
struct BinomialSample {
  static constexpr OpInfo info{.name = "binomial_sample", .arity = 3, .kind = OpKind::structured, .is_cheap = false};
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static Batched batch(const BatchArgs& a);
};

/// A number of the gamma distribution with this shape parameter and scale 1, or its logarithm, which small parameters
/// need; NaN for parameters that are not positive. Of the parameter and a uniform number. Its derivative is that of the
/// quantile ("implicit reparameterisation", Figurnov, Mohamed and Mnih 2018).
struct GammaSample {
  static constexpr OpInfo info{.name = "gamma_sample", .arity = 2, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<bool> logarithm{"logarithm", 0};
  static constexpr auto attributes = attribute_list(logarithm);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// How the logarithm of a gamma number changes with its parameter where its probability is kept; of the parameter and
/// the logarithm.
struct GammaSlope {
  static constexpr OpInfo info{
      .name = "gamma_slope", .arity = 2, .kind = OpKind::structured, .is_cheap = false, .has_gradient = false};
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
