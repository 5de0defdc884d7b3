// Operand checks of shape rules.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/infer.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

SINTER_DECL int checked_axis(const InferArgs& args, std::int64_t axis, int rank) {
  const std::int64_t clamped = std::max<std::int64_t>(std::min<std::int64_t>(axis, 1 << 20), -(1 << 20));
  return normalise_axis(static_cast<int>(clamped), rank, args.op, args.where);
}

SINTER_DECL int first_axis(const InferArgs& args) {
  if (args.attrs.axes.size() != 1)
    throw IndexError(args.op, "one axis is required, not " + std::to_string(args.attrs.axes.size()), args.where);
  return checked_axis(args, args.attrs.axes[0], args.in[0].shape.rank());
}

SINTER_DECL std::string operands_text(const InferArgs& args) {
  std::string text;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    text += i ? ", " : "";
    if (args.in.size() > 1) {
      text += static_cast<char>('a' + static_cast<int>(i % 26));
      text += " is ";
    }
    text += args.in[i].text();
  }
  return text;
}

SINTER_DECL void require_count(const InferArgs& args, std::size_t least, std::size_t most) {
  if (args.in.size() >= least && args.in.size() <= most) return;
  std::string wanted = least == most ? std::to_string(least) : "at least " + std::to_string(least);
  throw UserError(args.op, "got " + std::to_string(args.in.size()) + " operands, " + wanted + " required", args.where);
}

SINTER_DECL void require_rank(const InferArgs& args, std::size_t operand, int rank) {
  if (args.in[operand].shape.rank() == rank) return;
  throw ShapeError(args.op,
                   "operand " + std::to_string(operand) + " is " + args.in[operand].text() + ", rank " +
                       std::to_string(rank) + " is required",
                   args.where);
}

SINTER_DECL void require_floating(const InferArgs& args, std::size_t operand) {
  if (is_floating(args.in[operand].dtype)) return;
  throw DTypeError(args.op,
                   "operand " + std::to_string(operand) + " is " + args.in[operand].text() + ", it must be floating",
                   args.where, "cast it to a floating dtype first: cast(x, DType::f32)");
}

SINTER_DECL void require_integer(const InferArgs& args, std::size_t operand) {
  if (is_integer(args.in[operand].dtype)) return;
  throw DTypeError(args.op,
                   "operand " + std::to_string(operand) + " is " + args.in[operand].text() + ", it must be an integer",
                   args.where, "cast it to an integer dtype first: cast(x, DType::i64)");
}

SINTER_DECL void require_same_dtype(const InferArgs& args, std::size_t a, std::size_t b) {
  if (args.in[a].dtype == args.in[b].dtype) return;
  throw DTypeError(args.op, "operands have different dtypes: " + operands_text(args), args.where,
                   "cast one of them: cast(x, DType::" +
                       std::string(name(promote(args.in[a].dtype, args.in[b].dtype, args.op, args.where))) + ")");
}

SINTER_DECL Shape reduced_shape(const InferArgs& args, const Shape& shape) {
  std::uint32_t reduced = 0;
  for (std::int64_t axis : args.attrs.axes) {
    const std::uint32_t bit = 1u << checked_axis(args, axis, shape.rank());
    if ((reduced & bit) != 0) throw IndexError(args.op, "axis " + std::to_string(axis) + " is named twice", args.where);
    reduced |= bit;
  }
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    if ((reduced >> i & 1) == 0) out.push_back(shape[i]);
    else if (args.attrs.keepdim) out.push_back(1);
  }
  return out;
}

SINTER_DECL bool is_shorter(Dim extent, std::int64_t least) {
  if (extent.is_static()) return extent.value() < least;
  if ((extent.as_symbol() >= 0 && least <= 2) || SymbolScope::current() == nullptr)
    return false;  // symbols stand for 2 and more
  return extent < Dim(least);
}

SINTER_DECL void require_window_number(const InferArgs& args, std::string_view what, std::int64_t number,
                                       std::int64_t least) {
  if (number >= least && number <= most_window_number) return;
  throw ShapeError(args.op, std::string(what) + " is " + std::to_string(number), args.where,
                   "it must be from " + std::to_string(least) + " to " + std::to_string(most_window_number));
}

SINTER_DECL void require_nonempty(const InferArgs& args, const Shape& shape) {
  for (std::int64_t axis : args.attrs.axes)
    if (is_shorter(shape[checked_axis(args, axis, shape.rank())], 1))
      throw ShapeError(args.op,
                       "axis " + std::to_string(axis) + " of " + shape.text() + " is empty and has no such element",
                       args.where);
}

SINTER_DECL Type with_shape(const InferArgs& args, const Shape& shape) {
  return with_shape(args, shape, args.in[0].dtype);
}
SINTER_DECL Type with_shape(const InferArgs& args, const Shape& shape, DType dtype) {
  shape.numel(args.where);  // throws when the number of elements overflows
  Device device = args.attrs.device;
  for (const Type& in : args.in)  // numbers on the CPU join operands on any device
    if (in.device.kind != DeviceKind::cpu) device = in.device;
  return Type{dtype, device, shape};
}

/// Promotion of all operands but a select's condition.
inline DType promoted_dtype(const OpInfo& op, const InferArgs& args) {
  DType dtype = DType::bool_;
  for (std::size_t i = op.dtypes == DTypeRule::select ? 1 : 0; i < args.in.size(); ++i)
    dtype = promote(dtype, args.in[i].dtype, args.op, args.where);
  return dtype;
}

inline DType elementwise_result_dtype(const OpInfo& op, const InferArgs& args) {
  const DType promoted = promoted_dtype(op, args);
  check_takes_bool(op, promoted, args.where);
  switch (op.dtypes) {
    case DTypeRule::promote: return promoted;
    case DTypeRule::compare: return DType::bool_;
    case DTypeRule::floating: return is_floating(promoted) ? promoted : DType::f32;
    case DTypeRule::logical:
      if (is_floating(promoted))
        throw DTypeError(args.op, "bool or integers are required: " + operands_text(args), args.where,
                         "compare first: x != 0");
      return promoted;
    case DTypeRule::select:
      if (args.in[0].dtype != DType::bool_)
        throw DTypeError(args.op, "the condition is " + args.in[0].text() + ", it must be bool", args.where,
                         "compare first: where(x != 0, a, b)");
      return promoted;
    case DTypeRule::attribute: return args.attrs.dtype;
    case DTypeRule::first: return args.in[0].dtype;
  }
  __builtin_unreachable();
}

SINTER_DECL void infer_elementwise(const OpInfo& op, const InferArgs& args, TypeList& out) {
  require_count(args, as_index(op.arity), as_index(op.arity));
  Type type{elementwise_result_dtype(op, args), {}, args.in[0].shape};
  for (std::size_t i = 1; i < args.in.size(); ++i)
    type.shape = broadcast(type.shape, args.in[i].shape, args.op, args.where);
  for (const Type& in : args.in)  // a number (rank 0 on the CPU) joins operands on any device
    if (in.device.kind != DeviceKind::cpu) type.device = in.device;
  type.shape.numel(args.where);
  out.push_back(type);
}

}  // namespace ops_detail

SINTER_NAMESPACE_END
