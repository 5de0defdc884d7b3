// Random numbers. One primitive gives 32 bits for each element from (key, counter, row-major position); the
// distributions are arithmetic on it. A draw that needs more than 32 bits takes further words at counter + k * 2^60, k
// < 4, which no generator's own counter reaches. Who owns keys and counters is not known here.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN

namespace ops_detail {
/// One draw for the whole batch, so that each example has numbers of its own; those of its key, where keys differ.
Batched batch_draw(const BatchArgs& args);
}  // namespace ops_detail

namespace ops {

/// random_bits(key, counter), both i64 of rank 0: attrs.shape numbers in [0, 2^32) as i64, by Philox4x32-10
/// (philox.hpp).
struct RandomBits {
  static constexpr OpInfo info{.name = "random_bits", .arity = 2, .kind = OpKind::structured, .is_random = true};
  static constexpr auto attributes = attribute_list(attr::shape, attr::device);
  static Type infer(const InferArgs& args);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_draw(a); }
};

/// Uniform in [0, 1): multiples of 2^-24 (f32) or 2^-53 (f64).
struct RandomUniform {
  static constexpr OpInfo info{
      .name = "random_uniform", .arity = 2, .kind = OpKind::composite, .has_gradient = false, .is_random = true};
  static constexpr auto attributes = attribute_list(attr::shape, attr::dtype, attr::device);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_draw(a); }
};

/// Standard normal: sqrt(-2 log u) cos(2 pi v), Box and Muller 1958, with a u and a v for each element.
struct RandomNormal {
  static constexpr OpInfo info{
      .name = "random_normal", .arity = 2, .kind = OpKind::composite, .has_gradient = false, .is_random = true};
  static constexpr auto attributes = attribute_list(attr::shape, attr::dtype, attr::device);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_draw(a); }
};

}  // namespace ops
SINTER_NAMESPACE_END
