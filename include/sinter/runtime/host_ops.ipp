// The call of an op's own function.
#pragma once

#include <sinter/runtime/host_ops.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/runtime/following_kernel.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <string_view>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// The op's own function on views that are prepared once.
class HostLaunch : public Launch, protected HostCall {
 public:
  HostLaunch(const HostOp& op, std::span<const std::int64_t> symbols)
      : HostCall(*op.attrs, op.where),
        run_(op.run),
        prepare_(op.prepare),
        bodies_(op.bodies),
        symbols_(symbols.begin(), symbols.end()) {
    for (std::size_t i = 0; i < op.types.size(); ++i) {
      HostView view;
      view.dtype = op.types[i].dtype;
      view.numel = 1;
      for (Dim extent : op.types[i].shape) {
        view.shape.push_back(Dim(extent.evaluate(symbols)));
        view.numel *= extent.evaluate(symbols);
      }
      views_.push_back(view);
      offsets_.push_back(i < op.inputs ? op.offsets[i].evaluate(symbols) * size_of(view.dtype) : 0);
    }
    frames_.resize(bodies_.size());
    in = std::span<const HostView>(views_).first(op.inputs);
    out = std::span<const HostView>(views_).subspan(op.inputs);
  }

  void run(void* const* operands) override {
    for (std::size_t i = 0; i < views_.size(); ++i) views_[i].data = static_cast<char*>(operands[i]) + offsets_[i];
    struct Return {  // other steps may want the same frames
      std::vector<FrameLease>& frames;
      ~Return() {
        for (FrameLease& frame : frames) frame.reset();
      }
    } back{frames_};
    run_(*this);
  }
  void prepare() override {
    if (prepare_ != nullptr) prepare_(*this);
    std::vector<FrameLease> held;  // until all are bound: bodies may share a plan
    for (const std::shared_ptr<const Plan>& body : bodies_) {
      held.push_back(body->acquire_frame(symbols_));
      held.back()->prepare();
    }
  }

 private:
  void run_body(std::size_t body, std::span<void* const> inputs, std::span<void* const> outputs) override {
    FrameLease& frame = frames_[body];
    if (SINTER_UNLIKELY(!frame)) frame = bodies_[body]->acquire_frame(symbols_);
    frame->run(inputs, outputs);
  }
  bool updates_in_place(std::size_t body, std::size_t i) const override {
    const Plan& plan = *bodies_[body];
    return plan.backend() == nullptr && plan.parts() == nullptr &&
           plan.outputs()[i].donor == static_cast<std::int32_t>(i);
  }
  std::int64_t value_of(Dim extent) const override { return extent.evaluate(symbols_); }
  void* scratch(std::size_t slot, std::size_t bytes) override {
    if (scratch_.size() <= slot) scratch_.resize(slot + 1);
    if (!scratch_[slot] || scratch_[slot]->bytes() < bytes)
      scratch_[slot] = Storage::allocate(std::max<std::size_t>(bytes, 1));
    return scratch_[slot]->data();
  }

  void (*run_)(HostCall& call);
  void (*prepare_)(HostCall& call);
  std::vector<std::shared_ptr<const Plan>> bodies_;
  std::vector<std::int64_t> symbols_;

 protected:
  const Plan& body_plan(std::size_t body) const { return *bodies_[body]; }
  std::vector<HostView> views_;
  std::vector<std::int64_t> offsets_;  // bytes

 private:
  std::vector<Ref<Storage>> scratch_;
  std::vector<FrameLease> frames_;  // of the bodies that this run has called
};

/// Types, attributes and offsets of an operation, for extents that are known.
struct KnownOp {
  KnownOp(const HostOp& op, std::span<const std::int64_t> symbols) : types(op.types), attrs(*op.attrs) {
    const auto evaluate = [&](Shape& shape) {
      for (int axis = 0; axis < shape.rank(); ++axis) shape.set(axis, shape[axis].evaluate(symbols));
    };
    for (Type& type : types) evaluate(type.shape);
    for_each_shape(attrs, evaluate);
    for (std::size_t i = 0; i < op.inputs; ++i)
      offsets.push_back(op.offsets[i].evaluate(symbols) * size_of(op.types[i].dtype));
    offsets.resize(op.types.size());
  }
  std::vector<Type> types;
  Attrs attrs;
  std::vector<std::int64_t> offsets;  // bytes
};

/// A back end's own launch, given where the operands begin.
class IntrinsicLaunch final : public FollowableLaunch {
 public:
  IntrinsicLaunch(std::unique_ptr<Launch> launch, std::vector<std::int64_t> offsets)
      : offsets_(std::move(offsets)), operands_(offsets_.size()), launch_(std::move(launch)) {}
  void run(void* const* operands) override {
    for (std::size_t i = 0; i < operands_.size(); ++i) operands_[i] = static_cast<char*>(operands[i]) + offsets_[i];
    launch_->run(operands_.data());
  }
  void prepare() override { launch_->prepare(); }
  std::unique_ptr<Launch> followed_by(const FollowingKernel& next) const override {
    const FollowableLaunch* const own = as_followable(*launch_);
    std::unique_ptr<Launch> both = own != nullptr ? own->followed_by(next) : nullptr;
    if (both == nullptr) return nullptr;
    std::vector<std::int64_t> offsets = offsets_;
    offsets.resize(offsets.size() + next.kernel.operands.size());
    return std::make_unique<IntrinsicLaunch>(std::move(both), std::move(offsets));
  }

 private:
  std::vector<std::int64_t> offsets_;  // bytes
  std::vector<void*> operands_;
  std::unique_ptr<Launch> launch_;
};
}  // namespace runtime_detail

SINTER_DECL HostOp make_host_op(const FusionGraph& nodes, int node) {
  const FusionNode& it = nodes[node];
  const Node& graph_node = *nodes.graph_node(node);
  HostOp op;
  ensure(it.kind == NodeKind::host, "host op: not one");
  op.name = graph_node.op->name;
  op.run = graph_node.op->run_on_host;
  op.prepare = graph_node.op->prepare_on_host;
  op.attrs = graph_node.shared_attrs();
  op.where = graph_node.where;
  op.inputs = it.inputs.size();
  op.is_call = graph_node.op->is_call;
  op.is_effect = graph_node.op->kind == OpKind::effect;
  op.types.reserve(op.inputs + graph_node.types.size());
  op.offsets.reserve(op.inputs);
  for (std::int32_t input : it.inputs) {
    const Layout* layout = nodes.layout_of(input);
    ensure(layout != nullptr, "host op: an operand is not in memory");
    const Type& type = nodes.graph().type(graph_node.inputs[op.types.size()]);
    const bool is_pair = is_complex(type.dtype);
    op.types.push_back({type.dtype, Device::cpu(), type.shape});
    op.offsets.push_back(is_pair ? layout->offset / Dim(2) : layout->offset);
  }
  for (const Type& type : graph_node.types) op.types.push_back(type);
  return op;
}

SINTER_DECL std::unique_ptr<Launch> bind_host_op(const HostOp& op, std::span<const std::int64_t> symbols) {
  if (op.intrinsic == nullptr) return std::make_unique<runtime_detail::HostLaunch>(op, symbols);
  runtime_detail::KnownOp known(op, symbols);
  std::unique_ptr<Launch> launch = op.intrinsic(known.attrs, known.types);
  ensure(launch != nullptr, "an intrinsic of a back end gave no launch");
  return std::make_unique<runtime_detail::IntrinsicLaunch>(std::move(launch), std::move(known.offsets));
}

SINTER_DECL std::unique_ptr<Launch> bind_backend_op(const HostOp& op, std::span<const std::int64_t> symbols,
                                                    Backend& backend, const StepContext& step) {
  if (!op.bodies.empty() || op.is_effect || !step.host_operands.is_empty()) return nullptr;
  runtime_detail::KnownOp known(op, symbols);
  StepContext named = step;
  constexpr std::string_view on_host = "host_";  // of steps that no kernel expresses (kernel_name)
  if (named.name.starts_with(on_host)) named.name.erase(0, on_host.size());
  std::unique_ptr<Launch> launch =
      backend.bind_op({op.run, known.attrs, known.types, op.inputs, op.where, op.name}, named);
  if (launch == nullptr) return nullptr;
  return std::make_unique<runtime_detail::IntrinsicLaunch>(std::move(launch), std::move(known.offsets));
}

SINTER_NAMESPACE_END
