// Pieces by rows: a value that is joined of parts along outer axes, as a roll along rows is, reads one part in all of a
// row. Which one follows from the row's indices alone, so that the loop along the row need not tell parts apart: it
// reads through an access whose pointer is chosen where the row begins. Here a kernel is rewritten so; the generator
// chooses.
// Knows kernels; no machine code.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>
#include <optional>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// The comparison `index of axis < number`, the number being the same everywhere.
struct IndexBound {
  int axis = 0;
  InstId number = no_inst;  // an immediate, or a load of a number
  friend bool operator==(const IndexBound&, const IndexBound&) = default;
};
/// Of an instruction that is such a comparison.
std::optional<IndexBound> index_bound(const Kernel& kernel, InstId id);

struct RowPieces {
  /// The kernel, which reads through accesses of its own from number `first_chosen` on.
  Kernel kernel;
  std::size_t first_chosen = 0;
  /// By which pieces are told apart, none along the vector axis.
  std::vector<IndexBound> bounds;
  /// A decision: what is read where a bound holds, and where it does not. No bound: an access of the given kernel.
  struct Choice {
    int bound = -1;
    std::uint16_t access = 0;
    std::uint16_t below = 0, otherwise = 0;  // numbers of choices
  };
  std::vector<Choice> choices;
  std::vector<std::uint16_t> roots;  // of accesses first_chosen, first_chosen + 1, ...: their choices
};

/// Nothing where no value of an elementwise kernel is joined along outer axes.
std::optional<RowPieces> choose_pieces_by_row(const Kernel& kernel);

}  // namespace x86
SINTER_NAMESPACE_END
