// Messages with values, the print sink, and callbacks between Tensors and memory.
#pragma once

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/jit/effects/effects.hpp>
#include <sinter/jit/effects/host_functions.hpp>
#include <sinter/jit/effects/named_functions.hpp>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <mutex>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace effects_detail {

SINTER_DECL void collect(std::vector<Returned>& out, Tensor value, Returned::Kind kind) {
  out.push_back({std::move(value), kind});
}
SINTER_DECL void collect(std::vector<Returned>& out, std::vector<Tensor> values) {
  for (Tensor& value : values) out.push_back({std::move(value)});
}

struct Sink {
  ForkSafeMutex mutex;
  std::shared_ptr<const PrintSink> sink;  // null: std::cout
  ForkSafeMutex standard_output;          // lines of two threads do not mix
  static Sink& instance() { return process_object<Sink>(); }
};

inline void write_line(std::string line) {
  Sink& state = Sink::instance();
  std::shared_ptr<const PrintSink> sink;
  {
    std::scoped_lock lock(state.mutex);
    sink = state.sink;
  }
  if (sink) return (*sink)(line);
  std::scoped_lock lock(state.standard_output);
  std::cout << line.append("\n") << std::flush;
}

/// Walks a format: `literal(text)` for what stands as it is, `place(name)` for each "{name}". False if a brace is
/// alone.
template <class L, class P>
bool for_each_piece(std::string_view format, L&& literal, P&& place) {
  for (std::size_t at = 0; at < format.size();) {
    const std::size_t brace = std::min(format.find_first_of("{}", at), format.size());
    if (brace > at) literal(format.substr(at, brace - at));
    if (brace == format.size()) return true;
    if (brace + 1 < format.size() && format[brace + 1] == format[brace]) {
      literal(format.substr(brace, 1));
      at = brace + 2;
      continue;
    }
    const std::size_t end = format.find('}', brace);
    if (format[brace] == '}' || end == std::string_view::npos) return false;
    place(format.substr(brace + 1, end - brace - 1));
    at = end + 1;
  }
  return true;
}

inline std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) out.append(c == '{' || c == '}' ? 2 : 1, c);
  return out;
}

SINTER_DECL Word word_of(std::string_view text) {
  Word word;
  word.text = text;
  return word;
}
SINTER_DECL Word word_of(Dim dim) {
  if (dim.is_static()) return word_of(std::string_view(std::to_string(dim.value())));
  Word word;
  word.dim = dim;
  word.kind = Word::Kind::dim;
  return word;
}
SINTER_DECL Word word_of(Leaf value) {
  if (!value.value && value.kind == DTypeClass::floating) return word_of_number(DType::f64, &value.number);
  if (!value.value)
    return value.kind == DTypeClass::integer ? word_of_number(DType::i64, &value.integer)
                                             : word_of(std::string_view(value.integer != 0 ? "True" : "False"));
  Word word;
  word.leaf = std::move(value);
  word.kind = Word::Kind::value;
  return word;
}
SINTER_DECL Word word_of_number(DType dtype, const void* number) {
  const Ref<Storage> storage = Storage::wrap(const_cast<void*>(number), as_index(size_of(dtype)), nullptr);
  return word_of(
      std::string_view(to_string(In(Tensor(TensorImpl::make_ready({dtype, Device::cpu(), {}}, storage)), Location()))));
}

/// What a message needs when it is written: the format with text filled in ("{}": a value, "{n}": extent n), the
/// values, and the extents.
struct Message {
  std::string format;
  std::vector<Leaf> values;
  Shape extents;
};

inline Message make_message(std::string_view op, const Format& format, std::span<Word> words) {
  Message message;
  std::size_t used = 0;
  bool is_plain = true;
  const bool is_whole = for_each_piece(
      format.text, [&](std::string_view text) { message.format += escaped(text); },
      [&](std::string_view name) {
        is_plain = is_plain && name.empty();
        if (used++ >= words.size()) return;
        Word& word = words[used - 1];
        if (word.kind == Word::Kind::text) {
          message.format += escaped(word.text);
        } else if (word.kind == Word::Kind::dim) {
          message.format += "{" + std::to_string(message.extents.rank()) + "}";
          message.extents.push_back(word.dim, format.where);
        } else {
          message.format += "{}";
          message.values.push_back(std::move(word.leaf));
        }
      });
  if (!is_whole || !is_plain)
    throw UserError(op, "the format \"" + format.text + "\" has a brace that is no place", format.where,
                    "write {} for a value, {{ and }} for braces");
  if (used != words.size())
    throw UserError(op,
                    "the format \"" + format.text + "\" has " + std::to_string(used) + " places, and " +
                        std::to_string(words.size()) + " values are given",
                    format.where, "write {} for each value");
  return message;
}

/// A value that looks at memory which outlives it.
inline Tensor look_at(const HostView& view) {
  return Tensor(
      TensorImpl::make_ready({view.dtype, Device::cpu(), view.shape}, Storage::wrap(view.data, view.bytes(), nullptr)));
}

inline std::string fill(const HostCall& call, std::span<const HostView> values) {
  std::string out;
  std::size_t next = 0;
  for_each_piece(
      call.attrs[ops::MessageAttributes::format], [&](std::string_view text) { out += text; },
      [&](std::string_view name) {
        if (name.empty()) out += to_string(In(look_at(values[next++]), call.where));
        else
          out +=
              std::to_string(call.value_of(call.attrs[ops::MessageAttributes::extents][std::stoi(std::string(name))]));
      });
  return out;
}

/// Functions that carry nothing: any of them may replace another.
template <class Self>
class PlainFunction : public HostFunction {
 public:
  bool is_a(TypeKey type) const override { return type == type_key<Self>() || HostFunction::is_a(type); }
  bool same_as(const Payload& other) const override { return other.is_a(type_key<Self>()); }
  /// One line, or one check, for the whole batch.
  void batch(const BatchArgs& args, BatchedList& results) const override {
    ops_detail::batch_as_whole(args, args.attrs, results);
  }
};

class PrintFunction final : public PlainFunction<PrintFunction> {
 public:
  std::string name() const override { return "print"; }
  void run(HostCall& call, std::span<const HostView> in, std::span<const HostView>) const override {
    const TracePause outside;
    write_line(fill(call, in));
  }
};

class CheckFunction final : public PlainFunction<CheckFunction> {
 public:
  std::string name() const override { return "check"; }
  void run(HostCall& call, std::span<const HostView> in, std::span<const HostView>) const override {
    const HostView& condition = in[0];
    const auto* holds = condition.as<const bool>();
    const auto* end = holds + condition.numel;
    const auto* first = std::find(holds, end, false);
    if (SINTER_LIKELY(first == end)) return;
    const TracePause outside;
    std::string text = fill(call, in.subspan(1));
    if (condition.shape.rank() > 0)
      text += " (" + std::to_string(std::count(first, end, false)) + " of " + std::to_string(condition.numel) +
              " elements, the first at " + index_text(condition.shape, first - holds) + ")";
    throw CheckError("check", text, call.where);
  }

 private:
  static std::string index_text(const Shape& shape, std::int64_t position) {
    std::string text;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      text = std::to_string(position % shape[axis].value()) + (text.empty() ? "" : ", ") + text;
      position /= shape[axis].value();
    }
    return "(" + text + ")";
  }
};

inline Attrs message_attrs(Message& message, std::shared_ptr<const Payload> payload) {
  Attrs attrs;
  attrs.set(ops::MessageAttributes::format, message.format);
  attrs.set(ops::MessageAttributes::extents, message.extents);
  attrs.payload = std::move(payload);
  return attrs;
}

SINTER_DECL void print(const Format& format, std::span<Word> words) {
  Message message = make_message("print", format, words);
  record_effect(op_info<ops::Print>, message.values, message_attrs(message, std::make_shared<PrintFunction>()),
                format.where);
}

SINTER_DECL void check(const In& condition, const Format& format, std::span<Word> words) {
  Message message = make_message("check", format, words);
  Ref<TensorImpl> holds = condition.tensor();
  if (holds->type.dtype != DType::bool_)
    throw DTypeError("check", "the condition is " + holds->type.text() + ", it must be bool", format.where,
                     "compare it: jit::check(x != 0, ...)");
  std::vector<Leaf> operands{Leaf(std::move(holds))};
  for (Leaf& value : message.values) operands.push_back(std::move(value));
  record_effect(op_info<ops::Check>, operands, message_attrs(message, std::make_shared<CheckFunction>()), format.where);
}

/// A user's function on Tensors.
class CallbackFunction final : public HostFunction {
 public:
  CallbackFunction(CallbackSpec spec,
                   std::function<std::vector<Tensor>(std::span<const Tensor>, const Tensor&, const Tensor&)> derivative)
      : spec_(std::move(spec)), derivative_(std::move(derivative)) {}

  std::string name() const override { return "callback"; }
  bool is_a(TypeKey type) const override { return type == type_key<CallbackFunction>() || HostFunction::is_a(type); }
  bool same_as(const Payload& other) const override {
    const auto* function = payload_cast<CallbackFunction>(&other);
    return this == function ||
           (function != nullptr && is_plain() && function->is_plain() && spec_.kind == function->spec_.kind);
  }
  bool may_be_retrace_of(const Payload& other) const override {
    const auto* function = payload_cast<CallbackFunction>(&other);
    return function != nullptr && spec_.kind == function->spec_.kind && !derivative_ == !function->derivative_;
  }
  void run(HostCall& call, std::span<const HostView> in, std::span<const HostView> out) const override {
    const TracePause outside;
    std::vector<Tensor> arguments;
    for (const HostView& view : in)
      arguments.push_back(
          expr_detail::copy_strided({view.dtype, Device::cpu(), view.shape}, view.data, dense_strides(view.shape)));
    std::vector<Returned> results;
    spec_.run(arguments, results);
    if (results.size() != out.size())
      throw UserError("callback",
                      "the function gave " + std::to_string(results.size()) + " results, " +
                          std::to_string(out.size()) + " were declared",
                      call.where);
    for (std::size_t i = 0; i < out.size(); ++i) deliver(std::move(results[i]), i, out[i], call.where);
  }
  void batch(const BatchArgs& args, BatchedList& results) const override {
    custom_detail::batch_by_example(args, results);
  }
  ValList vjp(const VjpArgs& args) const override {
    if (!derivative_) return HostFunction::vjp(args);
    return custom_detail::traced_vjp(
        args, name(), [&](std::span<const Tensor> in, std::span<const Tensor> out, std::span<const Tensor> dout) {
          return derivative_(in, out[0], dout[0]);
        });
  }

  const CallbackSpec& spec() const { return spec_; }
  bool has_derivative() const { return derivative_ != nullptr; }

 private:
  bool is_plain() const { return spec_.is_stateless && !derivative_; }

  static void deliver(Returned result, std::size_t index, const HostView& to, Location where) {
    if (result.kind == Returned::Kind::number && to.numel == 1)
      result.value = result.value.to(to.dtype).reshape(to.shape);
    if (result.kind == Returned::Kind::elements && result.value.numel() == to.numel)
      result.value = result.value.reshape(to.shape);
    const Ref<TensorImpl> value = dense_value(In(result.value, where), "callback");
    if (value->type.dtype != to.dtype || !identical(value->type.shape, to.shape))
      throw UserError("callback",
                      "result " + std::to_string(index) + " is " + value->type.text() + ", declared was " +
                          Type{to.dtype, {}, to.shape}.text(),
                      where);
    if (to.numel > 0) std::memcpy(to.data, value->data(), to.bytes());
  }

  CallbackSpec spec_;
  std::function<std::vector<Tensor>(std::span<const Tensor>, const Tensor&, const Tensor&)> derivative_;
};

// ---- names

/// Callbacks with names.
struct NamedCallbacks {
  struct Callback {
    std::string name;
    CallbackSpec like;
    CallbackRuns runs;
    Location where;
  };
  ForkSafeMutex mutex;
  std::vector<Callback> list;
  static NamedCallbacks& instance() { return process_object<NamedCallbacks>(); }
};

SINTER_DECL void register_callback(std::string name, CallbackSpec like, CallbackRuns runs, Location where) {
  if (name.empty()) throw UserError("register_callback", "the callback has no name", where, "give it one");
  NamedCallbacks& known = NamedCallbacks::instance();
  std::scoped_lock lock(known.mutex);
  for (NamedCallbacks::Callback& callback : known.list) {
    const bool is_known = callback.like.is_known_as(like);
    if (callback.name != name && !is_known) continue;
    if (callback.name != name || (!is_known && (callback.like.kind != like.kind || like.address != nullptr)))
      throw UserError(
          "register_callback",
          callback.name == name
              ? "the name '" + name + "' is that of another function, registered at " + callback.where.text()
              : "the function of '" + name + "' is registered as '" + callback.name + "' at " + callback.where.text(),
          where, "give each function one name");
    callback.runs = std::move(runs);  // the same again: the newer object counts
    return;
  }
  known.list.push_back({std::move(name), std::move(like), std::move(runs), where});
}

SINTER_DECL std::vector<Tensor> callback(CallbackSpec spec, std::span<const ResultSpec> results,
                                         std::span<const In> args, Location where) {
  bool is_pure = !results.empty(), has_derivative = false;
  Attrs attrs;
  for (const ResultSpec& result : results) {
    is_pure = is_pure && result.pure;
    has_derivative = has_derivative || result.vjp;
    static_cast<void>(result.shape.numel(where));
    attrs.types.push_back({result.dtype, Device::cpu(), result.shape});
  }
  if (has_derivative && results.size() > 1)
    throw UserError("callback", "a callback with " + std::to_string(results.size()) + " results has no derivative",
                    where, "use jit::custom_op");
  attrs.payload = std::make_shared<CallbackFunction>(std::move(spec), has_derivative ? results[0].vjp : nullptr);
  std::vector<Leaf> operands;
  for (const In& arg : args) operands.emplace_back(arg.tensor());
  std::vector<Ref<TensorImpl>> values = custom_detail::record_host_function(
      is_pure ? op_info<ops::PureCallback> : op_info<ops::Callback>, operands, std::move(attrs), where);
  std::vector<Tensor> out;
  for (auto& value : values) out.emplace_back(std::move(value));
  return out;
}

/// The registered callback for so many arguments, or null.
inline std::shared_ptr<const Payload> named_callback(std::string_view name, std::size_t arguments) {
  NamedCallbacks& known = NamedCallbacks::instance();
  std::scoped_lock lock(known.mutex);
  for (const NamedCallbacks::Callback& callback : known.list) {
    if (callback.name != name || arguments >= callback.runs.size() || !callback.runs[arguments]) continue;
    CallbackSpec spec = callback.like;
    spec.run = callback.runs[arguments];
    spec.is_stateless = false;
    spec.name = callback.name;
    return std::make_shared<CallbackFunction>(std::move(spec), nullptr);
  }
  return nullptr;
}
inline std::string name_of_callback(const CallbackFunction& function) {
  if (function.has_derivative()) return {};
  if (!function.spec().name.empty()) return function.spec().name;
  NamedCallbacks& known = NamedCallbacks::instance();
  std::scoped_lock lock(known.mutex);
  for (const NamedCallbacks::Callback& callback : known.list)
    if (callback.like.is_known_as(function.spec())) return callback.name;
  return {};
}

}  // namespace effects_detail

namespace jit_detail {
SINTER_DECL std::string payload_name(const Payload& payload) {
  using namespace effects_detail;
  if (payload.is_a(type_key<PrintFunction>())) return "print";
  if (payload.is_a(type_key<CheckFunction>())) return "check";
  if (const auto* callback = payload_cast<CallbackFunction>(&payload)) {
    const std::string name = name_of_callback(*callback);
    return name.empty() ? name : "callback " + name;
  }
  const std::string name = custom_detail::name_of_custom(payload);
  return name.empty() ? name : "custom " + name;
}

inline constexpr std::array<const OpInfo*, 7> host_ops{
    &op_info<ops::Print>,  &op_info<ops::Check>,        &op_info<ops::Callback>,       &op_info<ops::PureCallback>,
    &op_info<ops::Custom>, &op_info<ops::CustomEffect>, &op_info<ops::CustomComposite>};

SINTER_DECL const OpInfo* op_named(std::string_view name) {
  for (const OpInfo* op : host_ops)
    if (op->name == name) return op;
  return find_op(name);
}
SINTER_DECL bool takes_payload(const OpInfo& op) {
  return std::find(host_ops.begin(), host_ops.end(), &op) != host_ops.end();
}

SINTER_DECL std::shared_ptr<const Payload> payload_of(const OpInfo& op, std::string_view name, std::size_t operands) {
  using namespace effects_detail;
  if (&op == &op_info<ops::Print>) return name == "print" ? std::make_shared<PrintFunction>() : nullptr;
  if (&op == &op_info<ops::Check>) return name == "check" ? std::make_shared<CheckFunction>() : nullptr;
  const bool is_callback = &op == &op_info<ops::Callback> || &op == &op_info<ops::PureCallback>;
  const std::string_view kind = is_callback ? "callback " : "custom ";
  if (!takes_payload(op) || !name.starts_with(kind)) return nullptr;
  name.remove_prefix(kind.size());
  return is_callback ? named_callback(name, operands) : custom_detail::custom_of(name);
}

SINTER_DECL bool is_message_whole(const OpInfo& op, const Attrs& attrs, std::span<const Type> operands) {
  const bool is_check = &op == &op_info<ops::Check>;
  if (&op != &op_info<ops::Print> && !is_check) return true;
  const std::size_t others = is_check ? 2 : 1;  // the token, and the condition
  if (operands.size() < others || (is_check && operands[0].dtype != DType::bool_)) return false;
  std::size_t places = 0;
  bool is_whole = true;
  effects_detail::for_each_piece(
      attrs[ops::MessageAttributes::format], [](std::string_view) {},
      [&](std::string_view place) {
        if (place.empty()) return static_cast<void>(++places);
        const int extents = attrs[ops::MessageAttributes::extents].rank();
        is_whole = is_whole && place.size() == 1 && place[0] >= '0' && place[0] - '0' < extents;
      });
  return is_whole && places == operands.size() - others;
}
}  // namespace jit_detail

SINTER_DECL PrintSink set_print_sink(PrintSink sink) {
  auto& state = effects_detail::Sink::instance();
  std::shared_ptr<const PrintSink> fresh = sink ? std::make_shared<const PrintSink>(std::move(sink)) : nullptr;
  std::scoped_lock lock(state.mutex);
  std::swap(state.sink, fresh);
  return fresh ? *fresh : PrintSink();
}

SINTER_DECL ResultSpec like(const In& x) {
  const Ref<TensorImpl> value = x.tensor();
  return {.shape = value->type.shape, .dtype = value->type.dtype};
}

}  // namespace jit
SINTER_NAMESPACE_END
