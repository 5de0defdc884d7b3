// Entries whose graph a registered back end runs: making them, and one call. Values go in and out as Tensors.
#pragma once

#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/call/guards.hpp>

#include <span>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit {
struct Entry;
namespace jit_detail {

/// Hands the graph and the values of this call to the back end, and keeps what it returns in the entry. Messages call
/// it `name`.
void compile_custom(Entry& entry, const BackendFunction& backend, std::string_view name, Graph graph,
                    std::span<const ArgLeaf> args, Location where);
/// Throws UserError unless these are what a graph with such outputs gives at these sizes; evaluates them.
void check_custom_outputs(std::span<const Tensor> outputs, std::span<const Type> wanted,
                          std::span<const std::int64_t> symbols, std::string_view op, Location where);
/// Runs the entry; what the callable gives is checked against the graph's outputs before anything is written.
void run_custom(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
                Ref<TensorImpl>* results, Targets targets, Location where);

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
