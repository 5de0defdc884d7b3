// One of the four translation units of sinter::compiled: the back ends.
#define SINTER_SOURCE_PART 3
#include <sinter/src.hpp>
