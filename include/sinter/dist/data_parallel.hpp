// Data parallel training: every rank has the whole model and a part of the batch, and the gradients are averaged. Thin:
// what is here is made of collectives and of what tapes and transforms offer.
#pragma once

#include <sinter/autodiff/parameters.hpp>
#include <sinter/autodiff/transforms.hpp>
#include <sinter/base/config.hpp>
#include <sinter/dist/collectives.hpp>
#include <sinter/expr/equality.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

struct AverageOptions {
  Axis over{};
  /// Tensors are joined to pieces of so many bytes, each of which is one all_reduce.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

/// How models start out equal on all ranks.
enum class Start : std::uint8_t {
  check,      // a parameter that differs is a DistError
  broadcast,  // all get rank 0's
  trust,      // nothing is sent
};

struct DataParallelOptions {
  Axis over{};
  Start start = Start::check;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

namespace dist_detail {
/// Averages in buckets. Without a weight each rank counts as much as the others.
std::vector<Tensor> average_list(std::span<const Tensor> values, const std::optional<Tensor>& weight,
                                 const AverageOptions& options, Location where);
template <class T>
T average_tree(const T& object, const std::optional<Tensor>& weight, const AverageOptions& options, Location where) {
  static_assert(!tree::has_variables<T>(),
                "sinter: dist::average takes Tensors and structs of them; of Variables take "
                "their values, and for their gradients dist::data_parallel");
  std::vector<Tensor> values;
  for (auto& value : jit::autodiff_detail::values_of(object)) values.emplace_back(std::move(value));
  std::vector<Ref<TensorImpl>> averages;
  for (const Tensor& average : average_list(values, weight, options, where)) averages.push_back(average.impl());
  return jit::autodiff_detail::with_values(object, averages);
}
}  // namespace dist_detail

/// The mean over the ranks of a floating Tensor, or of all Tensors in a tuple, container or struct.
template <class T>
T average(const T& object, const AverageOptions& options = {}, Location where = std::source_location::current()) {
  return dist_detail::average_tree(object, std::nullopt, options, where);
}
template <expr_detail::UnfinishedExpr E>
Tensor average(const E& object, const AverageOptions& options = {}, Location where = std::source_location::current()) {
  return average(Tensor(object), options, where);
}
/// The mean weighted by a number of each rank, as how many examples it had: batches that are not divided evenly give
/// what they give on one rank. What a rank of weight 0 has does not count, NaN included.
template <class T>
T average(const T& object, const In& weight, const AverageOptions& options = {}) {
  return dist_detail::average_tree(object, Tensor(weight.tensor()), options, weight.where);
}
template <expr_detail::UnfinishedExpr E>
Tensor average(const E& object, const In& weight, const AverageOptions& options = {}) {
  return average(Tensor(object), weight, options);
}

/// jit::value_and_grad of a loss whose arguments are each rank's own: the loss and the gradients come averaged. By
/// Tensors and structs of them; models of Variables take data_parallel().
template <std::size_t... Wrt, class F>
auto value_and_grad(F loss, AverageOptions options = {}, Location where = std::source_location::current()) {
  return [f = jit::value_and_grad<Wrt...>(std::move(loss), where), options, where](const auto&... args) {
    return average(f(args...), options, where);
  };
}

/// The Variables of a model whose gradients are averaged over ranks. See data_parallel().
class DataParallel {
 public:
  DataParallel(std::vector<jit::Parameter> parameters, DataParallelOptions options, Location where);

  /// loss.backward(), then average_gradients(). Gives the loss averaged. Everything that was added to the gradients
  /// before counts as this rank's: to accumulate, call loss.backward() for all parts but the last.
  Tensor backward(const In& loss) const;
  /// Weighted, as average() is: by the number of this rank's examples where batches are not divided evenly. `weight` is
  /// that of all that was accumulated.
  Tensor backward(const In& loss, const In& weight) const;
  /// Replaces the gradients by their mean over ranks, in buckets. Those of parameters that no loss used are zero, and
  /// take part.
  void average_gradients(Location where = std::source_location::current()) const;
  void average_gradients(const In& weight) const;
  /// As jit::clip_grad_norm, for gradients that are averaged: the same on all ranks.
  Tensor clip_grad_norm(double max_norm, Location where = std::source_location::current()) const;
  const std::vector<jit::Parameter>& parameters() const { return parameters_; }

 private:
  Tensor backward_of(const In& loss, const std::optional<Tensor>& weight) const;
  void average_with(const std::optional<Tensor>& weight, Location where) const;
  AverageOptions average_options() const { return {options_.over, options_.bucket_bytes}; }
  std::vector<jit::Parameter> parameters_;
  DataParallelOptions options_;
};

/// Data parallel training of a model of Variables: any struct or container of them, which goes on being used as it is.
///   auto parallel = dist::data_parallel(model);
///   Tensor loss = parallel.backward(mean(square(model(x) - y)));   // x, y: this rank's part of the batch
///   optimiser step as ever: gradients and parameters are equal on all ranks
template <class Model>
DataParallel data_parallel(const Model& model, DataParallelOptions options = {},
                           Location where = std::source_location::current()) {
  return DataParallel(jit::parameters(model), std::move(options), where);
}

}  // namespace dist
SINTER_NAMESPACE_END
