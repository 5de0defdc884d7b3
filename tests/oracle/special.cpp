// Special functions, by name, and what docs/op_coverage.md puts together for names that have no function.
#include "functions.hpp"

namespace sinter_test {
namespace {

constexpr double inf = INFINITY;

Polynomial family(const Args& a) {
  constexpr std::pair<std::string_view, Polynomial> names[] = {
      {"chebyshev_t", Polynomial::chebyshev_t},
      {"chebyshev_u", Polynomial::chebyshev_u},
      {"chebyshev_v", Polynomial::chebyshev_v},
      {"chebyshev_w", Polynomial::chebyshev_w},
      {"shifted_chebyshev_t", Polynomial::shifted_chebyshev_t},
      {"shifted_chebyshev_u", Polynomial::shifted_chebyshev_u},
      {"shifted_chebyshev_v", Polynomial::shifted_chebyshev_v},
      {"shifted_chebyshev_w", Polynomial::shifted_chebyshev_w},
      {"hermite_h", Polynomial::hermite_h},
      {"hermite_he", Polynomial::hermite_he},
      {"laguerre_l", Polynomial::laguerre_l},
      {"legendre_p", Polynomial::legendre_p},
  };
  for (const auto& [name, value] : names)
    if (name == a.at.word("family")) return value;
  throw std::runtime_error("no polynomial: " + a.at.word("family"));
}

NamedFunctions scalar_functions() {
  return {
      {"erfcx", [](const Args& a) -> Tensor { return erfcx(a[0]); }},
      {"igamma", [](const Args& a) -> Tensor { return igamma(stop_gradient(a[0]), a[1]); }},
      {"igammac", [](const Args& a) -> Tensor { return igammac(stop_gradient(a[0]), a[1]); }},
      {"log_ndtr", [](const Args& a) -> Tensor { return log_ndtr(a[0]); }},
      {"ndtri", [](const Args& a) -> Tensor { return ndtri(a[0]); }},
      {"zeta", [](const Args& a) -> Tensor { return zeta(a[0], a[1]); }},
      {"multigammaln", [](const Args& a) -> Tensor { return multigammaln(a[0], a.at.axis("dimensions")); }},
      {"bessel_j0", [](const Args& a) -> Tensor { return bessel_j0(a[0]); }},
      {"bessel_j1", [](const Args& a) -> Tensor { return bessel_j1(a[0]); }},
      {"bessel_y0", [](const Args& a) -> Tensor { return bessel_y0(a[0]); }},
      {"bessel_y1", [](const Args& a) -> Tensor { return bessel_y1(a[0]); }},
      {"bessel_k0", [](const Args& a) -> Tensor { return bessel_k0(a[0]); }},
      {"bessel_k1", [](const Args& a) -> Tensor { return bessel_k1(a[0]); }},
      {"bessel_k0e", [](const Args& a) -> Tensor { return bessel_k0e(a[0]); }},
      {"bessel_k1e", [](const Args& a) -> Tensor { return bessel_k1e(a[0]); }},
      {"polygamma 1", [](const Args& a) -> Tensor { return polygamma(1, a[0]); }},
      {"polygamma 2", [](const Args& a) -> Tensor { return polygamma(2, a[0]); }},
      {"polygamma 4", [](const Args& a) -> Tensor { return polygamma(4, a[0]); }},
      {"polynomial", [](const Args& a) -> Tensor { return polynomial(a[0], family(a), a.at.axis("degree")); }},
  };
}

/// What the mask takes along axis 1, the first two in any case; NaN for the rest.
Tensor taken_with_two(const Args& a) {
  return where(logical_or(a[1], arange(a[1].shape()[1].value()) < 2), a[0], NAN);
}

NamedFunctions masked_functions() {
  return {
      {"masked.sum", [](const Args& a) -> Tensor { return sum(where(a[1], a[0], 0), 1); }},
      {"masked.prod", [](const Args& a) -> Tensor { return prod(where(a[1], a[0], 1), 1); }},
      {"masked.amax", [](const Args& a) -> Tensor { return amax(where(a[1], a[0], -inf), 1); }},
      {"masked.amin", [](const Args& a) -> Tensor { return amin(where(a[1], a[0], inf), 1); }},
      {"masked.argmax", [](const Args& a) -> Tensor { return argmax(where(a[1], a[0], -inf), 1); }},
      {"masked.argmin", [](const Args& a) -> Tensor { return argmin(where(a[1], a[0], inf), 1); }},
      {"masked.cumsum", [](const Args& a) -> Tensor { return cumsum(where(a[1], a[0], 0), 1); }},
      {"masked.cumprod", [](const Args& a) -> Tensor { return cumprod(where(a[1], a[0], 1), 1); }},
      {"masked.mean", [](const Args& a) -> Tensor { return nanmean(where(a[1], a[0], NAN), 1); }},
      {"masked.var",
       [](const Args& a) -> Tensor {
         return nanvar(taken_with_two(a), 1, {.correction = a.at.number("correction")});
       }},
      {"masked.std",
       [](const Args& a) -> Tensor {
         return nanstddev(taken_with_two(a), 1, {.correction = a.at.number("correction")});
       }},
      {"masked.median", [](const Args& a) -> Tensor { return nanmedian(where(a[1], a[0], NAN), 1).values; }},
      {"masked.norm", [](const Args& a) -> Tensor { return norm(where(a[1], a[0], 0), 1, {.p = 3}); }},
      {"masked.normalize",
       [](const Args& a) -> Tensor { return normalize(where(a[1], a[0], 0), {.p = 3, .axis = 1}); }},
      {"masked.softmax", [](const Args& a) -> Tensor { return softmax(where(a[1], a[0], -inf), 1); }},
      {"masked.softmin", [](const Args& a) -> Tensor { return softmax(where(a[1], -a[0], -inf), 1); }},
      {"masked.log_softmax", [](const Args& a) -> Tensor { return log_softmax(where(a[1], a[0], -inf), 1); }},
      {"masked.logsumexp", [](const Args& a) -> Tensor { return logsumexp(where(a[1], a[0], -inf), 1); }},
      {"masked.logaddexp",
       [](const Args& a) -> Tensor { return logaddexp(where(a[1], a[0], -inf), where(a[1], -a[0], -inf)); }},
  };
}

NamedFunctions composed_functions() {
  return {
      {"angle",
       [](const Args& a) -> Tensor { return where(a[0] < 0, 3.141592653589793, where(isnan(a[0]), a[0], 0)); }},
      {"special.spherical_bessel_j0", [](const Args& a) -> Tensor { return sinc(a[0] / 3.141592653589793); }},
      {"select_scatter",
       [](const Args& a) -> Tensor {
         Tensor u = a[0];
         u.at(all, a.at.whole("at")) = a[1];
         return u;
       }},
      {"slice_scatter",
       [](const Args& a) -> Tensor {
         Tensor u = a[0];
         u.at(all, slice(a.at.whole("start"), a.at.whole("stop"), a.at.whole("step"))) = a[1];
         return u;
       }},
      {"diagonal_scatter",
       [](const Args& a) -> Tensor {
         Tensor u = a[0];
         const Tensor i = arange(a[1].size(0));
         u.at(i, i) = a[1];
         return u;
       }},
      {"fft.fftshift", [](const Args& a) -> Tensor { return roll(a[0], a[0].shape()[0].value() / 2, 0); }},
      {"triplet_margin_with_distance_loss",
       [](const Args& a) -> Tensor {
         return mean(relu(pairwise_distance(a[0], a[1]) - pairwise_distance(a[0], a[2]) + 1));
       }},
  };
}

}  // namespace

NamedFunctions special_functions() { return joined({scalar_functions(), masked_functions(), composed_functions()}); }

}  // namespace sinter_test
