// Attributes of what is made from nothing, and the generators of threads.
#pragma once

#include <sinter/expr/creation.hpp>

#include <sinter/base/per_thread.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/ops/scalar_meaning.hpp>

#include <atomic>
#include <numbers>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Tensor full(const Shape& shape, const Scalar& value, TensorOptions options, Location where) {
  expr_detail::checked_device(options.device, "full", where);
  const DType dtype = options.dtype_or(DType::f32);
  if (!value.is_number()) {  // a run-time number joins zeros on the device
    const Tensor number = cast(In(value, where), dtype);
    if (options.device == Device::cpu()) return expand(In(number, where), shape);
    return expr_detail::record<ops::Add>({Leaf(zeros(shape, options, where).impl()), Leaf(number.impl())}, {}, where);
  }
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.device = options.device;
  attrs.shape = shape;
  attrs.dtype = dtype;
  attrs.has_dtype = true;
  expr_detail::fill_with(attrs, value, dtype, "full", where);
  return expr_detail::record<ops::Full>({}, std::move(shared), where);
}
SINTER_DECL Tensor expr_detail::full_of_parts(const Shape& shape, double re, double im, TensorOptions options,
                                              Location where) {
  options.dtype = real_part_of(options.dtype_or(DType::c64));
  return complex(In(full(shape, re, options, where), where), In(full(shape, im, options, where), where));
}
SINTER_DECL Tensor zeros(const Shape& shape, TensorOptions options, Location where) {
  return full(shape, 0, options, where);
}
SINTER_DECL Tensor ones(const Shape& shape, TensorOptions options, Location where) {
  return full(shape, 1, options, where);
}
SINTER_DECL Tensor zeros_like(const In& x) {
  Ref<TensorImpl> value = x.tensor();
  return full(value->type.shape, 0, {.dtype = value->type.dtype, .device = value->type.device}, x.where);
}
SINTER_DECL Tensor ones_like(const In& x) {
  Ref<TensorImpl> value = x.tensor();
  return full(value->type.shape, 1, {.dtype = value->type.dtype, .device = value->type.device}, x.where);
}
SINTER_DECL Tensor arange(Dim count, TensorOptions options, Location where) {
  const DType dtype = options.dtype_or(DType::i64);
  if (is_complex(dtype))
    return cast(In(arange(count, {.dtype = real_part_of(dtype), .device = options.device}, where), where), dtype);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.device = expr_detail::checked_device(options.device, "arange", where);
  attrs.shape.push_back(count);
  attrs.axes.push_back(0);
  attrs.dtype = dtype;
  attrs.has_dtype = true;
  return expr_detail::record<ops::Iota>({}, std::move(shared), where);
}
SINTER_DECL Tensor expr_detail::range(Dim start, Dim stop, Dim step, TensorOptions options, Location where) {
  if (step == Dim(0)) throw ShapeError("arange", "step is 0", where);
  const bool rises = step > Dim(0);
  const Dim span = rises ? stop - start : start - stop, size = rises ? step : Dim(0) - step;
  const Dim count = expr_detail::is_at_most(1, span) ? (span + size - Dim(1)) / size : Dim(0);
  return cast(In(Tensor(arange(count, {.dtype = DType::i64, .device = options.device}, where) * step + start), where),
              options.dtype_or(DType::i64));
}
SINTER_DECL Tensor linspace(double start, double stop, Dim count, TensorOptions options, Location where) {
  Tensor position = arange(count, {.dtype = DType::f64, .device = options.device}, where);
  Tensor last = Tensor(cast(In(Scalar(count)), DType::f64)) - 1.0;
  Tensor fraction = sinter::where(last > 0.0, position / maximum(last, 1.0), 0.0);
  return cast(In(Tensor(sinter::where(fraction == 1.0, stop, start + fraction * (stop - start))), where),
              options.dtype_or(DType::f32));
}
SINTER_DECL Tensor eye(Dim n, TensorOptions options, Location where) {
  Tensor i = arange(n, {.dtype = DType::i64, .device = options.device}, where);
  return cast(In(Tensor(reshape(i, Shape{n, 1}) == reshape(i, Shape{1, n})), where), options.dtype_or(DType::f32));
}

namespace expr_detail {
/// A ready value of no trace: a thread's generator may be made while a function is traced.
inline Tensor ready_integer(std::int64_t value) {
  Ref<Storage> storage = Storage::allocate(sizeof value);
  *static_cast<std::int64_t*>(storage->data()) = value;
  return Tensor(TensorImpl::make_ready({DType::i64, Device::cpu(), {}}, std::move(storage)));
}
}  // namespace expr_detail

SINTER_DECL Generator::Generator(std::int64_t seed)
    : key(expr_detail::ready_integer(seed), "random key"), counter(expr_detail::ready_integer(0), "random counter") {}
SINTER_DECL Generator& Generator::current() {
  return thread_object([] {
    static constinit std::atomic<std::uint64_t> threads{0};
    auto* made = new Generator(
        static_cast<std::int64_t>(threads.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B97F4A7C15ULL));
    made->key.slot()->role = VariableSlot::PerThreadRole::random_key;
    made->counter.slot()->role = VariableSlot::PerThreadRole::random_counter;
    return made;
  });
}
SINTER_DECL VariableSlot& VariableSlot::of_this_thread(PerThreadRole role) {
  const Generator& generator = Generator::current();
  return *(role == PerThreadRole::random_key ? generator.key : generator.counter).slot();
}
SINTER_DECL void manual_seed(std::int64_t seed) {
  Generator& generator = Generator::current();
  generator.key.set(expr_detail::ready_integer(seed));
  generator.counter.set(expr_detail::ready_integer(0));
}
namespace expr_detail {
SINTER_DECL DrawsFrom::DrawsFrom(Tensor key) : key_(std::move(key)), outer_(std::exchange(current(), this)) {}
SINTER_DECL DrawsFrom::~DrawsFrom() { current() = outer_; }
SINTER_DECL DrawsFrom*& DrawsFrom::current() {
  static thread_local constinit DrawsFrom* source = nullptr;
  return source;
}
SINTER_DECL LentKey::LentKey(const Tensor& key) : outer_(DrawsFrom::current()) {
  if (Trace::current() != nullptr) {
    source_.emplace(key);
    return;
  }
  Generator& generator = Generator::current();
  old_key_ = generator.key.value();
  old_counter_ = generator.counter.value();
  generator.key.set(In(key));
  generator.counter.set(ready_integer(0));
  DrawsFrom::current() = nullptr;
}
SINTER_DECL LentKey::~LentKey() {
  if (!old_key_) return;
  Generator& generator = Generator::current();
  generator.key.set(In(*old_key_));
  generator.counter.set(In(*old_counter_));
  DrawsFrom::current() = outer_;
}
/// The next draw of the source of random numbers; `dtype` where the operation has one.
template <class Op>
Tensor draw(const Shape& shape, Optional<DType> dtype, const TensorOptions& options, Location where) {
  DrawsFrom* const source = DrawsFrom::current();
  Generator& generator = Generator::current();
  Tensor key = source != nullptr ? source->key() : generator.key.value();
  Tensor counter = source != nullptr ? ready_integer(source->next_counter()) : generator.counter.value();
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.shape = shape;
  if (dtype) {
    attrs.dtype = *dtype;
    attrs.has_dtype = true;
  }
  attrs.device = checked_device(options.device, Op::info.name, where);
  Tensor out = record<Op>({Leaf(key.impl()), Leaf(counter.impl())}, std::move(shared), where);
  if (source != nullptr) return out;
  // Outside a trace the counter stays a plain value: a chain of pending additions would grow for ever.
  if (Trace::current() == nullptr) sinter::eval(In(counter));
  generator.counter.set(In(Tensor(counter + 1), where));
  if (Trace::current() == nullptr) sinter::eval(In(generator.counter.value()));
  return out;
}
template <class Op>
Tensor random(const Shape& shape, TensorOptions options, Location where) {
  const DType dtype = options.dtype_or(DType::f32);
  if (is_f8(dtype))
    throw DTypeError(op_info<Op>.name, "numbers of dtype " + std::string(name(dtype)) + " are asked for", where,
                     "draw f32 and cast them: cast(rand(shape), DType::" + std::string(name(dtype)) + ")");
  if (is_complex(dtype)) {  // parts with half of the variance each, where there is one
    const TensorOptions part{.dtype = real_part_of(dtype), .device = options.device};
    const Tensor re = random<Op>(shape, part, where), im = random<Op>(shape, part, where);
    const double scale = std::is_same_v<Op, ops::RandomNormal> ? std::numbers::sqrt2 / 2 : 1;
    return complex(In(re * scale, where), In(im * scale, where));
  }
  if (!is_floating(dtype))
    throw DTypeError(Op::info.name, "dtype " + std::string(name(dtype)) + " is not floating", where);
  return draw<Op>(shape, dtype, options, where);
}
}  // namespace expr_detail
SINTER_DECL Tensor rand(const Shape& shape, TensorOptions options, Location where) {
  return expr_detail::random<ops::RandomUniform>(shape, options, where);
}
SINTER_DECL Tensor randn(const Shape& shape, TensorOptions options, Location where) {
  return expr_detail::random<ops::RandomNormal>(shape, options, where);
}

SINTER_DECL void eval(const In& x) {
  TensorImpl* raw = x.leaf.value.get();
  if (raw != nullptr) evaluate({&raw, 1}, "eval", x.where);
}
SINTER_DECL void eval(std::span<const Tensor> values, Location where) {
  std::vector<TensorImpl*> raw;
  for (const Tensor& value : values) raw.push_back(value.impl().get());
  evaluate(raw, "eval", where);
}
SINTER_DECL void eval(std::initializer_list<std::reference_wrapper<const Tensor>> values, Location where) {
  std::vector<TensorImpl*> raw;
  for (const Tensor& value : values) raw.push_back(value.impl().get());
  evaluate(raw, "eval", where);
}

SINTER_NAMESPACE_END
