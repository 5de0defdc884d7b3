// How the functions of nodes are found by name: those of the library, callbacks that were registered, and custom ops.
// For graphs that come from another process.
#pragma once

#include <sinter/graph/attrs.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
struct OpInfo;
namespace jit {
namespace jit_detail {
/// "print", "callback NAME", "custom NAME"; "" where the function has no name.
std::string payload_name(const Payload& payload);
/// The op of that name, also one that runs a function of the user (find_op() knows those of graphs alone), or null.
const OpInfo* op_named(std::string_view name);
/// Does the op run a function, which is its payload?
bool takes_payload(const OpInfo& op);
/// What has that name in this process, for a node of this op with so many operands; null where there is nothing.
std::shared_ptr<const Payload> payload_of(const OpInfo& op, std::string_view name, std::size_t operands);
/// Has a message as many places as it has operands? True for ops without a message.
bool is_message_whole(const OpInfo& op, const Attrs& attrs, std::span<const Type> operands);
}  // namespace jit_detail

namespace custom_detail {
/// The name of a custom op, or "" for other functions.
std::string name_of_custom(const Payload& payload);
/// The custom op of that name that is alive, or null.
std::shared_ptr<const Payload> custom_of(std::string_view name);
}  // namespace custom_detail
}  // namespace jit
SINTER_NAMESPACE_END
