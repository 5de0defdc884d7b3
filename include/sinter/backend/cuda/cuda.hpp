// What users say about GPUs beside Device::cuda(i): what is there, streams, events, waiting. Usable in every build;
// without a GPU, or without the back end, is_available() is false and what needs one throws DeviceError.
#pragma once

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/tensor/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

struct StreamState;  // device.hpp
struct EventState;   // cuda.ipp
class Event;

/// True when Device::cuda(0) can be used: the build has the back end, the driver can be opened, and there is a GPU.
bool is_available();
/// GPUs that the driver lists; 0 where is_available() is false.
int device_count();
/// Why is_available() is false; empty when it is true.
std::string why_unavailable();

struct DeviceInfo {
  std::string name;    // "NVIDIA H200"
  int capability = 0;  // 90 for compute capability 9.0
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
};
DeviceInfo device_info(Device device = Device::cuda(0), Location where = std::source_location::current());

/// Waits for the calling thread's current stream on the device. Throws what went wrong in its work: DeviceError naming
/// the kernels launched last, IndexError for an index out of range in a gather.
void synchronize(Device device = Device::cuda(0), Location where = std::source_location::current());

/// Who computes a product of matrices, where several GEMM algorithms are open.
enum class ProductPolicy : std::uint8_t {
  measured,      // the fastest on this device; measured when such a product is first bound, and remembered on disk
  by_rule,       // by a heuristic, nothing is measured
  fma,           // always that one, where it is open: a generated kernel on the ordinary units,
  tensor_cores,  // a generated kernel on tensor cores,
  wgmma,         // one by the instructions of sm_90a,
  library,       // cuBLASLt, with its epilogue where that fits,
  library_then_kernel,  // cuBLASLt, what follows the product in a kernel of its own
};
/// From SINTER_CUDA_PRODUCT at first; a value that is none of them is a UserError.
ProductPolicy product_policy();
/// For what is bound from now on: sizes that a compiled function has run with keep what they have.
void set_product_policy(ProductPolicy policy);

/// A queue of work on a device. Copies are the same stream. Work on one stream runs in order; order between streams is
/// up to you, by events. Memory of a tensor that is used on a stream other than the one it was made on must be kept
/// (hold the tensor) until that work is done, or the streams are ordered.
class Stream {
 public:
  /// A stream of its own.
  explicit Stream(Device device = Device::cuda(0), Location where = std::source_location::current());
  /// The one that the calling thread enqueues on now.
  static Stream current(Device device = Device::cuda(0), Location where = std::source_location::current());

  Device device() const;
  /// Waits for its work; throws like cuda::synchronize.
  void synchronize() const;
  /// True when all of its work is done. Does not wait.
  bool is_done() const;
  /// Work enqueued on it later runs after the event.
  void wait(const Event& event) const;
  /// The CUstream, for code that calls CUDA itself.
  void* native() const;
  friend bool operator==(const Stream& a, const Stream& b) { return a.state_.get() == b.state_.get(); }

 private:
  friend class Event;
  friend class StreamGuard;
  Stream(std::shared_ptr<const StreamState> state) : state_(std::move(state)) {}
  std::shared_ptr<const StreamState> state_;
};

/// A point in a stream's work, with a time.
class Event {
 public:
  explicit Event(Device device = Device::cuda(0), Location where = std::source_location::current());
  /// Marks the place after what the stream holds now (default: the current stream of the event's device).
  void record();
  void record(const Stream& stream);
  void synchronize() const;
  bool is_done() const;
  /// Milliseconds from this event to a later one; waits for both.
  double elapsed_ms(const Event& later) const;

 private:
  friend class Stream;
  std::shared_ptr<EventState> state_;
};

/// While it lives, what this thread enqueues on the stream's device goes to the stream. Guards nest.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream stream_;
  [[maybe_unused]] const StreamState* outer_;
};

}  // namespace cuda
SINTER_NAMESPACE_END
