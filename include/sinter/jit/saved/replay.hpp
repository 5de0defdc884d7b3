// Running a saved function: its graph is recorded again on the arguments of a call, under any trace or none. So a
// loaded function is compiled, differentiated and mapped like any other, by the same code. Must not know files.
#pragma once

#include <sinter/base/ref.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/tree.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
struct VariableSlot;
namespace jit {

struct SavedProgram;
struct SavedPart;
struct SavedVariable;

namespace jit_detail {

/// The slot of a saved Variable for this thread.
std::shared_ptr<VariableSlot> slot_now(const SavedVariable& variable);

/// The result of a saved function, part by part in the order of its layout.
class SavedResult {
 public:
  /// Records the version that takes these arguments. Throws RecompileError that names a guard where there is none, and
  /// where a value that the function reads takes it to a branch that was not seen before it was saved.
  SavedResult(const SavedProgram& program, std::vector<tree::View> arguments);
  SavedResult(const SavedResult&) = delete;
  SavedResult& operator=(const SavedResult&) = delete;
  ~SavedResult();

  Tensor tensor();
  Scalar scalar();
  Dim extent();
  std::int64_t fixed();
  /// A size of a container, at most `most`.
  std::size_t size();

 private:
  const SavedPart& next();
  std::vector<Ref<TensorImpl>> values_;
  std::vector<SavedPart> parts_;
  std::size_t next_part_ = 0, next_value_ = 0;
};

template <class T>
void fill(T& object, SavedResult& from);

template <class T>
T made(SavedResult& from) {
  static_assert(std::is_default_constructible_v<T>,
                "sinter: jit::load makes the result of a function and fills it: the type needs a default constructor");
  T object{};
  fill(object, from);
  return object;
}
template <class T>
void fill(T& object, SavedResult& from) {
  constexpr tree::Kind kind = tree::kind_of<T>();
  static_assert(kind != tree::Kind::variable, "sinter: a loaded function returns values: declare the result Tensor");
  static_assert(!std::is_const_v<T>, "sinter: jit::load fills the result: declare its members without const");
  tree::require_visitable<T>();
  if constexpr (kind == tree::Kind::tensor) object = from.tensor();
  else if constexpr (kind == tree::Kind::scalar) object = from.scalar();
  else if constexpr (kind == tree::Kind::dim) object = from.extent();
  else if constexpr (kind == tree::Kind::number) object = static_cast<T>(from.fixed());
  else if constexpr (kind == tree::Kind::text) {
    object.resize(from.size());
    for (char& c : object) c = static_cast<char>(from.fixed());
  } else if constexpr (kind == tree::Kind::elements) {
    object.resize(from.size());
    for (auto& element : object) fill(element, from);
  } else if constexpr (kind == tree::Kind::optional) {
    if (from.size() != 0) object.emplace(made<typename T::value_type>(from));
  } else if constexpr (kind == tree::Kind::map) {
    for (std::size_t left = from.size(); left > 0; --left) {
      auto key = made<typename T::key_type>(from);
      object.insert_or_assign(std::move(key), made<typename T::mapped_type>(from));
    }
  } else {
    tree::for_fields(object, [&](auto&... fields) { (fill(fields, from), ...); });
  }
}

/// What stands in the place of the user's function.
template <class Signature>
struct SavedCallee;
template <class R, class... A>
struct SavedCallee<R(A...)> {
  std::shared_ptr<const SavedProgram> program;
  R operator()(const A&... arguments) const {
    SavedResult result(*program, {tree::view_of(arguments)...});
    if constexpr (!std::is_void_v<R>) return made<R>(result);
  }
};

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
