// The state of a model: its Tensors and Variables by name, taken out and put back. A model is any struct, class with
// SINTER_FIELDS, or container of them. Must not know files.
#pragma once

#include <sinter/expr/tree.hpp>
#include <sinter/io/tensors.hpp>

#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io {

/// What load_state_dict() did: names of the model, or of the state. `wrong` says for each name what does not fit.
struct LoadReport {
  std::vector<std::string> loaded{}, missing{}, unexpected{};
  std::vector<std::string> wrong{};
  bool is_complete() const { return missing.empty() && unexpected.empty() && wrong.empty(); }
  /// One line for each name that did not fit; "" where all did.
  std::string text() const;
};

/// Names that begin with `from` begin with `to` instead.
struct Rename {
  std::string from, to;
};

enum class Strict : bool { no, yes };
struct LoadOptions {
  Strict strict = Strict::yes;    // no: what fits is loaded, and the report says what did not
  std::vector<Rename> renames{};  // of names in the state; the first that applies counts
};

namespace io_detail {
TensorMap state_of(tree::View object);
LoadReport load_state(tree::View shown, tree::Part object, const TensorMap& state, const LoadOptions& options,
                      Location where);
}  // namespace io_detail

/// All Tensors and Variables of an object as "layers.0.weight": fields by the names that SINTER_FIELDS gives them and
/// by number ("0") elsewhere, elements by number, entries of maps by key.
template <class Object>
TensorMap state_dict(const Object& object) {
  return io_detail::state_of(tree::view_of(object));
}

/// Puts a state into an object with Tensors of the same shapes; values are converted to the dtypes that are there. With
/// Strict::yes anything that does not fit is a UserError that lists it, and the object stays as it was.
template <class Object>
LoadReport load_state_dict(Object& object, const TensorMap& state, const LoadOptions& options = {},
                           Location where = std::source_location::current()) {
  return io_detail::load_state(tree::view_of(object), tree::part_of(object), state, options, where);
}

}  // namespace io
SINTER_NAMESPACE_END
