// What the library around MPI offers: C functions only, so that its compiler and ours may differ. Included by both.
#pragma once

#include <cstdint>

extern "C" {

/// Functions give 0, or `sinter_mpi_timeout`, or an error code of MPI. Counts and places are in units of `unit` bytes.
struct SinterMpiTable {
  int version;
  /// Starts MPI unless it runs, and gives this process's place. May give `sinter_mpi_one_thread`.
  int (*start)(int* rank, int* size);
  const char* (*library)();
  /// The group of these ranks of the world; called by all of them.
  int (*group)(const int* ranks, int count, void** group, double seconds);
  void (*free_group)(void* group);
  int (*exchange)(void* group, int unit, const void* send, const std::int64_t* send_counts,
                  const std::int64_t* send_places, void* receive, const std::int64_t* receive_counts,
                  const std::int64_t* receive_places, double seconds);
  int (*gather)(void* group, int unit, const void* send, std::int64_t count, void* receive, const std::int64_t* counts,
                const std::int64_t* places, double seconds);
  int (*broadcast)(void* group, int unit, void* data, std::int64_t count, int root, double seconds);
  /// exchange() by a message for each pair of ranks, which MPI libraries that take the memory of CUDA devices take it
  /// for. What a rank sends to itself is left out.
  int (*messages)(void* group, int unit, const void* send, const std::int64_t* send_counts,
                  const std::int64_t* send_places, void* receive, const std::int64_t* receive_counts,
                  const std::int64_t* receive_places, double seconds);
  /// 1: the library says that it takes the memory of CUDA devices.
  int (*is_cuda_aware)();
  /// Ends MPI if start() started it; after a failure the process leaves without.
  void (*stop)(int has_failed);
};

constexpr int sinter_mpi_version = 2;
constexpr int sinter_mpi_timeout = -1;
constexpr int sinter_mpi_too_large = -2;
constexpr int sinter_mpi_one_thread = -3;  // it does not stand calls of several threads, one after the other

const SinterMpiTable* sinter_mpi_table();
}
