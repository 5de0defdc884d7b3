// See the header.
#pragma once

#include <sinter/graph/eager_call.hpp>

#include <sinter/tensor/slot.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL EagerArrival EagerArrival::of(const EagerResults& given, std::span<const Dim> known,
                                          std::span<const std::int64_t> symbols) {
  EagerArrival arrival;
  for (const auto& value : given.values) {
    Type type{value->type.dtype, value->type.device, {}};
    for (Dim extent : value->type.shape) {
      for (Dim candidate : known)
        if (!candidate.is_static() && extent.is_static() && candidate.evaluate(symbols) == extent.value())
          extent = candidate;
      type.shape.push_back(extent);
    }
    arrival.types.push_back(type);
    arrival.is_weak.push_back(value->is_weak);
  }
  arrival.fixed = given.fixed;
  if (given.is_opaque) arrival.object = given.object;
  return arrival;
}

SINTER_DECL bool EagerArrival::fits(const EagerCall& call, const EagerResults& given,
                                    std::span<const std::int64_t> symbols) const {
  if (types.size() != given.values.size() || fixed != given.fixed) return false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const TensorImpl& value = *given.values[i];
    if (types[i].dtype != value.type.dtype || types[i].device != value.type.device ||
        (is_weak[i] != 0) != value.is_weak)
      return false;
    if (types[i].shape.rank() != value.type.shape.rank()) return false;
    for (int axis = 0; axis < types[i].shape.rank(); ++axis)
      if (types[i].shape[axis].evaluate(symbols) != value.type.shape[axis].evaluate(symbols)) return false;
  }
  return object == nullptr || call.is_same_result(object.get(), given.object.get());
}

namespace graph_detail {
inline const EagerSection*& innermost_eager_section() noexcept {
  static thread_local constinit const EagerSection* section = nullptr;
  return section;
}
inline std::string variable_text(const VariableSlot& slot) {
  return slot.name.empty() ? "a Variable" : "Variable '" + slot.name + "'";
}
}  // namespace graph_detail

SINTER_DECL EagerSection::EagerSection(std::span<const Use> uses, const EagerCall& call) noexcept
    : uses_(uses), call_(call), outer_(std::exchange(graph_detail::innermost_eager_section(), this)) {}
SINTER_DECL EagerSection::~EagerSection() { graph_detail::innermost_eager_section() = outer_; }

SINTER_DECL void EagerSection::check_read(const VariableSlot& slot) {
  for (const EagerSection* section = graph_detail::innermost_eager_section(); section != nullptr;
       section = section->outer_)
    for (const Use& use : section->uses_)
      if (use.slot == &slot && use.is_assigned)
        throw TraceError(
            "disable",
            "the function reads " + graph_detail::variable_text(slot) +
                ", which the compiled call has given a new value that is written back when it ends",
            section->call_.where,
            "pass it the new value as a Tensor; for random numbers in it, draw them outside and pass them in");
}
SINTER_DECL void EagerSection::check_assign(const VariableSlot& slot) {
  check_read(slot);
  for (const EagerSection* section = graph_detail::innermost_eager_section(); section != nullptr;
       section = section->outer_)
    for (const Use& use : section->uses_)
      if (use.slot == &slot)
        throw TraceError(
            "disable",
            "the function assigns " + graph_detail::variable_text(slot) + ", which the compiled call has read",
            section->call_.where, "return the new value, and assign it in the compiled function");
}

SINTER_NAMESPACE_END
