// Derivatives of control flow: nodes of the same kinds whose bodies are the gradients of the bodies. Forward values
// inside a body are computed again there; of a scan only the carries before each iteration are kept.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/control_bodies.hpp>
#include <sinter/ops/op.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

ValList differentiate_switch(const VjpArgs& a, Tokens tokens);
ValList differentiate_while(const VjpArgs& a, Tokens tokens);
ValList differentiate_scan(const VjpArgs& a, Tokens tokens);

}  // namespace ops_detail

namespace ops {

/// The gradient of a while_loop, which nobody can compute: how many iterations there are is known only when it runs. It
/// stands for the linear map from the gradients of the floating carries (operands behind those of the loop) to those of
/// the operands that `wanted` lists; forward mode differentiates it by the former, which gives a loop with tangents.
/// A derivative in which it remains is refused.
struct WhileGradient {
  static constexpr OpAttr<std::int64_t> carries = WhileAttributes::carries;
  static constexpr OpAttr<IntVector> wanted{"wanted", 0};
  static constexpr auto attributes = attribute_list(carries, wanted);
  static constexpr std::string_view bodies = WhileAttributes::bodies;
  static constexpr OpInfo info{
      .name = "while_loop_gradient", .arity = -1, .kind = OpKind::composite, .is_cheap = false};
  static void infer(const InferArgs& args, TypeList& out);
  static Val decompose(const DecomposeArgs& args) { refuse(args.where), __builtin_unreachable(); }
  static ValList vjp(const VjpArgs& a);
  [[noreturn]] static void refuse(Location where);
};

}  // namespace ops
SINTER_NAMESPACE_END
