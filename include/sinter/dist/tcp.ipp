// The meeting place, which is threads of rank 0's process, one for each connection; and the connections to it. One
// message of each member of a group makes a round: when all have come, each gets all of them.
#pragma once

#include <sinter/dist/tcp.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
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
  TcpHub(int size, std::chrono::milliseconds timeout) : timeout_(timeout), ranks_(as_index(size)) {}
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

SINTER_DECL bool TcpHub::listen(int first_port, bool is_of_this_host) {
  for (int port = first_port; port < first_port + tcp_detail::ports_tried; ++port) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int one = 1;
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(is_of_this_host ? INADDR_LOOPBACK : INADDR_ANY);
    if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) continue;
    if (::listen(socket.fd(), 1024) != 0) continue;
    std::thread([this, listening = std::move(socket)]() mutable { accept_all(std::move(listening)); }).detach();
    return true;
  }
  return false;
}

inline void TcpHub::accept_all(Socket listening) {
  for (;;) {
    Socket socket(::accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    std::thread([this, own = std::move(socket)] {
      try {
        serve(own);
      } catch (const std::exception& error) {  // no memory for a message
        const std::lock_guard lock(mutex_);
        fail(DistError::Kind::engine, std::string("rank 0, where all meet: ") + error.what());
      }
    }).detach();
  }
}

inline void TcpHub::serve(const Socket& socket) {
  using tcp_detail::MessageKind;
  socket.set_up(std::nullopt);
  tcp_detail::Header header;
  Texts message;
  const int size = static_cast<int>(ranks_.size());
  if (!socket.receive(header, message) || header.kind != MessageKind::hello || header.rank >= ranks_.size()) return;
  const int rank = static_cast<int>(header.rank);
  {
    const std::lock_guard lock(mutex_);
    if (message != Texts{tcp_detail::program_text(size)} || ranks_[header.rank].is_here) return;
    ranks_[header.rank].is_here = true;
    changed_.notify_all();
  }
  if (!socket.send(MessageKind::welcome, 0, {})) return;
  while (socket.receive(header, message)) {
    if (header.kind == MessageKind::leave) return end_rank(rank, "has ended", false);
    if (header.kind == MessageKind::fail) return end_rank(rank, "has failed: " + message.at(0), true);
    if (header.kind != MessageKind::call || message.size() != 5 || !answer(socket, rank, message)) break;
  }
  end_rank(rank, "has failed: its process has ended", true);
}

/// A rank that has left is missed only where somebody waits for it.
inline void TcpHub::end_rank(int rank, const std::string& why, bool is_failure) {
  const std::lock_guard lock(mutex_);
  ranks_[as_index(rank)].has_ended = true;
  if (is_failure) return fail(DistError::Kind::failed, "rank " + std::to_string(rank) + " " + why);
  find_deadlock();
  changed_.notify_all();
}

/// No round can be completed any more: all who are left wait, or somebody waits for a rank that has left.
inline void TcpHub::find_deadlock() {
  const Rank* first = nullptr;
  for (const Rank& rank : ranks_) {
    if (rank.waits_in == nullptr) {
      if (!rank.has_ended) return;
      continue;
    }
    if (rank.waits_in->is_complete()) return;
    if (first == nullptr) first = &rank;
    if (rank.waits_in == first->waits_in) continue;
    const auto number = [&](const Rank* r) { return std::to_string(r - ranks_.data()); };
    return fail(DistError::Kind::mismatch, "the calls of the ranks differ: rank " + number(first) + " is in " +
                                               first->text + ", rank " + number(&rank) + " is in " + rank.text);
  }
  if (first != nullptr) fail(DistError::Kind::failed, missing_text(*first->waits_in) + " ended before " + first->text);
}

inline std::string TcpHub::missing_text(const Round& round) const {
  std::string text;
  for (std::size_t i = 0; i < round.members.size(); ++i)
    if (round.messages[i].empty()) text += (text.empty() ? "" : ", ") + std::to_string(round.members[i]);
  return (text.find(',') == std::string::npos ? "rank " : "ranks ") + text;
}

/// message: key of the round, numbers of its members, what is asked for, the same with its line, bytes.
inline std::shared_ptr<TcpHub::Round> TcpHub::enter_round(int rank, const Texts& message) {
  std::shared_ptr<Round>& place = rounds_[message[0]];
  if (place == nullptr) {
    place = std::make_shared<Round>();
    place->members.resize(message[1].size() / sizeof(int));
    std::memcpy(place->members.data(), message[1].data(), place->members.size() * sizeof(int));
    place->messages.resize(place->members.size());
  }
  std::shared_ptr<Round> round = place;
  const auto member = std::find(round->members.begin(), round->members.end(), rank) - round->members.begin();
  if (as_index(member) == round->members.size() || !round->messages[as_index(member)].empty()) return nullptr;
  round->messages[as_index(member)] = {message[2], message[3], message[4]};
  ++round->arrived;
  ranks_[as_index(rank)].waits_in = round;
  ranks_[as_index(rank)].text = message[3];
  if (round->is_complete()) {
    rounds_.erase(message[0]);
    changed_.notify_all();
  } else {
    find_deadlock();
  }
  return round;
}

inline bool TcpHub::answer(const Socket& socket, int rank, const Texts& message) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Round> round = enter_round(rank, message);
  if (round == nullptr) return false;
  auto until = tcp_detail::Clock::now() + timeout_;
  const bool are_all_here = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& other) { return other.is_here; });
  if (!are_all_here) until = std::max(until, start_ + tcp_detail::longest_start);
  const auto is_over = [&] { return failure_.has_value() || round->is_complete(); };
  if (!changed_.wait_until(lock, until, is_over))
    fail(DistError::Kind::timeout,
         missing_text(*round) + " did not come to " + message[3] + " within " + seconds_text(timeout_));
  ranks_[as_index(rank)].waits_in = nullptr;
  if (!round->is_complete()) {
    const Failure failure = *failure_;
    lock.unlock();
    return socket.send(tcp_detail::MessageKind::failure, static_cast<std::uint32_t>(failure.kind), {failure.what});
  }
  lock.unlock();
  Texts all;
  for (const Texts& each : round->messages) all.insert(all.end(), each.begin(), each.end());
  return socket.send(tcp_detail::MessageKind::all, 0, all);
}

/// This process's connection.
struct TcpProcess {
  std::mutex mutex;  // one message and its answer at a time
  std::optional<tcp_detail::Socket> socket;
  TcpHub* hub = nullptr;  // where this is rank 0; never deleted, for its threads run until the process ends
  int rank = 0;
  std::chrono::milliseconds timeout{0};
  bool has_met = false;  // all ranks, once
  std::atomic<bool> has_failed{false};

  TcpProcess() {
    std::atexit([] { instance().leave(); });
  }
  static TcpProcess& instance() { return process_object<TcpProcess>(); }

  void connect(const Launch& launch, std::chrono::milliseconds longest, Location where);
  tcp_detail::Texts exchange(const tcp_detail::Texts& message, std::string_view op, Location where);
  void leave() noexcept;
  void fail(const std::string& what) noexcept;

 private:
  bool try_connect(const addrinfo& address, int port, int size);
};

inline bool TcpProcess::try_connect(const addrinfo& address, int port, int size) {
  tcp_detail::Socket made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  std::memcpy(&at, address.ai_addr, std::min<std::size_t>(sizeof at, address.ai_addrlen));
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  made.set_up(std::chrono::milliseconds(2000));
  if (::connect(made.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return false;
  tcp_detail::Header header;
  tcp_detail::Texts none;
  if (!made.send(tcp_detail::MessageKind::hello, static_cast<std::uint32_t>(rank), {tcp_detail::program_text(size)}) ||
      !made.receive(header, none) || header.kind != tcp_detail::MessageKind::welcome)
    return false;
  made.set_up(timeout + tcp_detail::longest_start);
  socket.emplace(std::move(made));
  return true;
}

inline void TcpProcess::connect(const Launch& launch, std::chrono::milliseconds longest, Location where) {
  const std::lock_guard lock(mutex);
  if (socket) return;
  rank = launch.rank;
  timeout = longest;
  const std::string host = tcp_detail::text_from("MASTER_ADDR");
  const int port = tcp_detail::port_from_environment();
  const std::string place = host + ", port " + std::to_string(port);
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found); error != 0 || found == nullptr)
    throw DistError(DistError::Kind::engine, "run", "MASTER_ADDR is '" + host + "': " + ::gai_strerror(error), where,
                    "give the name or address of the host of rank 0");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &::freeaddrinfo);
  if (rank == 0) {
    const bool is_of_this_host = host == "localhost" || host.substr(0, 4) == "127.";
    hub = new TcpHub(launch.size, timeout);
    if (!hub->listen(port, is_of_this_host))
      throw DistError(DistError::Kind::engine, "run",
                      "rank 0 cannot listen at " + place + ", nor at the " +
                          std::to_string(tcp_detail::ports_tried - 1) + " ports after it",
                      where, "choose another MASTER_PORT");
  }
  const auto until =
      tcp_detail::Clock::now() + std::max<tcp_detail::Clock::duration>(timeout, tcp_detail::longest_start);
  for (;;) {
    for (int i = 0; i < tcp_detail::ports_tried; ++i)
      if (try_connect(*addresses, port + i, launch.size)) return;
    if (tcp_detail::Clock::now() > until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw DistError(
      DistError::Kind::timeout, "run",
      "rank " + std::to_string(rank) + " finds no rank 0 of " + tcp_detail::program_text(launch.size) + " at " + place,
      where, "start all ranks with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE");
}

inline tcp_detail::Texts TcpProcess::exchange(const tcp_detail::Texts& message, std::string_view op, Location where) {
  const std::lock_guard lock(mutex);
  if (has_failed.load())
    throw DistError(DistError::Kind::failed, op, "an earlier collective has failed", where,
                    "end this process: the others cannot go on either");
  tcp_detail::Header header;
  tcp_detail::Texts answer;
  errno = 0;
  if (!socket->send(tcp_detail::MessageKind::call, static_cast<std::uint32_t>(rank), message) ||
      !socket->receive(header, answer)) {
    has_failed = true;
    const bool is_silent = errno == EAGAIN || errno == EWOULDBLOCK;
    throw DistError(is_silent ? DistError::Kind::timeout : DistError::Kind::failed, op,
                    is_silent ? "rank 0, where all meet, does not answer" : "rank 0 has failed: its process has ended",
                    where);
  }
  if (header.kind == tcp_detail::MessageKind::all) {
    // Everybody has started. Where rank 0's process is stopped it reports nothing: a little later this one notices.
    if (!std::exchange(has_met, true)) socket->set_up(timeout + std::chrono::seconds(1));
    return answer;
  }
  has_failed = true;
  const auto kind = static_cast<DistError::Kind>(header.rank);
  throw DistError(kind, op, answer.empty() ? std::string() : answer[0], where,
                  kind == DistError::Kind::timeout ? "a longer wait is RunOptions::timeout, or SINTER_DIST_TIMEOUT"
                  : kind == DistError::Kind::mismatch
                      ? "every rank of a group makes the same collectives in the same order"
                      : "");
}

inline void TcpProcess::leave() noexcept {
  if (!socket) return;
  if (!has_failed.load()) socket->send(tcp_detail::MessageKind::leave, static_cast<std::uint32_t>(rank), {});
  socket.reset();
  // The answers to the others are on their way.
  if (hub != nullptr) hub->wait_for_end(has_failed.load() ? std::chrono::milliseconds(500) : timeout);
}

inline void TcpProcess::fail(const std::string& what) noexcept {
  if (!socket || has_failed.exchange(true)) return;
  try {
    socket->send(tcp_detail::MessageKind::fail, static_cast<std::uint32_t>(rank), {what});
  } catch (...) {  // no memory: the end of the process says it
  }
}

SINTER_DECL bool has_tcp_address() noexcept {
  const char *host = std::getenv("MASTER_ADDR"), *port = std::getenv("MASTER_PORT");
  return host != nullptr && *host != '\0' && port != nullptr && *port != '\0';
}
SINTER_DECL void note_tcp_failure(const std::string& what) noexcept { TcpProcess::instance().fail(what); }
SINTER_DECL bool has_tcp_failed() noexcept { return TcpProcess::instance().has_failed.load(); }

/// A group of processes: each gets what all have, and does what the collective says with it.
class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(std::vector<int> ranks, int index) : Communicator(std::move(ranks), index) {
    for (const int rank : this->ranks()) key_ += std::to_string(rank) + ",";
  }
  void meet(const Request& request) override { static_cast<void>(exchanged(request, {})); }
  void run(const Request& request) override {
    std::string own;
    if (request.in != nullptr && request.in->bytes() > 0) own.assign(request.in->as<const char>(), request.in->bytes());
    const std::vector<std::string> all = exchanged(request, std::move(own));
    if (request.in != nullptr) work(request, all);
  }

 private:
  /// The bytes of all ranks.
  std::vector<std::string> exchanged(const Request& request, std::string own) {
    std::string members(ranks().size() * sizeof(int), '\0');
    std::memcpy(members.data(), ranks().data(), members.size());
    const tcp_detail::Texts all =
        TcpProcess::instance().exchange({key_ + "#" + std::to_string(++round_), std::move(members), request.text(),
                                         request.text_with_line(), std::move(own)},
                                        dist::name(request.what.kind), request.where);
    ensure(all.size() == 3 * ranks().size(), "dist: an answer of another number of ranks");
    std::vector<std::string> bytes;
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      if (all[3 * r] != all[0]) throw_difference(request, r, all[1], all[3 * r + 1]);
      bytes.push_back(all[3 * r + 2]);
    }
    return bytes;
  }
  [[noreturn]] void throw_difference(const Request& request, std::size_t r, const std::string& first,
                                     const std::string& other) const {
    const std::string what = "the calls of the ranks differ: rank " + std::to_string(ranks()[0]) + " is in " + first +
                             ", rank " + std::to_string(ranks()[r]) + " is in " + other;
    note_tcp_failure(what);
    throw DistError(DistError::Kind::mismatch, dist::name(request.what.kind), what, request.where,
                    "every rank of a group makes the same collectives in the same order");
  }

  static void work_of_reduction(const Request& request, std::span<const void* const> sources) {
    const HostView& out = *request.out;
    if (out.numel > 0) reduce_in_order(request.what.reduce, out.dtype, sources, out.data, out.numel);
  }
  void work(const Request& request, const std::vector<std::string>& all) const {
    const Collective& what = request.what;
    const HostView &in = *request.in, &out = *request.out;
    const std::int64_t element = size_of(in.dtype);
    const auto copy_part = [&](const Shape& part, std::size_t from, int from_axis, std::int64_t from_offset,
                               std::int64_t to_offset) {
      copy_region(part, {const_cast<char*>(all[from].data()), &in.shape, from_axis, from_offset},
                  {out.data, &out.shape, what.axis, to_offset}, element);
    };
    std::vector<const void*> sources;
    std::vector<std::vector<char>> parts;
    switch (what.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce:
        if (what.kind == CollectiveKind::reduce && index() != what.root) return fill_zero(out);
        for (const std::string& each : all) sources.push_back(each.data());
        return work_of_reduction(request, sources);
      case CollectiveKind::reduce_scatter:
        for (const std::string& each : all) {
          parts.emplace_back(std::max<std::size_t>(out.bytes(), 1));
          copy_region(out.shape,
                      {const_cast<char*>(each.data()), &in.shape, what.axis, index() * out.shape[what.axis].value()},
                      {parts.back().data(), &out.shape, what.axis, 0}, element);
        }
        for (const std::vector<char>& part : parts) sources.push_back(part.data());
        return work_of_reduction(request, sources);
      case CollectiveKind::all_gather:
        for (std::size_t r = 0; r < all.size(); ++r)
          copy_part(in.shape, r, what.axis, 0, static_cast<std::int64_t>(r) * in.shape[what.axis].value());
        return;
      case CollectiveKind::all_to_all: {
        Shape part = in.shape;
        part.set(what.split_axis, part[what.split_axis].value() / size());
        for (std::size_t r = 0; r < all.size(); ++r)
          copy_part(part, r, what.split_axis, index() * part[what.split_axis].value(),
                    static_cast<std::int64_t>(r) * part[what.axis].value());
        return;
      }
      case CollectiveKind::broadcast: return copy_all(all[as_index(what.root)], out);
      case CollectiveKind::permute:
        for (const auto& [from, to] : what.pairs)
          if (to == index()) return copy_all(all[as_index(from)], out);
        return fill_zero(out);
      default: return;
    }
  }
  static void copy_all(const std::string& bytes, const HostView& out) {
    if (out.bytes() > 0) std::memcpy(out.data, bytes.data(), out.bytes());
  }
  static void fill_zero(const HostView& out) {
    if (out.bytes() > 0) std::memset(out.data, 0, out.bytes());
  }

  std::string key_{};
  std::uint64_t round_ = 0;
};

class TcpEngine final : public Engine {
 public:
  TcpEngine(int rank, int size) : rank_(rank), size_(size) {}
  std::string_view name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Communicator> group(std::vector<int> ranks, Location) override {
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    const int index = static_cast<int>(place - ranks.begin());
    return std::make_unique<TcpCommunicator>(std::move(ranks), index);
  }

 private:
  int rank_, size_;
};

SINTER_DECL std::unique_ptr<Engine> make_tcp_engine(const Launch& launch, std::chrono::milliseconds timeout,
                                                    Location where) {
  if (!has_tcp_address())
    throw DistError(DistError::Kind::engine, "run", "MASTER_ADDR and MASTER_PORT do not say where ranks meet", where,
                    "start the program with torchrun or tools/launch --processes, or set them");
  TcpProcess::instance().connect(launch, timeout, where);
  return std::make_unique<TcpEngine>(launch.rank, launch.size);
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
