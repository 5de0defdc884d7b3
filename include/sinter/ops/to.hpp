// to: the same values on another device. The runtime cuts a graph into parts at these nodes (runtime/partition.hpp); no
// kernel expresses them.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/op.hpp>

SINTER_NAMESPACE_BEGIN

namespace ops {

/// The operand on attrs.device.
struct To {
  static constexpr OpInfo info{.name = "to",
                               .arity = 1,
                               .kind = OpKind::structured,
                               .is_cheap = false,
                               .takes_complex = true,
                               .is_transfer = true};
  static constexpr auto attributes = attribute_list(attr::device);
  static Type infer(const InferArgs& args) { return Type{args.in[0].dtype, args.attrs.device, args.in[0].shape}; }
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops

/// x on the device.
Val to(Val x, Device device);

SINTER_NAMESPACE_END
