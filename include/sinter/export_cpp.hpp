// Compiled functions as C++ headers, for programs without Sinter. In the header-only library and the single header
// these names come with sinter.hpp.
#pragma once

#include <sinter/io/cpp/export.hpp>
#include <sinter/sinter.hpp>
