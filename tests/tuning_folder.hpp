// A store of measured choices of a test's own.
#pragma once

#include "temporary_folder.hpp"

#include <sinter/tuning.hpp>

#include <cstdlib>
#include <string>

namespace sinter_test {

/// A folder of its own for the store, and a process that knows nothing yet.
struct TuningFolder {
  Folder folder;
  std::string before = setting("SINTER_CACHE_DIR", "off"), megabytes_before = setting("SINTER_CACHE_MB", "0");
  TuningFolder() { use(folder.path); }
  ~TuningFolder() { use(before, megabytes_before); }
  static void use(const std::string& path, const std::string& megabytes = "8") {
    ::setenv("SINTER_CACHE_DIR", path.c_str(), 1);
    ::setenv("SINTER_CACHE_MB", megabytes.c_str(), 1);
    sinter::runtime_detail::reopen_tuning();
  }
  static std::string setting(const char* name, const char* otherwise) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : otherwise;
  }
};

}  // namespace sinter_test
