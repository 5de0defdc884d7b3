// How an op is written down: a struct with `info` and the functions it has; describe<Op>() turns it into the OpInfo
// that all other code asks. Also Val, the handle in whose terms derivatives and decompositions are written as algebra.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/graph/host_call.hpp>
#include <sinter/graph/op_info.hpp>
#include <sinter/ops/names.hpp>
#include <sinter/ops/scalar.hpp>

#include <concepts>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// A value of a graph under construction. Arithmetic on Vals adds nodes; see ops/val_ops.hpp.
struct Val {
  GraphBuilder* builder = nullptr;
  Value value;
  Location where;  // the user's line; nodes made from this value get it

  explicit operator bool() const { return builder != nullptr; }
  // By value: adding a node moves the nodes.
  Type type() const { return builder->type(value); }
  Shape shape() const { return builder->type(value).shape; }
  DType dtype() const { return builder->type(value).dtype; }
  int rank() const { return builder->type(value).shape.rank(); }
};

/// What a derivative rule is given: operands and result of the forward node, and the gradient of its result.
struct VjpArgs {
  std::span<const Val> in;
  Val out;
  Val dout;
  const Attrs& attrs;
  Location where;
  std::uint32_t needed = ~std::uint32_t{0};  // bit i: somebody wants the gradient of operand i
  /// Ops with several results: all of them, and their gradients (empty Vals where there is none). `out` and `dout` are
  /// the first result and its gradient.
  std::span<const Val> outs{}, douts{};
  /// Appends the gradients of sum(outputs * douts) by `wrt` to a builder: how ops with sub-graphs differentiate those.
  std::vector<Value> (*backward)(GraphBuilder& builder, std::span<const Value> outputs, std::span<const Value> douts,
                                 std::span<const Value> wrt) = nullptr;

  bool needs(std::size_t operand) const { return (needed >> (operand < 31 ? operand : 31) & 1) != 0; }
};
/// A rule returns `ValList`: gradients of the operands in order, an empty Val where there is none. A gradient may have
/// the broadcast shape: autodiff sums it back to the operand's shape.

struct DecomposeArgs {
  std::span<const Val> in;
  const Attrs& attrs;
  Location where;
};

/// What a batching rule is given: the same operation is to be done for each example of a batch.
struct BatchArgs {
  const OpInfo& op;
  std::span<const Val> in;  // a batched operand has the batch as its first axis, before the axes that the op knows
  std::span<const std::uint8_t> batched;  // by operand; at least one is, or the op is random
  Dim size;                               // examples in the batch
  const Attrs& attrs;                     // of the operation on one example
  Location where;

  /// Appends a graph over the batch to a builder: how ops with sub-graphs batch those.
  std::vector<Batched> (*vectorise)(GraphBuilder& builder, const Graph& graph, std::span<const Batched> inputs,
                                    Dim size) = nullptr;

  bool is_batched(std::size_t operand) const { return batched[operand] != 0; }
};
/// A result over the batch, which is its first axis; or, where it is the same for all examples, without it.
struct Batched {
  Val value{};  // empty: the rule does not cover this case, the decomposition is used
  bool is_batched = true;
  Batched() = default;
  Batched(Val v, bool has_batch = true) : value(v), is_batched(has_batch) {}
};

namespace ops::attr {
// Attributes that mean the same for every op that declares them: members of Attrs.
inline constexpr AttrInfo axes{"axes", AttrKind::axes}, shape{"shape", AttrKind::shape},
    value{"value", AttrKind::value}, integer{"integer", AttrKind::integer}, dtype{"dtype", AttrKind::dtype},
    device{"device", AttrKind::device}, keepdim{"keepdim", AttrKind::keep_dims}, data{"data", AttrKind::data};
}  // namespace ops::attr

namespace ops_detail {
/// What a reduction has unless it says otherwise.
inline constexpr auto reduction_attributes = attribute_list(ops::attr::axes, ops::attr::keepdim);

template <class Op, std::size_t... I>
ScalarValue call_lower(ScalarBuilder& s, std::span<const ScalarValue> in, const Attrs& attrs,
                       std::index_sequence<I...>) {
  if constexpr (requires { Op::lower(s, in[I]..., attrs); }) return Op::lower(s, in[I]..., attrs);
  else return Op::lower(s, in[I]...);
}
/// Type of an elementwise result: the broadcast of all operands, dtype by the op's rule. Defined in ops/infer.ipp.
void infer_elementwise(const OpInfo& op, const InferArgs& args, TypeList& out);
/// The same op, operands aligned so that broadcasting leaves the batch alone. Defined in ops/batch.ipp, as the next.
Batched batch_elementwise(const BatchArgs& args);
/// The same op with attrs.axes of its one batched operand counted past the batch.
Batched batch_along_axes(const BatchArgs& args);

// What functions in OpInfos do around those of an op. There are hundreds, so this is no part of each. Defined in
// ops/op.ipp.
void add_type(TypeList& types, Type type);
void add_gradients(ValList& grads, std::span<const Val> more);
void add_batched(BatchedList& results, const Batched& result);
void add_batched_elementwise(const BatchArgs& args, BatchedList& results);
void add_batched_along_axes(const BatchArgs& args, BatchedList& results);
}  // namespace ops_detail

/// The complete OpInfo of an op, from its struct. Members it may have:
///   static constexpr OpInfo info{.name = ..., .arity = ..., .kind = ...};
///   static constexpr auto attributes = attribute_list(attr::axes, eps);  // not needed for reductions
///   static constexpr std::string_view bodies = "condition body";         // names of its sub-graphs
///   static Type infer(const InferArgs&);                       // not needed for elementwise ops
///   static ScalarValue lower(ScalarBuilder&, ScalarValue...);  // elementwise; may take `const Attrs&` last
///   static ScalarFold fold(DType, PositionOrder);              // reductions with state
///   static ValList vjp(const VjpArgs&);
///   static Val decompose(const DecomposeArgs&);
// for vmap; not needed for elementwise ops, reductions and
///   static Batched batch(const BatchArgs&);
///                                                              // composites whose parts have it
///   static void run_on_host(HostCall&);                        // structured ops and effects that no kernel expresses
///   static void prepare_on_host(HostCall&);                    // if that takes scratch or places: asks for the same
///   static void refuse(Location);                              // see OpInfo
///   static void prune(const PruneArgs&);                       // ops with sub-graphs
template <class Op>
constexpr OpInfo describe() {
  OpInfo info = Op::info;
  if constexpr (requires { Op::attributes; }) {
    static_assert(graph_detail::are_apart(Op::attributes), "two attributes of the op have one name or one place");
    info.attributes = Op::attributes;
  } else if constexpr (Op::info.kind == OpKind::reduction) {
    info.attributes = ops_detail::reduction_attributes;
  }
  if constexpr (requires { Op::bodies; }) info.bodies = Op::bodies;
  if constexpr (requires(const InferArgs& a) {
                  { Op::infer(a) } -> std::same_as<Type>;
                })
    info.infer = [](const InferArgs& args, TypeList& out) { ops_detail::add_type(out, Op::infer(args)); };
  else if constexpr (requires(const InferArgs& a, TypeList& out) { Op::infer(a, out); })
    info.infer = [](const InferArgs& args, TypeList& out) { Op::infer(args, out); };
  else info.infer = [](const InferArgs& args, TypeList& out) { ops_detail::infer_elementwise(Op::info, args, out); };
  if constexpr (requires { &Op::lower; })
    info.lower = [](ScalarBuilder& s, std::span<const ScalarValue> in, const Attrs& attrs) {
      return ops_detail::call_lower<Op>(s, in, attrs, std::make_index_sequence<as_index(Op::info.arity)>{});
    };
  if constexpr (requires { &Op::fold; }) info.fold = &Op::fold;
  if constexpr (requires { &Op::vjp; })
    info.vjp = [](const VjpArgs& args, ValList& grads) { ops_detail::add_gradients(grads, Op::vjp(args)); };
  if constexpr (requires { &Op::decompose; }) info.decompose = &Op::decompose;
  if constexpr (requires(const BatchArgs& a, BatchedList& r) { Op::batch(a, r); }) info.batch = &Op::batch;
  else if constexpr (requires { &Op::batch; })
    info.batch = [](const BatchArgs& args, BatchedList& results) { ops_detail::add_batched(results, Op::batch(args)); };
  else if constexpr (Op::info.kind == OpKind::elementwise) info.batch = &ops_detail::add_batched_elementwise;
  else if constexpr (Op::info.kind == OpKind::reduction) info.batch = &ops_detail::add_batched_along_axes;
  if constexpr (requires { &Op::run_on_host; }) info.run_on_host = &Op::run_on_host;
  if constexpr (requires { &Op::prepare_on_host; }) info.prepare_on_host = &Op::prepare_on_host;
  if constexpr (requires { &Op::refuse; }) info.refuse = &Op::refuse;
  if constexpr (requires { &Op::prune; }) info.prune = &Op::prune;
  return info;
}

template <class Op>
constexpr OpInfo OpInfoOf<Op>::info = describe<Op>();

/// The one OpInfo of op `Op`; its address is the op's identity.
template <class Op>
inline constexpr const OpInfo& op_info = OpInfoOf<Op>::info;

/// Its name, for tables of many ops in code that every program has: addresses of OpInfos would put all that those ops call
/// into each.
template <class Op>
inline constexpr std::string_view op_name = Op::info.name;

SINTER_NAMESPACE_END
