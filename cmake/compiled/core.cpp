// One of the four translation units of sinter::compiled: base to passes.
#include <sinter/src_core.hpp>
