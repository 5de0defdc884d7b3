// Ops whose work is a function of the user that the host runs: print, check, callbacks, and ops of the user's own. Each
// has the function as its payload; the jit layer says how such functions are written and called.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/op.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN

/// The user's function of a node.
class HostFunction : public Payload {
 public:
  /// What errors call it.
  virtual std::string name() const = 0;
  std::string text() const override { return name(); }
  bool is_a(TypeKey type) const override { return type == type_key<HostFunction>(); }
  /// One run. `in` and `out` are those of `call` without the tokens of effects.
  virtual void run(HostCall& call, std::span<const HostView> in, std::span<const HostView> out) const = 0;
  /// run() also takes operands on a device, and enqueues its work on call.device_queue().
  virtual bool runs_on_devices() const { return false; }
  /// Types of the results. The default takes those declared, attrs.types.
  virtual void infer(const InferArgs& args, TypeList& out) const;
  /// Gradients of the operands without the token of an effect. The default throws: there is none.
  virtual ValList vjp(const VjpArgs& args) const;
  /// The function for each example of a batch; operands and results with the token of an effect. Also asked for a
  /// CustomComposite that has this function.
  virtual void batch(const BatchArgs& args, BatchedList& results) const = 0;
  /// Others wait for what it sends: it runs as soon as its operands are there, on a device on HostCall::queue_beside(),
  /// and whoever needs its results runs late.
  virtual bool communicates() const { return false; }
  /// What communicates can be asked for the parts of a run, HostCall::phase().
  virtual bool has_phases() const { return false; }
};

namespace ops_detail {
const HostFunction& host_function(const Attrs& attrs);
bool runs_on_devices(const Attrs& attrs);
inline bool communicates(const Attrs& attrs) {
  const auto* function = payload_cast<HostFunction>(attrs.payload.get());
  return function != nullptr && function->communicates();
}
inline bool has_phases(const Attrs& attrs) {
  const auto* function = payload_cast<HostFunction>(attrs.payload.get());
  return function != nullptr && function->has_phases();
}
void run_host_function(HostCall& call);
void run_host_effect(HostCall& call);
void infer_host_function(const InferArgs& args, TypeList& out);
/// As infer_host_function, with the token after the results.
void infer_host_effect(const InferArgs& args, TypeList& out);
ValList host_function_vjp(const VjpArgs& args);
ValList host_effect_vjp(const VjpArgs& args);
void batch_host_function(const BatchArgs& args, BatchedList& results);
/// The same op on whole batches; all results but the token are batched.
void batch_as_whole(const BatchArgs& args, Attrs attrs, BatchedList& results);
}  // namespace ops_detail

namespace ops {

/// What a function that is run example by example says of its batch.
struct HostFunctionAttributes {
  static constexpr OpAttr<Dim> examples{"examples", 0};
  static constexpr auto attributes = attribute_list(examples);
};

/// A user's function without effects: may be removed, merged with its equal, or run again.
template <class Self>
struct PureHostOp {
  static void infer(const InferArgs& args, TypeList& out) { ops_detail::infer_host_function(args, out); }
  static void run_on_host(HostCall& call) { ops_detail::run_host_function(call); }
  static ValList vjp(const VjpArgs& args) { return ops_detail::host_function_vjp(args); }
  static void batch(const BatchArgs& args, BatchedList& results) { ops_detail::batch_host_function(args, results); }
};
/// One with effects: runs once for each call, in program order.
template <class Self>
struct HostEffect {
  static void infer(const InferArgs& args, TypeList& out) { ops_detail::infer_host_effect(args, out); }
  static void run_on_host(HostCall& call) { ops_detail::run_host_effect(call); }
  static ValList vjp(const VjpArgs& args) { return ops_detail::host_effect_vjp(args); }
  static void batch(const BatchArgs& args, BatchedList& results) { ops_detail::batch_host_function(args, results); }
};

/// What a message is written by: its format, and the extents that the format names.
struct MessageAttributes {
  static constexpr OpAttr<std::string> format{"format", 0};
  static constexpr OpAttr<Shape> extents{"extents", 0};
  static constexpr auto attributes = attribute_list(format, extents);
};

/// Writes its operands into a text.
struct Print : HostEffect<Print>, MessageAttributes {
  static constexpr OpInfo info{.name = "print", .arity = -1, .kind = OpKind::effect};
};
/// Throws unless all of operand 0 (bool) holds; the others are for the message.
struct Check : HostEffect<Check>, MessageAttributes {
  static constexpr OpInfo info{.name = "check", .arity = -1, .kind = OpKind::effect};
};
struct Callback : HostEffect<Callback>, HostFunctionAttributes {
  static constexpr OpInfo info{.name = "callback", .arity = -1, .kind = OpKind::effect};
};
struct PureCallback : PureHostOp<PureCallback>, HostFunctionAttributes {
  static constexpr OpInfo info{.name = "pure_callback", .arity = -1, .kind = OpKind::structured};
};
struct Custom : PureHostOp<Custom>, HostFunctionAttributes {
  static constexpr OpInfo info{.name = "custom", .arity = -1, .kind = OpKind::structured};
};
struct CustomEffect : HostEffect<CustomEffect>, HostFunctionAttributes {
  static constexpr OpInfo info{.name = "custom_effect", .arity = -1, .kind = OpKind::effect};
};
/// One result of other operations, the sub-graph, that has a derivative of its own.
struct CustomComposite {
  static constexpr OpInfo info{.name = "custom_composite", .arity = -1, .kind = OpKind::composite};
  static constexpr OpAttr<std::int64_t> result{"result", 0};
  static constexpr auto attributes = attribute_list(result);
  static constexpr std::string_view bodies = "body";
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& args);
  /// The payload's: one like this, whose derivative is that of each example.
  static void batch(const BatchArgs& args, BatchedList& results) { ops_detail::batch_host_function(args, results); }
};

}  // namespace ops
SINTER_NAMESPACE_END
