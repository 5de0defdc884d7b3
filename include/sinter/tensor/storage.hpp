// Storage: a counted block of memory that tensors view. Ours comes from the caching allocator; memory of others is
// kept alive by its owner. Data seen through a Storage are immutable while more than one handle can see them.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/tensor/device.hpp>
#include <sinter/tensor/memory_map.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

SINTER_NAMESPACE_BEGIN

struct StorageAccess;

/// A block of memory and who frees it.
class Storage : public RefCounted<Storage> {
 public:
  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Device device() const noexcept { return device_; }
  /// What a large block was allocated for.
  tensor_detail::Maker maker() const noexcept { return maker_.load(std::memory_order_relaxed); }
  /// False for memory of others (from_blob, borrow): never donated, never written in place.
  bool is_ours() const noexcept { return owner_ == nullptr; }

  /// 64-byte aligned memory from the caching allocator of the device. Throws OutOfMemory, DeviceError.
  static Ref<Storage> allocate(std::size_t bytes, Device device = Device::cpu());
  /// As that; OutOfMemory, this one's and later ones', names `maker`.
  static Ref<Storage> allocate(std::size_t bytes, Device device, tensor_detail::Maker maker) {
    if (SINTER_LIKELY(bytes < tensor_detail::listed_bytes)) return allocate(bytes, device);
    return allocate_listed(bytes, device, maker);
  }
  /// Memory of others; `owner` lives as long as the Storage (may be null for memory that outlives everything).
  static Ref<Storage> wrap(void* data, std::size_t bytes, std::shared_ptr<const void> owner,
                           Device device = Device::cpu());
  static void destroy(Storage* storage) noexcept;

 private:
  friend struct StorageAccess;
  friend void tensor_detail::list_block(Storage& block);
  friend void tensor_detail::forget_block(Storage& block) noexcept;
  friend std::string tensor_detail::largest_blocks(Device device);
  static Ref<Storage> allocate_listed(std::size_t bytes, Device device, tensor_detail::Maker maker);
  Storage() = default;
  void* data_ = nullptr;
  void* block_ = nullptr;  // device memory: its allocator's handle; a free block of the host: the next in its list
  std::size_t bytes_ = 0;
  const std::shared_ptr<const void>* owner_ = nullptr;  // owned; set for memory of others
  Device device_;
  std::uint32_t size_class_ = 0;
  std::uint32_t listed_at_ = 0;   // place in the memory map, of a listed block
  std::size_t listed_bytes_ = 0;  // 0: not listed
  std::atomic<tensor_detail::Maker> maker_{tensor_detail::Maker::unknown};  // of a listed block
};

/// Figures of the caching allocator, in bytes unless said otherwise.
struct MemoryStats {
  std::int64_t in_use = 0;        // held by live Storages
  std::int64_t peak = 0;          // highest in_use since the last reset_peak_memory()
  std::int64_t cached = 0;        // free, kept for reuse
  std::int64_t limit = 0;         // 0: none
  std::int64_t allocations = 0;   // calls of allocate so far
  std::int64_t system_calls = 0;  // times memory was taken from the system
};
MemoryStats memory_stats(Device device = Device::cpu());
/// Upper bound of in_use + cached; 0 removes it. An allocation past it throws OutOfMemory after the cache was emptied.
void set_memory_limit(std::int64_t bytes, Device device = Device::cpu());
void reset_peak_memory(Device device = Device::cpu());
/// Returns cached memory to the system.
void release_cached_memory(Device device = Device::cpu());

SINTER_NAMESPACE_END
