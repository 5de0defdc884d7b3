// Encoding over AsmJit's assembler: puts physical registers into instructions, folds values that live in memory into
// memory operands, and writes prologue, epilogue and pool. Clobbers, besides what the stream names, the two scratch
// registers of each class.
#pragma once

#include <sinter/backend/x86/machine/emitter.hpp>

#include <sinter/base/index.hpp>

#include <asmjit/x86.h>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

namespace aj = asmjit;
namespace ax = asmjit::x86;

/// How the operand that may be memory reads it: `fold` is the broadcast element size, 16 for "whole register only",
/// 0 for "never".
struct OpRow {
  aj::InstId id;
  std::uint8_t fold;
  bool commutes;
};

inline const OpRow& op_row(Op op) {
  using I = ax::Inst::Id;
  static constexpr OpRow rows[] = {{I::kIdVmovups, 0, false},
                                   {I::kIdVmovupd, 0, false},
                                   {I::kIdVmovaps, 0, false},
                                   {I::kIdVmovdqu8, 0, false},
                                   {I::kIdVmovss, 0, false},
                                   {I::kIdVmovsd, 0, false},
                                   {I::kIdVmovd, 0, false},
                                   {I::kIdVmovq, 0, false},
                                   {I::kIdVbroadcastss, 0, false},
                                   {I::kIdVbroadcastsd, 0, false},
                                   {I::kIdVpbroadcastd, 0, false},
                                   {I::kIdVpbroadcastq, 0, false},
                                   {I::kIdVmaskmovps, 0, false},
                                   {I::kIdVmaskmovpd, 0, false},
                                   {I::kIdVmovntps, 0, false},
                                   {I::kIdVmovmskps, 0, false},
                                   {I::kIdVaddps, 4, true},
                                   {I::kIdVaddpd, 8, true},
                                   {I::kIdVsubps, 4, false},
                                   {I::kIdVsubpd, 8, false},
                                   {I::kIdVmulps, 4, true},
                                   {I::kIdVmulpd, 8, true},
                                   {I::kIdVdivps, 4, false},
                                   {I::kIdVdivpd, 8, false},
                                   {I::kIdVminps, 4, false},
                                   {I::kIdVminpd, 8, false},
                                   {I::kIdVmaxps, 4, false},
                                   {I::kIdVmaxpd, 8, false},
                                   {I::kIdVsqrtps, 4, false},
                                   {I::kIdVsqrtpd, 8, false},
                                   {I::kIdVandps, 4, true},
                                   {I::kIdVandpd, 8, true},
                                   {I::kIdVorps, 4, true},
                                   {I::kIdVorpd, 8, true},
                                   {I::kIdVxorps, 4, true},
                                   {I::kIdVxorpd, 8, true},
                                   {I::kIdVandnps, 4, false},
                                   {I::kIdVandnpd, 8, false},
                                   {I::kIdVfmadd213ps, 4, false},
                                   {I::kIdVfmadd213pd, 8, false},
                                   {I::kIdVfnmadd213ps, 4, false},
                                   {I::kIdVfnmadd213pd, 8, false},
                                   {I::kIdVroundps, 16, false},
                                   {I::kIdVroundpd, 16, false},
                                   {I::kIdVrndscaleps, 4, false},
                                   {I::kIdVrndscalepd, 8, false},
                                   {I::kIdVscalefps, 4, false},
                                   {I::kIdVscalefpd, 8, false},
                                   {I::kIdVrangeps, 4, false},
                                   {I::kIdVrangepd, 8, false},
                                   {I::kIdVcmpps, 4, false},
                                   {I::kIdVcmppd, 8, false},
                                   {I::kIdVblendvps, 16, false},
                                   {I::kIdVblendvpd, 16, false},
                                   {I::kIdVblendmps, 4, false},
                                   {I::kIdVblendmpd, 8, false},
                                   {I::kIdVpaddd, 4, true},
                                   {I::kIdVpaddq, 8, true},
                                   {I::kIdVpsubd, 4, false},
                                   {I::kIdVpsubq, 8, false},
                                   {I::kIdVpmulld, 4, true},
                                   {I::kIdVpmullq, 8, true},
                                   {I::kIdVpmuludq, 8, true},
                                   {I::kIdVpminsd, 4, true},
                                   {I::kIdVpminsq, 8, true},
                                   {I::kIdVpmaxsd, 4, true},
                                   {I::kIdVpmaxsq, 8, true},
                                   {I::kIdVpabsb, 16, false},
                                   {I::kIdVpabsd, 4, false},
                                   {I::kIdVpabsq, 8, false},
                                   {I::kIdVpslld, 0, false},
                                   {I::kIdVpsllq, 0, false},
                                   {I::kIdVpsrld, 0, false},
                                   {I::kIdVpsrlq, 0, false},
                                   {I::kIdVpcmpeqd, 4, true},
                                   {I::kIdVpcmpeqq, 8, true},
                                   {I::kIdVpcmpgtd, 4, false},
                                   {I::kIdVpcmpgtq, 8, false},
                                   {I::kIdVpcmpd, 4, false},
                                   {I::kIdVpcmpq, 8, false},
                                   {I::kIdVptestmb, 16, false},
                                   {I::kIdVcvtdq2ps, 4, false},
                                   {I::kIdVcvttps2dq, 4, false},
                                   {I::kIdVcvtps2dq, 4, false},
                                   {I::kIdVcvtps2pd, 0, false},
                                   {I::kIdVcvtpd2ps, 0, false},
                                   {I::kIdVcvtdq2pd, 0, false},
                                   {I::kIdVcvttpd2dq, 0, false},
                                   {I::kIdVcvttps2qq, 0, false},
                                   {I::kIdVcvtqq2ps, 0, false},
                                   {I::kIdVcvttpd2qq, 8, false},
                                   {I::kIdVcvtqq2pd, 8, false},
                                   {I::kIdVcvtpd2qq, 8, false},
                                   {I::kIdVpmovsxdq, 0, false},
                                   {I::kIdVpmovqd, 0, false},
                                   {I::kIdVpmovzxbd, 0, false},
                                   {I::kIdVpmovzxbq, 0, false},
                                   {I::kIdVpmovm2b, 0, false},
                                   {I::kIdVpackssdw, 0, false},
                                   {I::kIdVpacksswb, 0, false},
                                   {I::kIdVextractf128, 0, false},
                                   {I::kIdVextractf32x4, 0, false},
                                   {I::kIdVextractf64x4, 0, false},
                                   {I::kIdVshufps, 0, false},
                                   {I::kIdVpermilps, 0, false},
                                   {I::kIdVpermilpd, 0, false},
                                   {I::kIdKmovw, 0, false},
                                   {I::kIdKmovq, 0, false},
                                   {I::kIdKandw, 0, false},
                                   {I::kIdKorw, 0, false},
                                   {I::kIdKxorw, 0, false},
                                   {I::kIdKnotw, 0, false},
                                   {I::kIdKandnw, 0, false},
                                   {I::kIdVcvtsi2ss, 0, false},
                                   {I::kIdVcvtsi2sd, 0, false},
                                   {I::kIdVcvttss2si, 0, false},
                                   {I::kIdVcvttsd2si, 0, false},
                                   {I::kIdFld, 0, false},
                                   {I::kIdFild, 0, false},
                                   {I::kIdFstp, 0, false},
                                   {I::kIdFprem, 0, false},
                                   {I::kIdFnstsw, 0, false},
                                   {I::kIdFaddp, 0, false},
                                   {I::kIdFmul, 0, false},
                                   {I::kIdFmulp, 0, false},
                                   {I::kIdFldpi, 0, false},
                                   {I::kIdFchs, 0, false},
                                   {I::kIdMov, 0, false},
                                   {I::kIdMovzx, 0, false},
                                   {I::kIdMovsxd, 0, false},
                                   {I::kIdLea, 0, false},
                                   {I::kIdAdd, 0, false},
                                   {I::kIdAdc, 0, false},
                                   {I::kIdSub, 0, false},
                                   {I::kIdMul, 0, false},
                                   {I::kIdImul, 0, false},
                                   {I::kIdAnd, 0, false},
                                   {I::kIdXor, 0, false},
                                   {I::kIdCmp, 0, false},
                                   {I::kIdTest, 0, false},
                                   {I::kIdNeg, 0, false},
                                   {I::kIdInc, 0, false},
                                   {I::kIdDec, 0, false},
                                   {I::kIdShl, 0, false},
                                   {I::kIdShr, 0, false},
                                   {I::kIdSar, 0, false},
                                   {I::kIdBzhi, 0, false},
                                   {I::kIdCqo, 0, false},
                                   {I::kIdIdiv, 0, false},
                                   {I::kIdCmovg, 0, false},
                                   {I::kIdCmovl, 0, false},
                                   {I::kIdJmp, 0, false},
                                   {I::kIdJe, 0, false},
                                   {I::kIdJne, 0, false},
                                   {I::kIdJl, 0, false},
                                   {I::kIdJle, 0, false},
                                   {I::kIdJg, 0, false},
                                   {I::kIdJge, 0, false},
                                   {I::kIdJb, 0, false},
                                   {I::kIdJae, 0, false},
                                   {I::kIdJp, 0, false},
                                   {I::kIdJbe, 0, false},
                                   {I::kIdCall, 0, false},
                                   {I::kIdRet, 0, false},
                                   {I::kIdSfence, 0, false},
                                   {I::kIdVzeroupper, 0, false},
                                   {I::kIdRet, 0, false}};
  static_assert(std::size(rows) == as_index(Op::label), "one row per mnemonic, in the enum's order");
  return rows[as_index(op)];
}

class Encoder {
 public:
  Encoder(const CodeStream& stream, const Allocation& allocation, std::string* listing)
      : stream_(stream), allocation_(allocation), listing_(listing) {
    holder_.init(aj::Environment::host());
    if (listing_ != nullptr) holder_.setLogger(&logger_);
    holder_.attach(&assembler_);
    labels_.reserve(as_index(stream.labels()) + 1);
    for (int i = 0; i <= stream.labels(); ++i) labels_.push_back(assembler_.newLabel());
  }

  void run() {
    find_saved();
    prologue();
    for (const Instruction& i : stream_.code()) one(i);
    assembler_.align(aj::AlignMode::kData, 64);
    assembler_.bind(labels_.back());
    assembler_.embed(stream_.pool().data(), stream_.pool().size());
    ensure(holder_.unresolvedLinkCount() == 0, "x86: unbound label");
    if (listing_ != nullptr) listing_->append(logger_.data(), logger_.dataSize());
  }
  const aj::CodeBuffer& buffer() const { return holder_.textSection()->buffer(); }

 private:
  void check(aj::Error error) { ensure(error == aj::kErrorOk, aj::DebugUtils::errorAsString(error)); }
  void raw(aj::InstId id, std::initializer_list<aj::Operand_> operands) {
    check(assembler_.emitOpArray(id, operands.begin(), operands.size()));
  }

  void find_saved() {
    std::uint32_t used = 0;
    auto note = [&](Gpr r) {
      if (r != Gpr::none) used |= 1u << static_cast<unsigned>(r);
    };
    for (const Instruction& i : stream_.code()) {
      note(i.mem.base);
      note(i.mem.index);
      for (int k = 0; k < i.count; ++k)
        if (i.operand[as_index(k)].kind == Operand::Kind::gpr) used |= 1u << i.operand[as_index(k)].id;
    }
    for (unsigned r : {3u, 12u, 13u, 14u, 15u})
      if (used >> r & 1u) saved_.push_back(static_cast<std::uint8_t>(r));
  }
  bool has_frame() const { return allocation_.frame_bytes > 0; }
  void prologue() {
    if (has_frame()) {
      assembler_.push(ax::rbp);
      assembler_.mov(ax::rbp, ax::rsp);
    }
    for (std::uint8_t r : saved_) assembler_.push(ax::gpq(r));
    if (!has_frame()) return;
    assembler_.sub(ax::rsp, (allocation_.frame_bytes + 63) / 64 * 64);
    assembler_.and_(ax::rsp, -64);
  }
  void epilogue() {
    assembler_.vzeroupper();
    if (has_frame()) assembler_.lea(ax::rsp, ax::qword_ptr(ax::rbp, -8 * static_cast<int>(saved_.size())));
    for (std::size_t i = saved_.size(); i-- > 0;) assembler_.pop(ax::gpq(saved_[i]));
    if (has_frame()) assembler_.pop(ax::rbp);
    assembler_.ret();
  }

  static ax::Vec vector(unsigned id, int bytes) {
    if (bytes == 64) return ax::zmm(id);
    if (bytes == 32) return ax::ymm(id);
    return ax::xmm(id);
  }
  ax::Mem pool_memory(std::int32_t offset, unsigned bytes) const { return ax::ptr(labels_.back(), offset, bytes); }
  static ax::Mem slot_memory(std::int32_t offset, unsigned bytes) { return ax::ptr(ax::rsp, offset, bytes); }
  ax::Mem memory(const Mem& m, unsigned bytes) const {
    if (m.pool) return pool_memory(m.disp, bytes);
    if (m.index == Gpr::none) return ax::ptr(ax::gpq(static_cast<unsigned>(m.base)), m.disp, bytes);
    return ax::ptr(ax::gpq(static_cast<unsigned>(m.base)), ax::gpq(static_cast<unsigned>(m.index)), m.shift, m.disp,
                   bytes);
  }
  static bool is_register_kind(const Operand& o) {
    return o.kind == Operand::Kind::vec || o.kind == Operand::Kind::mask;
  }
  bool in_register(const Operand& o) const { return allocation_.place[o.id].kind == Place::Kind::reg; }

  /// Loads a memory-resident vector or mask into a physical register.
  void reload(const Operand& o, unsigned to) {
    const Place& place = allocation_.place[o.id];
    const VRegInfo& info = stream_.vregs()[o.id];
    if (info.is_mask) return raw(ax::Inst::kIdKmovq, {ax::k(to), slot_memory(place.offset, 8)});
    if (place.kind == Place::Kind::pool) return load_constant(info, to, o.bytes);
    raw(ax::Inst::kIdVmovups, {vector(to, o.bytes), slot_memory(place.offset, o.bytes)});
  }
  void load_constant(const VRegInfo& info, unsigned to, int bytes) {
    if (info.element == 0 || stream_.isa() == Isa::avx2)
      return raw(ax::Inst::kIdVmovups,
                 {vector(to, bytes), pool_memory(info.pool_offset, static_cast<unsigned>(bytes))});
    if (info.element == 8 && bytes == 16)
      return raw(ax::Inst::kIdVpbroadcastq, {vector(to, bytes), pool_memory(info.pool_offset, 8)});
    raw(info.element == 4 ? ax::Inst::kIdVbroadcastss : ax::Inst::kIdVbroadcastsd,
        {vector(to, bytes), pool_memory(info.pool_offset, info.element)});
  }
  /// The memory operand for a memory-resident source, if an instruction that folds like `fold` may read it directly.
  bool folded(const Operand& o, unsigned fold, ax::Mem& out) const {
    const Place& place = allocation_.place[o.id];
    const VRegInfo& info = stream_.vregs()[o.id];
    if (fold == 0 || o.kind != Operand::Kind::vec) return false;
    if (place.kind == Place::Kind::slot) return out = slot_memory(place.offset, o.bytes), true;
    if (info.element == 0 || stream_.isa() == Isa::avx2) return out = pool_memory(info.pool_offset, o.bytes), true;
    if (info.element != fold) return false;
    out = pool_memory(info.pool_offset, info.element);
    int lanes = o.bytes / info.element;
    out.setBroadcast(lanes == 16  ? ax::Mem::Broadcast::k1To16
                     : lanes == 8 ? ax::Mem::Broadcast::k1To8
                     : lanes == 4 ? ax::Mem::Broadcast::k1To4
                                  : ax::Mem::Broadcast::k1To2);
    return true;
  }

  void one(const Instruction& i) {
    if (i.op == Op::label) return check(assembler_.bind(labels_[i.operand[0].id]));
    if (i.op == Op::constants) return constants(i);
    if (i.op == Op::ret) return epilogue();
    if (i.op >= Op::fma_ps && i.op <= Op::fnma_pd) return fma(i);
    general(i);
  }

  void constants(const Instruction& i) {
    const auto& vregs = stream_.vregs();
    for (std::size_t r = 0; r < vregs.size(); ++r)
      if (vregs[r].is_constant && vregs[r].region == i.imm && allocation_.place[r].kind == Place::Kind::reg)
        load_constant(vregs[r], allocation_.place[r].reg, vregs[r].bytes);
  }

  /// Any instruction but fma: sources are folded or reloaded, the result stored where it lives in memory.
  void general(const Instruction& i) {
    const OpRow& row = op_row(i.op);
    std::array<Operand, 4> operand = i.operand;
    std::array<aj::Operand_, 4> out;
    bool has_memory = false;
    for (int k = 0; k < i.count; ++k) has_memory |= operand[as_index(k)].kind == Operand::Kind::mem;
    if (row.commutes && i.count == 3 && i.mask == no_vreg && is_register_kind(operand[1]) &&
        is_register_kind(operand[2]) && !in_register(operand[1]) && in_register(operand[2]))
      std::swap(operand[1], operand[2]);
    std::size_t scratch_vec = 0, scratch_mask = 0;
    auto take = [&](const Operand& o) -> unsigned {
      return o.kind == Operand::Kind::mask ? allocation_.scratch_mask[scratch_mask++]
                                           : allocation_.scratch_vec[scratch_vec++];
    };
    const std::size_t foldable = i.count >= 3 && operand[2].kind == Operand::Kind::vec ? 2 : 1;
    for (std::size_t k = i.only_reads || !is_register_kind(operand[0]) ? 0 : 1; k < i.count; ++k) {
      const Operand& o = operand[k];
      if (!is_register_kind(o)) {
        out[k] = plain(i, o);
        continue;
      }
      if (in_register(o)) {
        out[k] = physical(o, allocation_.place[o.id].reg);
        continue;
      }
      if (ax::Mem m; k == foldable && !has_memory && k > 0 && folded(o, row.fold, m)) {
        out[k] = m;
        continue;
      }
      unsigned to = take(o);
      reload(o, to);
      out[k] = physical(o, to);
    }
    bool writes = i.count > 0 && !i.only_reads && is_register_kind(operand[0]);
    bool spilled = writes && !in_register(operand[0]);
    unsigned result = 0;
    if (writes) {
      result = spilled
                   ? (operand[0].kind == Operand::Kind::mask ? allocation_.scratch_mask[0] : allocation_.scratch_vec[0])
                   : allocation_.place[operand[0].id].reg;
      if (spilled && i.reads_first) {
        result = take(operand[0]);
        reload(operand[0], result);
      }
      out[0] = physical(operand[0], result);
    }
    set_mask(i, scratch_mask);
    if (aj::Error error = assembler_.emitOpArray(row.id, out.data(), i.count); error != aj::kErrorOk) refuse(i, error);
    if (spilled) store_spilled(operand[0], result);
  }
  void refuse(const Instruction& i, aj::Error error) {
    aj::String name;
    aj::InstAPI::instIdToString(aj::Arch::kX64, op_row(i.op).id, name);
    throw InternalError("x86: " + std::string(name.data()) + ": " + aj::DebugUtils::errorAsString(error));
  }
  static aj::Operand_ physical(const Operand& o, unsigned id) {
    if (o.kind == Operand::Kind::mask) return ax::k(id);
    return vector(id, o.bytes);
  }
  aj::Operand_ plain(const Instruction& i, const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::gpr:
        return o.bytes == 8   ? aj::Operand_(ax::gpq(o.id))
               : o.bytes == 4 ? aj::Operand_(ax::gpd(o.id))
               : o.bytes == 2 ? aj::Operand_(ax::gpw(o.id))
                              : aj::Operand_(ax::gpb(o.id));
      case Operand::Kind::mem: return memory(i.mem, o.bytes);
      case Operand::Kind::imm:
        if (i.op == Op::fstp) return ax::st(static_cast<unsigned>(i.imm));
        return aj::imm(i.imm);
      case Operand::Kind::label: return labels_[o.id];
      case Operand::Kind::none:
      case Operand::Kind::vec:
      case Operand::Kind::mask: break;
    }
    throw InternalError("x86: bad operand");
  }
  void set_mask(const Instruction& i, std::size_t scratch_mask) {
    if (i.mask == no_vreg) return;
    const Place& place = allocation_.place[i.mask];
    unsigned k = place.reg;
    if (place.kind != Place::Kind::reg) {
      k = allocation_.scratch_mask[scratch_mask];
      reload(kreg(i.mask), k);
    }
    assembler_.setExtraReg(ax::k(k));
    if (i.zeroing) assembler_.addInstOptions(aj::InstOptions::kX86_ZMask);
  }
  void store_spilled(const Operand& o, unsigned from) {
    const Place& place = allocation_.place[o.id];
    if (o.kind == Operand::Kind::mask) return raw(ax::Inst::kIdKmovq, {slot_memory(place.offset, 8), ax::k(from)});
    raw(ax::Inst::kIdVmovups, {slot_memory(place.offset, o.bytes), vector(from, o.bytes)});
  }

  struct FmaForms {
    aj::InstId f132, f213, f231;
  };
  static FmaForms forms(Op op) {
    using I = ax::Inst::Id;
    if (op == Op::fma_ps) return {I::kIdVfmadd132ps, I::kIdVfmadd213ps, I::kIdVfmadd231ps};
    if (op == Op::fma_pd) return {I::kIdVfmadd132pd, I::kIdVfmadd213pd, I::kIdVfmadd231pd};
    if (op == Op::fnma_ps) return {I::kIdVfnmadd132ps, I::kIdVfnmadd213ps, I::kIdVfnmadd231ps};
    return {I::kIdVfnmadd132pd, I::kIdVfnmadd213pd, I::kIdVfnmadd231pd};
  }

  /// dst = a * b + c (or c - a * b). Picks the form whose accumulator is the register that dst shares; otherwise copies
  /// the addend. 132: x = x*m + y; 213: x = y*x + m; 231: x = y*m + x (m may be memory).
  void fma(const Instruction& i) {
    const FmaForms form = forms(i.op);
    const unsigned fold = i.op == Op::fma_ps || i.op == Op::fnma_ps ? 4 : 8;
    Operand a = i.operand[1], b = i.operand[2], c = i.operand[3];
    if (!in_register(a) && in_register(b)) std::swap(a, b);  // b is the one that may stay in memory
    const Operand& d = i.operand[0];
    const bool spilled = !in_register(d);
    unsigned scratch = 0;
    auto to_register = [&](const Operand& o) -> unsigned {
      if (in_register(o)) return allocation_.place[o.id].reg;
      unsigned to = allocation_.scratch_vec[scratch++];
      reload(o, to);
      return to;
    };
    const int bytes = d.bytes;
    auto as_source = [&](const Operand& o) -> aj::Operand_ {
      if (ax::Mem m; !in_register(o) && folded(o, fold, m)) return m;
      return vector(to_register(o), bytes);
    };
    const unsigned target = spilled ? 255 : allocation_.place[d.id].reg;
    auto is_target = [&](const Operand& o) { return in_register(o) && allocation_.place[o.id].reg == target; };
    if (is_target(c)) {
      unsigned ra = to_register(a);
      raw(form.f231, {vector(target, bytes), vector(ra, bytes), as_source(b)});
    } else if (is_target(a) && in_register(b)) {
      raw(form.f213, {vector(target, bytes), vector(allocation_.place[b.id].reg, bytes), as_source(c)});
    } else if (is_target(a)) {
      unsigned rc = to_register(c);
      raw(form.f132, {vector(target, bytes), vector(rc, bytes), as_source(b)});
    } else if (is_target(b)) {
      unsigned ra = to_register(a);
      raw(form.f213, {vector(target, bytes), vector(ra, bytes), as_source(c)});
    } else {
      unsigned result = spilled ? allocation_.scratch_vec[scratch++] : target;
      if (in_register(c))
        raw(ax::Inst::kIdVmovaps, {vector(result, bytes), vector(allocation_.place[c.id].reg, bytes)});
      else reload(c, result);
      unsigned ra = to_register(a);
      raw(form.f231, {vector(result, bytes), vector(ra, bytes), as_source(b)});
      if (spilled) store_spilled(d, result);
    }
  }

  const CodeStream& stream_;
  const Allocation& allocation_;
  std::string* listing_;
  aj::StringLogger logger_;
  aj::CodeHolder holder_;
  ax::Assembler assembler_;
  std::vector<aj::Label> labels_;
  std::vector<std::uint8_t> saved_;
};

}  // namespace x86_detail

SINTER_DECL std::size_t encode(const CodeStream& stream, const Allocation& allocation, std::vector<std::byte>& bytes,
                               std::string* listing) {
  x86_detail::Encoder encoder(stream, allocation, listing);
  encoder.run();
  const std::size_t start = (bytes.size() + 63) / 64 * 64;
  const auto& buffer = encoder.buffer();
  bytes.resize(start + buffer.size());
  std::memcpy(bytes.data() + start, buffer.data(), buffer.size());
  return start;
}

}  // namespace x86
SINTER_NAMESPACE_END
