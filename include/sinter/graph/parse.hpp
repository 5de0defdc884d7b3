// Reads the text form of graphs. Besides what Graph::text() writes it takes, for the sake of tests and bug reports:
// labels of any name, nodes without a written type, operands that are calls or numbers themselves (`mul(exp(%0), 2)`; a
// number takes the dtype of the first operand that is none), `;` between nodes and `#` comments. Never trusts the text:
// every fault in it is a UserError that names line and column, whatever the depth of nesting or the size of its
// numbers.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Reads the text form. Throws UserError with line and column. Result types are inferred and compared with those
/// written.
Graph parse_graph(std::string_view text);

SINTER_NAMESPACE_END
