// Every definition of how factorisations are computed. Included by sinter.hpp when header-only, else by one translation
// unit: see src.hpp.
#pragma once
// ops
#include <sinter/ops/linalg_complex_host.ipp>
#include <sinter/ops/linalg_host.ipp>
#include <sinter/ops/linalg_small.ipp>
#include <sinter/ops/matrix_exp_host.ipp>
#include <sinter/ops/symmetric_eigen.ipp>
