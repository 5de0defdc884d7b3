// A translation unit of sinter::compiled: the x86 back end.
#include <sinter/src_x86.hpp>
