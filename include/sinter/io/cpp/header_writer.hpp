// The text of an exported header: a plan at fixed extents as straight C++, with the machine code of its kernels and the
// run-time that calls them. Knows plans; must not know functions or files.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/runtime/plan.hpp>

#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::cpp_detail {

/// A parameter of the function, or a weight.
struct HeaderInput {
  std::string name;               // of the parameter
  const TensorImpl* weight = {};  // else null
};
struct HeaderText {
  std::string_view name, isa;
  std::vector<HeaderInput> inputs;  // of the graph, in order
  std::vector<std::string> parameters, outputs;
  Location where;
};
/// Plans the graph and writes the header. Throws UserError for a step that cannot be exported.
std::string header_text(const Graph& graph, MatmulPrecision precision, const HeaderText& text);

}  // namespace io::cpp_detail
SINTER_NAMESPACE_END
