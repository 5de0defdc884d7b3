// Checkpoints are files of safetensors; the step stands in the metadata and in the name.
#pragma once

#include <sinter/io/checkpoint.hpp>

#include <sinter/expr/creation.hpp>
#include <sinter/io/safetensors.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {
namespace io_detail {

inline constexpr std::string_view checkpoint_prefix = "checkpoint_", checkpoint_suffix = ".safetensors";
inline constexpr const char *generator_key = "sinter.generator.key", *generator_counter = "sinter.generator.counter";
inline constexpr const char* note_prefix = "note.";

inline std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", static_cast<long long>(step));
  return folder + "/" + std::string(checkpoint_prefix) + digits + std::string(checkpoint_suffix);
}

/// The number in a file's name, or -1.
inline std::int64_t step_of_name(std::string_view name) {
  if (!name.starts_with(checkpoint_prefix) || !name.ends_with(checkpoint_suffix)) return -1;
  name.remove_prefix(checkpoint_prefix.size());
  name.remove_suffix(checkpoint_suffix.size());
  std::int64_t step = -1;
  const auto [stop, status] = std::from_chars(name.data(), name.data() + name.size(), step);
  return status == std::errc() && stop == name.data() + name.size() ? step : -1;
}

/// Files that a killed run had not finished, and checkpoints beyond the newest `keep`.
inline void remove_old(const std::string& folder, int keep) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const auto end = name.rfind('.');
    if (name.starts_with(checkpoint_prefix) && end != std::string::npos && name.size() - end == 7 &&
        step_of_name(std::string_view(name).substr(0, end)) >= 0)
      std::filesystem::remove(entry.path(), ignored);
  }
  if (keep == 0) return;
  const std::vector<std::int64_t> steps = list_checkpoints(folder);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i)
    std::filesystem::remove(checkpoint_path(folder, steps[i]), ignored);
}

SINTER_DECL std::string save_state(const std::string& folder, std::int64_t step, TensorMap state,
                                   const CheckpointOptions& options, Location where) {
  if (step < 0 || options.keep < 0)
    throw UserError("save_checkpoint",
                    "the step is " + std::to_string(step) + ", keep is " + std::to_string(options.keep), where,
                    "give numbers from 0 up");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError("save_checkpoint", folder, "cannot be made: " + error.message(), where);
  const Generator& generator = Generator::current();
  state.insert_or_assign(generator_key, generator.key.value());
  state.insert_or_assign(generator_counter, generator.counter.value());
  std::map<std::string, std::string> metadata{{"sinter.step", std::to_string(step)}};
  for (const auto& [key, value] : options.notes) metadata[note_prefix + key] = value;
  std::string path = checkpoint_path(folder, step);
  save_safetensors(path, state, metadata, where);
  remove_old(folder, options.keep);
  return path;
}

SINTER_DECL std::pair<Checkpoint, TensorMap> read_state(const std::string& folder, std::optional<std::int64_t> step,
                                                        Location where) {
  Checkpoint found;
  found.step = step ? *step : list_checkpoints(folder).back();
  found.path = checkpoint_path(folder, found.step);
  SafeTensors file = read_safetensors(found.path, where);
  if (const auto written = file.metadata.find("sinter.step");
      written == file.metadata.end() || written->second != std::to_string(found.step))
    throw IoError("load_checkpoint", found.path, "is no checkpoint of this step", where, "was it renamed?");
  const std::string_view prefix = note_prefix;
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(prefix)) found.notes[key.substr(prefix.size())] = value;
  return {std::move(found), std::move(file.tensors)};
}

SINTER_DECL TensorMap take_generator(TensorMap& tensors, const std::string& path, Location where) {
  const Generator& generator = Generator::current();
  TensorMap taken;
  for (const auto& [name, to] :
       {std::pair(generator_key, generator.key), std::pair(generator_counter, generator.counter)}) {
    auto node = tensors.extract(name);
    if (!node || !(node.mapped().shape() == to.shape()) || node.mapped().dtype() != to.dtype())
      throw IoError("load_checkpoint", path, std::string("holds no ") + name + " that fits", where);
    taken.insert(std::move(node));
  }
  return taken;
}

SINTER_DECL void restore_generator(const TensorMap& state) {
  const Generator& generator = Generator::current();
  generator.key.set(state.at(generator_key));
  generator.counter.set(state.at(generator_counter));
}

}  // namespace io_detail

SINTER_DECL std::vector<std::int64_t> list_checkpoints(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (const std::int64_t step = io_detail::step_of_name(entry.path().filename().string()); step >= 0)
      steps.push_back(step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace io
SINTER_NAMESPACE_END
