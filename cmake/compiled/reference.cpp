// A translation unit of sinter::compiled: the reference back end.
#include <sinter/src_reference.hpp>
