// Typed vector operations over a stream: one call per idea, the instruction set's differences inside. A vector has
// `lanes` elements of one lane type, so its width follows from the type; masks are mask registers on AVX-512 and
// vectors of all-ones or all-zeros elements on AVX2. Knows nothing of kernels.
#pragma once

#include <sinter/backend/x86/machine/vector_ir.hpp>
#include <sinter/backend/x86/math/math_builder.hpp>
#include <sinter/tensor/dtype.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

enum class Lane : std::uint8_t { i32, i64, f32, f64 };
constexpr int size_of(Lane lane) { return lane == Lane::i32 || lane == Lane::f32 ? 4 : 8; }
constexpr bool is_float(Lane lane) { return lane >= Lane::f32; }
/// What values of a dtype are computed in.
constexpr Lane lane_of(DType dtype) {
  switch (computed_in(dtype)) {
    case DType::i64: return Lane::i64;
    case DType::f32: return Lane::f32;
    case DType::f64: return Lane::f64;
    default: return Lane::i32;
  }
}

/// `unordered` and `not_lt`, which NaN fulfils, are for floats.
enum class Compare : std::uint8_t { eq, ne, lt, le, unordered, not_lt };

/// Which elements of a step exist. `mask` is no_vreg when all do; `count` is the frame slot with their number.
struct Tail {
  VReg mask = no_vreg;
  int count_slot = 0;
  bool active() const { return mask != no_vreg; }
};

class VectorBuilder {
 public:
  VectorBuilder(CodeStream& stream, int lanes) : s_(stream), lanes_(lanes) {}
  CodeStream& stream() const { return s_; }
  bool is_avx512() const { return s_.isa() == Isa::avx512; }
  int lanes() const { return lanes_; }
  int bytes(Lane lane) const { return std::max(16, lanes_ * size_of(lane)); }
  VectorBuilder with_lanes(int lanes) const { return VectorBuilder(s_, lanes); }
  /// Until the next call: are all lanes of what is computed equal?
  void set_lanes_equal(bool are_equal) { lanes_equal_ = are_equal; }

  VReg imm_bits(Lane lane, std::uint64_t bits) { return s_.constant(bits, size_of(lane), bytes(lane)); }
  VReg imm_float(Lane lane, double value);
  VReg imm_int(Lane lane, std::int64_t value) { return imm_bits(lane, static_cast<std::uint64_t>(value)); }
  /// 0, 1, 2, ... as i64 or i32.
  VReg iota(Lane lane);

  // Whole registers.
  VReg copy(Lane lane, VReg a);
  void assign(Lane lane, VReg to, VReg from);
  VReg op2(Op ps, Op pd, Lane lane, VReg a, VReg b) { return out(lane, size_of(lane) == 4 ? ps : pd, {a, b}); }

  VReg add(Lane lane, VReg a, VReg b);
  VReg sub(Lane lane, VReg a, VReg b);
  VReg mul(Lane lane, VReg a, VReg b);
  VReg div(Lane lane, VReg a, VReg b) { return slow(size_of(lane) == 4 ? Op::vdivps : Op::vdivpd, lane, {a, b}); }
  VReg fma(Lane lane, VReg a, VReg b, VReg c) {
    return out(lane, size_of(lane) == 4 ? Op::fma_ps : Op::fma_pd, {a, b, c});
  }
  VReg fnma(Lane lane, VReg a, VReg b, VReg c) {
    return out(lane, size_of(lane) == 4 ? Op::fnma_ps : Op::fnma_pd, {a, b, c});
  }
  VReg sqrt(Lane lane, VReg a) { return slow(size_of(lane) == 4 ? Op::vsqrtps : Op::vsqrtpd, lane, {a}); }
  /// The machine's: b when unordered.
  VReg min_raw(Lane lane, VReg a, VReg b) { return op2(Op::vminps, Op::vminpd, lane, a, b); }
  VReg max_raw(Lane lane, VReg a, VReg b) { return op2(Op::vmaxps, Op::vmaxpd, lane, a, b); }
  /// -0 is less than +0. Where one is NaN: the other on AVX-512, NaN on AVX2.
  VReg number_extremum(Lane lane, VReg a, VReg b, bool minimum);
  /// NaN wins and -0 is less than +0; integers too.
  VReg min(Lane lane, VReg a, VReg b) { return extremum(lane, a, b, true); }
  VReg max(Lane lane, VReg a, VReg b) { return extremum(lane, a, b, false); }
  VReg min_magnitude(Lane lane, VReg x, double limit);
  VReg neg(Lane lane, VReg a);
  VReg abs(Lane lane, VReg a);
  enum class Rounding : std::uint8_t { even = 8, floor = 9, ceil = 10, trunc = 11 };
  VReg round(Lane lane, VReg a, Rounding mode);
  /// MathBuilder::scale. Clobbers rax.
  VReg scale(Lane lane, VReg x, VReg n);

  // Bits of any lane type.
  VReg bit_and(Lane lane, VReg a, VReg b) { return op2(Op::vandps, Op::vandpd, lane, a, b); }
  VReg bit_or(Lane lane, VReg a, VReg b) { return op2(Op::vorps, Op::vorpd, lane, a, b); }
  VReg bit_xor(Lane lane, VReg a, VReg b) { return op2(Op::vxorps, Op::vxorpd, lane, a, b); }
  VReg bit_not(Lane lane, VReg a) { return bit_xor(lane, a, imm_int(lane, -1)); }
  VReg shift_left(Lane lane, VReg a, int count) {
    return shift(size_of(lane) == 4 ? Op::vpslld : Op::vpsllq, lane, a, count);
  }
  VReg shift_right(Lane lane, VReg a, int count) {
    return shift(size_of(lane) == 4 ? Op::vpsrld : Op::vpsrlq, lane, a, count);
  }

  /// Lanes of integers by lanes: by as many bits as they have or more, or fewer than none, all go.
  VReg shift_left_by(Lane lane, VReg a, VReg count) { return op2(Op::vpsllvd, Op::vpsllvq, lane, a, count); }
  VReg shift_right_by(Lane lane, VReg a, VReg count);

  /// Converts elements; widths follow from the types. Floats to integers saturate, NaN gives 0.
  VReg convert(Lane from, Lane to, VReg a);
  /// Integral float to the integer of the same width and back (|a| < 2^31 or 2^51).
  VReg to_int(Lane float_lane, VReg a);
  VReg from_int(Lane float_lane, VReg a);

  // Masks made by compare have elements of the lane's size on AVX2; "canonical" ones the size of a full register's.
  int mask_element() const { return 32 / lanes_; }
  VReg compare(Lane lane, Compare relation, VReg a, VReg b);
  VReg canonical(VReg mask, int element) { return resize_mask(mask, element, mask_element()); }
  VReg as_element(VReg mask, int element) { return resize_mask(mask, mask_element(), element); }
  VReg select(Lane lane, VReg mask, VReg a, VReg b);
  VReg mask_and(VReg a, VReg b) { return mask_op(Op::kandw, Op::vandps, a, b); }
  VReg mask_or(VReg a, VReg b) { return mask_op(Op::korw, Op::vorps, a, b); }
  VReg mask_xor(VReg a, VReg b) { return mask_op(Op::kxorw, Op::vxorps, a, b); }
  VReg mask_and_not(VReg not_this, VReg b) { return mask_op(Op::kandnw, Op::vandnps, not_this, b); }
  VReg mask_not(VReg a);
  /// Masks that are overwritten: all false; or-ed with another.
  void clear_mask(Lane lane, VReg mask);
  void merge_mask(VReg to, VReg other);
  /// All true or all false, canonical.
  VReg mask_constant(bool value);
  /// lhs op= in place, only where `tail` says: to = tail ? value : to.
  void assign_where(Lane lane, VReg to, VReg value, const Tail& tail);
  /// Canonical mask of the first `count` elements (a register with a positive number); stores min(count, lanes) to the
  /// slot.
  Tail make_tail(Gpr count, Gpr clobbered, int count_slot, bool wants_count);

  // Memory, by the dtype that elements have there: narrow ones are widened and stored as they are. bool_ values are
  // canonical masks.
  VReg load(DType dtype, Mem m, const Tail& tail);
  VReg load_broadcast(DType dtype, Mem m);
  void store(DType dtype, Mem m, VReg value, const Tail& tail);
  /// Past the caches; `m` is a multiple of the vector's size. Not for bool_ and narrow dtypes.
  void store_streaming(DType dtype, Mem m, VReg value);
  /// Replaces elements of `remainder` whose x is finite and beyond `limit` in size by sign * (|x| - n pi), n the
  /// nearest integer and sign (-1)^n with the sign of x; for a cosine n - 1/2 is in n's place, and x's sign does not
  /// matter. Exact but for the last rounding, by a routine inside the stream (Payne and Hanek). Clobbers rax, rdx, r9.
  void remainder_by_pi(Lane lane, VReg remainder, VReg x, double limit, bool is_cosine);
  /// Jump to `to` if no element of a mask made by compare is set, or if all are. Clobber rax.
  void jump_if_none(VReg mask, int to);
  void jump_if_all(Lane lane, VReg mask, int to);
  /// Element 0 only.
  void store_scalar(DType dtype, Mem m, VReg value);
  VReg broadcast_gpr(Lane lane, Gpr r);
  VReg broadcast_first(Lane lane, VReg a);
  /// Element 0 of an integer vector into a general register (sign-extended).
  void first_to_gpr(Lane lane, Gpr to, VReg a);
  /// A whole vector to and from memory of its own width (spills, temporaries).
  void store_whole(Lane lane, Mem m, VReg a) {
    s_.emit(Op::vmovups, {mem(bytes(lane)), vec(a, bytes(lane))}, m).only_reads = true;
  }
  VReg load_whole(Lane lane, Mem m);
  /// Lane i is lane from[i] of `a`.
  using LaneOrder = std::array<std::uint8_t, 16>;
  VReg permute(Lane lane, VReg a, const LaneOrder& from);
  static constexpr std::uint8_t any_lane = 255;
  VReg gather_lanes(Lane lane, std::span<const VReg> sources, const LaneOrder& from);
  std::vector<VReg> take_apart(Lane lane, std::span<const VReg> vectors, unsigned wanted);
  std::vector<VReg> put_together(Lane lane, std::span<const VReg> parts);
  /// x, which may be overwritten, or the sign bit of `sign`.
  VReg or_sign(Lane lane, VReg x, VReg sign);
  /// f32: the number of `table` that the low three bits of each lane of `index` say.
  VReg lookup(VReg index, std::span<const float, 8> table);
  /// The lane that stands before each run of `run` lanes whose number is odd, in all of these; the others are as they
  /// were, or 0 where `zeroed` (a mask register, AVX-512) leaves them out.
  VReg last_before_runs(Lane lane, VReg a, int run, VReg zeroed = no_vreg);
  /// Each lane moved up by one; the first stays.
  VReg move_up(Lane lane, VReg a);
  VReg broadcast_last(Lane lane, VReg a);
  /// The last lane first.
  /// Can lanes of this kind be taken from, and put to, every second place in memory?
  bool takes_every_second(Lane lane) const { return lanes_ >= 4 && bytes(lane) <= (is_avx512() ? 64 : 32); }
  /// A whole vector of elements that lie two apart, from the first one's address on. Reads between them, but not
  /// beyond.
  VReg load_every_second(Lane lane, Gpr first);
  /// The same of as many elements as the tail has (AVX-512); what lies behind the last of them is not touched. Clobbers
  /// rax, r9.
  VReg load_every_second(Lane lane, Gpr first, const Tail& tail);
  /// Elements 0, 2, ... of two vectors, of which the second begins with the last element of the first.
  VReg every_second_of(Lane lane, VReg low, VReg high);
  /// Leaves what lies between them as it is.
  void store_every_second(Lane lane, Gpr first, VReg value);
  VReg reverse(Lane lane, VReg a);
  /// Lanes of `a` whose bits are set in `lanes`, else of `b`. AVX-512: `mask` holds these bits, see lane_mask.
  VReg blend(Lane lane, unsigned lanes, VReg mask, VReg a, VReg b);
  /// AVX-512: bits as a mask register. Clobbers rax.
  VReg lane_mask(unsigned bits);
  /// The upper half of the lanes, as a vector of half as many.
  VReg upper_half(Lane lane, VReg a);
  /// The upper half of the first `lanes` lanes at the front of a whole vector; behind it anything.
  VReg upper_lanes(Lane lane, VReg a, int lanes);

  /// bool bytes: canonical mask from `lanes` bytes 0/1 in memory, and back.
  VReg mask_from_bytes(Mem m, const Tail& tail);
  void mask_to_bytes(Mem m, VReg mask, const Tail& tail);

 private:
  template <std::size_t N>
  VReg out(Lane lane, Op op, const VReg (&sources)[N]) {
    const int width = bytes(lane);
    const VReg r = s_.new_vec(width);
    s_.emit_vectors(op, width, r, sources);
    return r;
  }
  /// Quotients and roots: a machine takes two to four times as long for a vector of 64 bytes as for one of 16.
  template <std::size_t N>
  VReg slow(Op op, Lane lane, const VReg (&sources)[N]) {
    if (!lanes_equal_ || bytes(lane) == 16) return out(lane, op, sources);
    const VReg r = s_.new_vec(16);
    s_.emit_vectors(op, 16, r, sources);
    return broadcast_first(lane, r);
  }
  VReg shift(Op op, Lane lane, VReg a, int count);
  void permute_two(Lane lane, VReg a, VReg b, const LaneOrder& from);
  VReg scale_normal(Lane lane, VReg is_normal, VReg x, VReg n);
  void scale_subnormal(Lane lane, VReg result, VReg is_subnormal, VReg x, VReg n);
  VReg extremum(Lane lane, VReg a, VReg b, bool minimum);
  VReg extremum_with(Lane lane, VReg constant, VReg x, bool minimum);
  VReg saturate(Lane from, Lane to, VReg a);
  VReg convert_unchecked(Lane from, Lane to, VReg a);
  bool is_number(Lane lane, VReg a) const;
  VReg mul_i64(VReg a, VReg b);
  VReg mask_op(Op k_op, Op vector_op, VReg a, VReg b);
  VReg resize_mask(VReg mask, int from, int to);
  VReg convert_by_lane(Lane from, Lane to, VReg a);
  VReg unary(Op op, VReg a, int to_bytes, int from_bytes);
  void copy_elements(Mem to, Mem from, int count_slot, int size);
  VReg load_narrow(DType dtype, Mem m, const Tail& tail);
  VReg load_narrow_broadcast(DType dtype, Mem m);
  void store_narrow(DType dtype, Mem m, VReg value, const Tail& tail);
  void store_narrow_scalar(DType dtype, Mem m, VReg value);
  VReg bf16_bits(VReg value);
  VReg f16_bits(VReg value);
  VReg small_float_value(DType dtype, VReg bits);
  VReg small_float_bits(DType dtype, VReg value);
  VReg packed(DType dtype, VReg value);

  CodeStream& s_;
  int lanes_;
  bool lanes_equal_ = false;
};

/// MathBuilder over vectors of one float type.
class VectorMath final : public MathBuilder {
 public:
  VectorMath(VectorBuilder& builder, bool is_double)
      : b_(builder), lane_(is_double ? Lane::f64 : Lane::f32), integer_(is_double ? Lane::i64 : Lane::i32) {}
  bool is_double() const override { return lane_ == Lane::f64; }
  Vec imm(double value) override { return {b_.imm_float(lane_, value)}; }
  Vec imm_bits(std::uint64_t bits) override { return {b_.imm_bits(lane_, bits)}; }
  Vec add(Vec a, Vec b) override { return {b_.add(lane_, a.id, b.id)}; }
  Vec sub(Vec a, Vec b) override { return {b_.sub(lane_, a.id, b.id)}; }
  Vec mul(Vec a, Vec b) override { return {b_.mul(lane_, a.id, b.id)}; }
  Vec div(Vec a, Vec b) override { return {b_.div(lane_, a.id, b.id)}; }
  Vec sqrt(Vec a) override { return {b_.sqrt(lane_, a.id)}; }
  Vec fma(Vec a, Vec b, Vec c) override { return {b_.fma(lane_, a.id, b.id, c.id)}; }
  Vec fnma(Vec a, Vec b, Vec c) override { return {b_.fnma(lane_, a.id, b.id, c.id)}; }
  Vec min_raw(Vec a, Vec b) override { return {b_.min_raw(lane_, a.id, b.id)}; }
  Vec max_raw(Vec a, Vec b) override { return {b_.max_raw(lane_, a.id, b.id)}; }
  Vec round_even(Vec a) override { return {b_.round(lane_, a.id, VectorBuilder::Rounding::even)}; }
  Vec floor(Vec a) override { return {b_.round(lane_, a.id, VectorBuilder::Rounding::floor)}; }
  Vec trunc(Vec a) override { return {b_.round(lane_, a.id, VectorBuilder::Rounding::trunc)}; }
  Vec scale(Vec x, Vec n) override { return {b_.scale(lane_, x.id, n.id)}; }
  Vec bit_and(Vec a, Vec b) override { return {b_.bit_and(lane_, a.id, b.id)}; }
  Vec bit_or(Vec a, Vec b) override { return {b_.bit_or(lane_, a.id, b.id)}; }
  Vec bit_xor(Vec a, Vec b) override { return {b_.bit_xor(lane_, a.id, b.id)}; }
  Vec or_sign(Vec x, Vec sign) override { return {b_.or_sign(lane_, x.id, sign.id)}; }
  Vec int_add(Vec a, Vec b) override { return {b_.add(integer_, a.id, b.id)}; }
  Vec int_sub(Vec a, Vec b) override { return {b_.sub(integer_, a.id, b.id)}; }
  Vec shift_left(Vec a, int count) override { return {b_.shift_left(lane_, a.id, count)}; }
  Vec shift_right(Vec a, int count) override { return {b_.shift_right(lane_, a.id, count)}; }
  Vec lookup(Vec index, std::span<const float, 8> table) override { return {b_.lookup(index.id, table)}; }
  Vec to_int(Vec a) override { return {b_.to_int(lane_, a.id)}; }
  Vec from_int(Vec a) override { return {b_.from_int(lane_, a.id)}; }
  Vec min_magnitude(Vec x, double limit) override { return {b_.min_magnitude(lane_, x.id, limit)}; }
  Vec remainder_by_pi(Vec remainder, Vec x, double limit, bool is_cosine) override {
    b_.remainder_by_pi(lane_, remainder.id, x.id, limit, is_cosine);
    return remainder;
  }
  Mask less(Vec a, Vec b) override { return {b_.compare(lane_, Compare::lt, a.id, b.id)}; }
  Mask less_equal(Vec a, Vec b) override { return {b_.compare(lane_, Compare::le, a.id, b.id)}; }
  Mask equal(Vec a, Vec b) override { return {b_.compare(lane_, Compare::eq, a.id, b.id)}; }
  Mask is_nan(Vec a) override { return {b_.compare(lane_, Compare::unordered, a.id, a.id)}; }
  Mask int_equal(Vec a, Vec b) override { return {b_.compare(integer_, Compare::eq, a.id, b.id)}; }
  Mask mask_and(Mask a, Mask b) override { return {b_.mask_and(a.id, b.id)}; }
  Mask mask_or(Mask a, Mask b) override { return {b_.mask_or(a.id, b.id)}; }
  Mask mask_not(Mask a) override { return {b_.mask_not(a.id)}; }
  Vec select(Mask condition, Vec a, Vec b) override { return {b_.select(lane_, condition.id, a.id, b.id)}; }

 private:
  VectorBuilder& b_;
  Lane lane_, integer_;
};

}  // namespace x86
SINTER_NAMESPACE_END
