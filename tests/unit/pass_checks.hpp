// Checks of passes as text: a graph in, the expected graph out. Texts are compared by structure, so labels and the
// order of unrelated nodes do not matter.
#pragma once

#include "../catch.hpp"

#include <sinter/graph/hash.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/pending_node.hpp>  // the definitions that TensorImpl is completed by
#include <sinter/graph/verify.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/pipeline.hpp>

#include <string>
#include <string_view>

namespace sinter_test {

/// "graph(inputs) { body }"; a body without `return` is an expression.
inline std::string graph_text(std::string_view inputs, std::string_view body) {
  const bool is_expression = body.find("return") == std::string_view::npos;
  return "graph(" + std::string(inputs) + ") { " + (is_expression ? "return " : "") + std::string(body) + " }";
}

inline void check_equal(const sinter::Graph& found, const sinter::Graph& wanted) {
  INFO("found:\n" << found.text() << "wanted:\n" << wanted.text());
  CHECK(structurally_equal(found, wanted));
  CHECK((found.hash() == wanted.hash()) == structurally_equal(found, wanted));
}

/// The pass turns the first body into the second, leaves a valid graph, and has no more to do.
template <class Pass>
void expect_pass(const Pass& pass, std::string_view inputs, std::string_view before, std::string_view after) {
  INFO(pass.name() << ": " << before);
  const sinter::Graph made = pass(sinter::parse_graph(graph_text(inputs, before)));
  CHECK_NOTHROW(verify(made));
  check_equal(made, sinter::parse_graph(graph_text(inputs, after)));
  check_equal(pass(made), made);
}

template <class Pass>
void expect_unchanged(const Pass& pass, std::string_view inputs, std::string_view body) {
  expect_pass(pass, inputs, body, body);
}

}  // namespace sinter_test
