// Lists of steps and their text.
#pragma once

#include <sinter/kernel/schedule.hpp>

#include <sinter/base/error.hpp>

#include <algorithm>
#include <charconv>

SINTER_NAMESPACE_BEGIN

SINTER_DECL std::string ScheduleStep::text() const {
  std::string text(name(action));
  if (axis >= 0) text += (names_node(action) ? "[b" : "[a") + std::to_string(axis) + "]";
  return text + "(" + std::to_string(number) + ")";
}

SINTER_DECL Schedule::Schedule(std::initializer_list<ScheduleStep> steps) {
  for (const ScheduleStep& step : steps) *this = with(step);
}

SINTER_DECL std::optional<std::uint16_t> Schedule::find(ScheduleAction action, int axis) const {
  for (const ScheduleStep& step : steps_)
    if (step.action == action && step.axis == axis) return step.number;
  return std::nullopt;
}

namespace kernel_detail {
/// Whether the schedule says nothing yet of what this step sets: of stores and cuts, of this node.
inline bool takes(const Schedule& schedule, ScheduleStep step) {
  const bool is_of_a_node = names_node(step.action);
  return schedule.steps().size() < Schedule::max_steps && std::none_of(
                                                              schedule.steps().begin(), schedule.steps().end(),
                                                              [&](const ScheduleStep& other) {
                                                                return other.action == step.action &&
                                                                       other.axis == step.axis &&
                                                                       (!is_of_a_node || other.number == step.number);
                                                              });
}
}  // namespace kernel_detail

SINTER_DECL Schedule Schedule::with(ScheduleStep step) const {
  ensure(steps_.size() < max_steps, "schedule: too many steps");
  ensure(kernel_detail::takes(*this, step), "schedule: two steps set the same");
  Schedule longer = *this;
  longer.steps_.push_back(step);
  return longer;
}

SINTER_DECL Schedule Schedule::without(ScheduleAction action) const {
  Schedule shorter;
  for (const ScheduleStep& step : steps_)
    if (step.action != action) shorter.steps_.push_back(step);
  return shorter;
}

SINTER_DECL std::string Schedule::text() const {
  if (empty()) return "default";
  std::string text;
  for (const ScheduleStep& step : steps_) text += (text.empty() ? "" : " ") + step.text();
  return text;
}

namespace kernel_detail {

/// Takes a number that stands between `open` and `close` off the front of a text.
inline bool take_number(std::string_view& text, std::string_view open, char close, int& number) {
  if (!text.starts_with(open)) return false;
  const char* const begin = text.data() + open.size();
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(begin, text_end, number);
  if (error != std::errc{} || end == text_end || *end != close || number < 0) return false;
  text.remove_prefix(as_index(end + 1 - text.data()));
  return true;
}

inline std::optional<ScheduleStep> parse_step(std::string_view text) {
  const std::string_view action = text.substr(0, text.find_first_of("[("));
  const auto row = std::find_if(schedule_action_rows.begin(), schedule_action_rows.end(),
                                [&](const ScheduleActionRow& candidate) { return candidate.name == action; });
  if (row == schedule_action_rows.end()) return std::nullopt;
  text.remove_prefix(action.size());
  int axis = -1, number = 0;
  const auto found = static_cast<ScheduleAction>(row - schedule_action_rows.begin());
  if (text.starts_with("[") && !take_number(text, names_node(found) ? "[b" : "[a", ']', axis)) return std::nullopt;
  if (!take_number(text, "(", ')', number) || !text.empty() || axis > 127 || number > 0xFFFF) return std::nullopt;
  return ScheduleStep{
      .action = found, .number = static_cast<std::uint16_t>(number), .axis = static_cast<std::int8_t>(axis)};
}

}  // namespace kernel_detail

SINTER_DECL std::optional<Schedule> parse_schedule(std::string_view text) {
  Schedule schedule;
  if (text == "default") return schedule;
  for (bool is_last = false; !is_last;) {
    const std::size_t end = text.find(' ');
    is_last = end == std::string_view::npos;
    const std::optional<ScheduleStep> step = kernel_detail::parse_step(text.substr(0, end));
    if (!step || !kernel_detail::takes(schedule, *step)) return std::nullopt;
    schedule = schedule.with(*step);
    if (!is_last) text.remove_prefix(end + 1);
  }
  return schedule;
}

SINTER_NAMESPACE_END
