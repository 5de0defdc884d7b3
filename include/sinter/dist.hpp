// Programs of several ranks: collectives, meshes, data parallel training, work divided over workers. In the single
// header these names come with sinter.hpp.
#pragma once

#include <sinter/dist/batch_norm.hpp>
#include <sinter/dist/collectives.hpp>
#include <sinter/dist/data_parallel.hpp>
#include <sinter/dist/layout.hpp>
#include <sinter/dist/map_shards.hpp>
#include <sinter/dist/partition.hpp>
#include <sinter/dist/shard_map.hpp>
#include <sinter/dist/world.hpp>
#include <sinter/sinter.hpp>

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/src_dist.hpp>
#endif
