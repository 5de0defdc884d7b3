// Schedule: how a kernel is run, or how a graph is cut into kernels, as a short list of plain steps. A back end (or
// runtime/plan_choices.ipp) reads them one after the other; what it has no use for it declines, with a reason. No step
// changes a result of a kernel on a CPU: what does is in the Kernel. Knows axes by number; no kernels, no machines.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// What a step sets. Its number stands in the text in parentheses, its axis (if it has one) in brackets.
enum class ScheduleAction : std::uint8_t {
  vectorize,     // bytes of the vectors along the vector axis: a power of two, no more than the machine's
  unroll,        // 1, 2, 4 or 8 steps of a loop side by side: along the vector axis, or the axis that is named
  keep,          // at most so many values are kept along a row from one pass to the next; the others are computed again
  short_rows,    // so many rows that are no longer than a vector side by side: 0 (no code for such rows), 1, 2 or 4
  split,         // 0: rows are never cut into tasks
  tile_rows,     // a product's register tile: rows
  tile_columns,  // a product's register tile: columns, in elements
  block,         // a GPU's: threads of a block
  threads,       // at most so many threads run it
  pack,          // 1: what a product reads many times stays packed from run to run, where it is a constant
  stream,        // 0: results stay in the caches; 1: they go past them, wherever that is possible
  // Of a plan, not of a kernel (a number is that of a node of its graph, or of the sub-graph in the axis's place):
  epilogues,   // 0: products take in nothing
  horizontal,  // 0: independent kernels stay launches of their own
  recompute,   // 0: each value that several kernels read is written once
  store,       // this node's value is written once, where its readers would compute it again
  cut,         // nothing that reads this node's value joins the kernel that computes it
  graphs,      // 0: a GPU's launches stay single
};
struct ScheduleActionRow {
  std::string_view name;
};
inline constexpr std::array<ScheduleActionRow, as_index(ScheduleAction::graphs) + 1> schedule_action_rows{
    {{"vectorize"},
     {"unroll"},
     {"keep"},
     {"short_rows"},
     {"split"},
     {"tile_rows"},
     {"tile_columns"},
     {"block"},
     {"threads"},
     {"pack"},
     {"stream"},
     {"epilogues"},
     {"horizontal"},
     {"recompute"},
     {"store"},
     {"cut"},
     {"graphs"}}};
/// Whether the number of such a step is that of a node.
constexpr bool names_node(ScheduleAction action) {
  return action == ScheduleAction::store || action == ScheduleAction::cut;
}
constexpr std::string_view name(ScheduleAction action) { return schedule_action_rows[as_index(action)].name; }

struct ScheduleStep {
  ScheduleAction action = ScheduleAction::unroll;
  std::uint16_t number = 0;
  std::int8_t axis = -1;  // -1: the action says which; of a node's step the sub-graph, -1: none
  friend bool operator==(const ScheduleStep&, const ScheduleStep&) = default;

  /// "unroll(2)", "unroll[a1](8)"; "cut(4)", of the first sub-graph "cut[b0](4)".
  std::string text() const;
};

/// Replayable by its text, searched by tuning. Empty: the back end chooses by its own costs.
class Schedule {
 public:
  static constexpr std::size_t max_steps = 12;

  Schedule() = default;
  /// Throws InternalError for more than max_steps steps, or two that set the same.
  Schedule(std::initializer_list<ScheduleStep> steps);

  const SmallVector<ScheduleStep, 4>& steps() const { return steps_; }
  bool empty() const { return steps_.empty(); }
  /// The number of the step that sets this, if there is one.
  std::optional<std::uint16_t> find(ScheduleAction action, int axis = -1) const;
  /// This schedule with one more step.
  Schedule with(ScheduleStep step) const;
  /// This schedule less the step that sets this, if there is one.
  Schedule without(ScheduleAction action) const;
  friend bool operator==(const Schedule& a, const Schedule& b) { return a.steps_ == b.steps_; }

  /// "unroll(2) keep(0)"; "default" where it is empty.
  std::string text() const;

 private:
  SmallVector<ScheduleStep, 4> steps_;
};

/// What Schedule::text() wrote; nothing for any other text.
std::optional<Schedule> parse_schedule(std::string_view text);

SINTER_NAMESPACE_END
