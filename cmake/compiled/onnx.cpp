// A translation unit of sinter::compiled: ONNX files and C++ headers.
#include <sinter/src_onnx.hpp>
