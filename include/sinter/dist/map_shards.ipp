// Workers: threads that take the next input, and forked processes that are given one at a time.
#pragma once

#include <sinter/dist/map_shards.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/rank_state.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/tensor/storage.hpp>

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <iostream>
#include <mutex>
#include <thread>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

using WorkClock = std::chrono::steady_clock;
inline double seconds_since(WorkClock::time_point start) {
  return std::chrono::duration<double>(WorkClock::now() - start).count();
}

SINTER_DECL int worker_count(const WorkerOptions& options, Location where) {
  if (options.workers < 0 || options.attempts < 1)
    throw UserError("map_shards",
                    std::to_string(options.workers) + " workers, " + std::to_string(options.attempts) + " attempts",
                    where, "0 workers are one for each processor; at least one attempt");
  if (Trace::current() != nullptr)
    throw TraceError("map_shards", "it is called while a function is traced", where,
                     "call it outside, with a compiled function for each input");
  if (options.workers > 0) return options.workers;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

SINTER_DECL std::vector<std::pair<Dim, Dim>> divided(Dim extent, std::int64_t parts, Location where) {
  if (parts < 1)
    throw UserError("map_shards", std::to_string(parts) + " parts", where, "at least 1; 0 is one for each worker");
  const std::int64_t size = extent.value(), count = std::max<std::int64_t>(1, std::min(parts, size));
  std::vector<std::pair<Dim, Dim>> bounds;
  for (std::int64_t i = 0; i < count; ++i) bounds.emplace_back(size * i / count, size * (i + 1) / count);
  return bounds;
}

SINTER_DECL Tensor part_of(const Tensor& x, int axis, Dim begin, Dim end, Location where) {
  return sinter::narrow(In(x, where), axis, begin, end - begin);
}

// ---- bytes ----------------------------------------------------------------------------------------------------------

SINTER_DECL void put_bytes(std::string& bytes, const void* data, std::size_t size) {
  bytes.append(static_cast<const char*>(data), size);
}
SINTER_DECL void get_bytes(const char*& at, void* data, std::size_t size) {
  std::memcpy(data, at, size);
  at += size;
}

SINTER_DECL void put_tensor(std::string& bytes, const Tensor& value, Location where) {
  const Ref<TensorImpl> dense = dense_value(In(value.to(Device::cpu()), where), "map_shards");
  const Shape& shape = dense->type.shape;
  Packed<DType>::put(bytes, dense->type.dtype, where);
  Packed<std::int32_t>::put(bytes, shape.rank(), where);
  for (const Dim extent : shape) Packed<std::int64_t>::put(bytes, extent.value(), where);
  const std::size_t size = as_index(shape.numel().value() * size_of(dense->type.dtype));
  if (size > 0) put_bytes(bytes, dense->data(), size);
}
SINTER_DECL Tensor get_tensor(const char*& at) {
  Type type{Packed<DType>::get(at), Device::cpu(), {}};
  for (std::int32_t rank = Packed<std::int32_t>::get(at); rank > 0; --rank)
    type.shape.push_back(Packed<std::int64_t>::get(at));
  const std::size_t size = as_index(type.shape.numel().value() * size_of(type.dtype));
  Ref<Storage> storage = Storage::allocate(size);
  if (size > 0) get_bytes(at, storage->data(), size);
  return Tensor(TensorImpl::make_ready(type, std::move(storage)));
}

// ---- how long inputs take -------------------------------------------------------------------------------------------

/// Finds inputs that take much longer than the others. Each is logged once.
class StragglerLog {
 public:
  StragglerLog(std::size_t count, double factor) : factor_(factor), is_told_(count, false) {}
  void note_done(double seconds) { done_.insert(std::upper_bound(done_.begin(), done_.end(), seconds), seconds); }
  void look_at(std::size_t input, double seconds) {
    if (is_told_[input] || done_.size() < 3) return;
    const double median = done_[done_.size() / 2];
    if (seconds < 0.05 || seconds < factor_ * median) return;
    is_told_[input] = true;
    note("dist", "map_shards: input " + std::to_string(input) + " has taken " + std::to_string(seconds) +
                     " s, the median is " + std::to_string(median) + " s");
  }

 private:
  double factor_;
  std::vector<bool> is_told_;
  std::vector<double> done_;  // ascending
};

// ---- threads --------------------------------------------------------------------------------------------------------

struct ThreadWork {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t next = 0, running = 0;
  std::vector<std::optional<std::pair<std::size_t, WorkClock::time_point>>> current;  // by worker
  std::exception_ptr error;
  std::size_t error_input = 0;
  StragglerLog log;
};

inline void serve_thread(ThreadWork& shared, std::size_t worker, std::size_t count,
                         const std::function<void(std::size_t)>& work) {
  RankState alone(nullptr, Mesh());
  alone.is_worker = true;
  const RankScope scope(alone);
  std::unique_lock lock(shared.mutex);
  while (shared.next < count && shared.error == nullptr) {
    const std::size_t input = shared.next++;
    const WorkClock::time_point start = WorkClock::now();
    shared.current[worker] = {input, start};
    lock.unlock();
    std::exception_ptr error;
    try {
      work(input);
    } catch (...) { error = std::current_exception(); }
    lock.lock();
    shared.log.look_at(input, seconds_since(start));
    shared.log.note_done(seconds_since(start));
    shared.current[worker].reset();
    if (error != nullptr && (shared.error == nullptr || input < shared.error_input)) {
      shared.error = error;
      shared.error_input = input;
    }
  }
  --shared.running;
  shared.changed.notify_all();
}

SINTER_DECL void run_thread_workers(std::size_t count, const WorkerOptions& options,
                                    const std::function<void(std::size_t)>& work, Location where) {
  const std::size_t workers = std::min(as_index(worker_count(options, where)), count);
  ThreadWork shared{.mutex = {},
                    .changed = {},
                    .running = workers,
                    .current = std::vector<std::optional<std::pair<std::size_t, WorkClock::time_point>>>(workers),
                    .error = nullptr,
                    .log = StragglerLog(count, options.straggler)};
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    try {
      threads.emplace_back([&shared, worker, count, &work] { serve_thread(shared, worker, count, work); });
    } catch (const std::exception&) {  // no thread left: those that there are, or this one, do the work
      std::scoped_lock lock(shared.mutex);
      shared.running -= workers - worker - (worker == 0);
      break;
    }
  }
  if (threads.empty() && count > 0) serve_thread(shared, 0, count, work);
  {
    std::unique_lock lock(shared.mutex);
    while (!shared.changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return shared.running == 0; }))
      for (const auto& now : shared.current)
        if (now) shared.log.look_at(now->first, seconds_since(now->second));
  }
  for (std::thread& thread : threads) thread.join();
  if (shared.error != nullptr) std::rethrow_exception(shared.error);
}

// ---- processes ------------------------------------------------------------------------------------------------------

/// Before the bytes of a result, or of the text of an exception.
struct WorkerMessage {
  std::uint64_t size = 0;
  std::uint64_t has_failed = 0;
};

inline bool send_all(int socket, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

inline void flush_output() {
  std::fflush(stdout);
  std::cout.flush();
  std::clog.flush();
}

/// The parents' ends of the sockets of all workers. A child closes those that it has inherited: a worker whose socket
/// others hold open does not learn that its parent is gone. Whoever has the mutex starts a worker.
struct WorkerSockets {
  std::mutex mutex;
  std::vector<int> open;
  static WorkerSockets& instance() { return process_object<WorkerSockets>(); }

  void close(int socket) {
    const std::scoped_lock lock(mutex);
    std::erase(open, socket);
    ::close(socket);
  }
};

/// What a worker is: it computes what it is told to, until nobody is there to tell it.
[[noreturn]] inline void serve_process(int socket, const std::function<std::string(std::size_t)>& work) {
  RankState alone(nullptr, Mesh());
  alone.is_worker = true;
  const RankScope scope(alone);
  for (;;) {
    std::uint64_t input = 0;
    const ssize_t got = ::recv(socket, &input, sizeof input, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof input) _exit(0);
    WorkerMessage message;
    std::string bytes;
    try {
      bytes = work(static_cast<std::size_t>(input));
    } catch (const std::exception& error) {
      bytes = error.what();
      message.has_failed = 1;
    } catch (...) {
      bytes = "an exception that is no std::exception";
      message.has_failed = 1;
    }
    flush_output();  // the process ends without
    message.size = bytes.size();
    if (!send_all(socket, &message, sizeof message) || !send_all(socket, bytes.data(), bytes.size())) _exit(0);
  }
}

/// A forked process, and what has come of its answer so far.
struct WorkerProcess {
  pid_t pid = -1;
  int socket = -1;
  bool has_input = false, is_too_slow = false;
  std::size_t input = 0;
  WorkClock::time_point start{};
  std::string received{};
};

class ProcessWork {
 public:
  ProcessWork(std::size_t count, const WorkerOptions& options, const std::function<std::string(std::size_t)>& work,
              const std::function<void(std::size_t, std::string)>& take, Location where)
      : options_(options),
        work_(work),
        take_(take),
        where_(where),
        attempts_(count, 0),
        log_(count, options.straggler) {
    for (std::size_t i = 0; i < count; ++i) waiting_.push_back(i);
    left_ = count;
    workers_.resize(std::min(as_index(worker_count(options, where)), count));
  }
  ProcessWork(const ProcessWork&) = delete;
  ProcessWork& operator=(const ProcessWork&) = delete;
  ~ProcessWork() {
    for (WorkerProcess& worker : workers_) {
      if (worker.pid < 0) continue;
      WorkerSockets::instance().close(worker.socket);
      ::kill(worker.pid, SIGKILL);
      wait_for(worker.pid);
    }
  }

  void run() {
    while (left_ > 0) {
      for (WorkerProcess& worker : workers_)
        if (!worker.has_input && !worker.is_too_slow && !waiting_.empty()) give(worker);
      look();
    }
  }

 private:
  static int wait_for(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
  }

  void start(WorkerProcess& worker) {
    flush_output();  // or the child has it, too
    WorkerSockets& sockets = WorkerSockets::instance();
    std::unique_lock lock(sockets.mutex);
    sockets.open.reserve(sockets.open.size() + 1);
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw DistError(DistError::Kind::engine, "map_shards", "no socket for a worker is to be had", where_);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      for (const int socket : sockets.open) ::close(socket);
      sockets.open.clear();
      lock.unlock();
      serve_process(ends[1], work_);
    }
    ::close(ends[1]);
    if (pid < 0) {
      ::close(ends[0]);
      throw DistError(DistError::Kind::engine, "map_shards", "the system starts no process", where_);
    }
    sockets.open.push_back(ends[0]);
    worker = WorkerProcess{.pid = pid, .socket = ends[0]};
  }

  void give(WorkerProcess& worker) {
    if (worker.pid < 0) start(worker);
    worker.input = waiting_.front();
    waiting_.pop_front();
    worker.has_input = true;
    worker.start = WorkClock::now();
    ++attempts_[worker.input];
    const std::uint64_t number = worker.input;
    send_all(worker.socket, &number, sizeof number);  // where it has died, look() finds that
  }

  /// Waits for some answer, for a short time.
  void look() {
    std::vector<pollfd> sockets;
    std::vector<WorkerProcess*> owners;
    for (WorkerProcess& worker : workers_) {
      if (worker.pid < 0) continue;
      sockets.push_back({worker.socket, POLLIN, 0});
      owners.push_back(&worker);
    }
    ::poll(sockets.data(), static_cast<nfds_t>(sockets.size()), 50);
    for (std::size_t i = 0; i < sockets.size(); ++i)
      if (sockets[i].revents != 0) receive(*owners[i]);
      else if (int status = 0; ::waitpid(owners[i]->pid, &status, WNOHANG) == owners[i]->pid)
        bury(*owners[i], status);  // its socket is not closed where a process that another thread forked has it
    for (WorkerProcess& worker : workers_) {
      if (worker.pid < 0 || !worker.has_input) continue;
      const double seconds = seconds_since(worker.start);
      log_.look_at(worker.input, seconds);
      if (options_.timeout.count() > 0 && !worker.is_too_slow &&
          seconds > static_cast<double>(options_.timeout.count()) / 1000) {
        worker.is_too_slow = true;
        ::kill(worker.pid, SIGKILL);  // then its socket is closed
      }
    }
  }

  void receive(WorkerProcess& worker) {
    std::array<char, 65536> part;
    const ssize_t got = ::recv(worker.socket, part.data(), part.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return bury(worker, wait_for(worker.pid));
    worker.received.append(part.data(), static_cast<std::size_t>(got));
    WorkerMessage message;
    if (worker.received.size() < sizeof message) return;
    std::memcpy(&message, worker.received.data(), sizeof message);
    if (worker.received.size() < sizeof message + message.size) return;
    std::string bytes = worker.received.substr(sizeof message);
    worker.received.clear();
    worker.has_input = false;
    log_.note_done(seconds_since(worker.start));
    if (message.has_failed != 0)
      throw DistError(DistError::Kind::failed, "map_shards",
                      "input " + std::to_string(worker.input) + " failed in a worker: " + bytes, where_);
    take_(worker.input, std::move(bytes));
    --left_;
  }

  /// A worker has died. What it had is given to another.
  void bury(WorkerProcess& worker, int status) {
    WorkerSockets::instance().close(worker.socket);
    const WorkerProcess dead = std::exchange(worker, WorkerProcess());
    if (!dead.has_input) return;
    const std::string reason = dead.is_too_slow
                                   ? "it took longer than " + std::to_string(options_.timeout.count()) + " ms"
                               : WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                                     : "exit status " + std::to_string(WEXITSTATUS(status));
    note("dist", "map_shards: the worker of input " + std::to_string(dead.input) + " has died (" + reason + ")");
    if (attempts_[dead.input] >= options_.attempts)
      throw DistError(DistError::Kind::failed, "map_shards",
                      "input " + std::to_string(dead.input) + " has cost " + std::to_string(attempts_[dead.input]) +
                          " workers, the last by: " + reason,
                      where_, "call the function with it in this process to see what is wrong");
    waiting_.push_front(dead.input);
  }

  WorkerOptions options_;
  const std::function<std::string(std::size_t)>& work_;
  const std::function<void(std::size_t, std::string)>& take_;
  Location where_;
  std::vector<WorkerProcess> workers_;
  std::deque<std::size_t> waiting_;
  std::vector<int> attempts_;
  std::size_t left_ = 0;
  StragglerLog log_;
};

SINTER_DECL void run_process_workers(std::size_t count, const WorkerOptions& options,
                                     const std::function<std::string(std::size_t)>& work,
                                     const std::function<void(std::size_t, std::string)>& take, Location where) {
  ProcessWork(count, options, work, take, where).run();
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
