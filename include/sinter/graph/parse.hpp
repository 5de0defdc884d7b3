// Reads the text form of graphs. Besides what Graph::text() writes it takes, for the sake of tests and bug reports:
// labels of any name, nodes without a written type, operands that are calls or numbers themselves (`mul(exp(%0), 2)`; a
// number takes the dtype of the first operand that is none), `;` between nodes and `#` comments. Never trusts the text:
// every fault in it is a UserError that names line and column, whatever the depth of nesting or the size of its
// numbers.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Reads the text form. Throws UserError with line and column. Result types are inferred and compared with those
/// written.
Graph parse_graph(std::string_view text);

/// Reads attributes as graphs write them between braces: `axes=[1], keepdim`. UserError with what the op has.
Attrs parse_attributes(const OpInfo& op, std::string_view text, Location where);
/// What the value of an attribute looks like: "a list of whole numbers: [0, 1]".
std::string attribute_description(const AttrInfo& info);

SINTER_NAMESPACE_END
