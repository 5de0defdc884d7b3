// scatter_add, and the call of an op's own function.
#pragma once

#include <sinter/runtime/host_ops.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <string>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// Adds value[outer..., index..., inner...] to result[outer..., at, inner...], walking the value in row-major order.
class ScatterAdd final : public Launch {
 public:
  ScatterAdd(const ScatterOp& op, std::span<const std::int64_t> symbols)
      : dtype_(op.dtype), index_dtype_(op.index_dtype) {
    IntVector result_stride(as_index(op.result_shape.rank()));
    for (int i = op.result_shape.rank() - 1; i >= 0; --i) {
      result_stride[as_index(i)] = result_elements_;
      result_elements_ *= op.result_shape[i].evaluate(symbols);
    }
    limit_ = op.result_shape[op.axis].evaluate(symbols);
    axis_stride_ = result_stride[as_index(op.axis)];
    index_offset_ = op.index.offset.evaluate(symbols);
    value_offset_ = op.value.offset.evaluate(symbols);
    const int index_rank = op.index_shape.rank(), rank = op.result_shape.rank() - 1 + index_rank;
    for (int i = 0; i < rank; ++i) {
      const int in_index = i - op.axis;
      const bool is_index = in_index >= 0 && in_index < index_rank;
      const int in_result = i < op.axis ? i : i - index_rank + 1;
      extent_.push_back((is_index ? op.index_shape[in_index] : op.result_shape[in_result]).evaluate(symbols));
      value_stride_.push_back(op.value.strides[as_index(i)].evaluate(symbols));
      index_stride_.push_back(is_index ? op.index.strides[as_index(in_index)].evaluate(symbols) : 0);
      result_stride_.push_back(is_index ? 0 : result_stride[as_index(in_result)]);
    }
    if (extent_.empty()) {  // a scalar index into one axis
      extent_.push_back(1);
      value_stride_.push_back(0);
      index_stride_.push_back(0);
      result_stride_.push_back(0);
    }
  }

  void run(void* const* operands) override {
    visit_dtype(dtype_, [&](auto tag) {
      using T = decltype(tag);
      if (index_dtype_ == DType::i32)
        add(static_cast<const std::int32_t*>(operands[0]), static_cast<const T*>(operands[1]),
            static_cast<T*>(operands[2]));
      else
        add(static_cast<const std::int64_t*>(operands[0]), static_cast<const T*>(operands[1]),
            static_cast<T*>(operands[2]));
    });
  }

 private:
  template <class Index, class T>
  void add(const Index* index, const T* value, T* result) const {
    std::fill_n(result, result_elements_, T{});
    for (std::int64_t extent : extent_)
      if (extent == 0) return;
    const std::size_t last = extent_.size() - 1;
    IntVector at(extent_.size(), 0);
    std::int64_t value_at = value_offset_, index_at = index_offset_, result_at = 0;
    for (;;) {
      for (std::int64_t i = 0; i < extent_[last]; ++i) {
        const std::int64_t place = index[index_at + i * index_stride_[last]];
        if (place < 0 || place >= limit_)
          throw IndexError("scatter_add", "index " + std::to_string(place) + " is out of range for an axis of extent " +
                                              std::to_string(limit_));
        T& to = result[result_at + i * result_stride_[last] + place * axis_stride_];
        to = sum(to, value[value_at + i * value_stride_[last]]);
      }
      std::size_t axis = last;
      while (axis-- > 0) {
        value_at += value_stride_[axis];
        index_at += index_stride_[axis];
        result_at += result_stride_[axis];
        if (++at[axis] < extent_[axis]) break;
        value_at -= extent_[axis] * value_stride_[axis];
        index_at -= extent_[axis] * index_stride_[axis];
        result_at -= extent_[axis] * result_stride_[axis];
        at[axis] = 0;
      }
      if (axis == as_index(-1)) return;
    }
  }

  template <class T>
  static T sum(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) return a || b;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else return a + b;
  }

  DType dtype_, index_dtype_;
  std::int64_t result_elements_ = 1, limit_ = 0, axis_stride_ = 0, index_offset_ = 0, value_offset_ = 0;
  IntVector extent_, value_stride_, index_stride_, result_stride_;
};

/// The op's own function on views that are prepared once.
class HostLaunch : public Launch, protected HostCall {
 public:
  HostLaunch(const HostOp& op, std::span<const std::int64_t> symbols)
      : HostCall(*op.attrs, op.where), run_(op.run), bodies_(op.bodies), symbols_(symbols.begin(), symbols.end()) {
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

 private:
  void run_body(std::size_t body, std::span<void* const> inputs, std::span<void* const> outputs) override {
    FrameLease& frame = frames_[body];
    if (SINTER_UNLIKELY(!frame)) frame = bodies_[body]->acquire_frame(symbols_);
    frame->run(inputs, outputs);
  }
  std::int64_t value_of(Dim extent) const override { return extent.evaluate(symbols_); }
  void* scratch(std::size_t slot, std::size_t bytes) override {
    if (scratch_.size() <= slot) scratch_.resize(slot + 1);
    if (!scratch_[slot] || scratch_[slot]->bytes() < bytes)
      scratch_[slot] = Storage::allocate(std::max<std::size_t>(bytes, 1));
    return scratch_[slot]->data();
  }

  void (*run_)(HostCall& call);
  std::vector<std::shared_ptr<const Plan>> bodies_;
  std::vector<std::int64_t> symbols_;

 protected:
  std::vector<HostView> views_;

 private:
  std::vector<std::int64_t> offsets_;  // bytes
  std::vector<Ref<Storage>> scratch_;
  std::vector<FrameLease> frames_;  // of the bodies that this run has called
};

inline ScatterOp make_scatter(const FusionGraph& nodes, int node) {
  const FusionNode& it = nodes[node];
  ScatterOp op;
  op.dtype = it.dtype;
  op.index_dtype = nodes[it.inputs[0]].dtype;
  op.axis = static_cast<int>(nodes.graph_node(node)->attrs.axes[0]);
  op.index_shape = nodes[it.inputs[0]].shape;
  op.result_shape = it.shape;
  const Layout *index = nodes.layout_of(it.inputs[0]), *value = nodes.layout_of(it.inputs[1]);
  ensure(index != nullptr && value != nullptr, "host op: an operand is not in memory");
  op.index = *index;
  op.value = *value;
  return op;
}
}  // namespace runtime_detail

SINTER_DECL HostOp make_host_op(const FusionGraph& nodes, int node) {
  const FusionNode& it = nodes[node];
  const Node& graph_node = *nodes.graph_node(node);
  HostOp op;
  if (it.kind == NodeKind::scatter_add) {
    op.scatter = runtime_detail::make_scatter(nodes, node);
    return op;
  }
  ensure(it.kind == NodeKind::host, "host op: not one");
  op.run = graph_node.op->run_on_host;
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
    op.types.push_back({nodes[input].dtype, Device::cpu(), nodes[input].shape});
    op.offsets.push_back(layout->offset);
  }
  for (const Type& type : graph_node.types) op.types.push_back(type);
  return op;
}

SINTER_DECL std::unique_ptr<Launch> bind_host_op(const HostOp& op, std::span<const std::int64_t> symbols) {
  if (op.run == nullptr) return std::make_unique<runtime_detail::ScatterAdd>(op.scatter, symbols);
  return std::make_unique<runtime_detail::HostLaunch>(op, symbols);
}

SINTER_NAMESPACE_END
