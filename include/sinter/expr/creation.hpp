// Tensors from nothing: constants, ranges and random numbers; and eval. creation.ipp also defines
// VariableSlot::of_this_thread() (tensor/slot.hpp): the slots that each thread has its own of are the generators'.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <source_location>
#include <span>

SINTER_NAMESPACE_BEGIN

Tensor zeros(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());
Tensor ones(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());
Tensor full(const Shape& shape, const Scalar& value, TensorOptions options = {},
            Location where = std::source_location::current());
Tensor zeros_like(const In& x);
Tensor ones_like(const In& x);
namespace expr_detail {
Tensor range(Dim start, Dim stop, Dim step, TensorOptions options, Location where);
}  // namespace expr_detail
/// start, start + step, ... below stop (above it where step is negative). All three may be symbolic extents.
template <std::convertible_to<Dim> N = Dim>  // a template, for `{}` in its place to mean the options below
Tensor arange(Dim start, N stop, Dim step = 1, TensorOptions options = {.dtype = DType::i64},
              Location where = std::source_location::current()) {
  return expr_detail::range(start, stop, step, options, where);
}
Tensor arange(Dim count, TensorOptions options = {.dtype = DType::i64},
              Location where = std::source_location::current());
Tensor linspace(double start, double stop, Dim count, TensorOptions options = {},
                Location where = std::source_location::current());
Tensor eye(Dim n, TensorOptions options = {}, Location where = std::source_location::current());

/// Source of random numbers: a key and a counter, each a Variable, so that compiled functions advance it too.
struct Generator {
  explicit Generator(std::int64_t seed);
  Variable key, counter;
  /// The generator of this thread, which compiled functions that it calls use, too, whoever compiled them. Until
  /// manual_seed the first thread that draws has seed 0, and each further one another.
  static Generator& current();
};
void manual_seed(std::int64_t seed);
/// Uniform in [0, 1).
Tensor rand(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());
/// Standard normal.
Tensor randn(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());

/// Runs whatever these values need.
void eval(const In& x);
void eval(std::initializer_list<std::reference_wrapper<const Tensor>> values,
          Location where = std::source_location::current());
void eval(std::span<const Tensor> values, Location where = std::source_location::current());

SINTER_NAMESPACE_END
