// The connection of this process, and collectives made of rounds.
#pragma once

#include <sinter/dist/tcp.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/tcp_hub.hpp>

#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

/// This process's connection.
struct TcpProcess {
  std::mutex mutex;  // one message and its answer at a time
  std::optional<tcp_detail::Socket> socket;
  TcpHub* hub = nullptr;  // where this is rank 0; never deleted, for its threads run until the process ends
  int rank = 0;
  std::atomic<pid_t> pid{0};                         // a forked child is no rank: it leaves without a word
  std::chrono::milliseconds timeout{0}, silence{0};  // that ranks wait; after which rank 0 is taken for stopped
  bool are_all_here = false, is_closed_in_child = false;
  std::atomic<bool> has_failed{false};

  TcpProcess() {
    std::atexit([] { instance().leave(); });
    in_forked_child([] {
      TcpProcess& parent = instance();
      if (std::exchange(parent.is_closed_in_child, true)) return;
      if (parent.socket) ::close(parent.socket->fd());
      if (parent.hub != nullptr) parent.hub->close_in_child();
    });
  }
  static TcpProcess& instance() { return process_object<TcpProcess>(); }

  void connect(const Launch& launch, std::chrono::milliseconds longest, Location where);
  tcp_detail::Texts exchange(tcp_detail::Texts message, std::chrono::milliseconds longest, std::string_view op,
                             Location where);
  void leave() noexcept;
  void fail(const std::string& what) noexcept;

 private:
  void check_no_child(std::string_view op, Location where) const {
    if (const pid_t rank_pid = pid.load(); rank_pid != 0 && rank_pid != ::getpid())
      throw DistError(DistError::Kind::failed, op, "a forked child of a rank makes a collective", where,
                      "leave collectives to the rank itself");
  }
  bool try_connect(const addrinfo& address, int port, int size);
  bool try_ports(const addrinfo& addresses, int first_port, int size, tcp_detail::Clock::time_point until);
};
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// Of the host of rank 0. A name server that does not answer now may do so in a second.
inline Addresses resolved(const std::string& host, Location where) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  int error = 0;
  for (int i = 0; i < 10; ++i) {
    error = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
    if (error != EAI_AGAIN) break;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (error != 0 || found == nullptr)
    throw DistError(DistError::Kind::engine, "run", "MASTER_ADDR is '" + host + "': " + ::gai_strerror(error), where,
                    "give the name or address of the host of rank 0");
  return Addresses(found, &::freeaddrinfo);
}

inline bool TcpProcess::try_connect(const addrinfo& address, int port, int size) {
  using tcp_detail::MessageKind;
  tcp_detail::Socket made(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.is_open()) return false;
  sockaddr_storage at{};
  std::memcpy(&at, address.ai_addr, std::min<std::size_t>(sizeof at, address.ai_addrlen));
  tcp_detail::set_port(at, port);
  made.set_up(std::chrono::milliseconds(2000));
  if (::connect(made.fd(), reinterpret_cast<const sockaddr*>(&at), address.ai_addrlen) != 0) return false;
  tcp_detail::Header header;
  tcp_detail::Texts none;
  if (!made.send(MessageKind::hello, static_cast<std::uint32_t>(rank), {tcp_detail::program_text(size)}) ||
      !made.receive(header, none, 0) || header.kind != MessageKind::welcome ||
      !made.send(MessageKind::joined, static_cast<std::uint32_t>(rank), {}))
    return false;
  socket.emplace(std::move(made));
  return true;
}

inline bool TcpProcess::try_ports(const addrinfo& addresses, int first_port, int size,
                                  tcp_detail::Clock::time_point until) {
  for (int port = first_port; port < first_port + tcp_detail::ports_of_program() && port <= 65535; ++port)
    for (const addrinfo* at = &addresses; at != nullptr; at = at->ai_next) {
      if (try_connect(*at, port, size)) return true;
      if (tcp_detail::Clock::now() > until) return false;
    }
  return false;
}

inline void TcpProcess::connect(const Launch& launch, std::chrono::milliseconds longest, Location where) {
  check_no_child("run", where);
  const std::lock_guard lock(mutex);
  if (socket) return;
  rank = launch.rank;
  timeout = longest;
  const std::string host = tcp_detail::text_from("MASTER_ADDR");
  const int port = tcp_detail::port_from_environment();
  const std::string place = host + ", port " + std::to_string(port);
  const Addresses addresses = resolved(host, where);
  if (rank == 0 && hub == nullptr) {
    auto made = std::make_unique<TcpHub>(launch.size);
    const int ports = tcp_detail::ports_of_program();
    if (!made->listen(host, *addresses, port, ports))
      throw DistError(DistError::Kind::engine, "run",
                      "rank 0 cannot listen at " + place +
                          (ports == 1 ? ": it is in use, or none of this host's"
                                      : ", nor at the " + std::to_string(ports - 1) + " ports after it"),
                      where, "choose another MASTER_PORT");
    hub = made.release();
  }
  pid = ::getpid();
  const auto until =
      tcp_detail::Clock::now() + std::max<tcp_detail::Clock::duration>(timeout, tcp_detail::longest_start);
  while (tcp_detail::Clock::now() <= until) {
    if (try_ports(*addresses, port, launch.size, until)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw DistError(DistError::Kind::timeout, "run",
                  "rank " + std::to_string(rank) + " finds no rank 0 of the same run of " +
                      std::to_string(launch.size) + " ranks at " + place,
                  where, "start all ranks with the same MASTER_ADDR, MASTER_PORT, WORLD_SIZE and TORCHELASTIC_RUN_ID");
}

inline tcp_detail::Texts TcpProcess::exchange(tcp_detail::Texts message, std::chrono::milliseconds longest,
                                              std::string_view op, Location where) {
  check_no_child(op, where);
  const std::lock_guard lock(mutex);
  if (has_failed.load())
    throw DistError(DistError::Kind::failed, op, "an earlier collective has failed", where,
                    "end this process: the others cannot go on either");
  timeout = longest;
  // As long as ranks may still start, rank 0 says nothing for longer.
  const auto wanted =
      tcp_detail::silence_of(timeout) +
      (are_all_here ? std::chrono::milliseconds(0) : std::chrono::milliseconds(tcp_detail::longest_start));
  if (std::exchange(silence, wanted) != wanted) socket->set_up(wanted);
  const std::int64_t milliseconds = timeout.count();
  message.emplace_back(reinterpret_cast<const char*>(&milliseconds), sizeof milliseconds);
  tcp_detail::Header header;
  tcp_detail::Texts answer;
  errno = 0;
  const bool is_sent = socket->send(tcp_detail::MessageKind::call, static_cast<std::uint32_t>(rank), message);
  message.clear();
  bool is_silent = !is_sent && (errno == EAGAIN || errno == EWOULDBLOCK);
  errno = 0;
  // Where rank 0 has ended, it may have said why before.
  if (is_silent || !socket->receive(header, answer)) {
    has_failed = true;
    is_silent |= errno == EAGAIN || errno == EWOULDBLOCK;
    throw DistError(is_silent ? DistError::Kind::timeout : DistError::Kind::failed, op,
                    is_silent ? "rank 0, where all meet, does not answer" : "rank 0 has failed: its process has ended",
                    where);
  }
  if (header.kind == tcp_detail::MessageKind::all) {
    are_all_here = header.rank != 0;
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
  if (!socket || pid != ::getpid()) return;
  if (!has_failed.load()) socket->send(tcp_detail::MessageKind::leave, static_cast<std::uint32_t>(rank), {});
  socket.reset();
  // The answers to the others are on their way.
  if (hub != nullptr) hub->wait_for_end(has_failed.load() ? std::chrono::milliseconds(500) : timeout);
}

inline void TcpProcess::fail(const std::string& what) noexcept {
  if (!socket || pid != ::getpid() || has_failed.exchange(true)) return;
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
  TcpCommunicator(std::vector<int> ranks, int index, std::chrono::milliseconds timeout)
      : Communicator(std::move(ranks), index), timeout_(timeout) {
    for (const int rank : this->ranks()) key_ += std::to_string(rank) + ",";
  }
  void meet(const Request& request) override { static_cast<void>(exchanged(request, {})); }
  void run(const Request& request) override {
    std::string own;
    if (request.in != nullptr && request.in->bytes() > 0 && is_source(request.what, index()))
      own.assign(request.in->as<const char>(), request.in->bytes());
    const std::vector<std::string> all = exchanged(request, std::move(own));
    if (request.in == nullptr) return;
    for (std::size_t r = 0; r < all.size(); ++r)
      ensure(all[r].size() == (is_source(request.what, static_cast<int>(r)) ? request.in->bytes() : 0),
             "dist: a message of another size than its collective has");
    work(request, all);
  }

 private:
  /// Does anybody read what this rank of the group has?
  static bool is_source(const Collective& what, int index) {
    if (what.kind == CollectiveKind::broadcast) return index == what.root;
    return what.kind != CollectiveKind::permute ||
           std::any_of(what.pairs.begin(), what.pairs.end(), [&](const auto& pair) { return pair.first == index; });
  }
  /// The bytes of all ranks.
  std::vector<std::string> exchanged(const Request& request, std::string own) {
    std::string members(ranks().size() * sizeof(int), '\0');
    std::memcpy(members.data(), ranks().data(), members.size());
    tcp_detail::Texts message{key_ + "#" + std::to_string(++round_), std::move(members), request.text(),
                              request.text_with_line(), std::string()};
    message.back() = std::move(own);  // which may be large
    tcp_detail::Texts all =
        TcpProcess::instance().exchange(std::move(message), timeout_, dist::name(request.what.kind), request.where);
    ensure(all.size() == 3 * ranks().size(), "dist: an answer of another number of ranks");
    std::vector<std::string> bytes;
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      if (all[3 * r] != all[0]) throw_difference(request, r, all[1], all[3 * r + 1]);
      bytes.push_back(std::move(all[3 * r + 2]));
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
  std::chrono::milliseconds timeout_;
};

class TcpEngine final : public Engine {
 public:
  TcpEngine(int rank, int size, std::chrono::milliseconds timeout) : rank_(rank), size_(size), timeout_(timeout) {}
  std::string_view name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Communicator> group(std::vector<int> ranks, Location) override {
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    const int index = static_cast<int>(place - ranks.begin());
    return std::make_unique<TcpCommunicator>(std::move(ranks), index, timeout_);
  }

 private:
  int rank_, size_;
  std::chrono::milliseconds timeout_;
};

SINTER_DECL std::unique_ptr<Engine> make_tcp_engine(const Launch& launch, std::chrono::milliseconds timeout,
                                                    Location where) {
  if (!has_tcp_address())
    throw DistError(DistError::Kind::engine, "run", "MASTER_ADDR and MASTER_PORT do not say where ranks meet", where,
                    "start the program with torchrun or tools/launch --processes, or set them");
  TcpProcess::instance().connect(launch, timeout, where);
  return std::make_unique<TcpEngine>(launch.rank, launch.size, timeout);
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
