// Every definition of kernel. Included by sinter.hpp when header-only, else by one translation unit: see src.hpp.
#pragma once
// kernel
#include <sinter/kernel/facts.ipp>
#include <sinter/kernel/fusion.ipp>
#include <sinter/kernel/fusion_merge.ipp>
#include <sinter/kernel/fusion_node.ipp>
#include <sinter/kernel/fusion_node_views.ipp>
#include <sinter/kernel/fusion_prologue.ipp>
#include <sinter/kernel/index_map.ipp>
#include <sinter/kernel/kernel.ipp>
#include <sinter/kernel/kernel_simplify.ipp>
#include <sinter/kernel/loop_nest/builder.ipp>
#include <sinter/kernel/loop_nest/loop_nest.ipp>
#include <sinter/kernel/lowering.ipp>
#include <sinter/kernel/lowering_axes.ipp>
#include <sinter/kernel/memory_plan.ipp>
