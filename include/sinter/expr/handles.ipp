// What converts into a Tensor, compound assignment, Variables, and run-time numbers (Scalar, Predicate).
#pragma once

#include <sinter/expr/handles.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/ops/scalar_maps.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

SINTER_DECL In::In(const Tensor& t, Location at) : leaf(t.impl()), where(at) {}
SINTER_DECL In::In(Tensor&& t, Location at) : leaf(std::move(t).take()), where(at) {}
SINTER_DECL In::In(const Variable& v, Location at) : In(v.value(), at) {}
SINTER_DECL In::In(const Scalar& s, Location at) : leaf(s.leaf()), where(at) {}
SINTER_DECL In::In(const Predicate& p, Location at) : leaf(p.leaf()), where(at) {}
SINTER_DECL In::In(const Dim& d, Location at) : leaf(Scalar(d).leaf()), where(at) {}

SINTER_DECL const Ref<TensorImpl>& Tensor::zero() {
  return process_object([] {
    Ref<Storage> storage = Storage::allocate(sizeof(float));
    *static_cast<float*>(storage->data()) = 0;
    return new const Ref<TensorImpl>(TensorImpl::make_ready(Type{}, std::move(storage)));
  });
}

SINTER_DECL Ref<TensorImpl> In::tensor() const {
  if (leaf.value) return leaf.value;
  Attrs attrs;
  attrs.has_dtype = true;
  attrs.dtype = leaf.kind == DTypeClass::floating  ? DType::f32
                : leaf.kind == DTypeClass::integer ? DType::i64
                                                   : DType::bool_;
  if (leaf.kind == DTypeClass::floating) attrs.value = leaf.number;
  else attrs.integer = leaf.integer;
  return record_op(op_info<ops::Full>, {}, std::move(attrs), where);
}

SINTER_DECL Tensor::Tensor(const Variable& variable) : Tensor(variable.value()) {}
SINTER_DECL Tensor::Tensor(const Scalar& scalar) : impl_(In(scalar).tensor()) {}
SINTER_DECL Tensor::Tensor(const Predicate& predicate) : impl_(In(predicate, predicate.where()).tensor()) {}

SINTER_DECL Tensor& Tensor::operator+=(const In& other) & {
  return *this = expr_detail::compound<ops::Add>(*this, other);
}
SINTER_DECL Tensor& Tensor::operator-=(const In& other) & {
  return *this = expr_detail::compound<ops::Sub>(*this, other);
}
SINTER_DECL Tensor& Tensor::operator*=(const In& other) & {
  return *this = expr_detail::compound<ops::Mul>(*this, other);
}
SINTER_DECL Tensor& Tensor::operator/=(const In& other) & {
  return *this = expr_detail::compound<ops::Div>(*this, other);
}

SINTER_DECL Variable::Variable(const Tensor& value, std::string name)
    : slot_(std::make_shared<VariableSlot>(value.impl(), std::move(name))) {}
SINTER_DECL Tensor Variable::value() const {
  Trace* trace = Trace::current();
  if (trace == nullptr) EagerSection::check_read(*slot_);
  Ref<TensorImpl> value = trace != nullptr ? trace->read_variable(slot_) : slot_->value();
  return Tensor(SINTER_UNLIKELY(slot_->gradient() != nullptr) ? tape_leaf(value, slot_) : std::move(value));
}
SINTER_DECL const Variable& Variable::set(const In& value) const {
  Ref<TensorImpl> next = value.tensor();
  Tensor old = this->value();
  if (!identical(next->type.shape, old.impl()->type.shape) && !(next->type.shape == old.impl()->type.shape))
    throw ShapeError(
        "Variable::set",
        "the new value has shape " + next->type.shape.text() + ", the variable " + old.impl()->type.shape.text(),
        value.where, "make a new Variable for another shape");
  if (next->type.dtype != old.dtype()) next = cast(In(Tensor(next), value.where), old.dtype()).impl();
  if (Trace* trace = Trace::current()) {
    trace->note_assignment(slot_, next);
    return *this;
  }
  EagerSection::check_assign(*slot_);
  slot_->set(value_to_store(*slot_, std::move(next)));
  return *this;
}
SINTER_DECL const Variable& Variable::operator+=(const In& value) const {
  return set(In(expr_detail::compound<ops::Add>(this->value(), value), value.where));
}
SINTER_DECL const Variable& Variable::operator-=(const In& value) const {
  return set(In(expr_detail::compound<ops::Sub>(this->value(), value), value.where));
}
SINTER_DECL const Variable& Variable::operator*=(const In& value) const {
  return set(In(expr_detail::compound<ops::Mul>(this->value(), value), value.where));
}
SINTER_DECL const Variable& Variable::operator/=(const In& value) const {
  return set(In(expr_detail::compound<ops::Div>(this->value(), value), value.where));
}

// ---- run-time numbers

namespace expr_detail {
/// Arithmetic of run-time numbers counts bools, as that of C++ does.
inline Leaf counted_number(const Scalar& x) {
  const Leaf& leaf = x.leaf();
  if (!leaf.value || leaf.value->type.dtype != DType::bool_) return leaf;
  Ref<TensorImpl> counted = record_op(op_info<ops::Cast>, {leaf}, Attrs{.dtype = DType::i64, .has_dtype = true}, {});
  counted->is_weak = leaf.value->is_weak;
  return Leaf(std::move(counted));
}
template <class Op, class F>
Scalar scalar_binary(const Scalar& a, const Scalar& b, F&& compute) {
  if (a.is_number() && b.is_number()) {
    const Leaf &x = a.leaf(), &y = b.leaf();
    if constexpr (std::is_invocable_v<F, std::int64_t, std::int64_t>)
      if (x.kind != DTypeClass::floating && y.kind != DTypeClass::floating)
        return Scalar(compute(x.integer, y.integer));
    auto number = [](const Leaf& l) {
      return l.kind == DTypeClass::floating ? l.number : static_cast<double>(l.integer);
    };
    return Scalar(compute(number(x), number(y)));
  }
  return Scalar(record_op(op_info<Op>, {counted_number(a), counted_number(b)}, {}, {}));
}
/// `compute` takes whole numbers, too, where they stay whole.
template <class Op, class F>
Scalar scalar_unary(const Scalar& a, F&& compute) {
  const Leaf& x = a.leaf();
  if (!a.is_number()) return Scalar(record_op(op_info<Op>, {counted_number(a)}, {}, {}));
  if (x.kind == DTypeClass::floating) return Scalar(compute(x.number));
  if constexpr (std::is_invocable_v<F, std::int64_t>) return Scalar(compute(x.integer));
  else return Scalar(compute(static_cast<double>(x.integer)));
}
template <class Map, class T>
T rounded(T x) {
  if constexpr (std::floating_point<T>) return Map()(x);
  else return x;
}
/// The quotient rounded down; by zero that of the numbers, of whole ones 0.
template <class T>
T floor_quotient(T a, T b) {
  const T rest = scalar_meaning::Rem()(a, b);
  if constexpr (std::floating_point<T>) return b == 0 ? a / b : std::nearbyint((a - rest) / b);
  else return scalar_meaning::Div()(a, b) - (rest != 0 && (a < 0) != (b < 0));
}
}  // namespace expr_detail

SINTER_DECL Scalar operator+(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Add>(a, b, [](auto x, auto y) { return x + y; });
}
SINTER_DECL Scalar operator-(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Sub>(a, b, [](auto x, auto y) { return x - y; });
}
SINTER_DECL Scalar operator*(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Mul>(a, b, [](auto x, auto y) { return x * y; });
}
SINTER_DECL Scalar operator/(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Div>(
      a, b, [](auto x, auto y) { return static_cast<double>(x) / static_cast<double>(y); });
}
SINTER_DECL Scalar operator-(const Scalar& a) { return Scalar(0) - a; }

// Those that the standard library or the meaning of a primitive has, then the others.
#define SINTER_STANDARD_FUNCTION(function, Op)                                                                 \
  SINTER_DECL Scalar function(const Scalar& x) {                                                               \
    return expr_detail::scalar_unary<ops::Op>(x, [](std::floating_point auto v) { return std::function(v); }); \
  }
#define SINTER_PRIMITIVE_FUNCTION(function, Op, Map)                         \
  SINTER_DECL Scalar function(const Scalar& a, const Scalar& b) {            \
    return expr_detail::scalar_binary<ops::Op>(a, b, scalar_meaning::Map()); \
  }
SINTER_STANDARD_FUNCTION(exp, Exp)
SINTER_STANDARD_FUNCTION(exp2, Exp2)
SINTER_STANDARD_FUNCTION(expm1, Expm1)
SINTER_STANDARD_FUNCTION(log, Log)
SINTER_STANDARD_FUNCTION(log2, Log2)
SINTER_STANDARD_FUNCTION(log10, Log10)
SINTER_STANDARD_FUNCTION(log1p, Log1p)
SINTER_STANDARD_FUNCTION(sqrt, Sqrt)
SINTER_STANDARD_FUNCTION(cbrt, Cbrt)
SINTER_STANDARD_FUNCTION(sin, Sin)
SINTER_STANDARD_FUNCTION(cos, Cos)
SINTER_STANDARD_FUNCTION(tan, Tan)
SINTER_STANDARD_FUNCTION(asin, Asin)
SINTER_STANDARD_FUNCTION(acos, Acos)
SINTER_STANDARD_FUNCTION(atan, Atan)
SINTER_STANDARD_FUNCTION(sinh, Sinh)
SINTER_STANDARD_FUNCTION(cosh, Cosh)
SINTER_STANDARD_FUNCTION(tanh, Tanh)
SINTER_STANDARD_FUNCTION(erf, Erf)
SINTER_PRIMITIVE_FUNCTION(pow, Pow, Pow)
SINTER_PRIMITIVE_FUNCTION(operator%, Rem, Rem)
SINTER_PRIMITIVE_FUNCTION(maximum, Maximum, Max)
SINTER_PRIMITIVE_FUNCTION(minimum, Minimum, Min)
#undef SINTER_PRIMITIVE_FUNCTION
#undef SINTER_STANDARD_FUNCTION
SINTER_DECL Scalar abs(const Scalar& x) { return expr_detail::scalar_unary<ops::Abs>(x, scalar_meaning::Abs()); }
SINTER_DECL Scalar rsqrt(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Rsqrt>(x, [](std::floating_point auto v) { return 1 / std::sqrt(v); });
}
SINTER_DECL Scalar reciprocal(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Reciprocal>(x, [](std::floating_point auto v) { return 1 / v; });
}
SINTER_DECL Scalar sigmoid(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Sigmoid>(x, [](std::floating_point auto v) { return 1 / (1 + std::exp(-v)); });
}
SINTER_DECL Scalar atan2(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Atan2>(a, b,
                                                [](std::floating_point auto y, auto x) { return std::atan2(y, x); });
}
SINTER_DECL Scalar hypot(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::Hypot>(a, b,
                                                [](std::floating_point auto x, auto y) { return std::hypot(x, y); });
}
SINTER_DECL Scalar sign(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Sign>(x, [](auto v) {
    return v > 0 ? decltype(v)(1) : v < 0 ? decltype(v)(-1) : v;
  });
}
SINTER_DECL Scalar square(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Square>(x, [](auto v) { return scalar_meaning::Mul()(v, v); });
}
SINTER_DECL Scalar relu(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Relu>(x, [](auto v) { return scalar_meaning::Max()(v, decltype(v)(0)); });
}
SINTER_DECL Scalar floor(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Floor>(x,
                                               [](auto v) { return expr_detail::rounded<scalar_meaning::Floor>(v); });
}
SINTER_DECL Scalar ceil(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Ceil>(x, [](auto v) { return expr_detail::rounded<scalar_meaning::Ceil>(v); });
}
SINTER_DECL Scalar round(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Round>(x,
                                               [](auto v) { return expr_detail::rounded<scalar_meaning::Round>(v); });
}
SINTER_DECL Scalar trunc(const Scalar& x) {
  return expr_detail::scalar_unary<ops::Trunc>(x,
                                               [](auto v) { return expr_detail::rounded<scalar_meaning::Trunc>(v); });
}
SINTER_DECL Scalar floor_divide(const Scalar& a, const Scalar& b) {
  return expr_detail::scalar_binary<ops::FloorDivide>(a, b,
                                                      [](auto x, auto y) { return expr_detail::floor_quotient(x, y); });
}
SINTER_DECL Scalar clamp(const Scalar& x, const Scalar& low, const Scalar& high) {
  return minimum(maximum(x, low), high);
}
SINTER_DECL Scalar where(const Predicate& condition, const Scalar& a, const Scalar& b) {
  if (condition.leaf().value || !a.is_number() || !b.is_number())
    return Scalar(
        record_op(op_info<ops::Where>, {Leaf(In(condition).tensor()), a.leaf(), b.leaf()}, {}, condition.where()));
  const Scalar& taken = condition.leaf().integer != 0 ? a : b;
  if (a.leaf().kind == b.leaf().kind) return taken;
  const bool is_fraction = a.leaf().kind == DTypeClass::floating || b.leaf().kind == DTypeClass::floating;
  return is_fraction ? Scalar(1.0) * taken : Scalar(1) * taken;
}

namespace tensor_detail {
SINTER_DECL Predicate compare(Comparison comparison, const Scalar& a, const Scalar& b, Location where) {
  auto outcome = [&](auto x, auto y) {
    switch (comparison) {
      case Comparison::less: return x < y;
      case Comparison::greater: return x > y;
      case Comparison::less_equal: return x <= y;
      case Comparison::greater_equal: return x >= y;
      case Comparison::equal: return x == y;
      case Comparison::not_equal: return x != y;
    }
    __builtin_unreachable();
  };
  auto op = [&]() -> const OpInfo& {
    switch (comparison) {
      case Comparison::less: return op_info<ops::Lt>;
      case Comparison::greater: return op_info<ops::Gt>;
      case Comparison::less_equal: return op_info<ops::Le>;
      case Comparison::greater_equal: return op_info<ops::Ge>;
      case Comparison::equal: return op_info<ops::Eq>;
      case Comparison::not_equal: return op_info<ops::Ne>;
    }
    __builtin_unreachable();
  };
  if (!a.is_number() || !b.is_number()) return Predicate(Leaf(record_op(op(), {a.leaf(), b.leaf()}, {}, where)), where);
  const Leaf &x = a.leaf(), &y = b.leaf();
  if (x.kind != DTypeClass::floating && y.kind != DTypeClass::floating)
    return Predicate(Leaf::of_number(outcome(x.integer, y.integer)), where);
  auto number = [](const Leaf& l) {
    return l.kind == DTypeClass::floating ? l.number : static_cast<double>(l.integer);
  };
  return Predicate(Leaf::of_number(outcome(number(x), number(y))), where);
}
}  // namespace tensor_detail

SINTER_DECL Predicate::operator bool() const {
  return leaf_.value ? read_bits(leaf_.value, "Predicate", where_) != 0 : leaf_.integer != 0;
}
namespace expr_detail {
inline Predicate combine(const OpInfo& op, const Predicate& a, const Predicate& b, bool outcome) {
  Location where = a.where().line != 0 ? a.where() : b.where();
  if (!a.leaf().value && !b.leaf().value) return Predicate(Leaf::of_number(outcome), where);
  return Predicate(Leaf(record_op(op, {a.leaf(), b.leaf()}, {}, where)), where);
}
}  // namespace expr_detail
SINTER_DECL Predicate operator&(const Predicate& a, const Predicate& b) {
  return expr_detail::combine(op_info<ops::And>, a, b, a.leaf().integer != 0 && b.leaf().integer != 0);
}
SINTER_DECL Predicate operator|(const Predicate& a, const Predicate& b) {
  return expr_detail::combine(op_info<ops::Or>, a, b, a.leaf().integer != 0 || b.leaf().integer != 0);
}
SINTER_DECL Predicate operator!(const Predicate& a) {
  if (!a.leaf().value) return Predicate(Leaf::of_number(a.leaf().integer == 0), a.where());
  return Predicate(Leaf(record_op(op_info<ops::Not>, {a.leaf()}, {}, a.where())), a.where());
}

SINTER_DECL Leaf Scalar::of_dim(Dim dim) {
  if (dim.is_static()) return Leaf::of_integer(dim.value());
  Ref<TensorImpl> value =
      record_op(op_info<ops::Extent>, {Leaf::of_integer(0)}, Attrs{}.with(ops::Extent::extent, dim), Location());
  value->is_weak = true;
  return Leaf(std::move(value));
}

SINTER_NAMESPACE_END
