// Distributions over random bits.
#pragma once

#include <sinter/ops/batch.hpp>
#include <sinter/ops/binary.hpp>
#include <sinter/ops/bits.hpp>
#include <sinter/ops/philox.hpp>
#include <sinter/ops/random.hpp>

#include <array>
#include <cstdint>
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

/// Uniform in [0, 1): the upper 24 bits of word `word` (f32; f16 has 11, bf16 8, f8 3), or that word and the upper 21
/// bits of the next (f64). Masking keeps the conversion to floating exact, so that 1 is never reached by rounding.
template <class Words>
Val unit_interval(DType dtype, const Words& words, int word) {
  const Val high = words(word);
  if (dtype == DType::f32) return cast(logical_and(high, number(high, two_to_32 - 256)), dtype) * (1 / two_to_32);
  if (is_half(dtype)) {
    const double dropped = dtype == DType::f16 ? 0x1p21 : dtype == DType::bf16 ? 0x1p24 : 0x1p29;
    return cast(cast(logical_and(high, number(high, two_to_32 - dropped)), DType::f32) * (1 / two_to_32), dtype);
  }
  const Val low = words(word + 1);
  const Val fraction = cast(logical_and(low, number(low, two_to_32 - 2048)), dtype) * (1 / two_to_32);
  return (cast(high, dtype) + fraction) * (1 / two_to_32);
}

template <class Words>
Val standard_normal(DType dtype, const Words& words) {
  if (is_half(dtype)) return cast(standard_normal(DType::f32, words), dtype);
  const Val u = 1 - unit_interval(dtype, words, 0);  // (0, 1]: the logarithm is finite
  const Val v = unit_interval(dtype, words, 2);
  return sqrt(log(u) * -2) * cos(v * (2 * std::numbers::pi));
}
/// The words of a draw that is decomposed.
inline auto words_of(const DecomposeArgs& args) {
  return [&args](int word) { return random_word(args.in[0], args.in[1], args.attrs, word); };
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type RandomBits::infer(const InferArgs& args) { return ops_detail::infer_random(args, DType::i64); }
SINTER_DECL Type RandomUniform::infer(const InferArgs& args) { return ops_detail::infer_distribution(args); }
SINTER_DECL Type RandomNormal::infer(const InferArgs& args) { return ops_detail::infer_distribution(args); }

SINTER_DECL Val RandomUniform::decompose(const DecomposeArgs& args) {
  return ops_detail::unit_interval(args.attrs.dtype, ops_detail::words_of(args), 0);
}
SINTER_DECL Val RandomNormal::decompose(const DecomposeArgs& args) {
  return ops_detail::standard_normal(args.attrs.dtype, ops_detail::words_of(args));
}

}  // namespace ops

namespace ops_detail {

SINTER_DECL Val random_word(Val key, Val counter, const Attrs& attrs, int word) {
  const Val at = word == 0 ? counter : counter + words_apart * word;
  return apply(op_info<ops::RandomBits>, {key, at}, Attrs{.shape = attrs.shape, .device = attrs.device});
}

// ---- keys that differ between examples: Philox (philox.hpp) as elementwise arithmetic on i64

inline Val shifted_right(Val x, int bits) { return apply(op_info<ops::RightShift>, {x, number(x, bits)}); }
inline Val low_word(Val x) { return logical_and(x, number(x, two_to_32 - 1)); }
inline Val high_word(Val x) { return low_word(shifted_right(x, 32)); }
inline Val exclusive_or(Val a, Val b) { return apply(op_info<ops::Xor>, {a, b}); }

struct WordPair {
  Val high, low;
};
/// The product of two words by halves of one, so that no sum passes 2^49.
inline WordPair product_of_words(Val x, std::uint32_t factor) {
  const Val upper = x * static_cast<double>(factor >> 16), lower = x * static_cast<double>(factor & 0xffff);
  const Val middle = upper + shifted_right(lower, 16);
  const Val low = logical_and(middle, number(x, 0xffff)) * 65536.0 + logical_and(lower, number(x, 0xffff));
  return {shifted_right(middle, 16), low};
}
/// philox_bits of each element.
inline Val philox_word(Val key, Val counter, Val element) {
  std::array<Val, 4> c{low_word(element), high_word(element), low_word(counter), high_word(counter)};
  Val k0 = low_word(key), k1 = high_word(key);
  for (int round = 0; round < philox_rounds; ++round) {
    const WordPair p0 = product_of_words(c[0], philox_multiplier_0), p1 = product_of_words(c[2], philox_multiplier_1);
    c = {exclusive_or(exclusive_or(p1.high, c[1]), k0), p1.low, exclusive_or(exclusive_or(p0.high, c[3]), k1), p0.low};
    k0 = low_word(k0 + static_cast<double>(philox_weyl_0));
    k1 = low_word(k1 + static_cast<double>(philox_weyl_1));
  }
  return c[0];
}
/// Each example draws what it would draw alone.
inline Batched draw_by_example(const BatchArgs& a) {
  const int rank = a.attrs.shape.rank() + 1;
  const Val key = with_rank(with_batch(a, 0), rank), counter = with_rank(with_batch(a, 1), rank);
  Dim count = 1;
  for (Dim extent : a.attrs.shape.dims()) count *= extent;
  const Val element = reshape(iota(key, {count}, 0, DType::i64), batched_shape(1, a.attrs.shape));
  auto words = [&](int word) { return philox_word(key, word == 0 ? counter : counter + words_apart * word, element); };
  if (&a.op == &op_info<ops::RandomBits>) return expand(words(0), batched_shape(a.size, a.attrs.shape));
  return &a.op == &op_info<ops::RandomUniform> ? unit_interval(a.attrs.dtype, words, 0)
                                               : standard_normal(a.attrs.dtype, words);
}

SINTER_DECL Batched batch_draw(const BatchArgs& a) {
  if (a.is_batched(0) || a.is_batched(1)) return draw_by_example(a);
  Attrs attrs = a.attrs;
  attrs.shape = batched_shape(a.size, attrs.shape);
  return apply(a.op, a.in, std::move(attrs));
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
