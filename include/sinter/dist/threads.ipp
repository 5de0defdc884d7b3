// Waiting, the search for who is missing, and collectives by reading the memory of the others.
#pragma once

#include <sinter/dist/threads.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

inline constexpr std::string_view same_calls = "every rank of a group makes the same collectives in the same order";

SINTER_DECL std::shared_ptr<ThreadWorld::Meeting> ThreadWorld::meeting(const std::vector<int>& ranks) {
  std::scoped_lock lock(mutex_);
  std::shared_ptr<Meeting>& place = meetings_[ranks];
  if (place == nullptr) {
    place = std::make_shared<Meeting>();
    place->requests.resize(ranks.size());
    place->has_arrived.resize(ranks.size());
  }
  return place;
}

SINTER_DECL void ThreadWorld::throw_failure(const Request& request) const {
  throw DistError(failure_->kind, name(request.what.kind), failure_->what, request.where, failure_->fix);
}

SINTER_DECL void ThreadWorld::fail_locked(DistError::Kind kind, std::string what, std::string fix) {
  if (failure_) return;
  failure_ = Failure{kind, std::move(what), std::move(fix)};
  changed_.notify_all();
  if (on_failure_.empty()) return;
  try {  // by threads of their own: what engines do then may wait for the ranks, which want the lock or another's end
    for (auto& call : std::exchange(on_failure_, {})) std::thread(std::move(call)).detach();
  } catch (const std::system_error&) {}  // no thread is left: ranks that wait in a device go on waiting
}
SINTER_DECL void ThreadWorld::fail(DistError::Kind kind, std::string what, std::string fix) {
  std::scoped_lock lock(mutex_);
  fail_locked(kind, std::move(what), std::move(fix));
}
SINTER_DECL bool ThreadWorld::has_failed() {
  std::scoped_lock lock(mutex_);
  return failure_.has_value();
}
SINTER_DECL void ThreadWorld::throw_known_failure(const Request& request) {
  std::scoped_lock lock(mutex_);
  throw_failure(request);
}
SINTER_DECL void ThreadWorld::on_failure(std::function<void()> call) {
  std::unique_lock lock(mutex_);
  if (!failure_) return on_failure_.push_back(std::move(call));
  lock.unlock();
  call();
}

SINTER_DECL void ThreadWorld::end_rank(int rank, const std::string* error) {
  std::scoped_lock lock(mutex_);
  Rank& ended = ranks_[as_index(rank)];
  ended.state = Rank::State::ended;
  if (error != nullptr)
    fail_locked(DistError::Kind::failed, "rank " + std::to_string(rank) + " has failed: " + *error, {});
  else find_deadlock();
}

/// Where nobody runs any more and somebody waits, that one waits for ever.
SINTER_DECL void ThreadWorld::find_deadlock() {
  const Rank *first = nullptr, *other = nullptr;
  for (const Rank& rank : ranks_) {
    if (rank.state == Rank::State::running) return;
    if (rank.state == Rank::State::waiting && first == nullptr) first = &rank;
  }
  if (first == nullptr) return;
  const auto number = [&](const Rank* rank) { return "rank " + std::to_string(rank - ranks_.data()); };
  for (const Rank& rank : ranks_)
    if (other == nullptr && (rank.state == Rank::State::ended || !agree(*first->request, *rank.request) ||
                             rank.request->over != first->request->over))
      other = &rank;
  if (other == nullptr) other = first == &ranks_.front() && ranks_.size() > 1 ? &ranks_[1] : &ranks_.front();
  const bool has_ended = other->state == Rank::State::ended;
  const std::string does = has_ended
                               ? number(other) + " has returned" + (other->last.empty() ? "" : " after ") + other->last
                               : number(other) + " is in " + other->request->text_with_line();
  fail_locked(
      has_ended ? DistError::Kind::failed : DistError::Kind::mismatch,
      "the calls of the ranks differ: " + number(first) + " is in " + first->request->text_with_line() + ", " + does,
      std::string(same_calls));
}

SINTER_DECL std::string ThreadWorld::missing_text(const Meeting& meeting, const std::vector<int>& ranks) const {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (meeting.has_arrived[i] != 0) continue;
    const Rank& rank = ranks_[as_index(ranks[i])];
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(ranks[i]);
    if (rank.state == Rank::State::waiting) text += " (in " + rank.request->text_with_line() + ")";
    else if (!rank.last.empty()) text += " (last in " + rank.last + ")";
  }
  return text;
}

/// Compares what has arrived; the first difference ends the world.
SINTER_DECL void ThreadWorld::compare(const Meeting& meeting, const std::vector<int>& ranks) {
  const Request& first = *meeting.requests[0];
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const Request& other = *meeting.requests[i];
    if (agree(first, other)) continue;
    return fail_locked(DistError::Kind::mismatch,
                       "the calls of the ranks differ: rank " + std::to_string(ranks[0]) + " is in " +
                           first.text_with_line() + ", rank " + std::to_string(ranks[i]) + " is in " +
                           other.text_with_line(),
                       std::string(same_calls));
  }
}

SINTER_DECL void ThreadWorld::arrive(Meeting& meeting, const std::vector<int>& ranks, int index,
                                     const Request& request) {
  std::string text = request.text_with_line();  // before the others count on this rank: memory may be short
  std::unique_lock lock(mutex_);
  if (failure_) throw_failure(request);
  Rank& self = ranks_[as_index(ranks[as_index(index)])];
  meeting.requests[as_index(index)] = &request;
  meeting.has_arrived[as_index(index)] = 1;
  const std::uint64_t round = meeting.round;
  if (++meeting.arrived == static_cast<int>(ranks.size())) {
    compare(meeting, ranks);
    if (failure_) throw_failure(request);
    finish_round(meeting);
    for (const int rank : ranks) ranks_[as_index(rank)].state = Rank::State::running;
  } else {
    self.state = Rank::State::waiting;
    self.request = &request;
    find_deadlock();
    const auto is_over = [&] { return failure_.has_value() || meeting.round != round; };
    if (!changed_.wait_for(lock, timeout_, is_over))
      fail_locked(DistError::Kind::timeout,
                  missing_text(meeting, ranks) + " did not come to " + request.text_with_line() + " within " +
                      seconds_text(timeout_),
                  "a longer wait is RunOptions::timeout, or SINTER_DIST_TIMEOUT");
    self.state = Rank::State::running;
    if (meeting.round == round) throw_failure(request);
  }
  self.last = std::move(text);
}

SINTER_DECL void ThreadWorld::finish_round(Meeting& meeting) {
  meeting.arrived = 0;
  std::fill(meeting.has_arrived.begin(), meeting.has_arrived.end(), std::uint8_t{0});
  ++meeting.round;
  changed_.notify_all();
}

SINTER_DECL void ThreadWorld::meet_inside(Meeting& meeting) {
  std::unique_lock lock(mutex_);
  const std::uint64_t round = meeting.round;
  if (++meeting.arrived == static_cast<int>(meeting.requests.size())) finish_round(meeting);
  else changed_.wait(lock, [&] { return meeting.round != round; });
}

// ---- the engine -----------------------------------------------------------------------------------------------------

/// Positions [begin, end) of `count` that are rank `index`'s share of the work.
struct Share {
  Share(std::int64_t count, int index, int size) : begin(count * index / size), end(count * (index + 1) / size) {}
  std::int64_t begin, end;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadWorld> world, std::vector<int> ranks, int index)
      : Communicator(std::move(ranks), index), world_(std::move(world)), meeting_(world_->meeting(this->ranks())) {
    sources_.resize(this->ranks().size());
  }

  void run(const Request& request) override {
    world_->arrive(*meeting_, ranks(), index(), request);
    if (request.in == nullptr) return;
    std::exception_ptr error;
    has_met_ = false;
    try {
      work(request);
    } catch (const std::exception& problem) {
      error = std::current_exception();
      break_off(request, problem.what());
    }
    world_->meet_inside(*meeting_);  // nobody frees what others still read
    if (error != nullptr) std::rethrow_exception(error);
    if (meeting_->is_broken) world_->throw_known_failure(request);
  }

 private:
  const Request& of(int rank) const { return *meeting_->requests[as_index(rank)]; }

  /// This rank cannot do its part: the others do not wait for it, and learn of it.
  void break_off(const Request& request, const char* problem) noexcept {
    try {
      world_->fail(DistError::Kind::failed,
                   "rank " + std::to_string(ranks()[as_index(index())]) + " has failed: " + problem);
    } catch (...) {  // no memory for the text
      world_->fail(DistError::Kind::failed, {});
    }
    meeting_->is_broken = true;
    if (request.what.kind == CollectiveKind::all_reduce && !has_met_) world_->meet_inside(*meeting_);
  }

  void work(const Request& request) {
    const Collective& what = request.what;
    const HostView &in = *request.in, &out = *request.out;
    const std::int64_t element = size_of(in.dtype);
    switch (what.kind) {
      case CollectiveKind::all_reduce: return all_reduce(request);
      case CollectiveKind::reduce:
        if (index() == what.root) return reduce(request);
        if (out.bytes() > 0) std::memset(out.data, 0, out.bytes());
        return;
      case CollectiveKind::reduce_scatter: return reduce_scatter(request);
      case CollectiveKind::all_gather:
        for (int r = 0; r < size(); ++r)
          copy_region(in.shape, {of(r).in->data, &in.shape, what.axis, 0},
                      {out.data, &out.shape, what.axis, r * in.shape[what.axis].value()}, element);
        return;
      case CollectiveKind::all_to_all: return all_to_all(request);
      case CollectiveKind::broadcast:
        if (out.bytes() > 0) std::memcpy(out.data, of(what.root).in->data, out.bytes());
        return;
      case CollectiveKind::permute: return permute(request);
      default: return;
    }
  }

  /// Each rank adds up its share, and takes the shares of the others.
  void all_reduce(const Request& request) {
    const HostView& out = *request.out;
    const std::int64_t element = size_of(out.dtype);
    const Share own(out.numel, index(), size());
    for (int r = 0; r < size(); ++r) sources_[as_index(r)] = of(r).in->as<const char>() + own.begin * element;
    if (own.end > own.begin)
      reduce_in_order(request.what.reduce, out.dtype, sources_, out.as<char>() + own.begin * element,
                      own.end - own.begin);
    world_->meet_inside(*meeting_);
    has_met_ = true;
    for (int r = 0; r < size(); ++r) {
      const Share share(out.numel, r, size());
      if (r == index() || share.begin == share.end) continue;
      std::memcpy(out.as<char>() + share.begin * element, of(r).out->as<const char>() + share.begin * element,
                  as_index((share.end - share.begin) * element));
    }
  }
  void reduce(const Request& request) {
    for (int r = 0; r < size(); ++r) sources_[as_index(r)] = of(r).in->data;
    if (request.out->numel > 0)
      reduce_in_order(request.what.reduce, request.out->dtype, sources_, request.out->data, request.out->numel);
  }
  void reduce_scatter(const Request& request) {
    const HostView &in = *request.in, &out = *request.out;
    const int axis = request.what.axis;
    const std::int64_t offset = index() * out.shape[axis].value();
    std::int64_t rows = 1, row = size_of(out.dtype);
    for (int a = 0; a < axis; ++a) rows *= out.shape[a].value();
    for (int a = axis + 1; a < out.shape.rank(); ++a) row *= out.shape[a].value();
    const std::int64_t piece = row * out.shape[axis].value(), stride = row * in.shape[axis].value();
    if (out.numel == 0) return;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (int r = 0; r < size(); ++r) sources_[as_index(r)] = of(r).in->as<const char>() + i * stride + offset * row;
      reduce_in_order(request.what.reduce, out.dtype, sources_, out.as<char>() + i * piece, piece / size_of(out.dtype));
    }
  }
  void all_to_all(const Request& request) {
    const HostView &in = *request.in, &out = *request.out;
    const Collective& what = request.what;
    Shape piece = in.shape;
    piece.set(what.split_axis, piece[what.split_axis].value() / size());
    for (int r = 0; r < size(); ++r)
      copy_region(piece, {of(r).in->data, &in.shape, what.split_axis, index() * piece[what.split_axis].value()},
                  {out.data, &out.shape, what.axis, r * piece[what.axis].value()}, size_of(in.dtype));
  }
  void permute(const Request& request) {
    const HostView& out = *request.out;
    if (out.bytes() == 0) return;
    for (const auto& [from, to] : request.what.pairs)
      if (to == index()) {
        std::memcpy(out.data, of(from).in->data, out.bytes());
        return;
      }
    std::memset(out.data, 0, out.bytes());
  }

  std::shared_ptr<ThreadWorld> world_;
  std::shared_ptr<ThreadWorld::Meeting> meeting_;
  std::vector<const void*> sources_;  // here, so that no memory is needed once the others count on this rank
  bool has_met_ = false;              // in the middle of all_reduce
};

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(std::shared_ptr<ThreadWorld> world, int rank) : world_(std::move(world)), rank_(rank) {}
  std::string_view name() const override { return "threads"; }
  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }
  std::unique_ptr<Communicator> group(std::vector<int> ranks, Location) override {
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    const int index = static_cast<int>(place - ranks.begin());
    return std::make_unique<ThreadCommunicator>(world_, std::move(ranks), index);
  }

 private:
  std::shared_ptr<ThreadWorld> world_;
  int rank_;
};

SINTER_DECL std::unique_ptr<Engine> make_thread_engine(std::shared_ptr<ThreadWorld> world, int rank) {
  return std::make_unique<ThreadEngine>(std::move(world), rank);
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
