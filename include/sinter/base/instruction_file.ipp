// Appending to the file. One write() for each line: the system keeps lines of several threads apart.
#pragma once

#include <sinter/base/instruction_file.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/timeline.ipp>  // rank_of_launcher, name_with

#include <cerrno>
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
      if (!logs_instructions || (file_ < 0 && !open())) return;
      while (!line.empty()) {
        const ::ssize_t wrote = ::write(file_, line.data(), line.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote > 0) {
          line.remove_prefix(static_cast<std::size_t>(wrote));
          continue;
        }
        error = "the log of instructions ends here: '" + path_ + "' takes no more: " + std::strerror(errno);
        logs_instructions = false;
        watchers.fetch_sub(one_watcher);
        close();
        break;
      }
    }
    if (!error.empty()) warn("trace", error);
  }

 private:
  bool open() {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    constexpr std::string_view head = "# instructions of Sinter, version 1\n";
    return file_ >= 0 && ::write(file_, head.data(), head.size()) == static_cast<::ssize_t>(head.size());
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
};
}  // namespace base_detail

SINTER_DECL void start_instruction_log(const std::string& path, std::string_view origin, Location where) {
  base_detail::InstructionFile::instance().start(path, origin, where);
}
SINTER_DECL void stop_instruction_log() { base_detail::InstructionFile::instance().stop(); }
SINTER_DECL void write_instruction(std::string_view line) { base_detail::InstructionFile::instance().write(line); }

SINTER_NAMESPACE_END
