// How graphs are compared, shrunk, and written as programs.
#pragma once

#include <sinter/jit/debug/minify.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/scalar_meaning.hpp>
#include <sinter/passes/outline.hpp>
#include <sinter/tensor/impl.hpp>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace minify_detail {

/// The type of the pairs of real numbers that complex elements are; other types are their own.
inline Type type_of_pairs(const Type& type) {
  if (!is_complex(type.dtype)) return type;
  Type pairs = type;
  pairs.dtype = real_part_of(type.dtype);
  pairs.shape.push_back(Dim(2));
  return pairs;
}

/// The elements of a tensor as doubles, row-major; two of each complex one.
inline std::vector<double> elements_of(const Tensor& x) {
  const Tensor host = x.device() == Device::cpu() ? x : x.to(Device::cpu());
  const Ref<TensorImpl> dense = dense_value(In(host), "minify");
  const Type type = type_of_pairs(dense->type);
  std::vector<double> elements(as_index(type.shape.numel().value()));
  visit_dtype(type.dtype, [&]<class T>(T) {
    const T* data = static_cast<const T*>(dense->data());
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = scalar_meaning::converted<double>(data[i]);
  });
  return elements;
}

/// Whether integers differ, those as well that are the same as doubles.
inline bool differs_by_bits(const Tensor& a, const Tensor& b) {
  const DType dtype = a.dtype();
  if (is_differentiable(dtype) || a.device() != Device::cpu() || b.device() != Device::cpu()) return false;
  const Ref<TensorImpl> x = dense_value(In(a), "minify"), y = dense_value(In(b), "minify");
  const std::size_t count = as_index(x->type.shape.numel().value());
  return count > 0 && std::memcmp(x->data(), y->data(), count * as_index(size_of(dtype))) != 0;
}

/// A tensor of this type whose elements are these, rounded.
inline Tensor tensor_with(const Type& type, std::span<const double> elements) {
  if (is_complex(type.dtype))
    return Tensor(dense_value(In(view_as_complex(tensor_with(type_of_pairs(type), elements))), "minify"));
  return visit_dtype(type.dtype, [&]<class T>(T) {
    auto data = std::make_unique<T[]>(std::max<std::size_t>(1, elements.size()));
    for (std::size_t i = 0; i < elements.size(); ++i) data[i] = scalar_meaning::converted<T>(elements[i]);
    return copy_of(std::span<const T>(data.get(), elements.size()), type.shape);
  });
}

/// Element `i` of what programs make without data: between -1.5 and 1.5, of integers from 0 to 6.
inline double pattern_element(std::size_t i, DType dtype) {
  const auto number = static_cast<double>(i * 37 % 101);
  if (dtype == DType::bool_) return std::fmod(number, 2);
  return is_floating(dtype) ? number / 33 - 1.5 : std::fmod(number, 7);
}
inline Tensor pattern_of(const Type& type) {
  const Type pairs = type_of_pairs(type);
  std::vector<double> elements(as_index(pairs.shape.numel().value()));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = pattern_element(i, pairs.dtype);
  return tensor_with(type, elements);
}
inline bool is_pattern(const Tensor& x) {
  const std::vector<double> elements = elements_of(x), wanted = elements_of(pattern_of(x.impl()->type));
  return elements == wanted;
}

/// What one edit of a graph changes.
struct Edit {
  std::int32_t node = -1;        // whose results are replaced; -1: none
  Value by{};                    // by this value, or, where there is none, by a new input
  std::vector<Value> outputs{};  // of the original graph
};

/// Which nodes the outputs of an edited graph need.
inline std::vector<std::uint8_t> needed_nodes(const Graph& graph, const Edit& edit) {
  std::vector<std::uint8_t> needed(graph.nodes().size(), 0);
  for (Value v : edit.outputs) needed[as_index(v.node)] = 1;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    if (needed[i] == 0) continue;
    if (static_cast<std::int32_t>(i) != edit.node) {
      for (Value v : graph.nodes()[i].inputs) needed[as_index(v.node)] = 1;
    } else if (edit.by) {
      needed[as_index(edit.by.node)] = 1;
    }
  }
  return needed;
}

/// The edited graph without what its outputs do not need; `value` is that of the replaced node, where an input takes
/// its place.
inline GraphCase edited(const GraphCase& from, const Edit& edit, const Tensor* value = nullptr) {
  const Graph& graph = from.graph;
  const std::vector<std::uint8_t> needed = needed_nodes(graph, edit);
  GraphBuilder builder(graph);
  GraphCase made;
  std::vector<Value> now(graph.nodes().size());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value input = graph.inputs()[i];
    const bool carries_symbol = std::any_of(graph.symbols().begin(), graph.symbols().end(), [&](const SymbolInfo& s) {
      return s.input == static_cast<std::int32_t>(i);
    });
    if (needed[as_index(input.node)] == 0 && !carries_symbol) continue;
    for (std::size_t s = 0; s < graph.symbols().size(); ++s)
      if (graph.symbols()[s].input == static_cast<std::int32_t>(i))
        builder.symbols()[s].input = static_cast<std::int32_t>(made.inputs.size());
    now[as_index(input.node)] = builder.input(graph.type(input));
    made.inputs.push_back(from.inputs[i]);
  }
  const auto moved = [&](Value v) {
    return Value{now[as_index(v.node)].node, now[as_index(v.node)].result + v.result};
  };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (needed[i] == 0 || now[i]) continue;
    if (static_cast<std::int32_t>(i) == edit.node) {
      if (edit.by) {
        now[i] = moved(edit.by);
      } else {
        now[i] = builder.input(node.types[0]);
        made.inputs.push_back(*value);
      }
      continue;
    }
    Values operands;
    for (Value v : node.inputs) operands.push_back(moved(v));
    now[i] = builder.copy(node, operands);
  }
  std::vector<Value> outputs;
  for (Value v : edit.outputs) outputs.push_back(moved(v));
  made.graph = builder.finish(outputs);
  return made;
}

/// Makes a failing graph smaller, step by step, as long as it fails and there is time.
class Minifier {
 public:
  using Clock = std::chrono::steady_clock;
  Minifier(const FailureTest& fails, double budget_seconds)
      : fails_(fails),
        end_(start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget_seconds))) {}

  Minified run(GraphCase first) {
    Minified made;
    made.smallest = std::move(first);
    made.failure = failure_of(made.smallest);
    if (made.fails()) {
      at_ = &made;
      if (GraphCase whole{inline_calls(made.smallest.graph), made.smallest.inputs};
          !whole.graph.shares_nodes_with(made.smallest.graph))
        take_if_failing(std::move(whole));
      while (!is_late() && (keep_one_output() || end_earlier() || cut_inputs() || drop_nodes())) {}
      simplify_values();
    }
    made.tries = tries_;
    made.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return made;
  }

 private:
  bool is_late() const { return Clock::now() >= end_; }
  std::string failure_of(const GraphCase& tried) {
    ++tries_;
    return fails_(tried.graph, tried.inputs);
  }
  bool take_if_failing(GraphCase&& tried) {
    std::string failure;
    try {
      failure = failure_of(tried);
    } catch (const Error&) { return false; }  // the edit made something that is no program
    if (failure.empty()) return false;
    at_->smallest = std::move(tried);
    at_->failure = std::move(failure);
    return true;
  }
  /// True if the edit made the graph smaller, and it fails still.
  bool take(const Edit& edit, const Tensor* value = nullptr) {
    std::optional<GraphCase> tried;
    try {
      tried = edited(at_->smallest, edit, value);
    } catch (const Error&) { return false; }
    const Graph &before = at_->smallest.graph, &after = tried->graph;
    const bool is_smaller = tried->operations() < at_->smallest.operations() ||
                            after.nodes().size() < before.nodes().size() ||
                            after.outputs().size() < before.outputs().size();
    return is_smaller && take_if_failing(*std::move(tried));
  }
  const Graph& graph() const { return at_->smallest.graph; }
  std::vector<Value> outputs() const { return {graph().outputs().begin(), graph().outputs().end()}; }

  bool keep_one_output() {
    if (graph().outputs().size() < 2) return false;
    for (Value v : outputs())
      if (!is_late() && take({.outputs = {v}})) return true;
    return false;
  }
  /// Gives a value from the middle instead of the results: the first that is wrong.
  bool end_earlier() {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph().nodes().size()) && !is_late(); ++id) {
      const Node& node = graph().node(id);
      if (node.inputs.empty() || node.op->kind == OpKind::effect) continue;
      if (take({.outputs = {Value{id, 0}}})) return true;
    }
    return false;
  }
  /// Gives a value from the middle as an input, computed by plain loops: the last one possible.
  bool cut_inputs() {
    std::vector<std::int32_t> nodes;
    std::vector<Tensor> values;
    try {
      GraphBuilder builder(graph());
      std::vector<Value> all;
      for (std::size_t i = 0; i < graph().nodes().size(); ++i) {
        const Node& node = graph().nodes()[i];
        builder.copy(node, node.inputs);
        if (node.inputs.empty() || node.types.size() != 1 || node.op->kind == OpKind::effect) continue;
        if (!node.types[0].shape.is_static()) continue;
        nodes.push_back(static_cast<std::int32_t>(i));
        all.push_back({nodes.back(), 0});
      }
      values = jit_detail::results_of(builder.finish(all), at_->smallest.inputs, "eager");
    } catch (const Error&) { return false; }
    for (std::size_t k = nodes.size(); k-- > 0 && !is_late();)
      if (take({.node = nodes[k], .outputs = outputs()}, &values[k])) return true;
    return false;
  }
  /// Replaces an operation by one of its operands.
  bool drop_nodes() {
    for (auto id = static_cast<std::int32_t>(graph().nodes().size()) - 1; id >= 0 && !is_late(); --id) {
      const Values operands = graph().node(id).inputs;
      if (graph().node(id).types.size() != 1) continue;
      for (Value operand : operands)
        if (identical(graph().type(operand), graph().node(id).types[0]) &&
            take({.node = id, .by = operand, .outputs = outputs()}))
          return true;
    }
    return false;
  }
  /// Values that a program can make without data.
  void simplify_values() {
    for (std::size_t i = 0; i < at_->smallest.inputs.size() && !is_late(); ++i) {
      GraphCase tried = at_->smallest;
      tried.inputs[i] = pattern_of(tried.inputs[i].impl()->type);
      take_if_failing(std::move(tried));
    }
  }

  const FailureTest& fails_;
  Clock::time_point start_ = Clock::now(), end_;
  std::int64_t tries_ = 0;
  Minified* at_ = nullptr;
};

/// How a process of its own that runs the graph ends: "signal 11", "does not end within 10 s", or "".
inline std::string end_of_process(const Graph& graph, std::span<const Tensor> inputs, const MinifyOptions& options) {
  const pid_t child = ::fork();
  if (child < 0) throw UserError("minify", "the system starts no further process");
  if (child == 0) {
    try {
      jit_detail::results_of(graph, inputs, options.backend);
    } catch (...) {}  // an exception is neither
    ::_exit(0);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.timeout_seconds);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return options.failure == Failure::hang
                 ? "does not end within " + std::to_string(static_cast<int>(options.timeout_seconds)) + " s"
                 : "";
    }
    ::poll(nullptr, 0, 2);
  }
  if (options.failure == Failure::crash && WIFSIGNALED(status))
    return "ends by signal " + std::to_string(WTERMSIG(status));
  return {};
}

inline std::string failure_of(const Graph& graph, std::span<const Tensor> inputs, const MinifyOptions& options) {
  switch (options.failure) {
    case Failure::compile: try { compile_graph(graph, options.backend);
      } catch (const Error& error) { return error.what(); }
      return {};
    case Failure::accuracy:
      return jit_detail::difference_of(jit_detail::results_of(graph, inputs, options.backend),
                                       jit_detail::results_of(graph, inputs, "eager"), options.tolerance);
    case Failure::crash:
    case Failure::hang: return end_of_process(graph, inputs, options);
  }
  __builtin_unreachable();
}

inline std::string number_text(double x, DType dtype) {
  if (is_nan_number(x)) return "NAN";
  if (is_infinite_number(x)) return x > 0 ? "INFINITY" : "-INFINITY";
  std::array<char, 40> text{};
  if (is_floating(dtype)) std::snprintf(text.data(), text.size(), dtype == DType::f64 ? "%.17g" : "%.9g", x);
  else std::snprintf(text.data(), text.size(), "%lld", static_cast<long long>(x));
  return text.data();
}

inline std::string shape_text(const Shape& shape) {
  std::string text;
  for (int axis = 0; axis < shape.rank(); ++axis) text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis].value());
  return "{" + text + "}";
}

/// A statement that adds this value to the inputs of a program.
inline std::string input_text(const Tensor& value) {
  const Type type = type_of_pairs(value.impl()->type);
  const bool is_pairs = is_complex(value.dtype());
  const std::string shape = shape_text(type.shape),
                    dtype = "DType::" + std::string(type.dtype == DType::bool_ ? "bool_" : name(type.dtype)),
                    begin = is_pairs ? "  inputs.push_back(view_as_complex(" : "  inputs.push_back(",
                    end = is_pairs ? ")));\n" : "));\n";
  if (is_pattern(value)) return begin + "pattern(" + shape + ", " + dtype + end;
  const bool is_real = is_floating(type.dtype);
  std::string text = begin + "copy_of(std::vector<" + (is_real ? "double" : "std::int64_t") + ">{";
  const std::vector<double> elements = elements_of(value);
  for (std::size_t i = 0; i < elements.size(); ++i)
    text += (i == 0 ? "" : i % 12 == 0 ? ",\n      " : ", ") + number_text(elements[i], type.dtype);
  return text + "}, " + shape + ").to(" + dtype + end;
}

}  // namespace minify_detail

namespace jit_detail {

SINTER_DECL double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::c128:
    case DType::f64: return 1e-9;
    case DType::c64:
    case DType::f32: return 2e-4;
    case DType::f16: return 1e-2;
    case DType::bf16: return 5e-2;
    default: return is_floating(dtype) ? row(dtype).epsilon() : 0;
  }
}

SINTER_DECL double distance(const Tensor& found, const Tensor& wanted) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (!identical(found.impl()->type, wanted.impl()->type)) return infinite;
  const std::vector<double> a = minify_detail::elements_of(found), b = minify_detail::elements_of(wanted);
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_finite_number(b[i])) largest = std::max(largest, std::abs(b[i]));
    if (is_nan_number(a[i]) && is_nan_number(b[i])) continue;
    if (a[i] == b[i]) continue;
    if (!is_finite_number(a[i]) || !is_finite_number(b[i])) return infinite;
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  if (most == 0 && minify_detail::differs_by_bits(found, wanted)) most = 1;
  return largest < std::numeric_limits<float>::min() ? most : most / largest;
}

SINTER_DECL std::vector<Tensor> results_of(const Graph& graph, std::span<const Tensor> inputs,
                                           std::string_view backend) {
  return compile_graph(graph, backend)(inputs);
}

SINTER_DECL Tensor copy_of_value(const Tensor& x) {
  return minify_detail::tensor_with(dense_value(In(x), "bisect")->type, minify_detail::elements_of(x));
}

SINTER_DECL std::string difference_of(std::span<const Tensor> found, std::span<const Tensor> wanted, double tolerance) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double allowed = tolerance > 0 ? tolerance : tolerance_of(wanted[i].dtype());
    if (const double much = distance(found[i], wanted[i]); much > allowed) {
      std::array<char, 96> text{};
      std::snprintf(text.data(), text.size(), "output %zu differs by %.3g, %.3g is allowed", i, much, allowed);
      return text.data();
    }
  }
  return {};
}

}  // namespace jit_detail

SINTER_DECL std::string_view name(Failure failure) {
  return std::array<std::string_view, 4>{"compile", "accuracy", "crash", "hang"}[as_index(failure)];
}

SINTER_DECL std::int64_t GraphCase::operations() const {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [](const Node& node) { return node.op->kind != OpKind::leaf && !node.inputs.empty(); });
}

SINTER_DECL std::vector<Tensor> example_inputs(const Graph& graph) {
  std::vector<std::int64_t> symbols;
  for (const SymbolInfo& symbol : graph.symbols()) symbols.push_back(std::max<std::int64_t>(symbol.hint, symbol.min));
  std::vector<Tensor> inputs;
  for (Value v : graph.inputs()) {
    Type type = graph.type(v);
    for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape.set(axis, Dim(type.shape[axis].evaluate(symbols)));
    inputs.push_back(minify_detail::pattern_of(type));
  }
  return inputs;
}

SINTER_DECL Minified minify(const Graph& graph, std::span<const Tensor> inputs, const FailureTest& fails,
                            double budget_seconds) {
  if (inputs.size() != graph.inputs().size())
    throw UserError("minify", std::to_string(inputs.size()) + " values for the " +
                                  std::to_string(graph.inputs().size()) + " inputs of the graph");
  return minify_detail::Minifier(fails, budget_seconds).run({graph, {inputs.begin(), inputs.end()}});
}

SINTER_DECL Minified minify(const Graph& graph, std::span<const Tensor> inputs, const MinifyOptions& options) {
  const FailureTest fails = [&](const Graph& tried, std::span<const Tensor> values) {
    return minify_detail::failure_of(tried, values, options);
  };
  Minified made = minify(graph, inputs, fails, options.budget_seconds);
  made.backend = options.backend;
  return made;
}

SINTER_DECL std::string pasteable_program(const GraphCase& shown, std::string_view backend, std::string_view what) {
  using namespace minify_detail;
  std::string comment(what.substr(0, what.find('\n')));
  std::string text = "// " + std::to_string(shown.operations()) + " operations: " + comment + "\n";
  text +=
      "#include <sinter/graphs.hpp>\n#include <cmath>\n#include <iostream>\n#include <vector>\nusing namespace "
      "sinter;\n\n";
  const bool has_pattern = std::any_of(shown.inputs.begin(), shown.inputs.end(), is_pattern);
  if (has_pattern)
    text +=
        "Tensor pattern(const Shape& shape, DType dtype) {\n"
        "  std::vector<double> elements(static_cast<std::size_t>(shape.numel().value()));\n"
        "  for (std::size_t i = 0; i < elements.size(); ++i) {\n"
        "    const auto number = static_cast<double>(i * 37 % 101);\n"
        "    elements[i] = dtype == DType::bool_ ? std::fmod(number, 2)\n"
        "                  : is_floating(dtype) ? number / 33 - 1.5 : std::fmod(number, 7);\n"
        "  }\n  return copy_of(elements, shape).to(dtype);\n}\n\n";
  text += "int main() {\n  const Graph graph = parse_graph(R\"graph(" + shown.graph.text() +
          ")graph\");\n  std::vector<Tensor> inputs;\n";
  for (const Tensor& input : shown.inputs) text += input_text(input);
  const std::string quoted = "\"" + std::string(backend) + "\"";
  text +=
      "  for (const Tensor& x : inputs) eval(x);\n"
      "  const auto wanted = jit::compile_graph(graph, \"eager\")(inputs), found = jit::compile_graph(graph, " +
      quoted +
      ")(inputs);\n  for (std::size_t i = 0; i < wanted.size(); ++i)\n    std::cout << \"output \" << i << \":\\n\" << "
      "found[i] << \"plain loops:\\n\" << wanted[i];\n}\n";
  return text;
}

SINTER_DECL std::string Minified::program() const { return pasteable_program(smallest, backend, failure); }

}  // namespace jit
SINTER_NAMESPACE_END
