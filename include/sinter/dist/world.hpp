// The ranks of a program: starting them, who this one is, and the mesh that it is part of. A rank is a thread that
// run() started, or, under mpirun, this process. Outside of run() there is one rank alone.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/dist/error.hpp>
#include <sinter/dist/mesh.hpp>

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist {

/// What carries collectives out.
enum class EngineKind : std::uint8_t {
  automatic,  // processes where a launcher started several, threads elsewhere
  threads,    // ranks are threads of this process
  mpi,        // ranks are processes, by MPI
  tcp,        // ranks are processes that meet at MASTER_ADDR, MASTER_PORT, as those of torchrun do
  nccl,  // threads of this process, rank r on GPU r; or a launcher's processes, each on the GPU of its local number
};

struct RunOptions {
  int ranks = 0;  // threads; 0: the size of the mesh, or SINTER_RANKS, or 1 (nccl: the GPUs that there are)
  EngineKind engine = EngineKind::automatic;
  /// How long ranks wait for one that does not come. 0: SINTER_DIST_TIMEOUT seconds, or 10 s.
  std::chrono::milliseconds timeout{0};
  Mesh mesh{};
};

/// This rank.
int rank();
/// Number of ranks.
int size();
/// The mesh of this rank: that of run() or of the innermost MeshScope.
const Mesh& mesh();
/// Ranks along an axis of the mesh. Known while tracing: a number.
int axis_size(const Axis& axis, Location where = std::source_location::current());
/// "threads", "mpi", "tcp", "nccl", or "none" outside of run().
std::string_view engine_name();

/// What a launcher said of this process: torchrun, Slurm, Open MPI, MPICH.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0;           // among the processes of this host
  std::string_view variable{};  // that the size was read from; empty: no launcher
};
/// Throws UserError where the variables are no numbers that fit each other.
Launch launched();

/// What a rank is given: the same as the functions above.
class World {
 public:
  int rank() const { return dist::rank(); }
  int size() const { return dist::size(); }
  const Mesh& mesh() const { return dist::mesh(); }
};

/// While it lives, the axes of this thread's collectives are those of another mesh, of as many ranks.
class MeshScope {
 public:
  explicit MeshScope(Mesh mesh, Location where = std::source_location::current());
  ~MeshScope();
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;

 private:
  Mesh before_;
  bool was_of_trace_;
};

namespace dist_detail {
void run_ranks(const RunOptions& options, const std::function<void(World)>& fn, Location where);
template <class F>
std::function<void(World)> rank_function(const F& fn) {
  if constexpr (std::is_invocable_v<const F&, World>) return [&fn](World world) { static_cast<void>(fn(world)); };
  else {
    static_assert(std::is_invocable_v<const F&>, "sinter: the function of a rank takes a dist::World, or nothing");
    return [&fn](World) { static_cast<void>(fn()); };
  }
}
}  // namespace dist_detail

/// Runs `fn` once for each rank, side by side, and returns when all have ended. What a rank throws is thrown here; the
/// others get a DistError at their next collective, at once where they wait in one. Under a launcher (mpirun, torchrun,
/// tools/launch, srun) this process is one rank, and `fn` runs once.
///   dist::run({.ranks = 4}, [](dist::World world) { ... dist::all_reduce(x) ... });
template <class F>
void run(const RunOptions& options, const F& fn, Location where = std::source_location::current()) {
  dist_detail::run_ranks(options, dist_detail::rank_function(fn), where);
}
/// As the environment says: the processes of a launcher, or SINTER_RANKS threads, or one.
template <class F>
void run(const F& fn, Location where = std::source_location::current()) {
  dist_detail::run_ranks({}, dist_detail::rank_function(fn), where);
}
/// So many threads, whatever started this process.
template <std::same_as<int> I, class F>
void run(I ranks, const F& fn, Location where = std::source_location::current()) {
  if (ranks < 1) throw UserError("run", "the number of ranks is " + std::to_string(ranks), where, "at least 1");
  dist_detail::run_ranks({.ranks = ranks, .engine = EngineKind::threads}, dist_detail::rank_function(fn), where);
}
/// A rank for each place of the mesh.
template <std::same_as<Mesh> M, class F>
void run(const M& mesh, const F& fn, Location where = std::source_location::current()) {
  dist_detail::run_ranks({.mesh = mesh}, dist_detail::rank_function(fn), where);
}

}  // namespace dist
SINTER_NAMESPACE_END
