// Construction of scalar bodies: value numbering by linear search (bodies are short) and folding of immediates.
#pragma once

#include <sinter/ops/scalar.hpp>
#include <sinter/ops/scalar_meaning.hpp>

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
  if (dtype == DType::f32) value = static_cast<float>(value);
  return push({.prim = Prim::immediate, .dtype = dtype, .bits = std::bit_cast<std::uint64_t>(value)});
}

SINTER_DECL ScalarValue ScalarBuilder::imm_int(std::int64_t value, DType dtype) {
  if (is_floating(dtype)) return imm(static_cast<double>(value), dtype);
  if (dtype == DType::bool_) value = value != 0;
  if (dtype == DType::i32) value = static_cast<std::int32_t>(value);
  return push({.prim = Prim::immediate, .dtype = dtype, .bits = static_cast<std::uint64_t>(value)});
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
  ensure(condition.dtype == DType::bool_ && fill.dtype == dtype, "guarded_load: wrong dtypes");
  const Inst& known = body_[condition.id];
  if (known.prim == Prim::immediate) return known.bits != 0 ? load(access, dtype) : fill;
  return push({.prim = Prim::guarded_load,
               .dtype = dtype,
               .args = {condition.id, fill.id, no_inst},
               .access = access,
               .bits = static_cast<std::uint64_t>(usually)});
}

SINTER_DECL ScalarValue ScalarBuilder::convert(ScalarValue x, DType to) {
  if (x.dtype == to) return x;
  const Inst& source = body_[x.id];
  if (source.prim == Prim::immediate)
    return is_floating(x.dtype) ? imm(source.number(), to) : imm_int(source.integer(), to);
  return push({.prim = Prim::convert, .dtype = to, .args = {x.id, no_inst, no_inst}});
}

SINTER_DECL ScalarValue ScalarBuilder::bitcast(ScalarValue x, DType to) {
  if (x.dtype == to) return x;
  ensure(size_of(x.dtype) == size_of(to) && size_of(to) >= 4, "bitcast: dtypes of different sizes");
  return push({.prim = Prim::bitcast, .dtype = to, .args = {x.id, no_inst, no_inst}});
}

SINTER_DECL ScalarValue ScalarBuilder::random_bits(ScalarValue key, ScalarValue counter, ScalarValue element) {
  return push({.prim = Prim::random_bits, .dtype = DType::i64, .args = {key.id, counter.id, element.id}});
}

SINTER_NAMESPACE_END
