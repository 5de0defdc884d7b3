// The search for the first NaN of a lazy graph.
#pragma once

#include <sinter/jit/debug/nans.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/ops/scalar_meaning.hpp>
#include <sinter/tensor/impl.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace nans_detail {
inline constexpr std::uint8_t nans = 1, infs = 2;

inline std::uint8_t& wanted_of_thread() noexcept {
  static thread_local constinit std::uint8_t wanted = 0;
  return wanted;
}
inline std::uint8_t wanted_of_process() noexcept {
  const char* text = std::getenv("SINTER_DEBUG_NANS");
  return text != nullptr && *text != '\0' && std::string_view(text) != "0" ? nans : std::uint8_t{0};
}
inline std::uint8_t wanted_now() noexcept {
  static const std::uint8_t of_process = wanted_of_process();
  return wanted_of_thread() | of_process;
}

/// The first element that is looked for; place -1: there is none.
struct BadElement {
  std::int64_t place = -1;
  bool is_nan = false;
};
inline BadElement first_bad(const Tensor& value, std::uint8_t wanted) {
  if (!is_differentiable(value.dtype())) return {};
  const Ref<TensorImpl> dense =
      dense_value(In(value.device() == Device::cpu() ? value : value.to(Device::cpu())), "debug_nans");
  const std::int64_t width = is_complex(value.dtype()) ? 2 : 1;
  const std::int64_t count = dense->type.shape.numel().value() * width;
  return visit_dtype(real_part_of(value.dtype()), [&]<class T>(T) -> BadElement {
    if constexpr (FloatingElement<T>) {
      const T* elements = static_cast<const T*>(dense->data());
      for (std::int64_t i = 0; i < count; ++i) {
        const auto x = static_cast<double>(static_cast<tensor_detail::Computed<T>>(elements[i]));
        if (is_nan_number(x) && (wanted & nans) != 0) return {i / width, true};
        if (is_infinite_number(x) && (wanted & infs) != 0) return {i / width, false};
      }
    }
    return {};
  });
}

inline std::string index_text(std::int64_t place, const Shape& shape) {
  std::string text;
  for (int axis = shape.rank(); axis-- > 0;) {
    const std::int64_t extent = shape[axis].value();
    text = std::to_string(place % extent) + (text.empty() ? "" : ", ") + text;
    place /= extent;
  }
  return "(" + text + ")";
}

inline double element_at(const Tensor& value, std::int64_t place) {
  const Ref<TensorImpl> dense = dense_value(In(value), "debug_nans");
  return visit_dtype(dense->type.dtype, [&]<class T>(T) {
    return scalar_meaning::converted<double>(static_cast<const T*>(dense->data())[place]);
  });
}

/// "f32[3] with 0 there": what an operand of the same shape has in the same place, or its type.
inline std::string operand_text(const Tensor& operand, const Tensor& result, std::int64_t place) {
  const std::string type = operand.impl()->type.text();
  if (!(operand.shape() == result.shape()) || operand.device() != Device::cpu() || is_complex(operand.dtype()))
    return type;
  std::string number = std::to_string(element_at(operand, place));
  return type + " with " + number + " there";
}

/// The graph with all floating and complex values of its nodes as outputs, and which these are.
inline Graph with_all_values(const Graph& graph, std::vector<Value>& places) {
  GraphBuilder builder(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    builder.copy(node, node.inputs);
    if (node.op->kind == OpKind::effect) continue;
    for (std::size_t r = 0; r < node.types.size(); ++r)
      if (is_differentiable(node.types[r].dtype))
        places.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(r)});
  }
  return builder.finish(places);
}

/// A value of a graph, and what is looked for in it.
struct SeenValue {
  Tensor value;
  BadElement bad;
};
using SeenValues = std::map<Value, SeenValue>;
inline bool is_bad(const SeenValues& seen, Value v) {
  const auto found = seen.find(v);
  return found != seen.end() && found->second.bad.place >= 0;
}

/// From a bad value back through bad operands: the one whose operands do not explain it.
inline Value origin_of(const Graph& graph, const SeenValues& seen, Value v) {
  while (true) {
    const Values& operands = graph.node(v).inputs;
    const auto bad =
        std::find_if(operands.begin(), operands.end(), [&](Value operand) { return is_bad(seen, operand); });
    if (bad == operands.end()) return v;
    v = *bad;
  }
}

[[noreturn]] inline void throw_for(const Graph& graph, const SeenValues& seen, Value v) {
  const Node& node = graph.node(v);
  const SeenValue& found = seen.at(v);
  std::string operands;
  for (Value operand : node.inputs)
    if (const auto other = seen.find(operand); other != seen.end())
      operands +=
          (operands.empty() ? "; of " : " and ") + operand_text(other->second.value, found.value, found.bad.place);
  const bool is_leaf = node.inputs.empty();
  throw NanError(
      is_leaf ? std::string_view("debug_nans") : node.op->name,
      std::string(is_leaf ? "a value that is given has " : "gives the first ") +
          (found.bad.is_nan ? "NaN" : "infinity") + ", in element " + index_text(found.bad.place, found.value.shape()) +
          " of " + found.value.impl()->type.text() + operands,
      node.where, is_leaf ? "look where the data come from" : "guard the operation, or mask its operands with where()");
}
}  // namespace nans_detail

SINTER_DECL DebugNans::DebugNans(DebugNansOptions options, Location where)
    : before_(nans_detail::wanted_of_thread()), eager_(Stance::force_eager) {
  if (!options.nans && !options.infs)
    throw UserError("debug_nans", "neither NaN nor infinities are looked for", where,
                    "leave .nans true, or set .infs; nothing is looked for when no DebugNans lives");
  nans_detail::wanted_of_thread() =
      static_cast<std::uint8_t>((options.nans ? nans_detail::nans : 0) | (options.infs ? nans_detail::infs : 0));
}
SINTER_DECL DebugNans::~DebugNans() { nans_detail::wanted_of_thread() = before_; }

namespace jit_detail {

SINTER_DECL bool looks_for_nans() noexcept { return nans_detail::wanted_now() != 0; }

SINTER_DECL bool has_nan(std::span<const Ref<TensorImpl>> values) {
  const std::uint8_t wanted = nans_detail::wanted_now();
  for (const Ref<TensorImpl>& value : values)
    if (nans_detail::first_bad(Tensor(value), wanted).place >= 0) return true;
  return false;
}

SINTER_DECL void throw_first_nan(const Graph& graph, std::span<const Ref<TensorImpl>> inputs) {
  using namespace nans_detail;
  const std::uint8_t wanted = wanted_now();
  std::vector<Tensor> given;
  for (const Ref<TensorImpl>& input : inputs) given.emplace_back(input);
  std::vector<Value> places;
  const Graph all = with_all_values(graph, places);
  SeenValues seen;
  {
    struct Pause {  // what is computed here is looked at here
      std::uint8_t before = std::exchange(wanted_of_thread(), std::uint8_t{0});
      ~Pause() { wanted_of_thread() = before; }
    } pause;
    const std::vector<Tensor> values = compile_graph(all, "eager")(given);
    for (std::size_t i = 0; i < places.size(); ++i)
      seen.emplace(places[i], SeenValue{values[i], first_bad(values[i], wanted)});
  }
  for (Value v : graph.outputs())
    if (is_bad(seen, v)) throw_for(graph, seen, origin_of(graph, seen, v));
}

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
