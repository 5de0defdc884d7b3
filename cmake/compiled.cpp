// The one translation unit of sinter::compiled: every non-template definition of the library.
#include <sinter/src.hpp>
