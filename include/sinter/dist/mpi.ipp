// Opening the library, and collectives as exchanges of bytes.
#pragma once

#include <sinter/dist/mpi.hpp>

#include <sinter/backend/cuda/cuda.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/mpi_table.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

/// The library around MPI, as far as this process has found it.
struct Mpi {
  const SinterMpiTable* table = nullptr;
  std::string tried;
  std::atomic<bool> has_failed{false};

  Mpi() {
    std::vector<std::string> places;
    if (const char* chosen = std::getenv("SINTER_MPI"); chosen != nullptr && *chosen != '\0') places = {chosen};
    else places = usual_places();
    for (const std::string& place : places) {
      if (table != nullptr) break;
      void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);  // MPI opens parts of its own, which look for it
      void* function = library != nullptr ? dlsym(library, "sinter_mpi_table") : nullptr;
      if (function != nullptr) table = reinterpret_cast<const SinterMpiTable* (*)()>(function)();
      const char* problem = function == nullptr ? dlerror() : nullptr;
      if (table != nullptr && table->version != sinter_mpi_version) {
        table = nullptr;
        problem = "it belongs to another version of Sinter";
      }
      if (problem != nullptr) tried += (tried.empty() ? "" : "; ") + place + ": " + problem;
    }
    if (table != nullptr) std::atexit([] { instance().table->stop(instance().has_failed.load() ? 1 : 0); });
  }
  static Mpi& instance() { return process_object<Mpi>(); }

 private:
  /// Beside the program and above it, as in a build folder; where Sinter was installed; where the loader looks.
  static std::vector<std::string> usual_places() {
    std::vector<std::string> places;
    std::array<char, 4096> path{};
    const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
    std::string folder(path.data(), size > 0 ? as_index(size) : 0);
    folder.erase(std::min(folder.rfind('/'), folder.size()));
    for (const char* inside : {"/", "/../", "/../lib/"})
      if (!folder.empty() && is_ours(folder + inside)) places.push_back(folder + inside + file);
#ifdef SINTER_MPI_LIBRARY
    const std::string installed = SINTER_MPI_LIBRARY;
    if (is_ours(installed.substr(0, installed.rfind('/') + 1))) places.push_back(installed);
#endif
    places.emplace_back(file);
    return places;
  }
  /// Is there a library that nobody but us and root can have put there? What it holds is run.
  static bool is_ours(const std::string& folder) {
    const auto is_safe = [](const std::string& path) {
      struct stat about{};
      return ::stat(path.c_str(), &about) == 0 && (about.st_uid == 0 || about.st_uid == ::geteuid()) &&
             (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    };
    return is_safe(folder) && is_safe(folder + file);
  }
  static constexpr const char* file = "libsinter_mpi.so";
};

SINTER_DECL bool has_mpi() { return Mpi::instance().table != nullptr; }
SINTER_DECL void note_mpi_failure() noexcept { Mpi::instance().has_failed = true; }
SINTER_DECL bool has_mpi_failed() noexcept { return Mpi::instance().has_failed.load(); }

/// What ranks compare before each collective.
struct MpiSignature {
  std::uint64_t hash = 0;
  std::array<char, 248> text{};
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::vector<int> ranks, int index, double seconds, Location where)
      : Communicator(std::move(ranks), index), seconds_(seconds) {
    check(mpi_.group(this->ranks().data(), size(), &group_, seconds_), "group", where, "the making of a group");
  }
  ~MpiCommunicator() override {
    if (group_ != nullptr && !Mpi::instance().has_failed) mpi_.free_group(group_);
  }

  void meet(const Request& request) override {
    if (Mpi::instance().has_failed)
      throw DistError(DistError::Kind::failed, dist::name(request.what.kind), "an earlier collective has failed",
                      request.where, "end this process: the others cannot go on either");
    request_ = &request;
    compare();
  }
  void run(const Request& request) override {
    meet(request);
    if (request.in == nullptr) return;
    if (request.queue != nullptr) run_on_device(request);
    else run_on_host();
  }

 private:
  using Counts = std::vector<std::int64_t>;

  void run_on_host() {
    switch (request_->what.kind) {
      case CollectiveKind::all_reduce: return all_reduce();
      case CollectiveKind::reduce: return reduce();
      case CollectiveKind::reduce_scatter: return reduce_scatter();
      case CollectiveKind::all_gather: return all_gather();
      case CollectiveKind::all_to_all: return all_to_all();
      case CollectiveKind::broadcast: return broadcast();
      case CollectiveKind::permute: return permute();
      default: return;
    }
  }

  /// Operands are where MPI reads and writes them: what is only moved, and lies in one piece for each rank, it takes
  /// from there. The rest goes through the host.
  void run_on_device(const Request& request) {
    DeviceMemory& memory = device_memory(request.device, dist::name(request.what.kind), request.where);
    memory.synchronise(request.device);
    if (is_moved_in_pieces(request.what)) return move_on_device(memory, request.device);
    HostView from = *request.in, to = *request.out;
    std::vector<char> sent(std::max<std::size_t>(from.bytes(), 1)), received(std::max<std::size_t>(to.bytes(), 1));
    memory.copy(sent.data(), Device::cpu(), from.data, request.device, from.bytes());
    from.data = sent.data();
    to.data = received.data();
    Request staged = request;
    staged.in = &from;
    staged.out = &to;
    request_ = &staged;
    run_on_host();
    request_ = &request;
    memory.copy(request.out->data, request.device, received.data(), Device::cpu(), request.out->bytes());
  }
  static bool is_moved_in_pieces(const Collective& what) {
    const bool is_first = what.axis == 0 && what.split_axis == 0;
    return what.kind == CollectiveKind::broadcast || what.kind == CollectiveKind::permute ||
           (is_first && (what.kind == CollectiveKind::all_gather || what.kind == CollectiveKind::all_to_all));
  }
  void move_on_device(DeviceMemory& memory, Device device) {
    const std::size_t ranks_here = ranks().size(), self = as_index(index());
    Counts to(ranks_here, 0), from(ranks_here, 0), to_places(ranks_here, 0), from_places(ranks_here, 0);
    const Collective& what = request_->what;
    if (what.kind == CollectiveKind::all_gather) {
      to.assign(ranks_here, in().numel);
      from.assign(ranks_here, in().numel);
      from_places = places_of(from);
    } else if (what.kind == CollectiveKind::all_to_all) {
      to.assign(ranks_here, in().numel / size());
      from = to;
      to_places = from_places = places_of(to);
    } else if (what.kind == CollectiveKind::broadcast) {
      if (index() == what.root) to.assign(ranks_here, in().numel);
      from[as_index(what.root)] = in().numel;
    } else {
      for (const auto& [source, target] : what.pairs) {
        if (source == index()) to[as_index(target)] = in().numel;
        if (target == index()) from[as_index(source)] = in().numel;
      }
    }
    const auto at = [&](const HostView& view, std::int64_t place) { return view.as<char>() + place * unit(); };
    if (sum_of(from) == 0) {
      const std::vector<char> zeros(out().bytes());
      memory.copy(out().data, device, zeros.data(), Device::cpu(), zeros.size());
    }
    memory.copy(at(out(), from_places[self]), device, at(in(), to_places[self]), device, as_index(from[self] * unit()));
    check(mpi_.messages(group_, unit(), in().data, to.data(), to_places.data(), out().data, from.data(),
                        from_places.data(), seconds_));
  }

  void check(int error, std::string_view op, Location where, const std::string& what) const {
    if (error == 0) return;
    Mpi::instance().has_failed = true;
    if (error == sinter_mpi_timeout)
      throw DistError(DistError::Kind::timeout, op,
                      "not all of the " + std::to_string(size()) + " ranks came to " + what + " within " +
                          seconds_text(std::chrono::milliseconds(static_cast<std::int64_t>(seconds_ * 1000))),
                      where, "a longer wait is RunOptions::timeout, or SINTER_DIST_TIMEOUT");
    if (error == sinter_mpi_too_large)
      throw DistError(DistError::Kind::engine, op, "a part has more than 2^31 - 1 elements, which MPI does not take",
                      where, "divide the tensor");
    throw DistError(DistError::Kind::engine, op, "MPI reports error " + std::to_string(error), where);
  }
  void check(int error) const {
    check(error, dist::name(request_->what.kind), request_->where, request_->text_with_line());
  }

  void compare() {
    const std::string own = request_->text(), shown = request_->text_with_line();
    MpiSignature mine;
    mine.hash = 14695981039346656037u;  // FNV-1a
    for (const char c : own) mine.hash = (mine.hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    shown.copy(mine.text.data(), mine.text.size() - 1);
    std::vector<MpiSignature> all(ranks().size());
    const Counts counts(ranks().size(), 1);
    Counts places;
    for (int r = 0; r < size(); ++r) places.push_back(r);
    check(mpi_.gather(group_, sizeof(MpiSignature), &mine, 1, all.data(), counts.data(), places.data(), seconds_));
    for (std::size_t r = 1; r < all.size(); ++r) {
      if (all[r].hash == all[0].hash) continue;
      Mpi::instance().has_failed = true;
      throw DistError(DistError::Kind::mismatch, dist::name(request_->what.kind),
                      "the calls of the ranks differ: rank " + std::to_string(ranks()[0]) + " is in " +
                          all[0].text.data() + ", rank " + std::to_string(ranks()[r]) + " is in " + all[r].text.data(),
                      request_->where, "every rank of a group makes the same collectives in the same order");
    }
  }

  const HostView& in() const { return *request_->in; }
  const HostView& out() const { return *request_->out; }
  int unit() const { return static_cast<int>(size_of(in().dtype)); }
  static Counts places_of(const Counts& counts) {
    Counts places;
    std::int64_t next = 0;
    for (const std::int64_t count : counts) {
      places.push_back(next);
      next += count;
    }
    return places;
  }
  static std::int64_t sum_of(const Counts& counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) sum += count;
    return sum;
  }
  /// Parts that lie one after the other, to and from all ranks.
  void exchange(const void* send, const Counts& to, void* receive, const Counts& from) {
    const Counts send_places = places_of(to), receive_places = places_of(from);
    check(mpi_.exchange(group_, unit(), send, to.data(), send_places.data(), receive, from.data(),
                        receive_places.data(), seconds_));
  }
  void gather(const void* send, void* receive, const Counts& counts) {
    const Counts places = places_of(counts);
    check(
        mpi_.gather(group_, unit(), send, counts[as_index(index())], receive, counts.data(), places.data(), seconds_));
  }
  std::vector<char> memory(std::int64_t elements) const {
    return std::vector<char>(as_index(std::max<std::int64_t>(elements * unit(), 1)));
  }
  void add_up(const std::vector<char>& parts, std::int64_t count, void* to) const {
    std::vector<const void*> sources;
    for (int r = 0; r < size(); ++r) sources.push_back(parts.data() + r * count * unit());
    if (count > 0) reduce_in_order(request_->what.reduce, in().dtype, sources, to, count);
  }

  /// Each rank adds up its share of the elements, then all get all shares.
  void all_reduce() {
    Counts shares;
    for (int r = 0; r < size(); ++r) shares.push_back(out().numel * (r + 1) / size() - out().numel * r / size());
    const std::int64_t own = shares[as_index(index())];
    std::vector<char> parts = memory(own * size()), sum = memory(own);
    exchange(in().data, shares, parts.data(), Counts(ranks().size(), own));
    add_up(parts, own, sum.data());
    gather(sum.data(), out().data, shares);
  }
  void reduce() {
    const bool is_root = index() == request_->what.root;
    Counts to(ranks().size(), 0), from(ranks().size(), is_root ? in().numel : 0);
    to[as_index(request_->what.root)] = in().numel;
    std::vector<char> parts = memory(sum_of(from));
    exchange(in().data, to, parts.data(), from);
    if (is_root) add_up(parts, in().numel, out().data);
    else if (out().bytes() > 0) std::memset(out().data, 0, out().bytes());
  }
  /// The parts of `in` along an axis, one after the other.
  std::vector<char> divided(int axis, const Shape& part) const {
    std::vector<char> packed = memory(in().numel);
    for (int r = 0; r < size(); ++r)
      copy_region(part, {in().data, &in().shape, axis, r * part[axis].value()},
                  {packed.data() + r * part.numel().value() * unit(), &part, axis, 0}, unit());
    return packed;
  }
  void join(std::vector<char>& parts, int axis, const Shape& part) const {
    for (int r = 0; r < size(); ++r)
      copy_region(part, {parts.data() + r * part.numel().value() * unit(), &part, axis, 0},
                  {out().data, &out().shape, axis, r * part[axis].value()}, unit());
  }
  void reduce_scatter() {
    const Counts counts(ranks().size(), out().numel);
    const std::vector<char> packed = divided(request_->what.axis, out().shape);
    std::vector<char> parts = memory(in().numel);
    exchange(packed.data(), counts, parts.data(), counts);
    add_up(parts, out().numel, out().data);
  }
  void all_gather() {
    std::vector<char> parts = memory(out().numel);
    gather(in().data, parts.data(), Counts(ranks().size(), in().numel));
    join(parts, request_->what.axis, in().shape);
  }
  void all_to_all() {
    Shape part = in().shape;
    part.set(request_->what.split_axis, part[request_->what.split_axis].value() / size());
    const Counts counts(ranks().size(), part.numel().value());
    const std::vector<char> packed = divided(request_->what.split_axis, part);
    std::vector<char> parts = memory(in().numel);
    exchange(packed.data(), counts, parts.data(), counts);
    join(parts, request_->what.axis, part);
  }
  void broadcast() {
    if (out().bytes() > 0 && index() == request_->what.root) std::memcpy(out().data, in().data, out().bytes());
    check(mpi_.broadcast(group_, unit(), out().data, out().numel, request_->what.root, seconds_));
  }
  void permute() {
    Counts to(ranks().size(), 0), from(ranks().size(), 0);
    for (const auto& [source, target] : request_->what.pairs) {
      if (source == index()) to[as_index(target)] = in().numel;
      if (target == index()) from[as_index(source)] = in().numel;
    }
    if (sum_of(from) == 0 && out().bytes() > 0) std::memset(out().data, 0, out().bytes());
    exchange(in().data, to, out().data, from);
  }

  const SinterMpiTable& mpi_ = *Mpi::instance().table;
  const Request* request_ = nullptr;
  double seconds_;
  void* group_ = nullptr;
};

/// SINTER_MPI_CUDA, or what the library says.
inline bool is_mpi_cuda_aware() {
  if (cuda::device_count() == 0) return false;
  const char* const chosen = std::getenv("SINTER_MPI_CUDA");
  if (chosen != nullptr && *chosen != '\0') return std::string_view(chosen) != "0";
  return Mpi::instance().table->is_cuda_aware() != 0;
}

class MpiEngine final : public Engine {
 public:
  MpiEngine(int rank, int size, double seconds) : rank_(rank), size_(size), seconds_(seconds) {}
  bool takes_device_memory() const override { return is_cuda_aware_; }
  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Communicator> group(std::vector<int> ranks, Location where) override {
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    const int index = static_cast<int>(place - ranks.begin());
    return std::make_unique<MpiCommunicator>(std::move(ranks), index, seconds_, where);
  }

 private:
  int rank_, size_;
  double seconds_;
  bool is_cuda_aware_ = is_mpi_cuda_aware();
};

SINTER_DECL std::unique_ptr<Engine> make_mpi_engine(const Launch& launch, std::chrono::milliseconds timeout,
                                                    Location where) {
  const Mpi& mpi = Mpi::instance();
  const std::string started = launch.variable.empty() ? std::string("no launcher set a number of processes")
                                                      : std::string(launch.variable) + " says that there are " +
                                                            std::to_string(launch.size) + " processes";
  if (mpi.table == nullptr)
    throw DistError(DistError::Kind::engine, "run", started + ", and MPI is not to be had: " + mpi.tried, where,
                    "install libopenmpi-dev or libmpich-dev and build Sinter again; or name the library in SINTER_MPI; "
                    "or take ranks that are threads: RunOptions::engine");
  int rank = 0, size = 1;
  const int error = mpi.table->start(&rank, &size);
  if (error == sinter_mpi_one_thread)
    throw DistError(DistError::Kind::engine, "run", "MPI was started for one thread alone", where,
                    "start it by MPI_Init_thread with MPI_THREAD_SERIALIZED, or leave that to dist::run");
  if (error != 0)
    throw DistError(DistError::Kind::engine, "run", "MPI does not start: error " + std::to_string(error), where);
  if (size != launch.size)
    throw DistError(DistError::Kind::engine, "run",
                    started + ", and MPI (" + std::string(mpi.table->library()).substr(0, 60) + ") knows of " +
                        std::to_string(size),
                    where, "start them with the mpirun of that library, or with tools/launch");
  return std::make_unique<MpiEngine>(rank, size, static_cast<double>(timeout.count()) / 1000);
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
