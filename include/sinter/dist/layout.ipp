// Layouts as shares of a rank, and the op that states them.
#pragma once

#include <sinter/dist/layout.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/val_ops.hpp>

#include <algorithm>
#include <memory>
#include <utility>

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

namespace dist {
namespace partition_detail {

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

SINTER_DECL const Mesh*& partitioned_mesh() noexcept {
  static thread_local constinit const Mesh* mesh = nullptr;
  return mesh;
}
SINTER_DECL PartitionScope::PartitionScope(const Mesh& mesh) noexcept
    : before_(std::exchange(partitioned_mesh(), &mesh)) {}
SINTER_DECL PartitionScope::~PartitionScope() { partitioned_mesh() = before_; }

inline void set_share(Shares& shares, std::size_t axis, Share to, const Mesh& mesh, std::string_view op,
                      Location where) {
  const std::string& name = mesh.axes()[axis].name;
  if (is_part(shares[axis]))
    throw UserError(op, "the axis '" + name + "' of the mesh divides two axes of one tensor", where,
                    "name it once in a layout");
  for (std::size_t inner = axis + 1; inner < shares.size(); ++inner)
    if (shares[inner] == to && mesh.axes()[inner].size > 1)
      throw UserError(
          op, "axis " + std::to_string(to) + " is divided over '" + mesh.axes()[inner].name + "' before '" + name + "'",
          where, "name them in the order of the mesh " + mesh.text());
  shares[axis] = to;
}

SINTER_DECL Shares shares_of(const Layout& layout, const Mesh& mesh, int rank, Share otherwise, std::string_view op,
                             Location where) {
  Shares shares(mesh.axes().size(), otherwise);
  for (const Placement& placement : layout.placements) {
    const auto axis = static_cast<Share>(normalise_axis(placement.axis, rank, op, where));
    static_cast<void>(mesh.size(placement.over, where));  // throws for a name that there is not
    const auto& names = placement.over.names;
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (names.empty() || std::find(names.begin(), names.end(), mesh.axes()[i].name) != names.end())
        set_share(shares, i, axis, mesh, op, where);
  }
  for (std::size_t i = 0; i < shares.size(); ++i)  // an axis of one rank divides nothing
    if (mesh.axes()[i].size == 1) shares[i] = whole;
  return shares;
}

SINTER_DECL std::string text_of(const Shares& shares, const Mesh& mesh) {
  std::string text;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == whole || shares[i] == unstated) continue;
    text += text.empty() ? "{" : ", ";
    if (is_part(shares[i])) text += std::to_string(shares[i]) + ": ";
    else text += shares[i] == summand ? "sum over " : shares[i] == largest ? "maximum over " : "minimum over ";
    text += mesh.axes()[i].name;
  }
  return text.empty() ? "whole" : text + "}";
}

inline Ref<TensorImpl> record_layout(const Ref<TensorImpl>& x, Shares shares, bool has_gradient, Location where) {
  Attrs attrs;
  attrs.payload = std::make_shared<LayoutPayload>(std::move(shares), has_gradient);
  return record_op(op_info<ops::LaidOut>, {Leaf(x)}, std::move(attrs), where);
}
SINTER_DECL void check_parts(const Type& type, const Shares& shares, const Mesh& mesh, std::string_view op,
                             Location where) {
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    int parts = 1;
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (shares[i] == axis) parts *= mesh.axes()[i].size;
    if (parts > 1 && !(type.shape[axis] % Dim(parts) == 0))
      throw ShapeError(op,
                       "axis " + std::to_string(axis) + " of " + type.text() + " is divided into " +
                           std::to_string(parts) + " parts over the mesh " + mesh.text(),
                       where, "make its extent a multiple of their number, with pad() for instance");
  }
}
SINTER_DECL Tensor annotate(const In& x, Shares shares, std::string_view op) {
  check_parts(x.tensor()->type, shares, *partitioned_mesh(), op, x.where);
  return Tensor(record_layout(x.tensor(), std::move(shares), true, x.where));
}
SINTER_DECL Ref<TensorImpl> without_gradient(const Ref<TensorImpl>& x, Location where) {
  if (!is_differentiable(x->type.dtype) || is_complex(x->type.dtype)) return x;
  return record_layout(x, {}, false, where);
}
SINTER_DECL const Shares* annotation_of(const Node& node) {
  const auto* layout = payload_cast<LayoutPayload>(node.attrs.payload.get());
  return layout != nullptr && layout->has_gradient() ? &layout->shares() : nullptr;
}

}  // namespace partition_detail

SINTER_DECL Tensor lay_out(const In& x, const Layout& layout) {
  const Ref<TensorImpl> value = x.tensor();
  const Mesh* mesh = partition_detail::partitioned_mesh();
  if (mesh == nullptr || mesh->size() == 1 || is_complex(value->type.dtype)) return Tensor(value);
  using partition_detail::whole;
  return partition_detail::annotate(
      x, partition_detail::shares_of(layout, *mesh, value->type.shape.rank(), whole, "lay_out", x.where), "lay_out");
}

}  // namespace dist

namespace ops {
/// The gradient lies as the value does.
SINTER_DECL ValList LaidOut::vjp(const VjpArgs& args) {
  const auto* layout = payload_cast<dist::partition_detail::LayoutPayload>(args.attrs.payload.get());
  if (layout == nullptr || !args.dout) return {args.dout};
  if (!layout->has_gradient())
    throw UserError("partition", "a partitioned function is differentiated from outside", args.where,
                    "take the gradient inside: dist::partition(jit::value_and_grad(loss), mesh, ...)");
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
