// Rounds, and what ends them.
#pragma once

#include <sinter/dist/tcp_hub.hpp>

#include <sinter/base/index.hpp>
#include <sinter/dist/engine.hpp>

#include <algorithm>
#include <cstring>
#include <thread>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

namespace tcp_detail {
/// 127.0.0.0/8 and ::1.
inline bool is_loopback(const addrinfo& at) {
  if (at.ai_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(at.ai_addr)->sin_addr.s_addr) >> 24 == 127;
  return at.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(at.ai_addr)->sin6_addr);
}
}  // namespace tcp_detail

/// At an address of this host alone, if `host` is one or has one. A host's own name may mean 127.0.1.1 on it and
/// another address elsewhere (Debian's /etc/hosts): it does not say where to listen.
SINTER_DECL bool TcpHub::listen(const std::string& host, const addrinfo& addresses, int first_port, int ports) {
  const bool is_of_this_host = host == "localhost" || host == "::1" || host.substr(0, 4) == "127.";
  bool says_where = true;
  for (const addrinfo* at = &addresses; at != nullptr; at = at->ai_next)
    says_where = says_where && (is_of_this_host || !tcp_detail::is_loopback(*at));
  for (int port = first_port; port < first_port + ports && port <= 65535; ++port) {
    bool is_address_here = is_of_this_host;
    if (says_where)
      for (const addrinfo* at = &addresses; at != nullptr; at = at->ai_next) {
        if (listen_at(at->ai_addr, at->ai_addrlen, port)) return true;
        is_address_here |= errno == EADDRINUSE;
      }
    if (!is_address_here && listen_anywhere(port)) return true;
  }
  return false;
}

/// Sets errno where it is false.
inline bool TcpHub::listen_at(const sockaddr* address, socklen_t size, int port) {
  sockaddr_storage at{};
  std::memcpy(&at, address, std::min<std::size_t>(sizeof at, size));
  tcp_detail::set_port(at, port);
  Socket socket(::socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return false;
  const int one = 1, zero = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (at.ss_family == AF_INET6) ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&at), size) != 0) return false;
  if (::listen(socket.fd(), 1024) != 0) return false;
  fds_.back() = socket.fd();
  std::thread([this, listening = std::move(socket)]() mutable { accept_all(std::move(listening)); }).detach();
  return true;
}
inline bool TcpHub::listen_anywhere(int port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  if (listen_at(reinterpret_cast<const sockaddr*>(&six), sizeof six, port)) return true;
  if (errno == EADDRINUSE) return false;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  return listen_at(reinterpret_cast<const sockaddr*>(&four), sizeof four, port);
}

inline void TcpHub::accept_all(Socket listening) {
  for (;;) {
    Socket socket(::accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    try {
      std::thread([this, own = std::move(socket)] {
        std::optional<int> rank;
        try {
          rank = let_join(own);
        } catch (const std::exception&) {  // no memory; a rank tries again
        }
        if (!rank) return;
        try {
          serve(own, *rank);
        } catch (const std::exception& error) {  // no memory for a message
          const std::lock_guard lock(mutex_);
          fds_[as_index(*rank)] = -1;
          ranks_[as_index(*rank)].has_ended = true;
          fail(DistError::Kind::engine, std::string("rank 0, where all meet: ") + error.what());
        }
      }).detach();
    } catch (const std::exception&) {  // no thread is left: the connection is closed, and a rank tries again
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

/// Anybody can connect: what has not joined costs a little memory and time, and ends nothing.
inline std::optional<int> TcpHub::let_join(const Socket& socket) {
  using tcp_detail::MessageKind;
  socket.set_up(tcp_detail::longest_step);
  tcp_detail::Header header;
  Texts message;
  const int size = static_cast<int>(ranks_.size());
  if (!socket.receive(header, message, 1, 1024) || header.kind != MessageKind::hello || header.rank >= ranks_.size() ||
      message != Texts{tcp_detail::program_text(size)})
    return std::nullopt;
  const std::size_t place = header.rank;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ranks_[place].is_taken, true)) return std::nullopt;
  }
  const bool has_joined = socket.send(MessageKind::welcome, 0, {}) && socket.receive(header, message, 0) &&
                          header.kind == MessageKind::joined;
  const std::lock_guard lock(mutex_);
  ranks_[place].is_taken = ranks_[place].is_here = has_joined;  // a rank that has given up comes again
  if (!has_joined) return std::nullopt;
  if (are_all_here()) all_here_since_ = tcp_detail::Clock::now();
  socket.set_up(std::chrono::milliseconds(0));  // it may compute for long
  fds_[place] = socket.fd();
  tell(place);
  changed_.notify_all();
  return static_cast<int>(place);
}

inline void TcpHub::serve(const Socket& socket, int rank) {
  using tcp_detail::MessageKind;
  tcp_detail::Header header;
  Texts message;
  while (socket.receive(header, message)) {
    if (header.kind == MessageKind::leave) return end_rank(rank, "has ended", false);
    if (header.kind == MessageKind::fail && message.size() == 1)
      return end_rank(rank, "has failed: " + message[0], true);
    if (header.kind != MessageKind::call || message.size() != 6 || message[5].size() != sizeof(std::int64_t) ||
        !answer(socket, rank, message))
      break;
  }
  end_rank(rank, "has failed: its process has ended", true);
}

/// Without waiting: others need the lock.
inline void TcpHub::tell(std::size_t place) {
  Rank& rank = ranks_[place];
  if (!failure_ || !rank.is_here || rank.has_ended || rank.is_answered || std::exchange(rank.was_told, true)) return;
  const std::string what = failure_->what.substr(0, 8192);
  const tcp_detail::Header header{
      .kind = tcp_detail::MessageKind::failure, .rank = static_cast<std::uint32_t>(failure_->kind), .count = 1};
  const std::uint64_t size = what.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += what;
  static_cast<void>(::send(fds_[place].load(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

/// A rank that has left is missed only where somebody waits for it.
inline void TcpHub::end_rank(int rank, const std::string& why, bool is_failure) {
  const std::lock_guard lock(mutex_);
  fds_[as_index(rank)] = -1;  // its thread closes it after this
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

/// message: key of the round, numbers of its members, what is asked for, the same with its line, bytes, milliseconds
/// that the rank waits.
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

/// Until the round is complete, or something has failed. Ranks start at different times: the time that one waits counts
/// from where all are here, or the longest start is over.
inline void TcpHub::wait_for(std::unique_lock<std::mutex>& lock, const Round& round, const Texts& message) {
  std::int64_t milliseconds = 0;
  std::memcpy(&milliseconds, message[5].data(), sizeof milliseconds);
  const std::chrono::milliseconds timeout(milliseconds);
  const auto begin = tcp_detail::Clock::now();
  const auto is_over = [&] { return failure_.has_value() || round.is_complete(); };
  auto until = std::max(begin + timeout, start_ + tcp_detail::longest_start);
  if (!are_all_here() && changed_.wait_until(lock, until, [&] { return is_over() || are_all_here(); }) && is_over())
    return;
  if (are_all_here()) until = std::max(begin, all_here_since_) + timeout;
  if (changed_.wait_until(lock, until, is_over)) return;
  const auto waited = are_all_here() ? timeout : std::chrono::duration_cast<std::chrono::milliseconds>(until - begin);
  fail(DistError::Kind::timeout,
       missing_text(round) + " did not come to " + message[3] + " within " + seconds_text(waited));
}

/// From where it lies: each rank gets what all have, and a copy for each would be the square of it.
inline bool TcpHub::send_all(const Socket& socket, const Round& round, bool is_everybody_here) const {
  if (!socket.send_header(tcp_detail::MessageKind::all, is_everybody_here ? 1 : 0, 3 * round.messages.size()))
    return false;
  return std::all_of(round.messages.begin(), round.messages.end(),
                     [&](const Texts& each) { return socket.send_texts(each); });
}

inline bool TcpHub::answer(const Socket& socket, int number, const Texts& message) {
  std::unique_lock lock(mutex_);
  Rank& rank = ranks_[as_index(number)];
  if (rank.was_told) return true;  // that was the answer
  rank.is_answered = true;
  const std::shared_ptr<Round> round = enter_round(number, message);
  if (round == nullptr) return false;
  wait_for(lock, *round, message);
  rank.waits_in = nullptr;
  bool is_sent = true;
  if (round->is_complete()) {
    const bool is_everybody_here = are_all_here();
    lock.unlock();
    is_sent = send_all(socket, *round, is_everybody_here);
    lock.lock();
  }
  rank.is_answered = false;
  tell(as_index(number));
  return is_sent;
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
