// What norms of vectors and matrices, and functions made of products and inverses, are made of.
#pragma once

#include <sinter/expr/linalg.hpp>
