// Every definition of the reference back end. Included by sinter.hpp when header-only, else by one translation unit:
// see src.hpp.
#pragma once
// backend/reference
#include <sinter/backend/reference/interpreter.ipp>
#include <sinter/backend/reference/product.ipp>
#include <sinter/backend/reference/program.ipp>
#include <sinter/backend/reference/reference.ipp>
