// See the header.
#pragma once

#include <sinter/jit/escape.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL void throw_traced_argument(Location where) {
  throw TraceError("disable", "a traced tensor reaches a function that is not to be traced", where,
                   "call it outside the compiled function, on values, and pass its result as an argument");
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
