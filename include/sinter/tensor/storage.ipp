// The caching allocator. A free Storage keeps its block and waits, by size class, in its thread's cache or in the
// global pool; so a steady program reuses the same objects and touches no lock. Sizes are rounded up to four classes
// per power of two. Process state is never destroyed: Storages die after static objects too.
#pragma once

#include <sinter/tensor/storage.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/tensor/device_memory.hpp>
#include <sinter/tensor/guarded_memory.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {

inline constexpr std::size_t alignment = 64;
inline constexpr std::uint32_t size_classes = 160;
inline constexpr std::uint32_t foreign_class = 0xFFFFFFFF;
inline constexpr std::uint32_t device_class = 0xFFFFFFFE;
inline constexpr std::uint32_t guarded_class = 0xFFFFFFFD;  // the lowest that is no size
inline constexpr std::size_t thread_cache_bytes = std::size_t{64} << 20;
inline constexpr std::size_t thread_cache_entries = 128;  // per class

/// Smallest class that holds `bytes`: 64 * 2^(c/4) rounded to quarters.
constexpr std::uint32_t class_of(std::size_t bytes) {
  if (bytes <= 64) return 0;
  std::size_t units = bytes - 1;
  auto exponent = static_cast<std::uint32_t>(std::bit_width(units) - 1);  // 2^exponent <= units
  auto quarter = static_cast<std::uint32_t>((units >> (exponent - 2)) & 3);
  return (exponent - 6) * 4 + quarter + 1;
}
constexpr std::size_t class_bytes(std::uint32_t size_class) {
  if (size_class == 0) return 64;
  std::uint32_t exponent = (size_class - 1) / 4 + 6, quarter = (size_class - 1) % 4;
  return ((std::size_t{1} << exponent) + (std::size_t{quarter + 1} << (exponent - 2)) + 63) / 64 * 64;
}
/// The same, looked up.
inline constexpr std::array<std::size_t, size_classes> bytes_of_class = [] {
  std::array<std::size_t, size_classes> bytes{};
  for (std::uint32_t c = 0; c < size_classes; ++c) bytes[c] = class_bytes(c);
  return bytes;
}();
static_assert(class_bytes(class_of(65)) >= 65 && class_bytes(class_of(1000)) >= 1000 &&
              class_bytes(class_of(4096)) == 4096);

struct ThreadCache;
struct Pool {
  ForkSafeMutex mutex;
  std::array<std::vector<Storage*>, size_classes> free;
  std::atomic<std::int64_t> held{0};                             // taken from the system: in use or cached
  std::atomic<std::int64_t> in_use{0}, peak{0}, allocations{0};  // without what threads have not settled
  std::atomic<std::int64_t> limit{0}, system_calls{0};
  std::vector<ThreadCache*> threads;  // living ones that allocated
  Pool() {
    in_forked_child([] { instance().forget_other_threads(); });
  }
  /// A forked child has none of them: what they counted stays counted, their caches are lost.
  void forget_other_threads() noexcept;
  static Pool& instance() { return process_object<Pool>(); }
};

/// A counter that one thread changes and all may read: no read-modify-write.
struct OwnCounter {
  std::atomic<std::int64_t> value;
  std::int64_t read() const noexcept { return value.load(std::memory_order_relaxed); }
  void set(std::int64_t now) noexcept { value.store(now, std::memory_order_relaxed); }
};
struct ThreadCache {
  std::array<Storage*, size_classes> free;  // the first of a list
  std::array<std::uint8_t, size_classes> count;
  std::size_t bytes;
  bool is_dead, is_armed;
  OwnCounter in_use, highest, allocations;  // since the last settlement; `highest` of in_use
};
inline ThreadCache& thread_cache() noexcept {
  static thread_local constinit ThreadCache cache{};
  return cache;
}
inline void Pool::forget_other_threads() noexcept {
  std::erase_if(threads, [this](const ThreadCache* thread) {
    if (thread == &thread_cache()) return false;
    in_use += thread->in_use.read();
    allocations += thread->allocations.read();
    return true;
  });
}
/// Bytes that a thread counts for itself before the process learns of them.
inline constexpr std::int64_t settlement = std::int64_t{64} << 10;

}  // namespace tensor_detail

/// Internal access to a Storage's fields for the allocator.
struct StorageAccess {
  static void raise_peak(tensor_detail::Pool& pool, std::int64_t candidate) noexcept {
    std::int64_t peak = pool.peak.load(std::memory_order_relaxed);
    while (candidate > peak && !pool.peak.compare_exchange_weak(peak, candidate, std::memory_order_relaxed)) {}
  }
  /// Adds what the thread counted to the figures of the process.
  static void settle(tensor_detail::ThreadCache& cache) noexcept {
    auto& pool = tensor_detail::Pool::instance();
    const std::int64_t before = pool.in_use.fetch_add(cache.in_use.read(), std::memory_order_relaxed);
    raise_peak(pool, before + cache.highest.read());
    pool.allocations.fetch_add(cache.allocations.read(), std::memory_order_relaxed);
    cache.in_use.set(0);
    cache.highest.set(0);
    cache.allocations.set(0);
  }
  /// Counts bytes as used, or (negative) as no longer used.
  static void count(tensor_detail::ThreadCache& cache, std::int64_t bytes) noexcept {
    const std::int64_t now = cache.in_use.read() + bytes;
    cache.in_use.set(now);
    if (now > cache.highest.read()) cache.highest.set(now);
    if (SINTER_UNLIKELY(now >= tensor_detail::settlement || now <= -tensor_detail::settlement || cache.is_dead))
      settle(cache);
  }
  struct Sweeper {
    ~Sweeper() {
      tensor_detail::ThreadCache& cache = tensor_detail::thread_cache();
      auto& pool = tensor_detail::Pool::instance();
      flush_thread();
      cache.is_dead = true;
      std::scoped_lock lock(pool.mutex);
      settle(cache);
      std::erase(pool.threads, &cache);
    }
  };
  /// Makes the thread known, and sees to it that its cache is emptied when it ends.
  SINTER_NOINLINE static void arm(tensor_detail::ThreadCache& cache) {
    static thread_local Sweeper sweeper;
    static_cast<void>(sweeper);
    auto& pool = tensor_detail::Pool::instance();
    std::scoped_lock lock(pool.mutex);
    pool.threads.push_back(&cache);
    cache.is_armed = true;
  }

  static void free_block(Storage* storage) noexcept {
    tensor_detail::Pool::instance().held.fetch_sub(
        static_cast<std::int64_t>(tensor_detail::class_bytes(storage->size_class_)), std::memory_order_relaxed);
    if (storage->listed_bytes_ > 0) tensor_detail::forget_block(*storage);
    std::free(storage->data_);
    delete storage;
  }
  static void flush_thread() noexcept {
    using namespace tensor_detail;
    ThreadCache& cache = thread_cache();
    for (std::uint32_t c = 0; c < size_classes; ++c)
      while (Storage* storage = take_own(cache, c)) free_block(storage);
    cache.bytes = 0;
  }
  static void flush_global() noexcept {
    using namespace tensor_detail;
    Pool& pool = Pool::instance();
    std::scoped_lock lock(pool.mutex);
    for (auto& list : pool.free) {
      for (Storage* s : list) free_block(s);
      list.clear();
    }
  }
  /// Of the thread's own cache, or null.
  static Storage* take_own(tensor_detail::ThreadCache& cache, std::uint32_t size_class) noexcept {
    Storage* storage = cache.free[size_class];
    if (SINTER_UNLIKELY(storage == nullptr)) return nullptr;
    cache.free[size_class] = static_cast<Storage*>(storage->block_);
    --cache.count[size_class];
    cache.bytes -= tensor_detail::bytes_of_class[size_class];
    return storage;
  }
  static Storage* take_cached(tensor_detail::ThreadCache& cache, std::uint32_t size_class) noexcept {
    using namespace tensor_detail;
    if (Storage* own = take_own(cache, size_class); SINTER_LIKELY(own != nullptr)) return own;
    if (class_bytes(size_class) < 4096) return nullptr;  // small blocks are not worth a lock
    Pool& pool = Pool::instance();
    std::scoped_lock lock(pool.mutex);
    auto& list = pool.free[size_class];
    if (list.empty()) return nullptr;
    Storage* storage = list.back();
    list.pop_back();
    return storage;
  }
  /// For the text of an error: what could not be allocated was wanted for this, and these hold most.
  static std::string explained(std::string reason, Device device) {
    const std::string wanted = tensor_detail::text_of(tensor_detail::wanted_for()),
                      largest = tensor_detail::largest_blocks(device);
    if (!wanted.empty()) reason = "for " + wanted + ": " + reason;
    return largest.empty() ? reason : reason + "\n  " + largest;
  }
  static void list(Storage* storage, std::size_t bytes) {
    if (bytes < tensor_detail::listed_bytes) return;
    storage->listed_bytes_ = bytes;
    tensor_detail::list_block(*storage);
  }
  /// Large blocks ask for large pages, which the system gives where they are for those who ask: the processor remembers
  /// too few small ones for matrices of many megabytes. A block grows to whole ones by a sixth at most; else what is
  /// over has small ones.
  static void* from_system(std::size_t bytes) {
    constexpr std::size_t page = std::size_t{2} << 20;
    const std::size_t whole = bytes / page * page, more = (bytes + page - 1) / page * page;
    const std::size_t large = (more - bytes) * 6 <= bytes ? more : whole;
    void* data = nullptr;
    if (posix_memalign(&data, large > 0 ? page : tensor_detail::alignment, std::max(bytes, large)) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
    if (large > 0) madvise(data, large, MADV_HUGEPAGE);  // refused: pages stay small
#endif
    return data;
  }
  /// Throws OutOfMemory where `bytes` more are past the limit, although nothing is cached any more.
  static void keep_limit(std::int64_t bytes) {
    tensor_detail::Pool& pool = tensor_detail::Pool::instance();
    auto exceeds = [&](std::int64_t limit) { return limit > 0 && pool.held.load() + bytes > limit; };
    if (exceeds(pool.limit.load())) {
      flush_thread();
      flush_global();
    }
    if (exceeds(pool.limit.load()))
      throw OutOfMemory(
          "cpu", static_cast<std::uint64_t>(bytes),
          explained("the limit of " + std::to_string(pool.limit.load()) + " bytes is reached (" +
                        std::to_string(pool.held.load()) + " in use); free tensors or raise set_memory_limit",
                    Device::cpu()));
  }
  /// Of memory that the system gave; null: it has none left.
  static Storage* made_of(void* data, std::size_t bytes, std::uint32_t size_class) {
    tensor_detail::Pool& pool = tensor_detail::Pool::instance();
    if (data == nullptr) throw OutOfMemory("cpu", bytes, explained("the system has no memory left", Device::cpu()));
    pool.system_calls.fetch_add(1, std::memory_order_relaxed);
    pool.held.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    auto* storage = new Storage;
    storage->data_ = data;
    storage->size_class_ = size_class;
    list(storage, bytes);
    return storage;
  }
  static Storage* take_from_system(std::uint32_t size_class) {
    const std::size_t bytes = tensor_detail::class_bytes(size_class);
    keep_limit(static_cast<std::int64_t>(bytes));
    void* data = from_system(bytes);
    if (data == nullptr) {
      flush_thread();
      flush_global();
      data = from_system(bytes);
    }
    return made_of(data, bytes, size_class);
  }
  /// Under SINTER_GUARD_PAGES: as large as it was asked for, and never cached.
  static Storage* take_guarded(std::size_t bytes, tensor_detail::GuardPages guards) {
    tensor_detail::Pool& pool = tensor_detail::Pool::instance();
    keep_limit(static_cast<std::int64_t>(bytes));
    Storage* storage = made_of(tensor_detail::guarded_block(bytes, guards), bytes, tensor_detail::guarded_class);
    storage->bytes_ = bytes;
    pool.allocations.fetch_add(1, std::memory_order_relaxed);
    raise_peak(pool, pool.in_use.fetch_add(static_cast<std::int64_t>(bytes)) + static_cast<std::int64_t>(bytes));
    return storage;
  }
  static void free_guarded(Storage* storage) noexcept {
    tensor_detail::Pool& pool = tensor_detail::Pool::instance();
    pool.in_use.fetch_sub(static_cast<std::int64_t>(storage->bytes_), std::memory_order_relaxed);
    pool.held.fetch_sub(static_cast<std::int64_t>(storage->bytes_), std::memory_order_relaxed);
    if (storage->listed_bytes_ > 0) tensor_detail::forget_block(*storage);
    tensor_detail::free_guarded_block(storage->data_, storage->bytes_, tensor_detail::guard_pages());
    delete storage;
  }
  static DeviceBlock block_of(std::size_t bytes, Device device) {
    DeviceMemory& memory = device_memory(device, "Storage");
    try {
      return memory.allocate(bytes, device);
    } catch (const OutOfMemory& error) {  // the device's own text, and what holds most
      throw OutOfMemory(explained(error.what(), device));
    }
  }
  static Storage* take_from_device(std::size_t bytes, Device device) {
    const DeviceBlock block = block_of(bytes, device);
    auto* storage = new Storage;
    storage->data_ = block.data;
    storage->block_ = block.block;
    storage->bytes_ = bytes;
    storage->device_ = device;
    storage->size_class_ = tensor_detail::device_class;
    list(storage, bytes);
    return storage;
  }
  static void free_on_device(Storage* storage) noexcept {
    if (storage->listed_bytes_ > 0) tensor_detail::forget_block(*storage);
    find_device_memory(storage->device_.kind)->free({storage->data_, storage->block_}, storage->device_);
    delete storage;
  }
  /// The device may still be using what the owner frees.
  static void free_foreign(Storage* storage) noexcept {
    if (storage->device_.kind != DeviceKind::cpu && *storage->owner_ != nullptr)
      if (DeviceMemory* memory = find_device_memory(storage->device_.kind)) memory->drain(storage->device_);
    delete storage->owner_;
    delete storage;
  }
  static void give_back(Storage* storage) noexcept {
    using namespace tensor_detail;
    ThreadCache& cache = thread_cache();
    std::uint32_t c = storage->size_class_;
    std::size_t bytes = bytes_of_class[c];
    if (SINTER_LIKELY(cache.is_armed && !cache.is_dead)) {
      count(cache, -static_cast<std::int64_t>(bytes));
      if (SINTER_LIKELY(cache.count[c] < thread_cache_entries && cache.bytes + bytes <= thread_cache_bytes)) {
        storage->block_ = cache.free[c];
        cache.free[c] = storage;
        ++cache.count[c];
        cache.bytes += bytes;
        return;
      }
    } else {  // a thread that ends, or that only ever frees what others made
      Pool::instance().in_use.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    }
    if (bytes >= 4096) {
      Pool& pool = Pool::instance();
      std::scoped_lock lock(pool.mutex);
      pool.free[c].push_back(storage);
      return;
    }
    free_block(storage);
  }
};

SINTER_DECL Ref<Storage> Storage::allocate(std::size_t bytes, Device device) {
  using namespace tensor_detail;
  if (SINTER_UNLIKELY(device.kind != DeviceKind::cpu))
    return Ref<Storage>::adopt(StorageAccess::take_from_device(bytes, device));
  if (bytes > (std::size_t{1} << 44))
    throw OutOfMemory("cpu", bytes, StorageAccess::explained("the size is beyond what any machine has", device));
  ThreadCache& cache = thread_cache();
  if (SINTER_UNLIKELY(!cache.is_armed)) {  // always, where guards are on
    if (const GuardPages guards = guard_pages(); guards != GuardPages::none)
      return Ref<Storage>::adopt(StorageAccess::take_guarded(bytes, guards));
    StorageAccess::arm(cache);
  }
  std::uint32_t size_class = class_of(bytes);
  Storage* storage = StorageAccess::take_cached(cache, size_class);
  if (storage == nullptr) storage = StorageAccess::take_from_system(size_class);
  else storage->revive();
  storage->bytes_ = bytes;
  storage->device_ = device;
  cache.allocations.set(cache.allocations.read() + 1);
  StorageAccess::count(cache, static_cast<std::int64_t>(bytes_of_class[size_class]));
  return Ref<Storage>::adopt(storage);
}

SINTER_DECL Ref<Storage> Storage::allocate_listed(std::size_t bytes, Device device, tensor_detail::Maker maker) {
  struct Wanted {
    explicit Wanted(tensor_detail::Maker maker) { tensor_detail::wanted_for() = maker; }
    ~Wanted() { tensor_detail::wanted_for() = tensor_detail::Maker::unknown; }
  } wanted(maker);
  Ref<Storage> storage = allocate(bytes, device);
  storage->maker_.store(maker, std::memory_order_relaxed);
  if (SINTER_UNLIKELY(has_timeline())) {
    timeline::instant("memory", "allocate",
                      JsonFields()
                          .add("bytes", static_cast<long long>(bytes))
                          .add("device", device.text())
                          .add("for", tensor_detail::text_of(maker)));
    timeline::counter("memory in use on " + device.text(), "bytes", memory_stats(device).in_use);
  }
  return storage;
}

SINTER_DECL Ref<Storage> Storage::wrap(void* data, std::size_t bytes, std::shared_ptr<const void> owner,
                                       Device device) {
  auto held = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
  auto* storage = new Storage;
  storage->owner_ = held.release();
  storage->data_ = data;
  storage->bytes_ = bytes;
  storage->device_ = device;
  storage->size_class_ = tensor_detail::foreign_class;
  return Ref<Storage>::adopt(storage);
}

SINTER_DECL void Storage::destroy(Storage* storage) noexcept {
  using namespace tensor_detail;
  if (SINTER_LIKELY(storage->size_class_ < guarded_class)) StorageAccess::give_back(storage);
  else if (storage->size_class_ == foreign_class) StorageAccess::free_foreign(storage);
  else if (storage->size_class_ == device_class) StorageAccess::free_on_device(storage);
  else StorageAccess::free_guarded(storage);
}

SINTER_DECL MemoryStats memory_stats(Device device) {
  if (device.kind != DeviceKind::cpu) return device_memory(device, "memory_stats").stats(device);
  auto& pool = tensor_detail::Pool::instance();
  std::scoped_lock lock(pool.mutex);
  std::int64_t in_use = pool.in_use, allocations = pool.allocations, highest = 0;
  for (const tensor_detail::ThreadCache* thread : pool.threads) {
    in_use += thread->in_use.read();
    allocations += thread->allocations.read();
    highest = std::max(highest, thread->highest.read() - thread->in_use.read());
  }
  StorageAccess::raise_peak(pool, in_use + highest);
  return {in_use, pool.peak, pool.held - in_use, pool.limit, allocations, pool.system_calls};
}
SINTER_DECL void set_memory_limit(std::int64_t bytes, Device device) {
  if (device.kind != DeviceKind::cpu) return device_memory(device, "set_memory_limit").set_limit(device, bytes);
  tensor_detail::Pool::instance().limit = bytes;
}
SINTER_DECL void reset_peak_memory(Device device) {
  if (device.kind != DeviceKind::cpu) return device_memory(device, "reset_peak_memory").reset_peak(device);
  auto& pool = tensor_detail::Pool::instance();
  std::scoped_lock lock(pool.mutex);
  std::int64_t in_use = pool.in_use;
  for (tensor_detail::ThreadCache* thread : pool.threads) {
    in_use += thread->in_use.read();
    thread->highest.set(thread->in_use.read());
  }
  pool.peak = in_use;
}
SINTER_DECL void release_cached_memory(Device device) {
  if (device.kind != DeviceKind::cpu) return device_memory(device, "release_cached_memory").release_cached(device);
  StorageAccess::flush_thread();
  StorageAccess::flush_global();
}

SINTER_NAMESPACE_END
