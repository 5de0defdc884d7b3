// The engine of ranks that are threads with a GPU each: NCCL, opened at run time. The threads meet before each
// collective as those without GPUs do, so that differing calls, failures and stalls are found before NCCL waits.
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

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
