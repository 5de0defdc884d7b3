// The public CUDA names, with and without the back end.
#pragma once

#include <sinter/backend/cuda/cuda.hpp>

#include <sinter/base/fork.hpp>

#ifdef SINTER_CUDA
#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/device/driver.hpp>
#endif

#include <atomic>
#include <cstdlib>

SINTER_NAMESPACE_BEGIN
namespace cuda {

namespace cuda_detail {
inline ProductPolicy policy_of_environment() {
  const char* text = std::getenv("SINTER_CUDA_PRODUCT");
  const std::string value = text != nullptr ? text : "";
  constexpr std::pair<std::string_view, ProductPolicy> policies[] = {
      {"", ProductPolicy::measured},       {"measure", ProductPolicy::measured},
      {"rule", ProductPolicy::by_rule},    {"fma", ProductPolicy::fma},
      {"library", ProductPolicy::library}, {"tensor_cores", ProductPolicy::tensor_cores},
      {"wgmma", ProductPolicy::wgmma},     {"library_then_kernel", ProductPolicy::library_then_kernel}};
  for (const auto& [name, policy] : policies)
    if (value == name) return policy;
  throw UserError("SINTER_CUDA_PRODUCT", "\"" + value + "\" is no policy for products", {},
                  "set it to measure, rule, fma, tensor_cores, wgmma, library or library_then_kernel");
}
inline std::atomic<ProductPolicy>& policy_place() {
  return process_object(
      [] { return new std::atomic<ProductPolicy>{policy_of_environment()}; });  // throws again at the next use
}
}  // namespace cuda_detail

SINTER_DECL ProductPolicy product_policy() { return cuda_detail::policy_place().load(std::memory_order_relaxed); }
SINTER_DECL void set_product_policy(ProductPolicy policy) {
  cuda_detail::policy_place().store(policy, std::memory_order_relaxed);
}

#ifdef SINTER_CUDA

struct EventState {
  explicit EventState(Gpu& owner) : gpu(owner) {
    gpu.enter();
    gpu.check(driver_api("Event").call_cuEventCreate(&handle, CU_EVENT_DEFAULT), "making an event");
  }
  ~EventState() { driver_api("Event").call_cuEventDestroy(handle); }
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;
  Gpu& gpu;
  CUevent_st* handle = nullptr;
  std::atomic<const StreamState*> recorded_on{nullptr};
};

namespace cuda_detail {
inline Gpu& gpu_of(const StreamState& stream) { return Gpu::get(Device::cuda(stream.device), "Stream"); }
/// Done, not yet, or an error.
inline bool is_finished(const Gpu& gpu, CUresult result) {
  if (result == CUDA_ERROR_NOT_READY) return false;
  gpu.check(result, "work on the device");
  return true;
}
/// A device that is no GPU has no streams.
inline Gpu& checked_gpu(Device device, std::string_view op, Location where) {
  if (device.kind != DeviceKind::cuda)
    throw DeviceError(op, "device " + device.text() + " is no GPU", where, "use Device::cuda(0)");
  return Gpu::get(device, op, where);
}
}  // namespace cuda_detail

SINTER_DECL bool is_available() { return driver_status().is_available; }
SINTER_DECL int device_count() { return driver_status().is_available ? driver_status().device_count : 0; }
SINTER_DECL std::string why_unavailable() {
  return driver_status().is_available ? std::string() : driver_status().detail;
}

SINTER_DECL DeviceInfo device_info(Device device, Location where) {
  const Gpu& gpu = cuda_detail::checked_gpu(device, "device_info", where);
  return {gpu.name(), gpu.target().capability, gpu.target().multiprocessors, gpu.total_memory()};
}
SINTER_DECL void synchronize(Device device, Location where) {
  Gpu& gpu = cuda_detail::checked_gpu(device, "synchronize", where);
  gpu.synchronise(gpu.stream());
}

SINTER_DECL Stream::Stream(Device device, Location where) {
  Gpu& gpu = cuda_detail::checked_gpu(device, "Stream", where);
  state_ = std::shared_ptr<const StreamState>(&gpu.acquire_stream(),
                                              [&gpu](const StreamState* stream) { gpu.release_stream(*stream); });
}
SINTER_DECL Stream Stream::current(Device device, Location where) {
  const Gpu& gpu = cuda_detail::checked_gpu(device, "Stream", where);
  return Stream(std::shared_ptr<const StreamState>(std::shared_ptr<void>(), &gpu.stream()));
}
SINTER_DECL Device Stream::device() const { return Device::cuda(state_->device); }
SINTER_DECL void Stream::synchronize() const { cuda_detail::gpu_of(*state_).synchronise(*state_); }
SINTER_DECL bool Stream::is_done() const {
  const Gpu& gpu = cuda_detail::gpu_of(*state_);
  gpu.enter();
  return cuda_detail::is_finished(gpu, driver_api("Stream").call_cuStreamQuery(state_->handle));
}
SINTER_DECL void Stream::wait(const Event& event) const {
  const Gpu& gpu = cuda_detail::gpu_of(*state_);
  gpu.enter();
  gpu.check(driver_api("Stream").call_cuStreamWaitEvent(state_->handle, event.state_->handle, 0),
            "waiting for an event");
  if (const StreamState* earlier = event.state_->recorded_on.load()) Gpu::note_order(*earlier, *state_);
}
SINTER_DECL void* Stream::native() const { return state_->handle; }

SINTER_DECL Event::Event(Device device, Location where)
    : state_(std::make_shared<EventState>(cuda_detail::checked_gpu(device, "Event", where))) {}
SINTER_DECL void Event::record() {
  state_->gpu.enter();
  state_->recorded_on = &state_->gpu.stream();
  state_->gpu.check(driver_api("Event").call_cuEventRecord(state_->handle, state_->gpu.stream().handle),
                    "recording an event");
}
SINTER_DECL void Event::record(const Stream& stream) {
  if (stream.device() != Device::cuda(state_->gpu.index()))
    throw DeviceError("Event::record", "the event is of cuda:" + std::to_string(state_->gpu.index()) +
                                           ", the stream of " + stream.device().text());
  state_->gpu.enter();
  state_->recorded_on = stream.state_.get();
  state_->gpu.check(driver_api("Event").call_cuEventRecord(state_->handle, stream.state_->handle),
                    "recording an event");
}
SINTER_DECL void Event::synchronize() const {
  state_->gpu.enter();
  state_->gpu.check(driver_api("Event").call_cuEventSynchronize(state_->handle), "work on the device");
}
SINTER_DECL bool Event::is_done() const {
  state_->gpu.enter();
  return cuda_detail::is_finished(state_->gpu, driver_api("Event").call_cuEventQuery(state_->handle));
}
SINTER_DECL double Event::elapsed_ms(const Event& later) const {
  synchronize();
  later.synchronize();
  float milliseconds = 0;
  state_->gpu.check(driver_api("Event").call_cuEventElapsedTime(&milliseconds, state_->handle, later.state_->handle),
                    "reading the time between two events");
  return static_cast<double>(milliseconds);
}

SINTER_DECL StreamGuard::StreamGuard(const Stream& stream) : stream_(stream) {
  const Gpu& gpu = cuda_detail::gpu_of(*stream_.state_);
  outer_ = &gpu.stream();
  gpu.set_stream(stream_.state_.get());
}
SINTER_DECL StreamGuard::~StreamGuard() {
  const Gpu& gpu = cuda_detail::gpu_of(*stream_.state_);
  gpu.set_stream(outer_);
}

#else  // the back end was left out: there is no device, and each use says so

struct StreamState {
  int device = 0;
};
struct EventState {};

namespace cuda_detail {
[[noreturn]] inline void refuse(std::string_view op, Location where = {}) {
  throw DeviceError(op, why_unavailable(), where,
                    "build Sinter where the headers of the CUDA Toolkit are found (docs/cuda.md)");
}
}  // namespace cuda_detail

SINTER_DECL bool is_available() { return false; }
SINTER_DECL int device_count() { return 0; }
SINTER_DECL std::string why_unavailable() { return "this build has no CUDA back end"; }
SINTER_DECL DeviceInfo device_info(Device, Location where) { cuda_detail::refuse("device_info", where); }
SINTER_DECL void synchronize(Device, Location where) { cuda_detail::refuse("synchronize", where); }
SINTER_DECL Stream::Stream(Device, Location where) { cuda_detail::refuse("Stream", where); }
SINTER_DECL Stream Stream::current(Device, Location where) { cuda_detail::refuse("Stream", where); }
SINTER_DECL Device Stream::device() const { return Device::cuda(state_->device); }
SINTER_DECL void Stream::synchronize() const { cuda_detail::refuse("Stream"); }
SINTER_DECL bool Stream::is_done() const { cuda_detail::refuse("Stream"); }
SINTER_DECL void Stream::wait(const Event&) const { cuda_detail::refuse("Stream"); }
SINTER_DECL void* Stream::native() const { return nullptr; }
SINTER_DECL Event::Event(Device, Location where) { cuda_detail::refuse("Event", where); }
SINTER_DECL void Event::record() { cuda_detail::refuse("Event"); }
SINTER_DECL void Event::record(const Stream&) { cuda_detail::refuse("Event"); }
SINTER_DECL void Event::synchronize() const { cuda_detail::refuse("Event"); }
SINTER_DECL bool Event::is_done() const { cuda_detail::refuse("Event"); }
SINTER_DECL double Event::elapsed_ms(const Event&) const { cuda_detail::refuse("Event"); }
SINTER_DECL StreamGuard::StreamGuard(const Stream& stream) : stream_(stream), outer_(nullptr) {}
SINTER_DECL StreamGuard::~StreamGuard() {}

#endif

}  // namespace cuda
SINTER_NAMESPACE_END
