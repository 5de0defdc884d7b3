// ONNX models, read and written. In the single header these names come with sinter.hpp.
#pragma once

#include <sinter/io/onnx/export.hpp>
#include <sinter/io/onnx/model.hpp>
#include <sinter/sinter.hpp>

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/src_onnx.hpp>
#endif
