// The caching allocator. A free Storage keeps its block and waits, by size class, in its thread's cache or in the global
// pool; so a steady program reuses the same objects and touches no lock. Sizes are rounded up to four classes per
// power of two. Process state is never destroyed: Storages die after static objects too.
#pragma once

#include <sinter/tensor/storage.hpp>

#include <sinter/base/error.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {

inline constexpr std::size_t alignment = 64;
inline constexpr std::uint32_t size_classes = 160;
inline constexpr std::uint32_t foreign_class = 0xFFFFFFFF;
inline constexpr std::size_t thread_cache_bytes = std::size_t{64} << 20;
inline constexpr std::size_t thread_cache_entries = 16;   // per class

/// Smallest class that holds `bytes`: 64 * 2^(c/4) rounded to quarters.
constexpr std::uint32_t class_of(std::size_t bytes) {
  if (bytes <= 64) return 0;
  std::size_t units = bytes - 1;
  auto exponent = static_cast<std::uint32_t>(std::bit_width(units) - 1);      // 2^exponent <= units
  auto quarter = static_cast<std::uint32_t>((units >> (exponent - 2)) & 3);
  return (exponent - 6) * 4 + quarter + 1;
}
constexpr std::size_t class_bytes(std::uint32_t size_class) {
  if (size_class == 0) return 64;
  std::uint32_t exponent = (size_class - 1) / 4 + 6, quarter = (size_class - 1) % 4;
  return ((std::size_t{1} << exponent) + (std::size_t{quarter + 1} << (exponent - 2)) + 63) / 64 * 64;
}
static_assert(class_bytes(class_of(65)) >= 65 && class_bytes(class_of(1000)) >= 1000 && class_bytes(class_of(4096)) == 4096);

struct Pool {
  std::mutex mutex;
  std::array<std::vector<Storage*>, size_classes> free;
  std::atomic<std::int64_t> in_use{0}, peak{0}, cached{0}, limit{0}, allocations{0}, system_calls{0};
  static Pool& instance() {
    static Pool* pool = new Pool;
    return *pool;
  }
};

struct ThreadCache {
  std::array<std::array<Storage*, thread_cache_entries>, size_classes> free;
  std::array<std::uint8_t, size_classes> count;
  std::size_t bytes;
  bool is_dead, is_armed;
};
inline ThreadCache& thread_cache() noexcept {
  static thread_local constinit ThreadCache cache{};
  return cache;
}

}  // namespace tensor_detail

/// Internal access to a Storage's fields for the allocator.
struct StorageAccess {
  static void free_block(Storage* storage) noexcept {
    std::free(storage->data_);
    delete storage;
  }
  static void flush_thread() noexcept {
    using namespace tensor_detail;
    ThreadCache& cache = thread_cache();
    Pool& pool = Pool::instance();
    for (std::uint32_t c = 0; c < size_classes; ++c)
      for (; cache.count[c] > 0; --cache.count[c]) {
        pool.cached.fetch_sub(static_cast<std::int64_t>(class_bytes(c)), std::memory_order_relaxed);
        free_block(cache.free[c][cache.count[c] - 1u]);
      }
    cache.bytes = 0;
  }
  static void flush_global() noexcept {
    using namespace tensor_detail;
    Pool& pool = Pool::instance();
    std::scoped_lock lock(pool.mutex);
    for (std::uint32_t c = 0; c < size_classes; ++c) {
      for (Storage* s : pool.free[c]) {
        pool.cached.fetch_sub(static_cast<std::int64_t>(class_bytes(c)), std::memory_order_relaxed);
        free_block(s);
      }
      pool.free[c].clear();
    }
  }
  static Storage* take_cached(std::uint32_t size_class) noexcept {
    using namespace tensor_detail;
    ThreadCache& cache = thread_cache();
    Pool& pool = Pool::instance();
    auto bytes = static_cast<std::int64_t>(class_bytes(size_class));
    if (cache.count[size_class] > 0) {
      cache.bytes -= static_cast<std::size_t>(bytes);
      pool.cached.fetch_sub(bytes, std::memory_order_relaxed);
      return cache.free[size_class][--cache.count[size_class]];
    }
    if (class_bytes(size_class) < 4096) return nullptr;   // small blocks are not worth a lock
    std::scoped_lock lock(pool.mutex);
    auto& list = pool.free[size_class];
    if (list.empty()) return nullptr;
    Storage* storage = list.back();
    list.pop_back();
    pool.cached.fetch_sub(bytes, std::memory_order_relaxed);
    return storage;
  }
  static Storage* take_from_system(std::uint32_t size_class) {
    using namespace tensor_detail;
    Pool& pool = Pool::instance();
    auto bytes = static_cast<std::int64_t>(class_bytes(size_class));
    auto exceeds = [&](std::int64_t limit) { return limit > 0 && pool.in_use.load() + pool.cached.load() + bytes > limit; };
    if (exceeds(pool.limit.load())) flush_thread(), flush_global();
    if (exceeds(pool.limit.load()))
      throw OutOfMemory("cpu", static_cast<std::uint64_t>(bytes),
                        "the limit of " + std::to_string(pool.limit.load()) + " bytes is reached (" + std::to_string(pool.in_use.load()) +
                            " in use); free tensors or raise set_memory_limit");
    void* data = std::aligned_alloc(alignment, class_bytes(size_class));
    if (data == nullptr) {
      flush_thread(), flush_global();
      data = std::aligned_alloc(alignment, class_bytes(size_class));
    }
    if (data == nullptr) throw OutOfMemory("cpu", static_cast<std::uint64_t>(bytes), "the system has no memory left");
    pool.system_calls.fetch_add(1, std::memory_order_relaxed);
    auto* storage = new Storage;
    storage->data_ = data;
    storage->size_class_ = size_class;
    return storage;
  }
  struct Sweeper {
    ~Sweeper() {
      flush_thread();
      tensor_detail::thread_cache().is_dead = true;
    }
  };
  static void give_back(Storage* storage) noexcept {
    using namespace tensor_detail;
    ThreadCache& cache = thread_cache();
    Pool& pool = Pool::instance();
    std::uint32_t c = storage->size_class_;
    std::size_t bytes = class_bytes(c);
    pool.in_use.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    pool.cached.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    if (!cache.is_dead && cache.count[c] < thread_cache_entries && cache.bytes + bytes <= thread_cache_bytes) {
      if (!cache.is_armed) {
        cache.is_armed = true;
        static thread_local Sweeper sweeper;
        static_cast<void>(sweeper);
      }
      cache.free[c][cache.count[c]++] = storage;
      cache.bytes += bytes;
      return;
    }
    if (bytes >= 4096) {
      std::scoped_lock lock(pool.mutex);
      pool.free[c].push_back(storage);
      return;
    }
    pool.cached.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    free_block(storage);
  }
};

SINTER_DECL Ref<Storage> Storage::allocate(std::size_t bytes, Device device) {
  using namespace tensor_detail;
  if (device.kind != DeviceKind::cpu)
    throw DeviceError("Storage", "no allocator for device " + device.text(), {}, "this build has no back end for that device");
  if (bytes > (std::size_t{1} << 44)) throw OutOfMemory("cpu", bytes, "the size is beyond what any machine has");
  Pool& pool = Pool::instance();
  std::uint32_t size_class = class_of(bytes);
  Storage* storage = StorageAccess::take_cached(size_class);
  if (storage == nullptr) storage = StorageAccess::take_from_system(size_class);
  else storage->revive();
  storage->bytes_ = bytes;
  storage->device_ = device;
  pool.allocations.fetch_add(1, std::memory_order_relaxed);
  auto size = static_cast<std::int64_t>(class_bytes(size_class));
  std::int64_t now = pool.in_use.fetch_add(size, std::memory_order_relaxed) + size;
  std::int64_t peak = pool.peak.load(std::memory_order_relaxed);
  while (now > peak && !pool.peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return Ref<Storage>::adopt(storage);
}

SINTER_DECL Ref<Storage> Storage::wrap(void* data, std::size_t bytes, std::shared_ptr<const void> owner, Device device) {
  auto* storage = new Storage;
  storage->owner_ = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
  storage->data_ = data;
  storage->bytes_ = bytes;
  storage->device_ = device;
  storage->size_class_ = tensor_detail::foreign_class;
  return Ref<Storage>::adopt(storage);
}

SINTER_DECL void Storage::destroy(Storage* storage) noexcept {
  if (storage->size_class_ == tensor_detail::foreign_class) delete storage;
  else StorageAccess::give_back(storage);
}

SINTER_DECL MemoryStats memory_stats(Device) {
  auto& pool = tensor_detail::Pool::instance();
  return {pool.in_use, pool.peak, pool.cached, pool.limit, pool.allocations, pool.system_calls};
}
SINTER_DECL void set_memory_limit(std::int64_t bytes, Device) { tensor_detail::Pool::instance().limit = bytes; }
SINTER_DECL void reset_peak_memory(Device) {
  auto& pool = tensor_detail::Pool::instance();
  pool.peak = pool.in_use.load();
}
SINTER_DECL void release_cached_memory(Device) {
  StorageAccess::flush_thread();
  StorageAccess::flush_global();
}

SINTER_NAMESPACE_END
