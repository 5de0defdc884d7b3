// What shape rules share: checks of operands that throw the caller's errors (op, what was given, what is required, the
// user's line, the fix), and shapes of reductions and joins. Knows no particular op.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/ops/op.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Axis `axis` of a value of rank `rank`, negative ones resolved. Throws IndexError.
int checked_axis(const InferArgs& args, std::int64_t axis, int rank);
/// attrs.axes[0], the only one, of the first operand.
int first_axis(const InferArgs& args);

void require_count(const InferArgs& args, std::size_t least, std::size_t most);
void require_rank(const InferArgs& args, std::size_t operand, int rank);
void require_floating(const InferArgs& args, std::size_t operand = 0);
void require_integer(const InferArgs& args, std::size_t operand);
/// Both operands have the same dtype.
void require_same_dtype(const InferArgs& args, std::size_t a = 0, std::size_t b = 1);

/// "a is f32[3, 4], b is f32[4]" for the operands of an error.
std::string operands_text(const InferArgs& args);

/// `shape` without (or with 1 in place of) attrs.axes.
Shape reduced_shape(const InferArgs& args, const Shape& shape);
/// Is the extent below `least`? While tracing, an extent that may be on either side is asked for, which becomes a
/// guard; where nobody can answer, it is taken to be long enough.
bool is_shorter(Dim extent, std::int64_t least);
/// What sizes, strides and paddings of windows are at most, so that no product of two overflows.
inline constexpr std::int64_t most_window_number = std::int64_t{1} << 30;
/// Throws ShapeError unless such a number, called `what`, is from `least` to that.
void require_window_number(const InferArgs& args, std::string_view what, std::int64_t number, std::int64_t least);
/// Reductions without a neutral element refuse empty axes.
void require_nonempty(const InferArgs& args, const Shape& shape);

/// Type of the first operand with another shape.
Type with_shape(const InferArgs& args, const Shape& shape);
/// Type of the first operand with another shape and dtype.
Type with_shape(const InferArgs& args, const Shape& shape, DType dtype);

/// Starts of a slice or update that begins at the first element of every axis.
inline Shape zero_starts(int rank) {
  Shape starts;
  for (int i = 0; i < rank; ++i) starts.push_back(0);
  return starts;
}

constexpr bool is_one(Dim dim) { return dim.is_static() && dim.value() == 1; }
constexpr bool is_zero(Dim dim) { return dim.is_static() && dim.value() == 0; }

}  // namespace ops_detail
SINTER_NAMESPACE_END
