// Gathers the definitions of graph.hpp, one file per subject.
#pragma once

#include <sinter/graph/builder.ipp>
#include <sinter/graph/hash.ipp>
#include <sinter/graph/instance.ipp>
#include <sinter/graph/parse.ipp>
#include <sinter/graph/print.ipp>
#include <sinter/graph/verify.ipp>
