// Matrix product. Everything that contracts (convolution, attention) is computed by it.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// matmul(a, b): a [batch..., m, k], b [batch..., k, n] -> [batch..., m, n].
struct Matmul {
  static constexpr OpInfo info{.name = "matmul", .arity = 2, .kind = OpKind::structured, .is_cheap = false};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a) {
    return {a.needs(0) ? matmul(a.dout, transpose(a.in[1])) : Val{},
            a.needs(1) ? matmul(transpose(a.in[0]), a.dout) : Val{}};
  }
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
