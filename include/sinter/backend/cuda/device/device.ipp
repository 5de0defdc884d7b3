// Contexts, streams, synchronisation and the memory interface.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>

#include <sinter/backend/cuda/device/ahead.hpp>
#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/timeline.hpp>

#include <map>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

namespace cuda_detail {
/// Labels by their text; never forgotten, for errors come late.
struct Labels {
  ForkSafeMutex mutex;
  std::map<std::string, std::unique_ptr<LaunchLabel>> by_text;
  std::vector<const LaunchLabel*> by_tag;
  static Labels& instance() { return process_object<Labels>(); }
};

/// The devices that are in use.
struct GpuTable {
  ForkSafeMutex mutex;
  std::array<std::atomic<Gpu*>, max_devices> gpus{};
};

/// The streams that the calling thread has chosen; null: the device's default one.
inline std::array<const StreamState*, max_devices>& chosen_streams() noexcept {
  static thread_local constinit std::array<const StreamState*, max_devices> streams{};
  return streams;
}
}  // namespace cuda_detail

SINTER_DECL std::string LaunchLabel::text() const {
  std::string lines, last;
  for (const Location& place : where) {
    const std::string line = place.text();
    if (line.empty() || line == last) continue;
    lines += (lines.empty() ? "" : ", ") + line;
    last = line;
  }
  return lines.empty() ? name : name + " (" + lines + ")";
}

SINTER_DECL const LaunchLabel& label_of(const StepContext& step) {
  auto label = std::make_unique<LaunchLabel>(LaunchLabel{step.name, step.where, 0});
  auto& labels = cuda_detail::Labels::instance();
  std::scoped_lock lock(labels.mutex);
  auto& known = labels.by_text[label->text()];
  if (!known) {
    labels.by_tag.push_back(label.get());
    label->tag = labels.by_tag.size();
    known = std::move(label);
  }
  return *known;
}

SINTER_DECL Gpu& Gpu::get(Device device, std::string_view op, Location where) {
  cuda_detail::GpuTable* table = &process_object<cuda_detail::GpuTable>();
  if (SINTER_UNLIKELY(is_forked_child()))
    throw DeviceError(
        op, "device " + device.text() + " cannot be used in a process that was forked after CUDA was first used", where,
        "fork before, or start a new program");
  if (!driver_status().is_available)
    throw DeviceError(op, "device " + device.text() + " cannot be used: " + driver_status().detail, where,
                      "install the NVIDIA driver, or ask cuda::is_available() and use Device::cpu()");
  const int index = device.index, count = driver_status().device_count;
  if (index < cuda_detail::max_devices)
    if (Gpu* gpu = table->gpus[as_index(index)].load(std::memory_order_acquire); SINTER_LIKELY(gpu != nullptr))
      return *gpu;
  if (index >= count || index >= cuda_detail::max_devices)
    throw DeviceError(op, "there is no device " + device.text() + ": the driver lists " + std::to_string(count), where,
                      "ask cuda::device_count()");
  std::scoped_lock lock(table->mutex);
  auto& place = table->gpus[as_index(index)];
  if (place.load(std::memory_order_acquire) == nullptr) {
    place.store(new Gpu(index), std::memory_order_release);
    cuda_detail::start_libraries_ahead(*place.load(std::memory_order_acquire));
  }
  return *place.load(std::memory_order_acquire);
}

SINTER_DECL Gpu* Gpu::owner_of(CUstream_st* stream) {
  for (const auto& place : process_object<cuda_detail::GpuTable>().gpus) {
    Gpu* const gpu = place.load(std::memory_order_acquire);
    if (gpu == nullptr) continue;
    std::scoped_lock lock(gpu->mutex_);
    for (const auto& own : gpu->streams_)
      if (own->handle == stream) return gpu;
  }
  return nullptr;
}

SINTER_DECL Gpu::Gpu(int index) : index_(index), pool_(index) {
  const TimelineSpan span("load", "make a context");
  const DriverApi& api = cuda_detail::api();
  CUdevice device = 0;
  cuda_detail::require(api.call_cuDeviceGet(&device, index), "cuda", "cuDeviceGet");
  auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    cuda_detail::require(api.call_cuDeviceGetAttribute(&value, which, device), "cuda", "cuDeviceGetAttribute");
    return value;
  };
  target_.capability = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                       attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  target_.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  target_.shared_bytes = as_index(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  target_.registers = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  target_.runs_blocks_at_once = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0;
  target_.has_bulk_copies = target_.capability == 90 && api.call_cuTensorMapEncodeTiled != nullptr;
  target_.uses_library = true;
  cuda_detail::open_libraries_ahead(target_.architecture());
  cuda_detail::require(api.call_cuDevicePrimaryCtxRetain(&context_, device), "cuda",
                       "making a context on cuda:" + std::to_string(index));
  char text[256] = {};
  cuda_detail::require(api.call_cuDeviceGetName(text, sizeof text, device), "cuda", "cuDeviceGetName");
  name_ = text;
  cuda_detail::require(api.call_cuDeviceTotalMem(&total_memory_, device), "cuda", "cuDeviceTotalMem");
  enter();
  default_stream_ = &acquire_stream();
}

SINTER_DECL void Gpu::enter() const {
  const DriverApi& api = cuda_detail::api();
  CUcontext current = nullptr;
  api.call_cuCtxGetCurrent(&current);
  if (SINTER_UNLIKELY(current != context_)) check(api.call_cuCtxSetCurrent(context_), "cuCtxSetCurrent");
}

SINTER_DECL const StreamState& Gpu::stream() const {
  const StreamState* chosen = cuda_detail::chosen_streams()[as_index(index_)];
  return chosen != nullptr ? *chosen : *default_stream_;
}
SINTER_DECL void Gpu::set_stream(const StreamState* stream) const {
  cuda_detail::chosen_streams()[as_index(index_)] = stream;
}

SINTER_DECL const StreamState& Gpu::stream_of(std::uint64_t id) const {
  std::scoped_lock lock(mutex_);
  return *streams_.at(id - 1);
}

SINTER_DECL const StreamState& Gpu::acquire_stream() {
  std::scoped_lock lock(mutex_);
  if (!idle_streams_.empty()) {
    const StreamState* stream = idle_streams_.back();
    idle_streams_.pop_back();
    stream->follows.store(0, std::memory_order_relaxed);
    if (std::uint64_t* records = fault_.load(std::memory_order_acquire)) {  // what its last owner did not wait for
      const std::uint64_t none[fault_words] = {};
      enter();
      staging_.to_device(records + fault_number(*stream) * fault_words, none, sizeof none, stream->handle);
    }
    return *stream;
  }
  return make_stream(0);
}

SINTER_DECL const StreamState& Gpu::stream_beside() {
  if (const StreamState* made = stream_beside_.load(std::memory_order_acquire)) return *made;
  constexpr int most_urgent = -5;  // the driver takes the nearest priority that the device has
  std::scoped_lock lock(mutex_);
  if (stream_beside_.load(std::memory_order_acquire) == nullptr)
    stream_beside_.store(&make_stream(most_urgent), std::memory_order_release);
  return *stream_beside_.load(std::memory_order_acquire);
}

SINTER_DECL const StreamState& Gpu::make_stream(int priority) {
  enter();
  auto stream = std::make_unique<StreamState>();
  check(cuda_detail::api().call_cuStreamCreateWithPriority(&stream->handle, CU_STREAM_NON_BLOCKING, priority),
        "making a stream");
  stream->device = index_;
  stream->id = streams_.size() + 1;
  streams_.push_back(std::move(stream));
  return *streams_.back();
}

SINTER_DECL void Gpu::release_stream(const StreamState& stream) noexcept {
  std::scoped_lock lock(mutex_);
  idle_streams_.push_back(&stream);
}

SINTER_DECL std::string Gpu::recent_launches() const {
  std::string text;
  const std::size_t count = recent_count_.load(std::memory_order_relaxed);
  for (std::size_t i = count < recent_.size() ? 0 : count - recent_.size(); i < count; ++i)
    if (const LaunchLabel* label = recent_[i % recent_.size()].load(std::memory_order_relaxed))
      text += (text.empty() ? "" : ", ") + label->text();
  return text.empty() ? "nothing was launched" : "launched last, oldest first: " + text;
}

SINTER_DECL void Gpu::check(int result, std::string_view what) const {
  if (SINTER_LIKELY(result == CUDA_SUCCESS)) return;
  throw DeviceError("cuda:" + std::to_string(index_),
                    std::string(what) + " failed: " + cuda_detail::result_text(result) + "; " + recent_launches(), {},
                    "SINTER_CHECK=1 waits for each kernel, and so finds the one that fails");
}

SINTER_DECL void* Gpu::fault_record(const StreamState& stream) {
  const auto record = [&](std::uint64_t* all) { return all + fault_number(stream) * fault_words; };
  if (std::uint64_t* all = fault_.load(std::memory_order_acquire)) return record(all);
  std::scoped_lock lock(mutex_);
  if (fault_.load(std::memory_order_acquire) == nullptr) {
    enter();
    CUdeviceptr address = 0;
    const std::array<std::uint64_t, fault_records * fault_words> none{};
    check(cuda_detail::api().call_cuMemAlloc(&address, sizeof none), "allocating the fault records");
    staging_.to_device(reinterpret_cast<void*>(address), none.data(), sizeof none, default_stream_->handle);
    check(cuda_detail::api().call_cuStreamSynchronize(default_stream_->handle), "clearing the fault records");
    fault_.store(reinterpret_cast<std::uint64_t*>(address), std::memory_order_release);
  }
  return record(fault_.load(std::memory_order_acquire));
}

/// Of the stream itself, then of those that it follows; others are for who waits for them.
SINTER_DECL void Gpu::check_fault(const StreamState& stream) {
  std::uint64_t* records = fault_.load(std::memory_order_acquire);
  if (records == nullptr) return;
  std::array<std::uint64_t, fault_records * fault_words> all;
  staging_.to_host(all.data(), records, sizeof all, stream.handle);
  const std::size_t own = fault_number(stream);
  const std::uint64_t follows = stream.follows.load(std::memory_order_relaxed);
  std::size_t number = own;
  for (std::size_t i = 0; i < fault_records && all[number * fault_words] == 0; ++i)
    if ((follows >> i & 1) != 0) number = i;
  const std::uint64_t* found = all.data() + number * fault_words;
  if (SINTER_LIKELY(found[0] == 0)) return;
  const std::uint64_t none[fault_words] = {};
  staging_.to_device(records + number * fault_words, none, sizeof none, stream.handle);
  auto& labels = cuda_detail::Labels::instance();
  const LaunchLabel* label = nullptr;
  {
    std::scoped_lock lock(labels.mutex);
    if (found[0] <= labels.by_tag.size()) label = labels.by_tag[found[0] - 1];
  }
  const Location where = label != nullptr && !label->where.empty() ? label->where.front() : Location();
  if (found[3] != 0)  // the host's words
    throw IndexError("lu_solve",
                     "pivot " + std::to_string(static_cast<std::int64_t>(found[1])) + " names no row of " +
                         std::to_string(static_cast<std::int64_t>(found[2])),
                     where, "pivots are those of lu_factor: they count from 1");
  throw IndexError(label != nullptr ? label->text() : "gather",
                   "index " + std::to_string(static_cast<std::int64_t>(found[1])) +
                       " is out of range for an axis of extent " + std::to_string(static_cast<std::int64_t>(found[2])),
                   where);
}

SINTER_DECL void Gpu::wait_for_all() const {
  enter();
  std::scoped_lock lock(recording_);
  cuda_detail::api().call_cuCtxSynchronize();
}

SINTER_DECL void Gpu::synchronise(const StreamState& stream) {
  enter();
  check(cuda_detail::api().call_cuStreamSynchronize(stream.handle), "work on the device");
  check_fault(stream);
}

namespace cuda_detail {
/// Makes `later` wait for what is on `earlier` now.
inline void order(const Gpu& gpu, const StreamState& earlier, const StreamState& later) {
  const DriverApi& driver = api();
  gpu.enter();
  CUevent event = nullptr;
  gpu.check(driver.call_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event");
  const CUresult recorded = driver.call_cuEventRecord(event, earlier.handle);
  const CUresult waited = recorded == CUDA_SUCCESS ? driver.call_cuStreamWaitEvent(later.handle, event, 0) : recorded;
  driver.call_cuEventDestroy(event);  // takes effect when nothing waits for it any more
  gpu.check(waited, "ordering two streams");
  Gpu::note_order(earlier, later);
}

/// Events on streams with their times on the timeline: each is compared with an event whose time on the host is known.
class QueueMarks {
 public:
  void* make(const Gpu& gpu, const StreamState& stream) {
    gpu.enter();
    auto mark = std::make_unique<Mark>();
    mark->origin = origin_of(gpu);
    gpu.check(api().call_cuEventCreate(&mark->event, CU_EVENT_DEFAULT), "making an event");
    gpu.check(api().call_cuEventRecord(mark->event, stream.handle), "recording an event");
    return mark.release();
  }
  static std::int64_t read(void* place, Waits waits) noexcept {
    if (place == nullptr || is_forked_child()) return -2;
    std::unique_ptr<Mark> mark(static_cast<Mark*>(place));
    const CUresult state =
        waits == Waits::yes ? api().call_cuEventSynchronize(mark->event) : api().call_cuEventQuery(mark->event);
    if (state == CUDA_ERROR_NOT_READY) {
      mark.release();
      return -1;
    }
    float milliseconds = 0;
    if (state == CUDA_SUCCESS && api().call_cuEventElapsedTime(&milliseconds, mark->origin->event, mark->event) == 0)
      return mark->origin->at + static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
    return -2;
  }

 private:
  struct Origin {
    CUevent event = nullptr;
    std::int64_t at = 0;  // on the host
    ~Origin() { destroy(event); }
  };
  struct Mark {
    CUevent event = nullptr;
    std::shared_ptr<const Origin> origin;
    ~Mark() { destroy(event); }
  };
  static void destroy(CUevent event) noexcept {
    if (event != nullptr) api().call_cuEventDestroy(event);
  }
  /// Times are floats of milliseconds: made anew before they become coarse.
  std::shared_ptr<const Origin> origin_of(const Gpu& gpu) {
    constexpr std::int64_t longest = 5'000'000'000;
    std::scoped_lock lock(mutex_);
    auto& known = origins_[as_index(gpu.index())];
    if (known != nullptr && timeline_now() - known->at < longest) return known;
    auto made = std::make_shared<Origin>();
    gpu.check(api().call_cuEventCreate(&made->event, CU_EVENT_DEFAULT), "making an event");
    gpu.check(api().call_cuEventRecord(made->event, gpu.default_stream().handle), "recording an event");
    gpu.check(api().call_cuEventSynchronize(made->event), "waiting for an event");
    made->at = timeline_now();
    known = made;
    return made;
  }
  ForkSafeMutex mutex_;
  std::array<std::shared_ptr<const Origin>, max_devices> origins_{};
};

class Memory final : public DeviceMemory {
 public:
  void check(Device device, std::string_view op, Location where) override { Gpu::get(device, op, where); }
  DeviceBlock allocate(std::size_t bytes, Device device) override {
    Gpu& gpu = Gpu::get(device, "allocate");
    gpu.enter();
    PoolBlock* block = gpu.pool().allocate(bytes, gpu.stream());
    return {block->data, block};
  }
  void free(DeviceBlock block, Device device) noexcept override {
    if (SINTER_UNLIKELY(is_forked_child())) return;  // the memory is the parent's
    Gpu& gpu = Gpu::get(device, "free");
    auto* ours = static_cast<PoolBlock*>(block.block);
    const StreamState& stream = gpu.stream();
    if (SINTER_UNLIKELY(
            ours->home !=
            &stream)) {  // an event will be recorded, and this thread may be on another device, or on none yet
      try {
        gpu.enter();
      } catch (const Error&) {  // the device is broken: nothing will use the block again
      }
    }
    gpu.pool().free(ours, stream);
  }
  void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) override {
    if (bytes == 0) return;
    TimelineSpan span("copy", "copy");
    if (span.is_on()) {
      span.fields().add("from", from_device.text()).add("to", to_device.text());
      span.fields().add("bytes", static_cast<long long>(bytes));
    }
    const bool is_upload = from_device == Device::cpu(), is_download = to_device == Device::cpu();
    Gpu& gpu = Gpu::get(is_download ? from_device : to_device, "copy");
    gpu.enter();
    const StreamState& stream = gpu.stream();
    if (is_upload) return gpu.staging().to_device(to, from, bytes, stream.handle);
    if (is_download) {
      gpu.staging().to_host(to, from, bytes, stream.handle);
      return gpu.synchronise(stream);
    }
    copy_between(gpu, to, from, from_device, bytes);
  }
  void synchronise(Device device) override {
    const TimelineSpan span("wait", "wait for the device");
    Gpu& gpu = Gpu::get(device, "synchronise");
    gpu.synchronise(gpu.stream());
  }
  void drain(Device device) noexcept override {
    try {
      Gpu::get(device, "drain").wait_for_all();
    } catch (const Error&) {  // a broken device has nothing left to wait for
    }
  }
  std::uint64_t current_queue(Device device) override { return Gpu::get(device, "queue").stream().id; }
  void* native_queue(Device device) override {
    Gpu& gpu = Gpu::get(device, "queue");
    gpu.enter();  // its context is what libraries look for
    return gpu.stream().handle;
  }
  void run_after(Device device, std::uint64_t queue) override {
    Gpu& gpu = Gpu::get(device, "queue");
    order(gpu, gpu.stream_of(queue), gpu.stream());
  }
  void* fork_queue(Device device) override {
    Gpu& gpu = Gpu::get(device, "queue");
    order(gpu, gpu.stream(), gpu.stream_beside());
    return gpu.stream_beside().handle;
  }
  void* note_fork(Device device, void* point) override {
    Gpu& gpu = Gpu::get(device, "queue");
    gpu.enter();
    auto event = static_cast<CUevent>(point);
    if (event == nullptr) gpu.check(api().call_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event");
    gpu.check(api().call_cuEventRecord(event, gpu.stream_beside().handle), "recording an event");
    return event;
  }
  void join_fork(Device device, void* point) override {
    Gpu& gpu = Gpu::get(device, "queue");
    gpu.enter();
    gpu.check(api().call_cuStreamWaitEvent(gpu.stream().handle, static_cast<CUevent>(point), 0),
              "waiting for what ran beside the kernels");
    Gpu::note_order(gpu.stream_beside(), gpu.stream());
  }
  void drop_fork(Device, void* point) noexcept override {
    if (point != nullptr && !is_forked_child()) api().call_cuEventDestroy(static_cast<CUevent>(point));
  }
  void* mark_queue(Device device) noexcept override {
    try {
      Gpu& gpu = Gpu::get(device, "timeline");
      return marks_.make(gpu, gpu.stream());
    } catch (...) {
      return nullptr;  // what is wrong with the device is told elsewhere
    }
  }
  void* mark_fork(Device device) noexcept override {
    try {
      Gpu& gpu = Gpu::get(device, "timeline");
      return marks_.make(gpu, gpu.stream_beside());
    } catch (...) { return nullptr; }
  }
  std::int64_t time_of_mark(Device, void* mark, Waits waits) noexcept override { return marks_.read(mark, waits); }
  MemoryStats stats(Device device) override { return Gpu::get(device, "memory_stats").pool().stats(); }
  void set_limit(Device device, std::int64_t bytes) override {
    Gpu::get(device, "set_memory_limit").pool().set_limit(bytes);
  }
  void reset_peak(Device device) override { Gpu::get(device, "reset_peak_memory").pool().reset_peak(); }
  void release_cached(Device device) override {
    Gpu& gpu = Gpu::get(device, "release_cached_memory");
    gpu.enter();
    gpu.pool().trim();
  }

 private:
  QueueMarks marks_;
  /// On the target's stream, after what is on the source's; the source's stream goes on only after the copy, for its
  /// memory may be freed there.
  static void copy_between(Gpu& to_gpu, void* to, const void* from, Device from_device, std::size_t bytes) {
    const DriverApi& driver = api();
    const auto target = reinterpret_cast<CUdeviceptr>(to), source = reinterpret_cast<CUdeviceptr>(from);
    if (from_device.index == to_gpu.index())
      return to_gpu.check(driver.call_cuMemcpyDtoDAsync(target, source, bytes, to_gpu.stream().handle),
                          "copying on a device");
    Gpu& from_gpu = Gpu::get(from_device, "copy");
    across(from_gpu, to_gpu);
    to_gpu.enter();
    to_gpu.check(driver.call_cuMemcpyPeerAsync(target, to_gpu.context(), source, from_gpu.context(), bytes,
                                               to_gpu.stream().handle),
                 "copying between devices");
    across(to_gpu, from_gpu);
  }
  static void across(const Gpu& earlier, const Gpu& later) {
    const DriverApi& driver = api();
    earlier.enter();
    CUevent event = nullptr;
    earlier.check(driver.call_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event");
    earlier.check(driver.call_cuEventRecord(event, earlier.stream().handle), "recording an event");
    later.enter();
    later.check(driver.call_cuStreamWaitEvent(later.stream().handle, event, 0), "waiting for another device");
    earlier.enter();
    driver.call_cuEventDestroy(event);
  }
};
}  // namespace cuda_detail

SINTER_DECL DeviceMemory& memory() { return process_object<cuda_detail::Memory>(); }

}  // namespace cuda
SINTER_NAMESPACE_END
