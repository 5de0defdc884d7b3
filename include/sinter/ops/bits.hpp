// Ops that look at how numbers are written: signs, neighbours, exponents, shifts, counts of bits, and views of bits as
// another dtype; and what kind of number one is.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/scalar_math.hpp>
#include <sinter/ops/val_ops.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {
/// A test that is only about floating numbers; `other` for the rest.
template <class Test>
ScalarValue of_floating(ScalarBuilder& s, ScalarValue x, bool other, Test&& test) {
  return is_floating(x.dtype) ? test(s) : s.imm_int(other, DType::bool_);
}
/// Throws where the bits of an element of one dtype are none of the other.
inline void require_same_bits(std::string_view op, DType from, DType to, Location where) {
  const bool is_of_bool = from == DType::bool_ || to == DType::bool_, is_of_half = is_half(from) || is_half(to);
  if (from == to || (size_of(from) == size_of(to) && !is_of_bool && !is_of_half)) return;
  throw DTypeError(
      op, "x has dtype " + std::string(name(from)) + ", whose elements are not those of " + std::string(name(to)),
      where,
      is_f8(from) || is_f8(to)
          ? "to_vector<float8_e4m3>(x) has elements with their bits, from_blob(owner, bytes, shape, dtype) takes bytes"
      : is_of_half ? "cast it to f32 first, whose bits can be read"
                   : "f32, i32 and u32 have elements of one size, and so have f64, i64 and u64");
}
}  // namespace ops_detail
namespace ops {

struct IsNan {
  static constexpr OpInfo info{.name = "isnan", .arity = 1, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    return ops_detail::of_floating(s, x, false, [x](ScalarBuilder& b) { return b.ne(x, x); });
  }
};
struct IsInf {
  static constexpr OpInfo info{.name = "isinf", .arity = 1, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    return ops_detail::of_floating(s, x, false, [x](ScalarBuilder& b) {
      return b.eq(b.abs(x), b.imm(std::numeric_limits<double>::infinity(), x));
    });
  }
};
struct IsFinite {
  static constexpr OpInfo info{.name = "isfinite", .arity = 1, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    return ops_detail::of_floating(s, x, true, [x](ScalarBuilder& b) {
      return b.lt(b.abs(x), b.imm(std::numeric_limits<double>::infinity(), x));
    });
  }
};
struct IsPosInf {
  static constexpr OpInfo info{.name = "isposinf", .arity = 1, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    return ops_detail::of_floating(
        s, x, false, [x](ScalarBuilder& b) { return b.eq(x, b.imm(std::numeric_limits<double>::infinity(), x)); });
  }
};
struct IsNegInf {
  static constexpr OpInfo info{.name = "isneginf", .arity = 1, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    return ops_detail::of_floating(
        s, x, false, [x](ScalarBuilder& b) { return b.eq(x, b.imm(-std::numeric_limits<double>::infinity(), x)); });
  }
};

/// Whether the sign is set, as it is of -0 and of some NaN.
struct Signbit {
  static constexpr OpInfo info{.name = "signbit", .arity = 1, .dtypes = DTypeRule::compare};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    return x.dtype == DType::bool_ ? s.imm_int(0, DType::bool_) : ops_detail::has_sign(s, x);
  }
};

/// |x| with the sign of y. The derivative at 0 is 0.
struct Copysign {
  static constexpr OpInfo info{.name = "copysign", .arity = 2, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue y) { return ops_detail::copy_sign(s, x, y); }
  static ValList vjp(const VjpArgs& a) {
    return {where(eq(a.in[0], 0), 0, where(eq(a.in[0], a.out), a.dout, -a.dout)), Val{}};
  }
};

/// The next number after x towards y.
struct Nextafter {
  static constexpr OpInfo info{.name = "nextafter", .arity = 2, .dtypes = DTypeRule::floating};
  static void infer(const InferArgs& args, TypeList& out) {
    for (const Type& type : args.in)
      if (is_half(type.dtype))
        throw DTypeError(args.op, "an operand is " + std::string(name(type.dtype)) + ", which is computed in f32",
                         args.where, "cast it first: cast(x, DType::f32)");
    ops_detail::infer_elementwise(op_info<Nextafter>, args, out);
  }
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue y) { return ops_detail::next_after(s, x, y); }
};

/// x * 2^n for integral n, rounded once.
struct Ldexp {
  static constexpr OpInfo info{.name = "ldexp", .arity = 2, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue n) {
    return ops_detail::scaled(s, x, s.round(n));
  }
  static ValList vjp(const VjpArgs& a) { return {apply(op_info<Ldexp>, {a.dout, a.in[1]}), Val{}}; }
};

/// n in x = fraction * 2^n with 1/2 <= |fraction| < 1, as attrs.dtype; 0 of zeros, infinities and NaN.
struct FrexpExponent {
  static constexpr OpInfo info{.name = "frexp_exponent", .arity = 1, .dtypes = DTypeRule::attribute};
  static constexpr auto attributes = attribute_list(attr::dtype);
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, const Attrs& attrs) {
    return s.convert(ops_detail::parts_of(s, x).exponent, attrs.dtype);
  }
};
struct FrexpFraction {
  static constexpr OpInfo info{.name = "frexp_fraction", .arity = 1, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::parts_of(s, x).fraction; }
  static ValList vjp(const VjpArgs& a) {
    const Val exponent = apply(op_info<FrexpExponent>, {a.in[0]}, Attrs{.dtype = a.in[0].dtype(), .has_dtype = true});
    return {apply(op_info<Ldexp>, {a.dout, -exponent})};
  }
};

/// a * 2^b, what does not fit gone; 0 where b is negative or no less than the number of bits.
struct LeftShift {
  static constexpr OpInfo info{.name = "left_shift", .arity = 2, .dtypes = DTypeRule::logical, .takes_bool = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.shift_left(a, b); }
};
/// a / 2^b rounded down; 0 or -1 where b is negative or no less than the number of bits.
struct RightShift {
  static constexpr OpInfo info{.name = "right_shift", .arity = 2, .dtypes = DTypeRule::logical, .takes_bool = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.shift_right(a, b); }
};

/// How many bits are set. Sums of neighbours in fields of 2, 4 and 8 bits, and a product that adds those up.
struct Popcount {
  static constexpr OpInfo info{
      .name = "popcount", .arity = 1, .dtypes = DTypeRule::logical, .takes_bool = false, .reads_bits = true};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const bool is_wide = size_of(x.dtype) == 8;
    const auto field = [&](std::int64_t of_64) { return s.imm_int(is_wide ? of_64 : of_64 & 0x7FFFFFFF, x.dtype); };
    const auto down = [&](ScalarValue v, int count) { return s.shift_right(v, s.imm_int(count, x.dtype)); };
    const ScalarValue pairs = s.sub(x, s.and_(down(x, 1), field(0x5555555555555555)));
    const std::int64_t fours = 0x3333333333333333, eights = 0x0F0F0F0F0F0F0F0F;
    const ScalarValue nibbles = s.add(s.and_(pairs, field(fours)), s.and_(down(pairs, 2), field(fours)));
    const ScalarValue bytes = s.and_(s.add(nibbles, down(nibbles, 4)), field(eights));
    return down(s.mul(bytes, field(0x0101010101010101)), is_wide ? 56 : 24);
  }
};

/// The same bits as attrs.dtype, whose elements are as large.
struct Bitcast {
  static constexpr OpInfo info{.name = "bitcast", .arity = 1, .dtypes = DTypeRule::attribute};
  static constexpr auto attributes = attribute_list(attr::dtype);
  static Type infer(const InferArgs& args) {
    ops_detail::require_same_bits(args.op, args.in[0].dtype, args.attrs.dtype, args.where);
    return ops_detail::with_shape(args, args.in[0].shape, args.attrs.dtype);
  }
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, const Attrs& attrs) { return s.bitcast(x, attrs.dtype); }
};

/// The remainder with the sign of a: C's fmod; exact.
struct Fmod {
  static constexpr OpInfo info{.name = "fmod", .arity = 2, .takes_bool = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) {
    if (is_floating(a.dtype)) return ops_detail::copy_sign(s, s.rem(s.abs(a), s.abs(b)), a);
    const ScalarValue r = s.rem(a, b), zero = s.imm_int(0, a.dtype);  // has b's sign
    const ScalarValue is_other = s.and_(s.ne(r, zero), s.xor_(s.lt(r, zero), s.lt(a, zero)));
    return s.select(is_other, s.sub(r, b), r);
  }
  static ValList vjp(const VjpArgs& a) {
    return {a.dout, a.needs(1) ? -(a.dout * apply(op_info<Trunc>, {a.in[0] / a.in[1]})) : Val{}};
  }
};

/// 0 where x < 0 or NaN, 1 where x > 0, y where x is 0.
struct Heaviside {
  static constexpr OpInfo info{.name = "heaviside", .arity = 2, .takes_bool = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue y) {
    const ScalarValue zero = s.imm(0, x);
    return s.select(s.eq(x, zero), y, s.select(s.lt(zero, x), s.imm(1, x), zero));
  }
  static ValList vjp(const VjpArgs& a) { return {Val{}, where(eq(a.in[0], 0), a.dout, 0)}; }
};

}  // namespace ops
SINTER_NAMESPACE_END
