// One rank's program as a function of whole tensors: shard_map divides its arguments over a mesh, calls it on the
// parts, and joins the results.
#pragma once

#include <sinter/autodiff/trace.hpp>
#include <sinter/base/config.hpp>
#include <sinter/dist/collectives.hpp>
#include <sinter/dist/layout.hpp>
#include <sinter/dist/world.hpp>

#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

namespace dist_detail {
/// A value that all ranks have, and what each has of it: as shard, replicate and the identity, with derivatives for a
/// loss that all ranks have and that counts once.
Tensor part_of_whole(const In& x, const Placement& placement);
Tensor whole_of_parts(const In& x, const Placement& placement);
Tensor copy_of_whole(const In& x, const Axis& over);
Tensor whole_of_copies(const In& x, const Axis& over);
Tensor shard_by(const Tensor& x, const Layout& layout, Location where);
Tensor replicate_by(const Tensor& x, const Layout& layout, Location where);
void check_layouts(std::size_t layouts, std::size_t tensors, const char* what, Location where);
/// Is this thread a rank of a program of so many? Throws UserError where it is one of another number.
bool is_rank_of(const Mesh& mesh, Location where);
/// Values are ready, and may be read by other threads.
void evaluate_all(std::span<const Ref<TensorImpl>> values, Location where);

template <class F>
class ShardMap {
 public:
  ShardMap(F fn, Mesh mesh, std::vector<Layout> in, std::vector<Layout> out, Location where)
      : fn_(std::move(fn)), mesh_(std::move(mesh)), in_(std::move(in)), out_(std::move(out)), where_(where) {}

  template <class... A>
  auto operator()(const A&... args) const {
    const std::tuple<jit::autodiff_detail::parameter_t<A>...> whole{args...};
    return std::apply([this](const auto&... each) { return this->call(each...); }, whole);
  }

 private:
  template <class... A>
  auto call(const A&... args) const {
    static_assert((std::same_as<A, Tensor> && ...), "sinter: the arguments of shard_map are Tensors");
    check_layouts(in_.size(), sizeof...(A), "arguments", where_);
    if (is_rank_of(mesh_, where_)) {
      const MeshScope scope(mesh_, where_);
      return on_rank(args...);
    }
    evaluate_all(std::vector<Ref<TensorImpl>>{args.impl()...}, where_);
    std::optional<decltype(on_rank(args...))> result;
    run(
        {.engine = EngineKind::threads, .mesh = mesh_},
        [&] {
          auto own = on_rank(args...);
          evaluate_all(jit::autodiff_detail::values_of(own), where_);
          if (rank() == 0) result = std::move(own);
        },
        where_);
    return *std::move(result);
  }

  template <class... A>
  auto on_rank(const A&... args) const {
    return on_parts(std::index_sequence_for<A...>{}, args...);
  }
  template <std::size_t... I, class... A>
  auto on_parts(std::index_sequence<I...>, const A&... args) const {
    const std::tuple<A...> parts{shard_by(args, in_[I], where_)...};  // braces: in order
    auto result = jit::autodiff_detail::call_held(fn_, parts);
    const std::vector<Ref<TensorImpl>> values = jit::autodiff_detail::values_of(result);
    check_layouts(out_.size(), values.size(), "results", where_);
    std::vector<Ref<TensorImpl>> joined;
    for (std::size_t i = 0; i < values.size(); ++i)
      joined.push_back(replicate_by(Tensor(values[i]), out_[i], where_).impl());
    return jit::autodiff_detail::with_values(std::move(result), joined);
  }

  F fn_;
  Mesh mesh_;
  std::vector<Layout> in_, out_;
  Location where_;
};
}  // namespace dist_detail

/// A function of whole Tensors that calls `fn` on each rank with its parts of them. Results that are not divided must
/// be equal on all ranks; rank 0's is taken. Inside of run(), of as many ranks, it is called by all of them with equal
/// arguments, is traced and compiled as what it is made of, and has by its arguments the gradients of a function of
/// whole Tensors. Outside it starts a thread for each rank. On a mesh of one it calls `fn`.
///   auto f = dist::shard_map([](Tensor x, Tensor w) { return dist::all_reduce(matmul(x, w), "model"); },
///                            mesh, {{{1, "model"}}, {{0, "model"}}}, {{}});
template <class F>
auto shard_map(F fn, Mesh mesh, std::vector<Layout> in, std::vector<Layout> out,
               Location where = std::source_location::current()) {
  return dist_detail::ShardMap<F>(std::move(fn), std::move(mesh), std::move(in), std::move(out), where);
}

}  // namespace dist
SINTER_NAMESPACE_END
