// Puts physical registers into instructions, folds values that live in memory into memory operands, and writes
// prologue, epilogue and pool. Clobbers, besides what the stream names, the two scratch registers of each class.
#pragma once

#include <sinter/backend/x86/machine/emitter.hpp>

#include <sinter/backend/x86/machine/assembler.ipp>
#include <sinter/backend/x86/machine/encoding.hpp>
#include <sinter/backend/x86/machine/listing.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <array>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

/// `Target` is an Assembler or a ListingAssembler: it takes instructions of physical registers.
template <class Target>
class Encoder {
 public:
  Encoder(const CodeStream& stream, const Allocation& allocation, Target& target)
      : stream_(stream), allocation_(allocation), place_(allocation.place.data()), target_(target) {}

  void run() {
    find_saved();
    prologue();
    for (const Instruction& i : stream_.code()) one(i);
  }

 private:
  void put(Op op) { target_.put({.op = op}); }
  template <std::size_t N>
  void put(Op op, const Operand (&operands)[N], Mem m = {}, std::int64_t imm = 0) {
    Instruction i{.op = op, .count = N, .mem = m, .imm = imm};
    std::copy_n(operands, N, i.operand.begin());
    target_.put(i);
  }

  void find_saved() {
    for (Gpr r : {Gpr::rbx, Gpr::r12, Gpr::r13, Gpr::r14, Gpr::r15})
      if (allocation_.general_registers >> static_cast<unsigned>(r) & 1u) saved_[saved_count_++] = r;
  }
  bool has_frame() const { return allocation_.frame_bytes > 0; }
  void prologue() {
    if (has_frame()) {
      put(Op::push, {reg(Gpr::rbp)});
      put(Op::mov, {reg(Gpr::rbp), reg(Gpr::rsp)});
    }
    for (std::size_t i = 0; i < saved_count_; ++i) put(Op::push, {reg(saved_[i])});
    if (!has_frame()) return;
    put(Op::sub, {reg(Gpr::rsp), immediate()}, {}, (allocation_.frame_bytes + 63) / 64 * 64);
    put(Op::and_, {reg(Gpr::rsp), immediate()}, {}, -64);
  }
  void epilogue() {
    put(Op::vzeroupper);
    if (has_frame())
      put(Op::lea, {reg(Gpr::rsp), mem(8)}, CodeStream::at(Gpr::rbp, -8 * static_cast<std::int32_t>(saved_count_)));
    for (std::size_t i = saved_count_; i-- > 0;) put(Op::pop, {reg(saved_[i])});
    if (has_frame()) put(Op::pop, {reg(Gpr::rbp)});
    put(Op::near_ret);
  }

  static Mem pool_memory(std::int32_t offset) { return {.pool = true, .disp = offset}; }
  static bool is_register_kind(const Operand& o) {
    return o.kind == Operand::Kind::vec || o.kind == Operand::Kind::mask;
  }
  bool in_register(const Operand& o) const { return place_[o.id].kind == Place::Kind::reg; }

  /// Loads a memory-resident vector or mask into a physical register.
  void reload(const Operand& o, unsigned to) {
    const Place& place = place_[o.id];
    const VRegInfo& info = stream_.vregs()[o.id];
    if (info.is_mask) return put(Op::kmovq, {physical(o, to), mem(8)}, CodeStream::slot(place.offset));
    if (place.kind == Place::Kind::pool) return load_constant(info, to, o.bytes);
    put(Op::vmovups, {physical(o, to), mem(o.bytes)}, CodeStream::slot(place.offset));
  }
  void load_constant(const VRegInfo& info, unsigned to, int bytes) {
    const Operand result = vec(static_cast<VReg>(to), bytes);
    if (info.element == 0 || stream_.isa() == Isa::avx2)
      return put(Op::vmovups, {result, mem(bytes)}, pool_memory(info.pool_offset));
    const Op op = info.element == 4 ? Op::vbroadcastss : bytes == 16 ? Op::vpbroadcastq : Op::vbroadcastsd;
    put(op, {result, mem(info.element)}, pool_memory(info.pool_offset));
  }
  /// Turns a memory-resident source into a memory operand, if an instruction that folds like `fold` may read it so.
  bool fold_into(Operand& o, Mem& m, unsigned fold) const {
    if (fold == 0 || o.kind != Operand::Kind::vec) return false;
    const Place& place = place_[o.id];
    const VRegInfo& info = stream_.vregs()[o.id];
    if (place.kind == Place::Kind::slot) {
      m = CodeStream::slot(place.offset);
      o = mem(o.bytes);
      return true;
    }
    const bool is_whole = info.element == 0 || stream_.isa() == Isa::avx2;
    if (!is_whole && info.element != fold) return false;
    m = pool_memory(info.pool_offset);
    o = mem(is_whole ? o.bytes : info.element);
    return true;
  }

  void one(const Instruction& i) {
    if (i.op < Op::fma_ps) return general(i);
    if (i.op == Op::label) return target_.bind(i.operand[0].id);
    if (i.op == Op::constants) return constants(i);
    if (i.op == Op::ret) return epilogue();
    fma(i);
  }

  void constants(const Instruction& i) {
    for (VReg r = allocation_.first_constant[as_index(i.imm)]; r != no_vreg; r = place_[r].next)
      if (place_[r].kind == Place::Kind::reg)
        load_constant(stream_.vregs()[r], place_[r].reg, stream_.vregs()[r].bytes);
  }

  void general(const Instruction& i) {
    Instruction out = i;
    for (std::size_t k = 0; k < i.count; ++k) {
      Operand& o = out.operand[k];
      if (!is_register_kind(o)) continue;
      const Place place = place_[o.id];
      if (place.kind != Place::Kind::reg) return general_in_memory(i);
      o.id = place.reg;
    }
    if (i.mask != no_vreg) {
      const Place place = place_[i.mask];
      if (place.kind != Place::Kind::reg) return general_in_memory(i);
      out.mask = place.reg;
    }
    target_.put(out);
  }

  /// Some of the operands live in memory: sources are folded or reloaded, the result stored where it lives.
  void general_in_memory(const Instruction& i) {
    const Encoding& encoding = encoding_of(i.op);
    Instruction out = i;
    auto& operand = out.operand;
    bool has_memory = false;
    for (std::size_t k = 0; k < i.count; ++k) has_memory |= operand[k].kind == Operand::Kind::mem;
    if (encoding.commutes && i.count == 3 && i.mask == no_vreg && is_register_kind(operand[1]) &&
        is_register_kind(operand[2]) && !in_register(operand[1]) && in_register(operand[2]))
      std::swap(operand[1], operand[2]);
    std::size_t scratch_vec = 0, scratch_mask = 0;
    auto take = [&](const Operand& o) -> unsigned {
      return o.kind == Operand::Kind::mask ? allocation_.scratch_mask[scratch_mask++]
                                           : allocation_.scratch_vec[scratch_vec++];
    };
    const std::size_t foldable = i.count >= 3 && operand[2].kind == Operand::Kind::vec ? 2 : 1;
    const Operand to = operand[0];
    for (std::size_t k = i.only_reads || !is_register_kind(to) ? 0 : 1; k < i.count; ++k) {
      Operand& o = operand[k];
      if (!is_register_kind(o)) continue;
      if (in_register(o)) {
        o = physical(o, place_[o.id].reg);
        continue;
      }
      if (k == foldable && !has_memory && k > 0 && fold_into(o, out.mem, encoding.fold)) continue;
      const unsigned scratch = take(o);
      reload(o, scratch);
      o = physical(o, scratch);
    }
    const bool writes = !i.only_reads && is_register_kind(to), is_spilled = writes && !in_register(to);
    if (writes && !is_spilled) operand[0] = physical(to, place_[to.id].reg);
    if (is_spilled) {
      unsigned result = to.kind == Operand::Kind::mask ? allocation_.scratch_mask[0] : allocation_.scratch_vec[0];
      if (i.reads_first) {
        result = take(to);
        reload(to, result);
      }
      operand[0] = physical(to, result);
    }
    if (i.mask != no_vreg) out.mask = mask_register(i.mask, allocation_.scratch_mask[scratch_mask]);
    target_.put(out);
    if (is_spilled) store_spilled(to, operand[0]);
  }
  static Operand physical(const Operand& o, unsigned id) { return {o.kind, o.bytes, static_cast<std::uint16_t>(id)}; }
  VReg mask_register(VReg mask, std::uint8_t scratch) {
    const Place& place = place_[mask];
    if (place.kind == Place::Kind::reg) return place.reg;
    reload(kreg(mask), scratch);
    return scratch;
  }
  /// `from`: the physical register.
  void store_spilled(const Operand& to, const Operand& from) {
    const Mem slot = CodeStream::slot(place_[to.id].offset);
    if (to.kind == Operand::Kind::mask) return put(Op::kmovq, {mem(8), from}, slot);
    put(Op::vmovups, {mem(to.bytes), from}, slot);
  }

  bool all_in_registers(const Instruction& i) const {
    for (const Operand& o : i.operand)
      if (!in_register(o)) return false;
    return true;
  }
  /// What fma() does, for the common case.
  void fma_of_registers(const Instruction& i, Op f132) {
    std::array<Operand, 4> o = i.operand;
    for (Operand& operand : o) operand.id = place_[operand.id].reg;
    const auto& [d, a, b, c] = o;
    const Op f213 = static_cast<Op>(as_index(f132) + 1), f231 = static_cast<Op>(as_index(f132) + 2);
    if (d.id == c.id) return put(f231, {d, a, b});
    if (d.id == a.id) return put(f213, {d, b, c});
    if (d.id == b.id) return put(f213, {d, a, c});
    put(Op::vmovaps, {d, c});
    put(f231, {d, a, b});
  }

  /// dst = a * b + c (or c - a * b). Picks the form whose accumulator is the register that dst shares; otherwise copies
  /// the addend. 132: x = x*m + y; 213: x = y*x + m; 231: x = y*m + x (m may be memory).
  void fma(const Instruction& i) {
    const Op f132 = i.op == Op::fma_ps    ? Op::vfmadd132ps
                    : i.op == Op::fma_pd  ? Op::vfmadd132pd
                    : i.op == Op::fnma_ps ? Op::vfnmadd132ps
                                          : Op::vfnmadd132pd;
    const Op f213 = static_cast<Op>(as_index(f132) + 1), f231 = static_cast<Op>(as_index(f132) + 2);
    if (all_in_registers(i)) return fma_of_registers(i, f132);
    const unsigned fold = encoding_of(f132).fold;
    Operand a = i.operand[1], b = i.operand[2], c = i.operand[3];
    if (!in_register(a) && in_register(b)) std::swap(a, b);  // b is the one that may stay in memory
    const Operand& d = i.operand[0];
    const bool is_spilled = !in_register(d);
    std::size_t scratch = 0;
    auto to_register = [&](const Operand& o) -> Operand {
      if (in_register(o)) return physical(o, place_[o.id].reg);
      const unsigned to = allocation_.scratch_vec[scratch++];
      reload(o, to);
      return physical(o, to);
    };
    auto put_form = [&](Op op, const Operand& result, const Operand& second, Operand third) {
      Mem m{};
      if (in_register(third) || !fold_into(third, m, fold)) third = to_register(third);
      put(op, {result, second, third}, m);
    };
    const Operand target = physical(d, is_spilled ? 255 : place_[d.id].reg);
    auto is_target = [&](const Operand& o) { return in_register(o) && place_[o.id].reg == target.id; };
    if (is_target(c)) return put_form(f231, target, to_register(a), b);
    if (is_target(a) && in_register(b)) return put_form(f213, target, to_register(b), c);
    if (is_target(a)) return put_form(f132, target, to_register(c), b);
    if (is_target(b)) return put_form(f213, target, to_register(a), c);
    const Operand result = is_spilled ? physical(d, allocation_.scratch_vec[scratch++]) : target;
    if (in_register(c)) put(Op::vmovaps, {result, to_register(c)});
    else reload(c, result.id);
    put_form(f231, result, to_register(a), b);
    if (is_spilled) store_spilled(d, result);
  }

  const CodeStream& stream_;
  const Allocation& allocation_;
  const Place* place_;
  Target& target_;
  std::array<Gpr, 5> saved_{};
  std::size_t saved_count_ = 0;
};

SINTER_DECL std::optional<std::size_t> assemble(const CodeStream& stream, const Allocation& allocation,
                                                std::vector<std::byte>& bytes) {
  Assembler assembler(bytes, stream.labels(), stream.code().size());
  Encoder<Assembler>(stream, allocation, assembler).run();
  if (!assembler.finish(stream.pool())) return std::nullopt;
  return assembler.start();
}

}  // namespace x86_detail

SINTER_DECL std::size_t encode(const CodeStream& stream, const Allocation& allocation, std::vector<std::byte>& bytes,
                               std::string* listing) {
  using namespace x86_detail;
  if (listing == nullptr)
    if (const auto start = assemble(stream, allocation, bytes)) return *start;
  ListingAssembler assembler(bytes, stream.labels(), listing);
  Encoder<ListingAssembler>(stream, allocation, assembler).run();
  assembler.finish(stream.pool());
  return assembler.start();
}

}  // namespace x86
SINTER_NAMESPACE_END
