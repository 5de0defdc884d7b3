// Ops of the user's own: a C++ function with a shape rule, a derivative, and perhaps a decomposition. They are used
// like any other op: lazily, compiled, under grad, with dynamic extents.
#pragma once

#include <sinter/base/block_pool.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/base/type_key.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/host_call.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// An operand or result in memory, row-major without gaps. T is const for operands.
template <class T>
struct ArrayView {
  T* data = nullptr;
  std::int64_t numel = 0;
  Shape shape{};  // all extents known
  DType dtype = DType::f32;

  std::int64_t size(int axis) const { return shape[axis].value(); }
  T* begin() const { return data; }
  T* end() const { return data + numel; }
};
/// Of any dtype: as<float>() gives the elements.
template <class T>
  requires std::is_void_v<T>
struct ArrayView<T> {
  T* data = nullptr;
  std::int64_t numel = 0;
  Shape shape{};
  DType dtype = DType::f32;

  std::int64_t size(int axis) const { return shape[axis].value(); }
  /// Throws DTypeError if E is not the dtype.
  template <Element E>
  auto as() const {
    using Pointer = std::conditional_t<std::is_const_v<T>, const E*, E*>;
    if (dtype != dtype_of<E>())
      throw DTypeError("custom_op", "memory of dtype " + std::string(name(dtype)) + " is read as " +
                                        std::string(name(dtype_of<E>())));
    return static_cast<Pointer>(data);
  }
};

namespace custom_detail {
/// One thing for an op with one result, an array for more.
template <class X, std::size_t N>
using PerResult = std::conditional_t<N == 1, X, std::array<X, N>>;
/// What a derivative is told of results: the result, or all of them.
template <std::size_t N>
using ResultArgument = std::conditional_t<N == 1, const Tensor&, std::span<const Tensor>>;
template <class T>
using Operands = std::span<const ArrayView<const T>>;

/// A std::function that knows of which type what it was given is.
template <class Signature>
struct UserFunction : std::function<Signature> {
  UserFunction() = default;
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, UserFunction> &&
             std::constructible_from<std::function<Signature>, F>)
  UserFunction(F&& f) : std::function<Signature>(std::forward<F>(f)), kind(type_key<std::remove_cvref_t<F>>()) {}
  TypeKey kind = nullptr;
};
}  // namespace custom_detail

/// One launch of an op's CUDA source.
struct CudaLaunch {
  std::array<unsigned, 3> grid{1, 1, 1}, block{256, 1, 1};
  std::uint32_t shared_bytes = 0;       // of dynamic shared memory
  std::vector<std::int64_t> numbers{};  // arguments after the pointers, each a long long
};

/// What an op is. T: the element type of all operands and results, or void for ops of several dtypes. N: number of
/// results. `in` is a list of operands; where an op has several results, shape, dtype and decompose return
/// std::array<..., N>, cpu gets one of views, and vjp gets lists of results and of their gradients.
template <class T = float, std::size_t N = 1>
struct CustomOp {
  /// Shown in errors and graphs. Not that of a built-in op, nor of another custom op that is alive.
  std::string name;
  /// Shapes of the results from those of the operands; extents may be symbolic.
  custom_detail::UserFunction<custom_detail::PerResult<Shape, N>(std::span<const Shape> in)> shape = {};
  /// dtypes of the results. Default: T; with T void, that of the first operand.
  custom_detail::UserFunction<custom_detail::PerResult<DType, N>(std::span<const DType> in)> dtype = {};
  /// Computes the results: in[0].data, out.data. May be called by several threads at once.
  custom_detail::UserFunction<void(custom_detail::Operands<T> in, custom_detail::PerResult<ArrayView<T>, N> out)> cpu =
      {};
  /// The same on a CUDA device: in and out are in its memory, and work is enqueued on `stream` (a CUstream or
  /// cudaStream_t), not waited for. Without it, operands on a GPU are copied to the host for `cpu`.
  custom_detail::UserFunction<void(custom_detail::Operands<T> in, custom_detail::PerResult<ArrayView<T>, N> out,
                                   void* stream)>
      cuda = {};
  /// Gradients of the operands, in order; Tensor() where there is none. Traced, so any op may be used.
  custom_detail::UserFunction<std::vector<Tensor>(std::span<const Tensor> in, custom_detail::ResultArgument<N> out,
                                                  custom_detail::ResultArgument<N> dout)>
      vjp = {};
  /// The same as operations on Tensors: then it is fused, and `cpu` is not needed. Must have no effects.
  custom_detail::UserFunction<custom_detail::PerResult<Tensor, N>(std::span<const Tensor> in)> decompose = {};
  /// The op over a batch, under jit::vmap; without it the function runs for each example. Operands that are `batched`
  /// have the batch as their first axis, of extent `size`; all results must. Traced, so any op may be used, other
  /// custom ops included; where the op has a `vjp`, that is the derivative under vmap too.
  custom_detail::UserFunction<custom_detail::PerResult<Tensor, N>(std::span<const Tensor> in,
                                                                  std::span<const bool> batched, Dim size)>
      batch = {};
  /// false: the function has effects; it runs once for each call, in order with other effects.
  bool pure = true;
  /// In the place of `cpu`: computes elements [begin, end) of the results, counted in the first one. Blocks of them run
  /// on several threads at once.
  custom_detail::UserFunction<void(custom_detail::Operands<T> in, custom_detail::PerResult<ArrayView<T>, N> out,
                                   std::int64_t begin, std::int64_t end)>
      cpu_blocks = {};
  double element_nanoseconds = 4;  // what cpu_blocks takes for one: decides how many threads are worth it
  /// In the place of `cuda`: CUDA C with the kernel `extern "C" __global__ void NAME(...)`, NAME being the op's. It
  /// takes pointers to the operands, to the results, and the numbers of the launch; NVRTC compiles it at first use.
  std::string cuda_source = {};
  /// The launch for these operands and results (their addresses are of the device). Default: a thread for each element
  /// of the first result, and their number as the only one.
  custom_detail::UserFunction<CudaLaunch(custom_detail::Operands<T> in, custom_detail::PerResult<ArrayView<T>, N> out)>
      cuda_launch = {};
};

namespace custom_detail {

using Shapes = std::vector<Shape>;
using TensorFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

/// A CustomOp without its types.
struct Definition {
  std::string name;
  Location where;  // of custom_op(...)
  std::size_t results = 1;
  bool has_dtype = false;  // all operands and results are `element`
  DType element = DType::f32;
  bool is_pure = true;
  std::function<Shapes(std::span<const Shape>)> shape;
  std::function<std::vector<DType>(std::span<const DType>)> dtype;
  std::function<void(std::span<const HostView> in, std::span<const HostView> out)> cpu;
  std::function<void(std::span<const HostView> in, std::span<const HostView> out, void* stream)> cuda;
  std::function<std::vector<Tensor>(std::span<const Tensor> in, std::span<const Tensor> out,
                                    std::span<const Tensor> dout)>
      vjp;
  TensorFunction decompose;
  std::function<std::vector<Tensor>(std::span<const Tensor> in, std::span<const bool> batched, Dim size)> batch;
  std::string cuda_source;
  std::function<CudaLaunch(std::span<const HostView> in, std::span<const HostView> out)> cuda_launch;
  std::vector<TypeKey> kinds;  // of the functions: a second making of the same op has the same
};

class CustomFunction;
std::shared_ptr<const CustomFunction> make_custom(Definition definition);

template <std::size_t N, class X>
auto as_vector(X&& x) {
  using V = std::remove_cvref_t<X>;
  if constexpr (N == 1) return std::vector<V>{std::forward<X>(x)};
  else return std::vector<typename V::value_type>(x.begin(), x.end());
}
template <std::size_t N>
ResultArgument<N> as_argument(std::span<const Tensor> values) {
  if constexpr (N == 1) return values[0];
  else return values;
}
template <class T>
ArrayView<T> array_view(const HostView& view) {
  return {static_cast<T*>(view.data), view.numel, view.shape, view.dtype};
}

/// Views of any number of operands, in memory that the thread keeps: a warm call allocates nothing.
template <class T>
class OperandViews {
 public:
  explicit OperandViews(std::span<const HostView> in)
      : bytes_(in.size() * sizeof(View)), first_(static_cast<View*>(allocate_pooled(bytes_))) {
    View* next = first_;
    for (const HostView& view : in) new (next++) View(array_view<const T>(view));
  }
  OperandViews(const OperandViews&) = delete;
  OperandViews& operator=(const OperandViews&) = delete;
  ~OperandViews() { release_pooled(first_, bytes_); }
  const ArrayView<const T>* first() const { return first_; }

 private:
  using View = ArrayView<const T>;
  static_assert(std::is_trivially_destructible_v<View> && alignof(View) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  std::size_t bytes_;
  View* first_;
};

/// f(operands, results, more...).
template <class T, std::size_t N, class F, class... More>
decltype(auto) call_with_views(const F& f, std::span<const HostView> in, std::span<const HostView> results,
                               More... more) {
  const OperandViews<T> operands(in);
  const Operands<T> list(operands.first(), in.size());
  if constexpr (N == 1) return f(list, array_view<T>(results[0]), more...);
  else
    return f(
        list,
        [&]<std::size_t... I>(std::index_sequence<I...>) {
          return std::array<ArrayView<T>, N>{array_view<T>(results[I])...};
        }(std::make_index_sequence<N>{}),
        more...);
}

template <class T, std::size_t N>
Definition definition_of(CustomOp<T, N> op, Location where) {
  Definition out;
  out.name = std::move(op.name);
  out.where = where;
  out.results = N;
  out.is_pure = op.pure;
  if constexpr (!std::is_void_v<T>) {
    out.has_dtype = true;
    out.element = dtype_of<T>();
  }
  out.kinds = {op.shape.kind,     op.dtype.kind,      op.cpu.kind,         op.cuda.kind, op.vjp.kind,
               op.decompose.kind, op.cpu_blocks.kind, op.cuda_launch.kind, op.batch.kind};
  out.cuda_source = std::move(op.cuda_source);
  if (op.shape) out.shape = [f = std::move(op.shape)](std::span<const Shape> in) { return as_vector<N>(f(in)); };
  if (op.dtype) out.dtype = [f = std::move(op.dtype)](std::span<const DType> in) { return as_vector<N>(f(in)); };
  if (op.cpu)
    out.cpu = [f = std::move(op.cpu)](std::span<const HostView> in, std::span<const HostView> results) {
      call_with_views<T, N>(f, in, results);
    };
  else if (op.cpu_blocks)
    out.cpu = [f = std::move(op.cpu_blocks), cost = op.element_nanoseconds](std::span<const HostView> in,
                                                                            std::span<const HostView> results) {
      parallel_for(results[0].numel, cost,
                   [&](std::int64_t begin, std::int64_t end) { call_with_views<T, N>(f, in, results, begin, end); });
    };
  if (op.cuda_launch)
    out.cuda_launch = [f = std::move(op.cuda_launch)](std::span<const HostView> in, std::span<const HostView> results) {
      return call_with_views<T, N>(f, in, results);
    };
  if (op.cuda)
    out.cuda = [f = std::move(op.cuda)](std::span<const HostView> in, std::span<const HostView> results, void* stream) {
      call_with_views<T, N>(f, in, results, stream);
    };
  if (op.vjp)
    out.vjp = [f = std::move(op.vjp)](std::span<const Tensor> in, std::span<const Tensor> results,
                                      std::span<const Tensor> gradients) {
      return f(in, as_argument<N>(results), as_argument<N>(gradients));
    };
  if (op.batch)
    out.batch = [f = std::move(op.batch)](std::span<const Tensor> in, std::span<const bool> batched, Dim size) {
      return as_vector<N>(f(in, batched, size));
    };
  if (op.decompose)
    out.decompose = [f = std::move(op.decompose)](std::span<const Tensor> in) { return as_vector<N>(f(in)); };
  return out;
}

/// An operand of op(...), or none.
class Operand {
 public:
  Operand() : in(0.0), is_given(false) {}
  template <class A>
    requires(!std::same_as<std::remove_cvref_t<A>, Operand> && std::constructible_from<In, A, Location>)
  Operand(A&& x, Location at = std::source_location::current()) : in(std::forward<A>(x), at), is_given(true) {}
  In in;
  bool is_given;
};
/// The results of a call with those that are given, or with all of a list.
std::vector<Tensor> call_custom(const std::shared_ptr<const CustomFunction>& op,
                                std::initializer_list<const Operand*> operands);
std::vector<Tensor> call_custom(const std::shared_ptr<const CustomFunction>& op, std::span<const Tensor> operands,
                                Location where);

}  // namespace custom_detail

/// An op made by custom_op: call it with up to eight operands, or with a list. Copies share it.
template <std::size_t N>
class CustomOpFunction {
 public:
  explicit CustomOpFunction(std::shared_ptr<const custom_detail::CustomFunction> op) : op_(std::move(op)) {}

  using Result = custom_detail::PerResult<Tensor, N>;
  using Operand = custom_detail::Operand;
  Result operator()(const Operand& a0 = {}, const Operand& a1 = {}, const Operand& a2 = {}, const Operand& a3 = {},
                    const Operand& a4 = {}, const Operand& a5 = {}, const Operand& a6 = {},
                    const Operand& a7 = {}) const {
    return unpacked(custom_detail::call_custom(op_, {&a0, &a1, &a2, &a3, &a4, &a5, &a6, &a7}));
  }
  Result operator()(std::span<const Tensor> operands, Location where = std::source_location::current()) const {
    return unpacked(custom_detail::call_custom(op_, operands, where));
  }

 private:
  static Result unpacked(std::vector<Tensor> results) {
    if constexpr (N == 1) return std::move(results[0]);
    else
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return Result{std::move(results[I])...};
      }(std::make_index_sequence<N>{});
  }
  std::shared_ptr<const custom_detail::CustomFunction> op_;
};

/// Makes an op of the user's own functions; see CustomOp for the parts. Make it once and keep it.
///   auto softsign = jit::custom_op({.name = "softsign", .shape = [](auto in) { return in[0]; },
///                                   .cpu = [](auto in, auto out) { ... in[0].data ... out.data ... }});
/// custom_op<double> is for other element types, custom_op<void> for several, custom_op<float, 2> for two results.
template <class T = float, std::size_t N = 1>
CustomOpFunction<N> custom_op(CustomOp<T, N> op, Location where = std::source_location::current()) {
  static_assert(std::is_void_v<T> || Element<T>,
                "the element type of a custom op is float, double, std::int32_t, std::int64_t, bool, or void for any");
  return CustomOpFunction<N>(custom_detail::make_custom(custom_detail::definition_of(std::move(op), where)));
}

}  // namespace jit
SINTER_NAMESPACE_END
