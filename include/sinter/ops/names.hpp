// The names of the ops that expressions are made of, and how the OpInfo of an op is reached by its name alone: users'
// files name ops, and never read what one is. That is defined in the file of its family.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN

struct OpInfo;

/// The one OpInfo of op `Op`; its address is the op's identity. Defined in ops/op.hpp.
template <class Op>
struct OpInfoOf {
  static const OpInfo info;
};

/// Of the functions that are in expr/elementwise.hpp.
#define SINTER_MORE_EXPRESSION_OPS(use)                                                                            \
  use(Expm1) use(Exp2) use(Log1p) use(Log2) use(Log10) use(Tan) use(Asin) use(Acos) use(Atan) use(Atan2) use(Sinh) \
      use(Cosh) use(Asinh) use(Acosh) use(Atanh) use(Cbrt) use(Hypot) use(Logaddexp) use(Logaddexp2) use(Logit)    \
          use(Xlogy) use(Xlog1py) use(Lerp) use(IsNan) use(IsInf) use(IsFinite) use(IsPosInf) use(IsNegInf)        \
              use(Signbit) use(Copysign) use(Nextafter) use(Ldexp) use(LeftShift) use(RightShift) use(Popcount)    \
                  use(Fmod) use(Heaviside) use(Softplus) use(Logsigmoid) use(Mish) use(Softsign) use(Hardsigmoid)  \
                      use(Hardswish) use(Tanhshrink) use(LeakyRelu) use(Elu) use(Hardshrink) use(Softshrink)       \
                          use(GeluTanh) use(Erfc) use(Erfinv) use(Lgamma) use(Digamma) use(Sinc) use(I0) use(I0e)  \
                              use(I1) use(I1e)

/// The ops that operators and elementwise functions name.
#define SINTER_EXPRESSION_OPS(use)                                                                                    \
  use(Neg) use(Abs) use(Sign) use(Square) use(Reciprocal) use(Sqrt) use(Rsqrt) use(Exp) use(Log) use(Sin) use(Cos)    \
      use(Tanh) use(Erf) use(Floor) use(Ceil) use(Round) use(Trunc) use(Not) use(StopGradient) use(Sigmoid) use(Relu) \
          use(Gelu) use(Silu) use(Add) use(Sub) use(Mul) use(Div) use(Rem) use(Pow) use(Maximum) use(Minimum)         \
              use(Clamp) use(ClampToNumbers) use(And) use(Or) use(Xor) use(FloorDivide) use(Eq) use(Ne) use(Lt)       \
                  use(Le) use(Gt) use(Ge) use(Where) SINTER_MORE_EXPRESSION_OPS(use)

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
