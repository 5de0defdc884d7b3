// vmap: from a function of one example to a function of a batch. The function is traced on the parameters without their
// mapped axes, and its graph is vectorised (autodiff/vectorise.hpp).
#pragma once

#include <sinter/autodiff/trace.hpp>

#include <concepts>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// In the place of an axis: an argument that is the same for all examples, or a result that must be.
inline constexpr int no_axis = std::numeric_limits<int>::min();

/// The mapped axis of one argument (or result): one for all tensors in it, or a list with one for each, in the order in
/// which tree::visit_leaves meets them. Negative axes count from the end.
class LeafAxes {
 public:
  LeafAxes(int axis);
  LeafAxes(std::initializer_list<int> axes);
  template <IntegerList L>
  LeafAxes(const L& axes) : is_list_(true) {
    for (auto axis : axes) axes_.push_back(static_cast<std::int64_t>(axis));
  }
  bool is_list() const { return is_list_; }
  std::size_t size() const { return axes_.size(); }
  int operator[](std::size_t i) const { return static_cast<int>(is_list_ ? axes_[i] : axes_[0]); }

 private:
  IntVector axes_;
  bool is_list_ = false;
};

/// The mapped axis of all arguments (or results), or a list with one for each, which may be a list for the tensors of a
/// struct or container: {0, {1, jit::no_axis}}.
class MappedAxes {
 public:
  MappedAxes() : MappedAxes(0) {}  // {} is what is mapped by default
  MappedAxes(int axis);
  MappedAxes(std::initializer_list<int> axes);
  MappedAxes(std::initializer_list<LeafAxes> axes);
  MappedAxes(std::vector<LeafAxes> axes);
  template <IntegerList L>
  MappedAxes(const L& axes) : is_list_(true) {
    for (auto axis : axes) add(static_cast<int>(axis));
  }
  bool is_list() const { return is_list_; }
  std::size_t size() const;
  const LeafAxes& operator[](std::size_t i) const;

 private:
  void add(int axis);
  std::vector<LeafAxes> axes_;
  bool is_list_ = false;
};

namespace autodiff_detail {

/// A trace in which mapped parameters have lost an axis.
OpenTrace open_map(Location where);
/// Replaces the leaves of argument number `number` by examples of them along `axes`.
void map_argument(TransformTrace& trace, tree::Part argument, const LeafAxes& axes, std::size_t number, Location where);
/// Ends the trace: results with the batch at `axes` (one per result), assignments handed out.
std::vector<Ref<TensorImpl>> finish_map(OpenTrace trace, const std::vector<Ref<TensorImpl>>& results,
                                        const IntVector& axes);

/// How a mapped result is held: a Scalar for each example is a Tensor.
template <class R>
struct Mapped {
  using type = std::conditional_t<std::same_as<R, Scalar>, Tensor, R>;
  static type make(R&& r) {
    if constexpr (std::same_as<R, Scalar>) return Tensor(In(r).tensor());
    else return std::move(r);
  }
};
template <class... R>
struct Mapped<std::tuple<R...>> {
  using type = std::tuple<typename Mapped<R>::type...>;
  static type make(std::tuple<R...>&& r) {
    return std::apply([](R&... parts) { return type{Mapped<R>::make(std::move(parts))...}; }, r);
  }
};
template <class A, class B>
struct Mapped<std::pair<A, B>> {
  using type = std::pair<typename Mapped<A>::type, typename Mapped<B>::type>;
  static type make(std::pair<A, B>&& r) {
    return {Mapped<A>::make(std::move(r.first)), Mapped<B>::make(std::move(r.second))};
  }
};

void check_axis_count(const MappedAxes& axes, std::size_t count, std::string_view what, Location where);
/// Of argument or result number `part`, which holds so many tensors.
void check_leaf_count(const LeafAxes& axes, std::size_t leaves, std::string_view what, std::size_t part,
                      Location where);

/// The out axis of each leaf of a result.
template <class R>
IntVector axes_of_result(const R& result, const MappedAxes& axes, Location where) {
  IntVector list;
  auto add = [&](const auto& part, const LeafAxes& of_part, std::size_t number) {
    const std::size_t leaves = values_of(part).size();
    check_leaf_count(of_part, leaves, "out_axes", number, where);
    for (std::size_t i = 0; i < leaves; ++i) list.push_back(of_part[i]);
  };
  if constexpr (tree::TupleLike<R>) {
    if (axes.is_list()) {
      check_axis_count(axes, std::tuple_size_v<R>, "out_axes", where);
      std::apply(
          [&](const auto&... parts) {
            std::size_t at = 0;
            ((add(parts, axes[at], at), ++at), ...);
          },
          result);
      return list;
    }
  } else if (axes.is_list()) {
    check_axis_count(axes, 1, "out_axes", where);
  }
  add(result, axes[0], 0);
  return list;
}

template <class F>
struct Vmap {
  using TakesArgumentsOf = F;
  F f;
  MappedAxes in_axes, out_axes;
  Location where;

  template <class... A>
  auto operator()(const A&... args) const {
    if (in_axes.is_list()) check_axis_count(in_axes, sizeof...(A), "in_axes", where);
    parameters_t<F, A...> parameters{
        held_argument(args)...};  // before the trace: expressions among them belong outside
    OpenTrace trace = open_map(where);
    std::apply(
        [&](auto&... parts) {
          std::size_t at = 0;
          ((map_argument(*trace, tree::part_of(parts), in_axes[at], at, where), ++at), ...);
        },
        parameters);
    if constexpr (std::is_void_v<typename expr_detail::CallResultOf<F, parameters_t<F, A...>>::type>) {
      std::apply(f, std::as_const(parameters));
      finish_map(std::move(trace), {}, {});
    } else {
      auto held = call_held(f, std::as_const(parameters));
      const auto result = Mapped<decltype(held)>::make(std::move(held));
      const std::vector<Ref<TensorImpl>> values = values_of(result);
      const IntVector axes = axes_of_result(result, out_axes, where);
      return with_values(result, finish_map(std::move(trace), values, axes));
    }
  }
};

}  // namespace autodiff_detail

/// A function that applies f to each example of a batch: the arguments are mapped along `in_axes`, the results stacked
/// along `out_axes`. All in one graph, without a loop: a product of matrix and vector becomes a product of matrices.
/// Numbers are never mapped. Every example draws its own random numbers. A mapped Variable holds a value for each
/// example; assigning to another one a value that differs between examples is an error.
template <class F>
auto vmap(F f, MappedAxes in_axes = 0, MappedAxes out_axes = 0, Location where = std::source_location::current()) {
  return autodiff_detail::Vmap<F>{std::move(f), std::move(in_axes), std::move(out_axes), where};
}

}  // namespace jit
SINTER_NAMESPACE_END
