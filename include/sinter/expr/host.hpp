// Data in and out: host memory to tensors (copy, adopt, wrap with an owner, borrow for one call), tensors to numbers,
// vectors, Eigen objects and text. Eigen's headers are not needed: its types are recognised by their members.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Eigen matrices, vectors and maps: dense storage with strides.
template <class M>
concept EigenLike = requires(const M& m) {
  typename M::Scalar;
  m.data();
  m.rows();
  m.cols();
  m.innerStride();
  m.outerStride();
  { M::IsRowMajor ? 1 : 0 };
  { M::IsVectorAtCompileTime ? 1 : 0 };
} && Element<typename M::Scalar>;

/// Elements in a row in host memory: a pointer to the first, or a vector, span or array. How many a pointer has is not
/// known, so nothing checks it against the shape.
template <class S>
concept HostElements = !EigenLike<std::remove_cv_t<S>> && (std::is_pointer_v<S> || requires(S& s) {
  std::data(s);
  std::size(s);
});

/// Host memory lent for one call: no Tensor, cannot be kept. Accepted by compiled functions and copy_of.
struct Borrowed {
  Type type;
  Strides strides{};
  const void* data = nullptr;
};
/// Host memory lent to receive results: `f.into(borrow_mut(...))(...)`.
struct BorrowedMut {
  Type type;
  Strides strides{};
  void* data = nullptr;
};

namespace expr_detail {
struct HostLayout {
  Type type;
  Strides strides{};
};
template <EigenLike M>
HostLayout eigen_layout(const M& m) {
  HostLayout layout{{dtype_of<typename M::Scalar>(), Device::cpu(), {}}};
  auto& [type, strides] = layout;
  if constexpr (M::IsVectorAtCompileTime) {
    type.shape.push_back(m.size());
    strides[0] = m.innerStride();
  } else {
    type.shape.push_back(m.rows());
    type.shape.push_back(m.cols());
    strides[0] = M::IsRowMajor ? m.outerStride() : m.innerStride();
    strides[1] = M::IsRowMajor ? m.innerStride() : m.outerStride();
  }
  return layout;
}
Type host_type(DType dtype, const Shape& shape, std::int64_t available, std::string_view function, Location where);
template <class S>
auto first_element(S& source) {
  if constexpr (std::is_pointer_v<S>) return source;
  else return std::data(source);
}
/// The elements of `source` as memory of `shape`.
template <class Lent, class S>
Lent lend(S& source, const Shape& shape, std::string_view function, Location where) {
  auto* first = first_element(source);
  using T = std::remove_cv_t<std::remove_pointer_t<decltype(first)>>;
  static_assert(Element<T>,
                "sinter: elements are float, double, float16, bfloat16, std::complex of float and double, integers of "
                "8 to 64 bits "
                "or bool; convert others first");
  std::int64_t available = -1;  // not checked
  if constexpr (!std::is_pointer_v<S>) available = static_cast<std::int64_t>(std::size(source));
  if (std::is_array_v<S> && available > shape.numel(where).value()) available = -1;  // a buffer may be longer
  return {host_type(dtype_of<T>(), shape, available, function, where), dense_strides(shape), first};
}
Tensor copy_strided(const Type& type, const void* data, const Strides& strides);
/// The ready tensor, or its copy where tensors are made now.
Tensor on_default_device(Tensor x);
}  // namespace expr_detail

/// Lends the elements (row-major, of `shape`) for one call. They must stay valid and unchanged during the call.
template <HostElements S>
Borrowed borrow(const S& source, const Shape& shape, Location where = std::source_location::current()) {
  return expr_detail::lend<Borrowed>(source, shape, "borrow", where);
}
template <EigenLike M>
Borrowed borrow(const M& m) {
  auto [type, strides] = expr_detail::eigen_layout(m);
  return {type, strides, m.data()};
}
/// Lends memory to receive results, on the same terms.
template <class S>
  requires HostElements<std::remove_reference_t<S>>
BorrowedMut borrow_mut(S&& target, const Shape& shape, Location where = std::source_location::current()) {
  using Pointer = decltype(expr_detail::first_element(target));
  static_assert(!std::is_const_v<std::remove_pointer_t<Pointer>>, "sinter: results cannot go into const memory");
  return expr_detail::lend<BorrowedMut>(target, shape, "borrow_mut", where);
}
template <EigenLike M>
BorrowedMut borrow_mut(M& m) {
  auto [type, strides] = expr_detail::eigen_layout(m);
  return {type, strides, m.data()};
}

/// A tensor with a copy of host data.
Tensor copy_of(const Borrowed& b);
template <EigenLike M>
Tensor copy_of(const M& m) {
  return copy_of(borrow(m));
}
template <HostElements S>
Tensor copy_of(const S& source, const Shape& shape, Location where = std::source_location::current()) {
  return copy_of(expr_detail::lend<Borrowed>(source, shape, "copy_of", where));
}
/// Of rank 1.
template <HostElements S>
  requires(!std::is_pointer_v<S>)
Tensor copy_of(const S& source) {
  return copy_of(source, Shape{Dim(std::size(source))});
}
/// std::vector<bool> holds bits, not elements.
Tensor copy_of(const std::vector<bool>& source, const Shape& shape, Location where = std::source_location::current());
Tensor copy_of(const std::vector<bool>& source);
/// A tensor that takes over the vector's memory. No copy while the default device is the CPU. (std::vector<bool> has no
/// such memory: use copy_of.)
template <Element T>
  requires(!std::same_as<T, bool>)
Tensor adopt(std::vector<T>&& data, const Shape& shape, Location where = std::source_location::current());
/// A tensor over memory of others (row-major), kept alive by `owner`. The data must not change while it is used.
Tensor from_blob(std::shared_ptr<const void> owner, const void* data, const Shape& shape, DType dtype,
                 Location where = std::source_location::current());
/// The same for memory of a device: a pointer that the device can read. No copy. Work of others on the memory must be
/// done, or ordered before the current stream, when this is called; the device is drained before `owner` is released.
Tensor from_blob(std::shared_ptr<const void> owner, const void* data, const Shape& shape, DType dtype, Device device,
                 Location where = std::source_location::current());
namespace expr_detail {
Tensor literal(DType dtype, const Shape& shape, const void* data);
/// `bytes` of each row one after the other; rows of different lengths are refused.
class LiteralRows {
 public:
  LiteralRows(std::size_t rows, std::size_t columns, DType dtype, Location where);
  void add(const void* row, std::size_t columns);
  Tensor finish() const { return finish(shape_); }
  Tensor finish(const Shape& shape) const;  // of as many elements

 private:
  DType dtype_;
  Shape shape_;
  Location where_;
  std::string bytes_;
};
/// The planes of a literal have one number of rows.
void require_rows(std::size_t rows, std::size_t first, Location where);
}  // namespace expr_detail
/// From literals: tensor({1.f, 2.f}), tensor({{1.f, 2.f}, {3.f, 4.f}}), and one level more; tensor(1.5), of rank 0.
template <Element T>
Tensor tensor(const T& value) {
  return expr_detail::literal(dtype_of<T>(), Shape{}, &value);
}
template <Element T>
Tensor tensor(std::initializer_list<T> values) {
  return expr_detail::literal(dtype_of<T>(), Shape{Dim(values.size())}, values.begin());
}
template <Element T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, Location where = std::source_location::current()) {
  expr_detail::LiteralRows literal(rows.size(), rows.size() == 0 ? 0 : rows.begin()->size(), dtype_of<T>(), where);
  for (const auto& row : rows) literal.add(row.begin(), row.size());
  return literal.finish();
}
template <Element T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
              Location where = std::source_location::current()) {
  const std::size_t rows = planes.size() == 0 ? 0 : planes.begin()->size();
  const std::size_t columns = rows == 0 ? 0 : planes.begin()->begin()->size();
  expr_detail::LiteralRows literal(planes.size() * rows, columns, dtype_of<T>(), where);
  for (const auto& plane : planes) {
    expr_detail::require_rows(plane.size(), rows, where);
    for (const auto& row : plane) literal.add(row.begin(), row.size());
  }
  // without numbers it is the list of rows that it may be as well
  if (rows == 0) return literal.finish(Shape{Dim(planes.size()), Dim(0)});
  return literal.finish(Shape{Dim(planes.size()), Dim(rows), Dim(columns)});
}

/// The tensor as ready, row-major data where it is (evaluates; copies only if strided).
Ref<TensorImpl> dense_value(const In& x, std::string_view function);
namespace expr_detail {
/// What x.data() reads: the value, or a row-major copy that the value keeps. Const access, from any thread.
const TensorImpl& readable_value(const Tensor& x, DType dtype, Location where);
}  // namespace expr_detail
/// The same in host memory: what is on another device is copied, after the work that makes it.
Ref<TensorImpl> host_value(const In& x, std::string_view function);

namespace expr_detail {
/// One element that was read: its bits, in `dtype`.
struct Number {
  DType dtype;
  std::uint64_t bits;
};
/// Reads the only element of x. While x is traced this cuts the trace, and the value becomes a guard: `as`, if given,
/// is the dtype in which it is compared.
Number read_number(const In& x, std::string_view function, const DType* as);
/// Throws DTypeError for complex elements that are to be real.
void require_convertible(DType from, DType to, std::string_view function, Location where);
/// Writes `count` elements at `from`, converted, to `to`.
void convert_elements(DType from_dtype, const void* from, DType to_dtype, void* to, std::size_t count);
}  // namespace expr_detail

/// The only element as a run-time number. Outside a trace it evaluates; inside one nothing is read before the number is
/// compared in an `if` or converted.
Scalar item(const In& x);
/// The only element, converted to T. Evaluates; inside a trace its exact value is read and becomes a guard.
template <RealElement T>
T item(const In& x) {
  constexpr DType dtype = dtype_of<T>();
  const expr_detail::Number number = expr_detail::read_number(x, "item", &dtype);
  T out;
  expr_detail::convert_elements(number.dtype, &number.bits, dtype, &out, 1);
  return out;
}
template <ComplexElement T>
T item(const In& x) {
  using Part = typename T::value_type;
  return is_complex(x) ? T(item<Part>(In(real(x), x.where)), item<Part>(In(imag(x), x.where)))
                       : T(item<Part>(x), Part(0));
}
/// All elements, row-major, converted to T. Evaluates.
template <Element T>
std::vector<T> to_vector(const In& x) {
  Ref<TensorImpl> value = host_value(x, "to_vector");
  expr_detail::require_convertible(value->type.dtype, dtype_of<T>(), "to_vector", x.where);
  const auto count = as_index(value->type.shape.numel().value());
  if constexpr (std::same_as<T, bool>) {  // whose elements have no addresses
    std::vector<unsigned char> bytes(count);
    expr_detail::convert_elements(value->type.dtype, value->data(), DType::bool_, bytes.data(), count);
    return {bytes.begin(), bytes.end()};
  } else {
    std::vector<T> out(count);
    expr_detail::convert_elements(value->type.dtype, value->data(), dtype_of<T>(), out.data(), count);
    return out;
  }
}
/// A copy as an Eigen matrix or vector of matching scalar type.
template <EigenLike M>
M to_eigen(const Tensor& x, Location where = std::source_location::current());
/// Writes the elements into an Eigen object or other lent memory of the same shape and dtype.
void copy_to(const BorrowedMut& target, const In& x);

/// NumPy-like text: "[[1, 2],\n [3, 4]]"; long axes are shortened.
std::string to_string(const In& x);
namespace expr_detail {
/// What is printed, and the line that prints it, which an operator has no parameter for.
struct Printed {
  Printed(const Tensor& x, Location at = std::source_location::current()) : value(x), where(at) {}
  Printed(const Variable& x, Location at = std::source_location::current()) : value(x.value()), where(at) {}
  template <class Op, class... A>
  Printed(const Expr<Op, A...>& x, Location at = std::source_location::current()) : value(x), where(at) {}
  Tensor value;
  Location where;
};
struct PrintedNumber {
  PrintedNumber(const Scalar& x, Location at = std::source_location::current()) : value(x), where(at) {}
  const Scalar& value;
  Location where;
};
}  // namespace expr_detail
/// A Tensor, Variable or expression.
std::ostream& operator<<(std::ostream& out, const expr_detail::Printed& x);
/// A Scalar.
std::ostream& operator<<(std::ostream& out, const expr_detail::PrintedNumber& x);

// ---- definitions of templates

template <class Self>
Scalar TensorMethods<Self>::item(Location where) const {
  return sinter::item(In(static_cast<const Self&>(*this), where));
}

template <class Self>
template <Element T>
T TensorMethods<Self>::item(Location where) const {
  return sinter::item<T>(In(static_cast<const Self&>(*this), where));
}

template <Element T>
  requires(!std::same_as<T, bool>)
Tensor adopt(std::vector<T>&& data, const Shape& shape, Location where) {
  Type type = expr_detail::host_type(dtype_of<T>(), shape, static_cast<std::int64_t>(data.size()), "adopt", where);
  auto owner = std::make_shared<std::vector<T>>(std::move(data));
  return expr_detail::on_default_device(from_blob(owner, owner->data(), type.shape, type.dtype, where));
}

template <EigenLike M>
M to_eigen(const Tensor& x, Location where) {
  M out;
  const Shape shape = x.shape();
  constexpr bool is_vector = M::IsVectorAtCompileTime;
  if (shape.rank() != (is_vector ? 1 : 2))
    throw ShapeError(
        "to_eigen",
        std::string(is_vector ? "a vector needs rank 1" : "a matrix needs rank 2") + ", the tensor is " + shape.text(),
        where);
  auto check = [&](std::int64_t fixed, int axis) {  // -1: dynamic
    if (fixed >= 0 && fixed != shape[axis].value())
      throw ShapeError("to_eigen",
                       "the Eigen type has extent " + std::to_string(fixed) + " where the tensor is " + shape.text(),
                       where);
  };
  if constexpr (is_vector) {
    check(M::SizeAtCompileTime, 0);
    if constexpr (M::SizeAtCompileTime < 0) out.resize(shape[0].value());
  } else {
    check(M::RowsAtCompileTime, 0);
    check(M::ColsAtCompileTime, 1);
    if constexpr (M::SizeAtCompileTime < 0) out.resize(shape[0].value(), shape[1].value());
  }
  using T = typename M::Scalar;
  if (x.dtype() != dtype_of<T>())
    throw DTypeError(
        "to_eigen",
        "the tensor has dtype " + std::string(name(x.dtype())) + ", the Eigen type " + std::string(name(dtype_of<T>())),
        where, "cast it first: x.to(DType::" + std::string(name(dtype_of<T>())) + ")");
  copy_to(borrow_mut(out), In(x, where));
  return out;
}

template <Element T>
std::span<const T> Tensor::data(Location where) const {
  const TensorImpl& value = expr_detail::readable_value(*this, dtype_of<T>(), where);
  return {static_cast<const T*>(value.data()), as_index(value.type.shape.numel().value())};
}

SINTER_NAMESPACE_END
