// A translation unit of sinter::compiled: base, tensor and graph.
#include <sinter/src_core.hpp>
