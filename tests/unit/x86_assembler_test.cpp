// Our assembler against AsmJit's: every mnemonic in every form that the table gives it, over registers, masks,
// addresses and vector lengths, byte for byte.
#include "../catch.hpp"

#ifndef SINTER_NO_X86

#include <sinter/backend/x86/machine/code_memory.hpp>
#include <sinter/backend/x86/machine/emitter.hpp>
#include <sinter/backend/x86/machine/register_allocator.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace sinter::x86;
using sinter::as_index;
using sinter::InternalError;

using Bytes = std::optional<std::vector<std::byte>>;

/// A function of one instruction, whose vectors and masks have the registers of their numbers. Masks come after the 32
/// vectors.
struct OneInstruction {
  explicit OneInstruction(Instruction i) : stream(Isa::avx512) {
    for (int k = 0; k < 40; ++k) {
      const VReg r = k < 32 ? stream.new_vec(64) : stream.new_mask();
      allocation.place.push_back({.kind = Place::Kind::reg, .reg = static_cast<std::uint8_t>(r % 32)});
    }
    for (Operand& o : i.operand)
      if (o.kind == Operand::Kind::mask) o.id = static_cast<std::uint16_t>(o.id + 32);
    if (i.mask != no_vreg) i.mask = static_cast<VReg>(i.mask + 32);
    stream.push(i);
  }
  CodeStream stream;
  Allocation allocation;
};

Bytes by_asmjit(const Instruction& i) {
  const OneInstruction one(i);
  std::vector<std::byte> bytes;
  std::string listing;
  try {
    encode(one.stream, one.allocation, bytes, &listing);
  } catch (const InternalError&) { return std::nullopt; }
  return bytes;
}

Bytes by_us(const Instruction& i) {
  const OneInstruction one(i);
  std::vector<std::byte> bytes;
  if (!x86_detail::assemble(one.stream, one.allocation, bytes)) return std::nullopt;
  return bytes;
}

std::string text(const Bytes& bytes) {
  if (!bytes) return "refused";
  std::string out;
  for (std::size_t k = 0; k < bytes->size() && k < 16; ++k) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x ", std::to_integer<unsigned>((*bytes)[k]));
    out += digits;
  }
  return out;
}

/// A form: operands by letter, separated by blanks. v: a vector of the length in turn, h, q, e: of half, a quarter, an
/// eighth of it, x, y: 128, 256 bits; k: a mask; m: memory of the vector's length, mh, mq, me: of parts of it, m1 to
/// m32: of so many bytes; r1 to r8: a general register; c: cl; i: an immediate.
struct Row {
  Op op;
  const char* forms;  // separated by '|'
  int lengths = 7;    // 1: 128 bits, 2: 256, 4: 512
  bool is_masked = false;
};

constexpr int all_lengths = 7, wide_lengths = 6, x_or_y = 3;

const char* const binary_4 = "v v v|v v m|v v m4";
const char* const binary_8 = "v v v|v v m|v v m8";
const char* const unary_4 = "v v|v m|v m4";
const char* const unary_8 = "v v|v m|v m8";
const char* const general_pair = "r8 r8|r4 r4|r8 m8|r4 m4|m8 r8|m4 r4|r8 i|r4 i|m8 i|m4 i|r1 r1|m1 r1|r1 m1";

const Row rows[] = {
    {Op::vmovups, "v v|v m|m v", all_lengths, true},
    {Op::vmovupd, "v v|v m|m v", all_lengths, true},
    {Op::vmovaps, "v v|v m|m v", all_lengths, true},
    {Op::vmovdqu8, "v v|v m|m v", all_lengths, true},
    {Op::vmovss, "x m4|m4 x", 1},
    {Op::vmovsd, "x m8|m8 x", 1},
    {Op::vmovd, "x r4|x m4|r4 x|m4 x", 1},
    {Op::vmovq, "x r8|x m8|r8 x|m8 x", 1},
    {Op::vbroadcastss, "v x|v m4", all_lengths, true},
    {Op::vbroadcastsd, "v x|v m8", wide_lengths, true},
    {Op::vpbroadcastd, "v x|v m4|v r4", all_lengths, true},
    {Op::vpbroadcastq, "v x|v m8|v r8", all_lengths, true},
    {Op::vmaskmovps, "v v m|m v v", x_or_y},
    {Op::vmaskmovpd, "v v m|m v v", x_or_y},
    {Op::vmovntps, "m v"},
    {Op::vmovmskps, "r4 v", x_or_y},
    {Op::vaddps, binary_4, all_lengths, true},
    {Op::vaddpd, binary_8, all_lengths, true},
    {Op::vsubps, binary_4, all_lengths, true},
    {Op::vsubpd, binary_8, all_lengths, true},
    {Op::vmulps, binary_4, all_lengths, true},
    {Op::vmulpd, binary_8, all_lengths, true},
    {Op::vdivps, binary_4, all_lengths, true},
    {Op::vdivpd, binary_8, all_lengths, true},
    {Op::vminps, binary_4, all_lengths, true},
    {Op::vminpd, binary_8, all_lengths, true},
    {Op::vmaxps, binary_4, all_lengths, true},
    {Op::vmaxpd, binary_8, all_lengths, true},
    {Op::vsqrtps, unary_4, all_lengths, true},
    {Op::vsqrtpd, unary_8, all_lengths, true},
    {Op::vandps, binary_4, all_lengths, true},
    {Op::vandpd, binary_8, all_lengths, true},
    {Op::vorps, binary_4, all_lengths, true},
    {Op::vorpd, binary_8, all_lengths, true},
    {Op::vxorps, binary_4, all_lengths, true},
    {Op::vxorpd, binary_8, all_lengths, true},
    {Op::vandnps, binary_4, all_lengths, true},
    {Op::vandnpd, binary_8, all_lengths, true},
    {Op::vfmadd132ps, binary_4, all_lengths, true},
    {Op::vfmadd213ps, binary_4, all_lengths, true},
    {Op::vfmadd231ps, binary_4, all_lengths, true},
    {Op::vfmadd132pd, binary_8, all_lengths, true},
    {Op::vfmadd213pd, binary_8, all_lengths, true},
    {Op::vfmadd231pd, binary_8, all_lengths, true},
    {Op::vfnmadd132ps, binary_4, all_lengths, true},
    {Op::vfnmadd213ps, binary_4, all_lengths, true},
    {Op::vfnmadd231ps, binary_4, all_lengths, true},
    {Op::vfnmadd132pd, binary_8, all_lengths, true},
    {Op::vfnmadd213pd, binary_8, all_lengths, true},
    {Op::vfnmadd231pd, binary_8, all_lengths, true},
    {Op::vroundps, "v v i|v m i", x_or_y},
    {Op::vroundpd, "v v i|v m i", x_or_y},
    {Op::vrndscaleps, "v v i|v m i|v m4 i", all_lengths, true},
    {Op::vrndscalepd, "v v i|v m i|v m8 i", all_lengths, true},
    {Op::vscalefps, binary_4, all_lengths, true},
    {Op::vscalefpd, binary_8, all_lengths, true},
    {Op::vrangeps, "v v v i|v v m i|v v m4 i", all_lengths, true},
    {Op::vrangepd, "v v v i|v v m i|v v m8 i", all_lengths, true},
    {Op::vcmpps, "v v v i|v v m i|k v v i|k v m i|k v m4 i"},
    {Op::vcmppd, "v v v i|v v m i|k v v i|k v m i|k v m8 i"},
    {Op::vblendvps, "v v v v|v v m v", x_or_y},
    {Op::vblendvpd, "v v v v|v v m v", x_or_y},
    {Op::vblendmps, binary_4, all_lengths, true},
    {Op::vblendmpd, binary_8, all_lengths, true},
    {Op::vpaddd, binary_4, all_lengths, true},
    {Op::vpaddq, binary_8, all_lengths, true},
    {Op::vpsubd, binary_4, all_lengths, true},
    {Op::vpsubq, binary_8, all_lengths, true},
    {Op::vpmulld, binary_4, all_lengths, true},
    {Op::vpmullq, binary_8, all_lengths, true},
    {Op::vpmuludq, binary_8, all_lengths, true},
    {Op::vpminsd, binary_4, all_lengths, true},
    {Op::vpminsq, binary_8, all_lengths, true},
    {Op::vpmaxsd, binary_4, all_lengths, true},
    {Op::vpmaxsq, binary_8, all_lengths, true},
    {Op::vpabsb, "v v|v m", all_lengths, true},
    {Op::vpabsd, unary_4, all_lengths, true},
    {Op::vpabsq, unary_8, all_lengths, true},
    {Op::vpslld, "v v i", all_lengths, true},
    {Op::vpsllq, "v v i", all_lengths, true},
    {Op::vpsrld, "v v i", all_lengths, true},
    {Op::vpsrlq, "v v i", all_lengths, true},
    {Op::vpsllvd, binary_4, all_lengths, true},
    {Op::vpsllvq, binary_8, all_lengths, true},
    {Op::vpsrlvq, binary_8, all_lengths, true},
    {Op::vpsravd, binary_4, all_lengths, true},
    {Op::vpsravq, binary_8, all_lengths, true},
    {Op::vpcmpeqd, "v v v|v v m|k v v|k v m4"},
    {Op::vpcmpeqq, "v v v|v v m|k v v|k v m8"},
    {Op::vpcmpgtd, "v v v|v v m|k v v|k v m4"},
    {Op::vpcmpgtq, "v v v|v v m|k v v|k v m8"},
    {Op::vpcmpd, "k v v i|k v m i|k v m4 i"},
    {Op::vpcmpq, "k v v i|k v m i|k v m8 i"},
    {Op::vptestmb, "k v v|k v m"},
    {Op::vcvtdq2ps, unary_4, all_lengths, true},
    {Op::vcvttps2dq, unary_4, all_lengths, true},
    {Op::vcvtps2dq, unary_4, all_lengths, true},
    {Op::vcvtps2pd, "v h|v mh", all_lengths, true},
    {Op::vcvtpd2ps, "h v", all_lengths, true},
    {Op::vcvtdq2pd, "v h|v mh", all_lengths, true},
    {Op::vcvttpd2dq, "h v", all_lengths, true},
    {Op::vcvttps2qq, "v h|v mh", all_lengths, true},
    {Op::vcvtqq2ps, "h v", all_lengths, true},
    {Op::vcvttpd2qq, unary_8, all_lengths, true},
    {Op::vcvtqq2pd, unary_8, all_lengths, true},
    {Op::vcvtpd2qq, unary_8, all_lengths, true},
    {Op::vpmovsxdq, "v h|v mh", all_lengths, true},
    {Op::vpmovqd, "h v|mh v", all_lengths, true},
    {Op::vpmovzxbd, "v q|v mq", all_lengths, true},
    {Op::vpmovzxbq, "v e|v me", all_lengths, true},
    {Op::vpmovsxbd, "v q|v mq", all_lengths, true},
    {Op::vpmovzxwd, "v h|v mh", all_lengths, true},
    {Op::vpmovsxwd, "v h|v mh", all_lengths, true},
    {Op::vpmovzxdq, "v h|v mh", all_lengths, true},
    {Op::vpmovdb, "q v|mq v", all_lengths, true},
    {Op::vpmovdw, "h v|mh v", all_lengths, true},
    {Op::vcvtph2ps, "v h|v mh", all_lengths, true},
    {Op::vcvtps2ph, "h v i|mh v i", all_lengths, true},
    {Op::vpmovm2b, "v k"},
    {Op::vpackssdw, "v v v|v v m", all_lengths, true},
    {Op::vpacksswb, "v v v|v v m", all_lengths, true},
    {Op::vpackusdw, "v v v|v v m", all_lengths, true},
    {Op::vpackuswb, "v v v|v v m", all_lengths, true},
    {Op::vextractf128, "x v i|m16 v i", 2},
    {Op::vextractf32x4, "x v i|m16 v i", wide_lengths, true},
    {Op::vextractf64x4, "y v i|m32 v i", 4, true},
    {Op::vshufps, "v v v i|v v m i", all_lengths, true},
    {Op::vpermilps, "v v i|v m i", all_lengths, true},
    {Op::vpermilpd, "v v i|v m i", all_lengths, true},
    {Op::vpermps, binary_4, wide_lengths, true},
    {Op::vpermpd, binary_8, wide_lengths, true},
    {Op::vpermt2ps, binary_4, all_lengths, true},
    {Op::vpermt2pd, binary_8, all_lengths, true},
    {Op::vpermq, "v v i|v m i", wide_lengths, true},
    {Op::vpternlogd, "v v v i|v v m i|v v m4 i", all_lengths, true},
    {Op::vpternlogq, "v v v i|v v m i|v v m8 i", all_lengths, true},
    {Op::vblendps, "v v v i|v v m i", x_or_y},
    {Op::vblendpd, "v v v i|v v m i", x_or_y},
    {Op::kmovw, "k k|k m2|m2 k|k r4|r4 k", 1},
    {Op::kmovq, "k k|k m8|m8 k|k r8|r8 k", 1},
    {Op::kandw, "k k k", 1},
    {Op::korw, "k k k", 1},
    {Op::kxorw, "k k k", 1},
    {Op::knotw, "k k", 1},
    {Op::kandnw, "k k k", 1},
    {Op::vcvtsi2ss, "x x r4|x x r8|x x m4|x x m8", 1},
    {Op::vcvtsi2sd, "x x r4|x x r8|x x m4|x x m8", 1},
    {Op::vcvttss2si, "r4 x|r8 x|r4 m4|r8 m4", 1},
    {Op::vcvttsd2si, "r4 x|r8 x|r4 m8|r8 m8", 1},
    {Op::fld, "m4|m8", 1},
    {Op::fild, "m4|m8", 1},
    {Op::fstp, "m4|m8|s", 1},
    {Op::fprem, "-", 1},
    {Op::fnstsw, "a", 1},
    {Op::faddp, "-", 1},
    {Op::fmul, "m4|m8", 1},
    {Op::fmulp, "-", 1},
    {Op::fldpi, "-", 1},
    {Op::fchs, "-", 1},
    {Op::mov, "r8 r8|r4 r4|r1 r1|r8 m8|r4 m4|r1 m1|m8 r8|m4 r4|m2 r2|m1 r1|r8 i|r4 i|m8 i|m4 i|m1 b", 1},
    {Op::movzx, "r4 m1|r8 m1|r4 r1|r8 r1|r4 m2|r8 m2", 1},
    {Op::movsxd, "r8 m4|r8 r4", 1},
    {Op::lea, "r8 m8", 1},
    {Op::add, general_pair, 1},
    {Op::adc, general_pair, 1},
    {Op::sub, general_pair, 1},
    {Op::mul, "r8|r4|m8|m4", 1},
    {Op::imul, "r8 r8|r4 r4|r8 m8|r4 m4|r8 r8 i|r4 r4 i|r8 m8 i|r4 m4 i", 1},
    {Op::and_, general_pair, 1},
    {Op::xor_, general_pair, 1},
    {Op::cmp, general_pair, 1},
    {Op::test, "r8 r8|r4 r4|r1 r1|r8 i|r4 i|m8 i|m4 i|m8 r8|m4 r4", 1},
    {Op::neg, "r8|r4|m8|m4", 1},
    {Op::inc, "r8|r4|m8|m4", 1},
    {Op::dec, "r8|r4|m8|m4", 1},
    {Op::shl, "r8 b|r4 b|m8 b|r8 c|r4 c|m8 c", 1},
    {Op::shr, "r8 b|r4 b|m8 b|r8 c|r4 c|m8 c", 1},
    {Op::sar, "r8 b|r4 b|m8 b|r8 c|r4 c|m8 c", 1},
    {Op::bzhi, "r8 r8 r8|r4 r4 r4|r8 m8 r8|r4 m4 r4", 1},
    {Op::cqo, "-", 1},
    {Op::idiv, "r8|r4|m8|m4", 1},
    {Op::cmovg, "r8 r8|r4 r4|r8 m8|r4 m4", 1},
    {Op::cmovl, "r8 r8|r4 r4|r8 m8|r4 m4", 1},
    {Op::push, "r8", 1},
    {Op::pop, "r8", 1},
    {Op::near_ret, "-", 1},
    {Op::sfence, "-", 1},
    {Op::vzeroupper, "-", 1},
};

const Op jumps[] = {Op::jmp, Op::je, Op::jne, Op::jl, Op::jle, Op::jg,
                    Op::jge, Op::jb, Op::jae, Op::jp, Op::jbe, Op::call};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Numbers in an order that is mixed, and the same in every run.
class Choice {
 public:
  template <class T, std::size_t N>
  T of(const T (&options)[N]) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return options[(state_ >> 33) % N];
  }

 private:
  std::uint64_t state_ = 1;
};

Mem some_address(Choice& choose) {
  constexpr int displacements[] = {0,    1,    4,    8,    12,   16, 32, 48,  64,   127,  128,  192,   508,
                                   1016, 2032, 4064, 8128, 8192, -4, -8, -64, -128, -129, -512, -8192, 0x12345678};
  constexpr int pool_places[] = {0, 4, 64, 640};
  constexpr unsigned shifts[] = {0, 1, 2, 3};
  constexpr int kinds[] = {0, 0, 0, 1, 1, 2};
  const int kind = choose.of(kinds);
  if (kind == 2) return {.pool = true, .disp = choose.of(pool_places)};
  constexpr unsigned registers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Mem m{.base = static_cast<Gpr>(choose.of(registers)), .disp = choose.of(displacements)};
  if (kind == 0) return m;
  const unsigned index = choose.of(registers);
  m.index = static_cast<Gpr>(index == 4 ? 12 : index);
  m.shift = static_cast<std::uint8_t>(choose.of(shifts));
  return m;
}

int part_of(char letter, int bytes) {
  const int part = letter == 'h' ? bytes / 2 : letter == 'q' ? bytes / 4 : letter == 'e' ? bytes / 8 : bytes;
  return part;
}

/// One operand of the form's letter; what else the instruction needs goes into it.
Operand operand(std::string_view form, int bytes, Instruction& i, Choice& choose, bool has_low_vectors) {
  constexpr std::uint16_t vectors[] = {0, 1, 7, 8, 13, 15, 16, 17, 24, 31}, low_vectors[] = {0, 3, 7, 8, 13, 15};
  constexpr std::uint16_t generals[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  constexpr std::uint16_t masks[] = {0, 1, 3, 7};
  constexpr std::int64_t immediates[] = {0,   1,    3,  31,   64,   127,        128,
                                         255, 1000, -1, -128, -129, 0x7FFFFFFF, -0x80000000ll};
  constexpr std::int64_t stack_places[] = {0, 1, 7};
  constexpr std::int64_t byte_immediates[] = {0, 1, 3, 17, 31};
  const auto vector_id = [&] { return has_low_vectors ? choose.of(low_vectors) : choose.of(vectors); };
  switch (form[0]) {
    case 'v': return vec(vector_id(), bytes);
    case 'h':
    case 'q':
    case 'e': return vec(vector_id(), std::max(16, part_of(form[0], bytes)));
    case 'x': return vec(vector_id(), 16);
    case 'y': return vec(vector_id(), 32);
    case 'k': return kreg(choose.of(masks));
    case 'c': return reg(Gpr::rcx, 1);
    case 'a': return reg(Gpr::rax, 2);
    case 'r': return reg(static_cast<Gpr>(choose.of(generals)), form[1] - '0');
    case 'm': {
      i.mem = some_address(choose);
      if (form.size() == 1) return mem(bytes);
      if (form[1] >= '0' && form[1] <= '9') return mem(std::stoi(std::string(form.substr(1))));
      return mem(part_of(form[1], bytes));
    }
    case 'b': i.imm = choose.of(byte_immediates); return immediate();
    case 's': i.imm = choose.of(stack_places); return immediate();
    default: i.imm = choose.of(immediates); return immediate();
  }
}

/// Instructions that only VEX has: registers 16 to 31 are out of their reach.
bool is_vex_only(Op op) {
  return op == Op::vmaskmovps || op == Op::vmaskmovpd || op == Op::vmovmskps || op == Op::vroundps ||
         op == Op::vroundpd || op == Op::vblendvps || op == Op::vblendvpd || op == Op::vblendps || op == Op::vblendpd ||
         op == Op::vextractf128;
}

/// A vector instruction's immediate is a byte.
bool is_vector_op(Op op) { return op < Op::fld; }

Instruction some_instruction(const Row& row, std::string_view form, int bytes, Choice& choose) {
  constexpr int chances[] = {0, 0, 1, 2};
  constexpr bool either[] = {false, true};
  constexpr VReg write_masks[] = {1, 2, 7};
  Instruction i{.op = row.op};
  const bool has_low_vectors = is_vex_only(row.op) || choose.of(either);
  if (form != "-")
    for (std::string_view part : split(form, ' '))
      i.operand[i.count++] = operand(part, bytes, i, choose, has_low_vectors);
  if (is_vector_op(row.op)) i.imm &= 0x1F;
  const int masking = row.is_masked ? choose.of(chances) : 0;
  if (masking != 0) {
    i.mask = choose.of(write_masks);
    i.zeroing = masking == 2 && i.operand[0].kind == Operand::Kind::vec;
  }
  return i;
}

TEST_CASE("the assembler's bytes are AsmJit's, every mnemonic in every form") {
  Choice choose;
  std::set<Op> seen(std::begin(jumps), std::end(jumps));
  seen.insert({Op::vgatherqps, Op::vgatherqpd});  // below
  for (const Row& row : rows) {
    seen.insert(row.op);
    for (std::string_view form : split(row.forms, '|'))
      for (int bytes : {16, 32, 64}) {
        if ((row.lengths & bytes / 16) == 0) continue;
        int accepted = 0;
        for (int k = 0; k < 40; ++k) {
          const Instruction i = some_instruction(row, form, bytes, choose);
          const Bytes expected = by_asmjit(i), made = by_us(i);
          accepted += made.has_value();
          if (made == expected) continue;
          INFO("op " << static_cast<int>(row.op) << ", form " << form << ", " << bytes << " bytes, mask " << i.mask
                     << ", displacement " << i.mem.disp << ", immediate " << i.imm << "\n  AsmJit " << text(expected)
                     << "\n  ours   " << text(made));
          CHECK(made == expected);
        }
        INFO("op " << static_cast<int>(row.op) << ", form " << form << ", " << bytes << " bytes");
        CHECK(accepted > 0);
      }
  }
  CHECK(seen.size() == mnemonics);
}

TEST_CASE("gathers are encoded as AsmJit does") {
  constexpr std::uint16_t vectors[] = {0, 3, 4, 7, 8, 12, 13, 15, 16, 20, 24, 31};
  constexpr VReg write_masks[] = {1, 2, 7};
  Choice choose;
  for (const Op op : {Op::vgatherqps, Op::vgatherqpd})
    for (int k = 0; k < 400; ++k) {
      Instruction i{.op = op, .count = 3, .reads_first = true, .mask = choose.of(write_masks)};
      const std::uint16_t to = choose.of(vectors);
      std::uint16_t index = choose.of(vectors);
      while (index == to) index = choose.of(vectors);  // the machine has no such instruction
      const bool is_single = op == Op::vgatherqps;
      i.operand = {vec(to, is_single ? 32 : 64), mem(is_single ? 4 : 8), vec(index, 64)};
      do i.mem = some_address(choose);
      while (i.mem.pool);
      i.mem.index = Gpr::none;
      const Bytes expected = by_asmjit(i), made = by_us(i);
      INFO("to " << to << ", index " << index << ", base " << static_cast<int>(i.mem.base) << ", displacement "
                 << i.mem.disp << "\n  AsmJit " << text(expected) << "\n  ours   " << text(made));
      REQUIRE(made.has_value());
      CHECK(made == expected);
    }
}

TEST_CASE("gathers keep their vectors and masks where there are more than registers") {
  if (!host_has(Isa::avx512)) return;
  CodeStream stream(Isa::avx512);
  const auto from = Gpr::rdi, to = Gpr::rsi;
  const auto place = [](Gpr base, int row) { return CodeStream::at(base, row * 64); };
  std::vector<VReg> vectors, masks;
  for (int k = 0; k < 34; ++k) {
    vectors.push_back(stream.new_vec(64));
    stream.emit(Op::vmovups, {vec(vectors.back(), 64), mem(64)}, place(from, k));
  }
  for (int k = 0; k < 9; ++k) {
    masks.push_back(stream.new_mask());
    stream.mov_imm(Gpr::rax, 0x11 * (k + 1) & 0xFF);
    stream.emit(Op::kmovw, {kreg(masks.back()), reg(Gpr::rax, 4)});
  }
  // Row 0 has the positions; the table is rows 34 and 35.
  const VReg gathered = stream.new_vec(32), all = stream.new_mask();
  stream.emit(Op::vmovups, {vec(gathered, 32), mem(32)}, place(from, 1));
  stream.mov_imm(Gpr::rax, 0xB7);
  stream.emit(Op::kmovw, {kreg(all), reg(Gpr::rax, 4)});
  Instruction& gather = stream.emit(Op::vgatherqps, {vec(gathered, 32), mem(4), vec(vectors[0], 64)}, place(from, 34));
  gather.mask = all;
  gather.reads_first = true;
  for (int k = 0; k < 34; ++k)
    stream.emit(Op::vmovups, {mem(64), vec(vectors[as_index(k)], 64)}, place(to, k)).only_reads = true;
  stream.emit(Op::vmovups, {mem(32), vec(gathered, 32)}, place(to, 34)).only_reads = true;
  for (int k = 0; k < 9; ++k) {
    stream.emit(Op::kmovw, {reg(Gpr::rax, 4), kreg(masks[as_index(k)])});
    stream.mov(CodeStream::at(Gpr::rsi, 35 * 64 + 8 * k), Gpr::rax);
  }
  stream.push({.op = Op::ret});
  std::vector<std::byte> bytes;
  const Allocation allocation = allocate_registers(stream);
  const std::size_t start = encode(stream, allocation, bytes);
  CHECK(allocation.spills >= 4);
  const auto code = publish_code(bytes, "gather");

  std::vector<std::int64_t> in(36 * 8), out(37 * 8 + 16);
  for (std::size_t k = 0; k < in.size(); ++k) in[k] = static_cast<std::int64_t>(k * 0x9E3779B97F4A7C15u);
  for (std::size_t k = 0; k < 8; ++k) in[k] = static_cast<std::int64_t>((k * 5 + 3) % 16 * 4);
  code->entry<void (*)(const std::int64_t*, std::int64_t*)>(start)(in.data(), out.data());
  CHECK(std::memcmp(in.data(), out.data(), 34 * 64) == 0);
  const auto word = [](const std::vector<std::int64_t>& of, std::size_t k) {
    return static_cast<std::int32_t>(of[k / 2] >> (k % 2 * 32));
  };
  for (std::size_t k = 0; k < 8; ++k)
    CHECK(word(out, 34 * 16 + k) == word(in, (0xB7 >> k & 1) != 0 ? 34 * 16 + (k * 5 + 3) % 16 : 16 + k));
  for (int k = 0; k < 9; ++k) CHECK(out[as_index(35 * 8 + k)] == (0x11 * (k + 1) & 0xFF));
}

TEST_CASE("the assembler refuses what the machine does not have") {
  auto refuses = [](Op op, std::initializer_list<Operand> operands) {
    Instruction i{.op = op};
    for (const Operand& o : operands) i.operand[i.count++] = o;
    return !by_us(i).has_value();
  };
  CHECK(refuses(Op::vroundps, {vec(16, 32), vec(0, 32), immediate()}));
  CHECK_FALSE(refuses(Op::vroundps, {vec(15, 32), vec(0, 32), immediate()}));
  CHECK(refuses(Op::vblendvps, {vec(0, 64), vec(0, 64), vec(0, 64), vec(0, 64)}));
  const auto refuses_gather = [](std::uint16_t index, VReg mask) {
    Instruction i{.op = Op::vgatherqpd, .count = 3, .reads_first = true, .mask = mask, .mem = CodeStream::at(Gpr::rax)};
    i.operand = {vec(2, 64), mem(8), vec(index, 64)};
    return !by_us(i).has_value();
  };
  CHECK(refuses_gather(2, 1));
  CHECK(refuses_gather(3, no_vreg));
  CHECK_FALSE(refuses_gather(3, 1));
  CHECK(refuses(Op::vmovss, {vec(0, 16), vec(1, 16)}));
  CHECK(refuses(Op::vmovd, {vec(0, 16), vec(1, 16)}));
  CHECK(refuses(Op::vmovd, {reg(Gpr::rax, 4), reg(Gpr::rcx, 4)}));
  CHECK(refuses(Op::mov, {reg(Gpr::rax, 2), immediate()}));
}

/// Both ways, of a stream whose registers are allocated.
void check_stream(const CodeStream& stream) {
  const Allocation allocation = allocate_registers(stream);
  std::vector<std::byte> ours(3), theirs(3);  // the next multiple of 64 is where a function begins
  std::string listing;
  const auto start = x86_detail::assemble(stream, allocation, ours);
  REQUIRE(start.has_value());
  CHECK(*start == 64);
  CHECK(encode(stream, allocation, theirs, &listing) == 64);
  CHECK(ours == theirs);
  CHECK(listing.size() > 100);
}

TEST_CASE("jumps are as short as AsmJit's") {
  for (int distance : {0, 30, 31, 32, 33, 34, 35, 36, 40, 41, 42, 43, 400}) {
    CodeStream s(Isa::avx2);
    const int again = s.new_label(), behind = s.new_label(), routine = s.new_label();
    s.bind(again);
    for (int k = 0; k < distance; ++k) s.binary(Op::add, Gpr::rax, Gpr::rbx);
    for (Op op : jumps)
      if (op != Op::call) s.jump(op, again);
    for (Op op : jumps)
      if (op != Op::call) s.jump(op, behind);
    s.jump(Op::call, routine);
    for (int k = 0; k < distance; ++k) s.binary(Op::add, Gpr::rax, Gpr::r12);
    s.bind(behind);
    s.jump(Op::jmp, behind);
    s.push({.op = Op::ret});
    s.bind(routine);
    s.push({.op = Op::near_ret});
    check_stream(s);
  }
}

TEST_CASE("constants of several sizes share the pool and do not overlap") {
  CodeStream s(Isa::avx512);
  s.open_region();
  const VReg one = s.constant(0x3F800000, 4, 64), two = s.constant(0x4000000000000000, 8, 64);
  const std::int64_t numbers[4] = {1, 2, 3, 4};
  const std::int32_t data = s.pool_data(numbers, sizeof numbers);
  const VReg three = s.constant(0x40400000, 4, 64);
  CHECK(s.constant_bits(one) == 0x3F800000);
  CHECK(s.constant_bits(two) == 0x4000000000000000);
  CHECK(s.constant_bits(three) == 0x40400000);
  CHECK(data == 32);
  CHECK(s.pool_data(numbers, sizeof numbers) == data);
  CHECK(std::memcmp(s.pool().data() + data, numbers, sizeof numbers) == 0);
  CHECK(s.constant(0x3F800000, 4, 64) == one);
  CHECK(s.constant(0x3F800000, 4, 32) != one);  // of another width, and at the same place
  s.open_region();
  const VReg again = s.constant(0x3F800000, 4, 64);
  CHECK(again != one);
  CHECK(s.vregs()[again].pool_offset == s.vregs()[one].pool_offset);
}

TEST_CASE("values in memory, constants and masks are encoded as AsmJit does") {
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    CodeStream s(isa);
    const int bytes = vector_bytes(isa);
    s.open_region();
    std::vector<VReg> values;
    for (int k = 0; k < 40; ++k) {
      values.push_back(s.new_vec(bytes));
      s.emit(Op::vmovups, {vec(values.back(), bytes), mem(bytes)}, CodeStream::at(Gpr::rdi, bytes * k));
    }
    for (int k = 0; k < 40; ++k)
      for (Op op : {Op::vaddps, Op::vsubpd, Op::vpaddd}) {
        const VReg constant = s.constant(as_index(k), op == Op::vsubpd ? 8 : 4, bytes), to = values[as_index(k)];
        s.emit(op, {vec(to, bytes), vec(to, bytes), vec(constant, bytes)});
        s.emit(op, {vec(to, bytes), vec(values[as_index(39 - k)], bytes), vec(to, bytes)});
        s.emit(Op::fma_ps,
               {vec(to, bytes), vec(constant, bytes), vec(to, bytes), vec(values[as_index(39 - k)], bytes)});
      }
    for (int k = 0; k < 40; ++k)
      s.emit(Op::vmovups, {mem(bytes), vec(values[as_index(k)], bytes)}, CodeStream::at(Gpr::rdi, bytes * k))
          .only_reads = true;
    s.push({.op = Op::ret});
    CHECK(allocate_registers(s).spills > 0);
    check_stream(s);
  }
}

}  // namespace

#endif
