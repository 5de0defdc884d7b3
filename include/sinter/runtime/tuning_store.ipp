// The table of the process, the folder, and the form of files.
#pragma once

#include <sinter/runtime/tuning_store.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/kernel/schedule.hpp>
#include <sinter/runtime/program_code.ipp>  // code_folder, CodeCache

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

inline constexpr std::string_view tuning_header = "sinter tuning 1";
inline constexpr std::string_view tuning_sum = "checksum ";
inline constexpr std::int64_t tuning_limit_bytes = std::int64_t{4} << 20;

struct TuningTable {
  ForkSafeMutex mutex;  // of what follows
  std::map<std::string, std::string, std::less<>> known;
  std::vector<std::unique_ptr<CodeCache>> opened;  // the last one is in use
  TuningStats stats;
  static TuningTable& instance() { return process_object<TuningTable>(); }

  CodeCache& folder() {
    std::scoped_lock lock(mutex);
    if (opened.empty()) open();
    return *opened.back();
  }
  /// Under the lock. The version is no build's: schedules are the same to all of them.
  void open() {
    std::string path = cache_limit() > 0 ? code_folder() : std::string();
    if (!path.empty()) path.replace(path.rfind("/cpu"), std::string::npos, "/tuning");
    opened.push_back(std::make_unique<CodeCache>(std::move(path), std::string(tuning_header), tuning_limit_bytes));
  }
};

SINTER_DECL std::optional<std::string> find_tuning(const std::string& key) {
  TuningTable& table = TuningTable::instance();
  {
    std::scoped_lock lock(table.mutex);
    if (const auto found = table.known.find(key); found != table.known.end()) return found->second;
  }
  const std::optional<FoundCode> stored = table.folder().find(key);
  if (!stored) return {};
  std::scoped_lock lock(table.mutex);
  return table.known.emplace(key, stored->value()).first->second;
}

SINTER_DECL void keep_tuning(const std::string& key, const std::string& value) {
  TuningTable& table = TuningTable::instance();
  static_cast<void>(table.folder().keep(key, value));
  std::scoped_lock lock(table.mutex);
  table.known.insert_or_assign(key, value);
}

SINTER_DECL void write_tuning() noexcept {
  try {
    TuningTable::instance().folder().write();
  } catch (...) {  // out of memory: others measure again
  }
}

SINTER_DECL void reopen_tuning() {
  write_tuning();
  TuningTable& table = TuningTable::instance();
  std::scoped_lock lock(table.mutex);
  table.known.clear();
  table.stats = {};
  table.open();
}

SINTER_DECL void count_tuning(const TuningStats& more) {
  TuningTable& table = TuningTable::instance();
  std::scoped_lock lock(table.mutex);
  table.stats.measured += more.measured;
  table.stats.found += more.found;
  table.stats.gained += more.gained;
  table.stats.rejected += more.rejected;
  table.stats.unfinished += more.unfinished;
  table.stats.plans_measured += more.plans_measured;
  table.stats.plans_found += more.plans_found;
  table.stats.plans_gained += more.plans_gained;
}

inline std::string sum_of(std::string_view text) { return hex_text(Hasher{}.add(text).finish()); }

SINTER_DECL std::string tuning_text() {
  TuningTable& table = TuningTable::instance();
  std::string text = std::string(tuning_header) + "\n";
  {
    std::scoped_lock lock(table.mutex);
    for (const auto& [key, value] : table.known) text += key + " = " + value + "\n";
  }
  return text + std::string(tuning_sum) + sum_of(text) + "\n";
}

SINTER_DECL std::int64_t add_tuning_text(std::string_view text, std::string_view path, Location where,
                                         KnownWinners known) {
  const auto refuse = [&](const std::string& what) {
    throw UserError("import_tuning", "'" + std::string(path) + "' " + what, where,
                    "give a file that jit::export_tuning or tools/tune has written, unchanged");
  };
  if (!text.starts_with(std::string(tuning_header) + "\n"))
    refuse("is no file of schedules: it does not begin with '" + std::string(tuning_header) + "'");
  const std::size_t end = text.rfind("\n" + std::string(tuning_sum)) + 1;  // 0: there is none
  if (end == 0 || text.substr(end) != std::string(tuning_sum) + sum_of(text.substr(0, end)) + "\n")
    refuse("is damaged or cut short: its checksum is not that of its lines");
  std::vector<std::pair<std::string, std::string>> entries;
  std::string_view lines = text.substr(0, end);
  lines.remove_prefix(lines.find('\n') + 1);
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(line.size() + 1);
    const std::size_t split = line.rfind(" = ");
    if (split == std::string_view::npos || !parse_schedule(schedule_in(line.substr(split + 3))))
      refuse("has a line without a schedule: " + std::string(line.substr(0, 80)));
    entries.emplace_back(line.substr(0, split), line.substr(split + 3));
  }
  for (const auto& [key, value] : entries)
    if (known == KnownWinners::replace || !find_tuning(key)) keep_tuning(key, value);
  write_tuning();
  return static_cast<std::int64_t>(entries.size());
}

SINTER_DECL std::string processor_text() {
#if defined(__x86_64__)
  unsigned words[12]{}, largest = 0, version = 0, unused[3];
  char maker[13]{};
  unsigned* const part = reinterpret_cast<unsigned*>(words);
  __cpuid(0, largest, part[0], part[2], part[1]);
  std::memcpy(maker, words, 12);
  __cpuid(1, version, unused[0], unused[1], unused[2]);
  std::string text = std::string(maker) + " " + std::to_string(version);
  if (__get_cpuid_max(0x80000000, nullptr) < 0x80000004) return text;
  for (unsigned i = 0; i < 3; ++i)
    __cpuid(0x80000002 + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  char model[49]{};
  std::memcpy(model, words, 48);
  return text + " " + model;
#else
  return "unknown";
#endif
}

}  // namespace runtime_detail

SINTER_DECL TuningStats tuning_stats() {
  runtime_detail::TuningTable& table = runtime_detail::TuningTable::instance();
  std::scoped_lock lock(table.mutex);
  return table.stats;
}

SINTER_NAMESPACE_END
