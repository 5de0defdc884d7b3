// From YAML to a Configuration. Every fault names its line and column.
#pragma once

#include <sinter/jit/config/yaml.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/log.hpp>

#ifdef SINTER_YAML
#include <yaml-cpp/yaml.h>
#endif

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

#ifdef SINTER_YAML
namespace yaml_detail {

class ConfigurationReader {
 public:
  ConfigurationReader(std::string_view file, Location where) : file_(file), where_(where) {}

  jit_detail::Configuration read(std::string_view text) {
    YAML::Node root;
    try {
      root = YAML::Load(std::string(text));
    } catch (const YAML::Exception& error) { fail(error.mark, "is no YAML: " + error.msg, ""); }
    if (root.IsNull()) return {};
    read_map(root, "the file", {"logs", "log_format", "log_limit", "hot", "options", "scopes", "functions", "regions"},
             [&](std::string_view key, const YAML::Node& value) { read_entry(key, value); });
    return std::move(made_);
  }

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what, const std::string& fix) const {
    std::string place(file_.empty() ? std::string_view("the text") : file_);
    if (!mark.is_null()) place += ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
    throw UserError("configure", place + " " + what, where_, fix);
  }

  /// Calls use(key, value) for each entry; keys must be among `known`, or anything where that is empty.
  template <class Use>
  void read_map(const YAML::Node& node, const std::string& what, const std::vector<std::string_view>& known,
                const Use& use) const {
    if (!node.IsMap()) fail(node.Mark(), "is " + what + ", which takes names with values", "write `name: value` lines");
    std::vector<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) fail(entry.first.Mark(), "is no name", "write `name: value` lines");
      const std::string& key = entry.first.Scalar();
      if (!known.empty() && std::find(known.begin(), known.end(), key) == known.end())
        fail(entry.first.Mark(), "'" + key + "' is nothing that " + what + " may have", nearest_fix(key, known));
      if (std::find(seen.begin(), seen.end(), key) != seen.end())
        fail(entry.first.Mark(), "'" + key + "' stands there twice", "leave one");
      seen.push_back(key);
      use(key, entry.second);
    }
  }

  static std::string nearest_fix(std::string_view word, const std::vector<std::string_view>& known) {
    const std::string_view nearest = nearest_name(word, known);
    std::string fix = nearest.empty() ? std::string() : "did you mean '" + std::string(nearest) + "'? ";
    fix += "it takes:";
    for (std::string_view each : known) fix.append(each == known.front() ? " " : ", ").append(each);
    return fix;
  }

  const std::string& scalar(const YAML::Node& node, std::string_view key) const {
    if (!node.IsScalar()) fail(node.Mark(), "'" + std::string(key) + "' takes one value", "");
    return node.Scalar();
  }
  std::int64_t count(const YAML::Node& node, std::string_view key) const {
    const std::string& text = scalar(node, key);
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
      fail(node.Mark(), "'" + text + "' is no whole number from 0 on, which " + std::string(key) + " takes", "");
    return value;
  }

  void read_entry(std::string_view key, const YAML::Node& value) {
    if (key == "logs") return read_logs(value);
    if (key == "log_format") {
      const std::string& form = scalar(value, key);
      if (form != "text" && form != "json")
        fail(value.Mark(), "'" + form + "' is no form of log lines", nearest_fix(form, {"text", "json"}));
      made_.log_format = form;
    } else if (key == "log_limit") {
      made_.log_limit = count(value, key);
    } else if (key == "hot") {
      made_.hot = count(value, key);
    } else if (key == "options") {
      made_.options = settings(value);
      refuse_those_of_scopes(made_.options, value);
    } else {
      auto& list = key == "scopes" ? made_.scopes : key == "functions" ? made_.functions : made_.regions;
      read_map(value, "'" + std::string(key) + "'", {}, [&](std::string_view pattern, const YAML::Node& node) {
        list.push_back({std::string(pattern), settings(node)});
        if (key != "scopes") refuse_those_of_scopes(list.back().settings, node);
      });
    }
  }

  void refuse_those_of_scopes(const ScopeSettings& found, const YAML::Node& node) const {
    if (found.threads || found.boundary.has_value())
      fail(node.Mark(), "has threads or boundary, which scopes have", "write them under `scopes:`");
  }

  void read_logs(const YAML::Node& value) {
    std::string topics;
    const auto add = [&](const YAML::Node& node) {
      const std::string& text = scalar(node, "logs");
      try {
        base_detail::check_logs("configure", text);
      } catch (const UserError& error) {
        const std::string_view message = error.what();
        const std::size_t quote = message.find('\''), end = message.find('\n');
        fail(node.Mark(), std::string(message.substr(quote, end - quote)), std::string(error.fix()));
      }
      topics += (topics.empty() ? "" : ",") + text;
    };
    if (value.IsSequence())
      for (const YAML::Node& each : value) add(each);
    else add(value);
    made_.logs = topics;
  }

  ScopeSettings settings(const YAML::Node& node) const {
    ScopeSettings made;
    std::vector<std::string_view> known;
    for (const jit_detail::Setting& setting : jit_detail::settings_table()) known.push_back(setting.name);
    read_map(node, "a list of settings", known, [&](std::string_view key, const YAML::Node& value) {
      const auto& table = jit_detail::settings_table();
      const auto setting = std::find_if(table.begin(), table.end(), [&](const auto& each) { return each.name == key; });
      const std::string& text = scalar(value, key);
      if (const std::string fault = jit_detail::set_setting(made, *setting, text); !fault.empty())
        fail(value.Mark(), "'" + text + "' " + fault, std::string(key) + ": " + std::string(setting->says));
      if (key == "backend") check_backend_at(value, text);
    });
    return made;
  }
  /// Registered back ends must be there when the file is read.
  void check_backend_at(const YAML::Node& value, const std::string& text) const {
    const std::vector<std::string> names = list_backends();
    std::vector<std::string_view> known{"inductor", "cudagraphs"};
    known.insert(known.end(), names.begin(), names.end());
    if (text.empty() || std::find(known.begin(), known.end(), text) != known.end()) return;
    fail(value.Mark(), "'" + text + "' is no back end", nearest_fix(text, known));
  }

  std::string_view file_;
  Location where_;
  jit_detail::Configuration made_;
};

}  // namespace yaml_detail

SINTER_DECL bool reads_configuration_files() noexcept { return true; }
namespace jit_detail {
SINTER_DECL Configuration read_configuration(std::string_view yaml, std::string_view file, Location where) {
  return yaml_detail::ConfigurationReader(file, where).read(yaml);
}
}  // namespace jit_detail
#else
SINTER_DECL bool reads_configuration_files() noexcept { return false; }
namespace jit_detail {
SINTER_DECL Configuration read_configuration(std::string_view, std::string_view, Location where) {
  throw UserError("configure", "this build of Sinter reads no configuration files: it has no yaml-cpp", where,
                  "install it (Debian and Ubuntu: apt-get install libyaml-cpp-dev) and configure with "
                  "-DSINTER_YAML=ON; header-only: define SINTER_YAML and link yaml-cpp");
}
}  // namespace jit_detail
#endif

}  // namespace jit
SINTER_NAMESPACE_END
