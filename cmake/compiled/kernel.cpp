// One of the four translation units of sinter::compiled: kernel and runtime.
#include <sinter/src_kernel.hpp>
