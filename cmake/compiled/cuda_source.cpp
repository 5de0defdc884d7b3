// A translation unit of sinter::compiled: the texts of CUDA kernels.
#include <sinter/src_cuda_source.hpp>
