// Expression templates. An Expr's type is the structure of the expression; it holds the leaves, one flat array. Its
// structure (postfix steps) is constexpr data of the type. Recording it makes one block; a named Expr is recorded
// once and remembers the result.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/ops/names.hpp>
#include <sinter/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {

template <class T>
inline constexpr std::size_t leaf_count = 1;  // Leaf
template <class Op, class... A>
inline constexpr std::size_t leaf_count<Expr<Op, A...>> = (leaf_count<A> + ...);
template <class T>
inline constexpr std::size_t step_count = 1;
template <class Op, class... A>
inline constexpr std::size_t step_count<Expr<Op, A...>> = 1 + (step_count<A> + ...);
/// Writes the postfix steps of a type into an array.
template <class T>
struct StepWriter {
  static constexpr void write(auto& steps, std::size_t& at, std::uint16_t& leaf) {
    steps[at++] = ExprStep{nullptr, 0, leaf++};
  }
};
template <class Op, class... A>
struct StepWriter<Expr<Op, A...>> {
  static constexpr void write(auto& steps, std::size_t& at, std::uint16_t& leaf) {
    (StepWriter<A>::write(steps, at, leaf), ...);
    steps[at++] = ExprStep{&OpInfoOf<Op>::info, sizeof...(A), 0};
  }
};

template <class E>
inline constexpr auto steps_of = [] {
  std::array<ExprStep, step_count<E>> steps{};
  std::size_t at = 0;
  std::uint16_t leaf = 0;
  StepWriter<E>::write(steps, at, leaf);
  return steps;
}();

template <class E>
inline constexpr ExprStructure structure_of{steps_of<E>, static_cast<std::uint16_t>(leaf_count<E>)};

template <class>
inline constexpr bool always_false = false;

/// The value that an expression was recorded as, if it was; one for each trace that used it. Const members may run on
/// several threads at once.
class RecordedValue {
 public:
  RecordedValue() = default;
  RecordedValue(const RecordedValue& other) noexcept : value_(other.get()) {
    if (value_ != nullptr) value_->retain();
  }
  RecordedValue(RecordedValue&& other) noexcept
      : value_(std::exchange(other.value_, nullptr)), others_(std::exchange(other.others_, nullptr)) {}
  RecordedValue& operator=(const RecordedValue&) = delete;
  ~RecordedValue() {
    if (value_ != nullptr) release();
  }
  // By the compiler's functions: std::atomic_ref is missing in some standard libraries, and std::atomic would keep the
  // compiler from seeing that a temporary expression has none.
  TensorImpl* get() const noexcept { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
  /// The value, where it may be used here.
  Ref<TensorImpl> usable() const noexcept { return get() == nullptr ? Ref<TensorImpl>() : usable_of_traces(); }
  /// Keeps `value`, unless there is one already, and returns what is to be used here.
  Ref<TensorImpl> keep(Ref<TensorImpl> value) const;

 private:
  struct Other;
  Ref<TensorImpl> usable_of_traces() const noexcept;
  void release() noexcept;
  mutable TensorImpl* value_ = nullptr;  // owned, as are the others, of which there are none without it
  mutable Other* others_ = nullptr;
};

}  // namespace expr_detail

/// An unfinished elementwise expression. Use it in further expressions, or assign it to a Tensor; `auto e = a + b;` is
/// safe: it owns its leaves and is computed once.
template <class Op, class... A>
class Expr : public TensorMethods<Expr<Op, A...>> {
 public:
  using Self = Expr;
  SINTER_TENSOR_OPERATORS

  static constexpr std::size_t leaf_count = expr_detail::leaf_count<Expr>;

  template <class... T>
  explicit Expr(Location where, T&&... operands) : where_(where) {
    std::size_t at = 0;
    (append(at, std::forward<T>(operands)), ...);
  }
  Expr(const Expr& other) = default;
  Expr(Expr&&) noexcept = default;
  Expr& operator=(const Expr&) {
    static_assert(expr_detail::always_false<Op>,
                  "sinter: `auto` names an unfinished expression; declare the variable as Tensor");
    return *this;
  }

  template <class O>
  Expr& operator=(const O&) {
    static_assert(expr_detail::always_false<O>,
                  "sinter: `auto` names an unfinished expression; declare the variable as Tensor");
    return *this;
  }
  template <class O>
  Expr& operator+=(const O&) {
    static_assert(expr_detail::always_false<O>,
                  "sinter: `auto` names an unfinished expression; declare the variable as Tensor");
    return *this;
  }
  template <class O>
  Expr& operator-=(const O&) {
    static_assert(expr_detail::always_false<O>,
                  "sinter: `auto` names an unfinished expression; declare the variable as Tensor");
    return *this;
  }
  template <class O>
  Expr& operator*=(const O&) {
    static_assert(expr_detail::always_false<O>,
                  "sinter: `auto` names an unfinished expression; declare the variable as Tensor");
    return *this;
  }

  /// The value of this expression, recorded at first use. A named Expr keeps its leaves, a temporary moves them.
  Ref<TensorImpl> record() const& {
    if (Ref<TensorImpl> known = recorded_.usable()) return known;
    auto leaves = leaves_;
    return recorded_.keep(record_expression(structure(), leaves, where_));
  }
  Ref<TensorImpl> record() && {
    Ref<TensorImpl> known = recorded_.usable();
    return known ? std::move(known) : record_expression(structure(), leaves_, where_);
  }
  static constexpr const ExprStructure& structure() { return expr_detail::structure_of<Expr>; }
  bool is_recorded() const { return recorded_.get() != nullptr; }
  std::span<Leaf, leaf_count> leaves() { return leaves_; }
  Location where() const { return where_; }

 private:
  template <class, class...>
  friend class Expr;

  void append(std::size_t& at, Leaf&& leaf) { leaves_[at++] = std::move(leaf); }
  template <class Op2, class... A2>
  void append(std::size_t& at, Expr<Op2, A2...>&& part) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((leaves_[at++] = std::move(part.leaves_[I])), ...);
    }(std::make_index_sequence<expr_detail::leaf_count<Expr<Op2, A2...>>>{});
  }

  std::array<Leaf, leaf_count> leaves_;
  Location where_;
  expr_detail::RecordedValue recorded_;
};

namespace tensor_detail {

template <class T>
held_t<T> hold(T&& operand, [[maybe_unused]] Location where) {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (Arithmetic<Plain>) return Leaf::of_number(operand, where);
  else if constexpr (ComplexNumber<T>)
    return complex_number(static_cast<double>(operand.real()), static_cast<double>(operand.imag()), where);
  else if constexpr (std::same_as<Plain, Dim>) return Scalar(operand).leaf();
  else if constexpr (std::same_as<Plain, Scalar> || std::same_as<Plain, Predicate>) return operand.leaf();
  else if constexpr (std::same_as<Plain, Variable>) return Leaf(operand.value().impl());
  else if constexpr (std::same_as<Plain, Tensor> && std::is_lvalue_reference_v<T>) return Leaf(operand.impl());
  else if constexpr (std::same_as<Plain, Tensor>) return Leaf(std::move(operand).take());
  else if constexpr (std::is_lvalue_reference_v<T>) return Leaf(operand.record());
  else return std::move(operand);
}

/// As hold(), but a temporary expression stays where it is: its leaves move once, into the one that takes it.
template <class T>
decltype(auto) hold_in_place(T&& operand, Location where) {
  if constexpr (is_expr<std::remove_cvref_t<T>> && !std::is_lvalue_reference_v<T>) return std::move(operand);
  else return hold<T>(std::forward<T>(operand), where);
}

template <class Op, class... T>
auto make_expr(Location where, T&&... operands) -> Expr<Op, held_t<T>...> {
  return Expr<Op, held_t<T>...>(where, hold_in_place<T>(std::forward<T>(operands), where)...);
}

}  // namespace tensor_detail

SINTER_NAMESPACE_END
