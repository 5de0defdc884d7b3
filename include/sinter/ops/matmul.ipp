// Shape rule of the matrix product.
#pragma once

#include <sinter/ops/matmul.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

[[noreturn]] inline void throw_inner_sizes(const InferArgs& args) {
  const Shape &a = args.in[0].shape, &b = args.in[1].shape;
  const int rank = a.rank();
  std::string fix = "a.size(" + std::to_string(rank - 1) + ") = " + a[rank - 1].text() + " must equal b.size(" + std::to_string(rank - 2) +
                    ") = " + b[rank - 2].text();
  const std::string axes = std::to_string(rank - 2) + ", " + std::to_string(rank - 1) + ")";
  if (identical(a[rank - 1], b[rank - 1])) fix += "; matmul(a, transpose(b, " + axes + ") would fit";
  else if (identical(a[rank - 2], b[rank - 2])) fix += "; matmul(transpose(a, " + axes + ", b) would fit";
  throw ShapeError(args.op, "inner sizes differ: a is " + a.text() + ", b is " + b.text(), args.where, fix);
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Matmul::infer(const InferArgs& args) {
  ops_detail::require_same_dtype(args);
  const Shape &a = args.in[0].shape, &b = args.in[1].shape;
  const int rank = a.rank();
  if (args.in[0].dtype == DType::bool_)
    throw DTypeError(args.op, "operands are bool, numbers are required: " + ops_detail::operands_text(args), args.where);
  if (rank < 2 || b.rank() != rank)
    throw ShapeError(args.op, "a is " + a.text() + ", b is " + b.text(), args.where, "equal ranks of at least 2 are required");
  Shape out;
  for (int i = 0; i + 2 < rank; ++i) {
    if (!(a[i] == b[i]))
      throw ShapeError(
          args.op, "batch sizes differ: a is " + a.text() + ", b is " + b.text(), args.where,
          "a.size(" + std::to_string(i) + ") = " + a[i].text() + " must equal b.size(" + std::to_string(i) + ") = " + b[i].text());
    out.push_back(a[i]);
  }
  if (!(a[rank - 1] == b[rank - 2])) ops_detail::throw_inner_sizes(args);
  out.push_back(a[rank - 2]);
  out.push_back(b[rank - 1]);
  return ops_detail::with_shape(args, out);
}

}  // namespace ops
SINTER_NAMESPACE_END
