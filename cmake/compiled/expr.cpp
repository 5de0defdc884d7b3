// A translation unit of sinter::compiled: expr.
#include <sinter/src_expr.hpp>
