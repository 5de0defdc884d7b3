// The table of the kernel cache.
#pragma once

#include <sinter/runtime/kernel_cache.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/timeline.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
struct CachedKernel {
  Kernel kernel;
  Schedule schedule;
  std::string backend_key;
  ForkSafeMutex compiling;  // guards the three below
  std::shared_ptr<const Executable> executable;
  bool is_declined = false;
  std::string why_declined;
  std::atomic<std::uint64_t> last_use{0};
};

class KernelCache {
 public:
  static KernelCache& instance() { return process_object<KernelCache>(); }

  std::shared_ptr<const Executable> get(Backend& backend, const Kernel& kernel, const Schedule& schedule,
                                        std::string* why_declined) {
    const std::string backend_key = std::string(backend.name()) + " " + backend.cache_key();
    Hasher hasher;
    hasher.add(kernel.hash()).add(std::string_view(backend_key));
    for (const ScheduleStep& step : schedule.steps())
      hasher.add(std::uint64_t{as_index(step.action)} << 32 | std::uint64_t{step.number} << 8 |
                 static_cast<std::uint8_t>(step.axis));
    const Hash128 hash = hasher.finish();
    std::shared_ptr<CachedKernel> entry = find(hash, kernel, schedule, backend_key);
    if (!entry) entry = insert(hash, kernel, schedule, backend_key);
    entry->last_use.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
    std::scoped_lock lock(entry->compiling);
    if (entry->executable || entry->is_declined) hits_.fetch_add(1, std::memory_order_relaxed);
    else compile(backend, *entry);
    if (why_declined != nullptr) *why_declined = entry->why_declined;
    return entry->executable;
  }

  KernelCacheStats stats() const {
    std::shared_lock lock(mutex_);
    return {hits_, misses_, static_cast<std::int64_t>(table_.size()), evictions_, code_bytes_, compile_nanoseconds_};
  }

  void clear() {
    std::unique_lock lock(mutex_);
    table_.clear();
    code_bytes_ = 0;
  }

  void set_limit(std::int64_t bytes) {
    std::unique_lock lock(mutex_);
    limit_ = bytes;
    evict();
  }

 private:
  /// What an entry holds beside its code, measured of small pointwise kernels: the kernel, its tables and keys.
  static constexpr std::int64_t bytes_of_entry = 6 << 10;
  using Table = std::unordered_multimap<Hash128, std::shared_ptr<CachedKernel>, Hash128Hash>;

  std::shared_ptr<CachedKernel> find_locked(const Hash128& hash, const Kernel& kernel, const Schedule& schedule,
                                            const std::string& key) const {
    auto [begin, end] = table_.equal_range(hash);
    for (auto it = begin; it != end; ++it)
      if (it->second->kernel == kernel && it->second->schedule == schedule && it->second->backend_key == key)
        return it->second;
    return nullptr;
  }
  std::shared_ptr<CachedKernel> find(const Hash128& hash, const Kernel& kernel, const Schedule& schedule,
                                     const std::string& key) const {
    std::shared_lock lock(mutex_);
    return find_locked(hash, kernel, schedule, key);
  }
  std::shared_ptr<CachedKernel> insert(const Hash128& hash, const Kernel& kernel, const Schedule& schedule,
                                       const std::string& key) {
    std::unique_lock lock(mutex_);
    if (auto found = find_locked(hash, kernel, schedule, key)) return found;
    auto entry = std::make_shared<CachedKernel>();
    entry->kernel = kernel;
    entry->schedule = schedule;
    entry->backend_key = key;
    table_.emplace(hash, entry);
    return entry;
  }

  /// Holds the entry's lock, so that others who want it wait. An entry whose compilation throws stays empty: the next
  /// caller tries again.
  void compile(Backend& backend, CachedKernel& entry) {
    const auto start = std::chrono::steady_clock::now();
    TimelineSpan span("compile", "compile a kernel");
    std::shared_ptr<const Executable> made = backend.compile(entry.kernel, entry.schedule, &entry.why_declined);
    if (span.is_on()) {
      span.fields().add("kernel", name(entry.kernel.kind)).add("backend", backend.name());
      if (made != nullptr) span.fields().add("code_bytes", static_cast<long long>(made->code_bytes()));
      else span.fields().add("declined", entry.why_declined);
    }
    entry.is_declined = made == nullptr;
    if (entry.is_declined && entry.why_declined.empty()) entry.why_declined = "declined";
    const auto spent = std::chrono::steady_clock::now() - start;
    entry.executable = std::move(made);
    misses_.fetch_add(1, std::memory_order_relaxed);
    compile_nanoseconds_.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count(),
                                   std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    if (entry.executable) code_bytes_ += static_cast<std::int64_t>(entry.executable->code_bytes());
    evict();
  }

  /// Programs that put numbers of their data into functions compile small kernels without end, whose code is the least
  /// that they hold.
  std::int64_t held_bytes() const { return code_bytes_ + static_cast<std::int64_t>(table_.size()) * bytes_of_entry; }

  /// Down to three quarters of the limit, oldest use first. The caller holds the table's lock.
  void evict() {
    if (held_bytes() <= limit_) return;
    std::vector<std::pair<std::uint64_t, Table::iterator>>
        idle;  // by their last use, which callers may change meanwhile
    for (auto it = table_.begin(); it != table_.end(); ++it)
      if (it->second.use_count() == 1)
        idle.emplace_back(it->second->last_use.load(std::memory_order_relaxed),
                          it);  // else a compilation uses it; its code is not counted yet
    std::sort(idle.begin(), idle.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [last_use, entry] : idle) {
      if (held_bytes() <= limit_ / 4 * 3) return;
      if (entry->second->executable) code_bytes_ -= static_cast<std::int64_t>(entry->second->executable->code_bytes());
      table_.erase(entry);
      ++evictions_;
    }
  }

  mutable ForkSafeSharedMutex mutex_;
  Table table_;
  std::int64_t limit_ = std::int64_t{256} << 20;
  std::int64_t code_bytes_ = 0;
  std::int64_t evictions_ = 0;
  std::atomic<std::uint64_t> clock_{1};
  std::atomic<std::int64_t> hits_{0}, misses_{0}, compile_nanoseconds_{0};
};
}  // namespace runtime_detail

SINTER_DECL std::shared_ptr<const Executable> compiled_kernel(Backend& backend, const Kernel& kernel,
                                                              const Schedule& schedule, std::string* why_declined) {
  return runtime_detail::KernelCache::instance().get(backend, kernel, schedule, why_declined);
}
SINTER_DECL KernelCacheStats kernel_cache_stats() { return runtime_detail::KernelCache::instance().stats(); }
SINTER_DECL void clear_kernel_cache() { runtime_detail::KernelCache::instance().clear(); }
SINTER_DECL void set_kernel_cache_limit(std::int64_t code_bytes) {
  runtime_detail::KernelCache::instance().set_limit(code_bytes);
}

SINTER_NAMESPACE_END
