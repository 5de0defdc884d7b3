// A translation unit of sinter::compiled: ops.
#include <sinter/src_ops.hpp>
