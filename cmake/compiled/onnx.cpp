// A translation unit of sinter::compiled: ONNX files.
#include <sinter/src_onnx.hpp>
