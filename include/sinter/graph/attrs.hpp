// Attrs: the static arguments of an operation. One plain struct for all ops; an op uses the fields it needs, the rest
// keep their defaults and take no part in printing or hashing.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN

struct Attrs {
  IntVector axes{};                // reduced axes, permutation, the axis of gather/concat/softmax, ...
  Shape shape{};                   // target of reshape, expand, full, iota; starts of slice; low padding
  Shape limits{};                  // ends of slice; high padding
  IntVector steps{};               // of slice; window sizes, strides
  double value = 0;                // eps, fill, a floating constant
  std::int64_t integer = 0;        // number of an input, an integral constant
  DType dtype = DType::f32;        // cast, full, iota
  bool has_dtype = false;
  Device device{};                 // of what is made from nothing: full, iota, random numbers
  bool keepdim = false;
  std::string text{};              // name of an input or of an effect
  Ref<TensorImpl> constant{};      // data of a constant

  /// Same attributes; constants are the same when they are the same value object.
  friend bool identical(const Attrs& a, const Attrs& b);
  void hash_into(Hasher& hasher) const;
};
bool identical(const Attrs& a, const Attrs& b);

SINTER_NAMESPACE_END

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/graph/attrs.ipp>
#endif
