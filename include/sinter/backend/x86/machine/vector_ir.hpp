// The generator's own instruction stream: machine instructions over virtual vector and mask registers, physical general
// registers, labels, a constant pool and a stack frame. Lowering appends to it, the register allocator numbers it and
// the emitter turns it into bytes. Knows nothing of kernels and nothing of the assembler.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/backend/x86/machine/records.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Machine instructions by mnemonic (ps and pd, d and q apart), and pseudo ones: fma and fnma take dst, a, b, c and the
/// emitter chooses among the 132, 213 and 231 forms when registers are known. The tables of encodings are in this
/// order.
enum class Op : std::uint8_t {
  // moves
  vmovups,
  vmovupd,
  vmovaps,
  vmovdqu8,
  vmovss,
  vmovsd,
  vmovd,
  vmovq,
  vbroadcastss,
  vbroadcastsd,
  vpbroadcastd,
  vpbroadcastq,
  vmaskmovps,
  vmaskmovpd,
  vmovntps,
  vmovmskps,
  // dst, memory (an element), index; merges into dst and clears its mask, which nobody may read afterwards; dst and
  // index must be different registers
  vgatherqps,
  vgatherqpd,
  // floats
  vaddps,
  vaddpd,
  vsubps,
  vsubpd,
  vmulps,
  vmulpd,
  vdivps,
  vdivpd,
  vminps,
  vminpd,
  vmaxps,
  vmaxpd,
  vsqrtps,
  vsqrtpd,
  vandps,
  vandpd,
  vorps,
  vorpd,
  vxorps,
  vxorpd,
  vandnps,
  vandnpd,
  vfmadd132ps,
  vfmadd213ps,
  vfmadd231ps,
  vfmadd132pd,
  vfmadd213pd,
  vfmadd231pd,
  vfnmadd132ps,
  vfnmadd213ps,
  vfnmadd231ps,
  vfnmadd132pd,
  vfnmadd213pd,
  vfnmadd231pd,
  vroundps,
  vroundpd,
  vrndscaleps,
  vrndscalepd,
  vscalefps,
  vscalefpd,
  vrangeps,
  vrangepd,
  vpternlogd,
  vpternlogq,
  vcmpps,
  vcmppd,
  vblendvps,
  vblendvpd,
  vblendmps,
  vblendmpd,
  // integers
  vpaddd,
  vpaddq,
  vpsubd,
  vpsubq,
  vpmulld,
  vpmullq,
  vpmuludq,
  vpminsd,
  vpminsq,
  vpmaxsd,
  vpmaxsq,
  vpabsb,
  vpabsd,
  vpabsq,
  vpslld,
  vpsllq,
  vpsrld,
  vpsrlq,
  vpsllvd,
  vpsllvq,
  vpsrlvq,
  vpsravd,
  vpsravq,
  vpcmpeqd,
  vpcmpeqq,
  vpcmpgtd,
  vpcmpgtq,
  vpcmpd,
  vpcmpq,
  vptestmb,
  // conversions and shuffles
  vcvtdq2ps,
  vcvttps2dq,
  vcvtps2dq,
  vcvtps2pd,
  vcvtpd2ps,
  vcvtdq2pd,
  vcvttpd2dq,
  vcvttps2qq,
  vcvtqq2ps,
  vcvttpd2qq,
  vcvtqq2pd,
  vcvtpd2qq,
  vpmovsxdq,
  vpmovqd,
  vpmovzxbd,
  vpmovzxbq,
  vpmovsxbd,
  vpmovzxwd,
  vpmovsxwd,
  vpmovzxdq,
  vpmovdb,
  vpmovdw,
  vcvtph2ps,
  vcvtps2ph,
  vpmovm2b,
  vpackssdw,
  vpacksswb,
  vpackusdw,
  vpackuswb,
  vextractf128,
  vextractf32x4,
  vextractf64x4,
  vshufps,
  vpermilps,
  vpermilpd,
  vpermps,
  vpermpd,
  vpermt2ps,
  vpermt2pd,
  vpermq,
  vblendps,
  vblendpd,
  // masks
  kmovw,
  kmovq,
  kandw,
  korw,
  kxorw,
  knotw,
  kandnw,
  // scalar conversions and x87 (its fprem is the exact remainder)
  vcvtsi2ss,
  vcvtsi2sd,
  vcvttss2si,
  vcvttsd2si,
  fld,
  fild,
  fstp,
  fprem,
  fnstsw,
  faddp,
  fmul,
  fmulp,
  fldpi,
  fchs,
  // general registers
  mov,
  movzx,
  movsxd,
  lea,
  add,
  adc,
  sub,
  mul,
  imul,
  and_,
  xor_,
  cmp,
  test,
  neg,
  inc,
  dec,
  shl,
  shr,
  sar,
  bzhi,
  cqo,
  idiv,
  cmovg,
  cmovl,
  push,
  pop,
  jmp,
  je,
  jne,
  jl,
  jle,
  jg,
  jge,
  jb,
  jae,
  jp,
  jbe,
  call,
  near_ret,  // call and near_ret: of and in a routine of this stream
  sfence,
  vzeroupper,
  // pseudo
  fma_ps,
  fma_pd,
  fnma_ps,
  fnma_pd,
  ret,        // of the whole function: puts back what the prologue saved
  label,      // operand 0
  constants,  // place where the constants of region `imm` are loaded
  count_,
};

/// How many of the first enumerators are mnemonics.
inline constexpr std::size_t mnemonics = as_index(Op::fma_ps);

/// General registers, numbered as the machine numbers them.
enum class Gpr : std::uint8_t { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, none };

/// A virtual register: vector or mask, by CodeStream::vregs.
using VReg = std::uint16_t;
inline constexpr VReg no_vreg = 0xFFFF;

struct Mem {
  Gpr base = Gpr::none;
  Gpr index = Gpr::none;
  std::uint8_t shift = 0;  // index scale: 1 << shift
  bool pool = false;       // disp counts from the constant pool
  std::int32_t disp = 0;
};

struct Operand {
  enum class Kind : std::uint8_t { none, vec, mask, gpr, mem, imm, label };
  Kind kind = Kind::none;
  std::uint8_t bytes = 0;  // register or access size
  std::uint16_t id = 0;
};
inline Operand vec(VReg r, int bytes) { return {Operand::Kind::vec, static_cast<std::uint8_t>(bytes), r}; }
inline Operand kreg(VReg r) { return {Operand::Kind::mask, 8, r}; }
inline Operand reg(Gpr r, int bytes = 8) {
  return {Operand::Kind::gpr, static_cast<std::uint8_t>(bytes), static_cast<std::uint16_t>(r)};
}
inline Operand mem(int bytes) { return {Operand::Kind::mem, static_cast<std::uint8_t>(bytes), 0}; }
inline Operand immediate() { return {Operand::Kind::imm, 8, 0}; }
inline Operand label_operand(int id) { return {Operand::Kind::label, 8, static_cast<std::uint16_t>(id)}; }

struct Instruction {
  Op op = Op::label;
  std::uint8_t count = 0;
  bool reads_first = false;  // operand 0 is read as well as written (merging, accumulating)
  bool only_reads = false;   // operand 0 is not written
  bool zeroing = false;      // with `mask`
  VReg mask = no_vreg;       // AVX-512 write mask
  std::array<Operand, 4> operand{};
  Mem mem{};
  std::int64_t imm = 0;
};

/// What is known of a virtual register besides its uses.
struct VRegInfo {
  bool is_mask = false;
  bool is_constant = false;  // lives in the pool; loaded at its region if a register is free
  std::uint8_t element = 4;  // constants: element size of the splat; 0 for a full vector
  std::uint8_t bytes = 64;   // register size
  std::uint16_t region = 0;
  std::int32_t pool_offset = 0;
};

struct LoopRange {
  std::uint32_t begin = 0, end = 0;
  std::int32_t parent = -1;
};

class CodeStream {
 public:
  explicit CodeStream(Isa isa) : isa_(isa) {
    pool_.reserve(512);
    constant_buckets_.fill(no_vreg);
  }
  Isa isa() const { return isa_; }
  std::span<const Instruction> code() const { return code_; }
  std::span<const VRegInfo> vregs() const { return vregs_; }
  const std::vector<LoopRange>& loops() const { return loops_; }
  const std::vector<std::uint8_t>& pool() const { return pool_; }
  int labels() const { return labels_; }
  int frame_bytes() const { return frame_; }

  VReg new_vec(int bytes) { return push_vreg({.bytes = static_cast<std::uint8_t>(bytes)}); }
  VReg new_mask() { return push_vreg({.is_mask = true, .bytes = 8}); }
  bool is_constant(VReg r) const { return vregs_[r].is_constant; }
  /// The lowest element of a constant.
  std::uint64_t constant_bits(VReg r) const {
    std::uint64_t bits = 0;
    const std::size_t size = vregs_[r].element == 4 ? 4 : 8;
    std::memcpy(&bits, pool_.data() + vregs_[r].pool_offset, size);
    return bits;
  }

  /// A vector with `bits` in every lane of `element` bytes; one per region and value.
  VReg constant(std::uint64_t bits, int element, int bytes);
  /// A vector constant given in full.
  VReg constant_vector(const void* data, int bytes);
  /// Constants made from here on are loaded at this place, where the stream stands now.
  std::uint16_t open_region() {
    region_ = static_cast<std::uint16_t>(++regions_);
    push({.op = Op::constants, .imm = region_});
    return region_;
  }
  /// Constants made from here on belong to a region opened before.
  void use_region(std::uint16_t region) { region_ = region; }
  /// How many regions there are, with the one that is open at the start.
  std::size_t regions() const { return std::size_t{regions_} + 1; }
  std::uint16_t region() const { return region_; }

  /// Bytes in the stack frame; the offset from rsp.
  int frame(int bytes, int alignment = 8) {
    frame_ = (frame_ + alignment - 1) / alignment * alignment;
    int at = frame_;
    frame_ += bytes;
    return at;
  }

  Instruction& push(Instruction instruction) { return code_.append(instruction); }
  template <std::size_t N>
  Instruction& emit(Op op, const Operand (&operands)[N], std::int64_t imm = 0) {
    Instruction& i = code_.append({.op = op, .count = N});
    for (std::size_t k = 0; k < N; ++k) i.operand[k] = operands[k];
    i.imm = imm;
    return i;
  }
  /// On whole vectors of one size.
  template <std::size_t N>
  Instruction& emit_vectors(Op op, int bytes, VReg result, const VReg (&sources)[N]) {
    Instruction& i = code_.append({.op = op, .count = N + 1});
    i.operand[0] = vec(result, bytes);
    for (std::size_t k = 0; k < N; ++k) i.operand[k + 1] = vec(sources[k], bytes);
    return i;
  }
  template <std::size_t N>
  Instruction& emit(Op op, const Operand (&operands)[N], Mem memory, std::int64_t imm = 0) {
    Instruction& i = emit(op, operands, imm);
    i.mem = memory;
    return i;
  }

  /// Lets the instruction just made write `to` instead of `from`. False if it did not write `from`.
  bool retarget_last(VReg from, VReg to) {
    Instruction& last = code_.back();
    if (last.count == 0 || last.only_reads || last.reads_first || last.operand[0].kind != Operand::Kind::vec ||
        last.operand[0].id != from)
      return false;
    last.operand[0].id = to;
    return true;
  }

  Instruction& last() { return code_.back(); }
  /// How many instructions there are.
  std::uint32_t position() const { return static_cast<std::uint32_t>(code_.size()); }
  /// Those from `first` on, which may change places while nothing is added.
  std::span<Instruction> code_from(std::uint32_t first) { return {&code_[0] + first, code_.size() - first}; }

  int new_label() { return labels_++; }
  /// A routine inside this stream, named by `key`, with its own part of the frame: a new one when first asked for,
  /// which the caller then binds. Inside it the frame lies 8 bytes higher.
  struct Routine {
    std::uint32_t key = 0;
    int label = 0, frame = 0;
    bool is_new = false;
  };
  Routine routine(std::uint32_t key, int frame_bytes) {
    for (const Routine& r : routines_)
      if (r.key == key) return r;
    routines_.push_back({key, new_label(), frame(frame_bytes, 64), false});
    Routine made = routines_.back();
    made.is_new = true;
    return made;
  }
  /// Data in the pool, without a register: its offset there.
  std::int32_t pool_data(const void* data, int bytes) { return pool_bytes(data, bytes); }
  void bind(int label) { emit(Op::label, {label_operand(label)}); }
  void jump(Op op, int label) { emit(op, {label_operand(label)}).only_reads = true; }
  /// Marks what lies between as a loop: what is live into it stays live to its end.
  void begin_loop() {
    loops_.push_back({position(), 0, open_loop_});
    open_loop_ = static_cast<std::int32_t>(loops_.size()) - 1;
  }
  void end_loop() {
    loops_[as_index(open_loop_)].end = position();
    open_loop_ = loops_[as_index(open_loop_)].parent;
  }

  // General registers.
  void mov(Gpr d, Gpr s) { emit(Op::mov, {reg(d), reg(s)}); }
  void mov(Gpr d, Mem m) { emit(Op::mov, {reg(d), mem(8)}, m); }
  void mov(Mem m, Gpr s) { emit(Op::mov, {mem(8), reg(s)}, m).only_reads = true; }
  void mov_imm(Gpr d, std::int64_t value);
  void mov_imm(Mem m, std::int32_t value) { emit(Op::mov, {mem(8), immediate()}, m, value).only_reads = true; }
  void binary(Op op, Gpr d, Gpr s) { emit(op, {reg(d), reg(s)}); }
  void binary(Op op, Gpr d, Mem m) { emit(op, {reg(d), mem(8)}, m); }
  void binary(Op op, Mem m, Gpr s) { emit(op, {mem(8), reg(s)}, m).only_reads = true; }
  void binary_imm(Op op, Gpr d, std::int32_t value) { emit(op, {reg(d), immediate()}, Mem{}, value); }
  void binary_imm(Op op, Mem m, std::int32_t value) { emit(op, {mem(8), immediate()}, m, value).only_reads = true; }

  static Mem at(Gpr base, std::int32_t disp = 0) { return {.base = base, .disp = disp}; }
  static Mem at(Gpr base, Gpr index, int shift, std::int32_t disp = 0) {
    return {.base = base, .index = index, .shift = static_cast<std::uint8_t>(shift), .disp = disp};
  }
  static Mem slot(int frame_offset) { return {.base = Gpr::rsp, .disp = frame_offset}; }

 private:
  VReg push_vreg(VRegInfo info) {
    ensure(vregs_.size() < no_vreg, "x86: too many virtual registers");
    vregs_.append(info);
    return static_cast<VReg>(vregs_.size() - 1);
  }
  std::int32_t pool_bytes(const void* data, int bytes);
  std::int32_t pool_splat(std::uint64_t bits, int element);

  struct ConstantKey {
    std::uint64_t bits;
    std::uint16_t region, reg;
    std::uint16_t next;  // in the same bucket
    std::uint8_t element, bytes;
  };
  Isa isa_;
  Records<Instruction> code_{768};  // a softmax has 580
  Records<VRegInfo> vregs_{256};
  std::vector<LoopRange> loops_;
  std::vector<std::uint8_t> pool_;
  std::vector<ConstantKey> constants_;
  std::array<std::uint16_t, 64> constant_buckets_;  // by bits
  std::vector<Routine> routines_;
  std::int32_t open_loop_ = -1;
  std::uint16_t region_ = 0, regions_ = 0;
  int labels_ = 0, frame_ = 0;
};

inline std::int32_t CodeStream::pool_bytes(const void* data, int bytes) {
  const auto size = as_index(bytes);
  const auto find = [&](auto is_equal) {
    std::size_t at = 0;  // entries lie at multiples of their size
    while (at + size <= pool_.size() && !is_equal(pool_.data() + at)) at += size;
    return at;
  };
  std::size_t at = 0;
  if (bytes == 4) at = find([&](const std::uint8_t* entry) { return std::memcmp(entry, data, 4) == 0; });
  else if (bytes == 8) at = find([&](const std::uint8_t* entry) { return std::memcmp(entry, data, 8) == 0; });
  else at = find([&](const std::uint8_t* entry) { return std::memcmp(entry, data, size) == 0; });
  if (at + size <= pool_.size()) return static_cast<std::int32_t>(at);
  at = (pool_.size() + size - 1) / size * size;
  pool_.resize(at + size);
  std::memcpy(pool_.data() + at, data, size);
  return static_cast<std::int32_t>(at);
}

/// The element once; on AVX2, which cannot broadcast while it computes, a whole vector.
inline std::int32_t CodeStream::pool_splat(std::uint64_t bits, int element) {
  if (isa_ == Isa::avx512) return pool_bytes(&bits, element);
  std::array<std::uint8_t, 32> splat{};
  const auto size = as_index(element);
  for (std::size_t at = 0; at < splat.size(); at += size) std::memcpy(splat.data() + at, &bits, size);
  return pool_bytes(splat.data(), 32);
}

inline VReg CodeStream::constant(std::uint64_t bits, int element, int bytes) {
  if (element == 4) bits &= 0xFFFFFFFFu;
  std::uint16_t& bucket = constant_buckets_[(bits * 0x9E3779B97F4A7C15u >> 58)];
  std::int32_t pool_offset = -1;
  for (std::uint16_t k = bucket; k != no_vreg; k = constants_[k].next) {
    const ConstantKey& key = constants_[k];
    if (key.bits != bits || key.element != element) continue;
    if (key.region == region_ && key.bytes == bytes) return key.reg;
    pool_offset = vregs_[key.reg].pool_offset;
  }
  VRegInfo info{.is_constant = true,
                .element = static_cast<std::uint8_t>(element),
                .bytes = static_cast<std::uint8_t>(bytes),
                .region = region_};
  info.pool_offset = pool_offset >= 0 ? pool_offset : pool_splat(bits, element);
  VReg r = push_vreg(info);
  constants_.push_back({bits, region_, r, bucket, info.element, info.bytes});
  bucket = static_cast<std::uint16_t>(constants_.size() - 1);
  return r;
}

inline VReg CodeStream::constant_vector(const void* data, int bytes) {
  VRegInfo info{.is_constant = true, .element = 0, .bytes = static_cast<std::uint8_t>(bytes), .region = region_};
  info.pool_offset = pool_bytes(data, bytes);
  for (std::size_t r = 0; r < vregs_.size(); ++r)
    if (vregs_[r].is_constant && vregs_[r].element == 0 && vregs_[r].region == region_ && vregs_[r].bytes == bytes &&
        vregs_[r].pool_offset == info.pool_offset)
      return static_cast<VReg>(r);
  return push_vreg(info);
}

inline void CodeStream::mov_imm(Gpr d, std::int64_t value) {
  if (value == 0) emit(Op::xor_, {reg(d, 4), reg(d, 4)});
  else emit(Op::mov, {reg(d, value > 0 && value <= 0x7FFFFFFF ? 4 : 8), immediate()}, Mem{}, value);
}

}  // namespace x86
SINTER_NAMESPACE_END
