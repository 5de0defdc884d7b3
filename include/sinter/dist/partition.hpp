// One program of whole tensors on many ranks: partition() traces a function, chooses how each of its values lies on a
// mesh, and runs on each rank the operations on its parts, with the collectives that they need.
#pragma once

#include <sinter/autodiff/trace.hpp>
#include <sinter/base/config.hpp>
#include <sinter/dist/layout.hpp>
#include <sinter/dist/partition_report.hpp>
#include <sinter/dist/world.hpp>
#include <sinter/expr/tree.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

struct PartitionOptions {
  /// How the arguments lie: one layout for each, that of all Tensors in it; or one for each Tensor. None: every
  /// rank has all of them.
  std::vector<Layout> inputs{};
  /// The same of the results.
  std::vector<Layout> outputs{};
  MachineCosts costs{};
};

namespace partition_detail {

/// A call of a partitioned function, without types.
class PartitionedCall {
 public:
  PartitionedCall(const Mesh& mesh, const PartitionOptions& options, Location where);
  PartitionedCall(const PartitionedCall&) = delete;
  PartitionedCall& operator=(const PartitionedCall&) = delete;
  ~PartitionedCall();
  /// Replaces the divided Tensors of the arguments by placeholders of whole ones.
  void open(const std::vector<tree::Part>& arguments);
  /// Ends the trace and records this rank's program: the values of the results. `counts`: how many are in each result.
  std::vector<Ref<TensorImpl>> run(const std::vector<Ref<TensorImpl>>& results, const std::vector<std::size_t>& counts);
  /// Ends the trace and tells what that would be.
  PartitionReport explain(const std::vector<Ref<TensorImpl>>& results, const std::vector<std::size_t>& counts);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Is the calling thread one of the ranks of the mesh? Throws UserError where it is not.
void check_rank_of(const Mesh& mesh, Location where);

/// How many values are in each part of a result.
template <class R>
std::vector<std::size_t> value_counts(const R& result) {
  std::vector<std::size_t> counts;
  if constexpr (tree::TupleLike<R>)
    std::apply([&](const auto&... part) { (counts.push_back(jit::autodiff_detail::values_of(part).size()), ...); },
               result);
  else counts.push_back(jit::autodiff_detail::values_of(result).size());
  return counts;
}

template <class F>
class Partitioned {
 public:
  using TakesArgumentsOf = F;
  Partitioned(F fn, Mesh mesh, PartitionOptions options, Location where)
      : fn_(std::move(fn)), mesh_(std::move(mesh)), options_(std::move(options)), where_(where) {}

  template <class... A>
  auto operator()(const A&... args) const {
    check_rank_of(mesh_, where_);
    jit::autodiff_detail::parameters_t<F, A...> parameters{args...};  // before the trace: expressions belong outside
    return with(parameters, [](PartitionedCall& call, auto result) {
      using R = decltype(result);
      if constexpr (std::same_as<R, None>) call.run({}, {});
      else {
        const auto values = jit::autodiff_detail::values_of(result);
        const std::vector<Ref<TensorImpl>> parts = call.run(values, value_counts(result));
        return jit::autodiff_detail::with_values(std::move(result), parts);
      }
    });
  }
  /// What a call with these arguments, or others of their types, does on a rank. Needs no ranks.
  template <class... A>
  PartitionReport explain(const A&... args) const {
    jit::autodiff_detail::parameters_t<F, A...> parameters{args...};
    return with(parameters, [](PartitionedCall& call, auto result) {
      if constexpr (std::same_as<decltype(result), None>) return call.explain({}, {});
      else return call.explain(jit::autodiff_detail::values_of(result), value_counts(result));
    });
  }
  const Mesh& mesh() const { return mesh_; }

 private:
  struct None {};
  template <class Parameters, class Then>
  auto with(Parameters& parameters, const Then& then) const {
    PartitionedCall call(mesh_, options_, where_);
    std::apply([&](auto&... each) { call.open({tree::part_of(each)...}); }, parameters);
    if constexpr (std::is_void_v<decltype(std::apply(fn_, std::as_const(parameters)))>) {
      std::apply(fn_, std::as_const(parameters));
      return then(call, None{});
    } else {
      return then(call, jit::autodiff_detail::call_held(fn_, std::as_const(parameters)));
    }
  }

  F fn_;
  Mesh mesh_;
  PartitionOptions options_;
  Location where_;
};
}  // namespace partition_detail

/// A function of whole tensors, divided over a mesh. Arguments and results are this rank's parts of them, by layouts
/// in the options; the function itself sees whole tensors and has no collectives. Their places are chosen so that the
/// fewest bytes go over links, weighed against work that ranks would repeat; shard(), replicate() and lay_out() inside
/// state how a value lies. All ranks of the mesh call it. On a mesh of one it is the function.
///   auto step = jit::compile(dist::partition(jit::value_and_grad<0>(loss), mesh,
///                                            {.inputs = {{}, {{0, "data"}}}}));
///   auto [value, gradient] = step(w, dist::shard(x, {0, "data"}));
/// Gradients are best taken inside; from outside they compute the forward pass again. Random numbers do not depend on
/// the mesh, for generators that are equal on all ranks.
template <class F>
auto partition(F fn, Mesh mesh, PartitionOptions options = {}, Location where = std::source_location::current()) {
  return partition_detail::Partitioned<F>(std::move(fn), std::move(mesh), std::move(options), where);
}

/// The plan of a partitioned function for such arguments.
template <class F, class... A>
PartitionReport explain_partition(const partition_detail::Partitioned<F>& function, const A&... args) {
  return function.explain(args...);
}

}  // namespace dist
SINTER_NAMESPACE_END
