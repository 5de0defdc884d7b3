// A loop nest made ready for this machine: what of a kernel the generator takes, the machine's description, and the few
// facts that only x86 asks of a nest. Knows nests, not instructions.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/backend/x86/nest/interleaved.hpp>
#include <sinter/backend/x86/nest/row_pieces.hpp>
#include <sinter/kernel/loop_nest/builder.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <memory>
#include <optional>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace x86 {

struct PreparedNest {
  LoopNest nest;
  Isa isa = Isa::avx512;
  bool needs_count = false;                 // some access works element by element in tails
  int tiles = 0;                            // the first buffers of the nest; the others are no memory of a task
  std::vector<char> is_checked;             // gathers whose index a check node makes an offset
  Interleaved interleaved;                  // of the strides that the code is made for; none: of any
  std::shared_ptr<const RowPieces> pieces;  // whose kernel the nest is of; null: it is of the one given

  const Kernel& kernel() const { return *nest.kernel; }
  bool is_row() const { return kernel().kind == KernelKind::row; }
  bool is_column() const { return kernel().kind == KernelKind::column; }
  /// Is the access's pointer chosen where a row begins?
  bool is_chosen(std::size_t access) const { return pieces != nullptr && access >= pieces->first_chosen; }
  const ValuePlace& place(InstId id) const { return nest.places[id]; }
};

Machine machine_of(Isa isa);

/// Nothing where the generator declines, with the reason in `why`.
std::optional<PreparedNest> prepare_nest(const Kernel& kernel, const Schedule& schedule, Isa isa, IndexWidth width,
                                         std::string& why);

}  // namespace x86
SINTER_NAMESPACE_END
