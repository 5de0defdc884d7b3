// A translation unit of sinter::compiled: kernel.
#include <sinter/src_kernel.hpp>
