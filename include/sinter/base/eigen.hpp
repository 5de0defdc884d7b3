// Eigen for our .ipp files, which alone include this. When Sinter is compiled once, Eigen is taken under a name of our
// own: its inline functions must not be merged by the linker with those of users' files, which may be built for another
// instruction set.
#pragma once

#include <sinter/base/config.hpp>

#if defined(SINTER_SEPARATE_COMPILATION) && !defined(EIGEN_CORE_H)
#define Eigen sinter_private_eigen
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
SINTER_NAMESPACE_BEGIN
namespace base_detail {
namespace eigen = ::Eigen;
}
SINTER_NAMESPACE_END
#undef Eigen
#else
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
SINTER_NAMESPACE_BEGIN
namespace base_detail {
namespace eigen = ::Eigen;
}
SINTER_NAMESPACE_END
#endif
