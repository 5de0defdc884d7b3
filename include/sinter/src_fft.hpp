// Every definition of Fourier transforms: ops, how the host computes them, and functions. Included by sinter.hpp when
// header-only, else by one translation unit: see src.hpp.
#pragma once
// ops
#include <sinter/ops/fft.ipp>
#include <sinter/ops/fft_host.ipp>
#include <sinter/ops/fft_plan.ipp>
// expr
#include <sinter/expr/fft.ipp>
#include <sinter/expr/fft_signal.ipp>
