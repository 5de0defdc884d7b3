// Launchers, the choice of an engine, and the threads of ranks.
#pragma once

#include <sinter/dist/world.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/mpi.hpp>
#include <sinter/dist/nccl.hpp>
#include <sinter/dist/rank_state.hpp>
#include <sinter/dist/tcp.hpp>
#include <sinter/dist/threads.hpp>
#include <sinter/graph/tracing.hpp>

#include <charconv>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {
namespace dist_detail {

/// The number in a variable of the environment; none where it is not set. Slurm writes "4(x2)" for some.
inline std::optional<int> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string_view all(text);
  int number = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (error != std::errc() || (end != all.data() + all.size() && *end != '(') || number < 0)
    throw UserError("dist", std::string(name) + " is '" + text + "'", {}, "it must be a number");
  return number;
}

inline std::chrono::milliseconds chosen_timeout(const RunOptions& options, Location where) {
  if (options.timeout.count() < 0)
    throw UserError("run", "the timeout is " + std::to_string(options.timeout.count()) + " ms", where,
                    "give a time above 0; 0 means that of SINTER_DIST_TIMEOUT, or 10 s");
  const std::chrono::milliseconds longest = std::chrono::hours(24 * 365);  // clocks overflow beyond 292 years
  if (options.timeout.count() > 0) return std::min(options.timeout, longest);
  const char* text = std::getenv("SINTER_DIST_TIMEOUT");
  if (text == nullptr || *text == '\0') return std::chrono::seconds(10);
  const std::string_view all(text);
  double seconds = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), seconds);
  if (error != std::errc() || end != all.data() + all.size() || !(seconds >= 0.001))
    throw UserError("run", "SINTER_DIST_TIMEOUT is '" + std::string(all) + "'", where,
                    "give seconds above 0, as 30 or 0.5");
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(1000 * std::min(seconds, static_cast<double>(longest.count() / 1000))));
}

/// What a rank that is a thread runs.
struct ThreadedRun {
  std::shared_ptr<ThreadWorld> world;
  std::vector<std::exception_ptr> errors;  // by rank
  std::vector<std::uint8_t> is_induced;    // it is a DistError that another rank's failure led to
  const std::function<void(World)>& fn;
  const Mesh& mesh;

  void run_rank(int rank, const std::function<std::unique_ptr<Engine>(int rank)>& make_engine) noexcept {
    const auto r = as_index(rank);
    std::string text;
    std::unique_ptr<RankState> state;  // until the others know of a failure: what ends with it may wait for them
    try {
      state = std::make_unique<RankState>(make_engine(rank), mesh);
      RankScope scope(*state);
      fn(World());
      world->end_rank(rank, nullptr);
      return;
    } catch (const DistError& error) {
      is_induced[r] = 1;
      errors[r] = std::current_exception();
      text = error.what();
    } catch (const std::exception& error) {
      errors[r] = std::current_exception();
      text = error.what();
    } catch (...) {
      errors[r] = std::current_exception();
      text = "an exception that is no std::exception";
    }
    world->end_rank(rank, &text);
  }

  /// What a rank threw by itself comes before what that led to on the others.
  void rethrow() const {
    for (std::size_t r = 0; r < errors.size(); ++r)
      if (errors[r] != nullptr && is_induced[r] == 0) std::rethrow_exception(errors[r]);
    for (const std::exception_ptr& error : errors)
      if (error != nullptr) std::rethrow_exception(error);
  }
};

inline void run_threads(int ranks, std::chrono::milliseconds timeout, bool uses_gpus, const Mesh& mesh,
                        const std::function<void(World)>& fn, Location where) {
  auto world = std::make_shared<ThreadWorld>(ranks, timeout);
  ThreadedRun run{world, std::vector<std::exception_ptr>(as_index(ranks)),
                  std::vector<std::uint8_t>(as_index(ranks), 0), fn, mesh};
  const auto make_engine = [&](int rank) {
    return uses_gpus ? make_nccl_engine(world, rank, timeout, where) : make_thread_engine(world, rank);
  };
  std::vector<std::thread> threads;
  threads.reserve(as_index(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back([&run, &make_engine, rank] { run.run_rank(rank, make_engine); });
    } catch (const std::exception& error) {  // the system has no thread left: nobody is to wait for this rank
      const std::string text = error.what();
      run.errors[as_index(rank)] = std::current_exception();
      for (int r = rank; r < ranks; ++r) world->end_rank(r, &text);
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  run.rethrow();
}

/// torchrun's processes are none of MPI's, nor are others that are told where to meet and have no MPI.
inline bool meets_by_tcp(EngineKind kind, const Launch& launch) {
  if (kind == EngineKind::mpi || kind == EngineKind::tcp) return kind == EngineKind::tcp;
  return has_tcp_address() && (launch.variable == "WORLD_SIZE" || !has_mpi());
}

inline void run_process(const Launch& launch, std::chrono::milliseconds timeout, EngineKind kind, const Mesh& mesh,
                        const std::function<void(World)>& fn, Location where) {
  const bool uses_tcp = meets_by_tcp(kind, launch);
  std::unique_ptr<Engine> engine =
      uses_tcp ? make_tcp_engine(launch, timeout, where) : make_mpi_engine(launch, timeout, where);
  // A process that has failed must end without waiting for the others.
  const auto note_failure = [uses_tcp](const char* what) {
    if (uses_tcp) note_tcp_failure(what);
    else note_mpi_failure();
  };
  std::unique_ptr<RankState> state;  // until the others know of a failure, as that of a thread
  try {
    if (kind == EngineKind::nccl) engine = make_nccl_engine(std::move(engine), launch.local_rank, where);
    state = std::make_unique<RankState>(std::move(engine), mesh);
    if (mesh.has_axes() && mesh.size() != state->size())
      throw UserError("run",
                      "the mesh " + mesh.text() + " has " + std::to_string(mesh.size()) + " ranks, " +
                          std::to_string(state->size()) + " processes were started",
                      where, "start as many, or choose the mesh by dist::launched().size");
    RankScope scope(*state);
    fn(World());
  } catch (const std::exception& error) {
    note_failure(error.what());
    throw;
  } catch (...) {
    note_failure("an exception that is no std::exception");
    throw;
  }
}

inline int chosen_ranks(const RunOptions& options, Location where) {
  if (options.ranks < 0)
    throw UserError("run", "the number of ranks is " + std::to_string(options.ranks), where, "at least 1");
  if (options.mesh.has_axes() && options.ranks != 0 && options.ranks != options.mesh.size())
    throw UserError("run",
                    "the mesh " + options.mesh.text() + " has " + std::to_string(options.mesh.size()) + " ranks, and " +
                        std::to_string(options.ranks) + " are asked for",
                    where, "leave RunOptions::ranks out");
  if (options.mesh.has_axes()) return options.mesh.size();
  if (options.ranks != 0) return options.ranks;
  if (options.engine == EngineKind::nccl) return std::max(1, nccl_devices());
  const int ranks = number_from_environment("SINTER_RANKS").value_or(1);
  if (ranks < 1) throw UserError("run", "SINTER_RANKS is '0'", where, "at least 1");
  return ranks;
}

SINTER_DECL void run_ranks(const RunOptions& options, const std::function<void(World)>& fn, Location where) {
  if (Trace::current() != nullptr)
    throw TraceError("run", "ranks are started while a function is traced", where,
                     "call dist::run outside, and compile what its ranks do");
  const std::chrono::milliseconds timeout = chosen_timeout(options, where);
  const Launch launch = launched();
  const bool is_worker = current_rank().is_worker;
  const bool wants_processes = options.engine == EngineKind::mpi || options.engine == EngineKind::tcp;
  if (is_worker && wants_processes)
    throw UserError("run", "a worker of map_shards asks for ranks that are processes", where,
                    "a process is one rank: call dist::run outside of map_shards, or take EngineKind::threads");
  const bool is_rank_already = current_rank().engine != nullptr || is_worker;
  const bool uses_gpus = options.engine == EngineKind::nccl;
  if (wants_processes ||
      ((options.engine == EngineKind::automatic || uses_gpus) && launch.size > 1 && !is_rank_already)) {
    if (options.ranks != 0 && options.ranks != launch.size)
      throw UserError(
          "run",
          std::to_string(options.ranks) + " ranks are asked for, " + std::to_string(launch.size) +
              " processes were started",
          where, "leave RunOptions::ranks out, or start as many: tools/launch -n " + std::to_string(options.ranks));
    return run_process(launch, timeout, options.engine, options.mesh, fn, where);
  }
  const int ranks = chosen_ranks(options, where);
  if (uses_gpus) require_nccl(ranks, where);
  run_threads(ranks, timeout, uses_gpus, options.mesh, fn, where);
}

}  // namespace dist_detail

SINTER_DECL Launch launched() {
  using dist_detail::number_from_environment;
  struct Launcher {
    const char *size, *rank, *local_rank;
  };
  static constexpr Launcher launchers[] = {
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"},
      {"WORLD_SIZE", "RANK", "LOCAL_RANK"},
      {"SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"},
  };
  // What torchrun or tools/launch --processes has set comes before what an mpirun around it has.
  const bool is_torchrun = std::getenv("TORCHELASTIC_RUN_ID") != nullptr && std::getenv("WORLD_SIZE") != nullptr;
  for (const Launcher& launcher : launchers) {
    if (is_torchrun && std::string_view(launcher.size) != "WORLD_SIZE") continue;
    const std::optional<int> size = number_from_environment(launcher.size),
                             rank = number_from_environment(launcher.rank);
    if (!size || !rank) continue;
    // A batch script has them as well; srun alone starts steps.
    if (std::string_view(launcher.size) == "SLURM_NTASKS" && std::getenv("SLURM_STEP_ID") == nullptr) continue;
    if (*size < 1 || *rank >= *size)
      throw UserError("dist",
                      std::string(launcher.rank) + " is " + std::to_string(*rank) + ", " + launcher.size + " is " +
                          std::to_string(*size),
                      {}, "ranks count from 0 to the size less 1");
    return {*rank, *size, number_from_environment(launcher.local_rank).value_or(*rank), launcher.size};
  }
  return {};
}

}  // namespace dist
SINTER_NAMESPACE_END
