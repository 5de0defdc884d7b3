// Where ranks that are processes without MPI meet: a thread of rank 0's process for each connection. One message of
// each member of a group makes a round; when all have come, each gets all of them. Must not know what the messages
// mean.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/dist/error.hpp>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

namespace tcp_detail {
using Clock = std::chrono::steady_clock;
/// Processes of one program start at different times.
inline constexpr std::chrono::seconds longest_start(60);
/// Ports that rank 0 tries: that of the environment may be the launcher's own.
inline constexpr int ports_tried = 16;

/// A connection that has not joined has so long for each step.
inline constexpr std::chrono::seconds longest_step(5);
/// Longer than the ranks wait, after which a rank takes rank 0 for stopped.
inline std::chrono::milliseconds silence_of(std::chrono::milliseconds timeout) {
  return timeout + std::max<std::chrono::milliseconds>(std::chrono::seconds(3), timeout / 2);
}

/// hello, welcome, joined; then each call has an answer: all, or failure, which may come before it is asked for.
enum class MessageKind : std::uint32_t { hello, call, leave, fail, welcome, all, failure, joined };
struct Header {
  std::uint32_t magic = 0x53494e54;
  MessageKind kind = MessageKind::hello;
  std::uint32_t rank = 0;   // who sends; of a failure, its kind; of all, 1: every rank of the program is here
  std::uint32_t count = 0;  // of texts that follow
};
using Texts = std::vector<std::string>;

inline std::string text_from(const char* variable, const char* otherwise = "") {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : otherwise;
}

/// A connection; closed at its end.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  void set_up(std::optional<std::chrono::milliseconds> longest_silence) const {
    const int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!longest_silence) return;
    timeval time{};
    time.tv_sec = static_cast<decltype(time.tv_sec)>(longest_silence->count() / 1000);
    time.tv_usec = static_cast<decltype(time.tv_usec)>(longest_silence->count() % 1000 * 1000);
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  }
  /// False: the other end is gone, or is silent for longer than set_up() was told.
  bool send(const void* data, std::size_t size) const {
    const char* from = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t sent = ::send(fd_, from, size, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      from += sent;
      size -= static_cast<std::size_t>(sent);
    }
    return true;
  }
  bool receive(void* data, std::size_t size) const {
    char* to = static_cast<char*>(data);
    while (size > 0) {
      const ssize_t received = ::recv(fd_, to, size, 0);
      if (received < 0 && errno == EINTR) continue;
      if (received <= 0) return false;
      to += received;
      size -= static_cast<std::size_t>(received);
    }
    return true;
  }
  bool send_header(MessageKind kind, std::uint32_t rank, std::size_t count) const {
    const Header header{.kind = kind, .rank = rank, .count = static_cast<std::uint32_t>(count)};
    return send(&header, sizeof header);
  }
  bool send_texts(const Texts& texts) const {
    for (const std::string& text : texts) {
      const std::uint64_t size = text.size();
      if (!send(&size, sizeof size) || !send(text.data(), text.size())) return false;
    }
    return true;
  }
  bool send(MessageKind kind, std::uint32_t rank, const Texts& texts) const {
    return send_header(kind, rank, texts.size()) && send_texts(texts);
  }
  /// Memory grows with what has come, not with what is announced.
  bool receive(std::string& text, std::uint64_t size) const {
    constexpr std::size_t first_bytes = std::size_t{1} << 20;
    text.clear();
    while (text.size() < size) {
      const std::size_t from = text.size();
      text.resize(std::min<std::size_t>(size, from + std::max(from, first_bytes)));
      if (!receive(text.data() + from, text.size() - from)) return false;
    }
    return true;
  }
  /// False as well where there are more texts, or longer ones.
  bool receive(Header& header, Texts& texts, std::uint32_t most_texts = 1 << 20,
               std::uint64_t longest_text = std::uint64_t{1} << 40) const {
    if (!receive(&header, sizeof header) || header.magic != Header().magic || header.count > most_texts) return false;
    texts.assign(header.count, {});
    for (std::string& text : texts) {
      std::uint64_t size = 0;
      if (!receive(&size, sizeof size) || size > longest_text || !receive(text, size)) return false;
    }
    return true;
  }

 private:
  int fd_;
};

/// Has the launcher given the run a name that no other has? torchrun's static meeting calls each run "none".
inline bool has_run_id() {
  const std::string id = text_from("TORCHELASTIC_RUN_ID");
  return !id.empty() && id != "none";
}
inline void set_port(sockaddr_storage& address, int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (address.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_port = number;
  else reinterpret_cast<sockaddr_in&>(address).sin_port = number;
}

/// What ranks of one program have in common, and others have not. Secret: who knows it can join.
inline std::string program_text(int size) {
  std::string text = std::to_string(size) + " ranks of run '" + text_from("TORCHELASTIC_RUN_ID") + "', start " +
                     text_from("TORCHELASTIC_RESTART_COUNT", "0") + ", port " + text_from("MASTER_PORT");
  if (has_run_id()) return text;
  text += ", job " + text_from("SLURM_JOB_ID");
  // Where ranks are given by hand each may be a step of its own.
  return std::getenv("WORLD_SIZE") == nullptr ? text + "." + text_from("SLURM_STEP_ID") : text;
}
/// Ports that may be rank 0's: others of the same number of ranks would be taken for it where runs have no names.
inline int ports_of_program() { return has_run_id() ? ports_tried : 1; }
inline int port_from_environment() {
  const std::string text = text_from("MASTER_PORT");
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
    throw UserError("dist", "MASTER_PORT is '" + text + "'", {}, "it must be the number of a port, as 29500");
  // torchrun's own store is at that port, unless it leaves it to rank 0.
  return text_from("TORCHELASTIC_USE_AGENT_STORE") == "True" && port < 65535 ? port + 1 : port;
}
}  // namespace tcp_detail

/// Where ranks meet. Lives as long as rank 0's process.
class TcpHub {
 public:
  explicit TcpHub(int size) : ranks_(static_cast<std::size_t>(size)), fds_(static_cast<std::size_t>(size) + 1) {
    for (std::atomic<int>& fd : fds_) fd = -1;
  }
  /// Listens at the first of so many ports that is free, where `host`, which has these addresses, says. False: none is.
  bool listen(const std::string& host, const addrinfo& addresses, int first_port, int ports);
  /// In a forked child, which is no rank: the ports and connections stay with the parent alone.
  void close_in_child() noexcept {
    for (std::atomic<int>& fd : fds_)
      if (const int open = fd.exchange(-1); open >= 0) ::close(open);
  }
  /// Until all ranks have left, or the time is over.
  void wait_for_end(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [&] {
      return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.has_ended; });
    });
  }

 private:
  using Socket = tcp_detail::Socket;
  using Texts = tcp_detail::Texts;
  struct Round {
    std::vector<int> members;
    std::vector<Texts> messages;  // by member: what it asks for, the same with its line, bytes
    std::size_t arrived = 0;
    bool is_complete() const { return arrived == members.size(); }
  };
  struct Rank {
    bool is_taken = false;                     // a connection has said hello
    bool is_here = false;                      // and has joined
    bool has_ended = false, was_told = false;  // of a failure
    bool is_answered = false;                  // its thread sends, and nobody else does
    std::shared_ptr<Round> waits_in{};
    std::string text{};  // that it waits in
  };
  struct Failure {
    DistError::Kind kind;
    std::string what;
  };

  bool listen_at(const sockaddr* address, socklen_t size, int port);
  bool listen_anywhere(int port);
  void accept_all(Socket listening);
  /// The rank that has joined by it; none: it is no rank's.
  std::optional<int> let_join(const Socket& socket);
  void serve(const Socket& socket, int rank);
  bool answer(const Socket& socket, int rank, const Texts& message);
  bool send_all(const Socket& socket, const Round& round, bool is_everybody_here) const;
  void wait_for(std::unique_lock<std::mutex>& lock, const Round& round, const Texts& message);
  bool are_all_here() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.is_here; });
  }
  std::shared_ptr<Round> enter_round(int rank, const Texts& message);
  void end_rank(int rank, const std::string& why, bool is_failure);
  /// Ranks that are about something else are told now: this process may be gone when they ask.
  void fail(DistError::Kind kind, std::string what) {
    if (!failure_) failure_ = Failure{kind, std::move(what)};
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) tell(rank);
    changed_.notify_all();
  }
  void tell(std::size_t rank);
  void find_deadlock();
  std::string missing_text(const Round& round) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  tcp_detail::Clock::time_point start_ = tcp_detail::Clock::now(), all_here_since_{};
  std::vector<Rank> ranks_;
  std::vector<std::atomic<int>> fds_;  // by rank; the last is the port
  std::map<std::string, std::shared_ptr<Round>> rounds_{};
  std::optional<Failure> failure_{};
};

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
