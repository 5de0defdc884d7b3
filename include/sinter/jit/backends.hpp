// The back ends of this build, those that users register, and how a name in Options is resolved. A back end by name is
// one of three things: kernels (x86, reference, a user's; eager and aot_eager choose how much happens before them), a
// user's function from graph to callable, or noop, which traces nothing.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/tensor/precision.hpp>
#include <sinter/tensor/tensor.hpp>

#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
class Backend;       // runtime/backend.hpp
class DeviceMemory;  // tensor/device_memory.hpp

namespace jit {

/// Runs a graph: one Tensor per input, in order, to one per output.
using GraphFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;
/// Makes a graph runnable. `graph` is as traced (print it with text(), read it by nodes()), with what the guards proved
/// about its sizes put in; `examples` are the inputs of the call that is being compiled. The result is kept, called for
/// every call that fits the guards, and may be called by several threads at once.
using BackendFunction = std::function<GraphFunction(const Graph& graph, std::span<const Tensor> examples)>;

/// Makes `compile` known as a value of Options::backend. Throws UserError if the name is taken or `compile` is empty.
void register_backend(std::string name, BackendFunction compile, Location where = std::source_location::current());
/// Makes a back end for kernels known under its name(), as a value of Options::backend; see Backend in
/// <sinter/graphs.hpp>. Fusion cuts kernels by its limits(); those that it does not take, or declines, go to the
/// reference back end. It lives as long as the process. Throws UserError if there is none, its name is empty or taken,
/// it is for another device than the CPU, or its limits leave it no kernel.
void register_kernel_backend(std::unique_ptr<Backend> backend, Location where = std::source_location::current());
/// Names for Options::backend: kernels best first, then those for bisecting, then registered ones by name.
std::vector<std::string> list_backends();
/// A graph made runnable by passes and kernels of this build: for back ends that change a graph and pass it on, or that
/// take only some graphs. `backend` is "", "x86", "reference", "eager", "aot_eager" or a registered one for kernels.
GraphFunction compile_graph(const Graph& graph, std::string_view backend = {},
                            Location where = std::source_location::current());

/// Back ends for the host, best first; the last accepts every kernel. Made once, never destroyed.
const std::vector<Backend*>& host_backends();
/// The kernel back ends to try on a device for Options::backend: on the CPU that one and then the reference back
/// end, or all of this build; elsewhere the device's own.
std::vector<Backend*> backends_for(std::string_view name, Device device = Device::cpu());
/// Throws UserError with the list if there is no back end of that name.
void check_backend(std::string_view name, Location where);

namespace jit_detail {
/// The user's function of that name, or null.
const BackendFunction* registered_backend(std::string_view name);
/// True for the back ends that run operation by operation.
bool is_unfused_backend(std::string_view name);
/// Called with each graph after a pass: its name, and the seconds that it took.
using PassObserver = std::function<void(std::string_view pass, const Graph& graph, double seconds)>;
/// The passes that come before this back end.
Graph run_passes_for(std::string_view backend, const Graph& graph, MatmulPrecision precision,
                     PassObserver observe = nullptr);
/// From now on they are the devices of this kind, one back end for each: for tests of what runs on a device, on
/// machines that have none.
void set_fake_device(DeviceKind kind, DeviceMemory& memory, std::span<Backend* const> backends);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
