// Jobs of the background thread, and the line in the cache on disk that says what a program has used.
#pragma once

#include <sinter/backend/cuda/device/ahead.hpp>

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/product/cublaslt_api.hpp>
#include <sinter/backend/cuda/product/library_product.hpp>
#include <sinter/base/background.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/runtime/disk_cache.hpp>
#include <sinter/runtime/program_code.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// What earlier processes of this program have noted. A program that is built anew begins without.
class LibraryNotes {
 public:
  LibraryNotes() {
    const std::string version = runtime_detail::program_version();
    std::string path(4096, '\0');
    const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
    if (version.empty() || size <= 0) return;
    path.resize(as_index(size));
    key_ = "cuda libraries of " + path + ", " + version;
    const std::optional<std::string> noted = disk_.find(key_);
    is_known_ = noted.has_value();
    std::istringstream lines(noted.value_or(""));
    for (std::string line; std::getline(lines, line);) kinds_.push_back(line);
    if (!is_known_) disk_.store(key_, "");
  }
  static LibraryNotes& instance() { return process_object<LibraryNotes>(); }
  /// Has it left code on disk?
  bool is_known_program() const { return is_known_; }
  /// Has somebody begun to compile ahead? True for all but the first who ask.
  bool begins_compiling() { return begins_compiling_.exchange(true); }
  /// Of products of cuBLASLt.
  std::vector<std::string> kinds() {
    const std::scoped_lock lock(mutex_);
    return kinds_;
  }
  void note(const std::string& kind) {
    const std::scoped_lock lock(mutex_);
    if (std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end()) return;
    kinds_.push_back(kind);
    std::string lines;
    for (const std::string& each : kinds_) lines += each + "\n";
    if (!key_.empty()) disk_.store(key_, lines);
  }

 private:
  DiskCache disk_ = DiskCache::standard();
  std::string key_;
  bool is_known_ = false;
  std::atomic<bool> begins_compiling_{false};
  ForkSafeMutex mutex_;
  std::vector<std::string> kinds_;
};

class OpeningJob final : public base_detail::BackgroundJob {
 public:
  explicit OpeningJob(std::function<void()> work) : work_(std::move(work)) {}
  void run() noexcept override {
    if (is_forked_child()) return;  // which can use no device
    try {
      work_();
    } catch (...) {  // whoever needs the library meets it again, and says so
    }
  }
  static void start(std::function<void()> work) {
    own_guard().job = base_detail::run_in_background(std::make_shared<OpeningJob>(std::move(work)));
  }

 private:
  /// exit() ends what its thread has before libraries end what is theirs, which the job may be using.
  struct EndsBeforeLibraries {
    std::int64_t job = 0;
    EndsBeforeLibraries() = default;
    EndsBeforeLibraries(const EndsBeforeLibraries&) = delete;
    EndsBeforeLibraries& operator=(const EndsBeforeLibraries&) = delete;
    ~EndsBeforeLibraries() { base_detail::wait_for_background(job); }
  };
  static EndsBeforeLibraries& own_guard() {
    static thread_local EndsBeforeLibraries guard;
    return guard;
  }

  std::function<void()> work_;
};

inline bool is_stopping() { return base_detail::is_background_stopping.load(std::memory_order_relaxed); }

SINTER_DECL void open_libraries_ahead(const std::string& architecture) {
  OpeningJob::start([architecture] {
    LibraryNotes& notes = LibraryNotes::instance();
    if (!has_nvrtc()) return;
    if (!notes.is_known_program() && !notes.begins_compiling() && !is_stopping())
      compile_to_cubin("extern \"C\" __global__ void nothing() {}", "nothing", architecture);
    if (!notes.kinds().empty() && !is_stopping()) has_cublaslt();
  });
}

SINTER_DECL void start_libraries_ahead(const Gpu& gpu) {
  OpeningJob::start([&gpu] {
    const std::vector<std::string> kinds = LibraryNotes::instance().kinds();
    if (kinds.empty() || !has_cublaslt()) return;
    gpu.enter();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // a capture of the user's is not disturbed
    api().call_cuThreadExchangeStreamCaptureMode(&mode);
    for (const std::string& kind : kinds)
      if (!is_stopping()) start_cublaslt(kind);
  });
}

SINTER_DECL void note_cublaslt_use(const std::string& kind) { LibraryNotes::instance().note(kind); }

SINTER_DECL void open_cublaslt_ahead() {
  OpeningJob::start([] { has_cublaslt(); });
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
