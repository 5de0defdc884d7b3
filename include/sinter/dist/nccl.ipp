// NCCL's functions, declared here by hand (nccl.h of version 2), and collectives made of them. Calls are enqueued on
// the stream of the thread that works on the operands.
#pragma once

#include <sinter/dist/nccl.hpp>

#include <sinter/backend/cuda/cuda.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/mpi.hpp>
#include <sinter/dist/tcp.hpp>
#include <sinter/graph/recorded_work.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

struct NcclId {
  std::array<char, 128> bytes;
};
using NcclComm = void*;
/// ncclInt8 and so on; -1: none. Complex numbers are twice as many real ones.
inline int nccl_dtype(DType dtype) { return row(dtype).nccl; }
inline int nccl_operation(Reduce reduce) {
  switch (reduce) {
    case Reduce::sum: return 0;
    case Reduce::prod: return 1;
    case Reduce::maximum: return 2;
    case Reduce::minimum: return 3;
    case Reduce::mean: return 4;
  }
  return 0;
}

/// The library, opened once.
struct Nccl {
  int (*get_unique_id)(NcclId*) = nullptr;
  int (*comm_init_rank)(NcclComm*, int size, NcclId, int rank) = nullptr;
  int (*comm_destroy)(NcclComm) = nullptr;
  int (*comm_abort)(NcclComm) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int dtype, int operation, NcclComm, void* stream) = nullptr;
  int (*reduce)(const void*, void*, std::size_t, int dtype, int operation, int root, NcclComm, void* stream) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t, int dtype, int root, NcclComm, void* stream) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int dtype, NcclComm, void* stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int dtype, int operation, NcclComm, void* stream) = nullptr;
  int (*send)(const void*, std::size_t, int dtype, int peer, NcclComm, void* stream) = nullptr;
  int (*receive)(void*, std::size_t, int dtype, int peer, NcclComm, void* stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*fill_bytes)(unsigned long long, unsigned char, std::size_t, void* stream) = nullptr;  // cuMemsetD8Async
  std::string problem;                                                                        // empty: it is there

  Nccl() {
    void* library = nullptr;
    for (const char* name : {"libnccl.so.2", "libnccl.so"})
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      problem = error != nullptr ? error : "libnccl.so.2 is not found";
      return;
    }
    find(library, "ncclGetUniqueId", get_unique_id);
    find(library, "ncclCommInitRank", comm_init_rank);
    find(library, "ncclCommDestroy", comm_destroy);
    find(library, "ncclCommAbort", comm_abort);
    find(library, "ncclGetErrorString", error_string);
    find(library, "ncclAllReduce", all_reduce);
    find(library, "ncclReduce", reduce);
    find(library, "ncclBroadcast", broadcast);
    find(library, "ncclAllGather", all_gather);
    find(library, "ncclReduceScatter", reduce_scatter);
    find(library, "ncclSend", send);
    find(library, "ncclRecv", receive);
    find(library, "ncclGroupStart", group_start);
    find(library, "ncclGroupEnd", group_end);
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) problem = "libcuda.so.1 is not found";
    else find(driver, "cuMemsetD8Async", fill_bytes);
  }
  static Nccl& instance() { return process_object<Nccl>(); }

 private:
  template <class F>
  void find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr) problem = std::string("it has no function ") + name;
  }
};

SINTER_DECL int nccl_devices() { return cuda::device_count(); }

SINTER_DECL void require_nccl(int ranks, Location where) {
  if (const int devices = nccl_devices(); devices < ranks)
    throw DistError(DistError::Kind::engine, "run",
                    std::to_string(ranks) + " ranks need a GPU each, and there are " + std::to_string(devices) +
                        (devices == 0 ? " (" + cuda::why_unavailable() + ")" : ""),
                    where, "take fewer ranks, or EngineKind::threads");
  if (const Nccl& nccl = Nccl::instance(); !nccl.problem.empty())
    throw DistError(DistError::Kind::engine, "run", "NCCL cannot be used: " + nccl.problem, where,
                    "install libnccl2, or let LD_LIBRARY_PATH name its folder");
}

/// One rank's communicator of NCCL. A failure of the world aborts it, from another thread, so that work which waits for
/// a rank that will not come ends, and with it whoever waits for that work. Not while a call enqueues on it.
/// Graphs with its collectives inside are dropped before it goes: NCCL waits for their end.
struct NcclHandle final : RecordedSource {
  std::atomic<NcclComm> comm{nullptr};
  std::atomic<int> users{0};

  bool enter() noexcept override {
    ++users;
    if (comm.load() != nullptr) return true;
    leave();
    return false;
  }
  void leave() noexcept override { --users; }
  using RecordedSource::end;

  /// What a call enqueues on; null after a failure. abort() waits for its end, up to 10 s.
  struct Use {
    explicit Use(NcclHandle& of) : handle(of) {
      ++handle.users;
      comm = handle.comm.load();
    }
    ~Use() { --handle.users; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    NcclHandle& handle;
    NcclComm comm = nullptr;
  };

  void abort() noexcept {
    NcclComm open = comm.exchange(nullptr);
    for (int i = 0; i < 10000 && users.load() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (open != nullptr) Nccl::instance().comm_abort(open);
  }
  void destroy() noexcept {
    if (NcclComm open = comm.exchange(nullptr); open != nullptr) Nccl::instance().comm_destroy(open);
  }
};

/// What ranks enqueue, wherever they meet.
class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::vector<int> ranks, int index) : Communicator(std::move(ranks), index) {}

  RecordedSource* source() override { return handle_.get(); }
  void enqueue(const Request& request) override {
    if (request.in->numel > 0 || request.out->numel > 0) enqueue_elements(request);
  }

 protected:
  /// Tells the other ranks.
  virtual void note_failure(const std::string& text) const = 0;

  void check(int error, std::string_view call, Location where) const {
    if (error == 0) return;
    const std::string text = std::string(call) + " failed: " + nccl_.error_string(error);
    note_failure(text);
    throw DistError(DistError::Kind::engine, "nccl", text, where, "NCCL_DEBUG=INFO says more");
  }
  /// Makes the device's context current.
  static void enter(Device device, Location where) {
    static_cast<void>(device_memory(device, "nccl", where).native_queue(device));
  }

  /// Before the communicator goes.
  void close(bool has_failed) noexcept {
    handle_->end();
    if (has_failed) handle_->abort();
    else handle_->destroy();
  }
  void enqueue_elements(const Request& request) const {
    const Collective& what = request.what;
    const HostView &in = *request.in, &out = *request.out;
    using enum CollectiveKind;
    const bool is_reduction = what.kind == all_reduce || what.kind == reduce || what.kind == reduce_scatter;
    const int dtype = is_reduction ? nccl_dtype(in.dtype) : 1;  // what is only moved is bytes
    if (dtype < 0)
      throw DTypeError(name(what.kind), "NCCL does not reduce " + std::string(sinter::name(in.dtype)), request.where,
                       "cast it to i32");
    if ((what.kind == reduce_scatter || what.kind == all_gather || what.kind == all_to_all) &&
        (what.axis != 0 || what.split_axis != 0))
      throw UserError(name(what.kind),
                      "NCCL divides and joins the first axis alone, this is axis " +
                          std::to_string(std::max(what.axis, what.split_axis)),
                      request.where, "vmap over another axis of the operand, or exchange its axes");
    const std::size_t parts = is_complex(in.dtype) ? 2 : 1;
    const auto count = [&](const HostView& view) { return is_reduction ? as_index(view.numel) * parts : view.bytes(); };
    const int operation = nccl_operation(what.reduce);
    const auto done = [&](int error) { check(error, name(what.kind), request.where); };
    const NcclHandle::Use use(*handle_);
    const NcclComm comm = use.comm;
    if (comm == nullptr)
      throw DistError(DistError::Kind::failed, name(what.kind), "an earlier collective has failed", request.where);
    switch (what.kind) {
      case all_reduce:
        return done(nccl_.all_reduce(in.data, out.data, count(in), dtype, operation, comm, request.queue));
      case reduce:
        if (index() != what.root) fill_zero(out, request);
        return done(nccl_.reduce(in.data, index() == what.root ? out.data : nullptr, count(in), dtype, operation,
                                 what.root, comm, request.queue));
      case reduce_scatter:
        return done(nccl_.reduce_scatter(in.data, out.data, count(out), dtype, operation, comm, request.queue));
      case all_gather: return done(nccl_.all_gather(in.data, out.data, count(in), dtype, comm, request.queue));
      case broadcast: return done(nccl_.broadcast(in.data, out.data, count(in), dtype, what.root, comm, request.queue));
      default: return exchange(request, comm, done);
    }
  }
  void fill_zero(const HostView& out, const Request& request) const {
    check(nccl_.fill_bytes(reinterpret_cast<std::uintptr_t>(out.data), 0, out.bytes(), request.queue),
          "cuMemsetD8Async", request.where);
  }

  /// all_to_all and permute: messages of a group, which run together.
  template <class F>
  void exchange(const Request& request, NcclComm comm, const F& done) const {
    const HostView &in = *request.in, &out = *request.out;
    const Collective& what = request.what;
    const std::size_t part = in.bytes() / (what.kind == CollectiveKind::all_to_all ? as_index(size()) : 1);
    const auto send = [&](std::size_t place, int to) {
      done(nccl_.send(in.as<const char>() + place, part, 1, to, comm, request.queue));
    };
    const auto receive = [&](std::size_t place, int from) {
      done(nccl_.receive(out.as<char>() + place, part, 1, from, comm, request.queue));
    };
    if (part == 0) return;
    const bool is_sent_to =
        std::any_of(what.pairs.begin(), what.pairs.end(), [&](const auto& pair) { return pair.second == index(); });
    if (what.kind == CollectiveKind::permute && !is_sent_to) fill_zero(out, request);
    done(nccl_.group_start());
    try {
      if (what.kind == CollectiveKind::all_to_all)
        for (int r = 0; r < size(); ++r) {
          send(as_index(r) * part, r);
          receive(as_index(r) * part, r);
        }
      for (const auto& [from, to] : what.pairs) {
        if (from == index()) send(0, to);
        if (to == index()) receive(0, from);
      }
    } catch (...) {  // an open group would take up the thread's next calls
      static_cast<void>(nccl_.group_end());
      throw;
    }
    done(nccl_.group_end());
  }

  const Nccl& nccl_ = Nccl::instance();
  std::shared_ptr<NcclHandle> handle_ = std::make_shared<NcclHandle>();
};

/// Rank r is a thread that works on GPU r.
class NcclOfThreads final : public NcclCommunicator {
 public:
  NcclOfThreads(std::shared_ptr<ThreadWorld> world, std::vector<int> ranks, int index, Location where)
      : NcclCommunicator(std::move(ranks), index), world_(std::move(world)), meeting_(world_->meeting(this->ranks())) {
    open(where);
    host_ = make_thread_engine(world_, this->ranks()[as_index(index)])->group(this->ranks(), where);
  }
  ~NcclOfThreads() override { close(world_->has_failed()); }

  void meet(const Request& request) override {
    world_->arrive(*meeting_, ranks(), index(), request);
    world_->meet_inside(*meeting_);
  }
  void run(const Request& request) override {
    if (request.queue == nullptr) return host_->run(request);  // operands on the host, and barriers
    world_->arrive(*meeting_, ranks(), index(), request);
    try {
      enqueue(request);
    } catch (...) {
      world_->meet_inside(*meeting_);
      throw;
    }
    world_->meet_inside(*meeting_);  // the requests lie on the stacks of the threads
  }

 private:
  void note_failure(const std::string& text) const override { world_->fail(DistError::Kind::engine, text); }

  /// All ranks of the group make its communicator together, with the number that the first one draws.
  void open(Location where) {
    const Collective what{.kind = CollectiveKind::barrier};
    const Request request{what, nullptr, nullptr, where, "the ranks of a new group", nullptr};
    enter(Device::cuda(ranks()[as_index(index())]), where);
    if (index() == 0) {
      auto id = std::make_shared<NcclId>();
      check(nccl_.get_unique_id(id.get()), "ncclGetUniqueId", where);
      meeting_->shared = id;
    }
    world_->arrive(*meeting_, ranks(), index(), request);
    const auto id = std::static_pointer_cast<NcclId>(meeting_->shared);
    NcclComm made = nullptr;
    const int error = nccl_.comm_init_rank(&made, size(), *id, index());
    world_->meet_inside(*meeting_);
    check(error, "ncclCommInitRank", where);
    handle_->comm = made;
    world_->on_failure([handle = handle_] { handle->abort(); });
  }

  std::shared_ptr<ThreadWorld> world_;
  std::shared_ptr<ThreadWorld::Meeting> meeting_;
  std::unique_ptr<Communicator> host_;
};

/// Rank r is a process. After a failure it must end, as without GPUs: its launcher ends the others.
class NcclOfProcesses final : public NcclCommunicator {
 public:
  NcclOfProcesses(std::unique_ptr<Communicator> host, bool meets_by_tcp, Device device, Location where)
      : NcclCommunicator(host->ranks(), host->index()), host_(std::move(host)), meets_by_tcp_(meets_by_tcp) {
    enter(device, where);
    NcclId drawn{}, id{};
    if (index() == 0) check(nccl_.get_unique_id(&drawn), "ncclGetUniqueId", where);
    const Collective what{.kind = CollectiveKind::broadcast};
    const HostView from = bytes_of(drawn), to = bytes_of(id);
    host_->run({what, &from, &to, where, "the ranks of a new group", nullptr});
    NcclComm made = nullptr;
    check(nccl_.comm_init_rank(&made, size(), id, index()), "ncclCommInitRank", where);
    handle_->comm = made;
  }
  ~NcclOfProcesses() override { close(meets_by_tcp_ ? has_tcp_failed() : has_mpi_failed()); }

  void meet(const Request& request) override { host_->meet(request); }
  void run(const Request& request) override {
    if (request.queue == nullptr) return host_->run(request);
    meet(request);
    enqueue(request);
  }

 private:
  void note_failure(const std::string& text) const override {
    if (meets_by_tcp_) note_tcp_failure(text);
    else note_mpi_failure();
  }
  static HostView bytes_of(NcclId& id) {
    const auto count = static_cast<std::int64_t>(id.bytes.size());
    return {.dtype = DType::u8, .shape = {count}, .numel = count, .data = id.bytes.data()};
  }

  std::unique_ptr<Communicator> host_;
  bool meets_by_tcp_;
};

class NcclEngine final : public Engine {
 public:
  NcclEngine(std::shared_ptr<ThreadWorld> world, int rank) : world_(std::move(world)), rank_(rank) {}
  std::string_view name() const override { return "nccl"; }
  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }
  bool takes_device_memory() const override { return true; }
  bool enqueues() const override { return true; }
  Device device() const override { return Device::cuda(rank_); }
  std::unique_ptr<Communicator> group(std::vector<int> ranks, Location where) override {
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    const int index = static_cast<int>(place - ranks.begin());
    return std::make_unique<NcclOfThreads>(world_, std::move(ranks), index, where);
  }

 private:
  std::shared_ptr<ThreadWorld> world_;
  int rank_;
};

class NcclProcessEngine final : public Engine {
 public:
  NcclProcessEngine(std::unique_ptr<Engine> host, Device device) : host_(std::move(host)), device_(device) {}
  std::string_view name() const override { return "nccl"; }
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  bool takes_device_memory() const override { return true; }
  bool enqueues() const override { return true; }
  Device device() const override { return device_; }
  std::unique_ptr<Communicator> group(std::vector<int> ranks, Location where) override {
    return std::make_unique<NcclOfProcesses>(host_->group(std::move(ranks), where), host_->name() == "tcp", device_,
                                             where);
  }

 private:
  std::unique_ptr<Engine> host_;
  Device device_;
};

SINTER_DECL std::unique_ptr<Engine> make_nccl_engine(std::shared_ptr<ThreadWorld> world, int rank,
                                                     std::chrono::milliseconds, Location) {
  return std::make_unique<NcclEngine>(std::move(world), rank);
}
SINTER_DECL std::unique_ptr<Engine> make_nccl_engine(std::unique_ptr<Engine> host, int local_rank, Location where) {
  require_nccl(local_rank + 1, where);
  return std::make_unique<NcclProcessEngine>(std::move(host), Device::cuda(local_rank));
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
