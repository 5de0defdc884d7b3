// The text form of a graph, as parse_graph reads it: print.ipp defines Graph::text(), a member so that a graph can be
// shown wherever graph.hpp is known, and nothing else. Nodes keep their numbers, so that a text can be held against a
// dump of the same graph; inputs stand in the head, wherever they are among the nodes. What has its default value is
// not written. Constants of up to 1024 elements carry their data; of larger ones only the type is written, and such a
// text does not parse.
#pragma once

#include <sinter/graph/graph.hpp>
