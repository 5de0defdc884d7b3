// Saving by snapshot, and functions of a file.
#pragma once

#include <sinter/io/function_file.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/io/function_reader.hpp>
#include <sinter/io/function_writer.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/saved/saved_function.hpp>
#include <sinter/runtime/plan_code.hpp>
#include <sinter/runtime/program_code.hpp>
#include <sinter/runtime/tuning_store.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
/// The machine code of all versions that read no value.
inline std::vector<runtime_detail::CodeEntry> code_of(std::initializer_list<NamedFunction> functions) {
  runtime_detail::CodeRecording recording;
  for (const NamedFunction& function : functions) {
    function.function.state().wait_for_code();
    for (const Entry* entry = function.function.state().newest(); entry != nullptr; entry = entry->next)
      if (entry->end.plan != nullptr) runtime_detail::compile_again(*entry->end.plan);
  }
  return recording.take();
}
}  // namespace jit_detail

SINTER_DECL void save(const AnyFunction& function, const std::string& path, const SaveOptions& options,
                      Location where) {
  jit_detail::Snapshot snapshot(where);
  snapshot.add("function", function.state());
  const jit::SavedBundle bundle = snapshot.finish();
  std::vector<runtime_detail::CodeEntry> code;
  if (options.code) code = jit_detail::code_of({{"function", function}});
  io::io_detail::write_functions(bundle, path, {options.weights, code}, where);
}
SINTER_DECL void save(std::initializer_list<NamedFunction> functions, const std::string& path,
                      const SaveOptions& options, Location where) {
  if (functions.size() == 0) throw UserError("save", "no function is given", where, "name one at least");
  jit_detail::Snapshot snapshot(where);
  for (auto function = functions.begin(); function != functions.end(); ++function) {
    if (std::any_of(functions.begin(), function,
                    [&](const NamedFunction& other) { return other.name == function->name; }))
      throw UserError("save", "two functions are called '" + function->name + "'", where,
                      "give each a name of its own");
    snapshot.add(function->name, function->function.state());
  }
  const jit::SavedBundle bundle = snapshot.finish();
  std::vector<runtime_detail::CodeEntry> code;
  if (options.code) code = jit_detail::code_of(functions);
  io::io_detail::write_functions(bundle, path, {options.weights, code}, where);
}

namespace jit_detail {

struct OpenFunctionFile {
  std::string path;
  std::optional<Options> options;  // in place of those that were saved
  std::vector<SavedFunction> functions;
  std::shared_ptr<const std::vector<SavedVariable>> slots;
  std::map<std::string, Variable> variables;
};

/// Makes the Variables; gradients are those that their Variables have.
inline void make_variables(io::io_detail::ReadFunctions& read, OpenFunctionFile& file, Location where) {
  auto& saved = read.bundle.variables;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (saved[i].role != VariableSlot::PerThreadRole::none || saved[i].gradient_of >= 0) continue;
    const Variable made(read.values[i], saved[i].name);
    if (saved[i].requires_grad) made.requires_grad(true, where);
    saved[i].slot = made.slot();
    if (!file.variables.emplace(saved[i].name, made).second)
      throw UserError("load", file.path + ": two Variables are called '" + saved[i].name + "'", where,
                      "the file is damaged: save it again");
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (saved[i].gradient_of < 0) continue;
    const std::shared_ptr<VariableSlot>& of = saved[as_index(saved[i].gradient_of)].slot;
    saved[i].slot = of->gradient() != nullptr ? *of->gradient() : Variable(read.values[i], saved[i].name).slot();
    saved[i].slot->set(read.values[i].impl());
  }
  file.slots = std::make_shared<const std::vector<SavedVariable>>(std::move(saved));
}

SINTER_DECL std::shared_ptr<const OpenFunctionFile> open_function_file(const std::string& path,
                                                                       const LoadOptions& options, Location where) {
  io::io_detail::ReadFunctions read =
      io::io_detail::read_functions(path, {options.weights, options.check_weights, options.trust_code}, where);
  auto file = std::make_shared<OpenFunctionFile>();
  file->path = path;
  file->options = options.options;
  make_variables(read, *file, where);
  file->functions = std::move(read.bundle.functions);
  return file;
}

SINTER_DECL std::map<std::string, Variable> FromFile::variables() const { return file_->variables; }

SINTER_DECL Options options_for(const OpenFunctionFile& file, const SavedProgram& program) {
  return file.options.value_or(program.function.options);
}
SINTER_DECL void use_saved(FunctionState& function, std::shared_ptr<const SavedProgram> program) {
  function.use_saved(std::move(program));
}

/// Compares the parts of a result with the layout that is to take them. What is as deep as this is no result.
class PartsCheck {
 public:
  explicit PartsCheck(std::span<const SavedPart> parts) : left_(parts) {}
  bool fits(const tree::Layout& layout) { return takes(layout, 0) && left_.empty(); }

 private:
  static constexpr int deepest = 256;
  bool takes(const tree::Layout& layout, int depth) {
    using tree::Kind;
    if (depth > deepest) return false;
    const auto times = [&](std::int64_t count, auto&& part) {
      for (; count > 0; --count)
        if (!part()) return false;
      return true;
    };
    std::int64_t count = 0;
    switch (layout.kind) {
      case Kind::tensor:
      case Kind::scalar:
      case Kind::variable: return take(SavedPart::Kind::value, count);
      case Kind::dim: return take(SavedPart::Kind::extent, count);
      case Kind::number: return take(SavedPart::Kind::fixed, count);
      case Kind::text:
        return take_size(count) && times(count, [&] {
                 std::int64_t c = 0;
                 return take(SavedPart::Kind::fixed, c);
               });
      case Kind::elements: return take_size(count) && times(count, [&] { return takes(*layout.parts[0], depth + 1); });
      case Kind::optional:
        return take_size(count) && count <= 1 && times(count, [&] { return takes(*layout.parts[0], depth + 1); });
      case Kind::map:
        return take_size(count) &&
               times(count, [&] { return takes(*layout.parts[0], depth + 1) && takes(*layout.parts[1], depth + 1); });
      case Kind::fields:
        for (std::uint32_t i = 0; i < layout.count; ++i)
          if (!takes(*layout.parts[i], depth + 1)) return false;
        return true;
      case Kind::none: return false;
    }
    return false;
  }
  bool take(SavedPart::Kind kind, std::int64_t& number) {
    if (left_.empty() || left_.front().kind != kind) return false;
    number = left_.front().number;
    left_ = left_.subspan(1);
    return true;
  }
  bool take_size(std::int64_t& count) {
    constexpr std::int64_t most_without_parts = 1 << 20;  // elements may be empty structs
    return take(SavedPart::Kind::fixed, count) && count >= 0 &&
           count <= static_cast<std::int64_t>(left_.size()) + most_without_parts;
  }
  std::span<const SavedPart> left_;
};

/// Of all its functions: one of them holds the winners of the process that saved them. Without them kernels are
/// measured again, which is no reason to refuse a file.
inline void add_tuning_of(const OpenFunctionFile& file, Location where) {
  for (const SavedFunction& function : file.functions) {
    if (function.tuning.empty()) continue;
    try {
      runtime_detail::add_tuning_text(function.tuning, file.path, where, runtime_detail::KnownWinners::keep);
    } catch (const UserError& error) {
      warn("autotune", "the schedules of '" + function.name + "' are left out: " + error.what());
    }
  }
}

SINTER_DECL std::shared_ptr<const SavedProgram> program_in(const OpenFunctionFile& file, const std::string& name,
                                                           const WantedTypes& types, Location where) {
  const auto list = [&] {
    std::string names;
    for (const SavedFunction& function : file.functions) names += (names.empty() ? "" : ", ") + function.name;
    return names;
  };
  const SavedFunction* found = nullptr;
  for (const SavedFunction& function : file.functions)
    if (name.empty() ? file.functions.size() == 1 : function.name == name) found = &function;
  if (found == nullptr)
    throw UserError("load",
                    file.path + (name.empty() ? " holds " + std::to_string(file.functions.size()) + " functions"
                                              : " holds no function '" + name + "'"),
                    where, "name one of: " + list());
  const std::string wanted = signature_text(types.arguments, types.result);
  auto program = std::make_shared<SavedProgram>();
  program->function.name = found->name;
  program->function.options = found->options;
  program->function.where = found->where;
  program->variables = file.slots;
  std::string others;
  for (const SavedVersion& version : found->versions) {
    if (version.signature != wanted) {
      if (others.find(version.signature) == std::string::npos)
        others += (others.empty() ? "" : ", or ") + version.signature;
      continue;
    }
    for (const SavedStep& step : version.steps)
      if (step.is_end && !PartsCheck(step.shape).fits(types.result))
        throw UserError("load", file.path + ": a result of '" + found->name + "' is not what its types say", where,
                        "the file is damaged: save it again");
    program->function.versions.push_back(version);
  }
  if (program->function.versions.empty())
    throw UserError("load", "'" + found->name + "' of " + file.path + " is " + others + ", and asked for is " + wanted,
                    where, "give jit::load a signature of that structure");
  if (is_tuned(found->options.mode)) add_tuning_of(file, where);
  return program;
}

}  // namespace jit_detail

SINTER_DECL FunctionFile::FunctionFile(const std::string& path, const LoadOptions& options, Location where)
    : file_(jit_detail::open_function_file(path, options, where)) {}
SINTER_DECL std::map<std::string, Variable> FunctionFile::variables() const { return file_->variables; }
SINTER_DECL std::vector<std::string> FunctionFile::names() const {
  std::vector<std::string> names;
  for (const SavedFunction& function : file_->functions) names.push_back(function.name);
  return names;
}
SINTER_DECL std::string FunctionFile::text() const {
  std::string text;
  for (const SavedFunction& function : file_->functions)
    for (const SavedVersion& version : function.versions) {
      text += function.name + version.signature + "\n" + version.guards.text();
      for (const SavedStep& step : version.steps) text += step.graph.text();
    }
  return text;
}

}  // namespace jit
SINTER_NAMESPACE_END
