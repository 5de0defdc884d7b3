// A translation unit of sinter::compiled: configuration, and what finds faults.
#include <sinter/src_debug.hpp>
