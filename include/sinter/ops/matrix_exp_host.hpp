// Exponentials of matrices on the host.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/host_call.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// e^a of each matrix of the operand, whose elements are T (f32, f64), side by side on threads.
template <class T>
void exponential_of_all(HostCall& call);

}  // namespace ops_detail
SINTER_NAMESPACE_END
