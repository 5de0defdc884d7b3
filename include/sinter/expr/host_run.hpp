// A host operation outside of plans: effects of code that is not compiled run where they stand. host_run.ipp defines
// run_host_op(), which pending_node.hpp declares, because recording an effect outside of a trace runs it; here are the
// values in memory that it runs on.
#pragma once

#include <sinter/graph/pending_node.hpp>
