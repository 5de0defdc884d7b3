// Range reduction of large arguments of sine and cosine, lane by lane in general registers and x87: rare, so short
// rather than fast. x / pi mod 2 needs only those 192 bits of 1 / pi whose product with the 53 bits of x is neither a
// multiple of 2 nor below the result's precision (Payne and Hanek, "Radian reduction for trigonometric functions",
// 1983).
#pragma once

#include <sinter/backend/x86/math/coefficients.hpp>
#include <sinter/backend/x86/nest/vector_builder.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

/// Offsets in the routine's frame.
struct RemainderFrame {
  static constexpr int x = 0, remainder = 64, number = 128, low = 136, high = 144, saved = 152, bytes = 192;
};

/// 1 / pi, then what the sum of high and low is multiplied by.
inline std::int32_t remainder_constants(CodeStream& s) {
  std::array<std::uint64_t, 24> data{};
  std::memcpy(data.data(), inverse_pi_bits, sizeof inverse_pi_bits);
  data[19] = std::bit_cast<std::uint64_t>(0x1p63);
  data[20] = std::bit_cast<std::uint64_t>(0x1p-127);
  return s.pool_data(data.data(), static_cast<int>(sizeof data));
}

/// Emits the routine. Clobbers rax, rdx, r9.
class RemainderRoutine {
 public:
  RemainderRoutine(CodeStream& stream, int frame, int size)
      : s_(stream), frame_(frame), size_(size), pool_(remainder_constants(stream)) {}

  void emit(int lanes, double limit, bool is_cosine) {
    constexpr Gpr saved[] = {Gpr::rcx, Gpr::r8, Gpr::r10, Gpr::r11};
    for (int i = 0; i < 4; ++i) s_.mov(at(RemainderFrame::saved + 8 * i), saved[i]);
    const int again = s_.new_label(), next = s_.new_label();
    s_.mov_imm(Gpr::r9, lanes - 1);
    s_.bind(again);
    take_apart(limit, next);
    multiply();
    round_to_sign(is_cosine);
    to_float();
    s_.bind(next);
    s_.binary_imm(Op::sub, Gpr::r9, 1);
    s_.jump(Op::jge, again);
    for (int i = 0; i < 4; ++i) s_.mov(saved[i], at(RemainderFrame::saved + 8 * i));
    s_.push({.op = Op::near_ret});
  }

 private:
  Mem at(int offset) const { return CodeStream::slot(frame_ + 8 + offset); }
  Mem lane_at(int offset) const { return CodeStream::at(Gpr::rsp, Gpr::r9, size_ == 8 ? 3 : 2, frame_ + 8 + offset); }
  void x87(Op op, int bytes, Mem m) { s_.emit(op, {mem(bytes)}, m).only_reads = true; }
  void shift(Op op, Gpr r, int count) { s_.binary_imm(op, r, count); }

  /// The lane as f64 in `number`; r8: its 53 bits, shifted left by less than 8; r11: where the bits of 1 / pi begin
  /// that they are multiplied with. Jumps where the lane is not beyond the limit, or not finite. Clobbers rcx, r10.
  void take_apart(double limit, int otherwise) {
    x87(Op::fld, size_, lane_at(RemainderFrame::x));
    x87(Op::fstp, 8, at(RemainderFrame::number));
    s_.mov(Gpr::rcx, at(RemainderFrame::number));
    s_.binary(Op::add, Gpr::rcx, Gpr::rcx);  // without the sign
    s_.mov_imm(Gpr::r10, static_cast<std::int64_t>(2 * std::bit_cast<std::uint64_t>(limit)));
    s_.binary(Op::cmp, Gpr::rcx, Gpr::r10);
    s_.jump(Op::jbe, otherwise);
    s_.mov(Gpr::r8, Gpr::rcx);
    shift(Op::shl, Gpr::r8, 11);
    shift(Op::shr, Gpr::r8, 1);
    s_.mov_imm(Gpr::r10, std::numeric_limits<std::int64_t>::min());
    s_.binary(Op::add, Gpr::r8, Gpr::r10);  // the leading one
    shift(Op::shr, Gpr::r8, 11);
    shift(Op::shr, Gpr::rcx, 53);  // the exponent
    s_.binary_imm(Op::cmp, Gpr::rcx, 2047);
    s_.jump(Op::je, otherwise);
    // x = m 2^(e - 1075), so the bits begin (unit + 884 - e) bits up in the table: whole bytes, and m moves by the
    // rest.
    s_.emit(Op::neg, {reg(Gpr::rcx)});
    s_.binary_imm(Op::add, Gpr::rcx, inverse_pi_unit + 884);
    s_.emit(Op::lea, {reg(Gpr::r11), mem(8)}, Mem{.pool = true, .disp = pool_});
    s_.mov(Gpr::r10, Gpr::rcx);
    s_.binary_imm(Op::add, Gpr::r10, 7);
    shift(Op::shr, Gpr::r10, 3);
    s_.binary(Op::add, Gpr::r11, Gpr::r10);
    s_.emit(Op::neg, {reg(Gpr::rcx)});
    s_.binary_imm(Op::and_, Gpr::rcx, 7);
    s_.emit(Op::shl, {reg(Gpr::r8), reg(Gpr::rcx, 1)});
  }

  /// rax:r10 = x / pi mod 2 in units of 2^-127.
  void multiply() {
    s_.mov(Gpr::rax, CodeStream::at(Gpr::r11));
    s_.emit(Op::mul, {reg(Gpr::r8)});
    s_.mov(Gpr::r10, Gpr::rdx);
    s_.mov(Gpr::rax, CodeStream::at(Gpr::r11, 8));
    s_.emit(Op::mul, {reg(Gpr::r8)});
    s_.binary(Op::add, Gpr::r10, Gpr::rax);
    s_.binary_imm(Op::adc, Gpr::rdx, 0);
    s_.mov(Gpr::rax, CodeStream::at(Gpr::r11, 16));
    s_.binary(Op::imul, Gpr::rax, Gpr::r8);
    s_.binary(Op::add, Gpr::rax, Gpr::rdx);
  }

  /// rax:r10 becomes the distance from the nearest integer, signed, in units of 2^-128; the sign of rdx says whether
  /// the result changes its own: where that integer is odd, and with x but for a cosine.
  void round_to_sign(bool is_cosine) {
    if (is_cosine) {  // cos(pi y) = sin(pi (y + 1/2))
      s_.mov_imm(Gpr::rdx, std::int64_t{1} << 62);
      s_.binary(Op::add, Gpr::rax, Gpr::rdx);
    }
    s_.mov(Gpr::rdx, Gpr::rax);
    s_.binary(Op::add, Gpr::rdx, Gpr::rdx);
    s_.binary(Op::xor_, Gpr::rdx, Gpr::rax);
    if (!is_cosine) s_.binary(Op::xor_, Gpr::rdx, at(RemainderFrame::number));
    s_.binary(Op::add, Gpr::r10, Gpr::r10);
    s_.binary(Op::adc, Gpr::rax, Gpr::rax);
  }

  void to_float() {
    shift(Op::shr, Gpr::r10, 1);
    s_.mov(at(RemainderFrame::low), Gpr::r10);
    s_.mov(at(RemainderFrame::high), Gpr::rax);
    x87(Op::fild, 8, at(RemainderFrame::high));
    x87(Op::fmul, 8, Mem{.pool = true, .disp = pool_ + 19 * 8});
    x87(Op::fild, 8, at(RemainderFrame::low));
    s_.push({.op = Op::faddp});
    s_.push({.op = Op::fldpi});
    s_.push({.op = Op::fmulp});
    x87(Op::fmul, 8, Mem{.pool = true, .disp = pool_ + 20 * 8});
    const int keeps = s_.new_label();
    s_.emit(Op::test, {reg(Gpr::rdx), reg(Gpr::rdx)}).only_reads = true;
    s_.jump(Op::jge, keeps);
    s_.push({.op = Op::fchs});
    s_.bind(keeps);
    x87(Op::fstp, size_, lane_at(RemainderFrame::remainder));
  }

  CodeStream& s_;
  int frame_, size_;
  std::int32_t pool_;
};

}  // namespace x86_detail

SINTER_DECL void VectorBuilder::remainder_by_pi(Lane lane, VReg remainder, VReg x, double limit, bool is_cosine) {
  using Frame = x86_detail::RemainderFrame;
  const int is_done = s_.new_label(), size = size_of(lane);
  const VReg infinity = imm_float(lane, std::numeric_limits<double>::infinity()), magnitude = abs(lane, x);
  const VReg is_large = compare(lane, Compare::lt, imm_float(lane, limit), magnitude);
  jump_if_none(is_large, is_done);
  jump_if_none(mask_and(is_large, compare(lane, Compare::lt, magnitude, infinity)), is_done);  // infinities stay NaN
  const auto key = static_cast<std::uint32_t>(lanes_ * 32 + size * 2 + (is_cosine ? 1 : 0));
  const CodeStream::Routine routine = s_.routine(key, Frame::bytes);
  store_whole(lane, CodeStream::slot(routine.frame + Frame::x), x);
  store_whole(lane, CodeStream::slot(routine.frame + Frame::remainder), remainder);
  s_.jump(Op::call, routine.label);
  s_.emit(Op::vmovups, {vec(remainder, bytes(lane)), mem(bytes(lane))},
          CodeStream::slot(routine.frame + Frame::remainder));
  if (routine.is_new) {
    s_.jump(Op::jmp, is_done);
    s_.bind(routine.label);
    x86_detail::RemainderRoutine(s_, routine.frame, size).emit(lanes_, limit, is_cosine);
  }
  s_.bind(is_done);
}

}  // namespace x86
SINTER_NAMESPACE_END
