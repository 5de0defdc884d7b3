// Which attention is computed whole, and its launches.
#pragma once

#include <sinter/backend/cuda/library/attention.hpp>

#include <sinter/backend/cuda/library/attention_gradient_kernels.hpp>
#include <sinter/backend/cuda/library/attention_kernels.hpp>
#include <sinter/backend/cuda/library/library_launch.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/attention.hpp>
#include <sinter/passes/attention_kernels.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// `types`: q, k, v and the mask if there is one.
inline AttentionProblem attention_problem(const Attrs& attrs, std::span<const Type> types) {
  using Op = ops::ScaledDotProductAttention;
  const Shape &q = types[0].shape, &k = types[1].shape, &v = types[2].shape;
  AttentionProblem p;
  p.dtype = types[0].dtype;
  p.allows_tf32 = attrs[planned_precision] == MatmulPrecision::tf32;
  for (int axis = 0; axis + 2 < q.rank(); ++axis) p.batches *= q[axis].value();
  if (q.rank() >= 3 && k[-3].value() > 0) p.sharers = std::max<std::int64_t>(1, q[-3].value() / k[-3].value());
  p.queries = q[-2].value();
  p.keys = k[-2].value();
  p.features = static_cast<int>(q[-1].value());
  p.value_features = static_cast<int>(v[-1].value());
  const bool has_mask = types.size() == 4;
  if (has_mask) p.mask = types[3].dtype == DType::bool_ ? AttentionMask::seen : AttentionMask::added;
  p.is_causal = attrs[Op::causal] != Op::Causal::no;
  if (attrs[Op::causal] == Op::Causal::to_end) p.ahead = p.keys - p.queries;
  p.gives_zeros = Op::gives_zeros(attrs, has_mask);
  p.scale = attrs[Op::scale];
  if (p.scale == 0) p.scale = 1 / std::sqrt(static_cast<double>(p.features));
  return p;
}

/// Kernels count in 32 bits. Extents known only now may be larger.
inline void require_counted(const AttentionProblem& p, std::int64_t blocks, const BoundOp& op, std::string_view name) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::pair<const char*, std::pair<std::int64_t, std::int64_t>> extents[] = {
      {"queries", {p.queries, most / 2}},
      {"keys", {p.keys, most / 2}},
      {"batches", {p.batches, most}},
      {"blocks of queries", {blocks, most}}};
  for (const auto& [what, counted] : extents)
    if (counted.first > counted.second)
      throw DeviceError(
          std::string(name),
          std::to_string(counted.first) + " " + what + ", a kernel counts up to " + std::to_string(counted.second),
          op.where, "compute it for parts of the batch or of the queries");
}

/// A mask lies row-major without gaps; along axes of one, and those that it lacks, it does not move.
inline void place_mask(AttentionArguments& a, const Shape& q, const Shape& mask) {
  std::int64_t stride = 1;
  for (int axis = 0; axis < q.rank(); ++axis) {  // from the last
    const std::int64_t extent = axis < mask.rank() ? mask[mask.rank() - 1 - axis].value() : 1,
                       moves = extent == 1 ? 0 : stride;
    if (axis == 0) a.mask_key = static_cast<std::int32_t>(moves);
    else if (axis == 1) a.mask_row = moves;
    else {
      a.mask_extent[as_index(axis - 2)] = static_cast<std::int32_t>(q[q.rank() - 1 - axis].value());
      a.mask_stride[as_index(axis - 2)] = moves;
    }
    stride *= extent;
  }
}

class AttentionLaunch final : public LibraryLaunch {
 public:
  AttentionLaunch(Gpu& gpu, const BoundOp& op)
      : LibraryLaunch(gpu, op, StepContext{"scaled_dot_product_attention", {}}),
        inputs_(op.inputs),
        problem_(attention_of(op)),
        plan_(problem_, gpu.target().capability, gpu.target().multiprocessors, gpu.target().shared_bytes),
        arguments_(plan_.arguments()) {
    require_counted(problem_, std::max(plan_.blocks(), plan_.pieces() > 1 ? problem_.batches * problem_.queries : 0),
                    op, "scaled_dot_product_attention");
    for (const Type& type : op.types) bytes_.push_back(as_index(type.shape.numel().value() * size_of(type.dtype)));
    if (inputs_ == 4) place_mask(arguments_, op.types[0].shape, op.types[3].shape);
    if (bytes_[inputs_] > 0 && problem_.keys > 0) kernels_ = module_of(gpu, plan_.source());
  }

 private:
  static AttentionProblem attention_of(const BoundOp& op) {
    AttentionProblem problem = attention_problem(op.attrs, op.types.first(op.inputs));
    problem.keeps_levels = op.types.size() - op.inputs == 2;
    return problem;
  }
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  static bool is_aligned(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; }

  void enqueue(void* const* operands) override {
    if (kernels_ == nullptr) {
      for (std::size_t i = inputs_; i < bytes_.size(); ++i) fill(operands[i], 0, bytes_[i]);  // no level is read then
      return;
    }
    // Kernels read and write by 16 bytes; what does not lie so passes through memory that does.
    std::size_t room = padded(plan_.parts_bytes());
    for (std::size_t i = 0; i <= inputs_; ++i)
      if (i != 3 || inputs_ == 3)
        if (!is_aligned(operands[i])) room += padded(bytes_[i]);
    char* at = room > 0 ? workspace(room) : nullptr;
    AttentionArguments a = arguments_;
    a.parts = reinterpret_cast<float*>(at);
    at += padded(plan_.parts_bytes());
    const auto place = [&](std::size_t i) -> void* {
      if (is_aligned(operands[i])) return operands[i];
      char* const own = at;
      at += padded(bytes_[i]);
      return own;
    };
    void* from[3] = {place(0), place(1), place(2)};
    for (std::size_t i = 0; i < 3; ++i)
      if (from[i] != operands[i]) copy(from[i], operands[i], bytes_[i]);
    a.q = from[0];
    a.k = from[1];
    a.v = from[2];
    if (inputs_ == 4) a.mask = operands[3];
    if (problem_.keeps_levels) a.levels = static_cast<float*>(operands[inputs_ + 1]);
    a.out = place(inputs_);
    launch_blocks(*kernels_, 0, plan_.blocks(), plan_.threads(), plan_.shared_bytes(), a);
    if (plan_.pieces() > 1) launch_blocks(*kernels_, 1, problem_.batches * problem_.queries, 128, 0, a);
    if (a.out != operands[inputs_]) copy(operands[inputs_], a.out, bytes_[inputs_]);
  }

  std::size_t inputs_;
  AttentionProblem problem_;
  AttentionPlan plan_;
  AttentionArguments arguments_;
  std::vector<std::size_t> bytes_;
  std::shared_ptr<const Module> kernels_;  // null: there is nothing to see, or nothing to compute
};

/// The gradients, packed one after the other; from `types` of the gradient's operands.
class AttentionGradientLaunch final : public LibraryLaunch {
 public:
  AttentionGradientLaunch(Gpu& gpu, const BoundOp& op, const std::vector<Type>& forward, bool has_levels)
      : LibraryLaunch(gpu, op, StepContext{"scaled_dot_product_attention_gradient", {}}),
        has_levels_(has_levels),
        has_mask_(forward.size() == 4),
        problem_(attention_of(op.attrs, forward, has_levels)),
        plan_(problem_, gpu.target().capability, gpu.target().shared_bytes) {
    for (const AttentionGradientPlan::Tile& tile : plan_.tiles())
      require_counted(problem_, plan_.blocks(tile), op, "scaled_dot_product_attention_gradient");
    for (const Type& type : op.types) bytes_.push_back(as_index(type.shape.numel().value() * size_of(type.dtype)));
    has_work_ = bytes_[3] > 0 && problem_.keys > 0;
    if (!has_work_) return;
    for (const AttentionGradientPlan::Tile& tile : plan_.tiles()) {
      parts_.push_back({&tile, module_of(gpu, plan_.source(tile)), plan_.arguments(tile)});
      if (has_mask_) place_mask(parts_.back().arguments, op.types[0].shape, forward[3].shape);
    }
  }

 private:
  static AttentionProblem attention_of(const Attrs& attrs, const std::vector<Type>& forward, bool has_levels) {
    AttentionProblem problem = attention_problem(attrs, forward);
    problem.keeps_levels = has_levels;
    return problem;
  }
  struct Part {
    const AttentionGradientPlan::Tile* tile;
    std::shared_ptr<const Module> kernel;
    AttentionArguments arguments;
  };
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  static bool is_aligned(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; }

  void enqueue(void* const* operands) override {
    const std::size_t mask = has_levels_ ? 6 : 5, first_result = has_mask_ ? mask + 1 : mask;
    const std::size_t bytes[3] = {bytes_[0], bytes_[1] * sharers(), bytes_[2] * sharers()};
    char* given[3] = {static_cast<char*>(operands[first_result])};
    for (std::size_t i = 1; i < 3; ++i)  // results of their own, or end to end
      given[i] = has_levels_ ? static_cast<char*>(operands[first_result + i]) : given[i - 1] + bytes[i - 1];
    if (!has_work_) {
      for (std::size_t i = 0; i < 3; ++i)
        if (bytes[i] > 0) fill(given[i], 0, bytes[i]);
      return;
    }
    // Gradients that do not begin at a multiple of 16 bytes have places of their own first.
    std::size_t room = padded(plan_.stats_bytes());
    for (std::size_t i = 0; i < 3; ++i) room += is_aligned(given[i]) ? 0 : padded(bytes[i]);
    for (std::size_t i = 0; i < 5; ++i) room += is_aligned(operands[i]) ? 0 : padded(bytes_[i]);
    char* at = workspace(room);
    auto* const stats = reinterpret_cast<float*>(at);
    at += padded(plan_.stats_bytes());
    void* from[5];
    for (std::size_t i = 0; i < 5; ++i) {
      from[i] = operands[i];
      if (is_aligned(operands[i])) continue;
      copy(at, operands[i], bytes_[i]);
      from[i] = at;
      at += padded(bytes_[i]);
    }
    char* to[3] = {given[0], given[1], given[2]};
    for (std::size_t i = 0; i < 3; ++i) {
      if (is_aligned(given[i])) continue;
      to[i] = at;
      at += padded(bytes[i]);
    }
    for (const Part& part : parts_) {
      AttentionArguments a = part.arguments;
      a.q = from[0];
      a.k = from[1];
      a.v = from[2];
      a.result = from[3];
      a.dout = from[4];
      if (has_levels_) a.levels = static_cast<float*>(operands[5]);
      if (has_mask_) a.mask = operands[mask];
      a.stats = stats;
      a.dq = to[0];
      a.dk = to[1];
      a.dv = to[2];
      launch_blocks(*part.kernel, 0, plan_.blocks(*part.tile), part.tile->threads(), plan_.shared_bytes(*part.tile), a);
    }
    for (std::size_t i = 0; i < 3; ++i)
      if (to[i] != given[i]) copy(given[i], to[i], bytes[i]);
  }
  /// Gradients of shared keys are those of each head, which their reader adds up.
  std::size_t sharers() const { return as_index(problem_.sharers); }

  bool has_levels_, has_mask_;
  AttentionProblem problem_;
  AttentionGradientPlan plan_;
  std::vector<std::size_t> bytes_;
  bool has_work_ = false;
  std::vector<Part> parts_;
};

/// After q, k, v, out and dout come the levels if there are any, and the mask if there is one.
inline std::unique_ptr<Launch> make_gradient_launch(const Attrs& attrs, std::span<const Type> types, bool has_levels) {
  const std::size_t mask = has_levels ? 6 : 5, inputs = types.size() - (has_levels ? 3 : 1);
  std::vector<Type> forward(types.begin(), types.begin() + 3);
  if (inputs > mask) forward.push_back(types[mask]);
  return std::make_unique<AttentionGradientLaunch>(
      Gpu::get(types.back().device, "scaled_dot_product_attention_gradient"),
      BoundOp{nullptr, attrs, types, inputs, {}}, forward, has_levels);
}
inline std::unique_ptr<Launch> launch_attention_gradient(const Attrs& attrs, std::span<const Type> types) {
  return make_gradient_launch(attrs, types, false);
}
inline std::unique_ptr<Launch> launch_gradient_with_levels(const Attrs& attrs, std::span<const Type> types) {
  return make_gradient_launch(attrs, types, true);
}

template <std::size_t results>
std::unique_ptr<Launch> launch_attention(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<AttentionLaunch>(Gpu::get(types.back().device, "scaled_dot_product_attention"),
                                           BoundOp{nullptr, attrs, types, types.size() - results, {}});
}

/// The launches of an operation, by what it is; null: it is no attention.
inline Intrinsic attention_launch(const OpInfo* op) {
  if (op == &op_info<ops::ScaledDotProductAttention>) return launch_attention<1>;
  if (op == &op_info<ops::AttentionWithLevels>) return launch_attention<2>;
  if (op == &op_info<ops::ScaledDotProductAttentionGradient>) return launch_attention_gradient;
  return op == &op_info<ops::AttentionGradientWithLevels> ? launch_gradient_with_levels : nullptr;
}

/// Whether the graph has the gradient of this attention, too.
inline bool has_gradient(const Graph& graph, const Node& node) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& other) {
    return other.op == &op_info<ops::ScaledDotProductAttentionGradient> &&
           std::equal(node.inputs.begin(), node.inputs.begin() + 3, other.inputs.begin());
  });
}

/// Whether the gradient's forward pass is in the same graph.
inline bool reads_attention(const Graph& graph, const Node& gradient) {
  return gradient.op == &op_info<ops::AttentionGradientWithLevels> ||
         graph.node(gradient.inputs[3]).op == &op_info<ops::ScaledDotProductAttention>;
}

/// Empty: it is computed whole.
inline std::string why_not_whole(Gpu& gpu, const Graph& graph, const Node& node, MatmulPrecision precision) {
  const Shape &q = graph.type(node.inputs[0]).shape, &v = graph.type(node.inputs[2]).shape;
  const DType dtype = node.types[0].dtype;
  using Gradient = ops::ScaledDotProductAttentionGradient;
  if (node.op == &op_info<Gradient> && node.attrs[Gradient::packing] == Gradient::Packing::batch)
    return "gradients that are packed by batch";
  if (dtype != DType::f32 && !is_half(dtype)) return std::string(name(dtype));
  if (gpu.target().capability < 80) return "a GPU before sm_80";
  if (!q[-1].is_static() || !v[-1].is_static()) return "features of unknown number";
  const std::int64_t features = q[-1].value(), value_features = v[-1].value();
  if (features == 0 || value_features == 0) return "no features";
  if (std::max(features, value_features) > AttentionProblem::most_features)
    return std::to_string(std::max(features, value_features)) + " features, more than " +
           std::to_string(AttentionProblem::most_features);
  if (as_index(q.rank()) > AttentionProblem::mask_axes + 2) return "more batch axes than a mask may have";
  for (const Value& input : node.inputs)
    for (const Dim extent : graph.type(input).shape)
      if (extent.is_static() && extent.value() > std::numeric_limits<std::int32_t>::max() / 2)
        return "an extent of more than 2^30";
  const bool is_gradient = node.op == &op_info<Gradient> || node.op == &op_info<ops::AttentionGradientWithLevels>;
  AttentionProblem problem;
  problem.dtype = dtype;
  problem.features = static_cast<int>(features);
  problem.value_features = static_cast<int>(value_features);
  problem.queries = 1024;  // the largest tiles
  const bool is_full = dtype == DType::f32 && precision != MatmulPrecision::tf32;
  const bool has_few = q[-2].is_static() && q[-2].value() <= 64;
  const bool is_in_parts = is_full && !has_few &&
                           AttentionPlan(problem, gpu.target().capability, 1, gpu.target().shared_bytes).is_in_parts();
  // Products of full f32 that leave their scores in memory are as fast as the ordinary units, but where half of the
  // scores are hidden.
  const bool is_by_products =
      is_full && node.attrs[ops::ScaledDotProductAttention::causal] == ops::ScaledDotProductAttention::Causal::no;
  if (is_gradient) {
    // Kernels of parts want the levels of the forward pass.
    if (is_by_products && !(is_in_parts && reads_attention(graph, node)))
      return "a gradient in full f32 of scores that all count";
    problem.allows_tf32 = !is_full;
    const bool is_open = AttentionGradientPlan(problem, gpu.target().capability, gpu.target().shared_bytes).is_open();
    return is_open ? "" : "a gradient of more than 128 features";
  }
  // Its decomposed gradient computes the weights in any case.
  if (is_by_products && !is_in_parts && has_gradient(graph, node)) return "its gradient is in full f32";
  for (const bool allows_tf32 : {false, true}) {
    problem.allows_tf32 = allows_tf32;
    if (!AttentionPlan(problem, gpu.target().capability, 1, gpu.target().shared_bytes).is_open())
      return "tiles beyond shared memory";
  }
  return {};
}

}  // namespace cuda_detail

SINTER_DECL Intrinsic attention_intrinsic(Gpu& gpu, const Graph& graph, const Node& node, MatmulPrecision precision) {
  const Intrinsic launch = cuda_detail::attention_launch(node.op);
  if (launch == nullptr) return nullptr;
  const std::string why = cuda_detail::why_not_whole(gpu, graph, node, precision);
  if (why.empty()) return launch;
  if (is_logged("cuda")) note("cuda", "attention is computed by its products: " + why);
  return nullptr;
}

}  // namespace cuda
SINTER_NAMESPACE_END
