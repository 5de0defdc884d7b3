// A translation unit of sinter::compiled: files of tensors.
#include <sinter/src_io.hpp>
