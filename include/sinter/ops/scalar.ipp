// Construction of scalar bodies: value numbering by linear search (bodies are short) and folding of immediates.
#pragma once

#include <sinter/ops/scalar.hpp>
#include <sinter/ops/scalar_meaning.hpp>

#include <algorithm>
#include <limits>

SINTER_NAMESPACE_BEGIN

SINTER_DECL ScalarValue ScalarBuilder::push(Inst inst) {
  for (std::size_t i = 0; i < body_.size(); ++i)
    if (body_[i] == inst) return {static_cast<InstId>(i), inst.dtype};
  ensure(body_.size() < no_inst, "scalar body too long");
  body_.push_back(inst);
  return {static_cast<InstId>(body_.size() - 1), inst.dtype};
}

SINTER_DECL ScalarValue ScalarBuilder::imm(double value, DType dtype) {
  if (!is_floating(dtype)) return imm_int(scalar_meaning::integer_of(value, dtype), dtype);
  return push(
      {.prim = Prim::immediate,
       .dtype = computed_in(dtype),
       .bits = std::bit_cast<std::uint64_t>(tensor_detail::rounded(value, is_f8(dtype) ? dtype : computed_in(dtype)))});
}

SINTER_DECL ScalarValue ScalarBuilder::imm_int(std::int64_t value, DType dtype) {
  if (is_floating(dtype)) return imm(static_cast<double>(value), dtype);
  const Inst number{.prim = Prim::immediate,
                    .dtype = computed_in(dtype),
                    .bits = static_cast<std::uint64_t>(tensor_detail::wrapped(value, dtype))};
  return as(push(number), dtype);
}

SINTER_DECL ScalarValue ScalarBuilder::unary(Prim prim, ScalarValue x) {
  if (x.dtype == DType::u64) return prim == Prim::abs ? x : as(unary(prim, as_i64(x)), x.dtype);
  return push({.prim = prim, .dtype = x.dtype, .args = {x.id, no_inst, no_inst}});
}

SINTER_DECL ScalarValue ScalarBuilder::binary(Prim prim, ScalarValue a, ScalarValue b) {
  ensure(a.dtype == b.dtype, "scalar operands have different dtypes");
  if (a.dtype == DType::u64) return unsigned_binary(prim, a, b);
  DType result = is_comparison(prim) ? DType::bool_ : a.dtype;
  if (is_commutative(prim) && b.id < a.id) std::swap(a, b);
  return push({.prim = prim, .dtype = result, .args = {a.id, b.id, no_inst}});
}

SINTER_DECL ScalarValue ScalarBuilder::fma(ScalarValue a, ScalarValue b, ScalarValue c) {
  ensure(a.dtype == b.dtype && b.dtype == c.dtype, "scalar operands have different dtypes");
  if (a.dtype == DType::u64) return as(fma(as_i64(a), as_i64(b), as_i64(c)), a.dtype);
  return push({.prim = Prim::fma, .dtype = a.dtype, .args = {a.id, b.id, c.id}});
}

SINTER_DECL ScalarValue ScalarBuilder::select(ScalarValue condition, ScalarValue a, ScalarValue b, Usually usually) {
  ensure(condition.dtype == DType::bool_ && a.dtype == b.dtype, "select: wrong dtypes");
  if (a.id == b.id) return a;
  const Inst chosen{.prim = Prim::select,
                    .dtype = computed_in(a.dtype),
                    .args = {condition.id, a.id, b.id},
                    .bits = static_cast<std::uint64_t>(usually)};
  return as(push(chosen), a.dtype);
}

SINTER_DECL ScalarValue ScalarBuilder::guarded_load(std::uint16_t access, DType dtype, ScalarValue condition,
                                                    ScalarValue fill, Usually usually) {
  ensure(condition.dtype == DType::bool_ && computed_in(fill.dtype) == computed_in(dtype),
         "guarded_load: wrong dtypes");
  const Inst& known = body_[condition.id];
  if (known.prim == Prim::immediate) return known.bits != 0 ? load(access, dtype) : fill;
  const Inst read{.prim = Prim::guarded_load,
                  .dtype = computed_in(dtype),
                  .args = {condition.id, fill.id, no_inst},
                  .access = access,
                  .bits = static_cast<std::uint64_t>(usually)};
  return as(push(read), dtype);
}

SINTER_DECL ScalarValue ScalarBuilder::convert(ScalarValue x, DType to) {
  if (x.dtype == to) return x;
  if (x.dtype == DType::u64) return is_floating(to) ? unsigned_to_float(x, to) : convert(as_i64(x), to);
  if (to == DType::u64) return is_floating(x.dtype) ? float_to_unsigned(x) : as(convert(x, DType::i64), to);
  const Inst& source = body_[x.id];
  if (source.prim == Prim::immediate)
    return is_half(to)            ? imm(tensor_detail::rounded(source.number(), to), to)
           : is_floating(x.dtype) ? imm(source.number(), to)
                                  : imm_int(source.integer(), to);
  if (is_narrow(to)) {
    const ScalarValue wide = convert(x, computed_in(to));
    if (is_half(to)) return round_to(wide, to);
    if (x.dtype == DType::bool_) return wide;
    return is_floating(x.dtype)
               ? min(max(wide, imm_int(tensor_detail::lowest(to), to)), imm_int(tensor_detail::greatest(to), to))
               : wrap(wide, to);
  }
  return push({.prim = Prim::convert, .dtype = to, .args = {x.id, no_inst, no_inst}});
}

/// Is it known that the value is a number of the dtype?
SINTER_DECL bool ScalarBuilder::fits(InstId id, DType narrow) const {
  const Inst& inst = body_[id];
  const auto holds = [narrow](std::int64_t value) {
    return value >= tensor_detail::lowest(narrow) && value <= tensor_detail::greatest(narrow);
  };
  const auto is_held = [&](std::size_t k) {
    const Inst& operand = body_[inst.args[k]];
    return operand.prim == Prim::immediate && holds(operand.integer());
  };
  switch (inst.prim) {
    case Prim::immediate: return holds(inst.integer());
    case Prim::load:
    case Prim::gather:
      return std::any_of(read_.begin(), read_.end(),
                         [&](ScalarValue read) { return read.id == id && (read.dtype == narrow); });
    case Prim::and_:
      return (!row(narrow).is_signed && (is_held(0) || is_held(1))) ||
             (fits(inst.args[0], narrow) && fits(inst.args[1], narrow));
    case Prim::or_:
    case Prim::xor_: return fits(inst.args[0], narrow) && fits(inst.args[1], narrow);
    case Prim::min:
      if (const Inst& lower = body_[inst.args[0]]; is_held(1) && lower.prim == Prim::max) {
        const Inst& bound = body_[lower.args[1]];
        if (bound.prim == Prim::immediate && holds(bound.integer())) return true;
      }
      return fits(inst.args[0], narrow) && fits(inst.args[1], narrow);
    case Prim::max: return fits(inst.args[0], narrow) && fits(inst.args[1], narrow);
    case Prim::select: return fits(inst.args[1], narrow) && fits(inst.args[2], narrow);
    case Prim::convert: return body_[inst.args[0]].dtype == DType::bool_;
    case Prim::shift_right: {
      const Inst &up = body_[inst.args[0]], &count = body_[inst.args[1]];
      return row(narrow).is_signed && up.prim == Prim::shift_left && up.args[1] == inst.args[1] &&
             count.prim == Prim::immediate && count.integer() >= 8 * (size_of(inst.dtype) - size_of(narrow));
    }
    default: return false;
  }
}

SINTER_DECL ScalarValue ScalarBuilder::wrap(ScalarValue x, DType narrow) {
  if (x.dtype == DType::u64) return wrap(as_i64(x), narrow);
  const Inst& source = body_[x.id];
  if (source.prim == Prim::immediate) return imm_int(source.integer(), narrow);
  if (fits(x.id, narrow)) return x;
  if (!row(narrow).is_signed) return and_(x, imm_int(tensor_detail::greatest(narrow), x.dtype));
  const ScalarValue unused = imm_int(8 * (size_of(x.dtype) - size_of(narrow)), x.dtype);
  return shift_right(shift_left(x, unused), unused);
}

SINTER_DECL ScalarValue ScalarBuilder::flip_sign(ScalarValue x, DType to) {
  constexpr std::int64_t sign = std::numeric_limits<std::int64_t>::min();
  const Inst& source = body_[x.id];
  if (source.prim == Prim::immediate) return imm_int(source.integer() ^ sign, to);
  return as(xor_(as_i64(x), imm_int(sign, DType::i64)), to);
}

/// Sums and products of u64 are those of their bits; extrema are looked for in i64 of the same order.
SINTER_DECL ScalarValue ScalarBuilder::accumulate(Prim prim, ScalarValue x, std::uint64_t bits) {
  const Prim reduction = is_scan(prim) ? reduction_of(prim) : prim;
  const bool is_extremum = reduction == Prim::reduce_min || reduction == Prim::reduce_max;
  if (x.dtype == DType::u64 && is_extremum) return from_ordered(accumulate(prim, ordered(x), bits));
  return as(push({.prim = prim, .dtype = computed_in(x.dtype), .args = {x.id, no_inst, no_inst}, .bits = bits}),
            x.dtype);
}

SINTER_DECL ScalarValue ScalarBuilder::unsigned_binary(Prim prim, ScalarValue a, ScalarValue b) {
  switch (prim) {
    case Prim::lt:
    case Prim::le: return binary(prim, ordered(a), ordered(b));
    case Prim::min:
    case Prim::max: return from_ordered(binary(prim, ordered(a), ordered(b)));
    case Prim::div: return unsigned_quotient(a, b);
    case Prim::rem: {  // by 0 it is 0
      const ScalarValue zero = imm_int(0, a.dtype);
      return select(eq(b, zero), zero, sub(a, mul(unsigned_quotient(a, b), b)));
    }
    case Prim::shift_right: return unsigned_shift_right(a, b);
    case Prim::pow: return unsigned_power(a, b);
    default: {
      const ScalarValue result = binary(prim, as_i64(a), as_i64(b));
      return is_comparison(prim) ? result : as(result, a.dtype);
    }
  }
}

/// Half of a, divided as i64, is half of the quotient; what is left tells its last bit. By 2^63 and more it is 0 or 1,
/// by 0 it is 0.
SINTER_DECL ScalarValue ScalarBuilder::unsigned_quotient(ScalarValue a, ScalarValue b) {
  const ScalarValue zero = imm_int(0, a.dtype), one = imm_int(1, a.dtype);
  const ScalarValue half = binary(Prim::div, as_i64(unsigned_shift_right(a, one)), as_i64(b));
  const ScalarValue is_large = lt(as_i64(b), as_i64(zero));
  const ScalarValue even = select(is_large, zero, as(binary(Prim::shift_left, half, as_i64(one)), a.dtype));
  const ScalarValue is_odd = le(b, sub(a, mul(even, b)));
  return select(eq(b, zero), zero, select(is_odd, add(even, one), even));
}

/// Without its sign, a number shifted by one less is shifted right; by 0 or more than 63 the count of one less goes
/// beyond all bits.
SINTER_DECL ScalarValue ScalarBuilder::unsigned_shift_right(ScalarValue a, ScalarValue b) {
  const ScalarValue one = imm_int(1, DType::i64),
                    positive = imm_int(std::numeric_limits<std::int64_t>::max(), DType::i64);
  const ScalarValue half = and_(shift_right(as_i64(a), one), positive);
  const Inst& count = body_[b.id];
  if (count.prim == Prim::immediate && count.integer() == 1) return as(half, a.dtype);
  const ScalarValue shifted = as(shift_right(half, sub(as_i64(b), one)), a.dtype);
  return select(eq(b, imm_int(0, b.dtype)), a, shifted);
}

/// Exponents from 2^63 on: odd numbers to the 2^63 are 1, even ones 0.
SINTER_DECL ScalarValue ScalarBuilder::unsigned_power(ScalarValue a, ScalarValue b) {
  const ScalarValue positive = imm_int(std::numeric_limits<std::int64_t>::max(), DType::i64);
  const ScalarValue low = as(binary(Prim::pow, as_i64(a), and_(as_i64(b), positive)), a.dtype);
  const ScalarValue is_large = lt(as_i64(b), imm_int(0, DType::i64));
  return select(is_large, mul(low, and_(a, imm_int(1, a.dtype))), low);
}

/// From 2^63 on a half is converted, whose last bit is set where one was lost: it rounds as the whole does.
SINTER_DECL ScalarValue ScalarBuilder::unsigned_to_float(ScalarValue x, DType to) {
  const Inst& source = body_[x.id];
  if (source.prim == Prim::immediate && source.integer() >= 0) return convert(as_i64(x), to);
  if (is_half(to)) return round_to(unsigned_to_float(x, computed_in(to)), to);
  const ScalarValue one = imm_int(1, x.dtype);
  const ScalarValue half = convert(as_i64(or_(unsigned_shift_right(x, one), and_(x, one))), to);
  const ScalarValue is_large = lt(as_i64(x), imm_int(0, DType::i64));
  return select(is_large, add(half, half), convert(as_i64(x), to));
}

/// i64 saturates as u64 should, from 2^63 on once 2^63 has been taken away.
SINTER_DECL ScalarValue ScalarBuilder::float_to_unsigned(ScalarValue x) {
  const Inst& source = body_[x.id];
  if (source.prim == Prim::immediate) return imm(source.number(), DType::u64);
  const ScalarValue middle = imm(0x1p63, x), low = max(convert(x, DType::i64), imm_int(0, DType::i64));
  return select(le(middle, x), from_ordered(convert(sub(x, middle), DType::i64)), as(low, DType::u64));
}

/// An f32 to the nearest f16 or bf16, ties to even. On the bits: half of the last place, less one where that place is
/// even, is added before the places behind it are cut off. Subnormal numbers of f16 are multiples of 2^-24, which
/// adding and taking away 1/2 leaves.
SINTER_DECL ScalarValue ScalarBuilder::round_to(ScalarValue x, DType half) {
  if (half != DType::f16 && half != DType::bf16) return round_to_small(x, half);
  const int dropped = half == DType::f16 ? 13 : 16;
  const auto i32 = [this](std::int64_t value) { return imm_int(value, DType::i32); };
  const ScalarValue bits = bitcast(x, DType::i32);
  const ScalarValue is_odd = and_(shift_right(bits, i32(dropped)), i32(1));
  const ScalarValue up = add(add(bits, i32((1 << (dropped - 1)) - 1)), is_odd);
  ScalarValue near = bitcast(and_(up, i32(-(1 << dropped))), DType::f32);
  if (half == DType::f16) {
    const ScalarValue size = abs(x), offset = imm(0.5, x),
                      sign = and_(bits, i32(std::numeric_limits<std::int32_t>::min()));
    const ScalarValue small = bitcast(or_(bitcast(sub(add(size, offset), offset), DType::i32), sign), DType::f32);
    const ScalarValue infinite = bitcast(or_(i32(0x7f800000), sign), DType::f32);
    near = select(lt(size, imm(0x1p-14, x)), small, select(le(imm(65520, x), size), infinite, near));
  }
  const ScalarValue result = select(eq(x, x), near, x);  // NaN may have no bit to round
  roundings_.push_back({result.id, x.id, half});
  return result;
}

/// As round_to, by the row's bits. What is beyond the largest number becomes infinite, or that number where there are
/// no infinities.
SINTER_DECL ScalarValue ScalarBuilder::round_to_small(ScalarValue x, DType small_float) {
  const DTypeRow& format = row(small_float);
  const int dropped = 23 - format.fraction_bits;
  const auto i32 = [this](std::int64_t value) { return imm_int(value, DType::i32); };
  const ScalarValue bits = bitcast(x, DType::i32), size = abs(x);
  const ScalarValue sign = and_(bits, i32(std::numeric_limits<std::int32_t>::min()));
  const ScalarValue is_odd = and_(shift_right(bits, i32(dropped)), i32(1));
  const ScalarValue up = add(add(bits, i32((1 << (dropped - 1)) - 1)), is_odd);
  const ScalarValue near = bitcast(and_(up, i32(-(1 << dropped))), DType::f32);
  const ScalarValue offset = imm(DTypeRow::power_of_two(24 - format.bias() - format.fraction_bits), x);
  const ScalarValue small = bitcast(or_(bitcast(sub(add(size, offset), offset), DType::i32), sign), DType::f32);
  const auto largest = static_cast<float>(format.largest());
  const float limit = format.has_infinity ? std::numeric_limits<float>::infinity() : largest;
  const ScalarValue beyond = bitcast(or_(i32(std::bit_cast<std::int32_t>(limit)), sign), DType::f32);
  const ScalarValue fits = select(lt(size, imm(format.smallest(), x)), small, near);
  // Half a unit above the largest number, which is even where the next one would be infinite.
  const double exponent_of_largest = format.bias() + (format.has_infinity ? 0 : 1);
  const ScalarValue edge = imm(
      format.largest() + DTypeRow::power_of_two(static_cast<int>(exponent_of_largest) - 1 - format.fraction_bits), x);
  const ScalarValue is_beyond = format.has_infinity ? le(edge, size) : lt(edge, size);
  const ScalarValue result = select(eq(x, x), select(is_beyond, beyond, fits), x);
  roundings_.push_back({result.id, x.id, small_float});
  return result;
}

SINTER_DECL ScalarValue ScalarBuilder::bitcast(ScalarValue x, DType to) {
  if (x.dtype == to) return x;
  if (x.dtype == DType::u64) return bitcast(as_i64(x), to);
  if (to == DType::u64) return as(bitcast(x, DType::i64), to);
  if (!is_floating(to) && is_narrow(to))  // u32 has the bits of an i32 or an f32, smaller ones those of each other
    return wrap(to == DType::u32 ? convert(bitcast(x, DType::i32), DType::i64) : x, to);
  if (x.dtype == DType::i64 && size_of(to) == 4) return bitcast(convert(x, DType::i32), to);  // of a u32
  ensure(size_of(x.dtype) == size_of(to) && size_of(to) >= 4, "bitcast: dtypes of different sizes");
  return push({.prim = Prim::bitcast, .dtype = to, .args = {x.id, no_inst, no_inst}});
}

SINTER_DECL ScalarValue ScalarBuilder::random_bits(ScalarValue key, ScalarValue counter, ScalarValue element) {
  return push({.prim = Prim::random_bits, .dtype = DType::i64, .args = {key.id, counter.id, element.id}});
}

SINTER_NAMESPACE_END
