// Compiled functions as C++ headers, for programs without Sinter. In the single header these names come with
// sinter.hpp.
#pragma once

#include <sinter/io/cpp/export.hpp>
#include <sinter/sinter.hpp>

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/src_onnx.hpp>
#endif
