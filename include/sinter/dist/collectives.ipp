// The ops: one payload for all collectives.
#pragma once

#include <sinter/dist/collectives.hpp>

#include <sinter/autodiff/vectorise.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/laid_out.hpp>
#include <sinter/dist/rank_state.hpp>
#include <sinter/dist/uneven.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/call_context.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/host_function.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/val_ops.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace ops {
struct RankCollective : HostEffect<RankCollective> {
  static constexpr OpInfo info{.name = "collective", .arity = -1, .kind = OpKind::effect};
};
}  // namespace ops

namespace dist {
namespace dist_detail {

/// Whose values a collective is between. The derivatives of those of ranks are of the sum of their losses; whole values
/// are the same on all ranks, and so is the loss: it counts once.
enum class Between : std::uint8_t {
  ranks,
  whole_and_parts,  // shard, all_gather, all_reduce, and permute as the identity: each the other's derivative
  parts_and_whole,  // the identity of parts that are equal: its derivative is divided by their number
};

/// What a node does. Which ranks take part is looked up when it runs.
class CollectiveFunction final : public HostFunction {
 public:
  struct Parts {
    Collective what;
    Axis over;
    Mesh mesh;                 // when it was traced; without axes for a collective of all ranks
    int size = 1;              // ranks of the group when it was traced
    bool on_devices = false;   // the engine takes their memory
    bool is_enqueued = false;  // and does not wait there
    bool is_derivative = false;
    bool follows_mesh = false;  // the mesh is that of whoever calls the compiled function
    Between between = Between::ranks;
    Location where{};  // calls of other lines are others: errors name the line, and plans are shared by equal calls
  };
  explicit CollectiveFunction(Parts parts) : is(std::move(parts)) {}

  std::string name() const override { return std::string(dist::name(is.what.kind)); }
  std::string text() const override { return name() + " over " + is.over.text(); }
  bool is_a(TypeKey type) const override { return type == type_key<CollectiveFunction>() || HostFunction::is_a(type); }
  bool same_as(const Payload& other) const override {
    const auto* function = payload_cast<CollectiveFunction>(&other);
    return function != nullptr && is.what == function->is.what && is.over == function->is.over &&
           is.mesh == function->is.mesh && is.size == function->is.size && is.on_devices == function->is.on_devices &&
           is.is_enqueued == function->is.is_enqueued && is.is_derivative == function->is.is_derivative &&
           is.follows_mesh == function->is.follows_mesh && is.between == function->is.between &&
           is.where.line == function->is.where.line && is.where.file == function->is.where.file;
  }
  /// In a program of another number of ranks it is another operation, and says so when it runs.
  bool may_be_retrace_of(const Payload& other) const override {
    const auto* function = payload_cast<CollectiveFunction>(&other);
    return function != nullptr && is.what == function->is.what && is.over == function->is.over &&
           is.between == function->is.between;
  }
  bool runs_on_devices() const override { return is.on_devices; }
  bool communicates() const override;
  bool has_phases() const override;
  void run(HostCall& call, std::span<const HostView> in, std::span<const HostView> out) const override;
  void infer(const InferArgs& args, TypeList& out) const override;
  ValList vjp(const VjpArgs& args) const override;
  void batch(const BatchArgs& args, BatchedList& results) const override;
  bool is_of_backward() const { return is.is_derivative; }

 private:
  Val derivative(const VjpArgs& args, Val x, Collective what) const;
  Val derivative_of_whole(const VjpArgs& args) const;
  Val gradient_of_extreme(const VjpArgs& args) const;

  Parts is;
};

/// Not with SINTER_DIST_OVERLAP=0: then collectives run in their place, on the queue of the kernels.
inline bool CollectiveFunction::communicates() const {
  static const bool overlaps = [] {
    const char* const text = std::getenv("SINTER_DIST_OVERLAP");
    return text == nullptr || std::string_view(text) != "0";
  }();
  return overlaps && !is_local(is.what.kind) && is.what.kind != CollectiveKind::barrier;
}

/// With SINTER_DIST_GRAPHS=1; else collectives stand between graphs.
inline bool CollectiveFunction::has_phases() const {
  static const bool may_be_recorded = [] {
    const char* const text = std::getenv("SINTER_DIST_GRAPHS");
    return text != nullptr && *text != '\0' && std::string_view(text) != "0";
  }();
  return may_be_recorded && is.is_enqueued && communicates();
}

inline void CollectiveFunction::run(HostCall& call, std::span<const HostView> in, std::span<const HostView> out) const {
  RankState& state = current_rank();
  const int size = state.size_along(is.mesh, is.over, call.where);
  if (size != is.size || (is.mesh.has_axes() && is.mesh.size() != state.size()))
    throw DistError(DistError::Kind::mismatch, name(),
                    "it was traced for " + std::to_string(is.size) + " ranks over " + is.over.text() +
                        (is.mesh.has_axes() ? " of the mesh " + is.mesh.text() : "") + ", and runs in a program of " +
                        std::to_string(state.size()),
                    call.where, "compile the function inside of dist::run, or once for each mesh");
  if (is.follows_mesh && !(state.mesh == is.mesh))
    throw DistError(DistError::Kind::mismatch, name(),
                    "it was traced on the mesh " + is.mesh.text() + ", and is called on the mesh " + state.mesh.text(),
                    call.where,
                    "compile the function once for each mesh, or open the dist::MeshScope inside of the function");
  const HostCall::Phase phase = call.phase();
  if (phase == HostCall::Phase::look) {
    Communicator* const group =
        state.engine != nullptr ? state.known_group_along(is.mesh, is.over, call.where) : nullptr;
    if (RecordedSource* const source = group != nullptr ? group->source() : nullptr) call.note_source(*source);
    return;
  }
  const bool is_beside = phase == HostCall::Phase::whole && is.is_enqueued && communicates();
  const std::string over = is.over.text();
  const Request request{is.what,
                        in.empty() ? nullptr : in.data(),
                        out.empty() ? nullptr : out.data(),
                        call.where,
                        over,
                        is_beside ? call.queue_beside() : call.device_queue(),
                        call.device()};
  if (is_local(is.what.kind) || (size == 1 && (state.engine == nullptr || request.queue == nullptr)))
    return run_alone(request, state.index_along(is.mesh, is.over, call.where), size);
  Communicator& group = state.group_along(is.mesh, is.over, call.where);
  if (phase == HostCall::Phase::begin) group.meet(request);
  else if (phase == HostCall::Phase::enqueue) group.enqueue(request);
  else group.run(request);
}

inline void CollectiveFunction::infer(const InferArgs& args, TypeList& out) const {
  const Collective& what = is.what;
  if (what.kind == CollectiveKind::barrier) return;
  if (what.kind == CollectiveKind::axis_index) {
    out.push_back({DType::i64, Device::cpu(), {}});
    return;
  }
  Type type = args.in[0];
  const auto scale = [&](int axis, bool is_divided) {
    type.shape.set(axis, is_divided ? type.shape[axis] / Dim(is.size) : type.shape[axis] * Dim(is.size));
  };
  if (what.kind == CollectiveKind::reduce_scatter || what.kind == CollectiveKind::shard) scale(what.axis, true);
  if (what.kind == CollectiveKind::all_gather || what.kind == CollectiveKind::unshard) scale(what.axis, false);
  if (what.kind == CollectiveKind::all_to_all) {
    scale(what.split_axis, true);
    scale(what.axis, false);
  }
  out.push_back(type);
}

/// The last collective of the backward pass so far, so that they keep their order; else something true.
inline Value token_of_backward(GraphBuilder& builder, std::int32_t forward) {
  const auto& nodes = builder.graph().nodes();
  for (std::size_t id = nodes.size(); id-- > as_index(forward + 1);) {
    const Node& node = nodes[id];
    const auto* function = payload_cast<CollectiveFunction>(node.attrs.payload.get());
    if (function != nullptr && function->is_of_backward())
      return {static_cast<std::int32_t>(id), static_cast<std::int32_t>(node.types.size()) - 1};
  }
  return builder.add(op_info<ops::Full>, {}, Attrs{.integer = 1, .dtype = DType::bool_, .has_dtype = true});
}

/// Another collective over the same ranks, in the backward pass.
inline Val CollectiveFunction::derivative(const VjpArgs& args, Val x, Collective what) const {
  GraphBuilder& builder = *x.builder;
  Parts parts = is;
  parts.what = std::move(what);
  parts.is_derivative = true;
  parts.follows_mesh = false;  // that of the forward pass
  parts.on_devices = is.on_devices && !is_local(parts.what.kind);
  parts.is_enqueued = is.is_enqueued && parts.on_devices;
  if (is.between != Between::ranks) parts.between = Between::whole_and_parts;
  Attrs attrs;
  attrs.payload = std::make_shared<CollectiveFunction>(std::move(parts));
  const Value token = token_of_backward(builder, args.out.value.node);
  const Value made = builder.add(op_info<ops::RankCollective>, {x.value, token}, std::move(attrs), args.where);
  return {&builder, made, args.where};
}

/// Linear maps between values that all ranks have and what each has of them; each with its transpose.
inline Val CollectiveFunction::derivative_of_whole(const VjpArgs& args) const {
  using enum CollectiveKind;
  Collective back = is.what;
  switch (is.what.kind) {
    case shard: back.kind = all_gather; break;
    case all_gather: back.kind = shard; break;
    case all_reduce:
      back.kind = permute;
      for (int r = 0; r < is.size; ++r) back.pairs.emplace_back(r, r);
      break;
    default:  // the identity
      if (is.between == Between::parts_and_whole)
        return derivative(args, args.dout, back) / static_cast<double>(is.size);
      back = {.kind = all_reduce};
  }
  return derivative(args, args.dout, back);
}

/// The gradient goes to the ranks that have the value, in equal parts.
inline Val CollectiveFunction::gradient_of_extreme(const VjpArgs& args) const {
  const Collective add{.kind = CollectiveKind::all_reduce};
  const Val has_it = cast(eq(args.in[0], args.out), args.in[0].dtype());
  return derivative(args, args.dout, add) * has_it / derivative(args, has_it, add);
}

inline ValList CollectiveFunction::vjp(const VjpArgs& args) const {
  if (!args.dout) return ValList(args.in.size(), Val{});
  if (is.between != Between::ranks) return {derivative_of_whole(args)};
  using enum CollectiveKind;
  Collective back = is.what;
  const bool is_linear = is.what.reduce == Reduce::sum || is.what.reduce == Reduce::mean;
  const auto refuse = [&] {
    throw UserError(name(), "its " + std::string(dist::name(is.what.reduce)) + " has no derivative", args.where,
                    "take Reduce::sum or Reduce::mean, or keep its operand from being differentiated with "
                    "stop_gradient");
  };
  switch (is.what.kind) {
    case all_reduce:
      if (is_linear) return {derivative(args, args.dout, back)};
      if (is.what.reduce == Reduce::prod) refuse();
      return {gradient_of_extreme(args)};
    case reduce_scatter:
    case reduce: {
      if (!is_linear) refuse();
      back.kind = is.what.kind == reduce ? broadcast : all_gather;
      back.reduce = Reduce::sum;
      const Val gradient = derivative(args, args.dout, back);
      return {is.what.reduce == Reduce::mean ? gradient / static_cast<double>(is.size) : gradient};
    }
    case all_gather: back.kind = reduce_scatter; break;
    case all_to_all: std::swap(back.axis, back.split_axis); break;
    case broadcast: back.kind = reduce; break;
    case permute:
      for (auto& [from, to] : back.pairs) std::swap(from, to);
      break;
    case shard: back.kind = unshard; break;
    case unshard: back.kind = shard; break;
    default: return ValList(args.in.size(), Val{});
  }
  return {derivative(args, args.dout, back)};
}

/// The same for the whole batch, whose axis comes first. What NCCL divides or joins does, as it takes no other.
inline void CollectiveFunction::batch(const BatchArgs& args, BatchedList& results) const {
  using enum CollectiveKind;
  const int axis = is.what.axis;
  const bool has_one_axis = is.what.kind == all_gather || is.what.kind == reduce_scatter ||
                            (is.what.kind == all_to_all && is.what.split_axis == axis);
  const bool goes_first = is.is_enqueued && has_one_axis;
  Parts parts = is;
  parts.what.axis = goes_first ? 0 : axis + 1;
  parts.what.split_axis = goes_first ? 0 : is.what.split_axis + 1;
  Attrs attrs;
  attrs.payload = std::make_shared<CollectiveFunction>(std::move(parts));
  if (!goes_first) return ops_detail::batch_as_whole(args, std::move(attrs), results);
  std::vector<Val> operands(args.in.begin(), args.in.end());
  operands[0] = ops_detail::move_axis(operands[0], axis + 1, 0);
  BatchArgs turned = args;
  turned.in = operands;
  ops_detail::batch_as_whole(turned, std::move(attrs), results);
  results[0].value = ops_detail::move_axis(results[0].value, 0, axis + 1);
}

// ---- recording ------------------------------------------------------------------------------------------------------

inline void check_divides(const Type& type, int axis, int size, const Axis& over, std::string_view op, Location where) {
  if (type.shape[axis] % Dim(size) == 0) return;
  throw ShapeError(op,
                   "axis " + std::to_string(axis) + " of " + type.text() + " is divided over the " +
                       std::to_string(size) + " ranks of " + over.text(),
                   where, "make its extent a multiple of their number, with pad() for instance");
}

inline void check_reduction(Reduce reduce, DType dtype, std::string_view op, Location where) {
  const std::string of = std::string(dist::name(reduce)) + " of " + std::string(sinter::name(dtype));
  if (is_complex(dtype) && reduce != Reduce::sum && reduce != Reduce::mean)
    throw DTypeError(op, of, where, "complex numbers have a sum and a mean; take the others of real() and imag()");
  if (reduce == Reduce::mean && !is_differentiable(dtype))
    throw DTypeError(op, of, where, "take the sum, or cast the operand to a floating dtype");
  if (dtype == DType::bool_ && reduce != Reduce::maximum && reduce != Reduce::minimum)
    throw DTypeError(op, of, where, "Reduce::maximum is any, Reduce::minimum is all; or cast the operand to i64");
}

inline Tensor record_collective(Collective what, const Axis& over, const In* x, Location where,
                                Between between = Between::ranks) {
  const RankState& state = current_rank();
  const std::string_view op = dist::name(what.kind);
  if (partition_detail::partitioned_mesh() != nullptr)
    throw UserError(op, "a collective in a function that dist::partition divides", where,
                    "leave it out: the function is one of whole tensors, and collectives are put in for it");
  CollectiveFunction::Parts parts;
  parts.size = state.size_along(state.mesh, over, where);
  parts.between = between;
  if (!over.names.empty()) parts.mesh = state.mesh;
  parts.follows_mesh = !over.names.empty() && Trace::current() != nullptr && !state.is_mesh_of_trace;
  call_context().use(ContextKey::ranks);
  if (parts.follows_mesh) call_context().use(ContextKey::mesh);
  parts.on_devices = state.engine != nullptr && state.engine->takes_device_memory() && !is_local(what.kind);
  parts.is_enqueued = parts.on_devices && state.engine->enqueues();
  std::vector<Leaf> operands;
  if (x != nullptr) {
    Ref<TensorImpl> value = x->tensor();
    const Type& type = value->type;
    using enum CollectiveKind;
    if (what.kind == all_reduce || what.kind == reduce || what.kind == reduce_scatter)
      check_reduction(what.reduce, type.dtype, op, where);
    const bool has_axis = what.kind == reduce_scatter || what.kind == all_gather || what.kind == all_to_all ||
                          what.kind == shard || what.kind == unshard;
    if (has_axis) what.axis = normalise_axis(what.axis, type.shape.rank(), op, where);
    if (what.kind == all_to_all) what.split_axis = normalise_axis(what.split_axis, type.shape.rank(), op, where);
    if (what.kind == reduce_scatter || what.kind == shard) check_divides(type, what.axis, parts.size, over, op, where);
    if (what.kind == all_to_all) check_divides(type, what.split_axis, parts.size, over, op, where);
    operands.emplace_back(std::move(value));
  }
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < parts.size; };
  if (!is_rank(what.root))
    throw IndexError(op, "the root is rank " + std::to_string(what.root) + " of " + std::to_string(parts.size), where);
  for (std::size_t i = 0; i < what.pairs.size(); ++i) {
    const auto [from, to] = what.pairs[i];
    const auto is_same = [&](const std::pair<int, int>& pair) { return pair.first == from || pair.second == to; };
    const auto before = what.pairs.begin() + static_cast<std::ptrdiff_t>(i);
    if (is_rank(from) && is_rank(to) && std::none_of(what.pairs.begin(), before, is_same)) continue;
    throw IndexError(op,
                     "the pair " + std::to_string(from) + " to " + std::to_string(to) + " of " +
                         std::to_string(parts.size) + " ranks",
                     where, "ranks count from 0; each sends once and receives once at most");
  }
  parts.what = std::move(what);
  parts.over = over;
  parts.where = where;
  Attrs attrs;
  attrs.payload = std::make_shared<CollectiveFunction>(std::move(parts));
  std::vector<Ref<TensorImpl>> values = record_effect(op_info<ops::RankCollective>, operands, std::move(attrs), where);
  return values.empty() ? Tensor() : Tensor(std::move(values[0]));
}

/// NCCL divides and joins along the first axis alone.
inline bool needs_first_axis(const Tensor& x) {
  call_context().use(ContextKey::ranks);
  const auto& engine = current_rank().engine;
  return engine != nullptr && engine->takes_device_memory() && x.device() != Device::cpu();
}
/// collective(x) along axis 0 of x with the two axes exchanged.
template <class F>
Tensor along_first_axis(const In& x, int axis, std::string_view op, const F& collective) {
  const Tensor value(x.tensor());
  const int from = normalise_axis(axis, value.rank(), op, x.where);
  if (from == 0 || !needs_first_axis(value)) return collective(In(value, x.where), from);
  const Tensor turned = sinter::transpose(In(value, x.where), 0, from);
  return sinter::transpose(In(collective(In(turned, x.where), 0), x.where), 0, from);
}

/// all_to_all as one of whole blocks, which come first.
inline Tensor exchange_blocks(const In& x, int split_axis, int axis, const Axis& over) {
  const Tensor value(x.tensor());
  const int size = axis_size(over, x.where);
  check_divides(value.impl()->type, split_axis, size, over, "all_to_all", x.where);
  Shape divided = value.shape();
  divided.set(split_axis, divided[split_axis] / Dim(size));
  Shape joined = divided;
  joined.set(axis, joined[axis] * Dim(size));
  divided.insert(split_axis, size);
  const Tensor blocks = sinter::moveaxis(In(sinter::reshape(In(value, x.where), divided), x.where), split_axis, 0);
  const In block(blocks, x.where);
  const Tensor sent = record_collective({.kind = CollectiveKind::all_to_all}, over, &block, x.where);
  return sinter::reshape(In(sinter::moveaxis(In(sent, x.where), 0, axis), x.where), joined);
}

inline Tensor shard_between(const In& x, const Placement& placement, Between between) {
  const Tensor value(x.tensor());
  const int axis = normalise_axis(placement.axis, value.rank(), "shard", x.where);
  const auto shard_equal = [&](const In& whole) {
    return record_collective({.kind = CollectiveKind::shard, .axis = axis}, placement.over, &whole, x.where, between);
  };
  const auto extents = uneven_extents(value, axis, placement.over, x.where);
  if (extents.empty()) return shard_equal(In(value, x.where));
  const Tensor blocks = to_blocks(In(value, x.where), axis, extents);
  return from_block(In(shard_equal(In(blocks, x.where)), x.where), axis, placement.over, extents);
}
inline Tensor gather_between(const In& x, const Placement& placement, Between between) {
  const auto gather_equal = [&](const In& part) {
    return along_first_axis(part, placement.axis, "all_gather", [&](const In& value, int along) {
      return record_collective({.kind = CollectiveKind::all_gather, .axis = along}, placement.over, &value, x.where,
                               between);
    });
  };
  if (placement.extent == 0) return gather_equal(x);
  const Tensor value(x.tensor());
  const int axis = normalise_axis(placement.axis, value.rank(), "all_gather", x.where);
  if (placement.extent < 0)
    throw ShapeError("all_gather", "the extent of the whole axis is " + std::to_string(placement.extent), x.where,
                     "it is 0, for equal parts, or above");
  const auto extents = part_extents(placement.extent, placement.over, x.where);
  const Tensor block = to_block(In(value, x.where), axis, placement.over, extents, "all_gather");
  const Tensor blocks = gather_equal(In(block, x.where));
  return are_equal(extents) ? blocks : from_blocks(In(blocks, x.where), axis, extents);
}
SINTER_DECL Tensor part_of_whole(const In& x, const Placement& placement) {
  return shard_between(x, placement, Between::whole_and_parts);
}
SINTER_DECL Tensor whole_of_parts(const In& x, const Placement& placement) {
  return gather_between(x, placement, Between::whole_and_parts);
}
inline Tensor identity(const In& x, const Axis& over, Between between) {
  Collective same{.kind = CollectiveKind::permute};
  for (int r = 0; r < axis_size(over, x.where); ++r) same.pairs.emplace_back(r, r);
  return record_collective(std::move(same), over, &x, x.where, between);
}
SINTER_DECL Tensor copy_of_whole(const In& x, const Axis& over) { return identity(x, over, Between::whole_and_parts); }
SINTER_DECL Tensor whole_of_copies(const In& x, const Axis& over) {
  return identity(x, over, Between::parts_and_whole);
}

}  // namespace dist_detail

SINTER_DECL Device device() {
  const dist_detail::RankState& state = dist_detail::current_rank();
  call_context().use(ContextKey::ranks);
  if (state.engine != nullptr && state.engine->takes_device_memory()) call_context().use(ContextKey::rank);
  return state.engine != nullptr ? state.engine->device() : default_device();
}

SINTER_DECL Tensor all_reduce(const In& x, Reduce reduce, const Axis& over) {
  return dist_detail::record_collective({.kind = CollectiveKind::all_reduce, .reduce = reduce}, over, &x, x.where);
}
SINTER_DECL Tensor reduce_scatter(const In& x, int axis, Reduce reduce, const Axis& over) {
  const Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "reduce_scatter", x.where);
  if (const auto extents = dist_detail::uneven_extents(whole, axis, over, x.where); !extents.empty()) {
    const Tensor blocks = dist_detail::to_blocks(In(whole, x.where), axis, extents);
    const Tensor block = reduce_scatter(In(blocks, x.where), axis, reduce, over);
    return dist_detail::from_block(In(block, x.where), axis, over, extents);
  }
  return dist_detail::along_first_axis(In(whole, x.where), axis, "reduce_scatter", [&](const In& value, int along) {
    return dist_detail::record_collective({.kind = CollectiveKind::reduce_scatter, .reduce = reduce, .axis = along},
                                          over, &value, x.where);
  });
}
SINTER_DECL Tensor all_gather(const In& x, int axis, const Axis& over, std::int64_t extent) {
  return dist_detail::gather_between(x, {axis, over, extent}, dist_detail::Between::ranks);
}
SINTER_DECL Tensor all_to_all(const In& x, int split_axis, int axis, const Axis& over) {
  const Ref<TensorImpl> value = x.tensor();
  const int rank = value->type.shape.rank();
  split_axis = normalise_axis(split_axis, rank, "all_to_all", x.where);
  axis = normalise_axis(axis, rank, "all_to_all", x.where);
  if (const auto parts = dist_detail::uneven_extents(Tensor(value), split_axis, over, x.where); !parts.empty()) {
    if (axis == split_axis)
      throw ShapeError("all_to_all",
                       "axis " + std::to_string(axis) + " of " + value->type.text() + " is not divided equally by " +
                           std::to_string(axis_size(over, x.where)) + " ranks, and what comes is joined along it",
                       x.where, "make its extent a multiple of their number, with pad() for instance");
    const Dim whole = Tensor(value).size(axis) * Dim(axis_size(over, x.where));
    return dist_detail::exchange_uneven(In(Tensor(value), x.where), split_axis, axis, over,
                                        static_cast<std::int64_t>(whole));
  }
  if (dist_detail::needs_first_axis(Tensor(value)))
    return dist_detail::exchange_blocks(In(Tensor(value), x.where), split_axis, axis, over);
  return dist_detail::record_collective({.kind = CollectiveKind::all_to_all, .axis = axis, .split_axis = split_axis},
                                        over, &x, x.where);
}
SINTER_DECL Tensor broadcast(const In& x, int root, const Axis& over) {
  return dist_detail::record_collective({.kind = CollectiveKind::broadcast, .root = root}, over, &x, x.where);
}
SINTER_DECL Tensor reduce(const In& x, int root, Reduce reduce, const Axis& over) {
  return dist_detail::record_collective({.kind = CollectiveKind::reduce, .reduce = reduce, .root = root}, over, &x,
                                        x.where);
}
SINTER_DECL Tensor permute(const In& x, const RankPairs& pairs, const Axis& over) {
  return dist_detail::record_collective({.kind = CollectiveKind::permute, .pairs = pairs}, over, &x, x.where);
}
SINTER_DECL Tensor ring_shift(const In& x, int shift, const Axis& over) {
  const int size = axis_size(over);
  RankPairs pairs;
  for (int r = 0; r < size; ++r) pairs.emplace_back(r, ((r + shift) % size + size) % size);
  return permute(x, pairs, over);
}
SINTER_DECL void barrier(const Axis& over, Location where) {
  dist_detail::record_collective({.kind = CollectiveKind::barrier}, over, nullptr, where);
}
SINTER_DECL Tensor axis_index(const Axis& over, Location where) {
  return dist_detail::record_collective({.kind = CollectiveKind::axis_index}, over, nullptr, where);
}
SINTER_DECL Tensor shard(const In& x, const Placement& placement) {
  if (const Mesh* mesh = partition_detail::partitioned_mesh(); mesh != nullptr) {
    const Ref<TensorImpl> value = x.tensor();
    partition_detail::Shares shares = partition_detail::shares_of({placement}, *mesh, value->type.shape.rank(),
                                                                  partition_detail::unstated, "shard", x.where);
    return mesh->size() == 1 ? Tensor(value) : partition_detail::annotate(x, std::move(shares), "shard");
  }
  return dist_detail::shard_between(x, placement, dist_detail::Between::ranks);
}
SINTER_DECL Tensor replicate(const In& x, const Placement& placement) {
  return all_gather(x, placement.axis, placement.over, placement.extent);
}

}  // namespace dist
SINTER_NAMESPACE_END
