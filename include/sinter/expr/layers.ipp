// Attributes and checks of each.
#pragma once

#include <sinter/expr/layers.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/recording.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Tensor matmul(const In& a, const In& b) {
  Tensor x(a.tensor()), y(b.tensor());
  Location where = a.where;
  if (x.rank() == 0 || y.rank() == 0)
    throw ShapeError("matmul",
                     "a is " + x.shape().text() + ", b is " + y.shape().text() + "; both need at least one axis", where,
                     "use * to scale");
  DType dtype = promote(x.dtype(), y.dtype(), "matmul", where);
  if (dtype == DType::bool_)
    throw DTypeError("matmul", "operands are bool, numbers are required", where, "cast with .to(DType::i64)");
  x = cast(In(x, where), dtype);
  y = cast(In(y, where), dtype);
  bool x_is_vector = x.rank() == 1, y_is_vector = y.rank() == 1;
  Dim inner_x = x.shape()[-1], inner_y = y_is_vector ? y.shape()[0] : y.shape()[-2];
  if (!(inner_x == inner_y)) {
    std::string fix = "a.size(" + std::to_string(x.rank() - 1) + ") = " + inner_x.text() + " must equal b.size(" +
                      std::to_string(y_is_vector ? 0 : y.rank() - 2) + ") = " + inner_y.text();
    if (!y_is_vector && identical(inner_x, y.shape()[-1]))
      fix += "; matmul(a, transpose(b, " + std::to_string(y.rank() - 2) + ", " + std::to_string(y.rank() - 1) +
             ")) would fit";
    throw ShapeError("matmul", "inner sizes differ: a is " + x.shape().text() + ", b is " + y.shape().text(), where,
                     fix);
  }
  if (x_is_vector) x = unsqueeze(In(x, where), 0);
  if (y_is_vector) y = unsqueeze(In(y, where), 1);
  Shape batch_x, batch_y;
  for (int i = 0; i + 2 < x.rank(); ++i) batch_x.push_back(x.shape()[i]);
  for (int i = 0; i + 2 < y.rank(); ++i) batch_y.push_back(y.shape()[i]);
  Tensor out;
  if (batch_y.rank() == 0 && batch_x.rank() > 0) {  // one matrix for all: the batch is more rows
    Shape result = x.shape();
    result.set(result.rank() - 1, y.shape()[1]);
    Tensor rows = reshape(In(x, where), Shape{batch_x.numel() * x.shape()[-2], inner_x});
    out = reshape(In(expr_detail::record<ops::Matmul>({Leaf(rows.impl()), Leaf(y.impl())}, {}, where), where), result);
  } else {
    Shape batch = broadcast(batch_x, batch_y, "matmul", where), full_x = batch, full_y = batch;
    full_x.push_back(x.shape()[-2]);
    full_x.push_back(inner_x);
    full_y.push_back(inner_y);
    full_y.push_back(y.shape()[-1]);
    x = expand(In(x, where), full_x);
    y = expand(In(y, where), full_y);
    out = expr_detail::record<ops::Matmul>({Leaf(x.impl()), Leaf(y.impl())}, {}, where);
  }
  if (x_is_vector) out = squeeze(In(out, where), -2);
  if (y_is_vector) out = squeeze(In(out, where), -1);
  return out;
}

SINTER_DECL Tensor take(const In& x, const In& indices, int axis) {
  Ref<TensorImpl> value = x.tensor(), at = indices.tensor();
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes.push_back(normalise_axis(axis, value->type.shape.rank(), "take", x.where));
  return expr_detail::record<ops::Take>({Leaf(std::move(value)), Leaf(std::move(at))}, std::move(shared), x.where);
}
SINTER_DECL Tensor one_hot(const In& indices, Dim classes, DType dtype) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::OneHot::classes, classes);
  attrs.dtype = dtype;
  attrs.has_dtype = true;
  return expr_detail::record<ops::OneHot>({Leaf(indices.tensor())}, std::move(shared), indices.where);
}
SINTER_DECL Tensor softmax(const In& x, int axis) {
  return expr_detail::along_axis<ops::Softmax>(In(Tensor(expr_detail::as_floating(x.tensor(), x.where)), x.where),
                                               axis);
}
SINTER_DECL Tensor log_softmax(const In& x, int axis) {
  return expr_detail::along_axis<ops::LogSoftmax>(In(Tensor(expr_detail::as_floating(x.tensor(), x.where)), x.where),
                                                  axis);
}
SINTER_DECL Tensor layer_norm(const In& x, const Shape& shape, LayerNormOptions options) {
  Ref<TensorImpl> value = x.tensor();
  const Shape& whole = value->type.shape;
  bool fits = shape.rank() <= whole.rank() && shape.rank() > 0;
  for (int i = 0; fits && i < shape.rank(); ++i) fits = shape[i] == whole[whole.rank() - shape.rank() + i];
  if (!fits)
    throw ShapeError("layer_norm", "x is " + whole.text() + ", its last axes do not match " + shape.text(), x.where);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  for (int i = whole.rank() - shape.rank(); i < whole.rank(); ++i) attrs.axes.push_back(i);
  attrs.set(ops::LayerNorm::eps, options.eps);
  // Constants, which are part of the kernel.
  const TensorOptions like{.dtype = value->type.dtype, .device = value->type.device};
  const Tensor weight = options.weight ? *options.weight : ones(shape, like, x.where);
  const Tensor bias = options.bias ? *options.bias : zeros(shape, like, x.where);
  return expr_detail::record<ops::LayerNorm>({Leaf(std::move(value)), Leaf(weight.impl()), Leaf(bias.impl())},
                                             std::move(shared), x.where);
}
SINTER_DECL Tensor layer_norm(const In& x, const Shape& shape, const In& weight, const In& bias,
                              LayerNormOptions options) {
  if (options.weight || options.bias)
    throw UserError("layer_norm", "weight or bias is given twice", x.where, "leave it out of the options");
  options.weight = Tensor(weight.tensor());
  options.bias = Tensor(bias.tensor());
  return layer_norm(x, shape, std::move(options));
}
SINTER_DECL Tensor mse_loss(const In& prediction, const In& target) {
  return expr_detail::record<ops::MseLoss>({Leaf(prediction.tensor()), Leaf(target.tensor())}, {}, prediction.where);
}
namespace expr_detail {
/// That a window of `size` fits symbolic axes; the op checks static ones.
inline void require_window(const Shape& image, int axis, std::int64_t size, std::int64_t padding, std::string_view op,
                           Location where) {
  if (image.rank() != 4 || image[axis].is_static() || is_at_most(size, image[axis] + Dim(2 * padding))) return;
  throw ShapeError(
      op, "a window of " + std::to_string(size) + " does not fit axis " + std::to_string(axis) + " of " + image.text(),
      where);
}

template <class Op>
Tensor pool2d(const In& x, std::int64_t size, std::int64_t stride) {
  if (stride == 0) stride = size;
  if (size < 1 || stride < 1) throw ShapeError(Op::info.name, "size and stride must be positive", x.where);
  const Tensor image(x.tensor());
  if (image.rank() == 3)  // one example
    return squeeze(In(pool2d<Op>(In(unsqueeze(x, 0), x.where), size, stride), x.where), 0);
  for (int axis : {2, 3}) require_window(image.shape(), axis, size, 0, Op::info.name, x.where);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(Op::window, {size, size});
  attrs.set(Op::stride, {stride, stride});
  return record<Op>({Leaf(image.impl())}, std::move(shared), x.where);
}
}  // namespace expr_detail
SINTER_DECL Tensor max_pool2d(const In& x, std::int64_t size, std::int64_t stride) {
  return expr_detail::pool2d<ops::MaxPool2d>(x, size, stride);
}
SINTER_DECL Tensor avg_pool2d(const In& x, std::int64_t size, std::int64_t stride) {
  return expr_detail::pool2d<ops::AvgPool2d>(x, size, stride);
}
SINTER_DECL Tensor cast(const In& x, DType dtype) {
  const bool is_wide = dtype == DType::f64 || dtype == DType::c128;
  if (is_wide && !x.leaf.value && x.leaf.kind == DTypeClass::floating) {  // as f32 a number would lose digits
    const Attrs attrs{.value = x.leaf.number, .dtype = DType::f64, .has_dtype = true};
    const Tensor number(record_op(op_info<ops::Full>, {}, attrs, x.where));
    return dtype == DType::f64 ? number : cast(In(number, x.where), dtype);
  }
  Ref<TensorImpl> value = x.tensor();
  if (value->type.dtype == dtype && !value->is_weak) return Tensor(std::move(value));
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.dtype = dtype;
  attrs.has_dtype = true;
  return expr_detail::record<ops::Cast>({Leaf(std::move(value))}, std::move(shared), x.where);
}
namespace expr_detail {
/// The elements from the first to the last one, on another device, in the same layout.
inline Ref<TensorImpl> moved(const TensorImpl& value, Device device) {
  const Type type{value.type.dtype, device, value.type.shape};
  std::int64_t span = type.shape.numel().value() == 0 ? 0 : 1;
  for (int i = 0; span > 0 && i < type.shape.rank(); ++i)
    span += (type.shape[i].value() - 1) * value.strides[as_index(i)];
  const auto bytes = as_index(span * size_of(type.dtype));
  Ref<Storage> storage = Storage::allocate(bytes, device, value.storage->maker());
  const Device from = value.type.device;
  if (bytes > 0)
    device_memory(from.kind == DeviceKind::cpu ? device : from, "to")
        .copy(storage->data(), device, value.data(), from, bytes);
  return TensorImpl::make_ready(type, std::move(storage), 0, &value.strides);
}
}  // namespace expr_detail

namespace expr_detail {
SINTER_DECL Ref<TensorImpl> moved_now(const In& x, Device device, std::string_view function) {
  Ref<TensorImpl> value = x.tensor();
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, function, x.where);
  if (value->type.device == device) return value;
  if (value->type.device == Device::cpu()) value = dense_value(In(Tensor(std::move(value)), x.where), function);
  return moved(*value, device);
}
}  // namespace expr_detail

/// Data that are there are copied at once, for they may be lent: who calls may overwrite them. What is still to be
/// computed, traced or differentiated becomes an operation.
SINTER_DECL Tensor to_device(const In& x, Device device) {
  Ref<TensorImpl> value = x.tensor();
  if (value->type.device == device) return Tensor(std::move(value));
  expr_detail::checked_device(device, "to", x.where);
  const bool is_on_tape = is_tape_on() && value->tape.load(std::memory_order_relaxed) != TapeState::none;
  if (value->is_ready() && !is_on_tape && Trace::current() == nullptr)
    return Tensor(expr_detail::moved_now(x, device, "to"));
  const bool is_weak = value->is_weak;
  Ref<TensorImpl> moved = record_op(op_info<ops::To>, {Leaf(std::move(value))}, Attrs{.device = device}, x.where);
  moved->is_weak = is_weak;
  return Tensor(std::move(moved));
}

SINTER_DECL void set_default_device(Device device, Location where) {
  tensor_detail::store_default_device(expr_detail::checked_device(device, "set_default_device", where));
}

SINTER_NAMESPACE_END
