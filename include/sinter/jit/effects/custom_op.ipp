// Checks, recording, and the tracing of derivatives and decompositions, which are C++ on Tensors.
#pragma once

#include <sinter/jit/effects/custom_op.hpp>
#include <sinter/jit/effects/host_functions.hpp>
#include <sinter/jit/effects/named_functions.hpp>

#include <sinter/autodiff/vectorise.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/val_ops.hpp>

#ifdef SINTER_CUDA
#include <sinter/backend/cuda/user_kernel.hpp>
#endif

#include <algorithm>
#include <array>
#include <mutex>

SINTER_NAMESPACE_BEGIN
namespace jit {
namespace custom_detail {

// ---- tracing C++ into a graph

/// A trace of a derivative or decomposition: a function of its operands and constants alone.
class PartTrace final : public Trace {
 public:
  PartTrace(const std::string& name, Location where) : Trace("custom_op"), name_(name), where_(where) {}
  Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>&) override { refuse("reads"); }
  void note_assignment(const std::shared_ptr<VariableSlot>&, const Ref<TensorImpl>&) override { refuse("assigns to"); }

 private:
  [[noreturn]] void refuse(const char* verb) const {
    throw TraceError(name_, std::string("its derivative or decomposition ") + verb + " a Variable", where_,
                     "make the value an operand of the op");
  }
  std::string name_;
  Location where_;
};

/// The graph of what `function` does to operands of these types.
inline Graph trace_part(std::span<const Type> types, const TensorFunction& function, const std::string& name,
                        Location where, std::vector<Tensor>* outputs = nullptr) {
  PartTrace trace(name, where);
  std::vector<Ref<TensorImpl>> placeholders, results;
  std::vector<Tensor> operands;
  for (const Type& type : types) operands.emplace_back(placeholders.emplace_back(trace.placeholder(type)));
  std::vector<Tensor> values = function(operands);
  for (const Tensor& value : values) results.push_back(value.impl());
  const CaptureOptions options{.trace = trace.id(), .ready = ReadyLeaf::constant, .last_effect = trace.last_effect()};
  Capture captured = capture(results, placeholders, options);
  if (captured.inputs.size() > placeholders.size()) {
    for (std::size_t i = placeholders.size(); i < captured.inputs.size(); ++i) {
      TensorImpl* raw = captured.inputs[i].get();
      if (raw->trace != 0 && !raw->is_ready())
        throw TraceError(name, "its derivative or decomposition uses a traced tensor that is no operand", where,
                         "make it an operand of the op");
      evaluate({&raw, 1}, name, where);
    }
    captured = capture(results, placeholders, options);
  }
  if (outputs != nullptr) *outputs = std::move(values);
  return captured.finish();
}

SINTER_DECL ValList traced_vjp(const VjpArgs& args, const std::string& name,
                               const std::function<std::vector<Tensor>(std::span<const Tensor>, std::span<const Tensor>,
                                                                       std::span<const Tensor>)>& vjp) {
  const std::size_t operands = args.in.size(), results = args.outs.size();
  std::vector<Value> values;
  std::vector<Type> types;
  const auto add = [&](Val v) {
    values.push_back(v.value);
    types.push_back(v.type());
  };
  for (const Val& v : args.in) add(v);
  for (const Val& v : args.outs) add(v);
  for (std::size_t r = 0; r < results; ++r) add(args.douts[r] ? args.douts[r] : full_like(args.outs[r], 0));
  std::vector<Tensor> gradients;
  const Graph graph = trace_part(
      types,
      [&](std::span<const Tensor> all) {
        return vjp(all.first(operands), all.subspan(operands, results), all.last(results));
      },
      name, args.where, &gradients);
  if (gradients.size() != operands)
    throw UserError(name,
                    "its derivative gave " + std::to_string(gradients.size()) + " gradients for " +
                        std::to_string(operands) + " operands",
                    args.where, "return one for each operand, in order; Tensor() where there is none");
  GraphBuilder& builder = *args.in[0].builder;
  const std::vector<Value> outputs = builder.inline_graph(graph, values);
  ValList out;
  for (std::size_t i = 0; i < operands; ++i) {
    const bool is_none = is_same(gradients[i], Tensor());
    const Type type = builder.type(outputs[i]);
    if (!is_none && is_floating(types[i].dtype) && !identical(type.shape, types[i].shape))
      throw ShapeError(
          name,
          "its derivative by operand " + std::to_string(i) + " is " + type.text() + ", the operand " + types[i].text(),
          args.where, "a gradient has the shape of its operand");
    out.push_back(is_none ? Val{} : Val{&builder, outputs[i], args.where});
  }
  return out;
}

SINTER_DECL std::vector<Ref<TensorImpl>> record_host_function(const OpInfo& op, std::span<Leaf> operands, Attrs attrs,
                                                              Location where) {
  if (op.kind == OpKind::effect) return record_effect(op, operands, std::move(attrs), where);
  return record_results(op, operands, std::move(attrs), where);
}

// ---- batches

inline Type example_type(Type type, bool is_batched) {
  if (is_batched) type.shape.erase(0);
  return type;
}

/// An op with a derivative of its own stays one: its body is vectorised, its derivative is that of each example.
inline void batch_composite(const BatchArgs& args, BatchedList& results);

/// A function run for each example, in order. The batch is the first axis of all results and of some operands.
class FunctionByExample final : public HostFunction {
 public:
  FunctionByExample(std::shared_ptr<const HostFunction> one, std::vector<std::uint8_t> batched, Attrs attrs)
      : one_(std::move(one)), batched_(std::move(batched)), attrs_(std::move(attrs)) {}

  std::string name() const override { return one_->name(); }
  bool is_a(TypeKey type) const override { return type == type_key<FunctionByExample>() || HostFunction::is_a(type); }
  bool same_as(const Payload& other) const override {
    const auto* function = payload_cast<FunctionByExample>(&other);
    return function != nullptr && batched_ == function->batched_ && one_->same_as(*function->one_);
  }
  bool may_be_retrace_of(const Payload& other) const override {
    const auto* function = payload_cast<FunctionByExample>(&other);
    return function != nullptr && batched_ == function->batched_ && one_->may_be_retrace_of(*function->one_);
  }
  void run(HostCall& call, std::span<const HostView> in, std::span<const HostView> out) const override {
    const std::int64_t size = call.value_of(call.attrs[ops::HostFunctionAttributes::examples]);
    SmallVector<HostView, 4> one_in(in), one_out(out);
    const auto first = [size](HostView& view) {
      view.shape.erase(0);
      view.numel /= std::max<std::int64_t>(size, 1);
    };
    const auto next = [](HostView& view) { view.data = static_cast<char*>(view.data) + view.bytes(); };
    for (std::size_t i = 0; i < in.size(); ++i)
      if (batched_[i] != 0) first(one_in[i]);
    for (HostView& view : one_out) first(view);
    for (std::int64_t example = 0; example < size; ++example) {
      one_->run(call, one_in, one_out);
      for (std::size_t i = 0; i < in.size(); ++i)
        if (batched_[i] != 0) next(one_in[i]);
      for (HostView& view : one_out) next(view);
    }
  }
  ValList vjp(const VjpArgs& args) const override;
  void batch(const BatchArgs& args, BatchedList& results) const override {
    if (&args.op == &op_info<ops::CustomComposite>) batch_composite(args, results);
    else batch_by_example(args, results);
  }

 private:
  std::shared_ptr<const HostFunction> one_;
  std::vector<std::uint8_t> batched_;
  Attrs attrs_;  // of one example
};

/// The derivative of one example, vectorised.
inline ValList FunctionByExample::vjp(const VjpArgs& args) const {
  GraphBuilder& builder = *args.in[0].builder;
  const Dim size = args.outs[0].type().shape[0];
  GraphBuilder one(builder.graph());
  std::vector<Batched> inputs;
  const auto add = [&](Val v, bool is_batched) {
    inputs.push_back(Batched(v, is_batched));
    return Val{&one, one.input(example_type(v.type(), is_batched), {}, args.where), args.where};
  };
  std::vector<Val> in, outs, douts;
  for (std::size_t i = 0; i < args.in.size(); ++i) in.push_back(add(args.in[i], batched_[i] != 0));
  for (const Val& out : args.outs) outs.push_back(add(out, true));
  for (std::size_t r = 0; r < args.douts.size(); ++r)
    douts.push_back(add(args.douts[r] ? args.douts[r] : full_like(args.outs[r], 0), true));
  const ValList gradients = one_->vjp(VjpArgs{in, outs[0], douts[0], attrs_, args.where, args.needed, outs, douts});
  std::vector<Value> wanted;
  for (const Val& gradient : gradients)
    if (gradient) wanted.push_back(gradient.value);
  const std::vector<Batched> all = vectorise(builder, one.finish(wanted), inputs, size);
  ValList out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) {
      out.push_back(Val{});
      continue;
    }
    const Batched& gradient = all[next++];  // that of an operand without the batch is their sum, which the walk makes
    out.push_back(gradient.is_batched
                      ? gradient.value
                      : expand(gradient.value, ops_detail::batched_shape(size, gradient.value.shape())));
  }
  return out;
}

SINTER_DECL void batch_by_example(const BatchArgs& args, BatchedList& results) {
  const bool is_effect = args.op.kind == OpKind::effect;
  const std::shared_ptr<const HostFunction> one(args.attrs.payload,
                                                payload_cast<HostFunction>(args.attrs.payload.get()));
  std::vector<Type> examples;
  for (std::size_t i = 0; i + is_effect < args.in.size(); ++i)
    examples.push_back(example_type(args.in[i].type(), args.is_batched(i)));
  TypeList types;
  one->infer(InferArgs{examples, args.attrs, one->name(), args.where}, types);
  Attrs attrs;
  attrs.set(ops::HostFunctionAttributes::examples, args.size);
  for (Type& type : types) {
    type.shape.insert(0, args.size);
    attrs.types.push_back(type);
  }
  attrs.payload = std::make_shared<FunctionByExample>(
      one,
      std::vector<std::uint8_t>(args.batched.begin(),
                                args.batched.begin() + static_cast<std::ptrdiff_t>(examples.size())),
      args.attrs);
  ops_detail::batch_as_whole(args, std::move(attrs), results);
}

inline void batch_composite(const BatchArgs& args, BatchedList& results) {
  GraphBuilder& builder = *args.in[0].builder;
  GraphBuilder whole(builder.graph());
  std::vector<Batched> inputs;
  std::vector<Value> operands, outputs;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    operands.push_back(args.in[i].value);
    inputs.push_back(
        Batched(Val{&whole, whole.input(args.in[i].type(), {}, args.where), args.where}, args.is_batched(i)));
  }
  for (const Batched& output : vectorise(whole, *args.attrs.bodies.at(0), inputs, args.size)) {
    const Val value = output.value;
    outputs.push_back(
        (output.is_batched ? value : expand(value, ops_detail::batched_shape(args.size, value.shape()))).value);
  }
  Attrs attrs;
  attrs.bodies.push_back(std::make_shared<const Graph>(whole.finish(outputs)));
  attrs.set(ops::CustomComposite::result, args.attrs[ops::CustomComposite::result]);
  const std::shared_ptr<const HostFunction> one(args.attrs.payload,
                                                payload_cast<HostFunction>(args.attrs.payload.get()));
  attrs.payload = std::make_shared<FunctionByExample>(
      one, std::vector<std::uint8_t>(args.batched.begin(), args.batched.end()), args.attrs);
  results.push_back(
      Val{&builder, builder.add(op_info<ops::CustomComposite>, operands, std::move(attrs), args.where), args.where});
}

// ---- custom ops

class CustomFunction final : public HostFunction, public std::enable_shared_from_this<CustomFunction> {
 public:
  explicit CustomFunction(Definition definition) : is(std::move(definition)) {}
  ~CustomFunction() override;

  std::string name() const override { return is.name; }
  bool is_a(TypeKey type) const override { return type == type_key<CustomFunction>() || HostFunction::is_a(type); }
  bool may_be_retrace_of(const Payload& other) const override {
    const auto* op = payload_cast<CustomFunction>(&other);
    return op != nullptr && is_made_like(*op);
  }
  bool is_made_like(const CustomFunction& other) const {
    return is.name == other.is.name && is.kinds == other.is.kinds && is.cuda_source == other.is.cuda_source;
  }
  void run(HostCall& call, std::span<const HostView> in, std::span<const HostView> out) const override {
    const TracePause outside;
    if (void* queue = call.device_queue(); queue != nullptr) is.cuda(in, out, queue);
    else if (is.cpu) is.cpu(in, out);
    else
      throw UserError(is.name, "it has no function for the CPU, and its operands are there", call.where,
                      "give it one (.cpu), or move its operands to a GPU: x.to(Device::cuda(0))");
  }
  bool runs_on_devices() const override { return is.cuda != nullptr; }
  void infer(const InferArgs& args, TypeList& out) const override;
  void batch(const BatchArgs& args, BatchedList& results) const override {
    if (&args.op == &op_info<ops::CustomComposite>) batch_composite(args, results);
    else if (is.batch) batch_by_rule(args, results);
    else batch_by_example(args, results);
  }
  void batch_by_rule(const BatchArgs& args, BatchedList& results) const;
  ValList vjp(const VjpArgs& args) const override {
    return is.vjp ? traced_vjp(args, is.name, is.vjp) : HostFunction::vjp(args);
  }

  const Definition is;
};

/// Custom ops that are alive, so that two of one name are noticed.
struct CustomOps {
  ForkSafeMutex mutex;
  std::vector<const CustomFunction*> list;
  static CustomOps& instance() { return process_object<CustomOps>(); }
};

inline CustomFunction::~CustomFunction() {
  CustomOps& ops = CustomOps::instance();
  std::scoped_lock lock(ops.mutex);
  std::erase(ops.list, this);
}

inline void CustomFunction::infer(const InferArgs& args, TypeList& out) const {
  std::vector<Shape> in, shapes;
  std::vector<DType> in_dtypes, dtypes(is.results, is.has_dtype      ? is.element
                                                   : args.in.empty() ? DType::f32
                                                                     : args.in[0].dtype);
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    if (is.has_dtype && args.in[i].dtype != is.element)
      throw DTypeError(is.name,
                       "operand " + std::to_string(i) + " is " + args.in[i].text() + ", the op takes " +
                           std::string(sinter::name(is.element)),
                       args.where,
                       "cast it with .to(DType::" + std::string(sinter::name(is.element)) +
                           "), or make the op with jit::custom_op<void> for several dtypes");
    in.push_back(args.in[i].shape);
    in_dtypes.push_back(args.in[i].dtype);
  }
  shapes = is.shape(in);
  if (is.dtype) dtypes = is.dtype(in_dtypes);
  for (std::size_t i = 0; i < is.results; ++i) {
    for (Dim extent : shapes[i])
      if (extent.is_static() && extent.value() < 0)
        throw ShapeError(is.name, "its shape rule gives " + shapes[i].text() + " for result " + std::to_string(i),
                         args.where);
    if (is.has_dtype && dtypes[i] != is.element)
      throw DTypeError(is.name,
                       "its dtype rule gives " + std::string(sinter::name(dtypes[i])) + ", but it is an op of " +
                           std::string(sinter::name(is.element)),
                       args.where, "make it with jit::custom_op<void>");
    out.push_back({dtypes[i], args.in.empty() ? Device::cpu() : args.in[0].device, shapes[i]});
  }
}

/// What the user's rule for batches does, in the place of the node. With a derivative of its own it stays together, as
/// one node for each result: the derivative is that of each example.
inline void CustomFunction::batch_by_rule(const BatchArgs& args, BatchedList& results) const {
  GraphBuilder& builder = *args.in[0].builder;
  std::vector<Type> types, examples;
  std::vector<Value> operands;
  std::array<bool, 64> batched{};
  ensure(args.in.size() <= batched.size(), "custom op: too many operands for a batch");
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    types.push_back(args.in[i].type());
    operands.push_back(args.in[i].value);
    batched[i] = args.is_batched(i);
    examples.push_back(example_type(types.back(), batched[i]));
  }
  TypeList wanted;
  infer(InferArgs{examples, args.attrs, is.name, args.where}, wanted);
  const std::span<const bool> which(batched.data(), args.in.size());
  auto body = std::make_shared<const Graph>(trace_part(
      types, [&](std::span<const Tensor> in) { return is.batch(in, which, args.size); }, is.name, args.where));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i].shape.insert(0, args.size);
    const Type& given = body->type(body->outputs()[i]);
    if (!identical(given, wanted[i]))
      throw ShapeError(is.name,
                       "its rule for batches gives " + given.text() + " for result " + std::to_string(i) +
                           ", the batch of its results is " + wanted[i].text(),
                       args.where, "results have the batch as their first axis");
  }
  if (!is.vjp) {
    for (Value v : builder.inline_graph(*body, operands)) results.push_back(Val{&builder, v, args.where});
    return;
  }
  const auto each = std::make_shared<FunctionByExample>(
      shared_from_this(), std::vector<std::uint8_t>(args.batched.begin(), args.batched.end()), args.attrs);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Attrs attrs;
    attrs.bodies.push_back(body);
    attrs.set(ops::CustomComposite::result, static_cast<std::int64_t>(i));
    attrs.payload = each;
    results.push_back(
        Val{&builder, builder.add(op_info<ops::CustomComposite>, operands, std::move(attrs), args.where), args.where});
  }
}

/// Fails for functions that would be left aside.
inline void check_pairs(const Definition& definition) {
  const auto& kinds = definition.kinds;  // in the order of definition_of()
  constexpr std::size_t cpu = 2, cpu_blocks = 6, cuda_launch = 7;
  const std::string name = "'" + definition.name + "'";
  if (kinds.size() > cpu_blocks && kinds[cpu] != nullptr && kinds[cpu_blocks] != nullptr)
    throw UserError("custom_op", name + " has a function for the CPU and one for blocks", definition.where,
                    "give it one of the two (.cpu or .cpu_blocks)");
  if (definition.cuda_source.empty()) {
    if (kinds.size() > cuda_launch && kinds[cuda_launch] != nullptr)
      throw UserError("custom_op", name + " has a launch and no CUDA source", definition.where,
                      "give it the source of the kernel (.cuda_source)");
    return;
  }
  const auto is_part = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  const bool begins_with_digit = definition.name[0] >= '0' && definition.name[0] <= '9';
  if (begins_with_digit || !std::all_of(definition.name.begin(), definition.name.end(), is_part))
    throw UserError("custom_op", name + " is no identifier of C, and its kernel in .cuda_source has the op's name",
                    definition.where, "name it with letters, digits and '_'");
}

/// Makes the function for a GPU of the CUDA source.
inline void take_source(Definition& definition) {
  if (definition.cuda)
    throw UserError("custom_op", "'" + definition.name + "' has a function for CUDA and CUDA source", definition.where,
                    "give it one of the two");
  definition.cuda = [name = definition.name, source = definition.cuda_source, launch_of = definition.cuda_launch,
                     where = definition.where](std::span<const HostView> in, std::span<const HostView> out,
                                               [[maybe_unused]] void* stream) {
    constexpr std::int64_t threads = 256;
    CudaLaunch launch;
    if (launch_of) {
      launch = launch_of(in, out);
    } else {
      launch.grid[0] = static_cast<unsigned>((out[0].numel + threads - 1) / threads);
      launch.numbers = {out[0].numel};
    }
    if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) return;  // no element
    std::vector<void*> pointers, parameters;
    for (const HostView& view : in) pointers.push_back(view.data);
    for (const HostView& view : out) pointers.push_back(view.data);
    for (void*& pointer : pointers) parameters.push_back(&pointer);
    for (std::int64_t& number : launch.numbers) parameters.push_back(&number);
#ifdef SINTER_CUDA
    cuda::launch_user_kernel(name, source, {launch.grid, launch.block, launch.shared_bytes}, parameters.data(), stream,
                             where);
#else
    static_cast<void>(source);
    throw DeviceError(name, "this build of Sinter has no CUDA back end", where);
#endif
  };
}

SINTER_DECL std::shared_ptr<const CustomFunction> make_custom(Definition definition) {
  const Location where = definition.where;
  if (definition.name.empty())
    throw UserError("custom_op", "the op has no name", where, "errors name it: give it one (.name)");
  if (find_op(definition.name) != nullptr)
    throw UserError("custom_op", "the name '" + definition.name + "' is that of a built-in op", where,
                    "choose another");
  if (!definition.shape)
    throw UserError("custom_op", "'" + definition.name + "' has no shape rule", where,
                    "give it one: .shape = [](auto in) { return in[0]; }");
  check_pairs(definition);
  if (!definition.cuda_source.empty()) take_source(definition);
  if (!definition.cpu && !definition.cuda && !definition.decompose)
    throw UserError("custom_op", "'" + definition.name + "' has no function that computes it", where,
                    "give it one (.cpu, .cuda), or a decomposition (.decompose)");
  if (definition.batch && (definition.decompose || !definition.is_pure))
    throw UserError("custom_op",
                    "'" + definition.name + "' has a rule for batches and " +
                        (definition.decompose ? "a decomposition" : "effects"),
                    where,
                    definition.decompose ? "leave out .batch: its operations are mapped"
                                         : "leave out .batch: what has effects runs for each example");
  if (definition.decompose && !definition.is_pure)
    throw UserError("custom_op", "'" + definition.name + "' has effects and a decomposition", where,
                    "effects need a function that runs (.cpu)");
  auto op = std::make_shared<CustomFunction>(std::move(definition));
  CustomOps& ops = CustomOps::instance();
  Location other;
  bool is_taken = false;
  {
    std::scoped_lock lock(ops.mutex);
    for (const CustomFunction* known : ops.list) {
      if (known->is.name != op->is.name || known->is_made_like(*op)) continue;
      is_taken = true;
      other = known->is.where;
    }
    ops.list.push_back(op.get());
  }
  if (is_taken)
    throw UserError("custom_op", "the name '" + op->is.name + "' is taken by another op, made at " + other.text(),
                    where, "choose another");
  return op;
}

SINTER_DECL std::string name_of_custom(const Payload& payload) {
  const auto* op = payload_cast<CustomFunction>(&payload);
  return op == nullptr ? std::string() : op->is.name;
}
SINTER_DECL std::shared_ptr<const Payload> custom_of(std::string_view name) {
  CustomOps& ops = CustomOps::instance();
  std::scoped_lock lock(ops.mutex);
  for (const CustomFunction* op : ops.list)
    if (op->is.name == name)
      if (auto living = op->weak_from_this().lock()) return living;
  return nullptr;
}

/// What the rule and the decomposition say of the results must agree.
inline void check_decomposition(const CustomFunction& op, const TypeList& types, std::span<const Type> given,
                                Location where) {
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!identical(types[i], given[i]))
      throw ShapeError(op.is.name,
                       "its decomposition gives " + given[i].text() + " for result " + std::to_string(i) +
                           ", its rule " + types[i].text(),
                       where, "the two must agree");
}

/// An op with a decomposition: its operations are recorded as they stand, or, to keep its derivative, as one node for
/// each result.
inline std::vector<Tensor> apply_decomposition(const std::shared_ptr<const CustomFunction>& op,
                                               std::span<const Leaf> operands, const TypeList& types, Location where) {
  std::vector<Type> in;
  std::vector<Tensor> tensors;
  for (const Leaf& leaf : operands) {
    in.push_back(leaf.value->type);
    tensors.emplace_back(leaf.value);
  }
  std::vector<Type> given;
  if (!op->is.vjp || operands.empty()) {
    std::vector<Tensor> results = op->is.decompose(tensors);
    for (const Tensor& result : results) given.push_back(result.impl()->type);
    check_decomposition(*op, types, given, where);
    return results;
  }
  auto body = std::make_shared<const Graph>(trace_part(in, op->is.decompose, op->is.name, where));
  for (Value v : body->outputs()) given.push_back(body->type(v));
  check_decomposition(*op, types, given, where);
  if (std::any_of(body->nodes().begin(), body->nodes().end(),
                  [](const Node& node) { return node.op->kind == OpKind::effect; }))
    throw UserError(op->is.name, "its decomposition has effects", where,
                    "give it a function instead (.cpu) with .pure = false");
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < types.size(); ++i) {
    Attrs attrs;
    attrs.bodies.push_back(body);
    attrs.set(ops::CustomComposite::result, static_cast<std::int64_t>(i));
    attrs.payload = op;
    std::vector<Leaf> leaves(operands.begin(), operands.end());
    results.emplace_back(record_op(op_info<ops::CustomComposite>, leaves, std::move(attrs), where));
  }
  return results;
}

inline std::vector<Tensor> apply_custom(const std::shared_ptr<const CustomFunction>& op, std::span<const In> operands) {
  const Location where = operands.empty() ? op->is.where : operands[0].where;
  std::vector<Leaf> leaves;
  std::vector<Type> types;
  for (const In& operand : operands) {
    Ref<TensorImpl> value = operand.tensor();
    const bool is_number = !operand.leaf.value || value->is_weak;  // a number has the dtype that the op takes
    if (is_number && op->is.has_dtype && value->type.dtype != op->is.element)
      value = Tensor(value).to(op->is.element, where).impl();
    types.push_back(value->type);
    leaves.emplace_back(std::move(value));
  }
  Attrs attrs;
  attrs.payload = op;
  TypeList results;
  op->infer(InferArgs{types, attrs, op->is.name, where}, results);
  if (op->is.decompose) return apply_decomposition(op, leaves, results, where);
  std::vector<Tensor> out;
  for (auto& value : record_host_function(op->is.is_pure ? op_info<ops::Custom> : op_info<ops::CustomEffect>, leaves,
                                          std::move(attrs), where))
    out.emplace_back(std::move(value));
  return out;
}
SINTER_DECL std::vector<Tensor> call_custom(const std::shared_ptr<const CustomFunction>& op,
                                            std::initializer_list<const Operand*> operands) {
  std::vector<In> given;
  for (const Operand* operand : operands)
    if (operand->is_given) given.push_back(operand->in);
  return apply_custom(op, given);
}
SINTER_DECL std::vector<Tensor> call_custom(const std::shared_ptr<const CustomFunction>& op,
                                            std::span<const Tensor> operands, Location where) {
  std::vector<In> given;
  for (const Tensor& operand : operands) given.emplace_back(operand, where);
  return apply_custom(op, given);
}

}  // namespace custom_detail
}  // namespace jit
SINTER_NAMESPACE_END
