// A folder that goes with the test.
#pragma once

#include "catch.hpp"

#include <stdlib.h>  // mkdtemp

#include <filesystem>
#include <string>

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "sinter_test_XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};
