// Plan, kernels, numbers, bytes.
#pragma once

#include <sinter/io/cpp/header_writer.hpp>

#include <sinter/base/hash.hpp>
#include <sinter/base/index.hpp>
#include <sinter/io/cpp/order_source.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/ops/control.hpp>
#include <sinter/ops/control_bodies.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/tensor/storage.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#include <sinter/backend/x86/exported/exported.hpp>
#include <sinter/backend/x86/exported/runtime_source.hpp>
#endif

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::cpp_detail {

/// What C++ calls an element. Floats of 8 and 16 bits are their bits.
inline std::string element_type(DType dtype) {
  const DType part = real_part_of(dtype);
  if (part == DType::f32) return "float";
  if (part == DType::f64) return "double";
  const bool is_signed = is_integer(dtype) && row(dtype).is_signed;
  return std::string(is_signed ? "std::int" : "std::uint") + std::to_string(8 * size_of(dtype)) + "_t";
}

inline constexpr char hex_digits[] = "0123456789abcdef";

/// Bytes as an array that begins on a cache line.
inline std::string byte_array(std::string_view function, std::string_view comment, const void* bytes,
                              std::size_t size) {
  std::string text = "\n// " + std::string(comment) + "\ninline const char* " + std::string(function) +
                     "() {\n  alignas(64) static const std::uint64_t words[] = {";
  text.reserve(text.size() + size / 8 * 22 + 200);
  const char* at = static_cast<const char*>(bytes);
  for (std::size_t i = 0; i < std::max<std::size_t>(size, 1); i += 8) {
    std::uint64_t word = 0;
    if (i < size) std::memcpy(&word, at + i, std::min<std::size_t>(8, size - i));
    text += i % 48 == 0 ? "\n      0x" : " 0x";
    bool has_digit = false;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const auto digit = static_cast<std::size_t>(word >> shift & 15);
      has_digit |= digit != 0 || shift == 0;
      if (has_digit) text += hex_digits[digit];
    }
    text += ",";
  }
  return text + "};\n  return reinterpret_cast<const char*>(words);\n}\n";
}

inline std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  std::size_t line = 0;
  for (const std::int64_t number : numbers) {
    if (text.size() - line > 100) {
      text += "\n     ";
      line = text.size();
    }
    text += (text.empty() ? "" : " ") + std::to_string(number) + ",";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

/// The library's functions for whole operations are no code of their own: nothing stays whole.
#ifndef SINTER_NO_X86
class KernelsOnly final : public Backend {
 public:
  explicit KernelsOnly(x86::Isa isa) : x86_(isa) {}
  std::string_view name() const override { return x86_.name(); }
  std::string cache_key() const override { return x86_.cache_key(); }
  Limits limits() const override { return x86_.limits(); }
  std::shared_ptr<const Executable> compile(const Kernel&, const Schedule&, std::string*) override { return nullptr; }

 private:
  x86::X86Backend x86_;
};

inline x86::Isa isa_for(std::string_view name, Location where) {
  if (name == "avx2") return x86::Isa::avx2;
  if (name == "avx512") return x86::Isa::avx512;
  if (const std::optional<x86::Isa> here = x86::detect_isa()) return *here;
  throw UserError("export_cpp", "this processor has neither AVX2 nor AVX-512", where, "name one: CppFile::isa");
}

class HeaderWriter {
 public:
  HeaderWriter(const HeaderText& text, x86::Isa isa) : text_(text), isa_(isa), kernels_(isa) {}

  std::string write(const Graph& graph, MatmulPrecision precision) {
    take_hints(graph);
    KernelsOnly backend(isa_);
    PlanOptions options;
    options.backends = {&backend, jit::host_backends().back()};
    options.precision = precision;
    options.with_code = false;
    options.own_outputs = true;
    const std::shared_ptr<const Plan> plan = build_plan(run_pipeline(graph), options);
    const std::size_t arena = write_plan(*plan);
    for (const HeaderInput& input : text_.inputs)
      if (input.weight != nullptr) weight_text(*input.weight);
    const std::string name(text_.name);
    std::string header = "namespace " + name + "_detail {\n" + x86::runtime_source(isa_);
    if (has_order_) header += order_source();
    header += byte_array("code", "Machine code of " + std::to_string(kernels_in_plan_) + " kernels.",
                         kernels_.code().data(), kernels_.code().size());
    header += code_function();
    header += byte_array("weights", "Weights and other constants.", weights_.data(), weights_.size());
    header +=
        "inline char* weight(std::size_t offset) { return const_cast<char*>(weights()) + offset; }\n" + functions_;
    header += "\n}  // namespace " + name + "_detail\n" + front(*plan, arena);
    const std::string unique = name + "_" + hash_text(header);
    return head(unique) + "\n// Another header with this name has other symbols.\ninline namespace " + unique + " {\n" +
           header + "\n}  // namespace " + unique + "\n\n#endif\n";
  }

 private:
  static std::string hash_text(std::string_view text) {
    const std::uint64_t hash = Hasher{}.add(text).finish().high;
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4) digits += hex_digits[hash >> shift & 15];
    return digits;
  }
  /// Extents are those of a trace, or what a graph says.
  void take_hints(const Graph& graph) {
    for (const SymbolInfo& symbol : graph.symbols()) {
      if (symbol.hint <= 0)
        throw UserError("export_cpp",
                        "symbol s" + std::to_string(symbols_.size()) + " has no hint, the extent to export for",
                        text_.where, "give the graph a hint for it, or extents that are numbers");
      symbols_.push_back(symbol.hint);
    }
  }
  [[noreturn]] void refuse(const PlanStep& step, const std::string& why) const {
    const Location where = step.where.empty() ? (step.host ? step.host->where : text_.where) : step.where.front();
    throw UserError("export_cpp", step.name + ": " + why, where,
                    "leave it out of the exported function, or use jit::save, which keeps all that the library does");
  }

  /// Where an operand of a step is, as C++.
  std::string operand_text(const Plan& plan, const BufferRef& operand, const std::vector<std::int64_t>& slots) {
    const std::string index = std::to_string(operand.index);
    switch (operand.kind) {
      case BufferKind::input: return "in[" + index + "]";
      case BufferKind::output: return "out[" + std::to_string(plan.output_number(as_index(operand.index))) + "]";
      case BufferKind::arena: return "arena + " + std::to_string(slots[as_index(operand.index)]);
      case BufferKind::constant: return weight_text(*plan.constants()[as_index(operand.index)]);
      case BufferKind::number: return number_text(plan.numbers()[as_index(operand.index)]);
      case BufferKind::none: break;
    }
    throw InternalError("export_cpp: an operand without memory");
  }
  std::string at_weight(std::size_t at) const { return "weight(" + std::to_string(at) + ")"; }
  std::string weight_text(const TensorImpl& value) {
    const auto [known, is_new] = known_weights_.try_emplace(&value, 0);
    if (is_new) {
      std::int64_t before = 0, after = 0;  // elements from the first one, which strides may lead to
      const std::int64_t size = size_of(value.type.dtype);
      for (int axis = 0; axis < value.type.shape.rank(); ++axis) {
        const std::int64_t reach = (value.type.shape[axis].value() - 1) * value.strides[as_index(axis)];
        (reach < 0 ? before : after) += reach;
      }
      if (value.type.shape.numel().value() == 0) before = after = 0;
      const bool is_empty = value.type.shape.numel().value() == 0;
      known->second = add_weight(static_cast<const char*>(value.data()) + before * size,
                                 is_empty ? 0 : as_index((after - before + 1) * size)) +
                      as_index(-before * size);
    }
    return at_weight(known->second);
  }
  std::string number_text(const PlanNumber& number) {
    const std::int64_t value = number.value.evaluate(symbols_);
    const auto as_float = static_cast<float>(value);
    const auto as_double = static_cast<double>(value);
    if (number.dtype == DType::f32) return at_weight(add_weight(&as_float, sizeof as_float));
    if (number.dtype == DType::f64) return at_weight(add_weight(&as_double, sizeof as_double));
    return at_weight(add_weight(&value, sizeof value));
  }
  std::size_t add_weight(const void* bytes, std::size_t size) {
    const std::size_t at = (weights_.size() + 63) / 64 * 64;
    constexpr std::size_t most = std::size_t{1} << 25;
    if (size > most || at + size > most)
      throw UserError("export_cpp", "the weights are more than 32 MiB", text_.where,
                      "give the largest as arguments: a compiler takes no source of that size");
    weights_.resize(at + size);
    if (size != 0) std::memcpy(weights_.data() + at, bytes, size);
    return at;
  }

  /// Writes a function for the plan; bytes of its arena, with those of the bodies that it calls and of scratch.
  std::size_t write_plan(const Plan& plan) {
    if (const auto known = plans_.find(&plan); known != plans_.end()) return known->second.arena;
    std::vector<std::int64_t> bytes, slots;
    for (const ArenaSlot& slot : plan.slots()) bytes.push_back(slot.bytes.evaluate(symbols_));
    const auto own = (as_index(place_slots(plan.slots(), bytes, slots)) + 63) / 64 * 64;
    std::size_t arena = own;
    std::string body;
    for (const PlanStep& step : plan.steps()) {
      std::size_t needed = 0;
      const std::string call = step.host ? call_text(step, needed) : kernel_text(step, needed);
      if (call.empty()) continue;
      arena = std::max(arena, own + needed);
      body += "  {  // " + step.name + "\n    char* const operands[] = {";
      for (std::size_t i = 0; i < step.operands.size(); ++i)
        body += (i == 0 ? "" : ", ") + operand_text(plan, step.operands[i], slots);
      body += "};\n" + call + "  }\n";
    }
    if (plan.parts() != nullptr || plan.host_part() != nullptr)
      throw UserError("export_cpp", "the function computes on several devices", text_.where, "export it for the CPU");
    const std::size_t number = plans_.size();
    plans_[&plan] = {number, arena, own};
    functions_ += "\ninline bool run_" + std::to_string(number) +
                  "(char* const* in, char* const* out, char* arena) {\n  (void)in, (void)out, (void)arena;\n" +
                  replaced(body, "@scratch", "arena + " + std::to_string(own)) + "  return true;\n}\n";
    return arena;
  }
  static std::string replaced(std::string text, std::string_view what, std::string_view by) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
      text.replace(at, what.size(), by);
    return text;
  }

  /// Empty: nothing to compute.
  std::string kernel_text(const PlanStep& step, std::size_t& needed) {
    const BoundGeometry geometry = sinter::bind(step.geometry, symbols_);
    for (int axis = 0; axis < step.kernel.rank(); ++axis)
      if (!step.kernel.is_reduced(axis) && geometry.extent[as_index(axis)] == 0) return {};
    std::string why;
    const Optional<x86::ExportedKernel> kernel = kernels_.add(step.kernel, geometry, why);
    if (!kernel) refuse(step, "cannot be exported: " + why);
    ++kernels_in_plan_;
    needed = kernel->scratch_bytes;
    constexpr const char* runners[] = {"loop", "product", "scatter"};
    return "    static const std::int64_t numbers[] = {" + numbers_text(kernel->numbers) + "};\n    if (!run_" +
           runners[as_index(kernel->runner)] + "(mapped_code(), numbers, operands, @scratch)) return false;\n";
  }
  /// Of a host operation: those that order.
  std::string order_text(const PlanStep& step, const OrderStep& order, std::size_t& needed) {
    has_order_ = true;
    needed = order.scratch_bytes;
    std::string moved;
    for (std::size_t i = 0; i < step.operands.size(); ++i) moved += (i == 0 ? "" : ", ") + moved_operand(step, i);
    return "    char* const moved[] = {" + moved + "};\n    static const std::int64_t numbers[] = {" +
           numbers_text(order.numbers) + "};\n    run_order(numbers, moved, @scratch);\n";
  }
  /// Inputs of host operations begin somewhere in their operands.
  std::string moved_operand(const PlanStep& step, std::size_t i) const {
    const std::string operand = "operands[" + std::to_string(i) + "]";
    if (i >= step.host->inputs) return operand;
    return operand + " + " +
           std::to_string(step.host->offsets[i].evaluate(symbols_) * size_of(step.host->types[i].dtype));
  }
  std::int64_t bytes_of(const Type& type) const {
    std::int64_t bytes = size_of(type.dtype);
    for (const Dim extent : type.shape.dims()) bytes *= extent.evaluate(symbols_);
    return bytes;
  }
  /// A call of a body, whose memory begins `at` bytes into the step's.
  std::string body_call(const Plan& body, const char* in, const char* out, std::size_t at) const {
    return "run_" + std::to_string(plans_.at(&body).number) + "(" + in + ", " + out + ", @scratch + " +
           std::to_string(at) + ")";
  }
  /// `inputs`, the operands from `first` on, and `results`.
  std::string inputs_text(const PlanStep& step, std::size_t first) const {
    std::string text = "    char* inputs[] = {";
    for (std::size_t i = first; i < step.host->inputs; ++i) text += moved_operand(step, i) + ", ";
    return text + "nullptr};\n    char* const* const results = operands + " + std::to_string(step.host->inputs) + ";\n";
  }
  /// Of a branch or a loop. Empty: the step is something else.
  std::string control_text(const PlanStep& step, std::size_t& needed) {
    const HostOp& op = *step.host;
    const bool is_switch = op.run == &ops::Switch::run_on_host, is_scan = op.run == &ops::Scan::run_on_host;
    if (!is_switch && !is_scan && op.run != &ops::WhileLoop::run_on_host) return {};
    if (is_scan && !(*op.attrs)[ops::Scan::saved].empty())
      refuse(step, "cannot be exported: it keeps what a gradient needs");
    std::size_t of_bodies = 0;
    for (const auto& body : op.bodies) of_bodies = std::max(of_bodies, write_plan(*body));
    const std::string text = is_switch ? switch_text(step)
                             : is_scan ? scan_text(step, needed)
                                       : while_text(step, needed);
    needed += of_bodies;
    return text;
  }
  std::string switch_text(const PlanStep& step) const {
    const HostOp& op = *step.host;
    std::string text = inputs_text(step, 1) + "    const Number chosen = static_cast<Number>(*reinterpret_cast<const " +
                       std::string(element_type(op.types[0].dtype)) + "*>(" + moved_operand(step, 0) + "));\n";
    for (std::size_t i = 0; i < op.bodies.size(); ++i) {
      const bool is_last = i + 1 == op.bodies.size();
      text += std::string(i == 0 ? "    " : "    else ") +
              (is_last ? "" : "if (chosen <= " + std::to_string(i) + ") ") + "{\n      if (!" +
              body_call(*op.bodies[i], "inputs", "results", 0) + ") return false;\n    }\n";
    }
    return text;
  }
  /// Memory for carries, between which and the results they alternate.
  std::string spare_text(const PlanStep& step, std::size_t carries, std::size_t& at) const {
    std::string text = "    char* const spare[] = {";
    for (std::size_t c = 0; c < carries; ++c) {
      text += "@scratch + " + std::to_string(at) + ", ";
      at += (as_index(bytes_of(step.host->types[step.host->inputs + c])) + 63) / 64 * 64;
    }
    return text + "nullptr};\n    static const Number bytes[] = {" + carry_bytes(step, carries) + "0};\n";
  }
  std::string carry_bytes(const PlanStep& step, std::size_t carries) const {
    std::string text;
    for (std::size_t c = 0; c < carries; ++c)
      text += std::to_string(bytes_of(step.host->types[step.host->inputs + c])) + ", ";
    return text;
  }
  std::string while_text(const PlanStep& step, std::size_t& needed) const {
    const HostOp& op = *step.host;
    const auto carries = as_index((*op.attrs)[ops::WhileLoop::carries]);
    const std::string count = std::to_string(carries);
    std::size_t at = 64;  // behind the condition
    std::string text = inputs_text(step, 0) + spare_text(step, carries, at);
    needed = at;
    text += "    char* outputs[] = {";
    for (std::size_t c = 0; c < carries; ++c) text += "results[" + std::to_string(c) + "], ";
    text += "@scratch};\n    if (!" + body_call(*op.bodies[0], "inputs", ("outputs + " + count).c_str(), at) +
            ") return false;\n    for (bool is_first = true; *(@scratch) != 0; is_first = false) {\n      if (!" +
            body_call(*op.bodies[1], "inputs", "outputs", at) + ") return false;\n      for (Number c = 0; c < " +
            count +
            "; ++c) {\n        char* const now = outputs[c];\n"
            "        outputs[c] = is_first ? spare[c] : inputs[c];\n        inputs[c] = now;\n      }\n    }\n"
            "    for (Number c = 0; c < " +
            count +
            "; ++c)\n      if (inputs[c] != results[c]) std::memcpy(results[c], inputs[c], "
            "static_cast<std::size_t>(bytes[c]));\n";
    return text;
  }
  std::string scan_text(const PlanStep& step, std::size_t& needed) const {
    const HostOp& op = *step.host;
    const ops_detail::ScanLayout layout(*op.attrs, op.inputs);
    const std::int64_t length = (*op.attrs)[ops::Scan::length].evaluate(symbols_);
    const std::string count = std::to_string(layout.carries), iterations = std::to_string(length);
    std::size_t at = 0;
    std::string text = inputs_text(step, 0) + spare_text(step, layout.carries, at);
    needed = at;
    text += "    char* outputs[] = {";
    for (std::size_t i = 0; i < layout.carries + layout.ys; ++i) text += "results[" + std::to_string(i) + "], ";
    text += "nullptr};\n";
    if (length <= 0)
      return text + "    (void)spare, (void)outputs;\n    for (Number c = 0; c < " + count +
             "; ++c) std::memcpy(results[c], inputs[c], static_cast<std::size_t>(bytes[c]));\n";
    text += "    (void)bytes;\n    for (Number step = 0; step < " + iterations +
            "; ++step) {\n      const Number i = " +
            (layout.is_reversed ? iterations + " - 1 - step" : std::string("step")) +
            ";\n      (void)i;\n      for (Number c = 0; c < " + count +
            "; ++c) {\n"
            "        if (step != 0) inputs[c] = outputs[c];\n        outputs[c] = (" +
            iterations + " - step) % 2 != 0 ? results[c] : spare[c];\n      }\n";
    const auto slice = [&](const char* array, std::size_t number, const std::string& from, const Type& type) {
      text += std::string("      ") + array + "[" + std::to_string(number) + "] = " + from + " + i * " +
              std::to_string(bytes_of(type) / length) + ";\n";
    };
    for (std::size_t x = layout.carries; x < layout.carries + layout.xs; ++x)
      slice("inputs", x, moved_operand(step, x), op.types[x]);
    for (std::size_t y = layout.carries; y < layout.carries + layout.ys; ++y)
      slice("outputs", y, "results[" + std::to_string(y) + "]", op.types[op.inputs + y]);
    return text + "      if (!" + body_call(*op.bodies[0], "inputs", "outputs", at) + ") return false;\n    }\n";
  }

  /// Of a region.
  std::string call_text(const PlanStep& step, std::size_t& needed) {
    if (const Optional<OrderStep> order = order_step(*step.host, symbols_)) return order_text(step, *order, needed);
    if (std::string text = control_text(step, needed); !text.empty()) return text;
    if (!step.host->is_call)
      refuse(step, "cannot be exported: it is done by a function of the library, which a header has not");
    needed = write_plan(*step.host->bodies[0]);
    std::string moves;
    for (std::size_t i = 0; i < step.host->inputs; ++i) moves += (i == 0 ? "" : ", ") + moved_operand(step, i);
    if (moves.empty()) moves = "nullptr";
    return "    char* const inputs[] = {" + moves + "};\n    if (!run_" +
           std::to_string(plans_.at(step.host->bodies[0].get()).number) + "(inputs, operands + " +
           std::to_string(step.host->inputs) + ", @scratch)) return false;\n";
  }

  std::string head(const std::string& unique) const {
    const std::string name(text_.name),
        isa = isa_ == x86::Isa::avx512 ? "AVX-512 (F, DQ, BW, VL)" : "AVX2, FMA, BMI2 and F16C";
    return "// " + name +
           "(): a function that Sinter " SINTER_VERSION_STRING
           " has compiled. Needs C++11, GCC or Clang, x86-64 with\n// " +
           isa +
           ", mmap() and mprotect(). One thread runs a call; several calls may run at once.\n#ifndef sinter_exported_" +
           unique + "\n#define sinter_exported_" + unique +
           "\n#if !defined(__x86_64__) || !defined(__GNUC__)\n#error \"this header is for GCC and Clang on x86-64\"\n"
           "#endif\n#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || __FINITE_MATH_ONLY__\n#error "
           "\"compile "
           "without -ffast-math and its parts: sums would lose their accuracy\"\n#endif\n\n"
           "#include <cpuid.h>\n#include <sys/mman.h>\n#include <xmmintrin.h>\n\n"
           "#include <algorithm>\n#include <cmath>\n#include <cstddef>\n#include <cstdint>\n#include <cstdlib>\n"
           "#include <cstring>\n";
  }
  std::string code_function() const {
    const std::string size = std::to_string(std::max<std::size_t>(kernels_.code().size(), 1));
    return "\n// Null: no processor for it, or no memory.\ninline const char* mapped_code() {\n"
           "  static const char* const mapped = has_instructions() ? map_code(code(), " +
           size + ") : nullptr;\n  return mapped;\n}\n";
  }
  std::string front(const Plan& plan, std::size_t arena) const;
  std::string parameters_text(const Plan& plan, std::string& in, std::string& out, std::string& checks) const;

  struct Written {
    std::size_t number = 0, arena = 0, own = 0;
  };
  const HeaderText& text_;
  x86::Isa isa_;
  x86::KernelExport kernels_;
  std::vector<std::int64_t> symbols_;
  std::vector<char> weights_;
  std::map<const TensorImpl*, std::size_t> known_weights_;
  std::map<const Plan*, Written> plans_;
  std::string functions_;
  std::size_t kernels_in_plan_ = 0;
  bool has_order_ = false;
};

SINTER_DECL std::string HeaderWriter::parameters_text(const Plan& plan, std::string& in, std::string& out,
                                                      std::string& checks) const {
  std::string text;
  const auto add = [&](const Type& type, const std::string& name, std::string_view qualifier) {
    std::int64_t count = 1;
    std::string shape;
    for (const Dim extent : type.shape.dims()) {
      count *= extent.evaluate(symbols_);
      shape += (shape.empty() ? "" : ", ") + std::to_string(extent.evaluate(symbols_));
    }
    text += (text.empty() ? "" : ",\n    ") + std::string(qualifier) + std::string(element_type(type.dtype)) + "* " +
            name + " /* " + std::string(sinter::name(type.dtype)) + "[" + shape + "] */";
    if (count != 0) checks += (checks.empty() ? "" : " || ") + name + " == nullptr";
  };
  // A parameter that nothing depends on is no input of the graph.
  std::vector<bool> is_used(text_.parameters.size());
  for (std::size_t i = 0; i < text_.inputs.size(); ++i) {
    const HeaderInput& input = text_.inputs[i];
    if (input.weight != nullptr) {
      in += std::string(text_.name) + "_detail::" + at_weight(known_weights_.at(input.weight)) + ", ";
      continue;
    }
    in += "reinterpret_cast<char*>(const_cast<" + std::string(element_type(plan.inputs()[i].dtype)) + "*>(" +
          input.name + ")), ";
  }
  for (std::size_t p = 0; p < text_.parameters.size(); ++p)
    for (std::size_t i = 0; i < text_.inputs.size(); ++i)
      if (text_.inputs[i].weight == nullptr && text_.inputs[i].name == text_.parameters[p] && !is_used[p]) {
        is_used[p] = true;
        add(plan.inputs()[i], text_.parameters[p], "const ");
      }
  for (std::size_t j = 0; j < plan.outputs().size(); ++j) {
    const PlanOutput& output = plan.outputs()[j];
    ensure(output.source == BufferKind::output && output.index == static_cast<std::int32_t>(j),
           "export_cpp: an output that is no memory of its own");
    add(output.type, text_.outputs[j], "");
    out += "reinterpret_cast<char*>(" + text_.outputs[j] + "), ";
  }
  in += "nullptr";
  out += "nullptr";
  return text;
}

SINTER_DECL std::string HeaderWriter::front(const Plan& plan, std::size_t arena) const {
  const std::string name(text_.name), bytes = std::to_string(arena), run = std::to_string(plans_.at(&plan).number);
  std::string in, out, checks;
  const std::string parameters = parameters_text(plan, in, out, checks);
  std::string text =
      "\nenum @_status { @_ok, @_wrong_processor, @_out_of_memory, @_bad_argument, @_bad_index };\n"
      "inline const char* @_status_text(int status) {\n  switch (status) {\n"
      "    case @_ok: return \"done\";\n"
      "    case @_wrong_processor: return \"this processor lacks instructions that the code uses\";\n"
      "    case @_out_of_memory: return \"no memory, or none that may be executed\";\n"
      "    case @_bad_argument: return \"a null pointer, or an arena that is not aligned to 64 bytes\";\n"
      "    case @_bad_index: return \"an index is out of range; results are unspecified\";\n"
      "  }\n  return \"unknown\";\n}\n\n"
      "// Bytes that a call works in.\n"
      "inline std::size_t @_arena_bytes() { return " +
      bytes +
      "; }\n\n// Arrays are row-major, and results overlap nothing else. `arena`: @_arena_bytes() bytes on a"
      " cache line (64\n// bytes), or null, and the call takes them from malloc().\n"
      "inline int @(\n    " +
      parameters + (parameters.empty() ? "" : ",\n    ") + "void* arena = nullptr) {\n";
  if (!checks.empty()) text += "  if (" + checks + ") return @_bad_argument;\n";
  text +=
      "  if (reinterpret_cast<std::uintptr_t>(arena) % 64 != 0) return @_bad_argument;\n"
      "  if (@_detail::mapped_code() == nullptr)\n"
      "    return @_detail::has_instructions() ? @_out_of_memory : @_wrong_processor;\n"
      "  void* sinter_own = nullptr;\n  if (arena == nullptr && @_arena_bytes() != 0) {\n"
      "    sinter_own = std::malloc(@_arena_bytes() + 63);\n    if (sinter_own == nullptr) return @_out_of_memory;\n"
      "    arena = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(sinter_own) + 63) / 64 * 64);\n  }\n"
      "  char* const sinter_in[] = {" +
      in + "};\n  char* const sinter_out[] = {" + out +
      "};\n  bool sinter_done = false;\n  {\n    const @_detail::FloatingPoint sinter_standard;\n"
      "    sinter_done = @_detail::run_" +
      run +
      "(sinter_in, sinter_out, static_cast<char*>(arena));\n  }\n  std::free(sinter_own);\n"
      "  return sinter_done ? @_ok : @_bad_index;\n}\n";
  return replaced(std::move(text), "@", name);
}
#endif

SINTER_DECL std::string header_text(const Graph& graph, MatmulPrecision precision, const HeaderText& text) {
#ifndef SINTER_NO_X86
  return HeaderWriter(text, isa_for(text.isa, text.where)).write(graph, precision);
#else
  static_cast<void>(graph), static_cast<void>(precision);
  throw UserError("export_cpp", "this build has no x86 back end", text.where, "build it without SINTER_NO_X86");
#endif
}

}  // namespace io::cpp_detail
SINTER_NAMESPACE_END
