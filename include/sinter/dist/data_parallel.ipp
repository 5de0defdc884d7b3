// Buckets, the check of the start, and the gradients of Variables.
#pragma once

#include <sinter/dist/data_parallel.hpp>

#include <sinter/autodiff/tape.hpp>
#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/rank_state.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/tracing.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace dist {
namespace dist_detail {

inline std::int64_t known_bytes(const Tensor& x) {
  const Dim numel = x.numel();
  return numel.is_static() ? numel.value() * size_of(x.dtype()) : 0;
}

/// This rank's share of the weights of all: between 0 and 1.
inline Tensor share_of_weight(const Tensor& weight, const AverageOptions& options, Location where) {
  const Type& type = weight.impl()->type;
  if (type.shape.rank() != 0)
    throw ShapeError("average", "the weight is " + type.text() + "; a number is required", where,
                     "give the number of examples of this rank");
  const Tensor own = type.dtype == DType::f64 ? weight : cast(weight, DType::f64);
  const Tensor total = all_reduce(In(own, where), Reduce::sum, options.over);
  return sinter::where(total == 0, 0.0, own / total, where);
}

/// One all_reduce for tensors of one dtype and device.
inline void average_bucket(std::span<const Tensor> values, const std::optional<Tensor>& share,
                           const AverageOptions& options, Location where, std::vector<Tensor>& out) {
  std::vector<Tensor> rows;
  for (const Tensor& value : values) rows.push_back(sinter::reshape(In(value, where), Shape{value.numel()}));
  Tensor joined = rows.size() == 1 ? rows[0] : concat(std::span<const Tensor>(rows), 0, where);
  Reduce reduce = Reduce::mean;
  if (share) {  // narrow types are weighted in a wider one
    const DType dtype = joined.dtype();
    const DType wide = promote(dtype, DType::f32);
    const DType real = wide == DType::f64 || wide == DType::c128 ? DType::f64 : DType::f32;
    const Tensor factor = share->device() == joined.device() ? *share : share->to(joined.device());
    joined = cast(sinter::where(factor == 0, 0, cast(joined, wide) * cast(factor, real), where), dtype);
    reduce = Reduce::sum;
  }
  const Tensor averaged = all_reduce(In(joined, where), reduce, options.over);
  Dim next = 0;
  for (const Tensor& value : values) {
    const Dim end = next + value.numel();
    out.push_back(sinter::reshape(In(averaged(slice(next, end)), where), value.shape()));
    next = end;
  }
}

SINTER_DECL std::vector<Tensor> average_list(std::span<const Tensor> values, const std::optional<Tensor>& weight,
                                             const AverageOptions& options, Location where) {
  if (options.bucket_bytes < 1)
    throw UserError("average", "bucket_bytes is " + std::to_string(options.bucket_bytes), where, "at least 1");
  for (const Tensor& value : values)
    if (!is_differentiable(value.dtype()))
      throw DTypeError("average", "the mean of " + value.impl()->type.text(), where,
                       "floating values have a mean; take all_reduce of the others");
  std::optional<Tensor> share;
  if (weight) share = share_of_weight(*weight, options, where);
  std::vector<Tensor> out;
  for (std::size_t begin = 0; begin < values.size();) {
    std::size_t end = begin + 1;
    std::int64_t bytes = known_bytes(values[begin]);
    const auto fits = [&](const Tensor& value) {
      return value.dtype() == values[begin].dtype() && value.device() == values[begin].device() &&
             (bytes += known_bytes(value)) <= options.bucket_bytes;
    };
    while (end < values.size() && fits(values[end])) ++end;
    average_bucket(values.subspan(begin, end - begin), share, options, where, out);
    begin = end;
  }
  return out;
}

/// A number that differs where dtype, shape or a bit of the elements does.
inline std::int64_t fingerprint(const Tensor& value, Location where) {
  const Ref<TensorImpl> dense = dense_value(In(value.to(Device::cpu()), where), "data_parallel");
  const std::string text = dense->type.text();
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a over words of 8 bytes
  const auto add = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 1099511628211u;
    hash ^= hash >> 29;
  };
  for (const char c : text) add(static_cast<unsigned char>(c));
  const std::size_t bytes = as_index(dense->type.shape.numel().value() * size_of(dense->type.dtype));
  for (std::size_t at = 0; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(dense->data()) + at, std::min<std::size_t>(8, bytes - at));
    add(word);
  }
  return static_cast<std::int64_t>(hash);
}

inline void check_start(const std::vector<jit::Parameter>& parameters, const Axis& over, Location where) {
  std::vector<std::int64_t> own;
  for (const jit::Parameter& parameter : parameters) own.push_back(fingerprint(parameter.variable.value(), where));
  const Tensor prints = copy_of(own, {static_cast<std::int64_t>(own.size())}).to(Device::cpu());
  const std::vector<std::int64_t> all = to_vector<std::int64_t>(all_gather(In(prints, where), 0, over));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t parameter = i % own.size();
    if (all[i] == all[parameter]) continue;
    const std::string& name = parameters[parameter].name;
    throw DistError(DistError::Kind::mismatch, "data_parallel",
                    "parameter " + (name.empty() ? std::to_string(parameter) : "'" + name + "'") +
                        " of rank 0 and of rank " + std::to_string(i / own.size()) + " differ",
                    where, "seed all ranks alike, or give them rank 0's: {.start = dist::Start::broadcast}");
  }
}

inline void broadcast_start(const std::vector<jit::Parameter>& parameters, const Axis& over, Location where) {
  std::vector<Tensor> values;
  for (const jit::Parameter& parameter : parameters)
    values.push_back(broadcast(In(parameter.variable.value(), where), 0, over));
  for (std::size_t i = 0; i < values.size(); ++i) parameters[i].variable.set(values[i]);
}

}  // namespace dist_detail

SINTER_DECL DataParallel::DataParallel(std::vector<jit::Parameter> parameters, DataParallelOptions options,
                                       Location where)
    : parameters_(std::move(parameters)), options_(std::move(options)) {
  if (Trace::current() != nullptr)
    throw TraceError("data_parallel", "it is made while a function is traced", where,
                     "make it once, before the function that uses it is called");
  if (parameters_.empty())
    throw UserError("data_parallel", "the model has no Variable", where,
                    "for functions of Tensors there is dist::value_and_grad");
  const jit::NoGradGuard guard;
  if (options_.start == Start::check) dist_detail::check_start(parameters_, options_.over, where);
  if (options_.start == Start::broadcast) dist_detail::broadcast_start(parameters_, options_.over, where);
}

SINTER_DECL void DataParallel::average_with(const std::optional<Tensor>& weight, Location where) const {
  const jit::NoGradGuard guard;
  std::vector<std::shared_ptr<VariableSlot>> slots;
  std::vector<Tensor> gradients;
  // The last parameters have their gradients first: their buckets go first, too.
  for (auto parameter = parameters_.rbegin(); parameter != parameters_.rend(); ++parameter)
    if (const auto* slot = parameter->variable.slot()->gradient()) {
      slots.push_back(*slot);
      gradients.push_back(parameter->variable.grad(where));
    }
  if (slots.empty())
    throw UserError("data_parallel", "no Variable of the model requires a gradient", where,
                    "call jit::requires_grad(model) before the loss is computed");
  const std::vector<Tensor> averages = dist_detail::average_list(gradients, weight, average_options(), where);
  for (std::size_t i = 0; i < slots.size(); ++i) jit::autodiff_detail::assign_outside(slots[i], averages[i].impl());
}

SINTER_DECL void DataParallel::average_gradients(Location where) const { average_with(std::nullopt, where); }
SINTER_DECL void DataParallel::average_gradients(const In& weight) const {
  average_with(Tensor(weight.tensor()), weight.where);
}

SINTER_DECL Tensor DataParallel::backward_of(const In& loss, const std::optional<Tensor>& weight) const {
  const Tensor value(loss.tensor());
  jit::backward(In(value, loss.where));
  average_with(weight, loss.where);
  const jit::NoGradGuard guard;
  const Tensor detached = jit::detach(In(value, loss.where));
  return dist_detail::average_list({&detached, 1}, weight, average_options(), loss.where)[0];
}
SINTER_DECL Tensor DataParallel::backward(const In& loss) const { return backward_of(loss, std::nullopt); }
SINTER_DECL Tensor DataParallel::backward(const In& loss, const In& weight) const {
  return backward_of(loss, Tensor(weight.tensor()));
}

SINTER_DECL Tensor DataParallel::clip_grad_norm(double max_norm, Location where) const {
  std::vector<Variable> variables;
  for (const jit::Parameter& parameter : parameters_) variables.push_back(parameter.variable);
  return jit::clip_grad_norm(variables, max_norm, where);
}

}  // namespace dist
SINTER_NAMESPACE_END
