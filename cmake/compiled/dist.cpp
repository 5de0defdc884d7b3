// A translation unit of sinter::compiled: programs of several ranks.
#include <sinter/src_dist.hpp>
