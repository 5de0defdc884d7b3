// Limits: which kernels a back end takes. Fusion cuts kernels so that what a back end lacks does not reach it, and a
// plan hands the rest to the next back end. Knows kernels, no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/enum_set.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/ops/scalar.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN

static_assert(prim_count <= 64, "primitives are members of an EnumSet");

/// What a back end takes; by default everything. `max_operands`, `max_body` and `max_reduced_axes` bound what fusion
/// puts together: a single operation may have more, and Backend::compile may decline it.
struct Limits {
  EnumSet<KernelKind> kinds = EnumSet<KernelKind>::all();
  /// Of a kernel's body. `load` and `immediate` are in every back end. A sum of a product is one `fma`.
  EnumSet<Prim> primitives = EnumSet<Prim>::all();
  /// Of a kernel's operands and of the instructions of its body; comparisons give bool, positions are i64.
  EnumSet<DType> dtypes = EnumSet<DType>::all();
  EnumSet<DType> product_dtypes = EnumSet<DType>::all();  // of what a contraction adds up
  /// f16 and bf16: contractions of f32 whose operands are both of this dtype, and whose result is rounded to it, load
  /// them as they are, where else a kernel of their own widens them.
  EnumSet<DType> narrow_products = {};
  int max_operands = 24;           // pointers per kernel
  int max_accesses = 48;           // views of operands, and places that are written
  int max_body = 256;              // scalar instructions per kernel
  int max_reduced_axes = 2;        // after neighbours have merged
  std::int64_t max_row = 1 << 16;  // elements of a row that is walked several times
  /// Products of at most so many operations (2 m n k, over all batches) take what computes a factor in with them; 0:
  /// none do.
  std::int64_t prologue_operations = 0;
};

/// What the kernel, or the fold, has that a back end of these limits lacks; empty: nothing.
std::string why_not_taken(const Limits& limits, const Kernel& kernel);
std::string why_not_taken(const Limits& limits, const ScalarFold& fold);

SINTER_NAMESPACE_END
