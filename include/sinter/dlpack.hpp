// Tensors to and from other libraries by DLPack. In the header-only library these names come with this header, too.
#pragma once

#include <sinter/io/dlpack.hpp>
#include <sinter/sinter.hpp>
