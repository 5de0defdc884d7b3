// The process's cache, who writes it and when, and how a build is told from another.
#pragma once

#include <sinter/runtime/program_code.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/runtime/code_cache.ipp>
#include <sinter/runtime/disk_cache.hpp>

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

#if defined(__linux__)
/// The file of the program or shared library that this function is in.
struct ModuleSearch {
  std::uintptr_t address = 0;
  std::string build_id, path;
};

/// The identity that the linker gave a module (--build-id): a hash of all that is in it.
inline std::string build_id_of(const dl_phdr_info& module) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const auto& segment = module.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(module.dlpi_addr + segment.p_vaddr);
    const char* const end = at + segment.p_memsz;
    const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* const name = at + sizeof note;
      const char* const content = name + padded(note.n_namesz);
      at = content + padded(note.n_descsz);
      if (at > end) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        return {content, note.n_descsz};
    }
  }
  return {};
}

inline int look_at_module(dl_phdr_info* module, std::size_t, void* search) {
  auto& wanted = *static_cast<ModuleSearch*>(search);
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const auto& segment = module->dlpi_phdr[i];
    const std::uintptr_t begin = module->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || wanted.address < begin || wanted.address - begin >= segment.p_memsz) continue;
    wanted.build_id = build_id_of(*module);
    wanted.path = module->dlpi_name != nullptr && *module->dlpi_name != '\0' ? module->dlpi_name : "/proc/self/exe";
    return 1;
  }
  return 0;
}

/// What generates the code may be a shared library of its own, which is exchanged without the program.
inline int look_for_asmjit(dl_phdr_info* module, std::size_t, void* text) {
  const std::string_view path = module->dlpi_name != nullptr ? module->dlpi_name : "";
  if (path.substr(path.find_last_of('/') + 1).starts_with("libasmjit"))
    *static_cast<std::string*>(text) += ", asmjit " + build_id_of(*module);
  return 0;
}

SINTER_DECL std::string program_version() {
  ModuleSearch search{reinterpret_cast<std::uintptr_t>(&program_version), {}, {}};
  ::dl_iterate_phdr(&look_at_module, &search);
  std::string start = "sinter " SINTER_VERSION_STRING;
  ::dl_iterate_phdr(&look_for_asmjit, &start);
  start += ", ";
  if (!search.build_id.empty()) return start + "build " + search.build_id;
  struct stat status{};
  if (search.path.empty() || ::stat(search.path.c_str(), &status) != 0) return {};
  return start + "file " + std::to_string(status.st_dev) + " " + std::to_string(status.st_ino) + " " +
         std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + " " +
         std::to_string(status.st_mtim.tv_nsec);
}
/// Has the program rights that its caller has not? Then what the caller's environment names is not to be trusted.
inline bool has_others_rights() { return ::getauxval(AT_SECURE) != 0; }
#else
SINTER_DECL std::string program_version() { return {}; }
inline bool has_others_rights() { return true; }
#endif

/// SINTER_CACHE_MB.
inline std::int64_t cache_limit() {
  const char* const text = std::getenv("SINTER_CACHE_MB");
  std::int64_t megabytes = 64;
  if (text == nullptr || *text == '\0') return megabytes << 20;
  const char* const end = text + std::strlen(text);
  const auto [stop, problem] = std::from_chars(text, end, megabytes);
  constexpr std::int64_t most = 4096;
  if (problem != std::errc() || stop != end || megabytes < 0 || megabytes > most)
    throw UserError("SINTER_CACHE_MB", "\"" + std::string(text) + "\" is no number of megabytes from 0 to 4096", {},
                    "use 64, say, 0 to keep no machine code on disk, or unset SINTER_CACHE_MB");
  return megabytes << 20;
}

inline std::string code_folder() {
  std::string folder = has_others_rights() ? std::string() : DiskCache::standard().folder();
  if (folder.empty()) return {};
  if (folder.front() != '/') {  // the program may go elsewhere
    const std::unique_ptr<char, void (*)(void*)> here(::getcwd(nullptr, 0), &std::free);
    if (here == nullptr) return {};
    folder = std::string(here.get()) + "/" + folder;
  }
  return folder + "/cpu";
}

/// A thread that writes what is kept about a second after the first of it came, and ends when nothing is left.
class CodeWriter {
 public:
  void start(CodeCache& cache) {
    if (is_exiting_.load(std::memory_order_relaxed) || is_there_.exchange(true)) return;
    const ForkSection section;
    sigset_t all, before;
    sigfillset(&all);  // the user's signals are not for this thread
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this, &cache] { run(cache); }).detach();
    } catch (...) { is_there_ = false; }  // what is kept is written at exit
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  /// At exit, or before the library is unloaded: returns when the thread is gone.
  void finish() noexcept {
    is_exiting_ = true;
    if (!is_there_) return;
    { const std::scoped_lock lock(mutex_); }  // it waits, or sees what was set
    wake_.notify_all();
    for (int round = 0; is_there_ && round < 2000; ++round) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  /// The thread is its parent's.
  void forget() noexcept {
    new (&mutex_) std::mutex;  // the thread may have held it
    new (&wake_) std::condition_variable;
    is_there_ = false;
  }

 private:
  void run(CodeCache& cache) noexcept {
    do {
      for (int round = 0; cache.has_kept() && round < 5; ++round) {  // another process may be writing
        {
          std::unique_lock lock(mutex_);
          wake_.wait_for(lock, std::chrono::seconds(1), [this] { return is_exiting_.load(); });
        }
        cache.write();
        if (is_exiting_) break;
      }
      is_there_ = false;
    } while (!is_exiting_ && cache.has_kept() && !is_there_.exchange(true));
  }

  std::atomic<bool> is_there_{false}, is_exiting_{false};
  std::mutex mutex_;  // no pipe wakes the thread: a program may close descriptors that it does not know
  std::condition_variable wake_;
};

struct ProgramCode {
  ForkSafeMutex mutex;                             // of opening
  std::vector<std::unique_ptr<CodeCache>> opened;  // the last one is in use; threads may still use those before
  std::atomic<CodeCache*> cache{nullptr};
  std::atomic<std::int64_t> generated{0};
  CodeWriter writer;
  static ProgramCode& instance() { return process_object<ProgramCode>(); }

  CodeCache& open() {
    if (CodeCache* const known = cache.load(std::memory_order_acquire)) return *known;
    const std::scoped_lock lock(mutex);
    if (cache.load(std::memory_order_relaxed) == nullptr) {
      const std::int64_t limit = cache_limit();
      auto made = std::make_unique<CodeCache>(limit > 0 ? code_folder() : std::string(), program_version(), limit);
      in_forked_child(&in_child);
      if (!made->holds_nothing() && !is_at_exit.exchange(true)) std::atexit(&at_exit);
      opened.push_back(std::move(made));
      cache.store(opened.back().get(), std::memory_order_release);
    }
    return *cache.load(std::memory_order_relaxed);
  }

 private:
  static void in_child() {
    ProgramCode& code = instance();
    code.writer.forget();
    if (CodeCache* const known = code.cache.load(std::memory_order_acquire)) known->forget_kept();
  }
  static void at_exit() {
    ProgramCode& code = instance();
    code.writer.finish();
    CodeCache* const known = code.cache.load(std::memory_order_acquire);
    if (known == nullptr) return;
    known->be_quiet();
    known->write();
  }
  std::atomic<bool> is_at_exit{false};
};

inline CodeRecording*& recording_of_thread() noexcept {
  static thread_local constinit CodeRecording* recording = nullptr;
  return recording;
}
SINTER_DECL CodeRecording::CodeRecording() : before_(std::exchange(recording_of_thread(), this)) {}
SINTER_DECL CodeRecording::~CodeRecording() { recording_of_thread() = before_; }
SINTER_DECL bool CodeRecording::is_on() noexcept { return recording_of_thread() != nullptr; }
SINTER_DECL std::vector<CodeEntry> CodeRecording::take() {
  std::sort(entries_.begin(), entries_.end(), [](const CodeEntry& a, const CodeEntry& b) { return a.key < b.key; });
  const auto last = std::unique(entries_.begin(), entries_.end(),
                                [](const CodeEntry& a, const CodeEntry& b) { return a.key == b.key; });
  entries_.erase(last, entries_.end());
  return std::exchange(entries_, {});
}
SINTER_DECL void note_code(std::string_view key, std::string_view value) {
  if (CodeRecording* const recording = recording_of_thread())
    recording->entries_.push_back({std::string(key), std::string(value)});
}

/// Code that came with files that the user trusts. Entries stay: there are as many as the program loads.
struct TrustedCode {
  ForkSafeMutex mutex;
  std::map<std::string, std::string, std::less<>> entries;
  std::atomic<bool> has_some{false};
  static TrustedCode& instance() { return process_object<TrustedCode>(); }

  std::optional<FoundCode> find(std::string_view key) {
    if (!has_some.load(std::memory_order_acquire)) return {};
    const std::scoped_lock lock(mutex);
    const auto found = entries.find(key);
    if (found == entries.end()) return {};
    return FoundCode{found->first + found->second, key.size()};
  }
};
SINTER_DECL void trust_code(std::vector<CodeEntry> entries) {
  TrustedCode& trusted = TrustedCode::instance();
  const std::scoped_lock lock(trusted.mutex);
  for (CodeEntry& entry : entries) trusted.entries.insert_or_assign(std::move(entry.key), std::move(entry.value));
  if (!trusted.entries.empty()) trusted.has_some.store(true, std::memory_order_release);
}

SINTER_DECL std::optional<FoundCode> find_program_code(std::string_view key) {
  if (Context::get().checks) return {};
  CodeCache& cache = ProgramCode::instance().open();
  std::optional<FoundCode> found;
  if (!cache.holds_nothing()) found = cache.find(key);
  if (!found) found = TrustedCode::instance().find(key);
  code_count_of_thread().loaded += found.has_value();
  if (found) note_code(key, found->value());
  return found;
}

SINTER_DECL void keep_program_code(std::string_view key, std::string_view value) {
  ProgramCode& code = ProgramCode::instance();
  code.generated.fetch_add(1, std::memory_order_relaxed);
  ++code_count_of_thread().generated;
  note_code(key, value);
  CodeCache& cache = code.open();
  if (cache.keep(key, value)) code.writer.start(cache);
}

SINTER_DECL void reopen_program_code() {
  ProgramCode& code = ProgramCode::instance();
  code.open().write();
  code.generated = 0;
  code.cache = nullptr;
  code.open();
}

}  // namespace runtime_detail

SINTER_DECL CodeCacheStats code_cache_stats() {
  runtime_detail::ProgramCode& code = runtime_detail::ProgramCode::instance();
  CodeCacheStats stats = code.open().stats();
  stats.generated = code.generated.load(std::memory_order_relaxed);
  return stats;
}
SINTER_DECL void write_code_cache() { runtime_detail::ProgramCode::instance().open().write(); }

SINTER_NAMESPACE_END
