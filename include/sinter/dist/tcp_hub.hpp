// Where ranks that are processes without MPI meet: a thread of rank 0's process for each connection. One message of
// each member of a group makes a round; when all have come, each gets all of them. Must not know what the messages
// mean.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/dist/error.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
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

enum class MessageKind : std::uint32_t { hello, call, leave, fail, welcome, all, failure };
struct Header {
  std::uint32_t magic = 0x53494e54;
  MessageKind kind = MessageKind::hello;
  std::uint32_t rank = 0;   // who sends; of a failure, its kind
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
  bool send(MessageKind kind, std::uint32_t rank, const Texts& texts) const {
    const Header header{.kind = kind, .rank = rank, .count = static_cast<std::uint32_t>(texts.size())};
    if (!send(&header, sizeof header)) return false;
    for (const std::string& text : texts) {
      const std::uint64_t size = text.size();
      if (!send(&size, sizeof size) || !send(text.data(), text.size())) return false;
    }
    return true;
  }
  bool receive(Header& header, Texts& texts) const {
    constexpr std::uint32_t most_texts = 1 << 20;
    if (!receive(&header, sizeof header) || header.magic != Header().magic || header.count > most_texts) return false;
    texts.assign(header.count, {});
    for (std::string& text : texts) {
      std::uint64_t size = 0;
      if (!receive(&size, sizeof size) || size > std::uint64_t{1} << 40) return false;
      text.resize(size);
      if (!receive(text.data(), size)) return false;
    }
    return true;
  }

 private:
  int fd_;
};

/// What ranks of one program have in common, and others have not.
inline std::string program_text(int size) {
  return std::to_string(size) + " ranks of run '" + text_from("TORCHELASTIC_RUN_ID") + "'";
}
inline int port_from_environment() {
  const std::string text = text_from("MASTER_PORT");
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
    throw UserError("dist", "MASTER_PORT is '" + text + "'", {}, "it must be the number of a port, as 29500");
  // torchrun's own store is at that port, unless it leaves it to rank 0.
  return text_from("TORCHELASTIC_USE_AGENT_STORE") == "True" ? port + 1 : port;
}
}  // namespace tcp_detail

/// Where ranks meet. Lives as long as rank 0's process.
class TcpHub {
 public:
  TcpHub(int size, std::chrono::milliseconds timeout) : timeout_(timeout), ranks_(static_cast<std::size_t>(size)) {}
  /// Listens at the first of the ports that is free. False: none is.
  bool listen(int first_port, bool is_of_this_host);
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
    bool is_here = false, has_ended = false;
    std::shared_ptr<Round> waits_in{};
    std::string text{};  // that it waits in
  };
  struct Failure {
    DistError::Kind kind;
    std::string what;
  };

  void accept_all(Socket listening);
  void serve(const Socket& socket);
  bool answer(const Socket& socket, int rank, const Texts& message);
  std::shared_ptr<Round> enter_round(int rank, const Texts& message);
  void end_rank(int rank, const std::string& why, bool is_failure);
  void fail(DistError::Kind kind, std::string what) {
    if (!failure_) failure_ = Failure{kind, std::move(what)};
    changed_.notify_all();
  }
  void find_deadlock();
  std::string missing_text(const Round& round) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::milliseconds timeout_;
  tcp_detail::Clock::time_point start_ = tcp_detail::Clock::now();
  std::vector<Rank> ranks_;
  std::map<std::string, std::shared_ptr<Round>> rounds_{};
  std::optional<Failure> failure_{};
};

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
