// The engine of ranks that are threads of one process: they read each other's memory. Also what runs and watches such
// threads for engines that have another way for the data. Must not know what is communicated.
#pragma once

#include <sinter/dist/engine.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

/// What the ranks of one run() share: who waits where, and the first failure, which ends all waiting.
class ThreadWorld {
 public:
  ThreadWorld(int size, std::chrono::milliseconds timeout) : timeout_(timeout), ranks_(as_count(size)) {}

  int size() const { return static_cast<int>(ranks_.size()); }

  /// A group of ranks that meet.
  struct Meeting {
    std::vector<const Request*> requests;  // by number in the group
    std::vector<std::uint8_t> has_arrived;
    int arrived = 0;
    std::uint64_t round = 0;
    std::atomic<bool> is_broken{false};  // a rank has failed inside a collective: nobody's result is whole
    std::shared_ptr<void> shared;        // what an engine keeps for the group
  };
  std::shared_ptr<Meeting> meeting(const std::vector<int>& ranks);

  /// Waits until all of `ranks` have come with their requests, which stay until they leave the collective. Throws
  /// DistError on all of them unless they ask for the same.
  void arrive(Meeting& meeting, const std::vector<int>& ranks, int index, const Request& request);
  /// Waits for the others of a group that is inside a collective. They come: nothing of the user runs there.
  void meet_inside(Meeting& meeting);

  /// A rank's function has returned, or thrown `error`.
  void end_rank(int rank, const std::string* error);
  /// Everybody who waits, and who comes later, gets this.
  void fail(DistError::Kind kind, std::string what, std::string fix = {});
  bool has_failed();
  /// Throws what fail() was given.
  [[noreturn]] void throw_known_failure(const Request& request);
  /// Runs `call` in another thread once a rank has failed: it ends what ranks wait for outside of arrive(). It must not
  /// refer to this object.
  void on_failure(std::function<void()> call);

 private:
  struct Failure {
    DistError::Kind kind;
    std::string what, fix;
  };
  struct Rank {
    enum class State : std::uint8_t { running, waiting, ended };
    State state = State::running;
    const Request* request = nullptr;  // that it waits in
    std::string last{};                // the request before
  };
  static std::size_t as_count(int size) { return static_cast<std::size_t>(size); }
  void fail_locked(DistError::Kind kind, std::string what, std::string fix);
  void find_deadlock();
  void compare(const Meeting& meeting, const std::vector<int>& ranks);
  void finish_round(Meeting& meeting);
  [[noreturn]] void throw_failure(const Request& request) const;
  std::string missing_text(const Meeting& meeting, const std::vector<int>& ranks) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::milliseconds timeout_;
  std::vector<Rank> ranks_;
  std::map<std::vector<int>, std::shared_ptr<Meeting>> meetings_;
  std::optional<Failure> failure_;
  std::vector<std::function<void()>> on_failure_;
};

std::unique_ptr<Engine> make_thread_engine(std::shared_ptr<ThreadWorld> world, int rank);

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
