// Guards in words: the broken ones with what was expected and what came, and the list for explain(). guard_text.ipp
// also defines GuardSet::broken() and GuardSet::text() (guards.hpp) and the names of GuardKind (options.hpp).
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/jit/call/guards.hpp>
#include <sinter/tensor/precision.hpp>

#include <cstdint>
#include <span>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// The default of the process is another than that which the function was compiled for.
Guard broken_precision(MatmulPrecision expected, MatmulPrecision got);

namespace jit_detail {
/// A question about sizes and its answer, with who asked: "s0 < s1, as concat needs it [train.cpp:41]".
std::string relation_text(const DimGuard& guard);
/// "s0 = 5: extent of axis 0 of argument 1" for each symbol that the guard mentions.
std::string mentioned_symbols(const GuardSet& guards, const DimGuard& guard, std::span<const std::int64_t> values);
/// "extent of axis 0 of argument 1", "stride of ...".
std::string source_text(const GuardSet& guards, const SymbolSource& source);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
