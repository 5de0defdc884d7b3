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

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
