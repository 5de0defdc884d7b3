// One of the four translation units of sinter::compiled: jit, and what stands on it.
#define SINTER_SOURCE_PART 4
#include <sinter/src.hpp>
