// Setting marks, and checking traces against them.
#pragma once

#include <sinter/jit/call/marks.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/jit/call/guard_text.hpp>

#include <algorithm>
#include <memory>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
/// The value of x once more, with one mark changed: values that others see keep what they have.
inline void set_mark(Tensor& x, int axis, AxisMarks::Mark mark, std::string_view function) {
  const Ref<TensorImpl> old = x.impl();
  if (old->trace != 0 && !old->is_ready())
    throw TraceError(function, "a traced tensor cannot be marked", mark.where,
                     "mark the tensors before the call of the compiled function");
  axis = normalise_axis(axis, old->type.shape.rank(), function, mark.where);
  eval(In(x, mark.where));
  const std::int64_t extent = old->type.shape[axis].value();
  if (mark.kind == AxisMarks::Kind::dynamic && (extent < mark.min || extent > mark.max))
    throw UserError(function,
                    "axis " + std::to_string(axis) + " of " + old->type.shape.text() + " is outside the range " +
                        std::to_string(mark.min) + " to " + std::to_string(mark.max),
                    mark.where);
  AxisMarks marks = old->marks() != nullptr ? *old->marks() : AxisMarks{};
  marks.axes[as_index(axis)] = mark;
  Ref<TensorImpl> marked = TensorImpl::make_ready(old->type, old->storage, old->offset, &old->strides);
  marked->is_weak = old->is_weak;
  marked->set_marks(marks);
  x = Tensor(std::move(marked));
}
}  // namespace jit_detail

SINTER_DECL void mark_dynamic(Tensor& x, int axis, ExtentRange range, Location where) {
  if (range.min < 0 || range.max < std::max<std::int64_t>(range.min, 2))
    throw UserError(
        "mark_dynamic",
        "the range " + std::to_string(range.min) + " to " + std::to_string(range.max) + " leaves nothing to vary",
        where, "0 <= min <= max, and max at least 2");
  jit_detail::set_mark(x, axis, {AxisMarks::Kind::dynamic, range.min, range.max, where}, "mark_dynamic");
}

SINTER_DECL void mark_static(Tensor& x, int axis, Location where) {
  jit_detail::set_mark(x, axis, {AxisMarks::Kind::fixed, 0, 0, where}, "mark_static");
}

SINTER_DECL void check_marks(const GuardSet& guards, std::span<const ArgLeaf> args, std::span<const Dim> solution) {
  for (std::size_t id = 0; id < guards.symbols.size(); ++id) {
    const SymbolSource& source = guards.symbols[id];
    const TensorImpl* value = args[as_index(source.leaf)].impl;
    if (source.is_stride || !solution[id].is_static() || value == nullptr || value->marks() == nullptr) continue;
    const AxisMarks::Mark& mark = value->marks()->axes[as_index(source.axis)];
    if (mark.kind != AxisMarks::Kind::dynamic) continue;
    std::string why;
    for (const DimGuard& guard : guards.dims) {
      std::vector<SymbolId> used;
      guard.lhs.collect_symbols(used);
      guard.rhs.collect_symbols(used);
      if (guard.relation == DimRelation::less || !guard.outcome ||
          std::find(used.begin(), used.end(), static_cast<SymbolId>(id)) == used.end())
        continue;
      why = ": " + jit_detail::relation_text(guard) + " (" + jit_detail::mentioned_symbols(guards, guard, {}) + ")";
      break;
    }
    throw UserError(
        "mark_dynamic",
        "the " + jit_detail::source_text(guards, source) + " is marked dynamic, but the function needs it to be " +
            solution[id].text() + why,
        mark.where,
        "take the mark away, or change what fixes the extent: int(x.size(0)) reads it, x.size(0) keeps it open");
  }
}

}  // namespace jit
SINTER_NAMESPACE_END
