// Arguments of a call, taken apart: one flat list of leaves, in the order in which the tree visitor meets them. Plain
// data on the stack.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/signature.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/jit/call/call_section.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

enum class LeafKind : std::uint8_t { tensor, scalar, fixed, variable };

/// One leaf of the arguments.
struct ArgLeaf {
  LeafKind kind = LeafKind::tensor;
  DTypeClass number_kind = DTypeClass::floating;  // scalar
  const Type* type = nullptr;                     // tensor, variable
  const Strides* strides = nullptr;
  void* data = nullptr;
  TensorImpl* impl = nullptr;    // null: borrowed memory
  VariableSlot* slot = nullptr;  // variable
  union {
    std::int64_t integer = 0;  // scalar, fixed
    double number;
  };
};

struct FinishedCall;
namespace jit_detail {
struct CallTypes;
}

/// The leaves of one call. While it lives, the versions that the call finds stay.
class ArgList {
  CallSection section_;  // first: it is the last to end

 public:
  ArgList() = default;
  ArgList(const ArgList&) = delete;
  ArgList& operator=(const ArgList&) = delete;

  const SmallVector<ArgLeaf, 16>& leaves() const { return leaves_; }
  /// Stands for the C++ types of arguments and result.
  const void* types = nullptr;
  /// How objects of these types are taken apart, or null.
  const jit_detail::CallTypes* call_types = nullptr;
  /// What keeps the values of Variables alive that this call reads.
  ReadSection& reading() const { return reading_; }

  /// The caller donates these handles: memory that nobody else sees may become a result's, and then they become empty.
  void donate(Tensor& x) { donated_.push_back(&x); }
  bool has_donations() const { return !donated_.empty(); }
  /// The donated handle that holds `value`, if that is the only argument it enters by.
  Tensor* donated(const TensorImpl* value) const;

  /// Results go into given memory: no gradient is wanted of them.
  bool has_places = false;
  /// Some argument is on the tape, or a Variable that requires a gradient.
  bool reaches_tape() const { return reaches_tape_; }

  /// What tracing this call has already computed (a function that reads values).
  mutable std::shared_ptr<FinishedCall> finished;

  SINTER_ALWAYS_INLINE void tensor(const Tensor& x) { add_value(x.impl().get(), LeafKind::tensor, nullptr); }
  void variable(const Variable& x);
  void value(TensorImpl* x) { add_value(x, LeafKind::tensor, nullptr); }
  void scalar(const Scalar& x) { number(x.leaf()); }
  void number(const Leaf& x) {
    ArgLeaf& leaf = leaves_.emplace_back();
    leaf.kind = LeafKind::scalar;
    leaf.number_kind = x.kind;
    if (x.kind == DTypeClass::floating) leaf.number = x.number;
    else leaf.integer = x.integer;
  }
  void floating(double value) {
    ArgLeaf& leaf = leaves_.emplace_back();
    leaf.kind = LeafKind::scalar;
    leaf.number = value;
  }
  void fixed(std::int64_t value) {
    ArgLeaf& leaf = leaves_.emplace_back();
    leaf.kind = LeafKind::fixed;
    leaf.integer = value;
  }
  void borrowed(const Borrowed& b) {
    ArgLeaf& leaf = leaves_.emplace_back();
    leaf.type = &b.type;
    leaf.strides = &b.strides;
    leaf.data = const_cast<void*>(b.data);
  }

 private:
  SINTER_ALWAYS_INLINE void add_value(TensorImpl* impl, LeafKind kind, VariableSlot* slot) {
    if (SINTER_UNLIKELY(!impl->is_ready())) make_ready(impl);
    ArgLeaf& leaf = leaves_.emplace_back();
    leaf.kind = kind;
    leaf.type = &impl->type;
    leaf.strides = &impl->strides;
    leaf.data = impl->data();
    leaf.impl = impl;
    leaf.slot = slot;
    reaches_tape_ |= impl->tape.load(std::memory_order_relaxed) != TapeState::none;
  }
  static void make_ready(TensorImpl* impl);

  mutable ReadSection reading_;
  bool reaches_tape_ = false;

  SmallVector<ArgLeaf, 16> leaves_;
  SmallVector<Tensor*, 8> donated_;
};

/// A complex number of the caller, lent as a tensor of rank 0.
template <ComplexNumber C>
Borrowed borrowed_number(const C& number) {
  return {{dtype_of<C>(), Device::cpu(), {}}, {}, std::addressof(number)};
}

/// A Tensor or lent memory, decided at run time: the tensor arguments of jit::Function::into.
struct Lent {
  Lent(const Tensor& x) : value(x) {}
  Lent(const Borrowed& b) : memory(b), is_memory(true) {}
  template <EigenLike M>
  Lent(const M& m) : memory(borrow(m)), is_memory(true) {}
  template <ComplexNumber C>
  Lent(const C& number) : memory(borrowed_number(number)), is_memory(true) {}
  Tensor value;
  Borrowed memory;
  bool is_memory = false;
};

/// How an argument of type A enters: what the caller's object is turned into before it is taken apart.
template <class A>
decltype(auto) as_argument(const A& arg) {
  if constexpr (std::same_as<A, Borrowed>) return arg;
  else if constexpr (EigenLike<A>) return borrow(arg);
  else if constexpr (ComplexNumber<A>) return borrowed_number(arg);
  else if constexpr (is_expr<A>) return Tensor(arg);
  else if constexpr (std::is_convertible_v<const A&, const char*>) return std::string(arg);
  else return arg;
}
template <class A>
using argument_t = std::remove_cvref_t<decltype(as_argument(std::declval<const A&>()))>;

/// How the traced function sees an argument. `AsScalar`: C++ numbers become run-time Scalars.
template <class A, bool AsScalar>
using traced_t = std::conditional_t<std::same_as<argument_t<A>, Borrowed> || std::same_as<A, Lent>, Tensor,
                                    std::conditional_t<Arithmetic<A> && AsScalar, Scalar, argument_t<A>>>;

namespace jit_detail {

using expr_detail::Signature;
using expr_detail::takes_scalar;

template <class P>
consteval bool check_parameter() {
  static_assert(!std::is_floating_point_v<std::remove_cvref_t<P>>,
                "sinter: a float or double parameter would be frozen into the compiled function; declare it Scalar");
  static_assert(!ComplexNumber<P>, "sinter: a std::complex enters as a Tensor of rank 0: declare the parameter Tensor");
  static_assert(
      !(std::is_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>),
      "sinter: a compiled function takes its arguments by value or const reference; return the new value instead");
  return true;
}
template <class Parameters>
struct CheckParameters;
template <class... P>
struct CheckParameters<std::tuple<P...>> {
  static constexpr bool ok = (check_parameter<P>() && ... && true);
};
template <class F>
consteval bool check_function() {
  static_assert(!std::is_member_function_pointer_v<F>,
                "sinter: a pointer to a member function has no object to be called on; compile a lambda that calls the "
                "member, [&](Tensor x) { return model.forward(x); }");
  if constexpr (Signature<F>::is_known)
    static_assert(!Signature<F>::is_mutable,
                  "sinter: a mutable lambda, or a function object whose operator() is not const, changes state of its "
                  "own; a traced function runs once and its code many times, so the state would stay: take it as an "
                  "argument and return the new one, or hold it in a Variable");
  if constexpr (Signature<F>::is_known) return CheckParameters<typename Signature<F>::Parameters>::ok;
  return true;
}
/// Is argument I, of type A, a complex number where F takes a real one?
template <class F, std::size_t I, class A>
consteval bool is_complex_for_real() {
  if constexpr (ComplexNumber<A> && Signature<F>::is_known) {
    using P = typename Signature<F>::Parameters;
    if constexpr (I < std::tuple_size_v<P>) return ScalarLike<std::tuple_element_t<I, P>>;
  }
  return false;
}

template <class F, class I, class... A>
struct Call;
template <class F, std::size_t... I, class... A>
struct Call<F, std::index_sequence<I...>, A...> {
  static_assert(!(is_complex_for_real<F, I, A>() || ...),
                "sinter: a std::complex enters as a Tensor of rank 0, a Scalar is real: declare the parameter Tensor");
  static constexpr bool fits = [] {
    if constexpr (Signature<F>::is_known) return std::tuple_size_v<typename Signature<F>::Parameters> == sizeof...(A);
    else return true;
  }();
  /// A generic lambda: numbers are run-time inputs, unless it only takes them as integers.
  static constexpr bool takes_all_scalars = [] {
    if constexpr (Signature<F>::is_known) return false;
    else return std::is_invocable_v<const F&, const traced_t<A, true>&...>;
  }();
  template <std::size_t At, class T>
  static constexpr bool as_scalar = [] {
    if constexpr (!Arithmetic<T>) return false;
    else if constexpr (Signature<F>::is_known) return takes_scalar<F, At>();
    else return takes_all_scalars || std::is_floating_point_v<T>;
  }();
  using Arguments = std::tuple<traced_t<A, as_scalar<I, A>>...>;
  static_assert(
      !(expr_detail::is_no_tensor_for<F, I, traced_t<A, as_scalar<I, A>>>() || ...),
      "sinter: this argument is no Tensor, which the function's parameter is: a parameter that takes numbers is "
      "declared Scalar; of an Eigen expression pass its .eval()");
};
template <class F, class... A>
using traced_arguments_t = typename Call<F, std::index_sequence_for<A...>, A...>::Arguments;

/// How an argument enters a call: what its type and that of the parameter say.
struct ArgumentType {
  enum class Kind : std::uint8_t { tensor, tree, number, borrowed, lent };
  Kind kind = Kind::tree;
  bool is_donated = false;  // an rvalue: its memory may become a result's
  // A C++ number that is a run-time input:
  bool is_floating = false;
  bool is_boolean = false;
  bool is_signed = false;
  std::uint8_t size = 0;
  const tree::Layout* layout = nullptr;  // of the argument, if that is a tree
  const tree::Layout* traced = nullptr;  // of what the traced function gets
};
/// `T`: how the traced function sees it; `A`: as it was given, for lvalues a reference.
template <class T, class A>
consteval ArgumentType argument_type() {
  using Given = std::remove_cvref_t<A>;
  using B = argument_t<Given>;
  using Kind = ArgumentType::Kind;
  ArgumentType type{.traced = &tree::LayoutOf<T>::value};
  if constexpr (std::same_as<B, Borrowed>) {
    type.kind = Kind::borrowed;
  } else if constexpr (std::same_as<B, Lent>) {
    type.kind = Kind::lent;
  } else if constexpr (std::same_as<T, Scalar> && Arithmetic<B>) {
    type.kind = Kind::number;
    type.is_floating = std::is_floating_point_v<B>;
    type.is_boolean = std::same_as<B, bool>;
    type.is_signed = std::is_signed_v<B>;
    type.size = sizeof(B);
  } else {
    type.kind = std::same_as<B, Tensor> ? Kind::tensor : Kind::tree;
    type.layout = &tree::LayoutOf<B>::value;
    type.is_donated = std::same_as<Given, B> && std::same_as<A, Given> && !Arithmetic<B>;
  }
  return type;
}
/// Whether all arguments of a call are Tensors that keep their memory. The list ends with one that stands for nothing.
template <std::size_t N>
consteval bool is_plain(const ArgumentType (&types)[N]) {
  for (std::size_t i = 0; i + 1 < N; ++i)
    if (types[i].kind != ArgumentType::Kind::tensor || types[i].is_donated) return false;
  return true;
}

}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
