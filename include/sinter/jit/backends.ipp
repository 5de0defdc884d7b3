// Back ends are named here and nowhere else.
#pragma once

#include <sinter/jit/backends.hpp>

#include <sinter/backend/reference/reference.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/passes/decompose.hpp>
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

#include <array>
#include <atomic>
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

/// Names that are stages of the one way rather than kernels of their own.
inline constexpr std::array<std::string_view, 3> stage_backends{"eager", "aot_eager", "noop"};

/// What users registered. Entries are never removed, so that a compiled function may keep a pointer.
struct RegisteredBackends {
  ForkSafeMutex mutex;
  std::map<std::string, BackendFunction, std::less<>> functions;
  static RegisteredBackends& instance() { return process_object<RegisteredBackends>(); }
};

inline std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
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
  for (Backend* backend : all)
    if (backend->name() == wanted) list.push_back(backend);
  if (list.empty() || list.back() != all.back()) list.push_back(all.back());
  return list;
}

SINTER_DECL std::vector<std::string> list_backends() {
  std::vector<std::string> names;
  for (const Backend* backend : host_backends()) names.emplace_back(backend->name());
  for (std::string_view stage : jit_detail::stage_backends) names.emplace_back(stage);
  auto& registered = jit_detail::RegisteredBackends::instance();
  std::scoped_lock lock(registered.mutex);
  for (const auto& [name, function] : registered.functions) names.push_back(name);
  return names;
}

SINTER_DECL void register_backend(std::string name, BackendFunction compile, Location where) {
  if (name.empty()) throw UserError("register_backend", "the name is empty", where);
  if (!compile) throw UserError("register_backend", "the function of back end '" + name + "' is empty", where);
  for (const std::string& known : list_backends())
    if (known == name)
      throw UserError("register_backend", "there is a back end '" + name + "' already", where,
                      "names in use: " + jit_detail::joined(list_backends()));
  auto& registered = jit_detail::RegisteredBackends::instance();
  std::scoped_lock lock(registered.mutex);
  registered.functions.emplace(std::move(name), std::move(compile));
}

SINTER_DECL void check_backend(std::string_view wanted, Location where) {
  if (wanted.empty()) return;
  const std::vector<std::string> known = list_backends();
  for (const std::string& name : known)
    if (name == wanted) return;
  throw UserError("compile", "there is no back end '" + std::string(wanted) + "'", where,
                  "this program has: " + jit_detail::joined(known) + "; jit::register_backend adds one");
}

SINTER_DECL GraphFunction compile_graph(const Graph& graph, std::string_view backend, Location where) {
  check_backend(backend, where);
  if (backend == "noop" || jit_detail::registered_backend(backend) != nullptr)
    throw UserError("compile_graph", "back end '" + std::string(backend) + "' has no kernels", where,
                    "use \"\", x86, reference, eager or aot_eager");
  const Graph prepared = jit_detail::run_passes_for(backend, graph);
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

/// Kernels are made of primitive operations only, in sub-graphs as well.
inline Graph decompose_all(const Graph& graph) {
  return Decompose{}(map_bodies(graph, [](const std::shared_ptr<const Graph>& body) {
    return std::make_shared<const Graph>(decompose_all(*body));
  }));
}
SINTER_DECL Graph run_passes_for(std::string_view backend, const Graph& graph) {
  return backend == "eager" ? decompose_all(graph) : run_pipeline(graph);
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
