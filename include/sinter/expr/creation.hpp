// Tensors from nothing: constants, ranges and random numbers; and eval. creation.ipp also defines
// VariableSlot::of_this_thread() (tensor/slot.hpp): the slots that each thread has its own of are the generators'.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
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
Tensor arange(Dim start, N stop, Dim step = 1, TensorOptions options = {},
              Location where = std::source_location::current()) {
  return expr_detail::range(start, stop, step, options, where);
}
Tensor arange(Dim count, TensorOptions options = {}, Location where = std::source_location::current());
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

namespace expr_detail {
/// While it lives, what this thread draws comes from this key (i64, rank 0), with counters from 0 on, and no generator
/// moves.
class DrawsFrom {
 public:
  explicit DrawsFrom(Tensor key);
  DrawsFrom(const DrawsFrom&) = delete;
  DrawsFrom& operator=(const DrawsFrom&) = delete;
  ~DrawsFrom();
  const Tensor& key() const { return key_; }
  std::int64_t next_counter() { return counter_++; }
  /// The innermost one of this thread, or null.
  static DrawsFrom*& current();

 private:
  Tensor key_;
  std::int64_t counter_ = 0;
  DrawsFrom* outer_;
};

/// While it lives this thread's generator is that of a key: compiled functions that draw read it, too. In a trace,
/// where generators are those of the call, what is recorded draws from the key.
class LentKey {
 public:
  explicit LentKey(const Tensor& key);
  LentKey(const LentKey&) = delete;
  LentKey& operator=(const LentKey&) = delete;
  ~LentKey();

 private:
  Optional<DrawsFrom> source_;
  Optional<Tensor> old_key_, old_counter_;
  DrawsFrom* outer_;
};
}  // namespace expr_detail

/// Runs whatever these values need.
void eval(const In& x);
void eval(std::initializer_list<std::reference_wrapper<const Tensor>> values,
          Location where = std::source_location::current());
void eval(std::span<const Tensor> values, Location where = std::source_location::current());

SINTER_NAMESPACE_END
