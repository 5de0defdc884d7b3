// Shape rule of the matrix product.
#pragma once

#include <sinter/ops/batch.hpp>
#include <sinter/ops/matmul.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

[[noreturn]] inline void throw_inner_sizes(const InferArgs& args) {
  const Shape &a = args.in[0].shape, &b = args.in[1].shape;
  const int rank = a.rank();
  std::string fix = "a.size(" + std::to_string(rank - 1) + ") = " + a[rank - 1].text() + " must equal b.size(" +
                    std::to_string(rank - 2) + ") = " + b[rank - 2].text();
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
    throw DTypeError(args.op, "operands are bool, numbers are required: " + ops_detail::operands_text(args),
                     args.where);
  if (rank < 2 || b.rank() != rank)
    throw ShapeError(args.op, "a is " + a.text() + ", b is " + b.text(), args.where,
                     "equal ranks of at least 2 are required");
  Shape out;
  for (int i = 0; i + 2 < rank; ++i) {
    if (!(a[i] == b[i]))
      throw ShapeError(args.op, "batch sizes differ: a is " + a.text() + ", b is " + b.text(), args.where,
                       "a.size(" + std::to_string(i) + ") = " + a[i].text() + " must equal b.size(" +
                           std::to_string(i) + ") = " + b[i].text());
    out.push_back(a[i]);
  }
  if (!(a[rank - 1] == b[rank - 2])) ops_detail::throw_inner_sizes(args);
  out.push_back(a[rank - 2]);
  out.push_back(b[rank - 1]);
  return ops_detail::with_shape(args, out);
}

/// Where one side is the same for all examples, the batch joins the rows of one product; else it is a batch axis.
SINTER_DECL Batched Matmul::batch(const BatchArgs& a) {
  const Val x = a.in[0], y = a.in[1];
  const bool is_matrix = (a.is_batched(0) ? x.rank() - 1 : x.rank()) == 2;
  if (is_matrix && !a.is_batched(1)) {
    const Shape shape = x.shape();  // [batch, m, k]
    return reshape(matmul(reshape(x, {shape[0] * shape[1], shape[2]}), y), {shape[0], shape[1], y.shape()[1]});
  }
  if (is_matrix && !a.is_batched(0) && ops_detail::is_one(y.shape()[2])) {
    const Shape shape = y.shape();  // [batch, k, 1]: a vector for each example, that is, a row of one product
    return reshape(matmul(reshape(y, {shape[0], shape[1]}), transpose(x)), {shape[0], x.shape()[0], 1});
  }
  return matmul(ops_detail::with_batch(a, 0), ops_detail::with_batch(a, 1));
}

}  // namespace ops
SINTER_NAMESPACE_END
