// Marks: what the user knows about the axes of a tensor. A mark belongs to a value: it travels with copies of the
// handle, and not to what is computed from it. It takes effect when a compiled function compiles for that value; a call
// that some compiled version fits runs it, marks or not.
#pragma once

#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// The extents that an axis may have, both ends included.
struct ExtentRange {
  std::int64_t min = 0;
  std::int64_t max = std::int64_t{1} << 60;
};

/// The extent of `axis` will vary within `range`: functions called with `x` compile with a symbol there from the start.
/// (Extents 0 and 1 are versions of their own nevertheless.) `x` becomes a handle of the marked value; evaluates. Takes
/// precedence over Options::dynamic, and replaces earlier marks of the axis. Throws IndexError for an axis that x has
/// not, UserError for an empty range or an extent outside it; the compiling call throws UserError, with this line, if
/// the function needs one particular extent.
void mark_dynamic(Tensor& x, int axis, ExtentRange range = {}, Location where = std::source_location::current());
/// The extent of `axis` stays a number in compiled code: another extent compiles again.
void mark_static(Tensor& x, int axis, Location where = std::source_location::current());
}  // namespace jit
SINTER_NAMESPACE_END
