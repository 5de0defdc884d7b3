// Every definition of dist. Included by sinter.hpp when header-only, else by one translation unit: see src.hpp.
#pragma once
// dist
#include <sinter/dist/collectives.ipp>
#include <sinter/dist/data_parallel.ipp>
#include <sinter/dist/engine.ipp>
#include <sinter/dist/error.ipp>
#include <sinter/dist/map_shards.ipp>
#include <sinter/dist/mesh.ipp>
#include <sinter/dist/mpi.ipp>
#include <sinter/dist/nccl.ipp>
#include <sinter/dist/rank_state.ipp>
#include <sinter/dist/shard_map.ipp>
#include <sinter/dist/threads.ipp>
#include <sinter/dist/world.ipp>
