// The tree of an associative scan: neighbours are combined in pairs, the pairs scanned, and what stands between them
// filled in.
#pragma once

#include <sinter/jit/control/associative_scan.hpp>

#include <sinter/base/error.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/shapes.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::control_detail {

namespace associative_detail {

inline constexpr std::string_view op = "associative_scan";

inline BodyValues map(const BodyValues& values, auto&& function) {
  BodyValues results = values;
  for (Ref<TensorImpl>& value : results.values) value = function(Tensor(value)).impl();
  return results;
}
inline BodyValues part(const BodyValues& values, const Slice& along) {
  return map(values, [&](const Tensor& t) -> Tensor { return t(along); });
}

/// The extent of the axis. Throws where there is none, or tensors differ.
inline std::int64_t extent_of(const BodyValues& xs, int axis, Location where) {
  if (xs.values.empty())
    throw UserError(op, "there is no tensor to scan", where, "give a tensor, or a tuple or struct of tensors");
  Dim extent = 0;
  for (std::size_t i = 0; i < xs.values.size(); ++i) {
    const Type& type = xs.values[i]->type;
    const int rank = type.shape.rank();
    if (axis >= rank || axis < -rank)
      throw ShapeError(op, "axis " + std::to_string(axis) + " of tensor " + std::to_string(i) + ", " + type.text(),
                       where, "every tensor has the axis that is scanned; capture what does not change along it");
    const Dim own = type.shape[axis < 0 ? axis + rank : axis];
    if (i == 0) extent = own;
    else if (!(own == extent))
      throw ShapeError(
          op,
          "tensor " + std::to_string(i) + " is " + type.text() + ", but the first one has " + extent.text() + " slices",
          where, "all tensors have the same extent along the axis");
  }
  return static_cast<std::int64_t>(extent);
}

/// What f gave must be slices as it was given.
inline void check_combined(const BodyValues& given, const BodyValues& results, Location where) {
  if (results.values.size() != given.values.size() || results.fixed != given.fixed)
    throw UserError(op, "the function gives another structure than the slices that it takes", where,
                    "containers keep their sizes");
  for (std::size_t i = 0; i < given.values.size(); ++i) {
    const Type &wanted = given.values[i]->type, &type = results.values[i]->type;
    if (type.dtype != wanted.dtype)
      throw DTypeError(op,
                       "the function gives " + std::string(name(type.dtype)) + " for tensor " + std::to_string(i) +
                           ", which is " + std::string(name(wanted.dtype)),
                       where, "cast its result, or what is scanned");
    if (!(type.shape == wanted.shape))
      throw ShapeError(op,
                       "the function gives slices of " + type.text() + " for tensor " + std::to_string(i) + " where " +
                           wanted.text() + " went in (axis 0 counts slices)",
                       where, "a slice keeps its shape");
  }
}

/// Elements of `even` and `odd` in turns; `even` has as many, or one more.
inline Tensor interleave(const Tensor& even, const Tensor& odd) {
  const std::int64_t pairs = odd.shape()[0].value();
  const Tensor paired = flatten(stack({Tensor(even(slice(0, pairs))), odd}, 1), 0, 1);
  if (even.shape()[0].value() == pairs) return paired;
  return concat({paired, Tensor(even(slice(pairs, {})))}, 0);
}

struct Tree {
  CombineSlices combine;
  Location where;

  BodyValues combined(const BodyValues& older, const BodyValues& newer) const {
    BodyValues results = combine.call(combine.function, older, newer);
    check_combined(older, results, where);
    return results;
  }
  BodyValues scan(const BodyValues& xs, std::int64_t count) const {
    if (count < 2) return xs;
    const std::int64_t pairs = count / 2;
    const BodyValues odd = scan(combined(part(xs, slice(0, 2 * pairs, 2)), part(xs, slice(1, 2 * pairs, 2))), pairs);
    BodyValues even = part(xs, slice(0, 1));
    if (count > 2) {
      const std::int64_t left = (count - 1) / 2;  // even places behind the first
      const BodyValues later = combined(part(odd, slice(0, left)), part(xs, slice(2, {}, 2)));
      for (std::size_t i = 0; i < even.values.size(); ++i)
        even.values[i] = concat({Tensor(even.values[i]), Tensor(later.values[i])}, 0).impl();
    }
    for (std::size_t i = 0; i < even.values.size(); ++i)
      even.values[i] = interleave(Tensor(even.values[i]), Tensor(odd.values[i])).impl();
    return even;
  }
};

}  // namespace associative_detail

SINTER_DECL BodyValues scan_associatively(BodyValues xs, const AssociativeScanOptions& options, CombineSlices combine,
                                          Location where) {
  using namespace associative_detail;
  const std::int64_t count = extent_of(xs, options.axis, where);
  const auto turned = [&](const BodyValues& values) {
    return options.reverse ? map(values, [](const Tensor& t) { return flip(t, 0); }) : values;
  };
  const BodyValues in_front = map(xs, [&](const Tensor& t) { return movedim(t, options.axis, 0); });
  const BodyValues results = turned(Tree{combine, where}.scan(turned(in_front), count));
  return map(results, [&](const Tensor& t) { return movedim(t, 0, options.axis); });
}

}  // namespace jit::control_detail
SINTER_NAMESPACE_END
