// The engine of ranks that are processes: MPI, through a small library (cmake/mpi/sinter_mpi.cpp) that is compiled with
// the MPI of the system and opened at run time, for the binary interfaces of MPI libraries differ. Sums are made here,
// in the order of the ranks.
#pragma once

#include <sinter/dist/engine.hpp>
#include <sinter/dist/world.hpp>

#include <chrono>
#include <memory>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

/// Is there a library of MPI, started or not?
bool has_mpi();
/// Starts MPI if nobody has. Throws DistError where it is missing, or counts other processes than the launcher.
std::unique_ptr<Engine> make_mpi_engine(const Launch& launch, std::chrono::milliseconds timeout, Location where);
/// This process leaves MPI without waiting for the others, so that the launcher ends them.
void note_mpi_failure() noexcept;
bool has_mpi_failed() noexcept;

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
