// From an optimised graph to a plan with this build's back ends, and the layouts of its inputs.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/tensor/impl.hpp>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

struct Options;  // options.hpp

/// Strides of an input; empty: row-major without gaps.
using InputLayout = std::vector<Dim>;
InputLayout layout_of(const TensorImpl& value);

/// Options::fuse and what refines it; nothing on the back ends that compute operation by operation.
FusionChoices fusion_choices(const Options& options);

/// What a plan on the back ends that `backend` names ("": all of this build) is made with.
/// `traced` is the graph before the passes, whose outputs know where they are wanted;
/// `precision` is what products of f32 matrices may be computed in.
PlanOptions plan_options(const Graph& optimised, std::string_view backend, std::vector<InputLayout> layouts,
                         FusionChoices fuse, const Graph& traced, MatmulPrecision precision,
                         std::vector<std::uint8_t> may_donate = {}, bool own_outputs = false);
/// The plan made with these.
std::shared_ptr<const Plan> make_plan(const Graph& optimised, std::string_view backend,
                                      std::vector<InputLayout> layouts, FusionChoices fuse, const Graph& traced,
                                      MatmulPrecision precision, std::vector<std::uint8_t> may_donate = {},
                                      bool own_outputs = false);

struct ArgLeaf;
struct PlanInput;
namespace jit_detail {
/// Writes the address of an argument into place `i` of the inputs.
void place_argument(const ArgLeaf& leaf, const PlanInput& input, std::size_t i, CallPlaces& places);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
