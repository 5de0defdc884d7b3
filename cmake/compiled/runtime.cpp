// A translation unit of sinter::compiled: runtime.
#include <sinter/src_runtime.hpp>
