// Operands of ours to operands of AsmJit.
#pragma once

#include <sinter/backend/x86/machine/listing.hpp>

#include <sinter/backend/x86/machine/encoding.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <asmjit/x86.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

namespace aj = asmjit;
namespace ax = asmjit::x86;

inline aj::InstId asmjit_id(Op op) {
  using I = ax::Inst::Id;
  static constexpr aj::InstId ids[] = {I::kIdVmovups,
                                       I::kIdVmovupd,
                                       I::kIdVmovaps,
                                       I::kIdVmovdqu8,
                                       I::kIdVmovss,
                                       I::kIdVmovsd,
                                       I::kIdVmovd,
                                       I::kIdVmovq,
                                       I::kIdVbroadcastss,
                                       I::kIdVbroadcastsd,
                                       I::kIdVpbroadcastd,
                                       I::kIdVpbroadcastq,
                                       I::kIdVmaskmovps,
                                       I::kIdVmaskmovpd,
                                       I::kIdVmovntps,
                                       I::kIdVmovmskps,
                                       I::kIdVgatherqps,
                                       I::kIdVgatherqpd,
                                       I::kIdVaddps,
                                       I::kIdVaddpd,
                                       I::kIdVsubps,
                                       I::kIdVsubpd,
                                       I::kIdVmulps,
                                       I::kIdVmulpd,
                                       I::kIdVdivps,
                                       I::kIdVdivpd,
                                       I::kIdVminps,
                                       I::kIdVminpd,
                                       I::kIdVmaxps,
                                       I::kIdVmaxpd,
                                       I::kIdVsqrtps,
                                       I::kIdVsqrtpd,
                                       I::kIdVandps,
                                       I::kIdVandpd,
                                       I::kIdVorps,
                                       I::kIdVorpd,
                                       I::kIdVxorps,
                                       I::kIdVxorpd,
                                       I::kIdVandnps,
                                       I::kIdVandnpd,
                                       I::kIdVfmadd132ps,
                                       I::kIdVfmadd213ps,
                                       I::kIdVfmadd231ps,
                                       I::kIdVfmadd132pd,
                                       I::kIdVfmadd213pd,
                                       I::kIdVfmadd231pd,
                                       I::kIdVfnmadd132ps,
                                       I::kIdVfnmadd213ps,
                                       I::kIdVfnmadd231ps,
                                       I::kIdVfnmadd132pd,
                                       I::kIdVfnmadd213pd,
                                       I::kIdVfnmadd231pd,
                                       I::kIdVroundps,
                                       I::kIdVroundpd,
                                       I::kIdVrndscaleps,
                                       I::kIdVrndscalepd,
                                       I::kIdVscalefps,
                                       I::kIdVscalefpd,
                                       I::kIdVrangeps,
                                       I::kIdVrangepd,
                                       I::kIdVpternlogd,
                                       I::kIdVpternlogq,
                                       I::kIdVcmpps,
                                       I::kIdVcmppd,
                                       I::kIdVblendvps,
                                       I::kIdVblendvpd,
                                       I::kIdVblendmps,
                                       I::kIdVblendmpd,
                                       I::kIdVpaddd,
                                       I::kIdVpaddq,
                                       I::kIdVpsubd,
                                       I::kIdVpsubq,
                                       I::kIdVpmulld,
                                       I::kIdVpmullq,
                                       I::kIdVpmuludq,
                                       I::kIdVpminsd,
                                       I::kIdVpminsq,
                                       I::kIdVpmaxsd,
                                       I::kIdVpmaxsq,
                                       I::kIdVpabsb,
                                       I::kIdVpabsd,
                                       I::kIdVpabsq,
                                       I::kIdVpslld,
                                       I::kIdVpsllq,
                                       I::kIdVpsrld,
                                       I::kIdVpsrlq,
                                       I::kIdVpsllvd,
                                       I::kIdVpsllvq,
                                       I::kIdVpsrlvq,
                                       I::kIdVpsravd,
                                       I::kIdVpsravq,
                                       I::kIdVpcmpeqd,
                                       I::kIdVpcmpeqq,
                                       I::kIdVpcmpgtd,
                                       I::kIdVpcmpgtq,
                                       I::kIdVpcmpd,
                                       I::kIdVpcmpq,
                                       I::kIdVptestmb,
                                       I::kIdVcvtdq2ps,
                                       I::kIdVcvttps2dq,
                                       I::kIdVcvtps2dq,
                                       I::kIdVcvtps2pd,
                                       I::kIdVcvtpd2ps,
                                       I::kIdVcvtdq2pd,
                                       I::kIdVcvttpd2dq,
                                       I::kIdVcvttps2qq,
                                       I::kIdVcvtqq2ps,
                                       I::kIdVcvttpd2qq,
                                       I::kIdVcvtqq2pd,
                                       I::kIdVcvtpd2qq,
                                       I::kIdVpmovsxdq,
                                       I::kIdVpmovqd,
                                       I::kIdVpmovzxbd,
                                       I::kIdVpmovzxbq,
                                       I::kIdVpmovsxbd,
                                       I::kIdVpmovzxwd,
                                       I::kIdVpmovsxwd,
                                       I::kIdVpmovzxdq,
                                       I::kIdVpmovdb,
                                       I::kIdVpmovdw,
                                       I::kIdVcvtph2ps,
                                       I::kIdVcvtps2ph,
                                       I::kIdVpmovm2b,
                                       I::kIdVpackssdw,
                                       I::kIdVpacksswb,
                                       I::kIdVpackusdw,
                                       I::kIdVpackuswb,
                                       I::kIdVextractf128,
                                       I::kIdVextractf32x4,
                                       I::kIdVextractf64x4,
                                       I::kIdVshufps,
                                       I::kIdVpermilps,
                                       I::kIdVpermilpd,
                                       I::kIdVpermps,
                                       I::kIdVpermpd,
                                       I::kIdVpermt2ps,
                                       I::kIdVpermt2pd,
                                       I::kIdVpermq,
                                       I::kIdVblendps,
                                       I::kIdVblendpd,
                                       I::kIdKmovw,
                                       I::kIdKmovq,
                                       I::kIdKandw,
                                       I::kIdKorw,
                                       I::kIdKxorw,
                                       I::kIdKnotw,
                                       I::kIdKandnw,
                                       I::kIdVcvtsi2ss,
                                       I::kIdVcvtsi2sd,
                                       I::kIdVcvttss2si,
                                       I::kIdVcvttsd2si,
                                       I::kIdFld,
                                       I::kIdFild,
                                       I::kIdFstp,
                                       I::kIdFprem,
                                       I::kIdFnstsw,
                                       I::kIdFaddp,
                                       I::kIdFmul,
                                       I::kIdFmulp,
                                       I::kIdFldpi,
                                       I::kIdFchs,
                                       I::kIdMov,
                                       I::kIdMovzx,
                                       I::kIdMovsxd,
                                       I::kIdLea,
                                       I::kIdAdd,
                                       I::kIdAdc,
                                       I::kIdSub,
                                       I::kIdMul,
                                       I::kIdImul,
                                       I::kIdAnd,
                                       I::kIdXor,
                                       I::kIdCmp,
                                       I::kIdTest,
                                       I::kIdNeg,
                                       I::kIdInc,
                                       I::kIdDec,
                                       I::kIdShl,
                                       I::kIdShr,
                                       I::kIdSar,
                                       I::kIdBzhi,
                                       I::kIdCqo,
                                       I::kIdIdiv,
                                       I::kIdCmovg,
                                       I::kIdCmovl,
                                       I::kIdPush,
                                       I::kIdPop,
                                       I::kIdJmp,
                                       I::kIdJe,
                                       I::kIdJne,
                                       I::kIdJl,
                                       I::kIdJle,
                                       I::kIdJg,
                                       I::kIdJge,
                                       I::kIdJb,
                                       I::kIdJae,
                                       I::kIdJp,
                                       I::kIdJbe,
                                       I::kIdCall,
                                       I::kIdRet,
                                       I::kIdSfence,
                                       I::kIdVzeroupper};
  static_assert(std::size(ids) == mnemonics, "one id per mnemonic, in the enum's order");
  return ids[as_index(op)];
}

struct ListingAssembler::State {
  aj::StringLogger logger;
  aj::CodeHolder holder;
  ax::Assembler assembler;
  std::vector<aj::Label> labels;  // the last is that of the pool

  static void check(aj::Error error) {
    if (error != aj::kErrorOk) throw InternalError(std::string("x86: ") + aj::DebugUtils::errorAsString(error));
  }
  aj::Operand_ operand(const Instruction& i, const Operand& o, int vector_bytes) const;
  ax::Mem memory(const Instruction& i, unsigned bytes, int vector_bytes) const;
};

inline ax::Vec asmjit_vector(unsigned id, int bytes) {
  if (bytes == 64) return ax::zmm(id);
  if (bytes == 32) return ax::ymm(id);
  return ax::xmm(id);
}

inline ax::Mem ListingAssembler::State::memory(const Instruction& i, unsigned bytes, int vector_bytes) const {
  const Mem& m = i.mem;
  ax::Mem out;
  if (m.pool) out = ax::ptr(labels.back(), m.disp, bytes);
  else if (m.index == Gpr::none) out = ax::ptr(ax::gpq(static_cast<unsigned>(m.base)), m.disp, bytes);
  else
    out = ax::ptr(ax::gpq(static_cast<unsigned>(m.base)), ax::gpq(static_cast<unsigned>(m.index)), m.shift, m.disp,
                  bytes);
  const unsigned fold = encoding_of(i.op).fold;
  if ((fold != 4 && fold != 8) || static_cast<int>(bytes) >= vector_bytes) return out;
  const int lanes = vector_bytes / static_cast<int>(fold);
  out.setBroadcast(lanes == 16  ? ax::Mem::Broadcast::k1To16
                   : lanes == 8 ? ax::Mem::Broadcast::k1To8
                   : lanes == 4 ? ax::Mem::Broadcast::k1To4
                                : ax::Mem::Broadcast::k1To2);
  return out;
}

inline aj::Operand_ ListingAssembler::State::operand(const Instruction& i, const Operand& o, int vector_bytes) const {
  switch (o.kind) {
    case Operand::Kind::vec: return asmjit_vector(o.id, o.bytes);
    case Operand::Kind::mask: return ax::k(o.id);
    case Operand::Kind::gpr:
      return o.bytes == 8   ? aj::Operand_(ax::gpq(o.id))
             : o.bytes == 4 ? aj::Operand_(ax::gpd(o.id))
             : o.bytes == 2 ? aj::Operand_(ax::gpw(o.id))
                            : aj::Operand_(ax::gpb(o.id));
    case Operand::Kind::mem: return memory(i, o.bytes, vector_bytes);
    case Operand::Kind::imm:
      if (i.op == Op::fstp) return ax::st(static_cast<unsigned>(i.imm));
      return aj::imm(i.imm);
    case Operand::Kind::label: return labels[o.id];
    case Operand::Kind::none: break;
  }
  throw InternalError("x86: bad operand");
}

SINTER_DECL ListingAssembler::ListingAssembler(std::vector<std::byte>& bytes, int labels, std::string* listing)
    : state_(std::make_unique<State>()), bytes_(bytes), listing_(listing) {
  State::check(state_->holder.init(aj::Environment::host()));
  if (listing_ != nullptr) state_->holder.setLogger(&state_->logger);
  State::check(state_->holder.attach(&state_->assembler));
  for (int i = 0; i <= labels; ++i) state_->labels.push_back(state_->assembler.newLabel());
}

SINTER_DECL ListingAssembler::~ListingAssembler() = default;

SINTER_DECL void ListingAssembler::put(const Instruction& i) {
  std::array<aj::Operand_, 4> out;
  int vector_bytes = 0;
  for (const Operand& o : i.operand)
    if (o.kind == Operand::Kind::vec) vector_bytes = std::max<int>(vector_bytes, o.bytes);
  const bool gathers = encoding_of(i.op).form == Encoding::Form::gather;
  const unsigned count = gathers ? 2 : i.count;
  for (std::size_t k = 0; k < count; ++k) out[k] = state_->operand(i, i.operand[k], vector_bytes);
  if (gathers)
    out[1] = ax::ptr(ax::gpq(static_cast<unsigned>(i.mem.base)), asmjit_vector(i.operand[2].id, i.operand[2].bytes),
                     i.mem.shift, i.mem.disp, i.operand[1].bytes);
  if (i.mask != no_vreg) {
    state_->assembler.setExtraReg(ax::k(i.mask));
    if (i.zeroing) state_->assembler.addInstOptions(aj::InstOptions::kX86_ZMask);
  }
  const aj::Error error = state_->assembler.emitOpArray(asmjit_id(i.op), out.data(), count);
  if (error == aj::kErrorOk) return;
  aj::String name;
  aj::InstAPI::instIdToString(aj::Arch::kX64, asmjit_id(i.op), name);
  throw InternalError("x86: " + std::string(name.data()) + ": " + aj::DebugUtils::errorAsString(error));
}

SINTER_DECL void ListingAssembler::bind(int label) {
  State::check(state_->assembler.bind(state_->labels[as_index(label)]));
}

SINTER_DECL void ListingAssembler::finish(std::span<const std::uint8_t> pool) {
  State::check(state_->assembler.align(aj::AlignMode::kData, 64));
  State::check(state_->assembler.bind(state_->labels.back()));
  State::check(state_->assembler.embed(pool.data(), pool.size()));
  ensure(state_->holder.unresolvedLinkCount() == 0, "x86: unbound label");
  if (listing_ != nullptr) listing_->append(state_->logger.data(), state_->logger.dataSize());
  const aj::CodeBuffer& buffer = state_->holder.textSection()->buffer();
  start_ = (bytes_.size() + 63) / 64 * 64;
  bytes_.resize(start_ + buffer.size());
  std::memcpy(bytes_.data() + start_, buffer.data(), buffer.size());
}

}  // namespace x86_detail
}  // namespace x86
SINTER_NAMESPACE_END
