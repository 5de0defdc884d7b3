// Every definition of runtime. Included by sinter.hpp when header-only, else by one translation unit: see src.hpp.
#pragma once
// runtime
#include <sinter/runtime/dependences.ipp>
#include <sinter/runtime/device_ops.ipp>
#include <sinter/runtime/disk_cache.ipp>
#include <sinter/runtime/executor.ipp>
#include <sinter/runtime/fallback.ipp>
#include <sinter/runtime/frame.ipp>
#include <sinter/runtime/graph_devices.ipp>
#include <sinter/runtime/host_ops.ipp>
#include <sinter/runtime/kernel_cache.ipp>
#include <sinter/runtime/part_builder.ipp>
#include <sinter/runtime/partition.ipp>
#include <sinter/runtime/partition_plan.ipp>
#include <sinter/runtime/plan.ipp>
#include <sinter/runtime/watch.ipp>
