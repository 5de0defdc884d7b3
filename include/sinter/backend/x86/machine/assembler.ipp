// Prefixes, opcode, ModRM, SIB, displacement and immediate: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2, chapter 2.
#pragma once

#include <sinter/backend/x86/machine/assembler.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

inline constexpr std::size_t longest_instruction = 16;  // 15, and what grow() asks for

inline bool is_byte(std::int64_t value) { return value == static_cast<std::int8_t>(value); }
inline bool is_dword(std::int64_t value) { return value == static_cast<std::int32_t>(value); }

inline Assembler::Assembler(std::vector<std::byte>& bytes, int labels, std::size_t instructions)
    : bytes_(bytes), size_before_(bytes.size()), start_((bytes.size() + 63) / 64 * 64), labels_(as_index(labels), -1) {
  bytes_.resize(start_ + 10 * instructions + 256);
  begin_ = at_ = reinterpret_cast<std::uint8_t*>(bytes_.data()) + start_;
  limit_ = reinterpret_cast<std::uint8_t*>(bytes_.data()) + bytes_.size();
  pool_uses_.reserve(64);
}

inline void Assembler::grow() {
  const auto at = at_ - begin_;
  bytes_.resize(start_ + 2 * (bytes_.size() - start_));
  begin_ = reinterpret_cast<std::uint8_t*>(bytes_.data()) + start_;
  at_ = begin_ + at;
  limit_ = reinterpret_cast<std::uint8_t*>(bytes_.data()) + bytes_.size();
}

inline std::uint8_t* put_dword(std::uint8_t* p, std::int64_t value) {
  const auto bits = static_cast<std::uint32_t>(value);
  std::memcpy(p, &bits, 4);
  return p + 4;
}

inline void Assembler::dword(std::int64_t value) { at_ = put_dword(at_, value); }

inline void Assembler::number(std::int64_t value, int bytes) {
  std::memcpy(at_, &value, as_index(bytes));
  at_ += bytes;
}

inline void Assembler::bind(int label) {
  std::int32_t& place = labels_[as_index(label)];
  for (std::int32_t use = -1 - place; use != 0; --pending_) {
    std::int32_t before = 0;
    std::memcpy(&before, begin_ + use, 4);
    const std::int32_t distance = here() - (use + 4);
    std::memcpy(begin_ + use, &distance, 4);
    use = before;
  }
  place = here();
}

inline bool Assembler::finish(std::span<const std::uint8_t> pool) {
  if (is_refused_) {
    bytes_.resize(size_before_);
    return false;
  }
  ensure(pending_ == 0, "x86: unbound label");
  const std::int32_t pool_start = (here() + 63) / 64 * 64;
  for (const std::int32_t use : pool_uses_) {
    std::int32_t distance = 0;
    std::memcpy(&distance, begin_ + use, 4);
    distance += pool_start;
    std::memcpy(begin_ + use, &distance, 4);
  }
  const std::size_t code_end = start_ + as_index(here()), pool_begin = start_ + as_index(pool_start);
  bytes_.resize(pool_begin + pool.size());
  std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(code_end), pool_begin - code_end, std::byte{0xCC});  // int3
  if (!pool.empty()) std::memcpy(bytes_.data() + pool_begin, pool.data(), pool.size());
  return true;
}

inline void Assembler::put(const Instruction& i) {
  if (as_index(limit_ - at_) < longest_instruction) grow();
  const Encoding& e = encoding_of(i.op);
  if (e.form < Encoding::Form::mov) vector_form(i, e);
  else general_form(i, e);
}

// Addresses ----------------------------------------------------------------------------------------------------------

/// ModRM, SIB and displacement at `p`; returns where they end. `scale` is the unit of a short displacement as a power
/// of two; `behind` is how many bytes of an immediate follow.
inline std::uint8_t* Assembler::memory(std::uint8_t* p, unsigned reg, const Mem& m, unsigned scale, int behind) {
  reg = (reg & 7) << 3;
  if (m.pool) {  // relative to the next instruction
    *p++ = static_cast<std::uint8_t>(reg | 5);
    const auto here = static_cast<std::int32_t>(p - begin_);
    pool_uses_.push_back(here);
    return put_dword(p, m.disp - (here + 4 + behind));
  }
  const unsigned base = as_index(m.base) & 7;
  const bool has_sib = m.index != Gpr::none || base == 4;
  const std::int32_t short_disp = m.disp >> scale;
  const bool is_short = is_byte(short_disp) && short_disp << scale == m.disp;
  const unsigned mode = m.disp == 0 && base != 5 ? 0x00 : is_short ? 0x40 : 0x80;
  *p++ = static_cast<std::uint8_t>(mode | reg | (has_sib ? 4 : base));
  if (has_sib) {
    const unsigned index = m.index == Gpr::none ? 4 : as_index(m.index) & 7;
    *p++ = static_cast<std::uint8_t>(static_cast<unsigned>(m.shift) << 6 | index << 3 | base);
  }
  if (mode == 0x40) *p++ = static_cast<std::uint8_t>(short_disp);
  else if (mode == 0x80) p = put_dword(p, m.disp);
  return p;
}

// Vectors and masks --------------------------------------------------------------------------------------------------

/// The three register fields of one instruction.
struct Assembler::Fields {
  unsigned opcode = 0;
  unsigned reg = 0, second = 0;
  Operand rm{};    // may be memory
  int bytes = 16;  // of the vector
};

// The bits that extend register numbers lie at the same places in the four bytes of EVEX and in those of VEX with
// three, and are stored inverted: of reg and rm in the second byte, of the other source in the third and fourth.
inline unsigned reg_extension(unsigned reg) { return (reg & 8u) << 12 | (reg & 16u) << 8; }
inline unsigned rm_extension(unsigned rm) { return (rm & 24u) << 10; }
inline unsigned second_extension(unsigned second) { return (second & 15u) << 19 | (second & 16u) << 23; }
/// Gpr::none has bit 3 clear.
inline unsigned memory_extension(const Mem& m) {
  return (static_cast<unsigned>(m.base) & 8u) << 10 | (static_cast<unsigned>(m.index) & 8u) << 11;
}
inline constexpr unsigned only_evex_extends = 1u << 12 | 1u << 27, rm_high_extension = 1u << 14;

/// `extension`: the register bits, upright. With two bytes where nothing is lost.
inline std::uint8_t* put_vex(std::uint8_t* p, const Encoding& e, unsigned extension, unsigned length) {
  const unsigned wide = e.vex == Encoding::W::w1;
  const unsigned prefix = (0xC4u | 0xE000u | 0x780000u | static_cast<unsigned>(e.map) << 8 | wide << 23 | length << 18 |
                           static_cast<unsigned>(e.prefix) << 16) ^
                          extension;
  if ((extension & 3u << 13) == 0 && wide == 0 && e.map == Encoding::Map::x0F) {
    p[0] = 0xC5;
    p[1] = static_cast<std::uint8_t>((prefix >> 8 & 0x80u) | prefix >> 16);
    return p + 2;
  }
  put_dword(p, prefix);
  return p + 3;
}

inline std::uint8_t* put_evex(std::uint8_t* p, const Instruction& i, const Encoding& e, unsigned extension,
                              unsigned length, bool broadcasts) {
  unsigned prefix = (0x62u | 0xF000u | 0x7C0000u | 0x08000000u | static_cast<unsigned>(e.map) << 8 |
                     static_cast<unsigned>(e.evex == Encoding::W::w1) << 23 | static_cast<unsigned>(e.prefix) << 16 |
                     length << 29 | static_cast<unsigned>(broadcasts) << 28) ^
                    extension;
  if (i.mask != no_vreg) prefix |= (i.mask & 7u) << 24 | static_cast<unsigned>(i.zeroing) << 31;
  return put_dword(p, prefix);
}

/// A short displacement of EVEX counts in units of two to this power.
inline unsigned displacement_scale(const Encoding& e, int vector_bytes, bool broadcasts) {
  using Unit = Encoding::Unit;
  if (e.unit >= Unit::bytes4) return 2 + static_cast<unsigned>(e.unit) - static_cast<unsigned>(Unit::bytes4);
  if (broadcasts) return e.fold == 4 ? 2 : 3;
  return static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(vector_bytes))) - static_cast<unsigned>(e.unit);
}

inline void Assembler::vector(const Instruction& i, const Encoding& e, const Fields& f) {
  const bool is_memory = f.rm.kind == Operand::Kind::mem;
  const bool broadcasts = is_memory && f.rm.bytes < f.bytes && (e.fold == 4 || e.fold == 8);
  const unsigned extension =
      reg_extension(f.reg) | second_extension(f.second) | (is_memory ? memory_extension(i.mem) : rm_extension(f.rm.id));
  const unsigned beyond_vex = only_evex_extends | (is_memory ? 0 : rm_high_extension);
  const bool has_mask_result = i.operand[0].kind == Operand::Kind::mask && e.evex != Encoding::W::no;
  const bool is_evex = f.bytes == 64 || i.mask != no_vreg || e.vex == Encoding::W::no || broadcasts ||
                       has_mask_result || (extension & beyond_vex) != 0;
  const unsigned length = static_cast<unsigned>(f.bytes) >> 5;
  if (is_evex && e.evex == Encoding::W::no) return refuse();
  // A pointer of its own: what is written through at_ might be at_ itself, for all that the compiler knows.
  std::uint8_t* p = is_evex ? put_evex(at_, i, e, extension, length, broadcasts) : put_vex(at_, e, extension, length);
  *p++ = static_cast<std::uint8_t>(f.opcode);
  const Operand& last = i.operand[as_index(i.count) - 1];
  const bool has_byte = last.kind == Operand::Kind::imm, has_fourth = i.count == 4 && !has_byte;
  if (!is_memory) *p++ = static_cast<std::uint8_t>(0xC0 | (f.reg & 7) << 3 | (f.rm.id & 7u));
  else
    p = memory(p, f.reg, i.mem, is_evex ? displacement_scale(e, f.bytes, broadcasts) : 0,
               static_cast<int>(has_byte || has_fourth));
  if (has_byte) *p++ = static_cast<std::uint8_t>(i.imm);
  else if (has_fourth) *p++ = static_cast<std::uint8_t>(last.id << 4);
  at_ = p;
}

/// reg and rm, where either may be memory. The vector is the wider of both.
inline void Assembler::move(const Instruction& i, const Encoding& e) {
  const Operand &to = i.operand[0], &from = i.operand[1];
  if (e.form == Encoding::Form::scalar && to.kind != Operand::Kind::mem && from.kind != Operand::Kind::mem)
    return refuse();
  if (to.kind == Operand::Kind::mem) {
    if (e.alternate == 0 || e.form == Encoding::Form::broadcast) return refuse();
    return vector(i, e, {.opcode = e.alternate, .reg = from.id, .rm = to, .bytes = from.bytes});
  }
  const int bytes = from.kind == Operand::Kind::vec ? std::max(to.bytes, from.bytes) : to.bytes;
  vector(i, e, {.opcode = e.opcode, .reg = to.id, .rm = from, .bytes = bytes});
}

inline void Assembler::masked(const Instruction& i, const Encoding& e) {
  const Operand &first = i.operand[0], &second = i.operand[1], &third = i.operand[2];
  const bool stores = first.kind == Operand::Kind::mem;
  vector(i, e,
         {.opcode = stores ? e.alternate : e.opcode,
          .reg = stores ? third.id : first.id,
          .second = second.id,
          .rm = stores ? first : third,
          .bytes = second.bytes});
}

/// vmovd, and vmovq between a vector and a general register: the vector is in reg.
inline void Assembler::between_files(const Instruction& i, const Encoding& e) {
  const bool loads = i.operand[0].kind == Operand::Kind::vec;
  if (loads == (i.operand[1].kind == Operand::Kind::vec)) return refuse();
  vector(i, e,
         {.opcode = loads ? e.opcode : e.alternate,
          .reg = loads ? i.operand[0].id : i.operand[1].id,
          .rm = loads ? i.operand[1] : i.operand[0]});
}

inline void Assembler::quadword(const Instruction& i, const Encoding& e) {
  const bool loads = i.operand[1].kind == Operand::Kind::mem, stores = i.operand[0].kind == Operand::Kind::mem;
  if (!loads && !stores) return between_files(i, e);
  using W = Encoding::W;
  Encoding other = e;
  other.vex = W::w0;
  other.evex = W::w1;
  other.prefix = loads ? Encoding::Prefix::pF3 : Encoding::Prefix::p66;
  other.opcode = 0x7E;
  other.alternate = 0xD6;
  move(i, other);
}

inline void Assembler::mask_move(const Instruction& i, const Encoding& e) {
  using Kind = Operand::Kind;
  const Operand &to = i.operand[0], &from = i.operand[1];
  Encoding kind = e;
  if (to.kind == Kind::gpr || from.kind == Kind::gpr) {
    // Bytes of the general register decide for the 64-bit form, which has its W only there.
    const unsigned opcode = to.kind == Kind::gpr ? 0x93 : 0x92;
    return vector(i, kind, {.opcode = opcode, .reg = to.id, .rm = from});
  }
  kind.prefix = Encoding::Prefix::none;
  const bool stores = to.kind == Kind::mem;
  vector(i, kind, {.opcode = stores ? 0x91u : 0x90u, .reg = stores ? from.id : to.id, .rm = stores ? to : from});
}

/// Operations on 16 bits; those of three operands have the bit of a 256-bit vector set.
inline void Assembler::mask_op(const Instruction& i, const Encoding& e) {
  if (i.count == 2) return vector(i, e, {.opcode = e.opcode, .reg = i.operand[0].id, .rm = i.operand[1]});
  vector(i, e,
         {.opcode = e.opcode, .reg = i.operand[0].id, .second = i.operand[1].id, .rm = i.operand[2], .bytes = 32});
}

/// Bit 4 of the index's number lies where that of a second source does.
inline void Assembler::gather(const Instruction& i, const Encoding& e) {
  const auto index = i.operand[2].id;
  if (index == i.operand[0].id || i.mask == no_vreg) return refuse();
  Instruction addressed = i;
  addressed.mem.index = static_cast<Gpr>(index & 15u);
  vector(addressed, e,
         {.opcode = e.opcode,
          .reg = i.operand[0].id,
          .second = index & 16u,
          .rm = i.operand[1],
          .bytes = i.operand[2].bytes});
}

inline void Assembler::vector_form(const Instruction& i, const Encoding& e) {
  using Form = Encoding::Form;
  const auto& o = i.operand;
  switch (e.form) {
    case Form::rvm:
      return vector(i, e, {.opcode = e.opcode, .reg = o[0].id, .second = o[1].id, .rm = o[2], .bytes = o[1].bytes});
    case Form::rm:
    case Form::scalar: return move(i, e);
    case Form::mr: return vector(i, e, {.opcode = e.opcode, .reg = o[1].id, .rm = o[0], .bytes = o[1].bytes});
    case Form::shift:
      return vector(i, e, {.opcode = e.opcode, .reg = e.alternate, .second = o[0].id, .rm = o[1], .bytes = o[0].bytes});
    case Form::masked: return masked(i, e);
    case Form::broadcast: {
      if (o[1].kind != Operand::Kind::gpr) return move(i, e);
      Encoding from_general = e;
      from_general.vex = Encoding::W::no;
      return vector(i, from_general, {.opcode = e.alternate, .reg = o[0].id, .rm = o[1], .bytes = o[0].bytes});
    }
    case Form::vmovd: return between_files(i, e);
    case Form::vmovq: return quadword(i, e);
    case Form::to_general:
    case Form::from_general: {
      const bool is_from = e.form == Form::from_general;
      Encoding sized = e;
      if ((is_from ? o[2] : o[0]).bytes == 8) sized.vex = sized.evex = Encoding::W::w1;
      if (is_from && o[2].bytes == 8) sized.unit = Encoding::Unit::bytes8;
      if (is_from) return vector(i, sized, {.opcode = e.opcode, .reg = o[0].id, .second = o[1].id, .rm = o[2]});
      return vector(
          i, sized,
          {.opcode = e.opcode, .reg = o[0].id, .rm = o[1], .bytes = o[1].kind == Operand::Kind::vec ? o[1].bytes : 16});
    }
    case Form::mask_move: return mask_move(i, e);
    case Form::mask_op: return mask_op(i, e);
    case Form::gather: return gather(i, e);
    default: return refuse();
  }
}

// General registers --------------------------------------------------------------------------------------------------

inline constexpr unsigned escape = 0x100;  // in an opcode: 0F goes before

/// REX, opcode, and what addresses `rm`. `width` is the operand's size: 1, 2, 4 or 8.
inline void Assembler::general(const Instruction& i, unsigned opcode, unsigned reg, const Operand& rm, int width,
                               int behind) {
  const bool is_memory = rm.kind == Operand::Kind::mem;
  const unsigned b = is_memory ? static_cast<unsigned>(i.mem.base) : rm.id;
  const unsigned x = is_memory ? static_cast<unsigned>(i.mem.index) : 0;
  const unsigned rex = static_cast<unsigned>(width == 8) << 3 | (reg & 8) >> 1 | (x & 8) >> 2 | (b & 8) >> 3;
  // Without REX the numbers 4 to 7 are ah to bh where a byte is meant.
  const bool is_low_byte = (width == 1 && reg >= 4) || (!is_memory && rm.bytes == 1 && rm.id >= 4);
  std::uint8_t* p = at_;
  if (width == 2) *p++ = 0x66;
  if (rex != 0 || is_low_byte) *p++ = static_cast<std::uint8_t>(0x40 | rex);
  if ((opcode & escape) != 0) *p++ = 0x0F;
  *p++ = static_cast<std::uint8_t>(opcode);
  if (is_memory) p = memory(p, reg, i.mem, 0, behind);
  else *p++ = static_cast<std::uint8_t>(0xC0 | (reg & 7) << 3 | (rm.id & 7u));
  at_ = p;
}

/// Forms with rax or eax in the opcode are a byte shorter.
inline bool is_accumulator(const Operand& o) { return o.kind == Operand::Kind::gpr && o.id == 0; }
inline void Assembler::accumulator(unsigned opcode, int width) {
  if (width == 8) byte(0x48);
  byte(opcode);
}

inline void Assembler::general_move(const Instruction& i) {
  using Kind = Operand::Kind;
  const Operand &to = i.operand[0], &from = i.operand[1];
  if (from.kind != Kind::imm) {
    const bool stores = from.kind == Kind::gpr;
    const Operand &reg = stores ? from : to, &rm = stores ? to : from;
    return general(i, (stores ? 0x88u : 0x8Au) + unsigned{reg.bytes > 1}, reg.id, rm, reg.bytes);
  }
  if (to.bytes == 2) return refuse();
  const bool is_register = to.kind == Kind::gpr;
  if (is_register && (to.bytes == 4 || (to.bytes == 8 && !is_dword(i.imm)))) {
    if (to.bytes == 8 || to.id >= 8) byte(0x40u | static_cast<unsigned>(to.bytes == 8) << 3 | to.id >> 3);
    byte(0xB8u | (to.id & 7u));
    return number(i.imm, to.bytes);
  }
  const int bytes = std::min<int>(to.bytes, 4);
  general(i, 0xC6u + unsigned{bytes > 1}, 0, to, to.bytes, bytes);
  number(i.imm, bytes);
}

/// add, adc, sub, and, xor, cmp.
inline void Assembler::arithmetic(const Instruction& i, unsigned opcode) {
  using Kind = Operand::Kind;
  const Operand &to = i.operand[0], &from = i.operand[1];
  if (from.kind == Kind::imm) {
    if (to.bytes == 1) return refuse();
    const bool is_short = is_byte(i.imm);
    if (!is_short && is_accumulator(to)) {
      accumulator(opcode + 5, to.bytes);
      return number(i.imm, 4);
    }
    general(i, is_short ? 0x83 : 0x81, opcode >> 3, to, to.bytes, is_short ? 1 : 4);
    return number(i.imm, is_short ? 1 : 4);
  }
  const bool stores = from.kind == Kind::gpr;
  const Operand &reg = stores ? from : to, &rm = stores ? to : from;
  general(i, opcode + (stores ? 0u : 2u) + unsigned{reg.bytes > 1}, reg.id, rm, reg.bytes);
}

inline void Assembler::multiply(const Instruction& i) {
  const Operand &to = i.operand[0], &from = i.operand[1];
  if (i.count == 2) return general(i, escape | 0xAF, to.id, from, to.bytes);
  const bool is_short = is_byte(i.imm);
  general(i, is_short ? 0x6B : 0x69, to.id, from, to.bytes, is_short ? 1 : 4);
  number(i.imm, is_short ? 1 : 4);
}

inline void Assembler::shift(const Instruction& i, const Encoding& e) {
  const Operand &to = i.operand[0], &by = i.operand[1];
  if (by.kind != Operand::Kind::imm) return general(i, 0xD3, e.alternate, to, to.bytes);
  if (i.imm == 1) return general(i, 0xD1, e.alternate, to, to.bytes);
  general(i, 0xC1, e.alternate, to, to.bytes, 1);
  byte(static_cast<unsigned>(i.imm));
}

inline void Assembler::test(const Instruction& i) {
  const Operand &left = i.operand[0], &right = i.operand[1];
  if (right.kind != Operand::Kind::imm) return general(i, 0x84u + unsigned{left.bytes > 1}, right.id, left, left.bytes);
  const int bytes = std::min<int>(left.bytes, 4);
  if (bytes == 4 && is_accumulator(left)) {
    accumulator(0xA9, left.bytes);
    return number(i.imm, 4);
  }
  general(i, 0xF6u + unsigned{left.bytes > 1}, 0, left, left.bytes, bytes);
  number(i.imm, bytes);
}

/// Numbers of 2 (integers only), 4 and 8 bytes in memory; fstp also to a register of the stack.
inline void Assembler::x87(const Instruction& i, const Encoding& e) {
  const Operand& o = i.operand[0];
  if (o.kind == Operand::Kind::imm) {
    if (i.op != Op::fstp) return refuse();
    byte(0xDD);
    return byte(0xD8u + static_cast<unsigned>(i.imm));
  }
  const bool is_integer = i.op == Op::fild, is_wide = o.bytes == 8;
  if (o.bytes != 4 && !is_wide) return refuse();
  const unsigned opcode = is_wide ? e.opcode | 4u : e.opcode;
  general(i, opcode, is_integer && is_wide ? 5 : e.alternate, o, 4);
}

inline void Assembler::fixed(const Instruction& i, const Encoding& e) {
  byte(e.opcode);
  if (e.alternate != 0) byte(e.alternate);
  if (i.op == Op::sfence) byte(0xF8);
  if (i.op == Op::vzeroupper) byte(0x77);
}

/// Backwards as short as it goes; forwards always with four bytes, since the distance is not known.
inline void Assembler::jump(const Instruction& i, const Encoding& e) {
  std::int32_t& place = labels_[i.operand[0].id];
  const bool is_call = e.form == Encoding::Form::call;
  if (place >= 0 && !is_call && is_byte(place - (here() + 2))) {
    byte(e.opcode);
    return byte(static_cast<unsigned>(place - (here() + 1)));
  }
  if (e.form == Encoding::Form::jump_if) byte(0x0F);
  byte(is_call ? e.opcode : e.alternate);
  if (place >= 0) return dword(place - (here() + 4));
  const std::int32_t before = -1 - place;
  place = -1 - here();
  ++pending_;
  dword(before);
}

inline void Assembler::general_form(const Instruction& i, const Encoding& e) {
  using Form = Encoding::Form;
  const auto& o = i.operand;
  switch (e.form) {
    case Form::mov: return general_move(i);
    case Form::movzx: {
      if (o[1].bytes > 2) return refuse();
      return general(i, escape | (e.opcode + unsigned{o[1].bytes == 2}), o[0].id, o[1], o[0].bytes);
    }
    case Form::load: return general(i, e.opcode, o[0].id, o[1], o[0].bytes);
    case Form::cmov: return general(i, escape | e.opcode, o[0].id, o[1], o[0].bytes);
    case Form::arithmetic: return arithmetic(i, e.opcode);
    case Form::one_operand: {
      if (o[0].bytes == 1) return refuse();
      return general(i, e.opcode, e.alternate, o[0], o[0].bytes);
    }
    case Form::imul: return multiply(i);
    case Form::test: return test(i);
    case Form::general_shift: return shift(i, e);
    case Form::bzhi: {
      const Encoding::W w = o[0].bytes == 8 ? Encoding::W::w1 : Encoding::W::w0;
      const Encoding vector_prefix{.form = e.form, .map = Encoding::Map::x0F38, .vex = w};
      return vector(i, vector_prefix, {.opcode = e.opcode, .reg = o[0].id, .second = o[2].id, .rm = o[1]});
    }
    case Form::push: {
      if (o[0].id >= 8) byte(0x41);
      return byte(e.opcode + (o[0].id & 7u));
    }
    case Form::jump:
    case Form::jump_if:
    case Form::call: return jump(i, e);
    case Form::x87: return x87(i, e);
    case Form::fixed: return fixed(i, e);
    default: return refuse();
  }
}

}  // namespace x86_detail
}  // namespace x86
SINTER_NAMESPACE_END
