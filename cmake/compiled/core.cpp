// One of the four translation units of sinter::compiled: base to passes.
#define SINTER_SOURCE_PART 1
#include <sinter/src.hpp>
