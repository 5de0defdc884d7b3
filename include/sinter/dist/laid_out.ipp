// Recording, derivative and batching rule of statements.
#pragma once

#include <sinter/dist/laid_out.hpp>

#include <sinter/expr/complex.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/val_ops.hpp>

#include <memory>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist::partition_detail {

class LayoutPayload final : public Payload {
 public:
  LayoutPayload(Shares shares, bool has_gradient) : shares_(std::move(shares)), has_gradient_(has_gradient) {}
  std::string text() const override {
    std::string text;
    for (const Share share : shares_) text += (text.empty() ? "" : ",") + std::to_string(share);
    return has_gradient_ ? text : "argument of a partitioned function";
  }
  bool is_a(TypeKey type) const override { return type == type_key<LayoutPayload>(); }
  bool same_as(const Payload& other) const override {
    const auto* layout = payload_cast<LayoutPayload>(&other);
    return layout != nullptr && layout->shares_ == shares_ && layout->has_gradient_ == has_gradient_;
  }
  const Shares& shares() const { return shares_; }
  bool has_gradient() const { return has_gradient_; }

 private:
  Shares shares_;
  bool has_gradient_;
};

/// Of complex numbers it says it of their pairs, which have one more axis behind the others.
inline Ref<TensorImpl> record_layout(const Ref<TensorImpl>& x, Shares shares, bool has_gradient, Location where) {
  if (is_complex(x->type.dtype)) {
    const Tensor pairs = view_as_real(In(Tensor(x), where));
    return view_as_complex(In(Tensor(record_layout(pairs.impl(), std::move(shares), has_gradient, where)), where))
        .impl();
  }
  Attrs attrs;
  attrs.payload = std::make_shared<LayoutPayload>(std::move(shares), has_gradient);
  return record_op(op_info<ops::LaidOut>, {Leaf(x)}, std::move(attrs), where);
}
SINTER_DECL Tensor annotate(const In& x, Shares shares, std::string_view op) {
  check_parts(x.tensor()->type, shares, *partitioned_mesh(), op, x.where);
  return Tensor(record_layout(x.tensor(), std::move(shares), true, x.where));
}
SINTER_DECL std::shared_ptr<const Payload> no_gradient_payload() {
  return std::make_shared<LayoutPayload>(Shares{}, false);
}
SINTER_DECL Ref<TensorImpl> without_gradient(const Ref<TensorImpl>& x, Location where) {
  return is_differentiable(x->type.dtype) ? record_layout(x, {}, false, where) : x;
}
SINTER_DECL const Shares* annotation_of(const Node& node) {
  const auto* layout = payload_cast<LayoutPayload>(node.attrs.payload.get());
  return layout != nullptr && layout->has_gradient() ? &layout->shares() : nullptr;
}

}  // namespace dist::partition_detail

namespace ops {
/// The gradient lies as the value does.
SINTER_DECL ValList LaidOut::vjp(const VjpArgs& args) {
  const auto* layout = payload_cast<dist::partition_detail::LayoutPayload>(args.attrs.payload.get());
  if (layout == nullptr || !args.dout) return {args.dout};
  if (!layout->has_gradient())
    throw UserError("partition",
                    "a partitioned function is differentiated from outside that has effects, as jit::print, or is "
                    "mapped by vmap",
                    args.where, "take the gradient inside: dist::partition(jit::value_and_grad(loss), mesh, ...)");
  return {apply(op_info<LaidOut>, {args.dout}, args.attrs)};
}
/// Axes are counted past the batch.
SINTER_DECL Batched LaidOut::batch(const BatchArgs& args) {
  const auto* layout = payload_cast<dist::partition_detail::LayoutPayload>(args.attrs.payload.get());
  if (layout == nullptr || !layout->has_gradient()) return {apply(args.op, {args.in[0]}, args.attrs)};
  dist::partition_detail::Shares shares = layout->shares();
  for (auto& share : shares) share = static_cast<dist::partition_detail::Share>(share + (share >= 0 ? 1 : 0));
  Attrs attrs;
  attrs.payload = std::make_shared<dist::partition_detail::LayoutPayload>(std::move(shares), true);
  return {apply(args.op, {args.in[0]}, std::move(attrs))};
}
}  // namespace ops
SINTER_NAMESPACE_END
