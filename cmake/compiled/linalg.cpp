// A translation unit of sinter::compiled: factorisations of matrices.
#include <sinter/src_linalg.hpp>
