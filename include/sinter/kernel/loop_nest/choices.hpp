// What a schedule leaves to a nest: its steps, read one after the other and checked, and the schedules that are worth
// trying. Knows kernels and the description of a machine; builds nothing.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>
#include <sinter/kernel/schedule.hpp>

#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// The choices that the builder follows. Those without a number are its own, by costs.
struct NestChoices {
  int vector_bytes = 64;
  std::optional<int> copies = {};       // vectors per step along the vector axis
  std::optional<int> near_copies = {};  // points per step along the innermost reduced axis of a column kernel
  int most_tiles = 8;                   // values kept along a row
  std::optional<int> short_rows = {};   // side by side; 0: no variant for them
  bool splits = true;                   // long rows may become tasks
  std::optional<bool> streams = {};     // whether results go past the caches; no matter of the nest itself
  int tile_rows = 0, tile_columns = 0;  // a product's; 0: as many as its numbers ask for
  bool keeps_packed = false;            // the operand that is read many times stays packed, where it is a constant
};

/// The innermost reduced axis that is not the vector axis; -1: none.
int near_axis_of(const Kernel& kernel);

/// Nothing where a step is not legal for this kernel on this machine, with the reason in `why`.
std::optional<NestChoices> read_choices(const Kernel& kernel, const Schedule& schedule, const Machine& machine,
                                        std::string& why);

/// The default first, then schedules that set one thing otherwise, or two that go together: a dozen at most. All of
/// them are legal.
std::vector<Schedule> nest_schedules(const Kernel& kernel, const Machine& machine);

SINTER_NAMESPACE_END
