// The names of the ops that expressions are made of, and how the OpInfo of an op is reached by its name alone: users'
// files name ops, and never read what one is. That stands in the file of its family.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN

struct OpInfo;

/// The one OpInfo of op `Op`; its address is the op's identity. Defined in ops/op.hpp.
template <class Op>
struct OpInfoOf {
  static const OpInfo info;
};

/// The ops that operators and elementwise functions name.
#define SINTER_EXPRESSION_OPS(use)                                                                                    \
  use(Neg) use(Abs) use(Sign) use(Square) use(Reciprocal) use(Sqrt) use(Rsqrt) use(Exp) use(Log) use(Sin) use(Cos)    \
      use(Tanh) use(Erf) use(Floor) use(Ceil) use(Round) use(Trunc) use(Not) use(StopGradient) use(Sigmoid) use(Relu) \
          use(Gelu) use(Silu) use(Add) use(Sub) use(Mul) use(Div) use(Rem) use(Pow) use(Maximum) use(Minimum)         \
              use(Clamp) use(ClampToNumbers) use(And) use(Or) use(Xor) use(FloorDivide) use(Eq) use(Ne) use(Lt)       \
                  use(Le) use(Gt) use(Ge) use(Where)

namespace ops {
#define SINTER_DECLARE_OP(Op) struct Op;
SINTER_EXPRESSION_OPS(SINTER_DECLARE_OP)
#undef SINTER_DECLARE_OP
}  // namespace ops

#ifdef SINTER_SEPARATE_COMPILATION  // the library has their OpInfos: see ops/registry.ipp
#define SINTER_DECLARE_OP_INFO(Op) extern template struct OpInfoOf<ops::Op>;
SINTER_EXPRESSION_OPS(SINTER_DECLARE_OP_INFO)
#undef SINTER_DECLARE_OP_INFO
#endif

SINTER_NAMESPACE_END
