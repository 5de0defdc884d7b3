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
  return push({.prim = Prim::immediate,
               .dtype = computed_in(dtype),
               .bits = std::bit_cast<std::uint64_t>(tensor_detail::rounded(value, computed_in(dtype)))});
}

SINTER_DECL ScalarValue ScalarBuilder::imm_int(std::int64_t value, DType dtype) {
  if (is_floating(dtype)) return imm(static_cast<double>(value), dtype);
  return push({.prim = Prim::immediate,
               .dtype = computed_in(dtype),
               .bits = static_cast<std::uint64_t>(tensor_detail::wrapped(value, dtype))});
}

SINTER_DECL ScalarValue ScalarBuilder::unary(Prim prim, ScalarValue x) {
  return push({.prim = prim, .dtype = x.dtype, .args = {x.id, no_inst, no_inst}});
}

SINTER_DECL ScalarValue ScalarBuilder::binary(Prim prim, ScalarValue a, ScalarValue b) {
  ensure(a.dtype == b.dtype, "scalar operands have different dtypes");
  DType result = is_comparison(prim) ? DType::bool_ : a.dtype;
  if (is_commutative(prim) && b.id < a.id) std::swap(a, b);
  return push({.prim = prim, .dtype = result, .args = {a.id, b.id, no_inst}});
}

SINTER_DECL ScalarValue ScalarBuilder::fma(ScalarValue a, ScalarValue b, ScalarValue c) {
  ensure(a.dtype == b.dtype && b.dtype == c.dtype, "scalar operands have different dtypes");
  return push({.prim = Prim::fma, .dtype = a.dtype, .args = {a.id, b.id, c.id}});
}

SINTER_DECL ScalarValue ScalarBuilder::select(ScalarValue condition, ScalarValue a, ScalarValue b, Usually usually) {
  ensure(condition.dtype == DType::bool_ && a.dtype == b.dtype, "select: wrong dtypes");
  return a.id == b.id ? a
                      : push({.prim = Prim::select,
                              .dtype = a.dtype,
                              .args = {condition.id, a.id, b.id},
                              .bits = static_cast<std::uint64_t>(usually)});
}

SINTER_DECL ScalarValue ScalarBuilder::guarded_load(std::uint16_t access, DType dtype, ScalarValue condition,
                                                    ScalarValue fill, Usually usually) {
  ensure(condition.dtype == DType::bool_ && fill.dtype == computed_in(dtype), "guarded_load: wrong dtypes");
  const Inst& known = body_[condition.id];
  if (known.prim == Prim::immediate) return known.bits != 0 ? load(access, dtype) : fill;
  return push({.prim = Prim::guarded_load,
               .dtype = fill.dtype,
               .args = {condition.id, fill.id, no_inst},
               .access = access,
               .bits = static_cast<std::uint64_t>(usually)});
}

SINTER_DECL ScalarValue ScalarBuilder::convert(ScalarValue x, DType to) {
  if (x.dtype == to) return x;
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
  const Inst& source = body_[x.id];
  if (source.prim == Prim::immediate) return imm_int(source.integer(), narrow);
  if (fits(x.id, narrow)) return x;
  if (!row(narrow).is_signed) return and_(x, imm_int(tensor_detail::greatest(narrow), x.dtype));
  const ScalarValue unused = imm_int(8 * (size_of(x.dtype) - size_of(narrow)), x.dtype);
  return shift_right(shift_left(x, unused), unused);
}

/// An f32 to the nearest f16 or bf16, ties to even. On the bits: half of the last place, less one where that place is
/// even, is added before the places behind it are cut off. Subnormal numbers of f16 are multiples of 2^-24, which
/// adding and taking away 1/2 leaves.
SINTER_DECL ScalarValue ScalarBuilder::round_to(ScalarValue x, DType half) {
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

SINTER_DECL ScalarValue ScalarBuilder::bitcast(ScalarValue x, DType to) {
  if (x.dtype == to) return x;
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
