// The op that states how a value of a partitioned function lies, and what such a node says.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/layout.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/op.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace ops {
/// laid_out(x) = x. The payload says how the value lies on a mesh. Where nothing is partitioned it means nothing.
struct LaidOut {
  static constexpr OpInfo info{.name = "laid_out", .arity = 1, .kind = OpKind::composite};
  static Type infer(const InferArgs& args) { return args.in[0]; }
  static Val decompose(const DecomposeArgs& args) { return args.in[0]; }
  static ValList vjp(const VjpArgs& args);
  static Batched batch(const BatchArgs& args);
};
}  // namespace ops

namespace dist::partition_detail {

/// x with a node that says how it lies.
Tensor annotate(const In& x, Shares shares, std::string_view op);
/// What a node says that has no derivative.
std::shared_ptr<const Payload> no_gradient_payload();
/// x with a node whose derivative is an error.
Ref<TensorImpl> without_gradient(const Ref<TensorImpl>& x, Location where);
/// What such a node says; null for other nodes.
const Shares* annotation_of(const Node& node);

}  // namespace dist::partition_detail
SINTER_NAMESPACE_END
