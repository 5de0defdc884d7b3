// The table of ops: a new op is a line here.
#pragma once

#include <sinter/ops/linalg_complex.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/window_argmax.hpp>

#include <algorithm>
#include <array>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

template <class... Ops>
constexpr auto sorted_by_name() {
  constexpr std::size_t count = sizeof...(Ops);
  const std::array<const OpInfo*, count> infos{&op_info<Ops>...};
  const std::array<std::string_view, count> names{Ops::info.name...};  // an OpInfo itself is no constant expression
  std::array<std::size_t, count> order{};
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
  std::array<const OpInfo*, count> table{};
  for (std::size_t i = 0; i < count; ++i) table[i] = infos[order[i]];
  return table;
}

inline constexpr auto op_table = sorted_by_name<
    // leaf
    ops::Input, ops::Constant, ops::Full, ops::Empty, ops::Iota,
    // unary, activation
    ops::Neg, ops::Abs, ops::Sign, ops::Square, ops::Reciprocal, ops::Sqrt, ops::Rsqrt, ops::Exp, ops::Log, ops::Sin,
    ops::Cos, ops::Tanh, ops::Erf, ops::Floor, ops::Ceil, ops::Round, ops::Trunc, ops::Not, ops::Cast, ops::Narrow,
    ops::StopGradient, ops::Sigmoid, ops::Relu, ops::Gauss, ops::GeluSlope, ops::Gelu, ops::SiluSlope, ops::Silu,
    // elementary
    ops::Expm1, ops::Exp2, ops::Log1p, ops::Log2, ops::Log10, ops::Tan, ops::Asin, ops::Acos, ops::Atan, ops::Atan2,
    ops::Sinh, ops::Cosh, ops::Asinh, ops::Acosh, ops::Atanh, ops::Cbrt, ops::Hypot, ops::Logaddexp, ops::Logaddexp2,
    ops::Logit, ops::Xlogy, ops::Xlog1py, ops::Lerp,
    // special
    ops::Erfc, ops::Erfcx, ops::Erfinv, ops::Ndtr, ops::LogNdtr, ops::Ndtri, ops::Zeta, ops::Lgamma, ops::Digamma,
    ops::Polygamma, ops::Sinc, ops::I0, ops::I0e, ops::I1, ops::I1e,
    // bits
    ops::IsNan, ops::IsInf, ops::IsFinite, ops::IsPosInf, ops::IsNegInf, ops::Signbit, ops::Copysign, ops::Nextafter,
    ops::Ldexp, ops::FrexpFraction, ops::FrexpExponent, ops::LeftShift, ops::RightShift, ops::Popcount, ops::Bitcast,
    ops::Fmod, ops::Heaviside,
    // more activations
    ops::Softplus, ops::Logsigmoid, ops::Mish, ops::Softsign, ops::Hardsigmoid, ops::Hardswish, ops::Tanhshrink,
    ops::LeakyRelu, ops::Elu, ops::Hardshrink, ops::Softshrink, ops::GeluTanh,
    // binary, comparison
    ops::Add, ops::Sub, ops::Mul, ops::Div, ops::FloorDivide, ops::Rem, ops::Pow, ops::Maximum, ops::Minimum,
    ops::Clamp, ops::ClampToNumbers, ops::And, ops::Or, ops::Xor, ops::Eq, ops::Ne, ops::Lt, ops::Le, ops::Gt, ops::Ge,
    ops::Where, ops::SelectGradient,
    // elementwise on the host
    ops::Gcd, ops::Bessel, ops::IncompleteGamma, ops::PoissonSample, ops::GammaSample, ops::GammaSlope,
    ops::BinomialSample,
    // reduction, statistics
    ops::Sum, ops::Prod, ops::Amax, ops::Amin, ops::Extent, ops::ElementCount, ops::Mean, ops::Var, ops::Any, ops::All,
    ops::Argmax, ops::Argmin,
    // cumulative
    ops::Cumsum, ops::Cumprod, ops::Cummax, ops::Cummin,
    // order
    ops::Sort, ops::Topk, ops::OrderStatistic, ops::Searchsorted, ops::Nonzero, ops::Unique,
    // complex
    ops::Complex, ops::Real, ops::Imag, ops::ViewAsReal, ops::ViewAsComplex,
    // view, join
    ops::Reshape, ops::Permute, ops::Expand, ops::Slice, ops::Windows, ops::UpdateSlice, ops::Pad, ops::Concat,
    ops::Flip, ops::Convolution, ops::ConvolutionWeightGradient, ops::ConvolutionGradient, ops::SumWindows,
    // region, matmul, take, random
    ops::CustomDerivative, ops::Barrier, ops::To, ops::Region, ops::Matmul, ops::Take, ops::Scatter, ops::ScatterAdd,
    ops::OneHot, ops::RandomBits, ops::RandomUniform, ops::RandomNormal,
    // linear algebra
    ops::Cholesky, ops::LuFactor, ops::LuPermutation, ops::TriangularSolve, ops::Qr, ops::Svd, ops::Eigh,
    ops::MatrixExp, ops::SmallSolve, ops::Solve, ops::Pinv, ops::Det, ops::ComplexEigh, ops::Eig, ops::ComplexSvd,
    ops::ComplexLu, ops::ComplexQr, ops::ComplexDet, ops::ComplexLogDet,
    // Fourier transforms
    ops::Fourier, ops::FourierOfReal, ops::FourierToReal,
    // control flow
    ops::Switch, ops::SwitchWithEffects, ops::WhileLoop, ops::WhileLoopWithEffects, ops::WhileGradient, ops::Scan,
    ops::ScanWithEffects,
    // networks
    ops::Softmax, ops::LogSoftmax, ops::Logsumexp, ops::LayerNorm, ops::CrossEntropy, ops::MseLoss, ops::CtcLoss,
    ops::CtcGradient, ops::Conv2d, ops::MaxPool2d, ops::AvgPool2d, ops::WindowMax, ops::WindowSum, ops::WindowArgmax,
    ops::ScaledDotProductAttention, ops::ScaledDotProductAttentionGradient,
    // quantised numbers
    ops::QuantizedMatmul, ops::IntegerMatmul, ops::ScaledMatmul, ops::FakeQuantize>();

}  // namespace ops_detail

#ifdef SINTER_SEPARATE_COMPILATION
#define SINTER_DEFINE_OP_INFO(Op) template struct OpInfoOf<ops::Op>;
SINTER_EXPRESSION_OPS(SINTER_DEFINE_OP_INFO)
#undef SINTER_DEFINE_OP_INFO
#endif

SINTER_DECL std::span<const OpInfo* const> all_ops() { return ops_detail::op_table; }

SINTER_DECL const OpInfo* find_op(std::string_view name) {
  const auto& table = ops_detail::op_table;
  const auto found = std::lower_bound(table.begin(), table.end(), name,
                                      [](const OpInfo* op, std::string_view wanted) { return op->name < wanted; });
  return found != table.end() && (*found)->name == name ? *found : nullptr;
}

SINTER_NAMESPACE_END
