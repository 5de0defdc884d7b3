// associative_scan: what a user's function of two slices gives for all slices up to each one, in logarithmic depth and
// without a loop. The typed half; the other one works on values.
#pragma once

#include <sinter/autodiff/vmap.hpp>
#include <sinter/jit/control/control.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit {

struct AssociativeScanOptions {
  int axis = 0;          // of every tensor
  bool reverse = false;  // from the last slice to the first
};

namespace control_detail {

/// Combines the slices of two batches along axis 0, each with the one of the same number.
struct CombineSlices {
  void* function;
  BodyValues (*call)(void* function, const BodyValues& older, const BodyValues& newer);
};
BodyValues scan_associatively(BodyValues xs, const AssociativeScanOptions& options, CombineSlices combine,
                              Location where);

}  // namespace control_detail

/// ys[0] = xs[0] and ys[k] = f(ys[k - 1], xs[k]), computed as a tree: f must be associative (up to rounding, whose
/// order depends on the extent alone). xs is a tensor or a tuple or struct of tensors that agree in the extent of the
/// axis; f takes two slices of that form, without the axis, and gives one. About 2 n calls of f, in 2 log2(n) steps,
/// each for a whole batch of slices. Differentiable; each extent is a version of its own.
template <class F, class Xs>
auto associative_scan(const F& f, const Xs& xs, AssociativeScanOptions options = {},
                      Location where = std::source_location::current()) {
  using namespace control_detail;
  using H = held_t<Xs>;
  check_structure<H>();
  static_assert(std::is_invocable_v<const F&, const H&, const H&>,
                "sinter: the function of an associative_scan takes two slices of what is scanned");
  const H held = hold<H>(xs);
  auto batched = vmap([&](const H& older, const H& newer) { return hold<H>(f(older, newer)); }, 0, 0, where);
  auto combine = [&](const BodyValues& older, const BodyValues& newer) {
    const Ref<TensorImpl>* first = older.values.data();
    const Ref<TensorImpl>* second = newer.values.data();
    return take_values(batched(filled(held, first), filled(held, second)));
  };
  const CombineSlices slices{&combine, [](void* function, const BodyValues& older, const BodyValues& newer) {
                               return (*static_cast<decltype(combine)*>(function))(older, newer);
                             }};
  const BodyValues results = scan_associatively(take_values(held), options, slices, where);
  const Ref<TensorImpl>* at = results.values.data();
  return filled(held, at);
}

}  // namespace jit
SINTER_NAMESPACE_END
