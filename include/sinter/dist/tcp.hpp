// The engine of ranks that are processes without MPI: they meet at rank 0, whose address the environment has, as
// torchrun and tools/launch --processes say it (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE). What is on the host goes
// through rank 0, which is for numbers and small tensors; what is on GPUs goes by NCCL, and only the meeting is here.
#pragma once

#include <sinter/dist/engine.hpp>
#include <sinter/dist/world.hpp>

#include <chrono>
#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

/// Does the environment say where the processes meet?
bool has_tcp_address() noexcept;
/// Connects this process, if it is not yet. Throws DistError where nobody answers, or where ranks are of other
/// programs.
std::unique_ptr<Engine> make_tcp_engine(const Launch& launch, std::chrono::milliseconds timeout, Location where);
/// This process makes no more collectives: the others learn of it at once.
void note_tcp_failure(const std::string& what) noexcept;
bool has_tcp_failed() noexcept;

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
