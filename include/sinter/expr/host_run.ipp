// The operands in memory, the call, and its results.
#pragma once

#include <sinter/expr/host_run.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/host_call.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/host_function.hpp>
#include <sinter/ops/scalar_meaning.hpp>
#include <sinter/tensor/call_journal.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {

/// A call on operands that are ready.
class PlainHostCall final : public HostCall {
 public:
  /// `device`: where operands and results are.
  PlainHostCall(const Attrs& attributes, Location at, Device device) : HostCall(attributes, at), device_(device) {}
  void* device_queue() override {
    return device_ == Device::cpu() ? nullptr : device_memory(device_, "host operation", where).native_queue(device_);
  }
  Device device() const override { return device_; }
  void run_body(std::size_t, std::span<void* const>, std::span<void* const>) override {
    throw InternalError("a host operation outside of plans has no sub-graphs");
  }
  std::int64_t value_of(Dim extent) const override { return extent.value(); }
  void* scratch(std::size_t slot, std::size_t bytes) override {
    if (scratch_.size() <= slot) scratch_.resize(slot + 1);
    if (!scratch_[slot] || scratch_[slot]->bytes() < bytes)
      scratch_[slot] = Storage::allocate(std::max<std::size_t>(bytes, 1));
    return scratch_[slot]->data();
  }

 private:
  Device device_;
  std::vector<Ref<Storage>> scratch_;
};

inline HostView view_of_value(const TensorImpl& value) {
  return {value.type.dtype, value.type.shape, value.type.shape.numel().value(),
          value.storage->bytes() > 0 ? value.data() : nullptr};
}

/// The same value on another device. Dense.
inline Ref<TensorImpl> value_on(Ref<TensorImpl> value, Device device) {
  const Device from = value->type.device;
  if (from == device) return value;
  Type type = value->type;
  type.device = device;
  const auto bytes = as_index(type.shape.numel().value() * size_of(type.dtype));
  Ref<Storage> storage = Storage::allocate(bytes, device);
  if (bytes > 0)
    device_memory(device == Device::cpu() ? from : device, "host operation")
        .copy(storage->data(), device, value->data(), from, bytes);
  return TensorImpl::make_ready(type, std::move(storage));
}

/// An operand in memory, without gaps.
inline Ref<TensorImpl> dense_operand(const Leaf& leaf, std::string_view op, Location where) {
  if (leaf.value) return dense_value(In(Tensor(leaf.value), where), op);
  const DType dtype = leaf.kind == DTypeClass::floating  ? DType::f32
                      : leaf.kind == DTypeClass::integer ? DType::i64
                                                         : DType::bool_;
  Ref<Storage> storage = Storage::allocate(as_index(size_of(dtype)));
  visit_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    *static_cast<T*>(storage->data()) = leaf.kind == DTypeClass::floating ? scalar_meaning::converted<T>(leaf.number)
                                                                          : scalar_meaning::converted<T>(leaf.integer);
  });
  return TensorImpl::make_ready({dtype, Device::cpu(), {}}, std::move(storage));
}

}  // namespace expr_detail

SINTER_DECL std::vector<Ref<TensorImpl>> run_host_op(const OpInfo& op, std::span<const Leaf> operands,
                                                     const TypeList& types, const Attrs& attrs, Location where) {
  std::vector<Ref<TensorImpl>> values, results;
  std::vector<HostView> in, out;
  Device device;  // of the operands; the function runs there if it can, else on the host
  for (const Leaf& leaf : operands)
    if (leaf.value && leaf.value->type.device != Device::cpu()) device = leaf.value->type.device;
  const Device runs_on = ops_detail::runs_on_devices(attrs) ? device : Device::cpu();
  for (const Leaf& leaf : operands) {
    values.push_back(expr_detail::value_on(expr_detail::dense_operand(leaf, op.name, where), runs_on));
    in.push_back(expr_detail::view_of_value(*values.back()));
    if (CallJournal* journal = CallJournal::current(); journal != nullptr && leaf.value) journal->note_read(leaf.value);
  }
  for (const Type& type : types) {
    const std::int64_t bytes = type.shape.numel().value() * size_of(type.dtype);
    results.push_back(
        TensorImpl::make_ready({type.dtype, runs_on, type.shape},
                               Storage::allocate(as_index(bytes), runs_on, tensor_detail::maker_of(op.name, where))));
    out.push_back(expr_detail::view_of_value(*results.back()));
  }
  expr_detail::PlainHostCall call(attrs, where, runs_on);
  call.in = in;
  call.out = out;
  op.run_on_host(call);
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = expr_detail::value_on(std::move(results[i]), types[i].device);
  return results;
}

SINTER_NAMESPACE_END
