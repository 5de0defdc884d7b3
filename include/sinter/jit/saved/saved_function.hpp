// A compiled function as data: for each version the guards, and the traced graph with where its inputs come from and
// where its outputs go; a function that reads values has a tree of such graphs. Snapshot takes this out of compiled
// functions; replay.hpp runs it. Must not know files.
#pragma once

#include <sinter/expr/tree.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/jit/call/guards.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/tensor/slot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

class FunctionState;
struct Entry;
struct TreeNode;

/// A Variable that saved functions captured. Functions that are saved together share it.
struct SavedVariable {
  std::string name;
  VariableSlot::PerThreadRole role = VariableSlot::PerThreadRole::none;  // of this thread's generator: no value
  bool requires_grad = false;
  std::int32_t gradient_of = -1;  // it is the gradient of that Variable
  std::shared_ptr<VariableSlot> slot{};
};

/// One part of a result in the order of its layout: a value that the graph gives, a number, or an extent.
struct SavedPart {
  enum class Kind : std::uint8_t { value, fixed, extent };
  Kind kind = Kind::value;
  std::int64_t number = 0;
  Dim extent{};
};

/// What lies between two reads of values, or after the last. The graph gives the value read and then what later steps
/// take; at an end, the results and then what Variables become.
struct SavedStep {
  struct Input {
    enum class From : std::uint8_t { leaf, variable, carried };
    From from = From::leaf;
    std::int32_t index = 0;  // of the argument leaf, of the Variable, or the place of a value that a step before gave
  };
  struct Assignment {
    std::int32_t leaf = -1, variable = -1;  // one of them
  };
  struct Child {
    std::uint64_t outcome = 0;  // bits of the value read
    std::int32_t step = 0;      // after this one
  };
  Graph graph;
  std::vector<Input> inputs;
  std::vector<DimGuard> dims;  // asked in it, of a function that reads values
  bool is_end = true;
  // At an end:
  std::size_t results = 0;
  std::vector<Assignment> assignments;
  std::vector<SavedPart> shape;
  // Before a read:
  std::vector<std::int32_t> places;  // of the outputs after the first
  std::string op;                    // that reads
  Location where;
  std::vector<Child> children;
};

struct SavedVersion {
  std::string signature;  // of arguments and result; see signature_text()
  GuardSet guards;
  std::vector<SavedStep> steps;  // the first one is where calls begin; a straight function has one
};

struct SavedFunction {
  std::string name;
  Options options;
  std::string tuning{};  // of the first in a mode that measures: tuning_text() of the process
  Location where;
  std::vector<SavedVersion> versions;  // calls take the first that fits
};

/// A function that was loaded, and the Variables that it shares with others of its file.
struct SavedProgram {
  SavedFunction function;
  std::shared_ptr<const std::vector<SavedVariable>> variables;
};

struct SavedBundle {
  std::vector<SavedVariable> variables;
  std::vector<SavedFunction> functions;
};

namespace jit_detail {

/// The structure of types, without their names: "(Tensor, [Tensor], Scalar) -> {string: Tensor}".
std::string signature_text(std::span<const tree::Layout* const> arguments, const tree::Layout& result);

/// Collects functions that are to be saved together. What cannot be saved is a UserError that names its line.
class Snapshot {
 public:
  explicit Snapshot(Location where) : where_(where) {}
  void add(std::string name, const FunctionState& function);
  SavedBundle finish();

 private:
  void add_loaded(const SavedProgram& program, SavedFunction saved);
  SavedVersion version_of(const Entry& entry);
  void add_end(const Entry& entry, SavedVersion& version);
  void add_tree(const Entry& entry, SavedVersion& version);
  void check_slots(const Entry& entry) const;
  std::int32_t variable(const std::shared_ptr<VariableSlot>& slot);

  friend class TreeSaver;
  Location where_;
  SavedBundle bundle_;
  std::map<const VariableSlot*, std::int32_t> known_;
};

/// The static parts of a result, in order.
std::vector<SavedPart> parts_of(tree::View result);
/// Are they Tensors, Scalars and Variables, but for the sizes and keys of the containers that hold them?
bool holds_values_alone(const tree::Layout& layout);
/// Throws UserError for a node whose function cannot be found again in another process.
void check_savable(const Graph& graph, Location where);

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
