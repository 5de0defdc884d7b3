// Tensors and std::mdspan. In the header-only library these names come with this header, too.
#pragma once

#include <sinter/io/mdspan.hpp>
#include <sinter/sinter.hpp>
