// The handles users hold: Tensor (a value), Variable (a named slot whose copies alias), Scalar (a run-time number), and
// In, the parameter type of functions that take any of them. Members that record or evaluate are defined by the expr
// layer. Data are immutable; `x += y` gives the handle a new value.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/leaf.hpp>
#include <sinter/tensor/operators.hpp>
#include <sinter/tensor/shape.hpp>
#include <sinter/tensor/slot.hpp>

#include <concepts>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Whether a reduction keeps its axes with extent 1.
enum class Keep : bool { no, yes };
inline constexpr Keep keepdim = Keep::yes;

/// One axis or a list of them; empty means all. Not a bool: sum(x, true) is no axis.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{axis} {}
  Axes(bool) = delete;
  Axes(std::initializer_list<int> axes) {
    for (int axis : axes) axes_.push_back(axis);
  }
  template <IntegerList L>
  Axes(const L& axes) {
    for (auto axis : axes) axes_.push_back(static_cast<std::int64_t>(axis));
  }
  const IntVector& list() const { return axes_; }
  bool empty() const { return axes_.empty(); }

 private:
  IntVector axes_;
};

/// dtype and device of a new tensor.
struct TensorOptions {
  Optional<DType> dtype = {};  // unset: the function's own, i64 where it counts or draws integers, else f32
  Device device = default_device();

  DType dtype_or(DType other) const { return dtype.has_value() ? *dtype : other; }
};

struct All;
/// Positions of x(...): `newaxis` is an axis of extent 1 that x does not have, `ellipsis` all axes that the other
/// positions leave over.
struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis newaxis{};
inline constexpr Ellipsis ellipsis{};

/// Part of an axis: from `start` up to but not including `stop`, each `step`-th. Negative bounds count from the end; a
/// negative step runs backwards. Bounds that are not given are the ends: slice({}, {}, -1) is a whole axis, backwards.
struct Slice {
  Optional<Dim> start{}, stop{};
  std::int64_t step = 1;
};
constexpr Slice slice(Optional<Dim> start, Optional<Dim> stop = {}, std::int64_t step = 1) {
  return {start, stop, step};
}

/// One position of x(...): everything, a part, one index (drops the axis), or an integer tensor (gathers along the
/// axis; one of rank 0, or a Scalar, is an index that is known at run time), an axis that is added, or what is left
/// over. Negative ones count from the end. Knows where it was written, for errors.
struct Index {
  enum class Kind : std::uint8_t { none, all, slice, position, gather, new_axis, left_over };
  Kind kind = Kind::none;  // none: a position that was not given
  Slice part;
  Dim position;
  Ref<TensorImpl> indices;
  Location where;
  Index() = default;
  Index(const All&, Location at = std::source_location::current()) : kind(Kind::all), where(at) {}
  Index(NewAxis, Location at = std::source_location::current()) : kind(Kind::new_axis), where(at) {}
  Index(Ellipsis, Location at = std::source_location::current()) : kind(Kind::left_over), where(at) {}
  Index(Slice s, Location at = std::source_location::current()) : kind(Kind::slice), part(s), where(at) {}
  Index(Dim i, Location at = std::source_location::current()) : kind(Kind::position), position(i), where(at) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Index(I i, Location at = std::source_location::current()) : kind(Kind::position), position(i), where(at) {}
  Index(const Tensor& t, Location at = std::source_location::current());
  Index(const Scalar& s, Location at = std::source_location::current());
  Index(const Variable& v, Location at = std::source_location::current());
  template <class Op, class... A>
  Index(const Expr<Op, A...>& e, Location at = std::source_location::current())
      : kind(Kind::gather), indices(e.record()), where(at) {}
};

/// The outcome of a comparison of run-time numbers. Its conversion to bool, in `if`, `while`, `&&`, `||`, `?:`, needs
/// the outcome now: outside a trace it is computed, inside one it cuts the trace and becomes a guard
/// (docs/control_flow.md).
class Predicate {
 public:
  template <std::same_as<bool> B>
  Predicate(B outcome) : leaf_(Leaf::of_number(outcome)) {}
  Predicate(Leaf outcome, Location where) : leaf_(std::move(outcome)), where_(where) {}

  explicit operator bool() const;
  /// Combined without asking: one cut instead of two.
  friend Predicate operator&(const Predicate& a, const Predicate& b);
  friend Predicate operator|(const Predicate& a, const Predicate& b);
  friend Predicate operator!(const Predicate& a);
  friend Predicate operator~(const Predicate& a) { return !a; }

  const Leaf& leaf() const { return leaf_; }
  Location where() const { return where_; }

 private:
  Leaf leaf_;
  Location where_;
};

namespace tensor_detail {
enum class Comparison : std::uint8_t { less, greater, less_equal, greater_equal, equal, not_equal };
Predicate compare(Comparison comparison, const Scalar& a, const Scalar& b, Location where);
/// The number, converted to the class of numbers that `as` names.
double read_floating(const Scalar& x, DType as);
std::int64_t read_integer(const Scalar& x, DType as);
}  // namespace tensor_detail

/// A run-time number inside compiled functions. Never a constant of the trace; converts from any C++ number.
class Scalar {
 public:
  Scalar() = default;
  template <Arithmetic S>
  Scalar(S value, Location where = std::source_location::current()) : leaf_(Leaf::of_number(value, where)) {}
  Scalar(Dim dim) : leaf_(of_dim(dim)) {}  // a symbolic extent stays one: a run-time number
  explicit Scalar(Ref<TensorImpl> traced) : leaf_(std::move(traced)) {}

  /// True when it is a plain number now (not inside a trace).
  bool is_number() const { return leaf_.value == nullptr; }
  const Leaf& leaf() const { return leaf_; }
  /// The number. While it is traced its exact value is read, which cuts the trace and becomes a guard.
  double number(Location where = std::source_location::current()) const;
  /// As number(), for `static_cast<int>(s)`; `if (s)` is not possible: compare it.
  template <Arithmetic T>
    requires(!std::same_as<T, bool>)
  explicit operator T() const;

  friend Scalar operator+(const Scalar& a, const Scalar& b);
  friend Scalar operator-(const Scalar& a, const Scalar& b);
  friend Scalar operator*(const Scalar& a, const Scalar& b);
  friend Scalar operator/(const Scalar& a, const Scalar& b);
  friend Scalar operator-(const Scalar& a);

  using Self = Scalar;
  SINTER_SCALAR_COMPARISON(<, less)
  SINTER_SCALAR_COMPARISON(>, greater)
  SINTER_SCALAR_COMPARISON(<=, less_equal)
  SINTER_SCALAR_COMPARISON(>=, greater_equal)

 private:
  static Leaf of_dim(Dim dim);
  Leaf leaf_;
};

namespace tensor_detail {
template <class A, class B>
concept FractionAndDim =
    (std::floating_point<A> && std::same_as<B, Dim>) || (std::same_as<A, Dim> && std::floating_point<B>);
}  // namespace tensor_detail
/// A fraction beside an extent: a run-time number, so that an extent that is symbolic stays one.
template <class A, class B>
  requires tensor_detail::FractionAndDim<A, B>
Scalar operator+(A a, B b) {
  return Scalar(a) + Scalar(b);
}
template <class A, class B>
  requires tensor_detail::FractionAndDim<A, B>
Scalar operator-(A a, B b) {
  return Scalar(a) - Scalar(b);
}
template <class A, class B>
  requires tensor_detail::FractionAndDim<A, B>
Scalar operator*(A a, B b) {
  return Scalar(a) * Scalar(b);
}
template <class A, class B>
  requires tensor_detail::FractionAndDim<A, B>
Scalar operator/(A a, B b) {
  return Scalar(a) / Scalar(b);
}

namespace tensor_detail {
/// The operands of == and != of run-time numbers, with the place they were written; both are converted, as
/// expr/equality.hpp explains.
struct LocatedScalar {
  Scalar value;
  Location where;
  template <std::same_as<Scalar> S>
  LocatedScalar(const S& operand, Location at = std::source_location::current()) : value(operand), where(at) {}
};
struct ConvertedNumber {
  Scalar value;
  template <ScalarLike S>
  ConvertedNumber(const S& operand) : value(operand) {}
};
struct ConvertedConstant {
  Scalar value;
  template <ScalarLike S>
    requires(!std::same_as<S, Scalar>)
  ConvertedConstant(const S& operand) : value(operand) {}
};
}  // namespace tensor_detail
inline Predicate operator==(const tensor_detail::LocatedScalar& a, const tensor_detail::ConvertedNumber& b) {
  return tensor_detail::compare(tensor_detail::Comparison::equal, a.value, b.value, a.where);
}
inline Predicate operator==(const tensor_detail::ConvertedConstant& a, const tensor_detail::LocatedScalar& b) {
  return tensor_detail::compare(tensor_detail::Comparison::equal, a.value, b.value, b.where);
}
inline Predicate operator!=(const tensor_detail::LocatedScalar& a, const tensor_detail::ConvertedNumber& b) {
  return tensor_detail::compare(tensor_detail::Comparison::not_equal, a.value, b.value, a.where);
}
inline Predicate operator!=(const tensor_detail::ConvertedConstant& a, const tensor_detail::LocatedScalar& b) {
  return tensor_detail::compare(tensor_detail::Comparison::not_equal, a.value, b.value, b.where);
}

template <Arithmetic T>
  requires(!std::same_as<T, bool>)
Scalar::operator T() const {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(tensor_detail::read_floating(*this, sizeof(T) == sizeof(float) ? DType::f32 : DType::f64));
  else return static_cast<T>(tensor_detail::read_integer(*this, DType::i64));
}

namespace jit {
class GradientHook;  // autodiff/tape.hpp
}

struct BackwardOptions {
  bool keeps_graph = false;    // true: backward() of it, or of what shares parts with it, may be called again
  bool creates_graph = false;  // true: the gradients are on the tape themselves; keeps the graph
};

/// Functions that every tensor-like class has as members; each does what the free function of that name does.
template <class Self>
class TensorMethods {
 public:
  Dim size(int axis, Location where = std::source_location::current()) const;
  Shape shape() const;
  DType dtype() const;
  Device device() const;
  int rank() const;
  Dim numel() const;
  Scalar item(Location where = std::source_location::current()) const;
  template <Element T>
  T item(Location where = std::source_location::current()) const;
  Tensor sum(Axes axes = {}, Keep keep = Keep::no, Location where = std::source_location::current()) const;
  Tensor mean(Axes axes = {}, Keep keep = Keep::no, Location where = std::source_location::current()) const;
  Tensor t(Location where = std::source_location::current()) const;
  Tensor reshape(const Shape& shape, Location where = std::source_location::current()) const;
  Tensor to(DType dtype, Location where = std::source_location::current()) const;
  Tensor to(Device device, Location where = std::source_location::current()) const;
  /// Adds the gradients of this scalar to .grad() of the Variables that it was computed from and that require one.
  void backward(BackwardOptions options = {}, Location where = std::source_location::current()) const;
  /// A part of it: x(0, all, slice(2, 5)).
  Tensor operator()(const Index& i0, const Index& i1 = {}, const Index& i2 = {}, const Index& i3 = {},
                    const Index& i4 = {}, const Index& i5 = {}, const Index& i6 = {}, const Index& i7 = {}) const;
};

class In;
class SlotRef;

/// A value: dtype, shape, device, and data now or later. Cheap to copy. A default-constructed Tensor is the number 0
/// (f32, rank 0).
class Tensor : public TensorMethods<Tensor> {
 public:
  using Self = Tensor;
  SINTER_TENSOR_OPERATORS

  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  template <class Op, class... A>
  Tensor(const Expr<Op, A...>& expression) : impl_(expression.record()) {}
  template <class Op, class... A>
  Tensor(Expr<Op, A...>&& expression) : impl_(std::move(expression).record()) {}
  Tensor(const Variable& variable);
  explicit Tensor(const Scalar& scalar);
  explicit Tensor(const Predicate& predicate);

  Tensor& operator+=(const In& other) &;
  Tensor& operator-=(const In& other) &;
  Tensor& operator*=(const In& other) &;
  Tensor& operator/=(const In& other) &;

  /// A place in this tensor: `u.at(all, 0) = y` gives `u` the updated value.
  [[nodiscard]] SlotRef at(const Index& i0, const Index& i1 = {}, const Index& i2 = {}, const Index& i3 = {},
                           const Index& i4 = {}, const Index& i5 = {}, const Index& i6 = {}, const Index& i7 = {}) &;

  /// The elements, row-major; evaluates. A strided value is copied once, and keeps the copy. Valid while this handle
  /// keeps its value. Throws DTypeError if T is not the dtype.
  template <Element T>
  std::span<const T> data(Location where = std::source_location::current()) const;

  const Ref<TensorImpl>& impl() const { return impl_ ? impl_ : zero(); }
  /// The value itself, leaving this handle the number 0.
  Ref<TensorImpl> take() && {
    if (!impl_) return zero();
    return std::move(impl_);  // not by ?:, whose common type is const and copies (Clang)
  }
  bool is_ready() const { return impl()->is_ready(); }
  /// Same value object.
  friend bool is_same(const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); }

 private:
  static const Ref<TensorImpl>& zero();
  Ref<TensorImpl> impl_;
};
bool is_same(const Tensor& a, const Tensor& b);  // by its full name, too

/// A named mutable slot whose copies alias. Reading it inside a compiled function reads the slot at each call;
/// assigning there writes back after the call.
class Variable : public TensorMethods<Variable> {
 public:
  using Self = Variable;
  SINTER_TENSOR_OPERATORS

  Variable() : Variable(Tensor()) {}
  explicit Variable(const Tensor& value, std::string name = {});
  Variable(const Variable&) = default;
  Variable& operator=(const Variable&) = delete;  // alias or write? say which: w.set(v)

  const Variable& set(const In& value) const;
  const Variable& operator+=(const In& value) const;
  const Variable& operator-=(const In& value) const;
  const Variable& operator*=(const In& value) const;
  const Variable& operator/=(const In& value) const;
  template <class T>
    requires(is_expr<std::remove_cvref_t<T>> || std::same_as<std::remove_cvref_t<T>, Tensor>)
  const Variable& operator=(T&& value) const;

  /// A place in its value: `v.at(all, 0) = y` sets the updated value.
  [[nodiscard]] SlotRef at(const Index& i0, const Index& i1 = {}, const Index& i2 = {}, const Index& i3 = {},
                           const Index& i4 = {}, const Index& i5 = {}, const Index& i6 = {},
                           const Index& i7 = {}) const;

  /// The value now: the one assigned last in this trace, or the slot's.
  Tensor value() const;

  /// From now on what is computed from this Variable can be differentiated tape-style, by backward(). With false, from
  /// now on not: the gradient is dropped, hooks stay for when it is required again.
  const Variable& requires_grad(bool is_required = true, Location where = std::source_location::current()) const;
  /// The sum of what backward() has added since zero_grad(); zeros at first. Throws UserError without requires_grad().
  Tensor grad(Location where = std::source_location::current()) const;
  const Variable& zero_grad(Location where = std::source_location::current()) const;
  /// From now on each backward() hands `hook` what it found for this Variable, and adds what that returns (the same, if
  /// it returns nothing) to grad(). Hooks are called in the order of registration.
  template <class F>
  jit::GradientHook register_hook(F hook, Location where = std::source_location::current()) const;
  const std::string& name() const { return slot_->name; }
  const std::shared_ptr<VariableSlot>& slot() const { return slot_; }

 private:
  std::shared_ptr<VariableSlot> slot_;
};

namespace tensor_detail {
/// A std::complex beside tensors: a value that widens none of them, as a number. Defined by the expr layer.
Leaf complex_number(double re, double im, Location where);
}  // namespace tensor_detail

/// A tensor-like argument with the place it was written. Converts from Tensor, Variable, Scalar, Dim, numbers and
/// expressions.
class In {
 public:
  // Of Tensors not here: users' files make many of them.
  In(const Tensor& t, Location at = std::source_location::current());
  In(Tensor&& t, Location at = std::source_location::current());
  In(const Variable& v, Location at = std::source_location::current());
  In(const Scalar& s, Location at = std::source_location::current());
  In(const Predicate& p, Location at = std::source_location::current());
  In(const Dim& d, Location at = std::source_location::current());
  template <Arithmetic S>
  In(S value, Location at = std::source_location::current()) : leaf(Leaf::of_number(value, at)), where(at) {}
  template <ComplexNumber C>
  In(const C& value, Location at = std::source_location::current())
      : leaf(tensor_detail::complex_number(static_cast<double>(value.real()), static_cast<double>(value.imag()), at)),
        where(at) {}
  template <class Op, class... A>
  In(const Expr<Op, A...>& e, Location at = std::source_location::current()) : leaf(e.record()), where(at) {}
  template <class Op, class... A>
  In(Expr<Op, A...>&& e, Location at = std::source_location::current()) : leaf(std::move(e).record()), where(at) {}

  /// The operand as a value; a number becomes a rank-0 tensor.
  Ref<TensorImpl> tensor() const;

  Leaf leaf;
  Location where;
};

/// What `u.at(...)` gives: assigning through it gives `u` an updated value. Where index tensors name an element several
/// times, the last value assigned (or quotient) stays, and all combine with what is there in the other forms. Not to be
/// stored.
class SlotRef {
 public:
  void operator=(const In& value) &&;
  void operator+=(const In& value) &&;
  void operator-=(const In& value) &&;
  void operator*=(const In& value) &&;
  void operator/=(const In& value) &&;
  /// The larger one of what is there and `value`.
  void maximum(const In& value) &&;
  /// The smaller one.
  void minimum(const In& value) &&;

 private:
  friend class Tensor;
  friend class Variable;
  SlotRef(Tensor& target, std::vector<Index> index);
  SlotRef(const Variable& target, std::vector<Index> index);
  Tensor now() const;
  void become(Tensor value, Location where) const;
  Tensor* tensor_ = nullptr;  // one of them is the target
  const Variable* variable_ = nullptr;
  std::vector<Index> index_;
};

inline Index::Index(const Tensor& t, Location at) : kind(Kind::gather), indices(t.impl()), where(at) {}

template <class T>
  requires(is_expr<std::remove_cvref_t<T>> || std::same_as<std::remove_cvref_t<T>, Tensor>)
const Variable& Variable::operator=(T&& value) const {
  return set(In(std::forward<T>(value)));
}

SINTER_NAMESPACE_END
