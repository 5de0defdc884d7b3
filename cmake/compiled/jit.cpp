// One of the four translation units of sinter::compiled: jit, and what stands on it.
#include <sinter/src_jit.hpp>
