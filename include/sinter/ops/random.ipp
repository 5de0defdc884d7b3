// Distributions over random bits.
#pragma once

#include <sinter/ops/batch.hpp>
#include <sinter/ops/random.hpp>

#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline Type infer_random(const InferArgs& args, DType dtype) {
  for (std::size_t i = 0; i < 2; ++i)
    if (args.in[i].dtype != DType::i64 || args.in[i].shape.rank() != 0)
      throw ShapeError(args.op, "key and counter are " + operands_text(args) + ", each must be i64[]", args.where);
  return with_shape(args, args.attrs.shape, dtype);
}

inline Type infer_distribution(const InferArgs& args) {
  if (!is_floating(args.attrs.dtype))
    throw DTypeError(args.op, "dtype is " + std::string(name(args.attrs.dtype)) + ", it must be floating", args.where);
  return infer_random(args, args.attrs.dtype);
}

inline constexpr double two_to_32 = 4294967296.0;
inline constexpr double words_apart = 1152921504606846976.0;  // 2^60, see random.hpp

/// Word `word` of this draw for each element of `shape`: i64 in [0, 2^32).
Val random_word(Val key, Val counter, const Attrs& attrs, int word);

/// Uniform in [0, 1): the upper 24 bits of word `word` (f32), or that word and the upper 21 bits of the next (f64).
/// Masking keeps the conversion to floating exact, so that 1 is never reached by rounding.
inline Val unit_interval(const DecomposeArgs& args, int word) {
  const Val key = args.in[0], counter = args.in[1];
  const DType dtype = args.attrs.dtype;
  const Val high = random_word(key, counter, args.attrs, word);
  if (dtype == DType::f32) return cast(logical_and(high, number(high, two_to_32 - 256)), dtype) * (1 / two_to_32);
  const Val low = random_word(key, counter, args.attrs, word + 1);
  const Val fraction = cast(logical_and(low, number(low, two_to_32 - 2048)), dtype) * (1 / two_to_32);
  return (cast(high, dtype) + fraction) * (1 / two_to_32);
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type RandomBits::infer(const InferArgs& args) { return ops_detail::infer_random(args, DType::i64); }
SINTER_DECL Type RandomUniform::infer(const InferArgs& args) { return ops_detail::infer_distribution(args); }
SINTER_DECL Type RandomNormal::infer(const InferArgs& args) { return ops_detail::infer_distribution(args); }

SINTER_DECL Val RandomUniform::decompose(const DecomposeArgs& args) { return ops_detail::unit_interval(args, 0); }

SINTER_DECL Val RandomNormal::decompose(const DecomposeArgs& args) {
  const Val u = 1 - ops_detail::unit_interval(args, 0);  // (0, 1]: the logarithm is finite
  const Val v = ops_detail::unit_interval(args, 2);
  return sqrt(log(u) * -2) * cos(v * (2 * std::numbers::pi));
}

}  // namespace ops

namespace ops_detail {

SINTER_DECL Val random_word(Val key, Val counter, const Attrs& attrs, int word) {
  const Val at = word == 0 ? counter : counter + words_apart * word;
  return apply(op_info<ops::RandomBits>, {key, at}, Attrs{.shape = attrs.shape, .device = attrs.device});
}

SINTER_DECL Batched batch_draw(const BatchArgs& a) {
  if (a.is_batched(0) || a.is_batched(1))
    throw UserError("vmap", std::string(a.op.name) + " draws with a key or a counter that differs between examples",
                    a.where, "draw outside of the mapped function, or use one generator for all examples");
  Attrs attrs = a.attrs;
  attrs.shape = batched_shape(a.size, attrs.shape);
  return apply(a.op, a.in, std::move(attrs));
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
