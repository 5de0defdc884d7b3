// Statistics over axes, norms and distances, and what tells whether tensors agree. Names follow PyTorch and NumPy.
// `axes` that are not given are all; integers become f32 where the result is not integral.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <limits>
#include <string>

SINTER_NAMESPACE_BEGIN

struct VarOptions {
  double correction = 0;  // what the number of elements is lessened by: 1 is Bessel's
  Keep keep = Keep::no;
};
Tensor var(const In& x, Axes axes, VarOptions options);
/// The square root of `var`; its derivative is 0 where that is 0.
Tensor stddev(const In& x, Axes axes = {}, VarOptions options = {});

/// (sum of |x|^p)^(1/p). p 0 counts what is not 0; infinities give the largest or smallest |x|.
struct NormOptions {
  double p = 2;
  Keep keep = Keep::no;
};
Tensor norm(const In& x, Axes axes = {}, NormOptions options = {});

// Without NaN. Of nothing else the mean and the extremes are NaN, the sum is 0.
Tensor nansum(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor nanmean(const In& x, Axes axes = {}, Keep keep = Keep::no);
/// NaN where there are no more numbers than the correction.
Tensor nanvar(const In& x, Axes axes = {}, VarOptions options = {});
Tensor nanstddev(const In& x, Axes axes = {}, VarOptions options = {});
Tensor nanmax(const In& x, Axes axes = {}, Keep keep = Keep::no);
Tensor nanmin(const In& x, Axes axes = {}, Keep keep = Keep::no);
/// How many elements are not 0 (i64).
Tensor count_nonzero(const In& x, Axes axes = {}, Keep keep = Keep::no);
/// log(sum of e^x); of no elements -infinity.
Tensor logsumexp(const In& x, Axes axes, Keep keep = Keep::no);
/// The largest less the smallest.
Tensor ptp(const In& x, Axes axes = {}, Keep keep = Keep::no);
/// The smallest and the largest, with the same axes.
struct MinMax {
  Tensor min, max;
};
MinMax aminmax(const In& x, Axes axes = {}, Keep keep = Keep::no);
struct VarMean {
  Tensor var, mean;
};
VarMean var_mean(const In& x, Axes axes = {}, VarOptions options = {});
struct StdMean {
  Tensor stddev, mean;
};
StdMean std_mean(const In& x, Axes axes = {}, VarOptions options = {});
/// norm(a - b) over all elements.
Tensor vector_distance(const In& a, const In& b, double p = 2);
/// The distances norm(x[i] - x[j]) of the rows i < j of a matrix, in row-major order.
Tensor pdist(const In& x, double p = 2);
/// sum(x * weights) / sum(weights). Weights broadcast to x; of rank 1 and one axis they lie along that.
Tensor average(const In& x, const In& weights, Axes axes = {}, Keep keep = Keep::no);

struct CovOptions {
  double correction = 1;
  Optional<Tensor> fweights{};  // how often each observation counts: whole numbers
  Optional<Tensor> aweights{};  // how important each observation is
};
/// Covariances of the rows of x [variables, observations]; of rank 1 it is one variable. numpy.cov, torch.cov.
Tensor cov(const In& x, CovOptions options = {});
template <Arithmetic N>
Tensor cov(const In& x, N correction) {
  return cov(x, CovOptions{.correction = static_cast<double>(correction), .fweights = {}, .aweights = {}});
}
/// Correlations of the rows of x, in [-1, 1].
Tensor corrcoef(const In& x);

struct NormalizeOptions {
  double p = 2;
  int axis = 1;
  double eps = 1e-12;
};
/// x / max(norm(x), eps) along an axis.
Tensor normalize(const In& x, NormalizeOptions options = {});
/// The cosine of the angle of a and b along an axis; each length counts as at least eps.
Tensor cosine_similarity(const In& a, const In& b, int axis = 1, double eps = 1e-8);
/// x with each slice along `axis` whose norm is above `largest` scaled down to it. torch.renorm.
Tensor renorm(const In& x, double p, int axis, double largest);
struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;
  Keep keep = Keep::no;
};
/// norm(a - b + eps) along the last axis.
Tensor pairwise_distance(const In& a, const In& b, PairwiseDistanceOptions options = {});

/// Whether two tensors agree, and where they do worst. The elements are read; true where all are within the tolerance.
struct Agreement {
  std::string problem;          // "shapes (2,) and (3,)"; empty where elements could be compared
  std::int64_t mismatches = 0;  // elements that are too far apart
  std::int64_t elements = 0;
  std::vector<std::int64_t> worst;  // the index of the element with the largest difference, of a NaN alone first
  double a = 0, b = 0;              // there; of complex numbers the real parts
  double a_imag = 0, b_imag = 0;
  bool is_complex = false;
  double difference = 0;
  explicit operator bool() const { return problem.empty() && mismatches == 0; }
  /// "3 of 12 elements differ, most at (1, 2): 0.5 and 0.25", or "agree".
  std::string text() const;
};
/// Writes text().
std::ostream& operator<<(std::ostream& out, const Agreement& agreement);
struct AllcloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};
/// |a - b| <= atol + rtol |b| for every element; shapes must be the same.
Agreement allclose(const In& a, const In& b, AllcloseOptions options = {});
/// a == b for every element, exactly; shapes must be the same, dtypes need not.
Agreement array_equal(const In& a, const In& b);

SINTER_NAMESPACE_END
