// Walks over objects that name their leaves.
#pragma once

#include <sinter/io/state.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>

#include <optional>
#include <set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {

SINTER_DECL std::string LoadReport::text() const {
  std::string out;
  for (const std::string& name : missing) out += "missing: " + name + "\n";
  for (const std::string& name : unexpected) out += "unexpected: " + name + "\n";
  for (const std::string& what : wrong) out += "does not fit: " + what + "\n";
  return out;
}

namespace io_detail {

/// "weight" of ".weight", "3" of "[3]" and of ".field3", "key" of "[\"key\"]".
inline std::string name_of_step(const tree::Step& step) {
  if (step.kind == tree::Step::Kind::item || (step.kind == tree::Step::Kind::field && step.names.empty()))
    return std::to_string(step.index);
  std::string text = step.text();
  if (text.starts_with("[\"")) return text.substr(2, text.size() - 4);
  if (text.starts_with("[")) return text.substr(1, text.size() - 2);
  return text.starts_with(".") ? text.substr(1) : text;
}

/// The Tensors and Variables of an object with their names, in the order in which an Editor meets them.
struct NamedLeaves final : tree::Reader {
  std::vector<std::pair<std::string, Tensor>> found;
  std::vector<std::string> path;
  bool knows_path() const override { return true; }
  void enter_part(tree::Step::Kind kind, std::uint32_t index, std::string_view fields) override {
    path.push_back(name_of_step({kind, index, fields, {}}));
  }
  void enter_key(std::string key) override { path.push_back(name_of_step({tree::Step::Kind::key, 0, {}, key})); }
  void leave_part() override { path.pop_back(); }
  void tensor(const Tensor& x) override {
    std::string name;
    for (const std::string& step : path) name.append(name.empty() ? "" : ".").append(step);
    found.emplace_back(std::move(name), x);
  }
  void variable(const Variable& x) override { tensor(x.value()); }
  void scalar(const Scalar&) override {}
  void dim(const Dim&) override {}
};

SINTER_DECL TensorMap state_of(tree::View object) {
  NamedLeaves leaves;
  object.read(leaves);
  TensorMap state;
  for (auto& [name, value] : leaves.found) {
    if (state.find(name) != state.end())
      throw UserError("state_dict", "two Tensors have the name \"" + name + "\"", {},
                      "keys of maps must differ as text");
    state.emplace(name, std::move(value));
  }
  return state;
}

inline std::string renamed(const std::string& name, const std::vector<Rename>& renames) {
  for (const Rename& rule : renames)
    if (name.starts_with(rule.from)) return rule.to + name.substr(rule.from.size());
  return name;
}

/// The value for each leaf, or none; what did not fit goes to the report.
inline std::vector<std::optional<Tensor>> match_leaves(const NamedLeaves& leaves, const TensorMap& state,
                                                       const LoadOptions& options, LoadReport& report, Location where) {
  TensorMap by_name;
  for (const auto& [name, value] : state)
    if (!by_name.emplace(renamed(name, options.renames), value).second)
      report.wrong.push_back(name + ": another one is renamed to the same name");
  std::set<std::string> used;
  std::vector<std::optional<Tensor>> values;
  for (const auto& [name, there] : leaves.found) {
    std::optional<Tensor>& value = values.emplace_back();
    if (!used.insert(name).second) report.wrong.push_back(name + ": two Tensors of the model have this name");
    const auto given = by_name.find(name);
    if (given == by_name.end()) {
      report.missing.push_back(name);
    } else if (!(given->second.shape() == there.shape())) {
      report.wrong.push_back(name + ": the model has " + there.shape().text() + ", the state " +
                             given->second.shape().text());
    } else {
      value = given->second;
      if (value->dtype() != there.dtype()) value = value->to(there.dtype(), where);
      if (value->device() != there.device()) value = value->to(there.device(), where);
      report.loaded.push_back(name);
    }
  }
  for (const auto& entry : by_name)
    if (used.find(entry.first) == used.end()) report.unexpected.push_back(entry.first);
  return values;
}

/// The leaves that cannot be assigned, by number.
struct ConstLeaves final : tree::Editor {
  using Editor::dim, Editor::scalar;
  std::vector<std::size_t> found;
  std::size_t next = 0;
  void tensor(Tensor&) override { ++next; }
  void tensor(const Tensor&) override { found.push_back(next++); }
  void scalar(Scalar&) override {}
  void dim(Dim&) override {}
  void variable(const Variable&) override { ++next; }
};

SINTER_DECL LoadReport load_state(tree::View shown, tree::Part object, const TensorMap& state,
                                  const LoadOptions& options, Location where) {
  struct Assign final : tree::Editor {
    explicit Assign(const std::vector<std::optional<Tensor>>& list) : values(list) {}
    const std::vector<std::optional<Tensor>>& values;
    std::size_t next = 0;
    using Editor::dim, Editor::scalar;
    void tensor(Tensor& x) override {
      if (const auto& value = values.at(next++)) x = *value;
    }
    void tensor(const Tensor&) override { ++next; }
    void scalar(Scalar&) override {}
    void dim(Dim&) override {}
    void variable(const Variable& x) override {
      if (const auto& value = values.at(next++)) x.set(*value);
    }
  };
  NamedLeaves leaves;
  shown.read(leaves);
  LoadReport report;
  std::vector<std::optional<Tensor>> values = match_leaves(leaves, state, options, report, where);
  ConstLeaves fixed;
  object.edit(fixed);
  for (const std::size_t i : fixed.found) {
    if (!values[i]) continue;
    values[i].reset();
    std::erase(report.loaded, leaves.found[i].first);
    report.wrong.push_back(leaves.found[i].first + ": is const in the model");
  }
  if (options.strict == Strict::yes && !report.is_complete())
    throw UserError("load_state_dict", "the state does not fit the model\n" + report.text(), where,
                    "give renames, or Strict::no to load what fits");
  Assign assign(values);
  object.edit(assign);
  return report;
}

}  // namespace io_detail
}  // namespace io
SINTER_NAMESPACE_END
