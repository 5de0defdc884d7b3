// One machine instruction to bytes, by the table of encodings: VEX where it can be, else EVEX, the shortest
// displacement, short jumps backwards. Knows physical registers only, and nothing of allocation, prologues or kernels.
#pragma once

#include <sinter/backend/x86/machine/encoding.hpp>
#include <sinter/backend/x86/machine/vector_ir.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

/// Writes one function. All of it is inline for the emitter's sake, which includes the definitions.
/// In the instructions that it takes, the `id` of a vector or mask operand and `mask` are numbers
/// of physical registers. A memory operand smaller than the vector is broadcast where the instruction can do that.
class Assembler {
 public:
  /// Appends to `bytes` from the next multiple of 64 on. `instructions` is about how many will come.
  Assembler(std::vector<std::byte>& bytes, int labels, std::size_t instructions);

  void put(const Instruction& i);
  void bind(int label);
  /// Appends the constants, at a multiple of 64, and cuts `bytes` to what was written. False if an instruction had a
  /// form that is not in the table: `bytes` is then as before.
  bool finish(std::span<const std::uint8_t> pool);
  /// Where the function begins in `bytes`.
  std::size_t start() const { return start_; }

 private:
  struct Fields;
  void grow();
  void byte(unsigned value) { *at_++ = static_cast<std::uint8_t>(value); }
  void dword(std::int64_t value);
  void number(std::int64_t value, int bytes);
  std::int32_t here() const { return static_cast<std::int32_t>(at_ - begin_); }
  void refuse() { is_refused_ = true; }

  std::uint8_t* memory(std::uint8_t* p, unsigned reg, const Mem& m, unsigned scale, int behind);
  void vector(const Instruction& i, const Encoding& e, const Fields& f);
  void move(const Instruction& i, const Encoding& e);
  void masked(const Instruction& i, const Encoding& e);
  void between_files(const Instruction& i, const Encoding& e);
  void quadword(const Instruction& i, const Encoding& e);
  void mask_move(const Instruction& i, const Encoding& e);
  void mask_op(const Instruction& i, const Encoding& e);
  void gather(const Instruction& i, const Encoding& e);
  void vector_form(const Instruction& i, const Encoding& e);

  void general(const Instruction& i, unsigned opcode, unsigned reg, const Operand& rm, int width, int behind = 0);
  void accumulator(unsigned opcode, int width);
  void general_form(const Instruction& i, const Encoding& e);
  void general_move(const Instruction& i);
  void arithmetic(const Instruction& i, unsigned opcode);
  void multiply(const Instruction& i);
  void shift(const Instruction& i, const Encoding& e);
  void test(const Instruction& i);
  void x87(const Instruction& i, const Encoding& e);
  void fixed(const Instruction& i, const Encoding& e);
  void jump(const Instruction& i, const Encoding& e);

  std::vector<std::byte>& bytes_;
  std::size_t size_before_, start_;
  std::uint8_t* begin_ = nullptr;
  std::uint8_t* at_ = nullptr;
  std::uint8_t* limit_ = nullptr;
  /// Bound: where. Not yet: minus one, minus where the last jump to it has its displacement; each of these holds where
  /// the one before has its own, the first 0.
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> pool_uses_;  // where displacements into the constants are
  int pending_ = 0;                      // jumps to labels that are not bound
  bool is_refused_ = false;
};

}  // namespace x86_detail
}  // namespace x86
SINTER_NAMESPACE_END
