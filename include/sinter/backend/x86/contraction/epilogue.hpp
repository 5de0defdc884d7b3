// Epilogues in registers: short straight-line bodies that a micro-kernel applies to its finished sums before it stores
// them. Owns which epilogues those are, and their machine code, made per kernel and register tile when first asked for.
#pragma once

#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/machine/code_memory.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// An epilogue as a micro-kernel runs it.
struct TileBody {
  /// An operand's place: it moves along a row by element or not at all.
  struct Slot {
    std::uint16_t access = 0;  // of the epilogue kernel
    bool moves_by_row = false, moves_by_column = false, is_read = false, is_written = false;
  };
  struct Output {
    std::uint8_t slot = 0;
    InstId value = no_inst;
  };
  std::vector<Inst> insts;  // a load's `access` is its slot; the sum is the load of slot no_slot
  std::vector<InstId> last_use;
  std::vector<Slot> slots;  // at most max_micro_slots
  std::vector<Output> outputs;
  static constexpr std::uint16_t no_slot = 0xFFFF;
};
/// The body of `epilogue`, which reads the sums through access `sum`. Nothing where it takes more than sums, products,
/// extrema and choices of one dtype, or where an operand's columns are neither adjacent nor one.
std::optional<TileBody> make_tile_body(const Kernel& epilogue, std::uint16_t sum, DType dtype);

/// The micro-kernels of one TileBody. Thread-safe.
class BodyMicroKernels {
 public:
  explicit BodyMicroKernels(TileBody body) : body_(std::move(body)) {}
  const TileBody& body() const { return body_; }
  /// The functions for `shapes`, emitted where they do not exist yet. False where a body needs more registers than are
  /// left.
  bool find(std::span<const MicroShape> shapes, std::span<MicroFunction> functions);
  std::size_t code_bytes() const;

 private:
  struct Known {
    MicroShape shape;
    MicroFunction function;  // null: too few registers
  };
  const Known* known(const MicroShape& shape) const;

  const TileBody body_;
  mutable ForkSafeMutex mutex_;
  std::vector<Known> known_;
  std::vector<std::shared_ptr<const CodeBlock>> blocks_;
};

}  // namespace x86
SINTER_NAMESPACE_END
