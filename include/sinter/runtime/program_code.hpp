// The code cache of this program: one per process, in the user's cache folder, written in the background and at exit.
// What makes code of another build unfit is its version, the identity of the program or library that Sinter is in. Must
// not know what makes code, or what for.
#pragma once

#include <sinter/base/code_stats.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/code_cache.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

/// The value of a key. Nothing is found where graphs and loop nests are to be checked (SINTER_CHECK).
std::optional<FoundCode> find_program_code(std::string_view key);
/// A piece of code, and all that it follows from.
struct CodeEntry {
  std::string key, value;
};
/// While it lives, what this thread finds or generates is noted, too.
class CodeRecording {
 public:
  CodeRecording();
  ~CodeRecording();
  CodeRecording(const CodeRecording&) = delete;
  CodeRecording& operator=(const CodeRecording&) = delete;
  /// Code that the process holds already is to be asked for again.
  static bool is_on() noexcept;
  /// Each key once.
  std::vector<CodeEntry> take();

 private:
  friend void note_code(std::string_view key, std::string_view value);
  CodeRecording* before_;
  std::vector<CodeEntry> entries_;
};
/// From now on, code of this build that was not in the cache is looked for here: whoever calls this answers for it.
void trust_code(std::vector<CodeEntry> entries);
/// Counts a piece that was generated, and keeps it.
void keep_program_code(std::string_view key, std::string_view value);
/// What code of this build is marked with; empty where the system does not tell builds apart.
std::string program_version();
/// For tests: writes what is kept, and reads environment and folder again.
void reopen_program_code();

}  // namespace runtime_detail
SINTER_NAMESPACE_END
