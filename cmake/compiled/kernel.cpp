// One of the four translation units of sinter::compiled: kernel and runtime.
#define SINTER_SOURCE_PART 2
#include <sinter/src.hpp>
