// Work of a library that graphs of a device have inside, as a communicator's collectives: where it comes from, who
// keeps it, and how it is dropped before what it needs goes away. Knows no devices.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

class RecordedSource;

/// Whoever has graphs with recorded work inside.
class RecordingKeeper {
 public:
  virtual ~RecordingKeeper() = default;
  /// Drops those with work of this source. Called by the thread that ends the source.
  virtual void forget(const RecordedSource& source) noexcept = 0;
};

/// What recorded work needs for as long as it is kept.
class RecordedSource : public std::enable_shared_from_this<RecordedSource> {
 public:
  RecordedSource() = default;
  virtual ~RecordedSource() = default;
  RecordedSource(const RecordedSource&) = delete;
  RecordedSource& operator=(const RecordedSource&) = delete;

  /// Until leave(), what was recorded can be launched. False, and nothing to leave: it is broken, as after a failure.
  virtual bool enter() noexcept = 0;
  virtual void leave() noexcept = 0;
  /// The keeper is told of the end. False: it has come.
  bool add(const std::shared_ptr<RecordingKeeper>& keeper) {
    std::scoped_lock lock(mutex_);
    if (has_ended_) return false;
    std::erase_if(keepers_, [&](const auto& known) { return known.expired() || known.lock() == keeper; });
    keepers_.push_back(keeper);
    return true;
  }

 protected:
  /// Nothing that was recorded is left when it returns.
  void end() noexcept {
    std::vector<std::weak_ptr<RecordingKeeper>> keepers;
    {
      std::scoped_lock lock(mutex_);
      has_ended_ = true;
      keepers = std::move(keepers_);
    }
    for (const auto& keeper : keepers)
      if (const std::shared_ptr<RecordingKeeper> there = keeper.lock()) there->forget(*this);
  }

 private:
  ForkSafeMutex mutex_;
  std::vector<std::weak_ptr<RecordingKeeper>> keepers_;
  bool has_ended_ = false;
};

SINTER_NAMESPACE_END
