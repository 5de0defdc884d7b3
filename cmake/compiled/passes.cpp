// A translation unit of sinter::compiled: autodiff and passes.
#include <sinter/src_passes.hpp>
