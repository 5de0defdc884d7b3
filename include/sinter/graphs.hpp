// What tools for graphs and plans include besides sinter.hpp: graphs and how they are built, read and compared, pending
// nodes, ops, the passes, plans and back ends that compiled functions are made with. In the header-only library and the
// single header these names come with sinter.hpp.
#pragma once

#include <sinter/graph/builder.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/sinter.hpp>
