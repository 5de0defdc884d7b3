// Legality of steps, and alternatives.
#pragma once

#include <sinter/kernel/loop_nest/choices.hpp>

#include <sinter/base/index.hpp>

#include <bit>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

inline std::string follow_of_product(const ScheduleStep& step, NestChoices& choices) {
  const bool is_rows = step.action == ScheduleAction::tile_rows;
  if (is_rows || step.action == ScheduleAction::tile_columns) {
    if (step.number == 0) return "at least 1";
    (is_rows ? choices.tile_rows : choices.tile_columns) = step.number;
    return {};
  }
  if (step.action != ScheduleAction::pack || step.number != 1) return "nothing of a product";
  choices.keeps_packed = true;
  return {};
}

/// Follows one step. Returns what is wrong with it, or nothing.
inline std::string follow(const ScheduleStep& step, const Kernel& kernel, const Machine& machine,
                          NestChoices& choices) {
  const int number = step.number;
  const bool is_row = kernel.kind == KernelKind::row, is_column = kernel.kind == KernelKind::column;
  if (step.axis >= 0 && step.action != ScheduleAction::unroll) return "it has no axis";
  if (kernel.kind == KernelKind::contraction) return follow_of_product(step, choices);
  switch (step.action) {
    case ScheduleAction::vectorize:
      if (number != machine.vector_bytes && (number != machine.vector_bytes / 2 || number < 32))
        return "vectors have " + std::to_string(machine.vector_bytes) + " bytes, or half as many where those are 32";
      choices.vector_bytes = number;
      return {};
    case ScheduleAction::unroll:
      if (number < 1 || number > 8 || !std::has_single_bit(static_cast<unsigned>(number))) return "1, 2, 4 or 8";
      if (step.axis < 0 || step.axis == kernel.rank() - 1) choices.copies = number;
      else if (!is_column || step.axis != near_axis_of(kernel)) return "no loop along this axis is unrolled";
      else if (number != 1 && number != 8) return "1 or 8 along this axis";
      else choices.near_copies = number;
      return {};
    case ScheduleAction::keep:
      if (!is_row) return "only rows are walked several times";
      if (number > machine.most_tiles) return "at most " + std::to_string(machine.most_tiles);
      choices.most_tiles = number;
      return {};
    case ScheduleAction::short_rows:
      if (!is_row) return "this kernel has no rows";
      if (number != 0 && number != 1 && number != 2 && number != 4) return "0, 1, 2 or 4";
      choices.short_rows = number;
      return {};
    case ScheduleAction::split:
      if (!is_row || number != 0) return "0, of a kernel with rows";
      choices.splits = false;
      return {};
    case ScheduleAction::tile_rows:
    case ScheduleAction::tile_columns:
    case ScheduleAction::pack: return "this kernel is no product";
    case ScheduleAction::block: return "a CPU has no blocks of threads";
    case ScheduleAction::stream:
      if (kernel.kind != KernelKind::pointwise || number > 1) return "0 or 1, of an elementwise kernel";
      choices.streams = number == 1;
      return {};
    case ScheduleAction::threads: return "no matter of a nest: whoever runs it sees to threads";
    case ScheduleAction::epilogues:
    case ScheduleAction::horizontal:
    case ScheduleAction::recompute:
    case ScheduleAction::store:
    case ScheduleAction::cut:
    case ScheduleAction::graphs: return "it is about a plan, not a kernel";
  }
  __builtin_unreachable();
}

}  // namespace kernel_detail

SINTER_DECL int near_axis_of(const Kernel& kernel) {
  for (int a = kernel.rank() - 1; a-- > 0;)
    if (kernel.is_reduced(a)) return a;
  return -1;
}

SINTER_DECL std::optional<NestChoices> read_choices(const Kernel& kernel, const Schedule& schedule,
                                                    const Machine& machine, std::string& why) {
  NestChoices choices{.vector_bytes = machine.vector_bytes, .most_tiles = machine.most_tiles};
  for (const ScheduleStep& step : schedule.steps()) {
    why = kernel_detail::follow(step, kernel, machine, choices);
    if (why.empty()) continue;
    why = "step " + step.text() + ": " + why;
    return std::nullopt;
  }
  return choices;
}

namespace kernel_detail {

/// The default and other register tiles, and each of them with its operand packed for good.
inline std::vector<Schedule> product_schedules(const Machine& machine) {
  using enum ScheduleAction;
  struct Tile {
    std::uint16_t rows, vectors;
  };
  std::vector<Schedule> schedules{Schedule{}};
  for (const Tile& tile : {Tile{14, 2}, Tile{6, 4}, Tile{3, 8}}) {
    if (machine.vector_bytes < 64 && tile.vectors != 2) continue;
    const int columns = tile.vectors * machine.vector_bytes / static_cast<int>(sizeof(float));
    schedules.push_back({{.action = tile_rows, .number = tile.rows},
                         {.action = tile_columns, .number = static_cast<std::uint16_t>(columns)}});
  }
  for (std::size_t i = 0, count = schedules.size(); i < count; ++i)
    schedules.push_back(schedules[i].with({.action = pack, .number = 1}));
  return schedules;
}

}  // namespace kernel_detail

SINTER_DECL std::vector<Schedule> nest_schedules(const Kernel& kernel, const Machine& machine) {
  using enum ScheduleAction;
  if (kernel.kind == KernelKind::contraction) return kernel_detail::product_schedules(machine);
  std::vector<Schedule> schedules{Schedule{}};
  for (const std::uint16_t copies : std::initializer_list<std::uint16_t>{1, 4, 8})
    schedules.push_back({{.action = unroll, .number = copies}});
  if (machine.vector_bytes == 64) {
    schedules.push_back({{.action = vectorize, .number = 32}});
    schedules.push_back({{.action = vectorize, .number = 32}, {.action = unroll, .number = 4}});
  }
  if (kernel.kind == KernelKind::pointwise)
    for (const std::uint16_t streams : std::initializer_list<std::uint16_t>{0, 1})
      schedules.push_back({{.action = stream, .number = streams}});
  if (kernel.kind == KernelKind::row) {
    schedules.push_back({{.action = keep, .number = 0}});
    for (const std::uint16_t rows : std::initializer_list<std::uint16_t>{0, 1, 2})
      schedules.push_back({{.action = short_rows, .number = rows}});
    schedules.push_back({{.action = split, .number = 0}});
  }
  if (kernel.kind == KernelKind::column)
    for (const std::uint16_t points : std::initializer_list<std::uint16_t>{1, 8})
      schedules.push_back(
          {{.action = unroll, .number = points, .axis = static_cast<std::int8_t>(near_axis_of(kernel))}});
  return schedules;
}

SINTER_NAMESPACE_END
