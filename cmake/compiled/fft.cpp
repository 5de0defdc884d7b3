// A translation unit of sinter::compiled: Fourier transforms.
#include <sinter/src_fft.hpp>
