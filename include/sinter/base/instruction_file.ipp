// Appending to the file. One write() for each line: the system keeps lines of several threads apart.
#pragma once

#include <sinter/base/instruction_file.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/timeline.ipp>  // rank_of_launcher, name_with

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
class InstructionFile {
 public:
  static InstructionFile& instance() { return process_object<InstructionFile>(); }
  InstructionFile() {
    in_forked_child([] { instance().start_anew(); });
  }

  void start(const std::string& path, std::string_view origin, Location where) {
#ifdef SINTER_NO_TIMELINE
    throw UserError(origin, "this build of Sinter watches nothing: SINTER_NO_TIMELINE is defined", where,
                    "build it without");
#endif
    std::scoped_lock lock(mutex_);
    if (logs_instructions)
      throw UserError(origin, "instructions are already being logged into '" + path_ + "'", where,
                      "call jit::stop_instruction_log() before, or write one log at a time");
    path_ = path;
    if (origin == "SINTER_INSTRUCTION_LOG") path_ = name_with(path, rank_of_launcher());
    if (!open())
      throw UserError(origin, "the file '" + path_ + "' cannot be written: " + std::strerror(errno), where,
                      "name a file in a folder that exists and may be written to");
    instruction_log_start = steady_nanoseconds();
    instruction_logs.fetch_add(1);
    watchers.fetch_add(one_watcher);
    logs_instructions = true;
  }
  void stop() {
    std::scoped_lock lock(mutex_);
    if (logs_instructions.exchange(false)) watchers.fetch_sub(one_watcher);
    close();
  }
  void write(std::string_view line) {
    std::string error;
    {
      std::scoped_lock lock(mutex_);
      if (!logs_instructions) return;
      if (file_ < 0 && !open()) {
        error = "no instructions are logged: '" + path_ + "' cannot be written: " + std::strerror(errno);
      } else if (!put(line)) {
        error = "the log of instructions ends here: '" + path_ + "' takes no more: " + std::strerror(errno);
        close();
      }
      if (!error.empty() && logs_instructions.exchange(false)) watchers.fetch_sub(one_watcher);
    }
    if (!error.empty()) warn("trace", error);
  }

 private:
  bool open() {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    end_ = 0;
    if (file_ < 0) return false;
    if (put("# instructions of Sinter, version 1\n")) return true;
    const int error = errno;
    close();
    errno = error;
    return false;
  }
  /// Appends all of it, or nothing.
  bool put(std::string_view text) {
    for (std::size_t done = 0; done < text.size();) {
      const ::ssize_t wrote = ::write(file_, text.data() + done, text.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) {
        const int error = wrote < 0 ? errno : ENOSPC;
        [[maybe_unused]] const int cut = ::ftruncate(file_, static_cast<::off_t>(end_));  // a pipe keeps the part
        errno = error;
        return false;
      }
      done += static_cast<std::size_t>(wrote);
    }
    end_ += text.size();
    return true;
  }
  void close() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }
  /// A forked child writes into a file of its own, which is made with the first line.
  void start_anew() noexcept {
    if (!logs_instructions) return;
    close();
    path_ = name_with(path_, std::to_string(::getpid()));
  }
  ForkSafeMutex mutex_;
  std::string path_;
  int file_ = -1;
  std::uint64_t end_ = 0;  // of the lines that are complete
};
}  // namespace base_detail

SINTER_DECL void start_instruction_log(const std::string& path, std::string_view origin, Location where) {
  base_detail::InstructionFile::instance().start(path, origin, where);
}
SINTER_DECL void stop_instruction_log() { base_detail::InstructionFile::instance().stop(); }
SINTER_DECL void write_instruction(std::string_view line) { base_detail::InstructionFile::instance().write(line); }

SINTER_NAMESPACE_END
