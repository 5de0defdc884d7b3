// Every definition of solvers. Included by sinter.hpp when header-only, else by one translation unit: see src.hpp.
#pragma once
// solvers
#include <sinter/solvers/interpolate.ipp>
#include <sinter/solvers/linear.ipp>
#include <sinter/solvers/lobpcg.ipp>
#include <sinter/solvers/minimize.ipp>
#include <sinter/solvers/ode.ipp>
#include <sinter/solvers/quad.ipp>
#include <sinter/solvers/root.ipp>
