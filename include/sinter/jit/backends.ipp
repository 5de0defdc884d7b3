// Back ends are named here and nowhere else.
#pragma once

#include <sinter/jit/backends.hpp>

#include <sinter/backend/reference/reference.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/passes/complex.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/decompose.hpp>
#include <sinter/passes/drop_derivatives.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/runtime/executor.hpp>
#include <sinter/tensor/device_memory.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#endif
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/backend.hpp>
#include <sinter/graph/builder.hpp>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
inline std::vector<Backend*>* make_backends() {
  auto* list = new std::vector<Backend*>;
#ifndef SINTER_NO_X86
  list->push_back(make_x86_backend().release());
#endif
  list->push_back(make_reference_backend().release());
  return list;
}

struct FakeDevice {
  std::atomic<DeviceMemory*> memory{nullptr};
  std::array<std::atomic<Backend*>, 2> backends{};  // by number of the device
  static FakeDevice& of(DeviceKind kind) {
    static constinit std::array<FakeDevice, 2> all;
    return all[as_index(kind)];
  }
};

/// The back end of a device other than the CPU; finding the device's memory has said what is wrong where there is none.
inline Backend* backend_of(Device device) {
  const auto& fake_devices = FakeDevice::of(device.kind).backends;
  if (Backend* backend = device.index < fake_devices.size() ? fake_devices[device.index].load() : nullptr)
    return backend;
#ifdef SINTER_CUDA
  if (device.kind == DeviceKind::cuda) return &cuda::backend(device);
#endif
  device_memory(device, "compile");
  throw DeviceError("compile", "device " + device.text() + " has memory but no back end");
}

/// Names that say how much happens before kernels are made, for bisecting.
inline constexpr std::array<std::string_view, 3> bisecting_backends{"eager", "aot_eager", "noop"};

/// What users registered. Entries are never removed, so that a compiled function may keep a pointer.
struct RegisteredBackends {
  ForkSafeMutex mutex;
  std::map<std::string, BackendFunction, std::less<>> functions;
  std::map<std::string, std::unique_ptr<Backend>, std::less<>> kernels;
  static RegisteredBackends& instance() { return process_object<RegisteredBackends>(); }
};

/// The user's kernel back end of that name, or null.
inline Backend* registered_kernels(std::string_view name) {
  auto& registered = RegisteredBackends::instance();
  std::scoped_lock lock(registered.mutex);
  const auto found = registered.kernels.find(name);
  return found == registered.kernels.end() ? nullptr : found->second.get();
}

inline std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

inline void check_new_name(std::string_view function, const std::string& name, Location where) {
  if (name.empty()) throw UserError(function, "the name is empty", where);
  const std::vector<std::string> known = list_backends();
  if (std::find(known.begin(), known.end(), name) != known.end())
    throw UserError(function, "there is a back end '" + name + "' already", where, "names in use: " + joined(known));
}

/// What is wrong with the limits of a back end, and what to do; empty: nothing.
inline std::pair<std::string, std::string> fault_of(const Limits& limits) {
  if (limits.kinds.is_empty())
    return {"has no kind of kernel in its limits", "name one: Limits{.kinds = {KernelKind::pointwise}}"};
  if (limits.dtypes.is_empty()) return {"has no dtype in its limits", "name one: Limits{.dtypes = {DType::f32}}"};
  if (limits.max_operands < 2 || limits.max_accesses < 2 || limits.max_body < 1)
    return {"has limits of " + std::to_string(limits.max_operands) + " operands, " +
                std::to_string(limits.max_accesses) + " accesses and " + std::to_string(limits.max_body) +
                " instructions",
            "a kernel reads one operand and writes one, with an instruction at least"};
  EnumSet<DType> others = limits.narrow_products;
  others.remove(DType::f16);
  others.remove(DType::bf16);
  if (!others.is_empty())
    return {"has a dtype besides f16 and bf16 among the narrow_products of its limits",
            "products of other dtypes are computed in their own: Limits{.narrow_products = {DType::bf16}}"};
  const auto has = [&](Prim prim) { return limits.primitives.has(prim); };
  if (has(Prim::mul) && has(Prim::add) && !has(Prim::fma))
    return {"has mul and add in its limits, and no fma", "a * b + c is one fma in a kernel: std::fma will do"};
  return {};
}

/// Throws unless `value` is what input `i` of a graph takes; gives it ready and dense.
inline Ref<TensorImpl> checked_input(const Type& wanted, const Tensor& value, std::size_t i, Location where) {
  const std::string which = "input " + std::to_string(i) + " of the graph";
  if (value.dtype() != wanted.dtype)
    throw DTypeError(
        "compile_graph",
        which + " is " + wanted.text() + ", the value has dtype " + std::string(sinter::name(value.dtype())), where);
  const Shape shape = value.shape();
  bool fits = shape.rank() == wanted.shape.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis)
    fits = !wanted.shape[axis].is_static() || identical(wanted.shape[axis], shape[axis]);
  if (!fits)
    throw ShapeError("compile_graph", which + " is " + wanted.text() + ", the value has shape " + shape.text(), where);
  return dense_value(In(value, where), "compile_graph");
}
}  // namespace jit_detail

SINTER_DECL const std::vector<Backend*>& host_backends() {
  return process_object([] { return jit_detail::make_backends(); });
}

SINTER_DECL std::vector<Backend*> backends_for(std::string_view wanted, Device device) {
  if (device != Device::cpu()) {
    if (wanted.empty() || jit_detail::is_unfused_backend(wanted)) return {jit_detail::backend_of(device)};
    throw DeviceError(
        "compile",
        "back end '" + std::string(wanted) + "' runs on the cpu, the function's tensors are on " + device.text(), {},
        "leave Options::backend empty: the device chooses");
  }
  const auto& all = host_backends();
  if (wanted.empty()) return all;
  std::vector<Backend*> list;
  if (Backend* registered = jit_detail::registered_kernels(wanted)) list.push_back(registered);
  for (Backend* backend : all)
    if (backend->name() == wanted) list.push_back(backend);
  if (list.empty() || list.back() != all.back()) list.push_back(all.back());
  return list;
}

SINTER_DECL std::vector<std::string> list_backends() {
  std::vector<std::string> names;
  for (const Backend* backend : host_backends()) names.emplace_back(backend->name());
  for (std::string_view name : jit_detail::bisecting_backends) names.emplace_back(name);
  const auto first = static_cast<std::ptrdiff_t>(names.size());
  auto& registered = jit_detail::RegisteredBackends::instance();
  std::scoped_lock lock(registered.mutex);
  for (const auto& [name, function] : registered.functions) names.push_back(name);
  for (const auto& [name, backend] : registered.kernels) names.push_back(name);
  std::sort(names.begin() + first, names.end());
  return names;
}

SINTER_DECL void register_backend(std::string name, BackendFunction compile, Location where) {
  jit_detail::check_new_name("register_backend", name, where);
  if (!compile) throw UserError("register_backend", "the function of back end '" + name + "' is empty", where);
  auto& registered = jit_detail::RegisteredBackends::instance();
  std::scoped_lock lock(registered.mutex);
  registered.functions.emplace(std::move(name), std::move(compile));
}

SINTER_DECL void register_kernel_backend(std::unique_ptr<Backend> backend, Location where) {
  constexpr std::string_view function = "register_kernel_backend";
  if (backend == nullptr) throw UserError(function, "there is no back end: the pointer is null", where);
  std::string name(backend->name());
  jit_detail::check_new_name(function, name, where);
  if (backend->device() != Device::cpu())
    throw UserError(function, "back end '" + name + "' is for " + backend->device().text(), where,
                    "kernel back ends that are registered run on the cpu");
  if (const auto [fault, fix] = jit_detail::fault_of(backend->limits()); !fault.empty())
    throw UserError(function, "back end '" + name + "' " + fault, where, fix);
  auto& registered = jit_detail::RegisteredBackends::instance();
  std::scoped_lock lock(registered.mutex);
  registered.kernels.emplace(std::move(name), std::move(backend));
}

SINTER_DECL void check_backend(std::string_view wanted, Location where) {
  if (wanted.empty()) return;
  const std::vector<std::string> known = list_backends();
  for (const std::string& name : known)
    if (name == wanted) return;
  const std::string_view nearest = nearest_name(wanted, {known.begin(), known.end()});
  throw UserError("compile", "there is no back end '" + std::string(wanted) + "'", where,
                  (nearest.empty() ? "" : "did you mean '" + std::string(nearest) + "'? ") +
                      std::string("this program has: ") + jit_detail::joined(known) +
                      "; jit::register_backend and jit::register_kernel_backend add one");
}

SINTER_DECL GraphFunction compile_graph(const Graph& graph, std::string_view backend, Location where) {
  check_backend(backend, where);
  if (backend == "noop" || jit_detail::registered_backend(backend) != nullptr)
    throw UserError("compile_graph", "back end '" + std::string(backend) + "' has no kernels", where,
                    "use \"\", x86, reference, eager, aot_eager or a registered back end for kernels");
  const Graph prepared = jit_detail::run_passes_for(backend, graph, matmul_precision());
  std::shared_ptr<const Plan> plan =
      make_plan(prepared, backend, {}, !jit_detail::is_unfused_backend(backend), graph, matmul_precision());
  return [plan, where](std::span<const Tensor> inputs) {
    if (inputs.size() != plan->inputs().size())
      throw UserError("compile_graph",
                      std::to_string(inputs.size()) + " values for the " + std::to_string(plan->inputs().size()) +
                          " inputs of the graph",
                      where);
    std::vector<Ref<TensorImpl>> values;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      values.push_back(jit_detail::checked_input(plan->inputs()[i], inputs[i], i, where));
    std::vector<Tensor> results;
    for (Ref<TensorImpl>& result : execute(*plan, values)) results.emplace_back(std::move(result));
    return results;
  };
}

namespace jit_detail {
SINTER_DECL const BackendFunction* registered_backend(std::string_view name) {
  auto& registered = RegisteredBackends::instance();
  std::scoped_lock lock(registered.mutex);
  auto found = registered.functions.find(name);
  return found == registered.functions.end() ? nullptr : &found->second;
}

SINTER_DECL bool is_unfused_backend(std::string_view name) { return name == "eager" || name == "aot_eager"; }

SINTER_DECL void set_fake_device(DeviceKind kind, DeviceMemory& memory, std::span<Backend* const> backends) {
  FakeDevice& fake = FakeDevice::of(kind);
  ensure(backends.size() <= fake.backends.size(), "fake device: too many devices");
  fake.memory = &memory;
  for (std::size_t i = 0; i < backends.size(); ++i) fake.backends[i] = backends[i];
}

/// Kernels are made of primitive operations on real numbers only, in sub-graphs as well; nobody differentiates them.
inline Graph decompose_all(const Graph& graph) {
  const Graph real = ComplexToPairs{}(Dce{}(DropDerivatives{}(graph)));
  return Decompose{}(map_bodies(real, [](const std::shared_ptr<const Graph>& body) {
    return std::make_shared<const Graph>(decompose_all(*body));
  }));
}
/// Null: the device cannot be used; whoever plans for it says so.
inline Backend* usable_backend(Device device) {
  try {
    return backend_of(device);
  } catch (const DeviceError&) { return nullptr; }
}
SINTER_DECL Graph run_passes_for(std::string_view backend, const Graph& graph, MatmulPrecision precision,
                                 PassObserver observe) {
  if (backend == "eager") return decompose_all(graph);
  PipelineOptions options;
  options.observe = std::move(observe);
  if (backend != "aot_eager")
    options.keep = [precision, is_named = !backend.empty(), on_host = backends_for(backend, Device::cpu())](
                       const Graph& whole, const Node& node) {
      if (node.types.empty()) return false;
      if (node.types[0].device == Device::cpu())
        return find_intrinsic(whole, node, on_host, precision).intrinsic != nullptr;
      Backend* const own = is_named ? nullptr : usable_backend(node.types[0].device);
      return own != nullptr && own->intrinsic(whole, node, precision) != nullptr;
    };
  if (is_logged("graphs", LogLevel::debug))
    options.observe = [next = std::move(options.observe)](std::string_view pass, const Graph& after, double seconds) {
      note("graphs", LogLevel::debug,
           "after " + std::string(pass) + " (" + std::to_string(seconds * 1e6) + " us):\n" + after.text());
      if (next) next(pass, after, seconds);
    };
  return run_pipeline(graph, options);
}
}  // namespace jit_detail

}  // namespace jit

SINTER_DECL DeviceMemory* find_device_memory(DeviceKind kind) {
  if (DeviceMemory* memory = jit::jit_detail::FakeDevice::of(kind).memory.load(std::memory_order_relaxed))
    return memory;
#ifdef SINTER_CUDA
  if (kind == DeviceKind::cuda) return &cuda::memory();
#endif
  return nullptr;
}

SINTER_NAMESPACE_END
