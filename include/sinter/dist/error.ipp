// The name under which the error is shown.
#pragma once

#include <sinter/dist/error.hpp>

SINTER_NAMESPACE_BEGIN
namespace dist {

SINTER_DECL DistError::DistError(Kind kind, std::string_view op, std::string_view what, Location where,
                                 std::string_view fix)
    : UserError("DistError", op, what, where, fix), kind_(kind) {}

}  // namespace dist
SINTER_NAMESPACE_END
