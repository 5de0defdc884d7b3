// A translation unit of sinter::compiled: jit, and what stands on it.
#include <sinter/src_jit.hpp>
