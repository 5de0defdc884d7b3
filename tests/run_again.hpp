// Tests of settings that a process reads once: the program of tests runs again, in a process of its own.
#pragma once

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

/// What `test` of this program prints under these settings.
inline std::string under(const std::string& settings, const std::string& test) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::FILE* pipe = popen(("env " + settings + " '" + program + "' '" + test + "' 2>&1").c_str(), "r");
  if (pipe == nullptr) return "no process";
  std::string text;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) text += line.data();
  pclose(pipe);
  return text;
}
