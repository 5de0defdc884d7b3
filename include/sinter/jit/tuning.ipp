// Files of schedules, and whole programs that are tuned by their environment.
#pragma once

#include <sinter/jit/tuning.hpp>

#include <sinter/base/background.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/jit/tune/tuner.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <system_error>

#include <unistd.h>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL std::int64_t export_tuning(const std::string& path, Location where) {
  const std::string text = runtime_detail::tuning_text();
  const auto refuse = [&](const std::string& why) {
    throw UserError("export_tuning", "'" + path + "' cannot be written: " + why, where,
                    "give a path in a folder that exists and may be written to");
  };
  std::error_code problem;
  const bool is_special = std::filesystem::exists(path, problem) && !std::filesystem::is_regular_file(path, problem);
  std::filesystem::path target = std::filesystem::weakly_canonical(path, problem);  // a link stays one
  if (problem || is_special) target = path;
  // What was there stays until the new file is whole; a device or a pipe is written to.
  const std::string beside = is_special ? path : target.string() + ".new." + std::to_string(::getpid());
  errno = 0;
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    const std::string why = std::strerror(errno);
    if (!is_special) std::filesystem::remove(beside, problem);
    refuse(why);
  }
  if (!is_special) {
    std::filesystem::rename(beside, target, problem);
    if (problem) {
      const std::string why = problem.message();
      std::filesystem::remove(beside, problem);
      refuse(why);
    }
  }
  return std::count(text.begin(), text.end(), '\n') - 2;  // but for the first line and the last
}

SINTER_DECL std::int64_t import_tuning(const std::string& path, Location where) {
  const auto refuse = [&](const std::string& why) {
    throw UserError("import_tuning", "'" + path + "' cannot be read: " + why, where,
                    "give a file that jit::export_tuning or tools/tune has written");
  };
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem)) refuse("it is a folder");  // which opens, and throws when read
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure& failure) { refuse(failure.what()); }
  if (!file) refuse(std::strerror(errno));
  return runtime_detail::add_tuning_text(text, path, where);
}

SINTER_DECL void wait_for_background() {
  base_detail::wait_for_background();
  base_detail::wait_for_background();  // for the tuning that the first ones' jobs have asked for
}

namespace jit_detail {
/// SINTER_TUNE and SINTER_TUNE_EXPORT.
struct TuneEnvironment {
  double seconds = 0;  // 0: off
  std::string path;    // that is written at exit
  TuneEnvironment() {
    const char* const text = std::getenv("SINTER_TUNE");
    if (text == nullptr || *text == '\0' || std::strcmp(text, "0") == 0) return;
    const char* const end = text + std::strlen(text);
    const auto [stop, problem] = std::from_chars(text, end, seconds);
    if (problem != std::errc() || stop != end || !(seconds > 0) || seconds > 1e6)
      throw UserError("SINTER_TUNE", "'" + std::string(text) + "' is no number of seconds", {},
                      "give the seconds that each version may be measured for, 2 say, or unset SINTER_TUNE");
    const char* const file = std::getenv("SINTER_TUNE_EXPORT");
    if (file == nullptr || *file == '\0') return;
    path = file;
    std::atexit(&write_at_exit);
  }
  static const TuneEnvironment& get() { return process_object<TuneEnvironment>(); }
  static void write_at_exit() {
    try {
      export_tuning(get().path, Location());
    } catch (...) {  // at exit nobody is there to be told; tools/tune looks for the file
    }
  }
};

SINTER_DECL void tune_by_environment(Options& options) {
  const std::string& backend = options.backend.name();
  if (options.mode != Mode::default_ || options.backend.function() != nullptr || is_unfused_backend(backend) ||
      backend == "noop" || registered_backend(backend) != nullptr)
    return;
  const TuneEnvironment& environment = TuneEnvironment::get();
  if (environment.seconds == 0) return;
  options.mode = Mode::max_autotune_no_cudagraphs;
  if (options.tune_seconds == 0) options.tune_seconds = environment.seconds;
}
}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
