// What launches around a library have in common: the stream, scratch memory, kernels of ours beside the library's, and
// reading one number back where an error depends on it. Knows no operation.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/device/ready_list.hpp>
#include <sinter/backend/cuda/library/library_kernels.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

class LibraryLaunch : public Launch {
 public:
  LibraryLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step);
  void run(void* const* operands) final;

 protected:
  /// Enqueues the work; the device's context is current.
  virtual void enqueue(void* const* operands) = 0;

  Gpu& gpu() const { return gpu_; }
  CUstream_st* stream() const { return stream_->handle; }
  Device device() const { return Device::cuda(gpu_.index()); }
  Location where() const { return where_; }
  const LaunchLabel& label() const { return label_; }
  void* fault_record() { return gpu_.fault_record(*stream_); }

  /// Scratch memory of this run, grown when more is asked for; its content is not kept.
  char* workspace(std::size_t bytes);
  /// Throws DeviceError unless the library's status is 0.
  void require(int status, std::string_view what) const;
  /// Enqueues a kernel with these arguments, whose types must be those of its parameters.
  template <class... Arguments>
  void launch(const Module& module, std::size_t entry, std::int64_t blocks, int threads, Arguments... arguments) {
    void* parameters[] = {&arguments...};
    launch_kernel(module, entry, blocks, threads, parameters);
  }
  /// With a thread for each of so many elements.
  template <class... Arguments>
  void launch_each(const Module& module, std::size_t entry, std::int64_t count, Arguments... arguments) {
    if (count > 0) launch(module, entry, (count + 255) / 256, 256, arguments...);
  }
  /// Exactly so many blocks, each with `shared_bytes` of dynamic shared memory.
  template <class Parameter>
  void launch_blocks(const Module& module, std::size_t entry, std::int64_t blocks, int threads,
                     std::size_t shared_bytes, Parameter parameter) {
    void* parameters[] = {&parameter};
    launch_grid(module, entry, blocks, threads, shared_bytes, parameters);
  }
  void copy(void* to, const void* from, std::size_t bytes);
  void fill(void* to, unsigned char value, std::size_t bytes);

  /// A place on the device for the first failure of a batch, none yet; kernels write matrix << 32 | (unsigned)number.
  std::uint64_t* failure_place();
  struct Failure {
    std::int64_t matrix = -1;  // none
    std::int64_t number = 0;
  };
  /// What kernels wrote there. Waits for them.
  Failure read_failure();

 private:
  /// Back to the pool, where what this thread enqueues next may use it at once.
  void release() noexcept;
  void launch_kernel(const Module& module, std::size_t entry, std::int64_t blocks, int threads, void** parameters);
  void launch_grid(const Module& module, std::size_t entry, std::int64_t blocks, int threads, std::size_t shared_bytes,
                   void** parameters);

  Gpu& gpu_;
  const LaunchLabel& label_;
  Location where_;
  const StreamState* stream_ = nullptr;
  Ref<Storage> workspace_, failure_;
};

std::shared_ptr<const Module> module_of(Gpu& gpu, const LibrarySource& source);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
