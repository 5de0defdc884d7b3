// Programs of several ranks: collectives, meshes, data parallel training, work divided over workers. An include of its
// own, beside sinter.hpp.
#pragma once

#include <sinter/dist/collectives.hpp>
#include <sinter/dist/data_parallel.hpp>
#include <sinter/dist/map_shards.hpp>
#include <sinter/dist/shard_map.hpp>
#include <sinter/dist/world.hpp>
#include <sinter/sinter.hpp>

#ifdef SINTER_IMPLEMENTATION_JIT
#include <sinter/src_dist.hpp>
#endif
