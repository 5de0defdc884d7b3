// Parameters and results as trees of leaves.
#pragma once

#include <sinter/autodiff/trace.hpp>

#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/tensor/storage.hpp>

#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

SINTER_DECL Ref<TensorImpl> as_value(const Leaf& x) {
  if (x.value) return x.value;
  Ref<Storage> storage = Storage::allocate(sizeof(double));
  *static_cast<double*>(storage->data()) = x.kind == DTypeClass::floating ? x.number : static_cast<double>(x.integer);
  Ref<TensorImpl> value = TensorImpl::make_ready({DType::f64, Device::cpu(), {}}, std::move(storage));
  value->is_weak = true;
  return value;
}

SINTER_DECL OpenTrace::OpenTrace(std::string_view name) : trace_(new TransformTrace(name)) {}
SINTER_DECL void OpenTrace::end() noexcept { delete trace_; }

SINTER_DECL std::vector<Ref<TensorImpl>> values_in(tree::View result) {
  struct Collect final : tree::Reader {
    std::vector<Ref<TensorImpl>> values;
    void tensor(const Tensor& x) override { values.push_back(x.impl()); }
    void scalar(const Scalar& x) override { values.push_back(In(x).tensor()); }
    void variable(const Variable& x) override { values.push_back(x.value().impl()); }
    void dim(const Dim&) override {}  // stays what it is
  } collect;
  result.read(collect);
  return std::move(collect.values);
}

SINTER_DECL void fill_values(tree::Part result, const Ref<TensorImpl>* values) {
  struct Fill final : tree::Editor {
    explicit Fill(const Ref<TensorImpl>* first) : next(first) {}
    const Ref<TensorImpl>* next;
    using Editor::dim, Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { x = Tensor(*next++); }
    void scalar(Scalar& x) override { x = Scalar(*next++); }
    void variable(const Variable&) override { ++next; }
    void dim(Dim&) override {}
    void dim(const Dim&) override {}
  } fill(values);
  result.edit(fill);
}

SINTER_DECL void insert_placeholders(TransformTrace& trace, tree::Part parameter) {
  struct PlaceholderInserter final : tree::Editor {
    explicit PlaceholderInserter(TransformTrace& open) : trace(open) {}
    TransformTrace& trace;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override {
      if (is_differentiable(x.dtype())) x = Tensor(trace.parameter(x.impl()));
    }
    void scalar(Scalar& x) override { x = Scalar(trace.parameter(as_value(x.leaf()))); }
    void variable(const Variable& x) override {
      if (!is_differentiable(x.dtype())) return;
      const Ref<TensorImpl> value = trace.read_outside(x.slot());
      trace.variable_parameter(x.slot(), value, value->type);
    }
  } replace(trace);
  parameter.edit(replace);
}

SINTER_DECL std::size_t placeholders_of(const TransformTrace& trace) { return trace.parameters(); }

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
