// The same instructions through AsmJit's assembler: writes a listing, and says of its own what the bytes are. The only
// door to the assembler library: nothing of it shows here.
#pragma once

#include <sinter/backend/x86/machine/vector_ir.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

/// Takes what Assembler takes, and gives the same bytes. Throws InternalError where AsmJit refuses an instruction.
class ListingAssembler {
 public:
  /// `listing`, if given, receives the text.
  ListingAssembler(std::vector<std::byte>& bytes, int labels, std::string* listing);
  ~ListingAssembler();

  void put(const Instruction& i);
  void bind(int label);
  void finish(std::span<const std::uint8_t> pool);
  std::size_t start() const { return start_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<std::byte>& bytes_;
  std::string* listing_;
  std::size_t start_ = 0;
};

}  // namespace x86_detail
}  // namespace x86
SINTER_NAMESPACE_END
