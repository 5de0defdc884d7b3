// The engines of ranks with a GPU each: NCCL, opened at run time. Ranks meet before each collective as those without
// GPUs do (threads of one process in memory, processes by MPI or TCP), so that differing calls, failures and stalls are
// found before NCCL waits.
#pragma once

#include <sinter/dist/engine.hpp>
#include <sinter/dist/threads.hpp>

#include <chrono>
#include <memory>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

/// GPUs that ranks can have; 0 without CUDA.
int nccl_devices();
/// Throws DistError unless NCCL can be opened and there are as many GPUs.
void require_nccl(int ranks, Location where);
std::unique_ptr<Engine> make_nccl_engine(std::shared_ptr<ThreadWorld> world, int rank,
                                         std::chrono::milliseconds timeout, Location where);
/// Of a process that meets the others by `host`, on the GPU of its number among those of this host. Throws as
/// require_nccl.
std::unique_ptr<Engine> make_nccl_engine(std::unique_ptr<Engine> host, int local_rank, Location where);

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
