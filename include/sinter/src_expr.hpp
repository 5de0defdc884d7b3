// Every definition of expr. Included by sinter.hpp when header-only, else by one translation unit: see src.hpp.
#pragma once
// expr
#include <sinter/expr/capture.ipp>
#include <sinter/expr/creation.ipp>
#include <sinter/expr/expr.ipp>
#include <sinter/expr/functions.ipp>
#include <sinter/expr/handles.ipp>
#include <sinter/expr/host.ipp>
#include <sinter/expr/host_run.ipp>
#include <sinter/expr/indexing.ipp>
#include <sinter/expr/layers.ipp>
#include <sinter/expr/tree.ipp>
