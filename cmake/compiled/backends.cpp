// One of the four translation units of sinter::compiled: the back ends.
#include <sinter/src_backends.hpp>
