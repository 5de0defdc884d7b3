// What the ops with sub-graphs share: tokens, where the operands of a scan lie, and cutting unused values and effects
// out of a sub-graph.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/graph/op_info.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// The attributes of scans, with and without effects.
struct ScanAttributes {
  static constexpr OpAttr<Dim> length{"length", 0};
  static constexpr OpAttr<std::int64_t> carries{"carries", 0}, scanned{"scanned", 1};
  static constexpr OpAttr<bool> is_reversed{"reversed", 2};  // from the last slice to the first
  static constexpr OpAttr<IntVector> saved{"saved", 0};
  static constexpr auto attributes = attribute_list(length, carries, scanned, is_reversed, saved);
  static constexpr std::string_view bodies = "body";
};
/// The attributes of loops, with and without effects.
struct WhileAttributes {
  static constexpr OpAttr<std::int64_t> carries{"carries", 0};
  static constexpr auto attributes = attribute_list(carries);
  static constexpr std::string_view bodies = "condition body";
};

}  // namespace ops

namespace ops_detail {

/// How many of the last operands and results are tokens.
enum class Tokens : std::uint8_t { none = 0, one = 1 };

/// The operands of a scan are its carries, xs and captures; the results its carries, ys and saved carries.
struct ScanLayout {
  ScanLayout(const Attrs& attrs, std::size_t operand_count)
      : carries(as_index(attrs[ops::ScanAttributes::carries])),
        xs(as_index(attrs[ops::ScanAttributes::scanned])),
        operands(operand_count),
        ys(attrs.bodies[0]->outputs().size() - carries),
        is_reversed(attrs[ops::ScanAttributes::is_reversed]) {}
  std::size_t carries, xs, operands, ys;
  bool is_reversed;
};

/// Notes in `used` which inputs the outputs to keep, or effects, depend on.
void mark_used_inputs(const Graph& body, const std::vector<bool>& keeps_output, std::vector<bool>& used);
/// The body with these outputs and inputs only, and what they need.
std::shared_ptr<const Graph> cut_body(const Graph& body, const std::vector<bool>& keeps_output,
                                      const std::vector<bool>& keeps_input);
/// The body without effects that no output needs: for derivatives, which compute it a second time.
Graph without_effects(const Graph& body);

/// Drops operands from number `first` on, as far as the list goes.
void keep_operands(Node& node, std::size_t first, const std::vector<bool>& keeps);
/// Drops results but for the token.
void keep_results(const PruneArgs& args, std::vector<bool> keeps, Tokens tokens);

}  // namespace ops_detail
SINTER_NAMESPACE_END
