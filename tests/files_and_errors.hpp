// What tests of saved files share: whole files as text, the text of an error, and whether machine code is generated.
#pragma once

#include "catch.hpp"

#include <fstream>
#include <ios>
#include <iterator>
#include <string>

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
/// The text of the error that `run` throws.
template <class E, class F>
std::string error_of(F&& run) {
  try {
    run();
  } catch (const E& error) { return error.what(); }
  FAIL("nothing was thrown");
  return {};
}
#define CHECK_CONTAINS(text, part) CHECK_THAT(text, Catch::Contains(part))

constexpr bool has_code =
#ifdef SINTER_NO_X86
    false;
#else
    true;
#endif
