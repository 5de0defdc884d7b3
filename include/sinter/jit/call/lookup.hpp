// Which entry serves a call: lookup, and what happens where none does. lookup.ipp defines the members of FunctionState
// for that, and entry_for() of call.hpp. The user's function runs under no lock, so two threads may compile the same;
// the one that publishes last drops its own. Besides, what makes lookup quick for sizes that come again.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/jit/call/arguments.hpp>
#include <sinter/jit/call/function.hpp>

#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// Notes sizes that the guards of the entry have been found to take.
void remember_sizes(const Entry& entry, EntryThread& thread, std::span<const ArgLeaf> args,
                    const SmallVector<std::int64_t, 8>& symbols);

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
