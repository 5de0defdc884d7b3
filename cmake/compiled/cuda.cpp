// A translation unit of sinter::compiled: the CUDA back end.
#include <sinter/src_cuda.hpp>
