// Counters of the processor for one thread, by perf_event_open: cycles and instructions. Where the system does not
// allow them it says why.
#pragma once

#include <sinter/base/config.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#ifdef __linux__
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

struct Counts {
  std::uint64_t cycles = 0, instructions = 0;
};

class ThreadCounters {
 public:
#ifdef __linux__
  ThreadCounters() {
    cycles_ = open(PERF_COUNT_HW_CPU_CYCLES, -1);
    if (cycles_ < 0) {
      why_not_ = std::string("no counters: perf_event_open: ") + std::strerror(errno);
      if (errno == EACCES || errno == EPERM)
        why_not_ += " (it needs kernel.perf_event_paranoid of 2 or less, and a container that permits it)";
      return;
    }
    instructions_ = open(PERF_COUNT_HW_INSTRUCTIONS, cycles_);
    if (instructions_ < 0) why_not_ = std::string("no counters: perf_event_open: ") + std::strerror(errno);
  }
  ~ThreadCounters() {
    if (instructions_ >= 0) ::close(instructions_);
    if (cycles_ >= 0) ::close(cycles_);
  }
  Counts read() const {
    struct {
      std::uint64_t count, cycles, instructions;
    } values{};
    if (!is_on() || ::read(cycles_, &values, sizeof values) != static_cast<::ssize_t>(sizeof values)) return {};
    return {values.cycles, values.instructions};
  }
#else
  ThreadCounters() : why_not_("no counters: this system has no perf_event_open") {}
  Counts read() const { return {}; }
#endif
  ThreadCounters(const ThreadCounters&) = delete;
  ThreadCounters& operator=(const ThreadCounters&) = delete;
  bool is_on() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }

 private:
#ifdef __linux__
  static int open(std::uint64_t what, int group) {
    perf_event_attr attributes{};
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.size = sizeof attributes;
    attributes.config = what;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    attributes.read_format = PERF_FORMAT_GROUP;
    return static_cast<int>(::syscall(SYS_perf_event_open, &attributes, 0, -1, group, 0UL));
  }
  int cycles_ = -1, instructions_ = -1;
#endif
  std::string why_not_;
};

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
