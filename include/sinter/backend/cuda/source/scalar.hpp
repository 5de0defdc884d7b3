// The scalar level in CUDA C: types, literals, one expression per primitive, neutral elements, and the helper functions
// that expressions call. Meanings are those of the reference back end. Knows no loops and no memory.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/scalar.hpp>

#include <array>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Of a value; bool_ is `bool`.
std::string value_type(DType dtype);
/// Of an element in memory; bool_ is a byte.
std::string memory_type(DType dtype);
/// An immediate, exact.
std::string literal(const Inst& inst);
/// A map (not a load, gather, index or reduction) of named arguments. `from` is the dtype of the first one.
std::string expression(const Inst& inst, DType from, const std::array<std::string, 3>& args);
/// Two partial results of a reduction put together.
std::string combined(Prim reduction, DType dtype, const std::string& a, const std::string& b);
/// The neutral element.
std::string neutral(Prim reduction, DType dtype);
/// The helper functions that the text calls.
std::string helpers(const std::string& text, int sm);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
