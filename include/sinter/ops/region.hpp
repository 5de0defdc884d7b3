// region: a call of a sub-graph. What repeats in a program is one body and many calls; passes, derivatives and code
// generation see the body once.
#pragma once

#include <sinter/ops/infer.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// attrs.bodies[0] on the operands, under the name that the user gave, if any. Bodies hold no effects.
struct Region {
  static constexpr OpInfo info{.name = "region", .arity = -1, .kind = OpKind::structured, .is_call = true};
  static constexpr OpAttr<std::string> name{"name", 0};
  static constexpr auto attributes = attribute_list(name);
  static constexpr std::string_view bodies = "body";
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
};

}  // namespace ops
SINTER_NAMESPACE_END
