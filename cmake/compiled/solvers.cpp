// A translation unit of sinter::compiled: solvers of equations, minimisers, integrators.
#include <sinter/src_solvers.hpp>
