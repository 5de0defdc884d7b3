// Shape rules, decompositions and derivatives of joins.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/convolution.hpp>
#include <sinter/ops/join.hpp>
#include <sinter/ops/leaf.hpp>
#include <sinter/ops/view.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace ops {

SINTER_DECL Type UpdateSlice::infer(const InferArgs& args) {
  ops_detail::require_same_dtype(args);
  const Shape& base = args.in[0].shape;
  const Shape& value = args.in[1].shape;
  const Attrs& attrs = args.attrs;
  if (base.rank() != value.rank())
    throw ShapeError(args.op, "ranks differ: " + ops_detail::operands_text(args), args.where);
  ensure(attrs[starts].rank() == base.rank() && attrs[steps].size() == as_index(base.rank()),
         "update_slice: starts and steps are required for each axis");
  for (int i = 0; i < base.rank(); ++i) {
    const std::int64_t step = attrs[steps][as_index(i)];
    ensure(step > 0, "update_slice: steps are positive");
    if (attrs[starts][i].is_static() && attrs[starts][i].value() < 0)
      throw IndexError(args.op, "axis " + std::to_string(i) + " begins at " + attrs[starts][i].text(), args.where);
    if (!base[i].is_static() || !value[i].is_static() || !attrs[starts][i].is_static() || value[i].value() == 0)
      continue;
    if (attrs[starts][i].value() + (value[i].value() - 1) * step >= base[i].value())
      throw ShapeError(args.op,
                       value.text() + " at " + attrs[starts].text() + " does not fit axis " + std::to_string(i) +
                           " of " + base.text(),
                       args.where);
  }
  return args.in[0];
}

SINTER_DECL ValList UpdateSlice::vjp(const VjpArgs& a) {
  const Shape shape = a.in[1].shape();
  Shape ends;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t step = a.attrs[steps][as_index(i)];
    ends.push_back(ops_detail::is_zero(shape[i]) ? a.attrs[starts][i]
                                                 : a.attrs[starts][i] + (shape[i] - Dim(1)) * Dim(step) + Dim(1));
  }
  return {a.needs(0) ? update_slice(a.dout, full(a.dout, shape, a.dout.dtype(), 0), a.attrs[starts], a.attrs[steps])
                     : Val{},
          a.needs(1) ? slice(a.dout, a.attrs[starts], ends, a.attrs[steps]) : Val{}};
}

SINTER_DECL Type Pad::infer(const InferArgs& args) {
  const Shape& from = args.in[0].shape;
  const Attrs& attrs = args.attrs;
  if (attrs[low].rank() != from.rank() || attrs[high].rank() != from.rank())
    throw ShapeError(args.op,
                     "padding for " + std::to_string(attrs[low].rank()) + " axes, but the operand is " + from.text(),
                     args.where);
  Shape out;
  for (int i = 0; i < from.rank(); ++i) out.push_back(attrs[low][i] + from[i] + attrs[high][i]);
  return ops_detail::with_shape(args, out);
}

SINTER_DECL Val Pad::decompose(const DecomposeArgs& args) {
  const Val x = args.in[0];
  const Shape from = x.shape();
  Shape out;
  for (int i = 0; i < from.rank(); ++i) out.push_back(args.attrs[low][i] + from[i] + args.attrs[high][i]);
  if (identical(out, from)) return x;
  const IntVector steps(as_index(from.rank()), 1);
  return update_slice(full(x, out, x.dtype(), args.attrs.value), x, args.attrs[low], steps);
}

/// What windows of the padded value had for it is added up without its border.
SINTER_DECL ValList Pad::vjp(const VjpArgs& a) {
  const Shape from = a.in[0].shape();
  const Node& summed = a.dout.builder->node(a.dout.value);
  if (summed.op == &op_info<SumWindows> && summed.attrs[SumWindows::low].rank() == 0) {
    const Val seen{a.dout.builder, summed.inputs[0], a.dout.where};
    Attrs attrs = summed.attrs;
    attrs.shape = from;
    attrs.set(SumWindows::low, a.attrs[low]);
    attrs.set(SumWindows::high, a.attrs[high]);
    return {apply(op_info<SumWindows>, {seen}, std::move(attrs))};
  }
  Shape ends;
  for (int i = 0; i < from.rank(); ++i) ends.push_back(a.attrs[low][i] + from[i]);
  return {slice(a.dout, a.attrs[low], ends, IntVector(as_index(from.rank()), 1))};
}

SINTER_DECL Type Concat::infer(const InferArgs& args) {
  if (args.in.empty()) throw UserError(args.op, "at least one operand is required", args.where);
  const int axis = ops_detail::first_axis(args);
  Shape out = args.in[0].shape;
  for (std::size_t k = 1; k < args.in.size(); ++k) {
    ops_detail::require_same_dtype(args, 0, k);
    const Shape& next = args.in[k].shape;
    bool fits = next.rank() == out.rank();
    for (int i = 0; fits && i < out.rank(); ++i) fits = i == axis || next[i] == out[i];
    if (!fits)
      throw ShapeError(
          args.op, "operand 0 is " + args.in[0].shape.text() + ", operand " + std::to_string(k) + " is " + next.text(),
          args.where, "all extents but that of axis " + std::to_string(axis) + " must be equal");
    out.set(axis, out[axis] + next[axis]);
  }
  return ops_detail::with_shape(args, out);
}

namespace join_detail {

/// Is the value computed element by element, or there already?
inline bool is_made_by_element(Val x) {
  Value value = x.value;
  while (x.builder->node(value).op->kind == OpKind::view) value = x.builder->node(value).inputs[0];
  const OpKind kind = x.builder->node(value).op->kind;
  return kind == OpKind::elementwise || kind == OpKind::leaf;
}

/// A few columns of numbers, each made element by element, for many rows.
inline bool are_few_columns(std::span<const Val> parts, int axis) {
  constexpr std::size_t most_columns = 4;
  constexpr std::int64_t least_rows = 32;
  const Shape shape = parts[0].shape();
  const DType dtype = parts[0].dtype();
  const bool is_plain = dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
  if (!is_plain || parts.size() > most_columns || shape.rank() < 2 || axis != shape.rank() - 1) return false;
  std::int64_t rows = 1;
  for (int a = 0; a < axis; ++a)
    if (shape[a].is_static()) rows *= shape[a].value();
    else rows = std::max(rows, least_rows);
  return rows >= least_rows && std::all_of(parts.begin(), parts.end(), [&](const Val& part) {
           return identical(part.shape()[axis], Dim(1)) && is_made_by_element(part);
         });
}

/// Each element is chosen by the number of its column, so that one walk makes and stores all of them.
inline Val joined_columns(std::span<const Val> parts, const Shape& whole, int axis) {
  const Val column = iota(parts[0], whole, axis, DType::i64);
  Val out = expand(parts.back(), whole);
  for (std::size_t k = parts.size() - 1; k-- > 0;)
    out = where(eq(column, integer_number(column, static_cast<std::int64_t>(k))), expand(parts[k], whole), out);
  return out;
}

}  // namespace join_detail

SINTER_DECL Val Concat::decompose(const DecomposeArgs& args) {
  const Val first = args.in[0];
  if (args.in.size() == 1) return first;
  const int axis = normalise_axis(static_cast<int>(args.attrs.axes[0]), first.rank(), "concat", args.where);
  Shape whole = first.shape();
  for (const Val& part : args.in.subspan(1)) whole.set(axis, whole[axis] + part.shape()[axis]);
  if (join_detail::are_few_columns(args.in, axis)) return join_detail::joined_columns(args.in, whole, axis);
  const DType dtype = first.dtype();
  Val out{first.builder,
          first.builder->add(op_info<Empty>, {}, Attrs{.shape = whole, .dtype = dtype, .has_dtype = true}, args.where),
          args.where};
  Shape starts = ops_detail::zero_starts(whole.rank());
  for (const Val& part : args.in) {
    out = update_slice(out, part, starts, IntVector(as_index(whole.rank()), 1));
    starts.set(axis, starts[axis] + part.shape()[axis]);
  }
  return out;
}

SINTER_DECL ValList Concat::vjp(const VjpArgs& a) {
  const int axis = normalise_axis(static_cast<int>(a.attrs.axes[0]), a.dout.rank(), "concat", a.where);
  ValList grads;
  Dim start = 0;
  for (std::size_t k = 0; k < a.in.size(); ++k) {
    const Dim end = start + a.in[k].shape()[axis];
    grads.push_back(a.needs(k) ? slice_axis(a.dout, axis, start, end) : Val{});
    start = end;
  }
  return grads;
}

SINTER_DECL Batched UpdateSlice::batch(const BatchArgs& a) {
  return update_slice(ops_detail::with_batch(a, 0), ops_detail::with_batch(a, 1),
                      ops_detail::batched_shape(0, a.attrs[starts]), ops_detail::steps_past_batch(a.attrs[steps]));
}

SINTER_DECL Batched Pad::batch(const BatchArgs& a) {
  return pad(a.in[0], ops_detail::batched_shape(0, a.attrs[low]), ops_detail::batched_shape(0, a.attrs[high]),
             a.attrs.value);
}

SINTER_DECL Batched Concat::batch(const BatchArgs& a) {
  ValList parts;
  for (std::size_t i = 0; i < a.in.size(); ++i) parts.push_back(ops_detail::with_batch(a, i));
  return apply(op_info<Concat>, parts, Attrs{.axes = ops_detail::axes_past_batch(a.attrs.axes, parts[0].rank())});
}

}  // namespace ops
SINTER_NAMESPACE_END
