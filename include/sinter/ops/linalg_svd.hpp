// Singular values by Eigen's divide and conquer, whose versions take the wanted vectors in different ways. Must not
// know what asks for them.
#pragma once

#include <sinter/base/eigen.hpp>
#include <sinter/ops/linalg.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

using WideMatrix = base_detail::eigen::Matrix<double, base_detail::eigen::Dynamic, base_detail::eigen::Dynamic>;
#if EIGEN_VERSION_AT_LEAST(3, 4, 90)
/// The vectors are part of the decomposition's type.
class WideSvd {
 public:
  /// False: it did not converge.
  bool compute(const WideMatrix& matrix, SvdVectors vectors) {
    namespace eigen = base_detail::eigen;
    switch (vectors) {
      case SvdVectors::none: return compute_with<0>(matrix);
      case SvdVectors::thin: return compute_with < eigen::ComputeThinU | eigen::ComputeThinV > (matrix);
      case SvdVectors::full: return compute_with < eigen::ComputeFullU | eigen::ComputeFullV > (matrix);
    }
    __builtin_unreachable();
  }
  const WideMatrix& values() const { return values_; }
  const WideMatrix& left() const { return left_; }
  const WideMatrix& right() const { return right_; }

 private:
  template <int options>
  bool compute_with(const WideMatrix& matrix) {
    const base_detail::eigen::BDCSVD<WideMatrix, options> found(matrix);
    values_ = found.singularValues();
    if constexpr (options != 0) {
      left_ = found.matrixU();
      right_ = found.matrixV();
    }
    return found.info() == base_detail::eigen::Success;
  }
  WideMatrix values_, left_, right_;
};
#else
class WideSvd {
 public:
  /// False: it did not converge.
  bool compute(const WideMatrix& matrix, SvdVectors vectors) {
    namespace eigen = base_detail::eigen;
    const unsigned options = vectors == SvdVectors::none   ? 0U
                             : vectors == SvdVectors::full ? unsigned{eigen::ComputeFullU} | eigen::ComputeFullV
                                                           : unsigned{eigen::ComputeThinU} | eigen::ComputeThinV;
    decomposition_.compute(matrix, options);
    return decomposition_.info() == eigen::Success;
  }
  const auto& values() const { return decomposition_.singularValues(); }
  const auto& left() const { return decomposition_.matrixU(); }
  const auto& right() const { return decomposition_.matrixV(); }

 private:
  base_detail::eigen::BDCSVD<WideMatrix> decomposition_;
};
#endif

}  // namespace ops_detail
SINTER_NAMESPACE_END
