// compile_regions() of any model: lists of blocks are found in structs, at any depth and of several kinds, and each
// kind is compiled once. The model stays what it is; calls of its blocks go through what is returned.
#pragma once

#include <sinter/base/type_key.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/jit/config/configuration.hpp>
#include <sinter/jit/trace/region.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A list of blocks in a model.
struct FoundRegion {
  std::string path;       // "layers", "encoder.blocks", "[0].cells": fields without names are numbers
  std::string type;       // the C++ type of its blocks
  std::size_t count = 0;  // of blocks
  bool is_compiled = true;
};

namespace jit_detail {

/// The name of a type, without the namespaces that it is in.
template <class T>
std::string type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  const std::size_t scope = text.substr(0, text.find('<')).rfind("::");
  return std::string(scope == std::string_view::npos ? text : text.substr(scope + 2));
}

/// A struct with a const operator(): one that takes a Tensor, or any that is not overloaded.
template <class T>
concept Block =
    std::is_class_v<T> && !std::same_as<T, Tensor> && !std::same_as<T, Variable> && !std::same_as<T, Scalar> &&
    (requires(const T& block, const Tensor& x) { block(x); } || requires { &T::operator(); });

/// Name `i` of "w, b, layers".
std::string field_name(std::string_view names, std::size_t i);
std::string regions_text(const std::vector<FoundRegion>& found);

/// Calls `visit(list, path)` for each vector of blocks in the object.
template <class T, class Visit>
void visit_block_lists(const T& object, const std::string& path, const Visit& visit) {
  if constexpr (tree::is_vector<T>) {
    using Element = typename T::value_type;
    if constexpr (Block<Element>) {
      if (!object.empty()) visit(object, path);
    }
    if constexpr (std::is_class_v<Element>) {
      for (std::size_t i = 0; i < object.size(); ++i)
        visit_block_lists(object[i], path + "[" + std::to_string(i) + "]", visit);
    }
  } else if constexpr (tree::is_map<T>) {
    for (const auto& [key, value] : object) visit_block_lists(value, path + tree::detail::key_text(key), visit);
  } else if constexpr (tree::is_optional<T>) {
    if (object) visit_block_lists(*object, path, visit);
  } else if constexpr (tree::kind_of<T>() == tree::Kind::fields) {
    tree::for_fields(object, [&](const auto&... fields) {
      std::size_t i = 0;
      (visit_block_lists(fields, path + (path.empty() ? "" : ".") + field_name(tree::detail::field_names<T>(), i++),
                         visit),
       ...);
    });
  }
}

}  // namespace jit_detail

/// What compile_regions() of a model gives: `regions(block, args...)` calls a block, compiled. It knows the blocks by
/// their places, so the model must stay where it is; blocks that were added later are compiled like the others of their
/// kind. Copies share the code.
class ModelRegions {
 public:
  template <class Model>
  ModelRegions(const Model& model, Options options, Location where) : state_(std::make_shared<State>()) {
    state_->options = std::move(options);
    state_->where = where;
    jit_detail::visit_block_lists(model, std::string(),
                                  [&](const auto& blocks, const std::string& path) { add_list(blocks, path); });
  }

  /// The block, compiled with what it holds as arguments; as it is, where a configuration file says so, or for a kind
  /// that the model had no list of.
  template <class B, class... A>
  auto operator()(const B& block, const A&... args) const {
    using R = decltype(std::declval<const Compiled<Call>&>()(block, args...));
    const std::shared_ptr<const void>* function = state_->function_of(type_key<B>(), std::addressof(block));
    if (function == nullptr) return R(block(args...));
    return (*static_cast<const Compiled<Call>*>(function->get()))(block, args...);
  }

  /// The lists of blocks that the model has.
  const std::vector<FoundRegion>& found() const { return state_->found; }
  /// The same in words, a line for each.
  std::string text() const { return jit_detail::regions_text(state_->found); }
  /// Figures of the code of this kind of blocks.
  template <class B>
  Stats stats() const {
    const std::shared_ptr<const void>* function = state_->function_of(type_key<B>(), nullptr);
    return function == nullptr ? Stats() : static_cast<const Compiled<Call>*>(function->get())->stats();
  }

 private:
  struct Call {
    template <class B, class... A>
    auto operator()(const B& block, const A&... args) const {
      return block(args...);
    }
  };
  struct State {
    Options options;
    Location where;
    std::vector<FoundRegion> found;
    std::map<std::pair<TypeKey, std::vector<std::int64_t>>, std::shared_ptr<const void>> functions;  // by settings
    std::map<TypeKey, const std::shared_ptr<const void>*> by_type;                           // those found first
    std::map<std::pair<TypeKey, const void*>, const std::shared_ptr<const void>*> by_place;  // null: uncompiled

    const std::shared_ptr<const void>* function_of(TypeKey type, const void* place) const {
      if (const auto known = by_place.find({type, place}); known != by_place.end()) return known->second;
      const auto kind = by_type.find(type);
      return kind == by_type.end() ? nullptr : kind->second;
    }
  };

  template <class B>
  void add_list(const std::vector<B>& blocks, const std::string& path) {
    State& state = *state_;
    const ScopeSettings settings = jit_detail::settings_for_region(path);
    const bool is_compiled = settings.compile.value_or(true);
    state.found.push_back({path, jit_detail::type_name<B>(), blocks.size(), is_compiled});
    const std::shared_ptr<const void>* function = nullptr;
    if (is_compiled) {
      std::shared_ptr<const void>& made = state.functions[{type_key<B>(), settings.key()}];
      if (made == nullptr)
        made = std::make_shared<const Compiled<Call>>(Call{}, settings.applied_to(state.options), state.where);
      function = &made;
      state.by_type.emplace(type_key<B>(), function);
    }
    for (const B& block : blocks) state.by_place[{type_key<B>(), std::addressof(block)}] = function;
  }

  std::shared_ptr<State> state_;
};

/// Finds the blocks that a model repeats: vectors of structs with a const operator(), in structs, maps and vectors at
/// any depth. Each kind of block is compiled once, and what is around them stays ordinary C++. The model is looked at,
/// not copied; its Variables are trained from outside as before.
template <class Model>
  requires(!tree::is_vector<Model>)
ModelRegions compile_regions(const Model& model, Options options = {},
                             Location where = std::source_location::current()) {
  return ModelRegions(model, std::move(options), where);
}

}  // namespace jit
SINTER_NAMESPACE_END
