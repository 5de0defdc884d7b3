// OpInfo: everything the library knows of one operation, as a constexpr table of facts and functions. OpInfos are
// made in ops/, one file per op; every other part asks the OpInfo instead of switching over ops.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/graph/attribute.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstdint>
#include <span>
#include <string_view>

SINTER_NAMESPACE_BEGIN

class HostCall;
struct Node;
struct ScalarValue;
class ScalarBuilder;
struct VjpArgs;
struct BatchArgs;
struct ScalarFold;
enum class PositionOrder : std::uint8_t;
struct Batched;
struct DecomposeArgs;
struct Val;
using TypeList = SmallVector<Type, 1>;
using ValList = SmallVector<Val, 4>;
using BatchedList = SmallVector<Batched, 4>;

enum class OpKind : std::uint8_t {
  leaf,         // input, constant
  elementwise,  // NumPy broadcasting; has `lower`
  reduction,    // has `prim` (the reduction primitive); attrs.axes, attrs.keepdim
  view,         // moves no data where strides allow: reshape, permute, expand, slice, windows
  structured,   // known to the kernel layer by its own rule: matmul, take, scatter_add, update_slice, iota, full, ...
  composite,    // has `decompose`
  // must not be removed, duplicated or reordered: its last operand and its last result are tokens (see record_effect)
  effect,
};

/// How the result dtype of an elementwise op follows from its operands.
enum class DTypeRule : std::uint8_t {
  promote,    // PyTorch's promotion
  compare,    // operands promoted, result bool
  floating,   // promoted; integers and bool become f32
  logical,    // operands promoted and result the same, but floats are refused
  select,     // first operand bool; the others promoted
  attribute,  // attrs.dtype
  first,      // that of the first operand
};

struct InferArgs {
  std::span<const Type> in;
  const Attrs& attrs;
  std::string_view op;
  Location where;
};

/// A node whose unused results and operands are to go. `used[r]` says whether anybody reads result r; the rule changes
/// the node's operands, sub-graphs, attributes and types, and lists the results that stay.
struct PruneArgs {
  Node& node;
  std::span<const std::uint8_t> used;
  SmallVector<std::int32_t, 8>& kept_results;
};

struct OpInfo {
  std::string_view name;
  int arity = 1;  // -1: any number of operands
  OpKind kind = OpKind::elementwise;
  DTypeRule dtypes = DTypeRule::promote;
  std::uint8_t reduction = 0;   // reductions and cumsum's family: the Prim; Prim::fold has `fold`
  bool is_call = false;         // attrs.bodies[0] is run on the operands: see through it
  bool is_cheap = true;         // elementwise: recomputing it costs less than a round trip to memory
  bool takes_bool = true;       // elementwise: has a meaning where all operands are bool
  bool takes_complex = false;   // its operands may be complex; other ops see their real and imaginary parts
  bool moves_elements = false;  // computes nothing: takes f8, too
  bool takes_f8 = false;        // computes with f8
  bool reads_bits = false;      // elementwise on integers: a narrow one comes without copies of its sign in front

  bool has_gradient = true;     // false: none passes through its parts, or its vjp is an error
  bool is_random = false;       // draws numbers: under vmap each example has its own
  bool is_transfer = false;     // the result lies on attrs.device, wherever the operand does
  bool has_row_counts = false;  // on matrices: those of few rows have faster code for that number of rows

  // Filled in by describe<Op>() from the op's struct.
  std::span<const AttrInfo> attributes{};  // in the order in which texts have them
  std::string_view bodies{};  // names of the sub-graphs, with a blank between; the last serves all further ones
  void (*infer)(const InferArgs& args, TypeList& out) = nullptr;
  ScalarValue (*lower)(ScalarBuilder& builder, std::span<const ScalarValue> in, const Attrs& attrs) = nullptr;
  /// Reductions with state: what they are along the axes, of values that are no bools. Its result number 0 is the op's;
  /// an argument after the values is the position along attrs.axes, row-major.
  ScalarFold (*fold)(DType value, PositionOrder order) = nullptr;
  void (*vjp)(const VjpArgs& args, ValList& grads) = nullptr;
  Val (*decompose)(const DecomposeArgs& args) = nullptr;
  void (*batch)(const BatchArgs& args, BatchedList& results) = nullptr;
  void (*run_on_host)(HostCall& call) =
      nullptr;  // between kernels; structured ops and effects that no kernel expresses
  /// Asks for the scratch and places that run_on_host will ask for. Operands and results have shapes, but no data.
  void (*prepare_on_host)(HostCall& call) = nullptr;
  void (*refuse)(Location where) = nullptr;  // throws: the op only stands for something until a derivative is finished
  void (*prune)(const PruneArgs& args) = nullptr;  // ops with sub-graphs

  /// May operands of a node with these attributes be complex? Sub-graphs see to theirs themselves.
  bool may_take_complex(const Attrs& attrs) const;
  /// The same of f8e4m3 and f8e5m2.
  bool may_take_f8(const Attrs& attrs) const {
    return moves_elements || takes_f8 || kind == OpKind::view || dtypes == DTypeRule::select || may_take_complex(attrs);
  }
  /// The attribute of that name, or null.
  const AttrInfo* find_attribute(std::string_view wanted) const;
  /// What sub-graph `i` is called.
  std::string_view body_name(std::size_t i) const;
};

/// The op of that name, or null. It knows all ops, and whatever they call: only code that reads names at run time
/// (graphs as text, saved functions, calls by name) may come here, or every program holds linear algebra and Fourier
/// transforms.
const OpInfo* find_op(std::string_view name);

namespace graph_detail {
// The ops that graphs need themselves, each by a function, which leads to no other op.
const OpInfo& input_op();
const OpInfo& constant_op();
const OpInfo& reshape_op();
}  // namespace graph_detail

SINTER_NAMESPACE_END
