// What the machine calls each mnemonic: opcode, prefixes and the roles of its operands, one row per Op. Source: Intel
// 64 and IA-32 Architectures Software Developer's Manual, volume 2 (the instruction pages; sections 2.3 for VEX, 2.7
// for EVEX, where tables 2-34 and 2-35 give the scale of short displacements). Knows nothing of how bytes are put
// together.
#pragma once

#include <sinter/backend/x86/machine/vector_ir.hpp>

#include <cstdint>
#include <iterator>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

struct Encoding {
  /// Where the operands go. "reg", "vvvv" and "rm" are the manual's names of the fields; rm may be memory.
  enum class Form : std::uint8_t {
    rm,            // reg, rm; where the first operand is memory: rm, reg with the alternate opcode
    scalar,        // the same, one of both in memory
    rvm,           // reg, vvvv, rm
    mr,            // rm, reg
    shift,         // vvvv, rm; reg is the alternate opcode's place
    masked,        // reg, vvvv, rm; into memory: rm, vvvv, reg with the alternate opcode
    broadcast,     // reg, rm; from a general register with the alternate opcode
    vmovd,         // reg, rm; out of a vector: rm, reg with the alternate opcode
    vmovq,         // the same; between vectors and memory it is another instruction
    to_general,    // reg (general), rm; W says how wide reg is
    from_general,  // reg, vvvv, rm (general); W says how wide rm is
    mask_move,     // reg, rm; mask registers, memory, general registers
    mask_op,       // reg, vvvv, rm or reg, rm; mask registers
    gather,        // reg, an element in memory, the vector of indices in the place of the address's index
    mov,
    movzx,
    load,         // reg, rm
    arithmetic,   // the group of eight: the alternate opcode is its number
    one_operand,  // rm; the alternate opcode is in reg's place
    imul,
    test,
    general_shift,  // rm by an immediate or cl; the alternate opcode is in reg's place
    bzhi,
    cmov,
    push,  // the register is in the opcode
    jump,  // opcode: short, alternate: near
    jump_if,
    call,
    x87,    // memory, a register of the stack in an immediate
    fixed,  // no operand that shows
  };
  enum class Prefix : std::uint8_t { none, p66, pF3, pF2 };
  enum class Map : std::uint8_t { none, x0F, x0F38, x0F3A };
  /// Whether the instruction has this kind of prefix, and its bit W there.
  enum class W : std::uint8_t { no, w0, w1 };
  /// What a short displacement of EVEX counts: bytes, or a part of the vector.
  enum class Unit : std::uint8_t { full, half, quarter, eighth, bytes4, bytes8, bytes16, bytes32 };

  Form form;
  std::uint8_t opcode = 0, alternate = 0;
  Prefix prefix = Prefix::none;
  Map map = Map::none;
  W vex = W::no, evex = W::no;
  Unit unit = Unit::full;
  /// How the operand that may be memory reads it: the element size where it can be broadcast, 16 for "whole register
  /// only", 0 for "never" (a value that lives in memory is loaded first).
  std::uint8_t fold = 0;
  bool commutes = false;
};

inline const Encoding& encoding_of(Op op) {
  using F = Encoding::Form;
  using P = Encoding::Prefix;
  using M = Encoding::Map;
  using W = Encoding::W;
  using U = Encoding::Unit;
  static constexpr Encoding rows[] = {
      {F::rm, 0x10, 0x11, P::none, M::x0F, W::w0, W::w0},                      // vmovups
      {F::rm, 0x10, 0x11, P::p66, M::x0F, W::w0, W::w1},                       // vmovupd
      {F::rm, 0x28, 0x29, P::none, M::x0F, W::w0, W::w0},                      // vmovaps
      {F::rm, 0x6F, 0x7F, P::pF2, M::x0F, W::no, W::w0},                       // vmovdqu8
      {F::scalar, 0x10, 0x11, P::pF3, M::x0F, W::w0, W::w0, U::bytes4},        // vmovss
      {F::scalar, 0x10, 0x11, P::pF2, M::x0F, W::w0, W::w1, U::bytes8},        // vmovsd
      {F::vmovd, 0x6E, 0x7E, P::p66, M::x0F, W::w0, W::w0, U::bytes4},         // vmovd
      {F::vmovq, 0x6E, 0x7E, P::p66, M::x0F, W::w1, W::w1, U::bytes8},         // vmovq
      {F::broadcast, 0x18, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::bytes4},   // vbroadcastss
      {F::broadcast, 0x19, 0x00, P::p66, M::x0F38, W::w0, W::w1, U::bytes8},   // vbroadcastsd
      {F::broadcast, 0x58, 0x7C, P::p66, M::x0F38, W::w0, W::w0, U::bytes4},   // vpbroadcastd
      {F::broadcast, 0x59, 0x7C, P::p66, M::x0F38, W::w0, W::w1, U::bytes8},   // vpbroadcastq
      {F::masked, 0x2C, 0x2E, P::p66, M::x0F38, W::w0, W::no},                 // vmaskmovps
      {F::masked, 0x2D, 0x2F, P::p66, M::x0F38, W::w0, W::no},                 // vmaskmovpd
      {F::mr, 0x2B, 0x00, P::none, M::x0F, W::w0, W::w0},                      // vmovntps
      {F::to_general, 0x50, 0x00, P::none, M::x0F, W::w0, W::no},              // vmovmskps
      {F::gather, 0x93, 0x00, P::p66, M::x0F38, W::no, W::w0, U::bytes4},      // vgatherqps
      {F::gather, 0x93, 0x00, P::p66, M::x0F38, W::no, W::w1, U::bytes8},      // vgatherqpd
      {F::rvm, 0x58, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4, true},   // vaddps
      {F::rvm, 0x58, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8, true},    // vaddpd
      {F::rvm, 0x5C, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4},         // vsubps
      {F::rvm, 0x5C, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8},          // vsubpd
      {F::rvm, 0x59, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4, true},   // vmulps
      {F::rvm, 0x59, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8, true},    // vmulpd
      {F::rvm, 0x5E, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4},         // vdivps
      {F::rvm, 0x5E, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8},          // vdivpd
      {F::rvm, 0x5D, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4},         // vminps
      {F::rvm, 0x5D, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8},          // vminpd
      {F::rvm, 0x5F, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4},         // vmaxps
      {F::rvm, 0x5F, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8},          // vmaxpd
      {F::rm, 0x51, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4},          // vsqrtps
      {F::rm, 0x51, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8},           // vsqrtpd
      {F::rvm, 0x54, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4, true},   // vandps
      {F::rvm, 0x54, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8, true},    // vandpd
      {F::rvm, 0x56, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4, true},   // vorps
      {F::rvm, 0x56, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8, true},    // vorpd
      {F::rvm, 0x57, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4, true},   // vxorps
      {F::rvm, 0x57, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8, true},    // vxorpd
      {F::rvm, 0x55, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4},         // vandnps
      {F::rvm, 0x55, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8},          // vandnpd
      {F::rvm, 0x98, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vfmadd132ps
      {F::rvm, 0xA8, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vfmadd213ps
      {F::rvm, 0xB8, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vfmadd231ps
      {F::rvm, 0x98, 0x00, P::p66, M::x0F38, W::w1, W::w1, U::full, 8},        // vfmadd132pd
      {F::rvm, 0xA8, 0x00, P::p66, M::x0F38, W::w1, W::w1, U::full, 8},        // vfmadd213pd
      {F::rvm, 0xB8, 0x00, P::p66, M::x0F38, W::w1, W::w1, U::full, 8},        // vfmadd231pd
      {F::rvm, 0x9C, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vfnmadd132ps
      {F::rvm, 0xAC, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vfnmadd213ps
      {F::rvm, 0xBC, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vfnmadd231ps
      {F::rvm, 0x9C, 0x00, P::p66, M::x0F38, W::w1, W::w1, U::full, 8},        // vfnmadd132pd
      {F::rvm, 0xAC, 0x00, P::p66, M::x0F38, W::w1, W::w1, U::full, 8},        // vfnmadd213pd
      {F::rvm, 0xBC, 0x00, P::p66, M::x0F38, W::w1, W::w1, U::full, 8},        // vfnmadd231pd
      {F::rm, 0x08, 0x00, P::p66, M::x0F3A, W::w0, W::no, U::full, 16},        // vroundps
      {F::rm, 0x09, 0x00, P::p66, M::x0F3A, W::w0, W::no, U::full, 16},        // vroundpd
      {F::rm, 0x08, 0x00, P::p66, M::x0F3A, W::no, W::w0, U::full, 4},         // vrndscaleps
      {F::rm, 0x09, 0x00, P::p66, M::x0F3A, W::no, W::w1, U::full, 8},         // vrndscalepd
      {F::rvm, 0x2C, 0x00, P::p66, M::x0F38, W::no, W::w0, U::full, 4},        // vscalefps
      {F::rvm, 0x2C, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8},        // vscalefpd
      {F::rvm, 0x50, 0x00, P::p66, M::x0F3A, W::no, W::w0, U::full, 4},        // vrangeps
      {F::rvm, 0x50, 0x00, P::p66, M::x0F3A, W::no, W::w1, U::full, 8},        // vrangepd
      {F::rvm, 0x25, 0x00, P::p66, M::x0F3A, W::no, W::w0, U::full, 4},        // vpternlogd
      {F::rvm, 0x25, 0x00, P::p66, M::x0F3A, W::no, W::w1, U::full, 8},        // vpternlogq
      {F::rvm, 0xC2, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4},         // vcmpps
      {F::rvm, 0xC2, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8},          // vcmppd
      {F::rvm, 0x4A, 0x00, P::p66, M::x0F3A, W::w0, W::no, U::full, 16},       // vblendvps
      {F::rvm, 0x4B, 0x00, P::p66, M::x0F3A, W::w0, W::no, U::full, 16},       // vblendvpd
      {F::rvm, 0x65, 0x00, P::p66, M::x0F38, W::no, W::w0, U::full, 4},        // vblendmps
      {F::rvm, 0x65, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8},        // vblendmpd
      {F::rvm, 0xFE, 0x00, P::p66, M::x0F, W::w0, W::w0, U::full, 4, true},    // vpaddd
      {F::rvm, 0xD4, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8, true},    // vpaddq
      {F::rvm, 0xFA, 0x00, P::p66, M::x0F, W::w0, W::w0, U::full, 4},          // vpsubd
      {F::rvm, 0xFB, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8},          // vpsubq
      {F::rvm, 0x40, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4, true},  // vpmulld
      {F::rvm, 0x40, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8, true},  // vpmullq
      {F::rvm, 0xF4, 0x00, P::p66, M::x0F, W::w0, W::w1, U::full, 8, true},    // vpmuludq
      {F::rvm, 0x39, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4, true},  // vpminsd
      {F::rvm, 0x39, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8, true},  // vpminsq
      {F::rvm, 0x3D, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4, true},  // vpmaxsd
      {F::rvm, 0x3D, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8, true},  // vpmaxsq
      {F::rm, 0x1C, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 16},        // vpabsb
      {F::rm, 0x1E, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},         // vpabsd
      {F::rm, 0x1F, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8},         // vpabsq
      {F::shift, 0x72, 0x06, P::p66, M::x0F, W::w0, W::w0},                    // vpslld
      {F::shift, 0x73, 0x06, P::p66, M::x0F, W::w0, W::w1},                    // vpsllq
      {F::shift, 0x72, 0x02, P::p66, M::x0F, W::w0, W::w0},                    // vpsrld
      {F::shift, 0x73, 0x02, P::p66, M::x0F, W::w0, W::w1},                    // vpsrlq
      {F::rvm, 0x47, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vpsllvd
      {F::rvm, 0x47, 0x00, P::p66, M::x0F38, W::w1, W::w1, U::full, 8},        // vpsllvq
      {F::rvm, 0x45, 0x00, P::p66, M::x0F38, W::w1, W::w1, U::full, 8},        // vpsrlvq
      {F::rvm, 0x46, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vpsravd
      {F::rvm, 0x46, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8},        // vpsravq
      {F::rvm, 0x76, 0x00, P::p66, M::x0F, W::w0, W::w0, U::full, 4, true},    // vpcmpeqd
      {F::rvm, 0x29, 0x00, P::p66, M::x0F38, W::w0, W::w1, U::full, 8, true},  // vpcmpeqq
      {F::rvm, 0x66, 0x00, P::p66, M::x0F, W::w0, W::w0, U::full, 4},          // vpcmpgtd
      {F::rvm, 0x37, 0x00, P::p66, M::x0F38, W::w0, W::w1, U::full, 8},        // vpcmpgtq
      {F::rvm, 0x1F, 0x00, P::p66, M::x0F3A, W::no, W::w0, U::full, 4},        // vpcmpd
      {F::rvm, 0x1F, 0x00, P::p66, M::x0F3A, W::no, W::w1, U::full, 8},        // vpcmpq
      {F::rvm, 0x26, 0x00, P::p66, M::x0F38, W::no, W::w0, U::full, 16},       // vptestmb
      {F::rm, 0x5B, 0x00, P::none, M::x0F, W::w0, W::w0, U::full, 4},          // vcvtdq2ps
      {F::rm, 0x5B, 0x00, P::pF3, M::x0F, W::w0, W::w0, U::full, 4},           // vcvttps2dq
      {F::rm, 0x5B, 0x00, P::p66, M::x0F, W::w0, W::w0, U::full, 4},           // vcvtps2dq
      {F::rm, 0x5A, 0x00, P::none, M::x0F, W::w0, W::w0, U::half},             // vcvtps2pd
      {F::rm, 0x5A, 0x00, P::p66, M::x0F, W::w0, W::w1},                       // vcvtpd2ps
      {F::rm, 0xE6, 0x00, P::pF3, M::x0F, W::w0, W::w0, U::half},              // vcvtdq2pd
      {F::rm, 0xE6, 0x00, P::p66, M::x0F, W::w0, W::w1},                       // vcvttpd2dq
      {F::rm, 0x7A, 0x00, P::p66, M::x0F, W::no, W::w0, U::half},              // vcvttps2qq
      {F::rm, 0x5B, 0x00, P::none, M::x0F, W::no, W::w1},                      // vcvtqq2ps
      {F::rm, 0x7A, 0x00, P::p66, M::x0F, W::no, W::w1, U::full, 8},           // vcvttpd2qq
      {F::rm, 0xE6, 0x00, P::pF3, M::x0F, W::no, W::w1, U::full, 8},           // vcvtqq2pd
      {F::rm, 0x7B, 0x00, P::p66, M::x0F, W::no, W::w1, U::full, 8},           // vcvtpd2qq
      {F::rm, 0x25, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::half},            // vpmovsxdq
      {F::mr, 0x35, 0x00, P::pF3, M::x0F38, W::no, W::w0, U::half},            // vpmovqd
      {F::rm, 0x31, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::quarter},         // vpmovzxbd
      {F::rm, 0x32, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::eighth},          // vpmovzxbq
      {F::rm, 0x21, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::quarter},         // vpmovsxbd
      {F::rm, 0x33, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::half},            // vpmovzxwd
      {F::rm, 0x23, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::half},            // vpmovsxwd
      {F::rm, 0x35, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::half},            // vpmovzxdq
      {F::mr, 0x31, 0x00, P::pF3, M::x0F38, W::no, W::w0, U::quarter},         // vpmovdb
      {F::mr, 0x33, 0x00, P::pF3, M::x0F38, W::no, W::w0, U::half},            // vpmovdw
      {F::rm, 0x13, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::half},            // vcvtph2ps
      {F::mr, 0x1D, 0x00, P::p66, M::x0F3A, W::w0, W::w0, U::half},            // vcvtps2ph
      {F::rm, 0x28, 0x00, P::pF3, M::x0F38, W::no, W::w0},                     // vpmovm2b
      {F::rvm, 0x6B, 0x00, P::p66, M::x0F, W::w0, W::w0},                      // vpackssdw
      {F::rvm, 0x63, 0x00, P::p66, M::x0F, W::w0, W::w0},                      // vpacksswb
      {F::rvm, 0x2B, 0x00, P::p66, M::x0F38, W::w0, W::w0},                    // vpackusdw
      {F::rvm, 0x67, 0x00, P::p66, M::x0F, W::w0, W::w0},                      // vpackuswb
      {F::mr, 0x19, 0x00, P::p66, M::x0F3A, W::w0, W::no, U::bytes16},         // vextractf128
      {F::mr, 0x19, 0x00, P::p66, M::x0F3A, W::no, W::w0, U::bytes16},         // vextractf32x4
      {F::mr, 0x1B, 0x00, P::p66, M::x0F3A, W::no, W::w1, U::bytes32},         // vextractf64x4
      {F::rvm, 0xC6, 0x00, P::none, M::x0F, W::w0, W::w0},                     // vshufps
      {F::rm, 0x04, 0x00, P::p66, M::x0F3A, W::w0, W::w0},                     // vpermilps
      {F::rm, 0x05, 0x00, P::p66, M::x0F3A, W::w0, W::w1},                     // vpermilpd
      {F::rvm, 0x16, 0x00, P::p66, M::x0F38, W::w0, W::w0, U::full, 4},        // vpermps
      {F::rvm, 0x16, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8},        // vpermpd
      {F::rvm, 0x7F, 0x00, P::p66, M::x0F38, W::no, W::w0, U::full, 4},        // vpermt2ps
      {F::rvm, 0x7F, 0x00, P::p66, M::x0F38, W::no, W::w1, U::full, 8},        // vpermt2pd
      {F::rm, 0x00, 0x00, P::p66, M::x0F3A, W::w1, W::w1},                     // vpermq
      {F::rvm, 0x0C, 0x00, P::p66, M::x0F3A, W::w0, W::no, U::full, 16},       // vblendps
      {F::rvm, 0x0D, 0x00, P::p66, M::x0F3A, W::w0, W::no, U::full, 16},       // vblendpd
      {F::mask_move, 0x90, 0x00, P::none, M::x0F, W::w0, W::no},               // kmovw
      {F::mask_move, 0x90, 0x00, P::pF2, M::x0F, W::w1, W::no},                // kmovq
      {F::mask_op, 0x41, 0x00, P::none, M::x0F, W::w0, W::no},                 // kandw
      {F::mask_op, 0x45, 0x00, P::none, M::x0F, W::w0, W::no},                 // korw
      {F::mask_op, 0x47, 0x00, P::none, M::x0F, W::w0, W::no},                 // kxorw
      {F::mask_op, 0x44, 0x00, P::none, M::x0F, W::w0, W::no},                 // knotw
      {F::mask_op, 0x42, 0x00, P::none, M::x0F, W::w0, W::no},                 // kandnw
      {F::from_general, 0x2A, 0x00, P::pF3, M::x0F, W::w0, W::w0, U::bytes4},  // vcvtsi2ss
      {F::from_general, 0x2A, 0x00, P::pF2, M::x0F, W::w0, W::w0, U::bytes4},  // vcvtsi2sd
      {F::to_general, 0x2C, 0x00, P::pF3, M::x0F, W::w0, W::w0, U::bytes4},    // vcvttss2si
      {F::to_general, 0x2C, 0x00, P::pF2, M::x0F, W::w0, W::w0, U::bytes8},    // vcvttsd2si
      {F::x87, 0xD9, 0},                                                       // fld
      {F::x87, 0xDB, 0},                                                       // fild
      {F::x87, 0xD9, 3},                                                       // fstp
      {F::fixed, 0xD9, 0xF8},                                                  // fprem
      {F::fixed, 0xDF, 0xE0},                                                  // fnstsw
      {F::fixed, 0xDE, 0xC1},                                                  // faddp
      {F::x87, 0xD8, 1},                                                       // fmul
      {F::fixed, 0xDE, 0xC9},                                                  // fmulp
      {F::fixed, 0xD9, 0xEB},                                                  // fldpi
      {F::fixed, 0xD9, 0xE0},                                                  // fchs
      {F::mov},                                                                // mov
      {F::movzx, 0xB6},                                                        // movzx
      {F::load, 0x63},                                                         // movsxd
      {F::load, 0x8D},                                                         // lea
      {F::arithmetic, 0x00},                                                   // add
      {F::arithmetic, 0x10},                                                   // adc
      {F::arithmetic, 0x28},                                                   // sub
      {F::one_operand, 0xF7, 4},                                               // mul
      {F::imul, 0xAF},                                                         // imul
      {F::arithmetic, 0x20},                                                   // and_
      {F::arithmetic, 0x30},                                                   // xor_
      {F::arithmetic, 0x38},                                                   // cmp
      {F::test, 0x85},                                                         // test
      {F::one_operand, 0xF7, 3},                                               // neg
      {F::one_operand, 0xFF, 0},                                               // inc
      {F::one_operand, 0xFF, 1},                                               // dec
      {F::general_shift, 0xC1, 4},                                             // shl
      {F::general_shift, 0xC1, 5},                                             // shr
      {F::general_shift, 0xC1, 7},                                             // sar
      {F::bzhi, 0xF5},                                                         // bzhi
      {F::fixed, 0x48, 0x99},                                                  // cqo
      {F::one_operand, 0xF7, 7},                                               // idiv
      {F::cmov, 0x4F},                                                         // cmovg
      {F::cmov, 0x4C},                                                         // cmovl
      {F::push, 0x50},                                                         // push
      {F::push, 0x58},                                                         // pop
      {F::jump, 0xEB, 0xE9},                                                   // jmp
      {F::jump_if, 0x74, 0x84},                                                // je
      {F::jump_if, 0x75, 0x85},                                                // jne
      {F::jump_if, 0x7C, 0x8C},                                                // jl
      {F::jump_if, 0x7E, 0x8E},                                                // jle
      {F::jump_if, 0x7F, 0x8F},                                                // jg
      {F::jump_if, 0x7D, 0x8D},                                                // jge
      {F::jump_if, 0x72, 0x82},                                                // jb
      {F::jump_if, 0x73, 0x83},                                                // jae
      {F::jump_if, 0x7A, 0x8A},                                                // jp
      {F::jump_if, 0x76, 0x86},                                                // jbe
      {F::call, 0xE8},                                                         // call
      {F::fixed, 0xC3},                                                        // near_ret
      {F::fixed, 0x0F, 0xAE},                                                  // sfence
      {F::fixed, 0xC5, 0xF8},                                                  // vzeroupper
  };
  static_assert(std::size(rows) == mnemonics, "one row per mnemonic, in the enum's order");
  return rows[as_index(op)];
}

}  // namespace x86_detail
}  // namespace x86
SINTER_NAMESPACE_END
