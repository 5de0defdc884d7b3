// Walks over models.
#pragma once

#include <sinter/autodiff/parameters.hpp>

#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/base/index.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/graph/tracing.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

SINTER_DECL std::vector<Parameter> parameters_of(tree::View model) {
  struct Collect final : tree::Reader {
    std::vector<Parameter> found;
    std::vector<std::string> path;
    bool knows_path() const override { return true; }
    void enter_part(tree::Step::Kind kind, std::uint32_t index, std::string_view fields) override {
      path.push_back(tree::Step{kind, index, fields, {}}.text());
    }
    void enter_key(std::string key) override { path.push_back(tree::Step{tree::Step::Kind::key, 0, {}, key}.text()); }
    void leave_part() override { path.pop_back(); }
    void tensor(const Tensor&) override {}
    void scalar(const Scalar&) override {}
    void dim(const Dim&) override {}
    void variable(const Variable& x) override {
      const auto is_same = [&](const Parameter& known) { return known.variable.slot() == x.slot(); };
      if (std::any_of(found.begin(), found.end(), is_same)) return;
      std::string name;
      for (const std::string& step : path) name += step;
      if (!name.empty() && name.front() == '.') name.erase(0, 1);
      found.push_back({std::move(name), x});
    }
  } collect;
  model.read(collect);
  return std::move(collect.found);
}

SINTER_DECL Tensor flat_values(tree::View object, Location where) {
  struct Collect final : tree::Reader {
    explicit Collect(Location at) : line(at) {}
    Location line;
    std::vector<Tensor> parts;
    void tensor(const Tensor& x) override {
      if (!parts.empty() && parts.front().dtype() != x.dtype())
        throw DTypeError(
            "flatten",
            "the object holds " + std::string(name(parts.front().dtype())) + " and " + std::string(name(x.dtype())),
            line, "convert its Tensors to one dtype");
      parts.push_back(sinter::reshape(In(x, line), Shape{x.numel()}));
    }
    void scalar(const Scalar&) override {}
    void dim(const Dim&) override {}
    void variable(const Variable& x) override { tensor(x.value()); }
  } collect(where);
  object.read(collect);
  if (collect.parts.empty()) throw UserError("flatten", "the object holds no Tensor", where);
  return concat(std::span<const Tensor>(collect.parts), 0, where);
}

SINTER_DECL void fill_from_flat(tree::Part object, const In& vector) {
  struct Fill final : tree::Editor {
    Fill(Tensor all, Location at) : values(std::move(all)), line(at) {}
    Tensor values;
    Location line;
    Dim next = 0;
    using Editor::dim, Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override {
      const Dim end = next + x.numel();
      x = sinter::reshape(In(values(slice(next, end)), line), x.shape());
      next = end;
    }
    void scalar(Scalar&) override {}
    void dim(Dim&) override {}
    void variable(const Variable&) override {}
  };
  struct Count final : tree::Reader {
    Dim count = 0;
    void tensor(const Tensor& x) override { count = count + x.numel(); }
    void scalar(const Scalar&) override {}
    void dim(const Dim&) override {}
    void variable(const Variable&) override {}
  } count;
  tree::View{object.object, object.layout}.read(count);
  const Tensor values(vector.tensor());
  if (values.rank() != 1 || !(values.size(0) == count.count))
    throw ShapeError(
        "unflatten",
        "the vector is " + values.impl()->type.text() + ", the object has " + count.count.text() + " elements",
        vector.where, "give what flatten() made of an object with these shapes");
  Fill fill(values, vector.where);
  object.edit(fill);
}

inline Tensor as_dtype(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

SINTER_DECL Tensor clip_gradients(tree::View model, double max_norm, Location where) {
  if (!(max_norm >= 0))
    throw UserError("clip_grad_norm", "max_norm is " + std::to_string(max_norm), where, "give a number from 0 up");
  NoGradGuard guard;
  std::vector<std::pair<std::shared_ptr<VariableSlot>, Tensor>> gradients;
  for (const Parameter& parameter : parameters_of(model))
    if (const auto* slot = parameter.variable.slot()->gradient())
      gradients.emplace_back(*slot, parameter.variable.grad(where));
  if (gradients.empty())
    throw UserError("clip_grad_norm", "no Variable of the model requires a gradient", where,
                    "call jit::requires_grad(model) before the loss is computed");
  const bool has_double = std::any_of(gradients.begin(), gradients.end(), [](const auto& entry) {
    return real_part_of(entry.second.dtype()) == DType::f64;
  });
  const DType dtype = has_double ? DType::f64 : DType::f32;  // squares of f16 overflow
  Tensor total = full({}, 0, {.dtype = dtype, .device = gradients.front().second.device()});
  for (const auto& [slot, gradient] : gradients) {
    const Tensor parts = is_complex(gradient.dtype()) ? view_as_real(In(gradient, where)) : gradient;
    total += sum(In(square(as_dtype(parts, dtype)), where));
  }
  const Tensor norm = sqrt(total);
  const Tensor scale = minimum(max_norm / (norm + 1e-6), 1);
  for (const auto& [slot, gradient] : gradients)
    assign_outside(slot, as_dtype(as_dtype(gradient, is_complex(gradient.dtype()) ? complex_of(dtype) : dtype) * scale,
                                  gradient.dtype())
                             .impl());
  return norm;
}

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
