// The shortest way of a guarded call: Tensors as they were traced go through kernels of the host into fresh results.
// What any other call needs (numbers, Variables, symbols, places, donated memory, gradients, effects) this file does
// not know: it leaves such calls to call.ipp, before anything has happened.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit {

struct Entry;

namespace jit_detail {
/// Whether calls of a complete entry may go that way.
bool is_quick(const Entry& entry);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
